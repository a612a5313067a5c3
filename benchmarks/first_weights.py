"""What FABIR's first weights do to its tokens, and to the first steps of its training.

    python benchmarks/first_weights.py --dataset=held.json --vectors=glove.6B.100d.txt
    python benchmarks/first_weights.py --rules=einsum --seeds=1 --train=train.json --dataset=held.json --run_dir=runs/x

Xavier's variance is 2 / (inputs + outputs). What counts as inputs and outputs of a projection that serves four heads,
or that a program computes together with others, is a matter of the program; each rule is one answer. Without --train
the first table of `alike.py` is printed for each rule: the share of the passage tokens' squared length that is left
when their mean is subtracted, after each layer, before training. At 0 all tokens are the same vector. With --train one
rule is trained from (`--noshared_query_key_init --residual_init_scale=1`, otherwise as in fabir-train).
"""

import math
import re
from collections.abc import Callable

import numpy as np
from absl import flags
from common import chosen, print_table
from differences import shares
from workload import TRAINING, fit_processor, load_questions

from fabir_tf.commands import cli
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.reader import Reader
from fabir_tf.training import train as training
from fabir_tf.training.train import compiled_model

HEADS = 4
PUBLISHED = {"shared_query_key_init": False, "residual_init_scale": 1.0}
_PROJECTION = re.compile(r"attention/(query|key|value|encoding_value)/kernel$")
_OUTPUT_OF_ATTENTION = re.compile(r"attention/(output|encoding_output)/kernel$")
_OUTPUT_OF_SELF_ATTENTION = re.compile(r"(self_attention|decoupled_encoder/attention)/(output|encoding_output)/kernel$")
_OUTPUT_OF_CROSS_ATTENTION = re.compile(r"cross_attention/output/kernel$")
_OUTPUT_OF_FEED_FORWARD = re.compile(r"feed_forward/output/kernel$")


def matrix(path: str, inputs: int, outputs: int) -> float:
    """Each matrix by itself, as our layers have it."""
    return 2 / (inputs + outputs)


def joined(path: str, inputs: int, outputs: int) -> float:
    """As the authors' program: `--joined_init`."""
    from fabir_tf.models.joined_weights import variance

    return variance(path, (inputs, outputs))


def head(path: str, inputs: int, outputs: int) -> float:
    """A projection counts the outputs of one head."""
    return 2 / (inputs + outputs / HEADS) if _PROJECTION.search(path) else matrix(path, inputs, outputs)


def einsum(path: str, inputs: int, outputs: int) -> float:
    """As Keras counts the kernels of its `MultiHeadAttention`, which have three axes."""
    if _PROJECTION.search(path):
        return 2 / (HEADS * inputs + inputs * outputs / HEADS)
    if _OUTPUT_OF_ATTENTION.search(path):
        return 2 / (inputs + HEADS * outputs)
    return matrix(path, inputs, outputs)


def _quarter(pattern: re.Pattern[str]) -> Callable[[str, int, int], float]:
    def rule(path: str, inputs: int, outputs: int) -> float:
        """A quarter of Xavier's values in the matrices that write a sublayer's output."""
        return matrix(path, inputs, outputs) / (16 if pattern.search(path) else 1)

    return rule


RULES = {
    "matrix": matrix,
    "joined": joined,
    "head": head,
    "einsum": einsum,
    "quarter_self_attention": _quarter(_OUTPUT_OF_SELF_ATTENTION),
    "quarter_cross_attention": _quarter(_OUTPUT_OF_CROSS_ATTENTION),
    "quarter_feed_forward": _quarter(_OUTPUT_OF_FEED_FORWARD),
}

flags.DEFINE_string("dataset", "sample", "Questions to measure on, or to score: a SQuAD JSON file or sample.")
flags.DEFINE_integer("questions", 22, "About how many, without --train.", lower_bound=1)
flags.DEFINE_string("vectors", "bundled", "Word vectors, as in fabir-train.")
flags.DEFINE_list("rules", list(RULES), "Rules, comma-separated.")
flags.DEFINE_list("seeds", ["1", "2"], "Seeds; the shares are their means.")
flags.DEFINE_string("train", None, "SQuAD JSON file to train on, with the only rule and the only seed that is named.")
flags.DEFINE_string("run_dir", None, "Folder of the training.")
flags.DEFINE_integer("steps", 1150, "Steps to train.", lower_bound=1)
flags.DEFINE_integer("warmup_steps", 1500, "Steps over which the learning rate rises.", lower_bound=1)


def draw(model, rule: Callable[[str, int, int], float], seed: int) -> None:
    """Draws all kernels of a model anew, uniformly, with the variances of a rule; tables and biases stay."""
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        if len(weight.shape) < 2 or weight.path.endswith("table"):
            continue
        positions = math.prod(weight.shape[:-2])
        variance = rule(weight.path, positions * weight.shape[-2], positions * weight.shape[-1])
        limit = math.sqrt(3 * variance)
        weight.assign(generator.uniform(-limit, limit, weight.shape).astype("float32"))


def main(values: flags.FlagValues) -> None:
    """Prints the shares of each rule, or trains with one."""
    rules = chosen(values, "rules", RULES)
    if values.train:
        _train(values, rules)
        return
    tokenized = load_questions(values.dataset, values.questions)
    config, processor = fit_processor(FabirConfig(**PUBLISHED), tokenized, values.vectors)
    model = compiled_model(config, TRAINING, processor).model
    rows = []
    for name in rules:
        found = []
        for seed in values.seeds:
            draw(model, RULES[name], int(seed))
            found.append(shares(Reader(model, processor, config), tokenized))
        rows.append((name, *(f"{share:.4f}" for share in np.mean(found, axis=0))))
    depth = len(rows[0]) - 2
    head_of_table = ("rule", "reduction layer", *(f"layer {number}" for number in range(1, depth + 1)))
    print_table("Share of differences before training", head_of_table, rows)


def _train(values: flags.FlagValues, rules: list[str]) -> None:
    if len(rules) != 1 or len(values.seeds) != 1 or not values.run_dir:
        raise UserError("--train: expected one rule in --rules, one seed in --seeds, and --run_dir")
    seed = int(values.seeds[0])
    build = training.build_model

    def build_with_rule(config):
        model = build(config)
        draw(model, RULES[rules[0]], seed)
        return model

    training.build_model = build_with_rule
    settings = TRAINING.replace(
        dataset=values.train,
        eval_dataset=values.dataset,
        vectors=values.vectors,
        max_steps=values.steps,
        warmup_steps=values.warmup_steps,
        seed=seed,
    )
    training.train(values.run_dir, FabirConfig(**PUBLISHED), settings)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
