"""The start and end distributions of trained readers, for another reader to learn from."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions
from fabir_tf.reading.answers import QuestionScores
from fabir_tf.reading.ensemble import Ensemble
from fabir_tf.reading.reader import Reader


def teach(
    teachers: Sequence[Reader | Ensemble], data: SquadData, progress: Callable[[int, int], None] | None = None
) -> TeacherDistributions:
    """The mean of several teachers' start and end distributions.

    Args:
        teachers: one or more; all must cut passages into the same tokens. The members of an ensemble share its part by
            their weights.
        data: the questions.
        progress: called with (examples done, examples in total) for each teacher in turn.

    Returns:
        The distributions of every question about a passage with tokens.

    Raises:
        UserError: two teachers cut a passage into different tokens.
    """
    found: dict[int, np.ndarray] = {}
    offsets: dict[int, np.ndarray] = {}
    for teacher, weight in _weighted(teachers):
        temperature = teacher.calibration.temperature if teacher.calibration else 1.0
        for scores in teacher.scores(data, progress):
            number = scores.question
            if not np.array_equal(offsets.setdefault(number, scores.starts), scores.starts):
                question = data.questions[number].id
                raise UserError(f"question {question!r}: the teachers cut its passage into different tokens")
            found[number] = found.get(number, 0.0) + weight * _distributions(scores, temperature)
    return TeacherDistributions.collect((data.questions[number].id, found[number]) for number in sorted(found))


def _weighted(teachers: Sequence[Reader | Ensemble]) -> Iterator[tuple[Reader, float]]:
    """Each single reader, and what it counts."""
    for teacher in teachers:
        if isinstance(teacher, Ensemble):
            yield from zip(teacher.members, (teacher.weights / len(teachers)).tolist(), strict=True)
        else:
            yield teacher, 1.0 / len(teachers)


def _distributions(scores: QuestionScores, temperature: float) -> np.ndarray:
    """Probabilities of the tokens, and of "no answer" in the last column, float `(2, passage + 1)`."""
    both = scores.probabilities(1 / temperature)
    return both if scores.null_logits is not None else np.pad(both, ((0, 0), (0, 1)))
