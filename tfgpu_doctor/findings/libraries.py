"""The libraries that TensorFlow opens by name, as the findings about CUDA and cuDNN judge them, and their evidence."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Candidate, Soname
from tfgpu_doctor.records.report import Evidence
from tfgpu_doctor.records.software import LibraryState

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


def hidden(libraries: Iterable[Soname]) -> tuple[Soname, ...]:
    """The libraries of which no good file exists, and a damaged one would hide it if there were one."""
    return tuple(
        library
        for library in in_state(libraries, "unloadable")
        if any(candidate.is_in_the_way and hides_wheels(candidate) for candidate in library.candidates)
    )


def first_fails(libraries: Iterable[Soname]) -> tuple[Soname, ...]:
    """The libraries of which the loader finds a file first that it cannot load."""
    return tuple(one for one in libraries if any(file.reachable and file.problem for file in one.candidates))


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
    found = []
    absent = in_state(libraries, "absent")
    if absent:
        expected = "all of them" if len(absent) > 1 else "to be installed"
        found.append(evidence(f"no {names(absent)}", context.source("loader.sonames"), expected, needed_by(release)))
    for library in libraries:
        if library.candidates:
            broken = library.candidates[0]
            found.append(evidence(f"{library.soname}: {broken.problem}", broken.path, "a library", needed_by(release)))
        elif library.other_versions:
            other = library.other_versions[0]
            found.append(evidence(posixpath.basename(other), other, library.soname, needed_by(release)))
    return tuple(found)
