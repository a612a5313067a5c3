"""What SECURITY.md says: nothing of a file is run, and texts stay texts in HTML and in spreadsheets."""

import ast
import csv
import html.parser
import io
import json
import os
import pickle
import re
import sys
import zipfile
from pathlib import Path

import h5py
import hugging_face_folders
import keras
import numpy as np
import pytest
from bilm_folders import write_folder
from tiny import make_reader

import fabir_tf
from fabir_tf.analysis import page
from fabir_tf.analysis.error_lists import errors
from fabir_tf.analysis.judged import judge
from fabir_tf.analysis.write import write_analysis
from fabir_tf.models.bilm import read_bilm
from fabir_tf.models.hugging_face import read_hugging_face
from fabir_tf.pipelines.datasets.formats import FORMATS, read_questions
from fabir_tf.pipelines.datasets.own_texts import questions_from
from fabir_tf.pipelines.datasets.predictions import Prediction
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import csv_text, read_arrays, sheet_text
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.pipelines.text.word_vectors import load_vectors

ROOT = Path(__file__).parents[1]
PROGRAM = sorted(
    path for name in ("fabir_tf", "export", "layers", "pipelines") for path in ROOT.glob(f"{name}/**/*.py")
)

# === Nothing of a file is run ===

# What could run a part of a file, or load a model without the check, and where it may stand.
MAY_STAND = {
    # Between the server and its own processes, through a pipe that nobody else has.
    "pickle.loads": {"fabir_tf/serving/process.py"},
    "tf.saved_model.load": {"export/loading.py"},
}
NOWHERE = (
    *("pickle.load", "marshal.loads", "yaml.load", "joblib.load", "torch.load", "eval", "exec", "compile", "os.system"),
    *("keras.models.load_model", "keras.saving.load_model", "keras.config.enable_unsafe_deserialization"),
)


def calls(path):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


def test_what_could_run_a_part_of_a_file_stands_where_it_may():
    found = {name: set() for name in (*MAY_STAND, *NOWHERE)}
    for path in PROGRAM:
        for call in calls(path):
            found.get(ast.unparse(call.func), set()).add(path.relative_to(ROOT).as_posix())
    assert {name: places for name, places in found.items() if places} == MAY_STAND


def test_numpy_and_keras_are_never_told_to_run_anything():
    loading = []
    for path in PROGRAM:
        for call in calls(path):
            arguments = {argument.arg: ast.unparse(argument.value) for argument in call.keywords}
            assert arguments.get("safe_mode", "True") == "True" and arguments.get("shell", "False") == "False", path
            if ast.unparse(call.func) == "np.load":
                loading.append(arguments.get("allow_pickle"))
    assert len(loading) >= 4 and set(loading) == {"False"}


class Bomb:
    """What a pickle can hold: its loading makes a folder."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.mkdir, (self.target,)


def test_a_pickle_in_an_array_is_not_read(tmp_path):
    target = tmp_path / "made"
    bomb = np.array([Bomb(target)], object)
    for name in ("words", "vectors"):
        np.savez(tmp_path / "vectors.npz", **{name: bomb})
        with pytest.raises(UserError, match="found a damaged file"):
            load_vectors(str(tmp_path / "vectors.npz"))
        with pytest.raises(ValueError, match="allow_pickle=False"):
            read_arrays(tmp_path / "vectors.npz")
    assert not target.exists()
    np.load(tmp_path / "vectors.npz", allow_pickle=True)["vectors"]
    assert target.is_dir()


def keras_file(path, change):
    """A file of a model whose configuration is changed."""
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    change(config["config"]["layers"][1])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | {"config.json": json.dumps(config).encode()}).items():
            archive.writestr(name, content)
    return path


def test_a_keras_file_with_a_function_of_its_own_is_refused(tmp_path):
    target = str(tmp_path / "made")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: os.mkdir(target) or x, lambda s: s)])
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.saving.load_model(tmp_path / "model.keras")
    assert not Path(target).exists()


def test_a_keras_file_with_a_module_of_another_is_refused(tmp_path, monkeypatch):
    (tmp_path / "foreign.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'made')!r}).mkdir()\nLayer = print\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def change(layer):
        layer |= {"module": "foreign", "class_name": "Layer", "registered_name": None}

    path = keras_file(tmp_path / "model.keras", change)
    with pytest.raises((TypeError, ValueError), match=r"foreign|Layer"):
        keras.saving.load_model(path)
    assert not (tmp_path / "made").exists() and "foreign" not in sys.modules


def test_a_pickled_reader_holds_the_name_of_its_folder_alone():
    reader = fabir_tf.Reader.load("fabir-base")
    raw = pickle.dumps(reader)
    assert len(raw) < 20_000
    with pytest.raises(UserError, match="cannot be pickled"):
        pickle.dumps(make_reader(["the", "mill"]))


def test_arrays_of_hdf5_that_lie_in_another_file_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(261 * 4 * 4))
    other = h5py.File(tmp_path / "other.hdf5", "w")
    other["char_embed"] = np.zeros((261, 4), "float32")
    other.close()
    layout = h5py.VirtualLayout((261, 4), "float32")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "char_embed", (261, 4))
    for number, replace in enumerate(
        (
            lambda file: file.__setitem__("char_embed", h5py.ExternalLink(str(tmp_path / "other.hdf5"), "char_embed")),
            lambda file: file.create_virtual_dataset("char_embed", layout),
            lambda file: file.create_dataset(
                "char_embed", (261, 4), "float32", external=[(str(tmp_path / "secret"), 0, h5py.h5f.UNLIMITED)]
            ),
        )
    ):
        folder = write_folder(tmp_path / str(number))
        with h5py.File(folder / "lm_weights.hdf5", "r+") as file:
            del file["char_embed"]
            replace(file)
        with pytest.raises(UserError, match=r"found /char_embed in another file, expected all weights in this one\.$"):
            read_bilm(folder)
    folder = hugging_face_folders.write_folder(tmp_path / "bert", hugging_face_folders.BERT, {})
    (tmp_path / "bert" / "model.safetensors").unlink()
    with h5py.File(tmp_path / "bert" / "tf_model.h5", "w") as file:
        file.create_dataset("bert/embeddings/x", (4,), "f4", external=[(str(tmp_path / "secret"), 0, 16)])
    with pytest.raises(UserError, match=r"found /bert/embeddings/x in another file"):
        read_hugging_face(tmp_path / "bert")


# === Texts stay texts ===

HOSTILE = "<script>alert('x')</script>\"'&<img src=x onerror=alert(1)>"


class Tags(html.parser.HTMLParser):
    """The tags of a page, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, sorted(name for name, _ in attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def hostile_analysis(text):
    """Questions and predictions that say nothing else."""
    row = {"id": text, "question": text, "context": f"{text} and more", "title": text}
    data = questions_from([row | {"answers": {"text": [f"{text} and"], "answer_start": [0]}}], text)
    return data, judge(text, data, {text: Prediction(f"{text} and more", 0, 0.5, 0.1)})


def test_every_part_of_a_report_is_escaped():
    data, judged = hostile_analysis(HOSTILE)
    parts = [page.heading(HOSTILE), page.note(HOSTILE), page.picture(b"", HOSTILE), errors(data, judged, [0])]
    parts.append(page.plain_table((HOSTILE,), [(HOSTILE,)]))
    found = Tags(page.page(HOSTILE, parts))
    tags = {tag for tag, _ in found.tags}
    assert "script" not in tags and not [names for _, names in found.tags if "onerror" in names]
    # Title, two headings, note, table twice; in the list the question, reference, prediction, title and id.
    assert "".join(found.texts).count(HOSTILE) >= 10


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\N{FULLWIDTH EQUALS SIGN}1")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_looks_like_a_formula_is_none_in_a_spreadsheet(text):
    written = sheet_text(("text", "number", "none"), [{"text": text, "number": -1.5, "none": None}])
    assert next(csv.DictReader(io.StringIO(written, newline=""))) == {"text": f"'{text}", "number": "-1.5", "none": ""}


def test_other_texts_are_as_they_are():
    rows = [{"text": text} for text in ("a=1", "1-1", "'x", "x\n=1", "", 'a "b", c')]
    assert sheet_text(("text",), rows) == csv_text(("text",), rows, "\r\n")


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)"])
def test_the_tables_of_an_analysis_hold_no_formula(tmp_path, text):
    data, judged = hostile_analysis(text)
    tokenized = tokenize_dataset(data, WordTokenizer(), None, lambda line: None)
    write_analysis(tmp_path, tokenized, [judged])
    tables = sorted(tmp_path.glob("*.csv"))
    assert {path.name.partition("_")[0] for path in tables} >= {"scores.csv", "error", "certainty.csv", "to"}
    for path in tables:
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert f"'{text}" in cells
        assert [cell for cell in cells if cell.startswith(("=", "+", "@"))] == []
        # Negative numbers are numbers.
        assert all(re.fullmatch(r"-[\d.e-]+", cell) for cell in cells if cell.startswith("-"))


@pytest.mark.parametrize("text", FORMULAS[:4])
def test_a_file_of_questions_is_read_back_as_it_was(tmp_path, text):
    data, _ = hostile_analysis(text)
    path = tmp_path / "questions.csv"
    path.write_bytes(FORMATS[".csv"].write(data))
    found = read_questions(path)
    assert (found.questions[0].id, found.questions[0].text, found.passages) == (text, text, data.passages)
