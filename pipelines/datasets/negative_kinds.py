"""The kinds of questions without an answer that can be made of questions with one.

Each kind is a class that is made of a `Source` and has one method, `make`. It returns what a question becomes, or why
nothing can be made of it.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.datasets.squad_metrics import normalize_answer
from fabir_tf.pipelines.datasets.titles import article_keys
from fabir_tf.pipelines.text.mentions import Mention, MentionFinder
from fabir_tf.pipelines.text.name_similarity import NameSimilarity
from fabir_tf.pipelines.text.sentences import sentence_spans

BEST = 3
"""One of so many of the best is chosen."""

FEWEST_PERCENT = 25
"""The smallest squared cosine of two names that may be exchanged, in percent: a cosine of 0.5."""

_WORD = re.compile(r"\w+")
_SAME_STEM = 3
T = TypeVar("T")


@dataclass(frozen=True)
class Negative:
    """A question that its passage does not answer.

    Attributes:
        question: its text.
        passage: the index of the passage that it is about, or from which its passage is made.
        text: the text of its passage.
    """

    question: str
    passage: int
    text: str


class NegativeKind(Protocol):
    """Makes one kind of negatives."""

    def make(self, question: Question, chance: random.Random) -> Negative | str:
        """Makes a negative.

        Args:
            question: an answerable question.
            chance: decides what is not decided otherwise.

        Returns:
            The negative, or why there is none, in words.
        """
        ...


class Source:
    """Answerable questions, and what all kinds need to know about them.

    Args:
        data: the dataset; its other questions are only known as asked.
    """

    def __init__(self, data: SquadData):
        self.data = data
        self.questions = [question for question in data.questions if question.answers]
        self.articles = article_keys(data)
        self.words = [frozenset(words_of(passage)) for passage in data.passages]
        passages_with = Counter(word for words in self.words for word in words)
        # Whole numbers, because a logarithm may differ between machines.
        self.weight = {word: (len(self.words) // count).bit_length() for word, count in passages_with.items()}
        self._asked = {self._as_asked(question.text, data.passages[question.passage]) for question in data.questions}
        self.normalized = cache(normalize_answer)
        self.sentences = cache(sentence_spans)
        self.sentence_words = cache(self._words_of_sentences)

    def holds_answer(self, question: Question, text: str) -> bool:
        """Whether a text holds one of the question's answers, after normalization, or all words of one."""
        normalized, words = self.normalized(text), set(words_of(text))
        return any(
            normalize_answer(answer.text) in normalized or words.issuperset(words_of(answer.text))
            for answer in question.answers
        )

    def is_asked(self, question: str, passage: str) -> bool:
        """Whether the dataset already has a question with this text about this passage."""
        return self._as_asked(question, passage) in self._asked

    def answer_sentences(self, question: Question) -> list[bool]:
        """Whether each sentence of a question's passage holds a part of one of its answers."""
        spans = self.sentences(self.data.passages[question.passage])
        places = [(answer.start, answer.start + len(answer.text)) for answer in question.answers]
        return [any(first < end and start < last for first, last in places) for start, end in spans]

    def _words_of_sentences(self, passage: str) -> list[frozenset[str]]:
        return [frozenset(words_of(passage[start:end])) for start, end in self.sentences(passage)]

    def _as_asked(self, question: str, passage: str) -> tuple[str, str]:
        return normalize_answer(question), passage


class OtherPassage:
    """Asks the question about another passage of its article, one of those that share most of its rare words."""

    def __init__(self, source: Source):
        self._source = source
        self._members: dict[str, list[int]] = {}
        self._places: dict[tuple[str, str], list[int]] = {}
        for index, article in enumerate(source.articles):
            if article:
                self._members.setdefault(article, []).append(index)
                for word in source.words[index]:
                    self._places.setdefault((article, word), []).append(index)

    def make(self, question: Question, chance: random.Random) -> Negative | str:
        """The same question about another passage; see `NegativeKind`."""
        source = self._source
        article, passages = source.articles[question.passage], source.data.passages
        if not article:
            return "the title stands for no article"
        own = passages[question.passage]
        others = [index for index in self._members[article] if passages[index] != own]
        if not others:
            return "no other passage of the article"
        score: Counter[int] = Counter()
        for word in set(words_of(question.text)):
            for index in self._places.get((article, word), ()):
                score[index] += source.weight[word]
        found = _first(
            BEST,
            sorted(others, key=lambda index: (-score[index], index)),
            lambda index: self._fits(question, passages[index]),
        )
        if not found:
            return "every other passage holds the answer"
        index = _chosen(found, chance)
        return Negative(question.text, index, passages[index])

    def _fits(self, question: Question, passage: str) -> bool:
        return not self._source.holds_answer(question, passage) and not self._source.is_asked(question.text, passage)


class WithoutSentence:
    """Takes the sentences with the answer out of the passage."""

    def __init__(self, source: Source):
        self._source = source

    def make(self, question: Question, chance: random.Random) -> Negative | str:
        """The same question about the rest of its passage; see `NegativeKind`."""
        passage = self._source.data.passages[question.passage]
        spans, holds = self._source.sentences(passage), self._source.answer_sentences(question)
        if not any(holds):
            return "the answer has no place in the passage"
        left = "".join(passage[start:end] for (start, end), is_cut in zip(spans, holds, strict=True) if not is_cut)
        if not left.strip():
            return "no other sentence"
        if self._source.holds_answer(question, left):
            return "the rest of the passage holds the answer"
        return Negative(question.text, question.passage, left.strip())


class ExchangedName:
    """Exchanges a number, date or name of the question for another one of its passage, or else of its article."""

    def __init__(self, source: Source):
        self._source = source
        data = source.data
        self._finder = MentionFinder([*dict.fromkeys(data.passages), *(question.text for question in source.questions)])
        self._similarity = NameSimilarity()
        self._of_passage: list[dict[str, list[str]]] = []
        self._of_article: dict[str, dict[str, list[str]]] = {}
        # Words that stand beside each other in some name, which may be two names of one thing.
        self._beside: dict[str, set[str]] = {}
        for passage, article in zip(data.passages, source.articles, strict=True):
            mentions = self._finder.find(passage)
            self._of_passage.append(_by_kind(mentions))
            for kind, texts in self._of_passage[-1].items() if article else ():
                self._of_article.setdefault(article, {}).setdefault(kind, []).extend(texts)
            for mention in mentions:
                words = words_of(mention.text)
                for word in words if len(words) > 1 else ():
                    self._beside.setdefault(word, set()).update(words)
        for kinds in self._of_article.values():
            kinds.update({kind: list(dict.fromkeys(texts)) for kind, texts in kinds.items()})

    def make(self, question: Question, chance: random.Random) -> Negative | str:
        """A question about something else of its kind, with the same passage; see `NegativeKind`."""
        source = self._source
        mentions = self._finder.find(question.text)
        if not mentions:
            return "no number or name"
        # Another name for what the passage speaks of would not make the question another one.
        mentions = [
            mention for mention in mentions if source.words[question.passage].issuperset(words_of(mention.text))
        ]
        if not mentions:
            return "no number or name that stands in the passage"
        taken = self._taken_words(question)
        mentions.sort(key=lambda mention: (chance.random(), mention.start))
        for kinds in (self._of_passage[question.passage], self._of_article.get(source.articles[question.passage], {})):
            for mention in mentions:
                found = self._replacements(question, mention, kinds.get(mention.kind, ()), taken)
                if found:
                    text = _exchanged(question.text, mention, _chosen(found, chance))
                    return Negative(text, question.passage, source.data.passages[question.passage])
        return "no other of its kind"

    def _taken_words(self, question: Question) -> set[str]:
        """Words that must not be new in the question: those that it has, and those near its answer."""
        passage = self._source.data.passages[question.passage]
        taken = set(words_of(question.text))
        holds = self._source.answer_sentences(question)
        for (start, end), words, holds_place in zip(
            self._source.sentences(passage), self._source.sentence_words(passage), holds, strict=True
        ):
            if holds_place or self._source.holds_answer(question, passage[start:end]):
                taken |= words
        return taken

    def _replacements(
        self, question: Question, mention: Mention, candidates: Iterable[str], taken: set[str]
    ) -> list[str]:
        """The texts that a mention may be exchanged for; of names, those that are most similar to it."""
        passage = self._source.data.passages[question.passage]
        fitting = [text for text in candidates if taken.isdisjoint(words_of(text))]
        if mention.is_name:
            percents = {text: self._similarity.percent(mention.text, text) for text in fitting}
            fitting = [text for text in fitting if percents[text] >= FEWEST_PERCENT]
            fitting.sort(key=lambda text: (-percents[text], text))
        return _first(
            BEST if mention.is_name else len(fitting),
            fitting,
            lambda text: (
                not (mention.is_name and self._may_be_same(mention.text, text))
                and not self._is_told(question, mention, text)
                and not self._source.is_asked(_exchanged(question.text, mention, text), passage)
            ),
        )

    def _is_told(self, question: Question, mention: Mention, text: str) -> bool:
        """Whether a sentence of the passage about a replacement has half of what the question asks, by rare words."""
        source = self._source
        asked = set(words_of(question.text)) - set(words_of(mention.text))
        asked &= source.words[question.passage]
        total = sum(source.weight[word] for word in asked)
        new = words_of(text)
        return any(
            2 * sum(source.weight[word] for word in asked & words) >= total
            for words in source.sentence_words(source.data.passages[question.passage])
            if words.issuperset(new)
        )

    def _may_be_same(self, name: str, other: str) -> bool:
        """Whether two names may stand for one thing, because they share the beginning of a word or stand together."""
        words, others = words_of(name), words_of(other)
        stems = {word[:_SAME_STEM] for word in words}
        return any(word[:_SAME_STEM] in stems for word in others) or any(
            not self._beside.get(word, set()).isdisjoint(others) for word in words
        )


KINDS: dict[str, Callable[[Source], NegativeKind]] = {
    "article": OtherPassage,
    "sentence": WithoutSentence,
    "exchange": ExchangedName,
}
"""By name."""


def words_of(text: str) -> list[str]:
    """The words and numbers of a text in lower case."""
    return _WORD.findall(text.lower())


def _by_kind(mentions: Iterable[Mention]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}
    for mention in mentions:
        found.setdefault(mention.kind, {})[mention.text] = None
    return {kind: list(texts) for kind, texts in found.items()}


def _exchanged(text: str, mention: Mention, other: str) -> str:
    return text[: mention.start] + other + text[mention.end :]


def _first(count: int, values: Iterable[T], fits: Callable[[T], bool]) -> list[T]:
    """The first values that fit."""
    found: list[T] = []
    for value in values:
        if len(found) == count:
            break
        if fits(value):
            found.append(value)
    return found


def _chosen(values: Sequence[T], chance: random.Random) -> T:
    # Unlike random.choice, this is the same in every version of Python.
    return values[int(chance.random() * len(values))]
