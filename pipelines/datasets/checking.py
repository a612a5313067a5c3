"""Checks a whole file of questions, lists every fault with its place, and mends shifted offsets."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fabir_tf.pipelines.datasets.formats import read_with
from fabir_tf.pipelines.datasets.rows import RowReader
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, describe_offset, is_at_its_offset
from fabir_tf.pipelines.text.readable import blank_texts

# Characters by which an answer may be shifted while its text also occurs elsewhere.
NEAR = 20


@dataclass(frozen=True)
class Checked:
    """A file of questions, as far as it can be read.

    Attributes:
        data: the questions.
        places: where each of them is in the file.
        broken: the places of questions with a fault in their fields or passage.
        faults: one sentence per fault of the file's form.
    """

    data: SquadData
    places: tuple[str, ...]
    broken: frozenset[str]
    faults: tuple[str, ...]


def check_file(path: str | os.PathLike[str]) -> Checked:
    """Reads a file of questions to its end, whatever is wrong with it.

    Args:
        path: a file in any of the formats.

    Raises:
        UserError: the file cannot be opened.
    """
    faults: list[str] = []
    reader = RowReader(str(path), faults)
    data = reader.attempt(SquadData(str(path), (), (), ()), read_with, reader, path)
    return Checked(data, tuple(reader.places), frozenset(reader.broken), tuple(faults))


def list_faults(checked: Checked) -> list[str]:
    """Every fault that keeps the file from being trained on or scored on.

    Args:
        checked: the file.

    Returns:
        One sentence per fault, with its place: first those of the form, then those of the content.
    """
    return [*checked.faults, *_content_faults(checked)]


def mend(checked: Checked) -> tuple[Checked, list[str]]:
    """Moves answers to where their text is: to the only place near their offset, else to the only one in the passage.

    Args:
        checked: the file.

    Returns:
        The file with the answers that can be moved, and one sentence for each of them.
    """
    mended: list[str] = []
    questions = []
    for question, place in zip(checked.data.questions, checked.places, strict=True):
        answers = tuple(_mended(checked.data, question, answer) for answer in question.answers)
        for before, after in zip(question.answers, answers, strict=True):
            if before != after:
                shift = f"answer_start {before.start} of {before.text!r} is now {after.start}"
                mended.append(f"{checked.data.name}: {place}: {shift}.")
        questions.append(replace(question, answers=answers))
    return replace(checked, data=replace(checked.data, questions=tuple(questions))), mended


def _mended(data: SquadData, question: Question, answer: Answer) -> Answer:
    if is_at_its_offset(data, question, answer) or not answer.text:
        return answer
    starts = list(_occurrences(data.passages[question.passage], answer.text))
    near = [start for start in starts if answer.start >= 0 and abs(start - answer.start) <= NEAR]
    possible = near or starts
    return replace(answer, start=possible[0]) if len(possible) == 1 else answer


def _occurrences(passage: str, text: str) -> Iterator[int]:
    start = passage.find(text)
    while start >= 0:
        yield start
        start = passage.find(text, start + 1)


def _content_faults(checked: Checked) -> Iterator[str]:
    data = checked.data
    for question, place in zip(data.questions, checked.places, strict=True):
        location = f"{data.name}: {place}"
        if place not in checked.broken:
            texts = {"question": question.text, "passage": data.passages[question.passage]}
            yield from (f"{location}: {fault}" for fault in blank_texts(**texts))
            if not question.answers and not question.is_impossible:
                yield f"{location}: question {question.id!r} has no answer and is not marked is_impossible."
        for answer in question.answers if data.passages[question.passage] else ():
            if not is_at_its_offset(data, question, answer):
                can_mend = _mended(data, question, answer) != answer
                yield f"{location}: {describe_offset(data, question, answer)}{'; --mend shifts it' * can_mend}."
