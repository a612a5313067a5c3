"""Flags of the settings of data, model and training, and the configurations that they stand for."""

from pathlib import Path

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.configuration import Config, ConfigError, as_flag, define_shared_flags
from fabir_tf.models import MODELS, list_models, model_name, published_settings, training_settings
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import read_json, shown
from fabir_tf.reading.run_directory import RunDirectory, reader_directory, validate_model
from fabir_tf.renamed_settings import translate_settings
from fabir_tf.training.prepared_data import prepared_settings, split_prepared
from fabir_tf.training.run_setup import recorded_training
from fabir_tf.training.training_config import LENGTHS, TrainingConfig, settings_of_others

DEFAULT_MODEL = "fabir"


def define_setting_flags() -> None:
    """Defines the flags of data, model and training."""
    cli.import_modules()
    flags.DEFINE_string("config", None, "JSON file of settings, such as a run's config.json.")
    cli.define_data_flags()
    TrainingConfig.define_flags(flags.FLAGS)
    about = "; ".join(f"{name}: {phrase}" for name, phrase in list_models().items())
    flags.DEFINE_enum("model", None, list(MODELS), f"The reader. {about}. Default: {DEFAULT_MODEL}.")
    text = (
        "Begin with the settings of the model's paper instead of the defaults; --config and flags still replace them."
    )
    flags.DEFINE_bool("as_published", False, text)
    text = (
        "Begin with settings that adapt the reader of --start_from to --dataset without forgetting the rest, instead "
        "of the defaults; --config and flags still replace them."
    )
    flags.DEFINE_bool("adapt", False, text)
    define_shared_flags({name: family.config for name, family in MODELS.items()}, "model", flags.FLAGS)


def configurations(values: flags.FlagValues, prepared: str | None = None) -> tuple[ReaderConfig, TrainingConfig]:
    """The configurations of model and training.

    Settings come from the defaults, the reader of --start_from, --config and the flags; later ones win.

    Args:
        values: the flags.
        prepared: a folder of prepared data, or None to read the data itself.

    Raises:
        UserError: a setting is unknown, does not fit, belongs to another model, or differs from the one that the data
            was prepared with.
    """
    given = settings_in(values.config) if values.config else {}
    named = given.pop("model", None)
    fixed = prepared_settings(Path(prepared)) if prepared else {}
    start_from = values.start_from or given.get("start_from") or fixed.get("start_from")
    # A value that is no string is reported below, like any other setting of --config.
    start = reader_directory(start_from).read_model_config() if start_from and isinstance(start_from, str) else None
    name = values.model or named or (model_name(start) if start else DEFAULT_MODEL)
    chosen = MODELS[name].config
    model, training = _split_settings(values.config, given, chosen, TrainingConfig)
    model |= _flags_of(name, values)
    training |= TrainingConfig.given_flags(values)
    if values.as_published:
        if start_from:
            raise UserError("--as_published begins with the paper's first weights, found --start_from, too")
        model, training = _with_published(name, model, training)
    # What is given; the settings of the reader that it starts from are no contradiction.
    asked = model | training
    fixed_of_model, fixed_of_training = split_prepared(prepared, fixed, chosen)
    model |= fixed_of_model
    if start:
        validate_model(start_from, start, name)
        model = start.to_dict() | model
    if values.adapt:
        if not start_from:
            raise UserError("--adapt needs a trained reader to adapt: name it with --start_from")
        training = _with_adapting(name, model, training)
        if not fixed.get("kept_dataset"):
            # Data that was prepared without --adapt lacks what it sets; other data has its own.
            asked |= training
    for field, value in fixed.items():
        found = asked.get(field, value)
        if found != value:
            raise UserError(f"--prepared={prepared}: found {field}={found!r}, expected {field}={value!r} as prepared")
    training |= fixed_of_training
    if isinstance(start_from, str) and start_from:
        training["start_from"] = start_from
    training = training_settings(name, training)
    return chosen.from_dict(model), TrainingConfig.from_dict(training)


def resumed_configurations(values: flags.FlagValues, run: RunDirectory) -> tuple[ReaderConfig, TrainingConfig]:
    """The configurations of a run that is resumed: its own, with the settings of --config and the flags.

    Args:
        values: the flags.
        run: the run.

    Raises:
        UserError: a setting is unknown, does not fit, or belongs to another model. Settings that differ from the run's
            are found by `fabir_tf.training.run_setup.prepare_run`.
    """
    config = run.read_model_config()
    name = model_name(config)
    given = settings_in(values.config) if values.config else {}
    named = given.pop("model", None)
    asked = values.model or named or name
    if asked != name:
        raise UserError(f"--run_dir={run.path} holds a run of --model={name}, found --model={asked}")
    model, training = _split_settings(values.config, given, type(config), TrainingConfig)
    model |= _flags_of(name, values)
    training |= TrainingConfig.given_flags(values)
    recorded = recorded_training(run)
    if values.as_published:
        of_model, of_training = _published(name, config.to_dict() | model, recorded.to_dict() | training)
        # How long a run lasts may differ from command to command.
        of_training = {setting: value for setting, value in of_training.items() if setting not in LENGTHS}
        model, training = of_model | model, of_training | training
    if values.adapt:
        training = _with_adapting(name, config.to_dict() | model, training)
    if training.get("distribution") == "none":
        # Those of the run had their meaning with its distribution.
        training = {"logical_devices": None} | training
    return config.replace(**model), recorded.replace(**training)


def _with_published(name: str, model: dict, training: dict) -> tuple[dict, dict]:
    """The given settings of model and training, and those of the paper for what is not given."""
    of_model, of_training = _published(name, model, training)
    return of_model | model, of_training | training


def _published(name: str, model: dict, training: dict) -> tuple[dict, dict]:
    """The paper's settings of model and training, without those that the chosen optimizer lacks."""
    of_model, of_training = published_settings(name, model)
    useless = settings_of_others(training.get("optimizer", of_training.get("optimizer", TrainingConfig.optimizer)))
    return of_model, {setting: value for setting, value in of_training.items() if setting not in useless}


def _with_adapting(name: str, model: dict, training: dict) -> dict:
    """The given settings of a training, the model's own, and for all others those that adapt a reader."""
    from fabir_tf.training.adapting import EPOCHS, adapting_settings

    own = training_settings(name, training)
    for setting in ("max_minutes", "patience"):
        if own.get(setting) is not None and own.get("linear_decay_epochs") != 0:
            raise UserError(
                f"--adapt lets the learning rate fall to 0 in the last epoch, which --{setting}={own[setting]} leaves "
                "open: leave it out, or add --linear_decay_epochs=0"
            )
    settings = adapting_settings(bool(model.get("null_head")), own.get("epochs", EPOCHS))
    if not {"learning_rate_factor", "warmup_steps"}.isdisjoint(training):
        # Those of the schedule, which a constant learning rate would replace.
        del settings["learning_rate"]
    return settings | own


def published_notes(values: flags.FlagValues, model_config: ReaderConfig, training: TrainingConfig) -> list[str]:
    """What `--as_published` cannot give, one line each; nothing without the flag.

    Args:
        values: the flags of `fabir-train`.
        model_config, training: the configurations that they stand for.
    """
    name = model_name(model_config)
    published = MODELS[name].published
    if not values.as_published or published is None:
        return []
    of_model, of_training = published_settings(name, model_config.to_dict())
    found = model_config.to_dict() | training.to_dict()
    if values.prepared:
        found |= prepared_settings(Path(values.prepared))
    changed = [
        f"{as_flag(field, found[field])} instead of {as_flag(field, value)}"
        for field, value in (of_model | of_training).items()
        if found[field] != value
    ]
    data = f"its data are {published.data}; found --dataset={found['dataset']}"
    vectors = f"its word vectors are {published.vectors}; found --vectors={found['vectors']}"
    # With a word model the table of --vectors is not read.
    reads_table = published.vectors and found.get("word_vectors", "table") == "table"
    return [
        f"as published by {published.paper}",
        data,
        *([vectors] if reads_table else []),
        *(f"not as published: {difference}" for difference in (*published.differences, *changed)),
    ]


def _flags_of(name: str, values: flags.FlagValues) -> dict:
    """The given flags of a model; refuses flags of other models, which would have no effect."""
    chosen = MODELS[name].config
    for family in MODELS.values():
        for field, value in family.config.given_flags(values).items():
            own = chosen.__dataclass_fields__.get(field)
            if own is None or own.metadata["derived"]:
                raise UserError(f"--{field}={value}: --model={name} has no such setting")
    return chosen.given_flags(values)


def settings_in(path: str) -> dict:
    """The settings of a JSON file: flat, or nested under "model" and "training" like a run's config.json."""
    content = read_json(Path(path))
    if not isinstance(content, dict):
        raise UserError(f"{path}: found {shown(content)}, expected a JSON object of settings")
    values = {}
    for name, value in content.items():
        values |= value if name in ("model", "training") and isinstance(value, dict) else {name: value}
    for name in ("data", "format", "versions"):
        values.pop(name, None)
    values = translate_settings(values | ({"model": values.pop("name")} if "name" in values else {}))
    if "model" in values and (not isinstance(values["model"], str) or values["model"] not in MODELS):
        raise UserError(f"{path}: unknown model {shown(values['model'])}, expected one of {', '.join(MODELS)}")
    return values


def _split_settings(path: str, values: dict, *classes: type[Config]) -> list[dict]:
    """Moves each configuration's fields out of `values`, and checks them."""
    parts = [{name: values.pop(name) for name in list(values) if name in cls.__dataclass_fields__} for cls in classes]
    if values:
        model = next(name for name, family in MODELS.items() if family.config is classes[0])
        raise UserError(
            f"{path}: unknown setting {next(iter(values))!r} with --model={model}; fabir-train --help lists them all"
        )
    for cls, part in zip(classes, parts, strict=True):
        _check_settings(path, cls, part)
    return parts


def _check_settings(path: str, cls: type[Config], settings: dict) -> None:
    for name, value in settings.items():
        try:
            cls.check(name, value)
        except ConfigError as error:
            raise UserError(f"{path}: {error}") from None
