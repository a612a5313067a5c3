"""Configurations: every field checked, and the same object from JSON, from flags and from code."""

import dataclasses
import json
import math
import types

import pytest
from absl import flags
from hypothesis import given, settings
from hypothesis import strategies as st

from fabir_tf.configuration import Config, ConfigError, setting
from fabir_tf.models import MODELS
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.training.training_config import OPTIMIZER_SETTINGS, TrainingConfig

# The lowest number does not fit the defaults of other fields.
BOUND_TO_OTHERS = ("logical_devices", "start_share", "d_model", "num_heads", "word_dim", "character_filters")
CONFIGS = (*(family.config for family in MODELS.values()), TrainingConfig)
FIELDS = [pytest.param(cls, field, id=field.name) for cls in CONFIGS for field in dataclasses.fields(cls)]
NUMBERS = [parameter for parameter in FIELDS if parameter.values[1].type not in (str, bool)]


def base_type(field):
    return type(field.default) if field.default is not None else next(iter(field.type.__args__))


def may_be_none(field):
    return isinstance(field.type, types.UnionType)


def values_of(field):
    """A strategy for one field on its own."""
    low, high = field.metadata["low"], field.metadata["high"]
    kind = base_type(field)
    if field.metadata["choices"]:
        values = st.sampled_from(list(field.metadata["choices"]))
    elif kind is bool:
        values = st.booleans()
    elif kind is str:
        values = st.text(st.characters(exclude_categories=["Cs"]))
    elif kind is int:
        values = st.integers(low, 2**31 - 1 if high is None else high)
    else:
        values = st.floats(low, 1e300 if high is None else high)
    return st.one_of(st.none(), values) if may_be_none(field) else values


@st.composite
def fabir_configs(draw):
    values = {field.name: draw(values_of(field)) for field in dataclasses.fields(FabirConfig)}
    heads = draw(st.integers(1, 9))
    values |= {"num_heads": heads, "d_model": 2 * heads * draw(st.integers(2, 50))}
    values["word_dim"] = draw(st.integers(1, 2 * heads * 9 - 1))
    values["character_filters"] = 2 * heads * 9 - values["word_dim"]
    height, width = (2 * draw(st.integers(0, 12)) + 1 for _ in range(2))
    values["attention_kernel"] = f"{height}x{width}"
    if draw(st.booleans()):
        values |= {"attention_kernel": "none", "attention_depthwise": False}
    if values["reduction"] == "matrix":
        values |= {"reduction_hidden_dim": 400, "dropout_amplification": 2.0}
    if values["selector"] == "linear":
        values |= {"selector_filters": 32, "selector_kernel": 9}
    values["num_layers"] = max(values["num_layers"], 2)
    if values["joined_init"]:
        values |= {"shared_query_key_init": False, "residual_init_scale": 1.0}
    return FabirConfig(**values)


@st.composite
def training_configs(draw):
    values = {field.name: draw(values_of(field)) for field in dataclasses.fields(TrainingConfig)}
    values["linear_decay_epochs"] = min(values["linear_decay_epochs"], values["epochs"])
    if values["linear_decay_epochs"]:
        values |= {"max_minutes": None, "patience": None}
    values["random_vectors"] &= values["vectors"] != "none"
    if not values["start_from"]:
        values |= {"kept_dataset": "", "start_share": 0.0}
    if values["teacher"] or values["kept_dataset"] or values["wrong_passages"]:
        values["passage_window"] = None
    if not values["wrong_passages"]:
        values["shared_norm"] = 0.0
    if values["distribution"] == "none":
        values["logical_devices"] = None
    if values["distribution"] == "mirrored":
        values |= {"jit_compile": False, "dtype_policy": "float32"}
    foreign = {name for names in OPTIMIZER_SETTINGS.values() for name in names} - {
        *OPTIMIZER_SETTINGS[values["optimizer"]]
    }
    return TrainingConfig(**{name: value for name, value in values.items() if name not in foreign})


def parsed(cls, arguments, **options) -> dict:
    values = flags.FlagValues()
    cls.define_flags(values, **options)
    values(["program", *arguments])
    return cls.given_flags(values)


@settings(max_examples=60, deadline=None)
@given(st.one_of(fabir_configs(), training_configs()))
def test_every_field_survives_json_dictionaries_and_flags(config):
    cls = type(config)
    assert cls.from_json(config.to_json()) == config
    assert cls.from_dict(config.to_dict()) == config
    assert config.replace() == config
    assert cls.from_dict(parsed(cls, config.to_flags())) == config


@pytest.mark.parametrize("cls", CONFIGS)
def test_the_defaults_survive_too_and_are_recorded_in_full(cls):
    assert cls.from_dict(parsed(cls, cls().to_flags())) == cls()
    assert list(json.loads(cls().to_json())) == [field.name for field in dataclasses.fields(cls)]
    assert cls.from_dict({}) == cls()


def test_the_defaults_are_the_published_configuration():
    model, training = FabirConfig(), TrainingConfig()
    assert (model.d_model, model.num_heads, model.num_layers, model.hidden_dim) == (100, 4, 3, 200)
    assert (model.word_dim, model.character_filters, model.character_dim, model.max_answer) == (100, 100, 8, 15)
    assert (model.attention_kernel_size, model.cross_attention, model.position_offset) == ((1, 5), "column", 500)
    assert (training.epochs, training.batch_size, training.length_buckets) == (54, 75, 30)
    assert (training.max_passage, training.max_question) == (400, 60)
    assert (training.learning_rate_factor, training.warmup_steps) == (0.5, 4000)
    assert (training.adam_beta_1, training.adam_beta_2, training.adam_epsilon) == (0.9, 0.98, 1e-8)


@pytest.mark.parametrize("cls", CONFIGS)
def test_flags_that_are_not_given_are_left_out(cls):
    assert parsed(cls, []) == {}


def test_a_given_flag_counts_even_with_the_default_as_its_value():
    assert parsed(TrainingConfig, ["--epochs=54", "--nodeterministic", "--clip_norm=none"]) == {
        "epochs": 54,
        "deterministic": False,
        "clip_norm": None,
    }


def test_sizes_that_the_data_decides_are_no_flags_where_that_is_asked_for():
    assert parsed(FabirConfig, ["--frozen_words=7"]) == {"frozen_words": 7}
    with pytest.raises(flags.UnrecognizedFlagError):
        parsed(FabirConfig, ["--frozen_words=7"], derived=False)
    with pytest.raises(flags.UnrecognizedFlagError):
        parsed(FabirConfig, ["--d_model=20"], skip=["d_model"])


@pytest.mark.parametrize(("cls", "field"), FIELDS)
def test_every_flag_says_what_it_is_its_choices_and_its_default(cls, field):
    values = flags.FlagValues()
    cls.define_flags(values)
    text = values[field.name].help
    assert text.startswith(field.metadata["help"])
    for choice in field.metadata["choices"]:
        assert choice in text
    default = {None: "none", "": "empty", True: "true", False: "false"}
    is_word = field.default is None or isinstance(field.default, bool | str)
    assert text.endswith(f"Default: {default.get(field.default, field.default) if is_word else field.default}.")


@pytest.mark.parametrize(("cls", "field"), FIELDS)
def test_a_value_of_another_type_is_refused_by_name(cls, field):
    wrong = "ten" if base_type(field) is not str else 10
    for value in (wrong, [1], {}) if may_be_none(field) else (wrong, [1], {}, None):
        with pytest.raises(ConfigError) as caught:
            cls.from_dict({field.name: value})
        assert str(caught.value) == f"{field.name} must be of type {base_type(field).__name__}, found {value!r}"


@pytest.mark.parametrize(("cls", "field"), NUMBERS)
def test_a_number_out_of_its_range_is_refused_by_name(cls, field):
    low, high = field.metadata["low"], field.metadata["high"]
    wrong = [math.nan, math.inf, -math.inf] if base_type(field) is float else [2**31]
    wrong += [] if low is None else [low - 1]
    wrong += [] if high is None else [high + 1]
    for value in wrong:
        with pytest.raises(ConfigError) as caught:
            cls.from_dict({field.name: value})
        text = str(caught.value)
        assert text.startswith(f"{field.name} must be ") and text.endswith(f", found {value!r}")
        bounds = [str(bound) for bound in (low, high) if bound is not None]
        assert "finite" in text or all(bound in text for bound in bounds)


@pytest.mark.parametrize(("cls", "field"), NUMBERS)
def test_the_bounds_themselves_are_allowed(cls, field):
    # A setting of an optimizer needs it.
    others = [{"optimizer": name} for name, names in OPTIMIZER_SETTINGS.items() if field.name in names]
    for bound in (field.metadata["low"], field.metadata["high"]):
        if bound is not None and field.name not in BOUND_TO_OTHERS:
            assert getattr(cls.from_dict({field.name: bound} | (others or [{}])[0]), field.name) == bound


@pytest.mark.parametrize(("cls", "field"), [p for p in FIELDS if p.values[1].metadata["choices"]])
def test_a_value_that_is_no_choice_is_refused_with_the_choices(cls, field):
    with pytest.raises(ConfigError) as caught:
        cls.from_dict({field.name: "magic"})
    choices = ", ".join(field.metadata["choices"])
    assert str(caught.value) == f"{field.name} must be one of {choices}, found 'magic'"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"d_model": 20, "num_heads": 3}, ["d_model", "num_heads=3", "found 20"]),
        ({"d_model": 25, "num_heads": 5}, ["d_model", "even", "found 25"]),
        ({"word_dim": 50, "num_heads": 4}, ["word_dim + character_filters", "num_heads=4", "found 150"]),
        ({"attention_kernel": "2x5"}, ["attention_kernel", "odd", "1x5", "'2x5'"]),
        ({"attention_kernel": "1x4"}, ["attention_kernel", "'1x4'"]),
        ({"attention_kernel": "0x5"}, ["attention_kernel", "'0x5'"]),
        ({"attention_kernel": "5"}, ["attention_kernel", "'5'"]),
        ({"attention_kernel": "1x5x5"}, ["attention_kernel", "'1x5x5'"]),
        ({"attention_kernel": "-1x5"}, ["attention_kernel", "'-1x5'"]),
        ({"attention_kernel": ""}, ["attention_kernel", "''"]),
        ({"attention_kernel": "1x5\n"}, ["attention_kernel", r"'1x5\n'"]),
        ({"attention_kernel": "none", "attention_depthwise": True}, ["attention_depthwise", "attention_kernel='none'"]),
    ],
)
def test_values_that_contradict_each_other(changes, parts):
    with pytest.raises(ConfigError) as caught:
        FabirConfig.from_dict(changes)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(("kernel", "size"), [("1x5", (1, 5)), ("13x1", (13, 1)), ("none", None)])
def test_attention_kernels(kernel, size):
    assert FabirConfig(attention_kernel=kernel).attention_kernel_size == size


def test_unknown_fields_are_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"FabirConfig has no field 'dmodel'; did you mean 'd_model'\?"):
        FabirConfig.from_dict({"dmodel": 100})
    with pytest.raises(ConfigError, match="TrainingConfig has no field 'zzz'; its fields are dataset, eval_dataset,"):
        TrainingConfig.from_dict({"zzz": 1})
    with pytest.raises(ConfigError, match="has no field 'bach_size'; did you mean 'batch_size'"):
        TrainingConfig().replace(bach_size=3)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"text"', "null", '{"epochs": 1'])
def test_text_that_is_no_json_object(text):
    with pytest.raises(ConfigError, match=r"the configuration (is not valid JSON|must be a JSON object)"):
        TrainingConfig.from_json(text)


def test_not_even_json_can_bring_in_numbers_that_are_none():
    with pytest.raises(ConfigError, match="adam_epsilon must be a finite number, found nan"):
        TrainingConfig.from_json('{"adam_epsilon": NaN}')
    with pytest.raises(ConfigError, match="epochs must be of type int, found True"):
        TrainingConfig.from_json('{"epochs": true}')


def test_whole_numbers_do_for_fractions_but_not_the_other_way():
    config = TrainingConfig(learning_rate_factor=1)
    assert config == TrainingConfig(learning_rate_factor=1.0)
    assert type(config.learning_rate_factor) is float
    with pytest.raises(ConfigError, match=r"epochs must be of type int, found 3\.0"):
        TrainingConfig(epochs=3.0)


def test_configurations_are_frozen_and_replace_makes_a_checked_copy():
    config = TrainingConfig(epochs=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.epochs = 4
    assert config.replace(seed=7) == TrainingConfig(epochs=3, seed=7)
    assert config == TrainingConfig(epochs=3)
    with pytest.raises(ConfigError, match="seed must be between 0 and 2147483647, found -1"):
        config.replace(seed=-1)


def test_a_new_configuration_is_a_dataclass_and_nothing_more():
    @dataclasses.dataclass(frozen=True)
    class Small(Config):
        size: int = setting(3, "A size", low=1)
        rate: float | None = setting(None, "A rate", low=0.5)
        name: str = setting("a", "A name", choices=("a", "b"))
        size_of_table: int = setting(9, "A table", derived=True)

    config = Small(4, 0.5, "b")
    assert Small.from_json(config.to_json()) == config
    assert config.to_flags() == ["--size=4", "--rate=0.5", "--name=b", "--size_of_table=9"]
    assert Small.from_dict(parsed(Small, ["--size=4", "--rate=0.5", "--name=b"], derived=False)) == config
    assert Small.from_dict({"rate": 0.5} | parsed(Small, ["--rate=none"])) == Small()
    Small.check("size", 5)
    with pytest.raises(ConfigError, match=r"rate must be at least 0\.5, found 0\.25"):
        Small.check("rate", 0.25)
