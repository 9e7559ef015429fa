"""What a resolver has chosen: uv's pylock.toml, pip's installation report or list; and the lock file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from packaging.utils import canonicalize_name

from tfgpu_doctor.install.records import Package

_SIZE = re.compile(r"([\w.+-]+\.whl)(?:\.metadata)?\s+\(([\d.]+) (bytes|[kKMG]i?B)\)")
_UNITS = {"bytes": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class UnreadableError(ValueError):
    """The answer of a resolver is not what it is known to write."""


class _Wheel(msgspec.Struct):
    url: str = ""
    path: str = ""
    size: int | None = None
    hashes: dict[str, str] = {}


class _Locked(msgspec.Struct):
    name: str
    version: str
    wheels: list[_Wheel] = []


class _Lock(msgspec.Struct):
    packages: list[_Locked] = []


class _Archive(msgspec.Struct):
    hashes: dict[str, str] = {}


class _Download(msgspec.Struct):
    url: str
    archive_info: _Archive = msgspec.field(default_factory=_Archive)


class _Named(msgspec.Struct):
    name: str
    version: str


class _Reported(msgspec.Struct):
    metadata: _Named
    download_info: _Download


class _Report(msgspec.Struct):
    install: list[_Reported]


def of_pylock(document: object) -> tuple[Package, ...]:
    """The packages of a pylock.toml (PEP 751) that was made for one interpreter, parsed.

    Of the wheels listed, the first is what the interpreter prefers.
    """
    try:
        return tuple(map(_locked, msgspec.convert(document, _Lock).packages))
    except msgspec.ValidationError as error:
        raise UnreadableError(f"uv's pylock.toml cannot be read: {error}") from error


def _locked(row: _Locked) -> Package:
    first = row.wheels[0] if row.wheels else _Wheel()
    hashes = tuple(one for wheel in row.wheels for one in _hashes(wheel.hashes))
    return Package(canonicalize_name(row.name), row.version, _file(first.url or first.path), first.size, hashes)


def _hashes(found: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{kind}:{value}" for kind, value in sorted(found.items()))


def _file(place: str) -> str | None:
    return place.partition("#")[0].rpartition("/")[2] or None


def of_pip_report(data: bytes, output: str = "") -> tuple[Package, ...]:
    """The packages of `pip install --report`; sizes stand only in what pip printed on the way."""
    try:
        rows = msgspec.json.decode(data, type=_Report).install
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"pip's report cannot be read: {error}") from error
    sizes = dict(_sizes(output))
    return tuple(sorted((_reported(row, sizes) for row in rows), key=lambda one: one.name))


def _reported(row: _Reported, sizes: Mapping[str, int]) -> Package:
    named, file = row.metadata, _file(row.download_info.url)
    hashes = _hashes(row.download_info.archive_info.hashes)
    return Package(canonicalize_name(named.name), named.version, file, sizes.get(file or ""), hashes)


def _sizes(output: str) -> Iterator[tuple[str, int]]:
    """ "Downloading numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl (18.3 MB)", not that of its metadata."""
    for found in _SIZE.finditer(output):
        if ".metadata" not in found[0]:
            yield found[1], int(float(found[2]) * _UNITS[found[3]])


def of_pip_list(data: bytes) -> tuple[Package, ...]:
    """The packages of `pip list --format json`, for a pip that writes no report."""
    try:
        rows = msgspec.json.decode(data, type=list[_Named])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"pip's list cannot be read: {error}") from error
    found = (Package(canonicalize_name(row.name), row.version) for row in rows)
    return tuple(sorted(found, key=lambda one: one.name))


def has_hashes(packages: Iterable[Package]) -> bool:
    """Whether each of them can be verified: pip and uv accept hashes for all packages or for none."""
    return all(package.hashes for package in packages)


def lock_text(packages: tuple[Package, ...], *, python: str, platform: str) -> str:
    """The packages as a requirements file, with hashes where all of them have some."""
    hashed = has_hashes(packages)
    flags = " --require-hashes" if hashed else ""
    lines = [
        f"# Made by tfgpu install for Python {python} on {platform}. The same packages again:",
        f"#   python -m pip install --no-deps{flags} --only-binary :all: -r tfgpu-lock.txt",
    ]
    for package in packages:
        words = [f"{package.name}=={package.version}"]
        words += [f"--hash={one}" for one in package.hashes] if hashed else []
        lines.append(" \\\n    ".join(words))
    return "\n".join(lines) + "\n"
