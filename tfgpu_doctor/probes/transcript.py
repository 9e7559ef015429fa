"""What the TensorFlow probe reported, line by line, and how its process ended. Pure: no process, no file, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from tfgpu_doctor.parsers.tensorflow_outputs import library_version
from tfgpu_doctor.probes import process
from tfgpu_doctor.probes.host import as_limit
from tfgpu_doctor.probes.tensorflow_probe import NEEDS, PHASES
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import (
    Build,
    ComputeCheck,
    Fact,
    Known,
    Limit,
    Package,
    Phase,
    Python,
    TensorFlow,
    TfDevice,
    Unknown,
    map_fact,
)
from tfgpu_doctor.records.printable import utf8

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
        signal=process.name_of(number) if number else None,
        exit_code=ending.returncode if ended and (ending.returncode or 0) >= 0 else None,
        log_tail=_tail(ending.stderr),
        note=ending.note or process.words(ending.returncode),
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
        f"the process died of {process.name_of(number)}"
        if number
        else f"the process ended, exit code {ending.returncode}"
    )
    return f"{what} ({ending.note})" if ending.note else what


def _signal_number(returncode: int | None) -> int | None:
    number = process.signal_number(returncode)
    return number if number is not None or returncode is None else process.FATAL.get(returncode)


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


# ------------------------------------------------------------------------------------------------------------- events
#
# The lines that the TensorFlow probe writes, each of which is checked once, here: what is no event is no answer. Pure.
#
# The docstring of :mod:`tfgpu_doctor.probes.tensorflow_probe` shows two of them.

PhaseName = Literal["interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla"]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class Interpreter(Struct, frozen=True):
    """The phase "interpreter"."""

    executable: str | None
    version: str
    implementation: str
    bits: int
    prefix: str
    environment: str
    externally_managed: bool
    user_site: str | None
    platform: str
    machine: str
    sys_path: tuple[str, ...]
    address_space: tuple[int, ...] = ()


class Packages(Struct, frozen=True):
    """The phase "packages"."""

    packages: tuple[Package, ...]
    pip: bool
    tensorflow_paths: tuple[str, ...]
    leftovers: tuple[str, ...]


class Imported(Struct, frozen=True):
    """The phase "import"."""

    version: str | None
    file: str | None
    problem: str | None


class Built(Struct, frozen=True):
    """The phase "build"."""

    build: Build
    source: str


class Devices(Struct, frozen=True):
    """The phases "devices" and "details"."""

    devices: tuple[TfDevice, ...]


class Nothing(Struct, frozen=True):
    """The phase "keras"; "compute" and "xla", whose checks are events of their own."""


ANSWERS: dict[str, type[Struct]] = {
    "interpreter": Interpreter,
    "packages": Packages,
    "import": Imported,
    "keras": Nothing,
    "build": Built,
    "devices": Devices,
    "details": Devices,
    "compute": Nothing,
    "xla": Nothing,
}


class Line(Struct, frozen=True, tag_field="event", tag=str.lower):
    """What all events have."""

    tfgpu: Literal["patient/1"]
    phase: PhaseName


class Start(Line, frozen=True):
    """A phase begins."""


class End(Line, frozen=True):
    """A phase has ended; `data` is its answer, of the type that ANSWERS names, where it did what it should."""

    outcome: Literal["ok", "raised", "skipped"]
    seconds: Seconds | None = None
    note: str | None = None
    exception: str | None = None
    traceback: tuple[str, ...] = ()
    data: Any = None


class Computation(Struct, frozen=True):
    """What is computed, and on which device."""

    device: str
    kind: str


class Checking(Line, frozen=True):
    """A computation begins."""

    data: Computation

    def begins(self, check: Check) -> bool:
        """Whether `check` is the end of this computation."""
        done = check.data
        return (self.phase, self.data.device, self.data.kind) == (check.phase, done.device, done.kind)


class Check(Line, frozen=True):
    """A computation has ended."""

    data: ComputeCheck


class Libraries(Struct, frozen=True):
    """Paths in the process's memory map."""

    libraries: tuple[str, ...]


class Loaded(Line, frozen=True):
    """The CUDA libraries that are loaded now."""

    data: Libraries


class FoundCudnn(Struct, frozen=True):
    """The cuDNN that is loaded, or why it does not answer."""

    library: str
    version: Annotated[int, Meta(ge=0, lt=10**8)] | None = None
    problem: str | None = None


class Cudnn(Line, frozen=True):
    """cudnnGetVersion()."""

    data: FoundCudnn


Event = Start | End | Checking | Check | Loaded | Cudnn
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def parse_event(line: str) -> Event | None:
    """Read a line of the script; None for anything else that came through its standard output."""
    try:
        event = _DECODER.decode(utf8(line))
        if isinstance(event, End):
            answer = msgspec.convert(event.data, ANSWERS[event.phase]) if event.outcome == "ok" else None
            return msgspec.structs.replace(event, data=answer)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event


# --------------------------------------------------------------------------------------------------- tensorflow facts
#
# Transcript of the TensorFlow probe → facts about Python and TensorFlow. Pure: no process, no file, no clock.

T = TypeVar("T")
A = TypeVar("A")


def _pick(answer: Fact[A], read: Callable[[A], T | None], source: str) -> Fact[T]:
    """One value of a phase's answer; `source` says how the child came to it."""
    if isinstance(answer, Unknown):
        return answer
    value = read(answer.value)
    return Unknown(f"{source} is not set") if value is None else Known(value, f"{source} in {answer.source}")


def python(transcript: Transcript, ending: Ending | None, installers: tuple[str, ...]) -> Python:
    """The interpreter and its packages."""
    about: Fact[Interpreter] = answer_of(transcript, ending, "interpreter")
    packages: Fact[Packages] = answer_of(transcript, ending, "packages")
    prefix = _pick(about, lambda found: found.prefix, "sys.prefix")
    environment = _pick(about, lambda found: found.environment, "sys.prefix, sys.base_prefix")
    user_site = _pick(about, lambda found: found.user_site, "site.USER_SITE")
    if isinstance(about, Known) and about.value.user_site is None:
        user_site = Unknown("not on sys.path")
    return Python(
        executable=_pick(about, lambda found: found.executable, "sys.executable"),
        version=Known(ending.old_python, f"sys.version_info in {transcript.executable}")
        if ending and ending.old_python
        else _pick(about, lambda found: found.version, "sys.version"),
        implementation=_pick(about, lambda found: found.implementation, "sys.implementation"),
        bits=_pick(about, lambda found: found.bits, "sys.maxsize"),
        prefix=prefix,
        environment=environment,
        conda_name=_conda_name(prefix, environment),
        externally_managed=_pick(about, lambda found: found.externally_managed, "EXTERNALLY-MANAGED (PEP 668)"),
        user_site=user_site,
        pip=_pick(packages, lambda found: found.pip, "importlib"),
        installers=Known(installers, "PATH"),
        packages=_pick(packages, lambda found: found.packages, "*.dist-info, *.egg-info"),
        tensorflow_paths=_pick(packages, lambda found: found.tensorflow_paths, "sys.path"),
        tensorflow_leftovers=_pick(packages, lambda found: found.leftovers, "sys.path"),
        wheel_platform=_wheel_platform(about),
    )


def _conda_name(prefix: Fact[str], environment: Fact[str]) -> Fact[str]:
    if isinstance(environment, Known) and environment.value != "conda":
        return Unknown("not a conda environment")
    return map_fact(prefix, lambda path: PurePath(path).name if PurePath(path).parent.name == "envs" else "base")


def _wheel_platform(about: Fact[Interpreter]) -> Fact[str]:
    if isinstance(about, Unknown):
        return about
    system, machine = about.value.platform, about.value.machine.lower()
    name = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(system, system)
    if about.value.bits == 32:
        machine = {"x86_64": "i686", "amd64": "x86", "aarch64": "armv7l"}.get(machine, machine)
    return Known(f"{name}_{machine}", f"sys.platform, machine in {about.source}")


def sys_path(transcript: Transcript) -> tuple[str, ...]:
    """The folders that the interpreter imports from; empty when it has not answered."""
    end = transcript.ends.get("interpreter")
    return end.data.sys_path if end and end.data else ()


def address_space_limit(transcript: Transcript, ending: Ending) -> Fact[Limit] | None:
    """RLIMIT_AS of the child, which a script that starts its Python may have set; None where it has not told it."""
    about: Fact[Interpreter] = answer_of(transcript, ending, "interpreter")
    if isinstance(about, Unknown) or len(about.value.address_space) != 2:
        return None
    return as_limit(about.value.address_space, f"getrlimit(RLIMIT_AS) in {about.source}")


def loaded(transcript: Transcript, ending: Ending) -> Fact[tuple[str, ...]]:
    """The CUDA libraries that the child has loaded, as it reported last."""
    if transcript.loaded is not None:
        return Known(transcript.loaded, f"memory map of {transcript.executable} with TensorFlow")
    after = answer_of(transcript, ending, "import")
    return after if isinstance(after, Unknown) else Unknown("which libraries a process has loaded is not read here")


def cudnn_runtime(transcript: Transcript, ending: Ending) -> Fact[str]:
    """cudnnGetVersion() of the cuDNN that TensorFlow has loaded."""
    libraries = loaded(transcript, ending)
    if isinstance(libraries, Unknown):
        return libraries
    if transcript.cudnn is None:
        if transcript.broken_off_in is None and any("cudnn" in path.lower() for path in libraries.value):
            return Unknown(f"cudnnGetVersion: {describe_ending(ending)}")
        return Unknown("TensorFlow has loaded no cuDNN")
    if transcript.cudnn.version is None:
        return Unknown(f"cudnnGetVersion of {transcript.cudnn.library}: {transcript.cudnn.problem}")
    return Known(cudnn_version(transcript.cudnn.version), f"cudnnGetVersion() of {transcript.cudnn.library}")


def cudnn_version(number: int) -> str:
    """Decode CUDNN_VERSION: 8907 is 8.9.7; from cuDNN 9 on, 91002 is 9.10.2 (cudnn_version.h)."""
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def tensorflow(transcript: Transcript, ending: Ending, about: Python) -> TensorFlow:
    """TensorFlow, as far as it answered."""
    distribution = tensorflow_distribution(about)
    return TensorFlow(
        version=_version(transcript, ending, distribution),
        distribution=map_fact(distribution, lambda package: package.name),
        file=_module_file(transcript, ending),
        build=_build(transcript, ending),
        devices=_devices(transcript, ending),
        checks=_checks(transcript, ending),
        phases=phases(transcript, ending),
        log=Known(log_lines(ending.stderr), f"stderr of {transcript.executable}")
        if ending.outcome != "not started"
        else Unknown(describe_ending(ending)),
    )


def tensorflow_distribution(about: Python) -> Fact[Package]:
    """The distribution that TensorFlow comes from: that beside the module that wins, else any."""
    if isinstance(about.packages, Unknown):
        return about.packages
    found = sorted(
        (package for package in about.packages.value if package.name in TENSORFLOW),
        key=lambda package: TENSORFLOW.index(package.name),
    )
    paths = about.tensorflow_paths.value if isinstance(about.tensorflow_paths, Known) else ()
    home = str(PurePath(paths[0]).parent) if paths else None
    beside = [package for package in found if package.location == home]
    if not found:
        return Unknown("no distribution of TensorFlow in this interpreter")
    best = (beside or found)[0]
    return Known(best, f"metadata of {best.name} in {best.location}")


def _version(transcript: Transcript, ending: Ending, distribution: Fact[Package]) -> Fact[str]:
    answer: Fact[Imported] = answer_of(transcript, ending, "import")
    if isinstance(answer, Known):
        if answer.value.version is None:
            return Unknown(str(answer.value.problem))
        return _pick(answer, lambda found: found.version, "tf.__version__")
    return map_fact(distribution, lambda package: package.version)


def _module_file(transcript: Transcript, ending: Ending) -> Fact[str]:
    answer: Fact[Imported] = answer_of(transcript, ending, "import")
    if isinstance(answer, Known) and answer.value.file is None:
        return Unknown("the module has no __file__")
    return _pick(answer, lambda found: found.file, "tf.__file__")


def _build(transcript: Transcript, ending: Ending) -> Fact[Build]:
    answer: Fact[Built] = answer_of(transcript, ending, "build")
    source = answer.value.source if isinstance(answer, Known) else ""
    return _pick(answer, lambda found: _with_numbers(found.build), source)


def _with_numbers(build: Build) -> Build:
    """On Windows a build names the endings of its DLLs instead of versions."""
    cuda, cudnn = (version and library_version(version) for version in (build.cuda_version, build.cudnn_version))
    return msgspec.structs.replace(build, cuda_version=cuda, cudnn_version=cudnn)


def _devices(transcript: Transcript, ending: Ending) -> Fact[tuple[TfDevice, ...]]:
    def list_of(phase: str) -> Fact[tuple[TfDevice, ...]]:
        source = "tf.config.list_physical_devices()" if phase == "devices" else "get_device_details()"
        answer: Fact[Devices] = answer_of(transcript, ending, phase)
        return _pick(answer, lambda found: found.devices, source)

    details = list_of("details")
    by_name = {device.name: device for device in details.value} if isinstance(details, Known) else {}
    return map_fact(list_of("devices"), lambda found: tuple(by_name.get(device.name, device) for device in found))


def _checks(transcript: Transcript, ending: Ending) -> Fact[tuple[ComputeCheck, ...]]:
    checks = list(transcript.checks)
    if transcript.checking is not None and transcript.broken_off_in in ("compute", "xla"):
        begun = transcript.checking.data
        checks.append(ComputeCheck(begun.device, begun.kind, ok=False, error=describe_ending(ending)))
    answer = answer_of(transcript, ending, "compute")
    if not checks and isinstance(answer, Unknown):
        return answer
    return Known(tuple(checks), f"compared with NumPy in float64 in {transcript.executable}")
