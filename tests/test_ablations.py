"""The ablations of thesis table 6, and others: each is a small flag file, and each changes the model."""

from pathlib import Path

import numpy as np
import pytest
from absl import flags
from tiny import CONFIG

import fabir_tf
from fabir_tf.experiments.published import TABLES
from fabir_tf.models import MODELS, training_settings
from fabir_tf.models.graph_nodes import call_of, calls_to
from fabir_tf.training.training_config import TrainingConfig

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "configs").glob("*.flags"))
OF_TRAINING = {"uniform_smoothing", "no_smoothing"}


def settings_of(path):
    """Model name, run directory, model settings and training settings of a flag file."""
    values = flags.FlagValues()
    flags.DEFINE_string("run_dir", None, "", flag_values=values)
    flags.DEFINE_string("model", "fabir", "", flag_values=values)
    flags.DEFINE_bool("as_published", False, "", flag_values=values)
    TrainingConfig.define_flags(values)
    for name in {name for family in MODELS.values() for name in family.config.__dataclass_fields__}:
        field = next(f for f in (m.config.__dataclass_fields__.get(name) for m in MODELS.values()) if f)
        kind = {int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool}
        kind.get(field.type, flags.DEFINE_string)(name, None, "", flag_values=values)
    values(["program", f"--flagfile={path}"])
    model = MODELS[values.model].config.given_flags(values)
    return values.model, values.run_dir, model, TrainingConfig.given_flags(values)


def inputs_of(config, seed=0):
    random = np.random.default_rng(seed)
    inputs = {}
    for text, length in (("passage", 12), ("question", 6)):
        words = random.integers(1, config.trainable_words, (2, length))
        characters = random.integers(1, config.characters, (2, length, config.max_word_characters))
        inputs |= {f"{text}_words": words.astype("int32"), f"{text}_characters": characters.astype("int32")}
    return inputs


def logits_of(overrides):
    """The logits of a model whose weights depend on their shapes and their order alone, and the model."""
    model = fabir_tf.build_model(CONFIG, **({"num_layers": 3} | overrides))
    for number, weight in enumerate(model.trainable_weights):
        weight.assign(np.random.default_rng(number).normal(0, 0.3, weight.shape))
    return np.stack([np.asarray(part) for part in model(inputs_of(CONFIG), training=False).values()]), model


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_flag_file_is_one_that_train_takes_from_any_folder(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    name, run_dir, model, training = settings_of(path)
    config = MODELS[name].config(**model)
    assert run_dir == f"runs/{path.stem}"
    epochs = {"bidaf": 12, "bidaf-porwal": 6, "bidaf-bologna": 10, "bidaf-cheung": 12, "bert-span": 2}
    assert TrainingConfig(**training_settings(name, training)).epochs == epochs.get(name, 18)
    # Every file but the base changes the model or the training.
    if name == "fabir" and path.stem != "fabir":
        assert (config != MODELS["fabir"].config()) == (path.stem not in OF_TRAINING)
        assert (TrainingConfig(**training).smoothing != "gaussian") == (path.stem in OF_TRAINING)


def test_the_base_lists_the_defaults():
    """The files in `configs/` therefore need not repeat it."""
    name, _, model, training = settings_of(ROOT / "base.flags")
    assert (name, MODELS[name].config(**model)) == ("fabir", MODELS["fabir"].config())
    assert TrainingConfig(**training) == TrainingConfig()
    assert len(training) > 10


def test_the_files_of_the_table_are_its_rows_and_no_two_files_train_the_same():
    rows = {path.stem for path in FILES if "Thesis table 6" in path.read_text()}
    assert rows == {run.name for run in TABLES["fabir"]["6"]}
    trained = {path.stem: (name, model, training) for path in FILES for name, _, model, training in [settings_of(path)]}
    for stem, settings in trained.items():
        assert [other for other in trained if trained[other] == settings] == [stem]
    variants = {MODELS[name].config(**model).variant for name, model, _ in trained.values() if name == "bidaf-bologna"}
    assert variants == {0, 1, 2, 3, 4}
    assert {name for name, _, _ in trained.values()} == set(MODELS)


@pytest.mark.long
@pytest.mark.parametrize(
    "overrides",
    [
        {"character_filters": 0},
        {"reduction": "matrix", "reduction_hidden_dim": 400},
        {"interaction": "switching"},
        {"start_layer": "penultimate"},
        {"num_layers": 2},
        {"num_heads": 1},
        {"attention_kernel": "none"},
        {"attention_depthwise": True},
        {"cross_attention": "row"},
        {"word_match": True},
        {"selector": "linear"},
        {"selector_kernel": 1},
        {"min_frequency": 1e-3},
    ],
    ids=str,
)
def test_each_knob_changes_the_logits(overrides):
    published, _ = logits_of({})
    found, _ = logits_of(overrides)
    assert found.shape == published.shape
    assert np.isfinite(found).all()
    assert np.abs(found - published).max() > 1e-4


def test_without_characters_none_is_read():
    _, model = logits_of({"character_filters": 0})
    assert "character_embedding" not in [layer.name for layer in model.layers]
    assert model.get_layer("highway").weights[0].shape[0] == CONFIG.word_dim


def test_matches_are_added_after_the_reduction():
    _, model = logits_of({"word_match": True})
    _, published = logits_of({})
    assert model.count_params() - published.count_params() == 3 * CONFIG.d_model
    words = {"passage_words": [[2, 3, 4]], "question_words": [[4, 5]]}
    characters = {name.replace("words", "characters"): np.ones((*np.shape(ids), 20)) for name, ids in words.items()}
    inputs = {name: np.array(ids, "int32") for name, ids in (words | characters).items()}
    found = model.get_layer("word_match")(**inputs)
    np.testing.assert_array_equal(np.asarray(found[0])[0, :, 0], [0, 0, 1])


@pytest.mark.slow
def test_dropped_words_are_read_as_unknown_ones_in_training_alone():
    """Their characters are still read, and decide what matches."""
    rates = {f"{name}_dropout": 0.0 for name in ("input", "sublayer", "attention", "selector", "character")}
    found, model = logits_of({"word_dropout": 0.5, "word_match": True} | rates)
    published, _ = logits_of({"word_match": True})
    np.testing.assert_array_equal(found, published)
    model.get_layer("word_dropout").rate = 1.0
    inputs = inputs_of(CONFIG)
    unknown = {name: np.ones_like(ids) if name.endswith("words") else ids for name, ids in inputs.items()}
    trained = model(inputs, training=True)
    for name, logits in model(unknown, training=False).items():
        np.testing.assert_allclose(trained[name], logits, rtol=1e-5, atol=1e-5)
        assert np.abs(logits - model(inputs, training=False)[name]).max() > 1e-3


def test_the_matrix_takes_the_place_of_the_layer():
    """d_input x d_model and a bias; thesis eq. 5.18."""
    _, model = logits_of({"reduction": "matrix", "reduction_hidden_dim": 400})
    names = [layer.name for layer in model.layers]
    assert "reduction_layer" not in names and "decoupled_encoder" not in names
    width = CONFIG.word_dim + CONFIG.character_filters
    assert [weight.shape for weight in model.get_layer("reduction").weights] == [
        (width, CONFIG.d_model),
        (CONFIG.d_model,),
    ]


def test_in_switching_layers_every_second_question_attends():
    """Thesis figure 14: the odd layers are the passage's."""
    _, model = logits_of({"interaction": "switching"})
    layers = [model.get_layer(f"processing_layer_{number}") for number in (1, 2, 3)]
    calls = [calls_to(layer)[0].arguments.kwargs for layer in layers]
    indices = [[_output_index(call[text]) for text in ("passage", "question")] for call in calls]
    # The second layer's passage is the first one's question, and the third gets its outputs in the original order.
    assert indices == [[0, 1], [1, 0], [1, 0]]


def _output_index(tensor):
    """The index of a tensor among the outputs of the call that made it."""
    _, node = call_of(tensor)
    return [output is tensor for output in node.outputs].index(True)


def test_the_start_may_be_selected_from_the_penultimate_layer():
    _, model = logits_of({"start_layer": "penultimate"})
    assert not any(layer.name == "selector" for layer in model.layers)
    for name, layer in (("start_selector", "processing_layer_2"), ("end_selector", "processing_layer_3")):
        source = calls_to(model.get_layer(name))[0].input_tensors[0]
        assert call_of(source)[0].name == layer
        assert model.get_layer(name).get_config()["num_outputs"] == 1
