"""What was done around a failure, in the form of messages: how a container was started, what was installed where."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from tfgpu_doctor.facts import distributions
from tfgpu_doctor.facts.facts import NOT_IN_TEXT, Known, Message, lists_gpu
from tfgpu_doctor.facts.versions import at_least, minor
from tfgpu_doctor.parsers import platform_hints, prose
from tfgpu_doctor.parsers.lines import any_case
from tfgpu_doctor.parsers.machine_facts import NAMES_TENSORFLOW, OTHER_FRAMEWORK, devices, first_said, said_to_work
from tfgpu_doctor.parsers.parsed_text import ParsedText
from tfgpu_doctor.parsers.resemblance import SUBJECT

# TensorFlow's log gives its age away by the folder of the file that speaks, and with it the CUDA of its wheels:
# tensorflow/tsl 2.11 to 2.14, external/local_tsl and local_xla 2.15 to 2.19, no folder from 2.20 on
_ERAS = (
    ("12", re.compile(r"external/local_(?:tsl|xla)/|\b[EWI]0000 00:00:\d+(?:\.\d+)? +(?:\d+ )?\w+\.cc:")),
    ("11", re.compile(r"tensorflow/tsl/|tensorflow/compiler/xla/stream_executor/cuda/")),
)
_CONDA_VARIANT = re.compile(r"(?P<cpu>mkl|eigen|cpu)|(?P<gpu>gpu|cuda)")
_FIRST_OF_CONDA_FORGE = "2.6"  # with CUDA: tensorflow-feedstock, issue 10 and pull request 157
# a distribution's packages with the driver's libraries or its kernel module (not nvidia-container-toolkit)
_LINUX_DRIVER = any_case(
    r"\b(?:apt-get|apt|aptitude|dnf|yum|zypper)(?: +-[\w-]{1,31}){0,9} +install\b[^\n;&|`#>]{0,200}[ \"']"
    r"(?:nvidia-(?:driver|dkms|kernel|utils|\d{3})|libnvidia-|cuda-drivers|cuda(?:-\d+-\d+)?(?![\w-]))"
    r"|\binstall\w*\b[^.?!]{0,60}\b(?:nvidia|linux) drivers?\b[^.?!]{0,60}\b(?:inside|within|with apt|apt-get)\b"
    r"|\bnvidia-driver-\d{3}\b",
)
# the lines with which a job asks Slurm for anything, and those that ask for a GPU
_LOGIN_NODE = re.compile(r"@login[\w-]*[ :~\]]|(?:for host|hostname): login")
_OF_SLURM = any_case(r"\b(?:sinfo|squeue|sbatch|srun|salloc|slurm)\b")
_SLURM = re.compile(r"^\s*#SBATCH\b|(?:^|[$#>%`] ?)(?:srun|salloc)\b.*\s-(?:-pty|-partition|p|-mem|n|N|c|-time|t|A)\b")
_OF_SLURM_A_GPU = re.compile(r"--gres|--gpus|\s-G\b|--tres\S{0,60}gpu")
_GRANTED = re.compile(r"gres[/:]gpu|TresPerNode=.*gpu|SLURM_JOB_GPUS=\d|SLURM_GPUS\w*=\d")
_LOG_IN_A_SENTENCE = re.compile(r"\b[EWI] (?:tensorflow|external)/|\b[EWI]0000 \d\d:")
_NOTEBOOK = any_case(
    r"\bjupyter\b|\bnotebook\b|\bipykernel\b|In ?\[\d*\]:|<ipython-input|\bkernelspec\b|\bspyder\b"
    r"|\bpycharm\b|\bvs ?code\b"
)
_FROM_SOURCE = any_case(r"(?:from |built from |compiled from )?sources?\b(?! *(?:or|/|and) *bin).{0,40}")
_MADE_TO_USE = any_case(
    r"\bhow (?:do|can|could|would|should|to)\b[^.?!]{0,20}\b(?:get|make|let|force|tell)\b[^.?!]{0,30}"
    r"\b(?:us(?:e|ing)|see|find|detect|recogni[sz]e)\b[^.?!]{0,15}\bgpu"
)
_PACKAGED = any_case(r"(?:pip3?|conda|virtualenv|venv|anaconda)\b.{0,40}")
_BUILT_BY_USER = any_case(
    r"(?<!if )\b(?:built|compiled)(?: it| tensorflow| tf)? (?:locally )?from (?:the )?sources?\b"
    r"|bazel-bin/tensorflow/tools/pip_package|//tensorflow/tools/pip_package:"
)
_PYTORCH = any_case(r"\btorch\b|pytorch")
_RAISED_BY_JAX = re.compile(r"\b(?:jaxlib|xla_extension|XlaRuntimeError|JaxRuntimeError)\b")
# a program that is linked to CUDA says so; Python opens libraries, and says it in an ImportError
_NATIVE = re.compile(  # or a binding of another language
    r"error while loading shared libraries: lib(?:cu|nv)|\b(?:TensorFlow\.NET|TensorFlowSharp|SciSharp|ML\.NET|Fiji)\b"
    r"|\busing (?:\w+ = )?Tensorflow[.;]|\b[Tt][FJfj]{2}[Ss][ -](?:node|gpu)\b|\blibtensorflow(?:_cc)?\b(?!-)"
    r"|\borg\.tensorflow\b|\btensorflow/tensorflow/go\b|\bdeeplearning4j\b|^tensorflow = \"0\.\d"
)
# failures that every program prints in these words
_OF_ANY_PROGRAM = ("illegal-instruction", "no-kernel-image", "kernel-image-invalid", "invalid-device-function")
_JETSON = any_case(
    r"\bjetson (?:nano|tx[12]|agx|orin|xavier)\b|\bnano(?:['’]?s)? (?:gpu|board|module|developer)|\bjetpack\b"
    r"|\bdrive[- ](?:px ?2?|agx|orin|xavier)\b|\bjtop\b|\btegrastats\b|\bnvpmodel\b|@tegra-|\btegra x[12]\b"
    r"|\btx-?[12]\b|\bthe nano\b(?! editor)|\bnvidia (?:xavier|orin)\b|\b(?:agx|nx) (?:xavier|orin)\b"
    r"|\b(?:xavier|orin) (?:agx|nx)\b|\w@(?:[\w-]*-)?(?:jetson|xavier|orin|nano)\b[\w-]*[: ]"
)
_JETPACK = any_case(r"\b(?:jetpack|jp)[ _-]*(?P<version>[4-9](?:\.\d){1,2}|[4-9]\d)\b")
# TensorFlow.js, its crate of Rust, TensorFlow.NET and the API of C have libraries of their own
_NOT_PYTHON = any_case(
    r"^\W{0,4}cargo (?:b|build|run|test|add)\b|\btensorflow-sys\b|\bTensorFlow\.NET\b|\bSciSharp\.|@tensorflow/tfjs"
    r"|\bTF_(?:SessionRun|NewSession|LoadSessionFromSavedModel) ?\(|\bbackend was already registered\b"
)
_PYTHON = any_case(r"\bimport tensorflow|-packages\b|\bpip3? install|\.py\b|\bpython\d?(?:\.\d+)?(?: version)?:")
_HOSTED = any_case(
    r"\bwhat web browser\b"  # of Colab's issue form
    r"|^\W{0,4}(?:(?:in|on|using) )?(?:google )?colab(?: notebook|[,:;(]|\s*$)|\bkaggle (?:notebook|kernel|session)s?\b"
    r"|(?<![\w.-])/content/|/kaggle/(?:input|working)\b|\bcolab[\w-]{0,40}\.ipynb\b|\bgoogle\.colab\b|\"gpuType\""
    r"|\bcolab (?:pro|tpu|runtime|session|has|comes with|provides|tensorflow|crash\w*|fails)\b"
    r"|\bcolab (?:says|shows|does|file)\b|\b(?:by|from) google colab\b|\bbug report for colab\b|\bcolabnotebook for\b"
    r"|^(?!.*\b(?:works?|locally|local|own|laptop|pc)\b).*\b(?:my|i use|(?:in|on) a) (?:google )?colab\b"
    r"|\brun(?:ning)? (?:the|this) colab\b|\bthe colab (?:jupyter|kernel)\b"
    r"|^google colab -|^colab (?:is giving|using)\b|\bgpu with colab\b|\bgoogle colab (?:was )?updated?\b"
    r"|(?:\b(?:run|runs|running|ran|train|training|execute|work|example)\b.{0,60}"
    r"\b(?:in|on|with)|^(?!.{0,200}\b(?:works?|fine)\b).{0,60}\b(?:in|on|using)) (?:google )?(?:colab|kaggle)\b"
    r"(?!.{0,80}\b(?:works?|fine|but|without|success\w*|no (?:problem|error)s?|locally"
    r"|my (?:own )?(?:server|laptop|pc|machine|computer|desktop|workstation))\b)"
)
_COLAB, _CELL = any_case(r"\bcolab\b"), re.compile(r"^\s*[!%](?:pip|cd|env|apt|tensorflow_version)\b")
# Colab's first example of a GPU, run in a cell
_COLABS_EXAMPLE = re.compile(r"^-+> \d+ +raise SystemError\('GPU device not found'\)")
_EXPLICIT = re.compile(r"explicit device specification '\S{0,60}(?P<asked>GPU:\d+)'")
_ALL_AVAILABLE = re.compile(r"^\s*All available devices \[(?P<devices>[^\]]{0,2000}device:GPU:\d[^\]]{0,500})\]")
_PRIME = re.compile(r"\bprime-select query\s*$")
_PRINTED_VERSION = re.compile(r"(?:Out\[\d{1,4}\]: )?['\"(]*[\d.]+(?:rc\d+)?['\")]*")
# lines that programs print, beside those of prose.is_sentence: TensorFlow's log, training, this program, pip, a shell
_PRINTED = re.compile(
    r"WARNING: All log messages before absl|To enable (?:the following|them in)|Skipping registering GPU|tfgpu: "
    r"|If the cause is memory fragmentation|Current allocation summary follows|\[.{0,200}\]$"
    r"|(?:Limit|InUse|MaxInUse|NumAllocs|MaxAllocSize|Reserved|PeakReserved|LargestFreeBlock): |Epoch \d+/\d+$"
    r"|\d+/(?:\d+|Unknown) \S*[=━]|Package +Version|[\w.-]+ +\d[\w.]*(?: +\S+)?$|[-= ]+$"
    r"|(?:\([^()\n]{1,40}\) ?)?\S{0,80}[$#>%] |(?:bash|sh|zsh|ls|cat): |\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d"
)
_LOG_BEGINS = re.compile(r"[IWEF\d][\d.: -]{0,60}(?:[IWEF] )?[\w/.]{0,120}(?::\d{0,6})?")  # of a line that is cut off
_NONE = any_case(r"(?:none|no gpus?)\b.{0,20}")  # of a form, unlike "N/A", which says nothing
_SENTENCES = ("WARNING: All log messages before", "To enable the following", "Skipping registering GPU", "tfgpu: ")
_FEW = 20  # words
_WORD = re.compile(r"[A-Za-z0-9_.']+|[^\x00-\x7f]")
_ANSWER_WITHIN = 3  # lines between the question for the version and the answer
# what an installer says → the kind of message, and the fields of the event that it has
_ANY_PACKAGE = ("externally-managed", "conda-unsatisfiable", "unresolvable", "conda-no-provider")  # else TensorFlow's
_FAMILY = ("tensorflow", "tf-nightly", "tf-keras", "keras", "tensorboard", "nvidia-tensorflow")
_NAMED = {"package": "name", "version": "version"}
_EVENTS: dict[str, tuple[str, dict[str, str]]] = {
    "no-version": ("no-distribution", {"requirement": "requirement"}),
    "no-match": ("no-distribution", {"requirement": "requirement"}),
    "wheel-refused": ("wheel-not-supported", {**_NAMED, "tags": "tags"}),
    "uv-no-wheels": ("no-distribution", _NAMED),
    "no-extra": ("no-such-extra", _NAMED),
    "removed": ("package-removed", _NAMED),
    "build-failed": ("build-failed", _NAMED),
    "conflict": (
        "requirement-conflict",
        {**_NAMED, "need": "requirement", "other": "other", "has": "other_version"},
    ),
    "installed": ("tensorflow-installed", _NAMED),
    "satisfied": ("tensorflow-installed", _NAMED),
    "externally-managed": ("externally-managed", {}),
    "conda-unsatisfiable": ("conda-unsatisfiable", {}),
    "unresolvable": ("conda-unsatisfiable", {}),
    "conda-no-provider": ("conda-unsatisfiable", {}),
    "conda-no-driver": ("conda-sees-no-driver", {}),
}


def derived_messages(text: ParsedText) -> Iterator[Message]:
    """What was done around the failure, as messages; their roles stand in parsers/messages.py."""
    for read in (
        *(
            _of_container,
            _of_commands,
            _of_installers,
            _of_packages,
            _of_patterns,
            _of_places,
            _source_build,
            _other_versions,
        ),
        *(_works_before_avx, _of_tensorflow, _no_gpu_listed, _of_another_program, _without_gpu, _nobody_complains),
    ):
        yield from read(text)


def _message(text: ParsedText, kind: str, line: int, **values: str) -> Message:
    return Message(kind, line, text.text_of(line), values)


def _nobody_complains(text: ParsedText) -> Iterator[Message]:
    """All lines are what programs print, the last perhaps cut off; or these are a few words, which ask nothing."""
    *lines, last = [line.text.strip() for line in text.lines if line.text.strip()] or [""]
    whole = " ".join((*lines[:_FEW], last))
    if not SUBJECT.search(whole.lower()):
        return
    is_cut = _LOG_BEGINS.fullmatch(last) is not None or any(one.startswith(last) for one in _SENTENCES)
    if all(map(_is_printed, lines)) and (_is_printed(last) or (lines and is_cut)):
        yield _message(text, "only-printed", 1)
    if len(lines) < _FEW and len(_WORD.findall(whole)) < _FEW and not re.search(r"[?？]", whole):
        yield _message(text, "few-words", 1)


def _is_printed(line: str) -> bool:
    """Whether a program printed it, and not as a part of a traceback, which complains."""
    return not line.startswith('File "') and (_PRINTED.match(line) is not None or not prose.is_sentence(line))


def _of_container(text: ParsedText) -> Iterator[Message]:
    hints = text.hints
    for line, asked in hints.starts:
        yield _message(text, "container-start", line, gpus="yes" if asked else "no")
    if hints.image and hints.image_line:
        yield _message(text, "image-named", hints.image_line, image=hints.image)
    for kind, found in (("image-build", hints.building), ("hides-every-gpu", hints.hides_all)):
        if found:
            yield _message(text, kind, found)


def _of_commands(text: ParsedText) -> Iterator[Message]:
    for one in text.libraries:
        if not one.found and one.via == "ldd":
            yield _message(text, "library-not-opened", one.line, library=one.soname)
    for asked, line in itertools.pairwise(text.lines):
        if _PRIME.search(asked.text) and line.text.strip() == "intel":
            yield _message(text, "module-not-loaded", line.number)
    for line in text.lines_with(" install") if text.hints.os == "wsl2" else ():
        if _LINUX_DRIVER.search(line.text):
            yield _message(text, "linux-driver-in-wsl", line.number)


def _of_patterns(text: ParsedText) -> Iterator[Message]:
    """The age of the log, another language, and the CUDA that somebody is told to have."""
    for cuda, pattern in _ERAS:
        if found := text.find(pattern):
            yield _message(text, "log-era", found[1], cuda=cuda)
            break
    if (found := text.find(_NOT_PYTHON)) and not text.find(_PYTHON):
        yield _message(text, "not-python", found[1])
    for one in text.prose:
        if one.key == "cuda" and one.stance == "wanted":
            yield _message(text, "cuda-wanted", one.line, version=one.value)


def _of_places(text: ParsedText) -> Iterator[Message]:
    """The board, a notebook, and where others decide."""
    for name, line in platform_hints.places(text.lines):
        yield _message(text, "place", line, name=name)
    if jetson := text.find(_JETSON):
        named = text.find(_JETPACK)
        yield _message(text, "jetson", jetson[1], **({"jetpack": named[0]["version"]} if named else {}))
    if notebook := text.find(_NOTEBOOK):
        yield _message(text, "notebook", notebook[1])
    # in a hosted notebook nobody starts a container
    hosted = text.find(_HOSTED) or text.find(_COLABS_EXAMPLE) or (text.find(_COLAB) and text.find(_CELL))
    if hosted and not text.hints.starts:
        yield _message(text, "hosted-notebook", hosted[1])


def _source_build(text: ParsedText) -> Iterator[Message]:
    """TensorFlow was compiled by its user: the form says so, or a sentence."""
    told = text.all_stated("install")
    from_wheel = any(_PACKAGED.fullmatch(one.value.strip()) for one in told)  # beside it, "source" is a slip
    built = [one.line for one in told if _FROM_SOURCE.fullmatch(one.value.strip()) and not from_wheel]
    if not built and (found := text.find(_BUILT_BY_USER)):
        built = [found[1]]
    if built:
        yield _message(text, "source-build", built[0])


def _other_versions(text: ParsedText) -> Iterator[Message]:
    """A second Python; TensorFlow that prints another release of itself than the list of packages has."""
    pythons = {minor(one.value): one for one in text.all_stated("python")}
    if len(pythons) > 1:
        yield _message(text, "other-environment", list(pythons.values())[-1].line)
    listed = {one.version for one in text.listed if one.name in distributions.TENSORFLOW}
    asked = [line.number for line in text.lines if "__version__" in line.text]
    for one in text.all_stated("tensorflow"):
        printed = _PRINTED_VERSION.fullmatch(one.raw) and any(0 < one.line - line <= _ANSWER_WITHIN for line in asked)
        if printed and len(listed) == 1 and minor(one.value) not in map(minor, listed):
            yield _message(text, "other-version-runs", one.line, version=one.value)


def _works_before_avx(text: ParsedText) -> Iterator[Message]:
    """A release of before 1.6, the first whose wheels use AVX, is said to work, and a later one is named."""
    works = said_to_work(text)
    named = (*text.all_stated("tensorflow"), *text.said("tensorflow"))
    if works and at_least(works[0], "1.6") is False and any(at_least(one.value, "1.6") for one in named):
        yield _message(text, "works-before-avx", works[1])


def _of_tensorflow(text: ParsedText) -> Iterator[Message]:
    for gpu in text.tensorflow.gpus:
        if gpu.created:
            values = {"capability": gpu.compute_capability} if gpu.compute_capability else {}
            yield _message(text, "gpu-created", gpu.line, **values)
        elif gpu.name and gpu.compute_capability:
            yield _message(text, "gpu-found", gpu.line)
    asked, listed = text.find(_EXPLICIT), text.find(_ALL_AVAILABLE)  # on lines of their own
    if asked and listed and f"{asked[0]['asked']}," not in f"{listed[0]['devices']},":
        yield _message(text, "gpu-not-among-devices", asked[1], asked=asked[0]["asked"])
    if text.tensorflow.build and not text.tensorflow.build.is_cuda_build:
        yield _message(text, "built-without-cuda", text.tensorflow.build_line)


def _without_gpu(text: ParsedText) -> Iterator[Message]:
    """Somebody says, or writes into a form, that there is no GPU of NVIDIA's, or that none is wanted."""
    field = next((one.line for one in text.all_stated("gpu") if _NONE.fullmatch(one.value.strip())), None)
    for kind, reader in (("no-gpu-present", prose.has_none), ("wants-cpu", prose.wants_cpu)):
        if line := _said(text, reader) or (field if kind == "no-gpu-present" else None):
            yield _message(text, kind, line)


def _said(text: ParsedText, reader: Callable[[str], re.Match[str] | None]) -> int | None:
    """The line of the first clause in which a reader finds something of here and now."""
    for line in text.lines_with(*prose.WORDS):
        sentence = _LOG_IN_A_SENTENCE.split(line.text, maxsplit=1)[0]
        for clause in prose.clauses(sentence) if prose.is_sentence(sentence) else ():
            found = reader(clause)
            if found and prose.stance(clause, found.start(), found.end()) != "elsewhere":
                return line.number
    return None


def _without_a_gpu_of_slurm(text: ParsedText) -> Iterator[Message]:
    """A job that asks Slurm for no GPU, or no job at all."""
    asked = [line for line in text.lines if _SLURM.search(line.text)]
    if asked and not text.find(_GRANTED) and not any(_OF_SLURM_A_GPU.search(line.text) for line in asked):
        yield _message(text, "slurm-no-gpu", asked[0].number)
    elif text.find(_OF_SLURM) and (login := text.find(_LOGIN_NODE)):
        yield _message(text, "slurm-no-gpu", login[1])


def _no_gpu_listed(text: ParsedText) -> Iterator[Message]:
    """TensorFlow lists no GPU, or somebody says so, or that the GPU does not work."""
    listed = devices(text)
    none = listed.source if isinstance(listed, Known) and not lists_gpu(listed.value) else ""
    if none or text.messages_of("smi-no-devices", "no-cuda-device", "cuinit-failed"):
        yield from _without_a_gpu_of_slurm(text)
    if line := re.match(r"line (\d+)", none):
        yield _message(text, "no-gpu-listed", int(line[1]))
    elif listed == NOT_IN_TEXT:
        # who asks how to make an installed TensorFlow use the GPU has one that does not
        asked = text.find(_MADE_TO_USE) if text.messages_of("tensorflow-installed") else None
        if said := first_said(text, prose.gpu_fails) or (asked and asked[1]):
            yield _message(text, "gpu-fails-said", said)


def _of_another_program(text: ParsedText) -> Iterator[Message]:
    """A program that is linked to CUDA; a failure in a text that does not name TensorFlow, or that JAX reports."""
    if native := text.find(_NATIVE):
        yield _message(text, "another-program", native[1], program="the program")
    failed, full = text.messages_of(*_OF_ANY_PROGRAM), text.messages_of("out-of-memory")
    named, program = text.find(NAMES_TENSORFLOW), ""
    if not named and (other := text.find(OTHER_FRAMEWORK)):
        program = "JAX" if other[0][0].lower().startswith("jax") else "PyTorch"
        if SUBJECT.search(" ".join(line.text for line in text.lines).lower()):
            yield _message(text, "other-framework", other[1], program=program, alone="yes")
    by_jax = any(_RAISED_BY_JAX.search(message.text) for message in full)
    if failed and not named:
        yield _message(text, "another-program", failed[0].line, program="PyTorch" if text.find(_PYTORCH) else "")
    elif full and (by_jax or program):
        yield _message(text, "another-program", full[0].line, program="JAX" if by_jax else program)


def _of_installers(text: ParsedText) -> Iterator[Message]:
    for event in text.events:
        of_driver = event.kind == "conda-no-provider" and event.requirement.startswith("__cuda")
        kind, fields = _EVENTS["conda-no-driver" if of_driver else event.kind]
        values = {name: str(getattr(event, field)) for name, field in fields.items()}
        if event.kind == "no-version":
            values["versions"] = ", ".join(event.versions) or "none"
        if event.kind in _ANY_PACKAGE or event.name.startswith(_FAMILY):
            yield Message(kind, event.line, text.text_of(event.line), values)


def _of_packages(text: ParsedText) -> Iterator[Message]:
    """What the lists show of TensorFlow itself: conda's variant, and a second one beside it."""
    found = {}
    for one in text.listed:
        if one.name in distributions.ANY:
            found[one.name, one.manager] = one
            variant = _CONDA_VARIANT.search(one.build or "")
            for_cpus = one.channel == "conda-forge" and at_least(one.version, _FIRST_OF_CONDA_FORGE) is False
            if variant:
                yield _message(text, "conda-build", one.line, variant=variant.lastgroup or "", version=one.version)
            elif for_cpus and one.name == "tensorflow":
                yield _message(text, "conda-build", one.line, variant="cpu", channel="conda-forge")
        if select := re.fullmatch(r"_tflow_(\d)(\d{1,2})0_select", one.name):
            found["tensorflow", "conda"] = one
            yield _message(text, "conda-tensorflow", one.line, version=f"{select[1]}.{select[2]}.0")
    managers = {manager for _, manager in found}
    if len(managers) == 2:
        yield _message(text, "two-tensorflows", next(iter(found.values())).line)
