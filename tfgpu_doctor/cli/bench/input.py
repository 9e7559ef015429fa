"""`tfgpu bench input`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.choices import TRAINING, model_option
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.values import OneOf, Size


@define_command(
    "input",
    context_settings={"default_map": {"deadline": 8.0}},  # of each pipeline, of which there are many
    epilog="Examples: tfgpu bench input --model resnet50; tfgpu bench input --dataset photos/ --images 2000 --gpus 2",
)
@model_option("The network to train; images are resized to its input.")
@option(
    "--batch-size",
    metavar="N",
    type=Size(1, 1048576),
    help="Images per device.  [default: the network's]",
)
@option(
    "--dtype",
    type=OneOf(TRAINING),
    default="float32",
    show_default=True,
    help="Data type of the training.",
)
@option(
    "--dataset",
    metavar="DIR|synthetic",
    type=click.Path(),
    default="synthetic",
    show_default=True,
    help="Your own folder of .jpg, .jpeg, .png or .bmp files, subfolders included; or generated images.",
)
@option(
    "--images",
    metavar="N",
    type=Size(16, 1_000_000),
    default=512,
    show_default=True,
    help="Number of images per epoch.",
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
    """Is training input-bound, by how much, and which tf.data option helps?

    Measures images per second of the pipeline with each option, of training with its data on the device, and of
    training fed by a pipeline; every image is verified.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
    2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    import os

    from tfgpu_doctor.bench.plans.input import Input
    from tfgpu_doctor.bench.workloads.input import SUFFIXES, find

    selection = measuring.selection()
    folder = None
    if dataset != "synthetic":
        folder = os.path.abspath(dataset)
        if not os.path.isdir(folder):
            raise click.UsageError(f"--dataset {dataset}: no such folder; give a folder with images, or synthetic")
        if not find(folder, 1):
            raise click.UsageError(f"--dataset {dataset}: no {', '.join(SUFFIXES)} files found in it or its subfolders")
    plan = Input(model=model, batch=batch_size, dtypes=(dtype,), folder=folder, images=images, selection=selection)
    context.exit(measure(plan, measuring))
