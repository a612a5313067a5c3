"""The parts of an HTML report, which is one file without external resources."""

import base64
import html
from collections.abc import Mapping, Sequence

from fabir_tf.analysis.scores import ALL, METRICS

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { border-bottom: 1px solid #ddd; padding: .25em .8em; text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
img { max-width: 100%; }
.wide { overflow-x: auto; }
.wide img { max-width: none; }
article { border: 1px solid #ddd; border-radius: 4px; padding: .6em 1em; margin: 1em 0; }
.truth { background: #c9ecc9; }
.predicted { background: #f6c6c6; }
.truth.predicted { background: #f3e3a1; }
.note { color: #666; }
"""


def page(title: str, parts: Sequence[str]) -> str:
    """A whole HTML file without external resources.

    Args:
        title: its heading.
        parts: HTML, from the functions below.
    """
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts])
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def heading(text: str) -> str:
    """A heading.

    Args:
        text: plain text.
    """
    return f"<h2>{html.escape(text)}</h2>"


def note(text: str) -> str:
    """A remark.

    Args:
        text: plain text.
    """
    return f'<p class="note">{html.escape(text)}</p>'


def picture(content: bytes, about: str) -> str:
    """A picture inside the page.

    Args:
        content: a PNG.
        about: its alternative text.
    """
    return f'<img src="data:image/png;base64,{base64.b64encode(content).decode()}" alt="{html.escape(about)}">'


def wide_picture(content: bytes, about: str) -> str:
    """A picture in its own size, which can be scrolled.

    Args:
        content: a PNG.
        about: its alternative text.
    """
    return f'<div class="wide">{picture(content, about)}</div>'


def table(rows: Sequence[Mapping]) -> str:
    """The scores of one grouping.

    Args:
        rows: from `fabir_tf.analysis.scores.score_groups`.
    """
    compared = any(row["f1_above_first"] is not None for row in rows)
    head = ["", "predictions", "questions", "EM", "95 %", "F1", "95 %"]
    head += ["EM above the first", "F1 above the first"] if compared else []
    lines = [_cells("th", head)]
    for row in rows:
        cells = ["all questions" if row["group"] == ALL else row["group"], row["predictions"], f"{row['questions']:,}"]
        for metric in METRICS:
            cells += [f"{row[metric]:.2f}", f"{row[f'{metric}_low']:.1f} to {row[f'{metric}_high']:.1f}"]
        if compared:
            cells += [_difference(row, metric) for metric in METRICS]
        lines.append(_cells("td", cells))
    return f"<table>\n{''.join(lines)}</table>"


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts.

    Args:
        head: the headings.
        rows: a text for each heading.
    """
    return f"<table>\n{_cells('th', head)}{''.join(_cells('td', row) for row in rows)}</table>"


def _cells(tag: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>\n"


def _difference(row: Mapping, metric: str) -> str:
    name = f"{metric}_above_first"
    if row[name] is None:
        return ""
    return f"{row[name]:+.2f} ({row[f'{name}_low']:+.1f} to {row[f'{name}_high']:+.1f})"
