"""`%tfgpu COMMAND` and `%%tfgpu explain -`: the commands in the kernel of a notebook, for its own Python."""

from __future__ import annotations

import io
import os
import shlex
import sys
from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.render.streams import say

_PRINTS = ("--format", "--output", "--html", "--help", "-h")  # with these, a command prints or writes its result itself


def load_ipython_extension(shell: Any) -> None:
    """Add the magic %tfgpu for lines and cells; called by `%load_ext tfgpu_doctor`."""
    shell.register_magic_function(run, "line_cell", "tfgpu")


def run(line: str, cell: str | None = None) -> object:
    """Run a command of tfgpu for this kernel: %tfgpu doctor. All of them: %tfgpu --help.

    The text of the cell is standard input. Returns the result, which shows itself; of a mistake, prints a sentence.
    """
    from tfgpu_doctor.cli import cli

    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(utf8(cell or "")), "utf-8")
    try:
        words = shlex.split(line) or ["--help"]
        results: list[Any] | None = None if any(word.partition("=")[0] in _PRINTS for word in words) else []
        cli.main(words, "tfgpu", standalone_mode=False, windows_expand_args=False, obj=results)
        if words[0] == "doctor" and "tensorflow" in sys.modules:
            say("tfgpu: the report is about a new process; restart this kernel after a fix, it has imported TensorFlow")
        return results[-1] if results else None
    except click.ClickException as error:
        say(f"tfgpu: {error.format_message()}")
    except (commands.TfgpuError, ValueError) as error:  # a quotation that is not closed is a ValueError
        say(f"tfgpu: {error}")
    except (click.Abort, KeyboardInterrupt):
        say("tfgpu: interrupted")
    except Exception as error:  # users get a sentence, developers the traceback
        if os.environ.get("TFGPU_DEBUG"):
            raise
        say(f"tfgpu: internal error: {type(error).__name__}: {error}")
    finally:
        sys.stdin = before
    return None
