"""Training: data in, a run directory with a trained reader out; resumable at every checkpoint, bit for bit."""

import csv
import dataclasses
import hashlib
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf

from fabir_tf.checkpoint import load_checkpoint, save_checkpoint
from fabir_tf.configuration import Config, setting
from fabir_tf.evaluation import predictions_of, score
from fabir_tf.examples import TrainingExamples, training_examples
from fabir_tf.models import build_model
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.alignment import measure_coverage
from fabir_tf.pipelines.batches import make_batches
from fabir_tf.pipelines.encoding import EncodedData, TokenisedData, encode, tokenise
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.length_groups import LengthGroups
from fabir_tf.pipelines.sources import load_dataset
from fabir_tf.pipelines.squad import SquadData, check_offsets, hold_out
from fabir_tf.pipelines.targets import SMOOTHINGS, border_targets
from fabir_tf.pipelines.vectors import WordVectors, expect_dimension, load_saved_vectors, load_vectors, save_vectors
from fabir_tf.pipelines.vocabulary import Vocabulary, build_vocabulary
from fabir_tf.reader import Reader, set_frozen_table
from fabir_tf.run_directory import RunDirectory
from fabir_tf.schedule import WarmupSchedule

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
HISTORY = ("epoch", "step", "loss", "exact_match", "f1", "learning_rate", "seconds")


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Config):
    """What a run trains on, and how; the defaults are the paper's (FABIR section IV, thesis table 5).

    Raises:
        ConfigError: a value is out of its range.
    """

    dataset: str = setting(
        "auto",
        "Training data: a SQuAD JSON file, a TFDS name such as squad/v1.1, sample (bundled), or auto (SQuAD 1.1 through "
        "TFDS where it is prepared or can be downloaded, else the sample)",
    )
    eval_dataset: str = setting(
        "",
        "Data scored after each epoch, named as dataset is; when empty, the dataset's own dev split, or for a JSON file "
        "every tenth article, set aside whole",
    )
    vectors: str = setting(
        "bundled", "Word vectors: bundled (30,000 words), none, or a GloVe text or .npz file"
    )
    max_vectors: int = setting(
        400_000, "Word vectors read from the beginning of the file; later ones only for words of the data", low=0
    )
    max_passage: int = setting(400, "Most tokens of a passage that is trained on", low=1)
    max_question: int = setting(60, "Most tokens of a question that is trained on", low=1)
    min_word_count: int = setting(100, "A word without a vector is trained if it occurs more often than this", low=0)
    min_character_count: int = setting(50, "A character keeps an id if it occurs more often than this", low=0)
    epochs: int = setting(54, "Epochs to train", low=0)
    batch_size: int = setting(75, "Questions per batch", low=1)
    length_groups: int = setting(30, "Groups of like passage length from which batches are drawn", low=1)
    learning_rate_factor: float = setting(0.5, "Factor of the learning rate schedule", low=0.0)
    warmup_steps: int = setting(4000, "Steps in which the learning rate rises", low=1)
    adam_beta_1: float = setting(0.9, "Adam's decay of the gradient's mean", low=0.0, high=0.99999)
    adam_beta_2: float = setting(0.98, "Adam's decay of the gradient's square", low=0.0, high=0.99999)
    adam_epsilon: float = setting(1e-8, "Adam's epsilon", low=0.0)
    clip_norm: float | None = setting(None, "Largest norm of all gradients together", low=1e-6)
    ema_decay: float | None = setting(
        None, "Decay of the weights' moving average, which is then what is scored and kept", low=0.0, high=0.99999
    )
    smoothing: str = setting("gaussian", "How targets are smoothed", choices=SMOOTHINGS)
    smoothing_amount: float = setting(0.1, "Probability moved off the true border", low=0.0, high=0.99)
    smoothing_deviation: float = setting(1.0, "Standard deviation of the Gaussian smoothing, in tokens", low=1e-3)
    patience: int | None = setting(None, "Stop after so many epochs without a better F1", low=1)
    checkpoint_steps: int = setting(200, "Steps between checkpoints; one is also written after each epoch", low=1)
    seed: int = setting(1, "Seed of weights, dropout and the order of the data", low=0, high=2**31 - 1)
    deterministic: bool = setting(True, "Repeat exactly from one seed, also where that is slower (on a GPU)")
    dtype_policy: str = setting("float32", "Precision of the layers", choices=POLICIES)
    jit_compile: bool = setting(False, "Compile the training step with XLA")


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Where data is found on this machine; of no influence on the result.

    Attributes:
        cache_dir: where tokenised texts are kept between runs; None keeps none.
        tfds_data_dir: where TFDS keeps prepared datasets; None is its default.
        tfds_manual_dir: a folder with the official SQuAD files, for machines without the internet.
    """

    cache_dir: str | None = "~/.cache/fabir_tf"
    tfds_data_dir: str | None = None
    tfds_manual_dir: str | None = None


def train(
    run_dir: str,
    model_config: FabirConfig | None = None,
    training: TrainingConfig | None = None,
    options: DataOptions | None = None,
    resume: bool = False,
    log: Callable[[str], None] = print,
) -> dict:
    """Trains a reader, scoring it before training and after every epoch.

    Args:
        run_dir: where everything is written; `fabir_tf.Reader.load` reads it.
        model_config: the model; its vocabulary sizes are filled in from the data.
        training: data and hyper-parameters.
        options: where data is found on this machine.
        resume: continue the run in `run_dir`, exactly, if there is one.
        log: told what happens.

    Returns:
        The history: a list `epochs` of rows as in history.csv, and `best_f1`, `best_epoch`.

    Raises:
        UserError: data, configuration or the run directory do not fit; nothing already written is lost.
    """
    model_config, training, options = model_config or FabirConfig(), training or TrainingConfig(), options or DataOptions()
    run = RunDirectory(run_dir)
    resuming = _check_run(run, model_config, training, resume)
    train_data, eval_data = _load_data(training, options, log)
    check_offsets(train_data)
    tokenised, eval_tokenised = (tokenise(data, options.cache_dir, log) for data in (train_data, eval_data))
    examples, ledger = training_examples(tokenised, training.max_passage, training.max_question)
    fingerprint = {"train": _fingerprint(train_data), "eval": _fingerprint(eval_data)}
    if resuming:
        _check_data(run, fingerprint)
        vectors = load_saved_vectors(run.vocabulary)
        vocabulary = Vocabulary.load(run.vocabulary, vectors.words)
    else:
        vectors, vocabulary = _make_vocabulary(model_config, training, tokenised, eval_tokenised)
    model_config = _with_vocabulary(model_config, vocabulary)
    model = _compiled_model(model_config, training, vectors)
    if not resuming:
        eval_ledger = measure_coverage(eval_data, [eval_tokenised.texts.tokens_of(p) for p in range(len(eval_data.passages))])
        save_vectors(vectors, run.vocabulary)
        vocabulary.save(run.vocabulary)
        coverage = {"train": ledger.to_json(), "eval": eval_ledger.to_json()}
        write_text(run.coverage, json.dumps(coverage, indent=1))
        # Last, because its presence is what makes the folder a run.
        run.write_config(model_config, training, fingerprint)
        log(f"{ledger.summary()}\n{eval_ledger.summary()}")
    log(
        f"{_trainable(model):,} trainable parameters; {vocabulary.trainable_rows:,} trained words, "
        f"{vocabulary.character_rows:,} characters, {vocabulary.frozen_rows:,} word vectors"
    )
    width = model_config.max_word_characters
    session = _Session(
        run=run,
        training=training,
        model=model,
        reader=Reader(model, vocabulary, model_config),
        eval_encoded=encode(eval_tokenised, vocabulary, width),
        log=log,
    )
    return session.run_epochs(encode(tokenised, vocabulary, width), examples, resuming)


def _check_run(run: RunDirectory, model_config: FabirConfig, training: TrainingConfig, resume: bool) -> bool:
    """Whether there is a run to continue; refuses to mix two runs in one folder."""
    if not run.is_started:
        return False
    if not resume:
        raise UserError(f"--run_dir={run.path} already holds a run: add --resume to continue it, or name another folder")
    recorded = run.read_config()
    asked = {"model": model_config.to_dict(), "training": training.to_dict()}
    # The vocabulary decides its sizes, and training longer or shorter is what a resumed run may be for.
    free = {field.name for field in dataclasses.fields(FabirConfig) if field.metadata["derived"]} | {"epochs", "patience"}
    for part, values in asked.items():
        for name, value in values.items():
            if name not in free and recorded[part].get(name) != value:
                raise UserError(
                    f"--run_dir={run.path} holds a run with {name}={recorded[part].get(name)!r}, found {name}={value!r}: "
                    "resume with the run's own configuration, or name another folder"
                )
    return run.last.exists()


def _load_data(training: TrainingConfig, options: DataOptions, log) -> tuple[SquadData, SquadData]:
    places = {"tfds_data_dir": options.tfds_data_dir, "tfds_manual_dir": options.tfds_manual_dir, "log": log}
    train_data = load_dataset(training.dataset, "train", **places)
    if training.eval_dataset:
        return train_data, load_dataset(training.eval_dataset, "dev", **places)
    if training.dataset.endswith(".json"):
        train_data, eval_data = hold_out(train_data)
        log(f"no --eval_dataset: {len(eval_data.questions):,} questions of {training.dataset} are set aside, article by article")
        return train_data, eval_data
    return train_data, load_dataset(training.dataset, "dev", **places)


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


def _with_vocabulary(config: FabirConfig, vocabulary: Vocabulary) -> FabirConfig:
    return config.replace(
        trainable_words=vocabulary.trainable_rows,
        characters=vocabulary.character_rows,
        frozen_words=vocabulary.frozen_rows,
    )


def _compiled_model(config: FabirConfig, training: TrainingConfig, vectors: WordVectors) -> keras.Model:
    keras.utils.set_random_seed(training.seed)
    if training.deterministic:
        tf.config.experimental.enable_op_determinism()
    with _policy(training.dtype_policy):
        model = build_model(config)
    set_frozen_table(model, vectors.table)
    optimizer = keras.optimizers.Adam(
        WarmupSchedule(config.d_model, training.learning_rate_factor, training.warmup_steps),
        training.adam_beta_1,
        training.adam_beta_2,
        training.adam_epsilon,
        global_clipnorm=training.clip_norm,
        use_ema=training.ema_decay is not None,
        ema_momentum=training.ema_decay or 0.99,
    )
    if training.dtype_policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    losses = {name: keras.losses.CategoricalCrossentropy(from_logits=True) for name in model.output}
    model.compile(optimizer, losses, jit_compile=training.jit_compile)
    return model


@contextmanager
def _policy(name: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _trainable(model: keras.Model) -> int:
    return sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)


class _Session:
    """One process's share of a run: the state that a checkpoint holds, and what is done with it."""

    def __init__(self, run, training, model, reader, eval_encoded, log):
        self.run: RunDirectory = run
        self.training: TrainingConfig = training
        self.model: keras.Model = model
        self.reader: Reader = reader
        self.eval_encoded: EncodedData = eval_encoded
        self.log = log
        # `seconds` counts training time of the epoch at hand, over all the processes that worked on it.
        self.state = {"epoch": 0, "step": 0, "seconds": 0.0, "loss": None, "best_f1": -1.0, "best_epoch": 0, "epochs": []}

    def run_epochs(self, encoded: EncodedData, examples: TrainingExamples, resuming: bool) -> dict:
        groups = LengthGroups(
            examples.rows.lengths, self.training.batch_size, self.training.length_groups, self.training.seed
        )
        self.steps_per_epoch = groups.batches_per_epoch
        if resuming:
            self.state = load_checkpoint(self.run.last, self.model)
            self.log(f"resuming at epoch {self.state['epoch'] + 1}, step {self.state['step']:,} of {self.steps_per_epoch:,}")
        else:
            self.log(f"{len(examples.firsts):,} questions to train on, {self.steps_per_epoch:,} steps per epoch")
            self.finish_epoch(loss=None)
        # A resumed epoch has fewer steps than the others, and Keras takes one number for all of a fit.
        if self.state["step"]:
            self._fit(encoded, examples, groups, self.state["epoch"] + 1)
        if not self._is_over():
            self._fit(encoded, examples, groups, self.training.epochs)
        self._finish()
        return {name: self.state[name] for name in ("epochs", "best_f1", "best_epoch")}

    def _fit(self, encoded, examples, groups, last_epoch: int) -> None:
        epoch, step = self.state["epoch"], self.state["step"]

        def batches():
            for number in range(epoch, last_epoch):
                yield from groups.epoch(number)[step if number == epoch else 0 :]

        def targets(batch, lengths, width):
            borders = {"start_logits": examples.firsts, "end_logits": examples.lasts}
            settings = (self.training.smoothing, self.training.smoothing_amount, self.training.smoothing_deviation)
            return {
                name: border_targets(tf.gather(tf.constant(places), batch), lengths, width, *settings)
                for name, places in borders.items()
            }

        self.model.fit(
            make_batches(encoded, examples.rows, batches, targets),
            initial_epoch=epoch,
            epochs=last_epoch,
            steps_per_epoch=self.steps_per_epoch - step,
            shuffle=False,
            verbose="auto" if _is_terminal() else 0,
            callbacks=[_Progress(self)],
        )

    def _is_over(self) -> bool:
        if self.state["epoch"] >= self.training.epochs:
            return True
        patience = self.training.patience
        return patience is not None and self.state["epoch"] - self.state["best_epoch"] >= patience

    def finish_epoch(self, loss: float | None) -> dict[str, float]:
        """Scores the model, and keeps it if it is the best."""
        with self._averaged_weights():
            answers = predictions_of(self.reader, self.eval_encoded)
            scores = score(self.eval_encoded.tokenised.data, {key: answer.text for key, answer in answers.items()})
            if scores["f1"] > self.state["best_f1"]:
                self.state |= {"best_f1": scores["f1"], "best_epoch": self.state["epoch"]}
                save_checkpoint(self.run.best, self.model, {"epoch": self.state["epoch"]} | scores, optimizer=False)
        self._record(loss, scores)
        self.save()
        return scores

    def _record(self, loss: float | None, scores: dict[str, float]) -> None:
        optimizer = self.model.optimizer
        row = {
            "epoch": self.state["epoch"],
            "step": int(optimizer.iterations.numpy()),
            "loss": loss,
            "exact_match": scores["exact_match"],
            "f1": scores["f1"],
            "learning_rate": float(optimizer.learning_rate.numpy()),
            "seconds": round(self.state["seconds"], 1),
        }
        self.state["epochs"].append(row)
        self.state |= {"seconds": 0.0, "loss": None}
        text = io.StringIO()
        writer = csv.DictWriter(text, HISTORY, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.state["epochs"])
        write_text(self.run.history, text.getvalue())
        _write_events(self.run, row)
        name = f"epoch {row['epoch']}/{self.training.epochs}" if row["epoch"] else "before training"
        trained = "" if loss is None else f"  loss {loss:.4f}  {row['seconds']:.0f} s"
        self.log(f"{name}:  EM {row['exact_match']:.2f}  F1 {row['f1']:.2f}{trained}")

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """The moving averages in place of the weights, where they are kept; never while a checkpoint is written."""
        if self.training.ema_decay is None or not self.state["epoch"]:
            yield
            return
        weights = [weight.numpy() for weight in self.model.trainable_variables]
        self.model.optimizer.finalize_variable_values(self.model.trainable_variables)
        yield
        for variable, weight in zip(self.model.trainable_variables, weights, strict=True):
            variable.assign(weight)

    def save(self) -> None:
        """Writes the checkpoint that a resumed run continues from."""
        save_checkpoint(self.run.last, self.model, self.state)

    def _finish(self) -> None:
        load_checkpoint(self.run.best, self.model, optimizer=False)
        answers = predictions_of(self.reader, self.eval_encoded)
        texts = {key: answer.text for key, answer in answers.items()}
        write_text(self.run.predictions, json.dumps(texts, ensure_ascii=False))
        _save_model(self.run, self.model)
        best = self.state["epochs"][self.state["best_epoch"]]
        self.log(
            f"best: epoch {best['epoch']}  EM {best['exact_match']:.2f}  F1 {best['f1']:.2f}; "
            f"ask it with: fabir-predict --run_dir={self.run.path} --question=... --passage=..."
        )


class _Progress(keras.callbacks.Callback):
    """Keeps a session's state in step with `fit`: counts, checkpoints, scores, stops."""

    def __init__(self, session: _Session):
        super().__init__()
        self.session = session

    def on_epoch_begin(self, epoch, logs=None):
        loss = self.session.state["loss"]
        if loss is not None:
            # The epoch's mean loss goes on where the checkpoint left it.
            for variable, value in zip(self.model.metrics[0].variables, loss, strict=True):
                variable.assign(value)
        self._time = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        if not np.isfinite(logs["loss"]):
            raise UserError(
                f"the loss is {logs['loss']} in epoch {self.session.state['epoch'] + 1}, step "
                f"{self.session.state['step'] + 1}: lower --learning_rate_factor or set --clip_norm, and resume"
            )
        state, now = self.session.state, time.monotonic()
        state["step"] += 1
        state["seconds"] += now - self._time
        self._time = now
        if state["step"] == self.session.steps_per_epoch:
            return
        if state["step"] % self.session.training.checkpoint_steps == 0:
            state["loss"] = [float(variable.numpy()) for variable in self.model.metrics[0].variables]
            self.session.save()
        if not _is_terminal() and state["step"] % 100 == 0:
            self.session.log(
                f"epoch {state['epoch'] + 1}  step {state['step']:,}/{self.session.steps_per_epoch:,}  "
                f"loss {logs['loss']:.4f}  {state['seconds']:.0f} s"
            )

    def on_epoch_end(self, epoch, logs=None):
        self.session.state |= {"epoch": epoch + 1, "step": 0}
        scores = self.session.finish_epoch(logs["loss"])
        logs |= {"exact_match": scores["exact_match"], "f1": scores["f1"]}
        if self.session._is_over():
            self.model.stop_training = True


def _write_events(run: RunDirectory, row: dict) -> None:
    """Writes a row of the history for TensorBoard, which need not be installed for that."""
    summary = tf.compat.v1.Summary()
    for name in HISTORY[2:]:
        if row[name] is not None:
            summary.value.add(tag=name, simple_value=row[name])
    with tf.summary.create_file_writer(str(run.tensorboard)).as_default():
        tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=row["step"])


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _save_model(run: RunDirectory, model: keras.Model) -> None:
    """Writes the model as one `.keras` file, whole or not at all."""
    temporary = run.model.with_name("unfinished.keras")
    model.save(temporary)
    temporary.replace(run.model)
