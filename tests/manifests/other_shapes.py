"""Files of other programs that install TensorFlow, as public repositories have them, and what an expert says."""

from __future__ import annotations

import json

from tests.manifests.real_shapes import NO, Shape

KINDS_READ = ("requirements", "pyproject", "dockerfile", "kubernetes")  # of the sentence that refuses a file
WORKFLOW = """name: tests
on: [push, pull_request]
permissions:
  contents: read
jobs:
  build:
    runs-on: ${{ matrix.os }}
    strategy:
      fail-fast: false
      matrix:
        os: [ubuntu-latest]
        python-version: ["3.9", "3.10", "3.12"]
        tensorflow: ["2.13.1", "2.16.2"]
        exclude:
          - python-version: "3.9"
            tensorflow: "2.16.2"
    steps:
      - uses: actions/checkout@v4
      - name: Set up Python ${{ matrix.python-version }}
        uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python-version }}
          cache: pip
      - name: Install
        run: |
          python -m pip install --upgrade pip
          pip install "tensorflow==${{ matrix.tensorflow }}" pytest
          pip install -e .
      - run: pytest
"""
IN_A_CONTAINER = """on: push
jobs:
  gpu:
    runs-on: [self-hosted, gpu]
    container:
      image: nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04
      options: --gpus all
    steps:
      - uses: actions/checkout@v4
      - run: pip install -r requirements.txt
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: pip install ruff && ruff check
"""
TOX = """[tox]
envlist = py{310,312}-tf{213,218}, lint
isolated_build = true

[testenv]
deps =
    pytest
    tf213: tensorflow==2.13.1
    tf218: tensorflow>=2.18,<2.19
    tf213: numpy<1.25  # of that release
commands = pytest {posargs}

[testenv:lint]
basepython = python3.12
skip_install = true
deps = ruff
commands = ruff check .
"""
DEFINITION = """BootStrap: docker
From: nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04

%files
    requirements.txt /opt/requirements.txt

%post
    apt-get update && apt-get -y install python3 python3-pip
    # the framework
    python3 -m pip install --no-cache-dir \\
        tensorflow==2.16.2
    pip3 install -r /opt/requirements.txt

%environment
    export LC_ALL=C
    export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda

%runscript
    exec python3 "$@"
"""
NOXFILE = """import nox

@nox.session(python=["3.12"])
def tests(session):
    session.install("tensorflow==2.13.1", "pytest")
    session.run("pytest")
"""
SLURM = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --gres=gpu:a100:1
#SBATCH --time=02:00:00
module load StdEnv/2023 python/3.12 cuda/12.2 cudnn/8.9
virtualenv --no-download $SLURM_TMPDIR/env
source $SLURM_TMPDIR/env/bin/activate
pip install --no-index tensorflow==2.15.1
srun python train.py
"""
HATCH = """[project]
name = "model"
version = "1.0"
requires-python = ">=3.9"
dependencies = ["numpy"]

[tool.hatch.envs.gpu]
python = "3.12"
dependencies = [
  "tensorflow[and-cuda]==2.15.1",
]
"""
META = """{% set name = "ours" %}
package:
  name: {{ name }}
  version: 1.0.0
source:
  path: ..
requirements:
  host:
    - python
    - pip
  run:
    - python >=3.8
    - tensorflow-gpu 2.4.*
about:
  license: MIT
"""
BAKE = """group "default" { targets = ["gpu"] }
target "gpu" {
  context = "."
  dockerfile = "docker/Dockerfile"
  args = { BASE_IMAGE = "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04" }
}
"""


def _notebook(*cells: list[str]) -> str:
    found = [{"cell_type": "markdown", "metadata": {}, "source": ["!pip install tensorflow==1.0\n"]}]
    for source in cells:
        found.append(
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source},
        )
    metadata = {"accelerator": "GPU", "language_info": {"name": "python", "version": "3.12.12"}}
    return json.dumps({"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 0}, indent=1)


NOTEBOOK = _notebook(
    ["# %pip install tensorflow==1.1\n", "!pip install -q tensorflow==2.13.1 \\\n", "    matplotlib\n"],
    ["%matplotlib inline\n", "import tensorflow as tf\n", "print(tf.__version__)"],
)

OTHERS: dict[str, Shape] = {
    "a workflow of GitHub with a matrix": Shape(
        {".github/workflows/tests.yml": WORKFLOW},
        (".github/workflows/tests.yml",),
        ("tf.python-unsupported", "2.13.1 has no wheel for Python 3.12", ".github/workflows/tests.yml:27"),
        ("2.16.2 has no wheel", *NO),
    ),
    "a workflow of GitHub in a container": Shape(
        {".github/workflows/gpu.yaml": IN_A_CONTAINER, "requirements.txt": "tensorflow==2.16.2\n"},
        (".",),
        ("cuda.version-mismatch", "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04", "requirements.txt:1"),
        ("lint", *NO),
    ),
    "tox": Shape({"tox.ini": TOX}, ("tox.ini",), ("tox.ini: unknown kind", *KINDS_READ)),
    "a definition of Singularity": Shape(
        {"train.def": DEFINITION, "requirements.txt": "tf-keras==2.15.0\n"},
        (".",),
        ("cuda.version-mismatch", "train.def:11", "tf.package-conflict", "requirements.txt:1"),
        NO,
    ),
    "Apptainer without an extension": Shape(
        {
            "Singularity": "Bootstrap: docker\nFrom: tensorflow/tensorflow:2.11.0-gpu\n"
            "%post\n  pip install numpy==2.0.0\n"
        },
        (".",),
        ("tensorflow/tensorflow:2.11.0-gpu", "tf.abi-numpy"),
        ("container.no-gpu", *NO),
    ),
    "a notebook of Colab": Shape(
        {"train.ipynb": NOTEBOOK},
        ("train.ipynb",),
        ("tf.python-unsupported", "tensorflow==2.13.1", "Python 3.12"),
        ("tensorflow==1.", *NO),
    ),
    "environments of Hatch": Shape(
        {"pyproject.toml": HATCH},
        ("pyproject.toml",),
        ("gpu", "tf.python-unsupported", "pyproject.toml:10"),
        NO,
    ),
    "layers of pip-tools": Shape(
        {
            "requirements/base.in": "tensorflow[and-cuda]\n",
            "requirements/base.txt": "tensorflow[and-cuda]==2.15.1 \\\n    --hash=sha256:00\n    # via -r base.in\n"
            "numpy==1.26.4 \\\n    --hash=sha256:00\n",
            "requirements/dev.in": "-c base.txt\ntensorflow-text\npytest\n",
            "requirements/dev.txt": "-c base.txt\ntensorflow-text==2.18.0 \\\n    --hash=sha256:00\ntensorflow\n",
        },
        (".",),
        ("tf.package-conflict", "tensorflow-text==2.18.0", "requirements/dev.txt"),
        ("not understood",),
    ),
    "a job of Slurm": Shape(
        {"train.sbatch": SLURM},
        ("train.sbatch",),
        ("train.sbatch: unknown kind", *KINDS_READ),
    ),
    "noxfile.py": Shape({"noxfile.py": NOXFILE}, ("noxfile.py",), ("noxfile.py: unknown kind", *KINDS_READ)),
    "a recipe of conda-build": Shape({"meta.yaml": META}, ("meta.yaml",), ("meta.yaml", "conda recipe", *KINDS_READ)),
    "a file of docker bake": Shape(
        {"docker-bake.hcl": BAKE}, ("docker-bake.hcl",), ("docker-bake.hcl: unknown kind", *KINDS_READ)
    ),
    "a Dockerfile in a subfolder": Shape(
        {
            "docker/Dockerfile": "FROM python:3.12\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\n",
            "requirements.txt": "tensorflow==2.15.1\n",
            "pyproject.toml": '[project]\nname = "a"\n',
        },
        (".",),
        ("tf.python-unsupported", "requirements.txt:1", "docker/Dockerfile"),
        ("cannot be read", "lies outside", *NO),
    ),
}
