"""What rules a release out on a machine, and what is wrong with a machine whatever the release. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.facts.facts import Record
from tfgpu_doctor.facts.versions import at_least, capability, major, minor
from tfgpu_doctor.matrix.compatibility import (
    FIRST_IN_WSL2,
    WSL2_GUIDE,
    cudnn_floor,
    driver_bound,
    driver_branches,
    driver_reaches,
    drives,
    extra_fails,
    is_tegra,
    newest_for_most,
    oldest_driver,
    runs_on,
    why_driver,
)
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.plan.target import NO_GLIBC, Target


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
    compiles: bool = False  # kernels that the driver has to compile from PTX will do, of a CUDA that knows the card

    def admits(self, version: str) -> bool:
        """True if the version was asked for, or none was."""
        return self.specifier is None or self.specifier.contains(version, prereleases=True)

    @cached_property
    def _branches(self) -> list[tuple[str | None, str | None]]:
        return [driver_branches(self.matrix, gpu.compute_capability, gpu.name) for gpu in self.target.gpus]

    @property
    def first_branch(self) -> str | None:
        """The first driver branch that drives all of the cards, as far as that of each is known."""
        return max((first for first, _ in self._branches if first), key=int, default=None)

    @property
    def least_branch(self) -> str | None:
        """The same, where that of a card is unknown with the lower bound of its architecture."""
        bounds = (driver_bound(self.matrix, gpu.compute_capability, gpu.name) for gpu in self.target.gpus)
        return max((one for one in (self.first_branch, *bounds) if one), key=int, default=None)

    @property
    def last_branch(self) -> str | None:
        """The last driver branch that drives all of the cards; None while they are supported."""
        return min((last for _, last in self._branches if last), key=int, default=None)

    @property
    def branch_to_go_back_to(self) -> str | None:
        """The last driver branch for the cards, where the driver is newer and no longer supports them."""
        have, last = self.target.driver, self.last_branch
        return last if have and last and not drives(have, None, last) else None

    def issues(self, row: Release, python: str | None, *, extra: bool) -> tuple[KnownIssue, ...]:
        """The known issues of a release with these GPUs and this driver."""
        cards, driver = self.target.capabilities, self.target.driver
        return self.matrix.issues_for(row, python=python, compute_capabilities=cards, driver=driver, extra=extra)

    def driver_exists(self, need: str | None) -> bool:
        """True if a driver as new as `need` still supports the cards."""
        return need is None or self.last_branch is None or int(major(need)) <= int(self.last_branch)

    def driver_needed(self, row: Release) -> str | None:
        """The oldest driver that runs the CUDA of a release, compiles its PTX for the cards and drives them."""
        of_release = oldest_driver(row, self.target.capabilities, self.target.os)
        return max((one for one in (of_release, self.least_branch) if one), key=Version, default=None)


_Unmet: TypeAlias = "tuple[str, str, str] | None"  # what there is, what it would take, source


def _build(_request: PlanRequest, row: Release) -> _Unmet:
    """The wheel of this platform holds CUDA code."""
    found = f"the {row.platform} wheel has no CUDA support"
    return None if row.gpu else (found, "a build with CUDA", source(row, "gpu"))


def _tensorflow(request: PlanRequest, row: Release) -> _Unmet:
    """It is a version that was asked for."""
    asked = f"TensorFlow {request.specifier}, as asked for"
    return None if request.admits(row.version) else (row.version, asked, "--tensorflow")


def _gpu(request: PlanRequest, row: Release) -> _Unmet:
    """It has kernels for every card, which start without being compiled first."""
    compiled = row.gpu and (row.sass or row.ptx)
    cards = request.target.capabilities if compiled else ()
    card = next((one for one in cards if not _starts(request, row, one)), None)
    ptx = f", PTX {' '.join(row.ptx)}" if row.ptx else ""
    need = f"kernels for {card} (SASS {' '.join(row.sass) or 'none'}{ptx})"
    return (f"compute capability {card}", need, source(row, "sass")) if card else None


def _starts(request: PlanRequest, row: Release, card: str) -> bool:
    how, known = runs_on(row, card), request.matrix.architecture(card)
    is_known = known is not None and at_least(row.cuda, known.min_cuda or "0") is True
    return how == "sass" or (how == "ptx" and request.compiles and is_known)


def _cudnn(request: PlanRequest, row: Release) -> _Unmet:
    """The cuDNN that it is compiled against still supports every card."""
    floor, oldest = cudnn_floor(request.matrix, row), next(iter(request.target.capabilities), None)
    if not floor or not oldest or capability(oldest) >= capability(floor):
        return None
    need = f"compute capability {floor} or later, for cuDNN {row.cudnn}"
    return f"compute capability {oldest}", need, source(row, "cudnn")


def _driver(request: PlanRequest, row: Release) -> _Unmet:
    """The driver runs its CUDA, and drives the cards at all."""
    have, need, cards = request.target.driver, request.driver_needed(row), request.target.capabilities
    why = f"driver {need} or newer, for {why_driver(row, cards, request.target.os)}"
    if not request.driver_exists(need):
        last = f"driver branch {request.last_branch} is the last that supports this GPU"
        return last, why, source(row, "cuda")
    if have and need and not driver_reaches(have, need):
        if need == request.least_branch:
            why = f"driver {need} or newer, the first for this {'GPU' if request.first_branch else 'architecture'}"
        by_ptx = oldest_driver(row) != oldest_driver(row, cards)
        of_cuda = WSL2_GUIDE if need == FIRST_IN_WSL2 else source(row, "min_driver_linux")
        return f"driver {have}", why, source(row, "ptx_only") if by_ptx else of_cuda
    if back := request.branch_to_go_back_to:
        need = f"driver branch {back}, the last that supports this GPU"
        return f"driver {have}", need, "compat_matrix.yaml, gpus"
    return None


def _python(request: PlanRequest, row: Release) -> _Unmet:
    """It has a wheel for this Python."""
    python = request.target.python
    fits = python is None or python in row.python
    return None if fits else (f"Python {python}", f"Python {span(row.python)}", source(row, "python"))


def _glibc(request: PlanRequest, row: Release) -> _Unmet:
    """Its wheel's platform tag admits this glibc."""
    have = request.target.glibc
    if have == NO_GLIBC:
        return "musl", f"glibc {row.glibc} or newer" if row.glibc else "glibc", source(row, "glibc")
    if have is None or row.glibc is None or Version(have) >= Version(row.glibc):
        return None
    return f"glibc {have}", f"glibc {row.glibc} or newer", source(row, "glibc")


def _macos(request: PlanRequest, row: Release) -> _Unmet:
    """Its wheel's platform tag admits this macOS."""
    have = request.target.macos
    if have is None or row.macos is None or Version(have) >= Version(row.macos):
        return None
    return f"macOS {have}", f"macOS {row.macos} or newer", source(row, "macos")


def _known_issue(request: PlanRequest, row: Release) -> _Unmet:
    """It is not known to be broken here."""
    python = request.target.python or (row.python[-1] if row.python else None)
    found = request.issues(row, python, extra=row.extra is not None)
    without_extra = extra_fails(request.matrix, row, python)  # the commands then spell it out
    grave = (one for one in found if one.severity == "error" or one.condition.driver)
    errors = (one for one in grave if one.id not in request.repaired_issues)
    bad = next((one for one in errors if not (one.affects == "install" and without_extra)), None)
    return (bad.title, "another release", bad.source) if bad else None


def _yanked(_request: PlanRequest, row: Release) -> _Unmet:
    """Its publisher has not withdrawn it."""
    return (f"yanked: {row.yanked}", "another release", row.package) if row.yanked else None


CONSTRAINTS: dict[str, Callable[[PlanRequest, Release], _Unmet]] = {
    "tensorflow": _tensorflow,
    "build": _build,
    "gpu": _gpu,
    "cudnn": _cudnn,
    "driver": _driver,
    "python": _python,
    "glibc": _glibc,
    "macos": _macos,
    "known-issue": _known_issue,
    "yanked": _yanked,
}


def violations(request: PlanRequest, row: Release) -> tuple[Violation, ...]:
    """Every constraint of a release that the machine does not meet; empty when it fits."""
    names = CONSTRAINTS if row.gpu else ("tensorflow", "build")
    found = ((name, CONSTRAINTS[name](request, row)) for name in names)
    return tuple(Violation(name, *unmet) for name, unmet in found if unmet)


def broken_within(request: PlanRequest, row: Release, given_up: frozenset[str]) -> frozenset[str] | None:
    """The constraints that a release violates; None at the first one that is not given up."""
    broken = set()
    for name, check in CONSTRAINTS.items():
        if check(request, row):
            if name not in given_up:
                return None
            broken.add(name)
    return frozenset(broken)


def candidates(matrix: Matrix, platform: str, *, pre: bool = False) -> Iterator[Release]:
    """One row for each version, newest first: that of `tensorflow`, or of tensorflow-gpu where only that has CUDA.

    Of a minor release, what has kernels for more GPUs comes first: 1.12.2 and 1.12.3 have those of a K80 alone.

    Args:
        pre: release candidates instead of the stable releases (nightlies leave the index after some months).
    """
    rows: dict[str, Release] = {}
    for package in ("tensorflow", "tensorflow-gpu"):
        for row in matrix.releases(platform=platform, package=package):
            held = rows.get(row.version)
            if held is None or (row.gpu and not held.gpu):
                rows[row.version] = row
    for row in sorted(rows.values(), key=newest_for_most, reverse=True):
        if Version(row.version).is_prerelease == pre:
            yield row


def same_minor_releases(request: PlanRequest, version: str) -> list[Release]:
    """This version, then the others of its minor version, newest first, that meet every constraint."""
    rows = candidates(request.matrix, request.target.platform)
    fitting = (row for row in rows if minor(row.version) == minor(version) and not violations(request, row))
    return sorted(fitting, key=lambda row: row.version != version)


def source(row: Release, field: str) -> str:
    """Where the matrix read a field of a release."""
    return row.sources.get(field, f"compat_matrix.yaml, {row.package} {row.version}")


def span(versions: tuple[str, ...]) -> str:
    """Shorten ("3.9", "3.10", "3.11") to "3.9 to 3.11"."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}" if versions else "none"


_MAXWELL = (5, 0)
_JETSON_GUIDE = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"


def problems(request: PlanRequest, *, no_gpu: bool, driver_hangs: bool) -> Iterator[str]:
    """What is wrong whatever the release."""
    target = request.target
    cards = " and ".join(dict.fromkeys(gpu.shown for gpu in target.gpus))
    if no_gpu:
        yield "This machine has no NVIDIA GPU. To plan for another GPU, name it: tfgpu plan --gpu 'RTX 4090'"
    if driver_hangs:
        yield "The NVIDIA driver does not respond, so the GPU and the driver version are unknown: run tfgpu doctor"
    if target.os == "macos":
        yield (
            f"macOS has no CUDA{f', so {cards} cannot be used' if cards else ''}: TensorFlow runs on the CPU there. "
            "Apple's GPUs need tensorflow-metal; its 1.2.0 goes with TensorFlow 2.18.1, in an environment of its own: "
            "python3.12 -m pip install tensorflow==2.18.1 tensorflow-metal==1.2.0"
        )
    if target.glibc == NO_GLIBC:
        yield (
            "This system has musl instead of glibc (Alpine), and TensorFlow has no wheels for it: use a system or an "
            "image with glibc, such as python:3.12-slim"
        )
    if outside_wsl(target):
        yield (
            f"WSL2 cannot use {cards}: it passes on GPUs in the driver models WDDM and MCDM, which Kepler's lack "
            "(microsoft/WSL issues 5546 and 9952). Use it in Windows itself, or in Linux"
        )
    for card in target.capabilities:
        if not _has_any_kernels(request.matrix, card):
            jetson = f". On Jetson, TensorFlow comes with NVIDIA JetPack: {_JETSON_GUIDE}" if is_tegra(card) else ""
            yield f"No published wheel of TensorFlow has kernels for compute capability {card}{jetson}"
    yield from other_driver(request)


def outside_wsl(target: Target) -> bool:
    """Whether WSL2 does not pass on a card: those of Kepler run without a driver model that it knows."""
    cards = (card for card in target.capabilities if not is_tegra(card))
    return target.os == "wsl2" and any(capability(card) < _MAXWELL for card in cards)


def _has_any_kernels(matrix: Matrix, card: str) -> bool:
    rows = (row for platform in ("linux_x86_64", "windows_amd64") for row in candidates(matrix, platform))
    jetpacks = (row for row in matrix.data.jetpacks if row.wheels)
    if is_tegra(card):
        return any(card in row.compute_capabilities for row in jetpacks)
    return any(row.gpu and runs_on(row, card) == "sass" for row in rows)


def other_driver(request: PlanRequest) -> Iterator[str]:
    """The driver is older or newer than those for the GPUs."""
    first, bound, have = request.first_branch, request.least_branch, request.target.driver
    cards = " and ".join(dict.fromkeys(gpu.shown for gpu in request.target.gpus))
    if have is None:
        return
    if first and not driver_reaches(have, first):
        yield f"Driver {have} does not support {cards}: driver branch {first} is the first that does"
    elif bound and not driver_reaches(have, bound):
        yield f"Driver {have} is probably too old for {cards}: the first GPU of its architecture came with {bound}"
    if back := request.branch_to_go_back_to:
        yield f"Driver {have} no longer supports {cards}: driver branch {back} is the last that does"
