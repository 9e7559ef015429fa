"""`tfgpu bench`: a workload a command."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.lazy import LazyCommand, LazyGroup

WORKLOADS = {
    "matpow": LazyCommand("tfgpu_doctor.cli.bench.matpow", "Powers of large matrices: A^n and B^n."),
}


@click.group(
    "bench",
    cls=LazyGroup,
    table=WORKLOADS,
    short_help="Measure CPU, one GPU and several GPUs, and verify every result.",
    epilog="Example: tfgpu bench matpow --gpus 2 --output result.json",
)
def command() -> None:
    """Measure CPU, one GPU and several GPUs, and verify every result."""
