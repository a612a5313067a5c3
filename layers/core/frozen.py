"""Layers that are not trained."""

import keras


def stay_frozen(layer: keras.layers.Layer) -> None:
    """Freezes what is inside a frozen layer, at the end of its `build`.

    Keras restores `trainable=False` of a saved layer before the layer makes its own layers, which would be trained.
    """
    if not layer.trainable:
        # Not `layer.trainable = False`: setting what is set already does nothing on TensorFlow.
        for inner in layer._flatten_layers(include_self=False):
            inner.trainable = False
