"""The data of a run, made from the settings or read from a folder of plain arrays that `fabir-prepare` wrote.

    prepared/
      config.json     the settings that decide what the data contains; written last, so it marks a complete folder
      processor/      the text processor: vocabulary and word vectors
      coverage.json   what became of every question
      train/*.npy     the examples to train on: `Features`, the span of each answer, and soft labels of teachers
      eval/           texts and tokens of the data that is scored after each epoch

Training from such a folder needs Keras with one of its backends, but neither TensorFlow nor NLTK.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fabir_tf.configuration import ConfigError
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.set_aside import set_aside
from fabir_tf.pipelines.datasets.sources import load_dataset, names_file
from fabir_tf.pipelines.datasets.squad import (
    Answer,
    Question,
    SquadData,
    check_offsets,
    data_without_unanswerable,
    hold_out,
    holds_out_articles,
    join,
)
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.alignment import SET_ASIDE, measure_coverage
from fabir_tf.pipelines.features.examples import TrainingExamples, in_windows, training_examples
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions, mean_soft_labels
from fabir_tf.pipelines.features.wrong_passages import with_wrong_passages
from fabir_tf.pipelines.files import atomic_write, named_files, user_path, validate_writable, write_text
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.pipelines.text.registry import PROCESSORS, read_processor
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, load_texts, save_texts
from fabir_tf.reading.run_directory import reader_directory
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.training_config import TrainingConfig

# Training settings that decide what the data contains.
DATA_SETTINGS = (
    "dataset",
    "eval_dataset",
    "set_aside",
    "vectors",
    "max_vectors",
    "start_from",
    "kept_dataset",
    "max_passage",
    "passage_window",
    "max_question",
    "max_word",
    "limit_evaluation",
    "wrong_passages",
    "random_vectors",
    "min_word_count",
    "min_character_count",
    "teacher",
)
# Those that data prepared by earlier versions lacks.
_ADDED_SETTINGS = ("kept_dataset", "max_word", "limit_evaluation", "wrong_passages", "random_vectors", "set_aside")
# Model settings that do, of those that the model has.
MODEL_SETTINGS = (
    "word_dim",
    "max_word_characters",
    "max_answer",
    "null_head",
    "encoder",
    "max_sequence",
    "word_vectors",
    "word_model",
    "pool_words",
)
# Those that data prepared by earlier versions lacks.
ADDED_MODEL_SETTINGS = ("word_vectors", "word_model", "max_sequence", "pool_words")
FORMAT = 2
# Seed of the wrong passages, which belong to the data and not to a run.
_SEED = 0
_AGAIN = "prepare the data again with fabir-prepare"


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """What training reads.

    Attributes:
        processor: makes the model's inputs.
        features: the examples to train on.
        spans: int64 `(examples, 2)`, first and last token of each answer; -1 where there is none.
        soft_labels: float32 `(examples, 2, 2 * kept + 1)`, those of the teachers (`mean_soft_labels`); without a
            teacher `(examples, 2, 0)`.
        kept: boolean `(examples,)`, whether the soft labels are the whole target, as for the questions of
            `TrainingConfig.kept_dataset`.
        groups: int64 `(examples,)`, the same number for a question's own and its wrong passages.
        evaluation: the data that is scored after each epoch.
        coverage: what became of every question.
        summary: the same in a few lines; empty for data that was prepared earlier.
        fingerprint: hashes of the texts of both datasets.
    """

    processor: TextProcessor
    features: Features
    spans: np.ndarray
    soft_labels: np.ndarray
    kept: np.ndarray
    groups: np.ndarray
    evaluation: TokenizedDataset
    coverage: dict
    summary: str
    fingerprint: dict[str, str]


def prepare_data(
    model_config: ReaderConfig,
    training: TrainingConfig,
    options: DataOptions,
    log: Callable[[str], object],
    processor_folder: Path | None = None,
) -> PreparedData:
    """Loads, tokenizes and aligns the data, and turns it into features.

    Args:
        model_config: the model's settings.
        training: the training's settings.
        options: where this machine keeps data.
        log: called with lines about the progress.
        processor_folder: the text processor of a run that is resumed; None makes one from the data, or takes that of
            `training.start_from`.

    Returns:
        The data.

    Raises:
        UserError: data and settings do not fit.
    """
    _validate_wrong_passages(model_config, training)
    train_data, eval_data = _load_data(training, options, log)
    check_offsets(train_data)
    if not model_config.null_head:
        train_data, eval_data = (_without_unanswerable(data, log) for data in (train_data, eval_data))
    left_out: list[tuple[Question, str]] = []
    if training.set_aside:
        train_data, left_out = set_aside(train_data, eval_data, "set_aside")
    own = len(train_data.questions)
    if training.kept_dataset:
        kept_data = load_dataset(training.kept_dataset, "train", flag="--kept_dataset", **options.tfds_folders, log=log)
        if not model_config.null_head:
            kept_data = _without_unanswerable(kept_data, log)
        if training.set_aside:
            kept_data, more = set_aside(kept_data, eval_data, "set_aside")
            left_out += more
        train_data = _with_kept(train_data, kept_data)
    processor = _processor(model_config, training, processor_folder, log)
    tokenized, evaluation = (processor.tokenize(data, options.cache_dir, log) for data in (train_data, eval_data))
    if training.limit_evaluation:
        evaluation = _within_limits(evaluation, training, log)
        eval_data = evaluation.data
    if processor_folder is None and not training.start_from:
        processor = processor.fit([tokenized, evaluation])
    limits = (training.max_passage, training.max_question, model_config.answer_limit)
    windows = processor.window_sizes(tokenized.question_lengths, training.max_passage)
    examples, ledger = training_examples(tokenized, *limits, model_config.null_head, training.max_word, windows)
    for question, detail in left_out:
        ledger.add(question, "dropped", reason=SET_ASIDE, detail=detail)
    chosen = (training.wrong_passages, training.max_passage, _SEED)
    tokenized, examples, groups = with_wrong_passages(tokenized, examples, *chosen)
    examples = _within_budget(examples, tokenized, processor, training)
    teachers = _teachers(training.teacher)
    if training.kept_dataset:
        teachers.append(_distributions_of(training.start_from, train_data, log))
    wrong = len(groups) - len(np.unique(groups))
    eval_ledger = measure_coverage(
        eval_data, evaluation.passage_tokens(), model_config.answer_limit, model_config.null_head
    )
    return PreparedData(
        processor,
        processor.features(tokenized, examples.examples),
        examples.spans,
        _soft_labels(teachers, tokenized, examples),
        (examples.examples.questions >= own) & (examples.examples.questions < len(train_data.questions)),
        groups,
        evaluation,
        {"train": ledger.to_json(), "eval": eval_ledger.to_json()},
        "\n".join([ledger.summary(), *([f"{wrong:,} wrong passages"] if wrong else []), eval_ledger.summary()]),
        {"train": _fingerprint(train_data), "eval": _fingerprint(eval_data)},
    )


def save_data(data: PreparedData, folder: Path, model_config: ReaderConfig, training: TrainingConfig) -> None:
    """Writes prepared data into a folder.

    Args:
        data: from `prepare_data`, with these settings.
        folder: made if it is missing.
        model_config, training: the settings.

    Raises:
        WriteError: a file cannot be written.
    """
    data.processor.save(folder / "processor")
    write_text(folder / "coverage.json", json.dumps(data.coverage, indent=1))
    names = ("spans", "soft_labels", "kept", "groups")
    arrays = data.features.to_arrays() | {name: getattr(data, name) for name in names}
    for name, array in arrays.items():
        with atomic_write(folder / "train" / f"{name}.npy") as file:
            np.save(file, array)
    write_text(folder / "eval" / "texts.json", json.dumps(dataclasses.asdict(data.evaluation.data)))
    save_texts(folder / "eval" / "tokens.npz", data.evaluation.texts)
    settings = {name: getattr(training, name) for name in DATA_SETTINGS} | model_settings(model_config)
    content = {"format": FORMAT, "settings": settings, "data": data.fingerprint, "arrays": sorted(arrays)}
    # Last, because its presence marks a complete folder.
    write_text(folder / "config.json", json.dumps(content, indent=2) + "\n")


def model_settings(model_config: ReaderConfig) -> dict[str, Any]:
    """The model's settings that decide what the data contains, by name."""
    return {name: getattr(model_config, name) for name in MODEL_SETTINGS if hasattr(model_config, name)}


def validate_free(folder: Path) -> None:
    """Checks that data can be prepared into a folder.

    Raises:
        UserError: it holds prepared data.
        WriteError: it cannot be written into.
    """
    if (folder / "config.json").exists():
        raise UserError(f"{folder} already holds prepared data: name another folder")
    validate_writable(folder / "config.json")


def prepared_settings(folder: Path) -> dict[str, Any]:
    """The settings that data was prepared with.

    Args:
        folder: what `fabir-prepare` wrote.

    Returns:
        Values by name, those of the model among them.

    Raises:
        UserError: the folder holds no prepared data, or it is damaged.
    """
    return _read_config(folder)["settings"]


def split_prepared(
    folder: str | os.PathLike | None, settings: Mapping[str, Any], config: type[ReaderConfig]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits the settings of prepared data into those of the model and those of the training.

    Args:
        folder: what `fabir-prepare` wrote, for messages.
        settings: from `prepared_settings`; without any, both parts are empty.
        config: the class of the model's configuration.

    Raises:
        UserError: the data was prepared for another model.
    """
    if not settings:
        return {}, {}
    fields = config.__dataclass_fields__
    of_model = {name: fields[name].default for name in ADDED_MODEL_SETTINGS if name in fields}
    of_model |= {name: value for name, value in settings.items() if name in MODEL_SETTINGS}
    for name in MODEL_SETTINGS:
        if (name in fields) != (name in of_model):
            found, expected = ("no", "one") if name in fields else ("a", "none")
            raise UserError(
                f"--prepared={folder}: found {found} setting {name}, expected {expected}: it was prepared for another "
                "--model"
            )
    return of_model, {name: value for name, value in settings.items() if name in DATA_SETTINGS}


def with_prepared_settings(
    folder: str | os.PathLike, model_config: ReaderConfig, training: TrainingConfig
) -> tuple[ReaderConfig, TrainingConfig]:
    """The configurations of model and training with the settings of prepared data.

    Args:
        folder: what `fabir-prepare` wrote.
        model_config, training: the configurations, whose other settings stay.

    Raises:
        UserError: the data was prepared for another model, its folder holds none or is damaged, or a setting does not
            fit the others.
    """
    settings = prepared_settings(user_path(folder))
    of_model, of_training = split_prepared(folder, settings, type(model_config))
    return model_config.replace(**of_model), training.replace(**of_training)


def validate_settings(model_config: ReaderConfig, training: TrainingConfig) -> None:
    """Refuses settings of a model and its training that do not fit each other.

    Raises:
        UserError: there are such settings.
    """
    if training.smoothing != "none" and not model_config.takes_smoothing:
        raise UserError(f"--pool_words: found --smoothing={training.smoothing}, expected --smoothing=none")
    _validate_wrong_passages(model_config, training)


def _validate_wrong_passages(model_config: ReaderConfig, training: TrainingConfig) -> None:
    if training.wrong_passages and not (model_config.null_head or training.shared_norm):
        raise UserError(
            f"--wrong_passages={training.wrong_passages} is of no effect without --null_head or --shared_norm: a "
            "reader that always answers learns nothing from a wrong passage alone"
        )


def load_data(folder: Path) -> PreparedData:
    """Opens prepared data; the arrays to train on are mapped from disk.

    Args:
        folder: what `fabir-prepare` wrote.

    Returns:
        The data.

    Raises:
        UserError: the folder holds no prepared data, or it is damaged.
    """
    config = _read_config(folder)
    processor = read_processor(folder / "processor")
    paths = {path.stem: path for path in sorted((folder / "train").glob("*.npy"))}
    # Another command, which was killed, may have left others there. Earlier versions did not name theirs.
    names = config.get("arrays", list(paths))
    try:
        arrays = {name: _open_array(paths[name]) for name in names}
        features, spans, soft_labels = Features.from_arrays(arrays), arrays["spans"], arrays["soft_labels"]
        # Data prepared by earlier versions has neither wrong passages nor kept answers.
        groups = arrays.get("groups", np.arange(len(spans)))
        kept = arrays.get("kept", np.zeros(len(spans), bool))
    except KeyError as error:
        raise UserError(f"{folder / 'train'}: found no array {error}, expected those of fabir-prepare") from None
    data = _read_texts(folder / "eval" / "texts.json")
    path = folder / "eval" / "tokens.npz"
    try:
        texts = load_texts(path, len(data.passages) + len(data.questions))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: found damaged tokens ({error}), expected those of fabir-prepare") from error
    return PreparedData(
        processor,
        features,
        spans,
        soft_labels,
        kept,
        groups,
        TokenizedDataset(data, texts),
        read_json(folder / "coverage.json"),
        "",
        config["data"],
    )


def _read_config(folder: Path) -> dict:
    path = folder / "config.json"
    if not path.exists():
        raise UserError(f"{folder}: found no prepared data, expected a folder written by fabir-prepare")
    config = read_json(path)
    parts: list[Any] = [config.get(name) for name in ("settings", "data")] if isinstance(config, dict) else []
    names = config.get("arrays", []) if isinstance(config, dict) else None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if [type(part) for part in parts] != [dict, dict] or not is_list:
        raise UserError(f"{path}: found other content than expected, that of prepared data: {_AGAIN}")
    added = {name: getattr(TrainingConfig, name) for name in _ADDED_SETTINGS}
    parts[0] = config["settings"] = added | parts[0]
    if config.get("format") != FORMAT:
        raise UserError(f"{path}: found data prepared by version 0.1, which this version does not read: {_AGAIN}")
    if not set(DATA_SETTINGS) <= parts[0].keys() <= {*DATA_SETTINGS, *MODEL_SETTINGS}:
        raise UserError(f"{path}: found other settings than expected, those of prepared data: {_AGAIN}")
    for name, value in parts[0].items():
        try:
            if name in DATA_SETTINGS:
                TrainingConfig.check(name, value)
        except ConfigError as error:
            raise UserError(f"{path}: {error}") from error
    return config


def _open_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    # NumPy reads the header as Python's syntax, which has errors of many kinds.
    except Exception as error:
        raise UserError(f"{path}: found no whole array ({error}), expected one of fabir-prepare") from error


def _read_texts(path: Path) -> SquadData:
    content = read_json(path)
    try:
        questions = tuple(
            Question(**question | {"answers": tuple(Answer(**answer) for answer in question["answers"])})
            for question in content["questions"]
        )
        return SquadData(content["name"], tuple(content["passages"]), tuple(content["titles"]), questions)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: found other texts than expected, those of fabir-prepare ({error})") from error


def _load_data(training: TrainingConfig, options: DataOptions, log) -> tuple[SquadData, SquadData]:
    folders: dict[str, Any] = options.tfds_folders | {"log": log}
    train_data = load_dataset(training.dataset, "train", **folders)
    if training.eval_dataset:
        return train_data, load_dataset(training.eval_dataset, "dev", flag="--eval_dataset", **folders)
    if names_file(training.dataset):
        unit = "article" if holds_out_articles(train_data) else "passage"
        train_data, eval_data = hold_out(train_data)
        count = f"{len(eval_data.questions):,} questions of {training.dataset}"
        log(f"no --eval_dataset: {count} are held out, {unit} by {unit}")
        return train_data, eval_data
    # The training part has already logged what "auto" stands for.
    folders["log"] = lambda line: None
    return train_data, load_dataset(training.dataset, "dev", **folders)


def _without_unanswerable(data: SquadData, log: Callable[[str], object]) -> SquadData:
    if not data.has_unanswerable:
        return data
    answerable = data_without_unanswerable(data)
    if not answerable.questions:
        raise UserError(f"{data.name}: no question has an answer, expected some that have one, or --null_head")
    questions = counted(data.unanswerable, "question")
    log(f"{data.name}: left out {questions} without an answer; --null_head learns from such")
    return answerable


def _within_limits(
    tokenized: TokenizedDataset, training: TrainingConfig, log: Callable[[str], object]
) -> TokenizedDataset:
    """The questions of a dataset that are short enough to train on."""
    passages = tokenized.passage_lengths[tokenized.question_passages] <= training.max_passage
    short = np.flatnonzero(passages & (tokenized.question_lengths <= training.max_question))
    limits = f"--max_passage={training.max_passage} and --max_question={training.max_question}"
    if not len(short):
        raise UserError(f"--limit_evaluation: {tokenized.data.name} has no question within {limits}")
    log(f"{tokenized.data.name}: {len(short):,} of {len(tokenized.data.questions):,} questions are within {limits}")
    return tokenized.select(short)


def _processor(
    model_config: ReaderConfig, training: TrainingConfig, folder: Path | None, log: Callable[[str], object]
) -> TextProcessor:
    if folder is not None:
        return read_processor(folder, log)
    if training.start_from:
        return _processor_of_start(model_config, training, log)
    return PROCESSORS[model_config.processor].create(training.to_dict() | model_config.to_dict())


def _processor_of_start(
    model_config: ReaderConfig, training: TrainingConfig, log: Callable[[str], object]
) -> TextProcessor:
    """The text processor of the reader that a run starts from, with the run's length budget."""
    processor = reader_directory(training.start_from).read_processor(log)
    budget = getattr(model_config, "max_sequence", None)
    if budget is None:
        return processor
    processor = processor.with_limits(budget, training.max_question)
    found = getattr(processor, "max_sequence", budget)
    if found != budget:
        raise UserError(
            f"--start_from={training.start_from}: found max_sequence={budget}, expected {found}, that of its text "
            "processor"
        )
    return processor


def _within_budget(
    examples: TrainingExamples, tokenized: TokenizedDataset, processor: TextProcessor, training: TrainingConfig
) -> TrainingExamples:
    """Cuts each passage down to what the model reads at once."""
    lengths = tokenized.question_lengths[examples.examples.questions]
    sizes = processor.window_sizes(lengths, training.passage_window or training.max_passage)
    return in_windows(examples, sizes)


def _teachers(names: str) -> list[TeacherDistributions]:
    if not names:
        return []
    paths = named_files(names)
    if "" in paths:
        raise UserError(f"--teacher={names}: found an empty name, expected files of fabir-teach")
    return [TeacherDistributions.load(path) for path in paths]


def _with_kept(data: SquadData, kept: SquadData) -> SquadData:
    known = {question.id for question in data.questions}
    shared = next((question.id for question in kept.questions if question.id in known), None)
    if shared:
        raise UserError(
            f"--kept_dataset: {kept.name} has the question {shared!r} of {data.name}, whose answers are to be learned: "
            "expected other questions"
        )
    return join([data, kept])


def _distributions_of(start_from: str, data: SquadData, log: Callable[[str], object]) -> TeacherDistributions:
    """What the reader that a training starts from says of its questions."""
    # Every command imports this module for the names of the settings, and few need a reader.
    from fabir_tf.reading.reader import Reader
    from fabir_tf.training.distillation import teach

    log(f"{start_from} reads {len(data.questions):,} questions, whose distributions it keeps")
    return teach([Reader.load(start_from, log=lambda line: None)], data)


def _soft_labels(
    teachers: Sequence[TeacherDistributions], tokenized: TokenizedDataset, examples: TrainingExamples
) -> np.ndarray:
    questions = examples.examples.questions
    if not teachers:
        return np.zeros((len(questions), 2, 0), np.float32)
    ids = [tokenized.data.questions[number].id for number in questions]
    lengths = examples.examples.lengths
    whole = tokenized.passage_lengths[tokenized.question_passages[questions]]
    taught = {identifier for teacher in teachers for identifier in teacher.ids}
    cut = np.flatnonzero((lengths < whole) & [identifier in taught for identifier in ids])
    if len(cut):
        raise UserError(
            f"a teacher's distributions are about whole passages: found question {ids[cut[0]]!r} with a passage of "
            f"{whole[cut[0]]:,} tokens, of which the model reads {lengths[cut[0]]:,} at once; leave such passages out"
        )
    return mean_soft_labels([teacher.soft_labels(ids, lengths) for teacher in teachers])


def _fingerprint(data: SquadData) -> str:
    digest = hashlib.sha256()
    for question in data.questions:
        digest.update(repr((question.id, question.text, question.answers, data.passages[question.passage])).encode())
    return digest.hexdigest()
