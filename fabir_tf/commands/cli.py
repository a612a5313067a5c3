"""What all commands share: flags that are defined once, and mistakes told in one sentence."""

import contextlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from absl import app, flags

from fabir_tf.compatibility import renamed_flag_error, translate_settings
from fabir_tf.configuration import Config, ConfigError, define_shared_flags
from fabir_tf.models import MODELS, list_models, model_name
from fabir_tf.models.precision import POLICIES
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.batch_planning import LONGEST_PASSAGE
from fabir_tf.pipelines.files import WriteError, named_errors
from fabir_tf.pipelines.json_files import quoted, read_json, shown
from fabir_tf.reading.pretrained import pretrained_folder, pretrained_readers
from fabir_tf.reading.run_directory import reader_directory, validate_model
from fabir_tf.training.prepared_data import prepared_settings
from fabir_tf.training.training_config import DataOptions, TrainingConfig

DEFAULT_MODEL = "fabir"


def run_command(main: Callable[[flags.FlagValues], None], doc: str) -> None:
    """Runs a command whose flags are defined; a person's mistake ends it with status 2 and one line.

    Args:
        main: the command.
        doc: what it is for, shown above the flags by --help.
    """
    sys.modules["__main__"].__doc__ = doc
    _list_own_flags()

    def guarded(arguments: list[str]) -> None:
        # What is told may name a file in letters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
        try:
            if arguments[1:]:
                raise UserError(f"unexpected argument {quoted(arguments[1])}: everything is given as --flag=value")
            main(flags.FLAGS)
            with named_errors("standard output"):
                sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        except BrokenPipeError:
            # Whoever read the output has seen enough, as in `| head`.
            _drop_output()
            sys.exit(1)
        except Exception as error:
            sentence = _sentence(error)
            if not sentence:
                raise
            _fail(sentence)

    app.run(guarded, flags_parser=_parse_flags)


def to_stderr(line: str) -> None:
    """Tells a person something that is no result."""
    print(line, file=sys.stderr, flush=True)


def show_progress(done: int, total: int) -> None:
    """A counter that overwrites itself on a terminal; silent where there is none."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,} answered", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _list_own_flags() -> None:
    """Makes --help list the command's flags: Abseil lists those of the main module, which a console script is not."""
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        for flag in defined if module.startswith("fabir_tf.") else ():
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)


def _parse_flags(arguments: list[str]) -> list[str]:
    """Parses the flags; the arguments that are no flags."""
    try:
        # With the lines of flag files in place of --flagfile.
        old = renamed_flag_error(flags.FLAGS.read_flags_from_files(arguments[1:], force_gnu=False))
        if old:
            _fail(old)
        rest = flags.FLAGS(arguments)
    except flags.CantOpenFlagFileError as error:
        cause = error.__context__
        _fail(f"--flagfile={cause.filename}: {cause.strerror}, expected a file with a flag a line")
    except UnicodeDecodeError as error:
        _fail(f"--flagfile: found bytes that are not UTF-8 at {error.start}, expected a file with a flag a line")
    except flags.IllegalFlagValueError as error:
        _fail(_without_python(error))
    except (flags.Error, ValueError) as error:
        _fail(f"{error}; --help lists the flags")
    if flags.FLAGS["verbosity"].using_default_value:
        # Other libraries' notes would bury what a command says itself.
        flags.FLAGS.verbosity = -1
    return rest


def _without_python(error: flags.IllegalFlagValueError) -> str:
    """What a flag expects, in place of what Python says about its value."""
    found = re.match(r"flag --(\w+)=", str(error))
    if not found or not isinstance(error.__context__, ValueError | TypeError | OverflowError):
        return str(error)
    flag = flags.FLAGS[found[1]]
    given = str(error).removeprefix("flag ").removesuffix(f": {error.__context__}")
    if flag.boolean:
        return f"{given}: expected true or false"
    return f"{given}: expected {flag.parser.syntactic_help or 'one of ' + ', '.join(flag.parser.enum_values)}"


def _sentence(error: Exception) -> str:
    """What to tell a person; nothing where the mistake is the program's own."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, WriteError):
        return f"{error.filename}: cannot be written ({error.strerror})"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    # TensorFlow's own class by its name, because its import would make every mistake wait for seconds.
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return "the memory is full: lower --batch_size, --max_passage or the sizes of the model"
    return ""


def _drop_output() -> None:
    """Gives up what could not be printed, or the interpreter would try once more at its end, and complain."""
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
    """Flags that name a trained reader, and say how it reads.

    Args:
        purpose: what becomes of the reader, for the help.
    """
    flags.DEFINE_string("run_dir", None, f"Run whose best checkpoint {purpose}.")
    text = f"Reader that comes with the package and {purpose}, in place of a run"
    flags.DEFINE_string("model", None, f"{text}: {', '.join(pretrained_readers()) or 'none yet'}.")
    define_reading_flags()


def define_reading_flags() -> None:
    """Flags that say how a trained reader reads."""
    text = "Passages of more tokens are read in overlapping windows."
    flags.DEFINE_integer("max_passage", 512, text, lower_bound=1, upper_bound=LONGEST_PASSAGE)
    flags.DEFINE_enum("precision", POLICIES[0], POLICIES, "Precision of the layers, whatever the run was trained with.")
    text = "Longest predicted answer, in tokens; the run's own when not given."
    flags.DEFINE_integer("max_answer", None, text, lower_bound=1)


def load_reader(values: flags.FlagValues, folder: str):
    """The reader in a folder, as the flags of `define_reading_flags` say."""
    # Imports TensorFlow, so only commands that read wait for it.
    from fabir_tf.reading.reader import Reader

    return Reader.load(folder, values.max_passage, values.precision, values.max_answer, to_stderr)


def reader_folder(values: flags.FlagValues) -> str | None:
    """Where the reader of --run_dir or --model is; None where neither is given.

    Args:
        values: the flags of `define_reader_flags`.

    Raises:
        UserError: both are given, or there is no such reader.
    """
    if values.run_dir and values.model:
        raise UserError("expected either --run_dir or --model, found both")
    if not values.model:
        return values.run_dir
    if values.model not in pretrained_readers():
        known = ", ".join(pretrained_readers()) or "none in this installation"
        raise UserError(f"--model={values.model}: no such reader comes with the package, expected one of: {known}")
    return str(pretrained_folder(values.model))


def needed_reader_folder(values: flags.FlagValues) -> str:
    """`reader_folder`, where there has to be one.

    Raises:
        UserError: as `reader_folder`; or neither flag is given.
    """
    folder = reader_folder(values)
    if not folder:
        raise UserError(
            "--run_dir is missing: name the folder of a trained run, or a reader of the package with --model"
        )
    return folder


def validate_given(values: flags.FlagValues, **meanings: str) -> None:
    """Refuses to begin without some flags.

    Args:
        values: the flags.
        **meanings: by flag, what it names.

    Raises:
        UserError: a flag is not given, or is empty.
    """
    for flag, meaning in meanings.items():
        if not values[flag].value:
            raise UserError(f"--{flag} is missing: name {meaning}")


def define_data_flags() -> None:
    """Flags of `DataOptions`."""
    text = "Where tokenized texts are kept between runs; empty keeps none."
    flags.DEFINE_string("cache_dir", DataOptions.cache_dir, text)
    flags.DEFINE_string("tfds_data_dir", None, "Where TFDS keeps prepared datasets; its own default when empty.")
    text = "Folder with the official SQuAD files, to prepare them through TFDS without the internet."
    flags.DEFINE_string("tfds_manual_dir", None, text)


def define_setting_flags() -> None:
    """Flags of everything that decides about data, model and training."""
    flags.DEFINE_string("config", None, "JSON file of settings, such as a run's config.json.")
    define_data_flags()
    TrainingConfig.define_flags(flags.FLAGS)
    about = "; ".join(f"{name}: {phrase}" for name, phrase in list_models().items())
    flags.DEFINE_enum("model", None, list(MODELS), f"The reader. {about}. Default: {DEFAULT_MODEL}.")
    define_shared_flags({name: family.config for name, family in MODELS.items()}, "model", flags.FLAGS)


def data_options(values: flags.FlagValues, prepared: str | None = None) -> DataOptions:
    """The `DataOptions` of the flags."""
    places = (values.cache_dir, values.tfds_data_dir, values.tfds_manual_dir, prepared)
    return DataOptions(*(place or None for place in places))


def configurations(values: flags.FlagValues, prepared: str | None = None) -> tuple[ReaderConfig, TrainingConfig]:
    """The configurations of the defaults, the reader of --start_from, --config and the flags; the later one wins.

    Args:
        values: the flags.
        prepared: a folder of prepared data, if it takes the place of the data.

    Raises:
        UserError: a setting is unknown or does not fit, is one of another model, or is not the one that the data was
            prepared with.
    """
    given = _settings_in(values.config) if values.config else {}
    if "model" in given and (not isinstance(given["model"], str) or given["model"] not in MODELS):
        raise UserError(f"{values.config}: unknown model {shown(given['model'])}, expected one of {', '.join(MODELS)}")
    named = given.pop("model", None)
    fixed = prepared_settings(Path(prepared).expanduser()) if prepared else {}
    start_from = values.start_from or given.get("start_from") or fixed.get("start_from")
    # What is no text is told below, as any setting of --config is.
    begun = reader_directory(start_from).read_model_config() if start_from and isinstance(start_from, str) else None
    name = values.model or named or (model_name(begun) if begun else DEFAULT_MODEL)
    chosen = MODELS[name].config
    model, training = _split_settings(values.config, given, chosen, TrainingConfig)
    model |= _flags_of(name, values)
    training |= TrainingConfig.given_flags(values)
    for field, value in fixed.items():
        found = (model | training).get(field, value)
        if found != value:
            raise UserError(f"--prepared={prepared}: prepared with {field}={value!r}, found {field}={found!r}")
    if begun:
        validate_model(start_from, begun, name)
        model = begun.to_dict() | model
    return chosen.from_dict(model), TrainingConfig.from_dict(training)


def _flags_of(name: str, values: flags.FlagValues) -> dict:
    """The fields of a model whose flags a person gave; flags of other models would be of no effect."""
    chosen = MODELS[name].config
    for family in MODELS.values():
        for field, value in family.config.given_flags(values).items():
            if field not in chosen.__dataclass_fields__:
                raise UserError(f"--{field}={value}: --model={name} has no such setting")
    return chosen.given_flags(values)


def _settings_in(path: str) -> dict:
    """The settings of a JSON file: flat, or nested under "model" and "training" as a run's config.json."""
    content = read_json(Path(path))
    if not isinstance(content, dict):
        raise UserError(f"{path}: found {shown(content)}, expected a JSON object of settings")
    values = {}
    for name, value in content.items():
        values |= value if name in ("model", "training") and isinstance(value, dict) else {name: value}
    for name in ("data", "format", "versions"):
        values.pop(name, None)
    return translate_settings(values | ({"model": values.pop("name")} if "name" in values else {}))


def _split_settings(path: str, values: dict, *classes: type[Config]) -> list[dict]:
    """For each configuration its fields, taken out of `values` and checked."""
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
    """Refuses to write a result over what it is made from.

    Args:
        flag: the flag that names the result.
        path: its value.
        sources: the flags that name what is read, and their values.

    Raises:
        UserError: two flags name the same file.
    """
    for name, source in sources.items():
        if path and source and os.path.realpath(path) == os.path.realpath(source) and os.path.isfile(path):
            raise UserError(f"--{flag}={path} is the file that --{name} reads, expected another one to write to")
