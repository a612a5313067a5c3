"""Small models for tests of the server: they answer by rules of their own, in real processes."""

import os
import time
from pathlib import Path

import numpy as np

from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.answers import Answer, Span
from fabir_tf.serving.errors import RequestError, invalid
from fabir_tf.serving.signature import DEFAULT, Signature, Tensor
from fabir_tf.serving.work import Description

TEXTS = Signature({"x": Tensor("string", (-1,))}, {"y": Tensor("string", (-1,))})


class Upper:
    """Writes texts in capitals; its name tells which version answered.

    Args:
        name: stands in front of each output.
    """

    def __init__(self, name: str):
        self.name = name

    def describe(self) -> Description:
        return Description({DEFAULT: TEXTS}, {DEFAULT: b""}, {DEFAULT: {}}, None, 0.5, None, False)

    def warm_up(self) -> None:
        pass

    def predict(self, signature, inputs):
        texts = inputs["x"].tolist()
        if b"sleep" in texts:
            time.sleep(0.5)
        if b"exit" in texts:
            os._exit(1)
        if b"refused" in texts:
            raise invalid("found refused")
        if b"broken" in texts:
            raise ValueError("a mistake of the model")
        if b"short" in texts and len(texts) > 1:
            return {"y": np.array([b"one row"], object)}
        return {"y": np.array([f"{self.name} {text.decode().upper()}".encode() for text in texts], object)}

    def answer(self, questions, passages, n_best, threshold):
        spans = [tuple(Span(text[:end], 0, end, 0.5) for end in range(n_best)) for text in passages]
        return [
            invalid("found a bad row") if question == "bad" else Answer(question, 0, 1, 0.5, n_best=span)
            for question, span in zip(questions, spans, strict=True)
        ]

    def attention(self, question, passage):
        raise RequestError("UNIMPLEMENTED", "no attention")


def load_upper(name: str) -> Upper:
    return Upper(name)


def load_version(path: str) -> Upper:
    """The model of a folder: `saved_model.pb` holds its name, or that it cannot be loaded."""
    name = (Path(path) / "saved_model.pb").read_text()
    if name == "damaged":
        raise UserError(f"{path}: found a damaged model")
    return Upper(name)
