"""Types of click parameters that several commands and the Python API read: lists, sizes and times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.facts.units import read_size

if TYPE_CHECKING:
    _Type = click.ParamType[Any]  # not generic before click 8.4
else:
    _Type = click.ParamType

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_MACOS = dict.fromkeys(("osx", "darwin"), "macos")
_ALSO = {"win": "windows", "ubuntu": "linux", "amd": "x86_64", "k8s": "kubernetes", **_MACOS}  # without version
_ALSO |= {"xml": "junit", "md": "markdown"}
EVERYDAY = "tfgpu.everyday"  # key of a context's meta: show no rare option


class Word(click.Choice):  # type: ignore[type-arg]  # not generic before click 8.2
    """One of several words; a misspelt one is answered with the one that was meant."""

    def __init__(self, choices: Iterable[str]) -> None:
        """Take the words, which may be typed in any case."""
        super().__init__(tuple(choices), case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Add the word that is written most like it; fp16 and bf16 are common names of float16 and bfloat16."""
        written = re.sub(r"(?<![a-z])(b?)fp?(?=\d)", r"\1float", str(value).lower())
        written = _ALSO.get(written, _ALSO.get(written.rstrip("0123456789."), written))
        message = super().get_invalid_choice_message(value, ctx).removesuffix(".")
        longer = [str(one) for one in self.choices if str(one).endswith(f"_{written}")]  # mixed_float16
        return f"{message}.{did_you_mean((*longer, written)[0], map(str, self.choices), 1)}"


class Listed(_Type):
    """Several values, separated by commas; such an option may also be repeated. The command gets one flat tuple."""

    def __init__(self, item: _Type | None = None, *, unique: bool = True) -> None:
        """Take the type of one value; `unique` drops a value that is there already."""
        self.item = item or click.STRING
        self.unique = unique
        self.name = f"{self.item.name} list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Convert each of the values. Raises click.BadParameter: one is empty, or wrong."""
        parts = [part.strip() for part in value.split(",")]
        if "" in parts:
            self.fail(f"{value!r} has an empty part; values are separated by commas", param, ctx)
        return tuple(self.item.convert(part, param, ctx) for part in parts)

    def split_envvar_value(self, rv: str) -> list[str]:
        """Take the whole of a variable, which has the form of one option."""
        return [rv]

    def get_metavar(self, *_arguments: Any, **_named: Any) -> str | None:
        """Show that several can be given."""
        return f"[{'|'.join(map(str, self.item.choices))}],..." if isinstance(self.item, click.Choice) else None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the first of them."""
        return self.item.shell_complete(ctx, param, incomplete)


class Option(click.Option):
    """An option; one of the type Listed may be repeated, and a rare one is left out where everyday ones are listed."""

    def __init__(self, *arguments: Any, rare: bool = False, **attributes: Any) -> None:
        """Take the arguments of click.Option, and whether only `--help -v` shows it."""
        self.rare = rare
        if isinstance(attributes.get("type"), Listed):
            attributes["multiple"] = True
        super().__init__(*arguments, **attributes)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Describe it, unless it is rare and --help was asked for without -v."""
        return None if self.rare and ctx.meta.get(EVERYDAY) else super().get_help_record(ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value; one flat tuple of a list."""
        found = super().type_cast_value(ctx, value)
        if not isinstance(self.type, Listed) or not found:
            return found
        every = [one for several in found for one in several]
        return tuple(dict.fromkeys(every) if self.type.unique else every)


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
        size = read_size(str(value))
        if size is None:
            self.fail(f"{value!r} is not a whole number such as 512, 4k (4096) or 1MiB", param, ctx)
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
            least = f"at least {self.least:g} s" if self.least else "it must be more than 0"
            self.fail(f"{value} is too short: {least}", param, ctx)
        return seconds
