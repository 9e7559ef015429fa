"""The exact text of the matrix's answers at width 80 without colour, beside golden files.

They show a small matrix, so that they stay as they are when ours grows.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tests.matrix.test_queries import OURS, SMALL
from tests.render.showing import check_goldens
from tests.render.showing import printed as as_text
from tfgpu_doctor.matrix.queries import Filters, find_release, releases
from tfgpu_doctor.matrix.tables import about, cuda_answer, cudnn_answer, find, find_cuda, find_cudnn
from tfgpu_doctor.plan.gpu_answers import all_gpus, gpu_answer
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outlines import matrix as sheets
from tfgpu_doctor.render.outlines.matrix import Answered, Sheet, minor_ranges

GOLDEN = Path(__file__).parent / "golden" / "matrix"


def listing(**filters: str | bool | None) -> Sheet:
    asked = Filters(**filters)  # type: ignore[arg-type]
    return sheets.releases_page(SMALL, asked, releases(SMALL, asked))


def one(version: str, platform: str = "linux_x86_64") -> Sheet:
    return sheets.release(SMALL, find_release(SMALL, version, platform))


def rows(key: str) -> Sheet:
    return sheets.rows(key, find(OURS, key))


WHOLE = ("release", "release-broken-on-some-cards", "gpu-all", "about", "find-many")  # also with -v
SHEETS: dict[str, Sheet] = {
    "release": one("2.18.0"),
    "release-broken-on-some-cards": one("2.15.0"),
    "release-broken-beside-others": one("2.13.0"),
    "release-windows-gpu": one("2.10.1", "windows_amd64"),
    "release-empty-wheel": one("2.18.0", "windows_amd64"),
    "release-cpu-build": one("1.14.0"),
    "list-cuda-11.8": listing(cuda="11.8"),
    "list-all-platforms": listing(cuda="11", platform=None),
    "list-card": listing(compute_capability="8.9"),
    "list-cpu": listing(platform="macos_x86_64"),
    "list-wsl2": listing(driver="528.24", wsl2=True),
    "nothing-two-filters": listing(cuda="12.5", python="3.8"),
    "nothing-no-kernels": listing(gpu="GeForce RTX 5090"),
    "nothing-but-a-candidate": listing(python="3.13", cuda="12.5"),
    "cuda": sheets.card("CUDA", cuda_answer(SMALL, find_cuda(SMALL, "12.5"))),
    "cuda-of-no-row": sheets.card("CUDA", cuda_answer(SMALL, find_cuda(SMALL, "12.5.9"), "12.5.9")),
    "cuda-old": sheets.card("CUDA", cuda_answer(SMALL, find_cuda(SMALL, "10.0"))),
    "cuda-all": sheets.listing("CUDA", [cuda_answer(SMALL, row) for row in SMALL.data.cuda]),
    "cudnn": sheets.card("cuDNN", cudnn_answer(SMALL, find_cudnn(SMALL, "8.7"))),
    "cudnn-all": sheets.listing("cuDNN", [cudnn_answer(SMALL, row) for row in SMALL.data.cudnn]),
    "gpu": sheets.gpu(gpu_answer(SMALL, "8.9", "GeForce RTX 4090")),
    "gpu-without-kernels": sheets.gpu(gpu_answer(SMALL, "12.0", "GeForce RTX 5090")),
    "gpu-capability": sheets.gpu(gpu_answer(SMALL, "8.9")),
    "gpu-all": sheets.gpus(all_gpus(SMALL)),
    "find-image": rows("nvcr.io/nvidia/tensorflow:24.05-tf2-py3"),
    "find-jetpack": rows("R36.3"),
    "find-bug": rows("tf-2.21.0-runpath-cusolver"),
    "find-many": rows("nvidia-cu"),
    "about": sheets.about(about(SMALL)),
}
PAGES = {name: (sheet, "normal") for name, sheet in SHEETS.items()} | {
    f"{name}-v": (SHEETS[name], "full") for name in WHOLE
}


def printed(sheet: Sheet, monkeypatch: pytest.MonkeyPatch, columns: int = 80, detail: Detail = "normal") -> str:
    return as_text("matrix", Answered(None, sheet, "2026-11-21"), columns, detail=detail)


def page(name: str, monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> str:
    sheet, detail = PAGES[name]
    return printed(sheet, monkeypatch, columns, detail)  # type: ignore[arg-type]


def test_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    check_goldens({f"{name}.txt": page(name, monkeypatch) for name in PAGES}, GOLDEN)
    assert {file.stem for file in GOLDEN.iterdir()} == set(PAGES)


def test_fits_the_width_and_cuts_nothing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = re.compile(r"    see  | +(?:[a-z]+ +)?https://| {16}python3 -m pip")  # must survive being copied
    wrong: list[tuple[str, str]] = []
    for name in PAGES:
        numbers = re.findall(r"\S*\d\S*", page(name, monkeypatch, 300))
        for columns in (40, 60, 120):
            text = page(name, monkeypatch, columns)
            lines = text.splitlines()
            wrong += [(name, line) for line in lines if len(line) > columns and not whole.match(line)]
            wrong += [(name, line) for line in lines if line != line.rstrip() or "…" in line]
            squeezed = re.sub(r"\s", "", text)  # folding breaks long names, but loses nothing of them
            wrong += [(name, word) for word in numbers if word not in squeezed]
    assert wrong == []


def test_the_lists_of_our_matrix_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Filters(driver="580", platform=None)
    shown = [
        sheets.releases_page(OURS, asked, releases(OURS, asked)),
        sheets.gpus(all_gpus(OURS)),
        sheets.listing("CUDA", [cuda_answer(OURS, row) for row in OURS.data.cuda]),
        sheets.listing("cuDNN", [cudnn_answer(OURS, row) for row in OURS.data.cudnn]),
        rows("nvidia-cu"),
    ]
    for sheet in shown:
        for columns in (60, 80):
            for detail in ("normal", "full"):
                lines = printed(sheet, monkeypatch, columns, detail).splitlines()  # type: ignore[arg-type]
                assert max(map(len, lines)) <= columns


def test_the_first_screens_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    release = sheets.release(OURS, find_release(OURS, "2.15", "linux_x86_64"))
    assert (
        len(printed(release, monkeypatch).splitlines())
        < 45
        < len(printed(release, monkeypatch, 80, "full").splitlines())
    )
    assert len(printed(sheets.gpus(all_gpus(OURS)), monkeypatch).splitlines()) < 50


def test_hostile_text_is_shown_and_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "[bold]\x1b[31mGPU\x07\n"
    answer = msgspec.structs.replace(gpu_answer(SMALL, "8.9"), name=evil)
    rows = [msgspec.structs.replace(row, name=evil) for row in all_gpus(SMALL)]
    row = msgspec.structs.replace(find_release(SMALL, "2.18.0", "linux_x86_64"), yanked=evil, extra=evil)
    for sheet in (sheets.gpu(answer), sheets.gpus(rows), sheets.release(SMALL, row)):
        text = printed(sheet, monkeypatch)
        assert all(char.isprintable() or char == "\n" for char in text)
    assert "[bold]" in printed(sheets.gpu(answer), monkeypatch)


def test_versions_are_shortened_to_their_minors() -> None:
    shown = {
        "2.19 to 2.21": ["2.21.0", "2.20.0", "2.19.1", "2.19.0"],
        "2.21, 2.18 to 2.19": ["2.21.0", "2.19.1", "2.18.0"],
        "2.15.1": ["2.15.1"],
        "2.15": ["2.15.1", "2.15.0"],
        "2.0, 1.15": ["2.0.0", "1.15.5"],
        "9.2 to 9.3": ["9.3", "9.2"],
        "": [],
    }
    assert {minor_ranges(versions): versions for versions in shown.values()} == shown
