"""One vocabulary of options: what holds for every command, so that the next one cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tests.cli.runner import commands, tfgpu
from tests.tables import each
from tfgpu_doctor.cli.options import Command
from tfgpu_doctor.facts.parameters import Listed, Option, Seconds, Size

# what may be given several times and is no list: pairs with --format by position; has commas in its value
REPEATED = {"--output", "--shape"}
# options of one name that differ, and why
DIFFERENT = {
    "--python": "an interpreter whose TensorFlow is examined, or the version of one that is planned for",
    "--size": "rows of matrices, of which a list may name the first and the last; or bytes",
    "--batch-size": "one, or a list where each is measured",
    "--dtype": "one or several; workloads compute in different types",
    "--fail-on": "benches compare speed, reports severity",
    "--factor": "compare refuses infinity, too, and says what 1.05 means",
    "--compute-capability": "of a machine several, of the table of GPUs one",
}


def options() -> Iterator[tuple[str, str, Option]]:
    """Command, name and option."""
    for path, command in commands():
        for one in command.params:
            if isinstance(one, click.Option):
                assert isinstance(one, Option), f"{path} {one.opts}: declare it by cli/options.py"
                yield path, max(one.opts, key=len), one


def test_options_of_one_name_and_of_one_type_are_alike() -> None:
    assert [path for path, found in commands() if not isinstance(found, (Command, click.Group))] == []
    seen: dict[str, tuple[type, str | None]] = {}
    for path, name, one in options():
        item = one.type.item if isinstance(one.type, Listed) else one.type
        is_list = isinstance(one.type, Listed)
        assert name in REPEATED or one.multiple == is_list, f"{path} {name}: use Listed"
        metavar = one.make_metavar(click.Context(click.Command(path)))
        assert name in REPEATED or (",..." in metavar) == is_list, f"{path} {name} {metavar}"
        assert (one.metavar == "S") == isinstance(item, Seconds), f"{path} {name}: times are Seconds"
        assert not isinstance(item, click.FloatRange) or one.metavar == "X", f"{path} {name}"
        assert not isinstance(item, click.Choice) or not item.case_sensitive, f"{path} {name}"
        kind = (type(one.type), one.metavar)
        assert name in DIFFERENT or seen.setdefault(name, kind) == kind, f"{path} {name} differs"


@each("path", [path for path, command in commands() if command.params])
def test_help_shows_what_is_needed_every_day(path: str) -> None:
    command = dict(commands())[path]
    known = [one for one in command.params if isinstance(one, Option) and not one.hidden]
    everyday = [one for one in known if not one.rare]
    assert len(everyday) <= 8, [one.name for one in everyday]
    short, whole = (tfgpu(*path.split(), *words.split()).stdout for words in ("--help", "-v --help"))
    listed = [set(re.findall(r"^  (?:-., )?(--[a-z-]+)", page, re.MULTILINE)) - {"--help"} for page in (short, whole)]
    assert listed == [{max(one.opts, key=len) for one in several} for several in (everyday, known)]
    last = f"\nAll options: tfgpu {path} --help -v\n" if everyday != known else ""
    assert short.endswith(last) and "--help -v" not in whole
    assert (path in ("install", "mcp")) != (listed[0] >= {"--verbose", "--format", "--output"})
    assert (path in ("doctor", "explain")) == ("--quiet" in listed[0])
    for name in ("json", "markdown") if "--format" in listed[0] else ():
        assert f"Error: --{name}: use --format {name}, or --output FILE." in tfgpu(*path.split(), f"--{name}").stderr


def test_sizes_and_times() -> None:
    sizes = {"512": 512, "4k": 4096, "1MiB": 2**20, "16 MiB": 2**24, "2GiB": 2**31, "1GB": 10**9, "auto": "auto"}
    times = {"90": 90.0, "0.5": 0.5, "90s": 90.0, "5m": 300.0, "1.5H": 5400.0}
    for kind, values in ((Size(1, 2**40, auto=True), sizes), (Seconds(), times)):
        assert {text: kind.convert(text, None, None) for text in values} == values
    no_sizes = ("", "x", "1 MiB!", "-1MiB", "1.5MiB", "1TiB", "²k", "MiB", "0", "5", "2k", "auto")
    no_times = ("", "soon", "-1", "0", "nan", "inf", "1e9", "5 days", "٣")
    wrong = [(Size(2, 2000, multiple=2), text) for text in no_sizes] + [(Seconds(), text) for text in no_times]
    for kind, text in wrong:
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)


def test_a_list_may_be_repeated() -> None:
    option = Option(["--dtype"], type=Listed(click.Choice(["a", "b", "c"], case_sensitive=False)))
    command = click.Command("show", params=[option])
    for words, values in (("--dtype a,b", ("a", "b")), ("--dtype a --dtype B,a", ("a", "b")), ("", ())):
        assert command.make_context("show", words.split()).params["dtype"] == values
    with pytest.raises(click.BadParameter, match="empty part"):
        command.make_context("show", ["--dtype", "a,,b"])
