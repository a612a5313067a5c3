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
LOWEST_F1 = {"fabir-base": 82.0}


def test_there_is_one():
    assert "fabir-base" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_is_small_and_described(name):
    folder = pretrained_folder(name)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 25e6
    assert f"--model={name}" in (folder / "README.md").read_text(encoding="utf-8")
    assert count_trainable(Reader.load(name).model) < 1_500_000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_reader_answers(name):
    reader, data = Reader.load(name, no_answer_threshold=None), read_squad(OWN)
    answers = predictions_of(reader, data)
    scores = score_v1(data, {identifier: answer.text for identifier, answer in answers.items()})
    assert scores["f1"] > LOWEST_F1[name]
