"""Results of tfgpu → nodes, with the values that a fleet compares. Pure.

The declarations of the facts say what is compared (records/about.py): what differs from minute to minute is left out,
collections are compared element by element. What the tables below add holds for many machines side by side, not for
two reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.compare.differences import element_text, fact_text, in_words, short
from tfgpu_doctor.fleet.records import WORST_FIRST, Node, NodeVerdict
from tfgpu_doctor.records.about import LAYERS, OWN_NAME, described
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import (
    Driver,
    Facts,
    Gpu,
    Host,
    Known,
    NvLink,
    PciGpu,
    Python,
    Unknown,
    about,
    fact_paths,
    look_up,
    value_or,
)
from tfgpu_doctor.records.facts import TensorFlow as TensorFlowFacts
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import (
    Evidence,
    Finding,
    Report,
    ReportError,
    Severity,
    decode_saved,
    other_kind,
    schema_of,
)
from tfgpu_doctor.records.units import count
from tfgpu_doctor.redact.paths import PLACEHOLDER
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck

Kind = Literal["doctor", "smoke", "bench"]
ABSENT = "absent"
MOST_ELEMENTS = 2_000  # of a collection; what a report has beyond is not compared
LONGEST_NAME = 253  # characters of a host's name
KINDS: dict[str, type[Report | Smoke | BenchResult]] = {
    "tfgpu.report/1": Report,
    "tfgpu.smoke/1": Smoke,
    "tfgpu.bench/1": BenchResult,
}
_READS = "reports of tfgpu doctor, and results of tfgpu smoke and tfgpu bench"
_MOST_KEPT = 20_000  # values that are remembered: the nodes of a fleet are much alike
_LONGEST = 300  # characters of what is shown of one node

# ------------------------------------------------------------------------------------------------- what is compared

# printed lines have findings; kernels of Jupyter, further environments and their names belong to users, not to machines
_NOT_COMPARED = frozenset({"messages", "python.kernels", "python.elsewhere"})
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

    id: str  # "driver.version", "python.packages.numpy", "gpus.pcie_width"
    layer: str
    label: str
    tolerance: float  # how much numbers may differ that count as the same, relative to the larger one
    group: str  # what one act changes together
    observed: bool  # it follows from something else


@cache
def paths() -> tuple[str, ...]:
    """Return the facts of a node that are compared, as they are declared; GPUs are compared by themselves."""
    left_out = {"gpus", *_NOT_COMPARED}
    declared = ((path, about(path)) for path in fact_paths() if path not in left_out)
    return tuple(path for path, field in declared if field.grade != "noise" and field.unit != OWN_NAME)


@cache
def gpu_fields() -> tuple[str, ...]:
    """Return the fields of a GPU that are compared."""
    fields = described(Gpu).items()
    return tuple(
        name for name, one in fields if name != "index" and (one.grade != "noise" or name in _COMPARED_OF_GPUS)
    )


@cache
def path_of(identity: str) -> str:
    """Return the fact that an id is of, or of whose elements one is. Raises KeyError: of none."""
    for path in (*paths(), "messages"):
        if identity == path or identity.startswith(f"{path}."):
            return path
    raise KeyError(identity)


@cache
def compared(identity: str) -> Compared:
    """Return what is known of an id: a path, a field of GPUs, or a path with the key of an element."""
    if identity == "gpus":
        return Compared("gpus", "GPU", "GPUs", 0.0, "gpus", False)
    path = identity if identity.startswith("gpus.") else path_of(identity)
    field, key = about(path), identity[len(path) + 1 :]
    observed, tolerance = field.grade == "observation", _NEAR.get(field.unit, 0.0)
    if path.startswith("gpus."):
        name = path.partition(".")[2]
        return Compared(identity, "GPU", field.label, tolerance, f"gpus.{_WITH.get(name, name)}", observed)
    layer = "TensorFlow" if path == "python.packages" and key in TENSORFLOW else field.layer or "Machine"
    if key:
        return Compared(identity, layer, field.element.format(key).rstrip(":"), 0.0, identity, observed)
    return Compared(identity, layer, field.label, tolerance, field.group or path, observed)


def label(identity: str) -> str:
    """Return what people call a fact; what is none, by its id."""
    try:
        return compared(identity).label
    except KeyError:
        return identity


def rank(layer: str) -> int:
    """Return the place of a layer in the stack, from the hardware up."""
    return LAYERS.index(layer) if layer in LAYERS else len(LAYERS)


def values_of(path: str, fact: Any) -> Values | None:
    """Return what stands for a fact; None where it is unknown, which is no difference."""
    field = about(path)
    value = fact.value if isinstance(fact, Known) else fact
    if path in _SPECIAL and isinstance(fact, Known):
        return {path: Value(_SPECIAL[path](value))}
    if field.key and not isinstance(value, Unknown):
        items = value.items() if isinstance(value, dict) else ((getattr(item, field.key), item) for item in value)
        return {f"{path}.{key}": Value(element_text(item) or ABSENT) for key, item in islice(items, MOST_ELEMENTS)}
    text = fact_text(fact, field.unit)
    if text is None:
        return None
    if isinstance(value, bool):
        return {path: Value(("on" if value else "off") if path.endswith("_mode") else text)}
    if isinstance(value, float):
        return {path: Value(f"{value:g} {field.unit}".rstrip(), value)}
    if isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
        return {path: Value(short(", ".join(value), 4_000))}  # the first eight say nothing of the others
    return {path: Value(text, float(value) if isinstance(value, int) else None)}


def _xids(events: tuple[str, ...]) -> str:
    """Return the numbers, since each line has its time: "Xid 79, 94"."""
    numbers = sorted({int(found[1]) for line in events if (found := _XID.search(line))})
    return f"Xid {', '.join(map(str, numbers))}" if numbers else in_words(events) if events else "none"


def _on_the_bus(gpus: tuple[PciGpu, ...]) -> str:
    """Count by device id: names come from a list that is newer on one machine than on the other."""
    counted = Counter(f"{gpu.device_id} ({gpu.driver or 'no driver'})" for gpu in gpus)
    return ", ".join(f"{many} × {name}" for name, many in sorted(counted.items())) or "none"


def _links(links: tuple[NvLink, ...]) -> str:
    return f"{sum(link.active for link in links)} of {len(links)} active" if links else "none"


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "driver.xid_events": _xids,
    "host.pci_gpus": _on_the_bus,
    "gpus.nvlinks": _links,
    "gpus.mig_instances": lambda names: count(len(names), "instance") if names else "none",
    "host.cpu_flags": lambda flags: short(" ".join(sorted(flags)), 4_000),
}

# ----------------------------------------------------------------------------------------------------------- results

# checks of smoke whose failure says no more than the report's findings and the runs
_REDUNDANT_CHECKS = frozenset({"doctor", "import", "matpow", "cnn"})
_GPU = re.compile(r"\bGPU (\d{1,6})\b")
_SEVERITIES = list(Severity)


class Speed(NamedTuple):
    """A run with its speed, or the reason why there is none."""

    kind: str
    workload: str
    label: str  # "1 GPU", also where it is GPU 3 alone
    dtype: str
    parameters: str  # as sorted JSON
    device: str  # "GPU 3"; empty: the label says it
    unit: str
    value: float  # 0: none
    failure: str = ""
    wrong: bool = False  # its result was not verified


@dataclass
class Result:
    """One result of one node, or the reason why there is none."""

    kind: Kind | None  # None: the node gave no answer
    node: str = ""
    source: str = ""  # "reports/gpu-017.json", "standard input, line 12"
    host: str = ""  # as it calls itself; empty: unknown, or redacted
    created: str = ""
    verdict: NodeVerdict = "unknown"
    facts: Facts = field(default_factory=Facts)  # what a repair is held against; the rest is left out
    values: dict[str, Values] = field(default_factory=dict)  # by path; unknown ones are left out
    gpus: tuple[Values, ...] | None = None  # None: unknown
    uuids: frozenset[str] = frozenset()  # of its GPUs; empty: unknown
    hardware: str = "unknown"  # what makes siblings: "8 × NVIDIA H200"
    findings: tuple[Finding, ...] = ()  # root causes, and checks of a smoke test that failed
    speeds: tuple[Speed, ...] = ()
    version: str = ""  # of tfgpu
    failure: str = ""  # why it gave no answer


def decode(data: bytes) -> Result:
    """Read a result, whose node is not named yet. Raises ReportError."""
    try:
        return _decoded(data)
    except (OverflowError, ValueError) as error:  # a number that is valid, and that nothing can have
        raise ReportError(f"it is not a valid result of tfgpu: {error}") from error


def _decoded(data: bytes) -> Result:
    schema = schema_of(data, "it")
    if schema not in KINDS:
        raise ReportError(f"it {other_kind(schema, 'tfgpu.report/1', 'tfgpu fleet', _READS)}")
    document = decode_saved(data, KINDS[schema], "it", "result of tfgpu")
    kind: Kind = "doctor"
    found: tuple[Finding, ...] = ()
    runs: Iterable[Speed | None] = ()
    if isinstance(document, BenchResult):
        kind, facts = "bench", document.environment
        runs = [_speed("bench", document.workload, document.parameters, run) for run in document.runs]
        verdict = _verdict_of(runs)
    elif isinstance(document, Smoke):
        kind, facts = "smoke", document.report.facts
        runs = [_speed("smoke", one.workload, one.parameters, one.run) for one in document.runs]
        found = (*_causes(document.report), *_failed_checks(document.checks))
        verdict = "broken" if document.verdict == "failed" else document.verdict
    else:
        facts, found, verdict = document.facts, tuple(_causes(document)), document.verdict
    host, gpus = value_or(facts.host.name, ""), value_or(facts.gpus, None)
    values = None if gpus is None else tuple(_gpu(tuple(getattr(one, name) for name in gpu_fields())) for one in gpus)
    uuids = [value_or(one.uuid, "") for one in gpus or ()]
    known = ((path, _values(path, look_up(facts, path))) for path in paths())
    no_gpu = any(one.id == "gpu.none" for one in found)  # which counts where no driver lists GPUs
    return Result(
        kind=kind,
        host="" if PLACEHOLDER.search(host) else cut(host, LONGEST_NAME),
        created=cut(document.created, 40),
        verdict=verdict,
        facts=_for_repairs(facts),
        values={path: one for path, one in known if one is not None},
        gpus=values,
        uuids=frozenset(uuids) if all(uuids) and not any(map(PLACEHOLDER.search, uuids)) else frozenset(),
        hardware=_hardware(() if values is None and no_gpu else values),
        findings=found,
        speeds=tuple(filter(None, runs)),
        version=cut(document.tool.version, 40),
    )


@lru_cache(_MOST_KEPT)
def _same(value: Any) -> Any:
    """Return an equal value that is kept once."""
    return value


@lru_cache(_MOST_KEPT)
def _kept(path: str, fact: Any) -> Values | None:
    values = values_of(path, fact)
    return None if values is None else {_same(identity): _same(value) for identity, value in values.items()}


def _values(path: str, fact: Any) -> Values | None:
    try:
        return _kept(path, fact)
    except TypeError:  # variables are a dictionary, which cannot be a key
        return _kept.__wrapped__(path, fact)


@lru_cache(_MOST_KEPT)
def _gpu(facts: tuple[Any, ...]) -> Values:
    every = (_values(f"gpus.{name}", fact) for name, fact in zip(gpu_fields(), facts, strict=True))
    return {identity: value for one in every if one for identity, value in one.items()}


def _hardware(gpus: tuple[Values, ...] | None) -> str:
    if gpus is None:
        return "unknown"
    names = Counter(one["gpus.name"].text if "gpus.name" in one else "unknown model" for one in gpus)
    return ", ".join(f"{many} × {name}" for name, many in sorted(names.items())) or "no GPU"


def _for_repairs(facts: Facts) -> Facts:
    """Return system, driver, GPUs, Python and packages, which a repair is held against; the rest is unknown."""
    python, gpus = facts.python, facts.gpus
    if isinstance(gpus, Known):
        fields = ("index", "name", "compute_capability")
        few = tuple(_same(Gpu(**{name: getattr(one, name) for name in fields})) for one in gpus.value)
        gpus = Known(few, gpus.source)
    return Facts(
        host=Host(os=_same(facts.host.os)),
        driver=Driver(version=_same(facts.driver.version)),
        gpus=_same(gpus),
        python=_same(
            Python(version=python.version, wheel_platform=python.wheel_platform, packages=_same(python.packages))
        ),
        tensorflow=TensorFlowFacts(version=_same(facts.tensorflow.version)),
    )


def _causes(report: Report) -> Iterator[Finding]:
    """Yield the root causes; what is merely possible is none."""
    for one in report.findings:
        if one.root_cause and not one.possible and not one.answers:
            yield _same(one)


def _failed_checks(checks: Iterable[SmokeCheck]) -> Iterator[Finding]:
    for check in checks:
        if check.status == "failed" and check.name not in _REDUNDANT_CHECKS:
            yield Finding(
                id=f"smoke.{check.name}",
                severity=Severity.ERROR,
                root_cause=True,
                title=f"the smoke test fails: {check.name}",
                cause="a check of the smoke test failed on this node",
                evidence=(Evidence(saw=check.why, source="tfgpu smoke"),),
                fixes=(),
            )


def _speed(kind: str, workload: str, parameters: dict[str, Any], run: Run) -> Speed | None:
    """Return a run; None where it has no speed for a good reason: logical devices show no speed."""
    if run.virtual:
        return None
    wrong = run.verified is not None and not run.verified.ok
    failure = run.failure or ("its result is wrong" if wrong else "")
    speed = run.throughput if run.verified and not failure else None
    if speed is None and not failure:
        return None
    alone = len(run.devices) == 1 and "GPU" in run.devices[0]
    named = _GPU.search(run.label)  # of several that run alone, each is the first in its process
    number = named[1] if named else run.devices[0].rpartition(":")[2]
    return Speed(
        kind=kind,
        workload=cut(workload, 60),
        label="1 GPU" if alone else cut(run.label, 100),
        dtype=cut(run.dtype, 40),
        parameters=_same(cut(msgspec.json.encode({**parameters, **run.parameters}, order="sorted").decode(), 4_000)),
        device=f"GPU {cut(number, 9)}" if alone else "",
        unit=cut(speed.unit, 40) if speed else "",
        value=speed.value if speed else 0.0,
        failure=cut(failure, _LONGEST),
        wrong=wrong,
    )


def _verdict_of(runs: Iterable[Speed | None]) -> NodeVerdict:
    speeds = tuple(filter(None, runs))
    if any(one.wrong for one in speeds):
        return "broken"
    if any(one.failure for one in speeds):
        return "degraded"
    return "ok" if speeds else "unknown"


# ------------------------------------------------------------------------------------------------------------- nodes


@dataclass(frozen=True)
class Machine:
    """One node with those of its results that count."""

    name: str
    results: tuple[Result, ...]  # the newest of each kind; the doctor's first, which examines most

    @property
    def main(self) -> Result:
        """The result whose facts count."""
        return self.results[0]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The root causes of all results, each once, the gravest first."""
        by_id: dict[str, Finding] = {}
        for one in (finding for result in self.results for finding in result.findings):
            by_id.setdefault(one.id, one)
        return tuple(sorted(by_id.values(), key=lambda one: _SEVERITIES.index(one.severity)))

    @property
    def speeds(self) -> Iterator[Speed]:
        """All runs."""
        return (speed for result in self.results for speed in result.speeds)

    @property
    def models(self) -> frozenset[str]:
        """The models of its GPUs."""
        return frozenset(one["gpus.name"].text for one in self.main.gpus or () if "gpus.name" in one)

    def node(self) -> Node:
        """Return it as the fleet shows it."""
        main = self.main
        return Node(
            name=self.name,
            source=main.source,
            results=tuple(one.kind for one in self.results if one.kind),
            verdict=min((one.verdict for one in self.results), key=WORST_FIRST.index),
            created=max(one.created for one in self.results),
            gpus=None if main.gpus is None else len(main.gpus),
            hardware=main.hardware,
            findings=tuple(cut(one.id, 100) for one in self.findings),
            reason=main.failure,
        )


def machines(results: Iterable[Result]) -> tuple[tuple[Machine, ...], tuple[str, ...]]:
    """Return the nodes in the order of their names, and notes on what did not count."""
    sent: dict[str, list[Result]] = {}
    for one in results:
        sent.setdefault(one.node, []).append(one)
    apart = repeated = 0
    found: list[Machine] = []
    for name, several in sent.items():
        answers = [one for one in several if one.kind] or several[:1]
        first = next((one.uuids for one in answers if one.uuids), frozenset[str]())
        # other GPUs, all of them, make another machine of that name; one GPU that was replaced does not
        if any(one.uuids and first.isdisjoint(one.uuids) for one in answers):
            apart += 1
            found += [Machine(f"{name} ({one.source})", (one,)) for one in answers]
            continue
        newest = {one.kind: one for one in sorted(answers, key=lambda one: one.created)}
        counted = tuple(newest[kind] for kind in ("doctor", "smoke", "bench", None) if kind in newest)
        repeated += len({(one.kind, one.created) for one in answers}) > len(counted)
        found.append(Machine(name, counted))
    notes = []
    if repeated:
        notes.append(f"{count(repeated, 'node')} sent several results of one kind: the newest of each kind counts")
    if apart:
        notes.append(f"{count(apart, 'host name')} of several machines: their GPUs differ")
    return tuple(sorted(found, key=lambda one: _natural(one.name))), tuple(notes)


def _natural(name: str) -> tuple[str, str]:
    """Return a sort key by which gpu-9 stands before gpu-10."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(12), name.lower()), name
