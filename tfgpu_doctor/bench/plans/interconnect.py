"""What the links of a GPU can carry at most, by what NVML tells of them. Pure; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.records.facts import Gpu, value_or

# Bytes/s of one PCIe lane in one direction: 2.5 and 5 GT/s at 8b/10b; 8, 16 and 32 GT/s at 128b/130b; 64 GT/s in flits
# of 256 bytes with 236 of payload (PCI Express Base Specification, revisions 1.0 to 6.0). Packet headers come on top.
LANE = {1: 250e6, 2: 500e6, 3: 984.6e6, 4: 1969.2e6, 5: 3938.5e6, 6: 7375e6}
# Bytes/s of one NVLink in one direction, by compute capability (NVIDIA's whitepapers of P100, V100, Turing, A100,
# GA102 and H100; Blackwell: 1.8 TB/s over 18 links in both directions).
NVLINK = {"6.0": 20e9, "7.0": 25e9, "7.5": 25e9, "8.0": 25e9, "8.6": 14.0625e9, "9.0": 25e9, "10.0": 50e9, "10.3": 50e9}
# The host is reached by NVLink-C2C, of which NVML's PCIe facts say nothing.
COHERENT = ("GH200", "GB200", "GB300", "GB10", "THOR")


@dataclass(frozen=True)
class Link:
    """A link, and what it can carry."""

    name: str  # "PCIe 4 ×16"
    speed: float  # bytes/s in one direction, at most
    now: str | None = None  # "×4" where it has fewer lanes than it could; its speed may rest while it is idle


def pcie(gpu: Gpu) -> Link | None:
    """The PCIe link of a GPU at the best that it and its slot can do; None where that is unknown.

    The generation is the highest, not the current one, which falls while a GPU rests.
    """
    name = value_or(gpu.name, "").upper()
    generation, width = value_or(gpu.pcie_generation_max, None), value_or(gpu.pcie_width_max, None)
    if not generation or not width or generation not in LANE or any(one in name for one in COHERENT):
        return None
    current = value_or(gpu.pcie_width, None)
    fewer = f"×{current}" if current and current < width else None
    return Link(f"PCIe {generation} ×{width}", LANE[generation] * width, fewer)


def nvlink(gpu: Gpu) -> Link | None:
    """All active NVLinks of a GPU together; None where there is none, or their speed is unknown."""
    active = sum(link.active for link in value_or(gpu.nvlinks, ()))
    speed = NVLINK.get(value_or(gpu.compute_capability, ""))
    return Link(f"{active} NVLink{'s' * (active != 1)}", active * speed) if active and speed else None


def between(gpus: Sequence[Gpu]) -> Link | None:
    """What the slowest of several GPUs can send to the others; None where that is unknown."""
    found = [nvlink(gpu) or pcie(gpu) for gpu in gpus]
    known = [link for link in found if link is not None]
    return min(known, key=lambda link: link.speed) if known and len(known) == len(found) else None
