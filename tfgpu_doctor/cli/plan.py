"""`tfgpu plan`: which TensorFlow to install, on this machine or on another one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import define_command, machine_options, matrix_option, rare_option, tensorflow_option
from tfgpu_doctor.cli.output import Results, note, result_options
from tfgpu_doctor.cli.progress import spinner


@define_command(
    "plan",
    epilog='Examples: tfgpu plan; tfgpu plan --gpu "RTX 5090" --driver 570.86 --python 3.12 --os wsl2',
)
@machine_options
@tensorflow_option
@rare_option(
    "--from",
    metavar="REPORT.json",
    type=click.Path(),
    help="Plan for the machine of a saved doctor report; - is standard input.",
)
@matrix_option
@result_options("plan", more="Show every option with all commands, and why each newer release was ruled out.")
@click.pass_context
def command(context: click.Context, /, results: Results, **asked: Any) -> None:
    """Show which TensorFlow to install, with the commands, and why newer releases are not suitable.

    Without options, or with only --python and --tensorflow, the plan is for this machine. --gpu, --compute-capability,
    --driver, --os and --machine describe another one; what they leave open is not taken from this machine.

    Exit codes: 0 a release was found, 1 no release is suitable, or there is no GPU, 2 wrong usage.
    """
    saved = asked.pop("from")
    is_this = not saved and not any(asked[name] for name in commands.HARDWARE)
    with spinner("checking this machine") if is_this else nullcontext():
        plan = commands.plan(saved=saved, note=note, **asked)
    results.write(plan, "plan")
    context.exit(0 if plan.is_found else 1)
