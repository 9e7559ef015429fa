"""A group of commands that are imported only when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """The module of a command, and its line in the list of commands (so that --help imports none)."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def __init__(self, *arguments: Any, table: Mapping[str, LazyCommand], **options: Any) -> None:
        """Take the table of commands, and the arguments of click.Group."""
        super().__init__(*arguments, **options)
        self._table = table

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Keep the order of the table."""
        return list(self._table)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name`."""
        if cmd_name not in self._table:
            return None
        command = importlib.import_module(self._table[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a similar name for a command that does not exist."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            from difflib import get_close_matches

            similar = get_close_matches(args[0], self._table, n=1, cutoff=0.5)
            hint = f" Did you mean {similar[0]}?" if similar else f" Commands: {', '.join(self._table)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._table.items()])
