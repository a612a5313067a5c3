"""The bundled sample has the documented size, format and variety, and its two splits share nothing."""

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
QUESTION_TYPES = ("how many", "how much", "how long", "what", "who", "how", "when", "which", "where", "why")
FEWEST_PER_TYPE = {"train": 10, "dev": 3}
QUESTION_COUNTS = {"train": (946, 80), "dev": (262, 26)}
"""Answerable and unanswerable questions of each split."""
MOST_UNANSWERABLE_PER_PASSAGE = 2
FEWEST_UNANSWERABLE_TYPES = {"train": 9, "dev": 6}
MAX_ANSWER = 15


def sample(split):
    return json.loads((sources.BUNDLED / f"sample-{split}.json").read_text(encoding="utf-8"))


def articles_of(split):
    return sample(split)["data"]


def paragraphs_of(split):
    return [paragraph for article in articles_of(split) for paragraph in article["paragraphs"]]


def questions_of(split):
    return [(question, paragraph["context"]) for paragraph in paragraphs_of(split) for question in paragraph["qas"]]


def answerable_of(split):
    return [(question, context) for question, context in questions_of(split) if question["answers"]]


def unanswerable_of(split):
    return [(question, context) for question, context in questions_of(split) if not question["answers"]]


def type_of(question):
    """Returns the first question word, and the longest one where several start at the same position."""
    words = " ".join(re.findall(r"\w+", question.lower()))
    found = [
        (match.start(), -len(kind), kind) for kind in QUESTION_TYPES if (match := re.search(rf"\b{kind}\b", words))
    ]
    return min(found)[2] if found else "other"


def count_of(text, context):
    """Counts the occurrences of a text as whole tokens."""
    words, wanted = tokenize(context).words, tokenize(text).words
    return sum(words[i : i + len(wanted)] == wanted for i in range(len(words)))


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
def test_the_format_is_that_of_squad_2_0(split):
    content = sample(split)
    assert content.keys() == {"version", "data"}
    assert content["version"] == "2.0-sample"
    for article in content["data"]:
        assert article.keys() == {"title", "paragraphs"}
        assert article["title"].strip()
        assert article["paragraphs"]
    for paragraph in paragraphs_of(split):
        assert paragraph.keys() == {"context", "qas"}
        assert paragraph["qas"]
    for question, _ in questions_of(split):
        assert question["question"] == question["question"].strip() != ""
    for question, _ in answerable_of(split):
        assert question.keys() == {"id", "question", "answers"}
        assert len(question["answers"]) == 1
        assert question["answers"][0].keys() == {"text", "answer_start"}
    for question, _ in unanswerable_of(split):
        assert question.keys() == {"id", "question", "answers", "is_impossible", "plausible_answers"}
        assert len(question["plausible_answers"]) == 1
        assert question["plausible_answers"][0].keys() == {"text", "answer_start"}


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_the_ids_of_a_passage_count_from_one(split):
    for paragraph in paragraphs_of(split):
        prefix = paragraph["qas"][0]["id"].rpartition("-")[0]
        ids = [question["id"] for question in paragraph["qas"]]
        assert ids == [f"{prefix}-{number}" for number in range(1, len(ids) + 1)]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_the_number_of_passages_and_questions(split):
    assert len(paragraphs_of(split)) == {"train": 106, "dev": 30}[split]
    assert (len(answerable_of(split)), len(unanswerable_of(split))) == QUESTION_COUNTS[split]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_an_unanswerable_question_is_marked_impossible(split):
    assert [question["id"] for question, _ in unanswerable_of(split) if question["is_impossible"] is not True] == []


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_the_library_reads_the_unanswerable_questions(split):
    data = sources.load_dataset("sample", split, log=pytest.fail)
    answerable, unanswerable = QUESTION_COUNTS[split]
    assert data.has_unanswerable
    assert len(data.questions) == answerable + unanswerable
    assert sum(question.is_impossible and not question.answers for question in data.questions) == unanswerable
    check_offsets(data)


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_plausible_answer_is_at_its_offset(split):
    for question, context in unanswerable_of(split):
        (answer,) = question["plausible_answers"]
        text, start = answer["text"], answer["answer_start"]
        assert text == text.strip() != ""
        assert context[start : start + len(text)] == text, question["id"]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_plausible_answer_is_in_its_passage_once_and_not_in_the_question(split):
    for question, context in unanswerable_of(split):
        (answer,) = question["plausible_answers"]
        assert count_of(answer["text"], context) == 1, question["id"]
        assert count_of(answer["text"], question["question"]) == 0, question["id"]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_a_passage_has_few_unanswerable_questions(split):
    counts = Counter(context for _, context in unanswerable_of(split))
    assert max(counts.values()) <= MOST_UNANSWERABLE_PER_PASSAGE


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_unanswerable_questions_vary_in_type(split):
    counts = Counter(type_of(question["question"]) for question, _ in unanswerable_of(split))
    assert len(counts) >= FEWEST_UNANSWERABLE_TYPES[split], counts
    assert max(counts.values()) <= counts.total() / 3, counts


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_answer_is_at_its_offset(split):
    for question, context in answerable_of(split):
        (answer,) = question["answers"]
        text, start = answer["text"], answer["answer_start"]
        assert text == text.strip() != ""
        assert context[start : start + len(text)] == text, question["id"]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_answer_is_in_its_passage_once(split):
    for question, context in answerable_of(split):
        (answer,) = question["answers"]
        assert count_of(answer["text"], context) == 1, question["id"]


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_answer_is_a_span_of_whole_tokens(split):
    data = sources.load_dataset("sample", split, log=pytest.fail)
    tokens = [tokenize(passage) for passage in data.passages]
    coverage = measure_coverage(data, tokens, MAX_ANSWER, null_head=True).to_json()
    assert (coverage["counts"]["kept"], coverage["counts"]["unanswerable"]) == QUESTION_COUNTS[split]
    assert coverage["ceiling_exact_match"] == 100.0


@pytest.mark.parametrize("part", ["id", "question"])
def test_no_id_and_no_question_is_repeated(part):
    counts = Counter(question[part].lower() for split in FEWEST_PER_TYPE for question, _ in questions_of(split))
    assert [text for text, count in counts.items() if count > 1] == []


def test_the_splits_share_no_title_and_no_passage():
    for texts in (
        [article["title"] for split in FEWEST_PER_TYPE for article in articles_of(split)],
        [paragraph["context"] for split in FEWEST_PER_TYPE for paragraph in paragraphs_of(split)],
    ):
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("split", FEWEST_PER_TYPE)
def test_every_type_of_question_occurs(split):
    counts = Counter(type_of(question["question"]) for question, _ in answerable_of(split))
    assert counts.keys() == {*QUESTION_TYPES, "other"}
    assert min(counts.values()) >= FEWEST_PER_TYPE[split], counts


def test_the_hundred_out_of_domain_questions_have_answers_at_their_offsets():
    data = read_squad(ROOT / "benchmarks" / "out_of_domain.json")
    check_offsets(data)
    assert (len(data.passages), len(data.questions)) == (10, 100)
    assert {len(question.answers) > 0 for question in data.questions} == {True}
    coverage = measure_coverage(data, [tokenize(passage) for passage in data.passages], MAX_ANSWER).to_json()
    assert coverage["ceiling_exact_match"] == 100.0
