"""Pictures are optional: they need matplotlib, the extra `plot`."""

import importlib.util
from pathlib import Path
from typing import Any

from fabir_tf.pipelines.files import atomic_write

NO_PICTURES = 'no picture is drawn because matplotlib is missing: pip install "fabir_tf[plot]"'


def has_pictures() -> bool:
    """Whether pictures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def write_picture(path: Path, draw: str, *what: Any) -> bytes | None:
    """Draws a picture into a file, whole or not at all.

    Args:
        path: of a PNG.
        draw: the name of a function of `fabir_tf.analysis.pictures`.
        *what: its arguments.

    Returns:
        The picture; None where matplotlib is missing, and then there is no file.
    """
    if not has_pictures():
        return None
    from fabir_tf.analysis import pictures

    content = getattr(pictures, draw)(*what)
    with atomic_write(path) as file:
        file.write(content)
    return content
