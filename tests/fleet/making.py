"""Fleets that never were: reports of many nodes as tfgpu writes them, with what differs by nature, and oddities.

A report is made of the facts of a healthy machine with the cards of its type. What differs between real nodes of one
kind differs here: names, UUIDs, addresses, heat, load, free memory, what the kernel keeps for itself, times, process
ids, an idle link, kernels of a rollout that is under way, extra packages of users, speeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec

from tests.bench import samples
from tests.healthy import MATRIX, SITE, gpu, healthy, known, spoil
from tfgpu_doctor.facts.facts import Facts, LibraryFile, NvLink, Package, PciGpu, TfDevice
from tfgpu_doctor.facts.report import Tool
from tfgpu_doctor.facts.units import GIB
from tfgpu_doctor.plan.diagnosis import make_report

Changes = Callable[[Facts], Facts]


class Type(NamedTuple):
    """A kind of nodes."""

    card: str
    gpus: int
    capability: str
    memory: int
    watts: float
    clock: int
    links: int
    device: str  # PCI id
    cpus: int
    tflops: float


TYPES = (
    Type("NVIDIA H200", 8, "9.0", 150_754_820_096, 700.0, 1980, 18, "10de:2335", 192, 740.0),
    Type("NVIDIA A100-SXM4-80GB", 8, "8.0", 85_899_345_920, 400.0, 1410, 12, "10de:20b2", 128, 140.0),
    Type("NVIDIA L4", 1, "8.9", 24_152_899_584, 72.0, 2040, 0, "10de:27b8", 32, 55.0),
    Type("NVIDIA GeForce RTX 4090", 4, "8.9", 25_757_220_864, 450.0, 3105, 0, "10de:2684", 64, 150.0),
)
PACKAGES = {"tensorflow": "2.21.0", "keras": "3.12.0", "numpy": "2.3.1", "protobuf": "6.31.1"}
PACKAGES |= {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cuda-runtime-cu12": "12.9.79"}
PACKAGES |= {f"another-package-{n}": "12.9.86" for n in range(31)}
FLAGS = ("avx", "avx2", "avx512f", "fma", *(f"avx{n}" for n in range(108)))
DRIVER, OTHER = "580.65.06", "550.54.15"
LOG = tuple(f"2026-11-20 10:00:00.0: I tensorflow/core/cpu_feature_guard.cc:182] line {n} of a log" for n in range(60))
_MARK = re.compile(r'"@@([\w.]+)@@"')


def machine(kind: Type, oddity: Oddity | None = None) -> Facts:
    """A node of this type, healthy but for an oddity, with marks where real ones differ."""
    healthy_gpu: dict[str, Any] = {
        "name": kind.card,
        "compute_capability": kind.capability,
        "multiprocessors": 132,
        "memory_total": kind.memory,
        "memory_used": 500_000_000,
        "memory_free": kind.memory - 500_000_000,
        "power_limit": kind.watts,
        "power": 75.0,
        "utilization": 0,
        "sm_clock": 345,
        "sm_clock_max": kind.clock,
        "memory_clock_max": 2619,
        "memory_bus_width": 5120,
        "ecc_mode": "RTX" not in kind.card,
        "ecc_uncorrected": 0,
        "mig_instances": (),
        "remapped_rows_pending": False,
        "remapped_rows_failed": False,
        "compute_mode": "default",
        "persistence_mode": True,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "nvlinks": tuple(NvLink(link=n, active=True) for n in range(kind.links)),
    }
    bus = [f"0000:{0x18 + 8 * n:02x}:00.0" for n in range(kind.gpus)]
    gpus = tuple(gpu(n, uuid=f"@@gpu.{n}.uuid@@", pci_bus_id=address, **healthy_gpu) for n, address in enumerate(bus))
    capability = {"device_name": kind.card, "compute_capability": kind.capability}
    devices = [TfDevice(name=f"/physical_device:GPU:{n}", kind="GPU", **capability) for n in range(kind.gpus)]
    values = {
        "host.name": "@@host@@",
        "host.distribution": "@@system@@",
        "host.cpu_flags": FLAGS,
        "host.cpus": kind.cpus,
        "host.pci_gpus": tuple(PciGpu(address=one, device_id=kind.device, driver="nvidia") for one in bus),
        "driver.version": DRIVER,
        "driver.cuda_supported": "13.0",
        "driver.kernel_module": DRIVER,
        "driver.cuda_device_count": kind.gpus,
        "driver.xid_events": (),
        "driver.libcuda": (_libcuda(DRIVER),),
        "driver.device_nodes": (*(f"/dev/nvidia{n}" for n in range(kind.gpus)), "/dev/nvidiactl"),
        "gpus": gpus,
        "python.packages": tuple(Package(name=name, version=PACKAGES[name], location=SITE) for name in PACKAGES),
        "tensorflow.devices": (TfDevice(name="/physical_device:CPU:0", kind="CPU"), *devices),
        "tensorflow.log": LOG,
    }
    found = spoil(healthy(), {path: known(value) for path, value in values.items()})
    return oddity.change(found) if oddity else found


def _libcuda(version: str) -> LibraryFile:
    return LibraryFile(path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version=version)


@dataclass(frozen=True)
class Oddity:
    """Something that a few nodes have, and by which group it must be found."""

    name: str
    change: Changes
    finds: tuple[str, ...]  # one of these ids leads a group, or is explained by one
    also: tuple[str, ...] = ()  # beginnings of ids that it may bring besides
    slower: float = 1.0  # what becomes of the speed of GPU 0
    wrong: bool = False  # its results are
    fits: Callable[[Type], bool] = field(default=lambda _: True)


def facts(**changes: Any) -> Changes:
    """Facts by dotted path, with __ for the dot."""
    return lambda found: spoil(found, {path.replace("__", "."): known(value) for path, value in changes.items()})


LAST, EVERY = slice(-1, None), slice(None)


def gpus(which: slice, **changes: Any) -> Changes:
    """These GPUs of the node with other values."""
    fresh = {name: known(value, "NVML") for name, value in changes.items()}

    def change(found: Facts) -> Facts:
        cards = list(found.gpus.value)  # type: ignore[union-attr]
        cards[which] = [msgspec.structs.replace(one, **fresh) for one in cards[which]]
        return spoil(found, {"gpus": known(tuple(cards), "NVML")})

    return change


def package(name: str, version: str) -> Changes:
    """Another version of a package."""

    def change(found: Facts) -> Facts:
        packages = (
            msgspec.structs.replace(one, version=version) if one.name == name else one
            for one in found.python.packages.value  # type: ignore[union-attr]
        )
        return spoil(found, {"python.packages": known(tuple(packages))})

    return change


def _lost(found: Facts) -> Facts:
    gpus, devices = found.gpus.value[:-1], found.tensorflow.devices.value[:-1]  # type: ignore[union-attr]
    count = {"driver.cuda_device_count": known(len(gpus))}
    return spoil(found, {"gpus": known(gpus, "NVML"), "tensorflow.devices": known(devices), **count})


_NEW_DRIVER = {"version": OTHER, "cuda_supported": "12.4", "kernel_module": OTHER, "libcuda": (_libcuda(OTHER),)}
_XID = "NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus."
_MORE_GPUS = {"fits": lambda kind: kind.gpus > 1}
_GROW = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
_LINKS = tuple(NvLink(link=n, active=n > 1) for n in range(18))
ODDITIES: tuple[Oddity, ...] = (
    Oddity(
        "driver",
        facts(**{f"driver__{name}": value for name, value in _NEW_DRIVER.items()}),
        ("driver.version",),
        ("driver.", "cuda.", "python.packages", "gpu."),
    ),
    Oddity("kernel", facts(host__kernel="5.15.0-91-generic"), ("host.kernel",)),
    Oddity("lanes", gpus(LAST, pcie_width=8), ("gpus.pcie_width",)),
    Oddity("narrow", gpus(LAST, pcie_width=4), ("gpu.throttled",), ("gpus.pcie_width",)),
    Oddity("generation", gpus(LAST, pcie_generation_max=3), ("gpus.pcie_generation_max",)),
    Oddity("less memory", gpus(LAST, memory_total=int(20 * GIB)), ("gpus.memory_total",), **_MORE_GPUS),
    Oddity("MIG", gpus(EVERY, mig_mode=True, mig_instances=("MIG 1g.18gb",)), ("gpu.mig",), ("gpus.mig", "gpu.")),
    Oddity("ECC", gpus(EVERY, ecc_mode=False), ("gpus.ecc_mode",), fits=lambda kind: "RTX" not in kind.card),
    Oddity("Xid", facts(driver__xid_events=(_XID,)), ("driver.xid_events",), ("gpu.fault",)),
    Oddity("ECC errors", gpus(LAST, ecc_uncorrected=7), ("gpu.fault",), ("gpus.ecc_uncorrected",)),
    Oddity(
        "cuDNN", package("nvidia-cudnn-cu12", "9.5.0.50"), ("python.packages.nvidia-cudnn-cu12",), ("cudnn.", "python.")
    ),
    Oddity("NumPy", package("numpy", "2.0.2"), ("python.packages.numpy",), ("python.",)),
    Oddity("watts", gpus(EVERY, power_limit=60.0), ("gpus.power_limit",)),
    Oddity("clock", gpus(LAST, sm_clock_max=1200), ("gpus.sm_clock_max",)),
    Oddity("persistence", gpus(EVERY, persistence_mode=False), ("gpus.persistence_mode",)),
    Oddity("lost GPU", _lost, ("gpus",), ("gpu.", "tensorflow.devices", "driver.cuda_device_count"), **_MORE_GPUS),
    Oddity("variable", facts(variables=_GROW), ("variables.TF_FORCE_GPU_ALLOW_GROWTH",), ("env.allow-growth",)),
    Oddity("NVLink", gpus(LAST, nvlinks=_LINKS), ("gpus.nvlinks",), fits=lambda kind: kind.links > 0),
    Oddity("slow", lambda found: found, ("matpow/1 GPU/float32",), slower=0.85),
    Oddity("wrong", lambda found: found, ("matpow/1 GPU/float32/wrong",), wrong=True),
    Oddity("memory", facts(host__memory=32 * GIB), ("host.memory",)),
    Oddity("Python", facts(python__version="3.11.9"), ("python.version",), ("python.", "tf.")),
)
BY_NAME = {one.name: one for one in ODDITIES}


def filled(template: str, values: Callable[[str], Any]) -> str:
    """A result with what one node has in the place of each mark."""
    return _MARK.sub(lambda mark: json.dumps(values(mark[1])), template)


def _marked(document: bytes) -> str:
    """Marks in the place of numbers that differ by nature."""
    found = json.loads(document)
    inner = found.get("facts") or found["environment"]
    found["created"] = "@@created@@"
    for number, one in enumerate(inner["gpus"].get("value", ())):
        for name in ("memory_used", "memory_free", "power", "utilization", "sm_clock", "temperature"):
            one[name]["value"] = f"@@gpu.{number}.{name}@@"
        one["pcie_generation"]["value"] = f"@@gpu.{number}.pcie_generation@@"
    if inner["host"]["memory"]["value"] == 64 * GIB:
        inner["host"]["memory"]["value"] = "@@memory@@"
    inner["host"]["shm"]["value"] = "@@shm@@"
    for phase in inner["tensorflow"]["phases"]:
        phase["seconds"] = "@@seconds@@"
    for n, run in enumerate(found.get("runs", ())):
        if run["throughput"]:
            run["throughput"]["value"] = f"@@speed.{n}@@"
    if "facts" in found:
        found["facts"]["python"]["packages"]["value"].append("@@package@@")
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


@cache
def report(kind: Type, oddity: Oddity | None = None) -> str:
    """Reports of the doctor of such nodes."""
    made = make_report(machine(kind, oddity), MATRIX, source="live", timings={})
    return _marked(made.to_json())


@cache
def bench(kind: Type, oddity: Oddity | None = None) -> str:
    """Results of tfgpu bench of such nodes, with one run for each GPU."""
    runs = []
    for index in range(kind.gpus):
        label = "1 GPU" if kind.gpus == 1 else f"1 GPU (GPU {index})"
        run = samples.run(label, 1e-3, devices=("/GPU:0",))
        if oddity and oddity.wrong and index == 0:
            run = msgspec.structs.replace(run, verified=samples.verified(ok=False), throughput=None)
        runs.append(run)
    result = samples.result(*runs, environment=machine(kind, oddity))
    return _marked(msgspec.structs.replace(result, tool=Tool(name="tfgpu", version="0.1.0")).to_json())


@dataclass
class Made:
    """A fleet, and what was planted in it."""

    lines: list[bytes]
    planted: dict[str, set[str]]  # name of an oddity → names of nodes


def fleet(seed: int, nodes: int = 300, oddities: int = 0, benches: bool = True, first: int = 0) -> Made:
    """A fleet of several types of nodes, with so many oddities of different kinds on one to four nodes each.

    The nodes are numbered from `first`.
    """
    chance = Random(seed)
    types = chance.sample(TYPES, chance.randint(1, len(TYPES)))
    weights = [chance.uniform(1, 3) for _ in types]
    kinds = chance.choices(types, weights, k=nodes)
    odd: dict[int, Oddity] = {}
    possible = [one for one in ODDITIES if any(map(one.fits, set(kinds)))]
    for one in chance.sample(possible, oddities):
        fitting = [n for n in range(nodes) if n not in odd and one.fits(kinds[n])]
        odd.update(dict.fromkeys(chance.sample(fitting, min(chance.randint(1, 4), len(fitting))), one))
    lines, planted = [], dict[str, set[str]]()
    for number, kind in enumerate(kinds):
        one = odd.get(number)
        name = f"gpu-{first + number:05}"
        if one is not None:
            planted.setdefault(one.name, set()).add(name)
        lines += [line.encode() for line in _node(chance, name, kind, one, benches)]
    if oddities:
        chance.shuffle(lines)
    return Made(lines, planted)


def _node(chance: Random, name: str, kind: Type, oddity: Oddity | None, benches: bool) -> Iterator[str]:
    values = _values(chance, name, kind, oddity)
    yield filled(report(kind, oddity), values)
    if benches:
        yield filled(bench(kind, oddity), values)


def _values(chance: Random, name: str, kind: Type, oddity: Oddity | None) -> Callable[[str], Any]:
    uniform = chance.random
    system = f"Ubuntu 24.04.{1 if uniform() < 0.6 else 2} LTS"  # an update that is under way
    extra = {"name": "tensorboard", "version": "2.20.0", "location": SITE, "installer": None, "requires": []}
    if uniform() < 0.4:
        extra = {**extra, "name": "tf-keras"}
    base = chance.getrandbits(60)

    def value(mark: str) -> Any:
        if mark.startswith("speed"):
            slower = oddity.slower if oddity is not None and mark == "speed.0" else 1.0
            return kind.tflops * 1e12 * slower * chance.gauss(1.0, 0.006)
        field = mark.rpartition(".")[2]
        if field == "uuid":
            return f"GPU-{base:016x}-{mark}"
        return fields[field]()

    fields: dict[str, Callable[[], Any]] = {
        "host": lambda: name,
        "system": lambda: system,
        "created": lambda: "2026-11-20T10:00:00Z",
        "memory_used": lambda: int(5e8 + 1e8 * uniform()),
        "memory_free": lambda: int(kind.memory - 5e8 - 1e8 * uniform()),
        "power": lambda: round(70 + 30 * uniform(), 1),
        "utilization": lambda: int(20 * uniform()),
        "sm_clock": lambda: int(210 + 300 * uniform()),
        "temperature": lambda: int(28 + 20 * uniform()),
        "pcie_generation": lambda: 1 if uniform() < 0.7 else 5,
        "memory": lambda: 64 * GIB - int(2e8 * uniform()),
        "shm": lambda: 32 * GIB - int(1e8 * uniform()),
        "seconds": lambda: 0.1 + uniform(),
        "package": lambda: extra,
    }
    return value
