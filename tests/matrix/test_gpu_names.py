"""Which GPUs a name, an instance type of a cloud and a PCI device id can mean, by the matrix that is shipped."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from types import ModuleType

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known, PciGpu, Unknown, value_or
from tfgpu_doctor.matrix import names
from tfgpu_doctor.parsers import lines, machine_facts, text_to_facts

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
NAMES = sorted({name for row in MATRIX.data.gpus for name in row.names})


def capabilities(name: str) -> set[str]:
    return {gpu.compute_capability for gpu in MATRIX.gpu_candidates(name)}


@each(("expected", "names"), ROWS["NAMES"].items())
def test_a_name_has_one_compute_capability(expected: str | None, names: list[str]) -> None:
    found = {name: gpu and gpu.compute_capability for name in names for gpu in [MATRIX.gpu(name)]}
    assert found == dict.fromkeys(names, expected)


@each(("name", "expected"), ROWS["test_a_name_of_several_chips_has_no_single_answer"])
def test_a_name_of_several_chips_has_no_single_answer(name: str, expected: list[str]) -> None:
    assert (sorted(capabilities(name)), MATRIX.gpu(name)) == (expected, None)


@each(("name", "first"), ROWS["test_the_nearest_name_comes_first"].items())
def test_the_nearest_name_comes_first(name: str, first: str) -> None:
    assert MATRIX.gpu_candidates(name)[0].name == first


def test_what_is_no_gpu_of_the_matrix_is_unknown() -> None:
    names = (*ROWS["test_what_is_no_gpu_of_the_matrix_is_unknown"], "4090" * 1000)
    assert [name[:40] for name in names if MATRIX.gpu_candidates(name) or MATRIX.gpu(name)] == []


@each(("name", "nearest"), ROWS["test_a_slip_gets_the_nearest_name"])
def test_a_slip_gets_the_nearest_name(name: str, nearest: str | None) -> None:
    near = MATRIX.nearest_gpus(name)
    assert MATRIX.gpu(name) is None and len(near) <= 3
    assert nearest in near if nearest else near == ()


def test_every_name_finds_itself_first() -> None:
    for name in NAMES:
        for written in (name, f"NVIDIA {name}", f"nvidia {name.lower()} ", f"{name} GPU".upper()):
            assert MATRIX.gpu_candidates(written)[0].name == name, written
        known, found = capabilities(name), capabilities(f"NVIDIA {name} Laptop GPU")
        assert known <= found, name
        assert known == found or not MATRIX.gpu(f"{name} Laptop GPU"), name
        if name.startswith("GeForce "):
            assert known <= capabilities(name.removeprefix("GeForce ")), name


@each("module", [names, machine_facts])
def test_the_examples_in_the_text_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


@each(("text", "card"), ROWS["WRITTEN"].items())
def test_a_sentence_names_an_instance_or_what_only_looks_alike(text: str, card: str | None) -> None:
    found = text_to_facts.read(lines.read([text.encode()]), MATRIX).host.pci_gpus
    if card is None:
        assert not isinstance(found, Known)
        return
    assert isinstance(found, Known) and found.grade == "stated"
    assert [one.name for one in found.value] == ([card] if card else [])


def test_an_instance_stands_for_its_gpu() -> None:
    plan = tfgpu("plan", "--gpu", "g4dn.xlarge", "--format", "json")
    assert json.loads(plan.stdout)["target"]["gpus"][0]["name"] == "Tesla T4"
    refused = tfgpu("plan", "--gpu", "g4ad.xlarge")
    assert refused.returncode == 2
    assert "g4ad.xlarge is an instance type of AWS with AMD Radeon Pro V520, which is no NVIDIA GPU" in refused.stderr


def test_every_pattern_finds_its_own_row() -> None:
    for row in MATRIX.data.instances:
        for pattern in row.names:
            assert MATRIX.instances.find(pattern.replace(".*", ".xlarge").replace("#", "8")) is row


def test_a_name_of_the_machines_own_list_stays() -> None:
    own = PciGpu("0000:01:00.0", "10de:2684", name="AD102 [GeForce RTX 4090]")
    basic = PciGpu("0000:02:00.0", "10de:1b80", name="Microsoft Basic Display Adapter")
    named = machine_facts.named(Known((own, basic, PciGpu("0000:03:00.0", "10de:ffff")), "/sys"), MATRIX)
    assert [gpu.name for gpu in value_or(named, ())] == ["AD102 [GeForce RTX 4090]", "GeForce GTX 1080", None]
    assert machine_facts.named(Unknown("no PCI bus"), MATRIX) == Unknown("no PCI bus")
