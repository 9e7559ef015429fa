"""Findings about communication."""

from __future__ import annotations

import re

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity

DOCKERS_SHM = 64 * 2**20  # what Docker and containerd give a container that asks for nothing
MIB = 2**20


def _more_shm(container: str) -> Fix:
    if container == "kubernetes":
        return Fix(
            text="Mount a volume in memory there: volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}], "
            "and volumeMounts: [{name: shm, mountPath: /dev/shm}] in the container"
        )
    start = "podman run --device nvidia.com/gpu=all" if container == "podman" else "docker run --gpus all"
    return Fix(
        text="Start the container with more",
        commands=(f"{start} --shm-size=1g --ulimit memlock=-1 ...",),
    )


def _only_together(said: MessageLog) -> tuple[Message, ...]:
    """A job of several GPUs that does not go on, or loses numbers on the way, and no other reason for it."""
    if said.has("nccl-warning", "nccl-error", "out-of-memory", "shared-memory-full", "bus-error"):
        return ()
    nan = said.all("nan-over-several-gpus")
    hangs = said.all("several-gpus-hang")
    if said.has("job-hangs") and said.has("several-gpus-asked", "peer-access-none"):
        hangs = (*hangs, *said.all("peer-access-none", "job-hangs", "several-gpus-asked"))
    return (*nan, *hangs)


SMALL = finding(
    "shm.small",
    layer="Machine",
    severity=Severity.WARNING,
    title="/dev/shm is small",
    symptoms=(symptoms.NCCL_SYSTEM_ERROR,),
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html",
)


@SMALL.sign(conclusive=False)
def shm_small(
    context: Context,
    shm: int,
    host_container: str,
    gpu_count: int | None = None,
) -> Problem | None:
    """A container's 64 MiB: NCCL communicates in it, between the threads of one process too, and input pipelines do.

    Source: NCCL user guide, "Runtime and MPI issues: Shared memory": when it does not suffice, NCCL fails to
    initialise; --shm-size=1g --ulimit memlock=-1 is what it advises for Docker.
    """
    count = gpu_count or 0
    if host_container == "none" or shm > DOCKERS_SHM or not count:
        return None
    several = count > 1
    return Problem(
        cause="NCCL and worker processes of an input pipeline exchange data there; with several GPUs it runs full"
        if several
        else "one GPU does well with it, unless worker processes of an input pipeline hand over batches in it",
        evidence=(
            evidence(f"{shm / MIB:.0f} MiB", context.source("host.shm"), "1 GiB or more for several GPUs"),
            evidence(f"{count} GPU{'s' * several} in a {host_container} container", context.source("host.container")),
        ),
        fixes=(_more_shm(host_container),),
        severity=Severity.WARNING if several else Severity.NOTE,
    )


@SMALL.sign
def shm_small_reported(messages: MessageLog) -> Problem | None:
    """NCCL or a data loader cannot create its segment in shared memory."""
    seen = messages.all("shared-memory-full")
    listed = messages.all("shm-listed")
    if not seen and not (listed and messages.has("bus-error", "no-space-left")):
        return None
    return Problem(
        severity=Severity.ERROR,
        cause="a container gets 64 MiB of /dev/shm unless it is told otherwise; NCCL and worker processes "
        "exchange data there",
        evidence=message_evidence(*seen, *messages.all("bus-error", "no-space-left"), *listed),
        fixes=(
            Fix(text="Give the container more", commands=("docker run --shm-size=8g ...", "df -h /dev/shm")),
            Fix(text="In Kubernetes, mount an emptyDir with medium: Memory at /dev/shm"),
            Fix(text="Remove what crashed jobs left there", commands=("ls -l /dev/shm",)),
        ),
    )


FAILED = finding(
    "p2p.failed",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPUs cannot reach each other directly",
    pointless_after=("shm.small", "driver.*", "container.no-gpu"),
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs",
)


@FAILED.sign
def p2p_failed(messages: MessageLog) -> Problem | None:
    """Peer access fails or hangs."""
    seen = messages.all("peer-access-failed", "dma-fault")
    told = () if seen or not messages.from_text else _only_together(messages)
    if not seen and not told:
        return None
    return Problem(
        severity=None if seen else Severity.WARNING,
        title=None if seen else "Several GPUs fail together: most likely they cannot reach each other directly",
        cause="the PCIe path between the cards blocks or corrupts their traffic: ACS or the IOMMU is on, the topology "
        "or the driver does not allow it",
        evidence=message_evidence(*seen, *told),
        fixes=(
            Fix(text="Go around it, slower", commands=("export NCCL_P2P_DISABLE=1",)),
            Fix(
                text="See the topology, and whether ACS is on",
                commands=("nvidia-smi topo -m", "nvidia-smi topo -p2p r", "sudo lspci -vvv | grep ACSCtl"),
            ),
            Fix(text="Turn ACS and the IOMMU off in the firmware, or boot with iommu=pt"),
        ),
    )


ERROR = finding(
    "nccl.error",
    layer="GPU",
    severity=Severity.ERROR,
    title="NCCL fails",
    pointless_after=("shm.small", "p2p.failed", "driver.*", "gpu.mig", "gpu.fault", "container.no-gpu"),
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
)


@ERROR.sign
def nccl_error(messages: MessageLog) -> Problem | None:
    """NCCL says so, or TensorFlow has no kernel of it."""
    warned = [m for m in messages.all("nccl-warning") if not re.search(r"libibverbs|libnccl-net|[Nn]o plugin", m.text)]
    lost = [m for name, m in messages.libraries("loader-error", "library-not-opened") if name.startswith("libnccl")]
    seen = (*warned, *messages.all("nccl-error", "nccl-timeout"), *lost)
    if not seen and not messages.has("out-of-memory"):  # a worker that ran out of memory ends the others, too
        seen = messages.all("collective-aborted")
    if not seen:
        return None
    absent = any(re.search(r"OpKernel|Op type not registered", m.text) for m in seen)
    other = Fix(
        text="Let TensorFlow reduce without NCCL: "
        "tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())"
    )
    debug = Fix(text="See what NCCL does", commands=("export NCCL_DEBUG=INFO", "nvidia-smi topo -m"))
    network = Fix(
        text="Name the network interface and, in containers, give more shared memory",
        commands=("export NCCL_SOCKET_IFNAME=eth0", "docker run --shm-size=8g ..."),
    )
    return Problem(
        cause="NCCL is not part of TensorFlow on Windows, nor of CPU builds"
        if absent
        else "NCCL could not set up or carry out its exchange between the GPUs",
        evidence=message_evidence(*seen),
        fixes=(other,) if absent else (debug, network, other),
    )
