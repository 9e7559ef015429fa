"""`tfgpu bench matpow`: options, one measurement, render, exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.bench.choices import dtypes_option
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.values import Listed, OneOf

if TYPE_CHECKING:
    from tfgpu_doctor.bench.plans.base import PlanBase

DTYPES = ("float32", "tf32", "float16", "bfloat16", "float64")


@define_command(
    "matpow",
    epilog="Examples: tfgpu bench matpow; tfgpu bench matpow --gpus all --dtype tf32 --dtype bfloat16; "
    "the classic: tfgpu bench matpow --size 10000 --power 10 --gpus 2",
)
@option(
    "--size",
    "sizes",
    metavar="N,...|auto",
    type=Listed(),
    help="Rows of the square matrices. Several show how the throughput grows: 256,512,1024 or 256,...,16384 (doubling) "
    "or auto; those that do not fit into memory, or take too long for --deadline, are skipped and listed.  "
    "[default: a sample takes about a second on the slowest device; GPUs are also measured at a size that fills them]",
)
@option(
    "--power", metavar="n", type=click.IntRange(min=2, max=1000), default=10, show_default=True, help="The n of A^n."
)
@dtypes_option(DTYPES)
@option(
    "--spread",
    type=OneOf(["terms", "rows", "both"]),
    default="both",
    show_default=True,
    help="How to distribute the work over several devices: terms computes one power per device (weak scaling beyond "
    "two), rows a share of the rows of both powers per device (strong scaling).",
)
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    sizes: tuple[str, ...],
    power: int,
    dtypes: tuple[str, ...],
    spread: str,
    measuring: Measuring,
) -> None:
    """Compute A^n and B^n on the CPU, one GPU and several GPUs; every result is verified in float64.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
    2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    from tfgpu_doctor.bench.devices import SPREADS
    from tfgpu_doctor.bench.plans.matpow import MatPow, SizesError, Sweep, parse_sizes
    from tfgpu_doctor.bench.plans.workload_size import too_high_a_power

    selection = measuring.selection()
    if too_high := too_high_a_power(power, dtypes):
        raise click.UsageError(too_high)
    spreads = SPREADS if spread == "both" else (spread,)
    plan: PlanBase
    try:
        found = parse_sizes(",".join(sizes)) if sizes else ()
    except SizesError as error:
        raise click.UsageError(str(error)) from error
    if len(found) < 2:
        plan = MatPow(
            size=found[0] if found else None,
            own_sizes=not found,
            power=power,
            dtypes=dtypes,
            selection=selection,
            spreads=spreads,
        )
    else:
        named = all(part.strip().isdecimal() for part in ",".join(sizes).split(","))
        plan = Sweep(sizes=found, named=named, power=power, dtypes=dtypes, selection=selection, spreads=spreads)
    context.exit(measure(plan, measuring))
