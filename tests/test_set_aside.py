"""What is held out is left out of the training data: articles by their titles, and texts that share 60 characters."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shared_data import SHARED, needs_shared
from tiny import ARTICLES, CONFIG, DEV_ARTICLES, squad_data, write_squad

from fabir_tf.pipelines.datasets.set_aside import SHARED as FEWEST
from fabir_tf.pipelines.datasets.set_aside import overlaps, set_aside
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, join, read_squad, select_passages
from fabir_tf.pipelines.datasets.titles import LONGEST_ARTICLE, article_keys, title_key
from fabir_tf.pipelines.errors import UserError
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.prepared_data import prepare_data
from fabir_tf.training.training_config import TrainingConfig


def passages(*texts, titles=None, name="data"):
    """A dataset with one question per passage."""
    questions = [Question(f"{name}-{number}", "Who?", number, (Answer("x", 0),)) for number in range(len(texts))]
    return SquadData(name, texts, tuple(titles or [""] * len(texts)), tuple(questions))


def shares_text(text, other):
    """What the module says, in its slowest form."""
    text, other = (" ".join(each.casefold().split()) for each in (text, other))
    if len(text) < FEWEST:
        return bool(text) and text == other
    return any(text[start : start + FEWEST] in other for start in range(len(text) - FEWEST + 1))


# === Titles ===


@pytest.mark.parametrize(
    ("title", "other"),
    [
        ("Frédéric_Chopin", "frederic chopin"),
        ("Financial_crisis_of_2007%E2%80%9308", "Financial crisis of 2007-08"),
        ("Spectre_(2015_film)", "Spectre 2015 Film"),
        ("Saint_Barth%C3%A9lemy", "SAINT BARTHÉLEMY"),
        ("Straße", "STRASSE"),
        ("Ｔｏｋｙｏ", "Tokyo"),
    ],
)
def test_spellings_of_a_title(title, other):
    assert title_key(title) == title_key(other) != ""


@pytest.mark.parametrize(("title", "other"), [("1984", "1985"), ("Lake", "Lakes"), ("東京", "京都"), ("A", "B")])
def test_different_titles(title, other):
    assert title_key(title) != title_key(other)


def test_titles_that_only_collect_passages_stand_for_no_article():
    def keys(count, *more):
        return article_keys(passages(*map(str, range(count)), *more, titles=["A b"] * count + ["a_B"] * len(more)))

    assert set(keys(LONGEST_ARTICLE)) == {"ab"}
    # Equal passages count once, and all spellings of the title count together.
    assert set(keys(LONGEST_ARTICLE, "0", "1")) == {"ab"}
    assert set(keys(LONGEST_ARTICLE, "another")) == {""}
    assert article_keys(passages("a", "b", titles=["", "_-_"])) == ["", ""]


# === Overlaps ===


def test_articles_and_texts_are_found():
    text = "The old mill was built by Anna Keld in 1712, and it was opened in May of the year after."
    held = passages(text, "Short one.", "Elsewhere.", titles=["Mill", "", "Frédéric Chopin"], name="dev.json")
    data = passages(
        f"Before it. {text[:60].upper()}",
        f"Before it. {text[:59]}",
        "a  short\tone. ".removeprefix("a  "),
        "Not a short one.",
        "About him.",
        "",
        titles=["", "", "Mills", "", "Frederic_Chopin", ""],
    )
    assert overlaps(data, held) == [
        "60 characters of the passage are held out",
        "",
        "60 characters of the passage are held out",
        "",
        "the article 'Frederic_Chopin' is held out",
        "",
    ]
    kept, left_out = set_aside(data, held, "set_aside")
    assert [question.id for question in kept.questions] == ["data-1", "data-3", "data-5"]
    assert [kept.passages[question.passage] for question in kept.questions] == [data.passages[n] for n in (1, 3, 5)]
    assert kept.titles == ("", "", "") and kept.name == "data"
    assert [(question.id, detail[:2]) for question, detail in left_out] == [
        ("data-0", "60"),
        ("data-2", "60"),
        ("data-4", "th"),
    ]


def test_empty_and_collecting_titles_are_not_compared():
    many = [f"{number}." for number in range(LONGEST_ARTICLE + 1)]
    collected = passages(*many, titles=["Sentences"] * len(many))
    one = passages("Another.", "More.", titles=["Sentences", ""])
    for data, held in ((one, collected), (collected, one)):
        assert set(overlaps(data, held)) == {""}
    few = passages(*many[:-1], titles=["Sentences"] * LONGEST_ARTICLE)
    assert overlaps(one, few) == ["the article 'Sentences' is held out", ""]


TEXTS = st.text("ab \n", max_size=150) | st.text(max_size=80)


@given(TEXTS, TEXTS, st.text("ab", min_size=58, max_size=62), TEXTS, TEXTS)
@settings(max_examples=400, deadline=None)
@example("", "", "a" * 60, "", "")
@example("b" * 31, "", "ab" * 30, "a" * 30, "")
def test_a_shared_stretch_of_60_characters_is_found_and_nothing_else(before, after, shared, other_before, other_after):
    text, other = before + shared + after, other_before + shared + other_after
    found = bool(overlaps(passages(text), passages("irrelevant", other))[0])
    assert found == (shares_text(text, other) or shares_text(text, "irrelevant"))


@given(st.integers(0, 200), st.integers(0, 200), st.integers(55, 65))
@settings(max_examples=100, deadline=None)
def test_a_stretch_is_found_wherever_it_stands(start, other_start, length):
    # No block of one text is in another but for the stretch.
    stretch = "".join(chr(0x4E00 + number) for number in range(length))
    text = "".join(chr(0x3041 + number % 80) for number in range(start)) + stretch + "x" * 70
    other = "".join(chr(0xAC00 + number) for number in range(other_start)) + stretch + "y" * 70
    assert bool(overlaps(passages(text), passages(other))[0]) == (length >= FEWEST)


def test_all_questions_set_aside_is_one_sentence():
    data = squad_data(ARTICLES)
    with pytest.raises(UserError) as caught:
        set_aside(data, replace(data, name="dev.json"), "set_aside")
    assert str(caught.value) == (
        "--set_aside: all questions of tiny are about articles or texts of dev.json, expected others"
    )


@needs_shared
def test_real_held_out_articles_share_nothing_with_what_is_kept():
    data = read_squad(SHARED / "train" / "squad-train-60.json")
    held = select_passages(data, [title in ("IPod", "Pain") for title in data.titles])
    kept, left_out = set_aside(data, held, "set_aside")
    assert len(left_out) + len(kept.questions) == len(data.questions)
    assert {data.titles[question.passage] for question, _ in left_out} >= {"IPod", "Pain"}
    blocks = {text[start : start + FEWEST] for text in plain(held) for start in range(len(text) - FEWEST + 1)}
    assert not any(text[start : start + FEWEST] in blocks for text in plain(kept) for start in range(len(text) - 59))


def plain(data):
    return {" ".join(text.casefold().split()) for text in data.passages}


# === Training ===


def test_training_data_without_what_is_scored(tmp_path):
    title, passage, questions = DEV_ARTICLES[1]
    train = write_squad(tmp_path / "train.json", [*ARTICLES, ("fox ", "Another text.", [("What?", "text")])])
    dev = write_squad(tmp_path / "dev.json", [DEV_ARTICLES[0], (title, passage, questions)])
    settings = {"dataset": train, "eval_dataset": dev, "vectors": "none", "min_word_count": 0}
    lines: list[str] = []
    data = {
        chosen: prepare_data(CONFIG, TrainingConfig(**settings, set_aside=chosen), DataOptions(None), lines.append)
        for chosen in (False, True)
    }
    ledgers = {chosen: found.coverage["train"] for chosen, found in data.items()}
    assert {chosen: len(found.spans) for chosen, found in data.items()} == {False: 13, True: 12}
    assert ledgers[False]["total"] == ledgers[True]["total"] == 13
    assert ledgers[False]["reasons"] == {} and ledgers[True]["reasons"] == {"set_aside": 1}
    assert ledgers[True]["not_kept"] == [
        {"id": "fox -0", "kind": "dropped", "reason": "set_aside", "detail": "the article 'fox ' is held out"}
    ]
    assert "Dropped: set aside 1." in data[True].summary
    assert data[True].fingerprint["train"] != data[False].fingerprint["train"]
    assert data[True].fingerprint["eval"] == data[False].fingerprint["eval"]


@pytest.mark.slow
def test_kept_questions_about_what_is_scored_are_set_aside(tiny_run, tmp_path):
    kept = write_squad(
        tmp_path / "kept.json", [("Other", "Ada Birk wrote it.", [("Who wrote it?", "Ada Birk")]), DEV_ARTICLES[0]]
    )
    settings = {"dataset": tiny_run.train, "eval_dataset": tiny_run.dev, "start_from": str(tiny_run.path)}
    training = TrainingConfig(**settings, kept_dataset=kept, set_aside=True)
    data = prepare_data(CONFIG, training, DataOptions(None), lambda line: None)
    assert data.kept.sum() == 1
    assert data.coverage["train"]["reasons"]["set_aside"] == len(DEV_ARTICLES[0][2])
    only = write_squad(tmp_path / "only.json", [DEV_ARTICLES[0]])
    with pytest.raises(UserError, match=f"--set_aside: all questions of {only} are about"):
        prepare_data(CONFIG, TrainingConfig(**settings, kept_dataset=only, set_aside=True), DataOptions(None), print)


def test_the_flag_of_the_commands(commands, tmp_path):
    train = write_squad(tmp_path / "train.json", ARTICLES)
    dev = write_squad(tmp_path / "dev.json", ARTICLES[:1])
    flags = (f"--dataset={train}", f"--eval_dataset={dev}", "--vectors=none", "--min_word_count=1", "--cache_dir=")
    done = commands("prepare", *flags, f"--output={tmp_path / 'arrays'}", "--set_aside")
    assert done.status == 0 and "9 questions to train on" in done.stdout and "set aside 3" in done.stdout, done
    assert json.loads((tmp_path / "arrays" / "config.json").read_text())["settings"]["set_aside"] is True
    done = commands("train", f"--prepared={tmp_path / 'arrays'}", f"--run_dir={tmp_path / 'run'}", "--noset_aside")
    assert "found set_aside=False, expected set_aside=True as prepared" in done.error
    done = commands(
        "train", f"--dataset={dev}", f"--eval_dataset={dev}", "--set_aside", f"--run_dir={tmp_path / 'run'}"
    )
    assert f"--set_aside: all questions of {dev}" in done.error
    assert not (tmp_path / "run").exists()


def test_joined_data_keeps_its_articles_apart_from_the_scored_ones():
    data = join([squad_data(ARTICLES), passages("Barns.", titles=["OWL"], name="more")])
    held = select_passages(data, [title == "Owl" for title in data.titles])
    kept, _ = set_aside(data, held, "set_aside")
    assert set(kept.titles) == {"Mill", "Lake", "Bridge"}
