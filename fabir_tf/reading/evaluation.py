"""The official scores of a reader or of a predictions file."""

from collections.abc import Callable, Mapping

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import score_v1, score_v2
from fabir_tf.pipelines.text.tokenized import EncodedData
from fabir_tf.reading.reader import Answer, Reader


def predictions_of(
    reader: Reader, encoded: EncodedData, progress: Callable[[int, int], None] | None = None
) -> dict[str, Answer]:
    """A reader's answer to every question of a dataset, by question id, in the dataset's order."""
    answers = reader.predict(encoded, progress=progress)
    return {question.id: answer for question, answer in zip(encoded.tokenized.data.questions, answers, strict=True)}


def score(
    data: SquadData, predictions: Mapping[str, str], no_answer_probabilities: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The official figures, of SQuAD 1.1 or, for data with unanswerable questions, of SQuAD 2.0.

    Args:
        data: questions with their reference answers.
        predictions: answer texts by question id; "" predicts that there is no answer.
        no_answer_probabilities: by question id, SQuAD 2.0 only: adds the best thresholds.

    Returns:
        Percentages: `exact_match`, `f1` and `total` always; for SQuAD 2.0 also all keys of the official script.
    """
    if not data.has_unanswerable:
        return score_v1(data, predictions)
    scores = score_v2(data, predictions, no_answer_probabilities)
    return {"exact_match": scores["exact"], "f1": scores["f1"]} | scores
