"""How a machine is described, and how its facts describe it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts, PciGpu, Unknown
from tfgpu_doctor.matrix.compatibility import on_windows
from tfgpu_doctor.plan.target import (
    Target,
    TargetError,
    TargetGpu,
    describe,
    from_facts,
    read_capability,
    read_driver,
    read_python,
    read_specifier,
)

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each(("os", "machine", "platform"), ROWS["test_platform"])
def test_platform(os: str | None, machine: str | None, platform: str) -> None:
    assert describe(MATRIX, os=os, machine=machine).platform == platform


READERS: dict[str, tuple[Callable[[str], object], str, dict[str, str], tuple[str, ...]]] = {
    "compute capability": (
        lambda text: read_capability(text, MATRIX),
        r"is not a compute capability of an NVIDIA GPU; known are 2\.0, ",
        {"8.9": "8.9", "89": "8.9", "sm_89": "8.9", "compute_120": "12.0", " 12.0 ": "12.0"},
        ("", "8", "8.4", "nine", "8.9.1", "sm_"),
    ),
    "driver": (
        read_driver,
        "is not an NVIDIA driver version such as",
        {"570.86.10": "570.86.10", "570.86": "570.86", "570": "570", "R535": "535", "470.xx": "470", " 550 ": "550"},
        ("", "latest", "5", "570.", "570.86.10.1", "-570"),
    ),
    "driver that is a CUDA": (read_driver, "is a version of CUDA, not of the driver", {}, ("12.4", "11.8")),
    "Python": (
        read_python,
        "is not a Python version such as",
        {"3.12": "3.12", "3.12.4": "3.12", "cp312": "3.12", "python3.9": "3.9", "2.7": "2.7"},
        ("", "three", "3", "3.", "3.12rc1", "12"),
    ),
    "TensorFlow": (
        lambda text: str(read_specifier(text)),
        r"not a TensorFlow version such as 2\.15",
        {
            "2": "==2.*",
            "2.15": "==2.15.*",
            "2.15.1": "==2.15.1",
            "2.16rc1": "==2.16rc1",
            ">=2.12,<2.16": "<2.16,>=2.12",
        },
        ("newest", "latest", "2.x", ">=", "2.15.*.1", "6-1", "0+N", "2.15 or so"),  # 6-1 is a version, of no range
    ),
}


@each("name", READERS)
def test_what_people_type_is_read_or_refused(name: str) -> None:
    read, message, good, bad = READERS[name]
    assert {text: read(text) for text in good} == good
    for text in bad:
        with pytest.raises(TargetError, match=message):
            read(text)


@each(("name", "message"), ROWS["test_unknown_and_ambiguous_cards"])
def test_unknown_and_ambiguous_cards(name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        describe(MATRIX, gpu=(name,))


def test_a_live_machine() -> None:
    target = from_facts(healthy(), MATRIX)
    assert target.gpus and target.driver and target.glibc and target.python == "3.12"
    assert from_facts(healthy(), MATRIX, python="3.9").python == "3.9"


@each(("device", "name", "expected"), ROWS["test_without_a_driver_the_bus_names_the_card"])
def test_without_a_driver_the_bus_names_the_card(device: str, name: str | None, expected: str | None) -> None:
    card = PciGpu(address="0000:01:00.0", device_id=f"10de:{device}", name=name)
    facts = spoil(healthy(), {"gpus": Unknown("no driver"), "host.pci_gpus": known((card,))})
    found = from_facts(facts, MATRIX).gpus
    assert [one.compute_capability for one in found] == ([expected] if expected else [])


def test_what_is_unknown_stays_unknown() -> None:
    assert from_facts(Facts(), MATRIX) == Target()


def test_capabilities_each_once_ascending() -> None:
    names: dict[str, Any] = {"gpus": tuple(TargetGpu(None, one) for one in ("12.0", "8.9", "8.9"))}
    assert Target(**names).capabilities == ("8.9", "12.0")
    two = spoil(healthy(), {"gpus": known((gpu(compute_capability="8.9"), gpu(compute_capability="8.9")))})
    assert len(from_facts(two, MATRIX).gpus) == 2


@each(
    ("driver", "read"),
    [("450", "451"), ("470", "472"), ("465", "465"), ("451", "451"), ("450.80", "450.80"), ("472.50", "472.50")],
)
def test_driver_branches_on_windows(driver: str, read: str) -> None:
    """Minimum drivers of CUDA 11.0 and 11.4 for Linux and Windows: 450.51 and 451.82, 470.82 and 472.50."""
    assert on_windows(MATRIX, driver) == read
