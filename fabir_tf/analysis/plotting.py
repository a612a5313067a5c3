"""Pictures are optional: they take matplotlib, the extra `plot`."""

import importlib.util

NO_PICTURES = 'no picture is drawn, which takes matplotlib: pip install "fabir_tf[plot]"'


def has_pictures() -> bool:
    """Whether pictures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None
