"""What `tfgpu plan` prints for the situations that people ask about most; TFGPU_UPDATE_GOLDEN=1 writes it anew.

These are answers of the bundled matrix: a new release of TensorFlow changes them, and the change is to be read.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.healthy import MATRIX
from tests.render.test_text import check_golden
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.target import describe, read_specifier
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.terminal.plan import render

GOLDEN = Path(__file__).parent / "golden" / "plan"

# the commonest of the reports: what they had, and what they wanted
SITUATIONS: dict[str, dict[str, Any]] = {
    "a-gaming-card-and-a-good-driver": {"gpu": ("RTX 3080",), "driver": "535.113.01", "python": "3.11"},
    "cuda-12-with-an-old-python": {"gpu": ("RTX 2080 SUPER",), "driver": "525.125.06", "python": "3.8"},
    "native-windows": {"gpu": ("RTX 3060",), "driver": "551.23", "python": "3.10", "os": "windows"},
    "wsl2": {"gpu": ("RTX 4070 Laptop GPU",), "driver": "551.23", "python": "3.12", "os": "wsl2"},
    "a-blackwell-card": {"gpu": ("RTX 5090",), "driver": "570.86", "python": "3.12"},
    "a-pascal-card": {"gpu": ("GTX 1080 Ti",), "driver": "535.183.01", "python": "3.12"},
    "a-kepler-card": {"gpu": ("Tesla K80",), "driver": "470.82.01", "python": "3.10"},
    "an-old-driver-on-a-cluster": {"gpu": ("A100-SXM4-40GB",) * 4, "driver": "470.57.02", "python": "3.9"},
    "a-python-that-is-too-new": {"gpu": ("RTX 4090",), "driver": "580.65", "python": "3.14"},
    "tensorflow-1-on-a-new-card": {"gpu": ("RTX 3090",), "driver": "535", "python": "3.7", "tensorflow": "1.15"},
    "macos": {"os": "macos", "python": "3.11"},
    "an-arm-server": {"gpu": ("GH200",), "driver": "550", "python": "3.12", "machine": "aarch64"},
    "a-fermi-card": {"gpu": ("GTX 580",), "driver": "390.157", "python": "3.6"},
}


IN_FULL = ("a-gaming-card-and-a-good-driver", "an-old-driver-on-a-cluster", "a-python-that-is-too-new", "a-fermi-card")


def page_of(described: dict[str, Any], *, detail: Detail = "normal") -> str:
    described = dict(described)
    asked = described.pop("tensorflow", None)
    page = io.StringIO()
    plan = make_plan(MATRIX, describe(MATRIX, **described), specifier=read_specifier(asked) if asked else None)
    render(plan, console_for(page), detail)
    return page.getvalue()


def rows(page: str, columns: int) -> int:
    """Of a terminal, which wraps long commands."""
    return sum(max(1, -(-len(line) // columns)) for line in page.splitlines())


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str) -> None:
    page = page_of(SITUATIONS[name])
    check_golden(GOLDEN / f"{name}.txt", page)
    # releases before the extra and-cuda have commands that alone fill half of a screen
    assert rows(page, 80) <= (31 if "nvidia-cublas-cu11 " in page else 23)


@pytest.mark.parametrize("name", IN_FULL)
def test_situation_in_full(name: str) -> None:
    check_golden(GOLDEN / f"{name}-in-full.txt", page_of(SITUATIONS[name], detail="full"))
