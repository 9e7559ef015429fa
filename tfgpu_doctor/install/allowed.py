"""Which of the commands that the doctor prints `tfgpu install --repair` executes: pip and uv, in one environment. Pure.

A command is what a user would paste. It is split as a shell would split it, and executed without one, only where all of
its words are known: the program, what it is to do, options that stay within the environment, and requirements.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tfgpu_doctor.records.distributions import ANY

_OPTIONS = frozenset({"-y", "--yes", "-U", "--upgrade", "--force-reinstall", "--reinstall", "--no-deps"})


@dataclass(frozen=True)
class Environment:
    """The environment that may be changed."""

    prefix: str
    pythons: frozenset[str]  # names of its interpreter that a command may use
    releases: frozenset[str]  # versions of TensorFlow in it: no command installs another one
    outside: frozenset[str] = frozenset()  # packages that it sees, and that lie in another folder
    uv: str | None = None  # the program


def argument_lists(commands: Iterable[str], environment: Environment) -> tuple[tuple[str, ...], ...] | None:
    """The commands as argument lists; None where one of them is not to be executed."""
    lists = tuple(_argument_list(command, environment) for command in commands)
    accepted = tuple(one for one in lists if one)
    return accepted if accepted and len(accepted) == len(lists) else None


def is_allowed(argv: Collection[str], environment: Environment) -> bool:
    """Whether an argument list that was written down earlier is still one of these."""
    return _argument_list(shlex.join(argv), environment) is not None


def _argument_list(command: str, environment: Environment) -> tuple[str, ...] | None:
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        return None
    if _makes_pip(words, environment):
        return tuple(words)
    if words[1:3] == ["-m", "pip"] and words[0] in environment.pythons:
        head, rest = words[:3], words[3:]
    elif words[1:2] == ["pip"] and words[3:4] == ["--python"] and _is_uv(words[0], environment):
        if words[4:5] == [] or words[4] not in environment.pythons or not environment.uv:
            return None
        head, rest = [environment.uv, "pip", words[2], "--python", words[4]], words[2:3] + words[5:]
    else:
        return None
    action, arguments = (rest[0], rest[1:]) if rest else ("", [])
    if action not in ("install", "uninstall") or not _all_known(action, arguments, environment):
        return None
    return (*head, *(rest if head[1] == "-m" else arguments))


def _makes_pip(words: list[str], environment: Environment) -> bool:
    return words[1:3] == ["-m", "ensurepip"] and words[0] in environment.pythons and set(words[3:]) <= {"--upgrade"}


def _is_uv(word: str, environment: Environment) -> bool:
    return word == "uv" or word == environment.uv


def _all_known(action: str, arguments: list[str], environment: Environment) -> bool:
    options = {word for word in arguments if word.startswith("-")}
    named = [word for word in arguments if word not in options]
    return bool(named) and options <= _OPTIONS and all(_is_within(action, word, environment) for word in named)


def _is_within(action: str, word: str, environment: Environment) -> bool:
    """Whether it is a requirement by name, of a package of this environment, and of no other release of TensorFlow."""
    try:
        wanted = Requirement(word)
    except ValueError:
        return False
    name = canonicalize_name(wanted.name)
    if wanted.url or wanted.marker or name in environment.outside:
        return False
    if action == "uninstall" or name not in ANY:
        return True
    pins = [one for one in wanted.specifier if one.operator == "=="]
    return len(wanted.specifier) == 1 and len(pins) == 1 and pins[0].version in environment.releases


def releases_of(commands: Iterable[Iterable[str]]) -> frozenset[str]:
    """The releases of TensorFlow that argument lists ask for."""
    found = set[str]()
    for word in (word for argv in commands for word in argv if "==" in word):
        with suppress(ValueError):
            wanted = Requirement(word)
            if canonicalize_name(wanted.name) in ANY:
                found |= {one.version for one in wanted.specifier if one.operator == "=="}
    return frozenset(found)


def names_of(prefix: str, executable: str) -> frozenset[str]:
    """The names by which commands call the interpreter of an environment: those in its own bin folder."""
    folders = tuple(PurePath(executable).parents)[:2]  # conda's on Windows lies in the environment itself
    found = {executable} if PurePath(prefix) in folders else set[str]()
    return frozenset({*found, *(f"{prefix}/bin/{name}" for name in ("python", "python3"))})
