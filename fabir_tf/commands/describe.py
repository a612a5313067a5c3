"""Counts a dataset: questions with and without an answer, lengths, and the shares over the papers' limits.

    fabir-describe --datasets=train-v2.0.json,dev-v2.0.json
    fabir-describe --datasets=squad/v1.1 --vectors=glove.6B.100d.txt --json_file=statistics.json

Each file is a column of the table; a dataset with a name, such as sample or squad/v1.1, is two, train and dev. Lengths
are counted in tokens and once for each question. --passage_limits, --question_limits and --answer_limits name other
limits than the papers'.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("describe")

import json
from collections.abc import Iterator

from absl import flags

from fabir_tf.analysis.data_statistics import LIMITS, as_table, data_statistics
from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.sources import load_dataset, names_file
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, validate_writable, write_text
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.pipelines.text.word_vectors import load_vectors


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    flags.DEFINE_list("datasets", [], "Data to count: files of questions, TFDS names or sample.")
    flags.DEFINE_string("vectors", "none", "Word vectors, for the share of words that have one: bundled or a file.")
    for text, limits in LIMITS.items():
        default = [str(limit) for limit in limits]
        flags.DEFINE_list(f"{text}_limits", default, f"Numbers of tokens over which {text}s are counted.")
    flags.DEFINE_string("json_file", None, "File for the same numbers, as JSON.")
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Counts the datasets and prints a table."""
    cli.validate_given(values, datasets="the data to count")
    limits = {text: _limits(values, f"{text}_limits") for text in LIMITS}
    if values.json_file:
        for name in values.datasets:
            cli.validate_other_file("json_file", values.json_file, {"datasets": name, "vectors": values.vectors})
        validate_writable(values.json_file)
    tokenized = dict(_tokenized(values))
    known = _known(values.vectors, tokenized)
    found = {name: data_statistics(data, limits, known) for name, data in tokenized.items()}
    with named_errors("standard output"):
        print(as_table(found), flush=True)
    if values.json_file:
        write_text(values.json_file, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def _limits(values: flags.FlagValues, flag: str) -> list[int]:
    for text in values[flag].value:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise UserError(f"--{flag}: found {text!r}, expected whole numbers, separated by commas")
    return [int(text) for text in values[flag].value]


def _tokenized(values: flags.FlagValues) -> Iterator[tuple[str, TokenizedDataset]]:
    """Each column's name and data."""
    options = cli.data_options(values)
    for name in dict.fromkeys(values.datasets):
        for split in ("train",) if names_file(name) else ("train", "dev"):
            folders = options.tfds_folders
            data = load_dataset(name, split, **folders, flag="--datasets", log=cli.to_stderr)
            column = name if names_file(name) else f"{name}, {split}"
            yield column, tokenize_dataset(data, WordTokenizer(), options.cache_dir, cli.to_stderr)


def _known(vectors: str, tokenized: dict[str, TokenizedDataset]) -> set[str] | None:
    if vectors == "none":
        return None
    needed = {word.lower() for data in tokenized.values() for word in data.texts.unique}
    return set(load_vectors(vectors, needed).words)


def run() -> None:
    """Entry point of `fabir-describe`."""
    define_flags()
    cli.run_command(main, __doc__)
