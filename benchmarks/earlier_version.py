"""The earlier version that a benchmark compares this tree with: a commit, or a folder."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from absl import flags
from both_layouts import layout_class
from common import unpack_commit


@contextlib.contextmanager
def earlier_version(values: flags.FlagValues) -> Iterator[str]:
    """The folder of the version that --commit or --tree names.

    Raises:
        UserError: both are given, or neither, or it holds no version.
    """
    from fabir_tf.pipelines.errors import UserError

    if bool(values.commit) == bool(values.tree):
        raise UserError("expected either --commit or --tree: name the earlier version")
    with tempfile.TemporaryDirectory() as folder:
        tree = str(Path(values.tree).expanduser().resolve()) if values.tree else folder
        if values.commit:
            unpack_commit(values.commit, folder)
        layout_class(tree)
        yield tree
