"""Small data and a small FABIR that several tests share."""

import json
import math

import keras
import numpy as np

from fabir_tf.models import build_model
from fabir_tf.models.fabir import FabirConfig
from fabir_tf.pipelines.datasets.squad import SquadData, squad_from_json
from fabir_tf.pipelines.text.vocabulary import Vocabulary
from fabir_tf.pipelines.text.word_processor import WordProcessor
from fabir_tf.reading.reader import Reader

# (title, passage, ((question, answer), ...)); the passages have 11, 17, 28 and 30 tokens, below 18 and 13.
ARTICLES = (
    (
        "Mill",
        "The old mill was built by Anna Keld in 1712.",
        (
            ("Who built the mill?", "Anna Keld"),
            ("When was the old mill built?", "1712"),
            ("What was it that Anna Keld built?", "The old mill"),
        ),
    ),
    (
        "Lake",
        "Lake Orrin lies north of Dunmere; its water is cold, green and very deep.",
        (
            ("Where does Lake Orrin lie?", "north of Dunmere"),
            ("What is the water of this lake like?", "cold, green and very deep"),
            ("Which lake?", "Lake Orrin"),
        ),
    ),
    (
        "Bridge",
        "A stone bridge crosses the river at Pell. Ottilie Brandreth designed it, and it was opened on 4 May 1871 "
        "after six years of work.",
        (
            ("Who designed the bridge at Pell?", "Ottilie Brandreth"),
            ("When was it opened?", "4 May 1871"),
            ("How long did the work on the stone bridge at Pell take?", "six years"),
        ),
    ),
    (
        "Owl",
        "The grey owl hunts at night. It eats mice, voles and frogs, and sleeps by day in hollow oaks near the village "
        "of Harrow, undisturbed.",
        (
            ("When does the grey owl hunt?", "at night"),
            ("What does it eat?", "mice, voles and frogs"),
            ("Where, near the village of Harrow, does the owl sleep?", "in hollow oaks"),
        ),
    ),
)
DEV_ARTICLES = (
    (
        "Tower",
        "The tall tower was built by Karl Wend in 1840, and it was opened in May.",
        (("Who built the tower?", "Karl Wend"), ("When was the tower opened?", "in May")),
    ),
    (
        "Fox",
        "The red fox sleeps by day. At night it eats mice.",
        (("What does the red fox eat at night?", "mice"), ("When does it sleep?", "by day")),
    ),
)

# A FABIR that trains in seconds.
SMALL_MODEL = (
    "--word_dim=20",
    "--character_filters=20",
    "--d_model=20",
    "--num_heads=2",
    "--reduction_hidden_dim=20",
    "--hidden_dim=20",
    "--num_layers=1",
    "--vectors=none",
)
# Low thresholds, or so little text would have no vocabulary.
SMALL_DATA = ("--min_word_count=1", "--min_character_count=1", "--batch_size=5", "--length_buckets=2", "--cache_dir=")

# Of the reader that is exported: some of the passages are read whole and others in windows.
EXPORTED_WINDOW = 24
EXPORTED_N_BEST = 3

CONFIG = FabirConfig(
    word_dim=20,
    character_filters=20,
    d_model=20,
    num_heads=2,
    reduction_hidden_dim=20,
    hidden_dim=20,
    num_layers=1,
    frozen_words=0,
)


def squad_json(articles) -> dict:
    """Articles in SQuAD's form; the first occurrence of an answer is its place."""
    return {"version": "1.1", "data": [_article_json(*article) for article in articles]}


def _article_json(title, passage, questions):
    qas = [
        {
            "id": f"{title}-{number}",
            "question": question,
            "answers": [{"text": answer, "answer_start": passage.index(answer)}],
        }
        for number, (question, answer) in enumerate(questions)
    ]
    return {"title": title, "paragraphs": [{"context": passage, "qas": qas}]}


def squad_data(articles) -> SquadData:
    return squad_from_json(squad_json(articles), "tiny")


def write_squad(path, articles) -> str:
    path.write_text(json.dumps(squad_json(articles)), encoding="utf-8")
    return str(path)


def make_reader(words, max_passage=512, **changes) -> Reader:
    """An untrained reader that knows some words; its logits differ enough to tell spans apart."""
    keras.utils.set_random_seed(11)
    vocabulary = Vocabulary(tuple(words), tuple("abcdefghijklmnopqrstuvwxyz"), ())
    processor = WordProcessor(vocabulary)
    config = CONFIG.replace(**processor.sizes | changes)
    model = build_model(config)
    for weight in model.get_layer("selector").trainable_weights:
        weight.assign(3 * weight)
    return Reader(model, processor, config, max_passage, log=lambda line: None)


def deduplicated_inputs(inputs):
    """A model's inputs in the form of `DeduplicatedModel`: each unique token once, and the index of every token."""
    texts = ("passage", "question")
    shapes = {text: inputs[f"{text}_words"].shape for text in texts}
    parts = [part for part in ("words", "characters") if f"passage_{part}" in inputs]
    columns = {part: np.concatenate([_flat(inputs[f"{text}_{part}"]) for text in texts]) for part in parts}
    unique, index = np.unique(np.concatenate(list(columns.values()), axis=1), axis=0, return_inverse=True)
    index = np.split(index.reshape(-1).astype(np.int32), [math.prod(shapes["passage"])])
    found = {f"{text}_token_index": part.reshape(shapes[text]) for text, part in zip(texts, index, strict=True)}
    found["unique_words"] = unique[:, 0]
    return found | ({"unique_characters": unique[:, 1:]} if "characters" in parts else {})


def token_inputs(inputs):
    """The inverse of `deduplicated_inputs`; other inputs stay as they are."""
    rest = dict(inputs)
    index = {text: rest.pop(f"{text}_token_index") for text in ("passage", "question")}
    unique = {name: rest.pop(name) for name in inputs if name.startswith("unique_")}
    of_texts = {
        f"{text}_{name.partition('_')[2]}": values[index[text]] for text in index for name, values in unique.items()
    }
    return rest | of_texts


def _flat(values):
    return values.reshape(math.prod(values.shape[:2]), -1)
