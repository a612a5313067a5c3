"""Frozen word vectors: read from text, .npz, fastText's .bin or the bundled table, and saved with a run."""

import codecs
import gzip
import io
import itertools
import json
import os
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import atomic_write, named_files, user_path
from fabir_tf.pipelines.json_files import loads
from fabir_tf.pipelines.text.fasttext_binary import FastTextBinary, is_fasttext_binary

BUNDLED = Path(__file__).parents[1] / "bundled" / "vectors.npz"
TABLE_FILE = "vectors.npy"
WORDS_FILE = "vectors_words.txt"
NOTE_FILE = "vectors.json"
PACKED_FILE = "vectors.npz"

_LONGEST_LINE = 1 << 20
_LARGEST = float(np.finfo(np.float16).max)
_CHUNK = 8192


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their frozen vectors, row by row.

    Args:
        words: distinct lower-case words; row i of the table is the vector of `words[i]`.
        table: float16 (len(words), dimension); read-only and memory-mapped when it comes from a run's folder.
        source: where the vectors were read from: "bundled", "none" or the path as given.
    """

    words: list[str]
    table: np.ndarray
    source: str

    @property
    def dimension(self) -> int:
        """Numbers per word; 0 for the empty table of "none"."""
        return self.table.shape[1]


def load_vectors(spec: str, needed: Collection[str] = frozenset(), max_words: int = 400_000) -> WordVectors:
    """Reads word vectors: the first `max_words` words, and every later word that is in `needed`.

    Words are converted to lower case, because they are looked up in lower case. If several rows have the same word, the
    first is kept, which is the most frequent spelling in the published files. Text is read line by line, so memory
    depends on the rows that are kept and not on the size of the file. Lines that are not kept are not parsed.

    Args:
        spec: one of
            - "bundled": the 100-dimensional table that comes with the package;
            - "none": no words and a table of shape (0, 0), which fits a model of any word dimension;
            - a text file, plain or gzip: `word v1 ... vd` a line, in UTF-8, optionally after a header line `n d`
              (fastText, word2vec); a word may contain spaces (GloVe 840B), but not on the first line;
            - an .npz file with `words` (UTF-8 bytes, separated by newlines) and either `vectors` (float (n, d)) or
              `quantised` (int8 (n, d)) and `scales` (float (n,));
            - a fastText model (.bin), which also gives vectors for `needed` words outside its vocabulary;
            - several of the above, separated by commas: a word's vectors are concatenated, zeros where a file lacks it.
        needed: words of the data in lower case, kept at any position in the file.
        max_words: the number of words to keep from the beginning of the file.

    Returns:
        The vectors, in the order of the file.

    Raises:
        UserError: the file is missing, unreadable, malformed or empty, or has a number beyond the range of float16.
    """
    if spec == "none":
        return WordVectors([], np.zeros((0, 0), np.float16), "none")
    parts = named_files(spec)
    if len(parts) > 1:
        return _concatenated([load_vectors(part, needed, max_words) for part in parts], spec)
    if not spec:
        raise UserError("The word vectors: found an empty name, expected bundled, none or a file.")
    path = BUNDLED if spec == "bundled" else user_path(spec)
    if path.is_dir():
        raise UserError(f"{path}: found a folder, expected a file of word vectors.")
    if not path.exists():
        raise UserError(f"{path}: no such file, expected word vectors (GloVe text, .txt.gz, .npz or fastText's .bin).")
    kept = _Kept(needed if isinstance(needed, (set, frozenset, dict)) else frozenset(needed), max_words)
    return WordVectors(kept.words, _read(path, kept), str(spec))


def _read(path: Path, kept: "_Kept") -> np.ndarray:
    if path.suffix == ".npz":
        return _read_npz(path, kept)
    try:
        if is_fasttext_binary(path):
            return _read_fasttext(path, kept)
    except OSError as error:
        raise UserError(f"{path}: found an unreadable file ({error}), expected word vectors.") from None
    return _read_text(path, kept)


def _concatenated(parts: list[WordVectors], source: str) -> WordVectors:
    words = list(dict.fromkeys(word for part in parts for word in part.words))
    rows = {word: row for row, word in enumerate(words)}
    table = np.zeros((len(words), sum(part.dimension for part in parts)), np.float16)
    begin = 0
    for part in parts:
        table[[rows[word] for word in part.words], begin : begin + part.dimension] = part.table
        begin += part.dimension
    return WordVectors(words, table, source)


def with_random_vectors(vectors: WordVectors, words: Collection[str]) -> WordVectors:
    """Adds a random vector of its own for each word that has none.

    The numbers are normal, with mean and deviation of the table's. They depend on the word alone.

    Args:
        vectors: a table with at least one word.
        words: words in lower case.

    Returns:
        The table with further rows, in alphabetical order.

    Reference: Porwal 2021, section 4.2; Pennington et al. 2014 for GloVe's own.
    """
    others = sorted(set(words) - set(vectors.words))
    mean, deviation = (getattr(vectors.table.astype(np.float32), name)() for name in ("mean", "std"))
    generators = (np.random.default_rng(zlib.crc32(word.encode("utf-8", "surrogatepass"))) for word in others)
    rows = [generator.normal(mean, deviation, (1, vectors.dimension)).astype(np.float16) for generator in generators]
    return WordVectors([*vectors.words, *others], np.concatenate([vectors.table, *rows]), vectors.source)


def validate_dimension(vectors: WordVectors, dimension: int, name: str = "word_dim") -> None:
    """Checks that the vectors fit the model; an empty table ("none") fits every model.

    Args:
        vectors: the loaded vectors.
        dimension: the word dimension of the model.
        name: the model's setting, for the message.

    Raises:
        UserError: the dimensions differ.
    """
    if vectors.words and vectors.dimension != dimension:
        raise UserError(
            f"{vectors.source}: the vectors have dimension {vectors.dimension}, the model expects {name}={dimension}."
        )


def quantise_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes each row to int8 with one scale; `scale * int8` differs from the row by at most half a step.

    Args:
        table: float (n, d).

    Returns:
        int8 (n, d) and the scales, float16 (n,).
    """
    table = np.asarray(table, np.float32)
    scales = (np.abs(table).max(axis=1, initial=0) / 127).astype(np.float16)
    # Dividing by the stored scale avoids an error from its rounding to float16. A row of zeros stays zero.
    divisors = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.clip(np.rint(table / divisors[:, None]), -127, 127).astype(np.int8), scales


def dequantise_rows(quantised: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Restores the rows from `quantise_rows`.

    Args:
        quantised: int8 (n, d).
        scales: float (n,).

    Returns:
        float16 (n, d).
    """
    return (quantised * scales[:, None].astype(np.float32)).astype(np.float16)


def save_vectors(vectors: WordVectors, folder: str | os.PathLike) -> None:
    """Writes vectors to a run's folder, each file atomically.

    Args:
        vectors: the vectors to write.
        folder: created if it does not exist.

    Raises:
        UserError: a word contains a newline.
    """
    broken = next((word for word in vectors.words if "\n" in word), None)
    if broken is not None:
        raise UserError(f"{vectors.source}: found a newline in the word {broken!r}, expected words without newlines.")
    folder = Path(folder)
    text = "".join(f"{word}\n" for word in vectors.words)
    note = {"source": vectors.source, "words": len(vectors.words), "dimension": vectors.dimension}
    with atomic_write(folder / TABLE_FILE) as stream:
        np.save(stream, np.asarray(vectors.table, np.float16))
    with atomic_write(folder / WORDS_FILE) as stream:
        stream.write(text.encode("utf-8", "surrogatepass"))
    with atomic_write(folder / NOTE_FILE) as stream:
        stream.write(json.dumps(note).encode())


def save_packed_vectors(vectors: WordVectors, folder: str | os.PathLike) -> None:
    """Writes vectors as one small file with 8 bits per number.

    Args:
        vectors: the vectors to write.
        folder: created if it does not exist.
    """
    quantised, scales = quantise_rows(vectors.table)
    words = np.bytes_("\n".join(vectors.words).encode("utf-8", "surrogatepass"))
    with atomic_write(Path(folder) / PACKED_FILE) as stream:
        np.savez_compressed(stream, words=words, quantised=quantised, scales=scales)


def load_saved_vectors(folder: str | os.PathLike) -> WordVectors:
    """Opens the vectors of a run's folder; the table is memory-mapped, so only the rows that are read take memory.

    Args:
        folder: the folder that `save_vectors` or `save_packed_vectors` wrote to; the latter's table is in memory.

    Returns:
        The vectors, with a read-only table.

    Raises:
        UserError: a file is missing or damaged, or the files do not match.
    """
    folder = Path(folder)
    if (folder / PACKED_FILE).exists():
        return WordVectors(*_npz_rows(folder / PACKED_FILE), str(folder / PACKED_FILE))
    words = load_saved_words(folder)
    path = folder / TABLE_FILE
    try:
        table = np.load(path, mmap_mode="r" if words else None, allow_pickle=False)
        source = loads((folder / NOTE_FILE).read_bytes().decode())["source"]
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no such file, expected the word vectors of a run.") from None
    # NumPy reads the header as Python's syntax, which has errors of many kinds.
    except Exception as error:
        raise UserError(f"{folder}: found damaged word vectors ({error}), expected those of a run.") from None
    if table.dtype != np.float16 or table.ndim != 2 or len(table) != len(words):
        raise UserError(
            f"{path}: found {table.dtype} {table.shape}, "
            f"expected float16 ({len(words)}, dimension): one row for each word of {WORDS_FILE}."
        )
    return WordVectors(words, table, source)


def load_saved_words(folder: str | os.PathLike) -> list[str]:
    """Reads the words of a run's frozen vectors without the table.

    Args:
        folder: the folder that `save_vectors` or `save_packed_vectors` wrote to.

    Returns:
        The words, in the order of the table's rows.

    Raises:
        UserError: the file is missing or damaged.
    """
    folder = Path(folder)
    if (folder / PACKED_FILE).exists():
        return _npz_rows(folder / PACKED_FILE)[0]
    path = folder / WORDS_FILE
    try:
        return path.read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, expected the words of a run's word vectors.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: found bytes that are not UTF-8 at {error.start}, expected a word per line.") from None


class _Kept:
    """Collects the words to keep."""

    def __init__(self, needed: Collection[str], max_words: int):
        self.needed = needed
        self.max_words = max_words
        self.words: list[str] = []
        self._seen: set[str] = set()

    @property
    def only_needed(self) -> bool:
        return len(self.words) >= self.max_words

    def add(self, word: str) -> bool:
        """Adds a lower-case word unless it is a repetition or not needed; returns whether it was added."""
        if word in self._seen or (self.only_needed and word not in self.needed):
            return False
        self._seen.add(word)
        self.words.append(word)
        return True


def _read_text(path: Path, kept: _Kept) -> np.ndarray:
    dimension, rows, announced = 0, 0, None
    table = np.zeros((0, 0), np.float16)
    with _open_text(path) as stream:
        # The limit per line keeps a file without newlines from filling the memory.
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), b""), 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip():
                continue
            if not dimension:
                dimension, announced = _read_first_line(path, number, line)
                table = np.zeros((0, dimension), np.float16)
                if announced is not None:
                    continue
            rows += 1
            if kept.only_needed and _can_skip(path, number, line, dimension, kept.needed):
                continue
            word, row = _parse_line(path, number, line, dimension)
            if kept.add(word):
                table = _grown(table, len(kept.words))
                table[len(kept.words) - 1] = row
    if not kept.words:
        raise UserError(f"{path}: found no vectors, expected lines of a word and its numbers.")
    if announced is not None and rows < announced:
        raise UserError(f"{path}: found {rows:,} of {announced:,} vectors, expected all that its first line announces.")
    table.resize((len(kept.words), dimension), refcheck=False)
    return table


def _read_first_line(path: Path, number: int, line: bytes) -> tuple[int, int | None]:
    """Returns the dimension from the first line and, if that line is a header `n d`, the number of vectors."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields) and int(fields[1]) > 0:
        return int(fields[1]), int(fields[0])
    _decode(path, number, fields[0])
    if len(fields) < 2:
        raise UserError(f"{path}, line {number}: found no numbers, expected a word and the numbers of its vector.")
    return len(fields) - 1, None


def _can_skip(path: Path, number: int, line: bytes, dimension: int, needed: Collection[str]) -> bool:
    """Whether a line is complete and not needed, without parsing it; only the first part of a word is compared."""
    if line.count(b" ") + line.count(b"\t") < dimension:
        return False
    return _decode(path, number, line.split(None, 1)[0]).lower() not in needed


def _parse_line(path: Path, number: int, line: bytes, dimension: int) -> tuple[str, np.ndarray]:
    # Split as bytes, so that only ASCII white space separates and a word may contain other Unicode spaces.
    fields = line.strip().rsplit(None, dimension)
    word = _decode(path, number, fields[0]).lower()
    if len(fields) != dimension + 1 or _ends_in_number(fields[0]):
        _decode(path, number, line)
        raise UserError(
            f"{path}, line {number}: found {len(line.split()) - 1} numbers, expected {dimension} as in the first line."
        )
    try:
        row = np.array([float(field) for field in fields[1:]])
    except ValueError:
        bad = next(field for field in fields[1:] if not _is_number(field))
        found = _decode(path, number, bad)
        raise UserError(f"{path}, line {number}: found {found!r}, expected one of {dimension} numbers.") from None
    # In this form the check also rejects NaN, which compares as false.
    if not np.abs(row).max() <= _LARGEST:
        bad = next(value for value in row if not abs(value) <= _LARGEST)
        raise UserError(f"{path}, line {number}: found {bad}, expected finite numbers up to {_LARGEST:.0f}.")
    return word, row


def _ends_in_number(word: bytes) -> bool:
    parts = word.split()
    # Not "infinity" and "nan", which are words.
    return len(parts) > 1 and _is_number(parts[-1]) and any(byte in b"0123456789" for byte in parts[-1])


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _decode(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UserError(
            f"{path}, line {number}: found bytes that are not UTF-8, "
            "expected text (convert a binary word2vec file to text first)."
        ) from None


def _grown(table: np.ndarray, rows: int) -> np.ndarray:
    """Enlarges the table by half if it is full, in place, so two copies never exist at once."""
    if rows > len(table):
        table.resize((max(1024, len(table) * 3 // 2), table.shape[1]), refcheck=False)
    return table


@contextmanager
def _open_text(path: Path) -> Iterator[io.BufferedIOBase]:
    try:
        with open(path, "rb") as stream:
            magic = stream.read(4)
            stream.seek(0)
            if magic == b"PK\x03\x04":
                raise UserError(f"{path}: found a zip archive, expected the text file inside it: unpack it first.")
            yield gzip.GzipFile(fileobj=stream) if magic[:2] == b"\x1f\x8b" else stream
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: found an unreadable file ({error}), expected word vectors.") from None


def _read_fasttext(path: Path, kept: _Kept) -> np.ndarray:
    model = FastTextBinary(path)
    table = np.zeros((0, model.dimension), np.float16)
    known = ((word.lower(), partial(model.vector, row)) for row, word in enumerate(model.words) if word)
    unseen = ((word, partial(model.vector_of_unseen, word)) for word in sorted(kept.needed) if model.can_make(word))
    for word, make in itertools.chain(known, unseen):
        if kept.add(word):
            table = _grown(table, len(kept.words))
            with np.errstate(over="ignore"):
                table[len(kept.words) - 1] = make()
    table.resize((len(kept.words), model.dimension), refcheck=False)
    if not np.isfinite(table).all():
        raise UserError(f"{path}: found a number that is not finite in float16, expected vectors of finite numbers.")
    return table


def _read_npz(path: Path, kept: _Kept) -> np.ndarray:
    words, table = _npz_rows(path)
    if not words:
        raise UserError(f"{path}: found no vectors, expected at least one word and its vector.")
    rows = [row for row, word in enumerate(words) if kept.add(word.lower())]
    return table if len(rows) == len(table) else table[rows]


def _npz_rows(path: Path) -> tuple[list[str], np.ndarray]:
    arrays = _open_npz(path)
    words, table = _npz_words(path, arrays), _npz_table(path, arrays)
    if len(words) != len(table):
        raise UserError(f"{path}: found {len(words)} words and {len(table)} vectors, expected as many of both.")
    return words, table


def _open_npz(path: Path) -> dict[str, np.ndarray]:
    names = ("words", "vectors", "quantised", "scales")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a zip archive")
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in names if name in archive.files}
    # The exception depends on the damaged byte.
    except Exception as error:
        raise UserError(f"{path}: found a damaged file ({error}), expected a NumPy .npz archive.") from None


def _npz_words(path: Path, arrays: dict[str, np.ndarray]) -> list[str]:
    words = arrays.get("words")
    if words is None:
        raise UserError(f"{path}: found no array `words`, expected the words as UTF-8 bytes separated by newlines.")
    if words.dtype != np.uint8 and not (words.dtype.kind == "S" and words.ndim == 0):
        raise UserError(
            f"{path}: found `words` as {words.dtype} {words.shape}, expected UTF-8 bytes separated by newlines."
        )
    try:
        # NumPy pads an empty byte string with a NUL, which `item` removes.
        text = (words.item() if words.dtype.kind == "S" else words.tobytes()).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: found bytes that are not UTF-8 at {error.start} of `words`, expected text.") from None
    return text.removesuffix("\n").split("\n") if text else []


def _npz_table(path: Path, arrays: dict[str, np.ndarray]) -> np.ndarray:
    if "quantised" in arrays:
        table = _npz_quantised(path, arrays)
    elif "vectors" in arrays:
        table = arrays["vectors"]
    else:
        raise UserError(f"{path}: found no array `vectors`, expected it, or `quantised` and `scales`.")
    if table.dtype.kind != "f" or table.ndim != 2:
        raise UserError(f"{path}: found `vectors` as {table.dtype} {table.shape}, expected float16 (words, dimension).")
    with np.errstate(over="ignore"):
        table = table.astype(np.float16, copy=False)
    for start in range(0, len(table), _CHUNK):
        finite = np.isfinite(table[start : start + _CHUNK]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise UserError(f"{path}: found a number in row {row} of the vectors that is not finite in float16.")
    return table


def _npz_quantised(path: Path, arrays: dict[str, np.ndarray]) -> np.ndarray:
    quantised, scales = arrays["quantised"], arrays.get("scales")
    if scales is None:
        raise UserError(f"{path}: found `quantised` without `scales`, expected one scale per row.")
    good_rows = quantised.dtype == np.int8 and quantised.ndim == 2
    if not good_rows or scales.dtype.kind != "f" or scales.shape != (len(quantised),):
        raise UserError(
            f"{path}: found `quantised` as {quantised.dtype} {quantised.shape} and `scales` as {scales.dtype} "
            f"{scales.shape}, expected int8 (words, dimension) and float16 (words,)."
        )
    return dequantise_rows(quantised, scales)
