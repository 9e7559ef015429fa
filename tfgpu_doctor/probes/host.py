"""The machine or container below Python: system, CPU, memory, and what the PCI bus says of NVIDIA GPUs.

Everything is read from files below a root, so that a test can show a machine as a folder; what other systems answer,
:mod:`tfgpu_doctor.probes.systems` says.
"""

from __future__ import annotations

import errno
import os
import platform
import posixpath
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TypeVar

from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.probes.files import below, exists_fact, module_loaded, read_text, text_fact, whole, why
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.environment_variables import matters
from tfgpu_doctor.records.facts import Fact, Host, Known, Limit, PciGpu, TemporaryFolder, Unknown, map_fact

OSRELEASE = "/proc/sys/kernel/osrelease"
# UEFI specification, chapter "Globally Defined Variables"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def examine(root: str = "/", environ: Mapping[str, str] | None = None) -> Host:
    """Describe the machine whose file system begins at `root`; a `root` other than "/" is taken for a Linux."""
    environ = os.environ if environ is None else environ
    if system_here := here.other(root):
        return system_here.host()
    osrelease = text_fact(root, OSRELEASE)
    system = map_fact(osrelease, linux_kind)
    release = os_release(root)
    cpu = text_fact(root, "/proc/cpuinfo")
    return Host(
        name=text_fact(root, "/proc/sys/kernel/hostname"),
        os=system,
        machine=Known(platform.machine().lower(), "uname"),
        kernel=osrelease,
        distribution=release.get("PRETTY_NAME", release["NAME"]),
        distribution_id=release["ID"],
        distribution_version=release["VERSION_ID"],
        libc=_libc(root),
        cpu_model=_cpuinfo(cpu, ("model name", "Model", "Hardware")),
        cpu_flags=map_fact(_cpuinfo(cpu, ("flags", "Features")), lambda text: tuple(sorted(text.split()))),
        cpus=_cpus(),
        cpu_quota=cpu_quota(root),
        memory=_memory(root),
        memory_limit=memory_limit(root),
        address_space_limit=address_space_limit(),
        temporary_folder=temporary_folder(environ, root),
        shm=_shm(root),
        container=container(root, environ),
        pci_gpus=gpus(root, wsl=isinstance(system, Known) and system.value.startswith("wsl")),
        nouveau_loaded=module_loaded(root, "nouveau"),
        secure_boot=_secure_boot(root),
        dxg_device=exists_fact(root, "/dev/dxg"),
        vc_runtime=Unknown("the Visual C++ runtime is a part of Windows programs"),
    )


def linux_kind(osrelease: str) -> str:
    """Tell WSL by its kernel's name.

    >>> linux_kind("5.15.153.1-microsoft-standard-WSL2"), linux_kind("4.4.0-19041-Microsoft"), linux_kind("6.8.0-45")
    ('wsl2', 'wsl1', 'linux')
    """
    if re.fullmatch(r"4\.4\.0-\d+-Microsoft", osrelease):  # WSL1 has no Linux kernel, and says so in this form
        return "wsl1"
    return "wsl2" if "microsoft" in osrelease.lower() else "linux"


def os_release(root: str) -> dict[str, Fact[str]]:
    """NAME, PRETTY_NAME, ID and VERSION_ID of os-release(5) as facts."""
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = text_fact(root, path)
        if isinstance(text, Known):
            break
    values: dict[str, Fact[str]] = {}
    for line in text.value.splitlines() if isinstance(text, Known) else ():
        key, equals, value = line.partition("=")
        if equals and key.isidentifier():
            values[key] = Known(_unquoted(value), path)
    for key in ("NAME", "ID", "VERSION_ID"):
        missing = text if isinstance(text, Unknown) else Unknown(f"{path} has no {key}")
        values.setdefault(key, missing)
    return values


def _unquoted(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:  # an open quote
        return value.strip("\"' ")


def _libc(root: str) -> Fact[str]:
    if root == "/" and sys.platform != "win32":
        try:
            version = os.confstr("CS_GNU_LIBC_VERSION")
        except (ValueError, OSError):  # not glibc
            version = None
        if version:
            return Known(version, "confstr(CS_GNU_LIBC_VERSION)")
    try:
        names = sorted(os.listdir(below(root, "/lib")))
    except OSError as error:
        return Unknown(why(error, "/lib"))
    musl = next((name for name in names if name.startswith("ld-musl-")), None)
    return Known("musl", f"/lib/{musl}") if musl else Unknown("neither glibc's confstr nor musl's loader in /lib")


def _cpuinfo(cpuinfo: Fact[str], keys: tuple[str, ...]) -> Fact[str]:
    if isinstance(cpuinfo, Unknown):
        return cpuinfo
    for key in keys:
        if found := re.search(rf"^{key}\s*:[ \t]*(.*\S)", cpuinfo.value, re.MULTILINE):
            return Known(found[1], cpuinfo.source)
    return Unknown(f"{cpuinfo.source} has no line {' or '.join(keys)}")


def _cpus() -> Fact[int]:
    if hasattr(os, "sched_getaffinity"):
        return Known(len(os.sched_getaffinity(0)), "sched_getaffinity")
    return Unknown("sched_getaffinity is Linux's")


def _memory(root: str) -> Fact[int]:
    meminfo = text_fact(root, "/proc/meminfo")
    if isinstance(meminfo, Unknown):
        return meminfo
    found = re.search(r"^MemTotal:\s*(\d{1,15}) kB", meminfo.value, re.MULTILINE)
    return Known(int(found[1]) * 1024, meminfo.source) if found else Unknown("/proc/meminfo has no MemTotal")


def _shm(root: str) -> Fact[int]:
    if sys.platform == "win32":
        return Unknown("Windows has no /dev/shm")
    try:
        found = os.statvfs(below(root, "/dev/shm"))
    except OSError as error:
        return Unknown(why(error, "/dev/shm"))
    return Known(found.f_frsize * found.f_blocks, "statvfs(/dev/shm)")


def _secure_boot(root: str) -> Fact[bool]:
    try:
        data = read_head(below(root, SECURE_BOOT), 5)  # four bytes of attributes, one of value
    except FileNotFoundError:
        return Unknown(
            "no SecureBoot variable in /sys/firmware/efi/efivars: booted without EFI, or hidden by a container"
        )
    except OSError as error:
        return Unknown(why(error, SECURE_BOOT))
    if len(data) != 5:
        return Unknown(f"{SECURE_BOOT} has {len(data)} bytes, not 5")
    return Known(data[4] == 1, SECURE_BOOT)


# in the order of how much they say; the first that is there counts
CONTAINER_MARKS = (
    ("/.singularity.d", "apptainer"),
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
)
CONTAINER_CGROUPS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
    ("containerd", "containerd"),
)


def container(root: str, environ: Mapping[str, str]) -> Fact[str]:
    """The kind of container that this process runs in, or "none"."""
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return Known("kubernetes", "KUBERNETES_SERVICE_HOST")
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if environ.get(variable):
            return Known("apptainer", variable)
    for path, kind in CONTAINER_MARKS:
        if os.path.exists(below(root, path)):
            return Known(kind, path)
    # systemd's container interface: the manager writes its own name
    for path in ("/run/host/container-manager", "/run/systemd/container"):
        named = text_fact(root, path)
        if isinstance(named, Known) and named.value:
            return named
    if named_here := environ.get("container"):
        return Known(named_here, "the variable `container`")
    groups = text_fact(root, "/proc/1/cgroup")
    if isinstance(groups, Unknown):
        return groups
    for word, kind in CONTAINER_CGROUPS:
        if word in groups.value:
            return Known(kind, "/proc/1/cgroup")
    return Known("none", "no mark of a container: environment, /.dockerenv, /run, /proc/1/cgroup")


# ------------------------------------------------------------------------------------------------------------ cgroups
#
# Limits that control groups set on this process: CPU time and memory, in versions 1 and 2.
#
# Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max, memory.max),
# admin-guide/cgroup-v1/memory.rst (memory.limit_in_bytes) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
# A limit may be set on the process's own group or on any above it: the smallest counts.

MOUNT = "/sys/fs/cgroup"
UNLIMITED_V1 = 1 << 60  # version 1 writes the largest long, rounded to pages, for "no limit"

T = TypeVar("T", int, float)


def cpu_quota(root: str) -> Fact[float]:
    """CPUs' worth of time that the groups allow; unknown("no limit") without a limit."""
    limits: list[tuple[float, str]] = []
    seen = False
    for folder in _groups(root, "cpu"):
        for name in ("cpu.max", "cpu.cfs_quota_us"):
            path = f"{folder}/{name}"
            try:
                words = read_text(root, path).split()
                if name == "cpu.cfs_quota_us":
                    words.append(read_text(root, f"{folder}/cpu.cfs_period_us").strip())
            except OSError:  # not in this version, or not at this level
                continue
            seen = True
            quota, period = map(whole, words) if len(words) == 2 else (None, None)
            if quota is not None and period:
                limits.append((quota / period, path))
    return _smallest(limits, seen)


def memory_limit(root: str) -> Fact[int]:
    """Bytes that the groups allow; unknown("no limit") without a limit."""
    limits: list[tuple[int, str]] = []
    seen = False
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            path = f"{folder}/{name}"
            try:
                text = read_text(root, path).strip()
            except OSError:  # not in this version, or not at this level
                continue
            seen = True
            limit = whole(text)
            if limit is not None and limit < UNLIMITED_V1:
                limits.append((limit, path))
    return _smallest(limits, seen)


def _smallest(limits: list[tuple[T, str]], seen: bool) -> Fact[T]:
    if not limits:
        return Unknown("no limit") if seen else Unknown(f"no control group files below {MOUNT}")
    value, path = min(limits)
    return Known(value, path)


def _groups(root: str, controller: str) -> Iterator[str]:
    """Folders of this process's groups for `controller`, innermost first, up to the mount.

    In a container the path of /proc/self/cgroup may be the host's, which the mount does not show;
    its parents, up to the mount itself, still lead to the container's own limits.
    """
    try:
        lines = read_text(root, "/proc/self/cgroup").splitlines()
    except OSError:
        lines = ["0::/", f"1:{controller}:/"]
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            mounts = (MOUNT, f"{MOUNT}/unified")
        elif controller in controllers.split(","):
            mounts = (f"{MOUNT}/{controllers}", f"{MOUNT}/{controller}")
        else:
            continue
        for mount in dict.fromkeys(mounts):
            here = group
            while True:
                yield (mount + here).rstrip("/")
                if here in ("", "/"):
                    break
                here = posixpath.dirname(here)


# ------------------------------------------------------------------------------------------------------------- limits
#
# What the system lets this process do: the size of its address space, and the folder for its temporary files.


def address_space_limit() -> Fact[Limit]:
    """RLIMIT_AS of this process."""
    if sys.platform == "win32":
        return Unknown("Windows has no RLIMIT_AS")
    import resource

    return as_limit(resource.getrlimit(resource.RLIMIT_AS), "getrlimit(RLIMIT_AS)")


def as_limit(limits: tuple[int, ...], source: str) -> Fact[Limit]:
    """The soft and the hard limit as a fact; RLIM_INFINITY is -1 on Linux, and nearly 2**63 on macOS.

    >>> as_limit((8_192_000_000, -1), "getrlimit(RLIMIT_AS)").value
    Limit(soft=8192000000, hard=None)
    """
    soft, hard = (number if 0 <= number < 2**62 else None for number in limits)
    return Known(Limit(soft, hard), source)


def temporary_folder(environ: Mapping[str, str], root: str = "/") -> Fact[TemporaryFolder]:
    """The folder in which TensorFlow and XLA write temporary files, and whether this user can.

    It is the first folder of TMPDIR, TMP and /tmp that is there (tsl/platform/default/env.cc, GetLocalTempDirectories).
    """
    if sys.platform == "win32":
        return Unknown("not read on Windows")
    named = [(environ.get(name, ""), name) for name in ("TMPDIR", "TMP")]
    for path, via in (*named, ("/tmp", "default")):
        folder = below(root, os.path.abspath(path)) if path else ""
        if os.path.isdir(folder):
            return Known(TemporaryFolder(path, via, _why_not_writable(folder), _free(folder)), f"access({path})")
    absent = TemporaryFolder("/tmp", "default", os.strerror(errno.ENOENT))
    return Known(absent, "access(/tmp)")


def _why_not_writable(folder: str) -> str | None:
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY) if sys.platform != "win32" else False
    return os.strerror(errno.EROFS if read_only else errno.EACCES)


def _free(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_frsize * found.f_bavail


# ---------------------------------------------------------------------------------------------------------------- pci
#
# NVIDIA GPUs on the PCI bus, from sysfs: seen without driver, lspci or privilege.

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = "0x03"  # PCI base class: VGA (0300), 3D (0302) and other display controllers
PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids", "/var/lib/pciutils/pci.ids")
TEGRA_MARKS = ("/etc/nv_tegra_release", "/sys/devices/soc0/family")


def gpus(root: str, *, wsl: bool) -> Fact[tuple[PciGpu, ...]]:
    """NVIDIA's display controllers in bus order; unknown where a GPU would not be on the bus (WSL2, Jetson)."""
    try:
        addresses = sorted(os.listdir(below(root, DEVICES)))
    except OSError as error:
        return Unknown(why(error, DEVICES))
    found = [address for address in addresses if _is_gpu(root, address)]
    if not found and wsl:
        return Unknown("WSL2 passes GPUs through /dev/dxg, not over the PCI bus")
    if not found and _tegra(root):
        return Unknown("the GPU of a Tegra (Jetson) is not on the PCI bus")
    names = _names(root) if found else {}
    return Known(tuple(_gpu(root, address, names) for address in found), DEVICES)


def _is_gpu(root: str, address: str) -> bool:
    vendor = _attribute(root, address, "vendor")
    return vendor == NVIDIA and (_attribute(root, address, "class") or "").startswith(DISPLAY)


def _gpu(root: str, address: str, names: dict[str, str]) -> PciGpu:
    device = (_attribute(root, address, "device") or "").removeprefix("0x")
    width = _attribute(root, address, "current_link_width") or ""
    return PciGpu(
        address=address,
        device_id=f"10de:{device}",
        driver=_driver(root, address),
        name=names.get(device),
        link_speed=_attribute(root, address, "current_link_speed"),
        link_width=whole(width),
    )


def _attribute(root: str, address: str, name: str) -> str | None:
    try:
        return read_text(root, f"{DEVICES}/{address}/{name}").strip()
    except OSError:  # the device has no such attribute, or went away
        return None


def _driver(root: str, address: str) -> str | None:
    try:
        return os.path.basename(os.readlink(below(root, f"{DEVICES}/{address}/driver")))
    except OSError:  # no driver is bound
        return None


def _tegra(root: str) -> bool:
    for path in TEGRA_MARKS:
        try:
            text = read_text(root, path).lower()
        except OSError:
            continue
        if path == "/etc/nv_tegra_release" or "tegra" in text:
            return True
    return False


def _names(root: str) -> dict[str, str]:
    """Device number → name of NVIDIA's section of the machine's own pci.ids; empty without one."""
    for path in PCI_IDS:
        try:
            text = read_text(root, path)
        except OSError:
            continue
        return parse_pci_ids(text, NVIDIA.removeprefix("0x"))
    return {}


def parse_pci_ids(text: str, vendor: str) -> dict[str, str]:
    """Read one vendor's devices out of a pci.ids file.

    >>> parse_pci_ids('''10de  NVIDIA Corporation
    ... \\t2684  AD102 [GeForce RTX 4090]
    ... \\t\\t1043 889b  TUF Gaming
    ... 10df  Emulex Corporation
    ... \\t0720  OneConnect NIC (Skyhawk)''', "10de")
    {'2684': 'AD102 [GeForce RTX 4090]'}
    """
    start = 0 if text.startswith(vendor) else text.find(f"\n{vendor} ") + 1
    if not text.startswith(f"{vendor} ", start):
        return {}
    names = {}
    for line in text[start:].splitlines()[1:]:
        if line and line[0] not in "\t#":
            break
        if line.startswith("\t") and not line.startswith("\t\t"):
            number, _, name = line.strip().partition("  ")
            names[number] = name
    return names


# ---------------------------------------------------------------------------------------------------------- variables
#
# The environment variables that matter to TensorFlow on a GPU, as this process has them.

LONGEST = 4096  # characters kept of a value


def variables(environ: Mapping[str, str] | None = None) -> Fact[dict[str, str]]:
    """The variables that matter and are set (an empty value is one too), by name."""
    environ = os.environ if environ is None else environ
    found = {name: environ[name][:LONGEST] for name in sorted(environ) if matters(name)}
    return Known(found, "environment")
