"""An installation for people: what will be installed, what was made, or why it was not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.facts.units import count, memory_size
from tfgpu_doctor.install.folder import DOWNLOAD, ON_DISK, python_of
from tfgpu_doctor.install.making import Choice
from tfgpu_doctor.install.tools import LOCK, MANIFEST, Added, Manifest, StepState, dropped
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.shapes import Block, Line, Page, Part, Table
from tfgpu_doctor.render.text import render

_COMMAND = "tfgpu install"
_MARKS: dict[StepState, str] = {"ok": "ok", "warning": "warning", "failed": "error"}
_FEW = 3  # names of added files


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
        Line("by", "", commands=tuple(shlex.join(argv) for _, _, argv in choice.steps(prefix))),
    )
    size = f"up to {memory_size(DOWNLOAD)} to download, {memory_size(ON_DISK)} on disk"
    render(_page("note", "in all", size, Block("", option.title, lines)), console)


def seconds_text(value: float) -> str:
    """Return a rough duration: "40 s", "5 min"."""
    return f"{value / 60:.0f} min" if value >= 100 else f"{max(value, 1):.0f} s"


def render_made(manifest: Manifest, console: Console) -> None:
    """Print what was made, how it was verified, and how to use it."""
    python = python_of(Path(manifest.prefix))
    activate = f"source {shlex.quote(str(Path(python).with_name('activate')))}"
    use = f"conda activate {shlex.quote(manifest.prefix)}" if manifest.method == "conda" else activate
    steps = tuple((step.name, step.text) for step in manifest.steps)
    made = f"TensorFlow {manifest.option.tensorflow}, Python {manifest.python}, with {manifest.method}"
    commands = (
        Line("use it", "", commands=(use,)),
        Line("or", "", commands=(f"{shlex.quote(python)} SCRIPT.py",)),
        Line("check it", "", commands=(f"tfgpu doctor --python {shlex.quote(python)}",)),
        Line("versions", f"in {LOCK}; all steps in {MANIFEST}"),
    )
    warned = any(step.state == "warning" for step in manifest.steps)
    done = f"{manifest.prefix} was created in {seconds_text(manifest.seconds)}"
    sentence = f"{done}; what could not be verified here is marked above" if warned else f"{done} and verified"
    page = _page(
        "warning" if warned else "ok",
        "",
        sentence,
        Block("", made, tuple(Line("added", one) for one in _added(manifest.added))),
        Table("Steps", ("Step", "Result"), steps, tuple(_MARKS[step.state] for step in manifest.steps)),
        Block("", "How to use it", commands),
    )
    render(page, console)


def _added(added: tuple[Added, ...]) -> Iterator[str]:
    """What was added for one reason to one folder, in one line."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in added:
        folder, _, name = one.path.rpartition("/")
        groups.setdefault((one.kind, folder, one.why), []).append(name)
    for (kind, folder, why), names in groups.items():
        what = count(len(names), kind if kind == "link" else "file")
        shown = ", ".join(names) if len(names) <= _FEW else f"{', '.join(names[:_FEW])} ..."
        yield f"{what} in {folder} ({shown}): {why}"


def render_failure(message: str, report: Report | None, log: str | None, console: Console) -> None:
    """Print why there is no environment, the finding that explains it, and where the log is."""
    first = next((one for one in report.findings if one.root_cause), None) if report else None
    parts: list[Part] = []
    if report and first:
        parts.append(block(first, {finding.id: finding.title for finding in report.findings}))
    if log:
        parts.append(Block("", "What the programs printed", (Line("log", "", commands=(log,)),)))
    render(_page("error", "", message, *parts)._replace(is_brief=True), console)
