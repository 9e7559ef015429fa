"""Machines that are no Linux: what their systems, drivers and TensorFlow answer, restated from problem reports.

Versions, messages and nvidia-smi's output are those of the reports named in recorded.yaml; the registry has the form
that Windows documents, with the values that belong to such a machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bench.fake_worker import Clock, FakeWorker
from tests.tables import read_rows
from tfgpu_doctor.bench.runner import process
from tfgpu_doctor.probes import driver, systems
from tfgpu_doctor.probes.systems import DISPLAY, PCI, SERVICE, SERVICES, Api, MacOs, System, Windows
from tfgpu_doctor.probes.tensorflow_probe import PHASES, wheel_platform

SYSTEM32 = "C:\\Windows\\System32"
TOOLKIT = "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\"
WINDOWS_ENVIRON = {
    "SYSTEMROOT": "C:\\Windows",
    "PROGRAMFILES": "C:\\Program Files",
    "APPDATA": "C:\\Users\\ann\\AppData\\Roaming",
    "USERPROFILE": "C:\\Users\\ann",
    "PATH": f"{SYSTEM32};C:\\Windows",
}
_DSO = "2023-01-11 20:33:28.650404: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] "
KEPT = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER")
Registry = dict[str, dict[str, str | int]]


class RecordedApi(Api):
    """Answers of Windows' functions."""

    def __init__(self, root: str, registry: Registry) -> None:
        self.root, self.registry = root, registry

    def read(self, key: str) -> tuple[list[str], dict[str, str | int]]:
        below = {name[len(key) + 1 :].split("\\")[0] for name in self.registry if name.startswith(key + "\\")}
        if not below and key not in self.registry:
            raise FileNotFoundError(2, "The system cannot find the file specified", key)
        return sorted(below), dict(self.registry.get(key, {}))

    def has_feature(self, number: int) -> bool:
        return number in (39, 40)


def registry(device: str = "", name: str = "", driver: bool = False) -> Registry:
    """Of a machine with one NVIDIA GPU, or none, with NVIDIA's driver or without."""
    instance = f"VEN_10DE&DEV_{device}&SUBSYS_88DC1043&REV_A1\\4&1A2B3C4D&0&0008"
    intel = "VEN_8086&DEV_4680&SUBSYS_88801043&REV_0C\\3&11583659&0&10"
    service = SERVICE if driver else "BasicDisplay"
    found: Registry = {rf"{PCI}\{intel}": {"ClassGUID": DISPLAY, "Service": "igfxn"}}
    if device:
        place = r"@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)"
        title = f"@oem12.inf,%nvidia_dev.{device.lower()}%;{name}"
        keys = {"ClassGUID": DISPLAY, "Service": service, "DeviceDesc": title, "LocationInformation": place}
        found[rf"{PCI}\{instance}"] = dict(keys)
        found[rf"{SERVICES}{service}\Enum"] = {"0": rf"PCI\{instance}", "Count": 1, "NextInstance": 1}
    return found


@dataclass(frozen=True)
class Machine:
    """A machine, its interpreter and what TensorFlow says there."""

    name: str
    python: str
    packages: Mapping[str, str]
    first: list[str]  # what the doctor finds
    facts: Mapping[str, Any] = field(default_factory=dict)
    gpu: tuple[Any, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    error: str | None = None  # that the import raises
    cuda: str | None = None  # the CUDA that it was built with
    files: tuple[str, ...] = ()
    smi: str | None = None
    nvml: tuple[dict[str, Any], ...] = ()

    @property
    def is_windows(self) -> bool:
        return self.name != "Mac"

    def system(self, folder: str) -> System:
        """It, with its drives in that folder."""
        return Windows(RecordedApi(folder, registry(*self.gpu))) if self.is_windows else MacOs()

    def lay(self, folder: Path) -> str:
        """Write its files, and return the path of its interpreter, which answers as recorded."""
        for name in self.files:
            file = folder / name.replace("\\", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        if self.smi:
            _program(folder / "C:" / "Windows" / "System32" / "nvidia-smi.exe", self.smi)
        python = folder / "python.exe"
        log = [f"{_DSO}Could not load dynamic library '{one}.dll'; dlerror: {one}.dll not found" for one in self.lost]
        _program(python, "\n".join(map(json.dumps, self.events())) + "\n", "\n".join(log) + "\n")
        return str(python)

    def events(self) -> list[dict[str, Any]]:
        """What the TensorFlow probe writes there."""
        home, separator = ("C:\\Users\\ann\\tf", "\\") if self.is_windows else ("/Users/ann/tf", "/")
        site = f"{home}\\Lib\\site-packages" if self.is_windows else f"{home}/lib/python3.11/site-packages"
        package = separator.join((site, "tensorflow"))
        platform = ("win32", "AMD64") if self.is_windows else ("darwin", "arm64")
        answers: dict[str, Any] = read_rows(Path(__file__).with_name("answers.yaml"))
        executable = separator.join((home, "Scripts\\python.exe" if self.is_windows else "bin/python"))
        interpreter = {"executable": executable, "version": self.python, "prefix": home, "sys_path": [site]}
        answers["interpreter"] |= {**interpreter, "wheel_platform": wheel_platform(*platform, 64)}
        common = {"location": site, "installer": "pip", "requires": []}
        packages = [{"name": name, "version": version, **common} for name, version in self.packages.items()]
        answers["packages"] |= {"packages": packages, "tensorflow_paths": [package]}
        file = separator.join((package, "__init__.py"))
        answers["import"] |= {"version": self.packages["tensorflow"], "file": file}
        if self.cuda:
            answers["build"]["build"] = {**answers.pop("CUDA build"), "cuda_version": self.cuda}
        last = PHASES.index("import") if self.error else len(PHASES)
        return [event for one in PHASES[: last + 1] for event in self._phase(one, answers.get(one))]

    def _phase(self, phase: str, answer: Any) -> list[dict[str, Any]]:
        head = {"tfgpu": "patient/1", "phase": phase}
        end: dict[str, Any] = {"outcome": "ok", "data": answer}
        if answer is None:
            end = {"outcome": "skipped", "note": "TensorFlow lists no GPU"}
        if self.error and phase == "import":
            end = {"outcome": "raised", "exception": self.error, "traceback": []}
        return [{**head, "event": "start"}, {**head, "event": "end", "seconds": 0.5, **end}]


def _program(file: Path, output: str, errors: str = "") -> None:
    """A program that prints a text; it is a shell script, since the tests run on a POSIX system."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for stream, text in (("out", output), ("err", errors)):
        Path(f"{file}.{stream}").write_text(text.lstrip())
    file.write_text(f"#!/bin/sh\n/bin/cat '{file}.err' >&2\nexec /bin/cat '{file}.out'\n")
    file.chmod(0o755)


def _machine(name: str, row: Any) -> Machine:
    if isinstance(row.get("environ", {}), dict) and name != "Mac":
        row["environ"] = {**WINDOWS_ENVIRON, **row.get("environ", {})}
    text = json.dumps(row).replace("SYSTEM32", json.dumps(SYSTEM32)[1:-1]).replace("TOOLKIT", json.dumps(TOOLKIT)[1:-1])
    return Machine(name, **json.loads(text))


MACHINES = {name: _machine(name, row) for name, row in read_rows(Path(__file__).with_suffix(".yaml")).items()}


class _Worker(FakeWorker):
    """One that computes a training, too."""

    def _verify(self, request: dict[str, Any]) -> dict[str, Any]:
        losses = [2.3, 2.1, 1.9]
        training = {"losses": losses, "compared": losses, "expected": losses, "update": 1e-6, "replicas": 1}
        return {**super()._verify(request), **training}


def stand(machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let this process run on `machine`, whose drives lie in `folder`; return the path of its interpreter."""
    python = machine.lay(folder)
    for name in set(os.environ).difference(KEPT):
        monkeypatch.delenv(name)
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(systems, "_here", machine.system(str(folder)))
    recorded = folder / "nvml.jsonl"
    with recorded.open("w") as stream:
        for line in machine.nvml:
            of = {"gpu": line["gpu"]} if "gpu" in line else {}
            facts = {name: {"is": "known", "value": line[name], "source": "NVML"} for name in line if name != "gpu"}
            print(json.dumps({**of, "facts": facts}), file=stream)
    answers = {"nvml": ["/bin/cat", str(recorded)], "cuda": ["/bin/cat", os.devnull]}
    monkeypatch.setattr(driver, "child_command", answers.__getitem__)
    monkeypatch.setattr(process, "WorkerProcess", lambda _executable: _Worker(Clock(), 0.1))
    monkeypatch.setattr("sys.executable", python)
    return python
