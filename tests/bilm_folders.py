"""A small biLM with random weights in the layout of the published files (bilm-tf, AllenNLP).

Run as a program with a folder's name, it writes the folder.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np

OPTIONS = {
    "lstm": {
        "cell_clip": 3,
        "use_skip_connections": True,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 6,
        "dim": 10,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 3], [2, 5], [3, 7]],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}


def arrays(options, seed=1):
    """Weights by their names in the file."""
    lstm, characters = options["lstm"], options["char_cnn"]
    dim, values = characters["embedding"]["dim"], sum(count for _, count in characters["filters"])
    units, projection = lstm["dim"], lstm["projection_dim"]
    shapes = {"char_embed": (261, dim), "CNN_proj/W_proj": (values, projection), "CNN_proj/b_proj": (projection,)}
    for number, (width, count) in enumerate(characters["filters"]):
        shapes |= {f"CNN/W_cnn_{number}": (1, width, dim, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(characters["n_highway"]):
        for name in ("transform", "carry"):
            place = f"CNN_high_{number}"
            shapes |= {f"{place}/W_{name}": (values, values), f"{place}/b_{name}": (values,)}
    for direction in (0, 1):
        for number in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            shapes |= {f"{cell}/W_0": (2 * projection, 4 * units), f"{cell}/B": (4 * units,)}
            shapes |= {f"{cell}/W_P_0": (units, projection)}
    random = np.random.default_rng(seed)
    # Like trained ones: the result of each product is about as large as its input.
    return {
        name: (random.standard_normal(shape) / np.sqrt(max(shape[-2:]) if len(shape) > 1 else 10)).astype("float32")
        for name, shape in shapes.items()
    }


def write_folder(folder, options=OPTIONS, weights=None):
    """Writes options.json and lm_weights.hdf5, and returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options, indent=1) + "\n")
    with h5py.File(folder / "lm_weights.hdf5", "w") as file:
        for name, array in (arrays(options) if weights is None else weights).items():
            file[name] = array
    return folder


if __name__ == "__main__":
    write_folder(sys.argv[1])
