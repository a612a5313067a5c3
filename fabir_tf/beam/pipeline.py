"""The pipeline: parts are read, answered and written, each as one shard, without waiting for the others."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import PredictionResult, RunInference

from fabir_tf.beam.model_handler import SavedModelHandler
from fabir_tf.beam.questions import GivenQuestion
from fabir_tf.beam.records import Part, ReadPart, Rejected, read_part
from fabir_tf.beam.shards import Shards, encoded, row_of
from fabir_tf.beam.storage import write_file

NAMESPACE = "fabir"
COUNTERS = ("records", "answers", "no_answers", "rejected", "shards")
"""What is counted: records that were read, answers, questions without an answer, rejected records or questions."""

Place = tuple[int, int, str]
"""A record's part, its number in its file, and its file."""


@dataclass(frozen=True)
class Collection:
    """What is read, and where its answers go.

    Attributes:
        parts: of the input.
        questions: about every record; empty where each has its own.
        shards: where the answers go.
        best: answers of each question that are best among all records; 0 for none.
    """

    parts: tuple[Part, ...]
    questions: tuple[GivenQuestion, ...]
    shards: Shards
    best: int = 0


def read_collection(pipeline: beam.Pipeline, collection: Collection, handler: SavedModelHandler) -> None:
    """Adds the steps that make all shards which are not there, and then the best answers.

    Args:
        pipeline: Beam's pipeline.
        collection: what is read.
        handler: loads and calls the model.
    """
    finished = collection.shards.finished()
    # An id is repeated wherever its first record is, so the finished parts are read for it, too.
    repeated = (
        pipeline
        | "Parts with ids" >> beam.Create(collection.parts)
        | "Spread ids" >> beam.Reshuffle()
        | "Read ids" >> beam.FlatMap(_ids, collection.questions)
        | "Same ids" >> beam.GroupByKey()
        | "Repeated ids" >> beam.FlatMap(_repetitions)
        | "Repeated ids of a part" >> beam.GroupByKey()
    )
    made = (
        pipeline
        | "Parts" >> beam.Create([part for part in collection.parts if part.number not in finished])
        | "Spread parts" >> beam.Reshuffle()
        | "Read" >> beam.Map(_read, collection.questions, beam.pvalue.AsDict(repeated))
        | "Answer" >> RunInference(handler)
        | "Write" >> beam.ParDo(_Write(collection.shards))
    )
    if collection.best:
        _add_best(pipeline, collection, finished, made)


def _add_best(pipeline: beam.Pipeline, collection: Collection, finished: set[int], made: beam.PCollection) -> None:
    shards, kept = collection.shards, pipeline | "Finished shards" >> beam.Create(sorted(finished))
    order = {question.id: place for place, question in enumerate(collection.questions)}
    _ = (
        (made, kept)
        | "All shards" >> beam.Flatten()
        | "Spread shards" >> beam.Reshuffle()
        | "Read shards" >> beam.FlatMap(_answers_of, shards)
        | "Best" >> beam.combiners.Top.SmallestPerKey(collection.best, key=_rank)
        | "Together" >> beam.combiners.ToList()
        | "Write best" >> beam.Map(_write_best, shards, order)
    )


# === Ids ===


def _ids(part: Part, questions: Sequence[GivenQuestion]) -> Iterator[tuple[bytes, Place]]:
    """Where each id is; the number 7 and the text "7" are one, as in a file of questions."""
    for one in read_part(part, questions[:1]).asked:
        key = hashlib.sha256(str(one.id).encode("utf-8", "surrogatepass")).digest()[:16]
        yield key, (part.number, one.number, one.source)


def _repetitions(places: tuple[bytes, Iterable[Place]]) -> Iterator[tuple[int, tuple[str, int, Place]]]:
    """For all places of an id but the first: the part, the record, and the first place."""
    first, *others = sorted(places[1])
    for part, number, source in others:
        yield part, (source, number, first)


def _read(part: Part, questions: Sequence[GivenQuestion], repeated: Mapping[int, Any]) -> ReadPart:
    """Reads a part; a record that repeats the id of an earlier one is rejected."""
    first = {(source, number): place for source, number, place in repeated.get(part.number, ())}
    read, good = read_part(part, questions), ReadPart(part)
    rejected = {(one.source, one.number): one for one in read.rejected}
    for one in read.asked:
        place = first.get((one.source, one.number))
        if place:
            _, number, source = place
            reason = f"{one.source}: number {one.number} has the id of number {number} of {source}, expected another."
            rejected[one.source, one.number] = Rejected(one.id, one.source, one.number, reason)
        else:
            good.asked.append(one)
    good.rejected = [rejected[key] for key in sorted(rejected)]
    return good


# === Shards ===


class _Write(beam.DoFn):
    """Writes the shard of a part, and returns its number."""

    def __init__(self, shards: Shards):
        self._shards = shards
        self._counters = {name: Metrics.counter(NAMESPACE, name) for name in COUNTERS}

    def process(self, result: PredictionResult) -> Iterator[int]:
        """Writes one shard."""
        read, found = result.example, result.inference
        pairs = list(zip(read.asked, found, strict=True))
        rows = [row_of(asked, answer) for asked, answer in pairs if not isinstance(answer, str)]
        failed = [Rejected(one.id, one.source, one.number, reason) for one, reason in pairs if isinstance(reason, str)]
        self._shards.write(read.part.number, rows, [*read.rejected, *failed])
        answered = sum(row["is_answer"] for row in rows)
        rejected = len(read.rejected) + len(failed)
        records = len({(one.source, one.number) for one in read.asked}) + len(read.rejected)
        counts = (records, answered, len(rows) - answered, rejected, 1)
        for name, count in zip(COUNTERS, counts, strict=True):
            self._counters[name].inc(count)
        yield read.part.number


def _answers_of(number: int, shards: Shards) -> Iterator[tuple[Any, dict[str, Any]]]:
    for row in shards.read(number):
        if row["is_answer"]:
            yield row["question_id"], row


def _rank(row: Mapping[str, Any]) -> tuple[float, str, int]:
    """Orders answers, the best first; the same score in the order of the records."""
    return -row["score"], row["source"], row["number"]


def _write_best(found: list[tuple[Any, list[dict[str, Any]]]], shards: Shards, order: Mapping[Any, int]) -> None:
    places = {str(question): place for question, place in order.items()}
    ordered = sorted(found, key=lambda one: places[str(one[0])])
    rows = [row | {"rank": rank} for _, best in ordered for rank, row in enumerate(best, 1)]
    write_file(shards.best_path, encoded(rows, shards.format))
