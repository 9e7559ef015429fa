"""The types of options and arguments: lists, sizes, times, choices, and names that a shell completes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.records.units import read_size

if TYPE_CHECKING:
    _Type = click.ParamType[Any]  # not generic before click 8.4
else:
    _Type = click.ParamType

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
    from tfgpu_doctor.lookup.find import names
    from tfgpu_doctor.matrix.loader import Matrix

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


_INTERPRETERS = (os.path.join("bin", "python"), os.path.join("Scripts", "python.exe"))  # of a virtual environment


def interpreter_of(folder: str) -> str | None:
    """The interpreter of a virtual environment; None where a folder is none."""
    files = (os.path.join(folder, one) for one in _INTERPRETERS)
    return next((file for file in files if os.path.isfile(file)), None)


class Executable(_Type):
    """An interpreter: a path, a name on PATH, the folder of an environment, or a version, which is looked for."""

    name = "executable"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The program; a folder becomes its interpreter, and a version the path of the first that has it."""
        from tfgpu_doctor.probes.programs import find

        if find(value, os.environ):
            return value
        if not re.fullmatch(r"3\.\d{1,2}", value):
            return interpreter_of(value) or value
        from tfgpu_doctor.install.interpreters import Interpreters

        if program := Interpreters(os.environ).program(value):
            return program
        looked = f"python{value} on PATH, in /usr/bin and /usr/local/bin, and among those of pyenv, uv and conda"
        self.fail(f"found no Python {value}: looked for {looked}. Give the path of the interpreter", param, ctx)


EXECUTABLE = Executable()
