"""Several readers that answer together: the probabilities of equal spans are summed."""

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import QuestionError, UserError
from fabir_tf.pipelines.features.alignment import CoverageLedger
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.answers import (
    NO_ANSWER,
    OWN_THRESHOLD,
    Answer,
    Dataset,
    Progress,
    Span,
    answer_of,
    as_pairs,
    as_text,
    questions_about,
    validate_dataset,
    validate_n_best,
)
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.ensemble_weights import any_order_sum, normalised_weights, shares_and_log_odds
from fabir_tf.reading.no_answer import answer_share, no_answer_probability
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import EnsembleDirectory
from fabir_tf.reading.text_reader import validate_threshold

if TYPE_CHECKING:
    from fabir_tf.reading.ensemble_graph import EnsembleGraph

CANDIDATES = 20
"""Spans that each member proposes."""

CHUNK = 4096
"""Questions whose candidates are in memory at once."""

Proposal = tuple[int, list[Span], float]


@dataclasses.dataclass(frozen=True, eq=False)
class SummedSpans:
    """What the members of an ensemble say of one question, summed, before the ensemble's own calibration.

    These are the scores of an ensemble: `calibrate` reads them as it reads `QuestionScores`.

    Attributes:
        question: the question's number in the dataset.
        spans: of all members, each with its summed probability given that there is an answer, the best first.
        score: `Answer.score`.
        has_null: whether a member can say that there is no answer.
    """

    question: int
    spans: list[Span]
    score: float
    has_null: bool

    @property
    def best(self) -> tuple[int, int]:
        """Start and end of the best span, in code points."""
        return self.spans[0].start, self.spans[0].end

    def best_probabilities(self, temperatures: np.ndarray) -> np.ndarray:
        """The probability of the best span, given that there is an answer, at each temperature."""
        probabilities = np.array([span.probability for span in self.spans])
        return np.array([at_temperature(probabilities, temperature)[0] for temperature in temperatures])


class Ensemble:
    """Answers with the sum of what several readers say.

        p(span) = sum_m w_m p_m(span)        p(no answer) = sum_m w_m p_m(no answer)

    over the members m, with weights w that add up to 1. Each member proposes its 20 best spans; spans are equal if they
    have the same offsets in the passage, so the members may cut it into different tokens. Equal sums are ordered by
    start and end, so the order of the members makes no difference. A member without a null head says "no answer" with
    probability 0. Where some members find nothing to read in a text, the others answer; a question that is too long for
    one is an error.

    Every member counts with its own calibration. `calibration` is that of the sums: its temperature T makes each
    probability of a span p^(1/T), scaled to the same sum over all spans. `Answer.score` is the log odds of an answer,
    in the units of the members' own scores; if no member has a null head, it is the mean of the members' scores.

    Args:
        members: readers, each any model.
        weights: as many numbers above 0, of which only the ratios count; None for equal ones.
        calibration: of the ensemble; None keeps the sums, and abstains above the mean of the members' thresholds.
        log: called with one sentence about members without a null head, if others have one; None warns.
        no_answer_threshold: as for `Reader`.

    Raises:
        UserError: there is no member, one is no `Reader`, or a weight or the threshold does not fit.

    Example:
        >>> ensemble = fabir_tf.Ensemble([fabir_tf.Reader.load("fabir-base"), fabir_tf.Reader.load("runs/bidaf")])
        >>> ensemble.answer("Who built the mill?", "The mill was built by Anna Keld.").text
        'Anna Keld'

    Reference: Cheung, section 4.2 (the sum of the answers' probabilities with equal or other weights).
    """

    def __init__(
        self,
        members: Sequence[Reader],
        weights: Sequence[float] | np.ndarray | None = None,
        calibration: Calibration | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ):
        self.members = list(members)
        if not self.members:
            raise UserError("found an ensemble without members, expected one reader at least")
        for member in self.members:
            if not isinstance(member, Reader):
                raise UserError(f"found {member!r} as a member of an ensemble, expected a Reader")
        self.weights = normalised_weights(weights, len(self.members))
        self.calibration = calibration
        self._has_null = np.array([member.config.null_head for member in self.members])
        validate_threshold(no_answer_threshold, self.has_null)
        self._threshold = no_answer_threshold
        if not calibration and no_answer_threshold != OWN_THRESHOLD:
            self.members = self._members_with(no_answer_threshold)
        self._last: tuple[SquadData, dict[tuple[type, str], TokenizedDataset]] | None = None
        if self.has_null and not self._has_null.all():
            names = ", ".join(f"{number} ({self.members[number]!r})" for number in np.flatnonzero(~self._has_null))
            (log or warnings.warn)(f'members without a null head, whose "no answer" counts 0: {names}')

    @classmethod
    def from_directory(
        cls,
        folder: EnsembleDirectory,
        max_passage: int = 512,
        precision: str = "float32",
        max_answer: int | None = None,
        log: Callable[[str], object] | None = None,
        no_answer_threshold: float | str | None = OWN_THRESHOLD,
    ) -> "Ensemble":
        """Loads what `fabir-pack --ensemble` wrote; the other arguments are those of `Reader.load`.

        Raises:
            UserError: a file is missing or damaged, or an argument does not fit.
        """
        weights, runs = folder.read_weights_of_members(), folder.readers
        configs = [run.read_model_config(max_answer) for run in runs]
        validate_threshold(no_answer_threshold, any(config.null_head for config in configs))
        members = [
            Reader.from_run(run, config, max_passage, precision, log) for run, config in zip(runs, configs, strict=True)
        ]
        calibration = Calibration.load(folder.calibration) if folder.calibration.exists() else None
        return cls(members, weights, calibration, log).with_threshold(no_answer_threshold)

    def __repr__(self) -> str:
        parts = (f"{weight:.3g} {member!r}" for weight, member in zip(self.weights, self.members, strict=True))
        return f"Ensemble({', '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}

    @property
    def has_null(self) -> bool:
        """Whether a member can say that there is no answer."""
        return bool(self._has_null.any())

    @property
    def temperature(self) -> float:
        """That of the summed probabilities; see `at_temperature`."""
        if not self.calibration:
            return 1.0
        none = self.calibration.no_answer if self.no_answer_threshold is not None else None
        return (none or self.calibration).temperature

    @property
    def no_answer_threshold(self) -> float | None:
        """It abstains above this no-answer probability; None if it always answers."""
        if not isinstance(self._threshold, str):
            return self._threshold
        if self.calibration:
            none = self.calibration.no_answer if self.has_null else None
            return none.threshold if none else None
        found = [member.no_answer_threshold for member in self.members]
        if all(threshold is None for threshold in found):
            return None
        # A member that always answers abstains above 1; one without a null head has no say.
        levels = [1.0 if threshold is None else threshold for threshold in found]
        return float(any_order_sum(self.weights * self._has_null * levels))

    @property
    def no_answer_scale_and_bias(self) -> tuple[float, float]:
        """Those of `no_answer_probability`."""
        none = self.calibration.no_answer if self.calibration and self.has_null else None
        return (none.scale, none.bias) if none else self.score_scale_and_bias

    @property
    def score_scale_and_bias(self) -> tuple[float, float]:
        """The log odds of an answer are `scale * score - bias`: means of the members' own, so in the same units."""
        if not self.has_null:
            return 1.0, 0.0
        own = np.array([member.no_answer_scale_and_bias for member in self.members])
        weights = self.weights * self._has_null
        scale, bias = (float(any_order_sum(weights * column) / any_order_sum(weights)) for column in own.T)
        return (scale, bias) if scale > 0 else (1.0, 0.0)

    def with_threshold(self, no_answer_threshold: float | str | None) -> "Ensemble":
        """The same ensemble, with the same weights in memory, that abstains elsewhere.

        Args:
            no_answer_threshold: as for `Reader.load`.

        Raises:
            UserError: the threshold does not fit.
        """
        validate_threshold(no_answer_threshold, self.has_null)
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | {"_threshold": no_answer_threshold}
        if not self.calibration:
            # A calibration of the ensemble was measured on the members as they are.
            other.members = self._members_with(no_answer_threshold)
        return other

    def _members_with(self, no_answer_threshold: float | str | None) -> list[Reader]:
        """The members with the temperature that goes with a threshold of the ensemble."""
        always = None if no_answer_threshold is None else OWN_THRESHOLD
        return [member.with_threshold(always) for member in self.members]

    def answer(self, question: str, passage: str, n_best: int = 1) -> Answer:
        """Answers one question; see `Reader.answer`. There are at most 20 spans for each member."""
        return self.answer_batch([as_text("question", question)], [as_text("passage", passage)], n_best)[0]

    def answer_batch(self, questions: Iterable[str], passages: Iterable[str], n_best: int = 1) -> list[Answer]:
        """Answers many questions, each about its own passage; see `Reader.answer_batch`."""
        n_best = validate_n_best(n_best)
        asked, texts = as_pairs(questions, passages)
        answers: list[Answer] = []
        for begin in range(0, len(asked), CHUNK):
            chunk = slice(begin, begin + CHUNK)
            try:
                answers += self.predict(questions_about(asked[chunk], texts[chunk]), n_best)
            except QuestionError as error:
                # Its number among those of the chunk.
                raise QuestionError(str(begin + int(error.question)), error.reason) from None
        return answers

    def predict(self, dataset: Dataset, n_best: int = 1, progress: Progress | None = None) -> list[Answer]:
        """Answers every question of a dataset, in its order; see `Reader.predict`."""
        n_best = validate_n_best(n_best)
        return self.answers_to(self.proposals(dataset, progress), n_best)

    def answers_to(self, proposals: Iterable[tuple[int, list[Proposal]]], n_best: int = 1) -> list[Answer]:
        """The answers that `predict` makes of what the members say, in the same order.

        Args:
            proposals: from `proposals`, of this ensemble or of others with some of its members.
            n_best: as for `predict`.
        """
        return [self._answer(question, said, n_best) for question, said in proposals]

    def tokenize(
        self, data: SquadData, cache_dir: str | os.PathLike | None = None, log: Callable[[str], object] = print
    ) -> SquadData:
        """Tokenizes a dataset once for each tokenizer of the members, and remembers the tokens of the last dataset."""
        self._last = data, self._tokenized(data, cache_dir, log)
        return data

    def coverage(self, dataset: Dataset) -> CoverageLedger:
        """What perfect predictions of the member that can reach most could reach; see `Reader.coverage`."""
        tokenized = self._tokens_of(dataset)
        ledgers = [member.coverage(tokenized[tokenizer_of(member)]) for member in self.members]
        return max(ledgers, key=lambda ledger: (ledger.to_json()["ceiling_f1"], ledger.max_answer or np.inf))

    def scores(self, dataset: Dataset, progress: Progress | None = None) -> Iterator[SummedSpans]:
        """The summed spans of every question that a member can read.

        Args:
            dataset: questions.
            progress: called with (questions done, questions in total).

        Yields:
            The spans and the score of each question, in the dataset's order.
        """
        for question, proposals in self.proposals(dataset, progress):
            if proposals:
                yield self._summed(question, proposals)

    def proposals(self, dataset: Dataset, progress: Progress | None = None) -> Iterator[tuple[int, list[Proposal]]]:
        """What the members say of each question, before it is summed.

        Args:
            dataset, progress: as for `scores`.

        Yields:
            A question's number and, for each member that can read it, the member's number and what `Reader.best_spans`
            gives.
        """
        tokenized = self._tokens_of(dataset)
        total = len(_data_of(dataset).questions)
        for begin in range(0, total, CHUNK):
            numbers = np.arange(begin, min(begin + CHUNK, total))
            parts = {key: whole if total <= CHUNK else whole.select(numbers) for key, whole in tokenized.items()}
            found: list[list[Proposal]] = [[] for _ in numbers]
            for number, member in enumerate(self.members):
                for question, spans, score in member.best_spans(parts[tokenizer_of(member)], CANDIDATES):
                    found[question].append((number, spans, score))
            yield from zip(numbers.tolist(), found, strict=True)
            if progress:
                progress(begin + len(numbers), total)

    def in_graph(self, n_best: int = 5) -> "EnsembleGraph":
        """The ensemble in core TensorFlow operations, for one SavedModel.

        Args:
            n_best: spans to return per question.

        Raises:
            UserError: as `Reader.in_graph`.
        """
        from fabir_tf.reading.ensemble_graph import EnsembleGraph

        return EnsembleGraph(self, validate_n_best(n_best))

    def log_odds(self, number: int, score: float) -> float:
        """A member's log odds of an answer, from its score; infinite without a null head."""
        if not self._has_null[number]:
            return np.inf
        scale, bias = self.members[number].no_answer_scale_and_bias
        return float(np.clip(scale * score - bias, -700, 700))

    def _answer(self, question: int, proposals: list[Proposal], n_best: int) -> Answer:
        if not proposals:
            return NO_ANSWER
        summed = self._summed(question, proposals)
        probabilities = np.array([span.probability for span in summed.spans])
        probabilities = at_temperature(probabilities, self.temperature)
        none, share, threshold = 1.0 - float(probabilities[0]), 1.0, self.no_answer_threshold
        if self.has_null:
            scale, bias = self.no_answer_scale_and_bias
            none = float(no_answer_probability(np.float64(summed.score), scale, bias))
            share = 1.0 if threshold is None else answer_share(summed.score, scale, bias)
        spans = [
            dataclasses.replace(span, probability=float(probability))
            for span, probability in zip(summed.spans[:n_best], probabilities, strict=False)
            if span is summed.spans[0] or probability > 0
        ]
        return answer_of(spans, none, share, summed.score, threshold)

    def _summed(self, question: int, proposals: list[Proposal]) -> SummedSpans:
        numbers = [number for number, _, _ in proposals]
        odds = np.array([self.log_odds(number, score) for number, _, score in proposals])
        shares, total_odds = shares_and_log_odds(self.weights[numbers], odds)
        parts: dict[tuple[int, int], list[float]] = {}
        texts: dict[tuple[int, int], str] = {}
        for share, (_, spans, _) in zip(shares, proposals, strict=True):
            for span in spans:
                key = span.start, span.end
                parts.setdefault(key, []).append(share * span.probability)
                texts[key] = span.text
        summed = [Span(texts[key], *key, float(any_order_sum(np.array(values)))) for key, values in parts.items()]
        summed.sort(key=lambda span: (-span.probability, span.start, span.end))
        return SummedSpans(question, summed, self._score(proposals, float(total_odds)), self.has_null)

    def _score(self, proposals: list[Proposal], odds: float) -> float:
        if not self.has_null:
            weights = self.weights[[number for number, _, _ in proposals]]
            scores = np.array([score for _, _, score in proposals])
            return float(any_order_sum(weights * scores) / any_order_sum(weights))
        scale, bias = self.score_scale_and_bias
        return (odds + bias) / scale

    def _tokens_of(self, dataset: Dataset) -> dict[tuple[type, str], TokenizedDataset]:
        data = _data_of(dataset)
        last = self._last
        return last[1] if last and last[0] is data else self._tokenized(data)

    def _tokenized(
        self,
        data: SquadData,
        cache_dir: str | os.PathLike | None = None,
        log: Callable[[str], object] = lambda line: None,
    ) -> dict[tuple[type, str], TokenizedDataset]:
        processors = {tokenizer_of(member): member.processor for member in self.members}
        return {key: processor.tokenize(data, cache_dir, log) for key, processor in processors.items()}


def at_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities of spans at a temperature, which keeps their order and their sum.

        p_T(s) = p(s)^(1/T) * sum_t p(t) / sum_t p(t)^(1/T)

    Args:
        probabilities: float `(spans,)`.
        temperature: above 0.
    """
    most = probabilities.max()
    if most == 0 or temperature == 1:
        return probabilities
    powers = (probabilities / most) ** (1.0 / temperature)
    return powers * (probabilities.sum() / powers.sum())


def tokenizer_of(member: Reader) -> tuple[type, str]:
    """Equal for members that cut every text into the same tokens."""
    return type(member.processor), member.processor.tokenizer_version


def _data_of(dataset: Dataset) -> SquadData:
    validate_dataset("dataset", dataset)
    return dataset.data if isinstance(dataset, TokenizedDataset) else dataset
