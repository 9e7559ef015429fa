"""Changes of single lines of manifests, in the syntax that stands around them. Pure text → text.

A change that is not certain is refused with its reason.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from tfgpu_doctor.facts.report import Edit

_BEFORE, _AFTER = r"(?<![\w.\[\]=<>!~/@*-])", r"(?![\w.\[\]=<>!~/@*;-]|,\S)"
_NEXT_COMMAND = re.compile(r"&&|[;|]")
_LOCKS = re.compile(r".*\.lock|.*-lock\.txt")
_NOT_HERE = "it is not written there in this form; it may come from a variable or another file"


class Refused(NamedTuple):
    """An edit that was not made, and why."""

    edit: Edit
    reason: str


class _RefusedError(Exception):
    """Why an edit cannot be made."""


class _Spot(NamedTuple):
    """A text on a line, with what stands before and behind it, and the quotes around it."""

    head: str
    quote: str
    tail: str

    @property
    def is_whole_line(self) -> bool:
        """Whether the line has nothing else but the mark of a YAML list and a comment."""
        return (
            re.fullmatch(r"\s*(?:-\s+)?", self.head) is not None and re.fullmatch(r"\s*(?:#.*)?", self.tail) is not None
        )

    @property
    def is_member(self) -> bool:
        """Whether it is a string of a list in TOML or JSON."""
        return (
            bool(self.quote)
            and not self.head.rstrip().endswith("-")
            and re.match(r"\s*(?:[,\]]|#|$)", self.tail) is not None
        )


def apply(path: str, text: str, edits: Iterable[Edit], *, in_shell: bool) -> tuple[str, list[Refused]]:
    """Make the edits of one file.

    Args:
        path: of the file; a lock file is not changed.
        edits: those of this file. Of several for one text, the first is made.
        in_shell: whether commands stand on the lines, as in a Dockerfile.

    Returns:
        The new text, and the edits that were not made.
    """
    lines = text.split("\n")
    refused: list[Refused] = []
    chosen = {(edit.line, edit.old, edit.beside and edit.new): edit for edit in reversed([*edits])}
    # from the end, so that numbers of lines stay true; what is added beside a text, before the text is changed
    for edit in sorted(chosen.values(), key=lambda edit: (-edit.line, not edit.beside)):
        try:
            if _LOCKS.fullmatch(path.replace("\\", "/").rsplit("/", 1)[-1].lower()):
                raise _RefusedError("a lock file is generated: change its manifest, and lock again")
            _edit(lines, edit, in_shell)
        except _RefusedError as reason:
            refused.append(Refused(edit, str(reason)))
    return "\n".join(lines), refused


def _edit(lines: list[str], edit: Edit, in_shell: bool) -> None:
    index = edit.line - 1
    if not 0 <= index < len(lines):
        raise _RefusedError("the file has no such line")
    last = next((at for at in range(index, len(lines)) if not lines[at].rstrip().endswith("\\")), len(lines) - 1)
    if any("--hash=" in line for line in lines[index : last + 1]):  # of a compiled file
        raise _RefusedError("it has hashes: change the file that it is compiled from, and compile again")
    ending = "\r" if lines[index].endswith("\r") else ""
    line = lines[index].removesuffix("\r")
    spot = _find(line, edit.old)
    if edit.beside:
        made = _beside(line, spot, edit, in_shell)
    elif edit.new:
        if spot is None:
            raise _RefusedError(_NOT_HERE)
        made = [spot.head + _written(edit.new, spot, in_shell) + spot.tail]
    elif spot is None or re.match(r"\s*[:=]", spot.tail):
        made = _without_setting(lines, index, edit.old)
    else:
        made = _without(lines, index, spot, in_shell)
    lines[index : index + 1] = [one + ending for one in made]


def _find(line: str, old: str) -> _Spot | None:
    found = re.search(_BEFORE + re.escape(old) + _AFTER, line)
    if found is None:
        return None
    head, tail = line[: found.start()], line[found.end() :]
    if head[-1:] in ("'", '"') and head[-1:] == tail[:1]:
        return _Spot(head[:-1], head[-1], tail[1:])
    return _Spot(head, "", tail)


def _written(new: str, spot: _Spot, in_shell: bool) -> str:
    """The new text with the quotes that it needs there."""
    if spot.quote:
        other = "'" if spot.quote == '"' else '"'
        return spot.quote + new.replace(spot.quote, other) + spot.quote
    return shlex.quote(new) if in_shell else new


def _beside(line: str, spot: _Spot | None, edit: Edit, in_shell: bool) -> list[str]:
    if spot is None:
        raise _RefusedError(_NOT_HERE)
    if re.match(r"[\w.-]+ = ", edit.old):  # a key of TOML
        return [line, spot.head + edit.new]
    new = _written(edit.new, spot, in_shell)
    old = spot.quote + edit.old + spot.quote
    if spot.is_member and not spot.head.strip():
        comma = "" if spot.tail.lstrip().startswith(",") else ","
        return [f"{spot.head}{old}{comma}{spot.tail}", f"{spot.head}{new},"]
    if spot.is_member:
        return [f"{spot.head}{old}, {new}{spot.tail}"]
    if spot.is_whole_line and not in_shell:
        return [line, spot.head + new]
    if key := re.fullmatch(r"(\s*(?:-\s+)?)image:\s*", spot.head):
        return [line, *(" " * len(key[1]) + one for one in edit.new.split("\n"))]
    if in_shell:
        return [f"{spot.head}{old} {new}{spot.tail}"]
    raise _RefusedError("the line contains more than this requirement")


def _without(lines: list[str], index: int, spot: _Spot, in_shell: bool) -> list[str]:
    """What is left of the line; none where nothing is."""
    if spot.is_whole_line and not in_shell:
        return []
    if spot.is_member:
        rest = spot.tail.lstrip()
        if not spot.head.strip() and rest[:1] in (",", ""):
            return []
        return [spot.head + rest[1:].lstrip() if rest.startswith(",") else re.sub(r",\s*$", "", spot.head) + rest]
    if not in_shell:
        raise _RefusedError("the line contains more than this requirement")
    left = f"{spot.head.rstrip()} {spot.tail.lstrip()}".rstrip()
    if left.strip() == "\\":
        return []
    if not left.endswith("\\") and any(map(_installs_nothing, _NEXT_COMMAND.split(left))):
        raise _RefusedError("it is all that the command installs")
    if not left.strip() and index and lines[index - 1].rstrip().endswith("\\"):
        lines[index - 1] = lines[index - 1].rstrip().rstrip("\\").rstrip()
        return []
    return [left]


def _installs_nothing(command: str) -> bool:
    words = command.split()
    return "install" in words and all(word.startswith("-") for word in words[words.index("install") + 1 :])


def _without_setting(lines: list[str], index: int, name: str) -> list[str]:
    """A line that sets one variable, in YAML or in a Dockerfile; Kubernetes has its name on the line before."""
    line, before = lines[index], lines[index - 1] if index else ""
    if re.fullmatch(rf"""\s*(?:-\s+)?["']?{re.escape(name)}["']?\s*[:=].*""", line.rstrip()):
        return []
    if re.fullmatch(rf"""ENV\s+{re.escape(name)}(?:=(?:"[^"]*"|'[^']*'|\S*)|\s.*)""", line.strip(), re.IGNORECASE):
        return []
    if re.match(r"\s*value:", line) and re.fullmatch(rf"\s*-\s+name:\s*{re.escape(name)}\s*", before):
        lines[index - 1] = ""
        return []
    raise _RefusedError(_NOT_HERE)
