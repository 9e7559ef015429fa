"""What is known about a machine: the host, the NVIDIA driver, the GPUs.

Sizes are bytes, times are seconds, clocks are MHz, power is watts, temperatures are °C.
"""

from __future__ import annotations

from tfgpu_doctor.records.fact import NOT_EXAMINED, Fact, Record

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
