"""The matrix: what it knows, how it is found, how it refuses what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.matrix.bundled import ready_to_decode
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, bundled_path, parse

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

ROOT = Path(__file__).resolve().parents[2]
MATRIX = Matrix.load()
TEXT = bundled_path().read_text(encoding="utf-8")
TABLE = re.compile(r"^(?=\w+:)", re.MULTILINE)  # where one begins


# ------------------------------------------------------------------------------------- known truths


@each(("version", "platform", "package", "cuda", "cudnn", "pythons", "sass", "ptx"), ROWS["test_gpu_releases"])
def test_gpu_releases(
    version: str, platform: str, package: str, cuda: str, cudnn: str, pythons: str, sass: str, ptx: str
) -> None:
    row = MATRIX.tensorflow(version, platform, package)
    assert row is not None
    assert (row.version, row.platform, row.package, row.gpu) == (version, platform, package, True)
    assert (row.cuda, row.cudnn) == (cuda, cudnn)
    assert f"{row.python[0]} {row.python[-1]}" == pythons
    assert (" ".join(row.sass), " ".join(row.ptx)) == (sass, ptx)
    assert {"cuda", "cudnn", "python", "sass", "ptx", "libraries", "min_driver_linux"} <= row.sources.keys()


@each(("version", "platform", "package", "redirects"), ROWS["test_cpu_releases"])
def test_cpu_releases(version: str, platform: str, package: str, redirects: str | None) -> None:
    row = MATRIX.tensorflow(version, platform, package)
    assert row is not None
    assert (row.gpu, row.cuda, row.cudnn, row.extra, row.libraries, row.sass) == (False, None, None, None, (), ())
    assert row.redirects == redirects


def test_an_empty_wheel_has_the_bounds_of_the_one_it_requires() -> None:
    stub, real = (
        MATRIX.tensorflow("2.13.0", "windows_amd64"),
        MATRIX.tensorflow("2.13.0", "windows_amd64", "tensorflow-intel"),
    )
    assert stub is not None and real is not None
    assert stub.numpy == real.numpy == ">=1.22,<=1.24.3"


def test_pins_bounds_and_libraries() -> None:
    row = MATRIX.tensorflow("2.15.1", "linux_x86_64")
    assert row is not None
    # METADATA of tensorflow-2.15.1
    assert (row.extra, row.pip_nvidia["nvidia-cudnn-cu12"]) == ("and-cuda", "==8.9.4.25")
    assert (row.numpy, row.keras, row.glibc) == (">=1.23.5,<2.0.0", ">=2.15.0,<2.16", "2.17")
    # cuda_config.h of the same wheel
    sonames = {library.component: library.soname for library in row.libraries}
    assert (sonames["cudart"], sonames["cudnn"]) == ("libcudart.so.12", "libcudnn.so.8")
    assert (sonames["cusolver"], sonames["cusparse"]) == ("libcusolver.so.11", "libcusparse.so.12")


@each(
    ("version", "linux", "windows"),
    [("2.21.0", "525.60.13", "528.33"), ("2.14.1", "450.80.02", "452.39"), ("2.10.0", "450.80.02", "452.39")],
)
def test_oldest_drivers_of_a_release(version: str, linux: str, windows: str) -> None:
    # CUDA release notes, "Minimum Required Driver Version for CUDA Minor Version Compatibility"
    row = MATRIX.tensorflow(version, "linux_x86_64")
    assert row is not None
    assert (row.min_driver_linux, row.min_driver_windows) == (linux, windows)


def test_an_unknown_update_is_answered_by_its_minor_version() -> None:
    row = MATRIX.cuda("12.5.9")
    assert row is not None and row.version == "12.5"
    assert MATRIX.cuda("42.0") is None


def test_unknown_names_are_unknown() -> None:
    assert MATRIX.gpu("Voodoo 2") is None
    assert MATRIX.architecture("1.7") is None
    assert MATRIX.cudnn("3.1") is None
    assert MATRIX.peak("1.7") is None


# ------------------------------------------------------------------------------------------ look-ups


def test_the_nearest_patch_answers_for_an_unknown_one() -> None:
    near = MATRIX.tensorflow("2.15.7", "linux_x86_64")
    assert near is not None and near.version == "2.15.1"
    rc = MATRIX.tensorflow("2.21.0rc1", "linux_x86_64")
    assert rc is not None and rc.version == "2.21.0"
    post = MATRIX.tensorflow("2.15.0.post1", "linux_x86_64")
    assert post is not None and post.version == "2.15.0.post1"


@each(("version", "platform", "package"), ROWS["test_unknown_releases_are_unknown"])
def test_unknown_releases_are_unknown(version: str, platform: str, package: str) -> None:
    assert MATRIX.tensorflow(version, platform, package) is None


def test_releases_come_newest_first() -> None:
    rows = MATRIX.releases(platform="linux_x86_64", package="tensorflow")
    versions = [row.version for row in rows]
    assert "2.21.0" in versions[:3] and versions[-1] == "1.0.0"
    assert versions.index("2.15.1") < versions.index("2.15.0.post1") < versions.index("2.15.0")
    assert len(MATRIX.releases()) > len(rows)


def issue(version: str, platform: str = "linux_x86_64", **known: object) -> str | None:
    row = MATRIX.tensorflow(version, platform)
    assert row is not None
    found = MATRIX.issue_for(row, **known)  # type: ignore[arg-type]
    return found.id if found else None


def test_known_issues_hold_only_where_their_condition_does() -> None:
    # DT_RUNPATH of libtensorflow_framework.so.2: twelve nvidia folders in 2.15.1 and 2.16.2, two in 2.16.1
    assert issue("2.16.1", extra=True) == "tf-2.16.1-runpath"
    assert issue("2.16.1") is None
    assert issue("2.16.2", extra=True) is None
    assert issue("2.21.0", extra=True) == "tf-2.21.0-runpath-cusolver"
    assert issue("2.21.0") is None
    assert issue("2.21.0", compute_capabilities=("8.9", "12.0")) == "blackwell-no-kernels"
    assert issue("2.21.0", compute_capabilities=("9.0",)) is None
    assert issue("2.21.0", compute_capabilities=("7.0",)) is None
    assert issue("2.21.0", compute_capabilities=("7.0",), cudnn="9.10.2") is None
    assert issue("2.21.0", compute_capabilities=("7.0",), cudnn="9.12.0") == "cudnn-drops-maxwell-to-volta"
    assert issue("2.13.0", "windows_amd64", compute_capabilities=("12.0",)) is None


def test_issues_of_installing_do_not_concern_what_is_installed() -> None:
    row = MATRIX.tensorflow("2.14.1", "linux_x86_64")
    assert row is not None
    refused = MATRIX.issues_for(row, python="3.11.7", extra=True)
    assert [one.id for one in refused] == ["tf-2.14-tensorrt-python-3.11"]
    assert MATRIX.issues_for(row, python="3.10.1", extra=True) == MATRIX.issues_for(row, extra=True) == ()
    assert MATRIX.issue_for(row, python="3.11.7") is None


# ------------------------------------------------------------------------------------- refusing


def test_the_bundled_matrix_does_not_contradict_itself() -> None:
    MATRIX.check()


def touched(text: str) -> str:
    """The tables that an edit touches, and of the releases the newest: our rows lie below, and reading takes long."""
    ours = set(TABLE.split(TEXT))
    *tables, last = [table for table in TABLE.split(text) if table not in ours or table.startswith(("schema:", "rev"))]
    if last.startswith("tensorflow:"):
        end = last.index("\n- ", 20_000) + 1
        assert TEXT.endswith(last[end:]), "edited further down"
        last = last[:end]
    return "".join([*tables, last])


def edited(tmp_path: Path, old: str, new: str) -> str:
    """Write the matrix with one edit, below TensorFlow 2.21.0 if it can be, and return the message of its refusal."""
    before, row, after = TEXT.partition('- package: tensorflow\n  version: "2.21.0"')
    before, after = (before, after.replace(old, new, 1)) if old in after else (before.replace(old, new, 1), after)
    text = before + row + after
    assert text != TEXT, old
    file = tmp_path / "matrix.yaml"
    file.write_text(touched(text), encoding="utf-8")
    with pytest.raises(MatrixError) as refused:
        Matrix.load(str(file))
    message = str(refused.value)
    assert message.startswith(str(file))
    return message


@each(("old", "new", "message"), ROWS["test_what_does_not_fit_the_schema_is_refused_with_its_place"])
def test_what_does_not_fit_the_schema_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert message in edited(tmp_path, old, new)


@each(("old", "new", "message"), ROWS["test_contradictions_name_the_row_and_the_valid_values"])
def test_contradictions_name_the_row_and_the_valid_values(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in edited(tmp_path, old, new)


def test_unreadable_files_are_refused_without_a_traceback(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("schema: größe".encode("latin-1"))
    empty = tmp_path / "empty.yaml"
    empty.write_text("", encoding="utf-8")
    listed = tmp_path / "list.yaml"
    listed.write_text("- 1\n", encoding="utf-8")
    for path, message in (
        (tmp_path / "missing.yaml", "No such file or directory"),
        (tmp_path, "it is a directory, not a file"),
        (latin, "not UTF-8"),
        (empty, "empty.yaml:1: an empty file"),
        (listed, "list.yaml:1: Expected `object`, got `array`"),
    ):
        with pytest.raises(MatrixError, match=message) as refused:
            Matrix.load(str(path))
        assert str(refused.value).startswith(str(path))
    with pytest.raises(MatrixError, match="null"):
        Matrix.load("a\0b")


def test_the_json_schema_accepts_the_file() -> None:
    import jsonschema

    published = json.loads((FOLDER / "matrix-1.json").read_text(encoding="utf-8"))
    tables = json.loads(ready_to_decode(TEXT.encode()))
    some = {name: rows[:40] if isinstance(rows, list) else rows for name, rows in tables.items()}  # all take 3 s
    jsonschema.validate(some, published)


def test_rows_survive_json() -> None:
    row = MATRIX.tensorflow("2.15.1", "linux_x86_64")
    assert row is not None
    assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row
    assert parse(TEXT, "again") == MATRIX.data
