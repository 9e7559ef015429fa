"""`tfgpu fleet`: what many nodes reported, and which of them are odd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import SUCCESSORS, define_command
from tfgpu_doctor.cli.output import Results, fail_on_option, result_options

if TYPE_CHECKING:
    from tfgpu_doctor.facts.report import FailOn


@define_command("fleet", epilog="Examples: tfgpu fleet reports/; tfgpu fleet - < nodes.jsonl")
@click.argument("files", metavar="[FILE|DIR|-]...", nargs=-1, type=click.Path())
@fail_on_option
@result_options("fleet", more="Show everything: all that nodes have in common, all nodes of a group, and all fixes.")
@click.pass_context
def command(context: click.Context, /, files: tuple[str, ...], fail_on: FailOn, results: Results, **asked: Any) -> None:
    """Show what the nodes of a cluster have in common, which nodes differ, in what, and how to repair them.

    FILE holds results of tfgpu doctor, smoke or bench as JSON: one, several one after another, or one on a line. Of a
    DIR all such files are read; - is standard input.

    Nodes with the same GPUs are siblings. What few of them have is a difference; a run is slow if it is far below those
    of its siblings.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem or a difference at or above --fail-on, 2 wrong usage, 3
    could not determine: a result cannot be read, or a node does not know.
    """
    if not files:
        raise click.UsageError("give the files or folders with the reports of the nodes, or - for standard input")
    if files[0] == "collect" and not os.path.exists("collect"):
        raise click.UsageError(f"No such command 'collect': {SUCCESSORS['collect']}.")
    if list(files).count("-") > 1:
        raise click.UsageError("only one of the files can be standard input (-)")
    from tfgpu_doctor.fleet.picture import exit_code

    found = commands.fleet(*files, **asked)
    results.write(found, "fleet", fail_on=fail_on)
    context.exit(exit_code(found, fail_on))
