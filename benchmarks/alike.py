"""How alike the tokens of a passage are behind each layer of FABIR, before training and after.

    python benchmarks/alike.py --dataset=held.json --starts=1,0.25,0.1,0 --vectors=glove.6B.100d.txt
    python benchmarks/alike.py --dataset=held.json --starts= --run_dirs=runs/base

A figure is the share of the tokens' squared length that is not their mean's, over all tokens of a passage, as the mean
of the questions: 0 where every token is the same vector, so that nothing tells the answer from the rest. An untrained
reader is named by its attention's softmax, `--cross_attention`, and by its `--residual_init_scale`.
"""

import keras
import numpy as np
from absl import flags
from common import chosen, print_table
from workload import TRAINING, load_questions

from fabir_tf.commands import cli
from fabir_tf.layers import InteractionLayer
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.pipelines.text.vocabulary import build_vocabulary
from fabir_tf.pipelines.text.word_vectors import load_vectors
from fabir_tf.reading.reader import Reader
from fabir_tf.training.train import compiled_model

flags.DEFINE_string("dataset", "sample", "Where the questions are from: a SQuAD JSON file, a TFDS name or sample.")
flags.DEFINE_integer("questions", 22, "About how many; whole passages with all of theirs.", lower_bound=1)
flags.DEFINE_string("vectors", "bundled", "Word vectors of the untrained readers, as in fabir-train.")
flags.DEFINE_list("starts", ["1", "0.25", "0.1", "0"], "--residual_init_scale of untrained readers; may be empty.")
flags.DEFINE_list("cross_attention", ["column", "row"], "--cross_attention of untrained readers.")
flags.DEFINE_list("run_dirs", [], "Trained readers: folders of runs, or names of those that come with the package.")


def share_of_differences(tokens: np.ndarray) -> float:
    """How much of some vectors' squared length is not their mean's.

    Args:
        tokens: `(tokens, d_model)`, not all of them 0.

    Returns:
        From 0, all are the same, to 1, their mean is 0.
    """
    tokens = np.asarray(tokens, np.float64)
    return float(np.square(tokens - tokens.mean(axis=0)).sum() / np.square(tokens).sum())


def main(values: flags.FlagValues) -> None:
    """Reads the flags, looks and prints."""
    starts = [_number(text) for text in values.starts]
    attentions = chosen(values, "cross_attention", ["column", "row"])
    if not starts and not values.run_dirs:
        raise UserError("--starts and --run_dirs are both empty: name something to look at")
    tokenized = load_questions(values.dataset, values.questions)
    rows = []
    for attention in attentions:
        for start in starts:
            settings = {"cross_attention": attention, "residual_init_scale": start}
            reader = _untrained(settings, values.vectors, tokenized)
            rows.append((f"{attention}, {start:g}", *_shares(reader, tokenized)))
    for folder in values.run_dirs:
        reader = Reader.load(folder)
        if not isinstance(reader.config, FabirConfig):
            raise UserError(f"--run_dirs: {folder}: found another model, expected a FABIR")
        rows.append((folder, *_shares(reader, tokenized)))
    depth = max(map(len, rows)) - 2
    head = ("", "reduction layer", *(f"layer {number}" for number in range(1, depth + 1)))
    print_table("Share of differences", head, [(*row, *[""] * (len(head) - len(row))) for row in rows])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--starts: found {text!r}, expected a number from 0 to 1") from None


def _untrained(settings: dict, vectors: str, tokenized: TokenizedDataset) -> Reader:
    table = load_vectors(vectors)
    vocabulary = build_vocabulary(tokenized.token_counts(), table.words)
    config = FabirConfig(
        word_dim=table.dimension,
        trainable_words=vocabulary.trainable_rows,
        characters=vocabulary.character_rows,
        frozen_words=vocabulary.frozen_rows,
        **settings,
    )
    return Reader(compiled_model(config, TRAINING, table).model, vocabulary, config)


def _shares(reader: Reader, tokenized: TokenizedDataset) -> list[str]:
    """The mean share of the questions behind the reduction and behind each processing layer."""
    layers = [layer for layer in reader.model.layers if isinstance(layer, InteractionLayer)]
    looking = keras.Model(reader.model.inputs, [layer.output[0] for layer in layers])
    passages = len(tokenized.data.passages)
    found = []
    for number, passage in enumerate(tokenized.question_passages):
        texts = {"passage": passage, "question": passages + number}
        words = {text: tokenized.texts.tokens_of(place).words for text, place in texts.items()}
        tokens = looking(_ids(reader, words), training=False)
        found.append([share_of_differences(keras.ops.convert_to_numpy(of_layer)[0]) for of_layer in tokens])
    return [f"{share:.4f}" for share in np.mean(found, axis=0)]


def _ids(reader: Reader, words: dict[str, list[str]]) -> dict[str, np.ndarray]:
    vocabulary, width = reader.vocabulary, reader.config.max_word_characters
    ids = {f"{text}_words": vocabulary.word_ids(of_text)[None] for text, of_text in words.items()}
    return ids | {
        f"{text}_characters": vocabulary.character_ids(of_text, width)[None] for text, of_text in words.items()
    }


if __name__ == "__main__":
    cli.run_command(main, __doc__)
