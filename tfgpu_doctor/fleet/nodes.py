"""Results of tfgpu → nodes, with the values that a fleet compares. Pure.

The declarations of the facts say what is compared (facts/about.py): what differs from minute to minute is left out,
collections are compared element by element. What the tables below add holds for many machines side by side, not for
two reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.compare.differences import described_as, element_text, elements, fact_text, in_words, short
from tfgpu_doctor.facts import facts as records
from tfgpu_doctor.facts.about import LAYERS, OWN_NAME, described
from tfgpu_doctor.facts.facts import Facts, Gpu, Known, about, fact_paths, look_up, map_fact, value_or
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.report import (
    Evidence,
    Finding,
    Fix,
    Report,
    ReportError,
    Severity,
    decode_saved,
    other_kind,
    root_causes,
    schema_of,
)
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.fleet.records import WORST_FIRST, Node, Verdict
from tfgpu_doctor.redact.paths import NOBODY, PLACEHOLDER
from tfgpu_doctor.smoke.records import Smoke

ABSENT, UNKNOWN, NO_GPU = "absent", "unknown", "no GPU"  # UNKNOWN and NO_GPU: kinds of hardware
LONGEST_NAME = 253  # characters of a host's name
_MOST_ELEMENTS = 2_000  # of a collection; what a report has beyond is not compared
_MOST_KEPT = 20_000  # values that are remembered: the nodes of a fleet are much alike
_KINDS: dict[str, type[Report | Smoke | BenchResult]] = {
    "tfgpu.report/1": Report,
    "tfgpu.smoke/1": Smoke,
    "tfgpu.bench/1": BenchResult,
}

# ------------------------------------------------------------------------------------------------- what is compared

# printed lines have findings; kernels of Jupyter, further environments and their names belong to users, not to machines
_NOT_COMPARED = frozenset({"gpus", "messages", "python.kernels", "python.elsewhere"})
# declared as noise, because an idle GPU lowers its link; it does not drop lanes, and an NVLink that is down stays so
_COMPARED_OF_GPUS = frozenset({"pcie_width", "nvlinks"})
_NEAR = {"bytes": 0.03, "MHz": 0.01, "W": 0.01}  # relative; kernels reserve a little more or less memory
# fields of a GPU that one setting changes together
_WITH = {"pcie_width": "pcie", "pcie_width_max": "pcie", "pcie_generation_max": "pcie", "mig_instances": "mig_mode"}
_XID = re.compile(r"Xid \([^)\n]{0,80}\): (\d{1,4})\b")  # "NVRM: Xid (PCI:0000:65:00): 79, pid=1234, …"


class Value(NamedTuple):
    """What a node has: the text that is shown, and the number where it is one."""

    text: str
    number: float | None = None


Values = dict[str, Value]  # of one fact, by id: of a collection one by element; of a GPU, by field


class Compared(NamedTuple):
    """What is compared between nodes, or between their GPUs."""

    path: str  # of the fact
    layer: str
    label: str
    tolerance: float  # how much numbers may differ that count as the same, relative to the larger one
    act: str  # what one act changes together
    observed: bool  # it follows from something else


@cache
def paths() -> tuple[str, ...]:
    """Return the facts of a node that are compared, as they are declared; GPUs are compared by themselves."""
    declared = ((path, about(path)) for path in fact_paths() if path not in _NOT_COMPARED)
    return tuple(path for path, field in declared if field.grade != "noise" and field.unit != OWN_NAME)


@cache
def gpu_fields() -> tuple[str, ...]:
    """Return the fields of a GPU that are compared."""
    fields = [(name, one.grade) for name, one in described(Gpu).items() if name != "index"]
    return tuple(name for name, grade in fields if grade != "noise" or name in _COMPARED_OF_GPUS)


@cache
def compared(identity: str) -> Compared:
    """Return what is known of an id: a path, a field of GPUs, or a path with the key of an element.

    An id that is none of them is that of a finding.
    """
    if identity == "gpus":
        return Compared(identity, "GPU", "GPUs", 0.0, identity, False)
    is_of_gpus, dotted = identity.startswith("gpus."), f"{identity}."
    path = identity if is_of_gpus else next((one for one in paths() if dotted.startswith(f"{one}.")), "")
    if not path:
        return Compared(identity, "Machine", identity, 0.0, identity, False)
    field = described_as(path, identity[len(path) + 1 :] or None)
    layer, act, name = field.layer or "Machine", field.group or identity, path.removeprefix("gpus.")
    if is_of_gpus:
        layer, act = "GPU", f"gpus.{_WITH.get(name, name)}"
    tolerance, is_observed = _NEAR.get(field.unit, 0.0), field.grade == "observation"
    return Compared(path, layer, field.label.rstrip(":"), tolerance, act, is_observed)


def rank(layer: str) -> int:
    """Return the place of a layer in the stack, from the hardware up."""
    return LAYERS.index(layer) if layer in LAYERS else len(LAYERS)


def _xids(events: tuple[str, ...]) -> str:
    """Return the numbers, since each line has its time: "Xid 79, 94"."""
    numbers = sorted({int(found[1]) for line in events if (found := _XID.search(line))})
    return f"Xid {', '.join(map(str, numbers))}" if numbers else in_words(events) if events else "none"


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{many} × {name}" for name, many in sorted(Counter(names).items()))


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "driver.xid_events": _xids,
    # by device id: names come from a list that is newer on one machine than on the other
    "host.pci_gpus": lambda them: _counted(f"{one.device_id} ({one.driver or 'no driver'})" for one in them) or "none",
    "gpus.nvlinks": lambda them: f"{sum(one.active for one in them)} of {len(them)} active" if them else "none",
    "gpus.mig_instances": lambda names: count(len(names), "instance") if names else "none",
}


@lru_cache(_MOST_KEPT)
def _same(value: Any) -> Any:
    """Return an equal value that is kept once."""
    return value


@lru_cache(_MOST_KEPT)
def _values(path: str, fact: Any) -> Values | None:
    """Return what stands for a fact; None where it is unknown, which is no difference."""
    field, value = about(path), fact.value if isinstance(fact, Known) else fact
    if path in _SPECIAL and isinstance(fact, Known):
        return {path: Value(_SPECIAL[path](value))}
    if (found := elements(path, fact)) is not None:
        items = islice(found.items(), _MOST_ELEMENTS)
        return {_same(f"{path}.{key}"): _same(Value(element_text(item) or ABSENT)) for key, item in items}
    text = fact_text(fact, field.unit)
    return None if text is None else {path: _same(_single(path, value, text, field.unit))}


def _single(path: str, value: Any, text: str, unit: str) -> Value:
    """Return what stands for a value that is no collection; `text` is what a comparison of two reports shows."""
    if isinstance(value, bool):
        return Value(("on" if value else "off") if path.endswith("_mode") else text)
    if isinstance(value, int | float):
        return Value(text if isinstance(value, int) else f"{value:g} {unit}".rstrip(), float(value))
    if isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
        return Value(short(", ".join(value), 4_000))  # the first eight say nothing of the others
    return Value(text)


def _values_of(facts: Facts) -> Iterator[tuple[str, Values]]:
    for path in paths():
        fact = look_up(facts, path)
        if isinstance(fact, Known) and isinstance(fact.value, dict):  # which cannot be a key
            fact = Known(tuple(fact.value.items()), fact.source)
        if (values := _values(path, fact)) is not None:
            yield path, values


@lru_cache(_MOST_KEPT)
def _gpu(facts: tuple[Any, ...]) -> Values:
    every = (_values(f"gpus.{name}", fact) for name, fact in zip(gpu_fields(), facts, strict=True))
    return {identity: value for values in every if values for identity, value in values.items()}


# ----------------------------------------------------------------------------------------------------------- results

# checks of smoke whose failure says no more than the report's findings and the runs
_REDUNDANT_CHECKS = frozenset({"doctor", "import", "matpow", "cnn"})
_AGAIN = Fix(text="Test every GPU of the node again, and read the reason", commands=("tfgpu smoke -v",))
_NEVER = re.compile(r"(?!)")
_GPU = re.compile(r"\bGPU (\d{1,6})\b")
SEVERITIES = list(Severity)  # the gravest first


class Speed(NamedTuple):
    """A run with its speed."""

    kind: str
    workload: str
    label: str  # "1 GPU", also where it is GPU 3 alone
    dtype: str
    parameters: str  # as sorted JSON
    device: str  # "GPU 3"; empty: the label says it
    unit: str
    value: float


@dataclass
class Result:
    """One result of one node."""

    kind: Literal["doctor", "smoke", "bench"]
    node: str = ""  # as its host calls itself; empty: unknown, or redacted
    source: str = ""  # "reports/gpu-017.json", "standard input, line 12"
    created: str = ""
    verdict: Verdict = "unknown"
    facts: Facts = field(default_factory=Facts)  # what a repair is held against; the rest is left out
    values: dict[str, Values] = field(default_factory=dict)  # by path; unknown ones are left out
    gpus: tuple[Values, ...] | None = None  # None: unknown
    uuids: frozenset[str] = frozenset()  # of its GPUs; empty: unknown
    hardware: str = UNKNOWN  # what makes siblings: "8 × NVIDIA H200"
    findings: tuple[Finding, ...] = ()  # root causes, and runs and checks of a smoke test that failed
    speeds: tuple[Speed, ...] = ()
    version: str = ""  # of tfgpu


def decode(data: bytes) -> Result:
    """Read a result, whose node is not named yet. Raises ReportError."""
    try:
        schema = schema_of(data, "it")
        if schema not in _KINDS:
            reads = "reports of tfgpu doctor, and results of tfgpu smoke and tfgpu bench"
            raise ReportError(f"it {other_kind(schema, 'tfgpu.report/1', 'tfgpu fleet', reads)}")
        return _result(decode_saved(data, _KINDS[schema], "it", "result of tfgpu"))
    except (OverflowError, ValueError) as error:  # a number that is valid, and that nothing can have
        raise ReportError(f"it is not a valid result of tfgpu: {error}") from error


def _result(document: Report | Smoke | BenchResult) -> Result:
    if isinstance(document, BenchResult):
        facts, result = document.environment, _of_bench(document)
    elif isinstance(document, Smoke):
        facts, result = document.report.facts, _of_smoke(document)
    else:
        facts = document.facts
        result = Result("doctor", verdict=document.verdict, findings=_causes(document))
    _set_hardware(result, facts)
    host = value_or(facts.host.name, "")
    result.node = "" if PLACEHOLDER.search(host) else cut(host, LONGEST_NAME)
    result.created, result.version = cut(document.created, 40), cut(document.tool.version, 40)
    result.facts, result.values = _for_repairs(facts), dict(_values_of(facts))
    return result


def _set_hardware(result: Result, facts: Facts) -> None:
    gpus = value_or(facts.gpus, None)
    if gpus is not None:
        result.gpus = tuple(_gpu(tuple(getattr(one, name) for name in gpu_fields())) for one in gpus)
        result.uuids = frozenset(value_or(one.uuid, "") for one in gpus)
        if any(not one or PLACEHOLDER.search(one) for one in result.uuids):
            result.uuids = frozenset()
    if gpus is not None or "gpu.none" in [one.id for one in result.findings]:  # where no driver lists GPUs
        names = (one.get("gpus.name", Value("unknown model")).text for one in result.gpus or ())
        result.hardware = _counted(names) or NO_GPU


def _of_bench(document: BenchResult) -> Result:
    speeds, failed = _runs("bench", [(document.workload, document.parameters, run) for run in document.runs])
    wrong = any(one.id.endswith("/wrong") for one in failed)
    verdict: Verdict = "broken" if wrong else "degraded" if failed else "ok" if speeds else "unknown"
    return Result("bench", verdict=verdict, findings=failed, speeds=speeds)


def _of_smoke(document: Smoke) -> Result:
    speeds, failed = _runs("smoke", [(one.workload, one.parameters, one.run) for one in document.runs])
    checks = [one for one in document.checks if one.status == "failed" and one.name not in _REDUNDANT_CHECKS]
    why = "a check of the smoke test failed on this node"
    found = [_failed(f"smoke.{one.name}", f"the smoke test fails: {one.name}", why, one.why) for one in checks]
    verdict = "broken" if document.verdict == "failed" else document.verdict
    return Result("smoke", verdict=verdict, findings=(*_causes(document.report), *found, *failed), speeds=speeds)


def _for_repairs(facts: Facts) -> Facts:
    """Return system, driver, GPUs, Python and packages, which a repair is held against; the rest is unknown."""
    names = ("index", "name", "compute_capability")
    gpus = map_fact(
        facts.gpus, lambda them: tuple(_same(Gpu(**{name: getattr(one, name) for name in names})) for one in them)
    )
    python = {name: getattr(facts.python, name) for name in ("version", "wheel_platform", "packages")}
    return Facts(
        host=_same(records.Host(os=facts.host.os)),
        driver=_same(records.Driver(version=facts.driver.version)),
        gpus=_same(gpus),
        python=_same(records.Python(**python)),
        tensorflow=_same(records.TensorFlow(version=facts.tensorflow.version)),
    )


def _causes(report: Report) -> tuple[Finding, ...]:
    return tuple(_same(one) for one in root_causes(report.findings) if not one.answers)


def _failed(identity: str, title: str, why: str, saw: str, fixes: tuple[Fix, ...] = ()) -> Finding:
    evidence = (Evidence(saw=saw, source="tfgpu smoke"),)
    return Finding(
        id=identity, severity=Severity.ERROR, root_cause=True, title=title, cause=why, evidence=evidence, fixes=fixes
    )


def _device(run: Run) -> str:
    """Return "GPU 3" for a run on one GPU alone; of several that run alone, each is the first in its process."""
    if len(run.devices) != 1 or "GPU" not in run.devices[0]:
        return ""
    named = _GPU.search(run.label)
    return f"GPU {cut(named[1] if named else run.devices[0].rpartition(':')[2], 9)}"


def _runs(
    kind: str, measured: Iterable[tuple[str, dict[str, Any], Run]]
) -> tuple[tuple[Speed, ...], tuple[Finding, ...]]:
    """Return the speeds, and a finding for what failed or was wrong; logical devices show no speed."""
    speeds, failures = list[Speed](), dict[tuple[str, str, str, bool], dict[str, None]]()
    for workload, parameters, run in measured:
        if run.virtual:
            continue
        device = _device(run)
        what = cut(workload, 60), "1 GPU" if device else cut(run.label, 100), cut(run.dtype, 40)
        wrong = run.verified is not None and not run.verified.ok
        if failure := run.failure or ("its result is wrong" if wrong else ""):
            text = cut(f"{device}: {failure}" if device else failure, 300)
            failures.setdefault((*what, wrong), {})[text] = None
        elif run.verified and run.throughput:
            every = msgspec.json.encode({**parameters, **run.parameters}, order="sorted").decode()
            unit = cut(run.throughput.unit, 40)
            speeds.append(Speed(kind, *what, _same(cut(every, 4_000)), device, unit, run.throughput.value))
    found = []
    for (workload, where, dtype, wrong), texts in failures.items():
        how, does, why = "failed", "fails", "this node cannot run this work"
        if wrong:
            how, does, why = "wrong", "computes wrong results", "results of this node cannot be relied on"
        title = f"{workload} on {where} in {dtype} {does}"
        found.append(_failed(f"{workload}/{where}/{dtype}/{how}", title, why, "; ".join(texts), (_AGAIN,)))
    return tuple(speeds), tuple(found)


# ------------------------------------------------------------------------------------------------------------- nodes


@dataclass(frozen=True, eq=False)
class Machine:
    """One node with those of its results that count."""

    name: str
    results: tuple[Result, ...]  # the newest of each kind; the doctor's first, which examines most

    @property
    def main(self) -> Result:
        """The result whose facts count."""
        return self.results[0]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The root causes of all results, each once, the gravest first."""
        by_id: dict[str, Finding] = {}
        for one in (finding for result in self.results for finding in result.findings):
            by_id.setdefault(one.id, one)
        return tuple(sorted(by_id.values(), key=lambda one: SEVERITIES.index(one.severity)))

    @cached_property
    def models(self) -> frozenset[str]:
        """The models of its GPUs."""
        return frozenset(one["gpus.name"].text for one in self.main.gpus or () if "gpus.name" in one)

    def node(self) -> Node:
        """Return it as the fleet shows it."""
        main = self.main
        return Node(
            name=self.name,
            source=main.source,
            results=tuple(one.kind for one in self.results),
            verdict=min((one.verdict for one in self.results), key=WORST_FIRST.index),
            created=max(one.created for one in self.results),
            gpus=None if main.gpus is None else len(main.gpus),
            hardware=main.hardware,
            findings=tuple(cut(one.id, 100) for one in self.findings if "/" not in one.id),
        )


def _are_several(name: str, results: list[Result]) -> bool:
    """True if results with this host name come from several machines.

    Other GPUs, all of them, make another machine; one GPU that was replaced does not. Where GPUs are not known, other
    files do ("srun --output=reports/%N.json", in an image that is called localhost), unless the host is named in them.
    """
    known = [one.uuids for one in results if one.uuids]
    if any(map(frozenset.isdisjoint, known[:1] * len(known), known)):
        return True
    is_own = name.lower() not in NOBODY
    named = re.compile(rf"\b{re.escape(name.partition('.')[0])}\b") if is_own else _NEVER
    open_kinds = {one.kind for one in results if not one.uuids and not named.search(one.source)}
    places = {(one.kind, one.source.partition(", line ")[0] if is_own else one.source) for one in results}
    return any(sum(kind == one for one, _ in places) > 1 for kind in open_kinds)


def machines(results: Iterable[Result]) -> tuple[tuple[Machine, ...], tuple[str, ...]]:
    """Return the nodes in the order of their names, and notes on what did not count."""
    sent: dict[str, list[Result]] = {}
    for one in results:
        sent.setdefault(one.node, []).append(one)
    apart, repeated = 0, list[str]()
    found: list[Machine] = []
    for name, several in sent.items():
        if _are_several(name, several):
            apart += 1
            found += [Machine(f"{name} ({one.source})", (one,)) for one in several]
            continue
        newest = {one.kind: one for one in sorted(several, key=lambda one: one.created)}
        counted = tuple(newest[kind] for kind in ("doctor", "smoke", "bench") if kind in newest)
        repeated += [name] * (len(counted) < len(several))
        found.append(Machine(name, counted))
    notes = (
        f"{count(len(repeated), 'node')} sent several results of one kind, of which the newest counts "
        f"({cut(', '.join(repeated), 200)}): other nodes of that name are not seen" * bool(repeated),
        f"{count(apart, 'host name')} of several machines: their GPUs or files differ" * bool(apart),
    )
    # gpu-9 stands before gpu-10
    found.sort(key=lambda one: (re.sub(r"[0-9]+", lambda digits: digits[0].zfill(12), one.name.lower()), one.name))
    return tuple(found), tuple(filter(None, notes))
