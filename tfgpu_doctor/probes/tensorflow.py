"""TensorFlow, examined phase by phase in a child process of the interpreter under test.

The child (:mod:`tfgpu_doctor.probes.tensorflow_probe`) is started as early as possible and tells each phase as it ends;
a thread listens and holds it to a deadline for each phase.
Whatever happens to the child is a fact, never an error here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import TracebackType

from tfgpu_doctor.probes import host, launch, transcript
from tfgpu_doctor.probes.process import FLOOD, Child, Completed, FloodError, Watch
from tfgpu_doctor.probes.systems import find
from tfgpu_doctor.probes.tensorflow_probe import PHASES
from tfgpu_doctor.probes.transcript import Ending, Transcript
from tfgpu_doctor.records.facts import Fact, Known, Limit, Python, TensorFlow

# Seconds. A first start from a network file system, or PTX compilation for a GPU newer than the build, takes long.
DEADLINES: Mapping[str, float] = {
    "interpreter": 10.0,
    "packages": 20.0,
    "import": 120.0,
    "keras": 60.0,
    "build": 20.0,
    "devices": 60.0,
    "details": 20.0,
    "compute": 120.0,
    "xla": 180.0,
}
BETWEEN = 10.0  # seconds between the end of a phase and the start of the next, or the end of the process
STACK_GRACE = 0.5  # seconds that a hung child gets to write its Python stack
QUIET = 20.0  # seconds without CPU time and without reading anything, after which an import hangs
NOISE = 8_000_000  # bytes on standard output; all events take less, so that this is no answer
INSTALLERS = ("pip", "uv", "conda", "mamba", "micromamba", "poetry", "pixi")

SCRIPT = Path(__file__).with_name("tensorflow_probe.py")


@dataclass(frozen=True)
class Environment:
    """The interpreter under test, known long before TensorFlow is imported."""

    python: Python
    sys_path: tuple[str, ...]
    site_packages: tuple[str, ...]  # the folders of sys.path that packages are installed in
    tensorflow_dir: str | None  # of the package that `import tensorflow` finds


@dataclass(frozen=True)
class ProbeResult(Environment):
    """All that the child reported."""

    tensorflow: TensorFlow
    loaded: Fact[tuple[str, ...]]  # CUDA libraries in the child's memory map
    cudnn_runtime: Fact[str]
    address_space_limit: Fact[Limit] | None  # None: the child has not told it


class TensorFlowProbe:
    """One examination; :meth:`start` begins it and returns at once.

    Use as a context manager, or call :meth:`kill`: leaving the block kills what still runs.
    """

    def __init__(self, executable: str, until: str | None, deadlines: Mapping[str, float] | None) -> None:
        self._transcript = Transcript(executable, until or PHASES[-1])
        self._deadlines = {**DEADLINES, **(deadlines or {})}
        self._installers: tuple[str, ...] = ()
        self._child: Child | None = None
        self._ending: Ending | None = None
        self._changed = threading.Condition()
        self._phase_started = time.monotonic()
        self._total = self._last = 0.0  # seconds for everything, and the monotonic time when they are used up
        self._quiet = QUIET
        self._idle: float | None = None  # seconds in which the import did nothing
        self._stopped = False
        self._given_up: str | None = None  # why the examination was cut short

    @classmethod
    def start(
        cls,
        executable: str,
        *,
        environ: Mapping[str, str] | None = None,
        until: str | None = None,
        deadlines: Mapping[str, float] | None = None,
        total: float | None = None,
        quiet: float = QUIET,
        kind: str = "GPU",
    ) -> TensorFlowProbe:
        """Start the examination of `executable` (a path, or a name on PATH); never raises for the child's sake.

        Args:
            environ: what the child gets as its environment; None: that of this process.
            until: the last phase to go through, such as "packages"; None: all of them.
            deadlines: seconds for a phase, over :data:`DEADLINES`.
            total: seconds for everything, and for each phase that needs TensorFlow; the phase that runs then has timed
                out. None: what the deadlines add up to.
            quiet: seconds after which an import that does nothing hangs.
            kind: devices that compute; "CPU" tries the script where there is no GPU.
        """
        self = cls(executable, until, deadlines)
        self._quiet = quiet
        self._limit(total)
        environ = os.environ if environ is None else environ
        options = ("--until", self._transcript.until, "--kind", kind)
        argv, environment = launch.command(environ, executable, str(SCRIPT), *options)
        kills = host.oom_kills()
        try:
            child = Child(argv, env=environment, tether=True)
        except OSError as error:
            self._end(Ending("not started", note=_why_not_started(executable, error)))
        else:
            self._child = child
            threading.Thread(target=self._watch, args=(child, kills), name="tensorflow probe", daemon=True).start()
        self._installers = tuple(name for name in INSTALLERS if find(name, environ))
        return self

    def _limit(self, total: float | None) -> None:
        """Set the deadline of everything; who allows more time than a phase has allows it to that phase."""
        due = self._transcript.due
        if total is not None:
            for phase in due[due.index("packages") + 1 :] if "packages" in due else ():
                self._deadlines[phase] = max(self._deadlines[phase], total)
        self._total = total or sum(self._deadlines[phase] + BETWEEN for phase in due)
        self._last = time.monotonic() + self._total

    def _watch(self, child: Child, kills: Mapping[str, int]) -> None:
        ending = Ending("stopped", note="the doctor lost the child")
        try:
            ending = self._follow(child, kills)
        finally:  # whoever waits for the result must not wait for ever
            self._end(ending)

    def _follow(self, child: Child, kills: Mapping[str, int]) -> Ending:
        with child:
            note = self._listen(child)
            ended = note is None
            seconds = time.monotonic() - self._phase_started
            if not ended:
                self._ask_for_stack(child)
                child.kill()
            completed = child.completed()
        outcome = "ended" if ended else "timeout"
        if self._stopped:
            outcome, note = "stopped", "stopped by the doctor"
            if self._given_up:
                outcome, note = "timeout", self._given_up
        elif ended and not self._transcript.ends and self._transcript.running is None:
            return self._foreign(completed, seconds, kills)
        ending = Ending(outcome, completed.returncode, seconds, note, completed.stderr, idle=self._idle)
        return _explained(ending, kills)

    def _listen(self, child: Child) -> str | None:
        """Take in events until the child ends; where it does not end, the reason to kill it."""
        deadline = self._deadline(self._deadlines["interpreter"])
        watch: Watch | None = None
        while child.stdout.size <= NOISE:
            try:
                line = child.read_line_or_end(min(deadline, time.monotonic() + watch.pause) if watch else deadline)
            except TimeoutError as error:
                if time.monotonic() >= deadline:
                    return self._why_timed_out(child)
                if isinstance(error, FloodError):
                    return f"it wrote more than {FLOOD / 1e6:.0f} MB to standard error"
                if watch and watch.hangs():
                    self._idle = watch.limit
                    did = f"neither used the CPU nor read anything for {watch.limit:g} s; until then {watch.used()}"
                    return f"the import has {did}"
                continue
            if line is None:
                ended = child.wait(deadline - time.monotonic()) is not None
                return None if ended else self._why_timed_out(child)
            with self._changed:
                event = self._transcript.add(line)
                self._changed.notify_all()
            if event and event["event"] == "start":  # another program's line renews no deadline
                deadline = self._deadline(self._deadlines[event["phase"]])
                watch = Watch(child.process.pid, self._quiet) if event["phase"] == "import" else None
            elif event and event["event"] == "end":
                deadline, watch = self._deadline(BETWEEN), None
        return f"it wrote {NOISE / 1e6:.0f} MB to standard output{self._is_it_python(child)}"

    def _deadline(self, seconds: float) -> float:
        self._phase_started = time.monotonic()
        return min(self._phase_started + seconds, self._last)

    def _why_timed_out(self, child: Child) -> str:
        phase = self._transcript.broken_off_in
        if time.monotonic() >= self._last:
            return f"the {self._total:g} s for the whole examination were used up"
        return f"no answer within {self._deadlines.get(phase or '', BETWEEN):g} s{self._is_it_python(child)}"

    def _is_it_python(self, child: Child) -> str:
        """A question, with what it wrote instead; nothing when the script has begun."""
        if self._transcript.ends or self._transcript.running:
            return ""
        wrote = child.stdout.text().strip().splitlines()[:1]
        return f"; is {self._transcript.executable} a Python?" + (f" It wrote {wrote[0][:100]!r}" if wrote else "")

    def _ask_for_stack(self, child: Child) -> None:
        """Let a hung child write where in Python it hangs; one in which the handler is not yet set just dies of it."""
        if sys.platform == "win32" or not (self._transcript.ends or self._transcript.running):
            return
        before = child.stderr.text().count("(most recent call first)")
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child.process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + STACK_GRACE
        while time.monotonic() < deadline and child.stderr.text().count("(most recent call first)") == before:
            time.sleep(0.02)
        time.sleep(0.02)  # the frames follow the headline

    def _foreign(self, completed: Completed, seconds: float, kills: Mapping[str, int]) -> Ending:
        """Find out what a program is that did not run the script: a Python before 3.6, one that died, or no Python."""
        executable = self._transcript.executable
        memory = "MemoryError" if "MemoryError" in completed.stderr else None
        ending = Ending("ended", completed.returncode, seconds, memory, completed.stderr)
        if ending.signal or memory:  # which does not tell whether it is a Python
            return _explained(ending, kills)
        last = completed.stderr.strip().splitlines()[-1:] or [""]
        wrote = (completed.stdout or completed.stderr).strip().splitlines()
        if "SyntaxError" in last[0]:
            note = "this Python is too old to be examined: 3.6 is the oldest"
        elif "Traceback (most recent" in completed.stderr or "Fatal Python error" in completed.stderr:
            note = f"the examination cannot start in this Python: {last[0][:200]}"
        else:
            note = f"{executable} is no Python interpreter" + (f": it wrote {wrote[0][:100]!r}" if wrote else "")
        return Ending("foreign", completed.returncode, seconds, note, completed.stderr)

    def _end(self, ending: Ending) -> None:
        with self._changed:
            self._ending = ending
            self._changed.notify_all()

    def python(self, timeout: float = 60.0) -> Environment:
        """Wait until the interpreter has reported itself and its packages or has failed, at most `timeout` s."""
        with self._changed:
            self._changed.wait_for(lambda: self._ending is not None or "packages" in self._transcript.ends, timeout)
            return self._environment(self._ending)

    def result(self) -> ProbeResult:
        """Wait for the end, which the deadlines bound, and return everything."""
        with self._changed:
            self._changed.wait_for(lambda: self._ending is not None)
            ending = self._ending
        assert ending is not None
        here = self._environment(ending)
        return ProbeResult(
            **vars(here),
            tensorflow=transcript.tensorflow(self._transcript, ending, here.python),
            loaded=transcript.loaded(self._transcript, ending),
            cudnn_runtime=transcript.cudnn_runtime(self._transcript, ending),
            address_space_limit=transcript.address_space_limit(self._transcript, ending),
        )

    def hurry(self, seconds: float, why: str) -> None:
        """Give what still runs at most `seconds` more; the phase then running has timed out, because of `why`."""

        def give_up() -> None:
            if self._ending is None:
                self._given_up = why
                self.kill()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """Stop the examination now; what has been reported so far is kept."""
        if self._child is not None and self._ending is None:
            self._stopped = True
            self._child.kill()

    def __enter__(self) -> TensorFlowProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _environment(self, ending: Ending | None) -> Environment:
        about = transcript.python(self._transcript, ending, self._installers)
        folders = transcript.sys_path(self._transcript)
        paths = about.tensorflow_paths.value if isinstance(about.tensorflow_paths, Known) else ()
        packages = about.packages.value if isinstance(about.packages, Known) else ()
        homes = {package.location for package in packages}
        return Environment(
            python=about,
            sys_path=folders,
            site_packages=tuple(
                folder for folder in folders if folder in homes or PurePath(folder).name in SITE_FOLDERS
            ),
            tensorflow_dir=paths[0] if paths and PurePath(paths[0]).name == "tensorflow" else None,
        )


SITE_FOLDERS = ("site-packages", "dist-packages")


def _explained(ending: Ending, kills: Mapping[str, int]) -> Ending:
    """Say of a process that SIGKILL ended by itself whose signal that probably was."""
    if ending.outcome != "ended" or ending.signal != 9:
        return ending
    return replace(ending, note=host.explain_kill(kills, host.oom_kills()))


def _why_not_started(executable: str, error: OSError) -> str:
    if os.path.isdir(executable):  # False where a folder above it may not be entered
        return f"{executable} is a folder, not an interpreter"
    if isinstance(error, FileNotFoundError):
        if os.path.exists(executable):  # a script whose #! line names a missing interpreter, or a missing ELF loader
            return f"cannot start {executable}: the interpreter that it needs itself is missing"
        return f"no such program: {executable}"
    return f"cannot start {executable}: {(error.strerror or str(error)).lower()}"
