"""Markdown inside a paragraph as the text that it shows.

Emphasis, links, pictures, code, HTML tags, entities, escapes and footnote marks are read as CommonMark and GitHub do;
besides, attribute lists, roles and template tags, which documentation generators add, are left out.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Set
from dataclasses import dataclass

from fabir_tf.pipelines.documents.mapped_text import MappedText, joined, spaced

SHORTEST_PICTURE_TEXT = 5
"""Words that a picture's text has at least where it is shown without other text: badges have fewer."""

# Limits of lengths keep the time linear where a bracket or quote is never closed.
_SPECIAL = re.compile(r"[\\`*_~<&\[\]!{]")
_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_BACKTICKS = re.compile(r"`+")
_DELIMITERS = re.compile(r"\*+|_+|~+")
_ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_AUTOLINK = re.compile(
    r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]{0,2000}|[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255})>"
)
TAG = re.compile(
    r"""</?([A-Za-z][A-Za-z0-9:-]{0,60})((?:\s{1,100}[A-Za-z_:@][\w.:@-]{0,100}(?:\s{0,100}=\s{0,100}"""
    r"""(?:"[^"]{0,3000}"|'[^']{0,3000}'|[^\s"'=<>`]{1,3000}))?){0,100})\s{0,100}/?>"""
)
_COMMENT_START = re.compile(r"<(?:!--|\?|!\[CDATA\[|![A-Za-z])")
_COMMENT_ENDS = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
_PICTURE_TEXT = re.compile(r"""\salt\s{0,100}=\s{0,100}(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_DESTINATION = r"(?:<[^<>\n]{0,2000}>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.|\([^\s()]{0,200}\)){0,500}\)){0,2000})"
_TITLE = r"""(?:"(?:[^"\\]|\\.){0,1000}"|'(?:[^'\\]|\\.){0,1000}'|\((?:[^()\\]|\\.){0,1000}\))"""
_TARGET = re.compile(rf"\(\s{{0,100}}{_DESTINATION}(?:\s{{1,100}}{_TITLE})?\s{{0,100}}\)", re.DOTALL)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999})\]", re.DOTALL)
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]")
_ATTRIBUTE = r"""(?:[#.][\w:-]{1,100}|[\w:@-]{1,100}=(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|[^\s}"']{0,300}))"""
_ATTRIBUTES = re.compile(rf"[{{](?::[ \t]*|[ \t]*(?=[#.])){_ATTRIBUTE}(?:[ \t]+{_ATTRIBUTE})*[ \t]*[}}]")
_ROLE = re.compile(r"\{[A-Za-z][\w:.+-]{0,60}\}(?=`)")
_TEMPLATE = re.compile(r"\{%.{0,500}?%\}|\{\{[<%].{0,500}?[>%]\}\}")
_ROLE_TARGET = re.compile(r"(.+?)\s*<[^<>]+>\s*", re.DOTALL)


@dataclass
class _Delimiters:
    """A row of `*`, `_` or `~`, of which emphasis uses some.

    Attributes:
        node: its index among the nodes.
        start, end: what is left of it.
        length: what it had.
        can_open, can_close: whether emphasis may begin or end here.
    """

    character: str
    node: int
    start: int
    end: int
    length: int
    can_open: bool
    can_close: bool


@dataclass
class _Bracket:
    """A `[` or `![` that may begin a link or a picture.

    Attributes:
        node: its index among the nodes.
        start: where its text begins.
        delimiters: how many there were before it.
        is_picture: whether it is `![`.
        is_active: false inside a link: links hold no links.
    """

    node: int
    start: int
    delimiters: int
    is_picture: bool
    is_active: bool = True


def shown_text(content: MappedText, labels: Set[str] = frozenset()) -> MappedText:
    """What a reader sees of a paragraph, a heading or a cell.

    Args:
        content: its Markdown, the line breaks included.
        labels: of the document's link definitions, as `label_key` writes them.

    Returns:
        Its text in one line; an empty one where it shows only small pictures, such as badges.
    """
    return _Reader(content, labels).read()


def label_key(label: str) -> str:
    """The form in which two labels of a link are equal."""
    return " ".join(label.casefold().split())


class _Reader:
    def __init__(self, content: MappedText, labels: Set[str]):
        self.content, self.text, self.labels = content, content.text, labels
        self.nodes: list[MappedText] = []
        self.pictures: list[tuple[int, int]] = []
        self.delimiters: list[_Delimiters] = []
        self.brackets: list[_Bracket] = []
        self._backticks: dict[int, list[int]] | None = None
        self._missing: set[str] = set()
        self._read_at: dict[str, Callable[[int], int]] = {
            "\\": self._escape,
            "`": self._code,
            "*": self._emphasis,
            "_": self._emphasis,
            "~": self._emphasis,
            "<": self._angle,
            "&": self._entity,
            "[": self._open,
            "!": self._exclamation,
            "]": self._close,
            "{": self._brace,
        }

    def read(self) -> MappedText:
        position = 0
        while match := _SPECIAL.search(self.text, position):
            self._add(position, match.start())
            position = self._read_at[match[0]](match.start())
        self._add(position, len(self.text))
        self._match_delimiters(0)
        if not self._has_words():
            self._leave_small_pictures_out()
        return spaced(joined(self.nodes))

    def _add(self, start: int, end: int) -> int:
        if start < end:
            self.nodes.append(self.content.part(start, end))
        return end

    def _escape(self, start: int) -> int:
        following = self.text[start + 1 : start + 2]
        if following in _PUNCTUATION and following:
            return self._add(start + 1, start + 2)
        return start + 1 if following in ("\n", "\r") else self._add(start, start + 1)

    def _code(self, start: int) -> int:
        fence = _BACKTICKS.match(self.text, start)
        length = fence.end() - start  # type: ignore[union-attr]
        end = self._closing_backticks(length, start + length)
        if end < 0:
            return self._add(start, start + length)
        first, last = start + length, end
        inner = self.text[first:last]
        if inner.strip() and inner[0] in " \n" and inner[-1] in " \n":
            first, last = first + 1, last - 1
        self._add(first, last)
        return end + length

    def _closing_backticks(self, length: int, start: int) -> int:
        """Where the next row of exactly so many backticks begins; -1 if there is none."""
        if self._backticks is None:
            self._backticks = {}
            for match in _BACKTICKS.finditer(self.text):
                self._backticks.setdefault(len(match[0]), []).append(match.start())
        places = self._backticks.get(length, [])
        index = bisect_left(places, start)
        return places[index] if index < len(places) else -1

    def _emphasis(self, start: int) -> int:
        row = _DELIMITERS.match(self.text, start)[0]  # type: ignore[index]
        end = start + len(row)
        before, after = self.text[start - 1 : start] or " ", self.text[end : end + 1] or " "
        left = not after.isspace() and (not _is_punctuation(after) or before.isspace() or _is_punctuation(before))
        right = not before.isspace() and (not _is_punctuation(before) or after.isspace() or _is_punctuation(after))
        can_open, can_close = left, right
        if row[0] == "_":
            can_open = left and (not right or _is_punctuation(before))
            can_close = right and (not left or _is_punctuation(after))
        if row[0] == "~" and len(row) > 2:
            can_open = can_close = False
        self.delimiters.append(_Delimiters(row[0], len(self.nodes), start, end, len(row), can_open, can_close))
        return self._add(start, end)

    def _angle(self, start: int) -> int:
        if link := _AUTOLINK.match(self.text, start):
            self._add(*link.span(1))
            return link.end()
        if (comment := _COMMENT_START.match(self.text, start)) and (end := self._comment_end(comment)) >= 0:
            return end
        tag = TAG.match(self.text, start)
        if not tag:
            return self._add(start, start + 1)
        if tag[1].lower() == "br":
            self.nodes.append(self.content.replaced(*tag.span(), " "))
        if tag[1].lower() == "img" and (picture := _PICTURE_TEXT.search(tag[0])):
            group = 1 if picture[1] is not None else 2
            inner = self.content.part(start + picture.start(group), start + picture.end(group))
            self.pictures.append((len(self.nodes), len(self.nodes) + 1))
            self.nodes.append(decoded(inner))
        return tag.end()

    def _comment_end(self, opening: re.Match[str]) -> int:
        """Where a comment, or what is left out like one, ends; -1 if it is never closed."""
        mark = _COMMENT_ENDS.get(opening[0], ">")
        # What is missing once is missing behind every later place.
        at = -1 if mark in self._missing else self.text.find(mark, opening.end())
        if at < 0:
            self._missing.add(mark)
            return -1
        return at + len(mark)

    def _entity(self, start: int) -> int:
        match = _ENTITY.match(self.text, start)
        character = html.unescape(match[0]) if match else ""
        if not match or character == match[0]:
            return self._add(start, start + 1)
        self.nodes.append(self.content.replaced(*match.span(), character))
        return match.end()

    def _brace(self, start: int) -> int:
        for pattern in (_ATTRIBUTES, _ROLE, _TEMPLATE):
            if match := pattern.match(self.text, start):
                return self._role(match.end()) if pattern is _ROLE else match.end()
        return self._add(start, start + 1)

    def _role(self, start: int) -> int:
        """The content of a role, `text <target>` as its text; `start` is at its backticks."""
        before = len(self.nodes)
        end = self._code(start)
        if len(self.nodes) > before and (match := _ROLE_TARGET.fullmatch(self.nodes[-1].text)):
            self.nodes[-1] = self.nodes[-1].part(*match.span(1))
        return end

    def _open(self, start: int) -> int:
        if footnote := _FOOTNOTE.match(self.text, start):
            return footnote.end()
        return self._open_bracket(start, start + 1)

    def _exclamation(self, start: int) -> int:
        is_picture = self.text.startswith("[", start + 1) and not _FOOTNOTE.match(self.text, start + 1)
        return self._open_bracket(start, start + 2) if is_picture else self._add(start, start + 1)

    def _open_bracket(self, start: int, end: int) -> int:
        bracket = _Bracket(len(self.nodes), end, len(self.delimiters), end - start == 2)
        self.brackets.append(bracket)
        return self._add(start, end)

    def _close(self, start: int) -> int:
        if not self.brackets:
            return self._add(start, start + 1)
        bracket = self.brackets.pop()
        end = self._link_end(bracket, start) if bracket.is_active else -1
        if end < 0:
            return self._add(start, start + 1)
        self._match_delimiters(bracket.delimiters)
        self.nodes[bracket.node] = MappedText()
        if bracket.is_picture:
            self.pictures.append((bracket.node, len(self.nodes)))
        else:
            for other in self.brackets:
                other.is_active = other.is_active and other.is_picture
        return end

    def _link_end(self, bracket: _Bracket, start: int) -> int:
        """The end of a link whose text ends at `start`; -1 if it is none."""
        if target := _TARGET.match(self.text, start + 1):
            return target.end()
        label = _LABEL.match(self.text, start + 1)
        key = label[1] if label and label[1].strip() else self.text[bracket.start : start]
        if self._is_label(key) or (label and self._is_generated(bracket, key)):
            return label.end() if label else start + 1
        return -1

    def _is_label(self, label: str) -> bool:
        return bool(self.labels) and len(label) < 1000 and label_key(label) in self.labels

    def _is_generated(self, bracket: _Bracket, label: str) -> bool:
        """Whether a link's label is one that a documentation generator defines; `a[i][j]` is none."""
        before = self.text[max(0, bracket.start - 2) : bracket.start - 1]
        is_index = bracket.is_picture or before.isalnum() or before in ("]", "_", ")")
        return not is_index and bool(re.search(r"\w[.\-_]\w", label))

    def _match_delimiters(self, bottom: int) -> None:
        """Leaves out those that make emphasis, of all delimiters from `bottom` on; CommonMark's algorithm."""
        floors: dict[tuple[str, bool, int], int] = {}
        rows = self.delimiters[bottom:]
        del self.delimiters[bottom:]
        index = 0
        while index < len(rows):
            closer = rows[index]
            key = (closer.character, closer.can_open, closer.length % 3)
            opener = self._opener(rows, index, floors.get(key, -1)) if closer.can_close else -1
            if opener < 0:
                if closer.can_close:
                    floors[key] = rows[index - 1].node if index else -1
                index += 1
                continue
            self._use(rows[opener], closer)
            del rows[opener + 1 : index]
            index = opener + 1
            if rows[opener].start == rows[opener].end:
                del rows[opener]
                index -= 1
            if closer.start == closer.end:
                index += 1

    def _opener(self, rows: list[_Delimiters], closer: int, floor: int) -> int:
        """The nearest row before `closer` that it may end; none of a node up to `floor`."""
        for index in range(closer - 1, -1, -1):
            if rows[index].node <= floor:
                break
            if _may_pair(rows[index], rows[closer]):
                return index
        return -1

    def _use(self, opener: _Delimiters, closer: _Delimiters) -> None:
        used = 2 if min(opener.end - opener.start, closer.end - closer.start) >= 2 else 1
        opener.end -= used
        closer.start += used
        for row in (opener, closer):
            self.nodes[row.node] = self.content.part(row.start, row.end)

    def _has_words(self) -> bool:
        """Whether there are words outside pictures."""
        inside = {index for first, last in self.pictures for index in range(first, last)}
        return any(any(map(str.isalnum, node.text)) for index, node in enumerate(self.nodes) if index not in inside)

    def _leave_small_pictures_out(self) -> None:
        for first, last in self.pictures:
            words = "".join(node.text for node in self.nodes[first:last]).split()
            if len(words) < SHORTEST_PICTURE_TEXT:
                self.nodes[first:last] = [MappedText()] * (last - first)


def decoded(content: MappedText) -> MappedText:
    """A text with a character for each entity."""
    parts, end = [], 0
    for match in _ENTITY.finditer(content.text):
        character = html.unescape(match[0])
        if character != match[0]:
            parts += [content.part(end, match.start()), content.replaced(*match.span(), character)]
            end = match.end()
    return joined([*parts, content.part(end)]) if parts else content


def _may_pair(opener: _Delimiters, closer: _Delimiters) -> bool:
    if opener.character != closer.character or not opener.can_open or opener.start == opener.end:
        return False
    if opener.character == "~":
        return opener.length == closer.length <= 2
    either = opener.can_close or closer.can_open
    return not (either and closer.length % 3 and (opener.length + closer.length) % 3 == 0)


def _is_punctuation(character: str) -> bool:
    return character in _PUNCTUATION or unicodedata.category(character)[0] in "PS"
