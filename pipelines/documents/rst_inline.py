"""reStructuredText inside a paragraph as the text that it shows, roles of Sphinx included."""

import re
from collections.abc import Mapping

from fabir_tf.pipelines.documents.mapped_text import MappedText, joined, spaced

# Markup begins behind a space or an opening mark and ends before a space or a closing one. Limits of lengths keep the
# time linear where it never ends.
_BEGIN = r"""(?<![^\s'"(\[{<\-/:\u2018\u201c\u00ab\u2013\u2014\u00a0])"""
_END = r"""(?=[\s'")\]}>\-/\\:.,;!?\u2019\u201d\u00bb\u2013\u2014\u2026|*]|\Z)"""
_MARKUP = re.compile(
    rf"""
      \\(?P<escaped>.?)
    | (?P<url>\b(?:https?|ftp|file)://[^\s<>"`]{{1,2000}})
    | {_BEGIN}``(?P<literal>(?=\S).{{1,2000}}?(?<=\S))``{_END}
    | {_BEGIN}(?::(?P<role>[\w:.+-]{{1,60}}):)?`(?P<phrase>(?=[^\s`]).{{1,2000}}?(?<=[^\s\\]))`
        (?:_{{1,2}}|:[\w:.+-]{{1,60}}:)?{_END}
    | {_BEGIN}_`(?P<target>(?=\S).{{1,500}}?(?<=\S))`{_END}
    | {_BEGIN}\*\*(?P<strong>(?=[^\s*]).{{1,2000}}?(?<=[^\s\\]))\*\*{_END}
    | {_BEGIN}\*(?P<emphasis>(?=[^\s*]).{{0,2000}}?(?<=[^\s\\*]))\*{_END}
    | {_BEGIN}\|(?P<substitution>(?=[^\s|])[^|]{{1,100}}?(?<=\S))\|_{{0,2}}{_END}
    | \s{{0,100}}{_BEGIN}\[(?P<footnote>\d{{1,9}}|\#[\w.-]{{0,100}}|\*)\]_{_END}
    | {_BEGIN}(?P<citation>\[[A-Za-z][\w.-]{{0,100}}\])_{_END}
    | (?<![\w`*])(?P<reference>[A-Za-z0-9](?:[A-Za-z0-9]|[-+.:_](?=[A-Za-z0-9])){{0,200}})_{{1,2}}(?![\w`]){_END}
    """,
    re.VERBOSE | re.DOTALL,
)
_WITH_TARGET = re.compile(r"(.+?)\s*<[^<>]+>\s*", re.DOTALL)
_SHORTENED = re.compile(r"[~!](?:[\w.]*\.)?")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def shown_text(content: MappedText, substitutions: Mapping[str, str] | None = None) -> MappedText:
    """What a reader sees of a paragraph, a title or a cell.

    Args:
        content: its markup, the line breaks included.
        substitutions: the document's own texts for `|name|`, by names in lower case.

    Returns:
        Its text in one line.
    """
    parts, end = [], 0
    for match in _MARKUP.finditer(content.text):
        parts.append(content.part(end, match.start()))
        parts.append(_shown(content, match, substitutions or {}))
        end = match.end()
    return spaced(joined([*parts, content.part(end)]))


def _shown(content: MappedText, match: re.Match[str], substitutions: Mapping[str, str]) -> MappedText:
    kind = match.lastgroup if match.lastgroup != "role" else "phrase"
    kind = "phrase" if match["phrase"] is not None else kind
    if kind in (None, "footnote"):
        return MappedText()
    inner = content.part(*match.span(kind))
    if kind == "escaped":
        return inner if inner.text.strip() else MappedText()
    if kind == "phrase":
        return _phrase(inner, bool(match["role"]))
    if kind == "substitution":
        text = substitutions.get(" ".join(inner.text.lower().split()))
        return inner if text is None else content.replaced(*match.span(), text)
    return _unescaped(inner) if kind in ("strong", "emphasis", "target") else inner


def _phrase(inner: MappedText, has_role: bool) -> MappedText:
    """The text of `text <target>`; with a role, the last name of `~package.module.name`."""
    if with_target := _WITH_TARGET.fullmatch(inner.text):
        inner = inner.part(*with_target.span(1))
    if has_role and (shortened := _SHORTENED.match(inner.text)):
        inner = inner.part(shortened.end() if inner.text[0] == "~" else 1)
    return _unescaped(inner)


def _unescaped(content: MappedText) -> MappedText:
    if "\\" not in content.text:
        return content
    parts, end = [], 0
    for match in _ESCAPE.finditer(content.text):
        kept = content.part(*match.span(1)) if match[1].strip() else MappedText()
        parts += [content.part(end, match.start()), kept]
        end = match.end()
    return joined([*parts, content.part(end)])
