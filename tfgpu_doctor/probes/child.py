"""What the driver's child processes share: lines of JSON on standard output, and the process's own memory map.

They run as ``python -I -S -c BOOT MODULE FOLDER...``: isolated from the user's site-packages and
PYTHON* variables, and started in 10 ms; the folders are where this package and pynvml lie.
"""

from __future__ import annotations

import json

BOOT = "import sys; sys.path += sys.argv[2:]; __import__(sys.argv[1], fromlist=['main']).main()"


def say(**line: object) -> None:
    """Write one line and flush it: the next call may never return."""
    print(json.dumps(line), flush=True)


def mapped(stem: str) -> str | None:
    """The file behind a loaded library whose name begins with `stem`; None where there is no memory map to look at."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - pathlib costs 5 ms
            rows = [line.rstrip("\n").split(None, 5) for line in maps]
    except OSError:
        return None
    return next((row[5] for row in rows if len(row) == 6 and row[5].rpartition("/")[2].startswith(stem)), None)
