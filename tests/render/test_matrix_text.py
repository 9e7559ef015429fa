"""The exact text of the matrix's answers at width 80 without colour, beside golden files.

They show a small matrix, so that they stay as they are when ours grows; `find KEY` shows ours.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tests.matrix.test_queries import OURS, SMALL
from tests.render.showing import check_goldens
from tfgpu_doctor import commands

GOLDEN = Path(__file__).parent / "golden" / "matrix"
PAGES = {
    "release": "tensorflow 2.18.0",
    "release-v": "tensorflow 2.18.0 -v",
    "release-broken-on-some-cards": "tensorflow 2.15.0",
    "release-broken-on-some-cards-v": "tensorflow 2.15.0 -v",
    "release-broken-beside-others": "tensorflow 2.13.0",
    "release-windows-gpu": "tensorflow 2.10.1 --platform windows_amd64",
    "release-empty-wheel": "tensorflow 2.18.0 --platform windows_amd64",
    "release-cpu-build": "tensorflow 1.14.0 --package tensorflow",
    "list-cuda-11.8": "tensorflow --cuda 11.8",
    "list-all-platforms": "tensorflow --cuda 11 --platform all",
    "list-card": "tensorflow --compute-capability 8.9",
    "list-cpu": "tensorflow --platform macos_x86_64",
    "list-wsl2": "tensorflow --driver 528.24 --os wsl2",
    "nothing-two-filters": "tensorflow --cuda 12.5 --python 3.8",
    "nothing-no-kernels": "tensorflow --gpu RTX5090",
    "nothing-but-a-candidate": "tensorflow --cuda 12.5 --python 3.13",
    "cuda": "cuda 12.5",
    "cuda-of-no-row": "cuda 12.5.9",
    "cuda-old": "cuda 10.0",
    "cuda-all": "cuda",
    "cudnn": "cudnn 8.7",
    "cudnn-all": "cudnn",
    "gpu": "gpu RTX 4090",
    "gpu-without-kernels": "gpu RTX 5090",
    "gpu-capability": "gpu --compute-capability 8.9",
    "gpu-all": "gpu",
    "gpu-all-v": "gpu -v",
    "find-image": "find nvcr.io/nvidia/tensorflow:24.05-tf2-py3",
    "find-jetpack": "find R36.3",
    "find-bug": "find tf-2.21.0-runpath-cusolver",
    "find-many": "find nvidia-cu",
    "find-many-v": "find nvidia-cu -v",
    "about": "find",
    "about-v": "find -v",
}


def page(words: str, columns: int = 80, ours: bool = False) -> str:
    with pytest.MonkeyPatch.context() as patch:
        matrix = OURS if ours or (words.startswith("find ") and words != "find -v") else SMALL
        patch.setattr(commands, "load_matrix", lambda _: matrix)
        done = tfgpu("matrix", *words.split(), environ={"COLUMNS": str(columns)})
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr
    return done.stdout


def test_golden() -> None:
    check_goldens({f"{name}.txt": page(words) for name, words in PAGES.items()}, GOLDEN)
    assert {file.stem for file in GOLDEN.iterdir()} == set(PAGES)


def test_fits_the_width_and_cuts_nothing_off() -> None:
    whole = re.compile(r"    see  | +(?:[a-z]+ +)?https://| {16}python3 -m pip")  # must survive being copied
    wrong: list[tuple[str, str]] = []
    for name, words in PAGES.items():
        numbers = re.findall(r"\S*\d\S*", page(words, 300))
        for columns in (40, 120):
            text = page(words, columns)
            lines = text.splitlines()
            wrong += [(name, line) for line in lines if len(line) > columns and not whole.match(line)]
            wrong += [(name, line) for line in lines if line != line.rstrip() or "…" in line]
            squeezed = re.sub(r"\s", "", text)  # folding breaks long names, but loses nothing of them
            wrong += [(name, word) for word in numbers if word not in squeezed]
    assert wrong == []


def test_the_lists_of_our_matrix_fit_and_the_first_screens_are_short() -> None:
    for words in ("tensorflow --driver 580 --platform all -v", "gpu -v", "cuda -v", "cudnn -v"):
        assert max(map(len, page(words, 60, ours=True).splitlines())) <= 60, words
    few, many = (len(page(f"tensorflow 2.15{more}", ours=True).splitlines()) for more in ("", " -v"))
    assert few < 50 < many and len(page("gpu", ours=True).splitlines()) < 50
