"""Rules over what a pasted text says of a GPU's architecture: too old for the build, too new for it or its CUDA."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.gpu import CUDA_GPUS
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_libraries import at_least
from tfgpu_doctor.matrix.compatibility import capability, runs_on
from tfgpu_doctor.matrix.library_names import known_library
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Message, Toolkit
from tfgpu_doctor.records.report import Fix, Severity

_UNFIT = ("kernel-image-invalid", "no-kernel-image", "invalid-device-function")
_TOO_NEW = ("no-kernels-for-gpu", "invalid-ptx")


def _capabilities(said: Said, cards: tuple[Card, ...] | None) -> list[str]:
    kinds = ("gpu-created", "no-kernels-for-gpu", "cuda-capability")
    spoken = [value for kind in kinds for value in said.values(kind, "capability")]
    return [*spoken, *(card.compute_capability for card in cards or ())]


@rule(
    "gpu.arch-too-old",
    Severity.ERROR,
    "The GPU is older than this TensorFlow or its cuDNN supports",
    needs=("derived.said",),
    wants=("derived.cards", "derived.gpu_release"),
    docs=CUDA_GPUS,
)
def arch_too_old(
    context: Context, said: Said, cards: tuple[Card, ...] | None, release: Release | None
) -> Problem | None:
    """TensorFlow leaves the card out, or finds no kernel for it and the card is an old one."""
    ignored = said.all("gpu-ignored")
    unfit = said.all(*_UNFIT)
    mismatch = [m for m in said.all("cudnn-status", "cublas-handle") if "ARCH_MISMATCH" in m.text]
    known = _capabilities(said, cards)
    old = bool(unfit) and bool(known) and not said.has(*_TOO_NEW) and all(not _newer(one, release) for one in known)
    if not (ignored or old or mismatch):
        return None
    if (
        ignored
        and any(capability(card) >= capability(least) for m in ignored if (least := _least(m)) for card in known)
        and said.has("gpu-created")
    ):
        return None  # another card is used
    need = next((f"compute capability {least} or higher" for m in ignored if (least := _least(m))), None)
    why = "the newest release with kernels for this card"
    fixes = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    return Problem(
        cause="the build holds no kernel that this card can run"
        + ("" if ignored else "; between two architectures a build may have a gap, as 2.3 has at 5.0"),
        evidence=(
            *heard(*ignored, *unfit, *mismatch, need=need),
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


def _compiled_at_start(context: Context, said: Said, known: list[str]) -> Message | None:
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


def _launch_failed(said: Said) -> Message | None:
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


@rule(
    "gpu.arch-too-new",
    Severity.ERROR,
    "The GPU is newer than the kernels in this TensorFlow",
    needs=("derived.said",),
    wants=("derived.cards", "derived.gpu_release", "cuda.toolkits"),
    requires=("gpu.arch-too-old",),
    docs=CUDA_GPUS,
)
def arch_too_new(
    context: Context,
    said: Said,
    cards: tuple[Card, ...] | None,
    release: Release | None,
    toolkits: tuple[Toolkit, ...] | None,
) -> Problem | None:
    """TensorFlow says that it has no kernels for the card, or the driver refuses what it has."""
    known = _capabilities(said, cards)
    spoken = said.all(*_TOO_NEW)
    unfit = said.all(*_UNFIT, "invalid-handle")
    beyond = any(_newer(one, release) for one in known)
    compiled = _compiled_at_start(context, said, known) if said.from_text else None
    # a cuBLAS without kernels for the card computes nonsense, or its launches fail
    odd = said.first("nan-result", "wrong-result") or _launch_failed(said) if said.from_text else None
    if odd and not compiled and _before_the_card(context, toolkits, known):
        compiled = odd
    if compiler := said.all("nvcc-too-old"):
        return _compiler_too_old(compiler)
    if not spoken and not compiled and not (unfit and (beyond or not known)):
        return None
    if said.has("ptx-too-new-for-driver") and not said.has("no-kernels-for-gpu"):
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
            *heard(*spoken, *unfit, compiled),
            *(evidence(f"compute capability {one}", "the text") for one in known[:1]),
        ),
        fixes=(*newer, cache),
    )


def _compiler_too_old(seen: tuple[Message, ...]) -> Problem:
    """nvcc is asked to compile for an architecture that came after it, or that it has dropped."""
    return Problem(
        title="This CUDA compiler does not know the GPU's architecture",
        cause="each CUDA compiles for the architectures of its time: one that is newer needs a newer CUDA, and the "
        "oldest are dropped from time to time",
        evidence=heard(*seen),
        fixes=(
            Fix(text="See which CUDA knows the card, and build with that one", commands=("tfgpu matrix cuda",)),
            Fix(
                text="Or take a TensorFlow that is built for it already",
                commands=("tfgpu matrix tensorflow --gpu NAME --newest",),
            ),
        ),
    )
