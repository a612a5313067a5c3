"""Answers a question with a reader that fabir-export wrote for ONNX Runtime, LiteRT or OpenVINO, without TensorFlow.

pip install --no-deps . && pip install numpy nltk onnxruntime
python edge_answer.py exported/onnx/1 "Who built the mill?" "The mill was built by Anna Keld."
"""

import json
import sys

from fabir_tf.edge import EdgeReader
from fabir_tf.pipelines.errors import UserError


def main(arguments: list[str]) -> None:
    """Prints the answer as JSON."""
    if len(arguments) != 3:
        sys.exit(f"expected a folder, a question and a passage, found {len(arguments)} arguments")
    folder, question, passage = arguments
    try:
        answer = EdgeReader.load(folder).answer(question, passage, n_best=3)
    except UserError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(answer.to_dict(), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
