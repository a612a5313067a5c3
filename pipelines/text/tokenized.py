"""SQuAD data as arrays: every passage tokenized once, every distinct token looked up once."""

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.files import atomic_write, read_arrays
from fabir_tf.pipelines.text.tokenizer import Tokens, tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary

# Bumped when the arrays below change their meaning.
_LAYOUT = "1"


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """Texts as rows of token types; a type is a distinct token, case kept, and type 0 is padding.

    Attributes:
        types: the text of type 1, 2, ...
        tokens: int32 `(tokens,)`, the types of all texts, one text after the other.
        starts, ends: int32 `(tokens,)`, the tokens' character offsets in their text.
        splits: int64 `(texts + 1,)`, text i holds the tokens `splits[i]` to `splits[i + 1]`.
    """

    types: list[str]
    tokens: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    splits: np.ndarray

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each text, int64 `(texts,)`."""
        return np.diff(self.splits)

    def tokens_of(self, text: int) -> Tokens:
        """One text's tokens as the tokeniser gave them."""
        part = slice(self.splits[text], self.splits[text + 1])
        words = [self.types[type_id - 1] for type_id in self.tokens[part]]
        return Tokens(words, self.starts[part].tolist(), self.ends[part].tolist())


@dataclasses.dataclass(frozen=True)
class TokenizedDataset:
    """A SQuAD dataset, tokenized: its texts are the passages, then the questions."""

    data: SquadData
    texts: TokenizedTexts

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

    def token_counts(self) -> Counter[str]:
        """How often each token occurs, those of a passage counted once per question asked of it."""
        asked = np.bincount(self.question_passages, minlength=len(self.data.passages))
        repeats = np.concatenate([asked, np.ones(len(self.data.questions), np.int64)])
        weights = np.repeat(repeats, self.texts.lengths)
        counts = np.bincount(self.texts.tokens, weights=weights, minlength=len(self.texts.types) + 1)
        return Counter({word: int(count) for word, count in zip(self.texts.types, counts[1:], strict=True) if count})


@dataclasses.dataclass(frozen=True)
class EncodedData:
    """Tokenised data with the ids of every token type.

    Attributes:
        tokenized: the tokens.
        unique_words: int32 `(types + 1,)`, the word id of each type; 0 for padding.
        unique_characters: int32 `(types + 1, width)`, its character ids.
    """

    tokenized: TokenizedDataset
    unique_words: np.ndarray
    unique_characters: np.ndarray


def tokenize_texts(texts: list[str], log: Callable[[str], None] | None = None) -> TokenizedTexts:
    """Tokenises texts into arrays.

    Args:
        texts: any strings.
        log: told of the progress, every 10,000 texts.

    Returns:
        The tokens of every text, in order.
    """
    index: dict[str, int] = {}
    tokens, starts, ends, splits = [], [], [], [0]
    for number, text in enumerate(texts, 1):
        found = tokenize(text)
        tokens.append(np.array([index.setdefault(word, len(index) + 1) for word in found.words], np.int32))
        starts.append(np.array(found.starts, np.int32))
        ends.append(np.array(found.ends, np.int32))
        splits.append(splits[-1] + len(found.words))
        if log and number % 10_000 == 0:
            log(f"tokenized {number:,} of {len(texts):,} texts")
    flat = [np.concatenate(arrays or [np.zeros(0, np.int32)]) for arrays in (tokens, starts, ends)]
    return TokenizedTexts(list(index), *flat, np.array(splits, np.int64))


def tokenize_dataset(
    data: SquadData, cache_dir: str | os.PathLike | None = None, log: Callable[[str], None] = print
) -> TokenizedDataset:
    """Tokenises a dataset, or reads its tokens from the cache.

    Args:
        data: passages and questions.
        cache_dir: where tokens are kept between runs, keyed by the texts and the tokeniser's version; None keeps none.
            A file that is damaged or cannot be written is said through `log`, and the work is done again.
        log: told of the progress.

    Returns:
        The tokenized dataset.
    """
    texts = [*data.passages, *(question.text for question in data.questions)]
    if cache_dir is None:
        return TokenizedDataset(data, tokenize_texts(texts, log))
    path = Path(cache_dir).expanduser() / f"tokens-{_fingerprint(texts)}.npz"
    cached = _read_cache(path, len(texts), log)
    if cached is None:
        cached = tokenize_texts(texts, log)
        _write_cache(path, cached, log)
    return TokenizedDataset(data, cached)


def encode(tokenized: TokenizedDataset, vocabulary: Vocabulary, word_characters: int) -> EncodedData:
    """Looks every distinct token up in a vocabulary.

    Args:
        tokenized: the tokens.
        vocabulary: ids of words and characters.
        word_characters: characters kept of a token.

    Returns:
        The tokens with their ids.
    """
    types = tokenized.texts.types
    words = np.concatenate([np.zeros(1, np.int32), vocabulary.word_ids(types)])
    padding = np.zeros((1, word_characters), np.int32)
    characters = vocabulary.character_ids(types, word_characters) if types else padding[:0]
    return EncodedData(tokenized, words, np.concatenate([padding, characters]))


def _fingerprint(texts: list[str]) -> str:
    from fabir_tf.pipelines.text.nltk_tokenizers import TOKENIZER_VERSION

    digest = hashlib.sha256(f"{_LAYOUT} {TOKENIZER_VERSION}".encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(f" {len(raw)} ".encode() + raw)
    return digest.hexdigest()[:32]


def save_texts(path: str | os.PathLike, texts: TokenizedTexts) -> None:
    """Writes tokens into an `.npz` file, whole or not at all.

    Raises:
        WriteError: the file cannot be written.
    """
    # Tokens hold no line break: white space separates them.
    types = np.frombuffer("\n".join(texts.types).encode("utf-8", "surrogatepass"), np.uint8)
    arrays = {name: getattr(texts, name) for name in ("tokens", "starts", "ends", "splits")}
    with atomic_write(path) as file:
        np.savez(file, types=types, **arrays)


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
    missing = {"types", "tokens", "starts", "ends", "splits"} - arrays.keys()
    if missing:
        raise ValueError(f"it lacks the array {min(missing)}")
    raw = arrays.pop("types").tobytes().decode("utf-8", "surrogatepass")
    found = TokenizedTexts(raw.split("\n") if raw else [], **arrays)
    if not _is_consistent(found, texts):
        raise ValueError("its tokens do not fit the data")
    return found


def _read_cache(path: Path, texts: int, log: Callable[[str], None]) -> TokenizedTexts | None:
    try:
        return load_texts(path, texts) if path.exists() else None
    except (OSError, ValueError) as error:
        log(f"the cached tokens in {path} cannot be read ({error}); tokenising again")
        return None


def _is_consistent(cached: TokenizedTexts, texts: int) -> bool:
    total = int(cached.splits[-1]) if len(cached.splits) else -1
    sizes = {len(cached.tokens), len(cached.starts), len(cached.ends), total}
    in_range = total <= 0 or 1 <= cached.tokens.min() <= cached.tokens.max() <= len(cached.types)
    if len(cached.splits) != texts + 1 or len(sizes) != 1 or not in_range:
        return False
    type_lengths = np.array([0, *map(len, cached.types)])
    return np.array_equal(type_lengths[cached.tokens], cached.ends - cached.starts)


def _write_cache(path: Path, texts: TokenizedTexts, log: Callable[[str], None]) -> None:
    try:
        save_texts(path, texts)
    except OSError as error:
        log(f"the tokens cannot be cached in {path} ({error.strerror}); going on without")
