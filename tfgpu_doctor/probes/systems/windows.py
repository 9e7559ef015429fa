"""Windows: the driver by the registry and by its DLLs, GPUs by the list of PCI devices, the Visual C++ runtime.

Registry: Microsoft, "Registry trees and keys for devices and drivers"; a service's key `Enum` lists the devices that
are present, while Enum\\PCI keeps those that were removed. The driver's version: Chromium, "Get NVIDIA driver version
from NVML on 64-bit Windows" (crrev 581820), takes the last five digits of Windows' number, as is done here.
"""

from __future__ import annotations

import ntpath
import os
import re
from collections.abc import Iterator, Mapping

import msgspec

from tfgpu_doctor.matrix.library_names import VC_RUNTIME
from tfgpu_doctor.probes import dll_search
from tfgpu_doctor.probes.files import below, names_in, why
from tfgpu_doctor.probes.systems.system import InstalledDriver, LoaderQuestion, System
from tfgpu_doctor.probes.systems.windows_api import Api, LiveApi
from tfgpu_doctor.records.facts import Fact, Host, Known, LibraryFile, Loader, PciGpu, Unknown

CONTROL = "SYSTEM\\CurrentControlSet\\Control\\Class\\"
DISPLAY = "{4d36e968-e325-11ce-bfc1-08002be10318}"  # Microsoft, "System-Defined Device Setup Classes": Display
PCI = "SYSTEM\\CurrentControlSet\\Enum\\PCI"
SERVICES = "SYSTEM\\CurrentControlSet\\Services\\"
SERVICE = "nvlddmkm"  # NVIDIA's kernel-mode display driver
WINDOWS = "SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion"
CPU = "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0"
FEATURES = ((39, "avx"), (40, "avx2"), (41, "avx512f"))  # winnt.h: PF_AVX_INSTRUCTIONS_AVAILABLE and those after it
WINDOWS_11 = 22000  # the first build of it, whose ProductName still says Windows 10
DLLS = {"libcuda.so.1": "nvcuda.dll", "libnvidia-ml.so.1": "nvml.dll"}
TOOLKITS = "NVIDIA GPU Computing Toolkit\\CUDA"
_DEVICE = re.compile(r"VEN_10DE&DEV_([0-9A-F]{4})", re.IGNORECASE)
_PLACE = re.compile(r"\((\d+),(\d+),(\d+)\)$")


def driver_version(text: str) -> str | None:
    """NVIDIA's version in Windows' number of a driver; None for what is none.

    >>> driver_version("31.0.15.3623"), driver_version("9.18.13.4725"), driver_version("32.0.15.84")
    ('536.23', '347.25', '500.84')
    """
    found = re.fullmatch(r"\d+\.\d+\.\d*(\d)\.(\d{1,4})", text)
    return f"{found[1]}{found[2].zfill(4)[:2]}.{found[2].zfill(4)[2:]}" if found else None


class Windows(System):
    """A Windows whose functions are those of `api`."""

    platform, name, paths = "win32", "windows", ntpath
    endings = (".exe", ".bat", ".cmd", ".com")

    def __init__(self, api: Api | None = None) -> None:
        """Without `api`, the Windows that runs this program."""
        super().__init__()
        self._api = api or LiveApi()
        self.root = self._api.root

    def host(self) -> Host:
        """With its edition, CPU and GPUs by the registry."""
        return msgspec.structs.replace(
            super().host(),
            machine=Known(self._api.machine(), "platform.machine"),
            kernel=Known(self._api.version(), "platform.version"),
            distribution=self._edition(),
            distribution_version=Known(self._api.version(), "platform.version"),
            cpu_model=self._value(CPU, "ProcessorNameString"),
            cpu_flags=Known(
                tuple(name for number, name in FEATURES if self._api.has_feature(number)),
                "IsProcessorFeaturePresent (AVX only)",
            ),
            pci_gpus=self._gpus(),
            vc_runtime=self._runtime(),
        )

    def _value(self, key: str, name: str) -> Fact[str]:
        try:
            found = self._api.values(key).get(name)
        except OSError as error:
            return Unknown(why(error, key))
        return Known(str(found).strip(), f"{key}\\{name}") if found else Unknown(f"{key} has no {name}")

    def _edition(self) -> Fact[str]:
        product, release = self._value(WINDOWS, "ProductName"), self._value(WINDOWS, "DisplayVersion")
        build = self._api.version().rpartition(".")[2]
        if isinstance(product, Unknown):
            return product
        eleven = build.isdecimal() and int(build) >= WINDOWS_11
        name = product.value.replace("Windows 10", "Windows 11") if eleven else product.value
        return Known(f"{name} {release.value}" if isinstance(release, Known) else name, product.source)

    # ------------------------------------------------------------------------------------------- GPUs, driver

    def _gpus(self) -> Fact[tuple[PciGpu, ...]]:
        """NVIDIA's display adapters that are present."""
        try:
            return Known(tuple(gpu for gpu, _ in self._adapters()), f"HKLM\\{PCI}")
        except OSError as error:
            return Unknown(why(error, PCI))

    def _adapters(self) -> Iterator[tuple[PciGpu, dict[str, str | int]]]:
        """Each with the values of its key. Raises OSError: the list of devices cannot be read."""
        for device in self._api.subkeys(PCI):
            if not (match := _DEVICE.match(device)):
                continue
            for instance in self._api.subkeys(f"{PCI}\\{device}"):
                values = self._api.values(f"{PCI}\\{device}\\{instance}")
                service = str(values.get("Service", ""))
                if str(values.get("ClassGUID", "")).lower() != DISPLAY:  # the card's sound, or its USB port
                    continue
                if f"pci\\{device}\\{instance}".lower() in self._present(service):
                    yield _adapter(match[1], values, service), values

    def _present(self, service: str) -> set[str]:
        """The devices that a service drives now."""
        try:
            listed = self._api.values(f"{SERVICES}{service}\\Enum") if service else {}
        except OSError:  # no such service, or it drives nothing
            return set()
        return {str(value).lower() for name, value in listed.items() if name.isdecimal()}

    def driver(self) -> InstalledDriver:
        """The version of the driver that the display adapter uses."""
        no_module = Unknown("Windows has no kernel module nvidia; its driver is that of the display adapter")
        return InstalledDriver(
            version=self._driver_version(),
            module=no_module,
            loaded=Known(bool(self._present(SERVICE)), f"HKLM\\{SERVICES}{SERVICE}\\Enum"),
            kind=no_module,
            on_disk=no_module,
            device_nodes=Unknown("Windows has no /dev"),
        )

    def _driver_version(self) -> Fact[str]:
        try:
            keys = [f"{CONTROL}{values['Driver']}" for gpu, values in self._adapters() if gpu.driver == SERVICE]
        except (OSError, KeyError) as error:
            return Unknown(f"the registry does not name the driver's key: {error}")
        for key in keys:
            number = self._value(key, "DriverVersion")
            if isinstance(number, Known) and (version := driver_version(number.value)):
                return Known(version, f"HKLM\\{number.source} {number.value}")
        return Unknown(f"no NVIDIA GPU uses the driver {SERVICE}")

    def driver_files(self, soname: str, environ: Mapping[str, str], /) -> Fact[tuple[LibraryFile, ...]]:
        """nvcuda.dll and nvml.dll: in System32; up to 2018 NVML was installed beside nvidia-smi."""
        dll = DLLS[soname]
        folders = [self._system(environ)]
        if dll == "nvml.dll":
            folders.append(_nvsmi(environ))
        found = [ntpath.join(folder, dll) for folder in folders]
        here = tuple(self._file(path) for path in found if os.path.isfile(below(self.root, path)))
        return Known(tuple(_with_driver_version(file) for file in here), " ".join(found))

    def library_name(self, soname: str) -> str:
        """nvcuda.dll for libcuda.so.1."""
        return DLLS[soname]

    def _system(self, environ: Mapping[str, str]) -> str:
        return ntpath.join(environ.get("SYSTEMROOT", "C:\\Windows"), "System32")

    def _file(self, path: str) -> LibraryFile:
        return LibraryFile(path=path, version=self._api.file_version(path))

    def smi_places(self, environ: Mapping[str, str], /) -> tuple[str, ...]:
        """System32, and the folder of drivers up to 2018."""
        return tuple(ntpath.join(folder, "nvidia-smi.exe") for folder in (self._system(environ), _nvsmi(environ)))

    # --------------------------------------------------------------------------------------------- libraries

    def _runtime(self) -> Fact[tuple[LibraryFile, ...]]:
        folder = self._system({})
        paths = [ntpath.join(folder, name) for name in VC_RUNTIME]
        return Known(tuple(self._file(path) for path in paths if os.path.isfile(below(self.root, path))), folder)

    def toolkit_places(self, environ: Mapping[str, str], /) -> Iterator[tuple[str, str]]:
        """CUDA_PATH_V12_5 and its like, which the installer sets, then the folder that it installs into."""
        yield from ((environ[name], name) for name in sorted(environ, reverse=True) if name.startswith("CUDA_PATH_V"))
        folder = ntpath.join(environ.get("PROGRAMFILES", "C:\\Program Files"), TOOLKITS)
        yield from ((ntpath.join(folder, name), "Program Files") for name in names_in(below(self.root, folder)))

    def loader(self, question: LoaderQuestion, /) -> Loader:
        """By the files in the folders that Windows searches."""
        return dll_search.examine(
            question.sonames,
            environ=question.environ,
            site_packages=question.site_packages,
            toolkits=question.toolkits,
            executable=question.executable,
            root=self.root,
        )


def _adapter(device: str, values: Mapping[str, str | int], service: str) -> PciGpu:
    place = _PLACE.search(str(values.get("LocationInformation", "")))
    bus, slot, function = (int(part) for part in place.groups()) if place else (0, 0, 0)
    return PciGpu(
        address=f"0000:{bus:02x}:{slot:02x}.{function}" if place else "unknown",
        device_id=f"10de:{device.lower()}",
        driver=service or None,
        name=str(values.get("DeviceDesc", "")).rpartition(";")[2] or None,
    )


def _nvsmi(environ: Mapping[str, str]) -> str:
    return ntpath.join(environ.get("PROGRAMFILES", "C:\\Program Files"), "NVIDIA Corporation", "NVSMI")


def _with_driver_version(file: LibraryFile) -> LibraryFile:
    version = driver_version(file.version) if file.version else None
    return msgspec.structs.replace(file, version=version)
