"""One version of fabir_tf, asked for one measurement after the other: what against_commit.py runs in each tree.

Reads a line per turn from standard input, `inference` or `training`, and answers with a line of JSON: questions per
second, processor seconds per question and peak memory. Uses only what every version has had.
"""

import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

dataset, train_dataset, policy = sys.argv[1:4]

import keras  # noqa: E402

import fabir_tf  # noqa: E402
from fabir_tf.pipelines.encoding import encode, tokenise  # noqa: E402
from fabir_tf.pipelines.sources import load_dataset  # noqa: E402
from fabir_tf.pipelines.vectors import load_vectors  # noqa: E402
from fabir_tf.pipelines.vocabulary import build_vocabulary  # noqa: E402
from fabir_tf.training import train  # noqa: E402
from fabir_tf.training_config import DataOptions, TrainingConfig  # noqa: E402


def main() -> None:
    answers = {"inference": inference(), "training": training}
    say({"ready": str(Path(fabir_tf.__file__).parents[1])})
    for line in sys.stdin:
        begin, used = time.monotonic(), processor_seconds()
        questions, seconds = answers[line.strip()]()
        used = processor_seconds() - used
        seconds = seconds or time.monotonic() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        say({"speed": questions / seconds, "processor_ms": 1000 * used / questions, "peak_mib": peak})


def inference():
    """Model and decoding over a whole dataset whose tokens are looked up already."""
    data = load_dataset(dataset, "dev")
    tokenised = tokenise(data, None, lambda line: None)
    vectors = load_vectors("bundled")
    vocabulary = build_vocabulary(tokenised.token_counts(), vectors.words)
    encoded = encode(tokenised, vocabulary, 20)
    config = fabir_tf.FabirConfig(
        trainable_words=vocabulary.trainable_rows,
        characters=vocabulary.character_rows,
        frozen_words=vocabulary.frozen_rows,
    )
    keras.config.set_dtype_policy(policy)
    reader = fabir_tf.Reader(fabir_tf.build_model(config), vocabulary, config)
    keras.config.set_dtype_policy("float32")
    reader.predict(encoded)
    return lambda: (len(reader.predict(encoded)), None)


def training():
    """The second of two epochs, as the run's own history has it: in the first the model is traced."""
    folder = tempfile.mkdtemp()
    settings = TrainingConfig(
        dataset=train_dataset, eval_dataset="sample", epochs=2, dtype_policy=policy, checkpoint_steps=10**6
    )
    log = []
    history = train(folder, fabir_tf.FabirConfig(), settings, DataOptions(cache_dir=None), log=log.append)
    shutil.rmtree(folder)
    (questions,) = [line.split()[0] for line in log if "questions to train on" in line]
    return int(questions.replace(",", "")), history["epochs"][-1]["seconds"]


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def say(values: dict) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
