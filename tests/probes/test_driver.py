"""Every fault of the lab, through the real NVML bindings and real ctypes, in bounded time and without a trace left."""

from __future__ import annotations

import doctest
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from tests.guard import guarded
from tests.lab import Lab
from tests.probes.test_cuda import write
from tests.tables import each
from tfgpu_doctor.facts.facts import CallResult, Facts, Gpu, GpuProcess, Known, NvLink, Unknown, map_fact, value_or
from tfgpu_doctor.probes import driver, driver_child, host
from tfgpu_doctor.probes.driver import Probe

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


def examine(
    lab: Lab, root: Path, variables: dict[str, str] | None = None, *, deadline: float = 15.0, **choices: Any
) -> Facts:
    """Examine a machine whose files are below `root`; an answer, whatever the fault."""
    root.mkdir(exist_ok=True)
    with guarded(PATIENCE, str(choices), waiting=True):
        return driver.examine(deadline, str(root), {**lab.environ(root=root, **choices), **(variables or {})})


def gpu_of(found: Facts) -> Gpu:
    (gpu,) = value_or(found.gpus, ())
    return gpu


def code(fact: Known[CallResult] | Unknown) -> object:
    return value_or(map_fact(fact, lambda result: (result.code, result.name)), fact)


def values(record: object, *names: str) -> list[object]:
    return [value_or(getattr(record, name), None) for name in names]


def test_a_good_driver(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, gpus=2, name="NVIDIA A30", cc="8.0", nvlinks=1, nvidia_smi="csv")
    library = f"{tmp_path}/opt/lab/libnvidia-ml.so.1"
    success = CallResult(code=0, message="success", name="NVML_SUCCESS", library=library)
    assert found.driver.nvml_init == Known(success, f"nvmlInit ({library})")
    assert code(found.driver.cuda_init) == (0, "CUDA_SUCCESS")
    assert found.driver.version == Known("535.113.01", f"NVML ({library})")
    assert values(found.driver, "cuda_supported", "cuda_device_count", "unresponsive") == ["12.2", 2, ()]
    first, second = value_or(found.gpus, ())
    assert first.name == Known("NVIDIA A30", f"NVML ({library})")
    assert value_or(second.pci_bus_id, "") == "0000:42:00.0"
    assert values(first, "pci_bus_id", "compute_capability", "multiprocessors") == ["0000:41:00.0", "8.0", 76]
    assert values(first, "memory_total", "memory_used", "power") == [16376 << 20, 1024 << 20, 61.5]
    assert values(first, "sm_clock_max", "memory_clock_max", "memory_bus_width") == [2520, 10501, 384]
    assert value_or(first.nvlinks, ()) == (NvLink(link=0, active=True),)
    assert first.ecc_mode == first.mig_mode == Unknown("not supported by this GPU")
    assert first.fault == Unknown("none")


def test_what_cuinit_answers(driver_lab: Lab, tmp_path: Path) -> None:
    for answer, name in [
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (801, "CUDA_ERROR_NOT_SUPPORTED"),  # not in the lab's library: from our own table
        (4711, "CUDA error 4711"),
    ]:
        found = examine(driver_lab, tmp_path / str(answer), cuinit=answer)
        assert code(found.driver.cuda_init) == (answer, name)
        assert isinstance(found.driver.cuda_device_count, Unknown) and name in found.driver.cuda_device_count.reason
        assert isinstance(gpu_of(found).multiprocessors, Unknown)  # NVML is fine


def test_a_dead_driver_is_named_in_time(driver_lab: Lab, tmp_path: Path) -> None:
    hangs = {"nvml_init": "hang", "cuinit": "hang", "nvidia_smi": "hangs"}
    found = examine(driver_lab, tmp_path, deadline=DEADLINE, **hangs).driver
    assert value_or(found.unresponsive, None) == ("nvmlInit", "cuInit", "nvidia-smi")
    assert found.nvml_init == Unknown("nvmlInit did not answer in time")
    assert found.cuda_init == Unknown("cuInit did not answer in time")
    assert found.nvidia_smi == Unknown("nvidia-smi did not answer in time")


def test_what_was_known_before_a_hang_is_kept(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, deadline=DEADLINE, gpus=2, nvml_fail="nvmlDeviceGetMemoryInfo=hang@1")
    assert value_or(found.driver.unresponsive, None) == ("nvmlDeviceGetMemoryInfo of GPU 1",)
    first, second = value_or(found.gpus, ())
    assert isinstance(first.memory_total, Known) and isinstance(second.name, Known)
    assert second.memory_total == second.temperature == Unknown("NVML did not answer")


def test_a_library_that_kills_its_process(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, nvml_init="segv", cuinit="segv").driver
    for fact, call in ((found.nvml_init, "nvmlInit"), (found.cuda_init, "cuInit")):
        assert isinstance(fact, Known) and (fact.value.code, fact.value.name) == (-11, "SIGSEGV")
        assert fact.value.message == f"{call} killed its process with SIGSEGV"
    assert value_or(found.unresponsive, None) == ()


def test_a_lost_gpu_beside_a_bad_one(driver_lab: Lab, tmp_path: Path) -> None:
    answers = {"throttle": 0x48, "ecc": 3, "remap": "1,2,0,1", "processes": "4242:1000,17:5", "pcie": "1,4,4,16"}
    strange = {"TFGPU_LAB_NAME": os.fsdecode(b"NVIDIA \xff\x1b[31m")}
    lost_gpu = {"gpus": 2, "nvml_fail": "nvmlDeviceGetHandleByIndex=15@1"}
    gpu, lost = value_or(examine(driver_lab, tmp_path, strange, **lost_gpu, **answers).gpus, ())
    assert lost.name == Unknown("NVML_ERROR_GPU_IS_LOST: GPU is lost")
    assert value_or(lost.fault, "") == "NVML_ERROR_GPU_IS_LOST: GPU is lost"
    assert gpu.fault == Unknown("none")
    assert isinstance(gpu.name, Unknown) and gpu.name.reason.startswith("UnicodeDecodeError")
    assert value_or(gpu.throttle_reasons, ()) == ("hw_slowdown", "hw_thermal_slowdown")
    assert values(gpu, "ecc_mode", "ecc_uncorrected") == [True, 3]
    assert values(gpu, "remapped_rows_pending", "remapped_rows_failed") == [False, True]
    assert value_or(gpu.processes, ()) == (GpuProcess(pid=17, memory=5 << 20), GpuProcess(pid=4242, memory=1000 << 20))
    assert values(gpu, "pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max") == [1, 4, 4, 16]


def test_mig(driver_lab: Lab, tmp_path: Path) -> None:
    for instances in [0, 2]:
        gpu = gpu_of(examine(driver_lab, tmp_path / str(instances), mig=instances, name="NVIDIA A100"))
        assert value_or(gpu.mig_mode, None) is True
        names = [name.split(" (")[0] for name in value_or(gpu.mig_instances, ("?",))]
        assert names == ["NVIDIA A100 MIG 1g.5gb"] * instances
        assert gpu.multiprocessors == Unknown("MIG mode is on: CUDA sees slices")


# ------------------------------------------------------------------------- nvidia-smi instead of NVML


def test_nvidia_smi_in_place_of_nvml(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path / "csv", nvml_init=999, nvidia_smi="csv")
    smi = value_or(found.driver.nvidia_smi, None)
    assert smi and (smi.exit_code, smi.driver_version, smi.cuda_version) == (0, "570.86.15", "12.8")
    assert value_or(found.driver.version, "") == "570.86.15"
    assert values(gpu_of(found), "compute_capability", "ecc_mode", "temperature") == ["9.0", True, None]
    assert value_or(examine(driver_lab, tmp_path / "none", nvml_init=9, nvidia_smi="none").gpus, None) == ()
    lost = gpu_of(examine(driver_lab, tmp_path / "lost", nvml_init=999, nvidia_smi="lost"))
    assert value_or(lost.pci_bus_id, "") == "0000:02:00.0" and value_or(lost.fault, "").startswith("GPU is lost")
    for program, exit_code in [("no_driver", 9), ("mismatch", 18), ("garbage", 0)]:
        found = examine(driver_lab, tmp_path / program, nvml_init=18, cuinit=999, nvidia_smi=program)
        smi = value_or(found.driver.nvidia_smi, None)
        assert smi and smi.exit_code == exit_code and len(smi.output) <= 2000
        init, name = value_or(found.driver.nvml_init, None), "NVML_ERROR_LIB_RM_VERSION_MISMATCH"
        assert init and (init.code, init.name, init.message) == (18, name, "Driver/library version mismatch")
        assert isinstance(found.gpus, Unknown) and name in found.gpus.reason
        assert isinstance(found.driver.version, Unknown)


def test_cuda_alone_still_lists_the_gpu(driver_lab: Lab, tmp_path: Path) -> None:
    gpu = gpu_of(examine(driver_lab, tmp_path, nvml_init=999))
    assert values(gpu, "name", "compute_capability", "temperature") == ["NVIDIA Lab GPU", "8.9", None]


# ------------------------------------------------------------------------------- files


def test_no_driver_at_all(driver_lab: Lab, tmp_path: Path) -> None:
    found = examine(driver_lab, tmp_path, {"LD_LIBRARY_PATH": ""})
    assert values(found.driver, "libcuda", "unresponsive") == [(), ()]
    for fact in (found.driver.nvml_init, found.driver.cuda_init):
        assert isinstance(fact, Unknown) and "is not on the loader path" in fact.reason
    assert found.driver.nvidia_smi == Unknown("nvidia-smi is not on PATH")
    assert isinstance(found.gpus, Unknown) and isinstance(found.driver.kernel_module, Unknown)
    assert found.driver.kernel_module.reason.startswith("not loaded: ")
    write(tmp_path, "/usr/lib/wsl/lib/libcuda.so.1")  # out of the loader's reach
    of_wsl = examine(driver_lab, tmp_path, {"LD_LIBRARY_PATH": ""}).driver
    (file,) = value_or(of_wsl.libcuda, ())
    assert (file.path, file.problem) == ("/usr/lib/wsl/lib/libcuda.so.1", "not on the loader path")
    assert isinstance(of_wsl.cuda_init, Unknown)


def test_which_libcuda(driver_lab: Lab, tmp_path: Path) -> None:
    """An empty file, the toolkit's stub, and one whose version stands in the name behind the link."""
    data = (driver_lab.libraries / "libcuda.so.1").read_bytes()
    write(tmp_path, "/first/libcuda.so.1")
    path = f"{tmp_path}/first:{driver_lab.environ(root=tmp_path)['LD_LIBRARY_PATH']}"
    found = examine(driver_lab, tmp_path, {"LD_LIBRARY_PATH": path}).driver
    assert [file.problem for file in value_or(found.libcuda, ())][:1] == ["empty file"]
    assert isinstance(found.cuda_init, Unknown) and "file too short" in found.cuda_init.reason
    for name, version in (("cuda/stubs/libcuda.so", None), ("lib/libcuda.so.535.113.01", "535.113.01")):
        real = write(tmp_path, f"/usr/{name}")
        real.write_bytes(data)
        link = real.parents[1] / f"link{version}" / "libcuda.so.1"
        link.parent.mkdir()
        link.symlink_to(real)
        found = examine(driver_lab, tmp_path, {"LD_LIBRARY_PATH": str(link.parent)}, cuinit=34).driver
        (file,) = value_or(found.libcuda, ())
        problem = None if version else f"stub of the CUDA toolkit, not a driver: {real}"
        assert (file.path, file.version, file.soname, file.problem) == (str(link), version, "libcuda.so.1", problem)
        result = value_or(found.cuda_init, None)
        assert result and (result.name, result.library) == ("CUDA_ERROR_STUB_LIBRARY", str(real))


def test_the_kernel_and_its_log(driver_lab: Lab, tmp_path: Path) -> None:
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build"
    files = "updates/dkms/nvidia-drm.ko.zst: updates/dkms/nvidia.ko.zst\nupdates/dkms/nvidia.ko.zst: kernel/x.ko\n"
    xid = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', GPU has fallen off the bus."
    write(tmp_path, "/proc/driver/nvidia/version", version)
    write(tmp_path, "/lib/modules/6.8.0-45-generic/modules.dep", files)
    write(tmp_path, "/lib/modules/6.1.0-18-amd64/modules.dep", "updates/dkms/nvidia-current.ko:\nkernel/nvidiafb.ko:\n")
    (tmp_path / "lib/modules/6.9.0-1-headers-only").mkdir()
    for node in ("nvidia0", "nvidiactl", "nvidia-uvm", "null"):
        write(tmp_path, f"/dev/{node}")
    script = f"#!/bin/sh\ncat <<'END'\n[ 1.0] Linux version 6.8.0\n[ 2.0] {xid}\nEND\n"
    dmesg = write(tmp_path, "/bin/dmesg", script, 0o755)
    found = examine(driver_lab, tmp_path, {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}).driver
    assert values(found, "kernel_module", "kernel_module_kind", "kernel_module_loaded") == ["550.54.14", "open", True]
    assert value_or(found.kernel_module_on_disk, ()) == (
        "/lib/modules/6.1.0-18-amd64/updates/dkms/nvidia-current.ko",
        "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko.zst",
    )
    assert value_or(found.device_nodes, ()) == ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    assert found.xid_events == Known((xid,), str(dmesg))


@each("flood", ["x", '{"begin": "nvmlInit"}', '{"key": "' + "y" * 50_000 + '"}'])
def test_a_program_that_writes_without_end(flood: str) -> None:
    """It is stopped at the deadline, and a bounded part of what it wrote is kept."""
    with guarded(PATIENCE, waiting=True):
        probe = Probe("nvidia-smi", ["yes", flood], os.environ, time.monotonic() + 0.25).wait()
    assert probe.completed.timed_out
    assert sum(len(str(line)) + driver.PER_ANSWER for line in probe.lines) <= driver.ROOM


def test_the_samples_in_the_docstrings() -> None:
    assert [doctest.testmod(module).failed for module in (driver, driver_child, host)] == [0, 0, 0]


def test_names_are_those_of_the_bindings() -> None:
    prefix, names = "nvmlClocksThrottleReason", vars(pynvml)
    theirs = {value: name.removeprefix(prefix).lower() for name, value in names.items() if name.startswith(prefix)}
    for bit, name in driver_child.THROTTLE_REASONS.items():
        assert theirs[bit] in (name.replace("_", ""), "userdefinedclocks")
    single = {bit for bit in theirs if isinstance(bit, int) and bit and bit & (bit - 1) == 0}
    assert single <= set(driver_child.THROTTLE_REASONS)
    for number, name in driver_child.COMPUTE_MODES.items():
        assert names[f"NVML_COMPUTEMODE_{name.upper()}"] == number
    for _, function, constants, _ in driver_child.QUESTIONS:
        for name in (f"nvmlDevice{function}", *(f"NVML_{constant}" for constant in constants.split())):
            assert name in names
