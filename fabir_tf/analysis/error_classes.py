"""Sorts wrong answers into the classes that the papers' error analyses found, by rule."""

import csv
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from fabir_tf.analysis.judged import Judged
from fabir_tf.pipelines.datasets.csv_rows import csv_records
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.datasets.squad_metrics import normalize_answer

CLASSES = {
    "too long": "the prediction holds a reference, and more",
    "too short": "a reference holds the prediction, and more",
    "reference too narrow": "the prediction shares words with a reference, or one abbreviates the other",
    "right kind, wrong span": "another number, name or phrase where a reference is one, too",
    "wrong kind": "for example a name where a reference is a number",
    "not found: other words": "no answer, and the passage lacks half of the question's words, or more",
    "not found: several sentences": "no answer, and no sentence has half of the question's words",
    "not found: other": "no answer, though a sentence has the question's words",
    "unanswerable: negation": "an answer to a question that cannot be answered and has a negation",
    "unanswerable: other words": "the same, and the passage lacks half of the question's words, or more",
    "unanswerable: small twist": "the same, and the passage has most of the question's words",
    "missing": "the file has no prediction",
}
"""What each class means, in the order in which tables show them."""

COLUMNS = ("predictions", "class", "errors", "share", "meaning")
SHEET_COLUMNS = ("id", "question", "references", "prediction", "class", "your_class", "passage")

_NUMBER = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion)\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_NEGATION = re.compile(r"\b(not|never|no|none|nobody|nothing|neither|nor|without|cannot)\b|n't\b", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Z]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]*[A-Z0-9])")
# Words without content.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
        what which who whom whose when where why how many much long is are was were be been did does do has have had can
        could will would should of in on at to for from by with as and or that this these those it its he she they his
        her their there into than other about after before during between name type kind
        """,
    )
)


def error_class(question: Question, passage: str, predicted: str | None) -> str:
    """The class of a wrong answer.

    Args:
        question: the question, perhaps without a reference.
        passage: its passage.
        predicted: the predicted text, "" for "no answer", None for none at all.

    Returns:
        A key of `CLASSES`.

    Reference: Amorosa, Espis, Orlandi and Pinardi 2021, section 4, for answers to answerable questions; Cheung, section
    4.3, for answers to unanswerable questions, and for none to answerable ones.
    """
    if predicted is None:
        return "missing"
    if not question.answers:
        return _class_of_unanswerable(question.text, passage)
    if not normalize_answer(predicted):
        return _class_of_not_found(question.text, passage)
    references = [answer.text for answer in question.answers]
    words, truths = normalize_answer(predicted).split(), [normalize_answer(text).split() for text in references]
    if any(_holds(words, truth) for truth in truths):
        return "too long"
    if any(_holds(truth, words) for truth in truths):
        return "too short"
    if any(_shares_meaning(predicted, text) for text in references):
        return "reference too narrow"
    same = any(_kind(predicted) == _kind(text) for text in references)
    return "right kind, wrong span" if same else "wrong kind"


def count_errors(data: SquadData, judged: Sequence[Judged]) -> list[dict]:
    """Counts the wrong answers of each class.

    Args:
        data: the questions.
        judged: the predictions.

    Returns:
        Rows by `COLUMNS`: the share is that of all wrong answers of the predictions, in percent. A class without an
        error is left out.
    """
    rows = []
    for one in judged:
        counts = Counter(_classes(data, one).values())
        total = counts.total()
        for name, meaning in CLASSES.items():
            if counts[name]:
                share = 100.0 * counts[name] / total
                rows.append(dict(zip(COLUMNS, (one.name, name, counts[name], share, meaning), strict=True)))
    return rows


def sheet(data: SquadData, judged: Judged, most: int = 100, seed: int = 1) -> list[dict]:
    """Wrong answers drawn at random, to be judged by hand.

    Args:
        data: the questions.
        judged: the predictions.
        most: most answers to draw.
        seed: the same seed draws the same questions.

    Returns:
        Rows by `SHEET_COLUMNS`, in the order of the data; `your_class` is empty.
    """
    classes = _classes(data, judged)
    drawn = sorted(random.Random(seed).sample(sorted(classes), min(most, len(classes))))
    return [_sheet_row(data, judged, index, classes[index]) for index in drawn]


def is_filled_in(path: Path) -> bool:
    """Whether somebody has worked on a sheet: judged an answer, or saved it in another format.

    Args:
        path: of a sheet, which need not exist.
    """
    try:
        text = path.read_bytes().decode("utf-8", "surrogatepass")
        names, *rows = [tuple(cells) for cells in csv_records(text)] or [()]
    except FileNotFoundError:
        return False
    except (ValueError, csv.Error):
        return True
    place = SHEET_COLUMNS.index("your_class")
    return names not in ((), SHEET_COLUMNS) or any(len(cells) > place and cells[place] for cells in rows)


def _sheet_row(data: SquadData, judged: Judged, index: int, name: str) -> dict:
    question, prediction = data.questions[index], judged.predictions[index]
    references = "; ".join(dict.fromkeys(answer.text for answer in question.answers))
    found = prediction.text if prediction else ""
    passage = data.passages[question.passage]
    values = (question.id, question.text, references, found, name, "", passage)
    return dict(zip(SHEET_COLUMNS, values, strict=True))


def _classes(data: SquadData, judged: Judged) -> Mapping[int, str]:
    """The class of each wrong answer, by the question's index."""
    found = {}
    for index, (question, prediction) in enumerate(zip(data.questions, judged.predictions, strict=True)):
        if judged.exact_match[index] == 0:
            text = prediction.text if prediction else None
            found[index] = error_class(question, data.passages[question.passage], text)
    return found


def _class_of_unanswerable(question: str, passage: str) -> str:
    if _NEGATION.search(question):
        return "unanswerable: negation"
    return "unanswerable: other words" if _share_found(question, passage) <= 0.5 else "unanswerable: small twist"


def _class_of_not_found(question: str, passage: str) -> str:
    if _share_found(question, passage) <= 0.5:
        return "not found: other words"
    best = max(_share_found(question, sentence) for sentence in _SENTENCE_END.split(passage))
    return "not found: several sentences" if best < 0.5 else "not found: other"


def _share_found(question: str, text: str) -> float:
    """The share of a question's content words that a text has; 1 for a question without content words."""
    asked = set(normalize_answer(question).split()) - _COMMON
    return len(asked & set(normalize_answer(text).split())) / len(asked) if asked else 1.0


def _holds(words: Sequence[str], part: Sequence[str]) -> bool:
    """Whether some words contain others side by side, and more."""
    size = len(part)
    return 0 < size < len(words) and any(words[i : i + size] == part for i in range(len(words) - size + 1))


def _shares_meaning(one: str, other: str) -> bool:
    """Whether two answers share words, other than those beside two different numbers, or one abbreviates the other."""
    numbers = set(_DIGITS.findall(one)), set(_DIGITS.findall(other))
    if all(numbers) and not numbers[0] & numbers[1]:
        return False
    shared = set(normalize_answer(one).split()) & set(normalize_answer(other).split())
    return bool(shared) or _abbreviates(one, other)


def _abbreviates(one: str, other: str) -> bool:
    """Whether one text consists of the other's initials."""
    short, long = sorted((one, other), key=len)
    letters = re.sub(r"\W", "", short).lower()
    initials = "".join(word[0] for word in normalize_answer(long).split())
    return len(letters) > 1 and letters == initials


def _kind(text: str) -> str:
    """A rough kind of answer: number, name or phrase."""
    if _NUMBER.search(text):
        return "number"
    # A phrase may begin with a capital letter where it begins a sentence.
    words = text.split()
    if len(words) == 1 or any(_NAME.match(word) for _, word in pairwise(words)):
        return "name" if any(_NAME.match(word) for word in words) else "phrase"
    return "phrase"
