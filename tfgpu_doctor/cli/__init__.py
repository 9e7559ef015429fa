"""The command line: options, one call, render, exit code. Commands are imported only when they are called."""

from __future__ import annotations

import click

from tfgpu_doctor import __version__
from tfgpu_doctor.cli.options import LazyGroup

# the summary of each command, so that --help imports none
COMMANDS = {
    "doctor": "Diagnose why TensorFlow cannot use the GPU, and show how to fix it.",
    "explain": "Diagnose a pasted log, traceback or nvidia-smi output.",
    "plan": "Show which TensorFlow to install on this or another machine, with the commands.",
    "install": "Create an environment with the TensorFlow that suits the GPU, and verify it.",
    "matrix": "Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.",
    "check": "Check requirements, Dockerfiles and manifests before building them.",
    "bench": "Measure CPU, one GPU and several GPUs, and verify every result.",
    "smoke": "Test in a minute that TensorFlow works on the GPUs of this machine, for CI.",
    "compare": "Compare two doctor reports or two bench results.",
    "fleet": "Find the odd nodes of a cluster, and why, from the reports of all nodes.",
    "mcp": "Let an assistant diagnose, plan and check, over the Model Context Protocol.",
}


@click.group(
    cls=LazyGroup,
    summaries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "TFGPU"},
    epilog="Examples: tfgpu doctor; tfgpu bench matpow --gpus 2",
)
@click.version_option(__version__, "-V", "--version", prog_name="tfgpu", allow_from_autoenv=False)
def cli() -> None:
    """Diagnose and benchmark TensorFlow on NVIDIA GPUs.

    Exit codes: 0 no problem, 1 a problem was found, 2 wrong usage, 3 could not determine, 130 interrupted.

    An environment variable sets an option, too: TFGPU_DOCTOR_TIMEOUT=60 is tfgpu doctor --timeout 60.
    """
