"""Which facts of nodes are compared, and what stands for a value of each. Pure.

The declarations of the facts say it (records/about.py): what differs from minute to minute is left out, collections
are compared element by element. What the tables below add holds for many machines side by side, not for two reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import msgspec

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
# declared as noise, because an idle card lowers its link; it does not drop lanes, and an NVLink that is down stays so
_COMPARED_OF_GPUS = frozenset({"pcie_width", "nvlinks"})
_NOT_OF_GPUS = frozenset({"index"})
_NEAR = {"bytes": 0.03, "MHz": 0.01, "W": 0.01}  # relative; kernels reserve a little more or less memory
_XID = re.compile(r"Xid \([^)\n]{0,80}\): (\d{1,4})\b")  # "NVRM: Xid (PCI:0000:65:00): 79, pid=1234, …"


class Value(NamedTuple):
    """What a node has: the text that is shown, and the number where it is one."""

    text: str
    number: float | None = None


# the values of one fact: of a collection one by element; (id, value)
Leaf = tuple[tuple[str, Value], ...]


class Compared(NamedTuple):
    """What is compared between nodes, or between their GPUs."""

    id: str  # "driver.version", "python.packages.numpy", "gpus.pcie_width"
    layer: str
    label: str
    unit: str
    group: str  # what one act changes together
    observed: bool  # it follows from something else

    @property
    def tolerance(self) -> float:
        """How much numbers may differ that count as the same, relative to the larger one."""
        return _NEAR.get(self.unit, 0.0)

    @property
    def rank(self) -> int:
        """Place in the stack, from the hardware up."""
        return LAYERS.index(self.layer) if self.layer in LAYERS else len(LAYERS)


@cache
def paths() -> tuple[str, ...]:
    """The facts of a node that are compared, in the order of their declarations; GPUs are compared by themselves."""
    return tuple(path for path in fact_paths() if path != "gpus" and path not in _NOT_COMPARED and _is_compared(path))


def _is_compared(path: str) -> bool:
    return about(path).grade != "noise" and about(path).unit != OWN_NAME


@cache
def gpu_fields() -> tuple[str, ...]:
    """The fields of a GPU that are compared."""
    return tuple(
        name
        for name, field in described(Gpu).items()
        if name not in _NOT_OF_GPUS and (field.grade != "noise" or name in _COMPARED_OF_GPUS)
    )


@cache
def compared(identity: str) -> Compared:
    """What is known of an id, which is a path, the path of a field of GPUs, or a path with the key of an element."""
    if identity == "gpus":
        return Compared("gpus", "GPU", "GPUs", "", "gpus", False)
    if identity.startswith("gpus."):
        name = identity.partition(".")[2]
        field = about(identity)
        observed = field.grade == "observation"
        return Compared(identity, "GPU", field.label, field.unit, f"gpus.{_WITH.get(name, name)}", observed)
    path = path_of(identity)
    field, key = about(path), identity[len(path) + 1 :]
    label = field.element.format(key).rstrip(":") if key else field.label
    layer = "TensorFlow" if path == "python.packages" and key in TENSORFLOW else field.layer or "Machine"
    observed = field.grade == "observation"
    unit, group = ("", identity) if key else (field.unit, field.group or path)
    return Compared(identity, layer, label, unit, group, observed)


def path_of(identity: str) -> str:
    """The fact that an id is of, or of whose elements one is. Raises KeyError: of none."""
    for path in (*paths(), "messages"):
        if identity == path or identity.startswith(f"{path}."):
            return path
    raise KeyError(identity)


def label(identity: str) -> str:
    """What people call a fact; what is none, by its id."""
    try:
        return compared(identity).label
    except KeyError:
        return identity


# fields of a GPU that one setting changes together
_WITH = {"pcie_width": "pcie", "pcie_width_max": "pcie", "pcie_generation_max": "pcie", "mig_instances": "mig_mode"}


@cache
def hint(path: str) -> Any:
    """The type of a fact, or of a field of a GPU by "gpus.name"."""
    record, names = (Gpu, [path.partition(".")[2]]) if path.startswith("gpus.") else (Facts, path.split("."))
    found: Any = record
    for name in names:
        found = get_type_hints(found)[name]
    return found


def leaf(path: str, fact: Any) -> Leaf | None:
    """What stands for a fact; None where it is unknown, which is no difference."""
    special = _SPECIAL.get(path)
    if special and isinstance(fact, Known):
        return ((path, special(fact.value)),)
    field = about(path)
    value = fact.value if isinstance(fact, Known) else fact
    if field.key and not isinstance(value, Unknown):
        return tuple(_elements(path, field, value))
    text = fact_text(fact, field.unit)
    if text is None:
        return None
    if isinstance(value, bool) and path.endswith("_mode"):
        text = "on" if value else "off"
    if isinstance(value, float):
        text = f"{value:g} {field.unit}".rstrip()
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return ((path, Value(_whole(value) or text, float(value) if is_number else None)),)


def _whole(value: Any) -> str:
    """A list of texts in full, as far as it can be shown: the first eight say nothing of the others."""
    if isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
        return short(", ".join(value), 4_000)
    return ""


def _elements(path: str, field: About, value: Any) -> Iterator[tuple[str, Value]]:
    items = value.items() if isinstance(value, dict) else ((getattr(item, field.key), item) for item in value)
    for number, (key, item) in enumerate(items):
        if number >= MOST_ELEMENTS:
            return
        yield f"{path}.{key}", Value(element_text(item) or ABSENT)


def _xids(events: tuple[str, ...]) -> Value:
    """The numbers, since each line has its time: "Xid 79, 94"."""
    numbers = sorted({int(found[1]) for line in events if (found := _XID.search(line))})
    return Value(f"Xid {', '.join(map(str, numbers))}" if numbers else in_words(events) if events else "none")


def _on_the_bus(gpus: tuple[PciGpu, ...]) -> Value:
    """Counted by device id: names come from a list that is newer on one machine than on the other."""
    counted = Counter(f"{gpu.device_id} ({gpu.driver or 'no driver'})" for gpu in gpus)
    return Value(", ".join(f"{many} × {name}" for name, many in sorted(counted.items())) or "none")


def _links(links: tuple[NvLink, ...]) -> Value:
    return Value(f"{sum(link.active for link in links)} of {len(links)} active" if links else "none")


_SPECIAL: dict[str, Callable[[Any], Value]] = {
    "driver.xid_events": _xids,
    "host.pci_gpus": _on_the_bus,
    "gpus.nvlinks": _links,
    "gpus.mig_instances": lambda names: Value(count(len(names), "instance") if names else "none"),
    "host.cpu_flags": lambda flags: Value(short(" ".join(sorted(flags)), 4_000)),
}


def decode(path: str, raw: bytes) -> Leaf | None:
    """What stands for a fact that is still JSON. Raises msgspec.ValidationError: it is no such fact."""
    return leaf(path, _decoder(path).decode(raw))


@cache
def _decoder(path: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(hint(path))
