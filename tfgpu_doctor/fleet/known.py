"""What is kept of a node → facts that a repair can be held against (plan/gate.py). Pure."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.values import Leaf, gpu_fields, paths
from tfgpu_doctor.records.facts import Facts, Gpu, Known, Package

_TEXTS = ("host.os", "driver.version", "python.version", "python.wheel_platform", "tensorflow.version")
_OF_GPUS = ("name", "compute_capability")


def facts_of(machine: Machine) -> Facts:
    """System, driver, GPUs, Python and packages of a node; what it did not tell stays unknown."""
    if not machine.results:
        return Facts()
    leaves = dict(zip(paths(), machine.facts, strict=False))
    found: dict[str, dict[str, Any]] = {}
    for path in _TEXTS:
        part, _, name = path.partition(".")
        if text := _text(leaves.get(path)):
            found.setdefault(part, {})[name] = Known(text, machine.name)
    listed = leaves.get("python.packages")
    if listed is not None:
        start = len("python.packages.")
        packages = tuple(Package(name[start:], value.text, "") for name, value in listed)
        found.setdefault("python", {})["packages"] = Known(packages, machine.name)
    facts = Facts(gpus=Known(tuple(_gpus(machine)), machine.name)) if machine.gpus else Facts()
    return structs.replace(
        facts, **{part: structs.replace(getattr(facts, part), **fields) for part, fields in found.items()}
    )


def _gpus(machine: Machine) -> list[Gpu]:
    found = []
    for index, values in enumerate(machine.gpus or ()):
        told = dict(zip(gpu_fields(), map(_text, values), strict=False))
        named = {name: Known(told[name], machine.name) for name in _OF_GPUS if told.get(name)}
        found.append(structs.replace(Gpu(index=index), **named))
    return found


def _text(leaf: Leaf | None) -> str:
    return leaf[0][1].text if leaf else ""
