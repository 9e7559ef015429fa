"""Every card × driver branch × Python × system of the matrix: no dead end that is none, and no way that is none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product

import pytest
from msgspec import structs
from packaging.version import Version

from tests.healthy import MATRIX
from tfgpu_doctor.facts.about import OSES
from tfgpu_doctor.matrix.compatibility import driver_branches, driver_reaches, drives, is_tegra, runs_on
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.alternatives import alternatives
from tfgpu_doctor.plan.constraints import PlanRequest, candidates, outside_wsl, violations
from tfgpu_doctor.plan.install_commands import Installation
from tfgpu_doctor.plan.ranking import Planner, make_plan
from tfgpu_doctor.plan.records import Option, older_than_five_years
from tfgpu_doctor.plan.target import Target, describe, read_specifier

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
EVERY = [(*machine, None) for machine in MACHINES]
SAMPLE = [(*machine, asked) for machine, asked in zip(random.Random(2026).sample(MACHINES, 54), cycle(SPECIFIERS))]
Machine = tuple[str, str | None, str | None, str, str | None]


def complaint(card: str, driver: str | None, python: str | None, os: str, asked: str | None) -> str | None:
    """What is wrong with the plan for a machine."""
    target = describe(MATRIX, gpu=(card,), driver=driver, python=python, os=os)
    specifier = read_specifier(asked) if asked else None
    plan = make_plan(MATRIX, target, specifier=specifier)
    usable = [option for option in plan.options if option.kind not in ("cpu", "metal")]
    if os == "macos":
        return None if asked or (not usable and plan.options[-1].kind == "cpu") else "not only the CPU"
    if not usable and exists(PlanRequest(MATRIX, target, specifier)):
        return "a way that the plan does not name"
    if not usable and any(map(is_tegra, target.capabilities)) and "JetPack" not in plan.problems[0]:
        return "JetPack is not named"
    for option in usable:
        if not kept(option, target) or (specifier and not specifier.contains(Version(option.tensorflow).public)):
            return option.title
    young = [one for one in usable if not older_than_five_years(MATRIX, one.released)]
    return "an old release stands first" if young and usable[0] is not young[0] and not specifier else None


def exists(request: PlanRequest) -> bool:
    """Whether anything runs on the machine itself, or with another driver or Python, looked for without the planner."""
    target = request.target
    if target.os == "wsl2" and outside_wsl(target):
        return False
    if target.os == "windows" and not outside_wsl(structs.replace(target, os="wsl2")):
        inside = structs.replace(target, os="wsl2", python=None)
        if Planner(PlanRequest(MATRIX, inside, request.specifier)).options():
            return True
    for driver in (target.driver, None):
        if alternatives(PlanRequest(MATRIX, structs.replace(target, driver=driver), request.specifier)):
            return True
    links = frozenset(one.id for one in MATRIX.data.known_issues if one.condition.extra and request.specifier)
    request = replace(request, repaired_issues=links)
    rows = candidates(MATRIX, target.platform)
    rows = [row for row in rows if {one.constraint for one in violations(request, row)} <= {"python", "driver"}]
    return any(drivable(row, target) for row in rows)


def drivable(row: Release, target: Target) -> bool:
    """The driver for its CUDA exists for these cards, and some command brings that CUDA."""
    need = row.min_driver_linux if target.os == "linux" else row.min_driver_windows
    lasts = [driver_branches(MATRIX, one.compute_capability, one.name)[1] for one in target.gpus]
    exists = all(last is None or need is None or int(need.partition(".")[0]) <= int(last) for last in lasts)
    return exists and bool(Installation(MATRIX, target, row, row.python[-1]).commands)


def kept(option: Option, target: Target) -> bool:
    """Whether a way keeps to the machine: its driver, its Python and its cards, unless the way says what to change."""
    elsewhere = option.kind in ("container", "conda-forge", "wsl2")
    if not any("driver" in fix.text.lower() for fix in option.first if "WSL2" not in fix.text) and target.driver:
        forward = "forward compatibility" in " ".join(option.notes) or option.min_driver is None
        branches = [driver_branches(MATRIX, one.compute_capability, one.name) for one in target.gpus]
        if not all(drives(target.driver, *one) for one in branches):
            return False
        if not forward and not driver_reaches(target.driver, option.min_driver):
            return False
    brings_python = elsewhere or option.kind == "pre-release" or "python" in option.kind
    brings_python |= "with its Python" in option.title  # JetPack's
    row = MATRIX.tensorflow(option.tensorflow, target.platform, option.package)
    has_kernels = row is None or not row.gpu or all(runs_on(row, one) == "sass" for one in target.capabilities)
    return (brings_python or target.python in (None, option.python)) and (has_kernels or elsewhere)


@pytest.mark.parametrize("machines", [SAMPLE, pytest.param(EVERY, marks=pytest.mark.full)], ids=["sample", "every"])
def test_machines(machines: list[Machine]) -> None:
    for machine in machines:
        if wrong := complaint(*machine):
            raise AssertionError(f"{machine}: {wrong}")
