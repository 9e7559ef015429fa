"""Values of facts in few words, for lines such as "driver 535.113.01 → 550.54". Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tfgpu_doctor.records.facts import (
    Build,
    CallResult,
    ComputeCheck,
    Gpu,
    Known,
    Limit,
    Message,
    PciGpu,
    Phase,
    Record,
    SmiResult,
    Soname,
    TfDevice,
    Unknown,
    value_or,
)
from tfgpu_doctor.records.units import memory_size

# reasons of unknown facts that are answers: what is asked for does not exist
_NEGATIVE = {
    "no limit": "none",
    "none": "none",
    "not loaded": "not loaded",
    "not on sys.path": "not on sys.path",
}
_LONGEST = 160
MOST = 8  # items of a collection that are named
# the text for an element that only one of the two machines has
_PRESENCE = {
    "variables": ("{0} set to {1}", "{0} unset (was {1})"),
    "messages": ("now printed: {1}", "no longer printed: {1}"),
}


def is_answer(fact: Any) -> bool:
    """Whether a fact is known, or is known not to exist."""
    return not isinstance(fact, Unknown) or fact.reason.partition(":")[0] in _NEGATIVE


def arrow(label: str, good: str | None, bad: str | None) -> str:
    """A change as one line."""
    return f"{label} {good or 'none'} → {bad or 'none'}"


def presence(path: str, label: str, good: str | None, bad: str | None) -> str:
    """An element that one of the two machines does not have, as one line."""
    added, removed = _PRESENCE.get(path, ("{0} added ({1})", "{0} removed (was {1})"))
    text = short((bad if good is None else good) or "") or "nothing"
    return (added if good is None else removed).format(label.rstrip(":"), text)


def entries(label: str, good: Sequence[str], bad: Sequence[str], separator: str) -> str:
    """How a list changed; in full where nothing of it remained."""
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
    """A fact in words; None when it is unknown."""
    if isinstance(fact, Unknown):
        return _NEGATIVE.get(fact.reason.partition(":")[0])
    return described(fact.value if isinstance(fact, Known) else fact, unit)


def element_text(element: Any) -> str | None:
    """What stands for an element of a collection whose key is told already; None when it is absent."""
    if element is None or isinstance(element, str):
        return element
    if hasattr(element, "version"):
        return element.version or "unknown version"
    return described(element[0] if isinstance(element, tuple) else element)


def described(value: Any, unit: str = "") -> str:
    """A value in words, with its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return memory_size(value) if unit == "bytes" else f"{value} {unit}".rstrip()
    if isinstance(value, tuple | dict):
        return f"{len(value)} {unit}" if unit not in ("", "path") else _listed(tuple(value))
    in_words = _BY_TYPE.get(type(value))
    return in_words(value) if in_words else _item(value)


def _listed(values: tuple[Any, ...]) -> str:
    in_words = _TOGETHER.get(type(values[0])) if values else None
    if in_words:
        return in_words(values)
    more = f" and {len(values) - MOST} more" * (len(values) > MOST)
    return ", ".join(map(described, values[:MOST])) + more or "none"


def _item(value: Any) -> str:
    """One value; of a record its first field, which names it, and the version or the problem where it has one."""
    if not isinstance(value, Record):
        return "none" if value is None else short(str(value))
    more = getattr(value, "problem", None) or getattr(value, "version", None)
    return str(getattr(value, value.__struct_fields__[0])) + (f" ({more})" if more else "")


def _call(value: CallResult) -> str:
    return f"{value.code} ({value.name or value.message})" if value.code else "success"


def _build(value: Build) -> str:
    if not value.is_cuda_build:
        return "the CPU"
    return f"CUDA {value.cuda_version or '?'}, cuDNN {value.cudnn_version or '?'}"


def _phase(value: Phase) -> str:
    how = value.exception or value.signal
    return f"{value.outcome} ({short(how, 100)})" if how and value.outcome != "ok" else value.outcome


def _devices(devices: Iterable[TfDevice]) -> str:
    gpus = Counter(device.device_name or "GPU" for device in devices if device.kind == "GPU")
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in gpus.items()) or "no GPU"


def _checks(checks: Sequence[ComputeCheck]) -> str:
    failed = [f"{check.kind} on {check.device}" for check in checks if not check.ok]
    return f"wrong or failed: {', '.join(failed)}" if failed else f"{len(checks)} verified"


def _library(library: Soname) -> str:
    """How the loader fares with a library."""
    state = library.state
    if state == "fine":
        via = next((found.via for found in library.candidates if found.path == library.winner), None)
        return f"found by {via}" if via else "found"
    blocking = next((found for found in library.candidates if found.is_in_the_way), None)
    if state == "off path" and blocking:
        return f"behind {blocking.path} ({blocking.problem})"
    if state == "off path":
        return "installed, but not on the loader path"
    if state == "unloadable":
        return f"cannot be loaded ({library.candidates[0].problem})"
    return "only another version" if state == "other version" else "absent"


_BY_TYPE: dict[type, Callable[[Any], str]] = {
    Build: _build,
    CallResult: _call,
    Gpu: lambda gpu: value_or(gpu.name, "unknown model"),
    Limit: lambda limit: "none" if limit.soft is None else memory_size(limit.soft),
    Message: lambda message: message.text,
    PciGpu: lambda gpu: gpu.name or gpu.device_id,
    Phase: _phase,
    SmiResult: lambda result: f"exit code {result.exit_code}" if result.exit_code else "success",
    Soname: _library,
}
_TOGETHER: dict[type, Callable[[Any], str]] = {ComputeCheck: _checks, TfDevice: _devices}
