"""`tfgpu bench`: a workload a command."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.lazy import LazyCommand, LazyGroup

WORKLOADS = {
    "matpow": LazyCommand("tfgpu_doctor.cli.bench.matpow", "Powers of large matrices: A^n and B^n."),
    "cnn": LazyCommand("tfgpu_doctor.cli.bench.cnn", "Training steps of an image classifier, on any number of GPUs."),
    "transfer": LazyCommand("tfgpu_doctor.cli.bench.transfer", "Bytes between host and GPUs, and between GPUs."),
    "inference": LazyCommand(
        "tfgpu_doctor.cli.bench.inference", "Calls of a SavedModel: latency percentiles and throughput."
    ),
    "input": LazyCommand("tfgpu_doctor.cli.bench.input", "The tf.data pipeline against what a training eats."),
    "memory": LazyCommand("tfgpu_doctor.cli.bench.memory", "How large a training batch fits, and what it brings."),
    "gan": LazyCommand("tfgpu_doctor.cli.bench.gan", "Training steps of a small GAN: generator and discriminator."),
    "show": LazyCommand("tfgpu_doctor.cli.bench.show", "Print a saved result, or make the page of it."),
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
