"""What a paper built and trained, as settings: `--as_published`, and `build_model(as_published=True)`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Published:
    """The settings of a published reader.

    Attributes:
        paper: who built it, and where it is described.
        settings: settings of model and training that differ from the defaults, from those that the user gives.
        data: the training questions of the paper, which do not come with the package.
        vectors: the word vectors of the paper, which do not either; "" for a reader without word vectors.
        differences: what the paper had and this package does not have, one phrase each.
    """

    paper: str
    settings: Callable[[Mapping[str, Any]], dict[str, Any]]
    data: str
    vectors: str
    differences: tuple[str, ...] = ()


SQUAD = "SQuAD 1.1's 87,599 training questions"
SQUAD_2 = "SQuAD 2.0's 130,319 training questions, 43,498 of them without an answer"
KERAS_ADAM = {"learning_rate": 0.001, "adam_beta_2": 0.999, "adam_epsilon": 1e-7}
"""Adam as Keras and TensorFlow have it, which a paper means that says no more."""
