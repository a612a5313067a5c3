"""One interface to the two layouts that this package has had, so that a benchmark can compare them.

Layout 0.1 has its modules side by side (`fabir_tf/reader.py`); today's has a folder for each purpose
(`fabir_tf/reading/reader.py`). A process imports one tree only, because both are called `fabir_tf`. Inference must not
import the training modules: they change the settings of oneDNN for the whole process.
"""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

READER = "fabir-base"


def open_layout(tree: str) -> "Layout":
    """Imports the package of a tree.

    Args:
        tree: the folder of a checkout; the process must not have imported another one.

    Returns:
        The layout of the tree.
    """
    layout = layout_class(tree)
    sys.path.insert(0, tree)
    import fabir_tf

    if not Path(fabir_tf.__file__).is_relative_to(tree):
        raise ValueError(f"fabir_tf: found {fabir_tf.__file__}, expected the version in {tree}")
    return layout()


def layout_class(tree: str) -> type["Layout"]:
    """The layout that a tree has.

    Raises:
        UserError: it has none of those that can be measured.
    """
    for layout in (TodaysLayout, OldLayout):
        if all((Path(tree) / file).is_file() for file in layout.files):
            return layout
    # Not at the top: a process that measures must import the package from its own tree.
    from fabir_tf.pipelines.errors import UserError

    raise UserError(f"{tree}: found no known layout of fabir_tf, expected that of 0.1 or of a later version")


@dataclasses.dataclass(frozen=True)
class Examples:
    """What a training reads, in the classes of its layout."""

    features: Any
    targets: Any
    sampler: Any


class Layout:
    """What a benchmark needs of a version; there is a subclass for each layout."""

    files: tuple[str, ...]

    def load_reader(self, name: str = READER, precision: str = "float32"):
        """A trained reader that comes with the package, or one from the folder of a run."""
        import fabir_tf

        return fabir_tf.Reader.load(name, precision=precision)

    def load_questions(self, path: str):
        """The tokenized questions of a SQuAD JSON file."""
        raise NotImplementedError

    def predictor(self, reader, tokenized) -> Callable[[], int]:
        """A function that answers all questions and returns their number; the ids of words are looked up before."""
        raise NotImplementedError

    def trainer(self, path: str, precision: str = "float32", batching: str = "questions") -> Callable[[], int]:
        """A function that trains one epoch, as `fit` would, and returns the number of its questions.

        The model starts with the weights of `READER`. The batches are the same each time.

        Args:
            path: a SQuAD JSON file.
            precision: the dtype policy.
            batching: the units that batches are drawn from.
        """
        import tensorflow as tf

        reader, tokenized = self.load_reader(), self.load_questions(path)
        model, examples, make_batches = self._training(reader, tokenized, precision, batching)
        model.model.set_weights(reader.model.get_weights())
        # Built before the step is traced, which must not create variables.
        model.optimizer.build(model.trainable_variables)
        batches = examples.sampler.epoch(0)
        specs = make_batches(examples.features, batches[:1], examples.targets).element_spec
        step = tf.function(model.train_step, input_signature=[specs], autograph=False)

        def train() -> int:
            for batch in make_batches(examples.features, batches, examples.targets):
                # A training loop that shows its loss waits for it.
                float(step(batch)["loss"])
            return sum(map(len, batches))

        return train

    def _training(self, reader, tokenized, precision: str, batching: str) -> tuple:
        """A compiled model, an `Examples`, and the function that makes batches."""
        raise NotImplementedError


class TodaysLayout(Layout):
    """A folder for each purpose."""

    files = ("fabir_tf/reading/reader.py", "fabir_tf/training/train.py", "pipelines/features/tensor_batches.py")

    def load_questions(self, path: str):
        from fabir_tf.pipelines.datasets.sources import load_dataset
        from fabir_tf.pipelines.text.tokenized import tokenize_dataset
        from fabir_tf.pipelines.text.word_processor import WordTokenizer

        return tokenize_dataset(load_dataset(path, "dev"), WordTokenizer(), None, lambda line: None)

    def predictor(self, reader, tokenized) -> Callable[[], int]:
        return lambda: len(reader.predict(tokenized))

    def _training(self, reader, tokenized, precision: str, batching: str) -> tuple:
        from fabir_tf.pipelines.features.examples import training_examples
        from fabir_tf.pipelines.features.tensor_batches import make_batches
        from fabir_tf.training.train import bucket_sampler, compiled_model, make_targets
        from fabir_tf.training.training_config import TrainingConfig

        settings = TrainingConfig(dtype_policy=precision, batching=batching)
        limits = (settings.max_passage, settings.max_question, reader.config.max_answer)
        found = training_examples(tokenized, *limits)[0]
        features = reader.processor.features(tokenized, found.examples)
        examples = Examples(features, make_targets(features, found.spans), bucket_sampler(features, settings))
        return compiled_model(reader.config, settings, reader.processor), examples, make_batches


class OldLayout(Layout):
    """The modules of 0.1, side by side."""

    files = ("fabir_tf/reader.py", "fabir_tf/training.py", "pipelines/rows.py", "fabir_tf/pretrained/__init__.py")

    def load_questions(self, path: str):
        from fabir_tf.pipelines.encoding import tokenise
        from fabir_tf.pipelines.sources import load_dataset

        return tokenise(load_dataset(path, "dev"), None, lambda line: None)

    def predictor(self, reader, tokenized) -> Callable[[], int]:
        encoded = reader.encode(tokenized)
        return lambda: len(reader.predict(encoded))

    def _training(self, reader, tokenized, precision: str, batching: str) -> tuple:
        import numpy as np

        from fabir_tf.examples import training_examples
        from fabir_tf.pipelines.batches import make_batches
        from fabir_tf.pipelines.rows import encode_rows
        from fabir_tf.pipelines.vectors import load_saved_vectors
        from fabir_tf.run_directory import reader_directory
        from fabir_tf.training import compiled_model, length_groups, targets_of
        from fabir_tf.training_config import TrainingConfig

        settings = TrainingConfig(dtype_policy=precision, batching=batching)
        found = training_examples(tokenized, settings.max_passage, settings.max_question)[0]
        rows = encode_rows(reader.encode(tokenized), found.rows)
        targets = targets_of(rows, np.stack([found.firsts, found.lasts], axis=1))
        vectors = load_saved_vectors(reader_directory(READER).vocabulary)
        examples = Examples(rows, targets, length_groups(rows, settings))
        return compiled_model(reader.config, settings, vectors), examples, make_batches
