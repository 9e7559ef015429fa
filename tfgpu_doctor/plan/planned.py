"""One environment of the manifests, seen through the matrix: which TensorFlow, Python and CUDA it will have. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.manifests import Difference, Environment, Requirement
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.base_images import Base, read_base
from tfgpu_doctor.plan.resolving import TooHard, Unsolvable, Wanted, solve
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.plan.universe import Universe, holds, universe_of
from tfgpu_doctor.records.distributions import CONDA_BASE, TENSORFLOW
from tfgpu_doctor.records.resolution import Answer
from tfgpu_doctor.records.versions import major

_TENSORFLOWS = frozenset({*TENSORFLOW, CONDA_BASE})
# conda packages and what they say of CUDA
_TOOLKITS = ("cudatoolkit", "cuda-version", "cuda-toolkit", "cuda-runtime", "cuda")
PYTHONS = tuple(f"3.{minor}" for minor in range(4, 15))


@dataclass(frozen=True)
class Cuda:
    """A CUDA or cuDNN that the environment gets from somewhere else than TensorFlow's extra."""

    version: str  # as far as it is told: "11", "11.8", "12.3.2"
    text: str  # "cudatoolkit=11.2", "nvidia/cuda:11.8.0-base-ubuntu22.04"
    place: str  # "Dockerfile:1"
    line: Requirement | None = None  # that brings it; None: an image

    @property
    def major(self) -> str:
        """The part that the sonames carry."""
        return major(self.version)


@dataclass(frozen=True)
class PlannedEnvironment:
    """What installers will make of it."""

    environment: Environment
    matrix: Matrix
    target: Target  # with the environment's own Python, where it names one
    asked: bool  # a GPU is asked for by the target
    base: Base | None
    tensorflow: Requirement | None  # the requirement that brings it; None: the image, or nothing
    others: tuple[Requirement, ...]  # further ones
    differences: tuple[Difference, ...] = ()  # from other files of the project
    answer: Answer | None = None  # of a real resolver, that was asked

    # ------------------------------------------------------------------------------------------- TensorFlow

    @property
    def wants_gpu(self) -> bool:
        """Whether a GPU is meant to be used: by the target, by a request, by an image made for it, or by the extra."""
        image = self.base is not None and self.base.gpu
        return bool(self.asked or self.environment.gpu or image or (self.tensorflow and self.tensorflow.extras))

    @property
    def needs_request(self) -> bool:
        """Whether a GPU is meant to be used, and the file, which would have to, requests none."""
        return self.environment.gpu is None and (self.wants_gpu or (self.release is not None and self.extra))

    @property
    def package(self) -> str:
        """The distribution."""
        return self.tensorflow.name if self.tensorflow else "tensorflow"

    @property
    def allowed(self) -> tuple[Release, ...]:
        """Releases that the requirement, or the image, admits for the platform, newest first."""
        package = "tensorflow" if self.package == "tensorflow-base" else self.package
        rows = self.matrix.releases(platform=self.target.platform, package=package)
        if self.tensorflow is None:
            inside = self.base.tensorflow if self.base else None
            return tuple(row for row in rows if inside and row.version == inside)
        wanted = specifier(self.tensorflow.specifier)
        return tuple(
            row
            for row in rows
            if wanted is not None
            and wanted.contains(row.version, prereleases=True)
            and (
                not Version(row.version).is_prerelease
                or "rc" in self.tensorflow.specifier
                or "dev" in self.tensorflow.specifier
            )
        )

    @property
    def release(self) -> Release | None:
        """What the installer will take: the newest admitted release with a wheel for the Python; None: unknown.

        It must also go with the other requirements: `tensorflow` beside tf-keras==2.15.0 is 2.15.1.
        """
        python, beside = self.python, self.versions.get(self.package)
        rows = [row for row in self.allowed if python is None or python in row.python]
        return next((row for row in rows if row.version == beside), next(iter(rows), None))

    # ------------------------------------------------------------------------------------------- resolution

    @property
    def universe(self) -> Universe:
        """The packages that there are for the Python; where several are possible, for the newest that goes."""
        return self._resolution[0]

    @property
    def versions(self) -> dict[str, str]:
        """What is installed of the packages that the matrix knows; empty where no versions go together, or unknown."""
        return self._resolution[1]

    @property
    def refused(self) -> bool:
        """Whether no installer can meet all requirements, with any possible Python; one that did has the last word."""
        return self._resolution[2] and (self.answer is None or self.answer.refusal is not None)

    @cached_property
    def _resolution(self) -> tuple[Universe, dict[str, str], bool]:
        wanted = [one for _, one in self.wanted]
        universes = [universe_of(self.matrix, self.target.platform, one) for one in self._possible_pythons()]
        pythons = {python for row in self.allowed for python in row.python}
        if len(wanted) < 2 or self.conda or not pythons.intersection(one.python for one in universes):
            return universes[0], {}, False
        for universe in universes:
            try:
                return universe, solve(universe, [one for line, one in self.wanted_in(universe)]), False
            except Unsolvable:
                continue
            except TooHard:
                return universe, {}, False
        return universes[0], {}, True

    def _possible_pythons(self) -> tuple[str, ...]:
        """Newest first; those for which some admitted release has a wheel, if there are any."""
        pythons = (self.pythons or PYTHONS)[::-1]
        return tuple(one for one in pythons if any(one in row.python for row in self.allowed)) or pythons

    @cached_property
    def wanted(self) -> tuple[tuple[Requirement, Wanted], ...]:
        """What pip is asked for, TensorFlow first; an image's own TensorFlow stays as it is."""
        first = self.tensorflow
        lines = [first] if first else []
        if first is None and self.base and self.base.tensorflow:
            image = self.base.image
            lines.append(Requirement("tensorflow", f"=={self.base.tensorflow}", image.place, image.reference))
        others = [*self.others, *(one for one in self.environment.requirements if one.name not in _TENSORFLOWS)]
        lines += [one for one in others if one.installer == "pip" and one.name in self.matrix.packages]
        return tuple((one, Wanted(one.name, one.specifier, one.extras)) for one in lines)

    def wanted_in(self, universe: Universe) -> tuple[tuple[Requirement, Wanted], ...]:
        """Of these, what is wanted with a Python: markers can leave some out."""
        own = (self.tensorflow, *self.others)  # their markers have been looked at
        return tuple((line, one) for line, one in self.wanted if line in own or universe.holds(line.marker))

    @property
    def extra(self) -> bool:
        """Whether TensorFlow's extra brings CUDA."""
        row = self.release
        return bool(self.tensorflow and row and row.extra and row.extra in self.tensorflow.extras)

    @property
    def conda(self) -> bool:
        """Whether conda brings TensorFlow."""
        return self.tensorflow is not None and self.tensorflow.installer == "conda"

    # ---------------------------------------------------------------------------------------------- Python

    @property
    def python(self) -> str | None:
        """The one Python, where there is only one."""
        pythons = self.pythons
        return pythons[-1] if pythons and len(pythons) == 1 else None

    @property
    def pythons(self) -> tuple[str, ...] | None:
        """The Pythons that the environment admits, ascending; None: unknown."""
        bounds = [wanted for one in self.environment.python if (wanted := specifier(one.specifier)) is not None]
        if bounds:
            admitted = tuple(one for one in PYTHONS if all(_admits(wanted, one) for wanted in bounds))
            return admitted or tuple(one for one in PYTHONS if _admits(bounds[0], one))  # files that differ
        maker = read_base(self.environment.packages_of, self.matrix)
        if maker and maker.python:
            return (maker.python,)
        if self.base and self.base.python:
            return (self.base.python,)
        return (self.target.python,) if self.target.python else None

    @property
    def python_place(self) -> str:
        """Where the Python comes from."""
        if self.environment.python:
            return str(self.environment.python[0].place)
        maker = read_base(self.environment.packages_of, self.matrix)
        if maker and maker.python:
            return str(maker.image.place)
        if self.base and self.base.python:
            return str(self.base.image.place)
        return "--python"

    # ------------------------------------------------------------------------------------------------ CUDA

    @property
    def cudas(self) -> tuple[Cuda, ...]:
        """Every CUDA that the environment names."""
        return tuple(self._cudas())

    def _cudas(self) -> Iterator[Cuda]:
        if self.base and self.base.cuda:
            yield Cuda(self.base.cuda, self.base.image.reference, str(self.base.image.place))
        for one in self.environment.requirements:
            version = pinned(one)
            if one.installer == "conda" and one.name in _TOOLKITS and version:
                yield Cuda(version, one.text, str(one.place), one)
            elif found := re.fullmatch(r"nvidia-(?:cuda-runtime|cublas|cudnn)-cu(\d+)", one.name):
                yield Cuda(found.group(1), one.text, str(one.place), one)
            elif found := re.fullmatch(r"cuda-(?:toolkit|libraries|runtime)-(\d+)-(\d+)", one.name):
                yield Cuda(f"{found.group(1)}.{found.group(2)}", one.text, str(one.place), one)

    @property
    def cudnns(self) -> tuple[Cuda, ...]:
        """Every cuDNN that the environment names; its version may be empty where the image does not tell."""
        return tuple(self._cudnns())

    def _cudnns(self) -> Iterator[Cuda]:
        if self.base and self.base.cudnn is not None:
            yield Cuda(self.base.cudnn, self.base.image.reference, str(self.base.image.place))
        for one in self.environment.requirements:
            if one.name == "cudnn" or re.fullmatch(r"nvidia-cudnn-cu\d+", one.name):
                yield Cuda(pinned(one) or "", one.text, str(one.place), one)
            elif found := re.fullmatch(r"libcudnn(\d+)(?:-cuda-\d+)?", one.name):
                yield Cuda(pinned(one) or found.group(1), one.text, str(one.place), one)

    @property
    def where(self) -> str:
        """The line that TensorFlow stands on, or the image that brings it."""
        if self.tensorflow:
            return str(self.tensorflow.place)
        return str(self.base.image.place if self.base else self.environment.place)

    def requirement(self, name: str) -> Requirement | None:
        """The requirement of a distribution."""
        named = (one for one in self.environment.requirements if one.name == name)
        return next((one for one in named if _applies(one, self.target)), None)

    @property
    def judged(self) -> bool:
        """Whether there is a TensorFlow to judge."""
        return self.tensorflow is not None or (self.base is not None and self.base.tensorflow is not None)


def planned(environment: Environment, target: Target, matrix: Matrix) -> PlannedEnvironment:
    """Look at one environment."""
    base = read_base(environment.image, matrix)
    named = [one for one in environment.requirements if one.name in _TENSORFLOWS and _applies(one, target)]
    found = [_together([one for one in named if one.name == name]) for name in dict.fromkeys(one.name for one in named)]
    first = min(found, key=lambda one: (one.name != "tensorflow", one.name == CONDA_BASE), default=None)
    seen = PlannedEnvironment(
        environment, matrix, target, bool(target.gpus), base, first, tuple(one for one in found if one is not first)
    )
    return seen if seen.python is None else _with_python(seen, seen.python)


def _together(same: list[Requirement]) -> Requirement:
    """What several lines about one distribution ask for; the last of them is shown."""
    extras = tuple(dict.fromkeys(extra for one in same for extra in one.extras))
    bounds = ",".join(dict.fromkeys(one.specifier for one in same if one.specifier))
    return replace(same[-1], specifier=bounds, extras=extras)


def _with_python(seen: PlannedEnvironment, python: str) -> PlannedEnvironment:
    return PlannedEnvironment(
        seen.environment,
        seen.matrix,
        structs.replace(seen.target, python=python),
        seen.asked,
        seen.base,
        seen.tensorflow,
        seen.others,
    )


def _applies(one: Requirement, target: Target) -> bool:
    """Whether an environment marker holds for the target; without a Python, for one of them."""
    pythons = (target.python,) if target.python else PYTHONS
    return one.marker is None or any(holds(one.marker, target.platform, python) for python in pythons)


def specifier(text: str) -> SpecifierSet | None:
    """Read a specifier; None for one that cannot be read."""
    try:
        return SpecifierSet(text)
    except ValueError:
        return None


def pinned(one: Requirement) -> str | None:
    """The version that a requirement pins: "11.2" for ==11.2.* and for ==11.2."""
    found = re.match(r"={2,3}\s*v?(\d+(?:\.\d+)*)", one.specifier)
    return found.group(1) if found else None


def _admits(wanted: SpecifierSet, python: str) -> bool:
    """Whether a requires-python admits some patch of a minor version."""
    named = (one.version for one in wanted if one.version.startswith(f"{python}."))
    return any(
        wanted.contains(one) for one in (*(f"{python}.{patch}" for patch in (0, 6, 30)), *named) if "*" not in one
    )
