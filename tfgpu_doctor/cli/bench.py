"""`tfgpu bench`: a workload a command, and `tfgpu bench show`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from tfgpu_doctor import commands
from tfgpu_doctor.bench.requests import MODELS, OPTIONS, SHARED
from tfgpu_doctor.bench.results import OVERVIEW, WORKLOADS
from tfgpu_doctor.cli.options import (
    HAS_TENSORFLOW,
    SUCCESSORS,
    Group,
    add_options,
    define_command,
    matrix_option,
    python_option,
    rare_option,
)
from tfgpu_doctor.cli.output import (
    NotWrittenError,
    Output,
    Results,
    check_writable,
    note,
    report_written,
    result_options,
    write,
    write_file,
)
from tfgpu_doctor.cli.progress import bar
from tfgpu_doctor.facts.facts import encode
from tfgpu_doctor.facts.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN
from tfgpu_doctor.facts.similar import similar

if TYPE_CHECKING:
    from tfgpu_doctor.bench.results import BenchResult

_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
_EXIT_CODES = """

Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs or the SavedModel cannot be used,
2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
"""


def _writable(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        check_writable(parameter.opts[0], value)
    return value


reference_option = rare_option(
    "--save-reference",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    callback=_writable,
    help="Also save the reliable speeds of one GPU as a reference for its model (see CONTRIBUTING.md).",
)
# what others call a workload
_MEANT = {network: f"cnn --model {network}" for network in MODELS}
_MEANT |= dict.fromkeys(("matmul", "gemm"), "matpow") | dict.fromkeys(("training", "keras"), "cnn")
_MEANT |= dict.fromkeys(("bandwidth", "nccl"), "transfer") | dict.fromkeys(("tf.data", "pipeline"), "input")
_MEANT |= dict.fromkeys(("serving", "latency"), "inference")


class _Workloads(Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the workload that is meant."""
        if args[0] not in self.commands and args[0] not in SUCCESSORS:
            near = similar(args[0], (*self.commands, *_MEANT), 1)
            meant = f"show {args[0]}" if args[0].endswith(".json") else "".join(_MEANT.get(one, one) for one in near)
            hint = f"Did you mean tfgpu bench {meant}?" if meant else f"Choose from {', '.join(self.commands)}."
            ctx.fail(f"No workload {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def _instead(self, name: str) -> str:
        """Name a workload that has the option."""
        having = (one for one, below in self.commands.items() if any(name in each.opts for each in below.params))
        workload = "" if any(name in each.opts for each in self.params) else next(having, "")
        return f"a workload has {name}: tfgpu bench {workload} {name} …" if workload else super()._instead(name)


@click.group(
    "bench",
    cls=_Workloads,
    invoke_without_command=True,
    params=[*OPTIONS[OVERVIEW]],
    epilog="Examples: tfgpu bench; tfgpu bench --gpus 2 --output result.json; tfgpu bench matpow --size 8192",
)
@python_option(HAS_TENSORFLOW)
@matrix_option
@reference_option
@result_options("bench", more="Show how each result was verified, its times, and the start-up.")
@click.pass_context
def command(context: click.Context, /, results: Results, **asked: Any) -> None:
    """Measure what the GPU brings: the CPU, one GPU and all GPUs, every result verified.

    Without a workload: matrix products and training steps of a CNN, in 45 seconds. With one: that workload in detail,
    with its own options behind its name.

    Exit codes: 0 measured, 1 a result was wrong, or requested GPUs cannot be used, 2 wrong usage, 3 TensorFlow could
    not be used, or the time was not enough.
    """
    if context.invoked_subcommand is None:
        _run(context, None, results, asked)
    workload = context.invoked_subcommand or ""
    for option in command.params:
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            name = (option.secondary_opts if context.params[option.name or ""] is False else option.opts)[0]
            if all(name not in (*each.opts, *each.secondary_opts) for each in command.commands[workload].params):
                raise click.UsageError(f"tfgpu bench {workload} has no {name}")
            raise click.UsageError(f"options of a workload belong behind its name: tfgpu bench {workload} {name} …")


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
    @(reference_option if name in ("matpow", "cnn") else add_options())
    @result_options("bench", more="Show the details of each run.")
    @click.pass_context
    def workload(context: click.Context, /, results: Results, **asked: Any) -> None:
        _run(context, name, results, asked)

    command.add_command(workload)


def _run(context: click.Context, workload: str | None, results: Results, asked: dict[str, Any]) -> None:
    reference = asked.pop("save_reference", None)
    given = {one: value for one, value in asked.items() if context.get_parameter_source(one) in _GIVEN}
    given["needs_gpu"] = reference is not None
    result = _measured(workload, given, results.targets, results.options)
    _save_reference(result, reference)
    failed = any(run.failure for run in result.runs)
    context.exit(EXIT_PROBLEM if failed else EXIT_UNKNOWN if result.not_run else EXIT_OK)


def _save_reference(result: BenchResult, file: str | None) -> None:
    """Save the speeds of one GPU, where that was asked for. Raises NotWrittenError: there is none to rely on."""
    from tfgpu_doctor.bench.devices import RequestError
    from tfgpu_doctor.bench.references import make_reference

    try:
        if file:
            reference, left_out = make_reference(result)
            write_file(Path(file), encode(reference))
            for why in left_out:
                note(f"left out of the reference: {why}")
            report_written(Path(file))
    except RequestError as error:
        raise NotWrittenError(str(error)) from error


for _name in WORKLOADS:
    _add(_name)


def _measured(workload: str | None, given: dict[str, Any], targets: list[Output], options: Any) -> BenchResult:
    """Measure, and show the result; after a signal, what was measured so far, which a file has as JSON all the time.

    Of what was refused, all that a job collects is written, too; the reason itself is printed on standard error.
    """
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
    except commands.TfgpuError as error:
        _write_refused(error, newest, targets, options)
        raise
    except (KeyboardInterrupt, SystemExit):  # a signal
        if _has_samples(newest):
            written = None if unwritten else file
            write(newest[0], "bench", [one for one in targets if one.path is None or one.path != written], **options)
            if written is not None:
                note(f"{written} has what was measured so far, and says that it is unfinished")
        raise
    write(result, "bench", targets, **options)
    return result


def _write_refused(
    error: commands.TfgpuError, newest: Sequence[BenchResult], targets: Sequence[Output], options: Any
) -> None:
    """Write the result that says why nothing was measured; not as text, since standard error has the reason."""
    if error.result is not None:
        refused = replace(newest[0], refused=error.result.refused) if newest else error.result
        is_whole = _has_samples([refused])
        write(refused, "bench", [one for one in targets if is_whole or one != Output("text", None)], **options)


def _has_samples(results: Sequence[BenchResult]) -> bool:
    return any(run.samples_s for result in results for run in result.runs)


# ------------------------------------------------------------------------------------------------- saved results, pages


@command.command(
    "show",
    short_help="Print a saved result, or make an HTML page from it.",
    epilog="Examples: tfgpu bench show result.json --format markdown; tfgpu bench show r.json --output r.html",
)
@click.argument("file", metavar="RESULT.json|-", type=click.Path())
@reference_option
@result_options("bench", more="Show the details of each run.")
@click.pass_context
def show(context: click.Context, file: str, results: Results, save_reference: str | None) -> None:
    """Print a result saved with --output, or make an HTML page from it; nothing is measured.

    A reference of a GPU (--save-reference) is printed, too.

    Exit codes: 0 every run is verified, 1 a run failed, 2 wrong usage or no such result, 3 the result is unfinished, or
    no reference could be saved.
    """
    from tfgpu_doctor.bench.references import Reference
    from tfgpu_doctor.render import text
    from tfgpu_doctor.render.outlines.bench import reference_page

    result = commands.load_bench(file, "tfgpu bench show")
    if isinstance(result, Reference):
        if save_reference:
            raise click.UsageError(f"{file} is a reference already")
        results.write_page(partial(encode, result), partial(text.render, reference_page(result)), "a reference")
        return
    results.write(result, "bench")
    _save_reference(result, save_reference)
    is_open = result.unfinished or result.refused or result.not_run
    context.exit(EXIT_PROBLEM if any(run.failure for run in result.runs) else EXIT_UNKNOWN if is_open else EXIT_OK)
