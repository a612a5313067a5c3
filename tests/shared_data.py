"""Where the tests find real data, which is no part of this repository; without it they skip, visibly."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the folder shared/data beside the checkout")
