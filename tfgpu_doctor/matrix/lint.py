"""Contradictions in the matrix; each names its row and the valid values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.matrix.rows import concerns, within
from tfgpu_doctor.matrix.schema import (
    Architecture,
    Build,
    CudaToolkit,
    KnownIssue,
    LibrarySet,
    MatrixFile,
    ReleaseRow,
    Wheel,
)
from tfgpu_doctor.records.versions import major, minor, numbers

# CUDA 11.0 came with an older driver than the 450.80.02 that NVIDIA then gave for all of CUDA 11
_OWN_OLDEST_DRIVER = ("11.0",)


def drivers(data: MatrixFile) -> Iterator[str]:
    """Toolkits of a major version share the oldest driver, ship none that is older, and none older than before."""
    by_family: dict[str, CudaToolkit] = {}
    for row in data.cuda:
        first = by_family.setdefault(_family(row), row)
        for os in ("linux", "windows"):
            minimum, shipped = getattr(row, f"minor_compat_min_{os}"), getattr(row, f"min_driver_{os}")
            same = getattr(first, f"minor_compat_min_{os}")
            if minimum != same:
                yield f"cuda {row.version}.minor_compat_min_{os}: {minimum}, but CUDA {first.version} has {same}"
            # 12.0 GA shipped 527.41 for Windows, below the 528.33 that NVIDIA then gave for all of CUDA 12
            if shipped and minimum and numbers(shipped)[0] < numbers(minimum)[0] - 1:
                yield f"cuda {row.version}.min_driver_{os}: {shipped} is older than minor_compat_min_{os} {minimum}"
    for os in ("linux", "windows"):
        yield from _falling(f"min_driver_{os}", data.cuda)


def _family(row: CudaToolkit) -> str:
    own = minor(row.version)
    return own if own in _OWN_OLDEST_DRIVER else major(own)


def _falling(column: str, toolkits: Iterable[CudaToolkit]) -> Iterator[str]:
    """A newer toolkit brings no older driver; `toolkits` stand newest first."""
    rows = [row for row in toolkits if getattr(row, column)]
    for newer, older in pairwise(rows):
        if numbers(getattr(newer, column)) < numbers(getattr(older, column)):
            yield (
                f"cuda {newer.version}.{column}: {getattr(newer, column)} is older than the "
                f"{getattr(older, column)} of CUDA {older.version}"
            )


def toolkit_architectures(data: MatrixFile) -> Iterator[str]:
    """A toolkit compiles for exactly those architectures whose min_cuda to max_cuda holds it."""
    known = {row.compute_capability: row for row in data.architectures}
    for toolkit in data.cuda:
        listed = set(toolkit.compute_capabilities)
        for capability in sorted(listed - known.keys(), key=numbers):
            yield f"cuda {toolkit.version}.compute_capabilities: {capability} is none of {', '.join(known)}"
        for capability, row in known.items():
            expected = _compiles(toolkit, row)
            if expected is not None and expected != (capability in listed):
                says = "lacks" if expected else "has"
                span = f"{row.min_cuda} to {row.max_cuda or 'today'}"
                yield f"cuda {toolkit.version}.compute_capabilities: {says} {capability}, which goes from {span}"


def driver_branches(data: MatrixFile) -> Iterator[str]:
    """The first driver branch of an architecture is the one shipped with its first toolkit; no span runs backwards."""
    shipped = {row.version: row.min_driver_linux for row in data.cuda}
    for row in data.architectures:
        driver = shipped.get(row.min_cuda or "")
        branch = major(driver) if driver else row.first_driver_branch
        if row.first_driver_branch and row.first_driver_branch != branch:
            yield (
                f"architectures {row.compute_capability}.first_driver_branch: {row.first_driver_branch}, but CUDA "
                f"{row.min_cuda} shipped {driver}"
            )
        for first, last in (("min_cuda", "max_cuda"), ("first_driver_branch", "last_driver_branch")):
            low, high = getattr(row, first), getattr(row, last)
            if low and high and numbers(low) > numbers(high):
                yield f"architectures {row.compute_capability}.{first}: {low} is newer than {last} {high}"


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


def device_ids(data: MatrixFile) -> Iterator[str]:
    """A PCI device id is that of one GPU, whose name stands in `gpus`."""
    names = {name for row in data.gpus for name in row.names}
    seen: dict[str, str] = {}
    for row in data.pci_devices:
        for name, devices in row.devices.items():
            if name not in names:
                yield f"pci_devices {row.compute_capability}: {name!r} is no name of `gpus`"
            for device in devices.split():
                if device in seen:
                    yield f"pci_devices {row.compute_capability}: {device} is {name!r}, and {seen[device]!r}"
                seen[device] = name


def instance_gpus(data: MatrixFile) -> Iterator[str]:
    """The GPU of an instance type is a name of `gpus`, or no NVIDIA GPU."""
    names = {name for row in data.gpus for name in row.names}
    for row in data.instances:
        if row.gpu not in names and not row.gpu.startswith("AMD "):
            yield f"instances {row.names[0]}.gpu: {row.gpu!r} is no name of `gpus`, nor one of AMD's"


def peak_rates(data: MatrixFile) -> Iterator[str]:
    """Tensor rates keep NVIDIA's proportions: bfloat16 like float16, TF32 half of it; no rate is zero."""
    for row in data.peaks:
        name = f"peaks {row.compute_capability} {row.products or ''}".strip()
        if row.bfloat16 and row.bfloat16 != row.float16:
            yield f"{name}.bfloat16: {row.bfloat16:g}, but float16 is {row.float16 or 0:g}"
        if row.tf32 and row.float16 and 2 * row.tf32 != row.float16:
            yield f"{name}.tf32: {row.tf32:g} is not half of float16 {row.float16:g}"
        for rate in ("float64", "float64_tensor", "float32", "tf32", "float16", "bfloat16"):
            value = getattr(row, rate)
            if value is not None and value <= 0:
                yield f"{name}.{rate}: {value:g} is no rate; leave it out where it is unknown"


def peak_products(data: MatrixFile) -> Iterator[str]:
    """The first product line whose name fits counts, so that "L40S" must stand before "L40"."""
    before: dict[str, list[str]] = {}
    for row in data.peaks:
        if row.products is None:
            continue
        earlier = before.setdefault(row.compute_capability, [])
        for other in earlier:
            if other.lower() in row.products.lower():
                yield f"peaks {row.compute_capability} {row.products}: never used, since {other!r} stands before it"
        earlier.append(row.products)


def cudnn_floors(data: MatrixFile) -> Iterator[str]:
    """A cuDNN serves cards for which a toolkit of that major compiles; a later one serves none that were dropped."""
    floors: dict[str, tuple[str, str]] = {}  # CUDA major → (version, floor) of the next newer cuDNN
    for row in data.cudnn:
        for cuda_major, floor in row.min_compute_capability_by_cuda.items():
            compiled = _compiled(data, cuda_major)
            if compiled and floor not in compiled:
                yield f"cudnn {row.version}: CUDA {cuda_major} compiles for {', '.join(compiled)}, not for {floor}"
            later, its_floor = floors.get(cuda_major, (row.version, floor))
            if numbers(its_floor) < numbers(floor):
                yield (
                    f"cudnn {later}: goes down to {its_floor} with CUDA {cuda_major}, but {row.version} only to {floor}"
                )
            floors[cuda_major] = (row.version, floor)


def official(data: MatrixFile) -> Iterator[str]:
    """TensorFlow's own table speaks of known versions that go together; it names some cuDNN by its major alone."""
    toolkits = {row.version for row in data.cuda}
    for row in data.official:
        if row.cuda and row.cuda not in toolkits:
            yield f"official {row.version}.cuda: {row.cuda} is none of {', '.join(_newest_first(toolkits))}"
        if not row.cudnn:
            continue
        meant = [one for one in data.cudnn if row.cudnn in (one.version, major(one.version))]
        majors = {number for one in meant for number in one.cuda_majors}
        if not meant:
            known = _newest_first(one.version for one in data.cudnn)
            yield f"official {row.version}.cudnn: {row.cudnn} is none of {', '.join(known)}"
        elif row.cuda and major(row.cuda) not in majors:
            made = ", ".join(sorted(majors, key=numbers))
            yield f"official {row.version}.cudnn: {row.cudnn} is made for CUDA {made}, not for {row.cuda}"


def _compiles(toolkit: CudaToolkit, row: Architecture) -> bool | None:
    """Whether the architecture table says that a toolkit makes SASS for it; None when it does not say."""
    version = numbers(toolkit.version)[:2]
    if row.max_cuda and version > numbers(row.max_cuda):
        return False
    if row.min_cuda is None:
        return None
    return version >= numbers(row.min_cuda)


def _compiled(data: MatrixFile, cuda_major: str) -> list[str]:
    """Compute capabilities for which toolkits of a major version make SASS, ascending."""
    of_major = (row for row in data.cuda if major(row.version) == cuda_major)
    return sorted({one for row in of_major for one in row.compute_capabilities}, key=numbers)


def _newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=numbers, reverse=True)


def package_requirements(data: MatrixFile) -> Iterator[str]:
    """What a package requires can be read, and is said of versions that it has."""
    for row in data.packages:
        known = {version for group in row.releases for version in group.versions}
        for group in row.releases:
            yield from _unreadable(SpecifierSet, group.python or "", f"packages {row.package}.python")
        for text, versions in row.requires.items():
            place = f"packages {row.package}.requires"
            yield from _unreadable(Requirement, text, place)
            for version in (edge for run in versions.split() for edge in run.split("..")):
                if version not in known:
                    yield f"{place}: {text!r} is said of {version}, which is none of its versions"


def monthly_images(data: MatrixFile) -> Iterator[str]:
    """A month is in one row, and the driver of its CUDA is known."""
    rows = sorted(data.monthly_images, key=lambda row: row.first)
    for row, following in zip(rows, (*rows[1:], None), strict=True):
        if row.first > row.last or (following and row.last >= following.first):
            yield f"monthly_images {row.first}: it ends {row.last}, which is no month before the next row begins"
        if not any(toolkit.version == row.cuda and toolkit.min_driver_linux for toolkit in data.cuda):
            yield f"monthly_images {row.first}: the driver of CUDA {row.cuda} is unknown"


def log_lines(data: MatrixFile) -> Iterator[str]:
    """A message of the log tells releases apart, and names only releases that have a row."""
    known = {row.version for row in data.tensorflow}
    for row in data.log_lines:
        place = f"log_lines {row.file} {row.message!r}"
        if len(row.lines) < 2:
            yield f"{place}: one line tells no release from another"
        for line, releases in row.lines.items():
            strange = [one for one in releases.split() if one not in known]
            yield from (f"{place}.lines.{line}: {one} is no release of TensorFlow's table" for one in strange)


def _unreadable(kind: type[Requirement | SpecifierSet], text: str, place: str) -> Iterator[str]:
    try:
        kind(text)
    except ValueError:
        yield f"{place}: {text!r} cannot be read"


TABLES = (
    "architectures", "peaks", "gpus", "pci_devices", "cuda", "cudnn", "official", "libraries", "known_issues",
    "instances", "containers", "monthly_images", "jetpacks", "conda_forge", "nvidia", "packages",
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
