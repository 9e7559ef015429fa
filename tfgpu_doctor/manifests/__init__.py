"""Files that describe an environment before it is built: what they name, and on which line. Pure text → records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "requirements",
    "pyproject",
    "conda",
    "dockerfile",
    "compose",
    "kubernetes",
    "python",
    "singularity",
    "notebook",
    "workflow",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
INSTEAD = "not read; give requirements.txt, or the image"  # of lock files, Pipfile, setup.py, devcontainer.json ...


LONGEST_LINE = 100_000  # characters; a hash list of a requirement has some thousands
MOST_REQUIREMENTS = 20_000  # lines of requirements that are read


class ManifestError(Exception):
    """A file that cannot be read; the message has the file and, where known, the line."""


class IncludeError(Exception):
    """Why a file that another one names is not read. The message has nothing of its content."""

    def __init__(self, reason: str = "cannot be read") -> None:
        """Take the reason, as the rest of a sentence that begins with the name of the file."""
        super().__init__(reason)


class UnreadList(str):
    """A line of `not_understood` about a list that is installed from and not read: more may be installed."""


class UnreadProject(str):
    """A line of `not_understood` about a project that is installed and not read: it may bound what is installed."""


_PASSWORD = re.compile(r"(?<=://)[^/@\s]{1,1000}@")


def without_password(text: str) -> str:
    """A part of a file without the user and the password of its addresses: reports go into the logs of CI."""
    return _PASSWORD.sub("", text) if "://" in text else text


def quoted(text: str) -> str:
    """A part of a file as a message can have it: at some length, and without a password."""
    shown = without_password(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    path: str
    line: int  # from 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Requirement:
    """A distribution that pip (or uv, Poetry ...) or conda will install."""

    name: str  # normalised: "tensorflow-gpu"
    specifier: str  # PEP 440, "" for any; a conda "=2.4" is "==2.4.*"
    place: Place
    text: str  # as it is written, without the comment: 'tensorflow[and-cuda]==2.15.1'
    extras: tuple[str, ...] = ()
    marker: str | None = None  # PEP 508, "sys_platform == 'win32'"
    installer: Literal["pip", "conda", "apt"] = "pip"
    build: str | None = None  # conda's build string, "gpu_py39h...", "*cuda*"
    step: int = 0  # of the pip commands of a build, from 1; 0: no command
    upgrade: bool = False  # by a pip command with --upgrade
    fatal: bool = False  # the build or job ends if its command fails, which is one of the Python that is named
    is_constraint: bool = False  # it narrows what others require, and installs nothing
    beside: tuple[Requirement, ...] = ()  # of a requirement with constraints: the other lines that decide with it
    elsewhere: str = ""  # where it comes from, if not from the usual index or conda-forge: a channel, an index


@dataclass(frozen=True)
class Image:
    """A base image."""

    name: str  # "nvidia/cuda", "python", "tensorflow/tensorflow", "nvcr.io/nvidia/tensorflow"
    tag: str | None  # None: not given, or not known before build ("$TAG" without a default)
    place: Place
    text: str  # the line's reference as written

    @property
    def reference(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else self.name


@dataclass(frozen=True)
class Setting:
    """An environment variable, a size or another value that the file sets."""

    name: str  # "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES", "shm_size"
    value: str
    place: Place


@dataclass(frozen=True)
class GpuRequest:
    """How a service or a pod asks for GPUs."""

    count: int | None  # None: all of them, or a number that the file does not tell
    place: Place
    text: str  # "gpus: all", "nvidia.com/gpu: 2"
    problem: str | None = None  # why it has no effect: 'its limit is 0'


@dataclass(frozen=True)
class Environment:
    """One environment that will exist: a requirements file, a project, a Dockerfile's last stage, a service, a pod."""

    kind: Kind
    label: str  # "requirements.txt", "Dockerfile, stage runtime", "service trainer", "Pod train, container main"
    place: Place
    python: tuple[Requirement, ...] = ()  # requires-python, conda python=3.9, as requirements of the name "python"
    requirements: tuple[Requirement, ...] = ()
    constraints: tuple[Requirement, ...] = ()  # of pip's -c
    image: Image | None = None
    packages_of: Image | None = None  # of the stage that installed packages which this one copies
    settings: tuple[Setting, ...] = ()
    gpu: GpuRequest | None = None
    no_gpu: bool = False  # it prepares a pod, or debugs it, and requests no GPU; or a runner of GitHub's has none
    os: Literal["", "windows", "macos"] = ""  # "windows", "macos": that of a job's runner; "": the target's
    machine: str = ""  # "aarch64", "arm64", "x86_64": of a runner, or of the platform of an image; "": the target's
    apt_update: Place | None = None  # the first one of a build, unless what apt reads is changed before it
    system_pip: Place | None = None  # the first pip of the system's Python, unless another one can be meant before it

    build_context: str | None = None  # compose build: the folder or Dockerfile that it is built from
    channels: tuple[str, ...] = ()  # conda
    not_understood: tuple[str, ...] = ()  # lines, "path:line: reason"
    unread: bool = False  # the file is broken, so that nothing is known of what it makes
    read: tuple[str, ...] = ()  # files that were read for it, besides its own
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)  # of the files, by their paths
    matrix: tuple[Setting, ...] = ()  # the values of a workflow's, where `exclude` can leave their combination out
    part_of: str | None = None  # why it is not judged by itself: "part of Dockerfile"


def bounds_of_all(lines: Iterable[Requirement]) -> str:
    """Return the specifiers of several lines as one, each once."""
    return ",".join(filter(None, dict.fromkeys(one.specifier for one in lines)))


def environment_of(
    kind: Kind, path: str, found: Iterable[Requirement], not_understood: Iterable[str], **others: Any
) -> Environment:
    """Return the environment of a file: its requirements, those on Python apart, and its other fields."""
    several = tuple(dict.fromkeys(found))
    python = tuple(one for one in several if one.name == "python" and not one.is_constraint)
    packages = tuple(one for one in several if one.name != "python" and not one.is_constraint)
    constraints = tuple(one for one in several if one.is_constraint)
    complaints = tuple(dict.fromkeys(not_understood))
    made = Environment(kind, path, Place(path, 1), python, packages, constraints, not_understood=complaints)
    return replace(made, **others)
