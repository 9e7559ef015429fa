"""`tfgpu bench gan`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.choices import TRAINING, dtypes_option
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.values import Size


@define_command("gan", epilog="Examples: tfgpu bench gan; tfgpu bench gan --gpus all --dtype mixed_bfloat16")
@option(
    "--batch-size",
    "batch",
    metavar="N",
    type=Size(2, 1048576),
    default=128,
    show_default=True,
    help="Images per device: more devices do more work (weak scaling).",
)
@dtypes_option(TRAINING)
@measuring_options
@click.pass_context
def command(context: click.Context, batch: int, dtypes: tuple[str, ...], measuring: Measuring) -> None:
    """Train the DCGAN of TensorFlow's tutorial: generator and discriminator, a step of both.

    Every loss must be finite. The gradients of the first steps are compared with a training in float64; several
    devices are compared with one that computes all of their batches.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
    2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    from tfgpu_doctor.bench.plans.gan import Gan

    plan = Gan(batch=batch, dtypes=dtypes, selection=measuring.selection())
    context.exit(measure(plan, measuring))
