"""Several machines: who takes part, whether this one leads or follows, and what is said of one that is missing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.bench.measuring import Measuring, cannot_measure, measure
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.bench.cluster import Cluster
    from tfgpu_doctor.bench.plans.cnn import Cnn


def find(measuring: Measuring) -> Cluster | None:
    """The cluster that TF_CONFIG or Slurm describes; None where there is none.

    Raises:
        click.UsageError: it cannot be used, or not with these options.
        click.exceptions.Exit: Slurm cannot be asked, since TensorFlow does not start.
    """
    from tfgpu_doctor.bench.cluster import ClusterError, config, parse, under_slurm

    text = os.environ.get("TF_CONFIG", "")
    if not text and under_slurm(os.environ):
        text = config(*_ask_slurm(measuring.executable or sys.executable))
    try:
        cluster = parse(text) if text else None
    except ClusterError as error:
        raise click.UsageError(str(error)) from error
    if cluster and (measuring.devices or measuring.virtual or measuring.processes > 1):
        raise click.UsageError(
            "--devices, --virtual-gpus and --processes need a single machine; TF_CONFIG or Slurm lists "
            f"{cluster.count} workers"
        )
    return cluster


def _ask_slurm(executable: str) -> tuple[dict[str, list[str]], int]:
    """Who takes part, by TensorFlow's own resolver."""
    from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess
    from tfgpu_doctor.bench.runner.workers import START
    from tfgpu_doctor.records.report import EXIT_UNKNOWN

    try:
        with WorkerProcess(executable) as worker:
            worker.ask(START, do="hello")
            found = worker.ask(START, do="reference", workload="machines", task="slurm")
    except WorkerError as error:
        say(f"tfgpu: cannot read the list of workers from Slurm: {error}")
        raise click.exceptions.Exit(EXIT_UNKNOWN) from error
    return found["cluster"], found["index"]


def run(plan: Cnn, measuring: Measuring, patience: float) -> int:
    """Lead or follow; returns the exit code.

    Args:
        patience: seconds to wait for all machines.
    """
    from tfgpu_doctor.bench.cluster import Watch

    assert plan.cluster is not None
    os.environ["TF_CONFIG"] = plan.cluster.config  # for the processes
    if plan.cluster.index == 0:
        return measure(plan, measuring, Watch(plan.cluster, patience).over)
    # of several types, the first machine may still measure itself alone in the one before
    rounds = len(plan.dtypes)
    return _follow(plan, measuring, patience if rounds == 1 else patience + 3 * measuring.deadline)


def _follow(plan: Cnn, measuring: Measuring, patience: float) -> int:
    from tfgpu_doctor.bench.cluster import Watch, follow
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess
    from tfgpu_doctor.bench.runner.workers import START
    from tfgpu_doctor.bench.session import NoTensorFlowError
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM

    cluster = plan.cluster
    assert cluster is not None
    executable = measuring.executable or sys.executable
    watch = Watch(cluster, patience)
    me = f"worker {cluster.index} of {cluster.count}"
    try:
        with bar() as progress:
            follow(
                plan.part,
                lambda: watch.over(WorkerProcess(executable)),
                patience=START + 3 * measuring.deadline,
                progress=progress,
            )
    except NoTensorFlowError as error:
        return cannot_measure(executable, error)
    except (DeviceError, WorkerError) as error:
        say(f"tfgpu: {me}: {error}")
        return EXIT_PROBLEM
    finally:
        watch.disarm()
    say(f"tfgpu: {me} is done; {cluster.name(0)} prints the report")
    return EXIT_OK
