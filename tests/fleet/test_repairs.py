"""Repairs of groups: each for what is expected and by whom, with commands that do it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fleet.making import fleet
from tests.healthy import MATRIX
from tests.integrations.test_pytest_plugin import without_gpu
from tfgpu_doctor.findings.engine import make_report
from tfgpu_doctor.fleet.baseline import make_baseline
from tfgpu_doctor.fleet.expectations import NAMES, parse
from tfgpu_doctor.fleet.fleet import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered, Gathering
from tfgpu_doctor.fleet.records import Fleet, Group

ROOT = Path(__file__).parents[2]
NOW = "2026-11-23T12:00:00Z"


def gathered(lines: list[bytes]) -> Gathered:
    gathering = Gathering()
    gathering.take_file(b"\n".join(lines), "fleet.jsonl")
    return gathering.gathered()


def judged(lines: list[bytes], expect: str = "") -> Fleet:
    return judge_fleet(gathered(lines), MATRIX, NOW, expectations=parse(expect) if expect else ())


def of_kind(fleet: Fleet, kind: str) -> list[Group]:
    return [group for group in fleet.groups if group.kind == kind]


LINES = fleet(5, 60, 12).lines
UNMET = {
    "driver>=590": "sudo apt-get install -y nvidia-driver-590-server",
    "driver=570.86.15": "sudo apt-get install -y nvidia-driver-570-server",
    "ecc=1": "sudo nvidia-smi -e 1",
    "ecc!=off": "sudo nvidia-smi -e 1",
    "mig=no": "sudo nvidia-smi -mig 0",
    "numpy<2": "/env/bin/python -m pip install 'numpy<2'",
    "numpy=1.26": "/env/bin/python -m pip install 'numpy==1.26.*'",
    "numpy==1.26.4": "/env/bin/python -m pip install numpy==1.26.4",
    "tensorflow=2.20": "tfgpu plan --tensorflow '==2.20.*'",
    "tensorflow>=2.22": "tfgpu plan --tensorflow '>=2.22'",
    "power=700": "sudo nvidia-smi -pl 700",
    "kernel=6.9.0-12-generic": "sudo apt-get install -y linux-image-6.9.0-12-generic linux-headers-6.9.0-12-generic",
    "kernel=5.14.0-9.el9.x86_64": "sudo dnf install -y kernel-5.14.0-9.el9.x86_64 kernel-devel-5.14.0-9.el9.x86_64",
}


def test_what_is_expected_and_not_there_has_its_command(subtests: pytest.Subtests) -> None:
    for expect, command in UNMET.items():
        with subtests.test(expect=expect):
            (group,) = of_kind(judged(LINES, expect), "expectation")
            assert command in [command for fix in group.fixes for command in fix.commands], group.fixes


HARDWARE = ("gpu=B200", "memory>=200GB", "compute-capability>=10.0", "cpu=Grace", "cpus>=999", "host-memory>=9TB")
OTHERS = ("gpus=9", "cuda=11", "cudnn=8", "python=3.10", "os=debian", "container=podman", "pcie-width=32", "kernel>=9")


def test_no_repair_speaks_of_other_nodes_where_none_has_it(subtests: pytest.Subtests) -> None:
    for expect in [*UNMET, *HARDWARE, *OTHERS]:
        with subtests.test(expect=expect):
            (group,) = of_kind(judged(LINES, expect), "expectation")
            texts = " ".join(fix.text for fix in group.fixes)
            assert group.fixes and not re.search(r"other nodes|others|elsewhere(?! with)", texts), texts
            if expect in HARDWARE:  # it is no defect that a card has less memory than another one
                assert "replace" not in texts and "correct --expect" in texts


def test_what_nobody_reports_is_looked_up() -> None:
    lines = [
        re.sub(rb'"is":"known","value":"580.65.06","source":"[^"]*"', b'"is":"unknown","reason":"x"', line)
        for line in LINES
    ]
    (group,) = of_kind(judged(lines, "driver=580"), "expectation")
    assert group.id == "driver.version.unknown" and group.fixes[0].commands == ("tfgpu doctor -v",)


def test_blackwell_has_open_kernel_modules_only() -> None:
    lines = [line.replace(b'"9.0"', b'"10.0"').replace(b'"8.9"', b'"10.0"') for line in LINES]
    (group,) = of_kind(judged(lines, "driver=570"), "expectation")
    assert "sudo apt-get install -y nvidia-driver-570-server-open" in group.fixes[0].commands


def test_a_fleet_differs_from_its_own_baseline_where_it_differs_from_itself(subtests: pytest.Subtests) -> None:
    """A release that a third of the nodes have is no mistake; a baseline that is made then must not call it one."""
    for seed in range(4):
        with subtests.test(seed=seed):
            found = gathered(fleet(seed, 60, 12).lines)
            itself = judge_fleet(found, MATRIX, NOW)
            against = judge_fleet(found, MATRIX, NOW, baseline=make_baseline(found.results, NOW))
            odd = {member.node for group in itself.groups for member in group.nodes}
            assert {member.node for group in against.groups for member in group.nodes} <= odd
            texts = [
                text
                for one in of_kind(against, "baseline")
                for text in (one.title, one.cause, *(f.text for f in one.fixes))
            ]
            assert texts and not any(
                re.search(r"other nodes|others|elsewhere(?! with)|of one kind", text) for text in texts
            )


def test_a_node_on_which_the_doctor_finds_no_gpu_has_none() -> None:
    """Without a driver nobody lists GPUs, and "unknown" beside "This machine has no NVIDIA GPU" is no answer."""
    report = make_report(without_gpu(), MATRIX, source="live", timings={})
    assert "gpu.none" in [finding.id for finding in report.findings]
    (node,) = judged([report.to_json().replace(b"\n", b"")]).nodes
    assert node.hardware == "no GPU"


def test_the_page_lists_every_name_that_can_be_expected() -> None:
    page = (ROOT / "docs" / "commands" / "fleet.md").read_text(encoding="utf-8")
    table = page.partition("| name | what it is |")[2].partition("\n\n")[0]
    first_cells = " ".join(line.split("|")[1] for line in table.splitlines() if line.count("|") > 2)
    assert set(NAMES) <= set(re.findall(r"`([\w-]+)`", first_cells))
