"""oneDNN, the library of fast kernels inside TensorFlow, which TensorFlow itself uses on the newest processors only.

TensorFlow reads its switch once, when it is imported.
"""

import os
import sys
from functools import cache
from pathlib import Path

SWITCH = "TF_ENABLE_ONEDNN_OPTS"

# TensorFlow's own condition. Reading and training are about twice as fast with oneDNN wherever there is AVX2.
_NEWEST = {"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile"}


def settings() -> dict[str, str]:
    """What to add to the environment before TensorFlow is imported.

    Returns:
        The switch, on processors with AVX2, where oneDNN pays; nothing if the user has decided, or if it is too late.
    """
    is_open = SWITCH not in os.environ and "tensorflow" not in sys.modules
    return {SWITCH: "1"} if is_open and "avx2" in processor_features() else {}


def is_on() -> bool:
    """Whether TensorFlow uses oneDNN on this machine."""
    given = os.environ.get(SWITCH)
    return not _NEWEST.isdisjoint(processor_features()) if given is None else given.lower() in ("1", "true")


def advice() -> str | None:
    """One sentence if oneDNN would pay, but TensorFlow was imported too early to be told; else None."""
    if SWITCH in os.environ or is_on() or "avx2" not in processor_features():
        return None
    return (
        f"TensorFlow was imported before fabir_tf and does not use oneDNN: set {SWITCH}=1, or import fabir_tf first, "
        "and reading is about twice as fast"
    )


@cache
def processor_features() -> frozenset[str]:
    """Names of the processor's instruction sets, such as "avx2"; empty where Linux does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())
