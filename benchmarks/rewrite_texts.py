"""Writes a SQuAD file as people may write it: in lower case, in capitals, without question marks, misspelt.

    python benchmarks/rewrite_texts.py --dataset=held.json --kind=misspelt --output=misspelt.json

How much a reader depends on such things is the difference of its scores on the two files. Answers stay where they are.
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
# Letters without the first and the last, whose change is seen at once.
_INNER = re.compile(r"(?<=[^\W\d_])[^\W\d_]{2,}(?=[^\W\d_])")


def lower(text: str) -> str:
    """In lower case, but for letters that would become two."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def misspelt(text: str) -> str:
    """Two neighbouring letters inside of the longest word exchanged, such as are not the same."""
    rng = random.Random(f"{SEED} {text}")
    for word in sorted(_INNER.finditer(text), key=lambda found: len(found[0]), reverse=True):
        places = [place for place in range(word.start(), word.end() - 1) if text[place] != text[place + 1]]
        if places:
            place = rng.choice(places)
            return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    return text


def as_it_is(text: str) -> str:
    """Unchanged."""
    return text


# What becomes of a passage, in which no letter may move, and of a question.
KINDS = {
    "lower_questions": (as_it_is, lower),
    "lower": (lower, lower),
    "capitals": (as_it_is, str.upper),
    "unmarked": (as_it_is, lambda question: question.rstrip("? ")),
    "misspelt": (as_it_is, misspelt),
}

flags.DEFINE_string("dataset", None, "SQuAD file.")
flags.DEFINE_enum("kind", None, list(KINDS), "How it is written.")
flags.DEFINE_string("output", None, "The file that is written.")


def rewrite(articles: list[dict], kind: str) -> None:
    """Changes passages, questions and answers of SQuAD's JSON."""
    of_passage, of_question = KINDS[kind]
    for passage in (passage for article in articles for passage in article["paragraphs"]):
        passage["context"] = of_passage(passage["context"])
        for question in passage["qas"]:
            question["question"] = of_question(question["question"])
            for answer in (*question["answers"], *question.get("plausible_answers", ())):
                answer["text"] = of_passage(answer["text"])


def main(values: flags.FlagValues) -> None:
    """Reads, rewrites and writes."""
    cli.validate_given(values, dataset="a SQuAD file", kind="one of " + ", ".join(KINDS), output="a file")
    cli.validate_other_file("output", values.output, {"dataset": values.dataset})
    # Tells of what is not as SQuAD has it; what is written is the file's own JSON.
    read_squad(values.dataset)
    content = read_json(values.dataset)
    rewrite(content["data"], values.kind)
    write_text(values.output, json.dumps(content, ensure_ascii=False))
    print(values.output)


if __name__ == "__main__":
    cli.run_command(main, __doc__)
