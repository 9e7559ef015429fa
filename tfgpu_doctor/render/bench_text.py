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
    hanging(Text(f"tfgpu bench {clean(result.workload)}  ", "bold"), Text(clean(result.title)), console)
    hanging(Text(""), Text(clean(_machine(result)), "dim"), console)
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
    title = f"{clean(run.label)}  {clean(run.dtype)}  "
    if run.throughput is None:
        head = Text.assemble((f"{symbols['error']} ", "bold red"), (title, "bold"))
        hanging(head, Text(clean(run.failure or "not measured")), console)
        return
    head = Text.assemble((f"{symbols['ok']} ", "green"), (title, "bold"))
    hanging(head, _speed(run, best, console.width - len(head), symbols["bar"]), console)
    indent = Text("    ")
    hanging(indent, Text(_sample(run)), console)
    for text in _comparisons(run):
        hanging(indent, Text(text), console)
    hanging(indent, Text(_proof(run), "dim"), console)
    if not run.virtual:
        hanging(indent, Text(_before(run), "dim"), console)
    for advice in run.advice:
        hanging(Text(f"    {symbols['warning']} ", "yellow"), Text(clean(advice)), console)


def _speed(run: Run, best: float, width: int, bar: str) -> Text:
    """The throughput, with a bar in proportion where there is room. Virtual devices have none to show."""
    if run.virtual:
        return Text("virtual: no speed", "dim")
    assert run.throughput is not None
    line = Text(_throughput(run))
    if best and len(line) + 2 + _BAR <= width:
        line.append("  " + bar * max(1, round(_BAR * run.throughput.value / best)), "blue")
    return line


def _proof(run: Run) -> str:
    """What was verified, and where it was computed."""
    found = run.verified
    assert found is not None
    said = [f"{clean(check.name)} {clean(check.saw)}".strip() for check in found.checks]
    if found.residual is not None:
        limit = "" if found.tolerance is None else f", at most {found.tolerance:.2g}"
        said.insert(0, f"residual {found.residual:.2g}{limit}")
    placed = ", ".join(dict.fromkeys(clean(device) for device in run.placed_on))
    return f"verified: {'; '.join([*said, f'on {placed}'])}"


def _before(run: Run) -> str:
    """What a user waits for before the steady state."""
    parts = [f"{clean(name)} {_plain(seconds)}" for name, seconds in run.cold_start_s.items() if seconds >= 0.001]
    parts += [f"first call {_plain(run.warmup_s[0])}"] if run.warmup_s else []
    return "before: " + ", ".join(parts)


def _throughput(run: Run) -> str:
    assert run.throughput is not None
    value, (low, high) = run.throughput.value, run.throughput.ci95
    factor, unit = next(((f, u) for f, u in _UNITS if value >= f), (1.0, run.throughput.unit))
    peak = f" ({run.percent_of_peak:.0f} % of peak)" if run.percent_of_peak is not None else ""
    return f"{digits(value / factor, low / factor, high / factor)} {unit}{peak}"


def _comparisons(run: Run) -> Sequence[str]:
    said = []
    if run.speedup_vs_cpu:
        said.append(f"{_ratio(run.speedup_vs_cpu)} times the CPU")
    if run.speedup_vs_1gpu and len(run.devices) > 1:
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


def _sample(run: Run) -> str:
    """The median of the samples with its interval."""
    assert run.median_s is not None and run.ci95_s is not None
    factor, unit = (1.0, "s") if run.median_s >= 1 else (1e3, "ms")
    low, high = (factor * edge for edge in run.ci95_s)
    value, first, last = (digits(number, low, high) for number in (factor * run.median_s, low, high))
    return f"{value} {unit} a sample (95 %: {first} to {last} {unit}), {len(run.samples_s)} samples"


def _plain(seconds: float) -> str:
    """Seconds with two digits."""
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1e3, "ms")
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"
