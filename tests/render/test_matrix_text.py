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
from tests.tables import read_rows
from tfgpu_doctor import commands

GOLDEN = Path(__file__).parent / "golden" / "matrix"
PAGES: dict[str, str] = read_rows(Path(__file__).parent / "matrix_pages.yaml")


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
