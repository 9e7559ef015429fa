"""What cmd and PowerShell do not understand; `where` is another command in PowerShell, and wmic left Windows 11."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tfgpu_doctor.plan.windows_shell import IN_POWERSHELL

_POSIX = re.compile(
    r"""(?:^|[;&|(]\s*)(?:export|unset|sudo|rm|ls|ln|cp|mv|sed|grep|cat|head|env|chmod|find|source|apt|apt-get|ldconfig|
        lspci|dmesg|modprobe|systemctl|uname|readelf|ldd|which|kill|ulimit|mkdir\ -p|tail|ps|mount|df|where|wmic)\s
    |\$\(|`|'[^"]*'(?=[^"]*$)|~/|/dev/|/usr/|/etc/|/bin/|/tmp\b|/proc/|\bgrep\b|\bhead\b|^[A-Z_][A-Z0-9_]*=|<\(|\$\w
    |/dev/null|\bpython3(?:\.\d+)?\s""",
    re.VERBOSE,
)
_OF_POWERSHELL = re.compile(r"\$(?:env:\w+|null)(?=.*" + IN_POWERSHELL + "$)")
_ONLY_CMD = re.compile(r"^(?:if not defined |setx? )|%[A-Z]\w*%(?<!cmd /c echo %PATH%)")
_PATHS = re.compile(r"/(?:home|ml|env|opt|other|nfs|data)/[^\s\"']*")  # those of recorded Linux machines
_IN_A_LINUX = re.compile(r"WSL|container|Docker|image|on the host", re.IGNORECASE)  # where the text of a fix says so


def posix(fix: Mapping[str, Any]) -> list[str]:
    """The commands of a fix that Windows' own shells cannot run, and those that only cmd understands."""
    if _IN_A_LINUX.search(fix["text"]):
        return []
    commands = [*fix["commands"], ""]
    return [
        command
        for command, following in pairwise(commands)
        if _POSIX.search(_OF_POWERSHELL.sub("", _PATHS.sub("PATH", command)))
        or (_ONLY_CMD.search(command) and not following.endswith(IN_POWERSHELL))
    ]
