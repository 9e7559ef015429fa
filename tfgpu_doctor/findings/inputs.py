"""What parameters of signs are bound to: facts by name, and values derived from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.facts.facts import (
    NOT_ASKED,
    CallResult,
    ComputeCheck,
    CudnnFile,
    Fact,
    Gpu,
    Gpus,
    Known,
    LibraryFile,
    Message,
    Packages,
    PciGpu,
    Phases,
    ShadowedModule,
    SmiResult,
    Soname,
    TfDevice,
    Toolkit,
    Unknown,
    XlaFile,
    fact_paths,
    look_up,
    map_fact,
    value_or,
)
from tfgpu_doctor.facts.report import Evidence, Fix
from tfgpu_doctor.facts.versions import capability, capability_of
from tfgpu_doctor.findings.declaration import Context, MessageLog, evidence, message_evidence
from tfgpu_doctor.findings.libraries import reported_cuda, reported_cudnn
from tfgpu_doctor.findings.phases import import_fails
from tfgpu_doctor.findings.requirements import unusable
from tfgpu_doctor.matrix.compatibility import published_row
from tfgpu_doctor.matrix.loader import CudnnRelease, Matrix, Release
from tfgpu_doctor.matrix.names import before_kepler, known_library

# ----------------------------------------------------------------------------------------------------------------------
# Values that follow from facts and the matrix; signs name them by a parameter, as they name facts.
# The functions here get facts, and one another's results, in the same way: by the names of their parameters, but with
# what is unknown as `Unknown`. `context` gives the matrix and the options of the command.


# no library needs these to be loaded; they are opened when first used, so TensorFlow can use a GPU without them
OPTIONAL_COMPONENTS = frozenset({"nvinfer", "tensorrt", "nccl", "cupti", "nvshmem", "driver"})

# results of a driver that has a GPU but cannot use it. NVML (nvml.h): 18 library and kernel module differ, 15 GPU is
# lost. CUDA (cuda.h): 101 invalid device, 802 not yet initialised, 803 and 804 mismatch, 999 unknown
COMPLAINTS = frozenset({15, 18, 101, 802, 803, 804, 999})
MISMATCH = "driver/library version mismatch"
_GPU_NODE = re.compile(r"/nvidia\d+$")


@dataclass(frozen=True)
class Card:
    """A GPU model in this machine and where its compute capability was read.

    Raises ValueError: the compute capability is not made of numbers, as in a saved report that somebody changed.
    """

    name: str
    compute_capability: str  # "8.9"
    source: str

    def __post_init__(self) -> None:
        capability(self.compute_capability)

    @property
    def version(self) -> tuple[int, int]:
        """Compute capability as numbers."""
        return capability(self.compute_capability)


Cards = tuple[Card, ...]
Checks = tuple[ComputeCheck, ...]
Devices = tuple[TfDevice, ...]
Libraries = tuple[LibraryFile, ...]
PciGpus = tuple[PciGpu, ...]
Sonames = tuple[Soname, ...]
Toolkits = tuple[Toolkit, ...]
Variables = dict[str, str]
XlaFiles = tuple[XlaFile, ...]


def release(
    context: Context, tensorflow_version: Fact[str], tensorflow_distribution: Fact[str], wheel_platform: Fact[str]
) -> Fact[Release]:
    """The matrix row of the TensorFlow under test."""
    package = value_or(tensorflow_distribution, "tensorflow")
    return published_row(context.matrix, tensorflow_version, wheel_platform, package)


def gpu_release(release: Fact[Release]) -> Fact[Release]:
    """The same row, for a build that can use a GPU at all."""
    if isinstance(release, Known) and not release.value.gpu:
        row = release.value
        return Unknown(f"{row.package} {row.version} on {row.platform} is a CPU build")
    return release


def driver_speaks(
    gpus: Fact[Gpus], nvml_init: Fact[CallResult], cuda_init: Fact[CallResult], nvidia_smi: Fact[SmiResult]
) -> Fact[bool]:
    """Whether the driver of a GPU answers here, even with an error; a stub does not, nor a driver without a GPU."""
    if value_or(gpus, ()):
        return Known(True, "GPUs")
    answers = [answer for answer in (nvml_init, cuda_init) if isinstance(answer, Known)]
    mismatch = isinstance(nvidia_smi, Known) and MISMATCH in nvidia_smi.value.output.lower()
    return Known(mismatch or any(answer.value.code in COMPLAINTS for answer in answers), "the driver's answers")


_OLDEST = (3, 0)  # compute capability of the first wheels; below it no release would have helped


def below_every_wheel(cards: Iterable[Card]) -> bool:
    """True if there are cards, and no TensorFlow has kernels for any of them."""
    versions = [card.version for card in cards]
    return bool(versions) and max(versions) < _OLDEST


def has_gpu(
    dxg_device: Fact[bool],
    kernel_module_loaded: Fact[bool],
    device_nodes: Fact[tuple[str, ...]],
    driver_speaks: Fact[bool],
    pci_gpus: Fact[PciGpus],
) -> Fact[bool]:
    """Whether an NVIDIA GPU is in this machine, by the driver or by the PCI bus.

    A driver that complains about itself has a GPU below it: its kernel module stays loaded only with one. A sandbox
    or a virtual machine may show no PCI bus, so that the bus alone says "no" only when the driver is silent.
    """
    if value_or(dxg_device, False):
        return Known(True, "/dev/dxg")
    if value_or(kernel_module_loaded, False) or any(_GPU_NODE.search(node) for node in value_or(device_nodes, ())):
        return Known(True, "the driver's kernel module and device nodes")
    if value_or(driver_speaks, False):
        return driver_speaks
    return map_fact(pci_gpus, bool)


def _by_name(gpus: Fact[Gpus], pci_gpus: Fact[PciGpus], matrix: Matrix) -> Iterator[Card]:
    """The GPUs by what the driver calls them, or else by the bus, whose device ids tell more than a name."""
    names = [gpu.name.value for gpu in value_or(gpus, ()) if isinstance(gpu.name, Known)]
    models = [(name, matrix.gpu(name)) for name in names]
    for pci in () if names else value_or(pci_gpus, ()):
        name = pci.name or pci.device_id
        models.append((name, matrix.gpu_of_device(pci.device_id) or matrix.gpu_as_written(name)))
    for name, model in models:
        if model:
            yield Card(name, model.compute_capability, f"compat_matrix.yaml, GPU {model.name}")
        elif told := capability_of(name) or before_kepler(name):
            yield Card(name, told, "as stated")


def cards(context: Context, gpus: Fact[Gpus], devices: Fact[Devices], pci_gpus: Fact[PciGpus]) -> Fact[Cards]:
    """The different GPU models with their compute capability, from NVML or else from TensorFlow."""
    found: dict[str, Card] = {}
    for gpu in value_or(gpus, ()):
        if isinstance(gpu.compute_capability, Known):
            name = value_or(gpu.name, f"GPU {gpu.index}")
            found[name] = Card(name, gpu.compute_capability.value, gpu.compute_capability.source)
    for device in value_or(devices, ()):
        if device.compute_capability and device.device_name not in found:
            name = device.device_name or device.name
            found[name] = Card(name, device.compute_capability, "tf.config.experimental.get_device_details")
    if not found:
        found = {card.name: card for card in _by_name(gpus, pci_gpus, context.matrix)}
    if found:
        return Known(tuple(found.values()), "GPUs")
    return Unknown(gpus.reason if isinstance(gpus, Unknown) else "the compute capability of no GPU is known")


def cuda_sonames(sonames: Fact[Sonames], *, of_cudnn: bool = False) -> Fact[Sonames]:
    """The CUDA libraries (without cuDNN) that this TensorFlow opens by soname."""
    if isinstance(sonames, Unknown):
        return sonames
    needed = (one for one in sonames.value if one.component not in OPTIONAL_COMPONENTS)
    chosen = tuple(one for one in needed if (one.component == "cudnn") is of_cudnn)
    return Known(chosen, sonames.source) if chosen else Unknown("this TensorFlow opens no such library")


def cudnn_sonames(sonames: Fact[Sonames]) -> Fact[Sonames]:
    """The cuDNN library that this TensorFlow opens by soname."""
    return cuda_sonames(sonames, of_cudnn=True)


def cudnn_release(context: Context, runtime: Fact[str], installed: Fact[tuple[CudnnFile, ...]]) -> Fact[CudnnRelease]:
    """The matrix row of the cuDNN that was loaded, or else of the first one on disk."""
    on_disk = next((file.version for file in value_or(installed, ()) if file.version), None)
    version = value_or(runtime, on_disk)
    if version is None:
        return Unknown(runtime.reason if isinstance(runtime, Unknown) else "no cuDNN is installed")
    row = context.matrix.cudnn(version)
    return Known(row, "compat_matrix.yaml") if row else Unknown(f"the matrix has no row for cuDNN {version}")


def gpu_count(gpus: Fact[Gpus], devices: Fact[Devices]) -> Fact[int]:
    """How many GPUs this machine has, by the driver or by TensorFlow, whichever knows of more."""
    if isinstance(gpus, Unknown) and isinstance(devices, Unknown):
        return Unknown(gpus.reason)
    listed = sum(device.kind == "GPU" for device in value_or(devices, ()))
    return Known(max(len(value_or(gpus, ())), listed), "GPUs")


def gpus_usable(devices: Fact[Devices], gpus: Fact[Gpus], has_gpu: Fact[bool]) -> Fact[int]:
    """How many GPUs TensorFlow lists; how many the driver lists, when TensorFlow was not started."""
    if isinstance(devices, Known):
        return Known(sum(device.kind == "GPU" for device in devices.value), devices.source)
    if isinstance(gpus, Known):
        return Known(len(gpus.value), gpus.source)
    if isinstance(has_gpu, Known) and not has_gpu.value:
        return Known(0, has_gpu.source)
    return Unknown(devices.reason)


def required_gpus(context: Context) -> Fact[int]:
    """The number given with --require-gpus."""
    return NOT_ASKED if context.require_gpus is None else Known(context.require_gpus, "--require-gpus")


def planned(context: Context) -> Fact[object]:
    """The environment that a manifest describes; asked for by `tfgpu check` alone."""
    return Known(context.planned, "the manifest") if context.planned else NOT_ASKED


def modules_in_the_way(
    shadowed: Fact[tuple[ShadowedModule, ...]],
    packages: Fact[Packages],
    python_version: Fact[str],
    phases: Fact[Phases],
    wheel_platform: Fact[str],
) -> Fact[tuple[ShadowedModule, ...]]:
    """The modules from other folders that TensorFlow cannot use, where its import fails."""
    if isinstance(shadowed, Unknown) or isinstance(packages, Unknown) or isinstance(python_version, Unknown):
        return next(one for one in (shadowed, packages, python_version) if isinstance(one, Unknown))
    found = unusable(shadowed.value, packages.value, python_version.value, value_or(wheel_platform, None))
    return Known(tuple(found) if import_fails(value_or(phases, None)) else (), "sys.path")


def messages(messages: Fact[tuple[Message, ...]]) -> Fact[MessageLog]:
    """What programs printed, in a live run or in a pasted text."""
    # a report of an older version has none; every question has another sign for it
    return NOT_ASKED if isinstance(messages, Unknown) else Known(MessageLog(messages.value), messages.source)


def cuda_in_use(messages: Fact[MessageLog], gpu_release: Fact[Release]) -> Fact[str]:
    """The CUDA version whose runtime is loaded or needed: of the library that was opened, else of the release."""
    log = value_or(messages, MessageLog(()))
    for name, message in log.libraries("library-opened", "library-not-opened"):
        cuda = library.cuda_version if (library := known_library(name)) else None
        if cuda and "." in cuda:
            return Known(cuda, f"line {message.line}: {name}")
    if wanted := (*log.values("driver-insufficient", "cuda"), *log.values("image-requires", "cuda")):
        return Known(wanted[0], "the text")  # of an image, whatever release somebody names
    if isinstance(gpu_release, Known) and gpu_release.value.cuda:
        return Known(gpu_release.value.cuda, gpu_release.source)
    return Unknown("neither the release nor the log shows its CUDA version")


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(release, gpu_release, driver_speaks, has_gpu, cards, cuda_sonames, cudnn_sonames, cudnn_release, gpu_count),
    *(gpus_usable, required_gpus, cuda_in_use, modules_in_the_way, messages, planned, reported_cuda, reported_cudnn),
)
DERIVED = {function.__name__: function for function in _FUNCTIONS}
_PARAMETERS = {name: one.__code__.co_varnames[: one.__code__.co_argcount] for name, one in DERIVED.items()}


# ----------------------------------------------------------------------------------------------------------------------
# What a parameter of a sign is bound to: a fact by the name of its field, or something derived from facts.
# A field whose name occurs once in the facts is bound by that name (`nvml_init`); any field by the names of its section
# and itself (`driver_version`, `python_packages`). Derived values are the functions above.


PATHS = {path.replace(".", "_"): path for path in fact_paths()}
_TIMES = Counter(path.rpartition(".")[2] for path in fact_paths())
PATHS |= {path.rpartition(".")[2]: path for path in fact_paths() if _TIMES[path.rpartition(".")[2]] == 1}


def fetch(name: str, context: Context) -> Known[Any] | Unknown:
    """The fact or derived value that a parameter of this name is bound to. Raises KeyError: nothing has that name."""
    if name not in DERIVED:
        return _fact(name, context)
    if name not in context.derived:
        # a value of the name of a fact is made of that fact
        inputs = [one for one in _PARAMETERS[name] if one != "context"]
        given: dict[str, Any] = {one: _fact(one, context) if one == name else fetch(one, context) for one in inputs}
        if len(inputs) < len(_PARAMETERS[name]):
            given["context"] = context
        try:
            context.derived[name] = DERIVED[name](**given)
        except ValueError as error:
            context.derived[name] = unreadable(error)
    return context.derived[name]


def unreadable(error: ValueError) -> Unknown:
    """Why nothing follows from a value that is no version or number where one belongs: a saved report can hold any."""
    return Unknown(f"a value in the facts cannot be read: {str(error)[:200]}")


def facts_behind(name: str) -> frozenset[str]:
    """Paths of the facts that an input is, or is derived from."""
    if name not in DERIVED:
        return frozenset({PATHS[name]})
    inputs = (one for one in _PARAMETERS[name] if one != "context")
    return frozenset().union(*(frozenset({PATHS[name]}) if one == name else facts_behind(one) for one in inputs))


def _fact(name: str, context: Context) -> Known[Any] | Unknown:
    value = look_up(context.facts, PATHS[name])
    # a plain field (the phases) counts as known
    return value if isinstance(value, Known | Unknown) else Known(value, PATHS[name])


# ----------------------------------------------------------------------------------------------------------------------
# What programs report of the driver, and fixes: shared by the findings about the driver and the machine below it.


# CUresult (cuda.h); a crash is minus the number of its signal, and TensorFlow 1.0 prints -1 of the stub
STUB_LIBRARY = (34, -1)
OUT_OF_MEMORY = 2  # of the machine or of addresses: cuInit allocates nothing on a GPU
# what TensorFlow gives for cuInit when it cannot open libcuda (CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)
LIBCUDA_NOT_OPENED = 303
COMPATIBILITY_REFUSED = 804
# CUDA_ERROR_NOT_FOUND: NVIDIA/nvidia-container-toolkit issue 520, Docker Desktop's release notes of 4.31
SYMBOL_NOT_FOUND = 500
NOT_MOUNTED = (
    "from branch 555 on, the driver of Windows needs libnvdxgdmal.so.1, which Docker Desktop before 4.31 and the "
    "NVIDIA Container Toolkit before 1.14.4 do not mount into a container under WSL2"
)
UPDATE_TOOLKIT = Fix(
    "Update Docker Desktop to 4.31 or later, or the NVIDIA Container Toolkit to 1.14.4; then start the container anew"
)

RUN_ON_HOST = Fix(
    "To decide, run this on the host, outside any container; if it lists a GPU there, the container was given none",
    ("nvidia-smi",),
)
KERNEL_LOG = Fix(
    "Look for errors of the GPU in the kernel log", ("sudo dmesg | grep -iE 'NVRM|nvidia|Xid' | tail -n 20",)
)
DEVICE_NODES = Fix(
    "Load the module nvidia-uvm, which CUDA requires, and check the device nodes and their permissions",
    ("sudo modprobe nvidia-uvm", "ls -l /dev/nvidia*", "id"),
)
RELOAD_UVM = Fix(
    "After suspend, an update or a crash in the driver: reload nvidia-uvm while nothing uses the GPU",
    ("sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm",),
)
MEMORY_OF_PROCESS = Fix(
    "In the shell that starts the program, see the limit of addresses, which must be unlimited, and the free memory",
    ("ulimit -v", "free -m"),
)
FABRIC_MANAGER = Fix(
    "On a machine with NVSwitch: start the Fabric Manager of exactly the driver's version",
    ("sudo systemctl enable --now nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
)
WSL_LIBRARIES_FIRST = Fix(
    "Put WSL's own libraries first on the loader path. Where the second command is not found, Windows has given none: "
    "update NVIDIA's driver in Windows, then WSL (wsl.exe --update)",
    ("export LD_LIBRARY_PATH=/usr/lib/wsl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", "/usr/lib/wsl/lib/nvidia-smi"),
)
# the GPU's own processor (GSP) does not answer the driver, or reports an error: driver.unresponsive, not gpu.fault
FIRMWARE_XIDS = ("119", "120")
RESET_GPU = Fix(
    "End the jobs on that GPU, and reset it (0: its number; a GeForce or one with a display: restart the machine)",
    ("sudo nvidia-smi --gpu-reset -i 0",),
)
PURGE_DRIVER = "sudo apt-get purge -y '^(nvidia-(driver|utils|dkms|kernel)|libnvidia-(compute|gl|cfg1)).*'"
RESTART = Fix("Restart the machine", ("sudo reboot",))
LIST_GPUS = "python3 -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\""
_LIBCUDA = re.compile(r"libcuda\.so|nvcuda\.dll", re.IGNORECASE)
_NO_DRIVER = ("cuinit-failed", "kernel-driver-not-running", "libcuda-not-loaded", "nvml-not-found", "smi-no-driver")
_UNUSABLE = (*_NO_DRIVER, "no-cuda-device", "ngc-no-driver", "nvml-blocked")


def has_code(result: CallResult | None, *codes: int) -> bool:
    """Whether a call into the driver returned one of these codes."""
    return result is not None and result.code in codes


def returned(call: str, result: CallResult, path: str, context: Context) -> Evidence:
    """A failed call into the driver as evidence, in a text by its line; `path` is that of its fact."""
    found = f"{call}: {result.message} ({result.code})" if context.probed else result.message
    return evidence(found, context.source(path), "success (0)")


def smi_works(nvidia_smi: SmiResult | None) -> bool:
    """Whether nvidia-smi printed its table."""
    return nvidia_smi is not None and nvidia_smi.exit_code == 0


def hook_failures(log: MessageLog, reason: str) -> tuple[Message, ...]:
    """Failures of NVIDIA's container tool whose reason matches a pattern."""
    return tuple(m for m in log.all("container-hook-failed") if re.search(reason, m.values.get("why", m.text), re.I))


def libcuda_not_opened(log: MessageLog) -> tuple[Message, ...]:
    """Lines in which the loader does not open libcuda itself; cuDNN asks for a libcuda.so without a number."""
    of_cudnn = {message.line for message in log.all("cudnn-part-missing")}
    named = log.libraries("library-not-opened", "loader-error")
    return tuple(message for name, message in named if _LIBCUDA.search(name) and message.line not in of_cudnn)


def no_libcuda(log: MessageLog) -> bool:
    """Whether any line reports that the driver's libraries are not found."""
    return bool(libcuda_not_opened(log)) or log.has("libcuda-not-loaded", "nvml-not-found")


def driver_unusable(log: MessageLog, cuda_init: CallResult | None) -> bool:
    """Whether the driver could not be used at all, for whatever reason."""
    return bool(libcuda_not_opened(log)) or log.has(*_UNUSABLE) or (cuda_init is not None and cuda_init.code != 0)


def driver_messages(log: MessageLog) -> tuple[Message, ...]:
    """Lines that report that the driver is not found or not usable."""
    return (*libcuda_not_opened(log), *log.all(*_NO_DRIVER, "smi-not-found", "smi-no-libcuda", "ngc-no-driver"))


# what tells the compute capability of a card
_CAPABILITY_KINDS = ("gpu-created", "no-kernels-for-gpu", "cuda-capability")


def gpu_name(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"


def needs(gpu: Card, expected: str | None, source: str | None) -> Evidence:
    return evidence(f"{gpu.name}: compute capability {gpu.compute_capability}", gpu.source, expected, source)


def of_card(log: MessageLog, cards: Cards | None) -> tuple[Evidence, ...]:
    """Where the number comes from: a line of the text, or the table of GPUs by the card's name."""
    if printed := log.all(*_CAPABILITY_KINDS):
        return message_evidence(*printed, most=1)
    return tuple(needs(card, None, None) for card in (cards or ())[:1])


def capabilities_of(log: MessageLog, cards: Cards | None) -> list[str]:
    reported = [value for kind in _CAPABILITY_KINDS for value in log.values(kind, "capability")]
    return [*reported, *(gpu.compute_capability for gpu in cards or ())]


def required_by(ignored: tuple[Message, ...]) -> list[str]:
    """The lowest capabilities that lines ask for; a line may be cut off."""
    return [m.values[key] for m in ignored for key in ("need", "least", "floor") if m.values.get(key)]


def visible_devices(value: str, gpus: Gpus | None) -> tuple[str, ...]:
    """The entries of CUDA_VISIBLE_DEVICES that count: those before the first invalid one.

    An index is valid below the number of GPUs (any, when that is unknown); a UUID when a GPU's starts with it.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
    """
    counted: list[str] = []
    uuids = [value_or(gpu.uuid, "") for gpu in gpus or ()]
    for entry in (part.strip() for part in value.split(",")):
        if entry.startswith(("GPU-", "MIG-")):
            valid = not any(uuids) or entry.startswith("MIG-") or any(uuid.startswith(entry) for uuid in uuids)
        else:
            valid = entry.isdecimal() and (not gpus or int(entry) < len(gpus))
        if not valid:
            break
        counted.append(entry)
    return tuple(counted)


# Windows' error 1114 in the languages that are met most: German, Russian, Chinese, French, Spanish, Portuguese
_RAN = re.compile(
    r"initialization routine failed|WinError 1114|Initialisierungsroutine"
    r"|\u0438\u043d\u0438\u0446\u0438\u0430\u043b\u0438\u0437|\u521d\u59cb\u5316\u4f8b\u7a0b"
    r"|routine d['\u2019]initialisation|rutina de inicializaci|rotina de inicializa"
)


def ran(refused: Message) -> bool:
    """Whether a DLL that Windows refuses was found, and failed as it began."""
    return _RAN.search(refused.text) is not None
