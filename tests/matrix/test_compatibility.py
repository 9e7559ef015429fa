"""Which TensorFlow runs on which GPU and driver, and the commands that install it here."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.versions import at_least, numbers
from tfgpu_doctor.matrix import compatibility
from tfgpu_doctor.matrix.compatibility import (
    cudnn_bound,
    driver_reaches,
    drives,
    is_tegra,
    numpy_bound,
    oldest_driver,
    runs_on,
    why_driver,
)
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.queries import Filters, releases
from tfgpu_doctor.matrix.schema import FatBinaries
from tfgpu_doctor.plan.constraints import problems
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.gpu_answers import gpu_answer
from tfgpu_doctor.plan.ranking import PlanRequest, make_plan
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def row_of(version: str) -> Release:
    row = MATRIX.tensorflow(version, "linux_x86_64")
    assert row is not None
    return row


@each(("capability", "facts", "commands"), ROWS["ADVICE"])
def test_advice(capability: str, facts: dict[str, Any], commands: list[str]) -> None:
    card = {"gpus": known((gpu(name=None, compute_capability=capability),))}
    machine = spoil(healthy(), {**card, **{name: known(value) for name, value in facts.items()}})
    assert [command for fix in Fixes(machine, MATRIX).reinstall_best("because") for command in fix.commands] == commands


def test_an_old_driver_gets_the_last_release_that_it_runs() -> None:
    ampere = known((gpu(name="NVIDIA A100-SXM4-40GB", compute_capability="8.0"),))
    facts = spoil(healthy(), {"driver.version": known("470.256.02"), "gpus": ampere})
    row = Fixes(facts, MATRIX).best_release(own_cuda=False, this_python=False)
    assert row is not None and str(row.cuda).startswith("11.")


def test_words_are_quoted_for_cmd() -> None:
    native = {"host.os": known("windows"), "python.wheel_platform": known("windows_amd64")}
    windows = Fixes(spoil(healthy(), native), MATRIX)
    assert windows.quote("C:\\Program Files\\python.exe") == '"C:\\Program Files\\python.exe"'


@each(("version", "capability", "how"), ROWS["test_how_a_card_runs_a_build"])
def test_how_a_card_runs_a_build(version: str, capability: str, how: str) -> None:
    assert runs_on(row_of(version), capability) == how


def test_bounds() -> None:
    new, old = row_of("2.20.0"), row_of("2.10.1")
    assert cudnn_bound(MATRIX, new, ["7.5"]) is None
    assert cudnn_bound(MATRIX, new, ["8.0", "7.0"]) == "nvidia-cudnn-cu12<9.11"
    assert (numpy_bound(old), numpy_bound(new)) == (f"{old.numpy},<2", new.numpy)


@each(("driver", "last", "expected"), ROWS["test_numbers_of_windows_belong_to_the_branch_below_them"])
def test_numbers_of_windows_belong_to_the_branch_below_them(driver: str, last: str, expected: bool) -> None:
    assert drives(driver, None, last) is expected


def test_the_branch_after_each_last_one_is_known() -> None:
    rows = (*MATRIX.data.architectures, *MATRIX.data.gpus)
    assert {row.last_driver_branch for row in rows} - {None} <= compatibility._NEXT_BRANCH.keys()


@each(("branch", "names"), ROWS["FIRST"].items())
def test_the_first_branch_is_the_models_own(branch: str, names: str) -> None:
    found = {name: gpu and gpu.first_driver_branch for name in names.split("; ") for gpu in [MATRIX.gpu(name)]}
    assert set(found.values()) == {branch}, found


def test_every_other_card_from_pascal_on_has_a_branch_of_its_own() -> None:
    """A new name without one is looked up in the lists, or entered in UNKNOWN."""
    rows = [row for row in MATRIX.data.gpus if at_least(row.compute_capability, "6.0") and not row.first_driver_branch]
    assert {name for row in rows if not is_tegra(row.compute_capability) for name in row.names} == {*ROWS["UNKNOWN"]}


@each(("gpu", "driver", "first"), ROWS["test_a_driver_knows_the_card_or_is_refused"])
def test_a_driver_knows_the_card_or_is_refused(gpu: str, driver: str, first: str | None) -> None:
    request = PlanRequest(MATRIX, describe(MATRIX, gpu=(gpu,), driver=driver))
    usable = any(option.kind == "as-is" for option in make_plan(MATRIX, request.target).options)
    listed = bool(releases(MATRIX, Filters(platform="linux_x86_64", gpu=gpu, driver=driver)))
    assert (usable, listed) == (not first, not first)
    if first:
        (said,) = problems(request, no_gpu=False, driver_hangs=False)
        assert said.endswith(f"driver branch {first} is the first that does")


def test_a_bound_is_shown_as_one_and_warns() -> None:
    answer = gpu_answer(MATRIX, "8.9", "L40G")
    assert (answer["first_driver_branch"], answer["driver_at_least"]) == (None, "520")
    assert gpu_answer(MATRIX, "8.9", "L40")["driver_at_least"] is None
    assert gpu_answer(MATRIX, "8.9")["driver_at_least"] == "520"
    old, new = (PlanRequest(MATRIX, describe(MATRIX, gpu=("L40G",), driver=one)) for one in ("515.65.01", "520.61.05"))
    (said,) = problems(old, no_gpu=False, driver_hangs=False)
    assert said == "Driver 515.65.01 is probably too old for L40G: the first GPU of its architecture came with 520"
    assert not list(problems(new, no_gpu=False, driver_hangs=False))


CARDS = {"V100": "7.0", "T4": "7.5", "A100": "8.0", "L4": "8.9", "H100": "9.0", "RTX 5090": "12.0"}
DRIVERS = ("525.60.13", "535", "545.23.06", "555.42.02", "580")


@each(("version", "card", "isa", "driver", "windows"), ROWS["test_the_oldest_driver_of_a_release_on_a_gpu"])
def test_the_oldest_driver_of_a_release_on_a_gpu(
    version: str, card: str, isa: str | None, driver: str, windows: str
) -> None:
    row = row_of(version)
    found = row.ptx_only.get(card)
    assert (found.isa if found else None) == isa
    assert (oldest_driver(row, [card]), oldest_driver(row, [card], "windows")) == (driver, windows)
    in_wsl = "495" if windows < "495" else windows  # the first branch with CUDA there (CUDA on WSL User Guide, 2.1)
    assert oldest_driver(row, [card], "wsl2") == in_wsl


def test_the_highest_need_of_several_gpus_counts() -> None:
    row = row_of("2.20.0")
    assert oldest_driver(row, ["8.9", "9.0"]) == "555.42.02"
    assert oldest_driver(row) == oldest_driver(row, ["no such card"]) == row.min_driver_linux == "525.60.13"
    assert why_driver(row, ["8.9", "9.0"]).startswith("its PTX 8.5 (1149 of 1469 fat binaries have no SASS for 9.0")
    assert why_driver(row, ["8.9"]) == "CUDA 12.5.1"


@each(("name", "driver"), product(CARDS, DRIVERS))
def test_no_part_by_ptx_alone_meets_a_driver_of_an_older_cuda(name: str, driver: str) -> None:
    """Of every release that is listed for a GPU and a driver, each fat binary has SASS or PTX that the driver knows."""
    first = {row.isa: MATRIX.cuda(row.cuda) for row in MATRIX.data.ptx}
    builds = {version: row for row in MATRIX.data.builds for version in row.releases.get("tensorflow", "").split()}
    for row in releases(MATRIX, Filters(gpu=name, driver=driver, package="tensorflow", ptx=True, pre=True)):
        for part in builds[row.version].parts if row.version in builds else ():
            toolkit = first.get(part.compiled_for(CARDS[name]) or "")
            needed = toolkit.min_driver_linux if toolkit else None
            assert needed is None or driver_reaches(driver, needed), (row.version, part)


@each(("name", "driver", "newest"), ROWS["test_the_newest_release_for_a_gpu_and_a_driver"])
def test_the_newest_release_for_a_gpu_and_a_driver(name: str, driver: str, newest: str) -> None:
    assert releases(MATRIX, Filters(gpu=name, driver=driver, package="tensorflow"))[0].version == newest


@each(("card", "isa"), [("7.5", None), ("8.6", None), ("9.0", "8.5"), ("6.9", "6.3"), ("12.0", "8.5"), ("5.0", None)])
def test_sass_of_the_same_major_or_else_the_newest_ptx_below(card: str, isa: str | None) -> None:
    assert FatBinaries(count=1, sass=("7.0", "8.0"), ptx={"6.0": "6.3", "9.0": "8.5"}).compiled_for(card) == isa


def test_each_instruction_set_is_that_of_a_toolkit_and_not_of_an_earlier_one() -> None:
    """From PTX 7 on the numbers of both go together: 7.n is CUDA 11.n, 8.n CUDA 12.n up to 12.5, 9.n CUDA 13.n."""
    for row in MATRIX.data.ptx:
        isa, cuda = numbers(row.isa), numbers(row.cuda)
        if isa >= (7, 0) and row.isa not in ("8.7", "8.8"):  # there is none of 12.6, which has 8.5
            assert (isa[0] + 4, isa[1]) == cuda
