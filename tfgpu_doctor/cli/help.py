"""`tfgpu help`: the help page of a command, as its --help prints it."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.output import Output


@define_command(
    "help",
    short_help="Show the help page of a command.",
    epilog="Examples: tfgpu help; tfgpu help bench matpow",
)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help page of a command, or the list of commands."""
    found = context.find_root()
    for word in words:
        group = found.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{found.command_path} has no commands: {word}")
        _, below, _ = group.resolve_command(found, [word])
        assert below is not None
        found = click.Context(below, info_name=word, parent=found)
    Output("text", None).write_text(found.get_help() + "\n")
