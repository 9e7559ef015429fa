"""macOS: NVIDIA's last driver was for 10.13, and TensorFlow has had no CUDA there since 1.2."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Mapping

import msgspec

from tfgpu_doctor.probes.systems.system import InstalledDriver, System
from tfgpu_doctor.records.facts import Fact, Host, Known, LibraryFile, Unknown

NO_DRIVER = "NVIDIA makes no driver for macOS"
BRAND, FLAGS = "machdep.cpu.brand_string", ("machdep.cpu.features", "machdep.cpu.leaf7_features")
APPLE_NAMES = {"avx1.0": "avx", "avx512f": "avx512f"}  # Apple's spelling of what Linux calls otherwise


def sysctl(name: str) -> str | None:
    """sysctlbyname(3) of a text; None where this Mac has no such name."""
    call = ctypes.CDLL(None).sysctlbyname
    size = ctypes.c_size_t(0)
    if call(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return None
    buffer = ctypes.create_string_buffer(size.value)
    if call(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return None
    return buffer.value.decode("utf-8", "replace")


class MacOs(System):
    """A Mac; `ask` answers sysctl's names."""

    platform, name = "darwin", "macos"

    def __init__(self, ask: Callable[[str], str | None] = sysctl, version: str | None = None) -> None:
        """`version` is that of macOS; None: the one of this machine."""
        super().__init__()
        self._ask = ask
        self._version = version

    def host(self) -> Host:
        """With the CPU by sysctl, and macOS's own version instead of Darwin's."""
        version = self._version or platform.mac_ver()[0]
        brand, machine = self._ask(BRAND), self._ask("hw.machine")
        host = msgspec.structs.replace(
            super().host(),
            distribution=Known(f"macOS {version}", "platform.mac_ver"),
            distribution_version=Known(version, "platform.mac_ver"),
            cpu_model=Known(brand, BRAND) if brand else Unknown(f"sysctl has no {BRAND}"),
            cpu_flags=self._flags(),
            pci_gpus=Unknown("GPUs of a Mac are Apple's, Intel's or AMD's; NVIDIA's last driver was for macOS 10.13"),
            container=Known("none", "containers of macOS run in a Linux of their own"),
        )
        return msgspec.structs.replace(host, machine=Known(machine, "hw.machine")) if machine else host

    def _flags(self) -> Fact[tuple[str, ...]]:
        found = " ".join(filter(None, map(self._ask, FLAGS))).lower().split()
        if not found:
            return Unknown(f"sysctl has no {FLAGS[0]}: not a Mac with an Intel CPU")
        return Known(tuple(sorted(APPLE_NAMES.get(flag, flag) for flag in found)), " ".join(FLAGS))

    def driver(self) -> InstalledDriver:
        """There is none."""
        none = Unknown(NO_DRIVER)
        return InstalledDriver(none, none, none, none, none, none)

    def driver_files(self, _soname: str, _environ: Mapping[str, str], /) -> Fact[tuple[LibraryFile, ...]]:
        """There are none."""
        return Unknown(NO_DRIVER)
