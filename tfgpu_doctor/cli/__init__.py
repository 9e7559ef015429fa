"""The command line: options, one call, render, exit code. Commands are imported only when they are called."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from tfgpu_doctor import __version__


class LazyCommand(NamedTuple):
    """Where a command lives, and the line that stands for it in the list (so that --help imports none)."""

    module: str
    summary: str


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
    "compare": LazyCommand(
        "tfgpu_doctor.cli.compare", "Say what changed between two reports, and which change explains it."
    ),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Keep the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name`."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name what is near a command that does not exist."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else f" Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples: tfgpu doctor; tfgpu bench matpow --gpus 2",
)
@click.version_option(__version__, prog_name="tfgpu")
def cli() -> None:
    """Get TensorFlow to run, and run fast, on NVIDIA GPUs.

    Exit codes: 0 fine, 1 a problem was found, 2 wrong usage, 3 could not determine, 130 interrupted.
    """
