"""Writes what readers say of texts as a teacher of the same texts roughened by roughen_texts.py.

    python benchmarks/roughen_texts.py --dataset=train.json --misspellings=misspellings.tsv --output=rough.json
    python benchmarks/teach_roughened.py --dataset=train.json --roughened=rough.json --output=teacher.npz

A reader that learns from it says of a rough text what its teacher says of the clean one. Where a passage lost its
punctuation, the distributions of its other tokens stay and are scaled to a sum of 1.
"""

from collections.abc import Iterator

import numpy as np
from absl import flags
from punctuation import without_punctuation

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.teacher_distributions import KEPT, TeacherDistributions
from fabir_tf.pipelines.files import validate_writable
from fabir_tf.reading.reader import Reader
from fabir_tf.training.distillation import teach

flags.DEFINE_list("readers", ["fabir-base"], "Folders of readers, or names of those of the package, comma-separated.")
flags.DEFINE_string("dataset", None, "The texts as they are.")
flags.DEFINE_string("roughened", None, "What roughen_texts.py made of --dataset.")
flags.DEFINE_string("output", None, "File for the distributions.")


def roughened(taught: TeacherDistributions, clean: SquadData, rough: SquadData, reader: Reader) -> TeacherDistributions:
    """The distributions for the rough texts.

    Args:
        taught: those for the clean texts.
        clean, rough: the texts; their questions have the same ids.
        reader: one of the teachers, which cuts texts into tokens.

    Raises:
        UserError: a passage is neither the same nor the same without punctuation.
    """
    rows = {identifier: row for row, identifier in enumerate(taught.ids)}
    passages = {question.id: clean.passages[question.passage] for question in clean.questions}
    columns: dict[str, np.ndarray] = {}

    def distributions() -> Iterator[tuple[str, np.ndarray]]:
        for question in rough.questions:
            if question.id not in rows or question.id not in passages:
                continue
            both = _dense(taught, rows[question.id])
            old, new = passages[question.id], rough.passages[question.passage]
            if old != new:
                if new not in columns:
                    columns[new] = _kept_tokens(reader, old, new)
                if not len(columns[new]):
                    continue
                both = both[:, [*columns[new], -1]]
            yield question.id, both

    return TeacherDistributions.collect(distributions())


def _dense(taught: TeacherDistributions, row: int) -> np.ndarray:
    """Float `(2, passage + 1)`, the last column that of "no answer"."""
    both = np.zeros((2, taught.lengths[row] + 1), np.float32)
    for side in range(2):
        # Short passages repeat a token with probability 0.
        np.add.at(both[side], taught.indices[row, side, :KEPT], taught.probabilities[row, side, :KEPT])
    both[:, -1] = taught.null_probabilities[row]
    return both


def _kept_tokens(reader: Reader, old: str, new: str) -> np.ndarray:
    """The tokens of a passage that are left without punctuation; none if the rest is cut into others."""
    text, offsets = without_punctuation(old)
    if text != new:
        raise UserError(
            f"--roughened: found the passage {new[:60]!r}, expected one of --dataset, or without punctuation"
        )
    tokens, left = reader.processor.tokenize_text(old), reader.processor.tokenize_text(new)
    starts, ends = (np.array([offsets[place] for place in part]) for part in (tokens.starts, tokens.ends))
    kept = np.flatnonzero(ends > starts)
    return kept if np.array_equal(starts[kept], left.starts) else np.array([], np.int64)


def main(values: flags.FlagValues) -> None:
    """Reads the clean texts and writes the distributions."""
    needed = {"dataset": "the clean texts", "roughened": "the rough ones", "output": "the file to write"}
    cli.validate_given(values, **needed)
    validate_writable(values.output)
    clean, rough = (load_dataset(name, "train", log=cli.to_stderr) for name in (values.dataset, values.roughened))
    readers = [Reader.load(name) for name in values.readers]
    found = roughened(teach(readers, clean, cli.show_progress), clean, rough, readers[0])
    found.save(values.output)
    print(f"{values.output}: {len(found.ids):,} of {len(rough.questions):,} questions")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
