"""What all commands share: their flags, and the report of a mistake in one sentence."""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from absl import app, flags

from fabir_tf.compatibility import renamed_flag_error, translate_settings
from fabir_tf.configuration import Config, ConfigError, as_flag, define_shared_flags
from fabir_tf.models import MODELS, list_models, model_name, published_settings, training_settings
from fabir_tf.models.hugging_face import is_hugging_face
from fabir_tf.models.precision import POLICIES
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.batch_planning import LONGEST_PASSAGE
from fabir_tf.pipelines.files import WriteError, disk_error, named_errors, named_files
from fabir_tf.pipelines.json_files import quoted, read_json, shown
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers
from fabir_tf.reading.run_directory import RunDirectory, reader_directory, validate_model
from fabir_tf.training.prepared_data import prepared_settings, split_prepared
from fabir_tf.training.run_setup import recorded_training
from fabir_tf.training.training_config import LENGTHS, DataOptions, TrainingConfig, settings_of_others

DEFAULT_MODEL = "fabir"
# Those of files and folders that a command reads and does without if they are left out.
_NAMED = ("document", "index", "input_file")
READING_FLAGS = ("max_passage", "precision", "max_answer", "no_answer_threshold")
"""How a reader reads."""
# All other flags with texts name files, folders or what may be one.
TEXT_FLAGS = ("question", "passage", "question_id")


def run_command(main: Callable[[flags.FlagValues], None], doc: str) -> None:
    """Runs a command whose flags are defined; a user's mistake ends it with status 2 and one line.

    Args:
        main: the command.
        doc: its description, shown above the flags by --help.
    """
    sys.modules["__main__"].__doc__ = doc
    _list_own_flags()
    sys.stdout.flush()
    sys.stdout = _named_output(sys.stdout)

    def start(arguments: list[str]) -> None:
        if arguments[1:]:
            raise UserError(f"unexpected argument {quoted(arguments[1])}: everything is given as --flag=value")
        _validate_named(flags.FLAGS)
        main(flags.FLAGS)

    with _reported():
        app.run(start, flags_parser=_parse_flags)


def _validate_named(values: flags.FlagValues) -> None:
    """Refuses an empty name, such as a shell's variable that is not set; as a path it is the current folder."""
    for flag in _NAMED:
        if flag in values and values[flag].value == "":
            raise UserError(f"--{flag} is empty, expected the name of a file or folder")


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Ends the process with one line where the user made a mistake, the disk is full or nobody reads the output."""
    try:
        try:
            yield
        except SystemExit:
            # The interpreter would report a failure with a stack trace.
            sys.stdout.flush()
            raise
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe has closed it, as `| head` does.
        _drop_output()
        sys.exit(1)
    except Exception as error:
        sentence = _sentence(error)
        if not sentence:
            raise
        _fail(sentence)


class _NamedOutput(io.FileIO):
    """Standard output, whose errors name it."""

    def write(self, content):
        """Writes bytes as every file does."""
        with named_errors("standard output"):
            return super().write(content)


def _named_output(former: TextIO) -> io.TextIOWrapper:
    """Standard output with errors that name it; it also takes letters that the terminal's encoding lacks."""
    raw = _NamedOutput(former.fileno(), "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), former.encoding, "backslashreplace", line_buffering=former.isatty())


def to_stderr(line: str) -> None:
    """Prints a message that is not a result."""
    print(line, file=sys.stderr, flush=True)


def show_progress(done: int, total: int) -> None:
    """Prints a counter that overwrites itself; without a terminal it prints nothing."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,} answered", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _list_own_flags() -> None:
    """Makes --help list the command's flags: Abseil lists those of the main module, which is another one."""
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        for flag in defined if module.startswith("fabir_tf.") else ():
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)


def _parse_flags(arguments: list[str]) -> list[str]:
    """Parses the flags, and returns the other arguments."""
    try:
        # Replaces --flagfile by the lines of the file.
        old = renamed_flag_error(flags.FLAGS.read_flags_from_files(arguments[1:], force_gnu=False))
        if old:
            _fail(old)
        rest = _parsed(arguments)
    except flags.CantOpenFlagFileError as error:
        cause = error.__context__
        _fail(f"--flagfile={cause.filename}: {cause.strerror}, expected a file with one flag per line")
    except UnicodeDecodeError as error:
        _fail(f"--flagfile: found bytes that are not UTF-8 at {error.start}, expected a file with one flag per line")
    except flags.IllegalFlagValueError as error:
        _fail(_without_python(error))
    except (flags.Error, ValueError) as error:
        _fail(f"{error}; --help lists the flags")
    _expand_home()
    if flags.FLAGS["verbosity"].using_default_value:
        # The log messages of other libraries would bury the command's own.
        flags.FLAGS.verbosity = -1
    return rest


def _parsed(arguments: list[str]) -> list[str]:
    try:
        return flags.FLAGS(arguments)
    except SystemExit:
        # Abseil ends --help as if it were a mistake.
        sys.exit(0)


def _expand_home() -> None:
    """Makes `~` the home folder in every flag that may name files."""
    for name, flag in flags.FLAGS.flag_values_dict().items():
        if name in TEXT_FLAGS:
            continue
        if isinstance(flag, str):
            flags.FLAGS[name].value = ",".join(map(_with_home, flag.split(",")))
        elif isinstance(flag, list):
            flags.FLAGS[name].value = [_with_home(part) for part in flag]


def _with_home(part: str) -> str:
    """One path, perhaps as NAME=PATH, of a flag's value."""
    name, equals, path = part.rpartition("=")
    return f"{name}{equals}{os.path.expanduser(path)}"


def _without_python(error: flags.IllegalFlagValueError) -> str:
    """The message with what the flag expects instead of the parser's own explanation."""
    found = re.match(r"flag --(\w+)=", str(error))
    if not found or not isinstance(error.__context__, ValueError | TypeError | OverflowError):
        return str(error)
    flag = flags.FLAGS[found[1]]
    given = str(error).removeprefix("flag ").removesuffix(f": {error.__context__}")
    if flag.boolean:
        return f"{given}: expected true or false"
    return f"{given}: expected {flag.parser.syntactic_help or 'one of ' + ', '.join(flag.parser.enum_values)}"


def _sentence(error: Exception) -> str:
    """The message of a user's mistake; "" for an error of the program."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, WriteError):
        return f"{error.filename}: cannot be written ({error.strerror})"
    if disk_error(error):
        return f"the disk is full: {str(error).splitlines()[0]}"
    if isinstance(error, OSError):
        file = f"{error.filename}: " if error.filename else ""
        return f"{file}{error.strerror or error}"
    # TensorFlow's class is compared by name, because importing it takes seconds.
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return "the memory is full: lower --batch_size, --max_passage or the sizes of the model"
    return ""


def _drop_output() -> None:
    """Discards unprinted output, which the interpreter would otherwise try to print again at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def define_reader_flags(purpose: str) -> None:
    """Defines the flags that name a trained reader and set how it reads.

    Args:
        purpose: what the command does with the reader, for the help.
    """
    flags.DEFINE_string("run_dir", None, f"Run whose best checkpoint {purpose}.")
    text = f"Reader of the package that {purpose}, instead of a run: {', '.join(pretrained_readers()) or 'none yet'}"
    flags.DEFINE_string("model", None, f"{text}; or the folder of a model in Hugging Face's layout.")
    text = "No-answer probability above which the reader abstains; none always answers. By default the reader's own."
    flags.DEFINE_string("no_answer_threshold", None, text)
    define_reading_flags()


def import_modules() -> None:
    """Defines --import and imports its modules, before their readers are needed to define further flags."""
    text = "Python modules that register readers, processors or layers of your own, comma-separated."
    flags.DEFINE_multi_string("import", [], text)
    try:
        arguments = flags.FLAGS.read_flags_from_files(sys.argv[1:], force_gnu=False)
    except (flags.Error, UnicodeDecodeError):
        # Parsing the flags will report it.
        return
    given = [re.fullmatch(r"--?import=(.+)", argument) for argument in arguments]
    named = [found[1] for found in given if found]
    # absl takes a value behind a space, too.
    named += [value for flag, value in pairwise(arguments) if flag in ("-import", "--import")]
    names = _separated(named)
    if names:
        # As `python -m` does: an installed command would look beside itself, not in the user's folder.
        sys.path.insert(0, "")
    for name in names:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            cause = error if isinstance(error, ImportError) else f"it raises {type(error).__name__}: {error}"
            _fail(f"--import={name}: {cause}, expected a module that can be imported from here")


def imported_modules(values: flags.FlagValues) -> tuple[str, ...]:
    """The modules of --import, which may be given several times."""
    return _separated(values["import"].value)


def _separated(values: Iterable[str]) -> tuple[str, ...]:
    """The names in values that hold commas, without empty ones."""
    return tuple(name for value in values for name in value.split(",") if name)


def define_reading_flags() -> None:
    """Defines the flags that set how a trained reader reads."""
    import_modules()
    text = "Longer passages are read in overlapping windows, in tokens."
    flags.DEFINE_integer("max_passage", 512, text, lower_bound=1, upper_bound=LONGEST_PASSAGE)
    flags.DEFINE_enum("precision", POLICIES[0], POLICIES, "Precision of the layers, independent of the training's.")
    text = "Longest predicted answer, in tokens; by default the run's own."
    flags.DEFINE_integer("max_answer", None, text, lower_bound=1)


def define_unanswerable_share() -> None:
    """Defines --unanswerable_share of the commands that calibrate."""
    text = "Share of questions without an answer to calibrate for; by default that of --calibration_dataset."
    flags.DEFINE_float("unanswerable_share", None, text)


def validate_unanswerable_share(values: flags.FlagValues) -> float | None:
    """The value of --unanswerable_share.

    Raises:
        UserError: it is not between 0 and 1, or nothing is calibrated.
    """
    share = values.unanswerable_share
    if share is None:
        return None
    if not 0 < share < 1:
        raise UserError(f"--unanswerable_share={share}: expected a number between 0 and 1, such as 0.3")
    if values.calibration_dataset in (None, "none"):
        raise UserError(f"--unanswerable_share={share} needs --calibration_dataset, the questions to calibrate on")
    return share


def no_answer_threshold(values: flags.FlagValues) -> float | str | None:
    """The threshold of --no_answer_threshold, as `Reader.load` takes it.

    Args:
        values: the flags of `define_reader_flags`, or of `define_reading_flags` alone.

    Raises:
        UserError: it is neither a number from 0 to 1 nor none.
    """
    text = values.no_answer_threshold if "no_answer_threshold" in values else None
    if text is None:
        return "own"
    if text == "none":
        return None
    number = fraction(text)
    if number is None:
        raise UserError(f"--no_answer_threshold={text}: expected a number from 0 to 1, or none")
    return number


def fraction(text: str) -> float | None:
    """The number from 0 to 1 that a text names; None if it names none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def load_reader(values: flags.FlagValues, folder: str):
    """Loads the reader in a folder, with the flags of `define_reading_flags`, and of `define_reader_flags` if given."""
    threshold = no_answer_threshold(values)
    # Imports TensorFlow, so only commands that read wait for it.
    from fabir_tf.reading.reader import Reader

    return Reader.load(folder, values.max_passage, values.precision, values.max_answer, to_stderr, threshold)


def reader_folder(values: flags.FlagValues) -> str | None:
    """The folder of the reader of --run_dir or --model; None if neither is given.

    Args:
        values: the flags of `define_reader_flags`.

    Raises:
        UserError: both are given, or there is no such reader.
    """
    if values.run_dir and values.model:
        raise UserError("expected either --run_dir or --model, found both")
    if not values.model:
        return values.run_dir
    if values.model in pretrained_readers():
        return str(pretrained_folder(values.model))
    if is_hugging_face(values.model):
        return values.model
    if RunDirectory(values.model).is_started:
        raise UserError(f"--model={values.model}: found the folder of a run, expected it as --run_dir={values.model}")
    known = ", ".join(pretrained_readers()) or "none in this installation"
    raise UserError(
        f"--model={values.model}: no such reader comes with the package, expected one of: {known}; or the folder of a "
        "question-answering model in Hugging Face's layout"
    )


def needed_reader_folder(values: flags.FlagValues) -> str:
    """The folder of the reader of --run_dir or --model.

    Args:
        values: the flags of `define_reader_flags`.

    Raises:
        UserError: both or neither are given, or there is no such reader.
    """
    folder = reader_folder(values)
    if not folder:
        raise UserError(
            "--run_dir is missing: name the folder of a trained run, or a reader of the package with --model"
        )
    return folder


def validate_given(values: flags.FlagValues, **meanings: str) -> None:
    """Checks that required flags are given.

    Args:
        values: the flags.
        **meanings: what each of the flags names.

    Raises:
        UserError: a flag is not given, or is empty.
    """
    for flag, meaning in meanings.items():
        if not values[flag].value:
            raise UserError(f"--{flag} is missing: name {meaning}")


def refuse_given(values: flags.FlagValues, names: Iterable[str], reason: str) -> None:
    """Refuses flags that have no effect beside the others.

    Args:
        values: the flags.
        names: those that must be left out.
        reason: goes on after the flag's name.

    Raises:
        UserError: one of them is given.
    """
    for name in names:
        if not values[name].using_default_value:
            raise UserError(f"--{name} {reason}")


def define_data_flags() -> None:
    """Defines the flags of `DataOptions`."""
    text = "Folder that keeps tokenized texts between runs; empty keeps none."
    flags.DEFINE_string("cache_dir", DataOptions.cache_dir, text)
    define_tfds_flags()


def define_tfds_flags() -> None:
    """Defines the flags of the folders of TFDS, for commands that do not tokenize."""
    flags.DEFINE_string("tfds_data_dir", None, "Folder of TFDS' prepared datasets; by default TFDS' own.")
    text = "Folder with the official SQuAD files, from which TFDS prepares its datasets offline."
    flags.DEFINE_string("tfds_manual_dir", None, text)


def define_setting_flags() -> None:
    """Defines the flags of data, model and training."""
    import_modules()
    flags.DEFINE_string("config", None, "JSON file of settings, such as a run's config.json.")
    define_data_flags()
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


def data_options(values: flags.FlagValues, prepared: str | None = None) -> DataOptions:
    """The `DataOptions` of the flags."""
    folders = (values.cache_dir, values.tfds_data_dir, values.tfds_manual_dir, prepared)
    return DataOptions(*(folder or None for folder in folders))


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


def validate_other_file(flag: str, path: str | None, sources: dict[str, str | None]) -> None:
    """Checks that a result does not overwrite a file that it is made from.

    Args:
        flag: the flag that names the result.
        path: its value.
        sources: the values of the flags that name input files, perhaps several with commas between them.

    Raises:
        UserError: two flags name the same file.
    """
    if not path or not os.path.isfile(path):
        return
    for name, source in sources.items():
        files = named_files(source) if source else []
        if os.path.realpath(path) in map(os.path.realpath, files):
            raise UserError(f"--{flag}={path} is the file that --{name} reads, expected another one")
