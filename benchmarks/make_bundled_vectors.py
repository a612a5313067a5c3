r"""Makes the word vectors that come with the package: the commonest words of GloVe 6B, 100 dimensions, as int8 rows.

    python benchmarks/make_bundled_vectors.py --vectors glove.6B.100d.npz --words 30000 \
        --output pipelines/bundled/vectors.npz

Source: GloVe 6B (Pennington, Socher and Manning 2014), https://nlp.stanford.edu/projects/glove/, which its authors
place in the public domain under the Public Domain Dedication and License (PDDL) 1.0. The rows are in the order of the
published file, that is by falling frequency, and contain every kind of token: words, punctuation, numbers,
contractions. In the source table, alphabetic words have the published vectors; those of other tokens were imputed by
ridge regression from the published 50-dimensional vectors of the same tokens.
"""

from pathlib import Path

import numpy as np
from absl import app, flags

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.word_vectors import dequantise_rows, load_vectors, quantise_rows

_VECTORS = flags.DEFINE_string("vectors", None, "Source of the word vectors: GloVe text or .npz.", required=True)
_WORDS = flags.DEFINE_integer("words", 30_000, "Number of words to keep, from the start.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", "pipelines/bundled/vectors.npz", "The .npz file to write.")

NOTE = "GloVe 6B, 100 dimensions, commonest words, int8 rows; PDDL 1.0; made by benchmarks/make_bundled_vectors.py"


def make_bundled_vectors(vectors: str, words: int, output: Path) -> np.ndarray:
    """Writes the quantized table.

    Args:
        vectors: a file for `load_vectors`.
        words: number of words to keep, from the start.
        output: the .npz file to write.

    Returns:
        float32 (words,): the cosine between each row as written and the original.
    """
    original = load_vectors(vectors, max_words=words)
    quantised, scales = quantise_rows(original.table)
    np.savez_compressed(
        output,
        words=np.bytes_("\n".join(original.words).encode()),
        quantised=quantised,
        scales=scales,
        note=np.bytes_(NOTE.encode()),
    )
    return row_cosines(original.table, dequantise_rows(quantised, scales))


def row_cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compares the rows of two tables.

    Args:
        left: float (n, d).
        right: float (n, d).

    Returns:
        float32 (n,): cosines.
    """
    left, right = left.astype(np.float32), right.astype(np.float32)
    return (left * right).sum(axis=1) / (np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1))


def main(_: list[str]) -> None:
    """Makes the file that the flags name."""
    output = Path(_OUTPUT.value)
    try:
        cosines = make_bundled_vectors(_VECTORS.value, _WORDS.value, output)
    except UserError as error:
        raise SystemExit(str(error)) from None
    print(f"{output}: {len(cosines)} words, {output.stat().st_size / 1e6:.2f} MB")
    print(f"cosine with the original rows: mean {cosines.mean():.6f}, lowest {cosines.min():.6f}")


if __name__ == "__main__":
    app.run(main)
