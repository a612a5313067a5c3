"""A worker process of `fabir-beam` on this machine: Beam's own, which ends with the run that started it.

    python -m fabir_tf.beam.worker MARK

is started by `launcher.py`; MARK is a file that the launcher removes at its end. What the worker runs is told through
the environment.
"""

import logging
import os
import sys
import threading
import time

SECONDS = 0.5
"""Between two looks at whether the run goes on."""


def main() -> None:
    """Works until the run ends."""
    mark, launcher = sys.argv[1], os.getppid()
    # Mistakes reach the launcher as errors of their steps; the rest is about a launcher that is gone.
    logging.disable(logging.CRITICAL)
    os.environ.pop("LOGGING_API_SERVICE_DESCRIPTOR", None)
    threading.excepthook = lambda hook: None
    threading.Thread(target=_end_with, args=(launcher, mark), daemon=True).start()
    from apache_beam.runners.worker import sdk_worker_main

    # Beam also prints the stack traces that it sends.
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        sdk_worker_main.main(sys.argv[:1])
    except Exception:
        # Where the launcher was killed, its sockets close first; the thread ends this process then.
        time.sleep(2 * SECONDS)
        raise


def _end_with(launcher: int, mark: str) -> None:
    # A launcher that was killed tells nobody: its processes become those of another.
    while os.getppid() == launcher and os.path.exists(mark):
        time.sleep(SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
