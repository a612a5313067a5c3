"""Windows inside a graph are those of `windows`."""

import numpy as np
import pytest
import tensorflow as tf

from fabir_tf.pipelines.features import windows as in_numpy
from fabir_tf.pipelines.features.windows import merge_windows, reading_examples, window_offsets
from fabir_tf.pipelines.text.graph.windows import graph_merge, graph_windows, smallest_null

LENGTHS = np.array([0, 1, 7, 8, 9, 3, 16, 17, 40, 0])
# Of every size that occurs above, and of others.
DIFFERENT = np.array([8, 1, 7, 5, 8, 50, 3, 16, 9, 1])


def windows_in_graph(lengths, sizes, overlap):
    arguments = [tf.constant(part, tf.int64) for part in (lengths, sizes)]
    return tf.function(graph_windows)(*arguments, overlap)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "overlap"),
    [(8, 3), (8, 0), (8, 4), (8, 7), (1, 0), (50, 20), (DIFFERENT, 3), (DIFFERENT, 0), (DIFFERENT[::-1], 128)],
)
def test_windows_and_what_is_taken_of_each(sizes, overlap):
    sizes = np.broadcast_to(sizes, LENGTHS.shape)
    windows = windows_in_graph(LENGTHS, sizes, overlap)
    # At most half a window is shared.
    offsets = [
        window_offsets(length, size, min(overlap, size // 2)) for length, size in zip(LENGTHS, sizes, strict=True)
    ]
    np.testing.assert_array_equal(windows.offsets, np.concatenate(offsets))
    np.testing.assert_array_equal(windows.passages, np.repeat(np.arange(len(LENGTHS)), [len(o) for o in offsets]))
    np.testing.assert_array_equal(windows.lengths, np.minimum(LENGTHS, sizes)[windows.passages.numpy()])

    logits = np.random.default_rng(1).normal(size=int(np.sum(windows.lengths)))
    splits = np.concatenate([[0], np.cumsum(LENGTHS)])
    chosen = tf.function(graph_merge)(windows, tf.constant(splits[:-1]), tf.constant(splits[-1]))
    parts = np.split(logits, np.cumsum(windows.lengths)[:-1])
    for passage, length in enumerate(LENGTHS):
        of_passage = [part for part, number in zip(parts, windows.passages.numpy(), strict=True) if number == passage]
        expected = merge_windows(of_passage, offsets[passage], length)
        np.testing.assert_array_equal(logits[chosen.numpy()][splits[passage] : splits[passage + 1]], expected)


@pytest.mark.parametrize("overlap", [2, 128])
def test_windows_are_those_in_which_python_reads(overlap, monkeypatch):
    """Except for one empty window where a passage has no token, which python leaves out."""
    random = np.random.default_rng(4)
    lengths, sizes = random.integers(0, 900, 60), random.integers(1, 400, 60)
    lengths[:3] = 0
    monkeypatch.setattr(in_numpy, "OVERLAP", overlap)
    examples, windows = reading_examples(lengths, sizes), windows_in_graph(lengths, sizes, overlap)
    is_read = windows.lengths.numpy() > 0
    assert np.sum(~is_read) >= 3
    for expected, found in zip((examples.questions, examples.offsets, examples.lengths), windows, strict=True):
        np.testing.assert_array_equal(found.numpy()[is_read], expected)


def test_the_null_logits_are_those_of_numpy():
    windows = windows_in_graph(LENGTHS, DIFFERENT, 3)
    passages = windows.passages.numpy()
    # Few values, so that sums are equal in several windows of one passage.
    null_logits = np.random.default_rng(2).integers(-3, 3, (len(passages), 2)).astype(np.float32)
    found = tf.function(smallest_null)(windows, null_logits, tf.constant(len(LENGTHS), tf.int64))
    expected = [in_numpy.smallest_null(null_logits[passages == number]) for number in range(len(LENGTHS))]
    np.testing.assert_array_equal(found, expected)
    assert len(passages) > 2 * len(LENGTHS)


def test_no_passages():
    windows = windows_in_graph([], [], 3)
    assert [part.shape.as_list() for part in windows] == [[0]] * 3
    assert graph_merge(windows, tf.zeros([0], tf.int64), tf.constant(0, tf.int64)).shape == [0]
    assert smallest_null(windows, tf.zeros([0, 2]), tf.constant(0, tf.int64)).shape == [0, 2]
