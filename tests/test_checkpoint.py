"""Checkpoints: they restore every number that training continues from, or say in a sentence why not."""

import json

import keras
import numpy as np
import pytest

from fabir_tf.models.weights import load_weights, read_weights, save_weights
from fabir_tf.pipelines.errors import UserError
from fabir_tf.training.checkpoint import load_checkpoint, save_checkpoint

STATE = {"epoch": 3, "step": 7, "loss": [0.1 + 0.2, 5.0], "epochs": [{"loss": None}, {"loss": 1 / 3}], "name": "é"}


@keras.saving.register_keras_serializable(package="test_checkpoint")
class Frozen(keras.layers.Layer):
    """Adds a table that never changes, under the name that the readers give theirs."""

    def build(self, input_shape):
        self.table = self.add_weight(name="frozen_table", shape=(input_shape[-1],), initializer="ones", trainable=False)

    def call(self, inputs):
        return inputs + self.table


def make_model(seed, hidden=5, scales_loss=False, dropout=0.5):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((3,))
    x = Frozen(name="frozen")(keras.layers.Dense(hidden, name="hidden")(inputs))
    outputs = keras.layers.Dense(2, name="out")(keras.layers.Dropout(dropout, name="drop")(x))
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.9)
    # A step of growth so short that the scale changes while the test runs.
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0, dynamic_growth_steps=2)
    model.compile(scaled if scales_loss else optimizer, "mse")
    return model


def train_steps(model, steps):
    random = np.random.default_rng(steps)
    for _ in range(steps):
        model.train_on_batch(random.standard_normal((4, 3)), random.standard_normal((4, 2)))
    return model


def numbers(model):
    return weights(model) + others(model)


def weights(model):
    return [np.asarray(variable) for variable in model.trainable_variables]


def others(model):
    """The variables that a continuation needs besides the weights: those of generators and optimizer."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    generators = [variable for variable in model.variables if "seed_generator" in variable.path]
    return [np.asarray(variable) for variable in [*generators, *model.optimizer.variables]]


def assert_equal(actual, expected):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.fixture(scope="module")
def trained():
    return train_steps(make_model(1), 3)


@pytest.fixture
def path(tmp_path, trained):
    save_checkpoint(tmp_path / "checkpoints" / "last.npz", trained, STATE)
    return tmp_path / "checkpoints" / "last.npz"


def test_everything_comes_back(trained, path):
    other = make_model(2)
    assert load_checkpoint(path, other) == STATE
    assert_equal(numbers(other), numbers(trained))
    assert int(other.optimizer.iterations) == 3
    # Two moments and an average for each of four weights.
    assert sum(variable.shape != () for variable in other.optimizer.variables) == 4 * 3
    # The generator of the dropout is among them, and goes on where it was.
    generators = [variable for variable in other.variables if "seed_generator" in variable.path]
    assert len(generators) == 1
    assert generators[0].numpy().any()
    assert_equal(numbers(train_steps(other, 4)), numbers(train_steps(loaded_from(path), 4)))


def loaded_from(path):
    model = make_model(9)
    load_checkpoint(path, model)
    return model


@pytest.mark.slow
def test_the_loss_scale_of_half_precision_comes_back_however_often_it_was_written(tmp_path):
    path, model = tmp_path / "last.npz", make_model(1, scales_loss=True)
    for _ in range(3):
        train_steps(model, 3)
        save_checkpoint(path, model, STATE)
    assert float(model.optimizer.dynamic_scale) == 8.0 * 2**4
    assert int(model.optimizer.step_counter) == 1
    other = make_model(2, scales_loss=True)
    load_checkpoint(path, other)
    assert float(other.optimizer.dynamic_scale) == 8.0 * 2**4
    assert int(other.optimizer.step_counter) == 1
    assert_equal(numbers(other), numbers(model))
    assert_equal(numbers(train_steps(other, 4)), numbers(train_steps(model, 4)))


def test_the_frozen_table_is_not_written(path):
    with np.load(path) as file:
        assert not [name for name in file.files if "frozen_table" in name]
        assert len([name for name in file.files if name.endswith("/kernel")]) == 2


def test_the_frozen_table_is_left_alone(path):
    model = make_model(2)
    model.get_layer("frozen").table.assign([1.0, 2.0, 3.0, 4.0, 5.0])
    load_checkpoint(path, model)
    assert model.get_layer("frozen").table.numpy().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_weights_alone(trained, tmp_path):
    path = tmp_path / "best.npz"
    save_weights(path, trained, {"f1": 70.5})
    with np.load(path) as file:
        assert not [name for name in file.files if name.startswith("optimizer")]
    other = make_model(2)
    before = [np.array(array) for array in others(other)]
    assert load_weights(path, other) == []
    assert read_weights(path, lambda: other)[0] == {"f1": 70.5}
    assert_equal(weights(other), weights(trained))
    assert_equal(others(other), before)
    with pytest.raises(UserError, match=r"best\.npz: expected model/drop/0/seed_generator_state .* found none"):
        load_checkpoint(path, other)


def test_weights_of_a_whole_checkpoint_load_into_a_model_that_was_never_compiled(trained, path):
    compiled = make_model(2)
    model = keras.Model.from_config(compiled.get_config(), custom_objects={"Frozen": Frozen})
    load_weights(path, model)
    assert_equal(weights(model), weights(trained))


def test_weights_load_into_a_model_that_drops_nothing(trained, path):
    model = make_model(2, dropout=0)
    assert not [variable for variable in model.variables if "seed_generator" in variable.path]
    load_weights(path, model)
    assert_equal(weights(model), weights(trained))


def test_another_configuration_is_refused_and_nothing_is_changed(path):
    other = make_model(2, hidden=6)
    before = numbers(other)
    with pytest.raises(UserError, match=r"last\.npz: expected model/hidden/kernel of shape \(3, 6\), found \(3, 5\)"):
        load_checkpoint(path, other)
    assert_equal(numbers(other), before)
    with pytest.raises(UserError, match="belongs to another configuration"):
        load_weights(path, make_model(2, hidden=6))


def test_a_missing_checkpoint_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"none\.npz: no such checkpoint, expected one written by fabir-train"):
        load_checkpoint(tmp_path / "none.npz", make_model(2))


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:100],
        lambda raw: raw[:-30],
        lambda raw: b"not an archive",
        lambda raw: raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 255]) + raw[len(raw) // 2 + 1 :],
    ],
)
def test_a_damaged_checkpoint_is_reported_and_nothing_is_changed(path, damage):
    raw = path.read_bytes()
    path.write_bytes(damage(raw))
    other = make_model(2)
    before = numbers(other)
    with pytest.raises(UserError, match=r"last\.npz: the checkpoint is damaged or cut short"):
        load_checkpoint(path, other)
    assert_equal(numbers(other), before)


@pytest.mark.parametrize("state", [None, b"{broken", b""])
def test_a_checkpoint_without_a_readable_state_is_damaged(path, state):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "state"}
    if state is not None:
        arrays["state"] = np.frombuffer(state, np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(UserError, match=r"last\.npz: the checkpoint is damaged or cut short"):
        load_checkpoint(path, make_model(2))


def test_a_failed_write_leaves_the_old_checkpoint(path, trained, monkeypatch):
    old = path.read_bytes()

    def full(file, **arrays):
        file.write(b"PK\x03\x04 and no more")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left on device"):
        save_checkpoint(path, trained, {"epoch": 4})
    assert path.read_bytes() == old
    assert list(path.parent.iterdir()) == [path]


def test_the_state_is_json(path):
    with np.load(path) as file:
        assert json.loads(file["state"].tobytes()) == STATE


# === Names of the variables ===


def make_siblings(names, seed=1):
    """Two parallel layers between the same ends, made and called in the given order."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((3,))
    layers = {
        name: keras.Sequential([keras.layers.Dense(4, name="dense"), keras.layers.Dropout(0.5, name="drop")], name=name)
        for name in names
    }
    outputs = keras.layers.Add(name="join")([layers[name](inputs) for name in names])
    model = keras.Model(inputs, keras.layers.Dense(2, name="out")(outputs))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def by_path(model):
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    found = {variable.path: np.asarray(variable) for variable in model.variables}
    # Keras numbers the generators and the optimizers of a process.
    found = {name: values for name, values in found.items() if "seed_generator" not in name}
    found |= {
        f"{layer.name}/{variable.name}": np.asarray(variable)
        for layer in model.layers
        for variable in layer.variables
        if variable.name == "seed_generator_state"
    }
    return found | {variable.name: np.asarray(variable) for variable in model.optimizer.variables}


@pytest.mark.parametrize("is_whole", [True, False])
def test_layers_built_in_another_order_find_their_own_variables(tmp_path, is_whole):
    path = tmp_path / "saved.npz"
    model, other = train_steps(make_siblings(["left", "right"]), 3), make_siblings(["right", "left"], seed=2)
    assert [variable.path for variable in model.variables] != [variable.path for variable in other.variables]
    if is_whole:
        save_checkpoint(path, model, STATE)
        assert load_checkpoint(path, other) == STATE
    else:
        save_weights(path, model, STATE)
        load_weights(path, other)
    found, expected = by_path(other), by_path(model)
    assert found.keys() == expected.keys()
    for name in expected if is_whole else [variable.path for variable in model.trainable_variables]:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_the_names_in_the_file_are_the_paths_of_the_variables(path, trained):
    paths = {variable.path for variable in trained.trainable_variables} | {"drop/0/seed_generator_state"}
    with np.load(path) as file:
        assert {name.removeprefix("model/") for name in file.files if name.startswith("model/")} == paths
        assert {name for name in file.files if "/" not in name} == {"format", "state"}


def test_two_variables_with_one_path_are_an_error(tmp_path):
    class Twice(keras.layers.Layer):
        def build(self, input_shape):
            self.one, self.two = (self.add_weight(name="scale", shape=()) for _ in range(2))

        def call(self, inputs):
            return inputs * self.one * self.two

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Twice(name="twice")(inputs))
    with pytest.raises(ValueError, match="have the path 'twice/scale': give their layers different names"):
        save_weights(tmp_path / "best.npz", model, {})
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_later_version_is_refused(path):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **arrays | {"format": np.array(4)})
    with pytest.raises(UserError, match=r"last\.npz: found format 4, expected at most 3"):
        load_checkpoint(path, make_model(2))


# === Files of version 0.1 ===


def as_numbered(path):
    """Rewrites a checkpoint as version 0.1 did: variables numbered in the model's order, no format."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "format"}
    names = [name for name in arrays if name.startswith("model/")]
    for number, name in enumerate(names):
        arrays[f"model/{number}/{name.rpartition('/')[2]}"] = arrays.pop(name)
    np.savez(path, **arrays)


def test_weights_of_version_0_1_load_in_the_order_of_the_model(path, trained):
    as_numbered(path)
    other = make_model(2)
    load_weights(path, other)
    assert_equal(weights(other), weights(trained))
    with pytest.raises(UserError, match="belongs to another configuration"):
        load_weights(path, make_siblings(["left", "right"]))


def test_a_checkpoint_of_version_0_1_is_not_resumed(path):
    as_numbered(path)
    other = make_model(2)
    before = numbers(other)
    with pytest.raises(UserError, match=r"last\.npz: found a checkpoint of version 0\.1, .* --start_from=") as caught:
        load_checkpoint(path, other)
    assert str(path.parents[1]) in str(caught.value)
    assert_equal(numbers(other), before)
