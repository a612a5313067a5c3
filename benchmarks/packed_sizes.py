"""Draws what a packed reader weighs and scores by the number of words that it keeps.

    python benchmarks/packed_sizes.py --dataset=sample --picture=docs/pictures/packed_sizes.png

Needs the extra `plot`.
"""

import tempfile
from pathlib import Path

from absl import app, flags

flags.DEFINE_string("run_dir", "fabir-base", "The reader: a run, a packed reader, or the name of one of the package's.")
flags.DEFINE_string("dataset", "sample", "Questions to score it on; of the sample, those of its dev split.")
flags.DEFINE_list("words", ["1000", "3000", "10000", "30000", "150000"], "Numbers of words to keep.")
flags.DEFINE_string("picture", "", "The picture to write.")


def main(_) -> None:
    points = []
    for words in map(int, flags.FLAGS.words):
        megabytes, scores = measure(words)
        points.append((words, megabytes, scores["f1"]))
        print(f"{words:,} words: {megabytes:.1f} MB, EM {scores['exact_match']:.2f}, F1 {scores['f1']:.2f}", flush=True)
    if flags.FLAGS.picture:
        draw(points, flags.FLAGS.picture)


def measure(words: int) -> tuple[float, dict]:
    """Packs the reader with some words, and scores it on the answerable questions.

    Args:
        words: the number of words that it keeps.

    Returns:
        The size of its folder in MB, and its scores.
    """
    import dataclasses

    import fabir_tf

    data = fabir_tf.load_dataset(flags.FLAGS.dataset, "dev")
    answerable = tuple(question for question in data.questions if question.answers)
    data = dataclasses.replace(data, questions=answerable)
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "packed"
        fabir_tf.pack(flags.FLAGS.run_dir, packed, max_words=words)
        size = sum(path.stat().st_size for path in packed.rglob("*") if path.is_file())
        return size / 1e6, fabir_tf.evaluate(fabir_tf.Reader.load(packed), data)


def draw(points: list[tuple[int, float, float]], picture: str) -> None:
    """Writes the picture; each point is words, MB and F1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    _, sizes, scores = zip(*points, strict=True)
    axes.plot(sizes, scores, "o-", color="teal")
    for words, size, score in points:
        axes.annotate(f"{words:,} words", (size, score), textcoords="offset points", xytext=(6, -14))
    axes.set(xlabel="folder, MB", ylabel=f"F1 on {flags.FLAGS.dataset}, percent")
    axes.set_xlim(0, 1.4 * max(sizes))
    axes.set_ylim(min(scores) - 5, max(scores) + 3)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)
    print(f"wrote {picture}")


if __name__ == "__main__":
    app.run(main)
