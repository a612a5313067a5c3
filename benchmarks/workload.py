"""What the benchmarks measure with: questions of a dataset, and our readers with initial weights."""

import dataclasses
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

import fabir_tf
from fabir_tf.models import MODELS
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.features.examples import TrainingExamples, training_examples
from fabir_tf.pipelines.features.tensor_batches import make_batches
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.registry import PROCESSORS
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.pipelines.text.word_vectors import load_vectors
from fabir_tf.precision import dtype_policy
from fabir_tf.training.train import bucket_sampler, compiled_model, make_targets
from fabir_tf.training.training_config import TrainingConfig

READERS = {name: spec.config for name, spec in MODELS.items()}
# The settings of fabir-train.
TRAINING = TrainingConfig()


def load_questions(dataset: str, questions: int | None = None) -> TokenizedDataset:
    """Loads and tokenizes questions.

    Args:
        dataset: a SQuAD JSON file or "sample".
        questions: about how many; None for all of them.

    Returns:
        Whole passages with all of their questions, because a reader that encodes each passage once is faster with more
        questions per passage. If only some are taken, they are evenly spread over the passages' lengths.
    """
    data = load_dataset(dataset, "dev")
    if questions is not None and questions < len(data.questions):
        data = _sample(data, questions)
    return tokenize_dataset(data, WordTokenizer(), None, lambda line: None)


def _sample(data: SquadData, questions: int) -> SquadData:
    order = sorted(range(len(data.passages)), key=lambda passage: len(data.passages[passage]))
    count = max(1, round(questions * len(order) / len(data.questions)))
    ranks = (np.arange(count) + 0.5) * len(order) / count
    numbers = {order[int(rank)]: number for number, rank in enumerate(ranks)}
    kept = tuple(
        dataclasses.replace(question, passage=numbers[question.passage])
        for question in data.questions
        if question.passage in numbers
    )
    passages, titles = (tuple(texts[passage] for passage in numbers) for texts in (data.passages, data.titles))
    return SquadData(data.name, passages, titles, kept)


def set_threads(threads: int) -> None:
    """Sets TensorFlow's number of threads; call it before TensorFlow computes anything."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def fit_processor(
    config: ReaderConfig, tokenized: TokenizedDataset, vectors: str = "bundled"
) -> tuple[ReaderConfig, TextProcessor]:
    """Makes the text processor of a reader from the texts that it is measured with.

    Args:
        config: the reader's.
        tokenized: the texts.
        vectors: word vectors, as for fabir-train.

    Returns:
        The configuration with the sizes of vectors and processor, and the processor.
    """
    config = config.replace(word_dim=load_vectors(vectors).dimension)
    settings = TRAINING.to_dict() | {"vectors": vectors} | config.to_dict()
    processor = PROCESSORS[config.processor].create(settings).fit([tokenized])
    return config.replace(**processor.sizes), processor


def fresh_reader(name: str, tokenized: TokenizedDataset, precision: str) -> fabir_tf.Reader:
    """A reader that knows the words of the data; its weights are initial ones, because speed does not depend on them.

    Args:
        name: one of `READERS`.
        tokenized: the data.
        precision: the layers' dtype policy.

    Returns:
        The reader.
    """
    config, processor = fit_processor(READERS[name](), tokenized)
    return fabir_tf.Reader(fresh_model(config, precision), processor, config)


def fresh_model(config: ReaderConfig, precision: str) -> keras.Model:
    """A model with initial weights, the same ones each time."""
    keras.utils.set_random_seed(TRAINING.seed)
    with dtype_policy(precision):
        return fabir_tf.build_model(config)


class Training:
    """Training one epoch again and again, as fabir-train does it.

    Args:
        name: one of `READERS`.
        tokenized: the questions; those that are too long or have no answer are left out.
        precision: the layers' dtype policy.
        batching: the units that batches are drawn from.
        length_buckets: the buckets of similar length that a batch is drawn inside.
    """

    def __init__(
        self,
        name: str,
        tokenized: TokenizedDataset,
        precision: str,
        batching: str = "passages",
        length_buckets: int = TRAINING.length_buckets,
    ):
        settings = TRAINING.replace(dtype_policy=precision, batching=batching, length_buckets=length_buckets)
        config, processor = fit_processor(READERS[name](), tokenized)
        self._trainer = compiled_model(config, settings, processor)
        self._trainer.optimizer.build(self._trainer.trainable_variables)
        found = examples_of(tokenized)
        self._features = processor.features(tokenized, found.examples)
        self._targets = make_targets(self._features, found.spans)
        self._sampler = bucket_sampler(self._features, settings)
        data = self._batches(self._sampler.epoch(0)[:1])
        self._step = tf.function(self._trainer.train_step, input_signature=[data.element_spec], autograph=False)
        self.train(data)

    @property
    def questions(self) -> int:
        """Questions in an epoch."""
        return len(self._features)

    @property
    def padding(self) -> float:
        """The share of an epoch's passage tokens that is padding."""
        lengths = self._features.segments["passage"].lengths
        read = sum(len(batch) * lengths[batch].max() for batch in self._sampler.epoch(0))
        return 1 - sum(lengths[batch].sum() for batch in self._sampler.epoch(0)) / read

    def epoch(self) -> tf.data.Dataset:
        """The batches of an epoch."""
        return self._batches(self._sampler.epoch(0))

    def train(self, batches: Iterable[tuple]) -> int:
        """Trains on some batches, as `fit` would; returns the number of questions in an epoch."""
        for batch in batches:
            # A training loop that shows its loss waits for it.
            float(self._step(batch)["loss"])
        return self.questions

    def _batches(self, batches: Iterable[np.ndarray]) -> tf.data.Dataset:
        return make_batches(self._features, batches, self._targets)


def examples_of(tokenized: TokenizedDataset) -> TrainingExamples:
    """The questions that can be trained on."""
    max_answer = fabir_tf.FabirConfig().max_answer
    return training_examples(tokenized, TRAINING.max_passage, TRAINING.max_question, max_answer)[0]


def random_batch(config: ReaderConfig, passages: tuple[int, int], questions: tuple[int, int]) -> dict[str, tf.Tensor]:
    """Inputs of `DeduplicatedModel` without padding; each passage has the same number of questions.

    Args:
        config: of a reader with characters.
        passages, questions: their number, and the tokens of each.
    """
    unique = unique_tokens(passages, questions)
    return {
        "unique_words": tf.random.uniform((unique,), 1, config.trainable_words + config.frozen_words, tf.int32),
        "unique_characters": tf.random.uniform((unique, config.max_word_characters), 1, config.characters, tf.int32),
        "passage_token_index": tf.random.uniform(passages, 0, unique, tf.int32),
        "question_token_index": tf.random.uniform(questions, 0, unique, tf.int32),
        "passage_index": tf.range(questions[0]) * passages[0] // questions[0],
    }


def unique_tokens(*texts: tuple[int, int]) -> int:
    """The number of unique tokens of some texts: about a third of all, as in full batches of SQuAD.

    Args:
        *texts: number of texts and tokens of each.
    """
    return max(1, sum(count * tokens for count, tokens in texts) // 3)
