"""The differences of what comes in numbers: GPUs, packages, variables, libraries, toolkits, phases. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.compare.differences import COLLECTIONS, Difference, Grade, field_of, pairs, status_of
from tfgpu_doctor.compare.places import Place, elements
from tfgpu_doctor.compare.records import Status
from tfgpu_doctor.compare.words import NEGATIVE, arrow, described, entries, library, short, size
from tfgpu_doctor.findings.python import PROVIDERS
from tfgpu_doctor.records.facts import Facts, Gpu, Known, Package, PciGpu, Phase, Soname, Unknown, look_up, value_or

_SEEN = frozenset({"fault", "ecc_uncorrected", "remapped_rows_pending", "remapped_rows_failed"})
_MOMENT = frozenset(
    {
        *("memory_used", "memory_free", "processes", "utilization", "temperature", "power", "sm_clock", "memory_clock"),
        *("throttle_reasons", "performance_state", "pcie_generation", "pcie_width", "display_active", "uuid"),
        *("pci_bus_id", "nvlinks", "numa_node"),
    }
)
_LISTS = frozenset({"LD_LIBRARY_PATH", "PYTHONPATH", "LD_PRELOAD"})
# when TensorFlow wrote a line, which no two runs share
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ")
_WHEEL = re.compile(r"[\\/]nvidia[\\/](\w+)[\\/]")


def collections(good: Facts, bad: Facts) -> Iterator[Difference]:
    """The differences of all collections, in the order of the stack."""
    for path in sorted(COLLECTIONS):
        one, other = look_up(good, path), look_up(bad, path)
        status = status_of(one, other)
        if status in ("lost", "unexamined"):
            yield _whole(path, status, other if status == "unexamined" else one)
    yield from _gpus(good, bad)
    yield from _pci(good, bad)
    yield from _toolkits(good, bad)
    yield from _libraries(good, bad)
    yield from _cudnn(good, bad)
    for path in ("python.packages", "cuda.conda_packages"):
        yield from _packages(good, bad, path)
    yield from _variables(good, bad)
    yield from _phases(good, bad)
    yield from _messages(good, bad)


_LABELS = {
    "gpus": ("GPUs", "GPU", "gpus"),
    "host.pci_gpus": ("GPUs on the PCI bus", "GPU", "gpus"),
    "cuda.toolkits": ("CUDA toolkits", "CUDA", None),
    "cuda.conda_packages": ("conda packages", "CUDA", None),
    "loader.sonames": ("libraries that TensorFlow opens", "CUDA", None),
    "cudnn.installed": ("cuDNN on disk", "cuDNN", "cudnn"),
    "python.packages": ("packages", "Python", None),
    "variables": ("environment variables", "Python", None),
}


def _whole(path: str, status: Status, fact: Any) -> Difference:
    label, layer, group = _LABELS.get(path, (field_of(path).label, field_of(path).layer, None))
    value = fact.value if isinstance(fact, Known) else ()
    text = ", ".join(value_or(gpu.name, "GPU") for gpu in value) if path == "gpus" else f"{len(value)}"
    before, after = (None, text) if status == "unexamined" else (text, None)
    grade: Grade = "noise" if path == "messages" else "state"
    return Difference(path, layer, f"{label}: {text}", before, after, status, grade, group or path, (Place(path),))


def _one(
    path: str,
    name: str,
    text: str,
    good: str | None,
    bad: str | None,
    *,
    layer: str,
    grade: Grade = "state",
    group: str | None = None,
    field: str | None = None,
) -> Difference:
    identity = ".".join(filter(None, (path, name, field)))
    status: Status = "added" if good is None else "removed" if bad is None else "changed"
    place = Place(path, name, field)
    return Difference(identity, layer, text, good, bad, status, grade, group or identity, (place,))


# ---------------------------------------------------------------------------------------------------- GPUs


def _gpus(good: Facts, bad: Facts) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, "gpus"):
        if one is None or other is None:
            text, sides = _presence(f"GPU {name}", _model(one), _model(other))
            yield _one("gpus", name, text, *sides, layer="GPU", group="gpus")
            continue
        for field in Gpu.__struct_fields__:
            if field == "index":
                continue
            status = status_of(getattr(one, field), getattr(other, field))
            if status is not None:
                yield _gpu_field(name, field, getattr(one, field), getattr(other, field), status)


def _model(gpu: Gpu | None) -> str | None:
    return None if gpu is None else value_or(gpu.name, "unknown model")


def _gpu_field(name: str, field: str, one: Any, other: Any, status: Status) -> Difference:
    grade: Grade = "noise" if field in _MOMENT else "observation" if field in _SEEN else "state"
    good, bad = (_gpu_value(field, fact) for fact in (one, other))
    label = f"GPU {name}: {field.replace('_', ' ')}"
    text = arrow(label, good, bad) if status == "changed" else f"{label} {good or bad}"
    group = f"gpus.{name}" if grade == "state" else f"gpus.{name}.{field}"
    return Difference(
        f"gpus.{name}.{field}", "GPU", text, good, bad, status, grade, group, (Place("gpus", name, field),)
    )


def _gpu_value(field: str, fact: Any) -> str | None:
    if isinstance(fact, Unknown):
        return NEGATIVE.get(fact.reason)
    if field.startswith("memory_") and "clock" not in field:
        return size(fact.value)
    return described(f"gpus.{field}", fact.value)


def _presence(label: str, good: str | None, bad: str | None) -> tuple[str, tuple[str | None, str | None]]:
    text = f"{label} gone ({good})" if bad is None else f"{label} new ({bad})"
    return text, (good, bad)


def _pci(good: Facts, bad: Facts) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, "host.pci_gpus"):
        if one is None or other is None:
            text, sides = _presence(f"PCI device {name}", _pci_model(one), _pci_model(other))
            yield _one("host.pci_gpus", name, text, *sides, layer="GPU", group="gpus")
        elif one.driver != other.driver:
            sides = (one.driver or "no driver", other.driver or "no driver")
            text = arrow(f"{_pci_model(other)} at {name} bound to", *sides)
            yield _one("host.pci_gpus", name, text, *sides, layer="Driver", group="driver", field="driver")


def _pci_model(gpu: PciGpu | None) -> str | None:
    return None if gpu is None else gpu.name or gpu.device_id


# ------------------------------------------------------------------------------------- CUDA, cuDNN, libraries


def _toolkits(good: Facts, bad: Facts) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, "cuda.toolkits"):
        sides = tuple(None if kit is None else kit.version or "unknown version" for kit in (one, other))
        text = _presence(f"CUDA toolkit {name}", *sides)[0] if None in sides else arrow(f"CUDA toolkit {name}", *sides)
        yield _one("cuda.toolkits", name, text, sides[0], sides[1], layer="CUDA")


def _libraries(good: Facts, bad: Facts) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, "loader.sonames"):
        component = (one or other).component
        layer = "cuDNN" if component == "cudnn" else "Driver" if component == "driver" else "CUDA"
        sides = (library(one), library(other))
        if sides[0] == sides[1] and one and other and one.winner != other.winner:
            sides = (f"{sides[0]} ({one.winner})", f"{sides[1]} ({other.winner})")
        # what another TensorFlow wants is its matter
        grade: Grade = "state" if sides[0] != sides[1] and one and other else "noise"
        group = "driver" if component == "driver" else _act(good, bad, one, other)
        text = arrow(f"{name}:", *sides)
        yield _one("loader.sonames", name, text, *sides, layer=layer, grade=grade, group=group)


def _act(good: Facts, bad: Facts, one: Soname | None, other: Soname | None) -> str:
    """Which change leads the loader to another file, or away from it."""
    if one is None or other is None:
        return "tensorflow"
    files = [(one, place) for place in one.candidates] + [(other, place) for place in other.candidates]
    package = _package(good, bad, [place.path for _, place in files])
    if package:
        return package
    by_path = any(place.via == "LD_LIBRARY_PATH" and place.reachable for _, place in files)
    if by_path and _differs(good, bad, "LD_LIBRARY_PATH"):
        return "variables.LD_LIBRARY_PATH"
    for kit, _, _ in pairs(good, bad, "cuda.toolkits"):
        if any(place.path.startswith(kit.rstrip("/") + "/") for _, place in files):
            return f"cuda.toolkits.{kit}"
    return "cudnn" if one.component == "cudnn" else "libraries"


def _package(good: Facts, bad: Facts, files: list[str]) -> str | None:
    """The wheel of NVIDIA's that came, went or changed, and that one of the files belongs to."""
    folders = {match[1].replace("_", "-").lower() for file in files if (match := _WHEEL.search(file))}
    for name, _, _ in pairs(good, bad, "python.packages"):
        if any(name == f"nvidia-{folder}" or name.startswith(f"nvidia-{folder}-cu") for folder in folders):
            return f"python.packages.{name}"
    return None


def _differs(good: Facts, bad: Facts, variable: str) -> bool:
    ours, theirs = (value_or(facts.variables, {}).get(variable) for facts in (good, bad))
    return ours != theirs


def _cudnn(good: Facts, bad: Facts) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, "cudnn.installed"):
        sides = tuple(None if file is None else file.version or "unknown version" for file in (one, other))
        text = _presence(f"cuDNN in {name}", *sides)[0] if None in sides else arrow(f"cuDNN in {name}", *sides)
        group = _package(good, bad, [name]) or "cudnn"
        grade: Grade = "state" if sides[0] != sides[1] else "noise"
        yield _one("cudnn.installed", name, text, sides[0], sides[1], layer="cuDNN", grade=grade, group=group)


# ------------------------------------------------------------------------------- packages, variables, phases


def _packages(good: Facts, bad: Facts, path: str) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, path):
        sides = tuple(None if package is None else package.version for package in (one, other))
        grade: Grade = "noise" if sides[0] == sides[1] else "state"
        group = "tensorflow" if name in PROVIDERS else f"python.packages.{name}"
        layer = "TensorFlow" if name in PROVIDERS else "Python"
        yield _one(path, name, _package_text(name, one, other), *sides, layer=layer, grade=grade, group=group)


def _package_text(name: str, one: Package | None, other: Package | None) -> str:
    if one is None and other is not None:
        return f"{name} added ({other.version})"
    if other is None and one is not None:
        return f"{name} removed (was {one.version})"
    assert one is not None and other is not None
    return f"{name} {one.version} → {other.version}"


def _variables(good: Facts, bad: Facts) -> Iterator[Difference]:
    for name, one, other in pairs(good, bad, "variables"):
        if one is None:
            text = f"{name} set to {short(other) or 'nothing'}"
        elif other is None:
            text = f"{name} unset (was {short(one) or 'set to nothing'})"
        else:
            text = entries(name, one, other) if name in _LISTS else arrow(f"{name}:", short(one), short(other))
        yield _one("variables", name, text, one, other, layer="Python")


def _phases(good: Facts, bad: Facts) -> Iterator[Difference]:
    ours, theirs = elements(good, "tensorflow.phases") or {}, elements(bad, "tensorflow.phases") or {}
    for name in (name for name in ours if name in theirs):
        one, other = ours[name], theirs[name]
        if (one.outcome, one.exception, one.signal, one.exit_code) == (
            *(other.outcome, other.exception, other.signal, other.exit_code),
        ):
            continue
        status: Status = "changed"
        grade: Grade = "observation"
        if "skipped" in (one.outcome, other.outcome):
            status, grade = "unexamined" if one.outcome == "skipped" else "lost", "noise"
        sides = (_outcome(one), _outcome(other))
        text = arrow(f"phase {name}:", *sides)
        place = Place("tensorflow.phases", name)
        path = f"tensorflow.phases.{name}"
        yield Difference(path, "TensorFlow", text, *sides, status, grade, path, (place,))


def _outcome(phase: Phase) -> str:
    how = phase.exception or phase.signal
    return f"{phase.outcome} ({short(how, 100)})" if how and phase.outcome != "ok" else phase.outcome


def _messages(good: Facts, bad: Facts) -> Iterator[Difference]:
    """Kinds of messages that only one of the two machines has printed; a line that is of two kinds, once."""
    told = set()
    for name, one, other in pairs(good, bad, "messages"):
        if (one is None) == (other is None):
            continue
        line = (one or other)[0].text
        if line in told:
            continue
        told.add(line)
        plain = short(_STAMP.sub("", line))
        text, sides = (
            (f"now printed: {plain}", (None, line)) if one is None else (f"no longer printed: {plain}", (line, None))
        )
        yield _one("messages", name, text, *sides, layer="TensorFlow", grade="observation")
