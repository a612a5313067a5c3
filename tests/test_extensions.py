"""A processor, a reader and an attention of one's own, each one file and one line, through every command."""

import importlib
import json

import numpy as np
import pytest
import tensorflow as tf
from processor_testing import check_processor
from tiny import ARTICLES, DEV_ARTICLES, squad_data

import fabir_tf
from fabir_tf.backends import backend
from fabir_tf.models import MODELS
from fabir_tf.pipelines.features.examples import training_examples
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.registry import PROCESSORS
from fabir_tf.training.train import compiled_model, make_targets

IMPORT = "--import=joined_processor,joined_model"
LONG = " ".join(passage for _, passage, _ in ARTICLES + DEV_ARTICLES)
QUESTION = "Who built the tower?"


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Registers the examples while these tests run: other tests look at the package's own readers alone."""
    for name in ("joined_processor", "joined_model"):
        importlib.reload(importlib.import_module(name))
    yield
    del PROCESSORS["joined"], MODELS["joined"]


@pytest.fixture(scope="module")
def processor(registered):
    blank = PROCESSORS["joined"].create({"max_sequence": 24, "min_word_count": 0})
    return blank.fit([blank.tokenize(squad_data(ARTICLES))])


def test_the_sequence_is_joined_within_one_budget(processor):
    tokenized = processor.tokenize(squad_data(ARTICLES))
    question, passage = tokenized.question_lengths[0], tokenized.passage_lengths[0]
    (size,) = processor.window_sizes(np.array([question]), 512)
    assert question + size + 3 == 24
    features = processor.features(tokenized, Examples(np.array([0]), np.array([2]), np.array([5])))
    segment = features.segments["sequence"]
    rows = features.tokens[segment.starts[0] : segment.starts[0] + segment.lengths[0]]
    ids, segments = (features.unique[part][rows] for part in ("ids", "segments"))
    assert segments.tolist() == [0] * (question + 2) + [1] * 6
    words = tokenized.texts.tokens_of(0).words[2:7]
    assert ids[question + 2 : -1].tolist() == processor.vocabulary.word_ids(words).tolist()
    assert ids[question + 1] == ids[-1] != ids[0]
    assert features.logit_offsets[0] == question + 2 and passage > 7


@pytest.mark.slow
def test_its_graph_makes_the_same_inputs(processor):
    questions = [QUESTION, "", "What is it? " * 9, "Ωho?"]
    check_processor(processor, questions, [LONG, "The mill.", LONG, ""], max_passage=512)


@pytest.mark.long
def test_it_is_trained_evaluated_asked_and_exported(commands, tiny_run, tmp_path):
    run, data = tmp_path / "run", (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--cache_dir=")
    flags = (IMPORT, "--model=joined", "--max_sequence=24", "--units=8", "--min_word_count=0", "--batch_size=5")
    for more in ("--epochs=1", "--epochs=2 --resume"):
        result = commands("train", f"--run_dir={run}", *data, *flags, *more.split())
        assert result.status == 0, result
    assert json.loads((run / "processor" / "processor.json").read_text())["kind"] == "joined"
    scores = commands("evaluate", IMPORT, f"--run_dir={run}", f"--dataset={tiny_run.dev}", "--cache_dir=")
    assert scores.status == 0 and json.loads(scores.stdout)["total"] == 4, scores
    asked = commands("predict", IMPORT, f"--run_dir={run}", f"--question={QUESTION}", f"--passage={LONG}", "--n_best=3")
    assert asked.status == 0, asked
    flags = (IMPORT, f"--run_dir={run}", f"--export_dir={tmp_path / 'e'}", "--calibration_dataset=none", "--n_best=3")
    exported = commands("export", *flags)
    assert exported.status == 0, exported
    served = tf.saved_model.load(str(tmp_path / "e" / "1")).signatures
    assert {"sequence_ids", "sequence_segments", "sequence_length"} == set(
        served["token_ids"].structured_input_signature[1]
    )
    found, expected = (
        served["serving_default"](question=tf.constant([QUESTION]), passage=tf.constant([LONG])),
        json.loads(asked.stdout),
    )
    for number, span in enumerate(expected["n_best"]):
        assert span["answer"] == LONG[span["start"] : span["end"]]
        assert found["n_best_answer"][0, number].numpy().decode() == span["answer"]
        assert (found["n_best_start"][0, number], found["n_best_end"][0, number]) == (span["start"], span["end"])
        assert float(found["n_best_probability"][0, number]) == pytest.approx(span["probability"], rel=1e-4)


def test_an_unknown_reader_names_the_known_ones(commands, tiny_run):
    result = commands("train", "--model=joined", "--run_dir=x")
    assert result.status == 2 and "fabir" in result.stderr
    result = commands("train", "--import=no_such_module", "--run_dir=x")
    assert result.status == 2 and "--import=no_such_module" in result.stderr and "Traceback" not in result.stderr
    result = commands("convert", "--import", "no_such_module", "--check", "--input_file=x.json")
    assert result.status == 2 and "--import=no_such_module" in result.stderr


@pytest.mark.slow
def test_it_learns():
    """Predictions on the training data become exact: logits, targets and offsets belong together."""
    blank = PROCESSORS["joined"].create({"max_sequence": 64, "min_word_count": 0})
    tokenized = blank.tokenize(squad_data(ARTICLES))
    processor = blank.fit([tokenized])
    config = MODELS["joined"].config(max_sequence=64, units=32).replace(**processor.sizes)
    examples, _ = training_examples(tokenized, 400, 60, 15)
    features = processor.features(tokenized, examples.examples)
    training = fabir_tf.TrainingConfig(learning_rate=0.003, seed=3, smoothing="none")
    trainer = compiled_model(config, training, processor)
    batches = [np.arange(len(features))] * 150
    trainer.fit(backend.feed(features, batches, make_targets(features, examples.spans), batches[:1]), verbose=0)
    reader = fabir_tf.Reader(trainer.model, processor, config)
    right = [
        answer.text == question.answers[0].text
        for answer, question in zip(reader.predict(tokenized), tokenized.data.questions, strict=True)
    ]
    assert sum(right) >= len(right) - 1
