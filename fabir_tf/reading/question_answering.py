"""The question-answering pipeline that transformers 4 had, with any reader of this package.

    qa = fabir_tf.question_answering("fabir-base")
    qa(question="Who built the mill?", context="The mill was built by Anna Keld.")
    {'score': 0.86, 'start': 22, 'end': 31, 'answer': 'Anna Keld'}

Its answers are not those of `Reader`: each window of a long text has a softmax of its own, and what it says of "no
answer" is not calibrated. With a folder of BERT they are those of transformers 4.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fabir_tf.pipelines.arguments import whole_number
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.answers import as_text, as_texts, questions_about, start_end_probabilities
from fabir_tf.reading.reader import Reader, validate_single

Result = dict[str, Any] | list[dict[str, Any]]

_OLD_NAMES = {"topk": "top_k"}
_LONGEST, _OVERLAP = 384, 128
_EXPECTED = (
    "expected question= and context=, two texts, a dictionary with question and context, or a list of such dictionaries"
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the pipeline can be told; lengths count the reader's tokens, which are word pieces with BERT.

    Attributes:
        top_k: most answers to a question.
        handle_impossible_answer: whether "no answer", an empty text, is one of the answers.
        max_answer_len: longest answer.
        max_seq_len: longest sequence of question and window of the context; None for 384, or what the reader can read.
        max_question_len: longest question; a longer one is an error.
        doc_stride: tokens that neighboring windows share; None for 128, or half of a short sequence.
        align_to_words: whether answers begin and end with a word where tokens are parts of words.

    Raises:
        UserError: a value is out of its range.
    """

    top_k: int = 1
    handle_impossible_answer: bool = False
    max_answer_len: int = 15
    max_seq_len: int | None = None
    max_question_len: int = 64
    doc_stride: int | None = None
    align_to_words: bool = True

    def __post_init__(self):
        for name in ("handle_impossible_answer", "align_to_words"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(f"{name} must be true or false, found {quoted(getattr(self, name))}")
        for name, least in {
            "top_k": 1,
            "max_answer_len": 1,
            "max_question_len": 1,
            "max_seq_len": 1,
            "doc_stride": 0,
        }.items():
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:
                object.__setattr__(self, name, whole_number(name, value, least))

    def replace(self, changes: Mapping[str, Any]) -> "Settings":
        """A copy with some values changed; None changes nothing.

        Raises:
            UserError: a name is none of the settings, or a value is out of its range.
        """
        known = [field.name for field in dataclasses.fields(self)]
        given = {_OLD_NAMES.get(name, name): value for name, value in changes.items() if value is not None}
        for name in given:
            if name not in known:
                raise UserError(f"question_answering: found {name}=, expected one of {', '.join(known)}")
        return dataclasses.replace(self, **given)


class _Lengths(NamedTuple):
    """How texts are cut: the longest sequence, and the tokens that neighboring windows share."""

    sequence: int
    overlap: int


class QuestionAnsweringPipeline:
    """Answers questions in the form that transformers 4 had.

    Args:
        reader: a trained reader.
        settings: used where a call has none of its own.

    Call arguments:
        *args: a question and its context; or one or several dictionaries with the keys `question` and `context`, or a
            list of them.
        question, context: the texts by name: one question and its context, several questions about one context, or
            several questions, each with its own.
        data: the dictionaries by name.
        **settings: those of `Settings`; `topk` is another name of `top_k`.

    Returns:
        For one question a dictionary with `score`, `start`, `end` and `answer`, or where there are several answers a
        list of them, best first; for several questions a list of these. The answer is empty, with the score 0, where
        the context or the question has no words.

    Raises:
        UserError: an argument is none of these, or a text is too long.
    """

    def __init__(self, reader: Reader, settings: Settings):
        self.reader = reader
        self.settings = settings

    def __call__(self, *args, question=None, context=None, data=None, **settings) -> Any:
        chosen = self.settings.replace(settings)
        pairs = _pairs(args, question, context, data)
        if not pairs:
            return []
        results = self._answer([pair[0] for pair in pairs], [pair[1] for pair in pairs], chosen)
        return results[0] if len(results) == 1 else results

    def _answer(self, questions: list[str], contexts: list[str], settings: Settings) -> list[Result]:
        lengths = self._lengths(settings)
        if settings.handle_impossible_answer and not self.reader.config.null_head:
            raise UserError("handle_impossible_answer=True: this reader has no null head and always answers")
        processor = self.reader.processor.with_limits(lengths.sequence, settings.max_question_len)
        tokenized = processor.tokenize(questions_about(questions, contexts), log=lambda line: None)
        examples = _windows(processor, tokenized, lengths, settings)
        found: list[list[dict[str, Any]]] = [[] for _ in questions]
        nulls = np.ones(len(questions))
        for example, probabilities in self._probabilities(processor, tokenized, examples):
            question, length = int(examples.questions[example]), int(examples.lengths[example])
            window = _Window.of(processor, tokenized, question, int(examples.offsets[example]), length)
            nulls[question] = min(nulls[question], probabilities[:, length:].prod())
            _add_answers(found[question], window, probabilities[:, :length], settings)
        return [_result(answers, float(null), settings) for answers, null in zip(found, nulls, strict=True)]

    def _lengths(self, settings: Settings) -> _Lengths:
        longest = self.reader.config.longest_sequence
        sequence = min(longest, _LONGEST) if settings.max_seq_len is None else settings.max_seq_len
        if sequence > longest:
            raise UserError(f"max_seq_len={sequence}: this reader reads at most {longest} tokens at once")
        overlap = min(sequence // 2, _OVERLAP) if settings.doc_stride is None else settings.doc_stride
        return _Lengths(sequence, overlap)

    def _probabilities(
        self, processor: TextProcessor, tokenized: TokenizedDataset, examples: Examples
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Each window's number and its probabilities `(2, length)`, or `(2, length + 1)` with "no answer" last.

        Window by window, so that answers of the same text are found in the same order each time.
        """
        features = processor.features(tokenized, examples)
        scale = 1.0 / self.reader.temperature
        found: dict[int, np.ndarray] = {}
        for batch, logits in self.reader.window_logits(features, examples.lengths):
            for row, example in enumerate(batch.tolist()):
                length = examples.lengths[example]
                null = None if logits.null is None else logits.null[row]
                parts = (logits.start[row, :length], logits.end[row, :length], null)
                found[example] = start_end_probabilities(*parts, scale)
        yield from sorted(found.items())


def question_answering(model: str | os.PathLike | Reader = "fabir-base", **settings) -> QuestionAnsweringPipeline:
    """A drop-in for `pipeline("question-answering")` of transformers 4.

    Args:
        model: a reader that comes with the package, the folder of a run, the folder of a BERT or DistilBERT for
            question answering in Hugging Face's layout, or a reader.
        **settings: those of `Settings`, for calls that have none of their own.

    Returns:
        A function of questions and contexts; see `QuestionAnsweringPipeline`.

    Raises:
        UserError: there is no such reader, it is an ensemble, or a setting is unknown or out of its range.

    Example:
        >>> qa = fabir_tf.question_answering("fabir-base")
        >>> qa(question="Who built the mill?", context="The mill was built by Anna Keld.")["answer"]
        'Anna Keld'
    """
    chosen = Settings().replace(settings)
    reader = Reader.load(model) if isinstance(model, str | os.PathLike) else model
    return QuestionAnsweringPipeline(validate_single(reader), chosen)


# === What is asked ===


def _pairs(args: Sequence[Any], question: Any, context: Any, data: Any) -> list[tuple[str, str]]:
    """The questions and their contexts, from any form of call."""
    is_named = question is not None or context is not None
    forms = bool(args) + is_named + (data is not None)
    if forms != 1:
        raise UserError(f"question_answering: found {'texts in two forms' if forms else 'no texts'}, {_EXPECTED}")
    if is_named:
        return _named_pairs(question, context)
    if len(args) == 2 and all(isinstance(text, str) for text in args):
        return [_checked(*args)]
    given = data if not args else args[0] if len(args) == 1 else args
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    return [_pair(item) for item in ([given] if isinstance(given, Mapping) else given)]


def _named_pairs(question: Any, context: Any) -> list[tuple[str, str]]:
    if isinstance(question, str):
        return [_checked(question, as_text("context", context))]
    questions = as_texts("question", question)
    contexts = [context] * len(questions) if isinstance(context, str) else as_texts("context", context)
    if len(contexts) != len(questions):
        raise UserError(f"expected as many contexts as questions, or one, found {len(contexts)} and {len(questions)}")
    return [_checked(*pair) for pair in zip(questions, contexts, strict=True)]


def _pair(item: Any) -> tuple[str, str]:
    """Question and context of a dictionary, or of an object like transformers' SquadExample."""
    if isinstance(item, Mapping) and {"question", "context"} <= item.keys():
        return _checked(item["question"], item["context"])
    example = [getattr(item, name, None) for name in ("question_text", "context_text")]
    if None not in example:
        return _checked(*example)
    raise UserError(f"question_answering: found {quoted(item)}, {_EXPECTED}")


def _checked(question: Any, context: Any) -> tuple[str, str]:
    pair = as_text("question", question), as_text("context", context)
    for name, text in zip(("question", "context"), pair, strict=True):
        if not text:
            raise UserError(f"{name}: found an empty text, expected one with words")
    return pair


# === What is read ===


def _windows(processor: TextProcessor, tokenized: TokenizedDataset, lengths: _Lengths, settings: Settings) -> Examples:
    """The windows of all questions; the last of a context ends with it, and may be short."""
    asked = tokenized.question_lengths
    for number in np.flatnonzero(asked > settings.max_question_len)[:1]:
        raise UserError(
            f"question {quoted(tokenized.data.questions[number].text)}: found {asked[number]} tokens, expected at most "
            f"{settings.max_question_len} (max_question_len)"
        )
    sizes = np.minimum(processor.window_sizes(asked, lengths.sequence), lengths.sequence - asked)
    for number in np.flatnonzero(sizes <= lengths.overlap)[:1]:
        raise UserError(
            f"doc_stride={lengths.overlap}: of max_seq_len={lengths.sequence} the question "
            f"{quoted(tokenized.data.questions[number].text)} leaves windows of {max(sizes[number], 0)} tokens, "
            "expected more than they share"
        )
    contexts = np.where(asked > 0, tokenized.passage_lengths[tokenized.question_passages], 0)
    offsets = [
        np.arange(0, max(length - lengths.overlap, min(length, 1)), size - lengths.overlap)
        for length, size in zip(contexts.tolist(), sizes.tolist(), strict=True)
    ]
    questions = np.repeat(np.arange(len(asked)), [len(part) for part in offsets])
    begins = np.concatenate([*offsets, np.zeros(0, np.int64)]).astype(np.int64)
    return Examples(questions, begins, np.minimum(sizes[questions], contexts[questions] - begins))


class _Window(NamedTuple):
    """A window of a context: its text, and for each of its tokens where it and its word begin and end in the text."""

    context: str
    starts: np.ndarray
    ends: np.ndarray
    word_starts: np.ndarray
    word_ends: np.ndarray

    @classmethod
    def of(
        cls, processor: TextProcessor, tokenized: TokenizedDataset, question: int, offset: int, length: int
    ) -> "_Window":
        passage = int(tokenized.question_passages[question])
        tokens = tokenized.texts.tokens_of(passage)
        part = slice(offset, offset + length)
        starts, ends = np.array(tokens.starts[part]), np.array(tokens.ends[part])
        # Of a word that the window cuts, the part inside it counts.
        begins = np.array([not processor.continues_word(token) for token in tokens.words[part]])
        begins[0] = True
        word = np.cumsum(begins) - 1
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], length) - 1
        return cls(tokenized.data.passages[passage], starts, ends, starts[firsts][word], ends[lasts][word])


# === What is answered ===


def _add_answers(answers: list[dict[str, Any]], window: _Window, probabilities: np.ndarray, settings: Settings) -> None:
    """Adds the likeliest spans of a window; those of the same text, whatever its case, are one answer."""
    starts, ends = (window.word_starts, window.word_ends) if settings.align_to_words else (window.starts, window.ends)
    # Spans that become one when they are aligned must not leave too few.
    count = 2 * settings.top_k + 10 if settings.align_to_words else settings.top_k
    for first, last, score in _best_spans(probabilities[0], probabilities[1], settings.max_answer_len, count):
        start, end = int(starts[first]), int(ends[last])
        text = window.context[start:end]
        same = next((answer for answer in answers if answer["answer"].lower() == text.lower()), None)
        if same:
            same["score"] += score
        else:
            answers.append({"score": score, "start": start, "end": end, "answer": text})


def _best_spans(start: np.ndarray, end: np.ndarray, longest: int, count: int) -> list[tuple[int, int, float]]:
    """First and last token and score of the likeliest spans, best first."""
    scores = np.triu(np.tril(start[:, None] * end[None, :], longest - 1)).ravel()
    best = np.argpartition(-scores, count)[:count] if count < len(scores) else np.arange(len(scores))
    best = best[np.argsort(-scores[best], kind="stable")]
    firsts, lasts = np.divmod(best, len(start))
    is_span = (lasts >= firsts) & (lasts < firsts + longest)
    spans = zip(firsts[is_span].tolist(), lasts[is_span].tolist(), scores[best[is_span]].tolist(), strict=True)
    return list(spans)


def _result(answers: list[dict[str, Any]], null: float, settings: Settings) -> Result:
    if settings.handle_impossible_answer or not answers:
        # Texts without a token have no other.
        score = null if settings.handle_impossible_answer else 0.0
        answers = [*answers, {"score": score, "start": 0, "end": 0, "answer": ""}]
    best = sorted(answers, key=lambda answer: answer["score"], reverse=True)[: settings.top_k]
    return best[0] if len(best) == 1 else best
