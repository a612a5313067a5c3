"""Unanswerable questions made of answerable ones: what each kind is, what it never is, and the same file every time."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import SHARED, needs_shared
from tiny import ARTICLES, write_squad

from fabir_tf.pipelines.datasets.formats import FORMATS, read_questions, write_questions
from fabir_tf.pipelines.datasets.negative_kinds import KINDS
from fabir_tf.pipelines.datasets.negatives import make_negatives
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, check_offsets, read_squad, select_passages
from fabir_tf.pipelines.datasets.squad_metrics import normalize_answer
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.mentions import MentionFinder
from fabir_tf.pipelines.text.sentences import sentence_spans

ROOT = Path(__file__).parents[1]
PARIS = (
    "Paris is the capital of France. Marie Curie worked in Paris from 1891 on. "
    "In 1903 the prize went to Henri Becquerel. The river Seine divides the city."
)
LONDON = (
    "London stands on the Thames. Charles Dickens lived in London until 1870. "
    "The bridge was opened in 1894. Isaac Newton died in March 1727."
)
BERLIN = "Berlin lies on the Spree. Albert Einstein lived there until 1932, and Max Planck until 1943."
QUESTIONS = (
    (0, "Who worked in Paris from 1891 on?", "Marie Curie"),
    (0, "Who got the prize in 1903?", "Henri Becquerel"),
    (0, "Which river divides Paris?", "Seine"),
    (1, "When did Charles Dickens leave London?", "1870"),
    (1, "When was the bridge opened?", "1894"),
    (2, "Until when did Max Planck live in Berlin?", "1943"),
)


def cities(title="Cities") -> SquadData:
    """One article of three passages, each about a city."""
    texts = (PARIS, LONDON, BERLIN)
    asked = [
        Question(f"q{number}", text, passage, (Answer(answer, texts[passage].index(answer)),))
        for number, (passage, text, answer) in enumerate(QUESTIONS)
    ]
    return SquadData("cities.json", texts, (title,) * 3, tuple(asked))


def made(data, *kinds, **options) -> dict[str, tuple[str, str]]:
    """Question and passage of each negative, by its id; as many as are possible."""
    negatives, _ = make_negatives(data, kinds, share=1.0, **options)
    return {asked.id: (asked.text, negatives.passages[asked.passage]) for asked in negatives.questions}


# === The kinds ===


def test_the_question_is_asked_about_another_passage_of_the_article():
    found = made(cities(), "article")
    assert [identifier for identifier in found] == [f"q{number}-article" for number in range(6)]
    for number, (passage, text, _) in enumerate(QUESTIONS):
        question, other = found[f"q{number}-article"]
        assert question == text and other in {PARIS, LONDON, BERLIN} - {cities().passages[passage]}
    # "lived" and "until" are in two of the three passages, "Berlin" and "Planck" in its own only.
    assert found["q5-article"][1] == LONDON


def test_one_of_the_passages_that_share_most_rare_words_is_chosen():
    texts = ["The heron eats frogs.", *(f"A heron sleeps in tree {number}." for number in range(3)), "A frog jumps."]
    texts += [f"Nothing but number {number} is told here." for number in range(20)]
    asked = Question("q", "What does the heron eat in a tree?", 0, (Answer("frogs", 15),))
    data = SquadData("herons", tuple(texts), ("Herons",) * len(texts), (asked,))
    chosen = Counter(made(data, "article", seed=seed)["q-article"][1] for seed in range(60))
    assert set(chosen) == {f"A heron sleeps in tree {number}." for number in range(3)}


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("Marie Curie", "It was MARIE  curie, they say."),
        ("the Marie Curie", "It was Marie Curie."),
        ("Curie", "The curies came."),
        ("passive or active", "They worked, active or not, in a passive way."),
        ("one-way", "They worked one way only."),
    ],
)
def test_a_passage_that_holds_the_answer_is_not_asked(answer, other):
    own = f"They worked with {answer} there."
    asked = Question("q", "With whom, or how, have they worked?", 0, (Answer(answer, own.index(answer)),))
    data = SquadData("data", (own, other), ("T", "t"), (asked,))
    with pytest.raises(UserError, match="every other passage holds the answer"):
        make_negatives(data, ["article"])
    # Another one beside it is.
    data = SquadData("data", (own, other, "They worked."), ("T", "t", "T"), (asked,))
    assert made(data, "article") == {"q-article": (asked.text, "They worked.")}


@pytest.mark.parametrize(
    ("titles", "reason"),
    [
        (("", "", ""), "the title stands for no article"),
        (("Paris", "London", "Berlin"), "no other passage of the article"),
    ],
)
def test_passages_of_other_articles_are_not_asked(titles, reason):
    data = cities()
    data = SquadData("data", data.passages, titles, data.questions)
    with pytest.raises(UserError, match=f"article: 0 made, 0 of 6 questions could have had one; .*: {reason} 6"):
        make_negatives(data, ["article"])


def test_a_question_that_is_already_asked_about_a_passage_is_not_asked_again():
    data = cities()
    twin = Question("twin", "Which River divides paris", 1, (Answer("Thames", LONDON.index("Thames")),))
    other = Question("other", "Which river divides Paris??", 2, (Answer("Spree", BERLIN.index("Spree")),))
    data = SquadData("data", data.passages, data.titles, (data.questions[2], twin, other))
    with pytest.raises(UserError, match=r"could have had one; not possible: every other passage .* 3\."):
        make_negatives(data, ["article"])


def test_the_sentences_with_the_answer_are_taken_out():
    found = made(cities(), "sentence")
    assert found["q0-sentence"] == (QUESTIONS[0][1], PARIS.replace("Marie Curie worked in Paris from 1891 on. ", ""))
    assert found["q2-sentence"][1] == PARIS.removesuffix(" The river Seine divides the city.")
    assert found["q5-sentence"][1] == "Berlin lies on the Spree."
    assert len(found) == 6


@pytest.mark.parametrize(
    ("passage", "answers", "left"),
    [
        ("Ada came. Ada went.", ["Ada"], "the rest of the passage holds the answer"),
        ("Ada came. Bo and ada, not.", ["Ada"], "the rest of the passage holds the answer"),
        ("Ada came and went.", ["Ada"], "no other sentence"),
        (" Ada came.  ", ["Ada"], "no other sentence"),
        ("Ada came. Bo went. Cy slept.", ["Ada", "Bo"], "Cy slept."),
        ("Ada came. Bo went. Cy slept.", ["Ada came. Bo"], "Cy slept."),
        ("Ada came. Dr. Bo of St. Ives went. Cy slept.", ["St"], "Ada came. Cy slept."),
        ("Ada came.\n\nBo went.\nCy slept.", ["Bo"], "Ada came.\n\nCy slept."),
    ],
)
def test_what_is_left_of_a_passage(passage, answers, left):
    asked = Question("q", "Who?", 0, tuple(Answer(answer, passage.index(answer)) for answer in answers))
    data = SquadData("data", (passage,), ("",), (asked,))
    if left.endswith("."):
        assert made(data, "sentence") == {"q-sentence": ("Who?", left)}
    else:
        with pytest.raises(UserError, match=f"not possible: {left} 1"):
            make_negatives(data, ["sentence"])


def test_names_and_years_are_exchanged():
    found: dict[str, set[str]] = {}
    for seed in range(20):
        for identifier, (text, passage) in made(cities(), "exchange", seed=seed).items():
            found.setdefault(identifier, set()).add(text)
            assert passage == cities().passages[QUESTIONS[int(identifier[1])][0]]
    assert found == {
        # A year for a year and a place for a place, but no word of the sentence with the answer.
        "q0-exchange": {"Who worked in Paris from 1903 on?", "Who worked in France from 1891 on?"},
        "q1-exchange": {"Who got the prize in 1891?"},
        "q2-exchange": {"Which river divides France?"},
        # The own passage has no other place, but the article has.
        "q3-exchange": {f"When did Charles Dickens leave {place}?" for place in ("Paris", "Berlin")},
        "q5-exchange": {f"Until when did Max Planck live in {place}?" for place in ("Paris", "London")},
        # "When was the bridge opened?" has neither a name nor a number.
    }


@pytest.mark.parametrize(
    ("passage", "question", "answer", "reason"),
    [
        ("Ada came in 1903. Bo left.", "Who came in 1903?", "Ada", "no other of its kind"),
        ("Ada came in 1903 and not in 1904.", "Who came in 1903?", "Ada", "no other of its kind"),
        ("Ada came in 1903. Bo came in 1904.", "Who came in 1903?", "Ada", "no other of its kind"),
        ("Ada came in 1903. It is told of 1904. Ada left.", "Who came in 1902?", "Ada", "that stands in the passage"),
        ("Ada came. It is told of 1904.", "Who has come here?", "Ada", "no number or name"),
        ("Ada was here since 1903. That was before 1904.", "Who was here since 1903?", "Ada", "no number or name"),
        ("Ada plays Halo 3. Bo has 4 cats.", "Who plays Halo 3?", "Ada", "no number or name"),
    ],
)
def test_what_is_not_exchanged(passage, question, answer, reason):
    asked = Question("q", question, 0, (Answer(answer, passage.index(answer)),))
    with pytest.raises(UserError, match=f"not possible: .*{reason} 1"):
        make_negatives(SquadData("data", (passage,), ("",), (asked,)), ["exchange"])


def test_an_exchanged_question_is_no_other_question_of_the_passage():
    passage = "Ada came in 1903. It is told of 1904, too. Bo has 1905 cats."
    asked = [Question("a", "Who came in 1903?", 0, (Answer("Ada", 0),))]
    data = SquadData("data", (passage,), ("",), tuple(asked))
    assert {made(data, "exchange", seed=seed)["a-exchange"][0] for seed in range(20)} == {
        "Who came in 1904?",
        "Who came in 1905?",
    }
    asked.append(Question("b", "who came in 1904", 0, (), True))
    data = SquadData("data", (passage,), ("",), tuple(asked))
    assert {made(data, "exchange", seed=seed)["a-exchange"][0] for seed in range(20)} == {"Who came in 1905?"}


# === Properties ===

NAMES = ("Anna", "Berlin", "Curie", "Dover", "Egypt", "France", "1812", "1900", "17", "23")


@st.composite
def datasets(draw):
    """Articles of short sentences, with questions whose answers stand in them."""
    titles, texts, asked = [], [], []
    for _ in range(draw(st.integers(1, 6))):
        title = draw(st.sampled_from(["One", "one", "Two", ""]))
        words = draw(
            st.lists(st.lists(st.sampled_from([*NAMES, "went", "to", "the"]), min_size=1, max_size=5), min_size=1)
        )
        text = " ".join(f"It {' '.join(sentence)}." for sentence in words[:6])
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(text) - 1))
            answer = text[start : start + draw(st.integers(1, 9))]
            question = f"What of {draw(st.sampled_from(NAMES))} in {draw(st.sampled_from(NAMES))}?"
            asked.append(Question(str(len(asked)), question, len(texts), (Answer(answer, start),)))
        titles.append(title)
        texts.append(text)
    return SquadData("random", tuple(texts), tuple(titles), tuple(asked))


@given(datasets(), st.sampled_from([0.3, 1.0]), st.integers(0, 3), st.booleans())
@settings(max_examples=100, deadline=None)
def test_what_holds_of_all_negatives(data, share, seed, keep):
    try:
        negatives, counts = make_negatives(data, share=share, seed=seed, keep_sources=keep)
    except UserError:
        return
    check_offsets(negatives)
    by_id = {asked.id: asked for asked in data.questions}
    new = [asked for asked in negatives.questions if asked.id not in by_id]
    kept = [asked for asked in negatives.questions if asked.id in by_id]
    assert [asked.id for asked in kept] == ([asked.id for asked in data.questions] if keep else [])
    for asked in kept:
        before = by_id[asked.id]
        assert (asked.text, asked.answers, asked.reason) == (before.text, before.answers, "")
        assert negatives.passages[asked.passage] == data.passages[before.passage]
    for asked in new:
        source_id, _, kind = asked.id.rpartition("-")
        source, passage = by_id[source_id], negatives.passages[asked.passage]
        own = data.passages[source.passage]
        assert (asked.reason, asked.answers, asked.is_impossible) == (kind, (), True)
        if kind == "exchange":
            assert asked.text != source.text and passage == own
            assert normalize_answer(asked.text) not in {
                normalize_answer(other.text) for other in data.questions if data.passages[other.passage] == own
            }
        else:
            assert asked.text == source.text and passage and passage != own
            assert not any(normalize_answer(answer.text) in normalize_answer(passage) for answer in source.answers)
        titles = {title.lower() for title, text in zip(data.titles, data.passages, strict=True) if text == own}
        assert negatives.titles[asked.passage].lower() in titles
        assert (kind == "article") <= (passage in data.passages)
        assert (kind == "sentence") <= all(part in own for part in passage.split(". "))
    for count in counts:
        assert count.made == sum(asked.reason == count.kind for asked in new)
        assert count.possible + sum(count.refused.values()) == len(data.questions)
        assert count.made == min(count.possible, int(share * len(data.questions) + 0.5))
    assert make_negatives(data, share=share, seed=seed, keep_sources=keep) == (negatives, counts)


def test_what_becomes_of_a_question_does_not_depend_on_the_other_kinds_or_questions():
    data = cities()
    everything = made(data, *KINDS, seed=5)
    for kind in KINDS:
        assert made(data, kind, seed=5).items() <= everything.items()
    turned = SquadData("turned", data.passages, data.titles, data.questions[::-1])
    assert made(turned, *KINDS, seed=5) == everything
    few, _ = make_negatives(data, list(KINDS), share=0.34, seed=5)
    assert Counter(asked.reason for asked in few.questions) == dict.fromkeys(KINDS, 2)
    assert {
        asked.id: (asked.text, few.passages[asked.passage]) for asked in few.questions
    }.items() <= everything.items()


def test_another_seed_chooses_other_questions():
    data = load_dataset("sample", "train")
    ids = [{asked.id for asked in make_negatives(data, ["sentence"], 0.1, seed)[0].questions} for seed in (1, 2)]
    assert len(ids[0]) == len(ids[1]) == 95 and len(ids[0] & ids[1]) < 40


def test_unanswerable_questions_are_no_sources_and_the_negatives_of_another_run_are_refused():
    data = cities()
    impossible = Question("none", "Who worked in Paris in 1891?", 0, (), True, reason="I")
    data = SquadData("data", data.passages, data.titles, (*data.questions, impossible))
    both, counts = make_negatives(data, ["sentence"], 1.0, keep_sources=True)
    assert counts[0].possible == 6 and "none-sentence" not in {asked.id for asked in both.questions}
    assert [asked.reason for asked in both.questions] == [""] * 6 + ["I"] + ["sentence"] * 6
    with pytest.raises(UserError, match=r"data: already has the question 'q0-sentence', expected data without"):
        make_negatives(both, ["sentence"], 1.0)
    with pytest.raises(UserError, match="found no question with an answer"):
        make_negatives(SquadData("data", data.passages, data.titles, (impossible,)))


@needs_shared
def test_real_questions():
    data = read_squad(SHARED / "train" / "squad-train-60.json")
    data = select_passages(data, [number % 20 < 2 for number in range(len(data.passages))])
    negatives, counts = make_negatives(data)
    assert all(count.made > 100 for count in counts)
    by_id = {asked.id: asked for asked in data.questions}
    for asked in negatives.questions:
        source = by_id[asked.id.rpartition("-")[0]]
        text = normalize_answer(negatives.passages[asked.passage])
        holds = any(normalize_answer(answer.text) in text for answer in source.answers)
        assert holds == (asked.reason == "exchange")


# === Names and sentences ===


def test_names_numbers_and_dates():
    texts = ["The king of France met Anna Keld in Rome in March.", "Rome is old. Old walls stand on Sunday and march."]
    texts += ["They wait until March and not until Sunday."]
    finder = MentionFinder(texts)

    def found(text):
        return {mention.text: mention.kind.split(" ")[0].rstrip(",") for mention in finder.find(text)}

    assert found("In March 1812, Anna Keld's 23 cats left Rome for $40 or 5%.") == {
        "March": "month",
        "Anna Keld": "name",
        "Rome": "name",
        "1812": "year",
        "23": "number",
        "40": "number",
        "5": "number",
    }
    assert found("Rome had 2.5 walls on Sunday the 4th.") == {"Rome": "name", "Sunday": "day", "2.5": "decimal"}
    assert found("Old walls. What did I see? I'm Rome-born.") == {}
    assert found("Rome 2 and R&B and 3:2 and 7/8.") == {}
    kinds = [mention.kind for mention in finder.find("$40, 5%, 6, 7.5, £8")]
    assert kinds == ["number $", "number %", "number", "decimal", "number £"]
    for text in texts:
        assert all(text[mention.start : mention.end] == mention.text for mention in finder.find(text))


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Keld came. ", "He left at 5 p.m. sharp."],
        ["The U.S. army came. ", "J. K. Rowling wrote. ", "See No. 5 there."],
        ["it ended. ", "then it began."],
        ["Was it so? ", "It was! ", "Yes."],
        ["  One.  ", "Two.\n"],
        ["only one"],
        [],
    ],
)
def test_sentences(sentences):
    text = "".join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@given(st.text("aB. !\n"))
def test_sentences_are_the_whole_text(text):
    spans = sentence_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)


# === The command ===


@pytest.mark.parametrize("ending", [*FORMATS, ".jsonl.gz"])
def test_the_command(commands, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"new/negatives{ending}"
    flags = ("--dataset=sample", f"--output_file={output}", "--share=0.1", "--seed=7")
    result = commands("negatives", *flags)
    assert result.status == 0, result
    data = read_questions(output)
    made = Counter(asked.reason for asked in data.questions)
    assert set(made) == {"sentence", "exchange"} and made["sentence"] == 95
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "article: 0 made, 0 of 946 questions could have had one; not possible: no other passage of the article 946"
    )
    assert lines[1].startswith("sentence: 95 made, ") and "of 946 questions could have had one" in lines[1]
    assert lines[2].startswith(f"exchange: {made['exchange']} made, ")
    assert lines[3] == f"{output}: {made.total()} questions about {len(data.passages)} passages"
    before = output.read_bytes()
    assert commands("negatives", *flags).status == 0 and output.read_bytes() == before
    assert commands("negatives", *flags, "--seed=8").status == 0 and output.read_bytes() != before


WRITE = """
import sys
from fabir_tf.pipelines.datasets.formats import read_questions, write_questions
from fabir_tf.pipelines.datasets.negatives import make_negatives
data, output = sys.argv[1:]
write_questions(make_negatives(read_questions(data), share=1.0)[0], output)
"""


def test_the_file_is_the_same_in_every_process(tmp_path):
    """Sets of texts have another order in each."""
    write_questions(cities(), tmp_path / "data.json")
    written = set()
    for seed in ("1", "2", "3"):
        output = tmp_path / f"{seed}.json"
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", WRITE, str(tmp_path / "data.json"), str(output)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        written.add(output.read_bytes())
    assert len(written) == 1
    assert {asked.reason for asked in read_squad(output).questions} == set(KINDS)


def test_the_dataset_can_be_kept_and_held_out_data_set_aside(commands, tmp_path):
    train = write_squad(tmp_path / "train.json", ARTICLES)
    held = write_squad(tmp_path / "held.json", [("MILL_", "Another text.", [("What?", "text")])])
    output = tmp_path / "both.json"
    flags = (f"--dataset={train}", f"--output_file={output}", "--kinds=sentence", "--share=1")
    # Two files may have the same questions.
    result = commands("negatives", *flags, f"--set_aside={held},{held}", "--keep_answerable")
    assert result.status == 0, result
    assert result.stdout.splitlines()[:2] == [
        f"{count} questions are set aside, whose article or text is in {held}" for count in (3, 0)
    ]
    data = read_squad(output)
    assert "Mill" not in data.titles
    assert [asked.id for asked in data.questions if not asked.reason] == [
        f"{title}-{number}" for title in ("Lake", "Bridge", "Owl") for number in range(3)
    ]
    assert all(asked.is_impossible == bool(asked.reason) for asked in data.questions)
    assert sum(bool(asked.reason) for asked in data.questions) > 3
    result = commands("negatives", *flags, f"--set_aside={train}")
    assert f"--set_aside: all questions of {train}" in result.error


def test_a_full_disk_leaves_nothing_half_made(commands, tmp_path):
    train = write_squad(tmp_path / "train.json", ARTICLES)
    output = tmp_path / "new" / "negatives.json"
    flags = (f"--dataset={train}", f"--output_file={output}", "--share=1")
    assert commands("negatives", *flags, file_limit=40).error == f"{output}: cannot be written (File too large)"
    assert not output.exists() and not list(tmp_path.rglob("negatives*"))


def test_training_on_negatives_counts_them(commands, tmp_path):
    train = write_squad(tmp_path / "train.json", ARTICLES)
    flags = (f"--dataset={train}", f"--output_file={tmp_path / 'negatives.jsonl'}", "--kinds=sentence,exchange")
    assert commands("negatives", *flags, "--share=1").status == 0
    data = f"--dataset={train},{tmp_path / 'negatives.jsonl'}"
    small = ("--vectors=none", "--min_word_count=1", "--cache_dir=", f"--eval_dataset={train}", "--null_head")
    result = commands("prepare", data, *small, f"--output={tmp_path / 'arrays'}")
    assert result.status == 0, result
    counted = json.loads((tmp_path / "arrays" / "coverage.json").read_text())["train"]["unanswerable"]
    made = Counter(asked.reason for asked in read_questions(tmp_path / "negatives.jsonl").questions)
    assert counted == made and set(made) <= set(KINDS)
    reasons = ", ".join(f"{reason} {count}" for reason, count in made.most_common())
    assert f"12 kept, {made.total()} without an answer ({reasons}), " in result.stdout


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ("--output_file=x.json", ["--dataset is missing"]),
        ("--dataset=sample", ["--output_file is missing"]),
        ("--dataset=sample --output_file=x.txt", ["--output_file=x.txt", "another ending"]),
        ("--dataset=sample --output_file=x.json --kinds=article,swap", ["--kinds=article,swap", "'swap'", "exchange"]),
        ("--dataset=sample --output_file=x.json --kinds=", ["--kinds=", "found none", "article, sentence"]),
        ("--dataset=sample --output_file=x.json --share=0", ["--share=0", "more than 0"]),
        ("--dataset=sample --output_file=x.json --share=1.5", ["share=1.5"]),
        ("--dataset=sample --output_file=x.json --seed=-1", ["seed=-1"]),
        ("--dataset=sample --output_file=x.json --kinds=article", ["no question without an answer can be made", "946"]),
        ("--dataset=absent.csv --output_file=x.json", ["absent.csv: found no such file"]),
        ("--dataset=sample --set_aside=absent.csv --output_file=x.json", ["absent.csv: found no such file"]),
        ("--dataset={train} --output_file={train}", ["--output_file", "the file that --dataset reads"]),
        ("--dataset=sample,{train} --output_file={train}", ["the file that --dataset reads"]),
        ("--dataset=sample --set_aside={train} --output_file={train}", ["the file that --set_aside reads"]),
        ("--dataset={shifted} --output_file=x.json", ["at answer_start 1, expected"]),
        ("--dataset=sample --output_file=/dev/null/x.json", ["cannot be written"]),
    ],
)
def test_mistakes(commands, tmp_path, flags, parts):
    train = write_squad(tmp_path / "train.json", ARTICLES)
    content = json.loads(Path(train).read_text())
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 1
    (tmp_path / "shifted.json").write_text(json.dumps(content))
    before = Path(train).read_bytes()
    result = commands("negatives", *flags.format(train=train, shifted=tmp_path / "shifted.json").split())
    assert all(part in result.error for part in parts), result
    assert Path(train).read_bytes() == before
    assert not (commands.folder / "x.json").exists()
