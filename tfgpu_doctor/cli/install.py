"""`tfgpu install`: make an environment by the plan for this machine, and prove that it works."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import choice, define_command, machine_options, matrix_option, option, tensorflow_option
from tfgpu_doctor.cli.output import note
from tfgpu_doctor.cli.progress import spinner
from tfgpu_doctor.render.streams import guarded, say

if TYPE_CHECKING:
    from tfgpu_doctor.install.making import Choice
    from tfgpu_doctor.matrix.loader import Matrix

_LAST_LINES = 20  # of a program that failed


@define_command(
    "install",
    epilog="Examples: tfgpu install ~/tf; tfgpu install ~/tf --dry-run; for an image: "
    'tfgpu install /opt/tf --yes --gpu H100 --driver 570 --python 3.12; tfgpu install ~/tf --tensorflow "<2.18"',
)
@click.argument("folder", metavar="DIR")
@machine_options
@tensorflow_option
@choice(
    "--method",
    choices=("uv", "pip", "conda"),
    help="Program that creates the environment.  [default: uv if it is installed, else pip]",
)
@option("--yes", is_flag=True, help="Do not ask before packages are downloaded; required without a terminal.")
@option("--dry-run", is_flag=True, help="Only show what would be installed, and the commands.")
@matrix_option
def command(
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
    doctor's report in DIR/tfgpu-report.json. If anything fails, or you press Ctrl-C, DIR is left as it was before.

    This command uses the network, through uv, pip or conda. It uses the index, proxies and certificates that are
    configured for them (PIP_INDEX_URL, UV_INDEX_URL, pip.conf, HTTPS_PROXY, SSL_CERT_FILE).

    The options that describe the machine are those of tfgpu plan. On a machine without a GPU, such as one that builds
    an image, what needs a GPU is not verified.

    Exit codes: 0 created and verified, 1 not possible or not working, 2 wrong usage, 3 the index was not reachable, 130
    interrupted.
    """
    from tfgpu_doctor.facts.report import EXIT_USAGE
    from tfgpu_doctor.install.making import make
    from tfgpu_doctor.install.tools import InstallError, read_path
    from tfgpu_doctor.render.console import console_for
    from tfgpu_doctor.render.install import render_choice, render_made

    known = commands.load_matrix(matrix)
    try:
        prefix = read_path(folder)
        chosen = _choose(known, tensorflow, method, machine)
        if not (yes or dry_run or _can_ask()):
            raise click.UsageError(
                "there is no terminal to ask at: add --yes to install, or --dry-run to show what would be installed"
            )
        render_choice(chosen, prefix, console_for())
        if not (dry_run or yes or _confirmed()):
            say("tfgpu: nothing was installed")
        elif not dry_run:
            state, text = make(chosen, prefix, known, lambda message: say(f"tfgpu: {message}"))
            render_made(chosen, prefix, state, text, console_for())
    except InstallError as error:
        for line in error.output.splitlines()[-_LAST_LINES:]:
            say(f"    {line}")
        is_usage = error.code == EXIT_USAGE
        raise commands.UsageError(str(error)) if is_usage else commands.TfgpuError(str(error), error.code) from error


def _choose(matrix: Matrix, specifier: str | None, method: Any, machine: dict[str, Any]) -> Choice:
    """What is to be made. Raises click.UsageError: a value is not valid. Raises InstallError: nothing can be made."""
    from tfgpu_doctor.install.making import choose, host_target
    from tfgpu_doctor.plan.constraints import PlanRequest
    from tfgpu_doctor.plan.install_commands import repaired_by_commands
    from tfgpu_doctor.plan.target import TargetError, read_specifier
    from tfgpu_doctor.probes import host

    is_other = any(machine[name] for name in commands.HARDWARE)
    with nullcontext() if is_other else spinner("checking this machine"):
        target, state = commands.target_of(matrix, machine, note=note)  # type: ignore[arg-type]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        asked = read_specifier(specifier) if specifier else None
        request = PlanRequest(matrix, host_target(target, host.examine()), asked, repaired_by_commands(matrix))
        return choose(request, state, own_python=own, method=method, fixed_python=bool(machine["python"]))
    except TargetError as error:
        raise click.UsageError(f"--tensorflow: {error}") from error


def _confirmed() -> bool:
    """Ask at the terminal."""
    stream = guarded(sys.stderr, may_fail=True)
    stream.write("Install it? [y/N] ")
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
