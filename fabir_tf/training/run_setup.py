"""From settings to a run: its data, and its folder begun or found to be the same run."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from fabir_tf.models import build_model, model_name
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import validate_writable, write_text
from fabir_tf.reading.run_directory import RunDirectory, reader_directory, validate_model
from fabir_tf.training.checkpoint import validate_weights
from fabir_tf.training.prepared_data import (
    MODEL_SETTINGS,
    PreparedData,
    load_data,
    prepare_data,
    prepared_settings,
    save_vocabulary,
)
from fabir_tf.training.training_config import DataOptions, TrainingConfig


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """A run that can be trained.

    Attributes:
        run: where everything is written.
        model_config: with the vocabulary's sizes filled in.
        training: data and hyper-parameters.
        data: what training reads.
        resuming: whether a checkpoint is there to continue from.
    """

    run: RunDirectory
    model_config: ReaderConfig
    training: TrainingConfig
    data: PreparedData
    resuming: bool


def prepare_run(
    run: RunDirectory,
    model_config: ReaderConfig,
    training: TrainingConfig,
    options: DataOptions,
    resume: bool,
    log: Callable[[str], None],
) -> PreparedRun:
    """Loads the data, and begins the run's folder or checks that it is the same run.

    Args:
        run: the folder.
        model_config: the model; its vocabulary sizes are filled in.
        training: data and hyper-parameters; what prepared data was prepared with takes the place of its own.
        options: where data is found on this machine.
        resume: whether a run that is there may be continued.
        log: told what happens.

    Returns:
        The run.

    Raises:
        UserError: data, configuration or the run's folder do not fit; nothing already written is lost.
    """
    prepared = Path(options.prepared).expanduser() if options.prepared else None
    if prepared:
        settings = prepared_settings(prepared)
        model_config = model_config.replace(**{name: settings.pop(name) for name in MODEL_SETTINGS})
        training = training.replace(**settings)
    resuming = _check_run(run, model_config, training, resume)
    # Told now, and not once the data is tokenized.
    validate_writable(run.config)
    if training.start_from and not resuming:
        _validate_start(model_config, training.start_from)
    if prepared:
        data = load_data(prepared, model_config)
    else:
        data = prepare_data(model_config, training, options, log, run.vocabulary if resuming else None)
    if resuming:
        _check_data(run, data.fingerprint)
    model_config = model_config.replace(
        trainable_words=data.vocabulary.trainable_rows,
        characters=data.vocabulary.character_rows,
        frozen_words=data.vocabulary.frozen_rows,
    )
    if not resuming:
        save_vocabulary(data, run.vocabulary)
        write_text(run.coverage, json.dumps(data.coverage, indent=1))
        if data.summary:
            log(data.summary)
    # Last, because its presence is what makes the folder a run; again on resumption, which may train for longer.
    run.write_config(model_config, training, data.fingerprint)
    return PreparedRun(run, model_config, training, data, resuming)


def _validate_start(model_config: ReaderConfig, start_from: str) -> None:
    """Refuses a model that cannot begin with the weights of a trained reader, before a word of the data is read."""
    begun = reader_directory(start_from)
    own, asked = begun.read_model_config(), model_config.to_dict()
    validate_model(start_from, own, model_name(model_config))
    sizes = {field.name for field in dataclasses.fields(own) if field.metadata["derived"]}
    others = {name: value for name, value in own.to_dict().items() if name not in sizes and asked.get(name) != value}
    model = build_model(model_config.replace(**{name: getattr(own, name) for name in sizes}))
    try:
        validate_weights(begun.best, model)
    except UserError as error:
        if not others:
            raise
        found = ", ".join(f"{name}={asked.get(name)!r} in place of {value!r}" for name, value in others.items())
        raise UserError(f"--start_from={start_from}: its weights do not fit the settings {found} ({error})") from None


def _check_run(run: RunDirectory, model_config: ReaderConfig, training: TrainingConfig, resume: bool) -> bool:
    """Whether there is a run to continue; refuses to mix two runs in one folder."""
    if not run.is_started:
        return False
    if not resume:
        raise UserError(
            f"--run_dir={run.path} already holds a run: add --resume to continue it, or name another folder"
        )
    recorded = run.read_config()
    name, found = recorded["model"].get("name"), model_name(model_config)
    if name != found:
        raise UserError(f"--run_dir={run.path} holds a run of --model={name}, found --model={found}")
    asked = {"model": model_config, "training": training}
    # The vocabulary decides its sizes, and training longer or shorter is what a resumed run may be for.
    derived = {field.name for field in dataclasses.fields(model_config) if field.metadata["derived"]}
    free = derived | {"epochs", "patience", "max_minutes"}
    for part, config in asked.items():
        # A run of an earlier version has none of the settings that came later, which began as what there was.
        began = type(config)().to_dict() | recorded[part]
        for name, value in config.to_dict().items():
            if name not in free and began[name] != value:
                raise UserError(
                    f"--run_dir={run.path} holds a run with {name}={began[name]!r}, "
                    f"found {name}={value!r}: resume with the run's own configuration, or name another folder"
                )
    # A run killed before its first checkpoint has at most the score from before training, and begins anew.
    if not run.last.exists() and run.history.exists() and run.history.read_text().count("\n") > 2:
        raise UserError(f"{run.last}: no such checkpoint, expected the one of the run that {run.history} tells of")
    return run.last.exists()


def _check_data(run: RunDirectory, fingerprint: dict[str, str]) -> None:
    recorded = run.read_config()["data"]
    for part, flag in (("train", "--dataset"), ("eval", "--eval_dataset")):
        if recorded.get(part) != fingerprint[part]:
            raise UserError(f"{flag}: the data is not what the run in {run.path} began with; resume with the same data")
