"""The parts of reading and training that differ between TensorFlow and other backends: `backend` is the module in use.

Both modules have `feed`, `Logits`, `compiles_with_xla`, `make_deterministic`, `sync`, `traced` and `write_events`. Any
other backend of Keras uses the module for arrays.
"""

import keras

if keras.backend.backend() == "tensorflow":
    from fabir_tf.backends import tensorflow as backend
else:
    from fabir_tf.backends import arrays as backend

__all__ = ["backend"]
