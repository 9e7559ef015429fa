"""How the phases of the examination are put into words; shared by the rules about them."""

from __future__ import annotations

from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.records.facts import Phase
from tfgpu_doctor.records.report import Evidence


def phase_named(phases: tuple[Phase, ...], name: str) -> Phase | None:
    """The phase of that name."""
    return next((phase for phase in phases if phase.name == name), None)


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
    return tuple(evidence(line, f"last lines of phase {phase.name}") for line in lines if line != phase.exception)
