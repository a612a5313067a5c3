"""The pipeline that transformers 4 had: its algorithm, written once more as loops, and all its forms of call."""

import json
import types

import numpy as np
import pytest
import transformers_4
from tiny import ARTICLES, DEV_ARTICLES, make_reader
from wordpiece_folders import write_bert

import fabir_tf
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.reader import Reader

QUESTION, OTHER = "Who built the old mill?", "When was it opened?"
LONG = " ".join(passage for _, passage, _ in ARTICLES + DEV_ARTICLES)
MILL, TOWER = ARTICLES[0][1], DEV_ARTICLES[0][1]
ONE = {"question": QUESTION, "context": MILL}
TWO = {"question": OTHER, "context": TOWER}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader.load(write_bert(tmp_path_factory.mktemp("bert") / "bert"))


@pytest.fixture(scope="module")
def qa(reader):
    return fabir_tf.question_answering(reader)


def softmax(values):
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def logits_of(reader, question, pieces):
    """Start and end logits of [CLS] and the pieces of a window."""
    ids = reader.processor.vocabulary.ids
    sequence = ["[CLS]", *question, "[SEP]", *pieces, "[SEP]"]
    segments = [0] * (len(question) + 2) + [1] * (len(pieces) + 1)
    inputs = {"sequence_ids": [[ids[piece] for piece in sequence]], "sequence_segments": [segments]}
    outputs = reader.model({name: np.array(values, np.int32) for name, values in inputs.items()}, training=False)
    first = len(question) + 2
    for number, name in enumerate(("start_logits", "end_logits")):
        tokens = np.asarray(outputs[name])[0, first : first + len(pieces)]
        yield np.concatenate([np.asarray(outputs["null_logits"])[0, number : number + 1], tokens])


def oracle(reader, question, context, top_k=1, longest=15, size=96, stride=48, impossible=False, align=True):
    """What transformers 4.57 computes, one window, one span and one piece at a time."""
    asked, tokens = (reader.processor.tokenize_text(text) for text in (question, context))
    room, begin, answers, null = size - len(asked.words) - 3, 0, {}, 1.0
    while True:
        stop = min(begin + room, len(tokens.words))
        pieces = tokens.words[begin:stop]
        start, end = (softmax(logits) for logits in logits_of(reader, asked.words, pieces))
        null = min(null, start[0] * end[0])
        spans = [
            (float(start[1 + first] * end[1 + last]), first, last)
            for first in range(len(pieces))
            for last in range(first, min(first + longest, len(pieces)))
        ]
        for score, first, last in sorted(spans, reverse=True)[: 2 * top_k + 10 if align else top_k]:
            while align and first > 0 and pieces[first].startswith("##"):
                first -= 1
            while align and last + 1 < len(pieces) and pieces[last + 1].startswith("##"):
                last += 1
            text = context[tokens.starts[begin + first] : tokens.ends[begin + last]]
            answer = answers.setdefault(text.lower(), [0.0, tokens.starts[begin + first], text])
            answer[0] += score
        if stop == len(tokens.words):
            break
        begin += room - stride
    found = list(answers.values()) + ([[null, 0, ""]] if impossible else [])
    return sorted(found, key=lambda answer: answer[0], reverse=True)[:top_k]


@pytest.mark.parametrize("context", [MILL, TOWER, LONG])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"top_k": 4},
        {"top_k": 3, "align_to_words": False},
        {"top_k": 2, "max_answer_len": 2, "handle_impossible_answer": True},
        {"top_k": 3, "max_seq_len": 45, "doc_stride": 0, "max_answer_len": 40},
    ],
)
def test_the_algorithm_of_transformers(reader, qa, context, settings):
    names = {"max_answer_len": "longest", "max_seq_len": "size", "doc_stride": "stride", "align_to_words": "align"}
    names |= {"top_k": "top_k", "handle_impossible_answer": "impossible"}
    expected = oracle(reader, QUESTION, context, **{names[name]: value for name, value in settings.items()})
    found = qa(question=QUESTION, context=context, **settings)
    found = as_list(found)
    assert [(answer["start"], answer["answer"]) for answer in found] == [(start, text) for _, start, text in expected]
    assert [answer["score"] for answer in found] == pytest.approx([score for score, *_ in expected], rel=1e-4)
    for answer in found:
        assert list(answer) == ["score", "start", "end", "answer"]
        assert answer["answer"] == context[answer["start"] : answer["end"]]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    return transformers_4.folder(tmp_path_factory.mktemp("folders"), "minilm")


@pytest.mark.long
@pytest.mark.parametrize("family", transformers_4.FAMILIES)
def test_the_answers_of_transformers(family, tmp_path, request):
    """Recorded with transformers 4.57; long contexts are read in several windows."""
    folder = request.getfixturevalue("minilm") if family == "minilm" else transformers_4.folder(tmp_path, family)
    recorded = json.loads(transformers_4.RECORD.read_text())[family]
    qa = fabir_tf.question_answering(folder)
    calls = list(transformers_4.calls(family))
    assert len(calls) == len(recorded) == transformers_4.QUESTIONS
    for number, settings in enumerate(transformers_4.SETTINGS):
        of_settings = slice(number, None, len(transformers_4.SETTINGS))
        found = qa(data=calls[of_settings], max_question_len=200, **settings)
        for answers, expected in zip(found, recorded[of_settings], strict=True):
            for answer, wanted in zip(as_list(answers), as_list(expected), strict=True):
                assert answer == wanted | {"score": pytest.approx(wanted["score"], rel=1e-3)}


def test_the_logits_of_transformers(minilm):
    reader = Reader.load(minilm)
    recorded = json.loads(transformers_4.RECORD.read_text())["logits"]
    for (question, context), expected in zip(transformers_4.pairs(), recorded, strict=True):
        asked, tokens = (reader.processor.tokenize_text(text).words for text in (question, context))
        found = np.stack(list(logits_of(reader, asked, tokens)), axis=-1)
        passage = np.array(expected)[[0, *range(len(asked) + 2, len(expected) - 1)]]
        np.testing.assert_allclose(found, passage, atol=1e-4)


def as_list(answers):
    return answers if isinstance(answers, list) else [answers]


def test_every_form_of_call(qa):
    one, two = qa(QUESTION, MILL), qa(OTHER, TOWER)
    assert isinstance(one, dict) and one != two
    example = types.SimpleNamespace(question_text=QUESTION, context_text=MILL)
    for single in (qa(ONE), qa([ONE]), qa(data=ONE), qa(question=QUESTION, context=MILL), qa(example)):
        assert single == one
    assert qa(question=[QUESTION], context=[MILL]) == one
    both = [
        qa([ONE, TWO]),
        qa(ONE, TWO),
        qa(data=[ONE, TWO]),
        qa(item for item in (ONE, TWO)),
        qa(question=[QUESTION, OTHER], context=[MILL, TOWER]),
    ]
    for answers in both:
        assert [answer["answer"] for answer in answers] == [one["answer"], two["answer"]]
        assert [answer["score"] for answer in answers] == pytest.approx([one["score"], two["score"]], rel=1e-4)
    assert qa([]) == []
    about_one = qa(question=[QUESTION, OTHER], context=MILL)
    assert [answer["answer"] for answer in about_one] == [one["answer"], qa(OTHER, MILL)["answer"]]


def test_settings_of_the_pipeline_and_of_a_call(reader):
    two = fabir_tf.question_answering(reader, top_k=2, max_answer_len=1)
    assert len(two(ONE)) == 2 and len(two(ONE, topk=3)) == 3 and isinstance(two(ONE, top_k=1), dict)
    assert len(two(ONE, top_k=None)) == 2


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "found no texts, expected question= and context="),
        ((ONE,), {"data": TWO}, "found texts in two forms"),
        ((), {"question": QUESTION, "context": MILL, "data": TWO}, "found texts in two forms"),
        ((QUESTION,), {}, "found 'Who built the old mill\\?', expected question= and context="),
        (({"question": QUESTION},), {}, "found {'question': .*}, expected question= and context="),
        (({"question": QUESTION, "context": None},), {}, "context: found None of type NoneType, expected a text"),
        ((QUESTION, ""), {}, "context: found an empty text"),
        ((), {"question": QUESTION}, "context: found None of type NoneType, expected a text"),
        ((), {"question": [QUESTION] * 2, "context": [MILL] * 3}, "as many contexts as questions, or one, found 3 and"),
        ((ONE,), {"top_k": 0}, "top_k must be a whole number from 1 on, found 0"),
        ((ONE,), {"max_answer_len": 1.5}, "max_answer_len must be a whole number from 1 on, found 1.5"),
        ((ONE,), {"align_to_words": "yes"}, "align_to_words must be true or false, found 'yes'"),
        ((ONE,), {"batch_size": 8}, "found batch_size=, expected one of top_k, handle_impossible_answer"),
        ((ONE,), {"max_seq_len": 97}, "max_seq_len=97: this reader reads at most 96 tokens at once"),
        ((ONE,), {"doc_stride": 90}, "doc_stride=90: of max_seq_len=96 the question 'Who built .* leaves windows of 8"),
        ((ONE,), {"max_question_len": 4}, "found [0-9]+ tokens, expected at most 4 \\(max_question_len\\)"),
        ((ONE,), {"max_seq_len": 2}, "leaves windows of 0 tokens"),
    ],
)
def test_mistakes(qa, args, kwargs, message):
    with pytest.raises(UserError, match=message):
        qa(*args, **kwargs)


def test_a_context_without_a_piece(qa):
    nothing = {"score": 0.0, "start": 0, "end": 0, "answer": ""}
    assert qa(QUESTION, "\u200b") == qa(QUESTION, " ") == qa(" ", MILL) == nothing
    assert qa(question=[QUESTION, QUESTION], context=[MILL, "\n"])[1] == nothing
    assert qa(QUESTION, "\u200b", handle_impossible_answer=True) == {"score": 1.0, "start": 0, "end": 0, "answer": ""}


@pytest.mark.parametrize("null_head", [False, True])
def test_a_reader_of_words(null_head):
    """Its lengths count words, and windows are read as they are with pieces."""
    reader = make_reader(["mill", "built", "anna"], null_head=null_head)
    qa = fabir_tf.question_answering(reader)
    found = qa(QUESTION, LONG, top_k=5, max_seq_len=20, doc_stride=3, max_answer_len=2)
    assert len(found) == 5
    for answer in found:
        assert answer["answer"] == LONG[answer["start"] : answer["end"]] and len(answer["answer"].split()) <= 2
    if null_head:
        answers = qa(QUESTION, MILL, top_k=500, handle_impossible_answer=True)
        assert sum(answer["score"] for answer in answers) < 1 and [a for a in answers if not a["answer"]]
    else:
        with pytest.raises(UserError, match="this reader has no null head and always answers"):
            qa(QUESTION, MILL, handle_impossible_answer=True)
