"""The model as a SavedModel over token ids, for clients that tokenise themselves."""

import os
from pathlib import Path

import keras
import tensorflow as tf

from fabir_tf.pipelines.errors import UserError


def export_token_ids(model: keras.Model, export_dir: str | os.PathLike) -> None:
    """Writes a SavedModel with the signature `token_ids`: ids in, start and end logits out.

    Args:
        model: what `fabir_tf.build_model` returned.
        export_dir: a folder that does not exist yet; it appears only once it is complete.

    Raises:
        UserError: `export_dir` exists.
    """
    export_dir = Path(export_dir)
    if export_dir.exists():
        raise UserError(f"export_dir={export_dir} exists, expected a folder to be made")
    signature = {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name) for tensor in model.inputs}
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("token_ids", lambda inputs: model(inputs, training=False), input_signature=[signature])
    unfinished = export_dir.with_name(f"{export_dir.name}.{os.getpid()}.tmp")
    archive.write_out(str(unfinished), verbose=False)
    unfinished.rename(export_dir)
