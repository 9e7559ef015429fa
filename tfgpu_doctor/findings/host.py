"""The machine around the driver: limits, kinds of GPUs, containers, WSL2."""

from __future__ import annotations

import re
from dataclasses import replace

from msgspec import structs

from tfgpu_doctor.facts.facts import CallResult, Gpus, Limit, Message, SmiResult, TemporaryFolder, lists_gpu, value_or
from tfgpu_doctor.facts.report import Evidence, Fix, Severity
from tfgpu_doctor.facts.units import memory_size
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.findings import inputs, symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Devices, Libraries, PciGpus, Variables
from tfgpu_doctor.matrix.names import of_others


def _without_limit(context: Context) -> tuple[Fix, ...]:
    """A process may raise its limit up to the hard one; the hard one, only root may raise."""
    limit: Limit | None = value_or(context.facts.host.address_space_limit, None)
    bounded = limit is not None and limit.hard is not None
    command = 'sudo prlimit --pid "$$" --as=unlimited' if bounded else "ulimit -v unlimited"
    return (
        Fix("Remove the limit of this shell, and start the program again in it", (command,)),
        # srun(1), --propagate: by default, jobs get all limits of the shell that submits them
        Fix("In a job of Slurm: submit it with --propagate=NONE, and ask for memory with --mem instead"),
    )


ADDRESS_SPACE = finding(
    "env.address-space-limit",
    layer="Machine",
    title="The address space of this process is limited, and TensorFlow or CUDA does not start",
    cause="RLIMIT_AS (ulimit -v) counts the addresses that libraries take, and those that CUDA reserves when it starts "
    "for the memory of all GPUs and of the machine",
    fixes=_without_limit,
    docs="https://man7.org/linux/man-pages/man2/getrlimit.2.html",
)


@ADDRESS_SPACE.sign()
def reservation_refused(
    context: Context,
    address_space_limit: Limit,
    cuda_init: CallResult | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """There is a limit, and the driver or the loader gets no addresses."""
    refused = inputs.has_code(cuda_init, inputs.OUT_OF_MEMORY)
    # the loader's words for a refused mmap; on a file system without execution it adds a reason
    lines = messages.all("loader-error", "exception") if messages else ()
    unloaded = [m for m in lines if "failed to map segment" in m.text and "not permitted" not in m.text]
    if address_space_limit.soft is None or not (refused or unloaded):
        return None
    limit = f"address space limited to {memory_size(address_space_limit.soft)}"
    printed = messages.all("address-space-limit")[-1:] if messages else ()
    read = evidence(limit, context.source("host.address_space_limit"), "unlimited")
    found = [*(message_evidence(*printed) or (read,)), *message_evidence(*unloaded)]
    if cuda_init is not None and refused:
        found.append(inputs.returned("cuInit", cuda_init, "driver.cuda_init", context))
    return Problem(evidence=tuple(found))


def _another_folder(context: Context) -> tuple[Fix, ...]:
    commands = () if context.remedies.os == "windows" else ("mkdir -p ~/tmp", "export TMPDIR=~/tmp")
    return (Fix("Use a folder of your own for temporary files", commands),)


TMPDIR = finding(
    "env.tmpdir-unwritable",
    layer="Machine",
    title="The folder for temporary files cannot be written",
    cause="XLA writes PTX code there, from which ptxas makes the code for the GPU: what XLA compiles (jit_compile, "
    "Keras 3 on a GPU) fails",
    fixes=_another_folder,
    docs="https://docs.python.org/3/library/tempfile.html#tempfile.tempdir",
)


@TMPDIR.sign()
def folder_refuses(context: Context, temporary_folder: TemporaryFolder, has_gpu: bool | None = None) -> Problem | None:
    """No file can be made in the folder that TensorFlow and XLA take; without a GPU, few notice."""
    if temporary_folder.problem is None:
        return None
    named = "" if temporary_folder.via == "default" else f"{temporary_folder.via}="
    found = f"{named}{temporary_folder.path}: {temporary_folder.problem}"
    return Problem(
        title=f"Temporary files cannot be written to {temporary_folder.path}",
        evidence=(evidence(found, context.source("host.temporary_folder"), "a folder that can be written"),),
        severity=None if has_gpu else Severity.WARNING,
        despite_verified=True,  # the child of the doctor gets a folder of its own, below one that can be written
    )


TMPDIR.printed("temporary-file-refused")


_BY_PIP = re.compile(r"Could not install packages|pip", re.IGNORECASE)
# https://docs.python.org/3/library/tempfile.html: pip unpacks there, often a small file system in memory
_UNPACK_ELSEWHERE = Fix(
    "If /tmp is what is full, or small, let pip unpack on a disk with some gigabytes free, without its cache, and "
    "install again in the same shell; else make room",
    ("df -h /tmp ~", "mkdir -p ~/tmp", "export TMPDIR=~/tmp PIP_NO_CACHE_DIR=1"),
)


def _more_room(context: Context) -> tuple[Fix, ...]:
    show = ("Get-PSDrive -PSProvider FileSystem",) if context.remedies.os == "windows" else ("df -h", "df -i")
    by_pip = any(_BY_PIP.search(one.text) for one in context.log.all("no-space-left"))
    if by_pip and context.remedies.os != "windows":
        return (_UNPACK_ELSEWHERE, Fix("Show which disk is full, of bytes or of inodes", show))
    empty = Fix("Empty pip's cache, which is often gigabytes", ("python -m pip cache purge",))
    return (Fix("Show which disk is full, of bytes or of inodes", show), empty)


DISK_FULL = finding(
    "env.disk-full",
    layer="Machine",
    title="The disk is full",
    cause="a file cannot be written: no space, no inodes or no quota is left on the file system that holds it; the "
    "memory of the GPU has nothing to do with it",
    fixes=_more_room,
    docs="https://man7.org/linux/man-pages/man2/write.2.html",
)


@DISK_FULL.sign()
def write_refused(messages: MessageLog) -> Problem | None:
    """A program could not write a file, and not one of shared memory."""
    shared = messages.has("shared-memory-full", "shm-listed", "bus-error")
    found = messages.all("no-space-left")
    ends = any("Could not install packages" in one.text for one in found)
    return None if shared else Problem(evidence=message_evidence(*found), sure=ends)


_REPLACED = ". The package tensorflow-cpu, which is installed, uses none: tfgpu plan shows what to install there"


def _fixes(context: Context) -> tuple[Fix, ...]:
    """A text is judged elsewhere, where no option applies."""
    require_none = Fix("If this machine is to run on the CPU only, require no GPU", ("tfgpu doctor --require-gpus 0",))
    log = context.log
    fails = log.stops_import or log.has("native-runtime-failed", "traceback", "exception", "loader-error")
    first = "Run this" if context.probed or fails else "For the CPU nothing is to be done; for a GPU, run this"
    is_for_cpu = context.probed and value_or(context.facts.tensorflow.distribution, None) == "tensorflow-cpu"
    of_cpu = _REPLACED if is_for_cpu else ""
    of_amd = context.remedies.host == "linux" and any(_OF_AMD.search(one.text) for one in log.messages)
    return (
        *((Fix(f"Nothing of CUDA runs on this GPU. {of_others('AMD')}"),) if of_amd and not context.probed else ()),
        *(context.remedies.for_cpu() if fails and not context.probed else ()),
        Fix(f"{first} on a machine with an NVIDIA GPU; in a cloud, choose an instance type with one{of_cpu}"),
        *((require_none,) if context.probed and context.require_gpus is None else ()),
        Fix("In a virtual machine, pass the GPU through to it (vfio, or a vGPU profile)"),
    )


_OF_AMD = re.compile(r"\b(?:radeon|rx [5-9]\d{3}|instinct|amd (?:gpu|graphics|card))\b", re.IGNORECASE)
GPU_NONE = finding(
    "gpu.none",
    layer="GPU",
    title="This machine has no NVIDIA GPU",
    cause="TensorFlow's GPU builds use NVIDIA GPUs only; without one, TensorFlow runs on the CPU",
    fixes=_fixes,
    pointless_after=("wsl.setup", "driver.unresponsive"),
    symptoms=(symptoms.NO_DEVICE,),
    docs="https://developer.nvidia.com/cuda-gpus",
)


@GPU_NONE.sign()
def no_device_on_bus(context: Context, has_gpu: bool, cuda_init: CallResult | None = None) -> Problem | None:
    """No display or 3D controller of NVIDIA on the PCI bus, and none that the driver knows."""
    if has_gpu or not context.probed or inputs.has_code(cuda_init, 0):  # a text need not show the whole bus
        return None
    return Problem(evidence=(evidence("no NVIDIA device", context.source("host.pci_gpus"), "an NVIDIA GPU"),))


@GPU_NONE.sign()
def other_graphics_message(
    context: Context,
    messages: MessageLog,
    pci_gpus: PciGpus | None = None,
    gpus: Gpus = (),
    driver_version: str | None = None,
    devices: Devices | None = None,
) -> Problem | None:
    """A text names GPUs of other vendors only, or lspci shows none of NVIDIA's."""
    reported = messages.all("no-gpu-present")
    driver = driver_version and not context.is_stated("driver.version")  # one that a person names may be a left-over
    of_every_maker = value_or(context.facts.tensorflow.distribution, None) == "tensorflow-directml"
    seen = gpus or driver or pci_gpus or messages.has("gpu-created")
    if seen or of_every_maker or not (pci_gpus == () or reported):
        return None
    found = message_evidence(*reported)
    if pci_gpus == ():
        found += (evidence("no NVIDIA GPU", context.source("host.pci_gpus"), "an NVIDIA GPU"),)
    if reported and (harmless := _expected_without_one(found, messages)):
        return harmless
    severity = Severity.WARNING if _is_unmissed_field(context, messages, devices) else _severity(messages)
    return Problem(evidence=found, severity=severity, sure=messages.has(*_WITHOUT_ONE))


def _is_unmissed_field(context: Context, messages: MessageLog, devices: Devices | None) -> bool:
    """Whether a form says that there is none, and nobody misses a GPU."""
    # the import of a release that opens CUDA's libraries one by one fails for another reason
    imports = at_least(value_or(context.facts.tensorflow.version, None), "2.1") is not False
    fails = messages.complains and not (imports and messages.stops_import)
    missed = devices is not None or fails or messages.has("gpu-fails-said")
    return context.is_stated("host.pci_gpus") and not missed


@GPU_NONE.sign()
def hosted_without_one(
    messages: MessageLog,
    variables: Variables | None = None,
    devices: Devices | None = None,
    nvidia_smi: SmiResult | None = None,
) -> Problem | None:
    """A session on Colab or Kaggle has CUDA, whether or not it was given a GPU."""
    given = inputs.smi_works(nvidia_smi) or messages.has("gpu-created", "hides-every-gpu", "out-of-memory")
    chosen = given or "CUDA_VISIBLE_DEVICES" in (variables or {})
    if chosen or not messages.has("hosted-notebook") or lists_gpu(devices or ()):
        return None
    shown = messages.all("no-cuda-device", "smi-no-driver", "smi-not-found", "cuinit-failed", "libcuda-not-loaded")
    # nothing else in the text says why none is listed: another TensorFlow was not installed there
    others = messages.has("library-not-opened", "loader-error", "no-distribution", "tensorflow-installed")
    missed = () if others else (*messages.all("no-gpu-listed", "gpu-fails-said"),)
    choose = "Choose a GPU for the session: on Colab Runtime, Change runtime type; on Kaggle Settings, Accelerator"
    return Problem(
        title="This session of a hosted notebook has no GPU",
        cause="Colab and Kaggle start a session on a machine without a GPU unless one is chosen",
        evidence=message_evidence(*(shown or missed)),
        fixes=(
            Fix(f"{choose}; then run the notebook from its beginning"),
            Fix("To decide, see whether this session has one", ("!nvidia-smi",)),
        ),
        sure=bool(shown),
    )


# what TensorFlow misses on a machine without a GPU, and says at each start
_WITHOUT_ONE = (
    *("library-not-opened", "loader-error", "cuinit-failed", "libcuda-not-loaded", "no-cuda-device"),
    "cudart-not-found",
)


def _expected_without_one(found: tuple[Evidence, ...], messages: MessageLog) -> Problem | None:
    """A note for somebody who says that there is no GPU, where nothing fails but TensorFlow's search for one."""
    expected = messages.all(*_WITHOUT_ONE)
    if not expected or not messages.speaks_only_of(*_WITHOUT_ONE):
        return None
    return Problem(
        cause="TensorFlow's builds for GPUs say at each start what they miss there, and run on the CPU",
        evidence=(*found, *message_evidence(*expected, need="nothing: it is expected without a GPU")),
        fixes=(Fix("Nothing, unless a GPU is wanted: that takes a machine with one of NVIDIA's"),),
        severity=Severity.NOTE,
        answers=True,
    )


def _severity(messages: MessageLog) -> Severity | None:
    """A warning where something else stops TensorFlow."""
    # a GPU build for Windows cannot be loaded without the driver's nvcuda.dll
    missing_dll = any("routine failed" not in m.text for m in messages.all("dll-load-failed"))
    dies = messages.stops_import or messages.has("illegal-instruction")
    return Severity.WARNING if dies and not missing_dll else None


# Sources: NVIDIA Container Toolkit, "Installing" and "Troubleshooting"; NVIDIA/nvidia-container-toolkit issues 48 and
# 1397, notices about containers that lose access; ArchWiki, "Docker", for pacman.
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
_BY_DISTRIBUTION = {
    **dict.fromkeys(("fedora", "rhel", "centos", "rocky", "almalinux", "amzn"), _DNF),
    "arch": ("sudo pacman -S nvidia-container-toolkit",),
}
_ALLOCATABLE = "kubectl get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu'"
# a pod that waits does request GPUs (https://github.com/NVIDIA/k8s-device-plugin)
_OFFERED = Fix(
    "See what the nodes offer. <none>: install NVIDIA's device plugin, or its GPU operator, on the nodes with GPUs; 0: "
    "the plugin finds no driver there; else request at most what one node has, or wait for pods that hold them",
    (_ALLOCATABLE,),
)
# NVIDIA/k8s-device-plugin issues 107 and 406, NVIDIA/nvidia-container-toolkit issue 555: by itself it is no default
_AS_DEFAULT = "sudo nvidia-ctk runtime configure --runtime={0} --set-as-default && sudo systemctl restart {0}"
_REQUEST = {
    "podman": Fix(
        "Start the container with the GPU's CDI device (the host needs the NVIDIA Container Toolkit)",
        (
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "podman run --rm --device nvidia.com/gpu=all docker.io/tensorflow/tensorflow:latest-gpu nvidia-smi",
        ),
    ),
    "kubernetes": Fix(
        "Request a GPU in the container's resources, limits: {nvidia.com/gpu: 1} (NVIDIA's device plugin must run on "
        "the node)",
        (_ALLOCATABLE,),
    ),
    "apptainer": Fix(
        "Start the container with --nv", ("apptainer exec --nv docker://tensorflow/tensorflow:latest-gpu nvidia-smi",)
    ),
    "lxc": Fix("Add the GPU to the container on the host", ("lxc config device add CONTAINER gpu gpu",)),
}
# https://docs.k3s.io/advanced, "NVIDIA Container Runtime"
_RUNTIME_CLASS = Fix(
    "Add to the pod's spec, beside its containers, which lets NVIDIA's runtime start them",
    ("runtimeClassName: nvidia",),
)

UPDATE_WSL = Fix(
    "Update Windows (10 from 21H2 on, or 11), its NVIDIA driver and WSL; restart WSL",
    ("wsl.exe --update", "wsl.exe --shutdown"),
)
REMOVE_LINUX_DRIVER = Fix(
    "Remove any Linux display driver from WSL, whose driver is that of Windows: install it there, and restart WSL",
    (inputs.PURGE_DRIVER, "wsl.exe --shutdown"),
)
_WITH_NVIDIA_DOCKER = (
    "Start TensorFlow's container in the same way, with nvidia-docker run in place of docker run (since Docker 19.03, "
    "docker run --gpus all does the same)"
)


# https://docs.docker.com/compose/how-tos/gpu-support
COMPOSE_REQUEST = (
    *("deploy:", "  resources:", "    reservations:", "      devices:"),
    *("        - driver: nvidia", "          count: all", "          capabilities: [gpu]"),
)
_OF_COMPOSE = re.compile(r"^\s*services: *$|\bdocker[- ]compose\b")


_OF_APPTAINER = re.compile(  # to the end of the command; what is quoted can have a semicolon
    r"(?:singularity|apptainer) (?:run|exec|shell|instance start)\b(?!.* --nv\b)"
    r"(?:\"[^\"]{0,200}\"|'[^']{0,200}'|[^;|&#\"'`])+"
)


# a command with its options or its image, and not its name in a sentence
_STARTS = re.compile(
    r"\b(?:docker|podman|nerdctl|singularity|apptainer)(?: container)? (?:run|create|exec|shell) (?=[-\w.])"
)


def _request(context: Context, container: str, *, requested: bool) -> Fix:
    """How it asks for a GPU; of Apptainer the command that the text shows, with --nv, else one that tests it."""
    if container == "kubernetes" and requested and context.log.has("k3s") and not context.log.has("runtime-class"):
        return _RUNTIME_CLASS  # k3s starts pods without NVIDIA's runtime, request or not
    if container != "apptainer":
        return _REQUEST[container]
    named = (_OF_APPTAINER.search(one.text) for one in context.log.all("container-start"))
    started = (found[0].strip() for found in named if found)
    commands = (re.sub(r"(?<= )(?:run|exec|shell|instance start)\b", r"\g<0> --nv", one, count=1) for one in started)
    return structs.replace(_REQUEST["apptainer"], commands=tuple(commands) or _REQUEST["apptainer"].commands)


def _image(context: Context) -> str:
    """The image that is named last, for a shell; without a name, one that starts on any driver."""
    return context.remedies.quote((context.log.values("image-named", "image") or ("ubuntu",))[-1])


def access(context: Context, container: str | None, *, requested: bool = False) -> tuple[Fix, ...]:
    """How a container of that kind gets access to a GPU; `requested`: the command that started it asks for GPUs."""
    host = context.remedies.host
    if container in _REQUEST:
        return (_request(context, container, requested=requested),)
    if host == "macos":
        return (Fix("Use a machine with Linux and an NVIDIA GPU: Docker on a Mac has no access to a GPU"),)
    image = _image(context)
    if not requested and any("nvidia-docker run" in message.text for message in context.log.all("container-start")):
        return (Fix(_WITH_NVIDIA_DOCKER, (f"nvidia-docker run --rm {image} nvidia-smi",)),)
    if not requested and any(_OF_COMPOSE.search(one.text) for one in context.log.all("container-start")):
        return (Fix("Add to the service in Compose's file, and run docker compose up again", COMPOSE_REQUEST),)
    check = f"docker run --rm --gpus all {image} nvidia-smi"
    start = "Start the container with --gpus all (the host needs the NVIDIA driver and the NVIDIA Container Toolkit)"
    first, then = ((), (check,)) if requested else ((Fix(start, (check,)),), ())
    if host == "windows":  # the toolkit is a part of Docker Desktop (its WSL2 back end)
        return (*first, Fix("Use Docker Desktop with the WSL2 back end; update WSL", ("wsl --update", *then)))
    where, restart = "", "sudo systemctl restart docker"
    distribution = value_or(context.facts.host.distribution_id, "")
    if host == "wsl2":  # which may lack systemd
        where, restart = " inside WSL; Docker Desktop contains it: update that instead", "sudo service docker restart"
        distribution = ""
    text = f"If it is missing, install the NVIDIA Container Toolkit{where}. Docker has to be configured for it, and "
    configure = ("sudo nvidia-ctk runtime configure --runtime=docker", restart, *then)
    commands = (*_BY_DISTRIBUTION.get(distribution, _APT), *configure)
    return (*first, Fix(f"{text}restarted, which stops all running containers", commands))


# nvidia-container-toolkit issue 85, microsoft/WSL issues 9938 and 9962; the option is for Docker without root
_CGROUPS = Fix(
    "Let NVIDIA's runtime write the device rules: no-cgroups = false in /etc/nvidia-container-runtime/config.toml",
    (
        "sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=false --in-place",
        "sudo systemctl restart docker",
    ),
)


def _blocked_by_the_system(messages: MessageLog) -> bool:
    """Whether NVML says, with error 17, that device rules deny the GPU, which it also does in a new container."""
    return any("operating system" in one.text for one in messages.all("nvml-blocked"))


def kept_access(context: Context, container: str | None) -> tuple[Fix, ...]:
    """What brings a container its GPUs back, and keeps systemd from taking them away again."""
    program = "podman" if container == "podman" else "docker"
    again = Fix("Restart the container, which gives it access again", (f"{program} restart CONTAINER",))
    if container == "kubernetes":
        again = Fix("Delete the pod; a new one has access again", ("kubectl delete pod POD",))
    if context.remedies.host in ("windows", "macos"):  # no systemd manages the containers of Docker Desktop
        return (again,)
    links = (
        "So that it does not happen again, create the links in /dev/char that systemd needs, at each start of the host"
    )
    return (again, Fix(links, ("sudo nvidia-ctk system create-dev-char-symlinks --create-all",)))


NO_GPU = finding(
    "container.no-gpu",
    layer="Machine",
    title="This container was started without access to the GPU",
    cause="the container runtime provides GPUs and the driver's libraries only on request",
    fixes=lambda context: access(context, value_or(context.facts.host.container, None)),
    docs="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
    about_gpus=True,
)


@NO_GPU.sign()
def no_device_nodes(
    context: Context,
    host_container: str,
    pci_gpus: PciGpus,
    device_nodes: tuple[str, ...],
    driver_speaks: bool,
    os: str | None = None,
) -> Problem | None:
    """The host has a GPU (sysfs is not namespaced), but the container has no /dev/nvidia*."""
    if host_container == "none" or not pci_gpus or device_nodes or driver_speaks or os == "wsl2":
        return None
    return Problem(
        evidence=(
            evidence(f"a {host_container} container", context.source("host.container")),
            evidence("an NVIDIA GPU on the host's PCI bus", context.source("host.pci_gpus")),
            evidence("no /dev/nvidia*", context.source("driver.device_nodes"), "/dev/nvidia0, /dev/nvidiactl"),
        )
    )


_DOCKER_REFUSES = ("docker-no-gpu-driver", "docker-no-runtime")
_OF_PLUGIN = "device-plugin-no-runtime"
_NO_GPU_REPORTED = (*_DOCKER_REFUSES, "container-no-cdi", _OF_PLUGIN, "kubernetes-no-gpu", "ngc-no-driver")
# message → the cause that it shows; the first that fits
_NO_TOOLKIT = "the NVIDIA Container Toolkit is not installed, or Docker is not configured to use it"
_CAUSES = {
    **dict.fromkeys((*_DOCKER_REFUSES, "container-no-cdi"), _NO_TOOLKIT),
    _OF_PLUGIN: "its container gets no GPU and no driver: the node does not start it with NVIDIA's runtime",
    "container-hook-failed": "the NVIDIA container runtime finds no working driver on the host: it is missing, not "
    "loaded, or broken",
    "image-build": "no GPU and no driver is available while an image is built; run the program when the container runs",
    "nvml-blocked": "systemd manages the cgroups of the container and rewrites its device rules when it reloads its "
    "units (an update, systemctl daemon-reload); the new rules lack the GPUs, which systemd does not know of",
    "kubernetes-no-gpu": "no node has a free nvidia.com/gpu: the device plugin does not run, or every GPU is in use",
}
_DRIVER_OF_HOST = Fix(
    "On the host, not in the container: install the NVIDIA driver, or load it; nvidia-smi must work there first",
    ("nvidia-smi",),
)
_GPU_WANTED = (
    *("trouble-said", "failure-said", "no-gpu-listed", "gpu-fails-said", "only-printed", "few-words", "question"),
)
# what fails in a container that has a GPU
_WITH_ANY_ACCESS = (
    *("kubernetes-taint", "no-capabilities", "driver-versions-differ", "nvml-mismatch", "apptainer-no-driver"),
    "forward-compatibility",
)
_RUN_LATER = Fix(
    "Start the program with CMD or ENTRYPOINT instead of RUN, and keep CUDA's stub library as it is; where the build "
    'itself needs the GPU, "default-runtime": "nvidia" in /etc/docker/daemon.json gives it one'
)


@NO_GPU.sign(unless=("gpu.none",))
def container_message(
    context: Context,
    messages: MessageLog,
    host_container: str | None = None,
    cuda_init: CallResult | None = None,
    os: str | None = None,
    nvidia_smi: SmiResult | None = None,
) -> Problem | None:
    """The runtime reports it, or a driver is missing in a container whose command requests no GPU."""
    if messages.has(*_WITH_ANY_ACCESS):
        return None
    hooks = inputs.hook_failures(messages, "^(?!.*(?:version mismatch|unsatisfied condition|timed out|timeout))")
    reported = messages.all(*_NO_GPU_REPORTED)
    inside = _inside(messages, host_container, cuda_init, works=inputs.smi_works(nvidia_smi))
    shown = hooks or reported or inside is not None
    if not shown or (os == "wsl2" and not reported):
        return None
    start = (*messages.all("image-build"), *(_of_programs(messages) or messages.all("container-start"))[-1:])
    seen = message_evidence(*reported, *hooks, *(inside or ()), *start, *inputs.driver_messages(messages))
    cause = _why_without(messages, hooks)
    if _blocked_by_the_system(messages) and host_container == "docker":
        title, cause = "The device rules of this container deny the GPU", "NVIDIA's runtime wrote no rule for it"
        return Problem(title=title, cause=cause, evidence=seen, fixes=(_CGROUPS,))
    if messages.has("nvml-blocked") and not (hooks or reported):
        title = "The container has probably lost access to its GPUs while it was running"
        return Problem(title=title, cause=cause, evidence=seen, fixes=kept_access(context, host_container))
    problem = _no_access(context, messages, host_container, of_hook=bool(hooks))
    return replace(problem, cause=cause or problem.cause, evidence=seen, possible=_wonders(context, messages))


# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration: nodes with one are left out first
NO_GPU.printed(
    "kubernetes-taint",
    title="The pod does not tolerate the taint of the nodes with GPUs",
    cause="these nodes take only pods that tolerate their taint",
    fixes=(
        Fix(
            "Add to the pod's spec, beside its containers",
            ("tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]",),
        ),
    ),
)


# https://catalog.ngc.nvidia.com/orgs/nvidia/containers/l4t-tensorflow
@NO_GPU.sign()
def jetson_without_runtime(context: Context, messages: MessageLog, devices: Devices | None = None) -> Problem | None:
    """Images for Jetsons take the libraries of JetPack from the board."""
    image, starts = messages.values("image-named", "image")[-1:], messages.all("container-start")
    misses_one = (devices is not None and not lists_gpu(devices)) or messages.has("no-gpu-listed", "gpu-fails-said")
    if not (image and "/l4t-" in image[0] and misses_one and starts) or _requests_gpus(messages):
        return None
    command = f"docker run --rm --runtime nvidia {context.remedies.quote(image[0])} {inputs.LIST_GPUS}"
    return Problem(
        cause="NVIDIA's runtime mounts the GPU, and in images for Jetsons the libraries of JetPack, on request alone",
        evidence=message_evidence(*starts[-1:]),
        fixes=(Fix("Start the container with NVIDIA's runtime", (command,)),),
    )


NO_GPU.printed(
    "no-capabilities",
    title="The service's reservation of a GPU lacks its capabilities",
    cause="Compose requires the field, and Docker finds no driver for a device without any",
    fixes=(Fix("Name them in the service in Compose's file, and run docker compose up again", COMPOSE_REQUEST),),
    sure=True,
)


def _wonders(context: Context, log: MessageLog) -> bool:
    """Whether somebody asks what harmless lines mean, who may want the CPU, and misses nothing."""
    refused = log.has(*_GPU_WANTED, *_NO_GPU_REPORTED, "container-hook-failed", "smi-not-found")
    return not context.probed and log.has("harmless") and not refused


def _why_without(log: MessageLog, hooks: tuple[Message, ...]) -> str | None:
    """The cause that the messages show."""
    known = (why for kind, why in _CAUSES.items() if log.has(kind) and (hooks or kind != "container-hook-failed"))
    return next(known, None)


# the folder: container-engine-accelerators, cmd/nvidia_gpu, -container-path
_LIBRARY_IN_POD = Problem(
    title="The container requests a GPU, and the loader does not find the driver's library in it",
    cause="the cluster mounts the driver's libraries into a folder of the container, which its image must search",
    evidence=(),
    fixes=(
        Fix(
            "In the container, see where it is; GKE's folder belongs on LD_LIBRARY_PATH in the pod's specification",
            ("find / -name 'libcuda.so.1*' 2>/dev/null", "echo $LD_LIBRARY_PATH  # GKE: /usr/local/nvidia/lib64"),
        ),
    ),
)


def _for_plugin(log: MessageLog) -> Problem:
    """NVIDIA's runtime for the device plugin; k3s has a class of runtime for it, and a configuration of its own."""
    command = _AS_DEFAULT.format((*log.values(_OF_PLUGIN, "runtime"), "containerd")[0])
    text = "On the node, if it has a GPU and its driver works, make NVIDIA's runtime the default (without nvidia-ctk, "
    default = Fix(f"{text}install the NVIDIA Container Toolkit first), and delete the plugin's pod", (command,))
    fix = _RUNTIME_CLASS if log.has("k3s") else default
    return Problem(title="NVIDIA's device plugin finds no GPU on this node", evidence=(), fixes=(fix,), sure=True)


def _no_access(context: Context, messages: MessageLog, container: str | None, *, of_hook: bool) -> Problem:
    kind = container or "docker"
    if messages.has(_OF_PLUGIN):
        return _for_plugin(messages)
    if messages.has("kubernetes-no-gpu"):
        return Problem(title="No node offers a free nvidia.com/gpu", evidence=(), fixes=(_OFFERED,))
    if kind == "kubernetes" and _requests_gpus(messages) and not messages.has("k3s", *_NO_GPU_REPORTED):
        return _LIBRARY_IN_POD
    return _not_given(context, messages, kind, of_hook=of_hook)


def _not_given(context: Context, messages: MessageLog, kind: str, *, of_hook: bool) -> Problem:
    refused = messages.has(*_DOCKER_REFUSES)
    later = (_RUN_LATER,) if messages.has("image-build") else ()
    title = "Docker cannot give the container a GPU" if (refused or of_hook) and kind == "docker" else None
    # the hook runs where GPUs are requested, and finds no driver that works
    if of_hook:
        fixes: tuple[Fix, ...] = (_DRIVER_OF_HOST, inputs.RUN_ON_HOST)
    elif kind == "docker" and not refused and _lacks_capabilities(context, messages):
        # what older toolkits give an image that names no capabilities is utility alone (NVIDIA Container Toolkit)
        run = "docker run --rm --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility {} nvidia-smi"
        ask = Fix("Ask for the driver's libraries for computing by name", (run.format(_image(context)),))
        fixes = (ask, inputs.RUN_ON_HOST)
    else:
        fixes = access(context, kind, requested=refused or _requests_gpus(messages))
    return Problem(title=title, evidence=(), fixes=(*later, *fixes))


def _lacks_capabilities(context: Context, log: MessageLog) -> bool:
    """Whether a container that Docker gave its GPUs has no libcuda, and nothing else of the driver is missed."""
    given = _requests_gpus(log) and not log.has("ngc-no-driver", "smi-not-found")
    return given and inputs.no_libcuda(log) and context.remedies.host != "windows"


def _inside(
    log: MessageLog, container: str | None, cuda_init: CallResult | None, *, works: bool
) -> tuple[Message, ...] | None:
    """Messages from inside a container without a GPU, be they none; None where nothing shows that."""
    starts = [message.line for message in log.all("container-start")]
    first = min(starts, default=10**9)  # nvidia-smi may have run elsewhere before
    # whoever provides a GPU provides nvidia-smi with it
    absent = log.all("smi-not-found")
    ran_inside = (m for m in absent if "executable file not found" in m.text or m.line > first)
    half = log.all("smi-no-libcuda") if starts else ()
    shown = (*log.all("nvml-blocked"), *ran_inside, *half)
    # the stub of CUDA's images answers, and the kernel has no driver either
    stub = inputs.has_code(cuda_init, *inputs.STUB_LIBRARY) and log.has("kernel-driver-not-running", "no-device-node")
    if shown or stub:
        return shown
    fails = _driver_fails(log, cuda_init) or _lists_none_unrequested(log)
    return shown if container and (starts or not works) and fails else None


def _lists_none_unrequested(log: MessageLog) -> bool:
    """Whether TensorFlow lists no GPU in a container, whose last command is shown, and requests none."""
    last = [one for one in _of_programs(log)[-1:] if one.values["gpus"] == "no" and _STARTS.search(one.text)]
    started = [one.line for one in log.all("container-start")]
    # a table of nvidia-smi is of the container that was started last before it
    tables = {max((line for line in started if line < one.line), default=0) for one in log.all("smi-version")}
    works = any(one.line in tables for one in last)
    of_jetson = any("/l4t-" in image for image in log.values("image-named", "image"))
    return bool(last) and log.has("no-gpu-listed") and not (works or of_jetson)


def _driver_fails(log: MessageLog, cuda_init: CallResult | None) -> bool:
    """A container that requests GPUs starts only over a working driver: a libcuda that is missing was not provided."""
    if log.has("image-build") or not _requests_gpus(log):
        return inputs.driver_unusable(log, cuda_init)
    return inputs.no_libcuda(log) and (cuda_init is None or inputs.has_code(cuda_init, inputs.LIBCUDA_NOT_OPENED))


def _of_programs(log: MessageLog) -> list[Message]:
    """The commands that start a container; one for nvidia-smi is a test of another one."""
    return [one for one in log.all("container-start") if not one.text.rstrip("` ").endswith("nvidia-smi")]


def _requests_gpus(log: MessageLog) -> bool:
    """Whether the last command that starts a container requests GPUs."""
    starts = _of_programs(log)
    return bool(starts) and starts[-1].values.get("gpus") == "yes"


SETUP = finding(
    "wsl.setup",
    layer="Machine",
    title="WSL2 is not set up for the GPU",
    cause="WSL2 takes libcuda from /usr/lib/wsl/lib and uses the GPU through /dev/dxg; one of them is missing, old or "
    "shadowed",
    fixes=lambda _: (UPDATE_WSL, REMOVE_LINUX_DRIVER, inputs.WSL_LIBRARIES_FIRST),
    docs="https://docs.nvidia.com/cuda/wsl-user-guide/index.html",
    about_gpus=True,
)


_NO_GPU_FROM_WINDOWS = (
    "Windows provides no GPU: its driver or the WSL kernel is too old, it is a Windows 10 before 21H2, or this is WSL 1"
)


@SETUP.sign()
def no_wsl_driver(
    context: Context,
    os: str,
    libcuda: Libraries,
    dxg_device: bool | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """Windows passes no GPU through, or the loader does not find Windows' libcuda first."""
    if os != "wsl2" or (messages and messages.has("wsl-1", "no-dxg")):  # there is no libcuda to find
        return None
    if dxg_device is False:
        return Problem(
            cause=_NO_GPU_FROM_WINDOWS,
            evidence=(evidence("no /dev/dxg", context.source("host.dxg_device"), "/dev/dxg"),),
            fixes=(UPDATE_WSL,),
        )
    hidden = (REMOVE_LINUX_DRIVER, inputs.WSL_LIBRARIES_FIRST)
    first = libcuda[0].path if libcuda else "no libcuda.so.1"
    if "/wsl/" in first:
        return None
    return Problem(
        cause="the loader does not find Windows' libcuda: a Linux driver hides it, or its folder is not searched",
        evidence=(evidence(first, context.source("driver.libcuda"), "/usr/lib/wsl/lib/libcuda.so.1"),),
        fixes=hidden if libcuda else hidden[::-1],
    )


_FAILURES_IN_WSL = ("container-hook-failed", "driver-insufficient", "nvml-failed", "smi-no-libcuda")


def _to_wsl_2(name: str = "") -> Fix:
    """Convert a distribution, whose name the text may tell."""
    text = "Convert the distribution to WSL 2: in Windows, which needs NVIDIA's driver for Windows"
    if name:
        return Fix(text, ("wsl --update", f"wsl --set-version {name} 2"))
    return Fix(f"{text}, and its name for NAME", ("wsl --update", "wsl -l -v", "wsl --set-version NAME 2"))


def _without_device(messages: MessageLog) -> Problem | None:
    """WSL 1, a WSL 2 without the device, or a Windows that never had it."""
    # Windows 10 21H2 is the first with a GPU that is not a preview (Microsoft, "Enable NVIDIA CUDA on WSL")
    old = [m for m in messages.all("windows-build") if int(m.values["build"]) < 19044]
    update = Fix("Update Windows to 21H2 or later, then WSL", ("wsl.exe --update",)) if old else UPDATE_WSL
    if first := messages.all("wsl-1"):
        convert = _to_wsl_2(*messages.values("wsl-1", "distribution")[:1])
        cause = "this is WSL 1, which has no Linux kernel and no GPU"
        return Problem(cause=cause, evidence=message_evidence(*first, *old), fixes=(convert,))
    # so NVIDIA's tool finds it: docker/for-win issue 10379, NVIDIA/nvidia-docker issue 1786 (of a PC without one)
    refused = inputs.hook_failures(messages, "driver error: failed to process request|no adapters were found")
    seen = message_evidence(*messages.all("no-dxg"), *old, *refused)
    cause = f"{_NO_GPU_FROM_WINDOWS}; or the computer has no NVIDIA GPU"
    return Problem(cause=cause, evidence=seen, fixes=(update, _to_wsl_2()), sure=bool(refused)) if seen else None


def _of_the_toolkit(messages: MessageLog) -> Fix:
    return _CGROUPS if _blocked_by_the_system(messages) else inputs.UPDATE_TOOLKIT


def _of_another(messages: MessageLog) -> bool:
    """Whether another finding is about it; that of versions is not, where a Linux driver in WSL explains them."""
    differ = messages.has("nvml-mismatch") and not messages.has("linux-driver-in-wsl")
    return differ or messages.has("hidden-by-variable", "stub-library")


@SETUP.sign()
def wsl_message(
    messages: MessageLog,
    os: str,
    cuda_init: CallResult | None = None,
    host_container: str | None = None,
    driver_version: str | None = None,
) -> Problem | None:
    """Under WSL2 the driver is that of Windows: what fails there is how it is made available."""
    linux_driver = messages.all("linux-driver-in-wsl")
    if os != "wsl2" or _of_another(messages):
        return None
    if without_device := _without_device(messages):
        return without_device
    if tcc := messages.all("tcc"):
        to_wddm = ("nvidia-smi -dm 0", "wsl.exe --shutdown")  # microsoft/WSL issues 9952 and 13027
        return Problem(
            title="The GPU is in the driver model TCC, which WSL2 does not pass on",
            cause="WSL2 shows GPUs that Windows runs in WDDM or MCDM alone",
            evidence=message_evidence(*tcc),
            fixes=(Fix("In Windows as administrator, switch it to WDDM; a GPU without it works in Linux", to_wddm),),
        )
    failures = messages.all("container-hook-failed", "smi-no-libcuda", *(() if driver_version else ("smi-not-found",)))
    unusable = messages.has(*_FAILURES_IN_WSL) or inputs.driver_unusable(messages, cuda_init)
    if not (linux_driver or failures or unusable):
        return None
    cause, steps = None, [UPDATE_WSL, REMOVE_LINUX_DRIVER, inputs.WSL_LIBRARIES_FIRST]
    if linux_driver:
        cause = "a Linux driver inside WSL hides the libcuda of Windows' driver"
        steps = [REMOVE_LINUX_DRIVER, UPDATE_WSL, inputs.WSL_LIBRARIES_FIRST]
    if host_container or messages.has("container-hook-failed"):
        cause = inputs.NOT_MOUNTED if inputs.has_code(cuda_init, inputs.SYMBOL_NOT_FOUND) else cause
        steps.insert(0, _of_the_toolkit(messages))
    return Problem(
        cause=cause,
        evidence=message_evidence(*linux_driver, *failures, *inputs.driver_messages(messages))
        or message_evidence(*messages.all("no-cuda-device", *_FAILURES_IN_WSL)),
        fixes=tuple(steps),
    )
