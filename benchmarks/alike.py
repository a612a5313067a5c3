"""How similar the tokens of a passage are after each layer of FABIR, before and after training.

    python benchmarks/alike.py --dataset=held.json --starts=1,0.25,0.1,0 --vectors=glove.6B.100d.txt
    python benchmarks/alike.py --dataset=held.json --starts= --run_dirs=runs/base

Each figure is a share of the tokens' summed squared norms: what is left after the tokens' mean is subtracted. It covers
all tokens of a passage and is averaged over the questions. At 0 all tokens are the same vector, and nothing
distinguishes the answer from the rest. An untrained reader is named by its `--cross_attention` and its
`--residual_init_scale`.
"""

from collections.abc import Iterator

import keras
import numpy as np
from absl import flags
from common import chosen, print_table
from workload import TRAINING, fit_processor, load_questions

from fabir_tf.commands import cli
from fabir_tf.layers import InteractionLayer
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.features.features import Examples
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.reader import Reader
from fabir_tf.training.train import compiled_model

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file, a TFDS name or sample.")
flags.DEFINE_integer("questions", 22, "About how many; passages are taken with all of their questions.", lower_bound=1)
flags.DEFINE_string("vectors", "bundled", "Word vectors of the untrained readers, as in fabir-train.")
flags.DEFINE_list("starts", ["1", "0.25", "0.1", "0"], "--residual_init_scale of untrained readers; may be empty.")
flags.DEFINE_list("cross_attention", ["column", "row"], "--cross_attention of untrained readers.")
flags.DEFINE_list("run_dirs", [], "Trained readers: folders of runs, or names of readers that come with the package.")


def share_of_differences(tokens: np.ndarray) -> float:
    """The share of some vectors' summed squared norms that is left when their mean is subtracted.

    Args:
        tokens: `(tokens, d_model)`, not all of them 0.

    Returns:
        From 0, where all are equal, to 1, where their mean is 0.
    """
    tokens = np.asarray(tokens, np.float64)
    return float(np.square(tokens - tokens.mean(axis=0)).sum() / np.square(tokens).sum())


def main(values: flags.FlagValues) -> None:
    """Measures the readers that the flags name, and prints the table."""
    starts = [_number(text) for text in values.starts]
    attentions = chosen(values, "cross_attention", ["column", "row"])
    if not starts and not values.run_dirs:
        raise UserError("--starts and --run_dirs are both empty: name at least one reader")
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
            raise UserError(f"--run_dirs: {folder}: found a model of another kind, expected FABIR")
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
    config, processor = fit_processor(FabirConfig(**settings), tokenized, vectors)
    return Reader(compiled_model(config, TRAINING, processor).model, processor, config)


def _shares(reader: Reader, tokenized: TokenizedDataset) -> list[str]:
    """The mean share over the questions, after the reduction layer and after each processing layer."""
    layers = [layer for layer in reader.model.layers if isinstance(layer, InteractionLayer)]
    outputs = keras.Model(reader.model.inputs, [layer.output[0] for layer in layers])
    found = []
    for inputs in _inputs(reader, tokenized):
        passages = [keras.ops.convert_to_numpy(of_layer)[0] for of_layer in outputs(inputs, training=False)]
        found.append([share_of_differences(tokens) for tokens in passages])
    return [f"{share:.4f}" for share in np.mean(found, axis=0)]


def _inputs(reader: Reader, tokenized: TokenizedDataset) -> Iterator[dict[str, np.ndarray]]:
    """The model's inputs for each question and its whole passage, without padding."""
    lengths = tokenized.passage_lengths[tokenized.question_passages]
    examples = Examples(np.arange(len(lengths)), np.zeros_like(lengths), lengths)
    features = reader.processor.features(tokenized, examples)
    for number in range(len(features)):
        inputs = {}
        for text, segments in features.segments.items():
            begin, length = segments.starts[number], segments.lengths[number]
            tokens = features.tokens[begin : begin + length]
            inputs |= {f"{text}_{part}": values[tokens][None] for part, values in features.unique.items()}
        yield inputs


if __name__ == "__main__":
    cli.run_command(main, __doc__)
