"""How commands declare options: commands that are imported when they are called, and the options that several share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from tfgpu_doctor import commands
from tfgpu_doctor.facts.parameters import Listed, Option
from tfgpu_doctor.render.streams import say

_Function = TypeVar("_Function", bound=Callable[..., Any])


# Commands and options that earlier commits had → what to use instead.
_TWO_RESULTS = "--output FILE.json keeps a result, and tfgpu compare BASE.json NEW.json compares two"
_COLLECTING = "docs/collecting.md has a line each for Ray, Slurm, Kubernetes, Ansible and ssh"
SUCCESSORS = {
    "memory": "tfgpu bench cnn --batch-size auto finds the largest batch that fits, and measures it",
    "container": "tfgpu matrix find IMAGE:TAG shows it",
    "jetpack": "tfgpu matrix find VERSION shows it",
    "driver": "tfgpu matrix tensorflow --driver VERSION shows what runs on it",
    "python": "tfgpu matrix tensorflow --python VERSION shows what has wheels for it",
    "--against": _TWO_RESULTS,
    "--history": _TWO_RESULTS,
    "--baseline": "tfgpu compare BASE.json NEW.json compares two reports, or two results of a benchmark",
    "--repair": "tfgpu doctor --python DIR prints the commands that repair an environment",
    "--fix": "change the lines that tfgpu check names, then check again",
    **dict.fromkeys(("-q", "--quiet"), "the exit code tells the verdict, and >/dev/null silences a command"),
    **dict.fromkeys(("collect", "--ray", "--slurm"), _COLLECTING),
}


class _Refused(click.UsageError):
    """Wrong usage in several messages, each of which is shown on a line of its own."""

    def __init__(self, error: commands.UsageError, context: click.Context) -> None:
        super().__init__(str(error), context)
        self.messages = error.messages


class Command(click.Command):
    """A command, whose function may raise the errors of the Python API."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the successor of an option that is gone."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in SUCCESSORS:
                ctx.fail(f"{error.option_name} was removed: {SUCCESSORS[error.option_name]}.")
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises click.UsageError: an argument is wrong. Without a result, say why and exit."""
        try:
            return super().invoke(ctx)
        except commands.UsageError as error:
            raise _Refused(error, ctx) from error
        except commands.TfgpuError as error:
            first, *more = str(error).splitlines()
            for line in (f"tfgpu: {first}", *more):
                say(line)
            ctx.exit(error.exit_code)


class Group(click.Group):
    """A group of commands, in the order of their declarations."""

    command_class = Command

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Keep the order of the declarations."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the successor of a command that is gone."""
        if args[0] in SUCCESSORS and args[0] not in self.commands:
            ctx.fail(f"{args[0]} was removed: {SUCCESSORS[args[0]]}.")
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group that imports a command when it is called."""

    def __init__(self, *arguments: Any, summaries: Mapping[str, str], **options: Any) -> None:
        """Take the summary of each command, for lists and suggestions, and the arguments of click.Group."""
        super().__init__(*arguments, **options)
        self.commands.update({name: click.Command(name, short_help=text) for name, text in summaries.items()})

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name`."""
        if cmd_name not in self.commands:
            return None
        name = "tfgpu_doctor.integrations.mcp.command" if cmd_name == "mcp" else f"tfgpu_doctor.cli.{cmd_name}"
        command: click.Command = importlib.import_module(name).command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(100)) for name, one in self.commands.items()])


def option(*names: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option, as click.option does."""
    return click.option(*names, cls=Option, **attributes)


def choice(*names: str, choices: Iterable[str], **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option that is one of several words."""
    return option(*names, type=click.Choice(tuple(choices), case_sensitive=False), **attributes)


def define_command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command, as click.command does."""
    return click.command(name, cls=Command, **attributes)


# ------------------------------------------------------------------------------------------------------ shared options


def add_options(*options: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Add several options to a command."""

    def add(function: _Function) -> _Function:
        for one in reversed(options):
            function = one(function)
        return function

    return add


matrix_option = option(
    "--matrix",
    metavar="FILE",
    type=click.Path(),
    help="File with rows that extend or replace those of the bundled matrix.  [default: $TFGPU_MATRIX]",
)


def python_option(text: str) -> Callable[[_Function], _Function]:
    """Declare --python, an interpreter; `text` is its help."""
    return option("--python", metavar="EXE", help=f"{text}  [default: this one]")


HAS_TENSORFLOW = "Python interpreter that has TensorFlow, or its environment."
checks_options = add_options(
    option("--only", metavar="ID,...", type=Listed(), help='Report only these findings, such as "cuda.*".'),
    option("--skip", metavar="ID,...", type=Listed(), help="Do not report these findings and their consequences."),
)
tensorflow_option = option(
    "--tensorflow", metavar="SPEC", help="Consider only these releases, such as 2.15 or '>=2.12,<2.16'."
)


def platform_options(*more: str) -> Callable[[_Function], _Function]:
    """Declare --os, --machine and --platform; `more` are platforms beside those of wheels."""
    known = commands.PLATFORMS
    also = "".join(f"; {name} is for lists only" for name in more)
    return add_options(
        choice("--os", choices=commands.OSES, help="Operating system.  [default: linux]"),
        choice(
            "--machine",
            choices=commands.PROCESSORS,
            help="Processor architecture.  [default: x86_64, unless the GPU or system implies another]",
        ),
        choice(
            "--platform",
            choices=(*known, *more),
            metavar="NAME",
            help=f"--os and --machine in one word: {', '.join(known[:-1])} or {known[-1]}{also}.",
        ),
    )


def machine_options(*more: str) -> Callable[[_Function], _Function]:
    """Declare the options that describe a machine; `more` are platforms beside those of wheels."""
    return add_options(
        option("--gpu", metavar="NAME,...", type=Listed(), help='GPU name, such as "RTX 4090".'),
        option(
            "--compute-capability",
            metavar="X.Y,...",
            type=Listed(),
            help="Compute capability of a GPU, instead of its name.",
        ),
        option("--driver", metavar="V", help="Version of the NVIDIA driver (570.86.10) or its branch (570)."),
        option("--python", metavar="V", help="Python version, such as 3.12."),
        platform_options(*more),
    )
