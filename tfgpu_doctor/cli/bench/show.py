"""`tfgpu bench show`: a saved result in any format, on a machine that need not be the one that measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.bench import page
from tfgpu_doctor.cli.layers import matrix_option
from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.output import detail_options, output_options, pair_outputs, redact_option, write

if TYPE_CHECKING:
    from tfgpu_doctor.render.formats import Detail


@define_command(
    "show",
    epilog="Examples: tfgpu bench show result.json --format markdown; tfgpu bench show r.json --output r.html",
)
@click.argument("file", metavar="RESULT.json|-", type=click.Path())
@matrix_option
@redact_option
@detail_options
@output_options("bench")
@page.html_option
@click.pass_context
def command(
    context: click.Context,
    file: str,
    matrix_file: str | None,
    redact: bool | None,
    detail: Detail | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    html: str | None,
) -> None:
    """Print a result saved with --output, or make an HTML page with charts of it; nothing is measured.

    Exit codes: 0 every run is verified, 1 a run failed, 2 wrong usage or no such result.
    """
    from tfgpu_doctor.cli.saved import load_bench
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM

    targets = page.with_html(pair_outputs(formats, outputs, "bench") if formats or outputs or not html else [], html)
    result = load_bench(file, "tfgpu bench show")
    write(result, "bench", targets, redact=redact, diagnose=page.diagnosis(matrix_file), detail=detail or "normal")
    context.exit(EXIT_PROBLEM if any(run.failure for run in result.runs) else EXIT_OK)
