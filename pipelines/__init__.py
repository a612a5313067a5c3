"""From text to batches: SQuAD files, tokens with exact character offsets, vocabulary, word vectors, tf.data batches.

This package uses TensorFlow and contains no models.
"""
