"""Findings about driver."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import MISMATCH
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.reported_libraries import at_least
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import CallResult, LibraryFile, Message, PciGpu, SmiResult
from tfgpu_doctor.records.report import Evidence, Fix, Severity

# CUresult (cuda.h) → why, what to do. The codes with a finding of their own are left out: 34, -1, 803, 804.
_UVM = Fix(
    text="Load the module that CUDA needs besides the display driver, and see whether its device node is there",
    commands=("sudo modprobe nvidia-uvm", "ls -l /dev/nvidia-uvm"),
)


_RELOAD = Fix(
    text="After suspend or a crash in the driver: reload nvidia-uvm, while nothing uses the GPU",
    commands=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",),
)


_LOG = Fix(text="See what the kernel says", commands=("sudo dmesg | grep -iE 'NVRM|nvidia|Xid' | tail -n 20",))


_CRASH = (
    Fix(
        text="See which packages the driver's libraries come from",
        commands=("ldconfig -p | grep -E 'libcuda|nvidia-ml'",),
    ),
)


_KNOWN: dict[int, tuple[str, tuple[Fix, ...]]] = {
    3: (
        "the driver could not start: its device nodes or the module nvidia-uvm are missing or out of reach",
        (_UVM, _LOG),
    ),
    100: (
        "the driver lists a GPU, but CUDA gets none: no permission for /dev/nvidia*, or no nvidia-uvm",
        (Fix(text="See who may use the device nodes", commands=("ls -l /dev/nvidia*", "id")), _UVM),
    ),
    101: ("a device that was asked for does not exist, or is a MIG slice that is gone", (_LOG,)),
    802: (
        "the NVSwitch fabric is not up: a machine with NVSwitch needs the Fabric Manager of the driver's very version",
        (
            Fix(
                text="Start the Fabric Manager",
                commands=("sudo systemctl enable --now nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
            ),
        ),
    ),
    999: (
        "the driver failed inside: mostly nvidia-uvm after suspend or an update, sometimes the hardware",
        (_RELOAD, Fix(text="Or restart the machine", commands=("sudo reboot",)), _LOG),
    ),
}


NVML_LIB_RM_VERSION_MISMATCH = 18  # nvml.h, nvmlReturn_t


CUDA_STUB_LIBRARY, CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_COMPAT_NOT_SUPPORTED = 34, 803, 804  # cuda.h, CUresult


RELEASE_NOTES = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"


COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/index.html"


BLOCKED = "calls into the driver block in the kernel: a GPU has fallen off the bus or hangs, or the driver does"


LOOK_FOR_XID = Fix(
    text="Look for Xid errors in the kernel log", commands=("sudo dmesg | grep -iE 'NVRM|Xid' | tail -n 20",)
)


RESTART = Fix(text="Restart the machine; if it comes back, look the Xid number up", commands=("sudo reboot",))


def _differ(module: str | None, libcuda: tuple[LibraryFile, ...] | None, init: CallResult | None) -> bool:
    """Whether CUDA fails over a libcuda of another version; the compatibility package's is newer on purpose."""
    winner = libcuda[0] if libcuda else None
    if module is None or winner is None or winner.version is None or init is None:
        return False
    if init.code in (0, CUDA_COMPAT_NOT_SUPPORTED) or "compat" in winner.path:
        return False
    return _numbers(module) != _numbers(winner.version)


def _numbers(version: str) -> list[int]:
    """The parts as numbers: "450.80.2", as TensorFlow writes it, is 450.80.02."""
    return [int(part) for part in version.split(".") if part.isdecimal()]


def restart_fixes(context: Context) -> tuple[Fix, ...]:
    """Let one version of the driver be loaded everywhere."""
    remedies = context.remedies
    if remedies.os == "wsl2":
        return (Fix(text="Restart WSL from Windows", commands=("wsl.exe --shutdown",)),)
    return (
        Fix(text="Restart the machine", commands=("sudo reboot",)),
        Fix(
            text="Or, when nothing uses the GPU, load the new module without a restart",
            commands=("sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia", "sudo modprobe nvidia", "nvidia-smi"),
        ),
    )


def _older(version: str, minimum: str) -> bool:
    try:
        return Version(version) < Version(minimum)
    except InvalidVersion:  # a vendor's own numbering (Jetson) says nothing about the branch
        return False


_LIBCUDA = re.compile(r"libcuda\.so|nvcuda\.dll", re.IGNORECASE)


_DRIVERLESS = ("library-not-opened", "loader-error")


_NO_DRIVER_IN_HOOK = re.compile(r"driver not loaded|load library failed|nvml error", re.IGNORECASE)


OTHER_IN_HOOK = re.compile(r"version mismatch|unsatisfied condition|timed out|timeout", re.IGNORECASE)


STUB = (34, -1)


_MODULE_GUIDE = "https://us.download.nvidia.com/XFree86/Linux-x86_64/latest/README/commonproblems.html"


DECIDE = Fix(text="To decide, run this on the machine itself, outside any container", commands=("nvidia-smi",))


def no_libcuda(said: MessageLog) -> tuple[str, ...]:
    """Lines in which the driver's library could not be opened."""
    of_cudnn = {m.line for m in said.all("cudnn-part-missing")}  # it asks for libcuda.so without a number
    named = [m.text for name, m in said.libraries(*_DRIVERLESS) if _LIBCUDA.search(name) and m.line not in of_cudnn]
    return (*named, *(m.text for m in said.all("libcuda-not-loaded", "nvml-not-found")))


def driver_fails(said: MessageLog, init: CallResult | None) -> bool:
    """Whether the driver could not be used at all, whatever the reason."""
    kinds = (
        "kernel-driver-not-running",
        "no-cuda-device",
        "cuinit-failed",
        "ngc-no-driver",
        "smi-no-driver",
        "nvml-blocked",
    )
    silent = said.has(*kinds)
    return bool(no_libcuda(said)) or silent or (init is not None and init.code != 0)


def about_driver(said: MessageLog) -> tuple[Message, ...]:
    lost = [m for name, m in said.libraries(*_DRIVERLESS) if _LIBCUDA.search(name)]
    kinds = ("cuinit-failed", "kernel-driver-not-running", "libcuda-not-loaded", "nvml-not-found", "smi-no-driver")
    return (*lost, *said.all(*kinds, "smi-not-found", "smi-no-libcuda", "ngc-no-driver"))


# the kernel's part for CUDA, nvidia-uvm or the NVSwitch fabric, is not ready although the display driver is
UVM = (3, 304, 802, 999)


def _uvm(said: MessageLog) -> Problem:
    commands = ("ls -l /dev/nvidia*", "sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm", "sudo nvidia-modprobe -u -c=0")
    fabric = Fix(
        text="On a machine with NVSwitch: start the Fabric Manager of the driver's very version",
        commands=("sudo systemctl enable --now nvidia-fabricmanager",),
    )
    return Problem(
        title="The driver's module for CUDA, nvidia-uvm, is not usable",
        cause="the display driver runs, and CUDA cannot start over it: nvidia-uvm is not loaded, broke at "
        "suspend or at "
        "an update, or its device node is out of this user's reach; sometimes it is the hardware",
        evidence=message_evidence(*said.all("cuinit-failed", "kernel-version")),
        fixes=(
            Fix(text="Load it anew, while nothing uses the GPU", commands=commands),
            fabric,
            Fix(text="Or restart the machine", commands=("sudo reboot",)),
        ),
    )


_PERSIST = Fix(
    text="Where starting the driver takes long (many GPUs, nothing that keeps them awake): keep it loaded",
    commands=("sudo systemctl enable --now nvidia-persistenced", "sudo nvidia-smi -pm 1"),
)


UNRESPONSIVE = finding(
    "driver.unresponsive",
    layer="Driver",
    severity=Severity.ERROR,
    title="The NVIDIA driver does not answer",
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@UNRESPONSIVE.sign
def unresponsive(context: Context, unresponsive: tuple[str, ...]) -> Problem | None:
    """A call into the driver blocked until the deadline."""
    if not unresponsive:
        return None
    where = context.source("driver.unresponsive")
    return Problem(
        cause=BLOCKED,
        evidence=tuple(evidence(f"{call} did not answer", where, "an answer") for call in unresponsive),
        fixes=(LOOK_FOR_XID, RESTART),
    )


@UNRESPONSIVE.sign
def unresponsive_reported(messages: MessageLog) -> Problem | None:
    """nvidia-smi hangs, or the kernel reports a task that waits for the driver."""
    hung = [m for m in messages.all("hung-task") if re.search(r"nvidia|python|cuda", m.values.get("task", ""))]
    slow = [
        m for m in messages.all("container-hook-failed") if re.search("timed out|timeout", m.values.get("why", m.text))
    ]
    seen = (*messages.all("smi-hangs"), *hung, *slow)
    if not seen:
        return None
    return Problem(
        cause=BLOCKED,
        evidence=message_evidence(*seen),
        fixes=(LOOK_FOR_XID, *((_PERSIST,) if slow else ()), RESTART),
    )


VERSION_MISMATCH = finding(
    "driver.version-mismatch",
    layer="Driver",
    severity=Severity.ERROR,
    title="The loaded kernel module and the driver libraries are of different versions",
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
)


@VERSION_MISMATCH.sign
def version_mismatch(
    context: Context,
    nvml_init: CallResult | None = None,
    cuda_init: CallResult | None = None,
    nvidia_smi: SmiResult | None = None,
    kernel_module: str | None = None,
    libcuda: tuple[LibraryFile, ...] | None = None,
) -> Problem | None:
    """NVML 18 or CUDA 803: typically a driver update without a restart."""
    seen: list[Evidence] = []
    if nvml_init and nvml_init.code == NVML_LIB_RM_VERSION_MISMATCH:
        seen.append(
            evidence(f"nvmlInit: {nvml_init.message} ({nvml_init.code})", context.source("driver.nvml_init"), "success")
        )
    if cuda_init and cuda_init.code == CUDA_SYSTEM_DRIVER_MISMATCH:
        seen.append(
            evidence(f"cuInit: {cuda_init.message} ({cuda_init.code})", context.source("driver.cuda_init"), "success")
        )
    if nvidia_smi and MISMATCH in nvidia_smi.output.lower():
        seen.append(evidence("Driver/library version mismatch", context.source("driver.nvidia_smi"), "a table"))
    if not seen and not _differ(kernel_module, libcuda, cuda_init):
        return None
    if kernel_module:
        library = next((one for one in libcuda or () if one.version), None)
        need = f"{library.version}, the version of {library.path}" if library else None
        seen.append(evidence(f"kernel module {kernel_module}", context.source("driver.kernel_module"), need))
    return Problem(
        cause="the driver was updated while the old kernel module stayed loaded; only a restart loads the new one",
        evidence=tuple(seen),
        fixes=restart_fixes(context),
    )


@VERSION_MISMATCH.sign
def version_mismatch_reported(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """NVML, the kernel and TensorFlow each have a sentence for it; nvidia-smi's own version may differ, too."""
    tools = [
        m for m in messages.all("smi-version") if m.values["tool"].split(".")[0] != m.values["driver"].split(".")[0]
    ]
    seen = (*messages.all("nvml-mismatch", "driver-versions-differ"), *(tools if os != "wsl2" else ()))
    if not seen:
        return None
    return Problem(
        cause="the driver was updated while the old kernel module stayed loaded; only a restart loads the new one",
        evidence=message_evidence(*seen),
        fixes=restart_fixes(context),
    )


STUB_LOADED = finding(
    "driver.stub-loaded",
    layer="Driver",
    severity=Severity.ERROR,
    title="The CUDA toolkit's stub libcuda is loaded instead of the driver's",
    pointless_after=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)


@STUB_LOADED.sign
def stub_loaded(
    context: Context,
    libcuda: tuple[LibraryFile, ...],
    cuda_init: CallResult | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """cuInit answers 34 or -1, or the winning libcuda lies in a folder named stubs."""
    winner = libcuda[0] if libcuda else None
    answered = cuda_init is not None and cuda_init.code in (CUDA_STUB_LIBRARY, -1)
    is_stub = winner is not None and ("/stubs/" in winner.path or (winner.problem or "").startswith("stub"))
    if not answered and not is_stub:
        return None
    seen = []
    if winner:
        seen.append(evidence(winner.path, context.source("driver.libcuda"), "the driver's own libcuda.so.1"))
    if cuda_init and answered:
        seen.append(
            evidence(f"cuInit: {cuda_init.message} ({cuda_init.code})", context.source("driver.cuda_init"), "success")
        )
    path = (variables or {}).get("LD_LIBRARY_PATH", "")
    stubs = [part for part in path.split(":") if "stubs" in part]
    kept = ":".join(part for part in path.split(":") if part and "stubs" not in part)
    commands = (f"export LD_LIBRARY_PATH={context.remedies.quote(kept)}",) if stubs else ()
    return Problem(
        cause="a folder of link-time stubs stands on the loader's path; the stub answers every call with an error",
        evidence=tuple(seen),
        fixes=(
            Fix(text="Take the stubs folder off LD_LIBRARY_PATH and the ldconfig configuration", commands=commands),
        ),
    )


@STUB_LOADED.sign(unless=("wsl.setup",))
def stub_loaded_reported(
    context: Context, messages: MessageLog, cuda_init: CallResult, variables: dict[str, str] | None = None
) -> Problem | None:
    """cuInit answers 34 or -1."""
    if cuda_init.code not in STUB:
        return None
    path = (variables or {}).get("LD_LIBRARY_PATH", "")
    stubs = [
        evidence(f"LD_LIBRARY_PATH has {one}", context.source("variables"))
        for one in path.split(":")
        if "/stubs" in one
    ]
    return Problem(
        cause="a folder of link-time stubs stands on the loader's path, or no driver is there (a container without a "
        "GPU); the stub answers every call with an error",
        evidence=(*message_evidence(*messages.all("cuinit-failed", "stub-library")), *stubs),
        fixes=(
            Fix(
                text="See which libcuda is found first",
                commands=("ldconfig -p | grep libcuda", "echo $LD_LIBRARY_PATH"),
            ),
            Fix(
                text="Take folders named stubs off LD_LIBRARY_PATH and /etc/ld.so.conf.d; in a container, "
                "start it with --gpus all"
            ),
        ),
    )


MISSING = finding(
    "driver.missing",
    layer="Driver",
    severity=Severity.ERROR,
    title="This machine has an NVIDIA GPU but no NVIDIA driver",
    pointless_after=("container.no-gpu", "wsl.setup", "driver.unresponsive"),
    docs="https://www.tensorflow.org/install/pip",
)


@MISSING.sign
def missing(
    context: Context,
    has_gpu: bool,
    libcuda: tuple[LibraryFile, ...],
    kernel_module_loaded: bool,
    pci_gpus: tuple[PciGpu, ...] | None = None,
    nouveau_loaded: bool | None = None,
) -> Problem | None:
    """A GPU on the bus, no libcuda.so.1 and no kernel module."""
    if not has_gpu or libcuda or kernel_module_loaded:
        return None
    seen = [
        evidence(f"{gpu.name or gpu.device_id} at {gpu.address}", context.source("host.pci_gpus"))
        for gpu in pci_gpus or ()
    ]
    seen.append(evidence("no libcuda.so.1", context.source("driver.libcuda"), "the driver's libcuda.so.1"))
    if nouveau_loaded:
        seen.append(evidence("nouveau drives the GPU", context.source("host.nouveau_loaded"), "the nvidia module"))
    return Problem(
        cause="TensorFlow reaches the GPU through the NVIDIA driver, which is not installed",
        evidence=tuple(seen),
        fixes=(context.remedies.install_driver(),),
    )


@MISSING.sign(unless=("gpu.none", "tf.cpu-build", "driver.stub-loaded"))
def missing_reported(
    context: Context,
    messages: MessageLog,
    kernel_module_loaded: bool | None = None,
    kernel_module: str | None = None,
    nvidia_smi: SmiResult | None = None,
    cuda_init: CallResult | None = None,
) -> Problem | None:
    """libcuda cannot be opened; the kernel's half may be there all the same."""
    absent = (
        bool(no_libcuda(messages))
        or messages.has("smi-no-libcuda")
        or (cuda_init is not None and cuda_init.code == 303)
    )
    if not absent and not (messages.has("smi-not-found") and messages.has("cuinit-failed", "no-cuda-device")):
        return None
    works = nvidia_smi is not None and nvidia_smi.exit_code == 0
    title, cause = (
        None,
        "TensorFlow reaches the GPU through the NVIDIA driver, which is not installed, or a container hides it",
    )
    fixes: tuple[Fix, ...] = (context.remedies.install_driver(), DECIDE)
    if kernel_module_loaded or works:
        what = f"kernel module {kernel_module}" if kernel_module else "driver"
        title = f"The {what} runs, but its library libcuda.so.1 is not found"
        cause = "the driver's user-space half is not installed, or lies where this Python's loader does not look"
        fixes = (
            Fix(
                text="See where it is, if anywhere",
                commands=("ldconfig -p | grep libcuda", "find / -name 'libcuda.so*' 2>/dev/null"),
            ),
            Fix(
                text="Install the same driver's compute libraries (Debian: libcuda1; Ubuntu: libnvidia-compute-BRANCH)"
            ),
        )
    return Problem(title=title, cause=cause, evidence=message_evidence(*about_driver(messages)), fixes=fixes)


NOT_LOADED = finding(
    "driver.not-loaded",
    layer="Driver",
    severity=Severity.ERROR,
    title="The NVIDIA driver is installed, but its kernel module is not loaded",
    pointless_after=("container.no-gpu", "wsl.setup", "driver.stub-loaded"),
    symptoms=(symptoms.NO_DEVICE_NODE,),
    docs="https://us.download.nvidia.com/XFree86/Linux-x86_64/latest/README/commonproblems.html",
)


@NOT_LOADED.sign
def not_loaded(
    context: Context,
    has_gpu: bool,
    libcuda: tuple[LibraryFile, ...],
    kernel_module_loaded: bool,
    driver_speaks: bool,
    nouveau_loaded: bool | None = None,
    secure_boot: bool | None = None,
    kernel_module_on_disk: tuple[str, ...] | None = None,
    host_kernel: str | None = None,
) -> Problem | None:
    """User-space libraries are there, the module is not: nouveau, Secure Boot or DKMS."""
    if context.remedies.os != "linux" or not has_gpu or not libcuda or kernel_module_loaded or driver_speaks:
        return None
    seen = [
        evidence(
            "nvidia is not among the loaded modules", context.source("driver.kernel_module_loaded"), "nvidia loaded"
        ),
        evidence(libcuda[0].path, context.source("driver.libcuda")),
    ]
    if nouveau_loaded:
        seen.append(evidence("nouveau is loaded", context.source("host.nouveau_loaded"), "nouveau blacklisted"))
        cause = "the open-source driver nouveau holds the GPU"
        commands: tuple[str, ...] = (
            "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n'"
            " | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
            "sudo update-initramfs -u 2>/dev/null || sudo dracut --force",
            "sudo reboot",
        )
    elif (
        kernel_module_on_disk is not None
        and host_kernel
        and not any(f"/{host_kernel}/" in path for path in kernel_module_on_disk)
    ):
        seen.append(
            evidence(
                f"no nvidia.ko for kernel {host_kernel}",
                context.source("driver.kernel_module_on_disk"),
                "one built for it",
            )
        )
        cause = "the module was not built for the running kernel (after a kernel update, DKMS did not rebuild it)"
        commands = ("sudo dkms autoinstall", "sudo modprobe nvidia", "nvidia-smi")
    elif secure_boot:
        seen.append(evidence("Secure Boot is on", context.source("host.secure_boot"), "a signed and enrolled module"))
        cause = "Secure Boot refuses a kernel module whose signing key is not enrolled"
        commands = ("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der", "sudo reboot")
    else:
        cause = "the module is not loaded; the kernel says why when it is asked to load it"
        commands = ("sudo modprobe nvidia", "sudo dmesg | grep -i nvidia | tail -n 20")
    return Problem(cause=cause, evidence=tuple(seen), fixes=(Fix(text="Load the kernel module", commands=commands),))


@NOT_LOADED.sign(unless=("driver.missing", "driver.version-mismatch", "driver.too-old", "gpu.none"))
def not_loaded_reported(
    messages: MessageLog,
    kernel_module: str | None = None,
    nvidia_smi: SmiResult | None = None,
    cuda_init: CallResult | None = None,
) -> Problem | None:
    """nvidia-smi or TensorFlow finds no module: nouveau, Secure Boot, DKMS, a laptop that runs on its other GPU."""
    seen = messages.all("kernel-driver-not-running", "smi-no-driver", "module-not-loaded", "module-init-failed")
    works = nvidia_smi is not None and nvidia_smi.exit_code == 0
    if cuda_init is not None and cuda_init.code in UVM and not messages.has("gpu-lost", "xid"):
        return _uvm(messages)
    if not seen or kernel_module or works or messages.has("gpu-lost", "xid"):
        return None
    commands = (
        "lsmod | grep -E 'nvidia|nouveau'",
        "sudo modprobe nvidia",
        "sudo dmesg | grep -iE 'nvidia|nouveau' | tail -n 20",
    )
    return Problem(
        cause="nouveau holds the card, Secure Boot refuses the module, it was not built for the running kernel, or a "
        "hybrid laptop runs on its other GPU; the kernel says which",
        evidence=message_evidence(*seen, *messages.all("cuinit-failed")),
        fixes=(
            Fix(text="Load the module, and see why it does not load", commands=commands),
            Fix(text="After a kernel update: build it anew", commands=("sudo dkms autoinstall", "sudo reboot")),
            Fix(
                text="On a laptop with two GPUs: switch the NVIDIA one on",
                commands=("sudo prime-select on-demand", "sudo reboot"),
            ),
        ),
    )


TOO_OLD = finding(
    "driver.too-old",
    layer="Driver",
    severity=Severity.ERROR,
    title="The NVIDIA driver is older than TensorFlow's CUDA needs",
    pointless_after=("driver.version-mismatch", "driver.stub-loaded"),
    symptoms=(symptoms.OLD_DRIVER,),
    docs="https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
)


@TOO_OLD.sign
def too_old(
    context: Context,
    driver_version: str,
    gpu_release: Release,
    cuda_init: CallResult | None = None,
    cuda_supported: str | None = None,
    os: str | None = None,
) -> Problem | None:
    """Older than the CUDA major's minimum, or the forward-compatibility libcuda was refused (804)."""
    toolkit = context.matrix.cuda(gpu_release.cuda) if gpu_release.cuda else None
    if toolkit is None:
        return None
    windows = os in ("windows", "wsl2")
    minimum = toolkit.oldest_driver_windows if windows else toolkit.oldest_driver_linux
    refused = cuda_init is not None and cuda_init.code == CUDA_COMPAT_NOT_SUPPORTED
    if minimum is None or not (refused or _older(driver_version, minimum)):
        return None
    if refused and cuda_init and not _older(driver_version, minimum):
        seen = [
            evidence(f"cuInit: {cuda_init.message} ({cuda_init.code})", context.source("driver.cuda_init"), "success")
        ]
        cause = "CUDA's forward-compatibility libcuda works on data-centre cards only; this card needs a newer driver"
        seen.append(evidence(f"driver {driver_version}", context.source("driver.version")))
        apart = Fix(text="Or take the forward-compatibility package (cuda-compat) and its folder off the loader's path")
        return Problem(
            cause=cause, evidence=tuple(seen), fixes=(context.remedies.install_driver(toolkit.min_driver_linux), apart)
        )
    else:
        seen = [
            evidence(
                f"driver {driver_version}" + (f" (supports CUDA up to {cuda_supported})" if cuda_supported else ""),
                context.source("driver.version"),
                f"{minimum} or newer for CUDA {gpu_release.cuda}",
                "compat_matrix.yaml, CUDA toolkits",
            )
        ]
        cause = f"TensorFlow {gpu_release.version} is built for CUDA {gpu_release.cuda}, which this driver cannot run"
        title = f"Driver {driver_version} is too old for CUDA {gpu_release.cuda} of TensorFlow {gpu_release.version}"
    preferred = (toolkit.min_driver_windows if windows else toolkit.min_driver_linux) or minimum
    older = context.remedies.reinstall_best("the newest release that this driver runs")
    return Problem(
        cause=cause, evidence=tuple(seen), fixes=(context.remedies.install_driver(preferred), *older), title=title
    )


@TOO_OLD.sign(unless=("container.no-gpu", "wsl.setup", "gpu.none"))
def too_old_reported(
    context: Context,
    messages: MessageLog,
    cuda_init: CallResult | None = None,
    driver_version: str | None = None,
    cuda_in_use: str | None = None,
) -> Problem | None:
    """The runtime says so itself, or forward compatibility was refused."""
    seen = messages.all("driver-insufficient", "ptx-too-new-for-driver", "forward-compatibility", "possibly-old-driver")
    hook = [m for m in messages.all("container-hook-failed") if "unsatisfied" in m.values.get("why", m.text)]
    refused = cuda_init is not None and cuda_init.code == 804
    toolkit = context.matrix.cuda(cuda_in_use) if cuda_in_use else None
    windows = context.remedies.os in ("windows", "wsl2")
    minimum = (toolkit.min_driver_windows if windows else toolkit.min_driver_linux) if toolkit else None
    oldest = (toolkit.oldest_driver_windows if windows else toolkit.oldest_driver_linux) if toolkit else None
    fails = messages.all("cuinit-failed", "no-cuda-device")
    below = fails if driver_version and oldest and not at_least(driver_version, ".".join(oldest.split(".")[:2])) else ()
    only_possible = not hook and not refused and not below and all(m.kind == "possibly-old-driver" for m in seen)
    if not (seen or hook or refused or below) or only_possible:
        return None
    need = f"{minimum} or newer for CUDA {cuda_in_use}" if minimum else None
    cause = (
        f"CUDA {cuda_in_use} needs a newer driver" if cuda_in_use else "the CUDA runtime in use needs a newer driver"
    )
    fixes = [context.remedies.install_driver(minimum)]
    if refused:
        cause = "CUDA's forward-compatibility libcuda works on data-centre cards only; this card needs a newer driver"
        fixes.append(
            Fix(
                text="Or keep the forward-compatibility folder (cuda-compat) off the loader's path, and take "
                "an image of an older CUDA"
            )
        )
    else:
        fixes += context.remedies.reinstall_best("the newest release that this driver runs") if driver_version else ()
    return Problem(
        title=f"Driver {driver_version} is too old for CUDA {cuda_in_use}"
        if driver_version and cuda_in_use and not refused
        else None,
        cause=cause,
        evidence=message_evidence(
            *seen,
            *hook,
            *(messages.all("cuinit-failed") if refused else below),
            *(messages.all("kernel-version") if below else ()),
            need=need,
        ),
        fixes=tuple(fixes),
    )


INIT_FAILED = finding(
    "driver.init-failed",
    layer="Driver",
    severity=Severity.ERROR,
    title="The driver is loaded, but CUDA cannot be initialised",
    pointless_after=(
        "driver.version-mismatch",
        "driver.stub-loaded",
        "driver.not-loaded",
        "driver.missing",
        "driver.unresponsive",
        "container.no-gpu",
        "wsl.setup",
        "gpu.hidden",
        "gpu.mig",
        "gpu.fault",
    ),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)


@INIT_FAILED.sign
def init_failed(context: Context, cuda_init: CallResult, has_gpu: bool) -> Problem | None:
    """cuInit answered something that no other rule speaks about."""
    if cuda_init.code in (0, 34, -1, 803, 804) or not has_gpu:
        return None
    if cuda_init.code < 0:
        why = "the driver's own library crashes: its files are damaged or mixed from several versions"
        seen = evidence(cuda_init.message, context.source("driver.cuda_init"), "an answer")
        return Problem(
            cause=f"{why}; TensorFlow dies with it",
            evidence=(seen,),
            fixes=(context.remedies.install_driver(), *_CRASH),
        )
    why, fixes = _KNOWN.get(cuda_init.code, ("the CUDA driver refuses to start; the kernel log may say more", (_LOG,)))
    name = f"{cuda_init.name}: " if cuda_init.name else ""
    seen = evidence(
        f"cuInit: {name}{cuda_init.message} ({cuda_init.code})", context.source("driver.cuda_init"), "success (0)"
    )
    return Problem(
        title=f"CUDA cannot be initialised: {cuda_init.message} ({cuda_init.code})",
        cause=why,
        evidence=(seen,),
        fixes=fixes,
    )


@INIT_FAILED.sign(unless=("driver.*", "gpu.none"))
def init_failed_reported(messages: MessageLog, cuda_init: CallResult) -> Problem | None:
    """cuInit answered something for which the text gives no reason."""
    if cuda_init.code in (0, 34, -1, 100, 303, 803, 804, *UVM):
        return None
    hidden = Fix(
        text="See whether a variable hides the GPU, and whether the driver lists one",
        commands=("env | grep VISIBLE_DEVICES", "nvidia-smi -L"),
    )
    device = Fix(
        text="See whether the device nodes and the module nvidia-uvm are there",
        commands=("ls -l /dev/nvidia*", "sudo modprobe nvidia-uvm"),
    )
    reload = Fix(
        text="After suspend or an update: reload the module, or restart",
        commands=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",),
    )
    why = {
        101: "a device is asked for that does not exist, or is a MIG instance that is gone",
        46: "the device is in use by another process, and in a mode that allows one only",
        2: "no memory of the GPU is left even to start; another process holds it",
    }.get(cuda_init.code, "the CUDA driver refuses to start; the kernel log may say more")
    return Problem(
        title=f"CUDA cannot be initialised: {cuda_init.name or f'error {cuda_init.code}'}",
        cause=why,
        evidence=message_evidence(*messages.all("cuinit-failed", "no-cuda-device")),
        fixes=(hidden, device) if cuda_init.code in (101, 46) else (reload, device),
    )
