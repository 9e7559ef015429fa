"""Where a failure happens decides what it means: the cause that a text of some lines names first.

Written for this collection, not taken from anybody, as in test_short_reports.py.
"""

from __future__ import annotations

import itertools

from tests.corpus import report_of
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.records.versions import minor

_SYMPTOMS = ("gpu.not-visible", "tf.import-failed", "tf.known-bug", "benign.log", "tensorrt.missing-benign")
_NO_DEVICE = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
_LOADED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Oct 26 21:55:45 UTC 2021"
_WSL = "Windows 10, Ubuntu 20.04, TF 2.9.1 finds no GPU, GTX 1070\n"
REPORTS = [
    ("wsl.setup", f"{_WSL}$ uname -r\n4.4.0-19041-Microsoft"),
    ("wsl.setup", f"{_WSL}uname -a: Linux PC 4.4.0-22621-Microsoft #1 x86_64 GNU/Linux. nvidia-smi.exe shows the card"),
    ("wsl.setup", f"In WSL2: {_WSL}ls: cannot access '/dev/dxg': No such file or directory"),
    ("wsl.setup", f"WSL2, {_WSL}there is no /dev/dxg"),
    ("wsl.setup", f"WSL2: {_WSL}/dev/dxg does not exist"),
    ("wsl.setup", f"WSL2: {_WSL}我这里没有 /dev/dxg"),
    ("driver.init-failed", f"{_NO_DEVICE}\nFailed to initialize NVML: Insufficient Permissions\nUbuntu, RTX 2080"),
    ("driver.init-failed", f"{_NO_DEVICE}\ncat: /dev/nvidia0: Permission denied. As root it works. Quadro P2000"),
    ("driver.init-failed", f"open(/dev/nvidiactl) = -1 EACCES (Permission denied)\n{_NO_DEVICE}\nTF 2.11, RTX 3080"),
    (
        "driver.version-mismatch",
        f"TF 2.7 does not find any device since yesterday\n{_LOADED.format('470.86')}\n"
        "Upgrade: libnvidia-compute-470:amd64 (470.86-0ubuntu0.20.04.2, 470.103.01-0ubuntu0.20.04.1)",
    ),
    (
        "driver.version-mismatch",
        f"TF findet keine GPU mehr\n{_LOADED.format('535.129.03')}\n"
        "ii  libnvidia-compute-535:amd64  535.183.01-0ubuntu0.22.04.1  amd64  NVIDIA libcompute package",
    ),
    ("driver.version-mismatch", f"TF 找不到 GPU\n{_LOADED.format('550.54.14')}\nlibcuda1  550.90.07-1  amd64"),
    ("gpu.mig", "ResourceExhaustedError, name: NVIDIA A100-SXM4-40GB MIG 1g.5gb, TF 2.12"),
    ("gpu.mig", "OOM when allocating tensor with shape[2,64,512,512] on NVIDIA H100 MIG 1g.10gb, batch 2"),
    ("tf.cpu-build", "We use the CPU image by mistake? tensorflow-training:2.11-cpu-py39 on p3.2xlarge sees no GPU"),
    (
        "tf.windows-native",
        "[19:04] kobo: 3070, win10, python uses the cpu only\n[19:08] mira: tf?\n[19:09] kobo: tf 2.15.0",
    ),
]


def _first(text: str) -> str | None:
    found = report_of(text).findings
    return next((one.id for one in found if one.id not in _SYMPTOMS), None)


@each(("cause", "text"), REPORTS)
def test_the_context_decides(cause: str, text: str) -> None:
    assert _first(text) == cause


def test_what_agrees_is_no_cause() -> None:
    same = f"{_LOADED.format('470.86')}\nlibnvidia-compute-470:amd64 470.86-0ubuntu0.20.04.2"
    assert _first(same) != "driver.version-mismatch"


def test_two_releases_in_one_list_overwrite_each_other() -> None:
    """Whatever the two are: every neighbour in the matrix, up to the last tensorflow-gpu."""
    published = MATRIX.stable("linux_x86_64", "tensorflow-gpu")
    for newer, older in itertools.pairwise(dict.fromkeys(minor(row.version) for row in published)):
        listed = f"pip list\ntensorflow           {older}.0\ntensorflow-gpu       {newer}.0\n"
        assert _first(f"TF uses only the CPU, Ubuntu\n{listed}") == "tf.package-conflict", listed


def test_one_release_under_two_names_is_no_conflict() -> None:
    assert _first("pip list\ntensorflow  2.4.1\ntensorflow-gpu  2.4.1\n") != "tf.package-conflict"
