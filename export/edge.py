"""A trained reader for programs without TensorFlow: its model as ONNX, LiteRT or OpenVINO, and all that it needs."""

import dataclasses
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fabir_tf.edge.decoders import DECODERS, settings_of
from fabir_tf.edge.edge_reader import EdgeReader
from fabir_tf.edge.runtimes import RUNTIMES
from fabir_tf.edge.settings import CALIBRATION_FILE, PROCESSOR_FOLDER, EdgeSettings
from fabir_tf.export.converters import CONVERTERS, model_graph
from fabir_tf.export.saved_model import version_folder, written_whole
from fabir_tf.export.warm_up import BATCH, PASSAGE_TOKENS, sample_texts
from fabir_tf.models import model_name
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import QuestionAnswerer
from fabir_tf.reading.reader import Reader, validate_single


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Most that an exported reader may differ from its original, by rounding.

    Attributes:
        probability, score: of any answer; see `Answer`.
        mean_probability: of all answers on average.
    """

    probability: float
    score: float
    mean_probability: float


TOLERANCES = {"none": Tolerance(0.005, 0.02, 0.001), "int8": Tolerance(0.5, 5.0, 0.03)}
"""By quantization."""


def export_edge(
    reader: Reader,
    export_dir: str | os.PathLike,
    target: str,
    version: int | None = None,
    quantization: str = "none",
    log: Callable[[str], object] = print,
) -> Path:
    """Writes `<export_dir>/<version>/` for `fabir_tf.edge.EdgeReader`, whole or not at all.

    The folder holds the model, which takes what the signature `token_ids` of a SavedModel takes, without the lengths:
    ids, padded with 0. It also holds the text processor, the calibration and the settings, and is compared with the
    reader before it gets its name.

    Args:
        reader: a trained reader, in float32.
        export_dir: a folder; it is created if it is missing.
        target: "onnx", "litert" or "openvino".
        version: a positive number; None takes the one after the latest.
        quantization: "none", or with litert also "int8": weights of 8 bits.
        log: called with one sentence about the comparison.

    Returns:
        The folder of the version.

    Raises:
        UserError: the version exists, a package is missing, the model cannot be converted, or it answers otherwise than
            the reader.
        WriteError: the folder cannot be written.
    """
    validate_target(target, quantization)
    # An ensemble has several models.
    validate_single(reader)
    folder = version_folder(export_dir, version)
    settings = _settings(reader, target, quantization)
    with written_whole(folder) as unfinished:
        _write_model(reader, settings, unfinished)
        reader.processor.without_tables().save(unfinished / PROCESSOR_FOLDER)
        if reader.calibration:
            reader.calibration.save(unfinished / CALIBRATION_FILE)
        settings.save(unfinished)
        log(compared(reader, EdgeReader.load(unfinished, log=_silent), quantization))
    return folder


def validate_target(target: str, quantization: str = "none") -> None:
    """Checks that a format can be written and read here.

    Args:
        target, quantization: as for `export_edge`.

    Raises:
        UserError: there is no such format, or a package is missing.
    """
    if target not in CONVERTERS:
        raise UserError(f"the format must be one of {', '.join(CONVERTERS)}, found {target!r}")
    converter = CONVERTERS[target]
    if quantization not in converter.quantizations:
        names = [name for name, other in CONVERTERS.items() if quantization in other.quantizations]
        raise UserError(
            f"quantization={quantization}: found the format {target}, expected {' or '.join(names) or 'none of them'}"
        )
    missing = [package for module, package in converter.packages.items() if not importlib.util.find_spec(module)]
    if missing:
        raise UserError(
            f"the format {target} needs {' and '.join(missing)}, which is not installed: "
            f"pip install 'fabir_tf[{target}]'"
        )


def compared(reader: QuestionAnswerer, exported: QuestionAnswerer, quantization: str = "none") -> str:
    """Compares an exported reader with its original on passages of several lengths, some of them read in windows.

    Args:
        reader: the original.
        exported: what was read back.
        quantization: of the exported one, which decides what may differ.

    Returns:
        One sentence about what differs.

    Raises:
        UserError: more differs than rounding explains.
    """
    texts = [sample_texts(tokens, BATCH) for tokens in PASSAGE_TOKENS]
    questions, passages = ([text for pair in texts for text in pair[part]] for part in (0, 1))
    both = (answerer.answer_batch(questions, passages) for answerer in (reader, exported))
    answers = list(zip(*both, strict=True))
    same = sum((one.start, one.end) == (other.start, other.end) for one, other in answers)
    probability = np.array([abs(one.probability - other.probability) for one, other in answers])
    score = max(abs(one.score - other.score) for one, other in answers)
    sentence = (
        f"{same} of {len(answers)} answers are those of the reader; their probabilities differ by at most "
        f"{probability.max():.6f} and by {probability.mean():.6f} on average, their scores by at most {score:.4f}"
    )
    limit = TOLERANCES[quantization]
    found = (probability.max(), score, probability.mean())
    # Written so that NaN fails, too.
    if not all(value <= most for value, most in zip(found, dataclasses.astuple(limit), strict=True)):
        raise UserError(f"the exported model is not the reader: {sentence}; expected at most {limit}")
    return sentence


def _settings(reader: Reader, target: str, quantization: str) -> EdgeSettings:
    if reader.precision != "float32":
        raise UserError(f"precision={reader.precision}: expected float32, which the format {target} computes in")
    decoder = reader.config.decoder(1)
    if type(decoder).__name__ not in DECODERS:
        raise UserError(
            f"the decoder {type(decoder).__name__} has no form without Keras, expected one of {', '.join(DECODERS)}"
        )
    return EdgeSettings(
        target,
        quantization,
        model_name(reader.config),
        reader.max_passage,
        reader.config.null_head,
        settings_of(decoder),
        reader.no_answer_threshold,
        reader.calibration is not None,
    )


def _write_model(reader: Reader, settings: EdgeSettings, folder: Path) -> None:
    converter, is_quantised = CONVERTERS[settings.target], settings.quantization == "int8"
    graph = model_graph(reader, converter.batch, is_quantised, converter.half_precision)
    try:
        converter.write(graph, folder / RUNTIMES[settings.target].file, is_quantised)
    except OSError:
        raise
    # Converters have many kinds of errors for an operation that they lack.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"the model {settings.model} cannot be converted to {settings.target} ({reason}), expected another format"
        ) from error


def _silent(line: str) -> None:
    pass
