"""Linters for the tables that are entered by hand: architectures, peaks, toolkits, cuDNN, TensorFlow's own table.

A finding names the row and, where there are such, the valid values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.matrix.schema import Architecture, CudaToolkit, MatrixFile
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
