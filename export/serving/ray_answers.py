"""Answers a file of questions with Ray Data, in one or two processes that each load an exported reader.

    pip install "ray[data]" fabir_tf
    python ray_answers.py exported/1 questions.jsonl answers

questions.jsonl has the fields id, question and passage; answers is a folder of JSON lines.
"""

import os
import sys

import ray  # pyright: ignore[reportMissingImports]


class Answers:
    """An exported reader, of which each process has one."""

    def __init__(self, path: str):
        from fabir_tf.export import SavedModelReader

        self.reader = SavedModelReader(path)

    def __call__(self, batch: dict) -> dict:
        """Answers a batch."""
        found = self.reader.answer_batch(batch["question"].tolist(), batch["passage"].tolist())
        return {
            "id": batch["id"],
            "answer": [answer.text for answer in found],
            "score": [answer.score for answer in found],
        }


if __name__ == "__main__":
    model, questions, output = map(os.path.abspath, sys.argv[1:])
    rows = ray.data.read_json(questions, lines=True)
    answered = rows.map_batches(Answers, fn_constructor_args=[model], batch_size=64, concurrency=(1, 2))
    answered.write_json(output)
