"""What the question-answering pipeline of transformers 4 answers, which `test_question_answering.py` compares with.

    python tests/transformers_4.py

records it in an environment with transformers 4, PyTorch and this package. The models are small folders with random
weights, so that the record holds answers only; their contexts are read in one to a dozen windows.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wordpiece_folders import write_bert

RECORD = Path(__file__).parent / "fixtures" / "transformers_4.json"
FAMILIES, POSITIONS, QUESTIONS = ("bert", "distilbert"), 512, 100
# Transformers 4 reads long questions whole with its fast tokenizers.
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 3},
    {"top_k": 2, "handle_impossible_answer": True},
    {"max_seq_len": 320, "doc_stride": 32, "max_answer_len": 30},
    {"top_k": 2, "align_to_words": False},
)


def calls() -> Iterator[dict[str, Any]]:
    """Questions of the bundled sample with their contexts, each with one of the settings."""
    from fabir_tf.pipelines.datasets.sources import load_dataset

    data = load_dataset("sample", "dev", log=lambda line: None)
    step = len(data.questions) // QUESTIONS
    for number, question in enumerate(data.questions[: step * QUESTIONS : step]):
        texts = {"question": question.text, "context": data.passages[question.passage]}
        yield texts | {"max_question_len": 200} | SETTINGS[number % len(SETTINGS)]


def folder(place: Path, family: str) -> Path:
    """The model of a family."""
    return write_bert(place / family, family, positions=POSITIONS)


def record() -> None:
    """Writes the pipeline's answers to all calls, by family."""
    import transformers

    answers: dict[str, Any] = {"transformers": transformers.__version__}
    with tempfile.TemporaryDirectory() as place:
        for family in FAMILIES:
            path = str(folder(Path(place), family))
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            pipeline = transformers.pipeline("question-answering", model=path, tokenizer=tokenizer)
            answers[family] = [pipeline(**call) for call in calls()]
    RECORD.write_text(json.dumps(answers, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    record()
