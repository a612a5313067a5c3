"""The readers in PyTorch that rivals.py races against, their weights random; imported in their own processes alone."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from common import timed
from transformers import BertConfig, BertForQuestionAnswering, DistilBertConfig, DistilBertForQuestionAnswering

# The most that they can read, [CLS] and both [SEP] included.
LONGEST = 512
# Tokens in a batch: of 1,200 to 9,600 the fastest for both on two cores, by little. What fits the cache is small.
BATCH_TOKENS = 2_400
TRAINING_BATCH = 32
LEARNING_RATE = 5e-5
SPECIAL_IDS = 1000
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def _distilbert() -> torch.nn.Module:
    """DistilBERT-base: 6 layers of 768 features, 12 heads, feedforwards of 3,072; 66 M parameters."""
    return DistilBertForQuestionAnswering(DistilBertConfig(attn_implementation="sdpa"))


def _minilm() -> torch.nn.Module:
    """MiniLM-L6-H384: 6 layers of 384 features, 12 heads, feedforwards of 1,536; 23 M parameters."""
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return BertForQuestionAnswering(BertConfig(**sizes, attn_implementation="sdpa"))


MODELS = {"distilbert": _distilbert, "minilm": _minilm}


class TorchReader:
    """One of the rivals, and random token ids in texts of given lengths.

    Args:
        name: one of `MODELS`.
        precision: "float32", or "bfloat16": all of the model when it answers, its products when it is trained.
        threads: threads to compute with.
        lengths: int array `(questions,)`, tokens of each question and its passage together; more than `LONGEST` are
            cut.
        training_lengths: the same of the questions to train on.
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
        """Times one pass over the questions, "inference" or "training"; the first call of a task also warms up."""
        if task == "inference":
            self._answer(self._batches[:1])
            return timed(lambda: self._answer(self._batches))
        if self._optimizer is None:
            self._begin_training()
        return timed(lambda: self._train(self._batches))

    @torch.inference_mode()
    def _answer(self, batches: list[dict[str, torch.Tensor]]) -> int:
        """Ends at the logits: they need not search for the best span."""
        for inputs in batches:
            self._model(**inputs)
        return sum(len(inputs["input_ids"]) for inputs in batches)

    def _begin_training(self) -> None:
        # Weights and their gradients are float32 in each precision, as ours are.
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
            # As a training loop that shows its loss has to wait for it, ours too.
            loss.item()
        return sum(len(inputs["input_ids"]) for inputs in batches)

    def _inputs(self, lengths: np.ndarray) -> dict[str, torch.Tensor]:
        """A batch padded to its longest text; no mask where nothing is padding."""
        ids = torch.randint(SPECIAL_IDS, self._model.config.vocab_size, (len(lengths), int(lengths.max())))
        mask = torch.arange(ids.shape[1])[None] < torch.from_numpy(lengths)[:, None]
        return {"input_ids": ids} if mask.all() else {"input_ids": ids, "attention_mask": mask.long()}

    def _targets(self, lengths: np.ndarray) -> dict[str, torch.Tensor]:
        return {f"{border}_positions": torch.from_numpy(lengths // 2) for border in ("start", "end")}


def _by_tokens(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Sorted lengths, cut where a batch would hold too many tokens."""
    begin = 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end - begin + 1) * lengths[end] > BATCH_TOKENS:
            yield lengths[begin:end]
            begin = end


def torch_reader(
    name: str, precision: str, threads: int, lengths: np.ndarray, training_lengths: np.ndarray
) -> Callable[[str], dict[str, float]]:
    """What measures a task with a `TorchReader` of these arguments."""
    return TorchReader(name, precision, threads, lengths, training_lengths).measure
