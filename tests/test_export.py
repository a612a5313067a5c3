"""The SavedModel: the reader's own answers from raw text, for any text, whatever else is in the batch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tiny import ARTICLES, DEV_ARTICLES, EXPORTED_N_BEST, EXPORTED_WINDOW, make_reader, squad_data
from wordpiece_folders import write_bert

from fabir_tf.export import export_reader, saved_model, warm_up
from fabir_tf.export.loading import read_saved_model
from fabir_tf.export.operations import forbidden_operations
from fabir_tf.export.saved_model import written_whole
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.ids import PADDING
from fabir_tf.pipelines.text.readable import is_blank, is_without_spaces
from fabir_tf.pipelines.text.tokenizer import Tokens, tokenize
from fabir_tf.reading.answer_columns import answers_of_columns
from fabir_tf.reading.answers import NO_ANSWER
from fabir_tf.reading.calibration import FIGURES, Calibration
from fabir_tf.reading.graph_reader import TEXT_SPECS, GraphReader
from fabir_tf.reading.inspection import look_inside
from fabir_tf.reading.no_answer import NoAnswerCalibration
from fabir_tf.reading.reader import Reader

C_PROGRAM = Path(saved_model.__file__).parent / "serving" / "answer.c"
DATA = squad_data(ARTICLES + DEV_ARTICLES)
PAIRS = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
PAIRS += [
    ("Who?", " ".join(DATA.passages)),
    ("What does the owl eat?", f"\U0001f989 Caf\u00e9 \u0130\u03a3. {DATA.passages[3]} \u201cna\u00efve\u201d"),
    ("Where does Lake Orrin lie?", DATA.passages[1].upper()),
    ("When? " * 40, DATA.passages[2]),
]

HOSTILE_TEXTS = [
    b"",
    b" ",
    b"\n\t\r\x0b\x0c",
    b"\x00",
    b"\x00\x00mill\x00",
    b"\xff",
    b"\xc3",
    b"mill \xe2\x82 1712 \xf0\x9f",
    b"\xed\xa0\x80 \xed\xb0\x80",
    b"\xf4\x90\x80\x80\xc0\xaf",
    "\ufeffThe mill".encode(),
    "\u2028\u2029\u0085\u00a0\u3000".encode(),
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(),
    ("e" + "\u0301" * 300).encode(),
    "\u0627\u0644\u0637\u0627\u062d\u0648\u0646\u0629 \u05d4\u05d8\u05d7\u05e0\u05d4 1712.".encode(),
    "\u202eThe mill\u202c".encode(),
    "\u53e4\u3044\u98a8\u8eca\u306f\u30a2\u30f3\u30ca\u304c\u5efa\u3066\u305f\u3002".encode(),
    "\uffff\ufffe\U0010ffff".encode(),
    b"mill",
    b"'",
    b"''``\"\"''",
    b"." * 200,
    b"... . . . .",
    b"a" * 5000,
    b"mill " * 3000,
    b"x.y." * 500,
    b"-" * 1000,
    b"1,2,3:4;5",
    b"cannot gonna d'ye",
    b"\\x00 %s {} $1 ${HOME} <b>",
]
HOSTILE = [(text, DATA.passages[0].encode()) for text in HOSTILE_TEXTS]
HOSTILE += [(b"Who built the mill?", text) for text in HOSTILE_TEXTS]


@pytest.fixture(scope="module")
def reader(exported):
    return exported.reader


@pytest.fixture(scope="module")
def folder(exported):
    return exported.folder


@pytest.fixture(scope="module")
def signatures(exported):
    return exported.signatures


@pytest.fixture(scope="module")
def serve(signatures):
    """Answers as a server gives them: arrays by name."""
    return lambda pairs: served_by(signatures["serving_default"], pairs)


def served_by(signature, pairs):
    questions, passages = (tf.constant([pair[i] for pair in pairs], tf.string) for i in (0, 1))
    return {name: value.numpy() for name, value in signature(question=questions, passage=passages).items()}


def row_of(served, row):
    return {name: values[row] for name, values in served.items()}


def assert_same_rows(one, other):
    """Equal texts and offsets; numbers may differ in the last digits, as sums in another order do."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        if "probability" in name or name == "score":
            np.testing.assert_allclose(value, other[name], rtol=1e-3, atol=1e-6)
        else:
            np.testing.assert_array_equal(value, other[name])


# === The answers ===


def assert_readers_answers(served, answers):
    """Everything in `Answer` is served; where there are fewer spans than asked for, the surplus is empty."""
    for row, answer in enumerate(answers):
        found = row_of(served, row)
        assert (found["answer"].decode(), found["start"], found["end"]) == (answer.text, answer.start, answer.end)
        assert found["is_answer"] == answer.is_answer
        for name in ("probability", "no_answer_probability", "score"):
            np.testing.assert_allclose(found[name], getattr(answer, name), rtol=1e-3, atol=1e-6)
        missing = EXPORTED_N_BEST - len(answer.n_best)
        spans = [(span.text, span.start, span.end) for span in answer.n_best] + [("", 0, 0)] * missing
        columns = (found["n_best_answer"], found["n_best_start"], found["n_best_end"])
        assert [(text.decode(), start, end) for text, start, end in zip(*columns, strict=True)] == spans
        probabilities = [span.probability for span in answer.n_best] + [0.0] * missing
        np.testing.assert_allclose(found["n_best_probability"], probabilities, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_answers_are_the_readers(reader, serve):
    assert_readers_answers(serve(PAIRS), reader.answer_batch(*zip(*PAIRS, strict=True), n_best=EXPORTED_N_BEST))


BLANK = ("", " ", "\n", "...", "\u200b")
UNREADABLE = ("艾达来了。", "เอด้ามาแล้ว")
BLANK_PAIRS = [(question, DATA.passages[0]) for question in BLANK]
BLANK_PAIRS += [("Who?", passage) for passage in BLANK + UNREADABLE]
BLANK_PAIRS += [(question, passage) for question in BLANK[2:] for passage in BLANK[2:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pairs",
    [
        BLANK_PAIRS,
        *([pair] for pair in BLANK_PAIRS[::6]),
        [PAIRS[0], *BLANK_PAIRS, PAIRS[-1]],
        [*BLANK_PAIRS, PAIRS[3]],
    ],
    ids=["all blank", "blank question", "blank passage", "both blank", "of marks", "among others", "before another"],
)
def test_blank_texts_have_no_answer(reader, serve, pairs):
    served = serve(pairs)
    answers = reader.answer_batch(*zip(*pairs, strict=True), n_best=EXPORTED_N_BEST)
    assert_readers_answers(served, answers)
    for row, pair in enumerate(pairs):
        assert served["is_answer"][row] == (pair not in BLANK_PAIRS)
        assert_same_rows(row_of(served, row), row_of(serve([pair]), 0))


# === No answer ===


@pytest.fixture(scope="module")
def null_exported(reader, tmp_path_factory):
    """A reader with a null head that abstains from half of the questions, and its signatures."""
    made = make_reader(reader.processor.vocabulary.trainable_words, EXPORTED_WINDOW, null_head=True)
    answers = made.answer_batch(*zip(*PAIRS, strict=True))
    threshold = float(np.median([answer.no_answer_probability for answer in answers]))
    chosen = NoAnswerCalibration(threshold, 1.0, 0.0, 1.3, questions=1)
    made.calibration = Calibration(0.7, 1, 1.0, dict.fromkeys(FIGURES, 0.5), dict.fromkeys(FIGURES, 0.5), [], chosen)
    folder = export_reader(made, tmp_path_factory.mktemp("null"), n_best=EXPORTED_N_BEST)
    return made, folder, tf.saved_model.load(str(folder)).signatures


@pytest.mark.slow
def test_a_reader_that_abstains_is_exported(null_exported):
    """Some of the passages are read in windows."""
    reader, folder, signatures = null_exported
    pairs = [*PAIRS, BLANK_PAIRS[0], BLANK_PAIRS[4], ("Who?", "Ada")]
    answers = reader.answer_batch(*zip(*pairs, strict=True), n_best=EXPORTED_N_BEST)
    assert_readers_answers(served_by(signatures["serving_default"], pairs), answers)
    assert {answer.is_answer for answer in answers[: len(PAIRS)]} == {True, False}
    assert all(answer.n_best for answer in answers[: len(PAIRS)])
    assert_readers_answers(served_by(signatures["serving_default"], BLANK_PAIRS), [NO_ANSWER] * len(BLANK_PAIRS))
    saved = Calibration.load(folder / "assets.extra" / "calibration.json")
    assert saved == reader.calibration
    assert forbidden_operations(read_saved_model(folder)) == []
    assert set(signatures["token_ids"].structured_outputs) == {"start_logits", "end_logits", "null_logits"}


@pytest.mark.long
@pytest.mark.parametrize("bias", [0.0, 25.0, 60.0])
def test_no_span_is_lost_where_there_is_hardly_an_answer(reader, bias):
    """The spans' share is far below the distance of 1 to the float before it."""
    made = make_reader(reader.processor.vocabulary.trainable_words, EXPORTED_WINDOW, null_head=True)
    chosen = NoAnswerCalibration(0.5, 1.0, bias, questions=1)
    made.calibration = Calibration(1.0, 1, 1.0, dict.fromkeys(FIGURES, 0.5), dict.fromkeys(FIGURES, 0.5), [], chosen)
    questions, passages = zip(*PAIRS, strict=True)
    answers = made.answer_batch(questions, passages, n_best=EXPORTED_N_BEST)
    assert max(len(answer.n_best) for answer in answers) == EXPORTED_N_BEST
    served = GraphReader(made, n_best=EXPORTED_N_BEST).answer(tf.constant(questions), tf.constant(passages))
    columns = {name: values.numpy() for name, values in served.items()}
    for found, expected in zip(answers_of_columns(columns, passages, EXPORTED_N_BEST), answers, strict=True):
        assert [span.text for span in found.n_best] == [span.text for span in expected.n_best]
        probabilities = [span.probability for span in expected.n_best]
        assert [span.probability for span in found.n_best] == pytest.approx(probabilities, rel=1e-3, abs=0)


# === The texts and the numbers ===


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"word_match": True}, {"word_match": True, "word_dropout": 0.5}], ids=str)
def test_a_reader_that_compares_spellings_answers_as_a_graph(changes):
    """Its layer needs to know the number of a word's characters before any text is read."""
    reader = make_reader(["the", "mill", "was", "built"], **changes)
    module = GraphReader(reader, n_best=1)
    graph = tf.function(module.answer, input_signature=TEXT_SPECS, autograph=False)
    questions, passages = zip(*PAIRS, strict=True)
    served = graph(tf.constant(questions), tf.constant(passages))
    expected = reader.answer_batch(questions, passages)
    assert [text.decode() for text in served["answer"].numpy()] == [answer.text for answer in expected]


def test_offsets_count_code_points_and_bytes(serve):
    served = serve(PAIRS)
    for row, (_, passage) in enumerate(PAIRS):
        found = row_of(served, row)
        raw = passage.encode()
        for k in range(EXPORTED_N_BEST):
            text = found["n_best_answer"][k].decode()
            assert passage[found["n_best_start"][k] : found["n_best_end"][k]] == text
            assert raw[found["n_best_byte_start"][k] : found["n_best_byte_end"][k]].decode() == text
        for name in ("answer", "start", "end", "byte_start", "byte_end", "probability"):
            assert found[name] == found[f"n_best_{name}"][0]


@pytest.mark.slow
def test_the_temperature_is_in_the_probabilities(reader, serve, tmp_path):
    """At 0.7 starts and ends have probabilities p^(1 / 0.7), normalized; also in the Reader and in `look_inside`."""
    pair = "Who came?", "Ada came on Monday, and Karl on the day after."
    without = Reader(reader.model, reader.processor, reader.config)
    exported = tf.saved_model.load(str(export_reader(without, tmp_path, n_best=1))).signatures["serving_default"]
    found = exported(question=tf.constant(pair[:1]), passage=tf.constant(pair[1:]))
    np.testing.assert_allclose(float(found["probability"][0]), without.answer(*pair).probability, rtol=1e-4)
    plain = look_inside(without, *pair)
    scaled = [part.astype("float64") ** (1 / 0.7) for part in (plain.start, plain.end)]
    start, end = (part / part.sum() for part in scaled)
    allowed = np.tril(np.triu(np.outer(start, end)), reader.config.max_answer - 1)
    np.testing.assert_allclose(float(serve([pair])["probability"][0]), allowed.max(), rtol=1e-4)
    np.testing.assert_allclose(reader.answer(*pair).probability, allowed.max(), rtol=1e-4)
    assert without.answer(*pair).probability != pytest.approx(allowed.max(), rel=1e-2)
    np.testing.assert_allclose(look_inside(reader, *pair).start, start, rtol=1e-4)


@pytest.mark.slow
def test_one_passage_for_many_questions(serve, signatures):
    questions = [question for question, _ in PAIRS[:5]]
    passage = tf.constant([PAIRS[0][1]])
    together = signatures["serving_default"](question=tf.constant(questions), passage=passage)
    expected = serve([(question, PAIRS[0][1]) for question in questions])
    assert_same_rows({name: value.numpy() for name, value in together.items()}, expected)


@pytest.mark.parametrize(("questions", "passages"), [(5, 4), (1, 2), (2, 0), (0, 3)])
def test_numbers_of_texts_that_do_not_belong_together(signatures, questions, passages):
    texts = {"question": ["Who?"] * questions, "passage": [f"Ada came {n} times." for n in range(passages)]}
    request = {name: tf.constant(values, tf.string) for name, values in texts.items()}
    sentence = rf"expected as many passages as questions, or one for all of them; .*\[{passages}\] \[{questions}\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        signatures["serving_default"](**request)


@pytest.mark.slow
def test_an_empty_batch(serve):
    served = serve([])
    assert served["answer"].shape == (0,)
    assert served["n_best_answer"].shape == (0, EXPORTED_N_BEST)


# === Neighbors in the batch ===


@pytest.mark.slow
def test_hostile_rows_do_not_disturb_good_ones(serve):
    assert len(HOSTILE) == 60
    mixed = [pair for pairs in zip(HOSTILE, PAIRS * 4, strict=False) for pair in pairs]
    served = serve(mixed)
    for number, alone in enumerate(PAIRS):
        expected = row_of(serve([alone]), 0)
        for row in range(2 * number + 1, len(mixed), 2 * len(PAIRS)):
            assert_same_rows(row_of(served, row), expected)


@pytest.mark.slow
def test_every_hostile_row_has_an_answer_of_its_passage_or_none(serve):
    served = serve(HOSTILE)
    for row, (question, passage) in enumerate(HOSTILE):
        found = row_of(served, row)
        assert found["answer"] == passage[found["byte_start"] : found["byte_end"]]
        texts = [text.decode("utf-8", "replace") for text in (question, passage)]
        is_read = not any(map(is_blank, texts)) and not is_without_spaces(texts[1])
        assert bool(found["answer"]) == is_read
        assert found["is_answer"] == is_read
        assert 0.0 <= found["probability"] <= 1.0
        if not is_read:
            assert (found["probability"], found["no_answer_probability"]) == (0.0, 1.0)
            assert (found["start"], found["end"]) == (0, 0)


@pytest.mark.slow
def test_a_passage_of_200_000_characters(serve):
    long = "The red fox eats mice. " * 9000
    served = serve([("Who built the mill?", long[:200_000]), PAIRS[0]])
    assert served["answer"][0].decode() in long
    assert_same_rows(row_of(served, 1), row_of(serve(PAIRS[:1]), 0))


@pytest.mark.slow
def test_rows_in_any_order_and_repeated(serve):
    expected = serve(PAIRS)
    random = np.random.default_rng(3)
    for size in (1, 2, 13, 32):
        rows = random.integers(len(PAIRS), size=size)
        # A server fills a batch by repeating a row.
        rows = np.concatenate([rows, np.repeat(rows[-1:], 3)])
        served = serve([PAIRS[row] for row in rows])
        for number, row in enumerate(rows):
            assert_same_rows(row_of(served, number), row_of(expected, row))


# === Ids ===


def test_ids_padded_with_anything(reader, signatures):
    random = np.random.default_rng(0)
    lengths = {"passage": np.array([17, 9, 1], np.int32), "question": np.array([5, 2, 6], np.int32)}
    ids, padded = {}, {}
    for text, length in lengths.items():
        width = length.max() + 4
        is_token = np.arange(width) < length[:, None]
        words = random.integers(1, reader.processor.vocabulary.trainable_rows, (3, width), dtype=np.int32)
        characters = random.integers(0, 20, (3, width, 20), dtype=np.int32)
        ids |= {f"{text}_words": words * is_token, f"{text}_characters": characters * is_token[..., None]}
        padded |= {f"{text}_words": words, f"{text}_characters": characters, f"{text}_length": length}
    expected = reader.model(ids, training=False)
    found = signatures["token_ids"](**{name: tf.constant(value) for name, value in padded.items()})
    is_token = np.arange(21) < lengths["passage"][:, None]
    assert PADDING == 0
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(found[name][is_token], expected[name][is_token], rtol=1e-6, atol=1e-5)
        assert (found[name].numpy()[~is_token] <= -1e8).all()


# === The SavedModel ===


@pytest.mark.slow
@pytest.mark.parametrize(("questions", "step"), [(1, 16), (8, 16), (9, 1)])
def test_few_questions_have_lengths_of_whole_steps(reader, questions, step):
    """Kernels are compiled for each length, which takes longer than to read a passage."""
    module, seen = GraphReader(reader), []
    read = module._deduplicated

    def watched(inputs):
        seen.append({name: inputs[f"{name}_token_index"].shape[1] for name in ("passage", "question")})
        return read(inputs)

    module._deduplicated = watched
    in_one_piece = [pair for pair in PAIRS if len(tokenize(pair[1]).words) <= reader.max_passage]
    pairs = (in_one_piece * questions)[:questions]
    module.answer(*(tf.constant(part) for part in zip(*pairs, strict=True)))
    longest = {
        name: max(len(tokenize(text).words) for text in texts)
        for name, texts in zip(("question", "passage"), zip(*pairs, strict=True), strict=True)
    }
    assert seen == [{name: -(-length // step) * step for name, length in longest.items()}]
    assert any(length % 16 for length in longest.values())


def test_core_operations_alone(folder):
    assert forbidden_operations(read_saved_model(folder)) == []


def test_signatures_have_names_and_a_batch_dimension(signatures):
    assert set(signatures) == {"serving_default", "token_ids"}
    for signature in signatures.values():
        specs = [*signature.structured_input_signature[1].values(), *signature.structured_outputs.values()]
        assert all(spec.shape.rank >= 1 and spec.shape[0] is None for spec in specs)
    names = [*signatures["serving_default"].structured_outputs, "question", "passage"]
    # A REST client would have to send and read these in base64.
    assert not [name for name in names if name.endswith("_bytes")]


@pytest.mark.slow
def test_a_process_that_knows_only_tensorflow(folder, serve, tmp_path):
    program = (
        "import sys, tensorflow as tf\n"
        "served = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "found = served(question=tf.constant([sys.argv[2]]), passage=tf.constant([sys.argv[3]]))\n"
        "assert not [name for name in sys.modules if name.startswith('fabir_tf')]\n"
        "sys.stdout.buffer.write(found['answer'][0].numpy())\n"
    )
    command = [sys.executable, "-I", "-c", program, str(folder), *PAIRS[0]]
    result = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    assert result.stdout == serve(PAIRS[:1])["answer"][0]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_in_c(folder, serve, tmp_path):
    include, libraries = tf.sysconfig.get_include(), tf.sysconfig.get_lib()
    program, names = tmp_path / "answer", ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
    linked = ["-L", libraries, f"-Wl,-rpath,{libraries}", *(f"-l:{name}" for name in names)]
    subprocess.run(["cc", "-Wall", "-Werror", str(C_PROGRAM), "-I", include, *linked, "-o", str(program)], check=True)
    expected = serve(PAIRS[-2:-1])
    result = subprocess.run([program, folder, *PAIRS[-2]], capture_output=True, check=True)
    answer, probability, no_answer = result.stdout.splitlines()
    assert answer == expected["answer"][0]
    np.testing.assert_allclose(float(probability), expected["probability"][0], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(float(no_answer), expected["no_answer_probability"][0], rtol=1e-3, atol=1e-6)
    bert = Reader.load(write_bert(tmp_path / "bert"))
    asked = [program, export_reader(bert, tmp_path / "exported"), *PAIRS[-2]]
    answer, probability, _ = subprocess.run(asked, capture_output=True, check=True).stdout.splitlines()
    expected = bert.answer(*PAIRS[-2])
    assert answer.decode() == expected.text
    np.testing.assert_allclose(float(probability), expected.probability, rtol=1e-3)
    nowhere = subprocess.run([program, tmp_path, "Who?", "Ada."], capture_output=True, check=False)
    assert (nowhere.returncode, b"error: " in nowhere.stderr) == (1, True)


@pytest.mark.long
def test_saved_twice(folder, serve, tmp_path):
    """A second export would lose the words' ids if they were kept in a file beside the graph."""
    loaded = tf.saved_model.load(str(folder))
    tf.saved_model.save(loaded, str(tmp_path / "again"), loaded.signatures)
    again = tf.saved_model.load(str(tmp_path / "again")).signatures["serving_default"]
    questions, passages = (tf.constant([pair[i] for pair in PAIRS]) for i in (0, 1))
    found = again(question=questions, passage=passages)
    assert_same_rows({name: value.numpy() for name, value in found.items()}, serve(PAIRS))


# === The folder ===


@pytest.mark.long
def test_versions_are_counted_and_never_written_over(reader, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.saved_model, "save", lambda module, path, signatures: None)
    monkeypatch.setattr(saved_model, "write_warm_up", lambda path: False)
    assert export_reader(reader, tmp_path).name == "1"
    (tmp_path / "11").mkdir()
    assert export_reader(reader, tmp_path).name == "12"
    assert export_reader(reader, tmp_path, 20).name == "20"
    for name in ("unfinished-30-77", "2024-11", "99999999999999999999"):
        (tmp_path / name).mkdir()
    assert export_reader(reader, tmp_path).name == "21"
    kept = (folder / "saved_model.pb").read_bytes()
    with pytest.raises(UserError, match=r"7 exists, expected a version that does not"):
        export_reader(reader, folder.parent, 7)
    assert (folder / "saved_model.pb").read_bytes() == kept


def test_a_version_that_another_export_has_written_meanwhile_stays(tmp_path):
    folder = tmp_path / "3"
    # What a killed export left may have the number of this process, as in a container.
    (tmp_path / f"unfinished-2-{os.getpid()}").mkdir()
    with written_whole(tmp_path / "2"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", f"unfinished-2-{os.getpid()}"]
    shutil.rmtree(tmp_path)
    with pytest.raises(UserError, match="3 exists by now, written by another export"), written_whole(folder):
        folder.mkdir()
        (folder / "theirs").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["3", "theirs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": 0}, "version .* 0"),
        ({"version": 2**63}, "version must be a whole number from 1 to 9223372036854775807, found 9223372036854775808"),
        *(({"n_best": number}, f"n_best .* {number!r}") for number in (0, 1001, True, "3")),
    ],
)
def test_numbers_out_of_range(reader, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        export_reader(reader, tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_another_nltk_is_refused(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(reader.processor, "tokenize_text", lambda text: Tokens([text], [0], [len(text)]))
    with pytest.raises(UserError, match=r"nltk-.* into other tokens than the graph does, .* install the NLTK version"):
        export_reader(reader, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_an_interrupted_export_leaves_no_version(reader, tmp_path, monkeypatch):
    def cut(module, path, signatures):
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", cut)
    with pytest.raises(KeyboardInterrupt):
        export_reader(reader, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_warm_up_requests_can_be_replayed(folder, signatures):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    records = list(tf.data.TFRecordDataset(str(folder / "assets.extra" / warm_up.WARM_UP_FILE)).as_numpy_iterator())
    assert 0 < len(records) <= 1000
    sizes = set()
    for record in records:
        request = logs.PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        answers = signatures[request.model_spec.signature_name](**inputs)["answer"]
        assert all(answers.numpy())
        sizes.add((len(answers), len(tokenize(inputs["passage"][0].numpy().decode()).words)))
    assert {batch for batch, _ in sizes} == {1, warm_up.BATCH}
    assert len({tokens for _, tokens in sizes}) == len(warm_up.PASSAGE_TOKENS)
