"""One version of fabir_tf, to be measured: what against_commit.py runs for each tree, in a process of its own.

Uses only what every version has had.
"""

import sys
import tempfile
from collections.abc import Callable

from common import timed

# Questions that are asked one by one.
SINGLE = 200


def version_in(
    tree: str, task: str, dataset: str, train_dataset: str, policy: str, batching: str
) -> Callable[[str], dict[str, float]]:
    """Prepares the version of a tree.

    Args:
        tree: the checkout whose package is imported; the process must not have imported another.
        task: "inference", "single" or "training".
        dataset, train_dataset: questions to answer and to train on.
        policy: the dtype policy.
        batching: what batches of training are drawn from, where the version knows of more than one way.

    Returns:
        What measures the task, told its name.
    """
    sys.path.insert(0, tree)
    import fabir_tf

    if not fabir_tf.__file__.startswith(tree):
        raise ValueError(f"fabir_tf was imported from {fabir_tf.__file__}, expected the version in {tree}")
    if task == "training":
        return lambda _: _train(train_dataset, policy, batching)
    answer = (_answering if task == "inference" else _answering_one_by_one)(dataset, policy)
    return lambda _: timed(answer)


def _answering(dataset: str, policy: str) -> Callable[[], int]:
    """Model and decoding over a whole dataset whose tokens are looked up already."""
    from fabir_tf.pipelines.text.tokenized import encode

    reader, tokenized = _reader_of(dataset, policy)
    encoded = encode(tokenized, reader.vocabulary, 20)
    reader.predict(encoded)
    return lambda: len(reader.predict(encoded))


def _answering_one_by_one(dataset: str, policy: str) -> Callable[[], int]:
    """From text to answer, as in a notebook: some questions from the whole dataset, each by itself."""
    reader, tokenized = _reader_of(dataset, policy)
    data = tokenized.data
    asked = data.questions[:: max(1, len(data.questions) // SINGLE)][:SINGLE]

    def answer() -> int:
        return len([reader.answer(question.text, data.passages[question.passage]) for question in asked])

    answer()
    return answer


def _reader_of(dataset: str, policy: str) -> tuple:
    """A reader that knows the words of the data, its weights as they begin, and the data's tokens."""
    import keras

    import fabir_tf
    from fabir_tf.pipelines.datasets.sources import load_dataset
    from fabir_tf.pipelines.text.tokenized import tokenize_dataset
    from fabir_tf.pipelines.text.vocabulary import build_vocabulary
    from fabir_tf.pipelines.text.word_vectors import load_vectors

    tokenized = tokenize_dataset(load_dataset(dataset, "dev"), None, lambda line: None)
    vocabulary = build_vocabulary(tokenized.token_counts(), load_vectors("bundled").words)
    config = fabir_tf.FabirConfig(
        trainable_words=vocabulary.trainable_rows,
        characters=vocabulary.character_rows,
        frozen_words=vocabulary.frozen_rows,
    )
    keras.config.set_dtype_policy(policy)
    reader = fabir_tf.Reader(fabir_tf.build_model(config), vocabulary, config)
    keras.config.set_dtype_policy("float32")
    return reader, tokenized


def _train(dataset: str, policy: str, batching: str) -> dict[str, float]:
    """The second of two epochs, as the run's own history has it: in the first the model is traced."""
    import fabir_tf
    from fabir_tf.training.train import train
    from fabir_tf.training.training_config import DataOptions, TrainingConfig

    settings = TrainingConfig(
        dataset=dataset, eval_dataset="sample", epochs=2, dtype_policy=policy, checkpoint_steps=10**6
    )
    if hasattr(settings, "batching"):
        settings = settings.replace(batching=batching)
    log, seconds = [], []

    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            history = train(folder, fabir_tf.FabirConfig(), settings, DataOptions(cache_dir=None), log=log.append)
        seconds.append(history["epochs"][-1]["seconds"])
        (questions,) = [line.split()[0] for line in log if "questions to train on" in line]
        return int(questions.replace(",", ""))

    # Processor time and memory are those of the whole run.
    figures = timed(work)
    return figures | {"speed": figures["questions"] / seconds[0]}
