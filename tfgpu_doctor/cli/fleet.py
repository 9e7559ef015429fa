"""`tfgpu fleet`: what many nodes reported, which of them are odd, and `tfgpu fleet collect`, which asks them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import LazyGroup, define_command, option
from tfgpu_doctor.cli.output import (
    Output,
    Results,
    check_writable,
    fail_on_option,
    redact_option,
    result_options,
    write_all,
)
from tfgpu_doctor.cli.progress import spinner
from tfgpu_doctor.facts.parameters import Seconds
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.facts.report import FailOn


class _Fleet(LazyGroup):
    """A command over files that has a command of its own: its first word is that one, or a file."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the options and files, or those of the command of its own."""
        if args[:1] == ["collect"]:
            above = click.Context(click.Group("fleet"), parent, info_name)  # without files in the line of its usage
            return collect.make_context("collect", args[1:], above, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.group(
    "fleet",
    cls=_Fleet,
    table={},
    invoke_without_command=True,
    subcommand_metavar="",
    context_settings={"allow_interspersed_args": True},
    epilog="Examples: tfgpu fleet reports/; tfgpu fleet collect --ray auto | tfgpu fleet -",
)
@click.argument("files", metavar="[FILE|FOLDER|-]...", nargs=-1, type=click.Path())
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
    fail_on: FailOn,
    results: Results,
    **asked: Any,
) -> None:
    """Show what the nodes of a cluster have in common, which nodes differ, in what, and how to repair them.

    FILE holds results of tfgpu doctor, smoke or bench as JSON: one, several one after another, or one on a line, as
    tfgpu fleet collect writes them. Of a FOLDER all such files are read; - is standard input.

    Nodes with the same GPUs are siblings. What few of them have is a difference; a run is slow if it is far below those
    of its siblings.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem or a difference at or above --fail-on, 2 wrong usage, 3
    could not determine: a result cannot be read, or a node does not know.
    """
    if not files:
        raise click.UsageError("give the files or folders with the reports of the nodes, or - for standard input")
    if list(files).count("-") > 1:
        raise click.UsageError("only one of the files can be standard input (-)")
    from tfgpu_doctor.fleet.picture import exit_code

    found = commands.fleet(*files, **asked)
    results.write(found, "fleet", fail_on=fail_on)
    context.exit(exit_code(found, fail_on))


@define_command(
    "collect",
    short_help="Run doctor, smoke or bench once on each node of a Ray or Slurm cluster.",
    epilog="Examples: tfgpu fleet collect --ray auto | tfgpu fleet -; "
    "tfgpu fleet collect --slurm --output nodes.jsonl smoke --require-gpus 8",
    context_settings={"allow_interspersed_args": False},
)
@option(
    "--ray",
    "address",
    metavar="ADDRESS",
    help="Address of a Ray cluster: auto, HOST:6379 or ray://HOST:10001. Ray must be here, in the cluster's version.",
)
@option("--slurm", is_flag=True, help="Run it by srun, within an allocation or with --nodes.")
@option(
    "--nodes",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    envvar="SLURM_JOB_NUM_NODES",
    help="With --slurm: the number of nodes.  [default: those of the allocation]",
)
@option(
    "--srun",
    "srun_options",
    metavar="OPTIONS",
    default="",
    help='With --slurm: further options of srun, as in "--partition=gpu --gpus-per-node=8".',
)
@option(
    "--python",
    "executable",
    metavar="EXE",
    help="With --slurm: the Python interpreter that has tfgpu, as the nodes name it.  [default: this one]",
)
@option(
    "--timeout",
    metavar="S",
    type=Seconds(),
    help="Time limit for each node, in seconds.  [default: 2m; 3m for smoke, 30m for bench]",
)
@option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    default="-",
    help="Output file; - is standard output.  [default: -]",
)
@click.argument("name", metavar="[COMMAND]", type=click.Choice(["doctor", "smoke", "bench"]), default="doctor")
@click.argument("words", metavar="[OPTIONS]...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def collect(
    context: click.Context,
    /,
    address: str | None,
    slurm: bool,
    nodes: int | None,
    srun_options: str,
    executable: str | None,
    timeout: float | None,
    output: str,
    name: str,
    words: tuple[str, ...],
) -> None:
    """Run doctor, smoke or bench once on each node of a Ray or Slurm cluster: a line of JSON for each.

    COMMAND is doctor, smoke or bench with its options; doctor without one. A node that does not answer, or fails, has a
    line with the reason. "tfgpu fleet" reads the lines.

    Exit codes: 0 all nodes answered, whatever they found, 1 a node gave no answer, 2 wrong usage, 3 no node could be
    asked.
    """
    if slurm == (address is not None):
        raise click.UsageError("give either --ray ADDRESS or --slurm")
    if slurm and nodes is None:
        raise click.UsageError("--slurm needs --nodes N outside of an allocation (salloc, sbatch)")
    options = _words(srun_options)
    if output != "-":
        check_writable("--output", output)
    from tfgpu_doctor.fleet.collect import LIMITS, CollectError, Task, by_ray, by_slurm, line

    task = Task((name, *words, "--format", "json"), timeout or LIMITS[name])
    try:
        with spinner("waiting for the nodes"):
            found = (
                by_ray(address, task) if address else by_slurm(task, nodes or 1, executable or sys.executable, options)
            )
    except CollectError as error:
        raise commands.TfgpuError(f"no node could be asked: {error}") from error
    rows = sorted(found, key=lambda one: one.node)
    target = Output("json", None if output == "-" else Path(output))
    write_all([target], lambda target: target.write_text("".join(map(line, rows))))
    failed = [f"tfgpu: {one.node}: {one.failure}" for one in rows if one.failure]
    for text in (*failed, f"tfgpu: {len(rows) - len(failed)} of {count(len(rows), 'node')} answered"):
        say(text)
    context.exit(1 if failed else 0)


def _words(srun_options: str) -> list[str]:
    try:
        return shlex.split(srun_options)
    except ValueError as error:
        raise click.UsageError(f"--srun {srun_options}: {error}") from error


command.add_command(collect)
