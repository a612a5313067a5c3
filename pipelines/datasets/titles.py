"""Which passages belong to one article, by their titles."""

import unicodedata
from urllib.parse import unquote

from fabir_tf.pipelines.datasets.squad import SquadData

LONGEST_ARTICLE = 200
"""A title of more passages than this only collects passages. SQuAD's longest article has 149."""


def title_key(title: str) -> str:
    """What all spellings of a title have in common.

    Args:
        title: as it is in a file, perhaps with underscores or in percent encoding.

    Returns:
        Its letters and digits, without case and accents.
    """
    letters = unicodedata.normalize("NFKD", unquote(title)).casefold()
    return "".join(letter for letter in letters if letter.isalnum())


def article_keys(data: SquadData) -> list[str]:
    """The article of each passage.

    Args:
        data: the passages and their titles.

    Returns:
        The `title_key` of each passage; "" where it has no title, or one of more than `LONGEST_ARTICLE` different
        passages.
    """
    key_of = {title: title_key(title) for title in set(data.titles)}
    texts: dict[str, set[str]] = {}
    for title, passage in zip(data.titles, data.passages, strict=True):
        texts.setdefault(key_of[title], set()).add(passage)
    return ["" if len(texts[key_of[title]]) > LONGEST_ARTICLE else key_of[title] for title in data.titles]
