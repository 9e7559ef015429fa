"""The matrix in a wheel, in a source tree, and its copy that is ready to decode."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import build_matrix
from tfgpu_doctor.facts.yaml_nodes import documents, plain
from tfgpu_doctor.matrix import bundled, loader
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, bundled_path, parse

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "compat_matrix.yaml").read_bytes()

ASK = "from tfgpu_doctor.matrix.loader import Matrix; m = Matrix.load(); print(m.path, len(m.releases()) > 100)"


def built(tmp_path: Path, source: Path, kind: str) -> Path:
    hatch = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path)]
    subprocess.run(hatch, cwd=source, check=True, capture_output=True, timeout=120)
    (made,) = tmp_path.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def installed(tmp_path: Path, archive: Path) -> Path:
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(archive)], check=True, capture_output=True, timeout=300)
    return target


def asked(target: Path, tmp_path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {ASK}"],
        cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60, env={},
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize("kind", ["wheel", pytest.param("sdist", marks=pytest.mark.full)])
def test_an_installed_package_finds_its_matrix(tmp_path: Path, kind: str) -> None:
    archive = built(tmp_path / "dist", ROOT, kind)
    if kind == "wheel":
        wheel = zipfile.ZipFile(archive)
        assert json.loads(wheel.read("tfgpu_doctor/compat_matrix.json")) == plain(documents(SOURCE.decode())[0])
        unwanted = re.compile(r"compat_matrix\.yaml$|\.pyc$|__pycache__")
        assert [name for name in wheel.namelist() if unwanted.search(name)] == []
    target = installed(tmp_path, archive)
    assert asked(target, tmp_path) == f"{target / 'tfgpu_doctor' / 'compat_matrix.json'} True"


def test_a_source_tree_reads_its_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bundled_path() == ROOT / "compat_matrix.yaml"
    monkeypatch.setattr(bundled, "COPIES", tmp_path)
    assert Matrix.load().data == parse(SOURCE.decode(), "the YAML")


def test_the_copy_is_the_yaml_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "COPIES", tmp_path / "made")
    monkeypatch.setattr(build_matrix, "SOURCE", tmp_path / "matrix.yaml")
    for text in (b"schema: [1, 2.10, no]", b'a: {"1": null, b: "2.10"}'):
        build_matrix.SOURCE.write_bytes(text)
        build_matrix.write_copy()
        (made,) = (tmp_path / "made").iterdir()  # that of an earlier text is gone
        assert json.loads(made.read_bytes()) == plain(documents(text.decode())[0])
        assert made == bundled.copy_of(text)
    assert not bundled.copy_of(b"another text").exists()


def test_a_copy_is_read_instead_of_its_yaml_and_a_damaged_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "COPIES", tmp_path)
    copy = bundled.copy_of(SOURCE)
    copy.write_bytes(b'{"schema": "tfgpu.matrix/1", "revision": "2000-01-01"}')
    assert Matrix.load().revision == "2000-01-01"
    for damaged in (b"", b"{", b'{"schema": "tfgpu.matrix/0", "revision": "2000-01-01"}', b"\xff"):
        copy.write_bytes(damaged)
        assert Matrix.load().revision > "2026"


def test_a_damaged_wheel_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "compat_matrix.json"
    file.write_bytes(SOURCE[:100])
    for module in (bundled, loader):
        monkeypatch.setattr(module, "IN_WHEEL", file)
    with pytest.raises(MatrixError, match="install tfgpu-doctor again"):
        Matrix.load()
