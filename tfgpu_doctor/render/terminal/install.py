"""An installation for people: what will be installed, what was made, or why it was not."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.install.folder import python_of
from tfgpu_doctor.install.making import Resolution
from tfgpu_doctor.install.records import LOCK, MANIFEST, Added, Manifest, Package, StepState
from tfgpu_doctor.install.room import SPEEDS, Sizes
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.units import count, memory_size
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.terminal.layout import conclude, marked, show_block, show_card, show_table, show_title

STEP_MARKS: dict[StepState, str] = {"ok": "ok", "warning": "warning", "failed": "error", "skipped": "absent"}
_MAIN = 8  # packages that are listed; the rest is counted
_FEW = 3  # names of added files
# distribution, without the CUDA in its name → what its version is promised by
_PROMISED = {"nvidia-cuda-runtime": "cuda", "nvidia-cudnn": "cudnn"}


def render_resolution(resolution: Resolution, console: Console) -> None:
    """Print what is going to be installed, and how much it is."""
    option, packages = resolution.choice.option, resolution.packages
    show_title(option.title, "", console)
    _show_copied("into", str(resolution.prefix), console)
    show_card(
        (
            ("with", f"{resolution.method}, Python {resolution.python} {resolution.interpreter}".rstrip()),
            ("has", f"CUDA {option.cuda}, cuDNN {option.cudnn}; needs driver {option.min_driver} or newer"),
            *(("before", fix.text) for fix in option.first),
            *(("note", note) for note in option.notes),
            *((("ignored", ", ".join(resolution.dropped)),) if resolution.dropped else ()),
        ),
        console,
    )
    console.print()
    if packages:
        main = sorted(packages, key=lambda one: (-(one.size or 0), one.name))[:_MAIN]
        main.sort(key=lambda one: not one.name.startswith("tensorflow"))
        sizes = [memory_size(one.size) if one.size else "-" for one in main]
        show_table(
            {"Package": [one.name for one in main], "Version": [one.version for one in main], "Download": sizes},
            console,
        )
        if len(packages) > len(main):
            marked("absent", f"and {count(len(packages) - len(main), 'more package')}", console)
    else:
        show_card((("packages", " ".join((*resolution.requirements, *resolution.choice.conda))),), console)
    console.print()
    show_card((("in all", _how_much(packages, resolution.sizes)),), console)


def _how_much(packages: tuple[Package, ...], sizes: Sizes) -> str:
    if sizes.download is None or sizes.on_disk is None:
        known = f"{count(len(packages), 'package')}; " if packages else ""
        return f"{known}{resolution_unknown(sizes)}"
    slow, fast = (seconds_text(sizes.download / speed) for speed in SPEEDS)
    return (
        f"{count(len(packages), 'package')}, {memory_size(sizes.download)} to download, about "
        f"{memory_size(sizes.on_disk)} on disk; {fast} to {slow} at {SPEEDS[1] / 1e6:.0f} to {SPEEDS[0] / 1e6:.0f} MB/s"
    )


def resolution_unknown(sizes: Sizes) -> str:
    """Where the resolver does not say how large the wheels are."""
    return f"the size of some packages is unknown; the disk has {memory_size(sizes.needed)} or more free"


def seconds_text(value: float) -> str:
    """A rough duration: "40 s", "5 min"."""
    return f"{value / 60:.0f} min" if value >= 100 else f"{max(value, 1):.0f} s"


def render_made(manifest: Manifest, console: Console) -> None:
    """Print what was made, how it was verified, and how to use it."""
    prefix = shlex.quote(manifest.prefix)
    console.print()
    show_card(_versions(manifest), console)
    show_card([("added", text) for text in _added(manifest.added)], console)
    console.print()
    for step in manifest.steps:
        marked(STEP_MARKS[step.state], f"{step.name}: {step.text}", console, indent=2)
    warned = any(step.state == "warning" for step in manifest.steps)
    done = f"{manifest.prefix} was created in {seconds_text(manifest.seconds)}"
    conclude(
        "warning" if warned else "ok",
        Text(f"{done}; what could not be verified here is marked above" if warned else f"{done} and verified"),
        console,
    )
    python = python_of(Path(manifest.prefix))
    activate = shlex.quote(str(Path(python).with_name("activate")))
    for label, command in (
        ("use it", f"conda activate {prefix}" if manifest.method == "conda" else f"source {activate}"),
        ("or", f"{shlex.quote(python)} SCRIPT.py"),
        ("check it", f"tfgpu doctor --python {shlex.quote(python)}"),
    ):
        _show_copied(label, command, console)
    show_card((("versions", f"in {LOCK}; all steps in {MANIFEST}"),), console)


def _show_copied(label: str, text: str, console: Console) -> None:
    """Print what is copied: a command or a path, never wrapped by us."""
    console.print(Text.assemble((f"  {label:10}  ", "dim"), (text, "bold cyan")), soft_wrap=True)


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
    marked("error", message, console)
    first = next((one for one in report.findings if one.root_cause), None) if report else None
    if report and first:
        show_block(block(first, {finding.id: finding.title for finding in report.findings}), console)
    if log:
        console.print()
        _show_copied("log", log, console)
