"""Character tables of one Unicode version, shipped with the package.

Python, TensorFlow and Hugging Face's tokenizers have a Unicode version each. BERT's cleaning reads these tables in
Python and in the graph, so that a reader's tokens never change with an installation.
`benchmarks/make_unicode_tables.py` writes them.
"""

import dataclasses
import functools
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.files import read_arrays

PATH = Path(__file__).parents[1] / "bundled" / "unicode.npz"

CODE_POINTS = 0x110000

CONTROL, SPACE, MARK, PUNCTUATION = 1, 2, 4, 8
"""The bits of a character's kind. Unassigned characters have none: a later version may make them letters."""

# The Unicode standard, section 3.12.
_SYLLABLES, _LEADS, _VOWELS, _TAILS = 0xAC00, 0x1100, 0x1161, 0x11A7
_VOWEL_COUNT, _TAIL_COUNT, _SYLLABLE_COUNT = 21, 28, 11172

Mapping = dict[int, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class UnicodeTables:
    """What the cleaning knows of characters.

    Attributes:
        version: the Unicode version.
        kinds: uint8 `(CODE_POINTS,)`, the bits above.
        combining: uint8 `(CODE_POINTS,)`, canonical combining classes.
        lower: the code points of the lower case of each character that has one.
        decomposed: the code points of each character's canonical decomposition (NFD), where it differs.
    """

    version: str
    kinds: np.ndarray
    combining: np.ndarray
    lower: Mapping
    decomposed: Mapping


@functools.cache
def unicode_tables() -> UnicodeTables:
    """Reads the shipped tables, once."""
    arrays = read_arrays(PATH)
    decomposed = _mapping(arrays, "nfd") | {_SYLLABLES + index: _jamo(index) for index in range(_SYLLABLE_COUNT)}
    kinds, combining = (_from_runs(arrays[name]) for name in ("kinds", "combining"))
    return UnicodeTables(str(arrays["version"]), kinds, combining, _mapping(arrays, "lower"), decomposed)


def _from_runs(runs: np.ndarray) -> np.ndarray:
    starts, values = runs
    return np.repeat(values, np.diff(starts, append=CODE_POINTS)).astype(np.uint8)


def _mapping(arrays: dict[str, np.ndarray], name: str) -> Mapping:
    keys, lengths, values = (arrays[f"{name}_{part}"] for part in ("keys", "lengths", "values"))
    parts = np.split(values, np.cumsum(lengths, dtype=np.int64)[:-1])
    return {int(key): tuple(part.tolist()) for key, part in zip(keys, parts, strict=True)}


def _jamo(index: int) -> tuple[int, ...]:
    """The letters of a Hangul syllable."""
    lead, rest = divmod(index, _VOWEL_COUNT * _TAIL_COUNT)
    vowel, tail = divmod(rest, _TAIL_COUNT)
    letters = (_LEADS + lead, _VOWELS + vowel)
    return (*letters, _TAILS + tail) if tail else letters
