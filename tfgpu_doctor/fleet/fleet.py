"""Distilled results → the fleet: its picture, its groups, its verdict. Pure.

gathered = read_fleet(["reports/"])
fleet = judge_fleet(gathered, matrix, now(), baseline=None, expectations=parse("gpus=8"))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor import __version__
from tfgpu_doctor.fleet.baseline import Baseline, against, centres
from tfgpu_doctor.fleet.differences import Difference, Variety, of_siblings
from tfgpu_doctor.fleet.expectations import Expectation, unmet
from tfgpu_doctor.fleet.grouping import groups
from tfgpu_doctor.fleet.nodes import Machine, machines
from tfgpu_doctor.fleet.picture import common
from tfgpu_doctor.fleet.records import SCHEMA, Fleet, Group, Verdict
from tfgpu_doctor.fleet.results import Gathered
from tfgpu_doctor.fleet.siblings import siblings
from tfgpu_doctor.fleet.speeds import slow, without_speed
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.report import (
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_UNKNOWN,
    FailOn,
    Severity,
    Tool,
    failing,
)

MADS = 5.0


def judge_fleet(
    gathered: Gathered,
    matrix: Matrix,
    created: str,
    *,
    baseline: Baseline | None = None,
    expectations: tuple[Expectation, ...] = (),
    mads: float = MADS,
) -> Fleet:
    """Compare the nodes.

    Args:
        gathered: what `read_fleet` read.
        matrix: that this version has, which repairs are held against; the reports were judged by that of their own.
        created: the time, as reports have it.
        baseline: what to compare with instead of the many.
        expectations: what must hold on every node.
        mads: how many scaled MADs below its siblings a run is slow.
    """
    found, notes = machines(gathered.results)
    answered = tuple(one for one in found if one.results)
    differences = [
        *_differences(answered, baseline, mads),
        *(one for wish in expectations for one in unmet(wish, answered)),
    ]
    grouped = groups(found, differences, matrix)
    return Fleet(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        verdict=_verdict(grouped, found, readable=not gathered.unreadable),
        results=sum(one.kind is not None for one in gathered.results),
        baseline=baseline.name if baseline else None,
        expectations=tuple(one.text for one in expectations),
        common=common(found),
        groups=grouped,
        nodes=tuple(one.node() for one in found),
        unreadable=gathered.unreadable,
        notes=(*notes, *_versions(found), *gathered.notes),
    )


def exit_code(fleet: Fleet, fail_on: FailOn) -> int:
    """1 where a group is at or above `fail_on`; 3 where something could not be determined; else 0."""
    if fail_on == "never":
        return EXIT_OK
    if any(group.severity in failing(fail_on) for group in fleet.groups):
        return EXIT_PROBLEM
    unknown = any(node.verdict == "unknown" for node in fleet.nodes)
    return EXIT_UNKNOWN if fleet.unreadable or not fleet.nodes or unknown else EXIT_OK


def _differences(found: tuple[Machine, ...], baseline: Baseline | None, mads: float) -> Iterator[Difference]:
    if baseline is not None:
        yield from against(baseline, found)
    else:
        every = siblings(found)
        variety = Variety(every)
        for kin in every:
            yield from of_siblings(kin, variety)
    yield from slow(found, mads, centres(baseline), baseline.name if baseline else "")
    yield from without_speed(found)


def _verdict(grouped: tuple[Group, ...], found: tuple[Machine, ...], *, readable: bool) -> Verdict:
    severities = {group.severity for group in grouped}
    if Severity.ERROR in severities:
        return "broken"
    if Severity.WARNING in severities:
        return "degraded"
    return "ok" if found and readable and all(one.verdict != "unknown" for one in found) else "unknown"


def _versions(found: tuple[Machine, ...]) -> Iterator[str]:
    """Reports of several versions may differ for that reason alone."""
    counts = Counter(result.version for one in found for result in one.results if result.version)
    if len(counts) > 1:
        several = ", ".join(f"{version} ({many})" for version, many in counts.most_common(5))
        yield f"the results were written by several versions of tfgpu, which find different things: {several}"
