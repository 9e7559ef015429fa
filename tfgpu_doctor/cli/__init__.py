"""The command line: options, one call, render, exit code. Commands are imported only when they are called."""

from __future__ import annotations

import click

from tfgpu_doctor import __version__
from tfgpu_doctor.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "doctor": LazyCommand("tfgpu_doctor.cli.doctor", "Say what keeps TensorFlow from the GPU, why, and what to type."),
    "explain": LazyCommand("tfgpu_doctor.cli.explain", "Diagnose a pasted log, traceback or nvidia-smi table."),
    "plan": LazyCommand(
        "tfgpu_doctor.cli.plan", "Say which TensorFlow to install here, or on a machine that you describe."
    ),
    "matrix": LazyCommand(
        "tfgpu_doctor.cli.matrix", "Look up which TensorFlow, CUDA, cuDNN, driver and GPU go together."
    ),
    "check": LazyCommand(
        "tfgpu_doctor.cli.check",
        "Say before building whether requirements and manifests will work.",
    ),
    "bench": LazyCommand("tfgpu_doctor.cli.bench", "Measure CPU, one GPU and several GPUs, and verify every result."),
    "smoke": LazyCommand(
        "tfgpu_doctor.cli.smoke", "Say within a minute whether a GPU machine can be relied on, for CI."
    ),
    "compare": LazyCommand("tfgpu_doctor.cli.compare", "Say what changed between two reports or two bench results."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples: tfgpu doctor; tfgpu bench matpow --gpus 2",
)
@click.version_option(__version__, prog_name="tfgpu")
def cli() -> None:
    """Get TensorFlow to run, and run fast, on NVIDIA GPUs.

    Exit codes: 0 fine, 1 a problem was found, 2 wrong usage, 3 could not determine, 130 interrupted.
    """
