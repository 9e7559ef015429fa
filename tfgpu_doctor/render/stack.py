"""The stack from the hardware up to TensorFlow, one line a layer: what was found and whether a finding is about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.derived import OPTIONAL_COMPONENTS
from tfgpu_doctor.records.about import LAYERS
from tfgpu_doctor.records.facts import NOT_EXAMINED, Fact, Facts, Known, Soname, Unknown, lists_gpu, value_or
from tfgpu_doctor.records.report import Report, Severity
from tfgpu_doctor.records.units import memory_size

Mark = Literal["ok", "error", "warning", "unknown", "absent", ""]  # "": nothing that could be right or wrong


@dataclass(frozen=True)
class Layer:
    """One line of the summary."""

    name: str
    mark: Mark
    text: str


def stack(report: Report) -> tuple[Layer, ...]:
    """Describe every layer."""
    return tuple(_layer(name, report) for name in LAYERS)


def layers_of(report: Report) -> tuple[Layer, ...]:
    """The layers that a report shows: all, or of a pasted text those of which it says anything."""
    layers = stack(report)
    if report.source != "text":
        return layers
    known = tuple(layer for layer in layers if layer.mark != "unknown")
    return known or (Layer("Text", "unknown", "names no machine, driver or TensorFlow"),)


def _layer(name: str, report: Report) -> Layer:
    text, mark = _DESCRIBE[name](report.facts)
    if mark == "unknown" and report.source == "text":
        return Layer(name, mark, text)  # the text says nothing of it, so nothing is wrong with what is shown
    # a report of another version may hold an id that this one does not know
    found = report.findings
    severities = {one.severity for one in found if one.id in DECLARATIONS and DECLARATIONS[one.id].layer == name}
    if Severity.ERROR in severities:
        mark = "error"
    elif Severity.WARNING in severities and mark == "ok":
        mark = "warning"
    return Layer(name, mark, text)


def _first_known(*facts: Fact[str]) -> str | None:
    return next((fact.value for fact in facts if isinstance(fact, Known)), None)


def _machine(facts: Facts) -> tuple[str, Mark]:
    host = facts.host
    parts = [_first_known(host.distribution, host.os) or "unknown system"]
    if isinstance(host.os, Known) and host.os.value == "wsl2":
        parts.append("WSL2")
    parts += [fact.value for fact in (host.machine, host.libc) if isinstance(fact, Known)]
    if isinstance(host.cpus, Known):
        parts.append(f"{host.cpus.value} CPUs")
    if isinstance(host.memory, Known):
        parts.append(memory_size(host.memory.value))
    if value_or(host.container, "none") != "none":
        parts.append(f"{value_or(host.container, '')} container")
    return ", ".join(parts), "ok" if isinstance(host.os, Known) else "unknown"


def _gpu(facts: Facts) -> tuple[str, Mark]:
    if isinstance(facts.gpus, Known) and facts.gpus.value:
        models = Counter(
            (value_or(g.name, "unknown model"), value_or(g.compute_capability, None), value_or(g.memory_total, None))
            for g in facts.gpus.value
        )
        described = [
            (f"{count} × " if count > 1 else "")
            + name
            + (f", compute capability {capability}" if capability else "")
            + (f", {memory_size(memory)}" if memory else "")
            for (name, capability, memory), count in models.items()
        ]
        return "; ".join(described), "ok"
    pci = facts.host.pci_gpus
    if isinstance(pci, Known) and pci.value:
        where = {True: "on the PCI bus", False: "(as stated)"}
        return "; ".join(f"{gpu.name or gpu.device_id} {where[bool(gpu.address)]}" for gpu in pci.value), "ok"
    if isinstance(pci, Known):
        return "none", "absent"
    return pci.reason, "unknown"


def _driver(facts: Facts) -> tuple[str, Mark]:
    driver = facts.driver
    if isinstance(driver.version, Known):
        supported = f", CUDA up to {driver.cuda_supported.value}" if isinstance(driver.cuda_supported, Known) else ""
        kind = f", {driver.kernel_module_kind.value} module" if isinstance(driver.kernel_module_kind, Known) else ""
        return driver.version.value + supported + kind, "ok"
    if value_or(driver.libcuda, None) == () and value_or(driver.kernel_module_loaded, None) is False:
        return "none", "absent"
    first, _, _ = driver.version.reason.partition("; ")  # why asking each library and file failed stands in -v
    return first, "unknown"


def _cuda(facts: Facts) -> tuple[str, Mark]:
    sonames, toolkits = facts.loader.sonames, facts.cuda.toolkits
    if isinstance(toolkits, Unknown) and isinstance(sonames, Unknown):
        return toolkits.reason, "unknown"
    versions = ", ".join(dict.fromkeys(kit.version for kit in value_or(toolkits, ()) if kit.version))
    installed = f"toolkit {versions}" if versions else "no toolkit"
    if isinstance(sonames, Known):
        wanted = [soname for soname in sonames.value if soname.component not in ("cudnn", "driver")]
        return _libraries(wanted, installed) if wanted else (installed, "ok")
    if any(kit.via == "stated" for kit in value_or(toolkits, ())):
        return f"{versions} (as stated)", "ok"
    if any(kit.source.startswith("line ") for kit in value_or(toolkits, ())):
        return installed, "ok"  # what a text shows of it
    return f"{installed}; what TensorFlow needs: {sonames.reason}", "unknown"


def _libraries(wanted: list[Soname], installed: str) -> tuple[str, Mark]:
    wanted = [soname for soname in wanted if soname.winner or soname.component not in OPTIONAL_COMPONENTS]
    found = sum(soname.winner is not None for soname in wanted)
    ways = {library.via for soname in wanted for library in soname.candidates if library.path == soname.winner}
    by = f" ({', '.join(sorted(ways))})" if ways else ""
    return f"{found} of {len(wanted)} libraries found{by}; {installed}", "ok" if found == len(wanted) else "absent"


def _cudnn(facts: Facts) -> tuple[str, Mark]:
    if isinstance(facts.cudnn.runtime, Known):
        return f"{facts.cudnn.runtime.value}, loaded", "ok"
    installed = [file.version or file.path for file in value_or(facts.cudnn.installed, ())]
    if any(file.path.startswith("line ") for file in value_or(facts.cudnn.installed, ())):
        return f"{', '.join(dict.fromkeys(installed))} (as stated)", "ok"
    if installed:
        return f"{', '.join(dict.fromkeys(installed))} on disk", "ok"
    if isinstance(facts.cudnn.installed, Unknown):
        return facts.cudnn.installed.reason, "unknown"
    return "none", "absent"


def _python(facts: Facts) -> tuple[str, Mark]:
    python = facts.python
    if isinstance(python.version, Unknown):
        return python.version.reason, "unknown"
    parts = [python.version.value]
    parts += [fact.value for fact in (python.environment, python.executable) if isinstance(fact, Known)]
    return ", ".join(parts), "ok"


def _reason(fact: Unknown, *above: Fact[Any]) -> str:
    """The reason of an unknown, unless a layer above has given the same."""
    repeated = any(isinstance(other, Unknown) and other.reason == fact.reason for other in above)
    return "skipped" if repeated and fact.reason != NOT_EXAMINED.reason else fact.reason


def _tensorflow(facts: Facts) -> tuple[str, Mark]:
    tensorflow = facts.tensorflow
    if isinstance(tensorflow.version, Unknown):
        return _reason(tensorflow.version, facts.python.version), "unknown"
    name = value_or(tensorflow.distribution, "tensorflow")
    text = tensorflow.version.value + (f" ({name})" if name != "tensorflow" else "")
    if isinstance(tensorflow.build, Known):
        build = tensorflow.build.value
        text += (
            f", built for CUDA {build.cuda_version or '?'}, cuDNN {build.cudnn_version or '?'}"
            if build.is_cuda_build
            else ", built for the CPU"
        )
    imported = next((phase for phase in tensorflow.phases if phase.name == "import"), None)
    if imported is not None and imported.outcome == "skipped":
        return text + ", not imported", "ok"
    return text, "ok"


def _devices(facts: Facts) -> tuple[str, Mark]:
    devices = facts.tensorflow.devices
    if isinstance(devices, Unknown):
        return _reason(devices, facts.python.version, facts.tensorflow.version), "unknown"
    gpus = [device for device in devices.value if device.kind == "GPU"]
    if not gpus:
        return "TensorFlow lists no GPU", "absent"
    names = Counter(device.device_name or device.name for device in gpus)
    return f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}: " + ", ".join(names), "ok"


def _compute(facts: Facts) -> tuple[str, Mark]:
    checks, devices = facts.tensorflow.checks, facts.tensorflow.devices
    if isinstance(devices, Known) and not lists_gpu(devices.value):
        return "skipped: no GPU", "absent"
    if isinstance(checks, Unknown):
        return _reason(checks, facts.python.version, facts.tensorflow.version, devices), "unknown"
    good = Counter(check.kind for check in checks.value if check.ok)
    total = Counter(check.kind for check in checks.value)
    return "verified: " + ", ".join(f"{kind} on {good[kind]} of {total[kind]}" for kind in total), "ok"


_DESCRIBE: dict[str, Callable[[Facts], tuple[str, Mark]]] = {
    "Machine": _machine,
    "GPU": _gpu,
    "Driver": _driver,
    "CUDA": _cuda,
    "cuDNN": _cudnn,
    "Python": _python,
    "TensorFlow": _tensorflow,
    "Devices": _devices,
    "Compute": _compute,
}
