"""How similar the tokens of a passage are after each layer of FABIR, before and after training.

    python benchmarks/alike.py --dataset=held.json --starts=1,0.25,0.1,0 --vectors=glove.6B.100d.txt
    python benchmarks/alike.py --dataset=held.json --starts= --run_dirs=runs/base

Each figure is a share of the tokens' summed squared norms: what is left after the tokens' mean is subtracted. It covers
all tokens of a passage and is averaged over the questions. At 0 all tokens are the same vector, and nothing
distinguishes the answer from the rest. An untrained reader is named by its `--cross_attention` and its
`--residual_init_scale`.
"""

import numpy as np
from absl import flags
from common import chosen, print_table
from differences import shares
from workload import TRAINING, fit_processor, load_questions

from fabir_tf.commands import cli
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.tokenized import TokenizedDataset
from fabir_tf.reading.reader import Reader
from fabir_tf.training.train import compiled_model

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file, a TFDS name or sample.")
flags.DEFINE_integer("questions", 22, "About how many; passages are taken with all of their questions.", lower_bound=1)
flags.DEFINE_string("vectors", "bundled", "Word vectors of the untrained readers, as in fabir-train.")
flags.DEFINE_list("starts", ["1", "0.25", "0.1", "0"], "--residual_init_scale of untrained readers; may be empty.")
flags.DEFINE_list("cross_attention", ["column", "row"], "--cross_attention of untrained readers.")
flags.DEFINE_list("run_dirs", [], "Trained readers: folders of runs, or names of readers that come with the package.")


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
            rows.append((f"{attention}, {start:g}", *_texts(shares(reader, tokenized))))
    for folder in values.run_dirs:
        reader = Reader.load(folder)
        if not isinstance(reader.config, FabirConfig):
            raise UserError(f"--run_dirs: {folder}: found a model of another kind, expected FABIR")
        rows.append((folder, *_texts(shares(reader, tokenized))))
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


def _texts(found: np.ndarray) -> list[str]:
    return [f"{share:.4f}" for share in found]


if __name__ == "__main__":
    cli.run_command(main, __doc__)
