"""What is known about one machine, one Python environment and one TensorFlow.

Every leaf is a :data:`Fact`: either :class:`Known`, a value with the place it was read from, or :class:`Unknown`, with
the reason why it could not be determined. Probes, parsers of pasted text and saved reports all produce the same
:class:`Facts`; the signs of findings cannot tell which. The records are frozen; msgspec derives their JSON, their
validation and their JSON Schema. Sizes are bytes, times seconds, clocks MHz, power watts, temperatures °C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Struct

from tfgpu_doctor.records.about import HOST, OWN_NAME, About, described, inner_records, private, public
from tfgpu_doctor.records.printable import escape_json, whole

T = TypeVar("T")
U = TypeVar("U")


class Record(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record: frozen, keyword-only; a saved field of another version is left out."""


class StrictRecord(Record, frozen=True, forbid_unknown_fields=True):
    """Base of what people write, whose unknown keys are errors."""


class Document(Record, frozen=True):
    """A record that is a file of its own. Notebooks show it as a page, where something has said how."""

    def to_json(self) -> bytes:
        """The record as JSON."""
        return encode(self)

    def in_brief(self) -> str:
        """What it says, in a few words."""
        return str(getattr(self, "verdict", "") or getattr(self, "schema", ""))

    def __repr__(self) -> str:
        """A line; the whole is some hundred kilobytes."""
        return f"<{type(self).__name__}: {self.in_brief()}>"

    def _repr_html_(self) -> str | None:
        """What Jupyter shows; None: it shows the line."""
        return _html[0](self) if _html else None


_html: list[Callable[[Document], str | None]] = []  # records do not know who renders them


def show_as_html(render: Callable[[Document], str | None]) -> None:
    """Let notebooks show documents with `render`, which returns None for those that it does not know."""
    _html[:] = [render]


def encode(value: object) -> bytes:
    """JSON with two spaces of indentation and a newline at the end, harmless for terminals and CI systems."""
    return escape_json(msgspec.json.format(compact(value), indent=2).decode() + "\n").encode()


def compact(value: object) -> bytes:
    """JSON on one line, U+FFFD in place of half a surrogate pair."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


class Known(
    Struct, Generic[T], frozen=True, tag_field="is", tag="known", forbid_unknown_fields=True, omit_defaults=True
):
    """A value and where it was read: a path, a command, a library call, a line of a text.

    `grade`: "observed" (a probe, or the output of a program), "stated" (a person wrote it), or "inferred" (it follows
    from something else, which `source` names).
    """

    value: T
    source: str
    grade: str = "observed"


ONE_OF = "one of "  # how the source of a value begins that is supposed, of those that remain possible


class Unknown(Struct, frozen=True, tag_field="is", tag="unknown", forbid_unknown_fields=True, omit_defaults=True):
    """The value could not be determined, and why.

    `one_of`: the values that remain possible, where the evidence leaves a few. `ask`: the command that would tell.
    """

    reason: str
    one_of: tuple[str, ...] = ()
    ask: str | None = None


Fact: TypeAlias = Union[Known[T], Unknown]  # noqa: UP007 - `Known[T] | Unknown` is no generic alias at run time on 3.10

NOT_EXAMINED = Unknown("not examined")
NOT_IN_TEXT = Unknown("the text does not say")
NOT_ASKED = Unknown("not asked for")  # a question that nobody put is no open one


def value_or(fact: Known[T] | Unknown, default: U) -> T | U:
    """Return the value of a known fact, else `default`."""
    return fact.value if isinstance(fact, Known) else default


def map_fact(fact: Known[T] | Unknown, convert: Callable[[T], U]) -> Known[U] | Unknown:
    """Apply `convert` to a known value and keep its source; an unknown stays as it is."""
    return Known(convert(fact.value), fact.source, fact.grade) if isinstance(fact, Known) else fact


# --------------------------------------------------------------------------------------- host


class LibraryFile(Record, frozen=True):
    """A shared library on disk."""

    path: Annotated[str, private("path", unit="path")]
    # from the file name behind the link, or from the package that owns it
    version: Annotated[str | None, public("version")] = None
    soname: Annotated[str | None, public("soname")] = None  # DT_SONAME
    # why the loader would refuse it: "empty file", "not ELF", "32-bit"
    problem: Annotated[str | None, private("problem")] = None


class PciGpu(Record, frozen=True):
    """An NVIDIA display or 3D controller on the PCI bus, seen without any driver."""

    address: Annotated[str, public("PCI address")]  # "0000:65:00.0"
    device_id: Annotated[str, public("device id")]  # "10de:2684"
    # kernel driver bound to it: "nvidia", "nouveau", "vfio-pci"; None when unbound
    driver: Annotated[str | None, public("kernel driver", layer="Driver", group="driver")] = None
    name: Annotated[str | None, private("name", grade="noise")] = None


class Setting(Record, frozen=True):
    """A line that sets an environment variable in every new shell, or whenever an environment is activated."""

    name: Annotated[str, public("name")]  # "CUDA_VISIBLE_DEVICES"
    value: Annotated[str, private("value")]  # as it is written there, without quotes
    file: Annotated[str, private("file", unit="path")]  # "/home/me/.bashrc"
    line: Annotated[int, public("line")]  # 1-based


class Limit(Record, frozen=True):
    """A resource limit of a process, as setrlimit(2) sets it."""

    soft: Annotated[int | None, public("limit", unit="bytes")]  # the one that holds; None: no limit
    hard: Annotated[int | None, public("hard limit", unit="bytes")] = None  # up to which the process may raise it


class TemporaryFolder(Record, frozen=True):
    """The folder in which TensorFlow and XLA write temporary files."""

    path: Annotated[str, private("path", unit="path")]
    via: Annotated[str, public("chosen by", grade="noise")]  # "TMPDIR", "TMP", "default"
    problem: Annotated[str | None, public("problem")] = None  # why no file can be made there: "Permission denied"
    free: Annotated[int | None, public("free", unit="bytes", grade="noise")] = None  # for this user


class Host(Record, frozen=True):
    """The machine or container below Python."""

    # "node-17"; of a container, its own
    name: Annotated[Fact[str], private("host name", unit=HOST, grade="noise", group="system")] = NOT_EXAMINED
    # "linux", "windows", "wsl2", "macos"
    os: Annotated[Fact[str], public("operating system", group="system")] = NOT_EXAMINED
    # "x86_64", "aarch64", "arm64", "amd64" as the kernel says it, in lower case
    machine: Annotated[Fact[str], public("architecture", group="system")] = NOT_EXAMINED
    kernel: Annotated[Fact[str], public("kernel")] = NOT_EXAMINED  # "6.8.0-45-generic"
    # "Debian GNU/Linux 12 (bookworm)"
    distribution: Annotated[Fact[str], public("distribution", group="system")] = NOT_EXAMINED
    # "debian", "ubuntu", "fedora", "rhel", "arch" ...
    distribution_id: Annotated[Fact[str], public("distribution", grade="noise", group="system")] = NOT_EXAMINED
    # "12", "22.04"
    distribution_version: Annotated[Fact[str], public("distribution", grade="noise", group="system")] = NOT_EXAMINED
    libc: Annotated[Fact[str], public("C library")] = NOT_EXAMINED  # "glibc 2.36", "musl 1.2.4"
    cpu_model: Annotated[Fact[str], public("CPU")] = NOT_EXAMINED
    cpu_flags: Annotated[Fact[tuple[str, ...]], public("CPU flags")] = NOT_EXAMINED  # sorted, as in /proc/cpuinfo
    cpus: Annotated[Fact[int], public("CPUs for this process")] = NOT_EXAMINED  # logical CPUs that this process may use
    # CPUs that the cgroup allows; unknown("no limit") without one
    cpu_quota: Annotated[Fact[float], public("CPU limit of the container")] = NOT_EXAMINED
    memory: Annotated[Fact[int], public("memory", unit="bytes")] = NOT_EXAMINED
    # cgroup limit; unknown("no limit") without one
    memory_limit: Annotated[Fact[int], public("memory limit of the container", unit="bytes")] = NOT_EXAMINED
    # RLIMIT_AS of the process that imports TensorFlow (ulimit -v)
    address_space_limit: Annotated[Fact[Limit], public("limit of the address space")] = NOT_EXAMINED
    temporary_folder: Annotated[Fact[TemporaryFolder], private("temporary folder")] = NOT_EXAMINED
    shm: Annotated[Fact[int], public("/dev/shm", unit="bytes")] = NOT_EXAMINED  # size of /dev/shm
    # "none", "docker", "podman", "kubernetes", "lxc", "apptainer", ...
    container: Annotated[Fact[str], public("container")] = NOT_EXAMINED
    pci_gpus: Annotated[
        Fact[tuple[PciGpu, ...]], private("PCI GPUs", layer="GPU", group="gpus", key="address", element="PCI device {}")
    ] = NOT_EXAMINED
    # the lines that set the variables of this process, as far as they are found
    startup_settings: Annotated[
        Fact[tuple[Setting, ...]], private("variables set at start", layer="Python", grade="noise", key="name")
    ] = NOT_EXAMINED
    nouveau_loaded: Annotated[Fact[bool], public("nouveau loaded", layer="Driver")] = NOT_EXAMINED
    secure_boot: Annotated[Fact[bool], public("Secure Boot", layer="Driver")] = NOT_EXAMINED
    # Windows: DLLs of the Visual C++ runtime in System32, of those that TensorFlow needs
    vc_runtime: Annotated[Fact[tuple[LibraryFile, ...]], private("Visual C++ runtime")] = NOT_EXAMINED
    # WSL2: /dev/dxg is there, so the Windows side passes a GPU through
    dxg_device: Annotated[Fact[bool], public("/dev/dxg", layer="GPU")] = NOT_EXAMINED


# ------------------------------------------------------------------------------------- driver


class CallResult(Record, frozen=True):
    """What a driver API answered."""

    code: Annotated[int, public("code")]  # 0 is success; minus the number of the signal that the call died of
    message: Annotated[str, private("message")]  # "NVML_SUCCESS", "Driver/library version mismatch"
    # "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "NVML_ERROR_LIB_RM_VERSION_MISMATCH"
    name: Annotated[str | None, private("name")] = None
    library: Annotated[str | None, private("library", unit="path")] = None  # the file that answered


class SmiResult(Record, frozen=True):
    """How nvidia-smi ended and what its banner says."""

    exit_code: Annotated[int, public("exit code")]
    output: Annotated[str, private("output")]  # first lines of stdout and stderr, at most 2000 characters
    driver_version: Annotated[str | None, private("driver")] = None
    # newest CUDA that this driver supports, not what is installed
    cuda_version: Annotated[str | None, private("CUDA")] = None


class Driver(Record, frozen=True):
    """The NVIDIA driver: kernel module, device nodes, user-space libraries."""

    version: Annotated[Fact[str], public("driver")] = NOT_EXAMINED  # "535.113.01", the best of the sources below
    # newest CUDA that the driver supports, "12.2"
    cuda_supported: Annotated[Fact[str], public("newest CUDA that the driver supports")] = NOT_EXAMINED
    # version of the loaded module; unknown("not loaded: ...") without one
    kernel_module: Annotated[Fact[str], public("kernel module")] = NOT_EXAMINED
    kernel_module_loaded: Annotated[Fact[bool], public("kernel module loaded")] = NOT_EXAMINED
    kernel_module_kind: Annotated[Fact[str], public("kind of kernel module")] = NOT_EXAMINED  # "open" or "proprietary"
    # nvidia.ko files for the running kernel, or for others
    kernel_module_on_disk: Annotated[Fact[tuple[str, ...]], private("kernel modules on disk")] = NOT_EXAMINED
    # "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"
    device_nodes: Annotated[Fact[tuple[str, ...]], private("device nodes")] = NOT_EXAMINED
    # every libcuda.so.1 the loader could use, winner first
    libcuda: Annotated[Fact[tuple[LibraryFile, ...]], private("libcuda.so.1")] = NOT_EXAMINED
    nvml_init: Annotated[Fact[CallResult], private("NVML answers", grade="observation")] = NOT_EXAMINED
    cuda_init: Annotated[Fact[CallResult], private("cuInit answers", grade="observation")] = NOT_EXAMINED  # cuInit(0)
    # cuDeviceGetCount, under CUDA_VISIBLE_DEVICES
    cuda_device_count: Annotated[Fact[int], public("GPUs that CUDA counts", grade="observation")] = NOT_EXAMINED
    nvidia_smi: Annotated[Fact[SmiResult], private("nvidia-smi", grade="noise")] = NOT_EXAMINED
    # calls that did not answer in time: "nvmlInit", "nvidia-smi"
    unresponsive: Annotated[Fact[tuple[str, ...]], private("calls without answer", grade="observation")] = NOT_EXAMINED
    # kernel log lines with "NVRM: Xid", newest last
    xid_events: Annotated[Fact[tuple[str, ...]], private("Xid events", grade="observation", group="xid")] = NOT_EXAMINED


# --------------------------------------------------------------------------------------- GPUs


class GpuProcess(Record, frozen=True):
    """A process that holds memory of a GPU."""

    pid: Annotated[int, private("process id")]
    memory: Annotated[int | None, public("memory", unit="bytes")] = None
    name: Annotated[str | None, private("name", unit=OWN_NAME)] = None


class NvLink(Record, frozen=True):
    """One NVLink of a GPU."""

    link: Annotated[int, public("link")]
    active: Annotated[bool, public("active")]
    remote: Annotated[str | None, private("PCI address at the other end")] = None  # PCI bus id at the other end


class Gpu(Record, frozen=True):
    """One physical GPU, or what is known of it."""

    index: Annotated[int, public("index")]
    name: Annotated[Fact[str], private("name")] = NOT_EXAMINED
    uuid: Annotated[Fact[str], private("uuid", grade="noise")] = NOT_EXAMINED
    pci_bus_id: Annotated[Fact[str], public("PCI address", grade="noise")] = NOT_EXAMINED
    compute_capability: Annotated[Fact[str], public("compute capability")] = NOT_EXAMINED  # "8.9"
    multiprocessors: Annotated[Fact[int], public("multiprocessors")] = NOT_EXAMINED
    memory_total: Annotated[Fact[int], public("memory total", unit="bytes")] = NOT_EXAMINED
    memory_used: Annotated[Fact[int], public("memory used", unit="bytes", grade="noise")] = NOT_EXAMINED
    memory_free: Annotated[Fact[int], public("memory free", unit="bytes", grade="noise")] = NOT_EXAMINED
    processes: Annotated[Fact[tuple[GpuProcess, ...]], private("processes", grade="noise")] = NOT_EXAMINED
    utilization: Annotated[Fact[int], public("utilization", unit="%", grade="noise")] = NOT_EXAMINED
    temperature: Annotated[Fact[int], public("temperature", unit="°C", grade="noise")] = NOT_EXAMINED
    power: Annotated[Fact[float], public("power", unit="W", grade="noise")] = NOT_EXAMINED
    power_limit: Annotated[Fact[float], public("power limit", unit="W")] = NOT_EXAMINED
    sm_clock: Annotated[Fact[int], public("SM clock", unit="MHz", grade="noise")] = NOT_EXAMINED
    sm_clock_max: Annotated[Fact[int], public("maximum SM clock", unit="MHz")] = NOT_EXAMINED
    memory_clock_max: Annotated[Fact[int], public("maximum memory clock", unit="MHz")] = NOT_EXAMINED
    memory_bus_width: Annotated[Fact[int], public("memory bus width", unit="bits")] = NOT_EXAMINED
    # "sw_power_cap", "hw_thermal_slowdown", "gpu_idle" ...
    throttle_reasons: Annotated[Fact[tuple[str, ...]], public("throttle reasons", grade="noise")] = NOT_EXAMINED
    ecc_mode: Annotated[Fact[bool], public("ECC mode")] = NOT_EXAMINED
    # volatile, since the driver was loaded
    ecc_uncorrected: Annotated[Fact[int], public("uncorrected ECC errors", grade="observation")] = NOT_EXAMINED
    remapped_rows_pending: Annotated[Fact[bool], public("pending row remapping", grade="observation")] = NOT_EXAMINED
    remapped_rows_failed: Annotated[Fact[bool], public("failed row remapping", grade="observation")] = NOT_EXAMINED
    mig_mode: Annotated[Fact[bool], public("MIG mode")] = NOT_EXAMINED
    mig_instances: Annotated[Fact[tuple[str, ...]], private("MIG instances")] = NOT_EXAMINED  # names or UUIDs
    # "default", "prohibited", "exclusive_process"
    compute_mode: Annotated[Fact[str], public("compute mode")] = NOT_EXAMINED
    persistence_mode: Annotated[Fact[bool], public("persistence mode")] = NOT_EXAMINED
    pcie_generation: Annotated[Fact[int], public("PCIe generation", grade="noise")] = NOT_EXAMINED
    pcie_generation_max: Annotated[Fact[int], public("maximum PCIe generation")] = NOT_EXAMINED
    pcie_width: Annotated[Fact[int], public("PCIe width", unit="lanes", grade="noise")] = NOT_EXAMINED
    pcie_width_max: Annotated[Fact[int], public("maximum PCIe width", unit="lanes")] = NOT_EXAMINED
    nvlinks: Annotated[Fact[tuple[NvLink, ...]], private("NVLinks", grade="noise")] = NOT_EXAMINED
    # what NVML says of a GPU it cannot open: "GPU is lost"; unknown("none") when fine
    fault: Annotated[Fact[str], private("fault", grade="observation")] = NOT_EXAMINED


# --------------------------------------------------------------------------------------- CUDA


class Toolkit(Record, frozen=True):
    """A CUDA toolkit on disk."""

    path: Annotated[str, private("path", unit="path")]
    version: Annotated[str | None, public("version")]  # "12.4.131", "11.8"; None when the folder does not tell
    source: Annotated[str, private("source", grade="noise")]  # the file that told the version
    # "CUDA_HOME", "CUDA_PATH", "PATH", "/usr/local", "conda", "spack" ...
    via: Annotated[str, public("found by", grade="noise")]


class Nvcc(Record, frozen=True):
    """The CUDA compiler that the shell would start."""

    path: Annotated[str, private("path", unit="path")]
    version: Annotated[str, public("version")]  # "13.0.88"


class XlaFile(Record, frozen=True):
    """A file or folder that XLA needs, where it looks for one."""

    path: Annotated[str, private("path", unit="path")]
    # "XLA_FLAGS", "PATH", "the build's toolkit", "/usr/local", "pip wheel", "conda" ...
    via: Annotated[str, private("found by")]
    version: Annotated[str | None, private("version")] = None  # of ptxas: "12.5.82"
    problem: Annotated[str | None, private("problem")] = None  # why it is of no use: "no libdevice.10.bc in it"


class Cuda(Record, frozen=True):
    """CUDA toolkits, wherever they come from."""

    toolkits: Annotated[Fact[tuple[Toolkit, ...]], private("CUDA toolkits", key="path", element="CUDA toolkit {}")] = (
        NOT_EXAMINED
    )
    nvcc: Annotated[Fact[Nvcc], private("nvcc")] = NOT_EXAMINED
    # what XLA compiles for a GPU with, in the order in which this TensorFlow looks
    # folders that it takes for CUDA, there or not
    xla_roots: Annotated[Fact[tuple[XlaFile, ...]], private("folders that XLA takes for CUDA")] = NOT_EXAMINED
    # libdevice.10.bc; the first one counts
    libdevice: Annotated[Fact[tuple[XlaFile, ...]], private("libdevice.10.bc")] = NOT_EXAMINED
    # the first one whose version XLA accepts counts
    ptxas: Annotated[Fact[tuple[XlaFile, ...]], private("ptxas")] = NOT_EXAMINED


LibraryState = Literal["fine", "off path", "unloadable", "other version", "absent"]


class Candidate(Record, frozen=True):
    """A file that carries the wanted soname, and the way the loader would come to it."""

    path: Annotated[str, private("path", unit="path")]
    # in the loader's reach: "already loaded", "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ldconfig", "default path" ("PATH"
    # on Windows); out of it: "pip wheel", "toolkit", "conda"
    via: Annotated[str, public("found by")]
    reachable: Annotated[bool, public("reachable")]  # the loader looks there
    version: Annotated[str | None, public("version")] = None
    # why the loader refuses or skips it: "empty file", "not ELF", "needs libz.so.1, not found"
    problem: Annotated[str | None, private("problem")] = None
    # what follows from the problem: "skipped" (the loader looks further), "ends the list" (of folders), "fatal" (dlopen
    # fails, whatever lies behind it), "later" (it loads, and fails when used: a part that it opens itself is missing)
    effect: Annotated[str | None, public("effect")] = None

    @property
    def is_in_the_way(self) -> bool:
        """A broken file at which the loader stops; one that merely needs another library is not broken itself."""
        stops = self.effect in (None, "fatal", "ends the list")
        return self.reachable and stops and self.problem is not None and not self.problem.startswith("needs")


class Soname(Record, frozen=True):
    """A library that TensorFlow loads by name, and which file wins."""

    soname: Annotated[str, public("soname")]  # "libcudart.so.12"
    component: Annotated[str, public("component")]  # "cudart", "cublas", "cudnn", "driver" ...
    candidates: Annotated[tuple[Candidate, ...], private("candidates")]  # reachable ones first, in the loader's order
    # path of the file that loads and works; None when there is none, or a broken one in the way
    winner: Annotated[str | None, private("file that is loaded", unit="path")]
    # files of the same library with another soname: ".../libcudart.so.13"
    other_versions: Annotated[tuple[str, ...], private("other versions", unit="path")] = ()

    @property
    def state(self) -> LibraryState:
        """What the candidates come to.

        "off path" also holds when the loader stops at a broken file although a good one exists elsewhere.
        """
        if self.winner:
            return "fine"
        if any(candidate.problem is None for candidate in self.candidates):
            return "off path"
        if self.candidates:
            return "unloadable"
        return "other version" if self.other_versions else "absent"


class Loader(Record, frozen=True):
    """What the dynamic loader does with the libraries that TensorFlow opens by soname."""

    # of the TensorFlow library that calls dlopen, $ORIGIN resolved
    runpath: Annotated[
        Fact[tuple[str, ...]], private("RUNPATH of TensorFlow", unit="path", grade="noise", group="tensorflow")
    ] = NOT_EXAMINED
    sonames: Annotated[
        Fact[tuple[Soname, ...]], private("libraries that TensorFlow opens", key="soname", element="{}:")
    ] = NOT_EXAMINED
    # CUDA libraries in the child's own memory map, after its last phase
    loaded: Annotated[Fact[tuple[str, ...]], private("libraries loaded", unit="path", grade="noise")] = NOT_EXAMINED


class CudnnFile(Record, frozen=True):
    """A cuDNN on disk."""

    path: Annotated[str, private("path", unit="path")]  # of libcudnn.so.N, cudnn64_N.dll or cudnn_version.h
    version: Annotated[str | None, public("version")]
    source: Annotated[str, private("source", grade="noise")]  # file name, header, pip package, conda package


class Cudnn(Record, frozen=True):
    """cuDNN on disk and as loaded."""

    installed: Annotated[Fact[tuple[CudnnFile, ...]], private("cuDNN on disk", key="path", element="cuDNN in {}")] = (
        NOT_EXAMINED
    )
    # cudnnGetVersion() of the file that the loader picks: "9.3.0"
    runtime: Annotated[Fact[str], public("cuDNN loaded", grade="observation")] = NOT_EXAMINED


# ------------------------------------------------------------------------------------- Python


class Package(Record, frozen=True):
    """An installed distribution."""

    name: Annotated[str, public("name")]  # normalised: "tensorflow", "nvidia-cudnn-cu12"
    version: Annotated[str, public("version")]
    location: Annotated[str | None, private("folder", unit="path")] = None  # the folder that holds its dist-info
    installer: Annotated[str | None, public("installer")] = None  # "pip", "conda", "uv"
    requires: Annotated[tuple[str, ...], public("requirements")] = ()  # Requires-Dist; of TensorFlow and what it needs


class DamagedPackage(Record, frozen=True):
    """An installed distribution whose files are not those that its RECORD lists."""

    name: Annotated[str, public("name")]  # normalised: "nvidia-cudnn-cu12"
    version: Annotated[str, public("version")]
    record: Annotated[str, private("RECORD", unit="path")]  # the list that pip or uv wrote when they installed it
    # the first few, as RECORD writes them: "nvidia/cudnn/lib/libcudnn.so.9"
    missing: Annotated[tuple[str, ...], private("missing files")] = ()
    overwritten: Annotated[tuple[str, ...], private("files of another size")] = ()
    files: Annotated[int, public("files that are missing or of another size")] = 0


class FailingFile(Record, frozen=True):
    """A shared library of site-packages that the error of an import names, and the distribution that installed it."""

    path: Annotated[str, private("file", unit="path")]
    package: Annotated[str | None, public("package")] = None  # None: no distribution lists it
    version: Annotated[str | None, public("version of the package")] = None


class ShadowedModule(Record, frozen=True):
    """A module that TensorFlow needs and that Python finds in another folder than that of its installed package."""

    module: Annotated[str, public("module")]  # "keras"
    path: Annotated[str, private("file or folder that is imported", unit="path")]
    version: Annotated[str | None, public("version that is imported")]  # None: there is no distribution in that folder
    package: Annotated[str, public("package")]  # the distribution beside TensorFlow that has this module
    package_version: Annotated[str, public("version of the package")]
    # how the folder came on sys.path: "PYTHONPATH", "current folder", a .pth file; None where it cannot be told
    via: Annotated[str | None, private("found by")] = None
    line: Annotated[int | None, public("line")] = None  # of that .pth file


class OtherPython(Record, frozen=True):
    """An interpreter that may have been meant, and the TensorFlow in it; read from disk, not started."""

    executable: Annotated[str, private("interpreter", unit="path")]
    via: Annotated[str, private("found by")]  # "VIRTUAL_ENV", "CONDA_PREFIX", "kernel python3", "pip on PATH"
    prefix: Annotated[str, private("environment folder", unit="path")]  # the environment's folder
    # "tensorflow 2.20.0"; None: none is installed there
    tensorflow: Annotated[str | None, private("TensorFlow")] = None
    # CUDA's libraries are installed beside it (nvidia-* wheels, conda's cudatoolkit)
    cuda: Annotated[bool, public("has CUDA")] = False


class Kernel(Record, frozen=True):
    """A Jupyter kernel of Python, and the interpreter that it starts."""

    name: Annotated[str, private("name", unit=OWN_NAME)]  # "python3"
    display_name: Annotated[str, private("displayed name", unit=OWN_NAME)]
    file: Annotated[str, private("file", unit="path")]  # its kernel.json
    executable: Annotated[str, private("interpreter", unit="path")]  # resolved; as written where it is nowhere


class Python(Record, frozen=True):
    """The interpreter under test and its packages."""

    executable: Annotated[Fact[str], private("interpreter", unit="path", group="interpreter")] = NOT_EXAMINED
    version: Annotated[Fact[str], public("Python", group="interpreter")] = NOT_EXAMINED  # "3.11.7"
    implementation: Annotated[Fact[str], public("implementation", group="interpreter")] = NOT_EXAMINED  # "cpython"
    bits: Annotated[Fact[int], public("bits", group="interpreter")] = NOT_EXAMINED  # 64 or 32
    prefix: Annotated[Fact[str], private("environment folder", unit="path", grade="noise", group="interpreter")] = (
        NOT_EXAMINED
    )
    # "venv", "conda", "system", "pyenv"
    environment: Annotated[Fact[str], public("kind of environment", group="interpreter")] = NOT_EXAMINED
    # PEP 668
    externally_managed: Annotated[Fact[bool], public("managed by the distribution", group="interpreter")] = NOT_EXAMINED
    # the user's own site-packages; unknown("not on sys.path") when switched off
    user_site: Annotated[Fact[str], private("user's own site-packages", unit="path")] = NOT_EXAMINED
    pip: Annotated[Fact[bool], public("pip")] = NOT_EXAMINED  # `python -m pip` would start
    # of pip, uv, conda, mamba, poetry, pixi: those on PATH
    installers: Annotated[Fact[tuple[str, ...]], public("installers on PATH")] = NOT_EXAMINED
    # TensorFlow's family, nvidia-*, numpy, protobuf, keras
    packages: Annotated[Fact[tuple[Package, ...]], private("packages", key="name")] = NOT_EXAMINED
    # of these packages, those whose files are missing or overwritten; empty: all are as they were installed
    damaged: Annotated[Fact[tuple[DamagedPackage, ...]], private("damaged packages", key="name")] = NOT_EXAMINED
    # shared libraries that the error of the import names; empty where it names none, or nothing failed
    failing_files: Annotated[Fact[tuple[FailingFile, ...]], private("files that fail to load", key="path")] = (
        NOT_EXAMINED
    )
    # every `tensorflow` importable over sys.path, winner first
    tensorflow_paths: Annotated[Fact[tuple[str, ...]], private("`import tensorflow` finds", unit="path")] = NOT_EXAMINED
    # modules that TensorFlow needs, imported from elsewhere
    shadowed: Annotated[Fact[tuple[ShadowedModule, ...]], private("shadowed modules", key="module")] = NOT_EXAMINED
    kernels: Annotated[Fact[tuple[Kernel, ...]], private("Jupyter kernels")] = NOT_EXAMINED  # Jupyter's, of Python
    # of other environments than this one
    elsewhere: Annotated[Fact[tuple[OtherPython, ...]], private("other environments")] = NOT_EXAMINED
    # matrix platform: "linux_x86_64", "macos_arm64" ...
    wheel_platform: Annotated[Fact[str], public("platform of wheels", group="system")] = NOT_EXAMINED


# --------------------------------------------------------------------------------- TensorFlow


class Phase(Record, frozen=True):
    """One step of the examination in the child process, and how it ended."""

    # "interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla"
    name: Annotated[str, public("name")]
    outcome: Annotated[str, public("outcome")]  # "ok", "raised", "died", "timeout", "skipped"
    seconds: Annotated[float | None, public("seconds", unit="s", grade="noise")] = None
    # "ImportError: libcudart.so.11.0: cannot open shared object file"
    exception: Annotated[str | None, private("exception")] = None
    traceback: Annotated[tuple[str, ...], private("traceback", grade="noise")] = ()  # last lines
    signal: Annotated[str | None, public("signal")] = None  # "SIGSEGV", "SIGKILL"
    exit_code: Annotated[int | None, public("exit code")] = None
    # last lines written to stderr when it ended badly
    log_tail: Annotated[tuple[str, ...], private("end of its log", grade="noise")] = ()
    # why it was skipped; "killed by the kernel's OOM killer"
    note: Annotated[str | None, private("note", grade="noise")] = None
    # how long it had neither used the CPU nor read anything when it was stopped for that
    idle: Annotated[float | None, public("idle", unit="s", grade="noise")] = None


class Build(Record, frozen=True):
    """tf.sysconfig.get_build_info()."""

    is_cuda_build: Annotated[bool, public("built with CUDA")]
    is_rocm_build: Annotated[bool, public("built with ROCm")] = False
    cuda_version: Annotated[str | None, public("CUDA")] = None  # "12.5.1"
    cudnn_version: Annotated[str | None, public("cuDNN")] = None  # "9"
    compute_capabilities: Annotated[tuple[str, ...], public("compute capabilities")] = ()  # "sm_60", "compute_90"


class TfDevice(Record, frozen=True):
    """A device that TensorFlow lists."""

    name: Annotated[str, public("name")]  # "/physical_device:GPU:0"
    kind: Annotated[str, public("kind")]  # "GPU", "CPU"
    device_name: Annotated[str | None, private("model")] = None  # "NVIDIA H200"
    compute_capability: Annotated[str | None, public("compute capability")] = None  # "9.0"


def lists_gpu(devices: Iterable[TfDevice] | None) -> bool:
    """Whether there is a GPU among the devices that TensorFlow lists; of unknown devices, it is not known to be."""
    return any(device.kind == "GPU" for device in devices or ())


class ComputeCheck(Record, frozen=True):
    """A verified computation on one device."""

    device: Annotated[str, public("device")]  # "/GPU:0"
    kind: Annotated[str, public("kind")]  # "matmul", "conv2d", "xla"
    ok: Annotated[bool, public("verified")]
    placed_on: Annotated[str | None, public("placed on")] = None  # device that the result's tensor names
    residual: Annotated[float | None, public("relative error")] = None  # relative, against NumPy in float64
    tolerance: Annotated[float | None, public("tolerance")] = None
    seconds: Annotated[float | None, public("seconds", unit="s")] = None
    error: Annotated[str | None, private("error")] = None


class TensorFlow(Record, frozen=True):
    """TensorFlow as it answered in a child process."""

    # tf.__version__, or the distribution's version when it cannot be imported
    version: Annotated[Fact[str], public("TensorFlow", group="tensorflow")] = NOT_EXAMINED
    # "tensorflow", "tensorflow-cpu", "tensorflow-macos" ...
    distribution: Annotated[Fact[str], public("distribution of TensorFlow", group="tensorflow")] = NOT_EXAMINED
    # tf.__file__
    file: Annotated[Fact[str], private("tf.__file__", unit="path", grade="noise", group="tensorflow")] = NOT_EXAMINED
    build: Annotated[Fact[Build], private("built for", group="tensorflow")] = NOT_EXAMINED
    devices: Annotated[
        Fact[tuple[TfDevice, ...]], private("TensorFlow lists", layer="Devices", grade="observation")
    ] = NOT_EXAMINED
    checks: Annotated[Fact[tuple[ComputeCheck, ...]], private("computations", layer="Compute", grade="observation")] = (
        NOT_EXAMINED
    )
    phases: Annotated[tuple[Phase, ...], private("phases", grade="observation", key="name", element="phase {}:")] = ()
    # what TensorFlow wrote to stderr, at most 400 lines
    log: Annotated[Fact[tuple[str, ...]], private("TensorFlow's log", unit="lines", grade="noise")] = NOT_EXAMINED


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that a program printed and the catalogue of messages knows (parsers/messages.py)."""

    kind: Annotated[str, public("kind")]  # "cuinit-failed"
    line: Annotated[int, public("line")]  # where it stands, 1-based; in a live report the line of TensorFlow's log
    text: Annotated[str, private("text")]  # the line, at most 300 characters
    values: Annotated[dict[str, str], private("values")] = {}
    count: Annotated[int, public("count")] = 1  # how often it was printed
    # whose line: "TensorFlow's log" in a live report; None in a pasted text
    source: Annotated[str | None, private("source")] = None


# ----------------------------------------------------------------------------------- together


class Facts(Record, frozen=True):
    """All that was found out, from whatever source."""

    host: Annotated[Host, private("host", layer="Machine")] = Host()
    driver: Annotated[Driver, private("driver", layer="Driver", group="driver")] = Driver()
    gpus: Annotated[
        Fact[tuple[Gpu, ...]], private("GPUs", layer="GPU", group="gpus", key="index", element="GPU {}")
    ] = NOT_EXAMINED
    cuda: Annotated[Cuda, private("CUDA", layer="CUDA")] = Cuda()
    loader: Annotated[Loader, private("loader", layer="CUDA")] = Loader()
    cudnn: Annotated[Cudnn, private("cuDNN", layer="cuDNN", group="cudnn")] = Cudnn()
    python: Annotated[Python, private("Python", layer="Python")] = Python()
    # environment variables that matter, as the interpreter under test gets them
    variables: Annotated[
        Fact[dict[str, str]], private("environment variables", layer="Python", key="name", element="{}:")
    ] = NOT_EXAMINED
    tensorflow: Annotated[TensorFlow, private("TensorFlow", layer="TensorFlow")] = TensorFlow()
    # what TensorFlow and the tools around it were seen to print
    messages: Annotated[
        Fact[tuple[Message, ...]], private("messages", layer="TensorFlow", grade="observation", key="kind")
    ] = NOT_EXAMINED


def look_up(facts: Facts, path: str) -> Any:
    """Return the fact or plain value at a dotted path such as ``"driver.nvml_init"``.

    Raises AttributeError: the path names no field.
    """
    here: Any = facts
    for name in path.split("."):
        here = getattr(here, name)
    return here


def fact_paths() -> tuple[str, ...]:
    """The paths of all facts, in the order of their declarations."""
    parts = {name: getattr(Facts(), name) for name in Facts.__struct_fields__}
    fields = {name: part.__struct_fields__ if isinstance(part, Record) else ("",) for name, part in parts.items()}
    return tuple(f"{name}.{field}".rstrip(".") for name in fields for field in fields[name])


@cache
def about(path: str) -> About:
    """The description of the field at a dotted path: "driver.version"; of a GPU "gpus.temperature".

    Raises KeyError: no field is described there.
    """
    record: type = Facts
    found = About("", is_public=False)
    for name in path.split("."):
        above, found = found, described(record)[name]
        found = found._replace(layer=found.layer or above.layer, group=found.group or above.group)
        record = inner_records(record).get(name, record)
    return found
