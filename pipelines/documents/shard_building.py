"""Indexes documents into several shards at the same time, each in a process of its own."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from fabir_tf.pipelines.documents.folder import read_part
from fabir_tf.pipelines.documents.index import Changes, DocumentIndex
from fabir_tf.pipelines.documents.sharded_index import Shards, total
from fabir_tf.pipelines.errors import UserError
from fabir_tf.pipelines.files import user_path

# Seconds between two reports of progress.
_PAUSE = 0.5

# Of a process that indexes: the number of documents that all of them have read.
_done: Any = None


def build_shards(
    shards: Shards,
    path: str,
    progress: Callable[[int], None] | None = None,
    skipped: Callable[[str], None] | None = None,
) -> Changes:
    """Makes the shards hold exactly the documents of a folder or file, with as many processes as there are cores.

    Each process reads the files of its shard; of JSON lines it reads all and keeps its own. An interrupted call goes on
    where it stopped when it is made again.

    Args:
        shards: of an index that exists.
        path: as for `read_documents`.
        progress: called twice a second with the number of documents so far.
        skipped: takes the sentence about a document that cannot be read, once its shard is done.

    Returns:
        What was done, in all shards together.

    Raises:
        UserError: nothing can be read, another process took over, or a process was ended from outside.
        WriteError: a file cannot be written.
    """
    # Not a fork: the caller may have threads.
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    workers = min(
        shards.count, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    with concurrent.futures.ProcessPoolExecutor(workers, context, _begin, (done,)) as executor:
        try:
            waiting = {executor.submit(_build, shards, number, path) for number in range(shards.count)}
            changes = []
            while waiting:
                ended, waiting = concurrent.futures.wait(waiting, _PAUSE, concurrent.futures.FIRST_COMPLETED)
                for future in ended:
                    changed, faults = future.result()
                    changes.append(changed)
                    if skipped:
                        for fault in faults:
                            skipped(fault)
                if progress:
                    progress(done.value)
        except BrokenProcessPool:
            raise UserError(
                f"{shards.folder}: a process that was indexing has been ended from outside (memory?); the same command "
                "goes on from there."
            ) from None
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return total(changes)


def _begin(done: Any) -> None:
    global _done
    _done = done
    # The command that started this process says what an interruption means; without it there is nothing to do.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _build(shards: Shards, number: int, path: str) -> tuple[Changes, list[str]]:
    """Indexes one shard; returns what was done and the sentences about documents that were left out."""
    faults: list[str] = []
    # All processes read the same lines, of which one reports the faults.
    reports = number == 0 or user_path(path).is_dir()
    unread: set[str] = set()
    told = faults.append if reports else _ignore
    documents = read_part(path, told, shards.holds(number), unread=unread.add)
    with DocumentIndex(shards.paths[number]) as index:
        return index.update_part(documents, _count, faults.append, unread), faults


def _count(number: int, source: str) -> None:
    with _done.get_lock():
        _done.value += 1


def _ignore(sentence: str) -> None:
    """Takes a sentence that another process reports."""
