"""How a container gets access to a GPU, and keeps it.

Sources: NVIDIA Container Toolkit, "Installing" and "Troubleshooting"; NVIDIA/nvidia-container-toolkit issues 48 and
1397, notices about containers that lose access; ArchWiki, "Docker", for pacman.
"""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.report import Fix

_REPOSITORY = "https://nvidia.github.io/libnvidia-container"
_APT = (
    f"curl -fsSL {_REPOSITORY}/gpgkey | sudo gpg --dearmor -o /usr/share/keyrings/nvidia-container-toolkit-keyring.gpg",
    f"curl -sL {_REPOSITORY}/stable/deb/nvidia-container-toolkit.list | sed 's#deb https://#deb "
    "[signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] https://#g' | "
    "sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list",
    "sudo apt-get update && sudo apt-get install -y nvidia-container-toolkit",
)
_DNF = (
    f"curl -sL {_REPOSITORY}/stable/rpm/nvidia-container-toolkit.repo | "
    "sudo tee /etc/yum.repos.d/nvidia-container-toolkit.repo",
    "sudo dnf install -y nvidia-container-toolkit",
)
_ZYPPER = (
    f"sudo zypper ar {_REPOSITORY}/stable/rpm/nvidia-container-toolkit.repo",
    "sudo zypper --gpg-auto-import-keys install -y nvidia-container-toolkit",
)
_PACMAN = ("sudo pacman -S nvidia-container-toolkit",)
_BY_DISTRIBUTION = {
    **dict.fromkeys(("ubuntu", "debian", "pop", "linuxmint"), _APT),
    **dict.fromkeys(("fedora", "rhel", "centos", "rocky", "almalinux", "amzn"), _DNF),
    **dict.fromkeys(("suse", "opensuse-leap", "opensuse-tumbleweed", "sles"), _ZYPPER),
    **dict.fromkeys(("arch", "manjaro", "endeavouros"), _PACMAN),
}
_CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker"
_ON_A_MAC = Fix(text="Use a machine with Linux and an NVIDIA GPU: Docker on a Mac has no access to a GPU")
_TRY = "docker run --rm --gpus all tensorflow/tensorflow:latest-gpu nvidia-smi"
_REQUEST = {
    "docker": Fix(text="Start the container with --gpus all", commands=(_TRY,)),
    "podman": Fix(
        text="Start the container with the GPU's CDI device (the host needs the NVIDIA Container Toolkit)",
        commands=(
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "podman run --rm --device nvidia.com/gpu=all docker.io/tensorflow/tensorflow:latest-gpu nvidia-smi",
        ),
    ),
    "kubernetes": Fix(
        text="Request a GPU in the limits of the container (NVIDIA's device plugin must run on the node)",
        commands=(
            "kubectl get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu'",
        ),
    ),
    "apptainer": Fix(
        text="Start the container with --nv",
        commands=("apptainer exec --nv docker://tensorflow/tensorflow:latest-gpu nvidia-smi",),
    ),
    "lxc": Fix(text="Add the GPU to the container on the host", commands=("lxc config device add CONTAINER gpu gpu",)),
}

UPDATE_WSL = Fix(
    text="Update WSL and the NVIDIA driver in Windows, and restart WSL",
    commands=("wsl.exe --update", "wsl.exe --shutdown"),
)
REMOVE_LINUX_DRIVER = Fix(
    text="Remove any Linux display driver from WSL",
    commands=("sudo apt-get purge -y '^nvidia-(driver|utils|dkms|kernel).*' '^libnvidia-(compute|gl|cfg1).*'",),
)
WSL_LIBRARIES_FIRST = Fix(
    text="Put WSL's own libraries first on the loader path",
    commands=(
        "export LD_LIBRARY_PATH=/usr/lib/wsl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
        "/usr/lib/wsl/lib/nvidia-smi",
    ),
)


def access(
    context: Context, container: str | None, *, requested: bool = False, refused: bool = False
) -> tuple[Fix, ...]:
    """How a container of that kind gets access to a GPU.

    Args:
        requested: the command that started it asks for GPUs already.
        refused: Docker answered that it cannot provide them, so that the toolkit is what is missing.
    """
    kind = container if container in _REQUEST else "docker"
    if kind != "docker":
        return (_REQUEST[kind],)
    if context.remedies.host == "macos":
        return (_ON_A_MAC,)
    if refused:
        return _toolkit(context, "Install the NVIDIA Container Toolkit", _TRY)
    first = () if requested else (_REQUEST["docker"],)
    return (*first, *_toolkit(context, "If Docker cannot provide GPUs, install the NVIDIA Container Toolkit"))


def _toolkit(context: Context, text: str, *then: str) -> tuple[Fix, ...]:
    """The commands of this distribution; on Windows the toolkit is a part of Docker Desktop.

    Source: Docker, "GPU support in Docker Desktop for Windows": with the WSL2 back end alone.
    """
    host = context.remedies.host
    if host == "windows":
        use = "Use Docker Desktop with the WSL2 back end, which contains the toolkit; update WSL"
        return (Fix(text=use, commands=("wsl --update", *then)),)
    distribution = value_or(context.facts.host.distribution_id, "") if host != "wsl2" else "ubuntu"
    known = _BY_DISTRIBUTION.get(distribution)
    desktop = " inside WSL; Docker Desktop contains it, so update that instead" if host == "wsl2" else ""
    where = desktop or (" on the host" if known else " on the host (these commands are for Ubuntu and Debian)")
    restart = (
        "sudo service docker restart" if host == "wsl2" else "sudo systemctl restart docker"
    )  # WSL may lack systemd
    configure = Fix(
        text="Configure Docker to use it; the restart of Docker stops all running containers",
        commands=(_CONFIGURE, restart, *then),
    )
    return (Fix(text=f"{text}{where}", commands=known or _APT), configure)


def with_docker_desktop(context: Context) -> bool:
    """True if containers run in the virtual machine of Docker Desktop: no systemd of the host manages them."""
    return context.remedies.host in ("windows", "macos")


def kept_access(context: Context, container: str | None) -> tuple[Fix, ...]:
    """What brings a container its GPUs back, and keeps systemd from taking them away again."""
    again = Fix(text="Restart the container, which gives it access again", commands=("docker restart CONTAINER",))
    if with_docker_desktop(context) and container != "kubernetes":
        return (again, Fix(text="If that does not help, restart Docker Desktop, and update it"))
    by_name = " ".join(f"--device /dev/nvidia{node}" for node in ("ctl", "-uvm", "-uvm-tools", "-modeset", "0"))
    if container == "kubernetes":
        restart = Fix(text="Delete the pod; a new one has access again", commands=("kubectl delete pod POD",))
        return (restart, _DEVICE_LINKS)
    if container == "podman":
        return (Fix(text="Start the container anew", commands=("podman restart CONTAINER",)), _DEVICE_LINKS)
    return (
        again,
        _DEVICE_LINKS,
        Fix(
            text="Or name the device nodes when you start it (one /dev/nvidiaN for each GPU)",
            commands=(f"docker run --gpus all {by_name} IMAGE",),
        ),
        Fix(
            text="Or request the GPUs by CDI (Docker 25 or later)",
            commands=(
                "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                "docker run --device nvidia.com/gpu=all IMAGE",
            ),
        ),
        Fix(
            text='Or let Docker manage cgroups itself: add "exec-opts": ["native.cgroupdriver=cgroupfs"] to '
            "/etc/docker/daemon.json, and restart Docker when no container is in use",
            commands=("sudo systemctl restart docker",),
        ),
    )


_DEVICE_LINKS = Fix(
    text="So that it does not happen again, create the links in /dev/char of the host that systemd needs, and let udev "
    "create them at every start",
    commands=(
        "sudo nvidia-ctk system create-dev-char-symlinks --create-all",
        'echo \'ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", RUN+="/usr/bin/nvidia-ctk system '
        "create-dev-char-symlinks --create-all\"' | sudo tee /lib/udev/rules.d/71-nvidia-dev-char.rules",
    ),
)
