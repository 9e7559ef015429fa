"""How commands declare options: types of values, commands that are imported when they are called, shared options.

What was removed is answered with the name of what replaces it.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from tfgpu_doctor import commands
from tfgpu_doctor.records.printable import whole
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.records.units import read_size
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    _Type = click.ParamType[Any]  # not generic before click 8.4
else:
    _Type = click.ParamType

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class OneOf(click.Choice):  # type: ignore[type-arg]
    """One of several words; a mistyped one gets the nearest, and `synonyms` are accepted but not listed."""

    def __init__(self, choices: Iterable[str], synonyms: Mapping[str, str] | None = None) -> None:
        """Take the words, in the order in which help pages list them."""
        super().__init__(tuple(choices), case_sensitive=False)
        self.synonyms = dict(synonyms or {})

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Find the word that is meant. Raises click.BadParameter: none is."""
        value = self.synonyms.get(str(value).lower(), value)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            hint = did_you_mean(str(value), map(str, self.choices), 1)
            raise click.BadParameter(error.message + hint, ctx, param) from error


class Listed(_Type):
    """Several values, separated by commas; such an option may also be repeated. The command gets one flat tuple."""

    def __init__(self, item: _Type | None = None, *, unique: bool = True) -> None:
        """Take the type of one value; `unique` drops a value that is there already."""
        self.item = item or click.STRING
        self.unique = unique
        self.name = f"{self.item.name} list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Convert each of the values. Raises click.BadParameter: one is empty, or wrong."""
        if not isinstance(value, str):
            return (self.item.convert(value, param, ctx),)
        parts = [part.strip() for part in value.split(",")]
        if "" in parts:
            self.fail(f"{value!r} has an empty part; values are separated by commas", param, ctx)
        return tuple(self.item.convert(part, param, ctx) for part in parts)

    def split_envvar_value(self, rv: str) -> list[str]:
        """Take the whole of a variable, which has the form of one option."""
        return [rv]

    def flat(self, values: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        """The values of all repetitions."""
        every = [one for several in values for one in several]
        return tuple(dict.fromkeys(every) if self.unique else every)

    def get_metavar(self, *_arguments: Any, **_named: Any) -> str | None:
        """Show that several can be given."""
        if isinstance(self.item, OneOf):
            return f"[{'|'.join(map(str, self.item.choices))}],..."
        return None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the last of them."""
        head, comma, last = incomplete.rpartition(",")
        items = self.item.shell_complete(ctx, param, last)
        return [CompletionItem(f"{head}{comma}{one.value}" if one.type == "plain" else one.value) for one in items]


class Size(_Type):
    """A number of bytes or of things: 4096, 4k, 1M, 1MiB, 2GiB, 1GB."""

    name = "size"

    def __init__(self, least: int, most: int, *, multiple: int = 1, auto: bool = False) -> None:
        """Take the smallest and the largest, what it must be a multiple of, and whether the word auto is one."""
        self.least, self.most, self.multiple, self.auto = least, most, multiple, auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it. Raises click.BadParameter: it is no size, or out of range."""
        if self.auto and str(value).lower() == "auto":
            return "auto"
        size = value if isinstance(value, int) else read_size(value)
        if size is None:
            other = ", and not auto" if self.auto else ""
            self.fail(f"{value!r} is not a number such as 512, 4k (4096) or 1MiB{other}", param, ctx)
        if not self.least <= size <= self.most or size % self.multiple:
            also = f" that is a multiple of {self.multiple}" if self.multiple > 1 else ""
            self.fail(f"{value} is not a number from {self.least} to {self.most}{also}", param, ctx)
        return size


class Seconds(_Type):
    """A time: 60, 0.5, 90s, 5m, 1h."""

    name = "seconds"

    def __init__(self, least: float = 0.0) -> None:
        """Take the shortest; 0 itself is refused."""
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it. Raises click.BadParameter: it is no time, or too short."""
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})\s*([smh]?)", str(value).strip().lower(), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is not a time such as 90, 90s or 5m", param, ctx)
        seconds = float(found[1]) * _SECONDS[found[2]]
        if seconds < self.least or not seconds:
            least = f"at least {self.least:g} s" if self.least else "more than 0"
            self.fail(f"{value} is too short: {least}", param, ctx)
        return seconds


class Name(_Type):
    """A word that the command looks up itself; `known` gives those that a shell completes it to."""

    def __init__(self, name: str, known: Callable[[], Iterable[str]]) -> None:
        """Take what the words are."""
        self.name, self.known = name, known

    def shell_complete(self, _context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem[str]]:
        """The known words that begin like this; the script for bash cannot complete one with a space."""
        found = [one for one in self.known() if one.lower().startswith(incomplete.lower()) and " " not in one]
        return [CompletionItem(one) for one in dict.fromkeys(found)]


class PageOrFile(click.Path):
    """A file, or the id of a finding."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """The ids that begin like this; files where none does."""
        ids = PAGE.shell_complete(ctx, param, incomplete) if incomplete else []
        return ids or super().shell_complete(ctx, param, incomplete)


def _gpu_names() -> Iterable[str]:
    """As drivers give them, and without the product line, as people write them."""
    from tfgpu_doctor.matrix.loader import Matrix

    for group in Matrix.load().data.gpus:
        for name in group.names:
            yield name
            yield re.sub(r"^(?:GeForce|Tesla|Quadro) ", "", name)


def _finding_ids() -> Iterable[str]:
    from tfgpu_doctor.findings import pages

    return pages.all_ids()


def _patterns() -> Iterable[str]:
    return (*dict.fromkeys(f"{one.partition('.')[0]}.*" for one in _finding_ids()), *_finding_ids())


def _versions(table: str) -> Callable[[], Iterable[str]]:
    def known() -> Iterable[str]:
        from tfgpu_doctor.matrix.loader import Matrix

        return dict.fromkeys(row.version for row in getattr(Matrix.load().data, table))

    return known


def _packages() -> Iterable[str]:
    from tfgpu_doctor.matrix.loader import Matrix

    return (row.package for row in Matrix.load().data.tensorflow)


def _branches() -> Iterable[str]:
    from tfgpu_doctor.matrix.loader import Matrix

    drivers = (row.min_driver_linux for row in Matrix.load().data.cuda)
    return dict.fromkeys(driver.partition(".")[0] for driver in drivers if driver)


def _pythons() -> Iterable[str]:
    from tfgpu_doctor.matrix.loader import Matrix

    return dict.fromkeys(
        python for row in Matrix.load().data.tensorflow for wheel in row.wheels.values() for python in wheel.python
    )


def _matrix_keys() -> Iterable[str]:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.matrix.tables import names

    data = Matrix.load().data
    return (
        name for row in (*data.containers, *data.jetpacks, *data.known_issues, *data.packages) for name in names(row)
    )


GPU_NAME = Name("gpu", _gpu_names)
FINDING_ID = Name("id", _patterns)
PAGE = Name("id", _finding_ids)
TENSORFLOW_VERSION = Name("version", _versions("tensorflow"))
CUDA_VERSION = Name("version", _versions("cuda"))
CUDNN_VERSION = Name("version", _versions("cudnn"))
DRIVER_VERSION = Name("version", _branches)
PYTHON_VERSION = Name("version", _pythons)
PACKAGE = Name("package", _packages)
MATRIX_KEY = Name("key", _matrix_keys)


# -------------------------------------------------------------------------------------------- options and commands

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
    "matrix container": "tfgpu matrix find IMAGE:TAG shows it",
    "matrix jetpack": "tfgpu matrix find VERSION shows it",
    "matrix driver": "tfgpu matrix tensorflow --driver VERSION shows what runs on it",
    "matrix python": "tfgpu matrix tensorflow --python VERSION shows what runs on it",
    **dict.fromkeys(("matrix about", "matrix --about"), "tfgpu matrix find shows the tables"),
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


class _Refused(click.UsageError):
    """Wrong usage in several messages, each of which is shown on a line of its own."""

    def __init__(self, error: commands.UsageError, context: click.Context) -> None:
        super().__init__(str(error), context)
        self.messages = error.messages


class _Checked(click.Command):
    """What commands and groups share."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises click.UsageError: an argument is wrong. Without a result, say why and exit."""
        try:
            return super().invoke(ctx)
        except commands.UsageError as error:
            raise _Refused(error, ctx) from error
        except commands.TfgpuError as error:
            first, *more = str(error).splitlines()
            say(f"tfgpu: {first}")
            for line in more:
                say(line)
            ctx.exit(error.exit_code)

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

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Keep the order of the declarations."""
        return list(self.commands)

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
        """Keep the order of the table; what was added to the group comes last."""
        return [*self._table, *self.commands]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name`."""
        if cmd_name not in self._table:
            return self.commands.get(cmd_name)
        command = importlib.import_module(self._table[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            rows = [(name, command.summary) for name, command in self._table.items()]
            formatter.write_dl([*rows, *((name, one.get_short_help_str()) for name, one in self.commands.items())])


def _is_possible(word: str) -> bool:
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------ shared options


def add_options(options: Iterable[Callable[[Any], Any]], function: _Function) -> _Function:
    """Add several options to a command."""
    for one in reversed(tuple(options)):
        function = one(function)
    return function


matrix_option = option(
    "--matrix",
    metavar="FILE",
    type=click.Path(),
    help="File with rows that extend or replace those of the bundled matrix.  [default: $TFGPU_MATRIX]",
)


def python_option(text: str) -> Callable[[_Function], _Function]:
    """Declare --python, an interpreter; `text` is its help."""
    return option("--python", metavar="EXE", help=f"{text}  [default: this one]")


HAS_TENSORFLOW = "Python interpreter that has TensorFlow, its environment, or its version."
_CHECKS = (
    option("--only", metavar="ID,...", type=Listed(FINDING_ID), help='Report only these findings, such as "cuda.*".'),
    option(
        "--skip",
        metavar="ID,...",
        type=Listed(FINDING_ID),
        help="Do not report these findings and their consequences.",
    ),
)


def checks_options(function: _Function) -> _Function:
    """Add --only and --skip."""
    return add_options(_CHECKS, function)


_SYNONYMS = {
    **dict.fromkeys(("linux_amd64", "linux/amd64"), "linux_x86_64"),
    **dict.fromkeys(("linux_arm64", "linux/arm64"), "linux_aarch64"),
    **dict.fromkeys(("win_amd64", "windows_x86_64", "windows"), "windows_amd64"),
    "macos_aarch64": "macos_arm64",
}


def platform_options(*more: str) -> Callable[[_Function], _Function]:
    """Add --os, --machine and --platform to a command; `more` are platforms beside those of wheels."""
    also = "".join(f"; {name} is for lists only" for name in more)
    known = commands.PLATFORMS
    options = (
        option("--os", type=OneOf(commands.OSES), help="Operating system.  [default: linux]"),
        option(
            "--machine",
            type=OneOf(commands.PROCESSORS, {"amd64": "x86_64"}),
            help="Processor architecture.  [default: x86_64, unless the GPU or system implies another]",
        ),
        option(
            "--platform",
            metavar="NAME",
            type=OneOf([*known, *more], _SYNONYMS),
            help=f"--os and --machine in one word: {', '.join(known[:-1])} or {known[-1]}{also}.",
        ),
    )
    return lambda function: add_options(options, function)


_TARGET = (
    option("--gpu", metavar="NAME,...", type=Listed(GPU_NAME), help='GPU name, such as "RTX 4090".'),
    option(
        "--compute-capability",
        metavar="X.Y,...",
        type=Listed(),
        help="Compute capability of a GPU, instead of its name.",
    ),
    option(
        "--driver",
        metavar="V",
        type=DRIVER_VERSION,
        help="Version of the NVIDIA driver (570.86.10) or its branch (570).",
    ),
    option("--python", metavar="V", type=PYTHON_VERSION, help="Python version, such as 3.12."),
)


def target_options(function: _Function) -> _Function:
    """Add --gpu, --compute-capability, --driver, --python and those of the platform to a command."""
    return add_options(_TARGET, platform_options()(function))


tensorflow_option = option(
    "--tensorflow",
    metavar="SPEC",
    type=TENSORFLOW_VERSION,
    help="Consider only these releases, such as 2.15 or '>=2.12,<2.16'.",
)
