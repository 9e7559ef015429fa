"""The facts that a pasted report of tfgpu shows in its stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from tfgpu_doctor.parsers.text import os_names
from tfgpu_doctor.records.facts import (
    Build,
    Fact,
    Facts,
    Gpu,
    Known,
    Message,
    Package,
    PciGpu,
    TfDevice,
    Toolkit,
)

_CARD = re.compile(
    r"(?:(?P<count>\d{1,3}) × )?(?P<name>\S.*?)(?:, compute capability (?P<capability>\d+\.\d+))?"
    r"(?:, [\d.]+ [KMGT]?i?B)?(?P<pci> on the PCI bus| \(as stated\))?"
)
_DRIVER = re.compile(r"(?P<version>\d{3}(?:\.\d+)*)(?:, CUDA up to (?P<cuda>\d+\.\d+))?")
_PYTHON = re.compile(r"(?P<version>\d\.\d+\S*?)(?:, (?P<environment>[a-z]+))?(?:, (?P<executable>\S*[/\\].*))?")
_TENSORFLOW = re.compile(
    r"(?P<version>\d[^\s,]*)(?: \((?P<package>[\w-]+)\))?"
    r"(?:, built for (?:the CPU|CUDA (?P<cuda>\S+), cuDNN (?P<cudnn>\S+?))(?:,.*)?)?(?:, not imported)?"
)
_DEVICES = re.compile(r"\d+ GPUs?: (?P<names>.+)")
_WHEELS = {"windows": "windows_amd64", "macos x86_64": "macos_x86_64", "macos arm64": "macos_arm64"}


def with_report(facts: Facts) -> Facts:
    """The facts with those of the report among the lines, which its machine knew better than what stands around it."""
    messages = facts.messages.value if isinstance(facts.messages, Known) else ()
    for message in messages:
        if message.kind == "own-report":
            return _with(facts, dict(_facts(message)))
    return facts


def _with(facts: Facts, found: Mapping[str, Fact[Any]]) -> Facts:
    parts: dict[str, dict[str, Fact[Any]]] = {}
    for path, fact in found.items():
        part, _, name = path.rpartition(".")
        parts.setdefault(part, {})[name] = fact
    changed = {part: structs.replace(getattr(facts, part), **fields) for part, fields in parts.items() if part}
    return structs.replace(facts, **changed, **parts.get("", {}))


def _facts(message: Message) -> Iterator[tuple[str, Fact[Any]]]:
    source = f"line {message.line}: the report"
    for layer, read in _LAYERS.items():
        if text := message.values.get(layer):
            yield from ((path, Known(value, source)) for path, value in read(text, source) if value is not None)
    variables = {name[1:]: value for name, value in message.values.items() if name.startswith("$")}
    if variables:
        yield "variables", Known(variables, source)
    listed = {name[:-2]: version for name, version in message.values.items() if name.endswith("==")}
    if listed:
        yield "python.packages", Known(tuple(Package(*one, location=source) for one in listed.items()), source)


_Values = Iterator[tuple[str, Any]]


def _machine(text: str, _source: str) -> _Values:
    system, *more = text.split(", ")
    named = os_names.name(system)
    os = next((one for one in ("windows", "macos") if system.lower().startswith(one)), "linux")
    machine = next((one for one in more if re.fullmatch(r"x86_64|aarch64|arm64|AMD64", one)), None)
    yield "host.os", "wsl2" if "WSL2" in more else os
    yield "host.distribution", system
    yield "host.distribution_id", named.distribution_id
    yield "host.machine", machine
    yield "host.libc", next((one for one in more if one.startswith(("glibc ", "musl "))), None)
    container = next((one.removesuffix(" container") for one in more if one.endswith(" container")), "none")
    yield "host.container", container
    arm = "linux_aarch64" if machine in ("aarch64", "arm64") else "linux_x86_64"
    yield "python.wheel_platform", _WHEELS.get(os) or _WHEELS.get(f"{os} {machine}", arm)


def _gpu(text: str, source: str) -> _Values:
    if text == "none":
        yield "host.pci_gpus", ()
        return
    cards = [found for one in text.split("; ") if (found := _CARD.fullmatch(one))]
    listed = [one for one in cards if one["capability"] for _ in range(int(one["count"] or 1))]
    if listed:
        yield (
            "gpus",
            tuple(
                Gpu(index=n, name=Known(one["name"], source), compute_capability=Known(one["capability"], source))
                for n, one in enumerate(listed)
            ),
        )
    if on_bus := [one["name"] for one in cards if one["pci"]]:
        yield "host.pci_gpus", tuple(PciGpu(address="", device_id="", name=name) for name in on_bus)


def _driver(text: str, _source: str) -> _Values:
    if text == "none":
        yield "driver.libcuda", ()
        yield "driver.kernel_module_loaded", False
    elif found := _DRIVER.match(text):
        yield "driver.version", found["version"]
        yield "driver.cuda_supported", found["cuda"]


def _cuda(text: str, source: str) -> _Values:
    _, _, toolkit = text.rpartition("toolkit ")
    versions = re.findall(r"\d+\.\d+(?:\.\d+)?", toolkit) if "toolkit " in text else []
    if versions or text.endswith("no toolkit"):
        yield "cuda.toolkits", tuple(Toolkit(path=source, version=one, source=source, via="report") for one in versions)


def _cudnn(text: str, _source: str) -> _Values:
    version, _, state = text.partition(", ")
    if state == "loaded":
        yield "cudnn.runtime", version


def _python(text: str, _source: str) -> _Values:
    if found := _PYTHON.fullmatch(text):
        yield from ((f"python.{name}", value) for name, value in found.groupdict().items())


def _tensorflow(text: str, _source: str) -> _Values:
    if found := _TENSORFLOW.fullmatch(text):
        yield "tensorflow.version", found["version"]
        yield "tensorflow.distribution", found["package"] or "tensorflow"
        if "built for" in text:
            yield "tensorflow.build", Build(bool(found["cuda"]), False, found["cuda"], found["cudnn"])


def _devices(text: str, _source: str) -> _Values:
    if found := _DEVICES.fullmatch(text):
        names = found["names"].split(", ")
        yield "tensorflow.devices", tuple(TfDevice(f"/GPU:{n}", "GPU", name) for n, name in enumerate(names))
    elif text == "TensorFlow lists no GPU":
        yield "tensorflow.devices", ()


_LAYERS = {
    "Machine": _machine,
    "GPU": _gpu,
    "Driver": _driver,
    "CUDA": _cuda,
    "cuDNN": _cudnn,
    "Python": _python,
    "TensorFlow": _tensorflow,
    "Devices": _devices,
}
