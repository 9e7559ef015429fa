"""A page for each finding: what it is, how to recognise it, how to distinguish it from similar findings, fixes.

The pages of a layer are in a text file of that name; reading.py describes its format.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tfgpu_doctor.findings.pages.reading import read_pages
from tfgpu_doctor.findings.pages.records import Page
from tfgpu_doctor.records.similar import similar

# file → heading, from the hardware up
LAYERS = {
    "driver": "NVIDIA driver",
    "gpu": "GPU",
    "container": "Containers and WSL2",
    "python": "Python and packages",
    "tensorflow": "TensorFlow",
    "cuda": "CUDA libraries",
    "cudnn": "cuDNN",
    "xla": "XLA",
    "memory": "GPU memory",
    "several_gpus": "Several GPUs",
    "performance": "Performance",
    "environment": "Environment variables",
    "harmless": "Harmless messages",
}
_MOST_SUGGESTIONS = 3


def all_ids() -> tuple[str, ...]:
    """Every finding that has a page, layer by layer."""
    return tuple(page.id for layer in LAYERS for page in pages_of(layer))


def page_of(finding_id: str) -> Page | None:
    """The page of a finding; None if there is no such finding."""
    return next((page for layer in LAYERS for page in pages_of(layer) if page.id == finding_id), None)


@cache
def pages_of(layer: str) -> tuple[Page, ...]:
    """The pages of one layer (a key of LAYERS), in the order of its file."""
    name = f"{layer}.txt"
    return read_pages((Path(__file__).parent / name).read_text(encoding="utf-8"), name)


def nearest(finding_id: str) -> tuple[str, ...]:
    """Ids similar to `finding_id`, the most similar first; for a prefix ("cuda") all ids with that prefix.

    Upper case, "_" for "-" and "/" for "." are accepted.
    """
    wanted = finding_id.strip().lower().replace("_", "-").replace("/", ".")
    ids = all_ids()
    if wanted in ids:
        return (wanted,)
    if of_layer := tuple(known for known in ids if known.split(".")[0] == wanted.rstrip(".")):
        return of_layer
    tails = tuple(known for known in ids if wanted and known.split(".")[1] == wanted)
    close = similar(wanted, ids, _MOST_SUGGESTIONS)
    return tuple(dict.fromkeys((*tails, *close)))[:_MOST_SUGGESTIONS]
