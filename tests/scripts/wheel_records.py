"""Recorded members of published wheels as zip files, as `scripts/wheel_facts.py` gets them from the index."""

from __future__ import annotations

import io
import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(__file__).resolve().parent / "wheels"
sys.path.insert(0, str(ROOT / "scripts"))


def names() -> list[str]:
    return sorted(path.name.removesuffix(".txt") for path in RECORDS.glob("*.whl.txt"))


class Client:
    """A package index that has these files, in place of that of pypi_simple; some of them are withdrawn."""

    files: Sequence[str] = ()
    yanked: Sequence[str] = ()

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None: ...

    def get_project_page(self, package: str) -> Any:
        own = [name for name in self.files if name.startswith(f"{package.replace('-', '_')}-")]
        return SimpleNamespace(packages=[self.file(name) for name in own])

    def file(self, name: str) -> Any:
        yanked, version = name in self.yanked, name.split("-")[1]
        return SimpleNamespace(
            filename=name,
            url=name,
            version=version,
            package_type="wheel" if name.endswith(".whl") else "sdist",
            upload_time=None,
            is_yanked=yanked,
            yanked_reason="CVE & others" if yanked else None,
            has_metadata=True,
            requires_python=">=3.9" if version.startswith("3") else None,
        )


def archive(name: str) -> zipfile.ZipFile:
    parts = re.split(r"^==> (.+) <==\n", (RECORDS / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    made = zipfile.ZipFile(io.BytesIO(), "w")
    for member, text in zip(parts[1::2], parts[2::2], strict=True):
        made.writestr(member, module(text) if member.endswith((".so", ".pyd")) else text)
    return made


def module(described: str) -> bytes:
    """An extension module as far as it is read: the names in it, then fat binaries for the architectures.

    The text has lines like "names libcudart.so.8.0 libcudnn.so.6" and "fatbin sass 35 70 ptx 70 isa 6.3".
    """
    made = bytearray(b"\x7fELF" + bytes(60))
    for line in described.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "names":
            made += b"".join(name.encode() + b"\0" for name in rest.split())
        else:
            sass, ptx, isa = re.fullmatch(r"sass ([\d ]*?) ?ptx ([\d ]*?) ?isa (\d+\.\d+)", rest).groups()  # type: ignore[union-attr]
            made += 3 * fat_binary(map(int, sass.split()), map(int, ptx.split()), isa)
    return bytes(made)


def fat_binary(sass: Iterable[int], ptx: Iterable[int], isa: str = "6.3", payload: bytes = b"code" * 6) -> bytes:
    major, minor = map(int, isa.split("."))
    entries = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(payload), 0, 0, *version, architecture) + bytes(32) + payload
        for kind, version, architectures in ((2, (7, 1), sass), (1, (minor, major), ptx))
        for architecture in architectures
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries
