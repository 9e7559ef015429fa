"""The commands, one function each, from arguments to a result: for the command line, Python programs, MCP and pytest.

Nothing is printed, TensorFlow runs in child processes only, and functions may be called from several threads. Every
function raises UsageError for a wrong argument or a file that cannot be read, and TfgpuError where there is no result.
Arguments that several of them have:

    matrix    a file with rows that extend those of the bundled matrix; files in TFGPU_MATRIX are added, too
    note      called with each remark about the input, such as lines that were left out
    progress  called with a label and the progress, from 0 to 1
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import PurePath
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, overload

from tfgpu_doctor.files import reading
from tfgpu_doctor.files.reading import shown
from tfgpu_doctor.records.facts import Document, show_as_html
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.similar import did_you_mean

if TYPE_CHECKING:
    from tfgpu_doctor.bench.cluster import Cluster
    from tfgpu_doctor.bench.comparison import BenchComparison
    from tfgpu_doctor.bench.devices import Selection
    from tfgpu_doctor.bench.plans.base import PlanBase
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.bench.runner.process import Worker
    from tfgpu_doctor.compare.records import Comparison
    from tfgpu_doctor.fleet.records import Fleet
    from tfgpu_doctor.manifests import Environment, Kind
    from tfgpu_doctor.matrix.loader import Matrix, Release
    from tfgpu_doctor.plan.check import Repair
    from tfgpu_doctor.plan.ranking import MachineState
    from tfgpu_doctor.plan.records import Plan
    from tfgpu_doctor.plan.target import Target
    from tfgpu_doctor.probes.manifest_files import Sources
    from tfgpu_doctor.records.facts import Fact, Facts
    from tfgpu_doctor.records.report import Checked, Report
    from tfgpu_doctor.render.outlines.matrix import Answered, Sheet
    from tfgpu_doctor.smoke.plan import SmokeOptions
    from tfgpu_doctor.smoke.records import Smoke

File: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = str | Sequence[str]
Os: TypeAlias = Literal["linux", "windows", "wsl2", "macos"]
Processor: TypeAlias = Literal["x86_64", "aarch64", "arm64"]
Note: TypeAlias = Callable[[str], None]
Progress: TypeAlias = Callable[[str, float], None]

OSES = ("linux", "windows", "wsl2", "macos")
PROCESSORS = ("x86_64", "aarch64", "arm64")
HARDWARE = ("gpu", "compute_capability", "driver", "os", "machine", "platform")  # of another machine
LARGEST = 64 * 2**20  # bytes of a report or result; the largest seen is a hundredth of it
LARGEST_LOG = 1 << 30  # bytes; it takes half a minute
_REPORT_START = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"tfgpu\.')
_CONTROL = bytes({*range(1, 32), 127} - set(b"\b\t\n\v\f\r\x1b"))
_UNPACK = {"gzip": "gunzip -c", "bzip2": "bunzip2 -c", "xz": "xz -dc", "zstd": "zstd -dc"}
# first bytes of files that are not text, and how to extract their text
_NOT_TEXT = (
    *(
        (magic, f"is compressed with {name}; unpack it first: {_UNPACK[name]} FILE | tfgpu explain -")
        for magic, name in (
            (b"\x1f\x8b", "gzip"),
            (b"BZh", "bzip2"),
            (b"\xfd7zXZ\0", "xz"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
        )
    ),
    (b"PK\x03\x04", "is a zip archive; unpack it first: unzip -p FILE | tfgpu explain -"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; unpack it first"),
    *((magic, "is an image, not text: copy the text itself") for magic in (b"\x89PNG", b"\xff\xd8\xff", b"GIF8")),
    (b"%PDF-", "is a PDF, not text: copy the text itself"),
    (b"\x7fELF", "is a program or library (ELF), not text"),
    (b"MZ\x90\0", "is a Windows program or library, not text"),
    (b"\xcf\xfa\xed\xfe", "is a macOS program or library, not text"),
)


class TfgpuError(Exception):
    """There is no result; the message says why, in the words of the command line."""

    def __init__(self, message: str, exit_code: int = 3) -> None:
        """Take the message; `exit_code` is that of the command line."""
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(TfgpuError, ValueError):
    """An argument is wrong, or a file cannot be read; the message says which one, and what to give."""

    def __init__(self, message: str, *more: str) -> None:
        """Take the message; `more` are others, each of which is a line of its own."""
        super().__init__("\n".join((message, *more)), 2)
        self.messages = (message, *more)


def _ignore(*_: object) -> None:
    """Ignore notes and progress."""


def _tuple(names: Names | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(map(str, names))


def _path(file: File | None) -> str | None:
    return None if file is None else os.fspath(file)


def _at_least(name: str, value: float | None, least: float, most: float = float("inf")) -> None:
    """Check a number. Raises UsageError: it is none, or out of range."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        to = f" to {most:g}" if most < float("inf") else " or more"
        raise UsageError(f"{name}: {value!r} is not in the range {least:g}{to}")


def _one_of(name: str, value: str | None, choices: Iterable[str]) -> None:
    if value is not None and value not in (known := tuple(choices)):
        raise UsageError(f"{name}: {value!r} is not one of {', '.join(known)}.{did_you_mean(str(value), known, 1)}")


@contextmanager
def refusing(*errors: type[Exception], prefix: str = "") -> Iterator[None]:
    """Raise these errors as UsageError."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{prefix}{error}") from error


# ------------------------------------------------------------------------------------------------------- the process


class _EndedError(BaseException):
    """A signal came that ends this process."""


def _leave(number: int, _frame: FrameType | None) -> None:
    raise _EndedError(number)


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """Let a signal that would end this process at once end what was started within the block first.

    A signal that the program handles itself, or ignores, is left to it; so are all in another thread than the main one.
    """
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _leave)
    try:
        yield
    except _EndedError as ended:
        if process := sys.modules.get("tfgpu_doctor.probes.process"):
            process.end_running()  # that of other threads
        signal.signal(ended.args[0], signal.SIG_DFL)
        os.kill(os.getpid(), ended.args[0])
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


# -------------------------------------------------------------------------------------------- files, matrix, machine


def read_file(path: str, limit: int = LARGEST) -> bytes:
    """Read a file; "-" is standard input. Raises UsageError: it cannot be read, or is larger than `limit` bytes."""
    try:
        return reading.read_whole(path, limit)
    except OSError as error:
        raise UsageError(f"cannot read {shown(path)}: {reading.why(error)}") from error


def load_matrix(path: File | None = None) -> Matrix:
    """Load the matrix. TFGPU_MATRIX may list several files, separated as in PATH; `path` is applied after them.

    Raises UsageError: one of the files is not valid.
    """
    from tfgpu_doctor.matrix.loader import Matrix, MatrixError

    layers = [file for file in os.environ.get("TFGPU_MATRIX", "").split(os.pathsep) if file]
    try:
        return Matrix.load(*layers, _path(path))
    except MatrixError as error:
        marks = ("TFGPU_MATRIX: " if str(message).startswith(tuple(layers)) else "" for message in error.args)
        raise UsageError(*(f"{mark}{text}" for mark, text in zip(marks, error.args, strict=True))) from error


def load_report(path: File, command: str = "tfgpu doctor --from") -> Report:
    """Load a report; "-" is standard input. `command` is shown in the message if it is a bench result.

    Raises UsageError: it cannot be read, is too large, or is not a report of this version.
    """
    from tfgpu_doctor.records.report import ReportError
    from tfgpu_doctor.records.report import load_report as load

    with refusing(ReportError):
        return load(read_file(os.fspath(path)), shown(os.fspath(path)), command)


def load_bench(path: File, command: str) -> BenchResult:
    """Load a bench result; "-" is standard input. Raises UsageError, as load_report does."""
    from tfgpu_doctor.bench.saved import load_result
    from tfgpu_doctor.records.report import ReportError

    with refusing(ReportError):
        return load_result(read_file(os.fspath(path)), shown(os.fspath(path)), command)


def load_pair(base: str, new: str) -> tuple[Report, Report] | tuple[BenchResult, BenchResult]:
    """Load two files of one kind; "-" is standard input, for one of them.

    Raises UsageError: a file cannot be read or used, or the files are of different kinds.
    """
    from tfgpu_doctor.bench.saved import load_result
    from tfgpu_doctor.records.report import SCHEMA as REPORT
    from tfgpu_doctor.records.report import ReportError, other_kind, schema_of
    from tfgpu_doctor.records.report import load_report as load

    names = tuple(shown(path) for path in (base, new))
    data = tuple(read_file(path) for path in (base, new))
    command, reads = "tfgpu compare", "two doctor reports or two bench results"
    with refusing(ReportError):
        kinds = tuple(schema_of(content, name) for content, name in zip(data, names, strict=True))
        families = tuple(kind.partition("/")[0] for kind in kinds)
        if {"tfgpu.report", "tfgpu.bench"} == set(families):
            report, bench = names if families[0] == "tfgpu.report" else names[::-1]
            raise ReportError(f"{bench} is a bench result, but {report} is a doctor report; {command} reads {reads}")
        for name, kind, family in zip(names, kinds, families, strict=True):
            if family not in ("tfgpu.report", "tfgpu.bench"):
                raise ReportError(f"{name} {other_kind(kind, REPORT, command, reads)}")
        if families[0] == "tfgpu.bench":
            return load_result(data[0], names[0]), load_result(data[1], names[1])
        return load(data[0], names[0], command), load(data[1], names[1], command)


def verify_ids(only: Names, skip: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read ids and patterns of findings. Raises UsageError: one matches no finding."""
    kept, left = _tuple(only), _tuple(skip)
    if kept or left:
        from tfgpu_doctor.findings import engine as selection

        with refusing(selection.SelectionError):
            selection.verify((*kept, *left))
    return kept, left


_INTERPRETERS = (os.path.join("bin", "python"), os.path.join("Scripts", "python.exe"))  # of a virtual environment


def interpreter_of(folder: str) -> str | None:
    """Return the interpreter of a virtual environment; None where a folder is none."""
    files = (os.path.join(folder, name) for name in _INTERPRETERS)
    return next((file for file in files if os.path.isfile(file)), None)


def find_python(python: File | None) -> str:
    """Find an interpreter: a path, a name on PATH, the folder of an environment, or a version. None: this one.

    Raises UsageError: there is none.
    """
    if python is None:
        return sys.executable
    from tfgpu_doctor.probes.programs import find

    text = os.fspath(python)
    if find(text, os.environ):
        return text
    if not re.fullmatch(r"3\.\d{1,2}", text):
        executable = interpreter_of(text) or text
    else:
        from tfgpu_doctor.install.tools import Interpreters

        executable = Interpreters(os.environ).program(text) or ""
        if not executable:
            looked = f"python{text} on PATH, in /usr/bin and /usr/local/bin, and among those of pyenv, uv and conda"
            raise UsageError(f"found no Python {text}: looked for {looked}. Give the path of the interpreter")
    if not find(executable, os.environ):
        reason = "no such program, or not executable"
        if os.path.islink(executable) and not os.path.exists(executable):
            reason = f"a link to {os.path.realpath(executable)}, which does not exist; {_python_again(executable)}"
        raise UsageError(f"--python {executable}: {reason}")
    return executable


def _python_again(executable: str) -> str:
    """Say what to do about a virtual environment whose Python has been removed: its packages are still good."""
    from tfgpu_doctor.probes.files import read_text
    from tfgpu_doctor.probes.programs import find

    folder = os.path.dirname(os.path.dirname(os.path.abspath(executable)))
    try:
        made_with = re.search(
            r"^version(?:_info)? *= *(\d+\.\d+)", read_text("/", f"{folder}/pyvenv.cfg"), re.MULTILINE
        )
    except OSError:
        made_with = None
    if made_with is None:
        return "create the environment again with a Python that is installed"
    name, quoted = f"python{made_with[1]}", shlex.quote(folder)
    if found := find(name, os.environ):
        command = f"{shlex.quote(found)} -m venv {quoted}"
    elif find("uv", os.environ):
        command = f"uv venv --allow-existing --python {made_with[1]} {quoted}"
    else:
        return f"install Python {made_with[1]}, then (the packages are kept): {name} -m venv {quoted}"
    return f"create its Python again (the packages are kept): rm -f {quoted}/bin/python* && {command}"


def quoted_here(text: str) -> str:
    """Quote a word for the shell of this machine."""
    from tfgpu_doctor.plan.windows_shell import quoted

    return quoted(text, "windows" if sys.platform == "win32" else None)


def check_python(executable: str, version: Fact[str]) -> None:
    """Refuse a program that did not run as an interpreter does. Raises UsageError: it is no Python."""
    from tfgpu_doctor.records.facts import Unknown

    if isinstance(version, Unknown) and "is no Python interpreter" in version.reason:
        beside = os.path.join(".", executable)
        own = f"; the environment in this folder: --python {quoted_here(beside)}" if interpreter_of(beside) else ""
        raise UsageError(f"--python: {executable} is no Python interpreter{own}")


def read_target(
    matrix: Matrix,
    *,
    gpu: Names | None = None,
    compute_capability: Names | None = None,
    driver: str | None = None,
    python: str | None = None,
    os: str | None = None,
    machine: str | None = None,
    platform: str | None = None,
    note: Note = _ignore,
) -> Target:
    """Build the target that these values describe. Raises UsageError: a value is not valid."""
    from tfgpu_doctor.plan.target import TargetError, describe

    _one_of("os", os, OSES)
    _one_of("machine", machine, PROCESSORS)
    if platform:
        _one_of("platform", platform, PLATFORMS)
        one_platform(os, machine)
        os, _, machine = platform.partition("_")
        machine = "x86_64" if machine == "amd64" else machine
    with refusing(TargetError):
        return describe(
            matrix,
            gpu=_tuple(gpu),
            compute_capability=_tuple(compute_capability),
            driver=None if driver is None else read_driver_on(os, driver, matrix, note),
            python=python,
            os=os,
            machine=machine,
        )


PLATFORMS = ("linux_x86_64", "linux_aarch64", "windows_amd64", "macos_arm64", "macos_x86_64")


def one_platform(os: str | None, machine: str | None) -> None:
    """Refuse a platform that is named twice. Raises UsageError."""
    if os or machine:
        raise UsageError("--platform names both system and processor, and cannot be combined with --os or --machine")


def read_driver_on(os: str | None, text: str, matrix: Matrix, note: Note = _ignore) -> str:
    """Read a driver version or branch; WSL2 uses the driver of Windows. Raises TargetError: it is neither."""
    from tfgpu_doctor.matrix.compatibility import on_windows
    from tfgpu_doctor.plan.target import read_driver

    driver = read_driver(text)
    here = on_windows(matrix, driver) if os in ("windows", "wsl2") else driver
    if here != driver:
        note(f"on Windows, driver branch {driver} is numbered {here}")
    return here


# ------------------------------------------------------------------------------------------------- doctor and explain


def diagnose(
    python: File | None = None,
    *,
    saved: File | None = None,
    import_tensorflow: bool = True,
    timeout: float | None = None,
    require_gpus: int | None = None,
    only: Names = (),
    skip: Names = (),
    matrix: File | None = None,
) -> Report:
    """Diagnose this machine and the TensorFlow of a Python interpreter, as `tfgpu doctor` does.

    TensorFlow is imported in a child process, never in this one.

    Args:
        python: interpreter, its environment, or its version; None: the one that runs this.
        saved: diagnose this saved report instead of this machine.
        import_tensorflow: False: only check what is installed, which takes a second.
        timeout: limit for importing and testing TensorFlow, in seconds.
        require_gpus: report an error if TensorFlow can use fewer GPUs.
        only, skip: ids of findings.
        matrix: file with rows that extend those of the bundled matrix.

    >>> report = diagnose(import_tensorflow=False)
    >>> report.verdict in ("ok", "degraded", "broken", "unknown")
    True
    """
    if saved is not None and (python is not None or not import_tensorflow or timeout):
        raise UsageError(
            "--python, --no-import and --timeout cannot be combined with --from, which reads a saved report"
        )
    _at_least("timeout", timeout, 1e-9)
    _at_least("require_gpus", require_gpus, 0)
    kept, left = verify_ids(only, skip)
    if saved is not None:
        report = _again(load_report(saved), matrix, require_gpus)
    else:
        report = _live(find_python(python), lambda: load_matrix(matrix), import_tensorflow, timeout, require_gpus)
    return _restricted(report, kept, left, require_gpus)


def _live(
    executable: str, load: Callable[[], Matrix], imports: bool, timeout: float | None, require_gpus: int | None
) -> Report:
    from tfgpu_doctor.findings.engine import make_report
    from tfgpu_doctor.probes.examine import examine

    matrices: list[Matrix] = []

    def kept() -> Matrix:
        matrices.append(load())
        return matrices[0]

    with leaving_nothing():
        found = examine(executable, kept, import_tensorflow=imports, timeout=timeout)
    check_python(executable, found.facts.python.version)
    return make_report(found.facts, matrices[0], source="live", timings=found.timings, require_gpus=require_gpus)


def _again(old: Report, matrix: File | None, require_gpus: int | None = None) -> Report:
    """Diagnose a saved report; that of a pasted text stays one."""
    from tfgpu_doctor.findings.engine import make_report

    source: Literal["text", "report"] = "text" if old.source == "text" else "report"
    return make_report(old.facts, load_matrix(matrix), source=source, timings=old.timings, require_gpus=require_gpus)


def _restricted(
    report: Report, only: tuple[str, ...], skip: tuple[str, ...], require_gpus: int | None = None
) -> Report:
    if not only and not skip:
        return report
    from tfgpu_doctor.findings.engine import REQUIRED, restrict

    only = (*only, REQUIRED) if only and require_gpus is not None else only
    return restrict(report, only, skip, require_gpus=require_gpus)


def explain(
    text: str | bytes | os.PathLike[str],
    *,
    only: Names = (),
    skip: Names = (),
    matrix: File | None = None,
    note: Note = _ignore,
) -> Report:
    """Diagnose a log, a traceback, the output of nvidia-smi, pip or conda, or an issue, as `tfgpu explain` does.

    Args:
        text: the text itself; a path (pathlib.Path) is the file that has it, Path("-") standard input.
        only, skip: ids of findings.
        matrix: file with rows that extend those of the bundled matrix.
        note: called with what was left out.

    >>> explain("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected").verdict
    'broken'
    """
    kept, left = verify_ids(only, skip)
    if isinstance(text, os.PathLike):
        report = _explained(_chunks(os.fspath(text), note), os.fspath(text), matrix, note)
    else:
        report = _explained(iter([text if isinstance(text, bytes) else utf8(text)]), "the text", matrix, note)
    return _restricted(report, kept, left)


def _chunks(path: str, note: Note) -> Iterator[bytes]:
    """Read a file in chunks; of a larger one only its ends. Raises UsageError: it cannot be read."""

    def cut(part: str) -> None:
        note(f"{shown(path)} is larger than {reading.in_mib(LARGEST_LOG)}: read {part}")

    try:
        yield from reading.chunks(path, LARGEST_LOG, cut)
    except OSError as error:
        raise UsageError(f"cannot read {shown(path)}: {reading.why(error)}") from error


def _explained(chunks: Iterator[bytes], source: str, matrix_file: File | None, note: Note) -> Report:
    """Diagnose a text or a saved report; `source` is what it is called. Raises UsageError: it is neither."""
    from tfgpu_doctor.findings.engine import make_report
    from tfgpu_doctor.parsers import lines, text_to_facts

    first = next(chunks, b"")
    if wrong := _not_text(first):
        advice = wrong if source == "-" else wrong.replace("FILE", shlex.quote(source))
        raise UsageError(f"{shown(source)} {advice}")
    if _REPORT_START.match(first):
        return _saved_report(chain([first], chunks), source, matrix_file)
    excerpt = lines.read(chain([first], chunks))
    if not any(line.text.strip() for line in excerpt.lines):
        raise UsageError(f"{shown(source)} contains no text: expected a log, a traceback or the output of nvidia-smi")
    if excerpt.left_out:
        more = f"; after line {lines.EXAMINED} only the last {lines.TAIL}" if excerpt.total > lines.EXAMINED else ""
        note(f"{excerpt.total} lines read; {excerpt.left_out} repeated or irrelevant lines skipped{more}")
    if excerpt.cut:
        note(f"{excerpt.cut} lines are too long to be examined as a whole: parts of them were left out")
    matrix = load_matrix(matrix_file)
    return make_report(text_to_facts.read(excerpt, matrix), matrix, source="text", timings={})


def _not_text(first: bytes) -> str | None:
    """Return why a file is not text; None if it may be text.

    Random bytes may contain "T4", which would be read as a GPU. Text has hardly any control characters except those for
    whitespace and colour; NUL does not count, because UTF-16 and logs that were truncated while copying contain many.
    """
    known = next((why for magic, why in _NOT_TEXT if first.startswith(magic)), None)
    if known or first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return known
    head = first[:1_000_000].replace(b"\0", b"")
    control = len(head) - len(head.translate(None, _CONTROL))
    return "is a binary file, not text: copy the text itself" if control > 9 and control > len(head) * 0.03 else None


def _saved_report(chunks: Iterator[bytes], source: str, matrix: File | None) -> Report:
    from tfgpu_doctor.records.report import ReportError
    from tfgpu_doctor.records.report import load_report as load

    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > LARGEST:
            raise UsageError(f"cannot read {shown(source)}: it is larger than {reading.in_mib(LARGEST)}")
    with refusing(ReportError):
        return _again(load(bytes(data), shown(source), "tfgpu explain"), matrix)


# ------------------------------------------------------------------------------------------------------ plan and check


def plan(
    *,
    gpu: Names | None = None,
    compute_capability: Names | None = None,
    driver: str | None = None,
    python: str | None = None,
    os: Os | None = None,
    machine: Processor | None = None,
    platform: str | None = None,
    tensorflow: str | None = None,
    saved: File | None = None,
    matrix: File | None = None,
    note: Note = _ignore,
) -> Plan:
    """Find out which TensorFlow to install, with the commands, as `tfgpu plan` does.

    Args:
        gpu, compute_capability, driver, os, machine, platform: another machine; without any of them, this one.
        python: version of Python, such as "3.12".
        tensorflow: consider only these releases, such as "2.15" or ">=2.12,<2.16".
        saved: plan for the machine of this saved report.
        matrix: file with rows that extend those of the bundled matrix.
        note: called with how a value was read.

    >>> plan(gpu="RTX 3090", driver="535", python="3.11").is_found
    True
    """
    from tfgpu_doctor.plan.ranking import make_plan
    from tfgpu_doctor.plan.target import TargetError, read_specifier

    hardware = (gpu, compute_capability, driver, os, machine, platform)
    if saved is not None and any(hardware):
        raise UsageError(
            "--from can be combined with --python and --tensorflow, but not with options that describe another machine"
        )
    known = load_matrix(matrix)
    target, state = described_or_this(known, hardware, python, saved, note)
    with refusing(TargetError, prefix="--tensorflow: "):
        wanted = read_specifier(tensorflow) if tensorflow else None
        return make_plan(known, target, specifier=wanted, state=state)


def described_or_this(
    matrix: Matrix, hardware: tuple[Any, ...], python: str | None, saved: File | None = None, note: Note = _ignore
) -> tuple[Target, MachineState | None]:
    """Build the target of a plan, and the state of its machine unless it is only described.

    Args:
        hardware: the values of HARDWARE, in its order.
        python: version of Python.
        saved: the report of the machine, if it is not this one.
    """
    from tfgpu_doctor.plan.ranking import machine_state
    from tfgpu_doctor.plan.target import from_facts

    target = read_target(matrix, python=python, note=note, **dict(zip(HARDWARE, hardware, strict=True)))
    if any(hardware):
        return target, None
    facts = examined(sys.executable, matrix) if saved is None else load_report(saved, "tfgpu plan --from").facts
    return from_facts(facts, matrix, target.python), machine_state(facts, matrix, target.python)


def examined(executable: str, matrix: Matrix) -> Facts:
    """Examine this machine without starting TensorFlow."""
    from tfgpu_doctor.probes.examine import examine

    with leaving_nothing():
        return examine(executable, lambda: matrix, import_tensorflow=False).facts


def check(
    *files: File,
    texts: Mapping[str, str] | None = None,
    kind: Kind | None = None,
    target: str | None = None,
    gpu: Names | None = None,
    compute_capability: Names | None = None,
    driver: str | None = None,
    python: str | None = None,
    os: Os | None = None,
    machine: Processor | None = None,
    platform: str | None = None,
    fix: bool = False,
    changes: bool = True,
    matrix: File | None = None,
    note: Note = _ignore,
) -> Checked:
    """Check requirements, Dockerfiles and manifests against the compatibility matrix, as `tfgpu check` does.

    Args:
        files: files or folders.
        texts: contents of files by their names, instead of files.
        kind: of the files, if their names do not show it.
        target: stage of the Dockerfiles to build.
        gpu, compute_capability, driver, python, os, machine, platform: the machine that they are for.
        fix: change the files as advised.
        changes: find out how the files could be changed, which takes long.
        matrix: file with rows that extend those of the bundled matrix.
        note: called with the names of files that were left out, or changed.

    >>> checked = check(texts={"requirements.txt": "tensorflow[and-cuda]==2.16.1"}, python="3.13")
    >>> [finding.id for finding in checked.report.findings]
    ['tf.python-unsupported']
    """
    from tfgpu_doctor.manifests import KINDS, ManifestError
    from tfgpu_doctor.probes.manifest_files import ManifestFiles, ManifestTexts

    if bool(files) == bool(texts):
        raise UsageError("check() needs either files or texts")
    if kind is not None and kind not in KINDS:
        raise UsageError(f"no kind {kind!r}: choose from {', '.join(KINDS)}")
    known = load_matrix(matrix)
    hardware: dict[str, Any] = dict(
        zip(HARDWARE, (gpu, compute_capability, driver, os, machine, platform), strict=True)
    )
    wanted = read_target(known, python=python, note=note, **hardware)
    with refusing(ManifestError), leaving_nothing():
        sources = ManifestTexts(texts, kind, target) if texts else ManifestFiles(_named(files), kind, target, note)
        checking = _Checking(sources, wanted, known)
        return checking.run(changes, partial(_change, sources, note) if fix else None)


def _change(sources: Sources, note: Note, path: str, text: str) -> None:
    try:
        sources.write(path, text)
    except OSError as error:
        raise TfgpuError(f"cannot write {path}: {reading.why(error)}") from error
    note(f"changed {path}")


def _named(files: Iterable[File]) -> tuple[str, ...]:
    return tuple(os.fspath(file) for file in files)


class _Checking:
    """The files of one check, and what they are checked against."""

    def __init__(
        self,
        sources: Sources,
        target: Target,
        matrix: Matrix,
    ) -> None:
        from tfgpu_doctor.findings.engine import now

        self._sources, self._target, self._matrix = sources, target, matrix
        self._created = now()

    def run(self, changes: bool, fix: Callable[[str, str], None] | None = None) -> Checked:
        """Judge the files; `changes`: and find out how they could be changed; `fix` changes one of them."""
        environments = self._sources.environments()
        report = self._judged(environments)
        if not (changes or fix):
            return self._checked(environments, report)
        repaired = self._repaired(environments, report)
        if fix:
            for path, text in repaired.texts.items():
                fix(path, text)
            environments = self._sources.environments(repaired.texts)
            report = self._judged(environments)
        return self._checked(environments, report, repaired, fixed=fix is not None)

    def _judged(self, environments: tuple[Environment, ...]) -> Report:
        from tfgpu_doctor.plan.check import judge

        return judge(environments, self._target, self._matrix, self._created)

    def _repaired(self, environments: tuple[Environment, ...], report: Report) -> Repair:
        from tfgpu_doctor.plan import check as repairing
        from tfgpu_doctor.plan.check import judge

        def judged(edited: Mapping[str, str]) -> Report:
            return judge(self._sources.environments(edited), self._target, self._matrix, self._created)

        shells = {one.place.path for one in environments if one.kind in ("dockerfile", "singularity", "workflow")}
        return repairing.repair(report, self._sources.text, judged, shells)

    def _checked(
        self,
        environments: tuple[Environment, ...],
        report: Report,
        repaired: Repair | None = None,
        *,
        fixed: bool = False,
    ) -> Checked:
        from tfgpu_doctor.plan.planned import planned
        from tfgpu_doctor.records.report import Change, Checked
        from tfgpu_doctor.render.outlines.check import not_changed, read_file
        from tfgpu_doctor.render.outlines.plan import target_line

        texts = repaired.texts if repaired else {}
        read = (read_file(planned(one, self._target, self._matrix)) for one in environments)
        return Checked(
            report=report,
            target=target_line(self._target),
            files=tuple(read),
            changes=tuple(Change(path, self._sources.text(path) or "", text) for path, text in texts.items()),
            not_changed=tuple(not_changed(repaired)) if repaired else (),
            fixed=fixed,
        )


# ---------------------------------------------------------------------------------------------------------- the matrix

TABLES = ("tensorflow", "gpu", "cuda", "cudnn", "find")


def look_up(
    table: str,
    name: str | None = None,
    *,
    package: str | None = None,
    python: str | None = None,
    cuda: str | None = None,
    cudnn: str | None = None,
    driver: str | None = None,
    compute_capability: str | None = None,
    gpu: str | None = None,
    os: str | None = None,
    machine: str | None = None,
    platform: str | None = None,
    ptx: bool = False,
    pre: bool = False,
    newest: bool = False,
    matrix: File | None = None,
    note: Note = _ignore,
) -> Answered:
    """Look up rows of the compatibility matrix, as `tfgpu matrix` does.

    Args:
        table: one of TABLES.
        name: the row; None: all rows, or those that match the filters.
        package, python, cuda, cudnn, driver, compute_capability, gpu, ptx, pre, newest: filters of tensorflow.
        os, machine, platform: of tensorflow and gpu.
        matrix: file with rows that extend those of the bundled matrix.
        note: called with how a value was read.
    """
    from tfgpu_doctor.matrix.queries import QueryError
    from tfgpu_doctor.plan.target import TargetError
    from tfgpu_doctor.render.outlines.matrix import Answered

    known = load_matrix(matrix)
    where = read_platform(os, machine, platform)
    values = {"python": python, "cuda": cuda, "cudnn": cudnn, "driver": driver, "gpu": gpu}
    values["compute_capability"] = compute_capability
    with refusing(QueryError, TargetError):
        if table == "tensorflow":
            asked = _Releases(
                known, where, package, values, ptx=ptx, pre=pre, newest=newest, wsl2=os == "wsl2", note=note
            )
            answer, sheet = asked.one(name) if name is not None else asked.all()
        elif table == "gpu":
            answer, sheet = _gpu(known, name, compute_capability, where)
        else:
            answer, sheet = _OTHER_TABLES[table](known, name)
    return Answered(answer, sheet, known.revision)


def read_platform(os: str | None, machine: str | None, platform: str | None) -> str | None:
    """Return the platform that these values name, as the matrix has it; None where none of them is given."""
    from tfgpu_doctor.plan.target import Target

    if platform:
        one_platform(os, machine)
    if platform or not (os or machine):
        return platform
    system: Any = os if os in OSES else "linux"
    return Target(os=system, machine=machine or ("arm64" if system == "macos" else "x86_64")).platform


class _Releases:
    """A question for releases of TensorFlow."""

    def __init__(
        self,
        matrix: Matrix,
        platform: str | None,
        package: str | None,
        values: Mapping[str, str | None],
        *,
        ptx: bool,
        pre: bool,
        newest: bool,
        wsl2: bool,
        note: Note,
    ) -> None:
        from tfgpu_doctor.matrix.queries import Filters, known_package
        from tfgpu_doctor.matrix.tables import read_version
        from tfgpu_doctor.plan.gpu_answers import default_platform
        from tfgpu_doctor.plan.target import read_capability, read_gpu, read_python

        system = "wsl2" if wsl2 else (platform or "").partition("_")[0]
        readers: dict[str, Callable[[str], str | None]] = {
            "python": read_python,
            "cuda": lambda text: read_version(text, "CUDA", "11.8"),
            "cudnn": lambda text: read_version(text, "cuDNN", "8.6"),
            "driver": lambda text: read_driver_on(system, text, matrix, note),
            "compute_capability": lambda text: read_capability(text, matrix),
            "gpu": lambda text: read_gpu(matrix, text).name,
        }
        read: dict[str, Any] = {name: readers[name](text) for name, text in values.items() if text is not None}
        self._given, self._platform, self._package = platform, platform, package
        if platform is None:
            named = matrix.gpu(read["gpu"]) if "gpu" in read else None
            platform = default_platform(named.name, named.compute_capability) if named else "linux_x86_64"
        self._matrix, self._newest, self._pre, self._asks = matrix, newest, pre, bool(read)
        self._filters = Filters(
            platform=None if platform == "all" else platform,
            package=None if package is None else known_package(matrix, package),
            ptx=ptx,
            pre=pre,
            wsl2=wsl2,
            **read,
        )

    def all(self) -> tuple[object, Sheet]:
        """List the releases that match the filters."""
        from tfgpu_doctor.matrix.queries import releases
        from tfgpu_doctor.render.outlines import matrix_answers as sheets

        rows = releases(self._matrix, self._filters)[: 1 if self._newest else None]
        answer = [self._data(row) for row in rows]
        if self._newest and rows:
            return answer, sheets.release(self._matrix, rows[0])
        return answer, sheets.releases_page(self._matrix, self._filters, rows)

    def one(self, version: str) -> tuple[object, Sheet]:
        """Show one release."""
        from tfgpu_doctor.matrix.queries import find_release
        from tfgpu_doctor.render.outlines import matrix_answers as sheets

        if self._newest or self._pre or self._asks:
            raise UsageError(
                "VERSION shows one release and cannot be combined with filters; tfgpu plan --tensorflow VERSION says "
                "whether it suits a machine"
            )
        if self._given == "all":
            raise UsageError(f"VERSION needs one platform: --platform {'|'.join(PLATFORMS)}")
        where = self._filters.platform or "linux_x86_64"
        row = find_release(self._matrix, version, where, self._package, prefer_gpu=True)
        return self._data(row), sheets.release(self._matrix, row)

    def _data(self, row: Release) -> dict[str, Any]:
        from msgspec import structs

        from tfgpu_doctor.matrix.compatibility import kernels_for
        from tfgpu_doctor.matrix.queries import cards

        data = structs.asdict(row)
        if asked := cards(self._matrix, self._filters):
            data["runs_on"] = {capability: kernels_for(self._matrix, row, capability) for capability in asked}
        return data


def _gpu(matrix: Matrix, name: str | None, capability: str | None, platform: str | None) -> tuple[object, Sheet]:
    from tfgpu_doctor.plan.gpu_answers import all_gpus, gpu_answer
    from tfgpu_doctor.plan.target import read_capability, read_gpu
    from tfgpu_doctor.render.outlines import matrix_answers as sheets

    if name is not None and capability is not None:
        raise UsageError("give either NAME or --compute-capability, not both")
    if name is None and capability is None:
        every = all_gpus(matrix)
        return every, sheets.gpus(every)
    if name is not None:
        found = read_gpu(matrix, name)
        answer = gpu_answer(matrix, found.compute_capability, found.name, platform)
    else:
        answer = gpu_answer(matrix, read_capability(capability or "", matrix), None, platform)
    return answer, sheets.gpu(answer)


def _cuda(matrix: Matrix, version: str | None) -> tuple[object, Sheet]:
    from tfgpu_doctor.matrix.tables import cuda_answer, find_cuda
    from tfgpu_doctor.render.outlines import matrix_answers as sheets

    if version is None:
        every = [cuda_answer(matrix, row) for row in matrix.data.cuda]
        return every, sheets.cudas(every)
    answer = cuda_answer(matrix, find_cuda(matrix, version), version)
    return answer, sheets.cuda(answer)


def _cudnn(matrix: Matrix, version: str | None) -> tuple[object, Sheet]:
    from tfgpu_doctor.matrix.tables import cudnn_answer, find_cudnn
    from tfgpu_doctor.render.outlines import matrix_answers as sheets

    if version is None:
        every = [cudnn_answer(matrix, row) for row in matrix.data.cudnn]
        return every, sheets.cudnns(every)
    answer = cudnn_answer(matrix, find_cudnn(matrix, version))
    return answer, sheets.cudnn(answer)


def _find(matrix: Matrix, key: str | None) -> tuple[object, Sheet]:
    from tfgpu_doctor.matrix.tables import about, find
    from tfgpu_doctor.render.outlines import matrix_tables as sheets

    if key is None:
        tables = about(matrix)
        return tables, sheets.about(tables)
    found = find(matrix, key)
    return found, sheets.rows(key, found)


_OTHER_TABLES: dict[str, Callable[[Matrix, str | None], tuple[object, Sheet]]] = {
    "cuda": _cuda,
    "cudnn": _cudnn,
    "find": _find,
}


# ------------------------------------------------------------------------------------------- compare, smoke and fleet


@overload
def compare(
    base: Report, new: Report, *, require_gpus: int | None = None, matrix: File | None = None
) -> Comparison: ...


@overload
def compare(
    base: BenchResult, new: BenchResult, *, factor: float | None = None, across: Names = ()
) -> BenchComparison: ...


@overload
def compare(
    base: File,
    new: File,
    *,
    require_gpus: int | None = None,
    factor: float | None = None,
    across: Names = (),
    matrix: File | None = None,
) -> Comparison | BenchComparison: ...


def compare(
    base: Report | BenchResult | File,
    new: Report | BenchResult | File,
    *,
    require_gpus: int | None = None,
    factor: float | None = None,
    across: Names = (),
    matrix: File | None = None,
    names: tuple[str, str] | None = None,
) -> Comparison | BenchComparison:
    """Compare two doctor reports or two bench results, or their files, as `tfgpu compare` does.

    Args:
        base, new: both of one kind.
        require_gpus: of reports: number of GPUs that both must have.
        factor: of bench results: smallest change of the time that counts; 1.05 is 5 %.
        across: of bench results: what may differ between the two, such as "tensorflow".
        matrix: file with rows that extend those of the bundled matrix.
        names: what the two are called in the result; by default those of the files.
    """
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.compare.comparison import compare as compare_reports
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.records.report import Report

    called = names or (_called(base, "base"), _called(new, "new"))
    if isinstance(base, (str, os.PathLike)) and isinstance(new, (str, os.PathLike)):
        base, new = load_pair(os.fspath(base), os.fspath(new))
    base, new = (
        load_pair(os.fspath(one), os.fspath(one))[0] if isinstance(one, (str, os.PathLike)) else one
        for one in (base, new)
    )
    if isinstance(base, Report) and isinstance(new, Report):
        if given := [name for name, value in (("--factor", factor), ("--across", across)) if value]:
            raise UsageError(f"{', '.join(given)}: only for bench results, but these are doctor reports")
        return compare_reports(base, new, load_matrix(matrix), now(), names=called, require_gpus=require_gpus)
    if isinstance(base, BenchResult) and isinstance(new, BenchResult):
        if require_gpus is not None:
            raise UsageError("--require-gpus: only for doctor reports, but these are bench results")
        return _compare_results(base, new, factor, _tuple(across), called)
    raise UsageError("compare() needs two doctor reports or two bench results")


def _called(one: object, otherwise: str) -> str:
    if one == "-":
        return "standard input"
    return PurePath(os.fspath(one)).name if isinstance(one, (str, os.PathLike)) else otherwise


def _compare_results(
    base: BenchResult, new: BenchResult, factor: float | None, texts: tuple[str, ...], names: tuple[str, str]
) -> BenchComparison:
    from tfgpu_doctor.bench.comparability import ACROSS
    from tfgpu_doctor.bench.comparison import FACTOR, compare_benches
    from tfgpu_doctor.findings.engine import now

    factor = FACTOR if factor is None else factor
    if not 1 < factor < float("inf"):
        raise UsageError(f"--factor {factor:g}: must be greater than 1, such as 1.05 for 5 %")
    wanted = tuple(text.lower() for text in texts)
    if unknown := [name for name in wanted if name not in (*ACROSS, "all")]:
        hint = did_you_mean(unknown[0], (*ACROSS, "all"), 1)
        raise UsageError(f"--across {unknown[0]}: choose from {', '.join(ACROSS)}, all.{hint}")
    across = ACROSS if "all" in wanted else wanted
    return compare_benches(base, new, created=now(), factor=factor, across=across, names=names)


def smoke(
    options: SmokeOptions,
    *,
    python: File | None = None,
    baseline: File | None = None,
    matrix: File | None = None,
    progress: Progress = _ignore,
) -> Smoke:
    """Diagnose this machine, then compute and verify on every GPU, as `tfgpu smoke` does.

    Args:
        options: what is tested, and for how long.
        python: interpreter that has TensorFlow, its environment, or its version; None: the one that runs this.
        baseline: saved result of tfgpu smoke or bench, with which times are compared.
        matrix: file with rows that extend those of the bundled matrix.
        progress: called with a label and the progress, from 0 to 1.
    """
    from tfgpu_doctor.bench.runner.process import WorkerProcess
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.records.report import ReportError
    from tfgpu_doctor.smoke import baseline as baselines
    from tfgpu_doctor.smoke.running import Smoking

    executable = find_python(python)
    saved = None
    if baseline is not None:
        with refusing(ReportError, prefix="--baseline: "):
            saved = baselines.read(read_file(os.fspath(baseline)), shown(os.fspath(baseline)))
    known = load_matrix(matrix)
    require = 0 if options.require_gpus == 0 else None  # how many GPUs there are is a check of its own

    def doctor(timeout: float) -> Report:
        return _live(executable, lambda: known, True, timeout, require)

    return Smoking(options, doctor, lambda: WorkerProcess(executable), known, saved, progress).run(now())


def fleet(*files: File, baseline: File | None = None, matrix: File | None = None) -> Fleet:
    """Compare the reports of many nodes, as `tfgpu fleet` does.

    Args:
        files: files or folders with results of tfgpu doctor, smoke or bench; "-" is standard input.
        baseline: a file with earlier results, to compare with instead of what most nodes have.
        matrix: file with rows that extend those of the bundled matrix.
    """
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.fleet.fleet import judge_fleet
    from tfgpu_doctor.fleet.reading import read_fleet

    gathered, good, name = read_fleet(_named(files)), None, ""
    if baseline is not None:
        (name,) = _named((baseline,))
        good = read_fleet([name])
        if not any(one.kind for one in good.results):
            reason = next(iter(good.unreadable)).reason if good.unreadable else "no node in it has answered"
            raise UsageError(f"--baseline: cannot read {shown(name)}: {reason}")
    return judge_fleet(gathered, load_matrix(matrix), now(), good=good, baseline=shown(name))


# --------------------------------------------------------------------------------------------------------------- bench

# the ranges of numbers, for the command line, too
LIMITS = {
    "virtual_gpus": (2, 16),
    "min_samples": (3, 1000),
    "processes": (1, 100),
    "power": (2, 1000),
}
DEADLINE = 20.0  # seconds
DEADLINES = {"inference": 60.0, "input": 8.0, "transfer": 3.0}  # for all batch sizes; for each of many runs
MATRIX_TYPES = ("float32", "tf32", "float16", "bfloat16", "float64")
NETWORK_TYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
MODELS = ("mnist", "cifar", "resnet50")  # those of bench/workloads/models.py


def bench(
    workload: str,
    *,
    gpus: int | str | None = None,
    devices: Names = (),
    virtual_gpus: int | None = None,
    python: File | None = None,
    deadline: float | None = None,
    processes: int = 1,
    min_samples: int | None = None,
    matrix: File | None = None,
    typed: str | None = None,
    progress: Progress = _ignore,
    note: Note = _ignore,
    save: Callable[[BenchResult], None] = _ignore,
    **options: Any,
) -> BenchResult:
    """Measure a workload on the CPU, one GPU and several GPUs, and verify every result, as `tfgpu bench` does.

    It takes a minute or more; TensorFlow runs in processes of its own. A run that failed is in the result, with the
    reason in `failure`, and has no speed.

    Args:
        workload: "matpow", "cnn", "gan", "inference", "input", "transfer".
        gpus: number of GPUs to use together, or "all".
        devices: use exactly these devices, such as ["cpu", "gpu:0"].
        virtual_gpus: split the first GPU (or the CPU) into so many logical devices; tests function, not speed.
        python: interpreter that has TensorFlow; None: the one that runs this.
        deadline: maximum time to sample each run, in seconds.
        processes: repeat each run in so many processes; use 5 for results that will be compared.
        min_samples: minimum number of samples of each run.
        matrix: file with rows that extend those of the bundled matrix.
        typed: the command line, which stands in the result.
        progress: called with a label and the progress, from 0 to 1.
        note: called with a line before the measurement begins.
        save: called with the result so far, after each run.
        options: those of the workload, such as `dtype="tf32"` and `size=4096` (`tfgpu bench matpow --help`).
    """
    if workload not in _PLANS:
        raise UsageError(f"no workload {workload!r}: choose from {', '.join(_PLANS)}")
    build = _PLANS[workload]
    known = tuple(inspect.signature(build).parameters)[1:]
    if unknown := [name for name in options if name not in known]:
        raise UsageError(f"bench {workload} has no option {unknown[0]!r}.{did_you_mean(unknown[0], known, 1)}")
    numbers = {"virtual_gpus": virtual_gpus, "processes": processes, "min_samples": min_samples, **options}
    for name, (least, most) in LIMITS.items():
        _at_least(name, numbers.get(name), least, most)
    _at_least("deadline", deadline, 1e-9)
    given = {"gpus": gpus, "devices": devices, "virtual_gpus": virtual_gpus, "deadline": deadline, **options}
    request = _Request(
        _selection(gpus, devices, virtual_gpus),
        find_python(python),
        DEADLINES.get(workload, DEADLINE) if deadline is None else deadline,
        min_samples,
        processes,
        save,
        progress,
        note,
        typed if typed is not None else as_typed(("bench", workload), given),
    )
    plan = build(request, **options)
    if getattr(plan, "cluster", None):
        return _among_several(request, plan, load_matrix(matrix))
    return _measured(request, plan, load_matrix(matrix))


class _Request(NamedTuple):
    """What holds for every workload."""

    selection: Selection
    executable: str
    deadline: float
    min_samples: int | None
    processes: int
    save: Callable[[BenchResult], None]
    progress: Progress
    note: Note
    typed: str


def _measured(
    request: _Request,
    plan: PlanBase,
    matrix: Matrix,
    over: Callable[[Worker], Worker] = lambda worker: worker,
) -> BenchResult:
    """Measure; `over` may put something between the session and its processes. Raises TfgpuError."""
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.plans.base import TooLargeError
    from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess
    from tfgpu_doctor.bench.runner.telemetry import load_average
    from tfgpu_doctor.bench.session import CannotRunError, NoTensorFlowError, Session, TooSlowError
    from tfgpu_doctor.bench.statistics import StoppingRule

    try:
        with leaving_nothing():
            request.progress("examining this machine", 0.0)
            environment = examined(request.executable, matrix)
            check_python(request.executable, environment.python.version)
            return Session(
                plan,
                matrix,
                environment,
                lambda: over(WorkerProcess(request.executable)),
                rule=StoppingRule(min_samples=request.min_samples or 10, deadline=request.deadline),
                processes=request.processes,
                progress=request.progress,
                announce=request.note,
                save=request.save,
                command=request.typed,
                load_average=load_average(),
            ).run()
    except (DeviceError, TooLargeError, CannotRunError) as error:
        raise TfgpuError(str(error), 3 if isinstance(error, TooSlowError) else 1) from error
    except (NoTensorFlowError, WorkerError) as error:
        raise _cannot_measure(request, error) from error


def _cannot_measure(request: _Request, error: Exception) -> TfgpuError:
    where = request.executable
    return TfgpuError(f"cannot measure with {where}: {error}\nNext: tfgpu doctor --python {quoted_here(where)}")


def _selection(gpus: int | str | None, devices: Names, virtual: int | None) -> Selection:
    """Read the devices that were asked for. Raises UsageError: some exclude others, or one is no device."""
    from tfgpu_doctor.bench.devices import DeviceSyntaxError, Selection, parse_devices, parse_gpus

    names = _tuple(devices)
    if names and (gpus is not None or virtual):
        raise UsageError("--devices cannot be combined with --gpus or --virtual-gpus")
    if gpus is not None and virtual:
        raise UsageError("--gpus (physical GPUs) cannot be combined with --virtual-gpus (logical ones)")
    with refusing(DeviceSyntaxError):
        return Selection(
            gpus=1 if gpus is None else parse_gpus(str(gpus)),
            explicit=gpus is not None,
            devices=parse_devices(",".join(names)) if names else None,
            virtual=virtual,
        )


def as_typed(words: Iterable[str], options: Mapping[str, Any]) -> str:
    """Return the command line of these options, those without a value left out."""
    line = ["tfgpu", *words]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            line.append(option)
        elif value not in (None, False, (), []):
            values = value if isinstance(value, (tuple, list)) else (value,)
            texts = [f"{one:g}" if isinstance(one, float) else str(one) for one in values]
            for text in texts if name == "shape" else [",".join(texts)]:  # a shape has commas itself
                line += [option, text]
    return shlex.join(line)


def _size(name: str, value: Any, least: int, most: int, multiple: int = 1) -> int:
    """Read a number of bytes or of things: 4096, "4k", "1MiB". Raises UsageError: it is none, or out of range."""
    from tfgpu_doctor.records.units import read_size

    size = value if isinstance(value, int) else read_size(str(value))
    if size is None or not least <= size <= most or size % multiple:
        also = f" that is a multiple of {multiple}" if multiple > 1 else ""
        raise UsageError(f"{name}: {value} is not a number from {least} to {most}{also}")
    return size


def _types(dtype: Names, known: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_tuple(dtype)))
    for one in found:
        _one_of("dtype", one, known)
    return found


def _matpow(
    request: _Request, *, size: Any = (), power: int = 10, dtype: Names = "float32", spread: str = "both"
) -> PlanBase:
    from tfgpu_doctor.bench.devices import SPREADS
    from tfgpu_doctor.bench.plans.matpow import MatPow, SizesError, Sweep, parse_sizes, too_high_a_power

    dtypes = _types(dtype, MATRIX_TYPES)
    _one_of("spread", spread, (*SPREADS, "both"))
    if too_high := too_high_a_power(power, dtypes):
        raise UsageError(too_high)
    text = ",".join(map(str, size)) if isinstance(size, (tuple, list)) else str(size)
    with refusing(SizesError):
        found = parse_sizes(text) if text else ()
    spreads = SPREADS if spread == "both" else (spread,)
    common: Any = {"power": power, "dtypes": dtypes, "selection": request.selection, "spreads": spreads}
    if len(found) < 2:
        return MatPow(size=found[0] if found else None, own_sizes=not found, **common)
    return Sweep(sizes=found, named=all(part.strip().isdecimal() for part in text.split(",")), **common)


def _cnn(
    request: _Request,
    *,
    model: str = "mnist",
    batch_size: int | str | None = None,
    global_batch_size: int | str | None = None,
    dtype: Names = "float32",
    xla: bool = False,
    collectives: str | None = None,
    join_timeout: float = 120.0,
) -> PlanBase:
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.plans.cnn import Cnn

    _one_of("model", model, MODELS)
    _one_of("collectives", collectives, ("nccl", "ring"))
    _at_least("join_timeout", join_timeout, 1)
    if batch_size is not None and global_batch_size is not None:
        raise UsageError("--batch-size (per device) and --global-batch-size (all devices together) cannot be combined")
    auto = batch_size == "auto"
    plan = Cnn(
        model,
        None if batch_size is None or auto else _size("batch_size", batch_size, 2, 1048576),
        None if global_batch_size is None else _size("global_batch_size", global_batch_size, 2, 1048576),
        xla,
        dtypes=_types(dtype, NETWORK_TYPES),
        selection=request.selection,
        auto=auto,
    )
    plan.cluster = _cluster(request)
    plan.patience = join_timeout
    if plan.auto and plan.cluster:
        raise UsageError("--batch-size auto needs a single machine")
    plan.collectives = collectives.upper() if collectives else None
    machines = plan.cluster.count if plan.cluster else 1
    with refusing(DeviceError):  # what is wrong however many devices are found
        plan.batch_of(machines * (request.selection.virtual or request.selection.gpus or 1))
    return plan


def _gan(request: _Request, *, batch_size: int | str = 128, dtype: Names = "float32") -> PlanBase:
    from tfgpu_doctor.bench.plans.gan import Gan

    batch = _size("batch_size", batch_size, 2, 1048576)
    return Gan(batch=batch, dtypes=_types(dtype, NETWORK_TYPES), selection=request.selection)


def _inference(
    request: _Request,
    *,
    model: str | None = None,
    saved_model: File | None = None,
    signature: str | None = None,
    shape: Names = (),
    batch_size: Any = (1, 8, 32, 128),
    dtype: Names = "float32",
    xla: bool = False,
) -> PlanBase:
    from tfgpu_doctor.bench.plans.inference import WANTED, Inference, ShapeError, parse_shape

    _one_of("model", model, MODELS)
    dtypes = _types(dtype, NETWORK_TYPES)
    if model and saved_model:
        raise UsageError("--model (a built-in network) and --saved-model (your own) cannot be combined")
    if saved_model is None and (signature or shape):
        raise UsageError("--signature and --shape need --saved-model DIR")
    if saved_model is not None:
        _check_saved_model(os.fspath(saved_model), dtypes)
    with refusing(ShapeError):
        items = dict(parse_shape(text) for text in _tuple(shape))
    sizes = batch_size if isinstance(batch_size, (tuple, list)) else (batch_size,)
    return Inference(
        model=None if saved_model else model or "mnist",
        saved_model=_path(saved_model),
        signature=signature,
        shapes=items,
        batches=tuple(sorted(_size("batch_size", one, 1, 65536) for one in sizes)),
        dtypes=dtypes,
        xla=xla,
        wanted=request.min_samples or WANTED,
        selection=request.selection,
    )


def _check_saved_model(folder: str, dtypes: tuple[str, ...]) -> None:
    """Refuse what is visibly no SavedModel, and types that it cannot have."""
    if not any(os.path.isfile(os.path.join(folder, name)) for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise UsageError(
            f"--saved-model {folder}: no saved_model.pb found; save one with model.export(DIR) or "
            "tf.saved_model.save(model, DIR)"
        )
    if other := [dtype for dtype in dtypes if dtype not in ("float32", "tf32")]:
        raise UsageError(f"--dtype {other[0]}: the types of a SavedModel are fixed; choose float32 or tf32")


def _input(
    request: _Request,
    *,
    model: str = "mnist",
    batch_size: int | str | None = None,
    dtype: str = "float32",
    dataset: File = "synthetic",
    images: int | str = 512,
) -> PlanBase:
    from tfgpu_doctor.bench.plans.input import Input
    from tfgpu_doctor.bench.workloads.input import SUFFIXES, find

    _one_of("model", model, MODELS)
    folder = None
    if dataset != "synthetic":
        folder = os.path.abspath(dataset)
        if not os.path.isdir(folder):
            raise UsageError(f"--dataset {dataset}: no such folder; give a folder with images, or synthetic")
        if not find(folder, 1):
            raise UsageError(f"--dataset {dataset}: no {', '.join(SUFFIXES)} files found in it or its subfolders")
    return Input(
        model=model,
        batch=None if batch_size is None else _size("batch_size", batch_size, 1, 1048576),
        dtypes=_types(dtype, NETWORK_TYPES),
        folder=folder,
        images=_size("images", images, 16, 1_000_000),
        selection=request.selection,
    )


def _transfer(request: _Request, *, size: Any = ()) -> PlanBase:
    from tfgpu_doctor.bench.plans.transfer import DEFAULT_SIZES, Transfer

    sizes = size if isinstance(size, (tuple, list)) else (size,)
    found = tuple(sorted(_size("size", one, 2**10, 2**36, 4) for one in sizes))
    return Transfer(sizes=found or DEFAULT_SIZES, named=bool(found), selection=request.selection)


_PLANS: dict[str, Callable[..., PlanBase]] = {
    "matpow": _matpow,
    "cnn": _cnn,
    "transfer": _transfer,
    "inference": _inference,
    "input": _input,
    "gan": _gan,
}


def _cluster(request: _Request) -> Cluster | None:
    """Find the cluster that TF_CONFIG or Slurm describes; None where there is none. Raises UsageError."""
    from tfgpu_doctor.bench.cluster import ClusterError, config, parse, under_slurm

    text = os.environ.get("TF_CONFIG", "")
    if not text and under_slurm(os.environ):
        text = config(*_slurm_cluster(request.executable))
    with refusing(ClusterError):
        cluster = parse(text) if text else None
    if cluster and (request.selection.devices or request.selection.virtual or request.processes > 1):
        raise UsageError(
            "--devices, --virtual-gpus and --processes need a single machine; TF_CONFIG or Slurm lists "
            f"{cluster.count} workers"
        )
    return cluster


def _slurm_cluster(executable: str) -> tuple[dict[str, list[str]], int]:
    """Ask TensorFlow's own resolver who takes part."""
    from tfgpu_doctor.bench.runner.process import START, WorkerError, WorkerProcess

    try:
        with WorkerProcess(executable) as worker:
            worker.ask(START, do="hello")
            found = worker.ask(START, do="reference", workload="machines", task="slurm")
    except WorkerError as error:
        raise TfgpuError(f"cannot read the list of workers from Slurm: {error}") from error
    return found["cluster"], found["index"]


def _among_several(request: _Request, plan: Any, matrix: Matrix) -> BenchResult:
    """Lead several machines, or follow. Raises TfgpuError: this one followed, and has no result."""
    from tfgpu_doctor.bench.cluster import Watch, follow
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.runner.process import START, WorkerError, WorkerProcess
    from tfgpu_doctor.bench.session import NoTensorFlowError

    cluster = plan.cluster
    os.environ["TF_CONFIG"] = cluster.config  # for the processes
    if cluster.index == 0:
        return _measured(request, plan, matrix, Watch(cluster, plan.patience).over)
    # of several types, the first machine may still measure itself alone in the one before
    watch = Watch(cluster, plan.patience if len(plan.dtypes) == 1 else plan.patience + 3 * request.deadline)
    me = f"worker {cluster.index} of {cluster.count}"
    try:
        follow(
            plan.part,
            lambda: watch.over(WorkerProcess(request.executable)),
            patience=START + 3 * request.deadline,
            progress=request.progress,
        )
    except NoTensorFlowError as error:
        raise _cannot_measure(request, error) from error
    except (DeviceError, WorkerError) as error:
        raise TfgpuError(f"{me}: {error}", 1) from error
    finally:
        watch.disarm()
    raise TfgpuError(f"{me} is done; {cluster.name(0)} prints the report", 0)


# ----------------------------------------------------------------------------------------------------------- notebooks

# name of a record → the kind that it is for renderers; by name, so that nothing is imported before it is shown
_KINDS = {
    "Report": "report",
    "Plan": "plan",
    "Checked": "check",
    "BenchResult": "bench",
    "Comparison": "report comparison",
    "BenchComparison": "bench comparison",
    "Smoke": "smoke",
    "Fleet": "fleet",
}


def _html(document: Document) -> str | None:
    """Return the result as a part of a page; None where it has none, so that its text is shown."""
    from tfgpu_doctor.render.formats import page_of
    from tfgpu_doctor.render.html.page import fragment

    kind = _KINDS.get(type(document).__name__)
    return fragment(page_of(kind)(document)) if kind else None


show_as_html(_html)
