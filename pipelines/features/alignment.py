"""Answers as spans of whole tokens, and a ledger of what that costs.

A reader predicts whole tokens, so it cannot predict an answer exactly that starts or ends inside a token. The ledger
counts these questions, lists them, and computes the best scores that a reader could still reach.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData
from fabir_tf.pipelines.datasets.squad_metrics import exact_match, f1
from fabir_tf.pipelines.text.tokenizer import Tokens

Kind = Literal["kept", "unanswerable", "trimmed", "snapped", "dropped"]
KINDS: tuple[Kind, ...] = ("kept", "unanswerable", "trimmed", "snapped", "dropped")
"""From best to worst."""

MISSING_ANSWER = "no_answer"
EMPTY_ANSWER = "empty_answer"
OFFSET_DOES_NOT_FIT = "offset_does_not_fit"
PASSAGE_TOO_LONG = "passage_too_long"
WORD_TOO_LONG = "word_too_long"
QUESTION_TOO_LONG = "question_too_long"
ANSWER_TOO_LONG = "answer_too_long"
WHITE_SPACE = "white_space"
INSIDE_A_TOKEN = "inside_a_token"
SET_ASIDE = "set_aside"


class Alignment(NamedTuple):
    """The tokens of one answer.

    Args:
        first: index of its first token; -1 if dropped.
        last: index of its last token, inclusive; -1 if dropped.
        kind: "kept": start and end are token boundaries; "trimmed": they are without white space and invisible marks
            around the answer; "snapped": start or end lay inside a token, and the span was widened to whole tokens;
            "dropped": the answer is blank or does not stand at its offset.
    """

    first: int
    last: int
    kind: Kind

    @property
    def length(self) -> int:
        """The number of tokens."""
        return self.last - self.first + 1


DROPPED = Alignment(-1, -1, "dropped")


def align_answer(tokens: Tokens, passage: str, answer: Answer, *, elsewhere: bool = False) -> Alignment:
    """Finds the fewest whole tokens that contain an answer.

    Args:
        tokens: the tokens of the passage.
        passage: the text in which the answer stands.
        answer: a text and its offset in code points.
        elsewhere: whether another occurrence of the same text may be used where the text at the offset starts or ends
            inside a token, or is missing. True suits scoring, which compares texts only; False suits training, which
            learns the position.

    Returns:
        The span of tokens and how it came about.
    """
    text = answer.text.strip()
    if not text:
        return DROPPED
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    here = _align_at(tokens, passage, text, start)
    if here.kind in ("snapped", "dropped") and elsewhere:
        here = _best_elsewhere(tokens, passage, text, here)
    if here.kind == "kept" and text != answer.text:
        return here._replace(kind="trimmed")
    return here


def span_text(tokens: Tokens, passage: str, alignment: Alignment) -> str:
    """Cuts the aligned tokens out of the passage.

    Args:
        tokens: the tokens of the passage.
        passage: the text.
        alignment: a span of its tokens, not a dropped one.

    Returns:
        The text from the first token's start to the last token's end, as it stands in the passage.
    """
    return passage[tokens.starts[alignment.first] : tokens.ends[alignment.last]]


def reachable_texts(tokens: Tokens, passage: str, alignment: Alignment, max_answer: int | None) -> list[str]:
    """The text of an aligned answer, or all its parts of `max_answer` tokens where a reader may predict no more.

    Args:
        tokens: the tokens of the passage.
        passage: the text.
        alignment: a span of its tokens, not a dropped one.
        max_answer: most tokens of a predicted answer; None for no limit.
    """
    length = alignment.length if max_answer is None else min(alignment.length, max_answer)
    # Not only the beginning: scoring drops articles and punctuation, so another part may be all that counts.
    firsts = range(alignment.first, alignment.last - length + 2)
    return [span_text(tokens, passage, alignment._replace(first=first, last=first + length - 1)) for first in firsts]


def reachable_score(spans: Iterable[str], question: Question) -> tuple[float, float]:
    """The best scores that a reader could reach by predicting one of some spans.

    Args:
        spans: texts of whole tokens.
        question: the question with its references.

    Returns:
        The highest exact match and the highest F1 of any span with any reference, each from 0.0 to 1.0; both 0.0 if
        there is no span.
    """
    references = list(dict.fromkeys(answer.text for answer in question.answers))
    pairs = [(span, reference) for span in dict.fromkeys(spans) for reference in references]
    return (
        max((exact_match(span, reference) for span, reference in pairs), default=0.0),
        max((f1(span, reference) for span, reference in pairs), default=0.0),
    )


class CoverageLedger:
    """Counts what became of every question of a dataset, and why.

    Args:
        name: the dataset's name, for the summary.
        max_answer: most tokens of a predicted answer; None for no limit.
    """

    def __init__(self, name: str, max_answer: int | None):
        self.name = name
        self.max_answer = max_answer
        self._long_answers: list[str] = []
        self._counts: Counter[str] = Counter()
        self._answer_counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._unanswerable: Counter[str] = Counter()
        self._not_kept: list[dict[str, str]] = []
        self._exact_match = 0.0
        self._f1 = 0.0

    def add(
        self,
        question: Question,
        kind: Kind,
        *,
        ceiling: tuple[float, float] = (0.0, 0.0),
        reason: str = "",
        detail: str = "",
        answer_kinds: Sequence[Kind] = (),
        is_long: bool = False,
    ) -> None:
        """Enters one question.

        Args:
            question: the question; only its id and, if it is unanswerable, its own reason are kept.
            kind: what became of it.
            ceiling: exact match and F1 that remain reachable, each from 0.0 to 1.0; see `reachable_score`.
            reason: a short key to group by, such as `PASSAGE_TOO_LONG`; needed unless the question is kept or
                unanswerable.
            detail: the reason in words, such as "the passage has 512 tokens, expected at most 400".
            answer_kinds: what became of each of its answers, where that is counted too.
            is_long: whether every answer has more than `max_answer` tokens.

        Raises:
            ValueError: the kind is unknown, a question that is not kept has no reason, or a dropped one a ceiling.
        """
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}.")
        if kind not in ("kept", "unanswerable") and not reason:
            raise ValueError(f"reason is empty, expected why the question {question.id!r} is {kind}.")
        if kind == "dropped" and ceiling != (0.0, 0.0):
            raise ValueError(f"ceiling is {ceiling}, expected (0.0, 0.0) for the dropped question {question.id!r}.")
        self._counts[kind] += 1
        self._answer_counts.update(answer_kinds)
        self._exact_match += ceiling[0]
        self._f1 += ceiling[1]
        if is_long:
            self._long_answers.append(question.id)
        if kind == "unanswerable" and question.reason:
            self._unanswerable[question.reason] += 1
        if kind in ("kept", "unanswerable"):
            return
        self._not_kept.append({"id": question.id, "kind": kind, "reason": reason, "detail": detail})
        if kind == "dropped":
            self._reasons[reason] += 1

    def exceeds(self, length: int) -> bool:
        """Whether an answer of this many tokens can't be predicted whole."""
        return self.max_answer is not None and length > self.max_answer

    @property
    def total(self) -> int:
        """The number of questions entered."""
        return self._counts.total()

    def summary(self) -> str:
        """Summarizes the outcome in a few lines, without a line break at the end."""
        counts = self._counts
        why = ", ".join(f"{reason} {count:,}" for reason, count in self._unanswerable.most_common())
        in_brackets = f" ({why})" if why else ""
        unanswerable = f"{counts['unanswerable']:,} without an answer{in_brackets}, " if counts["unanswerable"] else ""
        lines = [
            f"{self.name}: {counted(self.total, 'question')}: {counts['kept']:,} kept, {unanswerable}"
            f"{counts['trimmed']:,} trimmed, {counts['snapped']:,} snapped to whole tokens, "
            f"{counts['dropped']:,} dropped."
        ]
        if self._long_answers:
            lines.append(
                f"Answers of more than --max_answer={self.max_answer} tokens, which cannot be predicted whole: "
                f"{len(self._long_answers):,}."
            )
        if self._reasons:
            reasons = (f"{reason.replace('_', ' ')} {count:,}" for reason, count in self._reasons.most_common())
            lines.append(f"Dropped: {', '.join(reasons)}.")
        exact, overlap = self._ceilings()
        lines.append(f"The best that whole tokens can reach: exact match {exact:.2f}, F1 {overlap:.2f}.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Gives the ledger as JSON.

        Returns:
            `name`, `total`, `counts` by kind, `answers` (the same for single answers, all 0 where they were not
            counted), `max_answer` and `long_answers` (how many questions only have answers of more tokens), `reasons`
            (how many questions were dropped for each), `ceiling_exact_match` and `ceiling_f1` in percent of all
            questions (0.0 of none), and `not_kept`: `id`, `kind`, `reason`, `detail` of each question that is trimmed,
            snapped or dropped; `long_answer_ids`. Where unanswerable questions have a reason of their own, also
            `unanswerable`: how many for each.
        """
        exact, overlap = self._ceilings()
        unanswerable = {"unanswerable": dict(self._unanswerable.most_common())} if self._unanswerable else {}
        return {
            "name": self.name,
            "total": self.total,
            "counts": {kind: self._counts[kind] for kind in KINDS},
            **unanswerable,
            "answers": {kind: self._answer_counts[kind] for kind in KINDS},
            "max_answer": self.max_answer,
            "long_answers": len(self._long_answers),
            "reasons": dict(self._reasons.most_common()),
            "ceiling_exact_match": exact,
            "ceiling_f1": overlap,
            "not_kept": [dict(entry) for entry in self._not_kept],
            "long_answer_ids": list(self._long_answers),
        }

    def _ceilings(self) -> tuple[float, float]:
        questions = max(self.total, 1)
        return 100.0 * self._exact_match / questions, 100.0 * self._f1 / questions


def measure_coverage(
    data: SquadData, tokens: Iterable[Tokens], max_answer: int | None, null_head: bool = False
) -> CoverageLedger:
    """Counts every question of a dataset that is scored, not trained on.

    A question is as good as its best answer. Scoring compares texts only, so an answer counts as kept wherever in the
    passage its text stands on whole tokens.

    Args:
        data: the questions.
        tokens: the tokens of each passage of the data, in the same order.
        max_answer: most tokens of a predicted answer; None for no limit.
        null_head: whether the reader can say that there is no answer. Where it cannot, a question without an answer is
            dropped: the ceiling is that of a reader which always answers.

    Returns:
        A filled ledger, its single answers counted too.
    """
    ledger = CoverageLedger(data.name, max_answer)
    tokens = list(tokens)
    for question in data.questions:
        _enter(ledger, question, tokens[question.passage], data.passages[question.passage], null_head)
    return ledger


def _enter(ledger: CoverageLedger, question: Question, tokens: Tokens, passage: str, null_head: bool) -> None:
    if not question.answers and null_head:
        ledger.add(question, "unanswerable", ceiling=(1.0, 1.0))
        return
    aligned = [(align_answer(tokens, passage, answer, elsewhere=True), answer) for answer in question.answers]
    best, answer = min(aligned, key=lambda pair: KINDS.index(pair[0].kind), default=(DROPPED, None))
    found = [alignment for alignment, _ in aligned if alignment.kind != "dropped"]
    reason, detail = "", ""
    if answer is None:
        reason, detail = MISSING_ANSWER, "the question has no answer"
    elif best.kind != "kept":
        reason, detail = explain(tokens, passage, answer, best)
    ledger.add(
        question,
        best.kind,
        ceiling=reachable_score(
            (text for alignment in found for text in reachable_texts(tokens, passage, alignment, ledger.max_answer)),
            question,
        ),
        reason=reason,
        detail=detail,
        answer_kinds=[alignment.kind for alignment, _ in aligned],
        is_long=bool(found) and ledger.exceeds(min(alignment.length for alignment in found)),
    )


def explain(tokens: Tokens, passage: str, answer: Answer, alignment: Alignment) -> tuple[str, str]:
    """Says why an answer is not kept.

    Args:
        tokens: the tokens of the passage.
        passage: the text.
        answer: the answer.
        alignment: what `align_answer` made of it, not "kept".

    Returns:
        A reason to group by and a detail in words, as `CoverageLedger.add` takes them.
    """
    if not answer.text.strip():
        return EMPTY_ANSWER, "the answer is empty"
    if alignment.kind == "dropped":
        return OFFSET_DOES_NOT_FIT, f"{answer.text!r} does not stand at {answer.start}"
    reason = WHITE_SPACE if alignment.kind == "trimmed" else INSIDE_A_TOKEN
    return reason, f"{answer.text!r} became {span_text(tokens, passage, alignment)!r}"


def _align_at(tokens: Tokens, passage: str, text: str, start: int) -> Alignment:
    if start < 0 or not passage.startswith(text, start):
        return DROPPED
    end = start + len(text)
    first, last = bisect_right(tokens.ends, start), bisect_left(tokens.starts, end) - 1
    if first > last:
        # Invisible marks between tokens.
        return DROPPED
    begin, finish = tokens.starts[first], tokens.ends[last]
    if begin < start or end < finish:
        return Alignment(first, last, "snapped")
    return Alignment(first, last, "kept" if (begin, finish) == (start, end) else "trimmed")


def _best_elsewhere(tokens: Tokens, passage: str, text: str, here: Alignment) -> Alignment:
    found = [_align_at(tokens, passage, text, start) for start in _occurrences(passage, text)]
    if here.kind == "snapped":
        found = [here, *found]
    return min(found, key=lambda alignment: KINDS.index(alignment.kind), default=here)


def _occurrences(passage: str, text: str) -> Iterator[int]:
    start = passage.find(text)
    while start >= 0:
        yield start
        start = passage.find(text, start + 1)
