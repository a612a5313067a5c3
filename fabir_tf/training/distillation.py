"""The start and end distributions of trained readers, for another reader to learn from."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.other_tokens import over_other_tokens
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.pipelines.text.tokenized import Tokenizer
from fabir_tf.reading.answers import QuestionScores
from fabir_tf.reading.ensemble import Ensemble
from fabir_tf.reading.reader import Reader


def teach(
    teachers: Sequence[Reader | Ensemble],
    data: SquadData,
    progress: Callable[[int, int], None] | None = None,
    tokenizer: Tokenizer | None = None,
) -> TeacherDistributions:
    """The mean of several teachers' start and end distributions.

    Args:
        teachers: one or more. The members of an ensemble share its part by their weights.
        data: the questions.
        progress: called with (examples done, examples in total) for each teacher in turn.
        tokenizer: the student's processor; the distributions are then over its tokens, and the teachers may cut
            passages in any way. Without it all teachers must cut passages into the same tokens.

    Returns:
        The distributions of every question about a passage with tokens, but for those that are marked as unanswerable
        if no teacher has a null head.

    Raises:
        UserError: two teachers cut a passage into different tokens, or an id has several lines, which the file of the
            distributions cannot hold.
    """
    for question in data.questions:
        if "\n" in question.id:
            raise UserError(f"{data.name}: the id {quoted(question.id)} has a line break, expected ids of one line")
    found: dict[int, np.ndarray] = {}
    place = _StudentTokens(data, tokenizer) if tokenizer else _SharedTokens(data)
    for teacher, weight in _weighted(teachers):
        temperature = teacher.calibration.temperature if teacher.calibration else 1.0
        for scores in teacher.scores(data, progress):
            # A teacher that cannot say "no answer" says nothing about such a question.
            if scores.null_logits is None and data.questions[scores.question].is_impossible:
                continue
            both = place(scores, _distributions(scores, temperature))
            if both.shape[1] > 1:
                found[scores.question] = found.get(scores.question, 0.0) + weight * both
    return TeacherDistributions.collect((data.questions[number].id, found[number]) for number in sorted(found))


class _SharedTokens:
    """The teachers' own tokens, which must be the same ones."""

    def __init__(self, data: SquadData):
        self._questions = data.questions
        self._starts: dict[int, np.ndarray] = {}

    def __call__(self, scores: QuestionScores, both: np.ndarray) -> np.ndarray:
        if not np.array_equal(self._starts.setdefault(scores.question, scores.starts), scores.starts):
            question = self._questions[scores.question].id
            raise UserError(f"question {question!r}: the teachers cut its passage into different tokens")
        return both


class _StudentTokens:
    """The student's tokens; a passage may have none."""

    def __init__(self, data: SquadData, tokenizer: Tokenizer):
        passages = dict.fromkeys(data.passages)
        self._tokens = {text: tokenizer.tokenize_text(text) for text in passages}
        self._data = data

    def __call__(self, scores: QuestionScores, both: np.ndarray) -> np.ndarray:
        tokens = self._tokens[self._data.passages[self._data.questions[scores.question].passage]]
        if not tokens.words:
            return both[:, -1:]
        return over_other_tokens(both, scores.starts, scores.ends, np.array(tokens.starts), np.array(tokens.ends))


def _weighted(teachers: Sequence[Reader | Ensemble]) -> Iterator[tuple[Reader, float]]:
    """Each single reader, and what it counts."""
    for teacher in teachers:
        if isinstance(teacher, Ensemble):
            yield from zip(teacher.members, (teacher.weights / len(teachers)).tolist(), strict=True)
        else:
            yield teacher, 1.0 / len(teachers)


def _distributions(scores: QuestionScores, temperature: float) -> np.ndarray:
    """Probabilities of the tokens, and of "no answer" in the last column, float `(2, passage + 1)`."""
    both = scores.probabilities(1 / temperature)
    return both if scores.null_logits is not None else np.pad(both, ((0, 0), (0, 1)))
