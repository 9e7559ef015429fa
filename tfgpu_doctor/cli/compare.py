"""`tfgpu compare`: what changed between two reports of the doctor, or between two bench results."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.output import Output, output_options, pair_outputs, write
from tfgpu_doctor.cli.saved import load_pair
from tfgpu_doctor.render.formats import choices

if TYPE_CHECKING:
    from tfgpu_doctor.bench.comparing.records import FailOnSpeed
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.report import FailOn, Report

_KINDS = ("report comparison", "bench comparison")
OF_REPORTS: dict[str, FailOn] = {"error": "error", "warning": "warning", "never": "never"}
OF_BENCHES: dict[str, FailOnSpeed] = {"slower": "slower", "faster": "faster", "change": "change", "never": "never"}


class Asked(NamedTuple):
    """The options, as the user wrote them; None and empty: not given."""

    everything: bool
    require_gpus: int | None
    matrix_file: str | None
    factor: float | None
    across: tuple[str, ...]
    fail_on: str | None
    formats: tuple[str, ...]

    def only_of_reports(self) -> list[str]:
        """Options given that mean nothing for bench results."""
        given = {
            "--all": self.everything,
            "--require-gpus": self.require_gpus is not None,
            f"--fail-on {self.fail_on}": self.fail_on is not None and self.fail_on not in OF_BENCHES,
        }
        return [name for name, is_given in given.items() if is_given]

    def only_of_benches(self) -> list[str]:
        """Options given that mean nothing for reports."""
        given = {
            "--factor": self.factor is not None,
            "--across": bool(self.across),
            **{f"--format {name}": name not in choices("report comparison") for name in self.formats},
            f"--fail-on {self.fail_on}": self.fail_on is not None and self.fail_on not in OF_REPORTS,
        }
        return [name for name, is_given in given.items() if is_given]


@click.command(
    "compare",
    short_help="Say what changed between two reports or two bench results.",
    epilog="Examples: tfgpu compare good.json bad.json; tfgpu compare monday.json - --format json < today.json; "
    "tfgpu compare before.json after.json --factor 1.1 --across tensorflow",
)
@click.argument("base", metavar="BASE.json", type=click.Path())
@click.argument("new", metavar="NEW.json", type=click.Path())
@click.option(
    "--factor",
    metavar="F",
    type=float,
    help="Bench results: how much longer or shorter a step may take and still be the same.  [default: 1.05]",
)
@click.option(
    "--across",
    metavar="LIST",
    multiple=True,
    help="Bench results: what may differ, since it is what the comparison is about, such as tensorflow,driver; or all.",
)
@click.option("--all", "everything", is_flag=True, help="Reports: include what differs from minute to minute.")
@click.option(
    "--require-gpus", metavar="N", type=click.IntRange(min=0), help="Reports: judge both by this number of GPUs."
)
@matrix_option
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "slower", "faster", "change", "never"]),
    help="What makes the exit code 1.  [default: error in reports, slower in bench results]",
)
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
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Say what changed from one report of tfgpu doctor to another, or from one result of tfgpu bench to another.

    Reports: what differs, what of it matters, and what explains it. A change explains a finding when the finding goes
    away as soon as the change is undone and everything is diagnosed again. Both are judged by the same rules.

    Bench results: each run is slower, faster, the same, not to be told, or not comparable, and why. A change counts
    when it is larger than --factor and clear: the 95 % interval, in which processes count and not samples, excludes 1.
    Measure both with --processes 5.

    - is standard input.

    Exit codes: 0 nothing at or above --fail-on, 1 something is (in bench results also a run that has failed since), 2
    wrong usage, 3 could not determine: of some run of BASE, in bench results, it cannot be told.
    """
    targets = pair_outputs(formats, outputs, *_KINDS)
    if base == new == "-":
        raise click.UsageError("only one of the two files can come from standard input")
    asked = Asked(everything, require_gpus, matrix_file, factor, across, fail_on, formats)
    names = (_name(base), _name(new))
    names = names if names[0] != names[1] else (base, new)
    pair = load_pair(base, new)
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.report import Report

    if isinstance(pair[0], Report) and isinstance(pair[1], Report):
        context.exit(_reports(pair[0], pair[1], names, asked, targets))
    if isinstance(pair[0], BenchResult) and isinstance(pair[1], BenchResult):
        context.exit(_benches(pair[0], pair[1], names, asked, targets))


def _reports(good: Report, bad: Report, names: tuple[str, str], asked: Asked, targets: list[Output]) -> int:
    from tfgpu_doctor.compare.comparison import compare, exit_code, without_noise
    from tfgpu_doctor.diagnosis.engine import now

    if alien := asked.only_of_benches():
        raise click.UsageError(f"{', '.join(alien)}: for bench results, and these are two doctor reports")
    matrix = load_matrix(asked.matrix_file)
    comparison = compare(good, bad, matrix, now(), names=names, require_gpus=asked.require_gpus)
    shown = comparison if asked.everything else without_noise(comparison)
    write(shown, "report comparison", targets, everything=asked.everything)
    return exit_code(comparison, OF_REPORTS[asked.fail_on or "error"])


def _benches(base: BenchResult, new: BenchResult, names: tuple[str, str], asked: Asked, targets: list[Output]) -> int:
    from tfgpu_doctor.bench.comparing.comparison import FACTOR, compare_benches, exit_code
    from tfgpu_doctor.diagnosis.engine import now

    if alien := asked.only_of_reports():
        raise click.UsageError(f"{', '.join(alien)}: for doctor reports, and these are two bench results")
    factor = FACTOR if asked.factor is None else asked.factor
    if not 1 < factor < math.inf:
        raise click.UsageError(f"--factor {factor:g}: give a number above 1, as 1.05 for 5 per cent")
    across = _across(asked.across)
    comparison = compare_benches(base, new, now(), factor=factor, across=across, names=names)
    write(comparison, "bench comparison", targets)
    return exit_code(comparison, OF_BENCHES[asked.fail_on or "slower"])


def _across(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names in --across.

    Raises:
        click.UsageError: one is not known.
    """
    from tfgpu_doctor.bench.comparing.comparability import ACROSS

    asked = [part.strip().lower() for text in texts for part in text.split(",")]
    if unknown := [name for name in asked if name not in (*ACROSS, "all")]:
        raise click.UsageError(f"--across {unknown[0]}: not one of {', '.join(ACROSS)}, all")
    return ACROSS if "all" in asked else tuple(asked)


def _name(path: str) -> str:
    return "standard input" if path == "-" else PurePath(path).name
