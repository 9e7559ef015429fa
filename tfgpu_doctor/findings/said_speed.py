"""Rules over what is told of a job that works, but slowly."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity

_SMALL_BATCH = 64
_NARROW = 256  # neurons of a layer; a product of that width takes a GPU some microseconds
_SECONDS = {"m": 60.0, "h": 3600.0, "s": 1.0}
_AS_LONG = 0.8  # of the CPU's time


def _seconds(number: str, unit: str) -> float:
    unit = unit.lower()
    return float(number) * (1e-3 if unit.startswith(("ms", "milli")) else _SECONDS[unit[0]])


def _no_faster(said: Said) -> tuple[Message, ...]:
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


def _small(said: Said) -> tuple[Message, ...]:
    """What makes the work of a step small whatever feeds it: steps that follow one another, narrow layers."""
    narrow = [m for m in said.all("small-model") if int(m.values.get("width", "0")) <= _NARROW]
    wide = any(int(v) > _NARROW for v in said.values("small-model", "width"))
    return (*said.all("no-cudnn-kernel"), *(m for m in narrow if "layer" in m.values or not wide))


def _batches(said: Said) -> tuple[Message, ...]:
    return tuple(m for m in said.all("small-batch") if 0 < int(m.values["size"]) <= _SMALL_BATCH)


def _idles_for_small_work(said: Said) -> bool:
    """A GPU with little load where nothing speaks of the input, and something of small work."""
    feeding = said.has("input-bottleneck", "cpu-busy", "input-bound-said")
    return said.has("low-utilization") and not feeding and bool(_small(said) or _batches(said))


@rule(
    "perf.input-bound",
    Severity.WARNING,
    "The GPU waits for its input",
    needs=("derived.told",),
    docs="https://www.tensorflow.org/guide/data_performance",
)
def input_bound(context: Context, said: Said) -> Problem | None:
    """Low utilisation beside an input pipeline that works on the CPU."""
    feeding, low = said.all("input-bottleneck"), said.all("low-utilization")
    slow = (*said.all("slow"), *_no_faster(said))
    told = said.all("input-bound-said")  # the profiler's own words
    if not told and not (feeding and (slow or low)) and (slow or not low):
        return None
    return Problem(
        possible=not told and (_idles_for_small_work(said) or bool(slow and _small(said))),
        cause="reading, decoding and augmenting take longer on the CPU than the step on the GPU",
        evidence=heard(*told, *slow, *low, *feeding, *said.all("cpu-busy")),
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
    """The CPU is said to be as fast, or a GPU idles, with small batches, narrow or recurrent layers."""
    slow = (*said.all("slow"), *_no_faster(said))
    small, idles = _small(said), _idles_for_small_work(said)
    if said.has("low-clocks") or not (slow or idles or said.has("no-cudnn-kernel")):
        return None
    if said.has("input-bottleneck") and not small:
        return None
    low = said.all("low-utilization") if idles else ()
    return Problem(
        cause="each kernel costs some microseconds to start, and each step copies its data; a small model or batch, or "
        "a recurrent layer that goes step by step, is all overhead",
        evidence=heard(*slow, *low, *small, *_batches(said)),
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


@rule(
    "perf.low-clocks",
    Severity.WARNING,
    "The GPU runs at low clocks",
    needs=("derived.told",),
    requires=("gpu.throttled",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
def low_clocks(context: Context, said: Said) -> Problem | None:
    """Clocks are said to be stuck, or nvidia-smi shows a state for little work under full load."""
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
            Fix(
                text="Give the clocks back to the driver; on a laptop, plug in its own power supply and choose the "
                "power profile for performance",
                commands=("sudo nvidia-smi --reset-gpu-clocks", "sudo nvidia-smi -rac"),
            ),
        ),
    )
