"""What the readers owe to files found in public repositories, reduced to the lines that matter."""

from __future__ import annotations

from pathlib import Path

from tests.tables import each, read_rows
from tfgpu_doctor.manifests import Environment
from tfgpu_doctor.manifests.reading import read

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

FILES = {
    "reqs/base.txt": "numpy\n-r common.txt\n",
    "reqs/common.txt": "h5py\n",
    "common.txt": "another\n",
    "requirements.txt": "tensorflow==2.4\n-c limits.txt\n",
    "limits.txt": "tensorflow<2.16\nkeras<3\n",
    "more.txt": "tensorflow==2.5\n",
    "docker/req.txt": "tensorflow==2.6\n-r extra.txt\n",
    "docker/extra.txt": "keras\n",
    "pyproject.toml": '[project]\nname = "x"\ndependencies = ["numpy"]\n'
    '[project.optional-dependencies]\ngpu = ["tensorflow[and-cuda]"]\n',
    "base.yml": "services:\n  gpu:\n    gpus: all\n",
}  # fmt: skip


def one(path: str, text: str) -> Environment:
    (found,) = read(path, text, None, FILES.get)
    return found


def told(environment: Environment) -> list[str]:
    return [f"{each.place} {each.name}{each.specifier}" for each in environment.requirements]


# ------------------------------------------------------------------------------------------------- requirements


def test_files_are_relative_to_the_file_that_names_them() -> None:
    assert told(one("app/requirements.txt", "-r reqs/base.txt\n")) == [
        "app/reqs/base.txt:1 numpy",
        "app/reqs/common.txt:1 h5py",
    ]
    assert told(one("requirements/gpu.txt", "tensorflow\n-r gpu.txt\n")) == ["requirements/gpu.txt:1 tensorflow"]


def test_addresses_are_not_followed() -> None:
    found = one("requirements.txt", "-r https://example.org/requirements.txt\nnumpy\n")
    assert found.not_understood == ("requirements.txt:1: https://example.org/requirements.txt cannot be read",)


# --------------------------------------------------------------------------------------------------- Dockerfiles

# tensorflow/tensorflow, tensorflow/tools/dockerfiles/partials/tensorflow.partial.Dockerfile
OFFICIAL = """FROM ubuntu:20.04
ARG USE_PYTHON_3_NOT_2=True
ARG _PY_SUFFIX=${USE_PYTHON_3_NOT_2:+3}
ARG PIP=pip${_PY_SUFFIX}
ARG TF_PACKAGE=tensorflow
ARG TF_PACKAGE_VERSION=%s
RUN ${PIP} install --cache-dir=$HOME/x ${TF_PACKAGE}${TF_PACKAGE_VERSION:+==${TF_PACKAGE_VERSION}}
"""


@each(("version", "expected"), [("", "tensorflow"), ("2.4.1", "tensorflow==2.4.1")])
def test_the_dockerfile_of_tensorflow_itself(version: str, expected: str) -> None:
    found = one("Dockerfile", OFFICIAL % version)
    assert told(found) == [f"Dockerfile:7 {expected}"]
    assert found.not_understood == ()


@each(("text", "expected"), ROWS["test_dockerfiles"])
def test_dockerfiles(text: str, expected: list[str]) -> None:
    assert told(one("Dockerfile", text)) == expected


def test_copied_files_are_found_and_the_host_s_own_are_not_read() -> None:
    asked: list[str] = []

    def include(name: str) -> str | None:
        asked.append(name)
        return FILES.get(name)

    text = "FROM x\nCOPY --chown=a docker/req.txt /app/\nRUN pip install -r /app/req.txt -r /etc/../../../x.txt\n"
    (found,) = read("Dockerfile", text, None, include)
    assert told(found) == ["docker/req.txt:1 tensorflow==2.6", "docker/extra.txt:1 keras"]
    assert not [name for name in asked if name.startswith(("/", ".."))]
    assert found.not_understood == ("Dockerfile:3: /etc/../../../x.txt cannot be read",)


def test_what_is_known_only_when_it_is_built() -> None:
    found = one("Dockerfile", "ARG I\nFROM nvidia/cuda:$I\nARG TF\nRUN pip install tensorflow==$TF numpy\n")
    assert found.image and (found.image.name, found.image.tag) == ("nvidia/cuda", None)
    assert told(found) == ["Dockerfile:4 numpy"]
    assert [line.split(": ")[:2] for line in found.not_understood] == [
        ["Dockerfile:2", "nvidia/cuda:$I is known only when its variables are; give them defaults"],
        ["Dockerfile:4", "tensorflow==$TF"],
    ]


def test_variables_and_their_lines() -> None:
    found = one(
        "Dockerfile", 'ARG A=1 B=2-gpu\nFROM tensorflow/tensorflow:$B\nENV X=1 \\\n  CUDA_VISIBLE_DEVICES="-1"\n'
    )
    assert found.image and found.image.tag == "2-gpu"
    assert [(each.name, each.value, each.place.line) for each in found.settings] == [
        ("X", "1", 3),
        ("CUDA_VISIBLE_DEVICES", "-1", 4),
    ]


# ----------------------------------------------------------------------------------------------- environment.yml


def test_environment_yml() -> None:
    found = one(
        "envs/gpu.yml",
        "dependencies:\n  - python=3.8|3.9\n  - pip:\n    - -r more.txt\n    - keras --no-deps\n"
        "variables:\n  LD_LIBRARY_PATH: $CONDA_PREFIX/lib\n",
    )
    assert [each.specifier for each in found.python] == [">=3.8,<3.10"]
    assert told(found) == ["envs/more.txt:1 tensorflow==2.5", "envs/gpu.yml:5 keras"]
    assert [(each.name, each.place.line) for each in found.settings] == [("LD_LIBRARY_PATH", 7)]


# ----------------------------------------------------------------------------------------- compose and Kubernetes

SERVICE = "services:\n  a:\n    image: tensorflow/tensorflow:2.17.0-gpu\n"


def test_a_variable_of_the_host_is_not_known() -> None:
    settings = one("compose.yaml", SERVICE + "    environment:\n      CUDA_VISIBLE_DEVICES:\n      A: ''\n").settings
    assert [(each.name, each.value) for each in settings] == [("A", "")]


@each(("more", "count", "text"), ROWS["test_gpus_of_a_service"])
def test_gpus_of_a_service(more: str, count: int | None, text: str) -> None:
    gpu = read("compose.yaml", SERVICE + more, None, FILES.get)[0].gpu
    assert gpu and (gpu.count, gpu.text, gpu.problem) == (count, text, None)


def test_what_a_service_extends_and_is_not_there() -> None:
    found = one("compose.yaml", SERVICE + "    extends: nothing\n")
    assert found.not_understood == ("compose.yaml:4: there is no service nothing to extend",)
    found = one("compose.yaml", "services:\n  a: {image: x, extends: a}\n")  # for ever
    assert found.image


POD = "apiVersion: v1\nkind: Pod\nspec:\n"


def test_a_claim_is_a_request_for_a_gpu() -> None:
    found = one("pod.yaml", POD + "  containers: [{image: x, resources: {claims: [{name: gpu}]}}]\n")
    assert found.gpu and (found.gpu.text, found.gpu.problem) == ("claims: gpu", None)


def test_shared_memory_of_a_pod() -> None:
    mounted = (
        "  runtimeClassName: nvidia\n  hostIPC: true\n"
        "  containers: [{image: x, volumeMounts: [{name: s, mountPath: /dev/shm}]}]\n"
        "  volumes: [{name: s, emptyDir: {medium: Memory, sizeLimit: 1G}}]\n"
    )
    assert {each.name: each.value for each in one("pod.yaml", POD + mounted).settings} == {
        "shm_size": "1000000000", "runtimeClassName": "nvidia", "ipc": "host",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ pyproject.toml


def test_the_line_is_that_of_the_dependency() -> None:
    found = one("pyproject.toml", '[project]\nkeywords = ["tensorflow"]\ndependencies = [\n  "tensorflow",\n]\n')
    assert told(found) == ["pyproject.toml:4 tensorflow"]


POETRY = """[tool.poetry.dependencies]
python = "~3.9 || ~3.10"
tensorflow = [
  {version = "^2.10", platform = "linux", extras = ["and-cuda"]},
  {version = "2.9.*", markers = "sys_platform == 'darwin'"},
]
keras = {version = "^2", optional = true}
[tool.poetry.dependencies.numpy]
version = "<2"
[tool.poetry.extras]
k = ["keras"]
[tool.poetry.dev-dependencies]
pytest = "*"
"""


def test_poetry() -> None:
    base, extra, dev = read("pyproject.toml", POETRY)
    assert base.requirements[0].extras == ("and-cuda",)
    assert base.python[0].specifier == ">=3.9,<3.11"
    assert [(str(each.place.line), each.name + each.specifier, each.marker) for each in base.requirements] == [
        ("4", "tensorflow>=2.10,<3", "sys_platform == 'linux'"),
        ("5", "tensorflow==2.9.*", "sys_platform == 'darwin'"),
        ("9", "numpy<2", None),
    ]
    assert (extra.label, told(extra)[-1]) == ("pyproject.toml, extra k", "pyproject.toml:7 keras>=2,<3")
    assert (dev.label, told(dev)[-1]) == ("pyproject.toml, group dev", "pyproject.toml:13 pytest")


GROUPS = """[project]
name = "Mine"
dynamic = ["dependencies"]
[project.optional-dependencies]
gpu = ["tensorflow"]
all = ["mine[gpu]"]
[dependency-groups]
a = ["keras"]
b = [{include-group = "a"}, {include-group = "b"}, "numpy"]
[tool.setuptools.dynamic]
dependencies = {file = ["requirements.txt"]}
"""


def test_extras_and_groups_that_name_others() -> None:
    base, *parts = read("pyproject.toml", GROUPS, None, FILES.get)
    assert told(base) == ["requirements.txt:1 tensorflow==2.4,<2.16"]
    assert {part.label.split(", ")[1]: [one.split(" ")[1] for one in told(part)[1:]] for part in parts} == {
        "extra gpu": ["tensorflow"], "extra all": ["tensorflow"], "group a": ["keras"], "group b": ["numpy", "keras"],
    }  # fmt: skip
