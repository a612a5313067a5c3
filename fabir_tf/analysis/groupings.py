"""The groups of questions that the paper's figures 3 to 6 compare."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.tokenizer import tokenize

QUESTION_TYPES = (
    "what", "who", "how", "when", "which", "where", "why", "how many", "how much", "how long", "other",
)  # fmt: skip
_ASKING = re.compile(r"\b(how\s+(?:many|much|long)|how|what|when|where|which|who(?:m|se)?|why)\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, eq=False)
class Grouping:
    """A way to sort questions into groups.

    Attributes:
        name: in file names and tables.
        title: in headings.
        labels: names of the groups, in the order in which they are shown.
        groups: int64 `(questions,)`, the index in `labels` of each question's group.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    groups: np.ndarray


def question_type(question: str) -> str:
    """The first question word.

    Args:
        question: its text.

    Returns:
        One of `QUESTION_TYPES`: "who" also for whom and whose, "other" for a question without a question word.

    Reference: FABIR figure 5; thesis section 6.5.4 ("how" excludes how many, how much and how long).
    """
    found = _ASKING.search(question)
    word = " ".join(found[1].lower().split()) if found else "other"
    return "who" if word in ("whom", "whose") else word


def groupings(tokenized: TokenizedDataset) -> list[Grouping]:
    """The four groupings of the paper.

    Args:
        tokenized: the questions.

    Returns:
        The groupings by answer length (of the first reference), question length, question type and passage length.
        Lengths are in tokens. The bounds of the answer lengths include those that the paper names (four and ten words).
        The paper gives no bounds for the other lengths; these are our own.

    Reference: FABIR figures 3 to 6; thesis figure 17.
    """
    questions = tokenized.data.questions
    answers = [len(tokenize(question.answers[0].text).words) if question.answers else 0 for question in questions]
    types = [QUESTION_TYPES.index(question_type(question.text)) for question in questions]
    passages = tokenized.passage_lengths[tokenized.question_passages]
    return [
        _by_length("answer_length", "answer length, tokens", np.array(answers, np.int64), (1, 2, 3, 5, 10)),
        _by_length("question_length", "question length, tokens", tokenized.question_lengths, (7, 9, 11, 13, 16)),
        Grouping("question_type", "question type", QUESTION_TYPES, np.array(types, np.int64)),
        _by_length("passage_length", "passage length, tokens", passages, (75, 100, 125, 150, 200)),
    ]


def _by_length(name: str, title: str, lengths: np.ndarray, longest: Sequence[int]) -> Grouping:
    # Questions without an answer form a group of their own, if there are any.
    longest = (0, *longest) if (lengths == 0).any() else longest
    shortest = [0 if longest[0] == 0 else 1, *(length + 1 for length in longest)]
    labels = [str(low) if low == high else f"{low}-{high}" for low, high in zip(shortest, longest, strict=False)]
    return Grouping(name, title, (*labels, f"over {longest[-1]}"), np.searchsorted(longest, lengths))
