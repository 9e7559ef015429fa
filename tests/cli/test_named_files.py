"""Every option and argument that names a file or a folder, with everything that such a name can stand for.

They are collected from the commands themselves: a new option is tested without anybody adding it here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.cli.runner import tfgpu
from tests.files.test_reading import ODD
from tests.guard import guarded
from tests.records.test_report import report
from tfgpu_doctor.cli import cli
from tfgpu_doctor.files import reading, writing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these")

NAMES_A_FILE = re.compile(r"FILE|DIR|PATH|json|html|EXE")  # in a metavar
# what else a command needs, so that nothing is examined or measured before its files are
OTHERS = {
    "doctor": ["--no-import"],
    "explain": ["good.txt"],
    "check": ["good.txt", "--kind", "requirements"],
    "matrix gpu": ["A100"],
    "bench show": ["good.json"],
    "compare": ["good.json", "good.json"],
}
INSTEAD = {"doctor --from": [], "check files": ["--kind", "requirements"]}
# names that are no characters of a command line, or that another check of the name comes before
UNSUITED = {"a null character", "half a surrogate pair", "an empty name"}
FREE = {"nothing there", "a dangling link"}  # where something can be made
OF_FOLDERS = "is a file|is a directory|does not exist|no such folder|no saved_model.pb|File exists|not permitted"
LATER = {"a pipe without a writer", "/dev/full", "/dev/zero", "a link to a device", "/proc/self/mem", "/proc/kmsg"}


UNREAD = {"bench show --matrix"}  # without --html


class Named(NamedTuple):
    """A parameter of a command."""

    command: str
    parameter: click.Parameter

    def __str__(self) -> str:
        return f"{self.command} {self.parameter.opts[0]}"

    @property
    def is_written(self) -> bool:
        return self.parameter.opts[0] in ("--output", "--html", "--profile")

    @property
    def is_folder(self) -> bool:
        return "DIR" in (self.parameter.metavar or "")

    def arguments(self, value: str) -> list[str]:
        name = self.parameter.opts[0]
        others = INSTEAD.get(str(self), OTHERS.get(self.command, []))
        if isinstance(self.parameter, click.Option):
            return [*self.command.split(), *others, name, value]
        if self.command == "compare":
            return ["compare", *([value, "good.json"] if name == "base" else ["good.json", value])]
        return [*self.command.split(), *(others if str(self) in INSTEAD else ()), value]


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


PARAMETERS = [Named(name, one) for name, command in commands(cli) for one in command.params]
NAMED = [one for one in PARAMETERS if isinstance(one.parameter.type, (click.Path, click.File))]
# the first with this option; those of the other commands are declared by the same lines
FIRST = {(one.parameter.opts[0], getattr(one.parameter, "help", one.command)): one for one in reversed(NAMED)}


def test_what_names_a_file_says_so() -> None:
    typed = set(map(str, NAMED))
    named = {str(one) for one in PARAMETERS if NAMES_A_FILE.search(one.parameter.metavar or "")}
    assert {one for one in named - typed if not one.endswith("--python")} == set()
    assert {
        "explain source",
        "check files",
        "compare new",
        "plan --from",
        "smoke --baseline",
        "bench show file",
    } <= typed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reading, "WRITER", 0.01)
    monkeypatch.setattr(writing, "READER", 0.01)
    (tmp_path / "good.txt").write_text("numpy\n")
    (tmp_path / "good.json").write_bytes(report().to_json())
    return tmp_path


def odd_ones(named: Named) -> Iterator[str]:
    for odd in ODD if named in FIRST.values() else ("a socket",):
        suits = odd not in UNSUITED and not (named.is_folder and odd == "a folder")
        if suits and not (named.is_written and (odd in FREE or odd in LATER)):
            yield odd


@pytest.mark.parametrize("named", [one for one in NAMED if str(one) not in UNREAD], ids=str)
def test_no_name_hangs_or_ends_in_a_traceback(named: Named, folder: Path) -> None:
    for number, odd in enumerate(odd_ones(named)):
        path = str(ODD[odd][0](folder / f"odd{number}"))
        with guarded(10, f"{named} {odd}", waiting=True):
            done = tfgpu(*named.arguments(path), cwd=folder)
        assert (done.returncode, done.stdout) == (2, ""), f"{odd}: {done.stderr}"
        assert "Error: " in done.stderr and "Traceback" not in done.stderr
        assert re.search(f"{ODD[odd][1]}|{OF_FOLDERS}", " ".join(done.stderr.split())), f"{odd}: {done.stderr}"
