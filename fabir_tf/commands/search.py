"""Answers questions from an index of documents that fabir-index made.

    fabir-search --run_dir=runs/base --index=docs.index --question="Which flag resumes a run?"
    fabir-search --run_dir=runs/base --index=docs.index --input_file=questions.txt --output_file=answers.jsonl

The input is one question a line, or a file of questions, whose passages are not looked at; "-" is standard input. Each
answer is one JSON line, as those of fabir-predict --document. Where the command was interrupted, the same with --resume
goes on.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("search")

from absl import flags

from fabir_tf.commands import answering, cli, reader_flags
from fabir_tf.pipelines.documents.sharded_index import open_index
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import Position


def define_flags() -> None:
    """Flags of the command."""
    reader_flags.define_reader_flags("answers")
    flags.DEFINE_string("index", None, "File or folder that fabir-index wrote.")
    flags.DEFINE_string("question", None, "The question.")
    text = "File of questions instead: one a line, or SQuAD JSON, JSON lines, CSV or Parquet; - is standard input."
    flags.DEFINE_string("input_file", None, text)
    answering.define_paragraphs_flag()
    answering.define_output_flags()


def main(values: flags.FlagValues) -> None:
    """Searches the index for each question, reads what it finds and writes the answers."""
    folder = reader_flags.needed_reader_folder(values)
    cli.validate_given(values, index="the file that fabir-index wrote")
    position = Position()
    records = answering.asked_records(values, position)
    answering.validate_output(values, "input_file", "index")
    with open_index(values.index) as index:
        if not len(index):
            raise UserError(f"--index={values.index}: found no text to answer from, expected an index with documents")
        answering.write_document_answers(values, records, reader_flags.load_reader(values, folder), index, position)


def run() -> None:
    """Entry point of `fabir-search`."""
    define_flags()
    cli.run_command(main, __doc__)
