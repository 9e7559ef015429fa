"""Variables TFGPU_… that no option reads: a mistyped one would do nothing, and say nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import click

from tfgpu_doctor.cli.options import Option
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.render.streams import say

PREFIX = "TFGPU_"
# of no option: those that commands and the recipes for CI read, and those that tfgpu gives its own processes
OTHERS = {f"{PREFIX}{name}" for name in ["MATRIX", "DEBUG", "COMMIT", "SOURCE", "CHILD", "TETHER", "PRIORITY"]}
OTHERS |= {f"{PREFIX}{name}" for name in ["REQUIRE_GPU", "GPUS_PER_WORKER"]}  # of the pytest plugin
# of the tests and benchmarks of this repository
_OF_TESTS = tuple(f"{PREFIX}{name}" for name in ["TEST_", "LAB_", "LOOP_", "UPDATE_", "PLANT", "MARKER", "JUNIT_"])
_LONGEST = 80  # characters of a name that is shown


def warn_of_unknown(context: click.Context, environ: Mapping[str, str] = os.environ) -> None:
    """Say once which of the variables no option reads, and which one may be meant.

    Commands are imported only where a variable names them; all of them only where there is something to say.
    """
    found = [name for name in environ if name.startswith(PREFIX) and name not in OTHERS]
    found = [name for name in found if not name.startswith(_OF_TESTS) and environ[name]]
    unknown = [name for name in sorted(found) if name not in _read(context, name)]
    known = list(_read(context)) if unknown else []
    for name in unknown:
        of_this = f"{PREFIX}{context.invoked_subcommand}_{name.removeprefix(PREFIX)}".upper()
        hint = f" Did you mean {of_this}?" if of_this in known else did_you_mean(name, known, 1)
        say(f"tfgpu: {name[:_LONGEST]} is not a variable of tfgpu.{hint}")


def _read(context: click.Context, name: str | None = None) -> Iterator[str]:
    """The variables of the options of all commands; with a name, of the command that it begins with."""
    group = context.command
    for one in group.params:
        if isinstance(one, Option) and (variable := one.variable(context)):
            yield variable
    if not isinstance(group, click.Group):
        return
    for child in group.list_commands(context):
        path = "_".join([*context.command_path.split(), child, ""]).replace("-", "_").upper()
        if (name is None or name.startswith(path)) and (command := group.get_command(context, child)):
            yield from _read(click.Context(command, parent=context, info_name=child), name)
