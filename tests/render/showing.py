"""Results as text and in a format, as commands show them, and golden files to hold them against."""

from __future__ import annotations

import difflib
import io
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer

GOLDEN = Path(__file__).parent / "golden"


def as_format(name: str, kind: str) -> Callable[..., str]:
    """Return the function that shows a result of this kind; options come in the order in which commands name them."""

    def render(result: Any, fail_on: str = "error", only: tuple[str, ...] = (), **options: Any) -> str:
        return str(renderer(name, kind, {"fail_on": fail_on, "only": only, **options})(result))

    return render


def printed(kind: str, result: Any, columns: int = 80, encoding: str = "utf-8", **options: Any) -> str:
    """Return the text of a result, on a page of so many columns without colour."""
    raw = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        stream = io.TextIOWrapper(raw, encoding=encoding)
        renderer("text", kind, options)(result, console_for(stream))
        stream.flush()
    return raw.getvalue().decode(encoding)


def check_goldens(texts: Mapping[str, str], folder: Path = GOLDEN) -> None:
    """Compare texts with golden files, apart from times and the revision of the matrix.

    TFGPU_UPDATE_GOLDEN=1 writes them anew; read the difference before committing it.
    """
    wrong: list[str] = []
    for name, text in texts.items():
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "CREATED", text)
        text = re.sub(r'(?<=timestamp=")[^"]*', "2026-01-01T00:00:00", text).replace(MATRIX.revision, "REVISION")
        file = folder / name
        if os.environ.get("TFGPU_UPDATE_GOLDEN"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        wrong += difflib.unified_diff(before.splitlines(), text.splitlines(), name, "now", lineterm="")
    assert not wrong, "\n".join(wrong)
