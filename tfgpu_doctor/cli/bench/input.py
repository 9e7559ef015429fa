"""`tfgpu bench input`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.choices import MODELS, TRAINING
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options


@click.command(
    "input",
    context_settings={"default_map": {"deadline": 15.0}},  # of each pipeline, of which there are many
    epilog="Examples: tfgpu bench input --model resnet50; tfgpu bench input --dataset photos/ --images 2000 --gpus 2",
)
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default="mnist",
    show_default=True,
    help="The network that is trained, and whose size the images get.",
)
@click.option(
    "--batch-size",
    metavar="N",
    type=click.IntRange(min=1, max=65536),
    help="Images for each device.  [default: the network's]",
)
@click.option(
    "--dtype",
    type=click.Choice(TRAINING),
    default="float32",
    show_default=True,
    help="In which the network is trained.",
)
@click.option(
    "--dataset",
    metavar="DIR|synthetic",
    default="synthetic",
    show_default=True,
    help="Your own folder of .jpg, .jpeg, .png or .bmp files, with all below it; or images made for this.",
)
@click.option(
    "--images",
    metavar="N",
    type=click.IntRange(min=16, max=1_000_000),
    default=512,
    show_default=True,
    help="How many of them make an epoch.",
)
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    model: str,
    batch_size: int | None,
    dtype: str,
    dataset: str,
    images: int,
    measuring: Measuring,
) -> None:
    """Is a training input-bound, by how much, and which knob of tf.data helps?

    Images a second of the pipeline with each knob, of the training with its data on the device, and of the training
    fed by a pipeline; every image is verified.

    Exit codes: 0 measured, 1 a result was wrong, a case failed, or GPUs that were asked for are not there,
    2 wrong usage, 3 TensorFlow could not be used.
    """
    from pathlib import Path

    from tfgpu_doctor.bench.plans.input import Input
    from tfgpu_doctor.bench.workloads.pictures import SUFFIXES, find

    selection = measuring.selection()
    folder = None
    if dataset != "synthetic":
        folder = str(Path(dataset).absolute())
        if not Path(folder).is_dir():
            raise click.UsageError(f"--dataset {dataset}: no such folder; give one with images in it, or synthetic")
        if not find(folder, 1):
            raise click.UsageError(f"--dataset {dataset}: no {', '.join(SUFFIXES)} in it or below it")
    plan = Input(model=model, batch=batch_size, dtypes=(dtype,), folder=folder, images=images, selection=selection)
    context.exit(measure(plan, measuring))
