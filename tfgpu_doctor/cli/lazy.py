"""A group of commands that are imported only when they are called."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from tfgpu_doctor.cli.options import Group
from tfgpu_doctor.records.printable import whole


class LazyCommand(NamedTuple):
    """The module of a command, and its line in the list of commands (so that --help imports none)."""

    module: str
    summary: str


class LazyGroup(Group):
    """A group that imports a command when it is called."""

    def __init__(self, *arguments: Any, table: Mapping[str, LazyCommand], **options: Any) -> None:
        """Take the table of commands, and the arguments of click.Group."""
        super().__init__(*arguments, **options)
        self._table = table

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take arguments that the system could not give, half an emoji in a call from Python, as U+FFFD: so that a name
        of a file that cannot exist is one that does not.
        """
        return super().parse_args(ctx, [word if _is_possible(word) else whole(word) for word in args])

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

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._table.items()])


def _is_possible(word: str) -> bool:
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True
