"""The step of a row does not depend on how often it is looked up, on every backend."""

import keras
import numpy as np
import pytest

from fabir_tf.layers import CharacterEmbedding, WordEmbedding

WORDS = np.array([[1, 2, 2, 2, 2, 2, 1, 0]])


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_a_row_looked_up_often_moves_by_the_learning_rate(kind):
    """Adam's first step is the learning rate in the gradient's direction, however large the gradient is."""
    keras.utils.set_random_seed(2)
    if kind == "words":
        layer, inputs = WordEmbedding(trainable_rows=2, frozen_rows=0, dim=6), WORDS
    else:
        layer, inputs = CharacterEmbedding(rows=2, dim=3, filters=4), np.repeat(WORDS[..., None], 7, axis=2)
    given = keras.Input(inputs.shape[1:], dtype="int32")
    model = keras.Model(given, layer(given))
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-12), "mse")
    table = layer.trainable_table if kind == "words" else layer.table
    before = np.asarray(table).copy()
    model.train_on_batch(inputs, np.full((*inputs.shape[:2], 6 if kind == "words" else 4), 3.0))
    np.testing.assert_allclose(np.abs(np.asarray(table) - before), 0.01, rtol=1e-3)
