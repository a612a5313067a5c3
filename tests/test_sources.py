"""Tests of loading questions: files, the bundled sample, TensorFlow Datasets, and "auto" without a network."""

import hashlib
import json
import threading

import numpy as np
import pytest
import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from fabir_tf.pipelines.datasets import sources
from fabir_tf.pipelines.datasets.squad import Answer, Question, check_offsets
from fabir_tf.pipelines.errors import UserError

PASSAGES = {"Ada": "Caf\u00e9 \U0001f600 Ada wrote it.", "Bob": "Bob read it."}
ROWS = {
    "train": [
        ("q1", "Ada", "Who wrote?", [("Ada", 7)], False),
        ("q2", "Bob", "Who read?", [("Bob", 0), ("Bob read it", 0)], False),
        ("q3", "Ada", "What was done?", [("wrote", 11)], False),
    ],
    "dev": [("d1", "Bob", "Who slept?", [], True)],
}
URL = "https://squad.invalid/"


def squad_json(split):
    entries = []
    for identifier, title, text, answers, impossible in ROWS[split]:
        listed = [{"text": answer, "answer_start": start} for answer, start in answers]
        entry = {"id": identifier, "question": text, "answers": listed, "is_impossible": impossible}
        entries.append({"title": title, "paragraphs": [{"context": PASSAGES[title], "qas": [entry]}]})
    return json.dumps({"data": entries})


def url_info(split):
    raw = squad_json(split).encode()
    return checksums.UrlInfo(size=len(raw), checksum=hashlib.sha256(raw).hexdigest(), filename=f"{split}-tiny.json")


class TinySquad(tfds.core.GeneratorBasedBuilder):
    """A dataset with the features of SQuAD 2.0 that is downloaded or read from a folder, like the real one."""

    VERSION = tfds.core.Version("1.0.0")
    url_infos = {f"{URL}{split}-tiny.json": url_info(split) for split in ROWS}  # noqa: RUF012

    def _info(self):
        answer = {"text": tfds.features.Text(), "answer_start": np.int32}
        texts = {name: tfds.features.Text() for name in ("id", "title", "context", "question")}
        features = {**texts, "answers": tfds.features.Sequence(answer), "is_impossible": np.bool_}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, manager):
        paths = manager.download_and_extract({split: f"{URL}{split}-tiny.json" for split in ROWS})
        return {"train": self._generate_examples(paths["train"]), "validation": self._generate_examples(paths["dev"])}

    def _generate_examples(self, path):
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
            paragraph = article["paragraphs"][0]
            entry = paragraph["qas"][0]
            yield entry["id"], {"title": article["title"], "context": paragraph["context"], **entry}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Every probe fails and is recorded; each test resolves "auto" anew."""
    probed = []
    monkeypatch.setattr(sources, "is_reachable", lambda url: probed.append(url))
    sources._settle_auto.cache_clear()
    yield probed
    sources._settle_auto.cache_clear()


@pytest.fixture
def manual_dir(tmp_path):
    folder = tmp_path / "manual"
    folder.mkdir()
    for split in ROWS:
        (folder / f"{split}-tiny.json").write_text(squad_json(split), encoding="utf-8")
    return folder


def failure(*arguments, **named):
    with pytest.raises(UserError) as caught:
        sources.load_dataset(*arguments, **named)
    message = str(caught.value)
    assert "\n" not in message
    return message


def by_id(data):
    return {question.id: question for question in data.questions}


# === Files and the sample ===


def test_a_path_is_read_whole_for_either_split(tmp_path):
    for name in ("mine.json", "without-ending"):
        path = tmp_path / name
        path.write_text(squad_json("train"), encoding="utf-8")
        for split in ("train", "dev"):
            assert list(by_id(sources.load_dataset(str(path), split, log=pytest.fail))) == ["q1", "q2", "q3"]


def test_a_missing_json_file_is_not_looked_up_in_tfds():
    message = failure("absent/mine.json", "train")
    assert "absent/mine.json" in message
    assert "no such file" in message


def test_an_unknown_split_is_reported():
    assert "'test'" in failure("sample", "test")


@pytest.mark.parametrize("split", ["train", "dev"])
def test_the_sample_is_fit_for_training(split):
    data = sources.load_dataset("sample", split, log=pytest.fail)
    assert data.name == f"sample ({split})"
    check_offsets(data)


def test_the_error_of_a_missing_sample_names_the_file(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "BUNDLED", tmp_path)
    assert "sample-dev.json" in failure("sample", "dev")


# === TensorFlow Datasets ===


def test_tfds_is_prepared_from_a_folder_without_a_probe(tmp_path, manual_dir, offline):
    folders = {"tfds_data_dir": str(tmp_path / "prepared"), "tfds_manual_dir": str(manual_dir)}
    data = sources.load_dataset("tiny_squad", "train", log=pytest.fail, **folders)
    assert data.name == "tiny_squad (train)"
    assert dict(zip(data.titles, data.passages, strict=True)) == PASSAGES
    passages = {title: index for index, title in enumerate(data.titles)}
    assert by_id(data) == {
        "q1": Question("q1", "Who wrote?", passages["Ada"], (Answer("Ada", 7),)),
        "q2": Question("q2", "Who read?", passages["Bob"], (Answer("Bob", 0), Answer("Bob read it", 0))),
        "q3": Question("q3", "What was done?", passages["Ada"], (Answer("wrote", 11),)),
    }
    check_offsets(data)
    # The dataset is prepared now, so neither the folder nor the network is needed.
    folders.pop("tfds_manual_dir")
    again = sources.load_dataset("tiny_squad", "dev", **folders)
    assert again.questions == (Question("d1", "Who slept?", 0, (), True),)
    assert offline == []


def test_tfds_with_unofficial_files_is_an_error(tmp_path, manual_dir):
    (manual_dir / "dev-tiny.json").write_text("{}", encoding="utf-8")
    message = failure("tiny_squad", "dev", tfds_data_dir=str(tmp_path / "d"), tfds_manual_dir=str(manual_dir))
    for part in ["--dataset=tiny_squad", "dev-tiny.json", "checksum", "--dataset=PATH"]:
        assert part in message


def test_tfds_folder_without_a_file_is_an_error(tmp_path, manual_dir):
    (manual_dir / "dev-tiny.json").unlink()
    message = failure("tiny_squad", "dev", tfds_data_dir=str(tmp_path / "d"), tfds_manual_dir=str(manual_dir))
    for part in [f"dev-tiny.json not found in --tfds_manual_dir={manual_dir}", "squad.invalid cannot be reached"]:
        assert part in message
    message = failure("tiny_squad", "dev", tfds_data_dir=str(tmp_path / "d"), tfds_manual_dir="absent")
    assert "--tfds_manual_dir=absent" in message
    assert "no such folder" in message


def test_the_offline_error_of_tfds_says_what_to_do(tmp_path, offline):
    message = failure("squad/v2.0", "dev", tfds_data_dir=str(tmp_path))
    for part in [
        "--dataset=squad/v2.0",
        str(tmp_path),
        "rajpurkar.github.io cannot be reached",
        "train-v2.0.json and dev-v2.0.json",
        "--tfds_manual_dir",
        "--dataset=PATH",
    ]:
        assert part in message
    assert len(offline) == 1


def test_a_failing_tfds_download_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "is_reachable", lambda url: True)

    def fail(*_, **__):
        raise requests.ConnectionError("cut off\nin the middle")

    monkeypatch.setattr(TinySquad, "download_and_prepare", fail)
    message = failure("tiny_squad", "dev", tfds_data_dir=str(tmp_path))
    assert "cut off" in message
    assert "--tfds_manual_dir" in message


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("no_such_thing", ["no such file or dataset"]),
        ("squad/v9.9", ["no such file or dataset"]),
        ("squad/v1.1:9.9.9", ["no such file or dataset"]),
        ("not a name", ["no such file or dataset"]),
        ("", ["found an empty name"]),
    ],
)
def test_unknown_tfds_names_are_reported(tmp_path, spec, parts):
    message = failure(spec, "dev", tfds_data_dir=str(tmp_path))
    for part in [f"--dataset={spec}", "file of questions", "auto", "sample", "squad/v1.1", *parts]:
        assert part in message


def test_a_folder_is_reported_as_a_folder(tmp_path):
    assert "found a folder" in failure(str(tmp_path), "dev")


def test_tfds_without_squad_features_is_an_error(tmp_path):
    message = failure("mnist", "train", tfds_data_dir=str(tmp_path))
    for part in ["--dataset=mnist", "image, label", "id, context, question, answers"]:
        assert part in message


@pytest.mark.parametrize("spec", ["squad/v1.1", "squad/v2.0"])
def test_tfds_mock_data_is_loaded_offline(tmp_path, spec, offline):
    with tfds.testing.mock_data(num_examples=7):
        data = sources.load_dataset(spec, "dev", tfds_data_dir=str(tmp_path))
    assert len(data.questions) == 7
    assert all(not (question.is_impossible and question.answers) for question in data.questions)
    assert offline == []


def row(identifier, context="c", title="t"):
    answers = {"text": [b"x"], "answer_start": [0]}
    texts = {"id": identifier, "context": context, "title": title, "question": "?"}
    return {key: text.encode() for key, text in texts.items()} | {"answers": answers}


def test_rows_share_a_passage_only_with_the_same_title():
    rows = [row("1"), row("2", title="u"), row("3", context="d"), row("4")]
    data = sources.data_from_rows(rows, "rows")
    assert [question.passage for question in data.questions] == [0, 1, 2, 0]
    assert (data.passages, data.titles) == (("c", "c", "d"), ("t", "u", "t"))
    untitled = [{key: value for key, value in row("1").items() if key != "title"}]
    assert sources.data_from_rows(untitled, "rows").titles == ("",)


@pytest.mark.parametrize(("rows", "part"), [([], "no question"), ([row("1"), row("1")], "'1'")])
def test_empty_and_repeated_rows_are_errors(rows, part):
    with pytest.raises(UserError, match=part):
        sources.data_from_rows(rows, "rows")


# === auto ===


@pytest.fixture
def tiny_auto(monkeypatch, tmp_path):
    """Makes "auto" use the tiny dataset instead of SQuAD, and a sample of one question."""
    bundled = tmp_path / "bundled"
    bundled.mkdir()
    for split in ROWS:
        (bundled / f"sample-{split}.json").write_text(squad_json("dev"), encoding="utf-8")
    monkeypatch.setattr(sources, "BUNDLED", bundled)
    monkeypatch.setattr(sources, "SQUAD", "tiny_squad")
    return {"tfds_data_dir": str(tmp_path / "prepared")}


def test_auto_offline_is_the_sample_and_logs_one_line(tiny_auto, offline):
    lines = []
    data = sources.load_dataset("auto", "train", log=lines.append, **tiny_auto)
    assert data.name == "sample (train)"
    (line,) = lines
    for part in ["--dataset=auto", "bundled sample", "tiny_squad", "squad.invalid cannot be reached"]:
        assert part in line
    # The other split is of the same dataset, without a second probe.
    assert sources.load_dataset("auto", "dev", log=lines.append, **tiny_auto).name == "sample (dev)"
    assert len(offline) == 1


def test_auto_is_squad_if_it_is_prepared_or_can_be_prepared(tiny_auto, manual_dir, offline):
    lines = []
    data = sources.load_dataset("auto", "train", tfds_manual_dir=str(manual_dir), log=lines.append, **tiny_auto)
    assert data.name == "tiny_squad (train)"
    assert f"prepared from {manual_dir}" in lines[0]
    data = sources.load_dataset("auto", "dev", log=lines.append, **tiny_auto)
    assert data.name == "tiny_squad (dev)"
    assert "is prepared in" in lines[1]
    assert len(lines) == 2
    assert offline == []


def test_auto_with_an_incomplete_folder_is_an_error(tiny_auto, manual_dir):
    (manual_dir / "train-tiny.json").unlink()
    assert "train-tiny.json" in failure("auto", "train", tfds_manual_dir=str(manual_dir), log=pytest.fail, **tiny_auto)


def test_auto_is_the_sample_if_the_download_fails(tiny_auto, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(sources, "is_reachable", lambda url: True)
    monkeypatch.setattr(TinySquad, "download_and_prepare", fail)
    lines = []
    assert sources.load_dataset("auto", "dev", log=lines.append, **tiny_auto).name == "sample (dev)"
    assert "disk full" in lines[0]


# === The probe ===


@pytest.fixture
def probe(monkeypatch):
    """Runs the real probe with `requests.head` replaced."""
    monkeypatch.undo()

    def run(head, seconds=5.0):
        monkeypatch.setattr(requests, "head", head)
        monkeypatch.setattr(sources, "PROBE_SECONDS", seconds)
        return sources.is_reachable("https://squad.invalid/x")

    return run


def test_the_probe_accepts_any_response(probe):
    class Response404:
        status_code = 404

    requested = {}
    assert probe(lambda url, **named: requested.update(named, url=url) or Response404())
    assert requested == {"url": "https://squad.invalid/x", "timeout": 5.0, "allow_redirects": True}


def test_the_probe_fails_if_the_connection_is_refused(probe):
    def refuse(*_, **__):
        raise requests.ConnectionError("no route")

    assert not probe(refuse)


def test_the_probe_does_not_wait_for_a_slow_name_server(probe):
    released, finished = threading.Event(), threading.Event()

    def hang(*_, **__):
        released.wait(30)
        finished.set()
        raise requests.ConnectionError("no such host")

    assert not probe(hang, seconds=0.05)
    assert not finished.is_set()
    released.set()


def test_several_datasets_are_joined(tmp_path):
    paths = [tmp_path / name for name in ("train.json", "dev.json", "train,dev.json")]
    for path, split in zip(paths, ("train", "dev", "train"), strict=True):
        path.write_text(squad_json(split))
    both = sources.load_dataset(f"{paths[0]},{paths[1]}", "train")
    assert [question.id for question in both.questions] == ["q1", "q2", "q3", "d1"]
    # The name of a file may contain a comma.
    assert len(sources.load_dataset(str(paths[2]), "train").questions) == 3
    assert len(sources.load_dataset(paths[2], "train").questions) == 3
    with pytest.raises(UserError, match=r"nowhere\.json"):
        sources.load_dataset(f"{paths[0]},{tmp_path}/nowhere.json", "dev")
    with pytest.raises(UserError, match="both have the question 'q1'"):
        sources.load_dataset(f"{paths[0]},{paths[0]}", "train")


def test_a_file_among_several_names_is_recognized():
    assert sources.names_file("sample,train.json")
    assert not sources.names_file("sample,squad/v1.1")
