"""Methods of a Keras model that would silently do nothing, or write a file that cannot be read again."""

import functools

import keras

from fabir_tf.pipelines.errors import UserError


def refuse_useless_methods(model: keras.Model) -> keras.Model:
    """Makes a model refuse what Keras cannot do with it.

    Keras quantizes none of the layers, because it knows its own classes only, and an HDF5 file lacks the operations
    between the layers.

    Args:
        model: a functional model.

    Returns:
        The same model, whose `quantize` and `save("....h5")` raise a UserError.
    """
    model.quantize = _refuse_quantization
    model.save = functools.partial(_save, model.save)
    return model


def _refuse_quantization(mode=None, *arguments, **settings) -> None:
    raise UserError(
        f"model.quantize({'' if mode is None else repr(mode)}): Keras can quantize none of this model's layers; "
        'expected a precision such as fabir_tf.Reader.load(..., precision="mixed_bfloat16"), or fabir-pack for a small '
        "reader"
    )


def _save(save, filepath, *arguments, **settings) -> None:
    if str(filepath).endswith((".h5", ".hdf5")) and settings.get("zipped") is not False:
        raise UserError(
            f"model.save({str(filepath)!r}): Keras could not load this model from an HDF5 file, expected a name that "
            "ends in .keras"
        )
    save(filepath, *arguments, **settings)
