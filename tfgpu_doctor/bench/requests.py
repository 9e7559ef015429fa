"""What can be asked of each workload: its options, for the command line and the Python API, and the plan they make."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.bench.devices import DeviceError, RequestError, Selection, parse_devices, parse_gpus
from tfgpu_doctor.bench.results import OVERVIEW
from tfgpu_doctor.facts.parameters import Listed, Option, Seconds, Size, Word

if TYPE_CHECKING:
    from tfgpu_doctor.bench.cluster import Cluster, Watch
    from tfgpu_doctor.bench.plans.base import PlanBase
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.bench.runner.process import Worker
    from tfgpu_doctor.facts.facts import Facts
    from tfgpu_doctor.matrix.loader import Matrix


_DEADLINES = {"inference": 60.0, "input": 8.0, "transfer": 3.0}  # for all batch sizes; for each of many runs
MATRIX_TYPES = ("float32", "tf32", "float16", "bfloat16", "float64")
NETWORK_TYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
MODELS = ("mnist", "cifar", "resnet50")  # those of bench/workloads/models.py


@dataclass(frozen=True)
class Request:
    """The options of one measurement, with their defaults."""

    workload: str
    executable: str
    options: Mapping[str, Any]
    selection: Selection
    typed: str  # the command line that asks for it

    @property
    def deadline(self) -> float:
        """The maximum time to sample each run, in seconds."""
        return self.options["deadline"] or _DEADLINES.get(self.workload, 20.0)


# ------------------------------------------------------------------------------------------------------------ options


def _option(name: str, kind: Any, text: str, default: Any = None, **more: Any) -> Option:
    """Declare an option; what stands for its value in the help is behind its name: "--size N"."""
    name, _, metavar = name.partition(" ")
    more |= {"default": default, "show_default": default is not None, "metavar": metavar or None}
    return Option([name], type=kind, help=text, **more)


_rare = partial(_option, rare=True)


def _dtype(types: Iterable[str], **more: Any) -> Option:
    text = "Data type of the computation; float32 means without TF32.  [default: float32]"
    return _option("--dtype", Listed(Word(types)), text, **more)


_ONE_BATCH = "Images per device: more devices do more work (weak scaling)"
_NETWORK = "mnist: three convolutions, 28×28; cifar: ResNet-20, 32×32; resnet50: ResNet-50, 224×224."
SHARED = (
    _option("--gpus N|all", None, "Number of GPUs to use together.  [default: 1, if there is one]"),
    _rare("--devices DEVICE,...", Listed(), "Use exactly these devices, for example cpu,gpu:0,gpu:1."),
    _rare(
        "--virtual-gpus N", click.IntRange(2, 16), "N logical devices on one GPU (or the CPU): no speed is reported."
    ),
    _rare("--min-samples N", click.IntRange(3, 1000), "Samples per run, at least.  [default: 10; inference: 368]"),
    _rare("--deadline S", Seconds(), "Seconds per run, at most.  [default: 20; inference: 60, input: 8, transfer: 3]"),
    _rare(
        "--processes N",
        click.IntRange(1, 100),
        "Repeat each run in N consecutive processes, which share the deadline, to average out start-up effects; "
        "use 5 for results that you will compare (tfgpu compare).",
        1,
    ),
)
OPTIONS: dict[str, tuple[Option, ...]] = {
    "matpow": (
        _option(
            "--size N,...|auto",
            Listed(Size(16, 131072, auto=True)),
            "Rows of the square matrices. Several show how the throughput grows: 256,512,1024 or auto; those that do "
            "not fit into memory, or take too long for --deadline, are skipped and listed.  [default: a sample takes "
            "about a second on the slowest device; GPUs are also measured at a size that fills them]",
        ),
        _rare("--power n", click.IntRange(2, 1000), "The n of A^n.", 10),
        _dtype(MATRIX_TYPES),
    ),
    "cnn": (
        _option("--model", Word(MODELS), _NETWORK, "mnist"),
        _option(
            "--batch-size N|auto",
            Size(2, 2**20, auto=True),
            f"{_ONE_BATCH}; auto: the largest that fits into memory.  [default: mnist 256, cifar 128, resnet50 32]",
        ),
        _rare("--global-batch-size N", Size(2, 2**20), "Images of all devices together (strong scaling)."),
        _dtype(NETWORK_TYPES),
        Option(["--xla"], is_flag=True, rare=True, help="Compile forward and backward pass with XLA, in every run."),
        _rare("--join-timeout S", Seconds(1), "Several machines: seconds to wait for all of them, at most.", 120.0),
    ),
    "transfer": (
        _option(
            "--size SIZE,...",
            Listed(Size(2**10, 2**36, multiple=4)),
            "Sizes, such as 4KiB,1GiB.  [default: those of 1MiB,16MiB,256MiB that fit into memory]",
        ),
    ),
    "inference": (
        _option("--model", Word(MODELS), "A built-in network, exported as a SavedModel.  [default: mnist]"),
        _option("--saved-model DIR", click.Path(exists=True, file_okay=False), "Your own SavedModel."),
        _rare("--signature NAME", None, "Signature of --saved-model.  [default: serving_default, or the only one]"),
        _rare(
            "--shape [INPUT=]N,N,…",
            None,
            "Shape of one item of an input of --saved-model whose signature has unknown dimensions: 224,224,3.",
            multiple=True,
        ),
        _option("--batch-size N,...", Listed(Size(1, 65536)), "Items per call.  [default: 1,8,32,128]"),
        _dtype(NETWORK_TYPES, rare=True),
        Option(["--xla"], is_flag=True, rare=True, help="Compile the signature with XLA, on every device."),
    ),
    "input": (
        _option("--model", Word(MODELS), "The network to train; images are resized to its input.", "mnist"),
        _option("--batch-size N", Size(1, 2**20), "Images per device.  [default: the network's]"),
        _rare("--dtype", Word(NETWORK_TYPES), "Data type of the training.", "float32"),
        _option(
            "--dataset DIR|synthetic", click.Path(), "Folder of JPEG, PNG or BMP files, or synthetic.", "synthetic"
        ),
        _rare("--images N", Size(16, 1_000_000), "Number of images per epoch.", 512),
    ),
    "gan": (_option("--batch-size N", Size(2, 2**20), f"{_ONE_BATCH}.", 128), _dtype(NETWORK_TYPES)),
    OVERVIEW: (
        _option(
            "--gpus N|all", None, "Number of GPUs to use together; all: there must be one.  [default: all there are]"
        ),
    ),
}


def _words(given: Mapping[str, Any]) -> list[str]:
    """Return these options as they are typed, those without a value left out."""
    words: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False and value not in ((), []):
            values = value if isinstance(value, (tuple, list)) else (value,)
            texts = [str(one).removesuffix(".0") if isinstance(one, float) else str(one) for one in values]
            for text in texts if name == "shape" else [",".join(texts)]:  # a shape has commas itself
                words += [option, text]
    return words


def read_request(workload: str, executable: str, given: Mapping[str, Any], more: Mapping[str, Any]) -> Request:
    """Read the options of a workload, as the command line reads them.

    Args:
        given: the options, as values or as they are typed.
        more: what else stands in the command line of the result.

    Raises RequestError: there is no such workload or option, or a value is wrong.
    """
    if workload not in OPTIONS:
        raise RequestError(f"no workload {workload!r}: choose from {', '.join(OPTIONS)}")
    params = {one.name: one for one in (*SHARED, *OPTIONS[workload])}
    command = click.Command(workload, params=list(params.values()), add_help_option=False)
    try:
        options = command.make_context(workload, _words(given)).params
    except click.UsageError as error:
        raise RequestError(error.format_message()) from error
    named = [] if workload == OVERVIEW else [workload]
    typed = shlex.join(["tfgpu", "bench", *named, *_words({**given, **more})])
    alone = "--devices cpu" if named else shlex.join(["tfgpu", "bench", "matpow", *_words(more), "--devices", "cpu"])
    return Request(workload, executable, options, _selection(options, 1 if named else None, alone), typed)


def _selection(options: Mapping[str, Any], usual: int | None, alone: str) -> Selection:
    gpus, devices, virtual = (options[name] for name in ("gpus", "devices", "virtual_gpus"))
    if devices and (gpus is not None or virtual):
        raise RequestError("--devices cannot be combined with --gpus or --virtual-gpus")
    if gpus is not None and virtual:
        raise RequestError("--gpus (physical GPUs) cannot be combined with --virtual-gpus (logical ones)")
    return Selection(
        gpus=usual if gpus is None else parse_gpus(gpus, alone),
        explicit=gpus is not None,
        devices=parse_devices(devices) if devices else None,
        virtual=virtual,
    )


# -------------------------------------------------------------------------------------------------------------- plans


# where the class of a plan stands in bench/plans/
_PLANS = {
    "matpow": "matpow:MatPow",
    "cnn": "training:Cnn",
    "gan": "training:Gan",
    "transfer": "transfer:Transfer",
    "inference": "inference:Inference",
    "input": "input:Input",
    OVERVIEW: "overview:Overview",
}


def make_plan(request: Request) -> PlanBase:
    """Make the plan of a workload. Raises RequestError: options exclude one another, or cannot be measured."""
    module, _, name = _PLANS[request.workload].partition(":")
    plan: Any = getattr(import_module(f"tfgpu_doctor.bench.plans.{module}"), name)
    dtypes = request.options.get("dtype") or ("float32",)
    common = {"selection": request.selection, "dtypes": (dtypes,) if isinstance(dtypes, str) else dtypes}
    more = {"cluster": _cluster(request)} if request.workload == "cnn" else {}
    made: PlanBase = plan.read(request.options, **common, **more)
    return made


def _cluster(request: Request) -> Cluster | None:
    """Find the cluster that TF_CONFIG or Slurm describes; None where there is none."""
    from tfgpu_doctor.bench.cluster import parse, under_slurm

    text = os.environ.get("TF_CONFIG", "")
    if not text and under_slurm(os.environ):
        text = _slurm_config(request.executable)
    cluster = parse(text) if text else None
    selection = request.selection
    if cluster and (selection.devices or selection.virtual or request.options["processes"] > 1):
        raise RequestError(
            "--devices, --virtual-gpus and --processes need a single machine; TF_CONFIG or Slurm lists "
            f"{cluster.count} workers"
        )
    return cluster


def _slurm_config(executable: str) -> str:
    """Ask TensorFlow's own resolver who takes part. Raises WorkerError: it does not answer."""
    from tfgpu_doctor.bench.cluster import config
    from tfgpu_doctor.bench.runner.process import START, WorkerError, WorkerProcess, hello

    try:
        with WorkerProcess(executable) as worker:
            hello(worker)
            found = worker.ask(START, do="reference", workload="machines", task="slurm")
    except WorkerError as error:
        raise WorkerError(f"cannot read the list of workers from Slurm: {error}") from error
    return config(found["cluster"], found["index"])


# ---------------------------------------------------------------------------------------------------------- measuring


def measure(
    request: Request,
    plan: PlanBase,
    matrix: Matrix,
    environment: Facts,
    *,
    progress: Callable[[str, float], None],
    note: Callable[[str], None],
    save: Callable[[BenchResult], None],
) -> BenchResult:
    """Measure; of several machines, lead them. Raises what Session.run raises."""
    from tfgpu_doctor.bench.plans.overview import in_time
    from tfgpu_doctor.bench.runner.runner import Session
    from tfgpu_doctor.bench.statistics import StoppingRule

    start, _ = _workers(request, getattr(plan, "cluster", None), request.options.get("join_timeout", 0.0))
    session = Session(
        plan,
        matrix,
        environment,
        start,
        rule=StoppingRule(min_samples=request.options["min_samples"] or 10, deadline=request.deadline),
        processes=request.options["processes"],
        progress=progress,
        announce=note,
        save=save,
        command=request.typed,
        shared=request.workload == OVERVIEW,
    )
    return in_time(session) if session.shared else session.run()


def _workers(request: Request, cluster: Cluster | None, patience: float) -> tuple[Callable[[], Worker], Watch | None]:
    """Return what starts a worker, and the watch over the other machines where there are some."""
    from tfgpu_doctor.bench.cluster import Watch
    from tfgpu_doctor.bench.runner.process import WorkerProcess

    if cluster is None:
        return lambda: WorkerProcess(request.executable), None
    os.environ["TF_CONFIG"] = cluster.config  # for the processes
    watch = Watch(cluster, patience)
    return lambda: watch.over(WorkerProcess(request.executable)), watch


def take_part(request: Request, plan: Any, progress: Callable[[str, float], None]) -> str | None:
    """Do the part of this machine in a training that another one leads; return what is to be said of it.

    None: no other machine leads. Raises PartError: a machine is gone, or this one's part failed.
    """
    from tfgpu_doctor.bench.cluster import follow
    from tfgpu_doctor.bench.plans.base import PartError
    from tfgpu_doctor.bench.runner.process import START, WorkerError

    cluster: Cluster | None = getattr(plan, "cluster", None)
    if cluster is None or cluster.index == 0:
        return None
    patience, most = request.options["join_timeout"], 3 * request.deadline
    # of several types, the first machine may still measure itself alone in the one before
    start, watch = _workers(request, cluster, patience if len(plan.dtypes) == 1 else patience + most)
    me = f"worker {cluster.index} of {cluster.count}"
    try:
        follow(plan.part, start, patience=START + most, progress=progress)
    except (DeviceError, WorkerError) as error:
        raise PartError(f"{me}: {error}") from error
    finally:
        if watch:
            watch.disarm()
    return f"{me} is done; {cluster.name(0)} prints the report"
