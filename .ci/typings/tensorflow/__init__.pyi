# Everything in TensorFlow is Any. Pyright's own stubs of TensorFlow lack operators, such as ~ on tensors.
from typing import Any

def __getattr__(name: str) -> Any: ...
