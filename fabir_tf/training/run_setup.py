"""Sets up a run: loads its data, and creates its folder or checks that it holds the same run."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

from fabir_tf import onednn
from fabir_tf.configuration import ConfigError
from fabir_tf.models import build_model, model_name
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.models.weights import missing_weights
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import removed_on_failure, user_path, validate_writable, write_text
from fabir_tf.pipelines.text.processor import TextProcessor, saved_rules
from fabir_tf.pipelines.text.registry import PROCESSORS
from fabir_tf.reading.run_directory import RunDirectory, reader_directory, validate_model, versions
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.prepared_data import PreparedData, load_data, prepare_data
from fabir_tf.training.training_config import DEVICE_SETTINGS, LENGTHS, TrainingConfig

# Settings of a model that its text processor has, too, which a run takes from the reader that it starts from.
_OF_PROCESSOR = ("max_word_characters", "encoder", "word_vectors", "word_model", "pool_words")


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """A run that can be trained.

    Attributes:
        run: where everything is written.
        model_config: the model's, with the processor's sizes filled in.
        training: data and hyper-parameters.
        data: what training reads.
        resuming: whether there is a checkpoint to continue from.
        options: where this machine keeps data.
    """

    run: RunDirectory
    model_config: ReaderConfig
    training: TrainingConfig
    data: PreparedData
    resuming: bool
    options: DataOptions


def prepare_run(
    run: RunDirectory,
    model_config: ReaderConfig,
    training: TrainingConfig,
    options: DataOptions,
    resume: bool,
    log: Callable[[str], None],
) -> PreparedRun:
    """Loads the data, and creates the run's folder or checks that it holds the same run.

    Args:
        run: the folder.
        model_config: the model; the processor's sizes are filled in.
        training: data and hyper-parameters, with the settings of prepared data.
        options: where this machine keeps data.
        resume: whether an existing run may be continued.
        log: called with lines about the progress.

    Returns:
        The run.

    Raises:
        UserError: data, configuration or the run's folder do not fit; nothing already written is lost.
    """
    prepared = user_path(options.prepared) if options.prepared else None
    resuming = _check_run(run, model_config, training, resume)
    if training.start_from and not resuming:
        _validate_model(model_config, training.start_from)
    model_config = _with_sizes(run, model_config, training, resuming)
    # Before the data is tokenized, which takes a while.
    validate_writable(run.config)
    if training.start_from and not resuming:
        _validate_start(model_config, training.start_from, log)
    if prepared:
        data = load_data(prepared)
        _validate_rules(prepared, data.processor, _expected_rules(run, model_config, training, resuming))
    else:
        data = prepare_data(model_config, training, options, log, run.processor if resuming else None)
    if resuming:
        _check_data(run, data.fingerprint)
    model_config = model_config.replace(**data.processor.sizes)
    newest = type(data.processor).rules
    if data.processor.rules != newest:
        log(f"text is cut by version {data.processor.rules} of the rules, as it was; new readers have version {newest}")
    if resuming:
        _report_kernels(run, log)
        _report_vectors(run, options, log)
    with removed_on_failure(run.processor, run.coverage):
        if not resuming:
            data.processor.save(run.processor)
            write_text(run.coverage, json.dumps(data.coverage, indent=1))
        # Last, because its presence marks a run; again when the run is resumed, perhaps for more epochs.
        run.write_config(model_config, training, data.fingerprint, options.vector_cache is not None)
    if data.summary and not resuming:
        log(data.summary)
    return PreparedRun(run, model_config, training, data, resuming, options)


def _with_sizes(run: RunDirectory, config: ReaderConfig, training: TrainingConfig, resuming: bool) -> ReaderConfig:
    """The configuration with the sizes of the run, of the reader that it starts from, or of its own files."""
    if not resuming and not training.start_from:
        return config.completed()
    own = (run if resuming else reader_directory(training.start_from)).read_model_config()
    return config.replace(**{name: getattr(own, name) for name in _derived(own)})


def _derived(config: ReaderConfig) -> set[str]:
    return {field.name for field in dataclasses.fields(config) if field.metadata["derived"]}


def validate_resumable(run: RunDirectory) -> None:
    """Checks that a folder holds a run of this version.

    Raises:
        UserError: it holds none, one of version 0.1, or a packed reader.
    """
    if not run.is_started:
        raise UserError(f"--run_dir={run.path}: found no run to resume, expected one; leave out --resume to begin one")
    if run.is_old:
        raise UserError(
            f"--run_dir={run.path} holds a run of version 0.1, whose training this version cannot resume: start a new "
            f"run with --start_from={run.path}"
        )
    if not run.coverage.exists():
        raise UserError(
            f"--run_dir={run.path}: found a packed reader, expected a run to resume: start a new run with "
            f"--start_from={run.path}"
        )


def recorded_training(run: RunDirectory) -> TrainingConfig:
    """The data and hyper-parameters that a run was started with.

    Raises:
        UserError: the folder holds no run, or its configuration is damaged.
    """
    try:
        return TrainingConfig.from_dict(run.read_config()["training"])
    except ConfigError as error:
        raise UserError(f"{run.config}: {error}") from error


def _expected_rules(run: RunDirectory, model_config: ReaderConfig, training: TrainingConfig, resuming: bool) -> int:
    """The version of the rules by which a run cuts text: its own, that of the reader it starts from, or the newest."""
    if resuming:
        return saved_rules(run.processor)
    if training.start_from:
        return saved_rules(reader_directory(training.start_from).processor)
    return PROCESSORS[model_config.processor].rules


def _validate_rules(prepared: Path, processor: TextProcessor, expected: int) -> None:
    if processor.rules != expected:
        raise UserError(
            f"--prepared={prepared}: found text cut by version {processor.rules} of the rules, expected version "
            f"{expected}: prepare the data again with fabir-prepare"
        )


def _validate_model(model_config: ReaderConfig, start_from: str) -> None:
    validate_model(start_from, reader_directory(start_from).read_model_config(), model_name(model_config))


def _validate_start(model_config: ReaderConfig, start_from: str, log: Callable[[str], None]) -> None:
    """Refuses a model that a trained reader's weights do not fit, and lists the layers that it lacks."""
    run = reader_directory(start_from)
    own, asked = run.read_model_config(), model_config.to_dict()
    for name in _OF_PROCESSOR:
        if name in asked and asked[name] != (expected := getattr(own, name)):
            raise UserError(
                f"--start_from={start_from}: found {name}={asked[name]!r}, expected {expected!r}, that of its text "
                "processor"
            )
    sizes = _derived(own)
    others = {name: value for name, value in own.to_dict().items() if name not in sizes and asked.get(name) != value}
    model = build_model(model_config.replace(**{name: getattr(own, name) for name in sizes}))
    try:
        missing = missing_weights(model, run.read_weights()[1], run.weights, allow_missing=True)
    except UserError as error:
        if not others:
            raise
        found = ", ".join(f"{name}={asked.get(name)!r} instead of {value!r}" for name, value in others.items())
        raise UserError(f"--start_from={start_from}: its weights do not fit the settings {found} ({error})") from None
    if missing:
        layers = dict.fromkeys(path.partition("/")[0] for path in missing)
        log(f"--start_from={start_from}: it lacks {', '.join(layers)}, which start with new weights")


def _report_kernels(run: RunDirectory, log: Callable[[str], None]) -> None:
    """Says that other kernels than before round differently."""
    recorded, found = run.read_config().get("versions", {}).get("onednn"), versions().get("onednn")
    if found and recorded != found:
        log(
            f"oneDNN was {recorded or 'perhaps off'} in the run's training and is {found} now, so its continuation is "
            f"not exact; {onednn.SWITCH}=1 switches it on, 0 off"
        )


def _report_vectors(run: RunDirectory, options: DataOptions, log: Callable[[str], None]) -> None:
    """Says that the vectors of a frozen word model are rounded, or are no longer."""
    # Earlier versions did not record it.
    recorded = run.read_config().get("versions", {}).get("vector_cache")
    is_kept = options.vector_cache is not None
    if recorded is not None and (recorded == "on") != is_kept:
        before, now = ("without --vector_cache", "with --vector_cache")[:: 1 if is_kept else -1]
        log(f"the run was trained {before}, which rounds, and goes on {now}, so its continuation is not exact")


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
    # The data decides the sizes, and a run may be resumed in order to train longer or shorter, or on other devices.
    free = _derived(model_config) | {*LENGTHS, *DEVICE_SETTINGS}
    for part, config in asked.items():
        # A setting that was added later has its default value in an earlier run.
        recorded_values = type(config)().to_dict() | recorded[part]
        for name, value in config.to_dict().items():
            if name not in free and _resolved(recorded_values[name]) != _resolved(value):
                raise UserError(
                    f"--run_dir={run.path} holds a run with {name}={recorded_values[name]!r}, "
                    f"found {name}={value!r}: resume with the run's own configuration, or name another folder"
                )
    # A run that was killed before its first checkpoint has at most the score before training, and starts again.
    if not run.last.exists() and run.history.exists() and run.history.read_text().count("\n") > 2:
        raise UserError(f"{run.last}: no such checkpoint, expected the one of the run in {run.history}")
    return run.last.exists()


def _resolved(value: object) -> object:
    """A setting in a form that is the same for all spellings of a path."""
    if not isinstance(value, str):
        return value
    return [os.path.realpath(user_path(name)) for name in value.split(",")]


def _check_data(run: RunDirectory, fingerprint: dict[str, str]) -> None:
    recorded = run.read_config()["data"]
    for part, flag in (("train", "--dataset"), ("eval", "--eval_dataset")):
        if recorded.get(part) != fingerprint[part]:
            raise UserError(f"{flag}: the data is not that of the run in {run.path}: resume with the same data")
