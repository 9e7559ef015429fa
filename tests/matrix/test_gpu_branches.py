"""The driver branches of GPUs: those of the very models, and lower bounds, which refuse nothing."""

from __future__ import annotations

from pathlib import Path

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.matrix.compatibility import is_tegra
from tfgpu_doctor.matrix.queries import Filters, releases
from tfgpu_doctor.plan.constraints import problems
from tfgpu_doctor.plan.gpu_answers import gpu_answer
from tfgpu_doctor.plan.ranking import PlanRequest, make_plan
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

# NVIDIA's changelogs ("Added support for the following GPUs") and lists, as an audit of 2026-11-22 read them
FIRST = ROWS["FIRST"]
OF_THE_FAMILY = {"A100": "450", "T4": "410", "Tesla V100": "384", "Tesla P100": "375", "GH200": "535", "B300": "580"}
# names that no list of NVIDIA's has, or has without telling since when
UNKNOWN = {
    "A100-SXM-64GB", "A100X", "A30X", "A800 40GB Active", "B100", "CMP 100-210", "CMP 170HX", "L40G", "P102-100",
    "T400E", "Tesla P10", "Tesla P6", "Tesla T10",
}  # fmt: skip


def usable(gpu: str, driver: str) -> bool:
    """Whether a plan takes the driver as it is."""
    made = make_plan(MATRIX, describe(MATRIX, gpu=(gpu,), driver=driver))
    return any(option.kind == "as-is" for option in made.options)


@each("branch", FIRST)
def test_the_first_branch_is_the_models_own(branch: str) -> None:
    found = {name: gpu and gpu.first_driver_branch for name in FIRST[branch].split("; ") for gpu in [MATRIX.gpu(name)]}
    assert set(found.values()) == {branch}, found


def test_a_family_begins_with_its_first_member() -> None:
    found = {name: gpu.first_driver_branch for name in OF_THE_FAMILY if (gpu := MATRIX.gpu(name))}
    assert found == OF_THE_FAMILY


def test_every_other_card_from_pascal_on_has_a_branch_of_its_own() -> None:
    """A new name without one is looked up in the lists, or entered here."""
    rows = [row for row in MATRIX.data.gpus if at_least(row.compute_capability, "6.0") and not row.first_driver_branch]
    assert {name for row in rows if not is_tegra(row.compute_capability) for name in row.names} == UNKNOWN


@each(("gpu", "driver"), ROWS["test_a_driver_that_knows_the_card_is_taken"])
def test_a_driver_that_knows_the_card_is_taken(gpu: str, driver: str) -> None:
    assert usable(gpu, driver)
    assert releases(MATRIX, Filters(platform="linux_x86_64", gpu=gpu, driver=driver))


@each(("gpu", "driver", "first"), ROWS["test_a_driver_from_before_the_card_is_refused"])
def test_a_driver_from_before_the_card_is_refused(gpu: str, driver: str, first: str) -> None:
    request = PlanRequest(MATRIX, describe(MATRIX, gpu=(gpu,), driver=driver))
    (said,) = problems(request, no_gpu=False, driver_hangs=False)
    assert said.endswith(f"driver branch {first} is the first that does")
    assert not usable(gpu, driver)
    assert not releases(MATRIX, Filters(platform="linux_x86_64", gpu=gpu, driver=driver))


def test_a_bound_is_shown_as_one_and_warns() -> None:
    answer = gpu_answer(MATRIX, "8.9", "L40G")
    assert (answer["first_driver_branch"], answer["driver_at_least"]) == (None, "520")
    assert gpu_answer(MATRIX, "8.9", "L40")["driver_at_least"] is None
    assert gpu_answer(MATRIX, "8.9")["driver_at_least"] == "520"
    request = PlanRequest(MATRIX, describe(MATRIX, gpu=("L40G",), driver="515.65.01"))
    (said,) = problems(request, no_gpu=False, driver_hangs=False)
    assert said == "Driver 515.65.01 is probably too old for L40G: the first GPU of its architecture came with 520"
    request = PlanRequest(MATRIX, describe(MATRIX, gpu=("L40G",), driver="520.61.05"))
    assert not list(problems(request, no_gpu=False, driver_hangs=False))
