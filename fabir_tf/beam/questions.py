"""Questions about every record."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GivenQuestion:
    """A question about every record.

    Attributes:
        id: its id.
        text: its text.
    """

    id: str | int
    text: str
