"""FABIR as a functional model: names, sizes, what every field of the configuration reaches, and saving."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from tiny import CONFIG

import fabir_tf
from fabir_tf.configuration import ConfigError
from fabir_tf.models.parameters import count_trainable
from fabir_tf.pipelines.errors import UserError

ROOT = Path(__file__).parents[1]

# Every field but the derived ones has another value than its default, and no two probabilities are equal.
OVERRIDES = {
    "trainable_words": 13,
    "characters": 17,
    "frozen_words": 19,
    "word_dim": 18,
    "character_dim": 5,
    "character_kernel": 3,
    "character_filters": 12,
    "max_word_characters": 9,
    "highway_layers": 1,
    "min_frequency": 1e-3,
    "position_offset": 7,
    "d_model": 12,
    "num_heads": 3,
    "reduction": "layer",
    "reduction_hidden_dim": 14,
    "hidden_dim": 22,
    "num_layers": 2,
    "interaction": "switching",
    "attention": "convolutional",
    "attention_kernel": "3x7",
    "attention_depthwise": True,
    "cross_attention": "row",
    "shared_query_key_init": False,
    "residual_init_scale": 0.5,
    "joined_init": False,
    "word_match": True,
    "selector": "convolution",
    "start_layer": "last",
    "selector_filters": 6,
    "selector_kernel": 5,
    "max_answer": 4,
    "null_head": True,
    "word_dropout": 0.1,
    "input_dropout": 0.05,
    "sublayer_dropout": 0.15,
    "attention_dropout": 0.3,
    "selector_dropout": 0.4,
    "character_dropout": 0.5,
    "dropout_amplification": 3.0,
}


def make_inputs(vocabulary, characters, max_word_characters, batch=3, passage=11, question=5):
    """Ids of texts of different lengths; padding is 0 and stands at the end."""
    random = np.random.default_rng(2)
    inputs = {}
    for name, length in (("passage", passage), ("question", question)):
        words = random.integers(1, vocabulary, (batch, length))
        letters = random.integers(1, characters, (batch, length, max_word_characters))
        for row in range(batch):
            words[row, length - row :] = 0
            letters[row, length - row :] = 0
        inputs |= {f"{name}_words": words.astype(np.int32), f"{name}_characters": letters.astype(np.int32)}
    return inputs


@pytest.fixture(scope="module")
def published():
    """FABIR as published, but for the frozen table, which holds no parameter to learn."""
    return fabir_tf.build_model(frozen_words=11)


# === Size and names ===


def test_parameter_count_is_the_published_one(published):
    assert count_trainable(published) == 1_385_198
    config = fabir_tf.FabirConfig()
    assert (config.trainable_words, config.characters) == (50, 306)


def test_parameter_count_by_part(published):
    parts = {layer.name: count_trainable(layer) for layer in published.layers if layer.trainable_weights}
    assert parts == {
        "word_embedding": 10_100 + 100 * 50,
        "character_embedding": 4_100 + 8 * 306,
        "highway": 160_800,
        "decoupled_encoder": 182_280,
        "reduction_layer": 685_660 - 182_280,
        "processing_layer_1": 162_560,
        "processing_layer_2": 162_560,
        "processing_layer_3": 162_560,
        "selector": 29_410,
    }


def test_parameter_count_grows_with_the_tables_alone():
    small = {"frozen_words": 0, "num_layers": 0}
    counts = [
        count_trainable(fabir_tf.build_model(trainable_words=words, characters=characters, **small))
        for words, characters in ((1, 1), (4, 1), (1, 6))
    ]
    assert counts[0] == 1_377_750 - 3 * 162_560 + 100 + 8
    assert counts[1] - counts[0] == 300
    assert counts[2] - counts[0] == 40


def test_the_published_configuration():
    values = fabir_tf.FabirConfig().to_dict()
    assert values == {
        "trainable_words": 50,
        "characters": 306,
        "frozen_words": 400_000,
        "word_dim": 100,
        "character_dim": 8,
        "character_kernel": 5,
        "character_filters": 100,
        "max_word_characters": 20,
        "highway_layers": 2,
        "min_frequency": 1e-4,
        "position_offset": 500,
        "d_model": 100,
        "num_heads": 4,
        "reduction": "layer",
        "reduction_hidden_dim": 400,
        "hidden_dim": 200,
        "num_layers": 3,
        "interaction": "repeated",
        "attention": "convolutional",
        "attention_kernel": "1x5",
        "attention_depthwise": False,
        "cross_attention": "column",
        "shared_query_key_init": True,
        "residual_init_scale": 0.1,
        "joined_init": False,
        "word_match": False,
        "selector": "convolution",
        "start_layer": "last",
        "selector_filters": 32,
        "selector_kernel": 9,
        "max_answer": 15,
        "null_head": False,
        "word_dropout": 0.0,
        "input_dropout": 0.1,
        "sublayer_dropout": 0.1,
        "attention_dropout": 0.1,
        "selector_dropout": 0.2,
        "character_dropout": 0.25,
        "dropout_amplification": 2.0,
    }


def test_inputs_and_outputs_have_names(published):
    inputs = {tensor.name: (tensor.shape, tensor.dtype) for tensor in published.inputs}
    assert inputs == {
        "passage_words": ((None, None), "int32"),
        "passage_characters": ((None, None, 20), "int32"),
        "question_words": ((None, None), "int32"),
        "question_characters": ((None, None, 20), "int32"),
    }
    outputs = {name: (tensor.shape, tensor.dtype) for name, tensor in published.output.items()}
    assert outputs == {"start_logits": ((None, None), "float32"), "end_logits": ((None, None), "float32")}


def test_inputs_are_distinguished_by_their_names(published):
    inputs = make_inputs(50, 306, 20)
    logits = published(inputs)
    backwards = published(dict(reversed(inputs.items())))
    for name in ("start_logits", "end_logits"):
        assert logits[name].shape == (3, 11)
        np.testing.assert_array_equal(logits[name], backwards[name])
        padding = np.arange(11)[None] >= 11 - np.arange(3)[:, None]
        assert (np.asarray(logits[name])[padding] == -1e9).all()
        assert (np.abs(np.asarray(logits[name])[~padding]) < 1e3).all()
    assert not np.allclose(logits["start_logits"][0], logits["end_logits"][0])


# === Configuration ===


@pytest.fixture(scope="module")
def overridden():
    return fabir_tf.build_model(**OVERRIDES)


def test_the_overrides_leave_no_field_at_its_default():
    default = fabir_tf.FabirConfig().to_dict()
    assert OVERRIDES.keys() == default.keys()
    assert [name for name in default if default[name] == OVERRIDES[name]] == [
        "reduction",
        "attention",
        # Excludes the two starts above it.
        "joined_init",
        "selector",
        "start_layer",
    ]


def test_every_field_reaches_the_layers(overridden):
    attention = {"num_heads": 3, "kernel_size": (3, 7), "depthwise": True, "residual_init_scale": 0.5}
    interaction = attention | {"cross_softmax_axis": "key", "shared_query_key_init": False}
    wide_dropout = {"attention_dropout": 1 - 0.7**3, "dropout": 1 - 0.85**3}
    expected = {
        "word_embedding": {"trainable_rows": 13, "frozen_rows": 19, "dim": 18},
        "character_embedding": {"rows": 17, "dim": 5, "kernel_size": 3, "filters": 12, "dropout": 0.5},
        "highway": {"depth": 1},
        "input_dropout": {"rate": 0.05},
        "decoupled_encoder": attention
        | wide_dropout
        | {"output_dim": 12, "min_frequency": 1e-3, "position_offset": 7, "encoding_dropout": 0.05},
        "reduction_layer": interaction | wide_dropout | {"output_dim": 12, "hidden_dim": 14},
        "processing_layer_1": interaction | {"hidden_dim": 22, "attention_dropout": 0.3, "dropout": 0.15},
        "processing_layer_2": interaction | {"hidden_dim": 22, "attention_dropout": 0.3, "dropout": 0.15},
        "selector": {"filters": 6, "kernel_size": 5, "dropout": 0.4},
        "null_head": {"dropout": 0.4},
    }
    for name, values in expected.items():
        config = overridden.get_layer(name).get_config()
        for key, value in values.items():
            found = config[key]
            if isinstance(value, float):
                assert found == pytest.approx(value), f"{name}.{key}"
            else:
                assert (tuple(found) if isinstance(found, list) else found) == value, f"{name}.{key}"
    assert "processing_layer_3" not in [layer.name for layer in overridden.layers]
    assert count_trainable(overridden.get_layer("highway")) == 2 * 30 * 31
    assert overridden.input["passage_characters"].shape == (None, None, 9)
    null = overridden.output["null_logits"]
    assert (null.shape, null.dtype) == ((None, 2), "float32")


def test_only_the_cross_attention_starts_matching(published):
    weights = {weight.path: weight for weight in published.trainable_weights}
    pairs = [(path, path.replace("/query/", "/key/")) for path in weights if path.endswith("attention/query/kernel")]
    same = {query for query, key in pairs if (weights[query].numpy() == weights[key].numpy()).all()}
    assert len(pairs) == 8
    assert same == {query for query, _ in pairs if "/cross_attention/" in query}


def test_only_what_writes_an_output_of_a_sublayer_starts_small(published):
    """Xavier's standard deviation is sqrt(2 / (in + out))."""
    starts = {}
    for weight in published.trainable_weights:
        if weight.path.endswith("/kernel") and not weight.path.endswith("attention/kernel"):
            *kernel, inputs, outputs = weight.shape
            starts[weight.path] = weight.numpy().std() / np.sqrt(2 / (np.prod(kernel) * (inputs + outputs)))
    small = {path for path in starts if path.endswith(("/output/kernel", "/encoding_output/kernel"))}
    assert len(small) == 17
    for path, start in starts.items():
        assert start == pytest.approx(0.1 if path in small else 1.0, rel=0.1), path


def test_overrides_and_configuration_mean_the_same(overridden):
    config = fabir_tf.FabirConfig(**(OVERRIDES | {"num_layers": 5}))
    model = fabir_tf.build_model(config, num_layers=2)
    assert [weight.shape for weight in model.weights] == [weight.shape for weight in overridden.weights]


def test_the_linear_selector_can_be_chosen():
    model = fabir_tf.build_model(CONFIG, selector="linear", selector_dropout=0.3)
    assert isinstance(model.get_layer("selector"), fabir_tf.layers.LinearSelector)
    assert model.get_layer("selector").get_config()["dropout"] == pytest.approx(0.3)


def test_without_convolution_the_attention_has_no_kernel():
    plain = fabir_tf.build_model(CONFIG, attention_kernel="none")
    assert plain.get_layer("reduction_layer").get_config()["kernel_size"] is None
    convolved = fabir_tf.build_model(CONFIG)
    assert count_trainable(convolved) > count_trainable(plain)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num_head": 2}, r"FabirConfig has no field 'num_head'; did you mean 'num_heads'\?"),
        ({"zzz": 2}, "FabirConfig has no field 'zzz'; its fields are max_answer, null_head, "),
        ({"num_heads": 3}, "d_model must be even and a multiple of num_heads=3, found 100"),
        ({"d_model": 50, "num_heads": 10, "word_dim": 95}, r"word_dim \+ character_filters must be .*=10, found 195"),
        ({"d_model": 25, "num_heads": 5}, "d_model must be even"),
        ({"num_heads": 2.0}, "num_heads must be of type int, found 2.0"),
        ({"num_layers": True}, "num_layers must be of type int, found True"),
        ({"num_layers": -1}, "num_layers must be .*, found -1"),
        ({"input_dropout": 1}, "input_dropout must be between 0.0 and 0.95, found 1.0"),
        ({"input_dropout": float("nan")}, "input_dropout must be .*, found nan"),
        ({"attention_kernel": "2x5"}, "attention_kernel must be none or HxW with odd numbers, .* found '2x5'"),
        ({"attention_kernel": "none", "attention_depthwise": True}, "attention_depthwise needs an attention_kernel"),
        ({"cross_attention": "rows"}, "cross_attention must be one of column, row, found 'rows'"),
        ({"selector": "rnn"}, "selector must be one of convolution, linear, found 'rnn'"),
        ({"reduction": "matrix", "reduction_hidden_dim": 9}, "reduction_hidden_dim is of no effect with reduction="),
        ({"reduction": "matrix", "dropout_amplification": 1.0}, "dropout_amplification is of no effect .*, found 1.0"),
        (
            {"character_filters": 0, "character_dropout": 0.5},
            "character_dropout is of no effect with character_filters=0",
        ),
        ({"selector": "linear", "selector_kernel": 3}, "selector_kernel is of no effect with selector='linear'"),
        ({"start_layer": "penultimate", "num_layers": 0}, "needs a processing layer, found num_layers=0"),
        ({"interaction": "switching", "num_layers": 1}, "needs two layers, found num_layers=1"),
    ],
)
def test_a_mistake_is_one_sentence(overrides, message):
    with pytest.raises(ConfigError, match=message):
        fabir_tf.build_model(**overrides)


# === Saving ===

LOAD_AND_COMPARE = """
import sys
import numpy as np
import keras
import fabir_tf
model = keras.saving.load_model(sys.argv[1])
with np.load(sys.argv[2]) as file:
    arrays = {name: file[name] for name in file.files}
logits = model({name: array for name, array in arrays.items() if "logits" not in name})
for name, array in logits.items():
    np.testing.assert_allclose(np.asarray(array), arrays[name], rtol=1e-5, atol=1e-5, err_msg=name)
print(sorted(logits), type(model).__name__)
"""


@pytest.mark.slow
def test_a_saved_model_loads_where_only_the_package_is_imported(tmp_path):
    keras.utils.set_random_seed(3)
    model = fabir_tf.build_model(CONFIG, frozen_words=7, trainable_words=5, characters=9)
    model.get_layer("word_embedding").frozen_table.assign(np.random.default_rng(1).standard_normal((7, 20)))
    inputs = make_inputs(13, 10, 20)
    logits = {name: np.asarray(array) for name, array in model(inputs).items()}
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "arrays.npz", **inputs, **logits)
    command = [sys.executable, "-c", LOAD_AND_COMPARE, str(tmp_path / "model.keras"), str(tmp_path / "arrays.npz")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "['end_logits', 'start_logits'] Functional"


def test_seeds_decide_the_weights():
    weights = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        weights.append(fabir_tf.build_model(CONFIG).get_layer("highway").get_weights())
    np.testing.assert_array_equal(weights[0][0], weights[1][0])
    assert (weights[0][0] != weights[2][0]).any()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"reduction": "matrix"}, {"word_match": True}])
def test_no_bias_has_the_gradient_of_biasadd(changes):
    """Under bfloat16 TensorFlow's is a sum in bfloat16."""
    import tensorflow as tf

    model = fabir_tf.build_model(frozen_words=4, num_layers=1, **changes)
    inputs = make_inputs(4, 4, 20)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            value = sum(tf.reduce_sum(logits) for logits in model(inputs, training=True).values())
        return tape.gradient(value, [weight.value for weight in model.trainable_weights])

    operations = {operation.type for operation in gradients.get_concrete_function().graph.get_operations()}
    assert "MatMul" in operations
    assert "BiasAddGrad" not in operations


# === What Keras cannot do with a model ===


@pytest.mark.parametrize("arguments", [["int8"], ["float8"], ["int4"], []])
def test_a_model_is_not_quantized(arguments):
    model = fabir_tf.build_model(CONFIG)
    with pytest.raises(
        UserError, match=r"^model\.quantize\(.*Keras can quantize none of this model's layers; expected "
    ):
        model.quantize(*arguments)


def test_a_model_is_not_saved_where_it_could_not_be_loaded(tmp_path):
    model = fabir_tf.build_model(CONFIG)
    for path in (tmp_path / "model.h5", str(tmp_path / "model.hdf5"), tmp_path / "a.b.h5"):
        with pytest.raises(UserError, match=r"5'\): .* expected a name that ends in \.keras$"):
            model.save(path)
    # Keras' own sentence.
    with pytest.raises(ValueError, match=r"\.keras"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").count_params() == model.count_params()


WITH_OTHER_SETTINGS = """
import fabir_tf
import keras
import numpy as np
assert keras.config.image_data_format() == "channels_first"
for name, inputs in (("fabir", {}), ("fabir", {"selector": "linear"}), ("bidaf", {}), ("bidaf-bologna", {})):
    model = fabir_tf.build_model(name, frozen_words=10, trainable_words=5, **inputs)
    shapes = {tensor.name: [2, 7, *tensor.shape[2:]] for tensor in model.inputs}
    logits = model({name: np.ones(shape, "int32") for name, shape in shapes.items()})
    assert tuple(logits["start_logits"].shape) == (2, 7)
"""


@pytest.mark.slow
def test_a_model_is_built_whatever_keras_settings_say_about_pictures(tmp_path):
    (tmp_path / "keras.json").write_text('{"image_data_format": "channels_first"}')
    environment = os.environ | {"KERAS_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WITH_OTHER_SETTINGS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
