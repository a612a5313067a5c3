"""Ensembles: the sum against an oracle, one member, any order, the graph, weights, calibration, folders."""

import dataclasses
import itertools
import json
import math
import pickle

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, make_reader, squad_data, write_squad
from wordpiece_folders import write_bert

import fabir_tf
from fabir_tf.pipelines.datasets.squad import Question, SquadData
from fabir_tf.pipelines.errors import QuestionError, UserError
from fabir_tf.reading.answer_columns import answers_of_columns, encoded_texts
from fabir_tf.reading.answers import QuestionAnswerer
from fabir_tf.reading.calibration import FIGURES, Calibration
from fabir_tf.reading.ensemble import CANDIDATES, Ensemble, at_temperature
from fabir_tf.reading.ensemble_weights import choose_weights
from fabir_tf.reading.no_answer import NoAnswerCalibration
from fabir_tf.reading.packing import pack_ensemble
from fabir_tf.reading.pretrained import pretrained_folder
from fabir_tf.reading.reader import Reader

DATA = squad_data(ARTICLES + DEV_ARTICLES)
WORDS = sorted({word for passage in DATA.passages for word in passage.lower().split()})
PAIRS = [(question.text, DATA.passages[question.passage]) for question in DATA.questions]
QUESTIONS, PASSAGES = map(list, zip(*PAIRS, strict=True))
FIGURES_OF_NONE = dict.fromkeys(FIGURES, 0.5)


def calibration(temperature=1.3, threshold=0.6, scale=0.4, bias=0.3):
    none = NoAnswerCalibration(threshold, scale, bias, temperature=1.7)
    return Calibration(temperature, 1, 1.0, FIGURES_OF_NONE, FIGURES_OF_NONE, [], none)


def fabir(seed, null_head=True, calibrated=True, max_passage=512):
    """An untrained FABIR with weights of its own."""
    reader = make_reader(WORDS[seed:], max_passage, null_head=null_head)
    rng = np.random.default_rng(seed)
    for weight in reader.model.trainable_weights:
        weight.assign(weight + 0.2 * rng.normal(size=weight.shape))
    reader.calibration = calibration(1.0 + seed / 10, 0.4 + seed / 50) if calibrated else None
    return reader


@pytest.fixture(scope="module")
def members():
    """With a null head, without one, with one in windows, and uncalibrated."""
    return [fabir(1), fabir(2, null_head=False), fabir(3, max_passage=24), fabir(4, calibrated=False)]


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("ensemble") / "bert")


@pytest.fixture(scope="module")
def word_pieces(bert_folder):
    return Reader.load(bert_folder)


def quiet(line):
    pass


def assert_same(found, expected, tolerance=1e-6):
    assert (found.text, found.start, found.end, found.is_answer) == (
        expected.text,
        expected.start,
        expected.end,
        expected.is_answer,
    )
    assert found.probability == pytest.approx(expected.probability, abs=tolerance)
    assert found.no_answer_probability == pytest.approx(expected.no_answer_probability, abs=tolerance)
    # A score is a sum of logits, or log odds, which change at least four times as much as their probability.
    assert found.score == pytest.approx(expected.score, rel=1e-5, abs=10 * tolerance)
    assert [(one.text, one.start, one.end) for one in found.n_best] == [
        (one.text, one.start, one.end) for one in expected.n_best
    ]
    probabilities = [[span.probability for span in one.n_best] for one in (found, expected)]
    np.testing.assert_allclose(*probabilities, atol=tolerance)


def oracle(readers, weights, question, passage):
    """The sums written out: spans given that there is an answer, and the no-answer probability."""
    data = SquadData("one", (passage,), ("",), (Question("1", question, 0, ()),))
    weights = [weight / sum(weights) for weight in weights]
    answered, none, spans = 0.0, 0.0, {}
    for weight, reader in zip(weights, readers, strict=True):
        ((_, proposed, score),) = reader.best_spans(data, 20)
        says_none = 0.0
        if reader.config.null_head:
            own = reader.calibration and reader.calibration.no_answer
            scale, bias = (own.scale, own.bias) if own else (1.0, 0.0)
            says_none = 1 / (1 + math.exp(scale * score - bias))
        none += weight * says_none
        answered += weight * (1 - says_none)
        for span in proposed:
            key = span.start, span.end
            spans[key] = spans.get(key, 0.0) + weight * (1 - says_none) * span.probability
    return {key: value / answered for key, value in spans.items()}, none


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (5, 1, 2, 0.5)])
def test_the_sum_is_that_of_an_oracle(members, weights):
    ensemble = Ensemble(members, weights, log=quiet)
    for question, passage in PAIRS:
        answer = ensemble.answer(question, passage, n_best=100)
        spans, none = oracle(members, weights, question, passage)
        share = 1 - none
        expected = sorted(spans, key=lambda key: (-spans[key], *key))
        assert answer.no_answer_probability == pytest.approx(none, abs=1e-9)
        assert [(span.start, span.end) for span in answer.n_best[:10]] == expected[:10]
        assert len(answer.n_best) >= CANDIDATES
        for span in answer.n_best:
            assert span.text == passage[span.start : span.end]
            assert span.probability == pytest.approx(share * spans[span.start, span.end], abs=1e-9)
        level = sum(
            weight * (1.0 if reader.no_answer_threshold is None else reader.no_answer_threshold)
            for weight, reader in zip(weights, members, strict=True)
            if reader.config.null_head
        ) / sum(weights)
        assert answer.is_answer == (none <= level)


@pytest.mark.parametrize("threshold", ["own", None, 0.2])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_an_ensemble_of_one_is_its_member(members, number, threshold):
    if threshold == 0.2 and not members[number].config.null_head:
        with pytest.raises(UserError, match="no null head"):
            Ensemble(members[number : number + 1], no_answer_threshold=threshold)
        return
    member = members[number].with_threshold(threshold)
    ensemble = Ensemble(members[number : number + 1]).with_threshold(threshold)
    assert isinstance(ensemble, QuestionAnswerer)
    assert ensemble.no_answer_threshold == member.no_answer_threshold
    texts = ([*QUESTIONS, "?", QUESTIONS[0]], [*PASSAGES, PASSAGES[0], " "])
    for one, other in zip(ensemble.answer_batch(*texts, 7), member.answer_batch(*texts, 7), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("threshold", [None, 0.2])
def test_a_threshold_is_the_same_given_now_or_later(members, threshold):
    """Members have another temperature where they always answer."""
    given = Ensemble(members[:2], [0.3, 0.7], log=quiet, no_answer_threshold=threshold)
    later = Ensemble(members[:2], [0.3, 0.7], log=quiet).with_threshold(threshold)
    own = given.with_threshold("own")
    for ensemble, expected in ((given, later), (own, Ensemble(members[:2], [0.3, 0.7], log=quiet))):
        for one, other in zip(
            ensemble.answer_batch(QUESTIONS, PASSAGES, 5), expected.answer_batch(QUESTIONS, PASSAGES, 5), strict=True
        ):
            assert_same(one, other)


def test_the_order_of_members_changes_nothing(members):
    weights = [0.4, 0.3, 0.2, 0.7]
    expected = Ensemble(members, weights, log=quiet).answer_batch(QUESTIONS, PASSAGES, 9)
    for order in itertools.islice(itertools.permutations(range(4)), 1, None, 5):
        ensemble = Ensemble([members[i] for i in order], [weights[i] for i in order], log=quiet)
        for one, other in zip(ensemble.answer_batch(QUESTIONS, PASSAGES, 9), expected, strict=True):
            assert_same(one, other, 1e-12)


def test_the_same_reader_twice_is_the_reader(members):
    twice = Ensemble([members[0], members[0]], [3, 1]).answer_batch(QUESTIONS, PASSAGES, 5)
    for one, other in zip(twice, members[0].answer_batch(QUESTIONS, PASSAGES, 5), strict=True):
        assert_same(one, other)


def in_graph(ensemble, questions, passages, n_best=5):
    graph = ensemble.in_graph(n_best)
    function, specs = graph.signatures()["serving_default"]
    traced = tf.function(function, autograph=False).get_concrete_function(*specs)
    columns = traced(question=tf.constant(encoded_texts(questions)), passage=tf.constant(encoded_texts(passages)))
    return answers_of_columns({name: value.numpy() for name, value in columns.items()}, passages, n_best)


@pytest.mark.long
@pytest.mark.parametrize("threshold", ["own", None])
def test_the_graph_answers_as_the_ensemble_does(members, threshold):
    ensemble = Ensemble(members, [1, 2, 3, 4], log=quiet).with_threshold(threshold)
    ensemble.calibration = calibration(0.8, 0.5, 0.6, -0.2)
    questions, passages = [*QUESTIONS, "?", "Wer?", "a"], [*PASSAGES, PASSAGES[0], "名前は", "Ünlü 🦉 owl"]
    expected = ensemble.answer_batch(questions, passages, 5)
    for found, other in zip(in_graph(ensemble, questions, passages), expected, strict=True):
        assert_same(found, other, 2e-5)


def test_members_of_different_tokens_meet_at_their_offsets(members, word_pieces):
    ensemble = Ensemble([members[0], word_pieces], [2, 1], log=quiet)
    questions, passages = [*QUESTIONS[:4], "Who?"], [*PASSAGES[:4], "Anna—Keld, mill 1712 unbelievable"]
    expected = ensemble.answer_batch(questions, passages, 5)
    assert any(
        {(span.start, span.end) for span in one.n_best} & {(span.start, span.end) for span in other.n_best}
        for one, other in zip(
            members[0].answer_batch(questions, passages, 5),
            word_pieces.answer_batch(questions, passages, 5),
            strict=True,
        )
    )
    for found, other in zip(in_graph(ensemble, questions, passages), expected, strict=True):
        assert_same(found, other, 2e-5)


def test_members_that_share_a_tokenizer_read_its_tokens_once(members, word_pieces, monkeypatch):
    calls = []
    for reader in (members[0], word_pieces):
        kind = type(reader.processor)
        tokenize = kind.tokenize
        monkeypatch.setattr(
            kind, "tokenize", lambda self, *args, own=tokenize, **kw: calls.append(type(self)) or own(self, *args, **kw)
        )
    Ensemble([*members, word_pieces], log=quiet).answer_batch(QUESTIONS, PASSAGES)
    assert sorted(calls, key=str) == sorted([type(members[0].processor), type(word_pieces.processor)], key=str)
    asked = []
    graph = Ensemble([members[0], members[3], word_pieces], log=quiet).in_graph(2)
    for reader in graph.readers:
        own = reader.ask
        monkeypatch.setattr(reader, "ask", lambda *args, own=own: asked.append(1) or own(*args))
    graph.answer(tf.constant(QUESTIONS[:1]), tf.constant(PASSAGES[:1]))
    assert len(asked) == 2


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(1e-30, 1), min_size=1, max_size=8),
    st.floats(0.25, 8),
)
def test_a_temperature_keeps_the_order_and_the_sum(values, temperature):
    probabilities = np.sort(np.array(values))[::-1] / (1.0 + sum(values))
    found = at_temperature(probabilities, temperature)
    assert (np.diff(found) <= 1e-15).all()
    assert found.sum() == pytest.approx(probabilities.sum())
    np.testing.assert_array_equal(at_temperature(probabilities, 1.0), probabilities)


def test_calibration_fits_the_sums(members):
    articles = squad_data(ARTICLES)
    unanswerable = tuple(
        dataclasses.replace(question, id=f"no-{question.id}", passage=(question.passage + 1) % 4, answers=())
        for question in articles.questions
    )
    data = dataclasses.replace(articles, questions=articles.questions + unanswerable)
    ensemble = Ensemble(members, log=quiet)
    found = fabir_tf.calibrate(ensemble, data)
    assert (found.questions, found.no_answer.questions) == (12, 24)
    # The probabilities that it was fitted with are those that the ensemble then gives.
    answers = ensemble.with_threshold(None).predict(articles)
    assert found.before["mean_probability"] == pytest.approx(np.mean([one.probability for one in answers]), abs=0.2)
    ensemble.calibration = found
    assert ensemble.no_answer_threshold == found.no_answer.threshold
    none = [answer.no_answer_probability for answer in ensemble.predict(data)]
    scores = [answer.score for answer in ensemble.predict(data)]
    assert none == pytest.approx([1 / (1 + math.exp(found.no_answer.scale * s - found.no_answer.bias)) for s in scores])
    declined = [not answer.is_answer for answer in ensemble.predict(data)]
    assert declined == [value > found.no_answer.threshold for value in none]


def test_the_chosen_weights_are_as_good_as_any_of_a_grid(members):
    ensemble = Ensemble(members[:2], log=quiet)
    weights = choose_weights(ensemble, DATA, "f1")
    assert weights.sum() == pytest.approx(1)

    def f1_of(first):
        tried = Ensemble(members[:2], [first, 1 - first], log=quiet).with_threshold(None)
        return fabir_tf.evaluate(tried, DATA)["f1"]

    grid = [f1_of(step / 20) for step in range(1, 20)]
    assert len(set(grid)) > 1
    assert f1_of(weights[0]) == pytest.approx(max(grid))
    again = choose_weights(Ensemble(members[1::-1], log=quiet), DATA, "f1")
    np.testing.assert_allclose(again, weights[::-1])


def test_the_share_of_unanswerable_questions_decides_what_weights_are_best(members):
    articles = squad_data(ARTICLES)
    others = tuple(
        dataclasses.replace(question, id=f"no-{question.id}", passage=(question.passage + 1) % 4, answers=())
        for question in articles.questions[:2]
    )
    data = dataclasses.replace(articles, questions=articles.questions + others)
    ensemble = Ensemble([members[0], members[2]])
    for share in (0.1, 0.9):

        def best(first, share=share):
            tried = Ensemble(ensemble.members, [first, 1 - first])
            return fabir_tf.calibrate(tried, data, unanswerable_share=share).no_answer.f1

        chosen = choose_weights(ensemble, data, "f1", unanswerable_share=share)
        assert best(chosen[0]) == pytest.approx(max(best(step / 20) for step in range(1, 20, 3)))


def test_an_ensemble_teaches_what_its_members_do(members):
    from fabir_tf.training.distillation import teach

    ensemble = Ensemble(members[:1] * 2 + members[2:3], [1, 1, 2], log=quiet)
    found, expected = teach([ensemble], DATA), teach([members[0], members[2]], DATA)
    assert found.ids == expected.ids
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-6)
    np.testing.assert_allclose(found.null_probabilities, expected.null_probabilities, atol=1e-6)


def test_members_without_a_null_head_are_named_in_one_line(members):
    lines = []
    Ensemble(members, log=lines.append)
    assert lines == [
        'members without a null head, whose "no answer" counts 0: 1 (Reader(fabir, max_passage=512, max_answer=15))'
    ]
    Ensemble(members[1:2], log=lines.append)
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1], "found 1 weights for 2 members"),
        ([1, 0], "found the weight 0, expected a number above 0"),
        ([1, -2.0], "found the weight -2.0"),
        ([1, math.nan], "found the weight nan"),
        ([1, "2"], "found the weight '2'"),
        ([1, True], "found the weight True"),
    ],
)
def test_a_weight_that_does_not_fit_is_refused(members, weights, sentence):
    with pytest.raises(UserError, match=sentence):
        Ensemble(members[:2], weights, log=quiet)


def test_other_members_are_refused(members):
    with pytest.raises(UserError, match="without members"):
        Ensemble([])
    with pytest.raises(UserError, match="expected a Reader"):
        Ensemble([members[0], Ensemble(members[:1])])
    with pytest.raises(UserError, match="expected a single reader"):
        fabir_tf.look_inside(Ensemble(members[:1]), QUESTIONS[0], PASSAGES[0])
    with pytest.raises(UserError, match="expected a single reader"):
        fabir_tf.question_answering(Ensemble(members[:1]))


# === Folders and commands ===


@pytest.fixture(scope="module")
def packed(commands, tiny_run, bert_folder, tmp_path_factory):
    """An ensemble of fabir-base, a run without a null head and a BERT, calibrated on the small data."""
    folder = tmp_path_factory.mktemp("packed") / "all"
    names = f"fabir-base,{tiny_run.path},{bert_folder}"
    flags = (f"--output={folder}", "--weights=3,1,2", "--words=500", f"--calibration_dataset={tiny_run.train}")
    result = commands("pack", f"--ensemble={names}", *flags)
    assert result.status == 0, result
    assert "weights: 0.500 fabir-base, 0.167 " in result.stderr
    assert 'whose "no answer" counts 0: 1 (Reader(fabir' in result.stderr
    return folder


@pytest.fixture(scope="module")
def loaded(packed):
    return Reader.load(packed, log=quiet)


def test_what_a_killed_command_has_left_is_no_part_of_the_next_ensemble(tmp_path):
    """A member that was written, and a calibration of sums: without ensemble.json there is no reader."""
    folder = pack_ensemble([pretrained_folder("fabir-base")] * 2, tmp_path / "both", max_words=300)
    (folder / "ensemble.json").unlink()
    calibration().save(folder / "calibration.json")
    pack_ensemble([pretrained_folder("fabir-base")], folder, max_words=300)
    assert not (folder / "calibration.json").exists()
    assert [path.name for path in (folder / "members").iterdir()] == ["0"]
    with pytest.raises(UserError, match="already holds a reader"):
        pack_ensemble([pretrained_folder("fabir-base")], folder)


def test_a_question_that_is_too_long_is_named_by_its_own_place(members, word_pieces, monkeypatch):
    """Not by that in the part of the list that is read at once."""
    monkeypatch.setattr(fabir_tf.reading.ensemble, "CHUNK", 4)
    ensemble = Ensemble([members[0], word_pieces], log=quiet)
    questions = ["Who built the mill?"] * 9
    questions[6] = "mill " * 400
    with pytest.raises(QuestionError) as caught:
        ensemble.answer_batch(questions, [PASSAGES[0]] * 9)
    assert caught.value.question == "6"


def test_a_folder_of_an_ensemble_loads_as_the_ensemble(packed, loaded, bert_folder):
    assert isinstance(loaded, Ensemble)
    parts = [Reader.load(packed / "members" / str(number)) for number in range(3)]
    expected = Ensemble(parts, [3, 1, 2], Calibration.load(packed / "calibration.json"), quiet)
    copied = pickle.loads(pickle.dumps(loaded))
    for ensemble in (loaded, copied):
        for one, other in zip(
            ensemble.answer_batch(QUESTIONS, PASSAGES, 5), expected.answer_batch(QUESTIONS, PASSAGES, 5), strict=True
        ):
            assert_same(one, other)
    assert "/" not in (packed / "ensemble.json").read_text().replace("\n", "")


def test_every_command_takes_an_ensemble(commands, packed, loaded, tiny_run, tmp_path):
    document = tmp_path / "mill.txt"
    document.write_text(PASSAGES[0])
    reader = f"--run_dir={packed}"
    answered = commands("predict", reader, f"--question={QUESTIONS[0]}", f"--passage={PASSAGES[0]}")
    assert_same_as_json(json.loads(answered.stdout), loaded.answer(QUESTIONS[0], PASSAGES[0]))
    assert commands("index", f"--index={tmp_path / 'index'}", f"--input={document}").status == 0
    for result in (
        commands("predict", reader, f"--question={QUESTIONS[0]}", f"--document={document}"),
        commands("search", reader, f"--question={QUESTIONS[0]}", f"--index={tmp_path / 'index'}"),
    ):
        assert json.loads(result.stdout)["source"].endswith("mill.txt"), result.stderr
    scored = commands("evaluate", reader, f"--dataset={tiny_run.dev}", "--cache_dir=")
    assert json.loads(scored.stdout)["f1"] == pytest.approx(fabir_tf.evaluate(loaded, squad_data(DEV_ARTICLES))["f1"])


def assert_same_as_json(found, answer):
    assert {name: value for name, value in found.items() if name in ("answer", "start", "end", "is_answer")} == {
        "answer": answer.text,
        "start": answer.start,
        "end": answer.end,
        "is_answer": answer.is_answer,
    }
    assert found["probability"] == pytest.approx(answer.probability, abs=1e-5)


@pytest.mark.long
def test_one_saved_model_of_several_readers_answers_as_they_do(commands, packed, loaded, tmp_path):
    from fabir_tf.export.saved_model_reader import SavedModelReader

    result = commands("export", f"--run_dir={packed}", f"--export_dir={tmp_path / 'exported'}")
    assert result.status == 0, result
    exported = SavedModelReader(tmp_path / "exported" / "1")
    assert exported.no_answer_threshold == pytest.approx(loaded.no_answer_threshold)
    for one, other in zip(
        exported.answer_batch(QUESTIONS, PASSAGES, 5), loaded.answer_batch(QUESTIONS, PASSAGES, 5), strict=True
    ):
        assert_same(one, other, 2e-5)


@pytest.mark.long
def test_a_server_answers_as_an_ensemble_does(packed, loaded):
    from fabir_tf.serving.backends import load_reader

    backend = load_reader(str(packed), 512, "float32", None, "own")
    for found, expected in zip(
        backend.answer(QUESTIONS, PASSAGES, 3, "own"), loaded.answer_batch(QUESTIONS, PASSAGES, 3), strict=True
    ):
        assert_same(found, expected, 2e-5)
    always = backend.answer(QUESTIONS, PASSAGES, 1, None)
    assert all(answer.is_answer for answer in always)
    assert not backend.describe().shows_attention


def test_weights_and_calibration_are_chosen_on_held_out_questions(commands, tiny_run, tmp_path):
    held_out = write_squad(tmp_path / "held-out.json", ARTICLES)
    result = commands(
        "pack",
        f"--ensemble=fabir-base,{tiny_run.path}",
        f"--output={tmp_path / 'both'}",
        "--weights=em",
        "--words=300",
        f"--calibration_dataset={held_out}",
    )
    assert result.status == 0, result
    content = json.loads((tmp_path / "both" / "ensemble.json").read_text())
    assert content["weights_chosen"] == "em"
    # A reader of one epoch knows nothing.
    assert content["weights"][0] >= 0.5
    assert "12 held-out questions" in result.stderr


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--ensemble=fabir-base", "--run_dir=fabir-base"], "--run_dir and --ensemble: found both"),
        (["--ensemble=fabir-base,", "--weights=equal"], "--ensemble=fabir-base,: found an empty name"),
        (["--ensemble=fabir-base,fabir-base", "--weights=1"], "2 numbers above 0"),
        (["--ensemble=fabir-base,fabir-base", "--weights=1,-1"], "--weights=1,-1"),
        (["--ensemble=fabir-base,fabir-base", "--weights=1,x"], "--weights=1,x"),
        (["--ensemble=fabir-base,fabir-base", "--weights=f1"], "--calibration_dataset is missing"),
        (["--ensemble=fabir-base,missing-run"], "missing-run: found no run"),
        (["--run_dir=fabir-base", "--weights=f1"], "--weights belongs to --ensemble"),
    ],
)
def test_a_mistake_in_the_flags_is_one_sentence(commands, tmp_path, flags, sentence):
    assert_error(commands, "pack", [*flags, f"--output={tmp_path / 'out'}"], sentence)
    assert not (tmp_path / "out").exists()


def test_what_needs_a_single_reader_says_so(commands, packed, tiny_run, tmp_path):
    out = f"--output={tmp_path / 'out'}"
    sentence = f"{packed}: found an ensemble, expected a single reader"
    for command, flags in (
        ("pack", [f"--run_dir={packed}", out]),
        ("pack", [f"--ensemble=fabir-base,{packed}", out]),
        ("train", [f"--run_dir={tmp_path / 'run'}", f"--start_from={packed}", *tiny_run.flags[:2]]),
    ):
        assert_error(commands, command, flags, sentence)
    assert_error(commands, "pack", ["--run_dir=fabir-base", f"--output={packed}"], "already holds a reader")
    shown = (f"--run_dir={packed}", "--question_id=Fox-0", f"--dataset={tiny_run.dev}", f"--output={tmp_path / 'an'}")
    assert "expected a single reader" in commands("analyze", *shown).error


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "ensemble.json"),
        ("{}", "found None as 'weights'"),
        (json.dumps({"weights": [1], "format": 99}), "expected at most 2"),
        (json.dumps({"weights": [0.5, 0.5, -1], "format": 2}), "-1. as 'weights', expected a list of numbers above 0"),
        (json.dumps({"weights": [1] * 4, "format": 2}), "members/3: found no run"),
    ],
)
def test_a_damaged_folder_is_one_sentence(packed, tmp_path, content, sentence):
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "members").symlink_to(packed / "members")
    (folder / "ensemble.json").write_text(content)
    with pytest.raises(UserError, match=sentence):
        Reader.load(folder, log=quiet)
