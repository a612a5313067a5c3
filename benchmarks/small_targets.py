"""How large, how good and how fast is a reader in each format that fabir-export writes?

python benchmarks/small_targets.py --dataset=dev-v1.1.json

Needs the extras onnx, litert and openvino. Each format answers in a process of its own, one question at a time, in
turns with the others; the exported reader always answers.
"""

import dataclasses
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import common
from absl import flags

SAVED_MODEL = "saved_model"
# Name in the table: format and quantization.
FORMATS = {
    SAVED_MODEL: (SAVED_MODEL, "none"),
    "onnx": ("onnx", "none"),
    "litert": ("litert", "none"),
    "litert-int8": ("litert", "int8"),
    "openvino": ("openvino", "none"),
}
PRECISIONS = {"none": "float32", "int8": "int8"}


def define_flags() -> None:
    """Flags of this benchmark."""
    flags.DEFINE_string("model", "fabir-base", "The reader, by name or folder.")
    flags.DEFINE_string("dataset", None, "Questions to answer: a file, or sample.", required=True)
    flags.DEFINE_integer("questions", 1000, "Questions that are scored, drawn at random; 0 for all.", lower_bound=0)
    flags.DEFINE_integer("timed_questions", 100, "Questions of a turn that is timed.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Seed of the questions that are drawn.")
    flags.DEFINE_list("formats", list(FORMATS), "Formats to measure.")
    flags.DEFINE_list("threads", ["1", "2"], "Processor threads.")


def answerer(name: str, folder: str, threads: int, questions: list[str], passages: list[str]) -> Callable[..., Any]:
    """A process that answers with an exported reader; an edge format imports no TensorFlow.

    Args:
        name: of the format.
        folder: of the version.
        threads: processor threads.
        questions, passages: those to answer.
    """
    begin = time.perf_counter()
    load = _saved_model if name == SAVED_MODEL else _edge
    reader = load(folder, threads)
    reader.answer(questions[0], passages[0])
    first = time.perf_counter() - begin

    def answer(request: str, numbers: Sequence[int]) -> Any:
        if request == "first":
            return {"seconds": first, "peak_mib": common.peak_mib()}
        if request == "answers":
            found = reader.answer_batch([questions[i] for i in numbers], [passages[i] for i in numbers])
            return [(one.text, one.probability) for one in found]
        return common.timed(lambda: sum(bool(reader.answer(questions[i], passages[i])) for i in numbers))

    return answer


def _saved_model(folder: str, threads: int):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    from fabir_tf.export import SavedModelReader

    return SavedModelReader(folder)


def _edge(folder: str, threads: int):
    from fabir_tf.edge import EdgeReader

    return EdgeReader.load(folder, threads)


def measure(values: flags.FlagValues) -> dict:
    """Exports, scores and times each format."""
    from fabir_tf.pipelines.datasets.sources import load_dataset

    names = common.chosen(values, "formats", FORMATS)
    threads = common.counts(values, "threads")
    data = load_dataset(values.dataset, "dev")
    if 0 < values.questions < len(data.questions):
        drawn = random.Random(values.seed).sample(data.questions, values.questions)
        data = dataclasses.replace(data, questions=tuple(drawn))
    with tempfile.TemporaryDirectory() as folder:
        folders = _export(values.model, names, Path(folder))
        found = {
            "questions": len(data.questions),
            "sizes": {name: _size(path) for name, path in folders.items()},
            "scores": _scores(data, folders, max(threads)),
            "speed": {count: _speed(values, data, folders, count) for count in threads},
        }
    _print(found, threads)
    return found


def _export(model: str, names: list[str], folder: Path) -> dict[str, Path]:
    import fabir_tf
    from fabir_tf.export import export_edge, export_reader

    reader = fabir_tf.Reader.load(model, no_answer_threshold=None)
    found = {}
    for name in names:
        target, quantization = FORMATS[name]
        if target == SAVED_MODEL:
            found[name] = export_reader(reader, folder / name)
        else:
            found[name] = export_edge(reader, folder / name, target, quantization=quantization)
    return found


def _size(folder: Path) -> int:
    """Bytes of what answers; warm-up requests are not needed."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "assets.extra")
    return sum(path.stat().st_size for path in files)


def _texts(data) -> tuple[list[str], list[str]]:
    return [one.text for one in data.questions], [data.passages[one.passage] for one in data.questions]


def _scores(data, folders: dict[str, Path], threads: int) -> dict[str, dict[str, float]]:
    """F1, EM, and how many answers are those of the first format."""
    from fabir_tf.pipelines.datasets.squad_metrics import answer_scores, exact_match, f1

    found: dict[str, dict[str, float]] = {}
    first: list[tuple[str, float]] = []
    for name, folder in folders.items():
        with common.Contender(answerer, name, str(folder), threads, *_texts(data)) as contender:
            answers = contender.ask("answers", range(len(data.questions)))
        first = first or answers
        texts = [text for text, _ in answers]
        same = [one[0] == other[0] for one, other in zip(first, answers, strict=True)]
        differences = [abs(one[1] - other[1]) for one, other in zip(first, answers, strict=True)]
        f1_scores, matches = (answer_scores(metric, data, texts) for metric in (f1, exact_match))
        found[name] = {
            "f1": 100 * sum(f1_scores) / len(texts),
            "em": 100 * sum(matches) / len(texts),
            "same": sum(same),
            "largest_difference": max(differences),
        }
        common.show_turn(1, 1, f"{name}: F1 {found[name]['f1']:.2f}, {sum(same)} of {len(same)} answers the same")
    return found


def _speed(values: flags.FlagValues, data, folders: dict[str, Path], threads: int) -> dict[str, dict]:
    texts = _texts(data)
    numbers = common.spaced(range(len(data.questions)), values.timed_questions)
    contenders = {
        name: common.Contender(answerer, name, str(folder), threads, *texts) for name, folder in folders.items()
    }
    try:
        first = {name: contender.ask("first", ()) for name, contender in contenders.items()}
        # Each has met the lengths of the questions before it is timed.
        for contender in contenders.values():
            contender.ask("speed", numbers)
        turns: dict[str, list[dict]] = {name: [] for name in contenders}
        for turn in range(1, values.turns + 1):
            for name, contender in contenders.items():
                turns[name].append(contender.ask("speed", numbers))
                line = f"{threads} threads, {name}: {turns[name][-1]['speed']:.1f} questions/s"
                common.show_turn(turn, values.turns, line)
    finally:
        for contender in contenders.values():
            contender.__exit__()
    return {
        name: {
            "speed": common.spread(turn["speed"] for turn in found),
            "processor_ms": common.spread(turn["processor_ms"] for turn in found),
            "first_answer_seconds": first[name]["seconds"],
            "peak_mib": found[-1]["peak_mib"],
        }
        for name, found in turns.items()
    }


def _print(found: dict, threads: list[int]) -> None:
    header = ["format", "precision", "MB", "F1", "EM", "same answers"]
    header += [f"questions/s, {count} thread{'s' * (count > 1)}" for count in threads]
    header += ["processor ms a question", "first answer s", "peak MiB"]
    rows = []
    for name, scores in found["scores"].items():
        target, quantization = FORMATS[name]
        speeds = [found["speed"][count][name] for count in threads]
        rows.append(
            [
                target,
                PRECISIONS[quantization],
                f"{found['sizes'][name] / 1e6:.1f}",
                f"{scores['f1']:.2f}",
                f"{scores['em']:.2f}",
                f"{scores['same']:,} of {found['questions']:,}",
                *(common.shown(speed["speed"]) for speed in speeds),
                common.shown(speeds[0]["processor_ms"], ".1f"),
                f"{speeds[0]['first_answer_seconds']:.1f}",
                speeds[0]["peak_mib"],
            ]
        )
    common.print_table("Formats, one question at a time", header, rows)


def draw(figure, found: dict) -> None:
    """Questions a second of each format, with the most threads."""
    threads = list(found["speed"])[-1]
    speeds = {name: part["speed"] for name, part in found["speed"][threads].items()}
    common.draw_bars(figure.subplots(), list(speeds), list(speeds.values()), f"questions/s, {threads} threads")


if __name__ == "__main__":
    define_flags()
    common.run(__doc__, measure, draw)
