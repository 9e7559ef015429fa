"""What the functions of the Python API raise: nothing else, and never SystemExit."""

from __future__ import annotations


class TfgpuError(Exception):
    """There is no result; the message says why, in the words of the command line."""


class UsageError(TfgpuError, ValueError):
    """An argument is wrong, or a file cannot be read; the message says which one, and what to give."""
