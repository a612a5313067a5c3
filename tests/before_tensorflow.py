"""Settings that TensorFlow reads when it is imported; most tests import Keras before fabir_tf."""

import os

# As `import fabir_tf` does.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
