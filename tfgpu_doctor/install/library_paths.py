"""Library paths that hold without the user's shell: what `plan.library_links` describes, made within an environment.

What is added stands in TensorFlow's RECORD, so that pip removes it with that TensorFlow.
"""

from __future__ import annotations

import csv
import glob
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfgpu_doctor.files import writing
from tfgpu_doctor.files.reading import read_whole
from tfgpu_doctor.findings.inputs import OPTIONAL_COMPONENTS
from tfgpu_doctor.install.records import Added
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.library_links import COMPILER, Links, StartLine, library_paths
from tfgpu_doctor.probes.elf import Elf
from tfgpu_doctor.probes.files import names_in
from tfgpu_doctor.probes.loader import caller_of
from tfgpu_doctor.records.printable import utf8

_LIMIT = 32 << 20  # bytes of RECORD; that of TensorFlow 2.21 has 3 MB


@dataclass(frozen=True)
class _Lacking:
    """A file to add: a link to `target`, or one with `text`."""

    path: Path
    kind: Literal["link", "pth"]
    why: str
    target: str = ""
    text: str = ""

    def make(self) -> None:
        if self.text:
            writing.replace(str(self.path), utf8(self.text))
            return
        if self.path.is_symlink() and not self.path.exists():  # it leads nowhere
            self.path.unlink()
        self.path.symlink_to(self.target)


def add_library_paths(prefix: Path, release: Release) -> tuple[Added, ...]:
    """Let TensorFlow find the CUDA libraries of an environment in any shell; returns what was added.

    Nothing is added if the RUNPATH leads to every library, and nothing twice. Files of packages are not changed.

    Raises OSError: a file cannot be written.
    """
    added: list[Added] = []
    paths = library_paths(release, cuda_from_pip=release.extra is None)
    for site in sites(prefix):
        if not (site / "tensorflow").is_dir():
            continue
        lacking = [*_links(site, release, paths.links), *_lines(site, paths.lines)]
        for one in lacking:
            one.make()
        _record(site, release, [one.path for one in lacking])
        added += (Added(one.path.relative_to(prefix).as_posix(), one.kind, one.why) for one in lacking)
    return tuple(added)


def sites(prefix: Path) -> list[Path]:
    """The site-packages folders of an environment; one that a link leads to may belong to somebody else."""
    found = [*prefix.glob("lib*/python*/site-packages"), *prefix.glob("Lib/site-packages")]
    own = os.path.realpath(prefix) + os.sep
    real = {os.path.realpath(one): one for one in reversed(found)}
    return [one for path, one in real.items() if path.startswith(own)]


def _links(site: Path, release: Release, described: Iterable[Links]) -> Iterator[_Lacking]:
    """The links to what the RUNPATH does not lead to, if TensorFlow opens any of that."""
    caller = caller_of(str(site / "tensorflow"))
    folders = caller.runpath or caller.rpath if isinstance(caller, Elf) else ()  # up to 2.6 it is an RPATH
    searched = set(map(os.path.realpath, folders))
    opened = {one.soname for one in release.libraries if one.component not in OPTIONAL_COMPONENTS}
    for links in described:
        folder = site / links.folder
        hidden = dict(_hidden(site, links.files, searched))
        if os.path.realpath(folder) not in searched or opened.isdisjoint(hidden):
            continue
        why = f"the RUNPATH of {os.path.basename(getattr(caller, 'path', ''))} does not lead to it"
        for name, file in hidden.items():
            yield _Lacking(folder / name, "link", why, target=os.path.relpath(file, folder))


def _hidden(site: Path, patterns: Iterable[str], searched: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The libraries, by name, that are in none of the folders which the loader searches."""
    for pattern in patterns:
        for file in sorted(glob.glob(os.path.join(glob.escape(str(site)), pattern))):
            name = os.path.basename(file)
            if os.path.exists(file) and not any(os.path.exists(os.path.join(one, name)) for one in searched):
                yield name, file


def _lines(site: Path, described: Iterable[StartLine]) -> Iterator[_Lacking]:
    why = "XLA of this release looks for ptxas and libdevice in toolkits only"
    for line in described:
        if (site / COMPILER).is_dir() and not (site / line.file).exists():
            yield _Lacking(site / line.file, "pth", why, text=f"{line.text}\n")


def _record(site: Path, release: Release, paths: Sequence[Path]) -> None:
    """Add files to TensorFlow's RECORD, so that they go with it: a later release finds no libraries of this one."""
    name = f"{release.package.replace('-', '_')}-{release.version}.dist-info"
    if not paths or name not in names_in(str(site)) or not (site / name / "RECORD").is_file():
        return
    record = str(site / name / "RECORD")
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows((path.relative_to(site).as_posix(), "", "") for path in paths)
    old = read_whole(record, _LIMIT)
    writing.replace(record, old + (b"" if old.endswith(b"\n") else b"\n") + utf8(rows.getvalue()))
