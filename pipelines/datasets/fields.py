"""Reads the fields of parsed data, with the place of every mistake; raises the first mistake or collects them all."""

import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import join_path, shown

# Places that are no JSON path, such as "line 3".
_NUMBERED = re.compile(r"[a-z]+ \d+")
T = TypeVar("T")
P = ParamSpec("P")


class FieldReader:
    """Reads fields of a given type.

    Args:
        name: the file's name, for messages.
        faults: collects the messages of all mistakes; None raises the first as a UserError.
    """

    def __init__(self, name: str, faults: list[str] | None = None):
        self.name = name
        self.faults = faults

    @property
    def mistakes(self) -> int:
        """The number of mistakes collected so far."""
        return len(self.faults or ())

    def attempt(self, default: T, read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls a function that reads a part; a mistake in it is collected, and the default takes the part's place."""
        try:
            return read(*arguments, **named)
        except UserError as error:
            self.report(str(error))
            return default

    def report(self, message: str) -> None:
        """Collects a message, or raises it."""
        if self.faults is None:
            raise UserError(message)
        self.faults.append(message)

    def as_object(self, value: Any, path: str, key: str) -> dict[str, Any]:
        """The value itself, if it is an object.

        Args:
            value: the value.
            path: its place.
            key: a field that it should have, for the message.
        """
        if not isinstance(value, dict):
            raise self.wrong(path, value, f"an object with the field {key}")
        return value

    def field(self, parent: Any, key: str, parent_path: str, expected: str) -> Any:
        """The value of a field."""
        if key not in self.as_object(parent, parent_path, key):
            raise UserError(f"{self.name}: {self.join(parent_path, key)} is missing, expected {expected}.")
        return parent[key]

    def entries(self, parent: Any, key: str, parent_path: str) -> list[tuple[Any, str]]:
        """The entries of a list field with their places."""
        values = self.field(parent, key, parent_path, "a list")
        path = self.join(parent_path, key)
        if not isinstance(values, list):
            raise self.wrong(path, values, "a list")
        return [(value, f"{path}[{index}]") for index, value in enumerate(values)]

    def text(self, parent: Any, key: str, parent_path: str) -> str:
        """The value of a field that holds Unicode text."""
        value = self.field(parent, key, parent_path, "a text")
        return self.unicode(value, self.join(parent_path, key))

    def unicode(self, value: Any, path: str) -> str:
        """The value itself, if it is Unicode text."""
        if not isinstance(value, str):
            raise self.wrong(path, value, "a text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.name}: {path} has half of a surrogate pair at character {error.start}, expected Unicode text."
            ) from None
        return value

    def wrong(self, path: str, value: Any, expected: str) -> UserError:
        """The mistake of a value of another type."""
        return UserError(f"{self.name}: {path} is {shown(value)}, expected {expected}.")

    @staticmethod
    def whole(value: Any) -> Any:
        """A whole float as an integer, any other value as it is: a column with missing values holds floats."""
        return int(value) if isinstance(value, float) and value.is_integer() else value

    @staticmethod
    def join(parent_path: str, key: str) -> str:
        """The place of a field."""
        return f"{parent_path}: {key}" if _NUMBERED.fullmatch(parent_path) else join_path(parent_path, key)
