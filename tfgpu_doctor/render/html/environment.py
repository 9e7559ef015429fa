"""The part of a bench result's page that says what it was measured on: software, machine, GPUs, parameters. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.records.facts import Facts, Known, value_or
from tfgpu_doctor.records.units import memory_size
from tfgpu_doctor.render.html.parts import table


def environment(result: BenchResult) -> Iterator[str]:
    """Tables of what was used."""
    facts = result.environment
    rows = [(name, version, "") for name, version in result.software.items()]
    yield table("Software and machine", ("what", "value", "read from"), [*rows, *_known(facts)])
    gpus = [
        (
            str(gpu.index),
            value_or(gpu.name, "unknown"),
            value_or(gpu.compute_capability, ""),
            memory_size(gpu.memory_total.value) if isinstance(gpu.memory_total, Known) else "",
            str(value_or(gpu.multiprocessors, "")),
            str(value_or(gpu.sm_clock_max, "")),
            str(value_or(gpu.power_limit, "")),
            _link(value_or(gpu.pcie_generation, None), value_or(gpu.pcie_width, None)),
        )
        for gpu in value_or(facts.gpus, ())
    ]
    head = ("index", "GPU", "compute capability", "memory", "SMs", "highest MHz", "power limit, W", "PCIe")
    yield table("GPUs", head, gpus)
    parameters = [(name.replace("_", " "), str(value)) for name, value in result.parameters.items()]
    yield table("Parameters", ("parameter", "value"), parameters)


def _link(generation: int | None, width: int | None) -> str:
    return f"gen {generation} × {width}" if generation and width else ""


def _known(facts: Facts) -> Iterator[tuple[str, str, str]]:
    named = {
        "system": facts.host.distribution,
        "kernel": facts.host.kernel,
        "C library": facts.host.libc,
        "container": facts.host.container,
        "CPU": facts.host.cpu_model,
        "CPUs": facts.host.cpus,
        "CPU quota": facts.host.cpu_quota,
        "memory": facts.host.memory,
        "driver": facts.driver.version,
        "CUDA supported by the driver": facts.driver.cuda_supported,
        "cuDNN": facts.cudnn.runtime,
        "interpreter": facts.python.executable,
    }
    for name, fact in named.items():
        if isinstance(fact, Known):
            yield (
                name,
                memory_size(fact.value) if name == "memory" and isinstance(fact.value, int) else str(fact.value),
                (fact.source),
            )
