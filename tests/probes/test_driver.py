"""Every fault of the lab, through the real NVML bindings and real ctypes, in bounded time and without a trace left."""

from __future__ import annotations

import doctest
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from tests.guard import guarded
from tests.lab import Lab
from tests.tables import each
from tfgpu_doctor.probes import driver, driver_child
from tfgpu_doctor.probes.driver import DriverFacts, Probe
from tfgpu_doctor.records.facts import (
    CallResult,
    GpuProcess,
    Known,
    NvLink,
    SmiResult,
    Unknown,
    map_fact,
    value_or,
)

DEADLINE = 2.0  # seconds given to a driver that hangs
PATIENCE = 120.0  # seconds: this machine may be busy; the point is that it ends


@pytest.fixture(autouse=True)
def nothing_stays_running() -> Iterator[None]:
    """No child may outlive an examination."""
    before = {one.pid for one in psutil.Process().children(recursive=True)}  # of other tests: Ray's, a shared worker
    yield
    left = [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    ours = ("execnet", "shared_worker.py")  # of the tests: xdist, and the worker that measurements share
    new = [one.cmdline() for one in left if one.pid not in before]
    assert not [command for command in new if not any(one in " ".join(command) for one in ours)]


def examine(lab: Lab, root: Path, *, deadline: float = 15.0, **choices: object) -> DriverFacts:
    """Examine a machine whose files are below `root`; an answer, whatever the fault."""
    root.mkdir(exist_ok=True)
    with guarded(PATIENCE, str(choices), waiting=True):
        return driver.examine(deadline, str(root), lab.environ(root=root, **choices))  # type: ignore[arg-type]


def write(root: Path, path: str, text: str = "") -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def code(fact: Known[CallResult] | Unknown) -> object:
    return value_or(map_fact(fact, lambda result: (result.code, result.name)), fact)


def test_a_good_driver(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, gpus=2, name="NVIDIA A30", cc="8.0", nvlinks=1, nvidia_smi="csv")
    library = f"{tmp_path}/opt/lab/libnvidia-ml.so.1"
    assert found.driver.nvml_init == Known(
        CallResult(code=0, message="success", name="NVML_SUCCESS", library=library), f"nvmlInit ({library})"
    )
    assert code(found.driver.cuda_init) == (0, "CUDA_SUCCESS")
    assert found.driver.version == Known("535.113.01", f"NVML ({library})")
    assert value_or(found.driver.cuda_supported, "") == "12.2"
    assert value_or(found.driver.cuda_device_count, -1) == 2
    assert value_or(found.driver.unresponsive, None) == ()
    first, second = value_or(found.gpus, ())
    assert first.name == Known("NVIDIA A30", f"NVML ({library})")
    assert (value_or(first.pci_bus_id, ""), value_or(second.pci_bus_id, "")) == ("0000:41:00.0", "0000:42:00.0")
    assert value_or(first.compute_capability, "") == "8.0"
    assert value_or(first.multiprocessors, 0) == 76
    assert (value_or(first.memory_total, 0), value_or(first.memory_used, 0)) == (16376 << 20, 1024 << 20)
    assert (value_or(first.power, 0), value_or(first.sm_clock_max, 0)) == (61.5, 2520)
    assert (value_or(first.memory_clock_max, 0), value_or(first.memory_bus_width, 0)) == (10501, 384)
    assert value_or(first.nvlinks, ()) == (NvLink(link=0, active=True, remote="0000:42:00.0"),)
    assert first.ecc_mode == first.mig_mode == Unknown("not supported by this GPU")
    assert first.fault == Unknown("none")


def test_what_cuinit_answers(driver_lab: Lab, tmp_path: Path) -> None:
    for answer, name in [
        (34, "CUDA_ERROR_STUB_LIBRARY"),
        (100, "CUDA_ERROR_NO_DEVICE"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        (999, "CUDA_ERROR_UNKNOWN"),
        (801, "CUDA_ERROR_NOT_SUPPORTED"),  # not in the lab's library: from our own table
        (4711, "CUDA error 4711"),
    ]:
        found = examine(driver_lab, tmp_path / str(answer), cuinit=answer)
        assert code(found.driver.cuda_init) == (answer, name)
        assert isinstance(found.driver.cuda_device_count, Unknown) and name in found.driver.cuda_device_count.reason
        (gpu,) = value_or(found.gpus, ())  # NVML is fine
        assert isinstance(gpu.multiprocessors, Unknown)


def test_what_nvmlinit_answers(driver_lab: Lab, tmp_path: Path) -> None:
    for answer, name, message in [
        (9, "NVML_ERROR_DRIVER_NOT_LOADED", "Driver Not Loaded"),
        (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "Driver/library version mismatch"),
        (999, "NVML_ERROR_UNKNOWN", "Unknown Error"),
    ]:
        found = examine(driver_lab, tmp_path / str(answer), nvml_init=answer, cuinit=999)
        result = value_or(found.driver.nvml_init, None)
        assert result and (result.code, result.name, result.message) == (answer, name, message)
        assert isinstance(found.gpus, Unknown) and name in found.gpus.reason


@pytest.mark.parametrize(
    ("choices", "hung"),
    [
        pytest.param({"nvml_init": "hang"}, ("nvmlInit",), marks=pytest.mark.full),
        pytest.param({"cuinit": "hang"}, ("cuInit",), marks=pytest.mark.full),
        pytest.param({"nvidia_smi": "hangs"}, ("nvidia-smi",), marks=pytest.mark.full),
        ({"nvml_init": "hang", "cuinit": "hang", "nvidia_smi": "hangs"}, ("nvmlInit", "cuInit", "nvidia-smi")),
    ],
)
def test_a_dead_driver_is_named_in_time(
    driver_lab: Lab, tmp_path: Path, choices: dict[str, object], hung: tuple[str, ...]
) -> None:
    found = examine(driver_lab, tmp_path, deadline=DEADLINE, **choices).driver
    assert value_or(found.unresponsive, None) == hung
    facts = {"nvmlInit": found.nvml_init, "cuInit": found.cuda_init, "nvidia-smi": found.nvidia_smi}
    for call in hung:
        assert facts[call] == Unknown(f"{call} did not answer in time")


def test_what_was_known_before_a_hang_is_kept(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, deadline=DEADLINE, gpus=2, nvml_fail="nvmlDeviceGetMemoryInfo=hang@1")
    assert value_or(found.driver.unresponsive, None) == ("nvmlDeviceGetMemoryInfo of GPU 1",)
    first, second = value_or(found.gpus, ())
    assert isinstance(first.memory_total, Known)
    assert isinstance(second.name, Known)
    assert second.memory_total == second.temperature == Unknown("NVML did not answer")


def test_a_library_that_kills_its_process(driver_lab: Lab, tmp_path: Path) -> None:
    for choices, call in [({"nvml_init": "segv"}, "nvmlInit"), ({"cuinit": "segv"}, "cuInit")]:
        found = examine(driver_lab, tmp_path / call, **choices).driver
        fact = found.nvml_init if call == "nvmlInit" else found.cuda_init
        assert isinstance(fact, Known)
        assert (fact.value.code, fact.value.name) == (-11, "SIGSEGV")
        assert fact.value.message == f"{call} killed its process with SIGSEGV"
        assert value_or(found.unresponsive, None) == ()


def test_a_lost_gpu_beside_a_good_one(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, gpus=2, nvml_fail="nvmlDeviceGetHandleByIndex=15@1")
    good, lost = value_or(found.gpus, ())
    assert good.fault == Unknown("none")
    assert value_or(lost.fault, "") == "NVML_ERROR_GPU_IS_LOST: GPU is lost"
    assert lost.name == Unknown("NVML_ERROR_GPU_IS_LOST: GPU is lost")


def test_heat_errors_processes_and_a_bad_slot(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(
        driver_lab, tmp_path, throttle=0x48, ecc=3, remap="1,2,0,1", processes="4242:1000,17:5", pcie="1,4,4,16"
    )
    (gpu,) = value_or(found.gpus, ())
    assert value_or(gpu.throttle_reasons, ()) == ("hw_slowdown", "hw_thermal_slowdown")
    assert (value_or(gpu.ecc_mode, None), value_or(gpu.ecc_uncorrected, None)) == (True, 3)
    assert (value_or(gpu.remapped_rows_pending, None), value_or(gpu.remapped_rows_failed, None)) == (False, True)
    assert value_or(gpu.processes, ()) == (GpuProcess(pid=17, memory=5 << 20), GpuProcess(pid=4242, memory=1000 << 20))
    assert (value_or(gpu.pcie_generation, 0), value_or(gpu.pcie_generation_max, 0)) == (1, 4)
    assert (value_or(gpu.pcie_width, 0), value_or(gpu.pcie_width_max, 0)) == (4, 16)


def test_mig(driver_lab: Lab, tmp_path: Path) -> None:
    for instances in [0, 2]:
        (gpu,) = value_or(examine(driver_lab, tmp_path / str(instances), mig=instances, name="NVIDIA A100").gpus, ())
        assert value_or(gpu.mig_mode, None) is True
        assert [name.split(" (")[0] for name in value_or(gpu.mig_instances, ("?",))] == [
            "NVIDIA A100 MIG 1g.5gb"
        ] * instances
        assert gpu.multiprocessors == Unknown("MIG mode is on: CUDA sees slices")


def test_a_name_that_is_not_utf8(driver_lab: Lab, tmp_path: Path) -> None:
    environ = driver_lab.environ(root=tmp_path)
    environ["TFGPU_LAB_NAME"] = os.fsdecode(b"NVIDIA \xff\x1b[31m")
    (gpu,) = value_or(driver.examine(15.0, str(tmp_path), environ).gpus, ())
    assert isinstance(gpu.name, Unknown) and gpu.name.reason.startswith("UnicodeDecodeError")
    assert isinstance(gpu.uuid, Known)


# ------------------------------------------------------------------------- nvidia-smi instead of NVML


def smi(found: DriverFacts) -> SmiResult:
    result = value_or(found.driver.nvidia_smi, None)
    assert result is not None
    return result


def test_csv_of_nvidia_smi_when_nvml_fails(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, nvml_init=999, nvidia_smi="csv")
    assert (smi(found).exit_code, smi(found).driver_version, smi(found).cuda_version) == (0, "570.86.15", "12.8")
    assert value_or(found.driver.version, "") == "570.86.15"
    (gpu,) = value_or(found.gpus, ())
    assert (value_or(gpu.compute_capability, ""), value_or(gpu.ecc_mode, None)) == ("9.0", True)
    assert isinstance(gpu.temperature, Unknown)


def test_an_nvidia_smi_that_fails(driver_lab: Lab, tmp_path: Path) -> None:
    for program, exit_code in [("no_driver", 9), ("mismatch", 18), ("garbage", 0)]:
        found = examine(driver_lab, tmp_path / program, nvml_init=9, cuinit=100, nvidia_smi=program)
        assert smi(found).exit_code == exit_code
        assert len(smi(found).output) <= 2000
        assert isinstance(found.gpus, Unknown) and isinstance(found.driver.version, Unknown)


def test_no_devices_is_an_answer(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, nvml_init=9, nvidia_smi="none")
    assert value_or(found.gpus, None) == ()


def test_a_gpu_that_nvidia_smi_has_lost(driver_lab: Lab, tmp_path: Path) -> None:
    (gpu,) = value_or(examine(driver_lab, tmp_path, nvml_init=999, nvidia_smi="lost").gpus, ())
    assert value_or(gpu.pci_bus_id, "") == "0000:02:00.0"
    assert value_or(gpu.fault, "").startswith("GPU is lost")


def test_cuda_alone_still_lists_the_gpu(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, nvml_init=999)
    (gpu,) = value_or(found.gpus, ())
    assert (value_or(gpu.name, ""), value_or(gpu.compute_capability, "")) == ("NVIDIA Lab GPU", "8.9")
    assert isinstance(gpu.temperature, Unknown)


# ------------------------------------------------------------------------------- files


def test_no_driver_at_all(driver_lab: Lab, tmp_path: Path) -> None:
    environ = {**driver_lab.environ(root=tmp_path), "LD_LIBRARY_PATH": ""}
    found = driver.examine(15.0, str(tmp_path), environ)
    assert value_or(found.driver.libcuda, None) == ()
    assert value_or(found.driver.unresponsive, None) == ()
    for fact in (found.driver.nvml_init, found.driver.cuda_init):
        assert isinstance(fact, Unknown) and "is not on the loader path" in fact.reason
    assert found.driver.nvidia_smi == Unknown("nvidia-smi is not on PATH")
    assert isinstance(found.gpus, Unknown)
    assert isinstance(found.driver.kernel_module, Unknown)
    assert found.driver.kernel_module.reason.startswith("not loaded: ")


def test_an_empty_libcuda(driver_lab: Lab, tmp_path: Path) -> None:
    write(tmp_path, "/first/libcuda.so.1")
    environ = driver_lab.environ(root=tmp_path)
    environ["LD_LIBRARY_PATH"] = f"{tmp_path}/first:{environ['LD_LIBRARY_PATH']}"
    found = driver.examine(15.0, str(tmp_path), environ).driver
    assert [file.problem for file in value_or(found.libcuda, ())][:1] == ["empty file"]
    assert isinstance(found.cuda_init, Unknown) and "file too short" in found.cuda_init.reason


def test_the_toolkits_stub(driver_lab: Lab, tmp_path: Path) -> None:
    stubs = tmp_path / "usr/local/cuda/lib64/stubs"
    stubs.mkdir(parents=True)
    (stubs / "libcuda.so").write_bytes((driver_lab.libraries / "libcuda.so.1").read_bytes())
    (tmp_path / "usr/lib").mkdir(exist_ok=True)
    (tmp_path / "usr/lib/libcuda.so.1").symlink_to(stubs / "libcuda.so")
    environ = {**driver_lab.environ(root=tmp_path, cuinit=34), "LD_LIBRARY_PATH": str(tmp_path / "usr/lib")}
    found = driver.examine(15.0, str(tmp_path), environ).driver
    (file,) = value_or(found.libcuda, ())
    assert file.problem == f"stub of the CUDA toolkit, not a driver: {stubs}/libcuda.so"
    assert code(found.cuda_init) == (34, "CUDA_ERROR_STUB_LIBRARY")


def test_the_version_stands_in_the_name_behind_the_link(driver_lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib"
    folder.mkdir(parents=True)
    real = folder / "libcuda.so.535.113.01"
    real.write_bytes((driver_lab.libraries / "libcuda.so.1").read_bytes())
    (folder / "libcuda.so.1").symlink_to(real.name)
    found = driver.examine(
        15.0, str(tmp_path), {**driver_lab.environ(root=tmp_path), "LD_LIBRARY_PATH": str(folder)}
    ).driver
    (file,) = value_or(found.libcuda, ())
    assert (file.path, file.version, file.soname, file.problem) == (
        str(folder / "libcuda.so.1"),
        "535.113.01",
        "libcuda.so.1",
        None,
    )
    result = value_or(found.cuda_init, None)
    assert result and result.library == str(real)


def test_wsls_library_out_of_the_loaders_reach(driver_lab: Lab, tmp_path: Path) -> None:
    write(tmp_path, "/usr/lib/wsl/lib/libcuda.so.1")
    found = driver.examine(15.0, str(tmp_path), {**driver_lab.environ(root=tmp_path), "LD_LIBRARY_PATH": ""}).driver
    assert [(file.path, file.problem) for file in value_or(found.libcuda, ())] == [
        ("/usr/lib/wsl/lib/libcuda.so.1", "not on the loader path")
    ]
    assert isinstance(found.cuda_init, Unknown)


def test_kernel_module_files_and_nodes(driver_lab: Lab, tmp_path: Path) -> None:
    write(
        tmp_path,
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build",
    )
    write(
        tmp_path,
        "/lib/modules/6.8.0-45-generic/modules.dep",
        "updates/dkms/nvidia-drm.ko.zst: updates/dkms/nvidia.ko.zst\nupdates/dkms/nvidia.ko.zst: kernel/x.ko\n",
    )
    write(tmp_path, "/lib/modules/6.1.0-18-amd64/modules.dep", "updates/dkms/nvidia-current.ko:\nkernel/nvidiafb.ko:\n")
    (tmp_path / "lib/modules/6.9.0-1-headers-only").mkdir()
    for node in ("nvidia0", "nvidiactl", "nvidia-uvm", "null"):
        write(tmp_path, f"/dev/{node}")
    found = examine(driver_lab, tmp_path).driver
    assert (value_or(found.kernel_module, ""), value_or(found.kernel_module_kind, "")) == ("550.54.14", "open")
    assert value_or(found.kernel_module_loaded, None) is True
    assert value_or(found.kernel_module_on_disk, ()) == (
        "/lib/modules/6.1.0-18-amd64/updates/dkms/nvidia-current.ko",
        "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko.zst",
    )
    assert value_or(found.device_nodes, ()) == ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")


def test_xid_events_of_the_kernel_log(driver_lab: Lab, tmp_path: Path) -> None:
    line = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', GPU has fallen off the bus."
    write(tmp_path, "/bin/dmesg", f"#!/bin/sh\ncat <<'END'\n[ 1.0] Linux version 6.8.0\n[ 2.0] {line}\nEND\n")
    (tmp_path / "bin/dmesg").chmod(0o755)
    environ = {**driver_lab.environ(root=tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert driver.examine(15.0, str(tmp_path), environ).driver.xid_events == Known((line,), f"{tmp_path}/bin/dmesg")


@each("flood", ["x", '{"begin": "nvmlInit"}', '{"key": "' + "y" * 50_000 + '"}'])
def test_a_program_that_writes_without_end(flood: Any) -> None:
    """It is stopped at the deadline, and a bounded part of what it wrote is kept."""
    with guarded(PATIENCE, waiting=True):
        probe = Probe("nvidia-smi", ["yes", flood], os.environ, time.monotonic() + 0.5)
        probe.wait()
    assert probe.hung
    assert sum(len(str(line)) + driver.PER_ANSWER for line in probe.lines) <= driver.ROOM


LIST = "import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver combination"),
        pytest.param(999, "CUDA_ERROR_UNKNOWN: unknown error", marks=pytest.mark.full),
    ],
)
def test_tensorflow_reports_the_fault(driver_lab: Lab, tensorflow_python: str, answer: int, words: str) -> None:
    done = subprocess.run(
        [tensorflow_python, "-c", LIST],
        env=driver_lab.environ(cuinit=answer),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "failed call to cuInit: " in done.stderr
    assert words in done.stderr
    assert done.stdout.strip() == "[]"


@each("module", [driver, driver_child])
def test_the_samples_in_the_docstrings(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def test_throttle_reasons_are_those_of_the_bindings() -> None:
    prefix = "nvmlClocksThrottleReason"
    theirs = {
        value: snake(name.removeprefix(prefix)) for name, value in vars(pynvml).items() if name.startswith(prefix)
    }
    for bit, name in driver_child.THROTTLE_REASONS.items():
        assert theirs[bit] in (name, "user_defined_clocks")
    single = {bit for bit in theirs if isinstance(bit, int) and bit and bit & (bit - 1) == 0}
    assert single <= set(driver_child.THROTTLE_REASONS)


def test_enumerations_are_those_of_the_bindings() -> None:
    for number, name in driver_child.COMPUTE_MODES.items():
        assert getattr(pynvml, f"NVML_COMPUTEMODE_{name.upper()}") == number


def test_functions_and_constants_are_those_of_the_bindings() -> None:
    for _, function, constants, _ in driver_child.QUESTIONS:
        for name in (f"nvmlDevice{function}", *(f"NVML_{constant}" for constant in constants.split())):
            assert hasattr(pynvml, name), name
