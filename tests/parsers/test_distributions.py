"""The distribution and its version, as sentences name them where no program prints them."""

from __future__ import annotations

import pytest

from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.facts import value_or

NAMED = {
    "I'm on Ubuntu 22.04 with a GTX 1080": ("ubuntu", "22.04"),
    "our cluster runs CentOS 7 and nobody updates it": ("centos", "7"),
    "a fresh Debian 11 machine, apt install nvidia-driver": ("debian", "11"),
    "it happens under RHEL 8.6": ("rhel", "8.6"),
    "it happens under Red Hat Enterprise Linux 8": ("rhel", "8"),
    "Rocky Linux 9 on every node": ("rocky", "9"),
    "Arch Linux with the newest kernel": ("arch", None),
    "OS Platform and Distribution: Linux Ubuntu 16.04": ("ubuntu", "16.04"),
    "the image is built FROM Ubuntu 20.04 in a container": (None, None),
    "Windows 11 at home": (None, None),
}


@pytest.mark.parametrize("text", NAMED)
def test_a_distribution_is_named(text: str) -> None:
    host = text_to_facts.read(lines.read([text.encode()])).host
    assert (value_or(host.distribution_id, None), value_or(host.distribution_version, None)) == NAMED[text]


def test_what_a_program_prints_comes_first() -> None:
    text = 'I upgraded from Ubuntu 18.04\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu'
    host = text_to_facts.read(lines.read([text.encode()])).host
    assert value_or(host.distribution_version, None) == "22.04"
