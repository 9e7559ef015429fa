"""What a parameter of a sign is bound to: a fact by the name of its field, or something derived from facts.

A field whose name occurs once in the facts is bound by that name (`nvml_init`); any field by the names of its section
and itself (`driver_version`, `python_packages`). Derived values are the functions of :mod:`findings.derived`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.derived import DERIVED
from tfgpu_doctor.records.facts import Facts, Known, Record, Unknown, look_up


def _paths() -> dict[str, str]:
    nothing = Facts()
    top = {name: getattr(nothing, name) for name in Facts.__struct_fields__}
    sections = {name: type(value).__struct_fields__ for name, value in top.items() if isinstance(value, Record)}
    times = Counter(field for fields in sections.values() for field in fields)
    full = {f"{name}_{field}": f"{name}.{field}" for name, fields in sections.items() for field in fields}
    short = {path.partition(".")[2]: path for path in full.values() if times[path.partition(".")[2]] == 1}
    return {**full, **short, **{name: name for name in top if name not in sections}}


PATHS = _paths()


def fetch(name: str, context: Context) -> Known[Any] | Unknown:
    """The fact or derived value that a parameter of this name is bound to.

    Raises:
        KeyError: nothing has that name.
    """
    if name in DERIVED:
        if name not in context.derived:
            context.derived[name] = DERIVED[name](context)
        found: Known[Any] | Unknown = context.derived[name]
        return found
    path = PATHS[name]
    value = look_up(context.facts, path)
    # a plain field (the phases) counts as known
    return value if isinstance(value, Known | Unknown) else Known(value, path)
