"""What a pasted text tells of CUDA, put together: what is wanted, what failed to open, what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.findings.libraries import needed_by
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.library_names import Library, known_library
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Message, Package, Toolkit
from tfgpu_doctor.records.report import Evidence
from tfgpu_doctor.records.versions import minor

_IN_PATH = re.compile(r"cuda-(\d+\.\d+)|CUDA[/\\]+v(\d+\.\d+)", re.IGNORECASE)


_RUNTIMES = {"cudatoolkit", "cuda-toolkit", "cuda-cudart", "cuda-runtime", "cuda-version"}


@dataclass(frozen=True)
class Cuda:
    """What the text tells of CUDA: what is wanted, what failed to open, what is there."""

    wanted: str | None  # "11.8", "11.0"; from the name of the library, or from the release
    wanted_by: str
    lost: tuple[tuple[Library, Message], ...]  # libraries that could not be opened
    complaints: tuple[Message, ...]  # sentences that name no library
    there: tuple[tuple[str, str], ...]  # version and where it is said: "12.4", "line 19, as stated"
    opened: tuple[Library, ...]

    @property
    def fails(self) -> bool:
        """Whether a library of CUDA could not be opened."""
        return bool(self.lost or self.complaints)

    @property
    def fitting(self) -> tuple[tuple[str, str], ...]:
        """What is there and would serve."""
        return tuple(one for one in self.there if self.wanted is None or fits(self.wanted, one[0]))

    @property
    def only_cupti(self) -> bool:
        """Whether the profiler's library alone is missed: the toolkit brings it along, in a folder of its own."""
        return bool(self.lost) and all(library.component == "cupti" for library, _ in self.lost)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What was said of it."""
        lines = message_evidence(*(m for _, m in self.lost), *self.complaints, most=3)
        need = f"CUDA {minor(self.wanted)}" if self.wanted else None
        return (
            *lines,
            *(evidence(f"CUDA {version}", where, need, self.wanted_by) for version, where in self.there[:2]),
        )


def fits(wanted: str, there: str) -> bool:
    """Whether a CUDA brings the libraries of another: any of the same major from 11 on, the very minor before."""
    if wanted.split(".")[0] != there.split(".")[0]:
        return False
    if int(wanted.split(".")[0]) >= 11 or "." not in wanted or "." not in there:
        return True
    return minor(wanted) == minor(there)


def gather(
    said: MessageLog,
    release: Release | None,
    toolkits: tuple[Toolkit, ...] | None,
    packages: tuple[Package, ...] | None,
    variables: dict[str, str] | None,
) -> Cuda:
    """Put together what the text tells of CUDA."""
    of_cudnn = {message.line for message in said.all("cudnn-part-missing")}
    lost = tuple(
        (library, message)
        for name, message in said.libraries("library-not-opened", "loader-error")
        if message.line not in of_cudnn and name != "libnvrtc.so"  # cuDNN's own helpers
        if (library := known_library(name))
        and library.component not in ("cuda", "cudnn")
        and (not library.optional or (library.component == "cupti" and _ends_without(message, said)))
    )
    opened = tuple(library for name, _ in said.libraries("library-opened") if (library := known_library(name)))
    ignorable = () if lost else said.all("cudart-ignorable")  # it follows the line that names libcudart
    stub = said.all("cudart-symbol") if release else ()  # the stub in place of libcudart; no other library is said
    complaints = (*said.all("cudart-not-found"), *stub, *ignorable, *said.all("gpu-libraries-not-opened"))
    # from 2.12 on a missing libcudart has a sentence of its own; without it, another library is missing: cuDNN
    cudnn_only = (
        (bool(opened) or said.has("log-era") or _silent_about_cudart(release))
        and not lost
        and not said.has("cudart-not-found", "cudart-ignorable", "cudart-symbol")
    )
    named = next((x.version for x, _ in lost if x.component == "cudart" and x.version), None)
    other = next((x.cuda_version for x, _ in lost if x.cuda_version), None)
    # what somebody built himself was built for the CUDA that he had
    asked = release.cuda if release and not said.has("source-build") else None
    # the name says 11.0 for every CUDA 11; the release knows its minor
    wanted = (
        asked
        if asked and named and fits(asked, named)
        else named or asked or other or next(iter(said.values("log-era", "cuda")), None)
    )
    return Cuda(
        wanted=wanted,
        wanted_by=needed_by(release) if release and wanted == asked else "the library's name",
        lost=lost,
        complaints=() if cudnn_only or _about_cudnn(said) else complaints,
        there=tuple(_there(said, opened, toolkits, packages, variables)),
        opened=opened,
    )


def _ends_without(message: Message, said: MessageLog) -> bool:
    """Whether Python ended for want of the library; the profiler says that it misses its own, and goes on."""
    fatal = re.search(r"(?:^|[: _])F (?:\./)?(?:tensorflow|external)/", message.text) is not None
    return said.has("aborted") or fatal or (message.kind == "loader-error" and "dlerror" not in message.text)


def _about_cudnn(said: MessageLog) -> bool:
    """Whether only cuDNN is among the libraries that are named as missing."""
    named = [lib for name, _ in said.libraries("library-not-opened", "loader-error") if (lib := known_library(name))]
    needed = [one for one in named if not one.optional]
    return bool(needed) and all(one.component == "cudnn" for one in needed) and not said.has("cudart-not-found")


def _there(
    said: MessageLog,
    opened: Iterable[Library],
    toolkits: tuple[Toolkit, ...] | None,
    packages: tuple[Package, ...] | None,
    variables: dict[str, str] | None,
) -> Iterable[tuple[str, str]]:
    for kit in toolkits or ():
        if kit.version:
            yield kit.version, kit.source
    for package in packages or ():
        if package.name in _RUNTIMES:
            yield package.version, f"{package.name} {package.version}"
        elif found := re.fullmatch(r"nvidia-(?:cuda-runtime|cublas)-cu(\d+)", package.name):
            yield found[1], f"{package.name} {package.version}"
    for library in opened:
        if library.component == "cudart" and library.version:
            yield library.version, f"{library.name} was opened"
    paths = [*(variables or {}).values(), *said.values("loader-path", "path")]
    for match in (m for text in paths for m in _IN_PATH.finditer(text)):
        yield match[1] or match[2], "the loader's path"


def _silent_about_cudart(release: Release | None) -> bool:
    return release is not None and at_least(release.version, "2.12")


def at_least(version: str, floor: str) -> bool:
    """Whether a version, of which two parts count, is that high; "8" is 8.0."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return [*parts, 0][:2] >= [*(int(part) for part in floor.split(".")), 0][:2]
