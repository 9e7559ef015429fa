"""Which TensorFlow is advised, and the commands that install it here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.matrix import compatibility
from tfgpu_doctor.matrix.compatibility import cudnn_bound, drives, numpy_bound, runs_on
from tfgpu_doctor.plan.fixes import Fixes

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def advice(changes: dict[str, Any]) -> str:
    """The commands of the best release, one a line."""
    fixes = Fixes(spoil(healthy(), changes), MATRIX).reinstall_best("because")
    return "\n".join(command for fix in fixes for command in fix.commands)


PASCAL = {"gpus": known((gpu(name="Tesla P100-PCIE-16GB", compute_capability="6.0"),))}
KEPLER = {
    "gpus": known((gpu(name="Tesla K80", compute_capability="3.7"),)),
    "driver.version": known("470.256.02"),  # the last branch for it
}
BLACKWELL = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}


@each(
    ("changes", "commands"),
    [
        # 2.21.0 does not find its own libcusolver
        ({}, "/env/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'"),
        # the extra would bring a cuDNN that has dropped Pascal (9.11 and later)
        (PASCAL, "/env/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0' 'nvidia-cudnn-cu12<9.11'"),
        ({"python.version": known("3.9.2")}, "/env/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'"),
        (
            {"python.version": known("3.8.10")},
            "python3.13 -m venv ~/tf\n~/tf/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'",
        ),
        (
            {"python.version": known("3.14.0"), "python.installers": known(("pip", "uv"))},
            "uv venv --python 3.13 ~/tf\nuv pip install --python ~/tf/bin/python 'tensorflow[and-cuda]==2.20.0'",
        ),
        (
            {"python.externally_managed": known(True), "python.executable": known("/usr/bin/python3")},
            "/usr/bin/python3 -m venv ~/tensorflow\n"
            "~/tensorflow/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'",
        ),
        (BLACKWELL, ""),  # no wheel has kernels for it
    ],
)
def test_advice(changes: dict[str, Any], commands: str) -> None:
    assert advice(changes) == commands


def test_kepler_and_an_old_driver_get_the_last_release_that_they_run() -> None:
    commands = advice(KEPLER)
    # the extra of 2.14.1 wants a TensorRT that has no wheel for Python 3.11, so its other parts are named
    assert "tensorflow==2.14.1 " in commands and "nvidia-cudnn-cu11==8.7.0.84" in commands
    ampere = known((gpu(name="NVIDIA A100-SXM4-40GB", compute_capability="8.0"),))
    facts = spoil(healthy(), {"driver.version": known("470.256.02"), "gpus": ampere})
    row = Fixes(facts, MATRIX).best_release(own_cuda=False, this_python=False)
    assert row is not None and str(row.cuda).startswith("11.")


def test_words_are_quoted_for_the_shell() -> None:
    assert advice({"python.executable": known("/home/a b/$(reboot)/python")}).startswith(
        "'/home/a b/$(reboot)/python' -m"
    )
    native = {"host.os": known("windows"), "python.wheel_platform": known("windows_amd64")}
    windows = Fixes(spoil(healthy(), native), MATRIX)
    assert windows.quote("C:\\Program Files\\python.exe") == '"C:\\Program Files\\python.exe"'


@each(("version", "capability", "how"), ROWS["test_how_a_card_runs_a_build"])
def test_how_a_card_runs_a_build(version: str, capability: str, how: str) -> None:
    row = MATRIX.tensorflow(version, "linux_x86_64")
    assert row is not None
    assert runs_on(row, capability) == how


def test_bounds() -> None:
    new, old = (MATRIX.tensorflow(version, "linux_x86_64") for version in ("2.20.0", "2.10.1"))
    assert new is not None and old is not None
    assert cudnn_bound(MATRIX, new, ["7.5"]) is None
    assert cudnn_bound(MATRIX, new, ["8.0", "7.0"]) == "nvidia-cudnn-cu12<9.11"
    assert numpy_bound(old) == f"{old.numpy},<2"
    assert numpy_bound(new) == new.numpy


@each(
    ("driver", "last", "expected"),
    [("472.12", "470", True), ("475.14", "470", True), ("496.13", "470", False), ("470.256.02", "470", True),
     ("582.28", "580", True), ("590.48.01", "580", False), ("391.35", "390", True), ("397.31", "390", False)],
)  # fmt: skip
def test_numbers_of_windows_belong_to_the_branch_below_them(driver: str, last: str, expected: bool) -> None:
    assert drives(driver, None, last) is expected


def test_the_branch_after_each_last_one_is_known() -> None:
    rows = (*MATRIX.data.architectures, *MATRIX.data.gpus)
    assert {row.last_driver_branch for row in rows} - {None} <= compatibility._NEXT_BRANCH.keys()
