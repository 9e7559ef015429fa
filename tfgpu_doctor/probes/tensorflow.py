"""TensorFlow, examined phase by phase in a child process of the interpreter under test.

The child (:mod:`tfgpu_doctor.probes.tensorflow_probe`, whose docstring shows what it writes) is started as early as
possible and tells each phase as it ends; a thread listens and holds it to a deadline for each phase.
Whatever happens to the child is a fact, never an error here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import msgspec

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Fact, Known, Package, Phase, Python, TensorFlow, Unknown, map_fact, value_or
from tfgpu_doctor.parsers.tensorflow_outputs import library_version
from tfgpu_doctor.probes import host, launch, process
from tfgpu_doctor.probes.process import Child, Completed, Watch
from tfgpu_doctor.probes.systems import find
from tfgpu_doctor.probes.tensorflow_probe import NEEDS, PHASES

# Seconds. A first start from a network file system, or PTX compilation for a GPU newer than the build, takes long.
DEADLINES = {
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
INSTALLERS = ("pip", "uv", "conda", "mamba", "micromamba", "poetry", "pixi")
SITE_FOLDERS = ("site-packages", "dist-packages")
SCRIPT = Path(__file__).with_name("tensorflow_probe.py")
LOG_LINES, LOG_WIDTH, TAIL_LINES = 400, 2000, 20
_STACK_BEGIN = "(most recent call first):\n"
# fields of Python that a phase reports, and where the child has them from
INTERPRETER = {
    "executable": "sys.executable",
    "version": "sys.version",
    "implementation": "sys.implementation",
    "bits": "sys.maxsize",
    "prefix": "sys.prefix",
    "environment": "sys.prefix, sys.base_prefix",
    "externally_managed": "EXTERNALLY-MANAGED (PEP 668)",
    "user_site": "site.USER_SITE",
    "wheel_platform": "sys.platform, machine",
}
PACKAGES = {"pip": "importlib", "packages": "*.dist-info, *.egg-info", "tensorflow_paths": "sys.path"}


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


class TensorFlowProbe:
    """One examination, which begins at once; a context manager that kills what still runs when it is left."""

    def __init__(
        self,
        executable: str,
        *,
        environ: Mapping[str, str] | None = None,
        until: str | None = None,
        total: float | None = None,
    ) -> None:
        """Start the examination of `executable` (a path, or a name on PATH); never raises for the child's sake.

        Args:
            environ: what the child gets as its environment; None: that of this process.
            until: the last phase to go through, such as "packages"; None: all of them.
            total: seconds for everything, and for each phase that needs TensorFlow; the phase that runs then has timed
                out. None: what the deadlines add up to.
        """
        environ = os.environ if environ is None else environ
        self._transcript = Transcript(executable, until or PHASES[-1])
        self._changed = threading.Condition()
        self._child: Child | None = None
        self._stopped: str | None = None  # why the examination was cut short
        self._idle: float | None = None  # seconds in which the import did nothing
        self._deadlines = dict(DEADLINES)
        due = self._transcript.due
        if total is not None:  # who allows more time than a phase has allows it to that phase
            for phase in due[due.index("packages") + 1 :] if "packages" in due else ():
                self._deadlines[phase] = max(self._deadlines[phase], total)
        self._total = total or sum(self._deadlines[phase] + BETWEEN for phase in due)
        self._phase_started = time.monotonic()
        self._last = self._phase_started + self._total  # when all of it is used up
        argv, environment = launch.command(environ, executable, str(SCRIPT), "--until", self._transcript.until)
        kills = host.oom_kills()
        try:
            self._child = child = Child(argv, env=environment, tether=True)
        except OSError as error:
            note = f"cannot start {executable}: {(error.strerror or str(error)).lower()}"
            self._transcript.ending = Ending("not started", note=note)
        else:
            threading.Thread(target=self._watch, args=(child, kills), name="tensorflow probe", daemon=True).start()
        self._installers = tuple(name for name in INSTALLERS if find(name, environ))

    def _watch(self, child: Child, kills: Mapping[str, int]) -> None:
        ending = Ending("stopped", note="the doctor lost the child")
        try:
            ending = self._follow(child, kills)
        finally:  # whoever waits for the result must not wait for ever
            with self._changed:
                self._transcript.ending = ending
                self._changed.notify_all()

    def _follow(self, child: Child, kills: Mapping[str, int]) -> Ending:
        with child:
            note = self._listen(child)
            seconds = time.monotonic() - self._phase_started
            if note is not None:
                self._ask_for_stack(child)
                child.kill()
            done = child.completed()
        outcome = "timeout" if note else "ended"
        if self._stopped:
            outcome, note = "stopped" if self._stopped == _STOPPED else "timeout", self._stopped
        elif outcome == "ended" and not self._transcript.has_begun:
            outcome, note = self._foreign(done)
        elif (
            outcome == "ended" and Ending("ended", done.returncode).signal == "SIGKILL"
        ):  # whose signal that probably was
            note = host.explain_kill(kills, host.oom_kills())
        return Ending(outcome, done.returncode, seconds, note, done.stderr, self._idle)

    def _listen(self, child: Child) -> str | None:
        """Take in events until the child ends; where it does not end, the reason to kill it."""
        deadline = self._deadline(self._deadlines["interpreter"])
        watch: Watch | None = None
        while True:
            try:
                line = child.read_line_or_end(min(deadline, time.monotonic() + watch.pause) if watch else deadline)
            except TimeoutError:
                if time.monotonic() >= deadline or child.stdout.size > process.FLOOD:
                    return self._why_timed_out()
                if watch and watch.hangs():
                    self._idle = watch.limit
                    return f"the import has neither used the CPU nor read anything for {watch.limit:g} s"
                continue
            if line is None:
                return None if child.wait(deadline - time.monotonic()) is not None else self._why_timed_out()
            with self._changed:
                event = self._transcript.add(line)
                self._changed.notify_all()
            if event and event["event"] == "start":  # another program's line renews no deadline
                deadline = self._deadline(self._deadlines[event["phase"]])
                watch = Watch(child.process.pid, QUIET) if event["phase"] == "import" else None
            elif event and event["event"] == "end":
                deadline, watch = self._deadline(BETWEEN), None

    def _deadline(self, seconds: float) -> float:
        self._phase_started = time.monotonic()
        return min(self._phase_started + seconds, self._last)

    def _why_timed_out(self) -> str:
        if time.monotonic() >= self._last:
            return f"the {self._total:g} s for the whole examination were used up"
        seconds = self._deadlines.get(self._transcript.broken_off_in or "", BETWEEN)
        question = "" if self._transcript.has_begun else f"; is {self._transcript.executable} a Python?"
        return f"no answer within {seconds:g} s{question}"

    def _ask_for_stack(self, child: Child) -> None:
        """Let a hung child write where in Python it hangs; one in which the handler is not yet set just dies of it."""
        if sys.platform == "win32" or not self._transcript.has_begun:
            return
        before = child.stderr.text().count(_STACK_BEGIN)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child.process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + STACK_GRACE
        while time.monotonic() < deadline and child.stderr.text().count(_STACK_BEGIN) == before:
            time.sleep(0.02)
        time.sleep(0.02)  # the frames follow the headline

    def _foreign(self, done: Completed) -> tuple[str, str | None]:
        """Find out what a program is that did not run the script: a Python before 3.6, one that died, or no Python."""
        last = (done.stderr.strip().splitlines() or [""])[-1]
        wrote = (done.stdout or done.stderr).strip().splitlines()
        if Ending("ended", done.returncode).signal or "MemoryError" in done.stderr:  # it may be a Python
            return "ended", "MemoryError" if "MemoryError" in done.stderr else None
        if "SyntaxError" in last:
            return "foreign", "this Python is too old to be examined: 3.6 is the oldest"
        if "Traceback (most recent" in done.stderr or "Fatal Python error" in done.stderr:
            return "foreign", f"the examination cannot start in this Python: {last[:200]}"
        said = f": it wrote {wrote[0][:100]!r}" if wrote else ""
        return "foreign", f"{self._transcript.executable} is no Python interpreter{said}"

    def python(self, timeout: float = 60.0) -> Environment:
        """Wait until the interpreter has reported itself and its packages or has failed, at most `timeout` s."""
        told = self._transcript
        with self._changed:
            self._changed.wait_for(lambda: told.ending is not None or "packages" in told.ends, timeout)
            return told.environment(self._installers)

    def result(self) -> ProbeResult:
        """Wait for the end, which the deadlines bound, and return everything."""
        with self._changed:
            self._changed.wait_for(lambda: self._transcript.ending is not None)
        return self._transcript.result(self._installers)

    def hurry(self, seconds: float, why: str) -> None:
        """Give what still runs at most `seconds` more; the phase then running has timed out, because of `why`."""
        timer = threading.Timer(seconds, self.kill, (why,))
        timer.daemon = True
        timer.start()

    def kill(self, why: str | None = None) -> None:
        """Stop the examination now; what has been reported so far is kept."""
        if self._child is not None and self._transcript.ending is None:
            self._stopped = self._stopped or why or _STOPPED
            self._child.kill()

    def __enter__(self) -> TensorFlowProbe:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


_STOPPED = "stopped by the doctor"


# ---------------------------------------------------------------------------------------------------- what it reported
#
# Pure: no process, no file, no clock.


@dataclass(frozen=True)
class Ending:
    """How the child process ended."""

    outcome: str  # "ended", "timeout", "not started", "stopped", "foreign" (it did not run the script)
    returncode: int | None = None
    seconds: float | None = None  # in the phase that was running
    note: str | None = None
    stderr: str = ""
    idle: float | None = None  # seconds in which it neither used the CPU nor read anything

    @property
    def signal(self) -> str | None:
        """The signal that ended the process, or the one that a shell wrapper started."""
        return process.signal_name(self.returncode) or process.OF_SHELL.get(self.returncode or 0)

    def described(self) -> str:
        """Say in a few words how the process ended: "SIGSEGV", "no answer within 10 s", "exit code 0"."""
        if self.outcome != "ended":
            return self.note or ("no answer in time" if self.outcome == "timeout" else self.outcome)
        how = f"died of {self.signal}" if self.signal else f"ended, exit code {self.returncode}"
        return f"the process {how}" + (f" ({self.note})" if self.note else "")


@dataclass
class Transcript:
    """All that the probe has reported until now, and the facts that it comes to."""

    executable: str
    until: str = PHASES[-1]
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)  # phase → the event that ended it
    running: str | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    checking: dict[str, Any] | None = None  # the computation that was begun
    libraries: tuple[str, ...] | None = None
    cudnn: dict[str, Any] | None = None
    ending: Ending | None = None  # None: it still runs

    def add(self, line: str) -> dict[str, Any] | None:
        """Take in a line, and return the event that it is; None for what others wrote, or what comes out of order."""
        try:
            event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            is_event = event.get("tfgpu") == "patient/1"
            return event if is_event and self._take(event["event"], event["phase"], event) else None
        except (ValueError, KeyError, RecursionError):
            return None

    def _take(self, kind: str, phase: str, event: dict[str, Any]) -> bool:
        match kind:
            case "start" if self.running is None and phase == self.broken_off_in:
                self.running = phase
            case "end" if phase == self.running:
                self.ends[phase] = event
                self.running = self.checking = None
            case "checking":
                self.checking = event["data"]
            case "check":
                self.checks.append(event["data"])
                self.checking = None
            case "loaded":
                self.libraries = tuple(event["data"]["libraries"])
            case "cudnn":
                self.cudnn = event["data"]
            case _:
                return False
        return True

    @property
    def has_begun(self) -> bool:
        """True if the script runs, or has run."""
        return bool(self.ends or self.running)

    @property
    def due(self) -> tuple[str, ...]:
        """The phases that this script has to go through: those asked for whose needs did not fail."""
        due: list[str] = []
        for phase in PHASES[: PHASES.index(self.until) + 1]:
            needed = NEEDS.get(phase)
            if needed is None or (needed in due and self.ends.get(needed, {}).get("outcome") != "raised"):
                due.append(phase)
        return tuple(due)

    @property
    def broken_off_in(self) -> str | None:
        """The phase that has not ended, whether it runs or comes next; None when the script came through."""
        return self.running or next((phase for phase in self.due if phase not in self.ends), None)

    def answer(self, phase: str) -> Fact[dict[str, Any]]:
        """What a phase found out, or why that is unknown."""
        end = self.ends.get(phase)
        if end is None:
            if self.ending is None:
                return Unknown("the interpreter has not answered yet")
            return Unknown(self._why_missing(phase, self.ending))
        if end["outcome"] == "raised":
            return Unknown(f"{phase} raised {end['exception']}")
        if end["outcome"] == "skipped":
            return Unknown(end["note"] or "skipped")
        return Known(end["data"], self.executable)

    def _pick(self, phase: str, name: str, source: str) -> Fact[Any]:
        """One value of a phase's answer; `source` says how the child came to it."""
        answer = self.answer(phase)
        if isinstance(answer, Unknown):
            return answer
        value = answer.value[name]
        return Unknown(f"{source} is not set") if value is None else Known(value, f"{source} in {answer.source}")

    def _why_missing(self, phase: str, ending: Ending) -> str:
        if PHASES.index(phase) > PHASES.index(self.until):
            return "TensorFlow was not started"
        if phase not in self.due:
            cause = NEEDS[phase]
            while cause not in self.ends:
                cause = NEEDS[cause]
            return f"{cause} raised"
        return f"{self.broken_off_in}: {ending.described()}"

    def environment(self, installers: tuple[str, ...]) -> Environment:
        """The interpreter and its packages."""
        fields = {name: self._pick("interpreter", name, source) for name, source in INTERPRETER.items()}
        fields |= {name: self._pick("packages", name, source) for name, source in PACKAGES.items()}
        about = self.answer("interpreter")
        if isinstance(about, Known) and about.value["user_site"] is None:
            fields["user_site"] = Unknown("not on sys.path")
        if isinstance(fields["executable"], Unknown):  # commands for it name what was typed
            fields["executable"] = Known(self.executable, "the program that was started")
        python = msgspec.convert(_record({**fields, "installers": Known(installers, "PATH")}), Python)
        folders = tuple(about.value["sys_path"]) if isinstance(about, Known) else ()
        homes = {package.location for package in value_or(python.packages, ())}
        paths = value_or(python.tensorflow_paths, ())
        return Environment(
            python=python,
            sys_path=folders,
            site_packages=tuple(one for one in folders if one in homes or PurePath(one).name in SITE_FOLDERS),
            tensorflow_dir=paths[0] if paths and PurePath(paths[0]).name == "tensorflow" else None,
        )

    def result(self, installers: tuple[str, ...]) -> ProbeResult:
        """Everything, once the child has ended."""
        assert self.ending is not None
        here, loaded = self.environment(installers), self._loaded()
        tensorflow, cudnn = self._tensorflow(here.python, self.ending), self._cudnn_runtime(loaded, self.ending)
        return ProbeResult(**vars(here), tensorflow=tensorflow, loaded=loaded, cudnn_runtime=cudnn)

    def _loaded(self) -> Fact[tuple[str, ...]]:
        if self.libraries is not None:
            return Known(self.libraries, f"memory map of {self.executable} with TensorFlow")
        after = self.answer("import")
        return after if isinstance(after, Unknown) else Unknown("which libraries a process has loaded is not read here")

    def _cudnn_runtime(self, loaded: Fact[tuple[str, ...]], ending: Ending) -> Fact[str]:
        if isinstance(loaded, Unknown):
            return loaded
        if self.cudnn is None:
            if self.broken_off_in is None and any("cudnn" in path.lower() for path in loaded.value):
                return Unknown(f"cudnnGetVersion: {ending.described()}")
            return Unknown("TensorFlow has loaded no cuDNN")
        if "version" not in self.cudnn:
            return Unknown(f"cudnnGetVersion of {self.cudnn['library']}: {self.cudnn['problem']}")
        return Known(cudnn_version(self.cudnn["version"]), f"cudnnGetVersion() of {self.cudnn['library']}")

    def _tensorflow(self, about: Python, ending: Ending) -> TensorFlow:
        distribution = tensorflow_distribution(about)
        imported, built, details = (self.answer(phase) for phase in ("import", "build", "details"))
        version: Fact[Any] = map_fact(distribution, lambda package: package.version)
        if isinstance(imported, Known):
            problem = imported.value["problem"]
            version = Unknown(problem) if problem else self._pick("import", "version", "tf.__version__")
        build = self._pick("build", "build", built.value["source"] if isinstance(built, Known) else "")
        by_name = {one["name"]: one for one in details.value["devices"]} if isinstance(details, Known) else {}
        listed = self._pick("devices", "devices", "tf.config.list_physical_devices()")
        log = Known(log_lines(ending.stderr), f"stderr of {self.executable}")
        fields = {
            "version": version,
            "distribution": map_fact(distribution, lambda package: package.name),
            "file": self._pick("import", "file", "tf.__file__"),
            "build": map_fact(build, lambda found: {**found, **_numbers(found)}),
            "devices": map_fact(listed, lambda found: [by_name.get(one["name"], one) for one in found]),
            "checks": self._checks(ending),
            "log": Unknown(ending.described()) if ending.outcome == "not started" else log,
        }
        found = msgspec.convert(_record(fields), TensorFlow)
        return msgspec.structs.replace(found, phases=tuple(self.phase(name) for name in PHASES))

    def _checks(self, ending: Ending) -> Fact[Any]:
        checks = list(self.checks)
        if self.checking is not None and self.broken_off_in in ("compute", "xla"):
            checks.append({**self.checking, "ok": False, "error": ending.described()})
        answer = self.answer("compute")
        is_known = checks or isinstance(answer, Known)
        return Known(checks, f"compared with NumPy in float64 in {self.executable}") if is_known else answer

    def phase(self, name: str) -> Phase:
        """How a phase ended."""
        ending = self.ending
        assert ending is not None
        tail = tuple(line[:LOG_WIDTH] for line in ending.stderr[-LOG_WIDTH * TAIL_LINES :].splitlines()[-TAIL_LINES:])
        if end := self.ends.get(name):
            keys = ("outcome", "seconds", "exception", "traceback", "note")
            found = {"name": name, **{key: end[key] for key in keys if key in end}}
            return msgspec.convert({**found, "log_tail": tail if end["outcome"] == "raised" else ()}, Phase)
        if name != self.broken_off_in:
            return Phase(name=name, outcome="skipped", note=self._why_missing(name, ending))
        by_itself = ending.outcome in ("ended", "foreign")
        code, name_of_signal = (ending.returncode, ending.signal) if by_itself else (None, None)
        return Phase(
            name=name,
            outcome="timeout" if ending.outcome == "timeout" else "died",
            seconds=ending.seconds,
            traceback=_stack(ending.stderr),
            signal=name_of_signal,
            exit_code=code if code is not None and code >= 0 else None,
            log_tail=tail,
            note=ending.note or process.WINDOWS.get(ending.returncode or 0, (None, None))[1],
            idle=ending.idle,
        )


def _record(fields: Mapping[str, Any]) -> Any:
    """Facts whose values are as JSON has them, to be converted into a record."""
    return {name: msgspec.to_builtins(fact) for name, fact in fields.items()}


def _stack(stderr: str) -> tuple[str, ...]:
    """The Python stack that faulthandler wrote last, turned round: the innermost call at the end, as in a traceback."""
    for after in reversed(stderr.split(_STACK_BEGIN)[1:]):
        frames = []
        for line in after.splitlines():
            if not line.startswith("  File "):
                break
            frames.append(line[:LOG_WIDTH])
        if frames:  # from Python 3.14 on, the stack of C frames follows, under the same headline
            return tuple(reversed(frames[:40]))
    return ()


def log_lines(stderr: str) -> tuple[str, ...]:
    """The first and the last lines of a log, `LOG_LINES` in all, each cut at `LOG_WIDTH` characters."""
    lines = [line[:LOG_WIDTH] for line in stderr.splitlines()]
    if len(lines) > LOG_LINES:
        half = LOG_LINES // 2
        lines = [*lines[:half], f"[... {len(lines) - LOG_LINES + 1} lines left out ...]", *lines[1 - half :]]
    return tuple(lines)


def cudnn_version(number: int) -> str:
    """Decode CUDNN_VERSION: 8907 is 8.9.7; from cuDNN 9 on, 91002 is 9.10.2 (cudnn_version.h)."""
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _numbers(build: Mapping[str, Any]) -> dict[str, str | None]:
    """The versions of a build, which on Windows names the endings of its DLLs instead."""
    versions = {name: build.get(name) for name in ("cuda_version", "cudnn_version")}
    return {name: version and library_version(version) for name, version in versions.items()}


def tensorflow_distribution(about: Python) -> Fact[Package]:
    """The distribution that TensorFlow comes from: that beside the module that wins, else any."""
    if isinstance(about.packages, Unknown):
        return about.packages
    home = next((str(PurePath(path).parent) for path in value_or(about.tensorflow_paths, ())), None)
    found = [package for package in about.packages.value if package.name in TENSORFLOW]
    if not found:
        return Unknown("no distribution of TensorFlow in this interpreter")
    best = min(found, key=lambda package: (package.location != home, TENSORFLOW.index(package.name)))
    return Known(best, f"metadata of {best.name} in {best.location}")
