"""Scores a trained reader, or any predictions file, as the official SQuAD scripts do.

    fabir-evaluate --run_dir=runs/base --dataset=dev-v1.1.json --output_file=predictions.json --report_file=report.json
    fabir-evaluate --predictions_file=predictions.json --dataset=dev-v1.1.json
    fabir-evaluate --run_dir=runs/null --dataset=dev-v2.0.json --spans_file=spans.json --na_prob_file=na_prob.json

A dataset with unanswerable questions is scored as SQuAD 2.0. The reader says "" where it abstains, which exact and f1
count. best_f1 is what the best threshold of the no-answer probability would reach, by the official rules, from the best
span of every question (--spans_file) and its no-answer probability (--na_prob_file). For a reader without a null head
that probability is 1 minus the one of its best span.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("evaluate")

import json
import os
import time

from absl import flags

from fabir_tf.commands import cli, reader_flags
from fabir_tf.pipelines.datasets.predictions import read_predictions
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad_metrics import missing_predictions, read_no_answer_probabilities
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, validate_writable, write_text
from fabir_tf.pipelines.json_files import quoted
from fabir_tf.reading.evaluation import (
    best_spans,
    no_answer_probabilities,
    predictions_of,
    score,
    score_answers,
    score_declining,
)

# What a reader says, each in a file of its own.
_OF_READER = ("output_file", "spans_file", "na_prob_file")


def define_flags() -> None:
    """Flags of the command."""
    reader_flags.define_reader_flags("is scored")
    flags.DEFINE_string(
        "predictions_file",
        None,
        "Predictions to score instead of a reader: JSON, question id to text, or what fabir-predict writes.",
    )
    flags.DEFINE_string(
        "no_answer_file", None, "With predictions_file, for SQuAD 2.0: JSON, question id to no-answer probability."
    )
    flags.DEFINE_string("dataset", None, "Data to score on: a file of questions, a TFDS name, sample or auto.")
    text = "File for the reader's predictions, in the official format; a question that it declines has an empty one."
    flags.DEFINE_string("output_file", None, text)
    text = "File for the best span of every question, also of those that the reader declines, in the official format."
    flags.DEFINE_string("spans_file", None, text)
    flags.DEFINE_string("na_prob_file", None, "File for the no-answer probabilities: JSON, question id to number.")
    flags.DEFINE_string("report_file", None, "File for the scores, as JSON.")
    cli.define_data_flags()


def main(values: flags.FlagValues) -> None:
    """Scores the predictions and writes the results."""
    folder = reader_flags.reader_folder(values)
    if bool(folder) == bool(values.predictions_file):
        raise UserError("--run_dir (or --model) and --predictions_file: found both or neither, expected one of them")
    cli.validate_given(values, dataset="the data to score on")
    if folder and values.no_answer_file:
        raise UserError("--no_answer_file belongs to --predictions_file, found it with a reader")
    if values.predictions_file:
        reason = "belongs to --run_dir or --model, found it with --predictions_file"
        cli.refuse_given(values, (*_OF_READER, *reader_flags.READING_FLAGS), reason)
    outputs = {flag: values[flag].value for flag in (*_OF_READER, "report_file") if values[flag].value}
    for flag, path in outputs.items():
        same = next(name for name, other in outputs.items() if os.path.realpath(other) == os.path.realpath(path))
        if same != flag:
            raise UserError(f"--{flag}={path} is the file of --{same}, too: expected another one")
        _check_output(values, flag)
    report = _score_reader(values, folder) if folder else _score_file(values)
    text = json.dumps(report, indent=2)
    if values.report_file:
        write_text(values.report_file, text + "\n")
    with named_errors("standard output"):
        print(text, flush=True)


def _check_output(values: flags.FlagValues, flag: str) -> None:
    """Checks that a result can be written, before the scoring, which may take minutes."""
    path = values[flag].value
    names = ("dataset", "predictions_file", "no_answer_file")
    cli.validate_other_file(flag, path, {name: values[name].value for name in names})
    validate_writable(path)


def _load(values: flags.FlagValues):
    return load_dataset(values.dataset, "dev", **cli.data_options(values).tfds_folders, log=cli.to_stderr)


def _score_file(values: flags.FlagValues) -> dict:
    data = _load(values)
    found = read_predictions(values.predictions_file)
    texts = {key: prediction.text for key, prediction in found.items()}
    missing = {"missing": len(missing_predictions(data, texts))}
    if texts and missing["missing"] == len(data.questions):
        found_ids = f"ids such as {quoted(next(iter(texts)))}"
        raise UserError(f"{values.predictions_file}: found {found_ids}, expected those of questions of {data.name}")
    if values.no_answer_file and not data.has_unanswerable:
        raise UserError(f"--no_answer_file is for SQuAD 2.0, found no unanswerable question in {data.name}")
    if values.no_answer_file:
        return score(data, texts, read_no_answer_probabilities(values.no_answer_file)) | missing
    none = {key: one.no_answer_probability for key, one in found.items() if one.no_answer_probability is not None}
    if not data.has_unanswerable or not none or len(none) < len(found):
        return score(data, texts) | missing
    spans = {key: one.text if one.best_span is None else one.best_span for key, one in found.items()}
    return score_declining(data, texts, spans, none) | missing


def _score_reader(values: flags.FlagValues, folder: str) -> dict:
    reader = reader_flags.load_reader(values, folder)
    data = _load(values)
    tokenized = reader.tokenize(data, cli.data_options(values).cache_dir, cli.to_stderr)
    cli.to_stderr(reader.coverage(tokenized).summary())
    begin = time.monotonic()
    answers = predictions_of(reader, tokenized, cli.show_progress)
    seconds = time.monotonic() - begin
    results: tuple[dict, ...] = (
        {key: answer.text for key, answer in answers.items()},
        best_spans(answers),
        no_answer_probabilities(answers),
    )
    for flag, by_id in zip(_OF_READER, results, strict=True):
        if values[flag].value:
            write_text(values[flag].value, json.dumps(by_id, ensure_ascii=False) + "\n")
    return score_answers(data, answers) | {"questions_per_second": round(len(answers) / seconds, 1)}


def run() -> None:
    """Entry point of `fabir-evaluate`."""
    define_flags()
    cli.run_command(main, __doc__)
