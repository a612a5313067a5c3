"""Questions, passages and answers, read from SQuAD JSON with a clear sentence for every mistake."""

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


def join(parts: Sequence[SquadData]) -> SquadData:
    """Makes one dataset of several, one after the other.

    Args:
        parts: at least one; a single one is returned as it is.

    Returns:
        All passages and questions, under the joined names.

    Raises:
        UserError: two parts have a question of the same id.
    """
    if len(parts) == 1:
        return parts[0]
    first_with: dict[str, str] = {}
    passages, titles, questions = [], [], []
    for part in parts:
        for question in part.questions:
            if question.id in first_with:
                found = f"{first_with[question.id]} and {part.name} both have the question {question.id!r}"
                raise UserError(f"{found}, expected different ones.")
            first_with[question.id] = part.name
        questions += [replace(question, passage=question.passage + len(passages)) for question in part.questions]
        passages += part.passages
        titles += part.titles
    return SquadData(",".join(part.name for part in parts), tuple(passages), tuple(titles), tuple(questions))


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
