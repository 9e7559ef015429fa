"""Every option and argument that names a file or a folder, with everything that such a name can stand for.

They are collected from the commands themselves: a new option is tested without anybody adding it here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.cli.runner import commands, runs, tfgpu
from tests.facts.test_reading import ODD, TEXT, odd_path
from tests.facts.test_report import report
from tests.guard import guarded
from tfgpu_doctor.facts import reading

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
    "install": ["environment", "--dry-run"],
    "fleet": ["good.json"],
}
INSTEAD = {"doctor --from": [], "check files": ["--kind", "requirements"]}
# names that are no characters of a command line, or that another check of the name comes before
UNSUITED = {"a null character", "half a surrogate pair", "an empty name"}
FREE = {"nothing there", "a dangling link"}  # where something can be made
OF_FOLDERS = (
    "is a file|is a directory|does not exist|no such folder|no saved_model.pb|File exists|not permitted|Not a directory"
)
LATER = {"/dev/full", "/dev/zero", "a link to a device", "/proc/self/mem", "/proc/kmsg"}
FLEET = "fleet files"  # of which the result tells what cannot be read


class Named(NamedTuple):
    """A parameter of a command."""

    command: str
    parameter: click.Parameter

    def __str__(self) -> str:
        return f"{self.command} {self.parameter.opts[0]}"

    @property
    def is_written(self) -> bool:
        return self.parameter.opts[0] in ("--output", "--html", "--save-reference")

    def arguments(self, value: str) -> list[str]:
        name = self.parameter.opts[0]
        others = INSTEAD.get(str(self), OTHERS.get(self.command, []))
        if isinstance(self.parameter, click.Option):
            return [*self.command.split(), *others, name, value]
        if self.command == "compare":
            return ["compare", *([value, "good.json"] if name == "base" else ["good.json", value])]
        return [*self.command.split(), *(others if str(self) in INSTEAD else ()), value]


PARAMETERS = [Named(name, one) for name, command in commands() if runs(command) for one in command.params]
NAMED = [one for one in PARAMETERS if isinstance(one.parameter.type, (click.Path, click.File))]
# the first with this option; those of the other commands are declared by the same lines
FIRST = {(one.parameter.opts[0], getattr(one.parameter, "help", one.command)): one for one in reversed(NAMED)}


def test_what_names_a_file_says_so() -> None:
    typed = set(map(str, NAMED))
    named = {str(one) for one in PARAMETERS if NAMES_A_FILE.search(one.parameter.metavar or "")}
    # the folder of an installation is none yet; tests/install/test_folder.py tries odd ones
    assert {one for one in named - typed if not one.endswith("--python")} == {"install folder"}
    assert {"explain sources", "check files", "compare new", "plan --from", "bench show file"} <= typed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reading, "WRITER", 0.01)
    (tmp_path / "good.txt").write_text("numpy\n")
    (tmp_path / "good.json").write_bytes(report().to_json())
    return tmp_path


def odd_ones(named: Named) -> Iterator[str]:
    takes_folders = "DIR" in (named.parameter.metavar or "") or str(named) == "check files" or str(named) == FLEET
    left_out = {*UNSUITED, *({*FREE, *LATER} if named.is_written else ()), *(["a folder"] if takes_folders else ())}
    yield from (odd for odd in (ODD if named in FIRST.values() else ("a socket",)) if odd not in left_out)


def test_no_name_hangs_or_ends_in_a_traceback(folder: Path) -> None:
    rows = [(named, odd) for named in NAMED for odd in odd_ones(named)]
    for number, (named, odd) in enumerate(rows):
        path = odd_path(odd, folder / f"odd{number}")
        with guarded(10, f"{named} {odd}", waiting=True):
            done = tfgpu(*named.arguments(path), cwd=folder)
        said = " ".join((done.stdout + done.stderr).split())
        is_told = str(named) == FLEET
        assert (done.returncode, done.stdout != "") == ((3, True) if is_told else (2, False)), (str(named), odd, said)
        assert ("could not be read" if is_told else "Error: ") in said and "Traceback" not in said, (str(named), odd)
        assert re.search(f"{ODD[odd][1]}|{OF_FOLDERS}", said), (str(named), odd, said)


def test_standard_input_is_refused_where_it_is_closed_and_bounded_where_it_is_not(folder: Path) -> None:
    read = [one for one in FIRST.values() if not one.is_written and str(one) != FLEET]
    for named in (one for one in read if "DIR" not in (one.parameter.metavar or "")):
        closed = tfgpu(*named.arguments("-"), cwd=folder, input=None)
        said = " ".join(closed.stderr.split())
        assert (closed.returncode, closed.stdout) == (2, ""), str(named)
        assert re.search("(cannot read standard input|-): it is closed", said), (str(named), said)
        noise = tfgpu(*named.arguments("-"), cwd=folder, input="[" * 100_000)
        assert noise.returncode in (2, 3), str(named)  # to explain, it is a text
        assert "internal error" not in noise.stderr and len(noise.stderr) < 1000, str(named)


def test_the_summary_of_a_job_changes_no_verdict(folder: Path) -> None:
    for odd in ("a pipe without a writer", "/dev/zero"):
        environ = {"GITHUB_STEP_SUMMARY": odd_path(odd, folder / "odd")}
        with guarded(20, odd, waiting=True):
            done = tfgpu("doctor", "--from", "good.json", "--format", "github", environ=environ, cwd=folder)
        assert (done.returncode, done.stdout != "") == (0, True), odd
        assert "cannot write the summary of the job" in done.stderr, odd


def test_process_substitution_for_every_file_of_a_comparison(folder: Path) -> None:
    code = f"{shlex.quote(sys.executable)} -m tfgpu_doctor compare <(cat good.json) <(sleep 0.2; cat good.json)"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_of_a_log_above_a_limit_it_is_said_what_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "log").write_bytes(TEXT + b"\n" * 20_000 + b"E: failed call to cuInit: CUDA_ERROR_NO_DEVICE\n")
    monkeypatch.setattr("tfgpu_doctor.parsers.lines.EXAMINED", 10_000)
    with guarded(20):
        done = tfgpu("explain", "log", "--format", "json", cwd=folder)
    assert "after line 10000 only the last 400" in done.stderr
    assert "libcudart.so.11.0" in done.stdout and "CUDA_ERROR_NO_DEVICE" in done.stdout
    monkeypatch.setattr("tfgpu_doctor.commands.LARGEST_LOG", 20_000)
    done = tfgpu("explain", "log", cwd=folder)
    assert (done.returncode, "cannot read log: it is larger than 0.02 MB" in done.stderr) == (2, True)
