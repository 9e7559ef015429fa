"""Systems other than Linux: what the standard library and psutil tell, and unknown with its reason for the rest.

Also how each finds programs on PATH.

Linux is read from files below a root, so that a test can show a machine as a folder. Elsewhere the answers come from
the system's own functions; they stand behind an object, and tests put one with recorded answers in its place.

Windows' registry: Microsoft, "Registry trees and keys for devices and drivers"; a service's key `Enum` lists the
devices that are present, while Enum\\PCI keeps those that were removed.
"""

from __future__ import annotations

import ntpath
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec

from tfgpu_doctor.facts.facts import Driver, Fact, Host, Known, LibraryFile, PciGpu, Unknown
from tfgpu_doctor.matrix.names import VC_RUNTIME
from tfgpu_doctor.probes.files import below, names_in, why

DISPLAY = "{4d36e968-e325-11ce-bfc1-08002be10318}"  # Microsoft, "System-Defined Device Setup Classes": Display
PCI = "SYSTEM\\CurrentControlSet\\Enum\\PCI"
SERVICES = "SYSTEM\\CurrentControlSet\\Services\\"
SERVICE = "nvlddmkm"  # NVIDIA's kernel-mode display driver
FEATURES = ((39, "avx"), (40, "avx2"), (41, "avx512f"))  # winnt.h: PF_AVX_INSTRUCTIONS_AVAILABLE and those after it
DLLS = {"libcuda.so.1": "nvcuda.dll", "libnvidia-ml.so.1": "nvml.dll"}
_DEVICE = re.compile(r"VEN_10DE&DEV_([0-9A-F]{4})", re.IGNORECASE)
_PLACE = re.compile(r"\((\d+),(\d+),(\d+)\)$")


class System:
    """Any system; the others override what they can answer."""

    platform: str = ""  # as sys.platform has it
    name: str | None = None  # the fact `host.os`
    title: str = ""  # for messages
    paths: ModuleType = os.path
    no_driver = Unknown("the NVIDIA driver is not read on this system")
    root = "/"
    endings: tuple[str, ...] = ("",)  # of programs

    def __init__(self, platform_name: str = "") -> None:
        """`platform_name` is what sys.platform says; a known system has its own."""
        self.platform = platform_name or self.platform
        self.title = self.title or self.platform

    def host(self) -> Host:
        """The machine, as far as the standard library and psutil tell."""
        import psutil

        read = {
            "os": (self.name, "sys.platform"),
            "machine": (platform.machine().lower(), "platform.machine"),
            "kernel": (platform.release(), "platform.release"),
            "distribution": (platform.platform(terse=True), "platform.platform"),
            "distribution_id": (self.name, "sys.platform"),
            "distribution_version": (platform.version(), "platform.version"),
            "memory": (psutil.virtual_memory().total, "psutil"),
            "cpus": (os.cpu_count(), "os.cpu_count"),
            "name": (platform.node(), "platform.node"),
            "cpu_model": (platform.processor(), "platform.processor"),
        }
        facts: dict[str, Fact[Any]] = dict.fromkeys(Host.__struct_fields__, Unknown(f"not read on {self.title}"))
        facts |= {name: Known(value, source) for name, (value, source) in read.items() if value}
        return Host(**facts)

    def driver(self) -> Driver:
        """The installed driver, without what it says itself."""
        return Driver(**dict.fromkeys(Driver.__struct_fields__, self.no_driver))

    def driver_files(self, _soname: str, _environ: Mapping[str, str], /) -> Fact[tuple[LibraryFile, ...]]:
        """The driver's library that Linux calls `soname`."""
        return self.no_driver

    def toolkit_places(self, _environ: Mapping[str, str], /) -> Iterator[tuple[str, str]]:
        """Yield (path, via) of what may be a CUDA toolkit, beside those that variables name."""
        yield from ()


class MacOs(System):
    """A Mac: NVIDIA's last driver was for macOS 10.13, and TensorFlow has had no CUDA there since 1.2."""

    platform, name, title, no_driver = "darwin", "macos", "macOS", Unknown("NVIDIA makes no driver for macOS")


class Api:
    """What Windows is asked; tests answer from a recording."""

    root = "/"  # where drives are looked for; "/": they are the machine's own

    def read(self, key: str) -> tuple[list[str], dict[str, str | int]]:
        """Return the keys below a key of HKEY_LOCAL_MACHINE, and its values that are texts or numbers.

        Raises OSError: it is missing, or not ours to read.
        """
        if sys.platform != "win32":
            raise OSError(f"no registry on {sys.platform}")
        import winreg

        access = winreg.KEY_READ | winreg.KEY_WOW64_64KEY  # also from a 32-bit Python
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, access) as handle:
            keys, count, _ = winreg.QueryInfoKey(handle)
            found = [winreg.EnumValue(handle, index) for index in range(count)]
            below_it = [winreg.EnumKey(handle, index) for index in range(keys)]
        return below_it, {name: value for name, value, _ in found if isinstance(value, str | int)}

    def has_feature(self, number: int) -> bool:
        """Ask IsProcessorFeaturePresent."""
        if sys.platform != "win32":
            return False
        import ctypes

        return bool(ctypes.WinDLL("kernel32").IsProcessorFeaturePresent(number))


class Windows(System):
    """A Windows whose functions are those of `api`."""

    platform, name, title, paths = "win32", "windows", "Windows", ntpath
    no_driver = Unknown("not read on Windows, whose driver is that of the display adapter")
    endings = (".exe", ".bat", ".cmd", ".com")

    def __init__(self, api: Api | None = None) -> None:
        """Without `api`, the Windows that runs this program."""
        super().__init__()
        self._api = api or Api()
        self.root = self._api.root

    def host(self) -> Host:
        """With what the CPU can do, and GPUs by the registry."""
        runtime = [ntpath.join(_system({}), name) for name in VC_RUNTIME]
        features = tuple(name for number, name in FEATURES if self._api.has_feature(number))
        return msgspec.structs.replace(
            super().host(),
            cpu_flags=Known(features, "IsProcessorFeaturePresent (AVX only)"),
            pci_gpus=self._gpus(),
            vc_runtime=Known(self._existing(runtime), _system({})),
        )

    def _existing(self, paths: list[str]) -> tuple[LibraryFile, ...]:
        return tuple(LibraryFile(path=path) for path in paths if os.path.isfile(below(self.root, path)))

    def _gpus(self) -> Fact[tuple[PciGpu, ...]]:
        try:
            return Known(tuple(self._adapters()), f"HKLM\\{PCI}")
        except OSError as error:
            return Unknown(why(error, PCI))

    def _adapters(self) -> Iterator[PciGpu]:
        """Raises OSError: the list of devices cannot be read."""
        devices = [(device, found[1]) for device in self._api.read(PCI)[0] if (found := _DEVICE.match(device))]
        for device, number in devices:
            for instance in self._api.read(f"{PCI}\\{device}")[0]:
                values = {name: str(value) for name, value in self._api.read(f"{PCI}\\{device}\\{instance}")[1].items()}
                service = values.get("Service", "")
                # not the card's sound, or its USB port
                is_display = values.get("ClassGUID", "").lower() == DISPLAY
                if is_display and f"pci\\{device}\\{instance}".lower() in self._present(service):
                    place = _PLACE.search(values.get("LocationInformation", ""))
                    yield PciGpu(
                        address="0000:{:02x}:{:02x}.{}".format(*map(int, place.groups())) if place else "unknown",
                        device_id=f"10de:{number.lower()}",
                        driver=service or None,
                        name=values.get("DeviceDesc", "").rpartition(";")[2] or None,
                    )

    def _present(self, service: str) -> set[str]:
        """The devices that a service drives now."""
        try:
            listed = self._api.read(f"{SERVICES}{service}\\Enum")[1] if service else {}
        except OSError:  # no such service, or it drives nothing
            return set()
        return {str(value).lower() for name, value in listed.items() if name.isdecimal()}

    def driver(self) -> Driver:
        """Whether a display adapter uses NVIDIA's driver; which one, NVML and nvidia-smi tell."""
        loaded = Known(bool(self._present(SERVICE)), f"HKLM\\{SERVICES}{SERVICE}\\Enum")
        return msgspec.structs.replace(super().driver(), kernel_module_loaded=loaded)

    def driver_files(self, soname: str, environ: Mapping[str, str], /) -> Fact[tuple[LibraryFile, ...]]:
        """nvcuda.dll and nvml.dll."""
        path = ntpath.join(_system(environ), DLLS[soname])
        return Known(self._existing([path]), path)

    def toolkit_places(self, environ: Mapping[str, str], /) -> Iterator[tuple[str, str]]:
        """The folder that NVIDIA's installer installs into."""
        folder = ntpath.join(environ.get("PROGRAMFILES", "C:\\Program Files"), "NVIDIA GPU Computing Toolkit", "CUDA")
        yield from ((ntpath.join(folder, name), "Program Files") for name in names_in(below(self.root, folder)))


def _system(environ: Mapping[str, str]) -> str:
    return ntpath.join(environ.get("SYSTEMROOT", "C:\\Windows"), "System32")


_KNOWN: dict[str, System | None] = {"linux": None, "win32": Windows(), "darwin": MacOs()}
_here = _KNOWN.get(sys.platform, System(sys.platform))


def other(root: str = "/") -> System | None:
    """The system here; None on Linux, and where `root` is a fake one: that is taken for a Linux."""
    return _here if root == "/" else None


def paths() -> ModuleType:
    """The functions for paths of this system: those of a recorded Windows are ntpath's."""
    return _here.paths if _here else os.path


def folders(environ: Mapping[str, str]) -> list[str]:
    """The absolute entries of PATH, in their order; an empty or relative one means the current directory or below."""
    entries = (entry.strip('"') for entry in environ.get("PATH", os.defpath).split(paths().pathsep))
    return [entry for entry in entries if paths().isabs(entry)]


def find(name: str, environ: Mapping[str, str], *, root: str = "/", more: Iterable[str] = ()) -> str | None:
    """Path of the program `name` in the first folder of PATH, or of `more`, that has it; folders are below `root`.

    It is found as by a shell, save that nothing is started out of the current directory. A `name` with a folder in it
    is that path itself.
    """
    system = other(root)
    root = system.root if system else root
    endings = system.endings if system else ("",)  # that Windows adds
    files = (name,) if name.lower().endswith(endings) else tuple(name + ending for ending in endings)
    places = ("",) if paths().dirname(name) else (below(root, folder) for folder in (*folders(environ), *more))
    programs = (os.path.join(place, file) for place in places for file in files)
    return next((one for one in programs if os.path.isfile(one) and os.access(one, os.X_OK)), None)
