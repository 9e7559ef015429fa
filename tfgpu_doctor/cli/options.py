"""How commands declare options, and what is said of options and commands that were removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tfgpu_doctor.cli.values import Listed
from tfgpu_doctor.records.similar import did_you_mean

_Function = TypeVar("_Function", bound=Callable[..., Any])
_USER = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
# Options and commands of earlier versions, each with what replaces it; of a command, or of a group of commands.
_SUCCESSORS = {
    "completion": 'eval "$(_TFGPU_COMPLETE=bash_source tfgpu)" enables completion; also zsh_source, fish_source',
    "bench matpow --sweep": "--size takes several sizes",
    "bench transfer --sizes": "it is --size",
    "bench inference --batch-sizes": "it is --batch-size",
    "bench memory": "tfgpu bench cnn --batch-size auto finds the largest batch that fits, and measures it",
    **dict.fromkeys(
        ("bench --against", "bench --within"),
        "measure with --processes 5 --output NEW.json, and compare by tfgpu compare BASE.json NEW.json",
    ),
    **dict.fromkeys(
        ("bench --history", "compare --history"),
        "--output keeps a result of tfgpu bench in a file, and tfgpu compare BASE.json NEW.json compares two",
    ),
    **dict.fromkeys(
        ("fleet collect --here", "fleet collect --name"),
        "tfgpu doctor --format json prints the result of a node, which tfgpu fleet reads",
    ),
    "install --repair": "tfgpu doctor --python DIR prints the commands that repair an environment",
}


class Option(click.Option):
    """An option; one of the type Listed may be repeated."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of click.Option."""
        if isinstance(options.get("type"), Listed):
            options["multiple"] = True
        super().__init__(*arguments, **options)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Read the variable that is named after the option, TFGPU_DOCTOR_PYTHON; click names it after the parameter."""
        name = max(self.opts, key=len).lstrip("-").replace("-", "_").upper()
        return os.environ.get(f"{ctx.auto_envvar_prefix}_{name}") or None

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Return the value of the variable; click before 8.3.1 does not read that of a flag with a value (-v, -q)."""
        text = self.resolve_envvar_value(ctx)
        if text and self.is_flag and not self.is_bool_flag:
            return self.flag_value if click.BOOL.convert(text, self, ctx) else None
        return super().value_from_envvar(ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value; one flat tuple of a list."""
        found = super().type_cast_value(ctx, value)
        return self.type.flat(found) if isinstance(self.type, Listed) and found else found


def _successor(ctx: click.Context, word: str) -> str | None:
    """Return the sentence about an option or a command that earlier versions had; None where there was none."""
    path = ctx.command_path.split()[1:]
    places = (" ".join([*path[:length], word]) for length in range(len(path), -1, -1))
    found = next((_SUCCESSORS[place] for place in places if place in _SUCCESSORS), None)
    return f"{word} was removed: {found}." if found else None


class _Checked(click.Command):
    """What commands and groups share."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options. Raises click.UsageError: one of them does not exist, or has no such value."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if removed := _successor(ctx, error.option_name):
                raise click.NoSuchOption(error.option_name, removed, ctx=error.ctx) from error
            raise


class Command(_Checked):
    """A command."""


class Group(_Checked, click.Group):
    """A group of commands that suggests one for a name that it does not have."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises click.UsageError: there is none of that name."""
        names = self.list_commands(ctx)
        if args and (removed := _successor(ctx, args[0])):
            ctx.fail(removed)
        if args and args[0] not in names and not args[0].startswith("-"):
            hint = did_you_mean(args[0], names, 1) or f" Commands: {', '.join(names)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def option(*names: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option, as click.option does."""
    return click.option(*names, cls=Option, **attributes)


def define_command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command, as click.command does."""
    return click.command(name, cls=Command, **attributes)


def is_given(context: click.Context, name: str) -> bool:
    """Whether the user has set a parameter, on the command line or by its variable."""
    return context.get_parameter_source(name) in _USER
