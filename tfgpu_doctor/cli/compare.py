"""`tfgpu compare`: what changed between two reports, and which change explains what is new."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.output import fail_on_option, output_options, pair_outputs
from tfgpu_doctor.cli.saved import load

if TYPE_CHECKING:
    from tfgpu_doctor.report import FailOn


@click.command(
    "compare",
    short_help="Say what changed between two reports, and which change explains it.",
    epilog="Examples: tfgpu compare good.json bad.json; tfgpu compare monday.json - --format json < today.json",
)
@click.argument("good", metavar="GOOD.json", type=click.Path())
@click.argument("bad", metavar="BAD.json", type=click.Path())
@click.option("--all", "everything", is_flag=True, help="Include what differs from minute to minute: clocks, memory.")
@click.option("--require-gpus", metavar="N", type=click.IntRange(min=0), help="Judge both by this number of GPUs.")
@matrix_option
@fail_on_option
@output_options
@click.pass_context
def command(
    context: click.Context,
    good: str,
    bad: str,
    everything: bool,
    require_gpus: int | None,
    matrix_file: str | None,
    fail_on: FailOn,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Say what changed from one report of tfgpu doctor to another, what of it matters, and what explains it.

    A change explains a finding when the finding goes away as soon as the change is undone and everything is diagnosed
    again. Both reports are judged by the same rules. - is standard input.

    Exit codes: 0 nothing new at or above --fail-on, 1 something is new, 2 wrong usage, 3 could not determine.
    """
    targets = pair_outputs(formats, outputs)
    if good == bad == "-":
        raise click.UsageError("only one of the two reports can come from standard input")
    before, after = (load(path, command="tfgpu compare") for path in (good, bad))
    from tfgpu_doctor.compare import compare, exit_code, without_noise
    from tfgpu_doctor.diagnosis import now

    names = (_name(good), _name(bad))
    names = names if names[0] != names[1] else (good, bad)
    matrix = load_matrix(matrix_file)
    comparison = compare(before, after, matrix, now(), names=names, require_gpus=require_gpus)
    for output in targets:
        if output.format == "json":
            output.write_bytes((comparison if everything else without_noise(comparison)).to_json())
        else:
            from tfgpu_doctor.render.compare_text import render

            output.print_with(partial(render, comparison, everything=everything))
    context.exit(exit_code(comparison, fail_on))


def _name(path: str) -> str:
    return "standard input" if path == "-" else PurePath(path).name
