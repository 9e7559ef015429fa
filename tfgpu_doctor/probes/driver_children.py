"""A child process that is asked in a thread of its own, and the lines of JSON that it left."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tfgpu_doctor.probes import process
from tfgpu_doctor.probes.child import BOOT
from tfgpu_doctor.records.facts import CallResult, Fact, Known, Unknown

ROOM = 4_000_000  # characters kept of a child's answers; 16 GPUs with all of their links take a tenth
PER_ANSWER = 200  # what the shortest one is counted as


class Probe:
    """A running child; :meth:`wait` returns at the deadline even when the kernel does not let the child die."""

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str], end: float) -> None:
        """Start `argv`; `end` is the monotonic time at which it is killed."""
        self.name = name
        self.argv = argv
        self.environ = environ
        self.end = end
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
        if size <= self._room and (found := parse(line)) is not None:
            self._lines.append(found)
            self._room -= size

    def wait(self) -> None:
        """Wait for its end, or until a moment after the deadline."""
        self._thread.join(max(self.end - time.monotonic(), 0.0) + process.DRAIN_GRACE)

    @property
    def hung(self) -> bool:
        """Whether it had not ended at the deadline."""
        return self.completed is None or self.completed.timed_out

    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects among what it has written so far."""
        return list(self._lines)

    def last_call(self) -> str:
        """The call that it was in when it ended: "nvmlInit", "nvmlDeviceGetName of GPU 1"."""
        calls = [line for line in self.lines() if "begin" in line]
        if not calls:
            return self.name
        last = calls[-1]
        return f"{last['begin']} of GPU {last['gpu']}" if "gpu" in last else str(last["begin"])

    def why_no_answer(self) -> str:
        """Why the answer to its last call is missing."""
        if self.hung:
            return f"{self.last_call()} did not answer in time"
        completed = self.completed
        assert completed is not None
        if completed.error:
            return f"cannot start {self.argv[0]}: {completed.error}"
        if completed.signal_name:
            return f"{self.last_call()} killed its process with {completed.signal_name}"
        words = completed.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"{self.last_call()} ended with exit code {completed.returncode}: {words[0][:300]}"


Source = Probe | Unknown  # a child that was asked, or why none was


def start_child(module: str, environ: Mapping[str, str], end: float) -> Source:
    """Start a child of this package in our own interpreter."""
    bindings = importlib.util.find_spec("pynvml")
    if not sys.executable or bindings is None or bindings.origin is None:
        return Unknown("no interpreter or no nvidia-ml-py to ask with")
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = (package, os.path.dirname(bindings.origin))
    argv = [sys.executable, "-I", "-S", "-c", BOOT, f"tfgpu_doctor.probes.{module}", *folders]
    return Probe(module, argv, environ, end)


def init_result(probe: Source) -> Fact[CallResult]:
    """What nvmlInit or cuInit answered."""
    if isinstance(probe, Unknown):
        return probe
    call, library = probe.name, None
    for line in probe.lines():
        if "load" in line and "error" in line:
            return Unknown(f"cannot load the library: {line['error']}")
        call, library = line.get("begin", call), line.get("load", library)
        if "init" in line:
            code, name, message = line["init"]
            result = CallResult(code=code, message=message, name=name, library=library)
            return Known(result, f"{call} ({library})" if library else call)
    died = None if probe.hung or probe.completed is None else probe.completed.signal_name
    if died and probe.completed is not None and probe.completed.returncode is not None:
        crash = CallResult(code=probe.completed.returncode, message=probe.why_no_answer(), name=died, library=library)
        return Known(crash, f"{call} ({library})" if library else call)
    return Unknown(probe.why_no_answer())


def answer(probe: Source, key: str) -> Fact[Any]:
    """What NVML or CUDA answered about the whole system under `key`, else why not."""
    init = init_result(probe)
    if isinstance(init, Unknown) or isinstance(probe, Unknown):
        return init if isinstance(init, Unknown) else Unknown("not asked")
    for line in probe.lines():
        if line.get("system") and line.get("key") == key and "begin" not in line:
            if "error" in line:
                return Unknown(f"{line['error'][1]}: {line['error'][2]}")
            return Known(line["value"], init.source.replace("nvmlInit", "NVML").replace("cuInit", "CUDA"))
    if init.value.code:
        return Unknown(f"{init.source}: {init.value.name}: {init.value.message}")
    return Unknown(probe.why_no_answer())


# -------------------------------------------------------------------------------------------------------- child lines
#
# What the children that ask the driver may print: objects of JSON, a line each. Pure.
#
# A child shares its output with the libraries that it loads, so that a line can be anything; one that is none of ours,
# or has another shape, is no answer.

Index = Annotated[int, Meta(ge=0, lt=4096)]
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Described = tuple[int, str, str]  # code, name, message
# key → shape of its value, where it is not a number
_VALUES: dict[str, Any] = {
    **dict.fromkeys(("name", "uuid", "pci_bus_id", "driver_version"), str),
    "count": Index,
    "compute_capability": tuple[int, int],
    "memory": tuple[Number, Number, Number],
    "compute_processes": tuple[tuple[Number, Number | None], ...],
    "graphics_processes": tuple[tuple[Number, Number | None], ...],
    "mig_instances": tuple[str, ...],
    "nvlinks": tuple[tuple[int, bool, str | None], ...],
    "remapped_rows": Annotated[tuple[Number, ...], Meta(min_length=4)],
}


class _Line(Struct):
    """Everything that any of them says; a heading (gpu, pair, system) has a key with a value or an error."""

    begin: str | None = None
    load: str | None = None
    error: Described | str | None = None
    init: Described | None = None
    key: str | None = None
    value: Any = None
    gpu: Index | None = None
    pair: tuple[Index, Index] | None = None
    system: bool = False
    device: Index | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    multiprocessors: Number | None = None
    compute_capability: str | None = None
    memory_total: Number | None = None


def parse(line: str) -> dict[str, Any] | None:
    """An answer of a child; None for anything else."""
    if not line.startswith("{"):
        return None
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return None
    try:
        known = msgspec.convert(found, _Line)
        if known.begin is None and (known.gpu is not None or known.pair or known.system):
            key = found["key"]
            if "error" in found:
                msgspec.convert(known.error, Described)
            else:
                msgspec.convert(found["value"], _VALUES.get(key, Number))
    except (msgspec.ValidationError, KeyError):
        return None
    return (
        found if all(found[name] is not None for name in ("gpu", "device", "pair", "init") if name in found) else None
    )
