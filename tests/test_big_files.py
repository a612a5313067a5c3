"""Commands that answer long files of questions: they go on where they stopped, their memory stays, they say how far."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_commands import passed
from tiny import ARTICLES
from wordpiece_folders import write_bert

from fabir_tf.commands import answering
from fabir_tf.commands.progress import Progress, duration
from fabir_tf.pipelines.files import Position
from fabir_tf.reading.run_directory import EnsembleDirectory, reader_digest, reader_directory

QUESTIONS = [question for _, _, asked in ARTICLES for question, _ in asked]
# Three chunks, the last one smaller.
COUNT = 2 * answering.DOCUMENT_CHUNK + 40
BAD = 2 * answering.DOCUMENT_CHUNK + 7


@pytest.fixture(scope="module")
def place(commands, tiny_run, tmp_path_factory):
    """A folder with an index of documents, a file of questions, and the answers of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("big")
    (folder / "texts").mkdir()
    for title, passage, _ in ARTICLES:
        (folder / "texts" / f"{title}.txt").write_text(passage)
    passed(commands("index", f"--input={folder / 'texts'}", f"--index={folder / 'texts.index'}"))
    lines = [json.dumps({"id": f"q{number}", "question": QUESTIONS[number % 12]}) for number in range(1, COUNT + 1)]
    lines[BAD - 1] = json.dumps({"id": f"q{BAD}", "question": 7})
    (folder / "asked.jsonl").write_text("\n".join(lines) + "\n")
    passed(commands("search", *flags(tiny_run, folder, "whole.jsonl")))
    return folder


@pytest.fixture
def output(place):
    """The name of the answers, of which nothing is there before and after a test."""
    name = "answers.jsonl"
    yield name
    for path in place.glob(f"{name}*"):
        path.unlink()


def flags(tiny_run, folder, output, *others):
    return (
        f"--run_dir={tiny_run.path}",
        f"--index={folder / 'texts.index'}",
        f"--input_file={folder / 'asked.jsonl'}",
        f"--output_file={folder / output}",
        "--paragraphs=1",
        *others,
    )


def left(folder, output) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{output}*"))


def size_of(path, lines: int) -> int:
    """The bytes of the first lines of a file."""
    return sum(map(len, path.read_bytes().splitlines(keepends=True)[:lines]))


def test_killed_twice_each_question_is_answered_once(commands, tiny_run, place, output):
    partial, whole = place / f"{output}.partial", place / "whole.jsonl"
    for chunks, resume in ((1, ()), (2, ("--resume",))):
        behind = (str(partial), size_of(whole, (chunks - 1) * answering.DOCUMENT_CHUNK))
        result = commands("search", *flags(tiny_run, place, output, *resume), killed_behind=behind)
        assert result.status == -9
        assert left(place, output) == [f"{output}.partial", f"{output}.partial.json"]
        assert whole.read_bytes().startswith(partial.read_bytes())
    with open(partial, "ab") as file:
        file.write(b'{"id": "q513", "ans')
    result = passed(commands("search", *flags(tiny_run, place, output, "--resume")))
    assert f"going on with {partial}" in result.stderr
    assert f"1 of {COUNT} questions could not be answered" in result.stderr
    assert (place / output).read_bytes() == whole.read_bytes()
    assert left(place, output) == [output]
    ids = [json.loads(line)["id"] for line in whole.read_bytes().splitlines()]
    assert ids == [f"q{number}" for number in range(1, COUNT + 1)]


def test_a_bad_row_late_in_the_file_costs_nothing(place):
    lines = list(map(json.loads, (place / "whole.jsonl").read_text().splitlines()))
    assert [line["id"] for line in lines if "error" in line] == [f"q{BAD}"]
    assert f"line {BAD}: question is the number 7" in lines[BAD - 1]["error"]


def test_a_full_disk_keeps_what_is_finished_and_says_how_to_go_on(commands, tiny_run, place, output):
    whole = place / "whole.jsonl"
    limit = size_of(whole, answering.DOCUMENT_CHUNK + 9) + 5
    result = commands("search", *flags(tiny_run, place, output), file_limit=limit)
    assert result.error == f"{place / output}: cannot be written (File too large)"
    assert f"{place / output}.partial holds what is finished: add --resume to go on\n" in result.stderr
    assert (place / f"{output}.partial").stat().st_size == size_of(whole, answering.DOCUMENT_CHUNK)
    passed(commands("search", *flags(tiny_run, place, output, "--resume")))
    assert (place / output).read_bytes() == whole.read_bytes()


def test_what_an_interrupted_run_has_left_is_only_gone_on_with_as_it_began(commands, tiny_run, place, output):
    behind = (str(place / f"{output}.partial"), 0)
    assert commands("search", *flags(tiny_run, place, output), killed_behind=behind).status == -9
    before = (place / f"{output}.partial").read_bytes()
    advice = f"add --resume to go on, or delete {place / output}.partial to begin anew"
    assert advice in commands("search", *flags(tiny_run, place, output)).error
    others = (
        (["--n_best=2"], "was made with --n_best=1, found --n_best=2, expected the same"),
        (["--max_passage=20"], "was made with --max_passage=512, found --max_passage=20"),
        ([f"--input_file={tiny_run.dev}"], "was made with an input of "),
        (["--model=fabir-base", "--run_dir="], "was made with a reader "),
    )
    for changed, sentence in others:
        assert sentence in commands("search", *flags(tiny_run, place, output, "--resume", *changed)).error
    arguments = [flag for flag in flags(tiny_run, place, output, "--resume") if not flag.startswith("--index")]
    texts = place / "texts"
    assert "was made with documents " in commands("predict", *arguments, f"--document={texts / 'Owl.txt'}").error
    assert (place / f"{output}.partial").read_bytes() == before


def test_only_files_are_gone_on_with(commands, tiny_run, place, output):
    run = f"--run_dir={tiny_run.path}"
    for given in (
        ["--input_file=-", f"--output_file={place / output}"],
        [f"--input_file={tiny_run.dev}"],
        [f"--input_file={tiny_run.dev}", "--output_file=/dev/null"],
        ["--question=Who?", "--passage=Anna.", f"--output_file={place / output}"],
    ):
        error = commands("predict", run, "--resume", *given).error
        assert error.startswith("--resume: found ") and "expected two files" in error
    passed(commands("predict", run, f"--input_file={tiny_run.dev}", f"--output_file={place / output}", "--resume"))
    error = commands(
        "predict", run, f"--input_file={tiny_run.dev}", f"--output_file={place / output}", "--resume"
    ).error
    assert error.startswith(f"--resume: {place / output} is finished")


def test_a_damaged_file_is_told_with_its_line(commands, tiny_run, place, output):
    packed = place / "asked.gz"
    packed.write_bytes(gzip.compress((place / "asked.jsonl").read_bytes(), 0)[:-200])
    arguments = flags(tiny_run, place, output, f"--input_file={packed}")
    result = commands("search", *arguments)
    number = (place / "asked.jsonl").read_bytes()[:-190].count(b"\n") + 1
    assert f"{packed}: line {number}: cannot be read (" in result.error
    assert "add --resume to go on" in result.stderr
    kept = (place / f"{output}.partial").read_bytes()
    assert kept == b"".join((place / "whole.jsonl").read_bytes().splitlines(keepends=True)[: kept.count(b"\n")])
    assert kept.count(b"\n") == 2 * answering.DOCUMENT_CHUNK


# Readers


def test_the_digest_of_a_reader_changes_with_what_decides_about_its_answers(tiny_run, tmp_path):
    run = Path(shutil.copytree(tiny_run.path, tmp_path / "run"))
    before = reader_digest(tiny_run.path)
    for name in ("history.csv", "checkpoints/last.npz", "answers.jsonl.partial.json"):
        (run / name).write_bytes(b"changed")
    assert reader_digest(run) == before
    for name in ("config.json", "processor/vocabulary.json", "checkpoints/best.npz", "calibration.json"):
        content = (run / name).read_bytes() if (run / name).exists() else None
        (run / name).write_bytes(b"changed")
        assert reader_digest(run) != before
        (run / name).unlink() if content is None else (run / name).write_bytes(content)
    assert reader_digest(run) == before


def test_the_digest_of_an_ensemble_is_that_of_its_members_too(tiny_run, tmp_path):
    for number in range(2):
        shutil.copytree(tiny_run.path, tmp_path / "members" / str(number))
    EnsembleDirectory(tmp_path).write_ensemble([1, 2], "here")
    before = reader_digest(tmp_path)
    (tmp_path / "members" / "1" / "checkpoints" / "best.npz").write_bytes(b"changed")
    assert reader_digest(tmp_path) != before


def test_the_digest_of_a_folder_in_hugging_faces_layout(tmp_path):
    write_bert(tmp_path)
    files = {path.name for path in reader_directory(tmp_path).deciding_files}
    assert {"config.json", "vocab.txt"} <= files and files & {"model.safetensors", "tf_model.h5"}
    before = reader_digest(tmp_path)
    (tmp_path / "answers.jsonl.partial.json").write_text("{}")
    assert reader_digest(tmp_path) == before
    (tmp_path / "vocab.txt").write_text("changed")
    assert reader_digest(tmp_path) != before


# Progress


def test_the_progress_has_a_speed_and_the_time_that_is_left():
    position = Position(0, 4000)
    progress = Progress("questions", position)
    position.done = 1000
    assert progress.line(50, 10.0) == "50 questions, 5.0 a second, 25% of the file, 30 s left"
    # What another process has done says nothing about the speed.
    progress.skip(50)
    position.done = 2000
    assert progress.line(2050, 10.0) == "2,050 questions, 200 a second, 50% of the file, 20 s left"
    assert Progress("questions").line(3000, 2.0) == "3,000 questions, 1,500 a second"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (99, "99 s"), (100, "2 min"), (5940, "99 min"), (12_000, "3 h 20 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_log_gets_whole_lines_and_a_terminal_one_that_changes(monkeypatch, capsys):
    for on_terminal, seconds, expected in ((False, 60, "{}\n{}\n"), (True, 1, "\r\x1b[K{}\r\x1b[K{}\n")):
        now = [0.0]
        monkeypatch.setattr("time.monotonic", lambda now=now: now[0])
        monkeypatch.setattr("sys.stderr.isatty", lambda on_terminal=on_terminal: on_terminal)
        with Progress("questions") as progress:
            for _ in range(5):
                now[0] += seconds / 2
                progress.show(int(10 * now[0]))
        assert capsys.readouterr().err == expected.format(
            *(f"{10 * seconds * step:,} questions, 10 a second" for step in (1, 2))
        )


# Memory


@pytest.mark.long
def test_killed_and_resumed_the_memory_does_not_grow_with_the_file(tiny_run, tmp_path):
    program = Path(__file__).parents[1] / "benchmarks" / "big_file.py"
    given = ["--rows=20000,60000", f"--run_dir={tiny_run.path}", "--kills=1", "--json_file=found.json"]
    # One heap, because each thread's own grows for a while.
    environment = os.environ | {"PYTHONPATH": str(program.parents[1]), "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, program, *given], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    less, more = json.loads((tmp_path / "found.json").read_text())["found"]
    assert less["killed"] == more["killed"] == 1
    # TensorFlow keeps more memory for a while; three times the rows would be three times the texts.
    assert more["peak_mib"] < 1.25 * less["peak_mib"]
