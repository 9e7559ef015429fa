"""The finding about containers: whether the GPU and its driver are passed in."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings.container_fixes import access, kept_access, with_docker_desktop
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.plan.file_edits import add_to_container
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import (
    CallResult,
    Message,
    PciGpu,
    SmiResult,
    TfDevice,
    lists_gpu,
    value_or,
)
from tfgpu_doctor.records.report import Evidence, Fix, Severity

NO_GPU = finding(
    "container.no-gpu",
    layer="Machine",
    severity=Severity.ERROR,
    title="This container was started without access to the GPU",
    cause="the container runtime provides GPUs and the driver's libraries only on request",
    fixes=lambda context: access(context, value_or(context.facts.host.container, None)),
    docs="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
    about_gpus=True,
)


@NO_GPU.sign
def no_device_nodes(
    context: Context,
    host_container: str,
    pci_gpus: tuple[PciGpu, ...],
    device_nodes: tuple[str, ...],
    driver_speaks: bool,
    kernel_module_loaded: bool | None = None,
    variables: dict[str, str] | None = None,
    os: str | None = None,
) -> Problem | None:
    """The host has a GPU (sysfs is not namespaced), but the container has no /dev/nvidia*."""
    if host_container == "none" or not pci_gpus or device_nodes or driver_speaks or os == "wsl2":
        return None
    nodes = "/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm"
    found = [
        evidence(f"a {host_container} container", context.source("host.container")),
        evidence("an NVIDIA GPU on the host's PCI bus", context.source("host.pci_gpus")),
        evidence("no /dev/nvidia*", context.source("driver.device_nodes"), nodes),
    ]
    if kernel_module_loaded:
        found.append(evidence("the host's driver is loaded", context.source("driver.kernel_module_loaded")))
    if requested := (variables or {}).get("NVIDIA_VISIBLE_DEVICES"):
        found.append(evidence(f"NVIDIA_VISIBLE_DEVICES={requested}", "environment"))
    return Problem(evidence=tuple(found))


_NO_GPU_REPORTED = (
    "docker-no-gpu-driver",
    "docker-no-runtime",
    "container-no-cdi",
    "kubernetes-no-gpu",
    "ngc-no-driver",
)
_DOCKER_REFUSES = ("docker-no-gpu-driver", "docker-no-runtime")
_OTHER_HOOK_FAILURES = "version mismatch|unsatisfied condition|timed out|timeout"
# messages → the cause that they show; the first that fits
_CAUSES = (
    (
        (*_DOCKER_REFUSES, "container-no-cdi"),
        "the NVIDIA Container Toolkit is not installed, or Docker is not configured to use it",
    ),
    (
        ("container-hook-failed",),
        "the NVIDIA container runtime finds no working driver on the host: it is missing, not loaded, or broken",
    ),
    (
        ("image-build",),
        "no GPU and no driver is available while an image is built; run the program when the container runs",
    ),
    (
        ("nvml-blocked",),
        "systemd manages the cgroups of the container and rewrites its device rules when it reloads its units (an "
        "update, systemctl daemon-reload); the new rules lack the GPUs, which systemd does not know of",
    ),
    (
        ("kubernetes-no-gpu",),
        "no node has a free nvidia.com/gpu: the device plugin does not run, or every GPU is in use",
    ),
)
# the same message on a host whose Docker runs in a virtual machine
_ON_DOCKER_DESKTOP = {
    "windows": "Docker Desktop gives containers a GPU with its WSL2 back end alone",
    "macos": "Docker on a Mac runs containers in a virtual machine that has no GPU",
}
_NVML_ALONE = "NVML cannot reach the GPUs from inside this container"
_RUN_LATER = Fix(text="Start the program with CMD or ENTRYPOINT instead of RUN, and keep CUDA's stub library as it is")


@NO_GPU.sign(unless=("gpu.none",))
def container_message(
    context: Context,
    messages: MessageLog,
    host_container: str | None = None,
    cuda_init: CallResult | None = None,
    os: str | None = None,
    nvidia_smi: SmiResult | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """The runtime reports it, or a driver is missing in a container whose command requests no GPU."""
    if _explained_by_libraries(messages, cuda_init, variables or {}):
        return None
    hooks = answers.hook_failures(messages, f"^(?!.*(?:{_OTHER_HOOK_FAILURES}))")
    reported = messages.all(*_NO_GPU_REPORTED)
    inside = _inside(messages, host_container, cuda_init, works=answers.smi_works(nvidia_smi), wsl=os == "wsl2")
    shown = hooks or reported or inside is not None
    if not shown or (os == "wsl2" and not reported):
        return None
    start = messages.all("image-build", "container-start")
    seen = message_evidence(*reported, *hooks, *(inside or ()), *start, *answers.driver_messages(messages))
    if messages.has("nvml-blocked") and not (hooks or reported):
        return Problem(
            title="The container has probably lost access to its GPUs while it was running",
            cause=_NVML_ALONE if with_docker_desktop(context) else _reported_cause(messages, of_hook=False),
            evidence=seen,
            fixes=kept_access(context, host_container),
        )
    return _no_access(context, messages, seen, host_container, of_hook=bool(hooks))


def _no_access(
    context: Context, messages: MessageLog, seen: tuple[Evidence, ...], container: str | None, *, of_hook: bool
) -> Problem:
    kind = container or ("kubernetes" if messages.has("kubernetes-no-gpu") else "docker")
    refused = messages.has(*_DOCKER_REFUSES)
    return Problem(
        title="Docker cannot give the container a GPU" if refused and kind == "docker" else None,
        cause=(_ON_DOCKER_DESKTOP.get(context.remedies.host) if refused else None)
        or _reported_cause(messages, of_hook=of_hook),
        evidence=seen,
        fixes=(
            *((_RUN_LATER,) if messages.has("image-build") else ()),
            *access(context, kind, requested=_requests_gpus(messages), refused=refused),
            *((answers.RUN_ON_HOST,) if of_hook else ()),
        ),
    )


def _explained_by_libraries(log: MessageLog, cuda_init: CallResult | None, variables: dict[str, str]) -> bool:
    """Two versions of a driver, no module, or CUDA's stub library on the loader path fail with any access."""
    stub_first = "/stubs" in variables.get("LD_LIBRARY_PATH", "")
    stub_answers = stub_first and answers.has_code(cuda_init, *answers.STUB_LIBRARY)
    return stub_answers or log.has("driver-versions-differ", "nvml-mismatch", "module-not-built")


def _reported_cause(messages: MessageLog, *, of_hook: bool) -> str | None:
    known = _CAUSES if of_hook else [row for row in _CAUSES if "container-hook-failed" not in row[0]]
    return next((cause for kinds, cause in known if messages.has(*kinds)), None)


def _inside(
    log: MessageLog, container: str | None, cuda_init: CallResult | None, *, works: bool, wsl: bool
) -> tuple[Message, ...] | None:
    """Messages from inside a container without a GPU, be they none; None where nothing shows that."""
    starts = [message.line for message in log.all("container-start")]  # nvidia-smi may have run elsewhere before
    # whoever provides a GPU provides nvidia-smi with it
    no_program = [m for m in log.all("smi-not-found") if _ran_inside(m, starts)] if container else []
    half = log.all("smi-no-libcuda") if starts and not wsl else ()
    shown = (*log.all("nvml-blocked"), *no_program, *half)
    # the stub of CUDA's images answers, and the kernel has no driver either
    stub = answers.has_code(cuda_init, *answers.STUB_LIBRARY) and log.has("kernel-driver-not-running", "no-device-node")
    if shown or stub:
        return shown
    return shown if container and (starts or not works) and _driver_fails(log, cuda_init) else None


def _ran_inside(message: Message, starts: list[int]) -> bool:
    return "executable file not found" in message.text or any(message.line > line for line in starts)


def _driver_fails(log: MessageLog, cuda_init: CallResult | None) -> bool:
    """A container that requests GPUs starts only over a working driver: a libcuda that is missing was not provided."""
    if log.has("image-build") or not _requests_gpus(log):
        return bool(answers.driver_unusable(log, cuda_init))
    refused = cuda_init is None or answers.has_code(cuda_init, answers.LIBCUDA_NOT_OPENED)
    return bool(answers.no_libcuda(log)) and refused


def _requests_gpus(log: MessageLog) -> bool:
    """Whether the last command that starts a container before the failure requests GPUs."""
    failures = log.all(
        "cuinit-failed", "kernel-driver-not-running", "no-cuda-device", "libcuda-not-loaded", "nvml-blocked"
    )
    first = min((message.line for message in failures), default=None)
    starts = sorted(log.all("container-start"), key=lambda message: message.line)
    made = [start for start in starts if start.values["gpus"]]  # others enter a container that runs
    before = [start for start in made if first is None or start.line <= first] or made
    return bool(before) and before[-1].values["gpus"] == "yes"


@NO_GPU.sign(unless=("gpu.none", "gpu.hidden", "gpu.arch-*", "driver.*", "wsl.setup", "tf.cpu-build"))
def works_when_requested(
    context: Context, messages: MessageLog, host_container: str, devices: tuple[TfDevice, ...] | None = None
) -> Problem | None:
    """One start requests GPUs and one does not, and nothing but the missing GPU is complained of."""
    starts = messages.all("container-start")
    without = [start for start in starts if start.values["gpus"] == "no"]
    if not without or len(without) == len(starts) or messages.complains or lists_gpu(devices):
        return None
    fixes = access(context, host_container)
    return Problem(evidence=message_evidence(*without, *starts), fixes=fixes, possible=True, severity=Severity.WARNING)


_LIMITS: tuple[str, ...] = ("resources:", "  limits:", "    nvidia.com/gpu: 1")
_RESERVATION = (
    "deploy:",
    "  resources:",
    "    reservations:",
    "      devices:",
    "        - driver: nvidia",
    "          count: all",
    "          capabilities: [gpu]",
)


# what each kind of file needs: what is expected, its lines, where that is documented, why
_REQUESTS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "kubernetes": (
        "resources.limits nvidia.com/gpu: 1",
        _LIMITS,
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        "Kubernetes gives a container only the devices under its limits",
    ),
    "compose": (
        "a device reservation with capabilities: [gpu]",
        _RESERVATION,
        "https://docs.docker.com/compose/how-tos/gpu-support/",
        "Docker gives a container no GPU unless it requests one",
    ),
}


@in_manifests(NO_GPU)
def no_request_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """A service or a pod whose image is made for GPUs requests none, or in a way that has no effect."""
    environment = view.environment
    if environment.kind not in _REQUESTS:
        return
    expected, fix, docs, why = _REQUESTS[environment.kind]
    request = environment.gpu
    if request and request.problem:
        yield Problem(
            title=f"{environment.label} gets no GPU: {request.problem}",
            cause="the request is in the file, but has no effect",
            evidence=(evidence(request.text, str(request.place), expected, docs),),
            fixes=(Fix("Write it as", fix),),
        )
    elif view.needs_request:
        found = view.base.image.reference if view.base else environment.label
        yield Problem(
            title=f"{environment.label} requests no GPU",
            cause=why,
            evidence=(evidence(found, str(environment.place), expected, docs),),
            fixes=(add_to_container(view, fix),),
        )
