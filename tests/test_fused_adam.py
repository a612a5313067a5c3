"""Adam's step as one operation for each variable: it follows the equations."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from fabir_tf.backends.fused_adam import FusedAdam

ROOT = Path(__file__).parents[1]
BETAS, EPSILON, RATE = (0.8, 0.95), 1e-3, 0.02


def expected(start: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Kingma and Ba, the end of section 2, in float64."""
    value, momentum, velocity = start.astype(np.float64), 0.0, 0.0
    for step, gradient in enumerate(gradients.astype(np.float64), 1):
        momentum = BETAS[0] * momentum + (1 - BETAS[0]) * gradient
        velocity = BETAS[1] * velocity + (1 - BETAS[1]) * gradient**2
        rate = RATE * np.sqrt(1 - BETAS[1] ** step) / (1 - BETAS[0] ** step)
        value = value - rate * momentum / (np.sqrt(velocity) + EPSILON)
    return value


def made(adam=FusedAdam) -> keras.optimizers.Adam:
    return adam(RATE, *BETAS, EPSILON)


@pytest.fixture
def data() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """First values of two variables, and five gradients of each."""
    random = np.random.default_rng(3)
    shapes = (4, 3), (5,)
    starts = [random.normal(size=shape).astype("float32") for shape in shapes]
    return starts, [random.normal(size=(5, *shape)).astype("float32") for shape in shapes]


@pytest.mark.parametrize("run", ["eager", "graph", "xla", "scaled"])
def test_it_follows_the_equations(run, data):
    starts, gradients = data
    variables = [keras.Variable(start) for start in starts]
    optimizer, scale = made(), 1.0
    if run == "scaled":
        scale = 2.0**4
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=scale)
    optimizer.build(variables)
    apply = lambda *step: optimizer.apply(step, variables)  # noqa: E731
    step = apply if run == "eager" else tf.function(apply, jit_compile=run == "xla")
    for pair in zip(*gradients, strict=True):
        step(*(tf.constant(scale * gradient) for gradient in pair))
    for variable, start, steps in zip(variables, starts, gradients, strict=True):
        np.testing.assert_allclose(variable.numpy(), expected(start, steps), rtol=1e-5, atol=1e-6)


def test_an_embeddings_slices_are_added_up(data):
    (start, _), (gradients, _) = data
    variable = keras.Variable(start)
    optimizer = made()
    for gradient in gradients:
        # Row 1 comes twice, and row 3 never.
        optimizer.apply([tf.IndexedSlices(tf.constant(gradient[:3]), tf.constant([1, 0, 1]), (4, 3))], [variable])
    dense = np.zeros_like(gradients)
    dense[:, 0], dense[:, 1] = gradients[:, 1], gradients[:, 0] + gradients[:, 2]
    np.testing.assert_allclose(variable.numpy(), expected(start, dense), rtol=1e-5, atol=1e-6)


def test_a_checkpoint_of_keras_adam_continues(data):
    starts, gradients = data
    before, after = ([keras.Variable(start, name=f"part_{i}") for i, start in enumerate(starts)] for _ in range(2))
    keras_adam, fused = made(keras.optimizers.Adam), made()
    pairs = list(zip(*gradients, strict=True))
    for pair in pairs[:2]:
        keras_adam.apply(pair, before)
    fused.build(after)
    names = [variable.name for variable in keras_adam.variables]
    assert [variable.name for variable in fused.variables] == names
    for found, known in zip([*fused.variables, *after], [*keras_adam.variables, *before], strict=True):
        found.assign(known)
    for pair in pairs[2:]:
        fused.apply(pair, after)
    for variable, start, steps in zip(after, starts, gradients, strict=True):
        np.testing.assert_allclose(variable.numpy(), expected(start, steps), rtol=1e-5, atol=1e-6)


def test_a_variable_costs_one_operation():
    def operations(count: int) -> int:
        variables = [keras.Variable(np.ones(3, "float32")) for _ in range(count)]
        optimizer = made()
        optimizer.build(variables)
        gradients = [tf.constant([1.0, 2.0, 3.0])] * count
        graph = tf.function(lambda: optimizer.apply(gradients, variables)).get_concrete_function().graph
        return sum(operation.type not in free for operation in graph.get_operations())

    free = {"Const", "Identity", "Placeholder", "ReadVariableOp"}
    assert operations(12) - operations(2) == 10


def test_what_it_does_not_compute_is_refused():
    with pytest.raises(ValueError, match="amsgrad must be False"):
        FusedAdam(amsgrad=True)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_variables_of_other_precisions(dtype, data):
    (start, _), (gradients, _) = data
    fused, plain = (keras.Variable(start, dtype=dtype) for _ in range(2))
    for variable, adam in ((fused, FusedAdam), (plain, keras.optimizers.Adam)):
        optimizer = adam(RATE, *BETAS, 1e-2)
        for gradient in gradients:
            optimizer.apply([tf.cast(gradient, dtype)], [variable])
    found, wanted = (tf.cast(variable.value, "float64").numpy() for variable in (fused, plain))
    np.testing.assert_allclose(found, wanted, atol={"float64": 1e-6, "bfloat16": 0.03, "float16": 0.01}[dtype])


@pytest.mark.long
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_another_process_loads_a_model_that_was_compiled_with_it(tmp_path, backend):
    if backend == "jax":
        pytest.importorskip("jax")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(FusedAdam(RATE, *BETAS, EPSILON), "mse")
    model.fit(np.ones((4, 3)), np.zeros((4, 2)), verbose=0)
    model.save(tmp_path / "fitted.keras")
    code = "import fabir_tf, keras, sys; found = keras.saving.load_model(sys.argv[1]).optimizer; "
    code += "print(type(found).__name__, float(found.beta_1), int(found.iterations))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", code, str(tmp_path / "fitted.keras")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    expected = {"tensorflow": "FusedAdam", "jax": "Adam"}[backend]
    assert done.stdout.split() == [expected, "0.8", "1"], done
