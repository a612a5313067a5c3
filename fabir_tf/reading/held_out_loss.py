"""How likely a reader finds the true start and end of answers that it was not trained on."""

import numpy as np

from fabir_tf.pipelines.features.examples import LEFT_OUT
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.answers import start_end_probabilities

# Of a true token, so that a probability of 0 has a logarithm.
_LEAST = 1e-30


class HeldOutLoss:
    """The loss of a dataset, counted question by question while a reader answers it.

        loss      = mean over questions of  - log p(start) - log p(end)
        accuracy  = mean over questions of  (p(start) + p(end)) / 2

    Args:
        tokenized: the dataset.
        spans: `true_spans` of it; no label is smoothed.

    Reference: FABIR eq. 18; Porwal, section 4.11.1 (accuracy).
    """

    def __init__(self, tokenized: TokenizedDataset, spans: np.ndarray):
        self._spans = spans
        self._lengths = tokenized.passage_lengths[tokenized.question_passages]
        self._losses: list[float] = []
        self._accuracies: list[float] = []

    def add(self, question: int, start: np.ndarray, end: np.ndarray, null: np.ndarray | None) -> None:
        """Counts one question.

        Args:
            question: its number in the dataset.
            start, end: logits of the passage's tokens, float `(passage,)` or longer with padding.
            null: logits of "no answer", `(2,)`, if the reader has any.
        """
        span = self._spans[question]
        if span[0] == LEFT_OUT:
            return
        length = self._lengths[question]
        probabilities = start_end_probabilities(start[:length].astype(np.float64), end[:length], null)
        # "No answer" is the last column.
        true = np.array([probabilities[part, span[part]] for part in (0, 1)])
        self._losses.append(-float(np.log(np.maximum(true, _LEAST)).sum()))
        self._accuracies.append(float(true.mean()))

    @property
    def loss(self) -> float | None:
        """The mean loss; None where no question counts."""
        return float(np.mean(self._losses)) if self._losses else None

    @property
    def accuracy(self) -> float | None:
        """The mean accuracy, from 0 to 1; None where no question counts."""
        return float(np.mean(self._accuracies)) if self._accuracies else None
