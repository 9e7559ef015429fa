"""Findings about a GPU that works, but slowly."""

from __future__ import annotations

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Gpu, Message, value_or
from tfgpu_doctor.records.report import Fix, Severity

_SMALL_BATCH = 64
_NARROW = 256  # neurons of a layer; a product of that width takes a GPU some microseconds
_SECONDS = {"m": 60.0, "h": 3600.0, "s": 1.0}
_NO_FASTER = 0.8  # of the CPU's time

_BUSY = 80  # percent; below that, low clocks are how an idle GPU saves power
_LOW = 0.6  # of the highest clock; a GPU at its power limit stays above, but for small ones
_EXPECTED = {"sw_power_cap", "gpu_idle"}  # a GPU at its power limit is built that way; heat is gpu.throttled


def _seconds(number: str, unit: str) -> float:
    unit = unit.lower()
    return float(number) * (1e-3 if unit.startswith(("ms", "milli")) else _SECONDS[unit[0]])


def _no_faster(log: MessageLog) -> tuple[Message, ...]:
    """Times of both devices, when the GPU's is no better."""
    found = []
    for message in log.all("time-on-both"):
        values = message.values
        if _seconds(values["gpu"], values["gpu_unit"]) >= _NO_FASTER * _seconds(values["cpu"], values["cpu_unit"]):
            found.append(message)
    return tuple(found)


def _small(log: MessageLog) -> tuple[Message, ...]:
    """What makes the work of a step small whatever feeds it: steps that follow one another, narrow layers."""
    narrow = [m for m in log.all("small-model") if int(m.values.get("width", "0")) <= _NARROW]
    wide = any(int(v) > _NARROW for v in log.values("small-model", "width"))
    return (*log.all("no-cudnn-kernel"), *(m for m in narrow if "layer" in m.values or not wide))


def _batches(log: MessageLog) -> tuple[Message, ...]:
    return tuple(m for m in log.all("small-batch") if 0 < int(m.values["size"]) <= _SMALL_BATCH)


def _idles_for_small_work(log: MessageLog) -> bool:
    """A GPU with little load where nothing speaks of the input, and something of small work."""
    feeding = log.has("input-bottleneck", "cpu-busy", "input-bound-said")
    return log.has("low-utilization") and not feeding and bool(_small(log) or _batches(log))


INPUT_BOUND = finding(
    "perf.input-bound",
    layer="Compute",
    severity=Severity.WARNING,
    title="The GPU waits for its input",
    docs="https://www.tensorflow.org/guide/data_performance",
    cause="reading, decoding and augmenting on the CPU take longer than the step on the GPU",
    fixes=lambda _: (
        Fix(
            text="Use tf.data with num_parallel_calls=tf.data.AUTOTUNE, cache() if the data fits in memory, and "
            "prefetch(tf.data.AUTOTUNE)"
        ),
        Fix(text="Augment on the GPU (Keras preprocessing layers inside the model), or with more workers"),
        Fix(
            text="See where the time is spent: the TensorFlow profiler's input pipeline analyser",
            commands=("tensorboard --logdir logs",),
        ),
    ),
)


@INPUT_BOUND.sign
def input_bound(messages: MessageLog) -> Problem | None:
    """Low utilisation beside an input pipeline that works on the CPU."""
    feeding, low = messages.all("input-bottleneck"), messages.all("low-utilization")
    slow = (*messages.all("slow"), *_no_faster(messages))
    profiled = messages.all("input-bound-said")
    nothing_idles = not profiled and not (feeding and (slow or low)) and (slow or not low)
    if nothing_idles or messages.has("other-framework"):
        return None
    small = _idles_for_small_work(messages) or bool(slow and _small(messages))
    return Problem(
        possible=not profiled and (small or not (feeding or messages.has("cpu-busy"))),
        evidence=message_evidence(*profiled, *slow, *low, *feeding, *messages.all("cpu-busy")),
    )


SMALL_WORK = finding(
    "perf.small-work",
    layer="Compute",
    severity=Severity.WARNING,
    title="The work is too small for a GPU",
    symptoms=(symptoms.LOW_UTILIZATION,),
    docs="https://www.tensorflow.org/guide/gpu_performance_analysis",
    cause="each kernel takes some microseconds to start, and each step copies its data; with a small model or batch, "
    "or a recurrent layer that runs step by step, this overhead dominates",
    fixes=lambda _: (
        Fix(text="Double the batch size until the time of a step grows with it"),
        Fix(
            text="Use only options of recurrent layers that cuDNN supports: activation tanh, recurrent_activation "
            "sigmoid, no recurrent_dropout, unroll=False"
        ),
        Fix(text="Let XLA fuse the small kernels: model.compile(jit_compile=True), and steps_per_execution=32"),
        Fix(text="Measure from which size on this GPU is faster than this CPU", commands=("tfgpu bench matpow",)),
    ),
)


@SMALL_WORK.sign
def small_work(messages: MessageLog) -> Problem | None:
    """The CPU is as fast, or a GPU idles, with small batches, narrow or recurrent layers."""
    slow = (*messages.all("slow"), *_no_faster(messages))
    small, idles = _small(messages), _idles_for_small_work(messages)
    if messages.has("low-clocks", "other-framework") or not (slow or idles or messages.has("no-cudnn-kernel")):
        return None
    if messages.has("input-bottleneck") and not small:
        return None
    low = messages.all("low-utilization") if idles else ()
    return Problem(evidence=message_evidence(*slow, *low, *small, *_batches(messages)))


LOW_CLOCKS = finding(
    "perf.low-clocks",
    layer="Compute",
    severity=Severity.WARNING,
    title="A busy GPU runs at low clocks",
    explained_by=("gpu.throttled",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
    cause="the clocks have been locked, or the driver or a laptop's power profile keeps the GPU in a low-power state",
    fixes=lambda _: (
        Fix(
            text="Reset the clocks, so that the driver controls them; on a laptop, use its own power supply and the "
            "power profile for performance",
            commands=("sudo nvidia-smi --reset-gpu-clocks", "sudo nvidia-smi -rac"),
        ),
        Fix(
            text="Watch the clocks and their limiting reasons under load",
            commands=("nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",),
        ),
    ),
)


def _is_slow(gpu: Gpu) -> bool:
    clock, most = value_or(gpu.sm_clock, None), value_or(gpu.sm_clock_max, None)
    if not clock or not most or value_or(gpu.utilization, 0) < _BUSY:
        return False
    reasons: tuple[str, ...] = value_or(gpu.throttle_reasons, ())
    return clock < _LOW * most and _EXPECTED.isdisjoint(reasons)


@LOW_CLOCKS.sign(conclusive=False)
def low_under_load(context: Context, gpus: tuple[Gpu, ...]) -> Problem | None:
    """The SM clock is far below the highest while the GPU is busy and not at its power limit."""
    found = []
    for gpu in filter(_is_slow, gpus):
        reasons = value_or(gpu.throttle_reasons, ())
        because = f" ({', '.join(reasons)})" if reasons else ""
        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
        clock = f"{value_or(gpu.sm_clock, 0)} MHz, {value_or(gpu.utilization, 0)} % busy{because}"
        most = f"up to {value_or(gpu.sm_clock_max, 0)} MHz"
        found.append(evidence(f"{name}: {clock}", context.source("gpus"), most))
    return Problem(evidence=tuple(found)) if found else None


@LOW_CLOCKS.sign(unless=("gpu.throttled",))
def low_clocks_message(messages: MessageLog) -> Problem | None:
    """Clocks do not rise, or nvidia-smi shows a low-power state under full load."""
    found = messages.all("low-clocks")
    return Problem(evidence=message_evidence(*found)) if found else None
