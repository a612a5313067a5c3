"""Draws questions, and paragraphs that do not answer them: what `among_paragraphs.py` asks."""

import random

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.datasets.squad_metrics import holds_answer, normalize_answer
from fabir_tf.pipelines.errors import UserError

KINDS = ("another article", "the same article")


def counts_of(others: list[str]) -> list[int]:
    """The numbers of paragraphs that --others names; empty names are left out.

    Raises:
        UserError: one is no number from 1.
    """
    given = [text for text in others if text]
    for text in given:
        if not text.isdecimal() or not int(text):
            raise UserError(f"--others: found {text!r}, expected a number of paragraphs, at least 1")
    return [int(text) for text in given]


class Draw:
    """Draws questions, and paragraphs that do not answer them.

    Args:
        data: the questions.
        seed: of all draws.
    """

    def __init__(self, data: SquadData, seed: int):
        self.data, self._random = data, random.Random(seed)
        self._texts = [normalize_answer(passage) for passage in data.passages]
        self._articles: dict[str, list[int]] = {}
        for passage, title in enumerate(data.titles):
            self._articles.setdefault(title, []).append(passage)

    def questions(self, count: int) -> list[int]:
        """Numbers of questions that have an answer."""
        answered = [number for number, question in enumerate(self.data.questions) if question.answers]
        return self._random.sample(answered, min(count, len(answered)))

    def place(self, count: int) -> int:
        """One of several places."""
        return self._random.randrange(count)

    def wrong(self, number: int, kind: str, count: int) -> list[int]:
        """Passages without an answer of a question; fewer where there are not as many."""
        question = self.data.questions[number]
        title = self.data.titles[question.passage]
        is_same = kind == "the same article"
        pool = self._articles[title] if is_same else range(len(self.data.passages))
        answers = [normalize_answer(answer.text) for answer in question.answers]
        fitting = [
            passage
            for passage in pool
            if (passage != question.passage if is_same else self.data.titles[passage] != title)
            and not any(holds_answer(self._texts[passage], answer) for answer in answers)
        ]
        return self._random.sample(fitting, min(count, len(fitting)))

    def others(self, number: int, count: int) -> list[int]:
        """Wrong passages, half of them of the same article, or as many as it has."""
        same = self.wrong(number, KINDS[1], count // 2)
        return same + self.wrong(number, KINDS[0], count - len(same))
