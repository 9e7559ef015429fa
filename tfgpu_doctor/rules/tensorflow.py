"""Rules about TensorFlow itself: does it import, is it a GPU build, does it compute correctly?"""

from __future__ import annotations

import re

from tfgpu_doctor.facts import Build, ComputeCheck, Phase, Soname
from tfgpu_doctor.matrix import CudnnRelease, Release
from tfgpu_doctor.report import Evidence, Fix, Severity
from tfgpu_doctor.rules.context import Context
from tfgpu_doctor.rules.derived import Card
from tfgpu_doctor.rules.engine import Problem, evidence, rule
from tfgpu_doctor.rules.libraries import in_state

PIP_GUIDE = "https://www.tensorflow.org/install/pip"
ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"
_GLIBC = re.compile(r"version [`'\"]?((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)'? not found")
_LATER = ("build", "devices", "details", "compute", "xla")


def _phase(phases: tuple[Phase, ...], name: str) -> Phase | None:
    return next((phase for phase in phases if phase.name == name), None)


def _ended(phase: Phase) -> str:
    """Say in words how a phase ended."""
    match phase.outcome:
        case "timeout":
            return f"no end after {phase.seconds or 0:.0f} s" + (f" ({phase.note})" if phase.note else "")
        case "died" if phase.signal:
            return f"killed by {phase.signal}" + (f" ({phase.note})" if phase.note else "")
        case "died":
            return f"the process ended with exit code {phase.exit_code}"
        case _:
            return phase.exception or phase.outcome


def _last_lines(phase: Phase) -> tuple[Evidence, ...]:
    lines = phase.traceback[-1:] or phase.log_tail[-3:]
    return tuple(evidence(line, f"last lines of phase {phase.name}") for line in lines if line != phase.exception)


@rule(
    "tf.cpu-build",
    Severity.ERROR,
    "This TensorFlow is built for the CPU only",
    needs=(),
    wants=("tensorflow.build", "derived.release"),
    requires=("tf.windows-native",),
    docs=PIP_GUIDE,
)
def cpu_build(context: Context, build: Build | None, release: Release | None) -> Problem | None:
    """tensorflow-cpu, macOS, an aarch64 wheel, a CPU build of conda."""
    gpu = build.is_cuda_build or build.is_rocm_build if build else release is None or release.gpu
    if gpu:
        return None
    name = f"{release.package} {release.version}" if release else "this TensorFlow"
    fixes = context.remedies.reinstall_best("it can use the GPU")
    if fixes and release and release.package != "tensorflow":
        remove = context.remedies.pip_uninstall(release.package)
        fixes = (Fix(text=fixes[0].text, commands=(remove, *fixes[0].commands)),)
    why = {
        "macos_arm64": "TensorFlow has no CUDA on macOS; Apple's GPUs are reached through tensorflow-metal",
        "macos_x86_64": "TensorFlow has no CUDA on macOS",
        "linux_aarch64": "the aarch64 wheels hold no CUDA, whatever their extras say; NVIDIA's containers do",
    }.get(release.platform if release else "", f"{name} holds no CUDA kernels")
    said = "tf.sysconfig.get_build_info()" if build else f"{name} (wheel)"
    return Problem(cause=why, evidence=(evidence("no CUDA in the build", said, "a CUDA build"),), fixes=fixes)


@rule(
    "tf.windows-native",
    Severity.ERROR,
    "TensorFlow 2.11 and later use no GPU on native Windows",
    needs=("host.os", "derived.release"),
    docs="https://www.tensorflow.org/install/pip#windows-native",
)
def windows_native(context: Context, os: str, release: Release) -> Problem | None:
    """The last release with CUDA for native Windows is 2.10."""
    if os != "windows" or release.gpu:
        return None
    return Problem(
        cause="the Windows wheels hold no CUDA since 2.11; WSL2 runs the Linux wheels on the same card",
        evidence=(
            evidence(
                f"{release.package} {release.version} on Windows", context.source("host.os"), "WSL2, or 2.10", "wheels"
            ),
        ),
        fixes=(
            Fix(text="Use WSL2", commands=("wsl --install", 'python3 -m pip install "tensorflow[and-cuda]"')),
            Fix(
                text="Or stay on Windows with 2.10 (Python 3.7 to 3.10, NumPy 1, CUDA 11.2 and cuDNN 8.1)",
                commands=(
                    "conda create -n tf210 -c conda-forge python=3.10 cudatoolkit=11.2 cudnn=8.1.0",
                    'conda run -n tf210 python -m pip install "tensorflow==2.10.1" "numpy<2"',
                ),
            ),
        ),
    )


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
        evidence=(*seen, *_last_lines(phase)),
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
    phase = _phase(phases, "import")
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
            Fix(text="Use a newer distribution, or a container on this one", commands=_container(context)),
            Fix(text="Or conda, which brings its own libstdc++", commands=("conda install -c conda-forge tensorflow",)),
        ),
    )


def _container(context: Context) -> tuple[str, ...]:
    return ("docker run --gpus all -it --rm tensorflow/tensorflow:latest-gpu bash",)


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
    phase = _phase(phases, "import")
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
    phase = _phase(phases, "import")
    if phase is None or phase.outcome != "timeout":
        return None
    return Problem(
        title=f"The import of TensorFlow did not end within {phase.seconds or 0:.0f} s",
        cause="it waits for something (a network file system, a lock, a hung driver), or it got too little time",
        evidence=(evidence(_ended(phase), "import tensorflow", "an import"), *_last_lines(phase)),
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
    phase = _phase(phases, "import")
    if phase is None or phase.outcome not in ("raised", "died"):
        return None
    last = _last_lines(phase)
    return Problem(
        title="TensorFlow cannot be imported: " + _ended(phase) if phase.outcome == "died" else None,
        cause=f"the phase import ended so: {_ended(phase)}",
        evidence=(evidence(_ended(phase), "import tensorflow", "an import without errors"), *last),
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


@rule(
    "tf.run-failed",
    Severity.ERROR,
    "TensorFlow imports, but fails when it is used",
    needs=("tensorflow.phases",),
    wants=("tensorflow.checks",),
    explained_by=(
        "driver.*",
        "gpu.arch-*",
        "gpu.fault",
        "gpu.mig",
        "cuda.*",
        "cudnn.*",
        "tf.import-avx",
        "compute.*",
        "tf.shadowed",
    ),
    docs=ERRORS_GUIDE,
)
def run_failed(context: Context, phases: tuple[Phase, ...], checks: tuple[ComputeCheck, ...] | None) -> Problem | None:
    """A phase after the import raised, hung or ended the process, or a computation raised."""
    bad = [p for p in phases if p.name in _LATER and p.outcome in ("raised", "died", "timeout")]
    seen = [
        item for p in bad for item in (evidence(f"phase {p.name}: {_ended(p)}", "the child process"), *_last_lines(p))
    ]
    seen += [evidence(f"{c.kind} on {c.device}: {c.error}", "the child process") for c in checks or () if c.error]
    if not seen:
        return None
    names = ", ".join(p.name for p in bad) or "compute"
    phase = "phases" if len(bad) > 1 else "phase"
    return Problem(
        title=f"TensorFlow imports, but fails in the {phase} {names}",
        cause="the driver, CUDA or cuDNN failed underneath; its last words are the evidence",
        evidence=tuple(seen),
        fixes=(
            Fix(
                text="See the whole report, with TensorFlow's own log",
                commands=(context.remedies.doctor("--format json"),),
            ),
        ),
    )


@rule(
    "compute.wrong-result",
    Severity.ERROR,
    "A computation on the GPU gave a wrong result",
    needs=("tensorflow.checks",),
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)
def wrong_result(context: Context, checks: tuple[ComputeCheck, ...]) -> Problem | None:
    """The residual against float64 on the CPU is beyond its tolerance, or the result came from another device."""
    bad = [check for check in checks if not check.ok and not check.error]
    if not bad:
        return None
    seen = tuple(
        evidence(
            f"{c.kind} on {c.device}: residual {c.residual if c.residual is not None else 'none'}"
            + (f", computed on {c.placed_on}" if c.placed_on else ""),
            "verified in float64",
            f"at most {c.tolerance} on {c.device}",
        )
        for c in bad
    )
    return Problem(
        cause="the card computes wrongly (memory errors, overclocking, a defect), or the work was done elsewhere",
        evidence=seen,
        fixes=(
            Fix(
                text="Look for memory errors",
                commands=("nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo dmesg | grep -i xid"),
            ),
            Fix(text="Take back overclocking and run it again", commands=(context.remedies.doctor(),)),
        ),
    )


@rule(
    "tf.known-bug",
    Severity.WARNING,
    "This TensorFlow release is known to be broken here",
    needs=("derived.release",),
    wants=("python.version", "derived.cards", "derived.cudnn_release", "derived.cuda_sonames"),
    docs="https://github.com/tensorflow/tensorflow/releases",
)
def known_bug(
    context: Context,
    release: Release,
    python: str | None,
    cards: tuple[Card, ...] | None,
    cudnn: CudnnRelease | None,
    libraries: tuple[Soname, ...] | None,
) -> Problem | None:
    """The matrix knows a defect of this very release whose condition holds here."""
    lost = in_state(libraries or (), "off path")
    issue = context.matrix.issue_for(
        release,
        python=python,
        compute_capabilities=[card.compute_capability for card in cards or ()],
        cudnn=cudnn.version if cudnn else None,
        extra=any(candidate.via == "pip wheel" for library in lost for candidate in library.candidates),
    )
    if issue is None:
        return None
    here = f"{context.remedies.python} -m pip"
    return Problem(
        title=f"TensorFlow {release.version}: {issue.title}",
        cause=issue.symptom,
        evidence=(
            evidence(
                f"{release.package} {release.version}",
                context.source("tensorflow.version"),
                "a release without this defect",
                issue.source,
            ),
        ),
        fixes=(Fix(text=issue.fix, commands=tuple(c.replace("python3 -m pip", here) for c in issue.commands)),),
        severity=Severity(issue.severity),
    )
