"""What sentences tell: of here, of elsewhere, of what is wanted; and that TensorFlow uses no GPU, in nine languages."""

from __future__ import annotations

import re

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
    "the past, before it": (
        "Only Cuda 9.0 is installed, in the past I had Cuda 9.1",
        ["cuda 9.0 here", "cuda 9.1 elsewhere"],
    ),
    "before, in a clause of its own": (
        "CUDA 11.8 is installed. Previously I had CUDA 10.1",
        ["cuda 11.8 here", "cuda 10.1 elsewhere"],
    ),
    "tried": ("I already tried CUDA 11.2; now it is CUDA 11.8", ["cuda 11.2 elsewhere", "cuda 11.8 here"]),
    "what is wanted, behind it": (
        "cuda 9.2 is what the program takes. Cuda 10.0 is what I have",
        ["cuda 9.2 wanted", "cuda 10.0 here"],
    ),
    "a lower bound": ("or TensorFlow 2.4 or later", ["tensorflow 2.4 wanted"]),
    "an old GPU": ("with my old GPU, a GTX 970, it worked", ["gpu GTX 970 elsewhere"]),
    "nvcc and nvidia-smi": ("nvidia-smi and nvcc both say CUDA 11.8", ["cuda 11.8 here"]),
    "a contrast": (
        "I have tensorflow 1.14 but the code needs tensorflow 2.3",
        ["tensorflow 1.14 here", "tensorflow 2.3 wanted"],
    ),
    "a bare number beside a GPU's word": ("my graphics card is a 3080", ["gpu 3080 here"]),
    "two kinds of version": ("cuDNN 8.1 for CUDA 11.2 is installed", ["cudnn 8.1 here", "cuda 11.2 here"]),
    "an error's text": ("ImportError: CUDA 11.2 was not found", []),
    "a package's pin": ("tensorflow==2.4.0", []),
    "a command": ("$ pip install tensorflow 2.4", []),
    "too long for a sentence": ("CUDA 11.2 " * 300, []),
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
    "why can't I get my GPU to start",
    "Tensorflow just doesn't recognize my GPU any more",
    "the model runs on the CPU only",
    "gpu usage is 0%",
    "Tensorflow trouve aucune carte graphique",
    "tensorflow使用cpu",
    "I can't get tensorflow to use my gpu",
    "it falls back to the CPU",
    "GTX 760 not detected, it uses the cpu right away",
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
    "I suspect that the gpu version running doesn't go well with it",
    "that version has no GPU on native windows",
    "I do not know which version to use",
    "placa-mãe nova, tudo funciona",
)


# around a name; in other languages no space need stand beside it
SENTENCES = ("I have an {} here", "我的显卡是{}，请问", "видеокарта {}, драйвер 470", "Mi tarjeta es una {}.")
NAMED = {
    "my 1070ti with cuda 10": ("1070ti", "6.1"),
    "a 3080 laptop": ("3080 laptop", "8.6"),
    "RTX 3070 Laptop": ("RTX 3070 Laptop", "8.6"),
    "RTX3060的笔记本": ("RTX3060", "8.6"),
    "on 4xV100-SXM2-16GB": ("V100-SXM2", "7.0"),
    "8x A100 80GB": ("A100", "8.0"),
    "two 1080Tis": ("1080Ti", "6.1"),
    "a node with K80s": ("K80", "3.7"),
    "RTX 2080S": ("RTX 2080S", "7.5"),
    "Quadro M1200": ("Quadro M1200", "5.0"),
    "nvidia mx150": ("nvidia mx150", "6.1"),
    "GeForce 840m": ("GeForce 840m", "5.0"),
    "Titan X (Pascal)": ("Titan X (Pascal)", "6.1"),
    "GTX970M显卡": ("GTX970M", "5.2"),
}
NO_CARD = (
    "a video of 1080p, or 1080i",
    "batch 2080, 3060 images, 1660 steps, 4090 samples",
    "the K1000 dataset, M4 and P600 of the paper",
    "after 20 T4 hours",
    "it reaches P100 percent",
    "level A2 of the course, room L2",
    "in 2070 there were 1060 years left",
    "python-m60x, layer_t4, x.v100, cuda_p4",
    "on an a2-highgpu-1g, a p4d.24xlarge, a Standard_NC4as_T4_v3",
    "fx 2.0 and torch.fx",
    "GeForce driver 510, Tesla driver 450",
    "L4T 32.7 and a T1 line",
    "my Lenovo ThinkPad T500 laptop",
    "the nvidia k8s device plugin",
)


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


@pytest.mark.parametrize("name", ["RTX 3060", "gtx 1080 ti", "graphics card", "nvidia card", "CUDA device"])
def test_the_cheap_test_passes_all_that_the_expression_finds(name: str) -> None:
    """ "TensorFlow does not see my RTX 3060" has none of the words gpu, cpu and card."""
    texts = [re.sub(r"(?i)gpus?", name, text) for text in NO_GPU] + [f"TensorFlow does not see my {name}"]
    missed = [text for text in texts if prose._NO_GPU.search(text) and not prose.no_gpu(text)]
    assert missed == [] and prose.no_gpu(texts[-1])


@pytest.mark.parametrize("text", A_GPU)
def test_a_gpu_is_used_or_wanted(text: str) -> None:
    assert prose.no_gpu(text) is None


def _meant(name: str) -> set[str]:
    return {gpu.compute_capability for gpu in MATRIX.gpu_candidates(name)}


def _spellings(name: str) -> set[str]:
    """As people write a name of the matrix."""
    short = re.sub(r"^(?:GeForce|Tesla) (?=.*[A-Z])", "", name)
    model = re.sub(r"^(?:GeForce )?[GR]TX? (?=\d+ (?:Ti|SUPER)|\d{3}M)", "", name)
    return {
        *(f"NVIDIA {name}", f"nvidia {short.lower()}"),
        *((name, name.lower()) if _stands_alone(name) else ()),
        *((short,) if _stands_alone(short) else ()),
        *((model, model.replace(" Ti", "ti")) if re.match(r"\d+ (?:Ti|SUPER)", model) else ()),
        "NVIDIA " + re.sub(r"([GR]TX?) (?=\d)", r"\1", name),  # "GeForce RTX3090"
        "nvidia " + re.sub(r"([GR]TX?) (?=\d)", r"\1-", name).lower(),  # "geforce gtx-1080"
        "NVIDIA " + re.sub(r" Laptop GPU$", " laptop", name),
    }


def _stands_alone(name: str) -> bool:
    """A bare number, a letter and a digit, or what a laptop is called, too, is a GPU beside a maker's word alone."""
    return not re.fullmatch(r"\d+[AM]?|A2|L2|[KMP]\d|[KPT]10|Orin|Thor|T[456]00E?(?: 4GB)?", name)


def test_every_gpu_of_the_matrix_is_found_by_its_spellings() -> None:
    missed, others = [], []
    for name in sorted({name for row in MATRIX.data.gpus for name in row.names}):
        for spelling in sorted(_spellings(name)):
            for sentence in SENTENCES:
                card = prose.card_in(sentence.format(spelling))
                if card is None:
                    missed.append(sentence.format(spelling))
                elif _meant(spelling) and _meant(card) != _meant(spelling):
                    others.append(f"{spelling}: {card}, {_meant(card)} for {_meant(spelling)}")
    assert not missed
    assert not others


@pytest.mark.parametrize("text", NAMED)
def test_a_name_as_people_write_it(text: str) -> None:
    name, capability = NAMED[text]
    assert prose.card_in(text) == name
    assert _meant(name) == {capability}


@pytest.mark.parametrize("text", NO_CARD)
def test_no_card_is_named(text: str) -> None:
    assert prose.card_in(text) is None
    assert not [one for one in said(text) if one.startswith("gpu ")]
