"""One version of fabir_tf, to be measured: what against_commit.py runs for each tree, in a process of its own."""

from collections.abc import Callable

from both_layouts import open_layout
from common import spaced, timed

# Questions that are asked one by one.
SINGLE = 200


def version_in(
    tree: str, task: str, dataset: str, train_dataset: str, precision: str, batching: str
) -> Callable[[str], dict[str, float]]:
    """Prepares the version of a tree, and does the task once, which traces the model and compiles kernels.

    Args:
        tree: the checkout whose package is imported; the process must not have imported another one.
        task: "inference", "training" or "single".
        dataset, train_dataset: SQuAD JSON files, to answer and to train on.
        precision: the dtype policy.
        batching: the units that batches of training are drawn from.

    Returns:
        A function that takes the name of the task and measures it.
    """
    layout = open_layout(tree)
    if task == "training":
        work = layout.trainer(train_dataset, precision, batching)
    else:
        reader, tokenized = layout.load_reader(precision=precision), layout.load_questions(dataset)
        prepare = layout.predictor if task == "inference" else _one_by_one
        work = prepare(reader, tokenized)
    work()
    return lambda _: timed(work)


def _one_by_one(reader, tokenized) -> Callable[[], int]:
    """From text to answer, as in a notebook: some questions of the dataset, each by itself."""
    data = tokenized.data
    asked = spaced(data.questions, SINGLE)
    return lambda: len([reader.answer(question.text, data.passages[question.passage]) for question in asked])
