"""NVIDIA GPUs on the PCI bus, from sysfs: seen without driver, lspci or privilege."""

from __future__ import annotations

import os

from tfgpu_doctor.probes.files import below, read_text, whole, why
from tfgpu_doctor.records.facts import Fact, Known, PciGpu, Unknown

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = "0x03"  # PCI base class: VGA (0300), 3D (0302) and other display controllers
PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids", "/var/lib/pciutils/pci.ids")
TEGRA_MARKS = ("/etc/nv_tegra_release", "/sys/devices/soc0/family")


def gpus(root: str, *, wsl: bool) -> Fact[tuple[PciGpu, ...]]:
    """NVIDIA's display controllers in bus order; unknown where a GPU would not be on the bus (WSL2, Jetson)."""
    try:
        addresses = sorted(os.listdir(below(root, DEVICES)))
    except OSError as error:
        return Unknown(why(error, DEVICES))
    found = [address for address in addresses if _is_gpu(root, address)]
    if not found and wsl:
        return Unknown("WSL2 passes GPUs through /dev/dxg, not over the PCI bus")
    if not found and _tegra(root):
        return Unknown("the GPU of a Tegra (Jetson) is not on the PCI bus")
    names = _names(root) if found else {}
    return Known(tuple(_gpu(root, address, names) for address in found), DEVICES)


def _is_gpu(root: str, address: str) -> bool:
    vendor = _attribute(root, address, "vendor")
    return vendor == NVIDIA and (_attribute(root, address, "class") or "").startswith(DISPLAY)


def _gpu(root: str, address: str, names: dict[str, str]) -> PciGpu:
    device = (_attribute(root, address, "device") or "").removeprefix("0x")
    width = _attribute(root, address, "current_link_width") or ""
    return PciGpu(
        address=address,
        device_id=f"10de:{device}",
        driver=_driver(root, address),
        name=names.get(device),
        link_speed=_attribute(root, address, "current_link_speed"),
        link_width=whole(width),
    )


def _attribute(root: str, address: str, name: str) -> str | None:
    try:
        return read_text(root, f"{DEVICES}/{address}/{name}").strip()
    except OSError:  # the device has no such attribute, or went away
        return None


def _driver(root: str, address: str) -> str | None:
    try:
        return os.path.basename(os.readlink(below(root, f"{DEVICES}/{address}/driver")))
    except OSError:  # no driver is bound
        return None


def _tegra(root: str) -> bool:
    for path in TEGRA_MARKS:
        try:
            text = read_text(root, path).lower()
        except OSError:
            continue
        if path == "/etc/nv_tegra_release" or "tegra" in text:
            return True
    return False


def _names(root: str) -> dict[str, str]:
    """Device number → name of NVIDIA's section of the machine's own pci.ids; empty without one."""
    for path in PCI_IDS:
        try:
            text = read_text(root, path)
        except OSError:
            continue
        return parse_pci_ids(text, NVIDIA.removeprefix("0x"))
    return {}


def parse_pci_ids(text: str, vendor: str) -> dict[str, str]:
    """Read one vendor's devices out of a pci.ids file.

    >>> parse_pci_ids('''10de  NVIDIA Corporation
    ... \\t2684  AD102 [GeForce RTX 4090]
    ... \\t\\t1043 889b  TUF Gaming
    ... 10df  Emulex Corporation
    ... \\t0720  OneConnect NIC (Skyhawk)''', "10de")
    {'2684': 'AD102 [GeForce RTX 4090]'}
    """
    start = 0 if text.startswith(vendor) else text.find(f"\n{vendor} ") + 1
    if not text.startswith(f"{vendor} ", start):
        return {}
    names = {}
    for line in text[start:].splitlines()[1:]:
        if line and line[0] not in "\t#":
            break
        if line.startswith("\t") and not line.startswith("\t\t"):
            number, _, name = line.strip().partition("  ")
            names[number] = name
    return names
