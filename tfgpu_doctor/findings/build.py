"""Findings about build."""

from __future__ import annotations

from packaging.version import Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.packages import ended_on_macos
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Build, ComputeCheck, Message, TfDevice
from tfgpu_doctor.records.report import Evidence, Fix, Severity

ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"


_LATER = ("build", "devices", "details", "compute", "xla")


# what only a build with CUDA says, whatever version is stated
_OF_A_GPU_BUILD = (
    "library-not-opened",
    "library-opened",
    "gpu-created",
    "cuinit-failed",
    "cudart-not-found",
    "loader-error",
)


def _aside(told: MessageLog | None) -> Severity | None:
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


def _is_wrong(check: ComputeCheck) -> bool:
    """Whether there was a result, which names its device, and it was wrong; without one, the computation failed."""
    return not check.ok and (check.placed_on is not None or not check.error)


# what a build with CUDA logs before it lists its devices, whatever it finds
_REPORTED_OF_A_GPU_BUILD = (
    *("gpu-created", "library-opened", "library-not-opened", "cuinit-failed", "gpu-ignored", "cudart-not-found"),
    *("no-cuda-device", "kernel-driver-not-running", "hidden-by-variable"),
)


def _never_looked(seen: tuple[Message, ...], context: Context) -> Problem:
    return Problem(
        cause="a build with CUDA says what becomes of the GPU before it lists its devices; this one never looked for "
        "one, so it is built for the CPU, whatever the package is called",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="See which builds are installed",
                commands=("conda list | grep -E 'tensorflow|mkl'", "python -m pip list | grep -i tensorflow"),
            ),
            *context.remedies.reinstall_best("it can use the GPU"),
        ),
    )


def _on_a_mac(*seen: Evidence) -> Problem:
    metal = Fix(
        text="On a Mac with Apple's processor or an AMD card: Apple's plug-in for Metal, with a TensorFlow "
        "that it knows",
        commands=("python3 -m pip install tensorflow-metal",),
    )
    return Problem(
        cause="TensorFlow has no CUDA on macOS since 1.2; Apple's GPUs are reached through tensorflow-metal, "
        "and the old "
        "fork tensorflow_macos lists none",
        evidence=seen,
        fixes=(metal, Fix(text="Or use a machine with an NVIDIA GPU and Linux")),
    )


def _on_jetson(said: MessageLog) -> Problem:
    return Problem(
        cause="wheels for aarch64 on the index, and most that others offer, are CPU builds; a Jetson's GPU needs the "
        "one that NVIDIA builds for its JetPack",
        evidence=message_evidence(*said.all("jetson")),
        fixes=(
            Fix(
                text="See which JetPack it is, and install NVIDIA's TensorFlow for that, or use its "
                "container l4t-tensorflow",
                commands=("cat /etc/nv_tegra_release", "apt-cache show nvidia-jetpack | grep Version"),
            ),
        ),
    )


WINDOWS_NATIVE = finding(
    "tf.windows-native",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="TensorFlow 2.11 and later use no GPU on native Windows",
    docs="https://www.tensorflow.org/install/pip#windows-native",
    about_gpus=True,
)


@WINDOWS_NATIVE.sign
def windows_native(context: Context, os: str, release: Release, messages: MessageLog | None = None) -> Problem | None:
    """The last release with CUDA for native Windows is 2.10."""
    if os != "windows" or release.gpu or (messages and messages.has(*_OF_A_GPU_BUILD)):
        return None
    if Version(release.version) < Version("2.11"):
        return None  # a CPU package of an age in which there was another one
    return Problem(
        severity=_aside(messages),
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


CPU_BUILD = finding(
    "tf.cpu-build",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="This TensorFlow is built for the CPU only",
    pointless_after=("tf.windows-native",),
    docs="https://www.tensorflow.org/install/pip",
    about_gpus=True,
)


@CPU_BUILD.sign
def cpu_build(
    context: Context,
    tensorflow_build: Build | None = None,
    release: Release | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """tensorflow-cpu, macOS, an aarch64 wheel, a CPU build of conda."""
    gpu = (
        tensorflow_build.is_cuda_build or tensorflow_build.is_rocm_build
        if tensorflow_build
        else release is None or release.gpu
    )
    if gpu or (messages and not tensorflow_build and messages.has(*_OF_A_GPU_BUILD)):
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
    said = "tf.sysconfig.get_build_info()" if tensorflow_build else f"{name} (wheel)"
    seen = evidence("no CUDA in the build", said, "a CUDA build")
    return Problem(cause=why, evidence=(seen,), fixes=fixes, severity=_aside(messages))


@CPU_BUILD.sign
def cpu_build_reported(
    context: Context,
    messages: MessageLog,
    devices: tuple[TfDevice, ...] | None = None,
    os: str | None = None,
    wheel_platform: str | None = None,
) -> Problem | None:
    """conda installed its mkl, eigen or cpu variant, or TensorFlow says itself that it has no CUDA."""
    variants = messages.all("conda-build")
    chosen = [m for m in variants if m.values.get("variant") == "cpu"]
    seen = (*(chosen if variants and variants[-1] in chosen else ()), *messages.all("built-without-cuda"))
    lists_none = devices is not None and not any(device.kind == "GPU" for device in devices)
    if not seen and messages.has("jetson") and (lists_none or devices is None) and not messages.complains:
        return _on_jetson(messages)
    if not seen and os == "macos" and lists_none and not messages.complains:
        seen_none = evidence("no GPU", context.source("tensorflow.devices"))
        return _on_a_mac(seen_none, evidence("macOS", context.source("host.os")))
    if ended := ended_on_macos(messages, wheel_platform):
        return _on_a_mac(*message_evidence(*ended))
    if not seen and not messages.has(*_REPORTED_OF_A_GPU_BUILD) and (silent := messages.all("no-known-devices")):
        return _never_looked(silent, context)
    if not seen or messages.has("gpu-created", "library-opened"):
        return None
    other_language = any("libtensorflow" in m.text for m in seen)
    return Problem(
        severity=Severity.WARNING if messages.stops_import or messages.has("other-version-runs") else None,
        cause="libtensorflow, the library under the bindings of other languages, comes in a CPU and a GPU build, and "
        "the bindings take the former where nobody asks for the other"
        if other_language
        else "conda has CPU and GPU builds of one version and takes the one that its solver and the machine's driver "
        "allow",
        evidence=message_evidence(*seen),
        fixes=(
            *context.remedies.reinstall_best("it can use the GPU"),
            Fix(
                text="Or ask conda for the GPU build by name (the override lets it solve without a driver in sight)",
                commands=("CONDA_OVERRIDE_CUDA=12 conda install -c conda-forge 'tensorflow=*=cuda*'",),
            ),
        ),
    )
