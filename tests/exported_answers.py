"""An exported reader's answers beside those of the reader in Python."""

import pytest
import tensorflow as tf

import fabir_tf
from fabir_tf.export.loading import read_saved_model
from fabir_tf.export.operations import forbidden_operations


def export_and_compare(reader, folder, questions, passages):
    """Exports a reader, whose two best spans must be the same in both, and returns the exported function.

    Args:
        reader: what is exported; questions that it refuses are not compared.
        folder: to export to.
        questions, passages: one row each.
    """
    exported = fabir_tf.export_reader(reader, folder, n_best=2)
    assert forbidden_operations(read_saved_model(exported)) == []
    served = tf.saved_model.load(str(exported)).signatures["serving_default"]
    found = served(question=tf.constant(questions), passage=tf.constant(passages))
    for row, answer in enumerate(reader.answer_batch(questions, passages, n_best=2)):
        for number, span in enumerate(answer.n_best):
            assert found["n_best_answer"][row, number].numpy().decode() == span.text
            assert (found["n_best_start"][row, number], found["n_best_end"][row, number]) == (span.start, span.end)
            assert float(found["n_best_probability"][row, number]) == pytest.approx(span.probability, rel=1e-3)
    return served
