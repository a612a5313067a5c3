"""--as_published: each reader as its paper has it, field by field, from a table that was written from the papers."""

import json
import math

import keras
import numpy as np
import pytest
from test_ablations import settings_of
from test_bad_input import assert_error
from tiny import ARTICLES, SMALL_DATA, squad_data

import fabir_tf
from fabir_tf.configuration import ConfigError
from fabir_tf.layers import BERT_HEADS, IndependentDecoder, SpanDecoder
from fabir_tf.models import MODELS, config_class, published_settings, training_settings
from fabir_tf.models.joined_weights import variance
from fabir_tf.models.parameters import count_trainable
from fabir_tf.training.training_config import TrainingConfig

# What a paper does not choose: data, files, and what only exists here.
OURS = {
    "dataset": "auto",
    "eval_dataset": "",
    "vectors": "bundled",
    "max_vectors": 400_000,
    "start_from": "",
    "kept_dataset": "",
    "start_share": 0.0,
    "passage_window": None,
    "batching": "questions",
    "warmup_share": 0.0,
    "linear_decay_epochs": 0.0,
    "weight_decay": 0.01,
    "clip_norm": None,
    "teacher": "",
    "distillation_weight": 0.5,
    "patience": None,
    "max_minutes": None,
    "checkpoint_steps": 200,
    "seed": 1,
    "deterministic": True,
    "dtype_policy": "float32",
    "jit_compile": False,
    "distribution": "none",
    "logical_devices": None,
    "wrong_passages": 0.0,
    "shared_norm": 0.0,
    "set_aside": False,
    "null_head": False,
    "adadelta_rho": 0.95,
}
ADAM_OF_KERAS = {
    "optimizer": "adam",
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.999,
    "adam_epsilon": 1e-7,
    "adadelta_epsilon": 1e-8,
    # The schedule and the smoothing of FABIR, which are off.
    "learning_rate_factor": 0.5,
    "warmup_steps": 4000,
    "smoothing": "none",
    "label_smoothing": 0.1,
    "smoothing_deviation": 1.0,
    "ema_decay": None,
    "max_steps": None,
}
FABIR = {
    "word_dim": 100,
    "max_word_characters": 20,
    "character_dim": 8,
    "character_kernel": 5,
    "character_filters": 100,
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
    "shared_query_key_init": False,
    "residual_init_scale": 1.0,
    "joined_init": True,
    "word_match": False,
    "selector": "convolution",
    "start_layer": "last",
    "selector_filters": 32,
    "selector_kernel": 9,
    "word_dropout": 0.0,
    "input_dropout": 0.1,
    "sublayer_dropout": 0.1,
    "attention_dropout": 0.1,
    "selector_dropout": 0.2,
    "character_dropout": 0.25,
    "dropout_amplification": 2.0,
    "max_answer": 15,
    # Training.
    "optimizer": "adam",
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.98,
    "adam_epsilon": 1e-8,
    "adadelta_epsilon": 1e-8,
    "learning_rate": None,
    "learning_rate_factor": 0.5,
    "warmup_steps": 4000,
    "smoothing": "gaussian",
    "label_smoothing": 0.1,
    "smoothing_deviation": math.sqrt(0.5),
    "ema_decay": None,
    "batch_size": 75,
    "length_buckets": 30,
    "epochs": 54,
    "max_steps": None,
    "max_passage": 400,
    "max_question": 60,
    "max_word": 20,
    "min_word_count": 100,
    "min_character_count": 50,
    "random_vectors": False,
    "limit_evaluation": False,
}
BIDAF = {
    "word_dim": 100,
    "max_word_characters": 16,
    "character_dim": 8,
    "character_kernel": 5,
    "character_filters": 100,
    "highway_layers": 2,
    "units": 100,
    "modelling_layers": 2,
    "dropout": 0.2,
    "logit_biases": True,
    "max_answer": None,
    # Training.
    **ADAM_OF_KERAS,
    "optimizer": "adadelta",
    "adam_beta_2": 0.98,
    "adam_epsilon": 1e-8,
    "learning_rate": 0.5,
    "ema_decay": 0.999,
    "batch_size": 60,
    "length_buckets": 30,
    "epochs": 13,
    "max_steps": 18_000,
    "max_passage": 400,
    "max_question": 30,
    "max_word": None,
    "min_word_count": 10,
    "min_character_count": 50,
    "random_vectors": False,
    "limit_evaluation": False,
}
PORWAL = {
    "word_dim": 400,
    "max_word_characters": 20,
    "highway_layers": 1,
    "units": 400,
    "keras_initializers": True,
    "max_answer": None,
    # Training.
    **ADAM_OF_KERAS,
    "learning_rate": 0.001,
    "batch_size": 16,
    "length_buckets": 1,
    "epochs": 6,
    "max_passage": 200,
    "max_question": 50,
    "max_word": None,
    "min_word_count": 100,
    "min_character_count": 50,
    "random_vectors": True,
    "limit_evaluation": True,
}
BOLOGNA = {
    "word_dim": 50,
    "max_word_characters": 20,
    "character_dim": 8,
    "character_kernel": 5,
    "character_filters": 100,
    "highway_layers": 2,
    "units": 100,
    "variant": 4,
    "max_answer": None,
    # Training.
    **ADAM_OF_KERAS,
    "learning_rate": 0.005,
    "batch_size": 8,
    "length_buckets": 1,
    "epochs": 10,
    "max_passage": 400,
    "max_question": 60,
    "max_word": None,
    "min_word_count": 100,
    "min_character_count": 0,
    "random_vectors": False,
    "limit_evaluation": False,
}
# Table 3 and section 3.2.1; dropout and epochs are not in the report.
CHEUNG = {
    "word_vectors": "table",
    "word_model": "",
    "tune_word_model": False,
    "pool_words": False,
    "max_sequence": 512,
    "word_dim": 300,
    "max_word_characters": 20,
    "units": 150,
    "dropout": 0.0,
    "max_answer": 16,
    "null_head": True,
    "null_pairs": True,
    # Training.
    **ADAM_OF_KERAS,
    "learning_rate": 0.001,
    "batch_size": 60,
    "length_buckets": 1,
    "epochs": 12,
    "max_passage": 300,
    "max_question": 30,
    "max_word": None,
    "min_word_count": 1_000_000_000,
    "min_character_count": 50,
    "random_vectors": False,
    "limit_evaluation": False,
}
# Section 3.2.2; epochs, schedule and dropout are those of BERT's own program, whose loss is half of ours.
BERT = {
    "encoder": "",
    "head": "dense",
    "max_sequence": 384,
    "max_question": 64,
    "max_answer": 30,
    "null_head": True,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "head_dropout": 0.0,
    "frozen_layers": 0,
    "layer_decay": 1.0,
    # Training.
    **ADAM_OF_KERAS,
    "optimizer": "adamw",
    "adam_epsilon": 1e-6,
    "clip_norm": 2.0,
    "learning_rate": 3e-5,
    "warmup_share": 0.1,
    "linear_decay_epochs": 1.8,
    "batch_size": 32,
    "length_buckets": 30,
    "epochs": 2,
    "max_passage": 4096,
    "max_word": None,
    "min_word_count": 100,
    "min_character_count": 50,
    "random_vectors": False,
    "limit_evaluation": False,
}
PUBLISHED = {
    "fabir": FABIR,
    "bidaf": BIDAF,
    "bidaf-porwal": PORWAL,
    "bidaf-bologna": BOLOGNA,
    "bidaf-cheung": CHEUNG,
    "bert-span": BERT,
}


def configurations(name, **given):
    model, training = published_settings(name, given)
    return config_class(name)(**model | given), TrainingConfig(**training_settings(name, training))


# The variants of Bologna and the rows of Cheung's table 3, by what differs.
VARIANTS = [
    *((name, {}, {}) for name in PUBLISHED),
    *(("bidaf-bologna", {"variant": variant}, {"word_dim": 100 if variant < 2 else 50}) for variant in range(4)),
    ("bidaf-cheung", {"word_vectors": "elmo"}, {"batch_size": 32}),
    (
        "bidaf-cheung",
        {"word_vectors": "bert"},
        {
            "batch_size": 16,
            "learning_rate": 3e-5,
            "tune_word_model": True,
            "max_passage": 320,
            "max_question": 40,
        },
    ),
    *(("bert-span", {"head": head}, {}) for head in BERT_HEADS),
]


@pytest.mark.parametrize(("name", "given", "differs"), VARIANTS)
def test_every_field_is_the_papers(name, given, differs):
    model, training = configurations(name, **given)
    sizes = {field for field, value in type(model).__dataclass_fields__.items() if value.metadata.get("derived")}
    found = {field: value for field, value in (model.to_dict() | training.to_dict()).items() if field not in sizes}
    assert (
        found == {field: value for field, value in OURS.items() if field in found} | PUBLISHED[name] | given | differs
    )


def test_every_model_was_published():
    assert {name for name, spec in MODELS.items() if spec.published} == set(PUBLISHED)


@pytest.mark.parametrize("variant", range(5))
def test_word_vectors_are_as_long_as_the_vectors_of_characters(variant):
    model, _ = configurations("bidaf-bologna", variant=variant)
    built = fabir_tf.build_model("bidaf-bologna", True, variant=variant, characters=30, frozen_words=0)
    assert built.get_layer("character_embedding").output.shape[-1] == model.word_dim == (100 if variant < 2 else 50)


def test_parameters_are_the_published_ones():
    assert count_trainable(fabir_tf.build_model("fabir", as_published=True)) == 1_385_198
    # The paper's figure counts the words and characters that bi-att-flow trains: words without a GloVe vector that
    # occur more than 10 times, and FABIR's 306 characters.
    sizes = {"trainable_words": 1227, "characters": 306, "frozen_words": 0}
    assert count_trainable(fabir_tf.build_model("bidaf", as_published=True, **sizes)) == 2_695_851
    # One row for words that are in none of the data, which Porwal's table lacks.
    porwal = fabir_tf.build_model("bidaf-porwal", as_published=True, trainable_words=1, frozen_words=0)
    assert count_trainable(porwal) == 18_260_801 + 400
    # Derived from the equations in tests/layers/test_bidaf_cheung.py; the vector of words without one is a row.
    cheung = fabir_tf.build_model("bidaf-cheung", as_published=True, trainable_words=1, frozen_words=0)
    assert count_trainable(cheung) == 2_441_102 + 300


def test_decoders():
    assert configurations("fabir")[0].decoder(1).max_answer == 15
    bidaf = configurations("bidaf")[0].decoder(1)
    assert isinstance(bidaf, SpanDecoder) and bidaf.max_answer is None
    assert isinstance(configurations("bidaf-porwal")[0].decoder(1), IndependentDecoder)
    for variant in range(5):
        decoder = configurations("bidaf-bologna", variant=variant)[0].decoder(1)
        assert isinstance(decoder, SpanDecoder if variant == 4 else IndependentDecoder)
        # With our defaults, too, so that no answer is counted as too long.
        ours = config_class("bidaf-bologna")(variant=variant)
        assert ours.max_answer == 15 and ours.answer_limit == (15 if variant == 4 else None)
        assert ours.replace(null_head=True).answer_limit == 15
    cheung = configurations("bidaf-cheung")[0].decoder(1)
    assert isinstance(cheung, SpanDecoder) and cheung.max_answer == 16 and cheung.null_pairs
    assert not configurations("bidaf-cheung", null_head=False)[0].decoder(1).null_pairs
    assert not config_class("bidaf-cheung")().decoder(1).null_pairs
    assert isinstance(config_class("bidaf-porwal")(max_answer=None, null_head=True).decoder(1), SpanDecoder)


def test_first_weights_of_fabir():
    keras.utils.set_random_seed(3)
    weights = {weight.path: np.asarray(weight) for weight in fabir_tf.build_model("fabir", True).trainable_weights}
    query, key = (weights[f"processing_layer_1/cross_attention/{name}/kernel"] for name in ("query", "key"))
    assert np.abs(query - key).max() > 0.01
    kernel = weights["processing_layer_1/cross_attention/kernel"]
    assert np.abs(kernel[0, 2] - np.eye(4)).max() > 0.1


@pytest.mark.parametrize(
    ("path", "fans"),
    [
        # Thesis eq. 5.25; a matrix of the program that holds several of ours counts as one layer.
        ("processing_layer_2/self_attention/query/kernel", 100 + 300),
        ("processing_layer_2/self_attention/value/kernel", 100 + 300),
        ("processing_layer_2/self_attention/output/kernel", 100 + 100),
        ("processing_layer_2/cross_attention/query/kernel", 100 + 100),
        ("processing_layer_2/cross_attention/key/kernel", 100 + 200),
        ("reduction_layer/cross_attention/value/kernel", 200 + 400),
        ("decoupled_encoder/attention/query/kernel", 200 + 200),
        ("decoupled_encoder/attention/encoding_value/kernel", 100 + 100),
        ("highway/gate_1/kernel", 200 + 400),
        ("processing_layer_3/passage_feed_forward/hidden/kernel", 100 + 200),
        ("selector/hidden/kernel", 9 * 100 + 9 * 32),
    ],
)
def test_variances_of_fabirs_first_weights(path, fans):
    keras.utils.set_random_seed(5)
    model = fabir_tf.build_model("fabir", True, frozen_words=0)
    (weight,) = (np.asarray(weight) for weight in model.trainable_weights if weight.path == path)
    # TensorFlow 1 cuts off at two deviations of a normal that is wider by 1.3, which leaves 1.006 of the variance.
    assert weight.var() == pytest.approx(2 / fans, rel=0.08)
    assert np.abs(weight).max() <= 2 * math.sqrt(1.3 * 2 / fans)
    assert variance(path, weight.shape) == pytest.approx(2 / fans, rel=0.01)


def test_one_seed_gives_one_start_and_the_tables_stay():
    starts = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        starts.append(fabir_tf.build_model("fabir", True, frozen_words=0).get_weights())
    assert all(np.array_equal(one, other) for one, other in zip(starts[0], starts[1], strict=True))
    assert not np.array_equal(starts[0][1], starts[2][1])
    keras.utils.set_random_seed(1)
    tables = fabir_tf.build_model("fabir", frozen_words=0).get_layer("character_embedding").table
    keras.utils.set_random_seed(1)
    drawn = fabir_tf.build_model("fabir", True, frozen_words=0).get_layer("character_embedding").table
    np.testing.assert_array_equal(tables, drawn)


def test_joined_first_weights_exclude_ours():
    with pytest.raises(ConfigError, match="joined_init draws all weights anew"):
        fabir_tf.FabirConfig(joined_init=True)


def test_first_weights_of_porwal():
    model = fabir_tf.build_model("bidaf-porwal", True, frozen_words=0, units=50, word_dim=8)
    weights = {weight.path: np.asarray(weight) for weight in model.trainable_weights}
    for path in ("attention_flow/kernel", "start/kernel", "end/kernel"):
        assert 0.045 < np.abs(weights[path]).max() <= 0.05
    np.testing.assert_array_equal(weights["attention_flow/bias"], [1.0])
    ours = fabir_tf.build_model("bidaf-porwal", frozen_words=0, units=50, word_dim=8)
    np.testing.assert_array_equal(ours.get_layer("attention_flow").bias, [0.0])


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("bidaf-bologna", {"variant": "0"}, "variant must be"),
        ("bidaf-cheung", {"word_vectors": ["elmo"]}, "word_vectors must be"),
        ("bidaf", {"unit": 4}, "no field 'unit'"),
    ],
)
def test_a_wrong_field_is_told(name, given, message):
    with pytest.raises(ConfigError, match=message):
        fabir_tf.build_model(name, as_published=True, **given)


def test_what_does_not_fit_the_published_model_is_told():
    processor = fabir_tf.fit_processor(squad_data(ARTICLES), vectors="none")
    with pytest.raises(ConfigError, match=r"processor: gives .*_characters of shape \(None, None, 20\), .* 16\)"):
        fabir_tf.build_model("bidaf", as_published=True, processor=processor)
    with pytest.raises(ConfigError, match="vectors: with these settings the model has no word_embedding of its own"):
        fabir_tf.build_model("bidaf-cheung", word_vectors="elmo", vectors=np.ones((3, 4), "float32"))


def test_given_fields_win_and_a_configuration_is_refused():
    assert fabir_tf.build_model(as_published=True, num_layers=1, frozen_words=0).get_layer("processing_layer_1")
    with pytest.raises(ConfigError, match="as_published needs the name of a model, found a FabirConfig"):
        fabir_tf.build_model(fabir_tf.FabirConfig(), as_published=True)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_flag_file_of_a_paper(name, request):
    path = request.config.rootpath / "configs" / "published" / f"{name}.flags"
    found, run_dir, model, training = settings_of(path)
    head = {"head": "gated"} if name == "bert-span" else {}
    assert (found, run_dir, model, training) == (name, f"runs/published/{name}", head, {})
    assert "\n--as_published\n" in path.read_text()


# === The command ===


@pytest.mark.long
def test_training_as_published_says_what_is_missing_and_resumes(commands, tiny_run, tmp_path):
    run = f"--run_dir={tmp_path / 'run'}"
    data = [f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", *SMALL_DATA, "--vectors=none"]
    flags = ["--as_published", "--model=bidaf", "--units=4", "--character_filters=8", "--epochs=1", *data]
    done = commands("train", run, *flags)
    assert done.status == 0, done
    assert "as published by Seo" in done.stdout
    assert f"SQuAD 1.1's 87,599 training questions; found --dataset={tiny_run.train}\n" in done.stdout
    assert "GloVe 6B with 100 dimensions; found --vectors=none" in done.stdout
    assert "not as published: --epochs=1 instead of --epochs=13\n" in done.stdout
    assert "--units" not in done.stdout
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["training"]["optimizer"] == "adadelta" and config["training"]["epochs"] == 1
    assert config["model"]["max_answer"] is None and config["model"]["units"] == 4
    again = commands("train", run, *flags, "--resume", "--epochs=2")
    assert again.status == 0 and "epoch 2/2" in again.stdout, again
    answer = commands("predict", run, "--question=Who?", "--passage=The old mill was built by Anna Keld in 1712.")
    assert answer.status == 0, answer


@pytest.mark.slow
def test_prepared_data_has_the_settings_that_are_told(commands, tiny_run, tmp_path):
    data = [f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", *SMALL_DATA, "--vectors=none"]
    asked = ["--as_published", "--model=bidaf", "--cache_dir="]
    done = commands("prepare", f"--output={tmp_path / 'prepared'}", *asked, *data)
    assert done.status == 0, done
    small = ["--units=4", "--character_filters=8", "--epochs=0"]
    done = commands("train", f"--run_dir={tmp_path / 'run'}", f"--prepared={tmp_path / 'prepared'}", *asked, *small)
    assert done.status == 2 and "--prepared" in done.error and "min_word_count" in done.error, done
    given = [f"--{name}=1" for name in ("min_word_count", "min_character_count")]
    done = commands(
        "train", f"--run_dir={tmp_path / 'run'}", f"--prepared={tmp_path / 'prepared'}", *asked, *small, *given
    )
    assert done.status == 0 and "found --vectors=none" in done.stdout, done


@pytest.mark.long
def test_a_run_resumes_with_its_own_variant_and_optimizer(commands, tiny_run, tmp_path):
    """The paper's settings depend on the variant; Adam's would be of no effect with AdaDelta."""
    run = f"--run_dir={tmp_path / 'run'}"
    data = [f"--dataset={tiny_run.train}", f"--eval_dataset={tiny_run.dev}", "--vectors=none", "--cache_dir="]
    flags = ["--model=bidaf-bologna", "--variant=0", "--units=4", "--optimizer=adadelta", "--batch_size=5"]
    done = commands("train", run, "--as_published", *flags, *data, "--epochs=1")
    assert done.status == 0, done
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["model"]["word_dim"], config["training"]["adam_epsilon"]) == (100, 1e-8)
    done = commands("train", run, "--as_published", "--resume", "--cache_dir=", "--max_steps=4", "--batch_size=5")
    assert done.status == 0, done
    again = json.loads((tmp_path / "run" / "config.json").read_text())
    assert again["training"]["epochs"] == 1
    answer = ["--question=Who?", "--passage=The old mill was built by Anna Keld in 1712."]
    assert_error(commands, "predict", [run, *answer, "--max_answer=3"], ["--max_answer=3", "answers have no limit"])


def test_mistakes_are_reported(commands, tmp_path):
    flags = [f"--run_dir={tmp_path / 'run'}", "--as_published"]
    assert_error(commands, "train", [*flags, "--start_from=fabir-base"], ["--as_published", "--start_from"])
    assert_error(
        commands, "train", [*flags, "--model=bidaf-porwal", "--vectors=none"], ["random_vectors", "vectors='none'"]
    )
    assert not (tmp_path / "run").exists()
