"""Only the variables of the table are read."""

from __future__ import annotations

import pytest

from tfgpu_doctor.probes import host
from tfgpu_doctor.records.environment_variables import matters
from tfgpu_doctor.records.facts import Known


def test_an_empty_environment() -> None:
    assert host.variables({}) == Known({}, "environment")


def test_an_empty_value_is_a_value() -> None:
    """CUDA_VISIBLE_DEVICES= hides every GPU; unset hides none."""
    assert host.variables({"CUDA_VISIBLE_DEVICES": ""}) == Known({"CUDA_VISIBLE_DEVICES": ""}, "environment")


def test_names_are_sorted_and_families_are_seen() -> None:
    found = host.variables({"XLA_FLAGS": "x", "NCCL_P2P_DISABLE": "1", "HOME": "/home/ann"})
    assert isinstance(found, Known)
    assert list(found.value.items()) == [("NCCL_P2P_DISABLE", "1"), ("XLA_FLAGS", "x")]


def test_secrets_and_names_are_never_read(subtests: pytest.Subtests) -> None:
    for name in [
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "SSH_AUTH_SOCK",
        "USER",
        "HOME",
        "NCCL",
        "PASSWORD",
        "JUPYTERHUB_API_TOKEN",
    ]:
        with subtests.test(name=name):
            assert not matters(name)
            assert host.variables({name: "secret"}) == Known({}, "environment")


def test_a_huge_value_is_cut() -> None:
    found = host.variables({"LD_LIBRARY_PATH": "/x:" * 10_000})
    assert isinstance(found, Known)
    assert len(found.value["LD_LIBRARY_PATH"]) == host.LONGEST
