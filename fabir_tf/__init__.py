"""fabir_tf: a small, fast question-answering reader built on attention alone.

    model = fabir_tf.build_model()                       # a functional keras.Model
    reader = fabir_tf.Reader.load("runs/base")           # a trained reader
    reader.answer("Who wrote it?", "It was written by Ada.")

Importing the package registers its layers with Keras, so that a saved `.keras` file loads without further arguments.
"""

import os
from pathlib import Path

# Must be set before TensorFlow loads: its notices would bury what the commands print. A few of its first ones stay.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# In a checkout layers/, pipelines/ and export/ stand beside this package; an installed wheel holds them inside it.
_root = Path(__file__).resolve().parents[1]
if __name__ == "fabir_tf" and (_root / "WORKSPACE.md").is_file() and str(_root) not in __path__:
    __path__.append(str(_root))

from fabir_tf import layers, schedule  # noqa: E402
from fabir_tf.models import build_model, list_models  # noqa: E402
from fabir_tf.models.fabir import FabirConfig  # noqa: E402

__version__ = "0.1.0"
__all__ = ["FabirConfig", "Reader", "build_model", "layers", "list_models", "schedule"]


def __getattr__(name: str):
    # The reader needs TensorFlow's pipelines; a model alone also builds where only another Keras backend is installed.
    if name == "Reader":
        from fabir_tf.reader import Reader

        return Reader
    raise AttributeError(f"module 'fabir_tf' has no attribute {name!r}")
