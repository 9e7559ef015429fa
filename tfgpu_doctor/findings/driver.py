"""Rules about the NVIDIA driver: kernel module, user-space libraries, version."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.derived import MISMATCH
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import CallResult, LibraryFile, PciGpu, SmiResult
from tfgpu_doctor.records.report import Evidence, Fix, Severity

NVML_LIB_RM_VERSION_MISMATCH = 18  # nvml.h, nvmlReturn_t
CUDA_STUB_LIBRARY, CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_COMPAT_NOT_SUPPORTED = 34, 803, 804  # cuda.h, CUresult

RELEASE_NOTES = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"
COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/index.html"


BLOCKED = "calls into the driver block in the kernel: a GPU has fallen off the bus or hangs, or the driver does"
LOOK_FOR_XID = Fix(
    text="Look for Xid errors in the kernel log", commands=("sudo dmesg | grep -iE 'NVRM|Xid' | tail -n 20",)
)
RESTART = Fix(text="Restart the machine; if it comes back, look the Xid number up", commands=("sudo reboot",))


@rule(
    "driver.unresponsive",
    Severity.ERROR,
    "The NVIDIA driver does not answer",
    needs=("driver.unresponsive",),
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)
def unresponsive(context: Context, calls: tuple[str, ...]) -> Problem | None:
    """A call into the driver blocked until the deadline."""
    if not calls:
        return None
    where = context.source("driver.unresponsive")
    return Problem(
        cause=BLOCKED,
        evidence=tuple(evidence(f"{call} did not answer", where, "an answer") for call in calls),
        fixes=(LOOK_FOR_XID, RESTART),
    )


@rule(
    "driver.version-mismatch",
    Severity.ERROR,
    "The loaded kernel module and the driver libraries are of different versions",
    needs=(),
    wants=("driver.nvml_init", "driver.cuda_init", "driver.nvidia_smi", "driver.kernel_module", "driver.libcuda"),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
)
def version_mismatch(
    context: Context,
    nvml: CallResult | None,
    cuda: CallResult | None,
    smi: SmiResult | None,
    module: str | None,
    libcuda: tuple[LibraryFile, ...] | None,
) -> Problem | None:
    """NVML 18 or CUDA 803: typically a driver update without a restart."""
    seen: list[Evidence] = []
    if nvml and nvml.code == NVML_LIB_RM_VERSION_MISMATCH:
        seen.append(evidence(f"nvmlInit: {nvml.message} ({nvml.code})", context.source("driver.nvml_init"), "success"))
    if cuda and cuda.code == CUDA_SYSTEM_DRIVER_MISMATCH:
        seen.append(evidence(f"cuInit: {cuda.message} ({cuda.code})", context.source("driver.cuda_init"), "success"))
    if smi and MISMATCH in smi.output.lower():
        seen.append(evidence("Driver/library version mismatch", context.source("driver.nvidia_smi"), "a table"))
    if not seen and not _differ(module, libcuda, cuda):
        return None
    if module:
        library = next((one for one in libcuda or () if one.version), None)
        need = f"{library.version}, the version of {library.path}" if library else None
        seen.append(evidence(f"kernel module {module}", context.source("driver.kernel_module"), need))
    return Problem(
        cause="the driver was updated while the old kernel module stayed loaded; only a restart loads the new one",
        evidence=tuple(seen),
        fixes=restart_fixes(context),
    )


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


@rule(
    "driver.stub-loaded",
    Severity.ERROR,
    "The CUDA toolkit's stub libcuda is loaded instead of the driver's",
    needs=("driver.libcuda",),
    wants=("driver.cuda_init", "variables"),
    requires=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)
def stub_loaded(
    context: Context,
    libcuda: tuple[LibraryFile, ...],
    init: CallResult | None,
    variables: dict[str, str] | None,
) -> Problem | None:
    """cuInit answers 34 or -1, or the winning libcuda lies in a folder named stubs."""
    winner = libcuda[0] if libcuda else None
    answered = init is not None and init.code in (CUDA_STUB_LIBRARY, -1)
    is_stub = winner is not None and ("/stubs/" in winner.path or (winner.problem or "").startswith("stub"))
    if not answered and not is_stub:
        return None
    seen = []
    if winner:
        seen.append(evidence(winner.path, context.source("driver.libcuda"), "the driver's own libcuda.so.1"))
    if init and answered:
        seen.append(evidence(f"cuInit: {init.message} ({init.code})", context.source("driver.cuda_init"), "success"))
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


@rule(
    "driver.missing",
    Severity.ERROR,
    "This machine has an NVIDIA GPU but no NVIDIA driver",
    needs=("derived.has_gpu", "driver.libcuda", "driver.kernel_module_loaded"),
    wants=("host.pci_gpus", "host.nouveau_loaded"),
    requires=("container.no-gpu", "wsl.setup", "driver.unresponsive"),
    docs="https://www.tensorflow.org/install/pip",
)
def missing(
    context: Context,
    has_gpu: bool,
    libcuda: tuple[LibraryFile, ...],
    loaded: bool,
    pci: tuple[PciGpu, ...] | None,
    nouveau: bool | None,
) -> Problem | None:
    """A GPU on the bus, no libcuda.so.1 and no kernel module."""
    if not has_gpu or libcuda or loaded:
        return None
    seen = [
        evidence(f"{gpu.name or gpu.device_id} at {gpu.address}", context.source("host.pci_gpus")) for gpu in pci or ()
    ]
    seen.append(evidence("no libcuda.so.1", context.source("driver.libcuda"), "the driver's libcuda.so.1"))
    if nouveau:
        seen.append(evidence("nouveau drives the GPU", context.source("host.nouveau_loaded"), "the nvidia module"))
    return Problem(
        cause="TensorFlow reaches the GPU through the NVIDIA driver, which is not installed",
        evidence=tuple(seen),
        fixes=(context.remedies.install_driver(),),
    )


@rule(
    "driver.not-loaded",
    Severity.ERROR,
    "The NVIDIA driver is installed, but its kernel module is not loaded",
    needs=("derived.has_gpu", "driver.libcuda", "driver.kernel_module_loaded", "derived.driver_speaks"),
    wants=("host.nouveau_loaded", "host.secure_boot", "driver.kernel_module_on_disk", "host.kernel"),
    requires=("container.no-gpu", "wsl.setup", "driver.stub-loaded"),
    docs="https://us.download.nvidia.com/XFree86/Linux-x86_64/latest/README/commonproblems.html",
)
def not_loaded(
    context: Context,
    has_gpu: bool,
    libcuda: tuple[LibraryFile, ...],
    loaded: bool,
    driver_speaks: bool,
    nouveau: bool | None,
    secure_boot: bool | None,
    modules: tuple[str, ...] | None,
    kernel: str | None,
) -> Problem | None:
    """User-space libraries are there, the module is not: nouveau, Secure Boot or DKMS."""
    if context.remedies.os != "linux" or not has_gpu or not libcuda or loaded or driver_speaks:
        return None
    seen = [
        evidence(
            "nvidia is not among the loaded modules", context.source("driver.kernel_module_loaded"), "nvidia loaded"
        ),
        evidence(libcuda[0].path, context.source("driver.libcuda")),
    ]
    if nouveau:
        seen.append(evidence("nouveau is loaded", context.source("host.nouveau_loaded"), "nouveau blacklisted"))
        cause = "the open-source driver nouveau holds the GPU"
        commands: tuple[str, ...] = (
            "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n'"
            " | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
            "sudo update-initramfs -u 2>/dev/null || sudo dracut --force",
            "sudo reboot",
        )
    elif modules is not None and kernel and not any(f"/{kernel}/" in path for path in modules):
        seen.append(
            evidence(
                f"no nvidia.ko for kernel {kernel}", context.source("driver.kernel_module_on_disk"), "one built for it"
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


@rule(
    "driver.too-old",
    Severity.ERROR,
    "The NVIDIA driver is older than TensorFlow's CUDA needs",
    needs=("driver.version", "derived.gpu_release"),
    wants=("driver.cuda_init", "driver.cuda_supported", "host.os"),
    requires=("driver.version-mismatch", "driver.stub-loaded"),
    docs=RELEASE_NOTES,
)
def too_old(
    context: Context,
    driver: str,
    release: Release,
    init: CallResult | None,
    supported: str | None,
    os: str | None,
) -> Problem | None:
    """Older than the CUDA major's minimum, or the forward-compatibility libcuda was refused (804)."""
    toolkit = context.matrix.cuda(release.cuda) if release.cuda else None
    if toolkit is None:
        return None
    windows = os in ("windows", "wsl2")
    minimum = toolkit.oldest_driver_windows if windows else toolkit.oldest_driver_linux
    refused = init is not None and init.code == CUDA_COMPAT_NOT_SUPPORTED
    if minimum is None or not (refused or _older(driver, minimum)):
        return None
    if refused and init and not _older(driver, minimum):
        seen = [evidence(f"cuInit: {init.message} ({init.code})", context.source("driver.cuda_init"), "success")]
        cause = "CUDA's forward-compatibility libcuda works on data-centre cards only; this card needs a newer driver"
        seen.append(evidence(f"driver {driver}", context.source("driver.version")))
        apart = Fix(text="Or take the forward-compatibility package (cuda-compat) and its folder off the loader's path")
        return Problem(cause, tuple(seen), (context.remedies.install_driver(toolkit.min_driver_linux), apart))
    else:
        seen = [
            evidence(
                f"driver {driver}" + (f" (supports CUDA up to {supported})" if supported else ""),
                context.source("driver.version"),
                f"{minimum} or newer for CUDA {release.cuda}",
                "compat_matrix.yaml, CUDA toolkits",
            )
        ]
        cause = f"TensorFlow {release.version} is built for CUDA {release.cuda}, which this driver cannot run"
        title = f"Driver {driver} is too old for CUDA {release.cuda} of TensorFlow {release.version}"
    preferred = (toolkit.min_driver_windows if windows else toolkit.min_driver_linux) or minimum
    older = context.remedies.reinstall_best("the newest release that this driver runs")
    return Problem(cause, tuple(seen), (context.remedies.install_driver(preferred), *older), title)


def _older(version: str, minimum: str) -> bool:
    try:
        return Version(version) < Version(minimum)
    except InvalidVersion:  # a vendor's own numbering (Jetson) says nothing about the branch
        return False
