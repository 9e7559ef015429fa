"""Runs pip, uv and conda with variables and in a folder that tfgpu sets, and keeps each command with its output."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.install.failures import CommandError
from tfgpu_doctor.install.records import Ran
from tfgpu_doctor.probes import process
from tfgpu_doctor.records.units import seconds

QUICK = 120.0  # seconds for what downloads nothing large
RESOLVE = 1800.0  # pip downloads the wheels while it resolves
INSTALL = 7200.0


@dataclass
class Commands:
    """The commands of one installation."""

    env: Mapping[str, str]
    ran: list[Ran] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # what is kept where the installation fails

    def run(
        self,
        what: str,
        argv: Sequence[str],
        *,
        timeout: float = QUICK,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        """Run a command and return its output; `what` names the task in the error message.

        Raises CommandError: it failed, or ran out of time.
        """

        def look(line: str) -> None:
            if on_line:
                on_line(line)

        self.log.append(f"$ {' '.join(argv)}\n")
        # not in the user's folder: nothing there may be imported by python -m pip, or configure uv
        done = process.run(argv, timeout=timeout, env=self.env, cwd=os.sep, on_line=look, merged=True)
        self.ran.append(Ran(done.argv, done.returncode, round(done.seconds, 3)))
        ended = done.error or _ended(done, timeout)
        self.log.append(f"{done.stdout}{done.stderr}[{ended or 'exit code 0'}]\n")
        if ended:
            raise CommandError(what, ended, done.stdout + done.stderr, timed_out=done.timed_out)
        return done.stdout

    def note(self, text: str) -> None:
        """Keep a line in the log."""
        self.log.append(text + "\n")


def _ended(done: process.Completed, timeout: float) -> str:
    if done.flooded:
        return f"{os.path.basename(done.argv[0])} wrote more than {process.FLOOD / 1e6:.0f} MB"
    if done.timed_out:
        return f"{os.path.basename(done.argv[0])} did not end within {seconds(timeout)}"
    if done.signal_name:
        return f"ended by {done.signal_name}"
    return f"exit code {done.returncode}" if done.returncode else ""
