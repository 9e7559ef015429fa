"""What rules a release out on a machine, and what is wrong with a machine whatever the release. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.matrix.compatibility import (
    cudnn_floor,
    driver_bound,
    driver_branches,
    driver_reaches,
    drives,
    extra_fails,
    is_tegra,
    oldest_driver,
    runs_on,
    why_driver,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.target import NO_GLIBC, Target, from_facts
from tfgpu_doctor.records.facts import Facts, Record
from tfgpu_doctor.records.versions import capability, major, minor


class Violation(Record, frozen=True):
    """One constraint that is not met: what there is, what it would take, and which row says so."""

    constraint: str  # a key of CONSTRAINTS
    saw: str
    need: str
    source: str


@dataclass(frozen=True)
class PlanRequest:
    """The machine, and what the user asks of the release."""

    matrix: Matrix
    target: Target
    specifier: SpecifierSet | None = None
    repaired_issues: frozenset[str] = frozenset()  # ids of known issues that whoever installs it repairs


def _build(_request: PlanRequest, row: Release) -> Violation | None:
    """The wheel of this platform holds CUDA code."""
    if row.gpu:
        return None
    return Violation("build", f"the {row.platform} wheel has no CUDA support", "a build with CUDA", source(row, "gpu"))


def _tensorflow(request: PlanRequest, row: Release) -> Violation | None:
    """It is a version that was asked for."""
    if request.specifier is None or request.specifier.contains(row.version, prereleases=True):
        return None
    return Violation("tensorflow", row.version, f"TensorFlow {request.specifier}, as asked for", "--tensorflow")


def _gpu(request: PlanRequest, row: Release) -> Violation | None:
    """It has kernels for every card, which start without being compiled first."""
    for card in request.target.capabilities:
        how = runs_on(row, card)
        if row.gpu and how != "sass" and (row.sass or row.ptx):
            built = " ".join(row.sass) or "none"
            ptx = f", PTX {' '.join(row.ptx)}" if row.ptx else ""
            return Violation(
                "gpu",
                f"compute capability {card}",
                f"kernels for {card} (SASS {built}{ptx})",
                source(row, "sass"),
            )
    return None


def _cudnn(request: PlanRequest, row: Release) -> Violation | None:
    """The cuDNN that it is compiled against still supports every card."""
    floor = cudnn_floor(request.matrix, row)
    for card in request.target.capabilities:
        if floor and capability(card) < capability(floor):
            need = f"compute capability {floor} or later, for cuDNN {row.cudnn}"
            return Violation("cudnn", f"compute capability {card}", need, source(row, "cudnn"))
    return None


def _driver(request: PlanRequest, row: Release) -> Violation | None:
    """The driver runs its CUDA, and drives the cards at all."""
    need, last = driver_needed(request, row), last_branch(request)
    have = request.target.driver
    why = f"driver {need} or newer, for {why_driver(row, request.target.capabilities)}"
    if need and last and int(major(need)) > int(last):
        return Violation("driver", f"driver branch {last} is the last that supports this GPU", why, source(row, "cuda"))
    if have is None:
        return None
    if need and not driver_reaches(have, need):
        first = first_branch(request)
        if first and need == first:
            why = f"driver {first} or newer, the first for this GPU"
        by_ptx = oldest_driver(row) != oldest_driver(row, request.target.capabilities)
        return Violation("driver", f"driver {have}", why, source(row, "ptx_only" if by_ptx else "min_driver_linux"))
    if back := branch_to_go_back_to(request):
        return Violation(
            "driver",
            f"driver {have}",
            f"driver branch {back}, the last that supports this GPU",
            "compat_matrix.yaml, gpus",
        )
    return None


def _python(request: PlanRequest, row: Release) -> Violation | None:
    """It has a wheel for this Python."""
    python = request.target.python
    if python is None or python in row.python:
        return None
    return Violation("python", f"Python {python}", f"Python {span(row.python)}", source(row, "python"))


def _glibc(request: PlanRequest, row: Release) -> Violation | None:
    """Its wheel's platform tag admits this glibc."""
    have = request.target.glibc
    if have == NO_GLIBC:
        return Violation("glibc", "musl", f"glibc {row.glibc} or newer" if row.glibc else "glibc", source(row, "glibc"))
    if have is None or row.glibc is None or Version(have) >= Version(row.glibc):
        return None
    return Violation("glibc", f"glibc {have}", f"glibc {row.glibc} or newer", source(row, "glibc"))


def _known_issue(request: PlanRequest, row: Release) -> Violation | None:
    """It is not known to be broken here."""
    python = request.target.python or (row.python[-1] if row.python else None)
    found = request.matrix.issues_for(
        row, python=python, compute_capabilities=request.target.capabilities, extra=row.extra is not None
    )
    without_extra = extra_fails(request.matrix, row, python)  # the commands then spell it out
    errors = (one for one in found if one.severity == "error" and one.id not in request.repaired_issues)
    bad = next((one for one in errors if not (one.affects == "install" and without_extra)), None)
    return Violation("known-issue", bad.title, "another release", bad.source) if bad else None


def _yanked(_request: PlanRequest, row: Release) -> Violation | None:
    """Its publisher has not withdrawn it."""
    return Violation("yanked", f"yanked: {row.yanked}", "another release", row.package) if row.yanked else None


CONSTRAINTS: dict[str, Callable[[PlanRequest, Release], Violation | None]] = {
    "tensorflow": _tensorflow,
    "build": _build,
    "gpu": _gpu,
    "cudnn": _cudnn,
    "driver": _driver,
    "python": _python,
    "glibc": _glibc,
    "known-issue": _known_issue,
    "yanked": _yanked,
}


def violations(request: PlanRequest, row: Release) -> tuple[Violation, ...]:
    """Every constraint of a release that the machine does not meet; empty when it fits."""
    if not row.gpu:
        found = [_tensorflow(request, row), _build(request, row)]
    else:
        found = [check(request, row) for check in CONSTRAINTS.values()]
    return tuple(one for one in found if one)


def broken_within(request: PlanRequest, row: Release, given_up: frozenset[str]) -> frozenset[str] | None:
    """The constraints that a release violates; None at the first one that is not given up."""
    if not row.gpu:
        return None
    broken = set()
    for name, check in CONSTRAINTS.items():
        if check(request, row):
            if name not in given_up:
                return None
            broken.add(name)
    return frozenset(broken)


def candidates(matrix: Matrix, platform: str, *, pre: bool = False) -> Iterator[Release]:
    """One row for each version, newest first: that of `tensorflow`, or of tensorflow-gpu where only that has CUDA.

    Args:
        pre: release candidates instead of the stable releases (nightlies leave the index after some months).
    """
    rows: dict[str, Release] = {}
    for package in ("tensorflow", "tensorflow-gpu"):
        for row in matrix.releases(platform=platform, package=package):
            held = rows.get(row.version)
            if held is None or (row.gpu and not held.gpu):
                rows[row.version] = row
    for version in sorted(rows, key=Version, reverse=True):
        if Version(version).is_prerelease == pre:
            yield rows[version]


def driver_needed(request: PlanRequest, row: Release) -> str | None:
    """The oldest driver that runs the CUDA of a release, compiles its PTX for the cards and drives them."""
    of_release = oldest_driver(row, request.target.capabilities, windows=on_windows(request.target))
    known = [one for one in (of_release, first_branch(request)) if one]
    return max(known, key=Version, default=None)


def on_windows(target: Target) -> bool:
    """Whether the driver is that of Windows, which WSL2 uses as well."""
    return target.os in ("windows", "wsl2")


def first_branch(request: PlanRequest) -> str | None:
    """The first driver branch that drives all of the cards, as far as that of each is known."""
    return max((first for first, _ in _branches(request) if first), key=int, default=None)


def oldest_branch(request: PlanRequest) -> str | None:
    """A lower bound of the first branch, where that of a card is unknown: its architecture's."""
    found = (driver_bound(request.matrix, gpu.compute_capability, gpu.name) for gpu in request.target.gpus)
    return max((one for one in found if one), key=int, default=None)


def last_branch(request: PlanRequest) -> str | None:
    """The last driver branch that drives all of the cards; None while they are supported."""
    return min((last for _, last in _branches(request) if last), key=int, default=None)


def branch_to_go_back_to(request: PlanRequest) -> str | None:
    """The last driver branch for the cards, where the driver is newer and no longer supports them."""
    have, last = request.target.driver, last_branch(request)
    return last if have and last and not drives(have, None, last) else None


def _branches(request: PlanRequest) -> list[tuple[str | None, str | None]]:
    return [driver_branches(request.matrix, gpu.compute_capability, gpu.name) for gpu in request.target.gpus]


def best_release(facts: Facts, matrix: Matrix, *, this_python: bool = True, own_cuda: bool = True) -> Release | None:
    """The newest stable release that meets every constraint of a machine, as far as it is known; None: there is none.

    Args:
        this_python: only releases with a wheel for the Python under test.
        own_cuda: only releases whose extra brings CUDA along.
    """
    target = from_facts(facts, matrix)
    if target.os == "macos":
        return None  # 1.1 was the last release with CUDA there
    if not this_python:
        target = structs.replace(target, python=None)
    request = PlanRequest(matrix, target)
    rows = (row for row in candidates(matrix, target.platform) if row.extra or not own_cuda)
    return next((row for row in rows if not violations(request, row)), None)


def nearest_release(facts: Facts, matrix: Matrix, version: str) -> Release | None:
    """This version, or else the newest of the same minor version, that meets every constraint; None: there is none."""
    target = from_facts(facts, matrix)
    request = PlanRequest(matrix, target)
    rows = [row for row in candidates(matrix, target.platform) if minor(row.version) == minor(version)]
    fitting = [row for row in rows if not violations(request, row)]
    return next((row for row in fitting if row.version == version), next(iter(fitting), None))


def source(row: Release, field: str) -> str:
    """Where the matrix read a field of a release."""
    return row.sources.get(field, f"compat_matrix.yaml, {row.package} {row.version}")


def span(versions: tuple[str, ...]) -> str:
    """Shorten ("3.9", "3.10", "3.11") to "3.9 to 3.11"."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}" if versions else "none"


_JETSON_GUIDE = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"


def problems(request: PlanRequest, *, no_gpu: bool, driver_hangs: bool) -> Iterator[str]:
    """What is wrong whatever the release."""
    names = (gpu.name or f"compute capability {gpu.compute_capability}" for gpu in request.target.gpus)
    cards = " and ".join(dict.fromkeys(names))
    if no_gpu:
        yield "This machine has no NVIDIA GPU. To plan for another GPU, name it: tfgpu plan --gpu 'RTX 4090'"
    if driver_hangs:
        yield "The NVIDIA driver does not respond, so the GPU and the driver version are unknown: run tfgpu doctor"
    if request.target.os == "macos":
        yield _no_cuda_on_macos(cards)
    if request.target.glibc == NO_GLIBC:
        yield (
            "This system has musl instead of glibc (Alpine), and TensorFlow has no wheels for it: use a system or an "
            "image with glibc, such as python:3.12-slim"
        )
    if any(map(is_tegra, request.target.capabilities)):
        yield (
            "On Jetson, TensorFlow comes with NVIDIA JetPack (own wheels, container images tagged -igpu or l4t): "
            f"{_JETSON_GUIDE}"
        )
    for card in request.target.capabilities:
        if not _any_kernels(request, card):
            yield f"No published wheel of TensorFlow has kernels for compute capability {card}"
    if request.target.driver:
        yield from _other_driver(request, request.target.driver, cards)


def _other_driver(request: PlanRequest, have: str, cards: str) -> Iterator[str]:
    """The driver is older or newer than those for the GPUs."""
    first, bound, last = first_branch(request), oldest_branch(request), last_branch(request)
    if first and not driver_reaches(have, first):
        yield f"Driver {have} does not support {cards}: driver branch {first} is the first that does"
    elif bound and not driver_reaches(have, bound):
        yield f"Driver {have} is probably too old for {cards}: the first GPU of its architecture came with {bound}"
    if not drives(have, None, last):
        yield f"Driver {have} no longer supports {cards}: driver branch {last} is the last that does"


def _no_cuda_on_macos(cards: str) -> str:
    unusable = f", so {cards} cannot be used" if cards else ""
    return f"macOS has no CUDA{unusable}: TensorFlow runs on the CPU there. Apple's GPUs need tensorflow-metal: https://developer.apple.com/metal"


def _any_kernels(request: PlanRequest, card: str) -> bool:
    platforms = ("linux_x86_64", "windows_amd64")
    rows = (row for platform in platforms for row in candidates(request.matrix, platform))
    return any(row.gpu and runs_on(row, card) == "sass" for row in rows)
