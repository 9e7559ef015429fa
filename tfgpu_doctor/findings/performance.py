"""Rules about GPUs that work, but slowly."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Gpu, value_or
from tfgpu_doctor.records.report import Fix, Severity

BUSY = 80  # per cent; below that, low clocks are what an idle card saves power with
LOW = 0.6  # of the highest clock; a card at its power limit stays above, but for small ones
# at the power limit, lower clocks are how it is built; heat has a finding of its own
_EXPECTED = {"sw_power_cap", "gpu_idle"}


@rule(
    "perf.low-clocks",
    Severity.WARNING,
    "A busy GPU runs at low clocks",
    needs=("gpus",),
    explained_by=("gpu.throttled",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
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


def _is_slow(gpu: Gpu) -> bool:
    clock, most = value_or(gpu.sm_clock, None), value_or(gpu.sm_clock_max, None)
    if not clock or not most or value_or(gpu.utilization, 0) < BUSY:
        return False
    reasons: tuple[str, ...] = value_or(gpu.throttle_reasons, ())
    return clock < LOW * most and _EXPECTED.isdisjoint(reasons)


@rule(
    "gpu.throttled",
    Severity.WARNING,
    "The GPU slows down when it is hot",
    needs=("derived.told",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
def slower_with_time(context: Context, said: Said) -> Problem | None:
    """A job that is slower the longer it runs: heat, or a graph to which every step adds."""
    seen = said.all("slower-with-time")
    if not seen:
        return None
    return Problem(
        possible=True,
        cause="a card that grows hot lowers its clocks; a program that adds to its graph, or keeps what it computed, "
        "slows down as well",
        evidence=heard(*seen),
        fixes=(
            Fix(
                text="To decide, watch temperature and clocks while it runs",
                commands=(
                    "nvidia-smi --query-gpu=temperature.gpu,clocks.sm,clocks.max.sm,utilization.gpu --format=csv -l 5",
                ),
            ),
        ),
    )
