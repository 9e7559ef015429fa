"""What the system lets a process do: its address space, its temporary files. The tests may run as root."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tfgpu_doctor.probes import host
from tfgpu_doctor.probes.tensorflow import TensorFlowProbe
from tfgpu_doctor.records.facts import Known, Limit, TemporaryFolder

_READ = (
    "from tfgpu_doctor.probes.host import address_space_limit as read;"
    "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), resource.RLIM_INFINITY));"
    "print(read().value)"
)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_AS)[1] >= 0, reason="the tests run with a hard limit")
def test_the_limit_of_the_address_space() -> None:
    done = subprocess.run([sys.executable, "-c", _READ, str(2**33)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == f"Limit(soft={2**33}, hard=None)", done.stderr
    assert host.address_space_limit() == Known(Limit(None), "getrlimit(RLIMIT_AS)")


def test_the_limit_that_the_program_of_the_user_sets(tmp_path: Path) -> None:
    """A script that starts Python under a limit is not seen by the doctor's own process."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nulimit -v 6000000\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    with TensorFlowProbe.start(str(script), until="packages") as probe:
        found = probe.result().address_space_limit
    assert isinstance(found, Known) and found.value == Limit(6_000_000 * 1024, 6_000_000 * 1024)
    assert str(script) in found.source


def folder(environ: dict[str, str], root: Path) -> TemporaryFolder:
    found = host.temporary_folder(environ, str(root))
    assert isinstance(found, Known)
    return found.value


def test_the_first_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "file").touch()
    assert folder({"TMPDIR": "/scratch"}, tmp_path).path == "/scratch"
    assert folder({"TMPDIR": "/scratch"}, tmp_path).via == "TMPDIR"
    for other in ("/gone", "/file", ""):
        assert folder({"TMPDIR": other, "TMP": "/scratch"}, tmp_path).via == "TMP"
        assert folder({"TMPDIR": other}, tmp_path).path == "/tmp"
    assert folder({}, tmp_path).problem is None
    assert (folder({}, tmp_path).free or 0) > 0
    assert folder({}, tmp_path / "scratch").problem == "No such file or directory"


def test_a_folder_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(host.os, "access", lambda *_: False)  # root may write everywhere
    assert folder({}, tmp_path).problem == "Permission denied"
