"""Rules about TensorFlow itself: is it a GPU build, does it compute correctly, is it known to be broken?"""

from __future__ import annotations

from packaging.version import Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.message_log import Said
from tfgpu_doctor.findings.phases import how_it_ended, last_lines
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.records.facts import Build, ComputeCheck, Package, Phase, Soname
from tfgpu_doctor.records.report import Fix, Severity

PIP_GUIDE = "https://www.tensorflow.org/install/pip"
ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"
_LATER = ("build", "devices", "details", "compute", "xla")


@rule(
    "tf.cpu-build",
    Severity.ERROR,
    "This TensorFlow is built for the CPU only",
    needs=(),
    wants=("tensorflow.build", "derived.release", "derived.told"),
    requires=("tf.windows-native",),
    docs=PIP_GUIDE,
)
def cpu_build(context: Context, build: Build | None, release: Release | None, told: Said | None) -> Problem | None:
    """tensorflow-cpu, macOS, an aarch64 wheel, a CPU build of conda."""
    gpu = build.is_cuda_build or build.is_rocm_build if build else release is None or release.gpu
    if gpu or (told and not build and told.has(*_OF_A_GPU_BUILD)):
        return None
    name = f"{release.package} {release.version}" if release else "this TensorFlow"
    fixes = context.remedies.reinstall_best("it can use the GPU")
    if fixes and release and release.package != "tensorflow":
        remove = context.remedies.pip_uninstall(release.package)
        fixes = (Fix(text=fixes[0].text, commands=(remove, *fixes[0].commands)),)
    fixes = (*_gpu_sibling(context, release), *fixes)
    why = {
        "macos_arm64": "TensorFlow has no CUDA on macOS; Apple's GPUs are reached through tensorflow-metal",
        "macos_x86_64": "TensorFlow has no CUDA on macOS",
        "linux_aarch64": "the aarch64 wheels hold no CUDA, whatever their extras say; NVIDIA's containers do",
    }.get(release.platform if release else "", f"{name} holds no CUDA kernels")
    said = "tf.sysconfig.get_build_info()" if build else f"{name} (wheel)"
    seen = evidence("no CUDA in the build", said, "a CUDA build")
    return Problem(why, (seen,), fixes, severity=_aside(told))


# what only a build with CUDA says, whatever version is stated
_OF_A_GPU_BUILD = (
    "library-not-opened",
    "library-opened",
    "gpu-created",
    "cuinit-failed",
    "cudart-not-found",
    "loader-error",
)


def _aside(told: Said | None) -> Severity | None:
    """A warning where somebody asks why TensorFlow cannot be imported at all, and not about a GPU."""
    imports = told is not None and (told.stops_import or (told.has("import-line") and told.has("traceback")))
    return Severity.WARNING if imports else None


def _gpu_sibling(context: Context, release: Release | None) -> tuple[Fix, ...]:
    """Before 2.1, but for 1.15.0, the GPU build of a release was a package of its own."""
    gpu = context.matrix.tensorflow(release.version, release.platform, "tensorflow-gpu") if release else None
    if release is None or gpu is None or not gpu.gpu or gpu.version != release.version:
        return ()
    commands = (
        context.remedies.pip_uninstall(release.package),
        *context.remedies.pip_install(f"{gpu.package}=={gpu.version}"),
    )
    text = f"Take the GPU build of this release, {gpu.package}, with CUDA {gpu.cuda} and cuDNN {gpu.cudnn} beside it"
    return (Fix(text=text, commands=commands),)


@rule(
    "tf.windows-native",
    Severity.ERROR,
    "TensorFlow 2.11 and later use no GPU on native Windows",
    needs=("host.os", "derived.release"),
    wants=("derived.told",),
    docs="https://www.tensorflow.org/install/pip#windows-native",
)
def windows_native(context: Context, os: str, release: Release, told: Said | None) -> Problem | None:
    """The last release with CUDA for native Windows is 2.10."""
    if os != "windows" or release.gpu or (told and told.has(*_OF_A_GPU_BUILD)):
        return None
    if Version(release.version) < Version("2.11"):
        return None  # a CPU package of an age in which there was another one
    return Problem(
        severity=_aside(told),
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
        "memory.*",
        "xla.*",
        "env.gpu-thread-mode",
        "tf.shadowed",
    ),
    docs=ERRORS_GUIDE,
)
def run_failed(context: Context, phases: tuple[Phase, ...], checks: tuple[ComputeCheck, ...] | None) -> Problem | None:
    """A phase after the import raised, hung or ended the process, or a computation raised."""
    bad = [p for p in phases if p.name in _LATER and p.outcome in ("raised", "died", "timeout")]
    seen = [
        item
        for p in bad
        for item in (evidence(f"phase {p.name}: {how_it_ended(p)}", "the child process"), *last_lines(p))
    ]
    raised = [check for check in checks or () if check.error and not _is_wrong(check)]
    seen += [evidence(f"{c.kind} on {c.device}: {c.error}", "the child process") for c in raised]
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
    bad = [check for check in checks if _is_wrong(check)]
    if not bad:
        return None
    seen = tuple(
        evidence(
            f"{c.kind} on {c.device}: {c.error or f'residual {c.residual}'}"
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


def _is_wrong(check: ComputeCheck) -> bool:
    """Whether there was a result, which names its device, and it was wrong; without one, the computation failed."""
    return not check.ok and (check.placed_on is not None or not check.error)


@rule(
    "tf.known-bug",
    Severity.WARNING,
    "This TensorFlow release is known to be broken here",
    needs=("derived.release",),
    wants=(
        *("python.version", "derived.cards", "derived.cudnn_release", "derived.cuda_sonames", "python.packages"),
        "host.cpu_flags",
    ),
    docs="https://github.com/tensorflow/tensorflow/releases",
)
def known_bug(
    context: Context,
    release: Release,
    python: str | None,
    cards: tuple[Card, ...] | None,
    cudnn: CudnnRelease | None,
    libraries: tuple[Soname, ...] | None,
    packages: tuple[Package, ...] | None,
    flags: tuple[str, ...] | None,
) -> Problem | None:
    """The matrix knows a defect of this very release whose condition holds here."""
    # NumPy and protobuf have rules of their own
    beside = {one.name: one.version for one in packages or () if one.name not in ("numpy", "protobuf")}
    lost = in_state(libraries or (), "off path")
    issue = context.matrix.issue_for(
        release,
        python=python,
        compute_capabilities=[card.compute_capability for card in cards or ()],
        cudnn=cudnn.version if cudnn else None,
        extra=any(candidate.via == "pip wheel" for library in lost for candidate in library.candidates),
        beside=beside,
        cpu_flags=flags or (),
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
