"""The commands, one function each, from arguments to a result: for the command line, Python programs, MCP and pytest.

Nothing is printed, TensorFlow runs in child processes only, and functions may be called from several threads. Every
function raises UsageError for a wrong argument or a file that cannot be read, and TfgpuError where there is no result.
Arguments that several of them have:

    matrix    a file with rows that extend those of the bundled matrix; files in TFGPU_MATRIX are added, too
    note      called with each remark about the input, such as lines that were left out
    progress  called with a label and the progress, from 0 to 1
    machine   the fields of Machine, by name
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from tfgpu_doctor.facts import reading
from tfgpu_doctor.facts.about import Os, Processor
from tfgpu_doctor.facts.facts import Document, show_as_html, value_or
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.facts.reading import shown
from tfgpu_doctor.facts.similar import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfgpu_doctor.bench.comparison import BenchComparison
    from tfgpu_doctor.bench.references import Reference
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.compare.records import Comparison
    from tfgpu_doctor.facts.facts import Fact, Facts
    from tfgpu_doctor.facts.report import Checked, Report
    from tfgpu_doctor.fleet.records import Fleet
    from tfgpu_doctor.manifests import Kind
    from tfgpu_doctor.matrix.loader import Matrix, Release
    from tfgpu_doctor.matrix.queries import Filters
    from tfgpu_doctor.plan.ranking import MachineState
    from tfgpu_doctor.plan.records import Plan
    from tfgpu_doctor.plan.target import Target
    from tfgpu_doctor.render.outlines.matrix import Answered
    from tfgpu_doctor.smoke.records import Smoke
    from tfgpu_doctor.smoke.running import SmokeOptions

File: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = str | Sequence[str]
Compared: TypeAlias = "Report | BenchResult | File"
Note: TypeAlias = Callable[[str], None]
Progress: TypeAlias = Callable[[str, float], None]


class Machine(TypedDict, total=False):
    """The machine that an answer is for; what is left out is open."""

    gpu: Names | None
    compute_capability: Names | None
    driver: str | None
    os: Os | None
    machine: Processor | None
    python: str | None  # "3.12"


HARDWARE = ("gpu", "compute_capability", "driver", "os", "machine")  # of another machine than this one
LARGEST = 64 * 2**20  # bytes of a report or result; the largest seen is a hundredth of it
LARGEST_LOG = 1 << 30  # bytes; it takes half a minute
_REPORT_START = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"tfgpu\.')
_PAIRS = "two doctor reports or two bench results"
_CONTROL = bytes({*range(1, 32), 127} - set(b"\a\b\t\n\v\f\r\x1b"))


class TfgpuError(Exception):
    """There is no result; the message says why, in the words of the command line."""

    def __init__(self, message: str, exit_code: int = 3) -> None:
        """Take the message; `exit_code` is that of the command line."""
        super().__init__(message)
        self.exit_code = exit_code
        self.result: BenchResult | None = None  # of a benchmark that was refused: it says why


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


@contextmanager
def refusing(*errors: type[Exception], prefix: str = "") -> Iterator[None]:
    """Raise these errors as UsageError; of the system's, without the path, which `prefix` names."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{prefix}{reading.why(error) if isinstance(error, OSError) else error}") from error


# -------------------------------------------------------------------------------------------- files, matrix, machine


def _read(file: File) -> tuple[bytes, str]:
    """Read a file; "-" is standard input. Returns its content, and what messages call it."""
    path = os.fspath(file)
    with refusing(OSError, prefix=f"cannot read {shown(path)}: "):
        return reading.read_whole(path, LARGEST), shown(path)


def load_matrix(path: File | None = None) -> Matrix:
    """Load the matrix. TFGPU_MATRIX may list several files, separated as in PATH; `path` is applied after them.

    Raises UsageError: one of the files is not valid.
    """
    from tfgpu_doctor.matrix.loader import Matrix, MatrixError

    layers = [file for file in os.environ.get("TFGPU_MATRIX", "").split(os.pathsep) if file]
    try:
        return Matrix.load(*layers, None if path is None else os.fspath(path))
    except MatrixError as error:
        raise UsageError(*error.args) from error


def load_report(file: File, command: str = "tfgpu doctor --from") -> Report:
    """Load a report; "-" is standard input. `command` is shown in the message if it is a bench result.

    Raises UsageError: it cannot be read, is too large, or is not a report of this version.
    """
    from tfgpu_doctor.facts.report import ReportError
    from tfgpu_doctor.facts.report import load_report as load

    with refusing(ReportError):
        return load(*_read(file), command)


def load_bench(file: File, command: str) -> BenchResult | Reference:
    """Load a bench result, or a reference; "-" is standard input. Raises UsageError, as load_report does."""
    from tfgpu_doctor.bench.references import Reference, with_references
    from tfgpu_doctor.bench.results import load_result
    from tfgpu_doctor.bench.speeds import reassess
    from tfgpu_doctor.facts.report import ReportError, decode_saved, schema_of

    data, name = _read(file)
    with refusing(ReportError):
        if schema_of(data, name, "result of tfgpu bench") == "tfgpu.bench-reference/1":
            return decode_saved(data, Reference, name, "reference")
        return with_references(reassess(load_result(data, name, command)))


def load_pair(base: Compared, new: Compared) -> tuple[Any, Any]:
    """Load two doctor reports or two bench results, unless they are loaded; "-" is standard input, for one of them.

    Raises UsageError: a file cannot be read or used, or the files are of different kinds.
    """
    from tfgpu_doctor.facts.report import Report

    first, second = (_load_either(one) if isinstance(one, (str, os.PathLike)) else one for one in (base, new))
    if type(first) is type(second):
        return first, second
    bench, report = [_name(base, "base"), _name(new, "new")][:: -1 if isinstance(first, Report) else 1]
    raise UsageError(f"{bench} is a bench result, but {report} is a doctor report; tfgpu compare reads {_PAIRS}")


def _load_either(file: File) -> Report | BenchResult:
    from tfgpu_doctor.bench.results import load_result
    from tfgpu_doctor.bench.speeds import reassess
    from tfgpu_doctor.facts.report import SCHEMA, ReportError, load_report, other_kind, schema_of

    data, name = _read(file)
    with refusing(ReportError):
        schema = schema_of(data, name, "report or result")
        if schema.startswith("tfgpu.bench/"):
            return reassess(load_result(data, name, "tfgpu compare"))
        if schema.startswith("tfgpu.report/"):
            return load_report(data, name, "tfgpu compare")
        raise ReportError(f"{name} {other_kind(schema, SCHEMA, 'tfgpu compare', _PAIRS)}")


def _name(given: Compared, otherwise: str) -> str:
    return PurePath(shown(os.fspath(given))).name if isinstance(given, (str, os.PathLike)) else otherwise


def verify_ids(only: Names, skip: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read ids and patterns of findings. Raises UsageError: one matches no finding."""
    from tfgpu_doctor.findings.engine import SelectionError, verify

    kept, left = _tuple(only), _tuple(skip)
    with refusing(SelectionError):
        verify((*kept, *left))
    return kept, left


def find_python(python: File | None) -> str:
    """Find an interpreter: a path, a name on PATH or its version, or the folder of an environment. None: this one.

    Where tfgpu has an environment of its own, None is that of the shell.
    Raises UsageError: there is none.
    """
    if python is None:
        return _of_the_shell() or sys.executable
    from tfgpu_doctor.probes.systems import find

    text = _without_parents(os.fspath(python))
    folders = (("bin", "python"), ("Scripts", "python.exe"), ("python",), ("python.exe",))  # or that folder itself
    inside = (os.path.join(text, *path) for path in folders)
    executable = next((path for path in inside if os.path.isfile(path) or os.path.islink(path)), text)
    # a folder "env" is meant before the program of that name, but no folder before a Python: it may be somebody else's
    is_folder = executable != text and not text.lower().startswith(("python", "pypy"))
    for name in (text, f"python{text}")[: 1 + text[:1].isdigit()]:
        if not is_folder and find(name, os.environ):
            return name
    if find(executable, os.environ):
        return executable
    reason = "no such program, or not executable"
    if os.path.isdir(executable):
        reason = "a folder without bin/python or Scripts/python.exe"
    if os.path.islink(executable) and not os.path.exists(executable):
        reason = f"a link to {os.path.realpath(executable)}, which does not exist; create the environment again"
    raise UsageError(f"--python {executable}: {reason}")


def _without_parents(path: str) -> str:
    """The path without "..", as commands that are printed show it; with a link before that, it is another one."""
    plain = os.path.normpath(os.path.abspath(path))
    is_same = os.path.realpath(os.path.dirname(plain)) == os.path.realpath(os.path.dirname(path))
    return plain if os.pardir in path and is_same else path


def _of_the_shell() -> str | None:
    """Find the Python of the active environment, or else of PATH, where ours is not active and has tfgpu alone."""
    own, active = os.path.realpath(sys.prefix), os.path.realpath(os.environ.get("VIRTUAL_ENV") or os.sep)
    if own == active or sys.prefix == sys.base_prefix or _has_more_than_tfgpu():
        return None
    from tfgpu_doctor.probes.systems import find

    folders = os.environ.get("PATH", "").split(os.pathsep)
    others = os.pathsep.join(folder for folder in folders if not os.path.realpath(folder).startswith(own))
    return find("python" if os.name == "nt" else "python3", {**os.environ, "PATH": others})


def _has_more_than_tfgpu() -> bool:
    """True if our environment has packages that tfgpu does not require: TensorFlow, or a project of the user."""
    from importlib.metadata import PackageNotFoundError, distributions, requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found, left = {"pip", "setuptools", "wheel"}, [("tfgpu-doctor", ""), ("tfgpu-doctor", "mcp")]
    for name, extra in left:
        found.add(name)
        listed: list[str] = []
        with suppress(PackageNotFoundError):
            listed = requires(name) or []
        for one in map(Requirement, listed):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                left += {(canonicalize_name(one.name), more) for more in ("", *one.extras)}.difference(left)
    # beside TensorFlow one of the first is another one, so that few files are read
    return any(canonicalize_name(one.name) not in found for one in distributions())


def check_python(version: Fact[str], executable: str) -> None:
    """Refuse a program that did not run the examination. Raises TfgpuError: it is no Python, or one that is too old."""
    from tfgpu_doctor.facts.facts import Unknown

    reason = version.reason.removeprefix("interpreter: ") if isinstance(version, Unknown) else ""
    if "is no Python interpreter" in reason:
        raise UsageError(f"--python: {reason}")
    if "is too old to be examined" in reason:
        from tfgpu_doctor.plan.windows_shell import quoted

        own = f'{quoted(executable, "windows" if sys.platform == "win32" else None)} -c "import tensorflow" 2>&1'
        what = "Run tfgpu doctor without --python for the driver and the GPU, and for TensorFlow"
        raise TfgpuError(f"{executable}: {reason}. {what}: {own} | tfgpu explain -")


def examined(executable: str, matrix: Matrix) -> Facts:
    """Examine this machine without starting TensorFlow."""
    from tfgpu_doctor.probes.examine import examine

    return examine(executable, lambda: matrix, import_tensorflow=False).facts


def target_of(
    matrix: Matrix, machine: Machine, saved: File | None = None, note: Note = _ignore
) -> tuple[Target, MachineState | None]:
    """Build the target of a plan, and the state of its machine unless it is only described.

    Args:
        machine: what is known of it; this machine if none of HARDWARE is given.
        saved: the report of the machine, if it is not this one.
    """
    from tfgpu_doctor.plan.ranking import machine_state
    from tfgpu_doctor.plan.target import TargetError, describe, from_facts

    with refusing(TargetError):
        target = describe(matrix, note=note, **machine)
    if any(machine.get(name) for name in HARDWARE):
        return target, None
    facts = examined(sys.executable, matrix) if saved is None else load_report(saved, "tfgpu plan --from").facts
    return from_facts(facts, matrix, target.python), machine_state(facts, matrix, target.python)


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
        python: interpreter, or its environment; None: the one that runs this.
        saved: diagnose this saved report instead of this machine.
        import_tensorflow: False: only check what is installed, which takes a second.
        timeout: limit for importing and testing TensorFlow, in seconds.
        require_gpus: report an error if TensorFlow can use fewer GPUs.
        only, skip: ids of findings.

    >>> report = diagnose(import_tensorflow=False)
    >>> report.verdict in ("ok", "degraded", "broken", "unknown")
    True
    """
    from tfgpu_doctor.findings.engine import REQUIRED, restrict

    if saved is not None and (python is not None or not import_tensorflow or timeout):
        raise UsageError(
            "--python, --no-import and --timeout cannot be combined with --from, which reads a saved report"
        )
    if timeout is not None and not timeout > 0:
        raise UsageError(f"timeout: {timeout!r} is not more than 0")
    if require_gpus is not None and require_gpus < 0:
        raise UsageError(f"require_gpus: {require_gpus!r} is not in the range 0 or more")
    kept, left = verify_ids(only, skip)
    if saved is not None:
        report = _again(load_report(saved), matrix, require_gpus)
    else:
        load = cache(partial(load_matrix, matrix))
        report = _live(find_python(python), load, import_tensorflow, timeout, require_gpus)
    kept = (*kept, REQUIRED) if kept and require_gpus is not None else kept
    return restrict(report, kept, left, require_gpus=require_gpus)


def _live(
    executable: str, load: Callable[[], Matrix], imports: bool, timeout: float | None, require_gpus: int | None
) -> Report:
    """Diagnose this machine; the matrix is loaded while TensorFlow is imported."""
    from tfgpu_doctor.plan.diagnosis import make_report
    from tfgpu_doctor.probes.examine import examine

    found = examine(executable, load, import_tensorflow=imports, timeout=timeout)
    check_python(found.facts.python.version, executable)
    return make_report(found.facts, load(), source="live", timings=found.timings, require_gpus=require_gpus)


def _again(old: Report, matrix: File | None, require_gpus: int | None = None) -> Report:
    """Diagnose a saved report; that of a pasted text stays one."""
    from tfgpu_doctor.plan.diagnosis import make_report

    source: Literal["text", "report"] = "text" if old.source == "text" else "report"
    return make_report(old.facts, load_matrix(matrix), source=source, timings=old.timings, require_gpus=require_gpus)


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
        note: called with what was left out.

    >>> explain("Failed to initialize NVML: Driver/library version mismatch").verdict
    'broken'
    """
    from tfgpu_doctor.findings.engine import restrict

    kept, left = verify_ids(only, skip)
    if not isinstance(text, os.PathLike):
        data = text if isinstance(text, bytes) else utf8(text)
        return restrict(_explained(iter([data]), "the text", matrix, note), kept, left)
    path = os.fspath(text)
    with refusing(OSError, prefix=f"cannot read {shown(path)}: "):
        return restrict(_explained(reading.chunks(path, LARGEST_LOG), shown(path), matrix, note), kept, left)


def _explained(chunks: Iterator[bytes], source: str, matrix_file: File | None, note: Note) -> Report:
    """Diagnose a text or a saved report; `source` is what it is called. Raises UsageError: it is neither."""
    from tfgpu_doctor.facts.report import ReportError, load_report
    from tfgpu_doctor.parsers import lines, text_to_facts
    from tfgpu_doctor.plan.diagnosis import make_report

    first = next(chunks, b"")
    if _is_binary(first):
        raise UsageError(f"{source} is a binary or compressed file, not text: unpack it, or copy the text itself")
    if _REPORT_START.match(first):
        data = b"".join((first, *chunks))
        if len(data) > LARGEST:
            raise UsageError(f"cannot read {source}: it is larger than {reading.in_mib(LARGEST)}")
        with refusing(ReportError):
            return _again(load_report(data, source, "tfgpu explain"), matrix_file)
    excerpt = lines.read(chain([first], chunks))
    if not any(line.text.strip() for line in excerpt.lines):
        raise UsageError(f"{source} contains no text: expected a log, a traceback or the output of nvidia-smi")
    if excerpt.left_out:
        more = f"; after line {lines.EXAMINED} only the last {lines.TAIL}" if excerpt.total > lines.EXAMINED else ""
        note(f"{excerpt.total} lines read; {excerpt.left_out} repeated or irrelevant lines skipped{more}")
    if excerpt.cut:
        note(f"{excerpt.cut} lines are too long to be examined as a whole: parts of them were left out")
    matrix = load_matrix(matrix_file)
    return make_report(text_to_facts.read(excerpt, matrix), matrix, source="text", timings={})


def _is_binary(first: bytes) -> bool:
    """True if a file that begins so is not text.

    Random bytes may contain "T4", which would be read as a GPU. Text has hardly any control characters except those for
    whitespace and colour; NUL does not count, because UTF-16 and logs that were truncated while copying contain many.
    """
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    head = first[:1_000_000].replace(b"\0", b"")
    control = len(head) - len(head.translate(None, _CONTROL))
    return control > max(3, len(head) * 0.03)


# ------------------------------------------------------------------------------------------------------ plan and check


def plan(
    *,
    tensorflow: str | None = None,
    saved: File | None = None,
    matrix: File | None = None,
    note: Note = _ignore,
    **machine: Unpack[Machine],
) -> Plan:
    """Find out which TensorFlow to install, with the commands, as `tfgpu plan` does.

    Args:
        tensorflow: consider only these releases, such as "2.15" or ">=2.12,<2.16".
        saved: plan for the machine of this saved report.
        note: called with how a value was read.
        machine: gpu, compute_capability, driver, os and machine of another machine; without any of them, the
            plan is for this one. python: version of Python, such as "3.12".

    >>> plan(gpu="RTX 3090", driver="535", python="3.11").is_found
    True
    """
    from tfgpu_doctor.plan.ranking import make_plan
    from tfgpu_doctor.plan.target import TargetError, read_specifier

    if saved is not None and any(machine.get(name) for name in HARDWARE):
        raise UsageError(
            "--from can be combined with --python and --tensorflow, but not with options that describe another machine"
        )
    known = load_matrix(matrix)
    target, state = target_of(known, machine, saved, note)
    with refusing(TargetError, prefix="--tensorflow: "):
        wanted = read_specifier(tensorflow) if tensorflow else None
        return make_plan(known, target, specifier=wanted, state=state)


def check(
    *files: File,
    texts: Mapping[str, str] | None = None,
    kind: Kind | None = None,
    target: str | None = None,
    matrix: File | None = None,
    note: Note = _ignore,
    **machine: Unpack[Machine],
) -> Checked:
    """Check requirements, Dockerfiles and manifests against the compatibility matrix, as `tfgpu check` does.

    Args:
        files: files or folders.
        texts: contents of files by their names, instead of files.
        kind: of the files, if their names do not show it.
        target: stage of the Dockerfiles to build.
        note: called with the names of files that were left out.
        machine: gpu, compute_capability, driver, python, os, machine: the machine that the files are for.

    >>> checked = check(texts={"requirements.txt": "tensorflow[and-cuda]==2.16.1"}, python="3.13")
    >>> [finding.id for finding in checked.report.findings]
    ['tf.python-unsupported']
    """
    from tfgpu_doctor.facts.report import Checked
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.manifests import KINDS, ManifestError
    from tfgpu_doctor.plan.check import judge
    from tfgpu_doctor.plan.planned import PlannedEnvironment
    from tfgpu_doctor.plan.target import TargetError, describe
    from tfgpu_doctor.probes.manifest_files import ManifestFiles, from_texts
    from tfgpu_doctor.render.outlines.check import read_file
    from tfgpu_doctor.render.outlines.plan import target_line

    if bool(files) == bool(texts):
        raise UsageError("check() needs either files or texts")
    if kind is not None and kind not in KINDS:
        raise UsageError(f"no kind {kind!r}: choose from {', '.join(KINDS)}")
    known = load_matrix(matrix)
    with refusing(TargetError, ManifestError):
        wanted = describe(known, note=note, **machine)
        names = tuple(os.fspath(file) for file in files)
        read = from_texts(texts, kind, target) if texts else ManifestFiles(names, kind, target, note).environments()
        return Checked(
            report=judge(read, wanted, known, now()),
            target=target_line(wanted),
            files=tuple(read_file(PlannedEnvironment(one, wanted, known)) for one in read),
        )


# ---------------------------------------------------------------------------------------------------------- the matrix


def look_up(
    table: str,
    name: str | None = None,
    *,
    newest: bool = False,
    matrix: File | None = None,
    note: Note = _ignore,
    **filters: Any,
) -> Answered:
    """Look up rows of the compatibility matrix, as `tfgpu matrix` does.

    Args:
        table: "tensorflow", "gpu", "cuda", "cudnn" or "find", which looks into all others.
        name: the row; None: all rows, or those that match the filters.
        newest: of tensorflow: only the newest row.
        note: called with how a value was read.
        filters: the fields of Machine; and of tensorflow: package, platform, cuda, cudnn, ptx, pre.
    """
    from tfgpu_doctor.matrix.queries import QueryError
    from tfgpu_doctor.plan.gpu_answers import read_filters
    from tfgpu_doctor.plan.target import TargetError

    known = load_matrix(matrix)
    with refusing(QueryError, TargetError):
        if table == "tensorflow":
            answer, shown = _releases(known, name, newest, read_filters(known, note, **filters))
        else:
            answer, shown = _rows(known, table, name, **filters)
    return shown._replace(answer=answer, revision=known.revision)


def _releases(matrix: Matrix, version: str | None, newest: bool, filters: Filters) -> tuple[object, Answered]:
    """List the releases that match the filters, or show one release."""
    from msgspec import structs

    from tfgpu_doctor.matrix.compatibility import kernels_for
    from tfgpu_doctor.matrix.queries import cards, find_release, releases
    from tfgpu_doctor.matrix.schema import PLATFORMS
    from tfgpu_doctor.render.outlines import matrix as sheets

    def data(row: Release) -> dict[str, Any]:
        runs_on = {capability: kernels_for(matrix, row, capability) for capability in cards(matrix, filters)}
        return {**structs.asdict(row), **({"runs_on": runs_on} if runs_on else {})}

    if version is None:
        rows = releases(matrix, filters)[: 1 if newest else None]
        page = sheets.release(matrix, rows[0]) if newest and rows else sheets.releases_page(matrix, filters, rows)
        return [data(row) for row in rows], page
    if newest or filters.pre or filters.needs_gpu or filters.python:
        raise UsageError(
            "VERSION shows one release and cannot be combined with filters; tfgpu plan --tensorflow VERSION says "
            "whether it suits a machine"
        )
    if filters.platform is None:
        raise UsageError(f"VERSION needs one platform: --platform {'|'.join(PLATFORMS)}")
    row = find_release(matrix, version, filters.platform, filters.package, prefer_gpu=True)
    return data(row), sheets.release(matrix, row)


def _rows(
    matrix: Matrix, table: str, name: str | None, *, compute_capability: str | None = None, **system: str | None
) -> tuple[object, Answered]:
    """List all rows of a table, or show one; a row of GPUs has a name or a compute capability."""
    from tfgpu_doctor.matrix import tables
    from tfgpu_doctor.plan.gpu_answers import all_gpus, gpu_answer
    from tfgpu_doctor.plan.planned import image_answer
    from tfgpu_doctor.plan.target import platform_of, read_capability, read_gpu
    from tfgpu_doctor.render.outlines import matrix as sheets

    if name is not None and compute_capability is not None:
        raise UsageError("give either NAME or --compute-capability, not both")
    key = name or compute_capability
    if table == "find":
        found: Any = tables.about(matrix) if key is None else image_answer(key, matrix) or tables.find(matrix, key)
        return found, sheets.about(found) if key is None else sheets.rows(key, found)
    if table == "gpu":
        if key is None:
            every = all_gpus(matrix)
            return every, sheets.gpus(every)
        card = None if name is None else read_gpu(matrix, name)
        capability = card.compute_capability if card else read_capability(key, matrix)
        answer = gpu_answer(matrix, capability, card.name if card else None, platform_of(**system))
        return answer, sheets.gpu(answer)
    lists: dict[str, tuple[str, Any, Any, Callable[..., Any]]] = {
        "cuda": ("CUDA", matrix.data.cuda, tables.find_cuda, tables.cuda_answer),
        "cudnn": ("cuDNN", matrix.data.cudnn, tables.find_cudnn, lambda *row: tables.cudnn_answer(*row[:2])),
    }
    title, rows, find, answer_for = lists[table]
    if key is None:
        answers = [answer_for(matrix, row) for row in rows]
        return answers, sheets.listing(title, answers)
    one = answer_for(matrix, find(matrix, key), key)
    return one, sheets.card(title, one)


# ------------------------------------------------------------------------------------------- compare, smoke and fleet


def compare(
    base: Compared,
    new: Compared,
    *,
    names: tuple[str, str] | None = None,
    matrix: File | None = None,
    factor: float | None = None,
    across: Names = (),
) -> Comparison | BenchComparison:
    """Compare two doctor reports or two bench results, or their files, as `tfgpu compare` does.

    Args:
        base, new: both of one kind.
        names: what the two are called in the result; by default those of the files.
        matrix: of reports: rows that extend the matrix.
        factor, across: of bench results: the smallest change of the time that counts (1.05 is 5 %), and what may
            differ between the two, such as "tensorflow".
    """
    from tfgpu_doctor.bench.comparison import FACTOR, compare_benches
    from tfgpu_doctor.compare.comparison import compare as compare_reports
    from tfgpu_doctor.facts.report import Report
    from tfgpu_doctor.findings.engine import now

    called = names or (_name(base, "base"), _name(new, "new"))
    first, second = load_pair(base, new)
    if isinstance(first, Report):
        if given := [name for name, value in (("--factor", factor), ("--across", across)) if value not in (None, ())]:
            raise UsageError(f"{', '.join(given)}: only for bench results, but these are doctor reports")
        return compare_reports(first, second, load_matrix(matrix), now(), names=called)
    factor = FACTOR if factor is None else factor
    if not 1 < factor < float("inf"):
        raise UsageError(f"--factor {factor:g}: must be greater than 1, such as 1.05 for 5 %")
    return compare_benches(first, second, created=now(), factor=factor, across=_across(across), names=called)


def _across(names: Names) -> tuple[str, ...]:
    from tfgpu_doctor.bench.comparison import ACROSS

    wanted = tuple(text.lower() for text in _tuple(names))
    if unknown := [name for name in wanted if name not in (*ACROSS, "all")]:
        hint = did_you_mean(unknown[0], (*ACROSS, "all"), 1)
        raise UsageError(f"--across {unknown[0]}: choose from {', '.join(ACROSS)}, all.{hint}")
    return tuple(ACROSS) if "all" in wanted else wanted


def smoke(
    options: SmokeOptions,
    *,
    python: File | None = None,
    matrix: File | None = None,
    progress: Progress = _ignore,
) -> Smoke:
    """Diagnose this machine, then compute and verify on every GPU, as `tfgpu smoke` does.

    Args:
        options: what is tested, and for how long.
        python: interpreter that has TensorFlow, or its environment; None: the one that runs this.
    """
    from tfgpu_doctor.bench.runner.process import WorkerProcess
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.smoke.running import Smoking

    executable = find_python(python)
    known = load_matrix(matrix)
    require = 0 if options.require_gpus == 0 else None  # how many GPUs there are is a check of its own

    def doctor(timeout: float) -> Report:
        return _live(executable, lambda: known, True, timeout, require)

    return Smoking(options, doctor, lambda: WorkerProcess(executable), known, progress).run(now())


def fleet(*files: File, matrix: File | None = None) -> Fleet:
    """Compare the reports of many nodes, as `tfgpu fleet` does.

    Args:
        files: files or folders with results of tfgpu doctor, smoke or bench; "-" is standard input.
    """
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.fleet.picture import judge_fleet
    from tfgpu_doctor.fleet.reading import read_fleet

    return judge_fleet(read_fleet(tuple(os.fspath(file) for file in files)), load_matrix(matrix), now())


# --------------------------------------------------------------------------------------------------------------- bench


def bench(
    workload: str | None = None,
    *,
    python: File | None = None,
    matrix: File | None = None,
    progress: Progress = _ignore,
    note: Note = _ignore,
    save: Callable[[BenchResult], None] = _ignore,
    needs_gpu: bool = False,
    **options: Any,
) -> BenchResult:
    """Measure a workload on the CPU, one GPU and several GPUs, and verify every result, as `tfgpu bench` does.

    It takes a minute or more; TensorFlow runs in processes of its own. A run that failed is in the result, with the
    reason in `failure`, and has no speed.

    Args:
        workload: "matpow", "cnn", "gan", "inference", "input", "transfer"; None: matpow and cnn, within a minute.
        python: interpreter that has TensorFlow; None: the one that runs this.
        note: called with a line before the measurement begins.
        save: called with the result so far, after each run.
        needs_gpu: measure nothing without a GPU, whose speed is to be a reference.
        options: those of the workload, such as `gpus="all"`, `dtype="tf32"`, `processes=5` and `deadline=30`
            (`tfgpu bench matpow --help`).
    """
    from msgspec.structs import replace

    from tfgpu_doctor.bench.devices import DeviceError, NoGpuError, RequestError
    from tfgpu_doctor.bench.plans.base import CannotRunError, NoRoomError, PartError
    from tfgpu_doctor.bench.requests import make_plan, measure, read_request, take_part
    from tfgpu_doctor.bench.results import OVERVIEW, no_result
    from tfgpu_doctor.bench.runner.process import NoTensorFlowError, WorkerError
    from tfgpu_doctor.plan.windows_shell import quoted

    executable = find_python(python)
    named = quoted(executable, "windows" if sys.platform == "win32" else None)
    doctor = "tfgpu doctor" if python is None else f"tfgpu doctor --python {named}"
    with refusing(RequestError):
        request = read_request(workload or OVERVIEW, executable, options, {"python": python, "matrix": matrix})
    begun, known = no_result(request.workload, request.typed), load_matrix(matrix)
    try:
        with refusing(RequestError):
            plan = make_plan(request)
            if part := take_part(request, plan, progress):
                raise TfgpuError(part, 0)
            progress("examining this machine", 0.0)
            begun = replace(begun, environment=examined(executable, known))
            check_python(begun.environment.python.version, executable)
            if needs_gpu and not value_or(begun.environment.gpus, ()):
                why = _no_gpu(begun.environment, known, doctor)
                raise _refusal(f"no reference can be saved: no NVIDIA GPU was found: {why}", 3, begun)
            result = measure(request, plan, known, begun.environment, progress=progress, note=note, save=save)
            return _without_gpu(result, known, doctor)
    except PartError as error:  # without a result: the file is that of the machine that leads
        raise TfgpuError(str(error), 1) from error
    except (DeviceError, CannotRunError) as error:
        why = f": {_no_gpu(begun.environment, known, doctor)}" if isinstance(error, NoGpuError) else ""
        raise _refusal(f"{error}{why}", 3 if isinstance(error, NoRoomError) else 1, begun) from error
    except (NoTensorFlowError, WorkerError) as error:
        next_step = f"Next: tfgpu doctor --python {named}"
        raise _refusal(f"cannot measure with {executable}: {error}\n{next_step}", 3, begun) from error


def _refusal(message: str, exit_code: int, begun: BenchResult) -> TfgpuError:
    """Return the error that nothing was measured, with the result that says so, for files that a job collects."""
    from msgspec.structs import replace

    error = TfgpuError(message, exit_code)
    error.result = replace(begun, refused=". ".join(message.splitlines()))
    return error


def _without_gpu(result: BenchResult, matrix: Matrix, doctor: str) -> BenchResult:
    """Add why TensorFlow lists no GPU, as the doctor says it of that Python, to a result of the CPU alone."""
    from msgspec.structs import replace

    from tfgpu_doctor.bench.results import OVERVIEW
    from tfgpu_doctor.bench.runner.runner import NO_GPU

    if NO_GPU not in result.notes:
        return result
    why = ". ".join(_no_gpu(result.environment, matrix, doctor).splitlines())
    if result.workload == OVERVIEW:
        return replace(result, conclusions=(f"No GPU was measured: {why}",))
    return replace(result, notes=tuple(f"{one} {why}" if one == NO_GPU else one for one in result.notes))


def _no_gpu(facts: Facts, matrix: Matrix, doctor: str) -> str:
    """Return why TensorFlow lists no GPU, and the command that says more, on a line of its own."""
    from msgspec.structs import replace

    from tfgpu_doctor.facts.facts import Known
    from tfgpu_doctor.plan.diagnosis import make_report

    facts = replace(facts, tensorflow=replace(facts.tensorflow, devices=Known((), "TensorFlow")))
    report = make_report(facts, matrix, source="live", timings={})
    cause = next((f"{one.title} ({one.id})" for one in report.findings if one.root_cause), "the cause is not known")
    return f"{cause}\nNext: {doctor}"


def _html(document: Document) -> str | None:
    """Return the result as a part of a page, for notebooks; None where it has none, so that its text is shown."""
    from tfgpu_doctor.render.formats import KINDS, outline_of
    from tfgpu_doctor.render.html.page import fragment

    kind = next((name for name, kind in KINDS.items() if kind.record == type(document).__name__), None)
    return fragment(outline_of(kind, "page")(document)) if kind else None


show_as_html(_html)
