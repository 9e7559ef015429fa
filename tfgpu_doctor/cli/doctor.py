"""`tfgpu doctor`: diagnose this machine, or a saved report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import checks_options, define_command, matrix_option, option, python_option, rare_option
from tfgpu_doctor.cli.output import Results, fail_on_option, result_options
from tfgpu_doctor.cli.progress import spinner
from tfgpu_doctor.facts.facts import encode
from tfgpu_doctor.facts.parameters import Seconds

if TYPE_CHECKING:
    from rich.console import Console

    from tfgpu_doctor.facts.report import FailOn
    from tfgpu_doctor.findings.engine import Check


@define_command(
    "doctor",
    epilog="Examples: tfgpu doctor --python ~/env/bin/python; tfgpu doctor --format json --output report.json",
)
@python_option("Python interpreter, or its environment, whose TensorFlow to diagnose; nothing is installed in it.")
@option(
    "--from",
    metavar="REPORT.json",
    type=click.Path(),
    help="Diagnose a saved report (--format json) instead of this machine; - is standard input.",
)
@matrix_option
@option("--no-import", is_flag=True, help="Do not import TensorFlow; only check what is installed.")
@rare_option(
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
@rare_option("--list-checks", is_flag=True, help="List all findings with their ids, and exit.")
@fail_on_option
@result_options("report")
@click.pass_context
def command(
    context: click.Context,
    /,
    no_import: bool,
    list_checks: bool,
    fail_on: FailOn,
    results: Results,
    **asked: Any,
) -> None:
    """Diagnose why TensorFlow cannot use the GPU, and show how to fix it.

    Checks the machine from the GPU and the driver to TensorFlow, which is imported and tested in a separate process.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 could not determine.
    """
    if list_checks:
        from tfgpu_doctor.findings.engine import checks

        listed = checks()
        results.write_page(partial(encode, listed), partial(_print, listed.checks), "the list of checks")
        return
    from tfgpu_doctor.facts.report import exit_code

    saved = asked.pop("from")
    with spinner("checking this machine" if no_import or saved else "checking this machine and TensorFlow"):
        report = commands.diagnose(saved=saved, import_tensorflow=not no_import, **asked)
    is_alone = context.parent is not None and not context.parent.invoked_subcommand  # tfgpu, and nothing else
    chosen = {one: asked[one] for one in ("python", "only", "skip")}
    results.write(report, "report", fail_on=fail_on, guides=is_alone, **chosen)
    context.exit(exit_code(report, fail_on))


def _print(listed: tuple[Check, ...], console: Console) -> None:
    from rich.text import Text

    from tfgpu_doctor.render.console import STYLES
    from tfgpu_doctor.render.text import hanging

    widest = max(len(check.id) for check in listed)
    for check in listed:
        head = Text.assemble((f"{check.severity:8} ", STYLES[check.severity]), (f"{check.id:{widest}}  ", "bold"))
        hanging(head, Text(check.title), console)
