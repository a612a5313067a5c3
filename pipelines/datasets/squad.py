"""Questions, passages and answers, and SQuAD JSON, the format that they are named after."""

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fabir_tf.pipelines.datasets.fields import FieldReader
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import TOP_LEVEL, quoted, read_json

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
        has_number_id: whether the file gives the id as a whole number; files of predictions need a text.
        reason: why the passage does not answer it, in a word; "" where the file does not say.
    """

    id: str
    text: str
    passage: int
    answers: tuple[Answer, ...]
    is_impossible: bool = False
    has_number_id: bool = False
    reason: str = ""

    @property
    def given_id(self) -> str | int:
        """The id in the type that the file gives it in."""
        return int(self.id) if self.has_number_id else self.id


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
        path: a UTF-8 JSON file, perhaps packed with gzip; unknown fields are ignored, a missing title is "", a missing
            `answer_start` is -1.

    Returns:
        The unchanged texts of the file; each paragraph is one passage.

    Raises:
        UserError: the file cannot be read, is not JSON or not in SQuAD's format (the message gives the JSON path, what
            was found and what was expected), has no question, or uses a question id twice.
    """
    return squad_from_json(read_json(path), str(path))


def squad_from_json(
    content: Any, name: str, *, judge_answers: bool = True, faults: list[str] | None = None
) -> SquadData:
    """Converts parsed SQuAD JSON to `SquadData`; see `read_squad`.

    Args:
        content: the value from `json.load`.
        name: the file's name, for messages.
        judge_answers: whether answers are read; questions are only asked without them.
        faults: collects all mistakes, and what is left is returned; None raises the first.

    Returns:
        The data.

    Raises:
        UserError: the content is not in SQuAD's format.
    """
    return read_squad_json(QuestionReader(name, faults, judge_answers), content)


def read_squad_json(reader: "QuestionReader", content: Any) -> SquadData:
    """Converts parsed SQuAD JSON to `SquadData`.

    Args:
        reader: reads the questions.
        content: the value from `json.load`.

    Raises:
        UserError: the content is not in SQuAD's format, and the reader does not collect mistakes.
    """
    passages, titles, questions = [], [], []
    for article, path in reader.attempt([], reader.entries, content, "data", TOP_LEVEL):
        paragraphs = reader.attempt([], reader.entries, article, "paragraphs", path)
        title = reader.attempt("", reader.title, article, path)
        for paragraph, place in paragraphs:
            entries = reader.attempt([], reader.entries, paragraph, "qas", place)
            if not isinstance(paragraph, dict):
                continue
            before = reader.mistakes
            passages.append(reader.attempt("", reader.text, paragraph, "context", place))
            titles.append(title)
            where = (len(passages) - 1, reader.mistakes == before)
            found = [reader.attempt(None, reader.question, *entry, *where) for entry in entries]
            questions += [question for question in found if question]
    if not questions and not reader.mistakes:
        reader.report(f"{reader.name}: found no question, expected at least one under data[].paragraphs[].qas[].")
    return SquadData(reader.name, tuple(passages), tuple(titles), tuple(questions))


def squad_to_json(data: SquadData) -> dict[str, Any]:
    """Converts questions to the JSON of SQuAD 1.1 or, if one is marked impossible, of SQuAD 2.0.

    Args:
        data: the questions.

    Returns:
        What `squad_from_json` reads; neighboring passages with the same title are one article, and ids are texts.
    """
    has_marks = any(question.is_impossible for question in data.questions)
    paragraphs: list[dict[str, Any]] = [{"context": passage, "qas": []} for passage in data.passages]
    for question in data.questions:
        entry: dict[str, Any] = {"id": question.id, "question": question.text}
        entry["answers"] = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
        entry |= {"is_impossible": question.is_impossible} if has_marks else {}
        entry |= {"reason": question.reason} if question.reason else {}
        paragraphs[question.passage]["qas"].append(entry)
    articles = [
        {"title": title, "paragraphs": [paragraphs[index] for index in indices]}
        for title, indices in itertools.groupby(range(len(paragraphs)), key=data.titles.__getitem__)
    ]
    return {"version": "2.0" if has_marks else "1.1", "data": articles}


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
    wrong = [(question, answer) for question, answer in pairs if not is_at_its_offset(data, question, answer)]
    if wrong:
        count = f"{len(wrong)} of {len(pairs)} answers are off"
        raise UserError(f"{data.name}: {describe_offset(data, *wrong[0])}; {count}; fabir-convert --mend mends some.")


def question_with(data: SquadData, identifier: str) -> Question:
    """The question with an id.

    Args:
        data: the questions.
        identifier: the id.

    Raises:
        UserError: no question has it.
    """
    for question in data.questions:
        if question.id == identifier:
            return question
    raise UserError(f"--question_id={identifier}: no such question in {data.name}, expected the id of one")


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
    unit_of = data.titles if holds_out_articles(data, every) else data.passages
    units = _distinct(unit_of[question.passage] for question in data.questions)
    if len(units) < 2:
        raise UserError(f"{data.name}: all questions are about one passage, expected two or more to hold one out.")
    held = set(units[every - 1 :: every] or units[-1:])
    return (
        _select(data, [unit not in held for unit in unit_of], "training part"),
        _select(data, [unit in held for unit in unit_of], "held-out part"),
    )


def holds_out_articles(data: SquadData, every: int = 10) -> bool:
    """Whether `hold_out` keeps articles whole, because there are enough of them."""
    titles = {data.titles[question.passage] for question in data.questions}
    return len(titles) >= max(every, FEWEST_TITLES)


def select_passages(data: SquadData, keep: Sequence[bool]) -> SquadData:
    """Keeps some of the passages, with all questions about them.

    Args:
        data: all passages and questions.
        keep: whether to keep each passage.
    """
    kept = [index for index, is_kept in enumerate(keep) if is_kept]
    new_index = {old: new for new, old in enumerate(kept)}
    questions = tuple(
        replace(question, passage=new_index[question.passage])
        for question in data.questions
        if question.passage in new_index
    )
    passages = tuple(data.passages[index] for index in kept)
    return SquadData(data.name, passages, tuple(data.titles[index] for index in kept), questions)


class PlaceOfId(Protocol):
    """Where each id stands: a dictionary, or `PlacesOnDisk`."""

    def setdefault(self, identifier: str, place: str, /) -> str:
        """The place where an id was first."""
        ...


class QuestionReader(FieldReader):
    """Reads questions and their answers, in the fields that all formats share.

    Args:
        name: the file's name, for messages.
        faults: collects the messages of all mistakes; None raises the first as a UserError.
        judge_answers: whether answers are read.
        place_of_id: takes the place of each id; None for a dictionary.

    Attributes:
        places: where each question is, in the order of reading.
        broken: those of the questions with a mistake in their own fields or in their passage.
    """

    def __init__(
        self,
        name: str,
        faults: list[str] | None = None,
        judge_answers: bool = True,
        place_of_id: PlaceOfId | None = None,
    ):
        super().__init__(name, faults)
        self.judge_answers = judge_answers
        self.places: list[str] = []
        self.broken: set[str] = set()
        self._place_of_id: PlaceOfId = {} if place_of_id is None else place_of_id

    def question(self, entry: Any, path: str, passage: int, has_passage: bool = True) -> Question:
        """The question of an object.

        Args:
            entry: the object, with the fields `id`, `question`, `answers` and, in SQuAD 2.0, `is_impossible`, perhaps
                with `reason`.
            path: its place.
            passage: the index of its passage.
            has_passage: whether that passage is without a mistake.
        """
        self.as_object(entry, path, "question")
        before = self.mistakes
        identifier = self.attempt(str(entry.get("id", "")), self.identifier, entry, path)
        text = self.attempt("", self.text, entry, "question", path)
        answers = self.attempt((), self.answers, entry, path) if self.judge_answers else ()
        is_impossible = self.judge_answers and self.attempt(False, self.is_impossible, entry, path, len(answers))
        reason = self.attempt("", self.optional_text, entry, "reason", path) if self.judge_answers else ""
        self.places.append(path)
        if self.mistakes > before or not has_passage:
            self.broken.add(path)
        has_number_id = isinstance(identifier, int)
        return Question(str(identifier), text, passage, answers, is_impossible, has_number_id, reason)

    def title(self, parent: Any, path: str) -> str:
        """The title of an article; "" for none."""
        return self.optional_text(parent, "title", path)

    def optional_text(self, parent: Any, key: str, path: str) -> str:
        """The value of a field that holds Unicode text; "" where it is missing or null."""
        if not isinstance(parent, dict) or parent.get(key) is None:
            return ""
        return self.text(parent, key, path)

    def identifier(self, entry: dict[str, Any], path: str) -> str | int:
        """The id of a question, which no other question has."""
        value = self.field(entry, "id", path, "a text or a whole number")
        place = self.join(path, "id")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.wrong(place, value, "a text or a whole number")
        if value == "":
            raise UserError(f"{self.name}: {place} is empty, expected a text or a whole number.")
        first = self._place_of_id.setdefault(self.unicode(str(value), place), path)
        if first != path:
            raise UserError(
                f"{self.name}: {place} is {quoted(value)}, the id of {first} too, expected one question per id."
            )
        return value

    def is_impossible(self, entry: dict[str, Any], path: str, answers: int) -> bool:
        """Whether a question is marked to have no answer, which must be so."""
        value = entry.get("is_impossible", False)
        place = self.join(path, "is_impossible")
        if not isinstance(value, bool):
            raise self.wrong(place, value, "true or false")
        if value and answers:
            raise UserError(f"{self.name}: {place} is true beside {answers} answers, expected no answers.")
        return value

    def answers(self, entry: dict[str, Any], path: str) -> tuple[Answer, ...]:
        """The answers: a list of objects, or Hugging Face's object of the lists `text` and `answer_start`."""
        if isinstance(entry.get("answers"), dict):
            found = self._answers_of_columns(entry["answers"], self.join(path, "answers"))
        else:
            found = [
                self.attempt(None, self._answer_of_object, *answer) for answer in self.entries(entry, "answers", path)
            ]
        return tuple(answer for answer in found if answer)

    def answer(self, text: Any, text_path: str, start: Any, start_path: str) -> Answer | None:
        """One answer of its two values; None if one of them is a mistake that is collected."""
        before = self.mistakes
        start = self.whole(start)
        self.attempt("", self.unicode, text, text_path)
        # In Python a bool is an int, but it is not an offset.
        if isinstance(start, bool) or not isinstance(start, int) or start < NO_START:
            self.report(str(self.wrong(start_path, start, "an integer, the answer's offset in the passage")))
        return Answer(text, start) if self.mistakes == before else None

    def _answer_of_object(self, answer: Any, path: str) -> Answer | None:
        text = self.field(answer, "text", path, "a text")
        start_path = self.join(path, "answer_start")
        return self.answer(text, self.join(path, "text"), answer.get("answer_start", NO_START), start_path)

    def _answers_of_columns(self, columns: dict[str, Any], path: str) -> list[Answer | None]:
        texts = self.entries(columns, "text", path)
        starts = [(NO_START, path)] * len(texts)
        if "answer_start" in columns:
            starts = self.entries(columns, "answer_start", path)
        if len(texts) != len(starts):
            found = f"{len(texts)} values of text and {len(starts)} of answer_start"
            raise UserError(f"{self.name}: {path} has {found}, expected as many of each.")
        return [self.attempt(None, self.answer, *text, *start) for text, start in zip(texts, starts, strict=True)]


def is_at_its_offset(data: SquadData, question: Question, answer: Answer) -> bool:
    """Whether an answer is in its passage, at its offset."""
    passage = data.passages[question.passage]
    return bool(answer.text) and answer.start >= 0 and passage.startswith(answer.text, answer.start)


def describe_offset(data: SquadData, question: Question, answer: Answer) -> str:
    """What is wrong with an answer that is not at its offset."""
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
    return replace(select_passages(data, keep), name=f"{data.name} ({part})")
