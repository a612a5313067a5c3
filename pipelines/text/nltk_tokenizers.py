"""NLTK's tokenizers as `fabir_tf.pipelines.text.tokenizer` uses them; nothing has to be downloaded for them."""

import re

import nltk
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktLanguageVars, PunktSentenceTokenizer

TOKENIZER_VERSION = f"1+nltk-{nltk.__version__}"
"""Part of every cache key: the first number is bumped whenever the tokens of any text change."""

_PERIOD_CONTEXT = re.compile(PunktLanguageVars().period_context_re().pattern, re.VERBOSE)


class _LanguageVars(PunktLanguageVars):
    # NLTK's own pattern object stops after 5 seconds, summed over one text and over all threads of the process: a
    # busy server would get a TimeoutError where an idle one gets tokens.
    def period_context_re(self) -> re.Pattern[str]:
        return _PERIOD_CONTEXT


SENTENCES = PunktSentenceTokenizer(lang_vars=_LanguageVars())
WORDS = NLTKWordTokenizer()
