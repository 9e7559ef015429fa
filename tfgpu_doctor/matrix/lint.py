"""Small linters that hold the tables of the matrix against each other. A finding names the row and the valid values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.matrix.lint_tables import (
    cudnn_floors,
    device_ids,
    driver_branches,
    drivers,
    gpu_branches,
    instance_gpus,
    log_lines,
    monthly_images,
    official,
    package_requirements,
    peak_products,
    peak_rates,
    toolkit_architectures,
)
from tfgpu_doctor.matrix.rows import concerns, within
from tfgpu_doctor.matrix.schema import Build, KnownIssue, LibrarySet, MatrixFile, ReleaseRow, Wheel
from tfgpu_doctor.records.versions import major, minor, numbers

TABLES = (
    "architectures", "peaks", "gpus", "pci_devices", "cuda", "cudnn", "official", "libraries", "known_issues",
    "instances", "containers", "monthly_images", "jetpacks", "conda_forge", "nvidia", "packages", "source_only",
    "log_lines", "builds", "ptx", "tensorflow",
)  # fmt: skip

# table → the fields that tell its rows apart
_KEYS = {
    "architectures": ("compute_capability",),
    "peaks": ("compute_capability", "products"),
    "libraries": ("id",),
    "known_issues": ("id",),
    "containers": ("image", "tag"),
    "monthly_images": ("first",),
    "conda_forge": ("version", "platform"),
    "log_lines": ("file", "message"),
    "ptx": ("isa",),
    "tensorflow": ("package", "version"),
    **dict.fromkeys(("cuda", "cudnn", "official", "jetpacks"), ("version",)),
    **dict.fromkeys(("nvidia", "packages"), ("package",)),
}

Linter = Callable[[MatrixFile], Iterator[str]]


def contradictions(data: MatrixFile) -> Iterator[str]:
    """Everything the linters find."""
    for lint in LINTERS:
        yield from lint(data)


def used_sources(data: MatrixFile) -> dict[str, str]:
    """Every source key that a row names → the first place that does."""
    used: dict[str, str] = {}
    for table in TABLES:
        for index, row in enumerate(getattr(data, table)):
            for name in ("source", "driver_source", "minor_compat_source", "capabilities_source"):
                key = getattr(row, name, None)
                if key is not None:
                    used.setdefault(key, f"{table}[{index}].{name}")
    return used


def sources(data: MatrixFile) -> Iterator[str]:
    """Every source key is a row of `sources`, and every one of those is used."""
    used = used_sources(data)
    for key, place in used.items():
        if key not in data.sources:
            yield f"{place}: no source {key!r}; there are {', '.join(data.sources)}"
    for key in data.sources:
        if key not in used and key not in ("wheel", "package-metadata"):  # of the derived tables
            yield f"sources.{key}: no row uses it"


def unique(data: MatrixFile) -> Iterator[str]:
    """No row stands twice. A GPU's name may, under several compute capabilities: it was sold with several chips."""
    for table, names in _keys(data).items():
        for name, times in Counter(names).items():
            if times > 1:
                yield f"{table}: {name!r} stands {times} times"


def _keys(data: MatrixFile) -> dict[str, list[str]]:
    """What tells the rows of each table apart."""
    keys = {table: [_key(row, fields) for row in getattr(data, table)] for table, fields in _KEYS.items()}
    keys["gpus"] = [f"{name.lower()} of {row.compute_capability}" for row in data.gpus for name in row.names]
    keys["instances"] = [name.lower() for row in data.instances for name in row.names]
    keys["packages"] += keys["nvidia"]
    return keys


def _key(row: object, fields: tuple[str, ...]) -> str:
    return " ".join(str(getattr(row, field) or "") for field in fields).strip()


def dates(data: MatrixFile) -> Iterator[str]:
    """`updated` speaks of tables."""
    for table in data.updated:
        if table not in TABLES:
            yield f"updated.{table}: no such table; there are {', '.join(TABLES)}"


def order(data: MatrixFile) -> Iterator[str]:
    """Newest first in the tables of versions, ascending in lists of Pythons and compute capabilities."""
    for table in ("cuda", "cudnn", "official", "jetpacks"):
        yield from _sorted(table, [row.version for row in getattr(data, table)], falling=True)
    for table in ("architectures", "peaks"):
        yield from _sorted(table, [row.compute_capability for row in getattr(data, table)])
    for toolkit in data.cuda:
        yield from _sorted(f"cuda {toolkit.version}.compute_capabilities", toolkit.compute_capabilities)
    for build in data.official:
        yield from _sorted(f"official {build.version}.python", build.python)
    for package in {row.package for row in data.tensorflow}:
        versions = [Version(row.version) for row in data.tensorflow if row.package == package]
        if versions != sorted(versions, reverse=True):
            yield f"tensorflow: the rows of {package} are not ordered newest first"
    for name, wheel in _wheels(data):
        for listed in ("python", "sass", "ptx"):
            yield from _sorted(f"{name}.{listed}", getattr(wheel, listed))


def capabilities_known(data: MatrixFile) -> Iterator[str]:
    """Peaks, GPU names and device ids speak of known compute capabilities."""
    known = {row.compute_capability: row for row in data.architectures}
    for table in ("peaks", "gpus", "pci_devices"):
        for row in getattr(data, table):
            if row.compute_capability not in known:
                yield f"{table}: compute capability {row.compute_capability} is none of {', '.join(known)}"


def gpu_wheels(data: MatrixFile) -> Iterator[str]:
    """CUDA, cuDNN, architectures and libraries of a GPU wheel agree with each other and the other tables."""
    toolkits = {row.version: row for row in data.cuda}
    cudnn = {row.version: row for row in data.cudnn}
    libraries = {row.id: row for row in data.libraries}
    for name, wheel in _wheels(data):
        if wheel.cuda is None:
            continue
        toolkit = toolkits.get(wheel.cuda) or toolkits.get(minor(wheel.cuda))
        if toolkit is None:
            yield f"{name}.cuda: {wheel.cuda} is none of {', '.join(toolkits)}"
            continue
        known = toolkit.compute_capabilities
        for capability in sorted({*wheel.sass, *wheel.ptx}.difference(known)):
            yield f"{name}: CUDA {toolkit.version} does not compile for {capability}, only for {', '.join(known)}"
        cuda_major = major(wheel.cuda)
        if wheel.cudnn and wheel.cudnn not in cudnn:
            yield f"{name}.cudnn: {wheel.cudnn} is none of {', '.join(cudnn)}"
        elif wheel.cudnn and cuda_major not in cudnn[wheel.cudnn].cuda_majors:
            made = ", ".join(cudnn[wheel.cudnn].cuda_majors)
            yield f"{name}.cudnn: {wheel.cudnn} is made for CUDA {made}, not for {wheel.cuda}"
        if wheel.libraries in libraries:
            yield from _sonames(name, wheel, libraries[wheel.libraries], cuda_major)
        elif wheel.libraries is not None:  # None: unknown
            yield f"{name}.libraries: {wheel.libraries!r} is none of {', '.join(libraries)}"


def builds(data: MatrixFile) -> Iterator[str]:
    """What the libraries of a wheel say agrees with its row, and their PTX is of a known instruction set."""
    wheels = {(row.package, row.version, name): one for row in data.tensorflow for name, one in row.wheels.items()}
    isas = [row.isa for row in data.ptx]
    for build in data.builds:
        place = f"builds {build.platform}"
        for isa in sorted({isa for part in build.parts for isa in part.ptx.values()}.difference(isas)):
            yield f"{place}: PTX {isa} is none of {', '.join(isas)}"
        for package, version in ((name, one) for name, every in build.releases.items() for one in every.split()):
            wheel = wheels.get((package, version, build.platform))
            if wheel is None or wheel.cuda is None:
                yield f"{place}: {package} {version} has no wheel with CUDA"
            else:
                yield from (f"{place}: {package} {version}: {one}" for one in _differences(build, wheel))


def _differences(build: Build, wheel: Wheel) -> Iterator[str]:
    """The header of cuDNN is that of the same minor version; the fat binaries together have the wheel's lists."""
    if build.cudnn and wheel.cudnn and build.cudnn != wheel.cudnn:
        yield f"compiled with cuDNN {build.cudnn}, but its header is that of {wheel.cudnn}"
    found = {one for part in build.parts for one in (*part.sass, *part.ptx)}
    listed = {*wheel.sass, *wheel.ptx}
    if build.parts and found != listed:
        yield f"fat binaries for {', '.join(sorted(found))}, but the wheel lists {', '.join(sorted(listed))}"


def ptx_versions(data: MatrixFile) -> Iterator[str]:
    """A later instruction set came with a later toolkit, which is one of `cuda`."""
    known = {row.version for row in data.cuda}
    for row in data.ptx:
        if row.cuda not in known:
            yield f"ptx {row.isa}: CUDA {row.cuda} is none of {', '.join(known)}"
    yield from _sorted("ptx", [row.isa for row in data.ptx], falling=True)
    yield from _sorted("ptx, cuda", [row.cuda for row in data.ptx], falling=True)


def cpu_wheels(data: MatrixFile) -> Iterator[str]:
    """A wheel without CUDA has nothing that belongs to CUDA."""
    for name, wheel in _wheels(data):
        if wheel.cuda is None:
            for part in ("cudnn", "sass", "ptx", "libraries", "extra", "pip_nvidia"):
                if getattr(wheel, part):
                    yield f"{name}.{part}: given for a wheel without CUDA"


def wheel_names(data: MatrixFile) -> Iterator[str]:
    """The wheel that was read is one of that package and version."""
    for row in data.tensorflow:
        for platform, wheel in row.wheels.items():
            start = f"{row.package.replace('-', '_')}-{row.version}-"
            if row.source == "wheel" and not (wheel.wheel or "").startswith(start):
                yield f"{_name(row, platform)}.wheel: {wheel.wheel} does not start with {start}"


def issues(data: MatrixFile) -> Iterator[str]:
    """A known issue's condition can be read and speaks of at least one release."""
    packages = {row.package for row in data.tensorflow}
    for issue in data.known_issues:
        place, where = f"known_issues {issue.id}.condition", issue.condition
        specifiers = (where.versions, where.python, where.cudnn, where.ptxas, *where.beside.values())
        bad = [text for text in specifiers if text and not _specifier(text)]
        yield from (f"{place}: {text!r} is no version specifier such as '>=2.16,<2.18'" for text in bad)
        unknown = [package for package in where.packages if package not in packages]
        yield from (f"{place}.packages: {package!r} is none of {', '.join(packages)}" for package in unknown)
        low, high = where.min_compute_capability, where.max_compute_capability
        if low and high and numbers(low) > numbers(high):
            yield f"{place}: min_compute_capability {low} is above the maximum {high}"
        if not bad and not _speaks_of_a_release(issue, data):
            yield f"{place}: no release fits it"


def _speaks_of_a_release(issue: KnownIssue, data: MatrixFile) -> bool:
    """A release without any wheel (tensorflow-gpu 2.12) counts as well."""
    rows = (row for row in data.tensorflow if within(row.version, issue.condition.versions))
    return any(concerns(issue, row, name) for row in rows for name in row.wheels or ("",))


LINTERS: tuple[Linter, ...] = (
    sources, unique, dates, order, drivers, toolkit_architectures, driver_branches, gpu_branches, device_ids,
    instance_gpus, peak_rates, peak_products, cudnn_floors, capabilities_known, gpu_wheels, cpu_wheels, wheel_names,
    official, issues, package_requirements, log_lines, builds, ptx_versions, monthly_images,
)  # fmt: skip


def _wheels(data: MatrixFile) -> Iterator[tuple[str, Wheel]]:
    for row in data.tensorflow:
        for platform, wheel in row.wheels.items():
            yield _name(row, platform), wheel


def _name(row: ReleaseRow, platform: str) -> str:
    return f"{row.package} {row.version} {platform}"


def _sonames(name: str, wheel: Wheel, opened: LibrarySet, cuda_major: str) -> Iterator[str]:
    """The numbers in libcudart.so.12 or cudart64_110.dll, and libcudnn.so.9 or cudnn64_9.dll, are the right majors.

    A build that links its libraries may hold a static cudart (Windows up to 1.10).
    """
    for component, wanted in (("cudart", cuda_major), ("cudnn", major(wheel.cudnn) or None)):
        library = opened.libraries.get(component)
        if wanted is None or (library is None and opened.linked):
            continue
        found = re.search(r"(?:\.so\.|64_|^lib[a-z]+\.)(\d+)", library or "")
        if found is None or not found.group(1).startswith(wanted):
            yield f"{name}.libraries: {wheel.libraries} opens {library}, not {component} of major version {wanted}"


def _sorted(name: str, versions: Iterable[str], *, falling: bool = False) -> Iterator[str]:
    given = list(versions)
    wanted = sorted(given, key=numbers, reverse=falling)
    if given != wanted:
        yield f"{name}: {', '.join(given)} should be ordered {', '.join(wanted)}"


def _specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except ValueError:
        return False
    return True
