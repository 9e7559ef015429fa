"""What came of the rows, kept as JSON and shown as a table."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tfgpu_doctor
from tests.loop.environments import Row
from tests.loop.following import Outcome
from tests.loop.machine import ROOT
from tests.loop.rows import NEW, REVIEWED, ROWS

FILE = Path(os.environ.get("TFGPU_LOOP_RESULTS", ROOT / "benchmarks" / "results" / "advice_loop.json"))
PAGE = ROOT / "docs" / "advice.md"
BEGIN, END = "<!-- written by python -m tests.loop -->", "<!-- end -->"


def read() -> dict[str, Outcome]:
    """The results of before, by row."""
    if not FILE.is_file():
        return {}
    known = {row.name for row in ROWS}
    return {one["row"]: Outcome(**one) for one in json.loads(FILE.read_text())["rows"] if one["row"] in known}


def revision() -> str | None:
    """The commit of the tool; with a plus sign where its files have been changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}{'+' if _git('status', '--porcelain', 'tfgpu_doctor') else ''}" if commit else None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def about() -> dict[str, Any]:
    """What the results that are kept were made with."""
    return {name: value for name, value in json.loads(FILE.read_text()).items() if name != "rows"}


def write(outcomes: dict[str, Outcome]) -> None:
    """Write JSON, and with it the tables of the page."""
    revisions = {one.revision for one in outcomes.values()}
    made = {
        "schema": "tfgpu.advice-loop/1",
        "tool": tfgpu_doctor.__version__,
        "revision": revisions.pop() if len(revisions) == 1 else None,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "processors": os.cpu_count(),
    }
    rows = [asdict(outcomes[row.name]) for row in ROWS if row.name in outcomes]
    FILE.write_text(json.dumps({**made, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    if "TFGPU_LOOP_RESULTS" not in os.environ:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{tables(outcomes, made)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def tables(outcomes: dict[str, Outcome], made: dict[str, Any]) -> str:
    """The score, and a table of each group of rows."""
    when = f"revision {made['revision']}" if made["revision"] else "of the revisions in the last column"
    text = [f"tfgpu {made['tool']}, {when}, {made['date']}, {made['processors']} CPUs"]
    for title, rows in (
        ("The environments of the review", REVIEWED),
        ("Environments that no rule was written for", NEW),
    ):
        ran = [(row, outcomes[row.name]) for row in rows if row.name in outcomes]
        named = sum(one.is_named(row) for row, one in ran)
        cured = sum(one.cured and one.is_named(row) for row, one in ran)
        failed = [row.name for row, one in ran if not one.as_expected(row)]
        text += ["", f"### {title}", "", f"{len(ran)} environments: {named} named, {cured} named and cured."]
        text += [f"{len(ran) - len(failed)} pass{_failing(failed)}."]
        columns = [
            "row",
            "TensorFlow, Python",
            "broken",
            "expected",
            "found (rank)",
            "rounds",
            "first fix",
            "cured",
            "seconds",
            "revision",
        ]
        text += ["", f"| {' | '.join(columns)} |"]
        text += ["|" + " --- |" * 10]
        text += [_line(row, outcomes[row.name]) for row in rows if row.name in outcomes]
    return "\n".join(text)


def _failing(names: list[str]) -> str:
    return f"; {', '.join(names)} {'fails' if len(names) == 1 else 'fail'}" if names else ""


def _line(row: Row, outcome: Outcome) -> str:
    release = next((found[1] for one in row.packages if (found := re.match(r"tensorflow\S*==(\S+)", one))), "none")
    found = ", ".join(dict.fromkeys(outcome.found)) or "no problem"
    if not outcome.found and row.finding and outcome.is_named(row):
        found = f"{next(filter(row.expects, outcome.notes))} (a note)"
    rank = f" ({outcome.rank} of {len(outcome.found)})" if outcome.rank else ""
    command = "; ".join(outcome.rounds[0]) if outcome.rounds else ""
    cured = f"no: {outcome.why}"
    if outcome.cured:
        cured = "yes" if outcome.is_named(row) else "not named, and without effect here"
    cells = [row.name, f"{release}, {row.python}, {row.installer}", row.fault, (row.finding or "").replace("|", " or ")]
    cells += [f"{found}{rank}", str(len(outcome.rounds)), f"`{command}`" if command else "", cured]
    if row.before:
        cells[2] += f" (before: {row.before})"
    cells += [f"{outcome.seconds:.0f}", outcome.revision or "unknown"]
    return "| " + " | ".join(" ".join(one.split()).replace("|", "\\|") for one in cells) + " |"
