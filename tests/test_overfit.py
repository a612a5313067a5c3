"""The published model overfits 64 questions through the whole of a real training."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.long
def test_64_questions_of_the_sample_are_overfitted():
    command = [sys.executable, "benchmarks/overfit.py", "--dataset=sample", "--questions=64"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "64 questions to train on, 4 steps per epoch" in done.stdout
    scores = [float(score) for score in re.findall(r"EM (\d+\.\d+)", done.stdout)]
    # The first score is that before training, and training stops as soon as the target is reached.
    assert scores[0] < 10
    assert max(scores[:-1]) < 95 <= scores[-1]
    assert re.search(r"^exact match (\d+\.\d+) after", done.stdout, re.MULTILINE)
