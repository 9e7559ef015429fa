"""How the loader finds CUDA's libraries in an environment, in every shell and without LD_LIBRARY_PATH. Pure.

TensorFlow opens them from libtensorflow_framework.so.2, and the loader looks into the folders of its RUNPATH. Up to
2.13 that is the folder tensorflow/ itself; 2.16.1 and 2.21.0 lack some folders of the extra, but not cuda_runtime
(readelf on the wheels). A link in a folder that is searched does what LD_LIBRARY_PATH would, a second run
changes nothing, and there is nothing that `deactivate` would have to undo.

What an environment needs stands here once: plans print it as commands, and `tfgpu install` does it.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.records.versions import at_least

# XLA of 2.13 and older does not look into NVIDIA's packages for ptxas and libdevice: those wheels do not hold the
# string "../nvidia/cuda_nvcc"
XLA_READS_PACKAGES_SINCE = "2.14"
COMPILER = "nvidia/cuda_nvcc"  # below site-packages


@dataclass(frozen=True)
class Links:
    """Links in one folder to the files of others, all below site-packages."""

    folder: str
    files: tuple[str, ...]  # patterns, for a shell and for Python's glob


@dataclass(frozen=True)
class StartLine:
    """A line that Python executes when it starts in the environment."""

    file: str  # below site-packages
    text: str


@dataclass(frozen=True)
class LibraryPaths:
    """What an environment needs besides its packages."""

    links: tuple[Links, ...] = ()
    lines: tuple[StartLine, ...] = ()


_ALL = Links("tensorflow", ("nvidia/*/lib/*.so*",))
# of all that it opens; what these need themselves they find by $ORIGIN/../../nvjitlink/lib
_FORGOTTEN = Links(
    "nvidia/cuda_runtime/lib",
    tuple(f"nvidia/{one}/lib/*.so*" for one in ("cu[bfrs]*", "cudnn", "cuda_cupti", "nccl")),
)
XLA_LINE = StartLine(  # a value that is set already is kept
    "_tfgpu_xla_flags.pth",
    'import os, sysconfig; os.environ.setdefault("XLA_FLAGS", '
    f'"--xla_gpu_cuda_data_dir=" + sysconfig.get_path("purelib") + "/{COMPILER}")',
)
_ACTIVATE = 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
_DEACTIVATE = 'LD_LIBRARY_PATH="${LD_LIBRARY_PATH#"$CONDA_PREFIX/lib"}"; export LD_LIBRARY_PATH="${LD_LIBRARY_PATH#:}"'


def forgets_folders(issue: KnownIssue) -> bool:
    """Whether the issue is a RUNPATH that lacks folders of the extra: links repair it."""
    return issue.severity == "error" and issue.affects == "run" and issue.condition.extra


def repaired_by_links(matrix: Matrix) -> frozenset[str]:
    """The ids of these issues: a release with one of them can be installed if it is asked for."""
    return frozenset(one.id for one in matrix.data.known_issues if forgets_folders(one))


def library_paths(row: Release, *, cuda_from_pip: bool) -> LibraryPaths:
    """What an environment with this release needs; nothing where its RUNPATH leads to every library.

    Args:
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
    """
    if cuda_from_pip:
        old = at_least(row.version, XLA_READS_PACKAGES_SINCE) is False
        return LibraryPaths((_ALL,), (XLA_LINE,) if old else ())
    return LibraryPaths((_FORGOTTEN,) if any(forgets_folders(issue) for issue in row.known_issues) else ())


def link_commands(row: Release, site: str, *, cuda_from_pip: bool, inside: str = "") -> tuple[str, ...]:
    """The commands after pip's that give an environment its library paths.

    Args:
        site: the site-packages folder, as the shell can read it.
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
        inside: what runs a command within the environment ("conda run -n tf"), where `site` is known there alone.
    """
    return tuple(
        f"{inside} sh -c {shlex.quote(command)}" if inside else command
        for command in _commands(library_paths(row, cuda_from_pip=cuda_from_pip), site, subshell=not inside)
    )


def _commands(paths: LibraryPaths, site: str, *, subshell: bool) -> Iterator[str]:
    for links in paths.links:
        files = " ".join(posixpath.relpath(pattern, links.folder) for pattern in links.files)
        command = f"cd {site}/{links.folder} && ln -sf {files} ."
        yield f"({command})" if subshell else command
    yield from (start_line_command(line, site) for line in paths.lines)


def link_found(folders: Iterable[str], target: str) -> str:
    """The command that links all libraries of folders wherever they are: those of cuDNN search their own folder.

    Args:
        folders: paths as the loader has them; a part "*" is a pattern.
        target: the folder to link them into, which TensorFlow searches.
    """
    files = " ".join("/*/".join(map(shlex.quote, folder.split("/*/"))) + "/*.so*" for folder in folders)
    return f"ln -sf {files} {shlex.quote(target + '/')}"


def xla_line(folder: str) -> StartLine:
    """The same for a toolkit in another folder."""
    option = f"--xla_gpu_cuda_data_dir={folder}"
    return StartLine(XLA_LINE.file, f'import os; os.environ.setdefault("XLA_FLAGS", "{option}")')


def start_line_command(line: StartLine, site: str) -> str:
    """The command that adds a line; `site` is the site-packages folder, as the shell can read it."""
    return f"echo {shlex.quote(line.text)} > {site}/{line.file}"


def conda_library_path(conda: str) -> tuple[str, ...]:
    """Let activation put the environment's lib folder before what LD_LIBRARY_PATH holds, and deactivation remove it.

    `conda env config vars set` would replace the variable: on some clusters it leads to the driver.

    Args:
        conda: the folder etc/conda of the environment, as a shell word.
    """
    return (
        f'E={conda}; mkdir -p "$E/activate.d" "$E/deactivate.d"',
        f'echo {shlex.quote(_ACTIVATE)} > "$E/activate.d/cuda.sh"',
        f'echo {shlex.quote(_DEACTIVATE)} > "$E/deactivate.d/cuda.sh"',
    )
