"""Makes an index of documents, or brings it up to date, for fabir-search.

    fabir-index --input=docs --index=docs.index
    fabir-index --input=pages.jsonl --index=pages.index
    fabir-index --input=pages.jsonl --index=pages --shards=8

The input is a folder of text, Markdown, reStructuredText, HTML or PDF, one such file, or JSON lines with the fields
text, id or source, and perhaps title and format. What has not changed since the last time is left as it is, and what is
no longer there is removed. An index that was interrupted goes on when the command is started again. With --shards the
index is a folder of several files, which all cores make together and which answers as one file does.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("index")

import itertools
from collections.abc import Callable, Iterator

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.commands.progress import Progress
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.documents.documents import Document
from fabir_tf.pipelines.documents.folder import read_documents
from fabir_tf.pipelines.documents.index import Changes, DocumentIndex
from fabir_tf.pipelines.documents.shard_building import build_shards
from fabir_tf.pipelines.documents.sharded_index import MOST_SHARDS, ShardedIndex, find_shards
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position, named_errors, user_path, validate_writable


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    flags.DEFINE_string("input", None, "Folder, file, or documents as JSON lines.")
    flags.DEFINE_string("index", None, "File of the index, or folder of its shards; a missing one is made.")
    flags.DEFINE_integer(
        "shards",
        None,
        "Files of a new index, which is then a folder. An index that is there keeps its number. Default: one file.",
        lower_bound=1,
        upper_bound=MOST_SHARDS,
    )


def main(values: flags.FlagValues) -> None:
    """Reads the documents and writes the index."""
    cli.validate_given(values, input="the folder or file to index", index="the file of the index")
    cli.validate_other_file("index", values.index, {"input": values.input})
    skipped: list[str] = []

    def skip(sentence: str) -> None:
        cli.to_stderr(sentence)
        skipped.append(sentence)

    shards = _shards_of(values)
    make = _make_file if shards is None else _make_shards
    changes, paragraphs = make(values, skip, shards)
    count = changes.added + changes.changed + changes.unchanged
    with named_errors("standard output"):
        print(
            f"{values.index}: {counted(paragraphs, 'paragraph')} of {counted(count, 'document')}: "
            f"{changes.added:,} added, {changes.changed:,} changed, {changes.unchanged:,} unchanged, "
            f"{changes.removed:,} removed, {len(skipped):,} left out",
            flush=True,
        )


def _shards_of(values: flags.FlagValues) -> int | None:
    """How many files the index has, or gets; None for a single one."""
    path = user_path(values.index)
    found = find_shards(path)
    if found is None:
        if path.is_file() and (values.shards or 1) > 1:
            raise UserError(
                f"--shards={values.shards}: {values.index} is an index in one file, expected a new folder: name another"
                " --index"
            )
        return values.shards if (values.shards or 1) > 1 else None
    if values.shards not in (None, found.count):
        raise UserError(
            f"--shards={values.shards}: {values.index} is an index of {found.count} shards, expected that number or "
            "none"
        )
    return found.count


def _make_file(values: flags.FlagValues, skip: Callable[[str], None], shards: None) -> tuple[Changes, int]:
    # Before the index is made, so that a mistake leaves none behind.
    position = Position()
    unread: set[str] = set()
    documents = read_documents(values.input, skip, position, unread.add)
    first = _first_of(documents, values)
    validate_writable(values.index)
    with DocumentIndex(values.index, create=True) as index:
        with Progress("documents", position) as progress:
            every = itertools.chain([first], documents)
            changes = index.update(every, lambda done, _: progress.show(done), skip, unread)
        return changes, len(index)


def _make_shards(values: flags.FlagValues, skip: Callable[[str], None], shards: int) -> tuple[Changes, int]:
    faults: list[str] = []
    try:
        _first_of(read_documents(values.input, faults.append), values)
    except UserError:
        # Otherwise the processes report what they leave out.
        for sentence in faults:
            skip(sentence)
        raise
    path = user_path(values.index)
    validate_writable(path / "shard" if path.is_dir() else path)
    with ShardedIndex(values.index, create=shards) as index:
        files = index.shards
    with Progress("documents") as progress:
        changes = build_shards(files, values.input, progress.show, skip)
    with ShardedIndex(values.index) as index:
        return changes, len(index)


def _first_of(documents: Iterator[Document], values: flags.FlagValues) -> Document:
    first = next(documents, None)
    if first is None:
        raise UserError(f"--input={values.input}: found no document that can be read")
    return first


def run() -> None:
    """Entry point of `fabir-index`."""
    define_flags()
    cli.run_command(main, __doc__)
