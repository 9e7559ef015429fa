"""An installation for people: what will be installed, what was made, or why it was not."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tfgpu_doctor import __version__
from tfgpu_doctor.install.folder import SPEEDS, Package, Sizes, python_of
from tfgpu_doctor.install.making import Resolution
from tfgpu_doctor.install.tools import LOCK, MANIFEST, Added, Manifest, StepState
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.units import count, memory_size
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.shapes import Block, Items, Line, Page, Part, Table
from tfgpu_doctor.render.text import render

_COMMAND = "tfgpu install"
_MARKS: dict[StepState, str] = {"ok": "ok", "warning": "warning", "failed": "error", "skipped": "absent"}
_MAIN = 8  # packages that are listed; the rest is counted
_FEW = 3  # names of added files
# distribution, without the CUDA in its name → what its version is promised by
_PROMISED = {"nvidia-cuda-runtime": "cuda", "nvidia-cudnn": "cudnn"}


def _page(mark: str, word: str, sentence: str, *parts: Part) -> Page:
    return Page(_COMMAND, (f"{_COMMAND} {__version__}",), mark, word, sentence, parts)


def render_resolution(resolution: Resolution, console: Console) -> None:
    """Print what is going to be installed, and how much it is."""
    option, packages = resolution.choice.option, resolution.packages
    lines = (
        Line("into", "", commands=(str(resolution.prefix),)),
        Line("with", f"{resolution.method}, Python {resolution.python} {resolution.interpreter}".rstrip()),
        Line("has", f"CUDA {option.cuda}, cuDNN {option.cudnn}; needs driver {option.min_driver} or newer"),
        *(Line("before", fix.text) for fix in option.first),
        *(Line("note", note) for note in option.notes),
        *((Line("ignored", ", ".join(resolution.dropped)),) if resolution.dropped else ()),
        *((Line("packages", " ".join((*resolution.requirements, *resolution.choice.conda))),) if not packages else ()),
    )
    main = sorted(packages, key=lambda one: (-(one.size or 0), one.name))[:_MAIN]
    main.sort(key=lambda one: not one.name.startswith("tensorflow"))
    rows = [(one.name, one.version, memory_size(one.size) if one.size else "-") for one in main]
    more = len(packages) - len(main)
    table = Table("Packages", ("Package", "Version", "Download"), tuple(rows))
    rest = Items((f"and {count(more, 'more package')}",) if more else (), mark="absent")
    how_much = _how_much(packages, resolution.sizes)
    render(_page("note", "in all", how_much, Block("", option.title, lines), table, rest), console)


def _how_much(packages: tuple[Package, ...], sizes: Sizes) -> str:
    if sizes.download is None or sizes.on_disk is None:  # the resolver does not say how large the wheels are
        known = f"{count(len(packages), 'package')}; " if packages else ""
        return f"{known}the size of some packages is unknown; the disk has {memory_size(sizes.needed)} or more free"
    slow, fast = (seconds_text(sizes.download / speed) for speed in SPEEDS)
    return (
        f"{count(len(packages), 'package')}, {memory_size(sizes.download)} to download, about "
        f"{memory_size(sizes.on_disk)} on disk; {fast} to {slow} at {SPEEDS[1] / 1e6:.0f} to {SPEEDS[0] / 1e6:.0f} MB/s"
    )


def seconds_text(value: float) -> str:
    """A rough duration: "40 s", "5 min"."""
    return f"{value / 60:.0f} min" if value >= 100 else f"{max(value, 1):.0f} s"


def render_made(manifest: Manifest, console: Console) -> None:
    """Print what was made, how it was verified, and how to use it."""
    python = python_of(Path(manifest.prefix))
    activate = f"source {shlex.quote(str(Path(python).with_name('activate')))}"
    use = f"conda activate {shlex.quote(manifest.prefix)}" if manifest.method == "conda" else activate
    steps = tuple((step.name, step.text) for step in manifest.steps)
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
        Table(
            "Installed",
            ("What", "Version"),
            (*_versions(manifest), *(("added", one) for one in _added(manifest.added))),
        ),
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


def _versions(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What the plan promised and what was installed."""
    option = manifest.option
    yield "created", f"Python {manifest.python} with {manifest.method}, {count(len(manifest.packages), 'package')}"
    for package in manifest.packages:
        base = package.name.rpartition("-cu")[0]
        if package.name == option.package:
            yield "TensorFlow", f"{package.version} (planned: {option.tensorflow})"
        elif promise := _PROMISED.get(base):
            label = "CUDA" if promise == "cuda" else "cuDNN"
            yield label, f"{package.version} (TensorFlow is built with {getattr(option, promise)})"


def render_failure(message: str, report: Report | None, log: str | None, console: Console) -> None:
    """Print why there is no environment, the finding that explains it, and where the log is."""
    first = next((one for one in report.findings if one.root_cause), None) if report else None
    parts: list[Part] = []
    if report and first:
        parts.append(block(first, {finding.id: finding.title for finding in report.findings}))
    if log:
        parts.append(Block("", "What the programs printed", (Line("log", "", commands=(log,)),)))
    render(_page("error", "", message, *parts)._replace(is_brief=True), console)
