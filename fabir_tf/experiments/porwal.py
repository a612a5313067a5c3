"""Tables 6.1 and 6.2 of Porwal's thesis: the scores of each epoch, and answers to eight questions."""

from collections.abc import Mapping, Sequence

from fabir_tf.experiments.compare import markdown_row

EPOCHS = {
    1: (0.89, 9.6661, 1.35, 8.9407),
    2: (1.89, 8.5702, 3.05, 8.0087),
    3: (3.32, 7.8534, 3.54, 7.7675),
    4: (3.78, 7.6285, 3.62, 7.6399),
    5: (4.08, 7.4961, 4.04, 7.5899),
    6: (4.22, 7.4510, 4.20, 7.5003),
}
"""Table 6.1: training accuracy in percent, training loss, validation accuracy in percent, validation loss."""

STAGES = (1, 4)
"""The epochs after which table 6.2 shows answers."""

# (passage, question, answer of a published BERT, answer after one epoch, after four).
_ARMED_FORCES = (
    "It begins at the top with the most senior-ranking personnel and works its way into lower organizations."
)
EXAMPLES = (
    (
        f"The following is the hierarchy of the Canadian armed forces. {_ARMED_FORCES}",
        "What is the hierarchy of the Canadian armed forces?",
        "It begins at the top with the most senior - ranking personnel",
        f"Canadian armed forces. {_ARMED_FORCES}",
        "Canadian armed forces",
    ),
    (
        "There is a mango tree planted outside the house.",
        "What is planted outside the house?",
        "mango tree",
        "There is a mango",
        "mango tree planted outside the house",
    ),
    (
        "Anusha is a final year computer science student. She is enrolled at Shiv Nadar university. The university is "
        "located in greater Noida. her father's name is Dilip.",
        "What is Anusha a student of?",
        "Shi",
        "Anusha is a final year computer science student. She is enrolled at Shiv Nadar",
        "Shiv Nadar university. The university is located in greater Noida",
    ),
    ("He is going to Mumbai.", "Where is he going?", "Mumbai", "He", "Mumbai"),
    ("I will drink tea today.", "What will I drink today?", "tea", "I", "drink tea"),
    (
        "The effect of Luther's intervention was immediate. After the sixth sermon, the Wittenberg jurist Jerome "
        "Schurf wrote to the elector: oh, what joy has Dr. Martin's return spread among us! His words, through divine "
        "mercy, are bringing back every day misguided people into the way of the truth.",
        "Who wrote a resounding letter to the elector praising Luther?",
        "Jerome Schurf",
        "Wittenberg jurist Jerome Schurf",
        "sixth sermon, the Wittenberg jurist Jerome Schurf",
    ),
    (
        "The BBC television department headed by Jana Bennett was absorbed into a new, much larger group; BBC vision, "
        "in late 2006. The new group was part of larger restructuring within the BBC with the onset of new media "
        "outlets and technology.",
        "What caused the move of BBC television into the BBC vision unit?",
        "new media outlets and technology",
        "Jana",
        "Jana Bennett was absorbed into a new, much larger group; BBC vision, in late 2006",
    ),
    (
        "Valencian is classified as a western dialect, along with the north western varieties spoken in western "
        "Catalonia (provinces of Lleida and the western half of Tarragona). The various forms of Catalan and Valencian "
        "are mutually intelligible (ranging from 90% to 95%)",
        "What forms are mutually intelligible?",
        "Catalan and Valencian",
        "Catalonia (provinces of Lleida and the western half of Tarragona",
        "90% to 95%",
    ),
)
"""Table 6.2; the thesis cuts the passages as they stand here."""


def questions() -> list[dict[str, str]]:
    """`EXAMPLES` as rows of an input file of `fabir-predict`."""
    return [
        {"id": str(number), "question": question, "passage": passage}
        for number, (passage, question, *_) in enumerate(EXAMPLES, 1)
    ]


def epochs_table(history: Sequence[Mapping[str, str]]) -> str:
    """Table 6.1 in Markdown, ours beside the published figures.

    Args:
        history: the rows of a run's history.csv.
    """
    head = (
        "epoch",
        "training loss",
        "published",
        "validation accuracy, %",
        "published",
        "validation loss",
        "published",
    )
    lines = [markdown_row(head), markdown_row(["---"] * len(head))]
    for row in history[1:]:
        published = EPOCHS.get(int(row["epoch"]), ("",) * 4)
        accuracy = f"{100 * float(row['accuracy']):.2f}" if row["accuracy"] else ""
        _, published_loss, published_accuracy, published_held_out = published
        cells = (row["epoch"], _rounded(row["loss"]), published_loss, accuracy, published_accuracy)
        lines.append(markdown_row((*cells, _rounded(row["held_out_loss"]), published_held_out)))
    return "\n".join(lines)


def answers_table(answers: Mapping[int, Sequence[str]]) -> str:
    """Table 6.2 in Markdown, ours beside the published answers.

    Args:
        answers: by epoch of `STAGES` the answers to `EXAMPLES`.
    """
    stages = [f"after {epochs} epoch{'s' if epochs > 1 else ''}" for epochs in STAGES]
    head = ("question", "published BERT", *(cell for stage in stages for cell in (stage, "published")))
    lines = [markdown_row(head), markdown_row(["---"] * len(head))]
    for number, (_, question, bert, *published) in enumerate(EXAMPLES):
        cells = (
            cell for epochs, text in zip(STAGES, published, strict=True) for cell in (answers[epochs][number], text)
        )
        lines.append(markdown_row((question, bert, *map(_escaped, cells))))
    return "\n".join(lines)


def _rounded(text: str) -> str:
    return f"{float(text):.4f}" if text else ""


def _escaped(text: str) -> str:
    return text.replace("|", chr(92) + "|")
