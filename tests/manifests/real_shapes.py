"""Projects as public repositories have them, each reduced to the lines that matter, and what an expert says of them."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """Files of a project, what `tfgpu check` is given, and what its answer must and must not contain."""

    files: dict[str, str]
    named: tuple[str, ...]
    says: tuple[str, ...]
    never: tuple[str, ...] = ()


NO = ("name no TensorFlow",)
TF = "tensorflow==2.18.0\n"
COMPILED = (
    f"tensorflow==2.18.0 \\\n    --hash=sha256:{'ab' * 32} \\\n    --hash=sha256:00\n  # via -r requirements.in\n"
)
PYPROJECT = '[project]\nname = "app"\nrequires-python = ">=3.10,<3.13"\ndependencies = ["tensorflow[and-cuda]>=2.15"]\n'

SHAPES: dict[str, Shape] = {
    # ---------------------------------------------------------------------------------------------- stages
    "venv in the home of an app": Shape(
        {
            "Dockerfile": "FROM nvidia/cuda:12.5.1-cudnn-devel-ubuntu22.04 AS builder\nRUN python3 -m venv /app/env\n"
            "COPY requirements.txt .\nRUN /app/env/bin/pip install -r requirements.txt\n"
            "FROM nvidia/cuda:12.5.1-base-ubuntu22.04\nCOPY --from=builder /app/env /app/env\n",
            "requirements.txt": TF,
        },
        ("Dockerfile",),
        ("tensorflow==2.18.0", "cuda.missing", "requirements.txt:1"),
        NO,
    ),
    "site-packages into another Python": Shape(
        {
            "Dockerfile": "FROM python:3.11-slim AS builder\nRUN pip install tensorflow[and-cuda]==2.18.0\n"
            "FROM python:3.10-slim\nCOPY --from=builder /usr/local/lib/python3.11/site-packages/ "
            "/usr/local/lib/python3.11/site-packages/\n"
        },
        ("Dockerfile",),
        ("tensorflow[and-cuda]==2.18.0", "Python 3.11", "Python 3.10", "Dockerfile:1", "Dockerfile:3"),
        NO,
    ),
    "a prefix": Shape(
        {
            "Dockerfile": "FROM python:3.11 AS build\nCOPY requirements.txt /\n"
            "RUN pip install --prefix=/install -r /requirements.txt\n"
            "FROM python:3.11-slim\nCOPY --from=build /install /usr/local\n",
            "requirements.txt": "tensorflow-gpu==2.12.0\n",
        },
        ("Dockerfile",),
        ("tf.package-removed",),
        NO,
    ),
    "wheels": Shape(
        {
            "Dockerfile": "FROM python:3.11 AS builder\nWORKDIR /w\nCOPY requirements.txt .\n"
            "RUN pip wheel --no-cache-dir --wheel-dir /usr/src/wheels -r requirements.txt\n"
            "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\n"
            "COPY --from=builder /usr/src/wheels /wheels\nRUN pip install --no-cache /wheels/*\n",
            "requirements.txt": "tensorflow==2.16.2\n",
        },
        ("Dockerfile",),
        ("tensorflow==2.16.2", "cuda.version-mismatch"),
        NO,
    ),
    "wheels by --find-links": Shape(
        {
            "Dockerfile": "FROM python:3.12 AS builder\nRUN pip wheel -w /tmp/w tensorflow==2.18.0\n"
            "FROM python:3.12-slim\nCOPY --from=builder /tmp/w/ /tmp/w/\n"
            "RUN pip install --no-index --find-links=/tmp/w tensorflow\n"
        },
        ("Dockerfile",),
        ("tensorflow = 2.18.0",),
        ("= 2.2", *NO),
    ),
    "packages of a user": Shape(
        {
            "Dockerfile": "FROM python:3.13 AS base\nUSER app\nRUN pip install --user tensorflow==2.15.0\n"
            "FROM python:3.13-slim\nCOPY --from=base /home/app/.local /home/app/.local\n"
        },
        ("Dockerfile",),
        ("tf.python-unsupported",),
        NO,
    ),
    "a tool of the builder": Shape(
        {
            "Dockerfile": "FROM tensorflow/tensorflow:2.15.0-gpu AS convert\nRUN pip install tensorflow-gpu\n"
            "RUN python export.py\nFROM python:3.13-slim\nCOPY --from=convert /opt/model /opt/model\n"
            "RUN pip install onnxruntime\n"
        },
        ("Dockerfile",),
        ("no TensorFlow",),
        ("tf.package-removed", "tf.python-unsupported"),
    ),
    "uv sync": Shape(
        {
            "Dockerfile": "FROM ghcr.io/astral-sh/uv:python3.12-bookworm AS builder\nWORKDIR /app\n"
            "COPY pyproject.toml uv.lock ./\nRUN uv sync --frozen --no-dev\n"
            "FROM python:3.12-slim-bookworm\nCOPY --from=builder /app /app\nENV PATH=/app/.venv/bin:$PATH\n",
            "pyproject.toml": PYPROJECT,
        },
        ("Dockerfile",),
        ("tensorflow[and-cuda]>=2.15", "pyproject.toml:4"),
        NO,
    ),
    "the last stage is for tests": Shape(
        {
            "Dockerfile": "FROM tensorflow/tensorflow:2.11.0-gpu AS runtime\n"
            "FROM python:3.13-slim AS test\nRUN pip install pytest\n"
        },
        ("Dockerfile",),
        ("stage test", "stage runtime", "2.11.0"),
    ),
    "compose names the stage": Shape(
        {
            "Dockerfile": "ARG TF=2.18.0\nFROM python:3.12 AS base\nARG TF\nRUN pip install tensorflow==${TF}\n"
            "FROM base AS dev\nRUN pip install pytest\nFROM alpine AS docs\n",
            "docker-compose.yml": "services:\n  train:\n    build:\n      context: .\n      target: dev\n"
            "      args:\n        TF: 2.15.0\n    gpus: all\n",
        },
        ("docker-compose.yml",),
        ("tensorflow==2.15.0", "tf.python-unsupported"),
        NO,
    ),
    "an argument of the stage": Shape(
        {
            "Dockerfile": "ARG VARIANT=gpu\nFROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04 AS base-gpu\n"
            "FROM ubuntu:22.04 AS base-cpu\nFROM base-${VARIANT} AS final\nRUN pip3 install tensorflow==2.16.2\n"
        },
        ("Dockerfile",),
        ("nvidia/cuda:11.8.0", "cuda.version-mismatch"),
    ),
    "conda of another image": Shape(
        {
            "Dockerfile": "FROM condaforge/mambaforge AS build\nCOPY environment.yml .\n"
            "RUN mamba env create -p /env -f environment.yml\n"
            "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\nCOPY --from=build /env /env\n",
            "environment.yml": "dependencies: [python=3.12, pip, {pip: [tensorflow==2.15.0]}]\n",
        },
        ("Dockerfile",),
        ("tf.python-unsupported",),
        NO,
    ),
    "a file made by sed": Shape(
        {
            "Dockerfile": "FROM python:3.10-slim AS builder\nCOPY requirements.txt .\n"
            "RUN grep -v tensorflow-cpu requirements.txt > pure.txt && pip wheel -w /wheels -r pure.txt\n"
            "FROM python:3.10-slim\nCOPY --from=builder /wheels /wheels\nRUN pip install tensorflow==2.17.1\n",
        },
        ("Dockerfile",),
        ("tensorflow==2.17.1", "pure.txt"),
    ),
    # ------------------------------------------------------------------------------------------- templates
    "an argument without default": Shape(
        {"Dockerfile": "ARG TF_VERSION\nFROM tensorflow/tensorflow:${TF_VERSION}-gpu\n"},
        ("Dockerfile",),
        ("tensorflow/tensorflow:${TF_VERSION}-gpu",),
        NO,
    ),
    "a template of Jinja": Shape(
        {"requirements.txt": "numpy\ntensorflow=={{ cookiecutter.tf_version }}\n{% if x %}\npandas\n{% endif %}\n"},
        ("requirements.txt",),
        ("requirements.txt:2", "a template: {{ cookiecutter.tf_version }}"),
        NO,
    ),
    "a Dockerfile of Jinja": Shape(
        {"Dockerfile.j2": "FROM nvidia/cuda:{{ cuda }}-cudnn8-runtime\nRUN pip install tensorflow=={{ tf }}\n"},
        ("Dockerfile.j2",),
        ("a template: {{ cuda }}", "a template: {{ tf }}"),
        NO,
    ),
    "compose with variables": Shape(
        {"compose.yaml": "services:\n  a:\n    image: tensorflow/tensorflow:${TF_TAG}\n    gpus: all\n"},
        ("compose.yaml",),
        ("tensorflow/tensorflow:${TF_TAG}",),
        NO,
    ),
    "compose with its .env": Shape(
        {
            "compose.yaml": "services:\n  a:\n    image: tensorflow/tensorflow:${TF_TAG}\n",
            ".env": "# tag\nSECRET=hunter2\nTF_TAG='2.15.0-gpu'\n",
        },
        ("compose.yaml",),
        ("tensorflow/tensorflow:2.15.0-gpu", "container.no-gpu"),
        ("hunter2",),
    ),
    # ------------------------------------------------------------------------------------------- not read
    "a lock file": Shape(
        {"uv.lock": "version = 1\n"}, ("uv.lock",), ("uv.lock: not read; give requirements.txt, or the image",)
    ),
    "files that are not read": Shape(
        {"Pipfile.lock": "{}", "setup.py": "", "requirements.txt": TF},
        (".",),
        ("left out below .: Pipfile.lock, setup.py", "tensorflow==2.18.0"),
    ),
    "an explicit list of conda": Shape(
        {"env.txt": "@EXPLICIT\nhttps://example.org/linux-64/tensorflow-2.14.0-cuda118py310h148f8e4_0.conda\n"},
        ("env.txt", "--kind", "requirements"),
        ("env.txt: not read; give requirements.txt",),
    ),
    "a chart": Shape(
        {"pod.yaml": "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: '{{ .Values.image }}'}]}\n"},
        ("pod.yaml",),
        ("a template of Helm, not read", "what `helm template` prints"),
    ),
    "pipenv in a Dockerfile": Shape(
        {"Dockerfile": "FROM python:3.12\nCOPY Pipfile .\nRUN pipenv sync\n", "Pipfile": "[packages]\n"},
        ("Dockerfile",),
        ("Dockerfile:3: a Pipfile is not read; give requirements.txt",),
    ),
    "compiled by pip-tools": Shape(
        {"requirements.txt": COMPILED + "numpy==1.26.4 \\\n    --hash=sha256:00\n", "requirements.in": "tensorflow\n"},
        ("requirements.in", "requirements.txt"),
        ("tensorflow==2.18.0",),
        ("not understood",),
    ),
    # -------------------------------------------------------------------------------------- contradictions
    "requirements against an image": Shape(
        {
            "requirements.txt": "tensorflow==2.15.0\n",
            "Dockerfile": "FROM python:3.11\nRUN pip install tensorflow==2.18.0\n",
        },
        ("requirements.txt", "Dockerfile"),
        ("requirements.txt:1", "Dockerfile:2", "different TensorFlow releases"),
    ),
    "requirements for a GPU and for none": Shape(
        {"requirements-gpu.txt": "tensorflow[and-cuda]==2.17.1\n", "requirements-cpu.txt": "tensorflow-cpu==2.16.2\n"},
        ("requirements-gpu.txt", "requirements-cpu.txt"),
        ("tensorflow[and-cuda]==2.17.1", "tensorflow-cpu==2.16.2"),
        ("different TensorFlow releases",),
    ),
    "a project against conda": Shape(
        {
            "pyproject.toml": '[project]\nname = "a"\ndependencies = ["tensorflow==2.17.1"]\n',
            "environment.yml": "dependencies:\n- python=3.10\n- pip:\n  - tensorflow==2.13.0\n",
        },
        (".",),
        ("pyproject.toml:3", "environment.yml:4", "different TensorFlow releases"),
    ),
    "compose against requirements": Shape(
        {
            "compose.yaml": "services:\n  a:\n    image: tensorflow/tensorflow:2.11.0-gpu\n    gpus: all\n",
            "requirements.txt": "tensorflow==2.15.0\n",
        },
        ("compose.yaml", "requirements.txt"),
        ("compose.yaml:3", "requirements.txt:1", "different TensorFlow releases"),
    ),
    ".python-version": Shape(
        {".python-version": "3.13.1\n", "requirements.txt": "tensorflow==2.15.0\n"},
        (".",),
        ("tf.python-unsupported", ".python-version:1"),
    ),
    "runtime.txt": Shape(
        {"runtime.txt": "python-3.7.9\n", "requirements.txt": TF},
        ("requirements.txt", "runtime.txt"),
        ("tf.python-unsupported", "runtime.txt:1"),
    ),
    ".python-version against the project": Shape(
        {".python-version": "3.13\n", "pyproject.toml": PYPROJECT.replace(">=2.15", "==2.18.0")},
        (".",),
        (".python-version:1", "pyproject.toml:3"),
    ),
    # --------------------------------------------------------------------------------------------- folders
    "a Dockerfile includes the requirements": Shape(
        {
            "Dockerfile": "FROM python:3.11\nCOPY . /app\nRUN pip install -r /app/requirements.txt\n",
            "requirements.txt": TF,
        },
        (".",),
        ("requirements.txt is part of Dockerfile", "tensorflow==2.18.0"),
        ("different TensorFlow releases",),
    ),
    "names that tell nothing": Shape(
        {
            "gpu.txt": "numpy\ntensorflow-gpu==2.3\n",
            "notes.txt": "Remember the milk, and\nthe bread\n",
            "requirements/base.txt": "tensorflow\n",
            ".venv/lib/requirements.txt": "tensorflow==1.0\n",
            "node_modules/a/Dockerfile": "FROM a\n",
        },
        (".",),
        ("gpu.txt:2", "tf.package-removed", "requirements/base.txt"),
        ("milk", "tensorflow==1.0"),
    ),
    "Dockerfiles by another name": Shape(
        {
            "docker/gpu.dockerfile": "FROM tensorflow/tensorflow:2.15.0-gpu\n",
            "Containerfile": "FROM python:3.12\nRUN pip install tensorflow==2.15.0\n",
            "environment-gpu.yaml": "dependencies: [tensorflow-gpu=2.4]\n",
        },
        (".",),
        ("docker/gpu.dockerfile", "Containerfile", "environment-gpu.yaml", "tf.python-unsupported"),
    ),
    "nothing of ours": Shape({"main.py": "import os\n", "README.md": "# a\n"}, (".",), ("no file",)),
}
