"""A page for each finding: cause, how to recognise it, what decides between it and its look-alikes, ways out.

Each layer has a file of text (reading.py shows its form); asking for a page reads the file of its layer only. LAYERS
says which page is where, so that ids can be listed and compared without reading any.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

from tfgpu_doctor.findings.pages.reading import read_pages
from tfgpu_doctor.findings.pages.records import Page

# file → (what the layer is called, its ids), from the hardware up
LAYERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "driver": (
        "The driver",
        (
            "driver.missing",
            "driver.not-loaded",
            "driver.version-mismatch",
            "driver.too-old",
            "driver.stub-loaded",
            "driver.init-failed",
            "driver.unresponsive",
        ),
    ),
    "gpu": (
        "The GPU",
        (
            "gpu.none",
            "gpu.hidden",
            "gpu.not-visible",
            "gpu.fewer-than-required",
            "gpu.arch-too-old",
            "gpu.arch-too-new",
            "gpu.mig",
            "gpu.fault",
            "gpu.throttled",
        ),
    ),
    "container": ("Containers and WSL2", ("container.no-gpu", "wsl.setup")),
    "python": (
        "Python and its packages",
        (
            "tf.not-installed",
            "tf.wrong-env",
            "tf.shadowed",
            "tf.python-unsupported",
            "tf.package-removed",
            "tf.package-conflict",
            "tf.abi-numpy",
            "tf.abi-protobuf",
            "tf.abi-keras",
        ),
    ),
    "tensorflow": (
        "TensorFlow itself",
        (
            "tf.cpu-build",
            "tf.windows-native",
            "tf.import-avx",
            "tf.import-dll",
            "tf.glibc-too-old",
            "tf.import-failed",
            "tf.import-hang",
            "tf.run-failed",
            "tf.known-bug",
            "compute.wrong-result",
        ),
    ),
    "cuda": ("CUDA's libraries", ("cuda.missing", "cuda.version-mismatch", "cuda.lib-path")),
    "cudnn": (
        "cuDNN",
        ("cudnn.missing", "cudnn.version-mismatch", "cudnn.lib-path", "cudnn.dep-missing", "cudnn.init-failed"),
    ),
    "xla": ("XLA, the compiler", ("xla.libdevice-missing", "xla.ptxas-missing")),
    "memory": ("Memory", ("memory.oom", "memory.taken")),
    "several_gpus": ("Several GPUs", ("nccl.error", "p2p.failed", "shm.small")),
    "performance": ("Speed", ("perf.input-bound", "perf.small-work", "perf.low-clocks")),
    "environment": (
        "Environment variables",
        (
            "env.ld-library-path",
            "env.allow-growth",
            "env.memory-limit",
            "env.unified-memory",
            "env.tf-gpu-allocator",
            "env.gpu-thread-mode",
            "env.cuda-device-order",
            "env.cuda-launch-blocking",
            "env.cuda-cache-disable",
            "env.cuda-force-ptx-jit",
            "env.cuda-disable-ptx-jit",
            "env.tf32-override",
            "env.deterministic-ops",
            "env.cudnn-deterministic",
            "env.cudnn-autotune",
            "env.xla-flags",
            "env.xla-auto-jit",
            "env.nccl",
            "env.mps",
            "env.keras-backend",
            "env.legacy-keras",
            "env.cpp-min-log-level",
        ),
    ),
    "harmless": ("Harmless", ("benign.log", "tensorrt.missing-benign")),
}
_MOST_SUGGESTIONS = 3


def all_ids() -> tuple[str, ...]:
    """Every finding that has a page, layer by layer."""
    return tuple(finding_id for _, ids in LAYERS.values() for finding_id in ids)


def page_of(finding_id: str) -> Page | None:
    """The page of a finding; None where there is no such finding."""
    layer = next((name for name, (_, ids) in LAYERS.items() if finding_id in ids), None)
    return next(page for page in pages_of(layer) if page.id == finding_id) if layer else None


@cache
def pages_of(layer: str) -> tuple[Page, ...]:
    """The pages of one layer (a key of LAYERS), in the order of its file."""
    name = f"{layer}.txt"
    return read_pages((Path(__file__).parent / name).read_text(encoding="utf-8"), name)


def nearest(finding_id: str) -> tuple[str, ...]:
    """Ids that somebody may have meant, the likeliest first; for a layer ("cuda") those of the layer; none if far off.

    Upper case, "_" for "-" and "/" for "." are forgiven.
    """
    asked = finding_id.strip().lower().replace("_", "-").replace("/", ".")
    ids = all_ids()
    if asked in ids:
        return (asked,)
    if of_layer := tuple(one for one in ids if one.split(".")[0] == asked.rstrip(".")):
        return of_layer
    tails = tuple(one for one in ids if asked and one.split(".")[1] == asked)
    close = difflib.get_close_matches(asked, ids, n=_MOST_SUGGESTIONS, cutoff=0.6)
    return tuple(dict.fromkeys((*tails, *close)))[:_MOST_SUGGESTIONS]
