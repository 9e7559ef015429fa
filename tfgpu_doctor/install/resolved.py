"""What a resolver has chosen: uv's pylock.toml, pip's installation report or list; and the lock file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from tfgpu_doctor.install.records import Package

_SIZE = re.compile(r"([\w.+-]+\.whl)(?:\.metadata)?\s+\(([\d.]+) (bytes|[kKMG]i?B)\)")
_UNITS = {"bytes": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class UnreadableError(ValueError):
    """The answer of a resolver is not what it is known to write."""


def of_pylock(document: Mapping[str, Any]) -> tuple[Package, ...]:
    """The packages of a pylock.toml (PEP 751) that was made for one interpreter.

    Of the wheels listed, the first is what the interpreter prefers.
    """
    return tuple(map(_locked, document.get("packages", ())))


def _locked(row: Mapping[str, Any]) -> Package:
    wheels = row.get("wheels") or [row.get("archive") or {}]
    place = wheels[0].get("url") or wheels[0].get("path") or ""
    hashes = (f"{kind}:{value}" for wheel in wheels for kind, value in sorted(wheel.get("hashes", {}).items()))
    try:
        name, version = canonicalize_name(row["name"]), str(row["version"])
    except KeyError as error:
        raise UnreadableError(f"pylock.toml without {error}") from error
    return Package(name, version, place.rpartition("/")[2] or None, wheels[0].get("size"), tuple(hashes))


def of_pip_report(data: bytes, output: str = "") -> tuple[Package, ...]:
    """The packages of `pip install --report`; sizes stand only in what pip printed on the way."""
    try:
        rows = msgspec.json.decode(data)["install"]
        sizes = dict(_sizes(output))
        return tuple(sorted((_reported(row, sizes) for row in rows), key=lambda one: one.name))
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise UnreadableError(f"pip's report cannot be read: {error}") from error


def _reported(row: Mapping[str, Any], sizes: Mapping[str, int]) -> Package:
    file = row["download_info"]["url"].rpartition("/")[2].partition("#")[0]
    found = row["download_info"].get("archive_info", {}).get("hashes", {})
    hashes = tuple(f"{kind}:{value}" for kind, value in sorted(found.items()))
    metadata = row["metadata"]
    return Package(canonicalize_name(metadata["name"]), metadata["version"], file, sizes.get(file), hashes)


def _sizes(output: str) -> Iterator[tuple[str, int]]:
    """ "Downloading numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl (18.3 MB)", not that of its metadata."""
    for found in _SIZE.finditer(output):
        if ".metadata" not in found[0]:
            yield found[1], int(float(found[2]) * _UNITS[found[3]])


def of_pip_list(data: bytes) -> tuple[Package, ...]:
    """The packages of `pip list --format json`, for a pip that writes no report."""
    try:
        rows = msgspec.json.decode(data, type=list[dict[str, str]])
        found = (Package(canonicalize_name(row["name"]), row["version"]) for row in rows)
        return tuple(sorted(found, key=lambda one: one.name))
    except (msgspec.DecodeError, KeyError) as error:
        raise UnreadableError(f"pip's list cannot be read: {error}") from error


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
