"""The driver of NVIDIA: missing, hung, of two versions, not loaded, too old for CUDA."""

from __future__ import annotations

import re
from dataclasses import replace

from msgspec import structs

from tfgpu_doctor.facts.facts import CallResult, Message, SmiResult, value_or
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix
from tfgpu_doctor.facts.versions import at_least, major, minor, numbers, parts
from tfgpu_doctor.findings import inputs, symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import MISMATCH, Card, Cards, Libraries, PciGpus, Variables
from tfgpu_doctor.findings.library_fixes import off_library_path
from tfgpu_doctor.matrix import compatibility
from tfgpu_doctor.matrix.compatibility import driver_on, driver_reaches, oldest_driver, why_driver
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.rows import PtxOnly

# EnableGpuFirmware: the driver's README, "GSP Firmware"; the open kernel modules and Blackwell do not run without it
_WITHOUT_GSP = Fix(
    "If it comes back, install a newer driver; before Blackwell, the closed kernel module runs without that firmware, "
    "after a restart",
    ("echo options nvidia NVreg_EnableGpuFirmware=0 | sudo tee /etc/modprobe.d/nvidia-gsp.conf",),
)
_RESET_OR_REBOOT = Fix(
    f"{inputs.RESET_GPU.text}; where that hangs, restart", (*inputs.RESET_GPU.commands, "sudo reboot")
)


def _let_it_answer(context: Context) -> tuple[Fix, ...]:
    if {*inputs.FIRMWARE_XIDS} & {*context.log.values("xid", "number")}:
        return (_RESET_OR_REBOOT, _WITHOUT_GSP, inputs.KERNEL_LOG)
    slow = "If it starts slowly (many GPUs), keep it loaded"
    return (inputs.KERNEL_LOG, inputs.RESTART, Fix(slow, ("sudo systemctl enable --now nvidia-persistenced",)))


UNRESPONSIVE = finding(
    "driver.unresponsive",
    layer="Driver",
    title="The NVIDIA driver does not respond",
    cause="calls into the driver block in the kernel: a GPU has failed or left the PCI bus, or the driver hangs",
    fixes=_let_it_answer,
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@UNRESPONSIVE.sign()
def calls_without_answer(context: Context, unresponsive: tuple[str, ...]) -> Problem | None:
    """A call into the driver blocked until the deadline."""
    where = context.source("driver.unresponsive")
    return Problem(evidence=tuple(evidence(f"{call} did not return", where, "a result") for call in unresponsive))


@UNRESPONSIVE.sign()
def hung_task_message(messages: MessageLog) -> Problem | None:
    """The kernel reports a task that waits for the driver."""
    hung = [m for m in messages.all("hung-task") if re.search(r"nvidia|python|cuda", m.values.get("task", ""))]
    return Problem(evidence=message_evidence(*hung, *inputs.hook_failures(messages, "timed out|timeout")))


@UNRESPONSIVE.sign()
def firmware_without_answer(messages: MessageLog) -> Problem | None:
    """Xid 119 and 120: RPC of the driver to the GPU's own processor; whatever calls the driver then waits."""
    failed = (one for one in messages.all("xid") if one.values.get("number") in inputs.FIRMWARE_XIDS)
    return Problem(
        title="The GPU's firmware (GSP) does not answer the driver",
        cause="calls into the driver wait for the GPU System Processor, which has stopped; import and nvidia-smi hang",
        evidence=message_evidence(*failed),
    )


_OF_THE_IMAGE = Fix(
    "Start a new container; if it fails, too, while nvidia-smi works on the host, the image brings driver libraries of "
    "its own: see in it which they are, and remove their packages in its Dockerfile, or use another tag of it",
    (
        "dpkg -l | grep -E 'libnvidia-compute|nvidia-utils|cuda-compat'",
        "apt-get purge -y '^(libnvidia-compute|nvidia-utils|cuda-compat)-.*'",  # one of several without a match ends it
    ),
)


_LOAD_ANEW = Fix(
    "Restart the machine; if the versions still differ then, two drivers are installed: remove one (its packages; of "
    "NVIDIA's installer nvidia-uninstall), install the other anew, and restart",
    inputs.RESTART.commands,
)
# what prints before a container starts; "Error: nvml:" is of nvidia-docker 1 itself
_ON_THE_HOST = re.compile(r"\bnvidia-(?:docker \||container-cli)|\bError: nvml: ")


def _restart(context: Context) -> tuple[Fix, ...]:
    """Let the same version of the driver be loaded everywhere."""
    if context.remedies.os == "wsl2":
        return (Fix("Restart WSL from Windows", ("wsl.exe --shutdown",)),)
    if _in_container(context):
        works = inputs.smi_works(value_or(context.facts.driver.nvidia_smi, None)) or context.log.has("smi-version")
        return (_OF_THE_IMAGE,) if works else (_OF_THE_IMAGE, inputs.RESTART)
    reload = ("sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia", "sudo modprobe nvidia", "nvidia-smi")
    return (_LOAD_ANEW, Alternative("Load the new module without a restart, while nothing uses the GPU", reload))


def _in_container(context: Context) -> bool:
    """Whether the program of a text, and not the tool that starts its container, sees two versions."""
    mismatch = context.log.all("nvml-mismatch")
    of_the_host = mismatch and all(_ON_THE_HOST.search(one.text) for one in mismatch)
    return context.is_in_container and not context.probed and not of_the_host


VERSION_MISMATCH = finding(
    "driver.version-mismatch",
    layer="Driver",
    title="The loaded NVIDIA kernel module and the driver libraries have different versions",
    cause="mostly, the driver was updated while the old kernel module stayed loaded; a restart loads the new one",
    fixes=_restart,
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
)
_NVML_MISMATCH, _CUDA_MISMATCH = 18, 803  # nvmlReturn_t (nvml.h), CUresult (cuda.h)


@VERSION_MISMATCH.sign()
def versions_differ(
    context: Context,
    nvml_init: CallResult | None = None,
    cuda_init: CallResult | None = None,
    nvidia_smi: SmiResult | None = None,
    kernel_module: str | None = None,
    libcuda: Libraries = (),
) -> Problem | None:
    """NVML 18 or CUDA 803: typically a driver update without a restart."""
    found = []
    if nvml_init and nvml_init.code == _NVML_MISMATCH:
        found.append(inputs.returned("nvmlInit", nvml_init, "driver.nvml_init", context))
    if cuda_init and cuda_init.code == _CUDA_MISMATCH:
        found.append(inputs.returned("cuInit", cuda_init, "driver.cuda_init", context))
    if nvidia_smi and MISMATCH in nvidia_smi.output.lower():
        found.append(evidence("Driver/library version mismatch", context.source("driver.nvidia_smi"), "a table"))
    if not found and not _differ(kernel_module, libcuda, cuda_init, probed=context.probed):
        return None
    if kernel_module:
        library = next((file for file in libcuda if file.version), None)
        expected = f"{library.version}, the version of {library.path}" if library else None
        found.append(evidence(f"kernel module {kernel_module}", context.source("driver.kernel_module"), expected))
    return Problem(evidence=tuple(found))


def _differ(module: str | None, libcuda: Libraries, init: CallResult | None, *, probed: bool) -> bool:
    """Whether CUDA fails over a libcuda of another version; the compatibility package's is newer on purpose."""
    if (
        not libcuda
        or (init is None and probed)  # a text compares the two because something fails
        or inputs.has_code(init, 0, inputs.COMPATIBILITY_REFUSED)
        or "compat" in libcuda[0].path
    ):
        return False
    kernel, library = parts(module), parts(libcuda[0].version)  # TensorFlow writes 450.80.02 as "450.80.2"
    return kernel is not None and library is not None and kernel != library


_MIXED = "Libraries of two NVIDIA drivers are mixed"
_LEFT_OVER = (
    "libcuda.so.1 is of another release than the driver's other libraries: it was left over from an older driver, or "
    "comes from a folder of LD_LIBRARY_PATH; in a container, the host's driver has changed since its start"
)
_ONE_DRIVER = Fix(
    "See where each libcuda is from; remove what is left of the older driver (its packages; of NVIDIA's installer "
    "nvidia-uninstall), install one driver anew, and restart; a container is started anew",
    ("find / -name 'libcuda.so*' 2>/dev/null", "dpkg -l | grep -iE 'nvidia|libcuda'", "echo $LD_LIBRARY_PATH"),
)
_OF_ITS_OWN = (
    "the driver's libraries in the container are not those of the host's driver: the image has some of its own, or the "
    "host's driver was updated and its old kernel module stayed loaded"
)


_TOOL_DIFFERS = "nvidia-smi is of another driver than the one that is loaded"
_OF_TWO_DRIVERS = "parts of two drivers are installed, or one was updated and the machine not restarted"


@VERSION_MISMATCH.sign()
def mismatch_message(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """NVML, the kernel and TensorFlow each report it; where CUDA fails, nvidia-smi's own version, except under WSL2."""
    fails = os != "wsl2" and messages.has("cuinit-failed", "no-cuda-device")
    tables = messages.all("smi-version") if fails else ()
    tools = [m for m in tables if (parts(m.values["tool"]) or ())[:1] != (parts(m.values["driver"]) or ())[:1]]
    reported = _reported(messages, os)
    absent = [m for m in reported if m.kind == "driver-versions-differ" and not {"kernel", "client"} & {*m.values}]
    found = message_evidence(*reported, *tools)
    if absent and len(absent) == len(reported):  # files, which no restart brings
        return Problem(title=_MIXED, cause=_LEFT_OVER, evidence=found, fixes=(_ONE_DRIVER,))
    if tools and not reported:
        return Problem(title=_TOOL_DIFFERS, cause=_OF_TWO_DRIVERS, evidence=found)
    return Problem(cause=_OF_ITS_OWN if _in_container(context) else None, evidence=found)


def _reported(messages: MessageLog, os: str | None) -> tuple[Message, ...]:
    """The lines that say so; WSL2 has no kernel module of NVIDIA's: the libraries of a Linux driver explain them."""
    explained = os == "wsl2" and messages.has("linux-driver-in-wsl")
    return () if explained else messages.all("nvml-mismatch", "driver-versions-differ")


def _remove_stubs(context: Context) -> tuple[Fix, ...]:
    path = value_or(context.facts.variables, {}).get("LD_LIBRARY_PATH", "")
    show = Fix("Remove folders named stubs from LD_LIBRARY_PATH and /etc/ld.so.conf.d", ("ldconfig -p | grep libcuda",))
    container = Fix("In a container without a GPU: start it with access to one (Docker: --gpus all)")
    remove = off_library_path(context, {one for one in path.split(":") if "stubs" in one})
    if not remove and (shown := context.log.values("stubs-on-path", "folders")):
        left = ":".join(one for one in shown[0].split(":") if one and "stubs" not in one)
        command = f"export LD_LIBRARY_PATH={context.remedies.quote(left)}"
        remove = (
            Fix("Remove the folder named stubs from LD_LIBRARY_PATH (in a container: of its image or pod)", (command,)),
        )
    in_one = not (context.probed or remove) and context.log.has("container-start")
    return (container, show) if in_one else (*(remove or (show,)), container)


STUB_LOADED = finding(
    "driver.stub-loaded",
    layer="Driver",
    title="The CUDA toolkit's stub libcuda is loaded instead of the driver's",
    cause="a folder of stub libraries, which exist for linking only, is on the loader path; every call into the "
    "stub returns an error",
    fixes=_remove_stubs,
    pointless_after=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)


@STUB_LOADED.sign(unless=("wsl.setup",))
def stub_answers(
    context: Context, cuda_init: CallResult, libcuda: Libraries = (), variables: Variables | None = None
) -> Problem | None:
    """cuInit returns 34 or -1, or the libcuda that is found first is in a directory named stubs."""
    first, where, source = libcuda[:1], context.source("variables"), context.source("driver.libcuda")
    versioned = not context.probed and any(one.version for one in first)  # a stub has none, and TensorFlow reads one
    answered = cuda_init.code in inputs.STUB_LIBRARY and not versioned
    if not answered and not any("/stubs/" in one.path or (one.problem or "").startswith("stub") for one in first):
        return None
    found = [evidence(one.path, source, "the driver's libcuda.so.1") for one in first]
    if answered:
        found.append(inputs.returned("cuInit", cuda_init, "driver.cuda_init", context))
    folders = (variables or {}).get("LD_LIBRARY_PATH", "").split(":")
    found += [evidence(f"LD_LIBRARY_PATH contains {folder}", where) for folder in folders if "/stubs" in folder]
    return Problem(evidence=tuple(found))


_NEEDED_WITH_A_GPU = (
    "TensorFlow uses the GPU through the NVIDIA driver; on a machine without an NVIDIA GPU these lines are harmless"
)
_NO_DRIVER_SAID = ("driver-not-installed", "apptainer-no-driver")
MISSING = finding(
    "driver.missing",
    layer="Driver",
    title="This machine has an NVIDIA GPU but no NVIDIA driver",
    cause="TensorFlow uses the GPU through the NVIDIA driver, which is not installed",
    fixes=lambda context: (context.remedies.install_driver(),),
    pointless_after=("container.no-gpu", "wsl.setup", "driver.unresponsive"),
    docs="https://www.tensorflow.org/install/pip",
)


@MISSING.sign()
def neither_library_nor_module(
    context: Context, has_gpu: bool, libcuda: Libraries, kernel_module_loaded: bool, pci_gpus: PciGpus = ()
) -> Problem | None:
    """A GPU on the bus, no libcuda.so.1 and no kernel module."""
    if not has_gpu or libcuda or kernel_module_loaded:
        return None
    bus = context.source("host.pci_gpus")
    found = [evidence(f"{gpu.name or gpu.device_id} at {gpu.address}", bus) for gpu in pci_gpus]
    library = "nvcuda.dll" if context.remedies.os == "windows" else "libcuda.so.1"
    found.append(evidence(f"no {library}", context.source("driver.libcuda"), f"the driver's {library}"))
    return Problem(evidence=tuple(found))


def _lacks_the_driver(messages: MessageLog) -> bool:
    """Whether nouveau drives the GPU where no driver is installed whose module it keeps away."""
    return messages.has("smi-not-found") and any("nouveau" in one.text for one in messages.all("module-not-loaded"))


@MISSING.sign(unless=("gpu.none", "tf.cpu-build", "driver.stub-loaded"))
def libcuda_message(
    context: Context,
    messages: MessageLog,
    kernel_module_loaded: bool | None = None,
    nvidia_smi: SmiResult | None = None,
    cuda_init: CallResult | None = None,
    has_gpu: bool | None = None,
) -> Problem | None:
    """libcuda cannot be opened; the kernel module may be loaded all the same, and the machine may have no GPU."""
    absent = inputs.no_libcuda(messages) or inputs.has_code(cuda_init, inputs.LIBCUDA_NOT_OPENED)
    absent = absent or messages.has("smi-no-libcuda", *_NO_DRIVER_SAID)
    fails = messages.has("cuinit-failed", "no-cuda-device") or _lacks_the_driver(messages)
    if not absent and not (messages.has("smi-not-found") and fails):
        return None
    found = message_evidence(*messages.all(*_NO_DRIVER_SAID), *inputs.driver_messages(messages))
    if not kernel_module_loaded and not inputs.smi_works(nvidia_smi):
        is_open, install = not context.probed and has_gpu is None, context.remedies.install_driver()
        text = f"If the machine has an NVIDIA GPU, {install.text[:1].lower()}{install.text[1:]}; else do nothing"
        return Problem(
            title="The NVIDIA driver is not found" if is_open else None,
            cause=_NEEDED_WITH_A_GPU if is_open else None,
            evidence=found,
            fixes=(structs.replace(install, text=text) if is_open else install, inputs.RUN_ON_HOST),
            sure=messages.has("apptainer-no-driver"),
        )
    return Problem(
        title="The driver is loaded, but its library libcuda.so.1 is not found",
        cause="the driver's libraries are not installed, or are in a folder that the loader does not search",
        evidence=found,
        fixes=(_find_libcuda(value_or(context.facts.driver.version, "")),),
    )


def _find_libcuda(driver: str) -> Fix:
    """Look for libcuda, and what to do in each case; its package of Ubuntu up to 16.04 (tensorflow issue 4267)."""
    branch = major(driver) or "BRANCH"
    name = "libcuda1" if at_least(driver, "390") is False else "libnvidia-compute"
    text = (
        "Search for the library. Where the first command finds it, name its folder to the loader with the second; "
        "where not, install it in the driver's version (Ubuntu: the third; else NVIDIA's installer again)"
    )
    add = "echo /folder/of/it | sudo tee /etc/ld.so.conf.d/nvidia.conf && sudo ldconfig"
    install = f"sudo apt-get install --reinstall {name}-{branch}"
    return Fix(text, ("find / -name 'libcuda.so*' -not -path '*/stubs/*' 2>/dev/null", add, install))


@MISSING.sign(unless=("gpu.none",))
def conda_sees_none(messages: MessageLog) -> Problem | None:
    """conda's virtual package __cuda is the driver; the builds with CUDA require it."""
    text = "If it will run on another machine, name the CUDA that the driver there supports (nvidia-smi), and try again"
    return Problem(
        title="conda sees no NVIDIA driver on this machine, and refuses builds with CUDA",
        cause="__cuda stands for the driver; a login node, or an image while it is built, has none",
        evidence=message_evidence(*messages.all("conda-sees-no-driver")),
        fixes=(Fix(text, ("export CONDA_OVERRIDE_CUDA=12.9",)),),  # conda: "Managing virtual packages"
    )


@MISSING.sign(unless=("gpu.none", "tf.cpu-build"))
def smi_not_found(
    context: Context,
    messages: MessageLog,
    host_container: str | None = None,
    driver_version: str | None = None,
    cards: Cards = (),
) -> Problem | None:
    """nvidia-smi, which every driver brings along, is not there, and that is all that a text tells."""
    seen = messages.all("smi-not-found")
    elsewhere = driver_version or host_container or context.remedies.os in ("macos", "wsl2")
    if not seen or elsewhere or not messages.speaks_only_of("smi-not-found"):
        return None
    on_windows = 'powershell -Command "(Get-CimInstance Win32_VideoController).Name"'
    command = on_windows if context.remedies.os == "windows" else "lspci | grep -i nvidia"
    look = Fix("See whether there is an NVIDIA GPU", (command,))
    return Problem(
        title="nvidia-smi is not found: the NVIDIA driver is probably not installed",
        cause="every NVIDIA driver installs nvidia-smi; CUDA from pip or conda does not contain the driver",
        evidence=message_evidence(*seen),
        fixes=(*(() if cards else (look,)), context.remedies.install_driver()),
    )


_SEE_WHY = "sudo dmesg | grep -iE 'nvidia|nouveau' | tail -n 20"
_LOAD = Fix(
    "Load the module, and read in the kernel log why it fails: nouveau, or a rejected key. If it is not found, build "
    "it: install the kernel's headers, and sudo dkms autoinstall. If the log is empty, a laptop's GPU may be off: sudo "
    "prime-select on-demand, and restart",
    ("sudo modprobe nvidia", _SEE_WHY),
)
_NOT_REBUILT = "the module was not built for the running kernel: DKMS did not rebuild it"
_REBUILD = Fix(
    "After a kernel update, build the module again; DKMS needs the headers of the kernel (on Debian and Ubuntu the "
    "package linux-headers-$(uname -r))",
    ("sudo dkms autoinstall", "sudo reboot"),
)
_DISABLE_NOUVEAU = Fix(
    "Disable nouveau",
    (
        "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
        "sudo update-initramfs -u 2>/dev/null || sudo dracut --force",
        "sudo reboot",
    ),
)
_ENROL_KEY = Fix(
    "Enrol the key that signs the module; the firmware asks for the password at the next restart",
    ("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der", "sudo reboot"),
)
_SWITCH_ON = Fix("On a laptop with two GPUs: switch on NVIDIA's", ("sudo prime-select on-demand", "sudo reboot"))

_NODES = Fix(
    "Load the modules and make the device nodes before Docker or the kubelet starts; the last does so at each start",
    ("sudo modprobe nvidia && sudo nvidia-modprobe -u -c=0", "sudo systemctl enable --now nvidia-persistenced"),
)

_UNSIGNED = "Secure Boot rejects a kernel module whose signing key is not enrolled"
# what modprobe and the kernel log say of the module, and what it means
_REASONS = (
    (re.compile(r"[Kk]ey was rejected|[Rr]equired key not available"), _UNSIGNED, _ENROL_KEY),
    (re.compile(r"^intel$"), "the laptop has switched off its NVIDIA GPU: prime-select is set to intel", _SWITCH_ON),
    (re.compile(r"Kernel driver in use: nouveau"), "nouveau uses the GPU", _DISABLE_NOUVEAU),
    (
        re.compile(r"disagrees about version of symbol|Unknown symbol in module|Module nvidia\S* not found"),
        "the module was not built for the running kernel",
        _REBUILD,
    ),
    (re.compile(r"device information .{0,60}/dev/nvidia"), "the device nodes of the GPU are made by no one", _NODES),
)

NOT_LOADED = finding(
    "driver.not-loaded",
    layer="Driver",
    title="The NVIDIA driver is installed, but its kernel module is not loaded",
    cause="nouveau uses the GPU, Secure Boot rejects the module, it was not built for the running kernel, or a laptop "
    "has switched off its NVIDIA GPU; the kernel log says which",
    fixes=lambda _: (_LOAD, _REBUILD, _SWITCH_ON),
    pointless_after=("container.no-gpu", "wsl.setup", "driver.stub-loaded"),
    symptoms=(symptoms.NO_DEVICE_NODE,),
    docs="https://us.download.nvidia.com/XFree86/Linux-x86_64/latest/README/commonproblems.html",
)


@NOT_LOADED.sign()
def libraries_without_module(
    context: Context,
    has_gpu: bool,
    libcuda: Libraries,
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
    modules, cause, fix = kernel_module_on_disk, None, _LOAD
    if nouveau_loaded:
        found.append(evidence("nouveau is loaded", context.source("host.nouveau_loaded"), "nouveau disabled"))
        cause, fix = "nouveau uses the GPU", _DISABLE_NOUVEAU
    elif modules is not None and host_kernel and not any(f"/{host_kernel}/" in path for path in modules):
        found.append(evidence(f"no nvidia.ko for kernel {host_kernel}", context.source("driver.kernel_module_on_disk")))
        cause, fix = _NOT_REBUILT, _REBUILD
    elif secure_boot:
        found.append(evidence("Secure Boot is on", context.source("host.secure_boot"), "a module with an enrolled key"))
        cause, fix = _UNSIGNED, _ENROL_KEY
    return Problem(cause=cause, evidence=tuple(found), fixes=(fix,))


# NVIDIA's driver README, "Open Linux Kernel Modules": Blackwell and later need them; Ubuntu's packages end in -open
@NOT_LOADED.sign(unless=("gpu.none",))
def proprietary_module(messages: MessageLog, driver_version: str | None = None) -> Problem | None:
    """The kernel module is loaded, and refuses a GPU that only the open one drives."""
    branch = (driver_version or "BRANCH").split(".")[0]
    of_packages = (f"sudo apt-get install nvidia-driver-{branch}-open", "sudo reboot")
    text = "Install the open variant of the driver's package; where the driver is from NVIDIA's .run installer, instead"
    return Problem(
        title="This GPU needs the open kernel modules of NVIDIA's driver",
        cause="the proprietary kernel module is loaded, and does not drive GPUs of the Blackwell generation and later",
        evidence=message_evidence(*messages.all("open-module-needed")),
        fixes=(Fix(f"{text} sudo sh NVIDIA-Linux-x86_64-VERSION.run -m=kernel-open", of_packages),),
        sure=True,
    )


# results of cuInit while the display driver runs: nvidia-uvm is not ready
_CUDA_MODULE_FAILS = (3, 304, 999)
_OTHER_SIGNS = ("gpu-lost", "xid", "open-module-needed")
_NO_MODULE = ("kernel-driver-not-running", "smi-no-driver")


def _is_no_matter_of_modules(messages: MessageLog, os: str | None, cards: Cards) -> bool:
    """True on Windows, beside what tells of another reason, and for a GPU that no TensorFlow uses anyway."""
    return messages.has(*_OTHER_SIGNS) or os == "windows" or inputs.below_every_wheel(cards)


@NOT_LOADED.sign(unless=("driver.missing", "driver.version-mismatch", "driver.too-old", "gpu.none"))
def module_message(
    messages: MessageLog,
    kernel_module: str | None = None,
    nvidia_smi: SmiResult | None = None,
    cuda_init: CallResult | None = None,
    host_kernel: str | None = None,
    os: str | None = None,
    cards: Cards = (),
) -> Problem | None:
    """nvidia-smi or TensorFlow finds no module: nouveau, Secure Boot, DKMS, a laptop that runs on its other GPU."""
    if _is_no_matter_of_modules(messages, os, cards):
        return None
    absent = messages.all("kernel-driver-not-running", "smi-no-driver", "module-not-loaded", "module-init-failed")
    if inputs.has_code(cuda_init, *_CUDA_MODULE_FAILS) and not (messages.has(*_NO_MODULE) or _as_root(messages)):
        return _without_uvm(messages, cuda_init)
    if not absent or kernel_module or inputs.smi_works(nvidia_smi) or _lacks_the_driver(messages):
        return None
    for words, cause, fix in _REASONS:
        if told := [message for message in absent if words.search(message.text)]:
            return Problem(cause=cause, evidence=message_evidence(*told, *absent), fixes=(fix,))
    if built := _for_another_kernel(messages, host_kernel):
        cause = _NOT_REBUILT
        return Problem(cause=cause, evidence=message_evidence(*built, *absent), fixes=(_REBUILD,))
    return Problem(evidence=message_evidence(*absent, *messages.all("cuinit-failed")))


def _without_uvm(messages: MessageLog, cuda_init: CallResult | None) -> Problem:
    seen = () if messages.has("kernel-version") else messages.all("cuinit-failed")
    ways = (inputs.DEVICE_NODES, inputs.RELOAD_UVM)
    if inputs.has_code(cuda_init, 999):  # "unknown error" comes after suspend more often than without the module
        ways = ways[::-1]
    return Problem(
        title="The kernel module nvidia-uvm, which CUDA requires, does not work",
        cause="the display driver runs, but CUDA cannot start: nvidia-uvm is not loaded, failed after suspend, or "
        "this user has no permission for its device node; sometimes it is the hardware",
        evidence=message_evidence(*seen),
        fixes=ways,
    )


def _for_another_kernel(messages: MessageLog, running: str | None) -> tuple[Message, ...]:
    """What tells that the kernel is another one than that of the module."""
    built = messages.all("dkms-built")
    if built and running:
        return () if running in messages.values("dkms-built", "kernel") else built
    return messages.all("kernel-updated")


TOO_OLD = finding(
    "driver.too-old",
    layer="Driver",
    title="The NVIDIA driver is too old for the CUDA version in use",
    despite_verified=True,
    cause="the CUDA version in use requires a newer driver",
    pointless_after=("driver.version-mismatch", "driver.stub-loaded"),
    symptoms=(symptoms.OLD_DRIVER,),
    docs="https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
)


def _system(context: Context) -> str | None:
    """Return the system whose minimum drivers count; where CUDA starts in WSL2, those of Windows do."""
    os, init = value_or(context.facts.host.os, None), value_or(context.facts.driver.cuda_init, None)
    starts = inputs.has_code(init, 0) or context.log.has("gpu-created")  # with a preview driver, an older one does
    in_wsl = os == "wsl2" or (os == "windows" and context.remedies.image)  # where Docker Desktop runs images
    return os if not in_wsl else "windows" if starts else "wsl2"


def _drivers(context: Context, cuda: str | None) -> tuple[str | None, str | None]:
    """The oldest driver that runs a CUDA at all, and the one that its toolkit was published with."""
    toolkit = context.matrix.cuda(cuda) if cuda else None
    if toolkit is None:
        return None, None
    oldest = driver_on(_system(context), toolkit.oldest_driver_linux, toolkit.oldest_driver_windows)
    return oldest, driver_on(_system(context), toolkit.min_driver_linux, toolkit.min_driver_windows) or oldest


def _needed_on(context: Context, release: Release, cards: Cards) -> str | None:
    """The oldest driver for a release on the GPUs that are known."""
    known = [card.compute_capability for card in cards]
    return oldest_driver(release, known, _system(context))


def _is_older(driver: str | None, oldest: str | None) -> bool:
    """Whether a driver is certainly older; a branch stands for its newest, and what cannot be read is not older."""
    if driver is None or oldest is None or at_least(driver, oldest) is not False:
        return False
    return not driver_reaches(driver, oldest)


def _newer_driver(
    context: Context,
    seen: tuple[Evidence, ...],
    cuda: str | None,
    driver: str | None,
    needed: str | None,
    keep: Release | None = None,
) -> Problem:
    """A newer driver, or an older TensorFlow; or the CUDA of the release to `keep`, which the driver runs."""
    if keep:
        text = f"Keep {keep.version}, in an environment of its own"
        return Problem(
            title=f"A CUDA is loaded that is newer than driver {driver} supports, by conda or from the loader path",
            evidence=seen,
            fixes=(*context.remedies.with_cuda_beside(keep, text), context.remedies.install_driver()),
        )
    older = context.remedies.reinstall_best("the newest release that this driver supports") if driver else ()
    return Problem(
        title=f"Driver {driver} is too old for CUDA {cuda}" if driver and cuda else None,
        cause=f"CUDA {cuda} requires driver {needed} or newer" if needed else None,
        evidence=seen,
        fixes=(context.remedies.install_driver(needed), *older),
    )


_OLDER_IMAGE = Alternative(
    "Use an older tag of the image, whose CUDA the driver supports (nvidia-smi shows it); if the two differ in the "
    "minor version only, from CUDA 11 on, NVIDIA_DISABLE_REQUIRE=1 in the container's environment starts this one "
    "(Docker: -e NVIDIA_DISABLE_REQUIRE=1), and minor-version compatibility mostly lets it work"
)


def _compatibility_refused(context: Context, seen: tuple[Evidence, ...], needed: str | None) -> Problem:
    cause = "CUDA's forward-compatibility libcuda works on data-center GPUs only; this GPU needs a newer driver"
    without = Alternative("Remove the package cuda-compat from the loader path, or use an image with an older CUDA")
    return Problem(cause=cause, evidence=seen, fixes=(context.remedies.install_driver(needed), without))


@TOO_OLD.sign()
def below_minimum(
    context: Context, driver_version: str, gpu_release: Release, cards: Cards = (), cuda_init: CallResult | None = None
) -> Problem | None:
    """Older than the minimum for the CUDA major version, or the forward-compatibility libcuda was refused."""
    cuda, needed = gpu_release.cuda, _needed_on(context, gpu_release, cards)
    found, where = f"driver {driver_version}", context.source("driver.version")
    oldest, _ = _drivers(context, cuda)
    if _is_older(driver_version, oldest):
        why = why_driver(gpu_release, [card.compute_capability for card in cards], _system(context))
        expected = f"{needed} or newer for {why}", "compat_matrix.yaml, CUDA toolkits"
        of_release = f"{cuda} of TensorFlow {gpu_release.version}"
        if needed == compatibility.FIRST_IN_WSL2:
            expected, of_release = (expected[0], compatibility.WSL2_GUIDE), "in WSL2"
        problem = _newer_driver(context, (evidence(found, where, *expected),), of_release, driver_version, needed)
        of_ptx = f"CUDA {of_release} requires driver {oldest} or newer, and {why} driver {needed}"
        return replace(problem, cause=of_ptx) if needed != oldest else problem
    if cuda_init is None or cuda_init.code != inputs.COMPATIBILITY_REFUSED or oldest is None:
        return None
    init = inputs.returned("cuInit", cuda_init, "driver.cuda_init", context)
    return _compatibility_refused(context, (init, evidence(found, where)), needed)


@TOO_OLD.sign()
def cannot_compile_ptx(
    context: Context, driver_version: str, gpu_release: Release, cards: Cards, cuda_supported: str | None = None
) -> Problem | None:
    """Recent enough for the CUDA of the release, but not for what it has for the GPU as PTX alone."""
    alone, needed = _alone(gpu_release, cards), _needed_on(context, gpu_release, cards)
    oldest = _needed_on(context, gpu_release, ())
    if alone is None or _is_older(driver_version, oldest) or not _is_older(driver_version, needed):
        return None
    card, ptx = alone
    if at_least(cuda_supported, ptx.cuda):
        return None  # libcuda is that of the forward-compatibility package
    expected = f"{needed} or newer for PTX {ptx.isa}", f"the fat binaries of TensorFlow {gpu_release.version}"
    remedies, why = context.remedies, "it runs on this driver"
    return Problem(
        title=f"Driver {driver_version} is too old for TensorFlow {gpu_release.version} on this GPU",
        cause=f"{ptx.fat_binaries} of the {ptx.of} fat binaries in TensorFlow {gpu_release.version} have no machine "
        f"code (SASS) for compute capability {card.compute_capability}: the driver compiles their PTX, and driver "
        f"{needed} is the first that knows PTX {ptx.isa}. Until then, the first such operation fails with "
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        evidence=(evidence(f"driver {driver_version}", context.source("driver.version"), *expected),),
        fixes=(remedies.install_driver(needed), *remedies.reinstall_best(why), *remedies.beside_the_wheels(why)),
    )


def _alone(release: Release | None, cards: Cards) -> tuple[Card, PtxOnly] | None:
    """The GPU that runs the newest PTX for want of SASS, and that PTX."""
    known = release.ptx_only if release else {}
    found = [(card, known[card.compute_capability]) for card in cards if card.compute_capability in known]
    return max(found, key=lambda pair: numbers(pair[1].isa), default=None)


def _requirement(
    context: Context, cuda: str | None, release: Release | None, cards: Cards, *, ptx: bool, refused: bool
) -> tuple[str | None, str]:
    """The oldest driver that is needed here, and what needs it."""
    oldest, published = _drivers(context, cuda)
    if of_image := context.remedies.image_cuda():  # an image starts on the driver that its CUDA was published with
        needed = published if value_or(context.facts.host.os, None) in ("windows", "wsl2") else of_image[1]
        return needed, f"CUDA {cuda} of {context.remedies.image}"
    needed = published if ptx or refused else oldest
    if release:
        # where what fails is the CUDA of a known wheel, or its PTX, which may stand alone for the GPU
        own = _alone(release, cards) if ptx else minor(release.cuda) == minor(cuda or "-")
        needed = (_needed_on(context, release, cards) if own else None) or needed
    return needed, f"CUDA {cuda}"


@TOO_OLD.sign(unless=("wsl.setup", "gpu.none"))
def image_not_started(context: Context, messages: MessageLog) -> Problem | None:
    """An image starts on the driver of its own CUDA; it has its TensorFlow, so that pip changes nothing."""
    asked = messages.values("driver-insufficient", "cuda")
    if not asked:
        return None
    cuda = (context.remedies.image_cuda() or asked)[0]
    needed, why = _requirement(context, cuda, None, (), ptx=False, refused=True)
    seen = message_evidence(
        *messages.all("driver-insufficient"), need=f"{needed} or newer for {why}" if needed else None
    )
    return Problem(evidence=seen, fixes=(context.remedies.install_driver(needed), _OLDER_IMAGE))


@TOO_OLD.sign(unless=("container.no-gpu", "wsl.setup", "gpu.none"))
def insufficient_driver_message(
    context: Context,
    messages: MessageLog,
    cuda_init: CallResult | None = None,
    driver_version: str | None = None,
    cuda_in_use: str | None = None,
    cards: Cards = (),
    gpu_release: Release | None = None,
) -> Problem | None:
    """The runtime or the container tool reports it, forward compatibility was refused, or cuInit fails below it."""
    refused = inputs.has_code(cuda_init, inputs.COMPATIBILITY_REFUSED)
    cuda = (context.remedies.image_cuda() or (cuda_in_use,))[0]  # an image has its own CUDA
    certain = [
        *messages.all("driver-insufficient", "ptx-too-new-for-driver", "forward-compatibility"),
        *inputs.hook_failures(messages, "unsatisfied"),
    ]
    failed = messages.all("cuinit-failed", "no-cuda-device")
    if refused or (failed and _is_older(driver_version, _drivers(context, cuda)[0])):
        certain += [*failed, *messages.all("kernel-version")]
    elif not certain:
        return None
    ptx = messages.has("ptx-too-new-for-driver")
    needed, why = _requirement(context, cuda, gpu_release, cards, ptx=ptx, refused=refused)
    runs = not refused and driver_version and "." in driver_version and driver_reaches(driver_version, needed)
    needed = None if runs else needed  # then what is loaded is another CUDA than that of the release
    certain += messages.all("possibly-old-driver")  # not conclusive on its own
    seen = message_evidence(*certain, need=f"{needed} or newer for {why}" if needed else None)
    if refused:
        return _compatibility_refused(context, seen, needed)
    return _newer_driver(context, seen, cuda, driver_version, needed, gpu_release if runs and not ptx else None)


# CUresult (cuda.h) → why, what to do. Codes with a finding of their own are left out.
_RESULTS: dict[int, tuple[str, tuple[Fix, ...]]] = {
    inputs.OUT_OF_MEMORY: (
        "the machine, not the GPU, gives CUDA no memory to start: the address space of the process is limited, or the "
        "memory of the machine or the container is used up",
        (inputs.MEMORY_OF_PROCESS, inputs.KERNEL_LOG),
    ),
    3: ("device nodes or the module nvidia-uvm are missing", (inputs.DEVICE_NODES, inputs.KERNEL_LOG)),
    100: ("CUDA cannot use the GPU: no permission for /dev/nvidia*, or no nvidia-uvm", (inputs.DEVICE_NODES,)),
    inputs.SYMBOL_NOT_FOUND: (
        f"libcuda lacks a function of its driver. In a container under WSL2: {inputs.NOT_MOUNTED}",
        (inputs.UPDATE_TOOLKIT, inputs.KERNEL_LOG),
    ),
    802: ("the NVSwitch fabric is not ready: its Fabric Manager does not run", (inputs.FABRIC_MANAGER,)),
    999: ("usually nvidia-uvm after suspend or an update, sometimes the hardware", (inputs.RELOAD_UVM, inputs.RESTART)),
}

INIT_FAILED = finding(
    "driver.init-failed",
    layer="Driver",
    title="The driver is loaded, but CUDA cannot be initialised",
    cause="the CUDA driver cannot start; the kernel log may say why",
    fixes=lambda _: (inputs.KERNEL_LOG, inputs.RELOAD_UVM, inputs.DEVICE_NODES),
    pointless_after=(
        *("driver.version-mismatch", "driver.stub-loaded", "driver.not-loaded", "driver.missing"),
        *("driver.unresponsive", "container.no-gpu", "wsl.setup", "gpu.hidden", "gpu.mig", "gpu.fault"),
        "env.address-space-limit",
    ),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)
_ON_WINDOWS = (
    "the driver was updated without a restart, or the machine slept; else the driver's files are damaged, or a laptop "
    "has switched the GPU off"
)
_OTHER_FINDINGS = (0, *inputs.STUB_LIBRARY, inputs.LIBCUDA_NOT_OPENED, 803, inputs.COMPATIBILITY_REFUSED)


_NVIDIA_MODPROBE = Fix(
    "Install nvidia-modprobe, with which a user's program makes the device nodes; after it, all are listed",
    ("sudo apt-get install nvidia-modprobe", "ls -l /dev/nvidia*"),
)


def _as_root(messages: MessageLog) -> list[Message]:
    return [one for one in messages.all("works-elsewhere") if one.values.get("where") in ("sudo", "root")]


@INIT_FAILED.sign(unless=("driver.*", "gpu.none"))
def for_root_alone(messages: MessageLog) -> Problem | None:
    """CUDA starts for root, who makes the device nodes that are missing, and not for the user."""
    failed, rooted = messages.all("cuinit-failed"), _as_root(messages)
    return Problem(
        title="CUDA starts for root alone: its device nodes are missing, or closed to this user",
        cause="root's program makes /dev/nvidia-uvm by itself; that of a user needs the tool nvidia-modprobe for it",
        evidence=message_evidence(*failed, *rooted) if failed and rooted else (),
        fixes=(_NVIDIA_MODPROBE,),
        sure=True,
    )


@INIT_FAILED.sign(unless=("driver.*", "gpu.none"))
def cuinit_result(context: Context, cuda_init: CallResult, has_gpu: bool | None = None) -> Problem | None:
    """cuInit returned an error that is the subject of no other finding, or crashed."""
    code = cuda_init.code
    if code in _OTHER_FINDINGS or has_gpu is False or (code == 100 and not has_gpu) or _as_root(context.log):
        return None
    if code > 0:
        cause, fixes = _RESULTS.get(code, (None, None))
        if context.remedies.os == "windows" and code in (3, 999):
            cause, fixes = _ON_WINDOWS, (inputs.RESTART, context.remedies.install_driver())
        return Problem(
            title=f"CUDA cannot be initialised: {cuda_init.name or f'error {code}'}",
            cause=cause,
            evidence=(inputs.returned("cuInit", cuda_init, "driver.cuda_init", context),),
            fixes=fixes,
        )
    return Problem(
        cause="the driver's library crashes, and TensorFlow with it: its files are damaged, or of several versions",
        evidence=(evidence(cuda_init.message, context.source("driver.cuda_init"), "an answer"),),
        fixes=(context.remedies.install_driver(),),
    )


@INIT_FAILED.sign(unless=("gpu.none",))
def cuda_after_a_fork(messages: MessageLog) -> Problem | None:
    """A forked child cannot use the CUDA of its parent (CUDA C++ Programming Guide, Initialization)."""
    failed = [m for m in messages.all("cuda-error", "cuinit-failed") if "NOT_INITIALIZED" in m.text]
    forked = messages.first("forked")
    if not failed or forked is None:
        return None
    start = "multiprocessing.set_start_method('spawn')"
    return Problem(
        title="CUDA was initialised before the process was forked",
        cause="a forked process cannot use the CUDA that its parent has initialised; in it, TensorFlow has no GPU",
        evidence=message_evidence(*failed, forked),
        fixes=(Fix(f"Use the GPU in the children alone, or start them with {start} instead of a fork"),),
        sure=True,
    )
