"""What cmd and PowerShell do not understand; `where` is another command in PowerShell, and wmic left Windows 11."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_POSIX = re.compile(
    r"""(?:^|[;&|(]\s*)(?:export|unset|sudo|rm|ls|ln|cp|mv|sed|grep|cat|head|env|chmod|find|source|apt|apt-get|ldconfig|
        lspci|dmesg|modprobe|systemctl|uname|readelf|ldd|which|kill|ulimit|mkdir\ -p|tail|ps|mount|df|where|wmic)\s
    |\$\(|`|'[^"]*'(?=[^"]*$)|~/|/dev/|/usr/|/etc/|/bin/|/tmp\b|/proc/|\bgrep\b|\bhead\b|^[A-Z_][A-Z0-9_]*=|<\(|\$\w
    |/dev/null|\bpython3(?:\.\d+)?\s""",
    re.VERBOSE,
)
_PATHS = re.compile(r"/(?:home|ml|env|opt|other|nfs|data)/[^\s\"']*")  # those of recorded Linux machines
_IN_A_LINUX = re.compile(r"WSL|container|Docker|image|on the host", re.IGNORECASE)  # where the text of a fix says so


def posix(fix: Mapping[str, Any]) -> list[str]:
    """The commands of a fix that Windows' own shells cannot run."""
    if _IN_A_LINUX.search(fix["text"]):
        return []
    return [command for command in fix["commands"] if _POSIX.search(_PATHS.sub("PATH", command))]
