"""A Python that `tfgpu check` advises is one for which every package that the file names has a wheel."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from tests.healthy import MATRIX
from tests.plan.test_check_repairs import files
from tfgpu_doctor.manifests import Environment
from tfgpu_doctor.manifests.reading import read
from tfgpu_doctor.plan.check import judge, repair
from tfgpu_doctor.plan.planned import PlannedEnvironment, planned
from tfgpu_doctor.plan.resolving import can_be_met, universe_of
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.records.report import Report

PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
FORMS = ("Dockerfile", "environment.yml", "pyproject.toml")
SETS = (
    ("tensorflow[and-cuda]==2.18.0", "tensorflow-text==2.18.0"),  # it has no wheel for 3.12
    ("tensorflow[and-cuda]==2.15.1", "tensorflow-addons==0.23.0", "tensorflow-io==0.37.0"),
    ("tensorflow[and-cuda]==2.16.2", "tensorflow-addons"),
    ("tensorflow[and-cuda]>=2.18", "tensorflow-text==2.18.0"),
    ("tensorflow[and-cuda]==2.20.0", "tensorflow-io", "tf-keras"),
    ("tensorflow[and-cuda]==2.20.0", "tensorflow-text==2.20.0", "tensorflow-probability==0.25.0"),
    ("tensorflow[and-cuda]==2.17.1", "keras==3.5.0", "tf-keras==2.17.0"),
    ("tensorflow[and-cuda]==2.15.1", "tensorflow-probability==0.23.0", "keras<3"),
)
TARGET = describe(MATRIX, gpu=("A100",))


def _seen(name: str, text: str) -> tuple[Environment, PlannedEnvironment]:
    (environment,) = read(name, text)
    return environment, planned(environment, TARGET, MATRIX)


def _can_be_met(view: PlannedEnvironment, python: str) -> bool:
    universe = universe_of(MATRIX, "linux_x86_64", python)
    return can_be_met(universe, [one for _, one in view.wanted_in(universe)])


def wrong(form: str, python: str, lines: tuple[str, ...]) -> list[str]:
    """What is wrong with the file after the advice is made; nothing where all is well."""
    name, text = files(form, python, list(lines))

    def judged(texts: Mapping[str, str]) -> Report:
        environments = read(name, texts.get(name, text))
        return judge(environments, TARGET, MATRIX, "2026-11-22T00:00:00Z")

    after = repair(judged({}), lambda _: text, judged, {"Dockerfile"}).texts.get(name, text)
    (_, before), (environment, now) = _seen(name, text), _seen(name, after)
    found = [f"not for Python {one}" for one in (now.pythons or ())[-1:] if not _can_be_met(now, one)]
    if now.pythons != before.pythons and any(_can_be_met(before, one) for one in PYTHONS):
        found += [f"{one} was changed, too" for one in lines[1:] if one not in after]
    return [*found, after] if found or environment.not_understood else []


CASES = [(FORMS[index % 3], *case) for index, case in enumerate(itertools.product(PYTHONS, SETS))]


def test_every_package_has_a_wheel_for_it() -> None:
    assert [bad for case in CASES if case[1] == "3.13" and (bad := wrong(*case))] == []


@pytest.mark.full
def test_every_package_has_a_wheel_for_it_in_more_files() -> None:
    assert [bad for case in itertools.product(FORMS, PYTHONS, SETS) if (bad := wrong(*case))] == []
