"""The lock of a run's folder: one training at a time, and none is kept out by a training that has died."""

import contextlib
from collections.abc import Iterator

from fabir_tf.pipelines.errors import UserError
from fabir_tf.reading.run_directory import RunDirectory
from fabir_tf.training.process_lock import held


@contextlib.contextmanager
def locked(run: RunDirectory) -> Iterator[None]:
    """Keeps other trainings out of a run's folder.

    Args:
        run: the folder; it is created, and if nothing else was written into it, it is removed again.

    Raises:
        UserError: another training is writing into the folder, or one on another machine may be.
        WriteError: the folder cannot be written.
    """
    flag = f"--run_dir={run.path}"

    def refuse(pid: int) -> None:
        raise UserError(
            f"{flag}: found {run.lock.name} of process {pid}, which is training this run: wait for it, or name another "
            "folder"
        )

    def remove_unfinished(pid: int) -> None:
        for path in run.path.rglob(f"*.{pid}.tmp"):
            path.unlink(missing_ok=True)

    made = [folder for folder in (run.path, *run.path.parents) if not folder.exists()]
    try:
        with held(run.lock, flag, refuse, remove_unfinished):
            yield
    finally:
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()
