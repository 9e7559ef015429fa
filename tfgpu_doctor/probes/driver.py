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
from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.facts.facts import (
    CallResult,
    Driver,
    Fact,
    Facts,
    Gpu,
    Known,
    LibraryFile,
    SmiResult,
    Unknown,
    map_fact,
    value_or,
)
from tfgpu_doctor.parsers import nvidia_smi
from tfgpu_doctor.parsers.nvidia_smi import bus_id
from tfgpu_doctor.probes import process, systems
from tfgpu_doctor.probes.driver_child import BOOT
from tfgpu_doctor.probes.files import below, listed, module_loaded, text_fact, text_in
from tfgpu_doctor.probes.loader import LdSo, below_once, read_cache

LIBCUDA, LIBNVIDIA_ML = "libcuda.so.1", "libnvidia-ml.so.1"
WSL_FOLDER = "/usr/lib/wsl/lib"
OUTPUT_KEPT = 2000  # characters of nvidia-smi's words
ROOM = 4_000_000  # characters kept of a child's answers; 16 GPUs with all of their links take a tenth
PER_ANSWER = 200  # what the shortest one is counted as

T = TypeVar("T")


class Probe:
    """A child that is asked in a thread; :meth:`wait` returns at the deadline, whatever the kernel does."""

    def __init__(self, name: str, argv: Sequence[str] | Unknown, environ: Mapping[str, str], end: float) -> None:
        """Start `argv`, or take why there is nothing to start; `end` is the monotonic time at which it is killed."""
        self.name, self.argv, self.environ, self.end = name, argv, environ, end
        command = () if isinstance(argv, Unknown) else tuple(argv)
        # so it stays when it cannot even be killed
        self.completed = process.Completed(command, None, "", "", 0.0, timed_out=bool(command))
        self.lines: list[dict[str, Any]] = []  # the JSON objects among what it has written so far
        self._room = ROOM
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        if not isinstance(self.argv, Unknown):
            timeout = max(self.end - time.monotonic(), 0.0)
            self.completed = process.run(self.argv, timeout=timeout, env=self.environ, on_line=self._take)

    def _take(self, line: str) -> None:
        """Keep an answer; a library may write other things, and without end."""
        size = len(line) + PER_ANSWER
        if size <= self._room and line.startswith("{"):
            with suppress(ValueError, RecursionError):
                self.lines.append(json.loads(line))
                self._room -= size

    def wait(self) -> Probe:
        """Wait for its end, or until a moment after the deadline."""
        self._thread.join(max(self.end - time.monotonic(), 0.0) + process.DRAIN_GRACE)
        return self

    def last_call(self) -> str:
        """The call that it was in when it ended: "nvmlInit", "nvmlDeviceGetName of GPU 1"."""
        return next((str(line["begin"]) for line in reversed(self.lines) if "begin" in line), self.name)

    def why_no_answer(self) -> str:
        """Why the answer to its last call is missing."""
        if isinstance(self.argv, Unknown):
            return self.argv.reason
        if self.completed.timed_out:
            return f"{self.last_call()} did not answer in time"
        if self.completed.error:
            return f"cannot start {self.argv[0]}: {self.completed.error}"
        if self.completed.signal_name:
            return f"{self.last_call()} killed its process with {self.completed.signal_name}"
        words = (self.completed.stderr.strip() or "no message").splitlines()[-1]
        return f"{self.last_call()} ended with exit code {self.completed.returncode}: {words[:300]}"

    def init(self) -> Fact[CallResult]:
        """What nvmlInit or cuInit answered; a crash in it is an answer, too."""
        facts = self.facts()
        for key in ("nvml_init", "cuda_init"):
            if key in facts:
                return msgspec.convert(facts[key], Known[CallResult] | Unknown)
        message, code, name = self.why_no_answer(), self.completed.returncode, self.completed.signal_name
        if self.completed.timed_out or code is None or not name:
            return Unknown(message)
        library = next((line["library"] for line in self.lines if "library" in line), None)
        crash = CallResult(code=code, message=message, name=name, library=library)
        return Known(crash, f"{self.last_call()} ({library})" if library else self.last_call())

    def facts(self, gpu: int | None = None) -> dict[str, Any]:
        """What it reported of the whole driver, or of a GPU, as it stands in a report."""
        lines = (line["facts"] for line in self.lines if "facts" in line and line.get("gpu") == gpu)
        return {key: fact for facts in lines for key, fact in facts.items()}

    def fact(self, key: str, kind: type[T]) -> Fact[T]:
        """What it reported of the whole driver under `key`, else why it did not."""
        if key in (facts := self.facts()):
            return msgspec.convert(facts[key], Known[kind] | Unknown)  # type: ignore[valid-type]
        init = self.init()
        if isinstance(init, Known) and init.value.code:
            return Unknown(f"{init.source}: {init.value.name}: {init.value.message}")
        return init if isinstance(init, Unknown) else Unknown(self.why_no_answer())

    def output(self) -> Fact[tuple[int, str]]:
        """Exit code and all that it wrote."""
        done = self.completed
        if done.timed_out or done.returncode is None:
            return Unknown(self.why_no_answer())
        return Known((done.returncode, done.stdout + done.stderr), done.argv[0])


def examine(deadline: float = 5.0, root: str = "/", environ: Mapping[str, str] | None = None) -> Facts:
    """Ask everything about driver and GPUs within `deadline` seconds; nothing that was started stays running.

    `root` is where /proc, /sys, /dev and library folders are looked for, those of LD_LIBRARY_PATH in `environ`, too.
    """
    environ = os.environ if environ is None else environ
    end = time.monotonic() + deadline
    program = systems.find("nvidia-smi", environ, more=[below(root, WSL_FOLDER)])
    smi = Probe("nvidia-smi", [program] if program else Unknown("nvidia-smi is not on PATH"), environ, end)
    libraries = find((LIBCUDA, LIBNVIDIA_ML), environ, root)
    nvml = Probe("nvml", _command("nvml", LIBNVIDIA_ML, libraries[LIBNVIDIA_ML]), environ, end)
    cuda = Probe("cuda", _command("cuda", LIBCUDA, libraries[LIBCUDA]), environ, end)
    xid_events = _xid_events(root, environ, end)
    hung = tuple(one.last_call() for one in (nvml, cuda, smi) if one.wait().completed.timed_out)
    answer = smi.output()
    seen = map_fact(answer, _smi_result)
    system = systems.other(root)
    installed = system.driver() if system else installed_driver(root)
    facts = msgspec.structs.replace(
        installed,
        version=_best(nvml.fact("version", str), installed.version, _banner(seen, "driver_version")),
        cuda_supported=_best(
            cuda.fact("cuda_supported", str), nvml.fact("cuda_supported", str), _banner(seen, "cuda_version")
        ),
        libcuda=libraries[LIBCUDA],
        nvml_init=nvml.init(),
        cuda_init=cuda.init(),
        cuda_device_count=cuda.fact("count", int),
        nvidia_smi=seen,
        unresponsive=Known(hung, "NVML, CUDA and nvidia-smi, asked with one deadline"),
        xid_events=xid_events,
    )
    return Facts(driver=facts, gpus=_gpus(nvml, cuda, answer, environ, end))


def _command(child: str, soname: str, files: Fact[tuple[LibraryFile, ...]]) -> Sequence[str] | Unknown:
    if isinstance(files, Unknown):
        return files
    if all(file.problem == NOT_REACHED for file in files.value):
        name = systems.DLLS[soname] if systems.other() else soname
        return Unknown(f"{name} is not on the loader path ({files.source})")
    return child_command(child)


def child_command(child: str) -> Sequence[str] | Unknown:
    """What starts the child "nvml" or "cuda" in our own interpreter."""
    bindings = importlib.util.find_spec("pynvml")
    if not sys.executable or bindings is None or bindings.origin is None:
        return Unknown("no interpreter or no nvidia-ml-py to ask with")
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-I", "-S", "-c", BOOT, child, package, os.path.dirname(bindings.origin)]


def _best(*facts: Fact[str]) -> Fact[str]:
    """The first known fact, else the reasons of all."""
    reasons = dict.fromkeys(fact.reason for fact in facts if isinstance(fact, Unknown))
    return next((fact for fact in facts if isinstance(fact, Known)), Unknown("; ".join(reasons)))


def _smi_result(answer: tuple[int, str]) -> SmiResult:
    seen = nvidia_smi.parse(answer[1])
    return SmiResult(answer[0], answer[1][:OUTPUT_KEPT], seen.driver_version, seen.cuda_version)


def _banner(smi: Fact[SmiResult], field: str) -> Fact[str]:
    if isinstance(smi, Unknown):
        return smi
    value = getattr(smi.value, field)
    return Known(value, smi.source) if value else Unknown(f"{smi.source} shows no {field.replace('_', ' ')}")


# --------------------------------------------------------------------------------------------------------------- GPUs


def _gpus(
    nvml: Probe, cuda: Probe, smi: Fact[tuple[int, str]], environ: Mapping[str, str], end: float
) -> Fact[tuple[Gpu, ...]]:
    """The GPUs by NVML, else by nvidia-smi, else by CUDA (as on a Jetson)."""
    count, by_cuda = nvml.fact("count", int), cuda.fact("count", int)
    devices = [(index, facts) for index in range(value_or(by_cuda, 0)) if (facts := cuda.facts(index))]
    if isinstance(count, Known):
        silent = Unknown("NVML did not answer")
        found = [_gpu(index, nvml.facts(index), silent) for index in range(count.value)]
        at = {bus_id(facts["pci_bus_id"]["value"]): facts for _, facts in devices if "pci_bus_id" in facts}
        return Known(tuple(_with_device(gpu, at.get(value_or(gpu.pci_bus_id, ""))) for gpu in found), count.source)
    by_smi = _gpus_by_smi(smi, environ, end)
    if isinstance(by_smi, Known):
        return by_smi
    if isinstance(by_cuda, Known):
        silent = Unknown("CUDA does not tell")
        return Known(tuple(_gpu(index, facts, silent) for index, facts in devices), by_cuda.source)
    return Unknown("; ".join(dict.fromkeys(fact.reason for fact in (count, by_smi, by_cuda))))


def _gpu(index: int, facts: Mapping[str, Any], silent: Unknown) -> Gpu:
    """A GPU by what a child reported; what a hang cut off is `silent`, of a GPU that cannot be opened its fault."""
    fault = facts.get("fault")
    missing = msgspec.to_builtins(Unknown(fault["value"]) if fault and "name" not in facts else silent)
    every = {name: missing for name in Gpu.__struct_fields__ if name != "index"}
    none = msgspec.to_builtins(Unknown("none"))
    gpu = msgspec.convert({**every, "fault": none, **facts, "index": index}, Gpu)
    return msgspec.structs.replace(gpu, pci_bus_id=map_fact(gpu.pci_bus_id, bus_id))


def _with_device(gpu: Gpu, device: Mapping[str, Any] | None) -> Gpu:
    """Add what only CUDA tells, the number of multiprocessors.

    Those of a GPU in MIG mode are not known: CUDA would count the multiprocessors of one slice.
    """
    has_slices = value_or(gpu.mig_mode, False)
    silent = Unknown("MIG mode is on: CUDA sees slices" if has_slices else "CUDA does not list this GPU")
    by_cuda = _gpu(gpu.index, {} if has_slices or device is None else device, silent)
    capability = by_cuda.compute_capability if isinstance(gpu.compute_capability, Unknown) else gpu.compute_capability
    return msgspec.structs.replace(gpu, multiprocessors=by_cuda.multiprocessors, compute_capability=capability)


def _gpus_by_smi(answer: Fact[tuple[int, str]], environ: Mapping[str, str], end: float) -> Fact[tuple[Gpu, ...]]:
    """The GPUs by nvidia-smi: its CSV says more than its table, but older drivers lack some columns."""
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
    done = Probe("nvidia-smi --query-gpu", [program, *nvidia_smi.QUERY], environ, end).wait().completed
    return Known((done.returncode == 0 and nvidia_smi.parse_csv(done.stdout)) or seen.gpus, program)


def _xid_events(root: str, environ: Mapping[str, str], end: float) -> Fact[tuple[str, ...]]:
    if system := systems.other(root):
        return Unknown(f"{system.title} has no kernel log with Xid events")
    program = systems.find("dmesg", environ)
    log = Probe("dmesg", [program] if program else Unknown("dmesg is not on PATH"), environ, end).wait()
    if log.completed.returncode != 0:
        return Unknown(log.why_no_answer())
    return Known(xid_events(log.completed.stdout), str(program))


# --------------------------------------------------------------------------------------------------- driver libraries

OUT_OF_REACH = (WSL_FOLDER, "/run/opengl-driver/lib")  # WSL2, NixOS: in reach only when configured
NOT_REACHED = "not on the loader path"
_DRIVER_VERSION = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")  # WSL's libcuda.so.1.1 tells no version


def find(sonames: tuple[str, ...], environ: Mapping[str, str], root: str) -> dict[str, Fact[tuple[LibraryFile, ...]]]:
    """For each soname the files that carry it, the loader's choice first; a fake `root` is taken for a Linux."""
    if system := systems.other(root):
        return {soname: system.driver_files(soname, environ) for soname in sonames}
    linker, source = LdSo(environ, read_cache(root), root), "LD_LIBRARY_PATH, ldconfig -p, default folders"
    return {soname: Known(tuple(_files(soname, linker, root)), source) for soname in sonames}


def _files(soname: str, linker: LdSo, root: str) -> Iterator[LibraryFile]:
    """Yield the files in the loader's order, then those that it skips or does not come to.

    One that it does not skip but fails on (an empty file) stands first, although nothing is loaded.
    """
    hits = sorted(linker.open(soname, (), all_hits=True).hits, key=lambda hit: hit.effect == "skipped")
    found = {os.path.realpath(below_once(root, hit.path)): (hit.path, hit.problem) for hit in hits}
    for path in (f"{folder}/{soname}" for folder in OUT_OF_REACH):
        if os.path.exists(below(root, path)):
            found.setdefault(os.path.realpath(below(root, path)), (path, NOT_REACHED))
    for real, (path, problem) in found.items():
        version = _DRIVER_VERSION.search(real)
        stub = f"stub of the CUDA toolkit, not a driver: {real}" if "/stubs/" in path or "/stubs/" in real else None
        yield LibraryFile(path, version[1] if version else None, linker.check(path).soname, problem or stub)


# ------------------------------------------------------------------------------------------------------ kernel driver

PROC_VERSION = "/proc/driver/nvidia/version"
MODULES = "/lib/modules"
# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 ..."
# "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (...)"
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.[\d.]*\d)")
# Debian renames the module it builds; the others are nvidia.ko
_MODULE_FILE = re.compile(r"nvidia(?:-current|-tesla(?:-\d+)?|-legacy-\w+)?\.ko(?:\.\w+)?")


def installed_driver(root: str) -> Driver:
    """The driver by the files of the kernel."""
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
    kernels, files = listed(root, MODULES), list[str]()
    for folder in (f"{MODULES}/{kernel}" for kernel in value_or(kernels, ())):
        dependencies = text_in(root, f"{folder}/modules.dep")  # none of headers, or a kernel that is half removed
        paths = (line.partition(":")[0] for line in dependencies.splitlines())
        files += [f"{folder}/{path}" for path in paths if _MODULE_FILE.fullmatch(path.rpartition("/")[2])]
    on_disk = Known(tuple(files), f"{MODULES}/*/modules.dep") if isinstance(kernels, Known) else kernels
    nodes = listed(root, "/dev")
    return Driver(
        version=module,
        kernel_module=module,
        kernel_module_loaded=loaded,
        kernel_module_kind=kind,
        kernel_module_on_disk=on_disk,
        device_nodes=map_fact(nodes, lambda names: tuple(f"/dev/{one}" for one in names if one[:6] == "nvidia")),
    )


def xid_events(log: str) -> tuple[str, ...]:
    """Xid lines of a kernel log, with what dmesg puts before them removed.

    >>> xid_events("[ 4107.3] NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.")
    ('NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.',)
    """
    return tuple(found[0].strip() for found in re.finditer(r"NVRM: Xid .*", log))
