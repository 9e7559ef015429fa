"""Rules about containers and WSL2: is the GPU handed in at all?"""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.records.facts import LibraryFile, PciGpu
from tfgpu_doctor.records.report import Fix, Severity

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


@rule(
    "container.no-gpu",
    Severity.ERROR,
    "This container was started without access to the GPU",
    needs=("host.container", "host.pci_gpus", "driver.device_nodes", "derived.driver_speaks"),
    wants=("driver.kernel_module_loaded", "variables", "host.os"),
    docs=TOOLKIT_GUIDE,
)
def no_gpu(
    context: Context,
    container: str,
    pci: tuple[PciGpu, ...],
    nodes: tuple[str, ...],
    driver_speaks: bool,
    loaded: bool | None,
    variables: dict[str, str] | None,
    os: str | None,
) -> Problem | None:
    """The host has a GPU (sysfs is not namespaced), but no /dev/nvidia* came into the container."""
    if container == "none" or not pci or nodes or driver_speaks or os == "wsl2":
        return None
    seen = [
        evidence(f"a {container} container", context.source("host.container")),
        evidence("an NVIDIA GPU on the host's PCI bus", context.source("host.pci_gpus")),
        evidence(
            "no /dev/nvidia*", context.source("driver.device_nodes"), "/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm"
        ),
    ]
    if loaded:
        seen.append(evidence("the host's driver is loaded", context.source("driver.kernel_module_loaded")))
    if asked := (variables or {}).get("NVIDIA_VISIBLE_DEVICES"):
        seen.append(evidence(f"NVIDIA_VISIBLE_DEVICES={asked}", "environment"))
    return Problem(
        cause="the container runtime hands GPUs and the driver's libraries in only when it is asked to",
        evidence=tuple(seen),
        fixes=(container_fix(container),),
    )


@rule(
    "wsl.setup",
    Severity.ERROR,
    "WSL2 is not set up for the GPU",
    needs=("host.os", "driver.libcuda"),
    wants=("host.dxg_device",),
    docs="https://docs.nvidia.com/cuda/wsl-user-guide/index.html",
)
def wsl_setup(context: Context, os: str, libcuda: tuple[LibraryFile, ...], dxg: bool | None) -> Problem | None:
    """WSL2 takes libcuda from /usr/lib/wsl/lib and reaches the card through /dev/dxg; a Linux driver breaks that."""
    if os != "wsl2":
        return None
    winner = libcuda[0].path if libcuda else None
    if dxg is False:
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
