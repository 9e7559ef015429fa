"""Law 11 of the design: every repair of every command has passed the gate, and no builder makes one that it refuses.

What is refused is not printed, so nobody would notice that a finding has lost its repair: its builder is at fault.
"""

from __future__ import annotations

import re
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
from tests.findings.test_repairs import ADVISED, FIRST
from tests.fleet.making import fleet
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.plan import test_check as manifests
from tests.tables import each
from tests.tiers import usual
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
CAPTURES = Path(__file__).parent / "captures"
EXAMINES = re.compile("tfgpu (?:doctor|bench|smoke)\\b")
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
    "doctor": lambda: doctor(rows_over_facts.FIRES["cuda.missing"][0][1]),
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


Judge = Callable[[], Any]


def made_up() -> Iterator[tuple[str, Judge]]:
    for table in (rows_over_facts.FIRES, rows_over_facts.PASSES):
        for finding, name, changes in ((finding, *row) for finding, rows in table.items() for row in rows):
            yield f"{finding}: {name}", partial(doctor, changes)
            yield f"plan for {finding}: {name}", partial(planned, spoil(healthy(), changes))


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
    return of_texts((*ADVISED, *FIRST, *rows))


MACHINES: tuple[dict[str, str], ...] = ({}, {"gpu": "H100", "driver": "535"}, {"gpu": "RTX 5090", "driver": "570.124"})


def folders() -> Iterator[tuple[str, Judge]]:
    for folder in sorted(path for path in (CAPTURES / "manifests").iterdir() if path.is_dir()):
        texts = {path.name.removesuffix(".example"): path.read_text(encoding="utf-8") for path in folder.iterdir()}
        yield from ((f"{folder.name} {one}", partial(check, texts=texts, **one)) for one in MACHINES)


# of each, the share that is judged every day
TABLES: dict[str, tuple[Callable[[], Iterator[tuple[str, Judge]]], int]] = {
    "machines": (made_up, 14),
    "saved reports": (saved_reports, 1),
    "files": (files, 2),
    "short texts": (short_texts, 20),
    # the fault lab's machines: tests/test_fault_lab.py
    "captures": (lambda: of_texts(one.read_text(errors="replace") for one in sorted(CAPTURES.rglob("*.txt"))), 10),
    "folders of files": (folders, 8),
    "cases": (lambda: of_texts(case["text"] for case in (*reports(), *written())), 1000),
}


@pytest.mark.parametrize("every_row", usual([False, True], lambda every_row: not every_row))
@each("table", TABLES)
def test_no_repair_is_refused(table: str, watched: Watched, every_row: bool) -> None:
    rows, share = TABLES[table]
    found = []
    for name, judge in [*rows()][:: 1 if every_row else share]:
        judged = judge()
        if isinstance(judged, Report) and judged.source != "text":  # else it examines the Python of whoever types it
            commands = [command for fix in printed(judged) for command in fix.commands]
            found += [(name, one) for one in commands if EXAMINES.match(one) and " --python " not in one]
        found += [(name, reason, fix.text) for reason, fix in watched.refused]
        watched.refused.clear()
        watched.passed.clear()
    assert found == []
