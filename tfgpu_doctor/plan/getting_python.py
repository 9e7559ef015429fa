"""Where an interpreter, uv or the module venv comes from where it is missing. Pure.

Sources: "Installing uv" and "Installing and managing Python" of uv's documentation (an installed Python is on PATH as
pythonX.Y since uv 0.8); the description of the deadsnakes PPA (3.7 and later for the current Ubuntu LTS releases; other
systems of Debian's family split off the module venv, too); PEP 668 (a system's Python refuses pip outside of an
environment, so all commands make one).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import capability

OLDEST_OF_UV = (3, 8)  # that `uv python list --all-versions` can bring
_OLDEST_OF_DEADSNAKES = (3, 7)


def what_may_be_missing(
    managers: Collection[str], python: str, interpreter: str, *, installers: Collection[str] = (), there: bool = False
) -> Iterator[Fix]:
    """How to get the programs that the commands start, the commonest first.

    Args:
        managers: the package managers whose commands are shown.
        python: the version that is wanted.
        interpreter: the program that pip's commands start.
        installers: package managers that are known to be there.
        there: the interpreter is known to be there.
    """
    if "uv" in managers and "uv" not in installers:
        yield Fix("uv is missing", ("pipx install uv",))
    if "pip" in managers and not there and (found := tuple(_interpreter(python, interpreter))):
        yield Fix(f"{interpreter} is missing", found)
    if "pip" in managers and capability(python) > (2, 7):
        package = f"{interpreter}-venv" if interpreter.startswith("python") else f"python{python}-venv"
        yield Fix("venv is missing (Debian, Ubuntu)", (f"sudo apt-get install -y {package}",))
    if "conda" in managers and len(managers) == 1 and "conda" not in installers:
        yield Fix("conda is missing", ("python3 -m webbrowser https://conda-forge.org/download/",))


def missing_on_macos(python: str, interpreter: str, *, there: bool) -> Iterator[Fix]:
    """The same on a Mac, whose own Python is not meant for packages (Homebrew's formulae have the version's name)."""
    if not there:
        yield Fix(f"{interpreter} is missing", (f"brew install python@{python}",))
    yield Fix("uv is missing", ("brew install uv",))


def _interpreter(python: str, interpreter: str) -> Iterator[str]:
    if interpreter == "python3":
        return
    if capability(python) >= OLDEST_OF_UV:
        yield f"uv python install {python}"
    if capability(python) >= _OLDEST_OF_DEADSNAKES:
        yield f"sudo add-apt-repository -y ppa:deadsnakes/ppa && sudo apt-get install -y python{python}-venv  # Ubuntu"
    else:
        yield f"pyenv install {python}"
