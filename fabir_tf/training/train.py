"""Training: data in, a run directory with a trained reader out; resumable at every checkpoint, bit for bit."""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from fabir_tf.backends import backend
from fabir_tf.backends.bfloat16 import BFLOAT16, is_emulated
from fabir_tf.models import FINE_TUNING, build_model, model_name, training_settings
from fabir_tf.models.deduplicated import DeduplicatedModel
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.models.parameters import count_trainable
from fabir_tf.models.reader_config import ReaderConfig
from fabir_tf.models.weights import save_weights, set_frozen_tables, set_weights, weights_of
from fabir_tf.pipelines.arguments import validate_type
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.examples import true_spans
from fabir_tf.pipelines.features.features import Features
from fabir_tf.pipelines.features.length_buckets import LengthBucketSampler
from fabir_tf.pipelines.features.splitting import passages_of
from fabir_tf.pipelines.features.teacher_distributions import split_soft_labels
from fabir_tf.pipelines.files import csv_text, named_errors, user_path, validate_writable, write_text
from fabir_tf.pipelines.text.processor import TextProcessor
from fabir_tf.precision import dtype_policy
from fabir_tf.reading.evaluation import predictions_of, score_answers
from fabir_tf.reading.held_out_loss import HeldOutLoss
from fabir_tf.reading.reader import Reader
from fabir_tf.reading.run_directory import RunDirectory, reader_directory
from fabir_tf.training.adapting import adapted_calibration
from fabir_tf.training.checkpoint import load_checkpoint, save_checkpoint
from fabir_tf.training.data_options import DataOptions
from fabir_tf.training.devices import training_devices
from fabir_tf.training.losses import StartEndLoss
from fabir_tf.training.optimizers import make_optimizer
from fabir_tf.training.prepared_data import validate_settings, with_prepared_settings
from fabir_tf.training.run_lock import locked
from fabir_tf.training.run_setup import PreparedRun, prepare_run, recorded_training, validate_resumable
from fabir_tf.training.schedules import InverseSquareRootSchedule, LinearDecay, LinearWarmup
from fabir_tf.training.training_config import TrainingConfig
from fabir_tf.training.vector_cache import with_kept_vectors

# oneDNN compiles a kernel for each operation and shape, which takes a tenth of a training step. Its default cache of
# 1,024 kernels would lose them before their shapes occur again. It reads this at its first operation. Serving keeps the
# default, which needs less memory.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "50000")

# The first steps trace the graph and compile kernels; the next ones tell how long the others take.
WARM_UP_STEPS, MEASURED_STEPS = 5, 20
# Shorter runs are not worth a line, in minutes.
SHORT_RUN = 3

HISTORY = (
    "epoch",
    "step",
    "loss",
    "held_out_loss",
    "accuracy",
    "exact_match",
    "f1",
    "learning_rate",
    "seconds",
)


def _say(line: str) -> None:
    # Flushed, so that a long run can be followed in a file with `tail -f`.
    print(line, flush=True)


def train(
    run_dir: str | os.PathLike,
    model_config: ReaderConfig | None = None,
    training: TrainingConfig | None = None,
    options: DataOptions | None = None,
    resume: bool = False,
    log: Callable[[str], None] = _say,
) -> dict:
    """Trains a reader, and scores it before training and after every epoch.

    Args:
        run_dir: the folder that everything is written to; `fabir_tf.Reader.load` reads it.
        model_config: the model; None for that of `training.start_from`, or FABIR. The sizes of its tables are filled in
            from the data.
        training: data and hyper-parameters; None for the model's own (`fabir_tf.models.training_settings`).
        options: where this machine keeps data.
        resume: continue the run in `run_dir` exactly; `model_config` and `training` are then by default the run's own.
        log: called with lines about the progress.

    Returns:
        The history: a list `epochs` of rows as in history.csv, and `best_f1`, `best_epoch`.

    Raises:
        UserError: data, configuration, devices or the run directory do not fit, there is no run to resume, or another
            training is writing into the folder; nothing already written is lost.
    """
    expected = "as in train(run_dir, model_config, training, options)"
    for name, value, kind in (
        ("model_config", model_config, ReaderConfig),
        ("training", training, TrainingConfig),
        ("options", options, DataOptions),
    ):
        if value is not None:
            validate_type(name, value, kind, f"a {kind.__name__}, {expected}")
    run = RunDirectory(run_dir)
    if resume:
        validate_resumable(run)
        model_config, training = model_config or run.read_model_config(), training or recorded_training(run)
    if model_config is None:
        start_from = training.start_from if training else ""
        model_config = reader_directory(start_from).read_model_config() if start_from else FabirConfig()
    training = training or TrainingConfig(**training_settings(model_name(model_config), {}))
    options = options or DataOptions()
    if options.prepared:
        model_config, training = with_prepared_settings(options.prepared, model_config, training)
    validate_settings(model_config, training)
    _validate_vector_cache(model_config, training, options)
    # Before TensorFlow or JAX computes anything.
    devices = training_devices(training, log)
    with locked(run):
        prepared = prepare_run(run, model_config, training, options, resume, log)
        with devices:
            return _train(prepared, log)


def _validate_vector_cache(config: ReaderConfig, training: TrainingConfig, options: DataOptions) -> None:
    """Refuses to keep vectors that change, or that several devices would need."""
    if options.vector_cache and not config.has_frozen_part:
        raise UserError(
            f"--vector_cache={options.vector_cache}: found a model without a frozen word model, expected one with "
            "--word_vectors=elmo, or with --word_vectors=bert and without --tune_word_model"
        )
    if options.vector_cache and training.distribution != "none":
        raise UserError(
            f"--vector_cache={options.vector_cache}: found --distribution={training.distribution}, expected one device"
        )
    if options.vector_cache:
        validate_writable(user_path(options.vector_cache) / "vectors")


def _train(prepared: PreparedRun, log: Callable[[str], None]) -> dict:
    sampler = bucket_sampler(prepared.data.features, prepared.training, prepared.data.groups)
    steps = sampler.batches_per_epoch
    keeps = prepared.options.vector_cache is not None
    trainer = compiled_model(prepared.model_config, prepared.training, prepared.data.processor, steps, keeps)
    if prepared.training.start_from and not prepared.resuming:
        start = reader_directory(prepared.training.start_from)
        set_weights(trainer.model, start.read_weights()[1], start.weights, allow_missing=True)
    elif not prepared.resuming:
        prepared.model_config.initialize(trainer.model)
    sizes = [f"{size:,} {name.replace('_', ' ')}" for name, size in prepared.data.processor.sizes.items()]
    if is_emulated(prepared.training.dtype_policy):
        log(f"--dtype_policy={BFLOAT16}: this processor computes bfloat16 in software, which takes longer than float32")
    parameters = f"{count_trainable(trainer):,} trainable parameters"
    log(f"{parameters}; {', '.join(sizes)}" if sizes else parameters)
    return _Session(prepared, trainer, sampler, log).run_epochs()


def compiled_model(
    config: ReaderConfig,
    training: TrainingConfig,
    processor: TextProcessor,
    steps_per_epoch: int = 1,
    keeps_vectors: bool = False,
) -> DeduplicatedModel:
    """A model with initial weights, its loss and optimizer; inside `training_devices` it trains on these.

    Args:
        config: the model's, with the processor's sizes filled in.
        training: seed, optimizer, loss, precision.
        processor: has the tables that are not trained.
        steps_per_epoch: a learning rate that falls at the end needs the number of steps.
        keeps_vectors: whether it is trained on `with_kept_vectors`.

    Returns:
        The model to train.
    """
    keras.utils.set_random_seed(training.seed)
    if training.deterministic:
        backend.make_deterministic()
    with dtype_policy(training.dtype_policy):
        model = build_model(config)
    set_frozen_tables(model, processor.frozen_tables)
    factors = [config.rate_factor(variable.path) for variable in model.trainable_variables]
    optimizer = make_optimizer(learning_rate(config, training, steps_per_epoch), training, factors)
    if training.dtype_policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    smoothing = (training.smoothing, training.label_smoothing, training.smoothing_deviation)
    loss = StartEndLoss(*smoothing, training.shared_norm)
    trainer = backend.trainer(model, config.frozen_part(model).rest if keeps_vectors else None)
    trainer.compile(optimizer, loss, jit_compile=backend.compiles_with_xla(training.jit_compile))
    return trainer


def learning_rate(
    config: ReaderConfig, training: TrainingConfig, steps_per_epoch: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate of a training, a number or a schedule.

    Args:
        config: the model's.
        training: the schedule's settings.
        steps_per_epoch: what its end is counted with.
    """
    rate = training.learning_rate or InverseSquareRootSchedule(
        config.width, training.learning_rate_factor, training.warmup_steps
    )
    last_step = _total_steps(training, steps_per_epoch)
    warm_up = round(training.warmup_share * last_step)
    if warm_up:
        rate = LinearWarmup(rate, warm_up)
    if not training.linear_decay_epochs:
        return rate
    # max_steps may end a training in the middle of its decay, which then begins at once, or after the warm-up.
    steps = min(training.linear_decay_epochs * steps_per_epoch, max(last_step - warm_up, 1))
    return LinearDecay(rate, last_step, steps)


def _total_steps(training: TrainingConfig, steps_per_epoch: int) -> int:
    """The steps of a run that neither its time nor its score ends."""
    steps = training.epochs * steps_per_epoch
    return steps if training.max_steps is None else min(steps, training.max_steps)


def make_targets(
    features: Features,
    spans: np.ndarray,
    soft_labels: np.ndarray | None = None,
    weight: float | np.ndarray = 0.5,
    groups: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """The targets of `StartEndLoss`.

    Args:
        features: the examples to train on.
        spans: int `(examples, 2)`, first and last token of each answer; -1 where there is none.
        soft_labels: float32 `(examples, 2, 2 * kept + 1)`, from `mean_soft_labels`; None or empty without a teacher.
        weight: of the teachers' distributions in the targets, one number or `(examples,)`.
        groups: int `(examples,)`, the group ids of a shared norm; None without one.

    Returns:
        Arrays `(examples, ...)` by name.
    """
    offsets = features.logit_offsets
    start, end = np.where(spans >= 0, spans + offsets[:, None], spans).T.astype(np.int32)
    targets = {
        "start": start,
        "end": end,
        "offset": offsets.astype(np.int32),
        "length": features.passage_lengths.astype(np.int32),
    }
    if groups is not None:
        targets["group_ids"] = groups.astype(np.int32)
    if soft_labels is None or not soft_labels.shape[-1]:
        return targets
    indices, probabilities, null = split_soft_labels(soft_labels)
    weight = np.broadcast_to(weight, len(spans))[:, None, None]
    parts = (indices + offsets[:, None, None], weight * probabilities, weight * null)
    return targets | {"soft_labels": np.concatenate(parts, axis=-1).astype(np.float32)}


def bucket_sampler(
    features: Features, training: TrainingConfig, groups: np.ndarray | None = None
) -> LengthBucketSampler:
    """The sampler of a training's batches.

    Args:
        features: the examples to train on.
        training: seed, batch size and batching.
        groups: int `(examples,)`, the same number for examples that stay in one batch; None for none.
    """
    lengths, question, together = features.passage_lengths, features.segments.get("question"), None
    has_groups = groups is not None and len(np.unique(groups)) < len(groups)
    if training.batching == "passages":
        # The first of a group is its own.
        together = passages_of(features, groups)
    elif has_groups:
        together = groups
    if together is not None and has_groups:
        lengths = _longest_of(together, lengths)
    sizes = (training.batch_size, training.length_buckets, training.seed)
    return LengthBucketSampler(lengths, *sizes, together, question.lengths if question else None)


def _longest_of(groups: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The largest length in the group of each example."""
    _, of_group = np.unique(groups, return_inverse=True)
    longest = np.zeros(of_group.max() + 1, lengths.dtype)
    np.maximum.at(longest, of_group, lengths)
    return longest[of_group]


class _Session:
    """The part of a run that one process does: the state that a checkpoint holds, and what is done with it."""

    def __init__(
        self,
        prepared: PreparedRun,
        trainer: DeduplicatedModel,
        sampler: LengthBucketSampler,
        log: Callable[[str], None],
    ):
        data = prepared.data
        self.run = prepared.run
        self.training = prepared.training
        self.features = data.features
        self.frozen = prepared.model_config.frozen_part(trainer.model) if prepared.options.vector_cache else None
        taught = (data.soft_labels, np.where(data.kept, 1.0, self.training.distillation_weight))
        groups = data.groups if self.training.shared_norm else None
        self.targets = make_targets(data.features, data.spans, *taught, groups)
        self.evaluation = data.evaluation
        self.true_spans = true_spans(data.evaluation, prepared.model_config.null_head)
        self.resuming = prepared.resuming
        self.options = prepared.options
        self.trainer = trainer
        self.model = trainer.model
        self.reader = Reader(self.model, data.processor, prepared.model_config)
        self.start_weights = _start_weights(self.training, self.model)
        self.log = log
        # `seconds` is the training time of the current epoch, over all processes that worked on it, and `batches`
        # counts the steps of all epochs. `cut` is the place where a limit has ended the last epoch.
        self.state: dict[str, Any] = {"epoch": 0, "step": 0, "batches": 0, "seconds": 0.0, "loss": None, "cut": None}
        self.state |= {"best_f1": -1.0, "best_epoch": 0, "epochs": []}
        self.sampler = sampler
        self.steps_per_epoch = sampler.batches_per_epoch

    def _report_warm_up(self) -> None:
        """Tells of a warm-up that is longer than the run; one much longer keeps the learning rate low."""
        steps, warm_up = _total_steps(self.training, self.steps_per_epoch), self.training.warmup_steps
        if self.training.learning_rate is None and 0 < steps < warm_up:
            is_low = 2 * steps < warm_up
            better = f"--warmup_steps={steps}"
            if self.training.start_from:
                better = f"--learning_rate={FINE_TUNING['learning_rate']}"
            effect = f"stays low; try {better}" if is_low else "still rises at its end"
            self.log(f"--warmup_steps={warm_up}: this run has only {steps:,} steps, so its learning rate {effect}")

    def run_epochs(self) -> dict:
        if self.resuming:
            self.state = load_checkpoint(self.run.last, self.trainer)
            self.state.setdefault("batches", self.state["epoch"] * self.steps_per_epoch + self.state["step"])
            self._reopen_cut_epoch()
            epoch, step = self.state["epoch"] + 1, self.state["step"]
            self.log(f"resuming at epoch {epoch}, step {step:,} of {self.steps_per_epoch:,}")
        else:
            questions, steps = counted(len(self.features), "question"), counted(self.steps_per_epoch, "step")
            self.log(f"{questions} to train on, {steps} per epoch")
            self._report_warm_up()
            self.finish_epoch(loss=None)
        # A resumed epoch has fewer steps than the others, and a fit has one number of steps for all its epochs.
        if self.state["step"] and not self.is_over():
            self._fit(self.state["epoch"] + 1)
            # Keras replaces the weights by their averages, if it keeps any, at the end of a fit.
            load_checkpoint(self.run.last, self.trainer)
        if not self.is_over():
            self._fit(self.training.epochs)
        self._finish()
        return {name: self.state[name] for name in ("epochs", "best_f1", "best_epoch")}

    def _reopen_cut_epoch(self) -> None:
        """Goes back into the epoch that --max_steps or --max_minutes has ended, if they leave room for more now."""
        cut = self.state.get("cut")
        if not cut:
            return
        closed = self.state
        self.state = closed | cut | {"epoch": closed["epoch"] - 1, "epochs": closed["epochs"][:-1], "cut": None}
        if self.is_over():
            self.state = closed

    def _keep_vectors(self) -> None:
        """Computes what is not trained, with the weights that the run has by now."""
        if self.frozen and self.options.vector_cache:
            self.features = with_kept_vectors(self.features, self.frozen, self.options.vector_cache, self.log)
            self.frozen = None

    def _fit(self, last_epoch: int) -> None:
        self._keep_vectors()
        epoch, step = self.state["epoch"], self.state["step"]
        epochs = [self.sampler.epoch(number) for number in range(epoch, last_epoch)]
        batches = itertools.islice(itertools.chain(*epochs), step, None)
        self.trainer.fit(
            # Shapes are always chosen from the first epoch, so that a resumed run has the same.
            backend.feed(self.features, batches, self.targets, self.sampler.epoch(0)),
            initial_epoch=epoch,
            epochs=last_epoch,
            steps_per_epoch=self.steps_per_epoch - step,
            shuffle=False,
            verbose="auto" if _is_terminal() else 0,
            callbacks=[_Progress(self)],
        )

    def is_over(self) -> bool:
        """Whether all epochs are done, time or steps are used up, or the score has not improved for too long."""
        if self.state["epoch"] >= self.training.epochs or self.is_used_up():
            return True
        patience = self.training.patience
        return patience is not None and self.state["epoch"] - self.state["best_epoch"] >= patience

    def is_used_up(self) -> bool:
        """Whether training has taken as long, or as many steps, as it may, over all processes that worked on it."""
        steps, minutes = self.training.max_steps, self.training.max_minutes
        if steps is not None and self.state["batches"] >= steps:
            return True
        if minutes is None:
            return False
        return self.state["seconds"] + sum(row["seconds"] for row in self.state["epochs"]) >= 60 * minutes

    def finish_epoch(self, loss: float | None) -> dict[str, float]:
        """Scores the model, and saves its weights if they are the best."""
        backend.sync(self.trainer)
        with self._weights_to_keep():
            scores, held_out = self._scores()
            if scores["f1"] > self.state["best_f1"]:
                self.state |= {"best_f1": scores["f1"], "best_epoch": self.state["epoch"]}
                save_weights(self.run.best, self.model, {"epoch": self.state["epoch"]} | scores)
        self._record(loss, held_out, scores)
        self.save()
        return scores

    def _scores(self) -> tuple[dict[str, float], HeldOutLoss]:
        """Answers the held-out questions once, for their scores and their loss."""
        data, held_out = self.evaluation.data, HeldOutLoss(self.evaluation, self.true_spans)
        answers = self.reader.predict(self.evaluation, watch=held_out.add)
        by_id = {question.id: answer for question, answer in zip(data.questions, answers, strict=True)}
        return _best_scores(score_answers(data, by_id)), held_out

    def _record(self, loss: float | None, held_out: HeldOutLoss, scores: dict[str, float]) -> None:
        optimizer = self.trainer.optimizer
        row = {
            "epoch": self.state["epoch"],
            "step": int(np.asarray(optimizer.iterations)),
            "loss": loss,
            "held_out_loss": held_out.loss,
            "accuracy": held_out.accuracy,
            "exact_match": scores["exact_match"],
            "f1": scores["f1"],
            "learning_rate": float(np.asarray(optimizer.learning_rate)),
            "seconds": round(self.state["seconds"], 1),
        }
        self.state["epochs"].append(row)
        self.state |= {"seconds": 0.0, "loss": None}
        write_text(self.run.history, csv_text(HISTORY, self.state["epochs"]))
        events = {name: row[name] for name in HISTORY[2:] if row[name] is not None}
        backend.write_events(self.run.tensorboard, row["step"], events)
        name = f"epoch {row['epoch']}/{self.training.epochs}" if row["epoch"] else "before training"
        parts = [f"EM {row['exact_match']:.2f}", f"F1 {row['f1']:.2f}"]
        parts += [f"loss {loss:.4f}"] if loss is not None else []
        if held_out.loss is not None:
            parts.append(f"held out {held_out.loss:.4f}, accuracy {held_out.accuracy:.3f}")
        parts += [f"{row['seconds']:.0f} s"] if loss is not None else []
        self.log(f"{name}:  {'  '.join(parts)}")

    @contextmanager
    def _weights_to_keep(self) -> Iterator[None]:
        """Replaces the weights by their moving averages, if there are any, and mixes them with those of the start."""
        share = self.training.start_share
        if (self.training.ema_decay is None and not share) or not self.state["epoch"]:
            yield
            return
        weights = [np.asarray(weight).copy() for weight in self.model.trainable_variables]
        if self.training.ema_decay is not None:
            self.trainer.optimizer.finalize_variable_values(self.model.trainable_variables)
        for variable, start in self.start_weights:
            variable.assign((1 - share) * np.asarray(variable) + share * start)
        # Never while a checkpoint is written, which holds what is trained.
        yield
        for variable, weight in zip(self.model.trainable_variables, weights, strict=True):
            variable.assign(weight)

    def save(self) -> None:
        """Writes the checkpoint that a resumed run continues from."""
        save_checkpoint(self.run.last, self.trainer, self.state)

    def _finish(self) -> None:
        best, weights = self.run.read_weights()
        set_weights(self.model, weights, self.run.best)
        answers = predictions_of(self.reader, self.evaluation)
        texts = {key: answer.text for key, answer in answers.items()}
        write_text(self.run.predictions, json.dumps(texts, ensure_ascii=False))
        if self.training.kept_dataset:
            self._calibrate_adapted()
        _save_model(self.run, self.model)
        self.log(
            f"best: epoch {best['epoch']}  EM {best['exact_match']:.2f}  F1 {best['f1']:.2f}; "
            f"try it with: fabir-predict --run_dir={self.run.path} --question=... --passage=..."
        )

    def _calibrate_adapted(self) -> None:
        start, null_head = reader_directory(self.training.start_from), self.reader.config.null_head
        kept = self._kept_questions() if null_head else None
        calibration = adapted_calibration(self.reader, start, kept, self.evaluation.data, null_head, self.log)
        if calibration:
            calibration.save(self.run.calibration)

    def _kept_questions(self) -> SquadData | None:
        name = self.training.kept_dataset
        try:
            return load_dataset(name, "train", flag="--kept_dataset", log=self.log, **self.options.tfds_folders)
        except UserError as error:
            # Prepared data may be trained on where that file is not.
            self.log(f"no-answer probabilities are not matched on the kept questions: {error}")
            return None


def _start_weights(training: TrainingConfig, model: keras.Model) -> list[tuple[keras.Variable, np.ndarray]]:
    """The trainable weights of which a share stays as it was, with their values; those that the start lacks are new."""
    if not training.start_share:
        return []
    _, arrays = reader_directory(training.start_from).read_weights()
    variables = {name: variable for name, variable in weights_of(model).items() if variable.trainable}
    return [(variable, arrays[name]) for name, variable in variables.items() if name in arrays]


def _best_scores(scores: dict[str, float]) -> dict[str, float]:
    """EM and F1; with unanswerable questions, those at the best threshold, because no threshold is chosen yet."""
    return {
        "exact_match": scores.get("best_exact", scores["exact_match"]),
        "f1": scores.get("best_f1", scores["f1"]),
    }


class _Progress(keras.callbacks.Callback):
    """Updates a session's state during `fit`: counts steps, writes checkpoints, scores, stops."""

    def __init__(self, session: _Session):
        super().__init__()
        self.session = session
        self._seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._loss = 0.0
        loss = self.session.state["loss"]
        if loss is not None:
            # Continue the epoch's mean loss from the checkpoint.
            for variable, value in zip(self.model.metrics[0].variables, loss, strict=True):
                variable.assign(value)
        self._time = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # The loss of the step before: an accelerator is still computing this one, and has the next one waiting.
        self._validate_finite(self._loss)
        self._loss = logs["loss"]
        state, now = self.session.state, time.monotonic()
        state["step"] += 1
        state["batches"] += 1
        state["seconds"] += now - self._time
        self._estimate(now - self._time)
        self._time = now
        if state["step"] == self.session.steps_per_epoch:
            return
        if self.session.is_used_up():
            # Ends the epoch here; it is scored like any other.
            self.model.stop_training = True
            return
        if state["step"] % self.session.training.checkpoint_steps == 0:
            self._validate_finite(self._loss)
            backend.sync(self.model)
            state["loss"] = self._mean_loss()
            self.session.save()
        if not _is_terminal() and state["step"] % 100 == 0:
            self.session.log(
                f"epoch {state['epoch'] + 1}  step {state['step']:,}/{self.session.steps_per_epoch:,}  "
                f"loss {logs['loss']:.4f}  {state['seconds']:.0f} s"
            )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._validate_finite(self._loss)
        state, cut = self.session.state, None
        if state["step"] < self.session.steps_per_epoch:
            backend.sync(self.model)
            cut = {"step": state["step"], "seconds": state["seconds"], "loss": self._mean_loss()}
        self.session.state |= {"epoch": epoch + 1, "step": 0, "cut": cut}
        scores = self.session.finish_epoch(logs["loss"])
        logs |= {"exact_match": scores["exact_match"], "f1": scores["f1"]}
        if self.session.is_over():
            self.model.stop_training = True

    def _mean_loss(self) -> list[float]:
        """What Keras needs to go on with the epoch's mean loss."""
        return [float(np.asarray(variable)) for variable in self.model.metrics[0].variables]

    def _estimate(self, seconds: float) -> None:
        """Says once how long a long run takes."""
        if len(self._seconds) == WARM_UP_STEPS + MEASURED_STEPS:
            return
        self._seconds.append(seconds)
        if len(self._seconds) < WARM_UP_STEPS + MEASURED_STEPS:
            return
        left = _total_steps(self.session.training, self.session.steps_per_epoch) - self.session.state["batches"]
        minutes = left * float(np.mean(self._seconds[WARM_UP_STEPS:])) / 60
        limit = self.session.training.max_minutes
        if minutes >= SHORT_RUN and limit is None:
            bar = "\n" if _is_terminal() else ""
            self.session.log(f"{bar}the other {left:,} steps take about {minutes:,.0f} minutes, and scoring some more")

    def _validate_finite(self, loss) -> None:
        if not np.isfinite(loss):
            rate = "learning_rate" if self.session.training.learning_rate else "learning_rate_factor"
            raise UserError(
                f"the loss is {loss} in epoch {self.session.state['epoch'] + 1}, step {self.session.state['step']}, "
                f"expected a number: start a new run with a lower --{rate} or with --clip_norm"
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
