"""What a repair leaves behind: the record and the lock file of the environment; and that it runs alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX, healthy, known
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.install import repair, repair_record
from tfgpu_doctor.install.failures import FolderError
from tfgpu_doctor.install.folder import MARKER, Folder
from tfgpu_doctor.install.records import LOCK, MANIFEST, Manifest
from tfgpu_doctor.install.records import Package as Chosen
from tfgpu_doctor.install.repair import Repaired, Repairing
from tfgpu_doctor.install.resolved import lock_text
from tfgpu_doctor.records.facts import Package

HASHED = (
    Chosen("certifi", "2023.7.22", "certifi-2023.7.22-py3-none-any.whl", 7, ("sha256:aa",)),
    Chosen("numpy", "2.1.3", "numpy-2.1.3.whl", 9, ("sha256:bb",)),
    Chosen("setuptools", "70.0.0", "setuptools-70.0.0.whl", 9, ("sha256:cc",)),
)


class Watching:
    def phase(self, label: str) -> None:
        del label

    def agrees(self, action: object) -> bool:
        raise AssertionError(action)

    def failed(self, error: str) -> None:
        raise AssertionError(error)


def environment(folder: Path) -> Path:
    """What only looks like one."""
    for name in ("bin/python", "pyvenv.cfg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def written(prefix: Path, *packages: Package, **changes: Any) -> tuple[Manifest, str]:
    """The record and the lock file after a repair that has left these packages."""
    facts = healthy()
    facts = msgspec.structs.replace(facts, python=msgspec.structs.replace(facts.python, packages=known(packages)))
    repaired = Repaired((), make_report(facts, MATRIX, source="live", timings={}), None, None)
    repairing: Any = SimpleNamespace(prefix=prefix, python=str(prefix / "bin" / "python"), release=lambda facts: None)
    made = repair_record._new(repairing, repaired)
    made = msgspec.structs.replace(made, **{"packages": HASHED, "requirements": ("tensorflow",), **changes})
    (prefix / MANIFEST).write_bytes(made.to_json())
    repair_record.write(repairing, repaired)
    return msgspec.json.decode((prefix / MANIFEST).read_bytes(), type=Manifest), (prefix / LOCK).read_text()


def at(prefix: Path, name: str, version: str, installer: str = "pip") -> Package:
    return Package(name, version, f"{prefix}/lib/python3.12/site-packages", installer)


def test_the_lock_file_names_what_is_installed_after_the_repair(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("whatever it was\n")
    same = [at(tmp_path, "certifi", "2023.07.22"), at(tmp_path, "setuptools", "70.0.0"), at(tmp_path, "pip", "24.0")]
    manifest, lock = written(tmp_path, *same, at(tmp_path, "numpy", "2.1.3"))
    assert manifest.packages == HASHED  # as they were, with their hashes
    assert lock == lock_text(HASHED, python=manifest.python, platform="linux_x86_64")
    outside = Package("h5py", "3.9.0", "/usr/lib/python3/dist-packages", "pip")
    manifest, lock = written(tmp_path, *same, at(tmp_path, "numpy", "1.26.4"), at(tmp_path, "rich", "15.0.0"), outside)
    assert [one.name for one in manifest.packages] == ["certifi", "numpy", "rich", "setuptools"]
    assert lock.splitlines()[2:] == ["certifi==2023.7.22", "numpy==1.26.4", "rich==15.0.0", "setuptools==70.0.0"]
    assert "--require-hashes" not in lock and manifest.packages[0] == HASHED[0]


def test_a_lock_file_of_conda_names_what_pip_has_brought(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("@EXPLICIT\nhttps://conda.invalid/openssl-3.conda#aa\n")
    of_conda = (Chosen("numpy", "2.1.3"), Chosen("openssl", "3.5.0"))
    here = (at(tmp_path, "keras", "3.10.0", "conda"), at(tmp_path, "numpy", "1.26.4"))
    for _ in range(2):
        manifest, lock = written(tmp_path, *here, method="conda", requirements=(), packages=of_conda)
        assert lock.splitlines()[1:] == [
            "https://conda.invalid/openssl-3.conda#aa",
            "# Then with pip install --no-deps:",
            "#   numpy==1.26.4",
        ]
        versions = {one.name: one.version for one in manifest.packages}
        assert versions == {"keras": "3.10.0", "numpy": "1.26.4", "openssl": "3.5.0"}


def test_no_second_repair_runs_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = environment(tmp_path / "env")
    other = os.fork()
    if other == 0:  # it repairs, and is killed
        held = Repairing(prefix, MATRIX, Watching()).alone()
        held.__enter__()
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(1)
    os.waitpid(other, os.WUNTRACED)
    try:
        done = tfgpu("install", "--repair", "--yes", str(prefix))
        assert (done.returncode, "another tfgpu install --repair is working there" in done.stderr) == (2, True)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    repairing = Repairing(prefix, MATRIX, Watching())
    with repairing.alone(), pytest.raises(FolderError, match="another tfgpu install"), repairing.alone():
        pass
    assert sorted(os.listdir(prefix)) == ["bin", "pyvenv.cfg"]

    def refused(*_: object) -> None:
        raise PermissionError(13, "x")

    monkeypatch.setattr(repair.claims.Claim, "take", refused)  # as in a folder that one may only read
    with repairing.alone():
        pass


def test_no_repair_runs_while_it_is_installed(tmp_path: Path) -> None:
    with Folder(tmp_path / "env"):
        environment(tmp_path / "env")
        with pytest.raises(FolderError, match="another tfgpu install is creating an environment there"):
            Repairing(tmp_path / "env", MATRIX, Watching())
    environment(tmp_path / "env")
    (tmp_path / "env" / MARKER).touch()
    with pytest.raises(FolderError, match="was killed while"):
        Repairing(tmp_path / "env", MATRIX, Watching())
