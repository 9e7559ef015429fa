"""Where the variables of this process are set for every new shell: startup files, activation scripts, Keras' file.

Only lines that set one variable that matters, and nothing else, are told, and only where the process has that value:
a file of another shell, or a line that another one replaces, is not the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from tfgpu_doctor.facts.environment_variables import matters
from tfgpu_doctor.facts.facts import Fact, Known, Setting
from tfgpu_doctor.probes.files import below, names_in, text_in

_OF_USER = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_aliases", ".profile"),
    *(".zshenv", ".zprofile", ".zshrc", ".zlogin", ".config/fish/config.fish"),
)
_OF_SYSTEM = (
    *("/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc"),
    *("/etc/zsh/zshenv", "/etc/zsh/zshrc", "/etc/zshenv", "/etc/zshrc"),
)
_LINE = re.compile(
    r"""\s*(?:(?:export\s+|declare\s+-x\s+|typeset\s+-x\s+)?(?P<name>[A-Z][A-Z0-9_]*)=
    |set\s+(?:-\w+\s+)+(?P<fish>[A-Z][A-Z0-9_]*)\s+)
    (?P<value>"[^"]*"|'[^']*'|[^\s;&|\#"']*)\s*;?\s*(?:\#.*)?$""",
    re.VERBOSE,
)
_BACKEND = re.compile(r'"backend":\s*"(\w+)"')
_REFERENCE = re.compile(r"\$\{[^}]{0,1000}\}|\$\w+|\$\([^)]{0,1000}\)|`[^`]*`")


def examine(environ: Mapping[str, str], prefix: str | None, root: str = "/") -> Fact[tuple[Setting, ...]]:
    """The lines that set what `environ` has; `prefix` is the environment of the interpreter under test."""
    home = environ.get("HOME") or os.path.expanduser("~")
    found = [
        setting
        for path in _files(home, environ, prefix, root)
        for setting in _settings(path, text_in(root, path))
        if _holds(setting.value, environ.get(setting.name), home)
    ]
    if not environ.get("KERAS_BACKEND"):  # else Keras' own file does not count
        path = os.path.join(environ.get("KERAS_HOME") or os.path.join(home, ".keras"), "keras.json")
        for number, line in enumerate(text_in(root, path).splitlines(), 1):
            if backend := _BACKEND.search(line):
                found.append(Setting("KERAS_BACKEND", backend[1], path, number))
    return Known(tuple(found), "startup files of shells and environments")


def _files(home: str, environ: Mapping[str, str], prefix: str | None, root: str) -> Iterator[str]:
    def scripts(folder: str) -> Iterator[str]:
        return (os.path.join(folder, name) for name in names_in(below(root, folder)) if name.endswith((".sh", ".zsh")))

    yield from (os.path.join(home, name) for name in _OF_USER)
    yield from _OF_SYSTEM
    yield from scripts("/etc/profile.d")
    for one in dict.fromkeys(filter(None, (environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX"), prefix))):
        yield os.path.join(one, "bin", "activate")
        yield from scripts(os.path.join(one, "etc", "conda", "activate.d"))


def _settings(path: str, text: str) -> Iterator[Setting]:
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.match(line)
        if found and matters(name := found["name"] or found["fish"]):
            value = found["value"]
            yield Setting(name, value[1:-1] if value[:1] in ('"', "'") else value, path, number)


def _holds(written: str, value: str | None, home: str) -> bool:
    """Whether the process has the value of the line; what the line takes from other variables is not compared."""
    if value is None:
        return False
    written = re.sub(r"\$HOME\b|\$\{HOME\}|^~(?=/)|(?<=:)~(?=/)", home.replace("\\", r"\\"), written)
    first, *others = _REFERENCE.split(written)
    if not others:
        return first == value
    pieces = [piece.strip(": ") for piece in (first, *others) if piece.strip(": ")]
    return bool(pieces) and all(piece in value for piece in pieces)
