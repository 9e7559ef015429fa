"""Rules over what a pasted text says of the driver.

The same line has several causes: "libcuda.so.1: cannot open shared object file" is a machine without a driver, a
container without a GPU, or a WSL2 that is not set up. What stands around it decides; where nothing does, the likelier
cause is the finding, and the other one is said in it with the command that tells them apart.
"""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.driver import COMPATIBILITY, RELEASE_NOTES, restart_fixes
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_libraries import at_least
from tfgpu_doctor.records.facts import CallResult, Message, SmiResult
from tfgpu_doctor.records.report import Fix, Severity

_LIBCUDA = re.compile(r"libcuda\.so|nvcuda\.dll", re.IGNORECASE)
_DRIVERLESS = ("library-not-opened", "loader-error")
_NO_DRIVER_IN_HOOK = re.compile(r"driver not loaded|load library failed|nvml error", re.IGNORECASE)
OTHER_IN_HOOK = re.compile(r"version mismatch|unsatisfied condition|timed out|timeout", re.IGNORECASE)
STUB = (34, -1)
_MODULE_GUIDE = "https://us.download.nvidia.com/XFree86/Linux-x86_64/latest/README/commonproblems.html"
DECIDE = Fix(text="To decide, run this on the machine itself, outside any container", commands=("nvidia-smi",))


def no_libcuda(said: Said) -> tuple[str, ...]:
    """Lines in which the driver's library could not be opened."""
    of_cudnn = {m.line for m in said.all("cudnn-part-missing")}  # it asks for libcuda.so without a number
    named = [m.text for name, m in said.libraries(*_DRIVERLESS) if _LIBCUDA.search(name) and m.line not in of_cudnn]
    return (*named, *(m.text for m in said.all("libcuda-not-loaded", "nvml-not-found")))


def driver_fails(said: Said, init: CallResult | None) -> bool:
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


def about_driver(said: Said) -> tuple[Message, ...]:
    lost = [m for name, m in said.libraries(*_DRIVERLESS) if _LIBCUDA.search(name)]
    kinds = ("cuinit-failed", "kernel-driver-not-running", "libcuda-not-loaded", "nvml-not-found", "smi-no-driver")
    return (*lost, *said.all(*kinds, "smi-not-found", "smi-no-libcuda", "ngc-no-driver"))


@rule(
    "driver.missing",
    Severity.ERROR,
    "The NVIDIA driver's library libcuda is not found",
    needs=("derived.told",),
    wants=("host.os", "driver.kernel_module_loaded", "driver.kernel_module", "driver.nvidia_smi", "driver.cuda_init"),
    requires=("container.no-gpu", "wsl.setup", "gpu.none", "tf.cpu-build", "driver.stub-loaded"),
    docs="https://www.tensorflow.org/install/pip",
)
def missing(
    context: Context,
    said: Said,
    os: str | None,
    loaded: bool | None,
    module: str | None,
    smi: SmiResult | None,
    init: CallResult | None,
) -> Problem | None:
    """libcuda cannot be opened; the kernel's half may be there all the same."""
    absent = bool(no_libcuda(said)) or said.has("smi-no-libcuda") or (init is not None and init.code == 303)
    if not absent and not (said.has("smi-not-found") and said.has("cuinit-failed", "no-cuda-device")):
        return None
    works = smi is not None and smi.exit_code == 0
    title, cause = (
        None,
        "TensorFlow reaches the GPU through the NVIDIA driver, which is not installed, or a container hides it",
    )
    fixes: tuple[Fix, ...] = (context.remedies.install_driver(), DECIDE)
    if loaded or works:
        what = f"kernel module {module}" if module else "driver"
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
    return Problem(title=title, cause=cause, evidence=heard(*about_driver(said)), fixes=fixes)


@rule(
    "driver.not-loaded",
    Severity.ERROR,
    "The NVIDIA driver is installed, but its kernel module is not loaded",
    needs=("derived.told",),
    wants=("host.os", "driver.kernel_module", "driver.nvidia_smi", "driver.cuda_init"),
    requires=(
        "container.no-gpu",
        "wsl.setup",
        "driver.missing",
        "driver.stub-loaded",
        "driver.version-mismatch",
        "driver.too-old",
        "gpu.none",
    ),
    docs=_MODULE_GUIDE,
)
def not_loaded(
    context: Context,
    said: Said,
    os: str | None,
    module: str | None,
    smi: SmiResult | None,
    init: CallResult | None,
) -> Problem | None:
    """nvidia-smi or TensorFlow finds no module: nouveau, Secure Boot, DKMS, a laptop that runs on its other GPU."""
    seen = said.all("kernel-driver-not-running", "smi-no-driver", "module-not-loaded", "module-init-failed")
    works = smi is not None and smi.exit_code == 0
    if init is not None and init.code in UVM and not said.has("gpu-lost", "xid"):
        return _uvm(said)
    if not seen or module or works or said.has("gpu-lost", "xid"):
        return None
    commands = (
        "lsmod | grep -E 'nvidia|nouveau'",
        "sudo modprobe nvidia",
        "sudo dmesg | grep -iE 'nvidia|nouveau' | tail -n 20",
    )
    return Problem(
        cause="nouveau holds the card, Secure Boot refuses the module, it was not built for the running kernel, or a "
        "hybrid laptop runs on its other GPU; the kernel says which",
        evidence=heard(*seen, *said.all("cuinit-failed")),
        fixes=(
            Fix(text="Load the module, and see why it does not load", commands=commands),
            Fix(text="After a kernel update: build it anew", commands=("sudo dkms autoinstall", "sudo reboot")),
            Fix(
                text="On a laptop with two GPUs: switch the NVIDIA one on",
                commands=("sudo prime-select on-demand", "sudo reboot"),
            ),
        ),
    )


# the kernel's part for CUDA, nvidia-uvm or the NVSwitch fabric, is not ready although the display driver is
UVM = (3, 304, 802, 999)


def _uvm(said: Said) -> Problem:
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
        evidence=heard(*said.all("cuinit-failed", "kernel-version")),
        fixes=(
            Fix(text="Load it anew, while nothing uses the GPU", commands=commands),
            fabric,
            Fix(text="Or restart the machine", commands=("sudo reboot",)),
        ),
    )


@rule(
    "driver.version-mismatch",
    Severity.ERROR,
    "The loaded kernel module and the driver libraries are of different versions",
    needs=("derived.told",),
    wants=("host.os",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
)
def version_mismatch(context: Context, said: Said, os: str | None) -> Problem | None:
    """NVML, the kernel and TensorFlow each have a sentence for it; nvidia-smi's own version may differ, too."""
    tools = [m for m in said.all("smi-version") if m.values["tool"].split(".")[0] != m.values["driver"].split(".")[0]]
    seen = (*said.all("nvml-mismatch", "driver-versions-differ"), *(tools if os != "wsl2" else ()))
    if not seen:
        return None
    return Problem(
        cause="the driver was updated while the old kernel module stayed loaded; only a restart loads the new one",
        evidence=heard(*seen),
        fixes=restart_fixes(context),
    )


@rule(
    "driver.too-old",
    Severity.ERROR,
    "The NVIDIA driver is older than the CUDA runtime in use needs",
    needs=("derived.told",),
    wants=("driver.cuda_init", "driver.version", "derived.cuda_in_use", "derived.cards"),
    requires=("container.no-gpu", "wsl.setup", "driver.version-mismatch", "driver.stub-loaded", "gpu.none"),
    docs=RELEASE_NOTES,
)
def too_old(
    context: Context,
    said: Said,
    init: CallResult | None,
    driver: str | None,
    cuda: str | None,
    cards: object,
) -> Problem | None:
    """The runtime says so itself, or forward compatibility was refused."""
    seen = said.all("driver-insufficient", "ptx-too-new-for-driver", "forward-compatibility", "possibly-old-driver")
    hook = [m for m in said.all("container-hook-failed") if "unsatisfied" in m.values.get("why", m.text)]
    refused = init is not None and init.code == 804
    toolkit = context.matrix.cuda(cuda) if cuda else None
    windows = context.remedies.os in ("windows", "wsl2")
    minimum = (toolkit.min_driver_windows if windows else toolkit.min_driver_linux) if toolkit else None
    oldest = (toolkit.oldest_driver_windows if windows else toolkit.oldest_driver_linux) if toolkit else None
    fails = said.all("cuinit-failed", "no-cuda-device")
    below = fails if driver and oldest and not at_least(driver, ".".join(oldest.split(".")[:2])) else ()
    only_possible = not hook and not refused and not below and all(m.kind == "possibly-old-driver" for m in seen)
    if not (seen or hook or refused or below) or only_possible:
        return None
    need = f"{minimum} or newer for CUDA {cuda}" if minimum else None
    cause = f"CUDA {cuda} needs a newer driver" if cuda else "the CUDA runtime in use needs a newer driver"
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
        fixes += context.remedies.reinstall_best("the newest release that this driver runs") if driver else ()
    return Problem(
        title=f"Driver {driver} is too old for CUDA {cuda}" if driver and cuda and not refused else None,
        cause=cause,
        evidence=heard(
            *seen,
            *hook,
            *(said.all("cuinit-failed") if refused else below),
            *(said.all("kernel-version") if below else ()),
            need=need,
        ),
        fixes=tuple(fixes),
    )


@rule(
    "driver.stub-loaded",
    Severity.ERROR,
    "The CUDA toolkit's stub libcuda is loaded instead of the driver's",
    needs=("derived.told", "driver.cuda_init"),
    wants=("variables",),
    requires=("container.no-gpu", "wsl.setup"),
    docs=COMPATIBILITY,
)
def stub_loaded(context: Context, said: Said, init: CallResult, variables: dict[str, str] | None) -> Problem | None:
    """cuInit answers 34 or -1."""
    if init.code not in STUB:
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
        evidence=(*heard(*said.all("cuinit-failed", "stub-library")), *stubs),
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
