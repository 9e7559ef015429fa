# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "msgspec>=0.19", "packaging>=23", "pip>=23", "pypi-simple>=1.5", "remotezip>=0.12.3", "yaml-rs>=0.1.6",
# ]
# ///
"""Derives every TensorFlow row of compat_matrix.yaml again, from the published wheels themselves.

    python scripts/refresh_matrix.py [--check] [--only 2.15.1] [--matrix FILE]

Single members of the wheels are read with HTTP range requests; nothing is downloaded whole. The index is the one that
pip is configured to use. Everything above the line BEGIN_DERIVED is written by hand and stays as it is. A second run
changes nothing. Exit code 1 with --check: the file differs from what the wheels say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from wheel_facts import platform_of, python_of, read_wheel  # noqa: E402

from tfgpu_doctor.matrix import Matrix, MatrixError, parse  # noqa: E402
from tfgpu_doctor.matrix_schema import (  # noqa: E402
    PLATFORMS,
    LibrarySet,
    Platform,
    ReleaseRow,
    Wheel,
)

MATRIX = ROOT / "compat_matrix.yaml"
BEGIN_DERIVED = "# ---- derived from the wheels by scripts/refresh_matrix.py: edits below this line are lost ----"
PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tensorflow-macos")
OLDEST = Version("2.10.0")
TAIL = 4_000_000  # bytes of a wheel's end to ask for first: the central directory of the largest ones fits


# --------------------------------------------------------------------------------------------- index


def index_url() -> str:
    """The index that pip uses here: PIP_INDEX_URL, else pip's configuration, else pip's own default."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, timeout=60
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    from pip._internal.models.index import PyPI

    return str(PyPI.simple_url)


def wheels_of(package: str, url: str) -> dict[str, dict[Platform, list[Any]]]:
    """Stable releases of a package → platform → its wheels (pypi_simple.DistributionPackage)."""
    from pypi_simple import NoSuchProjectError, PyPISimple

    found: dict[str, dict[Platform, list[Any]]] = defaultdict(lambda: defaultdict(list))
    with PyPISimple(url) as client:
        try:
            page = client.get_project_page(package)
        except NoSuchProjectError:
            return found
    for file in page.packages:
        version = file.version
        if file.package_type not in ("wheel", "sdist") or version is None:
            continue
        if Version(version).is_prerelease or Version(version) < OLDEST:
            continue
        platforms = found[version]  # a release of source archives only has an entry too
        if file.package_type == "wheel" and (platform := platform_of(file.filename)):
            platforms[platform].append(file)
    return found


# ------------------------------------------------------------------------------------------ derivation


def derive(only: str | None = None) -> tuple[list[ReleaseRow], list[LibrarySet]]:
    """All rows, ordered by package and falling version, and the library sets that they name."""
    url = index_url()
    rows: list[ReleaseRow] = []
    sets: dict[str, LibrarySet] = {}
    with ThreadPoolExecutor(8) as pool:
        for package in PACKAGES:
            releases = {v: files for v, files in wheels_of(package, url).items() if only in (None, v)}
            jobs = [(version, platform, files) for version, by in releases.items() for platform, files in by.items()]
            done = list(pool.map(lambda job: _read(job[2]), jobs))
            wheels: dict[str, dict[Platform, Wheel]] = {version: {} for version in releases}
            for (version, platform, _), (wheel, libraries) in zip(jobs, done, strict=True):
                wheels[version][platform] = wheel
                if libraries and sets.setdefault(libraries.id, libraries) != libraries:
                    raise SystemExit(f"library set {libraries.id} is not one: {sets[libraries.id]}, {libraries}")
            for version in sorted(wheels, key=Version, reverse=True):
                ordered = {platform: wheels[version][platform] for platform in PLATFORMS if platform in wheels[version]}
                rows.append(ReleaseRow(package=package, version=version, wheels=ordered))  # type: ignore[arg-type]
            print(f"{package}: {len(releases)} releases, {len(jobs)} wheels read", file=sys.stderr)
    return rows, [sets[name] for name in sorted(sets)]


def _read(files: list[Any]) -> tuple[Wheel, LibrarySet | None]:
    """Read the wheel for the newest Python of one release and platform."""
    from remotezip import RemoteZip

    newest = max(files, key=lambda file: [int(part) for part in python_of(file.filename).split(".")])
    with RemoteZip(newest.url, initial_buffer_size=TAIL) as archive:
        return read_wheel(archive, newest.filename, (python_of(file.filename) for file in files))


# --------------------------------------------------------------------------------------------- writing


def render(rows: Iterable[ReleaseRow], sets: Iterable[LibrarySet]) -> str:
    """The derived part of the file: YAML whose leaves are JSON, one field a line, so that a diff shows what changed."""
    lines = [BEGIN_DERIVED, "", "libraries:"]
    for one in sets:
        lines += [f"- id: {one.id}", f"  source: {one.source}", f"  libraries: {_flow(one.libraries)}"]
    lines += ["", "tensorflow:"]
    for row in rows:
        lines += [f"- package: {row.package}", f"  version: {_flow(row.version)}"]
        if not row.wheels:
            lines.append("  wheels: {}")
            continue
        lines.append("  wheels:")
        for platform, wheel in row.wheels.items():
            lines.append(f"    {platform}:")
            lines += [f"      {key}: {_flow(value)}" for key, value in msgspec.to_builtins(wheel).items()]
    return "\n".join(lines) + "\n"


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def changes(before: Iterable[ReleaseRow], after: Iterable[ReleaseRow]) -> Iterator[str]:
    """What a refresh changes, a line each: "tensorflow 2.15.1 linux_x86_64 cudnn: 8.8 → 8.9"."""
    old, new = _flat(before), _flat(after)
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield f"{key}: removed"
        elif key not in old:
            yield f"{key}: added"
        else:
            fields = sorted(old[key].keys() | new[key].keys())
            for name in fields:
                if old[key].get(name) != new[key].get(name):
                    yield f"{key} {name}: {_flow(old[key].get(name))} → {_flow(new[key].get(name))}"


def _flat(rows: Iterable[ReleaseRow]) -> dict[str, dict[str, Any]]:
    flat: dict[str, dict[str, Any]] = {}
    for row in rows:
        flat[f"{row.package} {row.version}"] = {}
        for platform, wheel in row.wheels.items():
            flat[f"{row.package} {row.version} {platform}"] = msgspec.to_builtins(wheel)
    return flat


def official_differences(matrix: Matrix) -> Iterator[str]:
    """Where TensorFlow's own table says something else than the wheel; the wheel wins."""
    for row in matrix.data.official:
        release = matrix.tensorflow(row.version, "linux_x86_64")
        if release is None:
            continue
        said = {"cuda": row.cuda, "cudnn": row.cudnn, "python": f"{row.python[0]}-{row.python[-1]}"}
        is_ = {"cuda": release.cuda, "cudnn": release.cudnn, "python": f"{release.python[0]}-{release.python[-1]}"}
        for name, value in said.items():
            if value != is_[name]:
                yield f"tensorflow {release.version} {name}: official table {value}, wheel {is_[name]}"


def main() -> int:
    """Refresh, or with --check only compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is out of date")
    parser.add_argument("--only", metavar="VERSION", help="print the rows of one release and write nothing")
    parser.add_argument("--matrix", metavar="FILE", type=Path, default=MATRIX, help="the file to refresh")
    options = parser.parse_args()
    rows, sets = derive(options.only)
    if options.only:
        print(render(rows, sets), end="")
        return 0
    return refresh(options.matrix, rows, sets, write=not options.check)


def refresh(file: Path, rows: list[ReleaseRow], sets: list[LibrarySet], *, write: bool) -> int:
    """Put the rows into the file and say what changed; without `write`, only say it and return 1 if anything would."""
    text = file.read_text(encoding="utf-8")
    hand, marker, _ = text.partition(BEGIN_DERIVED)
    fresh = (hand if marker else text.rstrip() + "\n\n") + render(rows, sets)
    try:
        for line in changes(parse(text, str(file)).tensorflow, rows):
            print(line)
    except MatrixError as error:
        print(f"{error}\nnot comparable as it is; the derived part is written anew", file=sys.stderr)
    if fresh == text:
        print(f"{file.name} is up to date")
    elif write:
        file.write_text(fresh, encoding="utf-8")
    matrix = Matrix(parse(fresh, str(file)), str(file))
    matrix.check()
    for line in official_differences(matrix):
        print(f"note: {line}")
    return int(fresh != text and not write)


if __name__ == "__main__":
    sys.exit(main())
