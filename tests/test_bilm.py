"""The biLM of ELMo: its characters, its files, and its authors' own results."""

import copy
import json
import sys
from pathlib import Path

import bilm_folders
import h5py
import keras
import numpy as np
import pytest
from shared_data import SHARED

from fabir_tf.models.bilm import BilmSizes, read_bilm, read_sizes
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.text.bilm_characters import SENTENCE_BORDERS, character_ids

sys.path.append(str(Path(__file__).parent / "layers"))

import oracles

PUBLISHED = SHARED / "elmo"


def layers_of(folder):
    """The two layers of a folder's biLM, with its weights."""
    found = read_bilm(folder)
    characters, language_model = found.sizes.character_layer(), found.sizes.language_model()
    ids = keras.Input((None, 50), dtype="int32")
    found.set_weights(keras.Model(ids, language_model(characters(ids), ids[:, :, 0] > 0)))
    return characters, language_model


def ids_of(texts):
    """The ids of texts that are lists of words, `(texts, longest, 50)`."""
    ids = np.zeros((len(texts), max(map(len, texts)), 50), np.int32)
    for row, words in enumerate(texts):
        ids[row, : len(words)] = character_ids([word.encode() for word in words])
    return ids


def test_characters_by_hand():
    """260 of the layout fills a word up, 258 and 259 are its borders; all ids are one more, 0 is a padding token."""
    fill = 261
    words = [b"ab", "é".encode(), b"", b"x" * 60]
    expected = [
        [259, 98, 99, 260, *[fill] * 46],
        [259, 0xC3 + 1, 0xA9 + 1, 260, *[fill] * 46],
        [259, 260, *[fill] * 48],
        [259, *[ord("x") + 1] * 48, 260],
    ]
    np.testing.assert_array_equal(character_ids(words), expected)
    np.testing.assert_array_equal(SENTENCE_BORDERS[:, :4], [[259, 257, 260, fill], [259, 258, 260, fill]])
    assert (SENTENCE_BORDERS[:, 4:] == fill).all()


def test_the_weights_of_a_file_by_the_published_formulas(tmp_path):
    """In float64, from the file's own names: the highway's gate is the share of what is transformed."""
    folder = bilm_folders.write_folder(tmp_path)
    weights = {name: array.astype("float64") for name, array in bilm_folders.arrays(bilm_folders.OPTIONS).items()}
    characters, language_model = layers_of(folder)
    texts = [["The", "old", "mill"], ["Wasser"]]
    ids, mask = ids_of(texts), np.array([[True] * 3, [True, False, False]])

    def word(ids):
        table = np.concatenate([np.zeros((1, 4)), weights["char_embed"]])[ids]
        found = []
        for number, (width, _) in enumerate(bilm_folders.OPTIONS["char_cnn"]["filters"]):
            kernel = weights[f"CNN/W_cnn_{number}"][0]
            windows = [np.tensordot(table[at : at + width], kernel, 2) for at in range(50 - width + 1)]
            found.append(np.maximum(np.max(windows, axis=0) + weights[f"CNN/b_cnn_{number}"], 0))
        values = np.concatenate(found)
        carry = oracles.sigmoid(values @ weights["CNN_high_0/W_carry"] + weights["CNN_high_0/b_carry"])
        transformed = np.maximum(values @ weights["CNN_high_0/W_transform"] + weights["CNN_high_0/b_transform"], 0)
        values = carry * transformed + (1 - carry) * values
        return values @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]

    words = np.stack([[word(ids) for ids in row] for row in ids])
    np.testing.assert_allclose(np.asarray(characters(ids))[mask], words[mask], rtol=1e-5, atol=1e-5)
    own = {"borders": np.stack([word(ids) for ids in SENTENCE_BORDERS])}
    for direction, name in enumerate(("forward", "backward")):
        for number in range(2):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            layer = f"{name}_{number}"
            own |= {
                f"{layer}/kernel": weights[f"{cell}/W_0"][:6],
                f"{layer}/steps/cell/recurrent_kernel": weights[f"{cell}/W_0"][6:],
                f"{layer}/bias": weights[f"{cell}/B"],
                f"{layer}/steps/cell/output_kernel": weights[f"{cell}/W_P_0"],
            }
    state = np.zeros((2, 2, 2, 16))
    expected, last = oracles.bidirectional_language_model(
        words, state, mask, own, 2, True, cell_clip=3.0, projection_clip=3.0
    )
    found, found_last = language_model(characters(ids), mask)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found_last, last, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="needs the folder shared/data/elmo beside the checkout")
def test_the_outputs_of_the_authors_program():
    """In batches of three, one sentence of each list, the state carried from batch to batch, as theirs does."""
    characters, language_model = layers_of(PUBLISHED)
    lists = json.loads((PUBLISHED / "sentences.json").read_text())
    state = None
    for number, sentences in enumerate(zip(*lists, strict=True)):
        texts = [sentence.split() for sentence in sentences]
        ids = ids_of(texts)
        found, state = language_model(characters(ids), ids[:, :, 0] > 0, state)
        for row, words in enumerate(texts):
            with h5py.File(PUBLISHED / f"lm_embeddings_{row}.hdf5", "r") as file:
                forward, backward = file[str(number)][()]
            expected = np.concatenate([forward, backward], axis=-1)
            np.testing.assert_allclose(np.asarray(found)[row, : len(words), 2], expected, rtol=0, atol=1e-5)


def test_sizes_come_back_from_json(tmp_path):
    sizes = read_sizes(bilm_folders.write_folder(tmp_path))
    assert sizes.filters == ((1, 3), (2, 5), (3, 7))
    assert BilmSizes.from_json(sizes.to_json()) == sizes
    for damaged in ("{", "3", "{}", '{"filters": 3}', '{"filters": [[1, 2]], "more": 1}'):
        with pytest.raises(UserError, match=r"word_model_sizes: found .* expected the sizes of a word model as JSON"):
            BilmSizes.from_json(damaged)


def changed(path, value):
    options = copy.deepcopy(bilm_folders.OPTIONS)
    place = options
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return options


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("lstm", "dim"), None, r"found no lstm\.dim, which a biLM of characters needs"),
        (("char_cnn",), None, r"found no char_cnn\."),
        (("lstm", "n_layers"), 0, r"found lstm\.n_layers 0, expected a number from 1 on"),
        (("lstm", "n_layers"), 2.5, r"found lstm\.n_layers 2\.5"),
        (("lstm", "cell_clip"), -1, r"found lstm\.cell_clip -1, expected a number from 0 on"),
        (("lstm", "use_skip_connections"), 1, r"found lstm\.use_skip_connections 1, expected true or false"),
        (("char_cnn", "activation"), "gelu", r"found char_cnn\.activation .gelu., expected one of tanh, relu"),
        (("char_cnn", "max_characters_per_token"), 30, r"found char_cnn\.max_characters_per_token 30, expected 50"),
        (("char_cnn", "filters"), [], r"found char_cnn\.filters"),
        (("char_cnn", "filters"), [[51, 2]], r"expected pairs of a width, at most 50, and a number"),
        (("char_cnn", "filters"), [[1, "2"]], r"expected pairs of a width"),
    ],
)
def test_options_that_are_refused(tmp_path, path, value, message):
    folder = bilm_folders.write_folder(tmp_path, changed(path, value), weights={})
    with pytest.raises(UserError, match=rf"options\.json: .*{message}"):
        read_sizes(folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("char_embed", None, r"found no char_embed, expected floats of shape \(261, 4\)"),
        ("char_embed", lambda a: a[:-1], r"found char_embed of shape \(260, 4\) and type float32"),
        ("CNN_proj/b_proj", lambda a: a.astype("int32"), r"found CNN_proj/b_proj of shape \(6,\) and type int32"),
        ("CNN_proj/b_proj", lambda a: a * np.inf, r"found a value of CNN_proj/b_proj that is not finite"),
        ("RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0", lambda a: a.T, r"Cell1/LSTMCell/W_P_0 of shape \(6, 10\)"),
    ],
)
def test_weights_that_are_refused(tmp_path, name, change, message):
    weights = bilm_folders.arrays(bilm_folders.OPTIONS)
    array = weights.pop(name)
    if change:
        weights[name] = change(array)
    with pytest.raises(UserError, match=rf"lm_weights\.hdf5: .*{message}"):
        read_bilm(bilm_folders.write_folder(tmp_path, weights=weights))


def test_folders_that_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: found no such folder, expected one with options\.json"):
        read_bilm(tmp_path / "nowhere")
    folder = bilm_folders.write_folder(tmp_path)
    (folder / "lm_weights.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(UserError, match=r"lm_weights\.hdf5: cannot be read"):
        read_bilm(folder)
    (folder / "more_options.json").write_text("{}")
    with pytest.raises(UserError, match=r"found more_options\.json, options\.json, expected one file"):
        read_bilm(folder)
    (folder / "lm_weights.hdf5").unlink()
    (folder / "more_options.json").unlink()
    with pytest.raises(UserError, match=r"found none, expected one file whose name ends in weights\.hdf5"):
        read_bilm(folder)
