"""What is known about one machine, one Python environment and one TensorFlow.

Every leaf is a :data:`Fact`: either :class:`Known`, a value with the place it was read from, or
:class:`Unknown`, with the reason why it could not be determined. Probes, parsers of pasted text and
saved reports all produce the same :class:`Facts`; the rules cannot tell which.

The records are frozen; msgspec derives their JSON, their validation and their JSON Schema.
Sizes are bytes, times are seconds, clocks are MHz, power is watts, temperatures are °C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, Union

from msgspec import Struct

T = TypeVar("T")
U = TypeVar("U")


class Record(Struct, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=True):
    """Base of every record: frozen, keyword-only, strict about unknown keys."""


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


class Unknown(Struct, frozen=True, tag_field="is", tag="unknown", forbid_unknown_fields=True, omit_defaults=True):
    """The value could not be determined, and why.

    `one_of`: the values that remain possible, where the evidence leaves a few. `ask`: the command that would tell.
    """

    reason: str
    one_of: tuple[str, ...] = ()
    ask: str | None = None


Fact: TypeAlias = Union[Known[T], Unknown]  # noqa: UP007 - `Known[T] | Unknown` is no generic alias at run time on 3.10

NOT_EXAMINED = Unknown("not examined")
NOT_ASKED = Unknown("not asked for")  # a question that nobody put is no open one


def value_or(fact: Known[T] | Unknown, default: U) -> T | U:
    """Return the value of a known fact, else `default`."""
    return fact.value if isinstance(fact, Known) else default


def map_fact(fact: Known[T] | Unknown, convert: Callable[[T], U]) -> Known[U] | Unknown:
    """Apply `convert` to a known value and keep its source; an unknown stays as it is."""
    return Known(convert(fact.value), fact.source, fact.grade) if isinstance(fact, Known) else fact


# --------------------------------------------------------------------------------------- host


class PciGpu(Record, frozen=True):
    """An NVIDIA display or 3D controller on the PCI bus, seen without any driver."""

    address: str  # "0000:65:00.0"
    device_id: str  # "10de:2684"
    driver: str | None = None  # kernel driver bound to it: "nvidia", "nouveau", "vfio-pci"; None when unbound
    name: str | None = None  # where the machine's own pci.ids names it
    link_speed: str | None = None  # "16.0 GT/s PCIe", now
    link_width: int | None = None  # lanes, now


class Host(Record, frozen=True):
    """The machine or container below Python."""

    os: Fact[str] = NOT_EXAMINED  # "linux", "windows", "wsl2", "macos"
    machine: Fact[str] = NOT_EXAMINED  # "x86_64", "aarch64", "arm64", "amd64" as the kernel says it, in lower case
    kernel: Fact[str] = NOT_EXAMINED  # "6.8.0-45-generic"
    distribution: Fact[str] = NOT_EXAMINED  # "Debian GNU/Linux 12 (bookworm)"
    distribution_id: Fact[str] = NOT_EXAMINED  # "debian", "ubuntu", "fedora", "rhel", "arch" ...
    distribution_version: Fact[str] = NOT_EXAMINED  # "12", "22.04"
    libc: Fact[str] = NOT_EXAMINED  # "glibc 2.36", "musl 1.2.4"
    cpu_model: Fact[str] = NOT_EXAMINED
    cpu_flags: Fact[tuple[str, ...]] = NOT_EXAMINED  # sorted, as in /proc/cpuinfo
    cpus: Fact[int] = NOT_EXAMINED  # logical CPUs that this process may use
    cpu_quota: Fact[float] = NOT_EXAMINED  # CPUs that the cgroup allows; unknown("no limit") without one
    memory: Fact[int] = NOT_EXAMINED
    memory_limit: Fact[int] = NOT_EXAMINED  # cgroup limit; unknown("no limit") without one
    shm: Fact[int] = NOT_EXAMINED  # size of /dev/shm
    container: Fact[str] = NOT_EXAMINED  # "none", "docker", "podman", "kubernetes", "lxc", "apptainer", ...
    pci_gpus: Fact[tuple[PciGpu, ...]] = NOT_EXAMINED
    nouveau_loaded: Fact[bool] = NOT_EXAMINED
    secure_boot: Fact[bool] = NOT_EXAMINED
    dxg_device: Fact[bool] = NOT_EXAMINED  # WSL2: /dev/dxg is there, so the Windows side passes a GPU through


# ------------------------------------------------------------------------------------- driver


class LibraryFile(Record, frozen=True):
    """A shared library on disk."""

    path: str
    version: str | None = None  # from the file name behind the link, or from the package that owns it
    soname: str | None = None  # DT_SONAME
    problem: str | None = None  # why the loader would refuse it: "empty file", "not ELF", "32-bit"


class CallResult(Record, frozen=True):
    """What a driver API answered."""

    code: int  # 0 is success; minus the number of the signal that the call died of
    message: str  # "NVML_SUCCESS", "Driver/library version mismatch"
    name: str | None = None  # "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "NVML_ERROR_LIB_RM_VERSION_MISMATCH"
    library: str | None = None  # the file that answered


class SmiResult(Record, frozen=True):
    """How nvidia-smi ended and what its banner says."""

    exit_code: int
    output: str  # first lines of stdout and stderr, at most 2000 characters
    driver_version: str | None = None
    cuda_version: str | None = None  # newest CUDA that this driver supports, not what is installed


class Driver(Record, frozen=True):
    """The NVIDIA driver: kernel module, device nodes, user-space libraries."""

    version: Fact[str] = NOT_EXAMINED  # "535.113.01", the best of the sources below
    cuda_supported: Fact[str] = NOT_EXAMINED  # newest CUDA that the driver supports, "12.2"
    kernel_module: Fact[str] = NOT_EXAMINED  # version of the loaded module; unknown("not loaded: ...") without one
    kernel_module_loaded: Fact[bool] = NOT_EXAMINED
    kernel_module_kind: Fact[str] = NOT_EXAMINED  # "open" or "proprietary"
    kernel_module_on_disk: Fact[tuple[str, ...]] = NOT_EXAMINED  # nvidia.ko files for the running kernel, or for others
    device_nodes: Fact[tuple[str, ...]] = NOT_EXAMINED  # "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"
    libcuda: Fact[tuple[LibraryFile, ...]] = NOT_EXAMINED  # every libcuda.so.1 the loader could use, winner first
    libnvidia_ml: Fact[tuple[LibraryFile, ...]] = NOT_EXAMINED
    nvml_init: Fact[CallResult] = NOT_EXAMINED
    cuda_init: Fact[CallResult] = NOT_EXAMINED  # cuInit(0)
    cuda_device_count: Fact[int] = NOT_EXAMINED  # cuDeviceGetCount, under CUDA_VISIBLE_DEVICES
    nvidia_smi: Fact[SmiResult] = NOT_EXAMINED
    unresponsive: Fact[tuple[str, ...]] = NOT_EXAMINED  # calls that did not answer in time: "nvmlInit", "nvidia-smi"
    xid_events: Fact[tuple[str, ...]] = NOT_EXAMINED  # kernel log lines with "NVRM: Xid", newest last


# --------------------------------------------------------------------------------------- GPUs


class GpuProcess(Record, frozen=True):
    """A process that holds memory of a GPU."""

    pid: int
    memory: int | None = None
    name: str | None = None


class NvLink(Record, frozen=True):
    """One NVLink of a GPU."""

    link: int
    active: bool
    remote: str | None = None  # PCI bus id at the other end


class Gpu(Record, frozen=True):
    """One physical GPU, or what is known of it."""

    index: int
    name: Fact[str] = NOT_EXAMINED
    uuid: Fact[str] = NOT_EXAMINED
    pci_bus_id: Fact[str] = NOT_EXAMINED
    compute_capability: Fact[str] = NOT_EXAMINED  # "8.9"
    multiprocessors: Fact[int] = NOT_EXAMINED
    memory_total: Fact[int] = NOT_EXAMINED
    memory_used: Fact[int] = NOT_EXAMINED
    memory_free: Fact[int] = NOT_EXAMINED
    processes: Fact[tuple[GpuProcess, ...]] = NOT_EXAMINED
    utilization: Fact[int] = NOT_EXAMINED  # per cent
    temperature: Fact[int] = NOT_EXAMINED
    power: Fact[float] = NOT_EXAMINED
    power_limit: Fact[float] = NOT_EXAMINED
    sm_clock: Fact[int] = NOT_EXAMINED
    sm_clock_max: Fact[int] = NOT_EXAMINED
    memory_clock: Fact[int] = NOT_EXAMINED
    memory_clock_max: Fact[int] = NOT_EXAMINED
    memory_bus_width: Fact[int] = NOT_EXAMINED  # bits
    throttle_reasons: Fact[tuple[str, ...]] = NOT_EXAMINED  # "sw_power_cap", "hw_thermal_slowdown", "gpu_idle" ...
    performance_state: Fact[int] = NOT_EXAMINED  # P0 ... P15
    ecc_mode: Fact[bool] = NOT_EXAMINED
    ecc_uncorrected: Fact[int] = NOT_EXAMINED  # volatile, since the driver was loaded
    remapped_rows_pending: Fact[bool] = NOT_EXAMINED
    remapped_rows_failed: Fact[bool] = NOT_EXAMINED
    mig_mode: Fact[bool] = NOT_EXAMINED
    mig_instances: Fact[tuple[str, ...]] = NOT_EXAMINED  # names or UUIDs
    compute_mode: Fact[str] = NOT_EXAMINED  # "default", "prohibited", "exclusive_process"
    persistence_mode: Fact[bool] = NOT_EXAMINED
    display_active: Fact[bool] = NOT_EXAMINED
    pcie_generation: Fact[int] = NOT_EXAMINED
    pcie_generation_max: Fact[int] = NOT_EXAMINED
    pcie_width: Fact[int] = NOT_EXAMINED
    pcie_width_max: Fact[int] = NOT_EXAMINED
    nvlinks: Fact[tuple[NvLink, ...]] = NOT_EXAMINED
    numa_node: Fact[int] = NOT_EXAMINED
    fault: Fact[str] = NOT_EXAMINED  # what NVML says of a GPU it cannot open: "GPU is lost"; unknown("none") when fine


class PeerLink(Record, frozen=True):
    """How two GPUs reach each other."""

    a: int
    b: int
    topology: str  # "internal", "single", "multiple", "hostbridge", "node", "system" (NVML's common ancestor)
    p2p_read: str | None = None  # NVML P2P status: "ok", "chipset_not_supported", ...


# --------------------------------------------------------------------------------------- CUDA


class Toolkit(Record, frozen=True):
    """A CUDA toolkit on disk."""

    path: str
    version: str | None  # "12.4.131", "11.8"; None when the folder does not tell
    source: str  # the file that told the version
    via: str  # "CUDA_HOME", "CUDA_PATH", "PATH", "/usr/local", "conda", "spack" ...


class Nvcc(Record, frozen=True):
    """The CUDA compiler that the shell would start."""

    path: str
    version: str  # "13.0.88"


class XlaFile(Record, frozen=True):
    """A file or folder that XLA needs, where it looks for one."""

    path: str
    via: str  # "XLA_FLAGS", "PATH", "the build's toolkit", "/usr/local", "pip wheel", "conda" ...
    version: str | None = None  # of ptxas: "12.5.82"
    problem: str | None = None  # why it is of no use: "no libdevice.10.bc in it"


class Cuda(Record, frozen=True):
    """CUDA toolkits, wherever they come from."""

    toolkits: Fact[tuple[Toolkit, ...]] = NOT_EXAMINED
    nvcc: Fact[Nvcc] = NOT_EXAMINED
    # what XLA compiles for a GPU with, in the order in which this TensorFlow looks
    xla_roots: Fact[tuple[XlaFile, ...]] = NOT_EXAMINED  # folders that it takes for CUDA, there or not
    libdevice: Fact[tuple[XlaFile, ...]] = NOT_EXAMINED  # libdevice.10.bc; the first one counts
    ptxas: Fact[tuple[XlaFile, ...]] = NOT_EXAMINED  # the first one whose version XLA accepts counts
    conda_packages: Fact[tuple[Package, ...]] = NOT_EXAMINED  # cuda*, cudnn, cudatoolkit, tensorflow* from conda-meta


class Candidate(Record, frozen=True):
    """A file that carries the wanted soname, and the way the loader would come to it."""

    path: str
    # in the loader's reach: "already loaded", "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ldconfig", "default path" ("PATH"
    # on Windows); out of it: "pip wheel", "toolkit", "conda"
    via: str
    reachable: bool  # the loader looks there
    version: str | None = None
    problem: str | None = (
        None  # why the loader refuses or skips it: "empty file", "not ELF", "needs libz.so.1, not found"
    )
    # what follows from the problem: "skipped" (the loader looks further), "ends the list" (of folders), "fatal" (dlopen
    # fails, whatever lies behind it), "later" (it loads, and fails when used: a part that it opens itself is missing)
    effect: str | None = None


class Soname(Record, frozen=True):
    """A library that TensorFlow loads by name, and which file wins."""

    soname: str  # "libcudart.so.12"
    component: str  # "cudart", "cublas", "cudnn", "driver" ...
    candidates: tuple[Candidate, ...]  # reachable ones first, in the loader's order
    winner: str | None  # path of the file that loads and works; None when there is none, or a broken one in the way
    other_versions: tuple[str, ...] = ()  # files of the same library with another soname: ".../libcudart.so.13"


class Loader(Record, frozen=True):
    """What the dynamic loader does with the libraries that TensorFlow opens by soname."""

    search_path: Fact[tuple[str, ...]] = NOT_EXAMINED  # LD_LIBRARY_PATH as the interpreter under test gets it
    runpath: Fact[tuple[str, ...]] = NOT_EXAMINED  # of the TensorFlow library that calls dlopen, $ORIGIN resolved
    sonames: Fact[tuple[Soname, ...]] = NOT_EXAMINED
    loaded: Fact[tuple[str, ...]] = NOT_EXAMINED  # CUDA libraries in the child's own memory map, after its last phase


class CudnnFile(Record, frozen=True):
    """A cuDNN on disk."""

    path: str  # of libcudnn.so.N, cudnn64_N.dll or cudnn_version.h
    version: str | None
    source: str  # file name, header, pip package, conda package


class Cudnn(Record, frozen=True):
    """cuDNN on disk and as loaded."""

    installed: Fact[tuple[CudnnFile, ...]] = NOT_EXAMINED
    header: Fact[CudnnFile] = NOT_EXAMINED
    runtime: Fact[str] = NOT_EXAMINED  # cudnnGetVersion() of the file that the loader picks: "9.3.0"


# ------------------------------------------------------------------------------------- Python


class Package(Record, frozen=True):
    """An installed distribution."""

    name: str  # normalised: "tensorflow", "nvidia-cudnn-cu12"
    version: str
    location: str | None = None  # the folder that holds its dist-info
    installer: str | None = None  # "pip", "conda", "uv"
    requires: tuple[str, ...] = ()  # Requires-Dist lines; only of TensorFlow itself


class OtherPython(Record, frozen=True):
    """An interpreter that may have been meant, and the TensorFlow in it; read from disk, not started."""

    executable: str
    via: str  # "VIRTUAL_ENV", "CONDA_PREFIX", "kernel python3", "pip on PATH"
    prefix: str  # the environment's folder
    tensorflow: str | None = None  # "tensorflow 2.20.0"; None: none is installed there
    cuda: bool = False  # CUDA's libraries are installed beside it (nvidia-* wheels, conda's cudatoolkit)


class Kernel(Record, frozen=True):
    """A Jupyter kernel of Python, and the interpreter that it starts."""

    name: str  # "python3"
    display_name: str
    file: str  # its kernel.json
    executable: str  # resolved; as written where it is nowhere


class Python(Record, frozen=True):
    """The interpreter under test and its packages."""

    executable: Fact[str] = NOT_EXAMINED
    version: Fact[str] = NOT_EXAMINED  # "3.11.7"
    implementation: Fact[str] = NOT_EXAMINED  # "cpython"
    bits: Fact[int] = NOT_EXAMINED  # 64 or 32
    prefix: Fact[str] = NOT_EXAMINED
    environment: Fact[str] = NOT_EXAMINED  # "venv", "conda", "system", "pyenv"
    conda_name: Fact[str] = NOT_EXAMINED
    externally_managed: Fact[bool] = NOT_EXAMINED  # PEP 668
    user_site: Fact[str] = NOT_EXAMINED  # the user's own site-packages; unknown("not on sys.path") when switched off
    pip: Fact[bool] = NOT_EXAMINED  # `python -m pip` would start
    installers: Fact[tuple[str, ...]] = NOT_EXAMINED  # of pip, uv, conda, mamba, poetry, pixi: those on PATH
    packages: Fact[tuple[Package, ...]] = NOT_EXAMINED  # TensorFlow's family, nvidia-*, numpy, protobuf, keras
    tensorflow_paths: Fact[tuple[str, ...]] = NOT_EXAMINED  # every `tensorflow` importable over sys.path, winner first
    # folders named tensorflow without __init__.py (left by an uninstall): imported only when nothing else is there
    tensorflow_leftovers: Fact[tuple[str, ...]] = NOT_EXAMINED
    kernels: Fact[tuple[Kernel, ...]] = NOT_EXAMINED  # Jupyter's, of Python
    elsewhere: Fact[tuple[OtherPython, ...]] = NOT_EXAMINED  # of other environments than this one
    wheel_platform: Fact[str] = NOT_EXAMINED  # matrix platform: "linux_x86_64", "macos_arm64" ...


# --------------------------------------------------------------------------------- TensorFlow


class Phase(Record, frozen=True):
    """One step of the examination in the child process, and how it ended."""

    name: str  # "interpreter", "packages", "import", "build", "devices", "details", "compute", "xla"
    outcome: str  # "ok", "raised", "died", "timeout", "skipped"
    seconds: float | None = None
    exception: str | None = None  # "ImportError: libcudart.so.11.0: cannot open shared object file"
    traceback: tuple[str, ...] = ()  # last lines
    signal: str | None = None  # "SIGSEGV", "SIGKILL"
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()  # last lines written to stderr when it ended badly
    note: str | None = None  # why it was skipped; "killed by the kernel's OOM killer"


class Build(Record, frozen=True):
    """tf.sysconfig.get_build_info()."""

    is_cuda_build: bool
    is_rocm_build: bool = False
    cuda_version: str | None = None  # "12.5.1"
    cudnn_version: str | None = None  # "9"
    compute_capabilities: tuple[str, ...] = ()  # "sm_60", "compute_90"


class TfDevice(Record, frozen=True):
    """A device that TensorFlow lists."""

    name: str  # "/physical_device:GPU:0"
    kind: str  # "GPU", "CPU"
    device_name: str | None = None  # "NVIDIA H200"
    compute_capability: str | None = None  # "9.0"


class ComputeCheck(Record, frozen=True):
    """A verified computation on one device."""

    device: str  # "/GPU:0"
    kind: str  # "matmul", "conv2d", "xla"
    ok: bool
    placed_on: str | None = None  # device that the result's tensor names
    residual: float | None = None  # relative, against NumPy in float64
    tolerance: float | None = None
    seconds: float | None = None
    error: str | None = None


class TensorFlow(Record, frozen=True):
    """TensorFlow as it answered in a child process."""

    version: Fact[str] = NOT_EXAMINED  # tf.__version__, or the distribution's version when it cannot be imported
    distribution: Fact[str] = NOT_EXAMINED  # "tensorflow", "tensorflow-cpu", "tensorflow-macos" ...
    file: Fact[str] = NOT_EXAMINED  # tf.__file__
    build: Fact[Build] = NOT_EXAMINED
    devices: Fact[tuple[TfDevice, ...]] = NOT_EXAMINED
    checks: Fact[tuple[ComputeCheck, ...]] = NOT_EXAMINED
    phases: tuple[Phase, ...] = ()
    log: Fact[tuple[str, ...]] = NOT_EXAMINED  # what TensorFlow wrote to stderr, at most 400 lines


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that a program printed and the catalogue of messages knows (parsers/messages.py)."""

    kind: str  # "cuinit-failed"
    line: int  # where it stands, 1-based; in a live report the line of TensorFlow's log
    text: str  # the line, at most 300 characters
    values: dict[str, str] = {}
    count: int = 1  # how often it was said
    source: str | None = None  # whose line: "TensorFlow's log" in a live report; None in a pasted text


class Facts(Record, frozen=True):
    """All that was found out, from whatever source."""

    host: Host = Host()
    driver: Driver = Driver()
    gpus: Fact[tuple[Gpu, ...]] = NOT_EXAMINED
    peers: Fact[tuple[PeerLink, ...]] = NOT_EXAMINED
    cuda: Cuda = Cuda()
    loader: Loader = Loader()
    cudnn: Cudnn = Cudnn()
    python: Python = Python()
    variables: Fact[dict[str, str]] = NOT_EXAMINED  # environment variables that matter, as the patient gets them
    tensorflow: TensorFlow = TensorFlow()
    messages: Fact[tuple[Message, ...]] = NOT_EXAMINED  # what TensorFlow and the tools around it were seen to print


def look_up(facts: Facts, path: str) -> Any:
    """Return the fact or plain value at a dotted path such as ``"driver.nvml_init"``.

    Raises:
        AttributeError: the path names no field.
    """
    here: Any = facts
    for name in path.split("."):
        here = getattr(here, name)
    return here
