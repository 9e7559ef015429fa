"""What a release needs, and a text says is otherwise: the GPU, CUDA, cuDNN.

Whoever names them says nothing of a failure of them. But where something fails, and the text shows no other cause, what
does not fit together is the likeliest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.findings.card_evidence import needs
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.findings.reported_libraries import serves
from tfgpu_doctor.matrix.compatibility import runs_on
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import CudnnFile, Known, Toolkit, value_or
from tfgpu_doctor.records.report import Evidence
from tfgpu_doctor.records.versions import capability, major, minor

_BECAUSE = "the text does not show why; what it names does not fit together: TensorFlow {} {}"
# what stops before any kernel runs, so that libraries come first, and the GPU after them
_BEFORE_KERNELS = ("no GPU", "import")


@dataclass(frozen=True)
class Unmet:
    """One of them."""

    cause: str  # the id of the finding
    problem: Problem


def unmet_needs(context: Context, seen: str | None) -> tuple[Unmet, ...]:
    """What does not fit the release that the text names, the likeliest first; nothing where it names none."""
    release = fetch("gpu_release", context)
    if not isinstance(release, Known):
        return ()
    row = release.value
    of_libraries = (*_cuda(context, row), *_cudnn(context, row))
    of_gpus = tuple(_gpus(value_or(fetch("cards", context), ()), row))
    return (*of_libraries, *of_gpus) if seen in _BEFORE_KERNELS else (*of_gpus, *of_libraries)


def _unmet(cause: str, row: Release, need: str, found: Sequence[Evidence]) -> Unmet:
    return Unmet(cause, Problem(cause=_BECAUSE.format(row.version, need), evidence=tuple(found)))


def _gpus(cards: tuple[Card, ...], row: Release) -> Iterator[Unmet]:
    """Cards for which the build has no machine code, when there is none that it has some for."""
    kernels = (*row.sass, *row.ptx)
    if not kernels or not cards or any(runs_on(row, one.compute_capability) == "sass" for one in cards):
        return
    newest = max(map(capability, kernels))
    need = f"has kernels for {' '.join(dict.fromkeys(kernels))}"
    cause = "gpu.arch-too-new" if all(one.version > newest for one in cards) else "gpu.arch-too-old"
    yield _unmet(cause, row, need, [needs(one, "one of these", f"TensorFlow {row.version} (wheel)") for one in cards])


def _cuda(context: Context, row: Release) -> Iterator[Unmet]:
    kits: tuple[Toolkit, ...] = value_or(fetch("toolkits", context), ())
    there = [kit for kit in kits if kit.version]
    if row.cuda and there and not any(serves(kit.version or "", row.cuda) for kit in there):
        need = f"CUDA {minor(row.cuda)}"
        yield _unmet(
            "cuda.version-mismatch",
            row,
            f"loads {need}",
            [evidence(f"CUDA {k.version}", k.source, need) for k in there],
        )


def _cudnn(context: Context, row: Release) -> Iterator[Unmet]:
    files: tuple[CudnnFile, ...] = value_or(context.facts.cudnn.installed, ())
    there = [one for one in files if one.version]
    if row.cudnn and there and all(major(one.version) != major(row.cudnn) for one in there):
        need = f"cuDNN {major(row.cudnn)}"
        found = [evidence(f"cuDNN {one.version}", one.path, need) for one in there]
        yield _unmet("cudnn.version-mismatch", row, f"loads {need}", found)
