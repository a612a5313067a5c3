"""What MkDocs does besides its plugins: sources as one package, the page of flags, equations, no outside script."""

import html
import re
import shutil
import sys
import tempfile
from pathlib import Path

import latex2mathml.converter
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
from flag_tables import flags_page  # noqa: E402

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
# Material's offline search asks the internet for this script; docs/worker.js does the same from the folder.
_OUTSIDE_WORKER = "https://unpkg.com/iframe-worker/shim"
_sources = tempfile.TemporaryDirectory()


@event_priority(100)
def on_config(config):
    """Shows mkdocstrings the package as it is installed, with layers/, pipelines/ and export/ inside."""
    package = Path(_sources.name) / "fabir_tf"
    for folder in ("fabir_tf", "layers", "pipelines", "export"):
        target = package if folder == "fabir_tf" else package / folder
        shutil.copytree(ROOT / folder, target, ignore=_not_python, dirs_exist_ok=True)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [_sources.name]
    return config


def _not_python(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".py") and not (Path(folder) / name).is_dir()]


def on_files(files, config):
    """Adds the page that no file holds."""
    files.append(File.generated(config, "flags.md", content=flags_page()))
    return files


def on_page_content(content, **_):
    """Turns equations into MathML, which browsers show without a script."""
    return _EQUATION.sub(_mathml, content)


def _mathml(match: re.Match) -> str:
    display = "block" if match[1] == "div" else "inline"
    return latex2mathml.converter.convert(html.unescape(match[2]), display=display)


def on_post_page(output, page, **_):
    """Replaces the one script from outside by our own."""
    return output.replace(_OUTSIDE_WORKER, "../" * page.url.count("/") + "worker.js")


def on_post_template(output_content, template_name, **_):
    """The same in the page that a server shows for an unknown address."""
    return output_content.replace(_OUTSIDE_WORKER, "/worker.js") if template_name == "404.html" else output_content
