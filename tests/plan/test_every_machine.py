"""Every card × driver branch × Python × operating system of the matrix: no dead end that is none, no way that is none.

A sample of the machines runs by default, all of them with `-m full`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from msgspec import structs
from packaging.version import Version

from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.matrix.compatibility import driver_branches, driver_reaches, drives, is_tegra, runs_on
from tfgpu_doctor.plan.alternatives import alternatives
from tfgpu_doctor.plan.constraints import PlanRequest, candidates, violations
from tfgpu_doctor.plan.install_commands import Installation
from tfgpu_doctor.plan.ranking import Planner, make_plan
from tfgpu_doctor.plan.records import Option, older_than_five_years
from tfgpu_doctor.plan.target import OSES, Target, describe, read_specifier

DRIVERS = (None, "375", "418", "450", "470", "535", "550", "570", "595")
PYTHONS = (None, "2.7", "3.6", "3.8", "3.11", "3.13", "3.14")
SPECIFIERS = (None, None, None, "1.15", "2.6", "2.10", "2.15", "2.16.1", "2.21")


def cards() -> Iterator[str]:
    """A name of each compute capability and span of drivers."""
    seen = set()
    for row in MATRIX.data.gpus:
        for name in row.names:
            found = MATRIX.gpu(name)
            key = (row.compute_capability, driver_branches(MATRIX, row.compute_capability, name))
            if found and found.compute_capability == row.compute_capability and key not in seen:
                seen.add(key)
                yield name


MACHINES = list(product(sorted(cards()), DRIVERS, PYTHONS, OSES))
SAMPLE = random.Random(2026).sample(MACHINES, 90)


def check(card: str, driver: str | None, python: str | None, os: str, asked: str | None) -> None:
    target = describe(MATRIX, gpu=(card,), driver=driver, python=python, os=os)
    specifier = read_specifier(asked) if asked else None
    plan = make_plan(MATRIX, target, specifier=specifier)
    request = PlanRequest(MATRIX, target, specifier)
    usable = [option for option in plan.options if option.kind not in ("cpu", "metal")]
    if os == "macos":
        assert not usable and plan.options[-1].kind == "cpu" if not asked else True
        return
    if not usable:
        assert not exists(request), "a way that the plan does not name"
        jetson = any(map(is_tegra, target.capabilities))
        assert not jetson or "JetPack" in plan.problems[0]
    for option in usable:
        assert kept(option, target), option.title
        assert specifier is None or specifier.contains(Version(option.tensorflow).public)
    first = next(iter(usable), None)
    young = [one for one in usable if not older_than_five_years(MATRIX, one.released)]
    assert first is None or not young or first is young[0], "an old release stands first"


def exists(request: PlanRequest) -> bool:
    """Whether anything runs on the machine itself, or with another driver or Python, looked for without the planner."""
    target = request.target
    if target.os == "windows":
        inside = structs.replace(target, os="wsl2", python=None)
        if Planner(PlanRequest(MATRIX, inside, request.specifier)).options():
            return True
    for driver in (target.driver, None):
        if alternatives(PlanRequest(MATRIX, structs.replace(target, driver=driver), request.specifier)):
            return True
    links = frozenset(one.id for one in MATRIX.data.known_issues if one.condition.extra and request.specifier)
    request = replace(request, repaired_issues=links)
    rows = candidates(MATRIX, target.platform)
    return any(not {one.constraint for one in violations(request, row)} - {"python", "driver"} and ok(row, target)
               for row in rows)  # fmt: skip


def ok(row: object, target: Target) -> bool:
    """The driver for its CUDA exists for these cards, and some command brings that CUDA."""
    if not Installation(MATRIX, target, row, row.python[-1]).commands:  # type: ignore[arg-type, attr-defined]
        return False
    need = row.min_driver_linux if target.os == "linux" else row.min_driver_windows  # type: ignore[attr-defined]
    lasts = [driver_branches(MATRIX, one.compute_capability, one.name)[1] for one in target.gpus]
    return all(last is None or need is None or int(need.partition(".")[0]) <= int(last) for last in lasts)


def kept(option: Option, target: Target) -> bool:
    """Whether a way keeps to the machine: its driver, its Python and its cards, unless the way says what to change."""
    says_driver = any("driver" in fix.text.lower() for fix in option.first if "WSL2" not in fix.text)
    driver = says_driver or target.driver is None or "forward compatibility" in " ".join(option.notes) or (
        option.min_driver is None or driver_reaches(target.driver, option.min_driver)
    )  # fmt: skip
    brings_python = option.kind in ("container", "conda-forge", "wsl2", "pre-release") or "python" in option.kind
    python = target.python is None or brings_python or option.python == target.python
    branches = [driver_branches(MATRIX, one.compute_capability, one.name) for one in target.gpus]
    drivable = says_driver or target.driver is None or all(drives(target.driver, *one) for one in branches)
    row = MATRIX.tensorflow(option.tensorflow, target.platform, option.package)
    has_kernels = row is None or not row.gpu or all(runs_on(row, one) == "sass" for one in target.capabilities)
    return driver and python and drivable and (has_kernels or option.kind in ("container", "conda-forge", "wsl2"))


@each("part", range(3))
def test_a_sample_of_machines(part: int) -> None:
    for index, machine in enumerate(SAMPLE[part::3]):
        asked = SPECIFIERS[index % len(SPECIFIERS)]
        try:
            check(*machine, asked)
        except AssertionError as error:
            raise AssertionError(f"{machine}, TensorFlow {asked}: {error}") from error


@pytest.mark.full
@each("card", sorted({card for card, *_ in MACHINES}))
def test_every_machine(card: str) -> None:
    for machine in MACHINES:
        if machine[0] == card:
            check(*machine, None)
