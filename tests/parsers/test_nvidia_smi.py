"""nvidia-smi's output in its layouts from R331 to R610, whole and as a paste cuts it off."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tfgpu_doctor.parsers.tools import nvidia_smi, nvidia_smi_csv
from tfgpu_doctor.records.facts import Gpu, GpuProcess, Known, Unknown, value_or

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
            "r331_narrow_banner_cut_off.txt",
            "331.89",
            None,
            [
                ("GeForce GTX 770", "0000:05:00.0", (14, 2047)),
                ("GeForce GTX 770", "0000:08:00.0", (731, 2047)),
                ("GeForce GTX 770", "0000:0c:00.0", (3, 2047)),
            ],
        ),
        ("r396_processes_cut_off.txt", "396.37", None, [("GeForce GTX 980", "0000:0b:00.0", (3240, 4043))]),
        ("r397_windows_wddm.txt", "397.44", None, [("GeForce GTX 970", "0000:02:00.0", (694, 4096))]),
        ("r450_mig_column.txt", "450.80.02", "11.0", [("TITAN V", "0000:5e:00.0", (12, 12066))]),
        (
            "r470_newer_cuda_in_a_container.txt",
            "470.182.03",
            "12.1",
            [("NVIDIA GeForce ...", "0000:3b:00.0", (5, 11019))],
        ),
        (
            "r510_mig_devices.txt",
            "510.85.02",
            "11.6",
            [
                ("NVIDIA A100-PCI...", "0000:17:00.0", (31470, 40960)),
                ("NVIDIA A100-PCI...", "0000:ca:00.0", (6655, 40960)),
            ],
        ),
        (
            "r516_windows_indented_cut_off.txt",
            "516.94",
            "11.7",
            [("NVIDIA GeForce ...", "0000:1d:00.0", (1187, 8192)), ("NVIDIA GeForce ...", "0000:2e:00.0", None)],
        ),
        ("r535_wide_names.txt", "535.154.05", "12.2", [("NVIDIA GeForce GTX 1660 Ti", "0000:02:00.0", (348, 6144))]),
        (
            "r545_wsl2_cuda_err_cut_off.txt",
            "546.33",
            None,
            [("NVIDIA GeForce RTX 3050 ...", "0000:03:00.0", (1265, 4096))],
        ),
        ("r550_wide_memory.txt", "550.90.07", "12.4", [("NVIDIA GeForce RTX 4060", "0000:0e:00.0", (917, 8188))]),
        (
            "r610_kmd_and_umd.txt",
            "610.57.04",
            "13.3",
            [
                ("NVIDIA B300 SXM6 AC", "0000:4f:00.0", (128664, 275040)),
                ("NVIDIA B300 SXM6 AC", "0000:bd:00.0", (0, 275040)),
            ],
        ),
        ("version_wsl2.txt", "560.94", "12.6", []),
    ],
)
def test_banner_and_rows(name: str, driver: str, cuda: str | None, gpus: list[tuple[object, ...]]) -> None:
    found = nvidia_smi.parse(capture(name))
    assert (found.driver_version, found.cuda_version, found.failure) == (driver, cuda, None)
    assert [seen(gpu) for gpu in found.gpus] == gpus
    assert all(gpu.fault == Unknown("none") for gpu in found.gpus)


TABLES = sorted(path.name for path in CAPTURES.glob("r[0-9]*.txt"))


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_drawn_as_the_tool_draws_them(name: str) -> None:
    """As wide as that version's in every row, and the bars of the GPUs' rows below the seams of the ruled lines."""
    version = int(name[1:4])
    width = 79 if version < 535 else 89 if version < 550 else 91
    rows = [row.lstrip() for row in capture(name).split("\n") if row.lstrip()[:1] in ("+", "|")]
    assert {len(row) for row in rows} == {width}
    bars = {tuple(at for at, sign in enumerate(row) if sign == "|") for row in rows if row.count("|") == 4}
    seams = {tuple(at for at, sign in enumerate(row) if sign in "+|") for row in rows if row[1] in "-="}
    assert len(bars) == 1 and bars <= seams


def test_every_capture_is_listed_with_its_source() -> None:
    readme = capture("README.md")
    assert [path.name for path in CAPTURES.iterdir() if f"| {path.name} |" not in readme] == ["README.md"]


def test_all_columns_of_a_row() -> None:
    (gpu,) = nvidia_smi.parse(capture("r550_wide_memory.txt")).gpus
    table = nvidia_smi.SOURCE
    assert (gpu.temperature, gpu.utilization, gpu.performance_state) == tuple(Known(n, table) for n in (43, 4, 3))
    assert (gpu.power, gpu.power_limit) == (Known(26.0, table), Known(115.0, table))
    assert (gpu.persistence_mode, gpu.display_active) == (Known(False, table), Known(True, table))
    assert gpu.compute_mode == Known("default", table)
    for fact in (gpu.ecc_mode, gpu.ecc_uncorrected, gpu.mig_mode, gpu.processes):
        assert isinstance(fact, Unknown)  # N/A, and no table of processes in the capture


def test_mig_mode_and_its_devices() -> None:
    plain, sliced = nvidia_smi.parse(capture("r510_mig_devices.txt")).gpus
    assert (plain.mig_mode, plain.ecc_uncorrected) == (Known(False, "nvidia-smi"), Known(0, "nvidia-smi"))
    assert sliced.mig_mode == Known(True, "nvidia-smi")
    assert value_or(sliced.mig_instances, ()) == tuple(f"GPU instance {n}, compute instance 0" for n in (1, 5, 13))


def test_processes_of_the_old_layout() -> None:
    (gpu,) = nvidia_smi.parse(capture("r396_processes_cut_off.txt")).gpus
    assert value_or(gpu.processes, ()) == (
        GpuProcess(pid=871, memory=158 * MIB, name="/usr/lib/xorg/Xorg"),
        GpuProcess(pid=1306, memory=9 * MIB, name="compiz"),
        GpuProcess(pid=20417, memory=3058 * MIB, name="python3"),
    )


def test_processes_of_the_new_layout() -> None:
    rows = (
        "\n| Processes:                                                                              |"
        "\n|    0   N/A  N/A            2936    C+G   C:\\Windows\\explorer.exe                   N/A      |"
        "\n|    0   N/A  N/A            4242      C   /opt/py thon/bin/python                  1000MiB |"
    )
    (gpu,) = nvidia_smi.parse(capture("r550_wide_memory.txt") + rows).gpus
    assert value_or(gpu.processes, ()) == (
        GpuProcess(pid=2936, name="C:\\Windows\\explorer.exe"),
        GpuProcess(pid=4242, memory=1000 * MIB, name="/opt/py thon/bin/python"),
    )


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("nvml_mismatch.txt", "Failed to initialize NVML: Driver/library version mismatch"),
        ("no_driver.txt", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
        ("gpu_lost.txt", "Unable to determine the device handle for GPU 0000:B1:00.0: GPU is lost"),
    ],
)
def test_failures(name: str, start: str) -> None:
    found = nvidia_smi.parse(capture(name))
    assert (found.failure or "").startswith(start)
    assert found.gpus == () and found.driver_version is None


def test_lost_gpus_are_named() -> None:
    assert nvidia_smi.lost_gpus(capture("gpu_lost.txt")) == {
        "0000:b1:00.0": "GPU is lost.  Reboot the system to recover this GPU"
    }


def test_a_broken_sensor_is_a_fault() -> None:
    text = capture("r550_wide_memory.txt").replace(" 32%   43C    P3", "ERR!   ERR! ERR!")
    (gpu,) = nvidia_smi.parse(text).gpus
    assert isinstance(gpu.fault, Known)
    assert isinstance(gpu.temperature, Unknown)


@pytest.mark.parametrize("text", ["", "\x00\xff\n|||\n| 0 |", "|" * 500, "nvidia-smi: command not found"])
def test_other_text_is_nothing(text: str) -> None:
    assert nvidia_smi.parse(text) == nvidia_smi.SmiText()
    assert nvidia_smi_csv.parse(text) == ()


def test_csv_in_any_order() -> None:
    first, second = nvidia_smi_csv.parse(capture("query_in_another_order.csv"))
    assert (first.index, second.index) == (0, 1)
    assert value_or(first.compute_capability, None) == "8.0"
    assert value_or(second.name, None) == "NVIDIA RTX A4000"
    assert (value_or(first.compute_mode, None), value_or(second.compute_mode, None)) == ("exclusive_process", "default")
    assert isinstance(second.memory_total, Unknown)


def test_csv_refusals_are_unknown_and_a_lost_gpu_is_a_fault() -> None:
    text = "index, name, power.draw [W], temperature.gpu, ecc.mode.current\n0, X, [N/A], [GPU is lost], maybe"
    (gpu,) = nvidia_smi_csv.parse(text)
    assert gpu.power == Unknown("nvidia-smi answers [N/A]")
    assert gpu.ecc_mode == Unknown("nvidia-smi answers 'maybe'")
    assert gpu.fault == Known("GPU is lost", nvidia_smi_csv.SOURCE)
