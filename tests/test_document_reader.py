"""Answers from documents: where they stand in the original, and that nothing depends on how the texts are given."""

import dataclasses
import json
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
from test_commands import passed
from tiny import make_reader

from fabir_tf.pipelines.documents.bm25 import BM25
from fabir_tf.pipelines.documents.collection import Collection
from fabir_tf.pipelines.documents.folder import read_documents
from fabir_tf.pipelines.documents.index import DocumentIndex
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import NO_ANSWER, Answer, Span
from fabir_tf.reading.document_reader import DocumentAnswer, DocumentReader, documents_of, sentence_around

TEXT = "the old mill was built by anna keld in lake lies north of dunmere owl hunts at night it is a an and"
WORDS = TEXT.split()
MILL = "# The old mill\n\nIt was **built** by *Anna\nKeld* in 1712 &amp; it [grinds](x.html) wheat.\n"
LAKE = "# Lake Orrin\n\nThe lake lies north of `Dunmere`.\n\n* cold\n* green\n"
OWL = "The owl hunts at night.\n\nIt sleeps by day."
FOLDER = {"lake.md": LAKE, "mill.md": MILL, "owl.txt": OWL}
QUESTION = "Who built the old mill?"


@pytest.fixture(scope="module")
def reader():
    return make_reader(WORDS)


@pytest.fixture(scope="module")
def with_null_head():
    return make_reader(WORDS, null_head=True)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "texts"
    path.mkdir()
    for name, text in FOLDER.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


class Scripted:
    """Gives answers by the passage alone, so that a test decides what is read where.

    Args:
        answers: by a word of the passage: what is answered, its score and the probability that there is no answer.
    """

    calibration = None
    no_answer_threshold = 0.5

    def __init__(self, **answers):
        self.answers = answers
        self.read = []

    def answer_batch(self, questions, passages, n_best=1):
        assert len(questions) == len(passages)
        self.read += passages
        return [self._answer(passage) for passage in passages]

    def _answer(self, passage):
        for word, (text, score, none) in self.answers.items():
            if word in passage:
                start = passage.index(text)
                span = Span(text, start, start + len(text), 0.4)
                is_answer = self.no_answer_threshold is None or none <= self.no_answer_threshold
                shown = span if is_answer else Span("", 0, 0, none)
                return Answer(**dataclasses.asdict(shown), no_answer_probability=none, is_answer=is_answer,
                              n_best=(span,), score=score)  # fmt: skip
        return NO_ANSWER


def rough(answer: DocumentAnswer) -> dict:
    """What must be equal in another batch, whose rounding may differ."""
    return json.loads(json.dumps(answer.to_dict()), parse_float=lambda text: round(float(text), 4))


def letters(text: str) -> list[str]:
    return [character for character in text if character.isalnum()]


# Places


@pytest.mark.parametrize("seed", range(3))
def test_offsets_are_those_of_the_original(seed):
    reader = DocumentReader(make_reader(WORDS, max_answer=1 + 5 * seed), with_heading=bool(seed % 2))
    for question in (QUESTION, "Where does the lake lie?", "What is green?", "owl"):
        answer = reader.answer(question, FOLDER, n_best=9)
        assert answer.is_answer and len(answer.n_best) > 1
        for span in (answer, *answer.n_best):
            original = FOLDER[span.source][span.start : span.end]
            rest = iter(letters(original))
            # Markup may stand between what is shown, never instead of it.
            assert span.text and all(character in rest for character in letters(span.text)), (span, original)
            assert original[0] == span.text[0] and original[-1] == span.text[-1]
            assert span.text and span.sentence[span.start_in_sentence :].startswith(span.text)


def test_an_answer_has_its_place_and_no_markup():
    reader = DocumentReader(Scripted(Keld=("Anna Keld", 3.0, 0.0)))
    answer = reader.answer(QUESTION, FOLDER)
    assert (answer.text, answer.source, answer.heading) == ("Anna Keld", "mill.md", "The old mill")
    assert (answer.paragraph, answer.page) == (0, 0)
    assert answer.sentence == "It was built by Anna Keld in 1712 & it grinds wheat."
    assert MILL[answer.start : answer.end] == "Anna\nKeld"
    assert answer.n_best[0].place() == answer.place()
    keys = ["source", "heading", "paragraph", "page", "sentence", "start_in_sentence", "rank_score"]
    assert list(answer.to_dict())[-7:] == list(answer.n_best[0].to_dict())[-7:] == keys
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.text = "other"


def test_an_answer_within_the_heading_and_one_that_leaves_it():
    reader = DocumentReader(Scripted(Keld=("old mill", 3.0, 0.0)))
    answer = reader.answer(QUESTION, FOLDER)
    assert (answer.text, MILL[answer.start : answer.end], answer.sentence) == ("old mill", "old mill", "The old mill")
    reader = DocumentReader(Scripted(Keld=("mill\nIt was built", 3.0, 0.0)))
    answer = reader.answer(QUESTION, FOLDER)
    assert (answer.text, MILL[answer.start : answer.end]) == ("It was built", "It was **built")


def test_a_paragraph_is_read_with_its_heading_if_asked_for():
    for with_heading, first in ((True, "The old mill\nIt was"), (False, "It was built")):
        scripted = Scripted(Keld=("Keld", 1.0, 0.0))
        DocumentReader(scripted, with_heading=with_heading).answer(QUESTION, {"mill.md": MILL})
        assert [passage.startswith(first) for passage in scripted.read] == [True]


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("One is. Two are. Three.", "Two", "Two are."),
        ("One is. Two are. Three.", "is. Two", "One is. Two are."),
        ("item one\nitem two. Go.\nitem", "two", "item two."),
        ("Mr. Keld built it. He left.", "Keld", "Mr. Keld built it."),
        ("one\ntwo", "one\ntwo", "one\ntwo"),
    ],
)
def test_the_sentence_around_a_span(text, span, expected):
    start = text.index(span)
    sentence, begin = sentence_around(text, start, start + len(span))
    assert sentence == expected and sentence[begin : begin + len(span)] == span


def test_the_words_of_a_span_that_stand_twice_in_its_sentence():
    text = "One left.\n \U0001f600 Two and Two are. Three."
    assert sentence_around(text, 21, 24) == ("\U0001f600 Two and Two are.", 10)


# How texts are given


def test_all_ways_to_give_texts_agree(reader, tmp_path):
    documents = DocumentReader(reader)
    texts = [OWL, "The old mill was built by Anna Keld.", "The lake lies north of Dunmere."]
    by_number = documents.answer(QUESTION, texts)
    assert isinstance(by_number.source, int)
    names = ("owl", "mill", "lake")
    named = documents.answer(QUESTION, dict(zip(names, texts, strict=True)))
    assert named.source == names[by_number.source]
    assert rough(dataclasses.replace(named, source=by_number.source, n_best=())) == rough(
        dataclasses.replace(by_number, n_best=())
    )
    generated = documents.answer(QUESTION, (text for text in texts))
    assert rough(generated) == rough(by_number)
    assert rough(documents.answer(QUESTION, OWL)) == rough(documents.answer(QUESTION, [OWL]))
    asked = (QUESTION, "When does the owl hunt?", "xyzzy")
    for together, question in zip(documents.answer_batch(asked, texts), asked, strict=True):
        assert rough(together) == rough(documents.answer(question, texts))


def test_the_order_of_texts_changes_only_their_numbers(reader):
    documents = DocumentReader(reader, paragraphs=np.int64(3))
    rng = random.Random(5)
    # Of different lengths, so that no two scores are equal.
    texts = [" ".join(rng.choices(WORDS, k=9 + 2 * number)) for number in range(12)]
    expected = documents.answer(QUESTION, texts, n_best=3)
    order = list(range(12))
    for _ in range(3):
        rng.shuffle(order)
        found = documents.answer(QUESTION, [texts[number] for number in order], n_best=3)
        for one, other in zip((found, *found.n_best), (expected, *expected.n_best), strict=True):
            assert order[one.source] == other.source
            assert (one.text, one.start, one.end, one.sentence) == (other.text, other.start, other.end, other.sentence)
            assert one.rank_score == pytest.approx(other.rank_score, rel=1e-12)


def test_a_folder_an_index_and_a_mapping_give_the_same(reader, folder, tmp_path):
    asked = (QUESTION, "Where is the lake?", "Which?", "When does the owl hunt?")
    expected = DocumentReader(reader).answer_batch(asked, FOLDER, n_best=3)
    in_memory = DocumentReader.from_folder(folder, reader)
    assert list(map(rough, in_memory.answer_batch(asked, n_best=3))) == list(map(rough, expected))
    with DocumentIndex(tmp_path / "texts.index", create=True) as index:
        index.update(read_documents(folder))
        assert index.first(2) == Collection(read_documents(folder)).first(2)
    indexed = DocumentReader.from_index(tmp_path / "texts.index", reader)
    assert list(map(rough, indexed.answer_batch(asked, n_best=3))) == list(map(rough, expected))


def test_names_tell_the_format():
    documents = documents_of({"a.md": "x", "b.pdf": "x", "c": "x", "d.rst": "x"})
    assert [(one.source, one.format) for one in documents] == [
        ("a.md", "markdown"),
        ("b.pdf", "plain"),
        ("c", "plain"),
        ("d.rst", "rst"),
    ]


# What is read, and what is answered


def test_few_paragraphs_are_all_read_and_of_many_the_best_ranked():
    few = Scripted(owl=("owl", 1.0, 0.0))
    assert DocumentReader(few).answer("xyzzy?", OWL).rank_score == 0
    assert len(few.read) == len(Collection(documents_of(OWL)))
    texts = [f"Paragraph {number} of the mill. " + "It is old. " * number for number in range(9)]
    many = Scripted(mill=("mill", 1.0, 0.0))
    DocumentReader(many, paragraphs=4).answer("mill?", texts)
    assert many.read == [texts[number].strip() for number, _ in BM25(texts).rank("mill?", 4)]
    none = DocumentReader(many, paragraphs=4).answer("xyzzy?", texts)
    assert (none.is_answer, none.text, none.source, none.n_best) == (False, "", None, ())
    assert len(many.read) == 4


@pytest.mark.parametrize(("weight", "expected"), [(0.0, "lake"), (0.1, "lake"), (100.0, "mill")])
def test_score_and_rank_are_added(weight, expected):
    texts = {"mill": "The mill of Anna is old.", "lake": "The lake of Orrin is a lake that is cold and old."}
    reader = DocumentReader(
        Scripted(mill=("Anna", 1.0, 0.0), lake=("Orrin", 2.0, 0.0)), rank_weight=weight, with_heading=False
    )
    answer = reader.answer("Whose old mill is it?", texts, n_best=5)
    ranks = {number: score for number, score in BM25(texts.values()).rank("Whose old mill is it?")}
    sums = {"mill": 1 + weight * ranks[0], "lake": 2 + weight * ranks.get(1, 0.0)}
    assert answer.source == expected == max(sums, key=sums.get)
    assert [span.source for span in answer.n_best] == sorted(sums, key=sums.get, reverse=True)
    assert answer.score == {"mill": 1.0, "lake": 2.0}[expected]
    assert answer.rank_score == ranks.get(list(texts).index(expected), 0.0)
    assert len(reader.answer("Whose old mill is it?", texts, n_best=1).n_best) == 1


@pytest.mark.parametrize(
    ("scale", "expected"), [(None, "lake"), (0.24, "lake"), (0.024, "mill"), (2.4, "lake"), (0.0, "lake")]
)
def test_logits_count_by_the_scale_of_the_readers_calibration(scale, expected):
    """A tenth of fabir-base's scale: two logits more are worth less than the rank."""
    texts = {"mill": "The mill of Anna is old.", "lake": "The lake of Orrin is a lake that is cold and old."}
    scripted = Scripted(mill=("Anna", 1.0, 0.0), lake=("Orrin", 3.0, 0.0))
    if scale is not None:
        scripted.calibration = SimpleNamespace(no_answer=SimpleNamespace(scale=scale))
    reader = DocumentReader(scripted, rank_weight=2.0, with_heading=False)
    assert reader.score_scale == pytest.approx((scale or 0.24) / 0.24)
    assert reader.answer("Whose old mill is it?", texts).source == expected


def without_answer(none, rank, weight):
    """The probability of no answer, from the log odds of the reader and the rank."""
    odds = math.log(none / (1 - none)) - 0.24 * weight * (rank - 0.2)
    return 1 / (1 + math.exp(-odds))


def test_a_paragraph_that_answers_goes_before_one_that_does_not():
    texts = ["The mill of Anna is old.", "The lake of Orrin is cold."]
    scripted = Scripted(mill=("Anna", 5.0, 0.7), lake=("Orrin", 1.0, 0.4))
    answer = DocumentReader(scripted, rank_weight=0).answer("Whose old mill?", texts, n_best=2)
    assert (answer.text, answer.source) == ("Orrin", 1)
    assert answer.probability == 0.4 and answer.no_answer_probability == pytest.approx(0.4)
    assert [span.text for span in answer.n_best] == ["Orrin", "Anna"]


@pytest.mark.parametrize("weight", [0.0, 1.0, 10.0])
def test_the_rank_tells_whether_there_is_an_answer(weight):
    texts = ["The mill of Anna is old.", "The lake of Orrin is cold."]
    question = "Whose old mill is it?"
    ranks = dict(BM25(texts).rank(question))
    assert ranks[0] > 0.2 > ranks.get(1, 0.0)
    scripted = Scripted(mill=("Anna", 1.0, 0.52), lake=("Orrin", 0.0, 0.45))
    answer = DocumentReader(scripted, rank_weight=weight, with_heading=False).answer(question, texts, n_best=2)
    none = [without_answer(0.52, ranks[0], weight), without_answer(0.45, ranks.get(1, 0.0), weight)]
    # Without the rank the lake alone answers, and with it in the end the mill alone.
    assert [probability <= 0.5 for probability in none] == [weight == 10, weight < 10]
    assert answer.source == (0 if weight == 10 else 1)
    assert answer.no_answer_probability == pytest.approx(none[answer.source])


@pytest.mark.parametrize("none", [0.0, 1e-300, 0.5, 1 - 1e-16, 1.0])
@pytest.mark.parametrize("weight", [0.0, 2e4, 1e300])
def test_any_weight_gives_a_probability(none, weight):
    texts = ["The mill of Anna is old.", "The lake of Orrin is cold."]
    scripted = Scripted(mill=("Anna", 1.0, none), lake=("Orrin", 0.0, none))
    answer = DocumentReader(scripted, rank_weight=weight, with_heading=False).answer("Whose old mill is it?", texts)
    assert 0 <= answer.no_answer_probability <= 1


def test_no_paragraph_answers():
    texts = ["The mill of Anna is old.", "The lake of Orrin is cold."]
    scripted = Scripted(mill=("Anna", -1.0, 0.7), lake=("Orrin", -3.0, 0.9))
    answer = DocumentReader(scripted, rank_weight=1).answer("Whose old mill?", texts, n_best=2)
    assert (answer.is_answer, answer.text, answer.source, answer.score) == (False, "", None, -1.0)
    ranks = dict(BM25(texts).rank("Whose old mill?"))
    expected = min(without_answer(0.7, ranks[0], 1), without_answer(0.9, ranks.get(1, 0.0), 1))
    assert answer.no_answer_probability == answer.probability == pytest.approx(expected)
    assert [span.text for span in answer.n_best] == ["Anna", "Orrin"]
    scripted.no_answer_threshold = None
    assert DocumentReader(scripted).answer("Whose old mill?", texts).text == "Anna"


def test_the_threshold_is_the_readers(with_null_head):
    always = DocumentReader(with_null_head).answer(QUESTION, FOLDER)
    assert always.is_answer
    for threshold, is_answer in ((0.0, False), (1.0, True)):
        reader = make_reader(WORDS, null_head=True)
        reader._threshold = threshold
        answer = DocumentReader(reader).answer(QUESTION, FOLDER)
        assert answer.is_answer is is_answer
        assert (answer.text == "") is not is_answer and answer.n_best


def test_nothing_to_read(reader):
    documents = DocumentReader(reader)
    for texts in ("", " \n\n", [], {}, ["", "\u6c34\u8eca\u5c0f\u5c4b\u3002"]):
        answer = documents.answer(QUESTION, texts)
        assert (answer.text, answer.is_answer, answer.n_best) == ("", False, ())
    assert documents.answer("?!", FOLDER).is_answer is False
    assert documents.answer_batch([], FOLDER) == []


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((QUESTION, b"bytes"), "texts: found"),
        ((QUESTION, [OWL, 3]), "text 1: found 3 of type int, expected a text"),
        ((QUESTION, {"a": None}), "expected a text"),
        ((QUESTION, {3: "a"}), "name of a text: found 3"),
        ((QUESTION, 3), "texts: found 3"),
        ((QUESTION,), "texts is missing"),
        ((None, OWL), "question: found None"),
        ((QUESTION, OWL, 0), "n_best"),
    ],
)
def test_wrong_arguments(reader, arguments, part):
    with pytest.raises(UserError, match=part):
        DocumentReader(reader).answer(*arguments)


@pytest.mark.parametrize(
    "settings",
    [{"paragraphs": 0}, {"paragraphs": 2.0}, {"paragraphs": True}, {"rank_weight": -1}, {"rank_weight": "1"}],
)
def test_wrong_settings(reader, settings):
    with pytest.raises(UserError, match=next(iter(settings))):
        DocumentReader(reader, **settings)


def test_a_folder_without_documents(reader, tmp_path):
    with pytest.raises(UserError, match="found no document"):
        DocumentReader.from_folder(tmp_path, reader)
    with pytest.raises(UserError, match="no such file"):
        DocumentReader.from_index(tmp_path / "absent", reader)


# The commands


@pytest.fixture(scope="module")
def texts(commands):
    path = commands.folder / "texts"
    path.mkdir()
    for name, text in FOLDER.items():
        (path / name).write_text(text, encoding="utf-8")
    (commands.folder / "questions.txt").write_text(
        f"{QUESTION}\n\n" + '{"id": "b", "question": "Which lake?"}\n{"id": 3'
    )
    (commands.folder / "nothing").mkdir()
    return path


@pytest.mark.slow
def test_predict_and_search_answer_alike(commands, tiny_run, texts):
    run = f"--run_dir={tiny_run.path}"
    asked = passed(commands("predict", run, f"--document={texts}", f"--question={QUESTION}", "--n_best=3")).stdout
    answer = json.loads(asked)
    assert answer["id"] == "1" and answer["source"] in FOLDER and answer["is_answer"]
    original = FOLDER[answer["source"]][answer["start"] : answer["end"]]
    assert (original[0], original[-1]) == (answer["answer"][0], answer["answer"][-1])
    made = passed(commands("index", f"--input={texts}", "--index=texts.index")).stdout
    paragraphs = len(Collection(read_documents(texts)))
    counts = "3 added, 0 changed, 0 unchanged, 0 removed, 0 left out"
    assert made == f"texts.index: {paragraphs} paragraphs of 3 documents: {counts}\n"
    again = passed(commands("index", f"--input={texts}", "--index=texts.index")).stdout
    assert "0 added, 0 changed, 3 unchanged" in again
    found = passed(commands("search", run, "--index=texts.index", f"--question={QUESTION}", "--n_best=3")).stdout
    assert found == asked
    for command, flag in (("predict", f"--document={texts}"), ("search", "--index=texts.index")):
        done = passed(commands(command, run, flag, "--input_file=questions.txt"))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["id"] for line in lines] == ["1", "b", "4"]
        assert lines[0]["answer"] == answer["answer"] and "line 4 is no valid JSON" in lines[2]["error"]
        assert "1 of 3 questions could not be answered" in done.stderr
        squad = passed(commands(command, run, flag, f"--input_file={tiny_run.dev}")).stdout
        assert [json.loads(line)["id"] for line in squad.splitlines()] == ["Tower-0", "Tower-1", "Fox-0", "Fox-1"]
        piped = passed(commands(command, run, flag, "--input_file=-", stdin=QUESTION)).stdout
        assert json.loads(piped)["answer"] == answer["answer"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "arguments", "parts"),
    [
        ("predict", "--document=absent --question=Who?", "absent: found no such file"),
        ("predict", "--document=nothing --question=Who?", "nothing: found no document"),
        ("predict", "--document=texts", ["--question and --input_file", "neither"]),
        ("predict", "--document=texts --question=Who? --passage=Anna", ["--passage and --document", "both"]),
        ("predict", "--document=texts --question=", "--question is blank"),
        ("predict", "--document=texts --question=Who? --paragraphs=0", "--paragraphs=0"),
        ("predict", "--document=texts --input_file=absent", "absent: found no such file"),
        ("predict", "--document=questions.txt --question=Who? --output_file=questions.txt", "--output_file"),
        ("search", "--question=Who?", "--index is missing"),
        ("search", "--index=absent --question=Who?", "absent: found no such file"),
        ("search", "--index=questions.txt --question=Who?", "questions.txt: found another file"),
        ("search", "--index=texts --question=Who?", "texts: found a folder"),
        ("index", "--index=new.index", "--input is missing"),
        ("index", "--input=texts", "--index is missing"),
        ("index", "--input=absent --index=new.index", "absent: found no such file"),
        ("index", "--input=nothing --index=new.index", "nothing: found no document"),
        ("index", "--input=texts --index=questions.txt", "questions.txt: found another file"),
        ("index", "--input=questions.txt --index=questions.txt", "is the file that --input reads"),
        ("index", "--input=texts --index=texts", "texts"),
        ("predict", "--document=texts --question=Who? --output_file=texts/answers.md", "would be a document of --docu"),
    ],
)
def test_a_mistake_gets_one_sentence(commands, tiny_run, texts, command, arguments, parts):
    run = [f"--run_dir={tiny_run.path}"] if command != "index" else []
    result = commands(command, *run, *arguments.split())
    for part in [parts] if isinstance(parts, str) else parts:
        assert part in result.error
    assert not (commands.folder / "new.index").exists()
