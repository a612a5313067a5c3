"""What the server and a version's process tell each other; nothing here needs TensorFlow."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fabir_tf.reading.calibration import Calibration
from fabir_tf.serving.signature import Signature


@dataclass(frozen=True)
class Description:
    """What a version can be asked.

    Attributes:
        signatures: by name.
        definitions: each signature as a serialized message `SignatureDef`.
        metadata: each signature as TensorFlow Serving's JSON has it.
        calibration: the reader's; None without one.
        threshold: the no-answer probability above which it abstains; None if it always answers.
        n_best: most spans per question; None for any number, 0 for a model that does not answer questions.
        shows_attention: whether `Attend` is answered.
    """

    signatures: dict[str, Signature]
    definitions: dict[str, bytes]
    metadata: dict[str, dict[str, Any]]
    calibration: Calibration | None
    threshold: float | None
    n_best: int | None
    shows_attention: bool


@dataclass(frozen=True)
class Predict:
    """Run a signature; answered with the outputs by name."""

    signature: str
    inputs: dict[str, np.ndarray]


@dataclass(frozen=True)
class Ask:
    """Answer questions; answered with an `Answer` or a `RequestError` for each."""

    questions: list[str]
    passages: list[str]
    n_best: int
    threshold: float | str | None


@dataclass(frozen=True)
class Attend:
    """Show the attention of one question; answered with an `Attention`."""

    question: str
    passage: str


@dataclass(frozen=True)
class Attention:
    """Which words of a passage each word of a question attends to.

    Attributes:
        question, passage: start and end of each token, in code points.
        weights: a row for each token of the question, with the weight of each token of the passage.
    """

    question: list[tuple[int, int]]
    passage: list[tuple[int, int]]
    weights: list[list[float]]


Work = Predict | Ask | Attend
