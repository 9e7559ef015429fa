"""Commands for cmd and PowerShell out of those for a POSIX shell: findings write each once, for Linux. Pure.

What has no counterpart on Windows (kernel modules, ldconfig, /proc) is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator

_FOR_UNIX = re.compile(r"'|~/|/dev/|/proc/|/usr/|/bin/|\$|^\s*[A-Z_][A-Z0-9_]*=|\s\|\s|;\s|\bpython3\b")
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")
_NO_COUNTERPART = re.compile(r"\$|/proc/|/dev/|/usr/|LD_LIBRARY_PATH|\.so\b|=cuda\*")
_IN_HOME = re.compile(r"~/([\w.-]+)(/bin/)?")
_PYTHON = re.compile(r"python3(?:\.\d+)?")
_SEPARATORS = {";": "&", "&&": "&&", "||": "||", "&": "&"}
_PLAIN = re.compile(r"[\w@%+=:,./\\~-]+")
_BOTH_STREAMS, _MARK = "2>&1", "\0"  # the same in both; shlex would take it apart
_SAFE = re.compile(r"[\w@%+=:,./\\~*\[\]?-]+")
# in cmd: for this console, and for every later one
_SET = re.compile(r'set "?(?P<name>[A-Z]\w*)=(?P<value>[^"]*)"?')
_SETX = re.compile(r'if not defined (?P<name>[A-Z]\w*) setx (?P=name) "(?P<value>.*)"')
_VALUE_OF = re.compile(r"%([A-Z]\w*)%")
IN_POWERSHELL = "  # in PowerShell"


def _unix(_words: list[str]) -> None:
    """A program that Windows does not have, nor anything like it."""


def _set(words: list[str]) -> list[str] | None:
    return None if "LD_LIBRARY_PATH" in words[1] else ["set", words[1]]


def _unset(words: list[str]) -> list[str]:
    return ["set", f"{words[1]}="]


def _without_sudo(words: list[str]) -> list[str] | None:
    return _one(words[1:])


def _process(words: list[str]) -> list[str]:
    number = words[-1]
    return ["tasklist", "/fi", f"PID eq {number}"] if number.isdecimal() else ["tasklist"]


def _remove(words: list[str]) -> list[str]:
    paths = [word for word in words[1:] if not word.startswith("-")]
    files = all(path.endswith((".py", ".pyc")) for path in paths)
    return [*(("del", "/q") if files else ("rmdir", "/s", "/q")), *paths]


def _find_lines(words: list[str]) -> list[str]:
    """Grep at the end of a pipe; findstr takes the words of a text as alternatives."""
    pattern = next((word for word in words[1:] if not word.startswith("-")), "")
    ignores_case = any(word.startswith("-") and "i" in word for word in words[1:])
    return ["findstr", *(("/i",) if ignores_case else ()), pattern.replace("|", " ").replace("\\", "")]


_PROGRAMS: dict[str, Callable[[list[str]], list[str] | None]] = {
    **dict.fromkeys(
        ("ldconfig", "dmesg", "modprobe", "rmmod", "lspci", "fuser", "readelf", "ldd", "find", "ln"), _unix
    ),
    **dict.fromkeys(
        ("apt", "apt-get", "dnf", "pacman", "cat", "ls", "stat", "mount", "df", "ulimit", "systemctl"), _unix
    ),
    **dict.fromkeys(("head", "tail", "sort", "uniq", "wc"), _unix),
    "export": _set,
    "unset": _unset,
    "sudo": _without_sudo,
    "reboot": lambda _words: ["shutdown", "/r", "/t", "0"],
    "ps": _process,
    "rm": _remove,
    "sed": lambda words: ["notepad", words[-1]],  # the text of the fix says what to change
    "mv": lambda words: ["move", *words[1:]],
    "which": lambda words: ["where.exe", *words[1:]],
    "grep": _find_lines,
}


def quoted(word: str, system: str | None) -> str:
    """Quote one word for the shell of a system: cmd and PowerShell, or a POSIX shell."""
    if system != "windows":
        return shlex.quote(word)
    return word if _PLAIN.fullmatch(word) else '"' + word.replace('"', "") + '"'


def translated(command: str) -> str | None:
    """The command for cmd; None where Windows has nothing like it.

    >>> translated("export TF_USE_LEGACY_KERAS=1"), translated("sudo modprobe nvidia")
    ('set "TF_USE_LEGACY_KERAS=1"', None)
    >>> translated("python3 -m pip list | grep -iE 'keras|numpy' | head -n 5")
    'python -m pip list | findstr /i "keras numpy"'
    """
    name = command.split(" ", 1)[0]
    if not _FOR_UNIX.search(command) and name not in _PROGRAMS:
        return command
    try:
        pipes = list(_pipes(command.replace(_BOTH_STREAMS, _MARK)))
    except ValueError:  # an open quote
        return None
    text = ""
    for separator, programs in pipes:
        if found := _pipe(programs):
            text += f" {separator} {found}" if text else found
    return text.replace(_MARK, _BOTH_STREAMS) or None


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
        return f"$env:{found['name']} = {_text(found['value']) if found['value'] else '$null'}"
    if found := _SETX.fullmatch(command):  # setx is left alone: versions pass quotes to a program differently
        name, value = found["name"], _text(found["value"])
        return f'if (-not $env:{name}) {{ [Environment]::SetEnvironmentVariable("{name}", {value}, "User") }}'
    return f"& {command}" if command.startswith('"') else command


def _text(value: str) -> str:
    return '"' + _VALUE_OF.sub(r"$env:\1", value.replace('\\"', '""')) + '"'


def _pipes(command: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The pipes that a command consists of: what cmd has before each, and the words of each program in it."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&")
    lexer.escape, lexer.commenters, lexer.whitespace_split = "", "", True
    separator, pipe, words = "", list[list[str]](), list[str]()
    for token in lexer:
        if token in _SEPARATORS or token == "|":
            pipe.append(words)
            words = []
            if token != "|":
                yield separator, pipe
                separator, pipe = _SEPARATORS[token], []
        else:
            words.append(token)
    yield separator, [*pipe, words]


def _pipe(programs: list[list[str]]) -> str | None:
    """The programs of a pipe; None when its first one has no counterpart."""
    found = [_one(words) for words in programs]
    if found[0] is None or found[0][0] == "findstr":  # it reads a file of a Unix
        return None
    return " | ".join(" ".join(map(_quoted, words)) for words in found if words)


def _one(words: list[str]) -> list[str] | None:
    if not words:
        return None
    if _ASSIGNMENT.fullmatch(words[0]):
        rest = _one(words[1:])
        return ["set", words[0], "&", *rest] if rest else None
    program = _PROGRAMS.get(words[0])
    if program is not None:
        return program(words)
    if any(_NO_COUNTERPART.search(word) for word in words):
        return None
    return [_PYTHON.sub("python", words[0]), *words[1:]]


def _quoted(word: str) -> str:
    word = _IN_HOME.sub(lambda found: found[1] + ("\\Scripts\\" if found[2] else ""), word)
    if word in ("&", _MARK) or (_SAFE.fullmatch(word) and not _ASSIGNMENT.fullmatch(word)):
        return word
    return '"' + word.replace('"', "'") + '"'
