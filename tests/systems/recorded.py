"""Machines that are no Linux: what their systems, drivers and TensorFlow answer, restated from problem reports.

Versions, messages and nvidia-smi's output are those of the reports named below; the registry has the form that Windows
documents, with the values that belong to such a machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tfgpu_doctor.bench.runner import process
from tfgpu_doctor.probes import driver, systems
from tfgpu_doctor.probes.systems import DISPLAY, PCI, SERVICE, SERVICES, Api, MacOs, System, Windows
from tfgpu_doctor.probes.tensorflow_probe import PHASES, wheel_platform

SYSTEM32 = "C:\\Windows\\System32"
TOOLKIT = "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\"
RUNTIME = tuple(f"{SYSTEM32}\\{name}" for name in ("msvcp140.dll", "msvcp140_1.dll", "vcruntime140_1.dll"))
DRIVER = tuple(f"{SYSTEM32}\\{name}" for name in ("nvcuda.dll", "nvml.dll"))
WINDOWS_ENVIRON = {
    "SYSTEMROOT": "C:\\Windows",
    "PROGRAMFILES": "C:\\Program Files",
    "APPDATA": "C:\\Users\\ann\\AppData\\Roaming",
    "USERPROFILE": "C:\\Users\\ann",
    "PATH": f"{SYSTEM32};C:\\Windows",
}


class RecordedApi(Api):
    """Answers of Windows' functions."""

    def __init__(self, root: str, registry: Mapping[str, Mapping[str, str | int]]) -> None:
        self.root, self.registry = root, registry

    def read(self, key: str) -> tuple[list[str], dict[str, str | int]]:
        below = {name[len(key) + 1 :].split("\\")[0] for name in self.registry if name.startswith(key + "\\")}
        if not below and key not in self.registry:
            raise FileNotFoundError(2, "The system cannot find the file specified", key)
        return sorted(below), dict(self.registry.get(key, {}))

    def has_feature(self, number: int) -> bool:
        return number in (39, 40)


@dataclass(frozen=True)
class Machine:
    """A machine, its interpreter and what TensorFlow says there."""

    system: Callable[[str], System]  # of a folder that holds its drives
    environ: Mapping[str, str]
    python: Mapping[str, Any]  # the answer of the phase "interpreter", over what is usual
    packages: Mapping[str, str]
    log: tuple[str, ...] = ()
    error: str | None = None  # that the import raises
    cuda: str | None = None  # the CUDA that it was built with
    files: tuple[str, ...] = ()
    smi: str | None = None
    nvml: tuple[dict[str, Any], ...] = ()

    def lay(self, folder: Path) -> str:
        """Write its files, and return the path of its interpreter, which answers as recorded."""
        for name in self.files:
            file = folder / name.replace("\\", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        if self.smi:
            _program(folder / "C:" / "Windows" / "System32" / "nvidia-smi.exe", self.smi)
        python = folder / "python.exe"
        _program(python, "\n".join(map(json.dumps, self.events())) + "\n", "\n".join(self.log) + "\n")
        return str(python)

    def events(self) -> list[dict[str, Any]]:
        """What the TensorFlow probe writes there."""
        windows = self.python["platform"] == "win32"
        separator, site = ("\\", "C:\\Users\\ann\\tf\\Lib\\site-packages") if windows else ("/", MAC_SITE)
        package = separator.join((site, "tensorflow"))
        packages = [
            {"name": name, "version": version, "location": site, "installer": "pip", "requires": []}
            for name, version in self.packages.items()
        ]
        version = self.packages["tensorflow"]
        info = {
            "is_cuda_build": bool(self.cuda),
            "is_rocm_build": False,
            "cuda_version": self.cuda,
            "cudnn_version": "64_8" if self.cuda else None,
            "compute_capabilities": list(CAPABILITIES) if self.cuda else [],
        }
        answers: dict[str, Any] = {
            "interpreter": {
                **USUAL_PYTHON,
                "sys_path": [site],
                "wheel_platform": wheel_platform(self.python["platform"], self.python["machine"], 64),
                **self.python,
            },
            "packages": {"packages": packages, "pip": True, "tensorflow_paths": [package]},
            "import": {"version": version, "file": separator.join((package, "__init__.py")), "problem": None},
            "build": {"build": info, "source": "tf.sysconfig.get_build_info()"},
            "devices": {"devices": [{"name": "/physical_device:CPU:0", "kind": "CPU"}]},
        }
        return [event for one in PHASES for event in self._phase(one, answers.get(one, "TensorFlow lists no GPU"))]

    def _phase(self, phase: str, answer: Any) -> list[dict[str, Any]]:
        if self.error and PHASES.index(phase) > PHASES.index("import"):
            return []
        head = {"tfgpu": "patient/1", "phase": phase}
        end: dict[str, Any] = {"outcome": "ok", "data": answer}
        if isinstance(answer, str):
            end = {"outcome": "skipped", "note": answer}
        if self.error and phase == "import":
            end = {"outcome": "raised", "exception": self.error, "traceback": []}
        return [{**head, "event": "start"}, {**head, "event": "end", "seconds": 0.5, **end}]


# tf.sysconfig.get_build_info() of tensorflow 2.10.1 for Windows
CAPABILITIES = ("sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80")
MAC_SITE = "/Users/ann/tf/lib/python3.11/site-packages"
USUAL_PYTHON: dict[str, Any] = {
    "implementation": "cpython",
    "bits": 64,
    "environment": "venv",
    "externally_managed": False,
    "user_site": None,
}


def _program(file: Path, output: str, errors: str = "") -> None:
    """A program that prints a text; it is a shell script, since the tests run on a POSIX system."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for stream, text in (("out", output), ("err", errors)):
        Path(f"{file}.{stream}").write_text(text.lstrip())
    file.write_text(f"#!/bin/sh\n/bin/cat '{file}.err' >&2\nexec /bin/cat '{file}.out'\n")
    file.chmod(0o755)


def windows_python(version: str) -> dict[str, Any]:
    return {
        "executable": "C:\\Users\\ann\\tf\\Scripts\\python.exe",
        "version": version,
        "prefix": "C:\\Users\\ann\\tf",
        "platform": "win32",
        "machine": "AMD64",
    }


def registry(device: str | None, name: str = "", driver: bool = False) -> dict[str, dict[str, str | int]]:
    """Of a machine with one NVIDIA GPU, or none, with NVIDIA's driver or without."""
    instance = f"VEN_10DE&DEV_{device}&SUBSYS_88DC1043&REV_A1\\4&1A2B3C4D&0&0008"
    intel = "VEN_8086&DEV_4680&SUBSYS_88801043&REV_0C\\3&11583659&0&10"
    service = SERVICE if driver else "BasicDisplay"
    found: dict[str, dict[str, str | int]] = {rf"{PCI}\{intel}": {"ClassGUID": DISPLAY, "Service": "igfxn"}}
    if device:
        place = r"@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)"
        found |= {
            rf"{PCI}\{instance}": {
                "ClassGUID": DISPLAY,
                "Service": service,
                "DeviceDesc": f"@oem12.inf,%nvidia_dev.{device.lower()}%;{name}",
                "LocationInformation": place,
            },
            rf"{SERVICES}{service}\Enum": {"0": rf"PCI\{instance}", "Count": 1, "NextInstance": 1},
        }
    return found


def windows(keys: Mapping[str, Mapping[str, str | int]]) -> Callable[[str], System]:
    return lambda root: Windows(RecordedApi(root, keys))


SMI_561 = """\
Thu Jan 16 12:00:00 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 561.17                 Driver Version: 561.17         CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4080      WDDM  |   00000000:01:00.0  On |                  N/A |
|  0%   38C    P8             12W /  320W |    1234MiB /  16376MiB |      1%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""


def _facts(**values: Any) -> dict[str, Any]:
    return {name: {"is": "known", "value": value, "source": "NVML"} for name, value in values.items()}


NVML_4080: tuple[dict[str, Any], ...] = (
    {"begin": "nvmlInit"},
    {"facts": _facts(nvml_init={"code": 0, "message": "success", "name": "NVML_SUCCESS"})},
    {"facts": _facts(version="561.17", cuda_supported="12.6", count=1)},
    {"gpu": 0, "facts": _facts(name="NVIDIA GeForce RTX 4080", compute_capability="8.9")},
    {"gpu": 0, "facts": _facts(memory_total=17171480576, memory_used=1293942784, memory_free=15877537792)},
)

# tensorflow/tensorflow issue 85006: Windows 11 24H2, RTX 4080, driver 561.17, CUDA 12.6, Python 3.11, TensorFlow 2.18
WITH_GPU = Machine(
    windows(registry("2704", "NVIDIA GeForce RTX 4080", driver=True)),
    {
        **WINDOWS_ENVIRON,
        "CUDA_PATH": f"{TOOLKIT}v12.6",
        "CUDA_PATH_V12_6": f"{TOOLKIT}v12.6",
        "PATH": f"{TOOLKIT}v12.6\\bin;{WINDOWS_ENVIRON['PATH']}",
    },
    windows_python("3.11.9"),
    {"tensorflow": "2.18.0", "tensorflow-intel": "2.18.0", "numpy": "2.0.2", "keras": "3.6.0", "protobuf": "5.28.3"},
    files=(*RUNTIME, *DRIVER, f"{TOOLKIT}v12.6\\bin\\cudart64_12.dll", f"{TOOLKIT}v12.6\\version.json"),
    smi=SMI_561,
    nvml=NVML_4080,
)
# the same without a GPU of NVIDIA
WITHOUT_GPU = Machine(
    windows(registry(None)),
    WINDOWS_ENVIRON,
    windows_python("3.12.4"),
    {"tensorflow": "2.18.0", "tensorflow-intel": "2.18.0", "numpy": "2.0.2", "keras": "3.6.0"},
    files=RUNTIME,
)
_LOST = ("cudart64_110", "cublas64_11", "cublasLt64_11", "cufft64_10", "cusparse64_11", "cudnn64_8")
_DSO = "2023-01-11 20:33:28.650404: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] "
# tensorflow/tensorflow issue 59229: Windows 10 22H2, GTX 1070, TensorFlow 2.10.1; CUDA 11.2 is not on PATH
CUDA_OFF_PATH = Machine(
    windows(registry("1B81", "NVIDIA GeForce GTX 1070", driver=True)),
    {**WINDOWS_ENVIRON, "CUDA_PATH": f"{TOOLKIT}v11.2"},
    windows_python("3.10.8"),
    {"tensorflow": "2.10.1", "numpy": "1.23.5", "keras": "2.10.0", "protobuf": "3.19.6"},
    log=tuple(f"{_DSO}Could not load dynamic library '{name}.dll'; dlerror: {name}.dll not found" for name in _LOST),
    cuda="64_112",
    files=(
        *RUNTIME,
        *DRIVER,
        f"{TOOLKIT}v11.2\\version.json",
        *(f"{TOOLKIT}v11.2\\bin\\{name}.dll" for name in _LOST[:-1]),
    ),
)
# tensorflow/tensorflow issue 35618 and many others: no Visual C++ runtime of 2019
NO_RUNTIME = Machine(
    windows(registry(None)),
    WINDOWS_ENVIRON,
    windows_python("3.10.8"),
    {"tensorflow": "2.10.1", "numpy": "1.23.5"},
    error="ImportError: DLL load failed while importing _pywrap_tensorflow_internal: "
    "The specified module could not be found.",
    files=RUNTIME[:1],
)
# a GPU that only Windows' own display driver serves
NO_DRIVER = Machine(
    windows(registry("2504", "NVIDIA GeForce RTX 3060")),
    WINDOWS_ENVIRON,
    windows_python("3.10.11"),
    {"tensorflow": "2.10.1", "numpy": "1.23.5"},
    cuda="64_112",
    files=RUNTIME,
)
# sun1638650145/Libraries-and-Extensions-for-TensorFlow-for-Apple-Silicon issue 20, with TensorFlow's own wheel
MAC = Machine(
    lambda _root: MacOs(),
    {"PATH": "/usr/bin:/bin", "HOME": "/Users/ann"},
    {
        "executable": "/Users/ann/tf/bin/python",
        "version": "3.11.1",
        "prefix": "/Users/ann/tf",
        "platform": "darwin",
        "machine": "arm64",
    },
    {"tensorflow": "2.16.2", "numpy": "1.26.4", "keras": "3.4.1"},
)
MACHINES = {
    "with a GPU": WITH_GPU,
    "without a GPU": WITHOUT_GPU,
    "CUDA off PATH": CUDA_OFF_PATH,
    "no runtime": NO_RUNTIME,
    "no driver": NO_DRIVER,
    "Mac": MAC,
}
KEPT = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER")


class _Worker(FakeWorker):
    """One that computes a training, too."""

    def _verify(self, request: dict[str, Any]) -> dict[str, Any]:
        losses = [2.3, 2.1, 1.9]
        training = {"losses": losses, "compared": losses, "expected": losses, "update": 1e-6, "replicas": 1}
        return {**super()._verify(request), **training}


@dataclass
class Stage:
    """A machine that stands: its interpreter, and what was asked of workers."""

    python: str
    workers: list[FakeWorker] = field(default_factory=list)


def stand(machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Let this process run on `machine`, whose drives lie in `folder`."""
    python = machine.lay(folder)
    stage = Stage(python)
    for name in set(os.environ).difference(KEPT):
        monkeypatch.delenv(name)
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(systems, "_here", machine.system(str(folder)))
    recorded = folder / "nvml.jsonl"
    recorded.write_text("".join(json.dumps(line) + "\n" for line in machine.nvml))

    def command(child: str) -> list[str]:
        return ["/bin/cat", str(recorded if child == "nvml" else os.devnull)]

    def worker(_executable: str) -> FakeWorker:
        stage.workers.append(_Worker(Clock(), 0.1))
        return stage.workers[-1]

    monkeypatch.setattr(driver, "child_command", command)
    monkeypatch.setattr(process, "WorkerProcess", worker)
    monkeypatch.setattr("sys.executable", python)
    return stage
