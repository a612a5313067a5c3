"""fabir-analyze: groups of questions, intervals, certainty, and the report."""

import csv
import dataclasses
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, squad_data, write_squad

from fabir_tf.analysis.certainty_table import COLUMNS as CERTAINTY_COLUMNS
from fabir_tf.analysis.certainty_table import certainty_rows, no_answer_auroc, risk_coverage, roc
from fabir_tf.analysis.error_classes import SHEET_COLUMNS, is_filled_in
from fabir_tf.analysis.error_lists import errors, surest_errors, worst_answers
from fabir_tf.analysis.groupings import QUESTION_TYPES, groupings, question_type
from fabir_tf.analysis.intervals import interval, resampled_means
from fabir_tf.analysis.judged import Judged, judge
from fabir_tf.analysis.positional_attention import FIGURES as POSITION_FIGURES
from fabir_tf.analysis.positional_attention import positional_attention
from fabir_tf.analysis.scores import score_groups
from fabir_tf.layers import PositionEncoding
from fabir_tf.pipelines.datasets.predictions import Prediction, read_predictions
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, squad_from_json
from fabir_tf.pipelines.datasets.squad_metrics import score_v1, score_v2
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import csv_text
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.reading.certainty import calibration_error, certainty_bins

DATA = squad_data(ARTICLES)
# Of the twelve questions the first is right, the second half right, and the others are wrong or missing.
ANSWERS = {"Mill-0": "Anna Keld", "Mill-1": "in 1712", "Mill-2": "Keld", "Lake-0": "<b>", "unknown": "x"}


def judged(**probabilities: float) -> Judged:
    return judge("ours", DATA, {key: Prediction(text, None, probabilities.get(key)) for key, text in ANSWERS.items()})


# === Kinds of questions ===


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is it?", "what"),
        ("In what year did it end?", "what"),
        ("what's new?", "what"),
        ("To whom was it given?", "who"),
        ("Whose mill is it?", "who"),
        ("HOW  MANY were there?", "how many"),
        ("How much?", "how much"),
        ("For how long did it last?", "how long"),
        ("How many-sided is it?", "how many"),
        ("How does it work?", "how"),
        ("When, and where?", "when"),
        ("Where, and when?", "when"),
        ("Why which?", "which"),
        ("How did he know what it was?", "what"),
        ("Which one?", "which"),
        ("Where?", "where"),
        ("Name a type of mill.", "other"),
        ("Hoe was it?", "other"),
        ("However it was, name it.", "other"),
        ("", "other"),
    ],
)
def test_the_kind_of_a_question(question, kind):
    assert question_type(question) == kind
    assert kind in QUESTION_TYPES


def test_lengths_are_counted_in_tokens_and_every_question_has_its_group():
    by_name = {way.name: way for way in groupings(tokenize_dataset(DATA, WordTokenizer()))}
    expected = {
        "answer_length": "2",  # Anna Keld
        "question_length": "1-7",
        "question_type": "who",
        "passage_length": "1-60",
    }
    assert {name: way.labels[way.groups[0]] for name, way in by_name.items()} == expected
    # "cold, green and very deep"
    assert by_name["answer_length"].labels[by_name["answer_length"].groups[4]] == "6"


def test_the_groups_are_those_of_the_papers_figures():
    by_name = {way.name: way.labels for way in groupings(tokenize_dataset(DATA, WordTokenizer()))}
    assert by_name == {
        "answer_length": (*(str(length) for length in range(1, 11)), "over 10"),
        "question_length": ("1-7", "8-11", "12-15", "16-19", "over 19"),
        "question_type": QUESTION_TYPES,
        "passage_length": ("1-60", "61-100", "101-140", "141-180", "181-220", "221-260", "over 260"),
    }


def test_questions_without_an_answer_are_a_group_of_their_own():
    content = {
        "data": [
            {
                "title": "A",
                "paragraphs": [
                    {
                        "context": "one two",
                        "qas": [
                            {"id": "1", "question": "What?", "answers": [], "is_impossible": True},
                            {"id": "2", "question": "What?", "answers": [{"text": "one", "answer_start": 0}]},
                        ],
                    }
                ],
            }
        ]
    }
    data = squad_from_json(content, "v2")
    way = groupings(tokenize_dataset(data, WordTokenizer()))[1]
    assert [way.labels[group] for group in way.groups] == ["0", "1"]
    found = judge("ours", data, {"1": Prediction(""), "2": Prediction("")})
    assert found.exact_match.tolist() == [100.0, 0.0]


# === Judging ===


def test_a_reference_without_words_is_none_in_squad_2():
    """As in the official script; SQuAD 2.0 dev has some, such as "the"."""
    questions = (
        Question("article", "Which?", 0, (Answer("The", 0), Answer("fox", 4))),
        Question("only", "Which?", 0, (Answer("The", 0),)),
        Question("none", "Who?", 0, ()),
    )
    data = SquadData("v2", ("The fox came.",), ("Fox",), questions)
    for answers in ({"article": "", "only": "", "none": ""}, {"article": "fox", "only": "fox", "none": "fox"}):
        found = judge("ours", data, {name: Prediction(text) for name, text in answers.items()})
        official = score_v2(data, answers)
        assert found.exact_match.mean() == pytest.approx(official["exact"], abs=1e-12)
        assert found.f1.mean() == pytest.approx(official["f1"], abs=1e-12)
        assert found.exact_match[0] == (100.0 if answers["article"] else 0.0)


def test_the_means_are_the_official_scores():
    found, official = judged(), score_v1(DATA, ANSWERS)
    assert found.f1.mean() == pytest.approx(official["f1"], abs=1e-12)
    assert found.exact_match.mean() == pytest.approx(official["exact_match"], abs=1e-12)
    assert found.f1.tolist()[:4] == pytest.approx([100.0, 200 / 3, 0.0, 0.0])


def test_both_forms_of_predictions_are_read(tmp_path):
    official, lines = tmp_path / "official.json", tmp_path / "answers.jsonl"
    official.write_text(json.dumps({"a": "x", "b": ""}, indent=1))
    rows = [{"id": "a", "answer": "x", "start": 3, "end": 4, "probability": 0.5}, {"id": "b", "error": "no word"}]
    lines.write_text("".join(f"{json.dumps(row)}\n\n" for row in rows))
    assert read_predictions(official) == {"a": Prediction("x"), "b": Prediction("")}
    assert read_predictions(lines) == {"a": Prediction("x", 3, 0.5)}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("[1]", ["a list", "question id"]),
        ('{"a": 1}', ["'a'", "the number 1"]),
        ('{"id": "a", "answer": "x"}\n{"id": 3}', ["line 2: answer is missing"]),
        ('{"id": "a", "answer": "x"}\n{"id": "b"}', ["line 2: answer is missing"]),
        ('{"id": "a", "answer": "x", "probability": 2}', ["probability", "from 0 to 1"]),
        ('{"id": "a", "answer": "x", "probability": NaN}', ["probability", "from 0 to 1"]),
        ('{"id": "a", "answer": "x", "start": -1}', ["start"]),
        ("", ["empty"]),
        ("{", ["JSON"]),
    ],
)
def test_predictions_of_another_form_are_refused(tmp_path, content, parts):
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        read_predictions(path)
    assert all(part in str(caught.value) for part in [str(path), *parts]), caught.value


def test_predictions_for_other_data_are_refused():
    with pytest.raises(UserError, match="answers no question of tiny"):
        judge("ours", DATA, {"other": Prediction("x")})


# === Intervals ===


def test_intervals_are_as_wide_as_the_normal_approximation_says():
    questions, share = 2000, 0.3
    values = np.zeros((1, questions))
    values[0, : int(share * questions)] = 100.0
    low, high = interval(resampled_means(values)[:, 0])
    deviation = 100 * math.sqrt(share * (1 - share) / questions)
    assert low == pytest.approx(30 - 1.96 * deviation, abs=0.3)
    assert high == pytest.approx(30 + 1.96 * deviation, abs=0.3)


def test_differences_are_of_the_same_resampled_questions():
    random = np.random.default_rng(1)
    first = random.integers(0, 2, 500) * 100.0
    means = resampled_means(np.stack([first, first + 7.0]))
    assert interval(means[:, 1] - means[:, 0]) == pytest.approx((7.0, 7.0))


def test_the_table_has_every_group_and_sets_the_others_against_the_first():
    ours, perfect = judged(), judge("perfect", DATA, {q.id: Prediction(q.answers[0].text) for q in DATA.questions})
    rows = score_groups([ours, perfect], groupings(tokenize_dataset(DATA, WordTokenizer())))
    for name in ("all", "answer_length", "question_length", "question_type", "passage_length"):
        own = [row for row in rows if row["grouping"] == name]
        assert sum(row["questions"] for row in own) == 2 * len(DATA.questions)
        assert all(row["f1_above_first"] is None for row in own if row["predictions"] == "ours")
        assert all(row["f1"] == 100.0 for row in own if row["predictions"] == "perfect")
    whole = rows[1]
    assert whole["f1_above_first"] == pytest.approx(100 - ours.f1.mean())
    assert whole["f1_above_first_low"] < whole["f1_above_first"] < whole["f1_above_first_high"]


# === Certainty ===


def test_answers_of_similar_probability_share_a_bin():
    right = {f"Mill-{number}": 0.95 for number in range(2)}
    found = judged(**right, **{"Mill-2": 1.0, "Lake-0": 0.05})
    bins = certainty_bins(found.probabilities, found.exact_match)
    # The eight missing answers are of probability 0.
    assert [one.questions for one in bins] == [9, 3]
    assert bins[1].probability == pytest.approx(100 * (0.95 + 0.95 + 1.0) / 3)
    assert bins[1].exact_match == pytest.approx(100 / 3)
    expected = (9 * 100 * 0.05 / 9 + 3 * abs(bins[1].probability - bins[1].exact_match)) / 12
    assert calibration_error(bins) == pytest.approx(expected)


def test_without_probabilities_there_is_no_certainty():
    assert judged().probabilities is None
    assert judged(**{"Mill-0": 0.5}).probabilities is None


# === Errors ===


# === Certainty with questions without an answer ===


HALF = ("Mill-0", "Mill-1", "Mill-2", "Lake-0")


def half_data():
    """Four questions, of which the first two have no answer."""
    by_id = {question.id: question for question in DATA.questions}
    questions = [by_id[key] for key in HALF]
    return dataclasses.replace(
        DATA, questions=(*(dataclasses.replace(question, answers=()) for question in questions[:2]), *questions[2:])
    )


def half_answered(*probabilities):
    """All are right but the second, with the probability of what is said and that of "no answer"."""
    data = half_data()
    texts = ("", "wrong", *(question.answers[0].text for question in data.questions[2:]))
    said = {key: Prediction(text, None, *both) for key, text, both in zip(HALF, texts, probabilities, strict=True)}
    return judge("ours", data, said)


def test_the_table_of_certainty_by_hand():
    found = half_answered((0.9, 0.9), (0.6, 0.2), (0.8, 0.1), (0.5, 0.3))
    assert found.exact_match.tolist() == [100, 0, 100, 100]
    (row,) = certainty_rows([found])
    assert row["mean_probability"] == pytest.approx(70)
    assert row["calibration_error"] == pytest.approx((10 + 60 + 20 + 50) / 4)
    # Of the four pairs, 0.2 and 0.3 alone are in the wrong order.
    assert row["no_answer_auroc"] == 0.75
    assert list(row) == list(CERTAINTY_COLUMNS)
    answerable, unanswerable = roc(found)
    assert answerable.tolist() == [1.0, 0.5, 0.5, 0.0, 0.0]
    assert unanswerable.tolist() == [1.0, 1.0, 0.5, 0.5, 0.0]
    assert -np.trapezoid(unanswerable, answerable) == pytest.approx(0.75)
    coverage, risk = risk_coverage(found)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk.tolist() == [0.0, 0.0, pytest.approx(1 / 3), 0.25]


def test_questions_that_a_file_lacks_have_no_certainty():
    """They score 0, and say nothing about probabilities, as in fabir-evaluate."""
    data = half_data()
    said = {
        key: Prediction(question.answers[0].text if question.answers else "", None, 0.9, none)
        for key, question, none in zip(HALF, data.questions, (0.9, None, 0.1, None), strict=True)
        if none is not None
    }
    found = judge("ours", data, said)
    (row,) = certainty_rows([found])
    assert (row["questions"], row["no_answer_auroc"]) == (2, 1.0)
    assert row["mean_probability"] == pytest.approx(90) and row["calibration_error"] == pytest.approx(10)
    assert risk_coverage(found)[0].tolist() == [0.5, 1.0]
    assert found.exact_match.mean() == 50


@pytest.mark.parametrize("seed", range(4))
def test_the_area_under_the_curve_is_the_share_of_pairs(seed):
    random = np.random.default_rng(seed)
    found = half_answered(*((0.5, round(float(random.random()), 1)) for _ in HALF))
    answerable, unanswerable = roc(found)
    assert -np.trapezoid(unanswerable, answerable) == pytest.approx(no_answer_auroc(found))


def test_with_the_first_reference_alone_fewer_answers_are_right():
    answers = (Answer("one", 0), Answer("two", 4))
    data = SquadData("d", ("one two",), ("",), (Question("1", "?", 0, answers), Question("2", "?", 0, answers)))
    found = judge("ours", data, {"1": Prediction("two", None, 0.5), "2": Prediction("one", None, 0.5)})
    (row,) = certainty_rows([found])
    assert (row["exact_match"], row["exact_match_first_reference"]) == (100.0, 50.0)
    assert (row["calibration_error"], row["calibration_error_first_reference"]) == (50.0, 0.0)
    assert row["no_answer_auroc"] is None and roc(found) is None


def test_questions_without_an_answer_are_scored_apart():
    found = half_answered(*[(0.5, 0.5)] * 4)
    way = groupings(tokenize_dataset(half_data(), WordTokenizer()))[0]
    assert (way.name, way.labels, way.groups.tolist()) == ("answerable", ("answerable", "unanswerable"), [1, 1, 0, 0])
    assert found.is_unanswerable.tolist() == [True, True, False, False]


def test_questions_are_scored_by_the_reason_why_they_have_no_answer():
    data = half_data()
    reasons = ("E", "#", "", "")
    questions = [dataclasses.replace(q, reason=reason) for q, reason in zip(data.questions, reasons, strict=True)]
    data = dataclasses.replace(data, questions=tuple(questions))
    way = groupings(tokenize_dataset(data, WordTokenizer()))[1]
    assert (way.name, way.labels, way.groups.tolist()) == ("reason", ("#", "E"), [1, 0, -1, -1])
    found = judge("ours", data, {question.id: Prediction("") for question in data.questions})
    rows = score_groups([found], [way])
    assert [(row["group"], row["questions"], row["exact_match"]) for row in rows] == [
        ("all", 4, 50.0), ("#", 1, 100.0), ("E", 1, 100.0)
    ]  # fmt: skip


def test_errors_are_in_order_and_right_answers_are_none():
    found = judged(**{"Mill-0": 0.9, "Mill-1": 0.3, "Mill-2": 0.8, "Lake-0": 0.5})
    assert DATA.questions[worst_answers(found, 50)[0]].id == "Mill-2"
    assert 0 not in worst_answers(found, 50)
    assert len(worst_answers(found, 3)) == 3
    assert [DATA.questions[place].id for place in surest_errors(found, 3)] == ["Mill-2", "Lake-0", "Mill-1"]


def test_truth_and_prediction_are_marked_in_the_passage_and_text_stays_text():
    found = judge("ours", DATA, {"Mill-0": Prediction("by Anna", 23), "Lake-0": Prediction("<b>")})
    text = errors(DATA, found, [0, 3])
    assert 'was built <span class="predicted">by </span><span class="truth predicted">Anna</span>' in text
    assert '<span class="truth"> Keld</span> in 1712.' in text
    assert "<b>&lt;b&gt;</b>" in text
    passage = re.search(r"<p>(The old mill.*?)</p>", text)[1]
    assert re.sub("<[^>]+>", "", passage) == DATA.passages[0]


# === The command ===


@pytest.mark.slow
def test_the_report_of_a_run(commands, tiny_run, tmp_path):
    answers, out = tmp_path / "answers.jsonl", tmp_path / "out"
    flags = [f"--run_dir={tiny_run.path}", f"--input_file={tiny_run.dev}", f"--output_file={answers}"]
    assert commands("predict", *flags).status == 0
    question_id = json.loads(answers.read_text().splitlines()[0])["id"]
    files = f"--predictions_files=ours={answers},{tiny_run.path / 'predictions.json'}"
    looking = [f"--run_dir={tiny_run.path}", f"--question_id={question_id}"]
    done = commands("analyze", f"--dataset={tiny_run.dev}", files, f"--output={out}", "--errors=2", *looking)
    assert done.status == 0, done
    assert re.search(r"^ours: EM \d+\.\d\d  F1 \d+\.\d\d$", done.stdout, re.MULTILINE)
    with (out / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["predictions"] for row in rows[:2]] == ["ours", "predictions"]
    pictures = {"by_answer_length", "by_question_length", "by_question_type", "by_passage_length"}
    pictures |= {"certainty", "risk_coverage"}
    assert {path.stem for path in out.glob("*.png")} == pictures
    assert (out / "certainty.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "report.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64") == len(pictures)
    assert "http" not in text
    with (out / "error_classes.csv").open(newline="") as file:
        classes = list(csv.DictReader(file))
    assert {row["predictions"] for row in classes} == {"ours", "predictions"}
    for name in ("ours", "predictions"):
        wrong = sum(int(row["errors"]) for row in classes if row["predictions"] == name)
        with (out / f"to_judge_{name}.csv").open(newline="") as file:
            drawn = list(csv.DictReader(file))
        assert len(drawn) == min(wrong, 100) and {row["your_class"] for row in drawn} == {""}
    # A sheet that somebody has filled in stays, and the others are written anew.
    sheets = [out / f"to_judge_{name}.csv" for name in ("ours", "predictions")]
    with sheets[0].open(newline="") as file:
        judged = list(csv.DictReader(file))
    judged[-1]["your_class"] = "mine"
    sheets[0].write_text(csv_text(SHEET_COLUMNS, judged))
    sheets[1].write_bytes(sheets[1].read_bytes().split(b"\r\n")[0] + b"\r\n")
    again = commands("analyze", f"--dataset={tiny_run.dev}", files, f"--output={out}")
    assert again.status == 0 and f"{sheets[0]}: it is filled in and stays as it is" in again.stderr, again
    assert sheets[0].read_text() == csv_text(SHEET_COLUMNS, judged)
    assert len(sheets[1].read_text().splitlines()) > 1 and str(sheets[1]) not in again.stderr
    # Predictions without probabilities leave nothing of those with.
    texts = f"--predictions_files=_$a$_$={tiny_run.path / 'predictions.json'}"
    (out / "by_answerable.png").write_bytes(b"that of other data")
    done = commands("analyze", f"--dataset={tiny_run.dev}", texts, f"--output={out}")
    assert done.status == 0, done
    assert {path.stem for path in out.glob("*.png")} == pictures - {"certainty", "risk_coverage"}
    assert not (out / "certainty.csv").exists() and not sheets[1].exists() and sheets[0].exists()
    assert "Classes of errors" in text
    assert "cross_attention" in (out / "question.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, False),
        (b"", False),
        (",".join(SHEET_COLUMNS).encode(), False),
        (",".join(SHEET_COLUMNS).encode() + b"\r\na,b,c,d,e,,f\r\n", False),
        (",".join(SHEET_COLUMNS).encode() + b"\r\na,b,c,d,e,too long,f\r\n", True),
        (";".join(SHEET_COLUMNS).encode() + b"\r\na;b;c;d;e;too long;f\r\n", True),
        (",".join(SHEET_COLUMNS).encode() + b"\r\na,b,c,d,e,\xe9,f\r\n", True),
        (",".join(SHEET_COLUMNS).encode("utf-16"), True),
        # A long passage, and half of a surrogate pair in it.
        (",".join(SHEET_COLUMNS).encode() + b"\r\na,b,c,d,e,," + b"f " * 70_000 + b"\xed\xa0\x80\r\n", False),
        (",".join(SHEET_COLUMNS).encode() + b"\r\na,b,c,d,e,mine," + b"f " * 70_000 + b"\r\n", True),
    ],
)
def test_a_sheet_is_filled_in_where_somebody_has_judged_or_saved_it_otherwise(content, expected, tmp_path):
    path = tmp_path / "to_judge_ours.csv"
    if content is not None:
        path.write_bytes(content)
    assert is_filled_in(path) is expected


def test_mistakes_are_reported(commands, tiny_run, tmp_path):
    out, data = f"--output={tmp_path / 'out'}", f"--dataset={tiny_run.dev}"
    predictions = tiny_run.path / "predictions.json"
    assert_error(commands, "analyze", [out], ["--dataset is missing"])
    assert_error(commands, "analyze", [data], ["--output is missing"])
    assert_error(commands, "analyze", [data, out], ["--predictions_files", "--question_id"])
    assert_error(commands, "analyze", [data, out, "--run_dir=x"], ["--run_dir", "--question_id"])
    assert_error(commands, "analyze", [data, out, "--predictions_files=a=nowhere.json"], ["nowhere.json"])
    assert_error(
        commands, "analyze", [data, out, f"--predictions_files=a={predictions},a={predictions}"], ["same name"]
    )
    ours = [data, out, f"--predictions_files=a={predictions}"]
    assert_error(commands, "analyze", [*ours, "--max_answer=2"], ["--max_answer belongs to --run_dir or --model"])
    asked = [data, out, f"--run_dir={tiny_run.path}", "--question_id=1", "--errors=3"]
    assert_error(commands, "analyze", asked, ["--errors belongs to --predictions_files"])
    assert_error(commands, "analyze", [data, out, "--predictions_files=a="], ["'a='", "NAME=FILE"])
    other = write_squad(tmp_path / "other.json", ARTICLES[1:2])
    assert_error(
        commands, "analyze", [f"--dataset={other}", out, f"--predictions_files={predictions}"], ["no question"]
    )
    looking = [f"--run_dir={tiny_run.path}", "--question_id=none"]
    assert_error(commands, "analyze", [data, out, *looking], ["--question_id=none", "no such question"])
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.slow
def test_without_matplotlib_to_look_inside_is_refused_in_one_sentence(tmp_path):
    hidden = "import sys; sys.modules['matplotlib'] = None; from fabir_tf.commands import analyze; analyze.run()"
    flags = ["--dataset=sample", "--model=fabir-base", "--question_id=sample-005-1", f"--output={tmp_path / 'out'}"]
    done = subprocess.run([sys.executable, "-c", hidden, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("matplotlib") == 1
    assert done.stderr.splitlines()[-1].startswith("error: --question_id: ")
    assert not (tmp_path / "out").exists()


# === Positions ===


def test_the_attention_of_positions_is_that_of_the_layers_encodings():
    encoded = np.asarray(PositionEncoding(100)(np.zeros((1, 400)))[0], np.float64)
    np.testing.assert_allclose(positional_attention(100, 1e-4, 1.0), encoded @ encoded[0] / 50, atol=2e-4)


def test_what_the_thesis_says_of_figures_11_and_12():
    wide, narrow = (positional_attention(*settings) for settings in POSITION_FIGURES["11"].values())
    swing = [np.abs(np.diff(curve[200:])).sum() for curve in (wide, narrow)]
    assert swing[0] < swing[1] / 2
    np.testing.assert_allclose(wide[:20], narrow[:20], atol=0.03)
    published, other = (positional_attention(*settings) for settings in POSITION_FIGURES["12"].values())
    assert np.abs(np.diff(other[200:])).sum() < np.abs(np.diff(published[200:])).sum()
    assert (published[1:5] < other[1:5]).all()
