"""The exact text of the matrix's answers at width 80 without colour, beside golden files.

TFGPU_UPDATE_GOLDEN=1 writes them anew; read the difference before committing it. They show a small matrix, so that they
stay as they are when ours grows.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests.lookup.test_lookup import OURS, SMALL
from tfgpu_doctor.lookup.cuda_cudnn import cuda_answer, cudnn_answer, find_cuda, find_cudnn
from tfgpu_doctor.lookup.drivers import all_drivers, driver_answer
from tfgpu_doctor.lookup.gpus import all_gpus, gpu_answer
from tfgpu_doctor.lookup.pythons import python_answer, pythons
from tfgpu_doctor.lookup.release import find_release
from tfgpu_doctor.lookup.releases import Filters, releases
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.terminal import matrix, matrix_versions
from tfgpu_doctor.render.terminal.matrix_notes import minor_ranges

GOLDEN = Path(__file__).parent / "golden" / "matrix"
Page = Callable[[Console], None]


def listing(**filters: str | bool | None) -> Page:
    asked = Filters(**filters)  # type: ignore[arg-type]
    return lambda console: matrix.releases_page(SMALL, asked, releases(SMALL, asked), console)


def one(version: str, platform: str = "linux_x86_64") -> Page:
    return lambda console: matrix.release(SMALL, find_release(SMALL, version, platform), console)


PAGES: dict[str, Page] = {
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
    "nothing-two-filters": listing(cuda="12.5", python="3.8"),
    "nothing-driver-too-new-for-the-card": listing(gpu="Tesla K80", driver="535"),
    "nothing-no-kernels": listing(gpu="GeForce RTX 5090"),
    "nothing-no-cuda-on-that-platform": listing(platform="macos_x86_64", cuda="11.2"),
    "nothing-but-a-candidate": listing(python="3.13", cuda="12.5"),
    "nothing-helps": listing(python="3.12", cuda="10.0", compute_capability="12.0"),
    "cuda": lambda console: matrix.cuda(cuda_answer(SMALL, find_cuda(SMALL, "12.5")), console),
    "cuda-old": lambda console: matrix.cuda(cuda_answer(SMALL, find_cuda(SMALL, "10.0")), console),
    "cuda-all": lambda console: matrix.cudas([cuda_answer(SMALL, row) for row in SMALL.data.cuda], console),
    "cudnn": lambda console: matrix.cudnn(cudnn_answer(SMALL, find_cudnn(SMALL, "8.7")), console),
    "cudnn-all": lambda console: matrix.cudnns([cudnn_answer(SMALL, row) for row in SMALL.data.cudnn], console),
    "gpu": lambda console: matrix.gpu(gpu_answer(SMALL, "8.9", "GeForce RTX 4090"), console),
    "gpu-without-kernels": lambda console: matrix.gpu(gpu_answer(SMALL, "12.0", "GeForce RTX 5090"), console),
    "gpu-capability": lambda console: matrix.gpu(gpu_answer(SMALL, "8.9"), console),
    "driver": lambda console: matrix_versions.driver(driver_answer(SMALL, "470"), console),
    "driver-all": lambda console: matrix_versions.drivers(all_drivers(SMALL), console),
    "python": lambda console: matrix_versions.python(python_answer(SMALL, "3.11"), console),
    "python-all": lambda console: matrix_versions.pythons(
        [python_answer(SMALL, version) for version in pythons(SMALL)], console
    ),
    "gpu-all": lambda console: matrix.gpus(all_gpus(SMALL), console),
}


def printed(page: Page, monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    page(console_for(stream))
    return stream.getvalue()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_golden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(PAGES[name], monkeypatch)
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_no_golden_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", sorted(PAGES))
@pytest.mark.parametrize("columns", [40, 60, 120])
def test_fits_the_width_and_cuts_nothing_off(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(PAGES[name], monkeypatch, columns)
    for line in text.splitlines():
        whole = re.match(r"    see  |  from  https://| {16}python3 -m pip", line)  # must survive being copied
        assert len(line) <= columns or whole, line
        assert line == line.rstrip()
    assert "…" not in text
    squeezed = re.sub(r"\s", "", text)  # folding breaks long names, but loses nothing of them
    numbers = re.findall(r"\S*\d\S*", printed(PAGES[name], monkeypatch, 300))
    assert [word for word in numbers if word not in squeezed] == []


def test_the_lists_of_our_matrix_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Filters(driver="580", platform=None)
    pages: list[Page] = [
        lambda console: matrix.releases_page(OURS, asked, releases(OURS, asked), console),
        lambda console: matrix.gpus(all_gpus(OURS), console),
        lambda console: matrix.cudas([cuda_answer(OURS, row) for row in OURS.data.cuda], console),
        lambda console: matrix.cudnns([cudnn_answer(OURS, row) for row in OURS.data.cudnn], console),
    ]
    for page in pages:
        for columns in (60, 80):
            assert max(map(len, printed(page, monkeypatch, columns).splitlines())) <= columns


def test_hostile_text_is_shown_and_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "[bold]\x1b[31mGPU\x07\n"
    answer = msgspec.structs.replace(gpu_answer(SMALL, "8.9"), name=evil, names=(evil,))
    rows = [msgspec.structs.replace(row, name=evil) for row in all_gpus(SMALL)]
    row = msgspec.structs.replace(find_release(SMALL, "2.18.0", "linux_x86_64"), yanked=evil, extra=evil)
    for page in (
        lambda console: matrix.gpu(answer, console),
        lambda console: matrix.gpus(rows, console),
        lambda console: matrix.release(SMALL, row, console),
    ):
        text = printed(page, monkeypatch)
        assert all(char.isprintable() or char == "\n" for char in text)
    assert "[bold]" in printed(lambda console: matrix.gpu(answer, console), monkeypatch)


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        (["2.21.0", "2.20.0", "2.19.1", "2.19.0"], "2.19 to 2.21"),
        (["2.21.0", "2.19.1", "2.18.0"], "2.21, 2.18 to 2.19"),
        (["2.15.1"], "2.15.1"),
        (["2.15.1", "2.15.0"], "2.15"),
        (["2.0.0", "1.15.5"], "2.0, 1.15"),
        (["9.3", "9.2"], "9.2 to 9.3"),
        ([], ""),
    ],
)
def test_versions_are_shortened_to_their_minors(versions: list[str], text: str) -> None:
    assert minor_ranges(versions) == text
