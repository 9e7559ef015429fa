"""Instance types of clouds: their GPU, by name, in a text, in a plan; and what only looks like one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known
from tfgpu_doctor.matrix.names import InstanceIndex
from tfgpu_doctor.parsers import lines, text_to_facts

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
NAMED = ROWS["NAMED"]
WRITTEN = ROWS["WRITTEN"]
NONE = ROWS["NONE"]


@each("name", NAMED)
def test_a_name_has_a_gpu(name: str) -> None:
    gpu = MATRIX.gpu(name)
    assert gpu is not None and gpu.name == NAMED[name]


@each("text", WRITTEN)
def test_a_sentence_names_an_instance(text: str) -> None:
    cards = text_to_facts.read(lines.read([text.encode()]), MATRIX).host.pci_gpus
    assert isinstance(cards, Known) and cards.grade == "stated" and [one.name for one in cards.value] == [WRITTEN[text]]


@each("text", NONE)
def test_what_only_looks_alike(text: str) -> None:
    assert not isinstance(text_to_facts.read(lines.read([text.encode()]), MATRIX).host.pci_gpus, Known)


def test_a_stated_card_comes_before_the_instance() -> None:
    cards = text_to_facts.read(lines.read([b"on a g5.xlarge, a Tesla T4"]), MATRIX).host.pci_gpus
    assert isinstance(cards, Known) and cards.value[0].name == "Tesla T4"


def test_another_makers_gpu() -> None:
    cards = text_to_facts.read(lines.read([b"I use a g4ad.xlarge"]), MATRIX).host.pci_gpus
    assert isinstance(cards, Known) and cards.value == ()
    refused = tfgpu("plan", "--gpu", "g4ad.xlarge")
    assert refused.returncode == 2
    assert "g4ad.xlarge is an instance type of AWS with AMD Radeon Pro V520, which is no NVIDIA GPU" in refused.stderr


def test_a_plan_and_the_matrix_take_an_instance() -> None:
    plan = tfgpu("plan", "--gpu", "g4dn.xlarge", "--format", "json")
    assert json.loads(plan.stdout)["target"]["gpus"][0]["name"] == "Tesla T4"
    assert json.loads(tfgpu("matrix", "gpu", "p3.2xlarge", "--format", "json").stdout)["compute_capability"] == "7.0"


def test_every_pattern_finds_its_own_row() -> None:
    for row in MATRIX.data.instances:
        for pattern in row.names:
            assert MATRIX.instances.find(pattern.replace(".*", ".xlarge").replace("#", "8")) is row


def test_no_instances() -> None:
    assert not list(InstanceIndex(()).named_in("a p3.2xlarge")) and InstanceIndex(()).find("p3.2xlarge") is None
