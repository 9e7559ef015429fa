"""Rules about the import of TensorFlow: what keeps it from running at all."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.phases import how_it_ended, last_lines, phase_named
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Phase
from tfgpu_doctor.records.report import Fix, Severity

ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"
CONTAINER = "docker run --gpus all -it --rm tensorflow/tensorflow:latest-gpu bash"
_GLIBC = re.compile(r"version [`'\"]?((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)'? not found")


@rule(
    "tf.import-avx",
    Severity.ERROR,
    "TensorFlow executes an instruction that this CPU does not have",
    needs=("tensorflow.phases",),
    wants=("host.cpu_flags", "host.cpu_model"),
    docs="https://www.tensorflow.org/install/pip#hardware-requirements",
)
def import_avx(
    context: Context, phases: tuple[Phase, ...], flags: tuple[str, ...] | None, model: str | None
) -> Problem | None:
    """SIGILL: the official wheels need AVX since 1.6."""
    phase = next((p for p in phases if p.outcome == "died" and p.signal == "SIGILL"), None)
    if phase is None:
        return None
    no_avx = flags is not None and "avx" not in flags
    seen = [evidence(f"SIGILL in phase {phase.name}", "the child process", "no illegal instruction")]
    if flags is not None:
        has = "no AVX" if no_avx else "AVX" + (", AVX2" if "avx2" in flags else ", no AVX2")
        seen.append(
            evidence(f"{model or 'CPU'}: {has}", context.source("host.cpu_flags"), "AVX", "TensorFlow's wheels")
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


@rule(
    "tf.glibc-too-old",
    Severity.ERROR,
    "This system's C library is older than this TensorFlow needs",
    needs=("tensorflow.phases",),
    wants=("host.libc", "derived.release"),
    docs="https://github.com/pypa/manylinux",
)
def glibc_too_old(
    context: Context, phases: tuple[Phase, ...], libc: str | None, release: Release | None
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


@rule(
    "tf.import-dll",
    Severity.ERROR,
    "Windows cannot load TensorFlow's native library",
    needs=("host.os", "tensorflow.phases"),
    wants=("derived.release",),
    docs=ERRORS_GUIDE,
)
def import_dll(context: Context, os: str, phases: tuple[Phase, ...], release: Release | None) -> Problem | None:
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


@rule(
    "tf.import-hang",
    Severity.ERROR,
    "The import of TensorFlow does not end",
    needs=("tensorflow.phases",),
    explained_by=("driver.unresponsive",),
    docs=ERRORS_GUIDE,
)
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


@rule(
    "tf.import-failed",
    Severity.ERROR,
    "TensorFlow cannot be imported",
    needs=("tensorflow.phases",),
    requires=("tf.not-installed", "tf.import-hang"),
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
    docs=ERRORS_GUIDE,
)
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
