"""Text in core TensorFlow operations, with the same results as in Python."""
