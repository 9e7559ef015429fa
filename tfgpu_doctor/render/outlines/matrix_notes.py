"""What a list of releases leaves out, in words, and what else would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.version import Version

from tfgpu_doctor.matrix.compatibility import driver_branches, drives
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.matrix.queries import (
    Filters,
    also_load,
    cards,
    known_broken,
    only_with,
    releases,
)
from tfgpu_doctor.records.versions import numbers
from tfgpu_doctor.render.outlines.matrix import note
from tfgpu_doctor.render.shapes import Items


def what_was_asked(matrix: Matrix, filters: Filters) -> str:
    """The filters as a clause: "for linux_x86_64, built for CUDA 11.8, on driver 470"."""
    named = matrix.gpu(filters.gpu) if filters.gpu else None
    parts = [
        f"for {filters.platform or 'all platforms'}{' under WSL2' * filters.wsl2}",
        f"with a wheel for Python {filters.python}" if filters.python else "",
        f"built for CUDA {filters.cuda}" if filters.cuda else "",
        f"cuDNN {filters.cudnn}" if filters.cudnn else "",
        f"on driver {filters.driver}" if filters.driver else "",
        f"with kernels for {filters.compute_capability}" if filters.compute_capability else "",
        f"with kernels for {named.name} ({named.compute_capability})" if named else "",
    ]
    return ", ".join(filter(None, parts))


def nothing(matrix: Matrix, filters: Filters) -> Iterator[Items]:
    """Why there is no row, as far as that is simple."""
    everything = Filters(platform=filters.platform, gpu_only=True, pre=True)
    if filters.needs_gpu and not releases(matrix, everything):
        yield note(f"No published wheel for {filters.platform} holds CUDA code.")
    for card in cards(matrix, filters) if filters.driver else ():
        first, last = driver_branches(matrix, card, filters.gpu)
        if not drives(filters.driver or "", first, last):
            known = f"{first or 'any'} to {last or 'the newest'}"
            yield note(f"Driver {filters.driver} does not know {filters.gpu or card}; the branches that do: {known}.")
    named = f" --gpu '{filters.gpu}'" if filters.gpu else ""
    yield note(f"No release satisfies all of this. tfgpu plan{named} shows what can be installed, and why not more.")


def footnotes(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
    """What is worth knowing beside the rows."""
    others = also_load(matrix, filters)
    if others:
        built = _listed(row.cuda for row in others if row.cuda)
        versions = minor_ranges(row.version for row in others)
        yield note(f"Also load CUDA {filters.cuda}'s libraries, by the same names: {versions}, built for CUDA {built}.")
    asked = ", ".join(cards(matrix, filters))
    if asked and not filters.ptx and (slow := only_with(matrix, filters, ptx=True)):
        yield note(
            f"By PTX only, listed with --ptx: {minor_ranges(row.version for row in slow)}. These have no machine code "
            f"(SASS) for {asked}: the driver would compile every kernel at first use, which takes long, and CUDA's own "
            "libraries may have nothing for such a GPU at all."
        )
    for issue, versions in _by_issue(known_broken(matrix, filters)):
        yield note(f"Known broken on {asked}: {versions}: {issue.title} ({issue.id}). {issue.fix}.")
    yield from _errors(matrix, filters, rows)
    if filters.wsl2:
        yield note(
            "The driver is that of Windows, with the numbers of Windows; Linux under WSL2 gets none of its own. CUDA "
            "comes from the extra: tfgpu plan --os wsl2 has the commands."
        )
    if not rows and not filters.pre and (early := only_with(matrix, filters, pre=True)):
        yield note(f"--pre would list {early[0].package} {early[0].version}.")


def _errors(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
    """The errors that whoever installs one of the rows, with its extra, would meet."""
    asked = cards(matrix, filters)
    found = [
        (row, issue)
        for row in rows
        for issue in matrix.issues_for(row, python=filters.python, compute_capabilities=asked, extra=True)
        if issue.severity == "error"
    ]
    lines = tuple(f"{versions}: {issue.title} ({issue.id})" for issue, versions in _by_issue(found))
    if lines:
        yield Items(lines, "Known errors; --version shows the way out")


def _by_issue(broken: Iterable[tuple[Release, KnownIssue]]) -> Iterator[tuple[KnownIssue, str]]:
    issues: dict[str, KnownIssue] = {}
    versions: dict[str, list[str]] = {}
    for row, issue in broken:
        issues[issue.id] = issue
        versions.setdefault(issue.id, []).append(row.version)
    for id, issue in issues.items():
        yield issue, minor_ranges(versions[id])


def minor_ranges(versions: Iterable[str]) -> str:
    """Shorten versions to their minors, newest first: "2.18 to 2.21, 2.15"; one alone stays as it is."""
    every = list(dict.fromkeys(versions))
    if len(every) == 1:
        return every[0]
    minors = sorted({Version(version).release[:2] for version in every}, reverse=True)
    spans: list[list[tuple[int, ...]]] = []
    for minor in minors:
        if spans and spans[-1][-1] == (minor[0], minor[1] + 1):
            spans[-1].append(minor)
        else:
            spans.append([minor])
    return ", ".join(
        f"{_dotted(span[-1])} to {_dotted(span[0])}" if len(span) > 1 else _dotted(span[0]) for span in spans
    )


def _listed(versions: Iterable[str]) -> str:
    return ", ".join(sorted(set(versions), key=numbers))


def _dotted(parts: Iterable[int]) -> str:
    return ".".join(map(str, parts))
