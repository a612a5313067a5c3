"""A trained reader as one small folder, to be shipped: its weights, its words, and the commonest vectors in 8 bits."""

import json
import os
from pathlib import Path

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_files, replacing, write_text
from fabir_tf.pipelines.vectors import WordVectors, load_saved_vectors, save_packed_vectors
from fabir_tf.pipelines.vocabulary import Vocabulary
from fabir_tf.run_directory import RunDirectory

# Settings that name places on the machine that trained; of a path the last part is told.
_PLACES = ("dataset", "eval_dataset", "vectors", "start_from", "teacher")


def pack(run_dir: str | os.PathLike, output: str | os.PathLike, max_words: int) -> Path:
    """Writes what `fabir_tf.Reader.load` needs of a run, in a form that is small.

    The weights are the run's best ones, as they are. Of the frozen vectors the first rows are kept, each as int8 with
    one scale; words without a vector are read by their characters alone, as unknown ones always are.

    Args:
        run_dir: what `fabir-train` wrote.
        output: a folder that holds no reader.
        max_words: frozen vectors to keep.

    Returns:
        The folder.

    Raises:
        UserError: the run is not whole, or the folder holds a reader.
        WriteError: a file cannot be written.
    """
    run, packed = RunDirectory(run_dir), RunDirectory(output)
    if packed.is_started:
        raise UserError(f"{packed.path} already holds a reader: name another folder")
    content = run.read_config()
    vectors = load_saved_vectors(run.vocabulary)
    kept = WordVectors(vectors.words[:max_words], vectors.table[:max_words], vectors.source)
    # Read before anything is written: a run without a best checkpoint, or of damaged files, ends here.
    run.read_model_config()
    vocabulary, weights = Vocabulary.load(run.vocabulary, kept.words), _read_weights(run)
    vocabulary.save(packed.vocabulary)
    save_packed_vectors(kept, packed.vocabulary)
    with replacing(packed.best) as file:
        file.write(weights)
    content["model"]["frozen_words"] = len(kept.words)
    for name in _PLACES:
        names = [Path(part).name for part in named_files(str(content["training"].get(name, "")))]
        content["training"][name] = ",".join(names)
    # Last, because its presence is what makes the folder a reader.
    write_text(packed.config, json.dumps(content, indent=2) + "\n")
    return packed.path


def _read_weights(run: RunDirectory) -> bytes:
    try:
        return run.best.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{run.best}: no such checkpoint, expected the best one of a trained run") from None
