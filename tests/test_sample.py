"""The bundled sample keeps what the documentation says of it: its size, its format, its variety, its clean split."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from fabir_tf.pipelines.datasets import sources
from fabir_tf.pipelines.datasets.squad import check_offsets, read_squad
from fabir_tf.pipelines.features.alignment import measure_coverage
from fabir_tf.pipelines.text.tokenizer import tokenize

ROOT = Path(__file__).parents[1]
# The longer first: an expression takes the first that fits.
QUESTION_TYPES = ("how many", "how much", "how long", "what", "who", "how", "when", "which", "where", "why")
FEWEST_PER_TYPE = {"train": 10, "dev": 3}


def sample(split):
    return json.loads((sources.BUNDLED / f"sample-{split}.json").read_text(encoding="utf-8"))


def articles_of(split):
    return sample(split)["data"]


def paragraphs_of(split):
    return [paragraph for article in articles_of(split) for paragraph in article["paragraphs"]]


def questions_of(split):
    return [(question, paragraph["context"]) for paragraph in paragraphs_of(split) for question in paragraph["qas"]]


def type_of(question):
    """The question's first question word, of those that begin at one place the longest."""
    words = " ".join(re.findall(r"\w+", question.lower()))
    found = [
        (match.start(), -len(kind), kind) for kind in QUESTION_TYPES if (match := re.search(rf"\b{kind}\b", words))
    ]
    return min(found)[2] if found else "other"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How long is it?", "how long"),
        ("How was it done, and how long did it take?", "how"),
        ("Where was the desk at which he wrote?", "where"),
        ("In which year, and why?", "which"),
        ("Whose boat was it?", "other"),
        ("Was it somewhat whole?", "other"),
    ],
)
def test_the_type_of_a_question(question, kind):
    assert type_of(question) == kind


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_the_format_is_that_of_squad_1_1(split):
    content = sample(split)
    assert content.keys() == {"version", "data"}
    assert content["version"] == "1.1"
    for article in content["data"]:
        assert article.keys() == {"title", "paragraphs"}
        assert article["title"].strip()
        assert article["paragraphs"]
    for paragraph in paragraphs_of(split):
        assert paragraph.keys() == {"context", "qas"}
        assert paragraph["qas"]
    for question, _ in questions_of(split):
        assert question.keys() == {"id", "question", "answers"}
        assert question["question"] == question["question"].strip() != ""
        assert len(question["answers"]) == 1
        assert question["answers"][0].keys() == {"text", "answer_start"}


def test_it_is_large_enough():
    assert sum(len(paragraphs_of(split)) for split in FEWEST_PER_TYPE) >= 60
    assert sum(len(questions_of(split)) for split in FEWEST_PER_TYPE) >= 300


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_answer_stands_where_it_says(split):
    for question, context in questions_of(split):
        (answer,) = question["answers"]
        text, start = answer["text"], answer["answer_start"]
        assert text == text.strip() != ""
        assert context[start : start + len(text)] == text, question["id"]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_answer_stands_in_its_passage_once(split):
    for question, context in questions_of(split):
        (answer,) = question["answers"]
        words, wanted = tokenize(context).words, tokenize(answer["text"]).words
        places = [i for i in range(len(words)) if words[i : i + len(wanted)] == wanted]
        assert len(places) == 1, question["id"]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_answer_is_a_span_of_whole_tokens(split):
    data = sources.load_dataset("sample", split, log=pytest.fail)
    coverage = measure_coverage(data, [tokenize(passage) for passage in data.passages]).to_json()
    assert coverage["counts"]["kept"] == len(data.questions)


@pytest.mark.parametrize("part", ["id", "question"])
def test_no_id_and_no_question_is_there_twice(part):
    counts = Counter(question[part] for split in FEWEST_PER_TYPE for question, _ in questions_of(split))
    assert [text for text, count in counts.items() if count > 1] == []


def test_the_two_sides_share_no_title_and_no_passage():
    for texts in (
        [article["title"] for split in FEWEST_PER_TYPE for article in articles_of(split)],
        [paragraph["context"] for split in FEWEST_PER_TYPE for paragraph in paragraphs_of(split)],
    ):
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_type_of_question_is_there(split):
    counts = Counter(type_of(question["question"]) for question, _ in questions_of(split))
    assert counts.keys() == {*QUESTION_TYPES, "other"}
    assert min(counts.values()) >= FEWEST_PER_TYPE[split], counts


def test_the_questions_out_of_domain_are_a_hundred_with_answers_that_stand_in_their_texts():
    data = read_squad(ROOT / "benchmarks" / "out_of_domain.json")
    check_offsets(data)
    assert (len(data.passages), len(data.questions)) == (10, 100)
    assert {len(question.answers) > 0 for question in data.questions} == {True}
    ceiling = measure_coverage(data, [tokenize(passage) for passage in data.passages]).to_json()
    assert ceiling["ceiling_exact_match"] == 100.0
