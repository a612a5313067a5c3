"""Small folders of BERT that can be trained and read: random weights, and a vocabulary that cuts any English text."""

import string

import hugging_face_folders as folders
import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("the", "who", "when", "where", "what", "did", "was", "built", "mill", "old", "in", "by", "anna", "ke", "##ld")
LETTERS = string.ascii_lowercase + string.digits
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *string.punctuation)
PIECES, POSITIONS = len(VOCABULARY), 96


def write_bert(folder, family="bert", head=True, seed=1, pieces=PIECES, positions=POSITIONS):
    """A folder as transformers 4 wrote it, with `vocab.txt`; the weights tell spans apart. Returns it."""
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
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return folder
