"""From settings to what training reads: data loaded, tokenised, aligned and encoded, and recorded in the run."""

import dataclasses
import hashlib
import json
from collections.abc import Callable

from fabir_tf.examples import TrainingExamples, training_examples
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.alignment import measure_coverage
from fabir_tf.pipelines.encoding import EncodedData, TokenisedData, encode, tokenise
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import expect_writable, write_text
from fabir_tf.pipelines.sources import load_dataset, names_file
from fabir_tf.pipelines.squad import SquadData, check_offsets, hold_out
from fabir_tf.pipelines.vectors import WordVectors, expect_dimension, load_saved_vectors, load_vectors, save_vectors
from fabir_tf.pipelines.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.run_directory import RunDirectory
from fabir_tf.training_config import DataOptions, TrainingConfig


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """What training reads.

    Attributes:
        run: where everything is written.
        model_config: with the vocabulary's sizes filled in.
        training: data and hyper-parameters.
        vectors: the frozen word vectors.
        vocabulary: the ids.
        encoded, examples: the training set.
        eval_encoded: what is scored after each epoch.
        resuming: whether a checkpoint is there to continue from.
    """

    run: RunDirectory
    model_config: FabirConfig
    training: TrainingConfig
    vectors: WordVectors
    vocabulary: Vocabulary
    encoded: EncodedData
    examples: TrainingExamples
    eval_encoded: EncodedData
    resuming: bool


def prepare_run(
    run: RunDirectory,
    model_config: FabirConfig,
    training: TrainingConfig,
    options: DataOptions,
    resume: bool,
    log: Callable[[str], None],
) -> PreparedRun:
    """Loads and encodes the data, and begins the run's folder or checks that it is the same run.

    Args:
        run: the folder.
        model_config: the model; its vocabulary sizes are filled in.
        training: data and hyper-parameters.
        options: where data is found on this machine.
        resume: whether a run that is there may be continued.
        log: told what happens.

    Returns:
        What training reads.

    Raises:
        UserError: data, configuration or the run's folder do not fit; nothing already written is lost.
    """
    resuming = _check_run(run, model_config, training, resume)
    # Told now, and not once the data is tokenised.
    expect_writable(run.config)
    train_data, eval_data = _load_data(training, options, log)
    check_offsets(train_data)
    tokenised, eval_tokenised = (tokenise(data, options.cache_dir, log) for data in (train_data, eval_data))
    examples, ledger = training_examples(tokenised, training.max_passage, training.max_question)
    fingerprint = {"train": _fingerprint(train_data), "eval": _fingerprint(eval_data)}
    if resuming:
        _check_data(run, fingerprint)
        vectors = load_saved_vectors(run.vocabulary)
        expect_dimension(vectors, model_config.word_dim)
        vocabulary = Vocabulary.load(run.vocabulary, vectors.words)
    else:
        vectors, vocabulary = _make_vocabulary(model_config, training, tokenised, eval_tokenised)
    model_config = model_config.replace(
        trainable_words=vocabulary.trainable_rows,
        characters=vocabulary.character_rows,
        frozen_words=vocabulary.frozen_rows,
    )
    if not resuming:
        passages = range(len(eval_data.passages))
        eval_ledger = measure_coverage(eval_data, [eval_tokenised.texts.tokens_of(passage) for passage in passages])
        save_vectors(vectors, run.vocabulary)
        vocabulary.save(run.vocabulary)
        coverage = {"train": ledger.to_json(), "eval": eval_ledger.to_json()}
        write_text(run.coverage, json.dumps(coverage, indent=1))
        log(f"{ledger.summary()}\n{eval_ledger.summary()}")
    # Last, because its presence is what makes the folder a run; again on resumption, which may train for longer.
    run.write_config(model_config, training, fingerprint)
    encoded, eval_encoded = (
        encode(part, vocabulary, model_config.max_word_characters) for part in (tokenised, eval_tokenised)
    )
    return PreparedRun(run, model_config, training, vectors, vocabulary, encoded, examples, eval_encoded, resuming)


def _check_run(run: RunDirectory, model_config: FabirConfig, training: TrainingConfig, resume: bool) -> bool:
    """Whether there is a run to continue; refuses to mix two runs in one folder."""
    if not run.is_started:
        return False
    if not resume:
        raise UserError(
            f"--run_dir={run.path} already holds a run: add --resume to continue it, or name another folder"
        )
    recorded = run.read_config()
    asked = {"model": model_config.to_dict(), "training": training.to_dict()}
    # The vocabulary decides its sizes, and training longer or shorter is what a resumed run may be for.
    derived = {field.name for field in dataclasses.fields(FabirConfig) if field.metadata["derived"]}
    free = derived | {"epochs", "patience"}
    for part, values in asked.items():
        for name, value in values.items():
            if name not in free and recorded[part].get(name) != value:
                raise UserError(
                    f"--run_dir={run.path} holds a run with {name}={recorded[part].get(name)!r}, "
                    f"found {name}={value!r}: resume with the run's own configuration, or name another folder"
                )
    # A run killed before its first checkpoint has at most the score from before training, and begins anew.
    if not run.last.exists() and run.history.exists() and run.history.read_text().count("\n") > 2:
        raise UserError(f"{run.last}: no such checkpoint, expected the one of the run that {run.history} tells of")
    return run.last.exists()


def _load_data(training: TrainingConfig, options: DataOptions, log) -> tuple[SquadData, SquadData]:
    places = {"tfds_data_dir": options.tfds_data_dir, "tfds_manual_dir": options.tfds_manual_dir, "log": log}
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


def _fingerprint(data: SquadData) -> str:
    digest = hashlib.sha256()
    for question in data.questions:
        digest.update(repr((question.id, question.text, question.answers, data.passages[question.passage])).encode())
    return digest.hexdigest()


def _check_data(run: RunDirectory, fingerprint: dict[str, str]) -> None:
    recorded = run.read_config()["data"]
    for part, flag in (("train", "--dataset"), ("eval", "--eval_dataset")):
        if recorded.get(part) != fingerprint[part]:
            raise UserError(f"{flag}: the data is not what the run in {run.path} began with; resume with the same data")


def _make_vocabulary(
    model_config: FabirConfig, training: TrainingConfig, tokenised: TokenisedData, eval_tokenised: TokenisedData
) -> tuple[WordVectors, Vocabulary]:
    needed = {word.lower() for part in (tokenised, eval_tokenised) for word in part.texts.types}
    vectors = load_vectors(training.vectors, needed, training.max_vectors)
    expect_dimension(vectors, model_config.word_dim)
    counts = tokenised.token_counts()
    return vectors, build_vocabulary(counts, vectors.words, training.min_word_count, training.min_character_count)
