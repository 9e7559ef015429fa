"""What CUDA and cuDNN share: a library is fine, off the loader's path, unloadable, of another version, or absent."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Candidate, Soname
from tfgpu_doctor.records.report import Evidence, Fix
from tfgpu_doctor.records.software import LibraryState


def in_state(libraries: Iterable[Soname], *states: LibraryState) -> tuple[Soname, ...]:
    """Keep the libraries in one of `states`."""
    return tuple(library for library in libraries if library.state in states)


def good_candidate(library: Soname) -> Candidate | None:
    """The file that would serve, were it found."""
    return next((candidate for candidate in library.candidates if candidate.problem is None), None)


def names(libraries: Iterable[Soname]) -> str:
    """List sonames for a sentence."""
    return ", ".join(library.soname for library in libraries)


def seen_off_path(context: Context, libraries: tuple[Soname, ...], needed_by: str) -> tuple[Evidence, ...]:
    """Evidence for libraries that exist where the loader does not look, or behind a file that it trips over."""
    seen = []
    for library in libraries:
        blocking = next((one for one in library.candidates if one.reachable and one.problem), None)
        good = good_candidate(library)
        if blocking:
            seen.append(
                evidence(
                    f"{library.soname}: {blocking.problem} (the loader finds this one first, by {blocking.via})",
                    blocking.path,
                    f"the good one in {good.path}" if good else "a library that can be loaded",
                    needed_by,
                )
            )
        elif good:
            seen.append(
                evidence(
                    f"{library.soname} is installed ({good.via}), but not on the loader's path",
                    good.path,
                    None,
                    needed_by,
                )
            )
    return tuple(seen)


def seen_missing(context: Context, libraries: tuple[Soname, ...], needed_by: str) -> tuple[Evidence, ...]:
    """Evidence for libraries that are nowhere, with what is there instead; those with nothing at all in one line."""
    seen = []
    absent = [library for library in libraries if not library.candidates and not library.other_versions]
    if absent:
        seen.append(evidence(f"no {names(absent)}", context.source("loader.sonames"), "all of them", needed_by))
    for library in libraries:
        broken = next(iter(library.candidates), None)
        if broken:
            seen.append(evidence(f"{library.soname}: {broken.problem}", broken.path, "a library", needed_by))
        elif library.other_versions:
            other = library.other_versions[0]
            seen.append(evidence(posixpath.basename(other), other, library.soname, needed_by))
    return tuple(seen)


def fix_path(context: Context, libraries: tuple[Soname, ...]) -> tuple[Fix, ...]:
    """Put the folders of the good files on the path, and take the broken ones off it."""
    good = [one.path for one in map(good_candidate, libraries) if one]
    blocking = [c.path for library in libraries for c in library.candidates if c.is_in_the_way]
    folders = list(dict.fromkeys(posixpath.dirname(path) for path in good))
    if blocking:
        moves = tuple(
            f"mv {context.remedies.quote(path)} {context.remedies.quote(path + '.broken')}" for path in blocking
        )
        return (Fix(text="Move the broken file out of the loader's way", commands=moves),)
    quoted = context.remedies.quote(":".join(folders))
    return (
        Fix(
            text="Put them on the loader's path, before Python starts (setting it inside Python is too late)",
            commands=(f"export LD_LIBRARY_PATH={quoted}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",),
        ),
    )


def needed_by(release: Release) -> str:
    """Who needs these libraries, for the evidence."""
    return f"TensorFlow {release.version} (wheel)"
