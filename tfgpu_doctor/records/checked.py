"""What `tfgpu check` shows: the report, what each file says, and how the files can be changed."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.records.fact import Document, Record
from tfgpu_doctor.records.report import Report


class ReadFile(Record, frozen=True):
    """One environment: its file and what it names."""

    label: str  # "requirements.txt", "compose.yaml, service trainer"
    path: str
    content: str  # "tensorflow==2.15.1; Python 3.11"


class Change(Record, frozen=True):
    """A file, and what it would be with the advice of the report."""

    path: str
    before: str
    after: str


class Checked(Document, frozen=True):
    """A check; its JSON is that of the report."""

    report: Report
    target: str  # "RTX 4090 (compute capability 8.9), driver 570.86.10"
    files: tuple[ReadFile, ...]
    changes: tuple[Change, ...] = ()
    not_changed: tuple[str, ...] = ()  # edits that --fix does not make, each with its place and the reason
    fixed: bool = False  # the files are changed already

    def to_json(self) -> bytes:
        """The report as JSON."""
        return self.report.to_json()

    def in_brief(self) -> str:
        """The verdict and the causes."""
        return self.report.in_brief()

    @property
    def difference(self) -> Iterator[str]:
        """The changes as the lines of a patch, without their line endings."""
        from difflib import unified_diff

        for one in self.changes:
            before, after = (text.removesuffix("\n").split("\n") for text in (one.before, one.after))
            yield from unified_diff(before, after, one.path, one.path, n=1, lineterm="")
