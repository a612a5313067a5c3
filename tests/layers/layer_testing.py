"""Tests that every layer has to pass on every Keras backend.

A layer is described by its class, its configuration and its call arguments: a dictionary of NumPy arrays by argument
name, in the order of the layer's `call`. Float arrays are float32, ids int32, masks boolean.

- `run_layer_test`: configuration, rebuild, symbolic calls, saving, one training step, under one dtype policy.
- `check_forward`: outputs against an oracle in float64.
- `check_gradients`: gradients of inputs and weights against finite differences of the oracle.
- `check_padding`: neither the content nor the amount of padding changes the output of a real token.
"""

import functools
import inspect
import json
import tempfile
import warnings
from pathlib import Path

import keras
import numpy as np
from keras import ops

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


# === Describing layers and data ===


def mask_of(lengths, width):
    """Boolean `(batch, width)`, the first `lengths[b]` of each row true."""
    return np.arange(width)[None] < np.asarray(lengths)[:, None]


def normal(*shape, seed, scale=1.0):
    """Float32 random values."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype("float32")


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def as_arrays(outputs):
    """The outputs of a layer as a tuple of NumPy arrays, half precision widened to float32."""
    return tuple(_to_numpy(output) for output in as_tuple(outputs))


def _to_numpy(tensor):
    if keras.backend.standardize_dtype(tensor.dtype) in ("bfloat16", "float16"):
        tensor = ops.cast(tensor, "float32")
    return ops.convert_to_numpy(tensor)


def built(layer, inputs, seed=1, scale=0.5):
    """The layer, built for these call arguments and with random values in all of its weights."""
    layer(**symbols_of(inputs))
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        if "seed_generator" not in weight.path:
            weight.assign((scale * rng.standard_normal(weight.shape)).astype(weight.dtype))
    return layer


def symbols_of(inputs):
    return {name: keras.KerasTensor(value.shape, value.dtype.name) for name, value in inputs.items()}


def weights_of(layer, root=None):
    """The layer's weights in float64, by their names inside it."""
    return {
        name_of(weight, root or layer.name): _to_numpy(weight.value).astype("float64")
        for weight in layer.weights
        if "seed_generator" not in weight.path
    }


def name_of(weight, root):
    """A weight's path inside the layer called `root`."""
    return weight.path.split(f"{root}/", 1)[1]


def parameters(layer):
    return sum(int(np.prod(weight.shape)) for weight in layer.trainable_weights)


# === Calls and gradients on every backend ===


def runner(layer):
    """A function of the call arguments, and of `training`, that calls the layer or model.

    On TensorFlow it calls the layer directly. On JAX, where the first call of each operation on each shape compiles a
    program, it compiles the whole layer into one program per shape of the inputs.
    """
    if keras.backend.backend() != "jax":
        return lambda inputs, training=False: layer(*_positional(layer, inputs), **_named(layer, inputs, training))

    import jax

    def call(state, inputs, training):
        with _stateless(layer, state):
            return layer(*_positional(layer, inputs), **_named(layer, inputs, training))

    compiled = jax.jit(call, static_argnames="training", compiler_options=_quick_compilation())

    def call_with_weights(inputs, training=False):
        if not layer.built:
            layer(**symbols_of(inputs))
        return compiled([variable.value for variable in layer.variables], inputs, training=training)

    return call_with_weights


@functools.cache
def _quick_compilation():
    """Options that compile a small program about three times faster, if this version of XLA has them."""
    import jax

    options = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(1)
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def _stateless(layer, state):
    """A scope in which the layer's variables have these values. (`stateless_call` skips the casts of `__call__`.)"""
    return keras.StatelessScope(state_mapping=zip(layer.variables, state, strict=True))


def _positional(layer, inputs):
    """A model takes its inputs as one dictionary, a layer as named arguments."""
    return [inputs] if isinstance(layer, keras.Model) else []


def _named(layer, inputs, training):
    named = {} if isinstance(layer, keras.Model) else dict(inputs)
    takes_training = "training" in inspect.signature(layer.call).parameters
    return named | ({"training": training} if takes_training else {})


def run(layer, inputs, **training):
    """The outputs of one call as a tuple of NumPy arrays."""
    return as_arrays(runner(layer)(inputs, **training))


def value_and_gradients(layer, inputs, projections, training=False):
    """sum(outputs * projections) and its gradients.

    Args:
        layer: a built layer.
        inputs: its call arguments.
        projections: an array per output.

    Returns:
        The outputs; the sum; and a dictionary of float64 arrays, the gradients of the float inputs by argument name and
        of the trainable weights by weight name.
    """
    floats = {name: value for name, value in inputs.items() if value.dtype.kind == "f"}
    others = {name: value for name, value in inputs.items() if name not in floats}
    backend = {"tensorflow": _gradients_tensorflow, "jax": _gradients_jax}[keras.backend.backend()]
    outputs, value, input_gradients, weight_gradients = backend(layer, floats, others, projections, training)
    names = list(floats) + [name_of(weight, layer.name) for weight in layer.trainable_weights]
    gradients = dict(zip(names, [*input_gradients, *weight_gradients], strict=True))
    gradients = {name: _to_numpy(gradient).astype("float64") for name, gradient in gradients.items()}
    return as_tuple(outputs), float(_to_numpy(value)), gradients


def _project(outputs, projections):
    total = 0.0
    for output, projection in zip(as_tuple(outputs), projections, strict=True):
        output = ops.cast(output, "float32")
        # The logits -1e9 of padding would absorb all others.
        total += ops.sum(ops.where(output > -1e8, output, 0.0) * projection)
    return total


def _gradients_tensorflow(layer, floats, others, projections, training):
    import tensorflow as tf

    tensors = {name: tf.convert_to_tensor(value) for name, value in floats.items()}
    variables = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(list(tensors.values()))
        outputs = layer(**_named(layer, tensors | others, training))
        value = _project(outputs, projections)
    sources = [*tensors.values(), *variables]
    gradients = tape.gradient(value, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    for source, gradient in zip(layer.trainable_weights, gradients[len(tensors) :], strict=True):
        assert not isinstance(gradient, tf.IndexedSlices), (
            f"{source.path}: found a sparse gradient, expected a dense one. Look the table up through `dense_gradient`"
        )
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    return outputs, value, gradients[: len(tensors)], gradients[len(tensors) :]


def _gradients_jax(layer, floats, others, projections, training):
    import jax

    trained = layer.trainable_weights

    def projected(tensors, trainable):
        values = {id(variable): value for variable, value in zip(trained, trainable, strict=True)}
        state = [values.get(id(variable), variable.value) for variable in layer.variables]
        with _stateless(layer, state):
            outputs = layer(**_named(layer, tensors | others, training))
            return _project(outputs, projections), outputs

    trainable = [variable.value for variable in trained]
    gradients = jax.value_and_grad(projected, argnums=(0, 1), has_aux=True)
    differentiate = jax.jit(gradients, compiler_options=_quick_compilation())
    (value, outputs), (inputs, weights) = differentiate(floats, trainable)
    return outputs, value, [inputs[name] for name in floats], weights


# === Against an oracle ===


def check_forward(layer, inputs, oracle, real=None, tolerance=1e-5):
    """Compares the outputs with `oracle(weights, **inputs)` in float64.

    Args:
        layer: a built layer.
        inputs: its call arguments.
        oracle: function of the weights' dictionary and the call arguments.
        real: a boolean array per output, false where an output is padding and has no meaning.
        tolerance: absolute and relative.
    """
    outputs = run(layer, inputs)
    expected = as_tuple(oracle(weights_of(layer), **_float64(inputs)))
    assert len(outputs) == len(expected)
    for output, wanted, where in zip(outputs, expected, _where(real, outputs), strict=True):
        assert output.shape == wanted.shape
        np.testing.assert_allclose(output[where], wanted[where], rtol=tolerance, atol=tolerance)


def check_gradients(layer, inputs, oracle, real=None, samples=4, tolerance=2e-4, step=1e-6):
    """Compares a random projection of the real outputs, in training, and its gradients with the oracle's.

    The oracle's gradients are central differences. The layer runs in training, where it may compute differently.
    `samples` entries of every float input and of every trainable weight are compared. `tolerance` is relative to the
    largest of three: the entry, the tensor's mean magnitude, and a hundredth of the largest such mean. Some gradients
    (that of the keys' bias under a softmax over the keys) are exactly 0 and are computed as rounding errors.
    """
    weights, arrays = weights_of(layer), _float64(inputs)
    outputs = as_tuple(oracle(weights, **arrays))
    rng = np.random.default_rng(5)
    projections = [
        rng.standard_normal(output.shape).astype("float32") * where
        for output, where in zip(outputs, _where(real, outputs), strict=True)
    ]
    _, value, gradients = value_and_gradients(layer, inputs, projections, training=True)

    def projected():
        return sum(
            (output * projection).sum()
            for output, projection in zip(as_tuple(oracle(weights, **arrays)), projections, strict=True)
        )

    size = np.sqrt(
        sum(np.square(output * projection).sum() for output, projection in zip(outputs, projections, strict=True))
    )
    assert abs(value - projected()) < 1e-5 * size
    scales = {name: np.abs(gradient).mean() for name, gradient in gradients.items()}
    floor = 0.01 * max(scales.values())
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all(), name
        array = arrays[name] if name in arrays else weights[name]
        assert gradient.shape == array.shape, name
        for flat in rng.choice(array.size, size=min(samples, array.size), replace=False):
            index = np.unravel_index(flat, array.shape)
            centre = array[index]
            array[index] = centre + step
            above = projected()
            array[index] = centre - step
            below = projected()
            array[index] = centre
            wanted = (above - below) / (2 * step)
            allowed = tolerance * max(abs(wanted), scales[name], floor)
            assert abs(gradient[index] - wanted) < allowed, f"{name}{list(index)}: {gradient[index]} is not {wanted}"


def _float64(inputs):
    return {name: value.astype("float64") if value.dtype.kind == "f" else value for name, value in inputs.items()}


def _where(real, outputs):
    if real is None:
        return [np.ones(output.shape, bool) for output in outputs]
    assert len(real) == len(outputs)
    return [_as_mask_of(where, output) for where, output in zip(real, outputs, strict=True)]


def _as_mask_of(where, output):
    """A mask of an output's first axes, broadcast to all of its entries."""
    return np.broadcast_to(where.reshape(where.shape + (1,) * (output.ndim - where.ndim)), output.shape)


# === Padding ===


def check_padding(layer, inputs, lengths, axes, output_axes, tolerance=1e-5):
    """Real outputs are the same alone, with any amount and content of padding, and beside longer neighbors.

    Args:
        layer: a built layer.
        inputs: call arguments of a batch; an example is the first `lengths[text]` tokens of a row. With lengths 7 and 2
            of one text beside 3 and 5 of the other, each row is padded in only one text.
        lengths: text name -> real tokens of each row.
        axes: argument name -> text name of its second axis.
        output_axes: text name of each output's second axis; None if that axis is no text.
        tolerance: absolute and relative.
    """
    call = runner(layer)
    batched = as_arrays(call(inputs))
    longer = as_arrays(call({name: _extended(value, 19, seed=7) for name, value in inputs.items()}))
    for row, own in enumerate(zip(*lengths.values(), strict=True)):
        own = dict(zip(lengths, own, strict=True))
        alone = as_arrays(call({name: value[row : row + 1, : own[axes[name]]] for name, value in inputs.items()}))
        for outputs in (batched, longer):
            for output, wanted, text in zip(outputs, alone, output_axes, strict=True):
                output = output[row : row + 1] if text is None else output[row : row + 1, : own[text]]
                np.testing.assert_allclose(output, wanted, rtol=tolerance, atol=tolerance)


def _extended(array, extra, seed):
    """The array with `extra` tokens appended: false in a mask, 0 in ids, random values in vectors."""
    shape = (array.shape[0], extra, *array.shape[2:])
    is_float = array.dtype.kind == "f"
    padding = normal(*shape, seed=seed, scale=1000.0) if is_float else np.zeros(shape, array.dtype)
    return np.concatenate([array, padding], axis=1)


# === Conformance ===


def run_layer_test(cls, config, inputs, policy="float32", output_dtypes=None, float32_outputs=False):
    """The common tests of a layer under one dtype policy.

    Args:
        cls: the layer's class.
        config: its arguments, each different from its default, so that the test notices one that is not stored.
        inputs: its call arguments; the last row of every mask is all false.
        policy: the layer's dtype policy; None leaves it to the layer and to the global policy.
        output_dtypes: dtypes of the outputs; by default the policy's compute dtype.
        float32_outputs: expects float32 outputs under every policy.
    """
    with warnings.catch_warnings():
        # Keras says so of a layer that takes `mask` without saying what becomes of it: see `ExplicitMask`.
        warnings.filterwarnings("error", message=".*does not support masking")
        _run_layer_test(cls, config, inputs, policy, output_dtypes, float32_outputs)


def _run_layer_test(cls, config, inputs, policy, output_dtypes, float32_outputs):
    _check_every_argument_is_tested(cls, config)
    dtype = {} if policy is None else {"dtype": policy}
    layer = built(cls(**config, **dtype, name="tested"), inputs)
    symbolic = as_tuple(layer(**symbols_of(inputs)))
    rng = np.random.default_rng(3)
    projections = [rng.standard_normal(output.shape).astype("float32") for output in symbolic]
    if layer.trainable_weights:
        outputs, loss, gradients = value_and_gradients(layer, inputs, projections, training=True)
        assert np.isfinite(loss)
        _check_training_step(layer, gradients)
    else:
        outputs = as_tuple(runner(layer)(inputs))
    if output_dtypes is None:
        output_dtypes = ["float32" if float32_outputs else layer.compute_dtype] * len(outputs)
    assert [_dtype(output) for output in outputs] == list(output_dtypes)
    assert all(np.isfinite(output).all() for output in as_arrays(outputs))
    _check_config(cls, layer)
    if layer.compute_dtype == "float32":
        _check_saving(layer, inputs)
    _check_symbolic(layer, inputs, outputs)


def _dtype(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


def _check_every_argument_is_tested(cls, config):
    for name, parameter in _arguments_of(cls).items():
        assert name in config, f"the test gives no {name}"
        assert config[name] != parameter.default, f"the test gives {name} its default"


def _arguments_of(cls):
    """All arguments of a layer's constructors, including those passed on by **kwargs."""
    found = {}
    for ancestor in cls.__mro__:
        if ancestor is keras.layers.Layer:
            return found
        if "__init__" in vars(ancestor):
            own = inspect.signature(ancestor.__init__).parameters
            found = {name: own[name] for name in own if name not in ("self", "kwargs")} | found
    raise AssertionError(f"{cls.__name__} is no Keras layer")


def _check_config(cls, layer):
    text = json.dumps(layer.get_config())
    assert set(_arguments_of(cls)) <= set(json.loads(text)), "an argument is missing in the configuration"
    clone = cls.from_config(json.loads(text))
    assert json.dumps(clone.get_config()) == text
    serialized = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    assert isinstance(keras.saving.deserialize_keras_object(serialized), cls)


def _check_symbolic(layer, inputs, outputs):
    """Symbolic calls and `compute_output_shape` agree with the eager call, for known and unknown dimensions."""
    actual = [(tuple(output.shape), _dtype(output)) for output in outputs]
    assert [(output.shape, output.dtype) for output in as_tuple(layer(**symbols_of(inputs)))] == actual
    assert _computed_shapes(layer, [value.shape for value in inputs.values()]) == [shape for shape, _ in actual]

    unknown = {name: _unknown_lengths(value) for name, value in inputs.items()}
    symbols = {name: keras.KerasTensor(shape, inputs[name].dtype.name) for name, shape in unknown.items()}
    shapes = [output.shape for output in as_tuple(layer(**symbols))]
    for shape, (known, _) in zip(shapes, actual, strict=True):
        assert len(shape) == len(known)
        assert shape[0] is None
        assert all(size in (None, wanted) for size, wanted in zip(shape, known, strict=True))
    assert _computed_shapes(layer, unknown.values()) == shapes


def _unknown_lengths(array):
    """The shape with batch and length unknown, as in the readers; features and word width are known."""
    return (None, None, *array.shape[2:])


def _computed_shapes(layer, shapes):
    """`compute_output_shape` takes the shapes of all tensors but the masks."""
    count = len(inspect.signature(layer.compute_output_shape).parameters)
    shapes = layer.compute_output_shape(*[tuple(shape) for shape in shapes][:count])
    return [tuple(shape) for shape in (shapes if isinstance(shapes[0], tuple | list) else [shapes])]


def _check_saving(layer, inputs):
    """A functional model with the layer is restored from a `.keras` file with all of its weights.

    A frozen layer is still frozen in a copy, which Keras makes of the layer's configuration as it does in loading.
    """
    symbols = {
        name: keras.Input(_unknown_lengths(value)[1:], name=name, dtype=value.dtype.name)
        for name, value in inputs.items()
    }
    model = keras.Model(symbols, list(as_tuple(layer(**symbols))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.saving.load_model(path)
    weights, loaded_weights = model.get_weights(), loaded.get_weights()
    assert len(weights) == len(loaded_weights)
    for weight, loaded_weight in zip(weights, loaded_weights, strict=True):
        np.testing.assert_array_equal(weight, loaded_weight)
    layer.trainable = False
    assert keras.models.clone_model(model).trainable_variables == []
    layer.trainable = True
    for output, wanted in zip(run(loaded, inputs), run(layer, inputs), strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-6, atol=1e-6)
        assert np.isfinite(output).all()


def _check_training_step(layer, gradients):
    """Gradients are finite, and none of them is 0 throughout; the weights make one step."""
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())
    for weight in layer.trainable_weights:
        gradient = gradients[name_of(weight, layer.name)]
        assert gradient.any(), f"{weight.path} does not learn"
        weight.assign(_to_numpy(weight.value) - 0.01 * gradient.astype("float32"))
