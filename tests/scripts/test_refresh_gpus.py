"""The derivation of GPUs from NVIDIA's lists, over short ones; nothing leaves this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.wheel_records import ROOT
from tests.tables import read_rows
from tfgpu_doctor.matrix.loader import Matrix, parse

pytest.importorskip("refresh_gpus")  # wheel_records has put the scripts on the path

import gpu_lists
import refresh_gpus
from gpu_lists import Lists, is_card
from refresh_gpus import CHANGELOG, INSTALLER, MANUAL, MODULES, PCI, Derived, devices_section, gpus_section, replaced

DATA = read_rows(Path(__file__).with_suffix(".yaml"))
CHANGES = DATA["CHANGES"]
PRODUCTS = DATA["PRODUCTS"]
TEXT = DATA["TEXT"]
CHIPS = DATA["CHIPS"]


def lists() -> Lists:
    """The names that matter of these branches; the older list of a device id has no name of T1000."""
    manuals = {
        418: {"1EB8": "Tesla T4"},
        440: {"1EB8": ""},
        450: {"1EB8": "Tesla T4", "1FB0_10DE_1485": "DGX Display", "20B2_10DE_1463": "A100-SXM4-80GB"},
        460: {"1EB8": "Tesla T4", "1FB0_1028_1489": "T1000"},
        470: {"1EB8": "Tesla T4", "1FB0_1028_1489": "T1000", "20F2_10DE_1584": "A100-PG506-217"},
    }
    modules = {515: {"2238_10DE_15E9": "A10M", "2233_1028_165A": "RTX A5500", "1EB8_10DE_1367": "GRID RTX T4-4"}}
    added = {"A100-SXM4-80GB": 450, "Tesla T4": 410, "RTX A5500": 510}
    return Lists(added, {410, 418, 440, 450, 455, 460, 465, 470, 495, 510}, manuals, modules, {}, CHIPS, [])


def test_a_changelog_says_since_which_branch() -> None:
    released: set[int] = set()
    assert list(gpu_lists._changelog(CHANGES, released)) == [("A100-SXM4-80GB", 450), ("TITAN V", 387)]
    assert released == {450, 387}


def test_a_readme_lists_what_its_driver_has_not_dropped() -> None:
    assert dict(gpu_lists._manual(PRODUCTS)) == {"20B2_10DE_1463": "A100-SXM4-80GB", "1EB8": "Tesla T4"}


def test_cards() -> None:
    names = ("A100-SXM4-80GB", "PG506-232", "P106-090", "CMP 100-210", "TITAN V")
    others = ("A100-1-5C", "GRID RTX T10-4", "GeForce RTX T10x-8", "H100XM-80C", "(null)", "GPU 27B8-172F", "")
    assert [name for name in (*names, *others) if is_card(name)] == list(names)


def test_branches_of_names() -> None:
    rows = {row.name: row for row in Derived(lists(), parse(TEXT, "text")).names()}
    found = {name: (row.first, row.driver_source) for name, row in rows.items()}
    assert found == {
        "A100-SXM4-80GB": ("450", CHANGELOG),
        "A100": ("465", "table"),  # entered by hand, and in no list
        "A10M": ("495", "table"),  # 515 is the first list that has it, 470 the last that has not
        "RTX A5500": ("510", CHANGELOG),
        "Tesla T4": ("410", CHANGELOG),
        "T1000": ("450", MANUAL),  # its device id, by another name
        "A100-PG506-217": (None, None),  # 465 may have had it
    }
    assert (rows["A100-PG506-217"].capability, rows["A100-PG506-217"].source) == ("8.0", MANUAL)


def test_devices_have_the_commonest_name_of_their_chip() -> None:
    derived = Derived(lists(), parse(TEXT, "text"))
    assert derived.pci_devices(derived.names()) == {
        ("7.5", MANUAL): {"Tesla T4": ["1eb8"], "T1000": ["1fb0"]},
        ("8.0", MANUAL): {"A100-SXM4-80GB": ["20b2"], "A100-PG506-217": ["20f2"]},
        ("8.6", MODULES): {"A10M": ["2238"], "RTX A5500": ["2233"]},
    }


def test_a_refresh_changes_both_sections_alone_and_a_second_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Matrix, "check", lambda _: None)  # of the sources, which this text does not have
    file = tmp_path / "matrix.yaml"
    file.write_text(TEXT, encoding="utf-8")
    assert refresh_gpus.refresh(file, lists(), write=False) == 1
    assert file.read_text(encoding="utf-8") == TEXT
    assert refresh_gpus.refresh(file, lists(), write=True) == 0
    after = file.read_text(encoding="utf-8")
    assert after.partition("gpus:")[0] == TEXT.partition("gpus:")[0]
    assert "\n\n# another\npci_devices:\n" in after and after.endswith("\n\ncuda: []\n")
    assert refresh_gpus.refresh(file, lists(), write=False) == 0
    said = capsys.readouterr().out
    assert "A100-SXM4-80GB (8.0): driver 465 to its architecture’s → 450 to its architecture’s" in said
    assert "A100-PG506-217: new, compute capability 8.0, from driver unknown" in said


def test_our_sections_are_in_the_form_of_the_script() -> None:
    text = (ROOT / "compat_matrix.yaml").read_text(encoding="utf-8")
    derived = Derived(Lists({}, set(), {}, {}, {}, {}, []), parse(text, "text"))
    assert replaced(text, gpus_section(derived.rows)) == text
    devices = {
        (row.compute_capability, row.source): {name: ids.split() for name, ids in row.devices.items()}
        for row in parse(text, "text").pci_devices
    }
    assert replaced(text, devices_section(devices)) == text
    assert {source for _, source in devices} <= {MODULES, INSTALLER, MANUAL, PCI}
