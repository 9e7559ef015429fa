"""What a GPU needs and runs: its answer, the newest working release, and why a release is none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.matrix.compatibility import (
    arm_only,
    cudnn_floor,
    driver_bound,
    driver_branches,
    driver_reaches,
    drives,
    kernels_for,
    why_driver,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.queries import (
    Filters,
    QueryError,
    broken_on,
    cards,
    known_broken,
    known_package,
    min_driver,
    newest_first,
    only_with,
    releases,
    same_as_far_as_given,
)
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import Architecture, Peak
from tfgpu_doctor.matrix.tables import last_cudnn, read_version
from tfgpu_doctor.plan.alternatives import alternatives
from tfgpu_doctor.plan.constraints import PlanRequest, span, violations
from tfgpu_doctor.plan.target import (
    Target,
    TargetError,
    TargetGpu,
    platform_of,
    read_capability,
    read_driver_on,
    read_gpu,
    read_python,
    several,
)
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.versions import capability, minor, numbers


def newest_working(request: PlanRequest, rows: Iterable[Release]) -> tuple[str | None, dict[str, str]]:
    """The first of these releases, newest first, that no known bug keeps from the GPU; newer ones with their bug."""
    passed_over: dict[str, str] = {}
    for row in rows:
        bug = next((one for one in violations(request, row) if one.constraint == "known-issue"), None)
        if bug:
            passed_over[row.version] = bug.saw
        elif not row.yanked and row.version not in passed_over:
            return row.version, passed_over
    return None, passed_over


def read_filters(
    matrix: Matrix,
    note: Callable[[str], object],
    *,
    package: str | None = None,
    python: str | None = None,
    cuda: str | None = None,
    cudnn: str | None = None,
    driver: str | None = None,
    gpu: str | Iterable[str] | None = None,
    compute_capability: str | Iterable[str] | None = None,
    os: str | None = None,
    machine: str | None = None,
    platform: str | None = None,
    ptx: bool = False,
    pre: bool = False,
) -> Filters:
    """Read what a release must satisfy; without a platform, it is that of the GPU, or Linux on x86_64.

    Raises TargetError, QueryError: a value is not valid; `note` is called with how one was read.
    """
    named = [read_gpu(matrix, name) for name in several(gpu)]
    capabilities = [read_capability(text, matrix) for text in several(compute_capability)]
    if len(named) > 1 or len(capabilities) > 1:
        raise TargetError("releases are listed for one GPU: give one --gpu and one --compute-capability at most")
    name = named[0].name if named else None
    where = platform_of(os, machine, platform)
    system = os or (where or "").partition("_")[0]
    if where is None:
        where = default_platform(name, named[0].compute_capability) if named else "linux_x86_64"
    return Filters(
        platform=None if where == "all" else where,
        package=None if package is None else known_package(matrix, package),
        python=None if python is None else read_python(python),
        cuda=None if cuda is None else read_version(cuda, "CUDA", "11.8"),
        cudnn=None if cudnn is None else read_version(cudnn, "cuDNN", "8.6"),
        driver=None if driver is None else read_driver_on(system, driver, matrix, note),
        compute_capability=capabilities[0] if capabilities else None,
        gpu=name,
        ptx=ptx,
        pre=pre,
        wsl2=os == "wsl2",
    )


def why_not(matrix: Matrix, row: Release, filters: Filters) -> tuple[str, ...]:
    """Every constraint of a release that the filters do not meet, in a clause; empty: it is one of the answers."""
    return tuple(_clauses(matrix, row, filters))


def _clauses(matrix: Matrix, row: Release, filters: Filters) -> Iterator[str]:
    if filters.needs_gpu and not row.gpu:
        yield f"the {row.platform} wheel of {row.package} has no CUDA support"
        return
    yield from _not_built_for(row, filters)
    if filters.python is not None and filters.python not in row.python:
        yield f"no wheel for Python {filters.python}: {span(row.python)}"
    yield from _driver(matrix, row, filters)
    for card in cards(matrix, filters):
        yield from _card(matrix, row, card, filters)


def _not_built_for(row: Release, filters: Filters) -> Iterator[str]:
    for name, built, wanted in (("CUDA", row.cuda, filters.cuda), ("cuDNN", row.cudnn, filters.cudnn)):
        asked = minor(wanted) if wanted and name == "cuDNN" else wanted
        if asked and (built is None or not same_as_far_as_given(built, asked)):
            yield f"built for {name} {built or 'that is unknown'}, not {wanted}"


def _driver(matrix: Matrix, row: Release, filters: Filters) -> Iterator[str]:
    needed = min_driver(matrix, row, filters)
    if filters.driver is not None and (needed is None or not driver_reaches(filters.driver, needed)):
        why = why_driver(row, cards(matrix, filters))
        yield f"{why} needs driver {needed or 'that is unknown'} or newer, not {filters.driver}"


def _card(matrix: Matrix, row: Release, card: str, filters: Filters) -> Iterator[str]:
    first, last = driver_branches(matrix, card, filters.gpu)
    needed, name = min_driver(matrix, row, filters), filters.gpu or card
    floor, how = cudnn_floor(matrix, row), kernels_for(matrix, row, card)
    if filters.driver is None and needed is not None and not drives(needed, None, last):
        yield f"{why_driver(row, [card])} needs driver {needed} or newer, and {last} is the last branch for {name}"
    elif filters.driver is not None and not drives(filters.driver, first, last):
        yield f"driver {filters.driver} does not support {name}: {branches(first, last)} do"
    if floor and capability(card) < capability(floor):
        yield f"its cuDNN {row.cudnn} needs compute capability {floor} or later, not {card}"
    elif how == "no":
        yield f"no kernels for {card}: SASS {' '.join(row.sass) or 'none'}, PTX {' '.join(row.ptx) or 'none'}"
    elif how == "ptx" and not filters.ptx:
        yield f"no machine code (SASS) for {card}, only PTX; --ptx lists it"
    elif bug := broken_on(matrix, row, card, filters.python):
        yield f"known not to work on {card}: {bug.title} ({bug.id})"


def branches(first: str | None, last: str | None) -> str:
    """The driver branches from the first to the last, in words."""
    if first and last:
        return f"{first} to {last}"
    return f"{first} and newer" if first else f"up to {last}" if last else "unknown branches"


def elsewhere(matrix: Matrix, filters: Filters) -> tuple[str, ...]:
    """The images and builds of conda-forge that run on the card, in place of wheels."""
    machine = "aarch64" if (filters.platform or "").endswith("aarch64") else "x86_64"
    gpus = tuple(TargetGpu(filters.gpu, card) for card in cards(matrix, filters))
    if not gpus or not (filters.platform or "linux").startswith("linux"):
        return ()
    target = Target(gpus=gpus, driver=filters.driver, os="wsl2" if filters.wsl2 else "linux", machine=machine)
    return tuple(option.title for option in alternatives(PlanRequest(matrix, target)))


def left_out(matrix: Matrix, filters: Filters) -> dict[str, tuple[str, ...]]:
    """The first constraint that keeps stable releases, newer than the newest answer, from being one → their versions.

    Not those that are listed elsewhere (known bugs of the card, PTX only), nor those for another CUDA or cuDNN, nor CPU
    builds; nothing where the driver is not for the card at all.
    """
    edges = [driver_branches(matrix, card, filters.gpu) for card in cards(matrix, filters)]
    if filters.driver is not None and not all(drives(filters.driver, first, last) for first, last in edges):
        return {}
    found: dict[str, list[str]] = {}
    for row in _newer(matrix, filters):
        if not any(_not_built_for(row, filters)) and (reasons := why_not(matrix, row, filters)):
            found.setdefault(reasons[0], []).append(row.version)
    return {reason: tuple(versions) for reason, versions in found.items()}


def _newer(matrix: Matrix, filters: Filters) -> Iterator[Release]:
    """Stable releases that are newer than the newest answer, and of which no other note tells."""
    rows = releases(matrix, filters)
    told = {row.version for row, _ in known_broken(matrix, filters)}
    told |= {row.version for row in only_with(matrix, filters, ptx=True)}
    for row in newest_first(matrix.releases(filters.platform, filters.package or "tensorflow")):
        version = Version(row.version)
        if rows and version <= Version(rows[0].version):
            return
        if not version.is_prerelease and row.version not in told and (row.gpu or not filters.needs_gpu):
            yield row


class GpuRow(Record, frozen=True, kw_only=True):
    """A GPU in the list of all."""

    name: str
    compute_capability: str
    architecture: str | None
    first_driver_branch: str | None  # None: unknown
    last_driver_branch: str | None  # None: still supported
    driver_at_least: str | None = None  # a lower bound where the first branch is unknown, its architecture's


class Broken(Record, frozen=True, kw_only=True):
    """A known issue that keeps releases from running on a card although they hold code for it."""

    id: str
    title: str
    tensorflow: tuple[str, ...]  # newest first


class GpuAnswer(Record, frozen=True, kw_only=True):
    """A GPU, or all GPUs of a compute capability, and what runs on them."""

    name: str | None  # None: asked for by compute capability
    same_compute_capability: tuple[str, ...]  # names of all GPUs that have it
    names: tuple[str, ...]  # the same, as it was called before
    compute_capability: str
    architecture: str | None
    first_driver_branch: str | None  # None: unknown
    last_driver_branch: str | None  # None: still supported
    first_cuda: str | None  # first toolkit that makes SASS for it; None: unknown
    last_cuda: str | None  # last one; None: still supported
    last_cudnn: dict[str, str]  # CUDA major version → last cuDNN line that supports it
    platform: str  # of the releases below
    newest_tensorflow: str | None  # without a known bug that keeps it from the GPU: what `tfgpu plan` takes
    passed_over: dict[str, str]  # newer release → its bug
    tensorflow: tuple[str, ...]  # stable releases whose SASS runs on it, newest first
    tensorflow_ptx: tuple[str, ...]  # that would have to be compiled from PTX at first use
    broken: tuple[Broken, ...]
    elsewhere: tuple[str, ...]  # where no wheel runs on it: "TensorFlow 2.19.1 from conda-forge"
    peak: dict[str, float] | None  # dense FLOP per clock cycle and multiprocessor, by type; None: unknown
    sources: dict[str, str]  # field → where it was read
    driver_at_least: str | None = None  # a lower bound where the first branch is unknown, its architecture's


def all_gpus(matrix: Matrix) -> tuple[GpuRow, ...]:
    """Every GPU of the matrix, in its order: the newest architectures first."""
    architectures = {row.compute_capability: row for row in matrix.data.architectures}
    rows = []
    for group in matrix.data.gpus:
        card = architectures.get(group.compute_capability)
        rows += [
            GpuRow(
                name=name,
                compute_capability=group.compute_capability,
                architecture=card.name if card else None,
                first_driver_branch=group.first_driver_branch,
                last_driver_branch=group.last_driver_branch or (card.last_driver_branch if card else None),
                driver_at_least=card.first_driver_branch if card and not group.first_driver_branch else None,
            )
            for name in group.names
        ]
    return tuple(rows)


def gpu_answer(matrix: Matrix, capability: str, name: str | None = None, platform: str | None = None) -> GpuAnswer:
    """Join a GPU with everything that supports it.

    Args:
        capability: its compute capability, one that the matrix has.
        name: its name as the matrix has it, for what differs between models.
        platform: of the TensorFlow releases; by default Linux with the processor that such a GPU is sold with.
    """
    architecture = matrix.architecture(capability)
    if architecture is None:
        known = ", ".join(row.compute_capability for row in matrix.data.architectures)
        raise QueryError(f"unknown compute capability {capability}; the matrix has {known}")
    platform = platform or default_platform(name, capability)
    asked = Filters(platform=platform, compute_capability=capability, gpu=name)
    fits = releases(matrix, asked)
    first, last = driver_branches(matrix, capability, name)
    peak = matrix.peak(capability, name)
    newest, bugs = newest_working(PlanRequest(matrix, Target(gpus=(TargetGpu(name, capability),))), fits)
    alike = tuple(one for row in matrix.data.gpus if row.compute_capability == capability for one in row.names)
    return GpuAnswer(
        name=name,
        same_compute_capability=alike,
        names=alike,
        compute_capability=capability,
        architecture=architecture.name,
        first_driver_branch=first,
        last_driver_branch=last,
        driver_at_least=driver_bound(matrix, capability, name),
        first_cuda=architecture.min_cuda,
        last_cuda=architecture.max_cuda,
        last_cudnn=_last_cudnn(matrix, architecture),
        platform=platform,
        newest_tensorflow=newest,
        passed_over=bugs,
        tensorflow=_versions(row.version for row in fits),
        tensorflow_ptx=_versions(row.version for row in only_with(matrix, asked, ptx=True)),
        broken=_broken(matrix, asked),
        elsewhere=tuple(_elsewhere(matrix, capability, name, platform)) if not fits else (),
        peak=_rates(peak) if peak else None,
        sources=_sources(matrix, architecture.source, peak, name),
    )


def _elsewhere(matrix: Matrix, capability: str, name: str | None, platform: str) -> Iterable[str]:
    """conda-forge's builds and containers that hold kernels for it."""
    machine = "aarch64" if platform.endswith("aarch64") else "x86_64"
    target = Target(gpus=(TargetGpu(name, capability),), machine=machine)
    return (option.title for option in alternatives(PlanRequest(matrix, target)))


def default_platform(name: str | None, capability: str) -> str:
    """Linux, with the processor that a GPU of this name, as the matrix has it, is sold with."""
    return "linux_aarch64" if name is not None and arm_only(name, capability) else "linux_x86_64"


def _last_cudnn(matrix: Matrix, card: Architecture) -> dict[str, str]:
    """For the CUDA major versions that know the card."""
    first, last = (numbers(edge)[0] if edge else None for edge in (card.min_cuda, card.max_cuda))
    majors = sorted({major for line in matrix.data.cudnn for major in line.cuda_majors}, key=numbers)
    found = {
        major: last_cudnn(matrix, card.compute_capability, major)
        for major in majors
        if (first or 0) <= int(major) <= (last or int(major))
    }
    return {major: version for major, version in found.items() if version is not None}


def _broken(matrix: Matrix, asked: Filters) -> tuple[Broken, ...]:
    titles: dict[str, str] = {}
    versions: dict[str, list[str]] = {}
    for row, issue in known_broken(matrix, asked):
        titles[issue.id] = issue.title
        versions.setdefault(issue.id, []).append(row.version)
    return tuple(Broken(id=id, title=titles[id], tensorflow=_versions(versions[id])) for id in titles)


def _rates(peak: Peak) -> dict[str, float]:
    rates = structs.asdict(peak)
    return {name: rate for name, rate in rates.items() if isinstance(rate, (int, float))}


def _sources(matrix: Matrix, architecture: str, peak: Peak | None, name: str | None) -> dict[str, str]:
    known = matrix.gpu(name) if name is not None else None
    named = {"name": known.source, "compute_capability": known.source} if known else {}
    if known and known.first_driver_branch:
        named["first_driver_branch"] = known.driver_source
    keyed = {"architecture": architecture, **({"peak": peak.source} if peak else {})}
    return {**named, **{one: spelled_out(matrix.data, key) for one, key in keyed.items()}}


def _versions(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(versions), key=Version, reverse=True))
