"""Leaves out of one dataset what also occurs in another: passages of the same article, or with a part of the same text.

Two texts share a stretch of 60 characters if and only if one of them has, within that stretch, a block of 30 characters
that starts at a multiple of 31. These blocks of the held-out texts are looked for at every position of the others, and
what is found is compared character by character.
"""

from collections.abc import Iterable

from fabir_tf.pipelines.datasets.squad import Question, SquadData, select_passages
from fabir_tf.pipelines.datasets.titles import article_keys
from fabir_tf.pipelines.errors import UserError

SHARED = 60
"""The fewest characters that two passages have to share, without regard to case and kinds of white space."""

_BLOCK = SHARED // 2
_STEP = SHARED - _BLOCK + 1


def set_aside(data: SquadData, held_out: SquadData, flag: str) -> tuple[SquadData, list[tuple[Question, str]]]:
    """Leaves out the questions whose article or text also occurs in held-out data.

    Args:
        data: all questions.
        held_out: the data that is scored.
        flag: the flag that asks for it, for the message.

    Returns:
        The questions that are left, and each of the others with the reason in words.

    Raises:
        UserError: no question is left.
    """
    found = overlaps(data, held_out)
    left_out = [(question, found[question.passage]) for question in data.questions if found[question.passage]]
    if len(left_out) == len(data.questions):
        raise UserError(
            f"--{flag}: all questions of {data.name} are about articles or texts of {held_out.name}, expected others"
        )
    return select_passages(data, [not reason for reason in found]), left_out


def overlaps(data: SquadData, held_out: SquadData) -> list[str]:
    """What each passage shares with held-out data.

    Args:
        data: the passages.
        held_out: the data that is scored.

    Returns:
        One text per passage: which article or how many characters it shares; "" for nothing. Titles that are empty or
        only collect passages (`article_keys`) are not compared. Passages of fewer than `SHARED` characters share their
        text if they are equal.
    """
    articles = set(article_keys(held_out)) - {""}
    texts = _Texts(held_out.passages)
    shares_text = {passage: texts.overlap(passage) for passage in set(data.passages)}
    found = []
    for key, title, passage in zip(article_keys(data), data.titles, data.passages, strict=True):
        reason = f"{SHARED} characters of the passage are held out" if shares_text[passage] else ""
        found.append(f"the article {title!r} is held out" if key in articles else reason)
    return found


class _Texts:
    """Held-out texts, in which stretches of others are looked for."""

    def __init__(self, texts: Iterable[str]):
        self._texts = sorted({_plain(text) for text in texts} - {""})
        self._short = {text for text in self._texts if len(text) < SHARED}
        # The places of each block, as the numbers of text and character.
        self._places: dict[str, list[tuple[int, int]]] = {}
        for number, text in enumerate(self._texts):
            for start in range(0, len(text) - _BLOCK + 1, _STEP):
                self._places.setdefault(text[start : start + _BLOCK], []).append((number, start))
        self._slices: list[slice] = []

    def overlap(self, passage: str) -> bool:
        """Whether a passage shares a stretch of `SHARED` characters with one of the texts, or is one of them."""
        text = _plain(passage)
        if len(text) < SHARED:
            return text in self._short
        # Most passages have no such block at all, and this finds it out without a loop in Python.
        if self._places.keys().isdisjoint(map(text.__getitem__, self._blocks(text))):
            return False
        return any(
            _is_shared(text, block.start, self._texts[number], start)
            for block in self._blocks(text)
            for number, start in self._places.get(text[block], ())
        )

    def _blocks(self, text: str) -> list[slice]:
        """The slices of all blocks of a text."""
        number = len(text) - _BLOCK + 1
        self._slices += [slice(start, start + _BLOCK) for start in range(len(self._slices), number)]
        return self._slices[:number]


def _is_shared(text: str, start: int, other: str, other_start: int) -> bool:
    """Whether two texts share `SHARED` characters around two places."""
    before = _common(text[:start][-SHARED:][::-1], other[:other_start][-SHARED:][::-1])
    return before + _common(text[start:][:SHARED], other[other_start:][:SHARED]) >= SHARED


def _common(text: str, other: str) -> int:
    shorter = min(len(text), len(other))
    return next((index for index in range(shorter) if text[index] != other[index]), shorter)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
