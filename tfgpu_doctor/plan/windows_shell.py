"""Commands for cmd and PowerShell. Pure.

A finding writes its commands once, for Linux. Where Windows only spells variables, quotes and Python's name in another
way, the command is printed so; what is another command there is written by the finding for `remedies.os`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

_EXPORT = re.compile(r"export ([A-Z_][A-Z0-9_]*)=([^$`]*)")
_UNSET = re.compile(r"unset ([A-Z_][A-Z0-9_]*)")
_QUOTED = re.compile(r"""("[^"]*")|'([^'"]*)'""")
_PYTHON = re.compile(r"^python3(?:\.\d+)?\b")
_SUDO = re.compile(r"^sudo (?=nvidia-smi )")
_PLAIN = re.compile(r"[\w@%+=:,./\\~-]+")
_STRING = re.compile(r'"[^"]*"')
_OF_POSIX = re.compile(  # outside of quotes
    r"""['$`]|~/|/(?:dev|proc|usr|etc)/|LD_LIBRARY_PATH|\.so\b|=cuda\*|^[A-Z_][A-Z0-9_]*=|\s\|\s(?!findstr\b)|;\s
    |^(?:sudo|apt|apt-get|dnf|pacman|cat|ls|stat|mount|mkdir|df|ulimit|systemctl|ldconfig|dmesg|modprobe|rmmod|lspci|fuser
        |readelf|ldd|find|ln|rm|mv|sed|ps|grep|which|export|unset|chmod|virtualenv)\b""",
    re.VERBOSE,
)
_SET = re.compile(r'set "?(?P<name>[A-Z]\w*)=(?P<value>.*?)"?')
_VALUE_OF = re.compile(r"%([A-Z]\w*)%")
IN_POWERSHELL = "  # in PowerShell"


def quoted(word: str, system: str | None) -> str:
    """Quote one word for the shell of a system: cmd and PowerShell, or a POSIX shell."""
    if system != "windows":
        return shlex.quote(word)
    return word if _PLAIN.fullmatch(word) else '"' + word.replace('"', "") + '"'


def on_windows(command: str) -> str | None:
    """Return the command as cmd spells it; None for one that only a POSIX shell or a Unix has.

    >>> on_windows("export TF_USE_LEGACY_KERAS=1"), on_windows("sudo modprobe nvidia")
    ('set "TF_USE_LEGACY_KERAS=1"', None)
    >>> on_windows("python3 -c 'import tensorflow'")
    'python -c "import tensorflow"'
    """
    if (exported := _EXPORT.fullmatch(command)) and exported[1] != "LD_LIBRARY_PATH":
        return f'set "{exported[1]}={" ".join(shlex.split(exported[2]))}"'
    if unset := _UNSET.fullmatch(command):
        return f'set "{unset[1]}="'
    if command == "sudo reboot":
        return "shutdown /r /t 0"
    double = _QUOTED.sub(lambda found: found[1] or f'"{found[2]}"', command)
    text = _SUDO.sub("", _PYTHON.sub("python", double))
    return None if _OF_POSIX.search(_STRING.sub('""', text)) else text


def for_both_shells(commands: Iterable[str]) -> Iterator[str]:
    """Commands for cmd; PowerShell's follows, where `set` is another command, and `&` starts a quoted program.

    >>> print(*for_both_shells(['set "PATH=C:/cuda;%PATH%"', "set A= & python a.py", "nvcc -V"]), sep="\\n")
    set "PATH=C:/cuda;%PATH%"
    $env:PATH = "C:/cuda;$env:PATH"  # in PowerShell
    set A= & python a.py
    $env:A = $null; python a.py  # in PowerShell
    nvcc -V
    """
    for command in commands:
        yield command
        parts = command.split(" & ")
        if (there := [_assigned(part) for part in parts]) != parts:
            yield "; ".join(there) + IN_POWERSHELL


def _assigned(command: str) -> str:
    """What sets the variable in PowerShell; about_Environment_Variables: $null removes it, an empty text may not."""
    if found := _SET.fullmatch(command):
        text = _VALUE_OF.sub(r"$env:\1", found["value"].replace('"', '""'))
        return f"$env:{found['name']} = " + (f'"{text}"' if text else "$null")
    return f"& {command}" if command.startswith('"') else command
