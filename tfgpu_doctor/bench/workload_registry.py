"""The workloads, each declared once; the order is that of `tfgpu bench --help`.

A name is the command, and names the files that belong to it: `bench/requests.py` (options), `bench/plans/NAME.py` (what
is measured) and `bench/workloads/NAME.py` (the computation, in the worker). tests/bench/test_workload_registry.py says
what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """One workload, as far as it has to be known without importing it."""

    summary: str  # for `tfgpu bench --help`
    keras: bool = True  # Keras builds the model, so that two results must share its version
    larger: str | None = None  # what makes a step larger; None: steps are too small to fill a GPU by their nature
    chosen: tuple[str, ...] = ()  # parameters chosen by the machine's speed unless the option of that name is given


WORKLOADS = {
    "matpow": Workload(
        "Powers of large matrices: A^n and B^n.", keras=False, larger="a larger --size", chosen=("size",)
    ),
    "cnn": Workload("Training steps of an image classifier, on any number of GPUs.", larger="a larger --batch-size"),
    "transfer": Workload("Transfer bandwidth between host and GPUs, and between GPUs.", keras=False),
    "inference": Workload(
        "Calls of a SavedModel: latency percentiles and throughput.", larger="a larger batch (--batch-size)"
    ),
    "input": Workload("Input pipeline (tf.data) throughput compared with what training consumes."),
    "gan": Workload("Training steps of a small GAN: generator and discriminator.", larger="a larger --batch-size"),
}
