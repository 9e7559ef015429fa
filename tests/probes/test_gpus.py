"""The numbers of nvml.h that gpus.py names, against the bindings; and lines that a child may leave."""

from __future__ import annotations

import doctest

import pynvml
import pytest

from tfgpu_doctor.probes import driver, gpus
from tfgpu_doctor.records.facts import Known, PeerLink, Unknown, value_or


def test_the_samples_in_the_docstrings(subtests: pytest.Subtests) -> None:
    for module in [driver, driver, gpus, driver]:
        with subtests.test(module=module):
            assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def test_throttle_reasons_are_those_of_the_bindings() -> None:
    prefix = "nvmlClocksThrottleReason"
    theirs = {
        value: snake(name.removeprefix(prefix)) for name, value in vars(pynvml).items() if name.startswith(prefix)
    }
    for bit, name in gpus.THROTTLE_REASONS.items():
        assert theirs[bit] in (name, "user_defined_clocks")
    single = {bit for bit in theirs if isinstance(bit, int) and bit and bit & (bit - 1) == 0}
    assert single <= set(gpus.THROTTLE_REASONS)


def test_enumerations_are_those_of_the_bindings(subtests: pytest.Subtests) -> None:
    for prefix, ours in [
        ("NVML_COMPUTEMODE_", gpus.COMPUTE_MODES),
        ("NVML_TOPOLOGY_", gpus.TOPOLOGIES),
        ("NVML_P2P_STATUS_", gpus.P2P_STATUSES),
    ]:
        with subtests.test(prefix=prefix):
            theirs = {
                name.removeprefix(prefix).lower(): value
                for name, value in vars(pynvml).items()
                if name.startswith(prefix)
            }
            assert {name: theirs[name] for name in ours.values()} == {name: number for number, name in ours.items()}


def test_what_a_hang_cut_off_is_unknown() -> None:
    lines = [
        {"system": True, "key": "count", "value": 2},
        {"gpu": 0, "key": "name", "value": "NVIDIA A30"},
        {"gpu": 0, "key": "temperature", "error": [3, "NVML_ERROR_NOT_SUPPORTED", "Not Supported"]},
        {"begin": "nvmlDeviceGetUUID", "gpu": 0},
    ]
    first, second = gpus.from_nvml(lines, "NVML")
    assert first.name == Known("NVIDIA A30", "NVML")
    assert first.temperature == Unknown("not supported by this GPU")
    assert first.uuid == second.name == Unknown("NVML did not answer")


def test_numbers_newer_than_the_tables() -> None:
    (pair,) = gpus.peers(
        [{"pair": [0, 1], "key": "topology", "value": 45}, {"pair": [0, 1], "key": "p2p_read", "value": 9}]
    )
    assert pair == PeerLink(a=0, b=1, topology="level 45", p2p_read="unknown")
    lines = [{"gpu": 0, "key": "compute_mode", "value": 8}, {"gpu": 0, "key": "performance_state", "value": 32}]
    (gpu,) = gpus.from_nvml(lines, "NVML")
    assert value_or(gpu.compute_mode, None) == "mode 8"
    assert gpu.performance_state == Unknown("NVML_PSTATE_UNKNOWN")
