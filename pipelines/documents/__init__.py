"""Documents as paragraphs that know where they come from, and the search for those that may answer a question.

Nothing here imports TensorFlow or Keras.
"""
