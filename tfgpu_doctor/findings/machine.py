"""Findings about machine."""

from __future__ import annotations

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.driver_answers import (
    RUN_ON_HOST,
    STUB_LIBRARY,
    driver_messages,
    driver_unusable,
    hook_failures,
    no_libcuda,
)
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, Gpu, LibraryFile, Message, PciGpu, SmiResult
from tfgpu_doctor.records.report import Fix, Severity

_OTHER_REASONS = "version mismatch|unsatisfied condition|timed out|timeout"
TOOLKIT_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


_KUBERNETES = Fix(
    text="Ask for a GPU in the pod's resources (the NVIDIA device plugin must run on the node)",
    commands=("kubectl get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu'",),
)


_FIXES = {
    "docker": Fix(
        text="Start the container with --gpus all (the host needs the NVIDIA container toolkit)",
        commands=(
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
            "docker run --rm --gpus all tensorflow/tensorflow:latest-gpu nvidia-smi",
        ),
    ),
    "podman": Fix(
        text="Start the container with the GPU's CDI device (the host needs the NVIDIA container toolkit)",
        commands=(
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "podman run --rm --device nvidia.com/gpu=all docker.io/tensorflow/tensorflow:latest-gpu nvidia-smi",
        ),
    ),
    "kubernetes": _KUBERNETES,
    "apptainer": Fix(
        text="Start the container with --nv",
        commands=("apptainer exec --nv docker://tensorflow/tensorflow:latest-gpu nvidia-smi",),
    ),
    "lxc": Fix(text="Hand the GPU to the container on the host", commands=("lxc config device add CONTAINER gpu gpu",)),
}


def container_fix(kind: str) -> Fix:
    """How a container of that kind gets its GPU."""
    return _FIXES.get(kind, _FIXES["docker"])


_NO_LIBCUDA = 303  # what TensorFlow gives for cuInit when it cannot open libcuda (CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)


def _asked(said: MessageLog) -> bool:
    """Whether the command before the failure asks for GPUs; the last one before it, where several are shown."""
    failures = said.all(
        "cuinit-failed", "kernel-driver-not-running", "no-cuda-device", "libcuda-not-loaded", "nvml-blocked"
    )
    first = min((message.line for message in failures), default=None)
    starts = sorted(said.all("container-start"), key=lambda message: message.line)
    before = [one for one in starts if first is None or one.line <= first] or starts
    return bool(before) and before[-1].values["gpus"] == "yes"


def _nothing_inside(
    said: MessageLog, container: str | None, init: CallResult | None, *, works: bool, wsl: bool
) -> tuple[Message, ...] | None:
    """What shows that no GPU was handed in, be it by silence; None where nothing does."""
    started = said.has("container-start")  # nvidia-smi's table may be that of another container, or of the host
    asked = not said.has("image-build") and _asked(said)
    # the stub of CUDA's images answers, and the kernel has no driver either: nothing was handed in
    nothing = said.has("kernel-driver-not-running", "no-device-node")
    stubbed = init is not None and init.code in STUB_LIBRARY and nothing
    # whoever hands a GPU in hands nvidia-smi in with it
    entered = min((m.line for m in said.all("container-start")), default=None)
    bare = [
        m
        for m in said.all("smi-not-found")
        if "executable file not found" in m.text or (entered is not None and m.line > entered)
    ]
    # with GPUs that were asked for it starts only over a working driver; a libcuda that is lost was not handed in
    lost = bool(no_libcuda(said)) and (init is None or init.code == _NO_LIBCUDA)
    fails = (started or not works) and (lost if asked else driver_unusable(said, init))
    half = said.all("smi-no-libcuda") if started and not wsl else ()
    blocked = said.all("nvml-blocked")
    shown = (*blocked, *(bare if container else ()), *half)
    return shown if shown or stubbed or (container and fails) else None


def _why(said: MessageLog, hook: bool) -> str:
    if said.has("docker-no-gpu-driver", "docker-no-runtime", "container-no-cdi"):
        return "Docker cannot hand a GPU in: the NVIDIA container toolkit is missing, or Docker was not told of it"
    if hook:
        return "the NVIDIA container runtime reaches no driver on the host: it is missing there, not loaded, or broken"
    if said.has("image-build"):
        return "while an image is built no GPU and no driver is there; the program has to run when the container runs"
    if said.has("nvml-blocked"):
        return "the container may not touch its GPUs: mostly systemd's reload rewrote its device cgroup while it ran"
    if said.has("kubernetes-no-gpu"):
        return "no node has a free nvidia.com/gpu: the device plugin does not run, or every GPU is taken"
    return "the container runtime hands GPUs and the driver's libraries in only when it is asked to"


_FAIL_IN_WSL = ("container-hook-failed", "driver-insufficient", "nvml-failed", "smi-no-libcuda")


# Windows 10 21H2, the first that is not a preview (Microsoft, "Enable NVIDIA CUDA on WSL")
_FIRST_WITH_GPU = 19044


_AT_RUN_TIME = Fix(
    text="Start the program with CMD or ENTRYPOINT instead of RUN, and leave the stub library of CUDA alone",
)


def _old_windows(seen: list[Message]) -> Problem:
    return Problem(
        title="This Windows hands no GPU to WSL2",
        cause="Windows 10 does so from 21H2 (build 19044) on; before that only its preview builds did",
        evidence=message_evidence(*seen, need=f"build {_FIRST_WITH_GPU} or newer"),
        fixes=(Fix(text="Update Windows to 21H2 or later, then WSL", commands=("wsl.exe --update",)),),
    )


GPU_NONE = finding(
    "gpu.none",
    layer="GPU",
    severity=Severity.ERROR,
    title="This machine has no NVIDIA GPU",
    pointless_after=("wsl.setup", "driver.unresponsive"),
    symptoms=(symptoms.NO_DEVICE,),
    docs="https://developer.nvidia.com/cuda-gpus",
)


@GPU_NONE.sign
def none(
    context: Context, has_gpu: bool, cuda_init: CallResult | None = None, messages: MessageLog | None = None
) -> Problem | None:
    """No display or 3D controller of NVIDIA on the PCI bus, and none that the driver knows."""
    if has_gpu or (messages is not None and messages.from_text) or (cuda_init is not None and cuda_init.code == 0):
        return None  # of a text, what is named in it decides
    return Problem(
        cause="TensorFlow runs on the CPU here, whatever is installed",
        evidence=(evidence("no NVIDIA device", context.source("host.pci_gpus"), "an NVIDIA GPU"),),
        fixes=(
            Fix(text="Run this on a machine with an NVIDIA GPU; in a cloud, choose an instance type with one"),
            Fix(text="In a virtual machine, pass the GPU through to it (vfio, or a vGPU profile)"),
        ),
    )


@GPU_NONE.sign
def none_reported(
    context: Context,
    messages: MessageLog,
    pci_gpus: tuple[PciGpu, ...] | None = None,
    gpus: tuple[Gpu, ...] | None = None,
    driver_version: str | None = None,
) -> Problem | None:
    """Only other makers' cards are named, or lspci shows none of NVIDIA's."""
    seen = messages.all("no-gpu-present")
    if gpus or driver_version or pci_gpus or not (pci_gpus == () or seen) or messages.has("gpu-created"):
        return None
    stated = evidence(context.source("host.pci_gpus"), "the text", "an NVIDIA GPU") if pci_gpus == () else None
    missing_dll = any("routine failed" not in m.text for m in messages.all("dll-load-failed"))
    return Problem(
        # a GPU build for Windows cannot be loaded without the driver's nvcuda.dll
        severity=Severity.WARNING if messages.stops_import and not missing_dll else None,
        cause="TensorFlow's GPU builds use NVIDIA GPUs only; on this machine it runs on the CPU",
        evidence=(*message_evidence(*seen), *((stated,) if stated else ())),
        fixes=(
            Fix(text="Run this on a machine with an NVIDIA GPU"),
            Fix(
                text="An AMD GPU needs ROCm and tensorflow-rocm on Linux; Apple's needs tensorflow-metal; "
                "Intel's the extension intel-extension-for-tensorflow"
            ),
        ),
    )


NO_GPU = finding(
    "container.no-gpu",
    layer="Machine",
    severity=Severity.ERROR,
    title="This container was started without access to the GPU",
    docs="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
    about_gpus=True,
)


@NO_GPU.sign
def no_gpu(
    context: Context,
    host_container: str,
    pci_gpus: tuple[PciGpu, ...],
    device_nodes: tuple[str, ...],
    driver_speaks: bool,
    kernel_module_loaded: bool | None = None,
    variables: dict[str, str] | None = None,
    os: str | None = None,
) -> Problem | None:
    """The host has a GPU (sysfs is not namespaced), but no /dev/nvidia* came into the container."""
    if host_container == "none" or not pci_gpus or device_nodes or driver_speaks or os == "wsl2":
        return None
    seen = [
        evidence(f"a {host_container} container", context.source("host.container")),
        evidence("an NVIDIA GPU on the host's PCI bus", context.source("host.pci_gpus")),
        evidence(
            "no /dev/nvidia*", context.source("driver.device_nodes"), "/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm"
        ),
    ]
    if kernel_module_loaded:
        seen.append(evidence("the host's driver is loaded", context.source("driver.kernel_module_loaded")))
    if asked := (variables or {}).get("NVIDIA_VISIBLE_DEVICES"):
        seen.append(evidence(f"NVIDIA_VISIBLE_DEVICES={asked}", "environment"))
    return Problem(
        cause="the container runtime hands GPUs and the driver's libraries in only when it is asked to",
        evidence=tuple(seen),
        fixes=(container_fix(host_container),),
    )


@NO_GPU.sign(unless=("gpu.none",))
def container_no_gpu(
    messages: MessageLog,
    host_container: str | None = None,
    cuda_init: CallResult | None = None,
    os: str | None = None,
    nvidia_smi: SmiResult | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """Docker says so itself, or a driver is missing in a container whose command asks for no GPU."""
    hook = hook_failures(messages, f"^(?!.*(?:{_OTHER_REASONS}))")
    plain = messages.all(
        "docker-no-gpu-driver", "docker-no-runtime", "container-no-cdi", "kubernetes-no-gpu", "ngc-no-driver"
    )
    if messages.has("driver-versions-differ", "nvml-mismatch"):
        return None  # both halves of a driver are there
    if cuda_init and cuda_init.code in STUB_LIBRARY and "/stubs" in (variables or {}).get("LD_LIBRARY_PATH", ""):
        return None  # the stub is found first, whatever was handed in
    inside = _nothing_inside(
        messages,
        host_container,
        cuda_init,
        works=nvidia_smi is not None and nvidia_smi.exit_code == 0,
        wsl=os == "wsl2",
    )
    if (os == "wsl2" and not plain) or not (hook or plain or inside is not None):
        return None
    kind = host_container or ("kubernetes" if messages.has("kubernetes-no-gpu") else "docker")
    building = (_AT_RUN_TIME,) if messages.has("image-build") else ()
    about = (*messages.all("image-build", "container-start"), *driver_messages(messages))
    return Problem(
        cause=_why(messages, bool(hook)),
        evidence=message_evidence(*plain, *hook, *(inside or ()), *about),
        fixes=(*building, container_fix(kind), *((RUN_ON_HOST,) if hook else ())),
    )


SETUP = finding(
    "wsl.setup",
    layer="Machine",
    severity=Severity.ERROR,
    title="WSL2 is not set up for the GPU",
    docs="https://docs.nvidia.com/cuda/wsl-user-guide/index.html",
    about_gpus=True,
)


@SETUP.sign
def wsl_setup(
    context: Context, os: str, libcuda: tuple[LibraryFile, ...], dxg_device: bool | None = None
) -> Problem | None:
    """WSL2 takes libcuda from /usr/lib/wsl/lib and reaches the card through /dev/dxg; a Linux driver breaks that."""
    if os != "wsl2":
        return None
    winner = libcuda[0].path if libcuda else None
    if dxg_device is False:
        seen = (evidence("no /dev/dxg", context.source("host.dxg_device"), "/dev/dxg"),)
        cause = "Windows passes no GPU through: its driver is too old for WSL2, or the WSL kernel is"
        fixes = (
            context.remedies.install_driver(),
            Fix(text="Update WSL from Windows", commands=("wsl.exe --update", "wsl.exe --shutdown")),
        )
    elif winner is None or "/wsl/" not in winner:
        seen = (
            evidence(winner or "no libcuda.so.1", context.source("driver.libcuda"), "/usr/lib/wsl/lib/libcuda.so.1"),
        )
        cause = (
            "the loader does not take Windows' libcuda: a Linux driver was installed inside WSL, or the path is missing"
        )
        fixes = (
            Fix(
                text="Remove any Linux display driver from WSL",
                commands=(
                    "sudo apt-get purge -y '^nvidia-(driver|utils|dkms|kernel).*' '^libnvidia-(compute|gl|cfg1).*'",
                ),
            ),
            Fix(
                text="Put WSL's own libraries first",
                commands=("export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH",),
            ),
        )
    else:
        return None
    return Problem(cause=cause, evidence=seen, fixes=fixes)


@SETUP.sign
def wsl(
    messages: MessageLog, os: str, cuda_init: CallResult | None = None, host_container: str | None = None
) -> Problem | None:
    """Under WSL2 the driver is Windows'; what fails there is how it comes in."""
    fails = driver_unusable(messages, cuda_init) or messages.has(*_FAIL_IN_WSL)
    if messages.has("stub-library"):
        return None  # a program says that the toolkit's stub is found before WSL's own libcuda
    old = [m for m in messages.all("windows-build") if int(m.values["build"]) < _FIRST_WITH_GPU]
    inside = messages.all("linux-driver-in-wsl")
    if os != "wsl2" or not (fails or old or inside) or messages.has("nvml-mismatch", "hidden-by-variable"):
        return None
    if old:
        return _old_windows(old)
    path = "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"
    fixes = [
        Fix(
            text="Update WSL from Windows, and the NVIDIA driver in Windows",
            commands=("wsl.exe --update", "wsl.exe --shutdown"),
        ),
        Fix(
            text="Remove any Linux display driver from WSL",
            commands=("sudo apt-get purge -y '^nvidia-(driver|utils|dkms|kernel).*' '^libnvidia-(compute|gl|cfg1).*'",),
        ),
        Fix(text="Put WSL's own libraries first", commands=(path, "/usr/lib/wsl/lib/nvidia-smi")),
    ]
    if host_container or messages.has("container-hook-failed"):
        fixes.insert(
            0,
            Fix(
                text="Update Docker Desktop, or the NVIDIA container toolkit inside WSL: they mount the driver's files"
            ),
        )
    return Problem(
        cause="WSL2 takes libcuda from /usr/lib/wsl/lib and the card through /dev/dxg; one of them is "
        "missing, old or shadowed",
        evidence=message_evidence(
            *old, *inside, *messages.all("container-hook-failed", "smi-no-libcuda"), *driver_messages(messages)
        ),
        fixes=tuple(fixes),
    )
