"""Where bfloat16 pays: on processors that compute in it. Others convert to float32 and back, which takes longer."""

from collections.abc import Callable

from fabir_tf.backends import backend
from fabir_tf.onednn import processor_features

BFLOAT16 = "mixed_bfloat16"
# As Linux names them on x86. On other processors and systems nothing is known, and nothing is changed.
_COMPUTING = {"avx512_bf16", "amx_bf16", "avx_ne_convert"}


def is_emulated(policy: str) -> bool:
    """Whether a dtype policy is bfloat16 and this machine would compute that in software."""
    features = processor_features()
    return policy == BFLOAT16 and bool(features) and _COMPUTING.isdisjoint(features) and backend.computes_on_cpu()


def precision_to_read_in(asked: str, log: Callable[[str], object]) -> str:
    """The precision that a reader computes in.

    Args:
        asked: a dtype policy of `fabir_tf.models.precision.POLICIES`.
        log: called with one sentence if another is chosen.

    Returns:
        "float32" where bfloat16 is asked for and emulated, else `asked`.
    """
    if not is_emulated(asked):
        return asked
    log(f"precision={BFLOAT16}: this processor does not compute in bfloat16, so the reader computes in float32")
    return "float32"
