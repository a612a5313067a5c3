"""Makes an index of documents, or brings it up to date, for fabir-search.

    fabir-index --input=docs --index=docs.index
    fabir-index --input=pages.jsonl --index=pages.index

The input is a folder of text, Markdown, reStructuredText, HTML or PDF, one such file, or JSON lines with the fields
text, id or source, and perhaps title and format. What has not changed since the last time is left as it is, and what is
no longer there is removed. An index that was interrupted goes on when the command is started again.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("index")

import itertools

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.commands.progress import Progress
from fabir_tf.pipelines.documents.folder import read_documents
from fabir_tf.pipelines.documents.index import DocumentIndex
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position, named_errors, validate_writable


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    flags.DEFINE_string("input", None, "Folder, file, or documents as JSON lines.")
    flags.DEFINE_string("index", None, "File of the index; a missing one is made.")


def main(values: flags.FlagValues) -> None:
    """Reads the documents and writes the index."""
    cli.validate_given(values, input="the folder or file to index", index="the file of the index")
    cli.validate_other_file("index", values.index, {"input": values.input})
    skipped: list[str] = []

    def skip(sentence: str) -> None:
        cli.to_stderr(sentence)
        skipped.append(sentence)

    # Before the index is made, so that a mistake leaves none behind.
    position = Position()
    documents = read_documents(values.input, skip, position)
    first = next(documents, None)
    if first is None:
        raise UserError(f"--input={values.input}: found no document that can be read")
    validate_writable(values.index)
    with DocumentIndex(values.index, create=True) as index:
        with Progress("documents", position) as progress:
            changes = index.update(itertools.chain([first], documents), lambda done, _: progress.show(done), skip)
        count = changes.added + changes.changed + changes.unchanged
        with named_errors("standard output"):
            print(
                f"{values.index}: {len(index):,} paragraphs of {count:,} documents: {changes.added:,} added, "
                f"{changes.changed:,} changed, {changes.unchanged:,} unchanged, {changes.removed:,} removed, "
                f"{len(skipped):,} left out",
                flush=True,
            )


def run() -> None:
    """Entry point of `fabir-index`."""
    define_flags()
    cli.run_command(main, __doc__)
