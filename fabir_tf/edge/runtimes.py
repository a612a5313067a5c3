"""The programs that compute an exported model: ONNX Runtime, LiteRT and OpenVINO, each with the same call."""

import abc
import importlib
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fabir_tf.pipelines.errors import UserError


class Runtime(abc.ABC):
    """A model that is computed without TensorFlow; several threads may call it.

    Args:
        folder: what holds the model's file.
        threads: processor threads of one computation; None leaves it to the runtime.

    Call arguments:
        inputs: arrays by name; those that the model does not have are ignored.

    Returns:
        The model's outputs by name.

    Raises:
        UserError: the runtime is not installed, or the file is missing or damaged.
    """

    package: ClassVar[str]
    """What `pip install` calls the runtime."""

    module: ClassVar[str]
    """What Python calls it."""

    file: ClassVar[str]
    """The model's file."""

    largest_batch: ClassVar[int] = 1
    """Most examples that are computed at once."""

    step: ClassVar[int] = 1
    """Lengths are padded to multiples of it, where each new length costs time."""

    inputs: list[str]
    """Names of the model's inputs."""

    outputs: list[str]
    """Names of its outputs."""

    def __init__(self, folder: Path, threads: int | None = None):
        path = folder / self.file
        if not path.is_file():
            raise UserError(f"{path}: found no such file, expected the model of an exported reader")
        runtime = self.imported()
        # Runtimes have errors of their own for a damaged file.
        try:
            self._load(runtime, path, threads)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"{path}: {self.package} cannot load it ({reason}), expected an exported model") from None

    @classmethod
    def imported(cls) -> Any:
        """The runtime's module.

        Raises:
            UserError: it is not installed.
        """
        try:
            return importlib.import_module(cls.module)
        except ImportError:
            raise UserError(
                f"{cls.file} needs the package {cls.package}, which is not installed: pip install {cls.package}"
            ) from None

    @abc.abstractmethod
    def _load(self, runtime: Any, path: Path, threads: int | None) -> None: ...

    @abc.abstractmethod
    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]: ...


class OnnxRuntime(Runtime):
    """A model in ONNX, computed by ONNX Runtime; see `Runtime`."""

    package = "onnxruntime"
    module = "onnxruntime"
    file = "model.onnx"
    largest_batch = 8

    def _load(self, runtime: Any, path: Path, threads: int | None) -> None:
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        # Its warnings are about nodes of the graph, of which a user knows nothing.
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        self.inputs = [tensor.name for tensor in self._session.get_inputs()]
        self.outputs = [tensor.name for tensor in self._session.get_outputs()]

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = self._session.run(self.outputs, {name: inputs[name] for name in self.inputs})
        return dict(zip(self.outputs, values, strict=True))


class LiteRt(Runtime):
    """A model in TensorFlow Lite's format, computed by LiteRT, one example at a time; see `Runtime`."""

    package = "ai-edge-litert"
    module = "ai_edge_litert.interpreter"
    file = "model.tflite"

    def _load(self, runtime: Any, path: Path, threads: int | None) -> None:
        interpreter = runtime.Interpreter(model_path=str(path), num_threads=threads)
        self._run = interpreter.get_signature_runner("serving_default")
        self.inputs, self.outputs = list(self._run.get_input_details()), list(self._run.get_output_details())
        # An interpreter has one set of buffers.
        self._lock = threading.Lock()

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with self._lock:
            return self._run(**{name: inputs[name] for name in self.inputs})


class OpenVino(Runtime):
    """A model in OpenVINO's form, computed on the processor; see `Runtime`."""

    package = "openvino"
    module = "openvino"
    file = "model.xml"
    largest_batch = 8
    # It prepares kernels for every new length, which takes as long as three questions.
    step = 16

    def _load(self, runtime: Any, path: Path, threads: int | None) -> None:
        # On some processors it would choose bfloat16 by itself.
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        settings |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
        self._model = runtime.Core().compile_model(str(path), "CPU", settings)
        self.inputs, self.outputs = (
            [tensor.any_name for tensor in tensors] for tensors in (self._model.inputs, self._model.outputs)
        )
        # Its calls share one request.
        self._lock = threading.Lock()

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with self._lock:
            found = self._model({name: inputs[name] for name in self.inputs})
            return {tensor.any_name: np.array(values) for tensor, values in found.items()}


RUNTIMES: dict[str, type[Runtime]] = {"onnx": OnnxRuntime, "litert": LiteRt, "openvino": OpenVino}
"""By the name of the format."""
