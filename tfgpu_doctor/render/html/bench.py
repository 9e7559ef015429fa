"""A bench result as one page that needs nothing else: charts, the numbers beside them, what they stand on. Pure.

The page is made for others to read: the caller hands over a result that was redacted (redact/).
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator, Sequence

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.statistics import percent
from tfgpu_doctor.records.facts import Facts, Known, value_or
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.units import memory_size, seconds
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.html.charts import ROWS, chunks, samples, scaling, speed, worth_drawing
from tfgpu_doctor.render.html.page import body
from tfgpu_doctor.render.html.parts import command, element, items, page, paragraph, section, table, text
from tfgpu_doctor.render.outlines import report as doctor_outline
from tfgpu_doctor.render.outlines.bench import runs_table

FEW = 3  # runs whose advice is shown run by run
DRAWN = 2 * ROWS  # runs in the other pictures, which hold ROWS each
LARGE = 500_000  # bytes of JSON from which on the file for download is compressed
_READ = (
    "Times are medians with 95 % intervals from order statistics; of fewer than six samples, with their range. Speeds "
    "have the interval of the median, speed-ups the worst case of both intervals. Only digits that the spread supports "
    "are shown. A run whose result was wrong, unverified or computed on another device has no speed. Per cent of peak: "
    "multiprocessors × highest SM clock × FLOP per cycle of the architecture. Logical (virtual) devices share one "
    "physical device: they prove function, never speed."
)


def render(result: BenchResult, report: Report | None = None, diagnose: Callable[[Facts], Report] | None = None) -> str:
    """The whole page; `report` is the doctor's of the facts that the result carries, or `diagnose` makes it."""
    report = diagnose(result.environment) if diagnose else report
    title = f"tfgpu bench {result.workload}: {result.title}"
    doctor = body(doctor_outline.page(report, "full")) if report else ""
    sections = [
        (name, anchor, section(name, anchor, *parts))
        for name, anchor, parts in (
            ("Advice and notes", "advice", _advice(result)),
            ("Sweep", "sweep", _sweep(result)),
            ("Speed", "speed", _speed(result)),
            ("Scaling over GPUs", "scaling", _scaling(result)),
            ("Samples", "samples", _samples(result)),
            ("Other measurements", "figures", _figures(result)),
            ("GPUs during the runs", "gpus", _gpus(result)),
            ("Cold start and steady state", "start", _start(result)),
            ("How the results were verified", "verified", _verified(result)),
            ("Environment", "environment", _environment(result)),
            ("The doctor's verdict", "doctor", (doctor,)),
            ("How to reproduce", "reproduce", _reproduce(result)),
        )
    ]
    shown = [(name, anchor, whole) for name, anchor, whole in sections if whole]
    links = "".join(element("li", element("a", text(name), href=f"#{anchor}")) for name, anchor, _ in shown)
    nav = element("nav", element("ul", links), aria_label="Sections")
    main = element("main", *(whole for _, _, whole in shown))
    return page(title, _head(result) + nav + main + _foot())


def _head(result: BenchResult) -> str:
    bad = any(run.failure for run in result.runs)
    kind = "bad" if bad else "warn" if any(run.advice for run in result.runs) else "good"
    verdict = element("p", text(words.verdict(result)), class_=f"verdict {kind}")
    when = result.created.replace("T", " ").replace("Z", " UTC")
    about = f"tfgpu bench {result.workload}, tfgpu {result.tool.version}, {when}"
    return element(
        "header",
        paragraph(about, "muted"),
        element("h1", text(result.title or result.workload)),
        paragraph(words.machine(result), "muted"),
        verdict,
    )


def _foot() -> str:
    private = "Names of users and hosts, private paths, addresses, serial numbers and credentials are left out."
    return element("footer", paragraph(_READ, "muted"), paragraph(private, "muted"))


def _advice(result: BenchResult) -> Iterator[str]:
    advised = [run for run in result.runs if run.advice]
    if len(advised) > FEW:
        yield items(_alike(advised, result.runs))
    else:
        name = words.namer(result.runs)
        for run in advised:
            yield element("h3", text(name(run))) + items(run.advice)
    name = words.namer(result.runs)
    usual = [f"{name(run)}: {note}." for run in result.runs for note in run.notes]
    if (notes := (*result.conclusions[len(words.leading(result)) :], *words.notes(result), *usual)) and advised:
        yield element("h3", "All runs")
    yield items(notes)


def _beside(*parts: str) -> str:
    """Charts with their table beside them where there is room."""
    found = [element("div", part) for part in parts if part]
    return element("div", *found, class_="beside") if found else ""


def _speed(result: BenchResult) -> Iterator[str]:
    runs = result.runs
    found = runs_table(runs)
    numbers = [place for place, name in enumerate(found.head) if place in found.right or name == "speed"]
    yield _beside(_bars(result), table("Speed of every run", found.head, found.rows, numbers))
    name = words.namer(runs)
    failed = [(name(run), run.failure or "not measured") for run in runs if not run.throughput]
    yield table("Runs without a speed", ("run", "why"), failed)


def _bars(result: BenchResult) -> str:
    """Bars of all runs, where they have one unit and are no sweep, which has a picture of its own."""
    runs = result.runs
    units = {run.throughput.unit for run in runs if run.throughput and not run.virtual}
    swept = axis_of(runs, result.parameters.get("sweep")) and len(runs) > ROWS
    if len(units) != 1 or len(runs) < 2 or swept:
        return ""
    caption = "Bars: median throughput; the line at their ends: its 95 % interval."
    drawn = worth_drawing(runs, DRAWN)
    pictures = (speed(part, runs, f"speed{number}") for number, part in enumerate(chunks(drawn)))
    return _figures_of(pictures, caption) + _left_out(len(drawn), len(runs))


def _alike(advised: Sequence[Run], runs: Sequence[Run]) -> Iterator[str]:
    """Advice that several runs share but for its figures, once, with those of the last."""
    name = words.namer(runs)
    for found, advice in words.shared_advice(advised):
        *others, last = map(name, found)
        yield f"{last}: {advice}." + (f" Likewise: {'; '.join(others)}." if others else "")


def _figures_of(pictures: Iterator[str] | Sequence[str], caption: str) -> str:
    """Charts beside each other where there is room; nothing for none."""
    return _captioned([(caption, picture) for picture in pictures if picture])


def _captioned(pictures: Sequence[tuple[str, str]]) -> str:
    found = [element("figure", picture, element("figcaption", text(caption))) for caption, picture in pictures]
    return element("div", *found, class_="charts") + "\n" if found else ""


def _left_out(drawn: int, count: int, where: str = "the table has all of them") -> str:
    """Say how many runs the pictures leave out; nothing where they show all."""
    if drawn == count:
        return ""
    return paragraph(
        f"{drawn} of {count} runs are drawn, throttled ones and those with advice first; {where}.", "muted"
    )


def _scaling(result: BenchResult) -> Iterator[str]:
    caption = "Dashed: ideal. Vertical lines: 95 % intervals."
    picture = _figures_of([scaling(result.runs, "scaling")], caption)
    several = [run for run in result.runs if run.efficiency and run.speedup_vs_1gpu]
    name = words.namer(result.runs)
    rows = [
        (
            name(run),
            run.scaling or "",
            str(len(run.devices)),
            words.ratio(run.speedup_vs_1gpu) if run.speedup_vs_1gpu else "",
            words.ratio(run.efficiency, factor=100) + " %" if run.efficiency else "",
        )
        for run in several
    ]
    head = ("run", "scaling", "GPUs", "speed-up", "efficiency")
    yield _beside(picture, table("Speed-up over one GPU", head, rows, (2, 3, 4)))


def _sweep(result: BenchResult) -> Iterator[str]:
    axis = axis_of(result.runs, result.parameters.get("sweep"))
    lines = sweep_lines(result.runs, axis) if axis else {}
    if axis is None or all(len(line) < 2 for line in lines.values()):
        return
    points = sorted({point_of(run, axis) for line in lines.values() for run in line})
    by_point = {title: {point_of(run, axis): words.throughput(run) for run in line} for title, line in lines.items()}
    rows = [(words.value_of(axis, point), *(by_point[title].get(point, "") for title in lines)) for point in points]
    yield table("Throughput by point", (axis.replace("_", " "), *lines), rows, range(1, len(lines) + 1))


def axis_of(runs: Sequence[Run], named: object = None) -> str | None:
    """The parameter that is swept over: the one named, or the only one with several numbers; None without one."""
    candidates = []
    for key in dict.fromkeys(key for run in runs for key in run.parameters):
        values = {run.parameters.get(key) for run in runs}
        if len(values) > 1 and all(isinstance(value, int | float) and value > 0 for value in values):
            candidates.append(key)
    return str(named) if named in candidates else candidates[0] if len(candidates) == 1 else None


def sweep_lines(runs: Sequence[Run], axis: str) -> dict[str, list[Run]]:
    """The measured runs of each line of a sweep, ascending; virtual devices have no speed to show."""
    lines: dict[str, list[Run]] = {}
    measured = [run for run in runs if run.throughput and not run.virtual]
    types = len({run.dtype for run in measured}) > 1
    for run in measured:
        others = [words.value_of(key, value) for key, value in run.parameters.items() if key != axis]
        lines.setdefault(", ".join([run.label, *([run.dtype] if types else []), *others]), []).append(run)
    return {title: sorted(line, key=lambda run: point_of(run, axis)) for title, line in lines.items()}


def point_of(run: Run, axis: str) -> int | float:
    """Where on the axis of a sweep a run stands."""
    value = run.parameters[axis]
    assert isinstance(value, int | float)
    return value


def _samples(result: BenchResult) -> Iterator[str]:
    measured = [run for run in result.runs if run.samples_s and run.median_s and not run.virtual]
    drawn = worth_drawing(measured, DRAWN)
    caption = (
        "Every sample, in the order of time from the top of a row to its bottom. Line: median; band: its 95 % "
        "interval; crosses: a GPU was throttled; dotted: a new process; triangles: outside of what is drawn."
    )
    parts = enumerate(chunks(drawn))
    yield _figures_of((samples(part, measured, f"samples{place}") for place, part in parts), caption)
    yield _left_out(len(drawn), len(measured))
    loads = ("CPUs used", "CPUs waited for", "CPUs of others")
    head = ("run", "samples", "median", "spread", "slowest", "throttled", *loads, "uncertain")
    name = words.namer(result.runs)
    yield table("Samples of every run", head, [(name(run), *_sampled(run)) for run in measured], range(1, 9))


def _sampled(run: Run) -> tuple[str, ...]:
    assert run.median_s is not None
    loads, waits = (sorted(values) for values in (run.cpu_load, run.cpu_wait))
    return (
        words.taken(run).replace(" samples", "", 1),
        words.timing(run).rpartition(", ")[0],
        "" if run.spread_iqr is None else f"{percent(run.spread_iqr)} %",
        f"{max(run.samples_s) / run.median_s:.2f} × median",
        str(len(run.throttled_samples)) if run.gpu else "",
        f"{loads[len(loads) // 2]:.1f}" if loads else "",
        f"{waits[len(waits) // 2]:.1f}" if waits else "",
        "" if run.others_cpus is None else f"{run.others_cpus:.1f}",
        "; ".join(run.doubts) or "no",
    )


def _figures(result: BenchResult) -> Iterator[str]:
    name = words.namer(result.runs)
    rows = [
        (name(run), figure.name, words.figure(figure, named=False), figure.note or "")
        for run in result.runs
        for figure in words.figures(run)
    ]
    yield table("Figures", ("run", "what", "value", "note"), rows, (2,))


def _gpus(result: BenchResult) -> Iterator[str]:
    name = words.namer(result.runs)
    rows = [
        (
            name(run),
            gpu.device,
            gpu.name or "",
            *(
                "" if value is None else f"{value:.0f}"
                for value in (gpu.utilization, gpu.sm_clock_mhz, gpu.power_w, gpu.temperature_c)
            ),
            ", ".join(gpu.throttled) or "nothing",
        )
        for run in result.runs
        for gpu in run.gpu
    ]
    head = ("run", "GPU", "model", "busy, %", "SM clock, MHz", "power, W", "temperature, °C", "clocks limited by")
    yield table("Medians", head, rows, (3, 4, 5, 6))


def _start(result: BenchResult) -> Iterator[str]:
    timed = [run for run in result.runs if run.median_s and sum(_start_up(run).values()) > 0 and not run.virtual]
    name = words.namer(result.runs)
    names = list(dict.fromkeys(part for run in timed for part in _start_up(run)))
    rows = [
        (
            name(run),
            *(seconds(found[part]) if part in found else "" for part in names),
            seconds(sum(found.values())),
            seconds((run.median_s or 0.0) / run.steps) + f" per {run.step_name}",
        )
        for run in timed
        for found in [_start_up(run)]
    ]
    yield table("Cold start", ("run", *names, "in all", "steady"), rows, range(1, len(names) + 3))


def _start_up(run: Run) -> dict[str, float]:
    """Seconds before the first sample, in their order: the set-up, and the calls that warm up."""
    parts = dict(run.cold_start_s)
    for number, took in enumerate(run.warmup_s):
        parts["first call" if number == 0 else "further calls"] = took + (
            parts.get("further calls", 0.0) if number > 1 else 0.0
        )
    return parts


def _verified(result: BenchResult) -> Iterator[str]:
    rows = []
    name = words.namer(result.runs)
    for run in result.runs:
        found = run.verified
        if found:
            proof = words.proof(run).partition(": ")[2]
            rows.append((name(run), "yes" if found.ok else "no", str(found.samples or ""), proof))
        else:
            rows.append((name(run), "no", "", "nothing was verified"))
    yield table("Verification", ("run", "correct", "results", "what was checked"), rows, (2,))
    for method in dict.fromkeys(run.verified.method for run in result.runs if run.verified):
        yield paragraph(f"Method: {method}.", "muted")


def _reproduce(result: BenchResult) -> Iterator[str]:
    if result.command:
        yield command(result.command)
    versions = ", ".join(f"{name} {version}" for name, version in result.software.items())
    yield paragraph(f"tfgpu {result.tool.version}; {versions}; {result.created}.")
    yield element("p", _download(result), class_="screen")


def _download(result: BenchResult) -> str:
    """A link that holds the file; compressed where it is large."""
    data, name, kind = result.to_json(), f"tfgpu-bench-{result.workload}.json", "application/json"
    if len(data) > LARGE:
        data, name, kind = gzip.compress(data, 6, mtime=0), name + ".gz", "application/gzip"
    words_ = f"Download the raw data: every sample and every fact ({name}, {len(data) / 1000:.0f} kB)"
    return element(
        "a", text(words_), download=name, href=f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    )


def _environment(result: BenchResult) -> Iterator[str]:
    """Tables of what was used."""
    facts = result.environment
    rows = [(name, version, "") for name, version in result.software.items()]
    yield table("Software and machine", ("what", "value", "read from"), [*rows, *_known(facts)])
    gpus = [
        (
            str(gpu.index),
            value_or(gpu.name, "unknown"),
            value_or(gpu.compute_capability, ""),
            memory_size(gpu.memory_total.value) if isinstance(gpu.memory_total, Known) else "",
            str(value_or(gpu.multiprocessors, "")),
            str(value_or(gpu.sm_clock_max, "")),
            str(value_or(gpu.power_limit, "")),
            _link(value_or(gpu.pcie_generation, None), value_or(gpu.pcie_width, None)),
        )
        for gpu in value_or(facts.gpus, ())
    ]
    head = ("index", "GPU", "compute capability", "memory", "SMs", "highest MHz", "power limit, W", "PCIe")
    yield table("GPUs", head, gpus)
    parameters = [(name.replace("_", " "), str(value)) for name, value in result.parameters.items()]
    yield table("Parameters", ("parameter", "value"), parameters)


def _link(generation: int | None, width: int | None) -> str:
    return f"gen {generation} × {width}" if generation and width else ""


def _known(facts: Facts) -> Iterator[tuple[str, str, str]]:
    named = {
        "system": facts.host.distribution,
        "kernel": facts.host.kernel,
        "C library": facts.host.libc,
        "container": facts.host.container,
        "CPU": facts.host.cpu_model,
        "CPUs": facts.host.cpus,
        "CPU quota": facts.host.cpu_quota,
        "memory": facts.host.memory,
        "driver": facts.driver.version,
        "CUDA supported by the driver": facts.driver.cuda_supported,
        "cuDNN": facts.cudnn.runtime,
        "interpreter": facts.python.executable,
    }
    for name, fact in named.items():
        if isinstance(fact, Known):
            yield (
                name,
                memory_size(fact.value) if name == "memory" and isinstance(fact.value, int) else str(fact.value),
                (fact.source),
            )
