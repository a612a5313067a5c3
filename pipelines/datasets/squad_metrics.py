"""The official scores of SQuAD 1.1 and 2.0, computed from answer texts over every question of a dataset.

The code follows the definitions of the official scripts evaluate-v1.1.py and evaluate-v2.0.py and gives their figures
to the last digit. The two differ where both texts have no words after normalization: SQuAD 1.1 gives F1 0 (and exact
match 1), SQuAD 2.0 gives 1 for both.
"""

import math
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted, read_json, shown

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
NO_ANSWER = ""


def normalize_answer(text: str) -> str:
    """Removes the differences between answers that the metrics ignore.

    Args:
        text: any text.

    Returns:
        The text in lower case, without ASCII punctuation and the words a, an and the, with single spaces between words.
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def holds_answer(passage: str, answer: str) -> bool:
    """Whether the words of an answer stand in a passage, in a row.

    Args:
        passage, answer: normalized texts.
    """
    return f" {answer} " in f" {passage} "


def exact_match(prediction: str, truth: str) -> float:
    """Compares two answers after normalization.

    Args:
        prediction: the predicted text.
        truth: one reference.

    Returns:
        1.0 if they are equal, else 0.0.
    """
    return float(normalize_answer(prediction) == normalize_answer(truth))


def f1(prediction: str, truth: str, *, empty_equals_empty: bool = False) -> float:
    """Measures how many words two answers share: the harmonic mean of precision and recall over the bags of words.

    Args:
        prediction: the predicted text.
        truth: one reference.
        empty_equals_empty: the score of two answers without words: 0.0 as in SQuAD 1.1, or 1.0 as in SQuAD 2.0.

    Returns:
        A number between 0.0 and 1.0.
    """
    predicted, expected = normalize_answer(prediction).split(), normalize_answer(truth).split()
    if not predicted or not expected:
        return float(empty_equals_empty and predicted == expected)
    common = sum((Counter(predicted) & Counter(expected)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def best_over_references(metric: Callable[[str, str], float], prediction: str, truths: list[str]) -> float:
    """Scores a prediction against its best-matching reference.

    Args:
        metric: `exact_match` or `f1`.
        prediction: the predicted text.
        truths: the references, at least one.

    Returns:
        The largest score.
    """
    return max(metric(prediction, truth) for truth in truths)


def answer_scores(metric: Callable[[str, str], float], data: SquadData, texts: Sequence[str]) -> list[float]:
    """Scores the answer to each question against its best-matching reference.

    Args:
        metric: `exact_match` or `f1`.
        data: the questions.
        texts: the predicted text of each question.

    Returns:
        A score for each question; 0 where the question has no answer.
    """
    return [
        best_over_references(metric, text, [reference.text for reference in question.answers])
        if question.answers
        else 0.0
        for question, text in zip(data.questions, texts, strict=True)
    ]


def references_v2(question: Question) -> list[str]:
    """The texts that SQuAD 2.0 compares an answer with: the references that have words, or "" if there are none."""
    return [answer.text for answer in question.answers if normalize_answer(answer.text)] or [NO_ANSWER]


def score_v1(data: SquadData, predictions: Mapping[str, str]) -> dict[str, float]:
    """Computes the score of SQuAD 1.1.

    Args:
        data: the questions with their references.
        predictions: the predicted text of each question id; a missing question scores 0, an unknown id is ignored.

    Returns:
        `exact_match` and `f1` in percent, and `total`, the number of questions.

    Raises:
        UserError: there is no question, or one has no reference, which SQuAD 1.1 does not allow.
    """
    _check_some(data)
    matches = overlaps = 0.0
    for question in data.questions:
        truths = [answer.text for answer in question.answers]
        if not truths:
            raise UserError(
                f"{data.name}: question {question.id!r} has no reference answer, "
                "expected one for the score of SQuAD 1.1 (the score of SQuAD 2.0 allows it)."
            )
        if question.id in predictions:
            matches += best_over_references(exact_match, predictions[question.id], truths)
            overlaps += best_over_references(f1, predictions[question.id], truths)
    total = len(data.questions)
    return {"exact_match": 100.0 * matches / total, "f1": 100.0 * overlaps / total, "total": total}


def score_v2(
    data: SquadData,
    predictions: Mapping[str, str],
    no_answer_probabilities: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Computes the score of SQuAD 2.0.

    The official script stops at a missing prediction. Here the question scores 0 at any threshold, as in SQuAD 1.1,
    even if it is unanswerable.

    Args:
        data: the questions; one without references is unanswerable.
        predictions: the predicted text of each question id, "" for no answer; an unknown id is ignored.
        no_answer_probabilities: a finite number for each question id of `predictions`; the larger it is, the more
            likely the question is unanswerable. An unknown id is ignored.
        threshold: a question with a larger number is scored as if its prediction were "".

    Returns:
        `exact` and `f1` in percent and `total`; the same three with the prefix `HasAns_` over the answerable and with
        `NoAns_` over the unanswerable questions, where there are any; and, with probabilities, `best_exact`,
        `best_exact_thresh`, `best_f1` and `best_f1_thresh`, found as in the official script.

    Raises:
        UserError: there is no question, the threshold is not a number, or the probability of a predicted question is
            missing or not finite.
    """
    _check_some(data)
    if math.isnan(threshold):
        raise UserError("The no-answer threshold is nan, expected a number.")
    exact = {question.id: _raw_score_v2(exact_match, question, predictions) for question in data.questions}
    overlap = {question.id: _raw_score_v2(_f1_v2, question, predictions) for question in data.questions}
    has_probabilities = no_answer_probabilities is not None
    if no_answer_probabilities is None:
        no_answer_probabilities = dict.fromkeys(predictions, 0.0)
    _check_probabilities(data, predictions, no_answer_probabilities)
    final_exact = _apply_threshold(data, exact, no_answer_probabilities, threshold)
    final_overlap = _apply_threshold(data, overlap, no_answer_probabilities, threshold)
    scores = _means("", final_exact, final_overlap, list(exact))
    scores |= _means("HasAns_", final_exact, final_overlap, [q.id for q in data.questions if q.answers])
    scores |= _means("NoAns_", final_exact, final_overlap, [q.id for q in data.questions if not q.answers])
    if has_probabilities:
        for name, raw in (("exact", exact), ("f1", overlap)):
            best = _best_threshold(data, raw, predictions, no_answer_probabilities)
            scores[f"best_{name}"], scores[f"best_{name}_thresh"] = best
    return scores


def missing_predictions(data: SquadData, predictions: Mapping[str, str]) -> list[str]:
    """Lists the questions that score 0 because they have no prediction.

    Args:
        data: the questions.
        predictions: the predicted text of each question id.

    Returns:
        Their ids, in the file's order.
    """
    return [question.id for question in data.questions if question.id not in predictions]


def read_no_answer_probabilities(path: str | os.PathLike[str]) -> dict[str, float]:
    """Reads no-answer probabilities in the official format, a JSON object from question ids to numbers.

    Args:
        path: a UTF-8 JSON file.

    Returns:
        The numbers, in the file's order.

    Raises:
        UserError: the file cannot be read, is not a JSON object, or has a value that is not a finite number.
    """
    return _check_by_id(read_json(path), path, _is_finite, "a finite number")


def _check_some(data: SquadData) -> None:
    if not data.questions:
        raise UserError(f"{data.name}: found no question to score, expected at least one.")


def _f1_v2(prediction: str, truth: str) -> float:
    return f1(prediction, truth, empty_equals_empty=True)


def _raw_score_v2(
    metric: Callable[[str, str], float], question: Question, predictions: Mapping[str, str]
) -> float | None:
    """Scores one question before any threshold; None if it has no prediction."""
    if question.id not in predictions:
        return None
    return best_over_references(metric, predictions[question.id], references_v2(question))


def _check_probabilities(
    data: SquadData, predictions: Mapping[str, str], no_answer_probabilities: Mapping[str, float]
) -> None:
    for question in data.questions:
        if question.id not in predictions:
            continue
        if question.id not in no_answer_probabilities:
            raise UserError(f"{data.name}: question {question.id!r} has no no-answer probability, expected a number.")
        value = no_answer_probabilities[question.id]
        if not _is_finite(value):
            raise UserError(
                f"{data.name}: the no-answer probability of question {question.id!r} is {quoted(value)}, "
                "expected a finite number."
            )


def _apply_threshold(
    data: SquadData,
    raw: Mapping[str, float | None],
    no_answer_probabilities: Mapping[str, float],
    threshold: float,
) -> dict[str, float]:
    scores = {}
    for question in data.questions:
        score = raw[question.id]
        if score is not None and no_answer_probabilities[question.id] > threshold:
            score = float(not question.answers)
        scores[question.id] = score or 0.0
    return scores


def _means(prefix: str, exact: Mapping[str, float], overlap: Mapping[str, float], ids: list[str]) -> dict[str, float]:
    if not ids:
        return {}
    return {
        f"{prefix}exact": 100.0 * sum(exact[identifier] for identifier in ids) / len(ids),
        f"{prefix}f1": 100.0 * sum(overlap[identifier] for identifier in ids) / len(ids),
        f"{prefix}total": len(ids),
    }


def _best_threshold(
    data: SquadData,
    raw: Mapping[str, float | None],
    predictions: Mapping[str, str],
    no_answer_probabilities: Mapping[str, float],
) -> tuple[float, float]:
    """Raises the threshold from "never answer" past each probability in turn and keeps the first best sum of scores.

    Two peculiarities are those of the official script: equal probabilities are passed one at a time, in the order of
    their file, and an answer to an unanswerable question costs a point even if normalization leaves no word of it.
    """
    answerable = {question.id: bool(question.answers) for question in data.questions}
    current: float = sum(not answerable[key] for key, score in raw.items() if score is not None)
    best, threshold = current, 0.0
    for identifier in sorted(no_answer_probabilities, key=lambda key: no_answer_probabilities[key]):
        score = raw.get(identifier)
        if score is None:
            continue
        if answerable[identifier]:
            current += score
        elif predictions[identifier]:
            current -= 1
        if current > best:
            best, threshold = current, float(no_answer_probabilities[identifier])
    return 100.0 * best / len(raw), threshold


def _is_finite(value: Any) -> bool:
    # Real, not float, because scores in memory may be NumPy numbers. The comparison is false for nan.
    number: Any = value
    return isinstance(value, Real) and not isinstance(value, bool) and -math.inf < number < math.inf


def _check_by_id(
    content: Any, path: str | os.PathLike[str], is_valid: Callable[[Any], bool], expected: str
) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UserError(f"{path}: found {shown(content)}, expected an object that gives each question id {expected}.")
    for identifier, value in content.items():
        if not is_valid(value):
            raise UserError(f"{path}: question {identifier!r} has {shown(value)}, expected {expected}.")
    return content
