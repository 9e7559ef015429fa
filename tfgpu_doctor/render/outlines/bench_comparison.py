"""What a comparison of two bench results comes to: a row, a case and a ratio for each run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from tfgpu_doctor.bench.comparison import (
    WORDS,
    BenchComparison,
    FailOnSpeed,
    RunChange,
    Side,
    exit_code,
    is_failing,
    is_open,
)
from tfgpu_doctor.records.report import EXIT_UNKNOWN
from tfgpu_doctor.render import bench_compare_words as words
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.outline import Block, Detail, Line
from tfgpu_doctor.render.prometheus import created, gauge, info
from tfgpu_doctor.render.shapes import (
    Annotation,
    Case,
    Checks,
    Items,
    Metric,
    Outcome,
    Page,
    Part,
    Sample,
    Suite,
    Table,
)

_COMMAND = "tfgpu compare"
_MOST_NOTES = 50
_MANY = 8  # runs; of more, those that are the same have one line


def page(comparison: BenchComparison, detail: formats.Detail = "shared") -> Page:
    """A table of the runs, then what does not fit into it; in a terminal, a block for each; or the verdict alone."""
    base, new = comparison.base, comparison.new
    about = f"{_COMMAND} {comparison.tool.version}, {words.about(comparison)}"
    whole = Page(_COMMAND, (about,), words.worst(comparison), _COMMAND, words.summary(comparison), ())
    if detail == "least":
        return whole._replace(is_brief=True)
    if detail != "shared":
        sides = tuple((label, _side(side)) for label, side in (("base", base), ("new", new)))
        parts: tuple[Part, ...] = (
            Table("What was compared", ("Side", "Result"), sides),
            Items(comparison.notes, mark="note"),
            *(_block(run, comparison.factor, len(comparison.runs) > _MANY) for run in comparison.runs),
            Items(tuple(_alone(comparison)), mark="absent"),
        )
        return whole._replace(parts=parts)
    rows = tuple(
        (
            " ".join(words.title(run)),
            ": ".join(filter(None, (words.verdict(run), "; ".join(run.reasons)))),
            words.speeds(run),
        )
        for run in comparison.runs
    )
    table = Table("Runs", ("Run", "Verdict", "Base → new"), rows, tuple(map(words.mark, comparison.runs)))
    notes = tuple(dict.fromkeys(islice(_notes(comparison), _MOST_NOTES)))
    results = tuple((side.name, side.created, words.software(side)) for side in (base, new))
    parts = (table, Items(notes), Detail("What was compared", ("Result", "Measured", "With"), results))
    return whole._replace(about=(about, f"{base.name} → {new.name}"), created=comparison.created, parts=parts)


def _side(side: Side) -> str:
    return f"{side.name}  {side.created}  {words.software(side)}"


def _block(run: RunChange, factor: float, short: bool) -> Block:
    texts: tuple[str, ...] = run.reasons
    if not (short and run.verdict == "same"):
        texts += (words.speeds(run), *words.figures(run, factor), words.evidence(run), *run.notes)
    title = "  ".join((*words.title(run), words.verdict(run)))
    return Block(words.mark(run), title, tuple(Line("", text) for text in texts if text))


def _notes(comparison: BenchComparison) -> Iterator[str]:
    """What does not fit into the table."""
    yield from comparison.notes
    for run in comparison.runs:
        for text in (*run.notes, *words.figures(run, comparison.factor)):
            yield f"{' '.join(words.title(run))}: {text}"
    yield from _alone(comparison)


def _alone(comparison: BenchComparison) -> Iterator[str]:
    for ones, side in ((comparison.only_base, comparison.base), (comparison.only_new, comparison.new)):
        if alone := words.alone(ones, side.name):
            yield alone


def checks(comparison: BenchComparison, fail_on: FailOnSpeed = "slower") -> Checks:
    """A case for each run, and one for whether all that the base has was judged."""
    code = exit_code(comparison, fail_on)
    runs = (f"{_COMMAND}: {' '.join(words.title(run))}: {words.verdict(run)}" for run in comparison.runs)
    log = (*runs, f"{_COMMAND}: {words.summary(comparison)}")
    cases = tuple(_case(run, comparison, fail_on, code) for run in comparison.runs)
    whole = Case("all runs of the base were judged", "tfgpu.compare", details=(words.summary(comparison),))
    if code == EXIT_UNKNOWN and not any(case.outcome == "error" for case in cases):
        lost = tuple(_alone(comparison))
        whole = whole._replace(outcome="error", kind="inconclusive", message=words.summary(comparison), details=lost)
    problems = tuple(
        Annotation(
            "error" if case.outcome != "skipped" else "warning",
            f"{_COMMAND}: {case.name}: {case.kind}",
            (case.message, *case.details),
        )
        for case in (whole, *cases)
        if case.outcome != "passed"
    )
    return Checks(_COMMAND, comparison.created, (Suite(_COMMAND, (whole, *cases)),), problems, log)


def _case(run: RunChange, comparison: BenchComparison, fail_on: FailOnSpeed, code: int) -> Case:
    case = Case(" ".join(words.title(run)), "tfgpu.compare")
    message = ": ".join(filter(None, (words.verdict(run), "; ".join(run.reasons))))
    shown = (words.speeds(run), words.evidence(run), *words.figures(run, comparison.factor), *run.notes)
    details, kind = tuple(filter(None, shown)), WORDS[run.verdict]
    if is_failing(run, fail_on):
        kind = "failed" if run.lost else kind
        return case._replace(outcome="failure", kind=kind, message=message, details=details)
    if is_open(run):
        # beside a run that is slower, what is inconclusive is no second problem
        outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
        return case._replace(outcome=outcome, kind=kind, message=message, details=details)
    return case._replace(details=(message, *details))


def metrics(comparison: BenchComparison) -> Iterator[Metric]:
    """How many runs have which verdict, and how the time of each changed."""
    yield info("compare", comparison.tool)
    yield created("compare", comparison.created)
    counts = Counter(run.verdict for run in comparison.runs)
    every = (Sample(counts[verdict], {"verdict": word}) for verdict, word in WORDS.items())
    yield gauge("tfgpu_compare_runs", "Runs of both results by verdict.", *every)
    ratios = [(run.ratio, {"run": " ".join(words.title(run))}) for run in comparison.runs if run.ratio]
    yield gauge(
        "tfgpu_compare_time_ratio",
        "Time of a step in the new result over that in the base; above 1 is slower.",
        *(Sample(ratio.value, labels) for ratio, labels in ratios),
    )
    for edge in ("low", "high"):
        yield gauge(
            f"tfgpu_compare_time_ratio_{edge}",
            f"{edge.capitalize()} end of the interval of tfgpu_compare_time_ratio.",
            *(Sample(getattr(ratio, edge), labels) for ratio, labels in ratios),
        )
