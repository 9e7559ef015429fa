"""`tfgpu smoke`: a test for CI jobs on machines with GPUs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.bench.matpow import DTYPES
from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.output import (
    check_executable,
    check_python,
    detail_options,
    output_options,
    pair_outputs,
    redact_option,
    write,
)
from tfgpu_doctor.cli.values import EXECUTABLE, OneOf, Seconds

if TYPE_CHECKING:
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.records.report import Report
    from tfgpu_doctor.render.formats import Detail
    from tfgpu_doctor.smoke.baseline import Baseline
    from tfgpu_doctor.smoke.plan import SmokeOptions
    from tfgpu_doctor.smoke.records import Smoke

_POSITIVE = click.FloatRange(min=0, min_open=True)


@define_command(
    "smoke",
    short_help="Test in a minute that TensorFlow works on the GPUs of this machine, for CI.",
    epilog="Examples: tfgpu smoke --require-gpus 2 --min-tflops 40; "
    "tfgpu smoke --format github --format junit --output - --output tfgpu.xml; without a GPU: "
    "tfgpu smoke --require-gpus 0",
)
@option(
    "--require-gpus",
    metavar="N",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Fail if TensorFlow lists fewer than N GPUs; 0 tests the CPU if there is no GPU.",
)
@option(
    "--budget",
    metavar="S",
    type=Seconds(5),
    default=60.0,
    show_default=True,
    help="Time limit in seconds, including the import of TensorFlow; steps that exceed it are reported as not run.",
)
@option(
    "--dtype",
    type=OneOf(DTYPES),
    default="float32",
    show_default=True,
    help="Data type; float32 is without TF32. Training uses the corresponding mixed precision.",
)
@option("--min-tflops", metavar="X", type=_POSITIVE, help="Fail if a GPU computes a matrix product with fewer TFLOP/s.")
@option(
    "--max-import-seconds", "max_import", metavar="S", type=Seconds(), help="Fail if importing TensorFlow takes longer."
)
@option(
    "--baseline",
    metavar="FILE.json",
    type=click.Path(),
    help="Saved result of tfgpu smoke or bench: fail if a step takes more than --factor times as long as in it.",
)
@option(
    "--factor",
    metavar="X",
    type=click.FloatRange(min=1, min_open=True),
    default=1.2,
    show_default=True,
    help="Slowdown that --baseline tolerates.",
)
@option(
    "--repeat",
    "rounds",
    metavar="N",
    type=click.IntRange(min=1, max=100),
    default=1,
    show_default=True,
    help="Run all steps N times, each time in a new process, and report the worst outcome.",
)
@option(
    "--virtual-gpus",
    "virtual",
    metavar="N",
    type=click.IntRange(min=2, max=16),
    help="Also test N logical devices of the first GPU (or the CPU); no speed is reported for them.",
)
@option(
    "--python",
    "executable",
    metavar="EXE",
    type=EXECUTABLE,
    help="Python interpreter that has TensorFlow, its environment, or its version.  [default: this one]",
)
@matrix_option
@redact_option
@partial(detail_options, more="Show every check that was not run, and the whole findings of a diagnosis that failed.")
@output_options("smoke")
@click.pass_context
def command(
    context: click.Context,
    require_gpus: int,
    budget: float,
    dtype: str,
    min_tflops: float | None,
    max_import: float | None,
    baseline: str | None,
    factor: float,
    rounds: int,
    virtual: int | None,
    executable: str | None,
    matrix_file: str | None,
    redact: bool | None,
    detail: Detail | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Run the diagnosis, then small verified computations on every GPU and on all of them together.

    One line is printed for each check: ok, failed, not run, or could not determine.

    Exit codes: 0 all checks are ok, 1 a check failed, or fewer GPUs than required, 2 wrong usage, 3 a check could not
    be determined or exceeded the budget, 130 interrupted.
    """
    targets = pair_outputs(formats, outputs, "smoke")
    check_executable(executable)
    saved = _baseline(baseline) if baseline else None
    from tfgpu_doctor.smoke.plan import SmokeOptions
    from tfgpu_doctor.smoke.records import exit_code

    options = SmokeOptions(
        budget=budget,
        require_gpus=require_gpus,
        dtype=dtype,
        min_tflops=min_tflops,
        max_import=max_import,
        factor=factor,
        rounds=rounds,
        virtual=virtual,
    )
    smoke = _run(options, executable or sys.executable, matrix_file, saved)
    write(smoke, "smoke", targets, detail=detail or "normal", redact=redact)
    context.exit(exit_code(smoke.verdict))


def _baseline(path: str) -> Baseline:
    from tfgpu_doctor.cli.reading import read
    from tfgpu_doctor.cli.saved import LARGEST
    from tfgpu_doctor.files.reading import shown
    from tfgpu_doctor.records.report import ReportError
    from tfgpu_doctor.smoke import baseline

    try:
        return baseline.read(read(path, LARGEST), shown(path))
    except ReportError as error:
        raise click.UsageError(f"--baseline: {error}") from error


def _run(options: SmokeOptions, executable: str, matrix_file: str | None, baseline: Baseline | None) -> Smoke:
    from tfgpu_doctor.bench.runner.process import WorkerProcess
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.smoke.running import Smoking

    matrix = load_matrix(matrix_file)
    with bar() as progress:
        return Smoking(
            options,
            partial(_doctor, executable, matrix, 0 if options.require_gpus == 0 else None),
            lambda: WorkerProcess(executable),
            matrix,
            baseline,
            progress,
        ).run(now())


def _doctor(executable: str, matrix: Matrix, require_gpus: int | None, timeout: float) -> Report:
    """Diagnose the interpreter, with a time limit for TensorFlow; how many GPUs there are is a check of its own."""
    from tfgpu_doctor.findings.engine import make_report
    from tfgpu_doctor.probes.examine import examine

    examination = examine(executable, lambda: matrix, timeout=timeout)
    check_python(executable, examination.facts.python.version)
    return make_report(examination.facts, matrix, source="live", timings=examination.timings, require_gpus=require_gpus)
