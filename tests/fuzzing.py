"""The parsers of files: for each a small valid file, random damage to it, and how it is read."""

import contextlib
import copy
import dataclasses
import io
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hugging_face_folders
import numpy as np
import tensorflow as tf
from bilm_folders import write_folder
from hypothesis import strategies as st
from tiny import ARTICLES, squad_data, squad_json
from wordpiece_folders import write_bert

from fabir_tf.edge.settings import EdgeSettings
from fabir_tf.export.loading import read_saved_model, validate_harmless
from fabir_tf.models.bilm import read_bilm
from fabir_tf.models.hugging_face import read_hugging_face
from fabir_tf.models.quantised_weights import quantise_weights
from fabir_tf.models.safetensors import read_safetensors
from fabir_tf.models.weights import read_state, write_arrays
from fabir_tf.pipelines.datasets.asked import read_asked
from fabir_tf.pipelines.datasets.checking import check_file, list_faults
from fabir_tf.pipelines.datasets.formats import FORMATS, read_questions
from fabir_tf.pipelines.datasets.predictions import read_predictions
from fabir_tf.pipelines.datasets.records import read_records
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.folder import read_documents
from fabir_tf.pipelines.documents.index import DocumentIndex
from fabir_tf.pipelines.documents.sharded_index import ShardedIndex, open_index
from fabir_tf.pipelines.documents.sqlite import sqlite3
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.text.registry import read_processor
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.pipelines.text.word_vectors import WordVectors, load_vectors
from fabir_tf.pipelines.text.wordpiece_files import read_wordpieces
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceProcessor
from fabir_tf.reading.calibration import Calibration
from fabir_tf.reading.run_directory import reader_directory
from fabir_tf.serving.config_files import read_batching, read_models

MOST_MEMORY = 2**30
"""Bytes that reading a file of a few kilobytes may take."""

STRANGE = (
    *(None, True, False, 0, -1, 1, 2, 1.5, -0.0, 2**31, 2**63, 2**70, -(2**63), 1e308, float("nan"), float("inf")),
    *(
        "",
        "x",
        "\ud800",
        "\0",
        "a\nb",
        "[PAD]",
        "9" * 5000,
        [],
        {},
        [[]],
        [None],
        {"": None},
        ["a", 1],
        {"a": {"a": 1}},
    ),
)
"""Values that JSON may hold where another one is expected."""

# Deeper than a parser may follow, and longer than a number may be.
EXTREMES = (b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5000, b"\xef\xbb\xbf", b"\x1f\x8b\x08\x00", b"PK\x03\x04")


@dataclasses.dataclass(frozen=True)
class Parser:
    """A parser and what it reads.

    Attributes:
        make: writes a valid file, or what a folder holds.
        read: reads it.
        file: the file in the folder that is damaged; "" where it is a file alone.
        ending: of the name of the file or folder.
        inside: puts a damaged part into the file, where damage to the whole would not get far; it takes the valid file
            and the part.
        part: the valid part.
    """

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    file: str = ""
    ending: str = ""
    inside: Callable[[bytes, bytes], bytes] | None = None
    part: bytes = b""

    def path(self, place: Path) -> Path:
        """The file that is damaged."""
        return place / self.file if self.file else place


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """What asks for more than `MOST_MEMORY` fails, instead of taking it from all others."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# === Damage ===


@st.composite
def damaged_bytes(draw, raw: bytes) -> bytes:
    """Some bytes changed, taken out, doubled or put in, or the end cut off."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 20)))
        put_in = draw(st.sampled_from((b"", raw[start:end] * 2, raw[:end], None)))
        raw = raw[:start] + (draw(st.binary(max_size=8)) if put_in is None else put_in) + raw[end:]
    return raw


@st.composite
def damaged_json(draw, content: Any) -> bytes:
    """Values exchanged for strange ones, taken out or given other names."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(content))
        if not places:
            break
        parent, key = draw(st.sampled_from(places))
        change = draw(st.integers(0, 5))
        if change == 0:
            del parent[key]
        elif change == 1 and isinstance(parent, dict):
            parent[draw(st.sampled_from(("", "x", "name", "\ud800")))] = parent.pop(key)
        else:
            parent[key] = copy.deepcopy(draw(st.sampled_from(STRANGE)))
    return json.dumps(content).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def contents(raw: bytes) -> st.SearchStrategy[bytes]:
    """What may stand in a file instead of a valid content."""
    kinds = [damaged_bytes(raw), st.binary(max_size=100), st.sampled_from(EXTREMES)]
    kinds.append(st.sampled_from(STRANGE).map(lambda value: json.dumps(value).encode()))
    with contextlib.suppress(ValueError):
        # Most damage to bytes makes it no JSON.
        kinds += 3 * [damaged_json(json.loads(raw))]
    with contextlib.suppress(ValueError):
        kinds += 3 * [damaged_json([json.loads(line) for line in raw.splitlines()]).map(_lines)]
    return st.one_of(kinds)


def _lines(raw: bytes) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in json.loads(raw))


# === Valid files ===


def _as_written(content: Any) -> Callable[[Path], Any]:
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    return lambda path: path.write_bytes(content)


def _in_folder(name: str, content: Any) -> Callable[[Path], Any]:
    return lambda folder: write_text(folder / name, json.dumps(content))


def _questions(ending: str) -> Callable[[Path], Any]:
    return _as_written(FORMATS[ending].write(squad_data(ARTICLES[:1])))


def _words() -> WordProcessor:
    vectors = WordVectors(["the", "mill"], np.ones((2, 3), np.float16), "none")
    return WordProcessor(Vocabulary(("old", "mills"), ("a", "b", "c"), ("the", "mill")), vectors)


def _wordpieces(folder: Path) -> None:
    write_bert(folder)
    settings = {"encoder": str(folder), "max_sequence": 30, "max_question": 8}
    WordPieceProcessor.create(settings).save(folder)


def _index(path: Path) -> None:
    with DocumentIndex(path, create=True) as index:
        index.update([Document(f"{title}.txt", text) for title, text, _ in ARTICLES])


def _saved_model(folder: Path) -> None:
    module = tf.Module()
    module.weight = tf.Variable([1.0, 2.0])
    spec = tf.TensorSpec([None, 2], tf.float32, "x")
    module.run = tf.function(lambda x: {"y": x * module.weight}, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(folder), {"serving_default": module.run})


_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "##s")
_TOKENIZER = {
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {piece: n for n, piece in enumerate(_PIECES)}},
    "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}
_MODEL = {"name": "fabir", "word_dim": 20, "character_filters": 20, "d_model": 20, "num_heads": 2, "num_layers": 1}
_RUN = {"format": 2, "versions": {}, "model": _MODEL, "training": {"epochs": 3}, "data": {"train": "a"}}
_FIGURES = {"mean_probability": 0.5, "expected_calibration_error": 0.1, "log_loss": 0.2}
_NO_ANSWER = {
    **{"threshold": 0.5, "scale": 1.0, "bias": 0.0, "temperature": 1.0, "questions": 4, "unanswerable": 2},
    **{"unanswerable_share": 0.5, "f1": 50.0, "auroc": 0.5, "expected_calibration_error": 0.1},
}
_CALIBRATION = {
    **{"temperature": 0.7, "questions": 2, "exact_match": 0.5, "before": _FIGURES, "after": _FIGURES},
    **{"risk_coverage": [], "no_answer": None},
}
EDGE = {
    **{"format": 1, "target": "onnx", "quantization": "none", "model": "fabir", "max_passage": 100},
    **{"null_head": False, "decoder": {"kind": "SpanDecoder", "max_answer": 15}, "no_answer_threshold": None},
}
_ANSWER = {"id": "a", "answer": "mill", "start": 3, "probability": 0.5, "no_answer_probability": 0.1}
_ANSWERS = "".join(json.dumps(_ANSWER | {"id": name}) + "\n" for name in "ab")
_ASKED = '{"id": 1, "question": "Who?"}\nWho built the mill?\n'
_MODELS = 'model_config_list { config { name: "a" base_path: "x" version_labels { key: "stable" value: 3 } } }'
_BATCHING = "max_batch_size { value: 128 }\nbatch_timeout_micros { value: 5000 }\n"
_MARKDOWN = "# A\n\n- the *mill* [a](b) `c`\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n> &amp; <b>x</b>\n\n```\ncode\n```\n"
_RST = "A\n=\n\n.. note:: the mill\n\n* a `b`_\n\n=== ===\n1   2\n=== ===\n\n.. _b: http://x\n"
_HTML = "<title>A</title><table><tr><td>1<td>2</table><p>the <b>mill</b> &amp; &#x41; <pre>x</pre><!-- -->"
_CSV = "id,question,context,answers\na,Who?,Ada came.,\"{'text': array(['Ada'], dtype=object), 'answer_start': [0]}\"\n"


# === Parts of files ===


def _with_header(valid: bytes, header: bytes) -> bytes:
    """A file of safetensors."""
    return len(header).to_bytes(8, "little") + header + valid[-24:]


def _with_state(valid: bytes, state: bytes) -> bytes:
    """A checkpoint."""
    file = io.BytesIO()
    np.savez(file, **{"format": np.array(2), "state": np.frombuffer(state, np.uint8), "model/kernel": np.ones(2)})
    return file.getvalue()


def _with_values(valid: bytes, values: bytes) -> bytes:
    """An index of documents whose rows have other values: of a column each, by its name."""
    try:
        columns = json.loads(values)
    except (ValueError, RecursionError):
        return valid
    connection = sqlite3.connect(":memory:")
    connection.deserialize(valid)
    for column, value in columns.items() if isinstance(columns, dict) else ():
        table, _, name = column.partition(".")
        # Some values cannot be written at all.
        with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
            connection.execute(f"UPDATE OR REPLACE {table} SET {name} = ?", (value,))
    connection.commit()
    return connection.serialize()


_HEADER = b'{"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"format": "pt"}}'
_ROWS = {
    **{"documents.source": "a.txt", "documents.title": "A", "documents.position": 0, "facts.value": "1"},
    **{"documents.id": 1, "paragraphs.id": 1, "paragraphs.document": 1, "paragraphs.number": 0, "paragraphs.length": 3},
    **{
        "paragraphs.kind": "text",
        "paragraphs.page": 0,
        "paragraphs.text": "The mill.",
        "paragraphs.runs": "[[0, 1, 1]]",
    },
    **{"paragraphs.headings": '[["A", [[0, 1, 1]]]]'},
}


# === How they are read ===


def _shards(folder: Path) -> None:
    with ShardedIndex(folder, create=2) as index:
        index.update([Document(f"{title}.txt", text) for title, text, _ in ARTICLES])


def _searched(path: Path) -> Any:
    with open_index(path) as index:
        return index.search("Who built the old mill?"), index.first(3), index.sources(), index.digest(), len(index)


def _run(folder: Path) -> Any:
    return [(run.read_config(), run.read_model_config()) for run in reader_directory(folder).readers]


def _hugging_face(folder: Path) -> Any:
    run = reader_directory(folder)
    return run.read_config(), run.read_weights(), run.read_processor()


PARSERS = {
    "squad": Parser(_as_written(squad_json(ARTICLES[:1])), read_squad, ending=".json"),
    "questions": Parser(_as_written(squad_json(ARTICLES[:1])), read_questions, ending=".json"),
    "checking": Parser(_as_written(squad_json(ARTICLES[:1])), lambda path: list_faults(check_file(path))),
    "lines": Parser(_questions(".jsonl"), read_questions, ending=".jsonl"),
    "csv": Parser(_questions(".csv"), read_questions, ending=".csv"),
    "pandas": Parser(_as_written(_CSV), read_questions, ending=".csv"),
    "parquet": Parser(_questions(".parquet"), read_questions, ending=".parquet"),
    "records": Parser(_questions(".jsonl"), lambda path: list(read_records(path))),
    "asked": Parser(_as_written(_ASKED), lambda path: list(read_asked(path))),
    "predictions": Parser(_as_written({"a": "mill", "b": ""}), read_predictions, ending=".json"),
    "answers": Parser(_as_written(_ANSWERS), read_predictions, ending=".jsonl"),
    "processor": Parser(lambda folder: _words().save(folder), read_processor, "processor.json"),
    "vocabulary": Parser(lambda folder: _words().save(folder), read_processor, "vocabulary.json"),
    "words": Parser(lambda folder: _words().save(folder), read_processor, "vectors_words.txt"),
    "vectors": Parser(lambda folder: _words().save(folder), read_processor, "vectors.npy"),
    "packed": Parser(lambda folder: _words().packed(2).save(folder), read_processor, "vectors.npz"),
    "glove": Parser(_as_written("the 1 2 3\nmill 4 5 6\n"), lambda path: load_vectors(str(path)), ending=".txt"),
    "wordpieces": Parser(_wordpieces, read_processor, "processor.json"),
    "tokenizer": Parser(_in_folder("tokenizer.json", _TOKENIZER), read_wordpieces, "tokenizer.json"),
    "pieces": Parser(write_bert, read_wordpieces, "vocab.txt"),
    "hugging_face": Parser(write_bert, _hugging_face, "config.json"),
    "weights": Parser(write_bert, read_hugging_face, "model.safetensors"),
    "safetensors": Parser(
        lambda path: path.write_bytes(hugging_face_folders.safetensors({"a": np.ones((2, 3), np.float32)})),
        read_safetensors,
    ),
    "header": Parser(
        lambda path: path.write_bytes(hugging_face_folders.safetensors({"a": np.ones((2, 3), np.float32)})),
        read_safetensors,
        inside=_with_header,
        part=_HEADER,
    ),
    "bilm": Parser(write_folder, read_bilm, "options.json"),
    "hdf5": Parser(write_folder, read_bilm, "lm_weights.hdf5"),
    "run": Parser(_in_folder("config.json", _RUN), _run, "config.json"),
    "ensemble": Parser(
        _in_folder("ensemble.json", {"format": 2, "weights": [0.5, 0.5]}),
        lambda folder: reader_directory(folder).readers,
        "ensemble.json",
    ),
    "checkpoint": Parser(
        lambda path: write_arrays(path, {"model/dense/kernel": np.ones((2, 3), np.float32)}, {"f1": 50.0}), read_state
    ),
    "state": Parser(
        lambda path: write_arrays(path, {"model/kernel": np.ones(2)}, {}),
        read_state,
        inside=_with_state,
        part=b'{"f1": 50.0}',
    ),
    "int8": Parser(
        lambda path: write_arrays(path, quantise_weights({"model/kernel": np.eye(3, dtype=np.float32)}), {}), read_state
    ),
    "calibration": Parser(_as_written(_CALIBRATION), Calibration.load),
    "abstaining": Parser(_as_written(_CALIBRATION | {"no_answer": _NO_ANSWER}), Calibration.load),
    "edge": Parser(_in_folder("reader.json", EDGE), EdgeSettings.load, "reader.json"),
    "index": Parser(_index, _searched),
    "shard": Parser(_shards, _searched, "2-of-2.index"),
    "rows": Parser(_index, _searched, inside=_with_values, part=json.dumps(_ROWS).encode()),
    "saved_model": Parser(
        _saved_model, lambda folder: validate_harmless(read_saved_model(folder), folder), "saved_model.pb"
    ),
    "models": Parser(_as_written(_MODELS), lambda path: read_models(str(path), str)),
    "batching": Parser(_as_written(_BATCHING), lambda path: read_batching(str(path))),
    **{
        ending: Parser(
            _as_written(text), lambda path: [one.paragraphs() for one in read_documents(path)], ending=f".{ending}"
        )
        for ending, text in {"md": _MARKDOWN, "rst": _RST, "html": _HTML, "txt": "The old\n\nmill.\n"}.items()
    },
}
