"""How the phases of the examination ended, in words, and what their computations came to."""

from __future__ import annotations

from tfgpu_doctor.facts.facts import ComputeCheck, Phase, Phases
from tfgpu_doctor.facts.report import Evidence
from tfgpu_doctor.findings.declaration import evidence

_ENOUGH = 20.0  # seconds; every phase that needs TensorFlow has as many where no limit is set


def import_phase(phases: Phases) -> Phase | None:
    """The phase that imports TensorFlow."""
    return next((phase for phase in phases if phase.name == "import"), None)


def import_fails(phases: Phases | None) -> bool:
    """Whether importing TensorFlow or tf.keras raises, hangs, or ends the process."""
    steps = [phase for phase in phases or () if phase.name in ("import", "keras") and not was_cut_short(phase)]
    return any(phase.outcome in ("raised", "died", "timeout") for phase in steps)


def was_cut_short(phase: Phase) -> bool:
    """Whether a limit that the user set ended a phase before it had the time that it may need."""
    return phase.outcome == "timeout" and phase.idle is None and (phase.seconds or 0.0) < _ENOUGH


def how_it_ended(phase: Phase) -> str:
    """Say in words how a phase ended."""
    note = f" ({phase.note})" if phase.note else ""
    if phase.outcome == "timeout":
        return f"no end after {phase.seconds or 0:.0f} s{note}"
    if phase.outcome == "died":
        ended = f"the process ended with exit code {phase.exit_code}"
        return f"killed by {phase.signal}{note}" if phase.signal else ended
    return phase.exception or phase.outcome


def last_lines(phase: Phase) -> tuple[Evidence, ...]:
    """The end of the traceback, or of what was written to standard error."""
    lines = (line for line in phase.traceback[-1:] or phase.log_tail[-3:] if line and line != phase.exception)
    return tuple(evidence(line, f"last lines of phase {phase.name}") for line in lines)


def is_wrong(check: ComputeCheck) -> bool:
    """Whether there was a result, which names its device, and it was wrong; without one, the computation failed."""
    return not check.ok and (check.placed_on is not None or not check.error)
