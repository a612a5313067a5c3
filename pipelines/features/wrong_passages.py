"""Wrong passages beside a question's own: a reader that trains on both learns which of several passages answers."""

import dataclasses

import numpy as np

from fabir_tf.pipelines.datasets.squad import Question
from fabir_tf.pipelines.datasets.squad_metrics import holds_answer, normalize_answer
from fabir_tf.pipelines.features.examples import TrainingExamples
from fabir_tf.pipelines.features.features import NO_ANSWER, Examples
from fabir_tf.pipelines.text.tokenized import TokenizedDataset

# A word that stands in a larger share of the passages or of the questions says nothing about one of them.
COMMON_IN_PASSAGES, COMMON_IN_QUESTIONS, SELDOM = 0.1, 0.02, 3
# The share of passages whose wrong ones are of the same article; a title with more passages is no article's.
SAME_ARTICLE, LONGEST_ARTICLE = 0.5, 150
# A wrong passage may have this many times the tokens of the right one, because a batch is as wide as its longest.
LONGER = 1.5
# Passages to draw from for each one that is needed: the likeliest alone would often be the same for a whole article.
CHOICE = 4
NONE = -1


def with_wrong_passages(
    tokenized: TokenizedDataset, training: TrainingExamples, per_question: float, max_passage: int, seed: int
) -> tuple[TokenizedDataset, TrainingExamples, np.ndarray]:
    """Reads questions with passages that do not answer them, too.

    A wrong passage shares rare words with the questions about the right one, and does not hold the answer. Half of them
    are of the same article, where there is one. The questions about one passage get few different ones, so that a batch
    encodes few passages.

    Args:
        tokenized: the training set.
        training: the examples, whole passages.
        per_question: wrong passages of each question that has an answer; 0.5 gives one to every second question.
        max_passage: most tokens of a wrong passage.
        seed: of the choice.

    Returns:
        The dataset with the further questions, which have no answer; the examples with theirs, behind the others; and
        int64 `(examples,)`, the same number for all examples of a question.
    """
    # The search for them reads all texts.
    if not per_question:
        return tokenized, training, training.examples.questions
    answered = training.examples.questions[training.spans[:, 0] != NO_ANSWER]
    pairs = _pairs(tokenized, answered, per_question, max_passage, seed)
    if not len(pairs):
        return tokenized, training, training.examples.questions
    numbers, passages = pairs.T
    data = tokenized.data
    copies = tuple(
        Question(f"{data.questions[number].id}-wrong-{index}", data.questions[number].text, int(passage), (), True)
        for index, (number, passage) in enumerate(pairs)
    )
    texts = np.concatenate([np.arange(len(tokenized.texts.lengths)), len(data.passages) + numbers])
    questions = len(data.questions) + np.arange(len(copies))
    extended = TokenizedDataset(
        dataclasses.replace(data, questions=data.questions + copies), tokenized.texts.select(texts)
    )
    added = Examples(questions, np.zeros_like(questions), tokenized.passage_lengths[passages])
    joined = [
        np.concatenate([getattr(part, field.name) for part in (training.examples, added)])
        for field in dataclasses.fields(Examples)
    ]
    spans = np.concatenate([training.spans, np.full((len(copies), 2), NO_ANSWER)])
    groups = np.concatenate([training.examples.questions, numbers])
    return extended, TrainingExamples(Examples(*joined), spans), groups


def _pairs(
    tokenized: TokenizedDataset, questions: np.ndarray, per_question: float, max_passage: int, seed: int
) -> np.ndarray:
    """Questions and wrong passages, int64 `(pairs, 2)`."""
    random = np.random.default_rng(seed)
    whole, rest = divmod(per_question, 1)
    counts = int(whole) + (random.random(len(questions)) < rest)
    search = _Search(tokenized, max_passage)
    found = []
    of_passages = tokenized.question_passages[questions]
    order = np.argsort(of_passages, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(of_passages[order])) + 1):
        asked = rows[counts[rows] > 0]
        if len(asked):
            found += search.wrong(questions[asked], counts[asked], random)
    return np.array(found, np.int64).reshape(-1, 2)


class _Search:
    """Finds passages that look as if they answered a question of another one."""

    def __init__(self, tokenized: TokenizedDataset, max_passage: int):
        self._tokenized = tokenized
        self._lengths = tokenized.passage_lengths
        self._is_short = (self._lengths > 0) & (self._lengths <= max_passage)
        lower: dict[str, int] = {}
        words = [lower.setdefault(word.lower(), len(lower)) for word in tokenized.texts.unique]
        self._words = np.array([NONE, *words], np.int64)
        self._set_postings(np.array([any(map(str.isalnum, word)) for word in lower], bool))
        self._articles: dict[str, list[int]] = {}
        for passage in np.flatnonzero(self._is_short):
            self._articles.setdefault(tokenized.data.titles[passage], []).append(int(passage))
        self._normalized: dict[int, str] = {}

    def _set_postings(self, is_word: np.ndarray) -> None:
        """Which passages each word stands in, and how much it says about them (its inverse document frequency)."""
        texts = self._tokenized.texts
        passages, numbers = len(self._lengths), len(is_word)
        owners = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
        found = np.unique(self._words[texts.tokens] * len(texts.lengths) + owners)
        words, owners = np.divmod(found, len(texts.lengths))
        in_questions = np.bincount(words[owners >= passages], minlength=numbers)
        words, self._postings = words[owners < passages], owners[owners < passages]
        self._bounds = np.searchsorted(words, np.arange(numbers + 1))
        in_passages = np.diff(self._bounds)
        questions = len(texts.lengths) - passages
        is_rare = in_passages <= max(SELDOM, COMMON_IN_PASSAGES * passages)
        is_rare &= in_questions <= max(SELDOM, COMMON_IN_QUESTIONS * questions)
        self._weights = np.where(is_word & is_rare, np.log((1 + passages) / np.maximum(in_passages, 1)), 0.0)

    def wrong(self, questions: np.ndarray, counts: np.ndarray, random: np.random.Generator) -> list[tuple[int, int]]:
        """Pairs of questions about one passage with wrong passages.

        Args:
            questions: their numbers.
            counts: how many wrong passages each gets, if there are as many.
            random: draws the passages.
        """
        data = self._tokenized.data
        own = data.questions[questions[0]].passage
        by_question = [self._scores(number) for number in questions]
        total = np.sum(by_question, axis=0)
        article = self._articles.get(data.titles[own], []) if data.titles[own] else []
        if 1 < len(article) <= LONGEST_ARTICLE and random.random() < SAME_ARTICLE:
            # Those without a common word come last.
            among = total[article] + 1e-6
            total[:] = 0.0
            total[article] = among
        total[~self._is_short | (self._lengths > LONGER * self._lengths[own])] = 0.0
        total[own] = 0.0
        needed = max(-(-int(counts.sum()) // 2), int(counts.max()))
        likeliest = np.argsort(-total, kind="stable")[: CHOICE * needed]
        likeliest = likeliest[total[likeliest] > 0]
        drawn = np.sort(random.permutation(len(likeliest))[: needed + 1])
        pairs = []
        for number, count, scores in zip(questions.tolist(), counts.tolist(), by_question, strict=True):
            chosen = likeliest[drawn]
            chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
            fitting = [int(passage) for passage in chosen if not self._answers(number, int(passage))]
            pairs += [(number, passage) for passage in fitting[:count]]
        return pairs

    def _scores(self, question: int) -> np.ndarray:
        """How many words of a question stand in each passage, weighted by their rarity."""
        texts = self._tokenized.texts
        text = len(self._lengths) + question
        tokens = np.unique(self._words[texts.tokens[texts.splits[text] : texts.splits[text + 1]]])
        scores = np.zeros(len(self._lengths))
        for word in tokens[self._weights[tokens] > 0]:
            scores[self._postings[self._bounds[word] : self._bounds[word + 1]]] += self._weights[word]
        return scores

    def _answers(self, question: int, passage: int) -> bool:
        """Whether a passage holds an answer of the question."""
        data = self._tokenized.data
        if passage not in self._normalized:
            self._normalized[passage] = normalize_answer(data.passages[passage])
        answers = (normalize_answer(answer.text) for answer in data.questions[question].answers)
        return any(holds_answer(self._normalized[passage], answer) for answer in answers)
