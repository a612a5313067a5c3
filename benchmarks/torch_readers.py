"""The PyTorch readers of rivals.py, with random weights; imported only in their own processes."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from common import timed
from transformers import BertConfig, BertForQuestionAnswering, DistilBertConfig, DistilBertForQuestionAnswering

# Most word pieces that they read, including [CLS] and both [SEP].
LONGEST = 512
# Tokens in a batch: on two cores slightly the fastest of 1,200 to 9,600 for both, because it fits the cache.
BATCH_TOKENS = 2_400
TRAINING_BATCH = 32
LEARNING_RATE = 5e-5
SPECIAL_IDS = 1000
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def _distilbert() -> torch.nn.Module:
    """DistilBERT-base: 6 layers of 768 features, 12 heads, feed-forward width 3,072; 66 M parameters."""
    return DistilBertForQuestionAnswering(DistilBertConfig(attn_implementation="sdpa"))


def _minilm() -> torch.nn.Module:
    """MiniLM-L6-H384: 6 layers of 384 features, 12 heads, feed-forward width 1,536; 23 M parameters."""
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return BertForQuestionAnswering(BertConfig(**sizes, attn_implementation="sdpa"))


MODELS = {"distilbert": _distilbert, "minilm": _minilm}


class TorchReader:
    """One of the rivals, with texts of given lengths made of random token ids.

    Args:
        name: one of `MODELS`.
        precision: "float32" or "bfloat16": of the whole model for inference, of its products for training.
        threads: number of threads.
        lengths: int array `(questions,)`, tokens of each question with its passage; truncated to `LONGEST`.
        training_lengths: the same for the questions to train on.
    """

    def __init__(self, name: str, precision: str, threads: int, lengths: np.ndarray, training_lengths: np.ndarray):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self._dtype = PRECISIONS[precision]
        self._lengths = {
            "inference": np.sort(np.minimum(lengths, LONGEST)),
            "training": np.sort(np.minimum(training_lengths, LONGEST)),
        }
        self._model = MODELS[name]().to(self._dtype).eval()
        self._optimizer = None
        self._batches = [self._inputs(batch) for batch in _by_tokens(self._lengths["inference"])]

    def measure(self, task: str) -> dict[str, float]:
        """Times one pass over the questions; `task` is "inference" or "training", and its first call also warms up."""
        if task == "inference":
            self._answer(self._batches[:1])
            return timed(lambda: self._answer(self._batches))
        if self._optimizer is None:
            self._begin_training()
        return timed(lambda: self._train(self._batches))

    @torch.inference_mode()
    def _answer(self, batches: list[dict[str, torch.Tensor]]) -> int:
        """Stops at the logits, without a search for the best span."""
        for inputs in batches:
            self._model(**inputs)
        return sum(len(inputs["input_ids"]) for inputs in batches)

    def _begin_training(self) -> None:
        # Weights and gradients are float32 in each precision, like ours.
        self._model = self._model.float().train()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=LEARNING_RATE, fused=True)
        lengths = self._lengths["training"]
        batches = np.split(lengths, range(TRAINING_BATCH, len(lengths), TRAINING_BATCH))
        self._batches = [self._inputs(batch) | self._targets(batch) for batch in batches]
        self._train(self._batches[:1])

    def _train(self, batches: list[dict[str, torch.Tensor]]) -> int:
        mixed = torch.autocast("cpu", torch.bfloat16, enabled=self._dtype is torch.bfloat16)
        for inputs in batches:
            with mixed:
                loss = self._model(**inputs).loss
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            # A training loop that shows its loss waits for it; ours does, too.
            loss.item()
        return sum(len(inputs["input_ids"]) for inputs in batches)

    def _inputs(self, lengths: np.ndarray) -> dict[str, torch.Tensor]:
        """A batch padded to its longest text; without padding there is no mask."""
        ids = torch.randint(SPECIAL_IDS, self._model.config.vocab_size, (len(lengths), int(lengths.max())))
        mask = torch.arange(ids.shape[1])[None] < torch.from_numpy(lengths)[:, None]
        return {"input_ids": ids} if mask.all() else {"input_ids": ids, "attention_mask": mask.long()}

    def _targets(self, lengths: np.ndarray) -> dict[str, torch.Tensor]:
        return {f"{name}_positions": torch.from_numpy(lengths // 2) for name in ("start", "end")}


def _by_tokens(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Cuts sorted lengths into batches of at most `BATCH_TOKENS` tokens."""
    begin = 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end - begin + 1) * lengths[end] > BATCH_TOKENS:
            yield lengths[begin:end]
            begin = end


def torch_reader(
    name: str, precision: str, threads: int, lengths: np.ndarray, training_lengths: np.ndarray
) -> Callable[[str], dict[str, float]]:
    """A function that measures a task, with a `TorchReader` of these arguments."""
    return TorchReader(name, precision, threads, lengths, training_lengths).measure
