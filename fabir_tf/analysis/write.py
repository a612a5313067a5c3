"""Writes the files of an analysis."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fabir_tf.analysis import page
from fabir_tf.analysis.certainty_table import COLUMNS as CERTAINTY_COLUMNS
from fabir_tf.analysis.certainty_table import certainty_rows, risk_coverage, roc
from fabir_tf.analysis.error_classes import COLUMNS as ERROR_COLUMNS
from fabir_tf.analysis.error_classes import SHEET_COLUMNS, count_errors, is_filled_in, sheet
from fabir_tf.analysis.error_lists import errors, surest_errors, worst_answers
from fabir_tf.analysis.groupings import groupings
from fabir_tf.analysis.judged import Judged
from fabir_tf.analysis.plotting import NO_PICTURES, has_pictures, write_picture
from fabir_tf.analysis.scores import ALL, COLUMNS, score_groups
from fabir_tf.pipelines.datasets.squad import SquadData, question_with
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import sheet_text, write_text
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.certainty import certainty_bins
from fabir_tf.reading.inspection import look_inside
from fabir_tf.reading.reader import Reader

# What only predictions with probabilities have, and data with reasons.
_OPTIONAL = (
    "certainty.csv", "certainty.png", "risk_coverage.png", "no_answer_roc.png", "by_reason.png", "by_answerable.png",
)  # fmt: skip

_SHEET = "to_judge_{}.csv"


def write_analysis(
    folder: Path,
    tokenized: TokenizedDataset,
    judged: Sequence[Judged],
    most_errors: int = 50,
    log: Callable[[str], object] = print,
) -> list[dict]:
    """Writes the tables scores.csv, error_classes.csv and, where predictions have probabilities, certainty.csv; a sheet
    of wrong answers to judge by hand for each of the predictions; report.html; and, where matplotlib is installed, the
    report's pictures as files of their own.

    Args:
        folder: made if it does not exist.
        tokenized: the questions.
        judged: the predictions; all others are compared with the first.
        most_errors: most errors of each kind in the report.
        log: called with a line for each sheet that is left as it is, because somebody has filled it in.

    Returns:
        The rows of scores.csv; those of all questions come first.
    """
    data, ways = tokenized.data, groupings(tokenized)
    for name in _OPTIONAL:
        # Those of an earlier analysis would seem to belong to this one.
        (folder / name).unlink(missing_ok=True)
    for path in folder.glob(_SHEET.format("*")):
        if not is_filled_in(path):
            path.unlink()
    rows = score_groups(judged, ways)
    write_text(folder / "scores.csv", sheet_text(COLUMNS, rows))
    parts = [page.table(_of(rows, ALL))]
    for way in ways:
        own = _of(rows, way.name)
        parts += [page.heading(f"By {way.title}"), _picture(folder, f"by_{way.name}", "draw_scores", way.title, own)]
        parts.append(page.table(own))
    parts += _certainty(folder, judged)
    classes = count_errors(data, judged)
    write_text(folder / "error_classes.csv", sheet_text(ERROR_COLUMNS, classes))
    lines = [
        (row["predictions"], row["class"], f"{row['errors']:,}", f"{row['share']:.1f} %", row["meaning"])
        for row in classes
    ]
    head = ("predictions", "class", "errors", "of the errors", "by rule")
    parts += [page.heading("Classes of errors"), page.plain_table(head, lines)]
    for one in judged:
        _write_sheet(folder / _SHEET.format(one.name), sheet_text(SHEET_COLUMNS, sheet(data, one)), log)
        parts += [page.heading(f"{one.name}: the worst answers"), errors(data, one, worst_answers(one, most_errors))]
        if one.probabilities is not None:
            surest = errors(data, one, surest_errors(one, most_errors))
            parts += [page.heading(f"{one.name}: the wrong answers with the highest probability"), surest]
    write_text(folder / "report.html", page.page(f"Answers to {Path(data.name).name}", parts))
    return rows


def _write_sheet(path: Path, text: str, log: Callable[[str], object]) -> None:
    # All others are gone by now.
    if path.exists():
        log(f"{path}: it is filled in and stays as it is; remove it for a new one")
    else:
        write_text(path, text)


def _certainty(folder: Path, judged: Sequence[Judged]) -> list[str]:
    """Writes certainty.csv and its pictures, and returns their part of the report."""
    rows = list(certainty_rows(judged))
    if not rows:
        return []
    write_text(folder / "certainty.csv", sheet_text(CERTAINTY_COLUMNS, rows))
    bins = {
        one.name: certainty_bins(one.probabilities, one.exact_match)
        for one in (each.predicted for each in judged)
        if one.probabilities is not None
    }
    head = ("predictions", "mean probability", "EM", "calibration error", "with the first reference alone", "AUROC")
    lines = [
        (
            row["predictions"],
            f"{row['mean_probability']:.1f} %",
            f"{row['exact_match']:.1f} %",
            f"{row['calibration_error']:.1f} points",
            f"{row['calibration_error_first_reference']:.1f} points",
            "" if row["no_answer_auroc"] is None else f"{row['no_answer_auroc']:.3f}",
        )
        for row in rows
    ]
    parts = [page.heading("Certainty"), page.plain_table(head, lines)]
    parts.append(_picture(folder, "certainty", "draw_certainty", bins))
    for name, draw, curve in (
        ("risk_coverage", "draw_risk_coverage", risk_coverage),
        ("no_answer_roc", "draw_roc", roc),
    ):
        curves = {one.name: found for one in judged if (found := curve(one)) is not None}
        parts += [_picture(folder, name, draw, curves)] if curves else []
    return parts


def write_inspection(folder: Path, data: SquadData, reader: Reader, question_id: str) -> None:
    """Writes question.html: what a reader computes on the way to one answer.

    Args:
        folder: made if it does not exist.
        data: the questions.
        reader: a trained reader.
        question_id: the id of the question.

    Raises:
        UserError: no question has the id, matplotlib is missing, or the passage does not fit one window.
    """
    question = question_with(data, question_id)
    if not has_pictures():
        raise UserError(NO_PICTURES)
    from fabir_tf.analysis import pictures

    passage = data.passages[question.passage]
    inside = look_inside(reader, question.text, passage)
    answer = reader.answer(question.text, passage)
    parts = [
        page.note(passage),
        page.note(f"Answer: {answer.text or '(no answer)'} (probability {answer.probability:.2f})"),
        page.wide_picture(pictures.draw_boundaries(inside), "probability of each token to start and to end the answer"),
    ]
    parts += [page.wide_picture(pictures.draw_attention(inside, kind), kind) for kind in inside.attention]
    write_text(folder / "question.html", page.page(question.text, parts))


def _of(rows: Sequence[dict], grouping: str) -> list[dict]:
    return [row for row in rows if row["grouping"] == grouping]


def _picture(folder: Path, name: str, draw: str, *what) -> str:
    path = folder / f"{name}.png"
    content = write_picture(path, draw, *what)
    if content is None:
        path.unlink(missing_ok=True)
        return ""
    return page.picture(content, name)
