"""The rules of the house: what may import what, and nothing about the place where this was written."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = sorted(ROOT.glob("layers/**/*.py"))
PIPELINES = sorted(ROOT.glob("pipelines/**/*.py"))
FOLDERS = ("fabir_tf", "export", "layers", "pipelines")
PROGRAM = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))
# Put together here, because this file is looked through too.
PRIVATE_PLACES = ("/" + "work/", "/" + "root/", "/" + "home/")


def imported(path):
    """Dotted names of all that a file imports, at its top or inside a function; relative ones begin with a dot."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def is_inside(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def stands_in(path):
    return str(path.relative_to(ROOT))


def test_the_folders_are_not_empty():
    assert len(LAYERS) > 10
    assert len(PIPELINES) > 10
    assert len(PROGRAM) > len(LAYERS) + len(PIPELINES) + 10


@pytest.mark.parametrize("path", LAYERS, ids=stands_in)
def test_layers_import_keras_numpy_and_each_other(path):
    allowed = ("keras", "numpy", "fabir_tf.layers", *sys.stdlib_module_names)
    assert [name for name in imported(path) if not is_inside(name, allowed)] == []


@pytest.mark.parametrize("path", PIPELINES, ids=stands_in)
def test_pipelines_know_no_model(path):
    of_ours = [name for name in imported(path) if is_inside(name, ("fabir_tf", "layers", "export")) or name[0] == "."]
    assert [name for name in of_ours if not is_inside(name, ("fabir_tf.pipelines",))] == []
    assert not [name for name in imported(path) if is_inside(name, ("keras", "tensorflow.keras"))]


@pytest.mark.parametrize("path", PROGRAM, ids=stands_in)
def test_the_mapped_folders_are_imported_by_their_full_names(path):
    assert [name for name in imported(path) if is_inside(name, ("layers", "pipelines", "export", "tests"))] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("fabir_tf/**/*.py")), ids=stands_in)
def test_only_the_commands_read_flags(path):
    if "commands" in path.parts or path.name == "configuration.py":
        return
    assert [name for name in imported(path) if is_inside(name, ("absl", "fabir_tf.commands"))] == []


IMPORT_AND_LOOK = """
import sys
import fabir_tf
fabir_tf.Reader
copies = [name for name in ("layers", "pipelines", "export", "tests") if name in sys.modules]
downloaders = [name for name in ("tensorflow_datasets", "datasets") if name in sys.modules]
print(copies, downloaders, fabir_tf.layers.__name__)
"""


def test_importing_the_package_makes_no_second_copy_and_loads_no_downloader():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_LOOK], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] [] fabir_tf.layers"


def files_of_the_repository():
    """What is or could be committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and its checkout")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_nothing_names_the_place_where_it_was_written():
    found = []
    for path in files_of_the_repository():
        raw = path.read_bytes()
        found += [f"{path.relative_to(ROOT)}: {place}" for place in PRIVATE_PLACES if place.encode() in raw]
    assert found == []


def test_no_tests_package():
    # With one, `tests` would import the mapped folders by their bare names.
    assert not (ROOT / "tests" / "__init__.py").exists()
