"""The compatibility matrix: read, layered, checked, asked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.facts.reading import read_whole, why
from tfgpu_doctor.facts.report import MatrixInfo
from tfgpu_doctor.facts.versions import at_least, minor, numbers
from tfgpu_doctor.facts.yaml_nodes import YamlError, documents, plain, shortened
from tfgpu_doctor.matrix.bundled import IN_WHEEL, bundled_path, copy_of
from tfgpu_doctor.matrix.names import InstanceIndex, NameIndex
from tfgpu_doctor.matrix.rows import Gpu, Release, build_release, spelled_out, within
from tfgpu_doctor.matrix.schema import (
    KEYS,
    Architecture,
    Build,
    Condition,
    CudaToolkit,
    CudnnRelease,
    KnownIssue,
    MatrixFile,
    PackageReleases,
    PackageRow,
    Peak,
    ReleaseRow,
    key_of,
)

__all__ = ["CudaToolkit", "CudnnRelease", "Gpu", "KnownIssue", "Matrix", "MatrixError", "Release", "parse"]

LARGEST = 16 << 20  # bytes of a file; the bundled matrix has 0.4 MB
MOST_CONTRADICTIONS = 20  # that are looked for
_AS_GTX = re.compile(r"\bgtx(?=\b|\d)", re.IGNORECASE)
_SEVERITIES = ("error", "warning", "note")

_UNQUOTED = re.compile(r"Expected `str(?: \| null)?`, got `(?:int|float|bool)`")  # a message of msgspec's


class MatrixError(Exception):
    """The matrix cannot be read, or contradicts itself; each message names the file and the row."""

    def __str__(self) -> str:
        """All messages, a line each."""
        return "\n".join(self.args)


def parse(text: str | bytes, path: str) -> MatrixFile:
    """Read the text of a matrix; `path` is for messages.

    Raises MatrixError: not UTF-8, no valid YAML, or not of the schema; the message has the place.
    """
    try:
        found = documents(text if isinstance(text, str) else text.decode())
        if len(found) != 1:
            raise YamlError(1, "several YAML documents; a matrix is one" if found else "an empty file")
        values = plain(found[0])
    except UnicodeDecodeError as error:
        raise MatrixError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
    except YamlError as error:
        raise MatrixError(f"{path}:{error.line}: {error.reason}") from error
    try:
        return msgspec.convert(values, MatrixFile)
    except msgspec.ValidationError as error:
        hint = "; put it in quotes" if _UNQUOTED.match(str(error)) else ""
        raise MatrixError(f"{path}: {shortened(str(error), 500)}{hint}") from error


_ASCENDING, _FALLING = ("architectures", "peaks"), ("cuda", "cudnn", "official", "jetpacks", "ptx")


def layered(below: MatrixFile, above: MatrixFile) -> MatrixFile:
    """`above` over `below`; versions newest first, compute capabilities ascending."""
    tables: dict[str, Any] = {}
    for table, fields in KEYS.items():
        own = getattr(above, table)
        replaced = {key_of(row, fields) for row in own}
        rows = [*own, *(row for row in getattr(below, table) if key_of(row, fields) not in replaced)]
        if table in _ASCENDING or table in _FALLING:
            rows.sort(key=lambda row: numbers(getattr(row, fields[0])), reverse=table in _FALLING)
        tables[table] = tuple(rows)
    ours = {name.lower() for row in above.gpus for name in row.names}
    left = [(row, tuple(name for name in row.names if name.lower() not in ours)) for row in below.gpus]
    tables["gpus"] = (*above.gpus, *(structs.replace(row, names=names) for row, names in left if names))
    tables["tensorflow"] = _releases(below.tensorflow, above.tensorflow)
    return structs.replace(below, sources=below.sources | above.sources, **tables)


def _releases(below: Iterable[ReleaseRow], above: Iterable[ReleaseRow]) -> tuple[ReleaseRow, ...]:
    """A release keeps those platforms of ours that the upper row does not speak of."""
    rows = {(row.package, row.version): row for row in below}
    for row in above:
        ours = rows.get((row.package, row.version))
        wheels = {**ours.wheels, **row.wheels} if ours and ours.source == row.source else row.wheels
        rows[row.package, row.version] = structs.replace(row, wheels=wheels)
    packages = list(dict.fromkeys(package for package, _ in rows))
    newest_first = sorted(rows.values(), key=lambda row: Version(row.version), reverse=True)
    return tuple(sorted(newest_first, key=lambda row: packages.index(row.package)))


class Matrix:
    """The compatibility matrix. Look-ups return None for what it does not know."""

    def __init__(self, data: MatrixFile, path: str, revision: str | None = None) -> None:
        self.data = data
        self.path = path
        self.revision = revision or data.revision
        self.layers: tuple[str, ...] = ()  # files laid over the bundled matrix
        self._toolkits = {row.version: row for row in data.cuda}
        self._releases: dict[tuple[str, str, str], Release] = {}
        self._sorted: dict[tuple[str | None, str | None], tuple[Release, ...]] = {}

    @property
    def info(self) -> MatrixInfo:
        """What results say of the matrix that they rest on."""
        return MatrixInfo(revision=self.revision, source=", ".join(self.layers) or "bundled")

    @classmethod
    def load(cls, *layers: str | None) -> Matrix:
        """Read the bundled matrix, and lay the files at `layers` over it, the last on top.

        With files of the user's it is also held against itself by :meth:`check`; the tests do that for ours.

        Raises MatrixError: a file cannot be read, is not valid YAML, does not fit the schema, or contradicts the rest.
        """
        matrix = cls(_bundled(), str(bundled_path()))
        files = [layer for layer in layers if layer is not None]
        for file in files:
            above = parse(_bytes(file), file)
            matrix = cls(layered(matrix.data, above), file, f"{matrix.revision}+{above.revision}")
        if files:
            matrix.layers = tuple(files)
            matrix.check()
        return matrix

    def check(self) -> None:
        """Hold the tables against each other.

        Raises MatrixError: with a line for each of the first contradictions; it names the row and the valid values.
        """
        from tfgpu_doctor.matrix.lint import contradictions

        if found := [*islice(contradictions(self.data), MOST_CONTRADICTIONS)]:
            raise MatrixError(*(f"{self.path}: {shortened(one, 500)}" for one in found))

    def tensorflow(self, version: str, platform: str, package: str = "tensorflow") -> Release | None:
        """The row of a release; for an unknown patch, the nearest known one of the same minor version.

        The row's own `version` tells which. A local version ("2.14.0+nv23.11") is another build than the published
        wheels, so it is known only where a row has exactly that version.
        """
        try:
            wanted = Version(version)
        except ValueError:
            return None
        ranked = [
            ((known != wanted, known.is_prerelease, abs(known.micro - wanted.micro), known.is_postrelease), row)
            for row in self._rows.get(_normalised(package), ())
            if platform in row.wheels and (known := Version(row.version)).release[:2] == wanted.release[:2]
            if known == wanted or not (known.local or wanted.local)
        ]
        return self._release(min(ranked, key=lambda pair: pair[0])[1], platform) if ranked else None

    def releases(self, platform: str | None = None, package: str | None = None) -> tuple[Release, ...]:
        """All rows, newest version first."""
        key = (platform, package)
        if key not in self._sorted:
            rows = self.data.tensorflow if package is None else self._rows.get(_normalised(package), ())
            newest_first = sorted(rows, key=lambda row: Version(row.version), reverse=True)
            wheels = ((row, name) for row in newest_first for name in row.wheels if platform in (None, name))
            self._sorted[key] = tuple(self._release(row, name) for row, name in wheels)
        return self._sorted[key]

    def stable(self, platform: str | None = None, package: str | None = None) -> tuple[Release, ...]:
        """The same without release candidates and nightly builds."""
        return tuple(row for row in self.releases(platform, package) if not row.prerelease)

    def issues_for(
        self,
        release: Release,
        *,
        python: str | None = None,
        compute_capabilities: Iterable[str] = (),
        cudnn: str | None = None,
        ptxas: str | None = None,
        driver: str | None = None,
        extra: bool = False,
        beside: Mapping[str, str] | None = None,
        cpu_flags: Iterable[str] = (),
    ) -> tuple[KnownIssue, ...]:
        """Known issues of a release whose whole condition holds; a condition on something unknown does not hold.

        Args:
            extra: CUDA comes from the pip extra, and the loader finds it by the RUNPATH alone.
            beside: the distributions in its environment and their versions.
            cpu_flags: what the processor can, as /proc/cpuinfo names it; empty: unknown.
        """
        others = {_normalised(name): version for name, version in (beside or {}).items()}
        known = {"python": python, "cudnn": cudnn, "ptxas": ptxas, "driver": driver}
        here = (known, others, tuple(compute_capabilities), frozenset(cpu_flags))
        issues = (issue for issue in release.known_issues if extra or not issue.condition.extra)
        return tuple(issue for issue in issues if _holds(issue.condition, *here))

    def issue_for(self, release: Release, **conditions: Any) -> KnownIssue | None:
        """The gravest of :meth:`issues_for`, which takes the same, that affects an installed release; else None."""
        running = (issue for issue in self.issues_for(release, **conditions) if issue.affects == "run")
        return min(running, key=lambda issue: _SEVERITIES.index(issue.severity), default=None)

    def cuda(self, version: str) -> CudaToolkit | None:
        """The row of a toolkit; an update without a row of its own is answered by its minor version's."""
        return self._toolkits.get(".".join(version.split(".")[:3])) or self._toolkits.get(minor(version))

    def cudnn(self, version: str) -> CudnnRelease | None:
        """The cuDNN line of a version: "9.3" and "9.3.0.75" alike."""
        return next((row for row in self.data.cudnn if row.version == minor(version)), None)

    def architecture(self, compute_capability: str) -> Architecture | None:
        """What a compute capability is called and supported by."""
        return next((row for row in self.data.architectures if row.compute_capability == compute_capability), None)

    def peak(self, compute_capability: str, name: str | None = None) -> Peak | None:
        """FLOP per cycle and multiprocessor; `name` tells product lines apart (GeForce at half tensor rate)."""
        rows = (row for row in self.data.peaks if row.compute_capability == compute_capability)
        own = (row for row in rows if (row.products or "").lower() in (name or "").lower())
        return max(own, key=lambda row: len(row.products or ""), default=None)  # "L40S" is no "L40"

    def gpu(self, name: str) -> Gpu | None:
        """A GPU by its name, as the driver or a person writes it: "NVIDIA GeForce RTX 4090 Laptop GPU", "rtx 4090".

        None for an unknown name, and for one that means GPUs of several compute capabilities (:meth:`gpu_candidates`).
        """
        found = self.gpu_candidates(name)
        return found[0] if len({one.compute_capability for one in found}) == 1 else None

    def gpu_as_written(self, name: str) -> Gpu | None:
        """The same in a sentence, where people write of a GTX 3090, too."""
        return self.gpu(name) or self.gpu(_AS_GTX.sub("RTX", name))

    def gpu_candidates(self, name: str) -> tuple[Gpu, ...]:
        """All GPUs that a name means, the nearest first: three of "RTX 6000", that of a cloud's "p3.2xlarge"."""
        found = self._gpu_names.find(name)
        if not found and (instance := self.instances.find(name)):
            found = (instance.gpu,)
        return tuple(gpu for known in found for gpu in self._gpus.get(known, ()))

    def gpu_of_device(self, device_id: str) -> Gpu | None:
        """The GPU of a PCI vendor and device id, "10de:2684"; None for one that the lists do not have."""
        return self._devices.get(device_id.lower())

    def nearest_gpus(self, name: str) -> tuple[str, ...]:
        """Up to three known names that are written most like an unknown one."""
        return self._gpu_names.nearest(name)

    @cached_property
    def instances(self) -> InstanceIndex:
        """The instance types of clouds."""
        return InstanceIndex(self.data.instances)

    @cached_property
    def _gpu_names(self) -> NameIndex:
        return NameIndex(self._gpus)

    @cached_property
    def _gpus(self) -> dict[str, tuple[Gpu, ...]]:
        """Name → the models of that name, one for each compute capability that it was sold with."""
        models: dict[str, tuple[Gpu, ...]] = {}
        for row in self.data.gpus:
            card = self.architecture(row.compute_capability)
            for name in row.names:
                model = Gpu(
                    name=name,
                    compute_capability=row.compute_capability,
                    source=spelled_out(self.data, row.source),
                    driver_source=spelled_out(self.data, row.driver_source or row.source),
                    first_driver_branch=row.first_driver_branch,
                    driver_at_least=card.first_driver_branch if card else None,
                    last_driver_branch=row.last_driver_branch or (card.last_driver_branch if card else None),
                )
                models[name] = (*models.get(name, ()), model)
        return models

    @cached_property
    def _devices(self) -> dict[str, Gpu]:
        """Device id → the model of that name with that chip."""
        models = {(gpu.name, gpu.compute_capability): gpu for models in self._gpus.values() for gpu in models}
        return {
            f"10de:{device}": models[name, row.compute_capability]
            for row in self.data.pci_devices
            for name, devices in row.devices.items()
            if (name, row.compute_capability) in models
            for device in devices.split()
        }

    @cached_property
    def packages(self) -> dict[str, PackageRow]:
        """What is known of the requirements of TensorFlow and of the packages beside it."""
        known = {row.package: row for row in self.data.packages}
        for one in self.data.nvidia:
            known[one.package] = PackageRow(package=one.package, releases=(PackageReleases(versions=one.versions),))
        return known

    @cached_property
    def _builds(self) -> dict[tuple[str, str, str], Build]:
        return {
            (package, version, row.platform): row
            for row in reversed(self.data.builds)  # those of a file laid over ours stand first
            for package, versions in row.releases.items()
            for version in versions.split()
        }

    @cached_property
    def _rows(self) -> dict[str, list[ReleaseRow]]:
        rows: dict[str, list[ReleaseRow]] = {}
        for row in self.data.tensorflow:
            rows.setdefault(row.package, []).append(row)
        return rows

    def _release(self, row: ReleaseRow, platform: str) -> Release:
        key = (row.package, row.version, platform)
        if key not in self._releases:
            wheel = row.wheels[platform]  # type: ignore[index]  # a platform is a str to those who ask
            toolkit = self.cuda(wheel.cuda) if wheel.cuda else None
            build = self._builds.get(key) if row.source == "wheel" else None
            self._releases[key] = build_release(row, platform, wheel, self.data, toolkit, build)
        return self._releases[key]


def _bundled() -> MatrixFile:
    """The matrix of this package, decoded where that can be (bundled.py)."""
    file = bundled_path()
    source = _bytes(str(file))
    try:
        if file == IN_WHEEL:
            return msgspec.json.decode(source, type=MatrixFile)
        with contextlib.suppress(OSError, msgspec.DecodeError):  # no copy, or one of an earlier schema
            return msgspec.json.decode(copy_of(source).read_bytes(), type=MatrixFile)
    except msgspec.DecodeError as error:
        raise MatrixError(f"{file}: damaged ({error}); install tfgpu-doctor again") from error
    return parse(source, str(file))


def _bytes(file: str) -> bytes:
    try:
        return read_whole(file, LARGEST)
    except OSError as error:
        raise MatrixError(f"{file}: {why(error)}") from error


def _holds(
    where: Condition,
    known: Mapping[str, str | None],
    others: Mapping[str, str],
    cards: tuple[str, ...],
    cpu_flags: frozenset[str],
) -> bool:
    """Whether a condition holds for these versions, distributions, GPUs and processor."""
    versions = [(version, getattr(where, name)) for name, version in known.items()]
    versions += [(others.get(_normalised(name)), wanted) for name, wanted in where.beside.items()]
    low, high = where.min_compute_capability, where.max_compute_capability
    on_a_card = any(at_least(card, low or card) and at_least(high or card, card) for card in cards)
    return (
        all(_within(version, wanted) for version, wanted in versions)
        and (on_a_card or not (low or high))
        and (where.cpu_lacks is None or (bool(cpu_flags) and where.cpu_lacks not in cpu_flags))
    )


def _within(version: str | None, specifier: str | None) -> bool:
    """Whether a condition holds; one on a version that is unknown, or that cannot be read, does not."""
    if specifier is None or version is None:
        return specifier is None
    try:
        return within(version, specifier)
    except ValueError:  # a saved report can hold any text
        return False


def _normalised(package: str) -> str:
    return package.lower().replace("_", "-")
