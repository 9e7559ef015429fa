"""Commands that unset a variable last where the line of a startup file that sets it is turned into a comment. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec import structs

from tfgpu_doctor.records.machine import Setting
from tfgpu_doctor.records.report import Fix

_EXPORT = re.compile(r"export (\w+)=(.*)$")
_CONDA_STATE = "conda-meta/state"


def comment_out(file: str, line: int, word: str, os: str) -> str:
    """The command that makes a comment of one line, if it still holds the word."""
    if os == "windows":
        return f'notepad "{file}"'  # the text of the fix says what to change
    sed = "sed -i ''" if os == "macos" else "sed -i --follow-symlinks"
    sudo = "sudo " if file.startswith("/etc/") else ""
    pattern = re.sub(r"([\\/.*^$\[\]&])", r"\\\1", word)
    return f"{sudo}{sed} {shlex.quote(f'{line}s/^.*{pattern}/# &/')} {shlex.quote(file)}"


def lasting(fix: Fix, settings: Sequence[Setting], os: str) -> Fix:
    """The same fix, which also changes the lines that would set the variables again in the next shell."""
    dropped = dict(_dropped(fix.commands))
    lines = [one for one in settings if one.name in dropped and _is_gone(one.value, dropped[one.name])]
    lines = [one for one in lines if not one.file.endswith(".json")]  # no line of a shell
    if not lines or os == "windows":
        return fix
    where = ", ".join(dict.fromkeys(f"{one.file} line {one.line}" for one in lines))
    change = tuple(_change(one, os) for one in lines)
    first = next(number for number, one in enumerate(fix.commands) if dict(_dropped((one,))))
    commands = (*fix.commands[:first], *change, *fix.commands[first:])
    return structs.replace(fix, text=f"{fix.text}; {where} sets it in every new shell", commands=commands)


def _dropped(commands: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The variables that commands unset or set anew, each with what is left in it."""
    for command in commands:
        *_, unset, names = command.rpartition("unset ")
        if unset and all(map(str.isidentifier, names.split())):
            yield from ((name, "") for name in names.split())
        elif (export := _EXPORT.match(command)) and "$" not in export[2]:
            yield export[1], " ".join(shlex.split(export[2]))


def _is_gone(written: str, left: str) -> bool:
    """Whether nothing that the line adds is in what is left."""
    parts = [part for part in written.split(":") if part and "$" not in part]
    return not any(part in left.split(":") for part in parts)


def _change(setting: Setting, os: str) -> str:
    if setting.file.endswith(_CONDA_STATE):
        prefix = setting.file.removesuffix("/" + _CONDA_STATE)
        return f"conda env config vars unset -p {shlex.quote(prefix)} {setting.name}"
    return comment_out(setting.file, setting.line, setting.name, os)
