"""Finds numbers, years, months and names in English texts, without a trained model.

A name is a run of words in capitals, one of which the texts have in capitals, inside of sentences, more often than in
small letters. The first word of a sentence belongs to a name only if it is such a word.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fabir_tf.pipelines.text.abbreviations import ABBREVIATIONS, LETTERS_WITH_PERIODS

_TOKEN = re.compile(
    # Abbreviations with their period, numbers, words, and other characters.
    rf"(?=[A-Z])(?:{LETTERS_WITH_PERIODS}|[A-Z]|{'|'.join(map(str.capitalize, sorted(ABBREVIATIONS)))})\.(?!\w)"
    r"|\d+(?:[.,]\d+)*(?![\w-])|[^\W_]+(?:[-.'’][^\W_]+)*|[^\w\s]"
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_POSSESSIVE = re.compile(r"['’]s?\Z")
_FIRST_PERSON = re.compile(r"I(?:['’]\w+)?")
_SMALL_PART = re.compile(r"-[^\W\d_A-Z]")
_ADJECTIVE = re.compile(r"(?:ish|ese|[aei]ans?|French|Dutch|Greek|Swiss|Thai|Arab)\Z")
_SENTENCE_ENDS = frozenset('.!?:;"“”()')
_CURRENCIES = frozenset("$£€¥")
# What belongs to a name or number that it stands beside, as in R&B and 3:2.
_GLUE = frozenset("&@/+*_-–⁄:")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MONTHS = _set("January February March April May June July August September October November December")
_DAYS = _set("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
# Small words that may stand inside of a name.
_INSIDE = _set("of the a de la von van der du del di da")
_DETERMINERS = _set("the a an")
# Behind these, another number may say the same: what holds since 1995 also holds since 2007.
_OPEN_ENDED = _set("since until till before after by over under than least most about around approximately nearly")
_PREPOSITIONS = _set("of in on at by for from to with into over under near during between among against through about")
_FUNCTION_WORDS = (
    _PREPOSITIONS
    | _DETERMINERS
    | _set("this that these those it he she they we you i his her their its and or but nor as if than because while")
    | _set(
        "when where which who whom whose what why how after before until since within without across is are was were"
    )
    | _set("be been being am do does did has have had can could will would shall should may might must not no also")
)


class Mention(NamedTuple):
    """A number, a date or a name in a text.

    Attributes:
        kind: mentions of the same kind may be exchanged for each other: "year", "month", "day", "number" or "decimal"
            with its sign, or "name" with how it is used (before a noun, behind "the", as an adjective) and its words.
        text: as it stands in the text.
        start: its offset.
    """

    kind: str
    text: str
    start: int

    @property
    def is_name(self) -> bool:
        """Whether it is a name."""
        return self.kind.startswith("name")

    @property
    def end(self) -> int:
        """The offset of its end."""
        return self.start + len(self.text)


class _Token(NamedTuple):
    text: str
    start: int
    is_first: bool
    """Whether it begins a sentence, where every word has a capital."""

    @property
    def bare(self) -> str:
        return _POSSESSIVE.sub("", self.text)

    @property
    def is_possessive(self) -> bool:
        return self.text != self.bare


class MentionFinder:
    """Finds mentions.

    Args:
        texts: they show which words are names, and how each name is used.
    """

    def __init__(self, texts: Iterable[str]):
        tokenized = [(text, _tokens(text)) for text in texts]
        capitals: Counter[str] = Counter()
        small: Counter[str] = Counter()
        for _, tokens in tokenized:
            small.update(token.text for token in tokens if token.text[0].islower())
            capitals.update(token.bare.lower() for token in tokens if token.text[0].isupper() and not token.is_first)
        self._name_words = frozenset(word for word, count in capitals.items() if count > small[word])
        uses: dict[str, Counter[str]] = {}
        for text, tokens in tokenized:
            for first, last in self._names(tokens, text):
                use = _use(tokens, first, last)
                if use:
                    uses.setdefault(_text_of(tokens, first, last, text), Counter())[use] += 1
        # Of two uses that are as frequent, the last in the alphabet, so that the order of the texts is of no effect.
        self._use = {name: max(counts, key=lambda use: (counts[use], use)) for name, counts in uses.items()}

    def find(self, text: str) -> list[Mention]:
        """The mentions in a text: first the names and dates, then the numbers and years, each in order."""
        tokens = _tokens(text)
        spans = list(self._names(tokens, text))
        names = [self._mention(_text_of(tokens, *span, text), tokens[span[0]].start) for span in spans]
        inside = {index for first, last in spans for index in range(first, last + 1)}
        numbers = [self._number(tokens, index) for index in range(len(tokens)) if index not in inside]
        return names + [number for number in numbers if number]

    def _mention(self, name: str, start: int) -> Mention:
        if name in _MONTHS or name in _DAYS:
            return Mention("month" if name in _MONTHS else "day", name, start)
        adjective = "adjective " if _ADJECTIVE.search(name) else ""
        return Mention(f"name {adjective}{self._use.get(name, 'alone')}, {len(name.split())}", name, start)

    def _number(self, tokens: list[_Token], index: int) -> Mention | None:
        """The number or year that a token is; None for another token, and behind a name, as in Windows 8."""
        text, start, _ = tokens[index]
        if not _NUMBER.fullmatch(text):
            return None
        before, after = _neighbors(tokens, index, index)
        is_part = _GLUE & {before, after} or before[:1].isdigit() or after[:1].isdigit()
        if is_part or before.lower() in _OPEN_ENDED or (index and self._is_numbered(tokens[index - 1])):
            return None
        currency = before if before in _CURRENCIES else ""
        if _YEAR.fullmatch(text) and not currency and after != "%":
            return Mention("year", text, start)
        form = "decimal" if "." in text else "number"
        return Mention(f"{form} {currency}{after if after == '%' else ''}".strip(), text, start)

    def _is_numbered(self, token: _Token) -> bool:
        """Whether a number behind a token belongs to it."""
        return self._may_be_name(token) and not token.is_possessive and token.text not in _MONTHS

    def _names(self, tokens: list[_Token], text: str) -> Iterator[tuple[int, int]]:
        """The first and last token of each name."""
        index = 0
        while index < len(tokens):
            if not tokens[index].text[0].isupper():
                index += 1
                continue
            last = self._last_of_run(tokens, index, text)
            has_name_word = any(token.bare.lower() in self._name_words for token in tokens[index : last + 1])
            if has_name_word and not _is_part(tokens, index, last):
                yield index, last
            index = max(index, last) + 1

    def _last_of_run(self, tokens: list[_Token], first: int, text: str) -> int:
        """The index of the last token of the run of capitals that starts at a token; one below it if none does."""
        last, index = first - 1, first
        while index < len(tokens) and (index == first or text[tokens[index].start - 1] == " "):
            token = tokens[index]
            if self._may_be_name(token):
                last = index
                if token.is_possessive:
                    break
            elif last < first or token.text not in _INSIDE:
                break
            index += 1
        return last

    def _may_be_name(self, token: _Token) -> bool:
        if not token.text[0].isupper() or _FIRST_PERSON.fullmatch(token.text) or _SMALL_PART.search(token.text):
            return False
        return not token.is_first or token.bare.lower() in self._name_words


def _tokens(text: str) -> list[_Token]:
    tokens, is_first = [], True
    for match in _TOKEN.finditer(text):
        tokens.append(_Token(match[0], match.start(), is_first))
        is_first = match[0] in _SENTENCE_ENDS
    return tokens


def _text_of(tokens: list[_Token], first: int, last: int, text: str) -> str:
    return text[tokens[first].start : tokens[last].start + len(tokens[last].bare)]


def _neighbors(tokens: list[_Token], first: int, last: int) -> tuple[str, str]:
    """The tokens before and behind a span; "" for none."""
    before = tokens[first - 1].text if first else ""
    return before, tokens[last + 1].text if last + 1 < len(tokens) else ""


def _is_part(tokens: list[_Token], first: int, last: int) -> bool:
    """Whether a name is only a part of one: of R&B, 114th Street, Windows 8, or a single letter."""
    before, after = _neighbors(tokens, first, last)
    is_numbered = after[:1].isdigit() and tokens[last].text not in _MONTHS and not tokens[last].is_possessive
    is_letter = first == last and len(tokens[first].text) == 1
    return bool(_GLUE & {before, after}) or before[:1].isdigit() or is_numbered or is_letter


def _use(tokens: list[_Token], first: int, last: int) -> str:
    """How a name is used: before a noun, behind "the" or alone; "" where its neighbors leave that open."""
    before, after = _neighbors(tokens, first, last)
    before = before.lower()
    is_content_word = after.isalpha() and after.islower() and after not in _FUNCTION_WORDS
    if is_content_word and not tokens[last].is_possessive:
        return "before a noun" if before in _PREPOSITIONS or before in _DETERMINERS else ""
    return "behind the" if before == "the" else "alone"
