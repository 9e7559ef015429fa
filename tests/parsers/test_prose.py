"""What sentences tell: of here, of elsewhere, of what is wanted; and that TensorFlow uses no GPU, in nine languages."""

from __future__ import annotations

import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.parsers.text import prose
from tfgpu_doctor.parsers.text.lines import Line

SAID = {
    "a list": (
        "Windows 11, Python 3.11, RTX 3080, CUDA 12.2 and cudnn 8.9 are installed",
        ["python 3.11 here", "gpu RTX 3080 here", "cuda 12.2 here", "cudnn 8.9 here"],
    ),
    "what a release needs": ("TensorFlow 2.4 needs CUDA 11.0", ["tensorflow 2.4 wanted", "cuda 11.0 wanted"]),
    "a question": ("can I use tensorflow-gpu 1.15 with CUDA 10.1?", ["tensorflow 1.15 wanted", "cuda 10.1 wanted"]),
    "the past": (
        "I have CUDA 9.0 installed right now, but I had CUDA 9.1 in the past",
        ["cuda 9.0 here", "cuda 9.1 elsewhere"],
    ),
    "another machine": ("It works on my other computer with CUDA 11.2", ["cuda 11.2 elsewhere"]),
    "what the driver supports": ("nvidia-smi shows CUDA Version: 12.2", ["supported 12.2 here"]),
    "Chinese": (
        "我的显卡是RTX 3090，tensorflow-gpu 1.14，cuda 10.0",
        ["gpu RTX 3090 here", "tensorflow 1.14 here", "cuda 10.0 here"],
    ),
    "Spanish": ("Mi tarjeta es una GTX 1650, instalé tensorflow 2.16", ["gpu GTX 1650 here", "tensorflow 2.16 here"]),
    "letters together": ("tf2.10, py38, 1070ti", ["tensorflow 2.10 here", "python 3.8 here", "gpu 1070ti here"]),
    "sizes and rates": ("batch 1080, 3060 images, 16 GB, python 3 and 2080 steps", []),
    "a program": ("2020-01-01 10:00:00.1: W dso_loader.cc:59] Could not load libcudart.so.10.1, CUDA 10.1", []),
}
NO_GPU = (
    "TensorFlow does not see my GPU",
    "it doesn't detect my graphics card",
    "Tensorflow not using GPU.",
    "tensorflow only uses CPU",
    "my model is training on the CPU only",
    "list_physical_devices('GPU') returns []",
    "tf.test.is_gpu_available() False",
    "GPU not found",
    "I can't get tensorflow to use my gpu",
    "it falls back to the CPU",
    "Num GPUs Available: 0",
    "tensorflow no detecta la GPU",
    "o tensorflow não reconhece a placa de vídeo",
    "tensorflow n'utilise pas la carte graphique",
    "tensorflow erkennt meine Grafikkarte nicht",
    "tensorflow не видит видеокарту",
    "tensorflow检测不到GPU",
    "GPUが認識されない",
    "GPU를 인식하지 못합니다 (인식 안됨)",
)
A_GPU = (
    "TensorFlow uses my GPU",
    "I want to train on the GPU and not the CPU",
    "Training on CPU works, on GPU it crashes",
    "GPU memory is not enough",
    "Does TensorFlow support my GPU?",
)


def _capability(name: str) -> str | None:
    found = MATRIX.gpu(name)
    return found.compute_capability if found else None


def said(*texts: str) -> list[str]:
    lines = [Line(number, text) for number, text in enumerate(texts, 1)]
    return [f"{one.key} {one.value} {one.stance}" for one in prose.parse(lines)]


@pytest.mark.parametrize("name", SAID)
def test_a_sentence_says(name: str) -> None:
    text, expected = SAID[name]
    assert sorted(said(text)) == sorted(expected)


@pytest.mark.parametrize("text", NO_GPU)
def test_no_gpu_is_used(text: str) -> None:
    assert prose.no_gpu(text)


@pytest.mark.parametrize("text", A_GPU)
def test_a_gpu_is_used_or_wanted(text: str) -> None:
    assert prose.no_gpu(text) is None


def test_every_gpu_of_the_matrix_is_found_in_a_sentence() -> None:
    wanted = [name for row in MATRIX.data.gpus for name in row.names if row.compute_capability >= "3.5"]
    found = {name: prose.card_in(f"I have an NVIDIA {name} here") for name in wanted}
    missed = [name for name, card in found.items() if card is None]
    assert len(missed) <= len(wanted) * 0.1, missed
    others = [name for name, card in found.items() if card and (one := MATRIX.gpu(card)) and one != MATRIX.gpu(name)]
    assert len([n for n in others if MATRIX.gpu(n) and _capability(n) != _capability(str(found[n]))]) <= 2
