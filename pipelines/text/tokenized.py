"""Tokenized texts as arrays, and the cache that keeps them between runs."""

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.files import atomic_write, read_arrays, user_path
from fabir_tf.pipelines.text.tokenizer import Tokens

# Part of every cache key; raised when the arrays below change their meaning.
_LAYOUT = "2"


class Tokenizer(Protocol):
    """Cuts one text into tokens; a `TextProcessor` is one."""

    @property
    def tokenizer_version(self) -> str:
        """Part of every cache key; it changes whenever the tokens of any text change."""
        ...

    def tokenize_text(self, text: str) -> Tokens:
        """The tokens of a text with their offsets in code points."""
        ...


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """Texts as indices of unique tokens; index 0 is padding.

    The offsets tell where a token comes from. Its text may differ from that segment (a word piece, say).

    Attributes:
        unique: the texts of the unique tokens 1, 2, ..., case kept.
        tokens: int32 `(tokens,)`, the unique token of every token, one text after the other.
        starts, ends: int32 `(tokens,)`, the tokens' offsets in their text, in code points.
        splits: int64 `(texts + 1,)`; text i holds the tokens `splits[i]` to `splits[i + 1]`.
    """

    unique: list[str]
    tokens: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    splits: np.ndarray

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each text, int64 `(texts,)`."""
        return np.diff(self.splits)

    @cached_property
    def longest_tokens(self) -> np.ndarray:
        """Characters of the longest token of each text, int64 `(texts,)`; 0 for a text without tokens."""
        longest = np.zeros(len(self.lengths), np.int64)
        owners = np.repeat(np.arange(len(self.lengths)), self.lengths)
        sizes = np.array([0, *map(len, self.unique)], np.int64)
        np.maximum.at(longest, owners, sizes[self.tokens])
        return longest

    def select(self, texts: np.ndarray) -> "TokenizedTexts":
        """Some of the texts.

        Args:
            texts: int64 `(selected,)`, their numbers.
        """
        lengths = self.lengths[texts]
        splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        places = np.arange(splits[-1]) + np.repeat(self.splits[texts] - splits[:-1], lengths)
        used, tokens = np.unique(self.tokens[places], return_inverse=True)
        unique = [self.unique[index - 1] for index in used]
        return TokenizedTexts(unique, (tokens + 1).astype(np.int32), self.starts[places], self.ends[places], splits)

    def tokens_of(self, text: int) -> Tokens:
        """One text's tokens, as the tokenizer returned them."""
        part = slice(self.splits[text], self.splits[text + 1])
        words = [self.unique[index - 1] for index in self.tokens[part]]
        return Tokens(words, self.starts[part].tolist(), self.ends[part].tolist())


@dataclasses.dataclass(frozen=True)
class TokenizedDataset:
    """A tokenized dataset; its texts are the passages, followed by the questions.

    Attributes:
        data: the passages and questions.
        texts: their tokens.
        tokenizer_version: of the tokenizer, where a reader keeps it to know its own again.
    """

    data: SquadData
    texts: TokenizedTexts
    tokenizer_version: str = ""

    @cached_property
    def question_passages(self) -> np.ndarray:
        """The passage of each question, int64 `(questions,)`."""
        return np.array([question.passage for question in self.data.questions], np.int64)

    @cached_property
    def passage_lengths(self) -> np.ndarray:
        """Tokens of each passage, int64 `(passages,)`."""
        return self.texts.lengths[: len(self.data.passages)]

    @cached_property
    def question_lengths(self) -> np.ndarray:
        """Tokens of each question, int64 `(questions,)`."""
        return self.texts.lengths[len(self.data.passages) :]

    def passage_tokens(self) -> Iterable[Tokens]:
        """The tokens of each passage, in order."""
        return map(self.texts.tokens_of, range(len(self.data.passages)))

    def select(self, questions: np.ndarray) -> "TokenizedDataset":
        """Some of the questions, with all passages.

        Args:
            questions: int64 `(selected,)`, their numbers.
        """
        passages = len(self.data.passages)
        data = dataclasses.replace(self.data, questions=tuple(self.data.questions[number] for number in questions))
        texts = np.concatenate([np.arange(passages), passages + questions])
        return dataclasses.replace(self, data=data, texts=self.texts.select(texts))

    def token_counts(self) -> Counter[str]:
        """How often each token occurs; a passage counts once for each of its questions."""
        asked = np.bincount(self.question_passages, minlength=len(self.data.passages))
        repeats = np.concatenate([asked, np.ones(len(self.data.questions), np.int64)])
        weights = np.repeat(repeats, self.texts.lengths)
        counts = np.bincount(self.texts.tokens, weights=weights, minlength=len(self.texts.unique) + 1)
        return Counter({word: int(count) for word, count in zip(self.texts.unique, counts[1:], strict=True) if count})


def tokenize_texts(
    texts: list[str], tokenizer: Tokenizer, log: Callable[[str], object] | None = None
) -> TokenizedTexts:
    """Tokenizes texts into arrays.

    Args:
        texts: any strings.
        tokenizer: cuts one text into tokens.
        log: called with a line about the progress after every 10,000 texts.

    Returns:
        The tokens of every text, in order.
    """
    index: dict[str, int] = {}
    tokens, starts, ends, splits = [], [], [], [0]
    for number, text in enumerate(texts, 1):
        found = tokenizer.tokenize_text(text)
        tokens.append(np.array([index.setdefault(word, len(index) + 1) for word in found.words], np.int32))
        starts.append(np.array(found.starts, np.int32))
        ends.append(np.array(found.ends, np.int32))
        splits.append(splits[-1] + len(found.words))
        if log and number % 10_000 == 0:
            log(f"tokenized {number:,} of {len(texts):,} texts")
    nothing = [np.zeros(0, np.int32)]
    parts = [np.concatenate(arrays or nothing) for arrays in (tokens, starts, ends)]
    return TokenizedTexts(list(index), parts[0], parts[1], parts[2], np.array(splits, np.int64))


def tokenize_dataset(
    data: SquadData,
    tokenizer: Tokenizer,
    cache_dir: str | os.PathLike | None = None,
    log: Callable[[str], object] = print,
) -> TokenizedDataset:
    """Tokenizes a dataset, or reads its tokens from the cache.

    Args:
        data: passages and questions.
        tokenizer: cuts one text into tokens.
        cache_dir: folder that keeps tokens between runs, keyed by the texts and the tokenizer's version; None keeps
            none. If a cache file is damaged or cannot be written, `log` says so and the texts are tokenized again.
        log: called with a line about the progress.

    Returns:
        The tokenized dataset.
    """
    texts = [*data.passages, *(question.text for question in data.questions)]
    if cache_dir is None:
        return TokenizedDataset(data, tokenize_texts(texts, tokenizer, log))
    path = user_path(cache_dir) / f"tokens-{_fingerprint(texts, tokenizer.tokenizer_version)}.npz"
    cached = _read_cache(path, len(texts), log)
    if cached is None:
        cached = tokenize_texts(texts, tokenizer, log)
        _write_cache(path, cached, log)
    return TokenizedDataset(data, cached)


def save_texts(path: str | os.PathLike, texts: TokenizedTexts) -> None:
    """Writes tokens into an `.npz` file, whole or not at all.

    Raises:
        WriteError: the file cannot be written.
    """
    # A token never contains a line break, because white space separates tokens.
    unique = np.frombuffer("\n".join(texts.unique).encode("utf-8", "surrogatepass"), np.uint8)
    arrays = {name: getattr(texts, name) for name in ("tokens", "starts", "ends", "splits")}
    with atomic_write(path) as file:
        np.savez(file, unique=unique, **arrays)


def load_texts(path: str | os.PathLike, texts: int) -> TokenizedTexts:
    """Reads what `save_texts` wrote.

    Args:
        path: the file.
        texts: how many texts it must hold.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, or holds something else.
    """
    arrays = read_arrays(path)
    missing = {"unique", "tokens", "starts", "ends", "splits"} - arrays.keys()
    if missing:
        raise ValueError(f"it lacks the array {min(missing)}")
    raw = arrays.pop("unique").tobytes().decode("utf-8", "surrogatepass")
    found = TokenizedTexts(raw.split("\n") if raw else [], **arrays)
    if not _is_consistent(found, texts):
        raise ValueError("its tokens do not fit the data")
    return found


def _fingerprint(texts: list[str], version: str) -> str:
    digest = hashlib.sha256(f"{_LAYOUT} {version}".encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(f" {len(raw)} ".encode() + raw)
    return digest.hexdigest()[:32]


def _read_cache(path: Path, texts: int, log: Callable[[str], object]) -> TokenizedTexts | None:
    try:
        return load_texts(path, texts) if path.exists() else None
    except (OSError, ValueError) as error:
        log(f"the cached tokens in {path} cannot be read ({error}); tokenizing again")
        return None


def _is_consistent(cached: TokenizedTexts, texts: int) -> bool:
    total = int(cached.splits[-1]) if len(cached.splits) else -1
    sizes = {len(cached.tokens), len(cached.starts), len(cached.ends), total}
    in_range = total <= 0 or 1 <= cached.tokens.min() <= cached.tokens.max() <= len(cached.unique)
    if len(cached.splits) != texts + 1 or len(sizes) != 1 or not in_range:
        return False
    all_used = np.bincount(cached.tokens, minlength=len(cached.unique) + 1)[1:].all()
    ordered = (cached.starts >= 0) & (cached.starts < cached.ends)
    return bool(all_used and ordered.all() and (cached.lengths >= 0).all())


def _write_cache(path: Path, texts: TokenizedTexts, log: Callable[[str], object]) -> None:
    try:
        save_texts(path, texts)
    except OSError as error:
        log(f"the tokens cannot be cached in {path} ({error.strerror}); continuing without a cache")
