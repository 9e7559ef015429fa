"""The NVIDIA driver and its GPUs, asked in children under one deadline.

A dead driver blocks its callers in the kernel, so NVML, CUDA and nvidia-smi are each asked in a process of
its own, side by side; what does not answer in time is killed, named, and what it printed before is kept.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.parsers import nvidia_smi
from tfgpu_doctor.parsers.nvidia_smi import bus_id
from tfgpu_doctor.probes import process, systems
from tfgpu_doctor.probes.driver_child import BOOT
from tfgpu_doctor.probes.files import below, listed, module_loaded, text_fact, text_in
from tfgpu_doctor.probes.loader import LdSo, below_once, read_cache
from tfgpu_doctor.records.facts import (
    CallResult,
    Candidate,
    Driver,
    Fact,
    Gpu,
    Known,
    LibraryFile,
    PeerLink,
    SmiResult,
    Unknown,
    map_fact,
    value_or,
)

LIBCUDA, LIBNVIDIA_ML = "libcuda.so.1", "libnvidia-ml.so.1"
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
OUTPUT_KEPT = 2000  # characters of nvidia-smi's words
ROOM = 4_000_000  # characters kept of a child's answers; 16 GPUs with all of their links take a tenth
PER_ANSWER = 200  # what the shortest one is counted as

T = TypeVar("T")


@dataclass(frozen=True)
class DriverFacts:
    """What the driver is and what it knows."""

    driver: Driver
    gpus: Fact[tuple[Gpu, ...]]
    peers: Fact[tuple[PeerLink, ...]]


class Probe:
    """A running child that is asked in a thread; :meth:`wait` returns at the deadline, whatever the kernel does."""

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str], end: float) -> None:
        """Start `argv`; `end` is the monotonic time at which it is killed."""
        self.name, self.argv, self.environ, self.end = name, argv, environ, end
        self.completed: process.Completed | None = None  # None: it could not even be killed
        self._lines: list[dict[str, Any]] = []
        self._room = ROOM
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        timeout = max(self.end - time.monotonic(), 0.0)
        self.completed = process.run(self.argv, timeout=timeout, env=self.environ, on_line=self._take)

    def _take(self, line: str) -> None:
        """Keep an answer; a library may write other things, and without end."""
        size = len(line) + PER_ANSWER
        if size <= self._room and line.startswith("{"):
            with suppress(ValueError, RecursionError):
                self._lines.append(json.loads(line))
                self._room -= size

    def wait(self) -> None:
        """Wait for its end, or until a moment after the deadline."""
        self._thread.join(max(self.end - time.monotonic(), 0.0) + process.DRAIN_GRACE)

    @property
    def hung(self) -> bool:
        """True if it had not ended at the deadline."""
        return self.completed is None or self.completed.timed_out

    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects among what it has written so far."""
        return list(self._lines)

    def last_call(self) -> str:
        """The call that it was in when it ended: "nvmlInit", "nvmlDeviceGetName of GPU 1"."""
        return next((str(line["begin"]) for line in reversed(self._lines) if "begin" in line), self.name)

    def why_no_answer(self) -> str:
        """Why the answer to its last call is missing."""
        if self.completed is None or self.completed.timed_out:
            return f"{self.last_call()} did not answer in time"
        if self.completed.error:
            return f"cannot start {self.argv[0]}: {self.completed.error}"
        if self.completed.signal_name:
            return f"{self.last_call()} killed its process with {self.completed.signal_name}"
        words = self.completed.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"{self.last_call()} ended with exit code {self.completed.returncode}: {words[0][:300]}"

    def init(self) -> Fact[CallResult]:
        """What nvmlInit or cuInit answered; a crash in it is an answer, too."""
        facts = self._facts()
        for key in ("nvml_init", "cuda_init"):
            if key in facts:
                return msgspec.convert(facts[key], Known[CallResult] | Unknown)
        completed = self.completed
        if completed is None or completed.timed_out or completed.returncode is None or not completed.signal_name:
            return Unknown(self.why_no_answer())
        library = next((line["library"] for line in self._lines if "library" in line), None)
        name, message = completed.signal_name, self.why_no_answer()
        crash = CallResult(code=completed.returncode, message=message, name=name, library=library)
        return Known(crash, f"{self.last_call()} ({library})" if library else self.last_call())

    def _facts(self) -> dict[str, Any]:
        lines = (line["facts"] for line in self._lines if "facts" in line and "gpu" not in line)
        return {key: fact for facts in lines for key, fact in facts.items()}

    def fact(self, key: str, kind: type[T]) -> Fact[T]:
        """What it reported of the whole driver under `key`, else why it did not."""
        if key in (facts := self._facts()):
            return msgspec.convert(facts[key], Known[kind] | Unknown)  # type: ignore[valid-type]
        init = self.init()
        if isinstance(init, Known) and init.value.code:
            return Unknown(f"{init.source}: {init.value.name}: {init.value.message}")
        return init if isinstance(init, Unknown) else Unknown(self.why_no_answer())

    def gpus(self) -> dict[int, dict[str, Any]]:
        """The facts of each GPU, as a report has them, by its index."""
        found: dict[int, dict[str, Any]] = {}
        for line in self.lines():
            if "gpu" in line:
                found.setdefault(line["gpu"], {}).update(line["facts"])
        return found


Source = Probe | Unknown  # a child that was asked, or why none was


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
    smi = Probe("nvidia-smi", [program], environ, end) if program else Unknown("nvidia-smi is not on PATH")
    libraries = find((LIBCUDA, LIBNVIDIA_ML), environ, root)
    asked = _Asked(
        nvml=_ask("nvml", LIBNVIDIA_ML, libraries, environ, end),
        cuda=_ask("cuda", LIBCUDA, libraries, environ, end),
        smi=smi,
        end=end,
        environ=environ,
    )
    xid_events = _xid_events(root, asked)
    for probe in (asked.nvml, asked.cuda, asked.smi):
        if isinstance(probe, Probe):
            probe.wait()
    return DriverFacts(_driver(root, libraries[LIBCUDA], asked, xid_events), _gpus(asked), _peers(asked))


def _ask(
    child: str,
    soname: str,
    libraries: Mapping[str, Fact[tuple[LibraryFile, ...]]],
    environ: Mapping[str, str],
    end: float,
) -> Source:
    """Start a child when the loader has anything to give it."""
    files = libraries[soname]
    if isinstance(files, Unknown):
        return files
    if all(file.problem == NOT_REACHED for file in files.value):
        name = systems.DLLS[soname] if systems.other() else soname
        return Unknown(f"{name} is not on the loader path ({files.source})")
    return start_child(child, environ, end)


def start_child(child: str, environ: Mapping[str, str], end: float) -> Source:
    """Start the child "nvml" or "cuda" in our own interpreter."""
    bindings = importlib.util.find_spec("pynvml")
    if not sys.executable or bindings is None or bindings.origin is None:
        return Unknown("no interpreter or no nvidia-ml-py to ask with")
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    argv = [sys.executable, "-I", "-S", "-c", BOOT, child, package, os.path.dirname(bindings.origin)]
    return Probe(child, argv, environ, end)


def _fact(source: Source, key: str, kind: type[T]) -> Fact[T]:
    return source if isinstance(source, Unknown) else source.fact(key, kind)


def find_nvidia_smi(environ: Mapping[str, str], root: str) -> str | None:
    """Path of nvidia-smi: on PATH, or where WSL2 and Windows keep it."""
    if found := systems.find("nvidia-smi", environ):
        return found
    system = systems.other(root)
    places = [below(system.root, path) for path in system.smi_places(environ)] if system else [below(root, WSL_SMI)]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def _driver(
    root: str, libcuda: Fact[tuple[LibraryFile, ...]], asked: _Asked, xid_events: Fact[tuple[str, ...]]
) -> Driver:
    answer = _smi_answer(asked.smi)
    smi = answer if isinstance(answer, Unknown) else Known(_smi_result(*answer.value), answer.source)
    system = systems.other(root)
    installed = system.driver() if system else installed_driver(root)
    probes = [probe for probe in (asked.nvml, asked.cuda, asked.smi) if isinstance(probe, Probe)]
    names = ", ".join(probe.name for probe in probes)
    return Driver(
        version=_best(_fact(asked.nvml, "version", str), installed.pop("version"), _banner(smi, "driver_version")),
        cuda_supported=_best(
            _fact(asked.cuda, "cuda_supported", str),
            _fact(asked.nvml, "cuda_supported", str),
            _banner(smi, "cuda_version"),
        ),
        **installed,
        libcuda=libcuda,
        nvml_init=asked.nvml if isinstance(asked.nvml, Unknown) else asked.nvml.init(),
        cuda_init=asked.cuda if isinstance(asked.cuda, Unknown) else asked.cuda.init(),
        cuda_device_count=_fact(asked.cuda, "count", int),
        nvidia_smi=smi,
        unresponsive=Known(
            tuple(probe.last_call() for probe in probes if probe.hung),
            f"asked with one deadline: {names}" if probes else "there is nothing to ask",
        ),
        xid_events=xid_events,
    )


def _best(*facts: Fact[str]) -> Fact[str]:
    """The first known fact, else the reasons of all."""
    reasons = dict.fromkeys(fact.reason for fact in facts if isinstance(fact, Unknown))
    return next((fact for fact in facts if isinstance(fact, Known)), Unknown("; ".join(reasons)))


def _smi_answer(smi: Source) -> Fact[tuple[int, str]]:
    """Exit code and all that nvidia-smi wrote."""
    if isinstance(smi, Unknown):
        return smi
    completed = smi.completed
    if completed is None or smi.hung or completed.returncode is None:
        return Unknown(smi.why_no_answer())
    return Known((completed.returncode, completed.stdout + completed.stderr), smi.argv[0])


def _smi_result(exit_code: int, text: str) -> SmiResult:
    seen = nvidia_smi.parse(text)
    return SmiResult(
        exit_code=exit_code,
        output=text[:OUTPUT_KEPT],
        driver_version=seen.driver_version,
        cuda_version=seen.cuda_version,
    )


def _banner(smi: Fact[SmiResult], field: str) -> Fact[str]:
    if isinstance(smi, Unknown):
        return smi
    value = getattr(smi.value, field)
    return Known(value, smi.source) if value else Unknown(f"{smi.source} shows no {field.replace('_', ' ')}")


# --------------------------------------------------------------------------------------------------------------- GPUs


def _gpus(asked: _Asked) -> Fact[tuple[Gpu, ...]]:
    """The GPUs by NVML, else by nvidia-smi, else by CUDA (as on a Jetson)."""
    count, by_cuda = _fact(asked.nvml, "count", int), _fact(asked.cuda, "count", int)
    devices = {} if isinstance(asked.cuda, Unknown) else asked.cuda.gpus()
    if isinstance(count, Known) and isinstance(asked.nvml, Probe):
        answers = asked.nvml.gpus()
        silent = Unknown("NVML did not answer")
        found = [_gpu(index, answers.get(index, {}), silent) for index in range(count.value)]
        at = {bus_id(facts["pci_bus_id"]["value"]): facts for facts in devices.values() if "pci_bus_id" in facts}
        return Known(tuple(_with_device(gpu, at.get(value_or(gpu.pci_bus_id, ""))) for gpu in found), count.source)
    by_smi = _gpus_by_smi(asked)
    if isinstance(by_smi, Known):
        return by_smi
    if isinstance(by_cuda, Known):
        silent = Unknown("CUDA does not tell")
        return Known(tuple(_gpu(index, facts, silent) for index, facts in devices.items()), by_cuda.source)
    reasons = (fact.reason for fact in (count, by_smi, by_cuda) if isinstance(fact, Unknown))
    return Unknown("; ".join(dict.fromkeys(reasons)))


def _gpu(index: int, facts: Mapping[str, Any], silent: Unknown) -> Gpu:
    """A GPU by what a child reported; what a hang cut off is `silent`, of a GPU that cannot be opened its fault."""
    fault = facts.get("fault")
    missing = msgspec.to_builtins(Unknown(fault["value"]) if fault and "name" not in facts else silent)
    every = {name: missing for name in Gpu.__struct_fields__ if name != "index"}
    none = msgspec.to_builtins(Unknown("none"))
    gpu = msgspec.convert({**every, "fault": none, **facts, "index": index}, Gpu)
    links = map_fact(
        gpu.nvlinks,
        lambda found: tuple(msgspec.structs.replace(one, remote=one.remote and bus_id(one.remote)) for one in found),
    )
    return msgspec.structs.replace(gpu, pci_bus_id=map_fact(gpu.pci_bus_id, bus_id), nvlinks=links)


def _with_device(gpu: Gpu, device: Mapping[str, Any] | None) -> Gpu:
    """Add what only CUDA tells, the number of multiprocessors.

    Those of a GPU in MIG mode are not known: CUDA would count the multiprocessors of one slice.
    """
    if device is None or "multiprocessors" not in device:
        return msgspec.structs.replace(gpu, multiprocessors=Unknown("CUDA does not list this GPU"))
    if value_or(gpu.mig_mode, False):
        return msgspec.structs.replace(gpu, multiprocessors=Unknown("MIG mode is on: CUDA sees slices"))
    by_cuda = _gpu(gpu.index, device, Unknown("CUDA does not tell"))
    capability = by_cuda.compute_capability if isinstance(gpu.compute_capability, Unknown) else gpu.compute_capability
    return msgspec.structs.replace(gpu, multiprocessors=by_cuda.multiprocessors, compute_capability=capability)


def _gpus_by_smi(asked: _Asked) -> Fact[tuple[Gpu, ...]]:
    """The GPUs by nvidia-smi: its CSV says more than its table, but older drivers lack some columns."""
    answer = _smi_answer(asked.smi)
    if isinstance(answer, Unknown):
        return answer
    (exit_code, text), program = answer.value, answer.source
    if reasons := nvidia_smi.lost_gpus(text):
        lost = enumerate(reasons.items())
        gpus = (Gpu(index=i, pci_bus_id=Known(bus, program), fault=Known(why, program)) for i, (bus, why) in lost)
        return Known(tuple(gpus), program)
    seen = nvidia_smi.parse(text)
    if (seen.failure or "").startswith("No devices were found"):
        return Known((), program)
    if exit_code or not seen.gpus:
        return Unknown(f"{program}: {seen.failure or f'exit code {exit_code}, no table'}")
    query = Probe("nvidia-smi --query-gpu", [program, *nvidia_smi.QUERY], asked.environ, asked.end)
    query.wait()
    rich = nvidia_smi.parse_csv(query.completed.stdout) if query.completed and not query.completed.returncode else ()
    return Known(rich or seen.gpus, program)


def _peers(asked: _Asked) -> Fact[tuple[PeerLink, ...]]:
    count = _fact(asked.nvml, "count", int)
    if isinstance(count, Unknown) or isinstance(asked.nvml, Unknown):
        return count if isinstance(count, Unknown) else Unknown("not asked")
    found = [line for line in asked.nvml.lines() if "pair" in line]
    links = tuple(PeerLink(a=line["pair"][0], b=line["pair"][1], topology=line["topology"]) for line in found)
    if asked.nvml.hung and not links:
        return Unknown(asked.nvml.why_no_answer())
    return Known(links, "nvmlDeviceGetTopologyCommonAncestor")


def _xid_events(root: str, asked: _Asked) -> Fact[tuple[str, ...]]:
    """Xid lines of the kernel's log, where dmesg may read it."""
    if system := systems.other(root):
        return Unknown(f"{system.title} has no kernel log with Xid events")
    program = systems.find("dmesg", asked.environ)
    if not program:
        return Unknown("dmesg is not on PATH")
    log = Probe("dmesg", [program], asked.environ, asked.end)
    log.wait()
    if log.completed is None or log.completed.returncode != 0:
        return Unknown(log.why_no_answer())
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
    if system := systems.other(root):
        return {soname: system.driver_files(soname, environ) for soname in sonames}
    cache = read_cache(root)
    linker = LdSo(environ, () if isinstance(cache, Unknown) else cache, root)
    return {soname: _linux(soname, linker, root) for soname in sonames}


def _linux(soname: str, linker: LdSo, root: str) -> Fact[tuple[LibraryFile, ...]]:
    """The files in the loader's order, then those that it skips or does not come to.

    One that it does not skip but fails on (an empty file) stands first, although nothing is loaded.
    """
    hits = linker.open(soname, (), all_hits=True).hits
    hits.sort(key=lambda hit: hit.effect == "skipped")
    seen = {os.path.realpath(below_once(root, hit.path)) for hit in hits}
    far = [f"{folder}/{soname}" for folder in OUT_OF_REACH]
    hits += [
        Candidate(path=path, via="", reachable=False, problem=NOT_REACHED)
        for path in far
        if os.path.exists(below(root, path)) and os.path.realpath(below(root, path)) not in seen
    ]
    return Known(tuple(_described(hit, linker, root) for hit in hits), "LD_LIBRARY_PATH, ldconfig -p, default folders")


def _described(hit: Candidate, linker: LdSo, root: str) -> LibraryFile:
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

# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 ..."
# "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (...)"
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.[\d.]*\d)")
# Debian renames the module it builds; the others are nvidia.ko
_MODULE_FILE = re.compile(r"nvidia(?:-current|-tesla(?:-\d+)?|-legacy-\w+)?\.ko(?:\.\w+)?")


def installed_driver(root: str) -> dict[str, Fact[Any]]:
    """The driver by the files of the kernel, as fields of Driver."""
    text = text_fact(root, PROC_VERSION)
    module: Fact[str] = text_fact(root, "/sys/module/nvidia/version")
    kind: Fact[str] = Unknown(f"not loaded: {getattr(text, 'reason', '')}")
    loaded = module_loaded(root, "nvidia")
    if isinstance(text, Known):  # also where a container hides the list of modules
        found = _VERSION.search(text.value)
        module = Known(found[1], PROC_VERSION) if found else Unknown(f"{PROC_VERSION} names no version")
        kind = Known("open" if "Open Kernel Module" in text.value else "proprietary", PROC_VERSION)
        loaded = Known(True, PROC_VERSION)
    elif isinstance(module, Unknown):
        module = Unknown(f"not loaded: {text.reason}")
    nodes = listed(root, "/dev")
    kernels = listed(root, MODULES)
    return {
        "version": module,
        "kernel_module": module,
        "kernel_module_loaded": loaded,
        "kernel_module_kind": kind,
        "kernel_module_on_disk": kernels
        if isinstance(kernels, Unknown)
        else Known(tuple(_modules(root, kernels.value)), f"{MODULES}/*/modules.dep"),
        "device_nodes": map_fact(nodes, lambda names: tuple(f"/dev/{one}" for one in names if one[:6] == "nvidia")),
    }


def _modules(root: str, kernels: list[str]) -> Iterator[str]:
    """nvidia.ko files that depmod knows, of every installed kernel."""
    for folder in (f"{MODULES}/{kernel}" for kernel in kernels):
        dependencies = text_in(root, f"{folder}/modules.dep")  # none of headers, or a kernel that is half removed
        paths = (line.partition(":")[0] for line in dependencies.splitlines())
        yield from (f"{folder}/{path}" for path in paths if _MODULE_FILE.fullmatch(path.rpartition("/")[2]))


def xid_events(log: str) -> tuple[str, ...]:
    """Xid lines of a kernel log, with what dmesg puts before them removed.

    >>> xid_events("[ 4107.3] NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.")
    ('NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.',)
    """
    return tuple(found[0].strip() for found in re.finditer(r"NVRM: Xid .*", log))
