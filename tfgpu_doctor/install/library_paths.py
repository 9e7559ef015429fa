"""Library paths that hold without the user's shell: links within the environment, and XLA's folder.

TensorFlow opens CUDA's libraries by name, and the loader looks into the folders that the RUNPATH of the calling library
names. Up to 2.13 that is TensorFlow's own folder alone; in 2.16.1 and 2.21.0 folders of the extra and-cuda are missing.
A link in one of the folders that are searched does what LD_LIBRARY_PATH would do, in every shell, in a notebook and
under cron. What is added stands in TensorFlow's RECORD, so that pip removes it with that TensorFlow.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfgpu_doctor.files import writing
from tfgpu_doctor.files.reading import read_whole
from tfgpu_doctor.findings.derived import OPTIONAL_COMPONENTS
from tfgpu_doctor.install.records import Added
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.probes import xla_files
from tfgpu_doctor.probes.elf import Elf
from tfgpu_doctor.probes.files import names_in
from tfgpu_doctor.probes.library_places import Listing, Place, places
from tfgpu_doctor.probes.loader import caller_of
from tfgpu_doctor.records.versions import at_least

_LIMIT = 32 << 20  # bytes of RECORD; that of TensorFlow 2.21 has 3 MB
_COMPILER = os.path.join("nvidia", "cuda_nvcc")
_HOOK = '''\
"""Written by `tfgpu install`: tells XLA where this environment has ptxas and libdevice, when TensorFlow is imported.

TensorFlow before 2.14 does not look into NVIDIA's packages. A value of XLA_FLAGS that is set already is kept.
"""

import sys


class _BeforeTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            import os

            sys.meta_path.remove(self)
            folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvidia", "cuda_nvcc")
            if os.path.isdir(folder):
                os.environ.setdefault("XLA_FLAGS", "--xla_gpu_cuda_data_dir=" + folder)
        return None


sys.meta_path.insert(0, _BeforeTensorFlow())
'''


@dataclass(frozen=True)
class _Lacking:
    """A file to add: a link to `target`, or one with `text`."""

    path: Path
    kind: Literal["link", "pth", "module"]
    why: str
    target: str = ""
    text: str = ""

    def make(self) -> None:
        if self.text:
            writing.replace(str(self.path), self.text.encode())
            return
        self.path.unlink(missing_ok=True)  # a dangling link
        self.path.symlink_to(self.target)


def add_library_paths(prefix: Path, release: Release, *, dry_run: bool = False) -> tuple[Added, ...]:
    """Let TensorFlow find the CUDA libraries of an environment in any shell; returns what was added.

    Nothing is added if the RUNPATH leads to every library, and nothing twice. Files of packages are not changed. With
    `dry_run`, returns what would be added.

    Raises OSError: a file cannot be written.
    """
    added: list[Added] = []
    for site in sites(prefix):
        if not (site / "tensorflow").is_dir():
            continue
        found = (*_links(site, release), *_hook(site, release))
        lacking = list({one.path: one for one in reversed(found)}.values())[::-1]
        if not dry_run:
            for one in lacking:
                one.make()
            _record(site, release, [one.path for one in lacking])
        added += (Added(one.path.relative_to(prefix).as_posix(), one.kind, one.why) for one in lacking)
    return tuple(added)


def sites(prefix: Path) -> list[Path]:
    """The site-packages folders of an environment."""
    found = [*prefix.glob("lib*/python*/site-packages"), *prefix.glob("Lib/site-packages")]
    return list({os.path.realpath(one): one for one in reversed(found)}.values())


def _links(site: Path, release: Release) -> Iterator[_Lacking]:
    """Link what the RUNPATH does not lead to into a folder that it names."""
    caller = caller_of(str(site / "tensorflow"))
    if not isinstance(caller, Elf):
        return
    searched = [folder for folder in caller.runpath if os.path.isdir(folder) and _is_below(folder, site)]
    wheels = places([str(site)], [], [], "/")
    listing = Listing("/")
    absent = [lib for lib in release.libraries if not any(_finds(one, lib.soname) for one in searched)]
    sources = [place for lib in absent for place in wheels if _finds(place.folder, lib.soname)]
    if not (searched and sources) or all(lib.component in OPTIONAL_COMPONENTS for lib in absent):
        return
    folder = _folder_for(searched, wheels)
    # among its siblings a library finds what it needs by its own RUNPATH, $ORIGIN/../../cublas/lib; elsewhere it does
    # not, and needs all of them beside it
    whole = sources if folder in [os.path.realpath(place.folder) for place in wheels] else wheels
    for source in dict.fromkeys(place.folder for place in whole):
        for name in listing.names(source):
            if ".so." in name and _finds(source, name) and not any(_finds(one, name) for one in searched):
                target = os.path.relpath(os.path.join(source, name), folder)
                why = f"RUNPATH of {os.path.basename(caller.path)} does not lead to it"
                yield _Lacking(Path(folder, name), "link", why, target=target)


def _folder_for(searched: Sequence[str], wheels: Sequence[Place]) -> str:
    """The folder for the links: that of a wheel rather than TensorFlow's own."""
    siblings = {os.path.realpath(place.folder) for place in wheels}
    return next((one for one in searched if os.path.realpath(one) in siblings), searched[-1])


def _finds(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


def _is_below(folder: str, site: Path) -> bool:
    return os.path.realpath(folder).startswith(os.path.realpath(site) + os.sep)


def _hook(site: Path, release: Release) -> Iterator[_Lacking]:
    """Name NVIDIA's compiler package to an XLA that does not look into it."""
    if at_least(release.version, xla_files.WHEEL_SINCE) is not False or not (site / _COMPILER).is_dir():
        return
    why = "XLA of this release looks for ptxas and libdevice in toolkits only"
    module, line = site / f"{xla_files.HOOK}.py", site / f"{xla_files.HOOK}.pth"
    if not module.exists():
        yield _Lacking(module, "module", why, text=_HOOK)
    if not line.exists():
        yield _Lacking(line, "pth", why, text=f"import {xla_files.HOOK}\n")


def _record(site: Path, release: Release, paths: Sequence[Path]) -> None:
    """Add files to TensorFlow's RECORD, so that they go with it: a later release finds no libraries of this one."""
    name = f"{release.package.replace('-', '_')}-{release.version}.dist-info"
    if not paths or name not in names_in(str(site)) or not (site / name / "RECORD").is_file():
        return
    record = str(site / name / "RECORD")
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows((path.relative_to(site).as_posix(), "", "") for path in paths)
    old = read_whole(record, _LIMIT)
    writing.replace(record, old + (b"" if old.endswith(b"\n") else b"\n") + rows.getvalue().encode())
