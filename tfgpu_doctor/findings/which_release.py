"""Finding about a question: which TensorFlow, CUDA, cuDNN and Python belong together, here and with what is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import structs

from tfgpu_doctor.findings.commonness import nothing_fails
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.compatibility import arm_only
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.queries import Filters, also_load, releases, same_as_far_as_given, takes_cudnn
from tfgpu_doctor.plan.constraints import PlanRequest, candidates, source, span, violations
from tfgpu_doctor.plan.ranking import MachineState, Planner, make_plan
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import Target, from_facts, unknown_gpu
from tfgpu_doctor.records.facts import Message, PciGpu, TfDevice, value_or
from tfgpu_doctor.records.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.records.versions import at_least, minor, same_minor

WHICH = finding(
    "tf.which-release",
    layer="TensorFlow",
    severity=Severity.NOTE,
    answers=True,
    title="Which TensorFlow, CUDA, cuDNN and Python work together",
    cause="a release runs with the CUDA and cuDNN that it was built for, on the GPUs that it has kernels for",
    pointless_after=("cuda.versions-differ", "perf.first-run"),
    docs="https://www.tensorflow.org/install/source#gpu",
)
_SYSTEMS = {"linux": "Linux", "windows": "native Windows", "wsl2": "WSL2", "macos": "macOS"}
_BROUGHT_ALONG = "12"  # from this CUDA on, pip brings it whatever toolkit is installed
_SEE_PLAN = (Fix("See what plan says of that machine", ("tfgpu plan",)),)
_AN = tuple("AHLMNR")  # an RTX 4090, an H100


@WHICH.sign
def asked(
    context: Context,
    messages: MessageLog,
    pci_gpus: tuple[PciGpu, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """Somebody asks, and nothing in the text fails."""
    questions = [one for one in messages.all("question") if one.values["about"] in ("release", "works")]
    question = next((one for one in questions if "tensorflow" in one.values), next(iter(questions), None))
    if context.probed or question is None or not nothing_fails(messages, devices):
        return None
    request = PlanRequest(context.matrix, _target(context, question))
    answer = _answer(request, question, without_nvidia=pci_gpus == () or "graphics" in question.values)
    if pci_gpus and pci_gpus[0].name and not request.target.gpus:
        answer = replace(answer, cause=f"{unknown_gpu(context.matrix, pci_gpus[0].name)}. {answer.cause}")
    return replace(answer, rank_first=True, fixes=() if context.remedies.image else answer.fixes)


def _target(context: Context, question: Message) -> Target:
    """The machine that the text describes; Windows may be named without its version."""
    python, driver = question.values.get("python"), question.values.get("driver")
    target = from_facts(context.facts, context.matrix, minor(python) if python else None)
    target = structs.replace(target, driver=target.driver or driver)
    if question.values.get("os") == "windows" and not value_or(context.facts.host.os, None):
        return structs.replace(target, os="windows", machine="x86_64")
    if target.gpus and all(arm_only(one.name, one.compute_capability) for one in target.gpus):
        return structs.replace(target, machine="aarch64")
    return target


def _answer(request: PlanRequest, question: Message, *, without_nvidia: bool) -> Problem:
    """About the release that is named, the CUDA that is there, or else what plan ranks first."""
    named = question.values
    if without_nvidia:
        return _planned(request, question, MachineState(no_gpu=True))
    if "tensorflow" in named and (row := _row(request, named["tensorflow"])):
        return _about_release(request, question, row)
    if "cuda" in named and not at_least(named["cuda"], _BROUGHT_ALONG):
        for cudnn in dict.fromkeys((named.get("cudnn"), None)):
            filters = Filters(platform=request.target.platform, cuda=named["cuda"], cudnn=cudnn)
            if rows := [row for row in _with_cuda(request.matrix, filters) if not violations(request, row)]:
                return _about_cuda(request, question, filters, rows)
        answer = _planned(request, question)
        return replace(answer, title=f"No TensorFlow for CUDA {named['cuda']} works here. {answer.title}")
    return _planned(request, question)


# ------------------------------------------------------------------------------------------------ a release is named


def _row(request: PlanRequest, version: str) -> Release | None:
    """The release of that version, or the newest of that minor version that works here."""
    rows = [row for row in candidates(request.matrix, request.target.platform) if same_minor(row.version, version)]
    exact = [row for row in rows if row.version == version]
    return next((row for row in (*exact, *rows) if not violations(request, row)), next(iter((*exact, *rows)), None))


def _about_release(request: PlanRequest, question: Message, row: Release) -> Problem:
    """Whether it works with all that is named, or what it was built with."""
    broken = violations(request, row)
    against = (
        *(Evidence(one.saw, f"line {question.line}", one.need, one.source) for one in broken),
        *_libraries(request, row, question.values, question.line),
    )
    option = Planner(request).option("as-is", row)
    driver = f", driver {option.min_driver} or newer" if option.min_driver else ""
    title = _refusal(request, row, against[0]) if against else f"{_line(option)}{driver}"
    if question.values["about"] == "works":
        title = f"{'No' if against else 'Yes'}: {title}"
    ways = _best(request, question) if broken else (option,)
    kernels = f"; compiled for compute capability {' '.join(dict.fromkeys((*row.sass, *row.ptx)))}" if row.gpu else ""
    return Problem(
        title=title,
        cause=f"{_built_with(row)}{driver}{kernels}",
        evidence=against or message_evidence(question, need=_built_with(row)),
        fixes=(*_fixes(ways), *_for_that_cuda(request, question.values)) if against else tuple(_fixes(ways)),
    )


def _libraries(request: PlanRequest, row: Release, named: Mapping[str, str], line: int) -> Iterator[Evidence]:
    """The CUDA and cuDNN that are named and that this build does not load."""
    cuda, cudnn = named.get("cuda"), named.get("cudnn")
    if row.cuda and cuda and not same_as_far_as_given(row.cuda, cuda):
        filters = Filters(
            cuda=cuda
        )  # of Linux, where later builds prove it; on Windows the numbers in the names are these
        if row.version not in {one.version for one in also_load(request.matrix, filters)}:
            yield evidence(f"CUDA {cuda}", f"line {line}", f"CUDA {minor(row.cuda)}", source(row, "cuda"))
    if row.cudnn and cudnn and not takes_cudnn(row, cudnn):
        yield evidence(f"cuDNN {cudnn}", f"line {line}", f"cuDNN {row.cudnn}", source(row, "cudnn"))


def _refusal(request: PlanRequest, row: Release, first: Evidence) -> str:
    """The first obstacle in a sentence."""
    release = f"TensorFlow {row.version}"
    if not row.gpu:
        return f"{release} has no GPU support on {_SYSTEMS[request.target.os]}"
    if first.saw.startswith("compute capability"):
        return f"{release} has no kernels for{_card(request, '')} ({first.saw})"
    return f"{release} needs {first.need}, not {first.saw}"


def _for_that_cuda(request: PlanRequest, named: Mapping[str, str]) -> Iterator[Fix]:
    """The releases that load the CUDA that is named."""
    filters = Filters(platform=request.target.platform, cuda=named.get("cuda"))
    if "cuda" in named and (rows := list(_with_cuda(request.matrix, filters))):
        yield Fix(f"For CUDA {named['cuda']}: TensorFlow {_span_of(rows)}")


# ------------------------------------------------------------------------------------------------ CUDA is named


def _with_cuda(matrix: Matrix, filters: Filters) -> Iterator[Release]:
    """The releases that load a CUDA, the newest first; `tensorflow` before packages of other names."""
    rows = [*releases(matrix, filters), *also_load(matrix, filters)]
    newest = sorted(rows, key=lambda row: tuple(map(int, minor(row.version).split("."))), reverse=True)
    yield from (row for row in newest if row.package in ("tensorflow", "tensorflow-gpu"))


def _span_of(rows: list[Release]) -> str:
    return span(tuple(dict.fromkeys(minor(row.version) for row in reversed(rows))))


def _about_cuda(request: PlanRequest, question: Message, filters: Filters, rows: list[Release]) -> Problem:
    """The releases for the CUDA that somebody has."""
    row = rows[0]
    libraries = f"CUDA {filters.cuda}{f', cuDNN {filters.cudnn}' if filters.cudnn else ''}"
    return Problem(
        title=f"{'Yes: for' if question.values['about'] == 'works' else 'For'} {libraries}{_card(request, ' and')}: "
        f"TensorFlow {_span_of(rows)} ({minor(row.version)}: cuDNN {row.cudnn}, Python {span(row.python)})",
        cause=f"these releases load CUDA {filters.cuda}; newer releases need a newer CUDA",
        evidence=message_evidence(question, need=_built_with(row)),
        fixes=tuple(_fixes((Planner(request).option("as-is", row), *_best(request, question)[:1]))),
    )


# ------------------------------------------------------------------------------------------------ what plan says


def _ways(options: tuple[Option, ...], question: Message, os: str) -> tuple[Option, ...]:
    """What plan ranks first; on Windows both WSL2 and Windows itself."""
    if os != "windows" or not options or options[0].kind == "cpu":
        return options[:1]
    native = next((one for one in options if one.kind in ("as-is", "python", "driver", "python+driver")), None)
    inside = next((one for one in options if one.kind == "wsl2"), None)
    both = [one for one in (native, inside) if one]
    found = both if "native" in question.values or options[0] is native else both[::-1]
    return tuple(found) or options[:1]


def _best(request: PlanRequest, question: Message) -> tuple[Option, ...]:
    return _ways(make_plan(request.matrix, request.target).options, question, request.target.os)


def _planned(request: PlanRequest, question: Message, state: MachineState | None = None) -> Problem:
    """What plan answers for this machine."""
    plan = make_plan(request.matrix, request.target, state=state)
    ways = _ways(plan.options, question, request.target.os)
    if not ways:
        title = next(iter(plan.problems), "No release is known to work there")
        return Problem(
            title=title, cause=" ".join(plan.problems[1:]), evidence=message_evidence(question), fixes=_SEE_PLAN
        )
    first, target = ways[0], request.target
    inside = target.os == "windows" and first.kind == "wsl2"
    where = " on Windows" if inside else _system(target, question)
    begin = f"For{_card(request, '')}{where}" if target.gpus else f"O{where[2:]}"
    title = f"{'Without an NVIDIA GPU' if state else begin}: {_line(first)}"
    if len(ways) > 1 and first.kind == "wsl2":
        title += f"; without WSL2: {_line(ways[1])}"
    need = f"the driver must be {first.min_driver} or newer" if first.min_driver else "CUDA is for NVIDIA GPUs"
    return Problem(
        title=title,
        cause=". ".join((need, *(() if state else plan.problems), *first.notes)),
        evidence=message_evidence(question, need=_line(first)),
        fixes=tuple(_fixes(ways)),
    )


def _system(target: Target, question: Message) -> str:
    """Where; without a word about it Linux is meant, whose wheels WSL2 takes as well."""
    named = target.os != "linux" or question.values.get("os") == "linux"
    return f" on {_SYSTEMS[target.os]}" if named else " on Linux or WSL2"


def _card(request: PlanRequest, before: str) -> str:
    """ " a GeForce RTX 3090", where a card is named."""
    named = next((one.name for one in request.target.gpus if one.name), None)
    known = request.matrix.gpu(named) if named else None
    name = known.name if known else named
    return f"{before} {'an' if name.startswith(_AN) else 'a'} {name}" if name else ""


def _built_with(row: Release) -> str:
    cuda = f"CUDA {minor(row.cuda)}, cuDNN {row.cudnn}" if row.cuda else "no CUDA"
    return f"TensorFlow {row.version}: {cuda}, Python {span(row.python)}"


def _line(option: Option) -> str:
    """Everything that belongs together in one line."""
    pythons = span(option.pythons) if option.pythons else option.python
    parts = (
        option.title,
        f"CUDA {minor(option.cuda)}" if option.cuda else "",
        f"cuDNN {option.cudnn}" if option.cudnn else "",
        f"Python {pythons}" if pythons and "with Python" not in option.title else "",
    )
    return ", ".join(filter(None, parts))


def _fixes(ways: tuple[Option, ...]) -> Iterator[Fix]:
    """The recipes, the best first."""
    for number, option in enumerate(ways):
        tool, commands = next(iter(option.commands.items()), ("", ()))
        yield from option.first
        missing = [one for one in option.missing if one.text.startswith(f"{tool} is missing")]
        yield from (Fix(f"Install {tool}, if it is missing", one.commands) for one in missing)
        way = "Use" if option.kind == "container" else "Install"
        yield (Alternative if number else Fix)(f"{way} {option.title}", commands)
