"""Rules over memory that runs out while a job runs, and over who else holds it."""

from __future__ import annotations

import re
from itertools import pairwise

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Gpu, Message, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

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
    little = [m for m in said.all("allocator-limit") if int(m.values["limit"]) < 2**27]
    return [*little, *(m for m in said.all("memory-left") if int(m.values.get("kept", _REST)) < _REST)]


def _owner(message: Message) -> str:
    return next((v for k in ("pid", "rank", "of", "service") if (v := message.values.get(k))), "")


def _of_another(said: Said) -> list[Message]:
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


def _shrinking(said: Said) -> bool:
    """Whether TensorFlow asked for the whole card, and then for less and less: at its start nothing is there."""
    sizes = [v for m in said.all("out-of-memory") if (v := size(m.values.get("size", "")))]
    down = sum(later < earlier for earlier, later in pairwise(sizes))
    return len(sizes) >= 2 and down == len(sizes) - 1 and sizes[0] > 2**30


def _failed(said: Said) -> tuple[Message, ...]:
    """Allocations that failed; what a handle found at its creation is another question."""
    seen = [m for m in said.all(*_MEMORY) if not _at_a_handle(m)]
    return (*seen, *(m for m in said.all("cublas-handle", "cudnn-status") if _no_room(m) and not _at_a_handle(m)))


def _no_room(message: Message) -> bool:
    return "ALLOC_FAILED" in message.text


def _at_a_handle(message: Message) -> bool:
    return re.search(r"create (?:cudnn|cublas) handle", message.text, re.IGNORECASE) is not None


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
    other = [*said.all("devices-busy"), *_of_another(said), *said.all("other-holder")]
    init = [
        m
        for m in said.all("cuinit-failed", "out-of-memory")
        if re.search(r"implicit initialization|primary context|cuDevicePrimaryCtxRetain", m.text)
    ]
    # a handle takes some MB: nothing at all is left, while no tensor was refused
    handle = [m for m in said.all("cublas-handle") if _no_room(m) and _at_a_handle(m)] if not _failed(said) else []
    signs = [*left, *init, *other, *handle]
    launch = [m for m in said.all("cublas-handle") if "launch failed" in m.text]
    possible = not signs and not held and not tight and bool(launch) and not _failed(said) and said.from_text
    whole = said.all("takes-all-memory") if said.from_text and said.speaks_only_of("takes-all-memory") else ()
    if whole:
        return _takes_all(whole)
    if not failed or not (signs or held or tight or possible):
        return None
    return Problem(
        possible=possible,
        severity=Severity.WARNING if possible else None,
        cause="TensorFlow takes nearly all memory of a GPU at its start, so a second program, a notebook that still "
        "runs or a crashed one leaves nothing",
        evidence=(*heard(*signs, *failed), *held[:2]),
        fixes=(
            Fix(
                text="See who holds it, and end that process",
                commands=("nvidia-smi", "nvidia-smi --query-compute-apps=pid,used_memory,process_name --format=csv"),
            ),
            Fix(text="Or choose another GPU", commands=("export CUDA_VISIBLE_DEVICES=1",)),
            Fix(text="Or let both programs allocate as needed", commands=("export TF_FORCE_GPU_ALLOW_GROWTH=true",)),
        ),
    )


def _takes_all(seen: tuple[Message, ...]) -> Problem:
    """Nothing fails; somebody wonders at what TensorFlow does by default."""
    return Problem(
        title="TensorFlow takes the whole memory of the GPU",
        cause="it reserves nearly all of it at its start, whatever the model needs, and leaves nothing to a second "
        "program; the setting must reach the process before its first operation",
        evidence=heard(*seen),
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


def _killed(said: Said) -> list[Message]:
    """A process that the kernel ended after it asked for much of the machine's memory."""
    large = [m for m in said.all("harmless") if m.values["what"] == "host-allocation"]
    ended = said.all("process-killed")
    return [*large, *ended] if large and ended else []


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
    host = (*said.all("host-out-of-memory"), *_killed(said))
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
