"""`tfgpu fleet`: what many nodes reported, which of them are odd, and `tfgpu fleet collect`, which asks them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import LazyGroup, option
from tfgpu_doctor.cli.output import Output, Results, check_writable, fail_on_option, redact_option, result_options
from tfgpu_doctor.records.parameters import Listed
from tfgpu_doctor.records.similar import did_you_mean

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.reading import Gathered
    from tfgpu_doctor.records.report import FailOn

COMMANDS = {
    "collect": (
        "tfgpu_doctor.cli.fleet.collect",
        "Run doctor, smoke or bench once on each node of a Ray or Slurm cluster.",
    ),
}


class _Fleet(LazyGroup):
    """A command over files that has commands of its own: its first word is one of them, or a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options and files; before a command of its own there are none."""
        own = args if args[:1] and args[0] in COMMANDS else []
        hint = did_you_mean(args[0], COMMANDS, 1) if args[:1] and not own else ""
        if hint and not os.path.lexists(args[0]):
            ctx.fail(f"{args[0]!r} is neither a file nor a command.{hint}")
        super().parse_args(ctx, [] if own else args)
        ctx.args = own
        return own

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command of its own that is named, or itself."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *words = ctx.args
        command = self.get_command(ctx, name)
        assert command is not None
        ctx.invoked_subcommand = name
        with command.make_context(name, words, parent=ctx) as inner:
            return inner.command.invoke(inner)


class _Files(click.Argument):
    """Of the group itself: its commands take none."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What the usage line shows."""
        return super().get_usage_pieces(ctx) if ctx.command.name == "fleet" else []


@click.group(
    "fleet",
    cls=_Fleet,
    table=COMMANDS,
    invoke_without_command=True,
    subcommand_metavar="",
    context_settings={"allow_interspersed_args": True},
    short_help="Find the odd nodes of a cluster, and why, from the reports of all nodes.",
    epilog="Examples: tfgpu fleet reports/; srun --label tfgpu doctor --format json | tfgpu fleet - "
    "--expect gpus=8,driver=580; tfgpu fleet collect --ray auto | tfgpu fleet -",
)
@click.argument("files", cls=_Files, metavar="[FILE|FOLDER|-]...", nargs=-1, type=click.Path())
@option(
    "--expect",
    metavar="NAME=VALUE,...",
    type=Listed(),
    help="What must hold on every node, as in gpus=8,driver=580,ecc=on; >, >=, <, <= and != compare, too.",
)
@option("--baseline", metavar="FILE", type=click.Path(), help="Compare with a baseline, not with what most nodes have.")
@option(
    "--save-baseline",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write a baseline: what most nodes have, and how fast they are.",
)
@option(
    "--mads",
    metavar="X",
    type=click.FloatRange(min=1, max=1000),
    help="How many scaled MADs below its siblings a run is slow.  [default: 5]",
)
@fail_on_option
@redact_option
@result_options(
    "fleet",
    more="Show everything: all that nodes have in common, all nodes of a group, and all fixes.",
    less="Show only the verdict, and the worst group with its first fix.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    save_baseline: str | None,
    fail_on: FailOn,
    results: Results,
    **asked: Any,
) -> None:
    """Show what the nodes of a cluster have in common, which nodes differ, in what, and how to repair them.

    FILE holds results of tfgpu doctor, smoke or bench as JSON: one, several, or one on a line, as srun, kubectl,
    ansible, pdsh, Ray and tfgpu fleet collect print them, with the names of nodes in front or without. Of a FOLDER all
    such files are read; - is standard input.

    Nodes with the same GPUs are siblings. What few of them have is a difference; a run is slow if it is more than
    --mads below those of its siblings.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem or a difference at or above --fail-on, 2 wrong usage, 3
    could not determine: a result cannot be read, or a node does not know.
    """
    if not files:
        raise click.UsageError("give the files or folders with the reports of the nodes, or - for standard input")
    if list(files).count("-") + (asked["baseline"] == "-") > 1:
        raise click.UsageError("only one of the files can be standard input (-)")
    if save_baseline is not None:
        check_writable("--save-baseline", save_baseline)
    from tfgpu_doctor.fleet.fleet import exit_code

    found, gathered = commands.fleet(*files, **asked)
    if save_baseline is not None:
        _save(gathered, save_baseline)
    results.write(found, "fleet", fail_on=fail_on)
    context.exit(exit_code(found, fail_on))


def _save(gathered: Gathered, path: str) -> None:
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.fleet.baseline import make_baseline

    try:
        made = make_baseline(gathered.results, now())
    except ValueError as error:
        raise click.UsageError(f"--save-baseline: {error}") from error
    Output("json", Path(path)).write_json(made.to_json())
