"""Text in, batches out: SQuAD files, tokens with exact character offsets, vocabulary, word vectors, tf.data batches.

This package knows TensorFlow and text, and no model.
"""
