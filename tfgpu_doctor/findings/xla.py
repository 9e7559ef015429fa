"""XLA's compiler, libdevice and ptxas."""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.facts.facts import Message, XlaFile, value_or
from tfgpu_doctor.facts.report import Alternative, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, capability, major, minor
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Cards, Checks, XlaFiles, fetch
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER, XLA_READS_PACKAGES_SINCE
from tfgpu_doctor.matrix.loader import KnownIssue, Release

KERAS_SINCE = "2.11"  # Keras' optimizers, and from 2.16 on (Keras 3) whole models, are compiled by XLA on a GPU
_WITHOUT_CUDA = ("cuda.missing", "cuda.version-mismatch", "tf.install-damaged")  # the compiler comes with CUDA


def _severity(release: Release, usable: int, checks: Checks, word: str) -> Severity | None:
    """How grave it is: an error where XLA has already failed for it; None without a GPU, or before Keras used XLA."""
    compiled = [check for check in checks if check.kind == "xla"]
    if any(word in (check.error or "") for check in compiled):
        return Severity.ERROR
    needed = usable and at_least(release.version, KERAS_SINCE) and not any(check.ok for check in compiled)
    return Severity.WARNING if needed else None


def _searched(roots: XlaFiles) -> str:
    return ", ".join(root.path for root in roots) or "CUDA's folders"


def _shown_cuda(context: Context) -> str:
    """CUDA 11 where nothing tells the release, and all toolkits are of it: TensorFlow up to 2.14."""
    shown = [kit.version or "" for kit in value_or(context.facts.cuda.toolkits, ())]
    return shown[0] if {major(one) for one in shown} == {"11"} else ""


def _get_compiler(context: Context) -> tuple[Fix, ...]:
    return _for_this_ptxas(context) or _install_compiler(context)


def _install_compiler(context: Context) -> tuple[Fix, ...]:
    """The package of nvcc has both; releases before 2.14 look into it only where XLA_FLAGS says so."""
    remedies, release = context.remedies, value_or(fetch("gpu_release", context), None)
    folder = "specify the folder that contains nvvm/libdevice and bin/ptxas"
    version = (release and release.cuda) or _shown_cuda(context)
    cuda = major(version or "12")
    old = at_least(release.version, XLA_READS_PACKAGES_SINCE) is False if release else cuda == "11"
    if old and cuda == "11" and remedies.os != "windows":
        commands = (*remedies.pip_install("nvidia-cuda-nvcc-cu11"), remedies.xla_data_dir(XLA_COMPILER))
        return (Fix("Install NVIDIA's compiler package for CUDA 11, and tell XLA its folder", commands),)
    if old or remedies.os == "windows":
        return (_data_dir(context, f"Install the {f'CUDA {version}'.strip()} toolkit with its compiler, and {folder}"),)
    package = f"nvidia-cuda-nvcc-cu{cuda}" if at_least(cuda, "13") is False else "nvidia-cuda-nvcc"
    pinned = package + (release.pip_nvidia.get(package, "") if release else "")
    wheel = remedies.installing("Install NVIDIA's compiler package, which has both (conda: cuda-nvcc)", pinned)
    if context.probed and wheel:
        return wheel
    there = _data_dir(context, f"{folder.capitalize()} (conda: $CONDA_PREFIX)")
    return (*(wheel if release else _with_its_folder(context, wheel)), Alternative(there.text, there.commands))


def _for_this_ptxas(context: Context) -> tuple[Fix, ...]:
    """What repairs a wrong folder of ptxas, or one that is older than the GPU; empty where neither is printed."""
    if root := next(iter(context.log.values("ptxas-below-bin", "root")), ""):
        text = "Name the folder above bin, to which XLA adds bin/ptxas itself, in place of what XLA_FLAGS has now"
        return (Fix(text, (f"export XLA_FLAGS=--xla_gpu_cuda_data_dir={context.remedies.quote(root)}",)),)
    archs = [f"{one[3:-1]}.{one[-1]}" for one in context.log.values("no-arch-in-ptxas", "arch")]
    model = next(filter(None, map(context.matrix.architecture, archs)), None)
    return _newer_ptxas(context, model.min_cuda or "11.1") if model else ()


def _newer_ptxas(context: Context, cuda: str) -> tuple[Fix, ...]:
    """Put a newer ptxas where one is looked for: XLA_FLAGS does not reach what tunes cuDNN, nor does PATH come first.

    findCudaExecutable in stream_executor/gpu/asm_compiler.cc, and CandidateCudaRoots; conv_ops.cc sets no folder.
    """
    remedies, release = context.remedies, value_or(fetch("gpu_release", context), None)
    if context.is_in_container:
        where = "in the container (a later tag of its image), whose CUDA counts; that of the host does not"
        return (Fix(f"Install CUDA {cuda} or newer {where}"),)
    if remedies.os == "windows":
        return (Fix(f"Install CUDA {cuda} or newer, and put its bin folder first on PATH"),)
    folder = f"/usr/local/cuda-{release.cuda}" if release and release.cuda else "/usr/local/cuda"
    first = f"TensorFlow takes the ptxas of its own CUDA ({folder}), then of /usr/local/cuda, before one on PATH"
    first = first if release else "TensorFlow takes the ptxas of /usr/local/cuda-X.Y, its own CUDA, then of " + folder
    there = [kit.version for kit in value_or(context.facts.cuda.toolkits, ()) if at_least(kit.version, cuda)]
    if there:
        link = f"sudo ln -sfn /usr/local/cuda-{minor(there[0])} /usr/local/cuda"
        text = f"{first}: rename the folder of the older CUDA, and let the link point to CUDA {minor(there[0])}"
        return (Fix(text, ("ls -ld /usr/local/cuda*", link)),)
    new = remedies.in_site(f"{XLA_COMPILER}/bin/ptxas")
    copy = f"sudo cp -b {new} {folder}/bin/ptxas"
    text = f"{first}: put that of CUDA {cuda} or newer there. The lines are warnings, and the driver compiles instead"
    return (Fix(text, (*remedies.pip_install(f"nvidia-cuda-nvcc-cu{major(cuda)}"), copy)),)


def _with_its_folder(context: Context, wheel: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """Where nothing tells the release: what is before 2.14 does not look into the package."""
    before = "TensorFlow 2.14 and before: nvidia-cuda-nvcc-cu11"
    text = f"Install NVIDIA's compiler package ({before}), and tell XLA its folder"
    return tuple(Fix(text, (*one.commands, context.remedies.xla_data_dir(XLA_COMPILER))) for one in wheel)


def _data_dir(context: Context, text: str, folder: str = "") -> Fix:
    """Tell XLA where to look."""
    default = "%CUDA_PATH%" if context.remedies.os == "windows" else "/usr/local/cuda"
    return Fix(text, (context.remedies.xla_data_dir(folder or default),))


LIBDEVICE_MISSING = finding(
    "xla.libdevice-missing",
    layer="CUDA",
    severity=Severity.WARNING,
    title="XLA does not find libdevice.10.bc",
    cause="XLA links this file into functions that use exp, pow, sin and the like, which Keras' optimizers and models "
    "do; without it, compiling them fails",
    fixes=_get_compiler,
    explained_by=_WITHOUT_CUDA,
    docs="https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/cuda_root_path.cc",
)


@LIBDEVICE_MISSING.sign(conclusive=False)
def not_in_searched_folders(
    context: Context,
    gpu_release: Release,
    gpus_usable: int,
    libdevice: XlaFiles,
    xla_roots: XlaFiles = (),
    checks: Checks = (),
) -> Problem | None:
    """The first folder with nvvm/libdevice decides, even when the file is not in it."""
    severity = _severity(gpu_release, gpus_usable, checks, "libdevice")
    if severity is None or (libdevice and libdevice[0].problem is None):
        return None
    if not libdevice:
        seen = evidence("no nvvm/libdevice/libdevice.10.bc", _searched(xla_roots), "in one of these folders")
        return Problem(evidence=(seen,), severity=severity)
    first, good = libdevice[0].path, next((file.path for file in libdevice if file.problem is None), None)
    root = good.removesuffix("/nvvm/libdevice/libdevice.10.bc") if good else "/path/to/cuda"
    return Problem(
        title=f"XLA looks for libdevice.10.bc in {first.rsplit('/', 1)[0]}, which does not contain it",
        cause=f"XLA uses the first folder that contains nvvm/libdevice (here through {libdevice[0].via}), and no other",
        evidence=(evidence(str(libdevice[0].problem), first, good or "libdevice.10.bc"),),
        fixes=(_data_dir(context, "Specify a toolkit that contains it", root),),
        severity=severity,
    )


@LIBDEVICE_MISSING.sign()
def libdevice_message(messages: MessageLog) -> Problem | None:
    """XLA says so; "JIT compilation failed" is how it reaches Python, when the line with the reason is not there."""
    lines = messages.all("libdevice-not-found")
    failed = [message for message in messages.all("jit-failed") if "PTX" not in message.text]
    if lines:
        return Problem(severity=Severity.ERROR, evidence=message_evidence(*lines, *failed))
    # why a compilation fails, too
    others = ("ptxas-refused", "ptxas-not-found", "ptxas-failed", "out-of-memory", "invalid-ptx", "no-kernel-image")
    if not failed or messages.has(*others, "cuda-error"):
        return None
    return Problem(possible=True, severity=Severity.WARNING, evidence=message_evidence(*failed))


PTXAS_MISSING = finding(
    "xla.ptxas-missing",
    layer="CUDA",
    severity=Severity.WARNING,
    title="XLA does not find a ptxas that it accepts",
    cause="XLA compiles with the first ptxas that it finds. Without one that it accepts, it uses the compiler "
    "of the driver, or fails. It compiles Keras' optimizers and models, too",
    fixes=_get_compiler,
    explained_by=("xla.libdevice-missing", "gpu.arch-*", *_WITHOUT_CUDA),
    docs="https://github.com/openxla/xla/blob/main/xla/stream_executor/cuda/subprocess_compilation.cc",
)


@PTXAS_MISSING.sign(conclusive=False)
def none_accepted(
    context: Context,
    gpu_release: Release,
    gpus_usable: int,
    ptxas: XlaFiles,
    xla_roots: XlaFiles = (),
    checks: Checks = (),
    cards: Cards = (),
) -> Problem | None:
    """There is none, or the first one is refused or known to compile wrongly (the matrix says which)."""
    severity = _severity(gpu_release, gpus_usable, checks, "ptxas")
    if severity is None:
        return None
    if not ptxas:
        searched = f"PATH and the bin folders of {_searched(xla_roots)}"
        return Problem(evidence=(evidence("no ptxas", searched, "an executable ptxas"),), severity=severity)
    capabilities = [card.compute_capability for card in cards]
    for file in ptxas:
        known = context.matrix.issues_for(gpu_release, ptxas=file.version, compute_capabilities=capabilities)
        issues = [issue for issue in known if issue.condition.ptxas and issue.affects == "run"]
        passed_over = bool(issues) and all("passes over" in issue.title for issue in issues)
        if passed_over and file is not ptxas[-1]:
            continue  # XLA goes on to the next one
        return _known_issue(context, file, issues[0], severity) if issues else None
    return None


def _known_issue(context: Context, file: XlaFile, issue: KnownIssue, severity: Severity) -> Problem:
    commands = tuple(c.replace("python3 -m pip", f"{context.remedies.python} -m pip") for c in issue.commands)
    return Problem(
        title=f"ptxas {file.version}: {issue.title}",
        cause=issue.symptom,
        evidence=(evidence(f"ptxas {file.version} ({file.via})", file.path, "another version", issue.source),),
        fixes=(Fix(issue.fix, commands),),
        severity=severity if issue.severity == "warning" else Severity.ERROR,
        despite_verified=True,  # a few functions are compiled wrongly, most of them not
    )


def _unless_the_driver_compiles(lines: Iterable[Message]) -> Severity | None:
    return None if all("fallback to the NVIDIA driver" in one.text for one in lines) else Severity.ERROR


@PTXAS_MISSING.sign(unless=("gpu.arch-too-new",))
def ptxas_before_the_gpu(context: Context, messages: MessageLog, gpu_release: Release, cards: Cards) -> Problem | None:
    """ptxas fails, and the toolkit of this release is older than the GPU."""
    failed = [one for one in messages.all("ptxas-failed") if "32512" not in one.text]  # of the shell: not found
    toolkit = context.matrix.cuda(gpu_release.cuda) if gpu_release.cuda else None
    known = toolkit.compute_capabilities if toolkit else ()
    newer = [card for card in cards if known and card.version > max(map(capability, known))]
    if not (failed and newer) or messages.has("driver-compiles-ptx"):
        return None
    return Problem(
        title=f"The ptxas of CUDA {gpu_release.cuda} does not know compute capability {newer[0].compute_capability}",
        severity=_unless_the_driver_compiles(failed),
        evidence=message_evidence(*failed, need=f"a ptxas for {newer[0].name}"),
    )


@PTXAS_MISSING.sign(unless=("gpu.arch-too-new",))
def ptxas_older_than_the_gpu(context: Context, messages: MessageLog, cards: Cards = ()) -> Problem | None:
    """ptxas does not know the architecture, in the log of a TensorFlow that has its CUDA from a toolkit or an image."""
    lines = messages.all("no-arch-in-ptxas")
    row = next(filter(None, (context.matrix.architecture(card.compute_capability) for card in cards)), None)
    if not lines or row is None or row.min_cuda is None or "12" in messages.values("log-era", "cuda"):
        return None
    return Problem(
        title=f"The ptxas of this CUDA does not know compute capability {cards[0].compute_capability}",
        cause=f"it is older than CUDA {row.min_cuda}; the driver compiles instead, which takes long",
        evidence=message_evidence(*lines),
        severity=_unless_the_driver_compiles(lines) if messages.has("ptxas-failed") else None,
    )


@PTXAS_MISSING.sign()
def ptxas_message(messages: MessageLog) -> Problem | None:
    """ptxas is missing, older than XLA allows, or of a version that XLA refuses."""
    refused = messages.all("ptxas-refused", "no-arch-in-ptxas")
    absent = messages.all("ptx-provider-missing", "ptxas-not-found")
    if not (refused or absent):
        return None
    version = next(iter(messages.values("ptxas-refused", "version")), None)
    # "Relying on driver to perform ptx compilation" is slower, and goes on
    lines = messages.all("ptxas-failed")
    goes_on = messages.has("driver-compiles-ptx") or not (
        messages.has("gpu-fails-said", "no-gpu-listed") or _unless_the_driver_compiles(lines)
    )
    failed = lines and not goes_on
    fatal = any("F " in message.text[:40] for message in (*refused, *absent))
    return Problem(
        title=f"XLA refuses ptxas {version}" if version else None,
        severity=Severity.ERROR if failed or fatal or messages.has("ptx-provider-missing") else None,
        evidence=message_evidence(*refused, *absent, *messages.all("ptxas-failed", "driver-compiles-ptx")),
    )
