"""Full float32 products on every device, so that the tolerances of these tests mean the same everywhere."""

import keras

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
elif keras.backend.backend() == "jax":
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    # Most of what these tests cost on JAX is the compilation of small programs that run once.
    jax.config.update("jax_disable_most_optimizations", True)
