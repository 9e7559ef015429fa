"""The machine or container below Python: system, CPU, memory, and what the PCI bus says of NVIDIA GPUs.

Everything is read from files below a root, so that a test can show a machine as a folder; what other systems answer,
:mod:`tfgpu_doctor.probes.systems` says.
"""

from __future__ import annotations

import errno
import itertools
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TypeVar

from tfgpu_doctor.facts.environment_variables import matters
from tfgpu_doctor.facts.facts import Fact, Host, Known, Limit, PciGpu, TemporaryFolder, Unknown, map_fact, value_or
from tfgpu_doctor.facts.reading import read_head
from tfgpu_doctor.probes import systems
from tfgpu_doctor.probes.files import below, exists_fact, listed, module_loaded, names_in, text_fact, text_in, why

T = TypeVar("T", int, float)

# UEFI specification, chapter "Globally Defined Variables"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
LONGEST = 4096  # characters kept of a variable's value


def examine(root: str = "/", environ: Mapping[str, str] | None = None) -> Host:
    """Describe the machine whose file system begins at `root`; a `root` other than "/" is taken for a Linux."""
    environ = os.environ if environ is None else environ
    if system_here := systems.other(root):
        return system_here.host()
    osrelease = text_fact(root, "/proc/sys/kernel/osrelease")
    system = map_fact(osrelease, linux_kind)
    release = os_release(root)
    cpu, memory = text_fact(root, "/proc/cpuinfo"), text_fact(root, "/proc/meminfo")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return Host(
        name=text_fact(root, "/proc/sys/kernel/hostname"),
        os=system,
        machine=Known(platform.machine().lower(), "uname"),
        kernel=osrelease,
        distribution=release.get("PRETTY_NAME", release["NAME"]),
        distribution_id=release["ID"],
        distribution_version=release["VERSION_ID"],
        libc=_libc(root),
        cpu_model=_line(cpu, "model name", "Model", "Hardware"),
        cpu_flags=map_fact(_line(cpu, "flags", "Features"), lambda text: tuple(sorted(text.split()))),
        cpus=Known(cpus, "sched_getaffinity") if cpus else Unknown("sched_getaffinity is Linux's"),
        cpu_quota=cpu_quota(root),
        memory=_in_bytes(_line(memory, "MemTotal")),
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


def variables(environ: Mapping[str, str] | None = None) -> Fact[dict[str, str]]:
    """The variables that matter to TensorFlow and are set (an empty value is one too), by name."""
    environ = os.environ if environ is None else environ
    found = {name: environ[name][:LONGEST] for name in sorted(environ) if matters(name)}
    return Known(found, "environment")


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
    paths = ("/etc/os-release", "/usr/lib/os-release")
    path = next((one for one in paths if text_in(root, one)), paths[-1])
    text = text_fact(root, path)
    pairs = (line.partition("=") for line in value_or(text, "").splitlines())
    values: dict[str, Fact[str]] = {key: Known(value.strip("\"' "), path) for key, equals, value in pairs if equals}
    for key in ("NAME", "ID", "VERSION_ID"):
        values.setdefault(key, text if isinstance(text, Unknown) else Unknown(f"{path} has no {key}"))
    return values


def _libc(root: str) -> Fact[str]:
    name, version = platform.libc_ver()
    if root == "/" and name == "glibc":
        return Known(f"{name} {version}", "confstr(CS_GNU_LIBC_VERSION)")
    musl = next((name for name in names_in(below(root, "/lib")) if name.startswith("ld-musl-")), None)
    return Known("musl", f"/lib/{musl}") if musl else Unknown("neither glibc's confstr nor musl's loader in /lib")


def _line(text: Fact[str], *keys: str) -> Fact[str]:
    """What stands behind the first of these keys in a file of /proc."""
    if isinstance(text, Unknown):
        return text
    for key in keys:
        if found := re.search(rf"^{key}\s*:[ \t]*(.*\S)", text.value, re.MULTILINE):
            return Known(found[1], text.source)
    return Unknown(f"{text.source} has no line {' or '.join(keys)}")


def _in_bytes(size: Fact[str]) -> Fact[int]:
    number = size.value.removesuffix(" kB") if isinstance(size, Known) else ""
    if isinstance(size, Known) and not (number.isascii() and number.isdecimal()):
        return Unknown(f"{size.source} has no number where MemTotal stands")
    return map_fact(size, lambda _: int(number) * 1024)


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
    except OSError as error:
        return Unknown(why(error, SECURE_BOOT))
    return Known(data[4] == 1, SECURE_BOOT) if len(data) == 5 else Unknown(f"{SECURE_BOOT} has {len(data)} bytes")


# in the order of how much they say; the first that is there counts
CONTAINER_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": "kubernetes",
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "apptainer",
}
CONTAINER_MARKS = {"/.singularity.d": "apptainer", "/run/.containerenv": "podman", "/.dockerenv": "docker"}
CONTAINER_MANAGER = "/run/systemd/container"  # holds "lxc", "systemd-nspawn"
CONTAINER_CGROUPS = {"kubepods": "kubernetes", "docker": "docker", "libpod": "podman", "lxc": "lxc"}


def container(root: str, environ: Mapping[str, str]) -> Fact[str]:
    """The kind of container that this process runs in, or "none"."""
    found = [(kind, variable) for variable, kind in CONTAINER_VARIABLES.items() if environ.get(variable)]
    found += [(kind, path) for path, kind in CONTAINER_MARKS.items() if os.path.exists(below(root, path))]
    if manager := text_in(root, CONTAINER_MANAGER).strip():
        found.append((manager, CONTAINER_MANAGER))
    if environ.get("container"):
        found.append((environ["container"], "the variable `container`"))
    groups = text_fact(root, "/proc/1/cgroup")
    found += [(kind, "/proc/1/cgroup") for word, kind in CONTAINER_CGROUPS.items() if word in value_or(groups, "")]
    if not found and isinstance(groups, Known):
        return Known("none", "no mark of a container: environment, /.dockerenv, /run, /proc/1/cgroup")
    return Known(*found[0]) if found else groups


# ------------------------------------------------------------------------------------------------------------ cgroups
#
# Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max, memory.max),
# admin-guide/cgroup-v1/memory.rst (memory.limit_in_bytes) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
# A limit may be set on the process's own group or on any above it: the smallest counts.

MOUNT = "/sys/fs/cgroup"
OOM_COUNTERS = ("memory.events", "memory.oom_control")
VMSTAT = "/proc/vmstat"
UNLIMITED_V1 = 1 << 60  # version 1 writes the largest long, rounded to pages, for "no limit"


def cpu_quota(root: str) -> Fact[float]:
    """CPUs' worth of time that the groups allow; unknown("no limit") without a limit."""

    def quotient(numbers: list[int | None]) -> float | None:
        quota, period = numbers if len(numbers) == 2 else (None, None)
        return quota / period if quota is not None and period else None

    return _smallest(root, "cpu", ("cpu.max", "cpu.cfs_quota_us cpu.cfs_period_us"), quotient)


def memory_limit(root: str) -> Fact[int]:
    """Bytes that the groups allow; unknown("no limit") without a limit."""

    def size(numbers: list[int | None]) -> int | None:
        limit = numbers[0] if numbers else None
        return limit if limit is not None and limit < UNLIMITED_V1 else None

    return _smallest(root, "memory", ("memory.max", "memory.limit_in_bytes"), size)


def _smallest(
    root: str, controller: str, files: tuple[str, ...], value: Callable[[list[int | None]], T | None]
) -> Fact[T]:
    """The smallest limit that `value` finds among the numbers in `files`, those of one version separated by a space.

    None stands for what is no number of 64 bits, as "max".
    """
    found: list[tuple[T, str]] = []
    seen = False
    for folder, names in itertools.product(_groups(root, controller), files):
        words = [word for name in names.split() for word in text_in(root, f"{folder}/{name}").split()]
        seen = seen or bool(words)  # else not in this version, or not at this level
        numbers = [int(word) if word.isdecimal() and len(word) < 20 else None for word in words]
        if (limit := value(numbers)) is not None:
            found.append((limit, f"{folder}/{names.split()[0]}"))
    if not found:
        return Unknown("no limit") if seen else Unknown(f"no control group files below {MOUNT}")
    return Known(*min(found))


def _groups(root: str, controller: str) -> Iterator[str]:
    """Folders of this process's groups for `controller`, innermost first, up to the mount.

    In a container the path of /proc/self/cgroup may be the host's, which the mount does not show;
    its parents, up to the mount itself, still lead to the container's own limits.
    """
    lines = text_in(root, "/proc/self/cgroup").splitlines() or ["0::/", f"1:{controller}:/"]
    for _, controllers, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if not controllers:
            mounts = (MOUNT, f"{MOUNT}/unified")
        elif controller in controllers.split(","):
            mounts = (f"{MOUNT}/{controllers}", f"{MOUNT}/{controller}")
        else:
            continue
        above = map(str, PurePosixPath(group).parents)
        for mount, folder in itertools.product(dict.fromkeys(mounts), (group, *above)):
            yield (mount + folder).rstrip("/")


def oom_kills(root: str = "/") -> dict[str, int]:
    """How often the kernel's out-of-memory killer has struck, by the file that counts; never raises."""
    groups = (f"{folder}/{name}" for folder in _groups(root, "memory") for name in OOM_COUNTERS)
    counts = (
        (path, re.search(r"^oom_kill (\d{1,19})$", text_in(root, path), re.MULTILINE)) for path in (*groups, VMSTAT)
    )
    return {path: int(count[1]) for path, count in counts if count}


def explain_kill(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Say what a SIGKILL that came between these two readings of :func:`oom_kills` probably was."""
    for path, number in after.items():
        if number > before.get(path, number):
            probably = "probably " if path == VMSTAT else ""
            return f"{probably}killed by the kernel's OOM killer ({path}: oom_kill {before[path]} -> {number})"
    if not after:
        return "killed from outside, perhaps by the kernel's OOM killer: see dmesg"
    return "killed from outside, and not by the kernel's OOM killer, whose counters did not move"


# ------------------------------------------------------------------------------------------------------------- limits


def address_space_limit() -> Fact[Limit]:
    """RLIMIT_AS of this process."""
    if sys.platform == "win32":
        return Unknown("Windows has no RLIMIT_AS")
    import resource

    # RLIM_INFINITY is -1 on Linux, and nearly 2**63 on macOS
    limits = (number if 0 <= number < 2**62 else None for number in resource.getrlimit(resource.RLIMIT_AS))
    return Known(Limit(*limits), "getrlimit(RLIMIT_AS)")


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
            about = os.statvfs(folder)
            error = errno.EROFS if about.f_flag & os.ST_RDONLY else errno.EACCES
            problem = None if os.access(folder, os.W_OK | os.X_OK) else os.strerror(error)
            return Known(TemporaryFolder(path, via, problem, about.f_frsize * about.f_bavail), f"access({path})")
    return Known(TemporaryFolder("/tmp", "default", os.strerror(errno.ENOENT)), "access(/tmp)")


# ---------------------------------------------------------------------------------------------------------------- pci

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = "0x03"  # PCI base class: VGA (0300), 3D (0302) and other display controllers
TEGRA = "/etc/nv_tegra_release"


def gpus(root: str, *, wsl: bool) -> Fact[tuple[PciGpu, ...]]:
    """NVIDIA's display controllers in bus order; unknown where a GPU would not be on the bus (WSL2, Jetson)."""
    addresses = listed(root, DEVICES)
    if isinstance(addresses, Unknown):
        return addresses
    found = [
        address
        for address in addresses.value
        if text_in(root, f"{DEVICES}/{address}/vendor").strip() == NVIDIA
        and text_in(root, f"{DEVICES}/{address}/class").startswith(DISPLAY)
    ]
    if not found and wsl:
        return Unknown("WSL2 passes GPUs through /dev/dxg, not over the PCI bus")
    if not found and (text_in(root, TEGRA) or "tegra" in text_in(root, "/sys/devices/soc0/family").lower()):
        return Unknown("the GPU of a Tegra (Jetson) is not on the PCI bus")
    return Known(tuple(_gpu(root, address) for address in found), DEVICES)


def _gpu(root: str, address: str) -> PciGpu:
    number = text_in(root, f"{DEVICES}/{address}/device").strip().removeprefix("0x")
    try:
        driver = os.path.basename(os.readlink(below(root, f"{DEVICES}/{address}/driver")))
    except OSError:  # no driver is bound
        driver = None
    return PciGpu(address=address, device_id=f"10de:{number}", driver=driver)
