"""A matrix of the user's over the bundled one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import build_matrix
from tests.cli.runner import tfgpu
from tests.guard import guarded
from tests.healthy import MATRIX, healthy
from tests.tables import each
from tfgpu_doctor.facts.yaml_nodes import documents, plain
from tfgpu_doctor.matrix import bundled, loader
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, bundled_path, parse
from tfgpu_doctor.plan.diagnosis import make_report

HEAD = 'schema: tfgpu.matrix/1\nrevision: "2026-11-30"\nsources:\n  ours: {title: wheels of our cluster}\n'
BUILD = """tensorflow:
- package: tensorflow
  version: "2.17.0+nv25.2"
  source: ours
  wheels:
    linux_x86_64: {python: ["3.12"], cuda: "12.8", cudnn: "9.7", sass: ["12.0", "9.0"]}
"""


def layer(tmp_path: Path, text: str, name: str = "ours.yaml") -> str:
    file = tmp_path / name
    file.write_text(HEAD + text, encoding="utf-8")
    return str(file)


def test_a_build_of_our_own_stands_beside_the_published_ones(tmp_path: Path) -> None:
    matrix = Matrix.load(layer(tmp_path, BUILD))
    own = matrix.tensorflow("2.17.0+nv25.2", "linux_x86_64")
    assert own is not None and (own.version, own.cuda, own.sass) == ("2.17.0+nv25.2", "12.8", ("9.0", "12.0"))
    assert own.sources["cuda"] == "wheels of our cluster"
    assert own.min_driver_linux == "525.60.13"  # from our own table of toolkits
    published = matrix.tensorflow("2.17.0", "linux_x86_64")
    assert published is not None and published.cuda == "12.3"
    assert matrix.tensorflow("2.17.0+nv24.1", "linux_x86_64") is None  # a build that nobody described
    assert matrix.revision == f"{MATRIX.revision}+2026-11-30"


def test_a_row_with_the_key_of_ours_stands_in_its_place_and_the_last_file_on_top(tmp_path: Path) -> None:
    gpus = 'gpus:\n- {{compute_capability: "{}", source: ours, names: [GeForce RTX 4090, Wonder 1]}}\n'
    line = 'cudnn:\n- {version: "9.28", min_compute_capability_by_cuda: {"13": "8.0"}, source: ours}\n'
    first = layer(tmp_path, gpus.format("9.0") + line)
    second = layer(tmp_path, gpus.format("8.0"), "second.yaml")
    matrix = Matrix.load(first, second)
    card, cudnn = matrix.gpu("RTX 4090"), matrix.cudnn("9.28")
    assert card is not None and card.compute_capability == "8.0"
    assert cudnn is not None and cudnn.cuda_majors == ("13",)
    assert matrix.cudnn("9.27") == MATRIX.cudnn("9.27") is not None


LONG = "x" * 60_000


@each(
    ("text", "message"),
    [
        ("cuda:\n" + "- " * 20_000, ":6: nested more than 100 levels deep"),
        ("cuda:\n " + "? " * 20_000, ":6: nested more than 100 levels deep"),
        ("cuda: " + "[" * 200_000, ":5: nested more than 100 levels deep"),
        ("cuda: " + "{a: " * 20_000, ":5: nested more than 100 levels deep"),
        ("cudnn: []\ncuda: []\ncuda: []", ":7: duplicate key cuda"),
        (f"{LONG}: 1\n? {LONG}\n: 1", ":5: invalid YAML: could not find expected ':'"),
        (f"? {LONG}\n: 1", ": Object contains unknown field `xxx"),
        (f"libraries: [{{id: {LONG}!}}]", ": Expected `str` matching regex"),
        (f"known_issues: [{{id: a, severity: {LONG}}}]", ": Invalid enum value 'xxx"),
        (f"gpus:\n- compute_capability: '9.0'\n  names: [a]\n  source: {LONG}", ": gpus[0].source: xxx"),
        ("gpus:\n- compute_capability: 9.0", ": Expected `str`, got `float` - at `$.gpus[0].compute_capability`; put"),
        (BUILD.replace('["12.0"', '["12.0",\n 12.10'), ": Expected `str`, got `float` - at `$.tensorflow[0].wheels"),
        (BUILD.replace("linux_x86_64", "linux_mips"), ": Invalid enum value 'linux_mips'"),
        (BUILD.replace('"12.8"', '"12.99"'), ": tensorflow 2.17.0+nv25.2 linux_x86_64.cuda: 12.99 is none of"),
        (BUILD.replace("sass", "sas"), ": Object contains unknown field `sas`"),
        ("cuda: [" + "{}," * 1001 + "]", ": Expected `array` of length <= 1000 - at `$.cuda`"),
        ("cuda: []\n---\n", ":1: several YAML documents; a matrix is one"),
    ],
)
def test_what_is_hostile_or_wrong_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = layer(tmp_path, text)
    with guarded(10.0):
        done = tfgpu("matrix", "cuda", "--matrix", file)
    assert done.returncode == 2
    assert f"{file}{message}" in done.stderr
    assert max(map(len, done.stderr.splitlines())) < len(file) + 520


def test_the_first_contradictions_are_told(tmp_path: Path) -> None:
    row = "- {compute_capability: '1.1', names: [a%d], source: ours}\n"
    with pytest.raises(MatrixError) as refused:
        Matrix.load(layer(tmp_path, "gpus:\n" + "".join(row % number for number in range(900))))
    assert len(str(refused.value).splitlines()) == 20


def test_the_environment_names_layers_for_every_command(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_bytes(make_report(healthy(), MATRIX, source="live", timings={}).to_json())
    doctor, file = ("doctor", "--from", str(report), "--format", "json"), layer(tmp_path, BUILD)
    done = tfgpu(*doctor, environ={"TFGPU_MATRIX": os.pathsep.join([file, ""])})
    assert json.loads(done.stdout)["matrix"] == {"revision": f"{MATRIX.revision}+2026-11-30", "source": file}
    broken = tfgpu(*doctor, environ={"TFGPU_MATRIX": str(tmp_path / "none.yaml")})
    assert (broken.returncode, "No such file" in broken.stderr) == (2, True)


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
