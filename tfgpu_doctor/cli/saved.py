"""Read saved reports and bench results from a file or from standard input, with a clear message for every error."""

from __future__ import annotations

import os
import select
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.report import Report

LARGEST = 64 * 2**20  # bytes; the largest report seen is a hundredth of it
PIPE_TIMEOUT = 5  # seconds until the first byte of a named pipe must have been written


def load(path: str, *, command: str = "tfgpu doctor --from") -> Report:
    """Load a report; "-" is standard input. `command` is shown in the message if it is a bench result.

    Raises click.UsageError: it cannot be read, is too large, or is not a report of this version.
    """
    from tfgpu_doctor.records.report import ReportError, load_report

    name = "standard input" if path == "-" else path
    try:
        return load_report(_read(path, name), name, command)
    except ReportError as error:
        raise click.UsageError(str(error)) from error


def load_bench(path: str, command: str) -> BenchResult:
    """Load a bench result; "-" is standard input.

    Raises click.UsageError: it cannot be read, is too large, or is not a bench result of this version.
    """
    from tfgpu_doctor.bench.saved import load_result
    from tfgpu_doctor.records.report import ReportError

    name = "standard input" if path == "-" else path
    try:
        return load_result(_read(path, name), name, command)
    except ReportError as error:
        raise click.UsageError(str(error)) from error


def load_pair(base: str, new: str) -> tuple[Report, Report] | tuple[BenchResult, BenchResult]:
    """Load two files of one kind, for tfgpu compare; "-" is standard input, for one of them.

    Raises click.UsageError: a file cannot be read or used, or the files are of different kinds.
    """
    from tfgpu_doctor.bench.saved import load_result
    from tfgpu_doctor.records.report import SCHEMA as REPORT
    from tfgpu_doctor.records.report import ReportError, load_report, other_kind, schema_of

    names = tuple("standard input" if path == "-" else path for path in (base, new))
    data = tuple(_read(path, name) for path, name in zip((base, new), names, strict=True))
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


def _read(path: str, name: str) -> bytes:
    try:
        if path == "-":
            return _bounded(sys.stdin.buffer, name)
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return _from_pipe(path, name)
        with Path(path).open("rb") as stream:
            return _bounded(stream, name)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise click.UsageError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    except AttributeError as error:  # sys.stdin is None where it was closed
        raise click.UsageError(f"cannot read {name}: it is closed") from error


def _from_pipe(path: str, name: str) -> bytes:
    """Read a named pipe, to which no process may be writing."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as stream:  # noqa: PTH123 - a descriptor, not a path
        if not select.select([handle], [], [], PIPE_TIMEOUT)[0]:
            raise click.UsageError(f"cannot read {name}: no data on this pipe for {PIPE_TIMEOUT} seconds")
        os.set_blocking(handle, True)
        return _bounded(stream, name)


def _bounded(stream: BinaryIO, name: str) -> bytes:
    data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise click.UsageError(f"{name} is larger than {LARGEST // 2**20} MiB; it is not a tfgpu report")
    return data
