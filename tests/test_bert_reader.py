"""bert-span as a reader: trained from a folder, and published models of question answering read as they are."""

import json
import re

import hugging_face_folders as folders
import numpy as np
import pytest
import tensorflow as tf
from test_bad_input import assert_error
from tiny import ARTICLES, DEV_ARTICLES, make_reader, squad_data, write_squad
from wordpiece_folders import write_bert

import fabir_tf
from fabir_tf.export.loading import read_saved_model
from fabir_tf.export.operations import forbidden_operations
from fabir_tf.models.bert_span import BertSpanConfig
from fabir_tf.models.weights import weights_of
from fabir_tf.pipelines.errors import QuestionError, UserError
from fabir_tf.reading.packing import pack
from fabir_tf.reading.run_directory import RunDirectory, reader_directory

QUESTION, LONG = "Who built the tower?", " ".join(passage for _, passage, _ in ARTICLES + DEV_ARTICLES)
# More pieces than a question may have.
LONG_QUESTION = "who built the mill " * 17


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert") / "encoder", head=False)


@pytest.fixture(scope="module", params=["bert", "distilbert"])
def folder(request, tmp_path_factory):
    """A question-answering model in Hugging Face's layout."""
    return write_bert(tmp_path_factory.mktemp("bert") / request.param, request.param)


@pytest.fixture(scope="module")
def reader(folder):
    return fabir_tf.Reader.load(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Flags of a small training set."""
    folder = tmp_path_factory.mktemp("data")
    train, dev = write_squad(folder / "train.json", ARTICLES), write_squad(folder / "dev.json", DEV_ARTICLES)
    return f"--dataset={train}", f"--eval_dataset={dev}", "--cache_dir="


# === A published model ===


def test_it_always_answers_and_says_how_likely_no_answer_is(folder, reader):
    assert (reader.config.max_answer, reader.config.max_sequence, reader.no_answer_threshold) == (30, 96, None)
    answer = reader.answer(QUESTION, LONG, n_best=3)
    assert answer.is_answer and answer.text == LONG[answer.start : answer.end] and len(answer.n_best) == 3
    assert 0 < answer.no_answer_probability < 1
    strict = fabir_tf.Reader.load(folder, no_answer_threshold=0.0)
    abstained = strict.answer(QUESTION, LONG)
    assert (abstained.text, abstained.is_answer) == ("", False)
    assert abstained.no_answer_probability == pytest.approx(answer.no_answer_probability, rel=1e-5)


def test_a_question_over_the_budget_is_an_error(reader):
    found = len(reader.processor.tokenize_text(LONG_QUESTION).words)
    assert found > reader.processor.max_question
    with pytest.raises(UserError, match=f"found {found} word pieces, expected at most 64"):
        reader.answer_batch([QUESTION, LONG_QUESTION], [LONG, LONG])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "search"])
def test_a_question_over_the_budget_costs_no_other_its_answer(commands, folder, tmp_path, command):
    (tmp_path / "page.txt").write_text(LONG)
    questions = [QUESTION, "When was it opened?", LONG_QUESTION, "Who came?", QUESTION]
    rows = [{"id": f"q{number}", "question": text, "passage": LONG} for number, text in enumerate(questions)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = [f"--run_dir={folder}", f"--input_file={tmp_path / 'rows.jsonl'}"]
    if command == "search":
        assert commands("index", f"--input={tmp_path / 'page.txt'}", f"--index={tmp_path / 'pages.index'}").status == 0
        flags.append(f"--index={tmp_path / 'pages.index'}")
    result = commands(command, *flags)
    assert result.status == 0 and "1 of 5 questions could not be answered" in result.stderr, result
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["id"] for line in lines] == ["q0", "q1", "q2", "q3", "q4"]
    assert ["error" in line for line in lines] == [False, False, True, False, False]
    assert lines[2]["error"].startswith("found ") and "expected at most 64 (max_question)" in lines[2]["error"]
    assert lines[0] | {"id": "q4"} == lines[4]


def test_its_folder_reads_like_a_run(folder, reader):
    run = reader_directory(folder)
    assert run.read_config()["model"]["name"] == "bert-span"
    weights = run.read_weights()[1]
    assert weights.keys() == weights_of(reader.model).keys()
    assert run.read_model_config(max_answer=3).max_answer == 3
    assert fabir_tf.Reader.load(folder, max_answer=3).config.max_answer == 3


def test_rows_that_no_piece_uses(tmp_path, reader):
    """Some published tables are longer than their vocabularies."""
    folder = write_bert(tmp_path / "long", pieces=130)
    assert fabir_tf.Reader.load(folder).answer(QUESTION, LONG).is_answer
    with pytest.raises(UserError, match="found vectors of 120 word pieces, expected at least 124"):
        fabir_tf.Reader.load(write_bert(tmp_path / "short", pieces=120))


def test_it_is_packed(folder, reader, tmp_path):
    packed = pack(folder, tmp_path / "packed")
    assert RunDirectory(packed).read_config()["model"]["encoder"] == ""
    assert fabir_tf.Reader.load(packed).answer(QUESTION, LONG, 3) == reader.answer(QUESTION, LONG, 3)


def test_readers_of_other_pieces_have_no_mean(tmp_path):
    """As many pieces, in another order."""
    one, other = (write_bert(tmp_path / name) for name in ("one", "other"))
    pieces = (other / "vocab.txt").read_text().splitlines()
    (other / "vocab.txt").write_text("\n".join([*pieces[:-2], pieces[-1], pieces[-2]]) + "\n")
    with pytest.raises(UserError, match=f"^{other}: found other words than in {one}"):
        pack(one, tmp_path / "mean", average_with=[other])
    assert pack(one, tmp_path / "mean", average_with=[pack(one, tmp_path / "packed")]).is_dir()


def test_it_is_calibrated(folder):
    """Only the size of the probabilities changes."""
    reader, data = fabir_tf.Reader.load(folder), squad_data(DEV_ARTICLES)
    before = reader.answer(QUESTION, LONG, 3)
    reader.calibration = calibration = fabir_tf.calibrate(reader, reader.tokenize(data))
    assert fabir_tf.calibrate(reader, data) == calibration
    after = reader.answer(QUESTION, LONG, 3)
    assert calibration.questions == len(data.questions) and reader.temperature == calibration.temperature != 1
    assert [span.text for span in after.n_best] == [span.text for span in before.n_best]
    assert after.probability != before.probability


@pytest.mark.slow
def test_the_graph_says_the_same_and_tells_of_a_cut_question(reader, tmp_path):
    exported = fabir_tf.export_reader(reader, tmp_path / "exported", n_best=2)
    served = tf.saved_model.load(str(exported)).signatures["serving_default"]
    questions, passages = [QUESTION, "When was the mill built?", LONG_QUESTION], [LONG, DEV_ARTICLES[0][1], LONG]
    found = served(question=tf.constant(questions), passage=tf.constant(passages))
    assert found["question_cut"].numpy().tolist() == [False, False, True]
    assert forbidden_operations(read_saved_model(exported)) == []
    for row, answer in enumerate(reader.answer_batch(questions[:2], passages[:2], n_best=2)):
        for number, span in enumerate(answer.n_best):
            assert found["n_best_answer"][row, number].numpy().decode() == span.text
            assert (found["n_best_start"][row, number], found["n_best_end"][row, number]) == (span.start, span.end)
            assert float(found["n_best_probability"][row, number]) == pytest.approx(span.probability, rel=1e-3)
        assert float(found["no_answer_probability"][row]) == pytest.approx(answer.no_answer_probability, rel=1e-3)


def test_its_logits_are_those_of_transformers(folder, reader):
    """Of the whole chain: text, pieces, windows and weights; the oracle cuts the same text by itself."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    tokenizer = tokenizers.BertWordPieceTokenizer(str(folder / "vocab.txt"))
    reference = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    passage = DEV_ARTICLES[0][1]
    inputs = tokenizer.encode(QUESTION, passage)
    types = {"token_type_ids": torch.tensor([inputs.type_ids])} if folder.name == "bert" else {}
    with torch.no_grad():
        expected = reference(input_ids=torch.tensor([inputs.ids]), **types)
    part = np.array([number == 1 for number in inputs.sequence_ids])
    (scores,) = reader.scores(squad_data([("Tower", passage, ((QUESTION, "Karl Wend"),))]))
    for found, wanted in ((scores.start_logits, expected.start_logits), (scores.end_logits, expected.end_logits)):
        np.testing.assert_allclose(found, wanted[0].numpy()[part], atol=1e-4)
    wanted = [expected.start_logits[0, 0], expected.end_logits[0, 0]]
    np.testing.assert_allclose(scores.null_logits, wanted, atol=1e-4)


def test_of_many_questions_the_long_one_is_named_by_its_place(reader):
    # Questions about the same passage are read together, so the third is read before the second.
    with pytest.raises(QuestionError, match=r"^question 1: found [0-9]+ word pieces, expected at most") as error:
        reader.answer_batch([QUESTION, LONG_QUESTION, QUESTION], [LONG, "A mill.", LONG])
    assert error.value.question == "1"


def test_what_another_reader_tokenized_is_refused(reader):
    data = squad_data(DEV_ARTICLES)
    words, pieces = make_reader(["the", "mill"]).tokenize(data), reader.tokenize(data)
    assert reader.predict(pieces) == reader.predict(data)
    assert [answer.text for answer in reader.predict(pieces.select(np.array([0])))] == [reader.predict(data)[0].text]
    with pytest.raises(UserError, match=r"was tokenized for another reader \(as .*nltk-.*expected what this one's"):
        reader.predict(words)


def test_a_question_whose_answer_is_longer_than_the_sequence_is_not_fitted(reader):
    text = "the mill " * 60
    rows = [{"question": "What?", "passage": text, "answer": answer} for answer in (text.strip(), text[:8])]
    rows[1]["answer_start"] = 0
    said = []
    batches = fabir_tf.batches_to_fit(fabir_tf.questions_from(rows), reader.processor, log=said.append)
    [(inputs, targets)] = batches
    assert {len(array) for array in (*inputs.values(), *targets.values())} == {1}
    assert "2 questions: 1 kept, 0 trimmed, 0 snapped to whole tokens, 1 dropped" in said[-1]


# === What is not supported, through the commands ===


def _change(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _only_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _without_head(folder):
    arrays = folders.tensors("bert", head=False)
    (folder / "model.safetensors").write_bytes(folders.safetensors(arrays))
    _change(vocab_size=23, max_position_embeddings=19)(folder)


def _without_vocabulary(folder):
    (folder / "vocab.txt").unlink()


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (_change(model_type="roberta"), ["config.json", "found model_type 'roberta'", "bert, distilbert"]),
        (_change(hidden_act="silu"), ["config.json", "found hidden_act 'silu'", "gelu"]),
        (_only_pickle, ["found only pytorch_model.bin", "model.safetensors", "convert it by: python -c"]),
        (_without_vocabulary, ["found no tokenizer.json and no vocab.txt"]),
    ],
)
@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("predict", ["--run_dir={0}", "--question=Who?", "--passage=Ada."]),
        ("predict", ["--model={0}", "--question=Who?", "--passage=Ada."]),
        ("train", ["--start_from={0}", "--run_dir=new", "--dataset=sample"]),
        ("pack", ["--run_dir={0}", "--output=new"]),
    ],
)
def test_what_is_not_supported(commands, tmp_path, damage, parts, command, flags):
    folder = write_bert(tmp_path / "x")
    damage(folder)
    assert_error(commands, command, [flag.format(folder) for flag in flags], [str(folder), *parts])
    assert not (commands.folder / "new").exists()


def test_an_encoder_without_a_head_is_no_reader(commands, encoder):
    flags = ["--question=Who?", "--passage=Ada."]
    parts = ["found no qa_outputs.weight", f"fabir-train --model=bert-span --encoder={encoder}"]
    assert_error(commands, "predict", [f"--run_dir={encoder}", *flags], parts)


def test_a_model_that_is_nothing_is_told_what_it_may_be(commands, tmp_path):
    flags = [f"--model={tmp_path}", "--question=Who?", "--passage=Ada."]
    assert_error(commands, "predict", flags, [f"--model={tmp_path}", "fabir-base", "Hugging Face's layout"])


# === Training ===


@pytest.mark.slow
def test_an_encoder_is_trained_evaluated_asked_packed_and_resumed(commands, data, encoder, tmp_path):
    run = tmp_path / "run"
    flags = ("--model=bert-span", f"--encoder={encoder}", "--max_sequence=80", "--head=gated", "--frozen_layers=1")
    for more in ("--epochs=1", "--epochs=2 --resume"):
        done = commands("train", f"--run_dir={run}", *data, *flags, "--layer_decay=0.9", *more.split())
        assert done.status == 0, done
    config = json.loads((run / "config.json").read_text())
    assert (config["training"]["learning_rate"], config["training"]["optimizer"]) == (3e-5, "adamw")
    assert (config["training"]["warmup_share"], config["training"]["linear_decay_epochs"]) == (0.1, 0.9)
    model = config["model"]
    assert (model["name"], model["head"], model["pieces"], model["max_sequence"]) == ("bert-span", "gated", 124, 80)
    scores = commands("evaluate", f"--run_dir={run}", data[1].replace("--eval_", "--"), "--cache_dir=")
    assert scores.status == 0 and json.loads(scores.stdout)["total"] == 4, scores
    # The encoder's folder is needed no more.
    packed = pack(run, tmp_path / "packed")
    assert RunDirectory(packed).read_config()["model"]["encoder"] == encoder.name
    asked = [f"--question={QUESTION}", f"--passage={LONG}", "--n_best=3"]
    answers = [commands("predict", f"--run_dir={path}", *asked) for path in (run, packed)]
    assert answers[0].status == 0 and answers[0].stdout == answers[1].stdout, answers
    frozen = {name: np.asarray(weight) for name, weight in weights_of(fabir_tf.Reader.load(run).model).items()}
    first = reader_of_encoder(encoder, model)
    assert all(np.array_equal(frozen[name], first[name]) for name in first if re.match("model/(emb|layer_0)", name))


def reader_of_encoder(encoder, model):
    config = BertSpanConfig(**{name: value for name, value in model.items() if name != "name"})
    built = fabir_tf.build_model(config)
    config.initialize(built)
    return {name: np.asarray(weight) for name, weight in weights_of(built).items()}


@pytest.mark.slow
def test_a_published_model_is_fine_tuned(commands, data, folder, tmp_path):
    """It begins with the answers of the folder, and its own training settings."""
    run = tmp_path / "run"
    done = commands("train", f"--start_from={folder}", f"--run_dir={run}", "--epochs=0", *data)
    assert done.status == 0, done
    assert json.loads((run / "config.json").read_text())["training"]["batch_size"] == 32
    # Both new: a reader that has read texts of many lengths computes the same with other kernels.
    tuned, published = (fabir_tf.Reader.load(path) for path in (run, folder))
    assert tuned.answer(QUESTION, LONG, 3) == published.answer(QUESTION, LONG, 3)
    # Windows may be shorter; another vocabulary would need other weights.
    begin = [f"--start_from={folder}", f"--run_dir={tmp_path / 'short'}", "--epochs=0", *data]
    assert commands("train", *begin, "--max_sequence=50", "--max_question=40").status == 0
    assert fabir_tf.Reader.load(tmp_path / "short").processor.max_sequence == 50
    other = [*begin[:1], f"--run_dir={tmp_path / 'other'}", *begin[2:], f"--encoder={tmp_path}"]
    assert_error(commands, "train", other, ["found encoder=", "that of its text processor"])


@pytest.mark.long
def test_a_published_model_goes_through_the_commands(commands, data, folder, tmp_path):
    """Those that no other test of this file runs; the readers of an ensemble and a teacher may be of other kinds."""
    # A teacher reads whole passages.
    folder = write_bert(tmp_path / "wide", folder.name, positions=512)
    run, questions = f"--run_dir={folder}", data[1].replace("--eval_", "--")

    def done(command, *flags):
        result = commands(command, *flags)
        assert result.status == 0, result
        return result.stdout

    scores = json.loads(done("evaluate", run, questions, f"--output_file={tmp_path / 'answers.json'}", "--cache_dir="))
    first = next(iter(json.loads((tmp_path / "answers.json").read_text())))
    look = ("analyze", run, questions, f"--question_id={first}", f"--output={tmp_path / 'analysis'}")
    done(*look, f"--predictions_files=it={tmp_path / 'answers.json'}")
    assert {"scores.csv", "report.html", "question.html"} <= {path.name for path in (tmp_path / "analysis").iterdir()}
    (tmp_path / "page.txt").write_text(LONG)
    done("index", f"--input={tmp_path / 'page.txt'}", f"--index={tmp_path / 'pages.index'}")
    found = json.loads(done("search", run, f"--index={tmp_path / 'pages.index'}", f"--question={QUESTION}"))
    assert found["answer"] in LONG and found["source"] == str(tmp_path / "page.txt")
    done("teach", f"--run_dirs={folder}", data[0], f"--output={tmp_path / 'teacher.npz'}", "--cache_dir=")
    taught = tmp_path / "taught"
    student = (f"--start_from={folder}", f"--run_dir={taught}", *data, f"--teacher={tmp_path / 'teacher.npz'}")
    done("train", *student, "--epochs=1")
    both = tmp_path / "both"
    done("pack", f"--ensemble={folder},{taught}", f"--output={both}", data[0].replace("--d", "--calibration_d"))
    combined = json.loads(done("evaluate", f"--run_dir={both}", questions, "--cache_dir="))
    assert combined["total"] == scores["total"] == 4


@pytest.mark.slow
def test_prepared_data_belongs_to_its_model(commands, data, encoder, tmp_path):
    flags = ("--model=bert-span", f"--encoder={encoder}", "--max_sequence=80")
    done = commands("prepare", f"--output={tmp_path / 'prepared'}", *data, *flags)
    assert done.status == 0, done
    prepared = f"--prepared={tmp_path / 'prepared'}"
    done = commands("train", f"--run_dir={tmp_path / 'run'}", prepared, "--model=bert-span", "--epochs=0")
    assert done.status == 0, done
    assert_error(commands, "train", [f"--run_dir={tmp_path / 'x'}", prepared], [prepared, "another --model"])


@pytest.mark.slow
def test_adapting_needs_whole_passages(commands, folder, tmp_path):
    """The model reads 96 pieces at once."""
    article = ("Long", LONG, ARTICLES[0][2])
    long = write_squad(tmp_path / "long.json", [article])
    kept = write_squad(tmp_path / "kept.json", ARTICLES[1:3])
    data = [f"--dataset={long}", f"--eval_dataset={long}", f"--kept_dataset={kept}"]
    flags = [*data, f"--start_from={folder}", "--adapt", "--cache_dir="]
    words = ["passage of ", " tokens, of which the model reads ", "leave such passages out"]
    assert_error(commands, "train", [*flags, f"--run_dir={tmp_path / 'run'}"], words)
