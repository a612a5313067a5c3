"""What a reader needs besides its model, its texts' processor and its calibration: one small JSON file."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from fabir_tf.edge.decoders import DECODERS, IndependentDecoder, SpanDecoder
from fabir_tf.edge.runtimes import RUNTIMES
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import write_text
from fabir_tf.pipelines.json_files import read_json, shown
from fabir_tf.version import __version__

SETTINGS_FILE = "reader.json"
PROCESSOR_FOLDER = "processor"
CALIBRATION_FILE = "calibration.json"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class EdgeSettings:
    """How an exported reader reads.

    Attributes:
        target: the format of its model, a name of `RUNTIMES`.
        quantization: "none", or "int8" where the weights have 8 bits.
        model: the name of the reader's model, such as "fabir".
        max_passage: longer passages are read in overlapping windows, in tokens.
        null_head: whether the model has null logits.
        decoder: `kind`, a name of `DECODERS`, and its arguments.
        no_answer_threshold: the reader abstains above this no-answer probability; None if it always answers.
        calibrated: whether a calibration belongs to it; earlier exports do not say so.
    """

    target: str
    quantization: str
    model: str
    max_passage: int
    null_head: bool
    decoder: dict[str, Any]
    no_answer_threshold: float | None
    calibrated: bool = False

    @property
    def max_answer(self) -> int | None:
        """Longest answer, in tokens; None for no limit."""
        return self.decoder.get("max_answer")

    def make_decoder(self, n_best: int) -> SpanDecoder | IndependentDecoder:
        """The decoder that finds as many spans."""
        arguments = {name: value for name, value in self.decoder.items() if name != "kind"}
        return DECODERS[self.decoder["kind"]](**arguments, n_best=n_best)

    def save(self, folder: Path) -> None:
        """Writes `SETTINGS_FILE`."""
        content = {"format": FORMAT, "fabir_tf": __version__} | dataclasses.asdict(self)
        write_text(folder / SETTINGS_FILE, json.dumps(content, indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "EdgeSettings":
        """Reads what `save` wrote.

        Raises:
            UserError: there is no such file, or it is damaged or of a later version.
        """
        path = folder / SETTINGS_FILE
        if not path.is_file():
            raise UserError(f"{folder}: found no {SETTINGS_FILE}, expected a folder that fabir-export --format wrote")
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else content
            raise UserError(f"{path}: found {shown(found)} as format, expected {FORMAT}")
        fields = dataclasses.fields(cls)
        names = [field.name for field in fields if field.default is dataclasses.MISSING]
        missing = [name for name in names if name not in content]
        if missing:
            raise UserError(f"{path}: found no {missing[0]}, expected {', '.join(names)}")
        settings = cls(**{field.name: content[field.name] for field in fields if field.name in content})
        settings._validate(path)
        return settings

    def _validate(self, path: Path) -> None:
        if not isinstance(self.target, str) or self.target not in RUNTIMES:
            raise UserError(f"{path}: found the target {shown(self.target)}, expected one of {', '.join(RUNTIMES)}")
        for name, kind in (("null_head", bool), ("max_passage", int), ("calibrated", bool)):
            if type(getattr(self, name)) is not kind:
                raise UserError(f"{path}: found {shown(getattr(self, name))} as {name}, expected a {kind.__name__}")
        try:
            self.make_decoder(1)
        except (AttributeError, KeyError, TypeError):
            raise UserError(
                f"{path}: found {shown(self.decoder)} as decoder, expected a kind, one of {', '.join(DECODERS)}, and "
                "its arguments"
            ) from None
