"""How many questions per second our readers answer and train on, compared with DistilBERT and MiniLM.

    python benchmarks/rivals.py --dataset=dev-v1.1.json --json_file=rivals.json --picture=rivals.png

It needs the extra `rivals`. The rivals are Hugging Face's DistilBERT-base (6 layers, 768 features, 12 heads,
feed-forward width 3,072) and MiniLM-L6-H384 (6 layers, 384 features, 12 heads, feed-forward width 1,536) for question
answering in PyTorch. All weights are random, because speed does not depend on them. Everything else is equal, or favors
the rivals:

- All read the same questions, each in a process of its own with the same number of threads, in alternating turns.
- Batches hold questions of similar length. Their number of tokens suits each contender, and they are padded to the
  longest question only.
- The rivals use PyTorch's fused attention (sdpa) in inference_mode; their layers are as fast as
  torch.nn.TransformerEncoder's.
- A rival reads [CLS] question [SEP] passage [SEP], truncated to 512 tokens, with random ids, so its vocabulary is not
  needed. Its texts would have 1.1 to 1.3 times as many pieces as ours have words (in English prose), but
  --pieces_per_token is 1 by default.
- The rivals stop at the logits; our readers also decode the best spans.

Our readers encode a passage once for all of its questions; the rivals cannot. Training is forward pass, backward pass
and optimizer: ours in batches of 75 with Adam, the rivals' in batches of 32 with a fused AdamW and bfloat16 autocast.
"""

import contextlib
import importlib.util

import numpy as np
from absl import flags
from common import Contender, chosen, draw_bars, print_table, ratios, run, shown, spread, take_turns

TASKS = ("inference", "training")
RIVALS = ("distilbert", "minilm")
PRECISIONS = ("float32", "bfloat16")

flags.DEFINE_string("dataset", "sample", "The questions: a SQuAD JSON file or sample.")
flags.DEFINE_integer("questions", 1000, "About how many to answer, spread evenly over passage lengths.", lower_bound=1)
flags.DEFINE_integer("training_questions", 300, "About how many to train on, chosen in the same way.", lower_bound=1)
flags.DEFINE_list("tasks", list(TASKS), "What is measured.")
flags.DEFINE_list("readers", ["fabir"], "Our readers, by their names for --model; may be empty.")
flags.DEFINE_list("rivals", list(RIVALS), "The rivals; may be empty.")
flags.DEFINE_list("precisions", list(PRECISIONS), "Precisions of every contender.")
flags.DEFINE_integer("threads", 2, "Threads of every contender.", lower_bound=1)
flags.DEFINE_float("pieces_per_token", 1.0, "Word pieces of a rival per token of ours.", lower_bound=1.0)


def measure(values: flags.FlagValues) -> dict:
    """Runs the race."""
    from workload import READERS

    tasks, precisions = chosen(values, "tasks", TASKS), chosen(values, "precisions", PRECISIONS)
    rivals = chosen(values, "rivals", RIVALS, may_be_empty=True)
    readers = chosen(values, "readers", READERS, may_be_empty=bool(rivals))
    _validate_torch(rivals)
    describe = "{speed:,.1f} questions/s".format_map
    with contextlib.ExitStack() as stack:
        contenders = {
            name: stack.enter_context(Contender(*arguments))
            for name, arguments in _contenders(values, readers, rivals, precisions).items()
        }
        found = {task: take_turns(contenders, values.turns, task, describe=describe) for task in tasks}
    return {task: _report(task, turns, readers) for task, turns in found.items()}


def _validate_torch(rivals: list[str]) -> None:
    from fabir_tf.pipelines.errors import UserError

    missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    if rivals and missing:
        raise UserError(f'--rivals needs {" and ".join(missing)}: pip install "fabir_tf[rivals]", or leave it empty')


def _contenders(
    values: flags.FlagValues, readers: list[str], rivals: list[str], precisions: list[str]
) -> dict[tuple[str, str], tuple]:
    """The function and the arguments that make each contender, by its name and precision."""
    from workload import examples_of, load_questions

    tokenized = load_questions(values.dataset, values.questions)
    to_train_on = load_questions(values.dataset, values.training_questions)
    pieces, training_pieces = (_pieces(part, values.pieces_per_token) for part in (tokenized, to_train_on))
    # Our readers leave out what is too long to train on.
    lengths = (pieces, training_pieces[examples_of(to_train_on).examples.questions])
    contenders = {}
    for precision in precisions:
        for name in readers:
            contenders[name, precision] = (_ours, name, precision, values.threads, tokenized, to_train_on)
        for name in rivals:
            contenders[name, precision] = (_theirs, name, precision, values.threads, *lengths)
    return contenders


def _pieces(tokenized, pieces_per_token: float) -> np.ndarray:
    """Word pieces of each question with its passage, including [CLS] and both [SEP]."""
    texts = (tokenized.question_lengths, tokenized.passage_lengths[tokenized.question_passages])
    return sum(np.ceil(lengths * pieces_per_token).astype(np.int64) for lengths in texts) + 3


# Imported where they run, so that neither library's memory counts for the other.
def _ours(*arguments):
    from our_readers import our_reader

    return our_reader(*arguments)


def _theirs(*arguments):
    from torch_readers import torch_reader

    return torch_reader(*arguments)


def _report(task: str, turns: dict[tuple[str, str], list[dict]], readers: list[str]) -> dict:
    """Prints the table of a task and returns its rows."""
    rows = [
        {
            "contender": name,
            "precision": precision,
            "speed": spread(figures["speed"] for figures in of_one),
            "processor_ms": spread(figures["processor_ms"] for figures in of_one),
            "peak_mib": of_one[-1]["peak_mib"],
            "times_as_fast": {
                reader: ratios(
                    *([turn["speed"] for turn in turns[one]] for one in ((reader, precision), (name, precision)))
                )
                for reader in readers
                if reader != name
            },
            "turns": of_one,
        }
        for (name, precision), of_one in turns.items()
    ]
    header = ("", "precision", "questions/s", "ms of processor time a question", "peak MiB")
    print_table(
        f"{task}, {rows[0]['turns'][0]['questions']:,} questions",
        (*header, *(f"{reader} : it" for reader in readers)),
        [_cells(row, readers) for row in rows],
    )
    return rows


def _cells(row: dict, readers: list[str]) -> tuple[str, ...]:
    return (
        row["contender"],
        row["precision"],
        shown(row["speed"], ",.1f"),
        shown(row["processor_ms"], ",.1f"),
        f"{row['peak_mib']:,}",
        *(shown(row["times_as_fast"].get(reader), ".1f") for reader in readers),
    )


def draw(figure, found: dict) -> None:
    """Draws a panel for each task, with a bar for each contender."""
    figure.set_figheight(0.8 + sum(0.6 + 0.4 * len(rows) for rows in found.values()))
    for axes, (task, rows) in zip(figure.subplots(len(found), squeeze=False)[:, 0], found.items(), strict=True):
        names = [f"{row['contender']}, {row['precision']}" for row in rows]
        draw_bars(axes, names, [row["speed"] for row in rows], "questions/s")
        axes.set_title(task)


if __name__ == "__main__":
    run(__doc__, measure, draw)
