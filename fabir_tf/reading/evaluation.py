"""The official scores of a reader or of a predictions file."""

from collections.abc import Mapping

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import score_v1, score_v2
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.answers import Answer, Dataset, Progress, QuestionAnswerer, validate_dataset, validate_reader
from fabir_tf.reading.certainty import auroc


def evaluate(answerer: QuestionAnswerer, dataset: Dataset, progress: Progress | None = None) -> dict[str, float]:
    """Answers every question of a dataset and scores the answers as the official SQuAD scripts do.

    Args:
        answerer: a trained reader.
        dataset: questions with their reference answers.
        progress: called with (examples done, examples in total) after each batch.

    Returns:
        Percentages, as `score` returns them.

    Raises:
        UserError: an argument is something else, such as a name.

    Example:
        >>> fabir_tf.evaluate(fabir_tf.Reader.load("fabir-base"), fabir_tf.load_dataset("sample", "dev"))["f1"]
    """
    validate_reader("answerer", answerer)
    validate_dataset("dataset", dataset)
    return score_answers(_data_of(dataset), predictions_of(answerer, dataset, progress))


def predictions_of(answerer: QuestionAnswerer, dataset: Dataset, progress: Progress | None = None) -> dict[str, Answer]:
    """The answer to every question of a dataset, by question id, in the dataset's order."""
    answers = answerer.predict(dataset, progress=progress)
    return {question.id: answer for question, answer in zip(_data_of(dataset).questions, answers, strict=True)}


def score_answers(data: SquadData, answers: Mapping[str, Answer]) -> dict[str, float]:
    """The official figures of a reader's answers.

    Args:
        data: questions with their reference answers.
        answers: by question id.

    Returns:
        Percentages, as `score` returns them. For data with unanswerable questions, `exact` and `f1` count "no answer"
        where the reader abstains, and `best_f1` is what the best threshold of the no-answer probability would reach.
        `no_answer_auroc`, from 0 to 1, is how often an unanswerable question has a higher no-answer probability than an
        answerable one.
    """
    texts = {key: answer.text for key, answer in answers.items()}
    if not data.has_unanswerable:
        return score(data, texts)
    return score_declining(data, texts, best_spans(answers), no_answer_probabilities(answers))


def score_declining(
    data: SquadData, texts: Mapping[str, str], spans: Mapping[str, str], none: Mapping[str, float]
) -> dict[str, float]:
    """The official figures of answers that may decline, and of their no-answer probabilities; see `score_answers`.

    Args:
        data: questions, some of them without an answer.
        texts: the answer by question id; "" where it declines.
        spans: the best span, also where it declines.
        none: the no-answer probabilities.

    Returns:
        Percentages; a question without an answer here counts as wrong, and not at all in `no_answer_auroc`.
    """
    # The official script applies its threshold to spans, so it gets the best span also where the reader abstains.
    best = {name: value for name, value in score(data, spans, none).items() if name.startswith("best_")}
    answered = [question for question in data.questions if question.id in none]
    is_unanswerable = np.array([not question.answers for question in answered], bool)
    levels = np.array([none[question.id] for question in answered])
    return score(data, texts) | best | {"no_answer_auroc": auroc(levels, is_unanswerable)}


def best_spans(answers: Mapping[str, Answer]) -> dict[str, str]:
    """The text of each best span, also where the reader abstains; "" where a text cannot be read."""
    return {key: answer.n_best[0].text if answer.n_best else "" for key, answer in answers.items()}


def no_answer_probabilities(answers: Mapping[str, Answer]) -> dict[str, float]:
    """Each no-answer probability, which the official script calls na_prob."""
    return {key: answer.no_answer_probability for key, answer in answers.items()}


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


def _data_of(dataset: Dataset) -> SquadData:
    return dataset.data if isinstance(dataset, TokenizedDataset) else dataset
