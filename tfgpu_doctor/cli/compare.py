"""`tfgpu compare`: two doctor reports, or two bench results."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import choice, define_command, matrix_option, option
from tfgpu_doctor.cli.output import Results, result_options
from tfgpu_doctor.facts.parameters import Listed
from tfgpu_doctor.render.formats import choices

_FAIL_ON = {"report": ("error", "warning", "never"), "bench": ("slower", "faster", "change", "never")}


@define_command(
    "compare",
    epilog="Examples: tfgpu compare good.json bad.json; tfgpu compare monday.json - --format json < today.json; "
    "tfgpu compare before.json after.json --factor 1.1 --across tensorflow",
)
@click.argument("base", metavar="BASE.json", type=click.Path())
@click.argument("new", metavar="NEW.json", type=click.Path())
@option(
    "--factor",
    metavar="X",
    type=float,
    help="Bench results: smallest change of the time that counts, as a factor.  [default: 1.05]",
)
@option(
    "--across",
    metavar="NAME,...",
    type=Listed(),
    help="Bench results: what may differ between the two, such as tensorflow,driver; or all.",
)
@matrix_option
@choice(
    "--fail-on",
    choices=("error", "warning", "slower", "faster", "change", "never"),
    help="Severity or verdict for which the exit code is 1.  [default: error for reports, slower for bench results]",
)
@result_options(
    "report comparison",
    "bench comparison",
    more="Show everything: all changes, and the findings that are in both reports.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    base: str,
    new: str,
    fail_on: str | None,
    results: Results,
    **asked: Any,
) -> None:
    """Compare two reports of tfgpu doctor, or two results of tfgpu bench.

    Reports: shows what changed, and for each new finding the changes that its check reads: if it is one, it is the
    cause; of several, each may be. Both reports are diagnosed again.

    Bench results: each run is slower, faster, the same, inconclusive, or not comparable, with the reason. A change
    counts if it is larger than --factor and its 95 % confidence interval, calculated over processes, does not include
    1. Measure both results with --processes 5.

    - is standard input.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem or a change at or above --fail-on, or a run that now fails,
    2 wrong usage, 3 could not determine: a run of BASE is inconclusive or not comparable.
    """
    if base == new == "-":
        raise click.UsageError("only one of the two files can be standard input (-)")
    from tfgpu_doctor.bench import comparison as benches
    from tfgpu_doctor.compare import comparison as reports
    from tfgpu_doctor.facts.report import Report
    from tfgpu_doctor.redact.redaction import redact

    called = tuple("standard input" if path == "-" else PurePath(path).name for path in (base, new))
    names: Any = called if called[0] != called[1] else (base, new) if base != new else benches.NAMES
    pair = commands.load_pair(base, new)
    are_reports = isinstance(pair[0], Report)
    _refuse_others("report" if are_reports else "bench", fail_on, context.params["format"])
    fail_on = fail_on or ("error" if are_reports else "slower")
    comparison: Any = commands.compare(*pair, names=names, **asked)
    kind = "report comparison" if are_reports else "bench comparison"

    def redacted() -> Any:
        return commands.compare(*redact(pair), names=names, **asked)

    results.write(comparison, kind, redacted=redacted, fail_on=fail_on)
    module: Any = reports if are_reports else benches
    context.exit(module.exit_code(comparison, fail_on))


def _refuse_others(kind: str, fail_on: str | None, formats: tuple[str, ...]) -> None:
    """Refuse what is for results of the other kind. Raises click.UsageError."""
    given = [f"--fail-on {fail_on}"] if fail_on and fail_on not in _FAIL_ON[kind] else []
    given += [f"--format {name}" for name in formats if name not in choices(f"{kind} comparison")]
    if given:
        these, others = ("doctor reports", "bench results")[:: 1 if kind == "report" else -1]
        raise click.UsageError(f"{', '.join(given)}: only for {others}, but these are {these}")
