"""How two machines differ, in people's words, grouped by what somebody would have changed. Pure.

What the declaration of a fact says (records/about.py) decides how it is compared: facts by their values, collections
element by element, hardware field by field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from msgspec import Struct

from tfgpu_doctor.compare.records import Status
from tfgpu_doctor.compare.words import MOST, arrow, element_text, entries, fact_text, is_answer, presence, short
from tfgpu_doctor.records.about import LAYERS, About, Grade, Layer, described
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import (
    Facts,
    Gpu,
    Known,
    Package,
    PciGpu,
    Phase,
    Soname,
    Unknown,
    about,
    fact_paths,
    look_up,
    value_or,
)

_LISTS = frozenset({"LD_LIBRARY_PATH", "PYTHONPATH", "LD_PRELOAD"})
_OBSERVED = ("tensorflow.phases", "messages")  # phases count where both reached them, messages where one printed them
_LAYERS: dict[str, Layer] = {"cudnn": "cuDNN", "driver": "Driver"}  # of libraries, by component
# when TensorFlow wrote a line, which no two runs share
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ")


@dataclass(frozen=True)
class FactPath:
    """A fact by its path; with `key`, one element of its collection; with `field`, that field of the element."""

    path: str
    key: str | None = None
    field: str | None = None

    @property
    def id(self) -> str:
        """The path as one text: "gpus.0.name"."""
        return ".".join(part for part in (self.path, self.key, self.field) if part is not None)


def elements(facts: Facts, path: str) -> dict[str, Any] | None:
    """The elements of a collection by the key that its declaration names; None when it is unknown."""
    found = look_up(facts, path)
    if isinstance(found, Unknown):
        return None
    value, key = found.value if isinstance(found, Known) else found, about(path).key
    if path == "messages":  # the lines of one kind go together: their numbers differ from run to run
        kinds = dict.fromkeys(message.kind for message in value)
        return {kind: tuple(message for message in value if message.kind == kind) for kind in kinds}
    return dict(value) if isinstance(value, dict) else {str(getattr(item, key)): item for item in value}


@dataclass(frozen=True)
class Difference:
    """One thing that differs; differences that one act brings about share a group."""

    path: FactPath
    layer: Layer
    label: str
    text: str
    good: str | None
    bad: str | None
    status: Status
    grade: Grade
    group: str

    @property
    def id(self) -> str:
        """What the difference is called: "python.packages.numpy"."""
        return self.path.id


def differences(good: Facts, bad: Facts) -> list[Difference]:
    """All differences, in the order of the stack."""
    silent = _was_not_imported(good) != _was_not_imported(bad)  # a program that was not started prints nothing
    paths = [path for path in fact_paths() if not (silent and path == "messages")]
    found = [difference for path in paths for difference in _of_fact(path, good, bad)]
    return sorted(_once(found), key=lambda difference: LAYERS.index(difference.layer))


def _was_not_imported(facts: Facts) -> bool:
    return any(phase.name == "import" and phase.outcome == "skipped" for phase in facts.tensorflow.phases)


def changed_elements(good: Facts, bad: Facts, path: str) -> Iterator[tuple[str, Any, Any]]:
    """(key, element in good, element in bad) of a collection that both know; None where it is absent."""
    before, after = elements(good, path), elements(bad, path)
    if before is None or after is None:
        return
    for key in dict.fromkeys((*before, *after)):
        if _settled(before.get(key)) != _settled(after.get(key)):
            yield key, before.get(key), after.get(key)


def _settled(element: Any) -> Any:
    """An element without what differs from minute to minute; hardware is compared field by field anyway."""
    if not isinstance(element, Struct) or isinstance(element, Gpu | PciGpu):
        return element
    fields = described(type(element))
    return [getattr(element, field) for field in element.__struct_fields__ if fields[field].grade != "noise"]


def _of_fact(path: str, good: Facts, bad: Facts) -> Iterator[Difference]:
    is_collection = about(path).key and elements(good, path) is not None and elements(bad, path) is not None
    if is_collection:
        for key, before, after in changed_elements(good, bad, path):
            yield from _of_element(FactPath(path, key), before, after)
        return
    before, after = look_up(good, path), look_up(bad, path)
    found = _of_values(FactPath(path), about(path), before, after)
    if found is None:
        return
    if path == "driver.version" and found.status != "changed":
        without = bad if found.status == "lost" else good
        if value_or(without.driver.libcuda, None) == ():  # no library of a driver means no driver
            found = replace(found, status="changed", text=arrow("driver", found.good, found.bad))
    yield replace(found, grade="noise") if path == "messages" else found


def _of_values(path: FactPath, field: About, before: Any, after: Any) -> Difference | None:
    """The difference of one fact, or of one field of an element; None where nothing can be seen to differ."""
    status = _status(before, after)
    good, bad = fact_text(before, field.unit), fact_text(after, field.unit)
    if status is None or (status == "changed" and good == bad):
        return None
    old, new = (fact.value if isinstance(fact, Known) else None for fact in (before, after))
    text = arrow(field.label, good, bad) if status == "changed" else f"{field.label}: {good or bad}"
    if _is_long_list(old) and _is_long_list(new):
        text = entries(field.label, old, new, " ")
    grade: Grade = "noise" if field.unit == "bytes" and _are_near(old, new) else field.grade
    return Difference(
        path, field.layer or "Machine", field.label, text, good, bad, status, grade, field.group or path.id
    )


def _is_long_list(value: Any) -> TypeGuard[tuple[str, ...]]:
    return isinstance(value, tuple) and len(value) > MOST and isinstance(value[0], str)


def _are_near(before: int | None, after: int | None) -> bool:
    """Kernels reserve a little more or less memory."""
    return before is not None and after is not None and abs(before - after) < 0.03 * max(before, after)


def _status(before: Any, after: Any) -> Status | None:
    """How a fact differs; None when it does not, or neither is known."""
    known = is_answer(before), is_answer(after)
    if known == (True, True):
        values = [fact.value if isinstance(fact, Known) else fact for fact in (before, after)]
        both_absent = isinstance(before, Unknown) and isinstance(after, Unknown)
        return None if both_absent or values[0] == values[1] else "changed"
    return None if known == (False, False) else "lost" if known[0] else "unexamined"


def _of_element(path: FactPath, before: Any, after: Any) -> Iterator[Difference]:
    """The difference of one element of a collection; that of hardware, of which both have it, field by field."""
    element, is_in_both = before or after, before is not None and after is not None
    if is_in_both and isinstance(before, Gpu | PciGpu):
        yield from _of_hardware(path, before, after)
        return
    if is_in_both == (path.path == "messages") and path.path in _OBSERVED:
        return
    field, good, bad = about(path.path), element_text(before), element_text(after)
    grade: Grade = "noise" if good == bad else field.grade
    status: Status = "added" if good is None else "removed" if bad is None else "changed"
    if isinstance(element, Soname):
        status, grade = "changed", grade if is_in_both else "noise"  # what another TensorFlow opens is its matter
        good, bad = _of_libraries(before, after)
    elif isinstance(before, Phase) and "skipped" in (before.outcome, after.outcome):
        status, grade = "unexamined" if before.outcome == "skipped" else "lost", "noise"
    text = _text(path, good, bad)
    yield Difference(path, _layer(path, element), about(path.path).label, text, good, bad, status, grade, path.id)


def _of_libraries(before: Soname | None, after: Soname | None) -> tuple[str, str]:
    """What the loader opens for a soname; with the file where that alone is another."""
    good, bad = element_text(before) or "not wanted", element_text(after) or "not wanted"
    if before and after and good == bad:
        return f"{good} ({before.winner})", f"{bad} ({after.winner})"
    return good, bad


def _of_hardware(path: FactPath, before: Gpu | PciGpu, after: Gpu | PciGpu) -> Iterator[Difference]:
    collection = about(path.path)
    for name, field in described(type(before)).items():
        where = replace(path, field=name)
        group = field.group or (path.id if field.grade == "state" else where.id)
        label = f"{collection.element.format(path.key)}: {field.label}"
        field = field._replace(label=label, layer=field.layer or collection.layer, group=group)
        found = _of_values(where, field, getattr(before, name), getattr(after, name))
        if found:
            yield found


def _layer(path: FactPath, element: Any) -> Layer:
    if isinstance(element, Soname):
        return _LAYERS.get(element.component, "CUDA")
    if isinstance(element, Package) and element.name in TENSORFLOW:
        return "TensorFlow"
    return about(path.path).layer or "Machine"


def _text(path: FactPath, good: str | None, bad: str | None) -> str:
    label = about(path.path).element.format(path.key)
    if good is None or bad is None:
        return presence(path.path, label, *(_STAMP.sub("", side) if side else side for side in (good, bad)))
    if path.key in _LISTS:
        return entries(path.key or "", good.split(":"), bad.split(":"), ":")
    return arrow(label, short(good), short(bad))


def _once(found: list[Difference]) -> Iterator[Difference]:
    """A line that is of two kinds of messages counts once, and so does a release whose package has changed as well."""
    packages = {(change.good, change.bad) for change in found if change.path.key in TENSORFLOW}
    lines: set[str | None] = set()
    for difference in found:
        if difference.path.path == "messages":
            line = difference.good or difference.bad
            if line in lines:
                continue
            lines.add(line)
        is_known = difference.id == "tensorflow.version" and (difference.good, difference.bad) in packages
        yield replace(difference, grade="noise") if is_known else difference
