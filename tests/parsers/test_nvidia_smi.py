"""nvidia-smi's output from R331 to R610, as people pasted it."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tfgpu_doctor.facts import Gpu, GpuProcess, Known, Unknown, value_or
from tfgpu_doctor.parsers import nvidia_smi, nvidia_smi_csv

CAPTURES = Path(__file__).parents[1] / "captures" / "nvidia_smi"
MIB = 1024 * 1024


def capture(name: str) -> str:
    return (CAPTURES / name).read_text(encoding="utf-8")


def seen(gpu: Gpu) -> tuple[object, ...]:
    """Name, bus id and MiB used and in all; None where the table does not tell."""
    used, total = value_or(gpu.memory_used, None), value_or(gpu.memory_total, None)
    size = (used // MIB, total // MIB) if used is not None and total is not None else None
    return value_or(gpu.name, None), value_or(gpu.pci_bus_id, None), size


@pytest.mark.parametrize("module", [nvidia_smi, nvidia_smi_csv])
def test_the_samples_in_the_docstrings(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "driver", "cuda", "gpus"),
    [
        (
            "r331_gtx680.txt",
            "331.62",
            None,
            [("GeForce GTX 680", f"0000:{bus}:00.0", (9, 4095)) for bus in ("03", "04", "83")],
        ),
        ("r396_processes.txt", "396.24", None, [("GeForce GTX 1070", "0000:24:00.0", (1917, 8114))]),
        ("r398_windows_wddm.txt", "398.82", None, [("GeForce GTX 1080", "0000:01:00.0", (488, 8192))]),
        ("r450_titan_xp.txt", "450.57", "11.0", [("TITAN Xp", "0000:17:00.0", (7, 12196))]),
        ("r470_compat_container.txt", "470.161.03", "11.8", [("NVIDIA GeForce ...", "0000:06:00.0", (0, 11178))]),
        (
            "r510_mig.txt",
            "510.47.03",
            "11.6",
            [
                ("NVIDIA A100-SXM...", "0000:01:00.0", (23100, 81920)),
                ("NVIDIA A100-SXM...", "0000:41:00.0", (24205, 81920)),
            ],
        ),
        (
            "r517_windows.txt",
            "517.48",
            "11.7",
            [("NVIDIA GeForce ...", "0000:0a:00.0", (576, 11264)), ("NVIDIA GeForce ...", "0000:43:00.0", None)],
        ),
        ("r535_gtx1650.txt", "535.113.01", "12.2", [("NVIDIA GeForce GTX 1650", "0000:01:00.0", (119, 4096))]),
        ("r545_wsl2_cuda_err.txt", "546.80", None, [("NVIDIA GeForce RTX 3060 ...", "0000:01:00.0", (816, 6144))]),
        ("r550_rtx4070.txt", "550.40.07", "12.4", [("NVIDIA GeForce RTX 4070", "0000:2d:00.0", (430, 12282))]),
        (
            "r610_b200.txt",
            "610.43.02",
            "13.3",
            [("NVIDIA B200", "0000:63:00.0", (0, 183359)), ("NVIDIA B200", "0000:68:00.0", (0, 183359))],
        ),
        ("version_wsl2.txt", "555.85", "12.5", []),
    ],
)
def test_banner_and_rows(name: str, driver: str, cuda: str | None, gpus: list[tuple[object, ...]]) -> None:
    found = nvidia_smi.parse(capture(name))
    assert (found.driver_version, found.cuda_version, found.failure) == (driver, cuda, None)
    assert [seen(gpu) for gpu in found.gpus] == gpus
    assert all(gpu.fault == Unknown("none") for gpu in found.gpus)


def test_every_capture_is_listed_with_its_source() -> None:
    readme = capture("README.md")
    assert [path.name for path in CAPTURES.iterdir() if f"| {path.name} |" not in readme] == ["README.md"]


def test_all_columns_of_a_row() -> None:
    (gpu,) = nvidia_smi.parse(capture("r550_rtx4070.txt")).gpus
    table = nvidia_smi.SOURCE
    assert (gpu.temperature, gpu.utilization, gpu.performance_state) == tuple(Known(n, table) for n in (36, 1, 5))
    assert (gpu.power, gpu.power_limit) == (Known(17.0, table), Known(200.0, table))
    assert (gpu.persistence_mode, gpu.display_active) == (Known(False, table), Known(True, table))
    assert gpu.compute_mode == Known("default", table)
    for fact in (gpu.ecc_mode, gpu.ecc_uncorrected, gpu.mig_mode, gpu.processes):
        assert isinstance(fact, Unknown)  # N/A, and no table of processes in the capture


def test_mig_mode_and_its_devices() -> None:
    plain, sliced = nvidia_smi.parse(capture("r510_mig.txt")).gpus
    assert (plain.mig_mode, plain.ecc_uncorrected) == (Known(False, "nvidia-smi"), Known(0, "nvidia-smi"))
    assert sliced.mig_mode == Known(True, "nvidia-smi")
    assert value_or(sliced.mig_instances, ()) == tuple(f"GPU instance {n}, compute instance 0" for n in (3, 5, 6))


def test_processes_of_the_old_layout() -> None:
    (gpu,) = nvidia_smi.parse(capture("r396_processes.txt")).gpus
    assert value_or(gpu.processes, ()) == (
        GpuProcess(pid=489, memory=1025 * MIB, name="/usr/bin/X"),
        GpuProcess(pid=662, memory=313 * MIB, name="kwin_x11"),
        GpuProcess(pid=668, memory=3 * MIB, name="/usr/bin/krunner"),
    )


def test_processes_of_the_new_layout() -> None:
    rows = (
        "\n| Processes:                                                                              |"
        "\n|    0   N/A  N/A            2936    C+G   C:\\Windows\\explorer.exe                   N/A      |"
        "\n|    0   N/A  N/A            4242      C   /opt/py thon/bin/python                  1000MiB |"
    )
    (gpu,) = nvidia_smi.parse(capture("r550_rtx4070.txt") + rows).gpus
    assert value_or(gpu.processes, ()) == (
        GpuProcess(pid=2936, name="C:\\Windows\\explorer.exe"),
        GpuProcess(pid=4242, memory=1000 * MIB, name="/opt/py thon/bin/python"),
    )


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("mismatch.txt", "Failed to initialize NVML: Driver/library version mismatch"),
        ("no_driver.txt", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
        ("lost.txt", "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost"),
    ],
)
def test_failures(name: str, start: str) -> None:
    found = nvidia_smi.parse(capture(name))
    assert (found.failure or "").startswith(start)
    assert found.gpus == () and found.driver_version is None


def test_lost_gpus_are_named() -> None:
    assert nvidia_smi.lost_gpus(capture("lost.txt")) == {
        "0000:02:00.0": "GPU is lost. Reboot the system to recover this GPU"
    }


def test_a_broken_sensor_is_a_fault() -> None:
    text = capture("r550_rtx4070.txt").replace("  0%   36C    P5", "ERR!  ERR! ERR!")
    (gpu,) = nvidia_smi.parse(text).gpus
    assert isinstance(gpu.fault, Known)
    assert isinstance(gpu.temperature, Unknown)


@pytest.mark.parametrize("text", ["", "\x00\xff\n|||\n| 0 |", "|" * 500, "nvidia-smi: command not found"])
def test_other_text_is_nothing(text: str) -> None:
    assert nvidia_smi.parse(text) == nvidia_smi.SmiText()
    assert nvidia_smi_csv.parse(text) == ()


def test_csv_in_any_order() -> None:
    first, second = nvidia_smi_csv.parse(capture("query.csv"))
    assert (first.index, second.index) == (0, 1)
    assert value_or(first.compute_capability, None) == "7.0"
    assert value_or(second.name, None) == "NVIDIA RTX 5880 Ada Generation"
    assert value_or(second.compute_mode, None) == "default"
    assert isinstance(second.memory_total, Unknown)


def test_csv_refusals_are_unknown_and_a_lost_gpu_is_a_fault() -> None:
    text = "index, name, power.draw [W], temperature.gpu, ecc.mode.current\n0, X, [N/A], [GPU is lost], maybe"
    (gpu,) = nvidia_smi_csv.parse(text)
    assert gpu.power == Unknown("nvidia-smi answers [N/A]")
    assert gpu.ecc_mode == Unknown("nvidia-smi answers 'maybe'")
    assert gpu.fault == Known("GPU is lost", nvidia_smi_csv.SOURCE)
