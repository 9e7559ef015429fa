"""Rules about the architecture of a GPU: whether this build, its CUDA and its cuDNN have kernels for it."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.gpu import CUDA_GPUS
from tfgpu_doctor.findings.message_log import Said
from tfgpu_doctor.matrix.compatibility import capability, cudnn_bound, runs_on
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.records.report import Fix, Severity


@rule(
    "gpu.arch-too-old",
    Severity.ERROR,
    "The GPU is older than this TensorFlow or its cuDNN supports",
    needs=("derived.gpu_release", "derived.cards"),
    wants=("cudnn.runtime", "derived.cudnn_release", "derived.told"),
    docs=CUDA_GPUS,
)
def arch_too_old(
    context: Context,
    release: Release,
    cards: tuple[Card, ...],
    runtime: str | None,
    cudnn: CudnnRelease | None,
    told: Said | None,
) -> Problem | None:
    """Compute capability below every kernel in the wheel, or below what the installed cuDNN still supports."""
    seen = [
        evidence(
            f"{card.name}: compute capability {card.compute_capability}",
            card.source,
            f"{release.sass[0] if release.sass else release.ptx[0]} or higher",
            f"TensorFlow {release.version} (wheel)",
        )
        for card in cards
        if (release.sass or release.ptx)
        and runs_on(release, card.compute_capability) == "no"
        # older than all of them, or in a gap, as 5.0 is in the wheels of 2.3
        and any(card.version < capability(one) for one in (*release.sass, *release.ptx))
    ]
    cause = f"the wheel of TensorFlow {release.version} holds no kernel that this card can run"
    if not seen and cudnn and cudnn.min_compute_capability:
        by_cuda = cudnn.min_compute_capability_by_cuda
        lowest = by_cuda.get((release.cuda or "").split(".")[0], cudnn.min_compute_capability)
        floor = capability(lowest)
        seen = [
            evidence(
                f"{card.name}: compute capability {card.compute_capability}",
                card.source,
                f"{lowest} or higher for cuDNN {runtime or cudnn.version}",
                "compat_matrix.yaml, cuDNN",
            )
            for card in cards
            if card.version < floor
        ]
        cause = f"TensorFlow would run on this card, but the installed cuDNN {cudnn.version} has dropped it"
        bound = cudnn_bound(context.matrix, release, [card.compute_capability for card in cards])
        if seen and bound:
            fix = Fix(
                text="Hold cuDNN back at the last one for this card", commands=context.remedies.pip_install(bound)
            )
            return Problem(cause, tuple(seen), (fix,))
    if not seen:
        return None
    why = "the newest release with kernels for this card"
    fixes = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    # of a text, what is merely stated stands behind what a program complains of
    severity = Severity.WARNING if told is not None and told.complains else None
    return Problem(cause, tuple(seen), fixes, severity=severity)


@rule(
    "gpu.arch-too-new",
    Severity.ERROR,
    "The GPU is newer than the kernels in this TensorFlow",
    needs=("derived.gpu_release", "derived.cards"),
    wants=("derived.told",),
    docs=CUDA_GPUS,
)
def arch_too_new(context: Context, release: Release, cards: tuple[Card, ...], told: Said | None) -> Problem | None:
    """No SASS for the card: PTX is compiled at first use for up to half an hour, or does not run at all."""
    known = (*release.sass, *release.ptx)
    strangers = [
        card
        for card in cards
        if known
        and (how := runs_on(release, card.compute_capability)) != "sass"
        and (how == "ptx" or all(card.version > capability(one) for one in known))
    ]
    if not strangers:
        return None
    has = ", ".join(release.sass) + (f" and PTX {', '.join(release.ptx)}" if release.ptx else "")
    seen = tuple(
        evidence(
            f"{card.name}: compute capability {card.compute_capability}",
            card.source,
            f"SASS for it; the wheel has {has}",
            f"TensorFlow {release.version} (wheel)",
        )
        for card in strangers
    )
    jit = all(runs_on(release, card.compute_capability) == "ptx" for card in strangers)
    how = (
        "the driver must compile every kernel from PTX at first use: half an hour, or INVALID_PTX"
        if jit
        else "the wheel holds neither SASS nor PTX that this card can run"
    )
    cache = Fix(
        text="Until then, keep what the driver compiles, so that only the first run is slow",
        commands=("export CUDA_CACHE_MAXSIZE=4294967296", "export CUDA_CACHE_DISABLE=0"),
    )
    why = "it has kernels for this card"
    newer = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    # of a text, a name and a version that somebody states weigh less than what a program says (rules/said_gpu.py)
    severity = Severity.WARNING if told is not None and jit else None
    return Problem(how, seen, (*newer, *((cache,) if jit else ())), severity=severity)
