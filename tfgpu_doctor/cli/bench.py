"""`tfgpu bench`: a workload a command, and `tfgpu bench show`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.bench.workload_registry import WORKLOADS
from tfgpu_doctor.cli.options import (
    HAS_TENSORFLOW,
    Group,
    Listed,
    OneOf,
    Seconds,
    Size,
    add_options,
    define_command,
    is_given,
    matrix_option,
    option,
    python_option,
)
from tfgpu_doctor.cli.output import (
    NotWrittenError,
    Output,
    check_writable,
    detail_options,
    note,
    output_options,
    pair_outputs,
    redact_option,
    write,
    write_file,
)
from tfgpu_doctor.cli.progress import bar

if TYPE_CHECKING:
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.facts import Facts
    from tfgpu_doctor.records.report import Report

_EXIT_CODES = """

Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
"""

html_option = option(
    "--html",
    metavar="FILE.html",
    type=click.Path(dir_okay=False),
    hidden=True,
    help="Also write an HTML page: what --format html --output FILE.html does.",
)
_SHARED = (
    option("--gpus", metavar="N|all", help="Number of GPUs to use together.  [default: 1, if there is one]"),
    option(
        "--devices", metavar="DEVICE,...", type=Listed(), help="Use exactly these devices, for example cpu,gpu:0,gpu:1."
    ),
    option(
        "--virtual-gpus",
        metavar="N",
        type=click.IntRange(*commands.LIMITS["virtual_gpus"]),
        help="Split the first GPU (or the CPU) into N logical devices: tests multi-GPU code, not speed.",
    ),
    option(
        "--min-samples",
        metavar="N",
        type=click.IntRange(*commands.LIMITS["min_samples"]),
        default=10,
        show_default=True,
        help="Minimum number of samples per run.",
    ),
    option(
        "--deadline",
        metavar="S",
        type=Seconds(),
        default=commands.DEADLINE,
        show_default=True,
        help="Maximum time to sample each run, in seconds.",
    ),
    option(
        "--processes",
        metavar="N",
        type=click.IntRange(*commands.LIMITS["processes"]),
        default=1,
        show_default=True,
        help="Repeat each run in N consecutive processes, which share the deadline, to average out start-up effects; "
        "use 5 for results that you will compare (tfgpu compare).",
    ),
    python_option(HAS_TENSORFLOW),
    matrix_option,
    detail_options,
    output_options("bench"),
    html_option,
)


@click.group(
    "bench",
    cls=Group,
    short_help="Measure CPU, one GPU and several GPUs, and verify every result.",
    epilog="Example: tfgpu bench matpow --gpus 2 --output result.json",
)
def command() -> None:
    """Measure CPU, one GPU and several GPUs, and verify every result.

    A run is a workload on one set of devices, with one data type. It is timed repeatedly; each time is a sample.
    """


# ----------------------------------------------------------------------------------------------------------- workloads


def _model(text: str, default: str | None = "mnist") -> Callable[[Any], Any]:
    """Declare --model, a built-in network; `text` is its help."""
    return option("--model", type=OneOf(commands.MODELS), default=default, show_default=default is not None, help=text)


def _dtype(types: Iterable[str]) -> Callable[[Any], Any]:
    return option(
        "--dtype",
        type=Listed(OneOf(types)),
        default=("float32",),
        help="Data type of the computation; float32 means without TF32.  [default: float32]",
    )


_ONE_BATCH = "Images per device: more devices do more work (weak scaling)"


def _add(name: str, epilog: str, text: str, *options: Callable[[Any], Any]) -> None:
    """Add the command of a workload; `text` is its help page, `options` are its own."""

    def run(context: click.Context, /, **asked: Any) -> None:
        context.exit(_measure(context, name, asked))

    declare = define_command(
        name,
        short_help=WORKLOADS[name].summary,
        help=inspect.cleandoc(text) + ("" if "Exit codes:" in text else _EXIT_CODES),
        epilog=epilog,
        context_settings={"default_map": {"deadline": commands.DEADLINES.get(name, commands.DEADLINE)}},
    )
    command.add_command(declare(add_options((*options, *_SHARED), click.pass_context(run))))


_add(
    "matpow",
    "Examples: tfgpu bench matpow; tfgpu bench matpow --gpus all --dtype tf32 --dtype bfloat16; "
    "the classic: tfgpu bench matpow --size 10000 --power 10 --gpus 2",
    "Compute A^n and B^n on the CPU, one GPU and several GPUs; every result is verified in float64.",
    option(
        "--size",
        metavar="N,...|auto",
        type=Listed(),
        help="Rows of the square matrices. Several show how the throughput grows: 256,512,1024 or 256,...,16384 "
        "(doubling) or auto; those that do not fit into memory, or take too long for --deadline, are skipped and "
        "listed.  [default: a sample takes about a second on the slowest device; GPUs are also measured at a size that "
        "fills them]",
    ),
    option(
        "--power",
        metavar="n",
        type=click.IntRange(*commands.LIMITS["power"]),
        default=10,
        show_default=True,
        help="The n of A^n.",
    ),
    _dtype(commands.MATRIX_TYPES),
    option(
        "--spread",
        type=OneOf(["terms", "rows", "both"]),
        default="both",
        show_default=True,
        help="How to distribute the work over several devices: terms computes one power per device (weak scaling "
        "beyond two), rows a share of the rows of both powers per device (strong scaling).",
    ),
)
_add(
    "cnn",
    "Examples: tfgpu bench cnn; tfgpu bench cnn --model resnet50 --gpus all --dtype mixed_bfloat16; "
    "tfgpu bench cnn --model resnet50 --batch-size auto; strong scaling: tfgpu bench cnn --gpus 4 --global-batch-size "
    "1024. Several machines: the same command on each, under TF_CONFIG or srun (docs/several-machines.md).",
    """Train an image classifier on the CPU, one GPU and several GPUs; images per second, compared with model.fit.

    The loss must be finite and fall. One device is compared with a training in float64. Several devices are compared
    with one device that computes all of their batches; their weights must stay identical.

    Under TF_CONFIG or srun, several machines train together; the first of them prints the report.""",
    _model("mnist: three convolutions, 28×28; cifar: ResNet-20, 32×32; resnet50: ResNet-50, 224×224."),
    option(
        "--batch-size",
        metavar="N|auto",
        type=Size(2, 1048576, auto=True),
        help=f"{_ONE_BATCH}; auto: the largest that fits into memory, within an eighth.  "
        "[default: mnist 256, cifar 128, resnet50 32]",
    ),
    option(
        "--global-batch-size",
        metavar="N",
        type=Size(2, 1048576),
        help="Images of all devices together: more devices share the same work (strong scaling).",
    ),
    _dtype(commands.NETWORK_TYPES),
    option("--xla", is_flag=True, help="Compile forward and backward pass with XLA, in every run."),
    option(
        "--collectives",
        type=OneOf(["nccl", "ring"]),
        help="Several machines: sum the gradients of GPUs with NCCL or with TensorFlow's ring over gRPC.  "
        "[default: nccl]",
    ),
    option(
        "--join-timeout",
        metavar="S",
        type=Seconds(1),
        default=120.0,
        show_default=True,
        help="Several machines: maximum time to wait for all of them, in seconds.",
    ),
)
_add(
    "transfer",
    "Examples: tfgpu bench transfer; tfgpu bench transfer --gpus all --size 1MiB,64MiB,1GiB",
    """Transfer data between host and GPUs and between GPUs, and all-reduce over all GPUs; every result is verified.

    Measures host to device and back with pageable and with pinned memory, each pair of GPUs in both directions, and an
    all-reduce over all GPUs (bus bandwidth). On the CPU alone: a copy within the host's memory.""",
    option(
        "--size",
        metavar="SIZE,...",
        type=Listed(Size(2**10, 2**36, multiple=4)),
        help="Sizes to transfer, for example 4KiB,16MiB,1GiB.  [default: those of 1MiB,16MiB,256MiB that fit into "
        "memory]",
    ),
)
_add(
    "inference",
    "Examples: tfgpu bench inference --model resnet50 --dtype float32 --dtype mixed_float16; "
    "tfgpu bench inference --saved-model ./model --batch-size 1,16",
    """Call a SavedModel the way a server does: latency percentiles and throughput for each batch size.

    Inputs are on the host, results are fetched, one call after the other. Every result is compared with that of the
    CPU. A 99th percentile needs 368 samples; the batch sizes share --deadline.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, the SavedModel cannot be used, or requested GPUs
    are missing, 2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.""",
    _model("A built-in network, exported as a SavedModel.  [default: mnist]", None),
    option(
        "--saved-model",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help="Your own SavedModel; its signature defines the inputs.",
    ),
    option(
        "--signature",
        metavar="NAME",
        help="Signature of --saved-model to call.  [default: serving_default, or the only one]",
    ),
    option(
        "--shape",
        metavar="[INPUT=]N,N,…",
        multiple=True,
        help="Shape of one item of an input of --saved-model whose signature has unknown dimensions: 224,224,3.",
    ),
    option(
        "--batch-size",
        metavar="N,...",
        type=Listed(Size(1, 65536)),
        default=(1, 8, 32, 128),
        help="Items per call.  [default: 1,8,32,128]",
    ),
    _dtype(commands.NETWORK_TYPES),
    option("--xla", is_flag=True, help="Compile the signature with XLA, on every device."),
)
_add(
    "input",
    "Examples: tfgpu bench input --model resnet50; tfgpu bench input --dataset photos/ --images 2000 --gpus 2",
    """Is training input-bound, by how much, and which tf.data option helps?

    Measures images per second of the pipeline with each option, of training with its data on the device, and of
    training fed by a pipeline; every image is verified.""",
    _model("The network to train; images are resized to its input."),
    option("--batch-size", metavar="N", type=Size(1, 1048576), help="Images per device.  [default: the network's]"),
    option(
        "--dtype",
        type=OneOf(commands.NETWORK_TYPES),
        default="float32",
        show_default=True,
        help="Data type of the training.",
    ),
    option(
        "--dataset",
        metavar="DIR|synthetic",
        type=click.Path(),
        default="synthetic",
        show_default=True,
        help="Your own folder of .jpg, .jpeg, .png or .bmp files, subfolders included; or generated images.",
    ),
    option(
        "--images",
        metavar="N",
        type=Size(16, 1_000_000),
        default=512,
        show_default=True,
        help="Number of images per epoch.",
    ),
)
_add(
    "gan",
    "Examples: tfgpu bench gan; tfgpu bench gan --gpus all --dtype mixed_bfloat16",
    """Train the DCGAN of TensorFlow's tutorial: generator and discriminator, a step of both.

    Every loss must be finite. The gradients of the first steps are compared with a training in float64; several
    devices are compared with one that computes all of their batches.""",
    option(
        "--batch-size",
        metavar="N",
        type=Size(2, 1048576),
        default=128,
        show_default=True,
        help=f"{_ONE_BATCH}.",
    ),
    _dtype(commands.NETWORK_TYPES),
)


# ----------------------------------------------------------------------------------------------------------- measuring


def _measure(context: click.Context, workload: str, asked: dict[str, Any]) -> int:
    """Measure, show the result, and return the exit code."""
    formats, outputs, html, detail = (asked.pop(name) for name in ("formats", "outputs", "html", "detail"))
    given = {name: value for name, value in asked.items() if is_given(context, name)}
    if "min_samples" not in given:
        del asked["min_samples"]  # it is up to the workload
    targets = _with_html(pair_outputs(formats, outputs, "bench"), html)
    if not formats and all(target.path is not None for target in targets):
        targets = [Output("text", None), *targets]
    kept = _Kept(next((target.path for target in targets if target.format == "json" and target.path), None))
    options: dict[str, Any] = {"diagnose": diagnosis(asked["matrix"]), "detail": detail or "normal"}
    try:
        with bar(is_quiet=detail == "least") as progress:
            result = commands.bench(
                workload,
                progress=progress,
                note=progress.announce,
                save=kept.save,
                typed=commands.as_typed(("bench", workload), given),
                **asked,
            )
    except (KeyboardInterrupt, SystemExit):  # a signal
        kept.show(targets, options)
        raise
    write(result, "bench", targets, **options)
    return exit_code(result)


class _Kept:
    """The measurements so far, so that a signal loses nothing."""

    def __init__(self, file: Path | None) -> None:
        """Keep nothing yet; `file` is to have it as JSON all the time."""
        self._file = file
        self._result: BenchResult | None = None
        self._failed = False  # True if the file could not be written

    def save(self, result: BenchResult) -> None:
        """Keep the result so far; where the file cannot be written, the measurement goes on."""
        self._result = result
        if self._file is None:
            return
        try:
            write_file(self._file, self._result.to_json())
            self._failed = False
        except NotWrittenError as error:
            if not self._failed:
                note(f"{error.message}; the measurement goes on")
            self._failed = True

    def show(self, targets: list[Output], options: dict[str, Any]) -> None:
        """Write it to every target that does not have it, and say where it is."""
        if self._result is None or not any(run.samples_s for run in self._result.runs):
            return
        written = None if self._failed else self._file
        missing = [target for target in targets if target.path is None or target.path != written]
        write(self._result, "bench", missing, **options)
        if written is not None:
            note(f"{written} has what was measured so far, and says that it is unfinished")


def exit_code(result: BenchResult) -> int:
    """Return the exit code of a measurement."""
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN

    if any(run.failure for run in result.runs):
        return EXIT_PROBLEM
    return EXIT_UNKNOWN if result.not_run else EXIT_OK


# ------------------------------------------------------------------------------------------------- saved results, pages


@command.command(
    "show",
    short_help="Print a saved result, or make an HTML page from it.",
    epilog="Examples: tfgpu bench show result.json --format markdown; tfgpu bench show r.json --output r.html",
)
@click.argument("file", metavar="RESULT.json|-", type=click.Path())
@matrix_option
@redact_option
@detail_options
@output_options("bench")
@html_option
@click.pass_context
def show(
    context: click.Context,
    file: str,
    matrix: str | None,
    redact: bool | None,
    detail: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    html: str | None,
) -> None:
    """Print a result saved with --output, or make an HTML page with charts of it; nothing is measured.

    Exit codes: 0 every run is verified, 1 a run failed, 2 wrong usage or no such result.
    """
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM

    targets = _with_html(pair_outputs(formats, outputs, "bench") if formats or outputs or not html else [], html)
    result = commands.load_bench(file, "tfgpu bench show")
    write(result, "bench", targets, redact=redact, diagnose=diagnosis(matrix), detail=detail or "normal")
    context.exit(EXIT_PROBLEM if any(run.failure for run in result.runs) else EXIT_OK)


def _with_html(targets: list[Output], name: str | None) -> list[Output]:
    """Return these targets and the file of --html; refuse what could not be written after minutes of measuring.

    Raises click.UsageError: no such folder, or no permission.
    """
    if name == "-":
        raise click.UsageError("--html needs a file name; standard output gets the text")
    if name:
        check_writable("--html", name)
        targets = [*targets, Output("html", Path(name))]
    return targets


def diagnosis(matrix: str | None) -> Callable[[Facts], Report]:
    """Return what gives the doctor's verdict over the facts that a result carries, which its page shows."""

    def diagnose(facts: Facts) -> Report:
        from tfgpu_doctor.findings.engine import make_report

        return make_report(facts, commands.load_matrix(matrix), source="live", timings={})

    return diagnose
