"""`tfgpu plan`: which TensorFlow to install, on this machine or on another one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import define_command, matrix_option, option, target_options, tensorflow_option
from tfgpu_doctor.cli.output import detail_options, note, output_options, pair_outputs, redact_option, write
from tfgpu_doctor.cli.progress import spinner


@define_command(
    "plan",
    short_help="Show which TensorFlow to install on this or another machine, with the commands.",
    epilog='Examples: tfgpu plan; tfgpu plan --gpu "RTX 5090" --driver 570.86 --python 3.12 --os wsl2',
)
@target_options
@tensorflow_option
@option(
    "--from",
    "saved",
    metavar="REPORT.json",
    type=click.Path(),
    help="Plan for the machine of a saved doctor report; - is standard input.",
)
@detail_options
@matrix_option
@redact_option
@output_options("plan")
@click.pass_context
def command(
    context: click.Context,
    /,
    detail: str | None,
    redact: bool | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **asked: Any,
) -> None:
    """Show which TensorFlow to install, with the commands, and why newer releases are not suitable.

    Without options, or with only --python and --tensorflow, the plan is for this machine. --gpu, --compute-capability,
    --driver, --os, --machine and --platform describe another one; what they leave open is not taken from this machine.

    Exit codes: 0 a release was found, 1 no release is suitable, or there is no GPU, 2 wrong usage.
    """
    targets = pair_outputs(formats, outputs, "plan")
    is_this = not asked["saved"] and not any(asked[name] for name in commands.HARDWARE)
    with spinner("checking this machine") if is_this else nullcontext():
        plan = commands.plan(note=note, **asked)
    write(plan, "plan", targets, redact=redact, detail=detail or "normal")
    context.exit(0 if plan.is_found else 1)
