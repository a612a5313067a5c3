"""Fuzzes one parser of tests/fuzzing.py, or text -> answer, led by the lines that each input runs.

    pip install -e ".[test]" atheris
    python tests/atheris_fuzzing.py records -max_total_time=60
    python tests/atheris_fuzzing.py answer -max_total_time=60

What is neither a result nor a UserError ends it, and the input stays in a file beside it. Atheris is a package of its
own, which has no wheels for every Python; tests/test_fuzzing.py needs only hypothesis.
"""

import contextlib
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris
import before_tensorflow  # noqa: F401

with atheris.instrument_imports(include=["fabir_tf"]):
    from fuzzing import PARSERS
    from tiny import ARTICLES, make_reader, squad_data

    from fabir_tf.pipelines.errors import UserError

ANSWER = "answer"


def main() -> None:
    """Fuzzes until a time or a number of runs is over, which the other arguments set."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in (*PARSERS, ANSWER):
        sys.exit(f"found {name or 'no name'}, expected one of {', '.join((*PARSERS, ANSWER))}")
    with tempfile.TemporaryDirectory() as folder:
        atheris.Setup(sys.argv, _answered() if name == ANSWER else _parsed(name, Path(folder)))
        atheris.Fuzz()


def _parsed(name: str, folder: Path) -> Callable[[bytes], None]:
    parser = PARSERS[name]
    place = folder / f"valid{parser.ending}"
    if parser.file:
        place.mkdir()
    parser.make(place)
    valid = parser.path(place).read_bytes()

    def run(content: bytes) -> None:
        parser.path(place).write_bytes(parser.inside(valid, content) if parser.inside else content)
        with warnings.catch_warnings(), contextlib.suppress(UserError):
            warnings.simplefilter("ignore")
            parser.read(place)

    return run


def _answered() -> Callable[[bytes], None]:
    words = sorted({word.lower() for text in squad_data(ARTICLES).passages for word in text.split()})
    reader = make_reader(words, max_passage=24)

    def run(content: bytes) -> None:
        provider = atheris.FuzzedDataProvider(content)
        question, passage = provider.ConsumeUnicode(80), provider.ConsumeUnicode(400)
        answer = reader.answer(question, passage)
        assert answer.text == passage[answer.start : answer.end]

    return run


if __name__ == "__main__":
    main()
