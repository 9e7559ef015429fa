"""`tfgpu fleet collect`: doctor, smoke or bench once on each node of a cluster."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.output import Output, check_writable, write_all
from tfgpu_doctor.records.parameters import Seconds
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.cli.progress import Reporter
    from tfgpu_doctor.fleet.collect.task import Collected, Progress, Task

COMMANDS = ("doctor", "smoke", "bench")


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
    help="Address of a Ray cluster: auto, HOST:6379 or ray://HOST:10001.",
)
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
@option("--print", "prints", is_flag=True, help="With --slurm: show the command line, and run nothing.")
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
    help="Output file; - is standard output.  [default: -]",
)
@click.argument("words", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    context: click.Context,
    address: str | None,
    slurm: bool,
    nodes: int | None,
    srun_options: str | None,
    executable: str | None,
    prints: bool,
    timeout: float | None,
    output: str | None,
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
    if not slurm and (nodes or srun_options or executable or prints):
        raise click.UsageError("--nodes, --srun, --python and --print are for --slurm")
    if output not in (None, "-"):
        check_writable("--output", str(output))
    from tfgpu_doctor.fleet.collect.task import task

    asked = task(_words(words), timeout)
    if address is not None:
        _require_ray()
        found = _ray(address, asked)
    else:
        python = executable or sys.executable
        line, many = _srun_line(asked, nodes, srun_options, python)
        if prints:
            Output("text", None).write_text(shlex.join(line) + "\n")
            return
        _require_srun(line)
        found = _slurm(line, asked, many, python)
    if not found.nodes:
        say(f"tfgpu: no node could be asked: {found.error}")
        context.exit(3)
    context.exit(_write(found, output))


def _words(words: tuple[str, ...]) -> tuple[str, ...]:
    from tfgpu_doctor.fleet.collect.task import OWN_OPTIONS

    words = words or ("doctor",)
    if words[0] not in COMMANDS:
        hint = did_you_mean(words[0], COMMANDS, 1) or f" It is one of {', '.join(COMMANDS)}."
        raise click.UsageError(f"No command {words[0]!r} to run on nodes.{hint}")
    if taken := [word for word in words if word.partition("=")[0] in OWN_OPTIONS]:
        raise click.UsageError(f"{taken[0]} cannot be given to {words[0]}: its JSON is what is collected")
    if words[0] == "bench" and (len(words) == 1 or words[1].startswith("-")):
        raise click.UsageError("bench needs a workload, as in: bench matpow --gpus all")
    return words


def _require_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        install = shlex.join([sys.executable, "-m", "pip", "install"])
        raise click.UsageError(
            "--ray needs Ray, of the version that the cluster has (ray --version there). To install it: "
            f"{install} ray==VERSION"
        )


def _srun_line(asked: Task, nodes: int | None, options: str | None, python: str) -> tuple[list[str], int]:
    from tfgpu_doctor.fleet.collect.slurm import allocated, srun_line

    many = nodes or allocated(os.environ)
    if many is None:
        raise click.UsageError("--slurm needs --nodes N outside of an allocation (salloc, sbatch)")
    try:
        more = shlex.split(options or "")
    except ValueError as error:
        raise click.UsageError(f"--srun {options}: {error}") from error
    return srun_line(asked, many, python, more, os.environ), many


def _require_srun(line: list[str]) -> None:
    from tfgpu_doctor.probes.programs import find

    if not find("srun", os.environ):
        raise click.UsageError(f"--slurm: srun is not on PATH. Where Slurm is, run: {shlex.join(line)}")


def _ray(address: str, asked: Task) -> Collected:
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.fleet.collect.ray_cluster import collect

    with bar() as progress:
        progress(f"connecting to Ray at {address}", 0.0)
        return collect(address, asked, _telling(progress, "answered"))


def _slurm(line: list[str], asked: Task, many: int, python: str) -> Collected:
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.fleet.collect.slurm import collect

    with bar() as progress:
        progress("waiting for Slurm to start it", 0.0)
        return collect(line, asked, many, python, _telling(progress, "started"))


def _telling(progress: Reporter, what: str) -> Progress:
    def tell(node: str, failure: str, done: int, of: int) -> None:
        progress(f"{done} of {of} nodes {'done' if failure else what}: {node}", done / max(of, 1))

    return tell


def _write(found: Collected, output: str | None) -> int:
    """Write all lines, and say which nodes gave no answer; the exit code."""
    from tfgpu_doctor.fleet.collect.task import line

    nodes = sorted(found.nodes, key=lambda one: one.node)
    targets = [Output("json", None if output in (None, "-") else Path(str(output)))]
    write_all(targets, lambda target: target.write_text("".join(map(line, nodes))))
    failed = [one for one in nodes if one.failure]
    for one in failed:
        say(f"tfgpu: {one.node}: {one.failure}")
    say(f"tfgpu: {len(nodes) - len(failed)} of {count(len(nodes), 'node')} answered")
    return 1 if failed else 0
