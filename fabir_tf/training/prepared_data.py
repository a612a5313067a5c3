"""The data of a run, from the settings or from a folder of plain arrays that `fabir-prepare` wrote.

    prepared/
      config.json     the settings that decide what is in the data; its presence makes the folder prepared data
      vocabulary/     trained words and characters, the frozen vectors and their words
      coverage.json   what became of every question
      train/*.npy     the rows that are trained on: `Features`, the first and last token of each answer, and what
                      teachers take for these
      eval/           texts and tokens of what is scored after each epoch

To train from it takes Keras with one of its backends, and neither TensorFlow nor NLTK.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fabir_tf.configuration import ConfigError
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.datasets.sources import load_dataset, names_file
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, check_offsets, hold_out
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.alignment import measure_coverage
from fabir_tf.pipelines.features.examples import in_windows, training_examples
from fabir_tf.pipelines.features.features import Examples, Features, make_features
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions, mean_soft_labels
from fabir_tf.pipelines.files import atomic_write, named_files, validate_writable, write_text
from fabir_tf.pipelines.json_files import read_json
from fabir_tf.pipelines.text.tokenized import (
    EncodedData,
    TokenizedDataset,
    encode,
    load_texts,
    save_texts,
    tokenize_dataset,
)
from fabir_tf.pipelines.text.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.pipelines.text.word_vectors import (
    WordVectors,
    load_saved_vectors,
    load_vectors,
    save_vectors,
    validate_dimension,
)
from fabir_tf.reading.run_directory import reader_directory
from fabir_tf.training.training_config import DataOptions, TrainingConfig

# Settings that decide what is in the data.
DATA_SETTINGS = (
    "dataset",
    "eval_dataset",
    "vectors",
    "max_vectors",
    "start_from",
    "max_passage",
    "passage_window",
    "max_question",
    "min_word_count",
    "min_character_count",
    "teacher",
)
MODEL_SETTINGS = ("word_dim", "max_word_characters")
BORDERS = ("firsts", "lasts")


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """What training reads.

    Attributes:
        vectors: the frozen word vectors.
        vocabulary: the ids.
        rows: the questions that are trained on.
        borders: int64 `(rows, 2)`, first and last token of each answer.
        soft_labels: float32 `(rows, 2, 2 * places)`, what teachers take for these (`mean_soft_labels`); without a teacher
            `(rows, 2, 0)`.
        eval_encoded: what is scored after each epoch.
        coverage: what became of every question.
        summary: the same in a few words; empty where it was told before.
        fingerprint: of the texts of both datasets.
    """

    vectors: WordVectors
    vocabulary: Vocabulary
    rows: Features
    borders: np.ndarray
    soft_labels: np.ndarray
    eval_encoded: EncodedData
    coverage: dict
    summary: str
    fingerprint: dict[str, str]


def prepare_data(
    model_config: ReaderConfig,
    training: TrainingConfig,
    options: DataOptions,
    log: Callable[[str], None],
    vocabulary_folder: Path | None = None,
) -> PreparedData:
    """Loads, tokenises, aligns and encodes the data.

    Args:
        model_config: the model's settings.
        training: the training's.
        options: where data is found on this machine.
        log: told what happens.
        vocabulary_folder: the vocabulary of a run that goes on; None makes one of the data.

    Returns:
        The data.

    Raises:
        UserError: data and settings do not fit.
    """
    train_data, eval_data = _load_data(training, options, log)
    check_offsets(train_data)
    tokenized, eval_tokenized = (tokenize_dataset(data, options.cache_dir, log) for data in (train_data, eval_data))
    examples, ledger = training_examples(tokenized, training.max_passage, training.max_question)
    if training.passage_window is not None:
        examples = in_windows(examples, training.passage_window)
    soft_labels = _opinion(training.teacher, tokenized, examples.rows)
    if vocabulary_folder is None and training.start_from:
        vocabulary_folder = reader_directory(training.start_from).vocabulary
    if vocabulary_folder is None:
        vectors, vocabulary = _make_vocabulary(model_config, training, tokenized, eval_tokenized)
    else:
        vectors, vocabulary = _load_vocabulary(vocabulary_folder, model_config)
    passages = range(len(eval_data.passages))
    eval_ledger = measure_coverage(eval_data, [eval_tokenized.texts.tokens_of(passage) for passage in passages])
    encoded, eval_encoded = (
        encode(part, vocabulary, model_config.max_word_characters) for part in (tokenized, eval_tokenized)
    )
    return PreparedData(
        vectors,
        vocabulary,
        make_features(encoded, examples.rows),
        np.stack([examples.firsts, examples.lasts], axis=1),
        soft_labels,
        eval_encoded,
        {"train": ledger.to_json(), "eval": eval_ledger.to_json()},
        f"{ledger.summary()}\n{eval_ledger.summary()}",
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
    save_vocabulary(data, folder / "vocabulary")
    write_text(folder / "coverage.json", json.dumps(data.coverage, indent=1))
    arrays = {field.name: getattr(data.rows, field.name) for field in dataclasses.fields(Features)}
    for name, array in (arrays | {"borders": data.borders, "soft_labels": data.soft_labels}).items():
        with atomic_write(folder / "train" / f"{name}.npy") as file:
            np.save(file, array)
    tokenized = data.eval_encoded.tokenized
    write_text(folder / "eval" / "texts.json", json.dumps(dataclasses.asdict(tokenized.data)))
    save_texts(folder / "eval" / "tokens.npz", tokenized.texts)
    settings = {name: getattr(training, name) for name in DATA_SETTINGS}
    settings |= {name: getattr(model_config, name) for name in MODEL_SETTINGS}
    # Last, because its presence is what makes the folder prepared data.
    write_text(folder / "config.json", json.dumps({"settings": settings, "data": data.fingerprint}, indent=2) + "\n")


def save_vocabulary(data: PreparedData, folder: Path) -> None:
    """Writes vectors and vocabulary into a folder."""
    save_vectors(data.vectors, folder)
    data.vocabulary.save(folder)


def validate_free(folder: Path) -> None:
    """Checks that data can be prepared into a folder.

    Raises:
        UserError: it holds prepared data.
        WriteError: it cannot be written into.
    """
    if (folder / "config.json").exists():
        raise UserError(f"{folder} already holds prepared data: name another folder")
    validate_writable(folder / "config.json")


def prepared_settings(folder: Path) -> dict:
    """The settings that data was prepared with.

    Args:
        folder: what `fabir-prepare` wrote.

    Returns:
        Values by name, those of the model among them.

    Raises:
        UserError: the folder holds no prepared data, or it is damaged.
    """
    return _read_config(folder)["settings"]


def load_data(folder: Path, model_config: ReaderConfig) -> PreparedData:
    """Opens prepared data; the arrays that are trained on are mapped from disk.

    Args:
        folder: what `fabir-prepare` wrote.
        model_config: with the settings that the data was prepared with.

    Returns:
        The data.

    Raises:
        UserError: the folder holds no prepared data, or it is damaged.
    """
    config = _read_config(folder)
    vectors, vocabulary = _load_vocabulary(folder / "vocabulary", model_config)
    fields = [field.name for field in dataclasses.fields(Features)]
    rows = Features(**{name: _open_array(folder / "train" / f"{name}.npy") for name in fields})
    data = _read_texts(folder / "eval" / "texts.json")
    path = folder / "eval" / "tokens.npz"
    try:
        texts = load_texts(path, len(data.passages) + len(data.questions))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: found damaged tokens ({error}), expected those of fabir-prepare") from error
    return PreparedData(
        vectors,
        vocabulary,
        rows,
        _open_array(folder / "train" / "borders.npy"),
        _open_array(folder / "train" / "soft_labels.npy"),
        encode(TokenizedDataset(data, texts), vocabulary, model_config.max_word_characters),
        read_json(folder / "coverage.json"),
        "",
        config["data"],
    )


def _read_config(folder: Path) -> dict:
    path = folder / "config.json"
    if not path.exists():
        raise UserError(f"{folder}: found no prepared data, expected a folder written by fabir-prepare")
    config = read_json(path)
    names = {*DATA_SETTINGS, *MODEL_SETTINGS}
    parts = [config.get(name) for name in ("settings", "data")] if isinstance(config, dict) else []
    if [type(part) for part in parts] != [dict, dict] or parts[0].keys() != names:
        raise UserError(f"{path}: found other settings than expected, those of prepared data: prepare it anew")
    for name, value in parts[0].items():
        try:
            (TrainingConfig if name in DATA_SETTINGS else ReaderConfig).check(name, value)
        except ConfigError as error:
            raise UserError(f"{path}: {error}") from error
    return config


def _open_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
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
    places = options.tfds_folders | {"log": log}
    train_data = load_dataset(training.dataset, "train", **places)
    if training.eval_dataset:
        return train_data, load_dataset(training.eval_dataset, "dev", flag="--eval_dataset", **places)
    if names_file(training.dataset):
        train_data, eval_data = hold_out(train_data)
        count = f"{len(eval_data.questions):,} questions of {training.dataset}"
        log(f"no --eval_dataset: {count} are set aside, article by article")
        return train_data, eval_data
    # What "auto" has chosen was said for the training part.
    return train_data, load_dataset(training.dataset, "dev", **places | {"log": lambda line: None})


def _opinion(teacher: str, tokenized: TokenizedDataset, rows: Examples) -> np.ndarray:
    if not teacher:
        return np.zeros((len(rows.questions), 2, 0), np.float32)
    ids = [tokenized.data.questions[number].id for number in rows.questions]
    paths = named_files(teacher)
    if "" in paths:
        raise UserError(f"--teacher={teacher}: found an empty name, expected files of teachers' borders (fabir-teach)")
    # Passages are trained on whole or not at all.
    return mean_soft_labels([TeacherDistributions.load(path).of(ids, rows.lengths) for path in paths])


def _fingerprint(data: SquadData) -> str:
    digest = hashlib.sha256()
    for question in data.questions:
        digest.update(repr((question.id, question.text, question.answers, data.passages[question.passage])).encode())
    return digest.hexdigest()


def _make_vocabulary(
    model_config: ReaderConfig, training: TrainingConfig, tokenized: TokenizedDataset, eval_tokenized: TokenizedDataset
) -> tuple[WordVectors, Vocabulary]:
    needed = {word.lower() for part in (tokenized, eval_tokenized) for word in part.texts.types}
    vectors = load_vectors(training.vectors, needed, training.max_vectors)
    validate_dimension(vectors, model_config.word_dim)
    counts = tokenized.token_counts()
    return vectors, build_vocabulary(counts, vectors.words, training.min_word_count, training.min_character_count)


def _load_vocabulary(folder: Path, model_config: ReaderConfig) -> tuple[WordVectors, Vocabulary]:
    vectors = load_saved_vectors(folder)
    validate_dimension(vectors, model_config.word_dim)
    return vectors, Vocabulary.load(folder, vectors.words)
