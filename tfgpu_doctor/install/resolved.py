"""What a resolver has chosen, by uv's pylock.toml or conda's list; and the lock file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import structs
from packaging.utils import canonicalize_name

from tfgpu_doctor.install.records import Package
from tfgpu_doctor.matrix.schema import SourceOnly

_ARCHIVE = ".tar.gz"  # of source


class UnreadableError(ValueError):
    """The answer of a resolver does not have the expected form."""


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


class _Named(msgspec.Struct):
    name: str
    version: str


class _Chosen(msgspec.Struct):
    metadata: _Named


class _Trial(msgspec.Struct):
    install: list[_Chosen]


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


def of_conda_list(data: bytes) -> tuple[Package, ...]:
    """The packages of `conda list --json`."""
    try:
        rows = msgspec.json.decode(data, type=list[_Named])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"conda's list cannot be read: {error}") from error
    return tuple(Package(row.name, row.version) for row in rows)


def of_pip_report(data: bytes) -> tuple[Package, ...]:
    """The packages of `pip install --dry-run --report`."""
    try:
        rows = msgspec.json.decode(data, type=_Trial).install
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"pip's report cannot be read: {error}") from error
    return tuple(Package(canonicalize_name(row.metadata.name), row.metadata.version) for row in rows)


def with_archives(packages: Iterable[Package], built: Iterable[SourceOnly]) -> Iterator[Package]:
    """The packages, those that are built with the archive that they are built from, and its hash."""
    archives = {one.package: one for one in built}
    for package in packages:
        if one := archives.get(package.name):
            archive = f"{one.package}-{one.version}{_ARCHIVE}"
            package = structs.replace(package, file=archive, hashes=(*package.hashes, f"sha256:{one.sha256}"))
        yield package


def lock_text(packages: tuple[Package, ...], *, python: str, platform: str) -> str:
    """The packages as a requirements file, with hashes where all of them have some."""
    hashed = all(package.hashes for package in packages)  # pip accepts them for all packages or for none
    names = ",".join(one.name for one in packages if one.file and one.file.endswith(_ARCHIVE))
    flags = (
        (" --require-hashes" if hashed else "") + " --only-binary :all:" + (f" --no-binary {names}" if names else "")
    )
    lines = [
        f"# Created by tfgpu install for Python {python} on {platform}. The same packages again:",
        f"#   python -m pip install --no-deps{flags} -r tfgpu-lock.txt",
    ]
    for package in packages:
        words = [f"{package.name}=={package.version}"]
        words += [f"--hash={one}" for one in package.hashes] if hashed else []
        lines.append(" \\\n    ".join(words))
    return "\n".join(lines) + "\n"
