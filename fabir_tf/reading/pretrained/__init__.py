"""Trained readers that come with the package: a folder for each, as `fabir_tf.reading.packing.pack` writes it."""

from pathlib import Path

_FOLDER = Path(__file__).parent


def pretrained_readers() -> list[str]:
    """Their names."""
    return sorted(path.parent.name for path in _FOLDER.glob("*/config.json"))


def pretrained_folder(name: str) -> Path:
    """Where one of them is.

    Args:
        name: one of `pretrained_readers()`.
    """
    return _FOLDER / name
