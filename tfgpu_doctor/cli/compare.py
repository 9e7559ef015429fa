"""`tfgpu compare`: two doctor reports, or two bench results."""

from __future__ import annotations

import math
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.output import Output, detail_options, output_options, pair_outputs, redact_option, write
from tfgpu_doctor.cli.saved import load_pair
from tfgpu_doctor.cli.values import Listed, OneOf
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.render.formats import choices

if TYPE_CHECKING:
    from tfgpu_doctor.bench.comparison import FailOnSpeed
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.compare.records import Comparison
    from tfgpu_doctor.records.report import FailOn, Report
    from tfgpu_doctor.render.formats import Detail

_KINDS = ("report comparison", "bench comparison")
FAIL_ON_REPORTS: dict[str, FailOn] = {"error": "error", "warning": "warning", "never": "never"}
FAIL_ON_BENCHES: dict[str, FailOnSpeed] = {"slower": "slower", "faster": "faster", "change": "change", "never": "never"}


class CompareOptions(NamedTuple):
    """The options as given on the command line; None and empty: not given."""

    everything: bool
    require_gpus: int | None
    matrix_file: str | None
    factor: float | None
    across: tuple[str, ...]
    fail_on: str | None
    redact: bool | None
    formats: tuple[str, ...]
    detail: Detail

    def report_options(self) -> list[str]:
        """The given options that do not apply to bench results."""
        given = {
            "--all": self.everything,
            "--require-gpus": self.require_gpus is not None,
            f"--fail-on {self.fail_on}": self.fail_on is not None and self.fail_on not in FAIL_ON_BENCHES,
        }
        return [name for name, is_given in given.items() if is_given]

    def bench_options(self) -> list[str]:
        """The given options that do not apply to doctor reports."""
        given = {
            "--factor": self.factor is not None,
            "--across": bool(self.across),
            **{f"--format {name}": name not in choices("report comparison") for name in self.formats},
            f"--fail-on {self.fail_on}": self.fail_on is not None and self.fail_on not in FAIL_ON_REPORTS,
        }
        return [name for name, is_given in given.items() if is_given]


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
    base: str,
    new: str,
    factor: float | None,
    across: tuple[str, ...],
    everything: bool,
    require_gpus: int | None,
    matrix_file: str | None,
    fail_on: str | None,
    redact: bool | None,
    detail: Detail | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
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
    options = CompareOptions(
        everything, require_gpus, matrix_file, factor, across, fail_on, redact, formats, detail or "normal"
    )
    names = (_name(base), _name(new))
    names = names if names[0] != names[1] else (base, new)
    pair = load_pair(base, new)
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.report import Report

    if isinstance(pair[0], Report) and isinstance(pair[1], Report):
        context.exit(compare_reports(pair[0], pair[1], names, options, targets))
    if isinstance(pair[0], BenchResult) and isinstance(pair[1], BenchResult):
        context.exit(compare_results(pair[0], pair[1], names, options, targets))


def compare_reports(
    base: Report, new: Report, names: tuple[str, str], options: CompareOptions, targets: list[Output]
) -> int:
    """Compare two doctor reports; returns the exit code. Raises click.UsageError: an option is for bench results."""
    from tfgpu_doctor.compare.comparison import compare, exit_code, without_noise
    from tfgpu_doctor.diagnosis.reports import now
    from tfgpu_doctor.redact.redaction import redact

    if wrong := options.bench_options():
        raise click.UsageError(f"{', '.join(wrong)}: only for bench results, but these are doctor reports")
    matrix = load_matrix(options.matrix_file)
    created = now()

    def shown(base: Report, new: Report) -> Comparison:
        comparison = compare(base, new, matrix, created, names=names, require_gpus=options.require_gpus)
        return comparison if options.everything else without_noise(comparison)

    comparison = shown(base, new)
    fail_on = FAIL_ON_REPORTS[options.fail_on or "error"]
    write(
        comparison,
        "report comparison",
        targets,
        redact=options.redact,
        redacted=lambda: shown(*redact((base, new))),
        everything=options.everything,
        fail_on=fail_on,
        detail=options.detail,
    )
    return exit_code(comparison, fail_on)


def compare_results(
    base: BenchResult, new: BenchResult, names: tuple[str, str], options: CompareOptions, targets: list[Output]
) -> int:
    """Compare two bench results; returns the exit code. Raises click.UsageError: an option is for doctor reports."""
    from tfgpu_doctor.bench.comparison import FACTOR, compare_benches, exit_code
    from tfgpu_doctor.diagnosis.reports import now
    from tfgpu_doctor.redact.redaction import redact

    if wrong := options.report_options():
        raise click.UsageError(f"{', '.join(wrong)}: only for doctor reports, but these are bench results")
    factor = FACTOR if options.factor is None else options.factor
    if not 1 < factor < math.inf:
        raise click.UsageError(f"--factor {factor:g}: must be greater than 1, such as 1.05 for 5 %")
    across = _across(options.across)
    compared = partial(compare_benches, created=now(), factor=factor, across=across, names=names)
    comparison = compared(base, new)
    fail_on = FAIL_ON_BENCHES[options.fail_on or "slower"]
    write(
        comparison,
        "bench comparison",
        targets,
        redact=options.redact,
        redacted=lambda: compared(*redact((base, new))),
        fail_on=fail_on,
        detail=options.detail,
    )
    return exit_code(comparison, fail_on)


def _across(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names in --across. Raises click.UsageError: a name is unknown."""
    from tfgpu_doctor.bench.comparability import ACROSS

    wanted = [text.lower() for text in texts]
    if unknown := [name for name in wanted if name not in (*ACROSS, "all")]:
        hint = did_you_mean(unknown[0], (*ACROSS, "all"), 1)
        raise click.UsageError(f"--across {unknown[0]}: choose from {', '.join(ACROSS)}, all.{hint}")
    return ACROSS if "all" in wanted else tuple(wanted)


def _name(path: str) -> str:
    return "standard input" if path == "-" else PurePath(path).name
