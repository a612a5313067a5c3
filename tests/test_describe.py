"""fabir-describe: the counts of a dataset, by hand on a small one."""

import json

import pytest
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, squad_json, write_squad

from fabir_tf.analysis.data_statistics import LIMITS, as_table, data_statistics
from fabir_tf.pipelines.datasets.squad import squad_from_json
from fabir_tf.pipelines.text.tokenized import tokenize_dataset
from fabir_tf.pipelines.text.word_processor import WordTokenizer


def statistics_of(content, **options):
    return data_statistics(tokenize_dataset(squad_from_json(content, "tiny"), WordTokenizer()), **options)


def test_a_small_dataset_is_counted():
    content = squad_json(ARTICLES[:2])
    lake = content["data"][1]["paragraphs"][0]["qas"]
    lake[0] |= {"answers": [], "is_impossible": True}
    lake[2]["answers"] *= 3
    lake[1]["answers"][0]["answer_start"] += 1
    found = statistics_of(content, limits={"passage": (11, 17), "question": (5, 9), "answer": (2,)})
    assert (found["articles"], found["articles_with_unanswerable"], found["passages"]) == (2, 1, 2)
    assert (found["questions"], found["unanswerable"], found["answers_not_at_offset"]) == (6, 1, 1)
    assert found["answers_per_question"] == pytest.approx(7 / 5)
    # The passages have 11 and 17 tokens and three questions each.
    assert found["tokens"]["passage"] == {"least": 11, "mean": 14.0, "median": 14.0, "greatest": 17}
    assert found["tokens"]["question"] == {"least": 3, "mean": pytest.approx(38 / 6), "median": 6.5, "greatest": 9}
    # Anna Keld, 1712, The old mill, Lake Orrin.
    assert found["tokens"]["answer"] == {"least": 1, "mean": 2.0, "median": 2.0, "greatest": 3}
    assert found["over"] == {
        "passage": {"11": 0.5, "17": 0.0},
        "question": {"5": pytest.approx(4 / 6), "9": 0.0},
        "answer": {"2": 0.25},
    }


def test_words_are_counted_in_lower_case_and_looked_up():
    content = squad_json([("", "The mill. the MILL", (("The mill?", "The mill"),))])
    found = statistics_of(content, known={"the", "mill", "owl"})
    assert found["words"] == 4
    assert found["words_with_vector"] == 0.5
    assert statistics_of(content)["words_with_vector"] is None


def test_without_answers_there_are_no_lengths():
    content = squad_json([("", "A mill.", (("Which?", "mill"),))])
    content["data"][0]["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
    found = statistics_of(content)
    assert set(found["tokens"]["answer"].values()) == set(found["over"]["answer"].values()) == {None}
    assert found["answers_per_question"] is None
    # A passage without a title belongs to no article.
    assert found["articles"] == found["articles_with_unanswerable"] == 0
    assert "| tokens of the answer: least, mean, median, greatest | -, -, -, - |" in as_table({"tiny": found})


def test_the_command_prints_a_column_for_each_dataset(commands, tmp_path):
    files = [
        write_squad(tmp_path / f"{name}.json", articles) for name, articles in (("a", ARTICLES), ("b", DEV_ARTICLES))
    ]
    written = tmp_path / "found.json"
    flags = (f"--datasets={','.join(files)},sample", "--vectors=bundled", f"--json_file={written}", "--cache_dir=")
    done = commands("describe", *flags, "--passage_limits=20")
    assert done.status == 0, done
    head, rule, *rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    assert head == [*files, "sample, train", "sample, dev"] and len(rule) == 5
    cells = {row[0]: row[1:] for row in rows}
    assert cells["questions"] == ["12", "4", "1,026", "288"]
    assert cells["passage over 20 tokens"][:2] == ["50.00 %", "0.00 %"]
    assert f"question over {LIMITS['question'][0]} tokens" in cells
    found = json.loads(written.read_text())
    assert list(found) == head and found[files[0]]["questions"] == 12
    assert 0.5 < found["sample, train"]["words_with_vector"] < 1


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("", ["--datasets is missing"]),
        ("--datasets=absent.json", ["absent.json", "no such file"]),
        ("--datasets=sample,", ["--datasets=", "an empty name"]),
        ("--datasets=sample --answer_limits=3,many", ["--answer_limits", "'many'", "whole numbers"]),
        ("--datasets=sample --vectors=absent.txt", ["absent.txt", "no such file"]),
        ("--datasets=sample --json_file=/dev/null/found.json", ["/dev/null"]),
    ],
)
def test_mistakes(commands, arguments, parts):
    assert_error(commands, "describe", arguments, parts)


@pytest.mark.parametrize("flag", ["datasets", "vectors"])
def test_what_is_counted_is_not_overwritten(commands, tmp_path, flag):
    data = write_squad(tmp_path / "data.json", ARTICLES)
    other = tmp_path / "other"
    other.write_text("the 1 2\n")
    path = {"datasets": data, "vectors": str(other)}[flag]
    arguments = [f"--datasets=sample,{data}", f"--vectors={other}", f"--json_file={path}"]
    assert_error(commands, "describe", arguments, [f"--json_file={path} is the file that --{flag} reads"])
