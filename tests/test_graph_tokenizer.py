"""Tests of the tokenizer in a graph: the tokens of the one in Python, for any bytes, in TensorFlow operations."""

import functools
import random
from itertools import pairwise

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import SHARED, needs_shared
from test_tokenizer import ANY_CHARACTER, FRAGMENTS, nltk_spans

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.text.graph.code_points import CODE_POINTS, decode
from fabir_tf.pipelines.text.graph.tokenizer import character_table, graph_tokenize
from fabir_tf.pipelines.text.invisible import JOINERS, SEPARATORS
from fabir_tf.pipelines.text.tokenizer import MAX_BLOCK, NEWEST_RULES, tokenize


@functools.cache
def traced(rules):
    """The tokenizer of a version of the rules, traced once."""
    function = functools.partial(graph_tokenize, rules=rules)
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


tokenize_in_graph = traced(NEWEST_RULES)


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")


def batch_of(texts):
    return tf.constant([as_bytes(text) for text in texts], tf.string, [len(texts)])


def decoded(text):
    return as_bytes(text).decode("utf-8", errors="replace")


def spans_in_python(text, rules=NEWEST_RULES):
    _, starts, ends = tokenize(decoded(text), rules)
    return list(zip(starts, ends, strict=True))


def spans_in_graph(texts, function=tokenize_in_graph):
    tokens = function(batch_of(texts))
    spans = list(zip(tokens.starts.numpy().tolist(), tokens.ends.numpy().tolist(), strict=True))
    splits = tokens.row_splits.numpy().tolist()
    assert len(splits) == len(texts) + 1
    assert splits[0] == 0
    assert splits[-1] == len(spans)
    return [spans[start:end] for start, end in pairwise(splits)]


def assert_same(texts, rules=NEWEST_RULES):
    for text, spans in zip(texts, spans_in_graph(texts, traced(rules)), strict=True):
        assert spans == spans_in_python(text, rules), text


def texts_of(data):
    return [*data.passages, *(question.text for question in data.questions)]


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "dev"])
def test_same_tokens_on_the_bundled_sample(split):
    texts = texts_of(load_dataset("sample", split))
    assert len(texts) > 100
    assert_same(texts)


# One line per rule of NLTK that matches these texts, mostly with a text to which it must not apply.
HOSTILE = [
    *("", " ", "\n", ".", "'", '"', "\x00", "a", "\ufeff", "\U0010ffff"),
    *('"a" (b "c" ["d" ""e"" x"y" «"z', "''a'' (''b ' ''c ('''d ''''e '''''f a''b a'''b", "``a'' ` `` ``` a`b"),
    "'tis 'twas cannot'tis cannot'twas gonna'tıſ cannot'tis'twas cannot'twas'tis",
    "'re-do 've 'll 's 't 'd 'm 'n 'sam 'ree don't're",
    *("don't DON'T doN't Don'T n't 'n't x'n't", "x's x'S' x's's x'd've x'll's x's'll x'm's' rock'n'roll 'n'"),
    *("dogs' dogs'. 'dogs' dogs'' d'ogs's' it's\u00a0I'd\x1cwe'll\u2003he'd've.", "the '90s the 1990's O'Brien's"),
    *("cannot CANNOT Kannot cannots can not can_not", "d'ye gimme gonna gotta lemme more'n wanna wanna. wanna-be"),
    *("wanna", "wanna--be", "gim'me", "x.cannot,gonna", "GİMME GIMME LEMME GOTTA ſ'ſ"),
    *("a,b 1,2 1,a a,,b a,,1 a,,,b ,,", "a:b 1:2 8:10, :,:,1 a:", "a,\n", "a,,\n", "1,٣ 1,½"),
    *("a.b a..b a...b. .. ... a.... b", "a;b @c #d $e %f &g *h* ?i !j", "a--b a-b a---b a–b a‒b —"),
    *("The end.", 'The end."', "The end. )", "The end.) \n )"),
    *("The end.’”", "The end.’ ” ' > ", "e.g.\x1c", "..", "a.."),
    *("Yes. No.", "Yes.No.", 'Yes." No.', "Yes.) No.", "Yes.)--No."),
    *("Yes.)\nNo.", "Yes?! No!!! Why... So.", "(Yes.) (No.)"),
    *("J. Smith", "J. smith", "J. 5", "_. a", "5. a", "5. A", "5.5. a"),
    *("-5. a", ".5. a", "5,. a", "5. ?", "٣. a", "½. a"),
    *("etc. , and", "a. b. c. D. ", "x! y", "x? .", "x . . . y"),
    *("x. . .", ".\u00a0. .", ".\u00a0.\u00a0. a", "Hi.\u00a0. ."),
    *("a.'b", "a.(b. c", "a.x b", "a?b. c", "a.\u00a0b", "a.\x1cb"),
    *("a.\n\x1c\nb", "J.\n\x1c\nb", "J. \x1c b", " .a", " . a"),
    *("a) . b", '. " a', '. ") a', "a.;--b. c", "a. &-#x. b", "5.`,-3. b", "x,. b", "a.-- b.", "a. --", '." ', '."'),
    *("\u3000a\u3000.\u3000b\u3000", "a\x85b.\x85c\u2028d", "½ ² ³. a"),
    *("e\u0301's 日本.語 مرحبا. 😀. a", "\u200b's \ufeff'x"),
    *(b"\xff", b"a\x80b", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98"),
    *(b"\xed\xa0\x80.", b"\xc0\xaf 's", b"\xf4\x90\x80\x80"),
    *(b"caf\xe9's. \xff\xfe No", b"\xf0\x80\x80\x80\xe0\x80", "\ud800's"),
    # Abbreviations, also where the period, or the number behind it, is in the next text.
    *("U.S", ".", "U.S.", "No.", "5", "", "p", ". 5", "fig.", "7", "In the U.S. He"),
    *("U.S.. U.S... (U.S.) 'U.S.' U.S.'s"),
    *("No. 5. No.\n\n5 no. five no. (5) No.5", "DR. Dr.. dr . Dr.Dr. ſt. İnc. Éd.", "p.m/a.m. Ph.D. non-U.S. x.U.S."),
    *("U.S.S.R.Q.P. U.S.S.R.Q.P.Z. U.1. 1.U. U.S. 5", "Messrs. approx. D.Phil. messrsx. b.scx."),
    # Marks that are read as spaces, and marks that are cut off.
    *("\u200b", "\u2060a\u200eb.\u200f No\u202a. 5", "a.\u2066\u2069\ufeff", "x\u200b'll \u200b'tis \u061c\"a\u200b\""),
    *("\u200d", "\u00ad\u200c", "\u200dU.S.\u200d U.S\u00ad. \u00adNo. \u200d5"),
    *("co\u00adop x\u00ad-\u00adx \u200d.\u200d", "日本語。英語 and ไทย.", "U.S.の Dr.ខ្មែរ 5 カナ no. ５"),
]


@pytest.mark.slow
@pytest.mark.parametrize("rules", [1, NEWEST_RULES])
def test_same_tokens_on_hostile_texts(rules):
    assert_same(HOSTILE, rules)


def test_same_tokens_alone_as_in_a_batch():
    assert spans_in_graph(HOSTILE) == [spans for text in HOSTILE for spans in spans_in_graph([text])]
    assert spans_in_graph(HOSTILE[::-1]) == spans_in_graph(HOSTILE)[::-1]


def test_same_tokens_eagerly():
    assert spans_in_graph(HOSTILE, graph_tokenize) == spans_in_graph(HOSTILE)


MARKS = st.sampled_from([*"...??!''\"`-,,:;()[]<>«»“”‘’„_&#*@$%~", *("—", "\x00", "\u0301", "½", "😀", "\ufffd")])
INVISIBLE = st.sampled_from([*SEPARATORS, *JOINERS, *JOINERS, "U.S", "p.m.", "Dr", "no.", "No. 7"])
SPACES = st.sampled_from([" ", " ", " ", "\n", "\t", "\x0b", "\x1c", "\x1f", "\x85", "\u00a0", "\u2003", "\u2028"])
LETTERS = st.sampled_from([*"aABsStnNdmJ345", "ll", "re", "É", "İ", "ı", "ſ", "K", "ǅ", "ª", "٣", "²", "日"])
TEXTS = st.one_of(
    st.text(ANY_CHARACTER, max_size=60),
    st.lists(FRAGMENTS, max_size=24).map("".join),
    st.lists(st.one_of(MARKS, SPACES, LETTERS), max_size=40).map("".join),
    st.lists(st.one_of(MARKS, SPACES, LETTERS, INVISIBLE, INVISIBLE), max_size=40).map("".join),
    st.binary(max_size=12),
)


@pytest.mark.slow
@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(st.lists(TEXTS, max_size=12))
def test_same_tokens_on_any_texts(texts):
    assert_same(texts)
    assert_same(texts, rules=1)


def spliced_texts(passages, count):
    """Yields texts of pieces cut from passages at random positions."""
    chooser = random.Random(1)
    for _ in range(count):
        pieces = []
        for _ in range(chooser.randrange(1, 6)):
            passage = chooser.choice(passages)
            start = chooser.randrange(len(passage))
            pieces.append(passage[start : start + chooser.randrange(30)])
        yield chooser.choice(["", " ", "'", '"', "."]).join(pieces)


@pytest.mark.slow
def test_same_tokens_on_spliced_passages():
    assert_same(list(spliced_texts(load_dataset("sample", "train").passages, 3000)))


def test_nltk_tokens_are_in_the_text():
    # The graph has no fallback for tokens that are not.
    for text in [*HOSTILE, *spliced_texts(load_dataset("sample", "train").passages, 1000)]:
        assert nltk_spans(decoded(text)) or not decoded(text).strip()


@pytest.mark.long
@pytest.mark.parametrize("size", [MAX_BLOCK, MAX_BLOCK + 1, 2 * MAX_BLOCK + 7])
@pytest.mark.parametrize("unit", ["word ", "x", "J. S. Bach. ", " ", "a\u3000b.c", "Yes.)\x1c", "? "])
def test_same_blocks_of_a_long_text(unit, size):
    text = (unit * size)[:size]
    assert_same(["a. b", text, "", "x" * (MAX_BLOCK - 3) + " " + text, "'s"])


def test_long_texts_without_spaces_are_split_into_blocks():
    assert spans_in_graph(["x" * 20_003]) == [[(0, 10_000), (10_000, 20_000), (20_000, 20_003)]]


@pytest.mark.long
@pytest.mark.parametrize("unit", ["x", "'", ".", "a. ", "-", " ", "cannot "])
def test_texts_of_200_000_characters(unit):
    assert_same([unit * (200_000 // len(unit))])


def test_an_empty_batch():
    tokens = tokenize_in_graph(batch_of([]))
    assert tokens.ids is None
    arrays = tokens._replace(ids=tf.constant([], tf.int32))
    assert [array.numpy().tolist() for array in arrays] == [[], [], [0], [], [0], [0], []]


def test_tokens_can_be_cut_from_code_points_and_from_bytes():
    texts = ["Élan's 😀 a.", "", "日本 «x»"]
    tokens = tokenize_in_graph(batch_of(texts))
    joined, codes = "".join(texts).encode(), tokens.code_points.numpy()
    for row, text in enumerate(texts):
        words = tokenize(text).words
        first, last = tokens.row_splits.numpy()[row : row + 2]
        starts, ends = (tokens.text_splits.numpy()[row] + array.numpy()[first:last] for array in tokens[:2])
        assert ["".join(map(chr, codes[s:e])) for s, e in zip(starts, ends, strict=True)] == words
        byte_spans = zip(tokens.byte_offsets.numpy()[starts], tokens.byte_offsets.numpy()[ends], strict=True)
        assert [joined[start:end].decode() for start, end in byte_spans] == words


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.binary(max_size=16), max_size=20))
def test_bytes_are_decoded_as_python_does(texts):
    decoded = decode(tf.constant(texts, tf.string, [len(texts)]))
    rows = tf.RaggedTensor.from_row_splits(decoded.values, decoded.splits).to_list()
    assert ["".join(map(chr, row)) for row in rows] == [text.decode("utf-8", errors="replace") for text in texts]
    assert decoded.byte_offsets.numpy()[decoded.splits.numpy()].tolist() == [
        sum(map(len, texts[:count])) for count in range(len(texts) + 1)
    ]


@pytest.mark.parametrize(("rules", "spaces"), [(1, ""), (NEWEST_RULES, SEPARATORS)])
def test_the_table_has_the_classes_of_every_code_point(rules, spaces):
    table = character_table(rules)
    classes = table(tf.range(CODE_POINTS))
    for name, predicate in {"space": str.isspace, "lower case": str.islower, "upper case": str.isupper}.items():
        expected = [predicate(chr(code)) for code in range(CODE_POINTS)]
        for mark in spaces:
            expected[ord(mark)] = name == "space"
        assert table.contains(name, classes).numpy().tolist() == expected
    is_space = [code == ord(" ") or chr(code) in spaces for code in range(CODE_POINTS)]
    assert (classes.numpy() == table.space).tolist() == is_space
    assert table.size < 250_000


def operations(function):
    graph = function.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    return {node.op for node in nodes}


def test_the_graph_has_no_python_or_table_operations_and_is_traced_once():
    used = operations(tokenize_in_graph)
    assert "UnicodeDecodeWithOffsets" in used
    assert not [name for name in used if "PyFunc" in name or "Table" in name or "Numpy" in name]
    assert tokenize_in_graph.experimental_get_tracing_count() == 1


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("file", ["squad/dev-v1.1.json"])
def test_same_tokens_on_a_whole_dev_set(file):
    texts = texts_of(read_squad(SHARED / file))
    assert len(texts) == 2067 + 10570
    assert_same(texts)
