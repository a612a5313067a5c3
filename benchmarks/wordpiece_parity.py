"""Compares word pieces in Python, in the graph, and in Hugging Face's `tokenizers`, with offsets.

    python benchmarks/wordpiece_parity.py --encoder=FOLDER --dataset=dev-v1.1.json --random_texts=100000

Random texts are of code points that both sides know alike. The other code points are counted and listed: `tokenizers`
has data of several Unicode versions, this package has one. It needs the package `tokenizers`.
"""

import random
import time
import unicodedata
from itertools import pairwise

import numpy as np
import tensorflow as tf
from absl import flags
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.text.unicode_tables import unicode_tables
from fabir_tf.pipelines.text.wordpiece_processor import WordPieceProcessor

flags.DEFINE_string("encoder", None, "Folder with tokenizer.json, or vocab.txt.")
flags.DEFINE_string("dataset", None, "SQuAD file whose texts are compared; none compares random texts alone.")
flags.DEFINE_integer("random_texts", 100_000, "Number of random texts.", lower_bound=0)
flags.DEFINE_integer("longest", 24, "Most characters of a random text.", lower_bound=1)
flags.DEFINE_integer("batch_size", 256, "Texts that the graph gets at once.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of the random texts.")

Pieces = list[tuple[str, int, int]]


class Sides:
    """The three tokenizers.

    Args:
        processor: the processor in Python.
    """

    def __init__(self, processor: WordPieceProcessor):
        self._processor = processor
        self._pieces = np.array(processor.vocabulary.pieces, object)
        cleaning = processor.cleaning
        # Special pieces are not added, so that they are plain text in a text.
        self._theirs = Tokenizer(models.WordPiece(vocab=processor.vocabulary.ids, unk_token="[UNK]"))
        self._theirs.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=cleaning.tokenize_chinese_chars,
            strip_accents=cleaning.strip_accents,
            lowercase=cleaning.do_lower_case,
        )
        self._theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        graph = processor.in_graph()
        self._graph = tf.function(graph.tokenize, [tf.TensorSpec([None], tf.string)], autograph=False)

    def python(self, texts: list[str]) -> list[Pieces]:
        """The pieces of each text in Python."""
        return [list(zip(*self._processor.tokenize_text(text), strict=True)) for text in texts]

    def hugging_face(self, texts: list[str]) -> list[Pieces]:
        """The pieces of each text in `tokenizers`."""
        return [
            [(piece, *offsets) for piece, offsets in zip(found.tokens, found.offsets, strict=True)]
            for found in self._theirs.encode_batch(texts)
        ]

    def graph(self, texts: list[str]) -> list[Pieces]:
        """The pieces of each text in the graph."""
        found: list[Pieces] = []
        for first in range(0, len(texts), flags.FLAGS.batch_size):
            tokens = self._graph(tf.constant(texts[first : first + flags.FLAGS.batch_size]))
            parts = self._pieces[tokens.ids.numpy()], tokens.starts.numpy().tolist(), tokens.ends.numpy().tolist()
            pieces = list(zip(*parts, strict=True))
            found += [pieces[start:end] for start, end in pairwise(tokens.row_splits.numpy())]
        return found


def differing(sides: Sides) -> list[int]:
    """The code points that Python and `tokenizers` read otherwise between two letters."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = [f"a{chr(code)}b" for code in codes]
    parts = zip(codes, sides.python(texts), sides.hugging_face(texts), strict=True)
    return [code for code, ours, theirs in parts if ours != theirs]


def random_texts(excluded: list[int]) -> list[str]:
    """Texts of known code points, half of them of the first 12,288."""
    unassigned = "Cn", "Cs"
    codes = [code for code in range(0x110000) if unicodedata.category(chr(code)) not in unassigned]
    codes = sorted(set(codes) - set(excluded))
    near = [code for code in codes if code < 0x3000]
    draw = random.Random(flags.FLAGS.seed)

    def character() -> str:
        return chr(draw.choice(near if draw.random() < 0.5 else codes)) if draw.random() < 0.7 else draw.choice("ab e")

    longest = flags.FLAGS.longest
    return ["".join(character() for _ in range(draw.randint(1, longest))) for _ in range(flags.FLAGS.random_texts)]


def compare(sides: Sides, name: str, texts: list[str]) -> None:
    """Prints how many texts differ, the first of them, and the time of each side."""
    found, seconds = [], []
    for side in (sides.python, sides.graph, sides.hugging_face):
        begin = time.perf_counter()
        found.append(side(texts))
        seconds.append(time.perf_counter() - begin)
    ours, graph, theirs = found
    for other, result in (("the graph", graph), ("tokenizers", theirs)):
        wrong = [text for text, left, right in zip(texts, ours, result, strict=True) if left != right]
        print(f"{name}: of {len(texts):,} texts {len(wrong):,} differ between Python and {other}", flush=True)
        for text in wrong[:5]:
            print(f"    {text!a}")
    print(f"{name}: Python {seconds[0]:.1f} s, graph {seconds[1]:.1f} s, tokenizers {seconds[2]:.1f} s", flush=True)


def main(values: flags.FlagValues) -> None:
    """Compares and prints."""
    processor = WordPieceProcessor.create({"encoder": values.encoder})
    sides = Sides(processor)
    print(f"{processor.cleaning}, Unicode {unicode_tables().version}")
    if values.dataset:
        data = read_squad(values.dataset)
        compare(sides, "dataset", [*data.passages, *(question.text for question in data.questions)])
    others = differing(sides)
    print(f"{len(others):,} code points are read otherwise: {' '.join(f'{code:X}' for code in others)}")
    compare(sides, "random texts", random_texts(others))


if __name__ == "__main__":
    cli.run_command(main, __doc__)
