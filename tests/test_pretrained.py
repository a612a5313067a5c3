"""The readers that come with the package: small, whole, described, and better than a guess on texts of other kinds."""

from pathlib import Path

import pytest

from fabir_tf.models.parameters import count_trainable
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.datasets.squad_metrics import score_v1
from fabir_tf.reading.evaluation import predictions_of
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers
from fabir_tf.reading.reader import Reader

OWN = Path(__file__).parents[1] / "benchmarks" / "out_of_domain.json"
NAMES = pretrained_readers()
# Below what each scores on our hundred questions, by a few of them.
LOWEST_F1 = {"fabir-base": 82.0, "fabir-minilm": 84.0}
PARAMETERS = {"fabir-base": 1_391_297, "fabir-minilm": 22_566_146}
# What PyPI would take without asking is twice as much.
WHEEL = 50e6


def test_these_come_with_the_package():
    assert set(NAMES) == set(PARAMETERS)


def test_all_of_them_fit_into_one_wheel():
    files = [path for name in NAMES for path in pretrained_folder(name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < WHEEL - 2e6


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_is_small_and_described(name):
    folder = pretrained_folder(name)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 25e6
    assert f"--model={name}" in (folder / "README.md").read_text(encoding="utf-8")
    assert count_trainable(Reader.load(name).model) == PARAMETERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_reader_answers(name):
    reader, data = Reader.load(name, no_answer_threshold=None), read_squad(OWN)
    answers = predictions_of(reader, data)
    scores = score_v1(data, {identifier: answer.text for identifier, answer in answers.items()})
    assert scores["f1"] > LOWEST_F1[name]
