"""The parts of reading and training that differ between TensorFlow and other backends: `backend` is the module in use.

Both modules have `Adam`, `feed`, `Logits`, `compiles_with_xla`, `computes_on_cpu`, `devices`, `make_deterministic`,
`optimizer_class`, `sync`, `traced`, `trainer`, `use_cpu` and `write_events`. With any other backend of Keras, a model
can be built and called, but neither trained nor asked.
"""

import keras

from fabir_tf.pipelines.errors import UserError

if keras.backend.backend() == "tensorflow":
    from fabir_tf.backends import tensorflow as backend
elif keras.backend.backend() == "jax":
    from fabir_tf.backends import arrays as backend
else:
    raise UserError(
        f"Keras' backend is {keras.backend.backend()}, expected tensorflow or jax in KERAS_BACKEND or keras.json: "
        "readers are trained and asked with these two"
    )

__all__ = ["backend"]
