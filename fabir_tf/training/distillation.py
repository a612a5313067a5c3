"""What trained readers think of a dataset's answers, for another reader to learn from."""

from collections.abc import Callable, Sequence

import numpy as np

from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.reader import Reader


def teach(
    readers: Sequence[Reader], tokenized: TokenizedDataset, progress: Callable[[int, int], None] | None = None
) -> TeacherDistributions:
    """The mean of some readers' border probabilities.

    Args:
        readers: one or more.
        tokenized: the questions.
        progress: told (questions done, questions in all) of each reader in turn.

    Returns:
        Their soft_labels of every question whose passage all of them read in one piece.
    """
    soft_labels = [
        {number: np.stack(both) for number, *both in reader.borders(reader.encode(tokenized), progress)}
        for reader in readers
    ]
    questions = tokenized.data.questions
    return TeacherDistributions.collect(
        (questions[number].id, *np.mean([soft_labels[number] for soft_labels in soft_labels], axis=0))
        for number in sorted(set.intersection(*map(set, soft_labels)))
    )
