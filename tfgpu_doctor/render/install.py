"""An installation for people: what will be installed, and what was made."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from rich.console import Console

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.units import memory_size
from tfgpu_doctor.install.making import Choice, State
from tfgpu_doctor.install.tools import DOWNLOAD, ON_DISK, dropped
from tfgpu_doctor.render.shapes import Block, Line, Page, Part, Table
from tfgpu_doctor.render.text import render

_COMMAND = "tfgpu install"
_MARKS: dict[State, str] = {"ok": "ok", "warning": "warning", "failed": "error"}


def _page(mark: str, word: str, sentence: str, *parts: Part) -> Page:
    return Page(_COMMAND, (f"{_COMMAND} {__version__}",), mark, word, sentence, parts)


def render_choice(choice: Choice, prefix: Path, console: Console) -> None:
    """Print what is going to be installed, and by which commands."""
    option, ignored = choice.option, dropped(os.environ)
    lines = (
        Line("into", "", commands=(str(prefix),)),
        Line("with", f"{choice.method}, Python {choice.python} {choice.interpreter or ''}".rstrip()),
        Line("has", f"CUDA {option.cuda}, cuDNN {option.cudnn}; needs driver {option.min_driver} or newer"),
        *(Line("before", fix.text) for fix in option.first),
        *(Line("note", note) for note in option.notes),
        *((Line("ignored", ", ".join(ignored)),) if ignored else ()),
        Line("by", "", commands=tuple(shlex.join(argv) for _, argv in choice.steps(prefix))),
        *(Line("then", text) for text in choice.after(prefix)),
    )
    size = f"up to {memory_size(DOWNLOAD)} to download, {memory_size(ON_DISK)} on disk"
    render(_page("note", "in all", size, Block("", option.title, lines)), console)


def render_made(choice: Choice, prefix: Path, state: State, text: str, console: Console) -> None:
    """Print what was made, how it was verified, and how to use it."""
    python = str(prefix / "bin" / "python")
    activate = f"source {shlex.quote(str(Path(python).with_name('activate')))}"
    use = f"conda activate {shlex.quote(str(prefix))}" if choice.method == "conda" else activate
    made = f"TensorFlow {choice.release.version}, Python {choice.python}, with {choice.method}"
    commands = (
        Line("use it", "", commands=(use,)),
        Line("or", "", commands=(f"{shlex.quote(python)} SCRIPT.py",)),
        Line("check it", "", commands=(f"tfgpu doctor --python {shlex.quote(python)}",)),
    )
    open_ = "; what could not be verified here is marked above"
    sentence = f"{prefix} was created{open_ if state == 'warning' else ' and verified'}"
    table = Table(made, ("Step", "Result"), (("doctor", text),), (_MARKS[state],), is_named=True)
    render(_page(_MARKS[state], "", sentence, table, Block("", "How to use it", commands)), console)
