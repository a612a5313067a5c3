"""What a dataset consists of: counts, lengths, and how much of it lies beyond a reader's limits."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from fabir_tf.pipelines.features.examples import true_spans
from fabir_tf.pipelines.text.tokenized import TokenizedDataset

LIMITS = {"passage": (200, 300, 400), "question": (30, 50, 60), "answer": (15, 16, 30)}
"""Tokens beyond which the papers leave out or cut: FABIR 400, 60, 15; Porwal 200, 50; Cheung 300, 30, 16 and 30."""

LENGTHS = ("least", "mean", "median", "greatest")


def data_statistics(
    tokenized: TokenizedDataset, limits: Mapping[str, Sequence[int]] = LIMITS, known: Set[str] | None = None
) -> dict[str, Any]:
    """Counts a dataset.

    Lengths are in tokens and per question: a passage counts once for each question about it. An answer is the first
    reference of its question; answers that do not stand at their offset have no length. Passages without a title belong
    to no article.

    Args:
        tokenized: the dataset.
        limits: numbers of tokens by text, as `LIMITS` has them.
        known: words in lower case that have a vector; None if no vectors are named.

    Returns:
        JSON values: the counts `articles`, `articles_with_unanswerable`, `passages`, `questions`, `unanswerable`,
        `answers_not_at_offset`, `words` (different ones, in lower case) and `words_with_vector` (a share, or None); the
        mean `answers_per_question`; and by text `tokens`, with `LENGTHS`, and `over`, the share of questions over each
        limit. Lengths are None where there are none.

    Reference: Cheung, table 1; thesis, section 5.2.1 (words).
    """
    data = tokenized.data
    titles = [data.titles[question.passage] for question in data.questions]
    unanswerable = [title for title, question in zip(titles, data.questions, strict=True) if not question.answers]
    first, last = true_spans(tokenized, null_head=False).T
    answers = (last - first + 1)[first >= 0]
    answered = len(data.questions) - len(unanswerable)
    lengths = {
        "passage": tokenized.passage_lengths[tokenized.question_passages],
        "question": tokenized.question_lengths,
        "answer": answers,
    }
    words = {word.lower() for word in tokenized.texts.unique}
    return {
        "articles": len(set(titles) - {""}),
        "articles_with_unanswerable": len(set(unanswerable) - {""}),
        "passages": len(data.passages),
        "questions": len(data.questions),
        "unanswerable": len(unanswerable),
        "answers_per_question": _ratio(sum(len(question.answers) for question in data.questions), answered),
        "answers_not_at_offset": answered - len(answers),
        "words": len(words),
        "words_with_vector": None if known is None else _ratio(len(words & known), len(words)),
        "tokens": {text: _lengths(values) for text, values in lengths.items()},
        "over": {
            text: {str(limit): _ratio(int((values > limit).sum()), len(values)) for limit in limits[text]}
            for text, values in lengths.items()
        },
    }


def _lengths(values: np.ndarray) -> dict[str, float | None]:
    if not len(values):
        return dict.fromkeys(LENGTHS)
    found = (int(values.min()), float(values.mean()), float(np.median(values)), int(values.max()))
    return dict(zip(LENGTHS, found, strict=True))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def as_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A Markdown table of datasets, one column each.

    Args:
        found: `data_statistics` by the datasets' names.
    """
    columns = [_cells(statistics) for statistics in found.values()]
    lines = [["", *found], ["---", *["---:"] * len(found)]]
    lines += [[label, *(column[label] for column in columns)] for label in columns[0]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(statistics: Mapping[str, Any]) -> dict[str, str]:
    """The rows of a table, by their labels."""
    cells = {
        "articles": f"{statistics['articles']:,}",
        "articles with unanswerable questions": f"{statistics['articles_with_unanswerable']:,}",
        "passages": f"{statistics['passages']:,}",
        "questions": f"{statistics['questions']:,}",
        "unanswerable questions": f"{statistics['unanswerable']:,}",
        "reference answers of an answerable question": _number(statistics["answers_per_question"]),
        "first answers not at their offset": f"{statistics['answers_not_at_offset']:,}",
        "different words": f"{statistics['words']:,}",
        "words with a vector": _percent(statistics["words_with_vector"]),
    }
    for text, lengths in statistics["tokens"].items():
        cells[f"tokens of the {text}: {', '.join(LENGTHS)}"] = ", ".join(map(_number, lengths.values()))
        for limit, share in statistics["over"][text].items():
            cells[f"{text} over {limit} tokens"] = _percent(share)
    return cells


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}".removesuffix(".0")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"
