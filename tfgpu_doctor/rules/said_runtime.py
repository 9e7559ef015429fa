"""Rules over what a running job says: memory, several GPUs, results, speed."""

from __future__ import annotations

import re
from itertools import pairwise

from tfgpu_doctor.facts import Gpu, Message, value_or
from tfgpu_doctor.report import Evidence, Fix, Severity
from tfgpu_doctor.rules.context import Context
from tfgpu_doctor.rules.engine import Problem, evidence, rule
from tfgpu_doctor.rules.said import Said, heard

_SIZES = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TAKEN = 0.5  # share of a card's memory that is free when TensorFlow starts; below it somebody else holds it
_FULL = 0.7  # share that nvidia-smi shows as used
_SMALL_BATCH = 64
_MEMORY = ("out-of-memory", "dst-not-initialized", "device-memory-exhausted")


def size(text: str) -> float | None:
    """Bytes of "11.90GiB", "381.44MiB", "3.98G" or a plain number."""
    match = re.match(r"([\d.]+) ?([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    try:
        return float(match[1]) * _SIZES[match[2].upper() or "B"] if match else None
    except ValueError:
        return None


def _little_left(said: Said) -> list[Message]:
    """Lines in which TensorFlow finds a card mostly taken when it starts."""
    found = []
    totals = [v for m in said.all("memory-total") if (v := size(m.values.get("total", "")))]
    for message in said.all("memory-left"):
        values = message.values
        free = size(values.get("free") or values.get("left") or "")
        total = size(values.get("total") or values.get("all") or "") or (totals[0] if totals else None)
        if free is not None and total and free < total * _TAKEN:
            found.append(message)
    return found


def _tiny(said: Said) -> list[Message]:
    """Lines that show how little of the card TensorFlow got: its allocator's limit is what was free at the start."""
    return [m for m in said.all("allocator-limit") if int(m.values["limit"]) < 2**27]


def _held(gpus: tuple[Gpu, ...] | None) -> list[Evidence]:
    """What nvidia-smi shows of memory in use."""
    found = []
    for gpu in gpus or ():
        used, total = value_or(gpu.memory_used, None), value_or(gpu.memory_total, None)
        free = value_or(gpu.memory_free, None)
        if used is None and free is not None and total and free < total * _TAKEN:  # as TensorFlow logs it at its start
            found.append(evidence(f"GPU {gpu.index}: {free // 2**20} of {total // 2**20} MiB free", "TensorFlow's log"))
        if used and total and used > total * _FULL:
            names = ", ".join(f"{p.name or p.pid}" for p in value_or(gpu.processes, ())[:3])
            by = f", by {names}" if names else ""
            found.append(evidence(f"GPU {gpu.index}: {used // 2**20} of {total // 2**20} MiB in use{by}", "nvidia-smi"))
    return found


def _shrinking(said: Said) -> bool:
    """Whether TensorFlow asked for the whole card, and then for less and less: at its start nothing is there."""
    sizes = [v for m in said.all("out-of-memory") if (v := size(m.values.get("size", "")))]
    down = sum(later < earlier for earlier, later in pairwise(sizes))
    return len(sizes) >= 2 and down == len(sizes) - 1 and sizes[0] > 2**30


def _failed(said: Said) -> tuple[Message, ...]:
    allocations = [m for m in said.all("cublas-handle", "cudnn-status") if "ALLOC_FAILED" in m.text]
    return (*said.all(*_MEMORY), *allocations)


@rule(
    "memory.taken",
    Severity.ERROR,
    "Another process holds the GPU's memory",
    needs=("derived.said",),
    wants=("gpus",),
    requires=("gpu.fault",),
    docs="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
)
def taken(context: Context, said: Said, gpus: tuple[Gpu, ...] | None) -> Problem | None:
    """Memory runs out, and a sign of another holder is there."""
    failed = (*_failed(said), *said.all("cudnn-handle", "cublas-handle", "no-dnn-library", "devices-busy"))
    left, held = [*_little_left(said), *_tiny(said)], _held(gpus)
    tight = _shrinking(said) and not any("OOM when" in m.text for m in said.all("out-of-memory"))
    other = said.all("devices-busy")
    init = [
        m
        for m in said.all("cuinit-failed", "out-of-memory")
        if re.search(r"implicit initialization|primary context|cuDevicePrimaryCtxRetain", m.text)
    ]
    if not failed or not (left or held or tight or other or init):
        return None
    return Problem(
        cause="TensorFlow takes nearly all memory of a GPU at its start, so a second program, a notebook that still "
        "runs or a crashed one leaves nothing",
        evidence=(*heard(*left, *init, *other, *failed), *held[:2]),
        fixes=(
            Fix(
                text="See who holds it, and end that process",
                commands=("nvidia-smi", "nvidia-smi --query-compute-apps=pid,used_memory,process_name --format=csv"),
            ),
            Fix(text="Or choose another GPU", commands=("export CUDA_VISIBLE_DEVICES=1",)),
            Fix(text="Or let both programs allocate as needed", commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",)),
        ),
    )


@rule(
    "memory.oom",
    Severity.ERROR,
    "The job does not fit into the GPU's memory",
    needs=("derived.said",),
    requires=("memory.taken", "gpu.fault"),
    docs="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
)
def oom(context: Context, said: Said) -> Problem | None:
    """An allocation fails, and nothing shows another holder."""
    hints = {m.line for m in said.all("allocation-not-a-failure")}
    seen = [m for m in _failed(said) if m.line not in hints and "not a failure" not in m.text]
    host = said.all("host-out-of-memory")
    if not seen and not host:
        return None
    on_host = not seen or all(re.search(r"device:CPU|allocator (?:mkl)?cpu", m.text) for m in seen)
    if on_host:
        return Problem(
            title="The job does not fit into the machine's memory",
            cause="the allocation failed in the memory of the machine, not of the GPU",
            evidence=heard(*seen, *host),
            fixes=(
                Fix(
                    text="Load less at once: a generator or tf.data instead of whole arrays, a smaller batch "
                    "or shuffle buffer"
                ),
            ),
        )
    return Problem(
        cause="weights, activations and workspace of this step need more than the card has, or than is free",
        evidence=heard(*seen),
        fixes=(
            Fix(text="Make the batch, the images or the sequence smaller (half the batch is the quickest test)"),
            Fix(text="Halve what a number takes: tf.keras.mixed_precision.set_global_policy('mixed_float16')"),
            Fix(text="Make sure that nothing else holds the memory", commands=("nvidia-smi",)),
            Fix(text="If much is free but in pieces", commands=("export TF_GPU_ALLOCATOR=cuda_malloc_async",)),
        ),
    )


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
    if not seen:
        return None
    return Problem(
        cause="a container gets 64 MiB of /dev/shm unless it is told otherwise; NCCL and worker processes "
        "exchange data there",
        evidence=heard(*seen, *said.all("bus-error")),
        fixes=(
            Fix(text="Give the container more", commands=("docker run --shm-size=8g ...", "df -h /dev/shm")),
            Fix(text="In Kubernetes, mount an emptyDir with medium: Memory at /dev/shm"),
            Fix(text="Remove what crashed jobs left there", commands=("ls -l /dev/shm",)),
        ),
    )


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
    if not seen:
        return None
    return Problem(
        cause="the PCIe path between the cards blocks or corrupts their traffic: ACS or the IOMMU is on, the topology "
        "or the driver does not allow it",
        evidence=heard(*seen),
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
    seen = said.all("nccl-warning", "nccl-error", "nccl-timeout")
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
    seen = [m for m in said.all("wrong-result") if not re.search(r"ptxas|miscompile|round-off", m.text)]
    if not seen or said.stops_import:
        return None
    alone = said.speaks_only_of("wrong-result", "nan-result")
    return Problem(
        severity=None if alone else Severity.WARNING,
        cause="TF32 and other orders of summation differ in the last digits; a larger difference is a defect of the "
        "kernel, of the build, or of the card",
        evidence=heard(*seen),
        fixes=(
            Fix(
                text="Verify matrix products and convolutions on this card",
                commands=("tfgpu doctor", "tfgpu bench matpow"),
            ),
            Fix(text="Rule TF32 out: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )


def _slow(said: Said) -> tuple[Message, ...]:
    return said.all("slow", "low-utilization")


@rule(
    "perf.input-bound",
    Severity.WARNING,
    "The GPU waits for its input",
    needs=("derived.told",),
    docs="https://www.tensorflow.org/guide/data_performance",
)
def input_bound(context: Context, said: Said) -> Problem | None:
    """Low utilisation beside an input pipeline that works on the CPU."""
    feeding, slow = said.all("input-bottleneck"), _slow(said)
    told = said.all("input-bound-said")  # the profiler's own words
    if not (feeding and slow) and not told and (said.has("slow") or not said.has("low-utilization")):
        return None
    return Problem(
        cause="reading, decoding and augmenting take longer on the CPU than the step on the GPU",
        evidence=heard(*told, *slow, *feeding),
        fixes=(
            Fix(
                text="Use tf.data with num_parallel_calls=tf.data.AUTOTUNE, cache() where it fits, and "
                "prefetch(tf.data.AUTOTUNE)"
            ),
            Fix(text="Augment on the GPU (Keras preprocessing layers inside the model), or with more workers"),
            Fix(
                text="See where the time goes: the TensorFlow profiler's input pipeline analyser",
                commands=("tensorboard --logdir logs",),
            ),
        ),
    )


@rule(
    "perf.small-work",
    Severity.WARNING,
    "The work is too small for a GPU",
    needs=("derived.told",),
    docs="https://www.tensorflow.org/guide/gpu_performance_analysis",
)
def small_work(context: Context, said: Said) -> Problem | None:
    """The CPU is said to be as fast, with small batches or models."""
    slow = said.all("slow")
    sizes = [int(v) for v in said.values("small-batch", "size") if int(v) > 0]
    if not slow or said.has("input-bottleneck", "low-clocks"):
        return None
    small = [m for m in said.all("small-batch") if int(m.values["size"]) <= _SMALL_BATCH] if sizes else []
    return Problem(
        cause="each kernel costs some microseconds to start, and each step copies its data; a small model or batch is "
        "all overhead",
        evidence=heard(*slow, *small),
        fixes=(
            Fix(text="Raise the batch size by powers of two until the time of a step grows with it"),
            Fix(text="Let XLA fuse the small kernels: model.compile(jit_compile=True), and steps_per_execution=32"),
            Fix(text="See where this GPU overtakes this CPU", commands=("tfgpu bench matpow",)),
        ),
    )


@rule(
    "perf.low-clocks",
    Severity.WARNING,
    "The GPU runs at low clocks",
    needs=("derived.told",),
    requires=("gpu.throttled",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
def low_clocks(context: Context, said: Said) -> Problem | None:
    """Clocks are said to be stuck."""
    seen = said.all("low-clocks")
    if not seen:
        return None
    return Problem(
        cause="a power limit, heat, a laptop's power profile or clocks that somebody locked",
        evidence=heard(*seen),
        fixes=(
            Fix(
                text="See clocks and the reasons for them under load",
                commands=("nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",),
            ),
        ),
    )
