"""What a bench result comes to: a row, a case and a few metrics for each run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from tfgpu_doctor.bench.results import BenchResult, Ratio, Run
from tfgpu_doctor.bench.speeds import DOUBTFUL
from tfgpu_doctor.records.units import digits, scale_of
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.outline import Block, Detail, Line
from tfgpu_doctor.render.prometheus import created, gauge, info, rate
from tfgpu_doctor.render.shapes import Annotation, Case, Checks, Items, Metric, Page, Part, Sample, Suite, Table

_MANY = 8  # runs; of more, those without failure, advice or figures have their line in the table alone
_LONGEST = 400  # characters of a failure in a list; TensorFlow's messages hold tracebacks
_BAR = 10  # characters of the longest bar of a sweep


def page(result: BenchResult, detail: formats.Detail = "shared") -> Page:
    """A table of the runs, what to know about them, and how they were verified; or the verdict alone."""
    command, first = f"tfgpu bench {result.workload}", words.leading(result)[:1]
    about = (f"{command} {result.tool.version}, {result.title}", words.machine(result))
    whole = Page(command, about, words.worst(result), command, words.verdict(result), (), created=result.created)
    if detail == "shared":
        return whole._replace(parts=tuple(_shared(result)))
    first = result.conclusions[:1] if detail == "least" else first
    whole = whole._replace(sentence=words.verdict(replace(result, conclusions=first)), is_brief=detail == "least")
    if detail == "least":
        return whole
    is_swept = "sweep" in result.parameters
    shown = _sweep(result, str(result.parameters["sweep"])) if is_swept else _runs(result, detail)
    end = (Items(words.notes(result), mark="note"), Items(result.conclusions[len(first) :]))
    hint = ""
    if len(result.runs) > _MANY and detail != "full" and not is_swept:
        hint = "For the details of each run: -v, --output FILE.html, or --output FILE.json."
    return whole._replace(parts=(*shown, *end), hint=hint)


def _shared(result: BenchResult) -> Iterator[Part]:
    """For others to read, with what each figure stands on."""
    runs, name = result.runs, words.namer(result.runs)
    yield runs_table(runs)
    failures = (f"{name(run)}: {run.failure or 'not measured'}" for run in runs if not run.throughput)
    advice = (_advised(having, text, name) for having, text in words.shared_advice(runs))
    yield Items((*result.conclusions[len(words.leading(result)) :], *failures, *advice, *words.notes(result)))
    yield Detail("Times", ("Run", "Time"), tuple((name(run), _time(run)) for run in runs if run.median_s))
    yield Detail("GPU load", ("Run", "NVML"), tuple((name(run), load) for run in runs if (load := _load(run))))
    yield Detail(
        "How the results were verified", ("Run", "Found"), tuple((name(run), words.proof(run)) for run in runs)
    )
    yield Detail("Start-up", ("Run", "Time"), tuple((name(run), words.start_up(run)) for run in runs))
    yield Detail("Command", lines=(result.command,) if result.command else ())


def _advised(having: Sequence[Run], text: str, name: Callable[[Run], str]) -> str:
    """Advice with the runs that have it."""
    return f"{name(having[-1])}{words.others(len(having) - 1)}: {text}"


def _time(run: Run) -> str:
    return words.taken(run) if run.virtual else words.timing(run)


def _load(run: Run) -> str:
    return words.gpu_load(run).removeprefix("GPU load: ")


# ---------------------------------------------------------------------------------------------------------------- runs


def _times(ratio: Ratio | None) -> str:
    return words.ratio(ratio, interval=False) if ratio else ""


_Cells = tuple[str, list[str], bool]  # heading, cells, and whether they are numbers that are compared
# heading, cell, and whether it is a number that is compared, of the columns that every workload has
_COLUMNS: tuple[tuple[str, Callable[[Run], str], bool], ...] = (
    ("speed", words.throughput, False),
    ("vs CPU", lambda run: _times(run.speedup_vs_cpu), True),
    ("vs 1 GPU", lambda run: _times(run.speedup_vs_1gpu) if len(run.devices) > 1 else "", True),
    (
        "efficiency",
        lambda run: words.ratio(run.efficiency, interval=False, factor=100) + " %" if run.efficiency else "",
        True,
    ),
    ("of peak", words.of_peak, True),
    ("verified", lambda run: "yes" if run.verified and run.verified.ok else "no", False),
)


def runs_table(runs: Sequence[Run]) -> Table:
    """The runs beside each other; a column that would be empty or the same for all is left out."""
    columns: list[_Cells] = [("run", [run.label for run in runs], False)]
    columns += [("type", [run.dtype for run in runs], False)] if len({run.dtype for run in runs}) > 1 else []
    columns += _parameters(runs)
    found = ((title, [cell(run) for run in runs], is_number) for title, cell, is_number in _COLUMNS)
    columns += (column for column in found if any(column[1]))
    return Table(
        "Runs",
        tuple(title for title, _, _ in columns),
        tuple(zip(*(cells for _, cells, _ in columns), strict=True)),
        tuple(map(words.mark, runs)),
        tuple(place for place, column in enumerate(columns) if column[2]),
        tuple(_bars(runs)),
    )


def _parameters(runs: Sequence[Run]) -> Iterator[_Cells]:
    """Those in which the runs differ."""
    for key in dict.fromkeys(key for run in runs for key in run.parameters):
        cells = [words.value_of(key, run.parameters[key]) if key in run.parameters else "" for run in runs]
        if len(set(cells)) > 1:
            is_number = all(isinstance(run.parameters.get(key), int | float | None) for run in runs)
            yield key.replace("_", " "), cells, is_number


def _bars(runs: Sequence[Run]) -> Iterator[float]:
    """Shares of the best speed; nothing where the runs have several units, or no speed."""
    speeds = [run.throughput if not run.virtual else None for run in runs]
    best = max((speed.value for speed in speeds if speed), default=0.0)
    if best > 0 and len({run.throughput.unit for run in runs if run.throughput}) == 1:
        yield from (speed.value / best if speed else 0.0 for speed in speeds)


def _runs(result: BenchResult, detail: formats.Detail) -> Iterator[Part]:
    """The table, a block for each run, and the advice that several runs share."""
    runs, name = result.runs, words.namer(result.runs)
    if len(runs) > 1 and any(run.throughput for run in runs):
        yield runs_table(runs)
    many = len(runs) > _MANY and detail != "full"
    advised = words.shared_advice(runs)
    for run in runs:
        own = [advice for having, advice in advised if having == (run,)]
        if not many or run.failure or own or run.figures:
            yield _block(run, own, "least" if many else detail)
    yield Items(tuple(_advised(having, text, name) for having, text in advised if len(having) > 1), mark="warning")


def _block(run: Run, advised: Sequence[str], detail: formats.Detail) -> Block:
    title = "  ".join(part for part in (run.label, run.dtype, words.point(run)) if part)
    if run.throughput is None:
        return Block("error", f"{title}  {run.failure or 'not measured'}", ())
    shares = words.peaks(run)
    speed = words.throughput(run) + (f" ({shares})" if shares else "")
    texts = [_time(run), *words.comparisons(run), *map(words.figure, words.figures(run))]
    texts += [words.gpu_load(run), words.proof(run, brief=detail != "full")] if detail != "least" else []
    texts += [words.start_up(run)] if detail == "full" and not run.virtual else []
    texts += [f"! {advice}" for advice in advised]
    return Block(words.mark(run), f"{title}  {speed}", tuple(Line("", text) for text in texts if text))


# --------------------------------------------------------------------------------------------------------------- sweeps

_Column = dict[object, Run]  # by point


def _sweep(result: BenchResult, axis: str) -> Iterator[Part]:
    """Points down, devices across, a bar in each cell for its share of the best in its column."""
    columns = _devices(result.runs, axis)
    points = sorted({point for column in columns.values() for point in column}, key=_order)
    cells, heads = [], []
    for name, column in columns.items():
        speeds = [run.throughput for run in column.values() if run.throughput and not run.virtual]
        best = max((speed.value for speed in speeds), default=0.0)
        factor, unit = scale_of(best, speeds[0].unit) if speeds else (1.0, "")
        heads.append(f"{name} {unit}".rstrip())
        cells.append([_cell(column.get(point), best, factor) for point in points])
    rows = zip((_shown(axis, point) for point in points), *cells, strict=True)
    yield Table("Sweep", (axis, *heads), tuple(rows), right=(0,))
    yield Items((_legend(result.runs),))
    yield Items(tuple(_failures(columns, axis)), mark="error")
    yield Items(tuple(_advice(columns, axis)), mark="warning")


def _devices(runs: Sequence[Run], axis: str) -> dict[str, _Column]:
    """The runs of each device, type and what else tells them apart, by their point."""
    types, columns = {run.dtype for run in runs}, dict[str, _Column]()
    for run in runs:
        others = [str(value) for key, value in run.parameters.items() if key != axis and value is not None]
        name = ", ".join([run.label, *others, *([run.dtype] if len(types) > 1 else [])])
        columns.setdefault(name, {})[run.parameters.get(axis)] = run
    return columns


def _order(point: object) -> tuple[int, float, str]:
    return (0, float(point), "") if isinstance(point, int | float) else (1, 0.0, str(point))


def _cell(run: Run | None, best: float, factor: float) -> str:
    """ "464   ━━━━━━━━"; a mark alone where there is no speed."""
    if run is None or run.throughput is None:
        return "–" if run is None else "✗"
    if run.virtual:
        return "✓ virtual"
    value, (low, high) = run.throughput.value, run.throughput.ci95
    number = digits(value / factor, low / factor, high / factor) + ("~" if run.doubts else "")
    return f"{number:7} {'━' * max(1, round(_BAR * value / best))}"


def _legend(runs: Sequence[Run]) -> str:
    """What bars and marks mean, and that the results are right."""
    with_speed = [run for run in runs if run.throughput and not run.virtual]
    parts = ["Bars: share of the best in the column."] if with_speed else []
    parts += ["~ uncertain."] if any(run.doubts for run in with_speed) else []
    parts += ["Virtual devices are verified, and have no speed."] if any(run.virtual for run in runs) else []
    right = sum(1 for run in runs if run.throughput)
    return " ".join((*parts, f"{right} of {len(runs)} results measured and verified."))


def _failures(columns: dict[str, _Column], axis: str) -> Iterator[str]:
    """Why there is no speed; what several points have in common, once."""
    failures: dict[str, list[str]] = {}
    for name, column in columns.items():
        for point, run in column.items():
            if run.throughput is None:
                why = " ".join((run.failure or "not measured").split())
                failures.setdefault(why, []).append(f"{name}, {axis} {_shown(axis, point)}")
    for why, places in failures.items():
        yield f"{places[0]}{words.others(len(places) - 1)}: {why if len(why) <= _LONGEST else why[:_LONGEST] + '…'}"


def _advice(columns: dict[str, _Column], axis: str) -> Iterator[str]:
    """Advice that several points of a column share, once, with the figures of the last."""
    for name, column in columns.items():
        for runs, text in words.shared_advice(list(column.values())):
            if not text.startswith(DOUBTFUL):  # the mark says it
                point = _shown(axis, runs[-1].parameters.get(axis))
                yield f"{name}, {axis} {point}{words.others(len(runs) - 1)}: {text}"


def _shown(axis: str, point: object) -> str:
    return words.value_of(axis, point if isinstance(point, int | float | str) else None)


# -------------------------------------------------------------------------------------------------- CI and monitoring


def checks(result: BenchResult) -> Checks:
    """A case for each run: red where it gave no verified result."""
    command, name = f"tfgpu bench {result.workload}", words.namer(result.runs)
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
