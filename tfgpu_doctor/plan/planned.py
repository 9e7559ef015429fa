"""One environment of the manifests, seen through the matrix: TensorFlow, Python, CUDA, lines that conflict. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.facts.distributions import CONDA_BASE, TENSORFLOW
from tfgpu_doctor.facts.report import Evidence
from tfgpu_doctor.facts.versions import at_least, major, minor, numbers
from tfgpu_doctor.findings.requirements import companion_bound
from tfgpu_doctor.manifests import Environment, Image, Place, Requirement, bounds_of_all
from tfgpu_doctor.manifests.dockerfile import instructions
from tfgpu_doctor.manifests.shell import MINICONDA_LATEST
from tfgpu_doctor.manifests.variables import read_image
from tfgpu_doctor.matrix.compatibility import drives, numpy_bound
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import Container, CudaImage
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.resolving import (
    Universe,
    Wanted,
    admits,
    holds,
    smallest_conflict,
    solve,
    specifier,
    universe_of,
)
from tfgpu_doctor.plan.target import Target

# https://github.com/NVIDIA/nvidia-docker: nvidia/cuda:12.3.2-cudnn9-runtime-ubuntu22.04, 12.6.3-cudnn-devel-ubi9
_CUDA_TAG = re.compile(
    r"(?P<cuda>\d+\.\d+(?:\.\d+)?)(?:-(?P<cudnn>cudnn(?P<major>\d*)))?-(?P<flavour>base|runtime|devel)"
)
_DISTRIBUTION = re.compile(r"(ubuntu|debian|ubi|rockylinux|centos)-?(\d+(?:\.\d+)?)?")
_TENSORFLOW_TAG = re.compile(r"(?P<version>\d+\.\d+(?:\.\d+(?:rc\d+)?)?|latest|nightly)(?P<rest>(?:-[a-z0-9]+)*)")
# packages python3 of the distributions (packages.ubuntu.com, packages.debian.org, Red Hat's life-cycle pages)
_SYSTEMS_WITH = {
    "3.5": ("ubuntu16.04", "ubuntuxenial"),
    "3.6": ("ubuntu18.04", "ubuntubionic"),
    "3.7": ("debian10", "debianbuster"),
    "3.8": ("ubuntu20.04", "ubuntufocal"),
    "3.9": ("debian11", "debianbullseye", "ubi9", "rockylinux9"),
    "3.10": ("ubuntu22.04", "ubuntujammy"),
    "3.11": ("debian12", "debianbookworm", "ubuntu23.04", "ubuntu23.10"),
    "3.12": ("ubuntu24.04", "ubuntunoble", "ubuntu24.10"),
    "3.13": ("debian13", "debiantrixie", "ubuntu25.04", "ubuntu25.10"),
}
_SYSTEM_PYTHON = {system: python for python, systems in _SYSTEMS_WITH.items() for system in systems}
# nvidia/cuda: CUDA 10 and older, and superseded patches, were deleted in 2023 (NVIDIA/cudf-spark-examples pull
# request 311, nvidia-docker issues 1735, 1768, 1790); a tag without a patch number is one of these, or never was
_LAST_PATCH = {f"11.{line}": f"11.{line}.{patch}" for line, patch in enumerate((3, 1, 2, 1, 3, 2, 2, 1, 0))}
# "20.10-tf2-py3", "21.12-tf2-python-py3"; those with vLLM and TensorRT-LLM have a CUDA of their own
_MONTH = re.compile(r"(?P<month>\d\d\.\d\d)(?!.*(?:llm|igpu))")
_OF_A_MONTH = ("nvidia/tensorflow", "nvidia/tritonserver", "nvidia/tensorrtserver")
PYTHONS = tuple(f"3.{minor}" for minor in range(4, 15))
_NEWEST = {"python": PYTHONS[-1], "continuumio/miniconda3": MINICONDA_LATEST}
# tags that follow it: docker-library/official-images, library/python; those of old Debians stand still
_MOVING = re.compile(r"(?!.*(?:bullseye|buster|stretch))(?:(?:latest|3|slim|alpine|bookworm|trixie)(?:-.*)?)?")
# images that hold no CUDA, whatever their tag
_OF_UV = "ghcr.io/astral-sh/uv"
_WITHOUT_CUDA = frozenset({*_NEWEST, _OF_UV, "ubuntu", "debian", "alpine", "fedora", "rockylinux", "centos"})


@dataclass(frozen=True)
class Base:
    """An image as far as its name tells."""

    image: Image
    cuda: str | None = None  # "12.3.2"; None: none, or unknown
    no_cuda: bool = False  # it is known to hold none
    cudnn: str | None = None  # "8", "9.7"; "" where there is one of unknown version
    flavour: str | None = None  # of nvidia/cuda: "base", "runtime", "devel"
    python: str | None = None
    tensorflow: str | None = None  # version of the TensorFlow inside
    gpu: bool = False  # made for GPUs
    of_a_month: bool = False  # it is one of NVIDIA's series of monthly images
    of_tensorflow: bool = False  # it holds a TensorFlow, of whatever version
    container: Container | None = None  # its row in the matrix, or that of its minor version
    source: str = ""  # of the rule of the matrix that it follows, where it has no row


# where the images of Docker Hub are mirrored under the same names, and NVIDIA's registry
_REGISTRY = re.compile(
    r"^nvcr\.io/|^(?:(?:docker\.io|index\.docker\.io|mirror\.gcr\.io|public\.ecr\.aws/docker)/)?(?:library/)?"
)


def read_base(image: Image | None, matrix: Matrix) -> Base | None:
    """What an image is known to bring; None without an image."""
    if image is None:
        return None
    name, tag = _REGISTRY.sub("", image.name), image.tag or ""
    if name in ("nvidia/cuda", "cuda"):
        return _cuda(image, tag, matrix)
    if name == "tensorflow/tensorflow":
        return _tensorflow(image, matrix)
    if name in _OF_A_MONTH:
        return _monthly(image, name, tag, matrix)
    if name in _WITHOUT_CUDA:
        return Base(image, no_cuda=True, python=_python(image, name, tag))
    if name == "tensorflow/serving":
        return Base(image, tensorflow="".join(re.findall(r"^[\d.]+", tag)) or None, gpu="-gpu" in tag)
    return Base(image)


def _monthly(image: Image, name: str, tag: str, matrix: Matrix) -> Base:
    listed, found = _listed(image, matrix, f"nvcr.io/{name}", tag), _MONTH.match(tag)
    rows = (row for row in matrix.data.monthly_images if found and row.first <= found["month"] <= row.last)
    month = None if listed.container else next(rows, None)  # without a row of its own: of that month's images
    listed = replace(listed, of_tensorflow=name == "nvidia/tensorflow", of_a_month=True)
    if month is None:
        return listed
    python = month.python if listed.of_tensorflow and "-py2" not in tag else None
    return replace(listed, cuda=month.cuda, cudnn="", source=month.source, python=python)


def _cuda(image: Image, tag: str, matrix: Matrix) -> Base:
    found = _CUDA_TAG.match(tag)
    if found is None:
        return Base(image, gpu=True)
    # since CUDA 12.4 the tags say cudnn without its major version, which is 9
    cudnn, systems = (found["major"] or "9") if found["cudnn"] else None, _DISTRIBUTION.findall(tag)
    told = _cudnn_in(found["cuda"], cudnn, matrix) if cudnn else None
    python = _SYSTEM_PYTHON.get("".join(systems[-1])) if systems else None
    base = Base(image, cuda=found["cuda"], cudnn=cudnn, flavour=found["flavour"], python=python, gpu=True)
    return replace(base, cudnn=told.cudnn, source=told.source) if told else base


def _cudnn_in(cuda: str, line: str, matrix: Matrix) -> CudaImage | None:
    """The row with the cuDNN of a major version in the images of a CUDA; None: unknown."""
    rows = [row for row in matrix.data.cuda_images if minor(row.cuda) == minor(cuda) and major(row.cudnn) == line]
    from_here = [row for row in rows if numbers(row.cuda) <= (*numbers(cuda), *(0,) * 3)[:3]]
    return max(from_here, key=lambda row: numbers(row.cuda), default=None)


def with_cudnn(base: Base, wanted: str, matrix: Matrix) -> str | None:
    """The same image of nvidia/cuda with a cuDNN that serves this one; None where there is no such tag.

    cuDNN is 7 up to CUDA 10, 8 up to 12.2, and 9 from 12.3.2 on; since 12.4 its number is not in the tag.
    """
    cuda = numbers(base.cuda or "")
    there = "7" if cuda < (11,) else "8" if cuda < (12, 3) else "9" if cuda >= (12, 3, 2) else None
    has = _cudnn_in(base.cuda or "", there, matrix) if there else None
    is_older = has is not None and at_least(has.cudnn, minor(wanted)) is False
    if cuda < (9,) or there != major(wanted) or is_older or base.flavour not in ("runtime", "devel"):
        return None
    word = "cudnn" if cuda >= (12, 4) else f"cudnn{there}"
    made = replace(base.image, tag=re.sub(f"-(?={base.flavour})", f"-{word}-", base.image.tag or "", count=1))
    return missing_tag(made)[1] or made.reference


def _tensorflow(image: Image, matrix: Matrix) -> Base:
    found = _TENSORFLOW_TAG.fullmatch(image.tag or "latest")
    if found is None:
        return Base(image)
    # tags with -py3 were last written for 2.1: tensorflow.org/install/docker
    named = "2.1.0" if found["version"] == "latest" and "-py3" in found["rest"] else found["version"]
    version = named if named[0].isdigit() else None
    rows = [one for one in matrix.data.containers if one.image == "tensorflow/tensorflow"]
    if named == "latest":
        version = max((one.tensorflow for one in rows), key=Version)
    near = _of_minor(rows, version)
    if "-gpu" not in found["rest"]:  # its Python is that of the image with CUDA
        python = near[0].python if near else None
        return Base(image, python=python, tensorflow=version, no_cuda=True, of_tensorflow=True)
    if not near:
        return Base(image, cuda=_cuda_of(version, matrix), tensorflow=version, gpu=True, of_tensorflow=True)
    listed = _listed(image, matrix, near[0].image, near[0].tag)
    return listed if image.tag == near[0].tag else replace(listed, tensorflow=version, source=near[0].source)


def _cuda_of(version: str | None, matrix: Matrix) -> str | None:
    """The CUDA of a release's wheel, which its image has, too."""
    wheels = (matrix.tensorflow(version or "", "linux_x86_64", name) for name in ("tensorflow-gpu", "tensorflow"))
    return next((row.cuda for row in wheels if row and row.cuda), None)


def _of_minor(rows: Iterable[Container], version: str | None) -> list[Container]:
    """The image of a release first, then those of its minor version, whose CUDA a patch release has, too."""
    same = (one for one in rows if version and minor(one.tensorflow) == minor(version))
    return sorted(same, key=lambda one: one.tensorflow != version)


def missing_tag(image: Image) -> tuple[bool, str | None]:
    """Whether the registry lacks a tag of nvidia/cuda; and the tag of the last patch of its CUDA, which it has."""
    name, tag = image.name.removeprefix("docker.io/").removeprefix("nvcr.io/"), image.tag or ""
    found = _CUDA_TAG.match(tag)
    if name != "nvidia/cuda" or found is None:  # of which NVIDIA has no tag latest
        return name == "nvidia/cuda" and tag in ("", "latest") and "$" not in image.text, None
    cuda, last = found["cuda"], _LAST_PATCH.get(minor(found["cuda"]))
    is_superseded = last is not None and cuda != last and at_least(cuda, "11.2") is True
    is_old = at_least(cuda, "11") is False or cuda.count(".") < 2
    return is_old or is_superseded, f"{image.name}:{last}{tag[len(cuda) :]}" if last else None


def _listed(image: Image, matrix: Matrix, name: str, tag: str) -> Base:
    row = next((one for one in matrix.data.containers if one.image == name and one.tag == tag), None)
    if row is None:
        return Base(image, gpu=True)
    return Base(
        image,
        cuda=row.cuda,
        cudnn=row.cudnn or "",
        flavour="runtime",
        python=row.python,
        tensorflow=row.tensorflow,
        gpu=True,
        of_tensorflow=True,
        container=row,
    )


def base_named(reference: str, matrix: Matrix) -> Base | None:
    """What the image of a command or a text is known to bring."""
    return read_base(read_image(reference, Place(reference, 1)), matrix)


def image_answer(reference: str, matrix: Matrix) -> list[dict[str, Any]]:
    """What the rules of the matrix tell of an image without a row, in the form of its rows; empty where none does."""
    base = base_named(reference, matrix)
    if base is None or not base.source:
        return []
    told = {"tensorflow": base.tensorflow, "cuda": base.cuda, "cudnn": base.cudnn, "python": base.python}
    row = {key: value for key, value in {**told, "min_driver": driver_of(base, matrix)}.items() if value}
    sources = {"source": spelled_out(matrix.data, base.source)}
    return [{"table": "images", "name": reference, "row": row, "sources": sources}]


def driver_of(base: Base, matrix: Matrix) -> str | None:
    """The oldest driver on which an image starts: that of its CUDA (NVIDIA_REQUIRE_CUDA), unless its row says more."""
    toolkit = matrix.cuda(base.cuda) if base.cuda else None
    return base.container.min_driver if base.container else toolkit.min_driver_linux if toolkit else None


def branches_of(base: Base, matrix: Matrix) -> tuple[str, ...]:
    """Older branches of the driver on which an image runs on data-center GPUs; empty: none, or unknown."""
    if base.container or base.of_a_month:
        return base.container.data_center_branches if base.container else ()
    rows = (row for row in matrix.data.cuda_images if base.cuda and minor(row.cuda) == minor(base.cuda))
    return next((row.data_center_branches for row in rows), ())


def _python(image: Image, name: str, tag: str) -> str | None:
    if found := re.match(r"python:(\d+\.\d+)|.*/uv:python(3\.\d+)", f"{name}:{tag}"):
        return found[1] or found[2]
    if name in _NEWEST and _MOVING.fullmatch(tag) and (tag or "$" not in image.text):
        return _NEWEST[name]
    release = re.split(r"[.-]", tag)[0] if name == "debian" else tag
    return _SYSTEM_PYTHON.get(f"{name}{release}") if name in ("debian", "ubuntu") else None


_WITHOUT_GPU = re.compile(r"cpu|(?<![a-z])(?:tf)?(?:no|non|without)[-_. ]?(?:gpu|cuda)")
_OF_WINDOWS = frozenset({"pywin32", "pywinpty", "vs2015-runtime", "win-inet-pton", "wincertstore", "winpty"})
_TENSORFLOWS = frozenset({*TENSORFLOW, CONDA_BASE})
# packages by their installer; a group is the version that the name tells
_CUDAS = {
    "conda": "cudatoolkit|cuda-version|cuda-toolkit|cuda-runtime|cuda",
    "pip": r"nvidia-(?:cuda-runtime|cublas|cudnn)-cu(\d+)",
    "apt": r"(?:cuda-(?:toolkit|libraries|runtime)|(?:cuda-|lib)cu(?:blas|fft|rand|solver|sparse))-(\d+)-(\d+)",
}
# names under which pip lists a package of conda: opencv-feedstock pull request 300, and its install-py-opencv.sh
_KNOWN_TO_PIP_AS = dict.fromkeys(("opencv", "py-opencv"), ("opencv-python", "opencv-python-headless"))
_CUDNNS = {"conda": "cudnn", "pip": r"nvidia-cudnn-cu\d+", "apt": r"(?:lib)?cudnn(\d+)(?:-cuda-\d+)?"}


@dataclass(frozen=True)
class Cuda:
    """A CUDA or cuDNN that the environment gets from somewhere else than TensorFlow's extra."""

    version: str  # as far as it is told: "11", "11.8", "12.3.2"
    text: str  # "cudatoolkit=11.2", "nvidia/cuda:11.8.0-base-ubuntu22.04"
    place: str  # "Dockerfile:1"
    by: str = ""  # the installer that brings it; "": an image


class Resolution(NamedTuple):
    """What the installer makes of all requirements."""

    universe: Universe  # of the Python; where several are possible, of the newest that goes
    versions: dict[str, str]  # of known packages; empty where none go together, or that is unknown
    refused: bool = False  # no installer can meet all requirements, with any possible Python


def _beneath(environment: Environment, matrix: Matrix) -> tuple[Base | None, tuple[str, Place] | None]:
    """The image, and the command that installs a project apart from its TensorFlow, which it then does not meet."""
    base = read_base(environment.image, matrix)
    apart = _apart(environment, base)
    return (replace(base, tensorflow=None, of_tensorflow=False) if base and apart else base), apart


def _where_it_runs(environment: Environment, target: Target) -> Target:
    """Return the target; with the system and the machine that a file names, and without GPUs where it requests none.

    A file of conda serves Windows alone by its name or its packages.
    """
    if environment.no_gpu:
        target = structs.replace(target, gpus=(), driver=None)
    if environment.os == "macos" or environment.machine:
        target = structs.replace(target, machine=environment.machine)
    if environment.os:
        return structs.replace(target, os=environment.os)
    name = environment.place.path.rpartition("/")[2].lower() if environment.kind == "conda" else ""
    is_named = re.search(r"(?<![a-z])win(?:dows|32|64)?(?![a-z])", name)
    of_windows = is_named or any(one.name in _OF_WINDOWS for one in environment.requirements)
    return structs.replace(target, os="windows") if of_windows and target.os == "linux" else target


def dockerfile_of(environment: Environment) -> tuple[str, str]:
    """The path and the text of the Dockerfile that makes an environment; empty where none does."""
    image = environment.image
    if image is None or environment.kind not in ("dockerfile", "compose"):
        return "", ""
    return image.place.path, environment.texts.get(posixpath.normpath(image.place.path), "")


_PROJECT = re.compile(r"\b(?:poetry|uv|pdm|pipenv) (?:install|add|sync)\b")
_SHARED = re.compile(
    r"(?i)virtualenvs.create|system-site-packages|VIRTUAL_ENV|UV_PROJECT_ENVIRONMENT|--system|--active"
)


def _apart(environment: Environment, base: Base | None) -> tuple[str, Place] | None:
    """The command that installs a project without TensorFlow into an environment of its own, apart from the image's."""
    named = any(one.name in _TENSORFLOWS for one in environment.requirements)
    path, text = dockerfile_of(environment) if base and base.of_tensorflow and not named else ("", "")
    steps = [*instructions(text)] if not _SHARED.search(text) else []
    found = [(command[0], one.line) for one in steps if one.verb == "RUN" and (command := _PROJECT.search(one.value))]
    alone = len(found) == [one.verb for one in steps].count("FROM") == 1
    return (found[0][0], Place(path, found[0][1])) if alone else None


class PlannedEnvironment:
    """One environment of the manifests, and what installers will make of it."""

    def __init__(self, environment: Environment, target: Target, matrix: Matrix) -> None:
        """Look at one environment, for a described machine."""
        self.environment, self.matrix = environment, matrix
        self.base, self.apart = _beneath(environment, matrix)
        target = _where_it_runs(environment, target)
        self.conda = False  # whose lines have no markers
        pythons = self._python_of(target)[0]
        # the requirement that brings TensorFlow, None: the image, or nothing; and further ones
        self.asked, self.others = _tensorflows(environment, target.platform, pythons or PYTHONS, self.base, matrix)
        self.tensorflow = _under_its_name(self.asked)  # judged beside the other lines as what is meant
        self.package = self.tensorflow.name if self.tensorflow else "tensorflow"
        self.conda = self.tensorflow is not None and self.tensorflow.installer == "conda"
        if self.tensorflow is None and self.base and self.base.tensorflow:
            self.environment = replace(environment, python=())  # the image's is for its own Python
        # the Pythons that it admits, ascending, None: unknown; where that is written; and the only one
        pythons, self.python_place = self._python_of(target)
        self.pythons = self._with_tensorflow(pythons, target)
        self.python = self.pythons[-1] if self.pythons and len(self.pythons) == 1 else None
        self.target = structs.replace(target, python=self.python) if self.python else target
        place = self.tensorflow.place if self.tensorflow else self.base.image.place if self.base else environment.place
        self.where = str(place)  # the line that TensorFlow stands on, or the image that brings it
        self.cudas = tuple(self._named(_CUDAS, self.base.cuda if self.base else None))
        self.cudnns = tuple(self._named(_CUDNNS, self.base.cudnn if self.base else None))

    def _with_tensorflow(self, pythons: tuple[str, ...] | None, target: Target) -> tuple[str, ...] | None:
        """Of these Pythons, those for which the line of TensorFlow holds."""
        return _for_which(self.tensorflow, target.platform, pythons) if pythons and self.tensorflow else pythons

    @property
    def drives(self) -> bool:
        """Whether the driver is of a branch that supports the GPUs, as far as either is described and known."""
        have, request = self.target.driver, PlanRequest(self.matrix, self.target)
        return have is None or drives(have, request.first_branch, request.last_branch)

    @property
    def for_the_cpu(self) -> bool:
        """Whether it is named for machines without a GPU: Dockerfile.cpu, environment_tf_nogpu.yml."""
        return _WITHOUT_GPU.search(self.environment.label.lower()) is not None

    @property
    def wants_gpu(self) -> bool:
        """A GPU is meant: by the target, a request, an image made for it, the extra, or CUDA packages of pip."""
        by_extra = self.tensorflow is not None and self.tensorflow.extras != ()
        by_package = any(one.by == "pip" for one in (*self.cudas, *self.cudnns))
        by_image = self.base is not None and self.base.gpu and not self.environment.no_gpu
        # requirements-gpu.txt; pyproject.toml, extra cuda
        by_name = self.tensorflow and not self.for_the_cpu and re.search("gpu|cuda", self.environment.label.lower())
        return bool(self.target.gpus or self.environment.gpu or by_image or by_extra or by_package or by_name)

    def _python_of(self, target: Target) -> tuple[tuple[str, ...] | None, str]:
        environment = self.environment
        bounds = [wanted for one in environment.python if (wanted := specifier(one.specifier)) is not None]
        # conda has a Python of its own
        image = next((one for one in self.makers if one.python), None) if not self.conda else None
        place = str(image.image.place) if image else "--python"
        if environment.python:
            place = str(environment.python[0].place)
        if bounds:
            found = _admitted(bounds) or _admitted(bounds[:1])  # the latter: files that differ
            takes_newest = environment.python[0].installer == "conda" and not self.conda
            takes_newest = takes_newest or environment.kind == "workflow"
            return found[-1:] if takes_newest else found, place
        python = image.python if image else target.python
        return (python,) if python else None, place

    @property
    def makers(self) -> list[Base]:
        """The image of the stage that installed packages which this one copies, if it does, and its own."""
        return [one for one in (read_base(self.environment.packages_of, self.matrix), self.base) if one]

    def _named(self, packages: Mapping[str, str], of_image: str | None) -> Iterator[Cuda]:
        """Every CUDA or cuDNN that it names; the version is empty where the line of a cuDNN or cudatoolkit has none."""
        if self.base and of_image is not None:
            yield Cuda(of_image, self.base.image.reference, str(self.base.image.place))
        seen = set[object]()
        for one in self.environment.requirements:
            name = packages.get(one.installer)
            if name and (found := re.fullmatch(name, one.name)):
                named = ".".join(filter(None, found.groups()))
                version = named if packages is _CUDAS and named else pinned(one) or named or _floor(one)
                key = version if one.installer == "apt" else one  # whose toolkit is in many packages
                if key not in seen and (version or packages is _CUDNNS or one.name == "cudatoolkit"):
                    seen.add(key)
                    yield Cuda(version, one.text, str(one.place), one.installer)

    @cached_property
    def allowed(self) -> tuple[Release, ...]:
        """Releases that the requirement, or the image, admits for the platform, newest first."""
        if self.tensorflow is None:
            rows = self.matrix.releases(platform=self.target.platform, package=self.package)
            return tuple(row for row in rows if self.base and row.version == self.base.tensorflow)
        return self.matching(self.tensorflow)

    def matching(self, one: Requirement) -> tuple[Release, ...]:
        """Releases that a requirement of TensorFlow admits for the platform, newest first; empty: of another index."""
        package = "tensorflow" if one.name == CONDA_BASE else one.name
        rows = () if one.elsewhere else self.matrix.releases(platform=self.target.platform, package=package)
        wanted, prereleases = specifier(one.specifier), "rc" in one.specifier or "dev" in one.specifier
        found = (row for row in rows if wanted is not None and wanted.contains(row.version, prereleases=True))
        return tuple(row for row in found if prereleases or not Version(row.version).is_prerelease)

    @cached_property
    def release(self) -> Release | None:
        """What the installer will take: the newest admitted release with a wheel for the Python; None: unknown.

        It must also go with the other requirements: `tensorflow` beside tf-keras==2.15.0 is 2.15.1.
        """
        rows = [row for row in self.allowed if self.python is None or self.python in row.python]
        beside = self.resolved.versions.get(self.package)
        return next((row for row in rows if row.version == beside), next(iter(rows), None))

    def pythons_of(self, row: Release) -> list[str]:
        """The Pythons with a wheel of a release that are allowed."""
        return [one for one in row.python if one in (self.pythons or row.python)]

    @property
    def extra(self) -> bool:
        """True if TensorFlow's extra brings CUDA."""
        row = self.release
        return bool(self.tensorflow and row and row.extra and row.extra in self.tensorflow.extras)

    @property
    def is_open(self) -> bool:
        """Whether an image of which nothing is known decides on the release: by its Python, or a TensorFlow in it."""
        named = self.tensorflow is None or bool(self.tensorflow.specifier or self.python or self.conda)
        return self.base is not None and self.base == Base(self.base.image) and not named

    @property
    def needs_cuda(self) -> Release | None:
        """The release, where it is known, and neither its extra nor conda brings its CUDA and cuDNN."""
        row, lacks = self.release, self.extra or self.conda or self.environment.no_gpu or self.is_open
        return None if row is None or row.cuda is None or lacks else row

    def requirement(self, name: str) -> Requirement | None:
        """The requirement of a distribution, narrowed by a constraint of pip, whose line decides where it has none."""
        required, narrowing = (
            [one for one in lines if one.name == name and self._applies(one) and not self.is_overruled(one)]
            for lines in (self.environment.requirements, self.environment.constraints)
        )
        if not required or not narrowing or required[0].installer != "pip":
            return next(iter(required), None)
        line = required[0] if required[0].specifier else narrowing[0]
        bounds = bounds_of_all((required[0], *narrowing))
        return replace(required[0], specifier=bounds, place=line.place, text=line.text)

    def _applies(self, one: Requirement) -> bool:
        return bool(_for_which(one, self.target.platform, self.pythons or PYTHONS))

    @property
    def others_together(self) -> tuple[Requirement, ...]:
        """Of the others that bring a TensorFlow, those whose markers hold for a Python for which the first's does."""
        first, pythons = self.tensorflow, self.pythons or PYTHONS

        def together(one: Requirement) -> bool:
            markers = [each.marker for each in (one, first) if each and each.marker]
            return any(all(holds(each, self.target.platform, python) for each in markers) for python in pythons)

        return tuple(one for one in self.others if together(one))

    def is_overruled(self, one: Requirement) -> bool:
        """Whether pip replaces it when a later command installs TensorFlow, as far as that needs another version."""
        return self.tensorflow is not None and 0 < one.step < self.tensorflow.step

    @cached_property
    def wanted(self) -> tuple[Requirement, ...]:
        """What pip is asked for, TensorFlow first, and no second one; an image's own TensorFlow stays as it is."""
        lines = [self.tensorflow] if self.tensorflow else []
        if not lines and self.base and self.base.tensorflow:
            image = self.base.image
            lines.append(Requirement("tensorflow", f"=={self.base.tensorflow}", image.place, image.reference))
        known = [one for one in self._known(self.environment.requirements) if one.name not in _TENSORFLOWS]
        # of another command or index, PyTorch may serve beside it: pip puts its libraries over those of the extra
        step = self.tensorflow.step if self.tensorflow else -1
        own = (one for one in known if not one.name.startswith("torch") or (one.step == step and not one.elsewhere))
        return (*lines, *own, *self._known(self.environment.constraints))

    def _known(self, lines: Iterable[Requirement]) -> list[Requirement]:
        """Those of pip of which the matrix has the versions."""
        return [one for one in lines if one.installer == "pip" and one.name in self.matrix.packages]

    def wanted_in(self, universe: Universe, *, with_earlier: bool = False) -> list[Requirement]:
        """Of these, what is wanted with a Python: markers can leave some out, and a later command what came earlier."""
        here = [one for one in self.wanted if one is self.tensorflow or universe.holds(one.marker)]  # its own holds
        return [one for one in here if with_earlier or not self.is_overruled(one)]

    @cached_property
    def resolved(self) -> Resolution:
        """What pip would install, with the newest possible Python with which it can."""
        pythons = (self.pythons or PYTHONS)[::-1]  # newest first; those for which an admitted release has a wheel
        usable = [one for one in pythons if any(one in row.python for row in self.allowed)]
        universes = [universe_of(self.matrix, self.target.platform, one) for one in usable or pythons]
        if len(self.wanted) < 2 or self.conda or not usable:
            return Resolution(universes[0], {})
        for with_earlier in (True, False):
            for universe in universes:
                versions = solve(universe, self.wanted_in(universe, with_earlier=with_earlier))
                if versions is not None:
                    return Resolution(universe, versions)
        return Resolution(universes[0], {}, refused=True)

    @cached_property
    def installed(self) -> list[tuple[dict[str, str], list[Requirement]]]:
        """Known packages before any command of pip, then after each, which keeps what is there and fits its lines."""
        universe = self.resolved.universe
        found, lines = [(self._before(universe), list[Requirement]())], self.wanted_in(universe, with_earlier=True)
        for step in sorted({one.step for one in lines}):
            own = [one for one in lines if one.step == step]
            new = {one.name for one in own if one.upgrade}
            versions = solve(universe, own, {name: one for name, one in found[-1][0].items() if name not in new})
            if versions is None:
                break
            found.append((found[-1][0] | versions, own))
        return found

    def _before(self, universe: Universe) -> dict[str, str]:
        """What conda, or an image, which has what its TensorFlow requires and the NumPy of its time, has installed."""
        of_conda = [one for one in self.environment.requirements if one.installer == "conda"]
        bounds = {name: one.specifier for one in of_conda for name in _KNOWN_TO_PIP_AS.get(one.name, (one.name,))}
        if self.base and (inside := self.matrix.tensorflow(self.base.tensorflow or "", self.target.platform)):
            needs = universe.package(inside.package).requires(Version(inside.version))
            bounds |= {one.name: str(one.specifier) for one in needs} | {"numpy": numpy_bound(inside) or ""}
        pins = [
            Wanted(name, met) for name, bound in bounds.items() if (met := _nearest(universe, name, bound)) is not None
        ]
        together = solve(universe, pins) or {}
        newest = {one.name: max(universe.package(one.name).allowed(one.specifier)) for one in pins}
        return {name: together.get(name, str(version)) for name, version in newest.items()}

    def _is_built(self, universe: Universe, name: str) -> bool:
        """Whether it is TensorFlow, which has a wheel, or what that requires and has none, but archives: pip builds it.

        So it is with termcolor 1.1.0.
        """
        row = self.release
        needs = universe.package(row.package).requires(Version(row.version)) if row else ()
        archives = [one.name for one in needs if not universe.package(one.name).allowed(one.specifier)]
        return name in (*TENSORFLOW, *archives)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """All conflicts among the requirements; after each, its lines are taken to be changed."""
        universe = self.resolved.universe
        original = self.wanted_in(universe)
        wanted = dict(enumerate(original))  # by position; without those of which there is no version
        # positions that give way, and all that exclude each other, with the universe in which they do
        found: list[tuple[list[int], list[int], Universe]] = []
        for _ in range(_MOST) if self.resolved.refused else ():
            left = [*wanted]
            core = [left[index] for index in smallest_conflict(universe, [*wanted.values()])]
            freed = _giving_way(universe, {index: wanted[index] for index in core})
            if not freed:
                break
            if len(core) > 1:
                found.append((freed, core, universe))
            elif not self._is_built(universe, wanted[core[0]].name):
                found.append((freed, *(self._with_any_python(wanted, core[0]) or (core, universe))))
            for index in freed:
                wanted[index] = replace(wanted[index], specifier="")
                if not universe.package(wanted[index].name).allowed(""):
                    del wanted[index]
        versions = (solve(universe, [*wanted.values()]) if found else None) or {}

        def conflict(freed: list[int], core: list[int], where: Universe) -> Conflict:
            lines, changed = tuple(original[index] for index in core), [original[index] for index in freed]
            changes = tuple((line, _better(universe, line, versions)) for line in changed)
            return Conflict(lines, tuple(_evidence(where, lines)), changes)

        return tuple(conflict(*one) for one in found)

    def _with_any_python(self, wanted: Mapping[int, Requirement], index: int) -> tuple[list[int], Universe] | None:
        """Return the lines that exclude one that the Python has no wheel of, if they do with each that has one."""
        line, left, reason = wanted[index], [*wanted], None
        for python in _all_of(self.allowed)[::-1]:
            universe = universe_of(self.matrix, self.target.platform, python)
            if universe.package(line.name).allowed(line.specifier):
                core = [left[at] for at in smallest_conflict(universe, [*wanted.values()])]
                if index not in core or len(core) == 1:
                    return None
                reason = reason or (core, universe)
        return reason


def _nearest(universe: Universe, name: str, bound: str) -> str | None:
    """A bound of conda's; of a version older than all of pip's, the oldest of these. None: nothing is known."""
    if name not in universe.matrix.packages:
        return None
    package = universe.package(name)
    oldest = min(package.allowed(""), default=None)
    return bound if package.allowed(bound) else f"=={oldest}" if oldest else None


def _admitted(bounds: Sequence[SpecifierSet]) -> tuple[str, ...]:
    return tuple(one for one in PYTHONS if all(admits(wanted, one) for wanted in bounds))


def _tensorflows(
    environment: Environment, platform: str, pythons: Sequence[str], base: Base | None, matrix: Matrix
) -> tuple[Requirement | None, tuple[Requirement, ...]]:
    """The requirement that brings TensorFlow, None where the image's is kept, and others that bring one, too."""
    found = _by_name(environment, platform, pythons)
    first = min(found, key=lambda one: (one.name != "tensorflow", one.name == CONDA_BASE), default=None)
    if base and len(found) == 1 and _has_already(base, found[0]):
        if not found[0].extras:
            return None, ()
        # the release of the image is kept where pip can install its extra; else pip takes any other (tried)
        row = None if base.of_a_month else matrix.tensorflow(base.tensorflow or "", "linux_x86_64")
        issues = matrix.issues_for(row, python=base.python, extra=True) if row else ()
        is_kept = row and not any(issue.condition.extra and issue.affects == "install" for issue in issues)
        return replace(found[0], specifier=f"=={base.tensorflow}") if is_kept else found[0], ()
    return first, tuple(one for one in found if one is not first)


def _by_name(environment: Environment, platform: str, pythons: Sequence[str]) -> list[Requirement]:
    """What is asked for under each name of TensorFlow; of lines for several Pythons, for the newest."""
    lines = (one for one in environment.requirements if one.name in _TENSORFLOWS)
    holds_for = {one: possible for one in lines if (possible := _for_which(one, platform, pythons))}
    found = list[Requirement]()
    for name in dict.fromkeys(one.name for one in holds_for):
        named = [one for one in holds_for if one.name == name]
        newest = max((holds_for[one][-1] for one in named), key=numbers)
        found.append(_together([one for one in named if newest in holds_for[one]]))
    return found


def _under_its_name(one: Requirement | None) -> Requirement | None:
    """A release that tensorflow-gpu never had, of tensorflow."""
    never = one and one.name == "tensorflow-gpu" and one.installer == "pip" and at_least(pinned(one), "2.12")
    return replace(one, name="tensorflow") if one and never else one


def _has_already(base: Base, one: Requirement) -> bool:
    """Whether pip leaves the TensorFlow of an image as it is; before 2.1 its name was another one."""
    there, wanted, name = base.tensorflow, specifier(one.specifier), base.image.reference
    if not base.of_tensorflow or "nightly" in name or at_least(there, "2.1") is False or one.name != "tensorflow":
        return False
    # of an image whose release is not known, one that is pinned is another one
    fits = not one.specifier or (bool(wanted and wanted.contains(there)) if there else pinned(one) is None)
    elsewhere = one.elsewhere and "+" not in one.specifier  # 2.9.1+nv22.6 is that of the image
    return fits and one.installer == "pip" and not (one.upgrade or elsewhere)


def _together(same: list[Requirement]) -> Requirement:
    """What several lines about one package ask for, shown as the last; a later command replaces an earlier release."""
    last = max((one.step for one in same if one.specifier), default=0)
    asked = [one for one in same if one.step == last or not one.specifier]
    extras = tuple(dict.fromkeys(extra for one in asked for extra in one.extras))
    bounds = ",".join(dict.fromkeys(one.specifier for one in asked if one.specifier))
    return replace(asked[-1], specifier=bounds, extras=extras)


def _for_which(one: Requirement, platform: str, pythons: Sequence[str]) -> tuple[str, ...]:
    """Of these Pythons, those for which an environment marker holds."""
    return tuple(python for python in pythons if one.marker is None or holds(one.marker, platform, python))


def pinned(one: Requirement) -> str | None:
    """The version that a requirement pins: "11.2" for ==11.2.* and for ==11.2."""
    found = re.match(r"={2,3}\s*v?(\d+(?:\.\d+)*)", one.specifier)
    return found[1] if found else None


def _floor(one: Requirement) -> str:
    """The version that a range of conda's cudatoolkit begins with, where it stays within one minor version."""
    found = re.search(r">=\s*(\d+\.\d+)", one.specifier) if "<" in one.specifier else None
    return found[1] if found and one.name == "cudatoolkit" else ""


def is_empty(one: Requirement) -> bool:
    """Whether a requirement admits the 2.12.0 of a discontinued package, which is empty, and fails to be built."""
    wanted = specifier(one.specifier) if one.name in ("tensorflow-gpu", "tf-nightly-gpu") else None
    return wanted is not None and wanted.contains("2.12.0")


# ----------------------------------------------------------------------------------- lines that exclude each other

_MOST = 20  # conflicts that are looked for in one environment


class Conflict(NamedTuple):
    """The fewest lines that cannot be installed together."""

    lines: tuple[Requirement, ...]  # TensorFlow's first, if it is one of them
    evidence: tuple[Evidence, ...]
    # of the lines, those that give way, and what to write in their place; None: there is no such version
    changes: tuple[tuple[Requirement, str | None], ...]


def _giving_way(universe: Universe, core: Mapping[int, Requirement]) -> list[int]:
    """Of lines that exclude each other, those that are to change: such without any version, else those with bounds."""
    changed = [index for index, one in core.items() if one.name not in TENSORFLOW] or list(core)
    if len(changed) == len(core) > 1:
        changed = changed[1:]  # the first line stays
    without = [index for index in changed if not universe.package(core[index].name).allowed("")]
    return without or [index for index in changed if core[index].specifier]


def _better(universe: Universe, line: Requirement, versions: dict[str, str]) -> str | None:
    """What TensorFlow itself requires of the package, or the version that goes with the rest."""
    extras = f"[{','.join(line.extras)}]" if line.extras else ""
    for name in TENSORFLOW:
        required = universe.package(name).requires(Version(versions[name]), ("and-cuda",)) if name in versions else ()
        bounds = next((one.specifier for one in required if one.name == line.name), "")
        if bounds:
            return f"{line.name}{extras}{bounds}"
    return f"{line.name}{extras}=={versions[line.name]}" if line.name in versions else None


def _evidence(universe: Universe, lines: Sequence[Requirement]) -> list[Evidence]:
    """What the lines require of a package of which no version meets it all: of one of them, or of a third one."""
    found, required = list[Evidence](), dict[str, list[tuple[Requirement, str, str]]]()  # by package
    for line in lines:
        package = universe.package(line.name)
        newest = max(package.allowed(line.specifier), default=None)
        if newest is None:
            wheel = f"a version with a wheel for Python {universe.python}"
            found.append(Evidence(line.text, str(line.place), wheel, "names of the wheels"))
        for need in package.requires(newest, line.extras) if newest else ():
            required.setdefault(need.name, []).append((line, need.specifier, f"{line.name} {newest} (metadata)"))
    for name, needs in required.items():
        own = [line for line in lines if line.name == name]
        bounds = [*(bound for _, bound, _ in needs), *(line.specifier for line in own)]
        if not universe.package(name).allowed(*bounds):
            for line, bound, source in needs:
                shown = own[0] if own else line
                found.append(Evidence(shown.text, str(shown.place), f"{name}{bound}", source))
    return found[:4] or [Evidence(line.text, str(line.place), None, None) for line in lines]


def fitting(
    view: PlannedEnvironment, pythons: Iterable[str] | None = None, release: Release | None = None
) -> tuple[str, ...]:
    """Of some Pythons, ascending, the newest without a gap for which everything can be installed.

    Args:
        view: the environment.
        pythons: to choose from; None: all those of the releases that are allowed.
        release: stands in TensorFlow's line, and its Keras in the lines of another one; None: what is written there.
    """
    found: list[str] = []
    for python in _all_of(view.allowed) if pythons is None else pythons:
        universe = universe_of(view.matrix, view.target.platform, python)
        lines = view.wanted_in(universe)
        if release:
            name, pin = release.package, f"=={release.version}"
            bounds = {line.name: bound for line, bound in other_keras(view, release)}
            lines = [replace(one, specifier=bounds.get(one.name, one.specifier)) for one in lines]
            lines = [replace(one, name=name, specifier=pin) if one.name in TENSORFLOW else one for one in lines]
        if solve(universe, lines) is not None:
            has_gap = found and numbers(python)[1] != numbers(found[-1])[1] + 1
            found = [*(() if has_gap else found), python]
    return tuple(found)


def other_keras(view: PlannedEnvironment, release: Release) -> Iterator[tuple[Requirement, str]]:
    """The lines that ask for the Keras of another release, and the versions that this one needs."""
    for name in ("keras", "tf-keras"):
        line, bound = view.requirement(name), companion_bound(name, release)
        judged = line and line.installer == "pip" and view.resolved.universe.is_judged(line)
        if line and bound and judged and not view.resolved.universe.package(name).allowed(line.specifier, bound):
            yield line, bound


def without_wheel(view: PlannedEnvironment, rows: Sequence[Release], *, after: bool = False) -> list[str]:
    """Of the allowed Pythons, those for which no release has a wheel.

    Those after all wheels count where no other is allowed, or supported: for uv, Requires-Python has no upper end.
    """
    usable, pythons = _all_of(rows), view.pythons or ()
    without = [one for one in pythons if one not in usable]
    older = [one for one in without if numbers(one) < numbers(usable[-1]) or not at_least(usable[-1], "3.11")]
    return without if after or len(without) == len(pythons) else older


def _all_of(rows: Iterable[Release]) -> list[str]:
    return sorted({python for row in rows for python in row.python}, key=numbers)
