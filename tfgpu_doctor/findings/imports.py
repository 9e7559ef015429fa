"""Why an import of TensorFlow fails: damaged files, libraries of the system, the processor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from posixpath import basename, normpath

from msgspec import structs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import DamagedPackage, Message, Package, Packages, Phases, value_or
from tfgpu_doctor.facts.report import Alternative, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, major, minor
from tfgpu_doctor.findings import inputs
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Libraries, Variables
from tfgpu_doctor.findings.library_fixes import CONDA_TENSORFLOW, off_library_path
from tfgpu_doctor.findings.phases import how_it_ended, import_phase, last_lines, was_cut_short
from tfgpu_doctor.findings.requirements import SELDOM_USED, companion_bound, from_wheel, requirements
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.names import VC_RUNTIME as RUNTIME_DLLS

_CUDA_SUFFIX = re.compile(r"-cu(\d\d)$")

_IMPORTED = "TensorFlow imports it at once or when it is first used"
# where the distribution is not called like its module
_DISTRIBUTIONS = {"absl": "absl-py", "google.protobuf": "protobuf", "grpc": "grpcio", "pasta": "google-pasta"}

DAMAGED = finding(
    "tf.install-damaged",
    layer="Python",
    title="Installed packages are incomplete",
    about_gpus=False,
    explained_by=("tf.package-conflict", "env.pythonpath"),
    pointless_after=("tf.package-removed",),
    docs="https://packaging.python.org/en/latest/specifications/recording-installed-packages/",
)


@DAMAGED.sign(conclusive=False)
def files_differ_from_record(
    context: Context,
    damaged: tuple[DamagedPackage, ...],
    packages: Packages,
    phases: Phases = (),
    release: Release | None = None,
) -> Problem | None:
    """Files that RECORD lists are missing, or another package has overwritten them."""
    wanted = [one for one in damaged if _is_used(one.name, release)]
    why = "files were deleted or changed, or an installation was interrupted"
    intruders = sorted({*filter(None, (_same_files_by(one.name, packages) for one in wanted))})
    if intruders:
        why = f"{' and '.join(intruders)} installed files of the same names into the same folder"
    names = ", ".join(f"{one.name} {one.version}" for one in wanted[:3])
    # `strip` makes libraries smaller, and leaves them in order
    stops = any(one.outcome in ("raised", "died") for one in phases)
    fails = stops or intruders or any(one.missing for one in wanted)
    again = ("--force-reinstall", "--no-deps", *(f"{one.name}=={one.version}" for one in wanted))
    first = (context.remedies.pip_uninstall(*intruders),) if intruders else ()
    return Problem(
        title=f"Missing or overwritten files of {names}{' and others' if len(wanted) > 3 else ''}",
        cause=f"{why}; pip's records still list them, so pip install without --force-reinstall changes nothing",
        evidence=tuple(evidence(_shown(one), one.record, f"the files of {one.name} {one.version}") for one in wanted),
        fixes=context.remedies.installing("Install the same releases again", *again, first=first),
        severity=None if fails else Severity.WARNING,
    )


def _shown(one: DamagedPackage) -> str:
    files = [*(f"{path} is missing" for path in one.missing), *(f"{path} has another size" for path in one.overwritten)]
    return ", ".join(files[:2]) + (f", and {one.files - 2} more" if one.files > 2 else "")


def _is_used(name: str, release: Release | None) -> bool:
    """Whether this TensorFlow loads what the package brings: CUDA of its own major version, when that is known."""
    built_for = _CUDA_SUFFIX.search(name)
    return not (built_for and release and release.cuda) or built_for[1] == major(release.cuda)


def _same_files_by(name: str, packages: Packages) -> str | None:
    """The package for another CUDA with files of the same names: nvidia-cudnn-cu11 beside nvidia-cudnn-cu12."""
    stem = _CUDA_SUFFIX.sub("", name)
    others = (one.name for one in packages if one.name != name and _CUDA_SUFFIX.sub("", one.name) == stem != one.name)
    return next(others, None) if stem != name else None


@DAMAGED.sign(conclusive=False)
def requirement_not_installed(
    context: Context, packages: Packages, python_version: str, wheel_platform: str | None = None
) -> Problem | None:
    """A package that TensorFlow requires, at first or second hand, is absent; some are imported late."""
    tensorflow = from_wheel(packages)
    if tensorflow is None:
        return None
    installed = {one.name for one in packages}
    required = requirements(packages, python_version, wheel_platform)
    absent = [(asking, one) for asking, one in required if canonicalize_name(one.name) not in installed]
    needed = [pair for pair in absent if canonicalize_name(pair[1].name) not in SELDOM_USED]
    return _not_installed(context, needed or absent, is_needed=bool(needed)) if absent else None


def _not_installed(context: Context, absent: list[tuple[Package, Requirement]], *, is_needed: bool) -> Problem:
    named = list(dict.fromkeys(one.name for _, one in absent))
    asking = list(dict.fromkeys(f"{one.name} {one.version}" for one, _ in absent))
    who = f"{' and '.join(asking)} {'requires' if len(asking) == 1 else 'require'}"
    source = context.source("python.packages")
    metadata = ((one, f"metadata of {package.name} {package.version}") for package, one in absent)
    return Problem(
        title=f"Not installed, though {who} it: {', '.join(named)}",
        cause=_IMPORTED if is_needed else "features of TensorFlow that use it fail",
        evidence=tuple(evidence(f"no {one.name}", source, str(one), where) for one, where in metadata),
        fixes=_install_missing(context, named),
        severity=None if is_needed else Severity.WARNING,
    )


def _install_missing(context: Context, names: list[str]) -> tuple[Fix, ...]:
    """Install these with the TensorFlow that is there, so that pip keeps its release."""
    listed = (one for one in value_or(context.facts.python.packages, ()) if one.name in TENSORFLOW)
    kept = next((f"{one.name}=={one.version}" for one in listed), None)
    if kept is None and (version := value_or(context.facts.tensorflow.version, None)):
        kept = f"{value_or(context.facts.tensorflow.distribution, 'tensorflow')}=={version}"
    wanted, more = ((kept, *names), "; the release of TensorFlow stays the same") if kept else (names, "")
    return context.remedies.installing(f"Install what is missing{more}", *wanted)


@DAMAGED.sign(unless=("tf.abi-*", "tf.wrong-env", "tf.shadowed", "tf.python-unsupported", "tf.not-installed"))
def module_reported_missing(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """An import of TensorFlow ends at one of its own requirements."""
    keras = companion_bound("keras", release) if release else None  # a package of its own since 2.6
    absent = messages.all("module-not-found") if keras else ()
    seen = (*messages.all("requirement-missing"), *(one for one in absent if one.values.get("module") == "keras"))
    if not seen:
        return None
    module = seen[0].values["module"]
    name = _DISTRIBUTIONS.get(module, module.replace("_", "-"))
    return Problem(
        title=f"{name}, which TensorFlow requires, is not installed",
        cause=_IMPORTED,
        evidence=message_evidence(*seen),
        fixes=_install_missing(context, [f"keras{keras}" if keras and name == "keras" else name]),
    )


GLIBC_TOO_OLD = finding(
    "tf.glibc-too-old",
    layer="Machine",
    title="The system's C library is too old for this TensorFlow",
    cause="the library was built on a newer Linux than this one",
    docs="https://github.com/pypa/manylinux",
)


@GLIBC_TOO_OLD.sign()
def version_not_found(
    context: Context, messages: MessageLog, libc: str | None = None, variables: Variables | None = None
) -> Problem | None:
    """The loader does not find a version of GLIBC, GLIBCXX or CXXABI."""
    seen = messages.all("glibc-too-old")
    if not seen:
        return None
    required = f"{seen[0].values.get('version', 'it')} or newer"
    found = message_evidence(*seen, need=required)
    texts = [message.text for message in seen]
    if older := _on_library_path([text for text in texts if ": version " in text], variables):
        folder, name = older["folder"], older["name"]
        return Problem(
            title=f"LD_LIBRARY_PATH puts an older {name} before the one of the system",
            cause=f"the loader searches LD_LIBRARY_PATH first; the {name} in {folder} lacks what TensorFlow needs",
            evidence=found,
            fixes=off_library_path(context, {folder}),
        )
    system = (evidence(libc, context.source("host.libc"), required),) if libc else ()
    fixes = _newer(context, messages.values("glibc-too-old", "version"))
    asks = dict.fromkeys(one for text in texts for one in _REQUIRED_BY.findall(text))
    library = "C library" if any(map(_OF_GLIBC.search, texts)) else "C++ library, libstdc++,"
    known = "tensorflow" if library == "C library" and not asks else ", ".join(asks)
    title = f"The system's {library} is too old{f' for {known}' if known else ''}"
    is_usual = (known, library) == ("tensorflow", "C library")
    return Problem(title=None if is_usual else title, evidence=(*system, *found), fixes=fixes)


_OF_GLIBC = re.compile(r"GLIBC\W{0,2}[_ ](\d[\d.]*)", re.IGNORECASE)
_REQUIRED_BY = re.compile(r"required by [^)\n]{0,300}(?:site|dist)-packages/([\w-]{1,60})")


def _on_library_path(texts: list[str], variables: Variables | None) -> re.Match[str] | None:
    """The `name` of a library that the loader refuses, in a `folder` of LD_LIBRARY_PATH, where it searches first."""
    for folder in filter(None, (variables or {}).get("LD_LIBRARY_PATH", "").split(":")):
        named = re.compile(rf"(?<![\w./+-])(?P<folder>{re.escape(folder.rstrip('/'))})/+(?P<name>lib[^\s:/]+): ")
        if found := next(filter(None, map(named.search, texts)), None):
            return found
    return None


_OLDEST = Fix(  # the glibc of today's images needs Linux 3.2 (its README), and RHEL 6 has 2.6.32
    "Use a newer distribution, or a newer base image: today's TensorFlow needs glibc 2.17 (RHEL 7, Ubuntu 14.04), and "
    "a container on this one helps only where uname -r shows 3.10 or newer",
    ("uname -r",),
)


def _newer(context: Context, versions: Iterable[str]) -> tuple[Fix, ...]:
    release, python = value_or(inputs.fetch("release", context), None), value_or(context.facts.python.version, "")
    # before 2.2 the images with Python 3 have names of their own (tags of Docker Hub)
    of_3 = "-py3" * bool(release and at_least(release.version, "2.2") is False and major(python) != "2")
    tag = f"{release.version}-gpu{of_3}" if release else "latest-gpu"
    run = f"docker run --gpus all -it --rm tensorflow/tensorflow:{tag} bash"
    container = Fix("Use a newer distribution, or a container on this one", (run,))
    if context.remedies.image:
        return (container,)
    glibc = [found[1] for version in versions if (found := _OF_GLIBC.search(version))]
    if glibc and all(at_least("2.17", version) for version in glibc):
        return (_OLDEST,)
    if glibc:
        return container, Alternative("Use conda, which installs its own libstdc++", CONDA_TENSORFLOW)
    made = f"conda create -n tf -c conda-forge python{python and f'={minor(python)}'} pip 'libstdcxx-ng>=12'"
    text = "Make an environment of conda, whose Python loads its own, newer libstdc++, and install TensorFlow there"
    same = context.remedies.tensorflow if value_or(context.facts.tensorflow.version, None) else ()
    install = context.remedies.pip_install(*same, python="conda run -n tf python") if same else ()
    which = "" if install else ", in the release that the program needs"
    return Fix(f"{text}{which}", (made, *install)), container


_ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"
# Intel's before Sandy Bridge and those of its low-cost lines that never got it; AMD's before Bulldozer
_BEFORE_AVX = re.compile(
    r"Core(?:\(TM\))? ?2 (?:Duo|Quad|Extreme|Solo)|\bi[357](?: CPU)? +[A-Z]? ?\d{3}\b"
    r"|Xeon\S{0,20} +(?:CPU +)?[ELWX][57][3-6]\d\d\b|\bAtom\b|\bPhenom\b|\bAthlon\S{0,20} (?:II|64|X2)\b"
    r"|(?:Celeron|Pentium)\S{0,20} (?:CPU +)?[NJG]?[1-5]\d{3}[A-Z]?\b"
)


_FOR_THIS_CPU = (
    "Compare the CPU with what the build is for (AVX2, FMA, AVX-512): where it lacks one, use a newer CPU, or compile "
    "the project's own TensorFlow on this machine; any other one is replaced by pip's, which needs AVX alone"
)
_SEE_CPU = Fix("See the instructions of the CPU", ("grep -o -w -E 'avx|avx2|fma|avx512f' /proc/cpuinfo | sort -u",))


_ANY_HYPERVISOR = (
    "In a virtual machine, set the CPU type to the host's (QEMU, Proxmox: cpu: host; VMware: no older EVC mode)"
)
_PROXMOX = "In Proxmox, set the CPU type to host (qm set VMID --cpu host; its default hides AVX); stop and start the VM"
# the beginning of the hypervisor's name → where it hides AVX
_HIDDEN_BY = {
    "vir": "VirtualBox hides AVX while Hyper-V runs on a Windows host: there, as administrator, run bcdedit /set "
    "hypervisorlaunchtype off, turn off memory integrity (Core isolation), and restart Windows",
    **dict.fromkeys(("pro", "com"), _PROXMOX),
    "hyp": "Hyper-V hides AVX in its compatibility mode: stop the VM, and run on the host Set-VMProcessor NAME "
    "-CompatibilityForMigrationEnabled $false",
}


def _cpu_flags(context: Context) -> tuple[str, ...]:
    """What the CPU has, or AVX where somebody has found out that it has that."""
    flags: tuple[str, ...] = value_or(inputs.fetch("cpu_flags", context), ())
    return flags or ("avx",) * context.log.has("avx-said")


def _avoid_instruction(context: Context, *, without: bool = False, missing: str = "") -> tuple[Fix, ...]:
    """What to do: `without` tells that the hardware has no AVX, `missing` which instructions TensorFlow names."""
    release, flags = value_or(inputs.fetch("release", context), None), _cpu_flags(context)
    bug = context.matrix.issue_for(release, cpu_flags=flags) if release else None
    if bug and bug.condition.cpu_lacks:
        return (Fix(bug.fix, bug.commands),)  # built for a newer CPU by mistake
    if "avx" in flags:
        return (structs.replace(_SEE_CPU, text=_FOR_THIS_CPU),)
    named = next(iter(context.log.values("hypervisor", "name")), "")[:3].lower()
    cpu = _HIDDEN_BY.get(named, _ANY_HYPERVISOR)
    if missing != "AVX" and named not in _HIDDEN_BY:
        cpu += "; where TensorFlow was compiled on another machine, install pip's, which needs AVX alone"
    other = Fix("Run it on a computer whose CPU has AVX")
    if not (context.remedies.image or context.log.has("container-start", "image-named")):
        # conda-forge builds for any x86_64, and no longer for each GPU
        gpu = next((f' --gpu "{one.name}"' for one in value_or(inputs.fetch("cards", context), ())), "")
        plan = f"tfgpu plan --tensorflow 1.5{gpu}"
        ways = "TensorFlow 1.5 (plan says how), or conda-forge's build in an environment of its own"
        commands: tuple[str, ...] = (plan, "conda create -n tf -c conda-forge tensorflow")
        if context.remedies.os == "windows":  # where conda-forge builds none
            ways, commands = "another computer, or TensorFlow 1.5 (plan says how)", (f"{plan} --os windows",)
        other = Fix(f"Without AVX in the hardware: {ways}", commands)
    return (other, _SEE_CPU) if without else (Fix(cpu), other, _SEE_CPU)


# https://github.com/numpy/numpy/issues/18131
_OF_OPENBLAS = "An instruction is illegal on this ARM processor"
_ON_ARM = "the OpenBLAS of NumPy 1.19.5 takes the processor of a Jetson for another one"
_CORETYPE = Fix("Name the processor before Python starts", ("export OPENBLAS_CORETYPE=ARMV8",))
_KEEP_1_5 = Fix("On a CPU without AVX keep the release that works: the wheels use AVX since 1.6")
IMPORT_AVX = finding(
    "tf.import-avx",
    layer="Machine",
    title="TensorFlow uses CPU instructions that this CPU does not support",
    cause="the official wheels are compiled with AVX, which this CPU lacks, or which its virtual machine or emulator "
    "(Rosetta, Docker on Apple silicon) hides",
    fixes=_avoid_instruction,
    docs="https://www.tensorflow.org/install/pip#hardware-requirements",
)


_OTHER_BUILD = (
    "the CPU has AVX, as the text says: the build is for a newer one, or the instruction is another library's"
)


def _missing_instruction(cpu_flags: tuple[str, ...], *, said: bool = False) -> str | None:
    """Why the instruction is illegal on a CPU with AVX."""
    if "avx" not in cpu_flags:
        return _OTHER_BUILD if said and not cpu_flags else None
    lacks = "" if "avx2" in cpu_flags else " but not AVX2"
    return f"this CPU has AVX{lacks}: this build is for a newer CPU, or the instruction is in another library"


@IMPORT_AVX.sign(conclusive=False)
def killed_by_sigill(
    context: Context, phases: Phases, cpu_flags: tuple[str, ...] = (), cpu_model: str = "CPU"
) -> Problem | None:
    """SIGILL: the official wheels need AVX since 1.6."""
    phase = next((p for p in phases if p.outcome == "died" and p.signal == "SIGILL"), None)
    if phase is None:
        return None
    found = [evidence(f"SIGILL in phase {phase.name}", "the child process", "no illegal instruction")]
    no_avx = bool(cpu_flags) and "avx" not in cpu_flags
    if no_avx:
        found.append(evidence(f"{cpu_model}: no AVX", context.source("host.cpu_flags"), "AVX", "TensorFlow's wheels"))
    return Problem(
        title="Illegal instruction: this CPU has no AVX" if no_avx else None,
        cause=_missing_instruction(cpu_flags),
        evidence=(*found, *last_lines(phase)),
    )


def _without_avx(messages: MessageLog, before: tuple[Message, ...], *, without: bool) -> tuple[Message, ...]:
    """An import that ends without a reason, on such a CPU, or after what tells that an older release works."""
    failed = messages.all("dll-load-failed", "segmentation-fault", "native-runtime-failed")
    said = tuple(one for one in messages.all("cause-said") if one.values.get("cause") == IMPORT_AVX.id)
    return (*before, *said, *failed) if failed and (without or before or said) else ()


@IMPORT_AVX.sign()
def illegal_instruction_message(
    context: Context,
    messages: MessageLog,
    cpu_flags: tuple[str, ...] = (),
    wheel_platform: str = "",
    cpu_model: str = "",
) -> Problem | None:
    """SIGILL, or TensorFlow's own message about it, or a CPU without AVX and an import that ends the process."""
    seen = messages.all("cpu-instructions-missing", "illegal-instruction", "emulated")
    without = "avx" not in cpu_flags if cpu_flags else _BEFORE_AVX.search(cpu_model)
    before = messages.all("works-before-avx")
    if not seen and "arm64" not in wheel_platform:
        seen = _without_avx(messages, before, without=bool(without))
    if not seen or messages.has("protobuf-abi", "numpy-abi"):
        return None
    if context.remedies.on_jetson:
        return Problem(title=_OF_OPENBLAS, cause=_ON_ARM, evidence=message_evidence(*seen), fixes=(_CORETYPE,))
    named = messages.values("cpu-instructions-missing", "instructions")
    default = IMPORT_AVX.cause.replace("AVX", next(iter(named), "AVX"))
    cause = _missing_instruction(cpu_flags, said=messages.has("avx-said")) or default
    way_out = _avoid_instruction(context, without=bool(without), missing="".join(named))
    fixes = (*(_KEEP_1_5 for _ in before[:1]), *way_out)
    may_be_mac = value_or(context.facts.host.os, "macos") == "macos"
    if "arm64" in wheel_platform or (may_be_mac and any("hardware instruction" in message.text for message in seen)):
        newest = context.matrix.stable(platform="macos_arm64")[0]
        native = ("python3 -c 'import platform; print(platform.machine())'", *context.remedies.new_environment(newest))
        text = "On Apple silicon: a native arm64 Python and TensorFlow, not the x86_64 ones under Rosetta"
        fixes = (Fix(text, native), *fixes)
    if not messages.has("another-program") or messages.has("cpu-instructions-missing", "emulated"):
        return Problem(cause=cause, evidence=message_evidence(*seen), fixes=fixes, sure=bool(without))
    cause = f"any program can end like this, and the text does not name TensorFlow. If it is TensorFlow, {cause}"
    fixes = tuple(dict.fromkeys((*(_SEE_CPU,)[: not messages.has("hypervisor")], *fixes)))
    return Problem(possible=True, cause=cause, evidence=message_evidence(*seen), fixes=fixes)


_INSTALL_RUNTIME = Fix(
    "Install the Microsoft Visual C++ Redistributable 2015-2022 (x64) and restart",
    ("winget install --id Microsoft.VCRedist.2015+.x64 -e",),
)

VC_RUNTIME = finding(
    "tf.vc-runtime",
    layer="TensorFlow",
    title="The Visual C++ runtime that TensorFlow needs is not installed",
    cause="TensorFlow's library is linked to these DLLs, and Windows does not contain them",
    fixes=lambda _: (_INSTALL_RUNTIME,),
    docs=_ERRORS_GUIDE,
)


@VC_RUNTIME.sign()
def runtime_incomplete(context: Context, phases: Phases, vc_runtime: Libraries | None = None) -> Problem | None:
    """The import failed over a DLL, and one of the runtime's is not in System32."""
    phase = import_phase(phases)
    if vc_runtime is None or phase is None or "DLL load failed" not in (phase.exception or ""):
        return None
    there = {file.path.lower().rpartition("\\")[2] for file in vc_runtime}
    missing = [evidence(f"no {name}", context.source("host.vc_runtime")) for name in RUNTIME_DLLS if name not in there]
    return Problem(evidence=(*missing, *last_lines(phase)) if missing else ())


_ACTIVATE = Fix(
    "Start the program from the shell in which TensorFlow works, with its environment activated: the folder "
    "Library\\bin of an environment of conda must be on PATH"
)
IMPORT_DLL = finding(
    "tf.import-dll",
    layer="TensorFlow",
    title="Windows cannot load TensorFlow's native library",
    explained_by=("cuda.*", "cudnn.*", "gpu.none", "tf.vc-runtime"),
    docs=_ERRORS_GUIDE,
)


_RUNTIME_OR_AVX = Fix(
    f"{_INSTALL_RUNTIME.text}. If that is no cure, see in the data sheet of the CPU whether it has AVX, which is "
    "needed since 1.6; without it, take another computer, or TensorFlow 1.5",
    _INSTALL_RUNTIME.commands,
)


@IMPORT_DLL.sign(unless=("tf.abi-*", "tf.import-avx", "tf.python-unsupported"))
def dll_load_failed(messages: MessageLog, gpu_release: Release | None = None, os: str | None = None) -> Problem | None:
    """DLL load failed: Windows does not report which one."""
    if os not in (None, "windows"):
        return None
    seen = messages.all("msvc-missing", "dll-load-failed", *(("native-traceback",) if os == "windows" else ()))
    # importlib prints this where the DLL exists and cannot be loaded (TensorFlow 1.x)
    modules = messages.all("module-not-found")
    seen += tuple(m for m in modules if m.values.get("module", "").startswith("_pywrap_tensorflow_"))
    if not seen or (messages.has("loader-error") and not messages.has("dll-load-failed", "msvc-missing")):
        return None
    cause = "Windows does not report which DLL; usually the Visual C++ runtime is missing or too old"
    ran = any(map(inputs.ran, seen))
    if ran:
        cause = "a DLL of TensorFlow ran and failed: usually a CPU without AVX, or a Visual C++ runtime that is too old"
    of_release = f"CUDA {gpu_release.cuda} and cuDNN {gpu_release.cudnn}" if gpu_release else "CUDA and cuDNN"
    see = Fix("See which CUDA DLLs Windows finds", ("where.exe cudart64_*.dll cublas64_*.dll cudnn64_*.dll",))
    shells = [one for one in messages.values("works-elsewhere", "where") if "torch" not in one.lower()]
    return Problem(
        cause=f"{cause}. Otherwise, check {of_release}, whose bin folders must be on PATH",
        evidence=message_evidence(*seen),
        fixes=(_ACTIVATE,) if shells else (_RUNTIME_OR_AVX if ran else _INSTALL_RUNTIME, see),
    )


_WHERE_IT_WAITS = "'import faulthandler; faulthandler.dump_traceback_later(60, exit=True); import tensorflow'"
IMPORT_HANG = finding(
    "tf.import-hang",
    layer="TensorFlow",
    title="The import of TensorFlow does not finish",
    cause="it waits for something (a network file system, a lock, a driver that does not answer, PTX compilation), or "
    "it needs more time",
    fixes=lambda context: (
        Fix(
            "See where it waits: Python prints its stack after 60 s",
            (f"{context.remedies.python} -c {_WHERE_IT_WAITS}",),
        ),
        Fix("On a slow disk, allow more time", (context.remedies.doctor("--timeout 600"),)),
    ),
    explained_by=("driver.unresponsive", "gpu.arch-too-new", "tf.shadowed", "env.pythonpath"),
    docs=_ERRORS_GUIDE,
)


@IMPORT_HANG.sign(conclusive=False)
def import_timed_out(context: Context, phases: Phases) -> Problem | None:
    """The import phase reached its deadline, or did nothing at all."""
    phase = import_phase(phases)
    if phase is None or phase.outcome != "timeout":
        return None
    found = (evidence(how_it_ended(phase), "import tensorflow", "an import"), *last_lines(phase))
    if was_cut_short(phase):
        return Problem(
            title=f"The import of TensorFlow was not finished in {phase.seconds or 0:.0f} s",
            cause="the time limit of this run was shorter than an import of TensorFlow may take",
            evidence=found,
            fixes=(Fix("Allow more time", (context.remedies.doctor(),)),),
            severity=Severity.NOTE,
        )
    ended = f"did not end within {phase.seconds or 0:.0f} s" if phase.idle is None else "hangs and does nothing"
    return Problem(title=f"The import of TensorFlow {ended}", evidence=found)


IMPORT_HANG.printed("import-hangs")


_CAUSES = (
    *("tf.abi-*", "tf.glibc-too-old", "tf.import-avx", "tf.import-dll", "tf.shadowed", "tf.package-conflict"),
    *("tf.package-removed", "tf.install-damaged", "env.pythonpath", "cuda.*", "cudnn.*"),
    *("env.address-space-limit", "env.ld-library-path"),
)


def _clean_environment(context: Context) -> tuple[Fix, ...]:
    windows = context.remedies.os == "windows"
    folder, python = ("tf-clean", "tf-clean\\Scripts\\python") if windows else ("~/tf-clean", "~/tf-clean/bin/python")
    install = context.remedies.pip_install(*context.remedies.tensorflow, python=python)
    if not install:
        return context.remedies.reinstall_best("it has wheels for that Python")
    module = "virtualenv" if major(value_or(context.facts.python.version, "")) == "2" else "venv"
    commands = (f"{context.remedies.python} -m {module} {folder}", *install, f"tfgpu doctor --python {python}")
    return (Fix("Install it in a new environment, and diagnose that one", commands),)


IMPORT_FAILED = finding(
    "tf.import-failed",
    layer="TensorFlow",
    title="TensorFlow cannot be imported",
    fixes=_clean_environment,
    explained_by=_CAUSES,
    pointless_after=("tf.not-installed", "tf.import-hang"),
    docs=_ERRORS_GUIDE,
)


def _from_library_path(context: Context, texts: list[str], variables: Variables | None) -> Problem | None:
    found = _on_library_path(texts, variables)
    return found and Problem(
        title=f"LD_LIBRARY_PATH names {found['folder']}, and {found['name']} there cannot be loaded",
        cause="the loader searches LD_LIBRARY_PATH before the folders of the system",
        evidence=(evidence(found.string, "import tensorflow"),),
        fixes=off_library_path(context, {found["folder"]}),
    )


@IMPORT_FAILED.sign(conclusive=False)
def import_raised_or_died(context: Context, phases: Phases, variables: Variables | None = None) -> Problem | None:
    """The import raised, or ended the process."""
    phase = import_phase(phases)
    if phase is None or phase.outcome not in ("raised", "died"):
        return None
    ended = how_it_ended(phase)
    if hidden := _from_library_path(context, [ended], variables):
        return hidden
    if "undefined symbol" in ended and (variables or {}).get("LD_LIBRARY_PATH"):
        run = f"env -u LD_LIBRARY_PATH {context.remedies.python} -c 'import tensorflow'"
        return Problem(
            title="TensorFlow cannot be imported: a library that it loads is not the one that it was built with",
            cause="LD_LIBRARY_PATH comes before TensorFlow's own folders, and may name another TensorFlow or libstdc++",
            evidence=(evidence(ended, "import tensorflow"), *last_lines(phase)),
            fixes=(Fix("See whether it is LD_LIBRARY_PATH; if so, take the folder out of it", (run,)),),
        )
    return Problem(
        title=f"TensorFlow cannot be imported: {ended}" if phase.outcome == "died" else None,
        cause=f"the import ended with: {ended}",
        evidence=(evidence(ended, "import tensorflow", "an import without errors"), *last_lines(phase)),
    )


@IMPORT_FAILED.sign()
def loaded_too_late(context: Context, messages: MessageLog) -> Problem | None:
    """glibc keeps little room for libraries with static thread-local storage; what is loaded first takes it."""
    seen = [one for one in messages.all("loader-error") if "static TLS" in one.values.get("why", "")]
    if not seen:
        return None
    path = next((one.values["library"] for one in seen if one.values["library"].startswith("/")), "")
    path = "" if context.remedies.os == "windows" else path  # which has no LD_PRELOAD
    preload = f"export LD_PRELOAD={context.remedies.quote(normpath(path))}"
    fixes = [Fix("Load that library before all others", (preload,))] if path else []
    fixes += [Alternative("Import the package that loads it (such as cv2 or sklearn) before TensorFlow")]
    return Problem(
        title=f"{basename(seen[0].values['library'])} is loaded too late: no room is left for its thread-local storage",
        cause="the loader reserves little room for such libraries, and those that are imported before it took it",
        evidence=message_evidence(*seen),
        fixes=tuple(fixes),
    )


_BESIDE = ("tf.python-unsupported", "tf.wrong-env", "driver.*", "xla.*", "gpu.*", "container.*", "wsl.*", "memory.*")


@IMPORT_FAILED.sign(unless=(*_CAUSES, *_BESIDE, "nccl.*"))
def unexplained_failure(context: Context, messages: MessageLog, variables: Variables | None = None) -> Problem | None:
    """The import fails for a reason that nothing else explains."""
    crash = ("segmentation-fault",) if messages.has("import-line", "native-traceback", "import-fails-said") else ()
    kinds = ("undefined-symbol", "wrong-architecture", "tf-module-missing", *crash)
    seen = messages.all("native-runtime-failed", *kinds)
    refused = messages.all("loader-error")
    if hidden := _from_library_path(context, [message.text for message in refused], variables):
        return replace(hidden, evidence=message_evidence(*refused))
    missing = [*messages.libraries("loader-error")]
    if seen and missing:  # conda-forge/tensorflow-feedstock issue 290
        return Problem(
            title=f"TensorFlow cannot be imported: the loader does not find {missing[0][0]}",
            cause="the package that brings it is missing, or is of a version that TensorFlow was not built with",
            evidence=message_evidence(*(message for _, message in missing)),
            fixes=_clean_environment(context),
        )
    return Problem(
        cause="the text contains no other message; the last lines of the complete output usually name the cause",
        evidence=message_evidence(*seen, *messages.all("exception")) if seen else (),
        fixes=(Fix("Diagnose that environment", (context.remedies.doctor(),)), *_clean_environment(context)),
    )
