"""A trained reader as one small folder, to be shipped: its weights, its words, and the commonest vectors in 8 bits."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_files, validate_writable, write_text
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_vectors import WordVectors, load_saved_vectors, save_packed_vectors
from fabir_tf.reading.calibration import Calibration, answerable, calibrate
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory, reader_directory
from fabir_tf.training.checkpoint import read_weights, write_arrays

# Settings that name places on the machine that trained; of a path the last part is told.
_PLACES = ("dataset", "eval_dataset", "vectors", "start_from", "teacher")
_DROPOUT = ("dropout", "dropout_amplification")


def pack(
    run_dir: str | os.PathLike,
    output: str | os.PathLike,
    max_words: int,
    average_with: Sequence[str | os.PathLike] = (),
    held_out: SquadData | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Writes what `fabir_tf.Reader.load` needs of a run, in a form that is small.

    The weights are the run's best ones, or their mean with those of other runs. Of the frozen vectors the first are
    kept, each as int8 with one scale; words without a vector are read by their characters alone, as unknown ones always
    are.

    Args:
        run_dir: what `fabir-train` wrote, or a reader that comes with the package.
        output: a folder that holds no reader.
        max_words: frozen vectors to keep.
        average_with: runs that began as the same reader (`start_from`), or that this one began as; one may be named
            several times, to count as often.
        held_out: questions that no run was trained on, by which the packed reader's probabilities are made honest
            (`calibrate`); None leaves them as the run has them, and those of a mean as the model has them.
        progress: as for `calibrate`.

    Returns:
        The folder.

    Raises:
        UserError: a run is not whole or has other words or weights, the folder holds a reader, or no held-out question
            has an answer.
        WriteError: a file cannot be written.
    """
    run, packed = reader_directory(run_dir), RunDirectory(output)
    if packed.is_started:
        raise UserError(f"{packed.path} already holds a reader: name another folder")
    if held_out:
        # Before anything is written.
        held_out = answerable(held_out)
    # Of a mean of readers nothing is known.
    is_known = run.calibration.exists() and not held_out and not average_with
    calibration = Calibration.load(run.calibration) if is_known else None
    content = run.read_config()
    vectors = load_saved_vectors(run.vocabulary)
    kept = WordVectors(vectors.words[:max_words], vectors.table[:max_words], vectors.source)
    runs = [run, *map(reader_directory, average_with)]
    vocabulary = Vocabulary.load(run.vocabulary, kept.words)
    weights, state = _mean_weights(runs, vectors.words)
    validate_writable(packed.calibration)
    # One may be left of a packing that was killed.
    packed.calibration.unlink(missing_ok=True)
    vocabulary.save(packed.vocabulary)
    save_packed_vectors(kept, packed.vocabulary)
    write_arrays(packed.best, weights, state)
    content["model"]["frozen_words"] = len(kept.words)
    for name in _PLACES:
        names = [Path(part).name for part in named_files(str(content["training"].get(name, "")))]
        content["training"][name] = ",".join(names)
    if held_out:
        config = run.read_model_config().replace(frozen_words=len(kept.words))
        calibration = calibrate(Reader.from_run(packed, config), held_out, progress)
    if calibration:
        calibration.save(packed.calibration)
    # Last, because its presence is what makes the folder a reader.
    write_text(packed.config, json.dumps(content, indent=2) + "\n")
    return packed.path


def _mean_weights(runs: list[RunDirectory], words: list[str]) -> tuple[dict[str, np.ndarray], dict]:
    """The mean of the runs' weights, and what is known of them, which is nothing of a mean."""
    first = runs[0]
    # Read before anything is written: what is no run, has no best checkpoint or damaged files, ends here.
    settings = [_settings_without_dropout(run) for run in runs]
    state, weights = read_weights(first.best)
    if len(runs) == 1:
        return weights, state
    vocabulary = Vocabulary.load(first.vocabulary, words)
    total = {name: weight.astype(np.float64) for name, weight in weights.items()}
    for run, others_settings in zip(runs[1:], settings[1:], strict=True):
        # Another run's rows of the word and character tables may be of other words.
        if Vocabulary.load(run.vocabulary) != vocabulary:
            raise UserError(f"{run.path}: found other words than in {first.path}, expected a run that began as it")
        _, others = read_weights(run.best)
        shapes = [[(name, weight.shape) for name, weight in part.items()] for part in (weights, others)]
        if shapes[0] != shapes[1] or others_settings != settings[0]:
            raise UserError(f"{run.path}: found another model than in {first.path}, expected the same but for dropout")
        for name, weight in others.items():
            total[name] += weight
    return {name: (total[name] / len(runs)).astype(weight.dtype) for name, weight in weights.items()}, {}


def _settings_without_dropout(run: RunDirectory) -> dict:
    """What the run's weights were made for; dropout may differ from run to run."""
    settings = run.read_model_config().to_dict()
    return {name: value for name, value in settings.items() if not name.endswith(_DROPOUT)}
