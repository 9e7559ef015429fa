"""The derivation of matrix rows, over recorded members of published wheels; nothing leaves this machine."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec import structs

from tests.scripts.wheel_records import ROOT, Client, archive, module, names
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import MatrixFile, ReleaseRow

if not (find_spec("pypi_simple") and find_spec("remotezip")):  # importing them takes every worker half a second
    pytest.skip("dependencies of the script, not of the package", allow_module_level=True)

import natives
import package_index
import refresh_matrix
import wheel_facts

LINUX_2_10 = "tensorflow-2.10.1-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
LINUX_1_12 = "tensorflow_gpu-1.12.2-cp36-cp36m-manylinux1_x86_64.whl"


def read(name: str, *pythons: str) -> tuple[wheel_facts.Wheel, wheel_facts.LibrarySet | None]:
    return wheel_facts.read_wheel(archive(name), name, pythons or (wheel_facts.python_of(name),))


def made(member: str, text: str) -> zipfile.ZipFile:
    """A wheel of 1.0 whose extension module has what the text describes."""
    wheel = zipfile.ZipFile(io.BytesIO(), "w")
    wheel.writestr(f"tensorflow_gpu-1.0.0.data/purelib/tensorflow/python/{member}", module(text))
    wheel.writestr("tensorflow_gpu-1.0.0.dist-info/METADATA", "Name: tensorflow-gpu")
    return wheel


def test_the_toolkit_follows_from_the_ptx_where_no_library_is_named() -> None:
    wheel = made("_pywrap_tensorflow.pyd", "fatbin sass 30 ptx 30 isa 5.0")
    row, libraries = wheel_facts.read_wheel(wheel, "tensorflow_gpu-1.0.0-cp35-cp35m-win_amd64.whl", ["3.5"])
    assert (row.cuda, libraries) == ("8.0", None)


def test_kernels_that_differ_among_each_other_are_refused() -> None:
    text = "fatbin sass 30 ptx 30 isa 5.0\nfatbin sass 35 ptx 35 isa 5.0"
    with pytest.raises(ValueError, match="not all compiled for the same"):
        natives.read_native(made("_pywrap_tensorflow_internal.so", text))


def test_platforms_pythons_and_floors_of_old_file_names() -> None:
    intel = "tensorflow_gpu-1.0.0-cp27-cp27m-macosx_10_11_intel.whl"
    assert wheel_facts.platform_of(intel) == "macos_x86_64"
    assert (wheel_facts.python_of(intel), wheel_facts.floor_of(intel, "macos")) == ("2.7", "10.11")
    assert wheel_facts.floor_of(LINUX_1_12, "glibc") == "2.5"


def test_which_versions_have_rows() -> None:
    releases = ["0.12.1", "1.0.0", "2.20.0rc0", "2.20.0", "2.21.0", "2.22.0rc0", "2.22.0rc1", "2.10.0.dev20220728"]
    assert package_index.wanted(releases) == {"1.0.0", "2.20.0", "2.21.0", "2.22.0rc0", "2.22.0rc1"}
    nightlies = ["2.21.0.dev20260203", "2.23.0.dev20261025", "2.23.0.dev20261026", "2.23.0.dev20260930"]
    assert package_index.wanted(nightlies) == {"2.21.0.dev20260203", "2.23.0.dev20261026"}


def test_recorded_wheels_give_the_rows_of_the_matrix() -> None:
    """GPU and CPU wheels from 1.0 on, for Linux on both processors, Windows and macOS, nightlies, and empty wheels."""
    data = Matrix.load().data
    sets = {one.id: (one.libraries, one.linked) for one in data.libraries}
    assert names()
    for name in names():
        platform = wheel_facts.platform_of(name)
        assert platform is not None
        known = next(wheel for row in data.tensorflow for wheel in row.wheels.values() if wheel.wheel == name)
        row, libraries = read(name, *known.python)
        assert structs.replace(known, libraries=None) == structs.replace(row, libraries=None), name
        assert (libraries and (libraries.libraries, libraries.linked)) == sets.get(known.libraries or ""), name


# ------------------------------------------------------------------------------- the whole script


class Recorded(Client):
    """The recorded wheels."""

    files = names()
    yanked = (LINUX_2_10,)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """The script over that index, with these arguments: its exit code and what it prints."""
    monkeypatch.setattr("pypi_simple.PyPISimple", Recorded)
    monkeypatch.setattr("remotezip.RemoteZip", lambda name, **_: archive(name))
    monkeypatch.setattr(refresh_matrix, "index_url", lambda: "https://index.example/simple")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["refresh_matrix.py", *arguments])
        return refresh_matrix.main(), capsys.readouterr().out

    return run


@pytest.fixture
def hand_written(tmp_path: Path) -> Path:
    """A copy of the matrix without its derived rows and without the issues that speak of them."""
    text = (ROOT / "compat_matrix.yaml").read_text(encoding="utf-8").partition("# ---- derived")[0]
    text, _, issues = text.partition("\nknown_issues:")
    for key in set(re.findall(r"source: ([^\s,}]+)", issues)) - {*re.findall(r"source: ([^\s,}]+)", text), "wheel"}:
        text = re.sub(rf"  {re.escape(key)}:\n(    .*\n)+", "", text)
    file = tmp_path / "compat_matrix.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_script_writes_once_and_check_reports_what_would_change(
    script: Callable[..., tuple[int, str]], hand_written: Path
) -> None:
    before = hand_written.read_text(encoding="utf-8")
    matrix = ("--matrix", str(hand_written))
    code, said = script(*matrix)
    assert code == 0 and "tensorflow 2.15.0 linux_x86_64: added" in said
    written = hand_written.read_text(encoding="utf-8")
    assert written.startswith(before.rstrip())
    assert Matrix.load(str(hand_written)).tensorflow("2.21.0", "linux_x86_64") is not None
    code, said = script(*matrix)
    assert (code, said.splitlines()[0]) == (0, "compat_matrix.yaml is up to date")
    assert hand_written.read_text(encoding="utf-8") == written
    stale = written.replace('cuda: "12.2"', 'cuda: "12.3"')
    hand_written.write_text(stale, encoding="utf-8")
    code, said = script(*matrix, "--check")
    assert code == 1 and 'tensorflow 2.15.0 linux_x86_64 cuda: "12.3" → "12.2"' in said
    assert hand_written.read_text(encoding="utf-8") == stale


def test_one_release_is_printed_and_a_yanked_wheel_keeps_its_reason(script: Callable[..., tuple[int, str]]) -> None:
    lines = script("--only", "2.10.1")[1].splitlines()
    assert lines.count('      yanked: "CVE & others"') == 1  # the Windows wheel of the release is not
    assert lines.count('      numpy: ">=1.20"') == 2
    assert not [line for line in lines if "2.21.0" in line]


def test_what_is_known_of_an_extension_module_is_not_read_again() -> None:
    row, libraries = read(LINUX_1_12)
    assert libraries is not None
    known = MatrixFile(
        schema="tfgpu.matrix/1",
        revision="2026-01-01",
        libraries=(libraries,),
        tensorflow=(ReleaseRow(package="tensorflow-gpu", version="1.12.2", wheels={"linux_x86_64": row}),),
    )
    unreadable = archive(LINUX_1_12)
    unreadable.open = None  # type: ignore[assignment,method-assign]
    unreadable.read = archive(LINUX_1_12).read  # type: ignore[method-assign]
    native = refresh_matrix.known_natives(known)[LINUX_1_12]
    assert wheel_facts.read_wheel(unreadable, LINUX_1_12, row.python, native) == (row, libraries)
