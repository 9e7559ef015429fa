"""`tfgpu plan`: which TensorFlow to install, on this machine or on another one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.output import detail_options, output_options, pair_outputs, redact_option, write
from tfgpu_doctor.cli.target import read_target, target_options
from tfgpu_doctor.cli.values import TENSORFLOW_VERSION

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.plan.ranking import MachineState
    from tfgpu_doctor.plan.target import Target
    from tfgpu_doctor.records.facts import Facts
    from tfgpu_doctor.render.formats import Detail

HARDWARE = ("gpu", "compute_capability", "driver", "os", "machine", "platform")


@define_command(
    "plan",
    short_help="Show which TensorFlow to install on this or another machine, with the commands.",
    epilog='Examples: tfgpu plan; tfgpu plan --gpu "RTX 5090" --driver 570.86 --python 3.12 --os wsl2',
)
@target_options
@option(
    "--tensorflow",
    "specifier",
    metavar="SPEC",
    type=TENSORFLOW_VERSION,
    help="Consider only these releases, such as 2.15 or '>=2.12,<2.16'.",
)
@option(
    "--from",
    "saved",
    metavar="REPORT.json",
    type=click.Path(),
    help="Plan for the machine of a saved doctor report; - is standard input.",
)
@detail_options
@option("--lock", is_flag=True, help="Pin NVIDIA's packages to the versions that TensorFlow was built with.")
@matrix_option
@redact_option
@output_options("plan")
@click.pass_context
def command(
    context: click.Context,
    /,
    specifier: str | None,
    detail: Detail | None,
    lock: bool,
    saved: str | None,
    matrix_file: str | None,
    redact: bool | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **machine: Any,
) -> None:
    """Show which TensorFlow to install, with the commands, and why newer releases are not suitable.

    Without options, or with only --python and --tensorflow, the plan is for this machine. --gpu, --compute-capability,
    --driver, --os, --machine and --platform describe another one; what they leave open is not taken from this machine.

    Exit codes: 0 a release was found, 1 no release is suitable, or there is no GPU, 2 wrong usage.
    """
    targets = pair_outputs(formats, outputs, "plan")
    other_machine = any(machine[name] for name in HARDWARE)
    if saved and other_machine:
        raise click.UsageError(
            "--from can be combined with --python and --tensorflow, but not with options that describe another machine"
        )
    matrix = load_matrix(matrix_file)
    target = read_target(matrix, **machine)
    state = None
    if not other_machine:
        target, state = _real(matrix, saved, target.python)
    from tfgpu_doctor.plan.ranking import make_plan
    from tfgpu_doctor.plan.target import TargetError, read_specifier

    try:
        wanted = read_specifier(specifier) if specifier else None
        plan = make_plan(matrix, target, specifier=wanted, state=state, lock=lock)
    except TargetError as error:
        raise click.UsageError(f"--tensorflow: {error}") from error
    write(plan, "plan", targets, redact=redact, detail=detail or "normal")
    context.exit(0 if plan.is_found else 1)


def _real(matrix: Matrix, saved: str | None, python: str | None) -> tuple[Target, MachineState]:
    """The machine of a report, or this one."""
    from tfgpu_doctor.cli.saved import load
    from tfgpu_doctor.plan.ranking import machine_state
    from tfgpu_doctor.plan.target import from_facts

    facts = load(saved, command="tfgpu plan --from").facts if saved else examined(matrix)
    return from_facts(facts, matrix, python), machine_state(facts, matrix, python)


def examined(matrix: Matrix) -> Facts:
    """This machine, without starting TensorFlow."""
    from tfgpu_doctor.cli.progress import spinner
    from tfgpu_doctor.probes.examine import examine

    with spinner("checking this machine"):
        return examine(sys.executable, lambda: matrix, import_tensorflow=False).facts
