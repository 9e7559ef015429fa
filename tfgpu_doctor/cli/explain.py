"""`tfgpu explain`: diagnose pasted text or a saved report, or print the page of a finding."""

from __future__ import annotations

import os
import re
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import checks_options, define_command, matrix_option
from tfgpu_doctor.cli.output import Results, fail_on_option, note, result_options
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.facts.report import FailOn, Report

_ID = re.compile(r"[a-z0-9]+\.[a-z0-9-]+")
# what is a message, and no name of a file: CUDA_ERROR_NO_DEVICE, or several words without the ending of a file; of a
# path, at most three
_MESSAGE = re.compile(
    r"[A-Z]+(?:_[A-Z]+)+|(?!.*\.(?:txt|log|out|err|md|json|html|gz|zip)$)"
    r"(?:[^\s/\\]+\s+[^\s/\\]+|\S+\s+\S+\s+\S+\s+\S+)(?:\s.*)?",
    re.DOTALL,
)
_PIPE = "To explain a text, pipe it: echo '...' | tfgpu explain -"


@define_command(
    "explain",
    epilog="Examples: tfgpu explain issue.txt; python train.py 2>&1 | tfgpu explain -; tfgpu explain cuda.missing",
)
@click.argument("sources", metavar="[FILE|-|ID]", nargs=-1, type=click.Path())
@matrix_option
@checks_options
@fail_on_option
@result_options("report")
@click.pass_context
def command(
    context: click.Context,
    /,
    sources: tuple[str, ...],
    fail_on: FailOn,
    results: Results,
    **selected: Any,
) -> None:
    """Diagnose pasted text, or print the page of a finding.

    FILE may contain, in any combination, TensorFlow logs, tracebacks, output of nvidia-smi, pip and conda, Docker
    errors, bug reports and tfgpu reports. Without FILE, or with -, standard input is read. ID is the id of a finding.
    This machine is not examined.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 could not determine.
    """
    if len(sources) > 1:
        raise click.UsageError(_one_of(sources))
    source = sources[0] if sources else "-"
    if not os.path.exists(source) and _ID.fullmatch(source.lower()):
        _page(source.lower(), results)
        return
    from tfgpu_doctor.facts.report import exit_code

    report = _explained(source, **selected)
    del selected["matrix"]
    results.write(report, "report", fail_on=fail_on, **selected)
    context.exit(exit_code(report, fail_on))


def _one_of(sources: tuple[str, ...]) -> str:
    """What to type instead of several texts, or several ids."""
    from tfgpu_doctor.findings import pages

    if all(map(pages.page_of, sources)):
        return f"give one id at a time: {'; '.join(f'tfgpu explain {one}' for one in sources)}"
    return f"give one text: cat {shlex.join(sources)} | tfgpu explain -"


def _explained(source: str, **options: Any) -> Report:
    if source == "-" and sys.stdin and sys.stdin.isatty():
        end = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"
        say(f"Paste the log or error message, then press {end} on an empty line.")
    is_file = source == "-" or os.path.exists(source)
    if not is_file and _MESSAGE.fullmatch(source):
        return commands.explain(source, note=note, **options)
    try:
        return commands.explain(Path(source), note=note, **options)
    except commands.UsageError as error:
        if is_file or not str(error).startswith("cannot read"):
            raise
        from tfgpu_doctor.findings import pages

        similar = pages.nearest(source) if re.fullmatch(r"[\w-]{3,30}", source) else ()  # "cuda-missing"
        hint = f"Did you mean {' or '.join(similar)}?" if similar else _PIPE
        if any(one.id == source for one in commands.load_matrix(options["matrix"]).data.known_issues):
            hint = f"It is a known issue of the matrix: tfgpu matrix find {source}"
        raise commands.UsageError(f"{error}. {hint}") from error


def _page(finding_id: str, results: Results) -> None:
    """Print the page of a finding.

    Raises click.UsageError: there is neither such a finding nor such a file, or a page has no such format.
    """
    from tfgpu_doctor.findings import pages

    page = pages.page_of(finding_id)
    if page is None:
        similar = pages.nearest(finding_id)
        hint = f" Did you mean {' or '.join(similar)}?" if similar else f" All ids: tfgpu doctor --list-checks. {_PIPE}"
        raise click.UsageError(f"{finding_id} is neither a file nor the id of a finding.{hint}")
    from tfgpu_doctor.render import text
    from tfgpu_doctor.render.outline import finding_page

    shown = finding_page(page)
    results.write_page(lambda: pages.page_json(page), partial(text.render, shown), "the page of a finding")
