"""What the TensorFlow probe reported, line by line, and how its process ended. Pure: no process, no file, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.probes import exit_codes
from tfgpu_doctor.probes.events import Check, Checking, Cudnn, End, Event, FoundCudnn, Loaded, Start
from tfgpu_doctor.probes.tensorflow_probe import NEEDS, PHASES
from tfgpu_doctor.records.facts import ComputeCheck, Fact, Known, Phase, Unknown

LOG_LINES = 400
LOG_WIDTH = 2000
TAIL_LINES = 20
MOST_CHECKS = 500  # three for each GPU


@dataclass(frozen=True)
class Ending:
    """How the child process ended."""

    outcome: str  # "ended", "timeout", "not started", "stopped", "foreign" (it did not run the script)
    returncode: int | None = None
    seconds: float | None = None  # in the phase that was running
    note: str | None = None
    stderr: str = ""
    old_python: str | None = None  # version of a Python that is too old for the script
    idle: float | None = None  # seconds in which it neither used the CPU nor read anything


@dataclass
class Transcript:
    """All that the probe has reported until now."""

    executable: str
    until: str = PHASES[-1]
    ends: dict[str, End] = field(default_factory=dict)
    running: str | None = None
    checks: list[ComputeCheck] = field(default_factory=list)
    checking: Checking | None = None  # the computation that was begun
    loaded: tuple[str, ...] | None = None
    cudnn: FoundCudnn | None = None

    def add(self, event: Event) -> bool:
        """Take in one more event; False for one that comes twice or out of order: it is dropped."""
        match event:
            case Start(phase=phase) if self.running is None and phase == self.broken_off_in:
                self.running = phase
            case End(phase=phase) if phase == self.running:
                self.ends[phase] = event
                self.running = self.checking = None
            case Checking(phase=phase) if phase == self.running and len(self.checks) < MOST_CHECKS:
                self.checking = event
            case Check(data=check) if self.checking and self.checking.begins(event):
                self.checks.append(check)
                self.checking = None
            case Loaded() if self._imported:
                self.loaded = event.data.libraries
            case Cudnn() if self._imported:
                self.cudnn = event.data
            case _:
                return False
        return True

    @property
    def _imported(self) -> bool:
        return self.running is None and "import" in self.ends

    @property
    def due(self) -> tuple[str, ...]:
        """The phases that this script has to go through: those asked for whose needs did not fail."""
        due: list[str] = []
        for phase in PHASES[: PHASES.index(self.until) + 1]:
            needed = NEEDS.get(phase)
            if needed is None or (needed in due and not self._raised(needed)):
                due.append(phase)
        return tuple(due)

    def _raised(self, phase: str) -> bool:
        return phase in self.ends and self.ends[phase].outcome == "raised"

    @property
    def broken_off_in(self) -> str | None:
        """The phase that has not ended, whether it runs or comes next; None when the script came through."""
        return self.running or next((phase for phase in self.due if phase not in self.ends), None)


def phases(transcript: Transcript, ending: Ending) -> tuple[Phase, ...]:
    """Every phase with its outcome, in order."""
    return tuple(_phase(name, transcript, ending) for name in PHASES)


def _phase(name: str, transcript: Transcript, ending: Ending) -> Phase:
    end = transcript.ends.get(name)
    if end is not None:
        tail = _tail(ending.stderr) if end.outcome == "raised" else ()
        return Phase(
            name=name,
            outcome=end.outcome,
            seconds=end.seconds,
            exception=end.exception,
            traceback=end.traceback,
            log_tail=tail,
            note=end.note,
        )
    if name == transcript.broken_off_in:
        return _broken_off(name, ending)
    return Phase(name=name, outcome="skipped", note=why_skipped(name, transcript, ending))


def why_skipped(name: str, transcript: Transcript, ending: Ending) -> str:
    """Say why a phase never began."""
    if PHASES.index(name) > PHASES.index(transcript.until):
        return "TensorFlow was not started"
    if name not in transcript.due:
        cause = NEEDS[name]
        while cause not in transcript.ends:
            cause = NEEDS[cause]
        return f"{cause} raised"
    return f"{transcript.broken_off_in}: {describe_ending(ending)}"


def _broken_off(name: str, ending: Ending) -> Phase:
    ended = ending.outcome in ("ended", "foreign")
    number = _signal_number(ending.returncode) if ended else None
    return Phase(
        name=name,
        outcome="timeout" if ending.outcome == "timeout" else "died",
        seconds=ending.seconds,
        traceback=_stack(ending.stderr),
        signal=exit_codes.name_of(number) if number else None,
        exit_code=ending.returncode if ended and (ending.returncode or 0) >= 0 else None,
        log_tail=_tail(ending.stderr),
        note=ending.note or exit_codes.words(ending.returncode),
        idle=ending.idle,
    )


def describe_ending(ending: Ending) -> str:
    """Say in a few words how the process ended: "SIGSEGV", "no answer within 10 s", "exit code 0"."""
    if ending.outcome == "timeout":
        return ending.note or "no answer in time"
    if ending.outcome != "ended":
        return ending.note or ending.outcome
    number = _signal_number(ending.returncode)
    what = (
        f"the process died of {exit_codes.name_of(number)}"
        if number
        else f"the process ended, exit code {ending.returncode}"
    )
    return f"{what} ({ending.note})" if ending.note else what


def _signal_number(returncode: int | None) -> int | None:
    number = exit_codes.signal_number(returncode)
    return number if number is not None or returncode is None else exit_codes.FATAL.get(returncode)


def killed(returncode: int | None) -> bool:
    """Whether SIGKILL ended the process (or the one that a shell wrapper started)."""
    return _signal_number(returncode) == 9


def died(returncode: int | None) -> bool:
    """True if a signal ended the process (or the one that a shell wrapper started)."""
    return _signal_number(returncode) is not None


def log_lines(stderr: str) -> tuple[str, ...]:
    """The first and the last lines of a log, `LOG_LINES` in all, each cut at `LOG_WIDTH` characters."""
    lines = [line[:LOG_WIDTH] for line in stderr.splitlines()]
    if len(lines) > LOG_LINES:
        half = LOG_LINES // 2
        lines = [*lines[:half], f"[... {len(lines) - LOG_LINES + 1} lines left out ...]", *lines[1 - half :]]
    return tuple(lines)


def _tail(stderr: str) -> tuple[str, ...]:
    return tuple(line[:LOG_WIDTH] for line in stderr[-LOG_WIDTH * TAIL_LINES :].splitlines()[-TAIL_LINES:])


def _stack(stderr: str) -> tuple[str, ...]:
    """The Python stack that faulthandler wrote last, turned round: the innermost call at the end, as in a traceback."""
    for after in reversed(stderr.split("(most recent call first):\n")[1:]):
        frames = []
        for line in after.splitlines():
            if not line.startswith("  File "):
                break
            frames.append(line[:LOG_WIDTH])
        if frames:  # from Python 3.14 on, the stack of C frames follows, under the same headline
            return tuple(reversed(frames[:40]))
    return ()


def answer_of(transcript: Transcript, ending: Ending | None, phase: str) -> Fact[Any]:
    """What a phase found out, or why that is unknown."""
    end = transcript.ends.get(phase)
    if end is None:
        if ending is None:
            return Unknown("the interpreter has not answered yet")
        if phase != transcript.broken_off_in:
            return Unknown(why_skipped(phase, transcript, ending))
        return Unknown(f"{phase}: {describe_ending(ending)}")
    if end.outcome == "raised":
        return Unknown(f"{phase} raised {end.exception}")
    if end.outcome == "skipped":
        return Unknown(end.note or "skipped")
    return Known(end.data, transcript.executable)
