"""Makes questions that their passage does not answer out of questions that it answers."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fabir_tf.pipelines.datasets.negative_kinds import KINDS, Negative, Source
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import UserError


@dataclass(frozen=True)
class KindCounts:
    """What became of the answerable questions in one kind of negatives.

    Attributes:
        kind: its name.
        made: how many negatives there are.
        possible: how many there could have been.
        refused: how many questions could have none, by the reason in words.
    """

    kind: str
    made: int
    possible: int
    refused: Mapping[str, int]

    def summary(self) -> str:
        """The counts in one line."""
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.refused.items())
        total = self.possible + sum(self.refused.values())
        refused = f"; not possible: {reasons}" if reasons else ""
        return f"{self.kind}: {self.made:,} made, {self.possible:,} of {total:,} questions could have had one{refused}"


def make_negatives(
    data: SquadData, kinds: Sequence[str] = tuple(KINDS), share: float = 0.3, seed: int = 1, keep_sources: bool = False
) -> tuple[SquadData, list[KindCounts]]:
    """Makes unanswerable questions out of the answerable ones of a dataset.

    Args:
        data: the questions.
        kinds: names of `KINDS`.
        share: the number of negatives of each kind, as a share of the answerable questions; fewer, where fewer are
            possible.
        seed: decides which questions get one and, where there is a choice, which one.
        keep_sources: whether the questions of the dataset stand before the negatives.

    Returns:
        The negatives, with the kind as their `reason` and behind the id, and what became of the questions. The same
        data and seed give the same negatives on every machine.

    Raises:
        UserError: there is no answerable question, none gets a negative, or an id of a negative is already in use.
    """
    source = Source(data)
    if not source.questions:
        raise UserError(f"{data.name}: found no question with an answer, expected some to make others of")
    made: list[tuple[Question, Negative, str]] = []
    counts = []
    for kind in kinds:
        chosen, count = _make(kind, source, share, seed)
        made += [(question, negative, kind) for question, negative in chosen]
        counts.append(count)
    if not made:
        lines = " ".join(f"{count.summary()}." for count in counts)
        raise UserError(f"{data.name}: no question without an answer can be made. {lines}")
    own_ids = {question.id for question in data.questions}
    used = [new_id for new_id in (f"{question.id}-{kind}" for question, _, kind in made) if new_id in own_ids]
    if used:
        raise UserError(f"{data.name}: already has the question {used[0]!r}, expected data without its own negatives")
    return _assembled(data, made, keep_sources), counts


def _make(kind: str, source: Source, share: float, seed: int) -> tuple[list[tuple[Question, Negative]], KindCounts]:
    """The negatives of one kind, in the order of their questions."""
    maker = KINDS[kind](source)
    possible: list[tuple[float, int, Negative]] = []
    refused: Counter[str] = Counter()
    for number, question in enumerate(source.questions):
        # Of its own, so that what becomes of a question does not depend on the others.
        chance = random.Random(f"{seed} {kind} {question.id}")
        rank = chance.random()
        found = maker.make(question, chance)
        if isinstance(found, str):
            refused[found] += 1
        else:
            possible.append((rank, number, found))
    wanted = int(share * len(source.questions) + 0.5)
    chosen = sorted(sorted(possible, key=lambda entry: entry[:2])[:wanted], key=lambda entry: entry[1])
    counts = KindCounts(kind, len(chosen), len(possible), dict(refused.most_common()))
    return [(source.questions[number], negative) for _, number, negative in chosen], counts


def _assembled(data: SquadData, made: list[tuple[Question, Negative, str]], keep_sources: bool) -> SquadData:
    """Passages in the order of the dataset, each followed by those that are made from it."""
    own = [(question, (question.passage, data.passages[question.passage])) for question in data.questions]
    asked = own if keep_sources else []
    asked += [(_as_question(*entry), (entry[1].passage, entry[1].text)) for entry in made]
    places = dict.fromkeys(place for _, place in asked)
    order = sorted(places, key=lambda place: (place[0], place[1] != data.passages[place[0]]))
    index = {place: number for number, place in enumerate(order)}
    return SquadData(
        data.name,
        tuple(text for _, text in order),
        tuple(data.titles[passage] for passage, _ in order),
        tuple(replace(question, passage=index[place]) for question, place in asked),
    )


def _as_question(question: Question, negative: Negative, kind: str) -> Question:
    return Question(f"{question.id}-{kind}", negative.question, negative.passage, (), is_impossible=True, reason=kind)
