"""Makes a share of a SQuAD file's texts as rough as people type them: misspelled, or without punctuation.

    python benchmarks/roughen_texts.py --dataset=train.json --misspellings=misspellings.tsv --output=rough.json

A reader that learns from the result depends less on spelling and punctuation. A question is misspelled with a
misspelling from the file (tab-separated: misspelling, correct word) or, every second time and where the file has none,
with two neighboring letters of one of its longer words exchanged. A passage without punctuation has questions without
it, and answers that lose what they had of it. Ids stay; nothing is added.
"""

import json
import random
import re

from absl import flags
from punctuation import without_punctuation

from fabir_tf.commands import cli
from fabir_tf.pipelines.datasets.squad import check_offsets, read_squad
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import read_input, write_text
from fabir_tf.pipelines.json_files import read_json

flags.DEFINE_string("dataset", None, "SQuAD file to read.")
flags.DEFINE_string("misspellings", None, "File of misspellings and, behind a tab, their correct words.")
flags.DEFINE_string("output", None, "File to write.")
flags.DEFINE_float("misspelt", 0.08, "Share of the questions to misspell.", lower_bound=0, upper_bound=1)
flags.DEFINE_float("unpunctuated", 0.05, "Share of the passages without punctuation.", lower_bound=0, upper_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of the choice.")

_WORD = re.compile(r"[^\W\d_]{4,}")


class Misspeller:
    """Misspells one word of a text.

    Args:
        misspellings: by correct word, in lower case.
        rng: draws the word and what becomes of it.
    """

    def __init__(self, misspellings: dict[str, list[str]], rng: random.Random):
        self._misspellings, self._rng = misspellings, rng

    def __call__(self, text: str) -> str:
        """The text with one word misspelled; itself where no word has four letters."""
        words = list(_WORD.finditer(text))
        known = [word for word in words if word[0].lower() in self._misspellings]
        if not words:
            return text
        if known and self._rng.random() < 0.5:
            word = self._rng.choice(known)
            new = self._rng.choice(self._misspellings[word[0].lower()])
            new = new[:1].upper() + new[1:] if word[0][0].isupper() else new
        else:
            word = self._rng.choice(words)
            place = self._rng.randrange(1, len(word[0]) - 2)
            letters = list(word[0])
            letters[place : place + 2] = letters[place + 1], letters[place]
            new = "".join(letters)
        return text[: word.start()] + new + text[word.end() :]


def strip_punctuation(paragraph: dict) -> None:
    """Removes the punctuation of a passage, its questions and answers in place; a question whose answer is gone stays
    as long as another answer is left, and is dropped otherwise."""
    text, offsets = without_punctuation(paragraph["context"])
    paragraph["context"] = text
    left = []
    for question in paragraph["qas"]:
        question["question"] = without_punctuation(question["question"])[0]
        had = bool(question["answers"])
        for name in ("answers", "plausible_answers"):
            moved = [_moved(answer, text, offsets) for answer in question.get(name, ())]
            if name in question:
                question[name] = [answer for answer in moved if answer["text"]]
        if question["answers"] or not had:
            left.append(question)
    paragraph["qas"] = left


def _moved(answer: dict, text: str, offsets: list[int]) -> dict:
    start, end = (offsets[place] for place in (answer["answer_start"], answer["answer_start"] + len(answer["text"])))
    found = text[start:end]
    start += len(found) - len(found.lstrip())
    return answer | {"text": found.strip(), "answer_start": start}


def read_misspellings(path: str) -> dict[str, list[str]]:
    """Misspellings by correct word, in lower case.

    Raises:
        UserError: a line has no tab.
    """
    found: dict[str, list[str]] = {}
    text = read_input(path, "a file of misspellings").decode("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split("\t")
        if len(parts) < 2:
            raise UserError(f"{path}: line {number} has no tab, expected a misspelling, a tab and the correct word")
        found.setdefault(parts[1].lower(), []).append(parts[0])
    return found


def main(values: flags.FlagValues) -> None:
    """Reads the file, roughens its texts and writes the result."""
    cli.validate_given(values, dataset="a SQuAD file", misspellings="a file of misspellings", output="a file")
    sources = {name: values[name].value for name in ("dataset", "misspellings")}
    cli.validate_other_file("output", values.output, sources)
    check_offsets(read_squad(values.dataset))
    rng = random.Random(values.seed)
    misspell = Misspeller(read_misspellings(values.misspellings), rng)
    content = read_json(values.dataset)
    counts = {"misspelt questions": 0, "passages without punctuation": 0}
    for paragraph in (paragraph for article in content["data"] for paragraph in article["paragraphs"]):
        if rng.random() < values.unpunctuated:
            strip_punctuation(paragraph)
            counts["passages without punctuation"] += 1
        for question in paragraph["qas"]:
            if rng.random() < values.misspelt:
                question["question"] = misspell(question["question"])
                counts["misspelt questions"] += 1
    write_text(values.output, json.dumps(content, ensure_ascii=False))
    print(f"{values.output}: {', '.join(f'{count:,} {name}' for name, count in counts.items())}")


if __name__ == "__main__":
    cli.run_command(main, __doc__)
