"""Answers questions about millions of records with Apache Beam, on several processes or machines.

    fabir-beam --saved_model=exported/1 --input=reviews-*.jsonl --question="What broke?" --output_dir=answers
    fabir-beam --saved_model=exported/1 --input=questions.csv --output_dir=answers --num_processes=4
    fabir-beam --saved_model=exported/1 --input=notes --question="Who decided?" --best_per_question=10 --output_dir=out

The input is JSON lines, CSV or Parquet, or a folder of text, Markdown, reStructuredText, HTML or PDF. With --question
or --questions_file, each record (its field passage, context or text; a whole document) is asked each question; without,
each record has a question of its own. The answers are shards answers-00000-of-00042.jsonl, one line for each question
about each record, with its id, source and number. What cannot be read, and a record that repeats an id, goes to
rejected-00000-of-00042.jsonl with the reason.

The same command, typed again, keeps the shards that are there and makes the others. It needs Apache Beam, in an
environment of its own: pip install "fabir_tf[beam]".
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("beam")

import importlib
import json
import logging
import os
from typing import TYPE_CHECKING, Any

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.commands.progress import Progress
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.asked import read_asked
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import file_digest, user_path
from fabir_tf.pipelines.text.readable import is_blank

if TYPE_CHECKING:
    from fabir_tf.beam.records import GivenQuestion
    from fabir_tf.beam.shards import Shards

ORIGIN = "origin.json"
FORMATS = ("jsonl", "parquet")


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    flags.DEFINE_string("saved_model", None, "Folder of a version that fabir-export wrote.")
    flags.DEFINE_list("input", [], "Files, patterns with * and folders, comma-separated.")
    flags.DEFINE_multi_string("question", [], "A question about every record; may be given several times.")
    text = "File of questions about every record: one a line, JSON lines, SQuAD JSON, CSV or Parquet."
    flags.DEFINE_string("questions_file", None, text)
    flags.DEFINE_string("output_dir", None, "Folder of the shards.")
    flags.DEFINE_enum("output_format", FORMATS[0], FORMATS, "Format of the answers.")
    flags.DEFINE_integer("shard_records", 1000, "Records of a shard, which is what an interruption costs.", 1, 10**6)
    flags.DEFINE_integer("n_best", 1, "Spans per question, at most as many as were exported.", 1, 1000)
    flags.DEFINE_integer("batch_size", 64, "Most questions that are read at once.", 1, 4096)
    text = "Answers of each question that are best among all records, in best.jsonl or best.parquet; 0 for none."
    flags.DEFINE_integer("best_per_question", 0, text, 0, 10**5)
    flags.DEFINE_integer("num_processes", 0, "Processes on this machine; 0 for one a core.", 0, 1024)
    text = 'Options of Apache Beam for another runner, such as "--runner=FlinkRunner --flink_master=host:8081".'
    flags.DEFINE_string("beam_options", "", text)
    text = "Load a SavedModel with operations that may read or write files or run programs."
    flags.DEFINE_bool("trust_model", False, text)


def main(values: flags.FlagValues) -> None:
    """Reads the input, and writes the shards that are missing."""
    questions = _questions(values)
    _validate(values, questions)
    _needs_beam()
    from fabir_tf.beam import launcher
    from fabir_tf.beam.model_handler import SavedModelHandler
    from fabir_tf.beam.pipeline import Collection, read_collection
    from fabir_tf.beam.records import cut_parts, input_files
    from fabir_tf.beam.shards import Shards
    from fabir_tf.export.loading import read_saved_model, validate_harmless

    model = user_path(values.saved_model)
    saved = read_saved_model(model)
    if not values.trust_model:
        validate_harmless(saved, model)
    rows, documents = input_files(values.input)
    if documents and not questions:
        raise UserError(f"{documents[0]}: a document has no question, expected --question or --questions_file")
    options = launcher.parsed_options(values.beam_options) if values.beam_options else None
    parts = tuple(cut_parts(rows, documents, values.shard_records))
    if not parts:
        raise UserError(f"--input={','.join(values.input)}: found no record")
    shards = Shards(values.output_dir, len(parts), values.output_format)
    _keep_origin(values, shards, [*rows, *documents], questions)
    finished = shards.finished()
    handler = SavedModelHandler(str(model.resolve()), values.n_best, values.batch_size, values.trust_model)
    collection = Collection(parts, questions, shards, values.best_per_question)
    if len(finished) == len(parts) and not values.best_per_question:
        cli.to_stderr(f"{values.output_dir}: all {len(parts):,} shards are there")
        return
    if finished:
        cli.to_stderr(f"{values.output_dir}: keeping {len(finished):,} of {len(parts):,} shards")

    def build(pipeline: Any) -> None:
        read_collection(pipeline, collection, handler)

    counts = launcher.run_with_options(build, options) if options else _run_here(build, values, shards, len(finished))
    _tell(counts, shards, len(finished), values)


def _run_here(build: Any, values: flags.FlagValues, shards: "Shards", finished: int) -> dict[str, int]:
    from fabir_tf.beam import launcher

    processes = min(values.num_processes or os.cpu_count() or 1, shards.count - finished or 1)
    with Progress(f"of {shards.count:,} shards") as progress:
        progress.skip(finished)
        return launcher.run_in_processes(build, processes, lambda: progress.show(len(shards.finished())))


def _validate(values: flags.FlagValues, questions: tuple["GivenQuestion", ...]) -> None:
    for name in ("saved_model", "input", "output_dir"):
        if not values[name].value:
            raise UserError(f"--{name} is missing; --help lists the flags")
    if values.best_per_question and not questions:
        found = "the best answers of each question need questions about all records"
        raise UserError(f"--best_per_question={values.best_per_question}: {found}: --question or --questions_file")
    if values.num_processes and values.beam_options:
        raise UserError(
            "--num_processes and --beam_options: found both, expected one: the runner has its own processes"
        )


def _questions(values: flags.FlagValues) -> tuple["GivenQuestion", ...]:
    from fabir_tf.beam.questions import GivenQuestion

    if values.question and values.questions_file:
        raise UserError("--question and --questions_file: found both, expected one of them")
    if values.questions_file is None:
        blank = [text for text in values.question if is_blank(text)]
        if blank:
            raise UserError("--question is blank, expected a text with at least one word")
        return tuple(GivenQuestion(str(number), text) for number, text in enumerate(values.question, 1))
    found = list(read_asked(values.questions_file))
    for record in found:
        if record.error:
            raise UserError(record.error)
    return tuple(GivenQuestion(record.id, record.question) for record in found)


def _needs_beam() -> None:
    # Beam's log, even of packages that it does not need, would bury the command's own lines.
    logging.disable(logging.CRITICAL)
    try:
        importlib.import_module("apache_beam")
    except ImportError as error:
        found = f"fabir-beam needs the package apache-beam, which cannot be imported ({error})"
        raise UserError(f'{found}: pip install "fabir_tf[beam]" in an environment of its own') from None


def _keep_origin(
    values: flags.FlagValues, shards: "Shards", files: list[str], questions: tuple["GivenQuestion", ...]
) -> None:
    """Writes what the shards are made from, or checks that those which are there are made from the same."""
    from fabir_tf.beam.records import digest_of_files, digest_of_names
    from fabir_tf.beam.storage import is_file, open_file, write_file

    model = user_path(values.saved_model)
    paths = [model / "saved_model.pb", *sorted(path for path in (model / "variables").glob("*") if path.is_file())]
    origin = {
        "input": f"files with the SHA-256 {digest_of_files(files)[:16]}",
        "names": f"files whose names have the SHA-256 {digest_of_names(files)[:16]}",
        "files": f"the files {', '.join(files[:5])}{', ...' if len(files) > 5 else ''} ({len(files):,})",
        "model": f"a SavedModel with the SHA-256 {file_digest(paths)[:16]}",
        "questions": f"the questions {json.dumps([[one.id, one.text] for one in questions], ensure_ascii=False)}",
    }
    for name in ("n_best", "shard_records", "output_format"):
        origin[f"--{name}"] = f"--{name}={values[name].value}"
    path = f"{values.output_dir.rstrip('/')}/{ORIGIN}"
    if is_file(path):
        with open_file(path) as file:
            _validate_origin(path, file.read(), origin)
    elif shards.files("answers", "*"):
        raise UserError(f"{path} is missing, which says what the shards were made from: expected another --output_dir")
    else:
        write_file(path, (json.dumps(origin, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass"))


def _validate_origin(path: str, content: bytes, origin: dict[str, str]) -> None:
    try:
        former = json.loads(content)
        # An earlier version kept the first names alone.
        former.setdefault("names", origin["names"])
        differing = [name for name in origin if former.get(name) != origin[name]]
    except (ValueError, AttributeError):
        raise UserError(f"{path} does not say what the shards were made from: expected another --output_dir") from None
    for name in differing:
        found = f"{path}: the shards were made with {former.get(name)}, found {origin[name]}"
        raise UserError(f"{found}: expected the same, or another --output_dir")


def _tell(counts: dict[str, int], shards: "Shards", kept: int, values: flags.FlagValues) -> None:
    if not counts:
        cli.to_stderr(f"{values.output_dir}: {shards.count:,} shards are written")
        return
    parts = [
        counted(counts["records"], "record"),
        counted(counts["answers"], "answer"),
        f"{counts['no_answers']:,} times none",
        f"{counts['rejected']:,} rejected",
        f"{counted(counts['shards'], 'shard')} made" + (f" and {kept:,} kept" if kept else ""),
    ]
    cli.to_stderr(f"{values.output_dir}: {', '.join(parts)}")


def run() -> None:
    """Entry point of `fabir-beam`."""
    define_flags()
    cli.run_command(main, __doc__)
