"""The reader: the same answer in every way of asking, text that is the passage's own, passages of any length."""

import copy
import dataclasses
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, make_reader, squad_data

from fabir_tf.backends import bfloat16
from fabir_tf.layers import SpanDecoder
from fabir_tf.models import build_model
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features import batch_planning
from fabir_tf.pipelines.features.tensor_batches import batches_to_read
from fabir_tf.pipelines.features.windows import reading_examples
from fabir_tf.pipelines.text import two_texts
from fabir_tf.pipelines.text.readable import is_blank, is_without_spaces
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.reading import reader as module
from fabir_tf.reading import text_reader
from fabir_tf.reading.answers import NO_ANSWER, QuestionAnswerer, Span, as_texts, validate_n_best
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.no_answer import NoAnswerCalibration
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import FORMAT, RunDirectory

ROOT = Path(__file__).parents[1]

MAX_ANSWER = 4
DATA = squad_data(ARTICLES + DEV_ARTICLES)
WORDS = sorted({word.lower() for text in DATA.passages for word in tokenize(text).words})


@pytest.fixture(scope="module")
def reader():
    return make_reader(WORDS, max_answer=MAX_ANSWER)


def resized(reader, max_passage):
    """The same reader with another window."""
    return Reader(reader.model, reader.processor, reader.config, max_passage)


def asked(pairs):
    """A dataset with one passage per question."""
    questions = tuple(Question(str(number), question, number, ()) for number, (question, _) in enumerate(pairs))
    return SquadData("asked", tuple(passage for _, passage in pairs), ("",) * len(pairs), questions)


def ask(reader, pairs, n_best=1):
    """Answers of a dataset, as an evaluation gets them."""
    return reader.predict(asked(pairs), n_best)


def assert_same(actual, expected, tolerance=1e-5):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert (one.is_answer, len(one.n_best)) == (other.is_answer, len(other.n_best))
        assert one.no_answer_probability == pytest.approx(other.no_answer_probability, abs=tolerance)
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
    inputs, vocabulary = {}, reader.processor.vocabulary
    for name, text in (("passage", passage), ("question", question)):
        words = tokenize(text).words
        inputs[f"{name}_words"] = vocabulary.word_ids(words)[None]
        inputs[f"{name}_characters"] = vocabulary.character_ids(words, 20)[None]
    logits = reader.model(inputs, training=False)
    return [logits[name][0].numpy() for name in ("start_logits", "end_logits", "null_logits") if name in logits]


# === One question or many ===


@pytest.fixture
def small_batches(monkeypatch):
    """Several batches even for a few questions."""
    monkeypatch.setattr(batch_planning, "BATCH_EXAMPLES", 4)
    monkeypatch.setattr(batch_planning, "BATCH_TOKENS", 70)


@pytest.mark.slow
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


@pytest.mark.slow
def test_questions_of_many_chunks_are_answered_in_their_order(reader, monkeypatch):
    """A passage's questions are read together wherever they are, while the next chunk is tokenized."""
    pairs = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
    pairs = [pairs[i] for i in np.random.default_rng(2).permutation(len(pairs))]
    texts = [list(part) for part in zip(*pairs, strict=True)]
    together = reader.answer_batch(*texts, n_best=2)
    monkeypatch.setattr(text_reader, "FIRST_CHUNK", 1)
    monkeypatch.setattr(text_reader, "LARGEST_CHUNK", 4)
    tokenized, original = [], reader.processor.tokenize
    monkeypatch.setattr(
        reader.processor, "tokenize", lambda data, **options: tokenized.append(data) or original(data, **options)
    )
    assert_same(reader.answer_batch(*texts, n_best=2), together)
    assert len(tokenized) == 1 + -(-(len(pairs) - 1) // 4)
    assert sum(len(data.questions) for data in tokenized) == len(pairs)
    again = sum(len(data.passages) for data in tokenized) - len({passage for _, passage in pairs})
    assert 0 <= again < len(tokenized)
    assert reader.answer_batch([], []) == []


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, [0]), (1, [0, 1]), (256, [0, 256]), (800, [0, 256, 800]), (20000, [0, 256, 1280, 5376, 13568, 20000])],
)
def test_chunks_grow(count, expected):
    assert list(text_reader._chunk_bounds(count)) == expected


def test_a_failure_ahead_is_raised_after_the_items_before_it(reader):
    def items():
        yield 1
        yield 2
        raise ValueError("third")

    found = []
    with pytest.raises(ValueError, match="third"):
        found.extend(2 * item for item in reader._one_ahead(items()))
    assert found == [2, 4]


@pytest.mark.slow
def test_answers_are_in_the_order_of_the_dataset(reader, small_batches):
    reported = []
    tokenized = reader.processor.tokenize(DATA)
    answers = reader.predict(tokenized, progress=lambda done, total: reported.append((done, total)))
    assert len(answers) == len(DATA.questions) == 16
    for question, answer in zip(DATA.questions, answers, strict=True):
        passage = DATA.passages[question.passage]
        assert passage[answer.start : answer.end] == answer.text != ""
        assert_same([answer], [reader.answer(question.text, passage)])
    done = [part for part, _ in reported]
    assert {total for _, total in reported} == {16}
    assert done == sorted(done)
    assert done[-1] == 16
    # At most 4 questions a batch, and fewer of the longer passages.
    assert len(done) > 4
    assert max(np.diff([0, *done])) == 4


def test_batches_hold_no_more_tokens_than_allowed(small_batches):
    lengths = np.array([31, 10, 16, 10, 26, 31, 90, 16, 1, 10, 10, 26])
    batches = list(batch_planning.reading_batches(lengths))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= 4
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= 70
    assert [lengths[batch].tolist() for batch in batches] == [[1, 10, 10, 10], [10, 16, 16], [26, 26], [31, 31], [90]]
    assert not list(batch_planning.reading_batches(np.zeros(0, np.int64)))


@pytest.mark.parametrize(
    ("length", "examples", "expected"),
    [(4096, 2, [1, 1]), (2000, 9, [4, 4, 1]), (512, 90, [64, 26]), (100, 600, [480, 120])],
)
def test_batches_hold_no_more_pairs_of_tokens_than_allowed(length, examples, expected):
    assert [len(batch) for batch in batch_planning.reading_batches(np.full(examples, length))] == expected


READ_AT_ONCE = """
from pathlib import Path
from tiny import make_reader
reader = make_reader([f"w{number}" for number in range(50)], max_passage=4096, num_heads=4)
passage = " ".join(f"w{number % 50}" for number in range(4096))
print(repr(reader.answer("w1 w2", passage).text))
# Not ru_maxrss, which includes the memory of the parent process.
print(*[line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")])
"""


@pytest.mark.slow
def test_a_passage_of_4096_tokens_is_read_at_once_within_two_gigabytes():
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run(
        [sys.executable, "-c", READ_AT_ONCE], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    answer, kibibytes = done.stdout.splitlines()[-2:]
    assert answer.startswith("'w")
    assert int(kibibytes) * 1024 < 2e9


@pytest.mark.slow
def test_all_lengths_share_one_trace(reader):
    fresh = resized(reader, 512)
    for words in (1, 2, 5, 19, 40, 7):
        fresh.answer("who? " * words, "word " * words)
    ask(fresh, [("a", "b c"), ("a b c d", "e f g")])
    assert fresh._logits._logits.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_a_loaded_reader_answers_without_a_graph_first_and_the_same_afterwards(tiny_run):
    fresh, passage = Reader.load(tiny_run.path), DATA.passages[0]
    answers = [fresh.answer(question, passage) for question in ["Who built the mill?", "Who?"] * 4]
    assert fresh._logits._logits.experimental_get_tracing_count() == 1
    for number, answer in enumerate(answers):
        assert answer.text == answers[number % 2].text
        assert answer.probability == pytest.approx(answers[number % 2].probability, rel=1e-4)
    many = Reader.load(tiny_run.path)
    many.answer_batch(["Who built the mill?"] * 9, [passage] * 9)
    assert many._logits._logits.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_a_decoder_is_traced_once_for_each_power_of_two(reader, monkeypatch):
    """A new graph for every number of spans would take longer than reading does."""
    traces, call = [], SpanDecoder.call

    def counted(decoder, *logits):
        traces.append(decoder.n_best)
        return call(decoder, *logits)

    monkeypatch.setattr(SpanDecoder, "call", counted)
    fresh = resized(reader, 512)
    for n_best in (3, 4, 1, 2, 3, 7, 1000, 5, 513, 1):
        answer = fresh.answer("Who built it?", DATA.passages[0], n_best)
        assert len(answer.n_best) == min(n_best, 38)
        fresh.answer("Who built it there?", DATA.passages[3], n_best)
    list(fresh.scores(DATA))
    assert sorted(traces) == [1, 2, 4, 8, 1024]


# === Threads ===


@pytest.mark.slow
def test_several_threads_get_the_answers_of_one(reader):
    pairs = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
    # Each thread asks about other texts, and the first ones make the decoders.
    parts = [[list(texts) for texts in zip(*pairs[i::4], strict=True)] for i in range(4)]
    expected = [reader.answer_batch(*part, n_best=3) for part in parts]
    fresh = resized(reader, 25)
    windowed = [resized(reader, 25).answer_batch(*part, n_best=3) for part in parts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for asked_reader, wanted in ((reader, expected), (fresh, windowed)):
            with ThreadPoolExecutor(8) as pool:
                jobs = [pool.submit(asked_reader.answer_batch, *parts[i % 4], n_best=3) for i in range(40)]
                for number, job in enumerate(jobs):
                    assert_same(job.result(), wanted[number % 4])
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.slow
def test_repeated_calls_create_no_threads(reader, monkeypatch):
    monkeypatch.setattr(text_reader, "FIRST_CHUNK", 2)
    questions = [question.text for question in DATA.questions]
    passages = [DATA.passages[question.passage] for question in DATA.questions]
    # Pools start their threads one by one, when there is work for them.
    for _ in range(4):
        reader.answer_batch(questions, passages)
    threads = threading.active_count()
    for _ in range(10):
        reader.answer_batch(questions, passages)
        reader.predict(DATA)
    assert threading.active_count() == threads


def test_no_questions_no_answers(reader):
    assert reader.answer_batch([], []) == []


# === The text is the passage's ===


# Besides random passages, those that broke the offsets of other readers.
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
    question=st.sampled_from(["Who?", "\ud83d 😀 x", "a-b/c 'd'"]),
)
def test_an_answer_is_a_segment_of_any_passage(reader, passage, question):
    if is_blank(passage) or is_without_spaces(passage):
        assert reader.answer(question, passage) == NO_ANSWER
        return
    answer = reader.answer(question, passage, n_best=5)
    for span in (answer, *answer.n_best):
        assert passage[span.start : span.end] == span.text
        assert 0 <= span.start < span.end <= len(passage)
        assert span.text == span.text.strip()
        assert 0 < span.probability <= 1
        assert len(tokenize(span.text).words) >= 1


# === The best spans ===


@pytest.mark.slow
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


@pytest.mark.slow
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
    """A reader that starts at the question's first word and ends at its second, wherever these are in the passage."""
    reader = make_reader([f"w{number:02}" for number in range(TOKENS)], max_answer=MAX_ANSWER)

    def of_batch(inputs):
        words, question = (
            tf.gather(inputs["unique_words"], inputs[f"{text}_token_index"]) for text in ("passage", "question")
        )
        words = tf.gather(words, inputs["passage_index"])
        chosen = {"start_logits": question[:, :1], "end_logits": question[:, 1:2]}
        # The word's own logit differs from token to token, so that no two spans are alike.
        own = tf.cast(words % 7, tf.float32) / 10
        return {
            name: tf.where(words == 0, -1e9, tf.where(words == word, 10.0, own)).numpy()
            for name, word in chosen.items()
        }

    def logits(features, batches):
        return map(of_batch, batches_to_read(features, batches))

    return reader, logits


def windowed(long_reader, max_passage):
    reader, logits = long_reader
    resized_reader = resized(reader, max_passage)
    resized_reader._logits = logits
    return resized_reader


def own_logits(first, last):
    """The logits of `long_reader` for the tokens of `LONG`; its ids begin at 2."""
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
    # Includes ends before starts, and starts and ends too far apart for one span.
    words = [(30, 10), (5, 50), (0, 59), (59, 0), (58, 59), (20, 25)]
    reader = windowed(long_reader, max_passage)
    answers = reader.answer_batch([f"w{i:02} w{j:02}" for i, j in words], [LONG] * len(words), n_best=6)
    for (i, j), answer in zip(words, answers, strict=True):
        expected = every_span(*own_logits(i, j), LONG)
        assert [span.probability for span in answer.n_best] == pytest.approx(
            [span.probability for span in expected[:6]], rel=1e-4
        )
        assert len({(span.start, span.end) for span in answer.n_best}) == 6
        for span in answer.n_best:
            assert 1 <= len(span.text.split()) <= MAX_ANSWER
        assert answer.probability == pytest.approx(expected[0].probability, rel=1e-4)


def test_the_window_that_says_no_answer_least_decides(long_reader):
    """The windows without the answer rightly say "no answer"."""
    reader, logits = long_reader

    def with_null(features, batches):
        for outputs in logits(features, batches):
            found = outputs["start_logits"].max(axis=1, keepdims=True) == 10
            yield outputs | {"null_logits": np.where(found, [[4.0, 1.0]], [[2.0, 30.0]]).astype(np.float32)}

    config = reader.config.replace(null_head=True)
    windowed_reader = Reader(build_model(config), reader.processor, config, 7)
    windowed_reader._logits = with_null
    answers = windowed_reader.answer_batch([f"w{i:02} w{i:02}" for i in range(TOKENS)], [LONG] * TOKENS)
    for i, answer in enumerate(answers):
        start, end = own_logits(i, i)
        best = every_span(start, end, LONG)[0]
        assert answer.score == pytest.approx(start.max() + end.max() - 4 - 1, abs=1e-4)
        assert answer.no_answer_probability == pytest.approx(1 / (1 + np.exp(answer.score)), rel=1e-4)
        # Without a threshold, the reader assumes that there is an answer.
        assert (answer.start, answer.probability) == (4 * i, pytest.approx(best.probability, rel=1e-4))
    (scores,) = windowed_reader.scores(asked([("w30 w30", LONG)]))
    assert scores.null_logits.tolist() == [4, 1]


@pytest.mark.slow
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


def test_only_the_passages_that_do_not_fit_are_cut():
    examples = reading_examples(np.array([10, 31, 0, 16, 17]), np.full(5, 16))
    # 31 tokens in windows of 16 that share 8 or more; the passage without a token is not read.
    assert examples.questions.tolist() == [0, 1, 1, 1, 3, 4, 4]
    assert examples.offsets.tolist() == [0, 0, 8, 15, 0, 0, 1]
    assert examples.lengths.tolist() == [10, 16, 16, 16, 16, 16, 16]


# === Nothing to read ===


BLANK = ("", " ", "\n", " \n\t\u00a0\u3000", "...", "?!", "\u200b", "\ufeff\u00ad", "😀", "_")


def test_where_a_text_is_blank_the_reader_does_not_answer(reader):
    """In any mixture; the other questions get the answers that they get alone."""
    good = [("Who came?", "Ada came."), ("Why?", "Bob.")]
    pairs = [(question, "Ada came.") for question in BLANK] + [("Who came?", passage) for passage in BLANK]
    pairs += [(blank, blank) for blank in BLANK]
    expected = [reader.answer(*pair, n_best=2) for pair in good]
    mixed = [good[0], *pairs, good[1]]
    for answers in (reader.answer_batch(*map(list, zip(*mixed, strict=True)), n_best=2), ask(reader, mixed, n_best=2)):
        assert answers[1:-1] == [NO_ANSWER] * len(pairs)
        assert_same([answers[0], answers[-1]], expected)
    assert ask(reader, pairs) == reader.answer_batch(*zip(*pairs, strict=True)) == [NO_ANSWER] * len(pairs)
    assert [reader.answer(*pair) for pair in pairs] == [NO_ANSWER] * len(pairs)
    assert list(reader.scores(asked(pairs))) == []


def test_blank_is_the_same_in_every_version_of_the_rules(reader, monkeypatch):
    monkeypatch.setattr(reader.processor, "rules", 1)
    assert reader.answer_batch(["...", "Who?", "?"], ["Ada came.", "...", "\u200b"]) == [NO_ANSWER] * 3


CHINESE, THAI, MIXED = "艾达来了。", "เอด้ามาแล้ว", "Ada (艾达) came."


def test_a_passage_in_a_script_without_spaces_is_not_read_and_that_is_said_once(reader):
    lines = []
    said = Reader(reader.model, reader.processor, reader.config, log=lines.append)
    assert said.answer("Who came?", MIXED).is_answer and said.answer("谁来了?", "Ada came.").is_answer
    assert not lines
    for _ in range(2):
        answers = said.answer_batch(["Who came?"] * 3, [CHINESE, MIXED, THAI])
        assert [answers[0], answers[2]] == [NO_ANSWER] * 2
        assert_same([answers[1]], [reader.answer("Who came?", MIXED)])
    (line,) = lines
    assert "this reader reads English" in line


def test_a_reader_without_a_log_warns_once(reader):
    silent = Reader(reader.model, reader.processor, reader.config)
    with pytest.warns(UserWarning, match="this reader reads English") as found:
        assert [silent.answer("Who came?", text) for text in (CHINESE, THAI)] == [NO_ANSWER] * 2
    assert len(found) == 1


def test_a_processor_that_cuts_such_scripts_reads_them(reader, monkeypatch):
    monkeypatch.setattr(reader.processor, "needs_spaces", False, raising=False)
    assert reader.answer("Who came?", CHINESE).is_answer


def test_the_answer_of_a_blank_text():
    assert list(NO_ANSWER.to_dict().items()) == [
        ("answer", ""),
        ("start", 0),
        ("end", 0),
        ("probability", 0.0),
        ("no_answer_probability", 1.0),
        ("is_answer", False),
        ("score", -1e9),
        ("n_best", []),
    ]


@pytest.mark.parametrize(
    ("question", "passage", "message"),
    [
        (None, "Ada came.", "^question: found None of type NoneType, expected a text$"),
        ("Who?", 3, "^passage: found 3 of type int, expected a text$"),
        ("Who?", b"Ada.", "^passage: found b'Ada.' of type bytes, expected a text$"),
        (["Who?"], "Ada.", r"^question: found \['Who\?'\] of type list, expected a text$"),
        (np.array(["Who?"]), "Ada.", "^question: found array.* of type ndarray, expected a text$"),
        ("Who?", float("nan"), "^passage: found nan of type float, expected a text$"),
    ],
)
def test_a_text_is_a_string(reader, question, passage, message):
    with pytest.raises(UserError, match=message):
        reader.answer(question, passage)


def test_there_are_as_many_questions_as_passages(reader):
    with pytest.raises(UserError, match=r"^passage 2: found None of type NoneType, expected a text$"):
        reader.answer_batch(["a", "b", "c"], ["x", "y", None])
    with pytest.raises(UserError, match=r"^expected as many questions as passages, found 2 and 1$"):
        reader.answer_batch(["a", "b"], ["x"])


class Column:
    """A table's column: the labels of its rows index it, in another order than it has."""

    def __init__(self, values):
        self.values = values
        self.ndim = 1

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        return self.values[-1 - label]


class Table:
    """A table of several columns, whose names it iterates over."""

    ndim = 2

    def __iter__(self):
        return iter(("question", "passage"))


class Name(str):
    """A text that prints as something else."""

    def __str__(self):
        return "another text"


AS_OTHER_TYPES = {
    "tuple": tuple,
    "generator": lambda texts: (text for text in texts),
    "iterator": iter,
    "column": Column,
    "array": np.array,
    "array of objects": lambda texts: np.array(texts, dtype=object),
    "reversed array": lambda texts: np.array(texts[::-1])[::-1],
    "deque": deque,
    "keys": lambda texts: dict.fromkeys(texts).keys(),
    "map": lambda texts: map(Name, texts),
    "dictionary's values": lambda texts: dict(enumerate(texts)).values(),
}


@pytest.mark.parametrize("make", AS_OTHER_TYPES.values(), ids=AS_OTHER_TYPES)
def test_texts_are_taken_in_their_own_order_whatever_holds_them(make):
    texts = ["Who?", "What?", "Où donc?"]
    found = as_texts("question", make(texts))
    assert found == texts
    assert {type(text) for text in found} == {str}


def test_columns_and_generators_are_answered_in_their_order(reader):
    questions, passages = [f"Who came at {hour}?" for hour in range(4)], [f"At {hour} Ada came." for hour in range(4)]
    expected = reader.answer_batch(questions, passages)
    assert reader.answer_batch(Column(questions), Column(passages)) == expected
    assert reader.answer_batch(np.array(questions), (passage for passage in passages)) == expected
    assert_same([reader.answer(np.array(questions)[1], passages[1])], expected[1:2])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("Who?", "'Who?' of type str"),
        (np.str_("Who?"), "of type str_"),
        (b"Who?", "b'Who?' of type bytes"),
        (bytearray(b"Who?"), "of type bytearray"),
        (None, "None of type NoneType"),
        (3, "3 of type int"),
        (2.5, "2.5 of type float"),
        (True, "True of type bool"),
        ({"Who?": 1}, "{'Who?': 1} of type dict"),
        ({"Who?"}, "{'Who?'} of type set"),
        (frozenset(["Who?"]), "of type frozenset"),
        (np.array("Who?"), "of type ndarray"),
        (np.array([["Who?"]]), "of type ndarray"),
        (Table(), "of type Table"),
        (as_texts, "of type function"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_by_its_type(values, found):
    with pytest.raises(UserError) as error:
        as_texts("question", values)
    assert str(error.value).startswith("questions: found ") and found in str(error.value)
    assert str(error.value).endswith("expected an iterable of texts, such as a list, with one per question")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"Who?", "b'Who?' of type bytes"),
        (None, "None of type NoneType"),
        (7, "7 of type int"),
        (float("nan"), "nan of type float"),
        (np.float32(1), "of type float32"),
        (["Who?"], "['Who?'] of type list"),
        (np.bytes_(b"Who?"), "of type bytes_"),
    ],
)
def test_one_value_that_is_no_text_is_named_before_anything_is_read(reader, monkeypatch, value, found):
    monkeypatch.setattr(reader, "_tokenize_texts", None)
    with pytest.raises(UserError) as error:
        reader.answer_batch(["a", "b"], iter(["x", value]))
    assert str(error.value).startswith("passage 1: found ") and found in str(error.value)


@pytest.mark.parametrize("n_best", [0, -1, 1001, True, "3", 2.0, None, np.bool_(True), np.float64(2), [2], 10**40])
def test_a_number_of_spans_out_of_its_range(reader, n_best):
    message = rf"^n_best must be a whole number from 1 to 1000, found {re.escape(repr(n_best))}$"
    for ask_for in (
        lambda: reader.answer("Who?", "Ada came.", n_best=n_best),
        lambda: reader.answer_batch([], [], n_best),
        lambda: reader.predict(DATA, n_best),
        lambda: reader.in_graph(n_best),
    ):
        with pytest.raises(UserError, match=message):
            ask_for()


@pytest.mark.parametrize("n_best", [2, np.int64(2), np.uint8(2), np.array(2)])
def test_a_number_of_spans_may_be_numpys(n_best):
    number = validate_n_best(n_best)
    assert number == 2 and type(number) is int


def test_a_window_needs_a_token(reader):
    with pytest.raises(UserError, match=r"^max_passage must be a whole number from 1 to 4096, found 0$"):
        resized(reader, 0)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="expected a folder written by fabir-train"):
        Reader.load(tmp_path)


def test_very_long_questions_are_truncated(reader, monkeypatch):
    monkeypatch.setattr(two_texts, "LONGEST_QUESTION", 3)
    passage = DATA.passages[0]
    assert reader.answer("Who built the mill there?", passage) == reader.answer("Who built the", passage)
    assert reader.answer("Who built the", passage) != reader.answer("Who built", passage)


# === No answer ===


@pytest.fixture(scope="module")
def null_reader():
    """A reader with a null head, whose no-answer probabilities differ from question to question."""
    return make_reader(WORDS, max_answer=MAX_ANSWER, null_head=True)


def calibrated(reader, threshold, scale=1.0, bias=0.0, temperature=1.0, **arguments):
    """The same reader with a calibration; the temperature is that of a reader which may abstain."""
    chosen = NoAnswerCalibration(threshold, scale, bias, temperature, questions=1)
    calibration = Calibration(2.0, 1, 1.0, {}, {}, [], chosen)
    return Reader(reader.model, reader.processor, reader.config, calibration=calibration, **arguments)


def spans_at(reader, question, temperature):
    """Probabilities of all spans of a question, given that there is an answer, and the score, in NumPy."""
    passage = DATA.passages[question.passage]
    start, end, null = (part.astype(np.float64) for part in logits_of(reader, question.text, passage))
    both = np.outer(*(np.exp(log_softmax(part / temperature)) for part in (start, end)))
    allowed = np.tril(np.triu(np.ones_like(both)), MAX_ANSWER - 1) > 0
    score = (start[:, None] + end)[allowed].max() - null.sum()
    return np.sort(both[allowed])[::-1], score


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


@pytest.mark.slow
@pytest.mark.parametrize("threshold", ["own", None, 0.4])
def test_probabilities_and_score(null_reader, threshold):
    reader = calibrated(null_reader, 0.6, 0.7, -0.3, 1.5, no_answer_threshold=threshold)
    for question in DATA.questions:
        spans, score = spans_at(null_reader, question, 2.0 if threshold is None else 1.5)
        answer = reader.answer(question.text, DATA.passages[question.passage], n_best=5)
        none = sigmoid(-0.7 * score - 0.3)
        assert answer.score == pytest.approx(score, abs=1e-4)
        assert answer.no_answer_probability == pytest.approx(none, rel=1e-3)
        share = 1 if threshold is None else 1 - none
        assert [span.probability for span in answer.n_best] == pytest.approx(list(share * spans[:5]), rel=1e-3)
        assert answer.is_answer == (threshold is None or none <= (0.6 if threshold == "own" else threshold))
        expected = share * spans[0] if answer.is_answer else none
        assert answer.probability == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_a_reader_with_a_null_head_and_no_calibration_always_answers(null_reader):
    for question in DATA.questions:
        spans, score = spans_at(null_reader, question, 1.0)
        answer = null_reader.answer(question.text, DATA.passages[question.passage])
        assert answer.is_answer
        assert answer.probability == pytest.approx(spans[0], rel=1e-3)
        assert answer.no_answer_probability == pytest.approx(sigmoid(-score), rel=1e-3)


@pytest.mark.slow
def test_a_reader_abstains_above_its_threshold(null_reader):
    always = null_reader.predict(DATA, n_best=3)
    probabilities = sorted(answer.no_answer_probability for answer in always)
    threshold = (probabilities[7] + probabilities[8]) / 2
    answers = calibrated(null_reader, threshold).predict(DATA, n_best=3)
    assert sum(answer.is_answer for answer in answers) == 8
    for answer, same in zip(answers, always, strict=True):
        assert answer.is_answer == (answer.no_answer_probability <= threshold)
        assert (answer.score, answer.no_answer_probability) == (same.score, same.no_answer_probability)
        assert [(span.start, span.end) for span in answer.n_best] == [(span.start, span.end) for span in same.n_best]
        assert answer.probability == (
            answer.n_best[0].probability if answer.is_answer else answer.no_answer_probability
        )
        assert (answer.text, answer.start, answer.end) == (
            (same.text, same.start, same.end) if answer.is_answer else ("", 0, 0)
        )
        keys = ["answer", "start", "end", "probability", "no_answer_probability", "is_answer", "score", "n_best"]
        assert list(answer.to_dict()) == keys
        assert [list(span) for span in answer.to_dict()["n_best"]] == [keys[:4]] * 3
        json.dumps(answer.to_dict())


@pytest.mark.slow
def test_a_given_threshold_replaces_that_of_the_calibration(null_reader):
    for threshold, expected in (("own", 0.5), (0.25, 0.25), (1, 1), (None, None)):
        assert calibrated(null_reader, 0.5, no_answer_threshold=threshold).no_answer_threshold == expected
    answers = calibrated(null_reader, 0.5, no_answer_threshold=0.0).predict(DATA)
    assert not any(answer.is_answer for answer in answers)
    answers = calibrated(null_reader, 0.5, no_answer_threshold=None).predict(DATA)
    assert all(answer.is_answer for answer in answers)


@pytest.mark.parametrize("threshold", [1.5, -0.1, float("nan"), True, "0.5", [0.5]])
def test_a_threshold_that_is_none_is_refused(threshold):
    with pytest.raises(UserError, match=r'a number from 0 to 1, None \(always answers\) or "own", found'):
        Reader.load("fabir-base", no_answer_threshold=threshold)


def test_a_threshold_may_be_numpys(null_reader):
    assert null_reader.with_threshold(np.float32(0.5)).no_answer_threshold == 0.5


def test_a_threshold_needs_a_null_head(reader):
    with pytest.raises(UserError, match=r"no_answer_threshold=0\.5: this reader has no null head"):
        Reader(reader.model, reader.processor, reader.config, no_answer_threshold=0.5)


@pytest.mark.parametrize("null_head", [False, True])
def test_the_configuration_of_another_model_is_refused(reader, null_reader, null_head):
    reader = null_reader if null_head else reader
    wrong = reader.config.replace(null_head=not null_head)
    with pytest.raises(UserError, match=f"found a model with{'' if null_head else 'out'} a null head"):
        Reader(reader.model, reader.processor, wrong)


@pytest.mark.slow
def test_without_a_null_head_the_best_span_decides(reader):
    answer = reader.answer("Who built the mill?", DATA.passages[0])
    assert answer.no_answer_probability == pytest.approx(1 - answer.probability)
    always = Calibration(1.0, 1, 1.0, {}, {}, [], NoAnswerCalibration(0.0, questions=1))
    same = Reader(reader.model, reader.processor, reader.config, calibration=always)
    assert same.answer("Who built the mill?", DATA.passages[0]) == answer
    start, end = logits_of(reader, "Who built the mill?", DATA.passages[0])
    assert answer.score == pytest.approx(max(start[i] + end[j] for i, j in short_spans(len(start))), abs=1e-4)


def short_spans(length):
    return [(i, j) for i in range(length) for j in range(i, min(i + MAX_ANSWER, length))]


@pytest.mark.slow
def test_the_scores_are_those_of_the_answers(null_reader):
    reader = Reader(null_reader.model, null_reader.processor, null_reader.config, 20)
    answers = reader.predict(DATA)
    found = {scores.question: scores for scores in reader.scores(DATA)}
    assert found.keys() == set(range(len(answers)))
    for number, answer in enumerate(answers):
        scores = found[number]
        assert (scores.starts[scores.first], scores.ends[scores.last]) == (answer.start, answer.end)
        start, end = scores.probabilities()
        assert len(start) == len(scores.starts) + 1
        share = (1 - start[-1]) * (1 - end[-1])
        assert start[scores.first] * end[scores.last] == pytest.approx(share * answer.probability, rel=1e-4)
        assert scores.score == pytest.approx(answer.score)


# === Runs ===


def test_a_reader_is_a_question_answerer(reader):
    assert isinstance(reader, QuestionAnswerer)
    assert repr(resized(reader, 64)) == f"Reader(fabir, max_passage=64, max_answer={MAX_ANSWER})"


@pytest.mark.slow
def test_a_run_records_its_format_and_versions(tiny_run, tmp_path):
    content = json.loads((tiny_run.path / "config.json").read_text())
    assert content["format"] == FORMAT == 2
    assert {"fabir_tf", "keras", "backend", "tensorflow", "nltk", "numpy"} <= content["versions"].keys()
    assert content["versions"]["keras"] == keras.__version__
    assert not RunDirectory(tiny_run.path).is_old
    later = RunDirectory(shutil.copytree(tiny_run.path, tmp_path / "later"))
    later.config.write_text(json.dumps(content | {"format": 3}))
    with pytest.raises(UserError, match=r"config\.json: found format the number 3, expected at most 2"):
        Reader.load(later.path)


@pytest.mark.slow
def test_python_warns_of_another_tokenizer(tiny_run, tmp_path):
    run = RunDirectory(shutil.copytree(tiny_run.path, tmp_path / "run"))
    path = run.processor / "processor.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer": "0+nltk-1.0"}))
    with pytest.warns(UserWarning, match=r"saved with the tokenizer 0\+nltk-1\.0, this installation has "):
        Reader.load(run.path)
    said = []
    Reader.load(run.path, log=said.append)
    assert sum("0+nltk-1.0" in line for line in said) == 1


def longest(reader):
    spans = reader.answer("Who built the mill?", "The old mill was built by Anna Keld.", n_best=100).n_best
    return max(len(tokenize(span.text).words) for span in spans)


@pytest.mark.slow
def test_the_longest_answer_can_be_changed(commands, tiny_run, tmp_path):
    assert longest(Reader.load(tiny_run.path)) == 9
    reader = Reader.load(tiny_run.path, max_answer=2)
    assert (longest(reader), repr(reader)) == (2, "Reader(fabir, max_passage=512, max_answer=2)")
    with pytest.raises(UserError, match=r"max_answer must be .*, found 0"):
        Reader.load(tiny_run.path, max_answer=0)
    flags = [f"--run_dir={tiny_run.path}", "--max_answer=1"]
    result = commands(
        "predict", *flags, "--n_best=50", "--question=Who built it?", "--passage=Anna Keld built the mill."
    )
    assert result.status == 0, result
    assert len(json.loads(result.stdout)["n_best"]) == len(tokenize("Anna Keld built the mill.").words)
    output = tmp_path / "predictions.json"
    result = commands("evaluate", *flags, f"--dataset={tiny_run.dev}", f"--output_file={output}")
    assert result.status == 0, result
    assert {len(tokenize(text).words) for text in json.loads(output.read_text()).values()} == {1}
    # What no answer of this reader can reach is not promised.
    assert "Answers of more than --max_answer=1 tokens, which cannot be predicted whole: 3." in result.stderr
    for command in ("predict", "evaluate", "export"):
        assert_error(commands, command, ["--max_answer=0"], ["--max_answer=0", "expected a positive integer"])


# === Precision ===


@pytest.fixture
def computes_in_bfloat16(monkeypatch):
    """A processor that has bfloat16."""
    monkeypatch.setattr(bfloat16, "processor_features", lambda: frozenset({"avx2", "avx512_bf16"}))


@pytest.fixture
def has_no_bfloat16(monkeypatch):
    """A processor that would compute bfloat16 in software."""
    monkeypatch.setattr(bfloat16, "processor_features", lambda: frozenset({"avx2", "avx512f"}))


@pytest.mark.slow
def test_what_would_be_emulated_is_computed_in_float32(tiny_run, has_no_bfloat16):
    said = []
    reader = Reader.load(tiny_run.path, precision="mixed_bfloat16", log=said.append)
    assert said == [
        "precision=mixed_bfloat16: this processor does not compute in bfloat16, so the reader computes in float32"
    ]
    assert (reader.precision, reader.model.get_layer("highway").compute_dtype) == ("float32", "float32")
    with pytest.warns(UserWarning, match="the reader computes in float32"):
        Reader.load(tiny_run.path, precision="mixed_bfloat16")
    # float16 is not replaced, and who asks for a precision by the run gets it.
    run = RunDirectory(tiny_run.path)
    for name in ("mixed_bfloat16", "mixed_float16"):
        assert Reader.from_run(run, run.read_model_config(), precision=name, log=said.append).precision == name
    assert len(said) == 1


@pytest.mark.parametrize("features", [{"avx2", "avx512_bf16"}, {"avx2", "avx_ne_convert"}, set()])
def test_bfloat16_stays_where_it_pays_or_nothing_is_known(features, monkeypatch):
    monkeypatch.setattr(bfloat16, "processor_features", lambda: frozenset(features))
    assert not bfloat16.is_emulated(bfloat16.BFLOAT16)


def test_an_accelerator_computes_in_bfloat16(has_no_bfloat16, monkeypatch):
    assert bfloat16.is_emulated(bfloat16.BFLOAT16)
    monkeypatch.setattr(bfloat16.backend, "computes_on_cpu", lambda: False)
    assert not bfloat16.is_emulated(bfloat16.BFLOAT16)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_reads_nearly_alike(precision, tiny_run, computes_in_bfloat16):
    """The weights of one run; answers may differ where two spans are nearly alike, probabilities in the third digit."""
    whole, half = (Reader.load(tiny_run.path, precision=name) for name in ("float32", precision))
    assert half.model.get_layer("highway").compute_dtype == precision.removeprefix("mixed_")
    assert (whole.precision, half.precision) == ("float32", precision)
    assert keras.config.dtype_policy().name == "float32"
    question, passage = "Who built the mill?", "The old mill was built by Anna Keld in 1712."
    logits = [logits_of(reader, question, passage) for reader in (whole, half)]
    for one, other in zip(*logits, strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(other, one, atol=0.15)
        assert (one != other).any()


@pytest.mark.slow
def test_an_unknown_precision_is_refused(tiny_run):
    with pytest.raises(UserError, match=r"precision must be one of float32, mixed_bfloat16, .*, found 'half'"):
        Reader.load(tiny_run.path, precision="half")


@pytest.mark.slow
def test_threads_that_load_at_once_get_their_own_precision(tiny_run, computes_in_bfloat16):
    """Keras keeps a dtype policy for each thread."""
    policies = ["float32", "mixed_bfloat16", "mixed_float16"] * 2
    barrier = threading.Barrier(len(policies))

    def load(policy):
        barrier.wait()
        reader = Reader.load(tiny_run.path, precision=policy)
        kernel = reader.model.get_layer("highway").compute_dtype
        return (
            kernel,
            keras.config.dtype_policy().name,
            reader.answer("Who built the mill?", DATA.passages[0]).is_answer,
        )

    with ThreadPoolExecutor(len(policies)) as pool:
        found = list(pool.map(load, policies))
    assert found == [(policy.removeprefix("mixed_"), "float32", True) for policy in policies]
    assert keras.config.dtype_policy().name == "float32"


# === Other processes ===


@pytest.mark.slow
def test_a_pickled_reader_is_the_same_reader(tiny_run, monkeypatch, computes_in_bfloat16):
    monkeypatch.chdir(tiny_run.path.parent)
    reader = Reader.load("run", max_passage=50, precision="mixed_bfloat16", max_answer=3)
    reader.calibration = Calibration(0.7, 1, 1.0, {}, {}, [])
    raw = pickle.dumps(reader)
    assert len(raw) < 5000
    monkeypatch.chdir("/")
    for other in (pickle.loads(raw), copy.deepcopy(reader)):
        assert repr(other) == repr(reader)
        assert (other.max_passage, other.config.max_answer, other.temperature) == (50, 3, 0.7)
        assert other.model.get_layer("selector").compute_dtype == "bfloat16"
        assert other.answer("Who built it?", "Anna built it.", 3) == reader.answer("Who built it?", "Anna built it.", 3)
    bias = reader.model.trainable_weights[-1]
    bias.assign(bias + 1.0)
    # A copy would have the weights of the folder.
    for ask in (pickle.dumps, copy.deepcopy):
        with pytest.raises(UserError, match="the weights of the reader's model have changed since it was loaded from "):
            ask(reader)


@pytest.mark.slow
def test_a_reader_goes_through_joblib(tiny_run, tmp_path):
    joblib = pytest.importorskip("joblib")
    reader = Reader.load(tiny_run.path)
    joblib.dump({"readers": [reader]}, tmp_path / "reader.joblib")
    other = joblib.load(tmp_path / "reader.joblib")["readers"][0]
    assert other.answer("Who built it?", "Anna built it.") == reader.answer("Who built it?", "Anna built it.")


def test_a_reader_of_the_package_is_pickled_by_its_name():
    name = pretrained_readers()[0]
    assert module._lasting_name(RunDirectory(pretrained_folder(name))) == name


def test_a_reader_without_a_folder_is_not_pickled(reader):
    for ask in (pickle.dumps, copy.copy):
        with pytest.raises(UserError, match=r"^a reader that was not loaded from a folder cannot be pickled: "):
            ask(reader)


FORKED_USES = {
    "answer": lambda reader: reader.answer("Who?", "Ada came."),
    "answer_batch": lambda reader: reader.answer_batch(["Who?"] * 600, ["Ada came."] * 600),
    "predict": lambda reader: reader.predict(DATA),
    "scores": lambda reader: next(reader.scores(DATA)),
    "another reader": lambda reader: Reader(reader.model, reader.processor, reader.config),
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("use", FORKED_USES.values(), ids=FORKED_USES)
def test_a_fork_is_told_that_it_cannot_read(reader, use):
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)
            use(reader)
        except UserError as error:
            status = 0 if "forked" in str(error) and "'spawn'" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader.answer("Who?", "Ada came.").is_answer


@pytest.mark.slow
def test_a_reader_is_given_to_a_spawned_process(tiny_run):
    reader = Reader.load(tiny_run.path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(reader.answer, ("Who built it?", "Anna built it."))
    assert found == reader.answer("Who built it?", "Anna built it.")
