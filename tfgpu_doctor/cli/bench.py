"""`tfgpu bench`: a workload a command, and `tfgpu bench show`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tfgpu_doctor import commands
from tfgpu_doctor.bench.requests import OPTIONS, SHARED
from tfgpu_doctor.bench.results import WORKLOADS
from tfgpu_doctor.cli.options import HAS_TENSORFLOW, Group, define_command, matrix_option, python_option
from tfgpu_doctor.cli.output import NotWrittenError, Output, Results, note, result_options, write, write_file
from tfgpu_doctor.cli.progress import bar
from tfgpu_doctor.facts.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN

if TYPE_CHECKING:
    from tfgpu_doctor.bench.results import BenchResult

_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
_EXIT_CODES = """

Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs or the SavedModel cannot be used,
2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
"""


@click.group("bench", cls=Group, epilog="Example: tfgpu bench matpow --gpus 2 --output result.json")
def command() -> None:
    """Measure CPU, one GPU and several GPUs, and verify every result.

    A run is a workload on one set of devices, with one data type. It is timed repeatedly; each time is a sample.
    """


# ----------------------------------------------------------------------------------------------------------- workloads

# name → examples, help page
_PAGES = {
    "matpow": (
        "Examples: tfgpu bench matpow; tfgpu bench matpow --gpus all --dtype tf32 --dtype bfloat16; "
        "the classic: tfgpu bench matpow --size 10000 --power 10 --gpus 2",
        "Compute A^n and B^n on the CPU, one GPU and several GPUs; every result is verified in float64.",
    ),
    "cnn": (
        "Examples: tfgpu bench cnn --model resnet50 --gpus all --dtype mixed_bfloat16; tfgpu bench cnn --batch-size "
        "auto; tfgpu bench cnn --gpus 4 --global-batch-size 1024",
        """Train an image classifier on the CPU, one GPU and several GPUs; images per second.

        The loss must be finite and fall. One device is compared with a training in float64. Several devices are
        compared with one device that computes all of their batches; their weights must stay identical.

        Under TF_CONFIG or srun, several machines train together, if each runs the same command; the first of them
        prints the report (docs/several-machines.md).""",
    ),
    "transfer": (
        "Examples: tfgpu bench transfer; tfgpu bench transfer --gpus all --size 1MiB,64MiB,1GiB",
        """Transfer data between host and GPUs and between GPUs, and all-reduce over all GPUs; every result is verified.

        Measures host to device and back with pageable and with pinned memory, each pair of GPUs in both directions, and
        an all-reduce over all GPUs (bus bandwidth). On the CPU alone: a copy within the host's memory.""",
    ),
    "inference": (
        "Examples: tfgpu bench inference --model resnet50 --dtype float32 --dtype mixed_float16; "
        "tfgpu bench inference --saved-model ./model --batch-size 1,16",
        """Call a SavedModel the way a server does: latency percentiles and throughput for each batch size.

        Inputs are on the host, results are fetched, one call after the other. Every result is compared with that of the
        CPU. A 99th percentile needs 368 samples; the batch sizes share --deadline.""",
    ),
    "input": (
        "Examples: tfgpu bench input --model resnet50; tfgpu bench input --dataset photos/ --images 2000 --gpus 2",
        """Is training input-bound, by how much, and which tf.data option helps?

        Measures images per second of the pipeline with each option, of training with its data on the device, and of
        training fed by a pipeline; every image is verified.""",
    ),
    "gan": (
        "Examples: tfgpu bench gan; tfgpu bench gan --gpus all --dtype mixed_bfloat16",
        """Train the DCGAN of TensorFlow's tutorial: generator and discriminator, a step of both.

        Every loss must be finite. The gradients of the first steps are compared with a training in float64; several
        devices are compared with one that computes all of their batches.""",
    ),
}


def _add(name: str) -> None:
    """Add the command of a workload."""
    epilog, page = _PAGES[name]

    @define_command(
        name,
        params=[*OPTIONS[name], *SHARED],
        short_help=WORKLOADS[name].summary,
        help=inspect.cleandoc(page) + _EXIT_CODES,
        epilog=epilog,
    )
    @python_option(HAS_TENSORFLOW)
    @matrix_option
    @result_options("bench", more="Show the details of each run.")
    @click.pass_context
    def workload(context: click.Context, /, results: Results, matrix: str | None, **asked: Any) -> None:
        given = {one: value for one, value in asked.items() if context.get_parameter_source(one) in _GIVEN}
        result = _measured(name, {**given, "matrix": matrix}, results.targets, results.options)
        failed = any(run.failure for run in result.runs)
        context.exit(EXIT_PROBLEM if failed else EXIT_UNKNOWN if result.not_run else EXIT_OK)

    command.add_command(workload)


for _name in WORKLOADS:
    _add(_name)


def _measured(workload: str, given: dict[str, Any], targets: list[Output], options: dict[str, Any]) -> BenchResult:
    """Measure, and show the result; after a signal, what was measured so far, which a file has as JSON all the time."""
    file = next((target.path for target in targets if target.format == "json" and target.path), None)
    newest: list[BenchResult] = []
    unwritten: list[str] = []  # why the file could not be written; the measurement goes on

    def save(result: BenchResult) -> None:
        newest[:] = [result]
        try:
            if file is not None:
                write_file(file, result.to_json())
                unwritten.clear()
        except NotWrittenError as error:
            if not unwritten:
                note(f"{error.message}; the measurement goes on")
            unwritten[:] = [error.message]

    try:
        with bar() as progress:
            result = commands.bench(workload, progress=progress, note=progress.announce, save=save, **given)
    except (KeyboardInterrupt, SystemExit):  # a signal
        if newest and any(run.samples_s for run in newest[0].runs):
            written = None if unwritten else file
            write(newest[0], "bench", [one for one in targets if one.path is None or one.path != written], **options)
            if written is not None:
                note(f"{written} has what was measured so far, and says that it is unfinished")
        raise
    write(result, "bench", targets, **options)
    return result


# ------------------------------------------------------------------------------------------------- saved results, pages


@command.command(
    "show",
    short_help="Print a saved result, or make an HTML page from it.",
    epilog="Examples: tfgpu bench show result.json --format markdown; tfgpu bench show r.json --output r.html",
)
@click.argument("file", metavar="RESULT.json|-", type=click.Path())
@result_options("bench", more="Show the details of each run.")
@click.pass_context
def show(context: click.Context, file: str, results: Results) -> None:
    """Print a result saved with --output, or make an HTML page with a chart of it; nothing is measured.

    Exit codes: 0 every run is verified, 1 a run failed, 2 wrong usage or no such result.
    """
    result = commands.load_bench(file, "tfgpu bench show")
    results.write(result, "bench")
    context.exit(EXIT_PROBLEM if any(run.failure for run in result.runs) else EXIT_OK)
