"""CUDA toolkits, cuDNN versions, rows of any other table by name, and what the matrix has. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import filterfalse
from typing import Any

from msgspec import to_builtins
from packaging.version import Version

from tfgpu_doctor.facts.similar import similar
from tfgpu_doctor.facts.versions import major, minor, numbers, padded
from tfgpu_doctor.matrix.loader import CudaToolkit, CudnnRelease, Matrix
from tfgpu_doctor.matrix.queries import QueryError, distance, same_as_far_as_given
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import TABLES

_DRIVERS = ("min_driver_linux", "min_driver_windows", "minor_compat_min_linux", "minor_compat_min_windows")
_VERSION = re.compile(r"(?:cuda|cudnn|v)?[ -]?([0-9]{1,9}(?:\.[0-9]{1,9}){0,4})", re.IGNORECASE)


def cuda_answer(matrix: Matrix, row: CudaToolkit, asked: str | None = None) -> dict[str, Any]:
    """Join a toolkit with the releases and the cuDNN lines for it. None is unknown, or no minor-version compatibility.

    Args:
        asked: the version that was asked for, as find_cuda takes it.
    """
    data = matrix.data
    capabilities = tuple(sorted(row.compute_capabilities, key=numbers))
    version = read_version(asked, "CUDA", "12.5") if asked else row.version
    of_conda = {one.version for one in data.conda_forge if minor(row.version) in map(minor, one.cuda)}
    drivers = {name: getattr(row, name) for name in _DRIVERS}
    keys = {name: row.source if name.startswith("min_driver") else row.minor_compat_source for name in _DRIVERS}
    keys["compute_capabilities"] = row.capabilities_source
    return {
        "version": row.version,
        # an update that the matrix has no row of
        "asked": version if len(numbers(version)) > 2 and padded(version) != padded(row.version) else None,
        "driver_branch": major(row.min_driver_linux) if row.min_driver_linux else None,
        **drivers,
        "compute_capabilities": capabilities,
        "first_compute_capability": next(iter(capabilities), None),
        "last_compute_capability": next(reversed(capabilities), None),
        "tensorflow": _built_for(matrix, "cuda", minor(row.version)),  # any package
        "conda": sorted(of_conda, key=Version, reverse=True),
        "cudnn": [line.version for line in _newest_first(data.cudnn) if major(row.version) in line.cuda_majors],
        "sources": {name: spelled_out(data, key) for name, key in keys.items() if key and drivers.get(name, key)},
    }


def find_cuda(matrix: Matrix, text: str) -> CudaToolkit:
    """The row of the toolkit that `text` names: "12.5", "12.5.1"; for an update without a row, that of its minor.

    Raises QueryError: no version, or of a minor that the matrix does not have; with the nearest that it has.
    """
    version = read_version(text, "CUDA", "12.5")
    if (row := matrix.cuda(version)) is not None:
        return row
    rows = {row.version: row for row in matrix.data.cuda}
    updates = [one for one in rows if same_as_far_as_given(one, version)]
    if updates and "." in version:
        return rows[min(updates, key=numbers)]  # the minor version stands in the file by its updates only
    raise QueryError(_unknown("CUDA", version, list(rows), updates))


def cudnn_answer(matrix: Matrix, row: CudnnRelease) -> dict[str, Any]:
    """Join a cuDNN line with the releases compiled against it and the architectures that it is the last for."""
    architectures = sorted(matrix.data.architectures, key=lambda one: numbers(one.compute_capability))
    is_newest = row.version == _newest_first(matrix.data.cudnn)[0].version
    lasts = [] if is_newest else [(one, last_cudnn(matrix, one.compute_capability)) for one in architectures]
    dropped = [one for one, last in lasts if last == row.version]
    newest = {one.name: one for one in architectures}  # an architecture is named when the last of its GPUs is dropped
    return {
        "version": row.version,
        "cuda_majors": row.cuda_majors,
        "min_compute_capability": row.min_compute_capability,
        "min_compute_capability_by_cuda": row.min_compute_capability_by_cuda,
        "tensorflow": _built_for(matrix, "cudnn", row.version),
        "last_for": [name for name, one in newest.items() if one in dropped],
        "last_for_compute_capabilities": [one.compute_capability for one in dropped],
        "sources": {"min_compute_capability_by_cuda": spelled_out(matrix.data, row.source)},
    }


def find_cudnn(matrix: Matrix, text: str) -> CudnnRelease:
    """The line of a cuDNN version: "9.3", "9.3.0.75".

    Raises QueryError: no version, or of a line that the matrix does not have; with the nearest that it has.
    """
    version = read_version(text, "cuDNN", "9.3")
    row = matrix.cudnn(version) if "." in version else None
    if row is None:
        known = [line.version for line in _newest_first(matrix.data.cudnn)]
        line = minor(version)
        raise QueryError(_unknown("cuDNN", line, known, [one for one in known if same_as_far_as_given(one, line)]))
    return row


def last_cudnn(matrix: Matrix, compute_capability: str, cuda_major: str | None = None) -> str | None:
    """The newest cuDNN line that supports a compute capability, with any CUDA or with one major version of it."""
    for line in _newest_first(matrix.data.cudnn):
        floors = line.min_compute_capability_by_cuda
        asked = [floors[cuda_major]] if cuda_major in floors else [] if cuda_major else list(floors.values())
        if any(numbers(floor) <= numbers(compute_capability) for floor in asked):
            return line.version
    return None


def _newest_first(lines: Iterable[CudnnRelease]) -> list[CudnnRelease]:
    return sorted(lines, key=lambda line: numbers(line.version), reverse=True)


def _built_for(matrix: Matrix, name: str, version: str) -> list[str]:
    """The releases whose wheel for any platform is built for a CUDA or a cuDNN, each version once, newest first."""
    found = {row.version for row in matrix.stable() if same_as_far_as_given(getattr(row, name), version)}
    return sorted(found, key=Version, reverse=True)


def read_version(text: str, what: str, example: str) -> str:
    """Read a version number; "v12.5" and "CUDA 12.5" will do.

    Raises QueryError: something else.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise QueryError(f"{text.strip()!r} is not a {what} version such as {example}")
    return match[1]


def _unknown(what: str, version: str, known: list[str], inside: list[str]) -> str:
    if inside:
        minors = dict.fromkeys(minor(one) for one in inside)
        return f"{what} {version} is a series; name one of {', '.join(minors)}"
    near = sorted(known, key=lambda one: distance(numbers(one), numbers(version)))[:5]
    near.sort(key=numbers, reverse=True)
    return f"unknown {what} {version}; the nearest known are {', '.join(near)}"


_DERIVED = {
    **dict.fromkeys(("libraries", "nvidia", "tensorflow"), "scripts/refresh_matrix.py"),
    **dict.fromkeys(("gpus", "pci_devices"), "scripts/refresh_gpus.py"),
    "log_lines": "scripts/refresh_log_lines.py",
    "packages": "scripts/refresh_packages.py",
}


def about(matrix: Matrix) -> dict[str, Any]:
    """Count the rows of each table and its sources, those of most rows first."""
    tables = [_table(matrix, name) for name in TABLES]
    count = sum(one["rows"] for one in tables)
    return {"revision": matrix.revision, "layers": matrix.layers, "rows": count, "tables": tables}


def _table(matrix: Matrix, name: str) -> dict[str, Any]:
    """Rows of `gpus` and `instances` hold many names, those of `tensorflow` a wheel for each platform."""
    rows, data = getattr(matrix.data, name), matrix.data
    several = {"gpus": "names", "instances": "names", "tensorflow": "wheels"}.get(name)
    counted = [(data.sources[key], count) for key, count in Counter(row.source for row in rows).most_common()]
    return {
        "name": name,
        "rows": sum(len(getattr(row, several)) for row in rows) if several else len(rows),
        "updated": data.updated.get(name),
        "derived_by": _DERIVED.get(name),  # None: entered by hand
        "sources": [{"title": source.title, "url": source.url, "rows": count} for source, count in counted],
    }


_OWN_COMMAND = ("tensorflow", "cuda", "cudnn", "gpus")  # of `tfgpu matrix`
_NAMES = ("id", "version", "l4t", "package", "isa", "file", "first", "cloud", "gpu", "tag", "compute_capability")
_PREFIX = re.compile(r"(?:docker://|docker\.io/|jetpack |l4t |r(?=\d\d\.\d))+")


def find(matrix: Matrix, key: str) -> list[dict[str, Any]]:
    """Return the rows that have this name, without empty fields; where none has, those whose name begins with it.

    Raises QueryError: there is none; the message has names that are written like it.
    """
    wanted = _PREFIX.sub("", key.strip().lower(), count=1)
    tables = filterfalse(_OWN_COMMAND.__contains__, TABLES)
    rows = [(table, row, [*names(row)]) for table in tables for row in getattr(matrix.data, table)]
    exact = [one for one in rows if _is_called(wanted, one[2])]
    found = exact or [one for one in rows if any(name.lower().startswith(wanted) for name in one[2])]
    if not (found and wanted):
        near = similar(key.strip(), [name for *_, several in rows for name in several], 4)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        others = "tfgpu matrix find lists the tables; tfgpu matrix tensorflow, cuda, cudnn and gpu look up theirs"
        raise QueryError(f"no row of the matrix is called {key[:80]!r}{hint}. {others}")
    return [_found(matrix, table, row, several[0]) for table, row, several in found]


def _is_called(wanted: str, names: list[str]) -> bool:
    """Names of instances have "#" for a number and end with "*"."""
    return any(fnmatchcase(wanted, name.lower().replace("#", "[0-9]*")) for name in names)


def names(row: Any) -> Iterator[str]:
    """Yield the names of a row, first the one that tells it from the others."""
    image = getattr(row, "image", None)
    if image:
        yield f"{image}:{row.tag}"
    yield from getattr(row, "names", ())
    yield from (value for name in _NAMES if isinstance(value := getattr(row, name, None), str))


def _found(matrix: Matrix, table: str, row: Any, name: str) -> dict[str, Any]:
    fields = {field: value for field, value in to_builtins(row).items() if value not in (None, "", (), [], {})}
    keys = [field for field in fields if field == "source" or field.endswith("_source")]
    sources = {field: spelled_out(matrix.data, fields.pop(field)) for field in keys}
    return {"table": table, "name": name, "row": fields, "sources": sources}
