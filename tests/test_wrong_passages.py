"""Wrong passages: none answers its question, batches hold whole groups, and a training with them goes on as it was."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import ARTICLES, CONFIG, squad_data, write_squad

from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData
from fabir_tf.pipelines.datasets.squad_metrics import normalize_answer
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.examples import training_examples
from fabir_tf.pipelines.features.features import NO_ANSWER
from fabir_tf.pipelines.features.wrong_passages import LONGER, with_wrong_passages
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.prepared_data import load_data, prepare_data, save_data
from fabir_tf.training.train import bucket_sampler, make_targets, train
from fabir_tf.training.training_config import TrainingConfig

WORDS = ["mill", "lake", "owl", "bridge", "stone", "deep", "river", "keld", "north", "1712"]


def added(data, per_question=1.0, max_passage=100, seed=0):
    """The dataset, the pairs of a question and a wrong passage that were added, and the groups."""
    tokenized = tokenize_dataset(data, WordTokenizer())
    training, _ = training_examples(tokenized, max_passage, 60, 15, null_head=True)
    extended, joined, groups = with_wrong_passages(tokenized, training, per_question, max_passage, seed)
    pairs = []
    for number, group, span in zip(joined.examples.questions, groups, joined.spans, strict=True):
        if number != group:
            assert span.tolist() == [NO_ANSWER, NO_ANSWER]
            pairs.append((data.questions[group], extended.data.questions[number]))
    return extended, joined, groups, pairs


@st.composite
def datasets(draw):
    """Passages of a few words, and questions of some of them, which are answered by a word of their passage."""
    passages = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), min_size=1, max_size=8))
    titles = [draw(st.sampled_from(["", "A", "B"])) for _ in passages]
    questions = []
    for number, words in enumerate(passages):
        for index in range(draw(st.integers(0, 3))):
            asked = " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)))
            word = draw(st.sampled_from(words))
            answers = (Answer(word, " ".join(words).index(word)),) if draw(st.booleans()) else ()
            questions.append(Question(f"{number}-{index}", asked, number, answers, not answers))
    if not questions:
        questions = [Question("0", passages[0][0], 0, (Answer(passages[0][0], 0),))]
    return SquadData("made", tuple(" ".join(words) for words in passages), tuple(titles), tuple(questions))


@settings(max_examples=60, deadline=None)
@given(datasets(), st.sampled_from([0.5, 1.0, 3.0]))
def test_no_wrong_passage_holds_the_answer(data, per_question):
    extended, joined, groups, pairs = added(data, per_question)
    count = {}
    for own, wrong in pairs:
        assert own.answers and not wrong.answers and wrong.is_impossible
        assert wrong.text == own.text and wrong.passage != own.passage
        words = normalize_answer(data.passages[wrong.passage]).split()
        assert not any(normalize_answer(answer.text) in words for answer in own.answers)
        lengths = extended.passage_lengths[[own.passage, wrong.passage]]
        assert lengths[1] <= LONGER * lengths[0]
        count[own.id] = count.get(own.id, 0) + 1
    assert max(count.values(), default=0) <= np.ceil(per_question)
    assert len({(own.id, wrong.passage) for own, wrong in pairs}) == len(pairs)
    assert len({question.id for question in extended.data.questions}) == len(extended.data.questions)
    # What was there before stays in front, with the same tokens.
    assert extended.data.questions[: len(data.questions)] == data.questions
    for text in range(len(data.passages) + len(data.questions)):
        expected = WordTokenizer().tokenize_text((*data.passages, *(q.text for q in data.questions))[text])
        assert extended.texts.tokens_of(text) == expected
    for number in joined.examples.questions[len(groups) - len(pairs) :]:
        text = extended.texts.tokens_of(len(data.passages) + number)
        assert text == WordTokenizer().tokenize_text(extended.data.questions[number].text)


def test_a_passage_about_the_same_things_is_chosen():
    passages = (
        "The mill at Keld was built in 1712 by Anna.",
        "The mill at Pell is younger, and of stone.",
        "Owls eat mice at night, in hollow oaks here.",
        "The lake is deep, cold and green in winter.",
    )
    question = Question("1", "When was the mill built?", 0, (Answer("1712", 30),))
    data = SquadData("d", passages, ("A", "B", "C", "D"), (question,))
    for seed in range(5):
        assert [wrong.passage for _, wrong in added(data, seed=seed)[3]] == [1]


def many_mills():
    """Two hundred passages of twenty articles; each shares a name with three passages of other articles."""
    passages = tuple(f"The mill of name{number % 50} is {number} years old." for number in range(200))
    questions = tuple(
        Question(str(number), f"How old is the mill of name{number % 50}?", number, (Answer(str(number), 0),))
        for number in range(200)
    )
    questions = tuple(
        dataclasses.replace(question, answers=(Answer(question.id, passages[question.passage].index(question.id)),))
        for question in questions
    )
    return SquadData("d", passages, tuple(f"article {number // 10}" for number in range(200)), questions)


def test_half_of_the_wrong_passages_are_of_the_same_article():
    data = many_mills()
    pairs = added(data)[3]
    assert len(pairs) > 190
    same = np.mean([data.titles[own.passage] == data.titles[wrong.passage] for own, wrong in pairs])
    assert 0.4 < same < 0.6


def test_the_choice_depends_on_the_seed_alone():
    one, again, other = (added(many_mills(), seed=seed)[3] for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_without_wrong_passages_nothing_changes():
    data = squad_data(ARTICLES)
    tokenized = tokenize_dataset(data, WordTokenizer())
    training, _ = training_examples(tokenized, 100, 60, 15)
    same, examples, groups = with_wrong_passages(tokenized, training, 0.0, 100, 0)
    assert same is tokenized and examples is training
    np.testing.assert_array_equal(groups, training.examples.questions)


# === Batches and training ===


@pytest.fixture
def settings_of(tmp_path):
    path = write_squad(tmp_path / "train.json", ARTICLES)
    training = TrainingConfig(
        dataset=path, eval_dataset=path, vectors="none", min_word_count=0, min_character_count=0, epochs=2,
        batch_size=8, wrong_passages=1.0, shared_norm=0.5, checkpoint_steps=1, length_buckets=2,
    )  # fmt: skip
    return CONFIG.replace(null_head=True), training


@pytest.mark.parametrize("batching", ["questions", "passages"])
def test_a_batch_holds_whole_groups(settings_of, batching, tmp_path):
    config, training = settings_of
    training = training.replace(batching=batching, batch_size=4)
    data = prepare_data(config, training, DataOptions(cache_dir=None), lambda line: None)
    assert len(data.groups) == len(data.features) > len(np.unique(data.groups))
    assert f"{len(data.groups) - len(np.unique(data.groups)):,} wrong passages" in data.summary
    sampler = bucket_sampler(data.features, training, data.groups)
    seen = []
    for batch in sampler.epoch(0):
        rest = np.setdiff1d(np.arange(len(data.groups)), batch)
        assert not set(data.groups[batch]) & set(data.groups[rest])
        if batching == "passages":
            own = np.isin(batch, np.unique(data.groups, return_index=True)[1])
            starts = data.features.segments["passage"].starts
            others = np.isin(rest, np.unique(data.groups, return_index=True)[1])
            assert not set(starts[batch[own]]) & set(starts[rest[others]])
        seen += batch.tolist()
    assert sorted(seen) == list(range(len(data.groups)))
    targets = make_targets(data.features, data.spans, groups=data.groups)
    np.testing.assert_array_equal(targets["group_ids"], data.groups)
    save_data(data, tmp_path / "prepared", config, training)
    np.testing.assert_array_equal(load_data(tmp_path / "prepared").groups, data.groups)


@pytest.mark.long
def test_a_training_is_resumed_exactly(settings_of, tmp_path):
    config, training = settings_of
    options = DataOptions(cache_dir=None)
    whole = train(tmp_path / "whole", config, training, options, log=lambda line: None)
    train(tmp_path / "parts", config, training.replace(epochs=1), options, log=lambda line: None)
    parts = train(tmp_path / "parts", config, training, options, resume=True, log=lambda line: None)
    for one, other in zip(whole["epochs"], parts["epochs"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["training"]["shared_norm"] == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wrong_passages": 0.0}, "shared_norm needs wrong_passages, found shared_norm=0.5 without any"),
        ({"passage_window": 50}, "wrong_passages needs whole passages"),
    ],
)
def test_settings_that_do_not_fit(settings_of, changes, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(settings_of[1], **changes)


def test_a_reader_that_always_answers_needs_a_shared_norm(settings_of):
    config, training = settings_of
    with pytest.raises(UserError, match=r"--wrong_passages=1\.0 is of no effect without --null_head or --shared_norm"):
        prepare_data(
            config.replace(null_head=False), training.replace(shared_norm=0.0), DataOptions(cache_dir=None), print
        )
