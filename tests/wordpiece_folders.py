"""Small folders of BERT that can be trained and read: random weights, and a vocabulary that cuts any English text."""

import json
import string

import hugging_face_folders as folders
import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("the", "who", "when", "where", "what", "did", "was", "built", "mill", "old", "in", "by", "anna", "ke", "##ld")
LETTERS = string.ascii_lowercase + string.digits
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *string.punctuation)
CAPITALS = string.ascii_uppercase
CASED = (*VOCABULARY, *CAPITALS, *(f"##{letter}" for letter in CAPITALS))
PIECES, POSITIONS = len(VOCABULARY), 96


def write_bert(folder, family="bert", head=True, seed=1, pieces=None, positions=POSITIONS, cased=False):
    """A folder as transformers 4 wrote it, with `vocab.txt`, or a cased one as transformers 5 writes it, with
    `tokenizer.json` alone. The weights tell spans apart. Returns it."""
    vocabulary = CASED if cased else VOCABULARY
    pieces = pieces or len(vocabulary)
    config = {"bert": folders.BERT, "distilbert": folders.DISTILBERT}[family]
    config = config | {"vocab_size": pieces, "max_position_embeddings": positions}
    rng = np.random.default_rng(seed)
    arrays = folders.tensors(family, head, seed)
    for name, rows in (("word", pieces), ("position", positions)):
        values = 0.5 * rng.standard_normal((rows, 6))
        arrays[f"{family}.embeddings.{name}_embeddings.weight"] = values.astype("float32")
    if head:
        # The last norm leaves the tokens close to each other.
        arrays["qa_outputs.weight"] *= 30
    folders.write_folder(folder, config, arrays)
    if cased:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer(vocabulary)))
        tokenizer_class = {"bert": "BertTokenizer", "distilbert": "DistilBertTokenizer"}[family]
        # Transformers 4 would lower the case by default.
        settings = {"tokenizer_class": tokenizer_class, "do_lower_case": False}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    else:
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return folder


def tokenizer(vocabulary):
    """The content of the tokenizer.json of a cased BERT."""
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    parts = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    parts.append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
    second = [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    used = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    template = {"type": "TemplateProcessing", "single": parts, "pair": parts + second, "special_tokens": used}
    cleaning = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False}
    words = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[name], "content": name} | special for name in SPECIAL],
        "normalizer": {"type": "BertNormalizer"} | cleaning,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece"} | words | {"vocab": ids},
    }
