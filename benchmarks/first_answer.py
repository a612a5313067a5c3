"""From an exported reader on disk to its first answer, in a process that imports only TensorFlow: seconds and memory.

python benchmarks/first_answer.py exported/fabir/1
"""

import re
import sys
import time
from pathlib import Path

begin = time.monotonic()
import tensorflow as tf  # noqa: E402  (the import is measured)

LONGER = 20
ASKED = {"question": "Who built the mill?", "passage": "The mill was built by Anna Keld in 1712."}


def peak_mib() -> float:
    """The peak memory of this process; getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 2**10


def note(what: str) -> None:
    """Prints time and memory since the last note."""
    global begin
    print(f"{what}: {time.monotonic() - begin:.2f} s, peak {peak_mib():.0f} MiB", flush=True)
    begin = time.monotonic()


def main(version: Path) -> None:
    note("TensorFlow imported")
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    note("loaded")
    asked = {name: tf.constant([text]) for name, text in ASKED.items()}
    for number in ("first", "second", "third"):
        serve(**asked)["answer"].numpy()
        note(f"{number} answer")
    for more in range(1, LONGER + 1):
        passage = tf.constant([ASKED["passage"] + " It ground rye." * more])
        serve(question=asked["question"], passage=passage)["answer"].numpy()
    note(f"{LONGER} answers about longer and longer passages")
    warm_up = version / "assets.extra" / "tf_serving_warmup_requests"
    if not warm_up.exists():
        return
    from tensorflow_serving.apis import prediction_log_pb2

    for record in tf.data.TFRecordDataset(str(warm_up)).as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        serve(**{name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()})
    note("warm-up requests")
    serve(**asked)["answer"].numpy()
    note("answer after them")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1], "saved_model.pb").is_file():
        found = " ".join(sys.argv[1:]) or "nothing"
        sys.exit(f"expected the folder of a version that fabir-export wrote, found {found}")
    main(Path(sys.argv[1]))
