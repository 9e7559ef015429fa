"""Pasted text → the facts that probes would find, each with its line; and the command that tells what is left open.

What somebody writes about a machine ("CUDA 12.4") and what a program prints about it become facts of the same fields;
the sentences in which programs fail become :class:`~tfgpu_doctor.facts.facts.Message`. Nothing is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from tfgpu_doctor.facts import distributions
from tfgpu_doctor.facts.facts import (
    NOT_IN_TEXT,
    Fact,
    Facts,
    Host,
    Known,
    Limit,
    Message,
    Package,
    Python,
    TensorFlow,
    Unknown,
    look_up,
    value_or,
)
from tfgpu_doctor.facts.units import KIB
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers import platform_hints, statements
from tfgpu_doctor.parsers.derived_messages import derived_messages
from tfgpu_doctor.parsers.lines import Excerpt, any_case
from tfgpu_doctor.parsers.machine_facts import TF_LOG, build, cards, cuda, cudnn, devices, driver, gpus
from tfgpu_doctor.parsers.messages import stops_import
from tfgpu_doctor.parsers.own_report import with_facts, with_report
from tfgpu_doctor.parsers.parsed_text import ParsedText, stated_at
from tfgpu_doctor.parsers.platform_hints import Surroundings, holds_tensorflow, package_in
from tfgpu_doctor.parsers.prose import PROPOSES
from tfgpu_doctor.parsers.remaining_releases import OTHER_BUILDS, python_of_offers, remaining_releases
from tfgpu_doctor.parsers.resemblance import resembling, telling
from tfgpu_doctor.parsers.statements import Statement

# ------------------------------------------------------------------------------------------ asks

FIND_MODULE = "\"import importlib.util as u; print(u.find_spec('tensorflow'))\""  # without importing it
_PYTHON = 'python -c "import tensorflow as tf; print({})"'
_ASKS = {
    "host.os": 'python -c "import platform; print(platform.platform())"',
    "host.kernel": "uname -r",
    "host.libc": "ldd --version",
    "host.cpu_flags": "lscpu",
    "host.shm": "df -h /dev/shm",
    "host.address_space_limit": "ulimit -v",
    "host.temporary_folder": 'ls -ld "${TMPDIR:-/tmp}"',
    "host.pci_gpus": "lspci -nn | grep -i nvidia",
    "host.container": "tfgpu doctor",
    "driver.version": "nvidia-smi",
    "driver.cuda_supported": "nvidia-smi",
    "driver.nvidia_smi": "nvidia-smi",
    "driver.kernel_module": "cat /proc/driver/nvidia/version",
    "driver.kernel_module_loaded": "cat /proc/driver/nvidia/version",
    "driver.nvml_init": "nvidia-smi",
    "driver.libcuda": "ldconfig -p | grep libcuda",
    "driver.cuda_init": "tfgpu doctor",
    "driver.xid_events": "sudo dmesg | grep -i xid",
    "gpus": "nvidia-smi",
    "cuda.toolkits": "ls -d /usr/local/cuda*",
    "cuda.nvcc": "nvcc --version",
    "cudnn.installed": "python -m pip list",
    "cudnn.runtime": "tfgpu doctor",
    "loader.sonames": "ldconfig -p | grep -E 'libcudart|libcudnn'; "
    "find / -name 'libcudart.so*' -o -name 'libcudnn.so*' 2>/dev/null",
    "python.executable": 'python -c "import sys; print(sys.executable)"',
    "python.version": "python --version",
    "python.bits": 'python -c "import sys; print(sys.maxsize > 2**32)"',
    "python.packages": "python -m pip list",
    "python.tensorflow_paths": f"python -c {FIND_MODULE}",
    "variables": "env | grep -E 'CUDA|NVIDIA|TF_|XLA|LD_LIBRARY|PYTHON'",
    "tensorflow.version": "python -m pip list",
    "tensorflow.build": _PYTHON.format("tf.sysconfig.get_build_info()"),
    "tensorflow.devices": _PYTHON.format("tf.config.list_physical_devices('GPU')"),
}
# `cmd /c`: PowerShell has another `set`, and no %PATH%
# Microsoft, "WMI command line (WMIC) utility deprecation": Windows 11 24H2 comes without wmic
_ON_WINDOWS: dict[str, str | None] = {  # None: no command there, or nothing to ask for
    **dict.fromkeys(("host.kernel", "host.libc", "host.shm", "driver.xid_events")),
    **dict.fromkeys(("host.address_space_limit", "host.temporary_folder")),
    **dict.fromkeys(("driver.kernel_module", "driver.kernel_module_loaded")),
    "host.cpu_flags": 'powershell -Command "(Get-CimInstance Win32_Processor).Name"',
    "host.pci_gpus": 'powershell -Command "(Get-CimInstance Win32_VideoController).Name"',
    "driver.libcuda": "where.exe nvcuda.dll",
    "cuda.toolkits": "nvcc --version",
    "cudnn.installed": "where.exe cudnn64_*.dll",
    "loader.sonames": "where.exe cudart64_*.dll cudnn64_*.dll",
    "variables": "cmd /c set",
}
# an image is a Linux, asked inside the container; what is the host's alone is not seen there
_IN_DOCKER_DESKTOP: dict[str, str | None] = dict.fromkeys(
    ("host.pci_gpus", "driver.kernel_module", "driver.kernel_module_loaded", "driver.xid_events")
)
# there the kernel has no module of NVIDIA, and the PCI bus shows no card, on a machine that works
_ON_WSL2: dict[str, str | None] = {
    **_IN_DOCKER_DESKTOP,
    "driver.version": "/usr/lib/wsl/lib/nvidia-smi",
    "driver.nvidia_smi": "/usr/lib/wsl/lib/nvidia-smi",
    "driver.libcuda": "ldconfig -p | grep libcuda; ls -l /dev/dxg /usr/lib/wsl/lib",
}
# no NVIDIA driver, and no CUDA since 10.2
_ON_MACOS: dict[str, str | None] = {
    **dict.fromkeys(path for path in _ASKS if path.startswith(("driver.", "loader.", "cuda.", "cudnn."))),
    **dict.fromkeys(("host.libc", "host.shm", "host.pci_gpus", "gpus")),
    "host.cpu_flags": "sysctl -n machdep.cpu.brand_string",
}
_BEFORE_2_1 = {  # neither call was there
    "tensorflow.build": _PYTHON.format("tf.test.is_built_with_cuda()"),
    "tensorflow.devices": _PYTHON.format("tf.test.is_gpu_available()"),
}
_OF_A_SYSTEM = {"windows": _ON_WINDOWS, "wsl2": _ON_WSL2, "macos": _ON_MACOS}


def _of_nccl(facts: Facts) -> dict[str, str]:
    """What to search for where NCCL alone is missing."""
    messages = (one for one in value_or(facts.messages, ()) if one.kind in ("loader-error", "library-not-opened"))
    names = [one.values.get("library", "") for one in messages]
    if not names or not all(re.fullmatch(r"libnccl\.so[\d.]*", one) for one in names):
        return {}
    return {"loader.sonames": f"ldconfig -p | grep libnccl; find / -name '{names[0]}' 2>/dev/null"}


def _special_asks(facts: Facts) -> dict[str, str | None]:
    """The commands of this situation, and None for those that tell nothing in it."""
    messages = value_or(facts.messages, ())
    dll = any(message.kind == "dll-load-failed" for message in messages)
    system = value_or(facts.host.os, "windows" if dll else None)
    special = _OF_A_SYSTEM.get(system or "", {})
    if system in ("windows", "macos") and value_or(facts.python.wheel_platform, "").startswith("linux"):
        special = _IN_DOCKER_DESKTOP
    if at_least(value_or(facts.tensorflow.version, None), "2.1") is False:
        special = {**special, **_BEFORE_2_1}
    if any(stops_import(one.kind) for one in messages):
        special = {**special, **dict.fromkeys(_BEFORE_2_1)}  # nothing can be asked of what is not imported
    if any(one.values.get("program") == "the program" for one in messages):
        special = {**special, **{path: None for path, command in _ASKS.items() if "python" in command}}
    return {**special, **_of_nccl(facts)}


def with_asks(facts: Facts) -> Facts:
    """The facts, each open one with the command that would tell, where there is one."""
    asked: dict[str, Fact[Any]] = {}
    typed = _typed_there(facts)
    for path, command in {**_ASKS, **_special_asks(facts)}.items():
        fact = look_up(facts, path)
        if command is not None and isinstance(fact, Unknown) and fact.ask is None:
            asked[path] = structs.replace(fact, ask=typed(command))
    return with_facts(facts, asked)


def _typed_there(facts: Facts) -> Callable[[str], str]:
    """What makes a command one of a cell, in a hosted notebook."""
    hosted = any(one.kind == "hosted-notebook" for one in value_or(facts.messages, ()))
    return platform_hints.marked_for_a_cell if hosted else str


# ------------------------------------------------------------------------------------------ text to facts

_ARM = re.compile(r"arm64|aarch64|\bm[1-5]\b|apple silicon|jetson|jetpack")
_APPLE_SILICON = any_case(
    r"\b(?:MacBook|iMac|Mac(?: mini| Studio| Pro)?|Apple)\b.{0,30}?\bM[1-5]\b|\bM[1-5] (?:Mac|Pro|Max|Ultra)"
    r"|Apple silicon|macosx_\d+_\d+_arm64|\bosx-arm64\b|/opt/homebrew/"  # docs.brew.sh/Installation: for Apple silicon
)
# processors by the names of machines; what runs in NVIDIA's images, on a Jetson or built from source is no wheel
_ARM_MACHINE = any_case(
    r"\bG[HB]\d{3}\b|\bGB10\b|\bGrace[ -](?:Hopper|Blackwell|CPU)|\bDGX Spark\b|\bGraviton ?\d?\b|\bAmpere Altra\b"
    r"|\bNeoverse\b|\bRaspberry ?Pi(?:\b|\d)"
    r"|\b(?:Ubuntu|Debian|Linux|Fedora|Rocky|server|machine|CPU|processor|board|Rechner|servidor"
    r"|сервер\w*)\b[^.;,\n]{0,20}\b(?:arm(?:64|v8)?|aarch64)\b(?! wheel)|\b(?:arm(?:64|v8)?|aarch64)[ -]"
    r"(?:Ubuntu|Linux|server|machine|CPU|processor|board|host|node|laptop)\b"
)
_NO_WHEEL = any_case(r"nvcr\.io|\bNGC\b|jetson|jetpack|\bbazel\b|(?:from|compiled the) sources?\b")
_DISTRIBUTION_NAMED = any_case(
    r"\b(?:Ubuntu|Debian|Fedora|Arch|Manjaro|CentOS|RHEL|Red ?Hat(?: Enterprise Linux)?|Rocky|AlmaLinux|openSUSE"
    r"|Linux Mint|Amazon Linux)\b(?= ?v?\d| Linux|,)(?: Linux)?(?: ?v?\d{1,2}(?:\.\d{1,2})?)?"
)
_OF_AN_IMAGE = any_case(r"^\s*FROM |docker (?:run|pull|build)|\b(?:image|container)\b")
_PLACEHOLDER = re.compile(r"[$%]\{?[A-Za-z_]|^%|<|\.\.\.|^\[|path/to")
_LIBTENSORFLOW = re.compile(r"\blibtensorflow-(?:gpu|cpu)-\w{3,10}-x86_64-(?P<version>\d+\.\d+\.\d+)")
# of a server's image for developing, the tag is that of the server alone
_TF_IMAGE = re.compile(r"\btensorflow/(?:tensorflow|serving(?!:\S*devel)):(?P<version>\d+\.\d+(?:\.\d+)?(?:rc\d+)?)")
_WHEEL = re.compile(r"\b(?P<name>tensorflow[\w]*|tf_nightly\w*)-(?P<version>\d+\.\d+[\w.]*?)-cp(?P<python>\d{2,3})-")
_WHEEL_OF_ARM = re.compile(r"\btensorflow\w*-\d[\w.]*-cp(?P<python>\d{2,3})-\w+-(?:linux|manylinux\w*)_aarch64\.whl")
_GPU_PACKAGE = re.compile(
    r"\b(?P<name>tensorflow-gpu|tf-nightly-gpu|tf-nightly|nvidia-tensorflow|tensorflow-cpu|tensorflow-macos"
    r"|tensorflow-rocm|(?i:tensorflow-directml)|intel-tensorflow)\b"
)
_USES_DIRECTML = re.compile(r"\bDirectML: creating device on adapter\b|\bdml_device_cache\.cc:")
_PLAIN_PACKAGE = re.compile(r"\bpip\d?(?:\.\d+)? install (?:-\S+ )*['\"]?tensorflow(?![-\w])")
_PINNED = re.compile(
    r"\bpip\d?(?:\.\d+)? install (?:-\S+ )*['\"]?(?P<name>tensorflow(?:-gpu)?)==(?P<version>\d[\d.]*\d)(?![\w*])"
)
_SITE = any_case(
    r"(?:[/\\](?:lib[/\\])?python-?|PythonSoftwareFoundation\.Python\.)(?P<version>[23]\.\d{1,2})(?:\.\d{1,2})?"
    r"(?:_|[/\\](?:(?:site|dist)-packages|lib[/\\]))"
    r"|[/\\]Python(?P<digits>[23]\d{1,2})(?:-\d\d)?[/\\](?:lib|site-packages)[/\\]"
)
_OF_A_SIF = re.compile(r"\.sif\b")  # it has a Python of its own, wherever it lies
# what print(tf.__version__) leaves in a log
_BARE_VERSION = re.compile(r"^(?P<version>(?:1\.1[0-5]|2\.\d{1,2})\.\d{1,2})(?: (?:True|False|\[).*)?$")
_ASKS_VERSION = re.compile(r"print\([^#\n]{0,80}\b(?:tf|tensorflow)\.__version__, ")
_CONDA_PYTHON = re.compile(r"\b(?:conda|mamba) create\b[^#\n]{0,120} python=(?P<version>[23]\.\d{1,2})\b")
_PYTHON_32 = any_case(  # a path, pip's tags, uname, a system
    r"[/\\]Python[23]\d{1,2}-32[/\\]|\('cp3\d{1,2}', '\w{2,6}', 'win32'\)|\bi[3-6]86 GNU/Linux"
    r"|\b(?:Ubuntu|Debian)\b[ \w.]{0,12}\(?32[ -]?bit",
)
_PYTHON_BITS = any_case(r"\bpython(?: version)?:? ?3(?:[.,]\d{1,2}){1,2},? \(?(?:x(?P<x>64)|(?P<bits>32|64)[ -]?bit)\b")
_TF_PINNED = re.compile(
    r"\b(?:install(?:ed)?|create|add)\b.{0,80}\btensorflow(?:-gpu"
    r"|-cpu)?(?:\[[\w,-]{1,30}\])?={1,2}(?P<version>[12]\.\d{1,2}(?:\.\d{1,2})?(?:-?(?:rc|alpha|beta|a|b)\d)?)\b"
)
_NO_INSTALL = any_case(r"\bERROR\b|\b(?:should|you can|try|please)\b")
_OF_A_GPU_BUILD = ("library-opened", "library-not-opened", "cuinit-failed", "cuda-error", "driver-insufficient")


def _without_banner(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with the banner of NVIDIA's images as harmless where somebody says that the GPU works in one.

    Under WSL2 the scripts of older tags do not find the driver: NVIDIA/nvidia-docker issue 1548.
    """
    messages = tuple(messages)
    elsewhere = [one.text for one in messages if one.values.get("where") == "container"]
    works = any("gpu" in text.lower() for text in elsewhere)
    for one in messages:
        is_wrong = works and one.kind == "ngc-no-driver"
        yield structs.replace(one, kind="harmless", values={"what": "ngc-banner"}) if is_wrong else one


def read(excerpt: Excerpt, matrix: Matrix | None = None) -> Facts:
    """All that the text tells; with a matrix, also which releases and Pythons remain where it names none.

    >>> from tfgpu_doctor.parsers import lines
    >>> facts = read(lines.read([b"CUDA: 12.4\\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device"]))
    >>> facts.cuda.toolkits.value[0].version, facts.driver.cuda_init.value.code
    ('12.4', 100)
    """
    text = ParsedText(excerpt)
    told = (*_without_banner(text.messages), *derived_messages(text))
    cut = f"{excerpt.cut} of {excerpt.total} lines were too long to be examined as a whole"
    left_out = [Message("text-cut", excerpt.total, cut, {"lines": str(excerpt.cut)})] if excerpt.cut else []
    messages = (*told, *resembling(*telling(text.lines, told)), *left_out)
    python = _python(text, matrix)
    facts = Facts(
        host=_host(text, matrix, next((one.line for one in told if one.kind == "hosted-notebook"), None)),
        driver=driver(text),
        gpus=gpus(text),
        cuda=cuda(text, matrix),
        cudnn=cudnn(text, matrix),
        python=python,
        variables=_variables(text),
        tensorflow=_tensorflow(text, matrix, python, messages),
        messages=Known(messages, "the text"),
    )
    return with_asks(with_report(facts))


# as somebody names it: "an intel Xeon X5660", "Intel(R) Core(TM) i5 650"
_CPU_NAMED = re.compile(
    r"\b(?:Xeon|Core(?:\(TM\))?(?: ?i[357]| ?2)|Pentium|Celeron|Atom|Phenom|Athlon)\b[^\n,;.]{0,25}?\b\w?\d{3,4}\w?\b"
)


def _host(text: ParsedText, matrix: Matrix | None, hosted: int | None) -> Host:
    where, stated = _system(text, hosted)
    shown = text.system.facts
    source = f"line {where.os_line}" if where.os_line else stated_at(stated) if stated else "the text"
    at = stated_at(stated) if stated else ""
    distribution_id, version = platform_hints.distribution(stated.value if stated else "")
    named = text.find(_DISTRIBUTION_NAMED, but=_OF_AN_IMAGE) if where.os == "linux" else None  # an image is no host
    if named and not distribution_id:
        at, (distribution_id, version) = f"line {named[1]}", platform_hints.distribution(named[0][0])
    version = None if "distribution_id" in shown else version
    distribution = Known(_as_written(stated), stated_at(stated), "stated") if stated else NOT_IN_TEXT
    cpu = text.find(_CPU_NAMED)
    cpu_model = _stated(cpu[0][0], f"line {cpu[1]}") if cpu else NOT_IN_TEXT
    return Host(
        os=Known(where.os, source) if where.os else NOT_IN_TEXT,
        distribution=distribution if stated else shown.get("distribution", NOT_IN_TEXT),
        distribution_id=shown.get("distribution_id", _stated(distribution_id, at)),
        distribution_version=shown.get("distribution_version", _stated(version, at)),
        container=Known(where.container, f"line {where.container_line}") if where.container else NOT_IN_TEXT,
        pci_gpus=cards(text, matrix),
        address_space_limit=_address_space(text),
        cpu_model=shown.get("cpu_model", cpu_model),
        **{name: shown.get(name, NOT_IN_TEXT) for name in ("kernel", "machine", "cpu_flags")},
    )


def _system(text: ParsedText, hosted: int | None) -> tuple[Surroundings, Statement | None]:
    """What the text shows and states; a hosted notebook's is a Linux, whatever that of its browser is."""
    if hosted is None or text.hints.os == "linux":
        return text.hints, next(iter(text.all_stated("os")), None)
    return replace(text.hints, os="linux", os_line=hosted), None


def _stated(value: str | None, source: str) -> Fact[str]:
    return Known(value, source, "stated") if value else NOT_IN_TEXT


def _address_space(text: ParsedText) -> Fact[Limit]:
    """The last limit that is shown or set; `ulimit -v NUMBER` sets the hard limit, too."""
    for message in reversed(text.messages_of("address-space-limit")):
        values = message.values
        size = int(values["bytes"]) if "bytes" in values else int(values.get("kib") or values["set"]) * KIB
        return Known(Limit(size, size if "set" in values else None), f"line {message.line}")
    return NOT_IN_TEXT


def _as_written(stated: Statement) -> str:
    """The system's name out of what may be a sentence: "Windows 11" of "windows 11, tensorflow 2.19, RTX 4060"."""
    raw = " ".join(stated.raw.split())
    place = raw.lower().find(stated.value)
    return (raw[place : place + len(stated.value)] if place >= 0 else stated.value)[:80]


def _python(text: ParsedText, matrix: Matrix | None) -> Python:
    version = next((one for one in _pythons(text) if isinstance(one, Known)), NOT_IN_TEXT)
    platform = _platform(text)
    if matrix is not None:  # the Python that pip serves, whatever somebody fills in
        version = python_of_offers(text, matrix, platform, value_or(version, None)) or version
    own, made = text.find(_EMBEDDED), text.find(_MADE_BY_A_TOOL)
    path = own[0][0] + r"\python.exe" if own else f"{made[0][0]}/bin/python" if made else ""
    program = Known(path, f"line {(own or made)[1]}: a path", "inferred") if path else NOT_IN_TEXT  # type: ignore[index]
    bits, packages = _bits(text, version), _packages(text)
    return Python(version=version, executable=program, bits=bits, wheel_platform=platform, packages=packages)


# a Python that a program brings along, of which no shell knows: ComfyUI, AUTOMATIC1111 and others unpack it so
_EMBEDDED = re.compile(r"(?<![\w\\])[A-Za-z]:\\(?:[\w .()-]{1,60}\\){0,12}python_embed+ed(?=\\)")

# of an environment that a tool makes by a file, and no shell enters: snakemake, Nextflow, tox, nox, pipx
_MADE_BY_A_TOOL = re.compile(
    r"(?<![\w.-])(?:/[\w.@+-]{1,60}){0,20}/(?:\.snakemake/conda|work/conda|\.tox|\.nox|pipx/venvs)/[\w.-]{1,60}"
    r"(?=/lib/python\d)"
)


def _bits(text: ParsedText, version: Fact[str]) -> Fact[int]:
    """What the interpreter prints, its path tells, or a person; or a 64-bit wheel of just this Python is refused."""
    if isinstance(shown := text.system.facts.get("python_bits"), Known):
        return shown
    if path := text.find(_PYTHON_32):
        return Known(32, f"line {path[1]}", "inferred")
    if stated := text.find(_PYTHON_BITS):
        return Known(int(stated[0]["x"] or stated[0]["bits"]), f"line {stated[1]}", "stated")
    own = f"cp{''.join(value_or(version, '').split('.')[:2])}-"
    by_wheel = isinstance(version, Known) and version.source.endswith("the wheel's name")
    for event in text.events:
        is_its_own = event.tags.startswith(own) and event.tags.endswith("win_amd64")
        if is_its_own and event.kind == "wheel-refused" and not by_wheel:
            return Known(32, f"line {event.line}: this Python refuses its 64-bit wheel", "inferred")
    return NOT_IN_TEXT


def _pythons(text: ParsedText) -> Iterator[Fact[str]]:
    """What the interpreter prints of itself, what is stated, and what follows from a wheel's name or a path."""
    yield text.system.facts.get("python", text.stated_fact("python"))
    for pattern, source in ((_WHEEL, "the wheel's name"), (_SITE, "a path"), (_CONDA_PYTHON, "conda create")):
        if (found := text.find(pattern, but=_OF_A_SIF)) and not (pattern is _WHEEL and _is_refused(text, found[0])):
            values = found[0].groupdict()
            digits = values.get("python") or values.get("digits") or ""
            dotted = None if pattern is _WHEEL else values["version"]
            yield Known(dotted or f"{digits[0]}.{digits[1:]}", f"line {found[1]}: {source}", "inferred")


def _is_refused(text: ParsedText, wheel: re.Match[str]) -> bool:
    """Whether pip refuses the wheel, which is then for another Python, or another machine."""
    return any(wheel[0] in one.text and "not a supported wheel" in one.text for one in text.lines)


def _packages(text: ParsedText) -> Fact[tuple[Package, ...]]:
    listed = [(one.name, one.version, one.line, one.manager) for one in text.listed]
    installed = [one for one in text.events if one.kind in ("installed", "satisfied") and one.version]
    rows = [*listed, *((one.name, one.version, one.line, "pip") for one in installed)]
    found = {
        (name, version): Package(name=name, version=version, location=f"line {line}", installer=manager)
        for name, version, line, manager in rows
        if version
    }
    lines = [line for _, _, line, _ in rows]
    return Known(tuple(found.values()), f"line {min(lines)}: packages") if found else NOT_IN_TEXT


def _platform(text: ParsedText) -> Fact[str]:
    image, os = text.hints.image, text.hints.os
    if image and os in ("windows", "macos") and text.hints.starts and holds_tensorflow(image):
        return Known("linux_x86_64", f"the image {image}", "inferred")
    arm = _is_arm(text)
    linux = "linux_aarch64" if arm else "linux_x86_64"
    if not os:
        return Known(linux, "assumed, for the text does not say", "inferred")
    platforms = {"windows": "windows_amd64", "macos": "macos_arm64" if arm else "macos_x86_64"}
    return Known(platforms.get(os, linux), "the text")


def _is_arm(text: ParsedText) -> bool:
    stated = " ".join(one.raw for one in text.all_stated("os")).lower()
    machine = value_or(text.system.facts.get("machine", NOT_IN_TEXT), "")
    named = not machine and text.find(_ARM_MACHINE) and not text.find(_NO_WHEEL)
    wheel = text.find(_WHEEL_OF_ARM)
    named = named or (not machine and wheel and not _is_refused(text, wheel[0]))
    return bool(machine in ("arm64", "aarch64") or _ARM.search(stated) or text.find(_APPLE_SILICON) or named)


def _tensorflow(text: ParsedText, matrix: Matrix | None, python: Python, messages: tuple[Message, ...]) -> TensorFlow:
    version = next((one for one in _releases(text) if one != NOT_IN_TEXT), NOT_IN_TEXT)
    if version == NOT_IN_TEXT and matrix is not None:
        wheel = not any(message.kind in OTHER_BUILDS for message in messages)
        version = remaining_releases(text, matrix, python, wheel=wheel) or version
    package = _distribution(text, value_or(version, None))
    tried = version.one_of if isinstance(version, Unknown) and text.all_stated("tensorflow") else ()
    if tried and isinstance(package, Known) and not any(_may_be(package.value, one, old=True) for one in tried):
        package = NOT_IN_TEXT
    return TensorFlow(version=version, distribution=package, build=build(text), devices=devices(text))


def _releases(text: ParsedText) -> Iterator[Fact[str]]:
    """The release that is stated, that an image, an archive, a wheel, a sentence or a command names, or a list has."""
    stated = text.stated_fact("tensorflow")
    yield stated if isinstance(stated, Known) else NOT_IN_TEXT
    yield from _alone(text, _ASKS_VERSION, ": tf.__version__", "observed")
    if found := text.find(_TF_IMAGE) or text.find(_LIBTENSORFLOW) or text.find(_WHEEL):
        yield Known(found[0]["version"], f"line {found[1]}")
    yield _of_several(text, stated)
    yield text.stated_fact("tensorflow", in_sentences=True)
    if found := text.find(_TF_PINNED, but=_NO_INSTALL):
        yield Known(statements.tensorflow(found[0]["version"]) or "", f"line {found[1]}", "stated")
    packages = value_or(_packages(text), ())
    for name in (*distributions.TENSORFLOW, distributions.CONDA_BASE):
        yield from (Known(one.version, f"{one.location}: {name}") for one in packages if one.name == name)
    # what somebody asks for, or a program needs, is mostly what runs
    wanted = (one for one in text.prose if one.key == "tensorflow" and one.stance == "wanted")
    yield from (Known(one.value, f"line {one.line}, as wanted", "inferred") for one in wanted)
    yield from _alone(text, TF_LOG, ", a version that stands alone beside TensorFlow's log", "inferred")


def _of_several(text: ParsedText, stated: Fact[str]) -> Fact[str]:
    """The one of several releases that a sentence is about, else all of them."""
    left, lines = getattr(stated, "one_of", ()), {one.line for one in text.all_stated("tensorflow")}
    about = (one for one in text.said("tensorflow") if one.value in left and one.line not in lines)
    return next((Known(one.value, stated_at(one), "stated") for one in about), stated)


def _alone(text: ParsedText, beside: re.Pattern[str], source: str, grade: str) -> Iterator[Known[str]]:
    """A version that stands alone on its line, in a text that has the other line, too."""
    if (bare := text.find(_BARE_VERSION)) and text.find(beside):
        yield Known(bare[0]["version"], f"line {bare[1]}{source}", grade)


def _distribution(text: ParsedText, version: str | None) -> Fact[str]:
    """The package that the text names anywhere, or that the release makes likely."""
    if (pinned := text.find(_PINNED)) and pinned[0]["version"] == version:
        return Known(pinned[0]["name"], f"line {pinned[1]}")
    old = version is not None and re.match(r"1\.|2\.0", version) is not None
    if named := _named_package(text, version, old):
        return named
    if plain := text.find(_PLAIN_PACKAGE):
        return Known("tensorflow", f"line {plain[1]}")
    names = {one.name: one.line for one in text.listed}
    if "tensorflow" in names and "tensorflow-gpu" not in names and not text.messages_of(*_OF_A_GPU_BUILD):
        return Known("tensorflow", f"line {names['tensorflow']}: the list of packages")
    if old:
        return Known("tensorflow-gpu", "assumed: up to 2.0 the GPU build had this name", "inferred")
    package = package_in(text.hints.image or "")
    return Known(package, f"the image {text.hints.image}", "inferred") if package else NOT_IN_TEXT


def _named_package(text: ParsedText, version: str | None, old: bool) -> Known[str] | None:
    """The package whose log it is, or whose name it has, where that had such a version."""
    if uses := text.find(_USES_DIRECTML):
        return Known("tensorflow-directml", f"line {uses[1]}", "inferred")
    if found := text.find(_GPU_PACKAGE, but=PROPOSES):
        name = found[0]["name"].lower()
        return Known(name, f"line {found[1]}") if version is None or _may_be(name, version, old) else None
    return None


def _variables(text: ParsedText) -> Fact[dict[str, str]]:
    found = {name: value for name, (value, _) in text.hints.variables.items() if not _PLACEHOLDER.search(value)}
    lines = ", ".join(str(line) for name, (_, line) in text.hints.variables.items() if name in found)
    return Known(found, f"line {lines}") if found else NOT_IN_TEXT


def _may_be(package: str, version: str, old: bool) -> bool:
    """Whether a package of that name had that version; from 2.1 on tensorflow-gpu holds the build of tensorflow."""
    if package == "nvidia-tensorflow":
        return version.startswith("1.15")
    if package == "tensorflow-directml":  # it is 1.15, and the plugin of that name for 2.10 (their READMEs)
        return at_least(version, "2.11") is False
    return "dev" in version if package.startswith("tf-nightly") else old or package != "tensorflow-gpu"
