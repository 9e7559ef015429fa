"""Runs the refresh script of every table of compat_matrix.yaml that has one, and says what each changes.

    python scripts/refresh.py [--check] [--matrix FILE] [--only NAME] [--modules CLONE --installer CLONE ...]

Every scripts/refresh_*.py is run on a copy of the file; other options go to the scripts that know them (refresh_gpus.py
wants clones of NVIDIA's lists). Without --check, the tables that a script changed get today's date in the section
`updated`, and the file today's `revision`. A script that cannot reach its sources changes nothing: it is named, and the
others are run all the same. Exit codes: 0 nothing changed, 1 a table was changed, or would be with --check, 2 a table
could not be reached and no other one changed.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MATRIX = ROOT / "compat_matrix.yaml"
TIMEOUT = 3600  # seconds of a script
_TOP = re.compile(r"^([a-z_]+):", re.MULTILINE)  # the name of a section
_NOT_TABLES = ("schema", "revision", "sources", "updated")
_LAST_LINES = 3  # of what a script that failed printed


@dataclass(frozen=True)
class Outcome:
    """What became of a script."""

    script: str
    tables: tuple[str, ...]  # that it changes
    failure: str = ""  # the end of what it printed, where it could not do its work

    @property
    def line(self) -> str:
        """What is printed of it."""
        if self.failure:
            return f"{self.script}: could not be reached or read: {self.failure}"
        return f"{self.script}: " + (f"changes {', '.join(self.tables)}" if self.tables else "no change")


def scripts(folder: Path) -> list[Path]:
    """The scripts that refresh a table."""
    return sorted(folder.glob("refresh_*.py"))


def sections(text: str) -> dict[str, str]:
    """Name of a table → its lines."""
    starts = list(_TOP.finditer(text))
    ends = [*(found.start() for found in starts[1:]), len(text)]
    found = {start[1]: text[start.start() : end] for start, end in zip(starts, ends, strict=True)}
    return {name: lines for name, lines in found.items() if name not in _NOT_TABLES}


def changed(before: str, after: str) -> tuple[str, ...]:
    """The tables that two texts of the matrix do not share, comments aside."""
    old, new = ({name: _rows(lines) for name, lines in sections(text).items()} for text in (before, after))
    return tuple(name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name))


def _rows(lines: str) -> list[str]:
    return [line for line in lines.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def known_to(script: Path, options: Iterable[str]) -> list[str]:
    """Those of the options, with their values, that a script names."""
    text, given, taken = script.read_text(encoding="utf-8"), [], False
    for word in options:
        taken = f'"{word.partition("=")[0]}"' in text if word.startswith("--") else taken
        given += [word] if taken else []
    return given


def run(script: Path, matrix: Path, timeout: float = TIMEOUT, options: Iterable[str] = ()) -> Outcome:
    """Run a script on a file, which it writes."""
    before = matrix.read_text(encoding="utf-8")
    command = [sys.executable, str(script), "--matrix", str(matrix), *known_to(script, options)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        matrix.write_text(before, encoding="utf-8")
        return Outcome(script.name, (), f"no answer within {timeout:g} s")
    if done.returncode:
        matrix.write_text(before, encoding="utf-8")
        said = (done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:]
        return Outcome(script.name, (), " / ".join(said) or f"exit code {done.returncode}")
    return Outcome(script.name, changed(before, matrix.read_text(encoding="utf-8")))


def dated(text: str, tables: Iterable[str], day: str) -> str:
    """The text with this day for the tables, and as its revision."""
    for table in tables:
        text = re.sub(rf'(?m)^(  {re.escape(table)}: )"[0-9-]+"$', rf'\g<1>"{day}"', text, count=1)
    return re.sub(r'(?m)^revision: "[^"]*"$', f'revision: "{day}"', text, count=1)


def refresh(folder: Path, matrix: Path, only: str | None, more: Iterable[str]) -> Iterator[Outcome]:
    """Run the scripts on a file, one after the other, each on what the one before left."""
    for script in scripts(folder):
        if only is None or only in script.stem:
            yield run(script, matrix, options=more)


def main(arguments: list[str] | None = None, folder: Path = ROOT / "scripts") -> int:
    """Refresh everything, or only say what would change."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a table would change")
    parser.add_argument("--matrix", metavar="FILE", type=Path, default=MATRIX, help="the file to refresh")
    parser.add_argument("--only", metavar="NAME", help="only the scripts with this in their name")
    options, more = parser.parse_known_args(arguments)
    before = options.matrix.read_text(encoding="utf-8")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as copy:
        work = Path(copy) / options.matrix.name
        work.write_text(before, encoding="utf-8")
        for outcome in refresh(folder, work, options.only, more):
            print(outcome.line, flush=True)
            outcomes.append(outcome)
        tables = dict.fromkeys(table for outcome in outcomes for table in outcome.tables)
        if tables and not options.check:
            today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
            options.matrix.write_text(dated(work.read_text(encoding="utf-8"), tables, today), encoding="utf-8")
    if not outcomes:
        raise SystemExit(f"no script named refresh_*{options.only or ''}*.py in {folder}")
    return 1 if tables else 2 if any(outcome.failure for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
