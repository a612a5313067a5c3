"""Writes the character tables of BERT's text cleaning, `pipelines/bundled/unicode.npz`, from Python's own Unicode data.

    python -m benchmarks.make_unicode_tables

The tables are shipped, so that every Python and TensorFlow cuts a text into the same word pieces. Writing them with a
Python of another Unicode version changes the tokens of saved readers, whose `processor.json` names the version.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np

from fabir_tf.pipelines.files import atomic_write
from fabir_tf.pipelines.text.unicode_tables import CONTROL, MARK, PATH, PUNCTUATION, SPACE

ASCII_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
WHITE_CONTROLS = "\t\n\r"
# Hangul syllables are decomposed by the rule of the Unicode standard, section 3.12, and need no table.
HANGUL = range(0xAC00, 0xD7A4)


def kind(character: str) -> int:
    """The classes of a character, one bit each."""
    category = unicodedata.category(character)
    is_control = category in ("Cc", "Cf", "Co", "Cs") and character not in WHITE_CONTROLS
    found = CONTROL if is_control or character == "\N{REPLACEMENT CHARACTER}" else 0
    found |= SPACE if character.isspace() and not is_control else 0
    found |= MARK if category == "Mn" else 0
    return found | (PUNCTUATION if category[0] == "P" or character in ASCII_PUNCTUATION else 0)


def runs(values: Iterator[int]) -> np.ndarray:
    """Runs of equal values as two rows: where each begins, and its value."""
    array = np.fromiter(values, np.int32, sys.maxunicode + 1)
    starts = np.flatnonzero(np.diff(array, prepend=-1))
    return np.stack([starts, array[starts]]).astype(np.int32)


def mapping(change: Callable[[str], str]) -> dict[str, np.ndarray]:
    """The characters that change, into how many each, and all of those."""
    changed = {code: change(chr(code)) for code in range(sys.maxunicode + 1) if code not in HANGUL}
    changed = {code: text for code, text in changed.items() if text != chr(code)}
    return {
        "keys": np.array(list(changed), np.int32),
        "lengths": np.array([len(text) for text in changed.values()], np.int8),
        "values": np.array([ord(character) for text in changed.values() for character in text], np.int32),
    }


def main() -> None:
    """Writes the file."""
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    arrays = {"version": np.array(unicodedata.unidata_version)}
    arrays["kinds"] = runs(map(kind, characters))
    arrays["combining"] = runs(map(unicodedata.combining, characters))
    arrays |= {f"lower_{name}": array for name, array in mapping(str.lower).items()}
    arrays |= {f"nfd_{name}": array for name, array in mapping(lambda text: unicodedata.normalize("NFD", text)).items()}
    with atomic_write(PATH) as file:
        np.savez_compressed(file, **arrays)
    print(f"{PATH}: Unicode {unicodedata.unidata_version}, {PATH.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
