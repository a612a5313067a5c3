"""Readers exported for ONNX Runtime, LiteRT and OpenVINO: the same answers, without TensorFlow and Keras.

Tests of a format skip where its extra is not installed.
"""

import dataclasses
import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from tiny import ARTICLES, CONFIG, DEV_ARTICLES, make_reader, squad_data
from wordpiece_folders import write_bert

from fabir_tf import edge
from fabir_tf.edge.runtimes import RUNTIMES
from fabir_tf.edge.settings import SETTINGS_FILE, EdgeSettings
from fabir_tf.export import export_edge
from fabir_tf.export.converters import CONVERTERS
from fabir_tf.export.edge import compared, validate_target
from fabir_tf.models import build_model
from fabir_tf.models.weights import set_frozen_tables
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.array_batches import token_inputs
from fabir_tf.pipelines.features.windows import reading_examples
from fabir_tf.pipelines.text.registry import read_processor
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.pipelines.text.word_vectors import WordVectors, dequantise_rows, quantise_rows
from fabir_tf.reading.calibration import FIGURES, Calibration
from fabir_tf.reading.no_answer import NoAnswerCalibration
from fabir_tf.reading.reader import Reader

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "export" / "serving" / "edge_answer.py"
DATA = squad_data(ARTICLES + DEV_ARTICLES)
WINDOW = 96
PAIRS = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
PAIRS += [
    ("Who?", " ".join(DATA.passages)),
    ("", DATA.passages[0]),
    ("Who built the mill?", ""),
    ("?!", DATA.passages[0]),
    ("Who built the mill?", " \n\t"),
    ("What does the owl eat?", f"\U0001f989 Café İΣ. {DATA.passages[3]} “naïve”"),
    ("\U0001f468‍\U0001f469‍\U0001f467 where?", "\U0001f600 mill \U0001f600"),
    ("Who built the mill?", "古い風車はアンナが建てた。"),
    ("Who is 安娜?", "The mill was built by 安娜 in 1712."),
    ("When? " * 300, DATA.passages[2]),
    ("Who?", "mill"),
    ("Who?", f"The mill {'very ' * 700}old."),
]
# Format, quantization, and how far probabilities may differ; the slow ones take many seconds to convert.
FORMATS = [
    pytest.param("onnx", "none", 1e-5, id="onnx"),
    pytest.param("litert", "none", 1e-5, id="litert", marks=pytest.mark.slow),
    pytest.param("litert", "int8", 0.1, id="litert-int8", marks=pytest.mark.slow),
    pytest.param("openvino", "none", 1e-3, id="openvino", marks=pytest.mark.slow),
]


def needs(target):
    for module, package in CONVERTERS[target].packages.items():
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {package}: pip install -e .[{target}]")


def reader_with(table, frozen, trainable, **changes) -> Reader:
    """An untrained reader with frozen vectors, a null head, a calibration and a threshold."""
    keras.utils.set_random_seed(5)
    vectors = WordVectors(list(frozen), table, "none")
    processor = WordProcessor(Vocabulary(tuple(trainable), tuple("abcdefghijklmnopqrstuvwxyz"), vectors.words), vectors)
    config = CONFIG.replace(**processor.sizes | {"null_head": True} | changes)
    model = build_model(config)
    set_frozen_tables(model, processor.frozen_tables)
    for weight in model.get_layer("selector").trainable_weights:
        weight.assign(3 * weight)
    figures = dict.fromkeys(FIGURES, 0.5)
    abstaining = NoAnswerCalibration(0.5, 0.8, 0.3, 0.9)
    calibration = Calibration(0.7, 1, 1.0, figures, figures, [], abstaining)
    return Reader(model, processor, config, WINDOW, calibration, log=lambda line: None)


@pytest.fixture(scope="module")
def reader():
    words = sorted({word.lower() for text in DATA.passages for word in tokenize(text).words})
    table = np.random.default_rng(3).normal(size=(len(words[10:]), 20)).astype(np.float16)
    made = reader_with(table, words[10:], words[:10])
    # A threshold that some of the questions are above.
    levels = sorted(answer.no_answer_probability for answer in ask(made)[: len(DATA.questions)])
    middle = (levels[len(levels) // 2] + levels[len(levels) // 2 - 1]) / 2
    abstaining = dataclasses.replace(made.calibration.no_answer, threshold=middle)
    made.calibration = dataclasses.replace(made.calibration, no_answer=abstaining)
    return made


@pytest.fixture(scope="module")
def exported(reader, tmp_path_factory):
    """Exports the reader once for each format."""
    made = {}

    def export(target, quantization="none"):
        needs(target)
        if (target, quantization) not in made:
            lines = []
            folder = export_edge(reader, tmp_path_factory.mktemp("edge"), target, 3, quantization, lines.append)
            made[target, quantization] = folder
            assert len(lines) == 1 and "of 64 answers are those of the reader" in lines[0]
        return made[target, quantization]

    return export


def ask(answerer, n_best=1):
    return answerer.answer_batch([question for question, _ in PAIRS], [passage for _, passage in PAIRS], n_best)


def assert_alike(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        assert (one.text, one.start, one.end, one.is_answer) == (other.text, other.start, other.end, other.is_answer)
        assert one.probability == pytest.approx(other.probability, abs=tolerance)
        assert one.no_answer_probability == pytest.approx(other.no_answer_probability, abs=tolerance)
        assert one.score == pytest.approx(other.score, abs=100 * tolerance)
        assert [span.probability for span in one.n_best] == pytest.approx(
            [span.probability for span in other.n_best], abs=tolerance
        )


# === Every format ===


@pytest.mark.parametrize(("target", "quantization", "tolerance"), FORMATS)
def test_an_exported_reader_answers_as_the_reader_does(reader, exported, target, quantization, tolerance):
    folder = exported(target, quantization)
    assert folder.name == "3" and os.listdir(folder.parent) == ["3"]
    read = edge.EdgeReader.load(folder, threads=1, log=lambda line: None)
    expected, found = ask(reader, 3), ask(read, 3)
    assert {answer.is_answer for answer in expected[: len(DATA.questions)]} == {True, False}
    if quantization == "none":
        assert_alike(found, expected, tolerance)
    differences = [abs(one.probability - other.probability) for one, other in zip(found, expected, strict=True)]
    assert np.mean(differences) <= tolerance
    assert repr(read) == f"EdgeReader(fabir, {target}, max_passage={WINDOW})"
    # One question alone, and without the threshold.
    question, passage = PAIRS[0]
    always, original = (other.with_threshold(None) for other in (read, reader))
    assert always.answer(question, passage).is_answer
    assert always.answer(question, passage).probability == pytest.approx(
        original.answer(question, passage).probability, abs=tolerance
    )


@pytest.mark.long
@pytest.mark.parametrize(("target", "quantization", "tolerance"), FORMATS)
def test_bert_in_each_format(target, quantization, tolerance, tmp_path):
    needs(target)
    bert = Reader.load(write_bert(tmp_path / "bert", positions=512), log=lambda line: None)
    folder = export_edge(bert, tmp_path / "exported", target, None, quantization, lambda line: None)
    read = edge.EdgeReader.load(folder, log=lambda line: None)
    pairs = [pair for pair in PAIRS if len(pair[0].split()) < 20]
    questions, passages = zip(*pairs, strict=True)
    found, expected = (answerer.answer_batch(questions, passages) for answerer in (read, bert))
    differences = [abs(one.probability - other.probability) for one, other in zip(found, expected, strict=True)]
    assert max(differences) <= tolerance
    with pytest.raises(UserError, match=r"300 word pieces, expected at most \d+ \(max_question\)"):
        read.answer("when " * 300, "The mill.")


@pytest.mark.long
@pytest.mark.parametrize("target", list(CONVERTERS))
def test_a_table_that_8_bits_hold_is_written_with_8_bits_and_loses_nothing(target, tmp_path):
    needs(target)
    words = [f"word{number}" for number in range(20_000)]
    table = np.random.default_rng(4).normal(size=(len(words), 20)).astype(np.float16)
    packed = dequantise_rows(*quantise_rows(table))
    sizes = {}
    for name, rows in (("packed", packed), ("whole", table)):
        made = reader_with(rows, words, ["mill"])
        folder = export_edge(made, tmp_path / name, target, log=lambda line: None)
        sizes[name] = sum(path.stat().st_size for path in folder.glob("model.*"))
        read = edge.EdgeReader.load(folder)
        questions, passages = ["word3 word7 mill?"] * 2, ["word11 word12 mill word13.", "word19999 word0 mill word1"]
        pairs = zip(*(one.answer_batch(questions, passages) for one in (read, made)), strict=True)
        assert all(one.probability == pytest.approx(other.probability, abs=1e-3) for one, other in pairs)
    # A scale of a row takes four bytes.
    assert sizes["whole"] - sizes["packed"] > 0.75 * table.size


# === Without TensorFlow ===

FORBIDDING = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras", "absl", "jax", "h5py", "tensorflow_datasets"):
            raise ImportError(f"{name} is forbidden")

sys.meta_path.insert(0, Forbidden())
"""

IMPORTING = f"""{FORBIDDING}
import fabir_tf
from fabir_tf.edge.decoders import SpanDecoder
from fabir_tf.pipelines.text.registry import read_processor

print(fabir_tf.edge.EdgeReader.__name__)
processor = read_processor(sys.argv[1])
print(processor.tokenize_text("The mill, 東京.").words)
try:
    fabir_tf.Reader
except ImportError as error:
    print(error)
"""

ANSWERING = f"""{FORBIDDING}
import json
import fabir_tf

reader = fabir_tf.edge.EdgeReader.load(sys.argv[1])
questions, passages = zip(*json.loads(sys.stdin.buffer.read()))
answers = reader.answer_batch(questions, passages, 3)
print(json.dumps([answer.to_dict() for answer in answers]))
"""


def run_python(code, *arguments, stdin=""):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, input=stdin.encode(), env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_edge_needs_neither_tensorflow_nor_keras(reader, tmp_path):
    reader.processor.save(tmp_path / "processor")
    lines = run_python(IMPORTING, str(tmp_path / "processor")).splitlines()
    assert lines[:2] == ["EdgeReader", str(["The", "mill", ",", "東京", "."])]
    assert "is forbidden" in lines[2]


def test_answers_of_a_process_without_tensorflow(reader, exported):
    found = json.loads(run_python(ANSWERING, str(exported("onnx")), stdin=json.dumps(PAIRS)))
    for one, other in zip(found, ask(reader, 3), strict=True):
        expected = other.to_dict()
        assert list(one) == list(expected)
        assert (one["answer"], one["start"], one["end"]) == (other.text, other.start, other.end)
        assert one["probability"] == pytest.approx(other.probability, abs=1e-5)


def test_the_example_program(reader, exported):
    question, passage = PAIRS[0]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def run(*arguments):
        command = [sys.executable, str(EXAMPLE), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    done = run(str(exported("onnx")), question, passage)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == reader.answer(question, passage).text
    mistakes = [(["a"], "expected a folder, a question and a passage"), (["a", "b", "c"], "found no reader.json")]
    for arguments, sentence in mistakes:
        done = run(*arguments)
        assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr


# === Parts ===


def test_token_inputs_are_those_of_the_model(reader):
    tokenized = reader.processor.tokenize(DATA, log=lambda line: None)
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    features = reader.processor.features(tokenized, reading_examples(lengths, np.full(len(lengths), 13)))
    batch = np.array([4, 0, 7])
    inputs = token_inputs(features, batch, step=5)
    assert set(inputs) == set(reader.processor.input_specs)
    vocabulary = reader.processor.vocabulary
    for row, example in enumerate(batch):
        for text, segment in features.segments.items():
            start, length = segment.starts[example], segment.lengths[example]
            words = [tokenized.texts.unique[index - 1] for index in features.tokens[start : start + length]]
            ids = inputs[f"{text}_words"][row]
            assert len(ids) % 5 == 0 and ids.dtype == np.int32
            assert ids[:length].tolist() == vocabulary.word_ids(words).tolist()
            assert not ids[length:].any() and not inputs[f"{text}_characters"][row, length:].any()
            np.testing.assert_array_equal(
                inputs[f"{text}_characters"][row, :length], vocabulary.character_ids(words, 20)
            )


def test_a_processor_without_its_tables_makes_the_same_ids(reader, tmp_path):
    small = reader.processor.without_tables()
    small.save(tmp_path)
    read = read_processor(tmp_path)
    assert read.vocabulary == reader.processor.vocabulary and read.rules == reader.processor.rules
    assert read.frozen_tables == {} and (tmp_path / "vectors.npy").stat().st_size < 200
    assert read.sizes == reader.processor.sizes


def test_settings_survive_their_file(tmp_path):
    decoder = {"kind": "SpanDecoder", "max_answer": None, "null_pairs": True}
    settings = EdgeSettings("onnx", "none", "fabir", 384, True, decoder, 0.25, True)
    settings.save(tmp_path)
    assert EdgeSettings.load(tmp_path) == settings
    content = json.loads((tmp_path / SETTINGS_FILE).read_text())
    # Earlier exports do not say it.
    del content["calibrated"]
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(content))
    assert EdgeSettings.load(tmp_path) == dataclasses.replace(settings, calibrated=False)
    assert settings.max_answer is None and dataclasses.asdict(settings.make_decoder(4))["n_best"] == 4


# === Mistakes ===


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"format": 2}, ["found the number 2 as format", "expected 1"]),
        ({"target": "tflite"}, ["target", "tflite", "onnx, litert, openvino"]),
        ({"decoder": {"kind": "Beam"}}, ["decoder", "SpanDecoder, IndependentDecoder"]),
        ({"decoder": {"kind": "SpanDecoder", "width": 3}}, ["decoder", "its arguments"]),
        ({"decoder": []}, ["decoder"]),
        ({"max_passage": "384"}, ["384", "max_passage", "int"]),
        ({"max_passage": 0}, ["max_passage must be a whole number from 1"]),
        ({"null_head": 1}, ["null_head", "bool"]),
        ({"null_head": False}, ["model.onnx: found the inputs", "and the outputs end_logits, start_logits"]),
        ({"no_answer_threshold": 1.5}, ["no_answer_threshold must be", "1.5"]),
        ({"max_passage": None, "remove": True}, ["no max_passage"]),
    ],
)
def test_damaged_settings_are_told(exported, tmp_path, change, parts):
    folder = exported("onnx")
    for path in folder.rglob("*"):
        if path.is_file():
            (tmp_path / path.relative_to(folder)).parent.mkdir(exist_ok=True)
            os.link(path, tmp_path / path.relative_to(folder))
    content = json.loads((tmp_path / "reader.json").read_text()) | change
    if content.pop("remove", False):
        del content["max_passage"]
    (tmp_path / "reader.json").unlink()
    (tmp_path / "reader.json").write_text(json.dumps(content))
    with pytest.raises(UserError) as caught:
        edge.EdgeReader.load(tmp_path)
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize("target", list(CONVERTERS))
def test_a_damaged_model_is_told(reader, tmp_path, target):
    needs(target)
    reader.processor.without_tables().save(tmp_path / "processor")
    decoder = {"kind": "SpanDecoder", "max_answer": 15, "null_pairs": False}
    EdgeSettings(target, "none", "fabir", 384, True, decoder, None).save(tmp_path)
    with pytest.raises(UserError, match="found no such file, expected the model"):
        edge.EdgeReader.load(tmp_path)
    (tmp_path / RUNTIMES[target].file).write_bytes(b"no model")
    with pytest.raises(UserError, match="cannot load it"):
        edge.EdgeReader.load(tmp_path)


def test_a_folder_without_a_reader_is_told(tmp_path):
    with pytest.raises(UserError, match=r"found no reader\.json, expected a folder that fabir-export"):
        edge.EdgeReader.load(tmp_path)


def test_a_missing_extra_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"needs tf2onnx and onnxruntime.*pip install 'fabir_tf\[onnx\]'"):
        validate_target("onnx")


def test_a_missing_runtime_is_told(exported, monkeypatch):
    folder = exported("onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match="needs the package onnxruntime, which is not installed: pip"):
        edge.EdgeReader.load(folder)


def test_what_does_not_fit_is_told_before_anything_is_written(reader, tmp_path):
    with pytest.raises(UserError, match="must be one of onnx, litert, openvino, found 'tflite'"):
        export_edge(reader, tmp_path, "tflite")
    with pytest.raises(UserError, match="quantization=int8: found the format onnx, expected litert"):
        export_edge(reader, tmp_path, "onnx", quantization="int8")
    needs("onnx")
    (tmp_path / "2").mkdir()
    with pytest.raises(UserError, match="never written over"):
        export_edge(reader, tmp_path, "onnx", 2)
    assert os.listdir(tmp_path) == ["2"] and os.listdir(tmp_path / "2") == []


def test_a_model_that_answers_otherwise_is_refused(reader):
    words = sorted({word.lower() for text in DATA.passages for word in tokenize(text).words})
    with pytest.raises(UserError, match=r"the exported model is not the reader: \d+ of 64 answers"):
        compared(reader, make_reader(words, WINDOW))


def test_a_failed_export_leaves_nothing(reader, tmp_path, monkeypatch):
    needs("onnx")

    def fail(graph, path, quantise):
        path.write_bytes(b"half")
        raise ValueError("no such operation\nand more")

    monkeypatch.setitem(CONVERTERS, "onnx", dataclasses.replace(CONVERTERS["onnx"], write=fail))
    with pytest.raises(UserError, match=r"fabir cannot be converted to onnx \(no such operation\)"):
        export_edge(reader, tmp_path / "new", "onnx")
    assert os.listdir(tmp_path) == []


def test_a_calibration_that_is_missing_is_told(exported, tmp_path):
    folder = shutil.copytree(exported("onnx"), tmp_path / "1")
    (folder / "calibration.json").unlink()
    with pytest.raises(UserError, match=r"1: found no calibration\.json, expected that of the reader"):
        edge.EdgeReader.load(folder)
    with pytest.raises(UserError, match="threads must be a whole number from 1 on, found 0"):
        edge.EdgeReader.load(folder, threads=0)


def test_its_own_threshold_is_the_exported_one(exported, tmp_path):
    folder = shutil.copytree(exported("onnx"), tmp_path / "1")
    settings = json.loads((folder / "reader.json").read_text())
    (folder / "reader.json").write_text(json.dumps(settings | {"no_answer_threshold": 0.3}))
    read = edge.EdgeReader.load(folder)
    assert read.no_answer_threshold == read.with_threshold("own").no_answer_threshold == 0.3
    assert read.with_threshold(0.6).with_threshold("own").no_answer_threshold == 0.3
    assert read.with_threshold(None).no_answer_threshold is None


def test_a_calibration_that_it_is_given_decides(reader, exported):
    read = edge.EdgeReader.load(exported("onnx"))
    before = (read.temperature, read.no_answer_threshold)
    assert before == (reader.temperature, reader.no_answer_threshold)
    abstaining = dataclasses.replace(reader.calibration.no_answer, threshold=0.125, temperature=3.0)
    read.calibration = dataclasses.replace(reader.calibration, no_answer=abstaining)
    assert (read.temperature, read.no_answer_threshold) == (3.0, 0.125)
    assert read.with_threshold("own").no_answer_threshold == 0.125
    read.calibration = None
    assert read.no_answer_threshold is None


def test_another_process_loads_it_from_its_folder(exported, monkeypatch):
    folder = exported("onnx")
    monkeypatch.chdir(folder.parent)
    read = edge.EdgeReader.load(folder.name, threads=1)
    monkeypatch.chdir("/")
    for one in (read, read.with_threshold(0.3)):
        copied = pickle.loads(pickle.dumps(one))
        assert copied.no_answer_threshold == one.no_answer_threshold
        assert copied.answer(*PAIRS[0]) == one.answer(*PAIRS[0])
    read.calibration = None
    copied = pickle.loads(pickle.dumps(read))
    assert copied.calibration is None and copied.no_answer_threshold is None


def test_an_exported_reader_is_not_exported_again(exported):
    with pytest.raises(UserError, match="cannot be exported again"):
        edge.EdgeReader.load(exported("onnx")).in_graph()


def test_it_is_a_question_answerer(reader, exported):
    read = edge.EdgeReader.load(exported("onnx"))
    sample = load_dataset("sample", "dev")
    data = dataclasses.replace(sample, questions=sample.questions[:20])
    found, expected = ({one.question: one for one in answerer.scores(data)} for answerer in (read, reader))
    assert found.keys() == expected.keys() and len(found) == 20
    for number, one in found.items():
        np.testing.assert_allclose(one.start_logits, expected[number].start_logits, atol=1e-4)
        np.testing.assert_allclose(one.null_logits, expected[number].null_logits, atol=1e-4)
