"""What a bench result comes to: a row, a case and a few metrics for each run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.bench_columns import columns
from tfgpu_doctor.render.outline import Detail
from tfgpu_doctor.render.outlines.gauges import created, gauge, info, rate
from tfgpu_doctor.render.shapes import Annotation, Case, Checks, Items, Metric, Page, Sample, Suite, Table


def page(result: BenchResult) -> Page:
    """A table of the runs, what to know about them, and how they were verified."""
    runs, name = result.runs, words.namer(result.runs)
    found = columns(runs)
    table = Table(
        "Runs",
        tuple(column.title for column in found),
        tuple(tuple(column.cells[number] for column in found) for number in range(len(runs))),
        tuple(map(words.mark, runs)),
    )
    failures = tuple(f"{name(run)}: {run.failure or 'not measured'}" for run in runs if not run.throughput)
    advice = tuple(
        f"{name(having[-1])}{words.others(len(having) - 1)}: {text}" for having, text in words.shared_advice(runs)
    )
    conclusions = result.conclusions[len(words.leading(result)) :]
    parts = (
        table,
        Items((*conclusions, *failures, *advice, *words.notes(result))),
        Detail("Times", ("Run", "Time"), tuple((name(run), _time(run)) for run in runs if run.median_s)),
        Detail("GPU load", ("Run", "NVML"), tuple((name(run), load) for run in runs if (load := _load(run)))),
        Detail("How the results were verified", ("Run", "Found"), tuple((name(run), words.proof(run)) for run in runs)),
        Detail("Start-up", ("Run", "Time"), tuple((name(run), words.start_up(run)) for run in runs)),
        Detail("Command", lines=(result.command,) if result.command else ()),
    )
    about = f"tfgpu bench {result.tool.version}, {result.title}, {words.machine(result)}, {result.created}"
    command = _command(result)
    return Page(command, about, words.worst(result), command, words.verdict(result), parts)


def _command(result: BenchResult) -> str:
    return f"tfgpu bench {result.workload}"


def _time(run: Run) -> str:
    return words.taken(run) if run.virtual else words.timing(run)


def _load(run: Run) -> str:
    return words.gpu_load(run).removeprefix("GPU load: ")


def checks(result: BenchResult) -> Checks:
    """A case for each run: red where it gave no verified result."""
    command, name = _command(result), words.namer(result.runs)
    cases = tuple(_case(run, name(run)) for run in result.runs)
    problems = tuple(
        Annotation("error", f"tfgpu bench: {case.name}: {case.kind}", (case.message, *case.details))
        for case in cases
        if case.outcome == "failure"
    )
    advice = (
        Annotation("warning", f"tfgpu bench: {name(having[-1])}{words.others(len(having) - 1)}", (text,))
        for having, text in words.shared_advice(result.runs)
    )
    log = (f"tfgpu bench: {words.verdict(result)}",)
    return Checks(command, result.created, (Suite(command, cases),), (*problems, *advice), log)


def _case(run: Run, name: str) -> Case:
    case = Case(name, "tfgpu.bench", seconds=sum(run.samples_s))
    if run.failure:
        return case._replace(outcome="failure", kind="failed", message=run.failure)
    shares = words.peaks(run)
    speed = words.throughput(run) + (f" ({shares})" if shares else "")
    details = (speed, _time(run) if run.median_s else "", *words.comparisons(run), words.proof(run), *run.advice)
    return case._replace(details=tuple(filter(None, details)))


def metrics(result: BenchResult) -> Iterator[Metric]:
    """Of each run whether its result is right, its speed and its time; virtual devices have neither."""
    software = {name: result.software.get(name, "") for name in ("tensorflow", "python")}
    workload = {"workload": result.workload}
    yield info("bench", result.tool, **workload, **software)
    yield created("bench", result.created, workload)
    labels = [{**workload, "run": run.label, "dtype": run.dtype, "point": words.point(run)} for run in result.runs]
    pairs = list(zip(result.runs, labels, strict=True))
    verified = (Sample(bool(run.verified and run.verified.ok and not run.failure), where) for run, where in pairs)
    yield gauge("tfgpu_bench_verified", "1 where the result of a run is right, else 0.", *verified)
    found: dict[tuple[str, str], list[Sample]] = {}
    for run, where in pairs:
        for name, about, value in () if run.virtual else _figures(run):
            if value is not None:
                found.setdefault((name, about), []).append(Sample(value, where))
    for (name, about), samples in found.items():
        yield gauge(f"tfgpu_bench_{name}", about, *samples)


def _figures(run: Run) -> Iterator[tuple[str, str, float | None]]:
    """The end of a metric's name, what it is, and its value."""
    yield "step_seconds", "Median time of a step.", run.median_s / run.steps if run.median_s else None
    if run.throughput:
        yield rate(run.throughput.unit), "Work per second.", run.throughput.value
    yield "peak_ratio", "Share of the peak of the GPUs.", _share(run.percent_of_peak)
    yield "memory_bandwidth_ratio", "Share of the GPUs' memory bandwidth.", _share(run.percent_of_bandwidth)
    for name, about, ratio in (
        ("cpu_speedup_ratio", "Speed over that of the CPU.", run.speedup_vs_cpu),
        ("gpu_speedup_ratio", "Speed over that of one GPU.", run.speedup_vs_1gpu),
        ("efficiency_ratio", "Speed-up over the number of GPUs.", run.efficiency),
    ):
        yield name, about, ratio.value if ratio else None


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
