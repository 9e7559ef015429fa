"""The repair that is printed, for texts of the same words with other facts: law 11."""

from __future__ import annotations

from typing import Any

from tests.findings.rows_over_facts import absent, packages, phases, release
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.records.facts import Unknown
from tfgpu_doctor.records.report import Fix

NO_RUNTIME_VERSION = "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/e/google/__init__.py)"
DESCRIPTORS = "TypeError: Descriptors cannot be created directly."
PIP = "python3 -m pip install"

# text → the first command
FIRST = {
    # 2.20 and 2.21 alone import runtime_version; one version is within the bounds of both
    NO_RUNTIME_VERSION: f"{PIP} 'protobuf>=6.31.1,<8.0.0'",
    f"TensorFlow 2.20.0\n{NO_RUNTIME_VERSION}": f"{PIP} 'protobuf>=5.28.0'",
    "ImportError: cannot import name 'builder' from 'google.protobuf.internal'": f"{PIP} 'protobuf>=3.20.3,<3.21'",
    DESCRIPTORS: f"{PIP} 'protobuf<3.21'",
    f"TensorFlow 2.5.0\n{DESCRIPTORS}": f"{PIP} 'protobuf>=3.9.2,<3.21'",
}


def fixes(text: str) -> tuple[Fix, ...]:
    """Those of the first finding."""
    return findings(text)[0].fixes


@each("text", FIRST)
def test_the_first_command(text: str) -> None:
    assert fixes(text)[0].commands[0] == FIRST[text]


def test_a_release_for_the_installed_protobuf_is_one_that_takes_it() -> None:
    """2.20.0 does not: the fix for this TensorFlow is the only one."""
    assert not [fix for fix in fixes(NO_RUNTIME_VERSION) if "2.20.0" in fix.text]
    assert [fix.text for fix in fixes(DESCRIPTORS)][1].endswith("pip installs the protobuf that it needs with it")


CONDA_FORGE = "conda create -y -n tf -c conda-forge --override-channels python=3.12 'tensorflow=2.19.1=cuda129*'"
NVIDIA = "nvcr.io/nvidia/tensorflow"
INVALID = "failed with 'CUDA_ERROR_INVALID_PTX'"
NOT_LOADED = "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object"
REMOVED = 'The "tensorflow-gpu" package has been removed!'
OF_BLACKWELL = f"TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0.\n{INVALID}"
CU11 = "tensorflow==2.13.0\nnvidia-cudnn-cu11==8.6.0.163"
# text → what the first command begins with; what no command and no sentence has
ADVISED: dict[str, tuple[str, str]] = {
    # which GPU it is, nobody knows
    f"TensorFlow 2.19.0\n{INVALID}": ("nvidia-smi --query-gpu", "kernels for this GPU"),
    f"pip install tensorflow[and-cuda] (2.19.0), Python 3.12\n{OF_BLACKWELL}": (CONDA_FORGE, "==2.20.0"),
    **{
        f"{card}, TensorFlow 2.19.0, Python 3.12\n{INVALID}": (CONDA_FORGE, "==2.20.0")
        for card in ("RTX 5090D", "my 5090 D", "RTX 5070Ti")
    },
    # an image is the build
    # it has kernels for this GPU: what rejects its PTX is a driver that is older than the image needs
    f"docker run --gpus all {NVIDIA}:25.02-tf2-py3\nRTX 5090\n{INVALID}": ("", "CUDA_CACHE"),
    "docker run --gpus=1 nvcr.io/nvidia/tritonserver:20.10-py3\nDriver Version: 440.33.01\n"
    "CUDA driver version is insufficient for CUDA runtime version": ("", "410.48"),
    f"Windows 11, Docker Desktop: docker run --gpus all tensorflow/tensorflow:2.19.0-gpu\nRTX 5090\n{INVALID}": (
        f"docker run --gpus all --shm-size=1g -it --rm {NVIDIA}",
        'set "',
    ),
    f"RTX 5090, TensorFlow 2.12.0\n{NOT_LOADED}": (CONDA_FORGE, "11.8"),
    f"TensorFlow 2.8.4, Python 3.9\n{NOT_LOADED}": (f"{PIP} tensorflow==2.8.4 nvidia-", "CUDA 11.0"),
    "TensorFlow 1.0.1\nImportError: libcudart.so.8.0: cannot open shared object file": (
        f"{PIP} 'tensorflow[and-cuda]==2.20.0'",
        "with CUDA 8.0",
    ),
    "Windows 11, RTX 5090, Python 3.12, pip install tensorflow (2.19.0)\n"
    ">>> tf.config.list_physical_devices('GPU')\n[]": ("wsl --install", "2.10.1"),
    f"pip install tensorflow-gpu==2.8\n{REMOVED}": (f"{PIP} tensorflow==2.8.4 nvidia-", "2.20.0"),
    f"{CU11}\nlibdevice not found at ./libdevice.10.bc": (f"{PIP} nvidia-cuda-nvcc-cu11", "cu12"),
    f"cudatoolkit 11.2.2 hbe64b41_10 conda-forge\ntensorflow 2.10.0 pypi_0 pypi\n{NOT_LOADED}": (
        "find / -name",
        "/usr/local/cuda/lib64",
    ),
}


@each("text", ADVISED)
def test_what_the_text_tells_decides_on_the_repair(text: str) -> None:
    begins, never = ADVISED[text]
    commands = [command for fix in fixes(text) for command in fix.commands]
    assert (commands[:1] or [""])[0].startswith(begins)
    assert not [fix for fix in fixes(text) if never in " ".join((fix.text, *fix.commands))]


RTX_5090 = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
NO_TENSORFLOW = {
    "python.packages": packages(),
    "python.tensorflow_paths": known(()),
    "tensorflow.version": Unknown("not installed"),
}
NO_GPU = {"gpus": known(()), "host.pci_gpus": known(())}
# finding → a machine, and what its owner would paste
SAME: dict[str, tuple[dict[str, Any], str]] = {
    "tf.abi-protobuf": (
        {
            **release("2.21.0"),
            "python.packages": packages(tensorflow="2.21.0", protobuf="4.25.3"),
            "tensorflow.phases": phases("import", "raised", exception=NO_RUNTIME_VERSION),
        },
        f"TensorFlow 2.21.0, Python 3.12\n{NO_RUNTIME_VERSION}",
    ),
    "cuda.missing": (
        {**release("2.19.0"), "loader.sonames": absent()},
        "pip install tensorflow (2.19.0), Python 3.12\n"
        "Could not find cuda drivers on your machine, GPU will not be used.",
    ),
    "gpu.arch-too-new": (
        {**release("2.19.0"), **RTX_5090},
        "TensorFlow 2.19.0, Python 3.12, RTX 5090\nfailed with 'CUDA_ERROR_INVALID_HANDLE'",
    ),
}


@each("finding", SAME)
def test_doctor_and_explain_give_the_same_repair(finding: str) -> None:
    changes, text = SAME[finding]
    live = next(one for one in diagnose(spoil(healthy(), changes), MATRIX).findings if one.id == finding)
    pasted = next(one for one in findings(text) if one.id == finding)
    of_live = tuple(line.replace("/env/bin/python", "python3") for line in live.fixes[0].commands)
    assert of_live == pasted.fixes[0].commands


def test_without_a_gpu_the_doctor_advises_what_plan_does() -> None:
    found = diagnose(spoil(healthy(), {**NO_TENSORFLOW, **NO_GPU}), MATRIX).findings
    plan = make_plan(MATRIX, describe(MATRIX, python="3.12"), state=MachineState(no_gpu=True))
    (commands,) = (one.fixes[0].commands for one in found if one.id == "tf.not-installed")
    assert commands == (f"/env/bin/python -m pip install tensorflow=={plan.options[0].tensorflow}",)


def test_an_image_with_kernels_for_the_gpu_needs_its_driver() -> None:
    (fix,) = fixes(f"docker run --gpus all {NVIDIA}:25.02-tf2-py3\nRTX 5090\n{INVALID}")
    assert fix.text.startswith("Install NVIDIA driver 570 or newer")


OFFERED = "ERROR: Could not find a version that satisfies the requirement tensorflow-gpu==2.8 (from versions: {})"


@each("versions", ["2.12.0", "1.14.0rc0, 2.8.0, 2.8.4, 2.9.0, 2.12.0"])
def test_a_release_that_pip_does_not_find_is_kept_under_the_name_tensorflow(versions: str) -> None:
    commands = fixes(f"pip install tensorflow-gpu==2.8\n{OFFERED.format(versions)}")[0].commands
    assert any(" tensorflow==2.8" in one and "nvidia-cudnn-cu11" in one for one in commands), commands
