"""`%tfgpu COMMAND` and `%%tfgpu explain -`: the commands in the kernel of a notebook, for its Python and environment.

IPython need not be imported: the extension gets its shell.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import click

from tfgpu_doctor import commands
from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.records.environment_variables import reason
from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.records.printable import cut, utf8
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.render.streams import say

_PRINTS = ("--format", "--output", "--html", "--help", "-h")  # with these, a command prints or writes its result itself
_OTHER = ("--python", "--from")  # with these, it is not about this kernel
_NOT_HERE = {"mcp": "an assistant starts it, see docs/assistants.md"}
_LARGEST = 1 << 20  # bytes of variables
# what the loader and Python read when a process starts (ld.so(8); Python's documentation, "Command line and
# environment"), so that no change within the process has an effect on it
_AT_START = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")
_LONGEST = 120  # characters of a value


class Shell(Protocol):
    """The part of IPython's shell that is needed."""

    display_pub: Any

    def register_magic_function(self, func: Any, magic_kind: str, magic_name: str) -> None:
        """Make a function a magic."""
        ...


def load_ipython_extension(shell: Shell) -> None:
    """Called by `%load_ext tfgpu_doctor`: adds the magic %tfgpu, for lines and cells."""
    shell.register_magic_function(Magic(shell, *_at_first()), "line_cell", "tfgpu")


class Magic:
    """%tfgpu of one kernel."""

    def __init__(self, shell: Shell, before: Mapping[str, str], since: str) -> None:
        """Take the shell, and the variables as they were `since`."""
        self._shell, self._before, self._since = shell, before, since
        self.__doc__ = "Run a command of tfgpu for this kernel: %tfgpu doctor. All of them: %tfgpu --help"

    def __call__(self, line: str, cell: str | None = None) -> object:
        """Run `line`, with the text of the cell as standard input; return the result. Raises nothing."""
        try:
            with _standard_input(cell):
                return self._run(_words(line))
        except click.ClickException as error:
            say(f"tfgpu: {error.format_message()}")
        except commands.TfgpuError as error:
            say(f"tfgpu: {error}")
        except (click.Abort, KeyboardInterrupt):
            say("tfgpu: interrupted")
        except Exception as error:  # users get a sentence, developers the traceback
            if os.environ.get("TFGPU_DEBUG"):
                raise
            say(f"tfgpu: internal error: {type(error).__name__}: {error}")
        return None

    def _run(self, words: list[str]) -> object:
        from tfgpu_doctor.cli import cli

        if why := _NOT_HERE.get(words[0]):
            raise click.UsageError(f"{words[0]}: {why}")
        options = [word.partition("=")[0] for word in words]
        results: list[Any] | None = None if any(option in _PRINTS for option in options) else []
        cli.main(words, "tfgpu", standalone_mode=False, windows_expand_args=False, obj=results)
        if results and words[0] == "doctor" and not any(option in _OTHER for option in options):
            self._note(results)
        return results[-1] if results else None

    def _note(self, results: list[Any]) -> None:
        """Show what the report does not say about this kernel."""
        installed = [value_or(one.facts.tensorflow.version, None) for one in results if isinstance(one, Report)]
        sentences = tuple(notes(_imported(), (installed or [None])[0], self._before, os.environ, self._since))
        if sentences:
            from tfgpu_doctor.render.html.page import note

            self._shell.display_pub.publish({"text/plain": "\n".join(sentences), "text/html": note(sentences)})


def _words(line: str) -> list[str]:
    """The words of a line. Raises click.UsageError: a quotation is not closed."""
    try:
        return shlex.split(line) or ["--help"]
    except ValueError as error:
        raise click.UsageError(f"cannot read the line: {str(error).lower()}") from error


def _imported() -> str | None:
    """The release of TensorFlow that this process has imported; None if it has none."""
    module = sys.modules.get("tensorflow")
    return None if module is None else str(getattr(module, "__version__", ""))


def _at_first() -> tuple[Mapping[str, str], str]:
    """The variables with which this process was started, where the system tells; else as they are."""
    try:
        data = read_head("/proc/self/environ", _LARGEST).decode("utf-8", "surrogateescape")
    except OSError:
        return dict(os.environ), "the extension was loaded"
    pairs = (pair.partition("=") for pair in data.split("\0") if "=" in pair)
    return {name: value for name, _, value in pairs}, "the kernel started"


@contextmanager
def _standard_input(cell: str | None) -> Iterator[None]:
    """Give the text of the cell to whatever reads standard input; a kernel has none of its own."""
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(utf8(cell or "")), "utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def notes(
    imported: str | None, installed: str | None, before: Mapping[str, str], now: Mapping[str, str], since: str
) -> Iterator[str]:
    """What to know beside the report, in sentences.

    Args:
        imported: the release of TensorFlow that the kernel has imported ("" where it does not say); None: none.
        installed: the release that the examination found.
        before: variables of the kernel as they were at first.
        now: and as they are.
        since: when `before` was: "the kernel started".
    """
    if imported is not None:
        yield (
            f"TensorFlow {imported} is already imported in this kernel. The report is about a new process, with the "
            "packages and variables as they are now. The kernel keeps what it has read: restart it after a fix."
        ).replace("TensorFlow  ", "TensorFlow ")
    if imported and installed and imported != installed:
        yield (f"The kernel still has TensorFlow {imported}, but {installed} is installed now: restart the kernel.")
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new or reason(name) is None:
            continue
        change = f"{name} was {_shown(old)} when {since} and is {_shown(new)} now."
        if name in _AT_START:
            yield f"{change} It is read when a process starts: the report has the new value, this kernel the old one."
        elif imported is not None:
            yield (
                f"{change} If it was changed after TensorFlow was imported, it has no effect in this kernel: "
                "restart it, and change it in the first cell."
            )


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{cut(value, _LONGEST)}'"
