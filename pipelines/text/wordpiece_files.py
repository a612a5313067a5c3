"""Reads a word piece tokenizer from a folder in Hugging Face's layout."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import read_input, user_path
from fabir_tf.pipelines.json_files import decode, read_json, shown
from fabir_tf.pipelines.text.bert_cleaning import BertCleaning
from fabir_tf.pipelines.text.wordpieces import CONTINUES, LONGEST_WORD, UNK, WordPieceVocabulary

TOKENIZER_FILE, VOCABULARY_FILE, CONFIG_FILE = "tokenizer.json", "vocab.txt", "tokenizer_config.json"

# The name of each setting of the cleaning in the normalizer of `tokenizer.json`.
_NORMALIZER_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def read_wordpieces(folder: str | os.PathLike) -> tuple[WordPieceVocabulary, BertCleaning]:
    """Reads the vocabulary and the cleaning of `tokenizer.json`, or else of `vocab.txt` and `tokenizer_config.json`.

    Args:
        folder: the folder; without a `tokenizer_config.json` the settings are those of BERT in lower case.

    Returns:
        The vocabulary and the settings of the cleaning.

    Raises:
        UserError: a file is missing or damaged, or the tokenizer is of another kind than BERT's.
    """
    folder = user_path(folder)
    if (folder / TOKENIZER_FILE).exists():
        return _read_tokenizer(folder / TOKENIZER_FILE)
    if not (folder / VOCABULARY_FILE).exists():
        raise UserError(f"{folder}: found no {TOKENIZER_FILE} and no {VOCABULARY_FILE}, expected one of them")
    return read_vocabulary(folder / VOCABULARY_FILE), _read_config(folder / CONFIG_FILE)


def read_vocabulary(path: Path) -> WordPieceVocabulary:
    """Reads a file of one piece a line.

    Args:
        path: the file.

    Raises:
        UserError: it cannot be read, or is no vocabulary of BERT's.
    """
    expected = "one piece a line"
    lines = decode(read_input(path, expected), str(path), expected).removesuffix("\n").split("\n")
    return WordPieceVocabulary([line.removesuffix("\r") for line in lines], str(path))


def cleaning_of(values: Any, where: str, names: dict[str, str] | None = None) -> BertCleaning:
    """Takes the settings of the cleaning out of a JSON object; missing ones have BERT's values.

    Args:
        values: the object.
        where: the file, for messages.
        names: the name of each setting in the object, where it has another.

    Raises:
        UserError: a setting is not true or false; `strip_accents` may be null.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(BertCleaning):
        name = (names or {}).get(field.name, field.name)
        value = values.get(name, field.default)
        if not isinstance(value, bool) and not (value is None and field.default is None):
            raise UserError(f"{where}: {name} is {shown(value)}, expected true or false")
        found[field.name] = value
    return BertCleaning(**found)


def _read_config(path: Path) -> BertCleaning:
    values = read_json(path) if path.exists() else {}
    if not isinstance(values, dict):
        raise UserError(f"{path}: found {shown(values)}, expected an object")
    return cleaning_of(values, str(path))


def _read_tokenizer(path: Path) -> tuple[WordPieceVocabulary, BertCleaning]:
    content = read_json(path)
    model, normalizer, splitter = (_part(content, name, path) for name in ("model", "normalizer", "pre_tokenizer"))
    _validate(path, "normalizer.clean_text", normalizer.get("clean_text", True), True)
    # Files of the first versions of tokenizers, as that of bert-base-uncased, tell the kind by the settings alone.
    if "type" not in model and "max_input_chars_per_word" in model and "merges" not in model:
        model = model | {"type": "WordPiece"}
    for name, part, kind in (
        ("model", model, "WordPiece"),
        ("normalizer", normalizer, "BertNormalizer"),
        ("pre_tokenizer", splitter, "BertPreTokenizer"),
    ):
        _validate(path, f"{name}.type", part.get("type"), kind)
    settings = {
        "unk_token": UNK,
        "continuing_subword_prefix": CONTINUES,
        "max_input_chars_per_word": LONGEST_WORD,
    }
    for name, value in settings.items():
        _validate(path, f"model.{name}", model.get(name, value), value)
    pieces = _in_order(_part(model, "vocab", path, "model."), path)
    return WordPieceVocabulary(pieces, str(path)), cleaning_of(normalizer, f"{path}: normalizer", _NORMALIZER_NAMES)


def _part(content: Any, name: str, path: Path, parent: str = "") -> dict[str, Any]:
    part = content.get(name) if isinstance(content, dict) else None
    if not isinstance(part, dict):
        raise UserError(f"{path}: {parent}{name} is {shown(part)}, expected an object")
    return part


def _validate(path: Path, name: str, found: Any, expected: Any) -> None:
    if found != expected or isinstance(found, bool) != isinstance(expected, bool):
        raise UserError(f"{path}: {name} is {shown(found)}, expected {shown(expected)}: only BERT's rules are known")


def _in_order(ids: dict[str, Any], path: Path) -> list[str]:
    for piece, number in ids.items():
        if isinstance(number, bool) or not isinstance(number, int):
            raise UserError(f"{path}: the id of {piece!r} is {shown(number)}, expected a whole number")
    ordered = sorted(ids, key=ids.__getitem__)
    for number, piece in enumerate(ordered):
        if ids[piece] != number:
            raise UserError(f"{path}: the id of {piece!r} is {ids[piece]}, expected {number}, the next one")
    return ordered
