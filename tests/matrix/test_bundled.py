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


@pytest.mark.parametrize("kind", ["wheel", pytest.param("sdist", marks=pytest.mark.full)])
def test_an_installed_package_finds_its_matrix(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "site"
    run("hatchling", "build", "-t", kind, "-d", str(tmp_path / "dist"), cwd=ROOT)
    (archive,) = (tmp_path / "dist").iterdir()
    if kind == "wheel":
        wheel = zipfile.ZipFile(archive)
        assert json.loads(wheel.read("tfgpu_doctor/compat_matrix.json")) == plain(documents(SOURCE.decode())[0])
        unwanted = re.compile(r"compat_matrix\.yaml$|\.pyc$|__pycache__")
        assert [name for name in wheel.namelist() if unwanted.search(name)] == []
        wheel.extractall(target)
    else:
        pip = ("pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation")
        run(*pip, "--target", str(target), str(archive), cwd=tmp_path)
    ask = f"import sys; sys.path.insert(0, {str(target)!r})\nfrom tfgpu_doctor.matrix.loader import Matrix\n"
    program = tmp_path / "ask.py"
    program.write_text(ask + "m = Matrix.load(); print(m.path, len(m.releases()) > 100)")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={})
    assert done.stdout.strip() == f"{target / 'tfgpu_doctor' / 'compat_matrix.json'} True", done.stderr


def run(*module: str, cwd: Path) -> None:
    subprocess.run([sys.executable, "-m", *module], cwd=cwd, check=True, capture_output=True, timeout=300)


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
    small = ROOT / "tests" / "small_matrix.yaml"
    assert bundled_path() == ROOT / "compat_matrix.yaml"
    monkeypatch.setattr(loader, "bundled_path", lambda: small)
    monkeypatch.setattr(bundled, "COPIES", tmp_path)
    copy, data = bundled.copy_of(small.read_bytes()), parse(small.read_text(encoding="utf-8"), small.name)
    assert Matrix.load().data == data  # there is none
    copy.write_bytes(b'{"schema": "tfgpu.matrix/1", "revision": "2000-01-01"}')
    assert Matrix.load().revision == "2000-01-01"
    for damaged in (b"", b"{", b'{"schema": "tfgpu.matrix/0", "revision": "2000-01-01"}', b"\xff"):
        copy.write_bytes(damaged)
        assert Matrix.load().data == data


def test_a_damaged_wheel_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "compat_matrix.json"
    file.write_bytes(SOURCE[:100])
    for module in (bundled, loader):
        monkeypatch.setattr(module, "IN_WHEEL", file)
    with pytest.raises(MatrixError, match="install tfgpu-doctor again"):
        Matrix.load()
