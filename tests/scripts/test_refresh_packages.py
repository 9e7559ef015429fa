"""The derivation of what packages require, over a recorded index; nothing leaves this machine."""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from tests.scripts.wheel_records import ROOT, archive
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import PLATFORMS, PackageRow

if not (find_spec("pypi_simple") and find_spec("remotezip")):  # importing them takes every worker half a second
    pytest.skip("dependencies of the script, not of the package", allow_module_level=True)

import refresh_packages
from refresh_packages import platforms_of, published, pythons_of, requires, row_of, spans

LINUX = "manylinux_2_17_x86_64.manylinux2014_x86_64"
# version → names of files, as on the index
KERAS = {
    "2.15.0": ["keras-2.15.0-py3-none-any.whl"],
    "3.0.0": ["keras-3.0.0-py3-none-any.whl"],
    "3.1.0rc1": ["keras-3.1.0rc1-py3-none-any.whl"],
}
TEXT = {
    "2.18.0": [
        f"tensorflow_text-2.18.0-cp39-cp39-{LINUX}.whl",
        f"tensorflow_text-2.18.0-cp311-cp311-{LINUX}.whl",
        "tensorflow_text-2.18.0-cp311-cp311-macosx_11_0_arm64.whl",
    ],
    "1.15.0": [f"tensorflow_text-1.15.0-cp27-cp27mu-{LINUX}.whl"],
}
REQUIRES = {
    "keras-3": "Requires-Dist: numpy\nRequires-Dist: absl-py>=1.0\nRequires-Dist: rich\n"
    "Requires-Dist: h5py; extra == 'io'\n",
    "keras-2": "",
    "tensorflow_text": "Requires-Dist: tensorflow<2.19,>=2.18.0; platform_machine != 'arm64'\n",
}


class Client:
    """An index of the packages above; the second answer is the good one, as on a busy network."""

    def __init__(self, *_: object) -> None:
        self.failing = True
        self.yanked: set[str] = set()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None: ...

    def get_project_page(self, package: str) -> Any:
        releases = {"keras": KERAS, "tensorflow-text": TEXT}.get(package, {})
        files = [self.file(version, name) for version, names in releases.items() for name in names]
        return SimpleNamespace(packages=[*files, SimpleNamespace(package_type="sdist", version="9.0")])

    def file(self, version: str, name: str) -> Any:
        python = ">=3.9" if version.startswith("3") else None
        return SimpleNamespace(
            filename=name,
            version=version,
            package_type="wheel",
            requires_python=python,
            is_yanked=name in self.yanked,
            has_metadata=True,
            url=f"https://files.example/{name}",
        )

    def get_package_metadata(self, file: Any, verify: bool) -> str:
        if self.failing:
            self.failing = False
            raise OSError("a busy network")
        return next(text for name, text in REQUIRES.items() if file.filename.startswith(name))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded index in place of that of pip."""
    monkeypatch.setattr("pypi_simple.PyPISimple", Client)
    monkeypatch.setattr(refresh_packages, "index_url", lambda: "https://index.example/simple")
    monkeypatch.setattr(refresh_packages.time, "sleep", lambda _: None)


def rows(monkeypatch: pytest.MonkeyPatch, *packages: str) -> list[PackageRow]:
    monkeypatch.setattr(refresh_packages, "PACKAGES", packages)
    monkeypatch.setattr(refresh_packages, "requires", lambda package, text: all_of(package, text))
    return refresh_packages.derive()


KNOWN = refresh_packages.PACKAGES


def all_of(package: str, text: str, before: Any = requires) -> tuple[str, ...]:
    """The requirements on what the real table has, although a test derives two rows of it."""
    narrow, refresh_packages.PACKAGES = refresh_packages.PACKAGES, KNOWN
    try:
        found: tuple[str, ...] = before(package, text)
        return found
    finally:
        refresh_packages.PACKAGES = narrow


def test_the_rows_of_an_index(index: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keras, text = rows(monkeypatch, "keras", "tensorflow-text")
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
    client = Client()
    client.yanked = {TEXT["2.18.0"][0], TEXT["2.18.0"][2], KERAS["2.15.0"][0]}
    found = {(one.version, one.platform): one.yanked for one in published(client, "tensorflow-text")}  # type: ignore[arg-type]
    assert found == {("2.18.0", "linux_x86_64"): False, ("2.18.0", "macos_arm64"): True}
    assert {one.version for one in published(client, "keras") if one.yanked} == {"2.15.0"}  # type: ignore[arg-type]


def test_without_metadata_on_the_index_the_wheel_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import pypi_simple
    import remotezip

    wheel = "tensorflow-2.16.1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    opened = []

    def none(*_: object, **__: object) -> str:
        raise pypi_simple.NoMetadataError(wheel, wheel)

    def remote(url: str, **_: object) -> Any:
        opened.append(url)
        return archive(wheel)

    monkeypatch.setattr(remotezip, "RemoteZip", remote)
    client = SimpleNamespace(get_package_metadata=none)
    text = refresh_packages.metadata(client, Client().file("2.16.1", wheel))  # type: ignore[arg-type]
    assert opened == [f"https://files.example/{wheel}"]
    assert "keras>=3.0.0" in requires("tensorflow", text)


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


def test_the_script_writes_once_and_then_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of the matrix; a package of another name makes the file out of date."""

    def script(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["refresh_packages.py", "--matrix", str(file), *arguments])
        return refresh_packages.main()

    file, bundled = tmp_path / "compat_matrix.yaml", Matrix.load().data.packages
    monkeypatch.setattr(refresh_packages, "derive", lambda: list(bundled))
    before = (ROOT / "compat_matrix.yaml").read_text(encoding="utf-8")
    stale = before.replace(f"- package: {bundled[-1].package}\n", "- package: another\n")
    file.write_text(stale, encoding="utf-8")
    assert script("--check") == 1
    assert file.read_text(encoding="utf-8") == stale
    assert script() == 0
    assert file.read_text(encoding="utf-8") == before
    capsys.readouterr()
    assert script("--check") == 0
    assert "is up to date" in capsys.readouterr().out


def test_what_is_installed_here_requires_what_the_matrix_says() -> None:
    """METADATA of real packages: those of the interpreter that runs the tests, as far as the matrix has the release."""
    table = {row.package: row for row in Matrix.load().data.packages}
    versions = {one.metadata["Name"].lower(): one.version for one in metadata.distributions()}
    seen = 0
    for package in KNOWN:
        order = sorted({one for group in table[package].releases for one in group.versions}, key=Version)
        if (here := versions.get(package)) not in order:
            continue  # not installed, or newer than the matrix
        runs = {text: [run.split("..") for run in all_.split()] for text, all_ in table[package].requires.items()}
        at = order.index(here)
        said = {
            text
            for text, several in runs.items()
            if any(order.index(run[0]) <= at <= order.index(run[-1]) for run in several)
        }
        assert set(requires(package, metadata.distribution(package).read_text("METADATA") or "")) == said, package
        seen += 1
    assert seen >= 3  # numpy, protobuf, keras
