"""Findings about imports."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import how_it_ended, last_lines, phase_named
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Phase, value_or
from tfgpu_doctor.records.report import Fix, Severity

ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"


CONTAINER = "docker run --gpus all -it --rm tensorflow/tensorflow:latest-gpu bash"


_GLIBC = re.compile(r"version [`'\"]?((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)'? not found")


_TOLD = ("derived.told",)


_OTHER_IMPORT = (
    "tf.abi-*",
    "tf.glibc-too-old",
    "tf.import-avx",
    "tf.import-dll",
    "tf.import-hang",
    "tf.shadowed",
    "tf.package-*",
    "tf.python-unsupported",
    "tf.not-installed",
    "tf.wrong-env",
    "cuda.*",
    "cudnn.*",
    "driver.*",
    "xla.*",
    "gpu.*",
    "container.*",
    "wsl.*",
    "memory.*",
    "nccl.*",
)


# Intel's before Sandy Bridge and those of its cheap lines that never got it; AMD's before Bulldozer
_BEFORE_AVX = re.compile(
    r"Core(?:\(TM\))? ?2 (?:Duo|Quad|Extreme|Solo)|\bi[357](?: CPU)? +[A-Z]? ?\d{3}\b"
    r"|Xeon\S* +(?:CPU +)?[ELWX][57][3-6]\d\d\b|\bAtom\b|\bPhenom\b"
    r"|\bAthlon\S* (?:II|64|X2)\b|Celeron\S* (?:CPU +)?[NJG]?[1-5]\d{3}[A-Z]?\b"
    r"|Pentium\S* (?:CPU +)?[NJG]?[1-5]\d{3}[A-Z]?\b"
)


def _without_avx(flags: tuple[str, ...] | None, model: str | None) -> bool:
    return "avx" not in flags if flags else bool(model and _BEFORE_AVX.search(model))


GLIBC_TOO_OLD = finding(
    "tf.glibc-too-old",
    layer="Machine",
    severity=Severity.ERROR,
    title="This system's C library is older than this TensorFlow needs",
    docs="https://github.com/pypa/manylinux",
)


@GLIBC_TOO_OLD.sign(conclusive=False)
def glibc_too_old(
    context: Context, phases: tuple[Phase, ...], libc: str | None = None, release: Release | None = None
) -> Problem | None:
    """The import fails with: version `GLIBC_2.27' not found."""
    phase = phase_named(phases, "import")
    found = _GLIBC.search(phase.exception or "") if phase and phase.outcome == "raised" else None
    if phase is None or found is None:
        return None
    need = f"{found.group(1)} or newer"
    floor = f"TensorFlow {release.version} (wheel, glibc {release.glibc})" if release and release.glibc else None
    return Problem(
        cause="the wheel was built on a newer system than this one",
        evidence=(
            evidence(libc or "an older C library", context.source("host.libc"), need, floor),
            evidence(str(phase.exception), "import tensorflow"),
        ),
        fixes=(
            Fix(text="Use a newer distribution, or a container on this one", commands=(CONTAINER,)),
            Fix(text="Or conda, which brings its own libstdc++", commands=("conda install -c conda-forge tensorflow",)),
        ),
    )


@GLIBC_TOO_OLD.sign
def glibc_too_old_reported(messages: MessageLog) -> Problem | None:
    """The loader misses a version of GLIBC, GLIBCXX or CXXABI."""
    seen = messages.all("glibc-too-old")
    if not seen:
        return None
    libstdcpp = all("GLIBC_" not in m.values.get("version", "") for m in seen)
    fixes: tuple[Fix, ...] = (
        Fix(text="Use a newer distribution, or a container on this one", commands=(CONTAINER,)),
        Fix(text="Or conda, which brings its own libstdc++", commands=("conda install -c conda-forge tensorflow",)),
    )
    if libstdcpp:
        update = "conda install -c conda-forge 'libstdcxx-ng>=12'"
        fixes = (
            Fix(
                text="Put a newer libstdc++ first: conda's, or that of a newer GCC",
                commands=(update, "export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),
            ),
            *fixes,
        )
    return Problem(
        cause="the library was built on a newer system than this one",
        evidence=message_evidence(*seen, need=f"{seen[0].values.get('version', 'it')} or newer"),
        fixes=fixes,
    )


IMPORT_AVX = finding(
    "tf.import-avx",
    layer="Machine",
    severity=Severity.ERROR,
    title="TensorFlow executes an instruction that this CPU does not have",
    docs="https://www.tensorflow.org/install/pip#hardware-requirements",
)


@IMPORT_AVX.sign(conclusive=False)
def import_avx(
    context: Context, phases: tuple[Phase, ...], cpu_flags: tuple[str, ...] | None = None, cpu_model: str | None = None
) -> Problem | None:
    """SIGILL: the official wheels need AVX since 1.6."""
    phase = next((p for p in phases if p.outcome == "died" and p.signal == "SIGILL"), None)
    if phase is None:
        return None
    no_avx = cpu_flags is not None and "avx" not in cpu_flags
    seen = [evidence(f"SIGILL in phase {phase.name}", "the child process", "no illegal instruction")]
    if cpu_flags is not None:
        has = "no AVX" if no_avx else "AVX" + (", AVX2" if "avx2" in cpu_flags else ", no AVX2")
        seen.append(
            evidence(f"{cpu_model or 'CPU'}: {has}", context.source("host.cpu_flags"), "AVX", "TensorFlow's wheels")
        )
    cause = (
        "the official wheels are compiled with AVX, which this CPU lacks; a virtual machine may hide it"
        if no_avx
        else "this CPU has AVX, so this is a build for a newer CPU (AVX2, AVX-512), or another library's instruction"
    )
    return Problem(
        title="Illegal instruction: this CPU has no AVX" if no_avx else None,
        cause=cause,
        evidence=(*seen, *last_lines(phase)),
        fixes=(
            Fix(text="In a virtual machine, set the CPU type to the host's (QEMU, Proxmox: cpu: host)"),
            Fix(
                text="See where it dies",
                commands=(f"{context.remedies.python} -X faulthandler -c 'import tensorflow'",),
            ),
            Fix(
                text="Without AVX in the hardware: conda-forge's build",
                commands=("conda install -c conda-forge tensorflow",),
            ),
        ),
    )


@IMPORT_AVX.sign
def import_avx_reported(
    messages: MessageLog,
    cpu_flags: tuple[str, ...] | None = None,
    wheel_platform: str | None = None,
    cpu_model: str | None = None,
) -> Problem | None:
    """SIGILL, or TensorFlow's own sentence about it, or a CPU without AVX under an import that dies."""
    seen = messages.all("cpu-instructions-missing", "illegal-instruction", "emulated")
    if not seen and "arm64" not in (wheel_platform or "") and _without_avx(cpu_flags, cpu_model):
        seen = messages.all("dll-load-failed", "segmentation-fault", "native-runtime-failed")
    if not seen or messages.has("protobuf-abi", "numpy-abi"):
        return None
    apple = "arm64" in (wheel_platform or "") or any("hardware instruction" in m.text for m in seen)
    what = next(iter(messages.values("cpu-instructions-missing", "instructions")), "AVX")
    cause = (
        f"the wheels are compiled with {what}, which this CPU lacks, or which its virtual machine or emulator "
        "(Rosetta, Docker on Apple silicon) hides"
    )
    if cpu_flags is not None and "avx" in cpu_flags:
        cause = (
            "this CPU has AVX"
            + (" but not AVX2" if "avx2" not in cpu_flags else "")
            + ": this build was made for a newer one"
        )
    fixes = [
        Fix(text="See what the CPU offers", commands=("grep -o -w -E 'avx|avx2|fma|avx512f' /proc/cpuinfo | sort -u",)),
        Fix(text="In a virtual machine, set the CPU type to the host's (QEMU, Proxmox: cpu: host)"),
        Fix(
            text="Without AVX in the hardware: conda-forge's build, or TensorFlow 1.5",
            commands=("conda install -c conda-forge tensorflow",),
        ),
    ]
    if apple:
        fixes.insert(
            0,
            Fix(
                text="On Apple silicon: a native arm64 Python and TensorFlow, not the x86_64 ones under Rosetta",
                commands=(
                    "python3 -c 'import platform; print(platform.machine())'",
                    "python3 -m pip install tensorflow",
                ),
            ),
        )
    return Problem(cause=cause, evidence=message_evidence(*seen), fixes=tuple(fixes))


IMPORT_DLL = finding(
    "tf.import-dll",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="Windows cannot load TensorFlow's native library",
    explained_by=("cuda.*", "cudnn.*", "gpu.none"),
    docs="https://www.tensorflow.org/install/errors",
)


@IMPORT_DLL.sign(conclusive=False)
def import_dll(os: str, phases: tuple[Phase, ...]) -> Problem | None:
    """DLL load failed while importing _pywrap_tensorflow_internal."""
    phase = phase_named(phases, "import")
    if os != "windows" or phase is None or "DLL load failed" not in (phase.exception or ""):
        return None
    return Problem(
        cause="the Visual C++ runtime is missing or too old, or the CPU has no AVX; Windows does not say which DLL",
        evidence=(evidence(str(phase.exception), "import tensorflow", "an import without errors"),),
        fixes=(
            Fix(
                text="Install the Microsoft Visual C++ Redistributable 2015-2022 (x64) and restart",
                commands=("winget install --id Microsoft.VCRedist.2015+.x64 -e",),
            ),
        ),
    )


@IMPORT_DLL.sign(unless=("tf.abi-*", "tf.import-avx", "tf.python-unsupported"))
def import_dll_reported(
    messages: MessageLog, gpu_release: Release | None = None, os: str | None = None
) -> Problem | None:
    """DLL load failed: Windows does not say which."""
    windows_traceback = os == "windows" and messages.has("native-traceback")
    # importlib says so where the DLL is there and cannot be loaded (TensorFlow 1.x)
    unloaded = [
        m for m in messages.all("module-not-found") if m.values.get("module", "").startswith("_pywrap_tensorflow")
    ]
    seen = (
        *messages.all("msvc-missing", "dll-load-failed", "dll-from-cuda"),
        *(messages.all("native-traceback") if windows_traceback else ()),
        *(unloaded if os in (None, "windows") else ()),
    )
    if not seen or (messages.has("loader-error") and not messages.has("dll-load-failed", "msvc-missing")):
        return None
    routine = any("initialization routine failed" in m.text for m in seen)
    next_suspects = (
        f"then CUDA {gpu_release.cuda} and cuDNN {gpu_release.cudnn}, whose bin folders must be on PATH"
        if gpu_release and gpu_release.cuda
        else "then CUDA and cuDNN of this release, whose bin folders must be on PATH"
    )
    cause = "Windows does not say which DLL: first the Visual C++ runtime, missing or too old"
    if routine:
        cause = "a DLL of TensorFlow ran and failed: mostly a CPU without AVX, or a Visual C++ runtime that is too old"
    return Problem(
        cause=f"{cause}; {next_suspects}",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Install the Microsoft Visual C++ Redistributable 2015-2022 (x64) and restart",
                commands=("winget install --id Microsoft.VCRedist.2015+.x64 -e",),
            ),
            Fix(
                text="Make sure that Python is 64-bit and of a version that this TensorFlow supports",
                commands=("python -c \"import sys, struct; print(sys.version, struct.calcsize('P') * 8)\"",),
            ),
            Fix(
                text="See which CUDA DLLs Windows finds",
                commands=("where cudart64_*.dll cublas64_*.dll cudnn64_*.dll",),
            ),
        ),
    )


IMPORT_HANG = finding(
    "tf.import-hang",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="The import of TensorFlow does not end",
    explained_by=("driver.unresponsive", "gpu.arch-too-new"),
    docs="https://www.tensorflow.org/install/errors",
)


@IMPORT_HANG.sign(conclusive=False)
def import_hang(context: Context, phases: tuple[Phase, ...]) -> Problem | None:
    """The import phase ran into its deadline."""
    phase = phase_named(phases, "import")
    if phase is None or phase.outcome != "timeout":
        return None
    return Problem(
        title=f"The import of TensorFlow did not end within {phase.seconds or 0:.0f} s",
        cause="it waits for something (a network file system, a lock, a hung driver), or it got too little time",
        evidence=(evidence(how_it_ended(phase), "import tensorflow", "an import"), *last_lines(phase)),
        fixes=(
            Fix(
                text="See where it waits: Python prints its stack after 60 s",
                commands=(
                    f"{context.remedies.python} -c "
                    "'import faulthandler; faulthandler.dump_traceback_later(60, exit=True); import tensorflow'",
                ),
            ),
            Fix(text="On a slow disk, give it more time", commands=(context.remedies.doctor("--timeout 600"),)),
        ),
    )


@IMPORT_HANG.sign
def import_hang_reported(context: Context, messages: MessageLog) -> Problem | None:
    """Somebody says that the import never ends."""
    seen = messages.all("import-hangs")
    if not seen:
        return None
    return Problem(
        cause="it waits for something: a network file system, a lock, a hung driver, or PTX that is compiled",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="See where it waits: Python prints its stack after 60 s",
                commands=(
                    f"{context.remedies.python} -c 'import faulthandler; "
                    f"faulthandler.dump_traceback_later(60, exit=True); import tensorflow'",
                ),
            ),
        ),
    )


IMPORT_FAILED = finding(
    "tf.import-failed",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="TensorFlow cannot be imported",
    explained_by=(
        "tf.abi-*",
        "tf.glibc-too-old",
        "tf.import-avx",
        "tf.import-dll",
        "tf.shadowed",
        "tf.package-conflict",
        "tf.package-removed",
        "cuda.*",
        "cudnn.*",
    ),
    pointless_after=("tf.not-installed", "tf.import-hang"),
    docs="https://www.tensorflow.org/install/errors",
)


@IMPORT_FAILED.sign(conclusive=False)
def import_failed(context: Context, phases: tuple[Phase, ...]) -> Problem | None:
    """The import raised, or ended the process."""
    phase = phase_named(phases, "import")
    if phase is None or phase.outcome not in ("raised", "died"):
        return None
    last = last_lines(phase)
    return Problem(
        title="TensorFlow cannot be imported: " + how_it_ended(phase) if phase.outcome == "died" else None,
        cause=f"the phase import ended so: {how_it_ended(phase)}",
        evidence=(evidence(how_it_ended(phase), "import tensorflow", "an import without errors"), *last),
        fixes=(
            Fix(
                text="Install it anew in a clean environment",
                commands=(
                    f"{context.remedies.python} -m venv ~/tf-clean",
                    *context.remedies.pip_install("tensorflow[and-cuda]", python="~/tf-clean/bin/python"),
                    "tfgpu doctor --python ~/tf-clean/bin/python",
                ),
            ),
        ),
    )


@IMPORT_FAILED.sign(
    unless=(
        "tf.abi-*",
        "tf.glibc-too-old",
        "tf.import-avx",
        "tf.import-dll",
        "tf.shadowed",
        "tf.package-*",
        "tf.python-unsupported",
        "tf.wrong-env",
        "cuda.*",
        "cudnn.*",
        "driver.*",
        "xla.*",
        "gpu.*",
        "container.*",
        "wsl.*",
        "memory.*",
        "nccl.*",
    )
)
def import_failed_reported(context: Context, messages: MessageLog) -> Problem | None:
    """The import fails for a reason that nothing else explains."""
    seen = messages.all(
        "native-runtime-failed", "undefined-symbol", "wrong-architecture", "segmentation-fault", "tf-module-missing"
    )
    if not seen:
        return None
    return Problem(
        cause="the text does not say more than this; the last lines of the whole output usually do",
        evidence=message_evidence(*seen, *messages.all("exception")),
        fixes=(
            Fix(text="Let the doctor look at that environment", commands=("tfgpu doctor",)),
            Fix(
                text="Or install it anew in a clean environment",
                commands=(
                    f"{value_or(context.facts.python.executable, 'python3')} -m venv ~/tf-clean",
                    *context.remedies.pip_install("tensorflow[and-cuda]", python="~/tf-clean/bin/python"),
                ),
            ),
        ),
    )
