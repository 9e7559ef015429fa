"""What a run of a benchmark says in words, with the digits that its samples support: for terminals and pages. Pure.

Text from outside (labels, device names, figures' notes) is returned as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio, Run
from tfgpu_doctor.bench.samples import DISTURBED
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.units import digits, plural, quantity, scale_of, seconds

LEAST_BANDWIDTH = 5.0  # per cent of the memory bandwidth; a copy over a slower link uses less, which says nothing
UNFINISHED = "Unfinished: the benchmark was interrupted, or was still running. Later runs and samples are missing."
LEFT_OUT = (
    f"Samples are left out of a speed where other programs had more than {100 * DISTURBED:g} % of the CPU time that "
    "the run wanted."
)
# parts of the start-up, whose names in results are older than these words
START_UP = {"to devices": "host-to-device copy", "list devices": "listing devices", "inputs": "creating inputs"}


def throughput(run: Run) -> str:
    """Work per second; virtual devices have none to show."""
    if run.virtual:
        return "virtual: no speed"
    return quantity(run.throughput.value, run.throughput.unit, run.throughput.ci95) if run.throughput else "no speed"


def of_peak(run: Run) -> str:
    """ "77 %"; empty where the peak is not known."""
    return "" if run.percent_of_peak is None else f"{run.percent_of_peak:.0f} %"


def ratio(quotient: Ratio, interval: bool = True, factor: float = 1.0) -> str:
    """A quotient and its interval, with the digits that the interval supports."""
    value, low, high = (factor * number for number in (quotient.value, quotient.low, quotient.high))
    shown = [digits(number, low, high) for number in (value, low, high)]
    return shown[0] if not interval or shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


def point(run: Run, alike: Collection[str] = ()) -> str:
    """The parameters of the run: "size 4096"; without those in `alike`."""
    shown = ((name, value) for name, value in run.parameters.items() if name not in alike)
    return ", ".join(f"{name.replace('_', ' ')} {value_of(name, value)}" for name, value in shown)


def value_of(name: str, value: int | float | str | None) -> str:
    """A parameter for people; a number of bytes with its prefix."""
    if name == "bytes" and isinstance(value, int | float):
        return quantity(value, "B")
    return "-" if value is None else str(value)


def namer(runs: Sequence[Run]) -> Callable[[Run], str]:
    """What names each of `runs`: its label, with the type and the parameters in which they differ."""
    types = len({run.dtype for run in runs}) > 1
    keys = dict.fromkeys(key for run in runs for key in run.parameters)
    alike = {key for key in keys if len({run.parameters.get(key) for run in runs}) == 1}

    def name(run: Run) -> str:
        where = point(run, alike) if len(runs) > 1 else ""
        return ", ".join(filter(None, (run.label, run.dtype if types else "", where)))

    return name


def timing(run: Run) -> str:
    """The median of the samples with its interval, for one unit of work: a step, where a sample queues several."""
    assert run.median_s is not None and run.ci95_s is not None
    factor, unit = scale_of(run.median_s / run.steps, "s")
    low, high = (edge / run.steps / factor for edge in run.ci95_s)
    value, first, last = (digits(number, low, high) for number in (run.median_s / run.steps / factor, low, high))
    return f"{value} {unit} per {run.step_name} ({interval_of(run)}: {first} to {last} {unit}), {taken(run)}"


def interval_of(run: Run) -> str:
    """What `ci95_s` is: of too few samples, their range, which is no interval of 95 %."""
    return "95 %" if len(run.samples_s) - run.left_out >= FEWEST_FOR_INTERVAL else "range"


def mark(run: Run) -> str:
    """The symbol of a run: it failed, its figure is doubtful, or all is well; virtual devices have no figure."""
    return "error" if run.throughput is None else "warning" if run.doubts else "ok"


def taken(run: Run) -> str:
    """How many samples of how many units of work: "12 samples of 20 steps in 3 processes"."""
    each = f" of {run.steps} {plural(run.step_name)}" if run.steps > 1 else ""
    where = f" in {len(run.processes)} processes" if len(run.processes) > 1 else ""
    without = f" ({run.left_out} left out)" if run.left_out else ""
    return f"{len(run.samples_s)} samples{each}{where}{without}"


def comparisons(run: Run) -> Iterator[str]:
    """Speed-up and efficiency."""
    if run.speedup_vs_cpu:
        yield f"{ratio(run.speedup_vs_cpu)} times the CPU"
    if run.speedup_vs_1gpu and len(run.devices) > 1:
        yield f"{ratio(run.speedup_vs_1gpu)} times one GPU"
    if run.efficiency:
        how = f" ({run.scaling} scaling)" if run.scaling else ""
        yield f"efficiency {ratio(run.efficiency, factor=100)} %{how}"


def figures(run: Run) -> list[Figure]:
    """What was found beside the samples; of virtual devices, nothing that is a speed."""
    return [one for one in run.figures if not (run.virtual and (one.unit == "s" or one.unit.endswith("/s")))]


def figure(item: Figure, named: bool = True) -> str:
    """A figure beside the samples: "fit 812 (805 to 820) images/s"; its value alone without `named`."""
    factor, unit = scale_of(item.value, item.unit)
    shown = quantity(item.value, item.unit, item.ci95)
    if item.ci95:
        low, high = (edge / factor for edge in item.ci95)
        ends = (digits(low, low, high), digits(high, low, high))
        if ends[0] != ends[1]:
            shown = f"{digits(item.value / factor, low, high)} ({ends[0]} to {ends[1]}) {unit}".rstrip()
    return f"{item.name} {shown}" + (f": {item.note}" if item.note else "") if named else shown


def proof(run: Run, brief: bool = False) -> str:
    """What was verified, and where it was computed; empty when nothing was. `brief`: where alone, if it is right."""
    found = run.verified
    if found is None:
        return ""
    if brief and found.ok:
        return f"verified, on {', '.join(dict.fromkeys(run.placed_on))}" if run.placed_on else "verified"
    parts = [": ".join(filter(None, (check.name, check.saw))) for check in found.checks]
    if found.residual is not None:
        limit = "" if found.tolerance is None else f" (limit {found.tolerance:.2g})"
        parts.insert(0, f"relative error {found.residual:.2g}{limit}")
    if run.placed_on:
        parts.append(f"on {', '.join(dict.fromkeys(run.placed_on))}")
    return f"{'verified' if found.ok else 'wrong'}: {'; '.join(parts)}"


def start_up(run: Run) -> str:
    """What a user waits for before the steady state; empty when nothing was timed."""
    parts = [f"{START_UP.get(part, part)} {seconds(took)}" for part, took in run.cold_start_s.items() if took >= 0.001]
    parts += [f"first call {seconds(run.warmup_s[0])}"] if run.warmup_s else []
    return "start-up: " + ", ".join(parts) if parts else ""


def gpu_load(run: Run) -> str:
    """What NVML reported during the run: ranges over all GPUs; empty when it reported nothing."""
    kinds = (
        ("utilization", "utilization", "%"),
        ("SM clock", "sm_clock_mhz", "MHz"),
        ("power", "power_w", "W"),
        ("temperature", "temperature_c", "°C"),
    )
    parts = []
    for title, field, unit in kinds:
        values = [value for gpu in run.gpu if (value := getattr(gpu, field)) is not None]
        if values:
            low, high = f"{min(values):.0f}", f"{max(values):.0f}"
            parts.append(f"{title} {low if low == high else f'{low} to {high}'} {unit}")
    return f"GPU load: {', '.join((*parts, *run.notes))}" if parts or run.notes else ""


def peaks(run: Run) -> str:
    """Shares of what the device could do, and of what they are; empty when none is known."""
    parts = []
    if run.percent_of_peak is not None:
        parts.append(f"{of_peak(run)} of peak")
    if run.percent_of_bandwidth is not None and run.percent_of_bandwidth >= LEAST_BANDWIDTH:
        parts.append(f"{run.percent_of_bandwidth:.0f} % of memory bandwidth")
    return ", ".join(parts)


def machine(result: BenchResult) -> str:
    """Software, CPU and GPUs, in one line."""
    software, facts = result.software, result.environment
    parts = [f"TensorFlow {software.get('tensorflow', '?')}", f"Python {software.get('python', '?')}"]
    parts.append(f"{value_or(facts.host.cpu_model, 'unknown CPU')} ({value_or(facts.host.cpus, '?')} CPUs)")
    counts: dict[str, int] = {}
    for gpu in value_or(facts.gpus, ()):
        title = value_or(gpu.name, "unknown GPU")
        counts[title] = counts.get(title, 0) + 1
    parts += [f"{count} × {title}" if count > 1 else title for title, count in counts.items()]
    return ", ".join(parts)


def notes(result: BenchResult) -> tuple[str, ...]:
    """What qualifies the whole result."""
    missing = "; ".join(result.not_run)
    not_run = f"Not run, for lack of time: {missing}. Allow more time: --deadline SECONDS."
    disturbed = (LEFT_OUT,) if any(run.left_out for run in result.runs) else ()
    return (*result.notes, *disturbed, *((not_run,) if missing else ()), *((UNFINISHED,) if result.unfinished else ()))


def shared_advice(runs: Sequence[Run]) -> list[tuple[tuple[Run, ...], str]]:
    """Every piece of advice once, with the runs that have it; where only its figures differ, with those of the last."""
    found: dict[str, dict[int, str]] = {}
    for place, run in enumerate(runs):
        for advice in run.advice:
            found.setdefault(re.sub(r"[\d.]+", "#", advice), {})[place] = advice
    return [(tuple(runs[place] for place in places), list(places.values())[-1]) for places in found.values()]


def others(number: int) -> str:
    """ " (and 2 others)"; empty for none."""
    return f" (and {number} other{'s' * (number > 1)})" if number else ""


def worst(result: BenchResult) -> str:
    """The symbol of the whole: of runs with a speed, that of the one that the verdict names."""
    is_partial = result.unfinished or result.not_run or not result.runs
    named = result.runs if leading(result) else [run for run in result.runs if run in (_best(result), *_failed(result))]
    found = {mark(run) for run in named} | ({"warning"} if is_partial else {"ok"})
    return next(name for name in ("error", "warning", "ok") if name in found)


def leading(result: BenchResult) -> tuple[str, ...]:
    """The conclusions that are the answer; that of a sweep over sizes is its best figure, and they stand beside it."""
    return () if result.parameters.get("sweep") == "size" else result.conclusions


def verdict(result: BenchResult) -> str:
    """One sentence: what came out, for who reads no further."""
    failed, best = len(_failed(result)), _best(result)
    bad = f"{failed} of {len(result.runs)} runs gave no verified result" if failed else ""
    if not result.runs:
        return "Nothing was measured."
    if best is None:
        return f"{bad}: no speed is reported." if bad else "Every result is correct; virtual devices have no speed."
    if found := leading(result):
        return f"{'. '.join(found)}. {bad or 'Every result is verified'}.{_not_run(result)}"
    return f"{_figures(best, result.runs)}. {bad or 'Every result is verified'}.{_doubts(result)}{_not_run(result)}"


def _not_run(result: BenchResult) -> str:
    count = len(result.not_run)
    return f" {count} {'run was' if count == 1 else 'runs were'} not run, for lack of time." if count else ""


def _failed(result: BenchResult) -> list[Run]:
    return [run for run in result.runs if run.failure]


def _doubts(result: BenchResult) -> str:
    good = [run for run in result.runs if run.throughput and not run.virtual]
    if not (doubtful := [run for run in good if run.doubts]):
        return ""
    if len(good) == 1:
        return " The speed is uncertain."
    labels = "; ".join(dict.fromkeys(run.label for run in doubtful))
    return f" Uncertain: {labels} ({len(doubtful)} of {len(good)} speeds)."


def _best(result: BenchResult) -> Run | None:
    """The fastest run, of GPUs where there are some; None where no run has a speed."""
    good = [run for run in result.runs if run.throughput and not run.virtual]
    rivals = [run for run in good if run.devices[0].startswith("/GPU")] or good
    return max(rivals, key=lambda run: run.throughput.value if run.throughput else 0.0, default=None)


def _figures(best: Run, runs: Sequence[Run]) -> str:
    """A run's speed, its share of the peak, its speed-up; where only its case at another size has one, that."""
    share = "" if best.percent_of_peak is None else f", {of_peak(best)} of peak"
    text = f"{namer(runs)(best)}: {throughput(best)}{share}"
    alike = [run for run in runs if (run.label, run.dtype) == (best.label, best.dtype)]
    for run in (best, *alike):
        if others := ", ".join(comparisons(run)):
            return f"{text}; {others}" if run is best else f"{text}; with {point(run)}, {others}"
    return text
