"""From nothing to the first answer: a new environment, the installation, a question to fabir-base; and the sizes.

    python benchmarks/install.py

It needs a package index and a plain Python.
"""

import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASK = (
    "--model=fabir-base",
    "--question=When did the library open?",
    "--passage=The village library opened in 1904. Its first keeper was Ines Holm, who stayed for thirty years.",
)


def step(what: str, *command: str | Path) -> float:
    """Runs a command, and prints its seconds and its last line of output.

    Args:
        what: the name of the step.
        *command: a program and its arguments.

    Returns:
        The seconds.
    """
    begun = time.monotonic()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if done.returncode:
        sys.exit(f"{what} failed:\n{done.stdout}{done.stderr}")
    last = "".join(done.stdout.splitlines()[-1:])
    print(f"{what}: {seconds:.1f} s  {last}".rstrip(), flush=True)
    return seconds


def main() -> None:
    """Builds the wheel, installs it in a new environment, and asks a question twice."""
    with tempfile.TemporaryDirectory() as folder:
        environment, wheels = Path(folder) / "venv", Path(folder) / "wheels"
        programs = environment / ("Scripts" if sys.platform == "win32" else "bin")
        pip = (programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
        seconds = step("an empty environment", sys.executable, "-m", "venv", environment)
        step("the wheel (not counted)", *pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT)
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        reader = sum(size for name, size in sizes.items() if "/pretrained/fabir-base/" in name)
        seconds += step("installation, with TensorFlow and all it needs", *pip, "install", wheel)
        seconds += step("the first answer", programs / "fabir-predict", *ASK)
        step("another (not counted)", programs / "fabir-predict", *ASK)
        print(f"from nothing to the first answer: {seconds:.0f} s")
        print(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB; unpacked: {sum(sizes.values()) / 1e6:.1f} MB", end="")
        print(f", of which fabir-base: {reader / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
