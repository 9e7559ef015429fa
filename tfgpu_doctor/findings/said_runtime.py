"""Rules over what a running job says of its GPUs together, and of its results; memory and speed have own files."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity


@rule(
    "shm.small",
    Severity.ERROR,
    "/dev/shm is too small",
    needs=("derived.said",),
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory",
)
def shm_small(context: Context, said: Said) -> Problem | None:
    """NCCL or a data loader cannot create its segment in shared memory."""
    seen = said.all("shared-memory-full")
    listed = said.all("shm-listed")
    if not seen and not (listed and said.has("bus-error", "no-space-left")):
        return None
    return Problem(
        cause="a container gets 64 MiB of /dev/shm unless it is told otherwise; NCCL and worker processes "
        "exchange data there",
        evidence=heard(*seen, *said.all("bus-error", "no-space-left"), *listed),
        fixes=(
            Fix(text="Give the container more", commands=("docker run --shm-size=8g ...", "df -h /dev/shm")),
            Fix(text="In Kubernetes, mount an emptyDir with medium: Memory at /dev/shm"),
            Fix(text="Remove what crashed jobs left there", commands=("ls -l /dev/shm",)),
        ),
    )


def _only_together(said: Said) -> tuple[Message, ...]:
    """A job of several GPUs that does not go on, or loses numbers on the way, and no other reason for it."""
    if said.has("nccl-warning", "nccl-error", "out-of-memory", "shared-memory-full", "bus-error"):
        return ()
    nan = said.all("nan-over-several-gpus")
    hangs = said.all("several-gpus-hang")
    if said.has("job-hangs") and said.has("several-gpus-asked", "peer-access-none"):
        hangs = (*hangs, *said.all("peer-access-none", "job-hangs", "several-gpus-asked"))
    return (*nan, *hangs)


@rule(
    "p2p.failed",
    Severity.ERROR,
    "The GPUs cannot reach each other directly",
    needs=("derived.said",),
    requires=("shm.small", "driver.*", "container.no-gpu"),
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs",
)
def p2p_failed(context: Context, said: Said) -> Problem | None:
    """Peer access fails or hangs."""
    seen = said.all("peer-access-failed", "dma-fault")
    told = () if seen or not said.from_text else _only_together(said)
    if not seen and not told:
        return None
    return Problem(
        severity=None if seen else Severity.WARNING,
        title=None if seen else "Several GPUs fail together: most likely they cannot reach each other directly",
        cause="the PCIe path between the cards blocks or corrupts their traffic: ACS or the IOMMU is on, the topology "
        "or the driver does not allow it",
        evidence=heard(*seen, *told),
        fixes=(
            Fix(text="Go around it, slower", commands=("export NCCL_P2P_DISABLE=1",)),
            Fix(
                text="See the topology, and whether ACS is on",
                commands=("nvidia-smi topo -m", "nvidia-smi topo -p2p r", "sudo lspci -vvv | grep ACSCtl"),
            ),
            Fix(text="Turn ACS and the IOMMU off in the firmware, or boot with iommu=pt"),
        ),
    )


@rule(
    "nccl.error",
    Severity.ERROR,
    "NCCL fails",
    needs=("derived.said",),
    requires=("shm.small", "p2p.failed", "driver.*", "gpu.mig", "gpu.fault", "container.no-gpu"),
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
)
def nccl_error(context: Context, said: Said) -> Problem | None:
    """NCCL says so, or TensorFlow has no kernel of it."""
    warned = [m for m in said.all("nccl-warning") if not re.search(r"libibverbs|libnccl-net|[Nn]o plugin", m.text)]
    lost = [m for name, m in said.libraries("loader-error", "library-not-opened") if name.startswith("libnccl")]
    seen = (*warned, *said.all("nccl-error", "nccl-timeout"), *lost)
    if not seen and not said.has("out-of-memory"):  # a worker that ran out of memory ends the others, too
        seen = said.all("collective-aborted")
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
        evidence=heard(*seen),
        fixes=(other,) if absent else (debug, network, other),
    )


@rule(
    "compute.wrong-result",
    Severity.ERROR,
    "The GPU is said to compute wrongly",
    needs=("derived.told",),
    requires=("driver.*", "gpu.arch-*", "gpu.fault"),
    docs="https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism",
)
def wrong_result(context: Context, said: Said) -> Problem | None:
    """Somebody compares CPU and GPU and finds another result."""
    # XLA's warning about an old ptxas and oneDNN's notice speak of wrong results, too, and report none
    seen = [m for m in said.all("wrong-result") if not re.search(r"ptxas|miscompile|round-off|oneDNN", m.text)]
    lost = said.all("nan-over-several-gpus")  # on their way from card to card, most likely
    if not (seen or lost) or said.stops_import:
        return None
    alone = said.speaks_only_of("wrong-result", "nan-result")
    return Problem(
        possible=not seen,
        severity=None if seen and alone else Severity.WARNING,
        cause="TF32 and other orders of summation differ in the last digits; a larger difference is a defect of the "
        "kernel, of the build, or of the card",
        evidence=heard(*seen, *lost),
        fixes=(
            Fix(
                text="Verify matrix products and convolutions on this card",
                commands=("tfgpu doctor", "tfgpu bench matpow"),
            ),
            Fix(text="Rule TF32 out: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )
