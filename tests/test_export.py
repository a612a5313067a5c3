"""Eager, compiled and exported models give the same numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import fabir_tf
from fabir_tf.export import export_token_ids
from fabir_tf.pipelines.errors import UserError


@pytest.fixture(scope="module")
def model() -> keras.Model:
    keras.utils.set_random_seed(3)
    model = fabir_tf.build_model(trainable_words=5, characters=11, frozen_words=13, num_layers=1)
    model.get_layer("word_embedding").frozen_table.assign(np.random.default_rng(0).normal(size=(13, 100)))
    return model


def inputs(passage: int, question: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(passage)
    return {
        "passage_words": random.integers(1, 19, (3, passage), "int32"),
        "passage_characters": random.integers(0, 12, (3, passage, 20), "int32"),
        "question_words": random.integers(1, 19, (3, question), "int32"),
        "question_characters": random.integers(0, 12, (3, question, 20), "int32"),
    }


def test_eager_compiled_and_exported_agree(model, tmp_path):
    export_token_ids(model, tmp_path / "1")
    served = tf.saved_model.load(str(tmp_path / "1")).signatures["token_ids"]
    compiled = tf.function(lambda x: model(x, training=False))
    for lengths in ((17, 5), (41, 11)):
        x = {name: tf.constant(value) for name, value in inputs(*lengths).items()}
        eager, graph, exported = model(x, training=False), compiled(x), served(**x)
        for name in ("start_logits", "end_logits"):
            assert eager[name].shape == (3, lengths[0])
            np.testing.assert_allclose(graph[name], eager[name], atol=1e-5)
            np.testing.assert_allclose(exported[name], eager[name], atol=1e-5)


def test_an_existing_folder_is_left_alone(model, tmp_path):
    kept = tmp_path / "1" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(UserError, match=r"export_dir=.* exists"):
        export_token_ids(model, tmp_path / "1")
    assert kept.read_text() == "mine"
