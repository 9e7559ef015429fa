"""What the scripts that derive parts of compat_matrix.yaml share: options, the part between two lines, the end."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfgpu_doctor.matrix.loader import Matrix, parse

MATRIX = Path(__file__).resolve().parent.parent / "compat_matrix.yaml"


def parser(document: str | None) -> argparse.ArgumentParser:
    """The options of every one of them; `document` is that of the script."""
    made = argparse.ArgumentParser(description=(document or "").partition("\n")[0])
    made.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is out of date")
    made.add_argument("--matrix", metavar="FILE", type=Path, default=MATRIX, help="the file to refresh")
    return made


def finish(file: Path, fresh: str, *, is_check: bool) -> int:
    """Write the new text of a file, or with `is_check` only compare it; the exit code.

    Raises MatrixError: the new text contradicts itself.
    """
    is_same = fresh == file.read_text(encoding="utf-8")
    if not is_same and not is_check:
        file.write_text(fresh, encoding="utf-8")
    print(f"{file.name} {'is up to date' if is_same else 'differs'}")
    Matrix(parse(fresh, str(file)), str(file)).check()
    return int(not is_same and is_check)


class Section:
    """The lines from `begin` to `end` of a file. Raises SystemExit: the file does not have them."""

    def __init__(self, file: Path, begin: str, end: str) -> None:
        """Read the file."""
        self.file = file
        self.text = file.read_text(encoding="utf-8")
        self._head, first, rest = self.text.partition(begin)
        _, last, self._tail = rest.partition(end)
        if not (first and last):
            raise SystemExit(f"{file} has no lines {begin!r} and {end!r}")

    def whole(self, lines: str) -> str:
        """The file with these lines in its place."""
        return self._head + lines + self._tail
