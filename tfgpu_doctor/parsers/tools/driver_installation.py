"""The kernels for which DKMS built the driver's module, and the one that runs.

>>> text = '''nvidia, 470.82.00, 5.4.0-89-generic, x86_64: installed
... $ uname -r
... 5.4.0-90-generic'''
>>> seen = parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
>>> seen.built, seen.running
({'5.4.0-89-generic': 1}, '5.4.0-90-generic')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 400
_DKMS = re.compile(
    r"^\s*nvidia(?:-\w+)?[/,] ?[\d.]+(?:, (?P<kernel>[\w.+-]+), \w+)?: ?(?P<state>installed|built|added)\b"
)
_ASKS_KERNEL = re.compile(r"(?:^|[$#>] ?)uname -r\s*$")
_KERNEL = re.compile(r"\d\.\d{1,3}[\w.+~-]{1,60}")


@dataclass(frozen=True)
class DriverInstallation:
    """What is shown; a number is that of the line."""

    built: dict[str, int] = field(default_factory=dict)  # kernels for which DKMS has a module; "" where it built none
    running: str | None = None  # the kernel, by uname -r

    @property
    def is_for_another_kernel(self) -> bool:
        """True if DKMS has modules, and none for the kernel that runs."""
        return bool(self.built and self.running) and self.running not in self.built


def parse(lines: Sequence[Line]) -> DriverInstallation:
    """Read every line that one of these tools may have printed."""
    built: dict[str, int] = {}
    running: str | None = None
    for line, following in zip(lines, [*lines[1:], Line(0, "")], strict=False):
        if "nvidia" in line.text and (found := _DKMS.match(line.text[:LONGEST])):
            built[found["kernel"] or ""] = line.number
        elif "uname -r" in line.text[:LONGEST] and _ASKS_KERNEL.search(line.text[:LONGEST].rstrip()):
            answer = _KERNEL.fullmatch(following.text.strip())
            running = answer[0] if answer else running
    return DriverInstallation(built, running)
