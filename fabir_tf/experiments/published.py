"""The results that the papers report, and the settings of each row that differ from those of its paper's reader."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fabir_tf.analysis import positional_attention
from fabir_tf.configuration import as_flag

IMPROVED = "_improved"
"""The end of the name of a row that is trained with our defaults."""

FOLDERS = {
    "elmo": "the biLM of ELMo (options.json, weights.hdf5)",
    "bert_base": "BERT-Base Uncased in Hugging Face's layout",
    "bert_large": "BERT-Large Uncased in Hugging Face's layout",
}
"""What rows of Cheung's table begin with and the package does not have, by the flag that names its folder."""


@dataclasses.dataclass(frozen=True)
class PublishedRun:
    """A row of a paper's table.

    Attributes:
        name: the name in `configs/` and in our own tables.
        row: the name in the paper.
        settings: settings of model and training that make the row, by flag.
        f1, exact_match: in percent; on SQuAD 1.1 dev, except for Bologna's, which are on its authors' own split, and
            Cheung's, which are on SQuAD 2.0 dev and the best by F1 of three runs.
        improved: further settings with our defaults, which are the paper's otherwise.
        minutes: how long training took.
        training, inference: questions per second.
        folder: the key in `FOLDERS` of what the row begins with; empty for none.
        as_published: whether `--as_published` makes the row; the defaults of BERT are those of its paper.
        members: the names of the rows whose runs answer together; nothing more is trained.
        ensemble: of Cheung's three runs, F1, EM, and how the probabilities of the runs are weighted.
    """

    name: str
    row: str
    settings: Mapping[str, Any]
    f1: float | None = None
    exact_match: float | None = None
    improved: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    minutes: int | None = None
    training: int | None = None
    inference: int | None = None
    folder: str = ""
    as_published: bool = True
    members: tuple[str, ...] = ()
    ensemble: tuple[float, float, str] | None = None

    def as_flags(self, improved: bool = False, folder: str = "") -> str:
        """A flag file of `fabir-train`, with the published figures in a comment.

        Args:
            improved: whether our defaults replace the paper's settings.
            folder: that of what the row begins with.
        """
        return "\n".join([f"# {self.about}", *self.flags(improved, folder)]) + "\n"

    def flags(self, improved: bool = False, folder: str = "") -> list[str]:
        """The flags of `fabir-train`; the arguments are those of `as_flags`."""
        settings = {"as_published": True} if self.as_published and not improved else {}
        settings |= {**self.settings, **(self.improved if improved else {})}
        if folder and self.folder:
            settings[self.folder_setting] = folder
        return [as_flag(name, value) for name, value in settings.items()]

    @property
    def folder_setting(self) -> str:
        """The setting that names the folder of what the row begins with."""
        return "encoder" if self.settings["model"] == "bert-span" else "word_model"

    @property
    def about(self) -> str:
        """The row and its published figures in one line, as `fabir-compare` reads them."""
        parts = [f"F1 {self.f1}, EM {self.exact_match}"] if self.f1 else []
        parts += [f"{self.minutes} minutes"] if self.minutes else []
        if self.training:
            parts.append(f"{self.training} questions/s in training and {self.inference} in answering")
        return f'"{self.row}": {"; ".join(parts)}.' if parts else f'"{self.row}".'


def _ablation(name: str, row: str, f1: float, exact_match: float, minutes: int, **settings) -> PublishedRun:
    return PublishedRun(name, row, {"epochs": 18} | settings, f1, exact_match, minutes=minutes)


_ABLATIONS = (
    _ablation("fabir", "FABIR", 75.6, 65.1, 134),
    _ablation("no_character_embedding", "no character embedding", 72.9, 62.0, 108, character_filters=0),
    _ablation("matrix_reduction", "matrix reduction", 73.5, 62.6, 119, reduction="matrix", num_layers=4),
    _ablation("switching_layers", "switching layers", 74.7, 64.1, 131, interaction="switching"),
    _ablation("2_layers", "2 layers", 75.0, 64.1, 115, num_layers=2),
    _ablation("4_layers", "4 layers", 75.5, 64.7, 167, num_layers=4),
    _ablation("2_heads", "2 heads", 73.8, 63.2, 132, num_heads=2),
    _ablation("no_convolutional_attention", "no convolutional attention", 73.2, 62.6, 109, attention_kernel="none"),
    _ablation("row-wise_cross_attention", "row-wise cross-attention", 73.6, 63.2, 128, cross_attention="row"),
    _ablation(
        "start_and_end_at_different_layers",
        "start and end selected at different layers",
        74.3,
        63.7,
        129,
        start_layer="penultimate",
    ),
    _ablation("selector_kernel_1", "selector kernel 1", 72.8, 62.5, 132, selector_kernel=1),
    _ablation("linear_selector", "linear selector", 74.0, 62.8, 130, selector="linear"),
)
_NOT_IN_PAPER = ("switching_layers", "start_and_end_at_different_layers", "selector_kernel_1")
_OUR_ADAM = {"learning_rate": 0.001, "smoothing": "none"}
_RIVALS = (
    PublishedRun("fabir", "FABIR", {"epochs": 54}, 77.6, 67.6, minutes=390, training=202, inference=440),
    PublishedRun(
        "bidaf",
        "BiDAF",
        {"model": "bidaf"},
        77.0,
        67.3,
        {"epochs": 12, "batch_size": 60, "ema_decay": 0.999} | _OUR_ADAM,
        minutes=390,
        training=45,
        inference=78,
    ),
)
_PORWAL = PublishedRun(
    "bidaf-porwal",
    "Porwal's BiDAF",
    {"model": "bidaf-porwal"},
    improved={"epochs": 6, "batch_size": 16} | _OUR_ADAM,
)
_BOLOGNA = tuple(
    PublishedRun(
        f"bidaf-bologna_{variant}",
        "baseline" if variant == 0 else f"variant {variant}",
        {"model": "bidaf-bologna", "variant": variant},
        f1,
        exact_match,
        {"epochs": 10, "batch_size": 8} | _OUR_ADAM | {"learning_rate": 0.005},
    )
    for variant, (f1, exact_match) in enumerate(((43.2, 26.6), (44.3, 28.8), (58.7, 40.2), (59.9, 41.2), (60.3, 42.1)))
)


def _bert(
    name: str,
    head: str,
    row: str,
    f1: float,
    exact_match: float,
    ensemble: tuple[float, float, str] | None = None,
    size: str = "large",
) -> PublishedRun:
    return PublishedRun(
        f"bert-{size}_{name}",
        f"BERT-{size.capitalize()} Uncased + {row}",
        {"model": "bert-span", "head": head},
        f1,
        exact_match,
        folder=f"bert_{size}",
        as_published=False,
        ensemble=ensemble,
    )


def _bidaf(vectors: str, row: str, f1: float, exact_match: float, batch_size: int, folder: str) -> PublishedRun:
    settings = {"model": "bidaf-cheung", "word_vectors": vectors}
    improved = {"epochs": 12, "batch_size": batch_size} | _OUR_ADAM
    return PublishedRun(f"bidaf-cheung_{vectors}", row, settings, f1, exact_match, improved, folder=folder)


_CHEUNG = (
    PublishedRun(
        "bidaf-cheung",
        "BiDAF + GloVe",
        {"model": "bidaf-cheung"},
        54.622,
        50.678,
        {"epochs": 12, "batch_size": 60} | _OUR_ADAM,
    ),
    _bidaf("elmo", "BiDAF + ELMo", 62.388, 59.244, 32, "elmo"),
    _bidaf("bert", "BiDAF + BERT Base Uncased", 59.695, 56.565, 16, "bert_base"),
    _bert("1-ffn", "dense", "1 FFN", 77.158, 74.05, size="base"),
    _bert("1-ffn", "dense", "1 FFN", 80.884, 77.899, (81.45, 78.573, "by EM")),
    _bert("2-ffn", "dense-2", "2 FFN", 81.168, 78.253, (81.841, 79.121, "equal")),
    _bert("2-ffn-relu", "dense-2-relu", "2 FFN + ReLU", 80.628, 77.756, (81.429, 78.624, "equal")),
    _bert("highway", "highway", "Highway networks", 80.72, 77.975, (81.211, 78.691, "by EM")),
    _bert("1-residual", "residual", "1 Residual learning block", 81.243, 78.371, (81.914, 79.045, "equal")),
    _bert("5-residual", "residual-5", "5 Residual learning blocks", 81.233, 78.278, (82.016, 79.272, "by F1")),
    _bert("gating", "gated", "Gating", 81.404, 78.169, (82.001, 79.205, "by EM")),
    PublishedRun(
        "bert-large_ensemble",
        "Ensemble of 10 and 11 (6 models)",
        {},
        folder="bert_large",
        members=("bert-large_5-residual", "bert-large_gating"),
        ensemble=(82.294, 79.542, "equal"),
    ),
)

TABLES = {
    "fabir": {
        "1": tuple(run for run in _ABLATIONS if run.name not in _NOT_IN_PAPER),
        "2": _RIVALS,
        "6": _ABLATIONS,
    },
    "porwal": {"6.1": (_PORWAL,), "6.2": (_PORWAL,)},
    "bologna": {"1": _BOLOGNA},
    "cheung": {"4": _CHEUNG},
}
"""The rows of each paper's tables: tables I and II of FABIR (arXiv 1810.09580), and 6 of the thesis, which is table I
with three more rows; tables 6.1 and 6.2 of Porwal's thesis; table 1 of Bologna's report; table 4 of Cheung's report."""

GROUPINGS = {"3": "answer_length", "4": "question_length", "5": "question_type", "6": "passage_length"}
"""Figures of FABIR, which show the F1 of table II's readers: the grouping (`fabir_tf.analysis.groupings`) of each."""

LOSS_CURVES = {
    "4": (_BOLOGNA[0], 5.07),
    "6": (_BOLOGNA[1], 4.73),
    "8": (_BOLOGNA[2], 3.64),
    "10": (_BOLOGNA[3], 3.67),
    "12": (_BOLOGNA[4], 3.65),
}
"""Figures of Bologna's report, which show the loss of one row in training, and that on its test split (table 1)."""

FIGURES = {
    "fabir": (*GROUPINGS, *positional_attention.FIGURES),
    "porwal": (),
    "bologna": tuple(LOSS_CURVES),
    "cheung": (),
}
"""The figures of each paper."""
