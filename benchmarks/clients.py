"""How many questions per second an exported reader answers when each client asks one at a time.

    fabir-export --model=fabir-base --export_dir=exported/fabir
    python benchmarks/clients.py --version=exported/fabir/1 --dataset=dev-v1.1.json

Two processes with TensorFlow alone take turns. In one, TensorFlow splits each operation over all cores, as it does by
itself; in the other, TF_NUM_INTRAOP_THREADS=1 leaves each operation to one thread. Clients are threads that wait for
their answer before they ask again.
"""

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from absl import flags
from common import (
    Contender,
    counts,
    draw_bars,
    machine,
    print_table,
    ratios,
    run,
    shown,
    spaced,
    spread,
    take_turns,
    timed,
)

QUESTIONS = 200
# What TF_NUM_INTRAOP_THREADS is set to; None leaves it as it is.
THREADS = {"all cores": None, "one thread": "1"}

flags.DEFINE_string("version", None, "The folder of a version that fabir-export wrote, such as exported/fabir/1.")
flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file or sample.")
flags.DEFINE_list("clients", ["1", "2", "4"], "Numbers of clients.")


def measure(values: flags.FlagValues) -> dict:
    """Runs the race."""
    from fabir_tf.commands import cli
    from fabir_tf.pipelines.datasets.sources import load_dataset
    from fabir_tf.pipelines.errors import UserError

    cli.validate_given(values, version="the folder of an exported reader")
    if not Path(values.version, "saved_model.pb").is_file():
        raise UserError(f"--version={values.version}: expected the folder of a version that fabir-export wrote")
    numbers = counts(values, "clients")
    data = load_dataset(values.dataset, "dev")
    asked = [(question.text, data.passages[question.passage]) for question in spaced(data.questions, QUESTIONS)]
    describe = "{speed:.1f} questions/s".format_map
    with contextlib.ExitStack() as stack:
        contenders = {
            name: stack.enter_context(Contender(exported, values.version, asked, threads))
            for name, threads in THREADS.items()
        }
        found = {count: take_turns(contenders, values.turns, str(count), describe=describe) for count in numbers}
    print(f"\n{machine()['processor']}, {machine()['cores']} cores")
    return {str(count): _report(count, turns) for count, turns in found.items()}


def exported(version: str, asked: list[tuple[str, str]], threads: str | None) -> Callable[[str], dict[str, float]]:
    """Loads an exported reader and answers all questions once.

    Args:
        version: the folder of the SavedModel.
        asked: questions and their passages.
        threads: what `TF_NUM_INTRAOP_THREADS` is set to; None leaves it as it is.

    Returns:
        A function that takes the number of clients and measures them.
    """
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    if threads:
        os.environ["TF_NUM_INTRAOP_THREADS"] = threads
    import tensorflow as tf

    serve = tf.saved_model.load(version).signatures["serving_default"]

    def answer(texts: tuple[str, str]) -> bytes:
        question, passage = (tf.constant([text]) for text in texts)
        return serve(question=question, passage=passage)["answer"].numpy()[0]

    def all_answers(clients: int) -> int:
        with ThreadPoolExecutor(clients) as pool:
            return len(list(pool.map(answer, asked)))

    all_answers(1)
    return lambda clients: timed(lambda: all_answers(int(clients)))


def _report(clients: int, turns: dict[str, list[dict]]) -> dict:
    rows = {
        name: {key: spread(turn[key] for turn in found) for key in ("speed", "processor_ms", "peak_mib")}
        for name, found in turns.items()
    }
    faster = ratios(*([turn["speed"] for turn in turns[name]] for name in ("one thread", "all cores")))
    print_table(
        f"{clients} clients, one question at a time: questions/s, one thread / all cores = {shown(faster, '.2f')}",
        ("each operation on", "questions/s", "ms of processor time a question", "peak MiB"),
        [
            (name, shown(row["speed"], ".1f"), shown(row["processor_ms"], ".1f"), shown(row["peak_mib"]))
            for name, row in rows.items()
        ],
    )
    return {"turns": turns, "one thread / all cores": faster}


def draw(figure, found: dict) -> None:
    """Draws questions/s for each number of clients."""
    bars = {
        f"{count} clients, {name}": spread(turn["speed"] for turn in turns)
        for count, result in found.items()
        for name, turns in result["turns"].items()
    }
    draw_bars(figure.subplots(), list(bars), list(bars.values()), "questions/s")


if __name__ == "__main__":
    run(__doc__, measure, draw)
