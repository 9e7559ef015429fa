"""What a doctor's report comes to, and what is common to all that show findings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from tfgpu_doctor.facts.about import LAYERS, SYSTEMS
from tfgpu_doctor.facts.facts import NOT_EXAMINED, Fact, Facts, Known, Soname, Unknown, lists_gpu, map_fact, value_or
from tfgpu_doctor.facts.report import (
    EXIT_OK,
    EXIT_UNKNOWN,
    FailOn,
    Finding,
    Report,
    Severity,
    Verdict,
    exit_code,
    fails,
    is_answered,
    problem_counts,
    root_causes,
    verdict_sentence,
)
from tfgpu_doctor.facts.units import count, memory_size
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.findings.engine import ASK_DOCTOR, chosen
from tfgpu_doctor.findings.inputs import OPTIONAL_COMPONENTS
from tfgpu_doctor.plan.windows_shell import quoted
from tfgpu_doctor.render.ci import lines_of
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import (
    LEAST,
    VERDICT_MARKS,
    answer,
    blocks,
    brief,
    details,
    least,
    open_checks,
    titles_of,
)
from tfgpu_doctor.render.prometheus import gauge, origin, states
from tfgpu_doctor.render.shapes import (
    LEVELS,
    Annotation,
    Block,
    Case,
    Checks,
    Items,
    Level,
    Metric,
    Outcome,
    Page,
    Sample,
    Suite,
    Table,
)
from tfgpu_doctor.render.text import height

_SCREEN = 20  # lines of a first screen of a text, at 80 columns


def command_of(report: Report) -> str:
    """The command that makes such a report: a pasted text is explained."""
    return "tfgpu explain" if report.source == "text" else "tfgpu doctor"


def page(report: Report, detail: Detail = "shared", guides: bool = False, python: str | None = None) -> Page:
    """Return the stack, what was found, and what a helper asks for next; or a screen of it, or the first problem.

    `guides` adds what to type next, with the interpreter that was asked for, `python`: else, that examines another one.
    """
    whole = head(report, command_of(report), verdict_sentence(report))
    if value_or(report.facts.host.os, "") == "windows":
        whole = whole._replace(language="bat")
    if detail == "least":
        return whole._replace(parts=(*least(report), *(_next(report, python),)[: int(guides)]), is_brief=True)
    layers, found = layers_of(report), tuple(blocks(report))
    rows = tuple((layer.name, layer.text) for layer in layers)
    stack = Table("The stack", ("Layer", "Found"), rows, tuple(layer.mark for layer in layers))
    if detail == "shared":
        return whole._replace(parts=(stack, *found, open_checks(report), *details(report.facts)))
    if detail != "normal":
        values = tuple(value_or(report.facts.variables, {}).items())  # those of which no finding tells, too
        variables = Table("Variables", ("Name", "Value"), values, is_named=True)
        return whole._replace(parts=(stack, *found, open_checks(report), variables))
    return _answered(whole, report, layers) if report.source == "text" else _examined(whole, report, stack, found)


def _next(report: Report, python: str | None) -> Table:
    """What to type after the verdict, and after the first fix where there is one."""
    works = report.verdict in ("ok", "degraded") and lists_gpu(value_or(report.facts.tensorflow.devices, None))
    asked = f" --python {quoted(python, value_or(report.facts.host.os, None))}" if python else ""
    bench = f"tfgpu bench{asked}", "how fast the GPU is, compared with the CPU"
    plan = ("tfgpu plan", "which TensorFlow to install on this machine")
    seen = (f"tfgpu doctor{asked}", "what was checked, with the evidence and all fixes")
    return Table("Next", ("Command", "What it shows"), (bench, seen) if works else (seen, plan), is_named=True)


def _examined(whole: Page, report: Report, stack: Table, found: tuple[Block, ...]) -> Page:
    """A first screen of a machine."""
    shown = tuple(map(brief, found))
    reasons = Counter(item.reason for item in report.undetermined if report.verdict == "unknown").most_common()
    open_ones = tuple(f"skipped, {reason}: {count(number, 'check')}" for reason, number in reasons)
    hint = ""
    if [block.lines for block in shown] != [block.lines for block in found]:
        about = next((f"; tfgpu explain {block.ids[0]}" for block in shown if len(block.ids) == 1), "")
        hint = f"All evidence and fixes: add -v{about}"
    return whole._replace(parts=(stack, *shown, Items(open_ones, "", "unknown")), hint=hint)


def _answered(whole: Page, report: Report, layers: tuple[Layer, ...]) -> Page:
    """A first screen of a text."""
    told = "; ".join(_told(layer) for layer in layers if layer.mark != "absent" or layer.name in ("Devices", "GPU"))
    left_open = [finding for finding in report.findings if finding.possible and not finding.is_guess]
    sure = f"To be sure, send what {ASK_DOCTOR} prints there. " if left_open else ""
    whole = whole._replace(hint=f"{sure}More: add -v", is_brief=True)
    read = Items((f"Read: {told}",))
    for left_out in range(LEAST + 1):
        whole = whole._replace(parts=(read, *answer(report, left_out)))
        if height(whole) <= _SCREEN:
            break
    hides_causes = len(left_open) > 1 and not any(isinstance(one, Block) and one.mark == "" for one in whole.parts)
    return whole._replace(hint=f"{sure}The other causes: add -v") if hides_causes else whole


def _told(layer: Layer) -> str:
    """A layer as part of a sentence."""
    if (layer.name, layer.text) == ("GPU", "none"):
        return "no NVIDIA GPU"
    if layer.name == "Text":
        return "nothing of machine, driver or TensorFlow"
    return layer.text if layer.name in ("Machine", "GPU", "Devices") else f"{layer.name} {layer.text}"


def head(report: Report, command: str, meaning: str) -> Page:
    """Return a page with the verdict of a report."""
    about = f"{command} {report.tool.version}, matrix of {report.matrix.revision}"
    answered = report.verdict == "unknown" and is_answered(report)
    mark, word = ("note", "answered") if answered else (VERDICT_MARKS[report.verdict], report.verdict)
    return Page(command, (about,), mark, word, meaning + problem_counts(report), (), created=report.created)


# ---------------------------------------------------------------------------------------------------------------- CI


def checks(report: Report, fail_on: FailOn = "error", only: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> Checks:
    """Return a case for each check; `only` and `skip` are the checks that were asked for, where not all were."""
    whole = verdict_checks(report, command_of(report), verdict_sentence(report), fail_on)
    roots = annotated((finding for finding in report.findings if finding.root_cause), titles_of(report.findings))
    suites = (*whole.suites, *_layers(report, fail_on, chosen(only, skip)))
    return whole._replace(suites=suites, annotations=(*roots, *whole.annotations))


def verdict_checks(report: Report, command: str, meaning: str, fail_on: FailOn) -> Checks:
    """Return whether there is an answer, and the line of the log; that the answer is bad, other checks say."""
    text = f"{report.verdict}: {meaning}{problem_counts(report)}"
    case = Case("a verdict could be reached", command.replace(" ", "."), details=(text,))
    annotations: tuple[Annotation, ...] = ()
    if report.verdict == "unknown":
        code, reasons = exit_code(report, fail_on), tuple(dict.fromkeys(item.reason for item in report.undetermined))
        level: Level = "error" if code == EXIT_UNKNOWN else "warning"
        annotations = (Annotation(level, f"{command}: {meaning}", reasons or ("nothing more is known",)),)
        if code in (EXIT_OK, EXIT_UNKNOWN):
            outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
            case = case._replace(outcome=outcome, kind="could not determine", message=meaning, details=reasons)
    return Checks(command, report.created, (Suite("Verdict", (case,)),), annotations, (f"{command}: {text}",))


def annotated(findings: Iterable[Finding], titles: Mapping[str, str]) -> Iterator[Annotation]:
    """One for each finding; `titles` has those of their consequences."""
    for finding in findings:
        name = f"{finding.title} ({finding.id})"
        yield Annotation(LEVELS[finding.severity], name, tuple(lines_of(finding, titles)))


def finding_case(case: Case, finding: Finding, titles: Mapping[str, str], fail_on: FailOn) -> Case:
    """The case of a check that found something: red where it makes the exit code 1."""
    lines = tuple(lines_of(finding, titles))
    if fails(finding, fail_on):
        return case._replace(outcome="failure", kind=finding.severity.value, message=finding.title, details=lines)
    return case._replace(details=(f"{finding.severity.value}: {finding.title}", *lines))


def _layers(report: Report, fail_on: FailOn, checked: Iterable[str] | None) -> Iterator[Suite]:
    """One suite for each layer. A pasted text is no check of what it does not tell."""
    wanted = {finding.id for finding in report.findings} | {finding.id for finding in report.undetermined}
    if report.source != "text":
        wanted |= set(pages.all_ids() if checked is None else checked)
    for layer, title in pages.LAYERS.items():
        ids = [one.id for one in pages.pages_of(layer) if one.id in wanted]
        yield Suite(title, tuple(_check(one, layer, report, fail_on) for one in ids))


def _check(finding_id: str, layer: str, report: Report, fail_on: FailOn) -> Case:
    case = Case(finding_id, f"{command_of(report).replace(' ', '.')}.{layer}", "skipped")
    titles, declared = titles_of(report.findings), DECLARATIONS.get(finding_id)
    if finding := next((finding for finding in report.findings if finding.id == finding_id), None):
        if finding.root_cause:
            return finding_case(case._replace(outcome="passed"), finding, titles, fail_on)
        above = next((cause.id for cause in report.findings if finding.id in cause.consequences), "another finding")
        message, lines = f"follows from {above}: {finding.title}", tuple(lines_of(finding, titles))
        return case._replace(kind="consequence", message=message, details=lines)
    if (reason := next((item.reason for item in report.undetermined if item.id == finding_id), None)) is not None:
        return case._replace(kind="could not determine", message=f"could not determine: {reason}")
    # beside which this check says nothing of its own: it was not made, or would be a consequence
    beside = (*declared.pointless_after, *declared.explained_by) if declared else ()
    if settled := next((found.id for found in report.findings if matches(found.id, beside)), None):
        return case._replace(kind="not judged apart", message=f"not judged apart from {settled}")
    return case._replace(outcome="passed")


# -------------------------------------------------------------------------------------------------------- monitoring


def metrics(report: Report) -> Iterator[Metric]:
    """The verdict, what was found, and what the machine has: versions are labels of tfgpu_doctor_info."""
    facts, roots = report.facts, root_causes(report.findings)
    versions = {
        "tensorflow": facts.tensorflow.version,
        "python": facts.python.version,
        "driver": facts.driver.version,
        "driver_cuda": facts.driver.cuda_supported,
        "cudnn": facts.cudnn.runtime,
        "os": facts.host.os,
    }
    known = {"matrix": report.matrix.revision, **{name: value_or(fact, "") for name, fact in versions.items()}}
    yield from origin("doctor", report.tool, report.created, known)
    about = "Verdict of the diagnosis; 1 for the one that holds."
    yield gauge("tfgpu_doctor_verdict", about, *states(get_args(Verdict), report.verdict))
    counts = Counter(one.severity for one in roots)
    by_severity = (Sample(counts[one], {"severity": one.value}) for one in Severity)
    yield gauge("tfgpu_doctor_findings", "Root causes that were found.", *by_severity)
    causes = (Sample(1, {"id": one.id, "severity": one.severity.value}) for one in roots)
    yield gauge("tfgpu_doctor_finding", "1 for each root cause that was found.", *causes)
    yield gauge("tfgpu_doctor_undetermined_checks", "Checks that could not be made.", len(report.undetermined))
    if isinstance(facts.gpus, Known):
        yield gauge("tfgpu_doctor_gpus", "GPUs that the driver lists.", len(facts.gpus.value))
    if isinstance(devices := facts.tensorflow.devices, Known):
        listed = sum(one.kind == "GPU" for one in devices.value)
        yield gauge("tfgpu_doctor_tensorflow_gpus", "GPUs that TensorFlow lists.", listed)
    names = []
    for gpu in value_or(facts.gpus, ()):
        name, capability = value_or(gpu.name, ""), value_or(gpu.compute_capability, "")
        names.append(Sample(1, {"gpu": str(gpu.index), "name": name, "compute_capability": capability}))
    yield gauge("tfgpu_doctor_gpu_info", "Name and compute capability of a GPU.", *names)


# ------------------------------------------------------------------------------------------------------------ the stack


Mark = Literal["ok", "error", "warning", "unknown", "absent", ""]  # "": nothing that could be right or wrong
Described: TypeAlias = "str | tuple[str, Mark] | Unknown"  # a text alone: it is right


class Layer(NamedTuple):
    """One line of the summary."""

    name: str
    mark: Mark
    text: str


def layers_of(report: Report) -> tuple[Layer, ...]:
    """Describe the layers that a report shows: all, or of a pasted text those of which it says anything."""
    layers: list[Layer] = []
    reasons: set[str] = set()  # of Python and what follows it, where one reason often holds for all
    for name in LAYERS:
        described = _DESCRIBE[name](report.facts)
        if isinstance(described, Unknown):
            mark: Mark = "unknown"
            # of the driver, why asking each library and file failed stands in -v
            reason = described.reason.partition("; ")[0] if name == "Driver" else described.reason
            text = "skipped" if reason in reasons and reason != NOT_EXAMINED.reason else reason
            reasons |= {reason} if name in ("Python", "TensorFlow", "Devices") else set()
        else:
            text, mark = (described, "ok") if isinstance(described, str) else described
        layers.append(Layer(name, _mark(name, mark, report), text))
    if report.source != "text":
        return tuple(layers)
    known = tuple(layer for layer in layers if layer.mark != "unknown")
    return known or (Layer("Text", "unknown", "names no machine, driver or TensorFlow"),)


def _mark(name: str, mark: Mark, report: Report) -> Mark:
    """The mark of a layer: that of what was found in it, unless a text says nothing of the layer."""
    if mark == "unknown" and report.source == "text":
        return mark
    # a report of another version may hold an id that this one does not know
    found = {one.severity for one in report.findings if one.id in DECLARATIONS and DECLARATIONS[one.id].layer == name}
    return "error" if Severity.ERROR in found else "warning" if Severity.WARNING in found and mark == "ok" else mark


def _known(*facts: Fact[Any], form: str = "{}") -> list[str]:
    return [form.format(fact.value) for fact in facts if isinstance(fact, Known)]


def _machine(facts: Facts) -> Described:
    host = facts.host
    inside = _known(host.container, form="{} container") if value_or(host.container, "none") != "none" else []
    if not isinstance(host.os, Known):  # as in a text, which may tell of a container alone
        return (*inside, "unknown system")[0], "ok" if inside else "unknown"
    parts = _known(host.distribution, map_fact(host.os, lambda name: SYSTEMS.get(name, name)))[:1]
    parts += ["WSL2"] if host.os.value == "wsl2" and "wsl2" not in parts[0].lower() else []
    parts += [*_known(host.machine, host.libc), *_known(host.cpus, form="{} CPUs")]
    return ", ".join((*parts, *_known(map_fact(host.memory, memory_size)), *inside)), "ok"


def _gpu(facts: Facts) -> Described:
    if gpus := value_or(facts.gpus, ()):
        models = Counter(
            ", ".join(
                (
                    *(_known(gpu.name) or ["unknown model"]),
                    *_known(gpu.compute_capability, form="compute capability {}"),
                    *_known(map_fact(gpu.memory_total, memory_size)),
                )
            )
            for gpu in gpus
        )
        return "; ".join(f"{count} × {model}" if count > 1 else model for model, count in models.items())
    pci = facts.host.pci_gpus
    if isinstance(pci, Unknown):
        return pci
    told = "(as stated)" if pci.source.endswith("as stated") else "(inferred)"  # of a cloud's instance type
    named = [f"{gpu.name or gpu.device_id} {'on the PCI bus' if gpu.address else told}" for gpu in pci.value]
    return "; ".join(named) or ("none", "absent")


def _driver(facts: Facts) -> Described:
    driver = facts.driver
    if isinstance(driver.version, Known):
        supported = _known(driver.cuda_supported, form="CUDA up to {}")
        return ", ".join((driver.version.value, *supported, *_known(driver.kernel_module_kind, form="{} module")))
    has_none = value_or(driver.libcuda, None) == () and value_or(driver.kernel_module_loaded, None) is False
    return ("none", "absent") if has_none else driver.version


_OF_ANOTHER = "of the release that works"  # what a text tells of that says what is there


def _cuda(facts: Facts) -> Described:
    sonames, toolkits = facts.loader.sonames, facts.cuda.toolkits
    if isinstance(toolkits, Unknown) and isinstance(sonames, Unknown):
        return toolkits
    kits = value_or(toolkits, ())
    versions = ", ".join(dict.fromkeys(kit.version for kit in kits if kit.version))
    installed = f"toolkit {versions}" if versions else "no toolkit"
    if isinstance(sonames, Unknown):
        if any(kit.via == "stated" for kit in kits):
            return f"{versions} ({_OF_ANOTHER if kits[0].path.startswith('for ') else 'as stated'})"
        is_shown = any(kit.source.startswith("line ") for kit in kits)  # what a text shows of it
        return installed if is_shown else _unknown_needs(facts, installed, sonames.reason)
    wanted = [soname for soname in sonames.value if soname.component not in ("cudnn", "driver")]
    return _libraries(wanted, installed) if wanted else installed


def _unknown_needs(facts: Facts, installed: str, reason: str) -> Described:
    build = value_or(facts.tensorflow.build, None)
    if build and not build.is_cuda_build:
        return f"{installed}; this TensorFlow, built for the CPU, needs none", "absent"
    return f"{installed}; what TensorFlow needs: {reason}", "unknown"


def _libraries(wanted: list[Soname], installed: str) -> Described:
    wanted = [soname for soname in wanted if soname.winner or soname.component not in OPTIONAL_COMPONENTS]
    found = sum(soname.winner is not None for soname in wanted)
    ways = {library.via for soname in wanted for library in soname.candidates if library.path == soname.winner}
    by = f" ({', '.join(sorted(ways))})" if ways else ""
    return f"{found} of {len(wanted)} libraries found{by}; {installed}", "ok" if found == len(wanted) else "absent"


def _refused(facts: Facts) -> dict[str, str]:
    """The libraries that the loader refuses, and why."""
    libraries = (library for soname in value_or(facts.loader.sonames, ()) for library in soname.candidates)
    return {library.path: library.problem for library in libraries if library.problem}


def _cudnn(facts: Facts) -> Described:
    files = facts.cudnn.installed
    if isinstance(facts.cudnn.runtime, Known):
        return f"{facts.cudnn.runtime.value}, loaded"
    if isinstance(files, Unknown):
        return files
    installed = ", ".join(dict.fromkeys(file.version or file.path for file in files.value))
    if any(file.path.endswith(" works") for file in files.value):
        return f"{installed} ({_OF_ANOTHER})"
    is_stated = any(file.path.startswith("line ") for file in files.value)
    refused = _refused(facts)
    if files.value and all(file.path in refused for file in files.value):
        return f"{installed}: {refused[files.value[0].path]}", "absent"
    return f"{installed} {'(as stated)' if is_stated else 'on disk'}" if installed else ("none", "absent")


def _python(facts: Facts) -> Described:
    python = facts.python
    if isinstance(python.version, Unknown):
        return python.version
    return ", ".join(_known(python.version, python.environment, python.executable))


def _tensorflow(facts: Facts) -> Described:
    tensorflow = facts.tensorflow
    if isinstance(tensorflow.version, Unknown):
        return tensorflow.version
    package = tensorflow.distribution
    name = package.value if isinstance(package, Known) and package.grade != "inferred" else "tensorflow"
    text = tensorflow.version.value + (f" ({name})" if name != "tensorflow" else "")
    if tensorflow.version.source.endswith("as wanted"):
        text += " (as wanted)"
    if isinstance(tensorflow.build, Known):
        build = tensorflow.build.value
        versions = f"CUDA {build.cuda_version or '?'}, cuDNN {build.cudnn_version or '?'}"
        text += f", built for {versions if build.is_cuda_build else 'the CPU'}"
    skipped = any(phase.name == "import" and phase.outcome == "skipped" for phase in tensorflow.phases)
    return text + (", not imported" if skipped else "")


def _devices(facts: Facts) -> Described:
    devices = facts.tensorflow.devices
    if isinstance(devices, Unknown):
        return devices
    gpus = [device for device in devices.value if device.kind == "GPU"]
    names = [one.device_name for one in gpus if one.device_name] or [one.name for one in gpus]
    if gpus:
        return f"{count(len(gpus), 'GPU')}: {', '.join(dict.fromkeys(names))}"
    how = devices.source.rpartition(", ")[2]  # "as stated", "as asked"
    return f"TensorFlow uses no GPU ({how})" if devices.grade == "stated" else "TensorFlow lists no GPU", "absent"


def _compute(facts: Facts) -> Described:
    checks, devices = facts.tensorflow.checks, facts.tensorflow.devices
    if isinstance(devices, Known) and not lists_gpu(devices.value):
        return "skipped: no GPU", "absent"
    if isinstance(checks, Unknown):
        return checks
    good, total = (Counter(check.kind for check in checks.value if check.ok or every) for every in (False, True))
    return "verified: " + ", ".join(f"{kind} on {good[kind]} of {total[kind]}" for kind in total)


_DESCRIBE: dict[str, Callable[[Facts], Described]] = {
    "Machine": _machine,
    "GPU": _gpu,
    "Driver": _driver,
    "CUDA": _cuda,
    "cuDNN": _cudnn,
    "Python": _python,
    "TensorFlow": _tensorflow,
    "Devices": _devices,
    "Compute": _compute,
}
