"""Recorded members of published wheels as zip files, as `scripts/wheel_facts.py` gets them from the index."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(__file__).resolve().parent / "wheels"
sys.path.insert(0, str(ROOT / "scripts"))


def names() -> list[str]:
    """File names of the recorded wheels."""
    return sorted(path.name.removesuffix(".txt") for path in RECORDS.glob("*.whl.txt"))


def archive(name: str) -> zipfile.ZipFile:
    """The recorded members of one wheel."""
    return zipfile.ZipFile(io.BytesIO(content(name)))


def content(name: str) -> bytes:
    """The bytes of a zip file with the recorded members of one wheel."""
    parts = re.split(r"^==> (.+) <==\n", (RECORDS / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for member, text in zip(parts[1::2], parts[2::2], strict=True):
            made.writestr(member, text)
    return buffer.getvalue()
