"""`tfgpu bench show`: a saved result, printed or as a page, on a machine that need not be the one that measured."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench import page
from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command, option


@define_command(
    "show",
    epilog="Example: tfgpu bench show result.json --html result.html",
)
@click.argument("file", metavar="RESULT.json|-", type=click.Path())
@matrix_option
@option(
    "--html",
    metavar="FILE.html",
    type=click.Path(dir_okay=False),
    help="Also write an HTML page with charts to share: no private data, self-contained.",
)
@click.pass_context
def command(context: click.Context, file: str, matrix_file: str | None, html: str | None) -> None:
    """Print a result saved with --output, or make an HTML page from it; nothing is measured.

    Exit codes: 0 every run is verified, 1 a run failed, 2 wrong usage or no such result.
    """
    from tfgpu_doctor.cli.bench.measuring import show
    from tfgpu_doctor.cli.saved import load_bench
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM

    if html:
        page.check(html)
    result = load_bench(file, "tfgpu bench show")
    if html:
        page.write(result, load_matrix(matrix_file), html)
    else:
        show(result)
    context.exit(EXIT_PROBLEM if any(run.failure for run in result.runs) else EXIT_OK)
