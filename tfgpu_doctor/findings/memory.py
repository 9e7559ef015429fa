"""Rules about memory: that of the GPUs, which others may hold, and /dev/shm."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.gpu import visible_devices
from tfgpu_doctor.findings.message_log import Said
from tfgpu_doctor.records.facts import ComputeCheck, Gpu, GpuProcess, Known, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

GPU_GUIDE = "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth"
NCCL_SHM = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html"

MIB, GIB = 2**20, 2**30
# A CUDA context, cuDNN and cuBLAS need some hundred MiB before the first tensor.
NEARLY_NOTHING = 512 * MIB
DOCKERS_SHM = 64 * MIB  # what Docker and containerd give a container that asks for nothing


def how_many(gpus: tuple[Gpu, ...] | None, devices: tuple[TfDevice, ...] | None) -> int:
    """GPUs of this machine, by the driver or by TensorFlow, whoever knows of more."""
    return max(len(gpus or ()), sum(device.kind == "GPU" for device in devices or ()))


@rule(
    "memory.taken",
    Severity.WARNING,
    "Others hold most of the GPU's memory",
    needs=("gpus",),
    wants=("variables", "tensorflow.checks", "derived.told"),
    docs=GPU_GUIDE,
)
def taken(
    context: Context,
    gpus: tuple[Gpu, ...],
    variables: dict[str, str] | None,
    checks: tuple[ComputeCheck, ...] | None,
    told: Said | None,
) -> Problem | None:
    """Less than half is free; nearly nothing on the card that TensorFlow would take first is an error."""
    if told is not None:
        return None  # a pasted table may show this very program's memory: rules/said_runtime.py asks for a failure, too
    visible = _visible(gpus, variables)
    held = [gpu for gpu in visible if _free_share(gpu) < 0.5]
    if not held:
        return None
    full = _is_full(visible[0]) and not any(check.ok for check in checks or ())
    holders = dict.fromkeys(f"{process.pid}" for gpu in held for process in value_or(gpu.processes, ()))
    free = [gpu for gpu in visible if gpu not in held]
    choose: tuple[Fix, ...] = ()
    if free:
        numbers = ",".join(str(gpu.index) for gpu in free)
        commands = ("export CUDA_DEVICE_ORDER=PCI_BUS_ID", f"export CUDA_VISIBLE_DEVICES={numbers}")
        choose = (Fix(text="Take the GPUs that are free", commands=commands),)
    see = ("nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv",)
    stop = f"ps -o pid,user,etime,command -p {','.join(holders)}" if holders else "sudo fuser -v /dev/nvidia*"
    return Problem(
        title=f"Nearly nothing of GPU {visible[0].index}'s memory is free" if full else None,
        cause="TensorFlow takes nearly all memory of every GPU at its start; a second one beside it gets what is left",
        evidence=tuple(item for gpu in held for item in _holders(context, gpu)),
        fixes=(
            *choose,
            Fix(text="See who holds it, and end what is not needed any more", commands=(*see, stop)),
            Fix(
                text="Let programs that share a card take only what they need",
                commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",),
            ),
        ),
        severity=Severity.ERROR if full else Severity.WARNING,
    )


def _visible(gpus: tuple[Gpu, ...], variables: dict[str, str] | None) -> tuple[Gpu, ...]:
    """The GPUs that this process sees, in its order; slices of MIG have memory of their own."""
    whole = tuple(gpu for gpu in gpus if not value_or(gpu.mig_mode, False))
    chosen = (variables or {}).get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return whole
    found = [
        gpu
        for entry in visible_devices(chosen, gpus)
        for gpu in whole
        if entry == str(gpu.index) or (not entry.isdecimal() and value_or(gpu.uuid, "").startswith(entry))
    ]
    return tuple(found)


def _free_share(gpu: Gpu) -> float:
    total, free = value_or(gpu.memory_total, 0), value_or(gpu.memory_free, None)
    return 1.0 if free is None or not total else free / total


def _is_full(gpu: Gpu) -> bool:
    return isinstance(gpu.memory_free, Known) and gpu.memory_free.value < NEARLY_NOTHING


def _holders(context: Context, gpu: Gpu) -> list[Evidence]:
    """How much is free, and which processes NVML names; those of other containers it does not."""
    name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
    free, total = value_or(gpu.memory_free, 0) / GIB, value_or(gpu.memory_total, 0) / GIB
    source = context.source("gpus")
    seen = [evidence(f"{name}: {free:.1f} of {total:.1f} GiB free", source, "nearly all free")]
    processes: tuple[GpuProcess, ...] = value_or(gpu.processes, ())
    for process in processes[:8]:
        size = f", {process.memory / GIB:.1f} GiB" if process.memory else ""
        called = f" ({process.name})" if process.name else ""
        seen.append(evidence(f"process {process.pid}{called}{size}", source))
    if not processes:
        seen.append(evidence("no process is named: it runs in another container, or as another user", source))
    return seen


@rule(
    "shm.small",
    Severity.WARNING,
    "/dev/shm is small",
    needs=("host.shm", "host.container"),
    wants=("gpus", "tensorflow.devices"),
    docs=NCCL_SHM,
)
def shm_small(
    context: Context,
    size: int,
    container: str,
    gpus: tuple[Gpu, ...] | None,
    devices: tuple[TfDevice, ...] | None,
) -> Problem | None:
    """A container's 64 MiB: NCCL communicates in it, between the threads of one process too, and input pipelines do.

    Source: NCCL user guide, "Runtime and MPI issues: Shared memory": when it does not suffice, NCCL fails to
    initialise; --shm-size=1g --ulimit memlock=-1 is what it advises for Docker.
    """
    count = how_many(gpus, devices)
    if container == "none" or size > DOCKERS_SHM or not count:
        return None
    several = count > 1
    return Problem(
        cause="NCCL and worker processes of an input pipeline exchange data there; with several GPUs it runs full"
        if several
        else "one GPU does well with it, unless worker processes of an input pipeline hand over batches in it",
        evidence=(
            evidence(f"{size / MIB:.0f} MiB", context.source("host.shm"), "1 GiB or more for several GPUs"),
            evidence(f"{count} GPU{'s' * several} in a {container} container", context.source("host.container")),
        ),
        fixes=(_more_shm(container),),
        severity=Severity.WARNING if several else Severity.NOTE,
    )


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
