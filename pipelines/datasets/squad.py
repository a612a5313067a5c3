"""Reads questions, passages and answers from SQuAD JSON with a clear message for every mistake."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted, read_json, shown

NO_START = -1
FEWEST_TITLES = 10


@dataclass(frozen=True)
class Answer:
    """One reference answer.

    Args:
        text: the answer as it is in the file.
        start: its offset in the passage, in code points; -1 where the file gives none.
    """

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """One question about one passage.

    Args:
        id: the question's id, unique in its file.
        text: the question as it is in the file.
        passage: index into `SquadData.passages`.
        answers: the reference answers, in the file's order; empty for an unanswerable question.
        is_impossible: the file's value; False where the file has none (SQuAD 1.1).
    """

    id: str
    text: str
    passage: int
    answers: tuple[Answer, ...]
    is_impossible: bool = False


@dataclass(frozen=True)
class SquadData:
    """A dataset of questions in which each passage is stored once.

    Args:
        name: the path of the file or the name of the dataset, for messages.
        passages: one text per paragraph of the file.
        titles: the article title of each passage, "" where the file gives none.
        questions: in the file's order.
    """

    name: str
    passages: tuple[str, ...]
    titles: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def unanswerable(self) -> int:
        """The number of questions without a reference answer."""
        return sum(not question.answers for question in self.questions)

    @property
    def has_unanswerable(self) -> bool:
        """Whether some question has no reference answer, so that the score of SQuAD 2.0 applies."""
        return self.unanswerable > 0


def read_squad(path: str | os.PathLike[str]) -> SquadData:
    """Reads an official SQuAD 1.1 or 2.0 JSON file.

    Args:
        path: a UTF-8 JSON file; unknown fields are ignored, a missing title is "", a missing `answer_start` is -1.

    Returns:
        The unchanged texts of the file; each paragraph is one passage.

    Raises:
        UserError: the file cannot be read, is not JSON or not in SQuAD's format (the message gives the JSON path, what
            was found and what was expected), has no question, or uses a question id twice.
    """
    return squad_from_json(read_json(path), str(path))


def squad_from_json(content: Any, name: str, *, need_answers: bool = True) -> SquadData:
    """Converts parsed SQuAD JSON to `SquadData`; see `read_squad`.

    Args:
        content: the value from `json.load`.
        name: the file's name, for messages.
        need_answers: whether a question without the field `answers` is an error.

    Returns:
        The data.

    Raises:
        UserError: the content is not in SQuAD's format.
    """
    reader = _Reader(name, need_answers)
    for article, path in reader.entries(content, "data", "the top level"):
        reader.read_article(article, path)
    if not reader.questions:
        raise UserError(f"{name}: found no question, expected at least one under data[].paragraphs[].qas[].")
    return SquadData(name, tuple(reader.passages), tuple(reader.titles), tuple(reader.questions))


def check_offsets(data: SquadData) -> None:
    """Checks that data is fit for training: every answer is in the passage at its offset.

    Args:
        data: the questions.

    Raises:
        UserError: an answer is empty, has no offset or is not at its offset (the message shows the first such answer
            and the number of them), or a question has no answer and is not marked `is_impossible`.
    """
    unanswered = [question.id for question in data.questions if not question.answers and not question.is_impossible]
    if unanswered:
        raise UserError(
            f"{data.name}: question {unanswered[0]!r} has no answer and is not marked is_impossible, "
            f"expected an answer to train on; there are {len(unanswered)} such questions."
        )
    pairs = [(question, answer) for question in data.questions for answer in question.answers]
    wrong = [(question, answer) for question, answer in pairs if not _is_at_its_offset(data, question, answer)]
    if wrong:
        count = f"{len(wrong)} of {len(pairs)} answers are off"
        raise UserError(f"{data.name}: {_describe_offset(data, *wrong[0])}; {count}.")


def data_without_unanswerable(data: SquadData) -> SquadData:
    """Drops the questions without a reference answer.

    Args:
        data: the questions.

    Returns:
        The data with the other questions only; its name and passages are unchanged.
    """
    return replace(data, questions=tuple(question for question in data.questions if question.answers))


def join(parts: Sequence[SquadData]) -> SquadData:
    """Joins several datasets into one, in their order.

    Args:
        parts: at least one; a single one is returned as it is.

    Returns:
        All passages and questions; the name lists those of the parts.

    Raises:
        UserError: two parts share a question id.
    """
    if len(parts) == 1:
        return parts[0]
    first_with: dict[str, str] = {}
    passages: list[str] = []
    titles: list[str] = []
    questions: list[Question] = []
    for part in parts:
        for question in part.questions:
            if question.id in first_with:
                found = f"{first_with[question.id]} and {part.name} both have the question {question.id!r}"
                raise UserError(f"{found}, expected different ids.")
            first_with[question.id] = part.name
        questions += [replace(question, passage=question.passage + len(passages)) for question in part.questions]
        passages += part.passages
        titles += part.titles
    return SquadData(",".join(part.name for part in parts), tuple(passages), tuple(titles), tuple(questions))


def hold_out(data: SquadData, every: int = 10) -> tuple[SquadData, SquadData]:
    """Splits off held-out data for model selection, the same part in every run.

    With at least ten titles (and at least `every`), each `every`-th title in the file's order is held out with all its
    passages, so no article is in both parts. With fewer titles, passages are held out in the same way; equal texts
    count as one, so no passage is in both parts. Titles and passages without a question do not count.

    Args:
        data: all questions.
        every: one of this many articles (or passages) is held out; of fewer passages, the last one is.

    Returns:
        The training part and the held-out part.

    Raises:
        UserError: `every` is below 2, or all questions are about one passage.
    """
    if every < 2:
        raise UserError(f"Held-out data: found one article in every {every}, expected 2 or more.")
    units = _distinct(data.titles[question.passage] for question in data.questions)
    unit_of = data.titles
    if len(units) < max(every, FEWEST_TITLES):
        units = _distinct(data.passages[question.passage] for question in data.questions)
        unit_of = data.passages
    if len(units) < 2:
        raise UserError(f"{data.name}: all questions are about one passage, expected two or more to hold one out.")
    held = set(units[every - 1 :: every] or units[-1:])
    return (
        _select(data, [unit not in held for unit in unit_of], "training part"),
        _select(data, [unit in held for unit in unit_of], "held-out part"),
    )


class _Reader:
    """Collects passages and questions, checks the type of each field and tracks its JSON path for messages."""

    def __init__(self, name: str, need_answers: bool):
        self.name = name
        self.need_answers = need_answers
        self.passages: list[str] = []
        self.titles: list[str] = []
        self.questions: list[Question] = []
        self.path_of_id: dict[str, str] = {}

    def read_article(self, article: Any, path: str) -> None:
        paragraphs = list(self.entries(article, "paragraphs", path))
        title = self.text(article, "title", path) if "title" in article else ""
        for paragraph, paragraph_path in paragraphs:
            self.read_paragraph(paragraph, paragraph_path, title)

    def read_paragraph(self, paragraph: Any, path: str, title: str) -> None:
        entries = list(self.entries(paragraph, "qas", path))
        self.passages.append(self.text(paragraph, "context", path))
        self.titles.append(title)
        for entry, entry_path in entries:
            self.questions.append(self.read_question(entry, entry_path))

    def read_question(self, entry: Any, path: str) -> Question:
        identifier = self.text(entry, "id", path)
        if identifier in self.path_of_id:
            first = self.path_of_id[identifier]
            raise UserError(
                f"{self.name}: {path}.id is {quoted(identifier)}, the id of {first} too, expected one question per id."
            )
        self.path_of_id[identifier] = path
        is_impossible = entry.get("is_impossible", False)
        if not isinstance(is_impossible, bool):
            raise self.wrong(f"{path}.is_impossible", is_impossible, "true or false")
        answers = self.read_answers(entry, path)
        if is_impossible and answers:
            raise UserError(
                f"{self.name}: {path}.is_impossible is true beside {len(answers)} answers, expected no answers."
            )
        return Question(identifier, self.text(entry, "question", path), len(self.passages) - 1, answers, is_impossible)

    def read_answers(self, entry: dict[str, Any], path: str) -> tuple[Answer, ...]:
        if "answers" not in entry and not self.need_answers:
            return ()
        return tuple(self.read_answer(*answer_and_path) for answer_and_path in self.entries(entry, "answers", path))

    def read_answer(self, answer: Any, path: str) -> Answer:
        text = self.text(answer, "text", path)
        start = answer.get("answer_start", NO_START)
        # In Python a bool is an int, but it is not an offset.
        if isinstance(start, bool) or not isinstance(start, int) or start < NO_START:
            raise self.wrong(f"{path}.answer_start", start, "an integer, the answer's offset in the passage")
        return Answer(text, start)

    def entries(self, parent: Any, key: str, parent_path: str) -> Iterator[tuple[Any, str]]:
        """Yields the entries of a list field with their JSON paths."""
        values = self.field(parent, key, parent_path, "a list")
        path = self.join(parent_path, key)
        if not isinstance(values, list):
            raise self.wrong(path, values, "a list")
        for index, value in enumerate(values):
            yield value, f"{path}[{index}]"

    def text(self, parent: Any, key: str, parent_path: str) -> str:
        value = self.field(parent, key, parent_path, "a text")
        path = self.join(parent_path, key)
        if not isinstance(value, str):
            raise self.wrong(path, value, "a text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.name}: {path} has half of a surrogate pair at character {error.start}, expected Unicode text."
            ) from None
        return value

    def field(self, parent: Any, key: str, parent_path: str, expected: str) -> Any:
        if not isinstance(parent, dict):
            raise self.wrong(parent_path, parent, f"an object with the field {key}")
        if key not in parent:
            raise UserError(f"{self.name}: {self.join(parent_path, key)} is missing, expected {expected}.")
        return parent[key]

    def wrong(self, path: str, value: Any, expected: str) -> UserError:
        return UserError(f"{self.name}: {path} is {shown(value)}, expected {expected}.")

    @staticmethod
    def join(parent_path: str, key: str) -> str:
        return f"{parent_path}.{key}" if parent_path.startswith("data") else key


def _is_at_its_offset(data: SquadData, question: Question, answer: Answer) -> bool:
    passage = data.passages[question.passage]
    return bool(answer.text) and answer.start >= 0 and passage.startswith(answer.text, answer.start)


def _describe_offset(data: SquadData, question: Question, answer: Answer) -> str:
    if not answer.text:
        return f"question {question.id!r} has an empty answer, expected a piece of the passage"
    if answer.start < 0:
        return f"question {question.id!r} has no answer_start for {quoted(answer.text)}, expected its offset"
    found = data.passages[question.passage][answer.start : answer.start + len(answer.text)]
    text = quoted(found) if found else "the end of the passage"
    return f"question {question.id!r}: found {text} at answer_start {answer.start}, expected {quoted(answer.text)}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _select(data: SquadData, keep: list[bool], part: str) -> SquadData:
    kept = [index for index, is_kept in enumerate(keep) if is_kept]
    new_index = {old: new for new, old in enumerate(kept)}
    questions = tuple(
        Question(question.id, question.text, new_index[question.passage], question.answers, question.is_impossible)
        for question in data.questions
        if question.passage in new_index
    )
    passages = tuple(data.passages[index] for index in kept)
    return SquadData(f"{data.name} ({part})", passages, tuple(data.titles[index] for index in kept), questions)
