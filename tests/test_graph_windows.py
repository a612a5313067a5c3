"""Windows inside a graph are those of `windows`."""

import numpy as np
import pytest
import tensorflow as tf

from fabir_tf.pipelines.features.graph_windows import graph_merge, graph_windows
from fabir_tf.pipelines.features.windows import merge_windows, window_offsets

LENGTHS = (0, 1, 7, 8, 9, 3, 16, 17, 40, 0)


@pytest.mark.parametrize(("size", "overlap"), [(8, 3), (8, 0), (8, 7), (1, 0), (50, 20)])
def test_windows_and_what_is_taken_of_each(size, overlap):
    windows = tf.function(graph_windows)(tf.constant(LENGTHS, tf.int64), size, overlap)
    offsets = [window_offsets(length, size, overlap) for length in LENGTHS]
    np.testing.assert_array_equal(windows.offsets, np.concatenate(offsets))
    np.testing.assert_array_equal(windows.passages, np.repeat(np.arange(len(LENGTHS)), [len(o) for o in offsets]))
    np.testing.assert_array_equal(windows.lengths, np.minimum(np.array(LENGTHS)[windows.passages.numpy()], size))

    logits = np.random.default_rng(1).normal(size=int(np.sum(windows.lengths)))
    splits = np.concatenate([[0], np.cumsum(LENGTHS)])
    chosen = tf.function(graph_merge)(windows, tf.constant(splits[:-1]), tf.constant(splits[-1]))
    parts = np.split(logits, np.cumsum(windows.lengths)[:-1])
    for passage, length in enumerate(LENGTHS):
        of_passage = [part for part, number in zip(parts, windows.passages.numpy(), strict=True) if number == passage]
        expected = merge_windows(of_passage, offsets[passage], length)
        np.testing.assert_array_equal(logits[chosen.numpy()][splits[passage] : splits[passage + 1]], expected)
