"""How two machines differ, in people's words, grouped by what somebody would have changed. Pure.

What the declaration of a fact says (facts/about.py) decides how it is compared: facts by their values, collections
element by element, hardware field by field. Values stand in few words, for lines such as "driver 535.113.01 → 550.54".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from tfgpu_doctor.compare.records import Status
from tfgpu_doctor.facts.about import LAYERS, About, Layer, described
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import (
    Build,
    CallResult,
    ComputeCheck,
    DamagedPackage,
    Facts,
    FailingFile,
    Gpu,
    Known,
    Limit,
    Message,
    PciGpu,
    Phase,
    ShadowedModule,
    SmiResult,
    Soname,
    TfDevice,
    Unknown,
    about,
    fact_paths,
    look_up,
    value_or,
)
from tfgpu_doctor.facts.units import memory_size

_LISTS = frozenset({"LD_LIBRARY_PATH", "PYTHONPATH", "LD_PRELOAD"})
_LAYERS: dict[str, Layer] = {"cudnn": "cuDNN", "driver": "Driver"}  # of libraries, by component
# when TensorFlow wrote a line, which no two runs share
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ")
_NEAR = 0.03  # kernels reserve a little more or less memory


class Difference(NamedTuple):
    """One thing that differs."""

    path: str  # of the fact
    key: str | None  # of an element of its collection
    field: str | None  # of that element
    about: About  # with its layer and grade; differences that one act brings about share its group
    good: str | None
    bad: str | None
    status: Status
    text: str

    @property
    def id(self) -> str:
        """What the difference is called: "python.packages.numpy"."""
        return ".".join(filter(None, (self.path, self.key, self.field)))

    @property
    def layer(self) -> Layer:
        """The layer of the stack."""
        return self.about.layer or "Machine"


def differences(good: Facts, bad: Facts) -> list[Difference]:
    """Return all differences, in the order of the stack."""
    skipped = [
        any(phase.name == "import" and phase.outcome == "skipped" for phase in facts.tensorflow.phases)
        for facts in (good, bad)
    ]
    silent = skipped[0] != skipped[1]  # a program that was not started prints nothing
    paths = [path for path in fact_paths() if not (silent and path == "messages")]
    found = [difference for path in paths for difference in _of_fact(path, good, bad)]
    # the release counts once where its package has changed as well
    packages = {(change.good, change.bad) for change in found if change.key in TENSORFLOW}
    found = [_noise(one) if one.id == "tensorflow.version" and one[4:6] in packages else one for one in found]
    return sorted(found, key=lambda difference: LAYERS.index(difference.layer))


def _noise(difference: Difference) -> Difference:
    return difference._replace(about=difference.about._replace(grade="noise"))


def described_as(path: str, key: str | None = None) -> About:
    """Return the description of a fact, or of an element of its collection, with its layer."""
    field = about(path)
    layer: Layer = "TensorFlow" if path == "python.packages" and key in TENSORFLOW else field.layer or "Machine"
    if key is None:
        return field._replace(layer=layer)
    return field._replace(layer=layer, label=field.element.format(key), group="")


def elements(path: str, fact: Any) -> dict[str, Any] | None:
    """Return the elements of a collection by the key that its declaration names; None: it is none, or is unknown."""
    key = about(path).key
    if isinstance(fact, Unknown) or not key:
        return None
    value = fact.value if isinstance(fact, Known) else fact
    if path == "messages":  # the lines of one kind go together: their numbers differ from run to run
        kinds = dict.fromkeys(message.kind for message in value)
        return {kind: tuple(message for message in value if message.kind == kind) for kind in kinds}
    pairs = value.items() if isinstance(value, dict) else value
    return dict(one if isinstance(one, tuple) else (str(getattr(one, key)), one) for one in pairs)


def _of_fact(path: str, good: Facts, bad: Facts) -> Iterator[Difference]:
    before, after = look_up(good, path), look_up(bad, path)
    olds, news = elements(path, before), elements(path, after)
    if olds is not None and news is not None:
        for key in dict.fromkeys((*olds, *news)):
            yield from _of_element(path, key, olds.get(key), news.get(key))
        return
    found = _of_values((path, None, None), described_as(path), before, after)
    if found and path == "driver.version" and found.status != "changed":
        without = bad if found.status == "lost" else good
        if value_or(without.driver.libcuda, None) == ():  # no library of a driver means no driver
            found = found._replace(status="changed", text=arrow("driver", found.good, found.bad))
    if found:
        yield _noise(found) if path == "messages" else found


def _of_values(place: tuple[str, str | None, str | None], field: About, before: Any, after: Any) -> Difference | None:
    """Return the difference of one fact, or of one field of an element; None where nothing can be seen to differ."""
    good, bad = fact_text(before, field.unit), fact_text(after, field.unit)
    old: Any = getattr(before, "value", None)
    new: Any = getattr(after, "value", None)
    known = is_answer(before), is_answer(after)
    status: Status = "changed" if all(known) else "lost" if known[0] else "unexamined"
    is_same = good == bad or (status == "changed" and old == new and isinstance(before, Known))
    if is_same or not any(known):
        return None
    text = f"{field.label}: {good or bad}"
    if status == "changed":
        are_long = _is_long_list(old) and _is_long_list(new)
        text = entries(field.label, old, new, " ") if are_long else arrow(field.label, good, bad)
    if field.unit == "bytes" and None not in (old, new) and abs(old - new) < _NEAR * max(old, new):
        field = field._replace(grade="noise")
    return Difference(*place, field, good, bad, status, text)


def _is_long_list(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > _MOST and isinstance(value[0], str)


def _of_element(path: str, key: str, before: Any, after: Any) -> Iterator[Difference]:
    """Yield the difference of one element of a collection; of hardware that both have, field by field."""
    field, good, bad = described_as(path, key), element_text(before), element_text(after)
    is_in_both = before is not None and after is not None
    if is_in_both and isinstance(before, Gpu | PciGpu):
        yield from _of_hardware(path, key, before, after)
        return
    # phases count where both reached them, libraries where both TensorFlows open them, messages where one printed them
    if good == bad or (path in ("tensorflow.phases", "loader.sonames") and not is_in_both):
        return
    if path == "messages" and is_in_both:
        return
    status: Status = "added" if before is None else "removed" if after is None else "changed"
    if isinstance(before, Phase) and "skipped" in (before.outcome, after.outcome):
        status = "unexamined" if before.outcome == "skipped" else "lost"
        field = field._replace(grade="noise")
    if isinstance(before, Soname):
        field = field._replace(layer=_LAYERS.get(before.component, "CUDA"))
    yield Difference(path, key, None, field, good, bad, status, _element_change(path, key, good, bad))


def _of_hardware(path: str, key: str, before: Gpu | PciGpu, after: Any) -> Iterator[Difference]:
    whole = described_as(path, key)
    for name, one in described(type(before)).items():
        group = one.group or (f"{path}.{key}" if one.grade == "state" else "")
        field = one._replace(label=f"{whole.label}: {one.label}", layer=one.layer or whole.layer, group=group)
        if found := _of_values((path, key, name), field, getattr(before, name), getattr(after, name)):
            yield found


def _element_change(path: str, key: str, good: str | None, bad: str | None) -> str:
    label = about(path).element.format(key)
    if good is None or bad is None:
        text = short(_STAMP.sub("", good or bad or "")) or "nothing"
        added, removed = _PRESENCE.get(path, ("{0} added ({1})", "{0} removed (was {1})"))
        return (added if good is None else removed).format(label.rstrip(":"), text)
    if key in _LISTS:
        return entries(key, good.split(":"), bad.split(":"), ":")
    return arrow(label, short(good), short(bad))


# -------------------------------------------------------------------------------------------------------------- words

# reasons of unknown facts that are answers: what is asked for does not exist
_NEGATIVE = {
    "no limit": "none",
    "none": "none",
    "not loaded": "not loaded",
    "not on sys.path": "not on sys.path",
    "not a conda environment": "none",
}
_LONGEST = 160
_MOST = 8  # items of a collection that are named
# the text for an element that only one of the two machines has
_PRESENCE = {
    "variables": ("{0} set to {1}", "{0} unset (was {1})"),
    "messages": ("now printed: {1}", "no longer printed: {1}"),
    "python.damaged": ("{0}: {1}", "{0} whole again (was: {1})"),
    "python.failing_files": ("{0} fails ({1})", "{0} no longer fails (was {1})"),
    "python.shadowed": ("{0} now finds {1}", "{0} no longer finds {1}"),
}


def is_answer(fact: Any) -> bool:
    """True if a fact is known, or is known not to exist."""
    return not isinstance(fact, Unknown) or fact.reason.partition(":")[0] in _NEGATIVE


def arrow(label: str, good: str | None, bad: str | None) -> str:
    """Return a change as one line."""
    return f"{label} {good or 'none'} → {bad or 'none'}"


def entries(label: str, good: Sequence[str], bad: Sequence[str], separator: str) -> str:
    """Return how a list changed; in full where nothing of it remained."""
    removed = separator.join(entry for entry in good if entry not in bad)
    added = separator.join(entry for entry in bad if entry not in good)
    if not set(good) & set(bad):
        return arrow(f"{label}:", short(separator.join(good)), short(separator.join(bad)))
    parts = [f"{short(removed)} removed"] * bool(removed) + [f"{short(added)} added"] * bool(added)
    return f"{label}: {', '.join(parts) or 'another order'}"


def short(text: str, longest: int = _LONGEST) -> str:
    """Cut a long text in its middle."""
    if len(text) <= longest:
        return text
    half = (longest - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def fact_text(fact: Any, unit: str = "") -> str | None:
    """Return a fact in words; None when it is unknown."""
    if isinstance(fact, Unknown):
        return _NEGATIVE.get(fact.reason.partition(":")[0])
    return in_words(fact.value if isinstance(fact, Known) else fact, unit)


def element_text(element: Any) -> str | None:
    """Return what stands for an element of a collection whose key is told already; None when it is absent."""
    if element is None or isinstance(element, str):
        return element
    if hasattr(element, "version") and type(element) not in _BY_TYPE:
        return element.version or "unknown version"
    return in_words(element[0] if isinstance(element, tuple) else element)


def in_words(value: Any, unit: str = "") -> str:
    """Return a value in words, with its unit; a record by its first field, and its version or problem."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return memory_size(value) if unit == "bytes" else f"{value} {unit}".rstrip()
    if isinstance(value, tuple | dict) and unit not in ("", "path"):
        return f"{len(value)} {unit}"
    if isinstance(value, tuple | dict):
        return _all_in_words(tuple(value))
    return "none" if value is None else _record_in_words(value) if isinstance(value, Struct) else short(str(value))


def _all_in_words(values: tuple[Any, ...]) -> str:
    first = values[0] if values else None
    if isinstance(first, ComputeCheck):
        failed = ", ".join(f"{check.kind} on {check.device}" for check in values if not check.ok)
        return f"wrong or failed: {failed}" if failed else f"{len(values)} verified"
    if isinstance(first, TfDevice):
        gpus = Counter(device.device_name or "GPU" for device in values if device.kind == "GPU")
        return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in gpus.items()) or "no GPU"
    more = f" and {len(values) - _MOST} more" * (len(values) > _MOST)
    return ", ".join(map(in_words, values[:_MOST])) + more or "none"


def _record_in_words(value: Struct) -> str:
    if type(value) in _BY_TYPE:
        return _BY_TYPE[type(value)](value)
    about_it = getattr(value, "problem", None) or getattr(value, "version", None)
    return str(getattr(value, value.__struct_fields__[0])) + (f" ({about_it})" if about_it else "")


def _phase(value: Phase) -> str:
    how = value.exception or value.signal
    return f"{value.outcome} ({short(how, 100)})" if how and value.outcome != "ok" else value.outcome


def _damage(value: DamagedPackage) -> str:
    """Return the first of its files that is not as it was installed, and how many there are."""
    named = [f"{file} missing" for file in value.missing] + [f"{file} overwritten" for file in value.overwritten]
    more = max(value.files, len(named)) - 1
    return (named[0] if named else "damaged") + (f" and {more} more" if more > 0 else "")


def _library(library: Soname) -> str:
    """Return how the loader fares with a library."""
    if library.state == "fine":
        via = next((found.via for found in library.candidates if found.path == library.winner), None)
        return f"found by {via}" if via else "found"
    if library.state == "off path":
        blocking = next((found for found in library.candidates if found.is_in_the_way), None)
        return f"behind {blocking.path} ({blocking.problem})" if blocking else "installed, but not on the loader path"
    if library.state == "unloadable":
        return f"cannot be loaded ({library.candidates[0].problem})"
    return "only another version" if library.state == "other version" else "absent"


_BY_TYPE: dict[type, Callable[[Any], str]] = {
    Build: lambda value: (
        f"CUDA {value.cuda_version or '?'}, cuDNN {value.cudnn_version or '?'}" if value.is_cuda_build else "the CPU"
    ),
    CallResult: lambda call: f"{call.code} ({call.name or call.message})" if call.code else "success",
    DamagedPackage: _damage,
    FailingFile: lambda file: f"of {file.package} {file.version or ''}".rstrip() if file.package else "of no package",
    Gpu: lambda gpu: value_or(gpu.name, "unknown model"),
    Limit: lambda limit: "none" if limit.soft is None else memory_size(limit.soft),
    Message: lambda message: message.text,
    PciGpu: lambda gpu: gpu.name or gpu.device_id,
    Phase: _phase,
    ShadowedModule: lambda module: module.path,
    SmiResult: lambda result: f"exit code {result.exit_code}" if result.exit_code else "success",
    Soname: _library,
}
