"""Where a pasted text comes from: operating system, container, how it was started, what was set."""

from __future__ import annotations

import pytest

from tests.parsers.pasted import lines, mangled
from tfgpu_doctor.parsers.text import platform_hints
from tfgpu_doctor.parsers.text.platform_hints import Surroundings


def read(text: str, stated: str | None = None) -> Surroundings:
    return platform_hints.read(lines(text), stated)


# ---------------------------------------------------------------------------------------------- operating system


@pytest.mark.parametrize(
    ("text", "os"),
    [
        ("Linux box 6.5.0-41-generic #41-Ubuntu SMP x86_64 GNU/Linux", "linux"),
        ("Python 3.6.8 (default, Jan 14 2019) [GCC 8.0.1] on linux", "linux"),
        ("ImportError: libcublas.so.9.0: cannot open shared object file", "linux"),
        ('  File "/home/someone/env/lib/python3.9/site-packages/x.py", line 1', "linux"),
        ("$ sudo apt install nvidia-driver-550", "linux"),
        ("Rocky Linux 9.3", "linux"),
        ("Python 3.9.13 [MSC v.1929 64 bit (AMD64)] on win32", "windows"),
        ('  File "C:\\Users\\someone\\anaconda3\\lib\\site-packages\\x.py", line 1', "windows"),
        ("(ml) C:\\work>python train.py", "windows"),
        ("Could not load dynamic library 'cudart64_110.dll'", "windows"),
        ("PS D:\\ml> nvidia-smi", "windows"),
        ("Python 3.8.2 [Clang 12.0.0] on darwin", "macos"),
        ("Library not loaded: @rpath/libcudart.8.0.dylib", "macos"),
        ("macOS Sonoma 14.2", "macos"),
        ("Metal device set to: Apple M1", "macos"),
        ("5.15.146.1-microsoft-standard-WSL2", "wsl2"),
        ("Ubuntu 22.04 on WSL2, Windows 11", "wsl2"),
        ("/usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link", "wsl2"),
        ("the model does not converge", None),
    ],
)
def test_operating_system(text: str, os: str | None) -> None:
    where = read(f"first line\n{text}")
    assert where.os == os
    assert where.os_line == (2 if os else None)


@pytest.mark.parametrize(
    ("stated", "os"),
    [
        ("Windows 10", "windows"),
        ("Win 7 x64", "windows"),
        ("Linux Ubuntu 20.04", "linux"),
        ("Mac OS X 10.12", "macos"),
        ("Darwin Kernel Version 19.6.0", "macos"),
        ("OSX", "macos"),
    ],
)
def test_what_is_stated_goes_before_paths(stated: str, os: str) -> None:
    where = read('  File "/home/someone/x.py", line 1\ncudart64_80.dll', stated)
    assert (where.os, where.os_line) == (os, None)


# ---------------------------------------------------------------------------------------------- containers


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("$ docker run -it tensorflow/tensorflow:2.4.1-gpu", "docker"),
        ("$ docker exec -it box bash", "docker"),
        ("$ nvidia-docker run --rm nvidia/cuda nvidia-smi", "docker"),
        ("$ podman run --device nvidia.com/gpu=all image", "podman"),
        ("$ docker-compose up", "docker"),
        ("root@0123456789ab:/# python", "docker"),
        ("FROM nvidia/cuda:12.2.0-cudnn8-runtime-ubuntu22.04", "docker"),
        ("TensorFlow installed from: docker image", "docker"),
        ("$ kubectl logs train-0", "kubernetes"),
        ("      nvidia.com/gpu: 1", "kubernetes"),
        ("Warning  FailedScheduling  default-scheduler", "kubernetes"),
        ("$ singularity exec --nv tf.sif python x.py", "apptainer"),
        ("Apptainer> nvidia-smi", "apptainer"),
        ("someone@box:~$ python train.py", None),
        ("root@gpu-server:/# python", None),
        ("Created device /job:localhost/replica:0/task:0/device:GPU:0", None),
    ],
)
def test_container(text: str, kind: str | None) -> None:
    where = read(f"first line\n{text}")
    assert where.container == kind
    assert where.container_line == (2 if kind else None)


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("docker run -it tensorflow/tensorflow:latest-gpu bash", False),
        ("docker run --gpus all -it image", True),
        ("docker run --gpus=1 image", True),
        ("docker run --runtime=nvidia image", True),
        ("docker run --runtime nvidia image", True),
        ("docker run --device=/dev/nvidia0 image", True),
        ("docker run \\\n  -v /data:/data \\\n  --gpus all \\\n  image", True),
        ("docker run \\\n  -v /data:/data \\\n  image", False),
        ("podman run --device nvidia.com/gpu=all image", True),
        ("singularity exec --nv tf.sif python x.py", True),
        ("singularity exec tf.sif python x.py", False),
        ("nvidia-docker2 run image", True),
    ],
)
def test_how_it_was_started(command: str, asked: bool) -> None:
    assert read(f"$ {command}").starts[0] == (1, asked)


def test_each_start_counts() -> None:
    assert read("$ docker run a\n$ docker run --gpus all b\n").starts == ((1, False), (2, True))


def test_a_manifest_counts_as_a_whole() -> None:
    pod = "kind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        nvidia.com/gpu: {}"
    assert read(pod.format(1)).starts == ((1, True),)
    assert read(pod.format(0)).starts == ((1, False),)


def test_the_last_image() -> None:
    text = "FROM nvidia/cuda:11.8.0-base-ubuntu22.04\n$ docker run nvcr.io/nvidia/tensorflow:23.10-tf2-py3"
    assert read(text).image == "nvcr.io/nvidia/tensorflow:23.10-tf2-py3"
    assert read("FROM --platform=linux/amd64 python:3.10 AS base").image == "python:3.10"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FROM tensorflow/tensorflow:2.10.0-gpu\nRUN pip install x\nRUN python3 warm_up.py", 3),
        ("$ docker build .\nStep 4\nRUN nvidia-smi", 3),
        ("FROM tensorflow/tensorflow:2.10.0-gpu\nCMD python3 train.py", None),
        ("FROM tensorflow/tensorflow:2.10.0-gpu\nRUN python3 -m pip install x", None),
        ("RUN python3 warm_up.py", None),
    ],
)
def test_what_runs_while_an_image_is_built(text: str, line: int | None) -> None:
    assert read(text).building == line


# ---------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("$ export CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES", "0,1"),
        ("CUDA_VISIBLE_DEVICES='' python x.py", "CUDA_VISIBLE_DEVICES", ""),
        ("CUDA_VISIBLE_DEVICES=-1 python x.py", "CUDA_VISIBLE_DEVICES", "-1"),
        ("$ docker run -e NVIDIA_VISIBLE_DEVICES=none image", "NVIDIA_VISIBLE_DEVICES", "none"),
        ("ENV LD_LIBRARY_PATH /usr/local/cuda/lib64", "LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        ("C:\\> set TF_GPU_ALLOCATOR=cuda_malloc_async", "TF_GPU_ALLOCATOR", "cuda_malloc_async"),
        ("PS> $env:TF_USE_LEGACY_KERAS = '1'", "TF_USE_LEGACY_KERAS", "1"),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "1"', "CUDA_VISIBLE_DEVICES", "1"),
        ("os.environ.setdefault('XLA_FLAGS', '--xla_x=1')", "XLA_FLAGS", "--xla_x=1"),
        ("%env TF_FORCE_GPU_ALLOW_GROWTH=true", "TF_FORCE_GPU_ALLOW_GROWTH", "true"),
        ('Environment="NCCL_P2P_DISABLE=1"', "NCCL_P2P_DISABLE", "1"),
    ],
)
def test_variable(text: str, name: str, value: str) -> None:
    assert read(f"\n{text}").variables == {name: (value, 2)}


@pytest.mark.parametrize(
    "text",
    [
        "dlerror: libcudart.so: cannot open; LD_LIBRARY_PATH: /usr/local/cuda/lib64",
        "Setting CUDA_VISIBLE_DEVICES=0 is a workaround",
        "You can set CUDA_VISIBLE_DEVICES=-1 to force the CPU.",
        "Please try to export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda",
        "What does CUDA_VISIBLE_DEVICES mean?",
        "MY_CUDA_VISIBLE_DEVICES=1",
    ],
)
def test_no_setting(text: str) -> None:
    assert read(text).variables == {}


def test_the_last_setting_holds() -> None:
    assert read("export XLA_FLAGS=a\nexport XLA_FLAGS=b").variables == {"XLA_FLAGS": ("b", 2)}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tf.config.set_visible_devices([], 'GPU')", 1),
        ('tf.config.experimental.set_visible_devices(devices=[], device_type="GPU")', 1),
        ("tf.config.set_visible_devices(gpus[0], 'GPU')", None),
        ("tf.config.set_visible_devices([], 'CPU')", None),
    ],
)
def test_a_program_that_hides_every_gpu(text: str, line: int | None) -> None:
    assert read(text).hides_all == line


def test_mangled_texts_do_no_harm() -> None:
    text = "docker run \\\nFROM x\nRUN python\nENV XLA_FLAGS \\\nkind: Pod\nC:\\>\nos.environ['XLA_FLAGS'] =\n" * 3
    for seed in range(20):
        platform_hints.read(mangled(text, seed))
