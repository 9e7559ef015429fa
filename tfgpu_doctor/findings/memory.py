"""Findings about memory."""

from __future__ import annotations

import re
from itertools import pairwise

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import matching_errors
from tfgpu_doctor.findings.visible_devices import visible_devices
from tfgpu_doctor.records.facts import ComputeCheck, Gpu, GpuProcess, Known, Message, Phase, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

# bfc_allocator.cc, gpu_device.cc and CUDA's own name; "Dst tensor" is what a copy to a full card says
_NO_MEMORY = re.compile(
    r"ResourceExhaustedError|RESOURCE_EXHAUSTED|OOM when allocating|Dst tensor is not initialized"
    r"|CUDA_ERROR_OUT_OF_MEMORY|failed to allocate \S+ .*from device"
)


GPU_GUIDE = "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth"


MIB, GIB = 2**20, 2**30


# A CUDA context, cuDNN and cuBLAS need some hundred MiB before the first tensor.
NEARLY_NOTHING = 512 * MIB


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


_SIZES = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


_TAKEN = 0.5  # share of a card's memory that is free when TensorFlow starts; below it somebody else holds it


_FULL = 0.7  # share that nvidia-smi shows as used


_REST = 700  # MB; TensorFlow takes nearly all that is free, and the smallest card of its builds has 2 GB


_MEMORY = ("out-of-memory", "dst-not-initialized", "device-memory-exhausted")


def size(text: str) -> float | None:
    """Bytes of "11.90GiB", "381.44MiB", "3.98G" or a plain number."""
    match = re.match(r"([\d.]+) ?([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    try:
        return float(match[1]) * _SIZES[match[2].upper() or "B"] if match else None
    except ValueError:
        return None


def _little_left(said: MessageLog) -> list[Message]:
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


def _tiny(said: MessageLog) -> list[Message]:
    """Lines that show how little of the card TensorFlow got: its allocator's limit is what was free at the start."""
    little = [m for m in said.all("allocator-limit") if int(m.values["limit"]) < 2**27]
    return [*little, *(m for m in said.all("memory-left") if int(m.values.get("kept", _REST)) < _REST)]


def _owner(message: Message) -> str:
    return next((v for k in ("pid", "rank", "of", "service") if (v := message.values.get(k))), "")


def _of_another(said: MessageLog) -> list[Message]:
    """The device that one process made of a card, and the failure of another process that has none, or the same one."""
    made = [m for m in said.all("memory-left") if _owner(m) and "bus" in m.values]
    for failure in said.all("failure-of-process"):
        own = {m.values["bus"] for m in made if _owner(m) == _owner(failure)}
        others = [m for m in made if _owner(m) != _owner(failure) and (not own or m.values["bus"] in own)]
        if others:
            return [others[0], failure]
    return []


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


def _shrinking(said: MessageLog) -> bool:
    """Whether TensorFlow asked for the whole card, and then for less and less: at its start nothing is there."""
    sizes = [v for m in said.all("out-of-memory") if (v := size(m.values.get("size", "")))]
    down = sum(later < earlier for earlier, later in pairwise(sizes))
    return len(sizes) >= 2 and down == len(sizes) - 1 and sizes[0] > 2**30


def _failed(said: MessageLog) -> tuple[Message, ...]:
    """Allocations that failed; what a handle found at its creation is another question."""
    seen = [m for m in said.all(*_MEMORY) if not _at_a_handle(m)]
    return (*seen, *(m for m in said.all("cublas-handle", "cudnn-status") if _no_room(m) and not _at_a_handle(m)))


def _no_room(message: Message) -> bool:
    return "ALLOC_FAILED" in message.text


def _at_a_handle(message: Message) -> bool:
    return re.search(r"create (?:cudnn|cublas) handle", message.text, re.IGNORECASE) is not None


def _takes_all(seen: tuple[Message, ...]) -> Problem:
    """Nothing fails; somebody wonders at what TensorFlow does by default."""
    return Problem(
        title="TensorFlow takes the whole memory of the GPU",
        cause="it reserves nearly all of it at its start, whatever the model needs, and leaves nothing to a second "
        "program; the setting must reach the process before its first operation",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Let it take what it needs, in every program", commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",)
            ),
            Fix(
                text="Or in the program, before anything else of TensorFlow",
                commands=("tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)",),
            ),
        ),
    )


def _killed(said: MessageLog) -> list[Message]:
    """A process that the kernel ended after it asked for much of the machine's memory."""
    large = [m for m in said.all("harmless") if m.values["what"] == "host-allocation"]
    ended = said.all("process-killed")
    return [*large, *ended] if large and ended else []


OOM = finding(
    "memory.oom",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPU has no memory left for a small computation",
    explained_by=("memory.taken",),
    docs="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
)


@OOM.sign(conclusive=False)
def oom(
    checks: tuple[ComputeCheck, ...], phases: tuple[Phase, ...] | None = None, gpus: tuple[Gpu, ...] | None = None
) -> Problem | None:
    """A matrix product of some hundred kilobytes got no memory."""
    seen = matching_errors(_NO_MEMORY, checks, phases or ())
    if not seen:
        return None
    free = [
        evidence(f"GPU {gpu.index}: {gpu.memory_free.value // 2**20} MiB free", gpu.memory_free.source)
        for gpu in gpus or ()
        if isinstance(gpu.memory_free, Known)
    ]
    return Problem(
        cause="the examination needs a few hundred MiB, most of it for CUDA itself: something else holds the memory",
        evidence=(*seen, *free),
        fixes=(
            Fix(text="See who holds it", commands=("nvidia-smi",)),
            Fix(
                text="Let programs that share a card take only what they need",
                commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",),
            ),
        ),
    )


@OOM.sign(unless=("memory.taken", "gpu.fault"))
def oom_reported(messages: MessageLog) -> Problem | None:
    """An allocation fails, and nothing shows another holder."""
    hints = {m.line for m in messages.all("allocation-not-a-failure")}
    seen = [m for m in _failed(messages) if m.line not in hints and "not a failure" not in m.text]
    host = (*messages.all("host-out-of-memory"), *_killed(messages))
    if not seen and not host:
        return None
    on_host = not seen or all(re.search(r"device:CPU|allocator (?:mkl)?cpu", m.text) for m in seen)
    if on_host:
        return Problem(
            title="The job does not fit into the machine's memory",
            cause="the allocation failed in the memory of the machine, not of the GPU",
            evidence=message_evidence(*seen, *host),
            fixes=(
                Fix(
                    text="Load less at once: a generator or tf.data instead of whole arrays, a smaller batch "
                    "or shuffle buffer"
                ),
            ),
        )
    return Problem(
        cause="weights, activations and workspace of this step need more than the card has, or than is free",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(text="Make the batch, the images or the sequence smaller (half the batch is the quickest test)"),
            Fix(text="Halve what a number takes: tf.keras.mixed_precision.set_global_policy('mixed_float16')"),
            Fix(text="Make sure that nothing else holds the memory", commands=("nvidia-smi",)),
            Fix(text="If much is free but in pieces", commands=("export TF_GPU_ALLOCATOR=cuda_malloc_async",)),
        ),
    )


TAKEN = finding(
    "memory.taken",
    layer="GPU",
    severity=Severity.WARNING,
    title="Others hold most of the GPU's memory",
    symptoms=(symptoms.NO_MEMORY_FOR_A_HANDLE,),
    docs="https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth",
)


@TAKEN.sign(conclusive=False)
def taken(
    context: Context,
    gpus: tuple[Gpu, ...],
    variables: dict[str, str] | None = None,
    checks: tuple[ComputeCheck, ...] | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """Less than half is free; nearly nothing on the card that TensorFlow would take first is an error."""
    if messages is not None and messages.from_text:
        return (
            None  # a pasted table may show this very program's memory: the sign over messages needs a failure as well
        )
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


@TAKEN.sign(unless=("gpu.fault",))
def taken_reported(messages: MessageLog, gpus: tuple[Gpu, ...] | None = None) -> Problem | None:
    """Memory runs out, and a sign of another holder is there."""
    failed = (*_failed(messages), *messages.all("cudnn-handle", "cublas-handle", "no-dnn-library", "devices-busy"))
    left, held = [*_little_left(messages), *_tiny(messages)], _held(gpus)
    tight = _shrinking(messages) and not any("OOM when" in m.text for m in messages.all("out-of-memory"))
    other = [*messages.all("devices-busy"), *_of_another(messages), *messages.all("other-holder")]
    init = [
        m
        for m in messages.all("cuinit-failed", "out-of-memory")
        if re.search(r"implicit initialization|primary context|cuDevicePrimaryCtxRetain", m.text)
    ]
    # a handle takes some MB: nothing at all is left, while no tensor was refused
    handle = (
        [m for m in messages.all("cublas-handle") if _no_room(m) and _at_a_handle(m)] if not _failed(messages) else []
    )
    signs = [*left, *init, *other, *handle]
    launch = [m for m in messages.all("cublas-handle") if "launch failed" in m.text]
    possible = not signs and not held and not tight and bool(launch) and not _failed(messages) and messages.from_text
    whole = (
        messages.all("takes-all-memory") if messages.from_text and messages.speaks_only_of("takes-all-memory") else ()
    )
    if whole:
        return _takes_all(whole)
    if not failed or not (signs or held or tight or possible):
        return None
    return Problem(
        possible=possible,
        severity=Severity.WARNING if possible else Severity.ERROR,
        cause="TensorFlow takes nearly all memory of a GPU at its start, so a second program, a notebook that still "
        "runs or a crashed one leaves nothing",
        evidence=(*message_evidence(*signs, *failed), *held[:2]),
        fixes=(
            Fix(
                text="See who holds it, and end that process",
                commands=("nvidia-smi", "nvidia-smi --query-compute-apps=pid,used_memory,process_name --format=csv"),
            ),
            Fix(text="Or choose another GPU", commands=("export CUDA_VISIBLE_DEVICES=1",)),
            Fix(text="Or let both programs allocate as needed", commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",)),
        ),
    )
