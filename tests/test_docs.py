"""README and documentation are true: their flags, paths and links exist, their blocks run and print what they show.

In README.md, CONTRIBUTING.md and docs/, the `python` blocks of a page run one after another; one with
`title="file.py"` is written to that file instead. The lines of `bash` blocks run, too, but what they train is small and
trained for no epochs. A `text` block after either is what it prints, where "..." stands for anything. A `console` block
shows a longer run and is not compared. The title of a picture is the command that made it.
"""

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from command_line import COMMANDS, CommandLines
from tiny import ARTICLES, DEV_ARTICLES, write_squad
from wordpiece_folders import write_bert

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CARDS = sorted((ROOT / "fabir_tf" / "reading" / "pretrained").glob("*/README.md"))
DOCS = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "fabir-base")
RUNNING = (README, ROOT / "CONTRIBUTING.md", *DOCS)
PAGES = (*RUNNING, ROOT / "WORKSPACE.md", *CARDS)

# Lines that the test does not run as they are, and why.
ONLY_PARSED = {
    "fabir-compare": "trains several readers; test_comparison.py runs small ones",
    "fabir-beam": "needs apache-beam, in an environment of its own; test_beam.py runs it",
    "fabir-serve": "runs until it is told to end; test_serve.py runs it",
    "fabir-reproduce": "trains up to twelve readers; test_reproduce.py runs small ones",
}
NOT_RUN = {
    ".": "for a shell",
    "curl": "needs the server; test_serve.py and test_serving.py ask it",
    "docker": "needs Docker",
    "jupyter": "test_notebook.py runs the notebook",
    "mkdocs": "CI builds the documentation",
    "pip": "needs a package index",
    "python": "a benchmark, which takes long, or the client of a server; their own tests run them",
    "python3": "makes an environment from a package index",
    ".venv/bin/pip": "needs a package index",
    ".venv/bin/python": "the tests themselves",
    ".venv/bin/ruff": "CI runs it",
}
# What the blocks of a page import beside the package's own requirements.
PACKAGES = {"docs/guides/edge.md": ("tf2onnx", "onnxruntime")}
# Commands that read no dataset of TFDS and keep no tokens.
WITHOUT_DATASETS = ("predict", "search", "index", "convert", "serve", "beam")
# Folders and endings of the repository's own files.
PATH = re.compile(
    r"(?<![\w/.-])(?:(?:benchmarks|configs|docs|export|fabir_tf|layers|notebooks|pipelines|tests)/[\w./-]*[\w/]"
    r"|[\w.-]+\.flags|WORKSPACE\.md|CHANGELOG\.md|CONTRIBUTING\.md|LICENSE)"
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)\s]*)?(?: \"[^\"]*\")?\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\((\S+?)(?: \"([^\"]*)\")?\)")
FENCE = re.compile(r"^```(\w+)(?: title=\"([\w./-]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
# Flags of programs that are not ours.
FOREIGN = {"server", "check", "dist", "full", "long", "no-deps", "logdir", "strict"} | {
    *("runner", "flink_master", "environment_type", "environment_config", "job_endpoint", "project", "region"),
    *("temp_location", "sdk_container_image"),
}
# Of the readers that the lines train, unless they say otherwise.
SMALL_MODEL = ("--num_layers=1", "--d_model=20", "--num_heads=2", "--reduction_hidden_dim=20", "--hidden_dim=20")
# Pages of one idea each; the page of flags is generated.
MOST_WORDS = 1500


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
    blocks = [block for language, _, block in FENCE.findall(page.read_text(encoding="utf-8")) if language == "bash"]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def commands_named_on(page: Path) -> list[list[str]]:
    """Every command line with flags that a page shows, in blocks or within the text."""
    text = page.read_text(encoding="utf-8")
    made_by = [title for _, _, title in PICTURE.findall(text)]
    text = FENCE.sub("", text)
    inline = [code for code in CODE.findall(text) if re.match(r"(fabir-|python |[A-Z_]+=\S+ \w)", code) and " " in code]
    return [words for line in shell_lines(page) + inline + made_by for words in command_lines(line)]


def test_every_fault_names_a_test_that_exists():
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    named = [re.search(r"\| (?:`([\w/]+\.py)::(\w+)`|does not apply|test|---) \|$", row) for row in rows]
    assert all(named), [row for row, found in zip(rows, named, strict=True) if not found]
    tests = [(found[1], found[2]) for found in named if found[1]]
    assert len(tests) > 25
    for file, name in tests:
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), (file, name)


def flags_of(words: list[str]) -> list[str]:
    """The names of the flags in a command line."""
    return [word[2:].partition("=")[0] for word in words if word.startswith("--")]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Runs command lines in a folder of its own."""
    command_lines = CommandLines(tmp_path_factory.mktemp("docs"))
    yield command_lines
    command_lines.close()


@pytest.fixture
def folder(session):
    """An empty folder to work in, with the repository's flag files and stand-ins for files that users have."""
    with tempfile.TemporaryDirectory(dir=session.folder) as name:
        page_folder = Path(name)
        fill(page_folder)
        session.folder, before = page_folder, session.folder
        yield page_folder
        session.folder = before


def fill(folder: Path) -> None:
    """Puts what the pages' lines need into a folder."""
    for name in ("base.flags", "quickstart.flags", "configs", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    write_squad(folder / "train-v1.1.json", ARTICLES)
    for name in ("dev-v1.1.json", "held-out.json"):
        write_squad(folder / name, DEV_ARTICLES)
    for name, has_head in (("bert-base-uncased", False), ("bert-squad2", True)):
        write_bert(folder / name, head=has_head, positions=512)
    answers = {
        f"{title}-{number}": text for title, _, questions in DEV_ARTICLES for number, (_, text) in enumerate(questions)
    }
    (folder / "bidaf.json").write_text(json.dumps(answers))
    lines = [{"id": name, "answer": text, "probability": 0.5} for name, text in answers.items()]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = sorted({word for _, passage, _ in ARTICLES for word in passage.lower().split()})
    vectors = [f"{word} {' '.join(str((7 * i + j) % 11 / 10) for j in range(100))}" for i, word in enumerate(words)]
    (folder / "glove.6B.100d.txt").write_text("\n".join(vectors) + "\n")


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


def documentation_module(name: str):
    """A module of docs/, by its name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def flags_page() -> str:
    return documentation_module("flag_tables").flags_page()


def benchmark_flags(script: Path) -> set[str]:
    """The flags that a benchmark defines, without running it."""
    text = script.read_text(encoding="utf-8") + (ROOT / "benchmarks" / "common.py").read_text(encoding="utf-8")
    return set(re.findall(r"DEFINE_\w+\(\s*\"(\w+)\"", text))


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_command_lines_have_flags_that_the_commands_define(page, flags):
    for words in commands_named_on(page):
        program = Path(words[0]).name
        if program.startswith("fabir-"):
            known = flags[program.removeprefix("fabir-")]
        elif words[0] == "python" and words[1].startswith("benchmarks/"):
            known = benchmark_flags(ROOT / words[1])
        else:
            continue
        assert set(flags_of(words)) <= known, words


def test_every_flag_that_a_page_names_exists(flags, flags_page):
    known = FOREIGN.union(*flags.values(), *map(benchmark_flags, (ROOT / "benchmarks").glob("*.py")))
    for page, text in {"flags.md": flags_page, **{page_name(page): read(page) for page in RUNNING}}.items():
        named = set(re.findall(r"(?<![\w-])--(\w[\w-]*)(?![\w*]|-\*)", text))
        assert named - known == set(), page


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_every_command_takes_what_the_page_of_flags_says_of_all(flags):
    for command, names in flags.items():
        assert "import" in names, command
        is_reading = command in ("evaluate", "predict", "search", "export", "analyze", "teach")
        assert not is_reading or {"max_passage", "max_answer", "precision"} <= names, command
        assert command in WITHOUT_DATASETS or {"tfds_data_dir", "tfds_manual_dir"} <= names, command
        assert command in (*WITHOUT_DATASETS, "negatives") or "cache_dir" in names, command


def test_the_page_of_flags_names_every_flag_of_every_command(flags, flags_page):
    own = set().union(*(names - foreign_flags(flags) for names in flags.values()))
    assert {name for name in own if f"--{name}" not in flags_page and not name.startswith("no")} == set()
    assert flags_page.count("| `--epochs` 54 | Epochs to train |") == 1
    assert "| `--num_layers` 3 | " in flags_page and "`bidaf-bologna`" in flags_page


def foreign_flags(flags: dict[str, set[str]]) -> set[str]:
    """The flags that come with Abseil and other libraries, which all commands share."""
    return set.intersection(*flags.values()) - {"import", "output"}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_path_and_link_exists(page):
    text = read(page)
    generated = {ROOT / "docs" / "flags.md"}
    links = LINK.findall(text)
    assert [
        link for link in links if not (page.parent / link).exists() and (page.parent / link).resolve() not in generated
    ] == []
    paths = PATH.findall(LINK.sub("", text))
    # A page may name the file that its reader writes.
    written = {title for _, title, _ in FENCE.findall(text)}
    assert [path for path in paths if not (ROOT / path).exists() and path not in written] == []


@pytest.mark.parametrize("page", RUNNING, ids=page_name)
def test_every_picture_names_the_command_that_made_it(page):
    for text, path, title in PICTURE.findall(read(page)):
        assert text and title, path
        words = shlex.split(title)
        assert words[0].removeprefix("fabir-") in COMMANDS or (words[0] == "python" and (ROOT / words[1]).is_file()), (
            title
        )


@pytest.mark.parametrize("page", RUNNING, ids=page_name)
def test_a_page_is_read_in_one_go(page):
    text = read(page)
    assert len(text.split()) <= MOST_WORDS
    if page == README:
        assert text.count("\n") <= 130


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = sorted(re.findall(r"[\w./-]+\.md", navigation))
    pages = {str(page.relative_to(ROOT / "docs")) for page in DOCS} - {"README.md"}
    assert named == sorted({*pages, "flags.md"})


# === Blocks ===


def run_line(session: CommandLines, line: str) -> str:
    """Runs the commands of a shell line that can be run here, training without epochs; returns what they print."""
    stdin = printed = ""
    line = line.partition("  #")[0]
    if line.startswith("#"):
        return ""
    for words in command_lines(line):
        program, arguments = Path(words[0]).name, words[1:]
        if program == "echo":
            (stdin,) = arguments
        elif program.startswith("fabir-"):
            printed += _run_command(session, line, program.removeprefix("fabir-"), arguments, stdin)
        else:
            assert words[0] in NOT_RUN, f"{line}: run it, or say why not in NOT_RUN"
    return printed


def _run_command(session: CommandLines, line: str, command: str, arguments: list[str], stdin: str) -> str:
    """Runs one of our commands, with the least training, and returns what it prints."""
    if f"fabir-{command}" in ONLY_PARSED:
        # --help stops the command after its flags are read.
        done = session(command, *arguments, "--help")
        assert done.status == 0 and "\n  --import:" in done.stdout, (line, done)
        return ""
    if command in ("train", "prepare", "teach") and "--null_head" not in arguments:
        arguments = on_less_data(command, arguments)
    if command in ("train", "prepare"):
        is_given = any(word.startswith(("--dataset=", "--prepared=")) for word in arguments)
        data = [] if is_given else ["--dataset=train-v1.1.json", "--eval_dataset=dev-v1.1.json"]
        size = SMALL_MODEL if is_fabir(arguments) else ()
        arguments = [*size, *arguments, *data, "--epochs=0"]
    if command not in (*WITHOUT_DATASETS, "negatives"):
        arguments = [*arguments, "--cache_dir="]
    if "KERAS_BACKEND=jax" in line:
        _run_on_jax(session.folder, command, arguments)
        return ""
    done = session(command, *arguments, stdin=stdin)
    assert done.status == 0, (line, done)
    if command == "predict":
        fields = ["answer", "start", "end", "probability", "no_answer_probability", "is_answer", "score", "n_best"]
        if any(argument.startswith("--document=") for argument in arguments):
            fields += ["source", "heading", "paragraph", "page", "sentence", "start_in_sentence", "rank_score"]
        assert all(list(json.loads(text)) == ["id", *fields] for text in done.stdout.splitlines()), (line, done)
    return done.stdout


def on_less_data(command: str, arguments: list[str]) -> list[str]:
    """A dozen questions in place of the sample, which takes long to read with a large model."""
    if "--adapt" in arguments:
        return [*arguments, "--kept_dataset=held-out.json"]
    if "--dataset=sample" not in arguments:
        return arguments
    rest = [argument for argument in arguments if argument != "--dataset=sample"]
    return [*rest, "--dataset=train-v1.1.json", *["--eval_dataset=dev-v1.1.json"] * (command != "teach")]


def is_fabir(arguments: list[str]) -> bool:
    """Whether a line trains a FABIR from its flags alone, which can therefore be made smaller."""
    published = ("--flagfile=configs/bidaf", "--flagfile=configs/published/")
    others = ("--model=", "--start_from=", *published, "--config=")
    return not any(word.startswith(others) for word in arguments)


def _run_on_jax(folder: Path, command: str, arguments: list[str]) -> None:
    environment = os.environ | {"KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    line = [sys.executable, "-m", f"fabir_tf.commands.{command}", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


def run_program(program: str, page: Path, names: dict) -> str:
    """Runs a Python block, and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(page), "exec"), names)
    return printed.getvalue()


def assert_printed(expected: str, found: str, page: Path) -> None:
    """Compares what a page shows with what was printed; white space and "..." are anything."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, found, options), f"{page}: expected\n{expected}found\n{found}"


def parts_of(page: Path) -> list[tuple[str, str, str, bool]]:
    """Language, title and text of each block, and whether it follows the block before it at once."""
    text = read(page)
    found, end = [], -1
    for match in FENCE.finditer(text):
        found.append((*match.groups(), end >= 0 and not text[end : match.start()].strip()))
        end = match.end()
    return found


def runs(page: Path) -> bool:
    return any(language in ("python", "bash") for language, *_ in parts_of(page))


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in RUNNING if runs(page)], ids=page_name)
def test_a_page_runs_from_top_to_bottom(page, session, folder, monkeypatch):
    """Each block may use what the blocks before it wrote."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e .[test]")
    pytest.importorskip("jax", reason="needs JAX: pip install -e .[test]")
    for package in PACKAGES.get(page_name(page), ()):
        pytest.importorskip(package, reason=f"needs {package}: pip install -e .[test]")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    names, printed = {"__name__": "page"}, ""
    for language, title, block, follows in parts_of(page):
        if language == "python" and title:
            (folder / title).write_text(block, encoding="utf-8")
        elif language == "python":
            printed = run_program(block, page, names)
        elif language == "bash":
            printed = "".join(run_line(session, line) for line in block.replace("\\\n", " ").splitlines())
        elif language == "text" and follows:
            assert_printed(block, printed, page)
        else:
            assert language in ("console", "text", "json", "yaml", "c"), language


def test_blocks_that_are_compared_can_fail():
    assert_printed("Anna Keld 0.9...\n", "Anna  Keld 0.97\n", README)
    with pytest.raises(AssertionError):
        assert_printed("Anna Keld 0.9...\n", "Anna Keld 0.87\n", README)
