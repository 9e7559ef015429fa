"""Run rows of the table and write down what came of them.

    python -m tests.loop [NAME …]

Without names, all rows run, and `benchmarks/results/advice_loop.json` and the table of `docs/advice.md` are written
anew; with names, their results replace those of before. TFGPU_LOOP_AT_ONCE=2 runs two rows at a time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab import Lab
from tests.loop.environments import CannotBeMadeError, Row
from tests.loop.following import Outcome, follow
from tests.loop.machine import Machine
from tests.loop.results import read, revision, write
from tests.loop.rows import ROWS


def main(names: list[str]) -> int:
    """Run the rows with these names, or all; the exit code says whether all were cured."""
    unknown = set(names) - {row.name for row in ROWS}
    if unknown:
        print(f"no row is called {', '.join(sorted(unknown))}: {', '.join(row.name for row in ROWS)}", file=sys.stderr)
        return 2
    rows = sorted((row for row in ROWS if not names or row.name in names), key=lambda row: row.packages[:1])
    with tempfile.TemporaryDirectory(prefix="tfgpu-loop-") as folder:
        (laboratory := Path(folder) / "lab").mkdir()
        lab = Lab(laboratory)
        lab.cuda()
        machine = Machine(Path(folder) / "machine", lab.libraries)
        machine.namespace  # noqa: B018 - made once, before rows run at the same time
        with ThreadPoolExecutor(int(os.environ.get("TFGPU_LOOP_AT_ONCE", "1"))) as pool:
            outcomes = read() if names else {}
            cured = True
            for outcome in pool.map(lambda row: _one(row, Path(folder) / row.name, machine), rows):
                outcomes[outcome.row] = outcome
                write(outcomes)  # after each, so that an interrupt loses nothing
                cured = cured and outcome.cured
    return 0 if cured else 1


def _one(row: Row, folder: Path, machine: Machine) -> Outcome:
    try:
        outcome = follow(row, folder, machine, {})
        outcome.revision = revision()
    except CannotBeMadeError as error:
        outcome = Outcome(row.name, why=f"not run: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    verdict = "cured" if outcome.cured else "NOT cured"
    found = ", ".join(outcome.found) or "no problem"
    print(
        f"{row.name:5} {verdict} {len(outcome.rounds)} of {row.rounds}  {outcome.seconds:4.0f} s  {found}", flush=True
    )
    for advice, commands in zip(outcome.advice, outcome.rounds, strict=True):
        print("      -", advice, *commands, sep="\n        ")
    if outcome.why:
        print(f"      {outcome.why}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
