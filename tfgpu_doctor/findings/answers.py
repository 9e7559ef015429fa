"""Questions where nothing has failed, harmless lines, newer releases, known bugs."""

from __future__ import annotations

import re
from typing import Any

from packaging.version import Version

from tfgpu_doctor.facts.facts import Message, Packages, value_or
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.findings.declaration import (
    Context,
    Declaration,
    MessageLog,
    Problem,
    evidence,
    finding,
    message_evidence,
)
from tfgpu_doctor.findings.inputs import LIST_GPUS, Cards, Devices, Sonames
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.library_fixes import without_bug
from tfgpu_doctor.findings.symptoms import nothing_fails
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.matrix.schema import Condition, KnownIssue

DIFFER = finding(
    "cuda.versions-differ",
    layer="CUDA",
    severity=Severity.NOTE,
    answers=True,
    title="nvidia-smi and nvcc show different CUDA versions, and TensorFlow uses neither number",
    pointless_after=("cuda.version-mismatch", "cuda.missing", "cuda.lib-path", "driver.too-old"),
    docs="https://docs.nvidia.com/deploy/cuda-compatibility/",
)


@DIFFER.sign()
def asked_about(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """Somebody compares the two numbers in a sentence."""
    found = messages.first("cuda-versions-compared")
    if context.probed or found is None:
        return None
    known = f", CUDA {minor(release.cuda)}" if release and release.cuda else ""
    if supported := found.values.get("supported"):
        return Problem(
            title=f"A driver that supports CUDA {supported} runs TensorFlow built for {found.values['needed']}, too",
            cause="nvidia-smi shows the newest CUDA that the driver supports; it runs older ones as well",
            evidence=message_evidence(found),
            fixes=(Fix("Keep the driver; see whether TensorFlow finds the CUDA that it loads", ("tfgpu doctor",)),),
        )
    return Problem(
        cause="nvidia-smi shows the newest CUDA that the driver supports, nvcc the toolkit on PATH; they may differ. "
        f"TensorFlow loads the CUDA that it was built for{known}, from pip's packages or from where the loader finds "
        "it; from a toolkit it uses at most ptxas and libdevice",
        evidence=message_evidence(found),
        fixes=(Fix("Change neither; see which CUDA TensorFlow loads, and whether it finds it", ("tfgpu doctor",)),),
    )


WHICH = finding(
    "tf.which-release",
    layer="TensorFlow",
    severity=Severity.NOTE,
    answers=True,
    title="Which TensorFlow, CUDA, cuDNN and Python work together",
    cause="a release runs with the CUDA and cuDNN that it was built for, on the GPUs that it has kernels for",
    pointless_after=("cuda.versions-differ", "perf.*"),
    docs="https://www.tensorflow.org/install/source#gpu",
)
# its sign is plan's: plan/diagnosis.py


def _answer(finding_id: str, about: dict[str, tuple[Any, ...]], *fixes: Fix, **texts: Any) -> Declaration:
    """Declare the answer to questions about something, each with a title and a fix of its own, or those of the finding.

    It is given where somebody asks, and nothing in the text fails.
    """
    declared = finding(finding_id, severity=Severity.NOTE, answers=True, **texts)

    @declared.sign()
    def asked(context: Context, messages: MessageLog, devices: Devices | None = None) -> Problem | None:
        found = next((one for one in messages.all("question") if one.values["about"] in about), None)
        if context.probed or found is None or not _is_open(found, messages, devices):
            return None
        topic = found.values["about"]
        served = f"server-{topic}" if messages.has("serving") else topic
        title, *own = about.get(served, about[topic]) or (None,)
        idle, seen = messages.has("low-utilization"), message_evidence(found)
        return Problem(title=title, evidence=seen, fixes=(*own,) or fixes, rank_first=True, answers=idle)

    return declared


def _is_open(found: Message, messages: MessageLog, devices: Devices | None) -> bool:
    """Whether nothing in the text has to be answered before the question, or answers it."""
    about = found.values["about"]
    raised = messages.has("traceback", "exception") and found.values.get("trouble") == "yes"
    if raised or messages.has(_ANSWERED_BY.get(about, "")):
        return False
    if about == "cpu" and (not messages.complains or messages.has("wants-cpu")):  # which is no failure then
        return True
    if about not in ("load", "several") or not messages.has("low-utilization"):
        return nothing_fails(messages, devices)
    # a low load is what is asked about, by a graph without CUDA, or of GPUs that a program leaves idle
    others = messages.has("slow", "time-on-both", "input-bottleneck", "cpu-busy", "small-model", "small-batch")
    return messages.speaks_only_of("low-utilization") and not others and devices != ()


_ANSWERED_BY = {"in-use": "gpu-created", "enable": "gpu-created", "memory": "memory-grows"}
_OWN_IMAGE = Fix(
    "Build an image on one that has CUDA and cuDNN (tensorflow/tensorflow:latest-gpu, or nvidia/cuda with cudnn in its "
    "tag), without a driver; on the host, see whether the driver is new enough for that CUDA",
    ("nvidia-smi",),
)


TOOLKIT = _answer(
    "cuda.toolkit-not-needed",
    {
        "toolkit": (),
        "container": ("CUDA and cuDNN belong into the image, the NVIDIA driver on the host alone", _OWN_IMAGE),
    },
    Fix("Install no toolkit; see whether the driver is new enough for the CUDA that is used", ("nvidia-smi",)),
    layer="CUDA",
    title="The CUDA toolkit is not needed beside CUDA libraries from pip, conda or an image",
    cause="pip's tensorflow[and-cuda], conda's cudatoolkit and cudnn, and TensorFlow's images bring the libraries that "
    "TensorFlow loads; of the system, in a container of the host, it needs the NVIDIA driver alone, and an installed "
    "toolkit may be of any version, or missing",
    docs="https://www.tensorflow.org/install/pip",
)
# https://devblogs.microsoft.com/directx/gpus-in-the-task-manager
_GRAPH = Fix("Instead of 3D, Copy and Video choose its graph Cuda, or see GPU-Util of", ("nvidia-smi",))
IN_USE = _answer(
    "gpu.usage-unknown",
    {"in-use": (), "enable": (), "load": ("Windows' Task Manager leaves CUDA out of its first graphs", _GRAPH)},
    Fix("List the GPUs that TensorFlow sees (TensorFlow 1: tf.test.is_gpu_available())", (LIST_GPUS,)),
    Fix("If the list is empty, find out why", ("tfgpu doctor",)),
    # NVIDIA, "CUDA on WSL User Guide", known limitations; in a container, processes have numbers of their own
    Fix(
        "Watch the GPU while the program runs: GPU-Util, its power and its memory in use show it, and its processes, "
        "which in WSL2 and in a container are not listed",
        ("nvidia-smi",),
    ),
    layer="GPU",
    title="TensorFlow uses a GPU without being told to, where it lists one",
    cause="a program of TensorFlow needs no change to use one GPU; several work only where its code shares work out. "
    'TensorFlow logs "Created device ... GPU:0" when it uses it, "Could not load dynamic library" or "Skipping '
    'registering GPU devices" when it does not',
    docs="https://www.tensorflow.org/guide/gpu",
)
_ON_CPU = (
    "Without a GPU, or with CUDA_VISIBLE_DEVICES=-1, TensorFlow computes on the CPU; without CUDA, 1.x needs the "
    "package tensorflow, as its tensorflow-gpu cannot be imported"
)
_HIDE = Fix(
    "Without an NVIDIA GPU, install the package tensorflow where a guide names tensorflow-gpu, of the same release, "
    "and neither CUDA nor cuDNN; beside a GPU, hide it before the program starts: CUDA_VISIBLE_DEVICES=-1"
)
CHOICE = _answer(
    "gpu.choice",
    {"choice": (), "cpu": (_ON_CPU, _HIDE)},
    Fix("Set CUDA_VISIBLE_DEVICES before the program starts: 1 is the second GPU, 0,1 are the first two, -1 is none"),
    layer="GPU",
    title="CUDA_VISIBLE_DEVICES chooses the GPUs of a program",
    cause="TensorFlow numbers the GPUs that the variable leaves from GPU:0, uses the first, and computes on the CPU "
    "where there is none; a program needs a change only where its code names devices or sets this variable itself",
    docs="https://www.tensorflow.org/guide/gpu",
)
SEVERAL = _answer(
    "gpu.several",
    {"several": ()},
    Fix(
        "In TensorFlow 2, build and compile the model under a strategy; its batch is that of all GPUs together: "
        "with tf.distribute.MirroredStrategy().scope():"
    ),
    Fix("For inference, or a program that stays as it is: a process for each GPU (CUDA_VISIBLE_DEVICES=0, =1 ...)"),
    Fix("See whether the GPUs of this machine scale", ("tfgpu bench cnn --gpus 2",)),
    layer="GPU",
    title="A program uses one GPU, unless its code spreads the work over several",
    cause="TensorFlow places a model on GPU:0, and of the others it only reserves the memory; a strategy of "
    "tf.distribute, or Horovod, splits each batch among them. What a finished program does, its documentation says",
    docs="https://www.tensorflow.org/guide/distributed_training",
)
_OF_A_SERVER = Fix(
    "Give tensorflow_model_server its share, in docker run behind the name of the image: "
    "--per_process_gpu_memory_fraction=0.5; or let it grow with TF_FORCE_GPU_ALLOW_GROWTH=true, in docker run after -e"
)
SHARE = _answer(
    "memory.limit",
    {"memory": (), "server-memory": ("TensorFlow Serving takes nearly all memory of a GPU", _OF_A_SERVER)},
    Fix("Let TensorFlow take memory as it needs it: set TF_FORCE_GPU_ALLOW_GROWTH=true before the program starts"),
    Alternative(
        "Set a limit before the first GPU operation: in TensorFlow 2 in MiB, tf.config.set_logical_device_configuration"
        "(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4096)]), in TensorFlow 1 as a share, "
        "tf.GPUOptions(per_process_gpu_memory_fraction=0.3)"
    ),
    layer="GPU",
    title="TensorFlow takes nearly all memory of a GPU at its start, unless it is told otherwise",
    cause="it shares out the memory itself, and never gives it back; a limit is for a process, not a model",
    docs="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
)
FIRST_RUN = _answer(
    "perf.first-run",
    {"first-run": ()},
    Fix("Run one step before you measure, and leave it out; keep shapes the same, so that it stays the only one"),
    layer="Compute",
    pointless_after=("gpu.arch-too-new",),
    title="The first run is slower than all others: TensorFlow prepares the GPU in it",
    cause="in the first run CUDA is initialised and cuDNN measures its algorithms for each shape; only a first run of "
    "many minutes shows a fault: a GPU that is newer than the build",
    docs="https://www.tensorflow.org/guide/profiler",
)


# kind of a line that needs no action where the rest of the text says so → what it says
_MEANING_BESIDE = {
    "ngc-banner": "the image's start script does not find the driver of WSL2, which is elsewhere; newer tags do",
}
# kind of a log line that needs no action → what it says, for people
MEANING = {
    "numa": "the firmware gives no NUMA node for the GPU; TensorFlow takes node 0",
    "cpu-features": "TensorFlow names instructions of this CPU that its build does not use everywhere",
    "protobuf-factory": "TensorFlow 2.13 to 2.19 go on without what protobuf 6 has no longer; protobuf<5 is silent",
    "protobuf-gencode": "protobuf supports code of one major version before its own",
    # open-mpi/ompi issue 4948; Horovod's docs/docker.rst
    "mpi-copies": "in a container Open MPI may not read another process's memory (docker run --cap-add=SYS_PTRACE "
    "lets it), and copies in another way",
    "onednn": "TensorFlow uses oneDNN on the CPU; results may differ in the last digits",
    "factory": "CUDA's plugins are registered twice while TensorFlow is imported; the second attempt is ignored",
    "absl-init": "TensorFlow writes to standard error before its logging is set up",
    "tensorrt-warning": "TensorRT is an optional extra; without it TF-TRT is off and nothing else changes",
    "driver-version-on-windows": "on Windows TensorFlow cannot read the driver's version, and does not need it",
    "graph-pass": "a graph optimisation was not applied",
    "interconnect": "how the devices are connected with each other",
    "end-of-data": "a dataset came to its end",
    "allocation-hint": "an allocation was refused and made otherwise, which costs speed at most; a smaller batch "
    "avoids it",
    "pool": "TensorFlow tells how it uses its pool of memory for copies between CPU and GPU",
    "host-allocation": "a large part of the machine's memory is allocated at once",
    "xla-ready": "XLA, TensorFlow's compiler, is ready",
    "autograph": "a function is run as it stands instead of as a graph",
    "profiler": "the profiler may not read the GPU's counters without permission",
    "deprecated": "a function will go away in a later release",
    "no-peer-access": "these GPUs cannot reach each other directly; TensorFlow copies through the host",
    "ptx-in-sequence": "the driver is older than the compiler, so that XLA compiles one kernel at a time",
    "ptx-by-driver": "on Windows the driver compiles what TensorFlow would give to ptxas elsewhere",
    "growth-by-variable": "TF_FORCE_GPU_ALLOW_GROWTH is set, and memory is taken as needed",
    "spills": "a kernel keeps some values in memory instead of registers; it costs speed at most",
    "tf32": "TensorFloat-32 is used for float32 matrix products",
    "weak-gpu-left-out": "a second, weaker GPU is left out on purpose",
    "timer": "a measurement of a kernel timed out; another one is taken",
    "plugin": "a device plugin was registered",
    "autotuning": "XLA tries and compiles kernels in the first steps, and says that one of them takes its time",
}


_PYTHONS = ("ValueError", "TypeError", "KeyError", "IndexError", "NameError", "FileNotFoundError")
_ENDED = dict.fromkeys(_PYTHONS, "What ends this is an error of the program itself") | {
    "job-ended": "Slurm ended the job"
}
_WITHOUT_A_GPU = "nothing: TensorFlow finds no CUDA, or no GPU, and computes on the CPU"
# when, how grave and where a program or Python's module warnings logged a sentence
_LOGGED = re.compile(r"^.{0,300}?\.(?:cc|cpp|h|py):\d+(?:\]|: (?=\w+Warning))[ .:]*")
_LEVEL = re.compile(r"(?:^|[\s:*`\"'(>])([IWE])(?:\d{4} [\d:.]+ +\d+)? ?(?=\S+\.(?:cc|cpp|h):\d+\])")
_LEVELS = "IWE"  # TF_CPP_MIN_LOG_LEVEL hides as many of them
# where a text quotes the sentence alone: TensorFlow's level for it, if it is not I
_KNOWN_LEVEL = dict.fromkeys(("tensorrt-warning", "allocation-hint", "ptx-by-driver", "library-not-opened"), "W")
_KNOWN_LEVEL |= dict.fromkeys(("factory", "cuinit-failed"), "E")


def _brief(message: Message, need: str) -> Evidence:
    """The sentence without the time and the file before it, long enough to find it again."""
    return Evidence(cut(_LOGGED.sub("", message.text), 90), f"line {message.line}", need)


def _how_to_hide(messages: list[Message]) -> Fix:
    """What hides these lines, with everything of their level."""
    if {message.values.get("what") for message in messages} <= {"mpi-copies", "ngc-banner"}:  # no line of TensorFlow's
        return Fix("Nothing has to be done")
    text = "Nothing has to be done. To hide lines of this level, set the variable before TensorFlow is imported"
    if {message.values.get("what") for message in messages} == {"deprecated"}:
        return Fix(text.replace("lines of this level", "what Python warns of"), ("export PYTHONWARNINGS=ignore",))
    logged = ((one, _LEVEL.search(one.text)) for one in messages)
    levels = (at[1] if at else _KNOWN_LEVEL.get(one.values.get("what", one.kind), "I") for one, at in logged)
    level = max(1 + _LEVELS.index(one) for one in levels)
    tail = ", which hides the reasons of failures, too" if level == len(_LEVELS) else ""
    return Fix(f"{text}{tail}", (f"export TF_CPP_MIN_LOG_LEVEL={level}",))


def _meanings(messages: list[Message]) -> tuple[Evidence, ...]:
    """A line of evidence for each kind of message, however often it was printed."""
    kinds: dict[str, Message] = {}
    for message in messages:
        kinds.setdefault(message.values["what"], message)
    meaning = MEANING | _MEANING_BESIDE
    return tuple(_brief(message, f"nothing: {meaning[what]}") for what, message in kinds.items())


def _missed(messages: MessageLog) -> list[Message]:
    """Lines about a missing GPU that somebody wants hidden."""
    lines = messages.all("library-not-opened", "cudart-not-found", "cuinit-failed")
    return [one for one in lines if messages.only_disturbs and "nvinfer" not in one.text]


MISSING_BENIGN = finding(
    "tensorrt.missing-benign",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="TensorRT is not installed, and not needed",
    docs="https://docs.nvidia.com/deeplearning/frameworks/tf-trt-user-guide/index.html",
    cause="only programs that convert models with TF-TRT need it; TensorFlow uses GPUs without it",
)


@MISSING_BENIGN.sign()
def tensorrt_warning(context: Context, messages: MessageLog) -> Problem | None:
    """TF-TRT is optional."""
    lines = messages.all("harmless")
    found = [m for m in lines if m.values["what"] == "tensorrt-warning"]
    alone = len(found) == len(lines) and not _missed(messages)  # else those of benign.log are hidden with them
    fixes = (_how_to_hide(found),) if found and alone else ()
    return Problem(evidence=_meanings(found), fixes=fixes) if found and not context.probed else None


_PRINT_KERAS = 'python -c "import tensorflow as tf; print(tf.keras.__version__)"'

LOG = finding(
    "benign.log",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="Harmless log lines",
    docs="https://www.tensorflow.org/install/errors",
    cause="TensorFlow prints these on machines that work; TF_CPP_MIN_LOG_LEVEL=1 hides most of them",
)


def _of_cupti(messages: MessageLog, one: Message) -> bool:
    """Whether it is the library of the profiler that somebody misses."""
    refused = one.line in [other.line for other in messages.all("library-not-opened")]
    return messages.troubled and refused and one.values["what"] == "profiler"


@LOG.sign()
def harmless_lines(context: Context, messages: MessageLog) -> Problem | None:
    """Lines that need no action."""
    if context.probed:
        return None
    lines = [m for m in messages.all("harmless") if m not in messages.raised_by_protobuf and not _of_cupti(messages, m)]
    found, missed = [m for m in lines if m.values["what"] != "tensorrt-warning"], _missed(messages)
    if not (found or missed):
        return None
    first = any(m.values["what"] == "factory" for m in found)  # it looks like an error: TensorFlow logs it with an E
    seen = (*(_brief(one, _WITHOUT_A_GPU) for one in missed[:1]), *_meanings(found))
    fixes = (_how_to_hide([*missed, *lines]),)
    banner = any(m.values["what"] == "ngc-banner" for m in found)
    return Problem(evidence=seen, fixes=fixes, rank_first=first or bool(missed), answers=bool(missed) or banner)


@LOG.sign()
def without_a_failure(context: Context, messages: MessageLog) -> Problem | None:
    """A text without any failure, in which a GPU is in use."""
    created = None if messages.troubled else messages.first("gpu-created")
    if context.probed or created is None:
        return None
    if ended := messages.first("job-ended", "exception"):
        title = _ENDED.get(ended.values.get("type", ended.kind))
        return Problem(title=title, cause="a GPU was in use", evidence=message_evidence(ended)) if title else None
    seen = (_brief(created, "this: TensorFlow created the device"),)
    return Problem(title="No line of this text shows a failure", cause="a GPU is in use", evidence=seen)


@LOG.sign()
def unresolved_by_an_editor(context: Context, messages: MessageLog) -> Problem | None:
    """An editor does not find a module, and no run of a program is told to fail."""
    if context.probed or messages.complains:
        return None
    return Problem(
        title="The editor warns of an import that it does not find; it has not run anything",
        cause="TensorFlow makes tensorflow.keras when it is used, and an editor looks for files, or in another Python",
        evidence=message_evidence(messages.first("editor-unresolved")),
        fixes=(
            Fix("If this prints a version there, nothing has to be done", (_PRINT_KERAS,)),
            Fix("Choose that Python in the editor (VS Code: Python: Select Interpreter), which finds the rest"),
        ),
        rank_first=True,
        answers=True,
    )


NEWER = finding(
    "tf.newer-than-matrix",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="This TensorFlow is newer than the compatibility matrix",
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@NEWER.sign()
def newer_minor_version(context: Context, tensorflow_version: str) -> Problem | None:
    """A minor version later than that of any row, nightly builds included; its checks are left out."""
    rows = (row.version for row in context.matrix.data.tensorflow if row.package in ("tensorflow", "tf-nightly"))
    newest = max(map(Version, rows), default=None)
    have = Version(tensorflow_version)
    if newest is None or have.release[:2] <= newest.release[:2]:
        return None
    found = f"TensorFlow {tensorflow_version}", context.source("tensorflow.version")
    return Problem(
        cause="its CUDA, cuDNN, kernels and known bugs are not in the matrix; checks that need them are left out",
        evidence=(evidence(*found, f"{newest} or earlier", f"compat_matrix.yaml of {context.matrix.revision}"),),
        fixes=(Fix("Update tfgpu, whose matrix may have this release by then"),),
    )


KNOWN_BUG = finding(
    "tf.known-bug",
    layer="TensorFlow",
    severity=Severity.WARNING,
    title="This TensorFlow release has a known bug that affects this machine",
    # for a release that does not search its own CUDA; for one without kernels for the GPU
    explained_by=("cuda.lib-path", "cudnn.lib-path", "gpu.arch-*"),
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@KNOWN_BUG.sign()
def shim_not_published(context: Context, messages: MessageLog) -> Problem | None:
    """Poetry resolves for all systems, Windows too, whose package of that version was never published."""
    missing = messages.all("shim-not-published")
    version = Version(missing[0].values["version"]) if missing else None
    row = context.matrix.tensorflow(f"{minor(str(version))}.{version.micro + 1}", "windows_amd64") if version else None
    if version is None or row is None:
        return None
    return Problem(
        title=f"TensorFlow {version} requires a tensorflow-intel that was never published",
        cause="Poetry resolves for all systems, and so needs the package of Windows on Linux, too",
        evidence=message_evidence(*missing),
        fixes=(
            Fix(f"Require {row.version}, which has all of its packages", (f"poetry add tensorflow=={row.version}",)),
        ),
        severity=Severity.ERROR,
        sure=True,
    )


@KNOWN_BUG.sign()
def bug_of_this_release(
    context: Context,
    release: Release,
    python_version: str | None = None,
    cards: Cards | None = None,
    cudnn_release: CudnnRelease | None = None,
    cuda_sonames: Sonames | None = None,
    packages: Packages | None = None,
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
        driver=value_or(context.facts.driver.version, None),
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
        severity=_gravity(context, issue),
        despite_verified=_shows_later(issue),
        never_consequence=not (issue.condition.extra or is_about_architecture(issue.condition)),
    )


def _shows_later(issue: KnownIssue) -> bool:
    """Whether it can follow where the GPU works: not where the libraries were not found, or cuDNN would not start."""
    return issue.affects == "run" and not (issue.condition.extra or issue.condition.driver)


def _gravity(context: Context, issue: KnownIssue) -> Severity:
    """As the matrix has it; an error where the log shows that its cuDNN fails."""
    fails = issue.condition.cudnn and context.log.has("no-dnn-library", "cudnn-handle")
    return Severity.ERROR if fails else Severity(issue.severity)


def is_about_architecture(condition: Condition) -> bool:
    """Whether the bug is that there are no kernels for some GPUs."""
    return bool(condition.min_compute_capability or condition.max_compute_capability)
