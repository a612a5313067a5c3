"""Pictures are optional: they need matplotlib, the extra `plot`."""

import importlib.util

NO_PICTURES = 'no picture is drawn because matplotlib is missing: pip install "fabir_tf[plot]"'


def has_pictures() -> bool:
    """Whether pictures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None
