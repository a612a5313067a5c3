"""Requests that a server answers before it reports that it is ready, so that no client waits for compilation."""

from pathlib import Path

import tensorflow as tf

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.text.tokenizer import tokenize

WARM_UP_FILE = "tf_serving_warmup_requests"
"""The file in a version's folder `assets.extra` in which a server looks for them."""

PASSAGE_TOKENS = (32, 128, 384, 1024)
BATCH = 16


def write_warm_up(path: Path) -> bool:
    """Writes the requests of `warm_up_texts`.

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
    """One question about a passage of each length, and `BATCH` about the shortest ones.

    The first request compiles the graph for all; large batches of long passages would only take as long as they do.
    """
    return [sample_texts(PASSAGE_TOKENS[0], BATCH), *(sample_texts(tokens, 1) for tokens in PASSAGE_TOKENS)]


def sample_texts(tokens: int, batch: int) -> tuple[list[str], list[str]]:
    """Questions and passages of the bundled sample.

    Args:
        tokens: passages are joined until they have so many.
        batch: the number of questions.

    Returns:
        The questions, and a passage for each.
    """
    data = load_dataset("sample", "dev")
    questions = [question.text for question in data.questions[:batch]]
    return questions, [_passage(data.passages, number, tokens) for number in range(batch)]


def _passage(passages: tuple[str, ...], number: int, tokens: int) -> str:
    text, count = "", 0
    while count < tokens:
        following = passages[number % len(passages)]
        text, count, number = f"{text} {following}", count + len(tokenize(following).words), number + 1
    return text.strip()
