"""Contradictions in the matrix: a small function for each rule, whose messages name the row and the valid values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import pairwise

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.facts.versions import major, minor, numbers
from tfgpu_doctor.matrix.rows import concerns
from tfgpu_doctor.matrix.schema import (
    KEYS,
    TABLES,
    CudaToolkit,
    LibrarySet,
    MatrixFile,
    Wheel,
    key_of,
)

_SOURCES = ("source", "driver_source", "minor_compat_source", "capabilities_source")


def contradictions(data: MatrixFile) -> Iterator[str]:
    """Everything the linters find."""
    for lint in LINTERS:
        yield from lint(data)


def _none_of(place: str, value: str, known: Collection[str], shown: str | None = None) -> Iterator[str]:
    """A message if a value is not among those that the matrix has."""
    if value not in known:
        yield f"{place}: {shown or value} is none of {', '.join(known)}"


@lru_cache(maxsize=4096)  # packages and releases have many in common
def _readable(kind: type[Requirement | SpecifierSet], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _wheels(data: MatrixFile) -> Iterator[tuple[str, Wheel]]:
    """Every wheel, with the name of its row."""
    for row in data.tensorflow:
        for platform, wheel in row.wheels.items():
            yield f"{row.package} {row.version} {platform}", wheel


# ------------------------------------------------------------------------------------------ all tables


def unique(data: MatrixFile) -> Iterator[str]:
    """No row stands twice. A GPU's name may, under several compute capabilities: it was sold with several chips."""
    names = {table: [key_of(row, fields) for row in getattr(data, table)] for table, fields in KEYS.items()}
    names["gpus"] = [f"{name.lower()} of {row.compute_capability}" for row in data.gpus for name in row.names]
    names["instances"] = [name.lower() for row in data.instances for name in row.names]
    names["packages"] += names["nvidia"]
    for table, several in names.items():
        for name, times in Counter(several).items():
            if times > 1:
                yield f"{table}: {name!r} stands {times} times"


def references(data: MatrixFile) -> Iterator[str]:
    """What a row says of another table, or of the sources, is there."""
    for table in TABLES:
        for index, row in enumerate(getattr(data, table)):
            keys = {name: getattr(row, name, None) for name in _SOURCES}
            for name, key in keys.items():
                yield from _none_of(f"{table}[{index}].{name}", key, data.sources) if key else ()
    for place, value, known in _named(data):
        yield from _none_of(place, value, known)
    architectures = [row.compute_capability for row in data.architectures]
    for table in ("peaks", "gpus", "pci_devices"):
        for row in getattr(data, table):
            card = row.compute_capability
            yield from _none_of(table, card, architectures, f"compute capability {card}")


def _named(data: MatrixFile) -> Iterator[tuple[str, str, Collection[str]]]:
    """The places where a row names another, what stands there, and the names that there are."""
    toolkits = [row.version for row in data.cuda]
    gpus = dict.fromkeys(name for row in data.gpus for name in row.names)
    yield from ((f"updated.{table}", table, TABLES) for table in data.updated)
    yield from ((f"ptx {row.isa}.cuda", row.cuda, toolkits) for row in data.ptx)
    yield from ((f"official {row.version}.cuda", row.cuda, toolkits) for row in data.official if row.cuda)
    ours = [row for row in data.instances if not row.gpu.startswith("AMD ")]
    yield from ((f"instances {row.names[0]}.gpu", row.gpu, gpus) for row in ours)
    devices = ((row.compute_capability, name) for row in data.pci_devices for name in row.devices)
    yield from ((f"pci_devices {card}", name, gpus) for card, name in devices)


# ------------------------------------------------------------------------------------------ toolkits and GPUs


def drivers(data: MatrixFile) -> Iterator[str]:
    """Toolkits of a major version share the oldest driver, ship none that is older, and none older than before."""
    by_family: dict[str, CudaToolkit] = {}
    for row in data.cuda:
        # CUDA 11.0 came with an older driver than the 450.80.02 that NVIDIA then gave for all of CUDA 11
        first = by_family.setdefault("11.0" if minor(row.version) == "11.0" else major(row.version), row)
        for os in ("linux", "windows"):
            minimum, shipped = getattr(row, f"minor_compat_min_{os}"), getattr(row, f"min_driver_{os}")
            same = getattr(first, f"minor_compat_min_{os}")
            if minimum != same:
                yield f"cuda {row.version}.minor_compat_min_{os}: {minimum}, but CUDA {first.version} has {same}"
            # 12.0 GA shipped 527.41 for Windows, below the 528.33 that NVIDIA then gave for all of CUDA 12
            if shipped and minimum and numbers(shipped)[0] < numbers(minimum)[0] - 1:
                yield f"cuda {row.version}.min_driver_{os}: {shipped} is older than minor_compat_min_{os} {minimum}"
    for column in ("min_driver_linux", "min_driver_windows"):
        shipping = [(row.version, driver) for row in data.cuda if (driver := getattr(row, column))]
        for (newer, driver), (older, before) in pairwise(shipping):
            if numbers(driver) < numbers(before):
                yield f"cuda {newer}.{column}: {driver} is older than the {before} of CUDA {older}"


def toolkit_architectures(data: MatrixFile) -> Iterator[str]:
    """A toolkit compiles for exactly those architectures whose min_cuda to max_cuda holds it."""
    known = {row.compute_capability: row for row in data.architectures}
    for toolkit in data.cuda:
        place, listed = f"cuda {toolkit.version}.compute_capabilities", toolkit.compute_capabilities
        for capability in sorted(set(listed), key=numbers):
            yield from _none_of(place, capability, known)
        version = numbers(toolkit.version)[:2]
        for capability, row in known.items():
            expected = None if row.min_cuda is None else version >= numbers(row.min_cuda)  # None: it does not say
            if row.max_cuda and version > numbers(row.max_cuda):
                expected = False
            if expected is not None and expected != (capability in listed):
                span = f"{row.min_cuda} to {row.max_cuda or 'today'}"
                yield f"{place}: {'lacks' if expected else 'has'} {capability}, which goes from {span}"


def driver_branches(data: MatrixFile) -> Iterator[str]:
    """The first driver branch of an architecture is the one shipped with its first toolkit; no span runs backwards."""
    shipped = {row.version: row.min_driver_linux for row in data.cuda}
    for row in data.architectures:
        place, first = f"architectures {row.compute_capability}", row.first_driver_branch
        driver = shipped.get(row.min_cuda or "")
        if driver and first and first != major(driver):
            yield f"{place}.first_driver_branch: {first}, but CUDA {row.min_cuda} shipped {driver}"
        for begin, end in (("min_cuda", "max_cuda"), ("first_driver_branch", "last_driver_branch")):
            low, high = getattr(row, begin), getattr(row, end)
            if low and high and numbers(low) > numbers(high):
                yield f"{place}.{begin}: {low} is newer than {end} {high}"


def gpu_branches(data: MatrixFile) -> Iterator[str]:
    """No GPU has a driver that is older than the first for its architecture, and no span runs backwards."""
    cards = {row.compute_capability: row for row in data.architectures}
    for row in data.gpus:
        card, first = cards.get(row.compute_capability), row.first_driver_branch
        if card is None or first is None:
            continue
        name = f"gpus {', '.join(row.names[:3])} ({row.compute_capability}).first_driver_branch: {first}"
        last = row.last_driver_branch or card.last_driver_branch
        if card.first_driver_branch and numbers(first) < numbers(card.first_driver_branch):
            yield f"{name} is older than {card.first_driver_branch}, the first of {card.name} {row.compute_capability}"
        if last and numbers(first) > numbers(last):
            yield f"{name} is newer than last_driver_branch {last}"


def cudnn_floors(data: MatrixFile) -> Iterator[str]:
    """A cuDNN serves cards for which a toolkit of that major compiles; a later one serves none that were dropped."""
    compiled: dict[str, set[str]] = {}
    for toolkit in data.cuda:
        compiled.setdefault(major(toolkit.version), set()).update(toolkit.compute_capabilities)
    floors: dict[str, tuple[str, str]] = {}  # CUDA major → (version, floor) of the next newer cuDNN
    for row in data.cudnn:
        for cuda, floor in row.min_compute_capability_by_cuda.items():
            known = sorted(compiled.get(cuda, ()), key=numbers)
            if known and floor not in known:
                yield f"cudnn {row.version}: CUDA {cuda} compiles for {', '.join(known)}, not for {floor}"
            later, its_floor = floors.get(cuda, (row.version, floor))
            if numbers(its_floor) < numbers(floor):
                yield f"cudnn {later}: goes down to {its_floor} with CUDA {cuda}, but {row.version} only to {floor}"
            floors[cuda] = (row.version, floor)


# ------------------------------------------------------------------------------------------ wheels and releases


def gpu_wheels(data: MatrixFile) -> Iterator[str]:
    """CUDA, cuDNN, architectures and libraries of a GPU wheel agree with each other and the other tables."""
    toolkits = {row.version: row for row in data.cuda}
    lines = {row.version: row.cuda_majors for row in data.cudnn}
    libraries = {row.id: row for row in data.libraries}
    for name, wheel in _wheels(data):
        if wheel.cuda is None:
            continue
        toolkit = toolkits.get(wheel.cuda) or toolkits.get(minor(wheel.cuda))
        if toolkit is None:
            yield from _none_of(f"{name}.cuda", wheel.cuda, toolkits)
            continue
        known = toolkit.compute_capabilities
        for capability in sorted({*wheel.sass, *wheel.ptx}.difference(known)):
            yield f"{name}: CUDA {toolkit.version} does not compile for {capability}, only for {', '.join(known)}"
        if wheel.cudnn:
            yield from _cudnn_for(f"{name}.cudnn", wheel.cudnn, lines, wheel.cuda)
        if wheel.libraries is not None:  # None: unknown
            yield from _none_of(f"{name}.libraries", wheel.libraries, libraries, repr(wheel.libraries))
            yield from _sonames(f"{name}.libraries", wheel, libraries.get(wheel.libraries))


def _cudnn_for(place: str, cudnn: str, majors: dict[str, tuple[str, ...]], cuda: str | None) -> Iterator[str]:
    """A cuDNN is known, and made for a CUDA."""
    yield from _none_of(place, cudnn, majors)
    made = majors.get(cudnn)
    if made and cuda and major(cuda) not in made:
        yield f"{place}: {cudnn} is made for CUDA {', '.join(made)}, not for {cuda}"


def _sonames(place: str, wheel: Wheel, opened: LibrarySet | None) -> Iterator[str]:
    """The numbers in libcudart.so.12 or cudart64_110.dll, and libcudnn.so.9 or cudnn64_9.dll, are the right majors.

    A build that links its libraries may hold a static cudart (Windows up to 1.10).
    """
    for component, version in (("cudart", wheel.cuda), ("cudnn", wheel.cudnn)) if opened else ():
        library = opened.libraries.get(component) if opened else None
        if not version or (library is None and opened and opened.linked):
            continue
        found = re.search(r"(?:\.so\.|64_|^lib[a-z]+\.)(\d+)", library or "")
        if found is None or not found[1].startswith(major(version)):
            yield f"{place}: {wheel.libraries} opens {library}, not {component} of major version {major(version)}"


def cpu_wheels(data: MatrixFile) -> Iterator[str]:
    """A wheel without CUDA has nothing that belongs to CUDA."""
    for name, wheel in _wheels(data):
        for part in ("cudnn", "sass", "ptx", "libraries", "extra", "pip_nvidia") if wheel.cuda is None else ():
            if getattr(wheel, part):
                yield f"{name}.{part}: given for a wheel without CUDA"


def official(data: MatrixFile) -> Iterator[str]:
    """TensorFlow's own table speaks of known versions that go together; it names some cuDNN by its major alone."""
    lines = {row.version: row.cuda_majors for row in data.cudnn}
    for line, majors in [*lines.items()]:
        lines[major(line)] = tuple(sorted({*lines.get(major(line), ()), *majors}, key=numbers))
    for row in data.official:
        if row.cudnn:
            yield from _cudnn_for(f"official {row.version}.cudnn", row.cudnn, lines, row.cuda)


def issues(data: MatrixFile) -> Iterator[str]:
    """A known issue's condition can be read and speaks of at least one release, which may have no wheel at all."""
    packages = list(dict.fromkeys(row.package for row in data.tensorflow))
    for issue in data.known_issues:
        place, where = f"known_issues {issue.id}.condition", issue.condition
        for package in where.packages:
            yield from _none_of(f"{place}.packages", package, packages, repr(package))
        low, high = where.min_compute_capability, where.max_compute_capability
        if low and high and numbers(low) > numbers(high):
            yield f"{place}: min_compute_capability {low} is above the maximum {high}"
        specifiers = (where.versions, where.python, where.cudnn, where.ptxas, where.driver, *where.beside.values())
        bad = [text for text in filter(None, specifiers) if not _readable(SpecifierSet, text)]
        yield from (f"{place}: {text!r} is no version specifier such as '>=2.16,<2.18'" for text in bad)
        if not bad and not any(concerns(issue, row, name) for row in data.tensorflow for name in row.wheels or ("",)):
            yield f"{place}: no release fits it"


def package_requirements(data: MatrixFile) -> Iterator[str]:
    """What a package requires can be read, and is said of versions that it has."""
    for row in data.packages:
        known = {version for group in row.releases for version in group.versions}
        for group in row.releases:
            if not _readable(SpecifierSet, group.python or ""):
                yield f"packages {row.package}.python: {group.python!r} cannot be read"
        place = f"packages {row.package}.requires"
        for text, versions in row.requires.items():
            if not _readable(Requirement, text):
                yield f"{place}: {text!r} cannot be read"
            strange = [edge for run in versions.split() for edge in run.split("..") if edge not in known]
            yield from (f"{place}: {text!r} is said of {one}, which is none of its versions" for one in strange)


def monthly_images(data: MatrixFile) -> Iterator[str]:
    """A month is in one row, and the driver of its CUDA is known."""
    shipped = [row.version for row in data.cuda if row.min_driver_linux]
    rows, before = sorted(data.monthly_images, key=lambda row: row.first), ""
    for row in rows:
        if row.first > row.last or row.first <= before:
            yield f"monthly_images {row.first}: it ends {row.last}, and the row before it {before or 'is none'}"
        yield from _none_of(f"monthly_images {row.first}.cuda", row.cuda, shipped)
        before = row.last


LINTERS: tuple[Callable[[MatrixFile], Iterator[str]], ...] = (
    unique, references, drivers, toolkit_architectures, driver_branches, gpu_branches, cudnn_floors,
    gpu_wheels, cpu_wheels, official, issues, package_requirements, monthly_images,
)  # fmt: skip
