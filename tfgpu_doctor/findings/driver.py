"""Findings about the NVIDIA driver: whether it is installed, loaded, consistent, and responds."""

from __future__ import annotations

import re

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import MISMATCH
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, LibraryFile, PciGpu, SmiResult, value_or
from tfgpu_doctor.records.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.records.versions import parts

UNRESPONSIVE = finding(
    "driver.unresponsive",
    layer="Driver",
    severity=Severity.ERROR,
    title="The NVIDIA driver does not respond",
    cause="calls into the driver block in the kernel: a GPU has failed or left the PCI bus, or the driver hangs",
    fixes=lambda _: (answers.KERNEL_LOG, answers.RESTART),
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@UNRESPONSIVE.sign
def calls_without_answer(context: Context, unresponsive: tuple[str, ...]) -> Problem | None:
    """A call into the driver blocked until the deadline."""
    if not unresponsive:
        return None
    where = context.source("driver.unresponsive")
    return Problem(evidence=tuple(evidence(f"{call} did not return", where, "a result") for call in unresponsive))


@UNRESPONSIVE.sign
def hung_task_message(messages: MessageLog) -> Problem | None:
    """The kernel reports a task that waits for the driver."""
    hung = [m for m in messages.all("hung-task") if re.search(r"nvidia|python|cuda", m.values.get("task", ""))]
    slow = answers.hook_failures(messages, "timed out|timeout")
    seen = message_evidence(*hung, *slow)
    keep_loaded = Fix(
        text="If the driver takes long to start (many GPUs, no process that keeps them initialised), keep it loaded",
        commands=("sudo systemctl enable --now nvidia-persistenced", "sudo nvidia-smi -pm 1"),
    )
    fixes = (answers.KERNEL_LOG, keep_loaded, answers.RESTART) if slow else None
    return Problem(evidence=seen, fixes=fixes) if seen else None


def _restart(context: Context) -> tuple[Fix, ...]:
    """Let the same version of the driver be loaded everywhere."""
    if context.remedies.os == "wsl2":
        return (Fix(text="Restart WSL from Windows", commands=("wsl.exe --shutdown",)),)
    reload = Alternative(
        text="Load the new module without a restart, while nothing uses the GPU",
        commands=("sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia", "sudo modprobe nvidia", "nvidia-smi"),
    )
    return (answers.RESTART, reload)


VERSION_MISMATCH = finding(
    "driver.version-mismatch",
    layer="Driver",
    severity=Severity.ERROR,
    title="The loaded NVIDIA kernel module and the driver libraries have different versions",
    cause="the driver was updated while the old kernel module stayed loaded; a restart loads the new one",
    fixes=_restart,
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
)
_NVML_MISMATCH, _CUDA_MISMATCH = 18, 803  # nvmlReturn_t (nvml.h), CUresult (cuda.h)


@VERSION_MISMATCH.sign
def versions_differ(
    context: Context,
    nvml_init: CallResult | None = None,
    cuda_init: CallResult | None = None,
    nvidia_smi: SmiResult | None = None,
    kernel_module: str | None = None,
    libcuda: tuple[LibraryFile, ...] | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """NVML 18 or CUDA 803: typically a driver update without a restart."""
    found: list[Evidence] = []
    if nvml_init and nvml_init.code == _NVML_MISMATCH:
        found.append(answers.returned("nvmlInit", nvml_init, "driver.nvml_init", context))
    if cuda_init and cuda_init.code == _CUDA_MISMATCH:
        found.append(answers.returned("cuInit", cuda_init, "driver.cuda_init", context))
    if nvidia_smi and MISMATCH in nvidia_smi.output.lower():
        found.append(evidence("Driver/library version mismatch", context.source("driver.nvidia_smi"), "a table"))
    if not found and not _differ(kernel_module, libcuda, cuda_init, probed=context.probed):
        return None
    if kernel_module:
        library = next((file for file in libcuda or () if file.version), None)
        expected = f"{library.version}, the version of {library.path}" if library else None
        found.append(evidence(f"kernel module {kernel_module}", context.source("driver.kernel_module"), expected))
    libraries = message_evidence(*messages.all("nvml-version"), need="the version of the module") if messages else ()
    return Problem(evidence=tuple(dict.fromkeys((*found, *libraries))))


def _differ(
    module: str | None, libcuda: tuple[LibraryFile, ...] | None, init: CallResult | None, *, probed: bool
) -> bool:
    """Whether CUDA fails over a libcuda of another version; the compatibility package's is newer on purpose."""
    if (
        not libcuda
        or (init is None and probed)  # a text compares the two because something fails
        or answers.has_code(init, 0, answers.COMPATIBILITY_REFUSED)
        or "compat" in libcuda[0].path
    ):
        return False
    kernel, library = parts(module), parts(libcuda[0].version)  # TensorFlow writes 450.80.02 as "450.80.2"
    return kernel is not None and library is not None and kernel != library


@VERSION_MISMATCH.sign
def mismatch_message(messages: MessageLog, os: str | None = None) -> Problem | None:
    """NVML, the kernel and TensorFlow each report it; nvidia-smi's own version may differ, too, except under WSL2."""
    tables = () if os == "wsl2" else messages.all("smi-version")
    tools = [m for m in tables if (parts(m.values["tool"]) or ())[:1] != (parts(m.values["driver"]) or ())[:1]]
    found = message_evidence(*messages.all("nvml-mismatch", "driver-versions-differ"), *tools)
    return Problem(evidence=found) if found else None


def _remove_stubs(context: Context) -> tuple[Fix, ...]:
    path = value_or(context.facts.variables, {}).get("LD_LIBRARY_PATH", "")
    kept = ":".join(part for part in path.split(":") if part and "stubs" not in part)
    show = ("ldconfig -p | grep libcuda", "echo $LD_LIBRARY_PATH")
    return (
        Fix(
            text="Remove folders named stubs from LD_LIBRARY_PATH and /etc/ld.so.conf.d",
            commands=(f"export LD_LIBRARY_PATH={context.remedies.quote(kept)}",) if "stubs" in path else show,
        ),
        Fix(text="In a container without a GPU: start it with access to one (Docker: --gpus all)"),
    )


STUB_LOADED = finding(
    "driver.stub-loaded",
    layer="Driver",
    severity=Severity.ERROR,
    title="The CUDA toolkit's stub libcuda is loaded instead of the driver's",
    cause="a folder of stub libraries, which exist for linking only, is on the loader path; every call into the "
    "stub returns an error",
    fixes=_remove_stubs,
    pointless_after=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)


@STUB_LOADED.sign(unless=("wsl.setup",))
def stub_answers(
    context: Context,
    cuda_init: CallResult,
    libcuda: tuple[LibraryFile, ...] | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """cuInit returns 34 or -1, or the libcuda that is found first is in a directory named stubs."""
    answered = cuda_init.code in answers.STUB_LIBRARY
    first = libcuda[0] if libcuda else None
    in_stubs = first is not None and ("/stubs/" in first.path or (first.problem or "").startswith("stub"))
    if not answered and not in_stubs:
        return None
    found = [evidence(first.path, context.source("driver.libcuda"), "the driver's libcuda.so.1")] if first else []
    if answered:
        found.append(answers.returned("cuInit", cuda_init, "driver.cuda_init", context))
    where, path = context.source("variables"), (variables or {}).get("LD_LIBRARY_PATH", "").split(":")
    found += [evidence(f"LD_LIBRARY_PATH contains {part}", where) for part in path if "/stubs" in part]
    return Problem(evidence=tuple(found))


MISSING = finding(
    "driver.missing",
    layer="Driver",
    severity=Severity.ERROR,
    title="This machine has an NVIDIA GPU but no NVIDIA driver",
    cause="TensorFlow uses the GPU through the NVIDIA driver, which is not installed",
    fixes=lambda context: (context.remedies.install_driver(),),
    pointless_after=("container.no-gpu", "wsl.setup", "driver.unresponsive"),
    docs="https://www.tensorflow.org/install/pip",
)


@MISSING.sign
def neither_library_nor_module(
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
    bus = context.source("host.pci_gpus")
    found = [evidence(f"{gpu.name or gpu.device_id} at {gpu.address}", bus) for gpu in pci_gpus or ()]
    library = "nvcuda.dll" if context.remedies.os == "windows" else "libcuda.so.1"
    found.append(evidence(f"no {library}", context.source("driver.libcuda"), f"the driver's {library}"))
    if nouveau_loaded:
        found.append(evidence("nouveau uses the GPU", context.source("host.nouveau_loaded"), "the module nvidia"))
    return Problem(evidence=tuple(found))


@MISSING.sign(unless=("gpu.none", "tf.cpu-build", "driver.stub-loaded"))
def libcuda_message(
    context: Context,
    messages: MessageLog,
    kernel_module_loaded: bool | None = None,
    kernel_module: str | None = None,
    nvidia_smi: SmiResult | None = None,
    cuda_init: CallResult | None = None,
) -> Problem | None:
    """libcuda cannot be opened; the kernel module may be loaded all the same."""
    absent = (
        answers.no_libcuda(messages)
        or messages.has("smi-no-libcuda", "driver-not-installed")
        or answers.has_code(cuda_init, answers.LIBCUDA_NOT_OPENED)
    )
    if not absent and not (messages.has("smi-not-found") and messages.has("cuinit-failed", "no-cuda-device")):
        return None
    found = message_evidence(*messages.all("driver-not-installed"), *answers.driver_messages(messages))
    if not kernel_module_loaded and not answers.smi_works(nvidia_smi):
        return Problem(evidence=found, fixes=(context.remedies.install_driver(), answers.RUN_ON_HOST))
    running = f"kernel module {kernel_module} is loaded" if kernel_module else "driver is loaded"
    return Problem(
        title=f"The {running}, but its library libcuda.so.1 is not found",
        cause="the driver's libraries are not installed, or are in a folder that the loader does not search",
        evidence=found,
        fixes=(
            Fix(
                text="Search for the library",
                commands=("ldconfig -p | grep libcuda", "find / -name 'libcuda.so*' 2>/dev/null"),
            ),
            Fix(
                text="Install the compute libraries of the same driver version (Debian: libcuda1; Ubuntu: "
                "libnvidia-compute-BRANCH)"
            ),
        ),
    )


@MISSING.sign(unless=("gpu.none", "tf.cpu-build"))
def smi_not_found(
    context: Context, messages: MessageLog, host_container: str | None = None, driver_version: str | None = None
) -> Problem | None:
    """nvidia-smi, which every driver brings along, is not there, and that is all that a text tells."""
    seen, os = messages.all("smi-not-found"), context.remedies.os
    if (
        not seen
        or driver_version
        or host_container
        or os in ("macos", "wsl2")
        or not messages.speaks_only_of("smi-not-found")
    ):
        return None
    return Problem(
        title="nvidia-smi is not found: the NVIDIA driver is probably not installed",
        cause="every NVIDIA driver installs nvidia-smi; CUDA from pip or conda does not contain the driver",
        evidence=message_evidence(*seen),
        fixes=(_SEE_DRIVER.get(os, _SEE_DRIVER["linux"]), context.remedies.install_driver()),
    )


_SEE_DRIVER = {
    "linux": Fix("See whether there is an NVIDIA GPU and a driver", ("lspci | grep -i nvidia", "ls /dev/nvidia*")),
    "wsl2": Fix("Look in the folder of WSL, which may not be on PATH", ("/usr/lib/wsl/lib/nvidia-smi",)),
    "windows": Fix(
        "See whether there is an NVIDIA GPU", ('powershell -Command "(Get-CimInstance Win32_VideoController).Name"',)
    ),
}
