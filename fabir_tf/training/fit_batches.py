"""Questions as what `model.fit` of a functional reader takes, for a training loop of one's own."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from fabir_tf import onednn
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.models.outputs import END, START
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.arguments import validate_type, whole_number
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.squad import SquadData, check_offsets, data_without_unanswerable
from fabir_tf.pipelines.features.array_batches import token_inputs
from fabir_tf.pipelines.features.batch_planning import TRAINING_STEP
from fabir_tf.pipelines.features.examples import in_windows, training_examples
from fabir_tf.pipelines.features.length_buckets import LengthBucketSampler
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.registry import PROCESSORS
from fabir_tf.training.training_config import TrainingConfig


def fit_processor(data: SquadData, config: ReaderConfig | None = None, **settings) -> TextProcessor:
    """Makes the text processor of a new reader, as `train` does: it decides which words and characters have an id.

    Args:
        data: the questions to train on, from `load_dataset` or `questions_from`.
        config: the model's settings; None for those of FABIR.
        **settings: fields of `TrainingConfig` about words, such as `vectors="glove.6B.100d.txt"` and `min_word_count`.

    Returns:
        The processor, for `build_model(processor=...)`, `batches_to_fit` and `Reader`.

    Raises:
        UserError: a setting does not fit, or the vectors cannot be read.
    """
    validate_type("data", data, SquadData, "questions from load_dataset or questions_from")
    config = config or FabirConfig()
    processor = PROCESSORS[config.processor].create(TrainingConfig(**settings).to_dict() | config.to_dict())
    return processor.fit([processor.tokenize(data, log=_silent)])


def batches_to_fit(
    data: SquadData,
    processor: TextProcessor,
    batch_size: int = 32,
    max_passage: int = 400,
    max_question: int = 60,
    seed: int = 1,
    log: Callable[[str], object] = print,
) -> tf.data.Dataset:
    """Questions with an answer as batches for `fit` and `evaluate` of a functional model from `build_model`.

    A batch holds passages of similar length, padded to the longest. Every pass through the dataset is an epoch in
    another order. All lengths are unknown to the graph, so a model is traced once.

    Args:
        data: the questions, from `load_dataset` or `questions_from`; those marked `is_impossible` are left out.
        processor: that of the model, from `fit_processor` or a reader's.
        batch_size: questions in a batch at most.
        max_passage, max_question: questions with longer texts are left out, in tokens.
        seed: of the order.
        log: called with what became of the questions.

    Returns:
        A dataset of inputs by name, such as `passage_words (batch, passage)`, and targets with the names of the model's
        outputs: `start_logits` and `end_logits`, int32 `(batch,)`, the first and the last token of the answer. They
        suit `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`. A model with a null head has a third
        output without a target, so its losses are given by name, as in `compile(loss={"start_logits": loss,
        "end_logits": loss})`.

    Raises:
        UserError: no question is left, a question has neither an answer nor the mark, or an answer does not stand at
            its offset.

    Example:
        >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        >>> model.fit(batches_to_fit(data, processor), epochs=3, shuffle=False)
    """
    validate_type("data", data, SquadData, "questions from load_dataset or questions_from")
    whole_number("batch_size", batch_size, 1)
    if sentence := onednn.advice():
        log(sentence)
    check_offsets(data)
    tokenized = processor.tokenize(data_without_unanswerable(data), log=_silent)
    windows = processor.window_sizes(tokenized.question_lengths, max_passage)
    chosen, ledger = training_examples(tokenized, max_passage, max_question, None, windows=windows)
    chosen = in_windows(chosen, windows[chosen.examples.questions])
    log(ledger.summary().splitlines()[0])
    if data.unanswerable:
        questions = counted(data.unanswerable, "question")
        log(f"{data.name}: left out {questions} without an answer; train learns from such")
    features = processor.features(tokenized, chosen.examples)
    targets = (chosen.spans + features.logit_offsets[:, None]).astype(np.int32)
    sampler = LengthBucketSampler(features.passage_lengths, batch_size, seed=seed)
    epochs = itertools.count()

    def batches() -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        for batch in sampler.epoch(next(epochs)):
            yield token_inputs(features, batch, TRAINING_STEP), {START: targets[batch, 0], END: targets[batch, 1]}

    inputs = {name: tf.TensorSpec(shape, dtype) for name, (shape, dtype) in processor.input_specs.items()}
    signature = (inputs, {name: tf.TensorSpec([None], tf.int32) for name in (START, END)})
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(2)
    return dataset.apply(tf.data.experimental.assert_cardinality(sampler.batches_per_epoch))


def _silent(line: str) -> None:
    pass
