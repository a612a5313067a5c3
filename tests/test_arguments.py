"""What people give in Python in the place of something else is named in one sentence."""

import numpy as np
import pytest
from tiny import ARTICLES, make_reader, squad_data

import fabir_tf
from fabir_tf.pipelines.arguments import whole_number
from fabir_tf.reading.packing import pack_ensemble

DATA = squad_data(ARTICLES)
READER = make_reader(["the"])
A_READER, QUESTIONS = "expected a reader, as fabir_tf.Reader.load makes it", "expected questions"
NO_ARGUMENT = "as in train(run_dir, model_config, training, options)"


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_a_number_of_numpy_is_one(value):
    number = whole_number("n", value, 3, 3)
    assert number == 3 and type(number) is int
    settings = fabir_tf.TrainingConfig(batch_size=value, learning_rate=np.float32(0.5))
    assert (type(settings.batch_size), settings.learning_rate) == (int, 0.5)


@pytest.mark.parametrize("value", [2, 5, True, 3.0, "3", None, np.float64(3), np.array([3])])
def test_what_is_no_number_or_out_of_range(value):
    with pytest.raises(fabir_tf.UserError, match=r"^n must be a whole number from 3 to 4, found "):
        whole_number("n", value, 3, 4)
    with pytest.raises(fabir_tf.UserError, match=r"^n must be a whole number from 6 on, found "):
        whole_number("n", value, 6)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda folder: fabir_tf.evaluate("fabir-base", DATA), ["answerer: found 'fabir-base'", A_READER]),
        (lambda folder: fabir_tf.evaluate(READER, "dev.json"), ["dataset: found 'dev.json'", QUESTIONS]),
        (lambda folder: fabir_tf.calibrate(READER, "dev.json"), ["data: found 'dev.json'", QUESTIONS]),
        (lambda folder: fabir_tf.export_reader("fabir-base", folder), ["reader: found 'fabir-base'", A_READER]),
        (lambda folder: fabir_tf.evaluate(None, DATA), ["answerer: found None", A_READER]),
        (lambda folder: fabir_tf.calibrate(READER.model, DATA), ["answerer: found <Functional", A_READER]),
        (lambda folder: fabir_tf.export_reader(READER.model, folder), ["reader: found <Functional", A_READER]),
        (lambda folder: READER.predict("dev.json"), ["dataset: found 'dev.json'", QUESTIONS]),
        (lambda folder: list(READER.scores(None)), ["dataset: found", QUESTIONS]),
        (lambda folder: fabir_tf.Ensemble([READER]).predict("dev.json"), ["dataset: found 'dev.json'", QUESTIONS]),
        (lambda folder: fabir_tf.pack(READER, folder), ["run_dir: found Reader(fabir", "the name of a folder"]),
        (lambda folder: fabir_tf.DocumentReader(folder), ["reader: found PosixPath", A_READER]),
        (lambda folder: fabir_tf.pack("fabir-base", folder, held_out="dev.json"), ["held_out: found 'dev.json'"]),
        (lambda folder: fabir_tf.pack("fabir-base", folder, -1), ["max_words must be a whole number from 0 on"]),
        (lambda folder: pack_ensemble(["fabir-base"], folder, held_out=[]), ["held_out: found []", QUESTIONS]),
        (lambda folder: fabir_tf.fit_processor("mine.json"), ["data: found 'mine.json'", QUESTIONS]),
        (lambda folder: fabir_tf.batches_to_fit("mine.json", None), ["data: found 'mine.json'", QUESTIONS]),
        (lambda folder: fabir_tf.batches_to_fit(DATA, None, 0), ["batch_size must be a whole number from 1 on"]),
        (lambda folder: fabir_tf.batches_to_fit(DATA, None, 2.5), ["batch_size", "found 2.5"]),
        (lambda folder: fabir_tf.Reader.load("fabir_base"), ["fabir_base: found no run", "fabir-base, fabir-minilm"]),
        (lambda folder: fabir_tf.train(folder, fabir_tf.TrainingConfig()), ["model_config: found", NO_ARGUMENT]),
        (lambda folder: fabir_tf.train(folder, "fabir"), ["model_config: found 'fabir', expected a ReaderConfig"]),
        (lambda folder: fabir_tf.train(folder, training={"epochs": 1}), ["training: found {'epochs': 1}"]),
        (lambda folder: fabir_tf.train(folder, options="x"), ["options: found 'x', expected a DataOptions"]),
        (lambda folder: fabir_tf.TrainingConfig(dataset=DATA), ["dataset must be of type str, found SquadData"]),
    ],
)
def test_something_else_is_one_short_sentence(tmp_path, call, parts):
    with pytest.raises(fabir_tf.UserError) as caught:
        call(tmp_path)
    assert all(part in str(caught.value) for part in parts) and len(str(caught.value)) < 300, caught.value
    assert not list(tmp_path.iterdir())
