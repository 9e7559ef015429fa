"""A system other than Linux: what the standard library and psutil tell, and unknown with its reason for the rest.

Linux is read from files below a root, so that a test can show a machine as a folder. Elsewhere the answers come from
the system's own functions; they stand behind this object, and tests put one with recorded answers in its place.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from tfgpu_doctor.records.facts import Fact, Host, Known, LibraryFile, Loader, Toolkit, Unknown


@dataclass(frozen=True)
class InstalledDriver:
    """The NVIDIA driver as the system lists it, without asking the driver itself."""

    version: Fact[str]  # of what is installed
    module: Fact[str]  # version of the loaded kernel module
    loaded: Fact[bool]
    kind: Fact[str]  # "open" or "proprietary"
    on_disk: Fact[tuple[str, ...]]
    device_nodes: Fact[tuple[str, ...]]


@dataclass(frozen=True)
class LoaderQuestion:
    """What the loader is asked: libraries, and what decides where it looks."""

    sonames: Sequence[tuple[str, str]]  # (soname, component)
    environ: Mapping[str, str]
    site_packages: Sequence[str]
    toolkits: Sequence[Toolkit]
    executable: str | None


class System:
    """Any system; the others override what they can answer."""

    platform: str = ""  # as sys.platform has it
    name: str | None = None  # the fact `host.os`
    paths: ModuleType = os.path
    root = "/"
    endings: tuple[str, ...] = ("",)  # of programs

    def __init__(self, platform_name: str = "") -> None:
        """`platform_name` is what sys.platform says; a known system has its own."""
        self.platform = platform_name or self.platform

    @property
    def title(self) -> str:
        """For messages: "Windows"."""
        return {"windows": "Windows", "macos": "macOS"}.get(self.name or "", self.platform)

    def host(self) -> Host:
        """The machine, as far as the standard library and psutil tell."""
        import psutil

        unread = Unknown(f"not read on {self.title}")
        cpus = os.cpu_count()
        system = Known(self.name, "sys.platform") if self.name else Unknown(f"unknown platform {self.platform}")
        return Host(
            name=Known(platform.node(), "platform.node") if platform.node() else unread,
            os=system,
            machine=Known(platform.machine().lower(), "platform.machine"),
            kernel=Known(platform.release(), "platform.release"),
            distribution=Known(platform.platform(terse=True), "platform.platform"),
            distribution_id=system,
            distribution_version=Known(platform.version(), "platform.version"),
            libc=Unknown(f"{self.title} has no glibc"),
            cpu_model=Known(platform.processor(), "platform.processor") if platform.processor() else unread,
            cpu_flags=unread,
            cpus=Known(cpus, "os.cpu_count") if cpus else Unknown("os.cpu_count does not know"),
            cpu_quota=unread,
            memory=Known(psutil.virtual_memory().total, "psutil"),
            memory_limit=unread,
            address_space_limit=unread,
            temporary_folder=unread,
            shm=Unknown(f"{self.title} has no /dev/shm"),
            container=unread,
            pci_gpus=unread,
            nouveau_loaded=Unknown(f"nouveau is a Linux driver; this is {self.title}"),
            secure_boot=unread,
            dxg_device=Unknown("/dev/dxg is WSL2's"),
            vc_runtime=Unknown("the Visual C++ runtime is a part of Windows programs"),
        )

    def driver(self) -> InstalledDriver:
        """The installed driver."""
        unread = Unknown(f"not read on {self.title}")
        return InstalledDriver(unread, unread, unread, unread, unread, unread)

    def driver_files(self, soname: str, _environ: Mapping[str, str], /) -> Fact[tuple[LibraryFile, ...]]:
        """The driver's library that Linux calls `soname`."""
        return Unknown(f"{soname} is not looked for on {self.title}")

    def library_name(self, soname: str) -> str:
        """What the driver's library is called here."""
        return soname

    def smi_places(self, _environ: Mapping[str, str], /) -> tuple[str, ...]:
        """Paths of nvidia-smi where it is not on PATH."""
        return ()

    def toolkit_places(self, _environ: Mapping[str, str], /) -> Iterator[tuple[str, str]]:
        """Yield (path, via) of what may be a CUDA toolkit, beside those that variables name."""
        yield from ()

    def loader(self, _question: LoaderQuestion, /) -> Loader:
        """Which file the loader would pick for each library."""
        return Loader(sonames=Unknown(f"the loader of {self.platform} is not modelled; TensorFlow has no CUDA there"))
