"""Makes questions that their passage does not answer, to train a reader that says so, out of answerable ones.

    fabir-negatives --dataset=train.json --output_file=negatives.json
    fabir-negatives --dataset=train.json --output_file=both.jsonl.gz --keep_answerable --set_aside=dev.json

There are three kinds, and a question may become one of each: "article" asks it about another passage of its article,
"sentence" takes the sentences with the answer out of its passage, and "exchange" exchanges a number, a date or a name
in it. The kind stands behind the id and is the reason of the new question. Train on the file together with the data
that it is made of: fabir-train --null_head --set_aside --dataset=train.json,negatives.json. Without --set_aside, a
question may be scored whose negative was trained on.
"""

if __name__ == "__main__":
    from fabir_tf.commands import entry

    # Ends the process, before anything else is imported.
    entry.run("negatives")

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.counted import counted
from fabir_tf.pipelines.datasets.formats import validate_ending, write_questions
from fabir_tf.pipelines.datasets.negative_kinds import KINDS
from fabir_tf.pipelines.datasets.negatives import make_negatives
from fabir_tf.pipelines.datasets.set_aside import set_aside
from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import SquadData, check_offsets
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_errors, named_files, validate_writable


def define_flags() -> None:
    """Flags of the command."""
    cli.import_modules()
    text = "Questions with answers: files, TFDS names or sample; several, separated by commas, are joined."
    flags.DEFINE_string("dataset", None, text)
    flags.DEFINE_string("output_file", None, "File to write; its ending names the format, as in fabir-convert.")
    flags.DEFINE_list("kinds", list(KINDS), "Kinds of questions to make, comma-separated.")
    text = "Number of questions of each kind, as a share of the answerable ones; fewer where fewer are possible."
    flags.DEFINE_float("share", 0.3, text, lower_bound=0.0, upper_bound=1.0)
    flags.DEFINE_integer("seed", 1, "Seed of what is left to chance.", lower_bound=0)
    text = "Data that is scored, as --dataset: nothing is made of questions whose article or text also occurs in it."
    flags.DEFINE_string("set_aside", None, text)
    flags.DEFINE_bool("keep_answerable", False, "Also write the questions of --dataset.")
    cli.define_tfds_flags()


def main(values: flags.FlagValues) -> None:
    """Reads the questions, makes others of them and writes those."""
    cli.validate_given(values, dataset="the questions to make others of", output_file="the file to write")
    kinds = _kinds(values)
    output = values.output_file
    validate_ending(output, "output_file")
    for flag in ("dataset", "set_aside"):
        for name in _names(values[flag].value):
            cli.validate_other_file("output_file", output, {flag: name})
    validate_writable(output)
    data = _load(values, values.dataset, "train", "dataset")
    check_offsets(data)
    # One by one, because two of them may have the same questions.
    for name in _names(values.set_aside):
        data, left_out = set_aside(data, _load(values, name, "dev", "set_aside"), "set_aside")
        _say(f"{len(left_out):,} questions are set aside, whose article or text is in {name}")
    negatives, counts = make_negatives(data, kinds, values.share, values.seed, values.keep_answerable)
    write_questions(negatives, output)
    for count in counts:
        _say(count.summary())
    questions, passages = counted(len(negatives.questions), "question"), counted(len(negatives.passages), "passage")
    _say(f"{output}: {questions} about {passages}")


def _kinds(values: flags.FlagValues) -> list[str]:
    kinds = list(dict.fromkeys(values.kinds))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        found = repr(unknown[0]) if unknown else "none"
        raise UserError(f"--kinds={','.join(kinds)}: found {found}, expected some of {', '.join(KINDS)}")
    if not 0 < values.share <= 1:
        raise UserError(f"--share={values.share}: expected more than 0 and at most 1")
    return kinds


def _names(value: str | None) -> list[str]:
    return named_files(value) if value else []


def _load(values: flags.FlagValues, name: str, split: str, flag: str) -> SquadData:
    return load_dataset(
        name,
        split,
        tfds_data_dir=values.tfds_data_dir,
        tfds_manual_dir=values.tfds_manual_dir,
        flag=f"--{flag}",
        log=cli.to_stderr,
    )


def _say(line: str) -> None:
    with named_errors("standard output"):
        print(line, flush=True)


def run() -> None:
    """Entry point of `fabir-negatives`."""
    define_flags()
    cli.run_command(main, __doc__)
