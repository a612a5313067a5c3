"""Reads the table of runs that fabir-compare writes."""

import csv
from pathlib import Path

from fabir_tf.pipelines.errors import UserError

COLUMNS = {"configuration", "seed", "exact_match", "f1"}


def read_runs(paths: list[str]) -> dict[str, list[dict]]:
    """Reads the runs by configuration, in the order of the files.

    Raises:
        UserError: a file is missing, empty or of another kind, a run occurs twice, or a score is not a number.
    """
    runs, seen = {}, set()
    for path in paths:
        if not Path(path).is_file():
            raise UserError(f"--runs: {path}: no such file, expected runs.csv of fabir-compare")
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if not set(reader.fieldnames or ()) >= COLUMNS:
                raise UserError(f"--runs: {path}: found no columns {', '.join(sorted(COLUMNS))}, expected runs.csv")
            rows = list(reader)
        if not rows:
            raise UserError(f"--runs: {path}: found no runs, expected a line for each")
        for row in rows:
            name = (row["configuration"], row["seed"])
            if name in seen:
                raise UserError(f"--runs: {path}: found {name[0]} with seed {name[1]} a second time")
            seen.add(name)
            runs.setdefault(name[0], []).append({key: read_score(path, row, key) for key in ("exact_match", "f1")})
    return runs


def read_score(path: str, row: dict, key: str) -> float:
    """Reads the score `key` of a run.

    Raises:
        UserError: it is not a number.
    """
    try:
        return float(row[key])
    except (TypeError, ValueError):
        name = f"{row['configuration']} with seed {row['seed']}"
        raise UserError(f"--runs: {path}: {name}: {key} is {row[key]!r}, expected a number") from None
