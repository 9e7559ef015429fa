"""PCI device ids: a card without a driver has its name, and its chip."""

from __future__ import annotations

import doctest
from pathlib import Path

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known, PciGpu, Unknown, value_or
from tfgpu_doctor.parsers import machine_facts
from tfgpu_doctor.probes import host

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def test_the_samples_in_the_docstrings() -> None:
    assert doctest.testmod(machine_facts).failed == 0


def test_every_device_is_of_a_known_gpu_with_that_chip() -> None:
    known = {(name, row.compute_capability) for row in MATRIX.data.gpus for name in row.names}
    devices = {(name, row.compute_capability) for row in MATRIX.data.pci_devices for name in row.devices}
    assert devices <= known
    assert sum(len(ids.split()) for row in MATRIX.data.pci_devices for ids in row.devices.values()) > 600


@each(("device", "name", "capability"), ROWS["test_a_device_id_names_the_card_and_its_chip"])
def test_a_device_id_names_the_card_and_its_chip(device: str, name: str, capability: str) -> None:
    gpu = MATRIX.gpu_of_device(device)
    assert gpu is not None and (gpu.name, gpu.compute_capability) == (name, capability)


@each("device", ["10de:ffff", "1002:2684", "10de", "", "2684", "10de:22ba"])
def test_other_devices_have_no_name(device: str) -> None:
    assert MATRIX.gpu_of_device(device) is None


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
    newer = PciGpu("0000:03:00.0", "10de:ffff")
    named = machine_facts.named(Known((own, basic, newer), "/sys"), MATRIX)
    assert [gpu.name for gpu in value_or(named, ())] == ["AD102 [GeForce RTX 4090]", "GeForce GTX 1080", None]
    assert machine_facts.named(Unknown("no PCI bus"), MATRIX) == Unknown("no PCI bus")
