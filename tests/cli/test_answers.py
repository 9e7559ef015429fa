"""What command lines answer: exit code, both streams, files, JSON that fits its schema.

Rows stand in answers.yaml, wrong_usage.jsonl (a command line, a part of the message) and matrix_answers.jsonl (a
question, a part of its answer).
"""

from __future__ import annotations

import gzip
import json
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

from tests.bench.samples import failures, four, result, run
from tests.cli.runner import commands, tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES, NO_GPU_USED, WHY
from tests.fleet.making import fleet
from tests.healthy import gpu, known
from tests.manifests.shapes import SHAPES
from tests.tables import each, read_rows
from tfgpu_doctor.bench.references import FOLDER
from tfgpu_doctor.bench.results import WORKLOADS
from tfgpu_doctor.cli.options import SUCCESSORS
from tfgpu_doctor.facts.schemas import FOLDER as SCHEMAS

BENCH, GOOD = result(run()).to_json(), report().to_json()
HIDDEN = {
    "variables": known({"CUDA_VISIBLE_DEVICES": "-1"}),
    "gpus": known((gpu(temperature=70),), "NVML"),
    "tensorflow.checks": known(()),
}
NO_DEVICE = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
ADA = known("/home/lovelace/engine/env/bin/python")
OTHER = {"tensorflow": "2.20.0", "numpy": "2.4.6", "python": "3.12.3"}
CLEAN = fleet(1, 30).lines
CUT_OFF = [CLEAN[0][:500], b'{"schema": "tfgpu.report/9"}', *CLEAN[1:], b'{"schema": "tfgpu.plan/1"}']
FILES: dict[str, bytes] = {
    "report.json": GOOD,
    "hidden.json": report(HIDDEN).to_json(),
    "hot.json": report(FIRES["gpu.throttled"][0][1]).to_json(),
    "unlisted.json": report({"tensorflow.devices": WHY}).to_json(),
    "bare.json": report({"gpus": known(()), "host.pci_gpus": known(())}).to_json(),
    "ada.json": report({**NO_GPU_USED, **FIRES["cuda.missing"][0][1], "python.executable": ADA}).to_json(),
    "base.json": BENCH,
    "four.json": four().to_json(),
    "old.json": four().to_json().replace(b'"advice": []', b'"advice": ["noisy: try a larger --size"]'),
    "failures.json": failures().to_json(),
    "reference.json": next(FOLDER.glob("*matpow.json")).read_bytes(),
    "slower.json": result(run(seconds=5.6)).to_json(),
    "faster.json": result(run(seconds=4.4)).to_json(),
    "noisy.json": result(run(steps=(1.0, 1.0))).to_json(),
    "other.json": result(run(seconds=5.6), software=OTHER).to_json(),
    "clean.jsonl": b"\n".join(CLEAN),
    "odd.jsonl": b"\n".join(fleet(162, 40, 3).lines),
    "mixed.jsonl": b"\n".join(CUT_OFF),
    "newer.json": BENCH.replace(b"tfgpu.bench/1", b"tfgpu.bench/2"),
    "unknown.json": json.dumps(json.loads(BENCH) | {"runs": 1}).encode(),
    "null.json": BENCH.replace(b'"median_s": 5.0', b'"samples_s": [null]'),
    "plan.json": b'{"schema": "tfgpu.plan/1"}',
    "utf-16.log": ("Ошибка " * 9 + NO_DEVICE).encode("utf-16"),  # half of these bytes are control characters
    "utf-16-le.log": NO_DEVICE.encode("utf-16-le"),
    "it's.gz": gzip.compress(NO_DEVICE.encode()),
    "noise": zlib.compress(bytes(range(256)) * 99, 9) + Random(1).randbytes(5000),
    "empty": b"",
    "blank": b" \n\n\t\n",
    "bytes.txt": b"caf\xe9",
    "notes.md": b"hello",
    "pyproject.toml": b"[project",
    "compose.yaml": b"services: [",
    "requirements.txt": b"a\n" * 3_000_000,
    "cut-off": GOOD[: len(GOOD) // 2],
    "no-json": b"Fri Nov 21 10:00:00 2026  +----+",
    "not-utf8": b'{"schema": "\xff\xfe caf\xe9"}',
    "utf16": b"\xff\xfe" + GOOD.decode()[:200].encode("utf-16-le"),
    "a-list": b"[1, 2]",
    "a-number-for-a-schema": b'{"schema": 1}',
    "newer": b'{"schema": "tfgpu.report/2"}',
    "nonsense-version": b'{"schema": "tfgpu.report/new"}',
    "foreign": b'{"schema": "http://json-schema.org/x"}',
    "nested": b'{"schema": "tfgpu.report/1", "x": ' + b"[" * 100_000,
    "no-facts": b'{"schema": "tfgpu.report/1"}',
    "two-reports": GOOD + GOOD,
}


@dataclass(frozen=True)
class Row:
    """A command line, and what is expected of it. Spaces and line ends of what is printed count as one space."""

    run: str
    code: int = 0
    says: Sequence[str] = ()  # on standard output
    tells: Sequence[str] = ()  # on standard error, where else nothing may stand
    never: Sequence[str] = ()  # on neither, nor in the files that are written
    json: Any = None  # a part of it
    environ: Mapping[str, str] = field(default_factory=dict)
    input: str = ""
    stdin: str = ""  # a file of the folder that is piped into it
    files: Mapping[str, str] = field(default_factory=dict)  # what lies in a folder of its own; else all of FILES
    written: Mapping[str, Any] = field(default_factory=dict)  # files afterwards: the whole text, or parts of it


HERE = Path(__file__).parent


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]


WRONG = lines("wrong_usage.jsonl")
ROWS = [
    *(Row(**row) for row in read_rows(HERE / "answers.yaml")),
    *(Row(words, 2, tells=[message]) for words, message in WRONG),
    *(Row(f"matrix {words} --format json", json=part) for words, part in lines("matrix_answers.jsonl")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "reports").mkdir()
    for number, line in enumerate(FILES["odd.jsonl"].split(b"\n")):
        (folder / "reports" / f"{number}.json").write_bytes(line)
    (folder / "nothing").mkdir()
    return folder


@each("row", ROWS)
def test_answers(row: Row, folder: Path, tmp_path: Path) -> None:
    cwd = tmp_path if row.files else folder
    put(tmp_path, row.files)
    data = FILES[row.stdin] if row.stdin else row.input
    done = tfgpu(*shlex.split(row.run), cwd=cwd, environ=row.environ, input=data)
    printed, told = (" ".join(text.split()) for text in (done.stdout, done.stderr))
    assert (done.returncode, bool(told)) == (row.code, bool(row.tells)), told or printed
    assert not (row.code == 2 and printed) and len(told) < 1500
    written = {name: (cwd / name).read_bytes().decode() for name in row.written}
    for name, text in written.items():
        wanted = row.written[name]
        assert text == wanted if isinstance(wanted, str) else all(part in text for part in wanted), text
    assert [part for part in row.says if part not in printed] == [], printed
    assert [part for part in row.tells if part not in told] == [], told
    texts = (printed, told, *written.values())
    assert [part for part in (*row.never, "Traceback", "\x1b") if any(part in text for text in texts)] == []
    if row.json is not None:
        answer = json.loads(done.stdout)
        assert holds(row.json, answer), done.stdout
        if isinstance(answer, dict) and "schema" in answer:
            schema(answer["schema"]).validate(answer)


@cache
def schema(name: str) -> Any:
    file = SCHEMAS / f"{name.removeprefix('tfgpu.').replace('/', '-')}.json"
    return jsonschema.Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def holds(part: Any, whole: Any) -> bool:
    """True if an answer has these fields of objects, all elements of lists or those of some numbers, these names."""
    if isinstance(part, dict):
        found = dict(enumerate(whole)) if isinstance(whole, list) else whole
        return all(key in found and holds(value, found[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, dict):
        return set(part) <= set(whole)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(holds, part, whole))
    return bool(part == (pytest.approx(whole) if isinstance(part, float) else whole))


def test_every_command_prints_the_text_beside_a_file() -> None:
    """What is measured has no row; of benches, test_bench_cli.py has one."""
    have = {path for path, command in commands() if any("--output" in one.opts for one in command.params)}
    rows = [row for row in ROWS if "--output" in row.run and "--format" not in row.run and row.says and row.written]
    lacking = {path for path in have if not any(row.run.startswith(f"{path} ") for row in rows)}
    assert lacking == {"smoke", *(f"bench {name}" for name in WORKLOADS)}


def test_what_is_gone_names_its_successor() -> None:
    kinds = {name: "option" if name.startswith("-") else "command" for name in SUCCESSORS}
    assert {f"No such {kinds[name]} {name!r}: {SUCCESSORS[name]}." for name in kinds} <= {text for _, text in WRONG}


@each("name", SHAPES)
def test_what_an_expert_would_say(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    put(tmp_path, shape.files)
    done = tfgpu("check", *shape.named, cwd=tmp_path, environ={"COLUMNS": "250"})
    said = " ".join((done.stdout + done.stderr).split())
    assert [one for one in shape.says if one not in said] == [], said
    assert [one for one in shape.never if one in said] == [], said


# ------------------------------------------------------------------------------------- what one answer says of another


def answer(words: str, **options: Any) -> Any:
    return json.loads(tfgpu(*words.split(), "--format", "json", **options).stdout)


def test_tables_of_the_matrix() -> None:
    card, toolkit = answer("matrix gpu RTX 5090"), answer("matrix cuda 12.5")
    assert "2.20.0" not in card["tensorflow"]
    assert "2.20.0" in [version for one in card["broken"] for version in one["tensorflow"]]
    assert "2.18.0" in toolkit["tensorflow"] and {"8.9", "9.3"} <= set(toolkit["cudnn"])
    assert toolkit["compute_capabilities"] == sorted(toolkit["compute_capabilities"], key=lambda one: float(one))
    assert answer("matrix cuda 11.2.2")["tensorflow"] == answer("matrix cuda 11.2")["tensorflow"] != []
    assert answer("matrix tensorflow 2.10 --platform windows_amd64") == answer("matrix tensorflow 2.10 --os windows")
    found = {table["name"]: table for table in answer("matrix find")["tables"]}
    assert found["gpus"]["rows"] == len(answer("matrix gpu")) > 15 < len(answer("matrix cudnn"))
    assert sum(one["rows"] for one in found["cuda"]["sources"]) == found["cuda"]["rows"]


def test_a_fleet_in_files_folders_and_standard_input_is_one(folder: Path) -> None:
    whole = answer("fleet odd.jsonl", cwd=folder)
    again, piped = answer("fleet reports/", cwd=folder), answer("fleet -", cwd=folder, input=FILES["odd.jsonl"])
    assert whole["groups"] == again["groups"] == piped["groups"]
    assert [node["name"] for node in whole["nodes"]] == [node["name"] for node in piped["nodes"]]


def test_a_redacted_report_is_diagnosed_alike(folder: Path) -> None:
    tfgpu("doctor", "--from", "ada.json", "--redact", "--output", "shared.json", cwd=folder)
    ids = [
        [one["id"] for one in answer(f"doctor --from {file}", cwd=folder)["findings"]]
        for file in ("ada.json", "shared.json")
    ]
    assert ids[0] == ids[1] != []


# ----------------------------------------------------------------------------------------------------------- check


def test_a_file_of_powershell_and_a_notebook_are_named_by_line_and_stay(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    source = ['# \u00e4 "quoted"\n', "!pip install tensorflow-gpu\n", "import tensorflow\n"]
    book = {"cells": [{**cell, "source": source}], "metadata": {"x": 1}, "nbformat": 4, "nbformat_minor": 5}
    page = json.dumps(book, indent=1, ensure_ascii=False).encode()
    for name, data, line in (("requirements.txt", "tensorflow-gpu\r\n".encode("utf-16"), 1), ("train.ipynb", page, 10)):
        (tmp_path / name).write_bytes(data)
        done = tfgpu("check", name, cwd=tmp_path)
        shown = " ".join(done.stdout.split())
        assert f"In {name}:{line}, write 'tensorflow[and-cuda]==2.20.0' instead of 'tensorflow-gpu'" in shown
        assert (done.returncode, done.stderr, (tmp_path / name).read_bytes()) == (1, "", data)
