"""Files that describe an environment: what is read from each, on which line, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard import guarded
from tests.tables import each, read_rows
from tfgpu_doctor.manifests import Environment, ManifestError
from tfgpu_doctor.manifests.reading import read

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

FILES = {
    "base.txt": "numpy<2\n-r deeper.txt\n",
    "deeper.txt": "h5py\n-r base.txt\n",
    "limits.txt": "tensorflow<2.16\n",
    "requirements.txt": "# ours\nkeras\ntensorflow==2.15.1\n",
    "environment.yml": "dependencies: [python=3.9, cudatoolkit=11.2]\n",
}


def one(path: str, text: str) -> Environment:
    (found,) = read(path, text, None, FILES.get)
    return found


def told(environment: Environment) -> list[str]:
    """Requirements as "line name specifier [extras]"."""
    return [
        f"{each.place.line} {each.name}{each.specifier}{''.join(f'[{extra}]' for extra in each.extras)}"
        for each in environment.requirements
    ]


# ---------------------------------------------------------------------------------------------- requirements.txt


@each(("text", "expected"), ROWS["test_requirements"])
def test_requirements(text: str, expected: list[str]) -> None:
    found = one("requirements.txt", text)
    assert [line.replace(">=2.13,<2.16", "<2.16,>=2.13") for line in told(found)] == expected
    assert found.not_understood == ()


def test_what_is_no_requirement_is_named_with_its_line() -> None:
    found = one("requirements.txt", "numpy\ntensorflow-gpu==2.8.0.\n-r nowhere.txt\n")
    assert told(found) == ["1 numpy"]
    assert [line.split(": ")[0] for line in found.not_understood] == ["requirements.txt:2", "requirements.txt:3"]
    assert "nowhere.txt cannot be read" in found.not_understood[1]


# ------------------------------------------------------------------------------------------------ pyproject.toml

PYPROJECT = """
[project]
name = "x"
requires-python = ">=3.9,<3.13"
dependencies = [
  "numpy>=1.21",
  "tensorflow>=2.13; sys_platform == 'linux'",
]
[project.optional-dependencies]
gpu = ["tensorflow[and-cuda]"]
docs = ["sphinx"]
[dependency-groups]
dev = ["tensorflow-cpu==2.15.0", {include-group = "docs"}]
"""


def test_pyproject() -> None:
    base, extra, docs, group = read("pyproject.toml", PYPROJECT)
    assert [str(each.place) + each.specifier for each in base.python] == ["pyproject.toml:4>=3.9,<3.13"]
    assert told(base) == ["6 numpy>=1.21", "7 tensorflow>=2.13"]
    assert (extra.label, told(extra)[-1]) == ("pyproject.toml, extra gpu", "10 tensorflow[and-cuda]")
    assert docs.label == "pyproject.toml, extra docs"
    assert (group.label, told(group)[-1]) == ("pyproject.toml, group dev", "13 tensorflow-cpu==2.15.0")


# ------------------------------------------------------------------------------------------------ environment.yml


def test_conda() -> None:
    found = one(
        "environment.yml",
        "channels: [conda-forge, defaults]\n"
        "dependencies:\n  - python=3.9\n  - conda-forge::tensorflow=2.10.0=gpu_py39h1\n"
        "  - tensorflow=2.19.*=cuda*\n  - cudatoolkit=11.2\n  - cudnn 8.1.0\n  - numpy>=1.22,<1.25\n  - pip\n  - pip:\n"
        "    - tensorflow[and-cuda]==2.15.1\n    - -r more.txt\n",
    )
    assert told(found) == [
        "4 tensorflow==2.10.0.*", "5 tensorflow==2.19.*", "6 cudatoolkit==11.2.*", "7 cudnn==8.1.0",
        "8 numpy>=1.22,<1.25", "9 pip", "11 tensorflow==2.15.1[and-cuda]",
    ]  # fmt: skip
    assert [each.build for each in found.requirements[:2]] == ["gpu_py39h1", "cuda*"]
    assert found.python[0].specifier == "==3.9.*"
    assert found.channels == ("conda-forge", "defaults")


# ----------------------------------------------------------------------------------------------------- Dockerfile

DOCKERFILE = r"""# syntax=docker/dockerfile:1
ARG CUDA=11.8.0
ARG FLAVOUR
FROM python:3.11 AS build
RUN pip install wheel
FROM --platform=linux/amd64 nvidia/cuda:${CUDA}-cudnn8-runtime-ubuntu22.04 AS runtime
ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64 TF_CPP_MIN_LOG_LEVEL="2"
ENV NVIDIA_VISIBLE_DEVICES none
RUN apt-get update && apt-get install -y --no-install-recommends python3.9 python3-pip \
    # why this one
    libcudnn8=8.6.0.163-1+cuda11.8 && \
    python3.9 -m pip install --no-cache-dir -U \
      'tensorflow[and-cuda]==2.15.1' \
      numpy
RUN <<EOF
set -e
uv pip install --system keras==2.15.0
EOF
FROM runtime
COPY requirements.txt /app/
RUN pip3 install -r /app/requirements.txt --extra-index-url https://example.org && echo done > /tmp/x
CMD ["python3"]
"""


def test_dockerfile() -> None:
    found = one("Dockerfile", DOCKERFILE)
    assert found.image and found.image.reference == "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04"
    assert found.image.place.line == 6
    assert [line for line in told(found) if "tensorflow" in line or "keras" in line or "cudnn" in line] == [
        "11 libcudnn8==8.6.0.163", "13 tensorflow==2.15.1[and-cuda]", "17 keras==2.15.0", "2 keras",
        "3 tensorflow==2.15.1",
    ]  # fmt: skip
    assert "wheel" not in {each.name for each in found.requirements}  # of a stage that is not built on
    assert [each.specifier for each in found.python] == ["==3.9.*"]
    assert {each.name: each.value for each in found.settings} == {
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "TF_CPP_MIN_LOG_LEVEL": "2", "NVIDIA_VISIBLE_DEVICES": "none",
    }  # fmt: skip
    assert found.not_understood == ()


@each(("text", "name", "tag"), ROWS["test_images"])
def test_images(text: str, name: str, tag: str | None) -> None:
    image = one("Dockerfile", text).image
    assert image and (image.name, image.tag) == (name, tag)


def test_a_virtual_environment_that_is_copied_brings_its_packages() -> None:
    text = "FROM python:3.11 AS builder\nRUN /opt/venv/bin/pip install tensorflow==2.15.1\nFROM python:3.11-slim\n"
    assert told(one("Dockerfile", text + "COPY --from=builder /opt/venv /opt/venv\n")) == ["2 tensorflow==2.15.1"]
    assert told(one("Dockerfile", text + "COPY --from=0 /usr/local /usr/local\n")) == ["2 tensorflow==2.15.1"]
    assert told(one("Dockerfile", text + "COPY --from=builder /src/model.h5 /srv/\n")) == []
    last, other = read("Dockerfile", text + "COPY --from=other:1 /opt/venv /opt/venv\n")
    assert (told(last), other.label) == ([], "Dockerfile, stage builder")


def test_conda_in_a_dockerfile() -> None:
    found = one("Dockerfile", "FROM continuumio/miniconda3\nCOPY . .\nRUN conda env create -f environment.yml\n")
    assert told(found) == ["1 cudatoolkit==11.2.*"]
    assert found.python[0].specifier == "==3.9.*"
    found = one("Dockerfile", "FROM x\nRUN mamba install -y -c conda-forge tensorflow=2.15=cuda* python=3.10\n")
    assert (told(found), found.python[0].specifier) == (["2 tensorflow==2.15.*"], "==3.10.*")


# ---------------------------------------------------------------------------------------- compose and Kubernetes

COMPOSE = """
x-gpu: &gpu
  deploy:
    resources:
      reservations:
        devices:
          - {driver: nvidia, count: 2, capabilities: [gpu]}
services:
  trainer:
    <<: *gpu
    build: {context: ./app, dockerfile: Dockerfile.gpu}
    shm_size: 8gb
    environment: {CUDA_VISIBLE_DEVICES: "0"}
  server:
    image: tensorflow/serving:${TAG:-2.15.0-gpu}
    runtime: nvidia
    environment: [NVIDIA_VISIBLE_DEVICES=all]
  odd:
    image: nvidia/cuda:12.3.2-base-ubuntu22.04
    deploy: {resources: {reservations: {devices: [{driver: nvidia, capabilities: [compute]}]}}}
  database:
    image: postgres
"""


def test_compose() -> None:
    trainer, server, odd, database = read("stack/compose.yaml", COMPOSE)
    assert (trainer.build_context, trainer.image) == ("stack/app/Dockerfile.gpu", None)
    assert trainer.gpu and (trainer.gpu.count, trainer.gpu.problem) == (2, None)
    assert {each.name: each.value for each in trainer.settings} == {
        "CUDA_VISIBLE_DEVICES": "0",
        "shm_size": str(8 * 2**30),
    }
    assert server.image and server.image.reference == "tensorflow/serving:2.15.0-gpu"
    assert server.gpu and server.gpu.text == "runtime: nvidia"
    assert odd.gpu and odd.gpu.problem == "its capabilities do not name gpu"
    assert (database.gpu, database.label) == (None, "service database")


KUBERNETES = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  template:
    spec:
      containers:
        - name: main
          image: tensorflow/tensorflow:2.17.0-gpu
          env: [{name: CUDA_VISIBLE_DEVICES, value: "0"}]
          resources: {limits: {nvidia.com/gpu: 2}}
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
        - name: side
          image: busybox
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]
---
apiVersion: v1
kind: List
items:
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: nightly}
    spec: {jobTemplate: {spec: {template: {spec: {containers: [
      {name: a, image: x, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: uneven}
    spec: {containers: [{image: x, resources: {limits: {nvidia.com/mig-1g.5gb: 1},
      requests: {nvidia.com/mig-1g.5gb: 2}}}]}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: dist}
spec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{image: y}]}}}}}
---
apiVersion: v1
kind: ConfigMap
data: {a: b}
"""


def test_kubernetes() -> None:
    main, side, cron, uneven, dist = read("k8s.yaml", KUBERNETES)
    assert (main.label, main.place.line) == ("Deployment serve, container main", 10)
    assert main.gpu and (main.gpu.count, main.gpu.place.line, main.gpu.problem) == (2, 12, None)
    assert {each.name: each.value for each in main.settings} == {"CUDA_VISIBLE_DEVICES": "0", "shm_size": str(2**30)}
    assert side.gpu is None
    assert cron.gpu and cron.gpu.problem == "it stands under requests only, and Kubernetes wants it under limits"
    assert uneven.gpu and "must be equal" in (uneven.gpu.problem or "")
    assert (dist.label, dist.image and dist.image.name) == ("TFJob dist, Worker", "y")


# -------------------------------------------------------------------------------------------------- what is refused


@each(
    ("path", "text", "message"),
    [
        ("notes.txt", "hello", "notes.txt: unknown kind of file; name it with --kind requirements|"),
        ("pyproject.toml", "[project\n", "pyproject.toml:1: invalid TOML"),
        ("environment.yml", "dependencies:\n - a: [\n", "environment.yml:"),
        ("other.yaml", "a: b\n", "neither a conda environment"),
        ("empty.yaml", "", "empty.yaml: the file is empty"),
        ("Dockerfile", "RUN pip install tensorflow\n", "Dockerfile:1: no FROM instruction"),
        ("requirements.txt", "x" * 100_001, "requirements.txt:1: a line of 100001 characters"),
        ("requirements.txt", "a\0b", "requirements.txt: not a text file"),
        ("deep.yaml", "[" * 50_000, "deep.yaml"),
        ("compose.yaml", "services:\n  a:\n    image: x\n    image: y\n", "compose.yaml:4: duplicate key image"),
        ("compose.yaml", "services:\n  x: " + "9" * 5000, "compose.yaml:2: a number of more than 500 digits"),
        ("l.yaml", "apiVersion: v1\nkind: List\nitems: &x\n - {apiVersion: v1, kind: List, items: *x}\n",
         "l.yaml:4: nested more than 100 levels deep"),
        ("Dockerfile", "FROM x\nRUN \ud800", "Dockerfile: not a text file"),
        ("requirements.txt", "#\n" * 2_500_001, "requirements.txt is larger than 5 MB"),
    ],
)  # fmt: skip
def test_refused(path: str, text: str, message: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(path, text)
    assert message in str(refused.value)
    assert str(refused.value).startswith(path)


def test_templates_are_said_to_be_some() -> None:
    found = one("values.yaml", "{{ if .gpu }}\na: b: c\n")
    assert found.not_understood[0].startswith("values.yaml:1: a template: {{ if .gpu }} is filled in later")
    pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{image: '{{ image }}'}]\n"
    assert one("pod.yaml", pod).open == ("pod.yaml:4: a template: {{ image }} is filled in later",)
    assert one("pod.yaml", pod).label == "Pod"


def test_aliases_that_expand_without_end() -> None:
    bomb = "a0: &a0 {x: y}\n" + "".join(
        f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}}}\n" for n in range(1, 12)
    )
    with guarded(30.0), pytest.raises(ManifestError):
        read("bomb.yaml", bomb + "services: {x: {<<: [*a11, *a10]}}\nx: y\n", "kubernetes")
        read("bomb.yaml", bomb)
