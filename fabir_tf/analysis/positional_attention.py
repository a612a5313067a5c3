"""How strongly FABIR's position encodings attend to each other, whatever the words: figures 11 and 12 of the thesis."""

import numpy as np

FIGURES = {
    "11": {"d_model = 512": (512, 1e-4, 1.0), "d_model = 100": (100, 1e-4, 1.0)},
    "12": {"1e-4 to 1": (100, 1e-4, 1.0), "3e-3 to 1e-1": (100, 3e-3, 1e-1)},
}
"""By figure and curve: the features, and the lowest and highest frequency."""

POSITIONS = 400
"""99.5 % of SQuAD's passages are shorter."""


def positional_attention(dim: int, lowest: float, highest: float, positions: int = POSITIONS) -> np.ndarray:
    """The attention of the first position to each position, divided by that to itself.

        att(1, x) = e_1^T e_x = sum_k cos((x - 1) f_k),   att(1, 1) = dim / 2

    Args:
        dim: even number of features.
        lowest, highest: the frequencies f_k are a geometric progression between them.
        positions: x goes from 1 to this.

    Returns:
        Float64 `(positions,)`, from -1 to 1.

    Reference: thesis eq. 5.8 and 5.10, section 5.2.1.
    """
    frequencies = np.geomspace(lowest, highest, dim // 2)
    return np.cos(np.arange(positions)[:, None] * frequencies).mean(axis=1)
