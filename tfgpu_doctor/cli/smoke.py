"""`tfgpu smoke`: a test for CI jobs on machines with GPUs."""

from __future__ import annotations

from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.bench.requests import MATRIX_TYPES
from tfgpu_doctor.cli.options import HAS_TENSORFLOW, choice, define_command, matrix_option, option, python_option
from tfgpu_doctor.cli.output import Results, result_options
from tfgpu_doctor.cli.progress import bar
from tfgpu_doctor.facts.parameters import Seconds

_POSITIVE = click.FloatRange(min=0, min_open=True)


@define_command(
    "smoke",
    epilog="Examples: tfgpu smoke --require-gpus 2 --min-tflops 40; "
    "tfgpu smoke --format github --format junit --output - --output tfgpu.xml; without a GPU: "
    "tfgpu smoke --require-gpus 0",
)
@option(
    "--require-gpus",
    metavar="N",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Fail if TensorFlow lists fewer than N GPUs; 0 tests the CPU if there is no GPU.",
)
@option(
    "--budget",
    metavar="S",
    type=Seconds(5),
    default=60.0,
    show_default=True,
    help="Time limit in seconds, including the import of TensorFlow; steps that exceed it are reported as not run.",
)
@choice(
    "--dtype",
    choices=MATRIX_TYPES,
    default="float32",
    show_default=True,
    rare=True,
    help="Data type; float32 is without TF32. Training uses the corresponding mixed precision.",
)
@option("--min-tflops", metavar="X", type=_POSITIVE, help="Fail if a GPU computes a matrix product with fewer TFLOP/s.")
@python_option(HAS_TENSORFLOW)
@matrix_option
@result_options("smoke", more="Show every check that was not run, and the whole findings of a diagnosis that failed.")
@click.pass_context
def command(
    context: click.Context,
    /,
    python: str | None,
    matrix: str | None,
    results: Results,
    **asked: Any,
) -> None:
    """Run the diagnosis, then small verified computations on every GPU and on all of them together.

    One line is printed for each check: ok, failed, not run, or could not determine.

    Exit codes: 0 all checks are ok, 1 a check failed, or fewer GPUs than required, 2 wrong usage, 3 a check could not
    be determined or exceeded the budget, 130 interrupted.
    """
    from tfgpu_doctor.smoke.records import exit_code
    from tfgpu_doctor.smoke.running import SmokeOptions

    with bar() as progress:
        smoke = commands.smoke(SmokeOptions(**asked), python=python, matrix=matrix, progress=progress)
    results.write(smoke, "smoke")
    context.exit(exit_code(smoke.verdict))
