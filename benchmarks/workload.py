"""What the benchmarks measure with: questions of a dataset, and our readers with weights as they begin."""

import dataclasses
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

import fabir_tf
from fabir_tf.configuration import Config
from fabir_tf.models import MODELS
from fabir_tf.models.precision import dtype_policy
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.features.examples import TrainingExamples, training_examples
from fabir_tf.pipelines.features.features import make_features
from fabir_tf.pipelines.features.tensor_batches import make_batches
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, encode, tokenize_dataset
from fabir_tf.pipelines.text.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.pipelines.text.word_vectors import load_vectors
from fabir_tf.training.train import compiled_model, length_buckets, targets_of
from fabir_tf.training.training_config import TrainingConfig

READERS = {name: family.config for name, family in MODELS.items()}
# What trains a reader is what trains it in fabir-train.
TRAINING = TrainingConfig()


def load_questions(dataset: str, questions: int | None = None) -> TokenizedDataset:
    """Loads and tokenises questions.

    Args:
        dataset: a SQuAD JSON file or "sample".
        questions: about how many; all of them when None.

    Returns:
        Whole passages with all of their questions, because a reader that reads a passage once for all of its questions
        gains by their number; where not all, passages that stand at equal distances in the order of their lengths.
    """
    data = load_dataset(dataset, "dev")
    if questions is not None and questions < len(data.questions):
        data = _sample(data, questions)
    return tokenize_dataset(data, None, lambda line: None)


def _sample(data: SquadData, questions: int) -> SquadData:
    order = sorted(range(len(data.passages)), key=lambda passage: len(data.passages[passage]))
    count = max(1, round(questions * len(order) / len(data.questions)))
    places = (np.arange(count) + 0.5) * len(order) / count
    numbers = {order[int(place)]: number for number, place in enumerate(places)}
    kept = tuple(
        dataclasses.replace(question, passage=numbers[question.passage])
        for question in data.questions
        if question.passage in numbers
    )
    passages, titles = (tuple(texts[passage] for passage in numbers) for texts in (data.passages, data.titles))
    return SquadData(data.name, passages, titles, kept)


def set_threads(threads: int) -> None:
    """Threads that TensorFlow computes with; to be called before it computes anything."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def fresh_reader(name: str, tokenized: TokenizedDataset, precision: str) -> fabir_tf.Reader:
    """A reader that knows the words of the data, its weights as they begin: speed does not depend on them.

    Args:
        name: one of `READERS`.
        tokenized: the data.
        precision: the layers' dtype policy.

    Returns:
        The reader.
    """
    vocabulary = build_vocabulary(tokenized.token_counts(), load_vectors("bundled").words)
    config = _config(name, vocabulary)
    return fabir_tf.Reader(fresh_model(config, precision), vocabulary, config)


def fresh_model(config: Config, precision: str) -> keras.Model:
    """A model with weights as they begin, the same ones each time."""
    keras.utils.set_random_seed(TRAINING.seed)
    with dtype_policy(precision):
        return fabir_tf.build_model(config)


def _config(name: str, vocabulary: Vocabulary) -> Config:
    return READERS[name](
        # Of the bundled vectors, with which all are compared.
        word_dim=load_vectors("bundled").dimension,
        trainable_words=vocabulary.trainable_rows,
        characters=vocabulary.character_rows,
        frozen_words=vocabulary.frozen_rows,
    )


class Training:
    """Training one epoch again and again, as fabir-train does it.

    Args:
        name: one of `READERS`.
        tokenized: the questions; those that are too long or have no answer are left out.
        precision: the layers' dtype policy.
        batching: what batches are drawn from.
    """

    def __init__(self, name: str, tokenized: TokenizedDataset, precision: str, batching: str = "passages"):
        vectors = load_vectors("bundled")
        vocabulary = build_vocabulary(tokenized.token_counts(), vectors.words)
        settings = TRAINING.replace(dtype_policy=precision, batching=batching)
        config = _config(name, vocabulary)
        self._trainer = compiled_model(config, settings, vectors)
        self._trainer.optimizer.build(self._trainer.trainable_variables)
        examples = examples_of(tokenized)
        self._rows = make_features(encode(tokenized, vocabulary, config.max_word_characters), examples.rows)
        self._borders = np.stack([examples.firsts, examples.lasts], axis=1)
        self._groups = length_buckets(self._rows, settings)
        data = self._batches(self._groups.epoch(0)[:1])
        self._step = tf.function(self._trainer.train_step, input_signature=[data.element_spec], autograph=False)
        self.train(data)

    @property
    def questions(self) -> int:
        """Questions in an epoch."""
        return len(self._borders)

    def epoch(self) -> tf.data.Dataset:
        """The batches of an epoch."""
        return self._batches(self._groups.epoch(0))

    def train(self, batches: Iterable[tuple]) -> int:
        """Trains on some batches, as `fit` would; returns the questions of an epoch."""
        for batch in batches:
            # As a number, because a training loop that shows its loss waits for it.
            float(self._step(batch)["loss"])
        return self.questions

    def _batches(self, batches: Iterable[np.ndarray]) -> tf.data.Dataset:
        return make_batches(self._rows, batches, targets_of(self._rows, self._borders))


def examples_of(tokenized: TokenizedDataset) -> TrainingExamples:
    """The questions that can be trained on."""
    return training_examples(tokenized, TRAINING.max_passage, TRAINING.max_question)[0]


def random_batch(config, passages: tuple[int, int], questions: tuple[int, int]) -> dict:
    """Inputs of `DeduplicatedModel` without padding, each passage asked as often as any other.

    Args:
        config: of a reader with characters.
        passages, questions: how many, and how many tokens each has.
    """
    types = types_of(passages, questions)
    return {
        "unique_words": tf.random.uniform((types,), 1, config.trainable_words + config.frozen_words, tf.int32),
        "unique_characters": tf.random.uniform((types, config.max_word_characters), 1, config.characters, tf.int32),
        "passage_token_index": tf.random.uniform(passages, 0, types, tf.int32),
        "question_token_index": tf.random.uniform(questions, 0, types, tf.int32),
        "passage_index": tf.range(questions[0]) * passages[0] // questions[0],
    }


def types_of(*texts: tuple[int, int]) -> int:
    """Distinct tokens that so many texts of so many tokens have: about a third, as in full batches of SQuAD."""
    return max(1, sum(count * tokens for count, tokens in texts) // 3)
