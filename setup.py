"""Installs fabir_tf; layers/, pipelines/ and export/ import as fabir_tf.layers, fabir_tf.pipelines, fabir_tf.export."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
MAPPED = ("layers", "pipelines", "export")
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "fabir_tf" / "version.py").read_text(encoding="utf-8"))[1]

packages = find_packages(include=["fabir_tf", "fabir_tf.*"])
package_dir = {"fabir_tf": "fabir_tf"}
for folder in MAPPED:
    package_dir[f"fabir_tf.{folder}"] = folder
    packages += [f"fabir_tf.{name}" for name in find_packages(include=[folder, f"{folder}.*"])]

setup(
    name="fabir_tf",
    version=VERSION,
    description="Small, fast question-answering readers built on attention, in TensorFlow and Keras 3",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=packages,
    package_dir=package_dir,
    package_data={
        "fabir_tf": ["py.typed"],
        "fabir_tf.pipelines": ["bundled/*"],
        "fabir_tf.export": ["serving/*"],
        "fabir_tf.reading.pretrained": ["**/*"],
        "fabir_tf.serving": ["page/*"],
    },
    install_requires=[
        "absl-py",
        "importlib_resources",  # imported by tensorflow-datasets, missing from its requirements
        "nltk",
        "numpy",
        "tensorflow>=2.17",
        "tensorflow-datasets",
    ],
    extras_require={
        # What the test command and .ci/run need: the runner, for two tests at a time, the linter, two type checkers
        # (pyright runs on Node.js), the second backend of the layer tests, random text for the property tests, what
        # executes the notebook with its pictures, Parquet, the messages of warm-up requests, PDF, the parsers of
        # Markdown and reStructuredText that ours are compared with, those of word pieces and of weights as well,
        # fabir-serve, what drives a browser on its page, and the runtimes of exported readers.
        "test": [
            "pytest",
            "pytest-xdist",
            "ruff",
            "mypy",
            "pyright[nodejs]",
            "hypothesis",
            "jax[cpu]",
            "ipykernel",
            "matplotlib",
            "nbclient",
            "nbformat",
            "pyarrow",
            "tensorflow-serving-api",
            "pypdf",
            "markdown-it-py",
            "docutils",
            "tokenizers",
            "safetensors",
            "starlette",
            "uvicorn",
            "prometheus-client",
            "grpcio-health-checking",
            "playwright",
            "tf2onnx",
            "onnxruntime",
            "ai-edge-litert",
            "openvino",
        ],
        # Reading PDF; text, Markdown, reStructuredText and HTML need no package. pypdf keeps the order of reading where
        # pdfminer.six mixes the lines of justified text, takes half its time, and is one package of pure Python.
        "documents": ["pypdf"],
        # Reading and writing Parquet, as Hugging Face keeps its datasets; all other formats need no package.
        "parquet": ["pyarrow"],
        # TensorFlow Serving's messages: the warm-up requests of an export, and the gRPC client.
        "serving": ["tensorflow-serving-api"],
        # fabir-serve: HTTP (pure Python, 8 MB, the best kept of its kind), TensorFlow Serving's messages and gRPC, and
        # what Prometheus reads.
        "serve": ["starlette", "uvicorn", "prometheus-client", "tensorflow-serving-api", "grpcio-health-checking"],
        # fabir-beam: collections on several processes or machines. Apache Beam needs protobuf 6 where TensorFlow takes
        # 7, and so an environment of its own. pyarrow reads and writes Parquet.
        "beam": ["apache-beam>=2.77", "protobuf<7", "pyarrow"],
        # fabir-export --format=...: the converter that TensorFlow lacks, and what reads the model back and computes it.
        # Who only answers needs the runtime alone: onnxruntime (the most used), ai-edge-litert (phones and small
        # boards) or openvino (Intel's processors).
        "onnx": ["tf2onnx", "onnxruntime"],
        "litert": ["ai-edge-litert"],
        "openvino": ["openvino"],
        # Pictures: the quickstart notebook, and what benchmarks/ draw.
        "plot": ["matplotlib"],
        # What benchmarks/rivals.py races against: DistilBERT and MiniLM as most people run them.
        "rivals": ["torch", "transformers>=4.56"],
        # The documentation: the site, the reference from docstrings, and equations that need no script.
        "docs": ["mkdocs>=1.6,<2", "mkdocs-material", "mkdocstrings[python]", "latex2mathml"],
        # The progress of a run in a browser, `tensorboard --logdir RUN_DIR`; writing it needs no extra.
        "tensorboard": ["tensorboard"],
    },
    entry_points={
        "console_scripts": [
            "fabir-prepare = fabir_tf.commands.entry:prepare",
            "fabir-train = fabir_tf.commands.entry:train",
            "fabir-evaluate = fabir_tf.commands.entry:evaluate",
            "fabir-predict = fabir_tf.commands.entry:predict",
            "fabir-export = fabir_tf.commands.entry:export",
            "fabir-compare = fabir_tf.commands.entry:compare",
            "fabir-reproduce = fabir_tf.commands.entry:reproduce",
            "fabir-teach = fabir_tf.commands.entry:teach",
            "fabir-pack = fabir_tf.commands.entry:pack",
            "fabir-analyze = fabir_tf.commands.entry:analyze",
            "fabir-convert = fabir_tf.commands.entry:convert",
            "fabir-describe = fabir_tf.commands.entry:describe",
            "fabir-negatives = fabir_tf.commands.entry:negatives",
            "fabir-index = fabir_tf.commands.entry:index",
            "fabir-search = fabir_tf.commands.entry:search",
            "fabir-serve = fabir_tf.commands.entry:serve",
            "fabir-beam = fabir_tf.commands.entry:beam",
        ]
    },
)
