"""Which of the tests marked long run."""

import re
from collections.abc import Sequence
from typing import Any


def share(groups: Sequence[Any], wanted: str) -> Sequence[Any]:
    """Those that a value of --long names.

    Args:
        groups: what runs together or not at all, in any fixed order.
        wanted: none, all, or K/N for the Kth of N shares.

    Raises:
        ValueError: it is none of these.
    """
    if wanted in ("none", "all"):
        return groups if wanted == "all" else []
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", wanted)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError("expected none, all, or a share such as 2/6")
    return groups[int(match[1]) - 1 :: int(match[2])]
