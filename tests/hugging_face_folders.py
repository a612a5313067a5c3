"""Small folders in Hugging Face's layout with random weights, written from the format's description."""

import json
import struct

import numpy as np

BERT = {
    "model_type": "bert",
    "vocab_size": 23,
    "hidden_size": 6,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 11,
    "max_position_embeddings": 19,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
DISTILBERT = {
    "model_type": "distilbert",
    "vocab_size": 23,
    "dim": 6,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 11,
    "max_position_embeddings": 19,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.2,
}
_LAYERS = {
    "bert": {
        "attention.self.query": (6, 6),
        "attention.self.key": (6, 6),
        "attention.self.value": (6, 6),
        "attention.output.dense": (6, 6),
        "attention.output.LayerNorm": (6,),
        "intermediate.dense": (11, 6),
        "output.dense": (6, 11),
        "output.LayerNorm": (6,),
    },
    "distilbert": {
        "attention.q_lin": (6, 6),
        "attention.k_lin": (6, 6),
        "attention.v_lin": (6, 6),
        "attention.out_lin": (6, 6),
        "sa_layer_norm": (6,),
        "ffn.lin1": (11, 6),
        "ffn.lin2": (6, 11),
        "output_layer_norm": (6,),
    },
}


def tensors(family, head=True, seed=1):
    """Float32 weights of `BERT` or `DISTILBERT` by PyTorch's names, without those that are not read."""
    shapes = {"embeddings.word_embeddings": (23, 6), "embeddings.position_embeddings": (19, 6)}
    if family == "bert":
        shapes["embeddings.token_type_embeddings"] = (2, 6)
    shapes["embeddings.LayerNorm"] = (6,)
    layers = {"bert": "encoder.layer", "distilbert": "transformer.layer"}[family]
    for number in range(2):
        shapes |= {f"{layers}.{number}.{name}": shape for name, shape in _LAYERS[family].items()}
    shapes = {f"{family}.{name}": shape for name, shape in shapes.items()} | ({"qa_outputs": (2, 6)} if head else {})
    rng, found = np.random.default_rng(seed), {}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = rng.standard_normal(shape).astype("float32")
        if not name.endswith("_embeddings"):
            found[f"{name}.bias"] = rng.standard_normal(shape[:1]).astype("float32")
    return found


def bfloat16(values):
    """The upper halves of float32 numbers: bfloat16, rounded towards 0."""
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")


def safetensors(arrays, dtype="F32"):
    """The bytes of a .safetensors file."""
    encode = {"F32": lambda a: a.astype("<f4"), "F16": lambda a: a.astype("<f2"), "BF16": bfloat16}[dtype]
    header, content = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        raw = encode(array).tobytes()
        offsets = [len(content), len(content) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        content += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def write_folder(folder, config, arrays, dtype="F32"):
    """Writes config.json and model.safetensors, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(safetensors(arrays, dtype))
    return folder
