"""The command that was typed, as it has to be typed again: for a result that says how to reproduce it."""

from __future__ import annotations

import shlex

import click

from tfgpu_doctor.cli.options import is_given
from tfgpu_doctor.cli.values import Listed

# where the result goes is not part of what was measured
LEFT_OUT = frozenset({"formats", "outputs", "html", "detail"})


def as_typed(context: click.Context) -> str:
    """The command line of this context: its path, and the options that the user gave."""
    words: list[str] = []
    above: click.Context | None = context
    while above is not None and above.parent is not None:
        words.insert(0, above.info_name or "")
        above = above.parent
    words.insert(0, "tfgpu")  # however the program was started: python -m tfgpu_doctor is the same
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in LEFT_OUT or not is_given(context, name):
            continue
        values = context.params[name]
        if isinstance(parameter.type, Listed):
            values = ",".join(map(str, values))
        for value in values if isinstance(values, tuple) else (values,):
            words += _words(parameter, value)
    return shlex.join(words)


def _words(parameter: click.Parameter, value: object) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [str(value)]
    option = max(parameter.opts, key=len)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return [option if value else max(parameter.secondary_opts, key=len, default=option)]
    return [option, f"{value:g}" if isinstance(value, float) else str(value)]
