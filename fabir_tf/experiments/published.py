"""The results that the papers report, and the settings of each row that differ from the defaults."""

import dataclasses

from fabir_tf.configuration import as_flag


@dataclasses.dataclass(frozen=True)
class PublishedRun:
    """A row of a paper's table.

    Attributes:
        name: the name in `configs/` and in our own tables.
        row: the name in the paper.
        settings: settings of model and training that are not the defaults, by flag.
        f1, exact_match: on SQuAD 1.1 dev, in percent.
    """

    name: str
    row: str
    settings: dict
    f1: float
    exact_match: float

    def as_flags(self) -> str:
        """A flag file of `fabir-train`, with the published scores in a comment."""
        lines = [f'# "{self.row}": F1 {self.f1}, EM {self.exact_match}.']
        return "\n".join([*lines, *(as_flag(name, value) for name, value in self.settings.items())]) + "\n"


def _ablation(name: str, row: str, f1: float, exact_match: float, **settings) -> PublishedRun:
    return PublishedRun(name, row, {"epochs": 18} | settings, f1, exact_match)


_ABLATIONS = (
    _ablation("fabir", "FABIR", 75.6, 65.1),
    _ablation("no_character_embedding", "no character embedding", 72.9, 62.0, character_filters=0),
    _ablation("matrix_reduction", "matrix reduction", 73.5, 62.6, reduction="matrix", num_layers=4),
    _ablation("switching_layers", "switching layers", 74.7, 64.1, interaction="switching"),
    _ablation("2_layers", "2 layers", 75.0, 64.1, num_layers=2),
    _ablation("4_layers", "4 layers", 75.5, 64.7, num_layers=4),
    _ablation("2_heads", "2 heads", 73.8, 63.2, num_heads=2),
    _ablation("no_convolutional_attention", "no convolutional attention", 73.2, 62.6, attention_kernel="none"),
    _ablation("row-wise_cross_attention", "row-wise cross-attention", 73.6, 63.2, cross_attention="row"),
    _ablation(
        "start_and_end_at_different_layers",
        "start and end selected at different layers",
        74.3,
        63.7,
        start_layer="penultimate",
    ),
    _ablation("selector_kernel_1", "selector kernel 1", 72.8, 62.5, selector_kernel=1),
    _ablation("linear_selector", "linear selector", 74.0, 62.8, selector="linear"),
)
_NOT_IN_PAPER = ("switching_layers", "start_and_end_at_different_layers", "selector_kernel_1")
_RIVALS = (
    PublishedRun("fabir", "FABIR", {"epochs": 54}, 77.6, 67.6),
    PublishedRun(
        "bidaf",
        "BiDAF",
        {
            "model": "bidaf",
            "epochs": 12,
            "batch_size": 60,
            "learning_rate": 0.001,
            "ema_decay": 0.999,
            "smoothing": "none",
        },
        77.0,
        67.3,
    ),
)

TABLES = {
    1: tuple(run for run in _ABLATIONS if run.name not in _NOT_IN_PAPER),
    2: _RIVALS,
    6: _ABLATIONS,
}
"""By number: tables I and II of FABIR (arXiv 1810.09580); table 6 of the thesis, table I with three more rows."""

FIGURES = {3: "answer_length", 4: "question_length", 5: "question_type", 6: "passage_length"}
"""Figures of FABIR, which show the F1 of table II's readers: the grouping (`fabir_tf.analysis.groupings`) of each."""
