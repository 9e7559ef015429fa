"""What a pasted text tells: GPUs, with and without a driver, the driver, CUDA, cuDNN, TensorFlow's devices.

Programs print them, files and commands name them, and people write them in sentences.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfgpu_doctor.facts.facts import (
    NOT_IN_TEXT,
    Build,
    CallResult,
    Cuda,
    Cudnn,
    CudnnFile,
    Driver,
    Fact,
    Gpu,
    Known,
    LibraryFile,
    Nvcc,
    PciGpu,
    SmiResult,
    TfDevice,
    Toolkit,
    lists_gpu,
    value_or,
)
from tfgpu_doctor.facts.versions import dotted, minor, of_capability
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.parsers import prose, tensorflow_outputs
from tfgpu_doctor.parsers.cuda_results import CURESULTS
from tfgpu_doctor.parsers.lines import any_case
from tfgpu_doctor.parsers.parsed_text import ParsedText, fact_from, line_of, stated_at
from tfgpu_doctor.parsers.prose import card_in, stance
from tfgpu_doctor.parsers.statements import names_no_gpu
from tfgpu_doctor.parsers.system_outputs import named

# ------------------------------------------------------------------------------------------ cards

_NOT_NVIDIA = any_case(
    r"\b(?:amd|advanced micro devices|radeon|intel|iris|uhd|hd graphics|apple|m[1-4]\b|arc\b|rx ?\d{3,4}|vega"
    r"|none|cpu only|no gpu)"
)
_NVIDIA = any_case(
    r"nvidia|ge ?force|\b[gr]tx|quadro|tesla|titan|\bmx ?\d{3}|(?<!amd )(?<!arc )(?<!arc pro )\b[avhtlpk]\d{1,3}\b"
    r"|\bgt[sx]? ?\d{3}|\d{3,4} ?ti\b"
)
_INSTANCE_WORDS = ("large", "metal", "gpu-", "standard", "_v", "instance", "vm", "aws", "ec2")
# the graphics of a machine whose owner never speaks of NVIDIA
_ONLY_GRAPHICS = any_case(
    r"\b(?:Intel ?(?:\(R\))? ?(?:Iris|UHD|HD Graphics|Arc|graphics)|Iris(?:\(R\))? (?:Xe|Plus)|(?:AMD "
    r"|ATI )?Radeon|AMD Ra[a-z]{3,5}n|(?:AMD|ATI) (?:R[579X]|Vega|GPU|card|graphics))\b.{0,40}"
)
# a card of unknown name
_SOME_NVIDIA = any_case(
    r"\b(?:my|the|and|with|has|have|dedicated|discrete|of) (?:an? )?(?:\w+ )?nvidia"
    r"(?:['’]s|\W(?:\w+ )?(?:card|gpu|graphics))\b"
)
_CAPABILITY = any_case(
    r"\bcompute capabilit(?:y|ies)\W{1,3}(?:(?:is|of|version|level|being|only)\W{1,3}){0,2}"
    r"(?P<capability>\d{1,2}\.\d)\b"
)
_CHIP = any_case(r"(?:nvidia corporation )?g[a-z]\d{2,3}\w{0,3} \[(?P<card>[^\]]+)\]")
_SERIES = any_case(r"^(?:nvidia |geforce )*rtx[ -]?[2-5]000(?: series)?$")  # where another card is named, too
_NVIDIA_WORD = any_case(r"nvidia")
_NVIDIA_CARD = any_case(r"\b(?:GeForce|GTX|RTX|Quadro|Tesla|TITAN)\b")


def cards(text: ParsedText, matrix: Matrix | None) -> Fact[tuple[PciGpu, ...]]:
    """The NVIDIA cards that lspci lists or that a device id tells, else those that somebody names."""
    if text.system.cards_line is not None:
        fact = Known(text.system.cards, f"line {text.system.cards_line}: lspci")
        return named(fact, matrix) if matrix is not None else fact
    stated = _stated_cards(text)
    if matrix is None or stated != NOT_IN_TEXT:
        return stated
    described = _instance_cards(text, matrix)
    return described if described != NOT_IN_TEXT else _described_card(text)


def _stated_cards(text: ParsedText) -> Fact[tuple[PciGpu, ...]]:
    """The cards that somebody names, which is no proof that a driver sees them; none, when they are all others'."""
    named = text.all_stated("gpu")
    cards = [one for one in named if not _NOT_NVIDIA.search(one.value) or _NVIDIA.search(one.value)]
    if cards := [one for one in cards if not names_no_gpu(one.value)]:
        cards.sort(key=lambda one: _SERIES.search(one.value) is not None)
        chip = _CHIP.match(cards[0].value)  # as lspci writes: the chip, and the card in brackets
        name = chip["card"] if chip else cards[0].value
        found = (PciGpu(address="", device_id="", name=card_in(name) or name),)
        return Known(found, stated_at(cards[0]), "stated")
    if named and not text.find(_SOME_NVIDIA):
        return Known((), stated_at(named[0]), "stated")
    shown = None if text.find(_NVIDIA_CARD) or text.find(_NVIDIA_WORD) else text.find(_ONLY_GRAPHICS)
    return Known((), f"line {shown[1]}: {shown[0][0].strip()[:60]}") if shown else NOT_IN_TEXT


def _described_card(text: ParsedText) -> Fact[tuple[PciGpu, ...]]:
    """A card without a name, of which somebody tells the compute capability."""
    for number, clause in text.clauses("compute capabilit"):
        match = _CAPABILITY.search(clause)
        if match and stance(clause, match.start(), match.end()) == "here":
            card = PciGpu(address="", device_id="", name=of_capability(match["capability"]))
            return Known((card,), f"line {number}, as stated", "stated")
    return NOT_IN_TEXT


def _instance_cards(text: ParsedText, matrix: Matrix) -> Fact[tuple[PciGpu, ...]]:
    """The card of the cloud's instance type that a sentence names: of a g4dn.xlarge a T4, of a g4ad.xlarge none."""
    named = (
        (number, one, *found)
        for number, one in text.clauses(*_INSTANCE_WORDS)
        for found in matrix.instances.named_in(one)
    )
    for number, clause, match, row in named:
        if stance(clause, match.start(), match.end()) != "elsewhere":
            cards = () if row.gpu.startswith("AMD ") else (PciGpu(address="", device_id="", name=row.gpu),)
            return Known(cards, f"line {number}: {match[0]} has {row.gpu}", "stated")
    return NOT_IN_TEXT


# ------------------------------------------------------------------------------------------ driver

_LISTED = re.compile(
    r"\s*(?:GPU (?P<index>\d{1,2}): (?P<name>[^()]{1,80}?)|(?P<mig>MIG) \S{1,20} +Device +\d+:) "
    r"\(UUID: (?P<uuid>[\w/-]{1,80})\)"
)


def _driver_version(text: ParsedText, of_kernel: Fact[str]) -> Fact[str]:
    printed = Known(text.smi.driver_version, text.smi_at) if text.smi.driver_version else NOT_IN_TEXT
    stated = text.stated_fact("driver")
    said = text.said("driver") if stated == NOT_IN_TEXT else ()
    facts = (printed, of_kernel, stated, *(Known(one.value, stated_at(one), "stated") for one in said))
    known = [one for one in facts if isinstance(one, Known)]
    known.sort(key=lambda one: "." not in one.value)  # a bare branch may be the one that is asked for
    return next(iter(known), NOT_IN_TEXT)


def driver(text: ParsedText) -> Driver:
    """What nvidia-smi, TensorFlow's diagnostics and the kernel say of the driver."""
    kernel = next(iter(text.messages_of("kernel-version")), None)
    module = (kernel.values.get("version") or kernel.values.get("module")) if kernel else None
    stopped = text.messages_of("kernel-driver-not-running", "smi-no-driver")
    supported = text.smi.cuda_version
    # CUDA has one of its own
    mismatch = [one for one in text.messages_of("nvml-mismatch") if _OF_NVML.search(one.text)]
    xids = text.messages_of("xid")
    return Driver(
        version=_driver_version(text, fact_from(_trimmed(module), kernel)),
        cuda_supported=Known(supported, text.smi_at) if supported else text.stated_fact("supported", in_sentences=True),
        kernel_module=fact_from(_trimmed(module), kernel),
        kernel_module_loaded=fact_from(True, kernel) if module else fact_from(False, *stopped),
        libcuda=_libcuda(text),
        nvml_init=fact_from(CallResult(18, mismatch[0].text) if mismatch else None, *mismatch),
        cuda_init=_cuinit(text),
        nvidia_smi=_smi_result(text),
        xid_events=fact_from(tuple(m.text for m in xids) or None, *xids),
    )


def _libcuda(text: ParsedText) -> Fact[tuple[LibraryFile, ...]]:
    for message in text.messages_of("library-not-opened", "loader-error", "libcuda-not-loaded"):
        name = message.values.get("library", "")
        if message.kind == "libcuda-not-loaded" or re.search(r"libcuda\.so|nvcuda\.dll", name):
            return Known((), line_of(message))
    version = next(iter(text.messages_of("libcuda-version")), None)
    if version and text.hints.os != "wsl2":
        path = "a package of the driver" if "package" in version.values else "libcuda.so.1"
        file = LibraryFile(path=path, version=_trimmed(version.values.get("version") or version.values["linked"]))
        return Known((file,), line_of(version))
    return NOT_IN_TEXT


# the texts of the runtime API's errors, and their numbers in the driver API (CUDA's driver_types.h and cuda.h)
_STATUS = {
    "initialization error": "3",
    "system not yet initialized": "802",
    "OS call failed": "304",
    "unknown error": "999",
}
_HOST = re.compile(r"\bhost\b")
# what somebody says of nvidia-smi other than that it works
_SMI_FAILS = any_case(
    r"\b(?:fail|error|could|unable|mismatch|no devices|if|try|please|what|cannot|missing|not?|says)\b|n[o']t\b"
    r"|\[|^\s*[$#>(]"
)
_OF_SMI = ("smi-no-driver", "smi-not-found", "smi-no-devices", "smi-no-libcuda", "nvml-mismatch")
_OF_NVML = any_case(r"driver/library version mismatch|lib_rm_version_mismatch")


def _cuinit(text: ParsedText) -> Fact[CallResult]:
    for message in text.messages_of("cuinit-failed"):
        values = message.values
        numbers = (*map(values.get, ("code", "result", "number")), _STATUS.get(values.get("status", "")))
        number = next(filter(None, numbers), None)
        code = CURESULTS.get(values.get("name", ""), int(number) if number else None)
        if code is not None:
            name = next((name for name, known in CURESULTS.items() if known == code), None)
            return Known(CallResult(code=code, message=message.text, name=name), line_of(message))
    # cudaErrorStubLibrary and CUDA_ERROR_STUB_LIBRARY are both 34
    for kind, code in (("stub-library", 34), ("forward-compatibility", 804)):
        for message in text.messages_of(kind)[:1]:
            return Known(CallResult(code=code, message=message.text), line_of(message))
    return NOT_IN_TEXT


def _smi_result(text: ParsedText) -> Fact[SmiResult]:
    if text.smi_line is None and not text.smi.failure:
        # outside of a container it tells nothing of the inside
        patterns = (_SMI_FAILS, _HOST) if text.hints.container else (_SMI_FAILS,)
        clauses = () if text.messages_of(*_OF_SMI) else text.clauses("nvidia-smi")
        fine = [line for line, clause in clauses if not any(one.search(clause) for one in patterns)]
        works = SmiResult(exit_code=0, output="")
        return Known(works, f"line {fine[0]}, as stated", "stated") if fine else NOT_IN_TEXT
    result = SmiResult(
        exit_code=1 if text.smi.failure else 0,
        output=text.smi.failure or "",
        driver_version=text.smi.driver_version,
        cuda_version=text.smi.cuda_version,
    )
    return Known(result, text.smi_at)


def gpus(text: ParsedText) -> Fact[Any]:
    """The GPUs of nvidia-smi's table, else those of TensorFlow's log; what is merely stated is no GPU seen."""
    if text.smi.gpus:
        return Known(_distinct(text.smi.gpus), text.smi_at)
    if listed := _distinct(_listed_gpus(text)):
        return Known(listed, "nvidia-smi -L")
    if logged := tensorflow_outputs.gpu_facts(text.tensorflow):
        return Known(logged, f"line {text.tensorflow.gpus[0].line}: TensorFlow's log")
    for message in text.messages_of("no-arch-in-ptxas"):  # the GPU that ptxas was to compile for: sm_86
        if digits := re.fullmatch(r"sm_(\d{1,2})(\d)a?", message.values["arch"]):
            capability = Known(f"{digits[1]}.{digits[2]}", line_of(message), "inferred")
            return Known((Gpu(index=0, compute_capability=capability),), line_of(message), "inferred")
    return NOT_IN_TEXT


def _distinct(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Each GPU once, as the last of several outputs shows it: in a container and on its host, before and after."""
    found: dict[object, Gpu] = {}
    for place, one in enumerate(gpus):
        found[value_or(one.uuid, None) or value_or(one.pci_bus_id, None) or place, value_or(one.name, "")] = one
    return tuple(found.values())


def _listed_gpus(text: ParsedText) -> Iterator[Gpu]:
    """Rows of ``nvidia-smi -L``, with the MIG instances below each."""
    rows = [(match, line.number) for line in text.lines if (match := _LISTED.match(line.text))]
    for place, (match, line) in enumerate(rows):
        if match["index"]:
            below = itertools.takewhile(lambda row: row[0]["mig"], rows[place + 1 :])
            yield Gpu(
                index=int(match["index"]),
                name=Known(match["name"], f"line {line}"),
                uuid=Known(match["uuid"], f"line {line}"),
                mig_instances=Known(tuple(row[0]["uuid"] for row in below), f"line {line}"),
            )


def _trimmed(version: str | None) -> str | None:
    """ "375.66.0" as TensorFlow prints it is the driver's "375.66"."""
    return re.sub(r"^(\d{3}\.\d{2,3})\.0$", r"\1", version) if version else None


# ------------------------------------------------------------------------------------------ cuda

_INSTALLED_BY = re.compile(
    r"(?<![\w-])(?P<name>cudatoolkit|cuda-toolkit|cuda-runtime|cudnn|cuda-nvcc)==?(?P<version>\d+(?:\.\d+)*)"
)
_CUDNN_BY_PIP = re.compile(r"\binstall\b.{0,200}?\b(?P<name>nvidia-cudnn-cu1\d)==(?P<version>\d+(?:\.\d+)*)")
_FOLDER = any_case(r"[/\\]cuda(?:-|[/\\]v)(?P<version>\d{1,2}\.\d)\b")
_RUNTIME_FILE = any_case(
    r"\bcudart64_(?P<digits>(?:[5-9]\d|1[01]\d))\.dll\b|\blibcudart\.so\.(?P<version>\d{1,2}\.\d)(?=\.?\d*\b)"
    r"|\blib(?:cublas|cufft|curand|cusolver|cusparse)\.so\.(?P<alike>7\.[05]|8\.0|9\.[0-2]|10\.0)(?=\.?\d*\b)"
)
_SENTENCE = 400  # a line that is longer is a program's
_OLD = ("cublas", "cufft", "curand", "cusolver", "cusparse")
_ALL_ALIKE = ("7.0", "7.5", "8.0", "9.0", "9.1", "9.2", "10.0")
_HEADER = re.compile(r"^\S{1,200}: *$|/ldconfig")  # a folder above its list of files, which tells what is in it
# "with 2.14.0 everything worked", "the default TF 1.2 does not do this": what that release needs is there
_WORKS_WITH = any_case(
    r"\b(?:works?|worked|fine|runs|(?:does|did)(?:n't| not) (?:happen|occur)|no (?:such )?(?:problem|error|issue)s?)\b"
    r"(?:(?!\b(?:but|upgrad\w*|until)\b)[^.\n]){0,40}\b(?:tensor ?flow(?:[-_]gpu)?|tf)[ =v]{1,4}"
    r"(?P<version>[12]\.\d{1,2})(?!\d)"
    r"|\b(?:tensor ?flow(?:[-_]gpu)?|tf)[ =v]{1,4}(?P<before>[12]\.\d{1,2})(?:\.\d+)?,?(?: and)?(?: it| that)?"
    r" work(?:s|ed)\b"
    r"|\b(?:revert\w*|downgrad\w*|(?:went|going) back)\b[^.\n]{0,40}?\b(?:to|with) (?:tensor ?flow(?:[-_]gpu)?|tf)?"
    r"[ =v]{0,4}(?P<older>[12]\.\d{1,2})(?:\.\d+)?\b[^.\n]{0,40}\b(?:works?|worked|fine|fixed|solved)\b"
)


def cuda(text: ParsedText, matrix: Matrix | None = None) -> Cuda:
    """The toolkits that tools, files, somebody's words, a command or a path tell of."""
    printed = [one for one in text.versions if one.component == "cuda"]
    kits = [_kit(one.via, one.version, f"line {one.line}: {one.via}", one.via) for one in printed]
    # people take nvidia-smi's "CUDA Version", the newest that the driver supports, for their toolkit's
    others = text.smi.cuda_version if printed else None
    kits += [_kit(one.raw[:80], one.value, stated_at(one)) for one in text.all_stated("cuda") if one.value != others]
    kits += _mentioned_toolkits(text, bool(kits))
    kits += _listed_runtimes(text)
    kits += _named_files(text)
    if not kits and matrix:
        kits += [_kit(f"for TensorFlow {one.version}", one.cuda, where) for one, where in _that_works(text, matrix)]
    nvcc = next((one for one in printed if one.via == "nvcc"), None)
    distinct: dict[str | None, Toolkit] = {}
    for kit in kits:
        distinct.setdefault(kit.version, kit)
    return Cuda(
        toolkits=Known(tuple(distinct.values()), kits[0].source, _grade(kits[0].via)) if kits else NOT_IN_TEXT,
        nvcc=Known(Nvcc(path="nvcc", version=nvcc.version), f"line {nvcc.line}") if nvcc else NOT_IN_TEXT,
    )


def _kit(path: str, version: str | None, source: str, via: str = "stated") -> Toolkit:
    return Toolkit(path=path, version=version, source=source, via=via)


def _listed_runtimes(text: ParsedText) -> Iterator[Toolkit]:
    """CUDA's libraries in listings of files: libcudart.so.10.1 is there; up to 10.0 all have their toolkit's number."""
    for one in text.libraries:
        version = minor(one.version)
        if one.found and version and (one.component == "cudart" or (one.component in _OLD and version in _ALL_ALIKE)):
            yield _kit(one.path or one.soname, version, f"line {one.line}: {one.via}", one.via)


def _named_files(text: ParsedText) -> Iterator[Toolkit]:
    """CUDA's runtime that somebody names in a sentence: "the folder has cudart64_102.dll"."""
    named = text.messages_of("library-not-opened", "loader-error", "library-opened")
    sought = {message.line: message.values.get("library", "") for message in named}
    for line in text.lines_with("cudart", *_OLD):
        parts = prose.clauses(line.text) if len(line.text) <= _SENTENCE else ()
        matches = ((match, stance(one, *match.span())) for one in parts for match in _RUNTIME_FILE.finditer(one))
        for match in (match for match, where in matches if where == "here"):
            if not (match[0] in sought.get(line.number, "") or (match["alike"] and match[0] in sought.values())):
                digits = match["digits"] or ""
                version = match["version"] or match["alike"] or f"{digits[:-1]}.{digits[-1]}"
                yield _kit(match[0], version, f"line {line.number}: {match[0]}")


def _that_works(text: ParsedText, matrix: Matrix) -> Iterator[tuple[Release, str]]:
    """The release that is said to work on that machine, and where."""
    if found := said_to_work(text):
        version, line = found
        rows = (matrix.tensorflow(f"{version}.0", "linux_x86_64", name) for name in ("tensorflow-gpu", "tensorflow"))
        yield from [(row, f"line {line}: {row.version} works") for row in rows if row and row.gpu][:1]


def said_to_work(text: ParsedText) -> tuple[str, int] | None:
    """The minor version of TensorFlow that is said to work on that machine, and the line."""
    found = text.find(_WORKS_WITH)
    return (found[0]["version"] or found[0]["before"] or found[0]["older"], found[1]) if found else None


def _mentioned_toolkits(text: ParsedText, stated: bool) -> Iterator[Toolkit]:
    """Toolkits that a conda command installs, that a path names, or that a sentence says are installed."""
    for line in text.lines_with("cuda", "gpu"):
        for match in _INSTALLED_BY.finditer(line.text):
            if match["name"] != "cudnn":
                yield _kit("conda", match["version"], f"line {line.number}: {match[0]}", "conda")
        folder = None if stated or (text.libraries and _HEADER.search(line.text)) else _FOLDER.search(line.text)
        if folder and stance(line.text, *folder.span()) == "here":
            yield _kit(folder[0], folder["version"], f"line {line.number}")
    for one in () if stated else text.said("cuda"):
        yield _kit(one.raw, one.value, f"line {one.line}")


def cudnn(text: ParsedText, matrix: Matrix | None = None) -> Cudnn:
    """The cuDNN that was loaded, and those that are stated or installed by a command, or of a release that works."""
    files = tuple(_cudnn_files(text))
    if not files and matrix:
        files = tuple(CudnnFile(where, one.cudnn, "stated") for one, where in _that_works(text, matrix))
    differs = next(iter(text.messages_of("cudnn-version-differs")), None)
    loaded = next(iter(text.messages_of("cudnn-loaded")), None)
    version = differs.values["runtime"] if differs else loaded.values["version"] if loaded else None
    return Cudnn(
        installed=Known(files, files[0].path, _grade(files[0].source)) if files else NOT_IN_TEXT,
        runtime=fact_from(dotted(version), differs or loaded),
    )


def _cudnn_files(text: ParsedText) -> Iterator[CudnnFile]:
    """What tools print, the form states, listings show, conda or pip installs, and else what a sentence says."""
    for one in text.versions:
        if one.component == "cudnn":
            yield CudnnFile(path=f"line {one.line}: {one.via}", version=one.version, source=one.via)
    stated = text.all_stated("cudnn")
    yield from (CudnnFile(path=stated_at(one), version=one.value, source="stated") for one in stated)
    for file in text.libraries:
        if file.found and file.component == "cudnn" and file.version:
            path = f"line {file.line}: {file.path or file.soname}"
            yield CudnnFile(path=path, version=file.version, source=file.via)
    for line in text.lines_with("cudnn"):
        for match in _INSTALLED_BY.finditer(line.text):
            if match["name"] == "cudnn":
                yield CudnnFile(path=f"line {line.number}: {match[0]}", version=match["version"], source="conda")
        if by_pip := _CUDNN_BY_PIP.search(line.text):
            where = f"line {line.number}: {by_pip['name']}"
            yield CudnnFile(path=where, version=by_pip["version"], source="pip")
    for said in () if stated else text.said("cudnn"):
        yield CudnnFile(path=f"line {said.line}", version=said.value, source="stated")


def _grade(via: str | None) -> str:
    return "stated" if via == "stated" else "observed"


# ------------------------------------------------------------------------------------------ devices

TF_LOG = re.compile(r"tensorflow/|external/local_(?:tsl|xla)/|\b[EWI]0000 00:00:\d+\.\d+ +\d+ \w+\.cc:")
_OF_A_PROGRAM = re.compile(
    r"task manager|^\d{4}-\d\d-|\b[EWI]\d{4} |\.cc:\d|\.py:\d|\w(?:Error|Warning): |^ *(?:\||File )|\braise \w+\("
)
_TF_INSTALLED = any_case(r"\b(?:install|add)\b[^|;]{0,80}\btensorflow\b|^\s*tensorflow(?:-gpu)?[= ]+\d")
NAMES_TENSORFLOW = any_case(r"tensor ?flow|\btf\b|keras|tfgpu")
OTHER_FRAMEWORK = any_case(r"\b(?:jax(?:lib)?|torch|pytorch)\b|TORCH_USE_CUDA_DSA")
# an operation runs there, or TensorFlow shares out its memory, or it is busy, whatever people say of it
_PLACED = any_case(
    r'_device="/job:[^"]*GPU:\d|gpu_bfc_allocator\.cc|\bAllocator \(GPU_\d|\bDMA: 0\b'
    r"|\b(?:GPU (?:util\w*|usage|load)|nvidia-smi)\b(?:(?!cpu|memory|vram)[^.\n%]){0,40}?\b[1-9]\d ?%"
)
# a program that computes there, too: its other steps are what is asked about
_COMPUTES = any_case(
    r"\b(?:was|were|am|been) able to (?:train|run|fit)\b[^.?!\n]{0,25}\b(?:using|on|with) (?:my|the|a) gpu\b"
    r"|\btrained on (?:my|the|this) gpu\b[^.?!\n]{0,20}\bwithout (?:any )?(?:trouble|problem|issue|error)"
    r"|\bother (?:\w+ ){0,2}models? (?:do |can )?(?:run|train|work)\w* (?:fine )?on (?:my|the) gpu\b"
    r"|\b(?:finish|complet)ed (?:all ?right|fine|well|successfully)\b[^.?!\n]{0,12}\b(?:using|on) (?:my |the )?gpu\b"
)
# it is seen, whatever uses it then; unless the same text says the opposite somewhere
_SEES = any_case(
    r"(?<!\bif )(?<!whether )\b(?:(?:tensor ?flow|tf|keras|it) (?:does |can |clearly |is |also )?"
    r"|list_\w+_devices\b[^ ]*(?: \w+){0,2} )(?:sees?|recogni[sz](?:es?|ing)|detects?|finds?|lists?|shows?)"
    r" (?:(?:(?:the|both|all|this)(?: my)?|my) (?:gpus?|cards?)\b|it\b)"
)
_SEES_NOT = any_case(
    r"(?:\bnot|n['’]t|\bcannot|\bunable to|\bno longer|\bnever) (?:\w+ ){0,2}"
    r"(?:see\b|recogni[sz]|detect|find|list|show)"
)
_LINKS = re.compile(r"gpu_(?:device|init)\.cc:\d+\] +(?:DMA: +)?(?P<numbers>0(?: +\d{1,2})+) *$")
_BARE_LIST = re.compile(r"^\[\]$")


def build(text: ParsedText) -> Fact[Build]:
    """What tf.sysconfig.get_build_info() prints."""
    seen = text.tensorflow
    return Known(seen.build, f"line {seen.build_line}: TensorFlow's build") if seen.build else NOT_IN_TEXT


def _computes(text: ParsedText) -> bool:
    """Whether TensorFlow uses a GPU after all, or the text is about another framework."""
    elsewhere = text.find(OTHER_FRAMEWORK) and not text.find(NAMES_TENSORFLOW)
    seen = text.find(_SEES) and not text.find(_SEES_NOT)
    used = any(map(text.find, (_PLACED, _COMPUTES))) or text.messages_of(
        "takes-all-memory", "cudnn-loaded", "libdevice-not-found"
    )
    return bool(elsewhere or used or seen)


def devices(text: ParsedText) -> Fact[tuple[TfDevice, ...]]:
    """What TensorFlow lists, or what somebody says that it does not list."""
    seen, source = text.tensorflow, "TensorFlow's list of devices"
    listed = tensorflow_outputs.device_facts(seen)
    if lists_gpu(listed) and seen.gpu_count != 0:
        return Known((*listed, *_linked(text, listed)), source)
    if seen.gpu_count:
        counted = (TfDevice(name=f"/physical_device:GPU:{n}", kind="GPU") for n in range(min(seen.gpu_count, 64)))
        return Known(tuple(counted), f"line {seen.some_gpu}: {source}")
    if seen.gpu_count == 0:
        return Known(tuple(d for d in listed if d.kind != "GPU"), f"line {seen.no_gpu}: {source}")
    if (said := first_said(text, prose.no_gpu)) and not _computes(text):
        asked = text.text_of(said).rstrip().endswith("?")
        return Known((), f"line {said}, as {'asked' if asked else 'stated'}", "stated")
    about_tensorflow = text.find(TF_LOG) or text.find(_TF_INSTALLED)
    if about_tensorflow and (bare := text.find(_BARE_LIST)):
        return Known((), f"line {bare[1]}: an empty list", "inferred")
    return NOT_IN_TEXT


def _linked(text: ParsedText, listed: tuple[TfDevice, ...]) -> Iterator[TfDevice]:
    """The GPUs in the head of the log's table of links, whose own lines are left out."""
    links, names = text.find(_LINKS), {one.name for one in listed}
    linked = (f"/physical_device:GPU:{one}" for one in (links[0]["numbers"].split() if links else ()))
    yield from (TfDevice(name=one, kind="GPU") for one in linked if one not in names)


def first_said(text: ParsedText, reader: Callable[[str], object]) -> int | None:
    """The first line in which a reader finds something, and that no program printed."""
    said = (line.number for line in text.lines if reader(line.text) and not _OF_A_PROGRAM.search(line.text))
    return next(said, None)
