"""Rewrites a SQuAD file as users may type it: in lower case, in capitals, without question marks, misspelled.

    python benchmarks/rewrite_texts.py --dataset=held.json --kind=misspelt --output=misspelt.json

The difference of a reader's scores on the two files shows how much it depends on spelling. Answers keep their offsets.
"""

import json
import random
import re

from absl import flags

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import read_squad
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json

SEED = 1
# The inner letters of a word: changes of the first and the last letter are more conspicuous.
_INNER = re.compile(r"(?<=[^\W\d_])[^\W\d_]{2,}(?=[^\W\d_])")


def lower(text: str) -> str:
    """The text in lower case, except for letters that would become two."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def misspelt(text: str) -> str:
    """The text with two different neighboring letters inside its longest word exchanged."""
    rng = random.Random(f"{SEED} {text}")
    for word in sorted(_INNER.finditer(text), key=lambda found: len(found[0]), reverse=True):
        indices = [index for index in range(word.start(), word.end() - 1) if text[index] != text[index + 1]]
        if indices:
            index = rng.choice(indices)
            return text[:index] + text[index + 1] + text[index] + text[index + 2 :]
    return text


def unchanged(text: str) -> str:
    """The text itself."""
    return text


# The functions for passages, which must keep all offsets, and for questions.
KINDS = {
    "lower_questions": (unchanged, lower),
    "lower": (lower, lower),
    "capitals": (unchanged, str.upper),
    "unmarked": (unchanged, lambda question: question.rstrip("? ")),
    "misspelt": (unchanged, misspelt),
}

flags.DEFINE_string("dataset", None, "SQuAD file to read.")
flags.DEFINE_enum("kind", None, list(KINDS), "How texts are rewritten.")
flags.DEFINE_string("output", None, "File to write.")


def rewrite(articles: list[dict], kind: str) -> None:
    """Rewrites the passages, questions and answers of SQuAD's JSON in place."""
    passage_rule, question_rule = KINDS[kind]
    for passage in (passage for article in articles for passage in article["paragraphs"]):
        passage["context"] = passage_rule(passage["context"])
        for question in passage["qas"]:
            question["question"] = question_rule(question["question"])
            for answer in (*question["answers"], *question.get("plausible_answers", ())):
                answer["text"] = passage_rule(answer["text"])


def main(values: flags.FlagValues) -> None:
    """Reads the file, rewrites its texts and writes the result."""
    cli.validate_given(values, dataset="a SQuAD file", kind="one of " + ", ".join(KINDS), output="a file")
    cli.validate_other_file("output", values.output, {"dataset": values.dataset})
    # Validates the file; the output is made from its own JSON, so that unknown fields stay.
    read_squad(values.dataset)
    content = read_json(values.dataset)
    rewrite(content["data"], values.kind)
    write_text(values.output, json.dumps(content, ensure_ascii=False))
    print(values.output)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
