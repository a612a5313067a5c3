"""Lists of errors: each with its passage, in which the references and the prediction are marked."""

import html
from collections.abc import Sequence

import numpy as np

from fabir_tf.analysis.judged import Judged
from fabir_tf.pipelines.datasets.predictions import Prediction
from fabir_tf.pipelines.datasets.squad import Question, SquadData

_LEGEND = (
    '<p class="note">In the passages: <span class="truth">a reference answer</span>, '
    '<span class="predicted">the prediction</span>, <span class="truth predicted">both</span>.</p>'
)


def worst_answers(judged: Judged, most: int) -> np.ndarray:
    """The answers with the lowest F1.

    Args:
        judged: the predictions.
        most: most answers to return.

    Returns:
        Int64 `(answers,)`, indices of questions: the lowest F1 first, among equals the longest answer.
    """
    lengths = np.array([len(found.text) if found else 0 for found in judged.predictions])
    order = np.lexsort((-lengths, judged.f1))
    return order[judged.f1[order] < 100][:most]


def surest_errors(judged: Judged, most: int) -> np.ndarray:
    """The wrong answers with the highest probability.

    Args:
        judged: predictions with probabilities.
        most: most answers to return.

    Returns:
        Int64 `(answers,)`, indices of questions, the highest probability first.
    """
    order = np.argsort(-judged.probabilities, kind="stable")
    return order[judged.exact_match[order] == 0][:most]


def errors(data: SquadData, judged: Judged, indices: Sequence[int]) -> str:
    """HTML of questions with their passages, in which the references and the prediction are marked.

    Args:
        data: the questions.
        judged: the predictions.
        indices: the questions to show.
    """
    return _LEGEND + "\n".join(_error(data, judged, index) for index in indices)


def _error(data: SquadData, judged: Judged, index: int) -> str:
    question, prediction = data.questions[index], judged.predictions[index]
    passage = data.passages[question.passage]
    references = "; ".join(dict.fromkeys(answer.text for answer in question.answers)) or "(no answer)"
    found = (prediction.text or "(no answer)") if prediction else "(missing)"
    certainty = (
        f", probability {prediction.probability:.2f}" if prediction and prediction.probability is not None else ""
    )
    return (
        f"<article><h3>{html.escape(question.text)}</h3>"
        f"<p>References: <b>{html.escape(references)}</b><br>"
        f"Prediction: <b>{html.escape(found)}</b> (F1 {judged.f1[index]:.0f}{certainty})</p>"
        f"<p>{_marked(passage, question, prediction)}</p>"
        f'<p class="note">{html.escape(data.titles[question.passage])} {html.escape(question.id)}</p></article>'
    )


def _marked(passage: str, question: Question, prediction: Prediction | None) -> str:
    """The passage as HTML, with the CSS classes of its segments."""
    classes = np.zeros((2, len(passage) + 1), bool)
    for answer in question.answers:
        _mark(classes[0], passage, answer.text, answer.start)
    if prediction:
        _mark(classes[1], passage, prediction.text, prediction.start)
    changes = np.flatnonzero((classes[:, 1:] != classes[:, :-1]).any(axis=0)) + 1
    parts = []
    for begin, end in zip([0, *changes], [*changes, len(passage)], strict=True):
        names = " ".join(name for name, marks in zip(("truth", "predicted"), classes, strict=True) if marks[begin])
        text = html.escape(passage[begin:end])
        parts.append(f'<span class="{names}">{text}</span>' if names else text)
    return "".join(parts)


def _mark(marks: np.ndarray, passage: str, text: str, start: int | None) -> None:
    # The first occurrence serves where the file gives no start, or one at which the text does not stand.
    if start is None or passage[start : start + len(text)] != text:
        start = passage.find(text)
    if start >= 0 and text:
        marks[start : start + len(text)] = True
