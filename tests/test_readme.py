"""README.md is true: its tables of flags, the flags and paths that it names, and what its lines and programs do.

`python tests/test_readme.py` writes the tables of flags into README.md.
"""

import contextlib
import dataclasses
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COMMANDS, CommandLines
from tiny import ARTICLES, DEV_ARTICLES, write_squad

from fabir_tf.configuration import Config
from fabir_tf.models import MODELS
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.training.training_config import TrainingConfig

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CARD = ROOT / "fabir_tf" / "reading" / "pretrained" / "fabir-base" / "README.md"
PAGES = (README, ROOT / "docs" / "README.md", CARD)

# Lines that the test does not run as they are, and why.
ONLY_PARSED = {
    "fabir-compare": "trains six readers; test_comparison.py runs small ones",
    "fabir-reproduce": "trains up to twelve readers; test_reproduce.py runs small ones",
}
NOT_RUN = {
    "python3": "makes an environment from a package index",
    ".venv/bin/pip": "needs a package index",
    ".venv/bin/python": "the tests themselves",
    "jupyter": "test_notebook.py runs the notebook",
    "docker": "needs Docker",
    "python": "needs the server; test_serving.py runs the client",
}
# Folders and endings of the repository's own files.
PATH = re.compile(
    r"(?<![\w/.-])(?:(?:benchmarks|configs|docs|export|fabir_tf|layers|notebooks|pipelines|tests)/[\w./-]*[\w/]"
    r"|[\w.-]+\.flags|WORKSPACE\.md|CHANGELOG\.md|LICENSE)"
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
# Flags of programs that are not ours.
FOREIGN = {"no-deps", "dist"}


# === Tables of flags ===


def own_fields(config: type[Config]) -> list[dataclasses.Field]:
    """The fields that have a flag."""
    return [field for field in dataclasses.fields(config) if not field.metadata["derived"]]


def default_text(field: dataclasses.Field) -> str:
    """The default as it is written in a flag."""
    if field.default is None or isinstance(field.default, bool):
        return str(field.default).lower()
    return str(field.default) or "empty"


def row(field: dataclasses.Field) -> str:
    choices = field.metadata["choices"]
    if isinstance(choices, dict):
        # A registry may hold classes of other tests.
        choices = [name for name, cls in choices.items() if cls.__module__.startswith("fabir_tf.")]
    text = field.metadata["help"] + (f" ({', '.join(choices)})" if choices else "")
    return f"| `--{field.name}` | {default_text(field)} | {text} |"


def flag_table(config: type[Config]) -> str:
    """The table of a configuration's flags."""
    return "\n".join(["| flag | default | |", "| --- | --- | --- |", *map(row, own_fields(config))])


def table_of_others() -> str:
    """The flags of the other readers that FABIR lacks, or has with another default."""
    lines = ["| `--model` | flags of its own, and other defaults |", "| --- | --- |"]
    of_fabir = {field.name: field.default for field in own_fields(FabirConfig)}
    for name, spec in MODELS.items():
        if spec.config.__module__.startswith("fabir_tf."):
            fields = [field for field in own_fields(spec.config) if of_fabir.get(field.name) != field.default]
            flags = [f"`--{field.name}` {default_text(field)} ({field.metadata['help']})" for field in fields]
            lines += [f"| `{name}` | {'; '.join(flags)} |"] if flags else []
    return "\n".join(lines)


def with_tables(text: str) -> str:
    """A README with the tables as they must be; each follows the paragraph that ends in a given way."""
    tables = {
        "`TrainingConfig`:": flag_table(TrainingConfig),
        "`FabirConfig`:": flag_table(FabirConfig),
        "The other readers, which lack those of FABIR that have no meaning for them:": table_of_others(),
    }
    for end, table in tables.items():
        before, found, after = text.partition(f"{end}\n\n")
        assert found, end
        text = before + found + table + "\n" + re.sub(r"\A(?:\|.*\n)*", "", after)
    return text


def test_the_tables_of_flags_are_those_of_the_configurations():
    text = README.read_text(encoding="utf-8")
    assert text == with_tables(text), "python tests/test_readme.py writes the tables"


# === Names ===


def command_lines(text: str) -> list[list[str]]:
    """All commands of a shell line, each as its words without environment variables."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&")
    lexer.whitespace_split = True
    found = [[]]
    for word in lexer:
        if set(word) <= set("|&"):
            found.append([])
        elif found[-1] or not re.match(r"[A-Z_]+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def shell_lines(page: Path) -> list[str]:
    """The lines of the shell blocks of a page, continued ones joined."""
    blocks = [block for language, block in FENCE.findall(page.read_text(encoding="utf-8")) if language == "bash"]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip()]


def commands_named_on(page: Path) -> list[list[str]]:
    """Every command line with flags that a page shows, in blocks or within the text."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    inline = [code for code in CODE.findall(text) if re.match(r"(fabir-|python |[A-Z_]+=\S+ \w)", code) and " " in code]
    return [words for line in shell_lines(page) + inline for words in command_lines(line)]


def flags_of(words: list[str]) -> list[str]:
    """The names of the flags in a command line."""
    return [word[2:].partition("=")[0] for word in words if word.startswith("--")]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Runs command lines in a folder with the repository's flag files, and stand-ins for files that users have."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("base.flags", "quickstart.flags", "configs", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    write_squad(folder / "train-v1.1.json", ARTICLES)
    for name in ("dev-v1.1.json", "held-out.json"):
        write_squad(folder / name, DEV_ARTICLES)
    answers = {
        f"{title}-{number}": text for title, _, questions in DEV_ARTICLES for number, (_, text) in enumerate(questions)
    }
    (folder / "bidaf.json").write_text(json.dumps(answers))
    lines = [{"id": name, "answer": text, "probability": 0.5} for name, text in answers.items()]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = sorted({word for _, passage, _ in ARTICLES for word in passage.lower().split()})
    vectors = [f"{word} {' '.join(str((7 * i + j) % 11 / 10) for j in range(100))}" for i, word in enumerate(words)]
    (folder / "glove.6B.100d.txt").write_text("\n".join(vectors) + "\n")
    command_lines = CommandLines(folder)
    yield command_lines
    command_lines.close()


@pytest.fixture(scope="module")
def flags(session) -> dict[str, set[str]]:
    """The flags of every command, with the negated ones of booleans."""
    found = {}
    for command in COMMANDS:
        text = session(command, "--helpfull").stdout
        names = re.findall(r"^ +(?:-\w,)?--(\[no\])?(\w+):", text, re.MULTILINE)
        found[command] = {prefix + name for no, name in names for prefix in ("", "no" if no else "")}
        assert "flagfile" in found[command] and len(found[command]) > 30, text
    return found


def benchmark_flags(script: Path) -> set[str]:
    """The flags that a benchmark defines, without running it."""
    text = script.read_text(encoding="utf-8") + (ROOT / "benchmarks" / "common.py").read_text(encoding="utf-8")
    return set(re.findall(r"DEFINE_\w+\(\s*\"(\w+)\"", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_have_flags_that_the_commands_define(page, flags):
    checked = 0
    for words in commands_named_on(page):
        program = Path(words[0]).name
        if program.startswith("fabir-"):
            known = flags[program.removeprefix("fabir-")]
        elif words[0] == "python" and words[1].startswith("benchmarks/"):
            known = benchmark_flags(ROOT / words[1])
        else:
            continue
        assert set(flags_of(words)) <= known, words
        checked += 1
    assert checked >= 2


def test_every_flag_that_the_readme_names_exists(flags):
    known = FOREIGN.union(*flags.values(), *map(benchmark_flags, (ROOT / "benchmarks").glob("*.py")))
    named = set(re.findall(r"(?<![\w-])--(\w[\w-]*)", README.read_text(encoding="utf-8")))
    assert len(named) > 100
    assert named - known == set()


def test_every_command_takes_what_the_readme_says_of_all(flags):
    for command, names in flags.items():
        assert "import" in names, command
        is_reading = command in ("evaluate", "predict", "export", "analyze", "teach")
        assert not is_reading or {"max_passage", "max_answer", "precision"} <= names, command
        assert command == "predict" or {"cache_dir", "tfds_data_dir", "tfds_manual_dir"} <= names, command


def test_the_readme_names_every_flag_of_every_command(flags):
    text = README.read_text(encoding="utf-8")
    own = set().union(*(names - foreign_flags(flags) for names in flags.values()))
    assert {name for name in own if f"--{name}" not in text and not name.startswith("no")} == set()


def foreign_flags(flags: dict[str, set[str]]) -> set[str]:
    """The flags that come with Abseil and other libraries, which all commands share."""
    return set.intersection(*flags.values()) - {"import", "output"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_and_link_exists(page):
    text = page.read_text(encoding="utf-8")
    links = LINK.findall(text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    paths = PATH.findall(LINK.sub("", text))
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert links or paths


def test_the_counts_of_the_sample_are_right():
    from fabir_tf.pipelines.datasets.sources import load_dataset

    parts = [load_dataset("sample", split) for split in ("train", "dev")]
    unanswerable = sum(data.unanswerable for data in parts)
    answerable = sum(len(data.questions) for data in parts) - unanswerable
    assert f"({answerable:,} answerable and {unanswerable:,} unanswerable questions)" in one_line(README)


def one_line(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


# === Blocks ===


def run_line(session: CommandLines, line: str) -> None:
    """Runs the commands of a shell line that can be run here, training without epochs."""
    stdin = ""
    for words in command_lines(line.partition("  #")[0]):
        program, arguments = Path(words[0]).name, words[1:]
        if program == "echo":
            (stdin,) = arguments
        elif program.startswith("fabir-"):
            _run_command(session, line, program.removeprefix("fabir-"), arguments, stdin)
        else:
            assert words[0] in NOT_RUN, f"{line}: run it, or say why not in NOT_RUN"


def _run_command(session: CommandLines, line: str, command: str, arguments: list[str], stdin: str) -> None:
    if f"fabir-{command}" in ONLY_PARSED:
        # --help stops the command after its flags are read.
        done = session(command, *arguments, "--help")
        assert done.status == 1 and "--[no]deterministic:" in done.stdout, (line, done)
        return
    if command in ("train", "prepare"):
        is_given = any(word.startswith(("--dataset=", "--prepared=")) for word in arguments)
        data = [] if is_given else ["--dataset=train-v1.1.json", "--eval_dataset=dev-v1.1.json"]
        arguments = [*arguments, *data, "--epochs=0"]
    if command != "predict":
        arguments = [*arguments, "--cache_dir="]
    if "KERAS_BACKEND=jax" in line:
        _run_on_jax(session.folder, command, arguments)
        return
    done = session(command, *arguments, stdin=stdin)
    assert done.status == 0, (line, done)
    if command == "predict":
        fields = ["answer", "start", "end", "probability", "no_answer_probability", "is_answer", "n_best"]
        assert all(list(json.loads(text)) == ["id", *fields] for text in done.stdout.splitlines()), (line, done)


def _run_on_jax(folder: Path, command: str, arguments: list[str]) -> None:
    environment = os.environ | {"KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    line = [sys.executable, "-m", f"fabir_tf.commands.{command}", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


def run_program(program: str) -> str:
    """Runs a Python block, and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(README), "exec"), {"__name__": "readme"})
    return printed.getvalue()


@pytest.mark.slow
def test_the_readme_runs_from_top_to_bottom(session, monkeypatch):
    """Each block may use what the blocks before it wrote."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e .[test]")
    pytest.importorskip("jax", reason="needs JAX: pip install -e .[test]")
    monkeypatch.chdir(session.folder)
    printed = []
    for language, block in FENCE.findall(README.read_text(encoding="utf-8")):
        if language == "python":
            printed.append(run_program(block))
        else:
            assert language == "bash"
            for line in filter(str.strip, block.splitlines()):
                run_line(session, line)
    using, serving = printed
    assert using.startswith("Anna Keld 30 39 ") and "[True, True, False]" in using
    assert "NoAns_f1" in using and "processing_layer_3/cross_attention" in using and "epoch 1/1:" in using
    answer, probability, is_answer = serving.rsplit(maxsplit=2)
    assert (answer, is_answer) == ("Anna Keld", "True") and 0 < float(probability) <= 1
    written = ("analysis/report.html", "analysis/question.html", "my-reader/config.json", "exported/small/1")
    assert [name for name in written if not (session.folder / name).exists()] == []


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
