"""`tfgpu bench matpow`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options

DTYPES = ("float32", "tf32", "float16", "bfloat16", "float64")


@click.command(
    "matpow",
    epilog="Examples: tfgpu bench matpow; tfgpu bench matpow --gpus all --dtype tf32 --dtype bfloat16; "
    "the classic: tfgpu bench matpow --size 10000 --power 10 --gpus 2",
)
@click.option(
    "--size",
    metavar="N",
    type=click.IntRange(min=16, max=131072),
    help="Rows of the square matrices.  [default: about two seconds a sample on the slowest device]",
)
@click.option("--power", metavar="n", type=click.IntRange(min=2, max=1000), default=10, show_default=True, help="A^n.")
@click.option(
    "--dtype",
    "dtypes",
    type=click.Choice(DTYPES),
    multiple=True,
    default=("float32",),
    help="Type of the arithmetic; may be repeated. float32 is without TF32.  [default: float32]",
)
@click.option(
    "--spread",
    type=click.Choice(["terms", "rows", "both"]),
    default="both",
    show_default=True,
    help="Over several devices: terms is a power each (more GPUs than two get more work), rows is a share of the rows "
    "of both powers each (the same work).",
)
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    size: int | None,
    power: int,
    dtypes: tuple[str, ...],
    spread: str,
    measuring: Measuring,
) -> None:
    """Compute A^n and B^n on the CPU, one GPU and several GPUs; every result is verified in float64.

    Exit codes: 0 measured, 1 a result was wrong, a case failed, or GPUs that were asked for are not there,
    2 wrong usage, 3 TensorFlow could not be used.
    """
    from tfgpu_doctor.bench.devices import SPREADS
    from tfgpu_doctor.bench.matpow import MatPow
    from tfgpu_doctor.bench.sizing import too_high_a_power

    selection = measuring.selection()
    if too_high := too_high_a_power(power, dtypes):
        raise click.UsageError(too_high)
    plan = MatPow(
        size=size,
        power=power,
        dtypes=tuple(dict.fromkeys(dtypes)),
        selection=selection,
        spreads=SPREADS if spread == "both" else (spread,),
    )
    context.exit(measure(plan, measuring))
