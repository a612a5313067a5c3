"""The loss and the accuracy of data that is not trained on, against the equations."""

import numpy as np
import pytest
from tiny import ARTICLES, make_reader, squad_data, squad_json

from fabir_tf.pipelines.datasets.squad import squad_from_json
from fabir_tf.pipelines.features.examples import LEFT_OUT, true_spans
from fabir_tf.pipelines.features.features import NO_ANSWER
from fabir_tf.reading.held_out_loss import HeldOutLoss
from fabir_tf.training.losses import StartEndLoss

# First and last token of each answer of ARTICLES, counted by hand.
SPANS = [(6, 7), (9, 9), (0, 2), (3, 5), (10, 15), (0, 1), (9, 10), (19, 21), (23, 24), (4, 5), (9, 13), (19, 21)]


@pytest.fixture(scope="module")
def reader():
    return make_reader(["the", "old", "mill", "river", "owl"])


def measured(reader, tokenized, null_head=False):
    """Held-out loss of a dataset, and the logits that it was made of, by question."""
    seen = {}
    held_out = HeldOutLoss(tokenized, true_spans(tokenized, null_head))

    def watch(question, *logits):
        seen[question] = logits
        held_out.add(question, *logits)

    answers = reader.predict(tokenized, watch=watch)
    return held_out, seen, answers


def test_the_true_spans_are_those_of_the_first_answers(reader):
    tokenized = reader.tokenize(squad_data(ARTICLES))
    assert list(map(tuple, true_spans(tokenized, null_head=False))) == SPANS
    for question, (first, last) in zip(tokenized.data.questions, SPANS, strict=True):
        words = tokenized.texts.tokens_of(question.passage).words[first : last + 1]
        assert "".join(words) == question.answers[0].text.replace(" ", "")


def test_loss_and_accuracy_follow_the_equations(reader):
    tokenized = reader.tokenize(squad_data(ARTICLES))
    held_out, seen, answers = measured(reader, tokenized)
    assert sorted(seen) == list(range(12))
    assert answers == reader.predict(tokenized)
    losses, accuracies = [], []
    for scores in reader.scores(tokenized):
        true = []
        for logits, token in zip((scores.start_logits, scores.end_logits), SPANS[scores.question], strict=True):
            weights = np.exp(logits.astype(np.float64))
            true.append(weights[token] / weights.sum())
        losses.append(-np.log(true).sum())
        accuracies.append(np.mean(true))
    assert held_out.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert held_out.accuracy == pytest.approx(np.mean(accuracies), rel=1e-5)


def test_the_loss_is_the_one_that_is_trained_without_smoothing(reader):
    tokenized = reader.tokenize(squad_data(ARTICLES[:1]))
    held_out, seen, _ = measured(reader, tokenized)
    start, end = (np.stack([seen[question][part] for question in range(3)]) for part in (0, 1))
    true = np.array(SPANS[:3], np.int32)
    targets = {
        "start": true[:, 0],
        "end": true[:, 1],
        "offset": np.zeros(3, np.int32),
        "length": np.full(3, 11, np.int32),
    }
    trained = StartEndLoss(smoothing="none")(targets, {"start_logits": start, "end_logits": end})
    assert held_out.loss == pytest.approx(float(trained), rel=1e-5)


def test_windows_of_a_passage_are_one_passage(reader):
    """A passage that is read in parts counts with its merged logits."""
    short = make_reader(["the", "old", "mill", "river", "owl"], max_passage=9)
    tokenized = short.tokenize(squad_data(ARTICLES))
    held_out, seen, _ = measured(short, tokenized)
    assert len(seen) == 12 and np.isfinite(held_out.loss) and 0 < held_out.accuracy < 1
    assert min(len(seen[question][0]) for question in range(6, 12)) >= 28


def test_questions_without_an_answer_count_for_a_reader_that_can_say_so(reader):
    content = squad_json(ARTICLES[:1])
    first, second, _ = content["data"][0]["paragraphs"][0]["qas"]
    first |= {"answers": [], "is_impossible": True}
    second["answers"][0]["answer_start"] += 1
    tokenized = reader.tokenize(squad_from_json(content, "tiny"))
    assert true_spans(tokenized, null_head=False).tolist() == [[LEFT_OUT] * 2, [LEFT_OUT] * 2, list(SPANS[2])]
    spans = true_spans(tokenized, null_head=True)
    assert spans.tolist() == [[NO_ANSWER] * 2, [LEFT_OUT] * 2, list(SPANS[2])]
    logits, null = np.zeros(13, np.float32), np.log(np.array([2.0, 9.0], np.float32))
    held_out = HeldOutLoss(tokenized, spans)
    for question in range(2):
        held_out.add(question, logits, logits, null)
    # Eleven tokens of weight 1, and "no answer" of weight 2 and 9.
    assert held_out.loss == pytest.approx(-np.log(2 / 13) - np.log(9 / 20))
    assert held_out.accuracy == pytest.approx((2 / 13 + 9 / 20) / 2)


def test_nothing_counts():
    reader = make_reader(["the"])
    content = squad_json(ARTICLES[:1])
    for question in content["data"][0]["paragraphs"][0]["qas"]:
        question |= {"answers": [], "is_impossible": True}
    tokenized = reader.tokenize(squad_from_json(content, "tiny"))
    held_out, seen, _ = measured(reader, tokenized)
    assert len(seen) == 3
    assert held_out.loss is None and held_out.accuracy is None
