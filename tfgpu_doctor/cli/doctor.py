"""`tfgpu doctor`: examine, diagnose, render, exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.checks import checks_options, list_checks, verify
from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.output import (
    Output,
    check_executable,
    check_python,
    detail_options,
    fail_on_option,
    output_options,
    pair_outputs,
    redact_option,
    write,
)
from tfgpu_doctor.cli.values import EXECUTABLE, Seconds

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.records.report import FailOn, Report
    from tfgpu_doctor.render.formats import Detail


@define_command(
    "doctor",
    short_help="Diagnose why TensorFlow cannot use the GPU, and show how to fix it.",
    epilog="Examples: tfgpu doctor --python ~/env/bin/python; tfgpu doctor --format json --output report.json",
)
@option(
    "--python",
    "executable",
    metavar="EXE",
    type=EXECUTABLE,
    help="Python interpreter, its environment, or its version, whose TensorFlow to diagnose; nothing is installed in "
    "it.  [default: this one]",
)
@option(
    "--from",
    "saved",
    metavar="REPORT.json",
    type=click.Path(),
    help="Diagnose a saved report (--format json) instead of this machine; - is standard input.",
)
@matrix_option
@option("--no-import", is_flag=True, help="Do not import TensorFlow; only check what is installed.")
@option(
    "--timeout",
    metavar="S",
    type=Seconds(),
    help="Time limit for importing and testing TensorFlow, in seconds.",
)
@option(
    "--require-gpus",
    metavar="N",
    type=click.IntRange(min=0),
    help="Report an error if TensorFlow can use fewer than N GPUs.",
)
@checks_options
@option(
    "--list-checks",
    "lists_checks",
    is_flag=True,
    help="List all findings with their ids, and exit.",
)
@fail_on_option
@redact_option
@detail_options
@output_options("report")
@click.pass_context
def command(
    context: click.Context,
    executable: str | None,
    saved: str | None,
    matrix_file: str | None,
    no_import: bool,
    timeout: float | None,
    require_gpus: int | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    lists_checks: bool,
    fail_on: FailOn,
    redact: bool | None,
    detail: Detail | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Diagnose why TensorFlow cannot use the GPU, and show how to fix it.

    Checks the machine from the GPU and the driver to TensorFlow, which is imported and tested in a separate process.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 could not determine.
    """
    targets = pair_outputs(formats, outputs, "report")
    if lists_checks:
        list_checks(targets)
        return
    if saved and (executable or no_import or timeout):
        raise click.UsageError(
            "--python, --no-import and --timeout cannot be combined with --from, which reads a saved report"
        )
    check_executable(executable)
    verify(only, skip)
    from tfgpu_doctor.records.report import exit_code

    report = (
        _from_saved(saved, matrix_file, require_gpus)
        if saved
        else _live(executable or sys.executable, matrix_file, no_import, timeout, require_gpus)
    )
    if only or skip:
        from tfgpu_doctor.findings.engine import REQUIRED, restrict

        if only and require_gpus is not None:
            only = (*only, REQUIRED)
        report = restrict(report, only, skip, require_gpus=require_gpus)
    show(report, targets, redact, fail_on, only, skip, detail or "normal")
    context.exit(exit_code(report, fail_on))


def _live(
    executable: str, matrix_file: str | None, no_import: bool, timeout: float | None, require_gpus: int | None
) -> Report:
    from tfgpu_doctor.cli.progress import spinner
    from tfgpu_doctor.findings.engine import make_report
    from tfgpu_doctor.probes.examine import examine

    matrices: list[Matrix] = []

    def load() -> Matrix:
        matrices.append(load_matrix(matrix_file))
        return matrices[0]

    with spinner("checking this machine" if no_import else "checking this machine and TensorFlow"):
        examination = examine(executable, load, import_tensorflow=not no_import, timeout=timeout)
    check_python(executable, examination.facts.python.version)
    return make_report(
        examination.facts,
        matrices[0],
        source="live",
        timings=examination.timings,
        require_gpus=require_gpus,
    )


def _from_saved(path: str, matrix_file: str | None, require_gpus: int | None) -> Report:
    from tfgpu_doctor.cli.saved import load
    from tfgpu_doctor.findings.engine import make_report

    old = load(path)
    return make_report(
        old.facts,
        load_matrix(matrix_file),
        source="text" if old.source == "text" else "report",  # a report of a pasted text stays one
        timings=old.timings,
        require_gpus=require_gpus,
    )


def show(
    report: Report,
    targets: list[Output],
    redact: bool | None = None,
    fail_on: FailOn = "error",
    only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (),
    detail: Detail = "normal",
) -> None:
    """Render the report for each target.

    `fail_on`, `only` and `skip` are the options of the user: formats for CI show what fails and what was checked.
    `detail` is how much the text shows.
    """
    write(report, "report", targets, redact=redact, fail_on=fail_on, only=only, skip=skip, detail=detail)
