"""How commands declare options: commands that are imported when they are called, and the options that several share."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tfgpu_doctor import commands
from tfgpu_doctor.facts.about import OSES, PROCESSORS
from tfgpu_doctor.facts.parameters import EVERYDAY, Listed, Option, Word
from tfgpu_doctor.facts.similar import did_you_mean, similar
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
    "--fix": "type the commands that are shown under fix, or change the lines that they name",
    "--timeout": "tfgpu smoke has --budget, and a benchmark --deadline",
    "--gpus": "tfgpu doctor and tfgpu smoke have --require-gpus, and a benchmark --gpus",
    "--gpu": "tfgpu plan and tfgpu check take the name of a GPU, and a benchmark --gpus",
    **dict.fromkeys(("-q", "--quiet"), "the exit code tells the verdict, and >/dev/null silences a command"),
    **dict.fromkeys(("collect", "--ray", "--slurm"), _COLLECTING),
}


def _variable(ctx: click.Context, parameter: click.Parameter | None) -> str:
    """The variable that the value of an option was read from; "" where it was typed."""
    if parameter and parameter.name and ctx.get_parameter_source(parameter.name) is ParameterSource.ENVIRONMENT:
        return f"{ctx.auto_envvar_prefix}_{parameter.name}".upper()
    return ""


class _Asked(click.Command):
    """What commands and groups have in common: how they show help, and what they answer to a mistake."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show help before anything else is read; name what was meant by an option that there is not."""
        is_group = isinstance(self, click.Group)
        words = list(takewhile(lambda word: word.startswith("-") if is_group else word != "--", args))
        if not (ctx.resilient_parsing or set(ctx.help_option_names).isdisjoint(words)):
            ctx.meta[EVERYDAY] = {"-v", "--verbose"}.isdisjoint(words)
            args = ["--help"]
        try:
            return super().parse_args(ctx, args)
        except (click.NoSuchOption, click.BadOptionUsage) as error:
            ctx.fail(self._instead(error.option_name) or error.message)
        except click.BadParameter as error:
            error.param_hint = _variable(ctx, error.param) or error.param_hint
            raise
        except click.UsageError as error:
            takes = {"--gpu", "--python"}.intersection(name for one in self.params for name in one.opts)
            if takes and type(error) is click.UsageError:  # an argument too many
                gpu = 'a GPU with --gpu "RTX 5090", or a release with --tensorflow 2.15'
                meant = gpu if "--gpu" in takes else "an interpreter, or its environment, with --python"
                ctx.fail(f"{error.message}. Give {meant}.")
            raise

    def _instead(self, name: str) -> str:
        """What to use instead of an option that there is not, or that lacks its value."""
        word, has = name.lstrip("-"), {one for parameter in self.params for one in parameter.opts}
        if name in SUCCESSORS:
            return f"No such option {name!r}: {SUCCESSORS[name]}."
        from tfgpu_doctor.render.formats import FORMATS

        if name in ("--cuda", "--cudnn") and "--gpu" in has:
            return f"No such option {name!r}: a release decides it. See tfgpu matrix tensorflow {name} VERSION."
        if word in FORMATS and ("--format" in has or isinstance(self, click.Group)):
            ending = FORMATS[word].ending
            return f"{name}: use --format {word}" + f", or --output FILE{ending} for a file" * bool(ending)
        near = similar(word, [one[2:] for one in (*has, "--help") if one[:2] == "--"]) if name[:2] == "--" else ()
        hint = f" Did you mean {' or '.join(f'--{one}' for one in near)}?" if near else ""
        return "" if name in has else f"No such option {name!r}.{hint}"

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises click.UsageError: an argument is wrong. Without a result, say why and exit."""
        try:
            return super().invoke(ctx)
        except commands.UsageError as error:
            named = next((one for one in self.params if str(error).startswith(f"{max(one.opts, key=len)} ")), None)
            refused, where = click.UsageError(str(error), ctx), _variable(ctx, named)
            refused.messages = (error.messages[0] + f" ({where})" * bool(where), *error.messages[1:])  # type: ignore[attr-defined]
            raise refused from error
        except commands.TfgpuError as error:
            first, *more = str(error).splitlines()
            for line in (f"tfgpu: {first}", *more):
                say(line)
            ctx.exit(error.exit_code)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show each example on a line, which can be copied whole, and how to see the rare options."""
        title, _, examples = (self.epilog or "").partition(": ")
        with formatter.section(title):
            formatter.write("".join(f"  {line}\n" for line in examples.split("; ")))
        if ctx.meta.get(EVERYDAY) and any(getattr(one, "rare", False) for one in self.params):
            formatter.write(f"\nAll options: {ctx.command_path} --help -v\n")


class Command(_Asked):
    """A command, whose function may raise the errors of the Python API."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say which variables of this command name no option, too: in a gate, a typing error must not pass."""
        prefix, known = f"{ctx.auto_envvar_prefix}_", [str(one.name).upper() for one in self.params]
        for name in sorted(os.environ) if not ctx.resilient_parsing else ():
            word = name.removeprefix(prefix)
            if word not in (name, *known):
                near = f" Did you mean {prefix}{similar(word, known)[0]}?" if similar(word, known) else ""
                say(f"tfgpu: {name} is not the variable of an option of {ctx.command_path}.{near}")
        return super().parse_args(ctx, args)


class Group(_Asked, click.Group):
    """A group of commands, in the order of their declarations."""

    command_class = Command

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Keep the order of the declarations."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the successor of a command that is gone, or what was meant by one that there is not."""
        name = args[0]
        if name in SUCCESSORS and name not in self.commands:
            ctx.fail(f"No such command {name!r}: {SUCCESSORS[name]}.")
        if name not in self.commands and not ctx.resilient_parsing:
            options = {option for parameter in self.get_params(ctx) for option in parameter.opts}
            is_option = f"--{name}" in options  # tfgpu help, tfgpu version
            hint = f" Use {ctx.command_path} --{name}." if is_option else self._meant(name)
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def _meant(self, name: str) -> str:
        return did_you_mean(name, self.commands, 1)


class LazyGroup(Group):
    """A group that imports a command when it is called, and lists its commands by what they are for."""

    def __init__(self, *arguments: Any, purposes: Mapping[str, Mapping[str, str]], **options: Any) -> None:
        """Take the summaries of commands by purpose, and the arguments of click.Group."""
        super().__init__(*arguments, **options)
        self.purposes = purposes
        for summaries in purposes.values():
            self.commands.update({name: click.Command(name, short_help=text) for name, text in summaries.items()})

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name`."""
        if cmd_name not in self.commands:
            return None
        name = "tfgpu_doctor.integrations.mcp.command" if cmd_name == "mcp" else f"tfgpu_doctor.cli.{cmd_name}"
        command: click.Command = importlib.import_module(name).command
        return command

    def _instead(self, name: str) -> str:
        """What tfgpu alone shows is of the doctor, and so are its options."""
        doctor = importlib.import_module("tfgpu_doctor.cli.doctor").command
        of_doctor = any(name in parameter.opts for parameter in doctor.params)
        return f"{name} is an option of a command, as in: tfgpu doctor {name}" if of_doctor else super()._instead(name)

    def _meant(self, name: str) -> str:
        """Name the command that reads a file of that kind."""
        if name == "show" or name.endswith(".json"):
            file = "FILE" if name == "show" else name
            return f" Use tfgpu bench show {file}, or of a report: tfgpu doctor --from {file}."
        return f" Use tfgpu explain {name}." if os.path.isfile(name) else super()._meant(name)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, without importing them, then the options."""
        for purpose, summaries in self.purposes.items():
            if purpose == "More" and ctx.meta.get(EVERYDAY):
                formatter.write(f"\nMore: {', '.join(summaries)} (tfgpu --help -v)\n")
            else:
                with formatter.section(purpose):
                    formatter.write_dl([(f"{name:7}", text) for name, text in summaries.items()])
        click.Command.format_options(self, ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text("0 no problem, 1 a problem was found, 2 wrong usage, 3 could not determine")


def option(*names: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option, as click.option does."""
    return click.option(*names, cls=Option, **attributes)


def choice(*names: str, choices: Iterable[str], **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option that is one of several words."""
    return option(*names, type=Word(choices), **attributes)


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


rare_option = partial(option, rare=True)
matrix_option = rare_option(
    "--matrix",
    metavar="FILE",
    type=click.Path(),
    help="File with rows that extend or replace those of the bundled matrix.  [default: $TFGPU_MATRIX]",
)


def python_option(text: str) -> Callable[[_Function], _Function]:
    """Declare --python, an interpreter; `text` is its help."""
    default = "[default: this one; with nothing but tfgpu, that of the shell]"
    return option("--python", metavar="EXE", help=f"{text}  {default}")


HAS_TENSORFLOW = "Python interpreter that has TensorFlow, or its environment."
checks_options = add_options(
    rare_option("--only", metavar="ID,...", type=Listed(), help='Report only these findings, such as "cuda.*".'),
    rare_option("--skip", metavar="ID,...", type=Listed(), help="Do not report these findings and their consequences."),
)
tensorflow_option = option(
    "--tensorflow", metavar="SPEC", help="Consider only these releases, such as 2.15 or '>=2.12,<2.16'."
)
system_options = add_options(
    choice("--os", choices=OSES, help="Operating system.  [default: linux]"),
    choice(
        "--machine",
        choices=PROCESSORS,
        rare=True,
        help="Processor architecture.  [default: x86_64, unless the GPU or system implies another]",
    ),
)
machine_options = add_options(
    option("--gpu", metavar="NAME,...", type=Listed(), help='GPU name, such as "RTX 4090".'),
    rare_option(
        "--compute-capability",
        metavar="X.Y,...",
        type=Listed(),
        help="Compute capability of a GPU that --gpu does not name.",
    ),
    option("--driver", metavar="V", help="Version of the NVIDIA driver (570.86.10) or its branch (570)."),
    option("--python", metavar="V", help="Python version, such as 3.12."),
    system_options,
)
