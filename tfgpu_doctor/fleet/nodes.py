"""Results → nodes: which results are of one machine, which of them counts, and what they say together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfgpu_doctor.fleet.gathering import short_name
from tfgpu_doctor.fleet.records import WORST_FIRST, Node, NodeVerdict
from tfgpu_doctor.fleet.results import Found, GpuValues, Result, Speed
from tfgpu_doctor.fleet.values import Leaf
from tfgpu_doctor.records.units import count

_ORDER = {"error": 0, "warning": 1, "note": 2}
_LATE = ("Slurm: ", "its command", "pdsh: ", "clush: ")  # what tools say of nodes that may have sent a result
_KINDS = ("doctor", "smoke", "bench")


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
    def facts(self) -> tuple[Leaf | None, ...]:
        """Its facts, in the order of values.paths()."""
        return self.main.facts

    @property
    def gpus(self) -> tuple[GpuValues, ...] | None:
        """What is known of each GPU."""
        return self.main.gpus

    @property
    def found(self) -> tuple[Found, ...]:
        """The root causes of all results, each once, the gravest first."""
        by_id: dict[str, Found] = {}
        for result in self.results:
            for one in result.found:
                by_id.setdefault(one.id, one)
        return tuple(sorted(by_id.values(), key=lambda one: _ORDER.get(one.severity, 3)))

    @property
    def speeds(self) -> Iterator[Speed]:
        """All runs."""
        return (speed for result in self.results for speed in result.speeds)

    @property
    def verdict(self) -> NodeVerdict:
        """The worst of its results."""
        if not self.results:
            return "no answer"
        return min((result.verdict for result in self.results), key=WORST_FIRST.index)

    def node(self) -> Node:
        """As the fleet shows it."""
        if not self.results:
            absent = self.absent
            return Node(
                name=self.name,
                source=absent.source if absent else "",
                results=(),
                verdict="no answer",
                created="",
                gpus=None,
                hardware="unknown",
                reason=absent.failure if absent else "",
            )
        kinds = {result.kind for result in self.results}
        gpus = self.gpus
        return Node(
            name=self.name,
            source=self.main.source,
            results=tuple(kind for kind in _KINDS if kind in kinds),
            verdict=self.verdict,
            created=max(result.created for result in self.results),
            gpus=None if gpus is None else len(gpus),
            hardware=self.main.hardware,
            findings=tuple(one.id for one in self.found),
        )


def machines(results: Iterable[Result]) -> tuple[tuple[Machine, ...], tuple[str, ...]]:
    """The nodes in the order of their names, and notes on what did not count."""
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
    """The nodes that surely gave no answer: a doctor that finds problems ends with an exit code, which tools report."""
    certain = all(one.named_by not in ("place", "file") for several in answers.values() for one in several)
    late = () if certain else _LATE
    known = {short_name(name) for several in answers.values() for name in {one.node for one in several}}
    return {
        name: Machine(name, (), one)
        for name, one in absent.items()
        if short_name(name) not in known and not one.failure.startswith(late)
    }


def _told_apart(answers: dict[str, list[Result]]) -> tuple[dict[str, list[Result]], int]:
    """Results of one name that are of different machines, since the UUIDs of their GPUs differ, by their places."""
    found: dict[str, list[Result]] = {}
    apart = 0
    for name, several in answers.items():
        if len(several) < 2 or not _are_several(several):
            found.setdefault(name, []).extend(several)
            continue
        apart += 1
        in_files = len({one.file for one in several}) > 1
        for one in several:
            found.setdefault(f"{name} ({one.file if in_files else one.source})", []).append(one)
    return found, apart


def _are_several(results: list[Result]) -> bool:
    """Whether no GPU of one result is among those of another one; one GPU that was replaced makes no other machine."""
    first = next((set(one.cards) for one in results if one.cards), set())
    return any(one.cards and first.isdisjoint(one.cards) for one in results)


def _newest(results: list[Result]) -> tuple[Result, ...]:
    by_kind: dict[str | None, Result] = {}
    for one in results:
        if one.kind not in by_kind or one.created > by_kind[one.kind].created:
            by_kind[one.kind] = one
    return tuple(by_kind[kind] for kind in _KINDS if kind in by_kind)


def _sent_more(results: list[Result], counted: tuple[Result, ...]) -> bool:
    """Whether some do not count; the same one twice, as Ansible prints it, is one."""
    return len(results) > len(counted) and len({(one.kind, one.created) for one in results}) > len(counted)


def _natural(name: str) -> tuple[str, ...]:
    """So that gpu-9 stands before gpu-10."""
    padded, digits = [], ""
    for char in name.lower():
        if char in "0123456789":
            digits += char
            continue
        padded += [digits.zfill(12)] if digits else []
        padded.append(char)
        digits = ""
    return ("".join([*padded, digits.zfill(12) if digits else ""]), name)
