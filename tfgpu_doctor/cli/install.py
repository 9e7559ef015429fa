"""`tfgpu install`: make an environment by the plan for this machine, and prove that it works."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import (
    choice,
    define_command,
    machine_options,
    matrix_option,
    option,
    tensorflow_option,
)
from tfgpu_doctor.cli.output import note
from tfgpu_doctor.cli.progress import bar, spinner
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.render.streams import guarded, say

if TYPE_CHECKING:
    from pathlib import Path

    from tfgpu_doctor.install.folder import InstallError
    from tfgpu_doctor.install.making import Choice, Making, Resolution
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.records.report import Report

_SHOWN_LINES = 15  # of the output of the program that failed in a dry run


@define_command(
    "install",
    epilog="Examples: tfgpu install ~/tf; tfgpu install ~/tf --dry-run; for an image: "
    'tfgpu install /opt/tf --yes --gpu H100 --driver 570 --python 3.12; tfgpu install ~/tf --tensorflow "<2.18"',
)
@click.argument("folder", metavar="DIR")
@machine_options()
@tensorflow_option
@choice(
    "--method",
    choices=("uv", "pip", "conda"),
    help="Program that creates the environment.  [default: uv if it is installed, else pip]",
)
@option("--yes", is_flag=True, help="Do not ask before packages are downloaded; required without a terminal.")
@option("--dry-run", is_flag=True, help="Only show what would be installed. DIR is not touched.")
@matrix_option
@click.pass_context
def command(
    context: click.Context,
    /,
    folder: str,
    tensorflow: str | None,
    method: Any,
    yes: bool,
    dry_run: bool,
    matrix: str | None,
    **machine: Any,
) -> None:
    """Create the environment DIR by the first option that `tfgpu plan` shows, and verify it.

    DIR must be empty, or not exist yet. It becomes a virtual environment (with conda: a conda environment), with the
    exact versions in DIR/tfgpu-lock.txt and a record of all steps in DIR/tfgpu-install.json. If anything fails, or you
    press Ctrl-C, DIR is left as it was before, and DIR.tfgpu-install.log contains the reason.

    This command uses the network, through uv, pip or conda. It uses the index, proxies and certificates that are
    configured for them (PIP_INDEX_URL, UV_INDEX_URL, pip.conf, HTTPS_PROXY, SSL_CERT_FILE).

    The options that describe the machine are those of tfgpu plan. On a machine without a GPU, such as one that builds
    an image, what needs a GPU is not verified.

    Exit codes: 0 created and verified, 1 not possible or not working, 2 wrong usage, 3 the index was not reachable, 130
    interrupted.
    """
    if not (yes or dry_run or _can_ask()):
        raise click.UsageError(
            "there is no terminal to ask at: add --yes to install, or --dry-run to show what would be installed"
        )
    from tfgpu_doctor.install.folder import Folder, InstallError, read_path, trial_folder
    from tfgpu_doctor.install.making import Making

    known = commands.load_matrix(matrix)
    with ExitStack() as folders, ExitStack() as stack:
        shown = _Shown(stack, ask=not yes, dry_run=dry_run)
        try:
            named = read_path(folder)
            place = folders.enter_context(trial_folder(named)) if dry_run else Folder(named, shown.removing)
            making = Making(_choose(known, tensorflow, method, machine), known, place, shown, method)
        except InstallError as error:
            raise _refused(error) from error
        context.exit(_run(making, known, shown))


def _refused(error: InstallError) -> commands.TfgpuError:
    from tfgpu_doctor.records.report import EXIT_USAGE

    return commands.UsageError(str(error)) if error.code == EXIT_USAGE else commands.TfgpuError(str(error), error.code)


def _run(making: Making, matrix: Matrix, shown: _Shown) -> int:
    """Make it, and show how that ended; the exit code."""
    from tfgpu_doctor.install.folder import InstallError
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_USAGE
    from tfgpu_doctor.render import install as page
    from tfgpu_doctor.render.console import console_for

    prefix = making.folder.path
    try:
        manifest = making.run()
    except InstallError as error:
        shown.clear()
        if error.code == EXIT_USAGE:
            raise _refused(error) from error
        log = _log(making, f"tfgpu install: {error}")
        page.render_failure(str(error), _explained(error, matrix, prefix), str(log) if log else None, console_for())
        return error.code
    except BaseException as error:  # also Ctrl-C: the log says how far the installation got
        why = (
            "interrupted" if isinstance(error, (KeyboardInterrupt, SystemExit)) else f"{type(error).__name__}: {error}"
        )
        if log := _log(making, f"tfgpu install: {why}"):
            say(f"tfgpu: the log is {log}")
        raise
    shown.clear()
    if manifest is None:
        say("tfgpu: nothing was installed")
    else:
        page.render_made(manifest, console_for())
    return EXIT_OK


def _log(making: Making, message: str) -> Path | None:
    """Keep what the programs wrote in a log beside the folder; a dry run writes nothing, and shows the end of it."""
    from tfgpu_doctor.install.making import keep_log

    if making.folder.path == making.folder.named:
        return keep_log(making.commands, making.folder.path, message=message)
    for line in "".join(making.commands.log[-1:]).splitlines()[-_SHOWN_LINES:]:
        say(line)
    return None


def _choose(matrix: Matrix, specifier: str | None, method: Any, machine: dict[str, Any]) -> Choice:
    """What is to be made. Raises click.UsageError: a value is not valid. Raises InstallError: nothing can be made."""
    from tfgpu_doctor.install.making import choose, host_target
    from tfgpu_doctor.plan.constraints import PlanRequest
    from tfgpu_doctor.plan.install_commands import repaired_by_links
    from tfgpu_doctor.plan.target import TargetError, read_specifier
    from tfgpu_doctor.probes import host
    from tfgpu_doctor.records.facts import value_or

    is_other = any(machine[name] for name in commands.HARDWARE)
    with nullcontext() if is_other else spinner("checking this machine"):
        target, state = commands.target_of(matrix, machine, note=note)  # type: ignore[arg-type]
    here = host.examine()
    system, architecture = value_or(here.os, "linux"), value_or(here.machine, "x86_64")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        target = host_target(target, system=system, machine=architecture, libc=value_or(here.libc, None))
        request = PlanRequest(matrix, target, read_specifier(specifier) if specifier else None)
        fixed = bool(machine["python"])
        repaired = repaired_by_links(matrix)
        return choose(request, state, repaired=repaired, first_pythons=(own,), fixed_python=fixed, method=method)
    except TargetError as error:
        raise click.UsageError(f"--tensorflow: {error}") from error


def _explained(error: InstallError, matrix: Matrix, prefix: Path) -> Report | None:
    """What the doctor says of an environment that does not work, or of what a program wrote."""
    from tfgpu_doctor.install.tools import CommandError, UnprovenError
    from tfgpu_doctor.parsers import lines, text_to_facts
    from tfgpu_doctor.plan.diagnosis import make_report

    if isinstance(error, UnprovenError) and error.proof.report:
        return _without_commands(error.proof.report, str(prefix))
    if not isinstance(error, CommandError) or not error.explained:
        return None
    excerpt = lines.read([utf8(error.output)])
    return make_report(text_to_facts.read(excerpt, matrix), matrix, source="text", timings={})


def _without_commands(report: Report, prefix: str) -> Report:
    """Without fixes whose commands are for the environment, which has been removed."""
    from msgspec import structs

    from tfgpu_doctor.plan.gate import joined

    findings = (
        structs.replace(one, fixes=joined(fix for fix in one.fixes if not any(prefix in line for line in fix.commands)))
        for one in report.findings
    )
    return structs.replace(report, findings=tuple(findings))


class _Shown:
    """What a user sees while it works: a bar on a terminal, else a line for each phase."""

    def __init__(self, stack: ExitStack, *, ask: bool, dry_run: bool) -> None:
        self._stack, self._ask, self._dry_run = stack, ask, dry_run
        self._told = ""
        self._begin()

    def _begin(self) -> None:
        self._tell = self._stack.enter_context(bar())

    def phase(self, label: str, done: float, detail: str = "") -> None:
        """Show the progress."""
        self._tell(f"{label}: {detail}" if detail else label, done)
        if label != self._told and not sys.stderr.isatty():
            say(f"tfgpu: {label}")
        self._told = label

    def removing(self, message: str) -> None:
        """Show that what was made is being removed."""
        self.clear()
        say(f"tfgpu: {message}")

    def clear(self) -> None:
        """Take the bar away."""
        self._stack.close()

    def agrees(self, resolution: Resolution) -> bool:
        """Show what was resolved, and ask."""
        from tfgpu_doctor.render.console import console_for
        from tfgpu_doctor.render.install import render_resolution

        self.clear()
        render_resolution(resolution, console_for())
        if self._dry_run:
            return False
        if self._ask and not _confirmed():
            return False
        self._begin()
        return True


def _confirmed() -> bool:
    """Ask at the terminal."""
    stream = guarded(sys.stderr, may_fail=True)
    stream.write("Install it? [y/N] ")
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
