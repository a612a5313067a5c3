"""bidaf-cheung with the vectors of a BERT: its processor, its model, and every command."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from exported_answers import export_and_compare
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_testing import check_processor
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES
from wordpiece_folders import PIECES, POSITIONS, write_bert

import fabir_tf
from fabir_tf.models.bert_vectors import BertSizes
from fabir_tf.models.bidaf_cheung import BidafCheungConfig
from fabir_tf.models.hugging_face import read_hugging_face
from fabir_tf.models.outputs import NULL
from fabir_tf.models.parameters import count_trainable
from fabir_tf.models.weights import weights_of
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.separate_wordpiece_processor import SeparateWordPieceProcessor
from fabir_tf.pipelines.text.wordpieces import WordPieceVocabulary
from fabir_tf.reading.reader import Reader

QUESTION, PASSAGE = "Who built the tower?", "The tall tower was built by Karl Wend in 1840."
# More pieces than the encoder has positions.
LONG = " ".join(passage for _, passage, _ in ARTICLES + DEV_ARTICLES)
LONG_QUESTION = "who built the mill " * 24
HARD = (f"{'x' * 101} [SEP] İn 😀 a\u0301 \x00 x\x00y!", "##ke [CLS] Ke\u200dld", " \n ")
FAMILIES = ("bert", "distilbert")


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert") / request.param, request.param)


def config_of(folder, **given):
    given = {"units": 5, "max_sequence": POSITIONS} | given
    return BidafCheungConfig(word_vectors="bert", word_model=str(folder), **given).completed()


def model_of(config):
    keras.utils.set_random_seed(5)
    model = fabir_tf.build_model(config)
    config.initialize(model)
    for name in ("start", "end"):
        for weight in model.get_layer(name).trainable_weights:
            weight.assign(weight * 5)
    return model


@pytest.fixture(scope="module")
def config(folder):
    return config_of(folder)


@pytest.fixture(scope="module")
def model(config):
    return model_of(config)


@pytest.fixture(scope="module")
def processor(config):
    return SeparateWordPieceProcessor.create(config.to_dict())


@pytest.fixture(scope="module")
def reader(model, processor, config):
    return Reader(model, processor, config, 200, log=lambda line: None)


def model_inputs(processor, texts):
    """A model's inputs, one row for each pair of a passage and a question."""
    inputs = {}
    for name, column in zip(("passage", "question"), zip(*texts, strict=True), strict=True):
        ids = [[processor.vocabulary.ids[word] for word in processor.tokenize_text(text).words] for text in column]
        padded = np.zeros((len(ids), max(map(len, ids))), "int32")
        for row, values in enumerate(ids):
            padded[row, : len(values)] = values
        inputs[f"{name}_ids"] = padded
    return inputs


# === The processor ===


@pytest.mark.slow
def test_hard_pieces_in_python_and_in_a_graph(processor):
    check_processor(processor, ["Who saw it?", "", HARD[0]], HARD, 3)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_pieces_in_python_and_in_a_graph(questions, passages):
    check_processor(ANY, questions, passages, 4)


ANY = SeparateWordPieceProcessor(WordPieceVocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "!", "0", "##0"]))


def test_pieces_are_those_of_one_sequence(folder, processor):
    """The two processors of pieces cut alike, so that they share the cache of tokenized texts."""
    joined = fabir_tf.Reader.load(folder).processor
    assert joined.tokenizer_version == processor.tokenizer_version
    assert joined.tokenize_text(LONG) == processor.tokenize_text(LONG)


def test_a_question_over_the_budget_is_an_error_and_a_passage_is_read_in_windows(reader, processor):
    assert processor.window_sizes(np.array([3]), 512).tolist() == [POSITIONS - 2]
    assert len(processor.tokenize_text(LONG).words) > POSITIONS
    answer = reader.answer(QUESTION, LONG)
    assert answer.text == LONG[answer.start : answer.end]
    found = len(processor.tokenize_text(LONG_QUESTION).words)
    with pytest.raises(
        UserError, match=rf"found {found} word pieces, expected at most {POSITIONS - 2} \(max_sequence\)"
    ):
        reader.answer(LONG_QUESTION, PASSAGE)


# === The model ===


def test_a_frozen_encoder_trains_nothing_and_a_tuned_one_all(folder, config, model):
    arrays = read_hugging_face(folder).without_head().arrays
    size = sum(array.size for array in arrays.values())
    assert count_trainable(model.get_layer("bert")) == 0
    tuned = fabir_tf.build_model(config.replace(tune_word_model=True))
    assert count_trainable(tuned.get_layer("bert")) == size
    assert count_trainable(tuned) == count_trainable(model) + size
    found = weights_of(model)
    for path, array in arrays.items():
        np.testing.assert_array_equal(found[f"model/bert/{path}"], array)


def test_a_model_that_is_built_with_a_word_model_has_its_weights(folder, model):
    given = {"word_vectors": "bert", "word_model": str(folder), "units": 5, "max_sequence": POSITIONS}
    built, found = weights_of(fabir_tf.build_model("bidaf-cheung", **given)), weights_of(model)
    assert built.keys() == found.keys()
    for path in read_hugging_face(folder).without_head().arrays:
        np.testing.assert_array_equal(built[f"model/bert/{path}"], found[f"model/bert/{path}"])


def test_only_a_tuned_encoder_drops_values_in_training(folder, config, processor):
    inputs = model_inputs(processor, [(PASSAGE, QUESTION)])["passage_ids"]
    for tuned in (False, True):
        encoder = model_of(config.replace(tune_word_model=tuned)).get_layer("bert")
        assert np.allclose(encoder(inputs, training=True), encoder(inputs, training=False)) != tuned


def test_each_text_is_read_by_itself_between_its_borders(folder, config, processor):
    """As bert-span's encoder reads a sequence that holds nothing but the text."""
    texts = config.given_vectors()
    model = keras.Model(texts.inputs, texts.vectors)
    config.initialize(model)
    inputs = model_inputs(processor, [(PASSAGE, QUESTION)])
    joined = fabir_tf.Reader.load(folder).model
    last = keras.Model(joined.inputs, joined.get_layer("layer_1").output)
    ids = processor.vocabulary.ids
    for text, vectors in model(inputs).items():
        sequence = np.array([[ids["[CLS]"], *inputs[f"{text}_ids"][0], ids["[SEP]"]]], "int32")
        expected = last({"sequence_ids": sequence, "sequence_segments": np.zeros_like(sequence)})
        np.testing.assert_allclose(vectors, expected[:, 1:-1], rtol=1e-5, atol=1e-5)


def test_its_vectors_are_those_of_transformers(folder, config, processor):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    reference = transformers.AutoModel.from_pretrained(folder).eval()
    encoder = model_of(config).get_layer("bert")
    ids = model_inputs(processor, [(PASSAGE, QUESTION)])["passage_ids"]
    special = processor.vocabulary.ids
    with torch.no_grad():
        expected = reference(torch.tensor([[special["[CLS]"], *ids[0].tolist(), special["[SEP]"]]]))
    np.testing.assert_allclose(encoder(ids)[0], expected.last_hidden_state[0, 1:-1].numpy(), atol=1e-4)


def test_neither_padding_nor_neighbours_change_a_logit(model, processor):
    texts = [
        (PASSAGE, QUESTION),
        (DEV_ARTICLES[0][1], "Who is it?"),
        ("The owl", "What does the red fox eat at night?"),
    ]
    together = model(model_inputs(processor, texts), training=False)
    for row, text in enumerate(texts):
        alone = model(model_inputs(processor, [text]), training=False)
        for output, logits in alone.items():
            real = slice(None if output == NULL else logits.shape[1])
            np.testing.assert_allclose(together[output][row, real], logits[0], rtol=1e-4, atol=1e-5)


def test_a_text_of_all_positions_is_read_in_a_padded_batch(reader, processor):
    """Lengths are rounded up, here to more than the encoder has positions."""
    passage = " ".join(["mill"] * (POSITIONS - 2))
    assert len(processor.tokenize_text(passage).words) == POSITIONS - 2
    answer = reader.answer("What?", passage)
    beside = reader.answer_batch(["What?", "Who?"], [passage, PASSAGE])[0]
    assert answer.text and (answer.start, answer.end) == (beside.start, beside.end)
    assert answer.probability == pytest.approx(beside.probability, rel=1e-4)


def test_a_model_without_a_folder_has_the_sizes_of_bert_base():
    encoder = BertSizes(num_layers=1).layer(tuned=False)
    encoder.build((None, None))
    # The published 110 M parameters count the pooler, too.
    assert encoder.count_params() + 11 * 7_087_872 == 108_891_648


@pytest.mark.long
@pytest.mark.parametrize("tuned", [False, True])
def test_a_model_is_saved_and_loaded(config, processor, tuned, tmp_path):
    model = model_of(config.replace(tune_word_model=tuned))
    inputs = model_inputs(processor, [(PASSAGE, QUESTION)])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert count_trainable(loaded) == count_trainable(model)
    for output, logits in model(inputs, training=False).items():
        np.testing.assert_allclose(loaded(inputs, training=False)[output], logits, rtol=1e-6, atol=1e-6)


# === The commands ===


@pytest.mark.long
def test_the_graph_says_the_same_and_tells_of_a_cut_question(reader, tmp_path):
    questions, passages = [QUESTION, "What?", QUESTION], [LONG, HARD[0], PASSAGE]
    served = export_and_compare(reader, tmp_path / "exported", questions, passages)
    found = served(question=tf.constant([*questions, LONG_QUESTION]), passage=tf.constant([*passages, LONG]))
    assert found["question_cut"].numpy().tolist() == [False, False, False, True]
    empty = served(question=tf.constant([""]), passage=tf.constant([""]))
    assert empty["answer"].numpy().tolist() == [b""]


@pytest.fixture
def trained(request, commands, tiny_run, tmp_path):
    """A run, whose word model is trained if `param` is true and gone since the first epoch; its flags."""
    run, own, tuned = tmp_path / "run", write_bert(tmp_path / "own", "bert", head=False), request.param
    first = read_hugging_face(own).arrays
    flags = ("--model=bidaf-cheung", "--word_vectors=bert", f"--word_model={own}", f"--max_sequence={POSITIONS}")
    data = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--cache_dir=")
    prepared = commands("prepare", f"--output={tmp_path / 'prepared'}", *data, *flags)
    assert prepared.status == 0, prepared
    flags += (f"--tune_word_model={str(tuned).lower()}", "--units=6", "--batch_size=5")
    training = (f"--run_dir={run}", f"--prepared={tmp_path / 'prepared'}", *flags)
    result = commands("train", *training, "--epochs=1")
    assert result.status == 0, result
    for path in own.iterdir():
        path.unlink()
    result = commands("train", *training, "--epochs=2", "--resume")
    assert result.status == 0, result
    # Not of the best epoch, which may be the one before any training.
    found = np.load(run / "checkpoints" / "last.npz")
    assert all(np.array_equal(found[f"model/bert/{path}"], array) for path, array in first.items()) != tuned
    return run, (*data, *flags)


@pytest.mark.long
@pytest.mark.parametrize("trained", [False], indirect=True)
def test_a_new_training_starts_from_it(commands, trained, tmp_path):
    """The folder of the word model is needed for a first training alone."""
    run, flags = trained
    again = commands("train", f"--run_dir={tmp_path / 'more'}", f"--start_from={run}", *flags, "--epochs=1")
    assert again.status == 0, again


@pytest.mark.long
@pytest.mark.parametrize("trained", [True], indirect=True)
def test_it_goes_through_every_other_command(commands, tiny_run, trained, tmp_path):
    run, _ = trained
    scores = commands("evaluate", f"--run_dir={run}", f"--dataset={tiny_run.dev}", "--cache_dir=")
    assert scores.status == 0 and json.loads(scores.stdout)["total"] > 0, scores
    packed = commands("pack", f"--run_dir={run}", f"--output={tmp_path / 'packed'}")
    assert packed.status == 0, packed
    content = json.loads((tmp_path / "packed" / "config.json").read_text())
    assert content["model"]["word_model"] == "own"
    asked = [
        commands("predict", f"--run_dir={place}", f"--question={QUESTION}", f"--passage={PASSAGE}")
        for place in (run, tmp_path / "packed")
    ]
    assert asked[0].status == 0 and asked[0].stdout == asked[1].stdout, asked
    exported = commands("export", f"--run_dir={run}", f"--export_dir={tmp_path / 'e'}", "--calibration_dataset=none")
    assert exported.status == 0, exported
    served = tf.saved_model.load(str(tmp_path / "e" / "1")).signatures["serving_default"]
    answer = served(question=tf.constant([QUESTION]), passage=tf.constant([PASSAGE]))["answer"][0].numpy().decode()
    assert answer == json.loads(asked[0].stdout)["answer"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--word_vectors=bert"], ["word_model: found no folder", "--word_vectors=bert"]),
        (["--word_vectors=bert", "--word_model=nowhere"], ["nowhere: found no such folder", "config.json"]),
        (["--word_vectors=bert", "--word_model={0}"], ["max_sequence", "max_positions=96, found 512"]),
        (["--word_vectors=bert", "--word_model={1}"], ["found no tokenizer.json and no vocab.txt"]),
        (["--word_vectors=bert", "--word_model={2}"], ["found model_type 'gpt2'", "bert, distilbert"]),
        (
            ["--word_vectors=elmo", "--word_model={0}"],
            ["found none, expected one file whose name ends in options.json"],
        ),
        (["--pool_words"], ["pool_words needs word_vectors=bert, found word_vectors=table"]),
        (
            ["--word_vectors=bert", "--word_model={0}", "--max_sequence=96", "--pool_words", "--smoothing=gaussian"],
            ["--pool_words: found --smoothing=gaussian, expected --smoothing=none"],
        ),
        (["--tune_word_model"], ["tune_word_model needs word_vectors=bert, found word_vectors=table"]),
    ],
)
def test_settings_that_are_refused(commands, tmp_path, flags, parts):
    whole, no_vocabulary, other = (write_bert(tmp_path / name) for name in ("whole", "no_vocabulary", "other"))
    (no_vocabulary / "vocab.txt").unlink()
    (other / "config.json").write_text('{"model_type": "gpt2"}')
    flags = [flag.format(whole, no_vocabulary, other) for flag in flags]
    run = tmp_path / "run"
    assert_error(commands, "train", [f"--run_dir={run}", "--dataset=sample", "--model=bidaf-cheung", *flags], parts)
    assert not run.exists()


# === Words of pieces ===


@pytest.fixture(scope="module")
def words(folder):
    """A reader of words, whose answers are words."""
    config = config_of(folder, pool_words=True)
    processor = SeparateWordPieceProcessor.create(config.to_dict())
    return Reader(model_of(config), processor, config, 200, log=lambda line: None)


def word_inputs(processor, texts):
    inputs = model_inputs(processor, texts)
    return inputs | {
        f"{text}_begins": processor.begins_word()[inputs[f"{text}_ids"]] for text in ("passage", "question")
    }


def test_each_piece_has_the_offsets_of_its_word(words, processor):
    text = f"{PASSAGE} {HARD[0]}"
    pieces, whole = (one.tokenize_text(text) for one in (processor, words.processor))
    assert whole.words == pieces.words
    first = 0
    for number, piece in enumerate(pieces.words):
        first = first if piece.startswith("##") else number
        following = [other.startswith("##") for other in pieces.words[number + 1 :]]
        last = number + (following.index(False) if False in following else len(following))
        assert (whole.starts[number], whole.ends[number]) == (pieces.starts[first], pieces.ends[last])
    assert whole.starts != pieces.starts and whole.ends != pieces.ends
    # The cache of tokenized texts keeps them apart.
    assert words.processor.tokenizer_version != processor.tokenizer_version


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_words_in_python_and_in_a_graph(questions, passages):
    check_processor(ANY_WORDS, questions, passages, 4)


ANY_WORDS = SeparateWordPieceProcessor(ANY.vocabulary, whole_words=True)


def test_answers_are_words_and_windows_may_begin_within_one(words):
    found = words.answer(QUESTION, LONG, n_best=20)
    assert len(words.processor.tokenize_text(LONG).words) > POSITIONS
    tokens = words.processor.tokenize_text(LONG)
    borders = set(zip(tokens.starts, tokens.ends, strict=True))
    for span in found.n_best:
        assert span.text == LONG[span.start : span.end]
        assert span.start in {start for start, _ in borders} and span.end in {end for _, end in borders}
    assert len({(span.start, span.end) for span in found.n_best}) == len(found.n_best) == 20


def test_words_of_one_piece_are_read_as_pieces(words, model, processor):
    """With the same weights; only words of several pieces make a difference."""
    for layer in model.layers:
        if layer.weights:
            words.model.get_layer(layer.name).set_weights(layer.get_weights())
    for passage, differs in (("the old, by the", False), (PASSAGE, True)):
        texts = [(passage, "the old?")]
        inputs = word_inputs(processor, texts)
        assert differs == (not inputs["passage_begins"].all())
        pieces, found = model(model_inputs(processor, texts)), words.model(inputs)
        for name, logits in pieces.items():
            assert np.allclose(found[name], logits, rtol=1e-4, atol=1e-5) != (differs and name != NULL)


@pytest.mark.long
def test_answers_of_words_are_the_same_in_a_graph_and_after_training(commands, tiny_run, tmp_path):
    run, own = tmp_path / "run", write_bert(tmp_path / "own", "bert", head=False)
    model = ("--model=bidaf-cheung", "--word_vectors=bert", f"--word_model={own}", f"--max_sequence={POSITIONS}")
    training = ("--pool_words", "--smoothing=none", "--units=6", "--batch_size=5", "--cache_dir=", "--epochs=2")
    data = (f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", f"--vector_cache={tmp_path / 'vectors'}")
    result = commands("train", f"--run_dir={run}", *data, *model, *training)
    assert result.status == 0, result
    losses = [float(line.split(",")[2]) for line in (run / "history.csv").read_text().splitlines()[2:]]
    assert max(losses) < 30
    prepared = ("prepare", f"--output={tmp_path / 'pieces'}", *data[:2], *model, "--cache_dir=")
    assert commands(*prepared).status == 0
    other = commands("train", f"--run_dir={tmp_path / 'other'}", f"--prepared={tmp_path / 'pieces'}", *model, *training)
    assert other.status == 2 and "pool_words" in other.stderr, other
    prepared = ("prepare", f"--output={tmp_path / 'words'}", *data[:2], *model, "--cache_dir=", "--pool_words")
    assert commands(*prepared).status == 0
    # Settings of the data may be left out; they hold all the same.
    words = (f"--run_dir={tmp_path / 'other'}", "--model=bidaf-cheung", f"--prepared={tmp_path / 'words'}")
    assert_error(commands, "train", words, ["--pool_words: found --smoothing=gaussian, expected --smoothing=none"])
    kept = (*words, "--smoothing=none", "--units=6", "--epochs=0", f"--vector_cache={tmp_path / 'vectors'}")
    assert commands("train", *kept).status == 0
    of_another = (f"--run_dir={tmp_path / 'x'}", f"--prepared={tmp_path / 'words'}")
    assert_error(commands, "train", of_another, ["found a setting", "prepared for another --model"])
    reader = Reader.load(run)
    assert reader.processor.whole_words
    export_and_compare(reader, tmp_path / "exported", [QUESTION, "What?", QUESTION], [LONG, HARD[0], PASSAGE])


def test_what_an_earlier_version_wrote_has_pieces(processor, tmp_path):
    values = processor.save_assets(tmp_path)
    assert not SeparateWordPieceProcessor.load_assets(tmp_path, values).whole_words
    del values["whole_words"]
    assert not SeparateWordPieceProcessor.load_assets(tmp_path, values).whole_words
    with pytest.raises(UserError, match="found whole_words=the number 3, expected true or false"):
        SeparateWordPieceProcessor.load_assets(tmp_path, values | {"whole_words": 3})


def test_a_table_that_is_too_short_for_the_vocabulary_is_refused(tmp_path):
    with pytest.raises(UserError, match=f"found vectors of 120 word pieces, expected at least {PIECES}"):
        config_of(write_bert(tmp_path / "short", pieces=120))


def test_the_published_training_tunes_a_bert_on_longer_texts_in_smaller_batches():
    """Table 3."""
    model, training = fabir_tf.models.published_settings("bidaf-cheung", {"word_vectors": "bert"})
    assert model["tune_word_model"]
    expected = {"batch_size": 16, "learning_rate": 3e-5, "max_passage": 320, "max_question": 40}
    assert training.items() >= expected.items()
