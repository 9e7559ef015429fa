"""The machine or container below Python: system, CPU, memory, and what the PCI bus says of NVIDIA GPUs.

Everything is read from files below a root, so that a test can show a machine as a folder; what other systems answer,
:mod:`tfgpu_doctor.probes.systems` says.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping

from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.probes import cgroups, limits, pci
from tfgpu_doctor.probes.files import below, exists_fact, module_loaded, text_fact, why
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.facts import Fact, Host, Known, Unknown, map_fact

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
        cpu_quota=cgroups.cpu_quota(root),
        memory=_memory(root),
        memory_limit=cgroups.memory_limit(root),
        address_space_limit=limits.address_space_limit(),
        temporary_folder=limits.temporary_folder(environ, root),
        shm=_shm(root),
        container=container(root, environ),
        pci_gpus=pci.gpus(root, wsl=isinstance(system, Known) and system.value.startswith("wsl")),
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
