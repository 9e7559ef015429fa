"""The tools: what each is for, what it is given, what it answers, and the function of the API that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.saved import load_result
from tfgpu_doctor.commands import UsageError, check, diagnose, explain, look_up, plan
from tfgpu_doctor.integrations.mcp import arguments as given
from tfgpu_doctor.integrations.mcp import bounds, schemas
from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.records.checked import Checked, ReadFile
from tfgpu_doctor.records.fact import compact
from tfgpu_doctor.records.facts import Record, value_or
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.report import Report, ReportError
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.streams import harmless

_Result = TypeVar("_Result")
_SHORT = 400  # characters of a field of a row, where there are several rows
_ROWS = 100


class Settings(NamedTuple):
    """What the user of the command has decided; an assistant cannot change it."""

    python: str | None = None  # the interpreter under test
    matrix: str | None = None  # a file with further rows
    redact: bool = True


class Answer(Record, Generic[_Result], frozen=True):
    """What a tool answers."""

    result: _Result
    left_out: tuple[str, ...] = ()  # what was too long, and where


class CheckedTexts(Record, frozen=True):
    """A check, and the changes that it advises as a patch."""

    report: Report
    target: str
    files: tuple[ReadFile, ...]
    patch: str
    not_changed: tuple[str, ...]


class Rows(Record, frozen=True):
    """Rows of the matrix, each as `tfgpu matrix --format json` prints it; null is unknown."""

    table: str
    rows: tuple[dict[str, Any], ...]


class Shown(NamedTuple):
    """A result: for programs, and as a page for people."""

    data: Any
    page: str
    left_out: tuple[str, ...] = ()


class Tool(NamedTuple):
    """A tool of the protocol."""

    name: str
    title: str
    description: str
    arguments: type[given.Arguments]
    answers: Any  # an Answer[...]
    run: Callable[[Any, Settings], Shown]
    examines: bool = False  # this machine: one at a time, and processes are started

    def input_schema(self) -> dict[str, Any]:
        """Of its arguments."""
        return schemas.object_schema(self.arguments)

    def output_schema(self) -> dict[str, Any]:
        """Of what it answers."""
        return schemas.object_schema(self.answers)


def run(tool: Tool, values: Mapping[str, Any], settings: Settings) -> tuple[dict[str, Any], str]:
    """Run a tool; its answer as JSON data that fits its schema, and as Markdown.

    Raises UsageError: an argument is wrong; TfgpuError: there is no result, and why.
    """
    try:
        arguments = msgspec.convert(values, tool.arguments)
    except msgspec.ValidationError as error:
        raise UsageError(schemas.in_words(error, tool.input_schema())) from error
    shown = tool.run(arguments, settings)
    result, cut = bounds.shortened(shown.data)
    return {"result": result, "left_out": [*shown.left_out, *cut]}, bounds.page(harmless(shown.page))


def examines(tool: Tool, values: Mapping[str, Any]) -> bool:
    """Whether a call with these arguments looks at this machine."""
    return tool.examines and not any(values.get(name) for name in given.HARDWARE)


def _doctor(one: given.Doctor, settings: Settings) -> Shown:
    more = one.given("timeout", "only", "skip")
    report = diagnose(
        settings.python,
        import_tensorflow=one.import_tensorflow,
        require_gpus=one.require_gpus,
        matrix=settings.matrix,
        **more,
    )
    return _report(report, settings, one.facts)


def _explain(one: given.Explain, settings: Settings) -> Shown:
    report = explain(one.text, matrix=settings.matrix, **one.given("only", "skip"))
    return _report(report, settings, one.facts)


def _report(report: Report, settings: Settings, facts: bool) -> Shown:
    from tfgpu_doctor.render.markdown import render
    from tfgpu_doctor.render.outlines.report import page

    report = _private(report, settings)
    return _without("facts", msgspec.to_builtins(report), render(page(report, "full")), facts)


def _without(name: str, data: dict[str, Any], page: str, keeps: bool) -> Shown:
    if keeps:
        return Shown(data, page)
    return Shown({key: value for key, value in data.items() if key != name}, page, (f"{name}: ask with facts=true",))


def _plan(one: given.Plan, settings: Settings) -> Shown:
    more = one.given(*given.MACHINE, "tensorflow", "lock")
    if settings.python and more.keys().isdisjoint(given.MACHINE):  # this machine: the Python that it is planned for
        facts = diagnose(settings.python, import_tensorflow=False, matrix=settings.matrix).facts
        if version := value_or(facts.python.version, None):
            more["python"] = ".".join(version.split(".")[:2])
    found = _private(plan(matrix=settings.matrix, **more), settings)
    return Shown(msgspec.to_builtins(found), renderer("markdown", "plan", {})(found))


def _check(one: given.Check, settings: Settings) -> Shown:
    more = one.given(*given.MACHINE, "kind", "target")
    found: Checked = _private(check(texts=one.files, matrix=settings.matrix, **more), settings)
    data = CheckedTexts(
        report=found.report,
        target=found.target,
        files=found.files,
        patch="\n".join(found.difference),
        not_changed=found.not_changed,
    )
    values = msgspec.to_builtins(data)
    del values["report"]["facts"]  # what the files say stands in `files`
    return Shown(values, renderer("markdown", "check", {"fail_on": "error"})(found))


_FILTERS = ("python", "cuda", "cudnn", "driver", "compute_capability", "gpu", "newest")
_TAKES = {  # by table: what a question to it may name beside the row
    "tensorflow": (*_FILTERS, "os", "machine"),
    "gpu": ("compute_capability", "os", "machine"),
}


def _matrix(one: given.Matrix, settings: Settings) -> Shown:
    options = one.given(*_FILTERS, "os", "machine")
    if wrong := options.keys() - _TAKES.get(one.table, ()):
        raise UsageError(f"{', '.join(sorted(wrong))}: not an argument for the table {one.table}")
    found = look_up(one.table, one.name, matrix=settings.matrix, **options)
    answer = msgspec.to_builtins(found.answer)
    rows, left_out = _brief(answer) if isinstance(answer, (list, tuple)) else ([answer], ())
    page = renderer("markdown", "matrix", {})(found)
    return Shown({"table": one.table, "rows": rows}, page, left_out)


def _brief(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Of several rows, the fields that are short in each of them."""
    if len(rows) < 2:
        return list(rows), ()
    long = {name for row in rows for name, value in row.items() if len(compact(value)) > _SHORT}
    short = [{name: value for name, value in row.items() if name not in long} for row in rows[:_ROWS]]
    fields = (f"of each row: {', '.join(sorted(long))}; ask for one row by its name",) if long else ()
    more = (f"{len(rows) - _ROWS} of {len(rows)} rows; ask with filters",) if len(rows) > _ROWS else ()
    return short, (*fields, *more)


def _bench_show(one: given.BenchShow, settings: Settings) -> Shown:
    try:
        result = load_result(utf8(one.text), "the text", "bench_show")
    except ReportError as error:
        raise UsageError(str(error)) from error
    result = _private(result, settings)
    page = renderer("markdown", "bench", {})(result)
    return _without("environment", msgspec.to_builtins(result), page, one.facts)


def _private(result: _Result, settings: Settings) -> _Result:
    return redact(result) if settings.redact else result


_FINDINGS = (
    "The result has a verdict (ok, degraded, broken, unknown) and findings, root causes first: each with "
    "evidence (what was found, what is needed), a cause in words, and fixes with commands to run."
)
TOOLS = (
    Tool(
        "doctor",
        "Diagnose this machine",
        "Diagnose why TensorFlow does not use the NVIDIA GPU of this machine, or whether all is well: driver,"
        " GPU, CUDA and cuDNN libraries, Python, packages, and TensorFlow itself, which is imported and "
        "tested in a process of its own. Call it first when somebody works on this machine, and again after a"
        f" fix. It takes 10 to 60 seconds. For a log or another machine, call explain or plan. {_FINDINGS}",
        given.Doctor,
        Answer[Report],
        _doctor,
        examines=True,
    ),
    Tool(
        "explain",
        "Diagnose a pasted text",
        "Diagnose a text from any machine: a TensorFlow log, a traceback, the output of nvidia-smi, pip, "
        "conda or docker, a bug report, or a report of tfgpu in JSON. Call it when somebody shows an error "
        f"message or a log. This machine is not examined. {_FINDINGS}",
        given.Explain,
        Answer[Report],
        _explain,
    ),
    Tool(
        "plan",
        "What to install",
        "Find out which TensorFlow to install for a GPU, driver, Python and operating system, with complete "
        "commands for pip, uv, conda and docker, and what rules newer releases out. Call it before anything "
        "is installed or upgraded, instead of recalling versions. Without a description of a machine, the "
        "plan is for this one.",
        given.Plan,
        Answer[Plan],
        _plan,
        examines=True,
    ),
    Tool(
        "matrix",
        "Look up compatibility",
        "Look up facts about releases: the CUDA, cuDNN, Pythons and minimum driver of a TensorFlow release; "
        "which releases match given filters; the compute capability, drivers and releases of a GPU; what a "
        "driver, a CUDA, a cuDNN, a JetPack or a container image supports. Call it for a question about "
        "versions, instead of recalling them. The values come from the published packages and NVIDIA's "
        "tables, with sources.",
        given.Matrix,
        Answer[Rows],
        _matrix,
    ),
    Tool(
        "check",
        "Check files before they are built",
        "Check requirements, pyproject.toml, conda environments, Dockerfiles, compose files, "
        "Kubernetes manifests, workflows and notebooks against the compatibility matrix: will TensorFlow "
        "install and use the GPU? Call it before such a file is written, changed or built. Returns findings "
        "and a patch.",
        given.Check,
        Answer[CheckedTexts],
        _check,
    ),
    Tool(
        "bench_show",
        "Read a benchmark",
        "Read the result of tfgpu bench: speeds with their confidence intervals, whether each run was "
        "verified, utilization, and advice. Call it when somebody shows such a JSON file. Nothing is "
        "measured.",
        given.BenchShow,
        Answer[BenchResult],
        _bench_show,
    ),
)
NAMED: Mapping[Literal["doctor", "explain", "plan", "matrix", "check", "bench_show"] | str, Tool] = {
    tool.name: tool for tool in TOOLS
}
