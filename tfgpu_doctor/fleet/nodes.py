"""Results of tfgpu as JSON → nodes, with what a fleet needs of each. Pure.

The nodes of a fleet are much alike: each fact is decoded once for all nodes that have the same bytes, by the types of
the records, and so validated. What is not compared is not decoded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct, ValidationError, structs

from tfgpu_doctor.fleet.records import WORST_FIRST, Node, NodeVerdict
from tfgpu_doctor.fleet.values import Values, gpu_fields, hint, paths, values_of
from tfgpu_doctor.records.facts import Facts, Gpu, Known, Package, Unknown
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import Fix, Severity, other_kind
from tfgpu_doctor.records.units import count
from tfgpu_doctor.redact.vocabulary import PLACEHOLDER

ResultKind = Literal["doctor", "smoke", "bench"]
# where a node's name comes from; those of a place are made up, and no two results share one
NamedBy = Literal["envelope", "prefix", "host", "file", "place"]

MOST_FINDINGS, MOST_GPUS, MOST_RUNS = 1_000, 1_024, 10_000  # of one result
LONGEST_NAME = 253  # characters of a host's name
KINDS: dict[str, ResultKind] = {"tfgpu.report/1": "doctor", "tfgpu.smoke/1": "smoke", "tfgpu.bench/1": "bench"}
_READS = "reports of tfgpu doctor, and results of tfgpu smoke and tfgpu bench"
_MOST_KEPT, _LONGEST_KEPT = 20_000, 1 << 15  # pieces of JSON that are remembered, and bytes of one
_LONGEST = 300  # characters of what is shown of one node
_GPU = re.compile(r"\bGPU (\d{1,6})\b")
_NO_GPU = "gpu.none"  # the finding that there is none, which counts where no driver lists GPUs
_VERDICTS = {one: one for one in ("ok", "degraded", "broken", "unknown")} | {"failed": "broken"}  # the last of smoke
_ORDER = {"error": 0, "warning": 1, "note": 2}
# checks of smoke whose failure says no more than the report's findings and the runs
_REDUNDANT_CHECKS = frozenset({"doctor", "import", "matpow", "cnn"})
_LATE = ("Slurm: ", "its command", "pdsh: ", "clush: ")  # reported of nodes that may have sent a result


class NoResult(Exception):
    """It is no result of a node; the message says what it is instead, without its place."""


class Found(NamedTuple):
    """A root cause that a node's doctor found, or a check of its smoke test that failed."""

    id: str
    severity: Severity
    layer: str  # empty: as the id's declaration says
    title: str
    saw: str  # what is shown of this node
    cause: str
    fixes: tuple[Fix, ...]


class Speed(NamedTuple):
    """A run with its speed, or the reason why there is none."""

    kind: ResultKind
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

    kind: ResultKind | None  # None: the node gave no answer
    node: str = ""
    named_by: NamedBy = "place"
    source: str = ""  # "reports/gpu-017.json", "standard input, line 12"
    file: str = ""
    host: str = ""  # as it calls itself; empty: unknown, or redacted
    created: str = ""
    verdict: Any = "unknown"
    uuids: tuple[int, ...] = ()  # hashes of the UUIDs of its GPUs; empty: unknown
    facts: dict[str, Values] = field(default_factory=dict)  # by path; unknown ones are left out
    gpus: tuple[Values, ...] | None = None  # None: unknown
    hardware: str = "unknown"
    found: tuple[Found, ...] = ()
    speeds: tuple[Speed, ...] = ()
    version: str = ""  # of tfgpu
    failure: str = ""  # why it gave no answer


# ---------------------------------------------------------------------------------------- parts of a result, as JSON


class _Tool(Struct):
    version: str = ""


class _Evidence(Struct):
    saw: str = ""


class _Finding(Struct):
    id: str
    severity: Severity
    root_cause: bool
    title: str
    cause: str = ""
    evidence: tuple[_Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    possible: bool = False
    answers: bool = False


class _Throughput(Struct):
    value: Annotated[float, Meta(gt=0, lt=1e30)]
    unit: str


class _Verified(Struct):
    ok: bool


class _Run(Struct):
    label: str
    devices: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100_000)]
    dtype: str
    virtual: bool = False
    parameters: dict[str, Any] = {}
    throughput: _Throughput | None = None
    verified: _Verified | None = None
    failure: str | None = None


class _SmokeRun(Struct):
    workload: str
    run: _Run
    parameters: dict[str, Any] = {}


class _SmokeCheck(Struct):
    name: str
    on: str
    status: Literal["ok", "failed", "not run", "unknown"]
    why: str = ""


class _Document(Struct):
    """The union of what the three kinds of results have; `schema` says which of them it is."""

    schema: str
    created: str = ""
    tool: _Tool = msgspec.field(default_factory=_Tool)
    verdict: str = ""
    facts: dict[str, Raw] | None = None
    environment: dict[str, Raw] | None = None
    findings: tuple[Raw, ...] = ()
    report: Raw = Raw(b"")
    workload: str = ""
    parameters: dict[str, Any] = {}
    runs: tuple[Raw, ...] = ()
    checks: tuple[Raw, ...] = ()


_Gpus = Known[tuple[dict[str, Raw], ...]] | Unknown


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode(data: bytes) -> Result:
    """Read a result, whose node is not named yet. Raises NoResult."""
    try:
        return _result(_decoder(_Document).decode(data))
    except RecursionError as error:
        raise NoResult("it is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError) as error:
        raise NoResult(cut(str(error), _LONGEST)) from error


def _result(document: _Document) -> Result:
    kind = KINDS.get(document.schema)
    if kind is None:
        raise NoResult(f"it {other_kind(document.schema, 'tfgpu.report/1', 'tfgpu fleet', _READS)}")
    report = _decoder(_Document).decode(document.report) if kind == "smoke" else document
    facts = report.environment if kind == "bench" else report.facts
    if facts is None:
        whose = "its report has no" if kind == "smoke" else "it has no"
        raise NoResult(f"{whose} {'environment' if kind == 'bench' else 'facts'}")
    found, speeds = _causes(report.findings), tuple(_speeds(kind, document))
    if kind == "smoke":
        found += tuple(
            map(_failed_check, filter(_fails, map(_decoder(_SmokeCheck).decode, document.checks[:MOST_RUNS])))
        )
    verdict = _verdict_of(speeds) if kind == "bench" else _VERDICTS.get(document.verdict)
    if verdict is None:
        raise NoResult(f"it has the verdict {cut(document.verdict, 40)!r}, which is none")
    values, host = _values(facts)
    gpus, uuids = _gpus(facts.get("gpus"))
    return Result(
        kind=kind,
        host="" if PLACEHOLDER.search(host) else cut(host, LONGEST_NAME),
        created=cut(document.created, 40),
        verdict=verdict,
        uuids=uuids,
        facts=values,
        gpus=gpus,
        hardware=_hardware(() if gpus is None and any(one.id == _NO_GPU for one in found) else gpus),
        found=found,
        speeds=speeds,
        version=cut(document.tool.version, 40),
    )


# ------------------------------------------------------------------------------------------------------------- facts


def _sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths():
        section, _, name = path.partition(".")
        found.setdefault(section, []).append(name)
    return found


_SECTIONS = _sections()  # "driver" → the names of its facts; "variables" → an empty one


def _values(facts: dict[str, Raw]) -> tuple[dict[str, Values], str]:
    """Return the values of the facts that are known and compared, and the name of the host."""
    found: dict[str, Values] = {}
    host = ""
    for section, names in _SECTIONS.items():
        if section not in facts:
            continue
        fields = {"": facts[section]} if names == [""] else _within(facts[section], dict[str, Raw], section)
        for name in names:
            path = f"{section}.{name}" if name else section
            if name in fields and (values := _of_fact(path, bytes(fields[name]))) is not None:
                found[path] = values
        if section == "host" and "name" in fields:
            named = _within(fields["name"], Known[str] | Unknown, "host.name")
            host = named.value if isinstance(named, Known) else ""
    return found, host


def _within(raw: Raw | bytes, kind: Any, path: str) -> Any:
    """Decode a part of the facts, which, read alone, does not know where it stands in the report."""
    try:
        return _decoder(kind).decode(raw)
    except ValidationError as error:
        raise ValidationError(str(error).replace("`$", f"`$.facts.{path}")) from error


def _of_fact(path: str, raw: bytes) -> Values | None:
    return (_kept if len(raw) < _LONGEST_KEPT else _kept.__wrapped__)(path, raw)


@lru_cache(_MOST_KEPT)
def _kept(path: str, raw: bytes) -> Values | None:
    values = values_of(path, _within(raw, hint(path), path))
    return None if values is None else {_same(identity): _same(value) for identity, value in values.items()}


@lru_cache(_MOST_KEPT)
def _same(value: Any) -> Any:
    """Return an equal value that is kept once: many lists of packages are different in one of them."""
    return value


def _gpus(raw: Raw | None) -> tuple[tuple[Values, ...] | None, tuple[int, ...]]:
    """Return the values of each GPU, and hashes of their UUIDs."""
    fact = _within(raw, _Gpus, "gpus") if raw is not None else Unknown("")
    if isinstance(fact, Unknown):
        return None, ()
    gpus = fact.value[:MOST_GPUS]
    uuids = [bytes(one.get("uuid", b"")) for one in gpus]
    known = all(b'"known"' in one and b"<uuid" not in one for one in uuids)
    values = tuple(_gpu(tuple(bytes(one.get(name, b"")) for name in gpu_fields())) for one in gpus)
    return values, tuple(map(hash, uuids)) if known else ()


@lru_cache(_MOST_KEPT)
def _gpu(fields: tuple[bytes, ...]) -> Values:
    found: Values = {}
    for name, raw in zip(gpu_fields(), fields, strict=True):
        found.update(_of_fact(f"gpus.{name}", raw) or {} if raw else {})
    return found


def _hardware(gpus: tuple[Values, ...] | None) -> str:
    """Return what makes siblings: "8 × NVIDIA H200"."""
    if gpus is None:
        return "unknown"
    names = Counter(one["gpus.name"].text if "gpus.name" in one else "unknown model" for one in gpus)
    return ", ".join(f"{many} × {name}" for name, many in sorted(names.items())) or "no GPU"


# ------------------------------------------------------------------------------------------------- findings and runs


def _causes(findings: tuple[Raw, ...]) -> tuple[Found, ...]:
    if len(findings) > MOST_FINDINGS:
        raise NoResult(f"it has {len(findings)} findings; at most {MOST_FINDINGS} are read")
    found = ((_cause if len(one) < _LONGEST_KEPT else _cause.__wrapped__)(one) for one in map(bytes, findings))
    return tuple(one for one in found if one is not None)


@lru_cache(_MOST_KEPT)
def _cause(raw: bytes) -> Found | None:
    """Return a root cause; None for a consequence, and for what is merely possible."""
    one = _decoder(_Finding).decode(raw)
    if not one.root_cause or one.possible or one.answers:
        return None
    saw = cut(one.evidence[0].saw, _LONGEST) if one.evidence else ""
    return Found(cut(one.id, 100), one.severity, "", cut(one.title, _LONGEST), saw, one.cause, one.fixes[:20])


def _fails(check: _SmokeCheck) -> bool:
    return check.status == "failed" and check.name not in _REDUNDANT_CHECKS


def _failed_check(check: _SmokeCheck) -> Found:
    return Found(
        id=f"smoke.{check.name}",
        severity=Severity.ERROR,
        layer="Compute" if check.name == "baseline" else "Devices",
        title=f"the smoke test fails: {check.name}",
        saw=cut(check.why, _LONGEST),
        cause="a check of the smoke test failed on this node",
        fixes=(),
    )


def _speeds(kind: ResultKind, document: _Document) -> Iterator[Speed]:
    for raw in document.runs[:MOST_RUNS] if kind != "doctor" else ():
        if kind == "smoke":
            one = _decoder(_SmokeRun).decode(raw)
            found = _speed(kind, one.workload, one.parameters, one.run)
        else:
            found = _speed(kind, document.workload, document.parameters, _decoder(_Run).decode(raw))
        if found is not None:
            yield found


def _speed(kind: ResultKind, workload: str, parameters: dict[str, Any], run: _Run) -> Speed | None:
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


def _verdict_of(speeds: tuple[Speed, ...]) -> str:
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
    results: tuple[Result, ...]  # the newest of each kind; the doctor's first, which examines most; empty: no answer
    absent: Result | None = None

    @property
    def main(self) -> Result:
        """The result whose facts count."""
        return self.results[0]

    @property
    def found(self) -> tuple[Found, ...]:
        """The root causes of all results, each once, the gravest first."""
        by_id: dict[str, Found] = {}
        for result in self.results:
            for one in result.found:
                by_id.setdefault(one.id, one)
        return tuple(sorted(by_id.values(), key=lambda one: _ORDER[one.severity.value]))

    @property
    def speeds(self) -> Iterator[Speed]:
        """All runs."""
        return (speed for result in self.results for speed in result.speeds)

    @property
    def verdict(self) -> NodeVerdict:
        """The worst of its results."""
        return min((one.verdict for one in self.results), key=WORST_FIRST.index) if self.results else "no answer"

    @property
    def models(self) -> frozenset[str]:
        """The models of its GPUs."""
        return frozenset(one["gpus.name"].text for one in self.main.gpus or () if "gpus.name" in one)

    def node(self) -> Node:
        """Return it as the fleet shows it."""
        main = self.results[0] if self.results else self.absent or Result(None)
        return Node(
            name=self.name,
            source=main.source,
            results=tuple(one.kind for one in self.results if one.kind),
            verdict=self.verdict,
            created=max((one.created for one in self.results), default=""),
            gpus=None if main.gpus is None else len(main.gpus),
            hardware=main.hardware,
            findings=tuple(one.id for one in self.found),
            reason=main.failure,
        )

    def known(self) -> Facts:
        """Return system, driver, GPUs, Python and packages, which a repair is held against; the rest is unknown."""
        if not self.results:
            return Facts()
        values, facts = self.main.facts, Facts()
        for path in ("host.os", "driver.version", "python.version", "python.wheel_platform", "tensorflow.version"):
            if path in values:
                facts = _with(facts, path, values[path][path].text, self.name)
        if "python.packages" in values:
            start = len("python.packages.")
            listed = tuple(Package(name[start:], one.text, "") for name, one in values["python.packages"].items())
            facts = _with(facts, "python.packages", listed, self.name)
        gpus = tuple(self._known_gpu(number, one) for number, one in enumerate(self.main.gpus or ()))
        return structs.replace(facts, gpus=Known(gpus, self.name)) if gpus else facts

    def _known_gpu(self, index: int, values: Values) -> Gpu:
        named = ((name, values.get(f"gpus.{name}")) for name in ("name", "compute_capability"))
        return structs.replace(Gpu(index=index), **{name: Known(one.text, self.name) for name, one in named if one})


def _with(facts: Facts, path: str, value: Any, source: str) -> Facts:
    part, _, name = path.partition(".")
    return structs.replace(facts, **{part: structs.replace(getattr(facts, part), **{name: Known(value, source)})})


def machines(results: Iterable[Result]) -> tuple[tuple[Machine, ...], tuple[str, ...]]:
    """Return the nodes in the order of their names, and notes on what did not count."""
    sent: dict[str, list[Result]] = {}
    absent: dict[str, Result] = {}
    for one in results:
        if one.kind is None:
            absent.setdefault(one.node, one)
        else:
            sent.setdefault(one.node, []).append(one)
    answers, apart = _told_apart(sent)
    found = {name: Machine(name, _newest(several)) for name, several in answers.items()}
    notes = []
    if several := sum(_sent_more(answers[name], one.results) for name, one in found.items()):
        notes.append(f"{count(several, 'node')} sent several results of one kind: the newest of each kind counts")
    if apart:
        notes.append(f"{count(apart, 'host name')} of several machines: their GPUs differ")
    found.update(_silent(absent, answers))
    return tuple(found[name] for name in sorted(found, key=_natural)), tuple(notes)


def _silent(absent: dict[str, Result], answers: dict[str, list[Result]]) -> dict[str, Machine]:
    """Return the nodes that surely gave no answer: tools report the exit code of a doctor that finds problems, too."""
    sent = [one for several in answers.values() for one in several]
    late = () if all(one.named_by not in ("place", "file") for one in sent) else _LATE
    known = {short_name(one.node) for one in sent}
    return {
        name: Machine(name, (), one)
        for name, one in absent.items()
        if short_name(name) not in known and not one.failure.startswith(late)
    }


def short_name(name: str) -> str:
    """Return a host's name without its domain, in lower case: "GPU-017.cluster.example" → "gpu-017"."""
    first, _, rest = name.lower().partition(".")
    return first if not rest.replace(".", "").isdecimal() else name.lower()


def _told_apart(answers: dict[str, list[Result]]) -> tuple[dict[str, list[Result]], int]:
    """Separate results of one name whose GPUs have other UUIDs, by their places: they are of different machines."""
    found: dict[str, list[Result]] = {}
    apart = 0
    for name, several in answers.items():
        first = next((set(one.uuids) for one in several if one.uuids), set())
        # one GPU that was replaced makes no other machine
        if not any(one.uuids and first.isdisjoint(one.uuids) for one in several):
            found.setdefault(name, []).extend(several)
            continue
        apart += 1
        in_files = len({one.file for one in several}) > 1
        for one in several:
            found.setdefault(f"{name} ({one.file if in_files else one.source})", []).append(one)
    return found, apart


def _newest(results: list[Result]) -> tuple[Result, ...]:
    by_kind: dict[str | None, Result] = {}
    for one in results:
        if one.kind not in by_kind or one.created > by_kind[one.kind].created:
            by_kind[one.kind] = one
    return tuple(by_kind[kind] for kind in KINDS.values() if kind in by_kind)


def _sent_more(results: list[Result], counted: tuple[Result, ...]) -> bool:
    """Return whether some do not count; the same one twice, as Ansible prints it, is one."""
    return len(results) > len(counted) and len({(one.kind, one.created) for one in results}) > len(counted)


def _natural(name: str) -> tuple[str, str]:
    """Return a sort key by which gpu-9 stands before gpu-10."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(12), name.lower()), name
