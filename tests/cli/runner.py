"""`tfgpu` for the tests: in this process, which takes a tenth of a start, or in one of its own where that is tested."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import click

from tests.healthy import MATRIX
from tfgpu_doctor.__main__ import main
from tfgpu_doctor.cli import cli
from tfgpu_doctor.matrix.loader import Matrix

HERE = Path()
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)  # a command catches them


def tfgpu(
    *arguments: str,
    input: str | bytes | None = "",
    environ: Mapping[str, str] | None = None,
    cwd: Path = HERE,
) -> subprocess.CompletedProcess[str]:
    """What `process` does, in this process: the console script with its streams, variables and folder replaced.

    Streams have the encoding that PYTHONIOENCODING names, and are no terminals. `input`: None where standard input is
    closed (<&-).
    """
    environ = {"COLUMNS": "80", **(environ or {})}
    encoding = environ.get("PYTHONIOENCODING", "utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, errors) for errors in ("strict", "backslashreplace"))
    data = input.encode() if isinstance(input, str) else input
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with (
            patch.dict(os.environ, environ),
            patch.object(sys, "argv", ["tfgpu", *arguments]),
            patch("tfgpu_doctor.__main__._end_children"),  # that would be the children of the tests
            matrix_read_once(),
            patch.object(sys, "stdin", None if data is None else io.TextIOWrapper(io.BytesIO(data), encoding)),
            redirect_stdout(out),
            redirect_stderr(err),
            _inside(cwd),
        ):
            code = _exit_code()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for stream in (out, err):
        stream.flush()
    printed = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, code, *printed)


@contextmanager
def matrix_read_once() -> Iterator[None]:
    """Use a bundled matrix that was read already: it and its releases cost more than most commands."""
    load = Matrix.load
    with patch.object(Matrix, "load", lambda *layers: load(*layers) if any(layers) else MATRIX):
        yield


def _exit_code() -> int:
    try:
        main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    return 0


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """`python -m tfgpu_doctor` in a process of its own, for what only a real one shows."""
    environ = {**os.environ, "COLUMNS": "80", **options.pop("environ", {})}  # type: ignore[dict-item]
    return subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environ,
        **options,  # type: ignore[call-overload]
    )


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal; one that has ended has a reason to be looked at, too."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1) or "State:\tZ" in status


def commands(group: click.Group = cli, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command by its words, groups included."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")


def runs(command: click.Command) -> bool:
    """True if it does something itself, and is no mere list of commands."""
    return not isinstance(command, click.Group) or command.invoke_without_command
