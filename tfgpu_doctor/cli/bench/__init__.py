"""`tfgpu bench`: a workload a command."""

from __future__ import annotations

import click

from tfgpu_doctor.bench.workload_registry import WORKLOADS
from tfgpu_doctor.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    **{name: LazyCommand(f"{__name__}.{name}", workload.summary) for name, workload in WORKLOADS.items()},
    "show": LazyCommand(f"{__name__}.show", "Print a saved result, or make an HTML page from it."),
}


@click.group(
    "bench",
    cls=LazyGroup,
    table=COMMANDS,
    short_help="Measure CPU, one GPU and several GPUs, and verify every result.",
    epilog="Example: tfgpu bench matpow --gpus 2 --output result.json",
)
def command() -> None:
    """Measure CPU, one GPU and several GPUs, and verify every result.

    A run is a workload on one set of devices, with one data type. It is timed repeatedly; each time is a sample.
    """
