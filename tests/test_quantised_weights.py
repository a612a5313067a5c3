"""Weights of 8 bits: how far they are from the given ones, how a file holds them, and what a packed reader reads."""

import numpy as np
import pytest
from test_bad_input import assert_error
from test_packing import PASSAGE, QUESTION
from test_packing import run as run

from fabir_tf.models.quantised_weights import SCALES, dequantise_weights, quantise_weights
from fabir_tf.models.weights import read_state, write_arrays
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading import packing
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory

GENERATOR = np.random.default_rng(5)
WEIGHTS = {
    # Rows of very different size, as of a table of vectors; columns, as of a kernel; more axes; nothing but zeros.
    "model/table": GENERATOR.normal(size=(7, 5)) * np.logspace(-4, 2, 7)[:, None],
    "model/kernel": GENERATOR.normal(size=(7, 5)) * np.logspace(-4, 2, 5),
    "model/convolution": GENERATOR.normal(size=(3, 4, 6)),
    "model/zeros": np.zeros((3, 2)),
    "model/one row": GENERATOR.normal(size=(1, 6)),
    "model/bias": GENERATOR.normal(size=9),
    "model/number": np.array(2.5),
}
WEIGHTS = {name: weight.astype(np.float32) for name, weight in WEIGHTS.items()}


def test_every_number_is_within_half_a_step_of_its_own_and_the_better_axis_is_taken():
    written = quantise_weights(WEIGHTS)
    read = dequantise_weights(written)
    assert read.keys() == WEIGHTS.keys()
    for name, weight in WEIGHTS.items():
        assert read[name].shape == weight.shape
        assert read[name].dtype == np.float32
        if weight.ndim < 2:
            assert written[name] is weight
            continue
        assert written[name].dtype == np.int8
        step = written[SCALES + name].astype(np.float64)
        assert (np.abs(read[name].astype(np.float64) - weight) <= step / 2 + 1e-6 * np.abs(weight)).all()
    assert written[SCALES + "model/table"].shape == (7, 1)
    assert written[SCALES + "model/kernel"].shape == (1, 5)
    assert not read["model/zeros"].any()


def test_a_file_without_them_stays_of_the_version_that_earlier_readers_know(tmp_path):
    write_arrays(tmp_path / "floats.npz", WEIGHTS, {"f1": 1.0})
    write_arrays(tmp_path / "int8.npz", quantise_weights(WEIGHTS), {"f1": 1.0})
    assert [int(np.load(tmp_path / f"{name}.npz")["format"]) for name in ("floats", "int8")] == [2, 3]
    state, arrays = read_state(tmp_path / "int8.npz")
    assert state == {"f1": 1.0}
    assert arrays.keys() == WEIGHTS.keys()


@pytest.mark.parametrize(
    "scales",
    [
        {SCALES + "model/nothing": np.ones((7, 1), np.float32)},
        {SCALES + "model/table": np.ones((2, 1), np.float32)},
        {SCALES + "model/table": np.ones(7, np.float32)},
        {SCALES + "model/bias": np.ones(1, np.float32)},
    ],
)
def test_scales_that_fit_no_weight_are_a_damaged_file(tmp_path, scales):
    write_arrays(tmp_path / "best.npz", quantise_weights(WEIGHTS) | scales, {})
    with pytest.raises(UserError, match=r"best\.npz: the checkpoint is damaged .*fits no weight"):
        read_state(tmp_path / "best.npz")


def test_a_packed_reader_of_8_bits_reads_nearly_the_same_from_a_smaller_file(commands, run, tmp_path):
    packing.pack(run.path, tmp_path / "floats", 100)
    done = commands("pack", f"--run_dir={run.path}", f"--output={tmp_path / 'int8'}", "--words=100", "--int8")
    assert done.status == 0, done.stderr
    sizes = [RunDirectory(tmp_path / name).best.stat().st_size for name in ("floats", "int8")]
    assert sizes[1] < sizes[0]
    floats, int8 = (Reader.load(tmp_path / name) for name in ("floats", "int8"))
    for one, other in zip(floats.model.weights, int8.model.weights, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        assert np.abs(one - other).max() <= np.abs(one).max() / 200
    one, other = floats.answer(QUESTION, PASSAGE), int8.answer(QUESTION, PASSAGE)
    assert one.text in PASSAGE
    assert abs(one.probability - other.probability) < 0.02
    assert_error(commands, "pack", ["--int8=maybe"], ["--int8"])
