"""How commands declare options: hidden aliases, variables TFGPU_COMMAND_OPTION, and messages that name them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tfgpu_doctor.cli.values import Listed
from tfgpu_doctor.records.similar import did_you_mean, similar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_USER = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
# Options and commands of earlier versions, each with what replaces it; of a command, or of a group of commands.
_SUCCESSORS = {
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
    """An option; `aliases` are accepted and not shown: what it was called before, or what people try."""

    def __init__(self, *arguments: Any, aliases: Sequence[str] = (), **options: Any) -> None:
        """Take the arguments of click.Option; an option of the type Listed may be repeated."""
        if isinstance(options.get("type"), Listed):
            options["multiple"] = True
        super().__init__(*arguments, **options)
        self.aliases = tuple(aliases)

    def variable(self, context: click.Context) -> str | None:
        """The variable that sets it: TFGPU_DOCTOR_TIMEOUT; None for those that only print something and exit.

        One that is for several commands is named where it is declared.
        """
        if isinstance(self.envvar, str) and os.environ.get(self.envvar):
            return self.envvar
        if not self.expose_value and self.is_eager:
            return None
        words = (*context.command_path.split(), max(self.opts, key=len).lstrip("-"))
        return "_".join(words).replace("-", "_").upper()

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add it with its aliases."""
        shown = self.opts
        self.opts = [*shown, *self.aliases]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Read the variable; an empty one is not set."""
        name = self.variable(ctx)
        return (os.environ.get(name) or None) if name else None

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """The value of the variable, as the parser would give it."""
        text = self.resolve_envvar_value(ctx)
        if text is None:
            return None
        if self.is_flag:
            try:
                is_on = click.BOOL.convert(text, self, ctx)
            except click.BadParameter as error:
                hint = self.variable(ctx)
                raise click.BadParameter(f"{text!r} is neither 1 nor 0", ctx, self, hint) from error
            return is_on if self.is_bool_flag else self.flag_value if is_on else None
        if self.multiple:
            return (text,) if isinstance(self.type, Listed) else self.type.split_envvar_value(text)
        return text

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Process the value; an error names the variable that it comes from."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            if self.name and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT:
                error.param_hint = error.param_hint or self.variable(ctx)
            raise

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value; one flat tuple of a list."""
        found = super().type_cast_value(ctx, value)
        return self.type.flat(found) if isinstance(self.type, Listed) and found else found


def _option_meant(command: click.Command, ctx: click.Context, word: str) -> str:
    """A question after the option that is written most like `word`, with all its names; "" where none is."""
    names = {name: "/".join(one.opts) for one in command.get_params(ctx) for name in one.opts if name[:1] == "-"}
    near = similar(word, names, 1)
    return f" Did you mean {names[near[0]]}?" if near else ""


def _successor(ctx: click.Context, word: str) -> str | None:
    """Return the sentence about an option or a command that earlier versions had; None where there was none."""
    path = ctx.command_path.split()[1:]
    places = (" ".join([*path[:length], word]) for length in range(len(path), -1, -1))
    found = next((_SUCCESSORS[place] for place in places if place in _SUCCESSORS), None)
    return f"{word} was removed: {found}." if found else None


def _suggested(command: click.Command, ctx: click.Context, error: click.NoSuchOption) -> click.NoSuchOption:
    """The error, with the option that replaces it or may be meant; click suggests one for long options only."""
    if removed := _successor(ctx, error.option_name):
        return click.NoSuchOption(error.option_name, removed, ctx=error.ctx)
    meant = "" if error.possibilities else _option_meant(command, ctx, error.option_name)
    return click.NoSuchOption(error.option_name, f"{error.message}{meant}", ctx=error.ctx) if meant else error


class _Checked(click.Command):
    """What commands and groups share; what one refuses names the variables that take part in it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options. Raises click.UsageError: one of them does not exist, or has no such value."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _suggested(self, ctx, error) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            names = [
                variable
                for one in self.params
                if isinstance(one, Option)
                and ctx.get_parameter_source(one.name or "") is ParameterSource.ENVIRONMENT
                and (variable := one.variable(ctx))
                and os.environ.get(variable)
            ]
            if not names or hasattr(error, "messages"):
                raise
            raise click.UsageError(
                f"{error.message} (set by an environment variable: {', '.join(names)})", ctx
            ) from error


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
            hint = did_you_mean(args[0], names, 1) or _option_meant(self, ctx, args[0])
            every = f" Commands: {', '.join(names)}."
            ctx.fail(f"No such command {args[0]!r}.{hint or every}")
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
