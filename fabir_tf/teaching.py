"""What trained readers think of a dataset's answers, for another reader to learn from."""

from collections.abc import Callable, Sequence

import numpy as np

from fabir_tf.pipelines.encoding import TokenisedData
from fabir_tf.pipelines.teacher_borders import TeacherBorders
from fabir_tf.reader import Reader


def teach(
    readers: Sequence[Reader], tokenised: TokenisedData, progress: Callable[[int, int], None] | None = None
) -> TeacherBorders:
    """The mean of some readers' border probabilities.

    Args:
        readers: one or more.
        tokenised: the questions.
        progress: told (questions done, questions in all) of each reader in turn.

    Returns:
        Their opinion of every question whose passage all of them read in one piece.
    """
    opinions = [
        {number: np.stack(both) for number, *both in reader.borders(reader.encode(tokenised), progress)}
        for reader in readers
    ]
    questions = tokenised.data.questions
    return TeacherBorders.collect(
        (questions[number].id, *np.mean([opinion[number] for opinion in opinions], axis=0))
        for number in sorted(set.intersection(*map(set, opinions)))
    )
