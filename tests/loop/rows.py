"""The tables of broken environments with real packages, and with made-up ones (rows.yaml).

Rows a1 to m1 are those of a review of revision 73f247e, and `before` is what it found. The others are newer; `before`
is their first run, with revision c2b02d8 (n31 to n36: 6555965), before anything was repaired for them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.loop import faults
from tests.loop.environments import Fault, Row
from tests.loop.made_up import WORKS
from tests.tables import read_rows


def _fault(named: dict[str, Any]) -> Fault:
    """Return a fault by its name and arguments ({put_over: [numpy==2.0.2]}); without arguments, the function itself."""
    keywords = {
        name: tuple(value) if isinstance(value, list) else value for name, value in named.pop("with", {}).items()
    }
    ((name, arguments),) = named.items()
    fault: Any = getattr(faults, name)
    return fault(*arguments, **keywords) if arguments else fault  # type: ignore[no-any-return]


def _row(row: dict[str, Any]) -> Row:
    return Row(**row | {"packages": tuple(row["packages"]), "broken": tuple(map(_fault, row.get("broken", ())))})


def _made_up(row: dict[str, Any]) -> Row:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    usual = {"fault": row["name"], "packages": ["tensorflow[and-cuda]==2.20.0"], "python": python, "check": WORKS}
    return _row(usual | row)


_TABLE = read_rows(Path(__file__).with_suffix(".yaml"))
ROWS = tuple(map(_row, (*_TABLE["REVIEWED"], *_TABLE["NEW"])))
MADE_UP = tuple(map(_made_up, _TABLE["MADE_UP"]))
