"""Trains configurations on the same data with the same seeds, and writes a table of their results."""

import contextlib
import csv
import dataclasses
import json
import re
import signal
import statistics
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fabir_tf.analysis.plotting import NO_PICTURES, has_pictures
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import (
    atomic_write,
    csv_text,
    file_digest,
    named_files,
    sheet_text,
    user_path,
    write_text,
)
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.pipelines.processes import module_command
from fabir_tf.reading.run_directory import RunDirectory

# Published figures in a comment of a flag file.
_PUBLISHED = (
    (re.compile(r"F1 (\d+\.\d+), EM (\d+\.\d+)"), ("published_f1", "published_exact_match")),
    (re.compile(r"(\d+) minutes"), ("published_minutes",)),
    (
        re.compile(r"(\d+) questions/s in training and (\d+) in answering"),
        ("published_training", "published_inference"),
    ),
)
# Exit status after SIGTERM, as a shell gives it.
_TERMINATED = 143
# Flags of training that scoring needs, too.
DATA_FLAGS = ("cache_dir", "tfds_data_dir", "tfds_manual_dir", "import")
METRICS = ("parameters", "training", "inference", "epochs", "minutes", "exact_match", "f1")
SPREADS = ("exact_match_spread", "f1_spread")
PUBLISHED = (
    "published_exact_match",
    "published_f1",
    "published_minutes",
    "published_training",
    "published_inference",
)
COLUMNS = ("configuration", "seeds", *METRICS, *SPREADS, *PUBLISHED)
RUN_COLUMNS = ("configuration", "seed", *METRICS)
REPORT = "report.json"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes:
        configs: flag files of `fabir-train`, one per row of the table.
        seeds: each configuration is trained once with each seed.
        flags: further flags of every run, as `--name=value`.
        dataset: the data that the trained readers are scored on.
        folder: for all files of the comparison.
        no_answer_threshold: where readers with a null head abstain in their reports; None for readers that always
            answer.
        unused: names of flags that a configuration's model does not have, by the name of the configuration.
    """

    configs: tuple[Path, ...]
    seeds: tuple[int, ...]
    flags: tuple[str, ...]
    dataset: str
    folder: Path
    no_answer_threshold: float | None = None
    unused: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)

    def flags_of(self, config: str) -> list[str]:
        """The further flags of a configuration's runs.

        Args:
            config: its name.
        """
        unused = self.unused.get(config, frozenset())
        return [flag for flag in self.flags if _name_of(flag) not in unused]


def compare(plan: Plan, log: Callable[[str], None]) -> list[dict]:
    """Trains and scores the runs that are not done yet, and writes the table after each of them.

    Args:
        plan: the runs; the same plan resumes an interrupted comparison.
        log: called with lines about the progress.

    Returns:
        The rows of the table, by `COLUMNS`.

    Raises:
        UserError: a run failed, or the folder holds another comparison.
    """
    check_plan(plan)
    found: dict[Path, list[dict]] = {config: [] for config in plan.configs}
    # Seed by seed, so that the table has all rows early.
    for seed in plan.seeds:
        for config in plan.configs:
            log(f"== {config.stem}, seed {seed}")
            found[config].append(_run(plan, config, seed))
            rows = [_row(path, results) for path, results in found.items() if results]
            _write_tables(plan.folder, rows)
            runs = [{"configuration": path.stem} | run for path, results in found.items() for run in results]
            write_text(plan.folder / "runs.csv", csv_text(RUN_COLUMNS, runs))
    log(as_markdown(rows))
    if has_pictures():
        _draw(plan.folder / "comparison.png", rows)
    else:
        log(NO_PICTURES)
    return rows


def check_plan(plan: Plan) -> None:
    """Refuses to mix two comparisons in one folder; seeds and configurations may be added to one.

    Args:
        plan: what is compared.

    Raises:
        UserError: the folder holds another comparison.
    """
    path = plan.folder / "plan.json"
    asked = {"flags": list(plan.flags), "dataset": plan.dataset}
    digest = _digest_of_files(plan.dataset)
    digests = {flag: found for flag in plan.flags if (found := _digest_of_files(flag.partition("=")[2]))}
    if not path.exists():
        write_text(path, json.dumps(asked | {"digest": digest, "digests": digests}, indent=2) + "\n")
        return
    recorded = read_json(path)
    # Earlier versions did not record the content of files.
    known, known_digests = digest, {}
    if isinstance(recorded, dict):
        known, known_digests = recorded.pop("digest", digest), recorded.pop("digests", {})
    if recorded != asked:
        raise UserError(f"{path}: found a comparison with {recorded}, expected {asked}: name another --output")
    changed = [flag for flag, found in digests.items() if known_digests.get(flag, found) != found]
    if known != digest or changed:
        names = plan.dataset if known != digest else changed[0]
        raise UserError(
            f"{path}: the files of {names} have changed since the first runs, expected the same: name another --output"
        )


def _digest_of_files(names: str) -> str:
    """The SHA-256 of the files among some names with commas between them; "" if none is a file."""
    files = [name for name in map(user_path, named_files(names)) if name.is_file()]
    return file_digest(files) if files else ""


def _run(plan: Plan, config: Path, seed: int) -> dict:
    """The results of one run, which is trained and scored unless it is done."""
    run = RunDirectory(plan.folder / config.stem / f"seed_{seed}")
    report, settings = run.path / REPORT, run.path / "settings.flags"
    text = config.read_text(encoding="utf-8")
    if run.is_started and settings.exists() and settings.read_text(encoding="utf-8") != text:
        raise UserError(f"{config}: found other flags than in {settings}: name another --output")
    if not report.exists():
        write_text(settings, text)
        flags = [f"--flagfile={config}", *plan.flags_of(config.stem), f"--seed={seed}", f"--run_dir={run.path}"]
        flags += ["--resume"] if run.is_started else []
        run_command("train", flags, config)
        evaluate(plan, run.path, run.read_model_config().null_head, config)
    scores, history = read_json(report), read_history(run)
    exact_match, f1 = _exact_match_and_f1(scores, run.read_model_config().null_head)
    seconds = sum(float(row["seconds"]) for row in history)
    epochs = len(history) - 1
    return {
        "seed": seed,
        "parameters": _parameters(run),
        "training": _trained(run, history) / seconds if seconds else 0.0,
        "inference": scores["questions_per_second"],
        "epochs": epochs,
        "minutes": seconds / 60,
        "exact_match": exact_match,
        "f1": f1,
    }


def evaluate(plan: Plan, reader: Path, null_head: bool, config: Path) -> None:
    """Writes `REPORT` into the folder of a reader.

    Args:
        plan: what is compared.
        reader: the folder of a run or of an ensemble.
        null_head: whether it can abstain.
        config: what it is, for a message.
    """
    flags = [f"--run_dir={reader}", f"--dataset={plan.dataset}", f"--report_file={reader / REPORT}"]
    if plan.no_answer_threshold is not None and null_head:
        flags.append(f"--no_answer_threshold={plan.no_answer_threshold}")
    run_command("evaluate", [*flags, *_reading_flags(plan.flags)], config)


def _exact_match_and_f1(scores: dict, null_head: bool) -> tuple[float, float]:
    """As in the run's history: a reader with a null head has no threshold of its own yet, so the best one counts."""
    names = ("best_exact", "best_f1") if null_head and "best_f1" in scores else ("exact_match", "f1")
    return scores[names[0]], scores[names[1]]


def _trained(run: RunDirectory, history: Sequence[dict]) -> int:
    """Questions trained on over all epochs; the last epoch may have ended early."""
    counts = read_json(run.coverage)["train"]["counts"]
    batch_size = run.read_config()["training"]["batch_size"]
    in_full = (sum(counts.values()) - counts["dropped"]) * (len(history) - 1)
    return min(in_full, int(history[-1]["step"]) * batch_size)


def run_command(name: str, flags: Sequence[str], config: Path) -> None:
    """Runs a command of this package in a process of its own.

    Args:
        name: without `fabir-`.
        flags: its flags.
        config: what it is run for, for the message.

    Raises:
        UserError: it failed.
        KeyboardInterrupt: it was interrupted.
        SystemExit: this process was told to terminate; the command is ended first.
    """
    with _raising_on_termination():
        # So that a run does not affect the precision, memory and random numbers of the next.
        done = subprocess.run([*module_command("fabir_tf.commands.entry"), name, *flags], check=False)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode < 0:
        ended_by = signal.Signals(-done.returncode)
        advice = ", as the system does where memory is short" if ended_by == signal.SIGKILL else ""
        raise UserError(f"{config}: fabir-{name} was ended by {ended_by.name}{advice}")
    if done.returncode:
        raise UserError(f"{config}: fabir-{name} ended with status {done.returncode}, see the message above")


@contextlib.contextmanager
def _raising_on_termination() -> Iterator[None]:
    """Makes of SIGTERM an exception, with which `subprocess.run` ends its process; by default it would train on."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may say what a signal does.
        yield
        return

    def terminate(number: int, frame: object) -> None:
        raise SystemExit(_TERMINATED)

    former = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _reading_flags(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if _name_of(flag) in DATA_FLAGS]


def _name_of(flag: str) -> str:
    return flag.removeprefix("--").partition("=")[0]


def read_history(run: RunDirectory) -> list[dict]:
    """The rows of a run's history.csv, as texts.

    Args:
        run: a trained run.
    """
    with run.history.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_reports(plan: Plan) -> list[dict]:
    """The scores of every run, as `fabir-evaluate` gives them at the plan's threshold.

    Args:
        plan: of a comparison that is done.

    Returns:
        Each with the keys `configuration` and `seed` besides.
    """
    return [
        {"configuration": config.stem, "seed": seed} | read_json(plan.folder / config.stem / f"seed_{seed}" / REPORT)
        for config in plan.configs
        for seed in plan.seeds
    ]


def _parameters(run: RunDirectory) -> int:
    """Trainable parameters."""
    from fabir_tf.backends import backend
    from fabir_tf.models import build_model
    from fabir_tf.models.parameters import count_trainable

    # The next run needs all of a GPU's memory, which a model would take here.
    backend.use_cpu()
    # The frozen table may be large, and has no trainable parameters.
    config = run.read_model_config()
    return count_trainable(build_model(config.replace(frozen_words=0) if hasattr(config, "frozen_words") else config))


def _row(config: Path, results: Sequence[dict]) -> dict:
    row = {"configuration": config.stem, "seeds": len(results)}
    row |= {name: statistics.mean(result[name] for result in results) for name in METRICS}
    for name in ("exact_match", "f1"):
        values = [result[name] for result in results]
        row[f"{name}_spread"] = statistics.stdev(values) if len(values) > 1 else None
    return row | _published(config.read_text(encoding="utf-8"))


def _published(text: str) -> dict:
    """The published figures in the comments of a flag file, by `PUBLISHED`."""
    comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    found = dict.fromkeys(PUBLISHED)
    for pattern, names in _PUBLISHED:
        if match := pattern.search(comments):
            found |= dict(zip(names, map(float, match.groups()), strict=True))
    return found


def _write_tables(folder: Path, rows: Sequence[dict]) -> None:
    write_text(folder / "comparison.csv", sheet_text(COLUMNS, rows))
    write_text(folder / "comparison.md", as_markdown(rows) + "\n")


def _draw(path: Path, rows: Sequence[dict]) -> None:
    """Draws F1 and speed of each configuration, with the spread over seeds and the published F1 where known."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.4 * len(rows)), layout="constrained")
    scores, speeds = figure.subplots(1, 2, sharey=True)
    names = [row["configuration"] for row in rows]
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "frameon": False}
    scores.barh(names, [row["f1"] for row in rows], xerr=[row["f1_spread"] or 0.0 for row in rows])
    published = [(row["published_f1"], row["configuration"]) for row in rows if row["published_f1"]]
    if published:
        scores.scatter(*zip(*published, strict=True), marker="|", s=200, color="black", label="published", zorder=3)
        scores.legend(**above)
    scores.set_xlabel("F1")
    scores.invert_yaxis()
    height = 0.4
    for side, name in ((-0.5, "training"), (0.5, "inference")):
        positions = [number + side * height for number in range(len(rows))]
        speeds.barh(positions, [row[name] for row in rows], height, label=name)
    speeds.set_xlabel("questions/s")
    speeds.legend(**above)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)


def as_markdown(rows: Sequence[dict]) -> str:
    """The table in Markdown.

    Args:
        rows: from `compare`.
    """
    speeds = ("training, questions/s", "inference, questions/s")
    head = ("", "seeds", "parameters", *speeds, "epochs", "minutes", "EM", "F1", "published EM, F1")
    has_times = any(row["published_minutes"] for row in rows)
    head += ("published training", "published inference", "published minutes") if has_times else ()
    lines = [markdown_row(head), markdown_row(["---"] * len(head))]
    for row in rows:
        published = f"{row['published_exact_match']}, {row['published_f1']}" if row["published_f1"] else ""
        cells = [
            row["configuration"],
            row["seeds"],
            f"{row['parameters']:,.0f}",
            f"{row['training']:,.0f}",
            f"{row['inference']:,.0f}",
            f"{row['epochs']:.0f}",
            f"{row['minutes']:.1f}",
            _with_spread(row, "exact_match"),
            _with_spread(row, "f1"),
            published,
        ]
        if has_times:
            times = (row[name] for name in ("published_training", "published_inference", "published_minutes"))
            cells += ["" if time is None else f"{time:,.0f}" for time in times]
        lines.append(markdown_row(cells))
    return "\n".join(lines)


def markdown_row(cells: Sequence) -> str:
    """A row of a Markdown table.

    Args:
        cells: its texts or numbers.
    """
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _with_spread(row: dict, name: str) -> str:
    spread = row[f"{name}_spread"]
    return f"{row[name]:.2f}" + ("" if spread is None else f" ± {spread:.2f}")
