"""The groups of questions that the paper's figures 3 to 6 compare."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.tokenizer import tokenize

QUESTION_TYPES = (
    "what", "which", "who", "how many", "how much", "how long", "how", "when", "where", "why", "other",
)  # fmt: skip
_ASKING = {kind: re.compile(rf"\b{kind.replace(' ', chr(92) + 's+')}\b", re.IGNORECASE) for kind in QUESTION_TYPES[:-1]}
_ASKING["who"] = re.compile(r"\bwho(m|se)?\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, eq=False)
class Grouping:
    """A way to sort questions into groups.

    Attributes:
        name: in file names and tables.
        title: in headings.
        labels: names of the groups, in the order in which they are shown.
        groups: int64 `(questions,)`, the index in `labels` of each question's group; -1 for none.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    groups: np.ndarray


def question_type(question: str) -> str:
    """The first of `QUESTION_TYPES` that stands in a question, wherever it stands.

    Args:
        question: its text.

    Returns:
        One of `QUESTION_TYPES`: "who" also for whom and whose, "other" for a question without a question word.

    Reference: FABIR figure 5 and its authors' program, which looks for the types in this order.
    """
    return next((kind for kind, words in _ASKING.items() if words.search(question)), "other")


def groupings(tokenized: TokenizedDataset) -> list[Grouping]:
    """The four groupings of the paper, and others where some questions have no answer.

    Args:
        tokenized: the questions.

    Returns:
        The groupings by answer length (of the first reference), question length, question type and passage length;
        lengths are in tokens. Data with unanswerable questions is also grouped by whether there is an answer and, where
        the file gives reasons, by why there is none.

    Reference: FABIR figures 3 to 6; thesis figure 17. The bounds are those of its authors' program.
    """
    questions = tokenized.data.questions
    answers = [len(tokenize(question.answers[0].text).words) if question.answers else 0 for question in questions]
    types = [QUESTION_TYPES.index(question_type(question.text)) for question in questions]
    passages = tokenized.passage_lengths[tokenized.question_passages]
    return [
        *([_by_answer(tokenized.data)] if tokenized.data.has_unanswerable else []),
        *([_by_reason(tokenized.data)] if any(question.reason for question in questions) else []),
        _by_length("answer_length", "answer length, tokens", np.array(answers, np.int64), tuple(range(1, 11))),
        _by_length("question_length", "question length, tokens", tokenized.question_lengths, (7, 11, 15, 19)),
        Grouping("question_type", "question type", QUESTION_TYPES, np.array(types, np.int64)),
        _by_length("passage_length", "passage length, tokens", passages, (60, 100, 140, 180, 220, 260)),
    ]


def _by_answer(data: SquadData) -> Grouping:
    groups = np.array([0 if question.answers else 1 for question in data.questions], np.int64)
    return Grouping("answerable", "whether there is an answer", ("answerable", "unanswerable"), groups)


def _by_reason(data: SquadData) -> Grouping:
    labels = tuple(sorted({question.reason for question in data.questions if question.reason}))
    # Questions without a reason are in no group.
    index = {reason: number for number, reason in enumerate(labels)} | {"": -1}
    groups = np.array([index[question.reason] for question in data.questions], np.int64)
    return Grouping("reason", "reason why there is no answer", labels, groups)


def _by_length(name: str, title: str, lengths: np.ndarray, longest: Sequence[int]) -> Grouping:
    # Questions without an answer form a group of their own, if there are any.
    longest = (0, *longest) if (lengths == 0).any() else longest
    shortest = [0 if longest[0] == 0 else 1, *(length + 1 for length in longest)]
    labels = [str(low) if low == high else f"{low}-{high}" for low, high in zip(shortest, longest, strict=False)]
    return Grouping(name, title, (*labels, f"over {longest[-1]}"), np.searchsorted(longest, lengths))
