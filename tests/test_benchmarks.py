"""Each benchmark runs through its own command in its smallest form, and the cost formulas count what is computed.

The figures themselves are not tested.
"""

import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tiny import ARTICLES, squad_json, write_squad

from fabir_tf.pipelines.datasets.sources import load_dataset
from fabir_tf.pipelines.datasets.squad import check_offsets, read_squad
from fabir_tf.pipelines.datasets.squad_metrics import normalize_answer
from fabir_tf.pipelines.features.teacher_distributions import TeacherDistributions
from fabir_tf.reading.packing import pack_ensemble
from fabir_tf.reading.reader import Reader

ROOT = Path(__file__).parents[1]
UNANSWERABLE = {"question": "Who saw it?", "answers": [], "is_impossible": True}
SPREAD = {"median", "low", "high"}
HAS_RIVALS = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def command(script, *arguments):
    return [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *arguments]


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def run_script(commands, tmp_path, monkeypatch):
    """Runs a script of benchmarks/ in the test's folder, in a process that has imported TensorFlow."""
    monkeypatch.setattr(commands, "folder", tmp_path)
    return lambda script, *arguments: commands(str(ROOT / "benchmarks" / f"{script}.py"), *arguments)


def benchmark_module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found_by(folder, script, *arguments):
    """The results that a benchmark writes for one turn."""
    # In a process of its own, whose time is measured.
    written = ("--turns=1", "--json_file=found.json", "--picture=found.png")
    done = subprocess.run(
        command(script, *arguments, *written),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "found.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((folder / "found.json").read_text())
    assert set(written) == {"machine", "settings", "found"}
    assert written["settings"]["turns"] == 1
    assert {"date", "processor", "cores", "python", "tensorflow", "keras"} <= set(written["machine"])
    return written["found"]


@pytest.mark.long
def test_contenders_race(tmp_path):
    rivals = "minilm" if HAS_RIVALS else ""
    arguments = ("--questions=4", "--tasks=inference", f"--rivals={rivals}", "--precisions=bfloat16")
    rows = found_by(tmp_path, "rivals", *arguments)["inference"]
    assert [row["contender"] for row in rows] == ["fabir", *filter(None, [rivals])]
    for row in rows:
        assert row["precision"] == "bfloat16"
        assert set(row["speed"]) == set(row["processor_ms"]) == SPREAD
        assert row["speed"]["median"] > 0
        assert row["peak_mib"] > 100
        assert set(row["times_as_fast"]) == ({"fabir"} if row["contender"] == rivals else set())
    if not HAS_RIVALS:
        pytest.skip("only our reader has run: a rival needs the extra rivals, torch and transformers")


@pytest.mark.long
def test_readers_of_the_package_are_timed(tmp_path):
    torch = "--torch" if HAS_RIVALS else "--notorch"
    readers = ["fabir-base", *["fabir-minilm"] * HAS_RIVALS]
    arguments = (f"--readers={','.join(readers)}", "--questions=4", "--precisions=float32", "--turns=1", torch)
    found = found_by(tmp_path, "reader_speed", *arguments)
    assert [row["contender"] for row in found["answers"]] == readers
    assert all(row["speed"]["median"] > 0 and row["ratio"]["median"] > 0 for row in found["answers"])
    if not HAS_RIVALS:
        pytest.skip("only our readers have run: PyTorch needs the extra rivals, torch and transformers")
    assert [row["contender"] for row in found["logits of fabir-minilm"]] == ["PyTorch", "fabir-minilm"]


@pytest.mark.skipif(not HAS_RIVALS, reason="needs the extra rivals: torch and transformers")
def test_a_rival_is_trained(tmp_path):
    arguments = ("--training_questions=4", "--questions=4", "--tasks=training", "--readers=", "--rivals=minilm")
    (row,) = found_by(tmp_path, "rivals", *arguments, "--precisions=bfloat16")["training"]
    assert row["speed"]["median"] > 0


@pytest.mark.long
def test_formats_of_an_export_take_turns(tiny_run, tmp_path):
    for package in ("tf2onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"needs {package}: pip install -e .[onnx]")
    arguments = (f"--model={tiny_run.path}", f"--dataset={tiny_run.train}", "--questions=5", "--timed_questions=2")
    found = found_by(tmp_path, "small_targets", *arguments, "--threads=1", "--formats=saved_model,onnx")
    assert found["questions"] == 5
    assert found["scores"]["onnx"]["same"] == 5 and found["scores"]["onnx"]["largest_difference"] < 1e-4
    assert found["sizes"]["onnx"] < found["sizes"]["saved_model"]
    (speeds,) = found["speed"].values()
    for name in ("saved_model", "onnx"):
        assert set(speeds[name]["speed"]) == set(speeds[name]["processor_ms"]) == SPREAD
    # A process without TensorFlow.
    assert speeds["onnx"]["peak_mib"] < speeds["saved_model"]["peak_mib"] / 2


@pytest.mark.long
def test_layers_are_compared_with_their_limits(tmp_path):
    arguments = ("--batch=2", "--passage=11", "--question=5", "--questions_per_passage=1", "--repeats=1")
    found = found_by(tmp_path, "layers", *arguments)
    names = [row["layer"] for row in found["layers"]]
    assert names[-3:] == ["processing_layer_3", "selector", "the whole model"]
    assert set(found["peak"]) == set(found["bandwidth"]) == SPREAD
    for row in found["layers"]:
        assert 0 < row["cost"]["least"] <= row["cost"]["moved"], row
        assert 0 < row["achieved"]["median"] <= 1.5, row


@pytest.mark.long
def test_scaling_measures_each_point_in_a_process(tmp_path):
    arguments = ("--passages=16", "--passage_tokens=16", "--batches=", "--threads=", "--seconds=0")
    (row,) = found_by(tmp_path, "scaling", *arguments)["passage"]
    assert (row["passage"], row["batch"], row["threads"]) == (16, 1, 2)
    assert set(row["speed"]) == set(row["ms"]) == SPREAD
    assert row["peak_mib"]["median"] >= row["empty_mib"]["median"] > 100


@pytest.mark.long
def test_end_to_end_accounts_for_all_of_the_time(tmp_path):
    found = found_by(tmp_path, "end_to_end")
    assert found["questions"] == 288
    parts = {"reading", "tokens", "features", "model", "decoding", "writing"}
    assert set(found["seconds"]) == parts | {"tokenizing", "total"}
    assert min(part["median"] for part in found["seconds"].values()) > 0
    assert set(found["shares"]) == parts
    assert sum(share["median"] for share in found["shares"].values()) == pytest.approx(1)
    assert min(share["median"] for share in found["shares"].values()) >= 0


@pytest.mark.long
def test_a_long_file_is_answered(tiny_run, tmp_path):
    arguments = ("--rows=300,20", f"--run_dir={tiny_run.path}", "--json_file=found.json")
    done = subprocess.run(
        command("big_file", *arguments), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    more, less = json.loads((tmp_path / "found.json").read_text())["found"]
    assert (more["rows"], less["rows"], more["killed"]) == (300, 20, 0)
    assert min(more[name] for name in ("seconds", "rows_per_second", "cores", "peak_mib")) > 0


@pytest.mark.long
def test_batches_of_similar_length_have_less_padding(tmp_path):
    found = found_by(tmp_path, "length_buckets", "--questions=160", "--buckets=1,8")["buckets"]
    assert set(found) == {"1", "8"}
    assert 0 <= found["8"]["padding"] < found["1"]["padding"] < 1
    assert set(found["8"]["speed"]) == set(found["8"]["ratio"]) == SPREAD
    assert found["1"]["ratio"]["median"] == 1


@pytest.mark.long
def test_several_devices_are_compared_with_one(tmp_path):
    found = found_by(tmp_path, "devices", "--questions=24", "--devices=2", "--steps=3", "--batch_size=6")["devices"]
    assert set(found) == {"none", "2"}
    for row in found.values():
        assert set(row["speed"]) == set(row["ratio"]) == SPREAD
    # Sums in another order may round alike.
    assert 0 <= found["2"]["difference"] < 1e-4
    assert found["none"]["difference"] == 0 and found["none"]["ratio"]["median"] == 1


@pytest.mark.long
def test_the_input_pipeline_is_compared_with_the_model(tmp_path):
    found = found_by(tmp_path, "input_pipeline", "--questions=8")
    assert set(found) == {"training", "evaluation"}
    for task in found.values():
        assert set(task["speed"]) == {"pipeline", "model", "both"}
        assert set(task["ratio"]) == set(task["first_wait_ms"]) == set(task["later_wait_ms"]) == SPREAD


def operations_in(layer, *specs, **options):
    """Counts the operations of the matrix products and convolutions in a layer's graph, from their shapes."""
    import tensorflow as tf

    function = tf.function(lambda *inputs: layer(*inputs, **options), autograph=False)
    total = 0
    for operation in function.get_concrete_function(*specs).graph.get_operations():
        inputs = [tensor.shape for tensor in operation.inputs]
        terms = {
            "MatMul": lambda a, b: a[1],
            "BatchMatMulV2": lambda a, b: a[-2] if operation.get_attr("adj_x") else a[-1],  # noqa: B023
            "Conv2D": lambda x, kernel: math.prod(kernel[:3]),
            "DepthwiseConv2dNative": lambda x, kernel: math.prod(kernel[:2]),
        }
        if operation.type in terms:
            total += 2 * math.prod(operation.outputs[0].shape) * terms[operation.type](*inputs)
    return total


@pytest.mark.slow
def test_articles_are_set_aside_with_what_overlaps(tmp_path, run_script):
    title, passage, _ = ARTICLES[3]
    data = write_squad(tmp_path / "train.json", ARTICLES)
    other = write_squad(
        tmp_path / "other.json", [("Copy", passage.replace(" ", "  "), [("What does it eat?", "voles")]), ARTICLES[0]]
    )
    flags = [f"--dataset={data}", f"--others={other}", f"--titles={title}", "--output=chosen"]
    done = run_script("set_aside", *flags)
    assert done.status == 0, done.stderr
    found = {path.name: set(read_squad(path).titles) for path in (tmp_path / "chosen").iterdir()}
    assert found == {
        "held.json": {"Owl"},
        "train.json": {"Mill", "Lake", "Bridge"},
        "other.json": {"Mill"},
    }


@pytest.mark.slow
def test_short_passages_are_joined_with_similar_ones(tmp_path, run_script):
    barn, lake = "Barn owls hunt voles by night.", "Salt dries at lakes in deserts."
    owl, salt = "Voles hide from barn owls.", "Lakes of deserts leave salt."
    tram, copy = "Trams cross Pell bridge.", "Trams cross Pell bridge !"
    long = "The mill stands by the river and grinds the corn of four villages."
    answers = {barn: "voles", lake: "Salt", owl: "barn owls", salt: "salt", tram: "Trams", copy: "bridge", long: "corn"}
    articles = [(text, text, [(f"Of {text}?", answer)]) for text, answer in answers.items()]
    data = write_squad(tmp_path / "train.json", articles)
    done = run_script("join_passages", f"--dataset={data}", "--output=joined.json", "--short=8", "--words=9")
    assert done.status == 0, done.stderr
    before, after = read_squad(data), read_squad(tmp_path / "joined.json")
    found = {question.id: question for question in after.questions}
    assert set(found) == {question.id for question in before.questions}
    passage_of = {}
    for question in before.questions:
        moved = found[question.id]
        passage = after.passages[moved.passage]
        (answer,) = moved.answers
        assert (moved.text, answer.text) == (question.text, question.answers[0].text)
        assert passage[answer.start :].startswith(answer.text)
        passage_of[before.passages[question.passage]] = passage
    assert passage_of[barn] == passage_of[owl] in (f"{barn} {owl}", f"{owl} {barn}")
    assert passage_of[lake] == passage_of[salt] in (f"{lake} {salt}", f"{salt} {lake}")
    # Two versions of the same text are not joined.
    assert (passage_of[tram], passage_of[copy]) == (tram, copy)
    assert passage_of[long] == long


@pytest.mark.slow
def test_sentences_are_shuffled_and_answers_move_with_them(tmp_path, run_script):
    text = "Owls hunt by night.  They eat voles. Voles hide.\nOwls hunt well."
    sentences = ["Owls hunt by night.", "They eat voles.", "Voles hide.", "Owls hunt well."]
    asked = [("Who hunts well?", "Owls"), ("Where do they hide?", "Voles hide"), ("Both?", "voles. Voles")]
    single = ("Mill", "The mill stands by the river.", [("What stands there?", "mill")])
    content = squad_json([("Owl", text, asked), single])
    (answer,) = content["data"][0]["paragraphs"][0]["qas"][0]["answers"]
    answer["answer_start"] = text.rindex("Owls")
    data = tmp_path / "train.json"
    data.write_text(json.dumps(content))

    def added(*more: str) -> tuple[str, dict]:
        done = run_script("shuffle_sentences", f"--dataset={data}", "--output=shuffled.json", *more)
        assert done.status == 0, done.stderr
        assert "shuffled.json: 4 questions and 2 about shuffled passages" in done.stdout
        before, after = read_squad(data), read_squad(tmp_path / "shuffled.json")
        new = [passage for passage in after.passages if passage not in before.passages]
        known = {question.id: (question.text, after.passages[question.passage]) for question in after.questions}
        assert all(known[q.id] == (q.text, before.passages[q.passage]) for q in before.questions)
        assert len(new) == 1
        return new[0], {question.text: question for question in after.questions if question.id.endswith("s")}

    passage, questions = added()
    order = sorted(range(4), key=lambda number: passage.index(sentences[number]))
    assert passage == " ".join(sentences[number] for number in order)
    assert order != [0, 1, 2, 3]
    assert set(questions) == {"Who hunts well?", "Where do they hide?"}
    (owls,), (voles,) = (questions[name].answers for name in ("Who hunts well?", "Where do they hide?"))
    # The owls of the last sentence, not of the first.
    assert (owls.text, owls.start) == ("Owls", passage.index("Owls hunt well."))
    assert (voles.text, voles.start) == ("Voles hide", passage.index("Voles hide."))
    assert added()[0] == passage
    assert len({added(f"--seed={seed}")[0] for seed in range(1, 5)}) > 1


@pytest.mark.slow
def test_passages_are_drawn_with_all_of_their_questions(tmp_path, run_script):
    data = write_squad(tmp_path / "train.json", ARTICLES)
    whole = read_squad(data)

    def drawn(questions: int, *more: str) -> set[str]:
        output = f"{questions}.json"
        flags = [f"--dataset={data}", f"--questions={questions}", f"--output={output}", *more]
        done = run_script("draw_passages", *flags)
        assert done.status == 0, done.stderr
        found = read_squad(tmp_path / output)
        assert f"{len(found.questions)} questions about {len(found.passages)} passages" in done.stdout
        about = [question for question in whole.questions if whole.passages[question.passage] in found.passages]
        assert {question.id for question in found.questions} == {question.id for question in about}
        assert questions <= len(found.questions)
        return set(found.passages)

    one, four = drawn(1), drawn(4)
    assert len(one) == 1
    # Each article has three questions or fewer.
    assert one < four
    assert drawn(1, "--seed=2") != one
    total = len(whole.questions)
    assert drawn(total) == set(whole.passages)
    done = run_script("draw_passages", f"--dataset={data}", f"--questions={total + 1}", "--output=more.json")
    assert done.status == 2
    assert f"--questions={total + 1}: found {total} in --dataset, expected at most as many" in done.stderr
    assert not (tmp_path / "more.json").exists()


@pytest.mark.slow
def test_questions_with_and_without_an_answer_are_merged_on_their_passages(tmp_path, run_script):
    data = write_squad(tmp_path / "answerable.json", ARTICLES)
    whole = read_squad(data)
    passage, title = max(zip(whole.passages, whole.titles, strict=True), key=lambda pair: len(pair[0]))
    # The second is of an article of its own, with a text that the held-out passage has, too.
    articles = [
        {"title": title, "paragraphs": [{"context": passage, "qas": [UNANSWERABLE | {"id": "u1"}]}]},
        {"title": "Copy", "paragraphs": [{"context": f"{passage} And more.", "qas": [UNANSWERABLE | {"id": "u2"}]}]},
        {"title": "Moon", "paragraphs": [{"context": "The moon is bright.", "qas": [UNANSWERABLE | {"id": "u3"}]}]},
    ]
    (tmp_path / "none.json").write_text(json.dumps({"version": "v2.0", "data": articles}))
    flags = ["--dataset=answerable.json", "--unanswerable=none.json", "--output=merged"]
    done = run_script("merge_unanswerable", *flags, f"--titles={title}", f"--unanswerable_titles={title}")
    assert done.status == 0, done.stderr
    found = {name: read_squad(tmp_path / "merged" / f"{name}.json") for name in ("held", "watch", "choose", "train")}
    ids = {name: {question.id for question in part.questions} for name, part in found.items()}
    of_title = {question.id for question in whole.questions if whole.titles[question.passage] == title}
    assert ids["held"] == of_title
    assert ids["watch"] == of_title | {"u1"}
    assert ids["choose"] <= ids["watch"] and found["choose"].passages == found["watch"].passages[::2]
    assert ids["train"] == {question.id for question in whole.questions} - of_title | {"u3"}
    # One passage, and the questions of both files about it.
    assert found["watch"].passages.count(passage) == 1
    assert not next(question for question in found["watch"].questions if question.id == "u1").answers
    (tmp_path / "damaged.json").write_text('{"version": "v2.0"}')
    done = run_script("merge_unanswerable", *flags, "--titles=Nobody", "--unanswerable=damaged.json")
    assert done.status == 2 and "damaged.json" in done.stderr and "Traceback" not in done.stderr
    done = run_script("merge_unanswerable", *flags, "--titles=Nobody")
    assert done.status == 2 and "--titles: found no article 'Nobody'" in done.stderr


@pytest.mark.slow
def test_texts_are_rewritten_and_answers_keep_their_offsets(tmp_path, run_script):
    passage = "In \u0130zmir the TOWER was built by Karl Wend."
    write_squad(tmp_path / "data.json", [("Tower", passage, [("Who built the tower of Halberstadt?", "Karl Wend")])])
    written = {}
    for kind in ("lower_questions", "lower", "capitals", "unmarked", "misspelt"):
        done = run_script("rewrite_texts", "--dataset=data.json", f"--kind={kind}", f"--output={kind}.json")
        assert done.status == 0, done.stderr
        found = read_squad(tmp_path / f"{kind}.json")
        (question,) = found.questions
        (answer,) = question.answers
        (text,) = found.passages
        assert text[answer.start : answer.start + len(answer.text)] == answer.text
        written[kind] = (text, question.text)
    assert written["lower_questions"] == (passage, "who built the tower of halberstadt?")
    # Lower-casing the dotted capital I would make two letters of it and move the answer.
    assert written["lower"][0] == "in \u0130zmir the tower was built by karl wend."
    assert written["capitals"] == (passage, "WHO BUILT THE TOWER OF HALBERSTADT?")
    assert written["unmarked"] == (passage, "Who built the tower of Halberstadt")
    text, question = written["misspelt"]
    words = question.split()
    assert text == passage
    assert words[:-1] == ["Who", "built", "the", "tower", "of"]
    assert words[-1] != "Halberstadt?"
    assert words[-1][0] + words[-1][-2:] == "Ht?"
    assert sorted(words[-1]) == sorted("Halberstadt?")


@pytest.mark.slow
def test_texts_are_roughened_and_answers_stay_what_they_are(tmp_path, run_script):
    (tmp_path / "words.tsv").write_text("milll\tmill\tx\nbrigde\tbridge\n", encoding="utf-8")
    source = write_squad(tmp_path / "all.json", ARTICLES)
    before = read_squad(source)
    for misspelt, unpunctuated in ((0, 1), (1, 0), (1, 1), (0, 0)):
        flags = (f"--misspelt={misspelt}", f"--unpunctuated={unpunctuated}", "--output=rough.json")
        done = run_script("roughen_texts", f"--dataset={source}", "--misspellings=words.tsv", *flags)
        assert done.status == 0, done
        rough = read_squad(tmp_path / "rough.json")
        check_offsets(rough)
        assert [question.id for question in rough.questions] == [question.id for question in before.questions]
        for new, old in zip(rough.questions, before.questions, strict=True):
            if not unpunctuated:
                assert new.answers == old.answers and (misspelt or new.text == old.text)
            else:
                assert new.text[-1].isalnum() and (misspelt or new.text == old.text.replace("?", "").replace(",", ""))
                kept = [char for char in old.answers[0].text if char.isalnum()]
                assert [char for char in new.answers[0].text if char.isalnum()] == kept
        if misspelt:
            changed = [new.text != old.text for new, old in zip(rough.questions, before.questions, strict=True)]
            assert sum(changed) > 0.8 * len(changed)
        assert ("," in "".join(rough.passages)) == (not unpunctuated)


def test_the_losses_of_configurations_have_intervals(tmp_path, run_script):
    head = "configuration,seed,exact_match,f1"
    more = ["fabir,1,40,52", "no_convolutional_attention,1,38,50", "2_heads,1,1,51"]
    (tmp_path / "first.csv").write_text("\n".join([head, *more]) + "\n")
    more = ["fabir,2,42,54", "no_convolutional_attention,2,36,48"]
    (tmp_path / "second.csv").write_text("\n".join([head, *more]) + "\n")
    done = run_script("gains", "--runs=first.csv,second.csv")
    assert done.status == 0, done.stderr
    rows = {line.split(" | ")[0].strip("| "): line for line in done.stdout.splitlines()[2:]}
    assert rows["fabir"] == "| fabir | 2 | 41.00 | 53.00 |  |  |  |"
    assert rows["2_heads"] == "| 2_heads | 1 | 1.00 | 51.00 | 2.00 |  | 1.8 |"
    cells = rows["no_convolutional_attention"].strip("| ").split(" | ")
    assert cells[1:5] + cells[6:] == ["2", "37.00", "49.00", "4.00", "2.4"]
    # Equal variances of 2 and two seeds each: 2 degrees of freedom, where Student's t is 4.303 (from a table).
    margin = 4.303 * (2 / 2 + 2 / 2) ** 0.5
    assert [float(bound) for bound in cells[5].split(" to ")] == pytest.approx([4 - margin, 4 + margin], abs=0.006)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("", "--runs is missing"),
        ("--runs=absent.csv", "absent.csv: no such file"),
        ("--runs=runs.csv,runs.csv", "found fabir with seed 1 a second time"),
        ("--runs=runs.csv --against=bidaf", "--against=bidaf: expected one of fabir"),
        ("--runs=other.csv", "other.csv: found no columns"),
        ("--runs=heading.csv", "heading.csv: found no runs, expected a line for each"),
        ("--runs=blank.csv", "blank.csv: fabir with seed 2: f1 is '', expected a number"),
        ("--runs=short.csv", "short.csv: fabir with seed 2: f1 is None, expected a number"),
    ],
)
def test_runs_that_cannot_be_compared_are_reported(tmp_path, arguments, part, run_script):
    head = "configuration,seed,exact_match,f1\n"
    (tmp_path / "runs.csv").write_text(head + "fabir,1,40,52\n")
    (tmp_path / "heading.csv").write_text(head)
    (tmp_path / "blank.csv").write_text(head + "fabir,1,40,52\nfabir,2,40,\n")
    (tmp_path / "short.csv").write_text(head + "fabir,1,40,52\nfabir,2,40\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    done = run_script("gains", *arguments.split())
    assert done.status == 2
    assert part in done.stderr


@pytest.mark.slow
def test_a_power_law_predicts_the_effect_of_more_questions(tmp_path, run_script):
    import numpy as np

    questions = [1000, 2000, 4000, 8000]
    missing = np.array([80.0, 57.0, 41.0, 27.0])
    tables = []
    for number, part in zip(questions, missing, strict=True):
        table = f"configuration,seed,exact_match,f1\nbidaf,1,0,1\nfabir,1,5,{100 - part}\n"
        (tmp_path / f"{number}.csv").write_text(table)
        tables.append(f"{number}={number}.csv")
    # In any order of the sizes.
    runs = f"--runs={','.join(reversed(tables))}"
    done = run_script("training_sizes", runs, "--expect=16000", "--picture=sizes.png")
    assert done.status == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2:6:3] == [
        "| fabir | 1,000 | 1 | 5.00 | 20.00 | 20.00 |",
        "| fabir | 8,000 | 1 | 5.00 | 73.00 | 73.00 |",
    ]
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    # The normal equations of log(missing) = a + b log2(questions / 1000), and Student's t from a table: 4.303, 12.706.
    for end, target, student in ((4, 4, 4.303), (3, 3, 12.706)):
        design = np.stack([np.ones(end), np.arange(end)], axis=1)
        inverse = np.linalg.inv(design.T @ design)
        law = inverse @ design.T @ np.log(missing[:end])
        rest = np.log(missing[:end]) - design @ law
        at = np.array([1.0, target])
        margin = student * math.sqrt(rest @ rest / (end - 2) * (1 + at @ inverse @ at))
        expected = [100 - math.exp(at @ law + part) for part in (0, margin, -margin)]
        (line,) = [line for line in lines if line.startswith(f"Expected at {questions[-1] * 2 ** (end - 3):,}")]
        shown = line.split(": ", 1)[1].split("; ")[0].removeprefix("F1 ").rstrip(".)").replace(" (", " to ")
        assert [float(number) for number in shown.split(" to ")] == pytest.approx(expected, abs=0.006)
        if end == len(questions):
            assert f"falls by {1 - math.exp(law[1]):.1%} whenever" in done.stdout


@pytest.mark.slow
def test_no_predicted_f1_is_below_zero(tmp_path, run_script):
    for questions, f1 in ((2500, 28), (5000, 37), (10000, 53), (20000, 63)):
        (tmp_path / f"{questions}.csv").write_text(f"configuration,seed,exact_match,f1\nfabir,1,5,{f1}\n")
    runs = ",".join(f"{questions}={questions}.csv" for questions in (2500, 5000, 10000, 20000))
    done = run_script("training_sizes", f"--runs={runs}")
    assert done.status == 0, done.stderr
    # Three points far from a line give an interval of nearly all values.
    assert "(0.00 to 9" in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("", "--runs is missing"),
        ("--runs=runs.csv", "found 'runs.csv', expected QUESTIONS=FILE"),
        ("--runs=0=runs.csv", "found '0=runs.csv', expected QUESTIONS=FILE"),
        ("--runs=10=absent.csv", "absent.csv: no such file"),
        ("--runs=10=runs.csv,20=runs.csv", "fabir: found runs of 10, 20 questions, expected 4 sizes or more"),
        ("--runs=10=runs.csv --configurations=bidaf", "bidaf: found runs of no questions"),
        ("--runs=10=all.csv,20=runs.csv,30=runs.csv,40=runs.csv", "fabir: found an F1 of 100.0, expected 0 to less"),
    ],
)
def test_useless_sizes_are_reported(tmp_path, arguments, part, run_script):
    for name, f1 in (("runs", 50), ("all", 100)):
        (tmp_path / f"{name}.csv").write_text(f"configuration,seed,exact_match,f1\nfabir,1,40,{f1}\n")
    done = run_script("training_sizes", *arguments.split())
    assert done.status == 2
    assert part in done.stderr


@pytest.mark.long
def test_an_ensemble_is_measured_beside_its_members(tmp_path, run_script):
    write_squad(tmp_path / "dev.json", ARTICLES)
    packed = pack_ensemble(["fabir-base", "fabir-base"], tmp_path / "both", [2, 1], 100)
    other = pack_ensemble([packed / "members" / "0"], tmp_path / "one", max_words=100)
    arguments = (f"--ensembles={packed},{other}", "--datasets=dev.json", "--json_file=found.json", "--kept=kept")
    done = run_script("ensembles", *arguments)
    assert done.status == 0, done
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert run_script("ensembles", *arguments).stdout == done.stdout
    found = json.loads((tmp_path / "found.json").read_text())["found"]["dev.json"]
    # The same reader is read once.
    assert list(found) == ["0: fabir", "both", "one"]
    for reader in found.values():
        assert reader["F1"]["mean"] == found["both"]["F1"]["mean"] and reader["questions_per_second"] > 0
    for name in ("both", "one"):
        assert found[name]["F1"]["gain"] == found[name]["EM"]["gain"] == [0, 0]
    assert run_script("ensembles", "--ensembles=fabir-base").status == 2
    done = run_script("ensembles", f"--ensembles={packed},{packed}")
    assert done.status == 2 and "--ensembles: found two folders of the same name" in done.stderr
    done = run_script("ensembles", f"--ensembles={packed}", "--kept=dev.json")
    assert done.status == 2 and "dev.json" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_both_searches_find_the_same_spans(tmp_path, run_script):
    small = ("--passages=7", "--tokens=23", "--n_best=4", "--turns=1", "--repeats=1")
    done = run_script("span_search", *small, "--json_file=found.json")
    assert done.status == 0, done.stderr
    (table,), (decoder,) = (one["turns"] for one in json.loads((tmp_path / "found.json").read_text())["found"].values())
    assert table["tokens"] == decoder["tokens"] > 0 and min(table["ms"], decoder["ms"]) > 0


@pytest.mark.slow
def test_the_ways_to_compute_gelu_agree(tmp_path, run_script):
    small = ("--rows=9", "--features=5", "--precision=float32", "--turns=1", "--repeats=1")
    done = run_script("gelu", *small, "--json_file=found.json")
    assert done.status == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert len(found) == 3
    for one in found.values():
        assert one["error"] < 1e-6 and one["both"].keys() == SPREAD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("merge_unanswerable", ["--unanswerable=train.json", "--titles=Owl", "--output=."]),
        ("set_aside", ["--titles=Owl", "--output=."]),
        ("join_passages", ["--output=train.json"]),
        ("draw_passages", ["--questions=1", "--output=train.json"]),
        ("rewrite_texts", ["--kind=lower", "--output=train.json"]),
        ("shuffle_sentences", ["--output=train.json"]),
    ],
)
def test_data_is_not_written_over_its_source(tmp_path, script, more, run_script):
    data = tmp_path / "train.json"
    write_squad(data, ARTICLES)
    before = data.read_bytes()
    done = run_script(script, f"--dataset={data}", *more)
    assert done.status == 2
    assert "train.json is the file that --dataset reads" in done.stderr
    assert data.read_bytes() == before


@pytest.mark.long
def test_a_small_initial_scale_keeps_untrained_tokens_different(tmp_path, run_script):
    write_squad(tmp_path / "dev.json", ARTICLES)
    arguments = ("--dataset=dev.json", "--questions=3", "--starts=1,0.1", "--run_dirs=fabir-base")
    done = run_script("alike", *arguments)
    assert done.status == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    assert head == ["", "reduction layer", "layer 1", "layer 2", "layer 3"]
    shares = {name: [float(share) for share in of_layers] for name, *of_layers in rows}
    assert set(shares) == {"column, 1", "column, 0.1", "row, 1", "row, 0.1", "fabir-base"}
    assert all(0 < share < 1 for of_layers in shares.values() for share in of_layers)
    for attention in ("column", "row"):
        assert shares[f"{attention}, 1"][-1] < shares[f"{attention}, 0.1"][-1] / 4


@pytest.mark.slow
def test_smaller_first_weights_of_attention_keep_untrained_tokens_different(tmp_path, run_script):
    write_squad(tmp_path / "dev.json", ARTICLES)
    arguments = ("--dataset=dev.json", "--questions=3", "--seeds=1", "--rules=matrix,einsum,quarter_feed_forward")
    done = run_script("first_weights", *arguments)
    assert done.status == 0, done.stderr
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("|")][2:]
    last = {name.strip(): float(cells[-1]) for name, *cells in rows}
    assert 2 * last["matrix"] < last["einsum"] < 1
    assert last["quarter_feed_forward"] < 2 * last["matrix"]
    assert run_script("first_weights", "--train=dev.json").status == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("--starts= --run_dirs=", "--starts and --run_dirs are both empty"),
        ("--starts=small", "--starts: found 'small', expected a number from 0 to 1"),
        ("--starts=2", "residual_init_scale must be"),
        ("--cross_attention=both", "--cross_attention: found 'both', expected some of column, row"),
        ("--starts= --run_dirs=absent", "absent"),
    ],
)
def test_readers_that_cannot_be_measured_are_reported(tmp_path, arguments, part, run_script):
    done = run_script("alike", *arguments.split())
    assert done.status == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_reader_is_asked_among_other_paragraphs(tmp_path, run_script):
    path = tmp_path / "found.json"
    done = run_script("among_paragraphs", "--questions=5", "--pairs=8", "--others=2", f"--json_file={path}")
    assert done.status == 0, done
    (found,) = json.loads(path.read_text())["found"].values()
    assert list(found["f1"]) == ["alone", "2 others, by score", "2 others, by probability"]
    assert min(found["f1"].values()) > 0 and max(found["f1"].values()) == found["f1"]["alone"] <= 100
    assert 0.5 < found["auroc"]["another article"] <= 1
    # Each text of the sample is an article of its own.
    assert found["auroc"]["the same article"] is None


@pytest.mark.slow
def test_a_teacher_of_clean_texts_teaches_rough_ones(tmp_path, tiny_run, run_script):
    (tmp_path / "words.tsv").write_text("milll\tmill\tx\n", encoding="utf-8")
    clean = write_squad(tmp_path / "clean.json", ARTICLES)
    flags = ("--misspelt=1", "--unpunctuated=1", "--output=rough.json")
    assert run_script("roughen_texts", f"--dataset={clean}", "--misspellings=words.tsv", *flags).status == 0
    flags = (f"--readers={tiny_run.path}", f"--dataset={clean}", "--roughened=rough.json", "--output=teacher.npz")
    done = run_script("teach_roughened", *flags)
    assert done.status == 0, done
    taught = TeacherDistributions.load(tmp_path / "teacher.npz")
    reader, rough, data = Reader.load(tiny_run.path), read_squad(tmp_path / "rough.json"), read_squad(clean)
    rows = {identifier: row for row, identifier in enumerate(taught.ids)}
    assert set(rows) == {question.id for question in rough.questions}
    new = {question.id: rough.passages[question.passage] for question in rough.questions}
    for scores in reader.scores(data):
        question = data.questions[scores.question]
        row = rows[question.id]
        is_word = [data.passages[question.passage][end - 1].isalnum() for end in scores.ends]
        assert taught.lengths[row] == len(reader.processor.tokenize_text(new[question.id]).starts) == sum(is_word)
        # The likeliest start is that of the clean text without its punctuation.
        assert taught.indices[row, 0, 0] == np.argmax(scores.start_logits[is_word])
        np.testing.assert_allclose(taught.probabilities[row].sum(-1) + taught.null_probabilities[row], 1, rtol=2e-3)


@pytest.mark.long
def test_a_reader_is_adapted_to_folds(tmp_path, tiny_run, run_script):
    data = write_squad(tmp_path / "all.json", ARTICLES)
    more = "--train_flags=--epochs=1,--linear_decay_epochs=0,--kept_dataset=,--start_share=0"
    flags = ("--folds=2", f"--elsewhere={tiny_run.dev}", "--json_file=found.json", more)
    done = run_script("adapting", f"--reader={tiny_run.path}", f"--dataset={data}", *flags)
    assert done.status == 0, done
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert [row["questions"] for row in found["folds"]] == [6, 6]
    mean = np.mean([row["after"][1] - row["before"][1] for row in found["folds"]])
    assert found["gain"][0] == pytest.approx(mean)
    assert found["gain"][1] <= found["gain"][0] <= found["gain"][2]
    assert list(found["before"]) == [tiny_run.dev]


@pytest.mark.slow
def test_documents_and_folders_are_asked(tmp_path, tiny_run, run_script):
    data = write_squad(tmp_path / "all.json", ARTICLES)
    flags = ("--others=1,3", "--questions=4", "--declined=2", "--open", "--rank_weights=0,1", "--json_file=found.json")
    done = run_script("documents", f"--reader={tiny_run.path}", f"--dataset={data}", *flags)
    assert done.status == 0, done
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert [row["paragraphs"] for row in found["among"]] == [1, 2, 4]
    # A reader without a null head never declines.
    assert found["declined"] == [["yes", 2, "0.0"], ["no", 2, "0.0"]]
    assert [weight for weight, _, _ in found["open"]] == [0, 1]
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "mill.md").write_text("# Mill\n\nThe mill was built by **Anna Keld**.\n")
    asked = [{"question": "Who built the mill?", "answers": ["Anna Keld"]}, {"question": "Who sold it?", "answers": []}]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    done = run_script("ask_folder", "--folder=notes", "--questions=asked.json")
    assert done.status == 0, done
    assert "right: 1, wrong: 0, declined rightly: 1, declined wrongly: 0, markup: 0" in done.stdout


def test_no_wrong_paragraph_holds_a_reference():
    data = load_dataset("sample", "train")
    draw = benchmark_module("wrong_paragraphs").Draw(data, 1)
    asked = draw.questions(40)
    assert len(set(asked)) == 40 and all(data.questions[number].answers for number in asked)
    for number in asked:
        question, others = data.questions[number], draw.others(number, 9)
        assert len(set(others)) == 9 and question.passage not in others
        for passage in others:
            text = f" {normalize_answer(data.passages[passage])} "
            assert not any(f" {normalize_answer(answer.text)} " in text for answer in question.answers)


def test_the_formulas_count_what_is_computed():
    import tensorflow as tf

    import fabir_tf

    costs = benchmark_module("costs")
    config = fabir_tf.FabirConfig(frozen_words=10)
    layer = fabir_tf.build_model(config).get_layer
    texts, passage, question = 3, 17, 7
    rows, shape = texts * passage, (texts, passage, question, config, costs.FLOAT)
    masks = [tf.ones((texts, tokens), tf.bool) for tokens in (passage, question)]
    both = {"passage_mask": masks[0], "question_mask": masks[1]}

    mask = tf.TensorSpec(masks[0].shape, tf.bool)

    def ids(*dimensions):
        return tf.TensorSpec(dimensions, tf.int32)

    def vectors(tokens, features):
        return tf.TensorSpec((texts, tokens, features), tf.float32)

    wide = [vectors(tokens, 200) for tokens in (passage, question)]
    narrow = [vectors(tokens, 100) for tokens in (passage, question)]
    found = {
        "word_embedding": operations_in(layer("word_embedding"), ids(texts, passage)),
        "character_embedding": operations_in(layer("character_embedding"), ids(texts, passage, 20)),
        "highway": operations_in(layer("highway"), wide[0]),
        "decoupled_encoder": operations_in(layer("decoupled_encoder"), wide[0], mask, text="passage"),
        "reduction_layer": operations_in(layer("reduction_layer"), *wide, *narrow, **both),
        "processing_layer": operations_in(layer("processing_layer_1"), *narrow, **both),
        "selector": operations_in(layer("selector"), narrow[0], passage_mask=masks[0]),
    }
    of_rows = (rows, config, costs.FLOAT)
    expected = {
        "word_embedding": costs.word_embedding(*of_rows),
        "character_embedding": costs.character_embedding(*of_rows),
        "highway": costs.highway(*of_rows),
        "decoupled_encoder": costs.decoupled_encoder(texts, passage, config, costs.FLOAT),
        "reduction_layer": costs.reduction_layer(*shape),
        "processing_layer": costs.processing_layer(*shape),
        "selector": costs.selector(*of_rows),
    }
    assert found == {name: cost.operations for name, cost in expected.items()}


def write_tree(folder, *, old):
    """A folder with the files by which the layout of a version is recognized."""
    layout = benchmark_module("both_layouts")
    for file in (layout.OldLayout if old else layout.TodaysLayout).files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


@pytest.mark.parametrize("old", [True, False])
def test_the_layout_of_a_version_is_found(tmp_path, old):
    layout = benchmark_module("both_layouts")
    expected = "OldLayout" if old else "TodaysLayout"
    assert layout.layout_class(str(write_tree(tmp_path, old=old))).__name__ == expected
    assert layout.layout_class(str(ROOT)) is layout.TodaysLayout


@pytest.mark.long
def test_versions_take_turns(tmp_path):
    write_squad(tmp_path / "data.json", ARTICLES)
    flags = (f"--tree={ROOT}", "--dataset=data.json", "--train_dataset=data.json", "--tasks=inference,training,single")
    found = found_by(tmp_path, "against_commit", *flags)
    assert set(found) == {"inference", "training", "single"}
    for task in found.values():
        assert set(task["turns"]) == {"earlier", "now"}
        (earlier,), (now,) = task["turns"]["earlier"], task["turns"]["now"]
        assert earlier["questions"] == now["questions"] == 12
        ratio = earlier["processor_ms"] / now["processor_ms"]
        assert task["ratio"] == pytest.approx({"median": ratio, "low": ratio, "high": ratio})


@pytest.mark.long
def test_whole_commands_take_turns(tmp_path):
    found = found_by(tmp_path, "commands_start", f"--tree={ROOT}", "--commands=predict")["predict"]
    assert set(found) == {"earlier", "now", "ratio"}
    assert found["ratio"]["median"] == found["earlier"]["median"] / found["now"]["median"] > 0


@pytest.mark.long
def test_clients_ask_an_exported_reader_one_question_at_a_time(exported, tmp_path):
    write_squad(tmp_path / "data.json", ARTICLES)
    asked = (f"--version={exported.folder}", "--dataset=data.json", "--clients=2")
    (found,) = found_by(tmp_path, "clients", *asked).values()
    assert set(found["one thread / all cores"]) == SPREAD
    assert set(found["turns"]) == {"all cores", "one thread"}
    for (turn,) in found["turns"].values():
        assert turn["questions"] == 12 and turn["speed"] > 0


def test_the_interval_of_a_median_is_from_a_bootstrap():
    median_interval = benchmark_module("common").median_interval
    # Of three values, the median of a sample is the least one in 7 of 27 cases, and the greatest one just as often.
    assert median_interval([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}
    found = median_interval([float(value) for value in range(101)])
    assert found["median"] == 50
    # The standard error of the median of a uniform sample of 101 values from 0 to 100 is about 100 / (2 sqrt(101)) = 5.
    assert found["low"] == pytest.approx(40, abs=3)
    assert found["high"] == pytest.approx(60, abs=3)


@pytest.mark.slow
def test_a_terminated_race_leaves_no_files(tmp_path):
    process = subprocess.Popen(
        command("against_commit", "--commit=HEAD"),
        env=environment() | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not list(tmp_path.glob("*/fabir_tf/models")):
        time.sleep(0.1)
    if process.poll() == 2 and b"git finds no such commit" in process.stderr.read():
        pytest.skip("needs git and its checkout")
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "argument", "sentence"),
    [
        ("against_commit", "--commit=nothing-of-that-name", "error: --commit=nothing-of-that-name: git finds"),
        ("clients", "--version=absent", "error: --version=absent: expected the folder of a version"),
        ("against_commit", "--commit=HEAD --tree=.", "error: expected either --commit or --tree"),
        ("against_commit", "--tree=.", "error: {folder}: found no known layout of fabir_tf"),
        ("scaling", "--passages=0", "error: --passages: found '0', expected numbers from 1, separated by commas"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, script, argument, sentence, run_script):
    done = run_script(script, *argument.split())
    assert done.status == 2
    expected = sentence.format(folder=tmp_path)
    assert done.stderr.splitlines()[-1].startswith(expected), done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_search_finds_and_indexes(run_script, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mill.md").write_text("# Mill\n\n" + "The wheel turns. " * 40 + "\n\n" + "It grinds. " * 80)
    dataset = write_squad(tmp_path / "dev.json", ARTICLES)
    sizes = ("--corpus=pages,dev.json", "--sizes=2,3,1000", "--questions=2")
    printed = run_script("search", f"--dataset={dataset}", "--k1=0.6,1.2", *sizes)
    assert printed.status == 0, printed
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.stdout.splitlines() if "|" in line]
    recalls = [row for row in rows if row[0] in ("passage", "title and passage")]
    assert [(row[1], row[2]) for row in recalls] == [("0.6", "0.75"), ("1.2", "0.75")] * 2
    assert all(0 <= float(row[3]) <= float(row[4]) <= float(row[5]) <= 100 for row in recalls)
    assert [(row[0], row[-1]) for row in rows if row[-1] in ("yes", "no")] == [("2", "yes"), ("3", "yes")]


@pytest.mark.long
def test_shards_find_what_one_file_finds(run_script, tmp_path):
    write_squad(tmp_path / "dev.json", ARTICLES)
    printed = run_script("shards", "--dataset=", "--corpus=dev.json", "--paragraphs=30", "--shards=2", "--questions=3")
    assert printed.status == 0, printed
    asked = re.search(r"30 paragraphs, (\d+) questions: .* the same for (\d+)", printed.stdout)
    assert asked[1] == asked[2] != "0"
    for row in ("one file", "2 shards"):
        assert any(line.startswith(f"| {row} ") for line in printed.stdout.splitlines())
