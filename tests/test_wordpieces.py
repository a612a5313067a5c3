"""Word pieces: BERT's cleaning, the greedy cut, offsets, sequences with their budget, files, and the graph."""

import json
import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_testing import check_processor
from shared_data import OWN_QUESTIONS
from wordpiece_texts import PIECES, TEXTS, VOCABULARY, random_texts

from fabir_tf.export.operations import OPERATIONS
from fabir_tf.pipelines.datasets.squad import Question, SquadData, read_squad
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.bert_cleaning import CHINESE, BertCleaning, clean
from fabir_tf.pipelines.text.graph.parity import texts_cut_differently
from fabir_tf.pipelines.text.graph.processor import GraphExamples
from fabir_tf.pipelines.text.registry import read_processor
from fabir_tf.pipelines.text.unicode_tables import unicode_tables
from fabir_tf.pipelines.text.wordpiece_files import read_wordpieces
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceProcessor
from fabir_tf.pipelines.text.wordpieces import WordPieceVocabulary

CASED = BertCleaning(do_lower_case=False)
BOTH = (True, False)
SETTINGS = [BertCleaning(lower, strip, chinese) for lower in BOTH for strip in (None, *BOTH) for chinese in BOTH]


def pieces(text, cleaning=None):
    """The pieces of a text, each with the part of the text that it comes from."""
    tokens = WordPieceProcessor(VOCABULARY, cleaning).tokenize_text(text)
    return [(word, text[start:end]) for word, start, end in zip(*tokens, strict=True)]


# === Cleaning ===


def words(text, cleaning=None):
    cleaned = clean(text, cleaning or BertCleaning())
    return [cleaned.text[start:end] for start, end in zip(cleaned.starts, cleaned.ends, strict=True)]


def words_by_the_rules(text, cleaning):
    """The words of BERT's rules, written from Python's own Unicode data, one rule after the other."""
    kept = ""
    for character in text:
        if character in "\t\n\r" or unicodedata.category(character) in ("Zs", "Zl", "Zp"):
            kept += " "
        elif unicodedata.category(character) not in ("Cc", "Cf", "Co", "Cs") and character != "\ufffd":
            chinese = cleaning.tokenize_chinese_chars and any(a <= ord(character) <= b for a, b in CHINESE)
            kept += f" {character} " if chinese else character
    if cleaning.strips:
        kept = "".join(part for part in unicodedata.normalize("NFD", kept) if unicodedata.category(part) != "Mn")
    if cleaning.do_lower_case:
        # Each character alone: str.lower has a rule for the last sigma of a word.
        kept = "".join(character.lower() for character in kept)

    def is_mark(part):
        return unicodedata.category(part)[0] == "P" or part in "$+<=>^`|~"

    return "".join(f" {part} " if is_mark(part) else part for part in kept).split(" ")


same_unicode = pytest.mark.skipif(
    unicodedata.unidata_version != unicode_tables().version, reason="Python has another Unicode version"
)


@same_unicode
@pytest.mark.parametrize("cleaning", SETTINGS, ids=str)
def test_words_are_those_of_the_rules(cleaning):
    for text in (*TEXTS, *random_texts(300)):
        assert words(text, cleaning) == [word for word in words_by_the_rules(text, cleaning) if word], ascii(text)


@pytest.mark.long
@same_unicode
def test_every_character_is_cleaned_by_the_rules():
    for cleaning in (BertCleaning(), CASED, BertCleaning(strip_accents=False)):
        characters = [chr(code) for code in range(0x110000)]
        # Some thousand characters a text, each between letters.
        for first in range(0, len(characters), 4096):
            text = " ".join(f"a{character}b" for character in characters[first : first + 4096])
            assert words(text, cleaning) == [word for word in words_by_the_rules(text, cleaning) if word]


def test_offsets_tell_where_words_come_from():
    text = "É\u200dt\u0301 中"
    cleaned = clean(text, BertCleaning())
    assert words(text) == ["et", "中"]
    assert [cleaned.sources[start] for start in cleaned.starts] == [0, 5]
    assert [cleaned.sources[end - 1] + 1 for end in cleaned.ends] == [3, 6]


# === Pieces ===


def test_the_longest_piece_is_taken_first():
    assert pieces("unaffable") == [("un", "un"), ("##aff", "aff"), ("##able", "able")]
    assert pieces("unabs") == [("un", "un"), ("##ab", "ab"), ("##s", "s")]


def test_a_word_of_which_a_part_is_no_piece_is_unknown_as_a_whole():
    assert pieces("cat unaffablez cat") == [("cat", "cat"), ("[UNK]", "unaffablez"), ("cat", "cat")]


def test_words_of_more_than_100_characters_are_unknown():
    assert len(pieces("a" * 100)) == 100
    assert pieces("a" * 101) == [("[UNK]", "a" * 101)]
    # Counted after the cleaning: a syllable has three letters, and marks have gone.
    assert pieces("한" * 34) == [("[UNK]", "한" * 34)]
    assert len(pieces("a" * 100 + "\u0301" * 9)) == 100


def test_special_pieces_in_a_text_are_plain_text():
    found = pieces("[SEP] [UNK]")
    assert [piece for piece, _ in found] == ["[", "sep", "]", "[", "unk", "]"]


def test_pieces_of_one_character_share_its_offsets():
    lead, *others = unicodedata.normalize("NFD", "\ud55c\uad6d")
    found = [(lead, "\ud55c"), *((f"##{letter}", "\ud55c") for letter in others[:2])]
    assert pieces("\ud55c\uad6d") == [*found, *((f"##{letter}", "\uad6d") for letter in others[2:])]
    assert pieces("\ud55c\uad6d", CASED) == [("\ud55c", "\ud55c"), ("##\uad6d", "\uad6d")]


_LETTERS = st.characters(exclude_categories=()) | st.sampled_from("the cat unaffable\xe9")


@given(st.text(_LETTERS, max_size=40))
@settings(max_examples=200, deadline=None)
def test_offsets_are_in_order_and_inside_of_any_text(text):
    tokens = WordPieceProcessor(VOCABULARY).tokenize_text(text)
    previous = 0
    for word, start, end in zip(*tokens, strict=True):
        assert word in VOCABULARY.ids
        assert previous <= start < end <= len(text)
        previous = start


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "a"], "mine: found no piece [SEP], expected the vocabulary of a BERT model"),
        (["[UNK]", "[PAD]", "[CLS]", "[SEP]"], "mine: found [PAD] as piece 1, expected it as piece 0"),
        ([*PIECES[:4], "a\nb"], "mine: piece 4 is 'a\\nb', expected one line of Unicode text"),
    ],
)
def test_vocabularies_that_are_not_of_bert(vocabulary, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        WordPieceVocabulary(vocabulary, "mine")


# === Sequences ===


def dataset(passages, questions):
    asked = tuple(Question(f"q{number}", text, 0, ()) for number, text in enumerate(questions))
    return SquadData("hand-made", tuple(passages), ("",) * len(passages), asked)


def sequences(processor, data, examples):
    """The pieces and the segments that a model reads, for each example."""
    features = processor.features(processor.tokenize(data), examples)
    segment = features.segments["sequence"]
    found = []
    for start, length in zip(segment.starts, segment.lengths, strict=True):
        rows = features.tokens[start : start + length]
        ids = [VOCABULARY.pieces[number] for number in features.unique["ids"][rows]]
        found.append((" ".join(ids), features.unique["segments"][rows].tolist()))
    return features, found


def examples_of(*parts):
    return Examples(*(np.array(part, np.int64) for part in parts))


def test_question_and_window_are_one_sequence():
    data = dataset(["the cat sat on unaffable cats"], ["who sat?", "", "cat"])
    features, found = sequences(WordPieceProcessor(VOCABULARY), data, examples_of([0, 1, 2], [1, 0, 6], [5, 2, 2]))
    assert found == [
        ("[CLS] who sat ? [SEP] cat sat on un ##aff [SEP]", [0] * 5 + [1] * 6),
        ("[CLS] [SEP] the cat [SEP]", [0] * 2 + [1] * 3),
        ("[CLS] cat [SEP] ##able cat [SEP]", [0] * 3 + [1] * 3),
    ]
    assert features.logit_offsets.tolist() == [5, 2, 3]
    assert features.passage_lengths.tolist() == [5, 2, 2]


def test_question_and_passage_share_one_budget():
    processor = WordPieceProcessor(VOCABULARY, max_sequence=20, max_question=8)
    assert processor.window_sizes(np.array([0, 3, 8]), 512).tolist() == [17, 14, 9]
    assert processor.window_sizes(np.array([0, 3, 8]), 10).tolist() == [10, 10, 9]
    assert WordPieceProcessor(VOCABULARY).window_sizes(np.array([0, 64]), 512).tolist() == [381, 317]


def test_a_question_over_the_budget_is_an_error():
    processor = WordPieceProcessor(VOCABULARY, max_sequence=20, max_question=8)
    one = examples_of([1], [0], [3])
    data = dataset(["the cat sat"], ["cat", "cat " * 8, "cat " * 9])
    assert sequences(processor, data, one)[1][0][0] == "[CLS] " + "cat " * 8 + "[SEP] the cat sat [SEP]"
    with pytest.raises(UserError, match=r"^question q2: found 9 word pieces, expected at most 8 \(max_question\): "):
        sequences(processor, data, examples_of([1, 2], [0, 0], [3, 3]))


@pytest.mark.parametrize(("max_sequence", "max_question"), [(67, 64), (10, 0), (3, -1)])
def test_a_sequence_without_room_for_a_passage(max_sequence, max_question):
    with pytest.raises(UserError, match=f"^max_sequence={max_sequence} and max_question={max_question}: expected "):
        WordPieceProcessor(VOCABULARY, None, max_sequence, max_question)


# === Files ===

TOKENIZER = {
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {piece: number for number, piece in enumerate(PIECES)},
    },
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": False,
        "strip_accents": None,
        "lowercase": False,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}


def test_tokenizer_json_comes_before_vocab_txt(tmp_path):
    (tmp_path / "vocab.txt").write_text("damaged")
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    vocabulary, cleaning = read_wordpieces(tmp_path)
    assert vocabulary.pieces == PIECES
    assert cleaning == BertCleaning(False, None, False)


@pytest.mark.parametrize("lacking", [["type"], ["type", "unk_token", "continuing_subword_prefix"]])
def test_the_file_of_the_first_tokenizers_names_no_kind(tmp_path, lacking):
    """As that of bert-base-uncased, which nobody has written anew since."""
    model = {name: value for name, value in TOKENIZER["model"].items() if name not in lacking}
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER | {"model": model}))
    assert read_wordpieces(tmp_path)[0].pieces == PIECES
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER | {"model": model | {"merges": []}}))
    with pytest.raises(UserError, match=r"model\.type is null, expected the text 'WordPiece'"):
        read_wordpieces(tmp_path)


def test_vocab_txt_with_and_without_settings(tmp_path):
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(PIECES).encode())
    assert read_wordpieces(tmp_path)[1] == BertCleaning(True, None, True)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": true, "other": 1}')
    vocabulary, cleaning = read_wordpieces(tmp_path)
    assert vocabulary.pieces == PIECES
    assert cleaning == BertCleaning(False, True, True)


@pytest.mark.parametrize(
    ("part", "changed", "message"),
    [
        ("model", {"type": "BPE"}, "model.type is the text 'BPE', expected"),
        ("model", {"max_input_chars_per_word": 50}, "model.max_input_chars_per_word is the number 50, expected"),
        ("model", {"vocab": {"[PAD]": 0, "a": 2}}, "the id of 'a' is 2, expected 1, the next one"),
        ("model", {"vocab": {"[PAD]": "0"}}, "the id of '[PAD]' is the text "),
        ("model", {"vocab": []}, "model.vocab is "),
        ("normalizer", {"type": "NFC"}, "normalizer.type is the text 'NFC', expected"),
        ("normalizer", {"clean_text": False}, "normalizer.clean_text is "),
        ("normalizer", {"lowercase": 1}, "normalizer: lowercase is the number 1, expected true or false"),
        ("pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer.type is "),
    ],
)
def test_tokenizers_of_other_kinds(tmp_path, part, changed, message):
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER | {part: TOKENIZER[part] | changed}))
    with pytest.raises(UserError, match=re.escape(message)):
        read_wordpieces(tmp_path)


def test_folders_without_a_tokenizer(tmp_path):
    message = f"{tmp_path}: found no tokenizer.json and no vocab.txt, expected one of them"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        read_wordpieces(tmp_path)
    with pytest.raises(UserError, match=r"^encoder: found no folder"):
        WordPieceProcessor.create({"max_sequence": 384})


def test_a_saved_processor_cuts_the_same(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    processor = WordPieceProcessor.create({"encoder": str(tmp_path), "max_sequence": 50, "max_question": 20, "more": 1})
    processor.save(tmp_path / "saved")
    logged = []
    again = read_processor(tmp_path / "saved", logged.append)
    assert not logged
    assert (again.max_sequence, again.max_question, again.cleaning) == (50, 20, BertCleaning(False, None, False))
    assert again.tokenizer_version == processor.tokenizer_version
    assert unicode_tables().version in again.tokenizer_version
    for text in TEXTS:
        assert again.tokenize_text(text) == processor.tokenize_text(text)


def test_the_version_tells_vocabularies_and_settings_apart():
    others = WordPieceVocabulary([*PIECES, "dog"])
    processors = [WordPieceProcessor(VOCABULARY, cleaning) for cleaning in SETTINGS]
    versions = [processor.tokenizer_version for processor in (*processors, WordPieceProcessor(others))]
    assert len(set(versions)) == len(versions)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"max_sequence": None}, "found max_sequence="), ({"do_lower_case": "yes"}, "do_lower_case is the text ")],
)
def test_damaged_processors(tmp_path, values, message):
    WordPieceProcessor(VOCABULARY).save(tmp_path)
    content = json.loads((tmp_path / "processor.json").read_text())
    content["values"] |= values
    (tmp_path / "processor.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=re.escape(message)):
        read_processor(tmp_path)


# === The graph ===


@pytest.fixture(scope="module")
def small():
    return WordPieceProcessor(VOCABULARY, max_sequence=24, max_question=9)


def test_its_graph_makes_the_same_inputs(small):
    check_processor(small, ["the cat", "", "what \xe9?", *["cat"] * 20], TEXTS, max_passage=12)


def test_its_graph_without_examples(small):
    check_processor(small, [""], [""], max_passage=12)


@pytest.mark.parametrize("cleaning", SETTINGS[::3], ids=str)
def test_its_graph_cuts_random_texts_the_same(cleaning):
    processor = WordPieceProcessor(VOCABULARY, cleaning)
    assert texts_cut_differently(processor, [*TEXTS, *random_texts(300, seed=1)]) == []


def test_its_graph_finds_the_same_pieces(small):
    tokens = small.in_graph().tokenize(tf.constant(TEXTS))
    expected = [VOCABULARY.ids[piece] for text in TEXTS for piece in small.tokenize_text(text).words]
    assert tokens.ids.numpy().tolist() == expected


def test_bytes_that_are_not_utf_8_are_removed(small):
    tokens = small.in_graph().tokenize(tf.constant([b"the\xff c\xc3at"]))
    expected = small.tokenize_text("the\ufffd c\ufffdat")
    assert (tokens.starts.numpy().tolist(), tokens.ends.numpy().tolist()) == (expected.starts, expected.ends)


def test_its_graph_cuts_long_questions_and_says_so(small):
    graph = small.in_graph()
    assert graph.questions_cut(tf.constant([0, 9, 10], tf.int64)).numpy().tolist() == [False, False, True]
    tokens = graph.tokenize(tf.constant(["the cat", "cat " * 10]))
    one = (tf.constant([value], tf.int64) for value in (0, 0, 0, 2))
    tables = graph.features(tokens, tf.constant(1), GraphExamples(*one)).tables
    ids = [VOCABULARY.pieces[number] for number in tf.gather(tables["unique_ids"], tables["tokens"][:-1])]
    assert " ".join(ids) == "[CLS] " + "cat " * 9 + "[SEP] the cat [SEP]"


def test_its_graph_has_core_operations_only(small):
    graph = small.in_graph()

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string), *[tf.TensorSpec([None], tf.int64)] * 4], autograph=False
    )
    def run(texts, *examples):
        tokens = graph.tokenize(texts)
        lengths = graph.window_sizes(tokens.row_splits[1:] - tokens.row_splits[:-1], 512)
        return lengths, graph.features(tokens, tf.constant(1), GraphExamples(*examples))

    traced = run.get_concrete_function().graph.as_graph_def()
    nodes = [*traced.node, *(node for inner in traced.library.function for node in inner.node_def)]
    assert "While" in {node.op.removeprefix("Stateless") for node in nodes}
    assert {node.op for node in nodes} - OPERATIONS == set()


# === Hugging Face's tokenizers ===


def hugging_face(vocabulary, cleaning):
    tokenizers = pytest.importorskip("tokenizers")
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab=vocabulary.ids, unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=cleaning.tokenize_chinese_chars,
        strip_accents=cleaning.strip_accents,
        lowercase=cleaning.do_lower_case,
    )
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return found


def same(processor, tokenizer, text):
    found, expected = processor.tokenize_text(text), tokenizer.encode(text)
    return list(zip(*found, strict=True)) == [
        (piece, *offsets) for piece, offsets in zip(expected.tokens, expected.offsets, strict=True)
    ]


def is_comparable(text, processor, tokenizer):
    """Whether both know the characters alike, and no spacing mark may change places with another mark."""
    marks = [part for part in unicodedata.normalize("NFD", text) if unicodedata.combining(part)]
    moved = len(marks) > 1 and any(unicodedata.category(mark) == "Mc" for mark in marks)
    return not (moved and processor.cleaning.strips) and all(
        same(processor, tokenizer, f"a{character}b") for character in set(text)
    )


@pytest.mark.parametrize("cleaning", SETTINGS, ids=str)
def test_tokens_of_hugging_face(cleaning):
    processor, tokenizer = WordPieceProcessor(VOCABULARY, cleaning), hugging_face(VOCABULARY, cleaning)
    texts = [*TEXTS, *random_texts(500, seed=2)]
    comparable = [text for text in texts if is_comparable(text, processor, tokenizer)]
    assert len(comparable) > len(texts) / 2
    assert [ascii(text) for text in comparable if not same(processor, tokenizer, text)] == []


def test_tokens_of_hugging_face_on_our_own_questions_with_a_vocabulary_of_all_their_words():
    data = read_squad(OWN_QUESTIONS)
    texts = [*data.passages, *(question.text for question in data.questions)]
    found = dict.fromkeys(word[:6] for text in texts for word in words(text))
    letters = dict.fromkeys(f"##{character}" for text in texts for word in words(text) for character in word)
    vocabulary = WordPieceVocabulary([*PIECES[:4], *found, *letters])
    processor, tokenizer = WordPieceProcessor(vocabulary), hugging_face(vocabulary, BertCleaning())
    assert [text for text in texts if not same(processor, tokenizer, text)] == []
