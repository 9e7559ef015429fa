"""Turns what the patient script told, and how its process ended, into facts. Pure: no process, no file, no clock."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from tfgpu_doctor.facts import (
    Build,
    ComputeCheck,
    Fact,
    Known,
    Package,
    Phase,
    Python,
    TensorFlow,
    TfDevice,
    Unknown,
    map_fact,
)
from tfgpu_doctor.probes.patient import NEEDS, PHASES, TENSORFLOWS

T = TypeVar("T")

LOG_LINES = 400
LOG_WIDTH = 2000
TAIL_LINES = 20
FATAL = {128 + number: number for number in (4, 6, 7, 8, 9, 11)}  # how a shell wrapper passes a signal on
WINDOWS_CODES = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC0000135: "a DLL was not found",
    0xC0000409: "stack buffer overrun or abort",
}


class Event(Struct, frozen=True):
    """One line that the patient script writes."""

    tfgpu: Literal["patient/1"]
    event: Literal["start", "end", "checking", "check", "loaded", "cudnn"]
    phase: str
    outcome: Literal["ok", "raised", "skipped"] = "ok"
    seconds: float | None = None
    note: str | None = None
    exception: str | None = None
    traceback: tuple[str, ...] = ()
    data: dict[str, Any] = {}


def parse_event(line: str) -> Event | None:
    """Read a line of the script; None for anything else that came through its standard output."""
    try:
        return msgspec.json.decode(line.encode("utf-8", "replace"), type=Event)
    except msgspec.MsgspecError:
        return None


@dataclass(frozen=True)
class Ending:
    """How the child process ended."""

    outcome: str  # "ended", "timeout", "not started", "stopped", "foreign" (it did not run the script)
    returncode: int | None = None
    seconds: float | None = None  # in the phase that was running
    note: str | None = None
    stderr: str = ""
    old_python: str | None = None  # version of a Python that is too old for the script


@dataclass
class Transcript:
    """All that the script has told until now."""

    executable: str
    until: str = PHASES[-1]
    ends: dict[str, Event] = field(default_factory=dict)
    running: str | None = None
    checks: list[ComputeCheck] = field(default_factory=list)
    checking: dict[str, Any] | None = None  # device and kind of the computation that was begun
    loaded: tuple[str, ...] | None = None
    cudnn: dict[str, Any] | None = None

    def add(self, event: Event) -> None:
        """Take in one more event."""
        if event.event == "start":
            self.running = event.phase
        elif event.event == "end":
            self.ends[event.phase] = event
            self.running = None
        elif event.event == "checking":
            self.checking = event.data
        elif event.event == "check":
            self.checks.append(msgspec.convert(event.data, ComputeCheck))
            self.checking = None
        elif event.event == "loaded":
            self.loaded = tuple(event.data["libraries"])
        else:
            self.cudnn = event.data

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
        """The phase that never ended; None when the script came through."""
        return self.running or next((phase for phase in self.due if phase not in self.ends), None)


# --------------------------------------------------------------------------------------- phases


def phases(told: Transcript, ending: Ending) -> tuple[Phase, ...]:
    """Every phase with its outcome, in order."""
    return tuple(_phase(name, told, ending) for name in PHASES)


def _phase(name: str, told: Transcript, ending: Ending) -> Phase:
    end = told.ends.get(name)
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
    if name == told.broken_off_in:
        return _broken_off(name, ending)
    return Phase(name=name, outcome="skipped", note=_why_skipped(name, told, ending))


def _why_skipped(name: str, told: Transcript, ending: Ending) -> str:
    if PHASES.index(name) > PHASES.index(told.until):
        return "not asked for"
    if name not in told.due:
        cause = NEEDS[name]
        while cause not in told.ends:
            cause = NEEDS[cause]
        return f"{cause} raised"
    return f"{told.broken_off_in}: {describe_ending(ending)}"


def _broken_off(name: str, ending: Ending) -> Phase:
    ended = ending.outcome in ("ended", "foreign")
    number = _signal_number(ending.returncode) if ended else None
    return Phase(
        name=name,
        outcome="timeout" if ending.outcome == "timeout" else "died",
        seconds=ending.seconds,
        traceback=_stack(ending.stderr),
        signal=_signal_name(number) if number else None,
        exit_code=ending.returncode if ended and (ending.returncode or 0) >= 0 else None,
        log_tail=_tail(ending.stderr),
        note=ending.note or WINDOWS_CODES.get(ending.returncode or 0),
    )


def describe_ending(ending: Ending) -> str:
    """Say in a few words how the process ended: "SIGSEGV", "no answer within 10 s", "exit code 0"."""
    if ending.outcome == "timeout":
        return ending.note or "no answer in time"
    if ending.outcome != "ended":
        return ending.note or ending.outcome
    number = _signal_number(ending.returncode)
    what = (
        f"the process died of {_signal_name(number)}" if number else f"the process ended, exit code {ending.returncode}"
    )
    return f"{what} ({ending.note})" if ending.note else what


def _signal_number(returncode: int | None) -> int | None:
    if returncode is None:
        return None
    return -returncode if returncode < 0 else FATAL.get(returncode)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def killed(returncode: int | None) -> bool:
    """Whether SIGKILL ended the process (or the one that a shell wrapper started)."""
    return _signal_number(returncode) == 9


# ------------------------------------------------------------------------------------------ log


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
    _, found, after = stderr.rpartition("(most recent call first):\n")
    if not found:
        return ()
    frames = []
    for line in after.splitlines():
        if not line.startswith("  File "):
            break
        frames.append(line[:LOG_WIDTH])
    return tuple(reversed(frames[:40]))


# --------------------------------------------------------------------------------- Python, loaded


def _answer(told: Transcript, ending: Ending | None, phase: str) -> Fact[dict[str, Any]]:
    """What a phase found out, or why that is unknown."""
    end = told.ends.get(phase)
    if end is None:
        if ending is None:
            return Unknown("the interpreter has not answered yet")
        if phase != told.broken_off_in:
            return Unknown(_why_skipped(phase, told, ending))
        return Unknown(f"{phase}: {describe_ending(ending)}")
    if end.outcome == "raised":
        return Unknown(f"{phase} raised {end.exception}")
    if end.outcome == "skipped":
        return Unknown(end.note or "skipped")
    return Known(end.data, told.executable)


def _pick(answer: Fact[dict[str, Any]], key: str, source: str, type: type[T]) -> Fact[T]:
    """One value of a phase's answer; `source` says how the child came to it."""
    if isinstance(answer, Unknown):
        return answer
    try:
        return Known(msgspec.convert(answer.value.get(key), type), f"{source} in {answer.source}")
    except msgspec.ValidationError as error:
        return Unknown(f"{source}: {error}")


def python(told: Transcript, ending: Ending | None, installers: tuple[str, ...]) -> Python:
    """The interpreter and its packages."""
    about = _answer(told, ending, "interpreter")
    packages = _answer(told, ending, "packages")
    prefix = _pick(about, "prefix", "sys.prefix", str)
    environment = _pick(about, "environment", "sys.prefix, sys.base_prefix", str)
    user_site = _pick(about, "user_site", "site.USER_SITE", str)
    if isinstance(about, Known) and about.value.get("user_site") is None:
        user_site = Unknown("not on sys.path")
    return Python(
        executable=_pick(about, "executable", "sys.executable", str),
        version=Known(ending.old_python, f"sys.version_info in {told.executable}")
        if ending and ending.old_python
        else _pick(about, "version", "sys.version", str),
        implementation=_pick(about, "implementation", "sys.implementation", str),
        bits=_pick(about, "bits", "sys.maxsize", int),
        prefix=prefix,
        environment=environment,
        conda_name=_conda_name(prefix, environment),
        externally_managed=_pick(about, "externally_managed", "EXTERNALLY-MANAGED (PEP 668)", bool),
        user_site=user_site,
        pip=_pick(packages, "pip", "importlib", bool),
        installers=Known(installers, "PATH"),
        packages=_pick(packages, "packages", "*.dist-info, *.egg-info", tuple[Package, ...]),
        tensorflow_paths=_pick(packages, "tensorflow_paths", "sys.path", tuple[str, ...]),
        tensorflow_leftovers=_pick(packages, "leftovers", "sys.path", tuple[str, ...]),
        wheel_platform=_wheel_platform(about),
    )


def _conda_name(prefix: Fact[str], environment: Fact[str]) -> Fact[str]:
    if isinstance(environment, Known) and environment.value != "conda":
        return Unknown("not a conda environment")
    return map_fact(prefix, lambda path: PurePath(path).name if PurePath(path).parent.name == "envs" else "base")


def _wheel_platform(about: Fact[dict[str, Any]]) -> Fact[str]:
    if isinstance(about, Unknown):
        return about
    system, machine = str(about.value.get("platform")), str(about.value.get("machine")).lower()
    name = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(system, system)
    if about.value.get("bits") == 32:
        machine = {"x86_64": "i686", "amd64": "x86", "aarch64": "armv7l"}.get(machine, machine)
    return Known(f"{name}_{machine}", f"sys.platform, machine in {about.source}")


def sys_path(told: Transcript) -> tuple[str, ...]:
    """The folders that the interpreter imports from; empty when it has not told."""
    end = told.ends.get("interpreter")
    return tuple(str(folder) for folder in end.data.get("sys_path", ())) if end else ()


def loaded(told: Transcript, ending: Ending) -> Fact[tuple[str, ...]]:
    """The CUDA libraries in the child's memory map, as it told last."""
    if told.loaded is not None:
        return Known(told.loaded, f"/proc/self/maps of {told.executable} with TensorFlow")
    after = _answer(told, ending, "import")
    return after if isinstance(after, Unknown) else Unknown("there is no /proc/self/maps here")


def cudnn_runtime(told: Transcript, ending: Ending) -> Fact[str]:
    """cudnnGetVersion() of the cuDNN that TensorFlow has loaded."""
    libraries = loaded(told, ending)
    if isinstance(libraries, Unknown):
        return libraries
    if told.cudnn is None:
        if told.broken_off_in is None and any("libcudnn" in path for path in libraries.value):
            return Unknown(f"cudnnGetVersion: {describe_ending(ending)}")
        return Unknown("TensorFlow has loaded no cuDNN")
    if "version" not in told.cudnn:
        return Unknown(f"cudnnGetVersion of {told.cudnn.get('library')}: {told.cudnn.get('problem')}")
    return Known(cudnn_version(told.cudnn["version"]), f"cudnnGetVersion() of {told.cudnn['library']}")


def cudnn_version(number: int) -> str:
    """Decode CUDNN_VERSION: 8907 is 8.9.7; from cuDNN 9 on, 91002 is 9.10.2 (cudnn_version.h)."""
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


# ----------------------------------------------------------------------------------- TensorFlow


def tensorflow(told: Transcript, ending: Ending, about: Python) -> TensorFlow:
    """TensorFlow, as far as it answered."""
    distribution = _distribution(about)
    return TensorFlow(
        version=_version(told, ending, distribution),
        distribution=map_fact(distribution, lambda package: package.name),
        file=_module_file(told, ending),
        build=_build(told, ending),
        devices=_devices(told, ending),
        checks=_checks(told, ending),
        phases=phases(told, ending),
        log=Known(log_lines(ending.stderr), f"stderr of {told.executable}")
        if ending.outcome != "not started"
        else Unknown(describe_ending(ending)),
    )


def _distribution(about: Python) -> Fact[Package]:
    """The distribution that TensorFlow comes from: that beside the module that wins, else any."""
    if isinstance(about.packages, Unknown):
        return about.packages
    found = sorted(
        (package for package in about.packages.value if package.name in TENSORFLOWS),
        key=lambda package: TENSORFLOWS.index(package.name),
    )
    paths = about.tensorflow_paths.value if isinstance(about.tensorflow_paths, Known) else ()
    home = str(PurePath(paths[0]).parent) if paths else None
    beside = [package for package in found if package.location == home]
    if not found:
        return Unknown("no distribution of TensorFlow in this interpreter")
    best = (beside or found)[0]
    return Known(best, f"metadata of {best.name} in {best.location}")


def _version(told: Transcript, ending: Ending, distribution: Fact[Package]) -> Fact[str]:
    answer = _answer(told, ending, "import")
    if isinstance(answer, Known):
        if answer.value.get("version") is None:
            return Unknown(str(answer.value.get("problem")))
        return _pick(answer, "version", "tf.__version__", str)
    return map_fact(distribution, lambda package: package.version)


def _module_file(told: Transcript, ending: Ending) -> Fact[str]:
    answer = _answer(told, ending, "import")
    if isinstance(answer, Known) and answer.value.get("file") is None:
        return Unknown("the module has no __file__")
    return _pick(answer, "file", "tf.__file__", str)


def _build(told: Transcript, ending: Ending) -> Fact[Build]:
    answer = _answer(told, ending, "build")
    source = str(answer.value.get("source")) if isinstance(answer, Known) else ""
    return _pick(answer, "build", source, Build)


def _devices(told: Transcript, ending: Ending) -> Fact[tuple[TfDevice, ...]]:
    def list_of(phase: str) -> Fact[tuple[TfDevice, ...]]:
        source = "tf.config.list_physical_devices()" if phase == "devices" else "get_device_details()"
        return _pick(_answer(told, ending, phase), "devices", source, tuple[TfDevice, ...])

    details = list_of("details")
    by_name = _by_name(details.value, lambda device: device.name) if isinstance(details, Known) else {}
    return map_fact(list_of("devices"), lambda found: tuple(by_name.get(device.name, device) for device in found))


def _by_name(items: Iterable[T], key: Callable[[T], str]) -> dict[str, T]:
    return {key(item): item for item in items}


def _checks(told: Transcript, ending: Ending) -> Fact[tuple[ComputeCheck, ...]]:
    checks = list(told.checks)
    if told.checking is not None and told.broken_off_in in ("compute", "xla"):
        checks.append(ComputeCheck(**told.checking, ok=False, error=describe_ending(ending)))
    answer = _answer(told, ending, "compute")
    if not checks and isinstance(answer, Unknown):
        return answer
    return Known(tuple(checks), f"compared with NumPy in float64 in {told.executable}")
