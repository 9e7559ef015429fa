"""Findings about gpu arch."""

from __future__ import annotations

import re

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.compatibility import cudnn_bound, runs_on
from tfgpu_doctor.matrix.library_names import known_library
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.records.facts import Message, Toolkit
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least, capability

_UNFIT = ("kernel-image-invalid", "no-kernel-image", "invalid-device-function")


_TOO_NEW = ("no-kernels-for-gpu", "invalid-ptx")


def _capabilities(said: MessageLog, cards: tuple[Card, ...] | None) -> list[str]:
    kinds = ("gpu-created", "no-kernels-for-gpu", "cuda-capability")
    spoken = [value for kind in kinds for value in said.values(kind, "capability")]
    return [*spoken, *(card.compute_capability for card in cards or ())]


def _least(message: Message) -> str | None:
    """The lowest capability that a line asks for; None where that part of it is cut off."""
    return next((value for key in ("need", "least", "floor") if (value := message.values.get(key))), None)


def _newer(card: str, release: Release | None) -> bool:
    """Whether the card is newer than the build; where the build is unknown, whether it is Ada, Hopper or later."""
    if release is None or not (release.sass or release.ptx):
        return capability(card) >= (8, 0)
    return runs_on(release, card) != "sass" and all(
        capability(card) > capability(one) for one in (*release.sass, *release.ptx)
    )


def _compiled_at_start(context: Context, said: MessageLog, known: list[str]) -> Message | None:
    """The line in which a CUDA is opened that cannot compile for the card at all, so that the driver has to."""
    for name, message in said.libraries("library-opened"):
        library = known_library(name)
        cuda = library.cuda_version if library else None
        if cuda is None:
            continue
        # libcudart.so.11.0 belongs to 11.0 and to 11.8 alike: from 11 on the name tells the major alone
        newest = cuda if cuda.startswith(("8.", "9.", "10.")) else f"{cuda.split('.')[0]}.99"
        first = [cuda for one in known if (cuda := _first_cuda(context, one))]
        if first and not any(at_least(newest, one) for one in first):
            return message
    return None


def _launch_failed(said: MessageLog) -> Message | None:
    """The first product of matrices that cuBLAS could not start, though its handle was there."""
    return next((m for m in said.all("cublas-handle") if re.search(r"EXECUTION_FAILED|launch failed", m.text)), None)


def _before_the_card(context: Context, toolkits: tuple[Toolkit, ...] | None, known: list[str]) -> bool:
    """Whether every CUDA that is stated is older than the first one that knew the card."""
    versions = [kit.version for kit in toolkits or () if kit.version]
    first = [cuda for one in known if (cuda := _first_cuda(context, one))]
    return bool(versions and first) and not any(at_least(version, one) for version in versions for one in first)


def _first_cuda(context: Context, card: str) -> str | None:
    """The first CUDA that compiles SASS which the card runs: for its capability, or a lower one of the same major."""
    family = [
        row.min_cuda
        for row in context.matrix.data.architectures
        if row.min_cuda and row.compute_capability.split(".")[0] == card.split(".")[0]
        if capability(row.compute_capability) <= capability(card)
    ]
    return min(family, key=lambda version: [int(part) for part in version.split(".")], default=None)


def _compiler_too_old(seen: tuple[Message, ...]) -> Problem:
    """nvcc is asked to compile for an architecture that came after it, or that it has dropped."""
    return Problem(
        title="This CUDA compiler does not know the GPU's architecture",
        cause="each CUDA compiles for the architectures of its time: one that is newer needs a newer CUDA, and the "
        "oldest are dropped from time to time",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(text="See which CUDA knows the card, and build with that one", commands=("tfgpu matrix cuda",)),
            Fix(
                text="Or take a TensorFlow that is built for it already",
                commands=("tfgpu matrix tensorflow --gpu NAME --newest",),
            ),
        ),
    )


ARCH_TOO_OLD = finding(
    "gpu.arch-too-old",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPU is older than this TensorFlow or its cuDNN supports",
    docs="https://developer.nvidia.com/cuda-gpus",
)


@ARCH_TOO_OLD.sign(conclusive=False)
def arch_too_old(
    context: Context,
    gpu_release: Release,
    cards: tuple[Card, ...],
    cudnn_runtime: str | None = None,
    cudnn_release: CudnnRelease | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """Compute capability below every kernel in the wheel, or below what the installed cuDNN still supports."""
    seen = [
        evidence(
            f"{card.name}: compute capability {card.compute_capability}",
            card.source,
            f"{gpu_release.sass[0] if gpu_release.sass else gpu_release.ptx[0]} or higher",
            f"TensorFlow {gpu_release.version} (wheel)",
        )
        for card in cards
        if (gpu_release.sass or gpu_release.ptx)
        and runs_on(gpu_release, card.compute_capability) == "no"
        # older than all of them, or in a gap, as 5.0 is in the wheels of 2.3
        and any(card.version < capability(one) for one in (*gpu_release.sass, *gpu_release.ptx))
    ]
    cause = f"the wheel of TensorFlow {gpu_release.version} holds no kernel that this card can run"
    if not seen and cudnn_release and cudnn_release.min_compute_capability:
        by_cuda = cudnn_release.min_compute_capability_by_cuda
        lowest = by_cuda.get((gpu_release.cuda or "").split(".")[0], cudnn_release.min_compute_capability)
        floor = capability(lowest)
        seen = [
            evidence(
                f"{card.name}: compute capability {card.compute_capability}",
                card.source,
                f"{lowest} or higher for cuDNN {cudnn_runtime or cudnn_release.version}",
                "compat_matrix.yaml, cuDNN",
            )
            for card in cards
            if card.version < floor
        ]
        cause = f"TensorFlow would run on this card, but the installed cuDNN {cudnn_release.version} has dropped it"
        bound = cudnn_bound(context.matrix, gpu_release, [card.compute_capability for card in cards])
        if seen and bound:
            fix = Fix(
                text="Hold cuDNN back at the last one for this card", commands=context.remedies.pip_install(bound)
            )
            return Problem(cause=cause, evidence=tuple(seen), fixes=(fix,))
    if not seen:
        return None
    why = "the newest release with kernels for this card"
    fixes = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    # of a text, what is merely stated stands behind what a program complains of
    severity = Severity.WARNING if messages is not None and messages.complains else None
    return Problem(cause=cause, evidence=tuple(seen), fixes=fixes, severity=severity)


@ARCH_TOO_OLD.sign
def arch_too_old_reported(
    context: Context, messages: MessageLog, cards: tuple[Card, ...] | None = None, gpu_release: Release | None = None
) -> Problem | None:
    """TensorFlow leaves the card out, or finds no kernel for it and the card is an old one."""
    ignored = messages.all("gpu-ignored")
    unfit = messages.all(*_UNFIT)
    mismatch = [m for m in messages.all("cudnn-status", "cublas-handle") if "ARCH_MISMATCH" in m.text]
    known = _capabilities(messages, cards)
    old = (
        bool(unfit)
        and bool(known)
        and not messages.has(*_TOO_NEW)
        and all(not _newer(one, gpu_release) for one in known)
    )
    if not (ignored or old or mismatch):
        return None
    if (
        ignored
        and any(capability(card) >= capability(least) for m in ignored if (least := _least(m)) for card in known)
        and messages.has("gpu-created")
    ):
        return None  # another card is used
    need = next((f"compute capability {least} or higher" for m in ignored if (least := _least(m))), None)
    why = "the newest release with kernels for this card"
    fixes = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    return Problem(
        cause="the build holds no kernel that this card can run"
        + ("" if ignored else "; between two architectures a build may have a gap, as 2.3 has at 5.0"),
        evidence=(
            *message_evidence(*ignored, *unfit, *mismatch, need=need),
            *(evidence(f"compute capability {one}", "the text") for one in known[:1]),
        ),
        fixes=fixes
        or (
            Fix(
                text="Build TensorFlow for this card, or take a release that has kernels for it",
                commands=("tfgpu matrix gpu NAME",),
            ),
        ),
    )


ARCH_TOO_NEW = finding(
    "gpu.arch-too-new",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPU is newer than the kernels in this TensorFlow",
    symptoms=(symptoms.NO_KERNELS_IN_CUBLAS,),
    docs="https://developer.nvidia.com/cuda-gpus",
)


@ARCH_TOO_NEW.sign(conclusive=False)
def arch_too_new(
    context: Context, gpu_release: Release, cards: tuple[Card, ...], messages: MessageLog | None = None
) -> Problem | None:
    """No SASS for the card: PTX is compiled at first use for up to half an hour, or does not run at all."""
    known = (*gpu_release.sass, *gpu_release.ptx)
    strangers = [
        card
        for card in cards
        if known
        and (how := runs_on(gpu_release, card.compute_capability)) != "sass"
        and (how == "ptx" or all(card.version > capability(one) for one in known))
    ]
    if not strangers:
        return None
    has = ", ".join(gpu_release.sass) + (f" and PTX {', '.join(gpu_release.ptx)}" if gpu_release.ptx else "")
    seen = tuple(
        evidence(
            f"{card.name}: compute capability {card.compute_capability}",
            card.source,
            f"SASS for it; the wheel has {has}",
            f"TensorFlow {gpu_release.version} (wheel)",
        )
        for card in strangers
    )
    jit = all(runs_on(gpu_release, card.compute_capability) == "ptx" for card in strangers)
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
    severity = Severity.WARNING if messages is not None and jit else None
    return Problem(cause=how, evidence=seen, fixes=(*newer, *((cache,) if jit else ())), severity=severity)


@ARCH_TOO_NEW.sign(unless=("gpu.arch-too-old",))
def arch_too_new_reported(
    context: Context,
    messages: MessageLog,
    cards: tuple[Card, ...] | None = None,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
) -> Problem | None:
    """TensorFlow says that it has no kernels for the card, or the driver refuses what it has."""
    known = _capabilities(messages, cards)
    spoken = messages.all(*_TOO_NEW)
    unfit = messages.all(*_UNFIT, "invalid-handle")
    beyond = any(_newer(one, gpu_release) for one in known)
    compiled = _compiled_at_start(context, messages, known) if messages.from_text else None
    # a cuBLAS without kernels for the card computes nonsense, or its launches fail
    odd = messages.first("nan-result", "wrong-result") or _launch_failed(messages) if messages.from_text else None
    if odd and not compiled and _before_the_card(context, toolkits, known):
        compiled = odd
    if compiler := messages.all("nvcc-too-old"):
        return _compiler_too_old(compiler)
    if not spoken and not compiled and not (unfit and (beyond or not known)):
        return None
    if messages.has("ptx-too-new-for-driver") and not messages.has("no-kernels-for-gpu"):
        return None
    only_handle = not spoken and not compiled and all(m.kind == "invalid-handle" for m in unfit)
    if only_handle and not beyond:
        return None
    why = "it has kernels for this card"
    newer = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    cache = Fix(
        text="Until then, keep what the driver compiles, so that only the first run is slow",
        commands=("export CUDA_CACHE_MAXSIZE=4294967296",),
    )
    return Problem(
        cause="the build has no machine code (SASS) for this card: the driver compiles PTX for half an hour, "
        "or refuses it",
        evidence=(
            *message_evidence(*spoken, *unfit, compiled),
            *(evidence(f"compute capability {one}", "the text") for one in known[:1]),
        ),
        fixes=(*newer, cache),
    )
