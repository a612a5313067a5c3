"""A teacher's borders: what is kept of them, how they are found again, and what is learned from them."""

import json

import keras
import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, SMALL_DATA, SMALL_MODEL, make_reader, squad_data

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.teacher_distributions import PLACES, TeacherDistributions, mean_soft_labels
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_texts
from fabir_tf.training.distillation import teach
from fabir_tf.training.losses import StartEndLoss, distilled_targets, smoothed_targets
from fabir_tf.training.train import targets_of

RANDOM = np.random.default_rng(5)


def distribution(length):
    return RANDOM.dirichlet(np.full(length, 0.1)).astype(np.float32)


@pytest.fixture
def soft_labels():
    return [(f"q{n}", distribution(length), distribution(length)) for n, length in enumerate((30, 5, PLACES, 1))]


def test_the_likeliest_tokens_are_kept_and_sum_to_one(soft_labels):
    borders = TeacherDistributions.collect(soft_labels)
    assert borders.ids == ("q0", "q1", "q2", "q3")
    assert borders.lengths.tolist() == [30, 5, PLACES, 1]
    np.testing.assert_allclose(borders.probabilities.sum(axis=-1), 1.0, rtol=1e-6)
    for row, (_, *both) in enumerate(soft_labels):
        for border, whole in enumerate(both):
            best = sorted(range(len(whole)), key=lambda place: -whole[place])[:PLACES]
            assert borders.places[row, border, : len(best)].tolist() == best
            expected = whole[best].astype(np.float64) / whole[best].astype(np.float64).sum()
            np.testing.assert_allclose(borders.probabilities[row, border, : len(best)], expected, rtol=1e-5)
            assert not borders.probabilities[row, border, len(best) :].any()


def test_borders_come_back_from_their_file(soft_labels, tmp_path):
    borders = TeacherDistributions.collect(soft_labels)
    borders.save(tmp_path / "teacher.npz")
    found = TeacherDistributions.load(tmp_path / "teacher.npz")
    assert found.ids == borders.ids
    np.testing.assert_array_equal(found.places, borders.places)
    np.testing.assert_allclose(found.probabilities, borders.probabilities, rtol=1e-3, atol=1e-6)


def test_damaged_files_are_told(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.npz: no such file"):
        TeacherDistributions.load(tmp_path / "nowhere.npz")
    with pytest.raises(UserError, match="found a folder"):
        TeacherDistributions.load(tmp_path)
    path = tmp_path / "teacher.npz"
    path.write_bytes(b"PK nothing")
    with pytest.raises(UserError, match="damaged"):
        TeacherDistributions.load(path)
    np.savez(path, ids=np.zeros(3, np.uint8))
    with pytest.raises(UserError, match="damaged"):
        TeacherDistributions.load(path)


def test_questions_are_found_by_their_ids(soft_labels):
    borders = TeacherDistributions.collect(soft_labels)
    found = borders.of(["q1", "other", "q0"], np.array([5, 9, 30]))
    np.testing.assert_array_equal(found[0, :, :PLACES], borders.places[1])
    np.testing.assert_array_equal(found[2, :, PLACES:], borders.probabilities[0])
    assert not found[1].any()
    with pytest.raises(UserError, match=r"'q1' with a passage of 5 tokens, expected 6 tokens"):
        borders.of(["q1"], np.array([6]))
    with pytest.raises(UserError, match="none of the questions"):
        borders.of(["other"], np.array([6]))


def test_several_teachers_count_alike_where_they_have_an_opinion(soft_labels):
    """The first knows q0 and q1, the second q1 and q2, none knows the last question."""
    ids, lengths = ["q0", "q1", "q2", "other"], np.array([30, 5, PLACES, 9])
    other = [(name, distribution(len(start)), distribution(len(end))) for name, start, end in soft_labels]
    known = [dict((name, both) for name, *both in soft_labels[:2]), dict((name, both) for name, *both in other[1:3])]
    teachers = [TeacherDistributions.collect((name, *both) for name, both in part.items()) for part in known]
    found = mean_soft_labels([teacher.of(ids, lengths) for teacher in teachers])
    assert found.shape == (4, 2, 4 * PLACES) and not found[3].any()
    for row, (name, length) in enumerate(zip(ids[:3], lengths, strict=False)):
        for border in range(2):
            parts = [part[name][border].astype(np.float64) for part in known if name in part]
            expected = np.zeros(length)
            for part in parts:
                best = np.argsort(-part)[:PLACES]
                expected[best] += part[best] / part[best].sum() / len(parts)
            places, probabilities = np.split(found[row, border], 2)
            np.testing.assert_allclose(
                np.bincount(places.astype(int), probabilities, minlength=length), expected, rtol=1e-5, atol=1e-7
            )


# === The loss ===


def test_targets_move_to_where_the_teacher_sees_the_border():
    """Share 0.6: on tokens 2 and 0; the second row has no soft_labels."""
    soft_labels = np.zeros((2, 2 * PLACES), np.float32)
    soft_labels[0, :2], soft_labels[0, PLACES : PLACES + 2] = (2, 0), (0.45, 0.15)
    targets = smoothed_targets(np.array([1, 0]), np.array([3, 2]), 4)
    found = np.asarray(distilled_targets(targets, soft_labels))
    plain = np.asarray(targets, np.float64)
    expected = np.stack([0.4 * plain[0] + np.array([0.15, 0, 0.45, 0]), plain[1]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)


def test_the_loss_is_the_cross_entropy_with_the_mixed_targets(soft_labels):
    lengths = np.array([30, 5])
    rows = Features(*[np.zeros(2)] * 4, lengths, *[np.zeros(2)] * 2)
    soft_labels = TeacherDistributions.collect(soft_labels).of(["q0", "q1"], lengths)
    targets = targets_of(rows, np.array([[4, 6], [0, 2]]), soft_labels, share=0.25)
    logits = RANDOM.normal(size=(2, 30)).astype(np.float32)
    logits[1, 5:] = -1e9
    for border, name in enumerate(("start_logits", "end_logits")):
        found = float(StartEndLoss(smoothing="none")(targets[name], logits))
        expected = 0.0
        for row, (true, length) in enumerate(zip(((4, 6), (0, 2)), lengths, strict=True)):
            values = logits[row, :length].astype(np.float64)
            log_probabilities = values - np.log(np.exp(values).sum())
            teacher = np.zeros(length)
            teacher[soft_labels[row, border, :PLACES].astype(int)[: min(PLACES, length)]] = soft_labels[
                row, border, PLACES : PLACES + length
            ]
            mixed = 0.75 * np.eye(length)[true[border]] + 0.25 * teacher
            expected -= (mixed * log_probabilities).sum() / 2
        assert found == pytest.approx(expected, rel=1e-5)


def test_without_a_teacher_targets_are_as_they_were():
    rows = Features(*[np.zeros(1)] * 4, np.array([7]), *[np.zeros(1)] * 2)
    for soft_labels in (None, np.zeros((1, 2, 0), np.float32)):
        found = targets_of(rows, np.array([[4, 6]]), soft_labels)
        assert found["start_logits"].tolist() == [[4, 7]] and found["end_logits"].tolist() == [[6, 7]]


# === Readers that teach ===


def test_an_ensemble_teaches_its_mean():
    data = squad_data(ARTICLES)
    tokenized = TokenizedDataset(data, tokenize_texts([*data.passages, *(q.text for q in data.questions)]))
    words = sorted({word.lower() for word in tokenized.texts.types if word})
    readers = [make_reader(words, max_passage=28), make_reader(words[::2], max_passage=28)]
    borders = teach(readers, tokenized)
    # The last passage has 30 tokens, more than are read in one piece.
    assert borders.ids == tuple(question.id for question in data.questions if question.passage < 3)
    alone = [{number: both for number, *both in reader.borders(reader.encode(tokenized))} for reader in readers]
    for row in range(len(borders.ids)):
        for border in range(2):
            mean = (alone[0][row][border] + alone[1][row][border]) / 2
            place = borders.places[row, border, 0]
            assert place == mean.argmax()
            kept = np.sort(mean)[::-1][:PLACES].sum()
            assert borders.probabilities[row, border, 0] == pytest.approx(mean[place] / kept, rel=1e-4)


def test_border_probabilities_are_those_of_the_logits():
    reader = make_reader(["the", "mill"])
    data = squad_data(ARTICLES[:1])
    tokenized = TokenizedDataset(data, tokenize_texts([*data.passages, *(q.text for q in data.questions)]))
    answers = reader.predict(reader.encode(tokenized))
    spans = {}
    for number, start, end in reader.borders(reader.encode(tokenized)):
        assert start.sum() == pytest.approx(1.0, abs=1e-5)
        pairs = np.triu(start[:, None] * end[None])
        pairs = np.where(
            np.arange(len(end))[None] - np.arange(len(start))[:, None] < reader.config.max_answer, pairs, 0
        )
        spans[number] = np.unravel_index(pairs.argmax(), pairs.shape)
    tokens = tokenized.texts.tokens_of(0)
    for number, answer in enumerate(answers):
        first, last = spans[number]
        assert (answer.start, answer.end) == (tokens.starts[first], tokens.ends[last])


def test_a_reader_learns_from_another(commands, tiny_run, tmp_path):
    teacher, run = tmp_path / "teacher.npz", tmp_path / "run"
    flags = [f"--run_dirs={tiny_run.path},{tiny_run.path}", f"--dataset={tiny_run.train}", f"--output={teacher}"]
    done = commands("teach", *flags, "--cache_dir=")
    assert done.status == 0 and "12 of 12 questions" in done.stdout, done
    learning = [
        f"--dataset={tiny_run.train}",
        f"--eval_dataset={tiny_run.dev}",
        "--epochs=1",
        *SMALL_MODEL,
        *SMALL_DATA,
    ]
    taught = commands("train", f"--run_dir={run}", *learning, f"--teacher={teacher}")
    assert taught.status == 0, taught
    assert json.loads((run / "config.json").read_text())["training"]["teacher"] == str(teacher)
    alone = commands("train", f"--run_dir={tmp_path / 'alone'}", *learning)
    losses = [
        line.split("loss ")[1] for result in (taught, alone) for line in result.stdout.splitlines() if "loss" in line
    ]
    assert losses[0] != losses[-1]
    prepared = tmp_path / "prepared"
    assert commands("prepare", f"--output={prepared}", *learning, f"--teacher={teacher}").status == 0
    again = commands("train", f"--run_dir={tmp_path / 'again'}", f"--prepared={prepared}", "--epochs=1", *SMALL_MODEL)
    assert again.status == 0, again
    assert_error(commands, "teach", [*flags, "--cache_dir="], [f"--output={teacher}", "exists"])
    assert_error(commands, "teach", flags[1:], ["--run_dirs is missing"])
    assert_error(commands, "teach", ["--run_dirs=a,,b", *flags[1:]], ["--run_dirs=a,,b", "an empty name"])
    missing, new = tmp_path / "nowhere.npz", f"--run_dir={tmp_path / 'new'}"
    assert_error(commands, "train", [*learning, new, f"--teacher={teacher},{missing}"], ["nowhere.npz", "no such file"])
    assert_error(
        commands, "train", [*learning, new, f"--teacher={teacher},"], [f"--teacher={teacher},", "an empty name"]
    )
    others = tmp_path / "others.npz"
    TeacherDistributions.collect([("another", distribution(9), distribution(9))]).save(others)
    assert_error(
        commands, "train", [*learning, new, f"--teacher={teacher},{others}"], [f"{others}: ", "none of the questions"]
    )


def test_keras_restores_the_loss():
    loss = StartEndLoss("uniform", 0.2)
    assert keras.losses.deserialize(keras.losses.serialize(loss)).get_config() == loss.get_config()
