"""Rows that cannot be answered cost the others nothing."""

import math

import pytest

from fabir_tf.reading.halves import answer_in_halves


def roots(asked: list[list[float]]):
    """Square roots of rows, and a list that gets what was asked at once."""

    def answer(rows):
        asked.append(list(rows))
        return [math.sqrt(row) for row in rows]

    return answer


@pytest.mark.parametrize("bad", [(), (0,), (3,), (6,), (1, 2), (0, 1, 2, 3, 4, 5, 6)])
def test_each_row_has_its_answer_or_its_own_error(bad):
    rows = [-1.0 - place if place in bad else float(place * place) for place in range(7)]
    asked = []
    found = answer_in_halves(rows, roots(asked), ValueError, lambda row, error: (row, type(error)))
    assert found == [(row, ValueError) if row < 0 else math.sqrt(row) for row in rows]
    # One bad row among many costs twice the logarithm of their number, not their number.
    assert len(asked) <= 1 + 2 * len(bad) * 3


def test_no_rows_have_no_answers():
    assert answer_in_halves([], roots([]), ValueError, lambda row, error: row) == []
    assert answer_in_halves([], lambda rows: [max(rows)], ValueError, lambda row, error: row) == []


def test_another_error_is_raised():
    with pytest.raises(TypeError):
        answer_in_halves([4.0, "x"], roots([]), ValueError, lambda row, error: row)
