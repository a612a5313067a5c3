"""What must hold for every text processor: the same inputs in Python and in a graph, before and after it is saved."""

import tempfile
import weakref

import numpy as np
import tensorflow as tf

from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.features.features import PASSAGE_INDEX, SHARED_TEXT, Features, text_names
from fabir_tf.pipelines.features.tensor_batches import batch_inputs
from fabir_tf.pipelines.features.windows import reading_examples
from fabir_tf.pipelines.text.graph.processor import GraphExamples
from fabir_tf.pipelines.text.processor import load_processor


def check_processor(processor, questions, passages, max_passage):
    """Checks the contract of `TextProcessor` on some texts.

    Args:
        processor: a fitted `TextProcessor`.
        questions: texts; question i is about passage i, and about passage 0 where there are fewer passages.
        passages: texts, at least one.
        max_passage: most passage tokens that are read at once; fewer than some passages have, so that there are
            windows.
    """
    about = [number if number < len(passages) else 0 for number in range(len(questions))]
    asked = tuple(
        Question(f"q{number}", text, passage, ())
        for number, (text, passage) in enumerate(zip(questions, about, strict=True))
    )
    data = SquadData("texts to check", tuple(passages), ("",) * len(passages), asked)
    tokenized = processor.tokenize(data)
    _check_tokens(processor, tokenized, [*passages, *questions])
    sizes = processor.window_sizes(tokenized.question_lengths, max_passage)
    assert sizes.dtype == np.int64
    assert sizes.shape == (len(questions),)
    assert (sizes >= 1).all()
    assert (sizes <= max_passage).all()
    examples = reading_examples(tokenized.passage_lengths[about], sizes)
    features = processor.features(tokenized, examples)
    _check_features(processor, features, examples, np.array(about))
    graph = processor.in_graph()
    np.testing.assert_array_equal(graph.window_sizes(tf.constant(tokenized.question_lengths), max_passage), sizes)
    parts = (examples.questions, features.passages, examples.offsets, examples.lengths)
    texts = [text.encode() for text in (*passages, *questions)]
    found = _traced(processor, graph)(tf.constant(texts, tf.string, [len(texts)]), len(passages), *parts)
    _check_graph(features, tokenized, *found)
    with tempfile.TemporaryDirectory() as folder:
        processor.save(folder)
        again = load_processor(folder, {processor.kind: type(processor)})
    assert type(again) is type(processor)
    assert again.tokenizer_version == processor.tokenizer_version
    assert (again.input_specs, again.sizes) == (processor.input_specs, processor.sizes)
    assert again.frozen_tables.keys() == processor.frozen_tables.keys()
    for name, table in processor.frozen_tables.items():
        np.testing.assert_array_equal(again.frozen_tables[name], table)
    _check_equal(again.features(again.tokenize(data), examples), features)


_GRAPHS = weakref.WeakKeyDictionary()


def _traced(processor, graph):
    """Tokens and features of any texts, traced once for a processor: that takes longer than all the rest."""
    if processor not in _GRAPHS:
        examples = [tf.TensorSpec([None], tf.int64)] * 4
        specs = [tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.int32), *examples]

        @tf.function(input_signature=specs, autograph=False)
        def run(texts, passages, *examples):
            tokens = graph.tokenize(texts)
            return tokens, graph.features(tokens, passages, GraphExamples(*examples))

        _GRAPHS[processor] = run
    return _GRAPHS[processor]


def _check_tokens(processor, tokenized, texts):
    """Tokens are in order, inside of their text, and each covers some of it."""
    for number, text in enumerate(texts):
        tokens = processor.tokenize_text(text)
        assert tokenized.texts.tokens_of(number) == tokens
        previous = 0
        for start, end in zip(tokens.starts, tokens.ends, strict=True):
            assert previous <= start < end <= len(text)
            previous = start


def _check_features(processor, features, examples, about):
    """Features say what examples read, and have the names, shapes and dtypes that `input_specs` promises."""
    assert len(features) == len(examples.questions)
    np.testing.assert_array_equal(features.passages, about[examples.questions])
    np.testing.assert_array_equal(features.passage_lengths, examples.lengths)
    names = {f"{text}_{part}" for text in features.segments for part in features.unique}
    assert names == processor.input_specs.keys()
    for name, (shape, dtype) in processor.input_specs.items():
        values = features.unique[name.partition("_")[2]]
        assert shape == (None, None, *values.shape[1:])
        assert values.dtype == dtype
        # Row 0 is padding.
        assert not values[0].any()
    for text, segments in features.segments.items():
        room = features.logit_offsets + features.passage_lengths
        assert (segments.starts + segments.lengths <= len(features.tokens)).all()
        if text == SHARED_TEXT or len(features.segments) == 1:
            assert (room <= segments.lengths).all()
    assert features.tokens.dtype == np.int32
    assert (features.tokens >= 0).all()


def _check_graph(features, tokenized, tokens, graph_features):
    texts = tokenized.texts
    for name, expected in (("row_splits", texts.splits), ("starts", texts.starts), ("ends", texts.ends)):
        np.testing.assert_array_equal(getattr(tokens, name), expected, err_msg=name)
    np.testing.assert_array_equal(graph_features.logit_offsets, features.logit_offsets)
    assert graph_features.tables.keys() == features.tables.keys()
    assert text_names(graph_features.tables) == list(features.segments)
    if not len(features):
        return
    # Unique tokens may be numbered otherwise: compare what a model gets.
    batch = tf.range(len(features), dtype=tf.int64)
    expected, found = (
        _model_inputs(batch_inputs({name: tf.constant(part) for name, part in tables.items()}, batch, 1))
        for tables in (features.tables, graph_features.tables)
    )
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
        assert found[name].dtype == values.dtype


def _model_inputs(inputs):
    """The inputs of the model itself, one row per example."""
    inputs = {name: values.numpy() for name, values in inputs.items()}
    parts = [name.removeprefix("unique_") for name in inputs if name.startswith("unique_")]
    found = {}
    for name, index in inputs.items():
        if name.endswith("_token_index"):
            text = name.removesuffix("_token_index")
            index = index[inputs[PASSAGE_INDEX]] if text == SHARED_TEXT else index
            found |= {f"{text}_{part}": inputs[f"unique_{part}"][index] for part in parts}
    return found


def _check_equal(found, expected):
    arrays, others = expected.to_arrays(), found.to_arrays()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(others[name], array, err_msg=name)
        assert others[name].dtype == array.dtype
    # They are the same when they come back from arrays, too.
    again = Features.from_arrays(arrays)
    assert list(again.segments) == list(expected.segments)
