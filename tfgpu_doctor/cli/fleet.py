"""`tfgpu fleet`: what many nodes reported, which of them are odd, and `tfgpu fleet collect`, which asks them."""

from __future__ import annotations

import importlib.util
import os
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
from tfgpu_doctor.facts.parameters import Seconds
from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.facts.report import FailOn

_FILE = click.Path(dir_okay=False)
_COLLECT = "Run doctor, smoke or bench once on each node of a Ray or Slurm cluster."


class _Fleet(LazyGroup):
    """A command over files that has a command of its own: its first word is that one, or a file."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the options and files, or those of the command of its own."""
        if args[:1] == ["collect"]:
            above = click.Context(click.Group("fleet"), parent, info_name)  # without files in the line of its usage
            return collect.make_context("collect", args[1:], above, **extra)
        if args and not os.path.lexists(args[0]) and (hint := did_you_mean(args[0], ["collect"], 1)):
            message = f"{args[0]!r} is neither a file nor a command.{hint}"
            raise click.UsageError(message, click.Context(self, parent, info_name))
        return super().make_context(info_name, args, parent, **extra)


@click.group(
    "fleet",
    cls=_Fleet,
    table={},
    invoke_without_command=True,
    subcommand_metavar="",
    context_settings={"allow_interspersed_args": True},
    epilog="Examples: tfgpu fleet reports/; srun --label tfgpu doctor --format json | tfgpu fleet -; "
    "tfgpu fleet collect --ray auto | tfgpu fleet -",
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

    FILE holds results of tfgpu doctor, smoke or bench as JSON: one, several, or one on a line, also with the names of
    nodes in front, as srun, kubectl, pdsh and tfgpu fleet collect print them. Of a FOLDER all such files are read; - is
    standard input.

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
    short_help=_COLLECT,
    epilog="Examples: tfgpu fleet collect --ray auto | tfgpu fleet -; "
    "tfgpu fleet collect --slurm --output nodes.jsonl smoke --require-gpus 8",
    context_settings={"allow_interspersed_args": False},
)
@option("--ray", "address", metavar="ADDRESS", help="Address of a Ray cluster: auto, HOST:6379 or ray://HOST:10001.")
@option("--slurm", is_flag=True, help="Run it by srun, within an allocation or with --nodes.")
@option(
    "--nodes",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --slurm: the number of nodes.  [default: those of the allocation]",
)
@option(
    "--srun",
    "srun_options",
    metavar="OPTIONS",
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
@option("--output", metavar="FILE", type=_FILE, default="-", help="Output file; - is standard output.  [default: -]")
@click.argument("words", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def collect(
    context: click.Context,
    /,
    address: str | None,
    slurm: bool,
    timeout: float | None,
    output: str,
    words: tuple[str, ...],
    **of_slurm: Any,
) -> None:
    """Run doctor, smoke or bench once on each node of a Ray or Slurm cluster: a line of JSON for each.

    COMMAND is doctor, smoke or bench with its options; doctor without one. A node that does not answer, or fails, has a
    line with the reason. "tfgpu fleet" reads the lines.

    Exit codes: 0 all nodes answered, whatever they found, 1 a node gave no answer, 2 wrong usage, 3 no node could be
    asked.
    """
    if slurm == (address is not None):
        raise click.UsageError("give either --ray ADDRESS or --slurm")
    if not slurm and any(of_slurm.values()):
        raise click.UsageError("--nodes, --srun and --python are for --slurm")
    if output != "-":
        check_writable("--output", output)
    words = _words(words or ("doctor",))
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.fleet.collect import LIMITS, Task, by_ray, by_slurm, line, srun_line

    task = Task((*words, "--format", "json"), timeout or LIMITS[words[0]])
    with bar() as report:
        report(f"connecting to Ray at {address}" if address else "waiting for Slurm to start it", 0.0)

        def progress(node: str, done: int, of: int) -> None:
            report(f"{done} of {of} nodes: {node}", done / max(of, 1))

        if address is not None:
            _require_ray()
            found = by_ray(address, task, progress)
        else:
            nodes, executable, options = _of_slurm(**of_slurm)
            found = by_slurm(srun_line(task, nodes, executable, options, os.environ), task, nodes, progress)
    if not found.nodes:
        say(f"tfgpu: no node could be asked: {found.error}")
        context.exit(3)
    rows = sorted(found.nodes, key=lambda one: one.node)
    target = Output("json", None if output == "-" else Path(output))
    write_all([target], lambda target: target.write_text("".join(map(line, rows))))
    failed = [f"tfgpu: {one.node}: {one.failure}" for one in rows if one.failure]
    for text in (*failed, f"tfgpu: {len(rows) - len(failed)} of {count(len(rows), 'node')} answered"):
        say(text)
    context.exit(1 if failed else 0)


def _require_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise click.UsageError(
            "--ray needs Ray, of the version that the cluster has (ray --version there). To install it: "
            f"{shlex.join([sys.executable, '-m', 'pip', 'install'])} ray==VERSION"
        )


def _of_slurm(nodes: int | None, srun_options: str | None, executable: str | None) -> tuple[int, str, list[str]]:
    """Return the number of nodes, the interpreter, and the options of srun. Raises UsageError: one is wrong."""
    from tfgpu_doctor.probes.systems import find

    allocated = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or ""
    if not nodes and (not allocated.isdecimal() or not 0 < int(allocated) < 1_000_000):
        raise click.UsageError("--slurm needs --nodes N outside of an allocation (salloc, sbatch)")
    try:
        options = shlex.split(srun_options or "")
    except ValueError as error:
        raise click.UsageError(f"--srun {srun_options}: {error}") from error
    if not find("srun", os.environ):
        raise click.UsageError("--slurm: srun is not on PATH; it is where jobs are submitted from")
    return nodes or int(allocated), executable or sys.executable, options


def _words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command for the nodes. Raises UsageError: it is none whose JSON can be collected."""
    known = ("doctor", "smoke", "bench")
    if words[0] not in known:
        hint = did_you_mean(words[0], known, 1) or f" It is one of {', '.join(known)}."
        raise click.UsageError(f"No command {words[0]!r} to run on nodes.{hint}")
    if taken := [word for word in words if word.partition("=")[0] in ("--format", "--output", "--html")]:
        raise click.UsageError(f"{taken[0]} cannot be given to {words[0]}: its JSON is what is collected")
    if words[0] == "bench" and (len(words) == 1 or words[1].startswith("-")):
        raise click.UsageError("bench needs a workload, as in: bench matpow --gpus all")
    return words


command.add_command(collect)
