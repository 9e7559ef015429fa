"""The command line: options, one call, render, exit code. Commands are imported only when they are called."""

from __future__ import annotations

import click

from tfgpu_doctor import __version__
from tfgpu_doctor.cli.options import LazyGroup

# the summary of each command by what it is for, so that --help imports none
PURPOSES = {
    "Diagnose": {
        "doctor": "Diagnose why TensorFlow cannot use the GPU, and show how to fix it.",
        "explain": "Diagnose a pasted log, traceback or nvidia-smi output.",
    },
    "Measure": {
        "bench": "Measure CPU, one GPU and several GPUs, and verify every result.",
        "compare": "Compare two doctor reports or two bench results.",
    },
    "Rely on it in CI and clusters": {
        "smoke": "Test in a minute that TensorFlow works on the GPUs of this machine.",
        "fleet": "Find the odd nodes of a cluster, and why, from their reports.",
    },
    "Look up": {"plan": "Show which TensorFlow to install on this or another machine."},
    "More": {
        "install": "Create an environment with what tfgpu plan shows, and verify it.",
        "matrix": "Look up which TensorFlow, CUDA, cuDNN, driver and GPU are compatible.",
        "check": "Check requirements, Dockerfiles and manifests before building them.",
        "mcp": "Let an assistant diagnose, plan and check (Model Context Protocol).",
    },
}


@click.group(
    cls=LazyGroup,
    purposes=PURPOSES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "TFGPU"},
    epilog="Examples: tfgpu; tfgpu doctor --python ~/env/bin/python; TFGPU_DOCTOR_PYTHON=~/env/bin/python tfgpu",
)
@click.version_option(__version__, "-V", "--version", prog_name="tfgpu", allow_from_autoenv=False)
@click.pass_context
def cli(context: click.Context) -> None:
    """Diagnose and benchmark TensorFlow on NVIDIA GPUs.

    Without a command, tfgpu checks this machine: the verdict, the first fix, and what to type next.
    """
    if context.invoked_subcommand is None:
        from tfgpu_doctor.cli.doctor import command

        with command.make_context("doctor", ["--quiet"], parent=context) as doctor:
            command.invoke(doctor)
