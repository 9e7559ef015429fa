"""`tfgpu compare`: two doctor reports, or two bench results."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import Listed, OneOf, define_command, matrix_option, option
from tfgpu_doctor.cli.output import Output, detail_options, output_options, pair_outputs, redact_option, write
from tfgpu_doctor.render.formats import choices

if TYPE_CHECKING:
    from tfgpu_doctor.compare.records import Comparison

_KINDS = ("report comparison", "bench comparison")
FAIL_ON_REPORTS = ("error", "warning", "never")
FAIL_ON_BENCHES = ("slower", "faster", "change", "never")


@define_command(
    "compare",
    short_help="Compare two doctor reports or two bench results.",
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
@option(
    "--all", "everything", is_flag=True, help="Reports: include values that vary from run to run, such as free memory."
)
@option(
    "--require-gpus",
    metavar="N",
    type=click.IntRange(min=0),
    help="Reports: number of GPUs that both reports must have.",
)
@matrix_option
@option(
    "--fail-on",
    type=OneOf(["error", "warning", "slower", "faster", "change", "never"]),
    help="Severity or verdict for which the exit code is 1.  [default: error for reports, slower for bench results]",
)
@redact_option
@partial(detail_options, more="Show everything: all rows of --all, and the findings that are in both reports.")
@output_options(*_KINDS)
@click.pass_context
def command(
    context: click.Context,
    /,
    base: str,
    new: str,
    everything: bool,
    fail_on: str | None,
    redact: bool | None,
    detail: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
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
    targets = pair_outputs(formats, outputs, *_KINDS)
    if base == new == "-":
        raise click.UsageError("only one of the two files can be standard input (-)")
    names = (_name(base), _name(new))
    names = names if names[0] != names[1] else (base, new)
    pair = commands.load_pair(base, new)
    from tfgpu_doctor.records.report import Report

    are_reports = isinstance(pair[0], Report)
    _refuse_others(are_reports, everything, fail_on, formats, asked)
    compared = partial(_reports, everything) if are_reports else commands.compare
    compare = partial(compared, names=names, **_of_its_kind(are_reports, asked))
    fail_on = fail_on or ("error" if are_reports else "slower")
    options = {"redact": redact, "fail_on": fail_on, "detail": detail or "normal"}
    context.exit(_show(compare, pair, are_reports, everything, targets, options))


def _of_its_kind(are_reports: bool, asked: dict[str, Any]) -> dict[str, Any]:
    names = ("require_gpus", "matrix") if are_reports else ("factor", "across")
    return {name: asked[name] for name in names}


def _refuse_others(
    are_reports: bool, everything: bool, fail_on: str | None, formats: tuple[str, ...], asked: dict[str, Any]
) -> None:
    """Refuse the options that are for results of the other kind. Raises click.UsageError."""
    other = FAIL_ON_REPORTS if are_reports else FAIL_ON_BENCHES
    given = {f"--fail-on {fail_on}": fail_on is not None and fail_on not in other}
    if are_reports:
        given |= {"--factor": asked["factor"] is not None, "--across": bool(asked["across"])}
        given |= {f"--format {name}": name not in choices("report comparison") for name in formats}
        says = "only for bench results, but these are doctor reports"
    else:
        given |= {"--all": everything, "--require-gpus": asked["require_gpus"] is not None}
        says = "only for doctor reports, but these are bench results"
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise click.UsageError(f"{', '.join(wrong)}: {says}")


def _reports(everything: bool, *pair: Any, **options: Any) -> Comparison:
    from tfgpu_doctor.compare.comparison import without_noise

    comparison = commands.compare(*pair, **options)
    return comparison if everything else without_noise(comparison)


def _show(
    compare: Any, pair: Any, are_reports: bool, everything: bool, targets: list[Output], options: dict[str, Any]
) -> int:
    """Write the comparison; return the exit code."""
    from tfgpu_doctor.bench import comparison as benches
    from tfgpu_doctor.compare import comparison as reports
    from tfgpu_doctor.redact.redaction import redact

    comparison = compare(*pair)
    more = {"everything": everything} if are_reports else {}
    kind = _KINDS[0] if are_reports else _KINDS[1]
    write(comparison, kind, targets, redacted=lambda: compare(*redact(pair)), **options, **more)
    code: int = (reports if are_reports else benches).exit_code(comparison, options["fail_on"])
    return code


def _name(path: str) -> str:
    return "standard input" if path == "-" else PurePath(path).name
