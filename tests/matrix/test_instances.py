"""Instance types of clouds: their GPU, by name, in a text, in a plan; and what only looks like one."""

from __future__ import annotations

import json

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.matrix.gpu_names import InstanceIndex
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.records.facts import Known

NAMED = {
    "p2.xlarge": "Tesla K80", "p3.2xlarge": "Tesla V100", "p3dn.24xlarge": "Tesla V100", "p4d.24xlarge": "A100",
    "p4de.24xlarge": "A100", "p5.48xlarge": "H100", "p5en.48xlarge": "H200", "g2.2xlarge": "GRID K520",
    "g3s.xlarge": "Tesla M60", "g4dn.metal": "Tesla T4", "g5.12xlarge": "A10G", "g5g.metal": "T4G", "g6.xlarge": "L4",
    "g6e.4xlarge": "L40S", "ml.p3.8xlarge": "Tesla V100", "g4dn": "Tesla T4", "p3 instance": "Tesla V100",
    "a2-highgpu-1g": "A100", "a2-ultragpu-8g": "A100", "a3-highgpu-8g": "H100", "g2-standard-96": "L4",
    "a2-highgpu": "A100", "Colab": "Tesla T4", "Standard_NC6": "Tesla K80", "NC24r": "Tesla K80",
    "Standard_NC12s_v2": "Tesla P100", "NC6s_v3": "Tesla V100", "NCv3": "Tesla V100",
    "Standard_NC4as_T4_v3": "Tesla T4",
    "STANDARD_NC40ADS_H100_V5": "H100", "Standard_NC24ads_A100_v4": "A100", "Standard_ND6s": "Tesla P40",
    "Standard_ND96asr_v4": "A100", "Standard_NV6": "Tesla M60", "Standard_NV36ads_A10_v5": "A10",
}  # fmt: skip
WRITTEN = {
    "I launched a g4dn.xlarge with the Deep Learning AMI": "Tesla T4",
    "my EC2 p3 with Ubuntu": "Tesla V100",
    "We train on p2 instances": "Tesla K80",
    "在AWS g5.xlarge上": "A10G",
    "запустил на Standard_NC6s_v3": "Tesla V100",
    "a2-highgpu-1g on GKE": "A100",
}
NONE = (
    "see p3.py and g5.txt",
    "python p2.7, gpt-g4",
    "NC6 is a room, ND6s is another",
    "layer p3 of the network",
    "instances of class p3",
    "In Colab it works",
    "it worked before on a p3.2xlarge",
    "an m5.xlarge without a GPU",
    "2024-01-01 10:00:00.1: I gpu_device.cc:1] g4dn.xlarge",
)


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
