"""Questions where nothing has failed, harmless lines, newer releases, known bugs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.findings.declaration import (
    Context,
    Declaration,
    MessageLog,
    Problem,
    evidence,
    finding,
    in_manifests,
    message_evidence,
)
from tfgpu_doctor.findings.inputs import Card
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.library_fixes import without_bug
from tfgpu_doctor.findings.symptoms import nothing_fails
from tfgpu_doctor.matrix.compatibility import arm_only, requirement
from tfgpu_doctor.matrix.loader import CudnnRelease, Matrix, Release
from tfgpu_doctor.matrix.queries import Filters, also_load, releases, same_as_far_as_given, takes_cudnn
from tfgpu_doctor.matrix.schema import Condition, KnownIssue
from tfgpu_doctor.plan.constraints import PlanRequest, candidates, source, span, violations
from tfgpu_doctor.plan.file_edits import replacement, write_tensorflow
from tfgpu_doctor.plan.install_commands import list_gpus
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.ranking import MachineState, Planner, make_plan
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import Target, from_facts, unknown_gpu
from tfgpu_doctor.records.facts import Message, Nvcc, Package, PciGpu, Soname, TfDevice, value_or
from tfgpu_doctor.records.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.records.versions import at_least, minor, same_minor

# ----------------------------------------------------------------------------------------------------------------------
# Finding about a question: nvidia-smi and nvcc show different CUDA versions, and which one does TensorFlow use?


DIFFER = finding(
    "cuda.versions-differ",
    layer="CUDA",
    severity=Severity.NOTE,
    answers=True,
    title="nvidia-smi and nvcc show different CUDA versions, and TensorFlow uses neither number",
    pointless_after=("cuda.version-mismatch", "cuda.missing", "cuda.lib-path", "driver.too-old"),
    docs="https://docs.nvidia.com/deploy/cuda-compatibility/",
)


@DIFFER.sign
def asked_about(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """Somebody compares the two numbers in a sentence."""
    found = messages.first("cuda-versions-compared")
    if context.probed or found is None or found.values["smi"] == found.values["nvcc"]:
        return None
    return _cuda_answer(context, release, message_evidence(found))


@DIFFER.sign
def printed(
    context: Context, messages: MessageLog, cuda_supported: str, nvcc: Nvcc, release: Release | None = None
) -> Problem | None:
    """The outputs of both programs, in a text without a failure that could be the question."""
    if context.probed or messages.complains or minor(nvcc.version) == minor(cuda_supported):
        return None
    smi = evidence(f"CUDA {cuda_supported}", context.source("driver.cuda_supported"))
    return _cuda_answer(context, release, (smi, evidence(f"CUDA {minor(nvcc.version)}", context.source("cuda.nvcc"))))


def _cuda_answer(context: Context, release: Release | None, seen: tuple[Evidence, ...]) -> Problem:
    """What both numbers mean."""
    known = f", CUDA {minor(release.cuda)}" if release and release.cuda else ""
    python = "python" if context.remedies.os == "windows" else "python3"
    build = f'{python} -c "import tensorflow as tf; print(tf.sysconfig.get_build_info())"'
    return Problem(
        cause="nvidia-smi shows the newest CUDA that the driver supports, nvcc the toolkit on PATH; they may differ. "
        f"TensorFlow loads the CUDA that it was built for{known}, from pip's packages or from where the loader finds "
        "it; from a toolkit it uses at most ptxas and libdevice",
        evidence=seen,
        fixes=(
            Fix("Change neither; see which CUDA this TensorFlow was built for", (build,)),
            Fix("See whether it finds that CUDA", ("tfgpu doctor",)),
        ),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Finding about a question: which TensorFlow, CUDA, cuDNN and Python belong together, here and with what is named.


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
    answer = _release_answer(request, question, without_nvidia=pci_gpus == () or "graphics" in question.values)
    if pci_gpus and pci_gpus[0].name and not request.target.gpus:
        answer = replace(answer, cause=f"{unknown_gpu(context.matrix, pci_gpus[0].name)}. {answer.cause}")
    return replace(answer, rank_first=True, fixes=() if context.remedies.image else answer.fixes)


def _target(context: Context, question: Message) -> Target:
    """The machine that the text describes; Windows may be named without its version."""
    python = question.values.get("python")
    target = from_facts(context.facts, context.matrix, minor(python) if python else None)
    target = structs.replace(target, driver=target.driver or question.values.get("driver"))
    if question.values.get("os") == "windows" and not value_or(context.facts.host.os, None):
        return structs.replace(target, os="windows", machine="x86_64")
    if target.gpus and all(arm_only(one.name, one.compute_capability) for one in target.gpus):
        return structs.replace(target, machine="aarch64")
    return target


def _release_answer(request: PlanRequest, question: Message, *, without_nvidia: bool) -> Problem:
    """About the release that is named, the CUDA that is there, or else what plan ranks first."""
    named = question.values
    if without_nvidia:
        return _planned(request, question, MachineState(no_gpu=True))
    if "tensorflow" in named and (row := _row(request, named["tensorflow"])):
        return _about_release(request, question, row)
    if "cuda" not in named or at_least(named["cuda"], _BROUGHT_ALONG):
        return _planned(request, question)
    for cudnn in dict.fromkeys((named.get("cudnn"), None)):
        filters = Filters(platform=request.target.platform, cuda=named["cuda"], cudnn=cudnn)
        if rows := [row for row in _with_cuda(request.matrix, filters) if not violations(request, row)]:
            return _about_cuda(request, question, filters, rows)
    answer = _planned(request, question)
    return replace(answer, title=f"No TensorFlow for CUDA {named['cuda']} works here. {answer.title}")


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
    fixes = [*_fixes(_best(request, question) if broken else (option,))]
    cuda = question.values.get("cuda")
    others = list(_with_cuda(request.matrix, Filters(platform=request.target.platform, cuda=cuda))) if cuda else []
    if against and others:
        fixes.append(Fix(f"For CUDA {cuda}: TensorFlow {_span_of(others)}"))
    kernels = f"; compiled for compute capability {' '.join(dict.fromkeys((*row.sass, *row.ptx)))}" if row.gpu else ""
    return Problem(
        title=title,
        cause=f"{_built_with(row)}{driver}{kernels}",
        evidence=against or message_evidence(question, need=_built_with(row)),
        fixes=tuple(fixes),
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
    # without a word about it Linux is meant, whose wheels WSL2 takes as well
    where = (
        f" on {_SYSTEMS[target.os]}"
        if target.os != "linux" or question.values.get("os") == "linux"
        else " on Linux or WSL2"
    )
    if target.os == "windows" and first.kind == "wsl2":
        where = " on Windows"
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


# ----------------------------------------------------------------------------------------------------------------------
# Findings about questions whose answer is the same for everybody.


def _answer(finding_id: str, about: str, layer: str, title: str, cause: str, docs: str, *fixes: Fix) -> Declaration:
    """Declare the answer to a question, given where somebody asks it and nothing in the text fails."""
    declared = finding(
        finding_id, layer=layer, severity=Severity.NOTE, answers=True, title=title, cause=cause, docs=docs
    )

    @declared.sign
    def asked(context: Context, messages: MessageLog, devices: tuple[TfDevice, ...] | None = None) -> Problem | None:
        found = next((one for one in messages.all("question") if one.values["about"] == about), None)
        if context.probed or found is None or not nothing_fails(messages, devices):
            return None
        answered = about == "in-use" and messages.has("gpu-created")  # the log answers itself
        return None if answered else Problem(evidence=message_evidence(found), fixes=fixes)

    return declared


TOOLKIT = _answer(
    "cuda.toolkit-not-needed",
    "toolkit",
    "CUDA",
    "The CUDA toolkit is not needed beside CUDA libraries from pip or conda",
    "pip's tensorflow[and-cuda] and conda's cudatoolkit and cudnn bring the libraries that TensorFlow loads; of the "
    "system it needs the NVIDIA driver alone, and an installed toolkit may have any version",
    "https://www.tensorflow.org/install/pip",
    Fix("Install no toolkit; see whether the driver is new enough for the CUDA that is used", ("nvidia-smi",)),
)
IN_USE = _answer(
    "gpu.usage-unknown",
    "in-use",
    "GPU",
    "How to see whether TensorFlow uses the GPU",
    'TensorFlow lists the GPU and logs "Created device ... GPU:0" when it uses it, "Could not load dynamic library" or '
    '"Skipping registering GPU devices" when it does not',
    "https://www.tensorflow.org/guide/gpu",
    Fix("List the GPUs that TensorFlow sees", (f'python3 -c "{list_gpus("2.1")}"',)),
    Fix("Watch the GPU while the program runs: it is in the list of processes, and its memory in use", ("nvidia-smi",)),
)
FIRST_RUN = _answer(
    "perf.first-run",
    "first-run",
    "Compute",
    "The first run is slower than all others: TensorFlow prepares the GPU in it",
    "in the first run CUDA is initialised and cuDNN measures its algorithms for each shape; only a first run of many "
    "minutes shows a fault: a GPU that is newer than the build",
    "https://www.tensorflow.org/guide/profiler",
    Fix("Run one step before you measure, and leave it out; keep shapes the same, so that it stays the only one"),
)


# ----------------------------------------------------------------------------------------------------------------------
# Findings about log lines that need no action: for whoever pastes a text and asks what its lines mean.


_SHOWN = 90  # characters
# kind → what it says, for people
MEANING = {
    "numa": "the firmware gives no NUMA node for the GPU; TensorFlow takes node 0",
    "cpu-features": "TensorFlow names instructions of this CPU that its build does not use everywhere",
    "onednn": "TensorFlow uses oneDNN on the CPU; results may differ in the last digits",
    "factory": "CUDA's plugins are registered twice while TensorFlow is imported; the second attempt is ignored",
    "absl-init": "TensorFlow writes to standard error before its logging is set up",
    "tensorrt-warning": "TensorRT is an optional extra; without it TF-TRT is off and nothing else changes",
    "driver-version-on-windows": "on Windows TensorFlow cannot read the driver's version, and does not need it",
    "graph-pass": "a graph optimisation was not applied",
    "interconnect": "how the devices are connected with each other",
    "end-of-data": "a dataset came to its end",
    "allocation-hint": "an allocation was refused and made otherwise; it costs speed at most",
    "host-allocation": "a large part of the machine's memory is allocated at once",
    "xla-ready": "XLA, TensorFlow's compiler, is ready",
    "autograph": "a function is run as it stands instead of as a graph",
    "profiler": "the profiler may not read the GPU's counters without permission",
    "deprecated": "a function will go away in a later release",
    "no-peer-access": "these GPUs cannot reach each other directly; TensorFlow copies through the host",
    "ptx-in-sequence": "the driver is older than the compiler, within one CUDA major: XLA compiles one "
    "kernel at a time",
    "ptx-by-driver": "on Windows the driver compiles what TensorFlow would give to ptxas elsewhere",
    "growth-by-variable": "TF_FORCE_GPU_ALLOW_GROWTH is set, and memory is taken as needed",
    "spills": "a kernel keeps some values in memory instead of registers; it costs speed at most",
    "tf32": "TensorFloat-32 is used for float32 matrix products",
    "weak-gpu-left-out": "a second, weaker GPU is left out on purpose",
    "timer": "a measurement of a kernel timed out; another one is taken",
    "plugin": "a device plugin was registered",
    "autotuning": "XLA tries and compiles kernels in the first steps, and says that one of them takes its time",
}
_TENSORRT = "tensorrt-warning"
_LOGGED_AS_ERRORS = ("factory",)  # TensorFlow logs these lines with an E


def _brief(text: str) -> str:
    """The sentence without the time and the file before it, long enough to find it again."""
    text = text.split("] ", 1)[-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} ..."


def _meanings(messages: list[Message]) -> tuple[Evidence, ...]:
    """A line of evidence for each kind of message, however often it was printed."""
    kinds: dict[str, Message] = {}
    for message in messages:
        kinds.setdefault(message.values["what"], message)
    return tuple(Evidence(_brief(m.text), f"line {m.line}", f"nothing: {MEANING[what]}") for what, m in kinds.items())


MISSING_BENIGN = finding(
    "tensorrt.missing-benign",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="TensorRT is not installed, and not needed",
    docs="https://docs.nvidia.com/deeplearning/frameworks/tf-trt-user-guide/index.html",
    cause="only programs that convert models with TF-TRT need it; TensorFlow uses GPUs without it",
)


@MISSING_BENIGN.sign
def tensorrt_warning(context: Context, messages: MessageLog) -> Problem | None:
    """TF-TRT is optional."""
    found = [m for m in messages.all("harmless") if m.values["what"] == _TENSORRT]
    return Problem(evidence=_meanings(found)) if found and not context.probed else None


LOG = finding(
    "benign.log",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="Harmless log lines",
    docs="https://www.tensorflow.org/install/errors",
    cause="TensorFlow prints these on machines that work; TF_CPP_MIN_LOG_LEVEL=1 hides most of them",
)


@LOG.sign
def harmless_lines(context: Context, messages: MessageLog) -> Problem | None:
    """Lines that need no action, or a text without any failure."""
    if context.probed:
        return None
    found = [m for m in messages.all("harmless") if m.values["what"] != _TENSORRT]
    if found:  # first what looks like an error
        return Problem(evidence=_meanings(found), rank_first=any(m.values["what"] in _LOGGED_AS_ERRORS for m in found))
    created = None if messages.complains else messages.first("gpu-created")
    if created is None:
        return None
    works = Evidence(_brief(created.text), f"line {created.line}", "this: TensorFlow created the device")
    return Problem(title="No line of this text shows a failure", cause="a GPU is in use", evidence=(works,))


# ----------------------------------------------------------------------------------------------------------------------
# A TensorFlow that came out after this matrix, of which therefore little can be said.


NEWER = finding(
    "tf.newer-than-matrix",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="This TensorFlow is newer than the compatibility matrix",
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@NEWER.sign
def newer_minor_version(context: Context, tensorflow_version: str) -> Problem | None:
    """A minor version later than that of any row, nightly builds included; its checks are left out."""
    rows = (row.version for row in context.matrix.data.tensorflow if row.package in ("tensorflow", "tf-nightly"))
    newest = max(map(Version, rows), default=None)
    try:
        have = Version(tensorflow_version)
    except ValueError:
        return None
    if newest is None or have.release[:2] <= newest.release[:2]:
        return None
    found = f"TensorFlow {tensorflow_version}", context.source("tensorflow.version")
    return Problem(
        cause="its CUDA, cuDNN, kernels and known bugs are not in the matrix; checks that need them are left out",
        evidence=(evidence(*found, f"{newest} or earlier", f"compat_matrix.yaml of {context.matrix.revision}"),),
        fixes=(Fix("Update tfgpu, whose matrix may have this release by then"),),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Releases with a bug that affects this machine, and packages that the index does not have.


KNOWN_BUG = finding(
    "tf.known-bug",
    layer="TensorFlow",
    severity=Severity.WARNING,
    title="This TensorFlow release has a known bug that affects this machine",
    # for a release that does not search its own CUDA; for one without kernels for the GPU
    explained_by=("cuda.lib-path", "cudnn.lib-path", "gpu.arch-*"),
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@KNOWN_BUG.sign
def bug_of_this_release(
    context: Context,
    release: Release,
    python_version: str | None = None,
    cards: tuple[Card, ...] | None = None,
    cudnn_release: CudnnRelease | None = None,
    cuda_sonames: tuple[Soname, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    cpu_flags: tuple[str, ...] | None = None,
) -> Problem | None:
    """The matrix has a bug of this release whose condition holds here."""
    if context.planned:
        return None  # bug_of_required_release knows what the files ask for beside it
    # NumPy and protobuf have findings of their own
    beside = {one.name: one.version for one in packages or () if one.name not in ("numpy", "protobuf")}
    off_path = in_state(cuda_sonames or (), "off path")
    issue = context.matrix.issue_for(
        release,
        python=python_version,
        compute_capabilities=[card.compute_capability for card in cards or ()],
        cudnn=cudnn_release.version if cudnn_release else None,
        extra=any(candidate.via == "pip wheel" for library in off_path for candidate in library.candidates),
        beside=beside,
        cpu_flags=cpu_flags or (),
    )
    if issue is None:
        return None
    version = value_or(context.facts.tensorflow.version, release.version)
    found = f"{release.package} {version}", context.source("tensorflow.version")
    return Problem(
        title=f"TensorFlow {release.version}: {issue.title}",
        cause=issue.symptom,
        evidence=(evidence(*found, "a release without this bug", issue.source),),
        fixes=without_bug(context, release, issue),
        severity=Severity(issue.severity),
        despite_verified=issue.affects == "run" and not issue.condition.extra,  # the extra's libraries were found then
        never_consequence=not (issue.condition.extra or _is_about_architecture(issue.condition)),
    )


@in_manifests(
    KNOWN_BUG,
    unless=("tf.package-removed", "tf.windows-native", "tf.cpu-build", "gpu.arch-too-new", "gpu.arch-too-old"),
)
def bug_of_required_release(view: PlannedEnvironment) -> Iterator[Problem]:
    """What will be installed has a bug in this environment."""
    row = view.release
    if row is None or view.conda:
        return
    issues = view.matrix.issues_for(
        row, python=view.python, compute_capabilities=view.target.capabilities, extra=view.extra
    )
    better = replacement(view) if view.tensorflow and row.extra else None
    nearest: tuple[Fix, ...] = ()
    if view.tensorflow and better and better != requirement(row):
        nearest = (write_tensorflow(view.tensorflow, better),)
    for issue in issues:
        if _concerns(view, issue):
            yield Problem(
                title=f"TensorFlow {row.version}: {issue.title}",
                cause=issue.symptom,
                evidence=(Evidence(f"TensorFlow {row.version}", view.where, "another release", issue.source),),
                fixes=(*nearest, Fix(issue.fix, issue.commands)),
                severity=Severity(issue.severity),
            )


def _is_about_architecture(condition: Condition) -> bool:
    """Whether the bug is that there are no kernels for some GPUs."""
    return bool(condition.min_compute_capability or condition.max_compute_capability)


def _concerns(view: PlannedEnvironment, issue: KnownIssue) -> bool:
    """Whether it appears when the release is installed or run as planned; GPUs and NumPy have findings of their own."""
    condition = issue.condition
    if issue.severity not in ("error", "warning"):
        return False
    if _is_about_architecture(condition) or "numpy" in issue.id:
        return False
    if "libdevice" in issue.id and view.base and view.base.cuda:
        return False  # xla.libdevice-missing judges the image
    if issue.affects == "install":
        return bool(view.extra or not (condition.extra or "and-cuda" in issue.id))
    return issue.affects == "run" and bool(view.wants_gpu or not condition.extra)
