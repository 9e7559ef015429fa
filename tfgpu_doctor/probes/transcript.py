"""What the TensorFlow probe reported, line by line, and how its process ended → facts about Python and TensorFlow.

Pure: no process, no file, no clock. The docstring of :mod:`tfgpu_doctor.probes.tensorflow_probe` shows two lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import msgspec

from tfgpu_doctor.parsers.tensorflow_outputs import library_version
from tfgpu_doctor.probes import process
from tfgpu_doctor.probes.host import as_limit
from tfgpu_doctor.probes.tensorflow_probe import NEEDS, PHASES
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Fact, Known, Limit, Package, Phase, Python, TensorFlow, Unknown, map_fact

LOG_LINES = 400
LOG_WIDTH = 2000
TAIL_LINES = 20
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
class Ending:
    """How the child process ended."""

    outcome: str  # "ended", "timeout", "not started", "stopped", "foreign" (it did not run the script)
    returncode: int | None = None
    seconds: float | None = None  # in the phase that was running
    note: str | None = None
    stderr: str = ""
    idle: float | None = None  # seconds in which it neither used the CPU nor read anything

    @property
    def signal(self) -> int | None:
        """The signal that ended the process, or the one that a shell wrapper started."""
        number = process.signal_number(self.returncode)
        return number if number is not None or self.returncode is None else process.FATAL.get(self.returncode)

    def described(self) -> str:
        """Say in a few words how the process ended: "SIGSEGV", "no answer within 10 s", "exit code 0"."""
        if self.outcome != "ended":
            return self.note or ("no answer in time" if self.outcome == "timeout" else self.outcome)
        how = f"died of {process.name_of(self.signal)}" if self.signal else f"ended, exit code {self.returncode}"
        return f"the process {how}" + (f" ({self.note})" if self.note else "")


@dataclass
class Transcript:
    """All that the probe has reported until now."""

    executable: str
    until: str = PHASES[-1]
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)  # phase → the event that ended it
    running: str | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    checking: dict[str, Any] | None = None  # the computation that was begun
    loaded: tuple[str, ...] | None = None
    cudnn: dict[str, Any] | None = None

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
                self.loaded = tuple(event["data"]["libraries"])
            case "cudnn":
                self.cudnn = event["data"]
            case _:
                return False
        return True

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

    def answer(self, ending: Ending | None, phase: str) -> Fact[dict[str, Any]]:
        """What a phase found out, or why that is unknown."""
        end = self.ends.get(phase)
        if end is None:
            if ending is None:
                return Unknown("the interpreter has not answered yet")
            if phase != self.broken_off_in:
                return Unknown(self.why_skipped(phase, ending))
            return Unknown(f"{phase}: {ending.described()}")
        if end["outcome"] == "raised":
            return Unknown(f"{phase} raised {end['exception']}")
        if end["outcome"] == "skipped":
            return Unknown(end["note"] or "skipped")
        return Known(end["data"], self.executable)

    def why_skipped(self, phase: str, ending: Ending) -> str:
        """Say why a phase never began."""
        if PHASES.index(phase) > PHASES.index(self.until):
            return "TensorFlow was not started"
        if phase not in self.due:
            cause = NEEDS[phase]
            while cause not in self.ends:
                cause = NEEDS[cause]
            return f"{cause} raised"
        return f"{self.broken_off_in}: {ending.described()}"


def phases(transcript: Transcript, ending: Ending) -> tuple[Phase, ...]:
    """Every phase with its outcome, in order."""
    return tuple(_phase(name, transcript, ending) for name in PHASES)


def _phase(name: str, transcript: Transcript, ending: Ending) -> Phase:
    tail = tuple(line[:LOG_WIDTH] for line in ending.stderr[-LOG_WIDTH * TAIL_LINES :].splitlines()[-TAIL_LINES:])
    if end := transcript.ends.get(name):
        found: dict[str, Any] = {
            key: end[key] for key in ("outcome", "seconds", "exception", "traceback", "note") if key in end
        }
        found |= {"name": name, "log_tail": tail if end["outcome"] == "raised" else ()}
        return msgspec.convert(found, Phase)
    if name != transcript.broken_off_in:
        return Phase(name=name, outcome="skipped", note=transcript.why_skipped(name, ending))
    ended = ending.outcome in ("ended", "foreign")
    return Phase(
        name=name,
        outcome="timeout" if ending.outcome == "timeout" else "died",
        seconds=ending.seconds,
        traceback=_stack(ending.stderr),
        signal=process.name_of(ending.signal) if ended and ending.signal else None,
        exit_code=ending.returncode if ended and (ending.returncode or 0) >= 0 else None,
        log_tail=tail,
        note=ending.note or process.words(ending.returncode),
        idle=ending.idle,
    )


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


def log_lines(stderr: str) -> tuple[str, ...]:
    """The first and the last lines of a log, `LOG_LINES` in all, each cut at `LOG_WIDTH` characters."""
    lines = [line[:LOG_WIDTH] for line in stderr.splitlines()]
    if len(lines) > LOG_LINES:
        half = LOG_LINES // 2
        lines = [*lines[:half], f"[... {len(lines) - LOG_LINES + 1} lines left out ...]", *lines[1 - half :]]
    return tuple(lines)


def _pick(answer: Fact[dict[str, Any]], name: str, source: str) -> Fact[Any]:
    """One value of a phase's answer; `source` says how the child came to it."""
    if isinstance(answer, Unknown):
        return answer
    value = answer.value[name]
    return Unknown(f"{source} is not set") if value is None else Known(value, f"{source} in {answer.source}")


def _record(fields: Mapping[str, Any]) -> Any:
    """Facts whose values are as JSON has them, to be converted into a record."""
    return {name: msgspec.to_builtins(fact) for name, fact in fields.items()}


def python(transcript: Transcript, ending: Ending | None, installers: tuple[str, ...]) -> Python:
    """The interpreter and its packages."""
    about, packages = (transcript.answer(ending, phase) for phase in ("interpreter", "packages"))
    fields = {name: _pick(about, name, source) for name, source in INTERPRETER.items()}
    fields |= {name: _pick(packages, name, source) for name, source in PACKAGES.items()}
    if isinstance(about, Known) and about.value["user_site"] is None:
        fields["user_site"] = Unknown("not on sys.path")
    return msgspec.convert(_record({**fields, "installers": Known(installers, "PATH")}), Python)


def sys_path(transcript: Transcript) -> tuple[str, ...]:
    """The folders that the interpreter imports from; empty when it has not answered."""
    return tuple(transcript.ends["interpreter"]["data"]["sys_path"]) if "interpreter" in transcript.ends else ()


def address_space_limit(transcript: Transcript, ending: Ending) -> Fact[Limit] | None:
    """RLIMIT_AS of the child, which a script that starts its Python may have set; None where it has not told it."""
    about = transcript.answer(ending, "interpreter")
    if isinstance(about, Unknown) or not about.value["address_space"]:
        return None
    return as_limit(about.value["address_space"], f"getrlimit(RLIMIT_AS) in {about.source}")


def loaded(transcript: Transcript, ending: Ending) -> Fact[tuple[str, ...]]:
    """The CUDA libraries that the child has loaded, as it reported last."""
    if transcript.loaded is not None:
        return Known(transcript.loaded, f"memory map of {transcript.executable} with TensorFlow")
    after = transcript.answer(ending, "import")
    return after if isinstance(after, Unknown) else Unknown("which libraries a process has loaded is not read here")


def cudnn_runtime(transcript: Transcript, ending: Ending) -> Fact[str]:
    """cudnnGetVersion() of the cuDNN that TensorFlow has loaded."""
    libraries, found = loaded(transcript, ending), transcript.cudnn
    if isinstance(libraries, Unknown):
        return libraries
    if found is None:
        if transcript.broken_off_in is None and any("cudnn" in path.lower() for path in libraries.value):
            return Unknown(f"cudnnGetVersion: {ending.described()}")
        return Unknown("TensorFlow has loaded no cuDNN")
    if "version" not in found:
        return Unknown(f"cudnnGetVersion of {found['library']}: {found['problem']}")
    return Known(cudnn_version(found["version"]), f"cudnnGetVersion() of {found['library']}")


def cudnn_version(number: int) -> str:
    """Decode CUDNN_VERSION: 8907 is 8.9.7; from cuDNN 9 on, 91002 is 9.10.2 (cudnn_version.h)."""
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def tensorflow(transcript: Transcript, ending: Ending, about: Python) -> TensorFlow:
    """TensorFlow, as far as it answered."""
    distribution = tensorflow_distribution(about)
    imported, built = (transcript.answer(ending, phase) for phase in ("import", "build"))
    version: Fact[Any] = map_fact(distribution, lambda package: package.version)
    file = _pick(imported, "file", "tf.__file__")
    if isinstance(imported, Known):
        problem = imported.value["problem"]
        version = Unknown(problem) if problem else _pick(imported, "version", "tf.__version__")
        file = file if imported.value["file"] else Unknown("the module has no __file__")
    log = Known(log_lines(ending.stderr), f"stderr of {transcript.executable}")
    fields = {
        "version": version,
        "distribution": map_fact(distribution, lambda package: package.name),
        "file": file,
        "build": _pick(built, "build", built.value["source"] if isinstance(built, Known) else ""),
        "devices": _devices(transcript, ending),
        "checks": _checks(transcript, ending),
        "log": Unknown(ending.described()) if ending.outcome == "not started" else log,
    }
    found = msgspec.convert(_record(fields), TensorFlow)
    return msgspec.structs.replace(found, build=map_fact(found.build, _with_numbers), phases=phases(transcript, ending))


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


def _with_numbers(build: Any) -> Any:
    """On Windows a build names the endings of its DLLs instead of versions."""
    cuda, cudnn = (version and library_version(version) for version in (build.cuda_version, build.cudnn_version))
    return msgspec.structs.replace(build, cuda_version=cuda, cudnn_version=cudnn)


def _devices(transcript: Transcript, ending: Ending) -> Fact[Any]:
    details = transcript.answer(ending, "details")
    by_name = {one["name"]: one for one in details.value["devices"]} if isinstance(details, Known) else {}
    listed = _pick(transcript.answer(ending, "devices"), "devices", "tf.config.list_physical_devices()")
    return map_fact(listed, lambda found: [by_name.get(one["name"], one) for one in found])


def _checks(transcript: Transcript, ending: Ending) -> Fact[Any]:
    checks = list(transcript.checks)
    if transcript.checking is not None and transcript.broken_off_in in ("compute", "xla"):
        checks.append({**transcript.checking, "ok": False, "error": ending.described()})
    answer = transcript.answer(ending, "compute")
    if not checks and isinstance(answer, Unknown):
        return answer
    return Known(checks, f"compared with NumPy in float64 in {transcript.executable}")
