"""`tfgpu bench memory`: options, one measurement, render, exit code."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.bench.choices import TRAINING, dtypes_option, model_option
from tfgpu_doctor.cli.bench.measuring import Measuring, measure, measuring_options
from tfgpu_doctor.cli.options import define_command


@define_command(
    "memory",
    context_settings={"default_map": {"deadline": 60.0}},  # of the search and of all batches together
    epilog="Examples: tfgpu bench memory --model resnet50; "
    "tfgpu bench memory --model resnet50 --dtype float32 --dtype mixed_float16",
)
@model_option("The network to train.")
@dtypes_option(TRAINING)
@measuring_options
@click.pass_context
def command(context: click.Context, model: str, dtypes: tuple[str, ...], measuring: Measuring) -> None:
    """Find the largest training batch that fits, and how fast smaller ones are.

    Doubles the batch until it does not fit, then bisects. A batch does not fit when memory runs out, or when the
    process is killed for that. On the CPU, training may use at most half of the free memory, estimated from smaller
    batches, and the search takes at most half of --deadline.

    Exit codes: 0 measured, 1 a result was wrong, a run failed, or requested GPUs are missing,
    2 wrong usage, 3 TensorFlow could not be used, or a requested run did not take place.
    """
    from tfgpu_doctor.bench.plans.memory import Memory

    plan = Memory(model=model, dtypes=dtypes, selection=measuring.selection())
    context.exit(measure(plan, measuring))
