"""What reporters state in issue forms and free lines."""

from __future__ import annotations

import pytest

from tests.guard import guarded
from tests.parsers.pasted import CAPTURES, capture, every_capture, lines, mangled
from tfgpu_doctor.parsers.text.statements import issue_form, values


def stated(name: str) -> dict[str, str]:
    """Key → value of a capture; two different values of one key stand side by side."""
    found: dict[str, str] = {}
    for one in issue_form.parse(capture("form", f"{name}.txt")):
        if one.value not in found.get(one.key, "").split(" | "):
            found[one.key] = f"{found[one.key]} | {one.value}" if one.key in found else one.value
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("free_lines_below_a_question", {"tensorflow": "1.8", "cuda": "9.2", "cudnn": "7.1.4"}),
        ("free_lines_with_colons", {"tensorflow": "1.13.2", "cuda": "10.0.166"}),
        (
            "template_with_wide_comma",
            {"os": "ubuntu 20.04", "tensorflow": "1.15.5", "python": "3.8.16", "cuda": "11.3", "cudnn": "8.2.0"},
        ),
        (
            "template_with_wide_bracket",
            {
                "os": "windows10",
                "install": "pip install tensorflow-gpu",
                "tensorflow": "1.10.0",
                "python": "3.6.5",
                "cuda": "9.0",
                "cudnn": "7.3.0.29",
            },
        ),
        ("driver_of_a_mac", {"driver": "310.42.15"}),
        (
            "template_with_names_of_archives",
            {
                "os": "opensuse leap 15.1",
                "install": "binary | pipenv's pip",
                "tensorflow": "2.0.0",
                "python": "3.6.9",
                "cuda": "10.1.243",
                "cudnn": "7.6.4.38",
                "driver": "418.87.00",
                "gpu": "Geforce GTX 1660 Ti",
            },
        ),
        ("one_line_above_prose", {"os": "centos 7.7", "cuda": "10.0", "tensorflow": "2.0", "python": "3.7.4"}),
        (
            "free_lines_and_a_script",
            {
                "os": "debian 10.3",
                "python": "3.8.2",
                "cuda": "10.2",
                "gpu": "Quadro K5200d",
                "driver": "440.82",
                "tensorflow": "2.2.0rc2",
            },
        ),
        ("two_lines_of_2016", {"os": "debian 8.5", "cuda": "7.0", "cudnn": "4"}),
        (
            "template_with_name_of_lspci",
            {
                "os": "ubuntu 18.04.5 lts",
                "install": "binary | conda",
                "tensorflow": "2.4.1",
                "python": "3.8.8",
                "compiler": "8.4.0",
                "cuda": "11.0",
                "gpu": "NVIDIA Corporation TU116M [GeForce GTX 1660 Ti Mobile]",
            },
        ),
        (
            "template_with_its_last_words",
            {
                "os": "newest windows 11",
                "install": "pip",
                "tensorflow": "2.7.0",
                "python": "3.10",
                "cuda": "11.5",
                "cudnn": "8.3.1",
                "gpu": "3070",
            },
        ),
        (
            "template_with_words_of_nvcc",
            {
                "os": "linux mint 20.1",
                "install": "pip install tensorflow==2.2.0",
                "tensorflow": "2.2.0",
                "python": "3.8.5",
                "cuda": "10.2",
                "gpu": "GTX1650 Mobile",
            },
        ),
        (
            "template_above_nvidia_smi",
            {
                "os": "debian 10",
                "install": "source | virtualenv",
                "tensorflow": "1.13.1",
                "python": "3.6.8",
                "compiler": "7.4.0",
                "cuda": "10.1.105",  # and not the 11.2 of nvidia-smi
                "cudnn": "7.5.1",
                "gpu": "GTX 1080Ti",
            },
        ),
        ("template_of_2016_with_a_listing", {"os": "osx yosemite", "cuda": "7.5", "cudnn": "4.0"}),
        (
            "form_in_details",
            {
                "install": "source",
                "tensorflow": "2.31.0",
                "os": "linux, fedora 37",
                "python": "3.10",
                "compiler": "12.2",
                "cuda": "11",
                "gpu": "Nvidia GTX 960M",
            },
        ),
        (
            "form_above_a_sentence",
            {
                "install": "binary",
                "tensorflow": "2.17.0",
                "os": "oracle linux server 8.9",
                "python": "3.11.9",
                "cuda": "12.5",
                "gpu": "NVIDIA L4",
            },
        ),
        (
            "form_with_names_of_wheels",
            {
                "os": "red hat enterprise linux release 8.5 (ootpa) x86_64",
                "python": "3.12",
                "cuda": "12.3.101",
                "cudnn": "8.9.7.29",
                "gpu": "Nvidia a10",
            },
        ),
        ("form_with_amd", {"gpu": "AMD Radeon RX 580"}),
        ("lsb_release_and_a_log", {"cuda": "7.5", "cudnn": "5.0", "python": "3.5.2"}),
        (
            "form_and_what_a_script_printed",
            {
                "cuda": "12.6",
                "cudnn": "9.0",
                "gpu": "NVIDIA GeForce RTX 3060",
                "python": "3.12.3",
                "tensorflow": "2.18.0",
            },
        ),
        (
            "transformers_env",
            {
                "os": "linux-6.13.4-zen1-1-zen-x86_64-with-glibc2.41",
                "python": "3.13.2",
                "tensorflow": "2.18.0",
            },
        ),
    ],
)
def test_what_is_stated(name: str, expected: dict[str, str]) -> None:
    assert stated(name) == expected


def test_every_capture_is_listed_with_its_making() -> None:
    readme = (CAPTURES / "form" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in every_capture("form") if f"| {path.name} |" not in readme] == []


def said(text: str) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in issue_form.parse(lines(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- **CUDA/cuDNN version**: 8.0/5.1", [("cuda", "8.0"), ("cudnn", "5.1")]),
        ("CUDA: 12.6 (anything below 12.4 fails here because of the driver)", [("cuda", "12.6")]),
        ("CUDA/cuDNN version: CUDA 10.1, cuDNN 7", [("cuda", "10.1"), ("cudnn", "7")]),
        ("CUDA/cuDNN version: cudnn-windows-x86_64-8.4.1.50 cuda 11.6", [("cuda", "11.6"), ("cudnn", "8.4.1.50")]),
        ("CUDA/cuDNN version: cudnn-linux-x86_64-8.9.7.29_cuda12-archive", [("cuda", "12"), ("cudnn", "8.9.7.29")]),
        ("cuDNN: 8.9.7 for CUDA 12.x", [("cuda", "12"), ("cudnn", "8.9.7")]),
        ("CUDA/cuDNN version: 12.2 (nvidia-smi)", []),
        ("NVRM version:   418.87.00\nCUDA version:   10.1", []),  # of nvidia-container-cli: what the driver supports
        ("- TensorFlow version 1.12:\n- GPU model and memory   NVIDIA Corporation GK208 [GeForce GT 710] (rev a1)",
         [("tensorflow", "1.12"), ("gpu", "NVIDIA Corporation GK208 [GeForce GT 710] (rev a1)")]),
        ("- OS Platform and Distribution Linux Ubuntu 16.04", [("os", "linux ubuntu 16.04")]),
        ("CUDA/cuDNN version: 434", []),
        ("| CUDA | 11.8 |", [("cuda", "11.8")]),
        ("Tensorflow Version | 2.4", [("tensorflow", "2.4")]),
        ("| OS | TensorFlow | CUDA |\n|---|---|---|\n| Ubuntu 22.04 | 2.15 | 12.2 |",
         [("os", "ubuntu 22.04"), ("tensorflow", "2.15"), ("cuda", "12.2")]),
        ("| TensorFlow | CUDA | cuDNN |\n|--|--|--|\n| 2.15 | 12.2 | 8.9 |\n| 2.14 | 11.8 | 8.7 |", []),  # a document
        ("cuda=8.0\ntf=1.8", [("cuda", "8.0"), ("tensorflow", "1.8")]),
        ("| NVIDIA-SMI 470.86       Driver Version: 470.86       CUDA Version: 11.4     |", []),
        ("| NVIDIA-SMI 470.86       Driver Version: 470.86\n       CUDA Version: 11.4     |", []),
        ("CUDA Version                              : 12.2", []),
        ("- GPU model and memory: CPU only", [("gpu", "CPU only")]),
        ("### GPU model and memory\n\nNone", [("gpu", "None")]),
        ("### GPU model and memory\n\n_No response_\n\n### Current behavior?\n\nGTX 1080 is not used", []),
        ("CUDA/cuDNN version:\n- GPU model and memory: GTX 1080, 8 GB", [("gpu", "GTX 1080")]),
        ("- OS Platform and Distribution (e.g.,\nLinux Ubuntu 16.04): Debian 12", [("os", "debian 12")]),
        (">>> tf.__version__\n'2.4.1'", [("tensorflow", "2.4.1")]),
        ("print(tf.__version__)\n2026-11-21 14:04:18.703295: I tensorflow/tsl/cuda/cudart_stub.cc:28] Could\n2.13.1",
         [("tensorflow", "2.13.1")]),
        ("('v1.3.0-rc2-20-g0787eee', '1.3.0')", [("tensorflow", "1.3.0")]),
        ("v2.3.0-rc2-23-gb36436b087 2.3.0", [("tensorflow", "2.3.0")]),
        ('print("TensorFlow version:", tf.__version__)', []),
        ("TensorFlow 2.14 was built with CUDA 11.8", []),
        ("debian 9, py36, tf1.4, cuda8, cudnn6",
         [("os", "debian 9"), ("python", "3.6"), ("tensorflow", "1.4"), ("cuda", "8"), ("cudnn", "6")]),
        ("Fedora 25, Python 3.5.4, GCC 6.4.1", [("os", "fedora 25"), ("python", "3.5.4")]),
        ("Ubuntu 19.04, TensorFlow 1.13.1, CUDA 10.0/7.4.2",
         [("os", "ubuntu 19.04"), ("tensorflow", "1.13.1"), ("cuda", "10.0"), ("cudnn", "7.4.2")]),
        ("OS: windows 11, tensorflow-cpu 2.6.0, Python 3.9.7",
         [("os", "windows 11"), ("tensorflow", "2.6.0"), ("python", "3.9.7")]),
        ("WSL2, ubuntu 18.04 LTS, Windows driver 470.14",
         [("os", "wsl2"), ("os", "ubuntu 18.04 lts"), ("driver", "470.14")]),
        ("TF 2.6, task manager: GPU at 2 percent, it is no faster than before", []),
        ("Epoch 1/10", []),
        ("tensorflow==2.13.0", []),  # pip's, not a statement
    ],
)  # fmt: skip
def test_fields_and_lines(text: str, expected: list[tuple[str, str]]) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    "text", ["N/A", "_No response_", "unknown", "not applicable", "see above", "-", "n/a*", "None"]
)
def test_what_says_nothing(text: str) -> None:
    assert values.says_nothing(text)
    assert said(f"### CUDA/cuDNN version\n\n{text}\n\nPython version: 3.8.10") == [("python", "3.8.10")]


def test_line_numbers_are_those_of_the_values() -> None:
    found = issue_form.parse(lines("\n### Python version\n\n3.8.10\n\nCUDA: 12.4"))
    assert [(one.line, one.raw) for one in found] == [(4, "3.8.10"), (6, "12.4")]


def test_bad_pastes_do_not_hurt() -> None:
    for path in every_capture("form"):
        for seed in range(20):
            issue_form.parse(mangled(path.read_text(encoding="utf-8"), seed))


@pytest.mark.parametrize(
    "unit", ["a", "cuda ", "1.", "(", "- ", "|", "*", "# ", "CUDA/cuDNN version: 1.1 ", "12 GB, ", "RTX "]
)
def test_long_lines_are_quick(unit: str) -> None:
    long = (unit * 100_000)[:100_000]
    with guarded(5.0):
        for start in ("", "CUDA/cuDNN version: ", "GPU: ", "### "):
            issue_form.parse(lines(f"{start}{long[:390]}\n{start}{long}"))
