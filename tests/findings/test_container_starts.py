"""How a container was started, in a text that shows two ways, or a Jetson."""

from __future__ import annotations

import pytest

from tests.findings.test_signs_over_messages import signs_alone
from tests.healthy import MATRIX
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines


def _first(text: str) -> tuple[str, bool] | None:
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    found = make_report(signs_alone(facts), MATRIX, source="text", timings={}).findings
    named = [(one.id, one.possible) for one in found if one.id not in ("gpu.not-visible", "tf.which-release")]
    return named[0] if named else None


_IMAGE = "tensorflow/tensorflow:2.13.0-gpu"
_COMPOSE = f"services:\n  train:\n    image: {_IMAGE}\n    command: python train.py\n"
_POD = "spec:\n  containers:\n  - name: t\n    image: registry/train:1\n    resources:\n      limits: {cpu: 6}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{_COMPOSE}\nthe old script was `docker run --gpus all {_IMAGE}`, which is fast; this takes 9 min",
        f"{_COMPOSE}\nDas alte Skript (docker run --gpus all {_IMAGE}) ist schnell, compose langsam",
        f"{_COMPOSE}\n以前用 docker run --gpus all {_IMAGE} 很快，现在很慢",
        "singularity exec tf.sif python a.py says no GPU. On my laptop it was `apptainer exec --nv tf.sif python a.py`",
        "podman run -it tf python a.py -> CPU;\npodman run --device nvidia.com/gpu=all -it tf python a.py is fine",
        f"docker run {_IMAGE} python a.py is slow,\ndocker run --gpus all {_IMAGE} python a.py fast",
        f"Subject: job on our k8s cluster trains on CPU\n{_POD}",
    ],
)
def test_the_start_without_gpus_is_the_difference(text: str) -> None:
    assert _first(text) == ("container.no-gpu", True)


@pytest.mark.parametrize(
    "text",
    [
        f"docker run --gpus all {_IMAGE} python a.py: OOM when allocating tensor with shape[64,512]",
        f"docker run --gpus all -d {_IMAGE}\ndocker exec -it c python a.py\nfailed call to cuInit: UNKNOWN ERROR (303)",
        f"{_COMPOSE}    gpus: all\nand docker run --gpus all {_IMAGE} are both slow",
    ],
)
def test_a_start_with_gpus_and_one_that_enters_are_no_reason(text: str) -> None:
    assert (_first(text) or ("", False))[0] != "container.no-gpu"


@pytest.mark.parametrize("runtime", ["", "--runtime nvidia "])
@pytest.mark.parametrize("library", ["libcudart.so.10.2", "libcudnn.so.8", "libnvinfer.so.7"])
def test_a_container_of_jetpack_4_gets_cuda_from_the_host(runtime: str, library: str) -> None:
    start = f"sudo docker run -it {runtime}nvcr.io/nvidia/l4t-tensorflow:r32.4.3-tf1.15-py3"
    failure = f"Could not load dynamic library '{library}'; dlerror: {library}: cannot open shared object file"
    found = _first(f"Jetson Nano, JetPack 4.4\n{start}\n{failure}: No such file or directory")
    assert (found == ("container.no-gpu", False)) is not bool(runtime)
