"""Law 11 of the design: every repair of every command has passed the gate, and no builder makes one that it refuses.

What is refused is not printed, so nobody would notice that a finding has lost its repair: its builder is at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus import report_of, reports, written
from tests.findings import rows_over_facts
from tests.findings import test_signs_over_messages as texts
from tests.findings.advice import Watched
from tests.findings.rows_over_facts import absent, packages, phases, release
from tests.findings.test_repairs import ADVISED, FIRST, NO_RUNTIME_VERSION
from tests.fleet.making import fleet
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.plan import test_check as manifests
from tests.tables import each
from tfgpu_doctor import check
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Fix, Report, load_report
from tfgpu_doctor.fleet.picture import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.plan import gate
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.ranking import machine_state, make_plan
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import describe, from_facts

RTX_5090 = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
# finding → a machine, and what its owner would paste
SAME: dict[str, tuple[dict[str, Any], str]] = {
    "tf.abi-protobuf": (
        {
            **release("2.21.0"),
            "python.packages": packages(tensorflow="2.21.0", protobuf="4.25.3"),
            "tensorflow.phases": phases("import", "raised", exception=NO_RUNTIME_VERSION),
        },
        f"TensorFlow 2.21.0, Python 3.12\n{NO_RUNTIME_VERSION}",
    ),
    "cuda.missing": (
        {**release("2.19.0"), "loader.sonames": absent()},
        "pip install tensorflow (2.19.0), Python 3.12\n"
        "Could not find cuda drivers on your machine, GPU will not be used.",
    ),
    "gpu.arch-too-new": (
        {**release("2.19.0"), **RTX_5090},
        "TensorFlow 2.19.0, Python 3.12, RTX 5090\nfailed with 'CUDA_ERROR_INVALID_HANDLE'",
    ),
}


CAPTURES = Path(__file__).parent / "captures"
H100 = CAPTURES / "h100" / "doctor"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    monkeypatch.setattr(gate, "refused", found.note)
    return found


def printed(document: Any) -> Iterator[Fix]:
    """Every repair in what a command prints; the commands of a plan's options are some, too."""
    if isinstance(document, Fix):
        yield document
        return
    if isinstance(document, Option):
        yield from (Fix(document.title, commands) for commands in document.commands.values())
    if isinstance(document, msgspec.Struct):
        document = [getattr(document, name) for name in document.__struct_fields__]
    for one in document if isinstance(document, tuple | list) else ():
        yield from printed(one)


def doctor(changes: dict[str, Any]) -> Report:
    return make_report(spoil(healthy(), changes), MATRIX, source="live", timings={})


def collected() -> Any:
    gathered = Gathered()
    gathered.take(fleet(5, 60, 12).lines, "fleet.jsonl")
    return judge_fleet(gathered, MATRIX, "2026-11-28T00:00:00Z")


def planned(facts: Facts) -> Any:
    return make_plan(MATRIX, from_facts(facts, MATRIX), state=machine_state(facts, MATRIX))


# smoke, compare and install --repair print what stands in a report of the doctor
COMMANDS: dict[str, Callable[[], Any]] = {
    "doctor": lambda: doctor(SAME["cuda.missing"][0]),
    "explain": lambda: report_of(next(iter(ADVISED))),
    "explain, nothing certain": lambda: report_of("TensorFlow 2.19.0 does not use my GPU"),
    "check": lambda: manifests.judged(manifests.written("tensorflow-gpu==2.9.3", "numpy", base=manifests.CUDA_11)),
    "plan": lambda: planned(spoil(healthy(), RTX_5090)),
    "plan on Windows": lambda: make_plan(MATRIX, describe(MATRIX, gpu=("RTX 4070",), driver="560", os="windows")),
    "fleet": collected,
}


@each("command", COMMANDS)
def test_what_is_printed_has_passed(command: str, watched: Watched) -> None:
    found = [*printed(COMMANDS[command]())]
    assert found
    assert [one for one in found if not watched.has_passed(one)] == []


# ------------------------------------------------------------------------------------------------ what builders make

Judge = Callable[[], Any]


def made_up() -> Iterator[tuple[str, Judge]]:
    tables = (rows_over_facts.FIRES, rows_over_facts.PASSES)
    rows = [(f"{one}: {name}", row) for table in tables for one, rows in table.items() for name, row in rows]
    for name, changes in (*rows, *((finding, changes) for finding, (changes, _) in SAME.items())):
        yield name, partial(doctor, changes)
        yield f"plan for {name}", partial(planned, spoil(healthy(), changes))


def saved_reports() -> Iterator[tuple[str, Judge]]:
    for path in sorted(H100.glob("*.json")):
        facts = load_report(path.read_bytes(), path.name).facts
        yield path.name, partial(make_report, facts, MATRIX, source="report", timings={})
        yield f"plan for {path.name}", partial(planned, facts)


def files() -> Iterator[tuple[str, Judge]]:
    for finding, _, file, target in manifests.ROWS["FIRES"]:
        yield f"{finding}: {file}", partial(manifests.judged, file, **target)


def of_texts(rows: Iterable[str]) -> Iterator[tuple[str, Judge]]:
    return ((text[:200], partial(report_of, text)) for text in rows)


def short_texts() -> Iterator[tuple[str, Judge]]:
    rows = [text for table in (texts.FIRES, texts.LOOK_ALIKES) for *_, text in texts.rows(table)]
    return of_texts((*ADVISED, *FIRST, *(text for _, text in SAME.values()), *rows))


MACHINES: tuple[dict[str, str], ...] = ({}, {"gpu": "H100", "driver": "535"}, {"gpu": "RTX 5090", "driver": "570.124"})


def folders() -> Iterator[tuple[str, Judge]]:
    for folder in sorted(path for path in (CAPTURES / "manifests").iterdir() if path.is_dir()):
        texts = {path.name.removesuffix(".example"): path.read_text(encoding="utf-8") for path in folder.iterdir()}
        yield from ((f"{folder.name} {one}", partial(check, texts=texts, **one)) for one in MACHINES)


# of each, the share that is judged every day
TABLES: dict[str, tuple[Callable[[], Iterator[tuple[str, Judge]]], int]] = {
    "machines": (made_up, 8),
    "saved reports": (saved_reports, 1),
    "files": (files, 1),
    "short texts": (short_texts, 20),
    # the fault lab's machines: tests/test_fault_lab.py
    "captures": (lambda: of_texts(one.read_text(errors="replace") for one in sorted(CAPTURES.rglob("*.txt"))), 5),
    "folders of files": (folders, 5),
    "cases": (lambda: of_texts(case["text"] for case in (*reports(), *written())), 500),
}


def refusals(rows: Iterable[tuple[str, Judge]], watched: Watched) -> list[tuple[str, str, str]]:
    found = []
    for name, judge in rows:
        judge()
        found += [(name, reason, fix.text) for reason, fix in watched.refused]
        watched.refused.clear()
        watched.passed.clear()
    return found


@each("table", TABLES)
def test_no_repair_is_refused(table: str, watched: Watched) -> None:
    rows, share = TABLES[table]
    assert refusals([*rows()][::share], watched) == []


@pytest.mark.full
@each("table", TABLES)
def test_no_repair_is_refused_in_any_row(table: str, watched: Watched) -> None:
    assert refusals(TABLES[table][0](), watched) == []
