"""The kernel's half of the NVIDIA driver: module, device nodes, module files on disk, Xid events in its log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfgpu_doctor.probes.files import below, module_loaded, read_text, text_fact, why
from tfgpu_doctor.probes.systems.system import InstalledDriver
from tfgpu_doctor.records.facts import Fact, Known, Unknown

PROC_VERSION = "/proc/driver/nvidia/version"
MODULES = "/lib/modules"
KMSG = "/dev/kmsg"
KMSG_RECORDS = 20_000  # more than the kernel's log buffer holds

# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 ..."
# "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (...)"
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.[\d.]*\d)")
# Debian renames the module it builds; the others are nvidia.ko
_MODULE_FILE = re.compile(r"nvidia(?:-current|-tesla(?:-\d+)?|-legacy-\w+)?\.ko(?:\.\w+)?")


def installed(root: str) -> InstalledDriver:
    """The driver by the files of the kernel."""
    module = version(root)
    return InstalledDriver(module, module, loaded(root), kind(root), on_disk(root), device_nodes(root))


def version(root: str) -> Fact[str]:
    """Version of the loaded module; unknown("not loaded: ...") without one."""
    text = text_fact(root, PROC_VERSION)
    if isinstance(text, Known):
        found = _VERSION.search(text.value)
        return Known(found[1], PROC_VERSION) if found else Unknown(f"{PROC_VERSION} names no version")
    sysfs = text_fact(root, "/sys/module/nvidia/version")
    return sysfs if isinstance(sysfs, Known) else Unknown(f"not loaded: {text.reason}")


def loaded(root: str) -> Fact[bool]:
    """Whether the module is loaded, also where a container hides the list of modules."""
    if os.path.exists(below(root, PROC_VERSION)):
        return Known(True, PROC_VERSION)
    return module_loaded(root, "nvidia")


def kind(root: str) -> Fact[str]:
    """ "open" or "proprietary"."""
    text = text_fact(root, PROC_VERSION)
    if isinstance(text, Unknown):
        return Unknown(f"not loaded: {text.reason}")
    return Known("open" if "Open Kernel Module" in text.value else "proprietary", PROC_VERSION)


def on_disk(root: str) -> Fact[tuple[str, ...]]:
    """nvidia.ko files that depmod knows, of every installed kernel."""
    try:
        kernels = sorted(os.listdir(below(root, MODULES)))
    except OSError as error:
        return Unknown(why(error, MODULES))
    return Known(tuple(path for kernel in kernels for path in _modules_of(root, kernel)), f"{MODULES}/*/modules.dep")


def _modules_of(root: str, kernel: str) -> Iterator[str]:
    try:
        dependencies = read_text(root, f"{MODULES}/{kernel}/modules.dep")
    except OSError:  # headers only, or a kernel that is half removed
        return
    for line in dependencies.splitlines():
        path = line.partition(":")[0]
        if _MODULE_FILE.fullmatch(path.rpartition("/")[2]):
            yield f"{MODULES}/{kernel}/{path}"


def device_nodes(root: str) -> Fact[tuple[str, ...]]:
    """The driver's nodes in /dev: of each GPU, nvidiactl, nvidia-uvm, nvidia-modeset, capabilities."""
    try:
        names = sorted(os.listdir(below(root, "/dev")))
    except OSError as error:
        return Unknown(why(error, "/dev"))
    return Known(tuple(f"/dev/{name}" for name in names if name.startswith("nvidia")), "/dev")


def xid_events(log: str) -> tuple[str, ...]:
    """Xid lines of a kernel log, with what /dev/kmsg or dmesg put before them removed.

    >>> xid_events("3,813,4107,-;NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.")
    ('NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.',)
    """
    return tuple(found[0].strip() for found in re.finditer(r"NVRM: Xid .*", log))


def read_kernel_log(root: str) -> str:
    """The kernel's log buffer, which has one record a read.

    Raises OSError: it may not be read without privilege, or a container hides it.
    """
    records: list[bytes] = []
    handle = os.open(below(root, KMSG), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        while len(records) < KMSG_RECORDS:
            try:
                record = os.read(handle, 65536)
            except BlockingIOError:  # the end of the buffer
                break
            except BrokenPipeError:  # the oldest record was overwritten under us
                continue
            if not record:  # the end of a plain file
                break
            records.append(record)
    finally:
        os.close(handle)
    return b"".join(records).decode("utf-8", "replace")
