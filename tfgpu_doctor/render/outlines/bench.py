"""What a bench result comes to: its words, with the digits that its samples support; rows, cases and metrics. Pure.

Text from outside (labels, device names, figures' notes) is returned as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from tfgpu_doctor.bench.devices import plain
from tfgpu_doctor.bench.references import MEASURED, Reference
from tfgpu_doctor.bench.results import OVERVIEW, BenchResult, Figure, Ratio, Run
from tfgpu_doctor.bench.samples import DISTURBED
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.units import count, digits, plural, quantity, scale_of, seconds
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.prometheus import gauge, origin, rate
from tfgpu_doctor.render.shapes import (
    Annotation,
    Block,
    Case,
    Checks,
    Code,
    Items,
    Line,
    Metric,
    Page,
    Part,
    Sample,
    Suite,
    Table,
    problems,
)

_NUMBER = re.compile(r"[\d.]*( %)?|-")
_PYTHON = re.compile(r" --python (?:'[^']*'|\S+)")
_MANY = 8  # runs; of more, those without failure, advice or figures have their line in the table alone
_FEW = 2  # runs that are named beside a piece of advice
_LONGEST = 400  # characters of a failure in a list; TensorFlow's messages hold tracebacks
LEAST_BANDWIDTH = 5.0  # per cent of the memory bandwidth; a copy over a slower link uses less, which says nothing
UNFINISHED = "Unfinished: the benchmark was interrupted, or was still running. Later runs and samples are missing."
LEFT_OUT = (
    f"Samples are left out of a speed where other programs had more than {100 * DISTURBED:g} % of the CPU time that "
    "the run wanted."
)
# parts of the start-up, whose names in results are older than these words
START_UP = {"to devices": "host-to-device copy", "list devices": "listing devices", "inputs": "creating inputs"}
# first word of a doubt (bench/speeds.py) → what it means; a cause is said rather than what it caused
_DOUBTS = {
    "disturbed": "too low: other programs used the CPUs",
    "drift": "the speed changed meanwhile",
    "only": "too few measurements in the time",
    "": "the times vary too much",
}
# what NVML reports of a GPU: its title, field and unit
_LOADS = (
    ("utilization", "utilization", "%"),
    ("SM clock", "sm_clock_mhz", "MHz"),
    ("power", "power_w", "W"),
    ("temperature", "temperature_c", "°C"),
)

# ------------------------------------------------------------------------------------------------------- words of a run


def throughput(run: Run) -> str:
    """Work per second; virtual devices have none to show."""
    if run.virtual or run.throughput is None:
        return "virtual: no speed" if run.virtual else "no speed"
    speed, ends = run.throughput.value, run.throughput.ci95
    # `tfgpu bench` alone measures each run for two seconds, in one process; where a speed is uncertain, its interval
    # does not hold all that may be wrong with it: two digits, however close the samples lie
    is_rough = run.doubts or "workload" in run.parameters
    ends = (min(ends[0], 0.9 * speed), max(ends[1], 1.1 * speed)) if is_rough else ends
    return quantity(speed, run.throughput.unit, ends)


def _speed(run: Run) -> str:
    """The speed, and its shares of what the GPUs could do: "49.5 TFLOP/s (77 % of peak)"."""
    shares = [] if run.percent_of_peak is None else [f"{run.percent_of_peak:.0f} % of peak"]
    if run.percent_of_bandwidth is not None and run.percent_of_bandwidth >= LEAST_BANDWIDTH:
        shares.append(f"{run.percent_of_bandwidth:.0f} % of memory bandwidth")
    return throughput(run) + (f" ({', '.join(shares)})" if shares else "")


def _measured(value: float, ends: tuple[float, float], unit: str = "") -> str:
    """A value and its interval, with the digits that it supports: "12.3 (12.1 to 13.1) ms"."""
    factor, shown = scale_of(value, unit)
    low, high = (end / factor for end in ends)
    middle, first, last = (digits(number, low, high) for number in (value / factor, low, high))
    return f"{middle}{'' if first == last else f' ({first} to {last})'} {shown}".rstrip()


def ratio(quotient: Ratio, factor: float = 1.0) -> str:
    """A quotient and its interval, with the digits that the interval supports."""
    return _measured(factor * quotient.value, (factor * quotient.low, factor * quotient.high))


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
    if run.virtual or run.median_s is None or run.ci95_s is None:
        return taken(run)
    ends = run.ci95_s[0] / run.steps, run.ci95_s[1] / run.steps
    return f"{_measured(run.median_s / run.steps, ends, 's')} per {run.step_name}, {taken(run)}"


def mark(run: Run) -> str:
    """The symbol of a run: it failed, its figure is doubtful, or all is well; virtual devices have no figure."""
    return "error" if run.throughput is None else "warning" if run.doubts else "ok"


def taken(run: Run) -> str:
    """How many samples of how many units of work: "12 samples of 20 steps in 3 processes"."""
    each = f" of {run.steps} {plural(run.step_name)}" if run.steps > 1 else ""
    where = f" in {len(run.processes)} processes" if len(run.processes) > 1 else ""
    without = f" ({run.left_out} left out)" if run.left_out else ""
    return f"{count(len(run.samples_s), 'sample')}{each}{where}{without}"


def comparisons(run: Run) -> Iterator[str]:
    """Speed-up and efficiency."""
    if run.speedup_vs_cpu:
        yield f"{ratio(run.speedup_vs_cpu)} times the CPU"
    if run.speedup_vs_1gpu:
        yield f"{ratio(run.speedup_vs_1gpu)} times one GPU"
    if run.efficiency:
        how = f" ({run.scaling} scaling)" if run.scaling else ""
        yield f"efficiency {ratio(run.efficiency, factor=100)} %{how}"


def figures(run: Run) -> list[Figure]:
    """What was found beside the samples; of virtual devices, nothing that is a speed."""
    return [one for one in run.figures if not (run.virtual and (one.unit == "s" or one.unit.endswith("/s")))]


def figure(item: Figure) -> str:
    """A figure beside the samples: "fit 812 (805 to 820) images/s"."""
    shown = _measured(item.value, item.ci95, item.unit) if item.ci95 else quantity(item.value, item.unit)
    return f"{item.name} {shown}" + (f": {item.note}" if item.note else "")


def proof(run: Run, brief: bool = False) -> str:
    """What was verified, and where it was computed; empty when nothing was. `brief`: where alone, if it is right."""
    found, where = run.verified, f"on {', '.join(dict.fromkeys(run.placed_on))}" if run.placed_on else ""
    if found is None:
        return ""
    if brief and found.ok:
        return ", ".join(filter(None, ("verified", where)))
    parts = [": ".join(filter(None, (check.name, check.saw))) for check in found.checks]
    if found.residual is not None:
        limit = "" if found.tolerance is None else f" (limit {found.tolerance:.2g})"
        parts.insert(0, f"relative error {found.residual:.2g}{limit}")
    return f"{'verified' if found.ok else 'wrong'}: {'; '.join(filter(None, (*parts, where)))}"


def start_up(run: Run) -> str:
    """What a user waits for before the steady state; empty when nothing was timed."""
    parts = [f"{START_UP.get(part, part)} {seconds(took)}" for part, took in run.cold_start_s.items() if took >= 0.001]
    parts += [f"first call {seconds(run.warmup_s[0])}"] if run.warmup_s else []
    return "start-up: " + ", ".join(parts) if parts and not run.virtual else ""


def gpu_load(run: Run) -> str:
    """What NVML reported during the run: ranges over all GPUs; empty when it reported nothing."""
    parts = []
    for title, field, unit in _LOADS:
        values = [value for gpu in run.gpu if (value := getattr(gpu, field)) is not None]
        if values:
            low, high = f"{min(values):.0f}", f"{max(values):.0f}"
            parts.append(f"{title} {low if low == high else f'{low} to {high}'} {unit}")
    return f"GPU load: {', '.join((*parts, *run.notes))}" if parts or run.notes else ""


def texts(run: Run, detail: formats.Detail = "full") -> list[str]:
    """All that is known of a run with a speed, beside it."""
    is_brief = detail == "normal"
    found = [timing(run), *comparisons(run), *map(figure, figures(run)), gpu_load(run), proof(run, is_brief)]
    return list(filter(None, (*found, "" if is_brief else start_up(run))))


# -------------------------------------------------------------------------------------------------- words of the whole


def _command(result: BenchResult) -> str:
    return "tfgpu bench" if result.workload == OVERVIEW else f"tfgpu bench {result.workload}"


def machine(result: BenchResult) -> str:
    """Software, CPU and GPUs, in one line."""
    software, facts = result.software, result.environment
    names = (("TensorFlow", "tensorflow"), ("Python", "python"))
    parts = [f"{title} {software[name]}" for title, name in names if name in software]
    parts.append(f"{value_or(facts.host.cpu_model, 'unknown CPU')} ({value_or(facts.host.cpus, '?')} CPUs)")
    gpus = Counter(value_or(gpu.name, "unknown GPU") for gpu in value_or(facts.gpus, ()))
    return ", ".join((*parts, *(f"{number} × {title}" if number > 1 else title for title, number in gpus.items())))


def notes(result: BenchResult) -> tuple[str, ...]:
    """What qualifies the whole result."""
    missing = "; ".join(result.not_run)
    more = " Alone: tfgpu bench WORKLOAD." if result.workload == OVERVIEW else " Allow more time: --deadline SECONDS."
    not_run = f"Not run, for lack of time: {missing}." + ("" if "--deadline" in missing else more)
    disturbed = (LEFT_OUT,) if any(run.left_out for run in result.runs) else ()
    return (*result.notes, *disturbed, *((not_run,) if missing else ()), *((UNFINISHED,) if result.unfinished else ()))


def shared_advice(runs: Sequence[Run]) -> list[str]:
    """Every piece of advice once, with its runs; of many with other figures, those of the last."""
    name, found = namer(runs), dict[str, list[tuple[Run, str]]]()
    for run in runs:
        for advice in run.advice:
            found.setdefault(re.sub(r"[\d.]+", "#", advice), []).append((run, advice))
    return [line for alike in found.values() for line in _advice_of(alike, name)]


def _advice_of(alike: Sequence[tuple[Run, str]], name: Callable[[Run], str]) -> Iterator[str]:
    """Yield lines of advice that differs in its figures alone: one for each, of many one."""
    texts = dict[str, list[str]]()
    for run, advice in alike:
        texts.setdefault(advice, []).append(name(run))
    if len(texts) > _FEW:
        run, advice = alike[-1]
        texts = {advice: [f"{name(run)} (and {len(alike) - 1} more, with other figures)"]}
    for advice, names in texts.items():
        more = f" (and {len(names) - _FEW} more)" if len(names) > _FEW else ""
        yield f"{'; '.join(names[:_FEW])}{more}: {advice}"


def worst(result: BenchResult) -> str:
    """Return the symbol of the whole: of runs with a speed, that of the one that the verdict names."""
    if result.refused:
        return "error"
    is_partial = result.unfinished or result.not_run or not result.runs
    best, by_all = _best(result), bool(leading(result))
    found = {mark(run) for run in result.runs if by_all or run.failure or run is best}
    found |= {"warning"} if is_partial else {"ok"}
    return next(name for name in ("error", "warning", "ok") if name in found)


def leading(result: BenchResult) -> tuple[str, ...]:
    """The conclusion that is the answer; that of a sweep over sizes is its best figure, and they stand beside it."""
    return () if result.parameters.get("sweep") == "size" else result.conclusions[:1]


def verdict(result: BenchResult) -> str:
    """Return what came out, for who reads no further."""
    runs, best = result.runs, _best(result)
    failed = sum(bool(run.failure) for run in runs)
    bad = f"{failed} of {len(runs)} runs gave no verified result" if failed else ""
    if result.refused:
        return f"{'' if runs else 'Nothing was measured: '}{result.refused}"
    if not runs:
        return "Nothing was measured."
    if best is None:
        return f"{bad}: no speed is reported." if bad else "Every result is correct; virtual devices have no speed."
    sentences = [*leading(result)] or [_figures(best, runs)]
    sentences += [bad or "Every result is verified", _doubtful(runs, result.unfinished)]
    if result.not_run:
        missing = ", ".join(result.not_run) if result.workload == OVERVIEW else len(result.not_run)
        sentences.append(f"Not run, for lack of time: {missing}")
    sentences.append(_unfinished(result))
    return ". ".join(filter(None, sentences)) + "."


def _unfinished(result: BenchResult) -> str:
    """Say that runs are missing, with their number where it is known; empty where none is."""
    missing = result.planned - sum(bool(run.samples_s or run.failure) for run in result.runs)
    what = "later runs or samples are missing"
    if missing > 0:
        what = f"{missing} of {count(result.planned, 'run')} not measured"
    return f"Unfinished: {what}" if result.unfinished else ""


def _doubtful(runs: Sequence[Run], is_unfinished: bool) -> str:
    """Name the devices whose figures are doubtful, with the cause: of several, the first in _DOUBTS."""
    doubts = [(run.label, doubt) for run in runs for doubt in run.doubts]
    meant = _DOUBTS | ({"only": "interrupted after too few measurements"} if is_unfinished else {})
    why = {label: meant[start] for start in reversed(meant) for label, doubt in doubts if doubt.startswith(start)}
    text = f"Uncertain: {', '.join(f'{label} ({words})' for label, words in why.items())}" if why else ""
    is_slow_base = why.get("CPU") == _DOUBTS["disturbed"] and any(run.speedup_vs_cpu for run in runs)
    return f"{text}, and what is given as times the CPU is too high" if is_slow_base else text


def _best(result: BenchResult) -> Run | None:
    """The fastest run, of GPUs where there are some; None where no run has a speed.

    Of transfers, that of the most bytes: what is small fits into a cache.
    """
    good = [run for run in result.runs if run.throughput and not run.virtual]
    rivals = [run for run in good if run.devices[0].startswith("/GPU")] or good
    sizes = [size if isinstance(size := run.parameters.get("bytes"), int) else 0 for run in rivals]
    rivals = [run for run, size in zip(rivals, sizes, strict=True) if size == max(sizes)]
    return max(rivals, key=lambda run: run.throughput.value if run.throughput else 0.0, default=None)


def _figures(best: Run, runs: Sequence[Run]) -> str:
    """A run's speed, its share of the peak, its speed-up; where only its case at another size has one, that."""
    share = "" if best.percent_of_peak is None else f", {best.percent_of_peak:.0f} % of peak"
    text = f"{namer(runs)(best)}: {throughput(best)}{share}"
    alike = [run for run in runs if (run.label, run.dtype) == (best.label, best.dtype)]
    for run in (best, *alike):
        if others := ", ".join(comparisons(run)):
            return f"{text}; {others}" if run is best else f"{text}; with {point(run)}, {others}"
    return text


# ----------------------------------------------------------------------------------------------------------------- page


def page(result: BenchResult, detail: formats.Detail = "shared") -> Page:
    """A table of the runs, what to know about them, and how they were verified."""
    result = result if detail == "full" else _in_plain_words(result, of_pages=detail == "shared")
    command, runs, name = _command(result), result.runs, namer(result.runs)
    day = "" if detail == "shared" else f", measured {result.created[:10]}"
    what = f", {result.title}" if result.title else ""
    about = (f"{command} {result.tool.version}{what}{day}", machine(result))
    whole = Page(command, about, worst(result), command, verdict(result), (), created=result.created)
    failures = Items(tuple(f"{name(run)}: {_failure(run)}" for run in runs if not run.throughput), mark="error")
    if result.workload == OVERVIEW and detail == "normal":
        qualified = (note for note in notes(result) if MEASURED in note or note == UNFINISHED)
        parts: tuple[Part, ...] = (_devices(result), failures, Items(tuple(qualified), mark="note"))
        python = "".join(_PYTHON.findall(result.command)[:1])
        cnn = f"tfgpu bench cnn --model {result.parameters.get('model')}{python}"
        hint = f"More: tfgpu bench matpow{python}; {cnn}. Verification: -v"
        return whole._replace(about=(f"{command} {result.tool.version}{day}", about[1]), parts=parts, hint=hint)
    many = len(runs) > _MANY and detail == "normal"
    parts = (
        *((runs_table(runs),) if detail == "shared" else _blocks(result, detail, many)),
        failures,
        Items(tuple(shared_advice(runs)), mark="warning"),
        Items(notes(result), mark="note"),
        Items(result.conclusions[len(leading(result)) :]),
        *(_details(result) if detail == "shared" else ()),
    )
    hint = "For the details of each run: -v, --output FILE.html, or --output FILE.json." if many else ""
    return whole._replace(parts=parts, hint=hint)


def reference_page(reference: Reference) -> Page:
    """What was measured on a GPU, and on what it depends."""
    rows = []
    for one in reference.speeds:
        speed, known = one.throughput, {key: value for key, value in one.parameters.items() if value and key != "seed"}
        work = (f"{key} {value}" for key, value in known.items())
        shown = quantity(speed.value, speed.unit, speed.ci95)
        rows.append((one.workload, one.dtype, ", ".join(work), shown, str(one.samples)))
    about = (
        f"Reference: {reference.gpu}, measured {reference.measured} with tfgpu {reference.tool}",
        f"TensorFlow {reference.tensorflow}, driver {reference.driver}",
    )
    speeds = Table("Speeds", ("workload", "type", "what", "speed", "samples"), tuple(rows), right=(4,))
    sentence = "Each is verified, and of one GPU alone. What share of it this GPU gives: tfgpu bench"
    return Page("tfgpu bench", about, "ok", "tfgpu bench", sentence, (speeds,))


def _in_plain_words(result: BenchResult, *, of_pages: bool) -> BenchResult:
    """Return a result without the terms that are explained in docs/commands/bench.md, and shown with -v."""
    texts = {name: tuple(map(plain, getattr(result, name))) for name in ("not_run", "conclusions", "notes")}
    runs = [replace(run, label=plain(run.label), scaling=run.scaling if of_pages else None) for run in result.runs]
    return replace(result, runs=runs, **texts)


def _devices(result: BenchResult) -> Table:
    """A line for each device of an overview, a column for each computation."""
    found = {(run.label.partition(",")[0], (run.parameters.get("workload"), run.dtype)): run for run in result.runs}
    columns = dict.fromkeys([*(column for _, column in found), ("cnn", "float32")])
    rows, marks = list[tuple[str, ...]](), list[str]()
    for label in dict.fromkeys(label for label, _ in found):
        own = [found.get((label, column)) for column in columns]
        rows.append((label, *(throughput(run).removesuffix(" images/s") if run else "-" for run in own)))
        marks.append(min((mark(run) for run in own if run), key=("error", "warning", "ok").index))
    cnn = f"CNN {result.parameters.get('model')} images/s"
    titles = (cnn if workload == "cnn" else f"matmul {dtype}" for workload, dtype in columns)
    return Table("Speeds", ("device", *titles), tuple(rows), tuple(marks))


def _blocks(result: BenchResult, detail: formats.Detail, many: bool) -> Iterator[Part]:
    """Yield the table of several runs, and a block for each with a speed; of many, of those with figures."""
    measured = [run for run in result.runs if run.throughput]
    if measured and len(result.runs) > 1:
        yield _devices(result) if result.workload == OVERVIEW else runs_table(result.runs)
    yield from (_block(run, detail) for run in measured if not many or run.figures)


def _details(result: BenchResult) -> Iterator[Part]:
    name = namer(result.runs)
    rows = ((name(run), text) for run in result.runs for text in (texts(run) if run.throughput else [proof(run)]))
    yield Table("Details of each run", ("Run", "Found"), tuple(row for row in rows if row[1]), is_folded=True)
    yield Code("Command", (result.command,) if result.command else (), is_folded=True)


def _failure(run: Run) -> str:
    why = " ".join((run.failure or "not measured").split())
    return why if len(why) <= _LONGEST else why[:_LONGEST] + "…"


def _block(run: Run, detail: formats.Detail) -> Block:
    title = "  ".join(filter(None, (run.label, run.dtype, point(run), _speed(run))))
    return Block(mark(run), title, tuple(Line("", text) for text in texts(run, detail)))


def _brief(quotient: Ratio | None, factor: float = 1.0, unit: str = "") -> str:
    return ratio(quotient, factor).partition(" ")[0] + unit if quotient else ""


# heading and cell of the columns that every workload has
_COLUMNS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("speed", throughput),
    ("vs CPU", lambda run: _brief(run.speedup_vs_cpu)),
    ("vs 1 GPU", lambda run: _brief(run.speedup_vs_1gpu)),
    ("efficiency", lambda run: _brief(run.efficiency, 100, " %")),
    ("of peak", lambda run: "" if run.percent_of_peak is None else f"{run.percent_of_peak:.0f} %"),
    ("verified", lambda run: "yes" if run.verified and run.verified.ok else "no"),
)


def _points(runs: Sequence[Run]) -> Iterator[tuple[str, list[str]]]:
    yield "type", [run.dtype for run in runs]
    for key in dict.fromkeys(key for run in runs for key in run.parameters):
        cells = [value_of(key, run.parameters[key]) if key in run.parameters else "" for run in runs]
        yield key.replace("_", " "), cells


def runs_table(runs: Sequence[Run]) -> Table:
    """The runs beside each other; a figure that none has, and a parameter that all share, is left out."""
    columns = [("run", [run.label for run in runs]), *(one for one in _points(runs) if len(set(one[1])) > 1)]
    figures = ((title, list(map(cell, runs))) for title, cell in _COLUMNS)
    columns += [column for column in figures if any(column[1])]
    numbers = [place for place, (_, cells) in enumerate(columns) if all(map(_NUMBER.fullmatch, cells))]
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Table("Runs", tuple(title for title, _ in columns), rows, tuple(map(mark, runs)), tuple(numbers))


# -------------------------------------------------------------------------------------------------- CI and monitoring


def checks(result: BenchResult) -> Checks:
    """A case for each run: red where it gave no verified result."""
    command, name = _command(result), namer(result.runs)
    cases = tuple(_case(run, name(run)) for run in result.runs)
    parts = (one.partition(": ") for one in result.not_run)
    missing = [(where, why or "for lack of time") for where, _, why in parts]
    missing += [("all runs", why) for why in (result.refused, _unfinished(result)) if why]
    cases += tuple(Case(one, "tfgpu.bench", outcome="error", kind="not run", message=why) for one, why in missing)
    advice = (Annotation("warning", "tfgpu bench", (text,)) for text in shared_advice(result.runs))
    log = (f"tfgpu bench: {verdict(result)}",)
    return Checks(command, result.created, (Suite(command, cases),), (*problems("tfgpu bench", cases), *advice), log)


def _case(run: Run, name: str) -> Case:
    case = Case(name, "tfgpu.bench", seconds=sum(run.samples_s))
    if run.failure or run.throughput is None:
        return case._replace(outcome="failure", kind="failed", message=run.failure or "not measured")
    return case._replace(details=(_speed(run), *texts(run), *run.advice))


def _values(run: Run) -> Iterator[tuple[str, str, Any, float]]:
    """Yield the end of the name, what it is, the figure, and by what that is multiplied."""
    yield "step_seconds", "Median time of a step.", run.median_s, 1 / run.steps
    if run.throughput:
        yield rate(run.throughput.unit), "Work per second.", run.throughput, 1.0
    yield "peak_ratio", "Share of the peak of the GPUs.", run.percent_of_peak, 0.01
    yield "memory_bandwidth_ratio", "Share of the GPUs' memory bandwidth.", run.percent_of_bandwidth, 0.01
    yield "cpu_speedup_ratio", "Speed over that of the CPU.", run.speedup_vs_cpu, 1.0
    yield "gpu_speedup_ratio", "Speed over that of one GPU.", run.speedup_vs_1gpu, 1.0
    yield "efficiency_ratio", "Speed-up over the number of GPUs.", run.efficiency, 1.0


def metrics(result: BenchResult) -> Iterator[Metric]:
    """Of each run whether its result is right, its speed and its time; virtual devices have neither."""
    software = {name: result.software.get(name, "") for name in ("tensorflow", "python")}
    workload = {"workload": result.workload}
    yield from origin("bench", result.tool, result.created, software, workload)
    labels = [{**workload, "run": run.label, "dtype": run.dtype, "point": point(run)} for run in result.runs]
    pairs = list(zip(result.runs, labels, strict=True))
    verified = (Sample(bool(run.verified and run.verified.ok and not run.failure), where) for run, where in pairs)
    yield gauge("tfgpu_bench_verified", "1 where the result of a run is right, else 0.", *verified)
    found: dict[tuple[str, str], list[Sample]] = {}
    for run, where in pairs:
        for name, about, value, factor in () if run.virtual else _values(run):
            if value is not None:
                number = factor * getattr(value, "value", value)
                found.setdefault((name, about), []).append(Sample(number, where))
    for (name, about), samples in found.items():
        yield gauge(f"tfgpu_bench_{name}", about, *samples)
