"""The finding about the driver's kernel module: installed, and not loaded."""

from __future__ import annotations

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, LibraryFile, SmiResult
from tfgpu_doctor.records.report import Fix, Severity

_LOAD = Fix(
    text="Load the module, and read in the kernel log why it fails",
    commands=("sudo modprobe nvidia", "sudo dmesg | grep -iE 'nvidia|nouveau' | tail -n 20"),
)
_REBUILD = Fix(text="After a kernel update, build the module again", commands=("sudo dkms autoinstall", "sudo reboot"))
_DISABLE_NOUVEAU = Fix(
    text="Disable nouveau",
    commands=(
        "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
        "sudo update-initramfs -u 2>/dev/null || sudo dracut --force",
        "sudo reboot",
    ),
)
_ENROL_KEY = Fix(
    text="Enrol the key that signs the module; the firmware asks for the password at the next restart",
    commands=("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der", "sudo reboot"),
)
_SWITCH_ON = Fix(
    text="On a laptop with two GPUs: switch on NVIDIA's", commands=("sudo prime-select on-demand", "sudo reboot")
)

NOT_LOADED = finding(
    "driver.not-loaded",
    layer="Driver",
    severity=Severity.ERROR,
    title="The NVIDIA driver is installed, but its kernel module is not loaded",
    cause="nouveau uses the GPU, Secure Boot rejects the module, it was not built for the running kernel, or a laptop "
    "has switched off its NVIDIA GPU; the kernel log says which",
    fixes=lambda _: (_LOAD, _REBUILD, _SWITCH_ON),
    pointless_after=("container.no-gpu", "wsl.setup", "driver.stub-loaded"),
    symptoms=(symptoms.NO_DEVICE_NODE,),
    docs="https://us.download.nvidia.com/XFree86/Linux-x86_64/latest/README/commonproblems.html",
)


@NOT_LOADED.sign
def libraries_without_module(
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
    """The driver's libraries are installed, the module is not loaded: nouveau, Secure Boot or DKMS."""
    if context.remedies.os != "linux" or not has_gpu or not libcuda or kernel_module_loaded or driver_speaks:
        return None
    found = [
        evidence("nvidia is not a loaded module", context.source("driver.kernel_module_loaded"), "nvidia loaded"),
        evidence(libcuda[0].path, context.source("driver.libcuda")),
    ]
    modules = kernel_module_on_disk
    if nouveau_loaded:
        found.append(evidence("nouveau is loaded", context.source("host.nouveau_loaded"), "nouveau disabled"))
        cause, fix = "the open-source driver nouveau uses the GPU", _DISABLE_NOUVEAU
    elif modules is not None and host_kernel and not any(f"/{host_kernel}/" in path for path in modules):
        source = context.source("driver.kernel_module_on_disk")
        found.append(evidence(f"no nvidia.ko for kernel {host_kernel}", source, "one built for it"))
        cause, fix = "the module was not built for the running kernel: DKMS did not rebuild it", _REBUILD
    elif secure_boot:
        found.append(evidence("Secure Boot is on", context.source("host.secure_boot"), "a module with an enrolled key"))
        cause, fix = "Secure Boot rejects a kernel module whose signing key is not enrolled", _ENROL_KEY
    else:
        cause, fix = "the module is not loaded; the kernel log says why it cannot be", _LOAD
    return Problem(cause=cause, evidence=tuple(found), fixes=(fix,))


# results of cuInit while the display driver runs: nvidia-uvm or the NVSwitch fabric is not ready
_CUDA_MODULE_FAILS = (3, 304, 802, 999)


@NOT_LOADED.sign(unless=("driver.missing", "driver.version-mismatch", "driver.too-old", "gpu.none"))
def module_message(
    messages: MessageLog,
    kernel_module: str | None = None,
    nvidia_smi: SmiResult | None = None,
    cuda_init: CallResult | None = None,
) -> Problem | None:
    """nvidia-smi or TensorFlow finds no module: nouveau, Secure Boot, DKMS, a laptop that runs on its other GPU."""
    if messages.has("gpu-lost", "xid"):
        return None
    if answers.has_code(cuda_init, *_CUDA_MODULE_FAILS):
        return None if messages.has("kernel-version") else _uvm_fails(messages)
    unbuilt = messages.all("module-not-built")
    reported = messages.all("kernel-driver-not-running", "smi-no-driver", "module-not-loaded", "module-init-failed")
    absent = (*unbuilt, *reported)
    if not absent or kernel_module or answers.smi_works(nvidia_smi):
        return None
    if unbuilt:
        kernel = unbuilt[0].values["kernel"]
        return Problem(
            cause=f"DKMS has built no module for the running kernel, {kernel}: often its headers are missing",
            evidence=message_evidence(*absent),
            fixes=(_with_headers(kernel),),
        )
    return Problem(evidence=message_evidence(*absent, *messages.all("cuinit-failed")))


def _with_headers(kernel: str) -> Fix:
    """Debian's and Ubuntu's kernels tell themselves by their names."""
    debian = kernel.endswith(("-generic", "-lowlatency", "-amd64"))
    headers = (f"sudo apt install linux-headers-{kernel}",) if debian else ()
    text = f"Install the headers of kernel {kernel}, and build the module for it"
    return Fix(text=text, commands=(*headers, *_REBUILD.commands))


def _uvm_fails(messages: MessageLog) -> Problem:
    return Problem(
        title="The kernel module nvidia-uvm, which CUDA requires, does not work",
        cause="the display driver runs, but CUDA cannot start: nvidia-uvm is not loaded, failed after suspend or an "
        "update, or this user has no permission for its device node; sometimes it is the hardware",
        evidence=message_evidence(*messages.all("cuinit-failed", "kernel-version")),
        fixes=(
            answers.DEVICE_NODES,
            answers.RELOAD_UVM,
            answers.FABRIC_MANAGER,
            answers.RESTART,
        ),
    )
