"""Which of several releases is the newest that works: the same for a GPU, a driver and a Python. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.constraints import PlanRequest, violations


def newest_working(request: PlanRequest, rows: Iterable[Release]) -> tuple[str | None, dict[str, str]]:
    """The first of these releases, newest first, that no known bug keeps from the GPU; newer ones with their bug."""
    passed_over: dict[str, str] = {}
    for row in rows:
        bug = next((one for one in violations(request, row) if one.constraint == "known-issue"), None)
        if bug:
            passed_over[row.version] = bug.saw
        elif not row.yanked and row.version not in passed_over:
            return row.version, passed_over
    return None, passed_over
