"""A small vocabulary of word pieces, and texts that show every rule of BERT's cleaning."""

import random

from fabir_tf.pipelines.text.wordpieces import WordPieceVocabulary

_PIECES = """
[PAD] [UNK] [CLS] [SEP] [ ] . , ? ! ' - = $ # the cat sat on un ##aff ##able ##ab aff ile sao who sep ##ep unk
a b c e i o s t u A C I \u0130 ##a ##b ##c ##e ##i ##o ##s ##t ##u ca ##fe cafe caf\xe9s ##\xe9s ##\xe9
##\u0307 ##\u0307s \u4e2d \u56fd \u570b \u8c48 \u1112 ##\u1161 ##\u11ab ##\u1100 ##\u116e ##\u11a8 \ud55c ##\uad6d
\u03c9 \u03a9 \u304b \u304c \u01c6 ss \xdf
"""
PIECES = _PIECES.split()

VOCABULARY = WordPieceVocabulary(PIECES)

TEXTS = (
    "",
    " \n\t ",
    "The cat sat on the cat.",
    "unaffable unaffables unaffablez",
    "[SEP] [UNK] ##ab",
    "Café cafe\u0301s CAFE\u0301 São Île İs ǅ ẞ ß",
    "a\u200db\u00adc\x00\x07e \u2028b\u00a0c\x85i\u3000o\x1cs",
    "中国a國\uf900\U0002f800 中\u0301b 𠀀 \U0002b820 \U0002b920",
    "한국 각 ᄒ\u1161\u11ab",
    "≠ \u037e \u1fef \u2126Ω 3.5% $5 don't --a",
    "\u0301a \u0301 b \u0301",
    "か\u3099 \u304c",
    "a\u302e\u302f\u1b44 c\u302f\u302eb \U0001d15e\u1b44\u302e a\u302f\u0301\u1b44\u093e\u302e\u1b44",
    "\ufffd\ufffe\U0001f600\U0010ffff\u0378",
    "a" * 100 + " " + "a" * 101 + " " + "\u0301" * 150 + "a" * 100,
    "한" * 34,
    "\u00c5\u212b \u1e69 \u0149 ﬁ",
)

_ALPHABET = (
    "the cat sat un affable.,?[]'-Ééİsßǅ \u0301\u0323\u302e\u302f\u1b44\u200d\u00ad\n中國한각か\u3099≠Ω\U0001f600"
)


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of characters that matter to the rules, mixed with any others but surrogates."""
    draw = random.Random(seed)

    def character() -> str:
        if draw.random() < 0.8:
            return draw.choice(_ALPHABET)
        code = draw.randrange(0x3100) if draw.random() < 0.7 else draw.randrange(0x110000)
        return "x" if 0xD800 <= code < 0xE000 else chr(code)

    return ["".join(character() for _ in range(draw.randrange(30))) for _ in range(count)]
