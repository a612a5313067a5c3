"""fabir-beam: shards, rejected records, the best answers, and what is left where a process is killed.

Most of it needs the package apache-beam, which has an environment of its own: `.ci/run --full` makes it.
"""

import csv
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import ARTICLES, EXPORTED_N_BEST

HAS_BEAM = importlib.util.find_spec("apache_beam") is not None
needs_beam = pytest.mark.skipif(not HAS_BEAM, reason="needs apache-beam, in an environment of its own")
ROOT = Path(__file__).parents[1]
PASSAGES = {title: passage for title, passage, _ in ARTICLES}
ASKED = [(title, question) for title, _, pairs in ARTICLES for question, _ in pairs]


def start(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, "-m", "fabir_tf.commands.beam", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(process):
    """The status of a command, and what it printed to standard error, of which no line is a stack trace's."""
    stdout, stderr = process.communicate(timeout=300)
    assert stdout == ""
    assert "Traceback" not in stderr
    return process.returncode, stderr


def beam(*arguments, **options):
    return ended(start(*arguments, **options))


def read(folder, kind):
    """All lines of the shards of a kind, in their order."""
    lines = [line for path in sorted(folder.glob(f"{kind}-*.jsonl")) for line in path.read_text("utf-8").split("\n")]
    return [json.loads(line) for line in lines if line]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


# === What is refused before anything is written ===


@pytest.fixture
def own_question(tmp_path):
    return write_lines(tmp_path / "own.jsonl", [{"question": "Who came?", "passage": "Ada came."}])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--saved_model is missing"),
        (("--saved_model=x", "--input=y"), "--output_dir is missing"),
        (("--saved_model=x", "--output_dir=z"), "--input is missing"),
        (("--question= ",), "--question is blank, expected a text with at least one word"),
        (("--question=Who?", "--questions_file=y"), "--question and --questions_file: found both"),
        (("--questions_file=y",), "y: found no such file"),
        (
            ("--saved_model=x", "--input=y", "--output_dir=z", "--best_per_question=3"),
            "--best_per_question=3: the best answers of each question need questions about all records",
        ),
        (
            ("--saved_model=x", "--input=y", "--output_dir=z", "--num_processes=2", "--beam_options=--runner=X"),
            "--num_processes and --beam_options: found both, expected one",
        ),
    ],
)
def test_a_mistake_is_one_sentence(commands, arguments, message):
    assert message in commands("beam", *arguments).error


@pytest.mark.skipif(HAS_BEAM, reason="apache-beam is here")
def test_without_the_package_one_sentence_says_what_to_install(commands, own_question):
    result = commands("beam", "--saved_model=x", f"--input={own_question}", "--output_dir=z")
    assert 'pip install "fabir_tf[beam]" in an environment of its own' in result.error


@needs_beam
def test_what_cannot_be_read_is_one_sentence(exported, own_question, tmp_path):
    model, output = f"--saved_model={exported.folder}", f"--output_dir={tmp_path / 'out'}"
    (tmp_path / "notes").mkdir()
    document = tmp_path / "a.txt"
    document.write_text("Ada came.")
    cases = {
        f"--input={tmp_path / 'none-*.jsonl'}": "found nothing, expected a file",
        f"--input={tmp_path / 'notes'}": "found nothing, expected files that end in .txt",
        f"--input={document}": "a document has no question, expected --question or --questions_file",
        f"--input={own_question}.json": "found nothing",
    }
    for argument, message in cases.items():
        status, stderr = beam(model, argument, output)
        assert (status, message in stderr, stderr.count("\n")) == (2, True, 1), stderr
    status, stderr = beam(f"--saved_model={tmp_path}", f"--input={own_question}", output)
    assert (status, "found no SavedModel" in stderr) == (2, True), stderr
    for options, message in (("--nonsense=1", "found no --runner"), ("--runner='x", "No closing quotation")):
        status, stderr = beam(model, f"--input={own_question}", output, f"--beam_options={options}")
        assert (status, message in stderr) == (2, True), stderr
    status, stderr = beam(model, f"--input={own_question}", output, f"--n_best={EXPORTED_N_BEST + 1}")
    assert (status, f"was exported with --n_best={EXPORTED_N_BEST}" in stderr) == (2, True), stderr
    assert not list((tmp_path / "out").glob("answers*"))


# === What is written ===


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """JSON lines and CSV with good records, bad ones, and ids that occur twice in one file and in two."""
    folder = tmp_path_factory.mktemp("rows")
    records = [
        {"id": number, "question": question, "passage": PASSAGES[title]}
        for number, (title, question) in enumerate(ASKED)
    ]
    records.insert(5, {"id": 2, "question": "Again?", "context": "Ada came."})
    records.insert(7, {"question": "Who came to Dunmere?", "context": "Ada came to Dunmere."})
    with (folder / "a.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
        file.write('nonsense\n{"id": "e", "question": "", "passage": "Ada came."}\n{"id": "n", "question": "Who?"}\n')
    with (folder / "b.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "question", "context"))
        writer.writerow(("owl", "What does it eat?", PASSAGES["Owl"]))
        writer.writerow(("1", "Repeats?", "The id of a line of the other file."))
        writer.writerow(("more", "Who built it?", "Two lines\nin one cell: Anna Keld built it."))
    return folder


@needs_beam
@pytest.mark.slow
def test_each_record_has_one_answer_or_one_reason(exported, rows, tmp_path):
    from fabir_tf.export import SavedModelReader

    # Its name stands for no other one in a pattern.
    output = tmp_path / "out[1]"
    arguments = (f"--input={rows / 'a.jsonl'},{rows / 'b.csv'}", f"--output_dir={output}", "--shard_records=4")
    status, stderr = beam(f"--saved_model={exported.folder}", *arguments, "--num_processes=2", "--n_best=2")
    assert status == 0, stderr
    assert "20 records, " in stderr and "5 rejected, 6 shards made" in stderr
    found, rejected = read(output, "answers"), read(output, "rejected")
    assert [row["id"] for row in found] == [*range(5), 5, f"{rows / 'a.jsonl'}:8", *range(6, 12), "owl", "more"]
    assert {(row["source"], row["number"]) for row in found} & {
        (row["source"], row["number"]) for row in rejected
    } == set()
    reasons = [(Path(row["source"]).name, row["number"], row["reason"]) for row in rejected]
    assert [reason[:2] for reason in reasons] == [
        ("a.jsonl", 6),
        ("a.jsonl", 15),
        ("a.jsonl", 16),
        ("a.jsonl", 17),
        ("b.csv", 3),
    ]
    expected = (
        "has the id of number 3 of",
        "is no valid JSON",
        "question is empty",
        "is missing",
        "has the id of number 2 of",
    )
    assert all(part in reason for (_, _, reason), part in zip(reasons, expected, strict=True)), reasons

    passages = [PASSAGES[title] for title, _ in ASKED]
    passages.insert(6, "Ada came to Dunmere.")
    reader = SavedModelReader(exported.folder)
    passages += [PASSAGES["Owl"], "Two lines\nin one cell: Anna Keld built it."]
    answers = reader.answer_batch([row["question"] for row in found], passages, n_best=2)
    for row, answer, passage in zip(found, answers, passages, strict=True):
        assert row["answer"] == answer.text == passage[row["start"] : row["end"]]
        assert row["is_answer"] == answer.is_answer
        assert len(row["n_best"]) == len(answer.n_best)
        assert row["score"] == pytest.approx(answer.score, abs=1e-3)

    # Typed again it keeps all; with another setting it says what differs.
    before = {path: path.stat().st_mtime_ns for path in output.iterdir()}
    status, stderr = beam(f"--saved_model={exported.folder}", *arguments, "--n_best=2")
    assert (status, "all 6 shards are there" in stderr) == (0, True)
    assert before == {path: path.stat().st_mtime_ns for path in output.iterdir()}
    status, stderr = beam(f"--saved_model={exported.folder}", *arguments)
    assert status == 2
    assert (
        "the shards were made with --n_best=2, found --n_best=1: expected the same, or another --output_dir" in stderr
    )


@needs_beam
def test_half_a_surrogate_pair_is_replaced_in_parquet():
    import io

    from pyarrow import parquet

    from fabir_tf.beam.shards import encoded

    span = {"answer": "x\udcff", "start": 0, "end": 2, "probability": 0.5}
    rows = [{"id": "a\ud800b\U0001f600", "n_best": [span]}]
    found = parquet.read_table(io.BytesIO(encoded(rows, "parquet"))).to_pylist()
    assert found == [{"id": "a\ufffdb\U0001f600", "n_best": [span | {"answer": "x\ufffd"}]}]


@needs_beam
@pytest.mark.slow
def test_given_questions_are_asked_about_every_document_and_the_best_are_kept(exported, tmp_path):
    from pyarrow import parquet

    notes = tmp_path / "notes"
    (notes / "more").mkdir(parents=True)
    (notes / ".hidden").mkdir()
    for number, (title, passage) in enumerate(PASSAGES.items()):
        (notes / ("more" if number % 2 else "") / f"{title}.txt").write_text(passage)
    (notes / ".hidden" / "secret.txt").write_text("Nobody.")
    (notes / "bad.txt").write_bytes(b"\xff\xfe\xff")
    (notes / "Page.html").write_text("<nav>Home</nav><p>The <b>tall</b> tower was <i>built</i> by Karl Wend.</p>")
    questions = tmp_path / "questions.txt"
    questions.write_text("Who built it?\nWhat does it eat?\n")
    output = tmp_path / "out"
    arguments = (f"--input={notes}", f"--questions_file={questions}", f"--output_dir={output}", "--shard_records=2")
    options = ("--output_format=parquet", "--best_per_question=3", "--num_processes=1")
    status, stderr = beam(f"--saved_model={exported.folder}", *arguments, *options)
    assert status == 0, stderr
    rows = [row for path in sorted(output.glob("answers-*.parquet")) for row in parquet.read_table(path).to_pylist()]
    assert {row["source"] for row in rows} == {str(path) for path in notes.rglob("[A-Z]*.*")}
    assert len(rows) == 2 * (len(PASSAGES) + 1)
    shown = "The tall tower was built by Karl Wend."
    of_page = [row for row in rows if row["source"].endswith(".html") and row["is_answer"]]
    assert all(row["answer"] == shown[row["start"] : row["end"]] for row in of_page)
    assert "bad.txt" in read(output, "rejected")[0]["reason"]
    best = parquet.read_table(output / "best.parquet").to_pylist()
    for question in ("1", "2"):
        own = [row for row in rows if row["question_id"] == question and row["is_answer"]]
        expected = sorted(own, key=lambda row: (-row["score"], row["source"]))[:3]
        kept = [row for row in best if row["question_id"] == question]
        assert [(row["source"], row["answer"]) for row in kept] == [(row["source"], row["answer"]) for row in expected]
        assert [row["rank"] for row in kept] == [1, 2, 3][: len(kept)]
    assert best

    # The shards that are there are enough for it; a damaged one is named.
    (output / "best.parquet").unlink()
    status, stderr = beam(f"--saved_model={exported.folder}", *arguments, *options)
    assert (status, parquet.read_table(output / "best.parquet").to_pylist()) == (0, best), stderr
    damaged = output / "answers-00001-of-00003.parquet"
    damaged.write_bytes(b"PAR1 damaged")
    status, stderr = beam(f"--saved_model={exported.folder}", *arguments, *options)
    assert (status, f"{damaged}: the shard is damaged" in stderr, stderr.count("error: ")) == (2, True, 1), stderr


@needs_beam
@pytest.mark.slow
def test_a_killed_worker_and_a_killed_launcher_lose_no_finished_shard(exported, tmp_path):
    count = 600
    records = [
        {"id": number, "question": ASKED[number % 12][1], "passage": PASSAGES[ASKED[number % 12][0]]}
        for number in range(count)
    ]
    output = tmp_path / "out"
    arguments = (
        f"--saved_model={exported.folder}",
        f"--input={write_lines(tmp_path / 'a.jsonl', records)}",
        f"--output_dir={output}",
        "--shard_records=2",
        "--num_processes=2",
    )

    def kept():
        return {path.name: path.read_bytes() for path in output.glob("answers-*.jsonl")}

    def wait_for(process, shards):
        while len(kept()) < shards:
            assert process.poll() is None
            time.sleep(0.02)

    process = start(*arguments)
    wait_for(process, 3)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    status, stderr = ended(process)
    assert (status, stderr.count("\n")) == (2, 1), stderr
    assert "a worker process ended too early: the finished shards are kept, and the same command goes on" in stderr
    first = kept()
    assert 3 <= len(first) < count // 2

    process = start(*arguments)
    wait_for(process, len(first) + 3)
    orphans = workers_of(process.pid)
    process.kill()
    status, stderr = ended(process)
    assert status == -signal.SIGKILL
    for _ in range(100):
        if not any(map(is_alive, orphans)):
            break
        time.sleep(0.1)
    assert not any(map(is_alive, orphans))
    second = kept()
    assert first.items() <= second.items()

    status, stderr = beam(*arguments)
    assert status == 0, stderr
    assert f"keeping {len(second):,} of {count // 2:,} shards" in stderr
    assert second.items() <= kept().items()
    assert [row["id"] for row in read(output, "answers")] == list(range(count))
    # What a killed process was writing: at most one file of each worker, twice.
    assert len(list(output.glob("*.tmp"))) <= 4


def workers_of(launcher):
    """The worker processes of a launcher."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, line = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"\nPPid:\t{launcher}\n" in status and b"fabir_tf.beam.worker" in line:
            found.append(int(folder.name))
    assert found
    return found


def is_alive(process):
    try:
        return "\nState:\tZ" not in (Path("/proc") / str(process) / "status").read_text()
    except OSError:
        return False


@needs_beam
@pytest.mark.slow
def test_a_full_disk_is_one_sentence(exported, tmp_path):
    records = [{"id": n, "question": ASKED[n % 12][1], "passage": PASSAGES[ASKED[n % 12][0]]} for n in range(60)]
    path, output = write_lines(tmp_path / "a.jsonl", records), tmp_path / "out"
    arguments = (f"--saved_model={exported.folder}", f"--input={path}", f"--output_dir={output}", "--shard_records=30")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))

    status, stderr = beam(*arguments, "--num_processes=1", preexec_fn=limited)
    assert (status, stderr.count("error: "), "cannot be written (File too large)" in stderr) == (2, 1, True), stderr
    assert not list(output.glob("answers*"))
    status, stderr = beam(*arguments, "--num_processes=1")
    assert (status, len(read(output, "answers"))) == (0, 60), stderr


# === The model ===


class Fails:
    """A model that fails where a passage says so, as one of somebody else's may."""

    n_best = 5

    def __init__(self):
        self.batches = []

    def answer_batch(self, questions, passages, n_best):
        from fabir_tf.reading.answers import Answer

        self.batches.append(len(passages))
        if any("fail" in passage for passage in passages):
            raise RuntimeError("no such row\nand a stack trace")
        return [Answer(passage[:3], 0, 3, 0.5) for passage in passages]


@needs_beam
def test_a_record_that_fails_is_tried_alone():
    from fabir_tf.beam.model_handler import SavedModelHandler
    from fabir_tf.beam.records import Asked, Part, ReadPart

    texts = ["one", "two fail", "three", "four", "five"]
    asked = [Asked(number, "a.jsonl", number, "Who?", text) for number, text in enumerate(texts, 1)]
    model = Fails()
    (result,) = SavedModelHandler("x", batch_size=3).run_inference([ReadPart(Part(0), asked)], model)
    assert [found if isinstance(found, str) else found.text for found in result.inference] == [
        "one",
        "a.jsonl: number 2: the reader fails (no such row).",
        "thr",
        "fou",
        "fiv",
    ]
    # Of similar length: one, four, five; then three and two, which fails; then each of these alone.
    assert model.batches == [3, 2, 1, 1]


@needs_beam
def test_batches_hold_texts_of_similar_length_and_no_more_than_memory_allows():
    from fabir_tf.beam.model_handler import CHARACTERS, batches_of_similar_length

    lengths = [7, 3, CHARACTERS + 5, 5, CHARACTERS // 2, CHARACTERS // 2, CHARACTERS // 2, 1]
    assert list(batches_of_similar_length(lengths, 3)) == [[7, 1, 3], [0, 4], [5, 6], [2]]
    assert list(batches_of_similar_length([], 3)) == []
