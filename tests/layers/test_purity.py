"""The layers need only Keras and NumPy, so they run on every Keras backend."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fabir_tf.layers

SOURCES = sorted(Path(fabir_tf.layers.__file__).parent.glob("**/*.py"))
ALLOWED = ("keras", "numpy", "fabir_tf.layers", *sys.stdlib_module_names)
IMPORT_ON_JAX = """
import sys
sys.modules["tensorflow"] = None  # an import of it now fails
import numpy as np
import fabir_tf.layers
out = fabir_tf.layers.Highway(depth=1)(np.ones((2, 3, 5), "float32"))
assert type(out).__module__.startswith("jax"), type(out)
assert "layers" not in sys.modules, "imported twice"
"""


def imported_modules(source):
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.name} imports relatively"
            yield node.module


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_imports(source):
    for module in imported_modules(source):
        assert module.startswith(tuple(f"{name}." for name in ALLOWED)) or module in ALLOWED, module


def test_every_layer_has_a_file_and_a_test():
    classes = [name for name in fabir_tf.layers.__all__ if not name.isupper()]
    assert len(classes) > 20
    for name in classes:
        layer = getattr(fabir_tf.layers, name)
        assert layer.__name__ == name
        stem = layer.__module__.rsplit(".", 1)[1]
        assert stem.replace("_", "") == name.lower()
        # One table tests all heads on BERT.
        tested = "bert_heads" if issubclass(layer, fabir_tf.layers.DenseHead) else stem
        assert (Path(__file__).parent / f"test_{tested}.py").is_file()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_import_on_jax_without_tensorflow():
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    root = SOURCES[0].parents[1]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ON_JAX], env=environment, cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
