"""What all commands share: their flags, and the report of a mistake in one sentence.

It imports neither TensorFlow nor Keras, which commands without a model do without.
"""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TextIO

from absl import app, flags

from fabir_tf.commands import entry
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import WriteError, disk_error, named_errors, named_files
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.renamed_settings import renamed_flag_error
from fabir_tf.training.data_options import DataOptions

# Those of files and folders that a command reads and does without if they are left out.
_NAMED = ("document", "index", "input_file")
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
        with entry.importing():
            _import(name)


def _import(name: str) -> None:
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


def fraction(text: str) -> float | None:
    """The number from 0 to 1 that a text names; None if it names none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


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


def data_options(values: flags.FlagValues, prepared: str | None = None) -> DataOptions:
    """The `DataOptions` of the flags."""
    folders = (values.cache_dir, values.tfds_data_dir, values.tfds_manual_dir, prepared)
    return DataOptions(*(folder or None for folder in folders))


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
