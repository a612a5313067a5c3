"""Folders in Hugging Face's layout: settings and weights of BERT and DistilBERT, and one sentence for the others."""

import json
import re
import subprocess
import sys

import hugging_face_folders as folders
import numpy as np
import pytest

from fabir_tf.models import training_settings
from fabir_tf.models.hugging_face import is_hugging_face, read_hugging_face
from fabir_tf.pipelines.errors import UserError
from fabir_tf.training.training_config import TrainingConfig

CONFIGS = {"bert": folders.BERT, "distilbert": folders.DISTILBERT}
SETTINGS = {
    "pieces": 23,
    "d_model": 6,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 11,
    "max_positions": 19,
    "activation": "gelu",
    "hidden_dropout": 0.1,
    "attention_dropout": 0.2,
    "epsilon": 1e-12,
}
OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


def write(folder, family="bert", config=None, arrays=None, dtype="F32"):
    arrays = folders.tensors(family) if arrays is None else arrays
    return folders.write_folder(folder, CONFIGS[family] | (config or {}), arrays, dtype)


def refusal(folder, **options):
    with pytest.raises(UserError) as caught:
        read_hugging_face(folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def old_name(name):
    """The name that BERT's first checkpoints have for the weights of a norm."""
    for today, before in OLD_NAMES.items():
        name = name.replace(today, before)
    return name


# === What is read ===


@pytest.mark.parametrize("family", CONFIGS)
def test_settings_and_paths(tmp_path, family):
    arrays = folders.tensors(family)
    found = read_hugging_face(write(tmp_path / "x", family), needs_head=True)
    assert found.settings == SETTINGS | {"segments": 2 if family == "bert" else 0}
    assert found.has_head
    layer = {"bert": "bert.encoder.layer", "distilbert": "distilbert.transformer.layer"}[family]
    query, norm = {
        "bert": ("attention.self.query", "attention.output.LayerNorm"),
        "distilbert": ("attention.q_lin", "sa_layer_norm"),
    }[family]
    expected = {
        "embeddings/word_table": arrays[f"{family}.embeddings.word_embeddings.weight"],
        "layer_1/attention/query/kernel": arrays[f"{layer}.1.{query}.weight"].T,
        "layer_0/attention_norm/gain": arrays[f"{layer}.0.{norm}.weight"],
        "head/logits/kernel": arrays["qa_outputs.weight"].T,
        "head/logits/bias": arrays["qa_outputs.bias"],
    }
    for path, array in expected.items():
        np.testing.assert_array_equal(found.arrays[path], array)
    assert len(found.arrays) == len(arrays)


def test_the_same_weights_under_other_names(tmp_path):
    """Without the model's prefix, with gamma and beta, and beside weights that are not read."""
    arrays = folders.tensors("bert")
    whole = read_hugging_face(write(tmp_path / "whole", arrays=arrays)).arrays
    more = {"bert.pooler.dense.weight": np.ones((6, 6)), "bert.embeddings.position_ids": np.ones((1, 19))}
    others = {
        "bare": {name.removeprefix("bert."): array for name, array in arrays.items()},
        "old": {old_name(name): array for name, array in arrays.items()},
        "more": arrays | more,
    }
    for name, renamed in others.items():
        found = read_hugging_face(write(tmp_path / name, arrays=renamed)).arrays
        assert found.keys() == whole.keys()
        for path, array in whole.items():
            np.testing.assert_array_equal(found[path], array)


@pytest.mark.parametrize(("dtype", "rounding"), [("F16", 2**-10), ("BF16", 2**-7)])
def test_half_precision_becomes_float32(tmp_path, dtype, rounding):
    whole = read_hugging_face(write(tmp_path / "whole")).arrays
    half = read_hugging_face(write(tmp_path / "half", dtype=dtype)).arrays
    for path, array in whole.items():
        assert half[path].dtype == np.float32
        np.testing.assert_allclose(half[path], array, rtol=rounding, atol=1e-6)
    assert any((half[path] != array).any() for path, array in whole.items())


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("head", [False, True])
def test_weights_of_keras(tmp_path, family, head):
    """tf_model.h5 as transformers' TensorFlow classes wrote it: other names, and transposed matrices."""
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    arrays = folders.tensors(family, head)
    whole = read_hugging_face(write(tmp_path / "whole", family, arrays=arrays)).arrays
    folder = write(tmp_path / "keras", family)
    (folder / "model.safetensors").unlink()
    model = {"bert": "tf_bert", "distilbert": "tf_distil_bert"}[family]
    model += "_for_question_answering" if head else "_model"
    with h5py.File(folder / "tf_model.h5", "w") as file:
        file.attrs["layer_names"] = [family, "qa_outputs"]
        for name, array in arrays.items():
            *parts, last = re.sub(r"\.layer\.(\d+)\.", r".layer/\1.", name).split(".")
            top = parts[0]
            if parts[-1] in ("position_embeddings", "token_type_embeddings"):
                last = "embeddings"
            elif "norm" in parts[-1].lower():
                last = {"weight": "gamma", "bias": "beta"}[last]
            elif last == "weight" and parts[-1] != "word_embeddings":
                last, array = "kernel", array.T
            path = "/".join(parts).replace("layer/", "layer_._")
            file[f"{top}/{model}/{path}/{last}:0"] = array
    found = read_hugging_face(folder).arrays
    assert found.keys() == whole.keys()
    for path, array in whole.items():
        np.testing.assert_array_equal(found[path], array)


def test_a_folder_is_recognized_by_its_model_type(tmp_path):
    assert is_hugging_face(write(tmp_path / "x"))
    assert not is_hugging_face(tmp_path)
    (tmp_path / "config.json").write_text('{"model": {}, "format": 3}')
    assert not is_hugging_face(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert not is_hugging_face(tmp_path)


# === What is refused ===


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "roberta"}, "found model_type 'roberta', expected one of bert, distilbert."),
        ({"model_type": ["bert"]}, "found model_type ['bert'], expected one of bert, distilbert."),
        ({"hidden_act": "silu"}, "found hidden_act 'silu', expected one of gelu, gelu_new, relu."),
        ({"hidden_act": {"a": 1}}, "found hidden_act {'a': 1}, expected one of gelu, gelu_new, relu."),
        ({"position_embedding_type": "relative"}, "found position_embedding_type 'relative', expected 'absolute'"),
        ({"is_decoder": True}, "found is_decoder True, expected False: no other is supported."),
        ({"pruned_heads": {"0": [1]}}, "found pruned_heads {'0': [1]}, expected {}"),
        ({"quantization_config": {"bits": 4}}, "found quantization_config {'bits': 4}, expected its absence"),
        ({"pad_token_id": 1}, "found pad_token_id 1, expected 0"),
        ({"num_attention_heads": 4}, "found num_attention_heads 4, expected a divisor of hidden_size 6."),
        ({"hidden_size": "6"}, "found hidden_size '6', expected a whole number from 1 on."),
        ({"num_hidden_layers": True}, "found num_hidden_layers True, expected a whole number from 1 on."),
        ({"hidden_dropout_prob": 1.5}, "found hidden_dropout_prob 1.5, expected a number from 0 to 0.95."),
    ],
)
def test_settings_that_are_not_supported(tmp_path, change, message):
    folder = write(tmp_path / "x", config=change)
    assert refusal(folder).startswith(f"{folder}/config.json: {message}")


def test_a_setting_that_is_missing(tmp_path):
    folder = write(tmp_path / "x")
    config = {key: value for key, value in folders.BERT.items() if key != "hidden_size"}
    (folder / "config.json").write_text(json.dumps(config))
    assert "found no hidden_size, which a model of type bert needs" in refusal(folder)
    (folder / "config.json").write_text("[]")
    assert "found no JSON object, expected a model's settings" in refusal(folder)
    (folder / "config.json").unlink()
    assert "config.json: found no such file" in refusal(folder)
    assert "found no such folder, expected one with config.json" in refusal(tmp_path / "none")


def test_files_of_weights_that_are_not_read(tmp_path):
    folder = write(tmp_path / "x")
    (folder / "model.safetensors").unlink()
    assert refusal(folder).endswith("found no weights, expected model.safetensors or tf_model.h5.")
    (folder / "pytorch_model.bin").write_bytes(b"x")
    message = refusal(folder)
    assert "found only pytorch_model.bin" in message
    assert f"torch.load('{folder}/pytorch_model.bin', weights_only=True)" in message
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "found weights in several files" in refusal(folder)
    (folder / "tf_model.h5").write_bytes(b"not HDF5")
    assert "tf_model.h5: cannot be read" in refusal(folder)


def test_the_line_that_converts_a_pickle_works(tmp_path):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    pytest.importorskip("safetensors", reason="needs the package safetensors")
    whole, folder = read_hugging_face(write(tmp_path / "whole")).arrays, write(tmp_path / "x")
    (folder / "model.safetensors").unlink()
    weights = {name: torch.tensor(array) for name, array in folders.tensors("bert").items()}
    torch.save(weights, folder / "pytorch_model.bin")
    line = refusal(folder).split('python -c "')[1].removesuffix('"')
    subprocess.run([sys.executable, "-c", line], check=True, timeout=300)
    found = read_hugging_face(folder).arrays
    assert found.keys() == whole.keys()
    for path, array in whole.items():
        np.testing.assert_array_equal(found[path], array)


def test_weights_that_do_not_fit(tmp_path):
    arrays = folders.tensors("bert")
    headless = write(tmp_path / "a", arrays=folders.tensors("bert", head=False))
    assert not read_hugging_face(headless).has_head
    assert "found no qa_outputs.weight" in refusal(headless, needs_head=True)
    name = "bert.encoder.layer.1.output.dense.bias"
    lacking = {other: array for other, array in arrays.items() if other != name}
    message = refusal(write(tmp_path / "b", arrays=lacking))
    assert "model.safetensors: found no encoder.layer.1.output.dense.bias, expected one of shape (6,)" in message
    message = refusal(write(tmp_path / "c", arrays=arrays | {name: np.ones(7, "float32")}))
    assert "bias of shape (7,) and type float32, expected floats of shape (6,), as config.json says" in message
    message = refusal(write(tmp_path / "d", arrays=arrays | {"qa_outputs.weight": np.ones((3, 6), "float32")}))
    assert "found qa_outputs.weight of shape (3, 6) and type float32, expected floats of shape (2, 6)" in message
    message = refusal(write(tmp_path / "e", arrays=arrays | {name: np.full(6, np.nan, "float32")}))
    assert "found a value of encoder.layer.1.output.dense.bias that is not finite" in message


# === How BERT is trained ===


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"learning_rate": 3e-5, "batch_size": 32, "epochs": 2, "warmup_share": 0.1, "linear_decay_epochs": 1.8}),
        ({"epochs": 5}, {"epochs": 5, "linear_decay_epochs": 4.5}),
        ({"warmup_share": 0.0}, {"warmup_share": 0.0, "linear_decay_epochs": 2.0}),
        ({"patience": 1}, {"patience": 1, "linear_decay_epochs": 0.0}),
        ({"learning_rate": None}, {"learning_rate": None, "warmup_share": 0.0}),
        ({"learning_rate_factor": 0.1}, {"learning_rate": None, "learning_rate_factor": 0.1, "warmup_share": 0.0}),
        ({"warmup_steps": 50}, {"learning_rate": None, "warmup_steps": 50, "warmup_share": 0.0}),
        ({"warmup_steps": 50, "learning_rate": 0.01}, {"learning_rate": 0.01, "warmup_steps": 50}),
        ({"optimizer": "adadelta"}, {"optimizer": "adadelta", "adam_epsilon": 1e-8}),
        ({"seed": 7}, {"optimizer": "adamw", "seed": 7, "max_question": 64, "smoothing": "none"}),
    ],
)
def test_the_settings_of_its_training(given, expected):
    training = TrainingConfig(**training_settings("bert-span", given))
    assert {name: getattr(training, name) for name in expected} == pytest.approx(expected)


def test_other_readers_have_the_defaults():
    assert training_settings("fabir", {"seed": 7}) == {"seed": 7}
