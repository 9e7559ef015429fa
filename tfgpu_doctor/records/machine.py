"""What is known about a machine: the host, the NVIDIA driver, the GPUs.

Sizes are bytes, times are seconds, clocks are MHz, power is watts, temperatures are °C.
"""

from __future__ import annotations

from typing import Annotated

from tfgpu_doctor.records.about import HOST, OWN_NAME, private, public
from tfgpu_doctor.records.fact import NOT_EXAMINED, Fact, Record

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
    performance_state: Annotated[Fact[int], public("performance state", grade="noise")] = NOT_EXAMINED  # P0 ... P15
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


class PeerLink(Record, frozen=True):
    """How two GPUs reach each other."""

    a: Annotated[int, public("GPU")]
    b: Annotated[int, public("other GPU")]
    # "internal", "single", "multiple", "hostbridge", "node", "system" (NVML's common ancestor)
    topology: Annotated[str, private("topology")]
