"""Instance types of clouds in a text and in a plan, what only looks like one, and GPUs by their PCI device ids."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known, PciGpu, Unknown, value_or
from tfgpu_doctor.matrix.names import InstanceIndex
from tfgpu_doctor.parsers import lines, machine_facts, text_to_facts
from tfgpu_doctor.probes import host

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
WRITTEN = ROWS["WRITTEN"]
NONE = ROWS["NONE"]


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


# ------------------------------------------------------------------------------------------ PCI device ids


def test_a_machine_without_driver_and_pci_ids(tmp_path: Path) -> None:
    for address, device in (("0000:01:00.0", "0x2684"), ("0000:02:00.0", "0xffff")):
        folder = tmp_path / host.DEVICES.lstrip("/") / address
        folder.mkdir(parents=True)
        for name, value in (("vendor", "0x10de"), ("class", "0x030000"), ("device", device)):
            (folder / name).write_text(f"{value}\n", encoding="utf-8")
    seen = machine_facts.named(host.gpus(str(tmp_path), wsl=False), MATRIX)
    assert [gpu.name for gpu in value_or(seen, ())] == ["GeForce RTX 4090", None]


def test_a_name_of_the_machines_own_list_stays() -> None:
    own = PciGpu("0000:01:00.0", "10de:2684", name="AD102 [GeForce RTX 4090]")
    basic = PciGpu("0000:02:00.0", "10de:1b80", name="Microsoft Basic Display Adapter")
    named = machine_facts.named(Known((own, basic, PciGpu("0000:03:00.0", "10de:ffff")), "/sys"), MATRIX)
    assert [gpu.name for gpu in value_or(named, ())] == ["AD102 [GeForce RTX 4090]", "GeForce GTX 1080", None]
    assert machine_facts.named(Unknown("no PCI bus"), MATRIX) == Unknown("no PCI bus")


def test_the_samples_in_the_docstrings() -> None:
    assert doctest.testmod(machine_facts).failed == 0
