"""Switches oneDNN on for the tests, as `import fabir_tf` does; most of them import Keras first."""

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
