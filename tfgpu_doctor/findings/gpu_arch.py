"""Findings about the architecture of a GPU: whether this build, its CUDA and its cuDNN have kernels for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.card_evidence import capabilities_of, needs, of_card, one_suffices, required_by
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.manifest_signs import CONDA_RECIPE, conda_builds, in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.no_kernels import TOO_NEW, of_program, undecided
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.compatibility import cudnn_bound, cudnn_limit, driver_reaches, runs_on
from tfgpu_doctor.matrix.library_names import known_library
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.plan.file_edits import write, write_beside
from tfgpu_doctor.plan.gate import Situation
from tfgpu_doctor.plan.planned import PlannedEnvironment, pinned
from tfgpu_doctor.plan.target import TargetGpu, from_facts
from tfgpu_doctor.records.facts import Known, Message, Toolkit, value_or
from tfgpu_doctor.records.report import Alternative, Fix, Severity
from tfgpu_doctor.records.versions import at_least, capability, major, numbers

_WHICH_BUILD = Fix(
    text="See which GPU it is; tfgpu plan --gpu NAME lists the builds with kernels for it",
    commands=("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
)
_OLDEST = (3, 0)  # compute capability, of the first wheels; below it no other release would have helped


def _is_stated(context: Context) -> bool:
    """Whether a person wrote the GPU's name or the release, or the release is inferred from the text around it."""
    release, gpus = context.facts.tensorflow.version, context.facts.gpus
    by_name = context.is_stated("host.pci_gpus") and not value_or(gpus, ())
    return by_name or (isinstance(release, Known) and release.grade != "observed")


def _other_release(context: Context, why: str) -> tuple[Fix, ...]:
    return context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)


def _older_release(context: Context) -> tuple[Fix, ...]:
    if not from_facts(context.facts, context.matrix).gpus:
        return (_WHICH_BUILD,)
    build = Fix(
        text="See which releases have kernels for this GPU, or build TensorFlow for it",
        commands=("tfgpu matrix gpu NAME",),
    )
    return _other_release(context, "the newest release with kernels for this GPU") or (build,)


ARCH_TOO_OLD = finding(
    "gpu.arch-too-old",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPU is older than this TensorFlow or its cuDNN supports",
    despite_verified=True,
    cause="the build contains no kernel that this GPU can run",
    fixes=_older_release,
    docs="https://developer.nvidia.com/cuda-gpus",
)


@ARCH_TOO_OLD.sign(conclusive=False)
def below_every_kernel(
    context: Context,
    gpu_release: Release,
    cards: tuple[Card, ...],
    cudnn_runtime: str | None = None,
    cudnn_release: CudnnRelease | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """Compute capability below every kernel in the wheel, or below what the installed cuDNN still supports."""
    kernels = (*gpu_release.sass, *gpu_release.ptx)
    # older than all of them, or in a gap, as 5.0 is in the wheels of 2.3
    old = [
        gpu
        for gpu in cards
        if runs_on(gpu_release, gpu.compute_capability) == "no"
        and any(gpu.version < capability(kernel) for kernel in kernels)
    ]
    if not old:
        return _dropped_by_cudnn(context, gpu_release, cards, cudnn_runtime, cudnn_release)
    wheel = f"TensorFlow {gpu_release.version} (wheel)"
    softened = messages is not None and messages.complains and _is_stated(context)
    return Problem(
        cause=f"the wheel of TensorFlow {gpu_release.version} contains no kernel that this GPU can run",
        evidence=tuple(needs(gpu, f"{kernels[0]} or higher", wheel) for gpu in old),
        severity=Severity.WARNING if softened and any(gpu.version >= _OLDEST for gpu in old) else None,
    )


def _dropped_by_cudnn(
    context: Context, release: Release, cards: tuple[Card, ...], runtime: str | None, cudnn: CudnnRelease | None
) -> Problem | None:
    if cudnn is None or cudnn.min_compute_capability is None:
        return None
    lowest = cudnn.min_compute_capability_by_cuda.get(major(release.cuda), cudnn.min_compute_capability)
    old = [gpu for gpu in cards if gpu.version < capability(lowest)]
    if not old:
        return None
    bound = cudnn_bound(context.matrix, release, [gpu.compute_capability for gpu in cards])
    hold = context.remedies.installing("Install the last cuDNN that supports this GPU", bound) if bound else None
    expected = f"{lowest} or higher for cuDNN {runtime or cudnn.version}"
    return Problem(
        cause=f"TensorFlow supports this GPU, but the installed cuDNN {cudnn.version} does not support it any more",
        evidence=tuple(needs(gpu, expected, "compat_matrix.yaml, cuDNN") for gpu in old),
        fixes=hold,
    )


@in_manifests(ARCH_TOO_OLD, unless=("tf.package-removed", "tf.python-unsupported"))
def newest_cudnn_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """The extra allows a cuDNN that no longer supports the described GPU."""
    release, tensorflow = view.release, view.tensorflow
    if release is None or tensorflow is None or view.conda or not view.extra or not (release.sass or release.ptx):
        return
    name = f"nvidia-cudnn-cu{major(release.cuda)}"
    pin, named = release.pip_nvidia.get(name, "=="), view.requirement(name)
    if pin.startswith("==") or (named and _chosen(view, named) is None):
        return
    for gpu in view.target.gpus:
        dropped = cudnn_limit(view.matrix, release, [gpu.compute_capability])
        if dropped is None:
            continue
        fix = write_beside(tensorflow, f"{name}<{dropped}")
        if named is None:
            yield _cudnn_dropped(release, gpu, dropped, tensorflow, fix)
        elif at_least(_chosen(view, named), dropped):
            lower = write(named, f"{name}{pin.split(',')[0]},<{dropped}")
            yield _cudnn_dropped(release, gpu, dropped, named, lower or fix)


def _chosen(view: PlannedEnvironment, cudnn: Requirement) -> str | None:
    """The version that a line pins, also one that the matrix does not have, or that pip chooses for it."""
    return pinned(cudnn) or view.versions.get(cudnn.name)


def _cudnn_dropped(release: Release, gpu: TargetGpu, dropped: str, line: Requirement, fix: Fix) -> Problem:
    exact = pinned(line) if line.name.startswith("nvidia-cudnn") else None
    card = gpu.name or f"compute capability {gpu.compute_capability}"
    return Problem(
        title=f"cuDNN {exact} has dropped {card}" if exact else f"The newest cuDNN has dropped {card}",
        cause=f"the extra of {release.version} allows any cuDNN 9; pip installs the newest, for 7.5 and later",
        evidence=(evidence(line.text, str(line.place), f"cuDNN before {dropped}", "compat_matrix.yaml, cudnn"),),
        fixes=(fix,),
    )


@in_manifests(ARCH_TOO_OLD, unless=("tf.package-removed", "tf.python-unsupported"))
def older_than_conda_builds(view: PlannedEnvironment) -> Iterator[Problem]:
    """The described GPU is older than the kernels of every build."""
    yield from _without_kernels(view, newer=False)


def _without_kernels(view: PlannedEnvironment, *, newer: bool) -> Iterator[Problem]:
    rows = [row for row in conda_builds(view) if row.cuda and (row.sass or row.ptx)]
    for gpu in view.target.gpus if rows else ():
        found = gpu.compute_capability
        above = capability(found) > max(map(capability, (*rows[0].sass, *rows[0].ptx)))
        if above == newer and not any(runs_on(row, found) == "sass" for row in rows):
            name = gpu.name or f"compute capability {found}"
            expected, source = f"one of SASS {' '.join(rows[0].sass)}", f"{CONDA_RECIPE}, {rows[0].version}"
            yield Problem(
                title=f"conda-forge's TensorFlow {rows[0].version} has no kernels for {name}",
                cause="its builds contain no SASS for the GPU",
                evidence=(evidence(f"{name}: compute capability {found}", "--gpu", expected, source),),
                fixes=(Fix("See which build has kernels for it", ("tfgpu plan --gpu NAME",)),),
            )


_NO_KERNEL = ("kernel-image-invalid", "no-kernel-image", "invalid-device-function")
_REFUSED = frozenset({*_NO_KERNEL, "invalid-ptx", "invalid-handle"})  # the driver compiled nothing to keep


@ARCH_TOO_OLD.sign
def left_out_message(
    messages: MessageLog, cards: tuple[Card, ...] | None = None, gpu_release: Release | None = None
) -> Problem | None:
    """TensorFlow leaves the GPU out, or finds no kernel for it and the GPU is an old one."""
    ignored, no_kernel = messages.all("gpu-ignored"), messages.all(*_NO_KERNEL)
    mismatch = [m for m in messages.all("cudnn-status", "cublas-handle") if "ARCH_MISMATCH" in m.text]
    known = capabilities_of(messages, cards)
    old = known and not messages.has(*TOO_NEW) and not any(_is_newer(one, gpu_release) for one in known)
    if not (ignored or mismatch or (no_kernel and old)):
        return undecided(messages, no_kernel, known, "older")
    required = required_by(ignored)
    if messages.has("gpu-created") and one_suffices(known, required):
        return None  # another GPU is used
    expected = f"compute capability {required[0]} or higher" if required else None
    gap = "the build contains no kernel that this GPU can run; its list may have a gap, as that of 2.3 at 5.0"
    found = (*message_evidence(*ignored, *no_kernel, *mismatch, need=expected), *of_card(messages, cards))
    return of_program(messages, Problem(cause=None if ignored else gap, evidence=found), "older")


def _is_newer(gpu: str, release: Release | None) -> bool:
    """Whether a GPU is newer than the build; where the build is unknown, whether it is Ampere or later."""
    kernels = (*release.sass, *release.ptx) if release else ()
    if release is None or not kernels:
        return capability(gpu) >= (8, 0)
    return runs_on(release, gpu) != "sass" and all(capability(gpu) > capability(kernel) for kernel in kernels)


_KEEP_CACHE = Fix(
    text="Until then, keep what the driver compiles, so that only the first run is slow",
    commands=("export CUDA_CACHE_MAXSIZE=4294967296", "export CUDA_CACHE_DISABLE=0"),
)


def _newer_release(context: Context) -> tuple[Fix, ...]:
    """A build with kernels for the GPU; where nothing tells which one it is, how to see that."""
    target = from_facts(context.facts, context.matrix)
    is_refused = any(one.kind in _REFUSED for one in value_or(context.facts.messages, ()))
    kept = () if is_refused else (_KEEP_CACHE,)
    if not target.gpus:
        return (_WHICH_BUILD, *kept)
    others = _other_release(context, "it has kernels for this GPU")
    image = Situation(context.facts, context.matrix).container
    if image is None or others:
        return (*others, *kept)
    # the image has them: what remains is a driver that is older than the image needs
    enough = target.driver is not None and driver_reaches(target.driver, image.min_driver)
    return () if enough else (context.remedies.install_driver(),)


ARCH_TOO_NEW = finding(
    "gpu.arch-too-new",
    layer="GPU",
    severity=Severity.ERROR,
    title="The GPU is newer than the kernels in this TensorFlow",
    despite_verified=True,
    cause="the build has no machine code (SASS) for this GPU: the driver compiles its PTX at first use, which takes "
    "up to half an hour, or rejects it with INVALID_PTX",
    fixes=_newer_release,
    symptoms=(symptoms.NO_KERNELS_IN_CUBLAS,),
    docs="https://developer.nvidia.com/cuda-gpus",
)


@ARCH_TOO_NEW.sign(conclusive=False)
def no_machine_code(
    context: Context, gpu_release: Release, cards: tuple[Card, ...], messages: MessageLog | None = None
) -> Problem | None:
    """No SASS for the GPU: PTX is compiled at first use, or there is none that it can run."""
    kernels = (*gpu_release.sass, *gpu_release.ptx)
    ways = {gpu: runs_on(gpu_release, gpu.compute_capability) for gpu in cards if kernels}
    new = [
        gpu
        for gpu, way in ways.items()
        if way == "ptx" or (way != "sass" and all(gpu.version > capability(kernel) for kernel in kernels))
    ]
    if not new:
        return None
    ptx = f" and PTX {', '.join(gpu_release.ptx)}" if gpu_release.ptx else ""
    expected = f"SASS for it; the wheel has {', '.join(gpu_release.sass)}{ptx}"
    found = tuple(needs(gpu, expected, f"TensorFlow {gpu_release.version} (wheel)") for gpu in new)
    if all(ways[gpu] == "ptx" for gpu in new):
        # what is stated weighs less than what programs print beside it
        softened = messages is not None and _is_stated(context)
        return Problem(evidence=found, severity=Severity.WARNING if softened else None)
    return Problem(
        cause="the wheel contains neither SASS nor PTX that this GPU can run",
        evidence=found,
        fixes=_other_release(context, "it has kernels for this GPU"),
    )


@ARCH_TOO_NEW.sign(unless=("gpu.arch-too-old",))
def no_kernels_message(
    context: Context,
    messages: MessageLog,
    cards: tuple[Card, ...] | None = None,
    gpu_release: Release | None = None,
    toolkits: tuple[Toolkit, ...] | None = None,
) -> Problem | None:
    """TensorFlow reports that it has no kernels for the GPU, or the driver rejects what it has."""
    if compiler := messages.all("nvcc-too-old"):
        return _compiler_too_old(compiler)
    if messages.has("ptx-too-new-for-driver") and not messages.has("no-kernels-for-gpu"):
        return None
    known = capabilities_of(messages, cards)
    reported, no_kernel = messages.all(*TOO_NEW), messages.all(*_NO_KERNEL)
    rejected = (*no_kernel, *messages.all("invalid-handle"))  # an invalid handle alone is evidence for a new GPU only
    newer = any(_is_newer(one, gpu_release) for one in known)
    compiled = _opened_before_gpu(context, messages, known) or _wrong_in_old_cuda(context, messages, toolkits, known)
    if not (reported or compiled or (rejected and newer)):
        return undecided(messages, no_kernel, known, "newer")
    found = message_evidence(*reported, *rejected, compiled)
    return of_program(messages, Problem(evidence=(*found, *of_card(messages, cards))), "newer")


def _opened_before_gpu(context: Context, log: MessageLog, known: list[str]) -> Message | None:
    """The line in which a CUDA is opened that cannot compile for the GPU at all, so that the driver has to."""
    for name, message in log.libraries("library-opened"):
        library = known_library(name)
        if library is None or library.cuda_version is None:
            continue
        # libcudart.so.11.0 belongs to 11.0 and to 11.8 alike: from 11 on the name shows the major version only
        newest = library.cuda_version
        if at_least(newest, "11") is not False:
            newest = f"{major(newest)}.99"
        if _is_before(context, [newest], known):
            return message
    return None


def _wrong_in_old_cuda(
    context: Context, log: MessageLog, toolkits: tuple[Toolkit, ...] | None, known: list[str]
) -> Message | None:
    """A cuBLAS without kernels for the GPU computes wrong values, or its launches fail, though its handle exists.

    Only in a text: toolkits that probes find on a disk need not be the ones that are used.
    """
    stated = [kit.version for kit in toolkits or () if kit.version]
    if context.probed or not _precedes(context, stated, known):
        return None
    failed = (m for m in log.all("cublas-handle") if re.search(r"EXECUTION_FAILED|launch failed", m.text))
    return log.first("nan-result", "wrong-result") or next(failed, None)


def _precedes(context: Context, cudas: list[str], known: list[str]) -> bool:
    """Whether all these CUDA versions are older than the very cards, by which cuBLAS chooses its kernels."""
    first = {row.compute_capability: row.min_cuda for row in context.matrix.data.architectures}
    exact = [cuda for one in known if (cuda := first.get(one))]
    return bool(cudas and exact) and all(at_least(cuda, one) is False for cuda in cudas for one in exact)


def _is_before(context: Context, cudas: list[str], known: list[str]) -> bool:
    """Whether all these CUDA versions are older than the first that compiles for these GPUs."""
    first = [cuda for one in known if (cuda := _first_cuda(context, one))]
    return bool(cudas and first) and all(at_least(cuda, one) is False for cuda in cudas for one in first)


def _first_cuda(context: Context, gpu: str) -> str | None:
    """The first CUDA that compiles SASS which the GPU runs: for its capability, or a lower one of the same major."""
    family = [
        row.min_cuda
        for row in context.matrix.data.architectures
        if row.min_cuda and major(row.compute_capability) == major(gpu)
        if capability(row.compute_capability) <= capability(gpu)
    ]
    return min(family, key=numbers, default=None)


def _compiler_too_old(messages: tuple[Message, ...]) -> Problem:
    """nvcc is asked to compile for an architecture that came after it, or that it has dropped."""
    return Problem(
        title="This CUDA compiler does not support the GPU's architecture",
        cause="each CUDA compiles for the architectures of its time: a newer GPU needs a newer CUDA, and support for "
        "the oldest is removed from time to time",
        evidence=message_evidence(*messages),
        fixes=(
            Fix(text="Find the CUDA that supports the GPU, and build with it", commands=("tfgpu matrix cuda",)),
            Alternative(
                text="Find a TensorFlow that is built for it",
                commands=("tfgpu matrix tensorflow --gpu NAME --newest",),
            ),
        ),
    )


@in_manifests(ARCH_TOO_NEW, unless=("tf.package-removed", "tf.python-unsupported"))
def newer_than_conda_builds(view: PlannedEnvironment) -> Iterator[Problem]:
    """The described GPU is newer than the kernels of every build."""
    yield from _without_kernels(view, newer=True)
