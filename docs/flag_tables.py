"""The page of all flags, made from the configuration classes and the commands themselves."""

# ruff: noqa: E501, because a row of a table is one line.
import dataclasses

from fabir_tf.configuration import Config
from fabir_tf.models import MODELS
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.training.training_config import TrainingConfig

PAGE = """# Flags

All flags of all commands. `fabir-train --helpfull` prints them, too, and `--flagfile=FILE` reads them from a file.

## The data and the training

`fabir-train` has the flags of this page down to "The other readers", and eight more:

| flag | meaning |
| --- | --- |
| `--model` | The reader to train: {models} |
| `--run_dir` | Folder of the run |
| `--as_published` | Begin with the settings of the model's paper instead of the defaults |
| `--adapt` | Begin with settings that adapt the reader of `--start_from` without forgetting the rest ([Adapt a reader](guides/adapt.md)) |
| `--resume` | Continue the run in that folder where it stopped |
| `--config` | JSON file of settings, such as a run's `config.json` |
| `--prepared` | Folder that `fabir-prepare` wrote, instead of the data and its settings |
| `--vector_cache` | Folder that keeps the vectors of a frozen `--word_model` between runs, in half precision |

Flags override `--config`, and `--config` overrides the settings that come with `--start_from`. A flag of another reader is refused. In
Python, the configuration classes have the same names, for example `fabir_tf.TrainingConfig(batch_size=32)`:

{training}

## FABIR

The defaults differ from the paper in few settings ([as published](readers/index.md#as-published)). In Python: `fabir_tf.FabirConfig`.

{fabir}

## The other readers

They have FABIR's flags where these mean something, and these. `bert-span` also has
[training settings of its own](readers/bert.md#train-one):

{others}

## The other commands

| command | flags |
| --- | --- |
| `fabir-prepare` | `--output`, and those of `fabir-train` except `--resume`, `--prepared` and `--vector_cache` |
| `fabir-compare` | `--configs`, `--seeds`, `--output`, `--test_dataset`, and, for every run, those of `fabir-train` except `--run_dir`, `--resume`, `--prepared`, `--vector_cache`, `--seed` and `--model` |
| `fabir-reproduce` | `--paper`, `--table` or `--figure`, `--improved`, `--vectors_50`, `--elmo`, `--bert_base`, `--bert_large`, and those of `fabir-compare` except `--configs` and `--test_dataset` |
| `fabir-evaluate` | `--run_dir` or `--predictions_file` (with `--no_answer_file` for SQuAD 2.0), `--dataset`, `--output_file`, `--spans_file`, `--na_prob_file`, `--report_file` |
| `fabir-predict` | `--run_dir`, `--question` with `--passage`, or `--input_file` (a file of questions; `-` is standard input), `--document` (a file or folder to answer from) with `--paragraphs`, `--output_file`, `--n_best`, `--resume` ([go on](guides/files.md#long-files) with an interrupted output) |
| `fabir-index` | `--input` (a folder, a file or JSON lines), `--index`, `--shards` |
| `fabir-search` | `--run_dir`, `--index`, `--question` or `--input_file`, `--paragraphs`, `--output_file`, `--n_best`, `--resume` |
| `fabir-serve` | `--run_dir`, `--model_base_path` or `--model_config_file`, `--model_name`, `--trust_model`, `--index`, `--paragraphs`; `--host`, `--rest_api_port`, `--grpc_port` (`--port` is refused), `--token_file`, `--cors_origins`, `--allowed_hosts`, `--access_log`, `--shutdown_delay`; `--batching_parameters_file`, `--max_batch_size`, `--batch_timeout_micros`, `--max_enqueued_batches`, `--num_batch_threads`; `--request_timeout`, `--header_timeout`, `--body_timeout`, `--max_body_mb`, `--max_questions`, `--max_question_characters`, `--max_passage_characters` |
| `fabir-beam` | `--saved_model`, `--trust_model`, `--input`, `--question` (any number) or `--questions_file`, `--output_dir`, `--output_format`, `--shard_records`, `--n_best`, `--batch_size`, `--best_per_question`, `--num_processes` or `--beam_options` |
| `fabir-export` | `--run_dir`, `--export_dir`, `--version`, `--format` (`saved_model`, or [`onnx`, `litert`, `openvino`](guides/edge.md)), `--quantization`, `--n_best`, `--calibration_dataset`, `--unanswerable_share` |
| `fabir-analyze` | `--dataset`, `--predictions_files`, `--output`, `--errors`, and `--run_dir` with `--question_id` |
| `fabir-teach` | `--run_dirs`, `--dataset`, `--student` ([other tokens](guides/teach.md#what-the-student-learns)), `--output` |
| `fabir-pack` | `--run_dir` or `--ensemble` with `--weights`, `--average_with`, `--output`, `--words`, `--int8`, `--calibration_dataset`, `--unanswerable_share` |
| `fabir-convert` | `--input_file`, `--output_file`, `--check`, `--mend` |
| `fabir-negatives` | `--dataset`, `--output_file`, `--kinds`, `--share`, `--seed`, `--set_aside`, `--keep_answerable` |
| `fabir-describe` | `--datasets`, `--vectors`, `--passage_limits`, `--question_limits`, `--answer_limits`, `--json_file` |
| evaluate, predict, search, serve, export, analyze | `--model` (a reader that comes with the package, or the folder of a published BERT) instead of `--run_dir`, `--no_answer_threshold` |
| these six and teach | `--max_passage` (at most 4,096), `--max_answer`, `--precision` (`mixed_bfloat16` is faster on processors that compute in it) |
| all | `--import`, a Python module to load first; and all but `fabir-predict`, `fabir-search`, `fabir-beam`, `fabir-serve`, `fabir-index` and `fabir-convert`: `--tfds_data_dir`, `--tfds_manual_dir`, and, but for `fabir-negatives`, `--cache_dir` |
"""


def flags_page() -> str:
    """The page in Markdown."""
    return PAGE.format(
        models=", ".join(f"`{name}`" for name in own_models()),
        training=flag_table(TrainingConfig),
        fabir=flag_table(FabirConfig),
        others=table_of_others(),
    )


def own_models() -> dict[str, type[Config]]:
    """The configurations of the readers that come with the package, by name."""
    return {name: spec.config for name, spec in MODELS.items() if spec.config.__module__.startswith("fabir_tf.")}


def flag_table(config: type[Config]) -> str:
    """The table of a configuration's flags."""
    return "\n".join(["| flag, default | meaning |", "| --- | --- |", *map(_row, _fields(config))])


def table_of_others() -> str:
    """The flags of the other readers that FABIR lacks, or has with another default."""
    lines = ["| `--model` | flags of its own, and other defaults |", "| --- | --- |"]
    of_fabir = {field.name: field.default for field in _fields(FabirConfig)}
    for name, config in own_models().items():
        fields = [field for field in _fields(config) if of_fabir.get(field.name) != field.default]
        flags = [f"`--{field.name}` {_default(field)} ({field.metadata['help']})" for field in fields]
        lines += [f"| `{name}` | {'; '.join(flags)} |"] if flags else []
    return "\n".join(lines)


def _fields(config: type[Config]) -> list[dataclasses.Field]:
    """The fields that have a flag."""
    return [field for field in dataclasses.fields(config) if not field.metadata["derived"]]


def _row(field: dataclasses.Field) -> str:
    choices = field.metadata["choices"]
    if isinstance(choices, dict):
        # A registry may hold classes of a user's own.
        choices = [name for name, cls in choices.items() if cls.__module__.startswith("fabir_tf.")]
    text = field.metadata["help"] + (f" ({', '.join(choices)})" if choices else "")
    return f"| `--{field.name}` {_default(field)} | {text} |"


def _default(field: dataclasses.Field) -> str:
    """The default as it is written in a flag."""
    if field.default is None or isinstance(field.default, bool):
        return str(field.default).lower()
    return str(field.default) or "empty"
