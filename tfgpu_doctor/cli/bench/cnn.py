"""`tfgpu bench cnn`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.choices import TRAINING, dtypes_option, model_option
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.values import OneOf, Seconds, Size


@define_command(
    "cnn",
    epilog="Examples: tfgpu bench cnn; tfgpu bench cnn --model resnet50 --gpus all --dtype mixed_bfloat16; "
    "tfgpu bench cnn --model resnet50 --batch-size auto; strong scaling: tfgpu bench cnn --gpus 4 --global-batch-size "
    "1024. Several machines: the same command on each, under TF_CONFIG or srun (docs/several-machines.md).",
)
@model_option("mnist: three convolutions, 28×28; cifar: ResNet-20, 32×32; resnet50: ResNet-50, 224×224.")
@option(
    "--batch-size",
    "batch",
    metavar="N|auto",
    type=Size(2, 1048576, auto=True),
    help="Images per device: more devices do more work (weak scaling); auto: the largest that fits into memory, within "
    "an eighth.  [default: mnist 256, cifar 128, resnet50 32]",
)
@option(
    "--global-batch-size",
    "global_batch",
    metavar="N",
    type=Size(2, 1048576),
    help="Images of all devices together: more devices share the same work (strong scaling).",
)
@dtypes_option(TRAINING)
@option("--xla", is_flag=True, help="Compile forward and backward pass with XLA, in every run.")
@option(
    "--collectives",
    type=OneOf(["nccl", "ring"]),
    help="Several machines: sum the gradients of GPUs with NCCL or with TensorFlow's ring over gRPC.  [default: nccl]",
)
@option(
    "--join-timeout",
    metavar="S",
    type=Seconds(1),
    default=120.0,
    show_default=True,
    help="Several machines: maximum time to wait for all of them, in seconds.",
)
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    model: str,
    batch: int | str | None,
    global_batch: int | None,
    dtypes: tuple[str, ...],
    xla: bool,
    collectives: str | None,
    join_timeout: float,
    measuring: Measuring,
) -> None:
    """Train an image classifier on the CPU, one GPU and several GPUs; images per second, compared with model.fit.

    The loss must be finite and fall. One device is compared with a training in float64. Several devices are compared
    with one device that computes all of their batches; their weights must stay identical.

    Under TF_CONFIG or srun, several machines train together; the first of them prints the report.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
    2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.plans.cnn import Cnn
    from tfgpu_doctor.cli.bench import several

    if batch is not None and global_batch is not None:
        raise click.UsageError(
            "--batch-size (per device) and --global-batch-size (all devices together) cannot be combined"
        )
    selection = measuring.selection()
    measuring.check()
    each = None if isinstance(batch, str) else batch
    plan = Cnn(model, each, global_batch, xla, dtypes=dtypes, selection=selection, auto=batch == "auto")
    plan.cluster = several.find(measuring)
    if plan.auto and plan.cluster:
        raise click.UsageError("--batch-size auto needs a single machine")
    plan.collectives = collectives.upper() if collectives else None
    machines = plan.cluster.count if plan.cluster else 1
    try:  # what is wrong however many devices are found
        plan.batch_of(machines * (measuring.virtual or selection.gpus or 1))
    except DeviceError as error:
        raise click.UsageError(str(error)) from error
    context.exit(several.run(plan, measuring, join_timeout) if plan.cluster else measure(plan, measuring))
