"""What most nodes have: the rows that show what a fleet looks like. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter

from tfgpu_doctor.compare.words import short
from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.records import Common
from tfgpu_doctor.fleet.records import Value as Shown
from tfgpu_doctor.fleet.values import ABSENT, Leaf, compared, gpu_fields, paths
from tfgpu_doctor.records.facts import about

MOST = 5  # values of a row
_LONGEST = 120
_TOO_LONG = frozenset({"host.cpu_flags", "cuda.xla_roots", "cuda.libdevice", "cuda.ptxas"})
_PACKAGES = ("tensorflow", "keras", "numpy", "protobuf", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12")


def common(machines: tuple[Machine, ...]) -> tuple[Common, ...]:
    """The rows, in the order of the stack; facts that no node knows are left out."""
    answered = [one for one in machines if one.results]
    if not answered:
        return ()
    rows = [_row("gpus", "GPU", "GPUs", Counter(one.main.hardware for one in answered))]
    facts = [one.facts for one in answered]
    for place, path in enumerate(paths()):
        if path in _TOO_LONG:
            continue
        counts: dict[str, Counter[str]] = {}
        for leaf, many in _counted(map(itemgetter(place), facts)):
            for row, text in _texts(path, leaf):
                counts.setdefault(row, Counter())[text] += many
        for row, values in counts.items():
            field = compared(row)
            rows.append(_row(row, field.layer, field.label, values))
    rows += _of_gpus(answered)
    order = {layer: number for number, layer in enumerate(dict.fromkeys(_layers()))}
    return tuple(sorted(rows, key=lambda row: order.get(row.layer, len(order))))


def _counted(leaves: Iterable[Leaf | None]) -> Iterator[tuple[Leaf | None, int]]:
    """How many have which; most of them are the same object."""
    every = list(leaves)
    distinct = {id(leaf): leaf for leaf in every}
    yield from ((distinct[identity], many) for identity, many in Counter(map(id, every)).items())


def _layers() -> Iterator[str]:
    from tfgpu_doctor.records.about import LAYERS

    yield from LAYERS


def _texts(path: str, leaf: Leaf | None) -> Iterator[tuple[str, str]]:
    """What a fact adds to the picture: its value; of packages, those that matter most."""
    if leaf is None:
        return
    if path == "python.packages":
        found = dict(leaf)
        for name in _PACKAGES:
            value = found.get(f"{path}.{name}")
            yield f"{path}.{name}", value.text if value else ABSENT
    elif not about(path).key:
        yield from ((identity, value.text) for identity, value in leaf)


def _of_gpus(machines: list[Machine]) -> Iterator[Common]:
    """Nodes by what their GPUs have; one with several values counts for each."""
    sets = Counter(id(one.gpus) for one in machines if one.gpus)
    gpus = {id(one.gpus): one.gpus for one in machines if one.gpus}
    for place, name in enumerate(gpu_fields()):
        counts: Counter[str] = Counter()
        known = 0
        for identity, many in sets.items():
            leaves = {leaf[0][1].text for gpu in gpus[identity] or () if (leaf := gpu[place])}
            known += many if leaves else 0
            for text in leaves:
                counts[text] += many
        if counts and name != "name":
            field = compared(f"gpus.{name}")
            yield _row(field.id, field.layer, f"{field.label} of GPUs", counts, known)


def _row(identity: str, layer: str, label: str, values: Counter[str], known: int | None = None) -> Common:
    most = sorted(values.items(), key=lambda one: (-one[1], one[0]))[:MOST]
    return Common(
        id=identity,
        layer=layer,
        label=label,
        values=tuple(Shown(value=short(text, _LONGEST), nodes=many) for text, many in most),
        distinct=len(values),
        known=sum(values.values()) if known is None else known,
    )
