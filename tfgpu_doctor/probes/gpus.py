"""Lines of the NVML and CUDA children → Gpu and PeerLink records; pure.

The numbers' meanings are those of nvml.h; tests/probes/test_gpus.py holds them against the Python bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from tfgpu_doctor.parsers.nvidia_smi import bus_id
from tfgpu_doctor.records.facts import Fact, Gpu, GpuProcess, Known, NvLink, PeerLink, Unknown, map_fact, value_or

NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED
# every later call to such a GPU fails the same way
GONE = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED")

# nvmlClocksThrottleReasons (event reasons in newer headers), a bit each
THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
TOPOLOGIES = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
P2P_STATUSES = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "ioh_topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
    6: "unknown",
}

Line = Mapping[str, Any]
Fields = dict[str, Fact[Any]]


def from_nvml(lines: Sequence[Line], library: str) -> tuple[Gpu, ...]:
    """Build the GPUs from the child's lines; what a hang cut off is unknown("not answered")."""
    counts = [line["value"] for line in lines if line.get("key") == "count" and "value" in line]
    answers: dict[int, Fields] = {index: {} for index in range(counts[0] if counts else 0)}
    for line in lines:
        if "gpu" in line and "begin" not in line:
            answers.setdefault(line["gpu"], {})[line["key"]] = answer(line, library)
    return tuple(_gpu(index, answers[index], library) for index in sorted(answers))


def answer(line: Line, library: str) -> Fact[Any]:
    """One answer of NVML as a fact."""
    if "error" not in line:
        return Known(line["value"], library)
    code, name, message = line["error"]
    return Unknown("not supported by this GPU" if code == NOT_SUPPORTED else f"{name}: {message}")


def _gpu(index: int, answers: Fields, source: str) -> Gpu:
    refused = answers.get("handle")
    missing: Unknown = refused if isinstance(refused, Unknown) else Unknown("NVML did not answer")

    def get(key: str, to: Callable[[Any], Any] = lambda value: value) -> Any:
        return map_fact(answers.get(key, missing), to)

    return Gpu(
        index=index,
        name=get("name"),
        uuid=get("uuid"),
        pci_bus_id=get("pci_bus_id", bus_id),
        compute_capability=get("compute_capability", lambda pair: f"{pair[0]}.{pair[1]}"),
        memory_total=get("memory", lambda sizes: sizes[0]),
        memory_used=get("memory", lambda sizes: sizes[1]),
        memory_free=get("memory", lambda sizes: sizes[2]),
        processes=_processes(get("compute_processes"), get("graphics_processes")),
        utilization=get("utilization"),
        temperature=get("temperature"),
        power=get("power", lambda milliwatts: milliwatts / 1000),
        power_limit=get("power_limit", lambda milliwatts: milliwatts / 1000),
        sm_clock=get("sm_clock"),
        sm_clock_max=get("sm_clock_max"),
        memory_clock=get("memory_clock"),
        memory_clock_max=get("memory_clock_max"),
        memory_bus_width=get("memory_bus_width"),
        throttle_reasons=get("throttle_reasons", throttle_reasons),
        performance_state=_performance_state(get("performance_state")),
        ecc_mode=get("ecc_mode", bool),
        ecc_uncorrected=get("ecc_uncorrected"),
        remapped_rows_pending=get("remapped_rows", lambda rows: bool(rows[2])),
        remapped_rows_failed=get("remapped_rows", lambda rows: bool(rows[3])),
        mig_mode=get("mig_mode", bool),
        mig_instances=_mig_instances(get("mig_mode"), get("mig_instances", tuple)),
        compute_mode=get("compute_mode", lambda mode: COMPUTE_MODES.get(mode, f"mode {mode}")),
        persistence_mode=get("persistence_mode", bool),
        display_active=get("display_active", bool),
        pcie_generation=get("pcie_generation"),
        pcie_generation_max=get("pcie_generation_max"),
        pcie_width=get("pcie_width"),
        pcie_width_max=get("pcie_width_max"),
        nvlinks=get("nvlinks", _nvlinks),
        numa_node=get("numa_node"),
        fault=_fault(answers, source),
    )


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Name the bits of a throttle mask; bits that are newer than this table are shown as numbers.

    >>> throttle_reasons(0x44), throttle_reasons(0), throttle_reasons(0x8000)
    (('sw_power_cap', 'hw_thermal_slowdown'), (), ('0x8000',))
    """
    bits = (1 << position for position in range(mask.bit_length()) if mask >> position & 1)
    return tuple(THROTTLE_REASONS.get(bit, hex(bit)) for bit in bits)


def with_cuda(gpus: tuple[Gpu, ...], lines: Sequence[Line], library: str) -> tuple[Gpu, ...]:
    """Add what only CUDA tells, the number of multiprocessors, to the GPUs of the same bus id.

    A GPU in MIG mode is left alone: CUDA would count the multiprocessors of one slice.
    """
    devices = {bus_id(line["pci_bus_id"]): line for line in lines if "device" in line and "pci_bus_id" in line}
    return tuple(_with_device(gpu, devices.get(value_or(gpu.pci_bus_id, "")), library) for gpu in gpus)


def _with_device(gpu: Gpu, device: Line | None, library: str) -> Gpu:
    if device is None or "multiprocessors" not in device:
        return structs.replace(gpu, multiprocessors=Unknown("CUDA does not list this GPU"))
    if value_or(gpu.mig_mode, False):
        return structs.replace(gpu, multiprocessors=Unknown("MIG mode is on: CUDA sees slices"))
    more: Fields = {"multiprocessors": Known(device["multiprocessors"], library)}
    if isinstance(gpu.compute_capability, Unknown):
        more["compute_capability"] = _told(device, "compute_capability", library)
    return structs.replace(gpu, **more)


def from_cuda(lines: Sequence[Line], library: str) -> tuple[Gpu, ...]:
    """The GPUs that CUDA lists, where neither NVML nor nvidia-smi answers (as on a Jetson)."""
    return tuple(
        Gpu(
            index=line["device"],
            name=_told(line, "name", library),
            pci_bus_id=map_fact(_told(line, "pci_bus_id", library), bus_id),
            compute_capability=_told(line, "compute_capability", library),
            multiprocessors=_told(line, "multiprocessors", library),
            memory_total=_told(line, "memory_total", library),
            fault=Unknown("none"),
        )
        for line in lines
        if "device" in line
    )


def lost_gpus(reasons: Mapping[str, str], source: str) -> tuple[Gpu, ...]:
    """GPUs of which only the bus id and the reason of their failure are known."""
    return tuple(
        Gpu(index=index, pci_bus_id=Known(bus, source), fault=Known(reason, source))
        for index, (bus, reason) in enumerate(reasons.items())
    )


def _told(line: Line, key: str, library: str) -> Fact[Any]:
    return Known(line[key], library) if key in line else Unknown("CUDA does not tell")


def _performance_state(state: Fact[int]) -> Fact[int]:
    if isinstance(state, Known) and state.value > 15:  # NVML_PSTATE_UNKNOWN is 32
        return Unknown("NVML_PSTATE_UNKNOWN")
    return state


def _processes(compute: Fact[Any], graphics: Fact[Any]) -> Fact[tuple[GpuProcess, ...]]:
    """Both kinds together; a process that does both is named once."""
    if isinstance(compute, Unknown):
        return compute
    held: dict[int, int | None] = {}
    for pid, size in (*compute.value, *(graphics.value if isinstance(graphics, Known) else ())):
        held.setdefault(pid, size)
    return Known(tuple(GpuProcess(pid=pid, memory=size) for pid, size in sorted(held.items())), compute.source)


def _mig_instances(mode: Fact[int], found: Fact[tuple[str, ...]]) -> Fact[tuple[str, ...]]:
    if isinstance(mode, Known) and not mode.value:
        return Unknown("MIG mode is off")
    return mode if isinstance(mode, Unknown) else found


def _nvlinks(rows: Sequence[Sequence[Any]]) -> tuple[NvLink, ...]:
    return tuple(NvLink(link=link, active=active, remote=remote and bus_id(remote)) for link, active, remote in rows)


def _fault(answers: Fields, source: str) -> Fact[str]:
    """The first answer that says that the GPU is lost, or why it could not be opened."""
    refused = answers.get("handle")
    if isinstance(refused, Unknown):
        return Known(refused.reason, source)
    for one in answers.values():
        if isinstance(one, Unknown) and one.reason.startswith(GONE):
            return Known(one.reason, source)
    return Unknown("none")


def peers(lines: Sequence[Line]) -> tuple[PeerLink, ...]:
    """Build the links between GPUs from the child's lines; a pair whose topology is unknown is left out."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for line in lines:
        if "pair" in line and "begin" not in line:
            found.setdefault((line["pair"][0], line["pair"][1]), {})[line["key"]] = line.get("value")
    return tuple(
        PeerLink(
            a=a,
            b=b,
            topology=TOPOLOGIES.get(pair["topology"], f"level {pair['topology']}"),
            p2p_read=None if pair.get("p2p_read") is None else P2P_STATUSES.get(pair["p2p_read"], "unknown"),
        )
        for (a, b), pair in sorted(found.items())
        if pair.get("topology") is not None
    )
