"""Builds of TensorFlow without CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.facts.facts import Build, Known, lists_gpu, value_or
from tfgpu_doctor.facts.report import Alternative, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, minor
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Devices
from tfgpu_doctor.findings.library_fixes import jetpack, keep_one, with_metal
from tfgpu_doctor.matrix.loader import Release

GUIDE = "https://www.tensorflow.org/install/pip"
# what only a build with CUDA prints, whatever version is stated
_OF_A_CUDA_BUILD = (
    "library-not-opened",
    "library-opened",
    "gpu-created",
    "gpu-found",
    "cuinit-failed",
    "cudart-not-found",
)


def _severity(messages: MessageLog | None) -> Severity | None:
    """A warning where the question is why TensorFlow cannot be imported at all, and not about a GPU."""
    return Severity.WARNING if messages and messages.stops_import else None


# what ends the installation, before a GPU is of any account
NOT_THERE_YET = ("no-distribution", "shim-not-published", "wheel-not-supported")
WINDOWS_NATIVE = finding(
    "tf.windows-native",
    layer="TensorFlow",
    title="TensorFlow 2.11 and later have no GPU support on native Windows",
    cause="the Windows wheels contain no CUDA since 2.11; WSL2 runs the Linux wheels on the same GPU",
    docs="https://www.tensorflow.org/install/pip#windows-native",
    about_gpus=True,
    fixes=lambda _: (Fix("Use WSL2 and the Linux wheels there, or on Windows itself TensorFlow 2.10 with CUDA 11.2"),),
)


@WINDOWS_NATIVE.sign()
def release_without_cuda(
    context: Context, os: str, release: Release, messages: MessageLog | None = None, python_version: str | None = None
) -> Problem | None:
    """The last release with CUDA for native Windows is 2.10; a CPU package of before had a sibling with CUDA."""
    if os != "windows" or release.gpu or not at_least(release.version, "2.11"):
        return None
    if messages and messages.has(*_OF_A_CUDA_BUILD, "loader-error", *NOT_THERE_YET):
        return None
    version, python = context.facts.tensorflow.version, python_version and f"Python {python_version}"
    named = version.value if isinstance(version, Known) and version.grade != "inferred" else None
    what = f"{release.package} {named}" if named else python or "TensorFlow"
    where = context.source("host.os" if named or not python else "python.version")
    return Problem(
        severity=_severity(messages),
        evidence=(evidence(f"{what} on Windows", where, "WSL2, or TensorFlow 2.10", "wheels"),),
        fixes=(*context.remedies.use_wsl(), *_native(context)),
    )


@WINDOWS_NATIVE.sign()
def said_by_tensorflow(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """TensorFlow logs it itself when it lists its GPUs."""
    said = messages.all("no-gpu-on-windows") if os == "windows" else ()
    return Problem(evidence=message_evidence(*said, most=1), fixes=(*context.remedies.use_wsl(), *_native(context)))


@WINDOWS_NATIVE.sign()
def not_after_2_10(context: Context, os: str, messages: MessageLog) -> Problem | None:
    """Somebody misses the GPU in releases after 2.10, whichever one a form names."""
    said = messages.all("after-2.10") if os == "windows" and messages.has("no-gpu-listed", "gpu-fails-said") else ()
    return Problem(
        evidence=message_evidence(*said, most=1), fixes=(*context.remedies.use_wsl(), *_native(context)), sure=True
    )


@WINDOWS_NATIVE.sign()
def newest_by_pip_on_windows(
    context: Context, os: str, messages: MessageLog, tensorflow_version: str | None = None
) -> Problem | None:
    """pip installed no named release, and so today's, and TensorFlow lists no GPU."""
    lines = [one for one in messages.all("tensorflow-installed") if " install " in one.text]
    if context.probed or os != "windows" or tensorflow_version or not lines or not messages.has("no-gpu-listed"):
        return None
    return Problem(
        possible=True,
        cause="pip installs the newest release where none is named, and 2.10 was the last with CUDA on Windows",
        evidence=message_evidence(*lines, most=1),
        fixes=(*context.remedies.use_wsl(), *_native(context)),
    )


def _native(context: Context) -> Iterator[Fix]:
    """The last release that uses a GPU there, where it can use this one."""
    row = context.matrix.tensorflow("2.10.1", "windows_amd64")
    if row and not context.remedies.image and context.remedies.can_use(row):
        text = "Stay on Windows with 2.10 (Python 3.7 to 3.10, NumPy 1, CUDA 11.2 and cuDNN 8.1)"
        create = "conda create -n tf210 -c conda-forge python=3.10 cudatoolkit=11.2 cudnn=8.1.0"
        yield Alternative(text, (create, 'conda run -n tf210 python -m pip install "tensorflow==2.10.1" "numpy<2"'))


_WITH_CUDA = Fix(
    "Install the build with CUDA in its place: before 2.1 the package tensorflow-gpu of the same release, later "
    "tensorflow itself, on Linux from 2.14 on as tensorflow[and-cuda]"
)


def _which_package(context: Context) -> Fix:
    command = context.remedies.filtered(f"{context.remedies.python} -m pip list", "tensorflow")
    return Fix("To decide, see which package it is: tensorflow before 2.1 and tensorflow-cpu have no CUDA", (command,))


_IMAGE_WITH_CUDA = Fix(
    "Use an image whose TensorFlow is a build with CUDA: the one for GPUs of the program's own project, where it has "
    "one (mostly with gpu in its name or tag), or yours, built on one (FROM tensorflow/tensorflow, with -gpu in its "
    "tag) with the program in it; how the container is started does not matter"
)
CPU_BUILD = finding(
    "tf.cpu-build",
    layer="TensorFlow",
    title="This TensorFlow was built for the CPU only",
    cause="a build without CUDA does not look for a GPU, whatever driver and CUDA are installed",
    explained_by=("tf.python-unsupported", "tf.package-conflict"),
    pointless_after=("tf.windows-native", "tf.import-avx"),
    docs=GUIDE,
    about_gpus=True,
    fixes=lambda context: (_WITH_CUDA, *(() if context.probed else (_which_package(context),))),
)
_CAUSES = {  # by the platform of the wheel
    "macos_arm64": "TensorFlow has no CUDA on macOS; Apple's GPUs are used through tensorflow-metal",
    "macos_x86_64": "TensorFlow has no CUDA on macOS",
    "linux_aarch64": "the aarch64 wheels contain no CUDA, whatever their extras; NVIDIA's containers do",
}


@CPU_BUILD.sign()
def build_without_cuda(
    context: Context,
    tensorflow_build: Build | None = None,
    release: Release | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """tf.sysconfig.get_build_info(), or else the wheel: tensorflow-cpu, macOS, aarch64."""
    if tensorflow_build:
        gpu = tensorflow_build.is_cuda_build or tensorflow_build.is_rocm_build
    else:
        printed = messages and messages.has(*_OF_A_CUDA_BUILD, "loader-error", *NOT_THERE_YET)
        gpu = release is None or release.gpu or bool(printed)
    if gpu:
        return None
    name = f"{release.package} {release.version}" if release else "this TensorFlow"
    source = "tf.sysconfig.get_build_info()" if tensorflow_build else f"{name} (wheel)"
    return Problem(
        cause=_CAUSES.get(release.platform if release else "", f"{name} contains no CUDA kernels"),
        evidence=(evidence("no CUDA in the build", source, "a CUDA build"),),
        fixes=_gpu_build(context, release),
        severity=_severity(messages),
        sure=release is not None and release.package == "tensorflow-cpu",  # which another problem does not put in doubt
    )


def _gpu_build(context: Context, release: Release | None) -> tuple[Fix, ...]:
    """A build for GPUs in the place of this one, or of one of which nothing tells the release."""
    if release is None and context.log.has("image-named", "container-start"):
        return (_IMAGE_WITH_CUDA,)
    if context.remedies.on_jetson:
        return (jetpack(context),)
    if context.remedies.os == "macos":
        return _on_macos(context)
    best = context.remedies.reinstall("it can use the GPU")
    return tuple(_in_its_place(context, release, best)) if release else best or (_WITH_CUDA,)


def _in_its_place(context: Context, release: Release, best: tuple[Fix, ...]) -> Iterator[Fix]:
    """Before 2.1, but for 1.15.0, the GPU build of a release was a package of its own."""
    packages = value_or(context.facts.python.packages, ())
    if any((one.name, one.installer) == (release.package, "conda") for one in packages):  # which pip does not replace
        yield from best
        return
    uninstall = context.remedies.pip_uninstall(release.package)
    sibling = context.matrix.tensorflow(release.version, release.platform, "tensorflow-gpu")
    python = minor(value_or(context.facts.python.version, "")) or None
    fits = sibling and python in (None, *sibling.python) and context.remedies.can_use(sibling)
    if sibling and fits and not context.remedies.image and sibling.gpu and sibling.version == release.version:
        needs = f"it needs CUDA {sibling.cuda} and cuDNN {sibling.cudnn}"
        install = context.remedies.pip_install(f"{sibling.package}=={sibling.version}")
        text = f"Install the GPU build of this release, {sibling.package}; {needs}"
        yield Fix(text, (uninstall, *install))
    for fix in best[:1] if release.package != "tensorflow" else ():
        yield Fix(fix.text, (uninstall, *fix.commands))
    yield from best if release.package == "tensorflow" else ()


@CPU_BUILD.sign()
def cpu_build_said(context: Context, messages: MessageLog, tensorflow_version: str | None = None) -> Problem | None:
    """Somebody tells that the package is the one without CUDA; before 0.12 both builds were named tensorflow."""
    if at_least(tensorflow_version, "0.12") is False:
        return None
    said = () if messages.has("gpu-created", "library-opened", "conda-build") else messages.all("cpu-build-said")
    fixes = context.remedies.reinstall("it can use the GPU") if said else ()
    if messages.has("two-tensorflows"):  # another package brings the one without CUDA, and would do so again
        fixes = keep_one(context)
    return Problem(evidence=message_evidence(*said), fixes=fixes, possible=True)


@CPU_BUILD.sign()
def cpu_build_messages(context: Context, messages: MessageLog) -> Problem | None:
    """conda installed its mkl, eigen or cpu variant, or TensorFlow prints that it has no CUDA."""
    variants = messages.all("conda-build")
    if variants and variants[-1].values.get("variant") != "cpu":
        variants = ()  # the last one installed is what runs
    seen = (*(m for m in variants if m.values.get("variant") == "cpu"), *messages.all("built-without-cuda"))
    if "cpu-features" in messages.values("harmless", "what") and not messages.has(*_OF_A_CUDA_BUILD, "no-cuda-device"):
        # a session of a CUDA build logs its GPUs, or why it has none, between these two lines
        seen += messages.all("no-known-devices")
    if not seen or messages.has("gpu-created", "library-opened"):
        return None
    return Problem(
        severity=Severity.WARNING if messages.stops_import or messages.has("other-version-runs") else None,
        cause="conda-forge built TensorFlow for the CPU alone before 2.6"
        if messages.values("conda-build", "channel")
        else "conda has CPU and GPU builds of each version; its solver and the driver decide which one it uses",
        evidence=message_evidence(*seen),
        fixes=context.remedies.reinstall("it can use the GPU"),
    )


@CPU_BUILD.sign()
def lists_no_gpu_and_seeks_none(context: Context, messages: MessageLog) -> Problem | None:
    """An old release lists its devices; a build with CUDA logs the GPU then, or why there is none."""
    listed = messages.all("no-gpu-listed")
    # until 2.2 it says so of the CPU's instructions
    words = [one for one in messages.all("harmless") if "was not compiled to use" in one.text]
    if not listed or not words or messages.has(*_OF_A_CUDA_BUILD, "no-cuda-device", "loader-error"):
        return None
    return Problem(
        cause="a build with CUDA logs here what it finds; up to 2.0 the package tensorflow was the build for the CPU",
        evidence=message_evidence(*words, *listed),
        fixes=(
            _IMAGE_WITH_CUDA
            if context.is_in_container
            else Fix(
                "See which packages there are; of a release before 2.1, uninstall tensorflow and tensorflow-gpu, and "
                "install tensorflow-gpu alone",
                ("python -m pip list",),
            ),
        ),
    )


@CPU_BUILD.sign()
def wheel_on_jetson(context: Context, messages: MessageLog, devices: Devices | None = None) -> Problem | None:
    """A Jetson that lists no GPU, and no other complaint."""
    jetson = messages.all("jetson")
    misses_one = devices is not None or messages.has("no-gpu-listed", "gpu-fails-said")
    in_image = any("/l4t-" in image for image in messages.values("image-named", "image"))  # which holds that build
    misses_one |= bool({"release", "works"} & {*messages.values("question", "about")})
    # since 2.12 the builds for the CPU miss libcudart, too
    complains = messages.complains and not messages.speaks_only_of("cudart-not-found", "no-gpu-listed")
    if in_image or not (jetson and misses_one) or complains or messages.has("gpu-found") or lists_gpu(devices):
        return None
    return Problem(
        title="A Jetson needs the TensorFlow that NVIDIA builds for its JetPack",
        cause="the aarch64 wheels on the index, and most others, are CPU builds; a Jetson's GPU needs the build that "
        "NVIDIA publishes for its JetPack",
        evidence=message_evidence(*jetson),
        fixes=(jetpack(context),),
    )


@CPU_BUILD.sign()
def no_gpu_on_macos(
    context: Context, messages: MessageLog, os: str | None = None, devices: Devices | None = None
) -> Problem | None:
    """A Mac that lists no GPU and has no other complaint."""
    if os != "macos" or devices is None or lists_gpu(devices) or messages.complains:
        return None
    return Problem(
        cause=_CAUSES["macos_arm64"],
        evidence=(evidence("no GPU on macOS", context.source("tensorflow.devices")),),
        fixes=_on_macos(context),
    )


def _on_macos(context: Context) -> tuple[Fix, ...]:
    return (*with_metal(context), Fix("Use the CPU: TensorFlow works there as it is installed"))
