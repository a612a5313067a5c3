"""The settings and flags of version 0.1, by their new names and values."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class _Renamed(NamedTuple):
    """A setting's new name, and how its old value becomes the new one."""

    name: str
    convert: Callable[[Any], Any] = lambda value: value


def _keep_to_dropout(keep: float) -> float:
    # Rounded, because 1 - 0.9 is 0.09999999999999998.
    return round(1 - keep, 12)


_SETTINGS = {
    "word_keep": _Renamed("word_dropout", _keep_to_dropout),
    "input_keep": _Renamed("input_dropout", _keep_to_dropout),
    "sublayer_keep": _Renamed("sublayer_dropout", _keep_to_dropout),
    "attention_keep": _Renamed("attention_dropout", _keep_to_dropout),
    "selector_keep": _Renamed("selector_dropout", _keep_to_dropout),
    "character_keep": _Renamed("character_dropout", _keep_to_dropout),
    "keep": _Renamed("dropout", _keep_to_dropout),
    "cross_attention_start": _Renamed("shared_query_key_init", lambda value: value == "matching"),
    "sublayer_start": _Renamed("residual_init_scale"),
    "first_position": _Renamed("position_offset"),
    "length_groups": _Renamed("length_buckets"),
    "cooldown_epochs": _Renamed("linear_decay_epochs"),
    "smoothing_amount": _Renamed("label_smoothing"),
    "teacher_share": _Renamed("distillation_weight"),
}
_FLAG = re.compile(r"--?(?:no)?(\w+)(?:=(.*))?", re.DOTALL)


def translate_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Gives settings of 0.1 their new names and values; other settings stay as they are.

    Args:
        values: settings by name, of a model or of a training.

    Returns:
        The settings by their new names.
    """
    translated = {}
    for name, value in values.items():
        new = _SETTINGS.get(name, _Renamed(name))
        try:
            translated[new.name] = new.convert(value)
        except TypeError:
            # A value of the wrong type is reported by the configuration, which knows what it expected.
            translated[new.name] = value
    return translated


def renamed_flag_error(arguments: Sequence[str]) -> str:
    """Finds a flag of 0.1 in a command line.

    Args:
        arguments: the command line, or the lines of a flag file.

    Returns:
        A sentence that names the new flag and the value to give it, or "" if there is no old flag.
    """
    for argument, following in zip(arguments, [*arguments, "-"][1:], strict=True):
        found = _FLAG.fullmatch(argument.strip())
        if found and found[1] in _SETTINGS:
            # "--flag value" is another way to write "--flag=value".
            value = following if found[2] is None and not following.startswith("-") else found[2]
            new = _new_flag(_SETTINGS[found[1]], value)
            return f"--{found[1]} was renamed in version 0.2: use {new} instead"
    return ""


def _new_flag(new: _Renamed, text: str | None) -> str:
    if text is None:
        return f"--{new.name}"
    if new.name == "shared_query_key_init":
        return f"--{new.name}={str(new.convert(text)).lower()}"
    try:
        return (
            f"--{new.name}={new.convert(float(text)):g}" if new.convert is _keep_to_dropout else f"--{new.name}={text}"
        )
    except ValueError:
        return f"--{new.name}"
