"""What reading and training do otherwise on TensorFlow than elsewhere: `backend` is the module that serves.

Both modules have `feed`, `Logits`, `compiles_with_xla`, `make_deterministic`, `sync`, `traced` and `write_events`. A
third backend of Keras takes the one for arrays.
"""

import keras

if keras.backend.backend() == "tensorflow":
    from fabir_tf.backends import tensorflow as backend
else:
    from fabir_tf.backends import arrays as backend

__all__ = ["backend"]
