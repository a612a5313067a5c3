"""Configurations as frozen dataclasses, which check their fields and convert to and from JSON and flags."""

import dataclasses
import difflib
import json
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from absl import flags

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import loads, quoted

# Larger counts would overflow in a library, with a message that names no field.
_LARGEST_COUNT = 2**31 - 1


class ConfigError(UserError):
    """A field of a configuration is unknown, or its value does not fit."""


def setting(default, help: str, *, choices: Iterable[str] = (), low=None, high=None, derived: bool = False) -> Any:
    """A field of a configuration.

    Args:
        default: the value if none is given.
        help: one phrase for `--helpfull`.
        choices: the allowed values, if they are few; a registry stays open to names that are added later.
        low, high: bounds of a number, both inclusive.
        derived: whether the program computes it, like the size of a vocabulary; `fabir-train` has no flag for it.

    Returns:
        A dataclass field.
    """
    choices = choices if isinstance(choices, Mapping) else tuple(choices)
    metadata = {"help": help, "choices": choices, "low": low, "high": high, "derived": derived}
    return dataclasses.field(default=default, metadata=metadata)


class Config:
    """Base class of the configurations: checks every field, and converts to and from JSON and flags."""

    # `@dataclasses.dataclass` sets it in the subclasses.
    __dataclass_fields__: typing.ClassVar[dict[str, dataclasses.Field]]

    def __post_init__(self):
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))

    def replace(self, **changes) -> "typing.Self":
        """A copy with some fields changed.

        Raises:
            ConfigError: a name is no field, or a value does not fit.
        """
        return self.from_dict(self.to_dict() | changes)

    def to_dict(self) -> dict:
        """The fields as plain values, in the order of the class."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping) -> "typing.Self":
        """The configuration of a dictionary; missing fields have their default.

        Raises:
            ConfigError: a name is no field, or a value does not fit.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; its fields are {', '.join(names)}"
                raise ConfigError(f"{cls.__name__} has no field {name!r}{hint}")
        return cls(**values)

    @classmethod
    def check(cls, name: str, value) -> None:
        """Checks the value of one field, before there is a configuration.

        Raises:
            ConfigError: the value does not fit.
        """
        _checked(cls.__dataclass_fields__[name], value)

    def to_json(self) -> str:
        """The configuration as JSON text; `from_json` is the inverse."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "typing.Self":
        """The configuration of a JSON text.

        Raises:
            ConfigError: the text is not a JSON object, a name is no field, or a value does not fit.
        """
        try:
            values = loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"the configuration is not valid JSON: {error}") from error
        if not isinstance(values, dict):
            raise ConfigError(f"the configuration must be a JSON object, found {type(values).__name__}")
        return cls.from_dict(values)

    def to_flags(self) -> list[str]:
        """The configuration as command-line flags; a flag file has one per line."""
        return [as_flag(name, value) for name, value in self.to_dict().items()]

    @classmethod
    def define_flags(cls, flag_values: flags.FlagValues, derived: bool = True, skip: Iterable[str] = ()) -> None:
        """Defines one flag per field; the default None means that the flag was not given.

        Args:
            flag_values: where the flags are registered.
            derived: whether derived fields get a flag, too.
            skip: fields that get no flag.
        """
        for field in dataclasses.fields(cls):
            if field.name in skip or (field.metadata["derived"] and not derived):
                continue
            _define_flag(field, _help(field, _default_text(field)), flag_values)

    @classmethod
    def given_flags(cls, flag_values: flags.FlagValues) -> dict:
        """The fields whose flags were given on the command line or in a flag file."""
        names = [field.name for field in dataclasses.fields(cls) if field.name in flag_values]
        # The value does not show it, because the flag "none" also has the value None.
        return {name: flag_values[name].value for name in names if not flag_values[name].using_default_value}


def define_shared_flags(classes: Mapping[str, type[Config]], flag: str, flag_values: flags.FlagValues) -> None:
    """Defines the flags of several configurations, one of which another flag chooses.

    Args:
        classes: the configurations by the value of that flag; fields with the same name have the same type.
        flag: the name of that flag.
        flag_values: where the flags are registered.
    """
    owners: dict[str, dict[str, dataclasses.Field]] = {}
    for choice, cls in classes.items():
        for field in dataclasses.fields(cls):
            if not field.metadata["derived"]:
                owners.setdefault(field.name, {})[choice] = field
    for fields in owners.values():
        first = next(iter(fields.values()))
        default = _default_text(first)
        differing = {name: field for name, field in fields.items() if field.default != first.default}
        others = [f"{_default_text(field)} of {name}" for name, field in differing.items()]
        of = "" if len(fields) == len(classes) else f" With --{flag}={', '.join(fields)}."
        _define_flag(first, _help(first, "; ".join([default, *others]), of), flag_values)


def _base_type(field: dataclasses.Field) -> type:
    """`int` of `int | None`."""
    options: tuple[Any, ...] = typing.get_args(field.type) if isinstance(field.type, types.UnionType) else (field.type,)
    return next(option for option in options if option is not type(None))


def _checked(field: dataclasses.Field, value: Any) -> Any:
    kind: Any = _base_type(field)
    if value is None and isinstance(field.type, types.UnionType):
        return None
    if kind is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
        value = float(value)
    if kind is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = int(value)
    if value is None or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{field.name} must be of type {kind.__name__}, found {quoted(value)}")
    if kind is float and not math.isfinite(value):
        raise ConfigError(f"{field.name} must be a finite number, found {quoted(value)}")
    low, high = field.metadata["low"], field.metadata["high"]
    if kind is int and high is None:
        high = _LARGEST_COUNT
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise ConfigError(f"{field.name} must be {_bounds(low, high)}, found {quoted(value)}")
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise ConfigError(f"{field.name} must be one of {', '.join(choices)}, found {quoted(value)}")
    return value


def _bounds(low, high) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"between {low} and {high}"


def as_flag(name: str, value) -> str:
    """A setting as a command-line flag."""
    return f"--{name}={_as_text(value)}"


def _as_text(value) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


class _NumberOrNone(flags.ArgumentParser):
    """Parses the flag of a number that may be `none`."""

    def __init__(self, parser: flags.ArgumentParser):
        self._parser = parser
        self.syntactic_help = f"{parser.syntactic_help} or none"

    def parse(self, argument):
        return None if argument == "none" else self._parser.parse(argument)

    def flag_type(self) -> str:
        return self._parser.flag_type()


def _help(field: dataclasses.Field, default: str, owners: str = "") -> str:
    choices = f" One of {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
    return f"{field.metadata['help']}.{choices}{owners} Default: {default}."


def _default_text(field: dataclasses.Field) -> str:
    return _as_text(field.default) or "empty"


def _define_flag(field: dataclasses.Field, text: str, flag_values: flags.FlagValues) -> None:
    kind = _base_type(field)
    if isinstance(field.type, types.UnionType):
        parsers: dict[type, Callable[[], Any]] = {int: flags.IntegerParser, float: flags.FloatParser}
        parser = _NumberOrNone(parsers[kind]())
        flags.DEFINE(parser, field.name, None, text, flag_values=flag_values)
        return
    define: dict[type, Callable[..., Any]] = {
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        bool: flags.DEFINE_bool,
        str: flags.DEFINE_string,
    }
    define[kind](field.name, None, text, flag_values=flag_values)
