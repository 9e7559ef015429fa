"""How a machine is described, and how its facts describe it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


READERS: dict[str, Callable[[str], object]] = {
    "compute capability": lambda text: read_capability(text, MATRIX),
    "driver": read_driver,
    "Python": read_python,
    "TensorFlow": lambda text: str(read_specifier(text)),
}


@each(("name", "message", "good", "bad"), ROWS["READ"])
def test_what_people_type_is_read_or_refused(name: str, message: str, good: dict[str, str], bad: list[str]) -> None:
    assert {text: READERS[name](text) for text in good} == good
    for text in bad:
        with pytest.raises(TargetError, match=message):
            READERS[name](text)


@each(("name", "message"), ROWS["test_unknown_and_ambiguous_cards"])
def test_unknown_and_ambiguous_cards(name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        describe(MATRIX, gpu=(name,))


@each(("device", "name", "expected"), ROWS["test_without_a_driver_the_bus_names_the_card"])
def test_without_a_driver_the_bus_names_the_card(device: str, name: str | None, expected: str | None) -> None:
    card = PciGpu(address="0000:01:00.0", device_id=f"10de:{device}", name=name)
    facts = spoil(healthy(), {"gpus": Unknown("no driver"), "host.pci_gpus": known((card,))})
    found = from_facts(facts, MATRIX).gpus
    assert [one.compute_capability for one in found] == ([expected] if expected else [])


def test_capabilities_each_once_ascending() -> None:
    assert from_facts(Facts(), MATRIX) == Target()
    cards = tuple(TargetGpu(None, one) for one in ("12.0", "8.9", "8.9"))
    assert Target(gpus=cards).capabilities == ("8.9", "12.0")
    two = spoil(healthy(), {"gpus": known((gpu(compute_capability="8.9"), gpu(compute_capability="8.9")))})
    assert len(from_facts(two, MATRIX).gpus) == 2


@each(("driver", "read"), ROWS["test_driver_branches_on_windows"])
def test_driver_branches_on_windows(driver: str, read: str) -> None:
    assert on_windows(MATRIX, driver) == read
