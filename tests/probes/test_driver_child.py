"""The numbers of nvml.h that the child names, against the bindings."""

from __future__ import annotations

import doctest

import pynvml
import pytest

from tfgpu_doctor.probes import driver, driver_child


def test_the_samples_in_the_docstrings(subtests: pytest.Subtests) -> None:
    for module in [driver, driver_child]:
        with subtests.test(module=module):
            assert doctest.testmod(module).failed == 0


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def test_throttle_reasons_are_those_of_the_bindings() -> None:
    prefix = "nvmlClocksThrottleReason"
    theirs = {
        value: snake(name.removeprefix(prefix)) for name, value in vars(pynvml).items() if name.startswith(prefix)
    }
    for bit, name in driver_child.THROTTLE_REASONS.items():
        assert theirs[bit] in (name, "user_defined_clocks")
    single = {bit for bit in theirs if isinstance(bit, int) and bit and bit & (bit - 1) == 0}
    assert single <= set(driver_child.THROTTLE_REASONS)


def test_enumerations_are_those_of_the_bindings() -> None:
    for prefix, ours in [
        ("NVML_COMPUTEMODE_", driver_child.COMPUTE_MODES),
        ("NVML_TOPOLOGY_", driver_child.TOPOLOGIES),
    ]:
        theirs = {
            name.removeprefix(prefix).lower(): value for name, value in vars(pynvml).items() if name.startswith(prefix)
        }
        assert {name: theirs[name] for name in ours.values()} == {name: number for number, name in ours.items()}


def test_functions_and_constants_are_those_of_the_bindings() -> None:
    for _, function, constants, _ in driver_child.QUESTIONS:
        for name in (f"nvmlDevice{function}", *(f"NVML_{constant}" for constant in constants.split())):
            assert hasattr(pynvml, name), name
