"""Machines without an NVIDIA GPU, and jobs for the CPU, in many wordings; and what only sounds like them."""

from __future__ import annotations

import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines, without_gpu
from tfgpu_doctor.records.facts import Known
from tfgpu_doctor.records.report import Severity

NONE = (
    *("laptop has an AMD card, no NVIDIA card", "my laptop has no NVIDIA GPU", "there is no graphics card in this box"),
    *("these nodes have no GPU", "it's a machine without a GPU", "we are on a CPU-only node", "I do not have a GPU"),
    *(
        "no nvidia (intel uhd)",
        "Don't have an Nvidia card",
        "ich habe keine Nvidia-Karte",
        "der Rechner ohne Grafikkarte",
    ),
    *("sin tarjeta nvidia", "portátil sin gráfica nvidia", "je n'ai pas de carte nvidia", "sem placa nvidia"),
    *(
        "sans carte graphique dédiée",
        "у меня нет видеокарты nvidia",
        "我的电脑没有N卡",
        "没有独立显卡",
        "NVIDIAのGPUはありません",
    ),
)
NOT_NONE = (
    *("no NVIDIA GPU was found", "if you have no GPU", "TensorFlow sees no GPU", "No GPU detected", "no nvidia driver"),
    *("tensorflow has no GPU support", "keine NVIDIA GPU gefunden", "it has no gpu usage", "I have no NVIDIA docker"),
    *(
        "no nvidia.com/gpu in its limits",
        "i have no CUDA toolkit",
        "I have an Intel CPU and an RTX 3060",
        "TF has no GPU",
    ),
)
WANTED = (
    *("I deliberately don't want the GPU in this daemon", "I can live with CPU", "CPU-only steps print GPU warnings"),
    *(
        "We want it to run on CPU only",
        "The CPU is enough for us",
        "GPU is hidden on purpose",
        "I prefer CPU for inference",
    ),
    *("Ich brauche keine GPU, die CPU reicht", "No necesito la GPU", "le CPU suffit", "não preciso de GPU"),
    *("GPU мне не нужен, хватает процессора", "我不需要GPU，只用cpu就行", "GPUは不要です"),
)
NOT_WANTED = (
    *(
        "I don't want to train on the CPU",
        "the CPU is fine, the GPU gives NaN",
        "it's fine on CPU",
        "CPUs are all on 100",
    ),
    *(
        "I want to use the GPU, not the CPU",
        "I don't want GPU memory to be filled",
        "I don't need the gpu driver there",
    ),
    *(
        "why does it use the CPU, I want the GPU",
        "training is OK on CPU but crashes on GPU",
        "ich will nicht die CPU nutzen",
    ),
)


@pytest.mark.parametrize("text", NONE)
def test_no_gpu_of_nvidia(text: str) -> None:
    assert without_gpu.has_none(text)
    assert any(word in text.lower() for word in without_gpu.WORDS)


@pytest.mark.parametrize("text", NOT_NONE)
def test_nothing_about_the_machine(text: str) -> None:
    assert not without_gpu.has_none(text)


@pytest.mark.parametrize("text", WANTED)
def test_the_cpu_is_wanted(text: str) -> None:
    assert without_gpu.wants_cpu(text)
    assert any(word in text.lower() for word in without_gpu.WORDS)


@pytest.mark.parametrize("text", NOT_WANTED)
def test_the_cpu_is_not_wanted(text: str) -> None:
    assert not without_gpu.wants_cpu(text)


_LOGS = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load dynamic library 'libcuda.so.1'; "
    "dlerror: libcuda.so.1: cannot open shared object file: No such file or directory",
    "E tensorflow/stream_executor/cuda/cuda_driver.cc:265] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no "
    "CUDA-capable device is detected",
    "I tensorflow/tsl/cuda/cudart_stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.",
)


@pytest.mark.parametrize("log", _LOGS)
@pytest.mark.parametrize("wanted", WANTED)
def test_whoever_wants_the_cpu_is_told_of_no_error(wanted: str, log: str) -> None:
    text = f"{wanted}. TF 2.10, CUDA_VISIBLE_DEVICES=-1 is set.\n\n{log}\n"
    report = make_report(text_to_facts.read(lines.read([text.encode()]), MATRIX), MATRIX, source="text", timings={})
    assert [one.id for one in report.findings if one.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("GH200, Ubuntu 22.04, pip install tensorflow==2.16.1", "linux_aarch64"),
        ("AWS g5g (Graviton2, T4G), Linux, tensorflow 2.14", "linux_aarch64"),
        ("Ubuntu 22.04 on an arm64 server with an A100", "linux_aarch64"),
        ("aarch64 Linux, TF 2.17", "linux_aarch64"),
        ("GH200 with nvcr.io/nvidia/tensorflow:24.05-tf2-py3", "linux_x86_64"),
        ("tensorflow-2.16.1-cp311-cp311-manylinux_2_17_aarch64.whl is not a supported wheel, Ubuntu", "linux_x86_64"),
    ],
)
def test_processors_of_machines(text: str, platform: str) -> None:
    fact = text_to_facts.read(lines.read([text.encode()]), MATRIX).python.wheel_platform
    assert isinstance(fact, Known)
    assert fact.value == platform


@pytest.mark.parametrize(
    "said",
    ["`lspci | grep -i nvidia` volta vazio", "lspci | grep -i nvidia is empty", "lspci | grep nvidia gives nothing"],
)
def test_lspci_that_shows_none_in_words(said: str) -> None:
    fact = text_to_facts.read(lines.read([said.encode()]), MATRIX).host.pci_gpus
    assert isinstance(fact, Known)
    assert fact.value == ()
