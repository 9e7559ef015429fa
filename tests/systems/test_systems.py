"""What single probes make of systems other than Linux."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mypy import api

from tests.systems.recorded import MACHINES, SYSTEM32, TOOLKIT, Machine, RecordedApi, registry
from tfgpu_doctor.facts.facts import Known, Unknown, value_or
from tfgpu_doctor.probes import cuda, driver, elsewhere, host, loader, systems
from tfgpu_doctor.probes.systems import PCI, SERVICE, SERVICES, MacOs, System, Windows
from tfgpu_doctor.probes.tensorflow import Ending, Transcript


def on(machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.lay(folder)
    monkeypatch.setattr(systems, "_here", machine.system(str(folder)))


def test_what_is_not_asked_is_unknown_with_a_reason(subtests: pytest.Subtests) -> None:
    for system in [System("freebsd14"), MacOs()]:
        with subtests.test(system=system), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(systems, "_here", system)
            facts = host.examine()
            assert isinstance(facts.memory, Known) and isinstance(facts.cpu_flags, Unknown)
            found = loader.examine(
                [("libcudart.so.12", "cudart")], environ={}, tensorflow_dir=None, site_packages=[], toolkits=[]
            )
            assert isinstance(found.sonames, Unknown) and system.platform in found.sonames.reason
            asked = driver.examine(0.1, environ={}).driver
            assert isinstance(asked.libcuda, Unknown) and isinstance(asked.kernel_module_loaded, Unknown)
            assert isinstance(asked.xid_events, Unknown)
            assert (asked.libcuda.reason == "NVIDIA makes no driver for macOS") == (system.platform == "darwin")


def test_an_adapter_that_was_removed_is_not_listed(tmp_path: Path) -> None:
    keys = registry("2504", "NVIDIA GeForce RTX 3060", driver=True)
    assert len(value_or(Windows(RecordedApi(str(tmp_path), keys)).host().pci_gpus, ())) == 1
    del keys[f"{SERVICES}{SERVICE}\\Enum"]
    removed = Windows(RecordedApi(str(tmp_path), keys))
    assert removed.host().pci_gpus == Known((), f"HKLM\\{PCI}")
    assert removed.driver().kernel_module_loaded == Known(False, f"HKLM\\{SERVICES}{SERVICE}\\Enum")
    assert isinstance(Windows(RecordedApi(str(tmp_path), {})).host().pci_gpus, Unknown)


def test_toolkits_and_programs_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(MACHINES["with a GPU"], tmp_path, monkeypatch)
    (kit,) = value_or(cuda.examine(environ=MACHINES["with a GPU"].environ).toolkits, ())
    assert (kit.path, kit.via, kit.version) == (f"{TOOLKIT}v12.6", "CUDA_PATH", "12.6")
    (kit,) = value_or(cuda.examine(environ={}).toolkits, ())
    assert (kit.path, kit.via) == (f"{TOOLKIT}v12.6", "Program Files")
    assert systems.find("nvidia-smi", {"PATH": f'relative;"{SYSTEM32}"'}) == str(
        tmp_path / "C:" / "Windows" / "System32" / "nvidia-smi.exe"
    )
    assert next(elsewhere.data_folders(MACHINES["with a GPU"].environ, None)).startswith("C:\\Users\\ann\\AppData")


def test_a_dll_is_looked_for_where_windows_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(MACHINES["CUDA off PATH"], tmp_path, monkeypatch)
    kits = value_or(cuda.examine(environ=MACHINES["CUDA off PATH"].environ).toolkits, ())

    def predicted(path: str) -> Any:
        python = "C:\\Users\\ann\\tf\\Scripts\\python.exe"
        found = loader.examine(
            [("cudart64_110.dll", "cudart")],
            environ={"PATH": path},
            tensorflow_dir=None,
            site_packages=[],
            toolkits=kits,
            executable=python,
        )
        return value_or(found.sonames, ())[0]

    lost = predicted("C:\\Windows")
    assert lost.winner is None and [(one.via, one.reachable) for one in lost.candidates] == [("toolkit", False)]
    assert predicted(f"{TOOLKIT}v11.2\\bin").winner == f"{TOOLKIT}v11.2\\bin\\cudart64_110.dll"
    beside = tmp_path / "C:" / "Users" / "ann" / "tf" / "Scripts" / "cudart64_110.dll"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert [one.via for one in predicted(f"{TOOLKIT}v11.2\\bin").candidates] == ["folder of Python", "PATH"]


def test_a_crash_of_windows_is_a_signal() -> None:
    """So that an illegal instruction is seen as a CPU without AVX there, too."""
    died = Transcript("python", running="import", ending=Ending("ended", returncode=0xC000001D)).phase("import")
    assert (died.signal, died.note) == ("SIGILL", "illegal instruction")


@pytest.mark.full
@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_mypy(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that Windows or macOS lacks is an attribute that does not exist there."""
    monkeypatch.chdir(Path(__file__).parents[2])
    output, errors, code = api.run(["--platform", platform, "--cache-dir", str(tmp_path)])
    assert code == 0, output + errors
