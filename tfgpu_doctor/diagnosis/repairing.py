"""Makes the edits that findings advise in manifests, until no finding has one that can be made. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import NamedTuple

from tfgpu_doctor.manifests import ManifestError
from tfgpu_doctor.manifests.editing import Refused, apply
from tfgpu_doctor.records.report import Edit, Fix, Report, Severity

_MOST = 50  # times that fixes are tried
_MOST_READ = 5_000_000  # characters that are read again; every file is read after each fix


class Repair(NamedTuple):
    """What was changed, and what could not be."""

    texts: dict[str, str]  # by path, those of changed files
    refused: tuple[Refused, ...]
    report: Report  # of the files as they are then
    is_complete: bool  # no fix is left that was not tried


def repair(
    report: Report,
    text: Callable[[str], str | None],
    judge: Callable[[Mapping[str, str]], Report],
    shells: Container[str],
) -> Repair:
    """Make the first fix of each problem, together where that can be, as long as one was not tried yet.

    Args:
        report: of the files as they are.
        text: of a file, by its path; None for one that must not be changed.
        judge: the report with other texts in place of some files. Raises ManifestError: one of them is no manifest.
        shells: paths of files whose lines are commands.
    """
    texts: dict[str, str] = {}
    refused: list[Refused] = []
    tried: set[tuple[Edit, ...]] = set()
    rounds = read = 0
    while (fixes := [*_open(report, tried)]) and rounds < _MOST and read < _MOST_READ:
        for several in (fixes, fixes[:1]):  # all at once, else the first alone, whose reason is then known
            edits = tuple(dict.fromkeys(edit for fix in several for edit in fix.edits))
            made, reasons = _made(edits, texts, text, shells)
            rounds, read = rounds + 1, read + sum(map(len, made.values()))
            if not reasons:
                try:
                    after = judge(made)
                    if not (reasons := [*_useless(several, report, after)]):
                        report, texts = after, made
                        break
                except ManifestError as error:
                    reasons = [Refused(edits[0], f"with this change the file cannot be read: {error}")]
        else:
            refused += reasons
        tried.update(fix.edits for fix in several)
    return Repair(texts, tuple(refused), report, not fixes)


def _open(report: Report, tried: Container[tuple[Edit, ...]]) -> Iterator[Fix]:
    """The fixes that the reader would take first, where they are edits of files."""
    for finding in report.findings:
        if finding.root_cause and finding.severity is not Severity.NOTE and finding.fixes:
            first = finding.fixes[0]
            if first.edits and first.edits not in tried:
                yield first


def _useless(fixes: Collection[Fix], before: Report, after: Report) -> Iterator[Refused]:
    """The edits of fixes after which their finding is the same as before."""
    left = {(one.id, one.title, one.evidence) for one in after.findings}
    for one in before.findings:
        if one.fixes and one.fixes[0] in fixes and (one.id, one.title, one.evidence) in left:
            yield Refused(one.fixes[0].edits[0], f"{one.id} would remain")


def _made(
    wanted: tuple[Edit, ...],
    texts: Mapping[str, str],
    text: Callable[[str], str | None],
    shells: Container[str],
) -> tuple[dict[str, str], list[Refused]]:
    """The texts after some edits, and those that cannot be made."""
    made, refused = dict(texts), list[Refused]()
    by_path: dict[str, list[Edit]] = {}
    for edit in wanted:
        by_path.setdefault(edit.path, []).append(edit)
    for path, edits in by_path.items():
        now = made.get(path) or text(path)
        if now is None:
            refused += [
                Refused(edit, "this file is not changed: it is not a regular file, or a link to another folder")
                for edit in edits
            ]
            continue
        made[path], reasons = apply(path, now, edits, in_shell=path in shells)
        refused += reasons
    return made, refused
