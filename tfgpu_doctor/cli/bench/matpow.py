"""`tfgpu bench`: options, one measurement, render, exit code."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.output import write_atomically

if TYPE_CHECKING:
    from tfgpu_doctor.bench.matpow import Settings
    from tfgpu_doctor.bench.results import BenchResult

DTYPES = ("float32", "tf32", "float16", "bfloat16", "float64")


@click.group(
    "bench",
    short_help="Measure CPU, one GPU and several GPUs, and verify every result.",
    epilog="Example: tfgpu bench matpow --gpus 2 --output result.json",
)
def command() -> None:
    """Measure CPU, one GPU and several GPUs, and verify every result."""


@command.command(
    "matpow",
    epilog="Examples: tfgpu bench matpow; tfgpu bench matpow --gpus all --dtype tf32 --dtype bfloat16; "
    "the classic: tfgpu bench matpow --size 10000 --power 10 --gpus 2",
)
@click.option(
    "--size",
    metavar="N",
    type=click.IntRange(min=16, max=131072),
    help="Rows of the square matrices.  [default: about two seconds a sample on the slowest device]",
)
@click.option("--power", metavar="n", type=click.IntRange(min=2, max=1000), default=10, show_default=True, help="A^n.")
@click.option(
    "--dtype",
    "dtypes",
    type=click.Choice(DTYPES),
    multiple=True,
    default=("float32",),
    help="Type of the arithmetic; may be repeated. float32 is without TF32.  [default: float32]",
)
@click.option("--gpus", metavar="N|all", help="How many GPUs to use together.  [default: 1, where there is one]")
@click.option("--devices", metavar="LIST", help="Exactly these: cpu,gpu:0,gpu:1.")
@click.option(
    "--virtual-gpus",
    "virtual",
    metavar="N",
    type=click.IntRange(min=2, max=16),
    help="Split the first GPU (or the CPU) into N logical devices: proves function, not speed.",
)
@click.option(
    "--spread",
    type=click.Choice(["terms", "rows", "both"]),
    default="both",
    show_default=True,
    help="Over several devices: terms is a power each (more GPUs than two get more work), rows is a share of the rows "
    "of both powers each (the same work).",
)
@click.option(
    "--min-samples", type=click.IntRange(min=3, max=1000), default=10, show_default=True, help="Of each case."
)
@click.option(
    "--deadline",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="Seconds of sampling for each case.",
)
@click.option("--python", "executable", metavar="EXE", help="Interpreter with TensorFlow.  [default: this one]")
@matrix_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--output",
    metavar="FILE.json",
    type=click.Path(dir_okay=False),
    help="Also write the result here, after every round.",
)
@click.pass_context
def matpow(
    context: click.Context,
    size: int | None,
    power: int,
    dtypes: tuple[str, ...],
    gpus: str | None,
    devices: str | None,
    virtual: int | None,
    spread: str,
    min_samples: int,
    deadline: float,
    executable: str | None,
    matrix_file: str | None,
    form: str,
    output: str | None,
) -> None:
    """Compute A^n and B^n on the CPU, one GPU and several GPUs; every result is verified in float64.

    Exit codes: 0 measured, 1 a result was wrong, a case failed, or GPUs that were asked for are not there,
    2 wrong usage, 3 TensorFlow could not be used.
    """
    from tfgpu_doctor.bench.devices import SPREADS, DeviceSyntaxError, parse_devices, parse_gpus
    from tfgpu_doctor.bench.matpow import Settings
    from tfgpu_doctor.bench.sizing import too_high_a_power
    from tfgpu_doctor.bench.statistics import StoppingRule

    if devices is not None and (gpus is not None or virtual):
        raise click.UsageError("--devices names the devices; --gpus and --virtual-gpus count them: use one of the two")
    if gpus is not None and virtual:
        raise click.UsageError("--gpus counts physical GPUs, --virtual-gpus logical ones: use one of the two")
    if too_high := too_high_a_power(power, dtypes):
        raise click.UsageError(too_high)
    if output == "-":
        raise click.UsageError("--output names a file, which is written after every round; --format json prints")
    if executable and not shutil.which(executable):
        raise click.UsageError(f"--python {executable}: no such program, or not executable")
    try:
        settings = Settings(
            executable=executable or sys.executable,
            size=size,
            power=power,
            dtypes=tuple(dict.fromkeys(dtypes)),
            gpus=parse_gpus(gpus) if gpus is not None else 1,
            explicit=gpus is not None,
            devices=parse_devices(devices) if devices is not None else None,
            virtual=virtual,
            spreads=SPREADS if spread == "both" else (spread,),
            rule=StoppingRule(min_samples=min_samples, deadline=deadline),
        )
    except DeviceSyntaxError as error:
        raise click.UsageError(str(error)) from error
    context.exit(_measure(settings, matrix_file, form, output))


def _measure(settings: Settings, matrix_file: str | None, form: str, output: str | None) -> int:
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.matpow import Bench, NoTensorFlowError
    from tfgpu_doctor.bench.runner_process import WorkerError, WorkerProcess
    from tfgpu_doctor.bench.sizing import TooLargeError
    from tfgpu_doctor.cli.output import pair_outputs
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.examine import examine
    from tfgpu_doctor.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN

    file = pair_outputs(("json",), (output,))[0].path if output else None
    matrix = load_matrix(matrix_file)

    def save(result: BenchResult) -> None:
        if file is not None:
            write_atomically(file, result.to_json())

    with bar() as progress:
        progress("examining this machine", 0.0)
        environment = examine(settings.executable, lambda: matrix, import_tensorflow=False).facts
        try:
            result = Bench(
                settings,
                matrix,
                environment,
                lambda: WorkerProcess(settings.executable),
                progress=progress,
                save=save,
            ).run()
        except (DeviceError, TooLargeError) as error:
            click.echo(f"tfgpu: {error}", err=True)
            return EXIT_PROBLEM
        except (NoTensorFlowError, WorkerError) as error:
            click.echo(f"tfgpu: cannot measure with {settings.executable}: {error}", err=True)
            click.echo(f"Next: tfgpu doctor --python {settings.executable}", err=True)
            return EXIT_UNKNOWN
    _print(result, form)
    return EXIT_PROBLEM if any(run.failure for run in result.runs) else EXIT_OK


def _print(result: BenchResult, form: str) -> None:
    if form == "json":
        sys.stdout.buffer.write(result.to_json())
        sys.stdout.buffer.flush()
        return
    from tfgpu_doctor.render.bench_text import render
    from tfgpu_doctor.render.console import console_for

    render(result, console_for())
