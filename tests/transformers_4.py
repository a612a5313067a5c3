"""What transformers 4 computes, which `test_question_answering.py` compares with.

    python tests/transformers_4.py

records it in an environment with transformers 4, PyTorch and this package: the answers of its question-answering
pipeline, and logits of the fine-tuned model. The models are small folders with random weights, and the weights of
fabir-minilm, so that the record holds no weights; the contexts are read in one to a dozen windows.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minilm_folder import write_minilm
from wordpiece_folders import write_bert

RECORD = Path(__file__).parent / "fixtures" / "transformers_4.json"
POSITIONS, QUESTIONS = 512, 100
FAMILIES = ("bert", "bert-cased", "distilbert", "distilbert-cased", "minilm")
# Of a question and its passage, of which more would be recorded in vain.
LOGITS = 3
# Transformers 4 reads long questions whole with its fast tokenizers.
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 3},
    {"top_k": 2, "handle_impossible_answer": True},
    {"max_seq_len": 320, "doc_stride": 32, "max_answer_len": 30},
    {"top_k": 2, "align_to_words": False},
)


def calls(family: str) -> Iterator[dict[str, Any]]:
    """Questions of the bundled sample with their contexts, each with one of the settings.

    The small folders cut words into letters, so that each passage takes several windows; MiniLM gets passages joined,
    and other questions.
    """
    from fabir_tf.pipelines.datasets.sources import load_dataset

    data = load_dataset("sample", "dev", log=lambda line: None)
    step = len(data.questions) // QUESTIONS
    first = family == "minilm"
    for number, question in enumerate(data.questions[first : step * QUESTIONS : step]):
        joined = number % 3 * 3 if family == "minilm" else 0
        places = range(question.passage - joined, question.passage + 1)
        context = "\n".join(data.passages[place] for place in places)
        texts = {"question": question.text, "context": context}
        yield texts | {"max_question_len": 200} | SETTINGS[number % len(SETTINGS)]


def pairs() -> list[tuple[str, str]]:
    """Questions and contexts, the logits of which are recorded."""
    short = list(calls("minilm"))[::3]
    return [(call["question"], call["context"]) for call in short[:LOGITS]]


def folder(place: Path, family: str) -> Path:
    """The model of a family."""
    if family == "minilm":
        return write_minilm(place / family)
    name, _, cased = family.partition("-")
    # No two answers of a call score the same but for rounding.
    return write_bert(place / family, name, seed=2 if cased else 1, positions=POSITIONS, cased=bool(cased))


def record() -> None:
    """Writes the pipeline's answers to all calls, by family, and the logits."""
    # Its own TensorFlow models refuse Keras 3.
    os.environ["USE_TF"] = "0"
    import transformers

    answers: dict[str, Any] = {"transformers": transformers.__version__}
    with tempfile.TemporaryDirectory() as place:
        for family in FAMILIES:
            path = str(folder(Path(place), family))
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            pipeline = transformers.pipeline("question-answering", model=path, tokenizer=tokenizer)
            answers[family] = [pipeline(**call) for call in calls(family)]
            if family == "minilm":
                answers["logits"] = [_logits(pipeline.model, tokenizer, *pair) for pair in pairs()]
    RECORD.write_text(json.dumps(answers, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


def _logits(model: Any, tokenizer: Any, question: str, context: str) -> list[list[float]]:
    """Start and end logits of each piece, `[CLS] question [SEP] context [SEP]`."""
    import torch

    with torch.no_grad():
        found = model(**tokenizer(question, context, return_tensors="pt"))
    logits = torch.stack([found.start_logits[0], found.end_logits[0]], dim=-1)
    return [[round(float(value), 6) for value in row] for row in logits]


if __name__ == "__main__":
    record()
