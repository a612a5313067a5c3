"""Adapting a trained reader to texts of one's own, without forgetting the rest: `fabir-train --adapt`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from fabir_tf.pipelines.datasets.negatives import make_negatives
from fabir_tf.pipelines.datasets.sources import SAMPLE
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import QuestionAnswerer
from fabir_tf.reading.calibration import Calibration, calibrate
from fabir_tf.reading.no_answer import UNREAD_SCORE, matched_no_answer
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory

FEWEST_QUESTIONS = 300
"""Held-out questions with an answer that a new calibration needs."""

EPOCHS = 4
"""Passes through the new questions."""


def adapting_settings(null_head: bool, epochs: int = EPOCHS) -> dict[str, Any]:
    """The settings of `TrainingConfig` that `--adapt` begins with, for 200 to 5,000 questions.

    The reader that it starts from teaches: a part of its distributions is the target of the new questions (Li and Hoiem
    2016, Learning without Forgetting), and the whole of them that of the sample, which stands for everything else. A
    share of its weights stays (Wortsman et al. 2022, Robust fine-tuning of zero-shot models).

    Args:
        null_head: whether the reader may decline; it then learns to decline other passages of the new texts, too.
        epochs: over all of them, the learning rate falls to 0.
    """
    settings = {
        "kept_dataset": SAMPLE,
        "start_share": 0.15,
        "distillation_weight": 0.4,
        "batching": "passages",
        "epochs": epochs,
        "linear_decay_epochs": float(epochs),
        "learning_rate": 0.0003,
        # Each bucket is a shape, whose graph takes seconds to trace.
        "length_buckets": 4,
    }
    return settings | ({"wrong_passages": 0.3} if null_head else {})


def adapted_calibration(
    reader: QuestionAnswerer,
    start: RunDirectory,
    kept: SquadData | None,
    held_out: SquadData,
    null_head: bool,
    log: Callable[[str], object],
) -> Calibration | None:
    """The calibration of an adapted reader: a new one if enough questions are held out, else that of its start.

    Where it stays and the reader may decline, scale and bias are matched (`matched_no_answer`), so that the kept
    questions have the no-answer probabilities that they had.

    Args:
        reader: the adapted reader.
        start: what it started from.
        kept: the questions whose answers were to stay as they were; None if they cannot be read.
        held_out: questions that it was not trained on. Where all have an answer, others without one are made of them,
            which count as much.
        null_head: whether the reader may decline.
        log: called with one line that says which it is.

    Returns:
        The calibration; None if the reader that it started from has none.
    """
    found = sum(bool(question.answers) for question in held_out.questions)
    reason = f"{found:,} held-out questions have an answer, expected {FEWEST_QUESTIONS}"
    if found >= FEWEST_QUESTIONS:
        try:
            is_made = null_head and not held_out.has_unanswerable
            data = make_negatives(held_out, keep_sources=True)[0] if is_made else held_out
            calibration = calibrate(reader, data, unanswerable_share=0.5 if is_made else None)
        except UserError as error:
            reason = str(error)
        else:
            log(f"new calibration: {calibration.summary()}")
            return calibration
    log(f"the calibration stays that of {start.path.name}: {reason}")
    if not start.calibration.exists():
        return None
    calibration = Calibration.load(start.calibration)
    if not null_head or kept is None or calibration.no_answer is None:
        return calibration
    log(f"the no-answer probabilities of {len(kept.questions):,} kept questions are matched with those of its start")
    before, now = (_scores(answerer, kept) for answerer in (Reader.load(start.path), reader))
    return dataclasses.replace(calibration, no_answer=matched_no_answer(calibration.no_answer, before, now))


def _scores(answerer: QuestionAnswerer, data: SquadData) -> np.ndarray:
    scores = np.full(len(data.questions), UNREAD_SCORE)
    for found in answerer.scores(data):
        scores[found.question] = found.score
    return scores
