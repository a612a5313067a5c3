"""Answers questions from whole documents: finds the paragraphs that may answer, and reads those."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fabir_tf.pipelines.arguments import whole_number
from fabir_tf.pipelines.documents.collection import Collection, Searched
from fabir_tf.pipelines.documents.documents import PDF, PLAIN, Document
from fabir_tf.pipelines.documents.folder import Skipped, format_of, read_documents
from fabir_tf.pipelines.documents.index import Found
from fabir_tf.pipelines.documents.paragraphs import Paragraph
from fabir_tf.pipelines.documents.sharded_index import open_index
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.pipelines.text.sentences import sentence_spans
from fabir_tf.reading.answers import Answer, QuestionAnswerer, Span, as_text, as_texts, validate_n_best, validate_reader
from fabir_tf.reading.no_answer import UNREAD_SCORE

Source = str | int
Texts = str | Iterable[str] | Mapping[str, str]

RANK_WEIGHT = 20.0
"""What `rank_score` counts against the logits of an answer of fabir-base; see `DocumentReader`."""

RANK_MIDDLE = 0.2
"""The `rank_score` that says nothing about whether a paragraph answers."""

NONE_PER_LOGIT = 0.24
"""What a logit of an answer of fabir-base counts in the log odds that there is none: the scale of its calibration."""

MOST_PARAGRAPHS = 1000
"""Most paragraphs that can be read for a question."""


@dataclass(frozen=True)
class _Place:
    """Where in the documents a span stands.

    Attributes:
        source: of the document: the name in a mapping or a folder, the number in a sequence; None if there is no span.
        heading: the path of headings above the paragraph, such as `Install > From source`; "" where there is none.
        paragraph: the paragraph's place in the document, from 0.
        page: of a PDF, from 1; 0 elsewhere.
        sentence: the sentence, item or heading around the span.
        start_in_sentence: where the span begins in it, in Unicode code points.
        rank_score: how well the paragraph fits the question's words, from 0, where it shares none, to 1.
    """

    source: Source | None = None
    heading: str = ""
    paragraph: int = 0
    page: int = 0
    sentence: str = ""
    start_in_sentence: int = 0
    rank_score: float = 0.0

    def place(self) -> dict[str, Any]:
        """The place as JSON values."""
        return {name: getattr(self, name) for name in _Place.__dataclass_fields__}


@dataclass(frozen=True)
class DocumentSpan(_Place, Span):
    """The best span of a paragraph, and where it stands.

    Attributes:
        text: what is shown, without markup.
        start, end: offsets in the original of its first and behind its last character, in Unicode code points.
        score: `Answer.score` of the paragraph.
    """

    score: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The span as JSON values."""
        return super().to_dict() | {"score": self.score} | self.place()


@dataclass(frozen=True)
class DocumentAnswer(_Place, Answer):
    """The best answer of all paragraphs that were read, and where it stands; or that none of them answers.

    Attributes:
        text: what is shown, without markup.
        start, end: offsets in the original of its first and behind its last character, in Unicode code points.
        probability: as the reader gives it for the paragraph.
        no_answer_probability: that the paragraph does not answer, by the reader and the rank; if none answers, the
            smallest of all.
        n_best: the best span of each paragraph that was read, as many as were asked for.
        score: `Answer.score` of the paragraph.
    """

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values."""
        return super().to_dict() | self.place()


NO_DOCUMENT_ANSWER = DocumentAnswer("", 0, 0, 0.0, no_answer_probability=1.0, is_answer=False, score=UNREAD_SCORE)
"""The answer where nothing can be read: no paragraph shares a word with the question, or there is none."""


@dataclass(frozen=True)
class _Read:
    """A paragraph and what the reader says of it.

    Attributes:
        paragraph: as the document has it.
        rank_score: how well it fits the question's words.
        answer: of the reader.
        passage: what the reader read: the paragraph, or the same with its heading.
        source: of the document.
    """

    paragraph: Paragraph
    rank_score: float
    answer: Answer
    passage: Paragraph
    source: Source

    def span(self) -> DocumentSpan:
        """Its best span, with its place."""
        best = self.answer.n_best[0]
        start, end = best.start, best.end
        border = len(self.passage.text) - len(self.paragraph.text)
        if start < border < end:
            # What runs from the heading into the text is no phrase of either.
            start = border
        original = self.passage.span(start, end)
        sentence, start_in_sentence = sentence_around(self.passage.text, start, end)
        return DocumentSpan(
            self.passage.text[start:end],
            *original,
            best.probability,
            source=self.source,
            heading=self.paragraph.heading,
            paragraph=self.paragraph.number,
            page=self.paragraph.page,
            sentence=sentence,
            start_in_sentence=start_in_sentence,
            rank_score=self.rank_score,
            score=self.answer.score,
        )


class DocumentReader:
    """Answers questions from documents of any length.

    It cuts them into paragraphs, ranks these by the words that they share with the question (BM25), reads the best
    ones, and takes the answer of the paragraph with the highest sum

        s * score + rank_weight * rank_score

    of `Answer.score` and BM25. `s` is 1 for a reader without a calibration of "no answer"; one with logits of another
    size is brought to fabir-base's by the scale that was fitted, as a share of fabir-base's 0.24. The rank also tells
    whether a paragraph answers at all:

        log odds of no answer = those of the reader - 0.24 rank_weight (rank_score - 0.2)

    If the probability is above the reader's threshold for every paragraph, the reader abstains. Where there are no more
    paragraphs than it reads, it reads them all. The constants were chosen on training articles, with fabir-base
    (`benchmarks/RESULTS.md`).

    Args:
        reader: a `Reader`, or anything else that answers questions.
        paragraphs: how many are read for each question.
        rank_weight: what the rank counts against the logits of an answer; 0 takes the answer that the reader is surest
            of, and leaves it to the reader whether there is one.
        with_heading: whether a paragraph is read with the heading above it.
        searched: what to answer from where no texts are given: a `Collection`, a `DocumentIndex` or a `ShardedIndex`.

    Raises:
        UserError: an argument is out of its range.

    Example:
        >>> reader = fabir_tf.DocumentReader(fabir_tf.Reader.load("fabir-base"))
        >>> reader.answer("Who built the mill?", {"mill.md": "# Mill\\n\\nIt was built by *Anna Keld*."}).text
        'Anna Keld'
    """

    def __init__(
        self,
        reader: QuestionAnswerer,
        paragraphs: int = 5,
        rank_weight: float = RANK_WEIGHT,
        with_heading: bool = True,
        searched: Searched | None = None,
    ):
        _validate_weight(rank_weight)
        validate_reader("reader", reader)
        self.reader = reader
        self.paragraphs = whole_number("paragraphs", paragraphs, 1, MOST_PARAGRAPHS)
        self.rank_weight = rank_weight
        self.score_scale = score_scale(reader)
        self.with_heading = with_heading
        self.searched = searched

    @classmethod
    def from_folder(
        cls,
        path: str | os.PathLike,
        reader: QuestionAnswerer,
        skipped: Skipped | None = None,
        **settings: Any,
    ) -> "DocumentReader":
        """Reads documents once, to answer any number of questions from them.

        Args:
            path: a folder, a file or JSON lines, as `read_documents` reads them.
            reader: what reads the paragraphs.
            skipped: takes the sentence about a document that cannot be read, which is then left out; None raises it.
            **settings: other arguments of the class.

        Raises:
            UserError: nothing is there, or a document cannot be read and `skipped` is None.
        """
        return cls(reader, searched=Collection(read_documents(path, skipped), skipped=skipped), **settings)

    @classmethod
    def from_index(cls, path: str | os.PathLike, reader: QuestionAnswerer, **settings: Any) -> "DocumentReader":
        """Answers from an index, which `fabir-index`, `DocumentIndex` or `ShardedIndex` made.

        Args:
            path: its file, or the folder of its shards.
            reader: what reads the paragraphs.
            **settings: other arguments of the class.

        Raises:
            UserError: there is no index, or it is damaged.
        """
        return cls(reader, searched=open_index(path), **settings)

    def answer(self, question: str, texts: Texts | None = None, n_best: int = 1) -> DocumentAnswer:
        """Answers one question.

        Args:
            question: any text.
            texts: what to answer from: a text, a sequence of texts (the source is its number) or a mapping from names
                to texts (the source is its name, whose ending, such as `.md`, tells its format). None takes what the
                reader was made with.
            n_best: paragraphs whose best span is returned in `DocumentAnswer.n_best`.

        Returns:
            The answer. If the reader abstains from every paragraph, or no paragraph shares a word with the question, it
            is no answer.

        Raises:
            UserError: a text is no string, `n_best` is out of its range, or there is nothing to answer from.
        """
        return self.answer_batch([as_text("question", question)], texts, n_best)[0]

    def answer_batch(
        self, questions: Iterable[str], texts: Texts | None = None, n_best: int = 1
    ) -> list[DocumentAnswer]:
        """Answers many questions, all from the same texts.

        Args:
            questions: texts.
            texts, n_best: as for `answer`.

        Returns:
            An answer per question, in order.

        Raises:
            UserError: as for `answer`; nothing has been read then.
        """
        n_best = validate_n_best(n_best)
        asked = as_texts("question", questions)
        searched = self._searched(texts)
        found = [self._find(searched, question) for question in asked]
        as_read = [[self._with_heading(paragraph) for paragraph, _ in part] for part in found]
        passages = [paragraph.text for part in as_read for paragraph in part]
        repeated = [question for question, part in zip(asked, found, strict=True) for _ in part]
        answers = iter(self.reader.answer_batch(repeated, passages))
        is_numbered = texts is not None and not isinstance(texts, Mapping)
        results = []
        for part, read_passages in zip(found, as_read, strict=True):
            read = [
                _Read(paragraph, score, next(answers), passage, int(passage.source) if is_numbered else passage.source)
                for (paragraph, score), passage in zip(part, read_passages, strict=True)
            ]
            results.append(self._best(read, n_best))
        return results

    def _searched(self, texts: Texts | None) -> Searched:
        if texts is not None:
            return Collection(documents_of(texts))
        if self.searched is None:
            raise UserError("texts is missing: expected texts to answer from, or a reader made with from_folder")
        return self.searched

    def _find(self, searched: Searched, question: str) -> list[Found]:
        found = searched.search(question, self.paragraphs)
        if len(found) == self.paragraphs or len(searched) > self.paragraphs:
            return found
        places = {(paragraph.source, paragraph.number) for paragraph, _ in found}
        others = [one for one in searched.first(self.paragraphs) if (one.source, one.number) not in places]
        return [*found, *(Found(paragraph, 0.0) for paragraph in others)]

    def _with_heading(self, paragraph: Paragraph) -> Paragraph:
        return paragraph.with_heading() if self.with_heading else paragraph

    def _best(self, read: list[_Read], n_best: int) -> DocumentAnswer:
        """The answer of several paragraphs, the best ranked first."""
        # Texts that cannot be read have no span.
        read = [one for one in read if one.answer.n_best]
        if not read:
            return NO_DOCUMENT_ANSWER
        none = [self._no_answer(one) for one in read]
        threshold = self.reader.no_answer_threshold
        # Of equal ones the better ranked one is the first; those that answer stand before the others.
        order = sorted(
            range(len(read)),
            key=lambda row: (
                threshold is not None and none[row] > threshold,
                -(self.score_scale * read[row].answer.score + self.rank_weight * read[row].rank_score),
            ),
        )
        spans = tuple(read[row].span() for row in order[:n_best])
        first, best = spans[0], read[order[0]].answer
        if threshold is not None and min(none) > threshold:
            score = max(one.answer.score for one in read)
            return DocumentAnswer("", 0, 0, min(none), min(none), is_answer=False, n_best=spans, score=score)
        return DocumentAnswer(
            *(first.text, first.start, first.end, first.probability, none[order[0]]),
            n_best=spans,
            score=best.score,
            **first.place(),
        )

    def _no_answer(self, one: _Read) -> float:
        """How probable it is that a paragraph does not answer."""
        none = one.answer.no_answer_probability
        if none in (0.0, 1.0):
            return none
        shift = NONE_PER_LOGIT * self.rank_weight * (one.rank_score - RANK_MIDDLE)
        odds = math.log(none) - math.log1p(-none) - shift
        # The form whose power is at most 1 does not overflow.
        power = math.exp(-abs(odds))
        return (1.0 if odds > 0 else power) / (1.0 + power)


def documents_of(texts: Texts) -> list[Document]:
    """The documents that texts stand for; see `DocumentReader.answer`.

    Raises:
        UserError: one is no text.
    """
    if isinstance(texts, Mapping):
        return [_named(name, text) for name, text in texts.items()]
    numbered = [texts] if isinstance(texts, str) else as_texts("text", texts)
    return [Document(str(number), text) for number, text in enumerate(numbered)]


def sentence_around(text: str, start: int, end: int) -> tuple[str, int]:
    """The sentences that hold a span, within the lines that hold it.

    Args:
        text: a paragraph.
        start, end: the span, which neither begins nor ends with white space.

    Returns:
        The sentences, and where the span begins in them.
    """
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    line = text[first : last if last >= 0 else len(text)]
    spans = [part for part in sentence_spans(line) if part[0] < end - first and part[1] > start - first]
    begin, finish = (spans[0][0], spans[-1][1]) if spans else (0, len(line))
    begin += len(line[begin:finish]) - len(line[begin:finish].lstrip())
    return line[begin:finish].rstrip(), start - first - begin


def _named(name: Any, text: Any) -> Document:
    name = as_text("name of a text", name)
    format = format_of(name)
    # The text of a PDF has been extracted from it.
    return Document(name, as_text(f"text {quoted(name)}", text), PLAIN if format == PDF else format)


def score_scale(reader: QuestionAnswerer) -> float:
    """What a reader's logits are multiplied by, to compare with `RANK_WEIGHT`."""
    none = reader.calibration.no_answer if reader.calibration else None
    return none.scale / NONE_PER_LOGIT if none and none.scale else 1.0


def _validate_weight(rank_weight: Any) -> None:
    is_number = isinstance(rank_weight, int | float) and not isinstance(rank_weight, bool)
    if not is_number or not 0 <= rank_weight < float("inf"):
        raise UserError(f"rank_weight must be a number from 0, found {quoted(rank_weight)}")
