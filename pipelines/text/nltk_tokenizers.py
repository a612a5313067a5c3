"""NLTK's tokenizers for `fabir_tf.pipelines.text.tokenizer`; they need no downloaded data."""

import re

from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktLanguageVars, PunktSentenceTokenizer

_PERIOD_CONTEXT = re.compile(PunktLanguageVars().period_context_re().pattern, re.VERBOSE)


class _LanguageVars(PunktLanguageVars):
    # NLTK's own pattern object raises TimeoutError after 5 seconds, added up over a text and over all threads of the
    # process. A busy server would fail on a text that an idle one tokenizes.
    def period_context_re(self) -> re.Pattern[str]:
        return _PERIOD_CONTEXT


SENTENCES = PunktSentenceTokenizer(lang_vars=_LanguageVars())
WORDS = NLTKWordTokenizer()
