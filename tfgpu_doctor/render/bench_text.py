"""A benchmark for people: one block a case, with the digits that the samples support."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.results import BenchResult, Ratio, Run
from tfgpu_doctor.bench.statistics import digits
from tfgpu_doctor.facts import value_or
from tfgpu_doctor.render.console import clean, marks
from tfgpu_doctor.render.text import hanging

_UNITS = ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))
_BAR = 20


def render(result: BenchResult, console: Console) -> None:
    """Print all of it."""
    n, power = result.parameters["size"], result.parameters["power"]
    console.print(Text.assemble(("tfgpu bench matpow", "bold"), f"  A^{power} and B^{power}, {n} × {n}"))
    console.print(Text(clean(_machine(result)), "dim"), soft_wrap=True)
    best = max((run.throughput.value for run in result.runs if run.throughput and not run.virtual), default=0.0)
    for run in result.runs:
        console.print()
        _run(run, best, console)
    if result.notes:
        console.print()
    for note in result.notes:
        hanging(Text(f"{marks(console)['note']} ", "cyan"), Text(clean(note)), console)


def _machine(result: BenchResult) -> str:
    software = result.software
    facts = result.environment
    parts = [f"TensorFlow {software.get('tensorflow', '?')}", f"Python {software.get('python', '?')}"]
    parts.append(f"{value_or(facts.host.cpu_model, 'unknown CPU')} ({value_or(facts.host.cpus, '?')} CPUs)")
    parts += dict.fromkeys(value_or(gpu.name, "unknown GPU") for gpu in value_or(facts.gpus, ()))
    return ", ".join(str(part) for part in parts)


def _run(run: Run, best: float, console: Console) -> None:
    symbols = marks(console)
    dtype = run.dtype
    if run.throughput is None or run.median_s is None or run.ci95_s is None:
        head = Text.assemble((f"{symbols['error']} ", "bold red"), (f"{run.label}  {dtype}  ", "bold"))
        hanging(head, Text(clean(run.failure or "not measured")), console)
        return
    line = Text.assemble((f"{symbols['ok']} ", "green"), (f"{run.label}  {dtype}", "bold"), f"  {_throughput(run)}")
    if best and not run.virtual:
        share = max(1, round(_BAR * run.throughput.value / best))
        line.append("  " + symbols["bar"] * share, "blue")
    console.print(line, soft_wrap=True)
    low, high = run.ci95_s
    interval = f"95 % between {_plain(low)} and {_plain(high)}, {len(run.samples_s)} samples"
    hanging(Text("    "), Text(f"{_seconds(run.median_s, low, high)} a sample, {interval}"), console)
    for text in _comparisons(run):
        hanging(Text("    "), Text(text), console)
    if run.verified and run.verified.residual is not None:
        residual = f"verified: residual {run.verified.residual:.2g}, at most {run.verified.tolerance:.2g}"
        hanging(Text("    "), Text(f"{residual}; on {', '.join(dict.fromkeys(run.placed_on))}", "dim"), console)
    for advice in run.advice:
        hanging(Text(f"    {symbols['warning']} ", "yellow"), Text(clean(advice)), console)


def _throughput(run: Run) -> str:
    assert run.throughput is not None
    value, (low, high) = run.throughput.value, run.throughput.ci95
    factor, unit = next(((f, u) for f, u in _UNITS if value >= f), (1.0, run.throughput.unit))
    peak = f" ({run.percent_of_peak:.0f} % of peak)" if run.percent_of_peak is not None else ""
    return f"{digits(value / factor, low / factor, high / factor)} {unit}{peak}"


def _comparisons(run: Run) -> Sequence[str]:
    said = []
    if run.speedup_vs_cpu and not run.virtual:
        said.append(f"{_ratio(run.speedup_vs_cpu)} times the CPU")
    if run.speedup_vs_1gpu and len(run.devices) > 1 and not run.virtual:
        said.append(f"{_ratio(run.speedup_vs_1gpu)} times one GPU")
    if run.efficiency:
        scaling = "strong scaling" if run.spread == "rows" or len(run.devices) == 2 else "weak scaling"
        percent = Ratio(value=run.efficiency.value * 100, low=run.efficiency.low * 100, high=run.efficiency.high * 100)
        said.append(f"efficiency {_ratio(percent)} % ({scaling})")
    return said


def _ratio(ratio: Ratio) -> str:
    """A quotient and its interval, with the digits that the interval supports."""
    shown = [digits(value, ratio.low, ratio.high) for value in (ratio.value, ratio.low, ratio.high)]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


def _seconds(value: float, low: float, high: float) -> str:
    factor, unit = (1.0, "s") if value >= 1 else (1e3, "ms")
    return f"{digits(value * factor, low * factor, high * factor)} {unit}"


def _plain(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
