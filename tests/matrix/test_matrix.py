"""The matrix: what it knows, how it is found, how it refuses what is wrong."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.matrix import loader
from tfgpu_doctor.matrix.bundled import ready_to_decode
from tfgpu_doctor.matrix.lint import issues
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, bundled_path, parse
from tfgpu_doctor.matrix.rows import concerns
from tfgpu_doctor.matrix.schema import Condition, KnownIssue, ReleaseRow
from tfgpu_doctor.matrix.tables import last_cudnn

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

ROOT = Path(__file__).resolve().parents[2]
TEXT = bundled_path().read_text(encoding="utf-8")
TABLE = re.compile(r"^(?=\w+:)", re.MULTILINE)  # where one begins


@each(("look_up", "arguments", "expected"), ROWS["TRUTHS"])
def test_truths(look_up: str, arguments: list[str], expected: dict[str, Any] | None) -> None:
    """Wheels, toolkits, cuDNN lines, architectures, peaks, GPUs and devices, as their publishers have them."""
    official = {row.version: row for row in MATRIX.data.official}
    row = official[arguments[0]] if look_up == "official" else getattr(MATRIX, look_up)(*arguments)
    found = row and {name: json.loads(msgspec.json.encode(getattr(row, name))) for name in expected or ["source"]}
    assert found == expected


def test_every_toolkit_and_every_minor_release_has_its_row() -> None:
    for row in MATRIX.data.cuda:  # there is no minor-version compatibility before CUDA 11
        before = numbers(row.version) < (11,)
        assert (row.minor_compat_min_linux is None) is (row.minor_compat_min_windows is None) is before, row.version
    early = {"7.0", "7.5", "8.0", "9.0", "9.1", "9.2", "10.0", "10.1", "10.2"}
    assert early <= {row.version for row in MATRIX.data.cuda}
    wanted = [f"1.{minor}" for minor in range(16)] + [f"2.{minor}" for minor in range(22)]
    assert sorted((row.version for row in MATRIX.data.official), key=numbers) == wanted


@each(("card", "major", "newest"), ROWS["test_the_last_cudnn_for_a_card_follows_from_the_table"])
def test_the_last_cudnn_for_a_card_follows_from_the_table(card: str, major: str, newest: str) -> None:
    assert last_cudnn(MATRIX, card, major) == newest


# WP: NVIDIA's whitepaper; DS: NVIDIA's data sheet; TPU: TechPowerUp's GPU database, partly as quoted by others.
PUBLISHED = ROWS["PUBLISHED"]


def test_peaks_give_the_published_figures_and_every_row_is_held_against_one() -> None:
    held, wrong = set(), []
    for name, capability, multiprocessors, mhz, dtype, tflops in PUBLISHED:
        row = MATRIX.peak(capability, f"NVIDIA {name}")
        held.add((capability, row and row.products))
        if row is None or multiprocessors * mhz * getattr(row, dtype) / 1e6 != pytest.approx(tflops, rel=0.03):
            wrong.append((name, dtype, row))
    assert wrong == []
    # Turing without tensor cores is one family, of which GTX 16 is held; NVIDIA's guide has Kepler's 3.2 like 3.0,
    # and 3.5 with 8 float64 results a cycle on GeForce, except Titan
    alike = {("7.5", one) for one in ("GeForce MX", "T2000", "T1200", "T1000", "T600", "T550", "T500", "T400")}
    free = alike | {("3.2", None), ("3.5", "GeForce"), ("3.5", "GeForce GTX TITAN")}
    assert {(row.compute_capability, row.products) for row in MATRIX.data.peaks} - held <= free


def touched(text: str) -> str:
    """The tables that an edit touches, and of the releases the newest: our rows lie below, and reading takes long."""
    ours = set(TABLE.split(TEXT))
    *tables, last = [table for table in TABLE.split(text) if table not in ours or table.startswith(("schema:", "rev"))]
    if last.startswith("tensorflow:"):
        end = last.index("\n- ", 20_000) + 1
        assert TEXT.endswith(last[end:]), "edited further down"
        last = last[:end]
    return "".join([*tables, last])


def edited(file: Path, old: str, new: str) -> str:
    """Write the matrix with one edit, below TensorFlow 2.21.0 if it can be, and return the message of its refusal."""
    before, row, after = TEXT.partition('- package: tensorflow\n  version: "2.21.0"')
    before, after = (before, after.replace(old, new, 1)) if old in after else (before.replace(old, new, 1), after)
    text = before + row + after
    assert text != TEXT, old
    file.write_text(touched(text), encoding="utf-8")
    with pytest.raises(MatrixError) as refused:
        Matrix.load(str(file))
    message = str(refused.value)
    assert message.startswith(str(file))
    return message


@each(("old", "new", "message"), ROWS["REFUSED"])
def test_what_does_not_fit_the_schema_or_contradicts_another_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.setattr(loader, "_bundled", lambda: MATRIX.data)  # reading it takes longer than all else
    assert message in edited(tmp_path / "matrix.yaml", old, new)


@each(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        ("schema: größe".encode("latin-1"), "not UTF-8"),
        (b"", "matrix.yaml:1: an empty file"),
        (b"- 1\n", "matrix.yaml: Expected `object`, got `array`"),
    ],
)
def test_unreadable_files_are_refused_without_a_traceback(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MatrixError, match=message) as refused:
        Matrix.load(str(path))
    assert str(refused.value).startswith(str(path))


def test_what_is_no_file_is_refused_without_a_traceback(tmp_path: Path) -> None:
    for path, message in ((str(tmp_path), "it is a directory, not a file"), ("a\0b", "null")):
        with pytest.raises(MatrixError, match=message):
            Matrix.load(path)


def test_the_json_schema_accepts_the_file() -> None:
    published = json.loads((FOLDER / "matrix-1.json").read_text(encoding="utf-8"))
    tables = json.loads(ready_to_decode(TEXT.encode()))
    some = {name: rows[:40] if isinstance(rows, list) else rows for name, rows in tables.items()}  # all take 3 s
    jsonschema.validate(some, published)


def test_rows_do_not_contradict_each_other() -> None:
    MATRIX.check()
    assert parse(TEXT, "again") == MATRIX.data


def test_what_scripts_derive_of_the_same_wheels_agrees() -> None:
    data, card = MATRIX.data, lambda part: {*part.sass, *part.ptx}
    wheels = {(row.package, row.version, name): one for row in data.tensorflow for name, one in row.wheels.items()}
    for (package, version, _), wheel in wheels.items():
        assert wheel.wheel is None or wheel.wheel.startswith(f"{package.replace('-', '_')}-{version}-")
    for build in data.builds:
        assert {isa for part in build.parts for isa in part.ptx.values()} <= {row.isa for row in data.ptx}
        for package, version in ((name, one) for name, some in build.releases.items() for one in some.split()):
            wheel = wheels[package, version, build.platform]
            assert wheel.cuda and (None in (build.cudnn, wheel.cudnn) or build.cudnn == wheel.cudnn), version
            assert not build.parts or set().union(*map(card, build.parts)) == card(wheel), version
    for rows in (data.cuda, data.cudnn, data.jetpacks):
        versions = [row.version for row in rows]
        assert versions == sorted(versions, key=numbers, reverse=True)
    ids = [one for row in data.pci_devices for several in row.devices.values() for one in several.split()]
    assert len(ids) == len(set(ids))
    named = {one for row in data.log_lines for some in row.lines.values() for one in some.split()}
    assert named <= {row.version for row in data.tensorflow} and min(len(row.lines) for row in data.log_lines) > 1


def with_condition(condition: Condition) -> Matrix:
    """The bundled matrix with one known issue."""
    issue = KnownIssue(
        id="x", severity="error", affects="run", title="t", condition=condition, symptom="s", fix="f", source="wheel"
    )
    return Matrix(replace(MATRIX.data, known_issues=(issue,)), "matrix")


def holds(known: dict[str, Any], **condition: Any) -> bool:
    """Whether an issue of TensorFlow 2.17.1 on Linux with that condition holds."""
    matrix = with_condition(Condition(versions="==2.17.1", **condition))
    row = matrix.tensorflow("2.17.1", "linux_x86_64")
    assert row is not None
    return bool(matrix.issues_for(row, **known))


@each(("condition", "known", "expected"), ROWS["CONDITIONS"])
def test_conditions(condition: dict[str, Any], known: dict[str, Any], expected: bool) -> None:
    assert holds(known, **condition) is expected


@each(("version", "versions", "expected"), ROWS["BUILDS"])
def test_what_is_known_of_the_published_wheels_is_not_said_of_other_builds(
    version: str, versions: str, expected: bool
) -> None:
    (issue,) = with_condition(Condition(versions=versions)).data.known_issues
    assert concerns(issue, ReleaseRow(package="tensorflow", version=version, wheels={}), "linux_x86_64") is expected


def test_a_bad_specifier_is_named() -> None:
    found = list(issues(with_condition(Condition(versions="==2.17.1", beside={"numpy": "two"})).data))
    assert found == ["known_issues x.condition: 'two' is no version specifier such as '>=2.16,<2.18'"]


def test_a_row_says_what_to_do_in_words_that_can_be_pasted() -> None:
    rows = MATRIX.data.known_issues
    commands = [command for row in rows for command in row.commands]
    assert [one for one in commands if not shlex.split(one) or re.search(r"<\w+>|\.\.\.|/path/to", one)] == []
    texts = [text for row in rows for text in (row.title, row.symptom, row.fix)]
    assert [text for text in texts if "!" in text.replace("!=", "") or "\n" in text] == []


@each("version", ["x" * 80, "²", "0x10", ""])
def test_a_version_that_cannot_be_read_meets_no_condition(version: str) -> None:
    assert not holds({"python": version}, python=">=3.8")
    assert not holds({"beside": {"numpy": version}}, beside={"numpy": ">=1"})


@each(("version", "platform", "known", "expected"), ROWS["ISSUES"])
def test_known_issues_hold_only_where_their_condition_does(
    version: str, platform: str, known: dict[str, Any], expected: str | None
) -> None:
    row = MATRIX.tensorflow(version, platform)
    assert row is not None
    found = MATRIX.issue_for(row, **known)
    assert (found.id if found else None) == expected


def test_issues_of_installing_do_not_concern_what_is_installed() -> None:
    row = MATRIX.tensorflow("2.14.1", "linux_x86_64")
    assert row is not None
    refused = MATRIX.issues_for(row, python="3.11.7", extra=True)
    assert [one.id for one in refused] == ["tf-2.14-tensorrt-python-3.11"]
    assert MATRIX.issues_for(row, python="3.10.1", extra=True) == MATRIX.issues_for(row, extra=True) == ()
    assert MATRIX.issue_for(row, python="3.11.7") is None
