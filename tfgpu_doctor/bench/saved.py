"""Saved bench results: read back, with a sentence for everything that can be wrong with one. Pure."""

from __future__ import annotations

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.bench.results import SCHEMA, BenchResult
from tfgpu_doctor.records.report import ReportError, decode_saved, other_kind, schema_of, short, without_mark


class _Written(msgspec.Struct):
    """The part of a result that says who wrote it."""

    class Tool(msgspec.Struct):
        """The program."""

        version: str

    tool: Tool


def load_result(data: bytes, name: str, command: str = "tfgpu compare") -> BenchResult:
    """Decode a saved bench result; `name` and the `command` that reads it stand in the message.

    Raises ReportError: not JSON, no bench result, or one of another schema version.
    """
    kind = schema_of(data, name)
    if kind != SCHEMA:
        raise ReportError(f"{name} {other_kind(kind, SCHEMA, command, 'a bench result')}")
    try:
        return decode_saved(data, BenchResult, name, "bench result")
    except ReportError as error:
        raise ReportError(f"{error}{_by(data)}") from error


def _by(data: bytes) -> str:
    """Who wrote it, where that is another version: a later one may write fields that this one does not know."""
    try:
        version = msgspec.json.decode(without_mark(data), type=_Written).tool.version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if version == __version__ else f"; it was written by tfgpu {short(version)}, and this is {__version__}"
