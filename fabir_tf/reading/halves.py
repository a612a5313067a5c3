"""Answers many rows at once, so that one that cannot be answered costs no other its answer."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Row = TypeVar("Row")
Found = TypeVar("Found")
Failure = TypeVar("Failure", bound=Exception)


def answer_in_halves(
    rows: Sequence[Row],
    answer: Callable[[Sequence[Row]], Iterable[Found]],
    failure: type[Failure],
    failed: Callable[[Row, Failure], Found],
) -> list[Found]:
    """Answers rows together; where that fails, each half of them, down to the row that is to blame.

    Args:
        rows: what is answered.
        answer: answers several rows, in their order.
        failure: what it raises where one of them cannot be answered; anything else is raised.
        failed: what stands for the answer of a row that fails alone.

    Returns:
        One for each row.
    """
    try:
        return list(answer(rows))
    except failure as error:
        if len(rows) < 2:
            return [failed(row, error) for row in rows]
    middle = len(rows) // 2
    return [one for half in (rows[:middle], rows[middle:]) for one in answer_in_halves(half, answer, failure, failed)]
