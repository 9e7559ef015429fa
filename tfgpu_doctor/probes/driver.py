"""The NVIDIA driver and its GPUs, asked in children under one deadline.

A dead driver blocks its callers in the kernel, so NVML, CUDA and nvidia-smi are each asked in a process of
its own, side by side; what does not answer in time is killed, named, and what it printed before is kept.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfgpu_doctor.parsers import nvidia_smi
from tfgpu_doctor.probes import gpus, programs
from tfgpu_doctor.probes.driver_children import Probe, Source, answer, init_result, start_child
from tfgpu_doctor.probes.files import below, module_loaded, read_text, text_fact, why
from tfgpu_doctor.probes.loader import MACHINES, Hit, LdSo, below_once, read_cache, split_library_path
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.probes.systems.system import InstalledDriver
from tfgpu_doctor.records.facts import Driver, Fact, Gpu, Known, LibraryFile, PeerLink, SmiResult, Unknown, map_fact

LIBCUDA, LIBNVIDIA_ML = "libcuda.so.1", "libnvidia-ml.so.1"
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
OUTPUT_KEPT = 2000  # characters of nvidia-smi's words


@dataclass(frozen=True)
class DriverFacts:
    """What the driver is and what it knows."""

    driver: Driver
    gpus: Fact[tuple[Gpu, ...]]
    peers: Fact[tuple[PeerLink, ...]]


@dataclass(frozen=True)
class _Asked:
    """The children, or why one was not started."""

    nvml: Source
    cuda: Source
    smi: Source
    end: float  # monotonic time of the one deadline
    environ: Mapping[str, str]


def examine(deadline: float = 5.0, root: str = "/", environ: Mapping[str, str] | None = None) -> DriverFacts:
    """Ask everything about the driver within `deadline` seconds; nothing that was started stays running.

    `root` is where /proc, /sys, /dev and library folders are looked for, those of LD_LIBRARY_PATH in `environ`, too.
    """
    environ = os.environ if environ is None else environ
    end = time.monotonic() + deadline
    program = find_nvidia_smi(environ, root)
    smi = Probe("nvidia-smi", [program], environ, end) if program else Unknown(programs.missing("nvidia-smi", environ))
    libraries = find((LIBCUDA, LIBNVIDIA_ML), environ, root)
    asked = _Asked(
        nvml=_ask("nvml_child", LIBNVIDIA_ML, libraries, environ, end),
        cuda=_ask("cuda_child", LIBCUDA, libraries, environ, end),
        smi=smi,
        end=end,
        environ=environ,
    )
    xid_events = _xid_events(root, asked)
    for probe in (asked.nvml, asked.cuda, asked.smi):
        if isinstance(probe, Probe):
            probe.wait()
    found = _gpus(asked)
    peers = _peers(asked, found)
    return DriverFacts(_driver(root, libraries, asked, xid_events), found, peers)


def _ask(
    module: str,
    soname: str,
    libraries: Mapping[str, Fact[tuple[LibraryFile, ...]]],
    environ: Mapping[str, str],
    end: float,
) -> Source:
    """Start a child when the loader has anything to give it."""
    files = libraries[soname]
    if isinstance(files, Unknown):
        return files
    if not reachable(files):
        system = here.other()
        name = system.library_name(soname) if system else soname
        return Unknown(f"{name} is not on the loader path ({files.source})")
    return start_child(module, environ, end)


def find_nvidia_smi(environ: Mapping[str, str], root: str) -> str | None:
    """Path of nvidia-smi: on PATH, or where WSL2 and Windows keep it."""
    if found := programs.find("nvidia-smi", environ):
        return found
    system = here.other(root)
    places = [below(system.root, path) for path in system.smi_places(environ)] if system else [below(root, WSL_SMI)]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def _driver(
    root: str,
    libraries: Mapping[str, Fact[tuple[LibraryFile, ...]]],
    asked: _Asked,
    xid_events: Fact[tuple[str, ...]],
) -> Driver:
    smi = _smi_result(asked.smi)
    system = here.other(root)
    installed = system.driver() if system else installed_driver(root)
    return Driver(
        version=_best(answer(asked.nvml, "driver_version"), installed.version, _banner(smi, "driver_version")),
        cuda_supported=_best(
            map_fact(answer(asked.cuda, "version"), cuda_version),
            map_fact(answer(asked.nvml, "cuda_version"), cuda_version),
            _banner(smi, "cuda_version"),
        ),
        kernel_module=installed.module,
        kernel_module_loaded=installed.loaded,
        kernel_module_kind=installed.kind,
        kernel_module_on_disk=installed.on_disk,
        device_nodes=installed.device_nodes,
        libcuda=libraries[LIBCUDA],
        libnvidia_ml=libraries[LIBNVIDIA_ML],
        nvml_init=init_result(asked.nvml),
        cuda_init=init_result(asked.cuda),
        cuda_device_count=answer(asked.cuda, "count"),
        nvidia_smi=smi,
        unresponsive=_unresponsive(asked),
        xid_events=xid_events,
    )


def cuda_version(number: int) -> str:
    """CUDA's version number as people write it.

    >>> cuda_version(12020), cuda_version(11080)
    ('12.2', '11.8')
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def _best(*facts: Fact[str]) -> Fact[str]:
    """The first known fact, else the reasons of all."""
    reasons = dict.fromkeys(fact.reason for fact in facts if isinstance(fact, Unknown))
    return next((fact for fact in facts if isinstance(fact, Known)), Unknown("; ".join(reasons)))


def _smi_result(smi: Source) -> Fact[SmiResult]:
    answer = _smi_answer(smi)
    if isinstance(answer, Unknown):
        return answer
    exit_code, text = answer.value
    seen = nvidia_smi.parse(text)
    result = SmiResult(
        exit_code=exit_code,
        output=text[:OUTPUT_KEPT],
        driver_version=seen.driver_version,
        cuda_version=seen.cuda_version,
    )
    return Known(result, answer.source)


def _smi_answer(smi: Source) -> Fact[tuple[int, str]]:
    """Exit code and all that nvidia-smi wrote."""
    if isinstance(smi, Unknown):
        return smi
    completed = smi.completed
    if completed is None or smi.hung or completed.returncode is None:
        return Unknown(smi.why_no_answer())
    return Known((completed.returncode, completed.stdout + completed.stderr), smi.argv[0])


def _banner(smi: Fact[SmiResult], field: str) -> Fact[str]:
    if isinstance(smi, Unknown):
        return smi
    value = getattr(smi.value, field)
    return Known(value, smi.source) if value else Unknown(f"{smi.source} shows no {field.replace('_', ' ')}")


def _unresponsive(asked: _Asked) -> Fact[tuple[str, ...]]:
    probes = [probe for probe in (asked.nvml, asked.cuda, asked.smi) if isinstance(probe, Probe)]
    source = (
        f"asked with one deadline: {', '.join(probe.name for probe in probes)}" if probes else "there is nothing to ask"
    )
    return Known(tuple(probe.last_call() for probe in probes if probe.hung), source)


def _gpus(asked: _Asked) -> Fact[tuple[Gpu, ...]]:
    """The GPUs by NVML, else by nvidia-smi, else by CUDA."""
    count = answer(asked.nvml, "count")
    if isinstance(count, Known) and isinstance(asked.nvml, Probe):
        found = gpus.from_nvml(asked.nvml.lines(), count.source)
        if isinstance(asked.cuda, Probe):
            found = gpus.with_cuda(found, asked.cuda.lines(), "cuDeviceGetAttribute")
        return Known(found, count.source)
    by_smi = _gpus_by_smi(asked)
    if isinstance(by_smi, Known):
        return by_smi
    by_cuda = answer(asked.cuda, "count")
    if isinstance(by_cuda, Known) and isinstance(asked.cuda, Probe):
        return Known(gpus.from_cuda(asked.cuda.lines(), by_cuda.source), by_cuda.source)
    reasons = (fact.reason for fact in (count, by_smi, by_cuda) if isinstance(fact, Unknown))
    return Unknown("; ".join(dict.fromkeys(reasons)))


def _gpus_by_smi(asked: _Asked) -> Fact[tuple[Gpu, ...]]:
    """The GPUs by nvidia-smi: its CSV says more than its table, but older drivers lack some columns."""
    answer = _smi_answer(asked.smi)
    if isinstance(answer, Unknown):
        return answer
    (exit_code, text), program = answer.value, answer.source
    if reasons := nvidia_smi.lost_gpus(text):
        return Known(gpus.lost_gpus(reasons, program), program)
    seen = nvidia_smi.parse(text)
    if (seen.failure or "").startswith("No devices were found"):
        return Known((), program)
    if exit_code or not seen.gpus:
        return Unknown(f"{program}: {seen.failure or f'exit code {exit_code}, no table'}")
    query = Probe("nvidia-smi --query-gpu", [program, *nvidia_smi.QUERY], asked.environ, asked.end)
    query.wait()
    rich = nvidia_smi.parse_csv(query.completed.stdout) if query.completed and not query.completed.returncode else ()
    return Known(rich or seen.gpus, program)


def _peers(asked: _Asked, found: Fact[tuple[Gpu, ...]]) -> Fact[tuple[PeerLink, ...]]:
    count = answer(asked.nvml, "count")
    if isinstance(found, Unknown) or isinstance(count, Unknown) or isinstance(asked.nvml, Unknown):
        return count if isinstance(count, Unknown) else Unknown("no GPU is known")
    links = gpus.peers(asked.nvml.lines())
    if asked.nvml.hung and not links:
        return Unknown(asked.nvml.why_no_answer())
    return Known(links, "nvmlDeviceGetTopologyCommonAncestor")


def _xid_events(root: str, asked: _Asked) -> Fact[tuple[str, ...]]:
    """Xid lines of the kernel's log, or of dmesg where the log itself may not be read."""
    if system := here.other(root):
        return Unknown(f"{system.title} has no kernel log with Xid events")
    try:
        return Known(xid_events(read_kernel_log(root)), KMSG)
    except OSError as error:
        refused = Unknown(why(error, KMSG))
    program = programs.find("dmesg", asked.environ) if root == "/" else None
    if not program:
        return refused
    log = Probe("dmesg", [program], asked.environ, asked.end)
    log.wait()
    if log.completed is None or log.completed.returncode != 0:
        return Unknown(f"{refused.reason}; {log.why_no_answer()}")
    return Known(xid_events(log.completed.stdout), program)


# --------------------------------------------------------------------------------------------------- driver libraries
#
# Every libcuda.so.1 and libnvidia-ml.so.1 in the loader's reach, and the one that it takes.

OUT_OF_REACH = ("/usr/lib/wsl/lib", "/run/opengl-driver/lib")  # WSL2, NixOS: in reach only when configured
NOT_REACHED = "not on the loader path"
STUB = "stub of the CUDA toolkit, not a driver"
_DRIVER_VERSION = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")  # WSL's libcuda.so.1.1 tells no version


def find(sonames: tuple[str, ...], environ: Mapping[str, str], root: str) -> dict[str, Fact[tuple[LibraryFile, ...]]]:
    """For each soname the files that carry it, the loader's choice first; a fake `root` is taken for a Linux."""
    if system := here.other(root):
        return {soname: system.driver_files(soname, environ) for soname in sonames}
    linker = LdSo(
        machine=MACHINES.get(platform.machine().lower(), "EM_X86_64"),
        library_path=split_library_path(environ),
        cache=read_cache(root),
        root=root,
    )
    return {soname: _linux(soname, linker, root) for soname in sonames}


def reachable(files: Fact[tuple[LibraryFile, ...]]) -> bool:
    """Whether the loader has a file to try at all."""
    return isinstance(files, Known) and any(file.problem != NOT_REACHED for file in files.value)


def _linux(soname: str, linker: LdSo, root: str) -> Fact[tuple[LibraryFile, ...]]:
    """The files in the loader's order, then those that it skips or does not come to.

    One that it does not skip but fails on (an empty file) stands first, although nothing is loaded.
    """
    hits = linker.open(soname, (), all_hits=True).hits
    hits.sort(key=lambda hit: hit.effect == "skipped")
    seen = {os.path.realpath(below_once(root, hit.path)) for hit in hits}
    far = [f"{folder}/{soname}" for folder in OUT_OF_REACH]
    hits += [
        Hit(path, "", NOT_REACHED)
        for path in far
        if os.path.exists(below(root, path)) and os.path.realpath(below(root, path)) not in seen
    ]
    return Known(tuple(_described(hit, linker, root) for hit in hits), "LD_LIBRARY_PATH, ldconfig -p, default folders")


def _described(hit: Hit, linker: LdSo, root: str) -> LibraryFile:
    real = os.path.realpath(below_once(root, hit.path))
    version = _DRIVER_VERSION.search(real)
    stub = f"{STUB}: {real}" if "/stubs/" in hit.path or "/stubs/" in real else None
    return LibraryFile(
        path=hit.path,
        version=version[1] if version else None,
        soname=getattr(linker.check(hit.path), "soname", None),
        problem=hit.problem or stub,
    )


# ------------------------------------------------------------------------------------------------------ kernel driver
#
# The kernel's half of the NVIDIA driver: module, device nodes, module files on disk, Xid events in its log.

PROC_VERSION = "/proc/driver/nvidia/version"
MODULES = "/lib/modules"
KMSG = "/dev/kmsg"
KMSG_RECORDS = 20_000  # more than the kernel's log buffer holds

# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 ..."
# "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (...)"
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.[\d.]*\d)")
# Debian renames the module it builds; the others are nvidia.ko
_MODULE_FILE = re.compile(r"nvidia(?:-current|-tesla(?:-\d+)?|-legacy-\w+)?\.ko(?:\.\w+)?")


def installed_driver(root: str) -> InstalledDriver:
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
