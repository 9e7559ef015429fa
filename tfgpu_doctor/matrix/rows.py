"""What the matrix answers with: rows of several tables joined into one record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import field, structs
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.facts.facts import Record
from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.matrix.schema import (
    Build,
    CudaToolkit,
    FatBinaries,
    KnownIssue,
    MatrixFile,
    OfficialRow,
    ReleaseRow,
    Wheel,
)

BUILD_INFO = "tensorflow/python/platform/build_info.py"
CUDNN_HEADER = "cudnn_version.h"
DSO_LOADER = "dso_loader.h and cuda_config.h"
_FATBIN = ".nv_fatbin of its libraries"
_specifiers = lru_cache(SpecifierSet)  # few, each asked of every row


class Library(Record, frozen=True, kw_only=True):
    """A library that TensorFlow opens by name."""

    soname: str  # "libcudart.so.12", "cudart64_110.dll"
    component: str  # "cudart", "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse", "cupti", "cudnn", ...


class Gpu(Record, frozen=True, kw_only=True):
    """A GPU model."""

    name: str
    compute_capability: str
    source: str
    driver_source: str  # of its own driver branches
    first_driver_branch: str | None = None  # of this very model; None: unknown
    driver_at_least: str | None = None  # the first of its architecture, a lower bound; None: unknown
    last_driver_branch: str | None = None  # None: unknown, or still supported


class PtxOnly(Record, frozen=True, kw_only=True):
    """What of a build a GPU runs by PTX alone, and the driver that compiles it.

    A driver compiles PTX up to the instruction set of its own CUDA; minor-version compatibility does not help there
    (CUDA Compatibility, "Minor Version Compatibility", limitations).
    """

    isa: str  # the newest instruction set among it, "8.5"
    cuda: str  # the first toolkit with that
    min_driver_linux: str | None
    min_driver_windows: str | None  # for WSL2 as well, whose own minimum is that of oldest_driver
    fat_binaries: int  # that have PTX and no SASS for the GPU
    of: int


class Release(Record, frozen=True, kw_only=True):
    """One TensorFlow package of one version on one platform."""

    version: str
    package: str
    platform: str
    gpu: bool  # the wheel holds CUDA code
    cuda: str | None = None  # compiled against; None for a CPU build
    cudnn: str | None = None  # major.minor compiled against; the one at run time may be a later minor
    python: tuple[str, ...] = ()  # with wheels, ascending
    sass: tuple[str, ...] = ()  # sm_XX of build_info
    ptx: tuple[str, ...] = ()  # compute_XX of build_info; kernels written in CUDA C++ have SASS for it, too
    libraries: tuple[Library, ...] = ()
    linked: bool = False  # the import itself needs them (before 1.14); else it opens them, and without them has no GPU
    pip_nvidia: dict[str, str] = field(default_factory=dict)  # distribution → specifier, of the extra
    extra: str | None = None  # "and-cuda"
    min_driver_linux: str | None = None  # minor-version compatibility counted in
    min_driver_windows: str | None = None  # for WSL2 as well, whose own minimum is that of oldest_driver
    ptx_only: dict[str, PtxOnly] = field(default_factory=dict)  # compute capability → where parts have no SASS for it
    numpy: str | None = None  # specifiers of the oldest Python's wheel
    protobuf: str | None = None
    keras: str | None = None
    ml_dtypes: str | None = None
    bounds_by_python: dict[str, dict[str, str]] = field(default_factory=dict)  # where a newer Python's differ
    glibc: str | None = None
    macos: str | None = None
    redirects: str | None = None  # an empty wheel that requires this one: "tensorflow-intel==2.13.0"
    yanked: str | None = None
    released: str | None = None  # "2025-08-13"; None: unknown
    known_issues: tuple[KnownIssue, ...] = ()  # by version, package and platform; Matrix.issues_for weighs the rest
    sources: dict[str, str] = field(default_factory=dict)  # field → where it was read

    @property
    def prerelease(self) -> bool:
        """A release candidate or a nightly build."""
        return re.search(r"rc|dev", self.version.partition("+")[0]) is not None


_OF_WHEEL = ("cuda", "pip_nvidia", "extra", "glibc", "macos", "redirects", "yanked")
_BOUNDS = ("numpy", "protobuf", "keras", "ml_dtypes")


def build_release(
    row: ReleaseRow,
    platform: str,
    wheel: Wheel,
    data: MatrixFile,
    toolkit: CudaToolkit | None,
    build: Build | None = None,
) -> Release:
    """Join a wheel's row with the tables it refers to."""
    official = next((one for one in data.official if row.version.startswith(one.version + ".")), None)
    bounds = _provider(data, platform, wheel) or wheel
    opened = next((one for one in data.libraries if one.id == wheel.libraries), None)
    libraries = opened.libraries if opened else {}
    cudnn, cudnn_source = _cudnn(wheel, official, build, data)
    return Release(
        version=row.version,
        package=row.package,
        platform=platform,
        gpu=wheel.cuda is not None,
        cudnn=cudnn,
        libraries=tuple(Library(soname=soname, component=name) for name, soname in libraries.items()),
        linked=opened is not None and opened.linked,
        min_driver_linux=toolkit.oldest_driver_linux if toolkit else None,
        min_driver_windows=toolkit.oldest_driver_windows if toolkit else None,
        ptx_only=dict(_ptx_only(data, build.parts if build else ())),
        released=row.released,
        known_issues=tuple(_issues(row, platform, wheel, data)),
        sources=_sources(row, wheel, bounds, data, toolkit, cudnn_source, build),
        python=_ascending(wheel.python),
        sass=_ascending(wheel.sass),
        ptx=_ascending(wheel.ptx),
        **{name: getattr(wheel, name) for name in _OF_WHEEL},
        **{name: getattr(bounds, name) for name in (*_BOUNDS, "bounds_by_python")},
    )


def _ascending(versions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(versions, key=numbers))


def _cudnn(
    wheel: Wheel, official: OfficialRow | None, build: Build | None, data: MatrixFile
) -> tuple[str | None, str | None]:
    """What the binary compares with, else the header in the wheel, else TensorFlow's own table; and where it stands."""
    if build and build.cudnn:
        return build.cudnn, f"{wheel.wheel}: what its binary compares the loaded cuDNN with"
    if wheel.cudnn:
        return wheel.cudnn, f"{wheel.wheel}: {CUDNN_HEADER}"
    return (official.cudnn, data.sources[official.source].title) if official and wheel.cuda else (None, None)


def _ptx_only(data: MatrixFile, parts: tuple[FatBinaries, ...]) -> Iterator[tuple[str, PtxOnly]]:
    """For each compute capability the fat binaries that it runs by PTX alone."""
    if not parts:
        return
    toolkits = {row.version: row for row in data.cuda}
    first = {row.isa: toolkits[row.cuda] for row in data.ptx if row.cuda in toolkits}
    total = sum(part.count for part in parts)
    for card in (row.compute_capability for row in data.architectures):
        alone = [(isa, part.count) for part in parts if (isa := part.compiled_for(card)) in first and isa]
        if not alone:
            continue
        isa = max((isa for isa, _ in alone), key=numbers)
        found = PtxOnly(
            isa=isa,
            cuda=first[isa].version,
            min_driver_linux=first[isa].min_driver_linux,
            min_driver_windows=first[isa].min_driver_windows,
            fat_binaries=sum(count for _, count in alone),
            of=total,
        )
        yield card, found


def concerns(issue: KnownIssue, row: ReleaseRow, platform: str) -> bool:
    """Whether an issue speaks of this release by version, package and platform.

    A local version ("2.17.0+nv25.2") is another build than the published wheels, so only an issue that names it does.
    """
    where = issue.condition
    return (
        row.package in where.packages
        and (not where.platforms or platform in where.platforms)
        and ("+" not in row.version or "+" in where.versions)
        and within(row.version, where.versions)
    )


@lru_cache(maxsize=4096)
def within(version: str, specifier: str) -> bool:
    """Whether a version meets a specifier; release candidates count."""
    return _specifiers(specifier).contains(version, prereleases=True)


def _issues(row: ReleaseRow, platform: str, wheel: Wheel, data: MatrixFile) -> Iterator[KnownIssue]:
    """The issues of a release, each with its source spelled out; a card matters only to a wheel with CUDA."""
    for issue in data.known_issues:
        where = issue.condition
        about_cards = where.min_compute_capability or where.max_compute_capability
        if concerns(issue, row, platform) and (wheel.cuda or not about_cards):
            yield structs.replace(issue, source=spelled_out(data, issue.source))


def spelled_out(data: MatrixFile, key: str) -> str:
    """The address of a source, or its title when it has none."""
    source = data.sources[key]
    return source.url or source.title


def _provider(data: MatrixFile, platform: str, wheel: Wheel) -> Wheel | None:
    """The wheel that an empty one redirects to; its bounds are what an installation has to meet."""
    package, _, version = (wheel.redirects or "").partition("==")
    row = next((row for row in data.tensorflow if row.package == package and row.version == version), None)
    return row.wheels.get(platform) if row else None  # type: ignore[call-overload]  # a platform is a str here


def _sources(
    row: ReleaseRow,
    wheel: Wheel,
    bounds: Wheel,
    data: MatrixFile,
    toolkit: CudaToolkit | None,
    cudnn: str | None,
    build: Build | None,
) -> dict[str, str]:
    """Where each field of a release was read."""
    if row.source != "wheel":
        fields = ("python", "gpu", "cuda", "cudnn", "sass", "ptx", "libraries")
        return dict.fromkeys(fields, spelled_out(data, row.source))
    file = wheel.wheel
    found: dict[str, str | None] = {
        "python": "names of the wheels on the package index",
        **dict.fromkeys(_BOUNDS, f"{bounds.wheel}: METADATA"),
        "glibc": f"{file}: platform tag" if wheel.glibc else None,
        "gpu": f"{file}: " + ("METADATA (an empty wheel)" if wheel.redirects else BUILD_INFO),
    }
    if wheel.cuda is not None:
        driver = data.sources[toolkit.minor_compat_source or toolkit.source].title if toolkit else None
        found |= {
            "cuda": f"{file}: {BUILD_INFO}",
            **dict.fromkeys(("sass", "ptx"), f"{file}: {_FATBIN if wheel.kernels else BUILD_INFO}"),
            "libraries": f"{file}: {DSO_LOADER}",
            "cudnn": cudnn,
            "pip_nvidia": f"{file}: METADATA" if wheel.extra else None,
            **dict.fromkeys(("min_driver_linux", "min_driver_windows"), driver),
            "ptx_only": f"{file}: the fat binaries of its libraries" if build and build.parts else None,
        }
    return {field: source for field, source in found.items() if source}
