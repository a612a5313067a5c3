"""A teacher's distributions: what is kept of them, how they are found again, and what is learned from them."""

import dataclasses
import json

import numpy as np
import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, SMALL_DATA, SMALL_MODEL, make_reader, squad_data
from wordpiece_folders import write_bert

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.other_tokens import over_other_tokens
from fabir_tf.pipelines.features.teacher_distributions import (
    KEPT,
    TeacherDistributions,
    mean_soft_labels,
    split_soft_labels,
)
from fabir_tf.pipelines.text.tokenizer import tokenize
from fabir_tf.training.distillation import teach
from fabir_tf.training.losses import StartEndLoss, distilled_targets, smoothed_targets
from fabir_tf.training.train import make_targets

RANDOM = np.random.default_rng(5)


def distribution(length, null=0.0):
    """Start and end distribution of a passage, and of "no answer" in the last column."""
    tokens = RANDOM.dirichlet(np.full(length, 0.1), 2)
    return np.concatenate([(1 - null) * tokens, np.full((2, 1), null)], axis=1).astype(np.float32)


@pytest.fixture
def found():
    """Distributions of four questions; the second and third may have no answer."""
    lengths, nulls = (30, 5, KEPT, 1), (0.0, 0.6, 0.25, 0.0)
    return [(f"q{n}", distribution(*pair)) for n, pair in enumerate(zip(lengths, nulls, strict=True))]


def likeliest(both, number):
    """Indices, probabilities and null of the start (0) or the end (1), in float64 and made to sum to 1."""
    *tokens, null = both[number].astype(np.float64)
    best = sorted(range(len(tokens)), key=lambda index: -tokens[index])[:KEPT]
    kept = np.array([tokens[index] for index in best])
    total = kept.sum() + null
    return best, kept / total, null / total


def test_the_likeliest_tokens_are_kept_and_sum_to_one_with_the_null(found):
    teacher = TeacherDistributions.collect(found)
    assert teacher.ids == ("q0", "q1", "q2", "q3")
    assert teacher.lengths.tolist() == [30, 5, KEPT, 1]
    total = teacher.probabilities.sum(axis=-1) + teacher.null_probabilities
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)
    for row, (_, both) in enumerate(found):
        for number in range(2):
            best, expected, null = likeliest(both, number)
            assert teacher.indices[row, number, : len(best)].tolist() == best
            np.testing.assert_allclose(teacher.probabilities[row, number, : len(best)], expected, rtol=1e-5)
            assert not teacher.probabilities[row, number, len(best) :].any()
            assert teacher.null_probabilities[row, number] == pytest.approx(null, rel=1e-5)
    assert not teacher.null_probabilities[[0, 3]].any()


def test_distributions_come_back_from_their_file(found, tmp_path):
    teacher = TeacherDistributions.collect(found)
    teacher.save(tmp_path / "teacher.npz")
    again = TeacherDistributions.load(tmp_path / "teacher.npz")
    assert again.ids == teacher.ids
    assert again.source == str(tmp_path / "teacher.npz")
    np.testing.assert_array_equal(again.lengths, teacher.lengths)
    np.testing.assert_array_equal(again.indices, teacher.indices)
    for name in ("probabilities", "null_probabilities"):
        np.testing.assert_allclose(getattr(again, name), getattr(teacher, name), rtol=1e-3, atol=1e-6)
        assert getattr(again, name).dtype == np.float32


def test_no_question_is_no_trouble(tmp_path):
    TeacherDistributions.collect([]).save(tmp_path / "teacher.npz")
    assert TeacherDistributions.load(tmp_path / "teacher.npz").ids == ()


def rewritten(path, **changes):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_damaged_files_are_refused(tmp_path, found):
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": np.array(3)}, "found format 3, expected 2"),
        ({"indices": None}, "damaged"),
        ({"null_probabilities": None}, "damaged"),
        ({"lengths": np.zeros(3, np.int32)}, "damaged file .its arrays are of different lengths"),
        ({"null_probabilities": np.zeros((4, 3), np.float16)}, "damaged"),
        ({"probabilities": np.zeros((4, 2, KEPT - 1), np.float16)}, "damaged"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, found, changes, message):
    path = tmp_path / "teacher.npz"
    TeacherDistributions.collect(found).save(path)
    rewritten(path, **changes)
    with pytest.raises(UserError, match=message) as caught:
        TeacherDistributions.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_of_the_first_version_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "teacher.npz"
    np.savez(
        path,
        ids=np.frombuffer(b"q0", np.uint8),
        lengths=np.array([5], np.int32),
        places=np.zeros((1, 2, 8), np.uint16),
        probabilities=np.zeros((1, 2, 8), np.float16),
    )
    with pytest.raises(UserError, match=r"teacher\.npz: found a teacher file of version 0\.1, .*fabir-teach"):
        TeacherDistributions.load(path)


def test_questions_are_found_by_their_ids(found):
    teacher = TeacherDistributions.collect(found)
    labels = teacher.soft_labels(["q1", "other", "q0"], np.array([5, 9, 30]))
    assert labels.shape == (3, 2, 2 * KEPT + 1)
    assert labels.dtype == np.float32
    indices, probabilities, null = split_soft_labels(labels)
    np.testing.assert_array_equal(indices[0], teacher.indices[1])
    np.testing.assert_array_equal(probabilities[2], teacher.probabilities[0])
    np.testing.assert_array_equal(null[0, :, 0], teacher.null_probabilities[1])
    assert not labels[1].any()
    with pytest.raises(UserError, match=r"'q1' with a passage of 5 tokens, expected 6 tokens.* by other rules"):
        teacher.soft_labels(["q1"], np.array([6]))
    with pytest.raises(UserError, match="none of the questions"):
        teacher.soft_labels(["other"], np.array([6]))


def test_several_teachers_count_alike_where_they_know_a_question(found):
    """The first knows q0 and q1, the second q1 and q2, none knows the last question; both know that q1 may be empty."""
    ids, lengths = ["q0", "q1", "q2", "other"], np.array([30, 5, KEPT, 9])
    other = [(name, distribution(both.shape[1] - 1, null=0.3)) for name, both in found]
    known = [dict(found[:2]), dict(other[1:3])]
    teachers = [TeacherDistributions.collect(part.items()) for part in known]
    labels = mean_soft_labels([teacher.soft_labels(ids, lengths) for teacher in teachers])
    assert labels.shape == (4, 2, 4 * KEPT + 1)
    assert not labels[3].any()
    indices, probabilities, null = split_soft_labels(labels)
    for row, (name, length) in enumerate(zip(ids[:3], lengths, strict=False)):
        for number in range(2):
            parts = [part[name] for part in known if name in part]
            expected, expected_null = np.zeros(length), 0.0
            for part in parts:
                best, kept, empty = likeliest(part, number)
                expected[best] += kept / len(parts)
                expected_null += empty / len(parts)
            mean = np.bincount(indices[row, number].astype(int), probabilities[row, number], minlength=length)
            np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-7)
            assert null[row, number, 0] == pytest.approx(expected_null, rel=1e-5)
    np.testing.assert_array_equal(mean_soft_labels([labels]), labels)


def test_a_teacher_that_is_sure_of_no_answer_counts():
    """Its tokens have no probability at all, and it is still one of two teachers."""
    sure = TeacherDistributions.collect([("q", np.array([[0, 0, 0, 1.0]] * 2))])
    other = TeacherDistributions.collect([("q", np.array([[0, 1.0, 0, 0]] * 2))])
    labels = mean_soft_labels([teacher.soft_labels(["q"], np.array([3])) for teacher in (sure, other)])
    _, probabilities, null = split_soft_labels(labels)
    assert probabilities.sum() == pytest.approx(1.0)
    assert null.ravel().tolist() == [0.5, 0.5]


# === The loss ===


def test_targets_move_to_where_the_teacher_sees_the_answer():
    """Weight 0.6 + 0.1: on tokens 2 and 0, and on "no answer"; the second row has no soft labels."""
    soft_labels = np.zeros((2, 2 * KEPT + 1), np.float32)
    soft_labels[0, :2], soft_labels[0, KEPT : KEPT + 2], soft_labels[0, -1] = (2, 0), (0.45, 0.15), 0.1
    targets = smoothed_targets(np.array([1, 0]), np.array([0, 0]), np.array([3, 2]), 4)
    plain = np.pad(np.asarray(targets, np.float64), ((0, 0), (0, 1)))
    mixed = np.asarray(distilled_targets(plain.astype("float32"), soft_labels))
    expected = np.stack([0.3 * plain[0] + np.array([0.15, 0, 0.45, 0, 0.1]), plain[1]])
    np.testing.assert_allclose(mixed, expected, rtol=1e-6)
    np.testing.assert_allclose(mixed.sum(axis=1), 1.0, rtol=1e-6)


def test_targets_of_a_repeated_token_are_added():
    soft_labels = np.array([[1, 1, 0.25, 0.5, 0]], np.float32)
    mixed = np.asarray(distilled_targets(np.array([[1, 0, 0, 0]], np.float32), soft_labels))
    np.testing.assert_allclose(mixed, [[0.25, 0.75, 0, 0]], rtol=1e-6)


def features_of(lengths, offsets):
    none = np.zeros(len(lengths), np.int64)
    return Features(np.zeros(1, np.int32), {}, {}, none, np.array(lengths), np.array(offsets))


@pytest.mark.parametrize("has_null", [False, True])
@pytest.mark.parametrize("offset", [0, 3])
def test_the_loss_is_the_cross_entropy_with_the_mixed_targets(found, offset, has_null):
    """The logits of the passage begin in column 0, or after a question of three tokens."""
    lengths, spans = np.array([30, 5]), np.array([[4, 6], [0, 2]])
    labels = TeacherDistributions.collect(found).soft_labels(["q0", "q1"], lengths)
    targets = make_targets(features_of(lengths, [offset] * 2), spans, labels, weight=0.25)
    logits = RANDOM.normal(size=(2, 2, 30 + offset)).astype(np.float32)
    logits[:, :, :offset] = logits[:, 1, 5 + offset :] = -1e9
    outputs = {"start_logits": logits[0], "end_logits": logits[1]}
    null_logits = RANDOM.normal(size=(2, 2)).astype(np.float32)
    loss = float(StartEndLoss(smoothing="none")(targets, outputs | ({"null_logits": null_logits} if has_null else {})))
    expected = 0.0
    for number in range(2):
        for row, length in enumerate(lengths):
            values = logits[number, row, offset : offset + length].astype(np.float64)
            values = np.append(values, null_logits[row, number]) if has_null else values
            log_probabilities = values - np.log(np.exp(values).sum())
            best, kept, null = likeliest(found[row][1], number)
            mixed = np.zeros(length + 1)
            mixed[spans[row, number]] = 0.75
            mixed[best] += 0.25 * kept
            mixed[-1] += 0.25 * null
            expected -= (mixed[: len(values)] * log_probabilities).sum() / 2
    assert loss == pytest.approx(expected, rel=1e-5)


def test_without_a_teacher_targets_are_those_of_the_data():
    spans = np.array([[4, 6], [-1, -1]])
    for soft_labels in (None, np.zeros((2, 2, 0), np.float32)):
        targets = make_targets(features_of([7, 9], [2, 3]), spans, soft_labels)
        assert {name: values.tolist() for name, values in targets.items()} == {
            "start": [6, -1],
            "end": [8, -1],
            "offset": [2, 3],
            "length": [7, 9],
        }
        assert {values.dtype for values in targets.values()} == {np.dtype(np.int32)}


# === Readers that teach ===


def words_of(data):
    return sorted({word.lower() for passage in data.passages for word in tokenize(passage).words})


@pytest.mark.slow
@pytest.mark.parametrize("null_heads", [(False, False), (True, True), (True, False)])
def test_an_ensemble_teaches_its_mean(null_heads):
    data = squad_data(ARTICLES)
    words = words_of(data)
    # The last passage has 30 tokens, more than are read at once.
    readers = [
        make_reader(part, max_passage=28, null_head=null_head)
        for part, null_head in zip((words, words[::2]), null_heads, strict=True)
    ]
    steps = []
    teacher = teach(readers, data, lambda done, total: steps.append((done, total)))
    assert teacher.ids == tuple(question.id for question in data.questions)
    assert steps.count(steps[-1]) == 2
    alone = [{scores.question: scores for scores in reader.scores(data)} for reader in readers]
    for row in range(len(teacher.ids)):
        for number in range(2):
            mean = 0.0
            for scores in (part[row] for part in alone):
                logits = (scores.start_logits, scores.end_logits)[number].astype(np.float64)
                null = -np.inf if scores.null_logits is None else scores.null_logits[number]
                weights = np.exp(np.append(logits, null))
                mean = mean + weights / weights.sum() / 2
            index = teacher.indices[row, number, 0]
            assert index == mean[:-1].argmax()
            kept = np.sort(mean[:-1])[::-1][:KEPT].sum() + mean[-1]
            assert teacher.probabilities[row, number, 0] == pytest.approx(mean[index] / kept, rel=1e-4)
            assert teacher.null_probabilities[row, number] == pytest.approx(mean[-1] / kept, rel=1e-4)
    assert teacher.null_probabilities.all() == any(null_heads)


@pytest.mark.slow
def test_a_teacher_without_a_null_head_says_nothing_of_what_has_no_answer():
    data = squad_data(ARTICLES)
    first = dataclasses.replace(data.questions[0], answers=(), is_impossible=True)
    data = dataclasses.replace(data, questions=(first, *data.questions[1:]))
    plain, with_null = (make_reader(words_of(data), null_head=null_head) for null_head in (False, True))
    assert teach([plain], data).ids == tuple(question.id for question in data.questions[1:])
    both, alone = teach([plain, with_null], data), teach([with_null], data)
    assert both.ids == alone.ids == tuple(question.id for question in data.questions)
    np.testing.assert_array_equal(both.null_probabilities[0], alone.null_probabilities[0])
    assert (both.null_probabilities[1:] < alone.null_probabilities[1:]).all()


def test_an_id_of_several_lines_is_refused_before_the_teachers_read():
    data = squad_data(ARTICLES[:1])
    data = dataclasses.replace(data, questions=(dataclasses.replace(data.questions[0], id="a\nb"), *data.questions[1:]))
    with pytest.raises(UserError, match=r"the id 'a\\nb' has a line break, expected ids of one line"):
        teach([], data)


@pytest.mark.slow
def test_the_scores_are_those_of_the_answers():
    reader = make_reader(["the", "mill"])
    data = squad_data(ARTICLES[:1])
    answers, tokens = reader.predict(data), tokenize(data.passages[0])
    for scores in reader.scores(data):
        start, end = scores.probabilities()
        assert start.sum() == pytest.approx(1.0, abs=1e-5)
        pairs = np.triu(start[:, None] * end[None])
        distance = np.arange(len(end))[None] - np.arange(len(start))[:, None]
        pairs = np.where(distance < reader.config.max_answer, pairs, 0)
        first, last = np.unravel_index(pairs.argmax(), pairs.shape)
        answer = answers[scores.question]
        assert (answer.start, answer.end) == (tokens.starts[first], tokens.ends[last])


@pytest.mark.slow
def test_questions_that_cannot_be_read_are_left_out():
    data = squad_data(ARTICLES[:2])
    blank = SquadData(data.name, (" ", data.passages[1]), data.titles, data.questions)
    teacher = teach([make_reader(words_of(data))], blank)
    assert teacher.ids == tuple(question.id for question in data.questions if question.passage == 1)


@pytest.mark.slow
def test_teachers_must_cut_passages_alike(monkeypatch):
    data = squad_data(ARTICLES[:1])
    readers = [make_reader(words_of(data)) for _ in range(2)]
    monkeypatch.setattr(readers[1].processor, "tokenize_text", lambda text: tokenize(text.replace("-", " ")[:-9]))
    with pytest.raises(UserError, match="question 'Mill-0': the teachers cut its passage into different tokens"):
        teach(readers, data)


# The student cuts "well-known" into three tokens, has none for the space, and joins the last two words.
TEACHER_TOKENS = ([0, 4, 15, 20, 25], [3, 14, 19, 24, 29])
STUDENT_TOKENS = ([0, 4, 8, 9, 15, 20], [3, 8, 9, 14, 19, 29])


def moved_one_by_one(both, tokens, others):
    """`over_other_tokens`, from its definition."""
    found = np.zeros((2, len(others[0]) + 1))
    for column, (start, end) in enumerate(zip(*tokens, strict=True)):
        first = next((index for index, other in enumerate(others[1]) if other > start), len(others[0]) - 1)
        last = next((index for index in reversed(range(len(others[0]))) if others[0][index] < end), 0)
        found[0, first] += both[0, column]
        found[1, last] += both[1, column]
    found[:, -1] += both[:, -1]
    return found


@pytest.mark.parametrize("back", [False, True])
def test_distributions_move_to_other_tokens(back):
    tokens, others = (STUDENT_TOKENS, TEACHER_TOKENS) if back else (TEACHER_TOKENS, STUDENT_TOKENS)
    both = distribution(len(tokens[0]), null=0.2).astype(np.float64)
    moved = over_other_tokens(both, *map(np.array, (*tokens, *others)))
    np.testing.assert_allclose(moved, moved_one_by_one(both, tokens, others), rtol=1e-12)
    np.testing.assert_allclose(moved.sum(axis=1), both.sum(axis=1), rtol=1e-12)
    same = over_other_tokens(both, *map(np.array, (*tokens, *tokens)))
    np.testing.assert_array_equal(same, both)


def test_distributions_outside_of_the_other_tokens_go_to_the_nearest():
    both = np.array([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]])
    moved = over_other_tokens(both, *map(np.array, ([0, 10], [4, 14], [5], [9])))
    assert moved.tolist() == [[1.0, 0.0], [0.75, 0.25]]


@pytest.mark.slow
def test_a_student_of_the_same_tokens_changes_nothing():
    data = squad_data(ARTICLES)
    reader = make_reader(words_of(data))
    alone, moved = teach([reader], data), teach([reader], data, tokenizer=reader.processor)
    assert moved.ids == alone.ids
    for name in ("lengths", "indices", "probabilities", "null_probabilities"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(alone, name))


@pytest.mark.long
def test_a_word_reader_teaches_a_reader_of_word_pieces(commands, tiny_run, tmp_path):
    bert_folder = write_bert(tmp_path / "bert", head=False, positions=512)
    teacher, run = tmp_path / "teacher.npz", tmp_path / "run"
    flags = [f"--run_dirs={tiny_run.path}", f"--dataset={tiny_run.train}", "--cache_dir="]
    done = commands("teach", *flags, f"--output={teacher}", f"--student={bert_folder}")
    assert done.status == 0 and "12 of 12 questions" in done.stdout, done
    learning = [f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--epochs=1", "--cache_dir="]
    sizes = ("--max_sequence=256", "--max_question=40")
    bert = ["--model=bert-span", f"--encoder={bert_folder}", *sizes, f"--teacher={teacher}"]
    taught = commands("train", f"--run_dir={run}", *bert, *learning)
    assert taught.status == 0, taught
    # Words and pieces differ in number.
    wrong = tmp_path / "words.npz"
    assert commands("teach", *flags, f"--output={wrong}").status == 0
    assert_error(
        commands,
        "train",
        [f"--run_dir={tmp_path / 'other'}", *bert[:-1], f"--teacher={wrong}", *learning],
        ["words.npz", "its reader cuts text by other rules"],
    )
    for name, found in (("nowhere", "found no folder"), ("", "found a folder of neither")):
        student = f"--student={tmp_path / name}"
        assert_error(commands, "teach", [*flags, f"--output={tmp_path / 'new.npz'}", student], [student, found])


@pytest.mark.long
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
    # The tiny run learned the same from the same data without a teacher.
    lines = f"{taught.stdout}\n{tiny_run.printed}".splitlines()
    losses = [line.split("loss ")[1] for line in lines if "loss" in line]
    assert losses[0] != losses[-1]
    prepared = tmp_path / "prepared"
    assert commands("prepare", f"--output={prepared}", *learning, f"--teacher={teacher}").status == 0
    again = commands("train", f"--run_dir={tmp_path / 'again'}", f"--prepared={prepared}", "--epochs=1", *SMALL_MODEL)
    assert again.status == 0, again
    assert_error(commands, "teach", [*flags, "--cache_dir="], [f"--output={teacher}: found an existing file"])
    assert_error(commands, "teach", flags[1:], ["--run_dirs is missing"])
    assert_error(commands, "teach", ["--run_dirs=a,,b", *flags[1:]], ["--run_dirs=a,,b", "an empty name"])
    missing, new = tmp_path / "nowhere.npz", f"--run_dir={tmp_path / 'new'}"
    assert_error(commands, "train", [*learning, new, f"--teacher={teacher},{missing}"], ["nowhere.npz", "no such file"])
    assert_error(
        commands, "train", [*learning, new, f"--teacher={teacher},"], [f"--teacher={teacher},", "an empty name"]
    )
    others = tmp_path / "others.npz"
    TeacherDistributions.collect([("another", distribution(9))]).save(others)
    assert_error(
        commands, "train", [*learning, new, f"--teacher={teacher},{others}"], [f"{others}: ", "none of the questions"]
    )
