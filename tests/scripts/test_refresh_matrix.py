"""The derivation of TensorFlow's rows, of what packages require and of the log's lines; all stays on this machine."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from packaging.version import Version

from tests.scripts.wheel_records import ROOT, Client, archive, module, names
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PLATFORMS, MatrixFile, ReleaseRow
from tfgpu_doctor.parsers.remaining_releases import by_series

if not (find_spec("pypi_simple") and find_spec("remotezip")):  # importing them takes every worker half a second
    pytest.skip("dependencies of the script, not of the package", allow_module_level=True)

import natives
import package_index
import pypi_simple
import refresh_log_lines
import refresh_matrix
import refresh_packages
import wheel_facts
from refresh_log_lines import BEGIN, END, WHEELS, merged, print_and_read, with_reports
from refresh_log_lines import render as render_lines
from refresh_packages import platforms_of, published, pythons_of, requires, row_of, spans
from sections import Section

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


# ------------------------------------------------------------------------------- what packages require

LINUX = "manylinux_2_17_x86_64.manylinux2014_x86_64"
TEXTS = [
    f"tensorflow_text-2.18.0-cp39-cp39-{LINUX}.whl",
    f"tensorflow_text-2.18.0-cp311-cp311-{LINUX}.whl",
    "tensorflow_text-2.18.0-cp311-cp311-macosx_11_0_arm64.whl",
    f"tensorflow_text-1.15.0-cp27-cp27mu-{LINUX}.whl",
]
KERAS = [f"keras-{version}-py3-none-any.whl" for version in ("2.15.0", "3.0.0", "3.1.0rc1")]
REQUIRES = {
    "keras-3": "Requires-Dist: numpy\nRequires-Dist: absl-py>=1.0\nRequires-Dist: rich\n"
    "Requires-Dist: h5py; extra == 'io'\n",
    "keras-2": "",
    "tensorflow_text": "Requires-Dist: tensorflow<2.19,>=2.18.0; platform_machine != 'arm64'\n",
}


class Index(Client):
    """An index of these packages; the second answer is the good one, as on a busy network."""

    files = (*KERAS, *TEXTS, "keras-4.0.tar.gz")
    failing = True

    def get_package_metadata(self, file: Any, verify: bool) -> str:
        if self.failing:
            self.failing = False
            raise OSError("a busy network")
        return next(text for name, text in REQUIRES.items() if file.filename.startswith(name))


def test_the_rows_of_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypi_simple.PyPISimple", Index)
    monkeypatch.setattr(refresh_packages, "index_url", lambda: "https://index.example/simple")
    monkeypatch.setattr(refresh_packages.time, "sleep", lambda _: None)
    rows = {row.package: row for row in refresh_packages.derive()}
    keras, text = rows["keras"], rows["tensorflow-text"]
    assert [(one.versions, one.python, one.wheels, one.platforms) for one in keras.releases] == [
        (("3.0.0",), ">=3.9", (), ()),
        (("2.15.0",), None, (), ()),
    ]
    assert keras.requires == {"absl-py>=1.0": "3.0.0"}  # numpy without bounds, rich, an extra for developers: none
    assert [(one.versions, one.wheels, one.platforms) for one in text.releases] == [
        (("2.18.0",), ("3.11",), ("macos_arm64",)),
        (("2.18.0",), ("3.9", "3.11"), ("linux_x86_64",)),
    ]
    assert text.requires == {'tensorflow<2.19,>=2.18.0; platform_machine != "arm64"': "2.18.0"}


def test_a_yanked_release_is_one_all_of_whose_wheels_are() -> None:
    client: Any = Index()
    client.yanked = (TEXTS[0], TEXTS[2], KERAS[0])
    found = {(one.version, one.platform): one.yanked for one in published(client, "tensorflow-text")}
    assert found == {("2.18.0", "linux_x86_64"): False, ("2.18.0", "macos_arm64"): True}
    assert {one.version for one in published(client, "keras") if one.yanked} == {"2.15.0"}


def test_without_metadata_on_the_index_the_wheel_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = "tensorflow-2.16.1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"

    class Bare(Client):
        def get_package_metadata(self, file: Any, verify: bool) -> str:
            raise pypi_simple.NoMetadataError(wheel, wheel)

    monkeypatch.setattr("remotezip.RemoteZip", lambda url, **_: archive(url))
    client: Any = Bare()
    assert "keras>=3.0.0" in requires("tensorflow", refresh_packages.metadata(client, client.file(wheel)))


def test_platforms_and_pythons_of_file_names() -> None:
    assert platforms_of("keras-3.0.0-py3-none-any.whl") == PLATFORMS
    assert platforms_of("h5py-3.8.0-cp311-cp311-macosx_10_9_universal2.whl") == ("macos_arm64", "macos_x86_64")
    assert platforms_of("numpy-2.0.0-pp310-pypy310_pp73-musllinux_1_1_x86_64.whl") in ((), ("linux_x86_64",))
    assert pythons_of("keras-3.0.0-py3-none-any.whl") == frozenset(refresh_packages.PYTHONS)
    assert pythons_of("numpy-2.1.0-cp313-cp313t-win_amd64.whl") == frozenset()  # free-threaded
    assert pythons_of("numpy-1.16.0-cp27-cp27m-win_amd64.whl") == frozenset()
    later = pythons_of(f"protobuf-5.28.3-cp310-abi3-{LINUX}.whl")  # the stable ABI
    assert min(later, key=Version) == "3.10" and "3.13" in later


def test_requirements_do_not_depend_on_how_they_are_written() -> None:
    old = "Requires-Dist: Keras (<2.16,>=2.15.0)\nRequires-Dist: grpcio (>=1.0<2)\n"
    assert requires("tensorflow", old) == requires("tensorflow", "Requires-Dist: keras>=2.15.0,<2.16\n")
    extra = (
        'Requires-Dist: nvidia-cublas-cu12==12.5.3.2; extra == "and-cuda"\nRequires-Dist: numpy>1; extra == "test"\n'
    )
    assert requires("tensorflow", extra) == ('nvidia-cublas-cu12==12.5.3.2; extra == "and-cuda"',)
    assert requires("tensorflow-text", "Requires-Dist: tensorflow\n") == ("tensorflow",)


def test_versions_are_runs() -> None:
    assert spans(["1.0", "1.1", "2.1", "1.2"], ["1.0", "1.1", "1.2", "2.0", "2.1"]) == "1.0..1.2 2.1"
    required = {"1.0": ("numpy>=1",), "1.1": ("numpy>=1",), "2.0": (), "2.1": ("numpy>=1",)}
    assert row_of("keras", [], required).requires == {"numpy>=1": "1.0..1.1 2.1"}


def test_the_rows_of_the_matrix_are_in_the_form_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_packages, "derive", lambda: list(Matrix.load().data.packages))
    monkeypatch.setattr(sys, "argv", ["refresh_packages.py", "--check"])
    assert refresh_packages.main() == 0


def test_what_is_installed_here_requires_what_the_matrix_says() -> None:
    """METADATA of real packages: those of the interpreter that runs the tests, as far as the matrix has the release."""
    table = {row.package: row for row in Matrix.load().data.packages}
    versions = {one.metadata["Name"].lower(): one.version for one in metadata.distributions()}
    seen = 0
    for package in refresh_packages.PACKAGES:
        order = sorted({one for group in table[package].releases for one in group.versions}, key=Version)
        if (here := versions.get(package)) not in order:
            continue  # not installed, or newer than the matrix
        found = requires(package, metadata.distribution(package).read_text("METADATA") or "")
        for text, runs in table[package].requires.items():
            ends = [[order.index(end) for end in run.split("..")] for run in runs.split()]
            assert any(end[0] <= order.index(here) <= end[-1] for end in ends) is (text in found), (package, text)
        assert set(found) <= table[package].requires.keys(), package
        seen += 1
    assert seen >= 3  # numpy, protobuf, keras


# ------------------------------------------------------------------------------- lines of the log

OLD, NEW = (next(one for one in WHEELS if one.version == version) for version in ("2.10.1", "2.16.2"))
GUARD = "2026-11-23 01:54:14.1: I tensorflow/core/platform/cpu_feature_guard.cc:{}] This TensorFlow binary is optimized"
SAME = "2026-11-23 01:54:14.2: I x/cuda_diagnostics.cc:156] kernel driver does not appear to be running on this host"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for wheel, line in ((OLD, 193), (NEW, 210)):
        (tmp_path / wheel.log).mkdir()
        (tmp_path / wheel.log / "plain.txt").write_text(f"{GUARD.format(line)} with\n{SAME}\nnothing.cc] x\n")
        (tmp_path / wheel.log / "done").touch()
    return tmp_path


def test_messages_that_tell_releases_apart_are_entered_with_other_patches_of_reports(logs: Path) -> None:
    rows = merged((), print_and_read(logs, (OLD, NEW)), set())
    assert [(row.file, row.lines) for row in rows] == [("cpu_feature_guard.cc", {"193": "2.10.1", "210": "2.16.2"})]
    key = rows[0].message
    (row,) = with_reports(rows, [("a", "2.10.0", {("cpu_feature_guard.cc", 192, key)})])
    assert by_series(row) == {(2, 10): {192, 193}, (2, 16): {210}}
    assert with_reports(rows, [("b", "2.10.1", {("cpu_feature_guard.cc", 210, key)})]) == rows, "a contradiction"
    (logs / OLD.log / "plain.txt").write_text(GUARD.format(194))
    again = merged(rows, print_and_read(logs, (OLD,)), {"2.10.1"})
    assert [row.lines for row in again] == [{"194": "2.10.1", "210": "2.16.2"}], "a wheel that is read again"


def test_the_log_lines_of_the_matrix_are_in_the_form_of_the_script() -> None:
    section = Section(ROOT / "compat_matrix.yaml", BEGIN, END)
    assert section.whole(render_lines(Matrix.load().data.log_lines)) == section.text


def test_every_wheel_that_is_run_has_a_row_and_check_writes_nothing(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {one.version for one in WHEELS} <= {row.version for row in Matrix.load().data.tensorflow}
    matrix = tmp_path / "matrix.yaml"
    matrix.write_bytes((ROOT / "compat_matrix.yaml").read_bytes())
    before = matrix.read_text(encoding="utf-8")
    few = tmp_path / "reports.jsonl"
    few.write_text("".join(refresh_log_lines.REPORTS.read_text(encoding="utf-8").splitlines(keepends=True)[::100]))
    monkeypatch.setattr(refresh_log_lines, "REPORTS", few)
    asked = [OLD.requirement, "--logs", str(logs), "--matrix", str(matrix)]
    monkeypatch.setattr("sys.argv", ["x", *asked, "--check"])
    assert refresh_log_lines.main() == 1  # these logs have one message
    assert matrix.read_text(encoding="utf-8") == before
