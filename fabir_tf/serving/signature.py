"""What a served model can be asked: its signatures, the inputs and outputs of each."""

from dataclasses import dataclass

import numpy as np

from fabir_tf.serving.errors import RequestError, invalid

DEFAULT = "serving_default"
"""The signature of a request that names none."""

ANY = -1
"""A dimension of any size."""


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    Attributes:
        dtype: TensorFlow's name of the type, such as "string" or "int32".
        shape: sizes, `ANY` where the request decides; None for any rank.
    """

    dtype: str
    shape: tuple[int, ...] | None

    @property
    def numpy_dtype(self) -> np.dtype:
        """The type of its values in NumPy; texts are objects of bytes."""
        return np.dtype(object if self.dtype == "string" else self.dtype)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether values may have this shape."""
        if self.shape is None:
            return True
        if len(shape) != len(self.shape):
            return False
        return all(expected in (ANY, found) for expected, found in zip(self.shape, shape, strict=True))


@dataclass(frozen=True)
class Signature:
    """One function of a model.

    Attributes:
        inputs, outputs: by name.
    """

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]

    def validate(self, values: dict[str, np.ndarray]) -> None:
        """Checks the inputs of a request.

        Raises:
            RequestError: a name, type or shape does not fit.
        """
        found, expected = set(values), set(self.inputs)
        if found != expected:
            raise invalid(
                f"input size does not match signature: {len(found)}!={len(expected)} len({{{_names(found)}}}) != "
                f"len({{{_names(expected)}}}). Sent extra: {{{_names(found - expected)}}}. Missing but required: "
                f"{{{_names(expected - found)}}}."
            )
        for name, array in values.items():
            tensor = self.inputs[name]
            if array.dtype != tensor.numpy_dtype:
                raise invalid(f"input {name}: found values of type {array.dtype}, expected {tensor.dtype}")
            if not tensor.fits(array.shape):
                raise invalid(
                    f"input {name}: found shape {shape_text(array.shape)}, expected {shape_text(tensor.shape)}"
                )

    def chosen_outputs(self, names: list[str]) -> list[str]:
        """The outputs that a request asks for; all of them if it names none.

        Raises:
            RequestError: a name is unknown, or stands there twice.
        """
        for number, name in enumerate(names):
            if name not in self.outputs:
                raise invalid(
                    f"output tensor alias not found in signature: {name} Outputs expected to be in the set "
                    f"{{{_names(self.outputs)}}}."
                )
            if name in names[:number]:
                raise invalid(f"duplicate output tensor alias: {name}")
        return names or list(self.outputs)


def rows_of(values: dict[str, np.ndarray]) -> int | None:
    """The number of rows that all arrays have; None if they differ, so that the request cannot join a batch."""
    counts = {array.shape[0] if array.ndim else None for array in values.values()}
    return counts.pop() if len(counts) == 1 else None


def missing_signature(name: str) -> RequestError:
    """The error of a gRPC request for a signature that a model does not have."""
    return RequestError("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')


def _names(names) -> str:
    return ",".join(sorted(names))


def shape_text(shape: tuple[int, ...] | None) -> str:
    """A shape for a message, `?` where the request decides."""
    return "[" + ",".join("?" if size == ANY else str(size) for size in shape or ()) + "]"
