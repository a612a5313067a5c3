"""Requests that a server answers before it reports that it is ready, so that no client waits for compilation."""

from pathlib import Path

import tensorflow as tf

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.text.tokenizer import tokenize

WARM_UP_FILE = "tf_serving_warmup_requests"
"""The file in a version's folder `assets.extra` in which a server looks for them."""

PASSAGE_TOKENS = (32, 128, 384, 1024)
BATCHES = (1, 16)


def write_warm_up(path: Path) -> bool:
    """Writes requests with raw texts of several lengths, with one question and with sixteen.

    Args:
        path: the file to write.

    Returns:
        Whether it was written; this needs the package tensorflow-serving-api, which the extra `serving` installs.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        return False
    with tf.io.TFRecordWriter(str(path)) as writer:
        for questions, passages in warm_up_texts():
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = "serving_default"
            request.inputs["question"].CopyFrom(tf.make_tensor_proto(questions))
            request.inputs["passage"].CopyFrom(tf.make_tensor_proto(passages))
            writer.write(log.SerializeToString())
    return True


def warm_up_texts() -> list[tuple[list[str], list[str]]]:
    """Questions and passages of the bundled sample; passages are joined until they have `PASSAGE_TOKENS` tokens."""
    data = load_dataset("sample", "dev")
    texts = []
    for wanted in PASSAGE_TOKENS:
        for batch in BATCHES:
            questions = [question.text for question in data.questions[:batch]]
            texts.append((questions, [_passage(data.passages, number, wanted) for number in range(batch)]))
    return texts


def _passage(passages: tuple[str, ...], number: int, tokens: int) -> str:
    text, count = "", 0
    while count < tokens:
        following = passages[number % len(passages)]
        text, count, number = f"{text} {following}", count + len(tokenize(following).words), number + 1
    return text.strip()
