"""The sizes of a word model, which a reader's configuration keeps as one line of JSON."""

import dataclasses
import json
from typing import TypeVar

from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.json_files import quoted

Sizes = TypeVar("Sizes", bound="WordModelSizes")


@dataclasses.dataclass(frozen=True)
class WordModelSizes:
    """What decides the shape of a word model."""

    @property
    def dim(self) -> int:
        """The features of a word's vector."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The sizes as one line of JSON; `from_json` is the inverse."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls: type[Sizes], text: str) -> Sizes:
        """The sizes that `to_json` wrote; the defaults if the text is empty.

        Raises:
            UserError: the text is something else.
        """
        if not text:
            return cls()
        try:
            values = dict(json.loads(text))
            if values.keys() == {field.name for field in dataclasses.fields(cls)}:
                return cls(**values)
        except (ValueError, TypeError):
            pass
        raise UserError(f"word_model_sizes: found {quoted(text)}, expected the sizes of a word model as JSON.")
