"""scripts/refresh.py over made-up scripts: what would change, what is written; and the lists of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.scripts.wheel_records import ROOT
from tests.tables import each, read_rows
from tfgpu_doctor.matrix.loader import Matrix, parse

pytest.importorskip("refresh_gpus")  # wheel_records has put the scripts on the path

import gpu_lists
import refresh
import refresh_gpus
from gpu_lists import Lists, is_card
from refresh_gpus import INSTALLER, MANUAL, MODULES, PCI, Derived, devices_section, gpus_section, replaced

DATA = read_rows(Path(__file__).with_suffix(".yaml"))
MATRIX = DATA["MATRIX"]
ADDS = 'text = text.replace(\'- {version: "12.5"}\', \'- {version: "12.6"}\\n- {version: "12.5"}\')'
RENAMES = "text = text.replace('T4', 'A100')"


def script(folder: Path, name: str, change: str = "pass", end: str = "") -> None:
    """A script that changes the file that --matrix names."""
    (folder / f"refresh_{name}.py").write_text(
        "import sys, pathlib\nfile = pathlib.Path(sys.argv[sys.argv.index('--matrix') + 1])\n"
        f"text = file.read_text()\n{change}\nfile.write_text(text)\n{end}\n"
    )


def matrix(folder: Path) -> Path:
    (folder / "matrix.yaml").write_text(MATRIX)
    return folder / "matrix.yaml"


def call(file: Path, *arguments: str) -> int:
    return int(refresh.main(["--matrix", str(file), *arguments], file.parent))


def test_check_says_which_table_would_change_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = matrix(tmp_path)
    script(tmp_path, "packages")
    script(tmp_path, "matrix", ADDS)
    before = sorted(tmp_path.iterdir())
    assert call(file, "--check") == 1
    assert capsys.readouterr().out.splitlines() == ["refresh_matrix.py: changes cuda", "refresh_packages.py: no change"]
    assert file.read_text() == MATRIX and sorted(tmp_path.iterdir()) == before


def test_what_is_written_is_dated_and_each_script_goes_on_from_the_one_before(tmp_path: Path) -> None:
    file = matrix(tmp_path)
    script(tmp_path, "gpus", RENAMES)
    script(tmp_path, "matrix", ADDS)
    assert call(file) == 1
    found = yaml.safe_load(file.read_text())
    assert (found["gpus"], [row["version"] for row in found["cuda"]]) == ([{"names": ["A100"]}], ["12.6", "12.5"])
    assert found["revision"] == found["updated"]["cuda"] == found["updated"]["gpus"] != "2026-01-01"
    assert call(file, "--only", "gpus") == 0


@each("end", ["sys.exit('no route to host')", "raise OSError('no route to host')"])
def test_a_source_that_cannot_be_reached_is_named_and_stops_no_other(
    tmp_path: Path, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = matrix(tmp_path)
    script(tmp_path, "gpus", RENAMES, end)
    assert call(file) == 2
    assert file.read_text() == MATRIX, "what a script that failed has written is dropped"
    script(tmp_path, "matrix", ADDS)
    assert call(file) == 1 and "T4" in file.read_text()
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.startswith("refresh_gpus.py: could not be reached or read: ") and "no route to host" in first
    assert second == "refresh_matrix.py: changes cuda"


def test_a_script_that_hangs_is_stopped(tmp_path: Path) -> None:
    file = matrix(tmp_path)
    script(tmp_path, "gpus", RENAMES, "import time; time.sleep(600)")
    outcome = refresh.run(tmp_path / "refresh_gpus.py", file, 0.3)
    assert outcome.failure == "no answer within 0.3 s" and file.read_text() == MATRIX


def test_a_script_gets_the_options_that_it_knows(tmp_path: Path) -> None:
    script(tmp_path, "gpus", 'known = "--modules"')
    found = refresh.known_to(tmp_path / "refresh_gpus.py", ["--other", "x", "--modules", "a clone", "--modulesx=1"])
    assert found == ["--modules", "a clone"]
    assert refresh.changed(MATRIX, MATRIX.replace("A comment", "Another one")) == (), "comments are no change"


def test_every_script_of_a_table_is_found() -> None:
    """Each takes --matrix, and names the tables that it writes by their sections."""
    found = refresh.scripts(ROOT / "scripts")
    assert {"refresh_matrix.py", "refresh_packages.py"} <= {one.name for one in found}
    assert all("--matrix" in one.read_text() for one in found)
    text = (ROOT / "compat_matrix.yaml").read_text()
    assert refresh.sections(text).keys() == yaml.load(text, yaml.CSafeLoader)["updated"].keys()


# ------------------------------------------------------------------------------- GPUs, from short lists


def test_a_changelog_says_since_which_branch() -> None:
    released: set[int] = set()
    assert list(gpu_lists._changelog(DATA["CHANGES"], released)) == [("A100-SXM4-80GB", 450), ("TITAN V", 387)]
    assert released == {450, 387}


def test_a_readme_lists_what_its_driver_has_not_dropped() -> None:
    assert dict(gpu_lists._manual(DATA["PRODUCTS"])) == {"20B2_10DE_1463": "A100-SXM4-80GB", "1EB8": "Tesla T4"}


def test_cards() -> None:
    names = ("A100-SXM4-80GB", "PG506-232", "P106-090", "CMP 100-210", "TITAN V")
    others = ("A100-1-5C", "GRID RTX T10-4", "GeForce RTX T10x-8", "H100XM-80C", "(null)", "GPU 27B8-172F", "")
    assert [name for name in (*names, *others) if is_card(name)] == list(names)


def test_a_refresh_writes_branches_and_devices_and_a_second_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Matrix, "check", lambda _: None)  # of the sources, which this text does not have
    found = DATA["LISTS"]
    lists = Lists(**{"dropped": {}, "chips": DATA["CHIPS"], **found, "released": {*found["released"]}})
    file = tmp_path / "matrix.yaml"
    file.write_text(DATA["TEXT"], encoding="utf-8")
    assert refresh_gpus.refresh(file, lists, write=False) == 1
    assert file.read_text(encoding="utf-8") == DATA["TEXT"]
    capsys.readouterr()
    assert refresh_gpus.refresh(file, lists, write=True) == 0
    assert capsys.readouterr().out == DATA["SAID"]
    assert file.read_text(encoding="utf-8") == DATA["AFTER"]
    assert refresh_gpus.refresh(file, lists, write=False) == 0


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
