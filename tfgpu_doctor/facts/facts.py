"""What is known about one machine, one Python environment and one TensorFlow.

Every leaf is a :data:`Fact`: either :class:`Known`, a value with the place it was read from, or :class:`Unknown`, with
the reason why it could not be determined. Probes, parsers of pasted text and saved reports all produce the same
:class:`Facts`; the signs of findings cannot tell which. The records are frozen; msgspec derives their JSON, their
validation and their JSON Schema. Sizes are bytes, times seconds, clocks MHz, power watts, temperatures °C.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Struct

from tfgpu_doctor.facts.about import HOST, OWN_NAME, About, described, inner_records, private, public
from tfgpu_doctor.facts.printable import escape_json, utf8

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

    def __repr__(self) -> str:
        """A line; the whole is some hundred kilobytes."""
        return f"<{type(self).__name__}: {getattr(self, 'verdict', 'see to_json')}>"

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
        return utf8(json.dumps(msgspec.to_builtins(value), ensure_ascii=False))


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
Several: TypeAlias = Fact[tuple[T, ...]]

NOT_EXAMINED = OPEN = Unknown("not examined")  # the short name stands in the declarations
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
    version: Annotated[str | None, public("version")] = None  # of the file behind the link, or of its package
    soname: Annotated[str | None, public("soname")] = None  # DT_SONAME
    problem: Annotated[str | None, private("problem")] = None  # to the loader: "empty file", "not ELF", "32-bit"


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

    name: Annotated[Fact[str], private("host name", unit=HOST, grade="noise", group="system")] = OPEN
    os: Annotated[Fact[str], public("operating system", group="system")] = OPEN  # "linux", "windows", "wsl2", "macos"
    machine: Annotated[Fact[str], public("architecture", group="system")] = OPEN
    kernel: Annotated[Fact[str], public("kernel")] = OPEN  # "6.8.0-45-generic"
    distribution: Annotated[Fact[str], public("distribution", group="system")] = OPEN
    distribution_id: Annotated[Fact[str], public("distribution", grade="noise", group="system")] = OPEN
    distribution_version: Annotated[Fact[str], public("distribution", grade="noise", group="system")] = OPEN
    libc: Annotated[Fact[str], public("C library")] = OPEN  # "glibc 2.36", "musl 1.2.4"
    cpu_model: Annotated[Fact[str], public("CPU")] = OPEN
    cpu_flags: Annotated[Several[str], public("CPU flags")] = OPEN  # sorted, as in /proc/cpuinfo
    cpus: Annotated[Fact[int], public("CPUs for this process")] = OPEN  # logical CPUs that this process may use
    cpu_quota: Annotated[Fact[float], public("CPU limit of the container")] = OPEN  # unknown("no limit") without one
    memory: Annotated[Fact[int], public("memory", unit="bytes")] = OPEN
    # unknown("no limit") without one
    memory_limit: Annotated[Fact[int], public("memory limit of the container", unit="bytes")] = OPEN
    address_space_limit: Annotated[Fact[Limit], public("limit of the address space")] = OPEN
    temporary_folder: Annotated[Fact[TemporaryFolder], private("temporary folder")] = OPEN
    shm: Annotated[Fact[int], public("/dev/shm", unit="bytes")] = OPEN  # size of /dev/shm
    container: Annotated[Fact[str], public("container")] = OPEN  # "none", "docker", "podman", "kubernetes" ...
    pci_gpus: Annotated[
        Several[PciGpu], private("PCI GPUs", layer="GPU", group="gpus", key="address", element="PCI device {}")
    ] = OPEN
    startup_settings: Annotated[
        Several[Setting], private("variables set at start", layer="Python", grade="noise", key="name")
    ] = OPEN
    nouveau_loaded: Annotated[Fact[bool], public("nouveau loaded", layer="Driver")] = OPEN
    secure_boot: Annotated[Fact[bool], public("Secure Boot", layer="Driver")] = OPEN
    vc_runtime: Annotated[Several[LibraryFile], private("Visual C++ runtime")] = OPEN
    dxg_device: Annotated[Fact[bool], public("/dev/dxg", layer="GPU")] = OPEN  # of WSL2: Windows passes a GPU through


# ------------------------------------------------------------------------------------- driver


class CallResult(Record, frozen=True):
    """What a driver API answered."""

    code: Annotated[int, public("code")]  # 0 is success; minus the number of the signal that the call died of
    message: Annotated[str, private("message")]  # "NVML_SUCCESS", "Driver/library version mismatch"
    name: Annotated[str | None, private("name")] = None  # "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
    library: Annotated[str | None, private("library", unit="path")] = None  # the file that answered


class SmiResult(Record, frozen=True):
    """How nvidia-smi ended and what its banner says."""

    exit_code: Annotated[int, public("exit code")]
    output: Annotated[str, private("output")]  # first lines of stdout and stderr, at most 2000 characters
    driver_version: Annotated[str | None, private("driver")] = None
    cuda_version: Annotated[str | None, private("CUDA")] = None  # newest CUDA that the driver supports


class Driver(Record, frozen=True):
    """The NVIDIA driver: kernel module, device nodes, user-space libraries."""

    version: Annotated[Fact[str], public("driver")] = OPEN  # "535.113.01", the best of the sources below
    cuda_supported: Annotated[Fact[str], public("newest CUDA that the driver supports")] = OPEN
    kernel_module: Annotated[Fact[str], public("kernel module")] = OPEN  # of the loaded one
    kernel_module_loaded: Annotated[Fact[bool], public("kernel module loaded")] = OPEN
    kernel_module_kind: Annotated[Fact[str], public("kind of kernel module")] = OPEN  # "open" or "proprietary"
    kernel_module_on_disk: Annotated[Several[str], private("kernel modules on disk")] = OPEN
    device_nodes: Annotated[Several[str], private("device nodes")] = OPEN
    libcuda: Annotated[Several[LibraryFile], private("libcuda.so.1")] = OPEN  # winner first
    nvml_init: Annotated[Fact[CallResult], private("NVML answers", grade="observation")] = OPEN
    cuda_init: Annotated[Fact[CallResult], private("cuInit answers", grade="observation")] = OPEN  # cuInit(0)
    # as CUDA_VISIBLE_DEVICES leaves them
    cuda_device_count: Annotated[Fact[int], public("GPUs that CUDA counts", grade="observation")] = OPEN
    nvidia_smi: Annotated[Fact[SmiResult], private("nvidia-smi", grade="noise")] = OPEN
    unresponsive: Annotated[Several[str], private("calls without answer", grade="observation")] = OPEN
    # newest last
    xid_events: Annotated[Several[str], private("Xid events", grade="observation", group="xid")] = OPEN


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


class Gpu(Record, frozen=True):
    """One physical GPU, or what is known of it."""

    index: Annotated[int, public("index")]
    name: Annotated[Fact[str], private("name")] = OPEN
    uuid: Annotated[Fact[str], private("uuid", grade="noise")] = OPEN
    pci_bus_id: Annotated[Fact[str], public("PCI address", grade="noise")] = OPEN
    compute_capability: Annotated[Fact[str], public("compute capability")] = OPEN  # "8.9"
    multiprocessors: Annotated[Fact[int], public("multiprocessors")] = OPEN
    memory_total: Annotated[Fact[int], public("memory total", unit="bytes")] = OPEN
    memory_used: Annotated[Fact[int], public("memory used", unit="bytes", grade="noise")] = OPEN
    memory_free: Annotated[Fact[int], public("memory free", unit="bytes", grade="noise")] = OPEN
    processes: Annotated[Several[GpuProcess], private("processes", grade="noise")] = OPEN
    utilization: Annotated[Fact[int], public("utilization", unit="%", grade="noise")] = OPEN
    temperature: Annotated[Fact[int], public("temperature", unit="°C", grade="noise")] = OPEN
    power: Annotated[Fact[float], public("power", unit="W", grade="noise")] = OPEN
    power_limit: Annotated[Fact[float], public("power limit", unit="W")] = OPEN
    sm_clock: Annotated[Fact[int], public("SM clock", unit="MHz", grade="noise")] = OPEN
    sm_clock_max: Annotated[Fact[int], public("maximum SM clock", unit="MHz")] = OPEN
    memory_clock_max: Annotated[Fact[int], public("maximum memory clock", unit="MHz")] = OPEN
    memory_bus_width: Annotated[Fact[int], public("memory bus width", unit="bits")] = OPEN
    # "sw_power_cap", "gpu_idle" ...
    throttle_reasons: Annotated[Several[str], public("throttle reasons", grade="noise")] = OPEN
    ecc_mode: Annotated[Fact[bool], public("ECC mode")] = OPEN
    # volatile, since the driver was loaded
    ecc_uncorrected: Annotated[Fact[int], public("uncorrected ECC errors", grade="observation")] = OPEN
    remapped_rows_pending: Annotated[Fact[bool], public("pending row remapping", grade="observation")] = OPEN
    remapped_rows_failed: Annotated[Fact[bool], public("failed row remapping", grade="observation")] = OPEN
    mig_mode: Annotated[Fact[bool], public("MIG mode")] = OPEN
    mig_instances: Annotated[Several[str], private("MIG instances")] = OPEN  # names or UUIDs
    compute_mode: Annotated[Fact[str], public("compute mode")] = OPEN  # "default", "prohibited", "exclusive_process"
    persistence_mode: Annotated[Fact[bool], public("persistence mode")] = OPEN
    pcie_generation: Annotated[Fact[int], public("PCIe generation", grade="noise")] = OPEN
    pcie_generation_max: Annotated[Fact[int], public("maximum PCIe generation")] = OPEN
    pcie_width: Annotated[Fact[int], public("PCIe width", unit="lanes", grade="noise")] = OPEN
    pcie_width_max: Annotated[Fact[int], public("maximum PCIe width", unit="lanes")] = OPEN
    nvlinks: Annotated[Several[NvLink], private("NVLinks", grade="noise")] = OPEN
    # "GPU is lost"; unknown("none") when fine
    fault: Annotated[Fact[str], private("fault", grade="observation")] = OPEN


# --------------------------------------------------------------------------------------- CUDA


class Toolkit(Record, frozen=True):
    """A CUDA toolkit on disk."""

    path: Annotated[str, private("path", unit="path")]
    version: Annotated[str | None, public("version")]  # "12.4.131", "11.8"; None when the folder does not tell
    source: Annotated[str, private("source", grade="noise")]  # the file that told the version
    via: Annotated[str, public("found by", grade="noise")]  # "CUDA_HOME", "PATH", "/usr/local", "conda" ...


class Nvcc(Record, frozen=True):
    """The CUDA compiler that the shell would start."""

    path: Annotated[str, private("path", unit="path")]
    version: Annotated[str, public("version")]  # "13.0.88"


class XlaFile(Record, frozen=True):
    """A file or folder that XLA needs, where it looks for one."""

    path: Annotated[str, private("path", unit="path")]
    via: Annotated[str, private("found by")]  # "XLA_FLAGS", "PATH", "/usr/local", "pip wheel", "conda" ...
    version: Annotated[str | None, private("version")] = None  # of ptxas: "12.5.82"
    problem: Annotated[str | None, private("problem")] = None  # why it is of no use: "no libdevice.10.bc in it"


class Cuda(Record, frozen=True):
    """CUDA toolkits, wherever they come from."""

    toolkits: Annotated[Several[Toolkit], private("CUDA toolkits", key="path", element="CUDA toolkit {}")] = OPEN
    nvcc: Annotated[Fact[Nvcc], private("nvcc")] = OPEN
    # what XLA compiles for a GPU with, in the order in which this TensorFlow looks
    xla_roots: Annotated[Several[XlaFile], private("folders that XLA takes for CUDA")] = OPEN
    # libdevice.10.bc; the first one counts
    libdevice: Annotated[Several[XlaFile], private("libdevice.10.bc")] = OPEN
    # the first one whose version XLA accepts counts
    ptxas: Annotated[Several[XlaFile], private("ptxas")] = OPEN


LibraryState = Literal["fine", "off path", "unloadable", "other version", "absent"]


class Candidate(Record, frozen=True):
    """A file that carries the wanted soname, and the way the loader would come to it."""

    path: Annotated[str, private("path", unit="path")]
    # in the loader's reach: "already loaded", "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ldconfig", "default path" ("PATH"
    # on Windows); out of it: "pip wheel", "toolkit", "conda"
    via: Annotated[str, public("found by")]
    reachable: Annotated[bool, public("reachable")]  # the loader looks there
    version: Annotated[str | None, public("version")] = None
    problem: Annotated[str | None, private("problem")] = None  # "not ELF", "needs libz.so.1, not found"
    # what follows from the problem: "skipped" (the loader looks further), "fatal" (dlopen fails, whatever lies behind),
    # "later" (it loads, and fails when used: a part that it opens itself is missing)
    effect: Annotated[str | None, public("effect")] = None

    @property
    def is_in_the_way(self) -> bool:
        """A broken file at which the loader stops; one that merely needs another library is not broken itself."""
        stops = self.effect in (None, "fatal")
        return self.reachable and stops and self.problem is not None and not self.problem.startswith("needs")


class Soname(Record, frozen=True):
    """A library that TensorFlow loads by name, and which file wins."""

    soname: Annotated[str, public("soname")]  # "libcudart.so.12"
    component: Annotated[str, public("component")]  # "cudart", "cublas", "cudnn", "driver" ...
    candidates: Annotated[tuple[Candidate, ...], private("candidates")]  # reachable ones first, in the loader's order
    # path of the file that loads and works; None when there is none, or a broken one in the way
    winner: Annotated[str | None, private("file that is loaded", unit="path")]
    # of another soname: ".../libcudart.so.13"
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
        Several[str], private("RUNPATH of TensorFlow", unit="path", grade="noise", group="tensorflow")
    ] = OPEN
    sonames: Annotated[Several[Soname], private("libraries that TensorFlow opens", key="soname", element="{}:")] = OPEN
    loaded: Annotated[Several[str], private("libraries loaded", unit="path", grade="noise")] = OPEN


class CudnnFile(Record, frozen=True):
    """A cuDNN on disk."""

    path: Annotated[str, private("path", unit="path")]  # of libcudnn.so.N, cudnn64_N.dll or cudnn_version.h
    version: Annotated[str | None, public("version")]
    source: Annotated[str, private("source", grade="noise")]  # file name, header, pip package, conda package


class Cudnn(Record, frozen=True):
    """cuDNN on disk and as loaded."""

    installed: Annotated[Several[CudnnFile], private("cuDNN on disk", key="path", element="cuDNN in {}")] = OPEN
    runtime: Annotated[Fact[str], public("cuDNN loaded", grade="observation")] = OPEN  # cudnnGetVersion(): "9.3.0"


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
    missing: Annotated[tuple[str, ...], private("missing files")] = ()  # the first few, as RECORD writes them
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
    via: Annotated[str | None, private("found by")] = None  # how it came on sys.path: "PYTHONPATH", a .pth file
    line: Annotated[int | None, public("line")] = None  # of that .pth file


class OtherPython(Record, frozen=True):
    """An interpreter that may have been meant, and the TensorFlow in it; read from disk, not started."""

    executable: Annotated[str, private("interpreter", unit="path")]
    via: Annotated[str, private("found by")]  # "VIRTUAL_ENV", "CONDA_PREFIX", "kernel python3", "pip on PATH"
    prefix: Annotated[str, private("environment folder", unit="path")]  # the environment's folder
    # "tensorflow 2.20.0"; None: none is installed there
    tensorflow: Annotated[str | None, private("TensorFlow")] = None
    cuda: Annotated[bool, public("has CUDA")] = False  # beside it: nvidia-* wheels, conda's cudatoolkit


class Interpreter(Record, frozen=True):
    """A Python that can be started here and that creates environments."""

    executable: Annotated[str, private("interpreter", unit="path")]
    version: Annotated[str, public("version")]  # "3.11.7"


class Kernel(Record, frozen=True):
    """A Jupyter kernel of Python, and the interpreter that it starts."""

    name: Annotated[str, private("name", unit=OWN_NAME)]  # "python3"
    display_name: Annotated[str, private("displayed name", unit=OWN_NAME)]
    file: Annotated[str, private("file", unit="path")]  # its kernel.json
    executable: Annotated[str, private("interpreter", unit="path")]  # resolved; as written where it is nowhere


class Python(Record, frozen=True):
    """The interpreter under test and its packages."""

    executable: Annotated[Fact[str], private("interpreter", unit="path", group="interpreter")] = OPEN
    version: Annotated[Fact[str], public("Python", group="interpreter")] = OPEN  # "3.11.7"
    implementation: Annotated[Fact[str], public("implementation", group="interpreter")] = OPEN  # "cpython"
    bits: Annotated[Fact[int], public("bits", group="interpreter")] = OPEN  # 64 or 32
    prefix: Annotated[Fact[str], private("environment folder", unit="path", grade="noise", group="interpreter")] = OPEN
    environment: Annotated[Fact[str], public("kind of environment", group="interpreter")] = OPEN
    externally_managed: Annotated[Fact[bool], public("managed by the distribution", group="interpreter")] = OPEN
    # unknown when it is switched off
    user_site: Annotated[Fact[str], private("user's own site-packages", unit="path")] = OPEN
    pip: Annotated[Fact[bool], public("pip")] = OPEN  # `python -m pip` would start
    installers: Annotated[Several[str], public("installers on PATH")] = OPEN
    packages: Annotated[Several[Package], private("packages", key="name")] = OPEN
    damaged: Annotated[Several[DamagedPackage], private("damaged packages", key="name", element="files of {}")] = OPEN
    failing_files: Annotated[
        Several[FailingFile], private("files that fail to load", key="path", element="loading {}")
    ] = OPEN
    # winner first
    tensorflow_paths: Annotated[Several[str], private("`import tensorflow` finds", unit="path")] = OPEN
    shadowed: Annotated[Several[ShadowedModule], private("shadowed modules", key="module", element="import {}")] = OPEN
    kernels: Annotated[Several[Kernel], private("Jupyter kernels")] = OPEN  # Jupyter's, of Python
    elsewhere: Annotated[Several[OtherPython], private("other environments")] = OPEN
    # that of tfgpu, beside the one under test; others on PATH may not start, as what pyenv has there
    makers: Annotated[
        Several[Interpreter], private("Pythons that create environments", key="executable", grade="noise")
    ] = OPEN
    wheel_platform: Annotated[Fact[str], public("platform of wheels", group="system")] = OPEN


# --------------------------------------------------------------------------------- TensorFlow


class Phase(Record, frozen=True):
    """One step of the examination in the child process, and how it ended."""

    # "interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla"
    name: Annotated[str, public("name")]
    outcome: Annotated[str, public("outcome")]  # "ok", "raised", "died", "timeout", "skipped"
    seconds: Annotated[float | None, public("seconds", unit="s", grade="noise")] = None
    exception: Annotated[str | None, private("exception")] = None  # "ImportError: libcudart.so.11.0: cannot open ..."
    traceback: Annotated[tuple[str, ...], private("traceback", grade="noise")] = ()  # last lines
    signal: Annotated[str | None, public("signal")] = None  # "SIGSEGV", "SIGKILL"
    exit_code: Annotated[int | None, public("exit code")] = None
    log_tail: Annotated[tuple[str, ...], private("end of its log", grade="noise")] = ()
    note: Annotated[str | None, private("note", grade="noise")] = None  # why it was skipped, or what killed it
    # for how long, when it was stopped for that
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

    # where it is not imported, the package's
    version: Annotated[Fact[str], public("TensorFlow", group="tensorflow")] = OPEN
    # "tensorflow", "tensorflow-cpu", "tensorflow-macos" ...
    distribution: Annotated[Fact[str], public("distribution of TensorFlow", group="tensorflow")] = OPEN
    file: Annotated[Fact[str], private("tf.__file__", unit="path", grade="noise", group="tensorflow")] = OPEN
    build: Annotated[Fact[Build], private("built for", group="tensorflow")] = OPEN
    devices: Annotated[Several[TfDevice], private("TensorFlow lists", layer="Devices", grade="observation")] = OPEN
    checks: Annotated[Several[ComputeCheck], private("computations", layer="Compute", grade="observation")] = OPEN
    phases: Annotated[tuple[Phase, ...], private("phases", grade="observation", key="name", element="phase {}:")] = ()
    log: Annotated[Several[str], private("TensorFlow's log", unit="lines", grade="noise")] = OPEN


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that a program printed and the catalogue of messages knows (parsers/messages.py)."""

    kind: Annotated[str, public("kind")]  # "cuinit-failed"
    line: Annotated[int, public("line")]  # where it stands, 1-based; in a live report the line of TensorFlow's log
    text: Annotated[str, private("text")]  # the line, at most 300 characters
    values: Annotated[dict[str, str], private("values")] = {}
    count: Annotated[int, public("count")] = 1  # how often it was printed
    source: Annotated[str | None, private("source")] = None  # "TensorFlow's log" of a live report; else None


# ----------------------------------------------------------------------------------- together


class Facts(Record, frozen=True):
    """All that was found out, from whatever source."""

    host: Annotated[Host, private("host", layer="Machine")] = Host()
    driver: Annotated[Driver, private("driver", layer="Driver", group="driver")] = Driver()
    gpus: Annotated[Several[Gpu], private("GPUs", layer="GPU", group="gpus", key="index", element="GPU {}")] = OPEN
    cuda: Annotated[Cuda, private("CUDA", layer="CUDA")] = Cuda()
    loader: Annotated[Loader, private("loader", layer="CUDA")] = Loader()
    cudnn: Annotated[Cudnn, private("cuDNN", layer="cuDNN", group="cudnn")] = Cudnn()
    python: Annotated[Python, private("Python", layer="Python")] = Python()
    # environment variables that matter, as the interpreter under test gets them
    variables: Annotated[
        Fact[dict[str, str]], private("environment variables", layer="Python", key="name", element="{}:")
    ] = OPEN
    tensorflow: Annotated[TensorFlow, private("TensorFlow", layer="TensorFlow")] = TensorFlow()
    messages: Annotated[Several[Message], private("messages", layer="TensorFlow", grade="observation", key="kind")] = (
        OPEN
    )


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


# lists of records, as functions take them
Gpus = tuple[Gpu, ...]
Packages = tuple[Package, ...]
Phases = tuple[Phase, ...]
