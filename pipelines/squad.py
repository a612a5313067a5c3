"""Questions, passages and answers, read from SQuAD JSON or from JSON lines with a clear sentence for every mistake."""

import codecs
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from fabir_tf.pipelines.errors import UserError

STANDARD_INPUT = "-"
NO_START = -1
FEWEST_TITLES = 10
LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Answer:
    """One reference answer.

    Args:
        text: the answer as the file has it.
        start: where it begins in the passage, in code points; -1 where the file does not say.
    """

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """One question about one passage.

    Args:
        id: the question's own name, unique in its file.
        text: the question as the file has it.
        passage: index into `SquadData.passages`.
        answers: the references, in the file's order; none for a question without an answer.
        is_impossible: what the file says; False where it says nothing (SQuAD 1.1).
    """

    id: str
    text: str
    passage: int
    answers: tuple[Answer, ...]
    is_impossible: bool = False


@dataclass(frozen=True)
class SquadData:
    """A whole file of questions, each passage held once.

    Args:
        name: where the data came from, for messages: the path of the file, or the name of the dataset.
        passages: one text per paragraph entry of the file.
        titles: the article's title of each passage, "" where the file gives none.
        questions: in the file's order.
    """

    name: str
    passages: tuple[str, ...]
    titles: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def has_unanswerable(self) -> bool:
        """Whether some question has no reference answer, so that SQuAD 2.0's score applies."""
        return any(not question.answers for question in self.questions)


@dataclass(frozen=True)
class Record:
    """One question to be answered, or the reason why it cannot be.

    Args:
        id: the question's own name; the line's number where it has none.
        question: the question's text, "" in a bad record.
        passage: the passage's text, "" in a bad record.
        error: "" in a good record, else one sentence that names the file and the line.
    """

    id: str
    question: str
    passage: str
    error: str = ""


def read_squad(path: str | os.PathLike[str]) -> SquadData:
    """Reads an official SQuAD 1.1 or 2.0 JSON file.

    Args:
        path: a UTF-8 JSON file; unknown fields are ignored, a missing title is "", a missing `answer_start` is -1.

    Returns:
        The file's texts, untouched, each paragraph entry being one passage.

    Raises:
        UserError: the file cannot be read, is no JSON, has another form than SQuAD's (the sentence gives the JSON path,
            what was found and what was expected), asks no question, or uses one question id twice.
    """
    return squad_from_json(read_json(path), str(path))


def squad_from_json(content: Any, name: str, *, need_answers: bool = True) -> SquadData:
    """Turns parsed SQuAD JSON into `SquadData`; see `read_squad`.

    Args:
        content: what `json.load` gave.
        name: the file's name, for messages.
        need_answers: whether a question without the field `answers` is a mistake.

    Returns:
        The data.

    Raises:
        UserError: the content has another form than SQuAD's.
    """
    reader = _Reader(name, need_answers)
    for article, place in reader.entries(content, "data", "the top level"):
        reader.read_article(article, place)
    if not reader.questions:
        raise UserError(f"{name}: found no question, expected at least one under data[].paragraphs[].qas[].")
    return SquadData(name, tuple(reader.passages), tuple(reader.titles), tuple(reader.questions))


def check_offsets(data: SquadData) -> None:
    """Checks that training data can be learnt from: every answer stands where the file says.

    Args:
        data: what `read_squad` returned.

    Raises:
        UserError: an answer is empty, has no start or does not stand at its start (the sentence shows the first such
            answer and counts them all), or a question has no answer and is not marked `is_impossible`.
    """
    unanswered = [question.id for question in data.questions if not question.answers and not question.is_impossible]
    if unanswered:
        raise UserError(
            f"{data.name}: question {unanswered[0]!r} has no answer and is not marked is_impossible, "
            f"expected an answer to learn from; there are {len(unanswered)} such questions."
        )
    pairs = [(question, answer) for question in data.questions for answer in question.answers]
    wrong = [(question, answer) for question, answer in pairs if not _stands(data, question, answer)]
    if wrong:
        count = f"{len(wrong)} of {len(pairs)} answers are off"
        raise UserError(f"{data.name}: {_describe_offset(data, *wrong[0])}; {count}.")


def hold_out(data: SquadData, every: int = 10) -> tuple[SquadData, SquadData]:
    """Sets a part of the data aside for choosing models, the same part in every run.

    With ten titles or more (and at least `every` of them) each `every`-th title, counted in the file's order, is set
    aside whole, so that no article stands on both sides. With fewer titles, passages take the place of articles, equal
    texts counting as one, so that no passage stands on both sides. Titles and passages without a question do not count.

    Args:
        data: the whole data.
        every: one article (or passage) in so many is set aside; of fewer passages than that, the last one is.

    Returns:
        The part to train on and the part set aside.

    Raises:
        UserError: `every` is below 2, or all questions are about one passage.
    """
    if every < 2:
        raise UserError(f"Holding out one article in every {every} was asked for, expected 2 or more.")
    units = _distinct(data.titles[question.passage] for question in data.questions)
    unit_of = data.titles
    if len(units) < max(every, FEWEST_TITLES):
        units = _distinct(data.passages[question.passage] for question in data.questions)
        unit_of = data.passages
    if len(units) < 2:
        raise UserError(f"{data.name}: all questions are about one passage, expected two or more to set one aside.")
    held = set(units[every - 1 :: every] or units[-1:])
    return (
        _select(data, [unit not in held for unit in unit_of], "training part"),
        _select(data, [unit in held for unit in unit_of], "held-out part"),
    )


def read_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    """Reads questions to be answered, one after the other, from SQuAD JSON or from JSON lines.

    A JSON line is an object with the texts `question` and `passage` (or `context`) and, if wanted, `id`. Lines are
    handed on as they arrive, so that a pipe can be answered line by line; blank lines are skipped but counted. A line
    whose id an earlier line has is a bad one.

    Args:
        path: a UTF-8 file, or "-" for standard input. Which of the two forms it has is seen from its content.

    Returns:
        An iterator of records; a bad line gives a record with an `error`, and reading goes on.

    Raises:
        UserError: the file cannot be read, or is one JSON text of another form than SQuAD's.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return _records(_standard_input(), "standard input")
    return _records(_file_lines(_open(path)), str(path))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a UTF-8 JSON file of any form.

    Args:
        path: the file; a byte order mark is skipped.

    Returns:
        What `json.loads` makes of it.

    Raises:
        UserError: the file cannot be opened, is not UTF-8 or no JSON; the sentence names the place.
    """
    with _open(path) as file:
        return _parse(file.read(), str(path))


def shown(value: Any) -> str:
    """Shows a JSON value in a message, shortened, after the word for its type.

    Args:
        value: what `json.loads` can return.

    Returns:
        For example `the text 'abc'`, `the number 1.5`, `a list`, `null`.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {quoted(value)}"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    return "a list" if isinstance(value, list) else "an object"


def quoted(value: Any) -> str:
    """Quotes a value for a message.

    Args:
        value: anything with a `repr`.

    Returns:
        Its `repr`, cut to a length that leaves a sentence readable.
    """
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


# === SQuAD JSON ===


class _Reader:
    """Collects passages and questions while it checks the form of each field, and knows the path of what it reads."""

    def __init__(self, name: str, need_answers: bool):
        self.name = name
        self.need_answers = need_answers
        self.passages: list[str] = []
        self.titles: list[str] = []
        self.questions: list[Question] = []
        self.places: dict[str, str] = {}

    def read_article(self, article: Any, place: str) -> None:
        paragraphs = list(self.entries(article, "paragraphs", place))
        title = self.text(article, "title", place) if "title" in article else ""
        for paragraph, inner in paragraphs:
            self.read_paragraph(paragraph, inner, title)

    def read_paragraph(self, paragraph: Any, place: str, title: str) -> None:
        entries = list(self.entries(paragraph, "qas", place))
        self.passages.append(self.text(paragraph, "context", place))
        self.titles.append(title)
        for entry, inner in entries:
            self.questions.append(self.read_question(entry, inner))

    def read_question(self, entry: Any, place: str) -> Question:
        identifier = self.text(entry, "id", place)
        if identifier in self.places:
            first = self.places[identifier]
            raise UserError(
                f"{self.name}: {place}.id is {quoted(identifier)}, the id of {first} too, expected one question per id."
            )
        self.places[identifier] = place
        is_impossible = entry.get("is_impossible", False)
        if not isinstance(is_impossible, bool):
            raise self.wrong(f"{place}.is_impossible", is_impossible, "true or false")
        answers = self.read_answers(entry, place)
        if is_impossible and answers:
            raise UserError(
                f"{self.name}: {place}.is_impossible is true beside {len(answers)} answers, expected no answers."
            )
        return Question(identifier, self.text(entry, "question", place), len(self.passages) - 1, answers, is_impossible)

    def read_answers(self, entry: dict[str, Any], place: str) -> tuple[Answer, ...]:
        if "answers" not in entry and not self.need_answers:
            return ()
        return tuple(self.read_answer(answer, inner) for answer, inner in self.entries(entry, "answers", place))

    def read_answer(self, answer: Any, place: str) -> Answer:
        text = self.text(answer, "text", place)
        start = answer.get("answer_start", NO_START)
        # A bool is an int to Python, and no offset to anyone.
        if isinstance(start, bool) or not isinstance(start, int) or start < NO_START:
            raise self.wrong(f"{place}.answer_start", start, "an integer, the answer's place in the passage")
        return Answer(text, start)

    def entries(self, parent: Any, key: str, place: str) -> Iterator[tuple[Any, str]]:
        """Yields the entries of a list field with their paths."""
        values = self.field(parent, key, place, "a list")
        path = self.join(place, key)
        if not isinstance(values, list):
            raise self.wrong(path, values, "a list")
        for index, value in enumerate(values):
            yield value, f"{path}[{index}]"

    def text(self, parent: Any, key: str, place: str) -> str:
        value = self.field(parent, key, place, "a text")
        path = self.join(place, key)
        if not isinstance(value, str):
            raise self.wrong(path, value, "a text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.name}: {path} has half of a surrogate pair at character {error.start}, expected Unicode text."
            ) from None
        return value

    def field(self, parent: Any, key: str, place: str, expected: str) -> Any:
        if not isinstance(parent, dict):
            raise self.wrong(place, parent, f"an object with the field {key}")
        if key not in parent:
            raise UserError(f"{self.name}: {self.join(place, key)} is missing, expected {expected}.")
        return parent[key]

    def wrong(self, path: str, value: Any, expected: str) -> UserError:
        return UserError(f"{self.name}: {path} is {shown(value)}, expected {expected}.")

    @staticmethod
    def join(place: str, key: str) -> str:
        return f"{place}.{key}" if place.startswith("data") else key


def _stands(data: SquadData, question: Question, answer: Answer) -> bool:
    passage = data.passages[question.passage]
    return bool(answer.text) and answer.start >= 0 and passage.startswith(answer.text, answer.start)


def _describe_offset(data: SquadData, question: Question, answer: Answer) -> str:
    if not answer.text:
        return f"question {question.id!r} has an empty answer, expected a piece of the passage"
    if answer.start < 0:
        return f"question {question.id!r} has no answer_start for {quoted(answer.text)}, expected its place"
    found = data.passages[question.passage][answer.start : answer.start + len(answer.text)]
    stands = f"{quoted(found)} stands" if found else "the passage has ended"
    return f"question {question.id!r}: {stands} at answer_start {answer.start}, expected {quoted(answer.text)}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _select(data: SquadData, keep: list[bool], part: str) -> SquadData:
    old = [index for index, kept in enumerate(keep) if kept]
    new = {index: position for position, index in enumerate(old)}
    questions = tuple(
        Question(question.id, question.text, new[question.passage], question.answers, question.is_impossible)
        for question in data.questions
        if question.passage in new
    )
    passages = tuple(data.passages[index] for index in old)
    return SquadData(f"{data.name} ({part})", passages, tuple(data.titles[index] for index in old), questions)


# === Files and lines ===


def _open(path: str | os.PathLike[str]) -> Any:
    if Path(path).is_dir():
        raise UserError(f"{path}: found a folder, expected a JSON file.")
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: found no such file, expected a JSON file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be opened ({reason}), expected a JSON file.") from None


def _parse(raw: bytes, name: str) -> Any:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: byte {error.start} is not UTF-8, expected JSON in UTF-8.") from None
    if not text.strip():
        raise UserError(f"{name}: the file is empty, expected JSON.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{name}: no valid JSON at line {error.lineno}, column {error.colno} ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: no valid JSON ({error}).") from None


def _file_lines(file: Any) -> Iterator[bytes]:
    with file:
        yield from file


def _standard_input() -> Iterator[bytes]:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is not None:
        # readline, unlike iteration over some streams, hands a line on as soon as it is complete.
        yield from iter(partial(_read_line, stream), b"")
    else:
        yield from (line.encode("utf-8", "surrogatepass") for line in sys.stdin)


def _read_line(stream: BinaryIO) -> bytes:
    try:
        return stream.readline()
    except OSError as error:
        raise UserError(f"standard input: cannot be read ({error.strerror}), expected JSON or JSON lines.") from None


def _records(lines: Iterator[bytes], name: str) -> Iterator[Record]:
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    number, first = next(numbered, (0, b""))
    if not number:
        return
    if not _may_open_squad(first):
        yield from _line_records(itertools.chain([(number, first)], numbered), name)
        return
    everything = [(number, first), *numbered]
    if _is_one_text(everything):
        yield from _squad_records(everything, name)
    else:
        yield from _line_records(everything, name)


def _line_records(numbered: Iterable[tuple[int, bytes]], name: str) -> Iterator[Record]:
    lines: dict[str, int] = {}
    for number, line in numbered:
        record = _record(line, number, name)
        first = lines.setdefault(record.id, number)
        if first != number and not record.error:
            error = f"{name}: line {number}: id is {quoted(record.id)}, the id of line {first} too, expected another."
            record = Record(record.id, "", "", error)
        yield record


def _may_open_squad(line: bytes) -> bool:
    """Whether a first line is a whole SQuAD file, or the beginning of an object that goes on in the next line."""
    content = _loads_or_none(line)
    if content is not None:
        return isinstance(content, dict) and "data" in content and not _is_record(content)
    # A broken JSON line asks a question; reading on to the end because of it would keep a pipe waiting.
    opens = line.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
    return opens and (b'"data"' in line or b'"question"' not in line)


def _is_one_text(numbered: list[tuple[int, bytes]]) -> bool:
    if any(_is_record(_loads_or_none(line)) for _, line in numbered[1:]):
        return False
    return any(b'"data"' in line for _, line in numbered)


def _squad_records(numbered: list[tuple[int, bytes]], name: str) -> Iterator[Record]:
    lines = [b"\n"] * numbered[-1][0]
    for number, line in numbered:
        lines[number - 1] = line
    data = squad_from_json(_parse(b"".join(lines), name), name, need_answers=False)
    for question in data.questions:
        fields = {"question": question.text, "passage": data.passages[question.passage]}
        empty = [key for key, value in fields.items() if not value.strip()]
        if empty:
            error = f"{name}: question {question.id!r}: {empty[0]} is empty, expected a text."
            yield Record(question.id, "", "", error)
        else:
            yield Record(question.id, **fields)


def _loads_or_none(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _is_record(content: Any) -> bool:
    return isinstance(content, dict) and "question" in content and ("passage" in content or "context" in content)


def _record(line: bytes, number: int, name: str) -> Record:
    place = f"{name}: line {number}"
    content: Any = None
    try:
        content = _parse_line(line, place)
        key = "passage" if "passage" in content or "context" not in content else "context"
        return Record(
            _line_id(content, number, place), _line_text(content, "question", place), _line_text(content, key, place)
        )
    except UserError as error:
        given = content.get("id") if isinstance(content, dict) else None
        return Record(given if isinstance(given, str) and given else str(number), "", "", str(error))


def _parse_line(line: bytes, place: str) -> dict[str, Any]:
    try:
        content = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{place} is not UTF-8 at byte {error.start}, expected a JSON object.") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{place} is no valid JSON at column {error.colno} ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place} is no valid JSON ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{place} is {shown(content)}, expected an object with the fields question and passage.")
    return content


def _line_id(content: dict[str, Any], number: int, place: str) -> str:
    value = content.get("id", number)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UserError(f"{place}: id is {shown(value)}, expected a text or a whole number.")
    return str(value)


def _line_text(content: dict[str, Any], key: str, place: str) -> str:
    if key not in content:
        named = "passage (or context)" if key == "passage" else key
        raise UserError(f"{place}: {named} is missing, expected a text.")
    value = content[key]
    if not isinstance(value, str):
        raise UserError(f"{place}: {key} is {shown(value)}, expected a text.")
    if not value.strip():
        raise UserError(f"{place}: {key} is empty, expected a text.")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise UserError(f"{place}: {key} has half of a surrogate pair, expected Unicode text.")
    return value
