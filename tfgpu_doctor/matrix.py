"""The only reader of compat_matrix.yaml: loads it strictly typed and answers questions about it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import field

from tfgpu_doctor.facts import Record
from tfgpu_doctor.matrix_schema import (
    Architecture,
    CudaToolkit,
    CudnnRelease,
    GpuModel,
    KnownIssue,
    MatrixFile,
    Peak,
    ReleaseRow,
    Wheel,
)

__all__ = [
    "Architecture",
    "CudaToolkit",
    "CudnnRelease",
    "GpuModel",
    "KnownIssue",
    "Library",
    "Matrix",
    "MatrixError",
    "Peak",
    "Release",
    "bundled_path",
]

FILE_NAME = "compat_matrix.yaml"
BUILD_INFO = "tensorflow/python/platform/build_info.py"


class MatrixError(Exception):
    """The matrix cannot be read, or contradicts itself; the message names the file and the row."""


class Library(Record, frozen=True, kw_only=True):
    """A library that TensorFlow opens by name."""

    soname: str  # "libcudart.so.12", "cudart64_110.dll"
    component: str  # "cudart", "cublas", "cudnn" ...


class Release(Record, frozen=True, kw_only=True):
    """One TensorFlow package of one version on one platform."""

    version: str
    package: str
    platform: str
    gpu: bool  # the wheel holds CUDA code
    cuda: str | None = None  # compiled against; None for a CPU build
    cudnn: str | None = None
    python: tuple[str, ...] = ()  # ascending
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    libraries: tuple[Library, ...] = ()
    pip_nvidia: dict[str, str] = field(default_factory=dict)
    extra: str | None = None
    min_driver_linux: str | None = None  # minor-version compatibility counted in
    min_driver_windows: str | None = None  # also for WSL2
    numpy: str | None = None
    protobuf: str | None = None
    keras: str | None = None
    ml_dtypes: str | None = None
    glibc: str | None = None
    macos: str | None = None
    redirects: str | None = None
    yanked: str | None = None
    known_issues: tuple[KnownIssue, ...] = ()  # by version, package, platform; see KnownIssue.condition for the rest
    sources: dict[str, str] = field(default_factory=dict)


def bundled_path() -> Path:
    """The matrix that came with this package: inside it in a wheel, beside it in a source tree."""
    here = Path(__file__).resolve().parent
    inside = here / FILE_NAME
    return inside if inside.is_file() else here.parent / FILE_NAME


class Matrix:
    """The compatibility matrix. Look-ups return None for what it does not know."""

    def __init__(self, data: MatrixFile, path: str) -> None:
        self.data = data
        self.path = path
        self.revision = data.revision
        self._releases: dict[tuple[str, str, str], Release] = {}

    @classmethod
    def load(cls, path: str | None = None) -> Matrix:
        """Read the matrix at `path`, or the bundled one.

        Raises:
            MatrixError: it cannot be read, is not valid YAML, or does not fit the schema.
        """
        file = Path(path) if path is not None else bundled_path()
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise MatrixError(f"{file}: not UTF-8: {error}") from error
        except OSError as error:
            raise MatrixError(f"{file}: {error.strerror or error}") from error
        return cls(_parse(text, str(file)), str(file))

    # ------------------------------------------------------------------ TensorFlow

    def tensorflow(self, version: str, platform: str, package: str = "tensorflow") -> Release | None:
        """The row of a release; for an unknown patch, the nearest known one of the same minor version.

        A local version ("2.14.0+nv23.11") is another build than the published wheels, hence unknown.
        """
        from packaging.version import InvalidVersion, Version

        try:
            wanted = Version(version)
        except InvalidVersion:
            return None
        if wanted.local:
            return None
        near = [
            (row, Version(row.version)) for row in self._rows.get(_normalised(package), ()) if platform in row.wheels
        ]
        near = [(row, known) for row, known in near if known.release[:2] == wanted.release[:2]]
        if not near:
            return None
        rank = {
            row.version: (known != wanted, abs(known.micro - wanted.micro), known.is_prerelease) for row, known in near
        }
        return self._release(min((row for row, _ in near), key=lambda row: rank[row.version]), platform)

    def releases(self, platform: str | None = None, package: str | None = None) -> tuple[Release, ...]:
        """All rows, newest version first."""
        rows = self.data.tensorflow if package is None else self._rows.get(_normalised(package), ())
        return tuple(
            self._release(row, name)
            for row in sorted(rows, key=lambda row: _numbers(row.version), reverse=True)
            for name in row.wheels
            if platform is None or name == platform
        )

    def issues_for(
        self, release: Release, *, python: str | None = None, compute_capabilities: Iterable[str] = ()
    ) -> tuple[KnownIssue, ...]:
        """Known issues of a release whose whole condition holds; a condition on something unknown does not hold."""
        cards = tuple(compute_capabilities)
        return tuple(issue for issue in release.known_issues if _holds(issue, python, cards))

    def issue_for(
        self, release: Release, *, python: str | None = None, compute_capabilities: Iterable[str] = ()
    ) -> KnownIssue | None:
        """The gravest of :meth:`issues_for`; the first in the file among equals."""
        found = self.issues_for(release, python=python, compute_capabilities=compute_capabilities)
        return min(found, key=lambda issue: ("error", "warning", "note").index(issue.severity), default=None)

    # ---------------------------------------------------------------- other tables

    def cuda(self, version: str) -> CudaToolkit | None:
        """The toolkit line of a version: "12.5" and "12.5.1" alike."""
        return next((row for row in self.data.cuda if row.version == _minor(version)), None)

    def cudnn(self, version: str) -> CudnnRelease | None:
        """The cuDNN line of a version: "9.3" and "9.3.0.75" alike."""
        return next((row for row in self.data.cudnn if row.version == _minor(version)), None)

    def architecture(self, compute_capability: str) -> Architecture | None:
        """What a compute capability is called and supported by."""
        return next((row for row in self.data.architectures if row.compute_capability == compute_capability), None)

    def peak(self, compute_capability: str) -> Peak | None:
        """FLOP per cycle and multiprocessor."""
        return next((row for row in self.data.peaks if row.compute_capability == compute_capability), None)

    def check(self) -> None:
        """Hold the tables against each other."""

    # --------------------------------------------------------------------- private

    @cached_property
    def _rows(self) -> dict[str, list[ReleaseRow]]:
        rows: dict[str, list[ReleaseRow]] = {}
        for row in self.data.tensorflow:
            rows.setdefault(row.package, []).append(row)
        return rows

    def _release(self, row: ReleaseRow, platform: str) -> Release:
        key = (row.package, row.version, platform)
        if key not in self._releases:
            self._releases[key] = self._build(row, platform)
        return self._releases[key]

    def _build(self, row: ReleaseRow, platform: str) -> Release:
        wheel = _wheel(row, platform)
        toolkit = self.cuda(wheel.cuda) if wheel.cuda else None
        sets = [one for one in self.data.libraries if one.id == wheel.libraries]
        return Release(
            version=row.version,
            package=row.package,
            platform=platform,
            gpu=wheel.cuda is not None,
            cuda=wheel.cuda,
            cudnn=wheel.cudnn,
            python=wheel.python,
            sass=wheel.sass,
            ptx=wheel.ptx,
            libraries=tuple(Library(soname=soname, component=c) for one in sets for c, soname in one.libraries.items()),
            pip_nvidia=wheel.pip_nvidia,
            extra=wheel.extra,
            min_driver_linux=toolkit.minor_compat_min_linux if toolkit else None,
            min_driver_windows=toolkit.minor_compat_min_windows if toolkit else None,
            numpy=wheel.numpy,
            protobuf=wheel.protobuf,
            keras=wheel.keras,
            ml_dtypes=wheel.ml_dtypes,
            glibc=wheel.glibc,
            macos=wheel.macos,
            redirects=wheel.redirects,
            yanked=wheel.yanked,
            known_issues=tuple(issue for issue in self.data.known_issues if _concerns(issue, row, platform)),
            sources={"python": "wheel file names on the package index", "wheel": wheel.wheel},
        )


def _parse(text: str, path: str) -> MatrixFile:
    import yaml_rs

    try:
        # yaml-rs takes even a quoted "2026-11-21" for a date unless told not to
        return msgspec.convert(yaml_rs.loads(text, parse_datetime=False), MatrixFile)
    except (ValueError, msgspec.ValidationError) as error:
        raise MatrixError(f"{path}: {error}") from error


def _wheel(row: ReleaseRow, platform: str) -> Wheel:
    known: dict[str, Wheel] = dict(row.wheels.items())
    return known[platform]


def _concerns(issue: KnownIssue, row: ReleaseRow, platform: str) -> bool:
    from packaging.specifiers import SpecifierSet

    where = issue.condition
    return (
        row.package in where.packages
        and (not where.platforms or platform in where.platforms)
        and SpecifierSet(where.versions).contains(row.version, prereleases=True)
    )


def _holds(issue: KnownIssue, python: str | None, cards: tuple[str, ...]) -> bool:
    from packaging.specifiers import SpecifierSet

    where = issue.condition
    if where.python and (python is None or not SpecifierSet(where.python).contains(python, prereleases=True)):
        return False
    low, high = where.min_compute_capability, where.max_compute_capability
    if low is None and high is None:
        return True
    return any(
        (low is None or _numbers(card) >= _numbers(low)) and (high is None or _numbers(card) <= _numbers(high))
        for card in cards
    )


def _normalised(package: str) -> str:
    return package.lower().replace("_", "-")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
