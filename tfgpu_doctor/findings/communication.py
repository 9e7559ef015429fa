"""Findings about GPUs that exchange data: shared memory, peer access, NCCL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.plan.file_edits import add_to_container
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import Message, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.units import MIB

NCCL_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/"
_DOCKERS_SHM = 64 * MIB  # what Docker and containerd give a container that asks for nothing
_POD_SHM = (
    "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]",
    "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
)
_TOPOLOGY = "nvidia-smi topo -m"


# --------------------------------------------------------------------------------------------------- shm.small


def _more_shm(context: Context) -> tuple[Fix, ...]:
    container = value_or(context.facts.host.container, None)
    start = "podman run --device nvidia.com/gpu=all" if container == "podman" else "docker run --gpus all"
    docker = Fix(text="Start the container with more", commands=(f"{start} --shm-size=1g --ulimit memlock=-1 ...",))
    pod = Fix(text="In Kubernetes, mount a volume in memory at /dev/shm", commands=_POD_SHM)
    more = {None: (docker, pod), "kubernetes": (pod,)}.get(container, (docker,))
    return (*more, Fix(text="Remove files that crashed jobs left in /dev/shm", commands=("ls -l /dev/shm",)))


SMALL = finding(
    "shm.small",
    layer="Machine",
    severity=Severity.WARNING,
    title="/dev/shm is small",
    despite_verified=True,
    symptoms=(symptoms.NCCL_SYSTEM_ERROR,),
    docs=f"{NCCL_GUIDE}troubleshooting/runtime_and_mpi_issues.html",
    cause="NCCL and worker processes of an input pipeline exchange data in /dev/shm; a container gets 64 MiB of it "
    "unless more is requested",
    fixes=_more_shm,
)


@SMALL.sign(conclusive=False)
def dockers_default(context: Context, shm: int, host_container: str, gpu_count: int | None = None) -> Problem | None:
    """A container's 64 MiB: NCCL communicates in it, between the threads of one process too, and input pipelines do.

    Source: NCCL user guide, "Runtime and MPI issues: Shared memory": when it does not suffice, NCCL fails to
    initialise; --shm-size=1g --ulimit memlock=-1 is what it advises for Docker.
    """
    if host_container == "none" or shm > _DOCKERS_SHM or not gpu_count:
        return None
    several = gpu_count > 1
    return Problem(
        cause=None if several else "enough for one GPU, unless worker processes of an input pipeline use it",
        evidence=(
            evidence(f"{shm / MIB:.0f} MiB", context.source("host.shm"), "1 GiB or more for several GPUs"),
            evidence(
                f"{gpu_count} GPU{'s' * several} in a {host_container} container", context.source("host.container")
            ),
        ),
        severity=Severity.WARNING if several else Severity.NOTE,
    )


@SMALL.sign
def shared_memory_message(messages: MessageLog) -> Problem | None:
    """NCCL or a data loader cannot create its segment in shared memory."""
    full, listed = messages.all("shared-memory-full"), messages.all("shm-listed")
    no_space = messages.all("bus-error", "no-space-left")
    if not full and not (listed and no_space):
        return None
    return Problem(severity=Severity.ERROR, evidence=message_evidence(*full, *no_space, *listed))


@in_manifests(SMALL)
def several_gpus_requested(view: PlannedEnvironment) -> Iterator[Problem]:
    """A service or a pod requests several GPUs, and no more than a container's 64 MiB."""
    request, kind = view.environment.gpu, view.environment.kind
    # without a request, container.no-gpu advises one of all GPUs in a compose file, and of one in a pod
    advised = request is None and kind == "compose" and view.needs_request
    several = advised or (request is not None and (request.count is None or request.count > 1))
    given = any(one.name in ("shm_size", "ipc") for one in view.environment.settings)
    if several and not given and kind in ("compose", "kubernetes"):
        found, place = (request.text, request.place) if request else (view.environment.label, view.environment.place)
        add = Fix("Add", _POD_SHM) if kind == "kubernetes" else add_to_container(view, ("shm_size: 1gb",))
        yield Problem(
            title=f"/dev/shm has 64 MiB, and several GPUs are {'to be ' * advised}requested",
            evidence=(Evidence(found, str(place), "1 GiB or more", "NVIDIA's container notes"),),
            fixes=(add,),
            severity=Severity.WARNING,
        )


# -------------------------------------------------------------------------------------------------- p2p.failed

FAILED = finding(
    "p2p.failed",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPUs cannot access each other's memory directly",
    despite_verified=True,
    pointless_after=("shm.small", "driver.*", "container.no-gpu"),
    docs=f"{NCCL_GUIDE}troubleshooting.html#pci-access-control-services-acs",
    cause="the PCIe path between the GPUs blocks or corrupts their traffic: ACS or the IOMMU is enabled, or the "
    "topology or the driver does not allow it",
    fixes=lambda _: (
        Fix(text="Bypass it (slower)", commands=("export NCCL_P2P_DISABLE=1",)),
        Fix(
            text="Check the topology, and whether ACS is enabled",
            commands=(_TOPOLOGY, "nvidia-smi topo -p2p r", "sudo lspci -vvv | grep ACSCtl"),
        ),
        Fix(text="Disable ACS and the IOMMU in the firmware, or boot with iommu=pt"),
    ),
)


@FAILED.sign
def peer_access_message(messages: MessageLog) -> Problem | None:
    """Peer access fails."""
    failed = messages.all("peer-access-failed", "dma-fault")
    return Problem(evidence=message_evidence(*failed)) if failed else None


@FAILED.sign
def fails_only_on_several(messages: MessageLog) -> Problem | None:
    """A job on several GPUs hangs or computes NaN, and nothing shows another reason."""
    if messages.has("nccl-warning", "nccl-error", "out-of-memory", "shared-memory-full", "bus-error"):
        return None
    found: tuple[Message, ...] = messages.all("nan-over-several-gpus", "several-gpus-hang")
    if messages.has("job-hangs") and messages.has("several-gpus-asked", "peer-access-none"):
        found = (*found, *messages.all("peer-access-none", "job-hangs", "several-gpus-asked"))
    if not found:
        return None
    return Problem(
        title="A job fails only on several GPUs: they probably cannot access each other's memory directly",
        evidence=message_evidence(*found),
        severity=Severity.WARNING,
    )


# -------------------------------------------------------------------------------------------------- nccl.error

ERROR = finding(
    "nccl.error",
    layer="GPU",
    severity=Severity.ERROR,
    title="NCCL fails",
    despite_verified=True,
    pointless_after=("shm.small", "p2p.failed", "driver.*", "gpu.mig", "gpu.fault", "container.no-gpu"),
    docs=f"{NCCL_GUIDE}troubleshooting.html",
    cause="NCCL could not set up or carry out the communication between the GPUs",
)


@ERROR.sign
def nccl_message(messages: MessageLog) -> Problem | None:
    """NCCL reports an error, its library is missing, or TensorFlow has no kernel that uses it."""
    warned = [m for m in messages.all("nccl-warning") if not re.search(r"libibverbs|libnccl-net|[Nn]o plugin", m.text)]
    loader = messages.libraries("loader-error", "library-not-opened")
    missing = [message for name, message in loader if name.startswith("libnccl")]
    found = (*warned, *messages.all("nccl-error", "nccl-timeout"), *missing)
    if not found and not messages.has("out-of-memory"):  # a worker that ran out of memory ends the others, too
        found = messages.all("collective-aborted")
    if not found:
        return None
    without = Fix(
        text="Let TensorFlow reduce without NCCL: "
        "tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())"
    )
    if any(re.search(r"OpKernel|Op type not registered", m.text) for m in found):
        cause = "TensorFlow contains no NCCL on Windows, nor in CPU builds"
        return Problem(cause=cause, evidence=message_evidence(*found), fixes=(without,))
    debug = Fix(text="Show what NCCL does", commands=("export NCCL_DEBUG=INFO", _TOPOLOGY))
    network = Fix(
        text="Set the network interface and, in containers, provide more shared memory",
        commands=("export NCCL_SOCKET_IFNAME=eth0", "docker run --shm-size=8g ..."),
    )
    return Problem(evidence=message_evidence(*found), fixes=(debug, network, without))
