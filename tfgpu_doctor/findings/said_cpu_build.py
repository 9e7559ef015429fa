"""The rule over words that show a TensorFlow built for the CPU only."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_packages import PIP_GUIDE, ended_on_macos
from tfgpu_doctor.records.facts import Message, TfDevice
from tfgpu_doctor.records.report import Evidence, Fix, Severity


@rule(
    "tf.cpu-build",
    Severity.ERROR,
    "This TensorFlow is built for the CPU only",
    needs=("derived.told",),
    wants=("tensorflow.devices", "host.os", "python.wheel_platform"),
    requires=("tf.windows-native",),
    docs=PIP_GUIDE,
)
def cpu_build(
    context: Context, said: Said, devices: tuple[TfDevice, ...] | None, os: str | None, platform: str | None
) -> Problem | None:
    """conda installed its mkl, eigen or cpu variant, or TensorFlow says itself that it has no CUDA."""
    variants = said.all("conda-build")
    chosen = [m for m in variants if m.values.get("variant") == "cpu"]
    seen = (*(chosen if variants and variants[-1] in chosen else ()), *said.all("built-without-cuda"))
    lists_none = devices is not None and not any(device.kind == "GPU" for device in devices)
    if not seen and said.has("jetson") and (lists_none or devices is None) and not said.complains:
        return _on_jetson(said)
    if not seen and os == "macos" and lists_none and not said.complains:
        seen_none = evidence("no GPU", context.source("tensorflow.devices"))
        return _on_a_mac(seen_none, evidence("macOS", context.source("host.os")))
    if ended := ended_on_macos(said, platform):
        return _on_a_mac(*heard(*ended))
    if not seen and not said.has(*_OF_A_GPU_BUILD) and (silent := said.all("no-known-devices")):
        return _never_looked(silent, context)
    if not seen or said.has("gpu-created", "library-opened"):
        return None
    other_language = any("libtensorflow" in m.text for m in seen)
    return Problem(
        severity=Severity.WARNING if said.stops_import or said.has("other-version-runs") else None,
        cause="libtensorflow, the library under the bindings of other languages, comes in a CPU and a GPU build, and "
        "the bindings take the former where nobody asks for the other"
        if other_language
        else "conda has CPU and GPU builds of one version and takes the one that its solver and the machine's driver "
        "allow",
        evidence=heard(*seen),
        fixes=(
            *context.remedies.reinstall_best("it can use the GPU"),
            Fix(
                text="Or ask conda for the GPU build by name (the override lets it solve without a driver in sight)",
                commands=("CONDA_OVERRIDE_CUDA=12 conda install -c conda-forge 'tensorflow=*=cuda*'",),
            ),
        ),
    )


# what a build with CUDA logs before it lists its devices, whatever it finds
_OF_A_GPU_BUILD = (
    *("gpu-created", "library-opened", "library-not-opened", "cuinit-failed", "gpu-ignored", "cudart-not-found"),
    *("no-cuda-device", "kernel-driver-not-running", "hidden-by-variable"),
)


def _never_looked(seen: tuple[Message, ...], context: Context) -> Problem:
    return Problem(
        cause="a build with CUDA says what becomes of the GPU before it lists its devices; this one never looked for "
        "one, so it is built for the CPU, whatever the package is called",
        evidence=heard(*seen),
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


def _on_jetson(said: Said) -> Problem:
    return Problem(
        cause="wheels for aarch64 on the index, and most that others offer, are CPU builds; a Jetson's GPU needs the "
        "one that NVIDIA builds for its JetPack",
        evidence=heard(*said.all("jetson")),
        fixes=(
            Fix(
                text="See which JetPack it is, and install NVIDIA's TensorFlow for that, or use its "
                "container l4t-tensorflow",
                commands=("cat /etc/nv_tegra_release", "apt-cache show nvidia-jetpack | grep Version"),
            ),
        ),
    )
