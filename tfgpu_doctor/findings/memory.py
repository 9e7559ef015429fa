"""Computations that fail, and memory of GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from tfgpu_doctor.facts.facts import Gpu, Gpus, Message, value_or
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.facts.units import GIB, KIB, MIB, TIB
from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Checks, Variables, gpu_name, visible_devices
from tfgpu_doctor.findings.library_fixes import growth
from tfgpu_doctor.findings.phases import is_wrong

_UNITS = {"B": 1, "K": KIB, "M": MIB, "G": GIB, "T": TIB}
FREE = 0.5  # share of a GPU's memory; when less is free as TensorFlow starts, another process uses the rest
_LEAST = 700  # MB; TensorFlow takes nearly all that is free, and the smallest GPU of its builds has 2 GB
_FEW = 1500  # MB; so little was left where cuBLAS or cuDNN then gets none


def _bytes(text: str | None) -> float | None:
    """Bytes of "11.90GiB", "381.44MiB", "3.98G" or a plain number."""
    match = re.match(r"(\d+(?:\.\d*)?|\.\d+) ?([KMGT]?)i?B?", (text or "").strip(), re.IGNORECASE)
    return float(match[1]) * _UNITS[match[2].upper() or "B"] if match else None


_OF_A_CONTEXT = re.compile(r"implicit initialization|primary context|PrimaryCtxRetain")
_OF_A_HANDLE = re.compile(r"create (?:cudnn|cublas) handle", re.IGNORECASE)
# CUBLAS_STATUS_ALLOC_FAILED, whose words TensorFlow prints since 2.12 (cuda_blas.cc: ToString)
_REFUSED = re.compile(r"ALLOC_FAILED|resource allocation failed")


def failed_allocations(log: MessageLog) -> tuple[Message, ...]:
    """Allocations that failed, but for those of a handle, which needs only a few MB."""
    memory = log.all("out-of-memory", "dst-not-initialized")
    refused = (m for m in log.all("cublas-handle", "cudnn-status") if _REFUSED.search(m.text))
    return tuple(m for m in (*memory, *refused) if not _OF_A_HANDLE.search(m.text))


def _little_free(log: MessageLog) -> list[Message]:
    """Lines by which TensorFlow found less than half of the memory free, or nearly none, when it started."""
    found = []
    totals = [size for text in log.values("memory-total", "total") if (size := _bytes(text))]
    for message in log.all("memory-left"):
        values = message.values
        free = _bytes(values.get("free") or values.get("left"))
        total = _bytes(values.get("total") or values.get("all")) or next(iter(totals), None)
        few = int(values.get("kept", _FEW)) < (_FEW if log.has("cublas-handle", "cudnn-handle") else _LEAST)
        if few or (free is not None and total and free < total * FREE):
            found.append(message)
    return [*found, *(m for m in log.all("allocator-limit") if int(m.values["limit"]) < 128 * MIB)]


def another_holder(log: MessageLog) -> list[Message]:
    """Lines that show that another process uses the memory."""
    contexts = log.all("cuinit-failed", "out-of-memory")
    found = [*_little_free(log), *(m for m in contexts if "context" in m.values or _OF_A_CONTEXT.search(m.text))]
    found += log.all("devices-busy", "other-holder")
    if not failed_allocations(log):  # no tensor was refused, but a handle was: nothing at all is left
        found += [m for m in log.all("cublas-handle") if _REFUSED.search(m.text) and _OF_A_HANDLE.search(m.text)]
    return found


WRONG_RESULT = finding(
    "compute.wrong-result",
    layer="Compute",
    title="A computation on the GPU gave a wrong result",
    despite_verified=True,
    cause="results may differ in the last digits (TF32, another order of summation); a larger difference is a "
    "defect of the kernel, of the build or of the GPU",
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


_NAN = re.compile(r"\bnans?\b", re.IGNORECASE)
# https://www.tensorflow.org/guide/mixed_precision, "Numeric stability" and "Loss scaling"
_OVERFLOWS = "float16 overflows above 65504 and loses what is below 6e-8, which the same program in float32 does not"
_SCALE = Fix(
    "With float16, scale the loss (LossScaleOptimizer; a custom training loop has to do it itself), and give the last "
    "layer dtype='float32'; or use mixed_bfloat16 (compute capability 8.0 or newer). If float32 gives NaN on the GPU, "
    "too, it is another cause"
)
_NO_TF32 = Fix("Rule out TF32: tf.config.experimental.enable_tensor_float_32_execution(False)")


@WRONG_RESULT.sign(conclusive=False)
def verification_failed(context: Context, checks: Checks) -> Problem | None:
    """The residual against float64 on the CPU exceeds its tolerance, or the result came from another device."""
    found = []
    for one in filter(is_wrong, checks):
        text = f"{one.kind} on {one.device}: {one.error or f'residual {one.residual}'}"
        text += f", computed on {one.placed_on}" if one.placed_on else ""
        found.append(evidence(text, "verified in float64", f"at most {one.tolerance} on {one.device}"))
    return Problem(
        cause="the GPU computes incorrectly (memory errors, overclocking, a hardware fault), or another device did it",
        evidence=tuple(found),
        fixes=(
            Fix("Check for memory errors", ("nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo dmesg | grep -i xid")),
            Fix("Undo overclocking, and run it again", (context.remedies.doctor(),)),
        ),
    )


@WRONG_RESULT.sign(unless=("driver.*", "gpu.arch-*", "gpu.fault"))
def different_results_message(context: Context, messages: MessageLog) -> Problem | None:
    """The results of CPU and GPU differ."""
    # XLA's warning about an old ptxas and oneDNN's notice mention wrong results, too, and report none
    seen = [m for m in messages.all("wrong-result") if not re.search(r"ptxas|miscompile|round-off|oneDNN", m.text)]
    corrupted = messages.all("nan-over-several-gpus")  # between the GPUs, most likely
    if not (seen or corrupted) or messages.stops_import:
        return None
    verify = Fix("Verify matrix products on this GPU", (context.remedies.doctor(), "tfgpu bench matpow"))
    found = message_evidence(*seen, *corrupted)
    if all(_NAN.search(one.text) for one in seen):
        doubt = Problem(possible=True, severity=Severity.WARNING, evidence=found, fixes=(verify, _NO_TF32))
        if messages.has("half-precision"):
            return replace(doubt, title="Training in float16 gives NaN", cause=_OVERFLOWS, fixes=(_SCALE, verify))
        return doubt
    alone = messages.speaks_only_of("wrong-result", "nan-result")
    return Problem(severity=None if alone else Severity.WARNING, evidence=found, fixes=(verify, _NO_TF32))


GPU_GUIDE = "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth"
_CONTEXT = 512 * MIB  # a CUDA context, cuDNN and cuBLAS need some hundred MiB before the first tensor
_FREE_IN_TABLE = 0.3  # the same in nvidia-smi's table, which was printed at any time


def _visible(gpus: Gpus, variables: Variables) -> list[Gpu]:
    """The GPUs that this process sees, in its order; MIG slices have memory of their own."""
    whole = [gpu for gpu in gpus if not value_or(gpu.mig_mode, False)]
    chosen = variables.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return whole
    pairs = [(entry, gpu) for entry in visible_devices(chosen, gpus) for gpu in whole]
    return [gpu for entry, gpu in pairs if entry == str(gpu.index) or value_or(gpu.uuid, "").startswith(entry)]


def _free_share(gpu: Gpu) -> float:
    total, free = value_or(gpu.memory_total, 0), value_or(gpu.memory_free, None)
    return 1.0 if free is None or not total else free / total


def _processes(context: Context, gpu: Gpu) -> list[Evidence]:
    """How much is free, and which processes NVML lists; it does not list those of other containers."""
    free, total = value_or(gpu.memory_free, 0) / GIB, value_or(gpu.memory_total, 0) / GIB
    found = [
        f"process {one.pid} ({one.name or 'unknown'})" + (f", {one.memory / GIB:.1f} GiB" if one.memory else "")
        for one in value_or(gpu.processes, ())[:8]
    ]
    found = found or ["no process is listed: it runs in another container, or as another user"]
    shown = f"{gpu_name(gpu)}: {free:.1f} of {total:.1f} GiB free"
    first = evidence(shown, context.source("gpus"), "nearly all free")
    return [first, *(evidence(text, context.source("gpus")) for text in found)]


def _in_use(gpus: Gpus) -> list[Evidence]:
    """Memory in use, by nvidia-smi's table or by TensorFlow's log."""
    found = []
    for gpu in gpus:
        name, total = f"GPU {gpu.index}", value_or(gpu.memory_total, 0)
        used, free = value_or(gpu.memory_used, None), value_or(gpu.memory_free, total)
        if used is None and free < total * FREE:
            found.append(evidence(f"{name}: {free // MIB} of {total // MIB} MiB free", "TensorFlow's log"))
        if total and used is not None and used > total * (1 - _FREE_IN_TABLE):
            names = ", ".join(f"{p.name or p.pid}" for p in value_or(gpu.processes, ())[:3])
            by = f", by {names}" if names else ""
            found.append(evidence(f"{name}: {used // MIB} of {total // MIB} MiB in use{by}", "nvidia-smi"))
    return found


_DECIDE = Fix("To decide, see whether other processes hold memory before the program starts", ("nvidia-smi",))
_ON_CPU = "what stays too large runs on the CPU with CUDA_VISIBLE_DEVICES=-1"
_REDUCE = Fix(
    f"Make a step smaller: the batch size (half is the quickest test), the images or sequences, or the model; {_ON_CPU}"
)
_SMALL_BATCH = 2  # examples
_SHAPE = re.compile(r"shape *\[(\d+), ?(\d+),")  # of more than a matrix, whose sides tell nothing
_SEE_OTHERS = Fix("Check whether another process uses the memory", ("nvidia-smi",))

OOM = finding(
    "memory.oom",
    layer="GPU",
    title="The GPU ran out of memory",
    despite_verified=True,
    explained_by=("memory.taken",),
    symptoms=(symptoms.NO_WORKSPACE,),
    docs=GPU_GUIDE,
    cause="weights, activations and workspace of this step need more memory than the GPU has, or than is free",
    fixes=lambda context: (
        _reduce(context.log),
        Fix("Compute in half precision: tf.keras.mixed_precision.set_global_policy('mixed_float16')"),
        _SEE_OTHERS,
        Fix("If much memory is free, but fragmented", ("export TF_GPU_ALLOCATOR=cuda_malloc_async",)),
    ),
)
_OF_PYTORCH = re.compile(r"\btorch\b|PyTorch|CUDA out of memory\. Tried to allocate")


_OTHERS_FIRST = Fix("End other processes that use the memory: this variable has no batch", ("nvidia-smi",))
_SMALLER_MODEL = Fix(f"If there are none, make the model smaller; {_ON_CPU}")
# what TensorFlow's pool takes at once as it starts, or grows by: gpu_executor's AllocateRaw
_OF_THE_POOL = re.compile(r"failed to allocate [\d.]+G\b.{0,40}from device")
_OF_A_TENSOR = re.compile(r"OOM when|resource ?_?exhausted|tensor\b(?!flow)|to allocate \S+ ?[KMGT]iB", re.IGNORECASE)
_GOES_ON_WITH_LESS = Fix(
    "To decide, see whether the program goes on (then it is harmless: TensorFlow asks for less), and whether others "
    "hold memory",
    ("nvidia-smi",),
)
_LESS_OF_THE_GPU = Fix(
    "End other processes, or lower the share of the memory that the program asks for (per_process_gpu_memory_fraction)"
)


def _reduce(log: MessageLog) -> Fix:
    """What makes a step smaller: not its batch, where that is small already."""
    shapes = [found for one in log.all("out-of-memory") for found in _SHAPE.findall(one.text)]
    batches = (*log.values("small-batch", "size"), *(first for first, second in shapes if first != second))
    batch = max(map(int, batches), default=_SMALL_BATCH + 1)
    smaller = f"Make the images, the sequences or the model smaller (a batch of {batch} can hardly be)"
    return _REDUCE if batch > _SMALL_BATCH else Fix(f"{smaller}, or compute in half precision; {_ON_CPU}")


def _program(messages: MessageLog) -> str:
    """The program that computes: TensorFlow, unless the text shows another one."""
    return next(iter(messages.values("another-program", "program")), "") or "TensorFlow"


_GOES_ON = re.compile(r"\bstill (?:runs?|running|works?|working|trains?|training|goes on|continues)\b", re.IGNORECASE)


def _not_allocated(log: MessageLog) -> list[Message]:
    """Allocations that failed and were needed: TensorFlow also tries some that it can do without."""
    optional = {m.line for m in log.all("allocation-not-a-failure", "no-space-left")}  # the latter: of a file
    failed = (m for m in failed_allocations(log) if m.line not in optional and "not a failure" not in m.text)
    return [m for m in failed if not _GOES_ON.search(m.text)]


def _is_on_host(message: Message) -> bool:
    if message.kind == "dst-not-initialized" and "GPU" in message.text:
        return False  # what is named as CPU is where the tensor comes from
    return re.search(r"device:CPU|[Aa]llocator \(?\w{0,40}cpu|(?:gpu|cuda)_host", message.text) is not None


_IN_PARTS = Fix(
    "Give the model its data in parts: a generator, or a tf.data.Dataset made from one or from files; an array as a "
    "whole is copied to the GPU"
)


@OOM.sign(conclusive=False)
def check_ran_out_of_memory(
    context: Context,
    checks: Checks,  # noqa: ARG001  # they were tried
    messages: MessageLog | None = None,
) -> Problem | None:
    """Not even the small computations of the doctor got memory."""
    failed = _not_allocated(messages) if messages else []
    return Problem(
        cause="tfgpu's check needs only a few hundred MiB, most of it for CUDA itself: another process uses the memory",
        evidence=message_evidence(*failed),
        fixes=(Fix("Find the process that uses it", ("nvidia-smi",)), growth(context)),
    )


def _without_a_batch(messages: MessageLog, failed: list[Message]) -> tuple[Fix, ...]:
    """What is refused is an array that the program hands over as a whole, or a variable."""
    if any("_EagerConst" in message.text for message in failed):
        return _IN_PARTS, _SEE_OTHERS
    return (_OTHERS_FIRST, _SMALLER_MODEL) if messages.has("node-of-variable") else ()


def _pool_refused(context: Context, failed: list[Message]) -> Problem | None:
    """What TensorFlow asks for before any tensor: it asks for less then, and a library may get nothing."""
    of_pool, of_tensor = (any(one.search(m.text) for m in failed) for one in (_OF_THE_POOL, _OF_A_TENSOR))
    if not of_pool or of_tensor:
        return None
    cause = "the request is for TensorFlow's pool, which takes nearly all of the GPU at once; no tensor is refused"
    fails = context.log.has("cudnn-handle", "cublas-handle", "exception")
    fixes = (growth(context), _SEE_OTHERS) if fails else (_GOES_ON_WITH_LESS, _LESS_OF_THE_GPU)
    return Problem(possible=not fails, cause=cause, evidence=message_evidence(*failed), fixes=fixes)


@OOM.sign(unless=("memory.taken", "gpu.fault"))
def allocation_failed(context: Context, messages: MessageLog) -> Problem | None:
    """An allocation on the GPU fails, and nothing shows that another process uses the memory."""
    failed = _not_allocated(messages)
    if not failed and messages.has("cublas-handle", "cudnn-handle"):  # its tensors have left nothing for a library
        optional = messages.all("allocation-not-a-failure")
        tight = (*optional, *messages.all("cublas-handle", "cudnn-handle")) if optional else ()
        return Problem(evidence=message_evidence(*tight), fixes=(_REDUCE, growth(context), _SEE_OTHERS), sure=True)
    if all(map(_is_on_host, failed)):
        return None
    if of_pool := _pool_refused(context, failed):
        return of_pool
    program = "PyTorch" if all(_OF_PYTORCH.search(message.text) for message in failed) else _program(messages)
    reduce = _reduce(messages)
    if fixes := _without_a_batch(messages, failed):
        return Problem(evidence=message_evidence(*failed), fixes=fixes)
    if program == "TensorFlow":
        if limits := [one for one in messages.all("memory-fraction") if float(one.values["share"]) < _FREE_IN_TABLE]:
            given = limits[0].values["share"]
            raise_it = Fix(f"Give TensorFlow more: its share of the memory is set to {given}; 0.9, or allow_growth")
            return Problem(evidence=message_evidence(*failed, *limits), fixes=(raise_it, reduce, _SEE_OTHERS))
        return Problem(evidence=message_evidence(*failed), fixes=_beside_tensors(context, failed, reduce))
    cause = f"{program} reports it: its step needs more memory than is free"
    return Problem(cause=cause, evidence=message_evidence(*failed), fixes=(reduce, _SEE_OTHERS))


def _beside_tensors(context: Context, failed: list[Message], reduce: Fix) -> tuple[Fix, ...] | None:
    """Memory for what a library or the driver allocates, where TensorFlow has reserved all; None for a tensor."""
    grow, trt = growth(context), context.log.has("converts-for-tensorrt")
    if trt or all("Unexpected CUDA error" in one.text for one in failed):
        more = "; give TensorRT a smaller workspace, too: max_workspace_size_bytes=1 << 26" if trt else ""
        text = f"{grow.text}: what fails here is allocated beside its tensors{more}"
        return structs.replace(grow, text=text), reduce, _SEE_OTHERS
    return (grow, _SEE_OTHERS, reduce) if all(_REFUSED.search(message.text) for message in failed) else None


@OOM.sign(unless=("memory.taken", "gpu.fault"))
def host_allocation_failed(messages: MessageLog) -> Problem | None:
    """The memory of the machine is full."""
    failed, killed = _not_allocated(messages), messages.all("process-killed")
    host = tuple(one for one in messages.all("host-out-of-memory") if "CUDA error" not in one.text)
    large = [m for m in messages.all("harmless") if m.values["what"] == "host-allocation"]
    host += (*large, *killed) if large and killed else ()
    if not all(map(_is_on_host, failed)) or not (failed or host):
        return None
    return Problem(
        title="The job does not fit into the machine's memory",
        cause="the allocation failed in the memory of the machine, not of the GPU",
        evidence=message_evidence(*failed, *host),
        fixes=(Fix("Load less data at once: a generator or tf.data instead of arrays, a smaller batch or buffer"),),
    )


def _find_and_end(context: Context) -> tuple[Fix, ...]:
    """Fixes: end the other process, use a GPU that is free, or share."""
    if context.log.has("ray-worker"):
        return _share(context)[:1]  # its own tasks are the others
    visible = _visible(value_or(context.facts.gpus, ()), value_or(context.facts.variables, {}))
    held = [gpu for gpu in visible if _free_share(gpu) < FREE]
    free = ",".join(str(gpu.index) for gpu in visible if gpu not in held)
    pids = list(dict.fromkeys(str(process.pid) for gpu in held for process in value_or(gpu.processes, ())))
    listed = "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv"
    processes = [f"ps -o pid,user,etime,command -p {','.join(pids)}" if pids else "sudo fuser -v /dev/nvidia*"]
    if context.remedies.os == "windows":
        processes = [f'tasklist /fi "PID eq {pid}"' for pid in pids]
    beside = "programs that run beside each other need a GPU each (CUDA_VISIBLE_DEVICES), or to allocate as they need"
    find = Fix(f"Find the processes that use it, and end those not needed; {beside}", (listed, *processes))
    other = ("export CUDA_DEVICE_ORDER=PCI_BUS_ID", f"export CUDA_VISIBLE_DEVICES={free or 1}")
    choose = (Fix("Use another GPU", other),) if (held and free) or not visible else ()
    return (find, *choose, *_share(context))


def _share(context: Context) -> tuple[Fix, ...]:
    """How TensorFlow leaves memory to others; and how to see whether others hold some."""
    program = _program(context.log)
    return (*((growth(context),) if program == "TensorFlow" else ()), *(() if context.probed else (_DECIDE,)))


TAKEN = finding(
    "memory.taken",
    layer="GPU",
    severity=Severity.WARNING,
    title="Other processes use most of the GPU's memory",
    despite_verified=True,
    symptoms=(symptoms.NO_MEMORY_FOR_A_HANDLE,),
    docs=GPU_GUIDE,
    cause="TensorFlow reserves nearly all memory of every visible GPU when it starts, so that another program, a "
    "notebook that is still running or a crashed process leaves too little",
    fixes=_find_and_end,
)


@TAKEN.sign(conclusive=False)
def little_memory_free(
    context: Context,
    gpus: Gpus,
    variables: Variables | None = None,
    checks: Checks = (),
    messages: MessageLog | None = None,
) -> Problem | None:
    """Less than half is free; that an allocation failed, or nearly nothing is free on the first GPU, is an error."""
    if not context.probed:
        return None  # a pasted table may show this very program's memory
    visible = _visible(gpus, variables or {})
    held = [gpu for gpu in visible if _free_share(gpu) < FREE]
    if not held:
        return None
    first = value_or(visible[0].memory_free, None)
    nothing = first is not None and first < _CONTEXT and not any(check.ok for check in checks)
    failed = messages is not None and bool(_not_allocated(messages))
    return Problem(
        title=f"Nearly no memory of GPU {visible[0].index} is free" if nothing else None,
        evidence=tuple(item for gpu in held for item in _processes(context, gpu)),
        severity=Severity.ERROR if nothing or failed else None,
    )


# TensorFlow's own words for an allocation that failed
_OF_TENSORFLOW = re.compile(r"bfc|OOM when|resource ?_?exhausted|cuda_driver|gpu_device", re.IGNORECASE)


@TAKEN.sign(unless=("gpu.fault",))
def other_framework_gets_none(context: Context, messages: MessageLog) -> Problem | None:
    """Another framework in the same program finds the memory reserved by TensorFlow."""
    failed = _not_allocated(messages) or list(messages.all("takes-all-memory"))
    beside = messages.all("frameworks-beside")
    if context.probed or not failed or not beside or any(_OF_TENSORFLOW.search(one.text) for one in failed):
        return None
    apart = Alternative("Run each framework in a process of its own: TensorFlow returns the memory when it ends")
    hide = Alternative(
        "Where TensorFlow only reads data, hide the GPUs from it before its first operation: "
        "tf.config.set_visible_devices([], 'GPU')"
    )
    return Problem(
        title="TensorFlow has reserved the memory that another framework needs",
        cause="it reserves nearly all of it when it starts, and leaves nothing for a second framework",
        evidence=message_evidence(*failed, *beside),
        fixes=(growth(context), hide, apart),
        severity=Severity.ERROR,
    )


_SMALL_REQUEST = re.compile(r"failed to allocate (?:[1-4]?\d?\d(?:\.\d+)?M|\d+(?:\.\d+)?K)\b.{0,40}from device")


def _first_request(messages: MessageLog, allocations: Sequence[Message]) -> tuple[Message, ...]:
    """Requests of a few hundred MiB that the driver refuses: the first one is for nearly all memory that is free."""
    small = tuple(one for one in allocations if _SMALL_REQUEST.search(one.text))
    others = ("exception", "allocation-not-a-failure", "memory-fraction")  # a step that was under way
    tensors = len(small) < len(allocations) or messages.has(*others)
    return () if tensors else small


@TAKEN.sign(unless=("gpu.fault",))
def allocation_failed_beside_another(context: Context, messages: MessageLog, gpus: Gpus = ()) -> Problem | None:
    """Memory runs out, and another process uses some; a failed launch of cuBLAS alone leaves it open."""
    allocations = failed_allocations(messages)
    failed = (*allocations, *messages.all("cudnn-handle", "cublas-handle", "no-dnn-library", "devices-busy"))
    others, in_use = [*another_holder(messages)] or [*_first_request(messages, allocations)], _in_use(gpus)
    if not allocations:  # no tensor was refused: what TensorFlow reserves for tensors is what a library lacks
        others += messages.all("takes-all-memory")
    certain = bool(others or in_use)
    # a routine that was executed had its memory
    texts = "\n".join(message.text for message in messages.all("cublas-handle"))
    launch = "launch failed" in texts and "EXECUTION_FAILED" not in texts
    if not failed or not (certain or (launch and not allocations and not context.probed)):
        return None
    seen = (*message_evidence(*others, *failed), *in_use[:2])
    measured = bool(_little_free(messages) and allocations)  # TensorFlow printed it before it allocated anything
    severity = Severity.ERROR if certain else None
    return Problem(possible=not certain, severity=severity, evidence=seen, sure=measured)


# Horovod's guide, "Horovod with TensorFlow", step 2
_BY_RANK = Fix(
    "Show each process its own GPU, before anything uses one: with Horovod "
    "tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU'), where gpus = tf.config.list_physical_devices('GPU')"
)


@TAKEN.sign(unless=("gpu.fault",))
def every_rank_on_the_first(messages: MessageLog) -> Problem | None:
    """Processes of one job take the same GPU, which is all TensorFlow does by itself."""
    return Problem(
        title="All processes of the job use the same GPU",
        cause="each process begins with the first GPU that it sees, whatever its rank is",
        evidence=message_evidence(*messages.all("ranks-share-gpu")),
        fixes=(_BY_RANK,),
        severity=Severity.ERROR if failed_allocations(messages) else None,
    )


_OF_SEVERAL = re.compile(r"\bGPUs\b|\b(?:both|all|\d) (?:of )?(?:the |my )?(?:\w+ )?(?:cards|\w+'s)\b", re.IGNORECASE)
_SHOW_ONE = Fix(
    "To keep it off the other GPUs, show it one, before it starts (tf.device chooses where operations run, and limits "
    "no memory)",
    ("export CUDA_VISIBLE_DEVICES=0",),
)


@TAKEN.sign(unless=("gpu.fault", "memory.limit"))
def takes_all_memory(context: Context, messages: MessageLog) -> Problem | None:
    """Nothing fails; somebody wonders about TensorFlow's default."""
    only_this = messages.speaks_only_of("takes-all-memory", "other-holder")
    seen = messages.all("takes-all-memory") if only_this else ()
    harms = messages.has("failure-said", "gpu-fails-said")
    on_others = any(_OF_SEVERAL.search(one.text) for one in seen)
    of_one = Counter(messages.values("other-holder", "pid"))  # the process on each GPU: this program
    if not seen and only_this and len(of_one) == 1 < of_one.total():
        seen, on_others = messages.all("other-holder"), True
    return Problem(
        title="TensorFlow takes the whole memory of the GPU",
        cause="it reserves nearly all when it starts, whatever the model needs, and leaves a second program nothing",
        evidence=message_evidence(*seen),
        fixes=(*((_SHOW_ONE,) if on_others else ()), growth(context)),
        severity=None if harms else Severity.NOTE,
        answers=not harms,
        sure=True,
    )
