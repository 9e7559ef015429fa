"""`tfgpu bench inference`: options, one measurement, render, exit code."""

from __future__ import annotations

import os

import click

from tfgpu_doctor.cli.bench.choices import MODELS, TRAINING, dtypes_option
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command, is_given, option
from tfgpu_doctor.cli.values import Listed, OneOf, Size

OWN = ("float32", "tf32")  # what can be chosen for a model whose types are its own
LARGEST = 65536


@define_command(
    "inference",
    context_settings={"default_map": {"deadline": 60.0}},  # of all batch sizes together
    epilog="Examples: tfgpu bench inference --model resnet50 --dtype float32 --dtype mixed_float16; "
    "tfgpu bench inference --saved-model ./model --batch-size 1,16",
)
@option(
    "--model",
    type=OneOf(MODELS),
    help="A built-in network, exported as a SavedModel.  [default: mnist]",
)
@option(
    "--saved-model",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Your own SavedModel; its signature defines the inputs.",
)
@option(
    "--signature",
    metavar="NAME",
    help="Signature of --saved-model to call.  [default: serving_default, or the only one]",
)
@option(
    "--shape",
    "shapes",
    metavar="[INPUT=]N,N,…",
    multiple=True,
    help="Shape of one item of an input of --saved-model whose signature has unknown dimensions: 224,224,3.",
)
@option(
    "--batch-size",
    "batches",
    metavar="N,...",
    type=Listed(Size(1, LARGEST)),
    default=(1, 8, 32, 128),
    help="Items per call.  [default: 1,8,32,128]",
)
@dtypes_option(TRAINING)
@option("--xla", is_flag=True, help="Compile the signature with XLA, on every device.")
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    model: str | None,
    saved_model: str | None,
    signature: str | None,
    shapes: tuple[str, ...],
    batches: tuple[int, ...],
    dtypes: tuple[str, ...],
    xla: bool,
    measuring: Measuring,
) -> None:
    """Call a SavedModel the way a server does: latency percentiles and throughput for each batch size.

    Inputs are on the host, results are fetched, one call after the other. Every result is compared with that of the
    CPU. A 99th percentile needs 368 samples; the batch sizes share --deadline.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, the SavedModel cannot be used, or requested GPUs
    are missing, 2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    from tfgpu_doctor.bench.plans.inference import WANTED, Inference, ShapeError, parse_shape

    if model and saved_model:
        raise click.UsageError("--model (a built-in network) and --saved-model (your own) cannot be combined")
    if saved_model is None and (signature or shapes):
        raise click.UsageError("--signature and --shape need --saved-model DIR")
    if saved_model is not None:
        _check_folder(saved_model)
        if other := [dtype for dtype in dtypes if dtype not in OWN]:
            raise click.UsageError(f"--dtype {other[0]}: the types of a SavedModel are fixed; choose float32 or tf32")
    try:
        items = dict(parse_shape(text) for text in shapes)
    except ShapeError as error:
        raise click.UsageError(str(error)) from error
    asked = is_given(context, "min_samples")
    plan = Inference(
        model=None if saved_model else model or "mnist",
        saved_model=saved_model,
        signature=signature,
        shapes=items,
        batches=tuple(sorted(batches)),
        dtypes=dtypes,
        xla=xla,
        wanted=measuring.min_samples if asked else WANTED,
        selection=measuring.selection(),
    )
    context.exit(measure(plan, measuring))


def _check_folder(folder: str) -> None:
    """Refuse what is visibly no SavedModel."""
    if not any(os.path.isfile(os.path.join(folder, name)) for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise click.UsageError(
            f"--saved-model {folder}: no saved_model.pb found; save one with model.export(DIR) or "
            "tf.saved_model.save(model, DIR)"
        )
