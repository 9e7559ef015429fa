"""`tfgpu install --repair`: repair an existing environment."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.render.streams import guarded, say

if TYPE_CHECKING:
    from pathlib import Path

    from tfgpu_doctor.install.repair import Action, Repaired, Repairing
    from tfgpu_doctor.matrix.loader import Matrix


def repair(folder: str, matrix: Matrix, *, ask: bool, dry_run: bool) -> int:
    """Repair the environment in `folder`, and return the exit code. Raises click.UsageError: it is no environment."""
    from tfgpu_doctor.install.failures import InstallError
    from tfgpu_doctor.install.folder import read_path
    from tfgpu_doctor.install.repair import Repairing
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, EXIT_USAGE
    from tfgpu_doctor.render.console import console_for
    from tfgpu_doctor.render.terminal.repair import render_repaired

    shown = _Shown(ask=ask, dry_run=dry_run)
    try:
        repairing = Repairing(read_path(folder), matrix, shown)
        with nullcontext() if dry_run else repairing.alone():  # which makes a file
            repaired = repairing.run()
            log = _write_down(repairing, repaired) if repaired.steps else None
    except InstallError as error:
        if error.code == EXIT_USAGE:
            raise click.UsageError(str(error)) from error
        say(f"tfgpu: {error}")
        return error.code
    except KeyboardInterrupt:
        say(f"tfgpu: interrupted; run tfgpu install --repair {folder} again to finish it")
        raise
    render_repaired(str(repairing.prefix), repaired, str(log) if log else None, console_for(), dry_run=dry_run)
    if repaired.unreachable:
        return EXIT_UNKNOWN
    return EXIT_OK if repaired.healthy and not repaired.refused else EXIT_PROBLEM


def _write_down(repairing: Repairing, repaired: Repaired) -> Path | None:
    """Keep what was done, and return the log."""
    from tfgpu_doctor.install import repair_record

    log = repair_record.write_log(repairing, f"left: {', '.join(repair_record.remaining(repaired)) or 'nothing'}")
    try:
        repair_record.write(repairing, repaired)
    except OSError as error:
        say(f"tfgpu: the repair cannot be recorded: {error.strerror or error}")
    return log


class _Shown:
    """What a user sees while it works."""

    def __init__(self, *, ask: bool, dry_run: bool) -> None:
        self._ask, self._dry_run, self._told = ask, dry_run, ""

    def phase(self, label: str) -> None:
        """Show the progress."""
        if label != self._told:
            say(f"tfgpu: {label}")
        self._told = label

    def agrees(self, action: Action) -> bool:
        """Show what will be done, and ask."""
        from tfgpu_doctor.render.console import console_for
        from tfgpu_doctor.render.terminal.repair import render_action

        render_action(action, console_for())
        if self._dry_run:
            return False
        return not self._ask or confirmed("Do it? [y/N] ")

    def failed(self, error: str) -> None:
        """Show a command that failed."""
        say(f"tfgpu: {error}")


def confirmed(question: str) -> bool:
    """Ask at the terminal."""
    stream = guarded(sys.stderr, may_fail=True)
    stream.write(question)
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
