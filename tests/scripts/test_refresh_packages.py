"""The derivation of what packages require, over a recorded index; nothing leaves this machine."""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import pytest
from packaging.version import Version

from tests.scripts.wheel_records import Client, archive
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PLATFORMS

if not (find_spec("pypi_simple") and find_spec("remotezip")):  # importing them takes every worker half a second
    pytest.skip("dependencies of the script, not of the package", allow_module_level=True)

import pypi_simple
import refresh_packages
from refresh_packages import platforms_of, published, pythons_of, requires, row_of, spans

LINUX = "manylinux_2_17_x86_64.manylinux2014_x86_64"
TEXT = [
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

    files = (*KERAS, *TEXT)
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
    client.yanked = (TEXT[0], TEXT[2], KERAS[0])
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
    order = ["1.0", "1.1", "1.2", "2.0", "2.1"]
    assert spans(["1.0", "1.1", "2.1", "1.2"], order) == "1.0..1.2 2.1"
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
