"""Findings about the NVIDIA driver as CUDA uses it: whether it is recent enough, and whether CUDA starts."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, finding
from tfgpu_doctor.findings.declaration import evidence as line
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.compatibility import driver_reaches, oldest_driver
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.rows import PtxOnly
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.base_images import base_named, driver_of
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import CallResult, value_or
from tfgpu_doctor.records.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.records.versions import at_least, major, minor, numbers, same_minor

TOO_OLD = finding(
    "driver.too-old",
    layer="Driver",
    severity=Severity.ERROR,
    title="The NVIDIA driver is too old for the CUDA version in use",
    despite_verified=True,
    cause="the CUDA version in use requires a newer driver",
    pointless_after=("driver.version-mismatch", "driver.stub-loaded"),
    symptoms=(symptoms.OLD_DRIVER,),
    docs="https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
)


def _drivers(context: Context, cuda: str | None) -> tuple[str | None, str | None]:
    """The oldest driver that runs a CUDA at all, and the one that its toolkit was published with."""
    toolkit = context.matrix.cuda(cuda) if cuda else None
    if toolkit is None:
        return None, None
    if _is_of_windows(context):
        return toolkit.oldest_driver_windows, toolkit.min_driver_windows or toolkit.oldest_driver_windows
    return toolkit.oldest_driver_linux, toolkit.min_driver_linux or toolkit.oldest_driver_linux


def _is_of_windows(context: Context) -> bool:
    return value_or(context.facts.host.os, None) in ("windows", "wsl2")  # also below an image


def _requirement(
    context: Context, cuda: str | None, *, compiles: bool
) -> tuple[str | None, str | None, str | None, str]:
    """The CUDA in use, the oldest driver for it at all, the one that is needed here, and what needs it.

    An image has its own CUDA, and starts on the driver that this was published with; compiling PTX takes that, too.
    """
    image = context.remedies.image
    base = base_named(image, context.matrix) if image else None
    cuda = base.cuda if base and base.cuda else cuda
    oldest, published = _drivers(context, cuda)
    if base is None or base.cuda is None:
        return cuda, oldest, published if compiles else oldest, f"CUDA {cuda}"
    needed = published if _is_of_windows(context) else driver_of(base, context.matrix)
    return cuda, oldest, needed, f"CUDA {cuda} of {image}"


def _needed_on(context: Context, release: Release, cards: tuple[Card, ...] | None) -> str | None:
    """The oldest driver for a release on the GPUs that are known."""
    known = [card.compute_capability for card in cards or ()]
    return oldest_driver(release, known, windows=_is_of_windows(context))


def _by_wheel(
    context: Context, release: Release | None, cards: tuple[Card, ...] | None, cuda: str | None, alone: object
) -> str | None:
    """The driver for a known wheel, where what fails is its CUDA, or its PTX that stands alone; None for an image."""
    own = release and release.cuda and cuda and same_minor(release.cuda, cuda) and not context.remedies.image
    return _needed_on(context, release, cards) if release and (own or alone) else None


def _is_older(driver: str | None, oldest: str | None) -> bool:
    """Whether a driver is certainly older; a branch stands for its newest, and what cannot be read is not older."""
    if driver is None or oldest is None or at_least(driver, oldest) is not False:
        return False
    return not driver_reaches(driver, oldest)


def _problem(
    context: Context,
    evidence: tuple[Evidence, ...],
    cuda: str | None,
    driver: str | None,
    needed: str | None,
    used_by: str = "",
) -> Problem:
    """A newer driver, or an older TensorFlow."""
    older = context.remedies.reinstall_best("the newest release that this driver supports") if driver else ()
    return Problem(
        title=f"Driver {driver} is too old for CUDA {cuda}{used_by}" if driver and cuda else None,
        cause=f"CUDA {cuda}{used_by} requires driver {needed} or newer" if needed else None,
        evidence=evidence,
        fixes=(context.remedies.install_driver(needed), *older),
    )


def _compatibility_refused(context: Context, evidence: tuple[Evidence, ...], needed: str | None) -> Problem:
    return Problem(
        cause="CUDA's forward-compatibility libcuda works on data-center GPUs only; this GPU needs a newer driver",
        evidence=evidence,
        fixes=(
            context.remedies.install_driver(needed),
            Alternative(
                text="Remove the forward-compatibility package (cuda-compat) and its folder from the loader "
                "path, or use an image with an older CUDA"
            ),
        ),
    )


@TOO_OLD.sign
def below_minimum(
    context: Context,
    driver_version: str,
    gpu_release: Release,
    cards: tuple[Card, ...] | None = None,
    cuda_init: CallResult | None = None,
    cuda_supported: str | None = None,
) -> Problem | None:
    """Older than the minimum for the CUDA major version, or the forward-compatibility libcuda was refused."""
    cuda = gpu_release.cuda
    oldest, _ = _drivers(context, cuda)
    supports = f" (supports CUDA up to {cuda_supported})" if cuda_supported else ""
    expected = (f"{oldest} or newer for CUDA {cuda}", "compat_matrix.yaml, CUDA toolkits")
    if _is_older(driver_version, oldest):
        found = line(f"driver {driver_version}{supports}", context.source("driver.version"), *expected)
        needed = _needed_on(context, gpu_release, cards)
        return _problem(
            context, (found,), cuda, driver_version, needed, used_by=f" of TensorFlow {gpu_release.version}"
        )
    if cuda_init is None or cuda_init.code != answers.COMPATIBILITY_REFUSED or oldest is None:
        return None
    init = answers.returned("cuInit", cuda_init, "driver.cuda_init", context)
    found = line(f"driver {driver_version}", context.source("driver.version"))
    return _compatibility_refused(context, (init, found), _needed_on(context, gpu_release, cards))


@TOO_OLD.sign
def cannot_compile_ptx(
    context: Context,
    driver_version: str,
    gpu_release: Release,
    cards: tuple[Card, ...],
    cuda_supported: str | None = None,
    planned: PlannedEnvironment | None = None,
) -> Problem | None:
    """Recent enough for the CUDA of the release, but not for what it has for the GPU as PTX alone."""
    alone, needed = _alone(gpu_release, cards), _needed_on(context, gpu_release, cards)
    oldest = oldest_driver(gpu_release, windows=_is_of_windows(context))
    if alone is None or _is_older(driver_version, oldest) or not _is_older(driver_version, needed):
        return None
    _, ptx = alone
    if at_least(cuda_supported or _libcuda_of_image(planned), ptx.cuda):
        return None  # libcuda is that of the forward-compatibility package
    supports = f" (supports CUDA up to {cuda_supported})" if cuda_supported else ""
    expected = f"{needed} or newer for PTX {ptx.isa}", f"the fat binaries of TensorFlow {gpu_release.version}"
    return Problem(
        title=f"Driver {driver_version} is too old for TensorFlow {gpu_release.version} on this GPU",
        cause=_only_ptx(gpu_release, alone, needed),
        evidence=(line(f"driver {driver_version}{supports}", context.source("driver.version"), *expected),),
        fixes=_instead_of_ptx(context, needed, driver_version),
    )


def _alone(release: Release | None, cards: tuple[Card, ...] | None) -> tuple[Card, PtxOnly] | None:
    """The GPU that runs the newest PTX for want of SASS, and that PTX."""
    known = release.ptx_only if release else {}
    found = [(card, known[card.compute_capability]) for card in cards or () if card.compute_capability in known]
    return max(found, key=lambda pair: numbers(pair[1].isa), default=None)


def _libcuda_of_image(planned: PlannedEnvironment | None) -> str | None:
    """The CUDA of an image, whose forward-compatibility libcuda is used on data-center GPUs."""
    base = planned.base if planned and is_data_centre(planned.target) else None
    return minor(base.cuda) if base and base.cuda else None


def _only_ptx(release: Release, alone: tuple[Card, PtxOnly], needed: str | None) -> str:
    card, ptx = alone
    return (
        f"{ptx.fat_binaries} of the {ptx.of} fat binaries in TensorFlow {release.version} have no machine code (SASS) "
        f"for compute capability {card.compute_capability}: the driver compiles their PTX, and driver {needed} is the "
        f"first that knows PTX {ptx.isa}. Until then, the first such operation fails with "
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    )


def _instead_of_ptx(context: Context, needed: str | None, driver: str | None) -> tuple[Fix, ...]:
    """A newer driver; where this one is known, a release that it runs, or a build with machine code for the GPU."""
    newer, why = context.remedies.install_driver(needed), "it runs on this driver"
    if driver is None:
        return (newer,)
    return (newer, *context.remedies.reinstall_best(why), *context.remedies.beside_the_wheels(why))


@TOO_OLD.sign(unless=("container.no-gpu", "wsl.setup", "gpu.none"))
def insufficient_driver_message(
    context: Context,
    messages: MessageLog,
    cuda_init: CallResult | None = None,
    driver_version: str | None = None,
    cuda_in_use: str | None = None,
    cards: tuple[Card, ...] | None = None,
    gpu_release: Release | None = None,
) -> Problem | None:
    """The runtime or the container tool reports it, forward compatibility was refused, or cuInit fails below it."""
    by_ptx = messages.has("ptx-too-new-for-driver")
    refused = answers.has_code(cuda_init, answers.COMPATIBILITY_REFUSED)
    cuda_in_use, oldest, needed, why = _requirement(context, cuda_in_use, compiles=by_ptx or refused)
    certain = [
        *messages.all("driver-insufficient", "ptx-too-new-for-driver", "forward-compatibility"),
        *answers.hook_failures(messages, "unsatisfied"),
    ]
    failed = messages.all("cuinit-failed", "no-cuda-device")
    if refused or (failed and _is_older(driver_version, oldest)):
        certain += [*failed, *messages.all("kernel-version")]
    elif not certain:
        return None
    alone = _alone(gpu_release, cards) if by_ptx else None
    why = f"PTX {alone[1].isa}" if alone else why
    needed = _by_wheel(context, gpu_release, cards, None if by_ptx else cuda_in_use, alone) or needed
    evidence = message_evidence(
        *certain,
        *messages.all("possibly-old-driver"),  # not conclusive on its own
        need=f"{needed} or newer for {why}" if needed else None,
    )
    if refused:
        return _compatibility_refused(context, evidence, needed)
    if gpu_release and alone:
        fixes = _instead_of_ptx(context, needed, driver_version)
        return Problem(cause=_only_ptx(gpu_release, alone, needed), evidence=evidence, fixes=fixes)
    return _problem(context, evidence, cuda_in_use, driver_version, needed)


@in_manifests(TOO_OLD, unless=("tf.python-unsupported",))
def image_refuses_to_start(view: PlannedEnvironment) -> Iterator[Problem]:
    """The described driver is older than the base image accepts; the release itself is judged over facts."""
    driver, base = view.target.driver, view.base
    needed = driver_of(base, view.matrix) if base else None
    if driver is None or base is None or needed is None or driver_reaches(driver, needed):
        return
    if view.target.os == "windows":
        return
    forward = is_data_centre(view.target)
    if forward and base.container and major(driver) in base.container.data_center_branches:
        return
    refuses = f'the container refuses to start: "unsatisfied condition: cuda>={minor(base.cuda)}"'
    source = f"{base.image.place}: CUDA {base.cuda}"
    yield Problem(
        title=f"{base.image.reference} needs driver {needed}",
        cause=f"{refuses}; on data-center GPUs, CUDA's forward compatibility can help" if forward else refuses,
        evidence=(line(f"driver {driver}", "--driver", f"driver {needed} or newer", source),),
        fixes=(Fix(f"Install driver {needed} or newer on the host"), Alternative("Use an image with an older CUDA")),
        severity=Severity.WARNING if forward else Severity.ERROR,
    )


_VISIBLE = Fix(
    text="Check whether an environment variable hides the GPU, and whether the driver lists it",
    commands=("env | grep VISIBLE_DEVICES", "nvidia-smi -L"),
)
# CUresult (cuda.h) → why, what to do. Codes with a finding of their own are left out.
_RESULTS: dict[int, tuple[str, tuple[Fix, ...]]] = {
    answers.OUT_OF_MEMORY: (
        "the machine, not the GPU, gives CUDA no memory to start: the address space of the process is limited, or the "
        "memory of the machine or the container is used up",
        (answers.MEMORY_OF_PROCESS, answers.KERNEL_LOG),
    ),
    3: (
        "the driver could not start: device nodes or the module nvidia-uvm are missing",
        (answers.DEVICE_NODES, answers.KERNEL_LOG),
    ),
    46: ("another process uses the GPU, whose compute mode allows only one", (_VISIBLE, answers.DEVICE_NODES)),
    100: (
        "the driver lists a GPU that CUDA cannot use: no permission for /dev/nvidia*, or no nvidia-uvm",
        (answers.DEVICE_NODES,),
    ),
    101: (
        "a device was requested that does not exist, or a MIG instance that no longer exists",
        (_VISIBLE, answers.KERNEL_LOG),
    ),
    answers.SYMBOL_NOT_FOUND: (
        f"libcuda lacks a function of its driver. In a container under WSL2: {answers.NOT_MOUNTED}",
        (answers.UPDATE_TOOLKIT, answers.KERNEL_LOG),
    ),
    802: (
        "the NVSwitch fabric is not ready: the machine requires the Fabric Manager of exactly the driver's version",
        (answers.FABRIC_MANAGER,),
    ),
    999: (
        "an internal error of the driver: usually nvidia-uvm after suspend or an update, sometimes the hardware",
        (answers.RELOAD_UVM, answers.RESTART, answers.KERNEL_LOG),
    ),
}

INIT_FAILED = finding(
    "driver.init-failed",
    layer="Driver",
    severity=Severity.ERROR,
    title="The driver is loaded, but CUDA cannot be initialised",
    cause="the CUDA driver cannot start; the kernel log may say why",
    fixes=lambda _: (answers.KERNEL_LOG, answers.RELOAD_UVM, answers.DEVICE_NODES),
    pointless_after=(
        *("driver.version-mismatch", "driver.stub-loaded", "driver.not-loaded", "driver.missing"),
        *("driver.unresponsive", "container.no-gpu", "wsl.setup", "gpu.hidden", "gpu.mig", "gpu.fault"),
        "env.address-space-limit",
    ),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)
_JOIN_GROUP = Fix(
    text="Join the group of the device nodes (usually video or render), and log in anew",
    commands=("ls -l /dev/nvidia*", 'sudo usermod -aG video "$USER"'),
)
_OTHER_FINDINGS = (0, *answers.STUB_LIBRARY, answers.LIBCUDA_NOT_OPENED, 803, answers.COMPATIBILITY_REFUSED)


@INIT_FAILED.sign(unless=("driver.*", "gpu.none"))
def cuinit_result(
    context: Context, cuda_init: CallResult, has_gpu: bool | None = None, messages: MessageLog | None = None
) -> Problem | None:
    """cuInit returned an error that is the subject of no other finding, or crashed."""
    code = cuda_init.code
    if code > 0 and messages is not None and messages.has("device-permission"):
        return Problem(
            title="This user has no permission for the device nodes of the GPU",
            cause="CUDA and NVML open /dev/nvidia*, which this user may not: root, or the members of a group, may",
            evidence=message_evidence(*messages.all("device-permission", "cuinit-failed")),
            fixes=(_JOIN_GROUP, answers.DEVICE_NODES),
        )
    if code in _OTHER_FINDINGS or has_gpu is False or (code == 100 and not has_gpu):  # 100: no device
        return None
    if code > 0:
        cause, fixes = _RESULTS.get(code, (None, None))
        return Problem(
            title=f"CUDA cannot be initialised: {cuda_init.name or f'error {code}'}",
            cause=cause,
            evidence=(answers.returned("cuInit", cuda_init, "driver.cuda_init", context),),
            fixes=fixes,
        )
    packages = Fix(
        text="Check which packages the driver's libraries come from",
        commands=("ldconfig -p | grep -E 'libcuda|nvidia-ml'",),
    )
    return Problem(
        cause="the driver's library crashes, and TensorFlow with it: its files are damaged, or of several versions",
        evidence=(line(cuda_init.message, context.source("driver.cuda_init"), "an answer"),),
        fixes=(context.remedies.install_driver(), packages),
    )
