"""A new environment is examined before it is handed over: its library paths, and what the doctor says."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tfgpu_doctor.facts import writing
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.facts.report import Report, Severity, root_causes
from tfgpu_doctor.findings.inputs import OPTIONAL_COMPONENTS
from tfgpu_doctor.install.folder import InstallError, python_of
from tfgpu_doctor.install.tools import Added, Step, StepState
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.install_commands import XLA_FILE, LibraryPaths, library_paths, xla_line
from tfgpu_doctor.probes.examine import examine
from tfgpu_doctor.probes.loader import Elf, caller_of


def add_library_paths(prefix: Path, release: Release) -> tuple[Added, ...]:
    """Let TensorFlow find the CUDA libraries of an environment in any shell; returns what was added.

    Nothing is added if the RUNPATH leads to every library, and nothing twice. Files of packages are not changed.

    Raises OSError: a file cannot be written.
    """
    added: list[Added] = []
    paths = library_paths(release, cuda_from_pip=release.extra is None)
    own = os.path.realpath(prefix) + os.sep
    sites = [*prefix.glob("lib*/python*/site-packages"), *prefix.glob("Lib/site-packages")]
    for real in dict.fromkeys(map(os.path.realpath, sites)):
        site = next(one for one in sites if os.path.realpath(one) == real)
        # a folder that a link leads to may belong to somebody else
        if not real.startswith(own) or not (site / "tensorflow").is_dir():
            continue
        for link, target, why in [*_missing_links(site, release, paths)]:
            if link.is_symlink() and not link.exists():  # it leads nowhere
                link.unlink()
            link.symlink_to(target)
            added.append(Added(link.relative_to(prefix).as_posix(), "link", why))
        file = site / XLA_FILE
        if paths.needs_xla_line and (site / XLA_COMPILER).is_dir() and not file.exists():
            writing.replace(str(file), utf8(f"{xla_line()}\n"))
            why = "XLA of this release looks for ptxas and libdevice in toolkits only"
            added.append(Added(file.relative_to(prefix).as_posix(), "pth", why))
    return tuple(added)


def _missing_links(site: Path, release: Release, paths: LibraryPaths) -> Iterator[tuple[Path, str, str]]:
    """The links, with target and reason, to what the RUNPATH does not lead to, if TensorFlow opens any of that."""
    caller = caller_of(str(site / "tensorflow"))
    folders = caller.runpath or caller.rpath if isinstance(caller, Elf) else ()  # up to 2.6 it is an RPATH
    searched = set(map(os.path.realpath, folders))
    opened = {one.soname for one in release.libraries if one.component not in OPTIONAL_COMPONENTS}
    why = f"the RUNPATH of {os.path.basename(getattr(caller, 'path', ''))} does not lead to it"
    folder, below = site / paths.folder, glob.escape(str(site))
    files = [one for pattern in paths.files for one in sorted(glob.glob(os.path.join(below, pattern)))]
    there = {os.path.basename(one): one for one in files if os.path.exists(one)}
    hidden = {name: one for name, one in there.items() if not any(map(os.path.exists, _in_each(searched, name)))}
    if os.path.realpath(folder) in searched and not opened.isdisjoint(hidden):
        for name, file in hidden.items():
            yield folder / name, os.path.relpath(file, folder), why


def _in_each(folders: Iterable[str], name: str) -> Iterator[str]:
    return (os.path.join(folder, name) for folder in folders)


# Set by somebody for other programs, or for a TensorFlow of their own: they lead elsewhere, or change what it does.
_DISTURBING = re.compile(r"(?:PYTHON|PIP_|UV_|VIRTUAL_ENV|CONDA_|LD_|XLA_|TF_|KERAS_|CUDA_(?!VISIBLE)|CUDNN_).*")
# What findings of these layers are about can be repaired in the environment; the others are about the machine.
_OF_THE_ENVIRONMENT = ("tf.", "cuda.", "cudnn.", "xla.", "compute.", "gpu.arch-")


class UnprovenError(InstallError):
    """The environment was made and does not work; `report` is the doctor's."""

    def __init__(self, message: str, report: Report) -> None:
        """Describe it."""
        super().__init__(message)
        self.report = report


def bare(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a shell in which nothing is set for Python, TensorFlow or CUDA."""
    return {name: value for name, value in environ.items() if not _DISTURBING.fullmatch(name)}


def prove(prefix: Path, release: Release, matrix: Matrix, environ: Mapping[str, str]) -> tuple[Step, Report]:
    """Examine an environment as `tfgpu doctor` does, in a shell in which nothing is set; return how that ended.

    What cannot be verified without a GPU or its driver is a warning. Never raises for what it finds.
    """
    begin = time.monotonic()
    examination = examine(python_of(prefix), lambda: matrix, environ=bare(environ))
    timings = examination.timings
    report = make_report(examination.facts, matrix, source="live", timings=timings, for_any_machine=True)
    state, text = judged(report)
    found = value_or(report.facts.tensorflow.version, None)
    if state != "failed" and found != release.version:
        state, text = "failed", f"TensorFlow {found or 'of an unknown version'} was imported, not {release.version}"
    return Step("doctor", state, text, round(time.monotonic() - begin, 1)), report


def judged(report: Report) -> tuple[StepState, str]:
    """Return what the doctor's report says about the environment, and about the machine."""
    errors = [one for one in root_causes(report.findings) if one.severity is Severity.ERROR]
    own = [one for one in errors if one.id.startswith(_OF_THE_ENVIRONMENT)]
    titles = "; ".join(f"{one.title} ({one.id})" for one in own or errors)
    if own:
        return "failed", titles
    if errors:
        return "warning", f"{titles}: what needs a GPU was not verified"
    passed = dict.fromkeys(one.kind for one in value_or(report.facts.tensorflow.checks, ()) if one.ok)
    if report.verdict == "unknown" or not passed:
        return "warning", "what needs a GPU could not be determined"
    return "ok", f"verified on the GPU: {', '.join(passed)}"
