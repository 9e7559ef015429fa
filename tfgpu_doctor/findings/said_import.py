"""Rules over the words in which Python fails to import TensorFlow."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.imports import CONTAINER, ERRORS_GUIDE
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.report import Fix, Severity

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


@rule(
    "tf.glibc-too-old",
    Severity.ERROR,
    "This system's C library is older than this TensorFlow needs",
    needs=_TOLD,
    wants=("derived.release",),
    docs="https://github.com/pypa/manylinux",
)
def glibc_too_old(context: Context, said: Said, release: Release | None) -> Problem | None:
    """The loader misses a version of GLIBC, GLIBCXX or CXXABI."""
    seen = said.all("glibc-too-old")
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
        evidence=heard(*seen, need=f"{seen[0].values.get('version', 'it')} or newer"),
        fixes=fixes,
    )


@rule(
    "tf.import-avx",
    Severity.ERROR,
    "TensorFlow executes an instruction that this CPU does not have",
    needs=_TOLD,
    wants=("host.cpu_flags", "python.wheel_platform", "host.cpu_model"),
    docs="https://www.tensorflow.org/install/pip#hardware-requirements",
)
def import_avx(
    context: Context, said: Said, flags: tuple[str, ...] | None, platform: str | None, model: str | None
) -> Problem | None:
    """SIGILL, or TensorFlow's own sentence about it, or a CPU without AVX under an import that dies."""
    seen = said.all("cpu-instructions-missing", "illegal-instruction", "emulated")
    if not seen and "arm64" not in (platform or "") and _without_avx(flags, model):
        seen = said.all("dll-load-failed", "segmentation-fault", "native-runtime-failed")
    if not seen or said.has("protobuf-abi", "numpy-abi"):
        return None
    apple = "arm64" in (platform or "") or any("hardware instruction" in m.text for m in seen)
    what = next(iter(said.values("cpu-instructions-missing", "instructions")), "AVX")
    cause = (
        f"the wheels are compiled with {what}, which this CPU lacks, or which its virtual machine or emulator "
        "(Rosetta, Docker on Apple silicon) hides"
    )
    if flags is not None and "avx" in flags:
        cause = (
            "this CPU has AVX"
            + (" but not AVX2" if "avx2" not in flags else "")
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
    return Problem(cause=cause, evidence=heard(*seen), fixes=tuple(fixes))


# Intel's before Sandy Bridge and those of its cheap lines that never got it; AMD's before Bulldozer
_BEFORE_AVX = re.compile(
    r"Core(?:\(TM\))? ?2 (?:Duo|Quad|Extreme|Solo)|\bi[357](?: CPU)? +[A-Z]? ?\d{3}\b"
    r"|Xeon\S* +(?:CPU +)?[ELWX][57][3-6]\d\d\b|\bAtom\b|\bPhenom\b"
    r"|\bAthlon\S* (?:II|64|X2)\b|Celeron\S* (?:CPU +)?[NJG]?[1-5]\d{3}[A-Z]?\b"
    r"|Pentium\S* (?:CPU +)?[NJG]?[1-5]\d{3}[A-Z]?\b"
)


def _without_avx(flags: tuple[str, ...] | None, model: str | None) -> bool:
    return "avx" not in flags if flags else bool(model and _BEFORE_AVX.search(model))


@rule(
    "tf.import-dll",
    Severity.ERROR,
    "Windows cannot load TensorFlow's native library",
    needs=_TOLD,
    wants=("derived.gpu_release", "host.os"),
    requires=("tf.abi-*", "tf.import-avx", "tf.python-unsupported"),
    explained_by=("cuda.*", "cudnn.*", "gpu.none"),
    docs=ERRORS_GUIDE,
)
def import_dll(context: Context, said: Said, release: Release | None, os: str | None) -> Problem | None:
    """DLL load failed: Windows does not say which."""
    windows_traceback = os == "windows" and said.has("native-traceback")
    # importlib says so where the DLL is there and cannot be loaded (TensorFlow 1.x)
    unloaded = [m for m in said.all("module-not-found") if m.values.get("module", "").startswith("_pywrap_tensorflow")]
    seen = (
        *said.all("msvc-missing", "dll-load-failed", "dll-from-cuda"),
        *(said.all("native-traceback") if windows_traceback else ()),
        *(unloaded if os in (None, "windows") else ()),
    )
    if not seen or (said.has("loader-error") and not said.has("dll-load-failed", "msvc-missing")):
        return None
    routine = any("initialization routine failed" in m.text for m in seen)
    next_suspects = (
        f"then CUDA {release.cuda} and cuDNN {release.cudnn}, whose bin folders must be on PATH"
        if release and release.cuda
        else "then CUDA and cuDNN of this release, whose bin folders must be on PATH"
    )
    cause = "Windows does not say which DLL: first the Visual C++ runtime, missing or too old"
    if routine:
        cause = "a DLL of TensorFlow ran and failed: mostly a CPU without AVX, or a Visual C++ runtime that is too old"
    return Problem(
        cause=f"{cause}; {next_suspects}",
        evidence=heard(*seen),
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


@rule(
    "tf.import-hang",
    Severity.ERROR,
    "The import of TensorFlow does not end",
    needs=_TOLD,
    explained_by=("driver.unresponsive", "gpu.arch-too-new"),
    docs=ERRORS_GUIDE,
)
def import_hang(context: Context, said: Said) -> Problem | None:
    """Somebody says that the import never ends."""
    seen = said.all("import-hangs")
    if not seen:
        return None
    return Problem(
        cause="it waits for something: a network file system, a lock, a hung driver, or PTX that is compiled",
        evidence=heard(*seen),
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


@rule(
    "tf.import-failed",
    Severity.ERROR,
    "TensorFlow cannot be imported",
    needs=_TOLD,
    requires=_OTHER_IMPORT,
    docs=ERRORS_GUIDE,
)
def import_failed(context: Context, said: Said) -> Problem | None:
    """The import fails for a reason that nothing else explains."""
    seen = said.all(
        "native-runtime-failed", "undefined-symbol", "wrong-architecture", "segmentation-fault", "tf-module-missing"
    )
    if not seen:
        return None
    return Problem(
        cause="the text does not say more than this; the last lines of the whole output usually do",
        evidence=heard(*seen, *said.all("exception")),
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
