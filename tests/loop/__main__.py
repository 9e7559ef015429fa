"""Follow the advice in rows of the table, and show each round: python -m tests.loop [NAME ...]."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.lab import Lab
from tests.loop.environments import CannotBeMadeError
from tests.loop.following import follow
from tests.loop.machine import Machine
from tests.loop.rows import ROWS


def main(names: list[str]) -> int:
    """Run the rows with these names, or all; the exit code says whether all were cured."""
    rows = [row for row in ROWS if not names or row.name in names]
    if set(names) - {row.name for row in rows}:
        print(f"rows are: {', '.join(row.name for row in ROWS)}", file=sys.stderr)
        return 2
    cured = True
    with tempfile.TemporaryDirectory(prefix="tfgpu-loop-") as folder:
        (laboratory := Path(folder) / "lab").mkdir()
        lab = Lab(laboratory)
        lab.cuda()
        machine = Machine(Path(folder) / "machine", lab.libraries)
        for row in sorted(rows, key=lambda one: one.packages[:1]):  # those of the same packages share them
            try:
                outcome = follow(row, Path(folder) / row.name, machine, {})
            except CannotBeMadeError as error:
                print(f"{row.name:5} not run: {error}", flush=True)
                cured = False
                continue
            finally:
                shutil.rmtree(Path(folder) / row.name, ignore_errors=True)
            verdict = "cured" if outcome.cured else "NOT cured"
            found = ", ".join(outcome.found) or "no problem"
            print(f"{row.name:5} {verdict} in {len(outcome.rounds)} of {row.rounds}: {found} {outcome.why}", flush=True)
            for advice, commands in zip(outcome.advice, outcome.rounds, strict=True):
                print("      -", advice, *commands, sep="\n        ")
            cured = cured and outcome.cured
    return 0 if cured else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
