"""The quickstart notebook runs from top to bottom in a new kernel, and its cells produce what their texts promise."""

import base64
import json
import os
import struct
from pathlib import Path

import pytest

import fabir_tf

nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install -e .[test]")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install -e .[test]")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install -e .[test]")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e .[test]")

# All of them need the notebook to run, which takes long: they run together or not at all.
pytestmark = pytest.mark.long("notebook")
ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"
PICTURES = ("history", "attention", "start-end")
# The notebook's variables at the end, printed by a cell that only the test adds.
VALUES = """
import json

values = {
    "passage": passage,
    "spans": [[span.text, span.start, span.end, span.probability] for span in answer.n_best],
    "epochs": [[row["epoch"], row["loss"], row["f1"]] for row in history["epochs"]],
    "trainable": trainable,
    "reloaded": [again.text, again.start, again.end, again.probability],
    "attention": {name: weights.shape for name, weights in inside.attention.items()},
    "start_end": [inside.start.tolist(), inside.end.tolist()],
    "tokens": [len(inside.passage.words), len(inside.question.words)],
    "settings": json.loads((FOLDER / "run" / "config.json").read_text()),
}
print(json.dumps(values))
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Every cell's outputs by the cell's id, and the variables of `VALUES`."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(VALUES, id="values"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FABIR_NOTEBOOK_EPOCHS", "1")
        environment.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        # The user's own settings have no influence, and no files are left behind.
        for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
            path = folder / name.lower()
            path.mkdir()
            environment.setenv(name, str(path))
        client = nbclient.NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(folder)}})
        client.execute()
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    return outputs, json.loads(text_of(outputs.pop("values")))


def text_of(outputs):
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def test_the_file_is_clean():
    notebook = nbformat.read(NOTEBOOK, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_it_shows_the_published_model(executed):
    outputs, values = executed
    assert values["trainable"] == 1_385_198
    assert "1,385,198 trainable parameters" in text_of(outputs["build"])
    for field in fabir_tf.FabirConfig().to_dict():
        assert field in text_of(outputs["configuration"])
    parts = text_of(outputs["parts"])
    assert sum(int(line.split()[1].replace(",", "")) for line in parts.splitlines()) == 1_385_198


def test_it_shows_the_shape_of_every_stage(executed):
    outputs, _ = executed
    shapes = text_of(outputs["shapes"])
    for name, shape in (("highway", "(1, 14, 200)"), ("processing_layer_3", "(1, 14, 100) (1, 5, 100)")):
        assert any(line.split(maxsplit=1) == [name, shape] for line in shapes.splitlines()), shapes
    assert all(
        name in text_of(outputs["batch"])
        for name in ("passage_words", "question_characters", "start_logits", "946 kept")
    )


def test_it_trains_with_the_settings_of_quickstart_flags(executed):
    _, values = executed
    asked = values["settings"]["training"] | values["settings"]["model"]
    lines = (ROOT / "quickstart.flags").read_text(encoding="utf-8").splitlines()
    given = dict(line[2:].split("=", 1) for line in lines if line.startswith("--"))
    assert len(given) >= 5
    for name in given.keys() - {"run_dir", "epochs"}:
        assert type(asked[name])(given[name]) == asked[name], name


def test_it_trains_for_the_given_number_of_epochs(executed):
    (before, loss_before, _), (after, loss, f1) = executed[1]["epochs"]
    assert (before, loss_before, after) == (0, None, 1)
    assert 0 < loss < 11
    assert 0 <= f1 <= 100


def test_it_answers_with_words_of_the_passage(executed):
    outputs, values = executed
    assert len(values["spans"]) == 3
    for text, start, end, probability in values["spans"]:
        assert text
        assert values["passage"][start:end] == text
        assert 0 < probability <= 1
        assert text in text_of(outputs["answer"])
    # A loaded reader answers its first questions without a graph, whose last digits differ.
    assert values["reloaded"] == [*values["spans"][0][:3], pytest.approx(values["spans"][0][3], rel=1e-4)]


def test_it_looks_inside(executed):
    _, values = executed
    passage, question = values["tokens"]
    assert values["attention"]["processing_layer_3/cross_attention"] == [4, passage, question]
    for probabilities in values["start_end"]:
        assert len(probabilities) == passage
        assert sum(probabilities) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", PICTURES)
def test_it_draws(executed, name):
    (picture,) = [output.data["image/png"] for output in executed[0][name] if "data" in output]
    png = base64.b64decode(picture)
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 600
    assert height >= 200
    assert len(png) > 10_000
