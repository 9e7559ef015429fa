"""How the phases of the examination ended, in words, and what their computations came to."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.records.facts import ComputeCheck, Phase
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import Evidence

_ENOUGH = 20.0  # seconds; every phase that needs TensorFlow has as many where no limit is set


def phase_named(phases: tuple[Phase, ...], name: str) -> Phase | None:
    """The phase of that name."""
    return next((phase for phase in phases if phase.name == name), None)


def import_fails(phases: tuple[Phase, ...] | None) -> bool:
    """Whether importing TensorFlow or tf.keras raises, or ends the process."""
    return any(phase.name in ("import", "keras") and phase.outcome in ("raised", "died") for phase in phases or ())


def was_cut_short(phase: Phase) -> bool:
    """Whether a limit that the user set ended a phase before it had the time that it may need."""
    return phase.outcome == "timeout" and phase.idle is None and (phase.seconds or 0.0) < _ENOUGH


def how_it_ended(phase: Phase) -> str:
    """Say in words how a phase ended."""
    match phase.outcome:
        case "timeout":
            return f"no end after {phase.seconds or 0:.0f} s" + (f" ({phase.note})" if phase.note else "")
        case "died" if phase.signal:
            return f"killed by {phase.signal}" + (f" ({phase.note})" if phase.note else "")
        case "died":
            return f"the process ended with exit code {phase.exit_code}"
        case _:
            return phase.exception or phase.outcome


def last_lines(phase: Phase) -> tuple[Evidence, ...]:
    """The end of the traceback, or of what was written to standard error."""
    lines = phase.traceback[-1:] or phase.log_tail[-3:]
    return tuple(
        evidence(line, f"last lines of phase {phase.name}") for line in lines if line and line != phase.exception
    )


def matching_errors(
    pattern: re.Pattern[str], checks: tuple[ComputeCheck, ...], phases: tuple[Phase, ...]
) -> tuple[Evidence, ...]:
    """The errors of the computations, and the last lines of a phase that failed, that match."""
    found = [(c.error, f"{c.kind} on {c.device}") for c in checks if c.error and pattern.search(c.error)]
    for phase in phases:
        lines = (*([phase.exception] if phase.exception else ()), *phase.log_tail)
        found += [(line, f"phase {phase.name}") for line in lines if pattern.search(line)][:2]
    return tuple(evidence(cut(text, 300), where) for text, where in found)


def is_wrong(check: ComputeCheck) -> bool:
    """Whether there was a result, which names its device, and it was wrong; without one, the computation failed."""
    return not check.ok and (check.placed_on is not None or not check.error)
