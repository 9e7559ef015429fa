# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "msgspec>=0.19", "packaging>=23", "pip>=23", "pypi-simple>=1.5", "pyyaml>=6.0", "remotezip>=0.12.3",
# ]
# ///
"""Derives every TensorFlow row of compat_matrix.yaml again, from the published wheels themselves.

    python scripts/refresh_matrix.py [--check] [--only 2.15.1] [--matrix FILE] [--reread]

Single members of the wheels are read with HTTP range requests. The extension modules of old wheels, which are large,
are read in part, and only once: what the file says of them already is kept unless --reread is given. The index is the
one that pip is configured to use. Everything above the line BEGIN_DERIVED is written by hand and stays as it is. A
second run changes nothing. Exit code 1 with --check: the file differs from what the wheels say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from natives import Native  # noqa: E402
from package_index import File, index_url, linux_versions, wheels_of  # noqa: E402
from sections import finish, parser  # noqa: E402
from wheel_facts import read_wheel  # noqa: E402

from tfgpu_doctor.facts.versions import numbers  # noqa: E402
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, parse  # noqa: E402
from tfgpu_doctor.matrix.schema import (  # noqa: E402
    PLATFORMS,
    LibrarySet,
    MatrixFile,
    NvidiaPackage,
    Platform,
    ReleaseRow,
    Wheel,
)
from tfgpu_doctor.plan.install_commands import CU11, CU11_CUDNN  # noqa: E402

BEGIN_DERIVED = "# ---- derived from the wheels by scripts/refresh_matrix.py: edits below this line are lost ----"
PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly")
WORKERS = 12  # they mostly wait for the network
TAIL = 4_000_000  # bytes of a wheel's end to ask for first: the central directory of the largest ones fits


# ------------------------------------------------------------------------------------------ derivation


def derive(known: MatrixFile | None = None, only: str | None = None) -> tuple[list[ReleaseRow], list[LibrarySet]]:
    """All rows, ordered by package and falling version, and the library sets that they name.

    Args:
        known: an earlier result; what it has of a wheel's extension module is not read again, as wheels never change.
        only: derive one version.
    """
    natives = known_natives(known) if known else {}
    url = index_url()
    rows: list[ReleaseRow] = []
    sets: dict[str, LibrarySet] = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        for package in PACKAGES:
            releases = {v: by for v, by in wheels_of(package, url).items() if only in (None, v)}
            jobs = [(version, platform, files) for version, by in releases.items() for platform, files in by.items()]
            done = list(pool.map(read, [files for _, _, files in jobs], [natives] * len(jobs)))
            wheels: dict[str, dict[Platform, Wheel]] = {version: {} for version in releases}
            for (version, platform, _), (wheel, libraries) in zip(jobs, done, strict=True):
                wheels[version][platform] = wheel
                if libraries and sets.setdefault(libraries.id, libraries) != libraries:
                    raise SystemExit(f"library set {libraries.id} is not one: {sets[libraries.id]}, {libraries}")
            for version in sorted(wheels, key=Version, reverse=True):
                ordered = {platform: wheels[version][platform] for platform in PLATFORMS if platform in wheels[version]}
                rows.append(
                    ReleaseRow(package=package, version=version, wheels=ordered, released=_day(releases[version]))
                )
            print(f"{package}: {len(releases)} releases, {len(jobs)} wheels read", file=sys.stderr)
    return rows, [sets[name] for name in sorted(sets)]


def _day(by_platform: dict[Platform, list[File]]) -> str | None:
    """When the first wheel of a release came."""
    days = [file.uploaded for files in by_platform.values() for file in files if file.uploaded]
    return min(days, default=None)


def nvidia_packages(rows: Iterable[ReleaseRow]) -> list[NvidiaPackage]:
    """The distributions with CUDA libraries that releases pin, or that stand in for an extra, and their versions."""
    pinned = {name for row in rows for wheel in row.wheels.values() for name in wheel.pip_nvidia}
    names = sorted({name for name in pinned if name.startswith("nvidia-")} | {*CU11, CU11_CUDNN})
    url = index_url()
    found = {name: linux_versions(name, url) for name in names}
    return [NvidiaPackage(package=name, versions=versions) for name, versions in found.items() if versions]


def known_natives(data: MatrixFile) -> dict[str, Native]:
    """File name → what the matrix already has of the wheel's extension module.

    A row of a CPU build tells just as well: there is nothing in the module.
    """
    libraries = {one.id: tuple(sorted(one.libraries.values())) for one in data.libraries}
    return {
        wheel.wheel: Native(libraries.get(wheel.libraries or "", ()), wheel.sass, wheel.ptx, wheel.cuda)
        for row in data.tensorflow
        for wheel in row.wheels.values()
        if wheel.wheel and (wheel.kernels or wheel.cuda is None)
    }


def read(files: list[File], natives: dict[str, Native]) -> tuple[Wheel, LibrarySet | None]:
    """Read the wheel for the newest Python of one release and platform."""
    from remotezip import RemoteZip  # type: ignore[import-untyped]

    newest = max(files, key=lambda file: (numbers(file.python), file.name))
    try:
        with RemoteZip(newest.url, initial_buffer_size=TAIL) as archive:
            pythons = (file.python for file in files)
            wheel, libraries = read_wheel(archive, newest.name, pythons, natives.get(newest.name))
    except ValueError as error:
        raise ValueError(f"{newest.name}: {error}") from error
    return structs.replace(wheel, yanked=newest.yanked), libraries


# --------------------------------------------------------------------------------------------- writing


def render(rows: Iterable[ReleaseRow], sets: Iterable[LibrarySet], nvidia: Iterable[NvidiaPackage] = ()) -> str:
    """The derived part of the file: YAML whose leaves are JSON, one field a line, so that a diff shows what changed."""
    lines = [BEGIN_DERIVED, "", "libraries:"]
    for one in sets:
        lines += [f"- id: {one.id}", f"  source: {one.source}", f"  libraries: {flow(one.libraries)}"]
        if one.linked:
            lines.append("  linked: true")
    lines += ["", "nvidia:" if (nvidia := list(nvidia)) else "nvidia: []"]
    lines += [f"- {{package: {one.package}, versions: {flow(one.versions)}}}" for one in nvidia]
    lines += ["", "tensorflow:"]
    for row in rows:
        lines += [f"- package: {row.package}", f"  version: {flow(row.version)}"]
        lines += [f"  released: {flow(row.released)}"] if row.released else []
        if not row.wheels:
            lines.append("  wheels: {}")
            continue
        lines.append("  wheels:")
        for platform, wheel in row.wheels.items():
            lines.append(f"    {platform}:")
            lines += [f"      {key}: {flow(value)}" for key, value in msgspec.to_builtins(wheel).items()]
    return "\n".join(lines) + "\n"


def flow(value: object) -> str:
    """A value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
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
                    yield f"{key} {name}: {flow(old[key].get(name))} → {flow(new[key].get(name))}"


def _flat(rows: Iterable[ReleaseRow]) -> dict[str, dict[str, Any]]:
    flat: dict[str, dict[str, Any]] = {}
    for row in rows:
        flat[f"{row.package} {row.version}"] = {}
        for platform, wheel in row.wheels.items():
            flat[f"{row.package} {row.version} {platform}"] = msgspec.to_builtins(wheel)
    return flat


def official_differences(matrix: Matrix) -> Iterator[str]:
    """Where TensorFlow's own table says something else than the wheel of that release; the wheel wins."""
    for row in matrix.data.official:
        packages = ("tensorflow", "tensorflow-gpu")
        found = (matrix.tensorflow(row.version, "linux_x86_64", package) for package in packages)
        release = next((one for one in found if one is not None and one.gpu), None)
        if release is None:
            continue
        said = {"cuda": row.cuda, "cudnn": row.cudnn, "python": f"{row.python[0]}-{row.python[-1]}"}
        is_ = {"cuda": release.cuda, "cudnn": release.cudnn, "python": f"{release.python[0]}-{release.python[-1]}"}
        for name, value in said.items():
            if is_[name] is not None and value != is_[name]:
                yield f"{release.package} {release.version} {name}: official table {value}, wheel {is_[name]}"


def main() -> int:
    """Refresh, or with --check only compare."""
    more = parser(__doc__)
    more.add_argument("--only", metavar="VERSION", help="print the rows of one release and write nothing")
    more.add_argument("--reread", action="store_true", help="read the extension modules of old wheels again, too")
    options = more.parse_args()
    rows, sets = derive(None if options.reread else _earlier(options.matrix), options.only)
    if options.only:
        print(render(rows, sets), end="")
        return 0
    return refresh(options.matrix, rows, sets, nvidia_packages(rows), write=not options.check)


def _earlier(file: Path) -> MatrixFile | None:
    try:
        return parse(file.read_text(encoding="utf-8"), str(file))
    except MatrixError:
        return None  # of an older form; `refresh` says so


def refresh(
    file: Path, rows: list[ReleaseRow], sets: list[LibrarySet], nvidia: list[NvidiaPackage], *, write: bool
) -> int:
    """Put the rows into the file and say what changed; without `write`, only say it and return 1 if anything would."""
    text = file.read_text(encoding="utf-8")
    hand, marker, _ = text.partition(BEGIN_DERIVED)
    fresh = (hand if marker else text.rstrip() + "\n\n") + render(rows, sets, nvidia)
    try:
        for line in changes(parse(text, str(file)).tensorflow, rows):
            print(line)
    except MatrixError as error:
        print(f"{error}\nnot comparable as it is; the derived part is written anew", file=sys.stderr)
    code = finish(file, fresh, is_check=not write)
    matrix = Matrix(parse(fresh, str(file)), str(file))
    for line in official_differences(matrix):
        print(f"note: {line}")
    return code


if __name__ == "__main__":
    sys.exit(main())
