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
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.render.streams import guarded, say

if TYPE_CHECKING:
    from pathlib import Path

    from tfgpu_doctor.facts.report import Report
    from tfgpu_doctor.install.folder import InstallError
    from tfgpu_doctor.install.making import Choice, Making
    from tfgpu_doctor.matrix.loader import Matrix


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
@option("--dry-run", is_flag=True, help="Only show what would be installed, and the commands.")
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
    from tfgpu_doctor.install.folder import Folder, InstallError, read_path
    from tfgpu_doctor.install.making import Making
    from tfgpu_doctor.render.console import console_for
    from tfgpu_doctor.render.install import render_choice

    known, shown = commands.load_matrix(matrix), ExitStack()  # the bar, which goes before anything else is printed

    def removing(message: str) -> None:
        shown.close()
        say(f"tfgpu: {message}")

    try:
        place = Folder(read_path(folder), removing)
        chosen = _choose(known, tensorflow, method, machine)
    except InstallError as error:
        raise _refused(error) from error
    render_choice(chosen, place.path, console_for())
    if dry_run:
        return
    if not (yes or _confirmed()):
        say("tfgpu: nothing was installed")
        return
    progress, told = shown.enter_context(bar()), ""

    def tell(what: str, done: float, line: str) -> None:
        nonlocal told
        progress(f"{what}: {line}" if line else what, done)
        if what != told and not sys.stderr.isatty():
            say(f"tfgpu: {what}")
        told = what

    context.exit(_run(Making(chosen, known, place, tell), known, shown))


def _refused(error: InstallError) -> commands.TfgpuError:
    from tfgpu_doctor.facts.report import EXIT_USAGE

    return commands.UsageError(str(error)) if error.code == EXIT_USAGE else commands.TfgpuError(str(error), error.code)


def _run(making: Making, matrix: Matrix, shown: ExitStack) -> int:
    """Make it, take away what is shown meanwhile, and show how that ended; the exit code."""
    from tfgpu_doctor.facts.report import EXIT_OK, EXIT_USAGE
    from tfgpu_doctor.install.folder import InstallError
    from tfgpu_doctor.install.making import keep_log
    from tfgpu_doctor.render import install as page
    from tfgpu_doctor.render.console import console_for

    prefix = making.folder.path
    try:
        with shown:
            manifest = making.run()
    except InstallError as error:
        if error.code == EXIT_USAGE:
            raise _refused(error) from error
        log = keep_log(making.commands, prefix, message=f"tfgpu install: {error}")
        page.render_failure(str(error), _explained(error, matrix, prefix), str(log) if log else None, console_for())
        return error.code
    except BaseException as error:  # also Ctrl-C: the log says how far the installation got
        is_signal = isinstance(error, (KeyboardInterrupt, SystemExit))
        why = "interrupted" if is_signal else f"{type(error).__name__}: {error}"
        if log := keep_log(making.commands, prefix, message=f"tfgpu install: {why}"):
            say(f"tfgpu: the log is {log}")
        raise
    page.render_made(manifest, console_for())
    return EXIT_OK


def _choose(matrix: Matrix, specifier: str | None, method: Any, machine: dict[str, Any]) -> Choice:
    """What is to be made. Raises click.UsageError: a value is not valid. Raises InstallError: nothing can be made."""
    from tfgpu_doctor.facts.facts import value_or
    from tfgpu_doctor.install.making import choose, host_target
    from tfgpu_doctor.plan.constraints import PlanRequest
    from tfgpu_doctor.plan.install_commands import repaired_by_links
    from tfgpu_doctor.plan.target import TargetError, read_specifier
    from tfgpu_doctor.probes import host

    is_other = any(machine[name] for name in commands.HARDWARE)
    with nullcontext() if is_other else spinner("checking this machine"):
        target, state = commands.target_of(matrix, machine, note=note)  # type: ignore[arg-type]
    here = host.examine()
    system, architecture = value_or(here.os, "linux"), value_or(here.machine, "x86_64")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        target = host_target(target, system=system, machine=architecture, libc=value_or(here.libc, None))
        request = PlanRequest(matrix, target, read_specifier(specifier) if specifier else None)
        fixed, repaired = bool(machine["python"]), repaired_by_links(matrix)
        return choose(request, state, repaired=repaired, own_python=own, fixed_python=fixed, method=method)
    except TargetError as error:
        raise click.UsageError(f"--tensorflow: {error}") from error


def _explained(error: InstallError, matrix: Matrix, prefix: Path) -> Report | None:
    """What the doctor says of an environment that does not work, or of what a program wrote."""
    from tfgpu_doctor.install.proof import UnprovenError
    from tfgpu_doctor.install.tools import CommandError
    from tfgpu_doctor.parsers import lines, text_to_facts
    from tfgpu_doctor.plan.diagnosis import make_report

    if isinstance(error, UnprovenError):
        return _without_commands(error.report, str(prefix))
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


def _confirmed() -> bool:
    """Ask at the terminal."""
    stream = guarded(sys.stderr, may_fail=True)
    stream.write("Install it? [y/N] ")
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
