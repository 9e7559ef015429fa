"""Where commands install to: a later stage of a Dockerfile that copies such a folder gets the packages in it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

_PROGRAM = re.compile(r"(\S*[^/\s])/bin/(?:python|pip|uv|poetry|conda|mamba|activate)[\d.]*")
_CREATES = frozenset({"venv", "virtualenv"})
_IN_PROJECT = ("uv", "poetry", "pdm", "pipenv")  # sync or install: into .venv of the project
_OPTIONS = frozenset(
    ("--prefix", "--target", "-t", "--root", "-w", "--wheel-dir", "-d", "--dest", "-p", "--python", "--root-prefix")
)
_NAMES = frozenset({"-n", "--name"})  # of an environment of conda
# what holds packages by its name, wherever it comes from
_KNOWN = re.compile(
    r"venv|(?:site|dist)-packages|/\.local\b|conda|/envs/|^/opt/app-root|^/usr(?:/local(?:/lib[\w./]{0,200})?)?$|^/(?:opt)?$"
)
WITH_PYTHON = ("/", "/usr", "/usr/local", "/env", "/opt")  # copied as a whole, they hold the interpreter
_LIBRARIES = re.compile(r"/lib(?:64)?(?:/|$)")
LONGEST = 1_000  # characters of a path
MOST = 100  # folders of a stage


def folders(texts: list[str]) -> Iterator[str]:
    """The folders that one command installs into, as far as its words name them."""
    creates = False
    for index, text in enumerate(texts[:1000]):
        following = texts[index + 1] if index + 1 < len(texts) else ""
        option, equals, value = text.partition("=")
        if found := _PROGRAM.fullmatch(text[:LONGEST]):
            yield found[1]
        elif option in _OPTIONS:
            yield value if equals else following
        elif option in _NAMES:
            yield f"/envs/{value if equals else following}"
        elif text in _CREATES:
            creates = True
        elif creates and not text.startswith("-"):
            yield text
        if text in _IN_PROJECT and following in ("sync", "install"):
            yield ".venv"


def variable_folder(name: str, value: str) -> str | None:
    """The folder of packages that a variable names: VIRTUAL_ENV, or what PATH begins with."""
    if name in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONUSERBASE", "CONDA_DIR", "CONDA_PREFIX", "PYTHONPATH"):
        return value.split(":")[0]
    first = value.split(":")[0]
    return first.removesuffix("/bin") if name == "PATH" and first.endswith("/bin") else None


def brings(source: str, installed: Iterable[str]) -> bool:
    """Whether a copy of `source` has the packages of a stage that installs into these folders."""
    source = source[:LONGEST]
    if "*" in posixpath.basename(source):
        source = posixpath.dirname(source)
    source = posixpath.normpath(source)
    if posixpath.basename(source) in ("bin", "include", "share") or re.search(r"/bin/[^/]+$", source):
        return False
    return _KNOWN.search(source) is not None or any(_related(source, one) for one in installed)


def _related(source: str, folder: str) -> bool:
    """Whether a copied folder holds one of packages, or is its libraries."""
    below = source.startswith(f"{folder}/") and _LIBRARIES.search(source.removeprefix(folder)) is not None
    return source == folder or folder.startswith(f"{source.rstrip('/')}/") or below
