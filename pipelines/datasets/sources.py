"""Loads questions from a file, TensorFlow Datasets or the sample that comes with the library."""

import functools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fabir_tf.pipelines.datasets.formats import format_of, read_questions
from fabir_tf.pipelines.datasets.squad import Answer, Question, SquadData, join
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import named_files, user_path

AUTO = "auto"
SAMPLE = "sample"
SQUAD = "squad/v1.1"
_EXPECTED = f"the path of a file of questions, {AUTO}, {SAMPLE}, or a dataset of TensorFlow Datasets such as {SQUAD}"
BUNDLED = Path(__file__).parents[1] / "bundled"
TFDS_SPLITS = {"train": "train", "dev": "validation"}
NEEDED_FEATURES = ("id", "context", "question", "answers")
PROBE_SECONDS = 5.0
LONGEST_REASON = 200


def load_dataset(
    spec: str | os.PathLike,
    split: str,
    *,
    tfds_data_dir: str | None = None,
    tfds_manual_dir: str | None = None,
    flag: str = "--dataset",
    log: Callable[[str], object] = print,
) -> SquadData:
    """Loads the dataset that a flag names.

    Args:
        spec: "sample" for the bundled sample; the path of a file of questions (see `read_questions`); the name of a
            dataset of TensorFlow Datasets with SQuAD's features, for example "squad/v1.1" or "squad/v2.0"; or "auto"
            for squad/v1.1 if it is prepared or can be prepared, else the bundled sample. "auto" is resolved once per
            process, so training and evaluation never mix two datasets. Several names, separated by commas, are joined
            into one dataset.
        split: "train" or "dev" ("validation" in TensorFlow Datasets); a file is read whole for either.
        tfds_data_dir: the folder of prepared datasets; None for the default of TensorFlow Datasets.
        tfds_manual_dir: a folder with the official files (train-v1.1.json and dev-v1.1.json for squad/v1.1), from
            which the dataset is prepared without a download; None to download.
        flag: the flag's name, for messages.
        log: called with one line that says what "auto" means and why.

    Returns:
        The questions; each passage is stored once.

    Raises:
        UserError: a dataset does not exist, cannot be read, or can be neither prepared nor downloaded; or two datasets
            share a question id.
    """
    if split not in TFDS_SPLITS:
        raise UserError(f"The split is {split!r}, expected one of {', '.join(TFDS_SPLITS)}.")
    parts = named_files(spec)
    if "" in parts:
        raise UserError(f"{flag}={spec}: found an empty name, expected {_EXPECTED}, or several, separated by commas.")
    try:
        return join([_load(part, split, tfds_data_dir, tfds_manual_dir, log) for part in parts])
    except UserError as error:
        raise UserError(str(error).replace("--dataset=", f"{flag}=")) from error


def names_file(spec: str) -> bool:
    """Whether the names that `load_dataset` takes include a file, which has one split only."""
    return any(format_of(part) is not None or user_path(part).is_file() for part in named_files(spec))


def data_from_rows(rows: Iterable[Mapping[str, Any]], name: str) -> SquadData:
    """Builds `SquadData` from rows that repeat the passage with each question.

    Args:
        rows: mappings as from `tfds.as_numpy`: UTF-8 bytes `id`, `context`, `question`, optionally `title`,
            `answers` with the arrays `text` and `answer_start` (in characters), and optionally a bool `is_impossible`.
        name: the dataset's name, for messages.

    Returns:
        The questions in the order of the rows; rows with the same title and context share one passage. A row with an
        answer is never marked impossible, as in the official score.

    Raises:
        UserError: there is no row, or two rows have the same id.
    """
    passage_indices: dict[tuple[str, str], int] = {}
    questions: dict[str, Question] = {}
    for row in rows:
        title, context = _decode(row.get("title", b"")), _decode(row["context"])
        passage = passage_indices.setdefault((title, context), len(passage_indices))
        question = _question_from_row(row, passage)
        if question.id in questions:
            raise UserError(f"{name}: two rows have the id {question.id!r}, expected one row per id.")
        questions[question.id] = question
    if not questions:
        raise UserError(f"{name}: found no question, expected at least one.")
    titles, passages = zip(*passage_indices, strict=True)
    return SquadData(name, passages, titles, tuple(questions.values()))


def is_reachable(url: str) -> bool:
    """Checks whether a server responds, with the proxies and certificates that TensorFlow Datasets uses.

    Args:
        url: an http or https address.

    Returns:
        True for any HTTP response within `PROBE_SECONDS`; False for none, a refused connection or a bad certificate.
    """
    import requests

    responses: list[int] = []

    def probe() -> None:
        try:
            responses.append(requests.head(url, timeout=PROBE_SECONDS, allow_redirects=True).status_code)
        except (requests.RequestException, OSError, ValueError):
            return

    # The timeout of requests does not cover the DNS lookup, which alone may take a minute.
    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return bool(responses)


def _load(
    spec: str, split: str, tfds_data_dir: str | None, tfds_manual_dir: str | None, log: Callable[[str], object]
) -> SquadData:
    if spec == SAMPLE:
        return _load_sample(split)
    if spec == AUTO:
        use_squad, reason = _settle_auto(tfds_data_dir, tfds_manual_dir)
        log(f"--dataset=auto: {reason}")
        return _load_tfds(SQUAD, split, tfds_data_dir, tfds_manual_dir) if use_squad else _load_sample(split)
    if names_file(spec):
        return read_questions(spec)
    return _load_tfds(spec, split, tfds_data_dir, tfds_manual_dir)


def _load_sample(split: str) -> SquadData:
    path = BUNDLED / f"sample-{split}.json"
    if not path.is_file():
        raise UserError(f"--dataset=sample: {path} is missing, expected it to come with the library; install it again.")
    return replace(read_questions(path), name=f"{SAMPLE} ({split})")


@functools.cache
def _settle_auto(data_dir: str | None, manual_dir: str | None) -> tuple[bool, str]:
    """Decides whether "auto" means squad/v1.1, which is then prepared, and gives the reason."""
    try:
        builder = _find_builder(SQUAD, data_dir)
        was_prepared = _is_prepared(builder)
        _prepare(builder, SQUAD, manual_dir)
    except UserError as error:
        # A user who names a folder wants its data, not the sample.
        if manual_dir is not None:
            raise
        reason = str(error).removeprefix(f"--dataset={SQUAD}: ")
        return False, f"the bundled sample, because {SQUAD} is not available: {reason}"
    if was_prepared:
        return True, f"{SQUAD}, because it is prepared in {builder.data_dir}."
    source = "downloaded" if manual_dir is None else f"prepared from {manual_dir}"
    return True, f"{SQUAD}, because it could be {source}; it is kept in {builder.data_dir}."


def _load_tfds(spec: str, split: str, data_dir: str | None, manual_dir: str | None) -> SquadData:
    builder = _find_builder(spec, data_dir)
    _prepare(builder, spec, manual_dir)
    import tensorflow_datasets as tfds

    try:
        rows = builder.as_dataset(split=TFDS_SPLITS[split], shuffle_files=False)
    except ValueError as error:
        raise UserError(
            f"--dataset={spec}: there is no split {TFDS_SPLITS[split]!r} to use for {split} ({_first_line(error)})."
        ) from None
    return data_from_rows(tfds.as_numpy(rows), f"{spec} ({split})")


def _find_builder(spec: str, data_dir: str | None) -> Any:
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise UserError(
            f"--dataset={spec}: tensorflow_datasets cannot be imported ({error}); "
            "install it, or give the path of a file of questions."
        ) from None
    try:
        builder = tfds.builder(spec, data_dir=None if data_dir is None else user_path(data_dir))
    # TFDS raises different exceptions for an unknown name, configuration and version.
    except Exception as error:
        found = "found a folder" if Path(spec).is_dir() else "found no such file or dataset"
        raise UserError(f"--dataset={spec}: {found}, expected {_EXPECTED} ({_first_line(error)}).") from None
    features = builder.info.features
    missing = [name for name in NEEDED_FEATURES if name not in features]
    if missing or not _holds_answers(features["answers"]):
        raise UserError(
            f"--dataset={spec}: found the features {', '.join(features)}, "
            f"expected {', '.join(NEEDED_FEATURES)} with the fields text and answer_start in answers."
        )
    return builder


def _holds_answers(feature: Any) -> bool:
    fields = getattr(feature, "feature", None)
    return fields is not None and "text" in fields and "answer_start" in fields


def _prepare(builder: Any, spec: str, manual_dir: str | None) -> None:
    """Makes sure that the dataset is on disk; an offline machine gets its error within seconds."""
    if _is_prepared(builder):
        return
    import tensorflow_datasets as tfds

    _check_can_prepare(builder, spec, manual_dir)
    folder = None if manual_dir is None else user_path(manual_dir)
    try:
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir=folder))
    # The network, the disk, the checksums and the dataset's code raise different exceptions.
    except Exception as error:
        raise UserError(
            f"--dataset={spec}: cannot be prepared in {builder.data_dir} ({_first_line(error)}); {_advice(builder)}."
        ) from error


def _is_prepared(builder: Any) -> bool:
    # TFDS's is_prepared logs a warning for a missing folder, which is normal here.
    return builder.data_path.exists()


def _check_can_prepare(builder: Any, spec: str, manual_dir: str | None) -> None:
    if manual_dir is not None and not user_path(manual_dir).is_dir():
        raise UserError(f"--tfds_manual_dir={manual_dir}: found no such folder, {_advice(builder)}.")
    # Under tfds.testing.mock_data nothing is downloaded, so nothing needs to be reachable.
    if not builder.url_infos or _is_mocked(builder):
        return
    missing = _missing_files(builder, manual_dir)
    url = next(iter(builder.url_infos))
    if missing and not is_reachable(url):
        where = "" if manual_dir is None else f", {', '.join(missing)} not found in --tfds_manual_dir={manual_dir}"
        raise UserError(
            f"--dataset={spec}: not prepared in {builder.data_dir}{where}, and {urlsplit(url).netloc} "
            f"cannot be reached to download it; {_advice(builder)}."
        )


def _is_mocked(builder: Any) -> bool:
    return type(builder).download_and_prepare.__module__.startswith("tensorflow_datasets.testing")


def _missing_files(builder: Any, manual_dir: str | None) -> list[str]:
    names = _official_files(builder)
    if manual_dir is None:
        return names
    return [name for name in names if not (user_path(manual_dir) / name).is_file()]


def _official_files(builder: Any) -> list[str]:
    config = builder.builder_config
    if hasattr(config, "train_file") and hasattr(config, "dev_file"):
        return [config.train_file, config.dev_file]
    return sorted({os.path.basename(info.filename) for info in (builder.url_infos or {}).values()})


def _advice(builder: Any) -> str:
    names = _official_files(builder)
    files = f" holding the official {' and '.join(names)}" if 0 < len(names) <= 3 else " holding its official files"
    return f"give a folder{files} with --tfds_manual_dir, or a file of questions with --dataset=PATH"


def _question_from_row(row: Mapping[str, Any], passage: int) -> Question:
    texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
    # Not strict, because in the random rows of tfds.testing.mock_data the two lengths differ.
    answers = tuple(Answer(_decode(text), int(start)) for text, start in zip(texts, starts, strict=False))
    is_impossible = bool(row.get("is_impossible", False)) and not answers
    return Question(_decode(row["id"]), _decode(row["question"]), passage, answers, is_impossible)


def _decode(text: bytes) -> str:
    return text.decode("utf-8")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = lines[0].rstrip(" .:")
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."
