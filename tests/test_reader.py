"""The reader: the same answer whichever way it is asked, text that is the passage's own, and passages of any length."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import ARTICLES, DEV_ARTICLES, make_reader, squad_data

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.tensor_batches import batches_to_read
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.reading import reader as module
from fabir_tf.reading.reader import NO_ANSWER, Reader, Span

ROOT = Path(__file__).parents[1]

MAX_ANSWER = 4
DATA = squad_data(ARTICLES + DEV_ARTICLES)
WORDS = sorted({word.lower() for text in DATA.passages for word in tokenize(text).words})


@pytest.fixture(scope="module")
def reader():
    return make_reader(WORDS, max_answer=MAX_ANSWER)


def resized(reader, max_passage):
    """The same reader with another window."""
    return Reader(reader.model, reader.vocabulary, reader.config, max_passage)


def ask(reader, pairs, n_best=1):
    """Answers of a dataset with one passage per question, as an evaluation gets them."""
    questions = tuple(Question(str(number), question, number, ()) for number, (question, _) in enumerate(pairs))
    data = SquadData("asked", tuple(passage for _, passage in pairs), ("",) * len(pairs), questions)
    return reader.predict(reader.encode(tokenize_dataset(data)), n_best)


def assert_same(actual, expected, tolerance=1e-5):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert len(one.n_best) == len(other.n_best)
        for span, wanted in zip((one, *one.n_best), (other, *other.n_best), strict=True):
            assert (span.text, span.start, span.end) == (wanted.text, wanted.start, wanted.end)
            assert span.probability == pytest.approx(wanted.probability, abs=tolerance)


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def every_span(start_logits, end_logits, passage, max_answer=MAX_ANSWER):
    """All allowed spans, the best first, their probabilities in float64."""
    tokens = tokenize(passage)
    start, end = (log_softmax(np.asarray(logits, np.float64)) for logits in (start_logits, end_logits))
    spans = [(start[i] + end[j], i, j) for i in range(len(start)) for j in range(i, min(i + max_answer, len(start)))]
    spans.sort(key=lambda span: -span[0])
    return [
        Span(passage[tokens.starts[i] : tokens.ends[j]], tokens.starts[i], tokens.ends[j], float(np.exp(score)))
        for score, i, j in spans
    ]


def logits_of(reader, question, passage):
    """The model's logits for one question, from inputs put together here."""
    inputs = {}
    for name, text in (("passage", passage), ("question", question)):
        words = tokenize(text).words
        inputs[f"{name}_words"] = reader.vocabulary.word_ids(words)[None]
        inputs[f"{name}_characters"] = reader.vocabulary.character_ids(words, 20)[None]
    logits = reader.model(inputs, training=False)
    return logits["start_logits"][0].numpy(), logits["end_logits"][0].numpy()


# === One question or many ===


@pytest.fixture
def small_batches(monkeypatch):
    """Several batches even for a few questions."""
    monkeypatch.setattr(module, "BATCH_ROWS", 4)
    monkeypatch.setattr(module, "BATCH_TOKENS", 70)


def test_one_by_one_together_and_as_a_dataset_are_the_same(reader, small_batches):
    pairs = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
    # Some of these are read in windows, the others are not; the longest is as long as a whole small batch.
    pairs += [("Who?", " ".join(DATA.passages)), ("Owl", "One."), ("what", DATA.passages[3] + DATA.passages[0])]
    pairs = [pairs[i] for i in np.random.default_rng(1).permutation(len(pairs))]
    windowed = resized(reader, 35)
    together = windowed.answer_batch([question for question, _ in pairs], [passage for _, passage in pairs], n_best=3)
    assert_same(ask(windowed, pairs, n_best=3), together)
    assert_same([windowed.answer(*pair, n_best=3) for pair in pairs], together)
    assert len({answer.text for answer in together}) >= 6


def test_questions_of_many_portions_are_answered_in_their_order(reader, monkeypatch):
    """A passage's questions are read together wherever they stand, while the next chunk is tokenized."""
    pairs = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
    pairs = [pairs[i] for i in np.random.default_rng(2).permutation(len(pairs))]
    texts = [list(part) for part in zip(*pairs, strict=True)]
    together = reader.answer_batch(*texts, n_best=2)
    monkeypatch.setattr(module, "FIRST_CHUNK", 1)
    monkeypatch.setattr(module, "LARGEST_CHUNK", 4)
    tokenized, tokenize_texts = [], module.tokenize_texts
    monkeypatch.setattr(module, "tokenize_texts", lambda part: tokenized.append(part) or tokenize_texts(part))
    assert_same(reader.answer_batch(*texts, n_best=2), together)
    assert len(tokenized) == 1 + -(-(len(pairs) - 1) // 4)
    again = sum(map(len, tokenized)) - len({passage for _, passage in pairs}) - len(pairs)
    assert 0 <= again < len(tokenized)
    assert reader.answer_batch([], []) == []


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, [0]), (1, [0, 1]), (256, [0, 256]), (800, [0, 256, 800]), (20000, [0, 256, 1280, 5376, 13568, 20000])],
)
def test_portions_grow(count, expected):
    assert list(module._chunk_bounds(count)) == expected


def test_what_fails_ahead_is_told_after_what_went_before():
    def items():
        yield 1
        yield 2
        raise ValueError("third")

    found = []
    with pytest.raises(ValueError, match="third"):
        found.extend(2 * item for item in module.one_ahead(items()))
    assert found == [2, 4]


def test_answers_stand_in_the_order_of_the_file(reader, small_batches):
    told = []
    encoded = reader.encode(tokenize_dataset(DATA))
    answers = reader.predict(encoded, progress=lambda done, total: told.append((done, total)))
    assert len(answers) == len(DATA.questions) == 16
    for question, answer in zip(DATA.questions, answers, strict=True):
        passage = DATA.passages[question.passage]
        assert passage[answer.start : answer.end] == answer.text != ""
        assert_same([answer], [reader.answer(question.text, passage)])
    done = [part for part, _ in told]
    assert {total for _, total in told} == {16}
    assert done == sorted(done)
    assert done[-1] == 16
    # At most 4 questions a batch, and fewer of the longer passages.
    assert len(done) > 4
    assert max(np.diff([0, *done])) == 4


def test_batches_hold_no_more_tokens_than_allowed(small_batches):
    lengths = np.array([31, 10, 16, 10, 26, 31, 90, 16, 1, 10, 10, 26])
    batches = list(module._batches_by_length(lengths))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= 4
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= 70
    assert [lengths[batch].tolist() for batch in batches] == [[1, 10, 10, 10], [10, 16, 16], [26, 26], [31, 31], [90]]
    assert not list(module._batches_by_length(np.zeros(0, np.int64)))


@pytest.mark.parametrize(
    ("length", "rows", "expected"),
    [(4096, 2, [1, 1]), (2000, 9, [4, 4, 1]), (512, 90, [64, 26]), (100, 600, [480, 120])],
)
def test_batches_hold_no_more_pairs_of_tokens_than_allowed(length, rows, expected):
    assert [len(batch) for batch in module._batches_by_length(np.full(rows, length))] == expected


READ_AT_ONCE = """
from pathlib import Path
from tiny import make_reader
reader = make_reader([f"w{number}" for number in range(50)], max_passage=4096, num_heads=4)
passage = " ".join(f"w{number % 50}" for number in range(4096))
print(repr(reader.answer("w1 w2", passage).text))
# Not ru_maxrss, which begins with what the process that began this one had.
print(*[line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")])
"""


def test_a_passage_of_4096_tokens_is_read_at_once_within_two_gigabytes():
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run(
        [sys.executable, "-c", READ_AT_ONCE], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    answer, kibibytes = done.stdout.splitlines()[-2:]
    assert answer.startswith("'w")
    assert int(kibibytes) * 1024 < 2e9


def test_all_lengths_share_one_trace(reader):
    fresh = resized(reader, 512)
    for words in (1, 2, 5, 19, 40, 7):
        fresh.answer("who? " * words, "word " * words)
    ask(fresh, [("a", "b c"), ("a b c d", "e f g")])
    assert fresh._logits._logits.experimental_get_tracing_count() == 1


def test_no_questions_no_answers(reader):
    assert reader.answer_batch([], []) == []


# === The text is the passage's ===


# Passages that other readers' offsets broke on stand beside the random ones.
@settings(max_examples=40, deadline=None)
@given(
    passage=st.one_of(
        st.text(st.characters(exclude_categories=()), min_size=1, max_size=40),
        st.lists(
            st.sampled_from(["the", " ", "  ", "\n", "\u00a0", "a\u0301", "😀", '"', "''", "-", "n't", "\ud83d", "."]),
            min_size=1,
            max_size=12,
        ).map("".join),
    ),
    question=st.sampled_from(["Who?", "\ud83d 😀", "a-b/c 'd'"]),
)
def test_an_answer_is_a_stretch_of_any_passage(reader, passage, question):
    if not passage.strip():
        with pytest.raises(UserError):
            reader.answer(question, passage)
        return
    answer = reader.answer(question, passage, n_best=5)
    for span in (answer, *answer.n_best):
        assert passage[span.start : span.end] == span.text
        assert 0 <= span.start < span.end <= len(passage)
        assert span.text == span.text.strip()
        assert 0 < span.probability <= 1
        assert len(tokenize(span.text).words) >= 1


# === The best spans ===


@pytest.mark.parametrize("number", range(len(DATA.passages)))
def test_the_n_best_are_those_of_a_search_through_all_spans(reader, number):
    passage = DATA.passages[number]
    expected = every_span(*logits_of(reader, "Who built it?", passage), passage)
    answer = reader.answer("Who built it?", passage, n_best=9)
    assert (answer.text, answer.start, answer.end, answer.probability) == dataclasses.astuple(answer.n_best[0])
    for span, wanted in zip(answer.n_best, expected[:9], strict=True):
        assert (span.text, span.start, span.end) == (wanted.text, wanted.start, wanted.end)
        assert span.probability == pytest.approx(wanted.probability, rel=1e-3, abs=1e-7)


def test_the_n_best_are_sorted_and_distinct_and_all_there_are(reader):
    # 5 tokens have 5 + 4 + 3 + 2 spans of at most 4 tokens.
    answer = reader.answer("Who came?", "Ada came by night.", n_best=50)
    spans = [(span.start, span.end) for span in answer.n_best]
    assert len(spans) == len(set(spans)) == 14
    probabilities = [span.probability for span in answer.n_best]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) < 1
    assert reader.answer("Who came?", "Ada", n_best=50).n_best == (Span("Ada", 0, 3, pytest.approx(1.0)),)
    assert len(reader.answer("Who came?", "Ada came by night.").n_best) == 1


def test_the_longest_answer_is_the_configurations():
    for max_answer in (1, 2):
        reader = make_reader(WORDS, max_answer=max_answer)
        answers = reader.answer("Who?", DATA.passages[3], n_best=100).n_best
        lengths = {len(tokenize(span.text).words) for span in answers}
        assert lengths == set(range(1, max_answer + 1))


# === Passages of more tokens than a window ===

TOKENS = 60
LONG = " ".join(f"w{number:02}" for number in range(TOKENS))


@pytest.fixture(scope="module")
def long_reader():
    """A reader whose borders are the first and the second word of the question, wherever those stand in the passage."""
    reader = make_reader([f"w{number:02}" for number in range(TOKENS)], max_answer=MAX_ANSWER)

    def of_batch(inputs):
        words, question = (
            tf.gather(inputs["unique_words"], inputs[f"{text}_token_index"]) for text in ("passage", "question")
        )
        words = tf.gather(words, inputs["passage_index"])
        borders = {"start_logits": question[:, :1], "end_logits": question[:, 1:2]}
        # The word's own logit differs from token to token, so that no two spans are alike.
        own = tf.cast(words % 7, tf.float32) / 10
        return {
            name: tf.where(words == 0, -1e9, tf.where(words == border, 10.0, own)).numpy()
            for name, border in borders.items()
        }

    def logits(rows, batches):
        return map(of_batch, batches_to_read(rows, batches))

    return reader, logits


def windowed(long_reader, max_passage):
    reader, logits = long_reader
    resized_reader = resized(reader, max_passage)
    resized_reader._logits = logits
    return resized_reader


def own_logits(first, last):
    """What `long_reader` thinks of the tokens of `LONG`; its ids begin at 2."""
    own = (np.arange(TOKENS) + 2) % 7 / 10
    start, end = own.copy(), own.copy()
    start[first], end[last] = 10.0, 10.0
    return start, end


@pytest.mark.parametrize("max_passage", [1, 7, 16, 60])
def test_every_token_of_a_long_passage_can_begin_and_end_the_answer(long_reader, max_passage):
    reader = windowed(long_reader, max_passage)
    spans = [(i, i + more) for more in (0, MAX_ANSWER - 1) for i in range(TOKENS - more)]
    answers = reader.answer_batch([f"w{i:02} w{j:02}" for i, j in spans], [LONG] * len(spans))
    for (i, j), answer in zip(spans, answers, strict=True):
        assert (answer.start, answer.end) == (4 * i, 4 * j + 3)
        assert answer.text == LONG[answer.start : answer.end]
        assert answer.probability > 0.9


@pytest.mark.parametrize("max_passage", [1, 2, 7, 16, 59, 60, 512])
def test_windows_change_neither_order_nor_probabilities(long_reader, max_passage):
    # Ends before starts, and starts and ends too far apart to be taken together, too.
    borders = [(30, 10), (5, 50), (0, 59), (59, 0), (58, 59), (20, 25)]
    reader = windowed(long_reader, max_passage)
    answers = reader.answer_batch([f"w{i:02} w{j:02}" for i, j in borders], [LONG] * len(borders), n_best=6)
    for (i, j), answer in zip(borders, answers, strict=True):
        expected = every_span(*own_logits(i, j), LONG)
        assert [span.probability for span in answer.n_best] == pytest.approx(
            [span.probability for span in expected[:6]], rel=1e-4
        )
        assert len({(span.start, span.end) for span in answer.n_best}) == 6
        for span in answer.n_best:
            assert 1 <= len(span.text.split()) <= MAX_ANSWER
        assert answer.probability == pytest.approx(expected[0].probability, rel=1e-4)


@pytest.mark.parametrize("max_passage", [5, 12, 25, 29, 30])
def test_a_long_passage_with_the_real_model(reader, max_passage):
    passage = DATA.passages[3]
    assert len(tokenize(passage).words) == 30
    answer = resized(reader, max_passage).answer("When does it hunt?", passage, n_best=20)
    assert len(answer.n_best) == 20
    for span in answer.n_best:
        assert passage[span.start : span.end] == span.text
        assert 1 <= len(tokenize(span.text).words) <= MAX_ANSWER
    unwindowed = reader.answer("When does it hunt?", passage, n_best=20)
    if max_passage == 30:
        assert_same([answer], [unwindowed])
    else:
        assert [span.probability for span in answer.n_best] != [span.probability for span in unwindowed.n_best]


def test_only_the_passages_that_do_not_fit_are_cut(reader):
    lengths = np.array([10, 31, 0, 16, 17])
    questions = tuple(Question(str(number), "who", number, ()) for number in range(5))
    passages = tuple(" ".join(["x"] * length) for length in lengths)
    rows = resized(reader, 16)._rows(tokenize_dataset(SquadData("x", passages, ("",) * 5, questions)))
    # 31 tokens in windows of 16 that share 8 or more; the passage without a token is not read at all
    assert rows.questions.tolist() == [0, 1, 1, 1, 3, 4, 4]
    assert rows.offsets.tolist() == [0, 0, 8, 15, 0, 0, 1]
    assert rows.lengths.tolist() == [10, 16, 16, 16, 16, 16, 16]


# === Nothing to read ===


def test_a_passage_without_a_word_in_a_dataset_has_no_answer(reader):
    pairs = [("Who?", ""), ("Who came?", "Ada came."), ("Who?", " \n\t\u00a0"), ("Why?", "Bob.")]
    answers = ask(reader, pairs, n_best=2)
    assert answers[0] == answers[2] == NO_ANSWER
    assert (NO_ANSWER.text, NO_ANSWER.start, NO_ANSWER.end, NO_ANSWER.probability) == ("", 0, 0, 0.0)
    assert_same([answers[1], answers[3]], [reader.answer(*pairs[1], n_best=2), reader.answer(*pairs[3], n_best=2)])
    assert ask(reader, [("Who?", ""), ("", " ")]) == [NO_ANSWER, NO_ANSWER]


def test_a_question_without_a_word_in_a_dataset_still_gets_a_span(reader):
    answers = ask(reader, [(" ", "Ada came."), ("Who came?", "Bob went home.")]) + ask(reader, [("", "Ada came.")])
    assert answers[0].text in "Ada came."
    assert 0 < answers[0].probability <= 1
    assert_same(answers[2:], answers[:1])


@pytest.mark.parametrize(
    ("question", "passage", "message"),
    [
        ("", "Ada came.", "^question 0 holds no word, found ''$"),
        ("\u00a0\n", "Ada came.", r"^question 0 holds no word, found '\\xa0\\n'$"),
        ("Who?", "", "^passage 0 holds no word, found ''$"),
        ("Who?", "\t \u3000", "^passage 0 holds no word"),
        (None, "Ada came.", "^question 0 holds no word, found None$"),
        ("Who?", 3, "^passage 0 holds no word, found 3$"),
    ],
)
def test_blank_texts_are_refused(reader, question, passage, message):
    with pytest.raises(UserError, match=message):
        reader.answer(question, passage)


def test_the_blank_text_among_many_is_named(reader):
    with pytest.raises(UserError, match=r"^passage 2 holds no word, found ' '$"):
        reader.answer_batch(["a", "b", "c"], ["x", "y", " "])
    with pytest.raises(UserError, match=r"^expected as many questions as passages, found 2 and 1$"):
        reader.answer_batch(["a", "b"], ["x"])


def test_a_window_needs_a_token(reader):
    with pytest.raises(UserError, match=r"^max_passage must be from 1 to 4096, found 0$"):
        resized(reader, 0)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="expected a folder written by fabir-train"):
        Reader.load(tmp_path)


def test_of_a_very_long_question_the_beginning_is_read(reader, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_QUESTION", 3)
    passage = DATA.passages[0]
    assert reader.answer("Who built the mill there?", passage) == reader.answer("Who built the", passage)
    assert reader.answer("Who built the", passage) != reader.answer("Who built", passage)


# === Precision ===


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_reads_nearly_alike(precision, tiny_run):
    """The weights of one run; answers may differ where two spans are nearly alike, probabilities in the third digit."""
    whole, half = (Reader.load(tiny_run.path, precision=name) for name in ("float32", precision))
    assert half.model.get_layer("highway").compute_dtype == precision.removeprefix("mixed_")
    assert keras.config.dtype_policy().name == "float32"
    question, passage = "Who built the mill?", "The old mill was built by Anna Keld in 1712."
    logits = [logits_of(reader, question, passage) for reader in (whole, half)]
    for one, other in zip(*logits, strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(other, one, atol=0.15)
        assert (one != other).any()


def test_an_unknown_precision_is_refused(tiny_run):
    with pytest.raises(UserError, match=r"precision must be one of float32, mixed_bfloat16, .*, found 'half'"):
        Reader.load(tiny_run.path, precision="half")
