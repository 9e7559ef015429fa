"""Read saved reports and bench results from a file or from standard input, with a clear message for every error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.reading import read
from tfgpu_doctor.files.reading import shown

if TYPE_CHECKING:
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.report import Report

LARGEST = 64 * 2**20  # bytes; the largest report seen is a hundredth of it


def load(path: str, *, command: str = "tfgpu doctor --from") -> Report:
    """Load a report; "-" is standard input. `command` is shown in the message if it is a bench result.

    Raises click.UsageError: it cannot be read, is too large, or is not a report of this version.
    """
    from tfgpu_doctor.records.report import ReportError, load_report

    try:
        return load_report(read(path, LARGEST), shown(path), command)
    except ReportError as error:
        raise click.UsageError(str(error)) from error


def load_bench(path: str, command: str) -> BenchResult:
    """Load a bench result; "-" is standard input.

    Raises click.UsageError: it cannot be read, is too large, or is not a bench result of this version.
    """
    from tfgpu_doctor.bench.saved import load_result
    from tfgpu_doctor.records.report import ReportError

    try:
        return load_result(read(path, LARGEST), shown(path), command)
    except ReportError as error:
        raise click.UsageError(str(error)) from error


def load_pair(base: str, new: str) -> tuple[Report, Report] | tuple[BenchResult, BenchResult]:
    """Load two files of one kind, for tfgpu compare; "-" is standard input, for one of them.

    Raises click.UsageError: a file cannot be read or used, or the files are of different kinds.
    """
    from tfgpu_doctor.bench.saved import load_result
    from tfgpu_doctor.records.report import SCHEMA as REPORT
    from tfgpu_doctor.records.report import ReportError, load_report, other_kind, schema_of

    names = tuple(shown(path) for path in (base, new))
    data = tuple(read(path, LARGEST) for path in (base, new))
    command, reads = "tfgpu compare", "two doctor reports or two bench results"
    try:
        kinds = tuple(schema_of(content, name) for content, name in zip(data, names, strict=True))
        families = tuple(kind.partition("/")[0] for kind in kinds)
        if {"tfgpu.report", "tfgpu.bench"} == set(families):
            report, bench = names if families[0] == "tfgpu.report" else names[::-1]
            raise ReportError(f"{bench} is a bench result, but {report} is a doctor report; {command} reads {reads}")
        for name, kind, family in zip(names, kinds, families, strict=True):
            if family not in ("tfgpu.report", "tfgpu.bench"):
                raise ReportError(f"{name} {other_kind(kind, REPORT, command, reads)}")
        if families[0] == "tfgpu.bench":
            return load_result(data[0], names[0]), load_result(data[1], names[1])
        return load_report(data[0], names[0], command), load_report(data[1], names[1], command)
    except ReportError as error:
        raise click.UsageError(str(error)) from error
