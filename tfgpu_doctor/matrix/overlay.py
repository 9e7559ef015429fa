"""A matrix of the user's laid over the bundled one: NGC builds, in-house wheels, a card that is newer than we are.

    schema: tfgpu.matrix/1
    revision: "2026-11-21"
    sources:
      our-builds: {title: the wheels of our cluster}
    tensorflow:
    - package: tensorflow
      version: "2.19.0+acme1"
      source: our-builds
      wheels:
        linux_x86_64: {python: ["3.11"], cuda: "12.8", cudnn: "9.8", sass: ["9.0", "12.0"]}

A row that has the key of one of ours (version, id, compute capability ...) stands in its place; the others are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import structs

from tfgpu_doctor.matrix.schema import GpuNames, MatrixFile, ReleaseRow
from tfgpu_doctor.records.versions import numbers

# table → what tells one row from another
KEYS: dict[str, Callable[[Any], object]] = {
    "architectures": lambda row: row.compute_capability,
    "peaks": lambda row: (row.compute_capability, row.products),
    "pci_devices": lambda row: (row.compute_capability, row.source),
    "cuda": lambda row: row.version,
    "cudnn": lambda row: row.version,
    "official": lambda row: row.version,
    "libraries": lambda row: row.id,
    "known_issues": lambda row: row.id,
    "instances": lambda row: row.names,
    "containers": lambda row: (row.image, row.tag),
    "monthly_images": lambda row: row.first,
    "jetpacks": lambda row: row.version,
    "conda_forge": lambda row: (row.version, row.platform),
    "nvidia": lambda row: row.package,
    "packages": lambda row: row.package,
    "builds": lambda row: (row.platform, tuple(row.releases.items())),
    "ptx": lambda row: row.isa,
}


def layered(below: MatrixFile, above: MatrixFile) -> MatrixFile:
    """`above` over `below`, in the order that the linters want."""
    tables: dict[str, Any] = {
        name: _over(getattr(below, name), getattr(above, name), key) for name, key in KEYS.items()
    }
    for name in ("architectures", "peaks"):
        tables[name] = sorted(tables[name], key=lambda row: numbers(row.compute_capability))
    for name in ("cuda", "cudnn", "official", "jetpacks"):
        tables[name] = sorted(tables[name], key=lambda row: numbers(row.version), reverse=True)
    tables["ptx"] = sorted(tables["ptx"], key=lambda row: numbers(row.isa), reverse=True)
    tables["gpus"] = [*above.gpus, *_without(below.gpus, {name.lower() for row in above.gpus for name in row.names})]
    tables["tensorflow"] = _releases(below.tensorflow, above.tensorflow)
    merged = structs.replace(
        below,  # and its `source_only`: no other file says what may be built
        sources=below.sources | above.sources,
        **{name: tuple(rows) for name, rows in tables.items()},
    )
    return structs.replace(merged, sources=_needed(merged, above))


def _over(below: Iterable[Any], above: Iterable[Any], key: Callable[[Any], object]) -> list[Any]:
    replaced = {key(row) for row in above}
    return [*above, *(row for row in below if key(row) not in replaced)]


def _without(rows: Iterable[GpuNames], names: set[str]) -> Iterable[GpuNames]:
    for row in rows:
        kept = tuple(name for name in row.names if name.lower() not in names)
        if kept:
            yield structs.replace(row, names=kept)


def _releases(below: Iterable[ReleaseRow], above: Iterable[ReleaseRow]) -> list[ReleaseRow]:
    """A release keeps those platforms of ours that the upper row does not speak of."""
    from packaging.version import Version

    rows = {(row.package, row.version): row for row in below}
    for row in above:
        ours = rows.get((row.package, row.version))
        wheels = {**ours.wheels, **row.wheels} if ours and ours.source == row.source else row.wheels
        rows[row.package, row.version] = structs.replace(row, wheels=wheels)
    packages = list(dict.fromkeys(package for package, _ in rows))
    return sorted(
        sorted(rows.values(), key=lambda row: Version(row.version), reverse=True),
        key=lambda row: packages.index(row.package),
    )


def _needed(merged: MatrixFile, above: MatrixFile) -> dict[str, Any]:
    """Drop those of our sources whose last row has been replaced."""
    from tfgpu_doctor.matrix.lint import used_sources

    used = used_sources(merged)
    return {key: one for key, one in merged.sources.items() if key in used or key in above.sources or key == "wheel"}
