"""Findings about performance."""

from __future__ import annotations

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Gpu, Message, value_or
from tfgpu_doctor.records.report import Fix, Severity

BUSY = 80  # per cent; below that, low clocks are what an idle card saves power with


LOW = 0.6  # of the highest clock; a card at its power limit stays above, but for small ones


# at the power limit, lower clocks are how it is built; heat has a finding of its own
_EXPECTED = {"sw_power_cap", "gpu_idle"}


def _is_slow(gpu: Gpu) -> bool:
    clock, most = value_or(gpu.sm_clock, None), value_or(gpu.sm_clock_max, None)
    if not clock or not most or value_or(gpu.utilization, 0) < BUSY:
        return False
    reasons: tuple[str, ...] = value_or(gpu.throttle_reasons, ())
    return clock < LOW * most and _EXPECTED.isdisjoint(reasons)


_SMALL_BATCH = 64


_NARROW = 256  # neurons of a layer; a product of that width takes a GPU some microseconds


_SECONDS = {"m": 60.0, "h": 3600.0, "s": 1.0}


_AS_LONG = 0.8  # of the CPU's time


def _seconds(number: str, unit: str) -> float:
    unit = unit.lower()
    return float(number) * (1e-3 if unit.startswith(("ms", "milli")) else _SECONDS[unit[0]])


def _no_faster(said: MessageLog) -> tuple[Message, ...]:
    """Times of both devices, when the GPU's is no better."""
    found = []
    for message in said.all("time-on-both"):
        values = message.values
        if _seconds(values["gpu"], values["gpu_unit"]) >= _AS_LONG * _seconds(values["cpu"], values["cpu_unit"]):
            found.append(message)
    times = {m.values["device"].upper(): m for m in reversed(said.all("time-on-device"))}
    if len(times) == 2:
        cpu, gpu = (_seconds(times[d].values["time"], times[d].values["unit"]) for d in ("CPU", "GPU"))
        if gpu >= _AS_LONG * cpu:
            found += [times["CPU"], times["GPU"]]
    return tuple(found)


def _small(said: MessageLog) -> tuple[Message, ...]:
    """What makes the work of a step small whatever feeds it: steps that follow one another, narrow layers."""
    narrow = [m for m in said.all("small-model") if int(m.values.get("width", "0")) <= _NARROW]
    wide = any(int(v) > _NARROW for v in said.values("small-model", "width"))
    return (*said.all("no-cudnn-kernel"), *(m for m in narrow if "layer" in m.values or not wide))


def _batches(said: MessageLog) -> tuple[Message, ...]:
    return tuple(m for m in said.all("small-batch") if 0 < int(m.values["size"]) <= _SMALL_BATCH)


def _idles_for_small_work(said: MessageLog) -> bool:
    """A GPU with little load where nothing speaks of the input, and something of small work."""
    feeding = said.has("input-bottleneck", "cpu-busy", "input-bound-said")
    return said.has("low-utilization") and not feeding and bool(_small(said) or _batches(said))


INPUT_BOUND = finding(
    "perf.input-bound",
    layer="Compute",
    severity=Severity.WARNING,
    title="The GPU waits for its input",
    docs="https://www.tensorflow.org/guide/data_performance",
)


@INPUT_BOUND.sign
def input_bound(messages: MessageLog) -> Problem | None:
    """Low utilisation beside an input pipeline that works on the CPU."""
    feeding, low = messages.all("input-bottleneck"), messages.all("low-utilization")
    slow = (*messages.all("slow"), *_no_faster(messages))
    told = messages.all("input-bound-said")  # the profiler's own words
    if not told and not (feeding and (slow or low)) and (slow or not low):
        return None
    return Problem(
        possible=not told and (_idles_for_small_work(messages) or bool(slow and _small(messages))),
        cause="reading, decoding and augmenting take longer on the CPU than the step on the GPU",
        evidence=message_evidence(*told, *slow, *low, *feeding, *messages.all("cpu-busy")),
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


SMALL_WORK = finding(
    "perf.small-work",
    layer="Compute",
    severity=Severity.WARNING,
    title="The work is too small for a GPU",
    symptoms=(symptoms.LOW_UTILIZATION,),
    docs="https://www.tensorflow.org/guide/gpu_performance_analysis",
)


@SMALL_WORK.sign
def small_work(messages: MessageLog) -> Problem | None:
    """The CPU is said to be as fast, or a GPU idles, with small batches, narrow or recurrent layers."""
    slow = (*messages.all("slow"), *_no_faster(messages))
    small, idles = _small(messages), _idles_for_small_work(messages)
    if messages.has("low-clocks") or not (slow or idles or messages.has("no-cudnn-kernel")):
        return None
    if messages.has("input-bottleneck") and not small:
        return None
    low = messages.all("low-utilization") if idles else ()
    return Problem(
        cause="each kernel costs some microseconds to start, and each step copies its data; a small model or batch, or "
        "a recurrent layer that goes step by step, is all overhead",
        evidence=message_evidence(*slow, *low, *small, *_batches(messages)),
        fixes=(
            Fix(text="Raise the batch size by powers of two until the time of a step grows with it"),
            Fix(
                text="Keep recurrent layers to what cuDNN has: activation tanh, recurrent_activation sigmoid, "
                "no recurrent_dropout, unroll=False"
            ),
            Fix(text="Let XLA fuse the small kernels: model.compile(jit_compile=True), and steps_per_execution=32"),
            Fix(text="See where this GPU overtakes this CPU", commands=("tfgpu bench matpow",)),
        ),
    )


LOW_CLOCKS = finding(
    "perf.low-clocks",
    layer="Compute",
    severity=Severity.WARNING,
    title="A busy GPU runs at low clocks",
    explained_by=("gpu.throttled",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)


@LOW_CLOCKS.sign(conclusive=False)
def low_clocks(context: Context, gpus: tuple[Gpu, ...]) -> Problem | None:
    """The SM clock is far below the highest while the card is busy and not at its power limit."""
    slow = [gpu for gpu in gpus if _is_slow(gpu)]
    if not slow:
        return None
    seen = []
    for gpu in slow:
        reasons = value_or(gpu.throttle_reasons, ())
        why = f" ({', '.join(reasons)})" if reasons else ""
        clock, most = value_or(gpu.sm_clock, 0), value_or(gpu.sm_clock_max, 0)
        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
        busy = f"{value_or(gpu.utilization, 0)} % busy"
        seen.append(evidence(f"{name}: {clock} MHz, {busy}{why}", context.source("gpus"), f"up to {most} MHz"))
    numbers = ",".join(str(gpu.index) for gpu in slow)
    return Problem(
        cause="somebody has locked the clocks, or the driver holds the card in a state for little work",
        evidence=tuple(seen),
        fixes=(
            Fix(
                text="Give the clocks back to the driver",
                commands=(f"sudo nvidia-smi -i {numbers} --reset-gpu-clocks", f"sudo nvidia-smi -i {numbers} -rac"),
            ),
            Fix(text="Watch them under load", commands=("nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",)),
        ),
    )


@LOW_CLOCKS.sign(unless=("gpu.throttled",))
def low_clocks_reported(messages: MessageLog) -> Problem | None:
    """Clocks are said to be stuck, or nvidia-smi shows a state for little work under full load."""
    seen = messages.all("low-clocks")
    if not seen:
        return None
    return Problem(
        cause="a power limit, heat, a laptop's power profile or clocks that somebody locked",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="See clocks and the reasons for them under load",
                commands=("nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",),
            ),
            Fix(
                text="Give the clocks back to the driver; on a laptop, plug in its own power supply and choose the "
                "power profile for performance",
                commands=("sudo nvidia-smi --reset-gpu-clocks", "sudo nvidia-smi -rac"),
            ),
        ),
    )
