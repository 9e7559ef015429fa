"""`tfgpu bench transfer`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.values import Listed, Size


@define_command(
    "transfer",
    context_settings={"default_map": {"deadline": 3.0}},  # of each route and size, of which there are many
    epilog="Examples: tfgpu bench transfer; tfgpu bench transfer --gpus all --size 1MiB,64MiB,1GiB",
)
@option(
    "--size",
    "sizes",
    metavar="SIZE,...",
    type=Listed(Size(2**10, 2**36, multiple=4)),
    help="Sizes to transfer, for example 4KiB,16MiB,1GiB.  [default: those of 1MiB,16MiB,256MiB that fit into memory]",
)
@measuring_options
@click.pass_context
def command(context: click.Context, sizes: tuple[int, ...], measuring: Measuring) -> None:
    """Transfer data between host and GPUs and between GPUs, and all-reduce over all GPUs; every result is verified.

    Measures host to device and back with pageable and with pinned memory, each pair of GPUs in both directions, and an
    all-reduce over all GPUs (bus bandwidth). On the CPU alone: a copy within the host's memory.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
    2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    from tfgpu_doctor.bench.plans.transfer import DEFAULT_SIZES, Transfer

    wanted = tuple(sorted(sizes)) or DEFAULT_SIZES
    context.exit(measure(Transfer(sizes=wanted, named=bool(sizes), selection=measuring.selection()), measuring))
