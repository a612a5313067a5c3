"""The rules of the house: which folder imports which, where old names may occur, and what the package exports."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from long_tests import share

import fabir_tf

ROOT = Path(__file__).parents[1]
FOLDERS = ("fabir_tf", "export", "layers", "pipelines")
PROGRAM = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))
# Assembled from parts, because this file is searched too.
PRIVATE_FOLDERS = ("/" + "work/", "/" + "root/", "/" + "home/")

# Which parts of fabir_tf each part may import. A part is a folder, or a module that lies directly in fabir_tf.
_TEXT = {"pipelines", "version"}
_MODELS = _TEXT | {"compatibility", "configuration", "layers", "models", "precision", "renamed_settings"}
_READING = _MODELS | {"backends", "onednn", "reading"}
MAY_IMPORT = {
    "layers": {"layers"},
    "compatibility": {"layers"},
    "precision": set(),
    "renamed_settings": set(),
    "saved_optimizers": {"backends"},
    "pipelines": _TEXT,
    "configuration": _TEXT,
    "version": set(),
    "models": _MODELS,
    "onednn": set(),
    "backends": {"backends", "layers", "models", "onednn", "pipelines"},
    "reading": _READING,
    "training": _READING | {"training"},
    "analysis": _READING | {"analysis"},
    "edge": _TEXT | {"edge", "reading"},
    "export": _READING | {"edge", "export"},
    "experiments": _READING | {"training", "analysis", "experiments"},
    "serving": _READING | {"export", "serving"},
    "beam": _READING | {"export", "beam"},
    "commands": _READING | {"training", "analysis", "experiments", "edge", "export", "serving", "beam", "commands"},
}
FROM_OUTSIDE = {"layers": ("keras", "numpy")}
NEVER_FROM_OUTSIDE = {"pipelines": ("keras", "tensorflow.keras"), "edge": ("keras", "tensorflow")}

# Names that version 0.1 used. Two files translate them; no other one needs them.
OLD_NAMES = re.compile(
    r"\b(?:BorderLoss|border_targets|TeacherBorders|teacher_share|asked_passages|type_words|passage_types|few_shapes"
    r"|sublayer_start|cross_attention_start|first_position|(?:input|word|sublayer|attention|selector|character)_keep"
    r"|WarmupSchedule|Cooldown|smoothing_amount|expect_\w+|of_files|answers_at|PassageSharing)\b"
)
KNOW_OLD_NAMES = (
    "fabir_tf/compatibility.py",
    "fabir_tf/renamed_settings.py",
    "tests/test_compatibility.py",
    "tests/test_bad_input.py",  # gives old flags and old settings, and checks the messages
    "tests/test_house.py",
    "tests/fixtures/",
    "CHANGELOG.md",
    "benchmarks/RESULTS.md",
)


def relative(path):
    return path.relative_to(ROOT).as_posix()


def part_of(path):
    """The part of fabir_tf that a file belongs to. Only the path below the checkout counts."""
    folders = path.relative_to(ROOT).parts
    return folders[0] if folders[0] != "fabir_tf" else folders[1].removesuffix(".py")


def imported(path):
    """Dotted names that a file imports, at its top or inside a function; relative ones begin with a dot."""
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


def forbidden_imports(path, part):
    """The imports of a file that its part of the package may not have.

    A name that fabir_tf/__init__.py exports, such as fabir_tf.Reader, is forbidden inside the package: it hides which
    part it comes from.
    """
    names = imported(path)
    allowed = [f"fabir_tf.{other}" for other in MAY_IMPORT[part]]
    if part in FROM_OUTSIDE:
        allowed += [*FROM_OUTSIDE[part], *sys.stdlib_module_names]
        return [name for name in names if not is_inside(name, allowed)]
    wrong = [name for name in names if name.startswith(".") or is_inside(name, ("fabir_tf",))]
    wrong = [name for name in wrong if not is_inside(name, allowed)]
    return wrong + [name for name in names if is_inside(name, NEVER_FROM_OUTSIDE.get(part, ()))]


def test_each_long_test_is_in_one_share():
    tests = [f"test_{number}" for number in range(20)]
    assert share(tests, "all") == tests and share(tests, "none") == []
    for shares in (1, 3, 6, 30):
        found = [test for number in range(shares) for test in share(tests, f"{number + 1}/{shares}")]
        assert sorted(found) == sorted(tests)


@pytest.mark.parametrize("wanted", ["", "0/6", "7/6", "2", "-1/6", "some"])
def test_a_share_that_there_is_not(wanted):
    with pytest.raises(ValueError, match="expected none, all, or a share such as 2/6"):
        share([], wanted)


def test_the_folders_are_not_empty():
    files = {part: [path for path in PROGRAM if part_of(path) == part] for part in MAY_IMPORT}
    assert [part for part, paths in files.items() if not paths] == []
    assert len(files["layers"]) > 30
    assert len(files["pipelines"]) > 20


@pytest.mark.parametrize("path", [path for path in PROGRAM if relative(path) != "fabir_tf/__init__.py"], ids=relative)
def test_the_arrows_point_one_way(path):
    assert forbidden_imports(path, part_of(path)) == []


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("layers", "import tensorflow"),
        ("layers", "from fabir_tf import pipelines"),
        ("layers", "from .core import masking"),
        ("pipelines", "def f():\n    from fabir_tf.models import outputs"),
        ("pipelines", "import keras"),
        ("pipelines", "from ..layers import core"),
        ("models", "from fabir_tf.reading.answers import Span"),
        ("reading", "import fabir_tf.training.train"),
        ("reading", "from fabir_tf import train"),
        ("reading", "import fabir_tf"),
        ("reading", "from fabir_tf.analysis import scores"),
        ("training", "from fabir_tf.export import export_reader"),
        ("analysis", "from fabir_tf.experiments import compare"),
        ("export", "from fabir_tf.commands import cli"),
        ("edge", "import tensorflow"),
        ("edge", "from fabir_tf.models import outputs"),
    ],
)
def test_a_wrong_arrow_is_found(tmp_path, part, line):
    path = tmp_path / "commands" / "wrong.py"
    path.parent.mkdir()
    path.write_text(line, encoding="utf-8")
    assert len(forbidden_imports(path, part)) == 1


@pytest.mark.parametrize("path", PROGRAM, ids=relative)
def test_the_mapped_folders_are_imported_by_their_full_names(path):
    assert [name for name in imported(path) if is_inside(name, ("layers", "pipelines", "export", "tests"))] == []


# Clocks that people and machines set.
CLOCKS_THAT_CAN_BE_SET = re.compile(r"\btime\.time(_ns)?\(|\bfrom time import\b|\bdatetime\b|\btf\.timestamp\b")


def test_no_time_is_taken_from_a_clock_that_can_be_set():
    lines = {relative(path): path.read_text(encoding="utf-8") for path in PROGRAM}
    assert len(lines) > 100
    assert [name for name, text in lines.items() if CLOCKS_THAT_CAN_BE_SET.search(text)] == []


def test_only_the_commands_and_the_configuration_read_flags():
    readers = {relative(path) for path in PROGRAM if any(is_inside(name, ("absl",)) for name in imported(path))}
    assert "fabir_tf/commands/train.py" in readers
    assert {path for path in readers if not path.startswith("fabir_tf/commands/")} == {"fabir_tf/configuration.py"}


def test_one_module_knows_private_attributes_of_keras():
    private = re.compile(r"\b_(?:keras_history|inbound_nodes)\b")
    found = {relative(path) for path in PROGRAM if private.search(path.read_text(encoding="utf-8"))}
    assert found == {"fabir_tf/models/graph_nodes.py"}


IMPORT_AND_LOOK = """
import sys
import fabir_tf
fabir_tf.Reader
copies = [name for name in ("layers", "pipelines", "export", "tests") if name in sys.modules]
downloaders = [name for name in ("tensorflow_datasets", "datasets") if name in sys.modules]
print(copies, downloaders, fabir_tf.layers.__name__)
missing = [name for name in fabir_tf.__all__ if not hasattr(fabir_tf, name)]
print(missing, set(fabir_tf.__all__) <= set(dir(fabir_tf)), sorted(fabir_tf._LAZY.keys() - set(fabir_tf.__all__)))
"""


def run_python(code, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_importing_the_package_makes_no_second_copy_loads_no_downloader_and_finds_every_exported_name():
    assert run_python(IMPORT_AND_LOOK, ROOT) == ["[] [] fabir_tf.layers", "[] True []"]


def test_completion_offers_what_is_exported_and_nothing_else():
    assert dir(fabir_tf) == sorted(fabir_tf.__all__)
    assert {"Reader", "train", "TrainingConfig", "export", "look_inside", "batches_to_fit"} <= set(dir(fabir_tf))


# An editable installation would find the folders by itself, so its finder is removed first.
IMPORT_WITHOUT_INSTALLATION = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
import fabir_tf
from fabir_tf import export, layers, pipelines
for module in (fabir_tf, export, layers, pipelines):
    print(module.__file__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False], ids=["in the checkout", "elsewhere with PYTHONPATH"])
def test_a_checkout_that_is_not_installed_imports_its_folders(tmp_path, inside):
    folder, environment = (ROOT, {}) if inside else (tmp_path, {"PYTHONPATH": str(ROOT)})
    files = run_python(IMPORT_WITHOUT_INSTALLATION, folder, **environment)
    assert files == [str(ROOT / folder / "__init__.py") for folder in FOLDERS]


def test_the_version_is_written_once():
    (written,) = re.findall(r'__version__ = "(.+)"', (ROOT / "fabir_tf" / "version.py").read_text(encoding="utf-8"))
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert "version=VERSION," in setup
    assert written not in setup
    assert fabir_tf.__version__ == written


def files_of_the_repository():
    """The files that are or could be committed."""
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
        found += [f"{relative(path)}: {place}" for place in PRIVATE_FOLDERS if place.encode() in raw]
    assert found == []


@pytest.mark.slow
def test_only_the_compatibility_module_knows_names_of_version_0_1():
    found = []
    for path in files_of_the_repository():
        if relative(path).startswith(KNOW_OLD_NAMES):
            continue
        lines = path.read_bytes().decode(errors="replace").splitlines()
        found += [
            f"{relative(path)}:{number}: {line}" for number, line in enumerate(lines, 1) if OLD_NAMES.search(line)
        ]
    assert found == []


def test_the_repository_has_no_symbolic_links():
    # They break on Windows and in zip files.
    assert [relative(path) for path in files_of_the_repository() if path.is_symlink()] == []


def test_no_tests_package():
    # With one, `tests` would import the mapped folders by their bare names.
    assert not (ROOT / "tests" / "__init__.py").exists()
