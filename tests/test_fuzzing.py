"""Any content of a file gives a result or one sentence. `--hypothesis-profile=fuzzing` tries more."""

import contextlib
import functools
import json
import re
import warnings

import pytest
from fuzzing import EDGE, PARSERS, contents, little_memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.errors import UserError

SHORT = settings(
    derandomize=True, max_examples=20, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
CHOSEN = settings.default if settings.get_current_profile_name() == "fuzzing" else SHORT


@pytest.fixture(scope="module", params=PARSERS)
def parsed(request, tmp_path_factory):
    """A parser, its valid file or folder, and the content that is damaged."""
    parser = PARSERS[request.param]
    place = tmp_path_factory.mktemp("fuzzing") / f"valid{parser.ending}"
    if parser.file:
        place.mkdir()
    parser.make(place)
    return parser, place, parser.path(place).read_bytes()


def read(parsed, content):
    """Reads another content, of a part or of the whole; whatever is no UserError is passed on."""
    parser, place, valid = parsed
    parser.path(place).write_bytes(parser.inside(valid, content) if parser.inside else content)
    with little_memory(), warnings.catch_warnings(), contextlib.suppress(UserError):
        warnings.simplefilter("ignore")
        parser.read(place)


def test_the_valid_file_is_read(parsed):
    parser, place, valid = parsed
    parser.path(place).write_bytes(valid)
    parser.read(place)


@CHOSEN
@given(data=st.data())
def test_a_damaged_file_gives_a_result_or_one_sentence(parsed, data):
    parser, _, valid = parsed
    read(parsed, data.draw(contents(parser.part or valid)))


# Words that the reader knows, and what texts of the web are made of.
PIECES = st.one_of(
    st.sampled_from(
        ("Anna Keld", "the old mill", "1712", "[SEP]", "[PAD]", ". ", ", ", "\n\n", " ", "\u2028", "\x00", "\ud800")
    ),
    st.sampled_from(("e\u0301", "\u200d", "\ufeff", "日本", "ﬁ", "İ", "😀", "<b>", "a" * 70, "U.S.", "..", "'s")),
    st.text(max_size=6),
)
LONG = st.builds(lambda text, times: text * times, st.lists(PIECES, max_size=12).map("".join), st.integers(1, 4))


@CHOSEN
@given(pairs=st.lists(st.tuples(LONG, LONG), min_size=1, max_size=8))
def test_any_texts_get_the_same_answers_in_python_and_in_the_graph(exported, pairs):
    """Whatever the texts are, each answer is a part of its passage, and the SavedModel gives the same."""
    questions, passages = zip(*pairs, strict=True)
    found = exported.reader.answer_batch(questions, passages, n_best=2)
    in_graph = _of_saved_model(exported.folder).answer_batch(questions, passages, n_best=2)
    for answer, other, passage in zip(found, in_graph, passages, strict=True):
        assert answer.text == passage[answer.start : answer.end]
        assert 0 <= answer.probability <= 1
        assert other.no_answer_probability == pytest.approx(answer.no_answer_probability, abs=1e-4)
        # Spans of equal scores may come in either order.
        if len(answer.n_best) < 2 or answer.n_best[0].probability - answer.n_best[1].probability > 1e-4:
            assert [(span.start, span.end) for span in other.n_best[:1]] == [
                (span.start, span.end) for span in answer.n_best[:1]
            ]


@functools.cache
def _of_saved_model(folder):
    from fabir_tf.export import SavedModelReader

    return SavedModelReader(folder)


# === Found cases ===


def numpy_header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def shaped(shape, end):
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}
    return json.dumps({"a": entry}).encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocabulary", b"[" * 200_000, "found broken JSON"),
        ("state", b"[" * 200_000, "damaged or cut short"),
        ("vectors", numpy_header(b"{'descr': '<f2',\0}\n"), "found damaged word vectors"),
        ("vectors", numpy_header(b"(\n"), "found damaged word vectors"),
        ("header", shaped([0, 2**70], 0), "found a of a shape that no array has"),
        ("header", shaped([1] * 70, 4), "found a of a shape that no array has"),
        ("edge", json.dumps(EDGE | {"target": []}).encode(), "found the target a list"),
        ("models", b"\x80", "expected a ModelServerConfig"),
        ("batching", b"\x80", "expected BatchingParameters"),
        ("index", b"damaged", "found another file"),
        ("rows", b'{"paragraphs.id": 4294967296}', "the index is damaged"),
        ("rows", b'{"facts.name": "other"}', "version None of the rules for words"),
        ("rows", b'{"paragraphs.runs": "[[0, 0.5, null]]"}', "other places than whole numbers"),
        ("rows", json.dumps({"paragraphs.runs": "[" * 100_000}).encode(), "the index is damaged"),
    ],
)
def test_found_cases(tmp_path, name, content, message):
    parser = PARSERS[name]
    place = tmp_path / f"valid{parser.ending}"
    if parser.file:
        place.mkdir()
    parser.make(place)
    path = parser.path(place)
    path.write_bytes(parser.inside(path.read_bytes(), content) if parser.inside else content)
    with pytest.raises(UserError, match=re.escape(message)):
        parser.read(place)


def test_a_table_of_an_index_whose_name_is_not_utf_8(tmp_path):
    """Python cannot even read what SQLite says about it."""
    path = tmp_path / "docs.index"
    PARSERS["index"].make(path)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE facts", b"CREATE TABLE\x80facts"))
    with pytest.raises(UserError, match="the index is damaged"):
        PARSERS["index"].read(path)
