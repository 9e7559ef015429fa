"""What tools print of an installed driver: DKMS's modules, device nodes and who may open them.

>>> text = '''nvidia, 470.82.00, 5.4.0-89-generic, x86_64: installed
... $ uname -r
... 5.4.0-90-generic
... crw-rw---- 1 root vglusers 195,   0 Jun 14 08:02 /dev/nvidia0
... uid=61207(kp) gid=61000(stud) groups=61000(stud),61077(imaging)'''
>>> seen = parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
>>> seen.built, seen.running
({'5.4.0-89-generic': 1}, '5.4.0-90-generic')
>>> seen.closed_nodes, seen.groups
({'vglusers': 4}, ('stud', 'imaging'))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 400
_WORTH_A_LOOK = ("nvidia", "uname -r", "uid=")
_DKMS = re.compile(
    r"^\s*nvidia(?:-\w+)?[/,] ?[\d.]+(?:, (?P<kernel>[\w.+-]+), \w+)?: ?(?P<state>installed|built|added)\b"
)
_ASKS_KERNEL = re.compile(r"(?:^|[$#>] ?)uname -r\s*$")
_KERNEL = re.compile(r"\d\.\d{1,3}[\w.+~-]{1,60}")
_NODE = re.compile(
    r"c[rw-]{6}(?P<others>[rw-]{2}).? +\d+ \S+ +(?P<group>\S+) +\d+, *\d+ .{5,30} /dev/nvidia(?:\d+|ctl|-uvm)$"
)
_GROUP = re.compile(r"\(([\w.-]{1,60})\)")
_ID = re.compile(r"\buid=(?P<uid>\d+)\(.*?\bgroups=(?P<groups>\S.*)")


@dataclass(frozen=True)
class DriverInstallation:
    """What is shown; a number is that of the line."""

    built: dict[str, int] = field(default_factory=dict)  # kernels for which DKMS has a module; "" where it built none
    running: str | None = None  # the kernel, by uname -r
    closed_nodes: dict[str, int] = field(default_factory=dict)  # groups whose device nodes nobody else may open
    groups: tuple[str, ...] | None = None  # of the user; of root none is needed

    @property
    def is_for_another_kernel(self) -> bool:
        """Whether DKMS has modules, and none for the kernel that runs."""
        return bool(self.built and self.running) and self.running not in self.built


def parse(lines: Sequence[Line]) -> DriverInstallation:
    """Read every line that one of these tools may have printed."""
    built: dict[str, int] = {}
    nodes: dict[str, int] = {}
    running: str | None = None
    groups: tuple[str, ...] | None = None
    for place, line in ((place, line) for place, line in enumerate(lines) if _worth_a_look(line.text)):
        text = line.text[:LONGEST].rstrip()
        if found := _DKMS.match(text):
            built[found["kernel"] or ""] = line.number
        elif _ASKS_KERNEL.search(text):
            running = _answer(lines, place) or running
        elif (found := _NODE.search(text)) and found["others"] != "rw":
            nodes[found["group"]] = line.number
        elif found := _ID.search(text):
            groups = ("root",) if found["uid"] == "0" else tuple(_GROUP.findall(found["groups"]))
    return DriverInstallation(built, running, nodes, groups)


def _worth_a_look(text: str) -> bool:
    return any(word in text for word in _WORTH_A_LOOK)


def _answer(lines: Sequence[Line], place: int) -> str | None:
    found = _KERNEL.fullmatch(lines[place + 1].text.strip()) if place + 1 < len(lines) else None
    return found[0] if found else None
