"""Where the tests find real data: questions of this project, and SQuAD and GloVe beside it.

The latter are no part of this repository; without them, tests skip, visibly. Each such test has one on our own data.
"""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"

OWN_QUESTIONS = Path(__file__).parents[1] / "benchmarks" / "out_of_domain.json"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the folder shared/data beside the checkout")
