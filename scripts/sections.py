"""The part of compat_matrix.yaml between two lines, which a script derives: read, written, checked."""

from __future__ import annotations

from pathlib import Path

from tfgpu_doctor.matrix.loader import Matrix, parse


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

    def finish(self, lines: str, *, is_check: bool) -> int:
        """Write the lines, or with `is_check` only compare them; the exit code.

        Raises MatrixError: the file contradicts itself with them.
        """
        fresh = self.whole(lines)
        if fresh != self.text and not is_check:
            self.file.write_text(fresh, encoding="utf-8")
        Matrix(parse(fresh, str(self.file)), str(self.file)).check()
        print(f"{self.file.name} " + ("is up to date" if fresh == self.text else "differs"))
        return int(fresh != self.text and is_check)
