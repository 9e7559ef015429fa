"""Which facts of nodes are compared, and the value that stands for each. Pure.

The declarations of the facts say it (records/about.py): what differs from minute to minute is left out, collections
are compared element by element. What the tables below add holds for many machines side by side, not for two reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, get_type_hints

from tfgpu_doctor.compare.words import described as in_words
from tfgpu_doctor.compare.words import element_text, fact_text, short
from tfgpu_doctor.records.about import LAYERS, OWN_NAME, About, described
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Facts, Gpu, Known, NvLink, PciGpu, Unknown, about, fact_paths
from tfgpu_doctor.records.units import count

ABSENT = "absent"
MOST_ELEMENTS = 2_000  # of a collection; what a report has beyond is not compared
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
    return tuple(
        path
        for path in fact_paths()
        if path != "gpus"
        and path not in _NOT_COMPARED
        and about(path).grade != "noise"
        and about(path).unit != OWN_NAME
    )


@cache
def gpu_fields() -> tuple[str, ...]:
    """Return the fields of a GPU that are compared."""
    return tuple(
        name
        for name, field in described(Gpu).items()
        if name != "index" and (field.grade != "noise" or name in _COMPARED_OF_GPUS)
    )


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


@cache
def path_of(identity: str) -> str:
    """Return the fact that an id is of, or of whose elements one is. Raises KeyError: of none."""
    for path in (*paths(), "messages"):
        if identity == path or identity.startswith(f"{path}."):
            return path
    raise KeyError(identity)


def label(identity: str) -> str:
    """Return what people call a fact; what is none, by its id."""
    try:
        return compared(identity).label
    except KeyError:
        return identity


def rank(layer: str) -> int:
    """Return the place of a layer in the stack, from the hardware up."""
    return LAYERS.index(layer) if layer in LAYERS else len(LAYERS)


@cache
def hint(path: str) -> Any:
    """Return the type of a fact, or of a field of a GPU by "gpus.name"."""
    record, names = (Gpu, [path.partition(".")[2]]) if path.startswith("gpus.") else (Facts, path.split("."))
    found: Any = record
    for name in names:
        found = get_type_hints(found)[name]
    return found


def values_of(path: str, fact: Any) -> Values | None:
    """Return what stands for a fact; None where it is unknown, which is no difference."""
    special = _SPECIAL.get(path)
    if special and isinstance(fact, Known):
        return {path: Value(special(fact.value))}
    field = about(path)
    value = fact.value if isinstance(fact, Known) else fact
    if field.key and not isinstance(value, Unknown):
        return dict(islice(_elements(path, field, value), MOST_ELEMENTS))
    text = fact_text(fact, field.unit)
    return None if text is None else {path: _value(path, value, text, field.unit)}


def _value(path: str, value: Any, text: str, unit: str) -> Value:
    if isinstance(value, bool):
        return Value(("on" if value else "off") if path.endswith("_mode") else text)
    if isinstance(value, float):
        return Value(f"{value:g} {unit}".rstrip(), value)
    if isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
        return Value(short(", ".join(value), 4_000))  # the first eight say nothing of the others
    return Value(text, float(value) if isinstance(value, int) else None)


def _elements(path: str, field: About, value: Any) -> Iterator[tuple[str, Value]]:
    items = value.items() if isinstance(value, dict) else ((getattr(item, field.key), item) for item in value)
    for key, item in items:
        yield f"{path}.{key}", Value(element_text(item) or ABSENT)


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
