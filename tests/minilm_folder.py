"""The weights of fabir-minilm as a folder in Hugging Face's layout, as a fine-tuned MiniLM is published."""

import json
import shutil

import hugging_face_folders as folders
import numpy as np

from fabir_tf import Reader
from fabir_tf.models.weights import weights_of
from fabir_tf.reading.pretrained import pretrained_folder

NAME = "fabir-minilm"
# Not the package's own table: what is wrong in it would be written and read in the same way.
_MAPS = {
    "attention.self.query": "attention/query",
    "attention.self.key": "attention/key",
    "attention.self.value": "attention/value",
    "attention.output.dense": "attention/output",
    "intermediate.dense": "hidden",
    "output.dense": "output",
}
_NORMS = {"attention.output.LayerNorm": "attention_norm", "output.LayerNorm": "output_norm"}


def write_minilm(folder):
    """Writes config.json, model.safetensors and vocab.txt. Returns the folder."""
    reader = Reader.load(NAME)
    config = reader.config
    settings = folders.BERT | {
        "architectures": ["BertForQuestionAnswering"],
        "vocab_size": config.pieces,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.hidden_dim,
        "max_position_embeddings": config.max_positions,
    }
    weights = {name.removeprefix("model/"): np.asarray(value) for name, value in weights_of(reader.model).items()}
    folders.write_folder(folder, settings, dict(_by_published_name(weights, config.num_layers)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    shutil.copy(pretrained_folder(NAME) / "processor" / "vocab.txt", folder)
    return folder


def _by_published_name(weights, layers):
    for name, table in (("word", "word"), ("position", "position"), ("token_type", "segment")):
        yield f"bert.embeddings.{name}_embeddings.weight", weights[f"embeddings/{table}_table"]
    yield from _norm(weights, "embeddings", "bert.embeddings.LayerNorm")
    for number in range(layers):
        for name, path in _MAPS.items():
            yield from _map(weights, f"layer_{number}/{path}", f"bert.encoder.layer.{number}.{name}")
        for name, path in _NORMS.items():
            yield from _norm(weights, f"layer_{number}/{path}", f"bert.encoder.layer.{number}.{name}")
    yield from _map(weights, "head/logits", "qa_outputs")


def _map(weights, path, name):
    yield f"{name}.weight", weights[f"{path}/kernel"].T
    yield f"{name}.bias", weights[f"{path}/bias"]


def _norm(weights, path, name):
    yield f"{name}.weight", weights[f"{path}/gain"]
    yield f"{name}.bias", weights[f"{path}/bias"]
