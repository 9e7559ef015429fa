"""A result as JSON → what a fleet needs of it, in some tens of microseconds. Pure.

The nodes of a fleet are much alike. So a report is split into its facts, which stay JSON; each fact that was met before
is known by its bytes, and only what is new is decoded, by the types of the records, and so validated. What is not
compared is skipped. Everything that is kept is kept once.
"""

from __future__ import annotations

import re
from operator import is_
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from tfgpu_doctor.fleet import values
from tfgpu_doctor.fleet.results import Found, GpuValues, ResultKind, Speed, hardware_of
from tfgpu_doctor.fleet.skeleton import DocumentPart, FindingPart, RunPart, SmokeCheckPart, SmokeRunPart, raw_facts
from tfgpu_doctor.fleet.values import Leaf
from tfgpu_doctor.records.fact import Known, Unknown
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import other_kind
from tfgpu_doctor.redact.vocabulary import PLACEHOLDER

MOST_FINDINGS, MOST_GPUS, MOST_RUNS = 1_000, 1_024, 10_000  # of one result
_MOST_KNOWN = 1_000_000  # texts and values that are remembered
_MOST_JSON = 64 << 20  # bytes of facts and findings that are remembered
LONGEST_NAME = 253  # characters of a host's name
_READS = "reports of tfgpu doctor, and results of tfgpu smoke and tfgpu bench"
_PATHS = values.paths()
_GPU_PATHS = tuple(f"gpus.{name}" for name in values.gpu_fields())
_UNKNOWN: Leaf = (("", values.Value("unknown")),)  # stands for None in a dictionary that is asked for many at once
KINDS: dict[str, ResultKind] = {"tfgpu.report/1": "doctor", "tfgpu.smoke/1": "smoke", "tfgpu.bench/1": "bench"}
_GPU = re.compile(r"\bGPU (\d{1,6})\b")
_NO_GPU = "gpu.none"  # the finding that there is none, which counts where no driver lists GPUs
_TOLD = 300  # characters of what is said of one node

T = TypeVar("T")


class DistilError(Exception):
    """It is no result of a node; the message says what it is instead, without its place."""


class Distilled(Struct):
    """What is kept of one result; who it belongs to is said elsewhere."""

    kind: ResultKind
    created: str
    verdict: Literal["ok", "degraded", "broken", "unknown"]
    host: str  # as it calls itself; empty: unknown, or redacted
    cards: tuple[int, ...]
    facts: tuple[Leaf | None, ...]
    gpus: tuple[GpuValues, ...] | None
    hardware: str
    found: tuple[Found, ...]
    speeds: tuple[Speed, ...]
    version: str


_VERDICTS: dict[str, Literal["ok", "degraded", "broken", "unknown"]] = {
    "ok": "ok",
    "degraded": "degraded",
    "broken": "broken",
    "unknown": "unknown",
    "failed": "broken",  # of smoke
}
_DOCUMENT = msgspec.json.Decoder(DocumentPart)
_FINDING = msgspec.json.Decoder(FindingPart)
_BENCH_RUN, _SMOKE_RUN = msgspec.json.Decoder(RunPart), msgspec.json.Decoder(SmokeRunPart)
_CHECK = msgspec.json.Decoder(SmokeCheckPart)
# checks of smoke whose failure says no more than the report's findings and the runs
_TOLD_ELSEWHERE = frozenset({"doctor", "import", "matpow", "cnn"})


class Distiller:
    """Remembers what it has met."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._leaves: dict[tuple[str, bytes], Leaf] = {}
        self._gpus_known: dict[tuple[bytes, ...], GpuValues] = {}
        self._rows: dict[int, tuple[Any, ...]] = {}  # tuples of what is kept once, by the identity of their parts
        self._findings: dict[bytes, Found | None] = {}
        self._hardwares: dict[tuple[Leaf | None, ...] | None, str] = {}
        self._written: dict[tuple[bytes, ...], str] = {}  # parameters, as they are compared
        self._same: dict[Any, Any] = {}
        self._size = 0
        self._name_at = values.gpu_fields().index("name")

    def distil(self, data: bytes) -> Distilled:
        """What is kept of a result. Raises DistilError: it is none."""
        try:
            return self._distil(_DOCUMENT.decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            deep = isinstance(error, RecursionError)
            raise DistilError("it is nested too deeply" if deep else cut(str(error), _TOLD)) from error

    def _distil(self, document: DocumentPart) -> Distilled:
        kind = KINDS.get(document.schema)
        if kind is None:
            raise DistilError(f"it {other_kind(document.schema, 'tfgpu.report/1', 'tfgpu fleet', _READS)}")
        if kind == "smoke":
            return self._smoke(document)
        facts = document.facts if kind == "doctor" else document.environment
        if facts is None:
            raise DistilError(f"it has no {'facts' if kind == 'doctor' else 'environment'}")
        if kind == "doctor":
            return self._of(kind, document, facts, self._causes(document.findings), ())
        runs = [_BENCH_RUN.decode(run) for run in document.runs[:MOST_RUNS]]
        speeds = [self._speed(kind, document.workload, document.parameters, run) for run in runs]
        return self._of(kind, document, facts, (), tuple(speed for speed in speeds if speed))

    def _smoke(self, document: DocumentPart) -> Distilled:
        report = _DOCUMENT.decode(document.report)
        if report.facts is None:
            raise DistilError("its report has no facts")
        runs = [_SMOKE_RUN.decode(run) for run in document.runs[:MOST_RUNS]]
        speeds = [self._speed("smoke", one.workload, one.parameters, one.run) for one in runs]
        failed = [_CHECK.decode(check) for check in document.checks[:MOST_RUNS]]
        found = (
            Found(
                id=f"smoke.{check.name}",
                severity="error",
                layer="Compute" if check.name == "baseline" else "Devices",
                title=f"the smoke test fails: {check.name}",
                saw=cut(check.why, _TOLD),
                cause="a check of the smoke test failed on this node",
                fixes=(),
            )
            for check in failed
            if check.status == "failed" and check.name not in _TOLD_ELSEWHERE
        )
        causes = (*self._causes(report.findings), *map(self._kept, found))
        return self._of("smoke", document, report.facts, causes, tuple(speed for speed in speeds if speed))

    def _of(
        self, kind: ResultKind, document: DocumentPart, facts: Any, found: tuple[Found, ...], speeds: tuple[Speed, ...]
    ) -> Distilled:
        verdict = _VERDICTS.get(document.verdict)
        if kind == "bench":
            verdict = "broken" if any(one.wrong for one in speeds) else _of_runs(speeds)
        if verdict is None:
            raise DistilError(f"it has the verdict {cut(document.verdict, 40)!r}, which is none")
        gpus, cards = self._gpus(facts.gpus)
        host = facts.host.name.value if isinstance(facts.host.name, Known) else ""
        return Distilled(
            kind=kind,
            created=self._kept(cut(document.created, 40)),
            verdict=verdict,
            host="" if PLACEHOLDER.search(host) else cut(host, LONGEST_NAME),
            cards=cards,
            facts=self._facts(facts),
            gpus=gpus,
            hardware=self._hardware(() if gpus is None and any(one.id == _NO_GPU for one in found) else gpus),
            found=self._kept(found),
            speeds=speeds,
            version=self._kept(cut(document.tool.version, 40)),
        )

    # --------------------------------------------------------------------------------------------- facts

    def _facts(self, facts: Any) -> tuple[Leaf | None, ...]:
        raws = tuple(map(bytes, raw_facts(facts)))
        found = list(map(self._leaves.get, zip(_PATHS, raws, strict=True)))
        for place, leaf in enumerate(found):
            if leaf is None:
                leaf = found[place] = self._leaf(_PATHS[place], raws[place])
            if leaf is _UNKNOWN:
                found[place] = None
        return self._row(tuple(found))

    def _leaf(self, path: str, raw: bytes) -> Leaf:
        key = (path, raw)
        if key in self._leaves:
            return self._leaves[key]
        try:
            decoded = values.decode(path, raw) if raw else None
        except msgspec.ValidationError as error:  # read alone, it does not know where it stands in the report
            raise msgspec.ValidationError(str(error).replace("`$", f"`$.facts.{path}")) from error
        found = _UNKNOWN
        if decoded is not None:
            found = self._kept(tuple((self._kept(one), self._kept(value)) for one, value in decoded))
        self._remember(raw)
        self._leaves[key] = found
        return found

    def _row(self, parts: tuple[T, ...]) -> tuple[T, ...]:
        """The same, kept once; parts that are the same are so by identity, since hashing all of each is slow."""
        if len(self._rows) > _MOST_KNOWN:
            self._rows.clear()
        key = hash(tuple(map(id, parts)))
        known = self._rows.setdefault(key, parts)
        return known if len(known) == len(parts) and all(map(is_, known, parts)) else parts

    def _remember(self, raw: bytes) -> None:
        """Begin anew where each node has JSON of its own, which no other will ever have again."""
        self._size += len(raw)
        if self._size > _MOST_JSON:
            self._leaves.clear()
            self._gpus_known.clear()
            self._written.clear()
            self._findings.clear()
            self._size = 0

    def _gpus(self, fact: Any) -> tuple[tuple[GpuValues, ...] | None, tuple[int, ...]]:
        """What is known of the GPUs, and what stands for these very ones."""
        if isinstance(fact, Unknown):
            return None, ()
        raws = [tuple(map(bytes, astuple(gpu))) for gpu in fact.value[:MOST_GPUS]]
        uuids = [one[0] for one in raws]
        known = all(b'"known"' in one and b"<uuid" not in one for one in uuids)
        return self._row(tuple(map(self._gpu, raws))), tuple(map(hash, uuids)) if known else ()

    def _gpu(self, raws: tuple[bytes, ...]) -> GpuValues:
        """A GPU, without its UUID, which stands first."""
        key = raws[1:]
        found = self._gpus_known.get(key)
        if found is None:
            leaves = (self._leaf(path, raw) for path, raw in zip(_GPU_PATHS, key, strict=True))
            found = self._row(tuple(None if leaf is _UNKNOWN else leaf for leaf in leaves))
            self._gpus_known[key] = found
            self._size += sum(map(len, key))
        return found

    def _hardware(self, gpus: tuple[GpuValues, ...] | None) -> str:
        models = None if gpus is None else tuple(gpu[self._name_at] for gpu in gpus)
        if models not in self._hardwares:
            self._hardwares[models] = hardware_of(gpus, self._name_at)
        return self._hardwares[models]

    # ------------------------------------------------------------------------------------------ findings

    def _causes(self, findings: tuple[Raw, ...]) -> tuple[Found, ...]:
        if len(findings) > MOST_FINDINGS:
            raise DistilError(f"it has {len(findings)} findings; at most {MOST_FINDINGS} are read")
        found = (self._cause(bytes(one)) for one in findings)
        return tuple(one for one in found if one is not None)

    def _cause(self, raw: bytes) -> Found | None:
        """A root cause; None for a consequence, and for what is merely possible."""
        if raw in self._findings:
            return self._findings[raw]
        one, found = _FINDING.decode(raw), None
        if one.root_cause and not one.possible and not one.answers:
            saw = cut(one.evidence[0].saw, _TOLD) if one.evidence else ""
            fixes = self._kept(one.fixes[:20])
            found = self._kept(
                Found(
                    self._kept(cut(one.id, 100)),
                    one.severity.value,
                    "",
                    self._kept(cut(one.title, _TOLD)),
                    saw,
                    self._kept(one.cause),
                    fixes,
                )
            )
        self._findings[raw] = found
        self._remember(raw)
        return found

    # ---------------------------------------------------------------------------------------------- runs

    def _speed(self, kind: ResultKind, workload: str, parameters: Raw, run: RunPart) -> Speed | None:
        """A run; None where it has no speed for a good reason: logical devices show no speed."""
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
            workload=self._kept(cut(workload, 60)),
            label=self._kept("1 GPU" if alone else cut(run.label, 100)),
            dtype=self._kept(cut(run.dtype, 40)),
            parameters=self._parameters(bytes(parameters), bytes(run.parameters)),
            device=self._kept(f"GPU {cut(number, 9)}") if alone else "",
            unit=self._kept(cut(speed.unit, 40)) if speed else "",
            value=speed.value if speed else 0.0,
            failure=cut(failure, _TOLD),
            wrong=wrong,
        )

    def _parameters(self, *raw: bytes) -> str:
        """In one order, however they are written; as text, that is compared and not shown."""
        if raw not in self._written:
            decoded = [msgspec.json.decode(one, type=dict[str, Any]) for one in raw]
            merged = {name: value for one in decoded for name, value in one.items()}
            self._remember(b"".join(raw))
            self._written[raw] = self._kept(cut(msgspec.json.encode(merged, order="sorted").decode(), 4_000))
        return self._written[raw]

    def _kept(self, value: T) -> T:
        """The same value, kept once."""
        if len(self._same) > _MOST_KNOWN:
            self._same.clear()
        found: T = self._same.setdefault(value, value)
        return found


def _of_runs(speeds: tuple[Speed, ...]) -> Literal["ok", "degraded", "unknown"]:
    if any(one.failure for one in speeds):
        return "degraded"
    return "ok" if speeds else "unknown"
