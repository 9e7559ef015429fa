"""Where CUDA's and cuDNN's libraries are: on disk, and in what TensorFlow and the loader print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tfgpu_doctor.facts.facts import (
    NOT_ASKED,
    Candidate,
    CudnnFile,
    Fact,
    Known,
    LibraryState,
    Message,
    Package,
    Soname,
    TfDevice,
    Toolkit,
    Unknown,
    lists_gpu,
    value_or,
)
from tfgpu_doctor.facts.report import Evidence
from tfgpu_doctor.facts.versions import at_least, major, minor, parts
from tfgpu_doctor.findings.declaration import Context, MessageLog, evidence, message_evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.names import Library, known_library

# ----------------------------------------------------------------------------------------------------------------------
# The libraries that TensorFlow opens by name, as the findings about CUDA and cuDNN judge them, and their evidence.


CUDNN_GUIDE = "https://docs.nvidia.com/deeplearning/cudnn/latest/"
CUDNN_PART = re.compile(r"lib?cudnn_\w|cudnn_\w{1,40}64", re.IGNORECASE)  # not the main library
# where these hold, nobody asks for CUDA's libraries
NOT_THE_DRIVER = 'The log line "Could not find cuda drivers" is about these libraries, not about the driver'
NO_GPU_SIDE = ("gpu.none", "tf.cpu-build", "tf.windows-native", "tf.not-installed")
_NEEDS = re.compile(r"needs (lib[^\s,]+), not found")
_NEEDS_CUDA = re.compile(r"needs lib(?:cu(?!dnn)|nv)")  # a library that installing CUDA brings


def in_state(libraries: Iterable[Soname], *states: LibraryState) -> tuple[Soname, ...]:
    """Keep the libraries in one of `states`."""
    return tuple(library for library in libraries if library.state in states)


def good_candidate(library: Soname) -> Candidate | None:
    """The file that would serve, were it found."""
    return next((candidate for candidate in library.candidates if candidate.problem is None), None)


def hides_wheels(candidate: Candidate) -> bool:
    """Whether it cannot be loaded and comes before the pip packages, so that installing those does not help."""
    first = candidate.reachable and candidate.via in ("LD_LIBRARY_PATH", "RPATH")
    return first and candidate.problem is not None and not _NEEDS_CUDA.match(candidate.problem)


def needed_library(library: Soname) -> str | None:
    """What is missing of a library that is there: libcusolver.so.11 needs libnvJitLink.so.12."""
    reasons = (_NEEDS.match(file.problem) for file in library.candidates if file.problem)
    return next((reason[1] for reason in reasons if reason), None)


def names(libraries: Iterable[Soname]) -> str:
    """List sonames for a sentence."""
    return ", ".join(library.soname for library in libraries)


def needed_by(release: Release) -> str:
    """Who needs these libraries, for the evidence."""
    return f"TensorFlow {release.version} (wheel)"


def off_path_evidence(libraries: tuple[Soname, ...], release: Release) -> tuple[Evidence, ...]:
    """Libraries in folders that the loader does not search, or behind a file that it cannot load."""
    found = []
    for library in libraries:
        good = good_candidate(library)
        if blocking := next((one for one in library.candidates if one.reachable and one.problem), None):
            problem = f"{library.soname}: {blocking.problem} (found first, through {blocking.via})"
            expected = good.path if good else "a library that can be loaded"
            found.append(evidence(problem, blocking.path, expected, needed_by(release)))
        elif good:
            where = f"{library.soname} is installed ({good.via}), but not on the loader path"
            found.append(evidence(where, good.path, None, needed_by(release)))
    return tuple(found)


def missing_evidence(context: Context, libraries: tuple[Soname, ...], release: Release) -> tuple[Evidence, ...]:
    """Libraries that are nowhere, with what is found in their place; those with nothing at all in one line."""
    found, by = [], needed_by(release)
    if absent := in_state(libraries, "absent"):
        found.append(evidence(f"no {names(absent)}", context.source("loader.sonames"), "installed", by))
    for library in libraries:
        if library.candidates:
            broken = library.candidates[0]
            found.append(evidence(f"{library.soname}: {broken.problem}", broken.path, "a library", by))
        elif library.other_versions:
            other = library.other_versions[0]
            found.append(evidence(posixpath.basename(other), other, library.soname, by))
    return tuple(found)


# ----------------------------------------------------------------------------------------------------------------------
# What printed messages tell of CUDA's libraries and of cuDNN: what was wanted, not opened, and what is installed.


Installed = tuple[tuple[str, str], ...]  # version and where it is named: "12.4", "line 19, as stated"
_IN_PATH = re.compile(r"cuda[-/](\d+\.\d+)|CUDA[/\\]+v(\d+\.\d+)", re.IGNORECASE)
_RUNTIMES = {"cudatoolkit", "cuda-toolkit", "cuda-cudart", "cuda-runtime", "cuda-version"}
_PIP_RUNTIME = re.compile(r"nvidia-(?:cuda-runtime|cublas)-cu(\d+)")
_MAIN_CUDNN = re.compile(r"libcudnn\.so|cudnn64_", re.IGNORECASE)
_NOT_OPENED = ("library-not-opened", "loader-error")
_CUDART = ("cudart-not-found", "cudart-ignorable", "cudart-symbol")


@dataclass(frozen=True)
class ReportedCuda:
    """What messages tell of CUDA, beside the release, toolkits, packages and variables of the same text."""

    log: MessageLog
    release: Release | None
    toolkits: tuple[Toolkit, ...]
    packages: tuple[Package, ...]
    variables: dict[str, str]

    @cached_property
    def not_opened(self) -> tuple[tuple[Library, Message], ...]:
        """Libraries of CUDA that could not be opened, and are needed."""
        # cuDNN's own helpers; TensorRT's plugins want others, too, and nobody needs them
        of_cudnn = {"libnvrtc.so", *(name for name, _ in self.log.libraries("cudnn-part-missing"))}
        of_others = {message.line for message in self.log.all("cudnn-part-missing")}
        of_others |= {m.line for name, m in self.log.libraries("library-not-opened") if "nvinfer" in name}
        named = ((known_library(name), m) for name, m in self.log.libraries(*_NOT_OPENED) if name not in of_cudnn)
        needed = ((one, m) for one, m in named if one and not one.optional and m.line not in of_others)
        return tuple((one, m) for one, m in needed if one.component not in ("cuda", "cudnn"))

    @cached_property
    def dll(self) -> tuple[Message, ...]:
        """The refusal of an unnamed DLL by a wheel that is linked to CUDA's; from 2.1 on they are opened later."""
        log, release = self.log, self.release
        if release is None or not release.gpu or at_least(release.version, "2.1") is not False:
            return ()
        failed = log.all("dll-load-failed") or (log.all("native-traceback") if not log.has("exception") else ())
        return tuple(message for message in failed if "routine failed" not in message.text)

    @cached_property
    def opened(self) -> tuple[Library, ...]:
        """Libraries that could be opened."""
        return tuple(filter(None, (known_library(name) for name, _ in self.log.libraries("library-opened"))))

    @cached_property
    def installed(self) -> Installed:
        """Each CUDA that is there, and where it is named: toolkits, packages, opened libraries, paths."""
        found = [(kit.version, kit.source) for kit in self.toolkits if kit.version]
        for package in self.packages:
            wheel = _PIP_RUNTIME.fullmatch(package.name)
            if wheel or package.name in _RUNTIMES:
                found.append((wheel[1] if wheel else package.version, f"{package.name} {package.version}"))
        runtimes = (one for one in self.opened if one.component == "cudart" and one.version)
        found += [(one.version or "", f"{one.name} was opened") for one in runtimes]
        for path in (*self.variables.values(), *self.log.values("loader-path", "path")):
            found += [(match[1] or match[2], "the loader path") for match in _IN_PATH.finditer(path)]
        return tuple(found)

    @property
    def built_for(self) -> str | None:
        """The CUDA of the release; what somebody built himself was built for the CUDA that he had."""
        return self.release.cuda if self.release and not self.log.has("source-build") else None

    @cached_property
    def wanted(self) -> str | None:
        """ "11.8", "11.0"; from the name of the library, or from the release."""
        libraries = [library for library, _ in self.not_opened if library.cuda_version]
        exact = (one for one in libraries if one.component == "cudart" or "." in (one.version or ""))
        named = next((one.version for one in exact), None)
        if self.built_for and named and serves(self.built_for, named):
            return self.built_for  # the name says 11.0 for every CUDA 11; the release knows its minor
        other = next((one.cuda_version for one in libraries), None)
        return named or self.built_for or other or next(iter(self.log.values("log-era", "cuda")), None)

    @property
    def _lacks_extra(self) -> bool:
        """True if neither CUDA nor the extra is named, and the release has it: by its version, or its form of log."""
        has_extra = self.release.extra is not None if self.release else "12" in self.log.values("log-era", "cuda")
        return has_extra and self._names_no_cuda

    @property
    def _names_no_cuda(self) -> bool:
        others = ("asked-for-extra", "source-build", "conda-build", "conda-tensorflow", "jetson")
        return not self.installed and not self.log.has(*others)

    @cached_property
    def _is_plain(self) -> bool:
        """True of a list of all of pip's packages without any of CUDA."""
        names = {one.name for one in self.packages if one.installer != "conda"}
        complete = {"tensorflow", "numpy"} <= names and not any(one.startswith(("nvidia-", "cuda")) for one in names)
        return complete and self._lacks_extra

    @property
    def without_extra(self) -> bool:
        """True if pip installed a release that has the extra without it."""
        return self._is_plain or (self._by_pip and self._lacks_extra)

    @property
    def _by_pip(self) -> bool:
        return any(" install " in message.text for message in self.log.all("tensorflow-installed"))

    @property
    def newest_without_extra(self) -> bool:
        """True if pip installed a release without the extra that has it, or no named one, which is the newest."""
        return self.without_extra or (self._by_pip and self.release is None and self._names_no_cuda)

    @property
    def extra_would_help(self) -> bool:
        """True if libcudart is missed by a release that has the extra, and nothing of CUDA is named."""
        return self.log.has("cudart-not-found") and self._lacks_extra

    @cached_property
    def unnamed(self) -> tuple[Message, ...]:
        """Sentences that name no library and mean CUDA's."""
        log, release = self.log, self.release
        if self.not_opened:
            return ()
        if self._is_plain and not log.has(*_CUDART):
            return log.all("gpu-libraries-not-opened")
        named = filter(None, (known_library(name) for name, _ in log.libraries(*_NOT_OPENED)))
        only_cudnn = {one.component for one in named if not one.optional} == {"cudnn"}
        # from 2.12 on a missing libcudart has a sentence of its own; without it, another library is missing: cuDNN
        modern = release is not None and at_least(release.version, "2.12")
        about_cudart = log.has("cudart-not-found") if only_cudnn else log.has(*_CUDART)
        if not about_cudart and (only_cudnn or self.opened or log.has("log-era") or modern):
            return ()
        # the stub in place of libcudart tells something only where a release is known
        kinds = ("cudart-not-found", *(("cudart-symbol",) if release else ()), "cudart-ignorable")
        return log.all(*kinds, "gpu-libraries-not-opened")

    @property
    def fails(self) -> bool:
        """Whether a library of CUDA could not be opened."""
        return bool(self.not_opened or self.unnamed)

    @property
    def is_asked(self) -> bool:
        """False where a GPU works, or the import ends for another reason: that libcudart is missing is no news then."""
        log, fatal = self.log, any(message.kind == "loader-error" for _, message in self.not_opened)
        ends_otherwise = log.stops_import and (log.has("library-not-opened") or not fatal)
        return not log.has("gpu-created") and (bool(self.dll) or not ends_otherwise)

    @property
    def matching(self) -> Installed:
        """What is installed and would serve."""
        return tuple(one for one in self.installed if self.wanted is None or serves(one[0], self.wanted))

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The lines about what failed, and what is installed."""
        failed = message_evidence(*(message for _, message in self.not_opened), *self.unnamed, most=3)
        need = f"CUDA {minor(self.wanted)}" if self.wanted else None
        by = needed_by(self.release) if self.release and self.wanted == self.built_for else "the library's name"
        return (
            *message_evidence(*self.dll, most=1),
            *failed,
            *(evidence(f"CUDA {version}", where, need, by) for version, where in self.installed[:2]),
        )


@dataclass(frozen=True)
class ReportedCudnn:
    """What messages tell of cuDNN."""

    wanted: str | None  # from the name of the library, or from the release
    not_opened: tuple[Message, ...]  # about its main library, by name
    unnamed: tuple[Message, ...]  # about a library that they do not name, which is most likely cuDNN
    installed: Installed

    @property
    def same_major(self) -> Installed:
        """What is installed of the wanted major version."""
        return tuple(one for one in self.installed if self.wanted and major(one[0]) == major(self.wanted))

    @property
    def unnamed_though_installed(self) -> tuple[Message, ...]:
        """What names no library, where a command of pip or conda installs a cuDNN of the wanted major version."""
        by_command = any("nvidia-cudnn" in where or "cudnn=" in where for _, where in self.same_major)
        return self.unnamed if by_command else ()

    @property
    def only_other_major(self) -> bool:
        """Whether all that is installed is of another major version."""
        return bool(self.wanted and self.installed) and not self.same_major


def serves(installed: str, wanted: str) -> bool:
    """Whether a CUDA has the libraries of another: any of the same major from 11 on, the very minor before."""
    have, need = parts(installed), parts(wanted)
    if not have or not need or have[0] != need[0]:
        return False
    return have[0] >= 11 or len(have) < 2 or len(need) < 2 or have[:2] == need[:2]


def reported_cuda(
    messages: Fact[MessageLog],
    gpu_release: Fact[Release],
    toolkits: Fact[tuple[Toolkit, ...]],
    packages: Fact[tuple[Package, ...]],
    variables: Fact[dict[str, str]],
    devices: Fact[tuple[TfDevice, ...]],
) -> Fact[ReportedCuda]:
    """Put together what messages tell of CUDA."""
    if isinstance(messages, Unknown):
        return messages
    beside = value_or(toolkits, ()), value_or(packages, ()), value_or(variables, {})
    found = ReportedCuda(messages.value, value_or(gpu_release, None), *beside)
    is_asked = found.is_asked and not lists_gpu(value_or(devices, ()))
    return Known(found, messages.source) if is_asked else NOT_ASKED


def reported_cudnn(
    messages: Fact[MessageLog],
    gpu_release: Fact[Release],
    installed: Fact[tuple[CudnnFile, ...]],
    packages: Fact[tuple[Package, ...]],
) -> Fact[ReportedCudnn]:
    """Put together what messages tell of cuDNN."""
    if isinstance(messages, Unknown):
        return messages
    log, release = messages.value, value_or(gpu_release, None)
    main = [(known_library(name), message) for name, message in log.libraries(*_NOT_OPENED) if _MAIN_CUDNN.match(name)]
    # TensorFlow 1.4 to 1.13 on Windows look for it themselves
    named = [*(library.version for library, _ in main if library), *log.values("self-check", "cudnn")]
    listed = [p for p in value_or(packages, ()) if re.match(r"(?:nvidia-)?cudnn", p.name)]
    found = ReportedCudnn(
        wanted=next(filter(None, named), release.cudnn if release else None),
        not_opened=(*(message for library, message in main if library), *log.all("self-check")),
        unnamed=log.all("gpu-libraries-not-opened") if _is_silent(log, release) else (),
        installed=(
            *((file.version, file.path) for file in value_or(installed, ()) if file.version),
            *((package.version, f"{package.name} {package.version}") for package in listed),
        ),
    )
    return Known(found, messages.source)


def _is_silent(log: MessageLog, release: Release | None) -> bool:
    """From 2.12 on TensorFlow names nothing of what it misses: mostly cuDNN, unless libcudart, or all came from pip."""
    modern = log.has("log-era") or (release is not None and at_least(release.version, "2.12"))
    return bool(modern) and not log.has("cudart-not-found", "asked-for-extra", *_NOT_OPENED)


def known_to_be_installed(messages: MessageLog, release: Release | None) -> bool:
    """pip installed it, or the program runs where the shell's settings do not reach it, or somebody found it."""
    found = any("what" not in message.values for message in messages.all("said-to-be-there"))
    other_start = messages.works_in_a_shell
    return found or from_pip(messages, release) or other_start or messages.has("started-elsewhere")


def is_said_to_work(messages: MessageLog) -> bool:
    """Whether somebody has found the library, or the program runs where the shell's settings reach it."""
    return known_to_be_installed(messages, None) or messages.has("said-to-be-there")


def from_pip(messages: MessageLog, release: Release | None, cuda: ReportedCuda | None = None) -> bool:
    """Whether what serves is NVIDIA's packages of pip, or the extra was requested of a release that has it, or may."""
    if cuda and cuda.matching:
        return all(where.startswith("nvidia-") for _, where in cuda.matching)
    return messages.has("asked-for-extra") and (release is None or release.extra is not None)


def requested_in_vain(messages: MessageLog, cuda: ReportedCuda, release: Release | None) -> bool:
    """Whether the extra was requested of a release that has none: pip warns, and conda brought no CUDA either.

    A version that somebody fills in is no proof of one.
    """
    no_extra = messages.has("asked-for-extra") and release is not None and not release.extra
    from_conda = any("cudatoolkit" in where or "cuda-" in where for _, where in cuda.matching)
    return (no_extra or messages.has("no-such-extra")) and not from_conda
