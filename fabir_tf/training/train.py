"""Training: data in, a run directory with a trained reader out; resumable at every checkpoint, bit for bit."""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import numpy as np

from fabir_tf.backends import backend
from fabir_tf.models import build_model
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.models.precision import dtype_policy
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.length_buckets import LengthBucketSampler
from fabir_tf.pipelines.files import csv_text, named_errors, write_text
from fabir_tf.pipelines.text.word_vectors import WordVectors
from fabir_tf.reading.evaluation import predictions_of, score
from fabir_tf.reading.reader import Reader, set_frozen_table
from fabir_tf.reading.run_directory import RunDirectory, reader_directory
from fabir_tf.training.averaging import AveragingAdam
from fabir_tf.training.checkpoint import load_checkpoint, load_weights, save_checkpoint, save_weights
from fabir_tf.training.losses import StartEndLoss
from fabir_tf.training.run_setup import PreparedRun, prepare_run
from fabir_tf.training.schedules import InverseSquareRootSchedule, LinearDecay
from fabir_tf.training.training_config import DataOptions, TrainingConfig

# Kernels that oneDNN keeps, as it asks once, at its first operation: it compiles one for each operation and shape, in a
# tenth of a training step, and would forget its own 1,024 before their shapes come again. A reader that serves takes
# the 1,024, and less memory.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "50000")

HISTORY = ("epoch", "step", "loss", "exact_match", "f1", "learning_rate", "seconds")


def _say(line: str) -> None:
    # At once, also into a file: a long run is followed with `tail -f`.
    print(line, flush=True)


def train(
    run_dir: str,
    model_config: ReaderConfig | None = None,
    training: TrainingConfig | None = None,
    options: DataOptions | None = None,
    resume: bool = False,
    log: Callable[[str], None] = _say,
) -> dict:
    """Trains a reader, scoring it before training and after every epoch.

    Args:
        run_dir: where everything is written; `fabir_tf.Reader.load` reads it.
        model_config: the model; when None that of `training.start_from`, or FABIR; its vocabulary sizes are filled in
            from the data.
        training: data and hyper-parameters.
        options: where data is found on this machine.
        resume: continue the run in `run_dir`, exactly, if there is one.
        log: told what happens.

    Returns:
        The history: a list `epochs` of rows as in history.csv, and `best_f1`, `best_epoch`.

    Raises:
        UserError: data, configuration or the run directory do not fit; nothing already written is lost.
    """
    training = training or TrainingConfig()
    if model_config is None:
        start_from = training.start_from
        model_config = reader_directory(start_from).read_model_config() if start_from else FabirConfig()
    prepared = prepare_run(RunDirectory(run_dir), model_config, training, options or DataOptions(), resume, log)
    groups = length_buckets(prepared.data.rows, prepared.training)
    steps = groups.batches_per_epoch
    trainer = compiled_model(prepared.model_config, prepared.training, prepared.data.vectors, steps)
    if prepared.training.start_from and not prepared.resuming:
        load_weights(reader_directory(prepared.training.start_from).best, trainer.model)
    vocabulary = prepared.data.vocabulary
    log(
        f"{_trainable(trainer):,} trainable parameters; {vocabulary.trainable_rows:,} trained words, "
        f"{vocabulary.character_rows:,} characters, {vocabulary.frozen_rows:,} word vectors"
    )
    return _Session(prepared, trainer, groups, log).run_epochs()


def compiled_model(
    config: ReaderConfig, training: TrainingConfig, vectors: WordVectors, steps_per_epoch: int = 1
) -> DeduplicatedModel:
    """A model with first weights, its loss and optimizer.

    Args:
        config: the model's, with the vocabulary's sizes filled in.
        training: seed, optimizer, loss, precision.
        vectors: the frozen word vectors.
        steps_per_epoch: by which a learning rate that falls at the end knows where that is.

    Returns:
        What is trained.
    """
    keras.utils.set_random_seed(training.seed)
    if training.deterministic:
        backend.make_deterministic()
    with dtype_policy(training.dtype_policy):
        model = build_model(config)
    set_frozen_table(model, vectors.table)
    adam, averaging = keras.optimizers.Adam, {}
    if training.ema_decay is not None:
        adam, averaging = AveragingAdam, {"use_ema": True, "ema_momentum": training.ema_decay}
    optimizer = adam(
        _learning_rate(config, training, steps_per_epoch),
        training.adam_beta_1,
        training.adam_beta_2,
        training.adam_epsilon,
        global_clipnorm=training.clip_norm,
        **averaging,
    )
    if training.dtype_policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    smoothing = (training.smoothing, training.label_smoothing, training.smoothing_deviation)
    losses = {name: StartEndLoss(*smoothing) for name in model.output}
    trainer = DeduplicatedModel(model)
    trainer.compile(optimizer, losses, jit_compile=backend.compiles_with_xla(training.jit_compile))
    # Makes the losses' variables: made inside the training step, they would have it traced twice.
    borders = {name: np.array([[0, 1]]) for name in model.output}
    trainer.compute_loss(y=borders, y_pred={name: np.zeros((1, 2), "float32") for name in model.output})
    return trainer


def _learning_rate(config: ReaderConfig, training: TrainingConfig, steps_per_epoch: int):
    rate = training.learning_rate or InverseSquareRootSchedule(
        config.width, training.learning_rate_factor, training.warmup_steps
    )
    if not training.linear_decay_epochs:
        return rate
    return LinearDecay(rate, training.epochs * steps_per_epoch, training.linear_decay_epochs * steps_per_epoch)


def targets_of(
    rows: Features, borders: np.ndarray, soft_labels: np.ndarray | None = None, share: float = 0.5
) -> dict[str, np.ndarray]:
    """What `StartEndLoss` takes of each row.

    Args:
        rows: what is trained on.
        borders: int `(rows, 2)`, first and last token of each answer.
        soft_labels: float32 `(rows, 2, 2 * places)`, the teachers', from `mean_soft_labels`; None or empty without one.
        share: of the targets, the teachers'.

    Returns:
        An array for each of the model's outputs: int `(rows, 2)`, or with a teacher float32 `(rows, 2 + 2 * places)`.
    """
    names = ("start_logits", "end_logits")
    targets = {
        name: np.stack([places, rows.passage_lengths], axis=1) for name, places in zip(names, borders.T, strict=True)
    }
    if soft_labels is None or not soft_labels.shape[-1]:
        return targets
    places, probabilities = np.split(soft_labels, 2, axis=-1)
    weighted = np.concatenate([places, share * probabilities], axis=-1).astype(np.float32)
    return {
        name: np.concatenate([target.astype(np.float32), weighted[:, border]], axis=1)
        for border, (name, target) in enumerate(targets.items())
    }


def length_buckets(rows: Features, training: TrainingConfig) -> LengthBucketSampler:
    """The batches of a training.

    Args:
        rows: what is trained on.
        training: seed, batch size and what batches are drawn from.
    """
    # Training reads passages from their first token on, which therefore tells them apart.
    together = rows.passage_starts if training.batching == "passages" else None
    return LengthBucketSampler(
        rows.passage_lengths,
        training.batch_size,
        training.length_buckets,
        training.seed,
        together,
        rows.question_lengths,
    )


def _trainable(model: keras.Model) -> int:
    return sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)


class _Session:
    """One process's share of a run: the state that a checkpoint holds, and what is done with it."""

    def __init__(
        self, prepared: PreparedRun, trainer: DeduplicatedModel, groups: LengthBucketSampler, log: Callable[[str], None]
    ):
        self.run = prepared.run
        self.training = prepared.training
        self.rows = prepared.data.rows
        share = self.training.distillation_weight
        self.targets = targets_of(self.rows, prepared.data.borders, prepared.data.soft_labels, share)
        self.eval_encoded = prepared.data.eval_encoded
        self.resuming = prepared.resuming
        self.trainer = trainer
        self.model = trainer.model
        self.reader = Reader(self.model, prepared.data.vocabulary, prepared.model_config)
        self.log = log
        # `seconds` counts training time of the epoch at hand, over all the processes that worked on it.
        self.state = {"epoch": 0, "step": 0, "seconds": 0.0, "loss": None}
        self.state |= {"best_f1": -1.0, "best_epoch": 0, "epochs": []}
        self.groups = groups
        self.steps_per_epoch = groups.batches_per_epoch

    def run_epochs(self) -> dict:
        if self.resuming:
            self.state = load_checkpoint(self.run.last, self.trainer)
            epoch, step = self.state["epoch"] + 1, self.state["step"]
            self.log(f"resuming at epoch {epoch}, step {step:,} of {self.steps_per_epoch:,}")
        else:
            self.log(
                f"{len(self.rows.passage_starts):,} questions to train on, {self.steps_per_epoch:,} steps per epoch"
            )
            self.finish_epoch(loss=None)
        # A resumed epoch has fewer steps than the others, and Keras takes one number for all of a fit.
        if self.state["step"]:
            self._fit(self.state["epoch"] + 1)
            # Keras ends a fit by putting the averages, where they are kept, in place of the weights.
            load_checkpoint(self.run.last, self.trainer)
        if not self.is_over():
            self._fit(self.training.epochs)
        self._finish()
        return {name: self.state[name] for name in ("epochs", "best_f1", "best_epoch")}

    def _fit(self, last_epoch: int) -> None:
        epoch, step = self.state["epoch"], self.state["step"]
        epochs = [self.groups.epoch(number) for number in range(epoch, last_epoch)]
        batches = itertools.islice(itertools.chain(*epochs), step, None)
        self.trainer.fit(
            # The first epoch also where it is long past: a resumed run has the shapes that it had.
            backend.feed(self.rows, batches, self.targets, self.groups.epoch(0)),
            initial_epoch=epoch,
            epochs=last_epoch,
            steps_per_epoch=self.steps_per_epoch - step,
            shuffle=False,
            verbose="auto" if _is_terminal() else 0,
            callbacks=[_Progress(self)],
        )

    def is_over(self) -> bool:
        """Whether all epochs are done, the time is up, or no better score came for too long."""
        if self.state["epoch"] >= self.training.epochs or self.is_out_of_time():
            return True
        patience = self.training.patience
        return patience is not None and self.state["epoch"] - self.state["best_epoch"] >= patience

    def is_out_of_time(self) -> bool:
        """Whether training, of all the processes that worked on it, took as long as it may."""
        minutes = self.training.max_minutes
        if minutes is None:
            return False
        return self.state["seconds"] + sum(row["seconds"] for row in self.state["epochs"]) >= 60 * minutes

    def finish_epoch(self, loss: float | None) -> dict[str, float]:
        """Scores the model, and keeps it if it is the best."""
        backend.sync(self.trainer)
        with self._averaged_weights():
            answers = predictions_of(self.reader, self.eval_encoded)
            scores = score(self.eval_encoded.tokenized.data, {key: answer.text for key, answer in answers.items()})
            if scores["f1"] > self.state["best_f1"]:
                self.state |= {"best_f1": scores["f1"], "best_epoch": self.state["epoch"]}
                save_weights(self.run.best, self.model, {"epoch": self.state["epoch"]} | scores)
        self._record(loss, scores)
        self.save()
        return scores

    def _record(self, loss: float | None, scores: dict[str, float]) -> None:
        optimizer = self.trainer.optimizer
        row = {
            "epoch": self.state["epoch"],
            "step": int(optimizer.iterations.value),
            "loss": loss,
            "exact_match": scores["exact_match"],
            "f1": scores["f1"],
            "learning_rate": float(optimizer.learning_rate),
            "seconds": round(self.state["seconds"], 1),
        }
        self.state["epochs"].append(row)
        self.state |= {"seconds": 0.0, "loss": None}
        write_text(self.run.history, csv_text(HISTORY, self.state["epochs"]))
        events = {name: row[name] for name in HISTORY[2:] if row[name] is not None}
        backend.write_events(self.run.tensorboard, row["step"], events)
        name = f"epoch {row['epoch']}/{self.training.epochs}" if row["epoch"] else "before training"
        trained = "" if loss is None else f"  loss {loss:.4f}  {row['seconds']:.0f} s"
        self.log(f"{name}:  EM {row['exact_match']:.2f}  F1 {row['f1']:.2f}{trained}")

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """The moving averages in place of the weights, where they are kept; never while a checkpoint is written."""
        if self.training.ema_decay is None or not self.state["epoch"]:
            yield
            return
        weights = [np.asarray(weight).copy() for weight in self.model.trainable_variables]
        self.trainer.optimizer.finalize_variable_values(self.model.trainable_variables)
        yield
        for variable, weight in zip(self.model.trainable_variables, weights, strict=True):
            variable.assign(weight)

    def save(self) -> None:
        """Writes the checkpoint that a resumed run continues from."""
        save_checkpoint(self.run.last, self.trainer, self.state)

    def _finish(self) -> None:
        load_weights(self.run.best, self.model)
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
        self._loss = 0.0
        loss = self.session.state["loss"]
        if loss is not None:
            # The epoch's mean loss goes on where the checkpoint left it.
            for variable, value in zip(self.model.metrics[0].variables, loss, strict=True):
                variable.assign(value)
        self._time = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        # Of the step before: an accelerator still computes this one's, and has the next one waiting.
        self._validate_finite(self._loss)
        self._loss = logs["loss"]
        state, now = self.session.state, time.monotonic()
        state["step"] += 1
        state["seconds"] += now - self._time
        self._time = now
        if state["step"] == self.session.steps_per_epoch:
            return
        if self.session.is_out_of_time():
            # Ends the epoch here; it is scored as any other.
            self.model.stop_training = True
            return
        if state["step"] % self.session.training.checkpoint_steps == 0:
            self._validate_finite(self._loss)
            backend.sync(self.model)
            state["loss"] = [float(variable.value) for variable in self.model.metrics[0].variables]
            self.session.save()
        if not _is_terminal() and state["step"] % 100 == 0:
            self.session.log(
                f"epoch {state['epoch'] + 1}  step {state['step']:,}/{self.session.steps_per_epoch:,}  "
                f"loss {logs['loss']:.4f}  {state['seconds']:.0f} s"
            )

    def on_epoch_end(self, epoch, logs=None):
        self._validate_finite(self._loss)
        self.session.state |= {"epoch": epoch + 1, "step": 0}
        scores = self.session.finish_epoch(logs["loss"])
        logs |= {"exact_match": scores["exact_match"], "f1": scores["f1"]}
        if self.session.is_over():
            self.model.stop_training = True

    def _validate_finite(self, loss) -> None:
        if not np.isfinite(loss):
            raise UserError(
                f"the loss is {loss} in epoch {self.session.state['epoch'] + 1}, step {self.session.state['step']}, "
                "expected a number: begin a new run with a lower --learning_rate_factor or with --clip_norm"
            )


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _save_model(run: RunDirectory, model: keras.Model) -> None:
    """Writes the model as one `.keras` file, whole or not at all."""
    temporary = run.model.with_name("unfinished.keras")
    try:
        with named_errors(run.model, temporary):
            model.save(temporary)
            temporary.replace(run.model)
    finally:
        temporary.unlink(missing_ok=True)
