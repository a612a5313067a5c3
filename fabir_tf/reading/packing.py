"""A trained reader as one small folder to ship: its weights, its words, and the commonest vectors in 8 bits."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fabir_tf.models.quantised_weights import quantise_weights
from fabir_tf.models.weights import write_arrays
from fabir_tf.pipelines.arguments import validate_type, whole_number
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_files, removed_on_failure, validate_writable, write_text
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.reading.answers import validate_dataset
from fabir_tf.reading.calibration import Calibration, calibrate, validate_answerable
from fabir_tf.reading.ensemble import Ensemble
from fabir_tf.reading.ensemble_weights import EQUAL, METRICS, choose_weights, normalised_weights
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import (
    FORMAT,
    MEMBERS,
    EnsembleDirectory,
    RunDirectory,
    reader_directory,
    versions,
)

# Settings that contain paths of the machine that trained; only the last part of a path is kept.
_PATHS = (
    ("training", "dataset"),
    ("training", "eval_dataset"),
    ("training", "vectors"),
    ("training", "start_from"),
    ("training", "kept_dataset"),
    ("training", "teacher"),
    ("model", "encoder"),
    ("model", "word_model"),
)
_DROPOUT = ("dropout", "dropout_amplification")
_A_FOLDER = "the name of a folder, or of a reader that comes with the package"


def pack(
    run_dir: str | os.PathLike,
    output: str | os.PathLike,
    max_words: int = 100_000,
    average_with: Sequence[str | os.PathLike] = (),
    held_out: SquadData | None = None,
    progress: Callable[[int, int], None] | None = None,
    unanswerable_share: float | None = None,
    int8: bool = False,
) -> Path:
    """Writes the parts of a run that `fabir_tf.Reader.load` needs, in a small form.

    The weights are the best ones of the run, or their mean with those of other runs. Of the frozen word vectors the
    first are kept, each as int8 with one scale; words without a vector are read by their characters alone, as unknown
    words always are.

    Args:
        run_dir: what `fabir-train` wrote, or a reader that comes with the package.
        output: a folder that holds no reader.
        max_words: frozen vectors to keep.
        average_with: runs that started from the same reader (`start_from`), or the reader that this one started from;
            one may be named several times to get more weight.
        held_out: questions that no run was trained on, which the packed reader is calibrated on; None keeps the run's
            calibration, and none for a mean.
        progress, unanswerable_share: as for `calibrate`.
        int8: write the weights with 8 bits per number, too, which makes the file a quarter as large.

    Returns:
        The folder.

    Raises:
        UserError: a run is incomplete or has other words or weights, the folder holds a reader, or no held-out question
            has an answer.
        WriteError: a file cannot be written.
    """
    validate_type("run_dir", run_dir, str | os.PathLike, _A_FOLDER)
    run, packed = reader_directory(run_dir), RunDirectory(output)
    if packed.is_started:
        raise UserError(f"{packed.path} already holds a reader: name another folder")
    max_words = whole_number("max_words", max_words, 0)
    if held_out is not None:
        # Before anything is written.
        validate_dataset("held_out", held_out)
        validate_answerable(held_out)
    # The calibration of one reader does not hold for a mean.
    is_known = run.calibration.exists() and not held_out and not average_with
    calibration = Calibration.load(run.calibration) if is_known else None
    content, config = run.read_config(), run.read_model_config()
    processor = _packed(run.read_processor(), max_words)
    weights, state = _mean_weights([run, *map(reader_directory, average_with)])
    validate_writable(packed.calibration)
    # An interrupted packing may have left one.
    packed.calibration.unlink(missing_ok=True)
    content["model"] |= processor.sizes
    for part, name in _PATHS:
        if name in content[part]:
            names = [Path(path).name for path in named_files(str(content[part][name]))]
            content[part][name] = ",".join(names)
    content = {"format": FORMAT, "versions": versions()} | content
    with removed_on_failure(packed.path, packed.processor, packed.best.parent, packed.calibration):
        processor.save(packed.processor)
        write_arrays(packed.best, quantise_weights(weights) if int8 else weights, state)
        if held_out:
            reader = Reader.from_run(packed, config.replace(**processor.sizes))
            calibration = calibrate(reader, held_out, progress, unanswerable_share)
        if calibration:
            calibration.save(packed.calibration)
        # Last, because its presence marks a reader.
        write_text(packed.config, json.dumps(content, indent=2) + "\n")
    return packed.path


def pack_ensemble(
    run_dirs: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    weights: str | Sequence[float] = EQUAL,
    max_words: int = 100_000,
    held_out: SquadData | None = None,
    progress: Callable[[int, int], None] | None = None,
    unanswerable_share: float | None = None,
    log: Callable[[str], object] | None = None,
    int8: bool = False,
) -> Path:
    """Writes several readers as one folder, which `fabir_tf.Reader.load` reads as an `Ensemble`.

    Args:
        run_dirs: folders or names of the members, each packed as `pack` does.
        output: a folder that holds no reader.
        weights: "equal", one number for each member, or a metric, "f1" or "em", to choose them by on `held_out`.
        max_words: frozen vectors to keep of each member.
        held_out: questions that no member was trained on, for the weights and the calibration; None keeps the members'
            own calibrations.
        progress, unanswerable_share: as for `calibrate`.
        log: as for `Ensemble`.
        int8: as for `pack`.

    Returns:
        The folder.

    Raises:
        UserError: a member or a weight does not fit, the folder holds a reader, or there are no held-out questions with
            an answer where they are needed.
        WriteError: a file cannot be written.
    """
    folder = EnsembleDirectory(output)
    if folder.is_started:
        raise UserError(f"{folder.path} already holds a reader: name another folder")
    if not run_dirs:
        raise UserError("found no member, expected one run at least")
    if isinstance(weights, str) and weights not in (EQUAL, *METRICS):
        raise UserError(f"found the weights {weights!r}, expected {EQUAL}, numbers, or {' or '.join(METRICS)}")
    if isinstance(weights, str) and weights in METRICS and not held_out:
        raise UserError(f"weights={weights}: found no held-out questions, expected some to choose the weights on")
    if held_out is not None:
        validate_dataset("held_out", held_out)
        validate_answerable(held_out)
    for number, run_dir in enumerate(run_dirs):
        validate_type(f"run_dirs[{number}]", run_dir, str | os.PathLike, _A_FOLDER)
    chosen = weights if isinstance(weights, str) else "numbers"
    numbers = normalised_weights(None if isinstance(weights, str) else weights, len(run_dirs))
    for run_dir in run_dirs:
        # Reports a damaged member, or an ensemble in its place, before anything is written.
        reader_directory(run_dir).read_model_config()
    members = folder.path / MEMBERS
    for member in members.glob("*"):
        # Left by a command that was killed: without its file of weights the folder holds no reader.
        if RunDirectory(member).is_started:
            shutil.rmtree(member)
    folder.calibration.unlink(missing_ok=True)
    with removed_on_failure(members, folder.calibration):
        for number, run_dir in enumerate(run_dirs):
            pack(run_dir, folder.member(number).path, max_words, int8=int8)
        if held_out:
            readers = [Reader.load(folder.member(number).path, log=log) for number in range(len(run_dirs))]
            ensemble = Ensemble(readers, numbers, log=log)
            # Both read the same tokens.
            ensemble.tokenize(held_out, log=lambda line: None)
            if chosen in METRICS:
                numbers = choose_weights(ensemble, held_out, chosen, progress, unanswerable_share)
                ensemble.weights = numbers
            calibrate(ensemble, held_out, progress, unanswerable_share).save(folder.calibration)
        # Last, because its presence marks an ensemble.
        folder.write_ensemble(numbers.tolist(), chosen)
    return folder.path


def _packed(processor: TextProcessor, max_words: int) -> TextProcessor:
    return processor.packed(max_words) if isinstance(processor, WordProcessor) else processor


def _mean_weights(runs: list[RunDirectory]) -> tuple[dict[str, np.ndarray], dict]:
    """The mean of the runs' weights, and the state of a single run; nothing is known of a mean."""
    first = runs[0]
    # Read before anything is written: a folder without a run, a best checkpoint or intact files ends here.
    settings = [_settings_without_dropout(run) for run in runs]
    state, weights = first.read_weights()
    if len(runs) == 1:
        return weights, state
    sizes = first.read_processor()
    total = {name: weight.astype(np.float64) for name, weight in weights.items()}
    for run, other_settings in zip(runs[1:], settings[1:], strict=True):
        # The rows of another run's word and character tables may belong to other words.
        if not _same_words(run.read_processor(), sizes):
            raise UserError(f"{run.path}: found other words than in {first.path}, expected a run that started from it")
        _, others = run.read_weights()
        shapes = [{name: weight.shape for name, weight in part.items()} for part in (weights, others)]
        if shapes[0] != shapes[1] or other_settings != settings[0]:
            raise UserError(
                f"{run.path}: found another model than in {first.path}, expected the same except for dropout"
            )
        for name, weight in others.items():
            total[name] += weight
    return {name: (total[name] / len(runs)).astype(weight.dtype) for name, weight in weights.items()}, {}


def _same_words(one: TextProcessor, other: TextProcessor) -> bool:
    if isinstance(one, WordProcessor) and isinstance(other, WordProcessor):
        return one.vocabulary == other.vocabulary
    # The version of word pieces has a hash of them.
    is_same = one.sizes == other.sizes and one.tokenizer_version == other.tokenizer_version
    return type(one) is type(other) and is_same


def _settings_without_dropout(run: RunDirectory) -> dict:
    """The settings that decide about the run's weights; dropout may differ, and where the first weights lay."""
    config = run.read_model_config()
    settings = {name: value for name, value in config.to_dict().items() if name != config.folder_setting}
    return {name: value for name, value in settings.items() if not name.endswith(_DROPOUT)}
