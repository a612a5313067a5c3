"""What trained readers think of a dataset's answers, for another reader to learn from."""

from collections.abc import Callable, Iterator, Sequence

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
    opinions: dict[int, list[np.ndarray]] = {}
    counts = dict.fromkeys(range(len(tokenised.data.questions)), 0)
    for reader in readers:
        for number, start, end in reader.borders(reader.encode(tokenised), progress):
            both = np.stack([start, end]) / len(readers)
            opinions[number] = opinions[number] + both if number in opinions else both
            counts[number] += 1
    return TeacherBorders.collect(_whole(tokenised, opinions, counts, len(readers)))


def _whole(tokenised: TokenisedData, opinions: dict, counts: dict, readers: int) -> Iterator[tuple]:
    for number in sorted(opinions):
        if counts[number] == readers:
            yield tokenised.data.questions[number].id, *opinions[number]
