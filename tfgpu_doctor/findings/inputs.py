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
    if name not in DERIVED:
        return _fact(name, context)
    if name not in context.derived:
        inputs = {inner: _fact(inner, context) if inner == name else fetch(inner, context) for inner in _inputs(name)}
        given = {"context": context} if "context" in _parameters(name) else {}
        try:
            context.derived[name] = DERIVED[name](**given, **inputs)
        except ValueError as error:
            context.derived[name] = unreadable(error)
    found: Known[Any] | Unknown = context.derived[name]
    return found


def unreadable(error: ValueError) -> Unknown:
    """Why nothing follows from a value that is no version or number where one belongs.

    The probes write no such values, but a saved report can hold any.
    """
    return Unknown(f"a value in the facts cannot be read: {str(error)[:200]}")


def facts_behind(name: str) -> frozenset[str]:
    """Paths of the facts that an input is, or is derived from."""
    if name not in DERIVED:
        return frozenset({PATHS[name]})
    inner = (frozenset({PATHS[name]}) if one == name else facts_behind(one) for one in _inputs(name))
    return frozenset().union(*inner)


def _fact(name: str, context: Context) -> Known[Any] | Unknown:
    value = look_up(context.facts, PATHS[name])
    # a plain field (the phases) counts as known
    return value if isinstance(value, Known | Unknown) else Known(value, PATHS[name])


def _inputs(name: str) -> tuple[str, ...]:
    """What a derived value is made of; its own name is the fact that it is made of (the messages)."""
    return tuple(parameter for parameter in _parameters(name) if parameter != "context")


def _parameters(name: str) -> tuple[str, ...]:
    code = DERIVED[name].__code__
    return code.co_varnames[: code.co_argcount]
