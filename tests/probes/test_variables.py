"""Only the variables of the table are read."""

from __future__ import annotations

import pytest

from tfgpu_doctor.probes import host
from tfgpu_doctor.records.environment_variables import matters
from tfgpu_doctor.records.facts import Known


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
